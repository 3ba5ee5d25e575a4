//! Tests `h3://`: HTTP/3 over QUIC on real sockets, with our client and our server, and the errors if HTTP/3 is not
//! possible.

#![cfg(target_os = "linux")]

use crate::running::{Running, Scratch, anabranch, errors, get, has, noise, run, run_in_time, serve_at};
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Starts a server over HTTP/3 whose certificate is kept in `scratch`.
fn serve(scratch: &Scratch, arguments: &[&str]) -> Running {
    serve_at("h3://127.0.0.1:0", scratch, arguments)
}

#[test]
fn a_directory_is_served_over_http3_to_clients_that_trust_it() {
    let scratch = Scratch::new("h3-own");
    let body = noise(3_000_000);
    scratch.file("big.bin", &body);
    scratch.file("d/index.html", "hello");
    let server = serve(&scratch, &[]);
    let url = format!("{}big.bin", server.url("h3"));
    let certificate = format!("{}/anabranch/self-signed.pem", scratch.text());
    for trust in [&["--trust", &certificate][..], &["--insecure"]] {
        let (code, err, out) = get(&url, trust);
        assert_eq!((code, err.lines().count()), (Some(0), usize::from(trust.len() == 1)), "{err}");
        assert!(out == body, "{trust:?}: another body");
    }
    // With `--http 3`, an https:// URL must be fetched over HTTP/3, also after a redirection.
    let https = format!("{}d", server.url("h3")).replace("h3://", "https://");
    let (code, err, out) = get(&https, &["--http", "3", "--trust", &certificate]);
    assert_eq!((code, err.as_str(), out.as_slice()), (Some(0), "", &b"hello"[..]));
    let (code, err, _) = get(&format!("{}none", server.url("h3")), &["--trust", &certificate]);
    assert_eq!((code, err.lines().count()), (Some(1), 1), "{err}");
    assert!(err.contains("/none: status 404"), "{err}");
    assert_eq!(server.end(), 0, "every session has ended");
}

#[test]
fn several_objects_come_at_once_and_a_load_counts_them() {
    let scratch = Scratch::new("h3-load");
    scratch.file("a", noise(200_000));
    scratch.file("b", noise(300_000));
    let server = serve(&scratch, &[]);
    let (at, into) = (server.url("h3").to_owned(), format!("{}/copy/", scratch.text()));
    let urls = [format!("{at}a"), format!("{at}b")];
    let output = run(anabranch().args(["get", "--quiet", "--insecure", "-o", &into]).args(&urls));
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    for name in ["a", "b"] {
        let read = |path: String| fs::read(path).expect("a file");
        assert!(read(format!("{into}{name}")) == read(format!("{}/{name}", scratch.text())), "{name}");
    }
    for arguments in
        [&["-c", "3", "--requests", "60", "--streams", "10"][..], &["--rate", "100/s", "--sessions", "20"]]
    {
        let load =
            run(anabranch().args(["load", &urls[0], "--insecure", "--quiet", "--json", "-"]).args(arguments));
        assert_eq!(load.status.code(), Some(0), "{}", errors(&load));
        let text = String::from_utf8_lossy(&load.stdout).into_owned();
        let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(json["connections"]["http3"], json["connections"]["established"], "{text}");
        let replies = if arguments.len() == 6 { 60 } else { 20 };
        assert_eq!(json["replies"]["total"], replies, "{text}");
        assert_eq!(json["replies"]["content_bytes"], replies * 200_000, "{text}");
    }
    assert_eq!(server.end(), 0, "every session has ended");
}

