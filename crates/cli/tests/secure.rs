//! Tests `https://`: which certificates are trusted, the errors for other certificates, and interoperation with curl
//! and OpenSSL.

#![cfg(target_os = "linux")]

use crate::running::{
    Running, Scratch, anabranch, errors, get, has, noise, run, serve_at, wait_until_listening,
};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::thread;

/// Starts a server over TLS whose certificate is kept in `scratch`.
fn serve(scratch: &Scratch, arguments: &[&str]) -> Running {
    serve_at("https://127.0.0.1:0", scratch, arguments)
}

/// Ends the server and returns the fingerprint that it printed.
fn end_and_get_fingerprint(server: Running) -> String {
    let (code, lines) = server.end_with_lines();
    assert_eq!(code, 0, "{lines:?}");
    let fingerprint = lines.iter().find_map(|line| line.split("--trust ").nth(1));
    fingerprint.unwrap_or_else(|| panic!("no fingerprint in {lines:?}")).to_owned()
}

#[test]
fn a_certificate_of_its_own_is_made_once_and_believed_by_fingerprint_or_file() {
    let scratch = Scratch::new("tls-own");
    let body = noise(700_000);
    scratch.file("big.bin", &body);
    let fingerprint = end_and_get_fingerprint(serve(&scratch, &[]));
    let server = serve(&scratch, &[]);
    let url = format!("{}big.bin", server.url("https"));
    let certificate = format!("{}/anabranch/self-signed.pem", scratch.text());
    let mode = fs::metadata(&certificate).expect("kept").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "its key is nobody else's");
    for trust in [["--trust", &fingerprint], ["--trust", &certificate]] {
        let (code, err, out) = get(&url, &trust);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{trust:?}");
        assert!(out == body, "{trust:?}: another body");
    }
    let (code, err, out) = get(&url, &["--insecure"]);
    assert_eq!((code, out == body), (Some(0), true));
    assert_eq!(err.lines().count(), 1, "each time: {err}");
    assert!(err.contains("--insecure: the server is not authenticated"), "{err}");
    assert_eq!(end_and_get_fingerprint(server), fingerprint, "the same one after a restart");
}

#[test]
fn who_is_not_to_be_believed_is_asked_for_nothing() {
    let scratch = Scratch::new("tls-stranger");
    let server = serve(&scratch, &[]);
    let url = server.url("https").to_owned();
    let other = format!("sha256:{}", "00".repeat(32));
    for (arguments, says) in [
        (&[][..], "signed by nobody who is trusted"),
        (&["--trust", other.as_str()][..], "the server's certificate has another fingerprint, sha256:"),
    ] {
        let (code, err, out) = get(&url, arguments);
        assert_eq!((code, err.lines().count(), out.is_empty()), (Some(1), 1, true), "{err}");
        assert!(err.contains(says), "{err}");
    }
    // The certificate names 127.0.0.1. The client connects to another address of the same host, which the certificate
    // does not name.
    let certificate = format!("{}/anabranch/self-signed.pem", scratch.text());
    let port = url.trim_end_matches('/').rsplit(':').next().expect("a port").to_owned();
    drop(end_and_get_fingerprint(server));
    let mut command = anabranch();
    let listen = format!("https://*:{port}");
    command.env("XDG_STATE_HOME", scratch.text());
    command.args(["serve", scratch.text(), "--quiet", "--listen", &listen]);
    let server = Running::start_as(command, Stdio::null());
    let (code, err, _) = get(&format!("https://127.0.0.2:{port}/"), &["--trust", &certificate]);
    assert_eq!(code, Some(1));
    assert!(err.contains("the server's certificate is not for 127.0.0.2, but for"), "{err}");
    drop(end_and_get_fingerprint(server));
}

#[test]
fn flags_that_nothing_would_heed_are_refused() {
    let scratch = Scratch::new("tls-flags");
    let nothing = scratch.secret_file("empty.pem", "");
    let nothing = nothing.to_str().expect("UTF-8");
    let dry = |arguments: &[&str]| {
        let output = run(anabranch().args(arguments));
        (output.status.code(), errors(&output))
    };
    for (arguments, says) in [
        (&["get", "http://127.0.0.1/", "--insecure"][..], "no URL uses TLS; write https://"),
        (&["get", "https://127.0.0.1/", "--trust", "sha256:12"], "64 hexadecimal digits"),
        (&["get", "https://127.0.0.1/", "--trust", nothing], "it holds no certificate"),
        (&["get", "https://127.0.0.1/", "--trust", "/nonexistent"], "/nonexistent: No such file"),
        (&["load", "https://127.0.0.1/", "-c", "1", "--trust", nothing], "it holds no certificate"),
        (&["serve", ".", "--cert", nothing, "--key", nothing], "add --listen https://"),
        (
            &["serve", ".", "--listen", "https://127.0.0.1:0", "--cert", nothing, "--key", nothing],
            "it holds no certificate",
        ),
        (
            &["gateway", "--origin", "http://127.0.0.1:1", "--insecure"],
            "this gateway reaches nothing over TLS",
        ),
        (&["gateway", "--allow", "*", "--trust", nothing], "it holds no certificate"),
        (&["gateway", "--allow", "*", "--cert", nothing, "--key", nothing], "add --listen https://"),
    ] {
        let (code, err) = dry(arguments);
        assert_eq!((code, err.lines().count()), (Some(2), 1), "{arguments:?}: {err}");
        assert!(err.contains(says), "{arguments:?}: {err}");
    }
}

