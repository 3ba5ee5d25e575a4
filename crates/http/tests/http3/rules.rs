//! Tests the rules of RFC 9114 §4 to §7 and RFC 9204 §2 to §4 that a peer can violate. Tables list the violations, each
//! with the error that is expected. The peer is a client of our server, or a server to which our client connects. The
//! tables also contain behaviour that must be tolerated.
//!
//! This module has the actions of the test peer, the expected outcomes, and the tests of request streams. It has these
//! submodules:
//! - `streams`: the rules of unidirectional streams
//! - `servers`: the reaction of our client to a server that violates rules
//! - `limits`: limits on the data of a peer

mod limits;
mod servers;
mod streams;

use super::early::status;
use super::*;
use anabranch_http::http3::Code;
use std::fmt::Write as _;

/// An action of the test peer. The actions of a list are performed in order.
#[derive(Clone)]
enum PeerAction {
    /// Bytes on a unidirectional stream, which stays open.
    OneWay(Vec<u8>),
    /// Bytes on a unidirectional stream, followed by FIN.
    OneWayEnd(Vec<u8>),
    /// Bytes on a unidirectional stream, followed by RESET_STREAM.
    OneWayReset(Vec<u8>),
    /// Bytes on a request stream, followed by FIN.
    Request(Vec<u8>),
    /// Bytes on a request stream, which stays open.
    Open(Vec<u8>),
    /// More bytes on the stream of the most recent request. The test peer sends them after the response has arrived.
    AfterAnswer(Vec<u8>),
    /// More bytes on the stream of the most recent request, followed by FIN. The test peer sends them as soon as the
    /// first bytes of the response have arrived.
    EndWithinAnswer(Vec<u8>),
    /// STOP_SENDING for the peer's control stream.
    StopControl,
}

/// The expected outcome: a connection error, a stream error, or the status of a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Connection(Code),
    Stream(Code),
    Status(u16),
}

use self::PeerAction::{
    AfterAnswer, EndWithinAnswer, OneWay, OneWayEnd, OneWayReset, Open, Request, StopControl,
};
use self::Verdict::{Connection, Status, Stream as OfStream};

/// Returns an encoded field section. Each field is encoded with a literal name and a literal value (RFC 9204 §4.5.6).
fn section(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut section = vec![0, 0];
    for (name, value) in fields {
        let name = name.as_bytes();
        match name.len() {
            length @ 0..7 => section.push(0x20 | length as u8),
            length => section.extend([0x27, (length - 7) as u8]),
        }
        section.extend([name, &[value.len() as u8], value.as_bytes()].concat());
    }
    section
}

const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/0")];

/// Returns a HEADERS frame of a request, without the field `without` and with the fields `more`.
fn head(without: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let fields = GET.iter().filter(|(name, _)| *name != without).copied();
    frame(HEADERS, &section(&fields.chain(more.iter().copied()).collect::<Vec<_>>()))
}

fn get() -> Vec<u8> {
    head("", &[])
}

fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, &section(fields))
}

/// Returns the action that opens a control stream with SETTINGS and then these frames.
fn control(frames: &[&[u8]]) -> PeerAction {
    OneWay([&CONTROL[..], &frames.concat()].concat())
}

fn settings(payload: &[u8]) -> PeerAction {
    OneWay([&[0][..], &frame(SETTINGS, payload)].concat())
}

/// Returns the action that sends a request whose encoded field lines are these bytes.
fn encoded(lines: &[u8]) -> PeerAction {
    Request(frame(HEADERS, lines))
}

/// Returns a frame of a reserved type, which a receiver ignores (RFC 9114 §7.2.8).
fn grease() -> Vec<u8> {
    frame(0x21, b"abc")
}

