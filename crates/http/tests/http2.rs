//! Tests HTTP/2 over TCP in virtual time: loading a page, starting a session, and reacting to peers that violate the
//! protocol.

use crate::rig::page;
use crate::rig::sim::{Rig, fetch_page, tcp_hosts, tcp_server};
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_http::fetch::{FetchStatus, Outcome};
use anabranch_http::get::{Answer, Requests};
use anabranch_http::http2::Windows;
use anabranch_http::mapping::{Choices, Policy, Version};
use anabranch_http::observe::{Record, Recorder};
use anabranch_http::page::Page;
use anabranch_http::serve::{self, PageSite, Versions};
use anabranch_link::spec::Direction;
use anabranch_sim::SimWorld;
use anabranch_transport::tcp::{TcpConnector, TcpStream};
use anabranch_transport::{Connector, Listener, Session, Stream};
use anabranch_world::World;
use std::rc::Rc;

const LINK: &str = "rate=10mbit,rtt=40ms";

fn options(versions: Versions) -> serve::Options {
    serve::Options { versions, ..serve::Options::default() }
}

/// Loads a page over HTTP/2 on one TCP connection.
fn fetched(rig: &Rig, page: &Rc<Page>, versions: Versions) -> (Outcome, Record) {
    let policy = Choices::default().policy(false, false).expect("a policy");
    let policy = Policy { version: Version::Http2(Windows::default()), ..policy };
    let run = async {
        let (client, server) = tcp_hosts(rig, "modern").await;
        let listener = server.listen(80, 0).expect("listening");
        let connector = TcpConnector::new(client, vec![tcp_server(rig)]);
        fetch_page(rig, connector, listener, page, policy, options(versions)).await
    };
    rig.network.run(run, Instant::MAX).expect_done()
}

/// All objects must arrive over one connection. The server must record when it writes the first byte of each response.
/// The client compares all bodies byte for byte.
#[test]
fn a_page_comes_whole_over_streams_of_one_connection() {
    for versions in [Versions::Http2, Versions::Both] {
        let rig = Rig::new(&["rate=10mbit,rtt=40ms,loss=1%"], 1);
        let page = page(20_000, &[300_000, 5_000, 0, 70_000]);
        let (outcome, record) = fetched(&rig, &page, versions);
        assert_eq!((outcome.end, outcome.connections), (FetchStatus::Done, 1), "{outcome:?}");
        assert_eq!(outcome.body_bytes, page.body_bytes());
        for (number, object) in record.objects.iter().enumerate() {
            let exchange = object.assigned.as_ref().expect("assigned").exchange;
            let served = record.served[&exchange];
            assert!(served.serving.is_some() && served.serving <= served.written, "{number}: {served:?}");
            assert!(served.written <= object.first_byte, "{number}: {served:?}");
        }
    }
}

/// The fields that all requests of a page have are sent once, and then referred to (RFC 7541 §2.3.2). So a request after
/// the first one adds fewer than 100 bytes to the link, although its head has 400 bytes in HTTP/1.1.
#[test]
fn requests_are_compressed_against_earlier_ones() {
    let sent = |objects: usize| {
        let rig = Rig::new(&[LINK], 1);
        let page = page(1_000, &vec![1_000; objects]);
        assert!(page.objects.iter().all(|object| object.request_head == 400));
        let (outcome, _) = fetched(&rig, &page, Versions::Http2);
        assert_eq!(outcome.end, FetchStatus::Done, "{outcome:?}");
        rig.network.link_counters(rig.links[0], Direction::Up).meter.entered.bytes
    };
    let (few, many) = (sent(20), sent(60));
    assert!(many - few < 40 * 100, "20 requests: {few} bytes, 60 requests: {many} bytes");
}

/// Returns the bytes of an HTTP/2 frame (RFC 9113 §4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_HEADERS: u8 = 0x4;
/// The flags END_STREAM and END_HEADERS.
const WHOLE: u8 = 0x5;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Returns the client's connection preface, including its SETTINGS (RFC 9113 §3.4).
fn preface() -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()
}

