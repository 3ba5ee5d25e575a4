//! Tests the `gateway` command: both directions, proxies and tunnels, rejected requests, slow peers.
//!
//! The tests use only the loopback interface and ports that the host chooses, and every wait has a limit. curl and
//! nginx take part if they are installed. With `ANABRANCH_REQUIRE_PEERS` they must be installed.

#![cfg(target_os = "linux")]

use crate::running::{
    Running, Scratch, anabranch, has, noise, run, wait_until, wait_until_listening, wait_until_steady,
};
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const TCP: &str = "tcp://127.0.0.1:0";
const SCTP: &str = "sctp://127.0.0.1:0";

/// Starts one gateway from TCP to SCTP, and one from SCTP to the TCP servers that `allow` names.
fn two_gateways(allow: &[&str], near: &[&str]) -> (Running, Running) {
    let mut arguments = vec!["gateway", "--listen", SCTP, "-q"];
    arguments.extend(allow.iter().flat_map(|rule| ["--allow", rule]));
    let far = Running::start(&arguments);
    let mut arguments = vec!["gateway", "--listen", TCP, "-q", "--via", far.url("http+sctp")];
    arguments.extend(near);
    (Running::start(&arguments), far)
}

/// Starts an origin that handles each connection with `act`. Returns its address and the counter of its connections.
fn origin(act: impl Fn(TcpStream) + Send + Sync + 'static) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listening");
    let address = listener.local_addr().expect("an address");
    let count = Arc::new(AtomicUsize::new(0));
    let (counted, act) = (count.clone(), Arc::new(act));
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            counted.fetch_add(1, Ordering::SeqCst);
            let act = act.clone();
            thread::spawn(move || act(stream));
        }
    });
    (address, count)
}

/// Reads a head up to its end.
fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
        head.push(byte[0]);
    }
    String::from_utf8(head).expect("a head")
}

fn body_of(answer: &[u8]) -> &[u8] {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    &answer[end + 4..]
}