/// Returns our server's reaction to a client that performs these actions. A control stream is added if there is none.
fn reaction_to_client(actions: &[PeerAction]) -> Verdict {
    let mut actions = actions.to_vec();
    let is_control = |action: &PeerAction| matches!(action, OneWay(bytes) | OneWayEnd(bytes) | OneWayReset(bytes) if bytes.first() == Some(&0));
    if !actions.iter().any(is_control) {
        actions.insert(0, control(&[]));
    }
    // If the actions contain no request, add one. Its outcome shows whether the connection has failed.
    if !actions.iter().any(|action| matches!(action, Request(_) | Open(_))) {
        actions.push(Request(get()));
    }
    run(1, LINK, |hosts| async move {
        let Hosts { client, server, listener, connector } = hosts;
        let page = page();
        let serving = serve::run(
            server.clone(),
            listener,
            Rc::new(PageSite::new(&page)),
            options(),
            Recorder::default(),
        );
        server.spawn("server", async move { drop(serving.await) }).detach();
        let session = connector.connect(0).expect("begun");
        session.established().await.expect("stands");
        let (mut streams, mut request, mut answer) = (Vec::new(), None, Vec::new());
        for action in actions {
            match action {
                OneWay(bytes) => streams.push(open_one_way(&session, &bytes).await),
                OneWayEnd(bytes) => {
                    let mut stream = open_one_way(&session, &bytes).await;
                    stream.finish();
                    streams.push(stream);
                }
                OneWayReset(bytes) => {
                    let mut stream = open_one_way(&session, &bytes).await;
                    // Wait until the server has received the data, because the reset could overtake it.
                    client.timeout(Some(Duration::from_millis(200)), session.closed()).await;
                    stream.cancel_writing(Code::H3_NO_ERROR.0);
                    streams.push(stream);
                }
                Request(ref bytes) | Open(ref bytes) => {
                    // Wait until the server has received the data of earlier actions.
                    client.timeout(Some(Duration::from_millis(200)), session.closed()).await;
                    let Ok(mut stream) = poll_fn(|cx| session.poll_begin(cx, false)).await else { continue };
                    let _ = stream.write_all(bytes).await;
                    if matches!(action, Request(_)) {
                        stream.finish();
                    }
                    request = Some(stream);
                }
                AfterAnswer(bytes) => {
                    let stream = request.as_mut().expect("a request");
                    let mut buffer = [0; 10_000];
                    while answer.len() < 20_000 {
                        let read = stream.read(&mut buffer).await.expect("an answer");
                        answer.extend_from_slice(&buffer[..read]);
                    }
                    stream.write_all(&bytes).await.expect("written");
                }
                EndWithinAnswer(bytes) => {
                    let stream = request.as_mut().expect("a request");
                    let mut buffer = [0; 10];
                    let read = stream.read(&mut buffer).await.expect("an answer");
                    answer.extend_from_slice(&buffer[..read]);
                    stream.write_all(&bytes).await.expect("written");
                    stream.finish();
                }
                StopControl => {
                    // The server's control stream is the first unidirectional stream that it opens.
                    let mut stream =
                        poll_fn(|cx| session.poll_accept_one_way(cx)).await.expect("a control stream");
                    stream.cancel_reading(Code::H3_NO_ERROR.0);
                }
            }
        }
        let mut buffer = [0; 10_000];
        let mut cancelled = None;
        if let Some(stream) = &mut request {
            loop {
                match stream.read(&mut buffer).await {
                    Ok(0) => break,
                    Ok(read) => answer.extend_from_slice(&buffer[..read]),
                    Err(_) => {
                        cancelled = stream.cancel_code(true);
                        break;
                    }
                }
            }
        }
        let closed = client.timeout(Some(Duration::from_secs(1)), session.closed()).await;
        // After a complete response, the server can still refuse the rest of the request with STOP_SENDING. With the
        // code H3_NO_ERROR, this is not an error of the stream.
        let stopped = request.as_ref().and_then(|stream| stream.cancel_code(false));
        let cancelled = cancelled.or(stopped.filter(|code| *code != Code::H3_NO_ERROR.0));
        match closed {
            Some(reason) => Connection(code_of(&reason)),
            None => cancelled.map_or_else(|| Status(status(&answer)), |code| OfStream(Code(code))),
        }
    })
    .0
}

/// Requests `path`, and returns the response. Its body is dropped.
async fn request(client: &SimWorld, requests: &Requests, path: &str) -> Result<Answer, GetError<()>> {
    let query = requests.query(NAME, path).expect("a request");
    let take = |_: &Answer, _: &[u8]| Ok(());
    let received = requests.get(client, &query, Duration::from_secs(5), |_| (), take).await;
    received.map(|(answer, _)| answer)
}

