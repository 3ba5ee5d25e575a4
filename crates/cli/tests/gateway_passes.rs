//! Tests what a gateway forwards. It must forward WebSockets, trailers and half-close, and add a missing Date. It must
//! not forward Alt-Svc. It must not connect to its own listeners, neither for a tunnel nor for a request.

#![cfg(target_os = "linux")]

use crate::running::{LONG, Running, Scratch, noise, pace};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;
use tungstenite::{Message, WebSocket};

const TCP: &str = "tcp://127.0.0.1:0";
const SCTP: &str = "sctp://127.0.0.1:0";

/// Starts an origin that handles each connection with `act`.
fn origin(act: impl Fn(TcpStream) + Send + Sync + Clone + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listening");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let act = act.clone();
            thread::spawn(move || act(stream));
        }
    });
    address
}

/// Starts an origin that answers each request with `answer`. If `answer` contains `Connection: close`, the origin then
/// closes the connection.
fn answering(answer: &'static [u8]) -> SocketAddr {
    origin(move |mut stream| {
        while read_head(&mut stream).ends_with("\r\n\r\n") {
            let _ = stream.write_all(answer);
            if answer.windows(17).any(|part| part.eq_ignore_ascii_case(b"connection: close")) {
                return;
            }
        }
    })
}

/// Starts three gateways, and returns them in this order. The first forwards requests directly to `origin`. The second
/// accepts requests over TCP and forwards them over SCTP to the third. The third forwards them to `origin`.
fn gateways_to(origin: SocketAddr) -> Vec<Running> {
    let to = format!("http://{origin}");
    let one = Running::start(&["gateway", "-q", "--listen", TCP, "--origin", &to]);
    let far = Running::start(&["gateway", "-q", "--listen", SCTP, "--origin", &to]);
    let near = Running::start(&["gateway", "-q", "--listen", TCP, "--origin", far.url("http+sctp")]);
    vec![one, near, far]
}

fn read_head(stream: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
        head.push(byte[0]);
    }
    String::from_utf8_lossy(&head).into_owned()
}

#[test]
fn a_websocket_passes_one_gateway_and_two() {
    let echo = origin(|stream| {
        let Ok(mut socket) = tungstenite::accept(stream) else { return };
        while let Ok(message) = socket.read() {
            if !message.is_close() && socket.send(message).is_err() {
                return;
            }
        }
    });
    let gateways = gateways_to(echo);
    let blob = noise(300_000);
    for gateway in &gateways[..2] {
        // The request is repeated, because later requests reuse the stream between the two gateways.
        for _ in 0..3 {
            let url = format!("ws://{}/chat?room=1", gateway.tcp());
            let (mut socket, answer): (WebSocket<TcpStream>, _) =
                tungstenite::client(url, gateway.connect()).expect("a WebSocket");
            assert_eq!(answer.status(), 101);
            assert!(!answer.headers().contains_key("tunnel-framing"), "{answer:?}");
            for message in [Message::text("hello"), Message::binary(blob.clone()), Message::text("")] {
                socket.send(message.clone()).expect("sent");
                assert_eq!(socket.read().expect("an echo"), message);
            }
            socket.close(None).expect("closed");
            while socket.read().is_ok() {}
        }
    }
    for gateway in gateways {
        assert_eq!(gateway.end(), 0);
    }
}

/// Only upgrades to WebSocket may be forwarded. After any other upgrade, the gateway could not inspect the requests.
#[test]
fn other_upgrades_are_left_out() {
    let origin_address = origin(|mut stream| {
        let head = read_head(&mut stream).to_lowercase();
        let response =
            format!("upgrade={} settings={}", head.contains("upgrade:"), head.contains("http2-settings"));
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{response}", response.len());
        let _ = stream.write_all(answer.as_bytes());
    });
    let gateways = gateways_to(origin_address);
    for gateway in &gateways[..2] {
        for (fields, upgraded) in [
            ("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n", false),
            ("Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n", false),
            ("Upgrade: websocket\r\n", false),
            ("Connection: upgrade\r\nUpgrade: WebSocket\r\n", true),
        ] {
            let answer =
                gateway.ask(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}Connection: close\r\n\r\n"));
            assert!(answer.ends_with(&format!("upgrade={upgraded} settings=false")), "{fields}{answer}");
        }
    }
}