#[test]
fn a_page_comes_whole_with_a_har_that_says_how() {
    let scratch = Scratch::new("h3-page");
    let images: String = (0..30).map(|n| format!("<img src=\"i/{n}.png\">")).collect();
    scratch.file("index.html", format!("<html>{images}</html>"));
    (0..30).for_each(|n| drop(scratch.file(&format!("i/{n}.png"), noise(10_000 + n))));
    let server = serve(&scratch, &[]);
    let (into, har) = (format!("{}/copy", scratch.text()), format!("{}/load.har", scratch.text()));
    let arguments = ["--page", "--insecure", "-o", &into, "--har", &har];
    let (code, err, _) = get(server.url("h3"), &arguments);
    assert_eq!(code, Some(0), "{err}");
    for n in 0..30 {
        let file = fs::read(format!("{into}/i/{n}.png")).expect("a file");
        assert!(file == noise(10_000 + n), "{n}");
    }
    let text = fs::read_to_string(har).expect("a HAR");
    assert_eq!(text.matches("\"httpVersion\": \"HTTP/3\"").count(), 62, "requests and responses");
    assert_eq!(server.end(), 0, "every session has ended");
}

#[test]
fn who_is_not_to_be_believed_is_asked_for_nothing() {
    let scratch = Scratch::new("h3-stranger");
    let server = serve(&scratch, &[]);
    let url = server.url("h3").to_owned();
    let other = format!("sha256:{}", "00".repeat(32));
    for (arguments, says) in [
        (&[][..], "not trusted: the server's certificate is signed by nobody who is trusted"),
        (&["--trust", &other], "not trusted: the server's certificate has another fingerprint, sha256:"),
    ] {
        let (code, err, out) = get(&url, arguments);
        assert_eq!((code, err.lines().count(), out.is_empty()), (Some(1), 1, true), "{err}");
        assert!(err.contains(says), "{err}");
    }
    assert_eq!(server.end(), 0);
    if !has("openssl") {
        return;
    }
    let (certificate, key) = crate::secure::certificate(&scratch, "named", "30");
    let server = serve(&scratch, &["--cert", &certificate, "--key", &key]);
    let (code, err, _) = get(server.url("h3"), &["--trust", &certificate]);
    assert_eq!((code, err.lines().count()), (Some(1), 1), "{err}");
    assert!(err.contains("the server's certificate is not for 127.0.0.1, but for localhost"), "{err}");
    assert_eq!(server.end(), 0);
}

#[test]
fn an_expired_certificate_is_a_line() {
    if !has("openssl") {
        return;
    }
    let scratch = Scratch::new("h3-expired");
    let (certificate, key) = crate::secure::certificate(&scratch, "expired", "-1");
    let server = serve(&scratch, &["--cert", &certificate, "--key", &key]);
    let url = server.url("h3").replace("127.0.0.1", "localhost");
    let (code, err, _) = get(&url, &["--trust", &certificate]);
    assert_eq!((code, err.lines().count()), (Some(1), 1), "{err}");
    assert!(err.contains("not trusted: the server's certificate has expired"), "{err}");
    assert_eq!(server.end(), 0);
}

#[test]
fn where_nobody_listens_a_client_is_told_so_at_once() {
    let port = UdpSocket::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
    let url = format!("h3://127.0.0.1:{port}/");
    let got = run_in_time(anabranch().args(["get", "--quiet", &url, "--insecure", "--timeout", "10min"]));
    assert_eq!(got.status.code(), Some(1));
    assert!(errors(&got).contains("connection refused"), "{}", errors(&got));
    // This server receives packets, but does not respond.
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let at = silent.local_addr().expect("an address");
    let (code, err, _) = get(&format!("h3://{at}/"), &["--insecure", "--timeout", "1s"]);
    assert_eq!(code, Some(1));
    assert!(err.contains("no connection in time"), "{err}");
}

