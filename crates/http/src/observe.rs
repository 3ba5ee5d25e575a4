//! Records the events of each object, connection and exchange, with their times.
//!
//! Client and server report events to a [`Recorder`] when they happen. These events are called milestones. Together
//! with the traces of the engines (`base::trace`), they give the eleven instants that divide a response time into
//! parts:
//!
//! | instant | from |
//! |---|---|
//! | `issued`, `assigned`, `delivered` | the client's milestones of the object |
//! | `req_sent`, `req_copy`, `req_in` | traces, looked up by [`Assigned::request`] on the stream towards the server |
//! | `serving`, `written` | the server's milestones of the exchange |
//! | `sent`, `copy`, `complete` | traces, looked up by [`Delivered::response`] on the stream towards the client |
//!
//! An [`ExchangeId`] identifies the exchange that fetched an object of a page. It consists of the connection, the
//! stream and the number of the exchange on that stream. Client and server obtain the same number, because HTTP
//! responses have the order of the requests. Byte ranges count from 0 at the first byte of one direction of a stream,
//! like `bytes` in [`TraceEvent::Sent`].
//!
//! Each HTTP/2 exchange has its own HTTP/2 stream, and its byte ranges count the bytes of that stream's frames.
//! [`Record::requests`] and [`Record::answers`] map these ranges to positions on the transport's stream.
//!
//! [`TraceEvent::Sent`]: anabranch_base::trace::TraceEvent::Sent

use anabranch_base::time::Instant;
use anabranch_transport::{CloseReason, RecordMap, RecordPosition};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

/// Identifies an exchange. The client and the server use the same identifier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ExchangeId {
    /// The identifier of the transport session: the client's port.
    pub connection: u64,
    /// The number of the stream; 0 for TCP.
    pub stream: u64,
    /// The number of earlier exchanges on the stream.
    pub index: u32,
}

/// The milestone "assigned": an object was assigned to a stream. The request for the object is written at the time of
/// the assignment.
///
/// If data may be sent with the handshake (`Session::early_data`), an object can be assigned before the connection is
/// usable. An analysis that divides the response time into parts must therefore start at the later of two times. These
/// are the time of the assignment and the time of the connection's event `Established` in the trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assigned {
    /// The time at which the object was assigned.
    pub at: Instant,
    /// The exchange to which the object was assigned.
    pub exchange: ExchangeId,
    /// The byte range of the request in the data that the client sends on the stream.
    pub request: Range<u64>,
    /// The number of times that the object was assigned to an exchange before. It is greater than 0 after a reconnect.
    pub attempt: u32,
}

/// The milestone "delivered": an object was delivered to the application, complete and verified.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivered {
    /// When the last byte of the response was read.
    pub at: Instant,
    /// The byte range of the response (head and body) on the stream towards the client.
    pub response: Range<u64>,
    /// The number of bytes in the body.
    pub body: u64,
}

/// The reason why an object was not delivered.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FetchError {
    /// No byte of the object was transferred for the time `--timeout`.
    #[error("no progress within the timeout")]
    Timeout,
    /// The object that causes the request of this object failed.
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
    /// The body differs from the body that the server sent: bytes were lost, changed or misplaced.
    #[error("the body is not intact: {0}")]
    Corrupt(String),
    /// The sender of the object abandoned it (partial reliability).
    #[error("given up by its sender")]
    GivenUp,
    /// The deadline expired before the object was delivered.
    #[error("not finished by the deadline")]
    Deadline,
}

/// All milestones of one object.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ObjectRecord {
    /// When the client decided to request the object. After this, the request may wait for a connection or a stream.
    pub issued: Option<Instant>,
    /// The last assignment of the object to an exchange. A new assignment replaces the previous record.
    pub assigned: Option<Assigned>,
    /// When the first byte of the response was read.
    pub first_byte: Option<Instant>,
    /// The reads of body bytes since the object was last assigned to an exchange: time and number of bytes. Reads
    /// within one millisecond are combined and have the time of the first read.
    pub read: Vec<(Instant, u64)>,
    /// The sum over the body bytes in `read` of the times at which they were read, in nanoseconds and not combined.
    pub read_times: u128,
    /// The byte range of the response in the data that the server sends on the stream, if the server reported it.
    pub placed: Option<Range<u64>>,
    /// The delivery of the object, if it was delivered.
    pub delivered: Option<Delivered>,
    /// The time and the reason of the object's failure, if it failed.
    pub failed: Option<(Instant, FetchError)>,
}

/// All milestones of one connection, as its client recorded them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ConnectionRecord {
    /// When the connection was started.
    pub opened: Instant,
    /// When the handshake of the connection was complete.
    pub established: Option<Instant>,
    /// When and why the connection ended.
    pub closed: Option<(Instant, CloseReason)>,
}

/// The server's milestones of one exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ServedRecord {
    /// When the server began to process the request.
    pub serving: Option<Instant>,
    /// When the server had the first byte of the response ready for the transport, whether or not the transport had
    /// room for it.
    pub written: Option<Instant>,
}