#[test]
fn curl_and_openssl_come_by_tls_1_3_and_1_2_and_by_nothing_older() {
    if !has("curl") || !has("openssl") {
        return;
    }
    let scratch = Scratch::new("tls-curl");
    scratch.file("index.html", "hello");
    let server = serve(&scratch, &[]);
    let certificate_file = format!("{}/anabranch/self-signed.pem", scratch.text());
    let url = server.url("https").to_owned();
    for (version, comes) in [("1.3", true), ("1.2", true), ("1.1", false)] {
        let output = run(Command::new("curl")
            .args(["-s", "--max-time", "60", "--cacert", &certificate_file])
            .args(["--tls-max", version, &url]));
        assert_eq!(output.status.success(), comes, "TLS {version}");
        assert_eq!(output.stdout, if comes { &b"hello"[..] } else { b"" }, "TLS {version}");
    }
    let at = url.trim_start_matches("https://").trim_end_matches('/').to_owned();
    let output = run(Command::new("openssl")
        .args(["s_client", "-connect", &at, "-alpn", "h9,http/1.1", "-CAfile", &certificate_file])
        .stdin(Stdio::null()));
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        stdout.contains("ALPN protocol: http/1.1") && stdout.contains("Verify return code: 0"),
        "{stdout}"
    );
    assert_eq!(server.end(), 0, "every session has ended");
}

/// RFC 9110 §15.5.20: a server with a certificate from `--cert` must not serve hosts that the certificate does not
/// name. Without `--cert`, the server creates a self-signed certificate and serves every host name.
#[test]
fn a_host_that_the_certificate_does_not_name_is_misdirected() {
    if !has("curl") || !has("openssl") {
        return;
    }
    let scratch = Scratch::new("tls-misdirected");
    scratch.file("index.html", "hello");
    let (cert, key) = certificate(&scratch, "given", "30");
    for (arguments, misdirected) in
        [(&["--cert", cert.as_str(), "--key", key.as_str()][..], "421"), (&[], "200")]
    {
        let server = serve(&scratch, arguments);
        for version in ["--http1.1", "--http2"] {
            for (host, status) in [("localhost", "200"), ("elsewhere.example", misdirected)] {
                let output = run(Command::new("curl")
                    .args(["-s", "-k", "--max-time", "60", "-o", "/dev/null", "-w", "%{http_code}", version])
                    .args(["-H", &format!("Host: {host}"), server.url("https")]));
                let stdout = String::from_utf8_lossy(&output.stdout);
                assert_eq!(stdout, status, "{version} {host} {arguments:?}");
            }
        }
        assert_eq!(server.end(), 0);
    }
}

#[test]
fn our_client_gets_from_openssl_with_a_chain_of_files() {
    if !has("openssl") {
        return;
    }
    let scratch = Scratch::new("tls-openssl");
    let file = |name: &str| format!("{}/{name}", scratch.text());
    let output = run(Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30"])
        .args([
            "-keyout",
            &file("key.pem"),
            "-out",
            &file("cert.pem"),
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost",
        ]));
    assert!(output.status.success(), "{}", errors(&output));
    // OpenSSL's server answers one request with a page of its own.
    let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
    let mut server = Command::new("openssl")
        .args(["s_server", "-www", "-quiet", "-accept", &format!("127.0.0.1:{port}")])
        .args(["-cert", &file("cert.pem"), "-key", &file("key.pem")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl");
    wait_until_listening(&mut server, ([127, 0, 0, 1], port).into());
    let (code, err, out) = get(&format!("https://localhost:{port}/"), &["--trust", &file("cert.pem")]);
    server.kill().expect("killed");
    server.wait().expect("ended");
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(String::from_utf8_lossy(&out).contains("TLSv1.3"), "its page tells what was spoken");
}

#[test]
fn a_server_that_speaks_no_tls_and_a_client_that_speaks_none() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listening");
    let at = listener.local_addr().expect("an address");
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let (code, err, _) = get(&format!("https://{at}/"), &["--insecure"]);
    assert_eq!(code, Some(1));
    assert!(err.contains("what the peer sent is not TLS"), "{err}");

    let scratch = Scratch::new("tls-plain");
    let server = serve(&scratch, &[]);
    let at = server.url("https").trim_start_matches("https://").trim_end_matches('/').to_owned();
    let mut stream = TcpStream::connect(at).expect("connected");
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").expect("sent");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    // The server may send an alert (RFC 8446 §6), but no part of the site.
    assert!(answer.first().is_none_or(|kind| *kind == 21), "{answer:?}");
    assert_eq!(server.end(), 0);
}

#[test]
fn a_load_over_tls_counts_what_it_gets() {
    let scratch = Scratch::new("tls-load");
    scratch.file("x", "x");
    let server = serve(&scratch, &["--threads", "2"]);
    let url = format!("{}x", server.url("https"));
    let output =
        run(anabranch().args(["load", &url, "--insecure", "-c", "3", "--requests", "60", "--quiet"]));
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("replies 60"), "{text}");
    assert_eq!(server.end(), 0);
}