#[test]
fn what_makes_no_sense_is_refused_in_one_line() {
    for (arguments, says) in [
        (
            &["get", "http://127.0.0.1/", "--http", "3"][..],
            "HTTP/3 is for https:// and h3://; write https://",
        ),
        (&["get", "h3://127.0.0.1/", "--http", "2"], "h3:// is HTTP/3; leave --http out"),
        (&["get", "h3://127.0.0.1,127.0.0.2/"], "go to one"),
        (&["get", "h3://127.0.0.1/", "--key-file", "x"], "QUIC has certificates"),
        (
            &["get", "h3://127.0.0.1/", "--set", "cc=vegas"],
            "'vegas' is not one of cubic, reno, bbr, quinn-cubic",
        ),
        (
            &["get", "h3://127.0.0.1/", "http+sctp://127.0.0.1/", "--set", "cc=reno"],
            "is it for SCTP or QUIC? both are in use",
        ),
        (&["load", "http+sctp://127.0.0.1/", "-c", "1", "--http", "3"], "HTTP/3 is for https:// and h3://"),
        (
            &["gateway", "--listen", "h3://127.0.0.1:0", "--allow", "*"],
            "a gateway speaks HTTP/1.1; write https://",
        ),
        (&["serve", ".", "--listen", "h3://127.0.0.1:0", "--set", "window=1kB"], "window: '1kB' is not from"),
    ] {
        let output = run(anabranch().args(arguments));
        let err = errors(&output);
        assert_eq!((output.status.code(), err.lines().count()), (Some(2), 1), "{arguments:?}: {err}");
        assert!(err.contains(says), "{arguments:?}: {err}");
    }
    let dry = run(anabranch().args(["get", "-n", "h3://127.0.0.1/", "--set", "cc=bbr"]));
    let text = String::from_utf8_lossy(&dry.stdout).into_owned();
    assert!(text.contains("set (QUIC): cc=bbr,") && !text.contains("sctp-port"), "{text}");
}

/// Reloaded certificates must be used for new connections over QUIC, as over TLS.
#[test]
fn certificates_are_read_again_on_sighup() {
    if !has("openssl") {
        return;
    }
    let scratch = Scratch::new("h3-reload");
    scratch.file("index.html", "hello");
    let (old, old_key) = crate::secure::certificate(&scratch, "old", "30");
    let (new, new_key) = crate::secure::certificate(&scratch, "new", "30");
    let (now, now_key) = (format!("{}/now.pem", scratch.text()), format!("{}/now.key", scratch.text()));
    let replace_certificate = |certificate: &str, key: &str| {
        fs::copy(certificate, &now).expect("copied");
        fs::copy(key, &now_key).expect("copied");
    };
    replace_certificate(&old, &old_key);
    let server = serve(&scratch, &["--cert", &now, "--key", &now_key, "--listen", "https://127.0.0.1:0"]);
    let urls = ["h3", "https"].map(|scheme| server.url(scheme).replace("127.0.0.1", "localhost"));
    let comes = |trust: &str| urls.clone().map(|url| get(&url, &["--trust", trust]).0 == Some(0));
    assert_eq!((comes(&old), comes(&new)), ([true; 2], [false; 2]));
    replace_certificate(&new, &new_key);
    server.hang_up();
    server.wait_for_line("certificate: read again from ");
    assert_eq!((comes(&old), comes(&new)), ([false; 2], [true; 2]));
    assert_eq!(server.end(), 0);
}

/// Secrets must be written to the file that the environment names, for programs that decode captures.
#[test]
fn secrets_are_written_where_the_environment_says() {
    let scratch = Scratch::new("h3-keys");
    scratch.file("index.html", "hello");
    let server = serve(&scratch, &[]);
    let keys = format!("{}/keys", scratch.text());
    let mut command = anabranch();
    command.env("SSLKEYLOGFILE", &keys).args(["get", "--quiet", "--insecure", server.url("h3")]);
    assert_eq!(run(&mut command).status.code(), Some(0));
    let text = fs::read_to_string(keys).expect("secrets");
    for label in ["CLIENT_HANDSHAKE_TRAFFIC_SECRET ", "SERVER_TRAFFIC_SECRET_0 "] {
        assert_eq!(text.matches(label).count(), 1, "{text}");
    }
    assert_eq!(server.end(), 0);
}