/// Returns a GET request for `path` with the additional field `x: value`. `:method` and `:scheme` are from the static
/// table (RFC 7541), and the rest is literal.
fn get(stream: u32, path: &str, value: &str) -> Vec<u8> {
    let mut section = vec![0x82, 0x86, 0x01, 1, b'a', 0x04, path.len() as u8];
    section.extend_from_slice(path.as_bytes());
    section.extend_from_slice(&[0, 1, b'x', value.len() as u8]);
    section.extend_from_slice(value.as_bytes());
    frame(HEADERS, WHOLE, stream, &section)
}

/// A connection to our server or from our client, and the bytes received on it.
struct Peer {
    world: SimWorld,
    stream: TcpStream<SimWorld>,
    received: Vec<u8>,
}

impl Peer {
    async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("written");
    }

    /// Reads until nothing has arrived for half a second.
    async fn read(&mut self) {
        let mut buffer = [0; 10_000];
        let silence = Some(Duration::from_millis(500));
        while let Some(Ok(read @ 1..)) = self.world.timeout(silence, self.stream.read(&mut buffer)).await {
            self.received.extend_from_slice(&buffer[..read]);
        }
    }

    /// Returns the payloads of the received frames of type `kind` on `stream`.
    fn frames(&self, kind: u8, stream: u32) -> Vec<&[u8]> {
        let (mut rest, mut found) = (&self.received[..], Vec::new());
        while let [a, b, c, of, _, id @ ..] = rest.get(..9).unwrap_or_default() {
            let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
            let id = u32::from_be_bytes(id.try_into().expect("four bytes"));
            if (*of, id) == (kind, stream) {
                found.push(&rest[9..9 + length]);
            }
            rest = &rest[9 + length..];
        }
        found
    }

    /// Returns the number of content bytes received on a stream.
    fn content(&self, stream: u32) -> usize {
        self.frames(DATA, stream).iter().map(|payload| payload.len()).sum()
    }
}

/// Runs a client that writes raw bytes against a server with two objects, of 1,000,000 and 5,000 bytes.
fn with_client<T>(versions: Versions, program: impl AsyncFnOnce(Peer) -> T) -> T {
    let rig = Rig::new(&[LINK], 1);
    let page = page(1_000_000, &[5_000]);
    let run = async {
        let (client, server) = tcp_hosts(&rig, "modern").await;
        let listener = server.listen(80, 0).expect("listening");
        let site = Rc::new(PageSite::new(&page));
        let serving = serve::run(rig.server.clone(), listener, site, options(versions), Recorder::default());
        let _server = rig.server.spawn("server", serving);
        let session = TcpConnector::new(client, vec![tcp_server(&rig)]).connect(0).expect("begun");
        session.established().await.expect("stands");
        let stream = session.open(0).expect("a stream");
        program(Peer { world: rig.client.clone(), stream, received: Vec::new() }).await
    };
    rig.network.run(run, Instant::MAX).expect_done()
}

