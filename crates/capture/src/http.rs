//! HTTP requests and responses within a connection: HTTP/1.1 and HTTP/2 on one stream of bytes, HTTP/3 on the streams of
//! QUIC.
//!
//! - `http1`: heads and bodies of HTTP/1.1
//! - `frames`: the frames of HTTP/2 and HTTP/3
//! - `hpack`: the heads of HTTP/2
//! - `qpack`: the heads of HTTP/3
//! - `flow`: the flow control of HTTP/2

mod flow;
mod frames;
mod hpack;
mod http1;
mod qpack;

use super::arrival::Side;
use super::results::Request;
use super::timeline::Event;
use anabranch_wire::quic::Frames;
use flow::Flow;
use frames::FrameReader;
use http1::Http1;
use std::collections::BTreeMap;

/// The maximum number of requests that are kept for each connection.
const MAX_REQUESTS: usize = 1 << 14;
/// The maximum number of characters that are kept of a request target.
const MAX_TARGET: usize = 1_024;
/// The bytes with which a client begins HTTP/2 (RFC 9113 §3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The requests of a connection.
#[derive(Debug, Default)]
pub(super) struct Requests {
    pub all: Vec<Request>,
    /// For each stream: the index in `all` of its request that is not complete.
    open: BTreeMap<u64, usize>,
    pub left_out: u64,
    flow: Flow,
}

impl Requests {
    /// Begins a request on a stream. Does nothing if the stream already has an incomplete request.
    pub fn begin(&mut self, at: u64, stream: u64) {
        if self.open.contains_key(&stream) {
            return;
        }
        if self.all.len() >= MAX_REQUESTS {
            self.left_out += 1;
            return;
        }
        self.open.insert(stream, self.all.len());
        self.all.push(Request { stream, at_ns: at, ..Request::default() });
    }

    /// Returns the request on a stream, if its response is not complete.
    fn on(&mut self, stream: u64) -> Option<&mut Request> {
        self.open.get(&stream).and_then(|index| self.all.get_mut(*index))
    }

    /// Removes and returns the events of flow control, with the sides that caused them.
    pub fn flow_events(&mut self) -> impl Iterator<Item = (Side, Event)> {
        self.flow.events.drain(..)
    }

    /// Counts bytes of a body.
    pub fn body(&mut self, stream: u64, side: Side, bytes: u64) {
        if let Some(request) = self.on(stream) {
            request.bytes[side] += bytes;
        }
    }

    /// Records a field of the head of a request or response.
    pub fn field(&mut self, stream: u64, side: Side, name: &[u8], value: &[u8]) {
        if let Some(request) = self.on(stream) {
            set_field(request, side, name, value);
        }
    }

    /// Records that a response begins.
    pub fn answered(&mut self, at: u64, stream: u64) {
        if let Some(request) = self.on(stream) {
            // An endpoint may log the head of a response after the packets that completed the response. The response
            // then begins at the time of its completion.
            request.answered_ns.get_or_insert(request.done_ns.map_or(at, |done| done.min(at)));
        }
    }

    /// Ends a request whose response is complete.
    pub fn done(&mut self, at: u64, stream: u64) {
        self.complete(at, stream);
        self.open.remove(&stream);
    }

    /// Records the time when a response is complete. The request stays open, so that fields and bytes that are logged
    /// later still count for it.
    pub fn complete(&mut self, at: u64, stream: u64) {
        if let Some(request) = self.on(stream) {
            request.done_ns = Some(at);
        }
    }
}

/// Records a field of the head of a request or response.
fn set_field(request: &mut Request, side: Side, name: &[u8], value: &[u8]) {
    let text = || Some(String::from_utf8_lossy(value).chars().take(MAX_TARGET).collect());
    match (name, side) {
        (b":method", 0) => request.method = text(),
        (b":path", 0) => request.target = text(),
        (b":status", 1) => {
            request.status = std::str::from_utf8(value).ok().and_then(|code| code.parse().ok())
        }
        _ => {}
    }
}

/// HTTP on one stream of bytes in each direction.
#[derive(Debug, Default)]
pub(super) struct Http {
    pub requests: Requests,
    version: Version,
}

#[derive(Debug, Default)]
enum Version {
    /// The client's first bytes have not been captured yet.
    #[default]
    Unknown,
    Http1(Box<Http1>),
    Http2(Box<[FrameReader; 2]>),
    /// A protocol other than HTTP.
    Other,
}

impl Http {
    /// Processes the next bytes of one side.
    pub fn bytes(&mut self, at: u64, side: Side, mut bytes: &[u8]) {
        if let (Version::Unknown, 0) = (&self.version, side) {
            self.version = if let Some(rest) = bytes.strip_prefix(PREFACE) {
                bytes = rest;
                Version::Http2(Box::default())
            } else if http1::begins(bytes) {
                Version::Http1(Box::default())
            } else {
                Version::Other
            };
        }
        match &mut self.version {
            Version::Http1(http) => http.bytes(at, side, bytes, &mut self.requests),
            Version::Http2(readers) => readers[side].http2(at, side, bytes, &mut self.requests),
            // Ignores bytes before the client's preface: an HTTP/2 server may send its SETTINGS first. SETTINGS belong
            // to no request.
            Version::Unknown | Version::Other => {}
        }
    }

