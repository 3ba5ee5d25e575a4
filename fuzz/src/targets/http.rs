//! Runs an HTTP server with clients that send arbitrary input: HTTP/1.1, frames of HTTP/2 (RFC 9113), or streams of
//! HTTP/3 (RFC 9114).
//!
//! The session is scripted in memory. All bytes of the client are known from the start, and arrive in pieces of any
//! size. The client may stop reading the server's bytes. Time is virtual. Every session must end: by the client, by an
//! error, or by the idle timeout.

use crate::source::Source;
use anabranch_base::time::{Duration, Instant};
use anabranch_http::alt_svc::Alternative;
use anabranch_http::http2::PREFACE;
use anabranch_http::http2::priority::{Priority, ResponseScheduler};
use anabranch_http::observe::Recorder;
use anabranch_http::page::Page;
use anabranch_http::serve::{self, Options, PageSite, Versions};
use anabranch_sim::Network;
use anabranch_transport::{CloseReason, Listener, ONE_WAY, OpenError, Session, Stream};
use anabranch_world::World;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Serves a client that sends the input on one stream. The server parses it as HTTP/1.1 unless it recognizes another
/// version.
pub fn http1(input: &[u8]) {
    let mut source = Source::new(input);
    let behavior = ClientBehavior::read(&mut source);
    let mut request_bytes = Vec::new();
    while !source.is_over() {
        match source.below(6) {
            0 => request_bytes.extend(b"GET / HTTP/1.1\r\nHost: a\r\n"),
            1 => request_bytes.extend(b"\r\n"),
            2 => request_bytes.extend(source.pick(&FIELDS)),
            3 => request_bytes.extend(
                b"POST /object-1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
            ),
            _ => request_bytes.extend(source.bytes(60)),
        }
    }
    serve(behavior, vec![(0, request_bytes)], Versions::Both);
}

const FIELDS: [&[u8]; 8] = [
    b"Connection: close\r\n",
    b"Content-Length: 3\r\n",
    b"Expect: 100-continue\r\n",
    b"Range: bytes=1-2\r\n",
    b"Priority: u=1, i\r\n",
    b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
    b"If-None-Match: *\r\n",
    b" folded\r\n",
];

/// Serves a client that sends generated HTTP/2 frames on one stream. Most frames are valid.
pub fn http2(input: &[u8]) {
    let mut source = Source::new(input);
    let behavior = ClientBehavior::read(&mut source);
    let mut client_bytes = PREFACE.to_vec();
    if source.one_in(32) {
        client_bytes.truncate(source.below(24) as usize);
    }
    let frame = |client_bytes: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]| {
        let length = (payload.len() as u32).to_be_bytes();
        client_bytes.extend([&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat());
    };
    frame(&mut client_bytes, 4, 0, 0, &[]);
    let mut next = 1;
    while !source.is_over() {
        let stream = if source.one_in(4) { source.number() } else { source.below(next + 4) };
        match source.below(8) {
            // Adds a request. In most cases, the request is complete.
            0..=2 => {
                let mut head = vec![0x82, 0x87, 0x84, 0x01, 1, b'a'];
                if source.one_in(2) {
                    let value = source.bytes(20);
                    head.extend([&[0, 8][..], b"priority", &[value.len() as u8], value].concat());
                }
                if source.one_in(4) {
                    head.extend(source.bytes(40));
                }
                let flags = if source.one_in(8) { source.byte() } else { 5 };
                frame(&mut client_bytes, 1, flags, next, &head);
                next += 2;
            }
            // Adds RST_STREAM, WINDOW_UPDATE or SETTINGS frames with numbers of any size.
            3 => frame(&mut client_bytes, 3, 0, stream, &source.number().to_be_bytes()),
            4 => frame(&mut client_bytes, 8, 0, stream, &source.number().to_be_bytes()),
            5 => {
                let id = [0, source.below(8) as u8];
                frame(&mut client_bytes, 4, 0, 0, &[&id[..], &source.number().to_be_bytes()].concat());
            }
            6 => {
                let (kind, flags) = (source.below(12) as u8, source.byte());
                frame(&mut client_bytes, kind, flags, stream, source.bytes(80));
            }
            _ => client_bytes.extend(source.bytes(30)),
        }
    }
    serve(behavior, vec![(0, client_bytes)], Versions::Both);
}