/// A server of HTTP/1.1 and HTTP/2 must detect the version from the first bytes, however these bytes are split (RFC
/// 9113 §3.3).
#[test]
fn the_preface_may_come_in_pieces() {
    for cut in [1, 10, 23] {
        let content = with_client(Versions::Both, async |mut client| {
            let all = [preface(), get(1, "/object-2", "y")].concat();
            client.write(&all[..cut]).await;
            client.world.sleep_until(client.world.now() + Duration::from_millis(100)).await;
            client.write(&all[cut..]).await;
            client.read().await;
            client.content(1)
        });
        assert_eq!(content, 5_000, "cut after {cut}");
    }
    let answer = with_client(Versions::Both, async |mut client| {
        client.write(b"P").await;
        client.world.sleep_until(client.world.now() + Duration::from_millis(100)).await;
        client.write(b"UT / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        client.read().await;
        client.received
    });
    assert!(answer.starts_with(b"HTTP/1.1 405 "), "{:?}", String::from_utf8_lossy(&answer));
}

/// A malformed request must be an error of its stream only (RFC 9113 §8.1.1).
#[test]
fn a_malformed_request_is_reset_with_protocol_error() {
    with_client(Versions::Http2, async |mut client| {
        client.write(&[preface(), get(1, "/object-2", " y"), get(3, "/object-2", "y")].concat()).await;
        client.read().await;
        assert_eq!(client.frames(RST_STREAM, 1), [[0, 0, 0, 1]]);
        assert_eq!((client.content(1), client.content(3)), (0, 5_000));
    });
}

/// The rules for field values must hold in trailers, too (RFC 9113 §8.2.1). The response must wait for the trailers.
#[test]
fn malformed_trailers_of_a_request_are_reset_with_protocol_error() {
    let trailers = |fields: &[(&str, &str)]| frame(HEADERS, WHOLE, 1, &literals(fields));
    for (wrong, is_refused) in [
        (trailers(&[("x", "y"), ("z", "")]), false),
        (trailers(&[("x", " y")]), true),
        (trailers(&[("x", "y\t")]), true),
        (trailers(&[("x", "y"), ("z", " ")]), true),
        (trailers(&[("connection", "close")]), true),
        (trailers(&[("content-length", "4"), ("content-length", "4")]), true),
    ] {
        with_client(Versions::Http2, async |mut client| {
            let post = frame(HEADERS, END_HEADERS, 1, &request("POST", "/object-2"));
            client.write(&[preface(), post, frame(DATA, 0, 1, b"test"), wrong.clone()].concat()).await;
            client.read().await;
            let resets: &[[u8; 4]] = if is_refused { &[[0, 0, 0, 1]] } else { &[] };
            assert_eq!(client.frames(RST_STREAM, 1), resets, "{wrong:?}");
            assert_eq!(client.frames(HEADERS, 1).is_empty(), is_refused, "{wrong:?}");
            // The connection must continue.
            client.write(&get(3, "/object-2", "y")).await;
            client.read().await;
            assert_eq!(client.content(3), 5_000);
        });
    }
}

/// A request with two Content-Length fields must be rejected even if their values are equal (RFC 9110 §8.6). The rule
/// must be the same over HTTP/2 and HTTP/3.
#[test]
fn lengths_of_a_request_that_agree_are_still_two() {
    with_client(Versions::Http2, async |mut client| {
        let lengths = literals(&[("content-length", "0"), ("content-length", "0")]);
        let head = [request("GET", "/object-2"), lengths].concat();
        client.write(&[preface(), frame(HEADERS, WHOLE, 1, &head)].concat()).await;
        client.read().await;
        assert_eq!((client.frames(RST_STREAM, 1).len(), client.content(1)), (1, 0));
    });
}

/// If SETTINGS does not follow the preface (RFC 9113 §3.4), the connection must end. The server must not answer
/// requests that follow the preface.
#[test]
fn a_preface_without_settings_is_a_connection_error() {
    for first in [frame(PING, 0, 0, &[0; 8]), frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]), frame(99, 0, 0, &[])]
    {
        with_client(Versions::Http2, async |mut client| {
            let all = [PREFACE, &first, &get(1, "/object-2", "y"), &frame(SETTINGS, 0, 0, &[])].concat();
            client.write(&all).await;
            client.read().await;
            let goaway = client.frames(GOAWAY, 0);
            assert_eq!(goaway.iter().map(|it| &it[4..8]).collect::<Vec<_>>(), [[0, 0, 0, 1]], "{first:?}");
            assert_eq!(client.frames(HEADERS, 1).len(), 0, "{first:?}");
            let (silence, mut buffer) = (Some(Duration::from_secs(1)), [0; 1]);
            let ended = client.world.timeout(silence, client.stream.read(&mut buffer)).await;
            assert!(matches!(ended, Some(Ok(0) | Err(_))), "{ended:?}");
        });
    }
}

