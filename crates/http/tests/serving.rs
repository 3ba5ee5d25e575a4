//! Tests how long a server waits for request heads, and how much memory unread responses use.
//!
//! The rules are in RFC 9112 §2.2 (empty lines before a head) and §9.5 (timeouts).

use crate::rig::memory::{Meeting, Pipe, PipeStream};
use crate::rig::page;
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_http::observe::Recorder;
use anabranch_http::serve::{self, Content, Options, PageSite, Resource, Site, Store, StoredRange};
use anabranch_sim::{Network, SimWorld};
use anabranch_transport::{Connector, Session, Stream};
use anabranch_world::World;
use bytes::Bytes;
use std::cell::Cell;
use std::io;
use std::rc::Rc;

const GET: &[u8] = b"GET /object-1 HTTP/1.1\r\nHost: a\r\n\r\n";

/// Runs a client with 100 streams against a server with a head timeout of ten seconds.
fn served<S: Site, T>(site: S, client: impl AsyncFnOnce(SimWorld, Pipe) -> T) -> T {
    let network = Network::new(1);
    let host = network.host("both", &[[10, 0, 0, 1].into()]);
    let world = network.world(host);
    let meeting = Meeting::new(100, false);
    let options = Options {
        idle_timeout: Some(Duration::from_secs(600)),
        head_timeout: Some(Duration::from_secs(10)),
        ..Options::default()
    };
    let server = serve::run(world.clone(), meeting.clone(), Rc::new(site), options, Recorder::default());
    let _server = world.spawn("server", server);
    let session = meeting.connect(0).expect("a session");
    network.run(client(world.clone(), session), Instant::MAX).expect_done()
}

async fn pause(world: &SimWorld, seconds: u64) {
    world.sleep_until(world.now() + Duration::from_secs(seconds)).await;
}

/// Reads at least `bytes` bytes.
async fn read_at_least(world: &SimWorld, stream: &mut PipeStream, mut bytes: usize) {
    let mut buffer = [0; 4000];
    while bytes > 0 {
        bytes = bytes.saturating_sub(stream.read(&mut buffer).await.expect("an answer"));
    }
    pause(world, 0).await;
}

#[test]
fn an_answer_on_one_stream_gives_no_time_to_the_head_of_another() {
    let ended = served(PageSite::new(&page(5, &[])), async |world, session| {
        let (mut slow, mut busy) = (session.open(0).expect("a stream"), session.open(1).expect("a stream"));
        slow.write_all(b"GET / HT").await.expect("written");
        for _ in 0..9 {
            busy.write_all(GET).await.expect("written");
            read_at_least(&world, &mut busy, 1).await;
            pause(&world, 1).await;
        }
        (session.closed().await.is_graceful(), world.now())
    });
    assert_eq!(ended, (false, Instant::from_millis(10_000)));
}

/// The head timeout must not apply to empty lines. It must not apply to a head that a client sends while it still
/// receives a response.
#[test]
fn the_head_timeout_does_not_run_during_a_response() {
    const LENGTH: usize = 100_000;
    let ended = served(PageSite::new(&page(LENGTH as u64, &[])), async |world, session| {
        let (mut stream, mut second) =
            (session.open(0).expect("a stream"), session.open(1).expect("a stream"));
        stream.write_all(GET).await.expect("written");
        pause(&world, 1).await;
        stream.write_all(b"\r\nGET / HT").await.expect("written");
        second.write_all(b"\r\n").await.expect("written");
        pause(&world, 60).await;
        read_at_least(&world, &mut stream, LENGTH).await;
        // At this time the response is complete, so the head timeout must start.
        let since = world.now();
        (session.closed().await.is_graceful(), world.now() - since)
    });
    assert_eq!(ended, (false, Duration::from_secs(10)));
}