/// All recorded milestones.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Record {
    /// When the browser could render the document for the first time; `None` if it never could, or if no browser loaded
    /// the page.
    pub start_render: Option<Instant>,
    /// The records of the objects, by index in the page, up to the highest index recorded.
    pub objects: Vec<ObjectRecord>,
    /// The records of the connections, by identifier of the session.
    pub connections: BTreeMap<u64, ConnectionRecord>,
    /// The server's records of the exchanges.
    pub served: BTreeMap<ExchangeId, ServedRecord>,
    /// The positions of the clients' HTTP/2 frames in the streams of the transport.
    pub requests: RecordMap,
    /// The positions of the servers' HTTP/2 frames in the streams of the transport.
    pub answers: RecordMap,
}

/// Records the milestones of clients and servers. Clones share one record, so the client and the server each get a
/// clone. The default recorder records nothing. In its methods, `object` is an index into the page.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    record: Option<Rc<RefCell<Record>>>,
}

impl Recorder {
    /// Returns a recorder with an empty record.
    #[must_use]
    pub fn new() -> Self {
        Self { record: Some(Rc::default()) }
    }

    /// Returns the milestones recorded so far, and clears the record.
    #[must_use]
    pub fn take(&self) -> Record {
        self.record.as_ref().map(|record| record.take()).unwrap_or_default()
    }

    fn change(&self, change: impl FnOnce(&mut Record)) {
        if let Some(record) = &self.record {
            change(&mut record.borrow_mut());
        }
    }

    fn object(&self, object: usize, change: impl FnOnce(&mut ObjectRecord)) {
        self.change(|record| {
            if record.objects.len() <= object {
                record.objects.resize_with(object + 1, ObjectRecord::default);
            }
            change(&mut record.objects[object]);
        });
    }

    fn connection(&self, connection: u64, change: impl FnOnce(&mut ConnectionRecord)) {
        self.change(|record| change(record.connections.entry(connection).or_default()));
    }

    fn served(&self, exchange: ExchangeId, change: impl FnOnce(&mut ServedRecord)) {
        self.change(|record| change(record.served.entry(exchange).or_default()));
    }

    /// The client started a session. The first packet of the session is sent now.
    pub fn opened(&self, connection: u64, at: Instant) {
        self.connection(connection, |c| c.opened = at);
    }

    /// The client learned that the session's handshake is complete.
    pub fn established(&self, connection: u64, at: Instant) {
        self.connection(connection, |c| c.established = Some(at));
    }

    /// The client learned that the session has ended.
    pub fn closed(&self, connection: u64, at: Instant, reason: &CloseReason) {
        self.connection(connection, |c| c.closed = Some((at, reason.clone())));
    }

    /// The object can be requested now: its initiator was delivered, and its think time has passed.
    pub fn issued(&self, object: usize, at: Instant) {
        self.object(object, |o| o.issued = Some(at));
    }

    /// The object was assigned to a connection and a stream. Called again after a reconnect.
    pub fn assigned(&self, object: usize, assigned: Assigned) {
        self.object(object, |o| {
            o.assigned = Some(assigned);
            o.first_byte = None;
            o.read.clear();
            o.read_times = 0;
        });
    }

    /// The first byte of the response to the object's request was read.
    pub fn first_byte(&self, object: usize, at: Instant) {
        self.object(object, |o| o.first_byte = Some(at));
    }

    /// `bytes` more bytes of the object's body were read.
    pub fn read(&self, object: usize, at: Instant, bytes: u64) {
        let millisecond = |at: Instant| at.as_nanos() / 1_000_000;
        self.object(object, |o| {
            o.read_times += u128::from(bytes) * u128::from(at.as_nanos());
            match o.read.last_mut() {
                Some((first, sum)) if millisecond(*first) == millisecond(at) => *sum += bytes,
                _ => o.read.push((at, bytes)),
            }
        });
    }

    /// The browser can render the document from `at` on. Only the first call counts.
    pub fn rendered(&self, at: Instant) {
        self.change(|record| {
            record.start_render.get_or_insert(at);
        });
    }

    /// The whole response was read, and the object was delivered.
    pub fn delivered(&self, object: usize, delivered: Delivered) {
        self.object(object, |o| o.delivered = Some(delivered));
    }

    /// The object failed and will not be delivered.
    pub fn failed(&self, object: usize, at: Instant, error: &FetchError) {
        self.object(object, |o| o.failed = Some((at, error.clone())));
    }

    /// The server has read a request and begins to process it. The service time begins here.
    pub fn serving(&self, exchange: ExchangeId, at: Instant) {
        self.served(exchange, |s| s.serving = Some(at));
    }

    /// Records the time `at` when the server had the first byte of the response ready. At that time, the transport may
    /// have had no room for this byte.
    pub fn written(&self, exchange: ExchangeId, at: Instant) {
        self.served(exchange, |s| s.written = Some(at));
    }

    /// The client wrote a frame of the HTTP/2 stream `stream` to the transport's stream.
    pub fn requested(&self, connection: u64, stream: u64, frame: RecordPosition) {
        self.change(|record| record.requests.add(connection, stream, frame));
    }

    /// The server wrote a frame of the HTTP/2 stream `stream` to the transport's stream.
    pub fn answered(&self, connection: u64, stream: u64, frame: RecordPosition) {
        self.change(|record| record.answers.add(connection, stream, frame));
    }

    /// Records the byte range of the object in the data that the server sends on the stream. The client may count a
    /// different range, because it never gets bytes that the server has abandoned.
    pub fn placed(&self, object: usize, bytes: Range<u64>) {
        self.object(object, |o| o.placed = Some(bytes));
    }
}