/// Encodes literal fields with literal names (RFC 7541 §6.2.2).
fn literals(fields: &[(&str, &str)]) -> Vec<u8> {
    let text = |text: &str| [&[text.len() as u8][..], text.as_bytes()].concat();
    fields.iter().flat_map(|(name, value)| [&[0][..], &text(name), &text(value)].concat()).collect()
}

/// Returns the encoded pseudo-header fields of a request.
fn request(method: &str, path: &str) -> Vec<u8> {
    literals(&[(":method", method), (":scheme", "http"), (":authority", "a"), (":path", path)])
}

/// Lets our client get `/` from a server that writes these frames after its SETTINGS. Returns the status or the error,
/// and the codes with which the client reset the stream.
fn get_from(frames: &[u8]) -> (Result<u16, String>, Vec<Vec<u8>>) {
    get_from_bytes([&frame(SETTINGS, 0, 0, &[]), frames].concat())
}

/// Like [`get_from`], for a server that writes `bytes`.
fn get_from_bytes(bytes: Vec<u8>) -> (Result<u16, String>, Vec<Vec<u8>>) {
    let rig = Rig::new(&[LINK], 1);
    let run = async {
        let (client, server) = tcp_hosts(&rig, "modern").await;
        let mut listener = server.listen(80, 0).expect("listening");
        let world = rig.server.clone();
        let serving = rig.server.spawn("server", async move {
            let session = listener.accept().await.expect("a session");
            let stream = session.accept().await.expect("a stream");
            let mut peer = Peer { world, stream, received: Vec::new() };
            peer.read().await;
            peer.received.drain(..PREFACE.len());
            peer.write(&bytes).await;
            peer.read().await;
            peer.frames(RST_STREAM, 1).into_iter().map(<[u8]>::to_vec).collect()
        });
        let session = TcpConnector::new(client, vec![tcp_server(&rig)]).connect(0).expect("begun");
        session.established().await.expect("stands");
        let (requests, conversation, _) =
            Requests::begin(session, Version::Http2(Windows::default()), false).await.expect("begun");
        let _talking = rig.client.spawn("conversation", conversation);
        let take = |_: &Answer, _: &[u8]| Ok::<_, ()>(());
        let query = requests.query("a", "/").expect("a request");
        let got = requests.get(&rig.client, &query, Duration::from_secs(5), |_| (), take).await;
        let resets = serving.await;
        (got.map(|(answer, _)| answer.head.status).map_err(|error| error.to_string()), resets)
    };
    rig.network.run(run, Instant::MAX).expect_done()
}

/// RFC 9113 §3.4: the first frame of a server is SETTINGS. Anything else is a connection error, and the response that
/// follows does not count.
#[test]
fn a_server_that_does_not_begin_with_settings_is_refused() {
    let settings = frame(SETTINGS, 0, 0, &[]);
    let response = [response(&[(":status", "200")]), frame(DATA, 1, 1, b"")].concat();
    for first in [
        frame(PING, 0, 0, &[0; 8]),
        frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]),
        frame(SETTINGS, 1, 0, &[]),
        frame(99, 0, 0, &[]),
        b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
    ] {
        let (got, _) = get_from_bytes([&first[..], &settings, &response].concat());
        let error = got.expect_err("refused");
        assert!(error.contains("the server's first frame is not SETTINGS"), "{first:?}: {error}");
    }
}

/// Returns the HEADERS frame of a response. The frame does not end the stream.
fn response(fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, 1, &literals(fields))
}

