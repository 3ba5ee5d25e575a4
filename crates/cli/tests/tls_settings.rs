//! Tests the TLS settings of a server, which must be Mozilla's "intermediate" or stricter. Also tests resumed sessions,
//! and the files to which secrets are written.
//!
//! The peer is OpenSSL's `s_client`.

#![cfg(target_os = "linux")]

use crate::running::{Running, Scratch, anabranch, errors, has, run};
use crate::secure::certificate;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};

/// Starts a server over TLS with a certificate for localhost. Its output goes to files.
fn serve(scratch: &Scratch, certificate: &(String, String), arguments: &[&str]) -> Running {
    scratch.file("site/index.html", "hello");
    let mut command = anabranch();
    command.args(["serve", &format!("{}/site", scratch.text()), "--listen", "https://127.0.0.1:0"]);
    command.args(["--cert", &certificate.0, "--key", &certificate.1]).args(arguments);
    command.env("SSLKEYLOGFILE", format!("{}/server.keys", scratch.text()));
    Running::start_as(command, fs::File::create(scratch.file("log", "")).expect("a log"))
}

fn at(server: &Running) -> String {
    server.url("https").trim_start_matches("https://").trim_end_matches('/').to_owned()
}

/// Runs `openssl s_client` with these arguments, sends `input` to the server, and waits for the end.
fn s_client(at: &str, arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new("openssl")
        .args(["s_client", "-connect", at, "-servername", "localhost"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("openssl");
    // The write may fail, because the process may have ended already.
    let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
    child.wait_with_output().expect("ended")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &errors(output)
}

/// Makes a certificate with an ECDSA key, for the cipher suites that require one.
fn ecdsa(scratch: &Scratch) -> (String, String) {
    let (file, key) = (format!("{}/ec.pem", scratch.text()), format!("{}/ec.key", scratch.text()));
    let output = run(Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
        ])
        .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"])
        .args(["-keyout", &key, "-out", &file]));
    assert!(output.status.success(), "{}", errors(&output));
    (file, key)
}

/// Returns the subset of `all` that a server accepts. `taken` offers a list to the server and returns its choice. Each
/// choice is removed from the next offer, until the server accepts nothing.
fn agreed(all: &[String], mut taken: impl FnMut(&str) -> Option<String>) -> BTreeSet<String> {
    let mut agreed = BTreeSet::new();
    loop {
        let left: Vec<&str> = all.iter().map(String::as_str).filter(|one| !agreed.contains(*one)).collect();
        match if left.is_empty() { None } else { taken(&left.join(":")) } {
            Some(one) => assert!(all.contains(&one) && agreed.insert(one.clone()), "{one} was not offered"),
            None => return agreed,
        }
    }
}

