//! Records the events of each object, connection and exchange, with their times.
//!
//! Client and server call an [`Observer`] when events happen. Together with the engines' traces (`base::trace`) these
//! milestones give the eleven instants from which a response time is partitioned:
//!
//! | instant | from |
//! |---|---|
//! | `issued`, `assigned`, `delivered` | the client's milestones of the object |
//! | `req_sent`, `req_copy`, `req_in` | traces, looked up by [`Assigned::request`] on the stream towards the server |
//! | `serving`, `written` | the server's milestones of the exchange |
//! | `sent`, `copy`, `complete` | traces, looked up by [`Delivered::response`] on the stream towards the client |
//!
//! An [`ExchangeId`] links an object and an exchange: the connection, the stream and the exchange's number on that stream.
//! Both sides count alike because HTTP answers in order. Byte ranges count from 0 at the first byte of that direction of
//! that stream, as [`TraceEvent::Sent`]'s `bytes` do.
//!
//! Over HTTP/2 an exchange has a stream of its own, whose bytes are those of its frames. The positions of these frames on
//! the session's stream are recorded as well.
//!
//! [`TraceEvent::Sent`]: anabranch_base::trace::TraceEvent::Sent

use anabranch_base::time::Instant;
use anabranch_transport::{CloseReason, Piece, Placement};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

/// Identifies one exchange on client and server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ExchangeId {
    /// The session's id: the initiator's port.
    pub connection: u64,
    /// The stream, 0 for TCP.
    pub stream: u64,
    /// The number of earlier exchanges on that stream.
    pub index: u32,
}

/// The assignment of an object to a stream: its request is being written.
///
/// If data may be sent with the handshake (`Session::early_data`), this can happen before the connection is usable. To
/// partition a response time, take the later of this time and the trace's `Established` of the connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assigned {
    /// The time of the assignment.
    pub at: Instant,
    /// Connection, stream and exchange.
    pub exchange: ExchangeId,
    /// The byte range of the request on the stream towards the server.
    pub request: Range<u64>,
    /// The number of earlier assignments of the object; more than 0 after a reconnect.
    pub attempt: u32,
}

/// The delivery of a complete and verified object to the application.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivered {
    /// When its last byte was read.
    pub at: Instant,
    /// The byte range of the response (head and body) on the stream towards the client.
    pub response: Range<u64>,
    /// Bytes of the body.
    pub body: u64,
}

/// Why an object was not delivered.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FetchError {
    /// None of its bytes moved for the whole `--timeout`.
    #[error("no progress within the timeout")]
    Timeout,
    /// The object that would have caused this fetch failed.
    #[error("object {0}, which causes this fetch, failed")]
    InitiatorFailed(usize),
    /// No connection to the server could be established.
    #[error("no connection: {0}")]
    Connect(String),
    /// The connection ended before the object was complete, and retries failed.
    #[error("the connection ended: {0}")]
    Closed(CloseReason),
    /// The response is not a valid HTTP response to the request.
    #[error("bad response: {0}")]
    BadResponse(String),
    /// The body differs from the server's: bytes were lost, changed or misplaced.
    #[error("the body is not intact: {0}")]
    Corrupt(String),
    /// Its sender abandoned it (partial reliability).
    #[error("given up by its sender")]
    GivenUp,
    /// The run ended first.
    #[error("not finished by the deadline")]
    Deadline,
}