/// A malformed response must be a stream error of type PROTOCOL_ERROR (RFC 9113 §8.1.1). It must not count as a
/// response.
#[test]
fn a_malformed_response_is_refused() {
    let ok = |more: &[(&str, &str)]| response(&[&[(":status", "200")], more].concat());
    let interim = |more: &[(&str, &str)]| response(&[&[(":status", "103")], more].concat());
    let trailers = |fields: &[(&str, &str)]| frame(HEADERS, WHOLE, 1, &literals(fields));
    let data = |text: &str| frame(DATA, 0, 1, text.as_bytes());
    let end = || frame(DATA, 1, 1, b"");
    for well in [
        [ok(&[]), data("abc"), end()].concat(),
        [interim(&[("link", "</x>")]), interim(&[]), ok(&[]), data("abc"), trailers(&[("x", "y")])].concat(),
        [ok(&[("content-length", "3"), ("x", "a b")]), data("abc"), end()].concat(),
    ] {
        assert_eq!(get_from(&well), (Ok(200), Vec::new()), "{well:?}");
    }
    let length_of_none = frame(HEADERS, WHOLE, 1, &literals(&[(":status", "304"), ("content-length", "9")]));
    assert_eq!(get_from(&length_of_none), (Ok(304), Vec::new()));
    let padded = "a field value begins or ends with white space";
    for (rule, frames, line) in [
        ("8.2.1 a leading space", ok(&[("x", " y")]), padded),
        ("8.2.1 a trailing tab", ok(&[("x", "y\t")]), padded),
        ("8.2.1 an interim response", interim(&[("x", " y")]), padded),
        ("8.2.2 connection", ok(&[("connection", "close")]), "protocol error detected"),
        ("8.2.2 transfer-encoding", ok(&[("transfer-encoding", "chunked")]), "protocol error detected"),
        ("8.3.2 no :status", response(&[("x", "y")]), "protocol error detected"),
        ("8.3.2 :status twice", ok(&[(":status", "200")]), "protocol error detected"),
        ("8.3 :status after a field", response(&[("x", "y"), (":status", "200")]), "protocol error detected"),
        ("8.6 the status 101", [response(&[(":status", "101")]), ok(&[]), data("a")].concat(), "status 101"),
        ("8.1.1 longer", [ok(&[("content-length", "2")]), data("abc")].concat(), "protocol error detected"),
        (
            "8.1.1 content of 204",
            [response(&[(":status", "204")]), data("a")].concat(),
            "the content is longer than content-length",
        ),
        (
            "9110 8.6 two lengths",
            ok(&[("content-length", "3"), ("content-length", "3")]),
            "content-length comes twice",
        ),
        ("9110 8.6 no number", ok(&[("content-length", "")]), "content-length is not a number"),
        ("9110 7.2 two hosts", ok(&[("host", "a"), ("host", "a")]), "host comes twice"),
    ] {
        let (got, resets) = get_from(&frames);
        let error = got.expect_err(rule);
        assert!(
            error.contains("HTTP/2: ") && error.contains(line) && !error.contains('\n'),
            "{rule}: {error}"
        );
        assert_eq!(resets, [[0, 0, 0, 1]], "{rule}: {error}");
    }
    // In the cases of this table, the client does not always send RST_STREAM, because the stream may already be closed
    // in both directions. So resets are not checked.
    for (rule, frames, line) in [
        ("8.2.1 in trailers", [ok(&[]), data("abc"), trailers(&[("x", " y")])].concat(), padded),
        (
            "8.2.2 in trailers",
            [ok(&[]), data("abc"), trailers(&[("upgrade", "x")])].concat(),
            "protocol error detected",
        ),
        (
            "8.1.1 shorter",
            [ok(&[("content-length", "4")]), data("abc"), end()].concat(),
            "protocol error detected",
        ),
        (
            "8.1 no final response",
            frame(HEADERS, WHOLE, 1, &literals(&[(":status", "103")])),
            "protocol error detected",
        ),
        ("8.1 DATA first", data("abc"), "protocol error detected"),
        (
            "8.1 DATA after an interim response",
            [interim(&[]), data("abc")].concat(),
            "protocol error detected",
        ),
        ("8.2.1 NUL in a value", ok(&[("x", "a\0")]), "protocol error detected"),
        ("8.2 an upper-case name", ok(&[("X", "y")]), "protocol error detected"),
        ("8.3 an undefined pseudo-header field", ok(&[(":x", "y")]), "protocol error detected"),
        ("8.3.2 :status is not a status code", response(&[(":status", "20")]), "protocol error detected"),
        (
            "8.4 PUSH_PROMISE",
            [ok(&[]), frame(5, END_HEADERS, 1, &[0, 0, 0, 2, 0x82])].concat(),
            "protocol error detected",
        ),
    ] {
        let error = get_from(&frames).0.expect_err(rule);
        assert!(error.contains(line) && !error.contains('\n'), "{rule}: {error}");
    }
}

