//! Tests attackers between a client and a server over TLS: truncation and replay, over HTTP/1.1 and HTTP/2. The test of
//! a downgrade is in `secure.rs`.

#![cfg(target_os = "linux")]

use crate::running::{
    LONG, Running, Scratch, anabranch, errors, has, noise, run, wait_until, wait_until_listening,
};
use crate::secure::certificate;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

/// Starts a server over TLS with its log in `scratch`.
fn serve(scratch: &Scratch, arguments: &[&str]) -> Running {
    let mut command = anabranch();
    command.env("XDG_STATE_HOME", scratch.text());
    command
        .args(["serve", &format!("{}/site", scratch.text()), "--listen", "https://127.0.0.1:0"])
        .args(arguments);
    Running::start_as(command, fs::File::create(scratch.file("log", "")).expect("a log"))
}

fn at(server: &Running) -> String {
    server.url("https").trim_start_matches("https://").trim_end_matches('/').to_owned()
}

/// Returns the requests in the server's log.
fn log(scratch: &Scratch) -> String {
    fs::read_to_string(format!("{}/log", scratch.text())).expect("a log")
}

/// Reads a complete TLS record (RFC 8446 §5.1) from `stream`; `None` at its end.
fn record(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut record = vec![0; 5];
    stream.read_exact(&mut record).ok()?;
    let length = usize::from(u16::from_be_bytes([record[3], record[4]]));
    record.resize(5 + length, 0);
    stream.read_exact(&mut record[5..]).ok()?;
    Some(record)
}

/// Starts a relay between one client and the server at `to`. The relay forwards the server's records until
/// `is_forwarded` rejects one, and then closes the connections to the client and to the server with FIN. It also
/// forwards and records the client's data.
fn between(
    to: String,
    mut is_forwarded: impl FnMut(&[u8]) -> bool + Send + 'static,
) -> (String, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listening");
    let address = listener.local_addr().expect("an address").to_string();
    let received = Arc::new(Mutex::new(Vec::new()));
    let recorded = received.clone();
    thread::spawn(move || {
        let (client, _) = listener.accept().expect("a client");
        let server = TcpStream::connect(to).expect("connected");
        for stream in [&client, &server] {
            stream.set_read_timeout(Some(LONG)).expect("a deadline");
        }
        let (mut from, mut into) =
            (client.try_clone().expect("a handle"), server.try_clone().expect("a handle"));
        thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(length @ 1..) = from.read(&mut piece) {
                recorded.lock().expect("sound").extend_from_slice(&piece[..length]);
                if into.write_all(&piece[..length]).is_err() {
                    break;
                }
            }
            let _ = into.shutdown(Shutdown::Write);
        });
        let (mut server, mut client) = (server, client);
        while let Some(record) = record(&mut server).filter(|record| is_forwarded(record)) {
            if client.write_all(&record).is_err() {
                break;
            }
        }
        let _ = client.shutdown(Shutdown::Write);
        let _ = server.shutdown(Shutdown::Both);
        // Waits for the client's FIN, because a reset would be a different kind of end.
        let _ = client.read_to_end(&mut Vec::new());
    });
    (address, received)
}

#[test]
fn a_response_truncated_between_records_is_a_failure() {
    let scratch = Scratch::new("tls-cut");
    scratch.file("site/big", noise(300_000));
    let server = serve(&scratch, &["-q"]);
    for version in ["1.1", "2"] {
        // The attacker cuts the response off. The client must notice this by the length of the response over HTTP/1.1,
        // and by the missing last frame over HTTP/2.
        let mut large_records = 0;
        let (address, _) = between(at(&server), move |record| {
            large_records += usize::from(record.len() > 8000);
            large_records < 4
        });
        let part = scratch.file("part", "");
        let got = run(anabranch()
            .args([
                "get",
                "--quiet",
                "--insecure",
                "--http",
                version,
                &format!("https://{address}/big"),
                "-o",
            ])
            .arg(&part));
        let stderr = errors(&got);
        assert_eq!(got.status.code(), Some(1), "{version}: {stderr}");
        // One line is the warning about --insecure, and the other is the error.
        assert_eq!(stderr.lines().count(), 2, "{version}: {stderr}");
        assert!(
            stderr.contains("cut") || stderr.contains("ended early") || stderr.contains("closed"),
            "{version}: {stderr}"
        );
    }
    assert_eq!(server.end(), 0);
}

/// A response of HTTP/1.0 ends with its connection. Only the closure alert shows that it is complete (RFC 8446 §6.1),
/// so the client must require the alert.
#[test]
fn an_answer_whose_end_is_the_connections_needs_a_closure_alert() {
    if !has("openssl") {
        return;
    }
    let scratch = Scratch::new("tls-closed");
    let (file, key) = certificate(&scratch, "rsa", "30");
    let body = noise(100_000);
    scratch.file("big", &body);
    let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
    let mut peer = Command::new("openssl")
        .args([
            "s_server",
            "-WWW",
            "-quiet",
            "-accept",
            &format!("127.0.0.1:{port}"),
            "-cert",
            &file,
            "-key",
            &key,
        ])
        .current_dir(&scratch.0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl");
    wait_until_listening(&mut peer, ([127, 0, 0, 1], port).into());
    let get = |address: &str| {
        let got = run(anabranch().args(["get", "--quiet", "--insecure", &format!("https://{address}/big")]));
        (got.status.code(), errors(&got), got.stdout)
    };
    let (whole, _) = between(format!("127.0.0.1:{port}"), |_| true);
    let (code, err, out) = get(&whole);
    assert_eq!((code, out == body), (Some(0), true), "{err}");
    // The last record, the closure alert, is missing. Every byte of the body has arrived, but the client cannot know
    // that.
    let mut large_records = 0;
    let (cut, _) = between(format!("127.0.0.1:{port}"), move |record| {
        large_records += usize::from(record.len() > 4000);
        large_records == 0 || record.len() > 40
    });
    let (code, err, _) = get(&cut);
    peer.kill().expect("killed");
    peer.wait().expect("ended");
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("without its closure alert: they may have been cut"), "{err}");
}