/// Bytes that are not part of a request must not keep a session open, however many arrive.
#[test]
fn empty_lines_and_what_follows_a_refusal_come_to_an_end() {
    for (partial, more) in [
        (&b"\r\n\r\n"[..], &b"\r\n"[..]),
        (b"GET / HTTP/1.1\nX: y\r\n\r\n", b"GET "),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    ] {
        let at = served(PageSite::new(&page(5, &[])), async |world, session| {
            let mut stream = session.open(0).expect("a stream");
            stream.write_all(partial).await.expect("written");
            while stream.write_all(more).await.is_ok() {
                assert!(world.now() < Instant::from_millis(60_000), "{more:?}");
                pause(&world, 1).await;
            }
            world.now()
        });
        assert!((10_000..=32_000).contains(&(at.as_nanos() / 1_000_000)), "{more:?}: {at}");
    }
    // The server rejects the request on one stream, and the client sends nothing more on this stream. The session stays
    // open for its other streams.
    served(PageSite::new(&page(5, &[])), async |world, session| {
        let (mut bad, mut good) = (session.open(0).expect("a stream"), session.open(1).expect("a stream"));
        bad.write_all(b"GET / HTTP/1.1\nX: y\r\n\r\n").await.expect("written");
        pause(&world, 60).await;
        good.write_all(GET).await.expect("written");
        read_at_least(&world, &mut good, 1).await;
    });
}

/// A file that counts the bytes read from it.
struct Counted(Rc<Cell<usize>>);

impl Store for Counted {
    fn read(&self, _offset: u64, most: usize) -> io::Result<Bytes> {
        self.0.set(self.0.get() + most);
        Ok(vec![0; most].into())
    }
}

struct Large(Rc<Cell<usize>>);

impl Site for Large {
    fn find(&self, _target: &str) -> Option<Resource> {
        let store = Rc::new(Counted(self.0.clone()));
        let content = Content::Stored(StoredRange { store, offset: 0, length: LARGE });
        Some(Resource { content, content_type: "text/plain".to_owned(), head_size: None })
    }
}

const LARGE: u64 = 1_000_000;

/// With 100 unread responses, the server may hold at most 128 KiB, plus 4 KiB for each response, in addition to the
/// transport's buffers.
#[test]
fn stalled_answers_hold_little_and_come_whole() {
    let read = Rc::new(Cell::new(0));
    let most = served(Large(read.clone()), async |world, session| {
        let mut streams = Vec::new();
        for number in 0..100 {
            let mut stream = session.open(number).expect("a stream");
            stream.write_all(GET).await.expect("written");
            streams.push(stream);
        }
        pause(&world, 1).await;
        let most = read.get();
        for stream in &mut streams {
            read_at_least(&world, stream, LARGE as usize).await;
        }
        most
    });
    // The transport buffers 3000 bytes of each response.
    assert!((100 * 3_000..=131_072 + 100 * (4_096 + 3_000)).contains(&most), "{most}");
    assert_eq!(read.get(), 100 * LARGE as usize);
}

/// A response to HEAD is only a header section (RFC 9110 §9.3.2), so the next response begins directly after it. The
/// server must record the time at which it writes the first byte of the next response.
#[test]
fn the_answer_after_one_to_head_is_noted_when_it_is_written() {
    let network = Network::new(1);
    let host = network.host("both", &[[10, 0, 0, 1].into()]);
    let (world, meeting, recorder) = (network.world(host), Meeting::new(1, false), Recorder::new());
    let site = Rc::new(PageSite::new(&page(100_000, &[10])));
    let server = serve::run(world.clone(), meeting.clone(), site, Options::default(), recorder.clone());
    let _server = world.spawn("server", server);
    let session = meeting.connect(0).expect("a session");
    let client = async {
        let mut stream = session.open(0).expect("a stream");
        for (method, object, content) in [("HEAD", 1, 0), ("GET", 2, 10)] {
            let request = format!("{method} /object-{object} HTTP/1.1\r\nHost: a\r\n\r\n");
            stream.write_all(request.as_bytes()).await.expect("written");
            let (mut answer, mut buffer) = (Vec::new(), [0; 1_000]);
            let is_whole = |answer: &[u8]| {
                let head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n");
                head.is_some_and(|head| answer.len() == head + 4 + content)
            };
            while !is_whole(&answer) {
                let read = stream.read(&mut buffer).await.expect("an answer");
                answer.extend_from_slice(&buffer[..read]);
            }
            assert!(answer.starts_with(b"HTTP/1.1 200 "));
        }
    };
    network.run(client, Instant::MAX).expect_done();
    let served = recorder.take().served;
    let written: Vec<_> =
        served.iter().map(|(exchange, served)| (exchange.index, served.written.is_some())).collect();
    assert_eq!(written, [(0, true), (1, true)]);
}