/// Receives the milestones of clients and servers. All methods do nothing by default; `object` is an index into the page.
pub trait Observer {
    /// A session was started; its first packet leaves now.
    fn opened(&self, connection: u64, at: Instant) {
        let _ = (connection, at);
    }
    /// The client learned that the session's handshake is complete.
    fn established(&self, connection: u64, at: Instant) {
        let _ = (connection, at);
    }
    /// The client learned that the session has ended.
    fn closed(&self, connection: u64, at: Instant, reason: &CloseReason) {
        let _ = (connection, at, reason);
    }
    /// The object became known: its initiator was delivered, and its think time has passed.
    fn issued(&self, object: usize, at: Instant) {
        let _ = (object, at);
    }
    /// The object was assigned a connection and a stream; repeated after a reconnect.
    fn assigned(&self, object: usize, assigned: Assigned) {
        let _ = (object, assigned);
    }
    /// The first byte of its response was read.
    fn first_byte(&self, object: usize, at: Instant) {
        let _ = (object, at);
    }
    /// This many more bytes of its body were read.
    fn read(&self, object: usize, at: Instant, bytes: u64) {
        let _ = (object, at, bytes);
    }
    /// The whole response was read.
    fn delivered(&self, object: usize, delivered: Delivered) {
        let _ = (object, delivered);
    }
    /// It will not be delivered.
    fn failed(&self, object: usize, at: Instant, error: &FetchError) {
        let _ = (object, at, error);
    }
    /// The server has read a request and starts on it (service time begins).
    fn serving(&self, exchange: ExchangeId, at: Instant) {
        let _ = (exchange, at);
    }
    /// The server passed the first byte of the response to the transport, which may not have had room for it yet.
    fn written(&self, exchange: ExchangeId, at: Instant) {
        let _ = (exchange, at);
    }
    /// The client wrote a frame of this HTTP/2 stream to the session's stream.
    fn requested(&self, connection: u64, stream: u64, frame: Piece) {
        let _ = (connection, stream, frame);
    }
    /// The server wrote a frame of this HTTP/2 stream to the session's stream.
    fn answered(&self, connection: u64, stream: u64, frame: Piece) {
        let _ = (connection, stream, frame);
    }
    /// The position at which the sender put an object on its stream, if it differs from the receiver's count. The sender
    /// counts abandoned bytes, which the receiver never sees.
    fn placed(&self, object: usize, bytes: Range<u64>) {
        let _ = (object, bytes);
    }
}

/// Ignores all milestones.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {}

impl<O: Observer + ?Sized> Observer for Rc<O> {
    fn opened(&self, connection: u64, at: Instant) {
        (**self).opened(connection, at);
    }
    fn established(&self, connection: u64, at: Instant) {
        (**self).established(connection, at);
    }
    fn closed(&self, connection: u64, at: Instant, reason: &CloseReason) {
        (**self).closed(connection, at, reason);
    }
    fn issued(&self, object: usize, at: Instant) {
        (**self).issued(object, at);
    }
    fn assigned(&self, object: usize, assigned: Assigned) {
        (**self).assigned(object, assigned);
    }
    fn first_byte(&self, object: usize, at: Instant) {
        (**self).first_byte(object, at);
    }
    fn read(&self, object: usize, at: Instant, bytes: u64) {
        (**self).read(object, at, bytes);
    }
    fn delivered(&self, object: usize, delivered: Delivered) {
        (**self).delivered(object, delivered);
    }
    fn failed(&self, object: usize, at: Instant, error: &FetchError) {
        (**self).failed(object, at, error);
    }
    fn serving(&self, exchange: ExchangeId, at: Instant) {
        (**self).serving(exchange, at);
    }
    fn written(&self, exchange: ExchangeId, at: Instant) {
        (**self).written(exchange, at);
    }
    fn requested(&self, connection: u64, stream: u64, frame: Piece) {
        (**self).requested(connection, stream, frame);
    }
    fn answered(&self, connection: u64, stream: u64, frame: Piece) {
        (**self).answered(connection, stream, frame);
    }
    fn placed(&self, object: usize, bytes: Range<u64>) {
        (**self).placed(object, bytes);
    }
}

/// All milestones of one object.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ObjectRecord {
    /// When it was issued.
    pub issued: Option<Instant>,
    /// Its last assignment, which is the one that counts.
    pub assigned: Option<Assigned>,
    /// When its first response byte was read.
    pub first_byte: Option<Instant>,
    /// The bytes of its body read since its last assignment, with times. All reads within a millisecond are combined at the
    /// time of the first.
    pub read: Vec<(Instant, u64)>,
    /// The position at which its sender put it on its stream, if reported.
    pub placed: Option<Range<u64>>,
    /// Its delivery.
    pub delivered: Option<Delivered>,
    /// Its failure.
    pub failed: Option<(Instant, FetchError)>,
}