#[test]
fn a_truncated_request_is_not_served() {
    let scratch = Scratch::new("tls-half");
    scratch.file("site/index.html", "hello");
    let server = serve(&scratch, &[]);
    let mut command = Command::new("openssl");
    if !has("openssl") {
        return;
    }
    // The client sends an incomplete head, and then the connection ends without an alert.
    let (address, received) = between(at(&server), |_| true);
    let mut client = command
        .args(["s_client", "-connect", &address, "-quiet"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl");
    let mut input = client.stdin.take().expect("piped");
    input.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n").expect("said");
    // The handshake and the incomplete head take some hundred bytes.
    wait_until("it has said something", || received.lock().expect("sound").len() >= 400);
    client.kill().expect("killed");
    client.wait().expect("ended");
    drop(input);
    assert_eq!(server.end(), 0, "nothing is left of it");
    assert!(!log(&scratch).contains("\" 200 "), "{}", log(&scratch));
}

/// The server must accept no early data over TCP (RFC 8446 §2.3). Its tickets say so, and early data that is sent
/// anyway must not be processed. A recorded request is therefore executed only once, even if it is replayed.
#[test]
fn early_data_is_not_offered_and_what_is_said_again_is_not_done_again() {
    if !has("openssl") {
        return;
    }
    let scratch = Scratch::new("tls-again");
    scratch.file("site/index.html", "hello");
    let early = scratch.file("early", "GET /early HTTP/1.1\r\nHost: a\r\n\r\n");
    let server = serve(&scratch, &["--threads", "2"]);
    let session = format!("{}/session", scratch.text());
    // The input for OpenSSL is HTTP/2: the preface, SETTINGS, and a request (:method GET, :scheme https, :path /).
    let two = [
        &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"[..],
        b"\0\0\x06\x01\x05\0\0\0\x01\x82\x87\x84\x01\x01a",
    ]
    .concat();
    let one = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_vec();
    let mut done = 0;
    for (alpn, request) in [("http/1.1", one), ("h2", two)] {
        let say = |at: &str, arguments: &[&str]| {
            let mut child = Command::new("openssl")
                .args(["s_client", "-connect", at, "-alpn", alpn, "-ign_eof"])
                .args(arguments)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("openssl");
            let mut input = child.stdin.take().expect("piped");
            input.write_all(&request).expect("said");
            let mut records = Vec::new();
            let mut output = child.stdout.take().expect("piped");
            let mut piece = [0; 4096];
            // An HTTP/2 connection stays open after the response.
            while !records.windows(5).any(|five| five == b"hello") {
                match output.read(&mut piece) {
                    Ok(length @ 1..) => records.extend_from_slice(&piece[..length]),
                    _ => break,
                }
            }
            child.kill().expect("killed");
            child.wait().expect("ended");
            String::from_utf8_lossy(&records).into_owned()
        };
        let first = say(&at(&server), &["-sess_out", &session]);
        assert!(first.contains("hello"), "{first}");
        done += 1;
        let session_text = run(Command::new("openssl").args(["sess_id", "-in", &session, "-noout", "-text"]));
        let session_text = String::from_utf8_lossy(&session_text.stdout).into_owned();
        assert!(
            session_text.contains("Max Early Data: 0") || !session_text.contains("Max Early Data"),
            "{session_text}"
        );
        let text = early.to_str().expect("UTF-8");
        let again = say(&at(&server), &["-sess_in", &session, "-early_data", text]);
        assert!(!again.contains("Early data was accepted"), "{again}");
        // Records what the client of a resumed session sends, and replays it. The server must send no data in return,
        // because each handshake has new keys.
        let (address, records) = between(at(&server), |_| true);
        let resumed = say(&address, &["-sess_in", &session]);
        assert!(resumed.contains("Reused, ") && resumed.contains("hello"), "{resumed}");
        done += 1 + usize::from(again.contains("hello"));
        let recorded = records.lock().expect("sound").clone();
        for _ in 0..3 {
            let mut stream = TcpStream::connect(at(&server)).expect("connected");
            stream.set_read_timeout(Some(LONG)).expect("a deadline");
            let _ = stream.write_all(&recorded);
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            // The server may answer with a ServerHello (22) or an alert (21), but not with data.
            assert!(answer.first().is_none_or(|kind| [21, 22].contains(kind)), "{answer:?}");
        }
    }
    assert_eq!(server.end(), 0);
    let log = log(&scratch);
    assert_eq!(log.lines().count(), done, "{log}");
    assert!(!log.contains("/early"), "{log}");
}
