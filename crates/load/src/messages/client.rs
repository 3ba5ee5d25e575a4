//! The receiving side of a message test. It records when each message has been read completely, and checks the content.

use super::{BULK, BULK_NAME, HEADER, MESSAGE_NAME, Messages, MessagesRequest};
use crate::join::join;
use anabranch_base::time::{Instant, nanos};
use anabranch_http::body::Pattern;
use anabranch_http::fetch::{FetchStatus, Outcome};
use anabranch_http::observe::{Delivered, FetchError, Recorder};
use anabranch_transport::Reliability;
use anabranch_transport::{Connector, Session, Stream};
use anabranch_world::World;
use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;

/// Receives the messages that server number 0 of `connector` sends. Each message is one object of the outcome. A
/// message that the sender abandoned is a failed object.
pub async fn run<W, C>(world: W, connector: C, messages: Messages, recorder: Recorder) -> Outcome
where
    W: World,
    C: Connector,
{
    let started = world.now();
    let inbox = Rc::new(RefCell::new(Inbox::new(&messages, recorder)));
    let requests = connection_requests(&messages);
    let connections = requests.len();
    let mut tasks = Vec::new();
    for request in requests {
        let task = receive(world.clone(), connector.clone(), request, inbox.clone());
        tasks.push(world.spawn("message connection", task));
    }
    let results = join(&world, messages.deadline, tasks).await;
    let in_time = results.iter().all(Option::is_some);
    let broken = results.into_iter().find_map(|result| result?.err());
    let mut inbox = inbox.borrow_mut();
    inbox.conclude(&messages, world.now(), in_time, broken, (started, connections))
}

/// Returns the requests for all connections.
fn connection_requests(messages: &Messages) -> Vec<MessagesRequest> {
    let connections = messages.connections.max(1);
    let separate_bulk = messages.bulk > 0 && connections > 1;
    let step = if separate_bulk { connections - 1 } else { connections };
    let request = MessagesRequest {
        interval_ns: nanos(messages.interval),
        size: messages.size as u32,
        count: messages.count,
        first: 0,
        step: step as u32,
        bulk: 0,
        bulk_write: messages.bulk_write.clamp(1, crate::bulk::MAX_MESSAGE) as u32,
    };
    let bulk = messages.bulk;
    (0..connections)
        .map(|i| match (separate_bulk, i) {
            // Message numbers are less than `count`. A request that begins at number `count` asks for no messages, only
            // for the bulk transfer.
            (true, 0) => MessagesRequest { bulk, first: messages.count, ..request },
            (true, _) => MessagesRequest { first: i as u32 - 1, ..request },
            (false, _) => MessagesRequest { first: i as u32, bulk: if i == 0 { bulk } else { 0 }, ..request },
        })
        .collect()
}

async fn receive<W, C>(
    world: W,
    connector: C,
    request: MessagesRequest,
    inbox: Rc<RefCell<Inbox>>,
) -> Result<(), FetchError>
where
    W: World,
    C: Connector,
{
    let session = connector.connect(0).map_err(|error| FetchError::Connect(error.to_string()))?;
    let id = session.id();
    inbox.borrow().recorder.opened(id, world.now());
    let mut abort_guard = Aborts(Some(session.clone()));
    if !session.early_data() {
        session.established().await.map_err(FetchError::Closed)?;
    }
    let mut stream = session.open(0).map_err(|error| FetchError::Connect(error.to_string()))?;
    stream.write_message(&request.encode()).await.map_err(FetchError::Closed)?;
    session.established().await.map_err(FetchError::Closed)?;
    inbox.borrow().recorder.established(id, world.now());
    let mut readers = Vec::new();
    let read = |stream| {
        let task = read_stream(world.clone(), session.clone(), stream, inbox.clone());
        Box::pin(world.spawn("message stream", task))
    };
    readers.push(read(stream));
    // `accept` fails when the session ends. If the transport has only one stream, the loop just waits for that end.
    let end = loop {
        match session.accept().await {
            Ok(stream) => readers.push(read(stream)),
            Err(reason) => break reason,
        }
    };
    for reader in readers {
        reader.await?;
    }
    if end.is_graceful() {
        // All messages have arrived, so the session need not be aborted.
        abort_guard.0 = None;
        return Ok(());
    }
    Err(FetchError::Closed(end))
}