/// RFC 7838, RFC 9114 §3.1.1: responses over TLS advertise HTTP/3. The objects that a page embeds must then be
/// requested over HTTP/3.
#[test]
fn what_a_page_embeds_comes_over_http_3_where_the_server_says_that_it_speaks_it() {
    let scratch = Scratch::new("h3-alt-svc");
    let images: String = (0..20).map(|n| format!("<img src=\"i/{n}.png\">")).collect();
    scratch.file("index.html", format!("<html>{images}</html>"));
    (0..20).for_each(|n| drop(scratch.file(&format!("i/{n}.png"), noise(5_000 + n))));
    let server = serve(&scratch, &["--listen", "https://127.0.0.1:0", "--listen", "tcp://127.0.0.1:0"]);
    let url = server.url("https").to_owned();
    let port = server.url("h3").trim_end_matches('/').rsplit(':').next().expect("a port").to_owned();
    let page = |arguments: &[&str]| {
        let har = format!("{}/load.har", scratch.text());
        let (code, err, _) = get(&url, &[&["--page", "--insecure", "--har", &har], arguments].concat());
        assert_eq!(code, Some(0), "{err}");
        let text = fs::read_to_string(har).expect("a HAR");
        ["HTTP/2", "HTTP/3"]
            .map(|version| text.matches(&format!("\"httpVersion\": \"{version}\"")).count() / 2)
    };
    assert_eq!(page(&[]), [1, 20], "the document over TLS, the rest over HTTP/3");
    assert_eq!(page(&["--http", "2"]), [21, 0], "who names a version stays with it");
    // Responses without TLS must advertise nothing.
    let answer = server.ask("HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").to_lowercase();
    assert!(!answer.contains("alt-svc"), "{answer}");
    if has("curl") {
        let output = run(Command::new("curl").args(["-s", "-k", "-I", "--max-time", "60", &url]));
        let head = String::from_utf8_lossy(&output.stdout).to_lowercase();
        assert!(head.contains(&format!("alt-svc: h3=\":{port}\"; ma=86400")), "{head}");
    }
    assert_eq!(server.end(), 0, "every session has ended");
}

/// Starts a relay between a client and a server, like a NAT. Its port and address towards the server change after
/// `after` datagrams.
fn rebinding(server: SocketAddr, after: usize, address: &'static str) -> (SocketAddr, Arc<AtomicUsize>) {
    let bind = |address: &str| {
        let socket = UdpSocket::bind((address, 0)).expect("a port");
        socket.set_read_timeout(Some(Duration::from_millis(1))).expect("a timeout");
        socket
    };
    let (front, mut back) = (bind("127.0.0.1"), bind("127.0.0.1"));
    let front_address = front.local_addr().expect("an address");
    let ports = Arc::new(AtomicUsize::new(1));
    let counted = ports.clone();
    thread::spawn(move || {
        let (mut client, mut passed) = (None, 0);
        let mut buffer = [0; 65_536];
        // The relay runs until the test drops its handle.
        while Arc::strong_count(&counted) > 1 {
            while let Ok((length, from)) = front.recv_from(&mut buffer) {
                client = Some(from);
                passed += 1;
                if passed == after {
                    back = bind(address);
                    counted.fetch_add(1, Ordering::Relaxed);
                }
                let _ = back.send_to(&buffer[..length], server);
            }
            while let (Some(client), Ok((length, _))) = (client, back.recv_from(&mut buffer)) {
                let _ = front.send_to(&buffer[..length], client);
            }
        }
    });
    (front_address, ports)
}

/// RFC 9000 §9.3: a NAT that gives a client another port or another address must not end its connection, whichever
/// thread serves it.
#[test]
fn a_client_whose_address_changes_goes_on_and_threads_keep_their_connections() {
    let scratch = Scratch::new("h3-rebinding");
    let body = noise(5_000_000);
    scratch.file("big.bin", &body);
    let server = serve(&scratch, &["--threads", "3"]);
    let at: SocketAddr =
        server.url("h3").trim_start_matches("h3://").trim_end_matches('/').parse().expect("an address");
    let changes = [(20, "127.0.0.1"), (60, "127.0.0.1"), (30, "127.0.0.2"), (100, "127.0.0.3")];
    // Keeps all relays running, so that they also forward the last datagrams of a client that has ended.
    let mut relays = Vec::new();
    for (after, address) in changes {
        let (between, ports) = rebinding(at, after, address);
        let (code, err, out) = get(&format!("h3://{between}/big.bin"), &["--insecure"]);
        assert_eq!(code, Some(0), "{err}");
        assert!(out == body, "another body");
        assert_eq!(ports.load(Ordering::Relaxed), 2, "the port has changed under way");
        relays.push(ports);
    }
    let load = run(anabranch()
        .args(["load", &format!("h3://{at}/big.bin"), "--insecure", "--quiet"])
        .args(["-c", "12", "--requests", "24", "--objects-per-session", "1"]));
    assert_eq!(load.status.code(), Some(0), "{}", errors(&load));
    let (code, lines) = server.end_with_lines();
    drop(relays);
    assert_eq!(code, 0, "every session has ended: {lines:#?}");
    let account = lines.iter().find(|line| line.contains("sessions by thread: ")).expect("an account");
    let counts =
        account.split("sessions by thread: ").nth(1).and_then(|rest| rest.split(';').next()).expect("counts");
    let counts: Vec<u64> = counts.split(' ').map(|count| count.parse().expect("a number")).collect();
    assert!(counts.len() == 3 && counts.iter().sum::<u64>() >= 28, "{account}");
    assert!(account.ends_with("lost: 0"), "{account}");
}