/// Makes a certificate for localhost with OpenSSL. Returns the paths of the certificate and its key.
pub fn certificate(scratch: &Scratch, name: &str, days: &str) -> (String, String) {
    let file = |end: &str| format!("{}/{name}.{end}", scratch.text());
    let create = |arguments: &[&str]| {
        let output = run(Command::new("openssl").args(arguments));
        assert!(output.status.success(), "{}", errors(&output));
    };
    let (key, request, certificate) = (file("key"), file("csr"), file("pem"));
    create(&[
        "req",
        "-new",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-subj",
        // The subject is not `localhost`, because the system that runs the test may already trust a certificate with
        // that subject.
        &format!("/CN=test of {name}"),
        "-keyout",
        &key,
        "-out",
        &request,
    ]);
    scratch.file(&format!("{name}.ext"), "subjectAltName=DNS:localhost");
    let sign =
        ["x509", "-req", "-in", &request, "-signkey", &key, "-out", &certificate, "-extfile", &file("ext")];
    create(&[&sign[..], &["-days", days]].concat());
    (certificate, key)
}

/// Starts an OpenSSL server with `arguments`, runs `get` against it, and returns the error that `get` prints. `get`
/// must not send a request.
fn fetch_with_openssl(arguments: &[&str], trust: &str) -> String {
    let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
    let mut server = Command::new("openssl")
        .args(["s_server", "-accept", &format!("127.0.0.1:{port}")])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl");
    wait_until_listening(&mut server, ([127, 0, 0, 1], port).into());
    let (code, err, out) = get(&format!("https://localhost:{port}/"), &["--trust", trust]);
    server.kill().expect("killed");
    let stdout = server.wait_with_output().expect("ended").stdout;
    assert!(!String::from_utf8_lossy(&stdout).contains("GET "), "it was asked: {err}");
    assert_eq!((code, err.lines().count(), out.is_empty()), (Some(1), 1, true), "{err}");
    err
}

#[test]
fn an_expired_certificate_and_an_old_version_are_a_line_each() {
    if !has("openssl") {
        return;
    }
    let scratch = Scratch::new("tls-expired");
    let (certificate_file, key) = certificate(&scratch, "good", "30");
    let (expired, expired_key) = certificate(&scratch, "expired", "-1");
    let output = fetch_with_openssl(&["-cert", &expired, "-key", &expired_key], &expired);
    assert!(output.contains("the server's certificate has expired"), "{output}");
    let old = ["-cert", &certificate_file, "-key", &key, "-tls1_1", "-cipher", "ALL:@SECLEVEL=0"];
    let output = fetch_with_openssl(&old, &certificate_file);
    assert!(output.contains("does not speak this version of TLS"), "{output}");
}

