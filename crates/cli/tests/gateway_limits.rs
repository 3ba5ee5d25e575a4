//! Tests `gateway` with peers that reach its limits: data sent directly after the head of a tunnel request, endless
//! interim responses, and sessions that occupy all exchanges.

#![cfg(target_os = "linux")]

use crate::peer::{associate, host, in_a_world, meanwhile, pace, steady};
use crate::raw_sctp::Raw;
use crate::running::{Running, anabranch, comes_true, errors, run};
use anabranch_transport::{Listener, Session, Stream};
use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

const TCP: [&str; 3] = ["-q", "--listen", "tcp://127.0.0.1:0"];
const BOTH: [&str; 5] = ["-q", "--listen", "tcp://127.0.0.1:0", "--listen", "sctp://127.0.0.1:0"];

/// Starts an origin that handles each connection with `act`. Returns its address and the counter of its connections.
fn origin(act: impl Fn(TcpStream) + Copy + Send + 'static) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listening");
    let address = listener.local_addr().expect("an address");
    let accepted = Arc::new(AtomicUsize::new(0));
    let count = accepted.clone();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            count.fetch_add(1, Ordering::Relaxed);
            thread::spawn(move || act(stream));
        }
    });
    (address, accepted)
}

/// The first data from the origin may arrive together with the head that opens the tunnel. It must be forwarded.
#[test]
fn tunnel_data_behind_the_head_is_forwarded() {
    in_a_world(async |world| {
        let next = host(&world, 10).await;
        let port = next.inspect(|engine| engine.addresses()[0].port());
        let mut listener = next.listen(80).expect("listening");
        let via = format!("http+sctp://127.0.0.1:{port}");
        let near = Running::start(&[&["gateway", "--via", &via], &TCP[..]].concat());
        let mut client = near.connect();
        client.set_read_timeout(Some(Duration::from_secs(20))).expect("a deadline");
        let client = thread::spawn(move || {
            client.write_all(b"CONNECT a:25 HTTP/1.1\r\nHost: a:25\r\n\r\n").expect("sent");
            let (mut got, mut byte) = (Vec::new(), [0]);
            while !got.ends_with(b"I speak first\r\n") && client.read(&mut byte).is_ok_and(|read| read == 1) {
                got.push(byte[0]);
            }
            String::from_utf8_lossy(&got).into_owned()
        });
        let session = poll_fn(|cx| listener.poll_accept(cx)).await.expect("an association");
        let mut stream = poll_fn(|cx| session.poll_accept(cx)).await.expect("a stream");
        let (mut head, mut piece) = (Vec::new(), [0; 4096]);
        while !head.ends_with(b"\r\n\r\n") {
            let read = stream.read(&mut piece).await.expect("a request");
            head.extend_from_slice(&piece[..read]);
        }
        let opened = b"HTTP/1.1 200 OK\r\nTunnel-Framing: chunked\r\nConnection: tunnel-framing\r\n\r\n\
            7\r\n220 a, \r\nf\r\nI speak first\r\n\r\n";
        stream.write_all(opened).await.expect("sent");
        let got = meanwhile(&world, client).await;
        assert!(
            got.starts_with("HTTP/1.1 200 ") && got.ends_with("\r\n\r\n220 a, I speak first\r\n"),
            "{got}"
        );
    });
}

/// The gateway must give up an origin that sends interim responses forever.
#[test]
fn interim_answers_have_an_end() {
    let (endless, _) = origin(|mut stream| {
        let _ = stream.read(&mut [0; 4096]);
        while stream.write_all(b"HTTP/1.1 102 Processing\r\n\r\n").is_ok() {}
    });
    let url = format!("http://{endless}/");
    let gateway = Running::start(&[&["gateway", "--origin", &url], &TCP[..]].concat());
    for (minor, interim) in [(0, 0), (1, 32)] {
        let answer = gateway.ask(format!("GET / HTTP/1.{minor}\r\nHost: a\r\nConnection: close\r\n\r\n"));
        assert_eq!(answer.matches("HTTP/1.1 102 ").count(), interim, "{answer}");
        assert_eq!(answer.matches("HTTP/1.1 502 ").count(), 1, "{answer}");
    }
    for page in [&["get"][..], &["get", "--page"]] {
        let got = run(anabranch().args(page).args(["-q", "--timeout", "20s", &url]));
        let stderr = errors(&got);
        assert_eq!((got.status.code(), stderr.contains("interim")), (Some(1), true), "{stderr}");
    }
}

