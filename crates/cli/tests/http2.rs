//! HTTP/2 in the real world: chosen by ALPN over TLS, known beforehand in the clear, beside curl and nginx.

#![cfg(target_os = "linux")]

use crate::running::{Running, Scratch, anabranch, errors, has, noise, run};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// A server over TLS and in the clear, with a log.
fn serve(place: &Scratch, log: &str) -> Running {
    let mut command = anabranch();
    command.env("XDG_STATE_HOME", place.text());
    command.args(["serve", place.text(), "--listen", "https://127.0.0.1:0", "--listen", "tcp://127.0.0.1:0"]);
    Running::start_as(command, fs::File::create(place.file(log, "")).expect("a log"))
}

fn get(url: &str, words: &[&str]) -> (Option<i32>, String, Vec<u8>) {
    let output = run(anabranch().args(["get", "--quiet", "--insecure", url]).args(words));
    (output.status.code(), errors(&output), output.stdout)
}

#[test]
fn curl_speaks_both_versions_over_tls_and_in_the_clear() {
    if !has("curl") {
        return;
    }
    let place = Scratch::new("http2-curl");
    let body = noise(900_000);
    place.file("big.bin", &body);
    let server = serve(&place, "log");
    for (scheme, flag, version) in [
        ("https", "--http2", "2"),
        ("https", "--http1.1", "1.1"),
        ("http", "--http2-prior-knowledge", "2"),
        ("http", "--http1.1", "1.1"),
    ] {
        let url = format!("{}big.bin", server.url(scheme));
        let output = run(Command::new("curl").args([
            "-s",
            "-k",
            "--max-time",
            "60",
            flag,
            "-w",
            "%{stderr}%{http_version} %{http_code}",
            &url,
        ]));
        assert_eq!(errors(&output).trim(), format!("{version} 200"), "{scheme} {flag}");
        assert!(output.stdout == body, "{scheme} {flag}: another body");
    }
    let url = format!("{}none", server.url("https"));
    let output = run(Command::new("curl").args(["-s", "-k", "--http2", "-I", "-w", "%{http_code}", &url]));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("HTTP/2 404"), "{output:?}");
    assert_eq!(server.end(), 0, "every session has ended");
    let log = fs::read_to_string(format!("{}/log", place.text())).expect("a log");
    assert_eq!(log.matches("\"GET /big.bin HTTP/2.0\" 200 900000").count(), 2, "{log}");
    assert_eq!(log.matches("\"GET /big.bin HTTP/1.1\" 200 900000").count(), 2, "{log}");
    assert_eq!(log.matches("\"HEAD /none HTTP/2.0\" 404 0").count(), 1, "{log}");
}

#[test]
fn our_client_has_a_stream_for_each_object_where_the_server_chooses_http_2() {
    let place = Scratch::new("http2-get");
    let bodies: Vec<Vec<u8>> = (0..5).map(|n| noise(200_000 + n)).collect();
    for (n, body) in bodies.iter().enumerate() {
        place.file(&format!("{n}.bin"), body);
    }
    let server = serve(&place, "log");
    let out = format!("{}/out/", place.text());
    let urls: Vec<String> = (0..5).map(|n| format!("{}{n}.bin", server.url("https"))).collect();
    let json = format!("{}/result.json", place.text());
    let output =
        run(anabranch().args(["get", "--quiet", "--insecure", "-o", &out, "--json", &json]).args(&urls));
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    for (n, body) in bodies.iter().enumerate() {
        assert!(&fs::read(format!("{out}{n}.bin")).expect("written") == body, "{n}.bin");
    }
    let result: serde_json::Value =
        serde_json::from_slice(&fs::read(&json).expect("a result")).expect("JSON");
    let objects = result["objects"].as_array().expect("a list");
    let mut streams: Vec<_> = objects.iter().filter_map(|object| object["stream"].as_u64()).collect();
    streams.sort_unstable();
    assert_eq!(streams, [1, 3, 5, 7, 9]);
    // Said, it is so; in the clear nothing is chosen.
    for (scheme, words, version) in [
        ("https", &["--http", "1.1"][..], "HTTP/1.1"),
        ("https", &["--http", "2"], "HTTP/2.0"),
        ("http", &[], "HTTP/1.1"),
        ("http", &["--http", "2"], "HTTP/2.0"),
    ] {
        let url = format!("{}0.bin?{scheme}{}", server.url(scheme), words.concat());
        let trust: &[&str] = if scheme == "https" { &["--insecure"] } else { &[] };
        let output = run(anabranch().args(["get", "--quiet", &url]).args(trust).args(words));
        assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
        assert!(output.stdout == bodies[0], "{url}");
        let log = fs::read_to_string(format!("{}/log", place.text())).expect("a log");
        let line = log.lines().find(|line| line.contains(&format!("?{scheme}{} ", words.concat())));
        assert!(line.is_some_and(|line| line.contains(version)), "{url}: {log}");
    }
    let (code, err, _) = get(&format!("{}none", server.url("https")), &[]);
    assert_eq!(code, Some(1));
    assert!(err.contains("status 404"), "{err}");
    assert_eq!(server.end(), 0);
}

