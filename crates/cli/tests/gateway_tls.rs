//! Tests `gateway` with TLS: origins with https://, clients that connect over TLS, and DTLS between two gateways.
//!
//! nginx acts as an origin and curl as a client.

#![cfg(target_os = "linux")]

use crate::http2::Nginx;
use crate::running::{Running, Scratch, anabranch, errors, get, has, noise, run};
use crate::secure::certificate;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;

const TCP: &str = "tcp://127.0.0.1:0";
const HTTPS: &str = "https://127.0.0.1:0";

/// Starts a command whose self-signed certificate is kept in `scratch`.
fn start(scratch: &Scratch, arguments: &[&str]) -> Running {
    let mut command = anabranch();
    command.env("XDG_STATE_HOME", scratch.text()).args(arguments);
    Running::start_as(command, Stdio::null())
}

/// The path of the self-signed certificate of a command that was started with `start`.
fn own_certificate(scratch: &Scratch) -> String {
    format!("{}/anabranch/self-signed.pem", scratch.text())
}

/// The host and port of a URL.
fn at(url: &str) -> String {
    url.split("://").nth(1).expect("a URL").trim_end_matches('/').to_owned()
}

#[test]
fn an_origin_of_https_is_reached_by_name_and_believed_by_trust() {
    if !has("nginx") || !has("openssl") {
        return;
    }
    let scratch = Scratch::new("gateway-tls-origin");
    let body = noise(2_000_000);
    scratch.file("big.bin", &body);
    let seen = "ssl_protocols TLSv1.3; add_header Seen \"$ssl_server_name $ssl_protocol $ssl_alpn_protocol $http_host\" always;";
    let nginx = Nginx::start(&scratch, seen);
    let (origin, trust) = (format!("localhost:{}", nginx.port), format!("{}/cert.pem", scratch.text()));
    // The gateway is a proxy, and the request has an https:// URL. The gateway must send the server name (RFC 6066 §3)
    // and negotiate HTTP/1.1.
    let gateway = start(&scratch, &["gateway", "--listen", TCP, "-q", "--allow", &origin, "--trust", &trust]);
    for _ in 0..2 {
        let request =
            format!("HEAD https://{origin}/big.bin HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let answer = gateway.ask(request);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(answer.contains(&format!("Seen: localhost TLSv1.3 http/1.1 {origin}\r\n")), "{answer}");
    }
    // The rule names one host and one port. Requests for another host or port must be rejected.
    for other in ["https://localhost/", "https://localhost:1/", "https://127.0.0.1/"] {
        let answer = gateway.ask(format!("GET {other} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 403 "), "{other}: {answer}");
    }
    // Through a tunnel, the TLS connection is between the client and the origin.
    if has("curl") {
        let proxy = format!("http://{}", gateway.tcp());
        let output = run(Command::new("curl")
            .args(["-s", "--max-time", "60", "--proxy", &proxy, "--cacert", &trust, "--http2"])
            .args(["-w", "%{stderr}%{http_version}", &format!("https://{origin}/big.bin")]));
        assert!(output.stdout == body, "another body through a tunnel");
        assert_eq!(errors(&output), "2");
    }
    assert_eq!(gateway.end_with_lines().0, 0);
    // The gateway is a reverse proxy in front of one server.
    let url = format!("https://{origin}");
    let gateway = start(&scratch, &["gateway", "--listen", TCP, "-q", "--origin", &url, "--trust", &trust]);
    let (code, err, out) = get(&format!("{}big.bin", gateway.url("http")), &[]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out == body, "another body");
    // nginx writes its own URL in the Location field. The gateway must shorten it to a path.
    scratch.file("d/index.html", "x");
    let answer = gateway.ask("GET /d HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert!(answer.contains("\r\nLocation: /d/\r\n"), "{answer}");
    assert_eq!(gateway.end(), 0);
}

#[test]
fn an_untrusted_origin_is_a_502_and_one_log_line() {
    if !has("openssl") {
        return;
    }
    let scratch = Scratch::new("gateway-tls-stranger");
    scratch.file("index.html", "secret");
    let (good, good_key) = certificate(&scratch, "good", "30");
    let (expired, expired_key) = certificate(&scratch, "expired", "-1");
    let serve = |arguments: &[&str]| {
        start(&scratch, &[&["serve", scratch.text(), "-q", "--listen", HTTPS], arguments].concat())
    };
    let (valid, old) =
        (serve(&["--cert", &good, "--key", &good_key]), serve(&["--cert", &expired, "--key", &expired_key]));
    // This server speaks no TLS.
    let plain = TcpListener::bind("127.0.0.1:0").expect("listening");
    let port = plain.local_addr().expect("an address").port();
    thread::spawn(move || {
        for mut stream in plain.incoming().map_while(Result::ok) {
            let mut buffer = [0; 4096];
            let length = stream.read(&mut buffer).unwrap_or(0);
            assert!(!buffer[..length].windows(4).any(|four| four == b"GET "), "it was asked in the clear");
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let port_of = |running: &Running| at(running.url("https")).rsplit(':').next().expect("a port").to_owned();
    let (valid_port, old_port) = (port_of(&valid), port_of(&old));
    let gateway = start(
        &scratch,
        &["gateway", "--listen", TCP, "-q", "--allow", "localhost:*", "--allow", "127.0.0.1:*"],
    );
    let believing = start(
        &scratch,
        &[
            "gateway",
            "--listen",
            TCP,
            "-q",
            "--allow",
            "localhost:*",
            "--allow",
            "127.0.0.1:*",
            "--trust",
            &expired,
        ],
    );
    let cases = [
        (&gateway, format!("localhost:{valid_port}"), "signed by nobody who is trusted"),
        (&believing, format!("localhost:{old_port}"), "the server's certificate has expired"),
        (&believing, format!("localhost:{port}"), "what the peer sent is not TLS"),
    ];
    for (gateway, origin, says) in cases {
        let request =
            format!("GET https://{origin}/index.html HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let answer = gateway.ask(request);
        assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
        assert!(answer.contains(says) && !answer.contains("secret"), "{answer}");
        gateway.wait_for_line(&format!("https://{origin}: "));
    }
    // The certificate is valid, but for another name.
    let named =
        start(&scratch, &["gateway", "--listen", TCP, "-q", "--allow", "127.0.0.1:*", "--trust", &good]);
    let request =
        format!("GET https://127.0.0.1:{valid_port}/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert!(named.ask(request).contains("the server's certificate is not for 127.0.0.1"));
    let (code, lines) = named.end_with_lines();
    let name_errors: Vec<_> = lines.iter().filter(|line| line.contains("certificate is not for")).collect();
    assert_eq!((code, name_errors.len()), (0, 1), "{lines:?}");
    assert!(
        name_errors[0].contains(&format!("https://127.0.0.1:{valid_port}: not trusted: ")),
        "{name_errors:?}"
    );
}

/// Starts an origin that answers every request with the request's own head.
fn mirror() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listening");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
                head.push(byte[0]);
            }
            let answer =
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", head.len());
            let _ = stream.write_all(&[answer.as_bytes(), &head].concat());
        }
    });
    address.to_string()
}

#[test]
fn clients_come_over_tls_and_the_origin_is_told() {
    if !has("curl") || !has("openssl") {
        return;
    }
    let scratch = Scratch::new("gateway-tls-listen");
    let origin = mirror();
    let (old, old_key) = certificate(&scratch, "old", "30");
    let (new, new_key) = certificate(&scratch, "new", "30");
    let (now, now_key) = (format!("{}/now.pem", scratch.text()), format!("{}/now.key", scratch.text()));
    let replace_certificate = |certificate: &str, key: &str| {
        fs::copy(certificate, &now).expect("copied");
        fs::copy(key, &now_key).expect("copied");
    };
    replace_certificate(&old, &old_key);
    let arguments =
        ["gateway", "--listen", HTTPS, "-q", "--origin", &format!("http://{origin}"), "--threads", "2"];
    let gateway = start(&scratch, &[&arguments[..], &["--cert", &now, "--key", &now_key]].concat());
    let url = gateway.url("https").replace("127.0.0.1", "localhost");
    let curl = |trust: &str, arguments: &[&str]| {
        let output = run(Command::new("curl")
            .args(["-s", "--max-time", "60", "--cacert", trust, "-w", "%{stderr}%{http_version}"])
            .args(arguments));
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned(), errors(&output))
    };
    // The client offers HTTP/2, but the gateway must speak HTTP/1.1.
    let (succeeded, curl_output, version) = curl(&old, &["--http2", &format!("{url}a?b")]);
    assert_eq!((succeeded, version.as_str()), (true, "1.1"), "{curl_output}");
    assert!(curl_output.starts_with("GET /a?b HTTP/1.1\r\n"), "{curl_output}");
    let host = at(&url);
    for line in [
        format!("Forwarded: for=127.0.0.1;host=\"{host}\";proto=https\r\n"),
        "X-Forwarded-Proto: https\r\n".to_owned(),
    ] {
        assert!(curl_output.contains(&line), "{curl_output}");
    }
    replace_certificate(&new, &new_key);
    gateway.hang_up();
    gateway.wait_for_line("certificate: read again from ");
    assert!(curl(&new, &[&url]).0 && !curl(&old, &[&url]).0);
    assert_eq!(gateway.end(), 0);
    // The gateway is a proxy that is reached over TLS, with a self-signed certificate.
    let gateway = start(&scratch, &["gateway", "--listen", HTTPS, "-q", "--allow", &origin]);
    let proxy = gateway.url("https").to_owned();
    let (succeeded, curl_output, _) = curl(
        &old,
        &["--proxy", &proxy, "--proxy-cacert", &own_certificate(&scratch), &format!("http://{origin}/c")],
    );
    assert!(succeeded && curl_output.starts_with("GET /c HTTP/1.1\r\n"), "{curl_output}");
    let tunnel = ["--proxytunnel", "--proxy", &proxy, "--proxy-cacert", &own_certificate(&scratch)];
    let (succeeded, curl_output, _) = curl(&old, &[&tunnel[..], &[&format!("http://{origin}/d")]].concat());
    assert!(succeeded && curl_output.starts_with("GET /d HTTP/1.1\r\n"), "{curl_output}");
    // A client without TLS must receive at most an alert.
    let mut stream = TcpStream::connect(at(&proxy)).expect("connected");
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").expect("sent");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.first().is_none_or(|kind| *kind == 21), "{answer:?}");
    assert_eq!(gateway.end(), 0);
}

#[test]
fn two_gateways_communicate_over_dtls() {
    let scratch = Scratch::new("gateway-dtls");
    let body = noise(1_000_000);
    scratch.file("site/big.bin", &body);
    let site = format!("{}/site", scratch.text());
    let server = start(&scratch, &["serve", &site, "-q", "--listen", TCP, "--listen", HTTPS]);
    let own = own_certificate(&scratch);
    let far = start(
        &scratch,
        &["gateway", "--listen", "https+sctp://127.0.0.1:0", "-q", "--allow", "127.0.0.1:*", "--trust", &own],
    );
    let via = far.url("https+sctp").to_owned();
    let near = start(&scratch, &["gateway", "--listen", TCP, "-q", "--via", &via, "--trust", &own]);
    for scheme in ["http", "https"] {
        let url = format!("{scheme}://{}/big.bin", at(server.url(scheme)));
        let mut stream = near.connect();
        write!(stream, "GET {url} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("sent");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(
            answer.starts_with(b"HTTP/1.1 200 "),
            "{}",
            String::from_utf8_lossy(&answer[..200.min(answer.len())])
        );
        assert!(answer.ends_with(&body), "{scheme}: another body");
    }
    // A gateway that does not trust the other gateway must forward nothing.
    let stranger = start(
        &scratch,
        &["gateway", "--listen", TCP, "-q", "--via", &via, "--trust", &format!("sha256:{}", "00".repeat(32))],
    );
    let url = format!("http://{}/big.bin", at(server.url("http")));
    let answer = stranger.ask(format!("GET {url} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
    assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("another fingerprint"), "{answer}");
    for running in [stranger, near, far, server] {
        assert_eq!(running.end(), 0);
    }
}