/// The server must accept exactly the cipher suites and groups of Mozilla's "intermediate" configuration (5.7), except
/// the DHE suites. The test offers all suites of OpenSSL and eight groups.
#[test]
fn tls_parameters_are_mozillas_intermediate_or_stricter() {
    if !has("openssl") {
        return;
    }
    let scratch = Scratch::new("tls-offered");
    let servers = [certificate(&scratch, "rsa", "30"), ecdsa(&scratch)]
        .map(|identity| serve(&scratch, &identity, &["-q"]));
    let listed = run(Command::new("openssl").args(["ciphers", "-tls1_2", "ALL:COMPLEMENTOFALL:@SECLEVEL=0"]));
    let listed = String::from_utf8_lossy(&listed.stdout).trim().to_owned();
    let names = |text: &str| text.split(':').map(str::to_owned).collect::<Vec<_>>();
    // The suites of TLS 1.3 are tested separately.
    let old: Vec<String> = names(&listed).into_iter().filter(|name| !name.starts_with("TLS_")).collect();
    assert!(old.len() > 60, "OpenSSL has more than what we look for: {old:?}");
    let new = names(
        "TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_CCM_SHA256:\
         TLS_AES_128_CCM_8_SHA256",
    );
    let groups = names("X25519:P-256:P-384:P-521:X448:ffdhe2048:ffdhe3072:secp256k1");
    let suite = |output: String| {
        let name = output.split("Cipher is ").nth(1)?.lines().next()?.to_owned();
        (name != "(NONE)").then_some(name)
    };
    let mut suites = BTreeSet::new();
    for server in &servers {
        let at = at(server);
        suites.extend(agreed(&old, |left| {
            suite(text(&s_client(&at, &["-tls1_2", "-cipher", &format!("{left}:@SECLEVEL=0")], "Q\n")))
        }));
        suites.extend(agreed(&new, |left| {
            suite(text(&s_client(&at, &["-tls1_3", "-ciphersuites", left], "Q\n")))
        }));
        for version in ["-tls1_2", "-tls1_3"] {
            let found = agreed(&groups, |left| {
                let output = text(&s_client(&at, &[version, "-groups", left], "Q\n"));
                let key = output.split("Server Temp Key: ").nth(1)?.lines().next()?;
                let name = key.trim_start_matches("ECDH, ").split(',').next()?;
                Some(name.replace("prime256v1", "P-256").replace("secp384r1", "P-384"))
            });
            assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), ["P-256", "P-384", "X25519"]);
        }
        // Versions before 1.2 must be rejected, even if the client permits weak security.
        for version in ["-tls1", "-tls1_1"] {
            let output = text(&s_client(&at, &[version, "-cipher", "ALL:@SECLEVEL=0"], "Q\n"));
            assert!(output.contains("Cipher is (NONE)"), "{version}: {output}");
        }
        // Neither compression (RFC 7525 §3.3) nor renegotiation (RFC 7525 §3.5) may be possible.
        let output = text(&s_client(&at, &["-tls1_2", "-cipher", "ALL"], "R\n"));
        assert!(output.contains("Compression: NONE"), "{output}");
        assert!(output.contains("RENEGOTIATING") && !output.contains("HTTP/1.1"), "{output}");
        assert!(output.contains("no renegotiation") || output.contains("alert"), "{output}");
        assert!(output.contains("Extended master secret: yes"), "RFC 7627: {output}");
    }
    let expected = [
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        "ECDHE-RSA-AES128-GCM-SHA256",
        "ECDHE-RSA-AES256-GCM-SHA384",
        "ECDHE-RSA-CHACHA20-POLY1305",
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_256_GCM_SHA384",
        "TLS_CHACHA20_POLY1305_SHA256",
    ];
    assert_eq!(suites.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    for server in servers {
        assert_eq!(server.end(), 0);
    }
}

/// An HTTP/1.1 request whose response ends the connection.
const REQUEST: &str = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

#[test]
fn openssl_resumes_sessions_by_tickets_in_any_thread_and_after_a_reload() {
    if !has("openssl") {
        return;
    }
    let scratch = Scratch::new("tls-resumed");
    let server = serve(&scratch, &certificate(&scratch, "rsa", "30"), &["--threads", "2"]);
    let at = at(&server);
    let session = format!("{}/session", scratch.text());
    for version in ["-tls1_3", "-tls1_2"] {
        let first = text(&s_client(&at, &[version, "-ign_eof", "-sess_out", &session], REQUEST));
        assert!(first.contains("New, ") && first.contains("hello"), "{version}: {first}");
        let session_text = run(Command::new("openssl").args(["sess_id", "-in", &session, "-noout", "-text"]));
        let session_text = text(&session_text);
        // The server must use a ticket, and not a session ID, which would require state at the server.
        assert!(session_text.contains("TLS session ticket:"), "{version}: {session_text}");
        for _ in 0..6 {
            let again = text(&s_client(&at, &[version, "-ign_eof", "-sess_in", &session], REQUEST));
            assert!(again.contains("Reused, ") && again.contains("hello"), "{version}: {again}");
        }
    }
    // OpenSSL itself resumes the session five times. It uses TLS 1.2, which sends its tickets within the handshake.
    let output = text(&s_client(&at, &["-tls1_2", "-reconnect"], "Q\n"));
    assert_eq!(output.matches("Reused, TLSv1.2").count(), 5, "{output}");
    server.hang_up();
    server.wait_for_line("certificate: read again from ");
    // The session that was saved last uses TLS 1.2.
    let again = text(&s_client(&at, &["-tls1_2", "-ign_eof", "-sess_in", &session], REQUEST));
    assert!(again.contains("Reused, "), "{again}");
    // A ticket that was encrypted with another server's keys must be ignored, so that the handshake is a full one.
    let other = serve(&scratch, &certificate(&scratch, "other", "30"), &[]);
    let output = text(&s_client(&self::at(&other), &["-tls1_2", "-ign_eof", "-sess_in", &session], REQUEST));
    assert!(output.contains("New, ") && output.contains("hello"), "another server's keys: {output}");
    assert_eq!((server.end(), other.end()), (0, 0));
}