/// Aborts a session when this value is dropped, for example at the deadline. After a graceful end, the session is first
/// taken out of this value, so that it is not aborted.
struct Aborts<N: Session>(Option<N>);

impl<N: Session> Drop for Aborts<N> {
    fn drop(&mut self) {
        if let Some(session) = &self.0 {
            session.abort();
        }
    }
}

/// Reads the messages on a stream until the session ends.
async fn read_stream<W: World, N: Session>(
    world: W,
    session: N,
    mut stream: N::Stream,
    inbox: Rc<RefCell<Inbox>>,
) -> Result<(), FetchError> {
    let mut buffer = vec![0; 64 * 1024];
    let mut frame = Partial::default();
    let in_parts = inbox.borrow().may_abandon_partially;
    loop {
        let read = match in_parts {
            true => poll_fn(|cx| stream.poll_read_message(cx, &mut buffer)).await,
            false => stream.read(&mut buffer).await.map(|read| (read, false)),
        };
        let (read, ends) = match read {
            Ok((0, false)) => {
                // The server has closed its direction of the session, so close this end's direction.
                session.close();
                return Ok(());
            }
            Ok(read) => read,
            // Ignore the error, because the session itself reports the reason of its end.
            Err(_) => return Ok(()),
        };
        let mut rest = &buffer[..read];
        while !rest.is_empty() {
            rest = frame.take(rest, world.now(), &mut inbox.borrow_mut())?;
        }
        if ends {
            // The sender has abandoned this message, so the part that has been read is discarded.
            frame.read = 0;
        }
    }
}

/// The maximum size in bytes of a message that every profile of every transport delivers whole, and never in parts.
const HANDED_OVER_WHOLE: usize = 60_000;

/// A message that has been read in part.
#[derive(Default)]
struct Partial {
    head: [u8; HEADER],
    read: usize,
}

impl Partial {
    /// Consumes the bytes of `bytes` that belong to the current message, and returns the remaining bytes.
    fn take<'a>(&mut self, bytes: &'a [u8], now: Instant, inbox: &mut Inbox) -> Result<&'a [u8], FetchError> {
        if self.read < HEADER {
            let some = bytes.len().min(HEADER - self.read);
            self.head[self.read..self.read + some].copy_from_slice(&bytes[..some]);
            self.read += some;
            let rest = &bytes[some..];
            if self.read == HEADER {
                inbox.began(self.number(), now);
                if self.length() == HEADER {
                    self.read = 0;
                    inbox.complete(self.number(), HEADER, now)?;
                }
            }
            return Ok(rest);
        }
        let (number, length) = (self.number(), self.length());
        let some = bytes.len().min(length.saturating_sub(self.read));
        if some == 0 {
            return Err(FetchError::Corrupt(format!("a message of {length} bytes")));
        }
        inbox.check(number, (self.read - HEADER) as u64, &bytes[..some], now)?;
        self.read += some;
        if self.read == length {
            self.read = 0;
            inbox.complete(number, length, now)?;
        }
        Ok(&bytes[some..])
    }

    fn number(&self) -> u32 {
        u32::from_be_bytes([self.head[0], self.head[1], self.head[2], self.head[3]])
    }

    fn length(&self) -> usize {
        u32::from_be_bytes([self.head[4], self.head[5], self.head[6], self.head[7]]) as usize
    }
}

/// The record of the messages that all connections together have received.
struct Inbox {
    recorder: Recorder,
    /// True if the sender can abandon a message of which the receiver has already read a part. The receiver must then
    /// detect the end of such a message. False for small messages, because every transport profile delivers these as a
    /// whole.
    may_abandon_partially: bool,
    size: usize,
    /// The time at which each message was read completely, by message number. The bulk transfer is the last entry.
    delivered: Vec<Option<Instant>>,
    bulk: u64,
    bulk_got: u64,
    body_bytes: u64,
}