/// Serves a client that opens HTTP/3 streams in both directions, with generated frames that are mostly valid.
pub fn http3(input: &[u8]) {
    let mut source = Source::new(input);
    let behavior = ClientBehavior::read(&mut source);
    // Encodes a variable-length integer (RFC 9000 §16), not always in the shortest form.
    let integer = |source: &mut Source<'_>, value: u32| {
        let long = source.one_in(16);
        match value {
            0..0x40 if !long => vec![value as u8],
            0..0x4000 if !long => ((value as u16) | 0x4000).to_be_bytes().to_vec(),
            _ => (u64::from(value) | 0xc000_0000_0000_0000).to_be_bytes().to_vec(),
        }
    };
    // Every client has a control stream with settings.
    let mut streams = vec![(ONE_WAY, vec![0, 4, 0])];
    let (mut both, mut one) = (0, 1);
    while !source.is_over() && streams.len() < 24 {
        let mut client_bytes = Vec::new();
        let one_way = source.one_in(4);
        if one_way {
            let kind = source.below(6);
            client_bytes.extend(integer(&mut source, kind));
        }
        while !source.is_over() && !source.one_in(5) {
            let (kind, payload) = match source.below(6) {
                0 | 1 if !one_way => {
                    // RFC 9204 §4.5: the field section has the static entries of GET, https and /, and an authority.
                    let mut head = vec![0, 0, 0xd1, 0xd7, 0xc1, 0x50, 1, b'a'];
                    if source.one_in(2) {
                        let value = source.bytes(20);
                        head.extend([&[0x27, 1][..], b"priority", &[value.len() as u8], value].concat());
                    }
                    (1, head)
                }
                2 => (0, source.bytes(40).to_vec()),
                3 => (source.below(16), source.bytes(40).to_vec()),
                4 => (0xf0700, source.bytes(20).to_vec()),
                _ => (source.number(), source.bytes(30).to_vec()),
            };
            let kind = integer(&mut source, kind & 0x3fff_ffff);
            let length = if source.one_in(12) { source.number() } else { payload.len() as u32 };
            let length = integer(&mut source, length & 0x3fff_ffff);
            client_bytes.extend([kind, length, payload].concat());
        }
        let number = if one_way { ONE_WAY | one } else { both };
        if one_way {
            one += 1
        } else {
            both += 1
        }
        streams.push((number, client_bytes));
    }
    serve(behavior, streams, Versions::Http3);
}

/// Parses the field `priority` (RFC 9218 §5), and checks the resulting order of requests.
pub fn priority(input: &[u8]) {
    let mut source = Source::new(input);
    let mut turns = ResponseScheduler::default();
    let mut open_streams = Vec::new();
    for stream in 0..8 {
        let priority = Priority::read(&String::from_utf8_lossy(source.bytes(24)));
        assert!(priority.urgency <= 7 && Priority::read(&priority.to_string()) == priority);
        assert!(priority.rank(source.number().into()) < 1 << 31);
        turns.add(stream, priority);
        open_streams.push((stream, priority));
    }
    while !source.is_over() {
        let stream = u64::from(source.below(10));
        if source.one_in(3) {
            turns.remove(stream);
            open_streams.retain(|(other, _)| *other != stream);
        } else {
            turns.written(stream);
        }
        let order: Vec<u64> = turns.order().collect();
        let urgencies: Vec<u8> = order
            .iter()
            .filter_map(|stream| open_streams.iter().find(|(other, _)| other == stream))
            .map(|(_, priority)| priority.urgency)
            .collect();
        assert!(order.len() == open_streams.len() && urgencies.is_sorted(), "{order:?} of {open_streams:?}");
    }
}

/// How a client sends its bytes and reads the server's.
#[derive(Clone, Copy)]
struct ClientBehavior {
    /// The number of bytes that become available at a time.
    piece: usize,
    /// Whether the client ends each stream after its last byte. If not, the streams stay open.
    ends: bool,
    /// The number of bytes that the client reads on each stream before it stops reading.
    read_limit: usize,
}