#[test]
fn secrets_are_in_the_key_log_and_nowhere_else() {
    if !has("openssl") {
        return;
    }
    let scratch = Scratch::new("tls-secrets");
    let identity = certificate(&scratch, "rsa", "30");
    let server = serve(&scratch, &identity, &[]);
    let at = at(&server);
    let keys = format!("{}/client.keys", scratch.text());
    let url = format!("https://localhost:{}/", at.rsplit(':').next().expect("a port"));
    let mut command = anabranch();
    command.env("SSLKEYLOGFILE", &keys).args(["get", "--trust", &identity.0, &url]);
    let got = run(&mut command);
    assert_eq!((got.status.code(), got.stdout.as_slice()), (Some(0), &b"hello"[..]), "{}", errors(&got));
    // The error about an unusable key must not quote the key.
    let broken = fs::read_to_string(&identity.1).expect("a key").replacen("MII", "XII", 1);
    let broken = scratch.secret_file("broken.key", broken);
    let refused = run(anabranch().args(["serve", scratch.text(), "--listen", "https://127.0.0.1:0"]).args([
        "--cert",
        &identity.0,
        "--key",
        broken.to_str().expect("UTF-8"),
    ]));
    assert_eq!(refused.status.code(), Some(2));
    server.hang_up();
    let (code, lines) = server.end_with_lines();
    assert_eq!(code, 0);
    // Client and server must write the same secrets, in the format of NSS.
    let read = |name: &str| fs::read_to_string(format!("{}/{name}", scratch.text())).expect("secrets");
    let (of_client, of_server) = (read("client.keys"), read("server.keys"));
    let secrets = |text: &str| -> BTreeSet<String> {
        let of_lines = text.lines().filter(|line| line.contains("_TRAFFIC_SECRET"));
        of_lines.filter_map(|line| line.split(' ').nth(2)).map(str::to_owned).collect()
    };
    assert!(secrets(&of_client).len() >= 4, "{of_client}");
    assert!(secrets(&of_client).is_subset(&secrets(&of_server)), "{of_client}\n{of_server}");
    // No secret may appear in the log or in messages.
    let pem = fs::read_to_string(&identity.1).expect("a key");
    let of_key = pem.lines().filter(|line| !line.starts_with('-') && line.len() > 16).map(str::to_owned);
    let all_output = [read("log"), lines.join("\n"), errors(&got), errors(&refused)].join("\n");
    assert!(all_output.contains("GET / HTTP/2.0"), "{all_output}");
    for secret in of_key.chain(secrets(&of_server)) {
        assert!(!all_output.contains(&secret), "a secret is told: {all_output}");
    }
    // Without the environment variable, no file may be written.
    let mut command = anabranch();
    command.env_remove("SSLKEYLOGFILE").args(["get", "--quiet", "--insecure", &url]);
    let before = fs::read_dir(&scratch.0).expect("a directory").count();
    let _ = run(&mut command);
    assert_eq!(fs::read_dir(&scratch.0).expect("a directory").count(), before);
}
