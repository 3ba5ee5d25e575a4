//! Tests `https+sctp://`: SCTP over DTLS, the certificates that are trusted, and interoperation with OpenSSL.

#![cfg(target_os = "linux")]

use crate::running::{LONG, Running, Scratch, anabranch, errors, get, noise, run, run_in_time, serve_at};
use std::io::Read;
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Starts a server over DTLS whose certificate is kept in `scratch`.
fn serve(scratch: &Scratch, arguments: &[&str]) -> Running {
    serve_at("https+sctp://127.0.0.1:0", scratch, arguments)
}

#[test]
fn a_directory_is_served_over_dtls_to_clients_that_trust_it() {
    let scratch = Scratch::new("dtls-own");
    let body = noise(700_000);
    scratch.file("big.bin", &body);
    let server = serve(&scratch, &[]);
    let url = format!("{}big.bin", server.url("https+sctp"));
    let certificate = format!("{}/anabranch/self-signed.pem", scratch.text());
    for trust in [&["--trust", &certificate][..], &["--insecure"]] {
        let (code, err, out) = get(&url, trust);
        assert_eq!((code, err.lines().count()), (Some(0), usize::from(trust.len() == 1)), "{err}");
        assert!(out == body, "{trust:?}: another body");
    }
    // A client that does not trust the server must send no request.
    let other = format!("sha256:{}", "00".repeat(32));
    for (arguments, says) in [
        (&[][..], "not trusted: the server's certificate is signed by nobody who is trusted"),
        (&["--trust", &other], "not trusted: the server's certificate has another fingerprint, sha256:"),
    ] {
        let (code, err, out) = get(&url, arguments);
        assert_eq!((code, err.lines().count(), out.is_empty()), (Some(1), 1, true), "{err}");
        assert!(err.contains(says), "{err}");
    }
    let load = run(anabranch().args(["load", &url, "--insecure", "-c", "3", "--requests", "12", "--quiet"]));
    assert_eq!(load.status.code(), Some(0), "{}", errors(&load));
    assert!(String::from_utf8_lossy(&load.stdout).contains("replies 12"));
    assert_eq!(server.end(), 0, "every session has ended");
}

#[test]
fn what_dtls_cannot_do_is_refused_in_one_line() {
    let scratch = Scratch::new("dtls-refused");
    let file = |name: &str| format!("{}/{name}", scratch.text());
    let (key, certificate) = (file("key.pem"), file("cert.pem"));
    make_certificate(&["rsa:2048"], &key, &certificate);
    for (arguments, code, says) in [
        (
            &["serve", ".", "--listen", "https+sctp://127.0.0.1:0", "--cert", &certificate, "--key", &key][..],
            2,
            "DTLS needs a certificate and a key of ECDSA P-256 here",
        ),
        (
            &["bulk", "https+sctp://127.0.0.1,127.0.0.2:4433"],
            2,
            "an association over DTLS has one address at each end",
        ),
        (&["bulk", "sctp://127.0.0.1:4433", "--insecure"], 2, "no URL uses TLS"),
        (&["get", "https+sctp://127.0.0.1,127.0.0.2/"], 2, "TCP, DTLS and HTTP/3 go to one"),
    ] {
        let output = run(anabranch().env("XDG_STATE_HOME", scratch.text()).args(arguments));
        let err = errors(&output);
        assert_eq!((output.status.code(), err.lines().count()), (Some(code), 1), "{arguments:?}: {err}");
        assert!(err.contains(says), "{arguments:?}: {err}");
    }
}

#[test]
fn where_nobody_listens_a_client_is_told_so_at_once() {
    let port = free_port();
    let url = format!("https+sctp://127.0.0.1:{port}/");
    let got = run_in_time(anabranch().args(["get", "--quiet", &url, "--insecure", "--timeout", "10min"]));
    assert_eq!(got.status.code(), Some(1));
    assert!(errors(&got).contains("connection refused"), "{}", errors(&got));
}