/// All milestones of one connection, as its client saw them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ConnectionRecord {
    /// When it was started.
    pub opened: Instant,
    /// When its handshake was complete.
    pub established: Option<Instant>,
    /// When and why it ended.
    pub closed: Option<(Instant, CloseReason)>,
}

/// The server's milestones of one exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ServedRecord {
    /// When it started on the request.
    pub serving: Option<Instant>,
    /// When it passed the first response byte to the transport, which may not have had room for it yet.
    pub written: Option<Instant>,
}

/// All recorded milestones.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Record {
    /// By object of the page, up to the highest object seen.
    pub objects: Vec<ObjectRecord>,
    /// By connection.
    pub connections: BTreeMap<u64, ConnectionRecord>,
    /// By exchange.
    pub served: BTreeMap<ExchangeId, ServedRecord>,
    /// The positions of HTTP/2 frames that clients sent.
    pub requests: Placement,
    /// The positions of HTTP/2 frames that servers sent.
    pub answers: Placement,
}

/// An observer that records all milestones. Clones share the record, so the client and the server each get one.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    record: Rc<RefCell<Record>>,
}

impl Recorder {
    /// Returns an empty recorder.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the milestones recorded so far.
    #[must_use]
    pub fn take(&self) -> Record {
        self.record.take()
    }

    fn object(&self, object: usize, change: impl FnOnce(&mut ObjectRecord)) {
        let mut record = self.record.borrow_mut();
        if record.objects.len() <= object {
            record.objects.resize_with(object + 1, ObjectRecord::default);
        }
        change(&mut record.objects[object]);
    }

    fn connection(&self, connection: u64, change: impl FnOnce(&mut ConnectionRecord)) {
        change(self.record.borrow_mut().connections.entry(connection).or_default());
    }

    fn served(&self, exchange: ExchangeId, change: impl FnOnce(&mut ServedRecord)) {
        change(self.record.borrow_mut().served.entry(exchange).or_default());
    }
}

impl Observer for Recorder {
    fn opened(&self, connection: u64, at: Instant) {
        self.connection(connection, |c| c.opened = at);
    }
    fn established(&self, connection: u64, at: Instant) {
        self.connection(connection, |c| c.established = Some(at));
    }
    fn closed(&self, connection: u64, at: Instant, reason: &CloseReason) {
        self.connection(connection, |c| c.closed = Some((at, reason.clone())));
    }
    fn issued(&self, object: usize, at: Instant) {
        self.object(object, |o| o.issued = Some(at));
    }
    fn assigned(&self, object: usize, assigned: Assigned) {
        self.object(object, |o| {
            o.assigned = Some(assigned);
            o.first_byte = None;
            o.read.clear();
        });
    }
    fn first_byte(&self, object: usize, at: Instant) {
        self.object(object, |o| o.first_byte = Some(at));
    }
    fn read(&self, object: usize, at: Instant, bytes: u64) {
        let millisecond = |at: Instant| at.as_nanos() / 1_000_000;
        self.object(object, |o| match o.read.last_mut() {
            Some((first, sum)) if millisecond(*first) == millisecond(at) => *sum += bytes,
            _ => o.read.push((at, bytes)),
        });
    }
    fn delivered(&self, object: usize, delivered: Delivered) {
        self.object(object, |o| o.delivered = Some(delivered));
    }
    fn failed(&self, object: usize, at: Instant, error: &FetchError) {
        self.object(object, |o| o.failed = Some((at, error.clone())));
    }
    fn serving(&self, exchange: ExchangeId, at: Instant) {
        self.served(exchange, |s| s.serving = Some(at));
    }
    fn written(&self, exchange: ExchangeId, at: Instant) {
        self.served(exchange, |s| s.written = Some(at));
    }
    fn requested(&self, connection: u64, stream: u64, frame: Piece) {
        self.record.borrow_mut().requests.add(connection, stream, frame);
    }
    fn answered(&self, connection: u64, stream: u64, frame: Piece) {
        self.record.borrow_mut().answers.add(connection, stream, frame);
    }
    fn placed(&self, object: usize, bytes: Range<u64>) {
        self.object(object, |o| o.placed = Some(bytes));
    }
}