impl Inbox {
    fn new(messages: &Messages, recorder: Recorder) -> Self {
        let objects = messages.count as usize + usize::from(messages.bulk > 0);
        let partial = messages.delivery.reliability != Reliability::Full;
        Self {
            recorder,
            may_abandon_partially: partial && messages.size > HANDED_OVER_WHOLE,
            size: messages.size,
            delivered: vec![None; objects],
            bulk: messages.bulk,
            bulk_got: 0,
            body_bytes: 0,
        }
    }

    fn messages(&self) -> usize {
        self.delivered.len() - usize::from(self.bulk > 0)
    }

    /// Records that the header of a message has been read, if `number` is a valid message number.
    fn began(&self, number: u32, now: Instant) {
        if (number as usize) < self.messages() {
            self.recorder.read(number as usize, now, HEADER as u64);
        }
    }

    fn check(&mut self, number: u32, offset: u64, bytes: &[u8], now: Instant) -> Result<(), FetchError> {
        let object = if number == BULK { self.messages() } else { number as usize };
        if object < self.delivered.len() {
            self.recorder.read(object, now, bytes.len() as u64);
        }
        let checked = if number == BULK {
            if self.bulk_got == 0 && offset == 0 {
                self.recorder.first_byte(self.messages(), now);
            }
            Pattern::of(BULK_NAME).check(self.bulk_got + offset, bytes)
        } else {
            Pattern::of(MESSAGE_NAME).check(u64::from(number) + offset, bytes)
        };
        checked.map_err(|at| FetchError::Corrupt(format!("message {number}: byte {at} is wrong")))
    }

    fn complete(&mut self, number: u32, length: usize, now: Instant) -> Result<(), FetchError> {
        self.body_bytes += length as u64;
        if number == BULK {
            self.bulk_got += (length - HEADER) as u64;
            if self.bulk_got == self.bulk && self.bulk > 0 {
                let object = self.messages();
                self.delivered[object] = Some(now);
                self.recorder.delivered(object, Delivered { at: now, response: 0..0, body: self.bulk });
            }
            return Ok(());
        }
        let (object, whole) = (number as usize, length == self.size);
        let known = object < self.messages();
        match self.delivered.get_mut(object).filter(|_| known && whole) {
            Some(slot @ None) => *slot = Some(now),
            Some(Some(_)) => return Err(FetchError::Corrupt(format!("message {number} came twice"))),
            None => return Err(FetchError::Corrupt(format!("message {number} of {length} bytes"))),
        }
        self.recorder.first_byte(object, now);
        self.recorder.delivered(object, Delivered { at: now, response: 0..0, body: length as u64 });
        Ok(())
    }

    fn conclude(
        &mut self,
        messages: &Messages,
        now: Instant,
        in_time: bool,
        broken: Option<FetchError>,
        (started, connections): (Instant, usize),
    ) -> Outcome {
        let last = self.delivered.iter().flatten().copied().max();
        let partial = messages.delivery.reliability != Reliability::Full;
        // If a connection breaks, its outstanding messages count as failed. The run has not failed if no message was
        // outstanding.
        let mut failed = matches!(broken, Some(FetchError::Corrupt(_)));
        let mut objects = Vec::with_capacity(self.delivered.len());
        for (object, delivered) in self.delivered.iter().enumerate() {
            let error = match delivered {
                Some(_) => None,
                None if !in_time => Some(FetchError::Deadline),
                None => Some(broken.clone().unwrap_or(FetchError::GivenUp)),
            };
            if let Some(error) = &error {
                self.recorder.failed(object, now, error);
                failed |= !(partial && *error == FetchError::GivenUp);
            }
            objects.push(error.map_or(Ok(()), Err));
        }
        let end = match (in_time, failed) {
            (false, _) => FetchStatus::Deadline,
            (true, true) => FetchStatus::Failed,
            (true, false) => FetchStatus::Done,
        };
        let finished = if end == FetchStatus::Done { last.unwrap_or(now) } else { now };
        Outcome { end, started, finished, objects, body_bytes: self.body_bytes, connections }
    }
}