    /// Processes the end of one side's bytes.
    pub fn ends(&mut self, at: u64, side: Side) {
        if let (Version::Http1(http), 1) = (&mut self.version, side) {
            http.ends(at, &mut self.requests);
        }
    }
}

/// HTTP/3 on the streams of a QUIC connection.
#[derive(Debug, Default)]
pub(super) struct Http3 {
    pub requests: Requests,
    readers: BTreeMap<(u64, Side), FrameReader>,
    /// The dynamic tables of QPACK, by the side of the encoder.
    tables: [qpack::Table; 2],
    /// The unidirectional streams: the type of each, once it is known, and the bytes that are not processed yet.
    others: BTreeMap<u64, (Option<u64>, Vec<u8>)>,
    /// The heads that wait for entries of the dynamic table: the index of the request, the sender, and the head.
    blocked: Vec<(usize, Side, Vec<u8>)>,
}

/// RFC 9114 §6.2, RFC 9204 §4.2: the types of unidirectional streams.
const CONTROL: u64 = 0;
const ENCODER: u64 = 2;
/// The marker that replaces the type of a control stream once its SETTINGS have been read.
const READ: u64 = u64::MAX;
/// RFC 9114 §7.2.4, RFC 9204 §5: the type of the SETTINGS frame, and the setting with the capacity of QPACK's table.
const SETTINGS: u64 = 4;
const QPACK_MAX_TABLE_CAPACITY: u64 = 1;
/// The maximum length in bytes of the SETTINGS.
const MAX_SETTINGS: usize = 1_024;
/// The maximum number of unidirectional streams that are followed. HTTP/3 needs six.
const MAX_OTHERS: usize = 64;
/// The maximum number of heads that wait for entries of the dynamic table.
const MAX_BLOCKED: usize = 256;

impl Http3 {
    /// Processes the next bytes that `side` has sent on a stream. `fin` says whether the stream ends after them. Only
    /// bidirectional streams that the client has opened carry requests (RFC 9114 §6.1).
    pub fn bytes(&mut self, at: u64, side: Side, stream: u64, bytes: &[u8], fin: bool) {
        match stream & 3 {
            0 => {}
            2 | 3 if (stream & 1) as usize == side => return self.other(side, stream, bytes),
            _ => return,
        }
        // Ignores a stream on which the client has sent no HEADERS frame, because it does not carry HTTP/3.
        if side == 1 && !self.requests.open.contains_key(&stream) {
            return;
        }
        let reader = self.readers.entry((stream, side)).or_default();
        let (tables, blocked) = (&self.tables, &mut self.blocked);
        reader.http3(at, side, (stream, bytes), &mut self.requests, |requests, head| {
            let Some(index) = requests.open.get(&stream).copied() else { return };
            if !read_head(tables, requests, index, side, &head) && blocked.len() < MAX_BLOCKED {
                blocked.push((index, side, head));
            }
        });
        if fin {
            self.readers.remove(&(stream, side));
            if side == 1 {
                self.requests.done(at, stream);
            }
        }
    }
    /// Processes the next bytes of a unidirectional stream.
    fn other(&mut self, side: Side, stream: u64, bytes: &[u8]) {
        if self.others.len() >= MAX_OTHERS && !self.others.contains_key(&stream) {
            return;
        }
        let (kind, partial) = self.others.entry(stream).or_default();
        let mut bytes = [&std::mem::take(partial)[..], bytes].concat();
        if kind.is_none() {
            let mut rest = Frames(&bytes);
            let Some(found) = rest.number() else {
                *partial = bytes;
                return;
            };
            *kind = Some(found);
            bytes = rest.0.to_vec();
        }
        match *kind {
            Some(CONTROL) => match settings(&bytes) {
                Some(capacity) => {
                    *kind = Some(READ);
                    self.tables[1 - side].max_capacity = Some(capacity);
                }
                None if bytes.len() > MAX_SETTINGS => *kind = Some(READ),
                None => *partial = bytes,
            },
            Some(ENCODER) => self.tables[side].instructions(&bytes),
            _ => return,
        }
        let (tables, requests) = (&self.tables, &mut self.requests);
        self.blocked.retain(|(index, side, head)| !read_head(tables, requests, *index, *side, head));
    }
}

/// Decodes a head. Returns false if the head needs entries that the dynamic table does not have yet.
fn read_head(
    tables: &[qpack::Table; 2],
    requests: &mut Requests,
    index: usize,
    side: Side,
    head: &[u8],
) -> bool {
    let Some(request) = requests.all.get_mut(index) else { return true };
    let read = tables[side].decode(head, |name, value| set_field(request, side, name, value));
    read != Err(qpack::SectionError::Blocked)
}

/// Returns the capacity of the dynamic table in the SETTINGS with which a control stream begins. Returns `None` if they
/// are incomplete.
fn settings(bytes: &[u8]) -> Option<u64> {
    let mut rest = Frames(bytes);
    let (kind, length) = (rest.number()?, rest.number()?);
    let mut rest = Frames(rest.bytes(length)?);
    let values = std::iter::from_fn(|| rest.number().zip(rest.number()));
    let capacity = values.filter(|(key, _)| *key == QPACK_MAX_TABLE_CAPACITY).map(|(_, value)| value).last();
    Some(capacity.filter(|_| kind == SETTINGS).unwrap_or(0))
}