/// An attacker removes TLS 1.3 from the versions that the client offers. The client must detect that (RFC 8446 §4.1.3).
#[test]
fn a_downgrade_is_refused() {
    let scratch = Scratch::new("tls-downgrade");
    scratch.file("index.html", "hello");
    let server = serve(&scratch, &[]);
    let at = server.url("https").trim_start_matches("https://").trim_end_matches('/').to_owned();
    let between = TcpListener::bind("127.0.0.1:0").expect("listening");
    let address = between.local_addr().expect("an address");
    let thread = thread::spawn(move || {
        let (mut client, _) = between.accept().expect("a client");
        let mut server = TcpStream::connect(at).expect("connected");
        let mut hello = vec![0; 4096];
        let length = client.read(&mut hello).expect("a hello");
        hello.truncate(length);
        // The extension supported_versions offers TLS 1.3 and 1.2. The attacker changes 1.3 to 1.2, so the extension
        // offers 1.2 twice.
        let offer = [0, 43, 0, 5, 4, 3, 4, 3, 3];
        let found = hello
            .windows(offer.len())
            .position(|bytes| bytes == offer)
            .expect("the client offers 1.3 and 1.2");
        hello[found + 6] = 3;
        server.write_all(&hello).expect("sent");
        let mut answer = vec![0; 16 * 1024];
        let length = server.read(&mut answer).expect("an answer");
        client.write_all(&answer[..length]).expect("sent");
        let mut rest = Vec::new();
        let _ = client.read_to_end(&mut rest);
        (answer, rest)
    });
    let (code, err, out) = get(&format!("https://{address}/"), &["--insecure"]);
    let (answer, rest) = thread.join().expect("ended");
    assert!(
        answer.windows(8).any(|bytes| bytes == b"DOWNGRD\x01"),
        "the server says that it could do better"
    );
    assert_eq!((code, out.is_empty()), (Some(1), true), "{err}");
    assert!(err.contains("somebody on the way took TLS 1.3 out of the offer"), "{err}");
    // The client may only send an alert (RFC 8446 §6).
    assert!(rest.first().is_none_or(|kind| *kind == 21), "{rest:?}");
    drop(server);
}

#[test]
fn certificates_are_read_again_on_sighup() {
    if !has("openssl") {
        return;
    }
    let scratch = Scratch::new("tls-reload");
    scratch.file("index.html", "hello");
    let (old, old_key) = certificate(&scratch, "old", "30");
    let (new, new_key) = certificate(&scratch, "new", "30");
    let (now, now_key) = (format!("{}/now.pem", scratch.text()), format!("{}/now.key", scratch.text()));
    let replace_certificate = |certificate: &str, key: &str| {
        fs::copy(certificate, &now).expect("copied");
        fs::copy(key, &now_key).expect("copied");
    };
    replace_certificate(&old, &old_key);
    let server = serve(&scratch, &["--threads", "2", "--cert", &now, "--key", &now_key]);
    let url = server.url("https").replace("127.0.0.1", "localhost");
    let comes = |trust: &str| get(&url, &["--trust", trust]).0 == Some(0);
    assert!(comes(&old) && !comes(&new));
    replace_certificate(&new, &new_key);
    assert!(comes(&old), "nothing has been said yet");
    server.hang_up();
    server.wait_for_line("certificate: read again from ");
    assert!(comes(&new) && !comes(&old));
    // This key belongs to another certificate.
    replace_certificate(&old, &new_key);
    server.hang_up();
    server.wait_for_line("certificate: not changed: the key is not that of the certificate");
    assert!(comes(&new));
    assert_eq!(server.end(), 0);
}

#[test]
fn a_server_redirects_to_tls() {
    let scratch = Scratch::new("tls-redirect");
    scratch.file("d/x y", "hello");
    let mut command = anabranch();
    command.env("XDG_STATE_HOME", scratch.text());
    command.args(["serve", scratch.text(), "--quiet", "--redirect", "--listen", "tcp://127.0.0.1:0"]);
    command.args(["--listen", "https://127.0.0.1:0"]);
    let server = Running::start_as(command, Stdio::null());
    let certificate = format!("{}/anabranch/self-signed.pem", scratch.text());
    let url = format!("{}d/x%20y?z=1", server.url("https"));
    let request = "HTTP/1.1\r\nHost: 127.0.0.1:1\r\nConnection: close\r\n\r\n";
    let answer = server.ask(format!("GET /d/x%20y?z=1 {request}"));
    assert!(answer.starts_with("HTTP/1.1 308 "), "{answer}");
    assert!(answer.to_lowercase().contains(&format!("\r\nlocation: {url}\r\n")), "{answer}");
    // Our client must follow the redirection, over HTTP/1.1 and HTTP/2.
    for version in ["1.1", "2"] {
        let http_url = format!("{}d/x%20y", server.url("http"));
        let mut command = anabranch();
        command.env("SSL_CERT_FILE", &certificate).args(["get", "--quiet", "--http", version, &http_url]);
        let output = run(&mut command);
        assert_eq!((output.status.code(), output.stdout), (Some(0), b"hello".to_vec()), "{version}");
    }
    assert_eq!(server.end(), 0);
    let output =
        run(anabranch().args(["serve", scratch.text(), "--redirect", "--listen", "tcp://127.0.0.1:0"]));
    assert_eq!(output.status.code(), Some(2));
    assert!(
        errors(&output).contains("--redirect: from tcp:// to https://; add --listen https://"),
        "{}",
        errors(&output)
    );
}