/// Several threads share a port over DTLS, and the address of a client determines its thread. Every client must be
/// served.
#[test]
fn threads_share_a_port_over_dtls() {
    let scratch = Scratch::new("dtls-threads");
    let body = noise(200_000);
    scratch.file("big.bin", &body);
    let server = serve(&scratch, &["--threads", "3"]);
    let url = format!("{}big.bin", server.url("https+sctp"));
    for _ in 0..8 {
        let (code, err, out) = get(&url, &["--insecure"]);
        assert_eq!(code, Some(0), "{err}");
        assert!(out == body, "another body");
    }
    let load = run(anabranch().args(["load", &url, "--insecure", "-c", "4", "--requests", "24", "--quiet"]));
    assert_eq!(load.status.code(), Some(0), "{}", errors(&load));
    let (code, lines) = server.end_with_lines();
    assert_eq!(code, 0, "{lines:?}");
}

/// Over DTLS, messages must pass in both directions, as they do without encryption. An untrusted server must receive
/// nothing.
#[test]
fn bulk_goes_over_dtls() {
    let scratch = Scratch::new("dtls-bulk");
    let mut command = anabranch();
    command.env("XDG_STATE_HOME", scratch.text());
    command.args(["bulk", "--listen", "https+sctp://127.0.0.1:0"]);
    let server = Running::start_as(command, Stdio::null());
    let url = server.url("https+sctp");
    let url = url.trim_end_matches('/');
    let certificate = format!("{}/anabranch/self-signed.pem", scratch.text());
    for arguments in [&["--size", "3MB"][..], &["--size", "3MB", "--reverse"], &["--size", "2MB", "--both"]] {
        let done = run(anabranch().args(["bulk", url, "--trust", &certificate, "--quiet"]).args(arguments));
        assert_eq!(done.status.code(), Some(0), "{arguments:?}: {}", errors(&done));
    }
    let other = format!("sha256:{}", "00".repeat(32));
    let done = run(anabranch().args(["bulk", url, "--trust", &other, "--size", "1MB", "--quiet"]));
    assert_eq!(done.status.code(), Some(1));
    assert!(errors(&done).contains("not trusted"), "{}", errors(&done));
    assert_eq!(server.end(), 0);
}

/// The secrets of a DTLS session must be written to the file that `SSLKEYLOGFILE` names.
#[test]
fn secrets_are_written_where_the_environment_says() {
    let scratch = Scratch::new("dtls-secrets");
    scratch.file("small.bin", b"small");
    let server = serve(&scratch, &[]);
    let url = format!("{}small.bin", server.url("https+sctp"));
    let file = format!("{}/secrets", scratch.text());
    let got = run(anabranch().env("SSLKEYLOGFILE", &file).args(["get", "--quiet", &url, "--insecure"]));
    assert_eq!(got.status.code(), Some(0), "{}", errors(&got));
    let secrets = std::fs::read_to_string(&file).expect("written");
    for label in ["CLIENT_HANDSHAKE", "SERVER_HANDSHAKE", "CLIENT", "SERVER"] {
        assert_eq!(secrets.matches(&format!("{label}_TRAFFIC_SECRET")).count(), 1, "{secrets}");
    }
    assert_eq!(server.end(), 0);
}

/// OpenSSL's client must complete a DTLS 1.2 handshake with our server, verify its certificate, and receive no
/// unrequested data.
#[test]
fn openssl_client_completes_a_dtls_1_2_handshake() {
    let scratch = Scratch::new("dtls-s-client");
    let server = serve(&scratch, &[]);
    let certificate = format!("{}/anabranch/self-signed.pem", scratch.text());
    let at = server.url("https+sctp").trim_start_matches("https+sctp://").trim_end_matches('/').to_owned();
    let mut client = Command::new("openssl")
        .args(["s_client", "-dtls1_2", "-connect", &at, "-CAfile", &certificate])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl (Debian: apt-get install openssl)");
    let output = OutputReader::of(&mut client).until("Verify return code: ");
    assert!(output.contains("Verify return code: 0") && output.contains("DTLSv1.2"), "{output}");
    assert!(output.contains("ECDHE-ECDSA-"), "{output}");
    client.kill().expect("killed");
    client.wait().expect("ended");
    assert_eq!(server.end(), 0);
}