impl ClientBehavior {
    fn read(source: &mut Source<'_>) -> Self {
        Self {
            piece: 1 + source.below(256) as usize,
            ends: source.one_in(2),
            read_limit: source.pick(&[0, 10, 1000, usize::MAX, usize::MAX, usize::MAX]),
        }
    }
}

/// Serves a session whose client sends these bytes on its streams.
fn serve(behavior: ClientBehavior, streams: Vec<(u64, Vec<u8>)>, versions: Versions) {
    let network = Network::new(1);
    let host = network.host("server", &[[10, 0, 0, 1].into()]);
    let world = network.world(host);
    let session = Script(Rc::new(RefCell::new(Inner::default())));
    for (number, input) in streams {
        let stream =
            ScriptStream { script: session.clone(), number, behavior, input, at: 0, read: 0, turn: false };
        let mut inner = session.0.borrow_mut();
        if number & ONE_WAY == 0 {
            inner.bidirectional.push_back(stream)
        } else {
            inner.unidirectional.push_back(stream)
        }
    }
    session.0.borrow_mut().fresh = versions == Versions::Http3;
    let options = Options {
        idle_timeout: Some(Duration::from_secs(20)),
        head_timeout: Some(Duration::from_secs(5)),
        max_head: Some(16 << 10),
        versions,
        ..Options::default()
    };
    let page = Page::from_sizes("300B,40kB").expect("a page");
    let server = serve::run(
        world.clone(),
        Once(Some(session.clone())),
        Rc::new(PageSite::new(&page)),
        options,
        Recorder::default(),
    );
    let _server = world.spawn("server", server);
    let fetch = async {
        world.sleep_until(world.now() + Duration::from_secs(200)).await;
    };
    network.run(fetch, Instant::MAX).expect_done();
    assert!(session.0.borrow().closed.is_some(), "the session goes on");
}

/// A listener with one session.
struct Once(Option<Script>);

impl Listener for Once {
    type Session = Script;

    fn poll_accept(&mut self, _: &mut Context<'_>) -> Poll<Result<Script, CloseReason>> {
        self.0.take().map_or(Poll::Pending, |session| Poll::Ready(Ok(session)))
    }

    fn port(&self) -> u16 {
        443
    }
}

/// A session whose client sends predefined bytes.
#[derive(Clone)]
struct Script(Rc<RefCell<Inner>>);

#[derive(Default)]
struct Inner {
    fresh: bool,
    bidirectional: VecDeque<ScriptStream>,
    unidirectional: VecDeque<ScriptStream>,
    opened: u64,
    closed: Option<CloseReason>,
    waiting: Vec<Waker>,
}

impl Script {
    fn end(&self, reason: CloseReason) {
        let mut inner = self.0.borrow_mut();
        inner.closed.get_or_insert(reason);
        let waiting = std::mem::take(&mut inner.waiting);
        drop(inner);
        waiting.into_iter().for_each(Waker::wake);
    }

    fn wait<T>(&self, cx: &Context<'_>) -> Poll<T> {
        self.0.borrow_mut().waiting.push(cx.waker().clone());
        Poll::Pending
    }

    fn closed(&self) -> Option<CloseReason> {
        self.0.borrow().closed.clone()
    }

    fn accept(&self, cx: &Context<'_>, one_way: bool) -> Poll<Result<ScriptStream, CloseReason>> {
        if let Some(reason) = self.closed() {
            return Poll::Ready(Err(reason));
        }
        let mut inner = self.0.borrow_mut();
        let next = if one_way { inner.unidirectional.pop_front() } else { inner.bidirectional.pop_front() };
        drop(inner);
        next.map_or_else(|| self.wait(cx), |stream| Poll::Ready(Ok(stream)))
    }
}

impl Session for Script {
    type Stream = ScriptStream;

    fn id(&self) -> u64 {
        1
    }

    fn poll_established(&self, _: &mut Context<'_>) -> Poll<Result<(), CloseReason>> {
        Poll::Ready(self.closed().map_or(Ok(()), Err))
    }

    fn early_data(&self) -> bool {
        false
    }

    fn streams(&self) -> u64 {
        if self.0.borrow().fresh { 100 } else { 1 }
    }

    fn fresh_streams(&self) -> bool {
        self.0.borrow().fresh
    }

    fn request_streams(&self, _: u64) {}