/// One association begins uploads on `count` streams, and sends `bytes` bytes per second in total, so the exchanges do
/// not end. The gateway must then serve a request of another client.
fn held_by_one(exchanges: usize, count: u16, bytes: usize) {
    let (waits, accepted) = origin(|mut stream| {
        let mut request = [0; 4096];
        while let Ok(1..) = stream.read(&mut request) {
            if request.starts_with(b"GET") {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            }
        }
    });
    let (url, exchanges) = (format!("http://{waits}/"), exchanges.to_string());
    let arguments = ["gateway", "--origin", &url, "--exchanges", &exchanges, "--idle", "10min"];
    let target = Running::start(&[&arguments, &BOTH[..]].concat());
    in_a_world(async |world| {
        let host = host(&world, 100).await;
        let session = associate(&host, &target).await;
        let mut streams = Vec::new();
        for number in 0..count {
            let mut stream = session.open(number.into()).expect("a stream");
            let head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999\r\n\r\n";
            stream.write_all(head).await.expect("sent");
            streams.push(stream);
        }
        steady(&world, || accepted.load(Ordering::Relaxed)).await;
        let honest = target.tcp();
        let honest = thread::spawn(move || {
            comes_true(|| {
                let mut stream = TcpStream::connect(honest).expect("connected");
                stream.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("sent");
                let mut answer = String::new();
                let _ = stream.read_to_string(&mut answer);
                answer.starts_with("HTTP/1.1 200 ")
            })
        });
        let mut at = 0;
        while !honest.is_finished() {
            at = (at + 1) % streams.len();
            let _ = streams[at].write_all(&vec![b'x'; bytes / 10]).await;
            pace(&world, Duration::from_millis(100)).await;
        }
        assert!(honest.join().expect("asked"), "one association has all {exchanges} exchanges");
    });
}

#[test]
fn one_session_leaves_exchanges_to_others() {
    held_by_one(20, 100, 100_000);
}

/// One session uses all exchanges that the gateway allows. It sends bytes now and then, but too few on each exchange to
/// count as progress. The gateway must end one exchange to serve another client.
#[test]
fn an_exchange_that_stands_still_makes_room() {
    held_by_one(8, 8, 260);
}

/// A client with many sessions sends requests to an origin that never answers them. Other clients must still get
/// exchanges.
#[test]
fn one_client_leaves_exchanges_to_others_however_many_sessions_it_has() {
    let (waits, accepted) = origin(|mut stream| {
        let mut request = [0; 4096];
        while let Ok(1..) = stream.read(&mut request) {
            if request.starts_with(b"GET / ") {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            }
        }
    });
    let url = format!("http://{waits}/");
    let arguments = ["gateway", "--origin", &url, "--exchanges", "64", "--idle", "10min"];
    let target = Running::start(&[&arguments, &BOTH[..]].concat());
    let mut raw = Raw::associate_from([127, 0, 0, 9], target.url("http+sctp"), 40, 100_000);
    for at in 0..raw.associations.len() {
        for stream in 0..10 {
            raw.say(at, stream, 0, b"GET /never HTTP/1.1\r\nHost: a\r\n\r\n");
        }
    }
    raw.listen_until_steady(|| accepted.load(Ordering::Relaxed));
    for _ in 0..10 {
        let answer = target.ask("GET / HTTP/1.0\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 "), "one client has all exchanges: {answer}");
    }
}