/// Our client must complete a DTLS 1.2 handshake with OpenSSL's server, with and without a cookie, and start an
/// association. A server that is not trusted must receive no packet of the association.
#[test]
fn our_client_completes_a_dtls_1_2_handshake_with_openssl() {
    let scratch = Scratch::new("dtls-s-server");
    let file = |name: &str| format!("{}/{name}", scratch.text());
    let (key, certificate) = (file("key.pem"), file("cert.pem"));
    make_certificate(&["ec", "-pkeyopt", "ec_paramgen_curve:P-256"], &key, &certificate);
    for (cookie, believed) in [(false, true), (true, true), (true, false)] {
        let port = free_port();
        let mut server = Command::new("openssl");
        server.args(["s_server", "-dtls1_2", "-accept", &format!("127.0.0.1:{port}")]);
        server.args(["-cert", &certificate, "-key", &key]);
        server.args(if cookie { &["-listen"][..] } else { &[] });
        server.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = server.spawn().expect("openssl (Debian: apt-get install openssl)");
        let mut output = OutputReader::of(&mut server);
        output.until("ACCEPT");
        let trust = if believed { certificate.clone() } else { format!("sha256:{}", "00".repeat(32)) };
        let url = format!("https+sctp://localhost:{port}/");
        let (code, err, _) = get(&url, &["--trust", &trust, "--timeout", "3s"]);
        // The request fails in every case, because OpenSSL's server does not speak SCTP.
        assert_eq!(code, Some(1), "{err}");
        assert_eq!(err.contains("not trusted"), !believed, "{err}");
        if believed {
            let output = output.until("CIPHER is ");
            assert!(output.contains("CIPHER is ECDHE-ECDSA-"), "{output}");
        }
        server.kill().expect("killed");
        server.wait().expect("ended");
        let rest = output.rest();
        assert_eq!(rest.contains("CIPHER is "), believed, "{rest}");
    }
}

/// The standard output of a program, read by a thread while the program runs.
struct OutputReader {
    receiver: Receiver<Vec<u8>>,
    bytes: Vec<u8>,
}

impl OutputReader {
    fn of(child: &mut Child) -> Self {
        let (send, receiver) = channel();
        let mut out = child.stdout.take().expect("piped");
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = out.read(&mut buffer) {
                if send.send(buffer[..read].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { receiver, bytes: Vec::new() }
    }

    /// Returns the rest of the output, up to its end.
    fn rest(&mut self) -> String {
        while let Ok(more) = self.receiver.recv_timeout(Duration::from_secs(60)) {
            self.bytes.extend(more);
        }
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// Returns the output up to and including the line with `expected`.
    fn until(&mut self, expected: &str) -> String {
        loop {
            let text = String::from_utf8_lossy(&self.bytes).into_owned();
            if text.split_once(expected).is_some_and(|(_, rest)| rest.contains('\n')) {
                return text;
            }
            match self.receiver.recv_timeout(LONG) {
                Ok(more) => self.bytes.extend(more),
                Err(error) => panic!("'{expected}' was not said ({error}): {text}"),
            }
        }
    }
}

/// Makes a certificate for localhost with this kind of key.
fn make_certificate(kind: &[&str], key: &str, certificate: &str) {
    let output = run(Command::new("openssl")
        .args(["req", "-x509", "-nodes", "-days", "30", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate, "-newkey"])
        .args(kind));
    assert!(output.status.success(), "{}", errors(&output));
}

fn free_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port()
}
