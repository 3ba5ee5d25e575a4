//! What happened to each object, connection and exchange, and when.
//!
//! Client and server call an [`Observer`] as things happen. Together with the
//! engines' traces (`base::trace`) these milestones give the eleven instants
//! from which a response time is partitioned:
//!
//! | instant | from |
//! |---|---|
//! | `issued`, `assigned`, `delivered` | the client's milestones of the object |
//! | `req_sent`, `req_copy`, `req_in` | traces, looked up by [`Assigned::request`] on the stream towards the server |
//! | `serving`, `written` | the server's milestones of the exchange |
//! | `sent`, `copy`, `complete` | traces, looked up by [`Delivered::response`] on the stream towards the client |
//!
//! An object and an exchange meet in [`ExchangeId`]: connection, stream and the
//! exchange's number on that stream, which both sides count alike because HTTP
//! answers in order. Byte ranges count from 0 at the first byte of that
//! direction of that stream, as [`TraceEvent::Sent`]'s `bytes` do.
//!
//! Over HTTP/2 an exchange has a stream of its own, whose bytes are those of its frames; which of these lie where on the
//! session's stream is observed, too.
//!
//! [`TraceEvent::Sent`]: anabranch_base::trace::TraceEvent::Sent

use anabranch_base::time::Instant;
use anabranch_transport::{CloseReason, Piece, Placement};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

/// Names one exchange at both ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ExchangeId {
    /// The session's id: the initiator's port.
    pub connection: u64,
    /// The stream, 0 for TCP.
    pub stream: u64,
    /// How many exchanges came before it on that stream.
    pub index: u32,
}

/// An object has got its place: its request is being written.
///
/// Where data may ride with the handshake (`Session::early_data`) this can come
/// before the connection is usable; who partitions a response time takes the
/// later of this and the trace's `Established` of the connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assigned {
    /// When.
    pub at: Instant,
    /// Connection, stream and exchange.
    pub exchange: ExchangeId,
    /// Where the request lies on the stream towards the server.
    pub request: Range<u64>,
    /// How many times the object had been assigned before: more than 0 after a reconnect.
    pub attempt: u32,
}

/// An object has been given to the application in full and verified.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivered {
    /// When its last byte was read.
    pub at: Instant,
    /// Where the response (head and body) lies on the stream towards the client.
    pub response: Range<u64>,
    /// Bytes of the body.
    pub body: u64,
}

/// Why an object was not delivered.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FetchError {
    /// Nothing of it moved for the whole `--timeout`.
    #[error("no progress within the timeout")]
    Timeout,
    /// The object that would have caused this fetch failed.
    #[error("object {0}, which causes this fetch, failed")]
    InitiatorFailed(usize),
    /// No connection to the server could be had.
    #[error("no connection: {0}")]
    Connect(String),
    /// The connection ended under it, and trying again did not help.
    #[error("the connection ended: {0}")]
    Closed(CloseReason),
    /// What came back is not an HTTP response that answers the request.
    #[error("bad response: {0}")]
    BadResponse(String),
    /// What came back is not what the server has: bytes lost, changed or out of place.
    #[error("the body is not intact: {0}")]
    Corrupt(String),
    /// Its sender gave it up (partial reliability).
    #[error("given up by its sender")]
    GivenUp,
    /// The run ended before it did.
    #[error("not finished by the deadline")]
    Deadline,
}

/// Takes the milestones of clients and servers. All methods do nothing unless
/// they are implemented; `object` is an index into the page.
pub trait Observer {
    /// A session was begun (its first packet leaves now).
    fn opened(&self, connection: u64, at: Instant) {
        let _ = (connection, at);
    }
    /// The client learned that the session's handshake is done.
    fn established(&self, connection: u64, at: Instant) {
        let _ = (connection, at);
    }
    /// The client learned that the session has ended.
    fn closed(&self, connection: u64, at: Instant, reason: &CloseReason) {
        let _ = (connection, at, reason);
    }
    /// The object became known: its initiator is delivered (and thought about).
    fn issued(&self, object: usize, at: Instant) {
        let _ = (object, at);
    }
    /// The object has got a connection and a stream (again, after a reconnect).
    fn assigned(&self, object: usize, assigned: Assigned) {
        let _ = (object, assigned);
    }
    /// The first byte of its response was read.
    fn first_byte(&self, object: usize, at: Instant) {
        let _ = (object, at);
    }
    /// So many more bytes of its body were read.
    fn read(&self, object: usize, at: Instant, bytes: u64) {
        let _ = (object, at, bytes);
    }
    /// All of it was read.
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
    /// The server gave the first byte of the response to the transport, which may have had no room for it yet.
    fn written(&self, exchange: ExchangeId, at: Instant) {
        let _ = (exchange, at);
    }
    /// The client has put a frame of this stream of HTTP/2 on the session's one stream.
    fn requested(&self, connection: u64, stream: u64, frame: Piece) {
        let _ = (connection, stream, frame);
    }
    /// The server has.
    fn answered(&self, connection: u64, stream: u64, frame: Piece) {
        let _ = (connection, stream, frame);
    }
    /// Where the sender put an object on its stream, when that is not what the receiver counts: bytes that were
    /// given up are counted by the one and never seen by the other.
    fn placed(&self, object: usize, bytes: Range<u64>) {
        let _ = (object, bytes);
    }
}

/// Watches nothing.
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
    /// Its last assignment: the one that counts.
    pub assigned: Option<Assigned>,
    /// When its first response byte was read.
    pub first_byte: Option<Instant>,
    /// How many bytes of its body were read when, since its last assignment: the reads of a millisecond are one, at the
    /// instant of the first.
    pub read: Vec<(Instant, u64)>,
    /// Where its sender put it on its stream, if that was reported.
    pub placed: Option<Range<u64>>,
    /// Its end, when it was delivered.
    pub delivered: Option<Delivered>,
    /// Its end, when it was not.
    pub failed: Option<(Instant, FetchError)>,
}

/// All milestones of one connection, as its client saw them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ConnectionRecord {
    /// When it was begun.
    pub opened: Instant,
    /// When its handshake was done.
    pub established: Option<Instant>,
    /// When and how it ended.
    pub closed: Option<(Instant, CloseReason)>,
}

/// What the server did for one exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ServedRecord {
    /// When it started on the request.
    pub serving: Option<Instant>,
    /// When it gave the first response byte to the transport, which may have had no room for it yet.
    pub written: Option<Instant>,
}

/// Everything that was observed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Record {
    /// By object of the page; as long as the highest object seen.
    pub objects: Vec<ObjectRecord>,
    /// By connection.
    pub connections: BTreeMap<u64, ConnectionRecord>,
    /// By exchange.
    pub served: BTreeMap<ExchangeId, ServedRecord>,
    /// Where frames of HTTP/2 lie that clients have sent.
    pub requests: Placement,
    /// And servers.
    pub answers: Placement,
}

/// An observer that keeps it all. A clone records into the same place, so one
/// goes to the client and one to the server.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    record: Rc<RefCell<Record>>,
}

impl Recorder {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes what was recorded so far.
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
