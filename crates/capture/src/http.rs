//! HTTP requests and responses within a connection: HTTP/1.1 and HTTP/2 on one stream of bytes, HTTP/3 on the streams of
//! QUIC.
//!
//! - `http1`: heads and bodies of HTTP/1.1
//! - `frames`: the frames of HTTP/2 and HTTP/3
//! - `hpack`: the heads of HTTP/2
//! - `flow`: the flow control of HTTP/2

mod flow;
mod frames;
mod hpack;
mod http1;

use super::arrival::Side;
use super::results::Request;
use super::timeline::Event;
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
    /// The requests that are not complete, by stream.
    open: BTreeMap<u64, usize>,
    pub left_out: u64,
    flow: Flow,
}

impl Requests {
    /// Begins a request on a stream. Does nothing if the stream has one already.
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

    /// Returns the request on a stream whose response is not complete.
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
        let Some(request) = self.on(stream) else { return };
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

    /// Records that a response begins.
    pub fn answered(&mut self, at: u64, stream: u64) {
        if let Some(request) = self.on(stream) {
            request.answered_ns.get_or_insert(at);
        }
    }

    /// Ends a request whose response is complete.
    pub fn done(&mut self, at: u64, stream: u64) {
        self.complete(at, stream);
        self.open.remove(&stream);
    }

    /// Records the time when a response is complete. What is told of it later still counts for it.
    pub fn complete(&mut self, at: u64, stream: u64) {
        if let Some(request) = self.on(stream) {
            request.done_ns = Some(at);
        }
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
    /// The client's first bytes have not been captured.
    #[default]
    Unknown,
    Http1(Box<Http1>),
    Http2(Box<[FrameReader; 2]>),
    /// Another protocol than HTTP.
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
            // A server of HTTP/2 may send its SETTINGS before the client's preface arrives. The frame has no request.
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
}

impl Http3 {
    /// Processes the next bytes of a stream in one direction. `fin` says whether the stream ends after them. Only
    /// streams that the client has opened in both directions carry requests (RFC 9114 §6.1).
    pub fn bytes(&mut self, at: u64, side: Side, stream: u64, bytes: &[u8], fin: bool) {
        if stream & 3 != 0 {
            return;
        }
        // A stream without a HEADERS frame of the client carries something else than HTTP/3.
        if side == 1 && !self.requests.open.contains_key(&stream) {
            return;
        }
        let reader = self.readers.entry((stream, side)).or_default();
        reader.http3(at, side, (stream, bytes), &mut self.requests);
        if fin {
            self.readers.remove(&(stream, side));
            if side == 1 {
                self.requests.done(at, stream);
            }
        }
    }
}