/// Returns the next response, whose body has the length that its head declares, or `None` if the stream ends.
async fn response(stream: &mut PipeStream) -> Option<String> {
    let (mut all, mut byte) = (String::new(), [0]);
    while !all.ends_with("\r\n\r\n") {
        (stream.read(&mut byte).await == Ok(1)).then(|| all.push(char::from(byte[0])))?;
    }
    let length = all.lines().find_map(|line| line.strip_prefix("content-length: "));
    for _ in 0..length.expect("a length").parse().expect("a number") {
        (stream.read(&mut byte).await == Ok(1)).then(|| all.push(char::from(byte[0])))?;
    }
    Some(all)
}

/// Runs a client with a connection like that of TCP, which has one stream.
fn served_on_one_stream<T>(client: impl AsyncFnOnce(SimWorld, PipeStream) -> T) -> T {
    let network = Network::new(1);
    let host = network.host("both", &[[10, 0, 0, 1].into()]);
    let (world, meeting) = (network.world(host), Meeting::new(1, false));
    let (site, options) = (Rc::new(PageSite::new(&page(5, &[]))), Options::default());
    let server = serve::run(world.clone(), meeting.clone(), site, options, Recorder::default());
    let _server = world.spawn("server", server);
    let session = meeting.connect(0).expect("a session");
    let stream = session.open(0).expect("a stream");
    network.run(client(world.clone(), stream), Instant::MAX).expect_done()
}

/// RFC 9112 §9.3: a server reads the whole body of a request, or closes the connection and says so. Otherwise a client
/// loses the request that it sends next.
#[test]
fn a_connection_persists_after_a_request_whose_body_was_not_read() {
    for (fields, body) in [
        ("Content-Length: 6", ["abc", "def"]),
        ("Transfer-Encoding: chunked", ["3\r\nabc\r\n", "3;x=y\r\ndef\r\n0\r\nT: v\r\n\r\n"]),
        ("Transfer-Encoding: chunked", ["3", "\r\nabc\r\n0\r\n\r\n"]),
    ] {
        // The whole body arrives with the head, or part of it arrives later, or all of it arrives later.
        for with_head in [2, 1, 0] {
            let responses = served_on_one_stream(async |world, mut stream| {
                let head = format!("POST /object-1 HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n");
                let (early, late) = body.split_at(with_head);
                stream.write_all((head + &early.concat()).as_bytes()).await.expect("written");
                let first = response(&mut stream).await;
                for piece in late {
                    pause(&world, 1).await;
                    stream.write_all(piece.as_bytes()).await.expect("written");
                }
                stream.write_all(GET).await.expect("written");
                (first, response(&mut stream).await)
            });
            let (first, second) = responses;
            let first = first.expect("a response").to_lowercase();
            assert!(first.starts_with("http/1.1 405 ") && !first.contains("connection: close"), "{first}");
            let second = second.unwrap_or_else(|| panic!("{fields} {with_head}: closed unannounced"));
            assert!(second.starts_with("HTTP/1.1 200 "), "{fields} {with_head} {second}");
        }
    }
}

/// RFC 9110 §10.1.1: a client that expects 100 (Continue) and gets a final response may send its body or its next
/// request. The server cannot tell them apart, so it must close the connection and say so.
#[test]
fn a_response_instead_of_100_announces_the_end_of_the_connection() {
    let (response, ended) = served_on_one_stream(async |_, mut stream| {
        let head = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 6\r\n\r\n";
        stream.write_all(head.as_bytes()).await.expect("written");
        let response = response(&mut stream).await.expect("a response");
        (response, stream.read(&mut [0]).await)
    });
    assert!(response.to_lowercase().contains("connection: close\r\n"), "{response}");
    assert_eq!(ended, Ok(0));
}