/// The library h2 drops some invalid pseudo-header fields before the client can check them. The guide lists this as a
/// limit of `serve` and `get`. If a later version of h2 refuses them, these cases belong in
/// `a_malformed_response_is_refused`.
#[test]
fn pseudo_header_fields_that_h2_drops_are_not_seen() {
    let data = frame(DATA, 0, 1, b"abc");
    for (rule, frames) in [
        (
            ":path in a response",
            [response(&[(":status", "200"), (":path", "/")]), data.clone(), frame(DATA, 1, 1, b"")].concat(),
        ),
        (
            ":status in trailers",
            [
                response(&[(":status", "200")]),
                data,
                frame(HEADERS, WHOLE, 1, &literals(&[(":status", "200")])),
            ]
            .concat(),
        ),
    ] {
        assert_eq!(get_from(&frames).0, Ok(200), "{rule}");
    }
}

/// The server must close a connection whose client keeps sending frames without making requests (RFC 9113 §10.5).
#[test]
fn frames_that_accomplish_nothing_have_a_bound() {
    const MOST: usize = 20_000;
    with_client(Versions::Http2, async |mut client| {
        client.write(&preface()).await;
        let ping = frame(PING, 0, 0, &[0; 8]);
        // The SETTINGS frame, which was already sent, counts as the first frame.
        for _ in 0..(MOST - 1) / 100 {
            client.write(&ping.repeat(100)).await;
            client.world.sleep_until(client.world.now() + Duration::from_millis(5)).await;
        }
        client.write(&ping.repeat((MOST - 1) % 100)).await;
        client.read().await;
        // When this PING arrives, the server has counted `MOST` frames, which does not exceed the limit. The server
        // must therefore answer this PING.
        client.write(&ping).await;
        client.read().await;
        assert_eq!(client.frames(PING, 0).len(), MOST);
        client.write(&ping).await;
        client.read().await;
        let (silence, mut buffer) = (Some(Duration::from_secs(1)), [0; 1]);
        let ended = client.world.timeout(silence, client.stream.read(&mut buffer)).await;
        assert!(matches!(ended, Some(Ok(0) | Err(_))), "{ended:?}");
        assert_eq!(client.frames(PING, 0).len(), MOST);
    });
}

/// A response must stop when the client's flow-control windows are full (RFC 9113 §6.9). Unsent data of a cancelled
/// response must not use the connection's window, so that the next response can be sent.
#[test]
fn an_answer_waits_for_its_window_and_leaves_room_when_it_is_cancelled() {
    with_client(Versions::Http2, async |mut client| {
        client.write(&[preface(), get(1, "/object-1", "y")].concat()).await;
        client.read().await;
        // The response has filled the initial windows of 65,535 bytes (RFC 9113 §6.9.2).
        assert_eq!((client.content(1), client.frames(RST_STREAM, 1).len()), (65_535, 0));
        let window = |stream, bytes: u32| frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes());
        client.write(&[window(0, 100_000), window(1, 10_000)].concat()).await;
        client.read().await;
        assert_eq!((client.content(1), client.frames(RST_STREAM, 1).len()), (75_535, 0));
        let cancel = frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]);
        client.write(&[cancel, get(3, "/object-2", "y")].concat()).await;
        client.read().await;
        assert_eq!((client.content(1), client.content(3)), (75_535, 5_000));
        assert!(client.frames(GOAWAY, 0).is_empty());
    });
}