fn status_of(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

#[test]
fn the_same_bytes_pass_in_either_direction() {
    let site = Scratch::new("gateway-bytes");
    let big = noise(3_000_000);
    site.file("site/big", &big);
    site.file("site/index.html", "<p>home");
    let server =
        Running::start(&["serve", &format!("{}/site", site.text()), "--listen", TCP, "--listen", SCTP, "-q"]);
    // The gateway `near` has TCP clients and an SCTP server.
    let near = Running::start(&["gateway", "--listen", TCP, "-q", "--origin", server.url("http+sctp")]);
    // The gateway `far` has SCTP clients and a TCP server. The gateway `both` forwards from TCP to `far`.
    let far = Running::start(&["gateway", "--listen", SCTP, "-q", "--origin", server.url("http")]);
    let both = Running::start(&["gateway", "--listen", TCP, "-q", "--origin", far.url("http+sctp")]);
    for url in [near.url("http"), far.url("http+sctp"), both.url("http")] {
        let got = run(anabranch()
            .args(["get", "-q", &format!("{url}big"), url, "-o"])
            .arg(site.0.join("big"))
            .args(["-o", "-"]));
        assert_eq!((got.status.code(), got.stdout.as_slice()), (Some(0), &b"<p>home"[..]), "{url}");
        assert!(fs::read(site.0.join("big")).expect("a file") == big, "{url}: other bytes");
    }
    // Conditional requests, ranges, HEAD and errors must also pass. Hop-by-hop fields must not.
    let part = both.ask("GET /big HTTP/1.1\r\nHost: x\r\nRange: bytes=10-19\r\nConnection: close\r\n\r\n");
    assert_eq!(status_of(&part), 206, "{part}");
    assert!(part.to_lowercase().contains("\r\ncontent-range: bytes 10-19/3000000\r\n"), "{part}");
    assert!(part.ends_with(&format!("\r\n\r\n{}", String::from_utf8_lossy(&big[10..20]))), "{part}");
    let head = both.ask("HEAD /big HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert!(
        head.to_lowercase().contains("content-length: 3000000\r\n") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
    assert_eq!(head.matches("Via: 1.1 anabranch-").count(), 2, "{head}");
    assert_eq!(status_of(&both.ask("GET /none HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")), 404);
    assert_eq!(status_of(&both.ask("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nConnection: close\r\n\r\n")), 405);
    for running in [both, near, far, server] {
        assert_eq!(running.end(), 0);
    }
}

#[test]
fn requests_and_tunnels_pass_two_gateways() {
    let (echo, _) = origin(|mut stream| {
        // This server sends only after the client has closed its direction. The gateway must therefore keep the other
        // direction open.
        let mut all = Vec::new();
        if stream.read_to_end(&mut all).is_ok() {
            let _ = stream.write_all(&all);
        }
    });
    let (chunks, _) = origin(|mut stream| {
        while read_head(&mut stream).starts_with("POST") {
            let mut body = [0; 10];
            let _ = stream.read_exact(&mut body);
            let _ =
                stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0A\r\n");
            let _ = stream.write_all(&body);
            let _ = stream.write_all(b"\r\n0\r\nTrailer: x\r\n\r\n");
        }
    });
    let (near, _far) = two_gateways(&["127.0.0.1"], &[]);
    let sent = noise(2_000_000);
    for _ in 0..3 {
        let mut tunnel = near.connect();
        tunnel
            .write_all(format!("CONNECT {echo} HTTP/1.1\r\nHost: {echo}\r\n\r\n").as_bytes())
            .expect("sent");
        let head = read_head(&mut tunnel);
        assert!(
            head.starts_with("HTTP/1.1 200 ") && !head.to_lowercase().contains("tunnel-framing"),
            "{head}"
        );
        let (mut out, bytes) = (tunnel.try_clone().expect("a clone"), sent.clone());
        let writer = thread::spawn(move || {
            out.write_all(&bytes).expect("sent");
            out.shutdown(Shutdown::Write).expect("half-closed");
        });
        let mut back = Vec::new();
        tunnel.read_to_end(&mut back).expect("echoed");
        writer.join().expect("sent");
        assert!(back == sent, "{} of {} bytes came back", back.len(), sent.len());
    }
    // Several requests are sent on one connection, the second with chunked content.
    let mut one = near.connect();
    for framed in [
        "Content-Length: 10\r\n\r\n0123456789",
        "Transfer-Encoding: chunked\r\n\r\n4;x\r\n0123\r\n6\r\n456789\r\n0\r\n\r\n",
    ] {
        one.write_all(format!("POST http://{chunks}/ HTTP/1.1\r\nHost: {chunks}\r\n{framed}").as_bytes())
            .expect("sent");
    }
    one.write_all(format!("POST http://{chunks}/ HTTP/1.1\r\nHost: {chunks}\r\nConnection: close\r\nContent-Length: 10\r\n\r\nabcdefghij").as_bytes()).expect("sent");
    let mut answers = String::new();
    one.read_to_string(&mut answers).expect("answers");
    assert_eq!(answers.matches("HTTP/1.1 200 OK\r\n").count(), 3, "{answers}");
    assert!(
        answers.matches("3\r\nabc\r\n").count() == 3 && answers.ends_with("a\r\nabcdefghij\r\n0\r\n\r\n"),
        "{answers}"
    );
}

#[test]
fn unreachable_and_forbidden_targets_are_reported() {
    let (silent, _) = origin(|mut stream| while stream.read(&mut [0; 1000]).is_ok_and(|read| read > 0) {});
    let (early, _) = origin(|mut stream| {
        read_head(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this");
    });
    let (garbage, _) = origin(|mut stream| {
        read_head(&mut stream);
        let _ = stream.write_all(b"220 mail.example ESMTP\r\n\r\n");
    });
    let (doubtful, _) = origin(|mut stream| {
        read_head(&mut stream);
        let _ = stream.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        );
    });
    let closed = TcpListener::bind("127.0.0.1:0").expect("listening").local_addr().expect("an address");
    let rules = ["127.0.0.1", "name.invalid"];
    let (near, _far) = two_gateways(&rules, &["--idle", "20s"]);
    let ask = |to: &dyn std::fmt::Display| {
        near.ask(format!("GET http://{to}/ HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n\r\n"))
    };
    assert_eq!(status_of(&ask(&closed)), 502);
    assert_eq!(status_of(&ask(&"name.invalid")), 502);
    assert_eq!(status_of(&ask(&garbage)), 502);
    assert_eq!(status_of(&ask(&doubtful)), 502);
    assert_eq!(status_of(&ask(&"192.0.2.1")), 403);
    // The gateway must not connect to addresses of its own host and link, by any name, unless a rule contains the
    // address.
    let open = Running::start(&["gateway", "--listen", TCP, "-q", "--allow", "*", "--connect-timeout", "5s"]);
    for host in [
        "localhost",
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f.1",
        "0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "169.254.169.254",
    ] {
        let answer = open.ask(format!(
            "GET http://{host}:{}/ HTTP/1.1\r\nHost: {host}:{0}\r\nConnection: close\r\n\r\n",
            closed.port()
        ));
        assert!(matches!(status_of(&answer), 403 | 502), "{host}: {answer}");
        assert!(!answer.contains("refuses"), "{host}: {answer}");
    }
    assert_eq!(
        status_of(
            &near.ask("CONNECT 192.0.2.1:443 HTTP/1.1\r\nHost: 192.0.2.1:443\r\nConnection: close\r\n\r\n")
        ),
        403
    );
    assert_eq!(
        status_of(
            &near.ask(format!("CONNECT {closed} HTTP/1.1\r\nHost: {closed}\r\nConnection: close\r\n\r\n"))
        ),
        502
    );
    // A proxy must accept only requests with absolute URLs.
    assert_eq!(status_of(&near.ask("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")), 400);
    // A truncated response must not be forwarded as a complete response.
    let mut stream = near.connect();
    stream
        .write_all(format!("GET http://{early}/ HTTP/1.1\r\nHost: {early}\r\n\r\n").as_bytes())
        .expect("sent");
    let mut answer = Vec::new();
    let end = stream.read_to_end(&mut answer);
    // The reset at the end of the response may overtake its head. The client then gets nothing or status 502.
    let is_complete =
        [&b"HTTP/1.1 200 OK\r\n"[..], b"HTTP/1.1 502 "].iter().any(|line| answer.starts_with(line));
    assert!(is_complete || answer.is_empty(), "{}", answer.escape_ascii());
    assert!(end.is_err() || body_of(&answer).len() < 100);
    // This origin never answers.
    let one = Running::start(&[
        "gateway",
        "--listen",
        TCP,
        "-q",
        "--idle",
        "1s",
        "--origin",
        &format!("http://{silent}"),
    ]);
    assert_eq!(status_of(&one.ask("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")), 504);
    // This gateway forwards to an SCTP address at which no program listens.
    let one = Running::start(&[
        "gateway",
        "--listen",
        TCP,
        "-q",
        "--connect-timeout",
        "2s",
        "--via",
        "http+sctp://127.0.0.1:9",
    ]);
    let status = status_of(&one.ask("GET http://x/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
    assert!(matches!(status, 502 | 504), "{status}");
}

#[test]
fn ambiguous_requests_are_not_forwarded() {
    let (address, count) = origin(|mut stream| {
        while !read_head(&mut stream).is_empty() {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let (near, _far) = two_gateways(&["127.0.0.1"], &["--header-timeout", "2s"]);
    let host = format!("Host: {address}");
    let post = |fields: &str, body: &str| {
        format!("POST http://{address}/ HTTP/1.1\r\n{host}\r\n{fields}\r\n\r\n{body}")
    };
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";
    for request in [
        post("Content-Length: 5\r\nTransfer-Encoding: chunked", &format!("0\r\n\r\n{smuggled}")),
        post("Content-Length: 5\r\nContent-Length: 6", smuggled),
        post("Content-Length: 5\r\nContent-Length: 5", smuggled),
        post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", smuggled),
        post("Transfer-Encoding: \x0bchunked", smuggled),
        post("Transfer-Encoding : chunked", smuggled),
        post("Content-Length: 5\r\nX: a\r\n folded", smuggled),
        format!("GET http://{address}/ HTTP/1.1\n{host}\n\n{smuggled}"),
        format!("GET http://{address}/ HTTP/1.1\r\n{host}\rX: y\r\n\r\n{smuggled}"),
        format!("GET http://{address}/ HTTP/1.1\r\nHost: other, another\r\n\r\n{smuggled}"),
        format!("GET http://{address}/ HTTP/1.1\r\nHost: other\r\n{host}\r\n\r\n{smuggled}"),
        format!("GET http://{address}/ HTTP/1.1\r\n{host}\r\n{host}\r\n\r\n{smuggled}"),
        format!("GET http://{address}/ HTTP/1.1\r\n\r\n{smuggled}"),
    ] {
        let answer = near.ask(&request);
        assert_eq!(status_of(&answer), 400, "{}\n{answer}", request.escape_debug());
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
    }
    assert_eq!(status_of(&near.ask(post("Transfer-Encoding: gzip, chunked", smuggled))), 501);
    assert_eq!(count.load(Ordering::SeqCst), 0, "something reached the origin");
    // Invalid chunks are detected while they are forwarded. The origin must never receive a complete request.
    for body in ["x\r\n", "3 \r\nabc\r\n", "3\nabc\r\n0\r\n\r\n", "1000000000000000\r\n", "3\r\nabcd\r\n"] {
        let answer = near.ask(post("Transfer-Encoding: chunked", &format!("{body}{smuggled}")));
        assert!(
            matches!(status_of(&answer), 400 | 0 | 200) && !answer.contains("smuggled"),
            "{body:?}: {answer}"
        );
        assert!(answer.matches("HTTP/1.1 200").count() <= 1, "{body:?}: {answer}");
    }
    // Large heads and slow heads must be rejected.
    let large = format!("GET http://{address}/ HTTP/1.1\r\n{host}\r\nX: {}\r\n\r\n", "x".repeat(1_000_000));
    let mut stream = near.connect();
    let _ = stream.write_all(large.as_bytes());
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(matches!(status_of(&answer), 431 | 0), "{answer}");
    let many = format!("GET http://{address}/ HTTP/1.1\r\n{host}\r\n{}\r\n", "A: b\r\n".repeat(500));
    assert_eq!(status_of(&near.ask(many)), 431);
    let slow: Vec<TcpStream> = (0..50)
        .map(|_| {
            let mut stream = near.connect();
            stream.write_all(b"GET http://a/ HTTP/1.1\r\nHost: a\r\nX: ").expect("sent");
            stream
        })
        .collect();
    let honest = format!("GET http://{address}/ HTTP/1.1\r\n{host}\r\nConnection: close\r\n\r\n");
    assert_eq!(status_of(&near.ask(honest)), 200);
    for mut stream in slow {
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        assert_eq!(status_of(&answer), 408, "{answer}");
    }
}

/// Starts an origin whose responses have the length given in the path. Returns its address and the number of content
/// bytes it has written.
fn fountain() -> (SocketAddr, Arc<AtomicUsize>) {
    let poured = Arc::new(AtomicUsize::new(0));
    let count = poured.clone();
    let act = move |mut stream: TcpStream| {
        let head = read_head(&mut stream);
        let length: usize = head.split(['/', ' ']).nth(2).and_then(|length| length.parse().ok()).unwrap_or(0);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
        let (piece, mut left) = (vec![b'x'; 1 << 16], length);
        if stream.write_all(head.as_bytes()).is_err() {
            return;
        }
        while left > 0 {
            let Ok(taken) = stream.write(&piece[..left.min(piece.len())]) else { return };
            count.fetch_add(taken, Ordering::SeqCst);
            left -= taken;
        }
    };
    (origin(act).0, poured)
}

#[test]
fn a_client_that_stops_reading_costs_no_memory_and_keeps_nobody_waiting() {
    let (fountain, poured) = fountain();
    let (mut near, mut far) = two_gateways(&["127.0.0.1"], &[]);
    let ask = |length: usize, close: &str| {
        let mut stream = near.connect();
        let request = format!("GET http://{fountain}/{length} HTTP/1.1\r\nHost: {fountain}\r\n{close}\r\n");
        stream.write_all(request.as_bytes()).expect("sent");
        stream
    };
    assert_eq!(
        body_of(
            near.ask(format!(
                "GET http://{fountain}/10 HTTP/1.1\r\nHost: {fountain}\r\nConnection: close\r\n\r\n"
            ))
            .as_bytes()
        )
        .len(),
        10
    );
    let before = (near.resident(), far.resident());
    // These clients read the head of the response and then stop reading.
    let mut stopped: Vec<TcpStream> = (0..4).map(|_| ask(1 << 30, "")).collect();
    for stream in &mut stopped {
        assert!(read_head(stream).starts_with("HTTP/1.1 200 OK\r\n"));
    }
    // This request uses the association that the clients above block by not reading. The request must be answered when
    // the gateway has reset the streams of these clients.
    let mut victim = ask(100_000, "Connection: close\r\n");
    // Wait until every buffer between the origin and these clients is full.
    wait_until_steady("the origin is held up", || poured.load(Ordering::SeqCst));
    // Other clients must be served all the time.
    for _ in 0..10 {
        let mut answer = Vec::new();
        ask(100_000, "Connection: close\r\n").read_to_end(&mut answer).expect("an answer");
        assert_eq!(body_of(&answer).len(), 100_000);
    }
    let mut answer = Vec::new();
    victim.read_to_end(&mut answer).expect("an answer");
    assert_eq!(body_of(&answer).len(), 100_000, "{}", answer[..100].escape_ascii());
    let after = (near.resident(), far.resident());
    // Memory may grow by the windows and buffers of four connections or associations. It must not grow by the 4 GB that
    // the clients requested.
    assert!(after.0 < before.0 + 40_000 && after.1 < before.1 + 40_000, "{before:?} KiB, then {after:?}");
    drop(stopped);
    assert!(near.still_runs() && far.still_runs());
}

#[test]
fn streams_of_cancelled_exchanges_are_reused() {
    let (fountain, _) = fountain();
    // Each association has one stream, which must be usable again after a reset, because the next request needs it.
    let far = Running::start(&["gateway", "--listen", SCTP, "-q", "--allow", "127.0.0.1", "--streams", "1"]);
    let near =
        Running::start(&["gateway", "--listen", TCP, "-q", "--streams", "1", "--via", far.url("http+sctp")]);
    for _ in 0..20 {
        let mut stream = near.connect();
        stream
            .write_all(
                format!("GET http://{fountain}/{} HTTP/1.1\r\nHost: {fountain}\r\n\r\n", 1 << 30).as_bytes(),
            )
            .expect("sent");
        assert!(read_head(&mut stream).starts_with("HTTP/1.1 200 OK\r\n"));
        drop(stream);
    }
    let last = near
        .ask(format!("GET http://{fountain}/5 HTTP/1.1\r\nHost: {fountain}\r\nConnection: close\r\n\r\n"));
    assert!(last.ends_with("\r\n\r\nxxxxx"), "{last}");
}

#[test]
fn a_stopped_gateway_finishes_exchanges_in_flight() {
    let (fountain, _) = fountain();
    let (near, far) = two_gateways(&["127.0.0.1"], &[]);
    let length = 20_000_000;
    let mut stream = near.connect();
    stream
        .write_all(format!("GET http://{fountain}/{length} HTTP/1.1\r\nHost: {fountain}\r\n\r\n").as_bytes())
        .expect("sent");
    assert!(read_head(&mut stream).starts_with("HTTP/1.1 200 OK\r\n"));
    let address = near.tcp();
    let reader = thread::spawn(move || {
        // The gateway is shutting down, so it must accept no more connections.
        wait_until("nobody listens", || TcpStream::connect(address).is_err());
        let mut body = Vec::new();
        stream.read_to_end(&mut body).expect("the rest");
        body.len()
    });
    assert_eq!(near.end(), 0);
    assert_eq!(reader.join().expect("read"), length);
    assert_eq!(far.end(), 0);
}

#[test]
fn wrong_flags_are_told_in_one_line() {
    for (arguments, what) in [
        (vec!["gateway"], "no target is permitted"),
        (vec!["gateway", "--allow", "a b"], "not a host name"),
        (vec!["gateway", "--via", "http://x/"], "must be http+sctp://"),
        (vec!["gateway", "--origin", "http://x/path"], "a path is not allowed"),
        (vec!["gateway", "--origin", "http://x/", "--via", "http+sctp://y/"], "cannot be used with"),
    ] {
        let output = run(anabranch().args(&arguments));
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.code() == Some(2) && stderr.lines().count() == 1 && stderr.contains(what),
            "{arguments:?}: {stderr}"
        );
    }
}

/// nginx in the foreground, which serves a directory with and without TLS.
struct Nginx {
    child: Child,
    plain: SocketAddr,
    secure: SocketAddr,
}

impl Nginx {
    fn start(scratch: &Scratch) -> Self {
        let free = || TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
        let (plain, secure) = (free(), free());
        let output = run(Command::new("openssl").current_dir(&scratch.0).args([
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-keyout",
            "key.pem",
            "-out",
            "cert.pem",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
        ]));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let directory = scratch.text();
        let config = format!(
            "daemon off; master_process off; pid {directory}/pid; error_log {directory}/error.log;\n\
             events {{ worker_connections 256; }}\n\
             http {{ access_log off; client_body_temp_path {directory}/t1; proxy_temp_path {directory}/t2; fastcgi_temp_path \
             {directory}/t3; uwsgi_temp_path {directory}/t4; scgi_temp_path {directory}/t5;\n\
             server {{ listen {plain}; listen {secure} ssl; root {directory}/site;\n\
             ssl_certificate {directory}/cert.pem; ssl_certificate_key {directory}/key.pem; }} }}\n"
        );
        let file = scratch.file("nginx.conf", config);
        let mut child = Command::new("/usr/sbin/nginx")
            .arg("-c")
            .arg(file)
            .arg("-e")
            .arg(scratch.0.join("error.log"))
            .stderr(Stdio::null())
            .spawn()
            .expect("nginx");
        wait_until_listening(&mut child, secure);
        Self { child, plain, secure }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn curl_gets_from_nginx_by_two_gateways_plain_and_encrypted() {
    if !["curl", "nginx", "openssl"].into_iter().all(has) {
        return;
    }
    let scratch = Scratch::new("gateway-nginx");
    let big = noise(5_000_000);
    scratch.file("site/big", &big);
    scratch.file("site/index.html", "<p>nginx");
    let nginx = Nginx::start(&scratch);
    let (near, _far) = two_gateways(&["127.0.0.1"], &[]);
    let proxy = near.url("http").to_owned();
    let curl = |arguments: &[&str]| {
        let mut command = Command::new("curl");
        command.env_remove("no_proxy").env("http_proxy", &proxy).env("https_proxy", &proxy);
        command
            .args(["-sS", "--max-time", "100", "--cacert"])
            .arg(scratch.0.join("cert.pem"))
            .args(arguments);
        let output = run(&mut command);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    for base in [format!("http://{}", nginx.plain), format!("https://{}", nginx.secure)] {
        assert_eq!(curl(&[&format!("{base}/")]), b"<p>nginx");
        assert!(curl(&[&format!("{base}/big")]) == big, "{base}: other bytes");
        // Many requests are sent at the same time, each on a stream of its own.
        let range = format!("{base}/big?[1-20]");
        let code = curl(&[
            "-Z",
            "--parallel-max",
            "20",
            "-o",
            "/dev/null",
            "-w",
            "%{http_code} %{size_download}\n",
            &range,
        ]);
        assert_eq!(String::from_utf8_lossy(&code).matches("200 5000000\n").count(), 20);
    }
    // nginx rejects an upload of 3 MB, and answers before it has received the whole upload. The client must receive
    // nginx's answer.
    let upload = scratch.file("upload", noise(3_000_000));
    let data = format!("@{}", upload.display());
    let code = curl(&[
        "-o",
        "/dev/null",
        "-w",
        "%{http_code}",
        "--data-binary",
        &data,
        &format!("http://{}/", nginx.plain),
    ]);
    assert_eq!(code, b"413");
}