/// RFC 8446 §2.2, §2.3: sessions must be resumed. With `--early-data`, requests must also be sent as early data. The
/// logs of both ends must show this.
#[test]
fn sessions_are_resumed_and_requests_ride_early() {
    let scratch = Scratch::new("h3-early");
    scratch.file("x", noise(3_000));
    let logs = format!("{}/logs", scratch.text());
    let server = serve(&scratch, &["--qlog", &logs]);
    let url = format!("{}x", server.url("h3"));
    let words =
        ["--insecure", "--quiet", "--json", "-", "-c", "1", "--objects-per-session", "1", "--requests", "10"];
    let load = run(anabranch().args(["load", &url, "--early-data", "--qlog", &logs]).args(words));
    assert_eq!(load.status.code(), Some(0), "{}", errors(&load));
    let json: serde_json::Value = serde_json::from_slice(&load.stdout).expect("JSON");
    assert_eq!(json["replies"]["total"], 10, "{json}");
    // Not every connection can send early data. The server sends tickets after the handshake, and a connection may end
    // before its tickets arrive.
    let early = json["connections"]["early"].as_u64().expect("a number");
    assert!((2..=9).contains(&early), "{json}");
    assert_eq!(server.end(), 0);
    let (mut packets, mut files) = ([0_u64; 2], [0, 0]);
    for entry in fs::read_dir(&logs).expect("logs") {
        let path = entry.expect("a file").path();
        let text = fs::read_to_string(&path).expect("text");
        let side = usize::from(path.to_string_lossy().ends_with(".server.sqlog"));
        files[side] += 1;
        // RFC 7464: a record separator precedes each text, and a newline follows it.
        let mut last = 0.0;
        for (number, record) in text.split('\u{1e}').skip(1).enumerate() {
            assert!(record.ends_with('\n'), "{record}");
            let value: serde_json::Value = serde_json::from_str(record).expect("JSON");
            if number == 0 {
                assert_eq!(value["qlog_format"], "JSON-SEQ", "{value}");
                continue;
            }
            let time = value["time"].as_f64().expect("a time");
            assert!(time >= last, "{value}");
            last = time;
            let sent = ["transport:packet_sent", "transport:packet_received"][side];
            let early = value["name"] == sent && value["data"]["header"]["packet_type"] == "0RTT";
            packets[side] += u64::from(early);
        }
        assert!(
            text.contains("recovery:metrics_updated") && text.contains("\"frame_type\":\"stream\""),
            "{path:?}"
        );
        assert!(text.contains("connectivity:connection_closed"), "{path:?}");
        // RFC 9114 §6.2.1, RFC 9204 §4.2: a client that is done must not stop the server's control and QPACK streams.
        assert!(!text.contains("\"frame_type\":\"stop_sending\""), "{path:?}: {text}");
    }
    assert_eq!(files, [10, 10], "a file for each connection at each end");
    assert!(packets.iter().all(|count| *count >= early), "{packets:?} for {early}");
    let output = run(anabranch().args(["get", "--qlog", &logs, "https://127.0.0.1/"]));
    assert!(errors(&output).contains("no URL uses HTTP/3"), "{}", errors(&output));
}