/// Returns the error code with which the peer closed the connection.
fn code_of(reason: &CloseReason) -> Code {
    let line = reason.to_string();
    // The code is the last number in the message.
    let mut numbers = line.split(|character: char| !character.is_ascii_digit()).rev();
    Code(numbers.find_map(|number| number.parse().ok()).unwrap_or(0))
}

/// Compares the outcomes of actions with those in a table, and fails with a list of all rows that differ.
fn check_rows(rows: Vec<(&str, Vec<PeerAction>, Verdict)>, outcome: impl Fn(&[PeerAction]) -> Verdict) {
    let mut wrong = String::new();
    for (rule, actions, expected) in rows {
        let actual = outcome(&actions);
        if actual != expected {
            let _ = writeln!(wrong, "{rule}: {actual:x?} instead of {expected:x?}");
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn frames_of_a_request_have_an_order() {
    let trailers = headers(&[("x", "y")]);
    let unexpected = Connection(Code::H3_FRAME_UNEXPECTED);
    let incomplete = OfStream(Code::H3_REQUEST_INCOMPLETE);
    let rows = vec![
        ("9114 §4.1 a request", vec![Request(get())], Status(200)),
        ("9114 §4.1 a request without an end", vec![Open(get())], Status(200)),
        ("9114 §4.1 content", vec![Request([get(), frame(DATA, b"a")].concat())], Status(200)),
        ("9114 §4.1 trailers", vec![Request([&get()[..], &trailers].concat())], Status(200)),
        ("9114 §4.1 DATA first", vec![Request(frame(DATA, b"hi"))], unexpected),
        (
            "9114 §4.1 DATA after trailers",
            vec![Request([&get()[..], &trailers, &frame(DATA, b"a")].concat())],
            unexpected,
        ),
        (
            "9114 §4.1 HEADERS after trailers",
            vec![Request([&get()[..], &trailers, &trailers].concat())],
            unexpected,
        ),
        (
            "9114 §4.1 HEADERS after content and trailers",
            vec![Request([&get()[..], &frame(DATA, b"a"), &trailers, &trailers].concat())],
            unexpected,
        ),
        (
            "9114 §4.1 unknown frames everywhere",
            vec![Request(
                [grease(), get(), grease(), frame(DATA, b"a"), grease(), trailers.clone(), grease()].concat(),
            )],
            Status(200),
        ),
        (
            "9114 §4.1 after an early answer: a control frame",
            vec![Open(get()), AfterAnswer(frame(SETTINGS, b""))],
            unexpected,
        ),
        (
            "9114 §4.1 after an early answer: DATA after trailers",
            vec![Open(get()), AfterAnswer([&trailers[..], &frame(DATA, b"a")].concat())],
            unexpected,
        ),
        ("9114 §4.1 an empty stream", vec![Request(vec![])], incomplete),
        ("9114 §4.1 no HEADERS", vec![Request(grease())], incomplete),
        ("9114 §7.1 an end within a header", vec![Request(vec![HEADERS])], Connection(Code::H3_FRAME_ERROR)),
        (
            "9114 §7.1 an end within HEADERS",
            vec![Request(vec![HEADERS, 99, 0])],
            Connection(Code::H3_FRAME_ERROR),
        ),
        (
            "9114 §7.1 an end within DATA",
            vec![Request([&get()[..], &[DATA, 9, b'a']].concat())],
            Connection(Code::H3_FRAME_ERROR),
        ),
        (
            "9114 §7.1 an end within an unknown frame",
            vec![Request([&get()[..], &[0x21, 9, b'a']].concat())],
            Connection(Code::H3_FRAME_ERROR),
        ),
    ];
    check_rows(rows, reaction_to_client);
    let on_requests = [3, 4, 5, 7, 13, 2, 6, 8, 9].map(|kind| {
        let name = format!("9114 §7.2 type {kind} on a request stream");
        (name, vec![Request([get(), frame(kind, &[0])].concat())])
    });
    for (name, actions) in on_requests {
        check_rows(vec![(&name, actions, unexpected)], reaction_to_client);
    }
}

#[test]
fn malformed_requests_are_errors_of_their_stream() {
    let malformed = OfStream(Code::H3_MESSAGE_ERROR);
    let mut rows = vec![
        (
            "9114 §4.1.2 content shorter than its length",
            vec![Request([head("", &[("content-length", "9")]), frame(DATA, b"abc")].concat())],
            malformed,
        ),
        (
            "9114 §4.1.2 content longer than its length",
            vec![Request([head("", &[("content-length", "2")]), frame(DATA, b"abc")].concat())],
            malformed,
        ),
        ("9114 §4.1.2 no content", vec![Request(head("", &[("content-length", "9")]))], malformed),
        (
            "9114 §4.1.2 content of its length",
            vec![Request([head("", &[("content-length", "3")]), frame(DATA, b"abc")].concat())],
            Status(200),
        ),
        ("9114 §4.3 a pseudo-header field in trailers", vec![Request([get(), get()].concat())], malformed),
        (
            "9114 §4.2 an upper-case name in trailers",
            vec![Request([get(), headers(&[("X", "y")])].concat())],
            malformed,
        ),
        ("9114 §4.2.2 a large head", vec![encoded(&large_section())], Status(431)),
        (
            "9114 §4.2.2 large trailers",
            // The server waits for content of a declared length, so the response does not arrive before the error.
            vec![Request(
                [
                    head("", &[("content-length", "1")]),
                    frame(DATA, b"a"),
                    frame(HEADERS, &[&[0, 0][..], &[0xc0 | 59; 1_500]].concat()),
                ]
                .concat(),
            )],
            OfStream(Code::H3_EXCESSIVE_LOAD),
        ),
        ("9114 §4.3.1 host alone", vec![Request(head(":authority", &[("host", "a")]))], Status(200)),
        ("9114 §4.3.1 host and :authority", vec![Request(head("", &[("host", "a")]))], Status(200)),
        ("9114 §4.2 te: trailers", vec![Request(head("", &[("te", "trailers")]))], Status(200)),
        (
            "9114 §4.4 CONNECT",
            vec![Request(headers(&[(":method", "CONNECT"), (":authority", "a:1")]))],
            Status(405),
        ),
    ];
    for (rule, fields) in [
        (
            "9114 §4.4 CONNECT with :path",
            &[(":method", "CONNECT"), (":authority", "a:1"), (":path", "/")][..],
        ),
        (
            "9114 §4.4 CONNECT with :scheme",
            &[(":method", "CONNECT"), (":authority", "a:1"), (":scheme", "https")],
        ),
        ("9114 §4.4 CONNECT without :authority", &[(":method", "CONNECT")]),
        ("9114 §4.4 CONNECT without a port", &[(":method", "CONNECT"), (":authority", "a")]),
    ] {
        rows.push((rule, vec![Request(headers(fields))], malformed));
    }
    for (rule, without, more) in [
        ("9114 §4.2 an upper-case name", "", &[("X-Y", "z")][..]),
        ("9114 §4.2 an empty name", "", &[("", "z")]),
        ("9114 §4.2 a name with a space", "", &[("a b", "z")]),
        ("9114 §4.2 connection", "", &[("connection", "close")]),
        ("9114 §4.2 keep-alive", "", &[("keep-alive", "1")]),
        ("9114 §4.2 proxy-connection", "", &[("proxy-connection", "close")]),
        ("9114 §4.2 transfer-encoding", "", &[("transfer-encoding", "chunked")]),
        ("9114 §4.2 upgrade", "", &[("upgrade", "h2c")]),
        ("9114 §4.2 te: gzip", "", &[("te", "gzip")]),
        ("9114 §10.3 a value with a leading space", "", &[("x", " y")]),
        ("9114 §10.3 a value with a trailing tab", "", &[("x", "y\t")]),
        ("9114 §10.3 a value with line ends", "", &[("x", "a\r\nb: c")]),
        ("9114 §10.3 a value with NUL", "", &[("x", "a\0")]),
        ("9114 §4.3 a pseudo-header field after a field", ":path", &[("x", "y"), (":path", "/0")]),
        ("9114 §4.3 :path twice", "", &[(":path", "/1")]),
        ("9114 §4.3 :method twice", "", &[(":method", "GET")]),
        ("9114 §4.3 :authority twice", "", &[(":authority", "a")]),
        ("9114 §4.3 :status", "", &[(":status", "200")]),
        ("9114 §4.3 an undefined pseudo-header field", "", &[(":x", "y")]),
        ("9220 §3 :protocol, which was not offered", "", &[(":protocol", "websocket")]),
        ("9114 §4.3.1 no :method", ":method", &[]),
        ("9114 §4.3.1 no :scheme", ":scheme", &[]),
        ("9114 §4.3.1 no :path", ":path", &[]),
        ("9114 §4.3.1 an empty :path", ":path", &[(":path", "")]),
        ("9114 §4.3.1 a :path without a slash", ":path", &[(":path", "0")]),
        ("9114 §4.3.1 neither :authority nor host", ":authority", &[]),
        ("9114 §4.3.1 an empty :authority", ":authority", &[(":authority", "")]),
        ("9114 §4.3.1 an :authority with a user", ":authority", &[(":authority", "u@a")]),
        ("9114 §4.3.1 :authority and host differ", "", &[("host", "b")]),
        ("9110 §8.6 content-length is no number", "", &[("content-length", "x")]),
        ("9110 §8.6 content-length twice", "", &[("content-length", "0"), ("content-length", "0")]),
    ] {
        rows.push((rule, vec![Request(head(without, more))], malformed));
    }
    check_rows(rows, reaction_to_client);
}

/// The client sends malformed trailers after the beginning of the response has arrived (RFC 9114 §4.1.2). If the client
/// then leaves its side of the stream open, the server must stop reading it. If the trailers end the request, the
/// server must reset the response, because part of it is still unacknowledged.
#[test]
fn malformed_trailers_after_an_early_answer_are_errors_of_their_stream() {
    let malformed = OfStream(Code::H3_MESSAGE_ERROR);
    let mut rows = vec![
        ("9114 §4.1 trailers", vec![Open(get()), AfterAnswer(headers(&[("x", "y")]))], Status(200)),
        ("9114 §4.1 trailers", vec![Open(get()), EndWithinAnswer(headers(&[("x", "y")]))], Status(200)),
    ];
    for (rule, fields) in [
        ("9114 §4.2 an upper-case name in trailers", ("X", "y")),
        ("9114 §4.2 connection in trailers", ("connection", "close")),
        ("9114 §4.3 a pseudo-header field in trailers", (":path", "/")),
        ("9114 §10.3 a value with a leading space in trailers", ("x", " y")),
    ] {
        rows.push((rule, vec![Open(get()), AfterAnswer(headers(&[fields]))], malformed));
        rows.push((rule, vec![Open(get()), EndWithinAnswer(headers(&[fields]))], malformed));
    }
    check_rows(rows, reaction_to_client);
}

/// Returns a header section that counts as more than 64 KiB, although its encoding has only about 1,500 bytes. It
/// repeats one field of the static table many times.
fn large_section() -> Vec<u8> {
    [section(&GET), vec![0xc0 | 59; 1_500]].concat()
}

/// The GOAWAY of a client concerns pushes only (RFC 9114 §5.2). Requests that cross it in flight or follow it must be
/// answered.
#[test]
fn requests_beside_a_clients_goaway_are_answered() {
    let (answers, _) = run(1, LINK, |hosts| async move {
        let Hosts { client, server, listener, connector } = hosts;
        let page = page();
        let serving = serve::run(
            server.clone(),
            listener,
            Rc::new(PageSite::new(&page)),
            options(),
            Recorder::default(),
        );
        server.spawn("server", async move { drop(serving.await) }).detach();
        let session = connector.connect(0).expect("begun");
        session.established().await.expect("stands");
        let mut control = open_one_way(&session, &CONTROL).await;
        let mut answers = Vec::new();
        for turn in 0..3 {
            if turn == 1 {
                control.write_all(&frame(GOAWAY, &[0])).await.expect("written");
            }
            // Before the last request, the client pauses. The server then processes GOAWAY while no request is in
            // progress.
            client.sleep_until(client.now() + Duration::from_millis(if turn == 2 { 500 } else { 0 })).await;
            let mut stream = poll_fn(|cx| session.poll_begin(cx, false)).await.expect("begun");
            stream.write_all(&get()).await.expect("written");
            stream.finish();
            let (mut answer, mut buffer) = (Vec::new(), [0; 10_000]);
            while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                answer.extend_from_slice(&buffer[..read]);
            }
            answers.push((status(&answer), answer.len() > 20_000));
        }
        answers
    });
    assert_eq!(answers, [(200, true); 3]);
}