/// Bytes that begin as the preface of HTTP/2 and go on otherwise are HTTP/1.1's to refuse; those that stop are not waited for.
#[test]
fn what_only_begins_like_http_2_is_no_http_2() {
    let place = Scratch::new("http2-preface");
    place.file("index.html", "hello");
    let mut command = anabranch();
    command.args([
        "serve",
        place.text(),
        "--quiet",
        "--listen",
        "tcp://127.0.0.1:0",
        "--header-timeout",
        "1s",
    ]);
    let server = Running::start_as(command, Stdio::null());
    let said = |parts: &[&[u8]]| {
        let mut stream = TcpStream::connect(server.tcp()).expect("connected");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
        for part in parts {
            stream.write_all(part).expect("sent");
            thread::sleep(Duration::from_millis(30));
        }
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    };
    let close = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    assert!(said(&[close]).ends_with("hello"));
    assert!(
        said(&[b"P", b"UT / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"]).starts_with("HTTP/1.1 405")
    );
    assert!(said(&[b"PRI * HTTP/2.0\r\n\r\nSX\r\n\r\n"]).starts_with("HTTP/1.1 400"));
    assert_eq!(said(&[b"PRI * HT"]), "", "it has not gone on");
    // A frame that is none: an answer in frames at most, and the end.
    let garbage = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &[0xff; 64]].concat();
    assert!(!said(&[&garbage]).contains("HTTP/1.1"));
    assert_eq!(server.end(), 0);
}

#[test]
fn our_client_gets_from_nginx() {
    if !has("nginx") || !has("openssl") {
        return;
    }
    let place = Scratch::new("http2-nginx");
    let file = |name: &str| format!("{}/{name}", place.text());
    let made = run(Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=localhost"])
        .args(["-keyout", &file("key.pem"), "-out", &file("cert.pem")])
        .args(["-addext", "subjectAltName=DNS:localhost"]));
    assert!(made.status.success(), "{}", errors(&made));
    let body = noise(3_000_000);
    place.file("big.bin", &body);
    let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
    let config = format!(
        "daemon off; pid {0}/pid; error_log {0}/errors; events {{}}\n\
         http {{ access_log {0}/log; client_body_temp_path {0}/a; proxy_temp_path {0}/b; fastcgi_temp_path {0}/c;\n\
         uwsgi_temp_path {0}/d; scgi_temp_path {0}/e;\n\
         server {{ listen 127.0.0.1:{port} ssl http2; ssl_certificate {0}/cert.pem; ssl_certificate_key {0}/key.pem;\n\
         root {0}; }} }}\n",
        place.text()
    );
    place.file("nginx.conf", config);
    let mut nginx = Command::new("nginx")
        .args(["-p", place.text(), "-c", &file("nginx.conf"), "-g", "master_process off;"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("nginx");
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        thread::sleep(Duration::from_millis(20));
        assert!(nginx.try_wait().expect("a child").is_none(), "nginx has ended");
    }
    let url = format!("https://localhost:{port}/big.bin");
    let output = run(anabranch().args(["get", "--quiet", "--trust", &file("cert.pem"), &url]));
    let (same, err) = (output.stdout == body, errors(&output));
    nginx.kill().expect("killed");
    nginx.wait().expect("ended");
    assert_eq!((output.status.code(), err.as_str(), same), (Some(0), "", true));
    let log = fs::read_to_string(file("log")).expect("a log");
    assert!(log.contains("\"GET /big.bin HTTP/2.0\" 200 3000000"), "{log}");
}