    fn poll_streams_added(&self, _: &mut Context<'_>) -> Poll<u64> {
        Poll::Ready(self.streams())
    }

    fn open(&self, number: u64) -> Result<ScriptStream, OpenError> {
        Err(OpenError::AlreadyOpen(number))
    }

    fn poll_begin(&self, _: &mut Context<'_>, one_way: bool) -> Poll<Result<ScriptStream, OpenError>> {
        let mut inner = self.0.borrow_mut();
        let number = inner.opened | if one_way { ONE_WAY } else { 0 };
        inner.opened += 1;
        let behavior = ClientBehavior { piece: 1, ends: false, read_limit: usize::MAX };
        drop(inner);
        Poll::Ready(Ok(ScriptStream {
            script: self.clone(),
            number,
            behavior,
            input: Vec::new(),
            at: 0,
            read: 0,
            turn: false,
        }))
    }

    fn poll_accept_one_way(&self, cx: &mut Context<'_>) -> Poll<Result<ScriptStream, CloseReason>> {
        self.accept(cx, true)
    }

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<Result<ScriptStream, CloseReason>> {
        self.accept(cx, false)
    }

    fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<CloseReason> {
        self.closed().map_or_else(|| self.wait(cx), Poll::Ready)
    }

    fn unacknowledged(&self) -> u64 {
        0
    }

    fn close(&self) {
        self.end(CloseReason::Finished);
    }

    fn abort(&self) {
        self.end(CloseReason::Aborted);
    }
}

struct ScriptStream {
    script: Script,
    number: u64,
    behavior: ClientBehavior,
    input: Vec<u8>,
    at: usize,
    read: usize,
    /// Whether the last poll returned a piece of the input. The next poll then returns `Pending`, so that the pieces
    /// arrive one by one.
    turn: bool,
}

impl Stream for ScriptStream {
    fn number(&self) -> u64 {
        self.number
    }

    fn bytes_read(&self) -> u64 {
        self.at as u64
    }

    fn bytes_written(&self) -> u64 {
        self.read as u64
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<Result<usize, CloseReason>> {
        if std::mem::take(&mut self.turn) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let length = self.behavior.piece.min(self.input.len() - self.at).min(into.len());
        if length == 0 {
            return match self.script.closed() {
                Some(reason) => Poll::Ready(Err(reason)),
                None if self.behavior.ends || into.is_empty() => Poll::Ready(Ok(0)),
                None => self.script.wait(cx),
            };
        }
        into[..length].copy_from_slice(&self.input[self.at..self.at + length]);
        (self.at, self.turn) = (self.at + length, true);
        Poll::Ready(Ok(length))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, from: &[u8]) -> Poll<Result<usize, CloseReason>> {
        if let Some(reason) = self.script.closed() {
            return Poll::Ready(Err(reason));
        }
        let length = from.len().min(self.behavior.read_limit.saturating_sub(self.read));
        if length == 0 && !from.is_empty() {
            return self.script.wait(cx);
        }
        self.read += length;
        Poll::Ready(Ok(length))
    }

    fn poll_write_message(
        &mut self,
        cx: &mut Context<'_>,
        message: &[u8],
    ) -> Poll<Result<usize, CloseReason>> {
        self.poll_write(cx, message)
    }

    fn finish(&mut self) {}

    fn supports_half_close(&self) -> bool {
        true
    }
}

/// Parses the field `Alt-Svc` (RFC 7838 §3), composed of arbitrary pieces.
pub fn alt_svc(input: &[u8]) {
    const PIECES: [&str; 12] = ["h3", "h2", "=", "\"", ":443", "[::1]", ",", ";", "ma=", "9", " ", "clear"];
    let mut source = Source::new(input);
    let mut field = String::new();
    while !source.is_over() {
        match source.byte() {
            piece if piece < 200 => field.push_str(PIECES[usize::from(piece) % PIECES.len()]),
            _ => field.push_str(&String::from_utf8_lossy(source.bytes(3))),
        }
    }
    if let Some(found) = Alternative::read(&field) {
        assert!(found.port > 0 && found.host.as_deref() != Some(""));
    }
    let alternative = Alternative::written(4433);
    assert_eq!(Alternative::read(&format!("{alternative}, {field}")), Alternative::read(&alternative));
}
