//! `https+sctp://`: SCTP over DTLS, who is believed and who is not, beside OpenSSL.

#![cfg(target_os = "linux")]

use crate::running::{Running, Scratch, anabranch, errors, noise, run};
use std::io::Read;
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// A server over DTLS whose certificate is kept in `place`.
fn serve(place: &Scratch, words: &[&str]) -> Running {
    let mut command = anabranch();
    command.env("XDG_STATE_HOME", place.text());
    command.args(["serve", place.text(), "--quiet", "--listen", "https+sctp://127.0.0.1:0"]).args(words);
    Running::start_as(command, Stdio::null())
}

fn get(url: &str, words: &[&str]) -> (Option<i32>, String, Vec<u8>) {
    let output = run(anabranch().args(["get", "--quiet", url]).args(words));
    (output.status.code(), errors(&output), output.stdout)
}

#[test]
fn a_directory_is_served_over_dtls_to_who_believes_it() {
    let place = Scratch::new("dtls-own");
    let body = noise(700_000);
    place.file("big.bin", &body);
    let server = serve(&place, &[]);
    let url = format!("{}big.bin", server.url("https+sctp"));
    let kept = format!("{}/anabranch/self-signed.pem", place.text());
    for trust in [&["--trust", &kept][..], &["--insecure"]] {
        let (code, err, out) = get(&url, trust);
        assert_eq!((code, err.lines().count()), (Some(0), usize::from(trust.len() == 1)), "{err}");
        assert!(out == body, "{trust:?}: another body");
    }
    // Who does not believe it asks for nothing.
    let other = format!("sha256:{}", "00".repeat(32));
    for (words, says) in [
        (&[][..], "not trusted: the server's certificate is signed by nobody who is trusted"),
        (&["--trust", &other], "not trusted: the server's certificate has another fingerprint, sha256:"),
    ] {
        let (code, err, out) = get(&url, words);
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
    let place = Scratch::new("dtls-refused");
    let file = |name: &str| format!("{}/{name}", place.text());
    let (key, certificate) = (file("key.pem"), file("cert.pem"));
    make(&["rsa:2048"], &key, &certificate);
    for (words, code, says) in [
        (
            &["serve", ".", "--listen", "https+sctp://127.0.0.1:0", "--cert", &certificate, "--key", &key][..],
            2,
            "DTLS needs a certificate and a key of ECDSA P-256 here",
        ),
        (
            &["serve", ".", "--listen", "https+sctp://127.0.0.1:0", "--threads", "2"],
            2,
            "SCTP over DTLS is served by one thread",
        ),
        (&["get", "https+sctp://127.0.0.1,127.0.0.2/"], 2, "TCP, DTLS and HTTP/3 go to one"),
    ] {
        let output = run(anabranch().env("XDG_STATE_HOME", place.text()).args(words));
        let err = errors(&output);
        assert_eq!((output.status.code(), err.lines().count()), (Some(code), 1), "{words:?}: {err}");
        assert!(err.contains(says), "{words:?}: {err}");
    }
}

#[test]
fn where_nobody_listens_a_client_is_told_so_at_once() {
    let port = free();
    let began = Instant::now();
    let (code, err, _) = get(&format!("https+sctp://127.0.0.1:{port}/"), &["--insecure"]);
    assert_eq!(code, Some(1));
    assert!(err.contains("connection refused"), "{err}");
    assert!(began.elapsed() < Duration::from_secs(20), "it waited for the handshake to time out");
}

/// OpenSSL's client shakes hands with our server by DTLS 1.2, believes its certificate, and is sent nothing unasked.
#[test]
fn openssl_comes_by_dtls_1_2() {
    let place = Scratch::new("dtls-s-client");
    let server = serve(&place, &[]);
    let kept = format!("{}/anabranch/self-signed.pem", place.text());
    let at = server.url("https+sctp").trim_start_matches("https+sctp://").trim_end_matches('/').to_owned();
    let mut client = Command::new("openssl")
        .args(["s_client", "-dtls1_2", "-connect", &at, "-CAfile", &kept])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl (Debian: apt-get install openssl)");
    let said = Said::by(&mut client).until("Verify return code: ");
    assert!(said.contains("Verify return code: 0") && said.contains("DTLSv1.2"), "{said}");
    assert!(said.contains("ECDHE-ECDSA-"), "{said}");
    client.kill().expect("killed");
    client.wait().expect("ended");
    assert_eq!(server.end(), 0);
}

/// What a program says.
struct Said {
    more: Receiver<Vec<u8>>,
    all: Vec<u8>,
}

impl Said {
    fn by(child: &mut Child) -> Self {
        let (send, more) = channel();
        let mut out = child.stdout.take().expect("piped");
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = out.read(&mut buffer) {
                if send.send(buffer[..read].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { more, all: Vec::new() }
    }

    /// Everything up to the line with `wanted`, which comes within a minute.
    fn until(&mut self, wanted: &str) -> String {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let text = String::from_utf8_lossy(&self.all).into_owned();
            if text.split_once(wanted).is_some_and(|(_, rest)| rest.contains('\n')) {
                return text;
            }
            match self.more.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(more) => self.all.extend(more),
                Err(why) => panic!("'{wanted}' was not said ({why}): {text}"),
            }
        }
    }
}

/// A certificate of this kind of key for localhost.
fn make(kind: &[&str], key: &str, certificate: &str) {
    let made = run(Command::new("openssl")
        .args(["req", "-x509", "-nodes", "-days", "30", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate, "-newkey"])
        .args(kind));
    assert!(made.status.success(), "{}", errors(&made));
}

fn free() -> u16 {
    UdpSocket::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port()
}