#[test]
fn a_client_that_half_closes_has_its_answer() {
    let slow = origin(|mut stream| {
        if read_head(&mut stream).is_empty() {
            return;
        }
        pace(Duration::from_millis(20));
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    });
    let gateways = gateways_to(slow);
    for gateway in &gateways[..2] {
        for _ in 0..30 {
            let mut stream = gateway.connect();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("sent");
            stream.shutdown(Shutdown::Write).expect("half-closed");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("an answer and an end");
            assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\nhello"), "{answer}");
        }
    }
    // A client that half-closes must receive a large response completely, although the response takes a long time.
    let site = Scratch::new("half-close");
    site.file("site/big", noise(20_000_000));
    let server = Running::start(&["serve", &format!("{}/site", site.text()), "-q", "--listen", TCP]);
    let mut stream = server.connect();
    stream.write_all(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n").expect("sent");
    stream.shutdown(Shutdown::Write).expect("half-closed");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer and an end");
    assert!(answer.len() > 20_000_000, "{}", answer.len());
}

#[test]
fn an_answer_without_a_date_has_one_behind_the_gateway() {
    let none = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nAlt-Svc: h3=\":443\"; ma=60\r\n\r\n");
    let dated = answering(b"HTTP/1.1 204 No Content\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n");
    let get = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let dates = |answer: &str| answer.to_lowercase().matches("\r\ndate: ").count();
    for gateway in &gateways_to(none)[..2] {
        let answer = gateway.ask(get);
        assert!(answer.starts_with("HTTP/1.1 200 ") && dates(&answer) == 1, "{answer}");
        // An Alt-Svc field names ports of the origin, so the gateway must not forward it.
        assert!(!answer.to_lowercase().contains("alt-svc"), "{answer}");
        let own = gateway.ask("GET / HTTP/1.1\r\n\r\n");
        assert!(own.starts_with("HTTP/1.1 400 ") && dates(&own) == 1, "{own}");
        let own = gateway.ask("TRACE / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        assert!(own.starts_with("HTTP/1.1 405 ") && dates(&own) == 1, "{own}");
    }
    for gateway in &gateways_to(dated)[..2] {
        let answer = gateway.ask(get);
        assert!(
            answer.contains("\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n") && dates(&answer) == 1,
            "{answer}"
        );
    }
}

#[test]
fn trailers_pass_where_the_client_takes_them() {
    let origin = answering(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Digest\r\n\r\n3\r\nabc\r\n0\r\nDigest: x\r\n\
          Content-Length: 7\r\nSet-Cookie: a=b\r\nTransfer_Encoding: chunked\r\n\r\n",
    );
    let gateways = gateways_to(origin);
    for gateway in &gateways[..2] {
        for (fields, version, end) in [
            ("TE: trailers\r\nConnection: TE\r\n", "1.1", "0\r\nDigest: x\r\n\r\n"),
            ("TE: gzip;q=0.5, Trailers\r\n", "1.1", "0\r\nDigest: x\r\n\r\n"),
            ("", "1.1", "\r\n0\r\n\r\n"),
            ("TE: trailers\r\n", "1.0", "\r\n\r\nabc"),
        ] {
            let request = format!("GET / HTTP/{version}\r\nHost: a\r\n{fields}Connection: close\r\n\r\n");
            let answer = gateway.ask(request);
            assert!(answer.ends_with(end), "{fields}{answer}");
            assert_eq!(answer.contains("Trailer: Digest\r\n"), end.contains("Digest"), "{answer}");
        }
    }
}

#[test]
fn a_gateway_opens_no_tunnel_to_itself() {
    let gateway =
        Running::start(&["gateway", "-q", "--listen", TCP, "--allow", "127.0.0.1", "--allow", "localhost"]);
    let port = gateway.tcp().port();
    for host in ["127.0.0.1", "localhost"] {
        for request in [
            format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n"),
            format!("GET http://{host}:{port}/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
        ] {
            let answer = gateway.ask(&request);
            assert!(answer.starts_with("HTTP/1.1 508 "), "{request}{answer}");
        }
    }
    // Other listeners on the gateway's host must stay reachable.
    let echo = origin(|mut stream| {
        let mut all = Vec::new();
        if stream.read_to_end(&mut all).is_ok() {
            let _ = stream.write_all(&all);
        }
    });
    let mut tunnel = gateway.connect();
    tunnel.write_all(format!("CONNECT {echo} HTTP/1.1\r\nHost: {echo}\r\n\r\n").as_bytes()).expect("sent");
    assert!(read_head(&mut tunnel).starts_with("HTTP/1.1 200 "));
    tunnel.write_all(b"within").expect("sent");
    tunnel.shutdown(Shutdown::Write).expect("half-closed");
    let mut back = String::new();
    tunnel.read_to_string(&mut back).expect("an echo");
    assert_eq!(back, "within");
}

/// The gateway is configured as its own origin. It must report this, log the request once, and end at once. If it
/// connected to itself, it would log two lines and wait for its own connection at the end.
#[test]
fn a_gateway_that_is_its_own_origin_says_so_and_ends_at_once() {
    let scratch = Scratch::new("own-origin");
    for (listen, flag, scheme, threads) in [
        ("tcp", "--origin", "http", "1"),
        ("tcp", "--origin", "http", "2"),
        ("sctp", "--origin", "http+sctp", "1"),
        ("sctp", "--origin", "http+sctp", "2"),
        ("sctp", "--via", "http+sctp", "1"),
    ] {
        // Finds a free port. The kernel does not assign it to another program soon.
        let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port");
        let (own, url) = (format!("{listen}://{free}"), format!("{scheme}://{free}"));
        let log = scratch.file("log", "");
        let arguments = ["gateway", "--listen", TCP, "--listen", &own, flag, &url, "--threads", threads];
        let gateway = Running::start_with(
            &[&arguments[..], &["--grace", "1s"]].concat(),
            File::create(&log).expect("a file"),
        );
        let target = if flag == "--via" { "http://a.example/" } else { "/" };
        let answer = gateway.ask(format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
        let what = format!("{flag} {url}, {threads} threads");
        assert!(answer.starts_with("HTTP/1.1 508 "), "{what}: {answer}");
        assert!(answer.ends_with("the target is this gateway\n"), "{what}: {answer}");
        assert_eq!(gateway.end(), 0, "{what}: it ends within its grace");
        let log = fs::read_to_string(&log).expect("a log");
        assert_eq!(log.lines().count(), 1, "{what}: {log}");
    }
}

/// A truncated response must be recognizable, however it is framed and however many gateways it passes. Its head
/// arrives, and then the connection must be reset.
#[test]
fn an_answer_that_was_cut_never_looks_whole() {
    for (name, answer) in [
        ("a length", &b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nConnection: close\r\n\r\nbegins"[..]),
        (
            "chunks",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n6\r\nbegins\r\n",
        ),
        ("a chunk", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\nf\r\nbegins"),
        (
            "its last chunk",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n6\r\nbegins\r\n0\r\n",
        ),
    ] {
        let gateways = gateways_to(answering(answer));
        for (at, gateway) in gateways[..2].iter().enumerate() {
            for version in ["1.1", "1.0"] {
                for _ in 0..10 {
                    let mut stream = gateway.connect();
                    let request = format!("GET / HTTP/{version}\r\nHost: a\r\n\r\n");
                    stream.write_all(request.as_bytes()).expect("sent");
                    stream.set_read_timeout(Some(LONG)).expect("a deadline");
                    let mut got = Vec::new();
                    let ended = stream.read_to_end(&mut got);
                    let text = String::from_utf8_lossy(&got);
                    let what = format!("{name}, HTTP/{version}, {} gateways: {ended:?} {text}", at + 1);
                    assert!(text.starts_with("HTTP/1.1 200 "), "{what}");
                    assert!(!text.ends_with("\r\n0\r\n\r\n"), "{what}");
                    // Without a length or chunks, only a reset shows that the response is incomplete.
                    let framed = text.contains("Content-Length: ") || text.contains("Transfer-Encoding: ");
                    assert!(framed || ended.is_err(), "{what}");
                }
            }
        }
    }
}
