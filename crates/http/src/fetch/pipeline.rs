//! A pipeline on one stream of a connection: sends requests, and receives the responses in the same order.
//!
//! The pipeline's task reads and writes the stream. The task shares the [`Pipeline`] with the fetch, which adds
//! requests.

use super::{Fetch, SharedFetch};
use crate::body::Pattern;
use crate::observe::{Delivered, FetchError};
use crate::response::{Head, ResponseParser, Step};
use anabranch_base::time::Instant;
use anabranch_transport::{Connector, Session, Stream};
use anabranch_world::World;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

/// The state that the fetch and the pipeline's task share.
#[derive(Debug)]
pub(super) struct Pipeline {
    /// Encoded requests. The bytes from `written` on have not been passed to the transport yet.
    out: Vec<u8>,
    written: usize,
    /// The total size in bytes of all requests added.
    pub(super) request_bytes: u64,
    /// The total number of exchanges added.
    pub(super) exchanges: u32,
    /// Exchanges that wait for their responses, in the order of their requests.
    pub(super) in_flight: VecDeque<Exchange>,
    /// When data was last read from the stream.
    pub(super) last_read: Instant,
    /// When the exchanges in flight were cancelled; `None` if no cancellation is pending.
    pub(super) cancelled: Option<Instant>,
    /// True if the server did not allow this stream in the handshake. Requests on this stream are never answered.
    void: bool,
    waker: Option<Waker>,
}

/// One exchange: a request and its response.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) object: usize,
    /// Whether the client gave up the object. The response is still read, so that the next response is found.
    pub(super) abandoned: bool,
    pub(super) pattern: Option<Pattern>,
    pub(super) expected: u64,
}

impl Exchange {
    /// Returns the expected length of the body in bytes; `None` if the client does not know the expected content.
    pub(super) fn length(&self) -> Option<u64> {
        self.pattern.map(|_| self.expected)
    }

    /// Checks the piece of the body that begins at byte `at`.
    pub(super) fn check(&self, at: u64, bytes: &[u8]) -> Result<(), FetchError> {
        let checked = self.pattern.map_or(Ok(()), |pattern| pattern.check(at, bytes));
        checked.map_err(|at| FetchError::Corrupt(format!("byte {at} is wrong")))
    }
}

/// Checks the status of a response.
pub(super) fn check_status(status: u16) -> Result<(), FetchError> {
    if status == 200 { Ok(()) } else { Err(FetchError::BadResponse(format!("status {status}"))) }
}

/// Checks that a body of `body` bytes has the length `expected`, unless `expected` is `None`.
pub(super) fn check_length(body: u64, expected: Option<u64>) -> Result<(), FetchError> {
    match expected.filter(|expected| *expected != body) {
        Some(expected) => Err(FetchError::Corrupt(format!("{body} bytes instead of {expected}"))),
        None => Ok(()),
    }
}

impl Pipeline {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            out: Vec::new(),
            written: 0,
            request_bytes: 0,
            exchanges: 0,
            in_flight: VecDeque::new(),
            last_read: now,
            cancelled: None,
            void: false,
            waker: None,
        }
    }

    /// Returns a pipeline for a single exchange, which has its own stream.
    pub(super) fn of(now: Instant, exchange: Exchange) -> Self {
        Self { in_flight: VecDeque::from([exchange]), ..Self::new(now) }
    }

    /// Registers the task that is woken when the exchange is cancelled.
    pub(super) fn watch(&mut self, cx: &Context<'_>) {
        self.waker = Some(cx.waker().clone());
    }

    /// Marks the stream as one that the server did not allow in the handshake, and wakes the task.
    pub(super) fn annul(&mut self) {
        self.void = true;
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Requests a reset of the stream. Called when all exchanges in flight have been given up.
    pub(super) fn cancel(&mut self, now: Instant) {
        self.cancelled.get_or_insert(now);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Queues the request of `exchange`. `write` appends the encoded request to the buffer that it receives.
    pub(super) fn push(&mut self, exchange: Exchange, write: impl FnOnce(&mut Vec<u8>) -> usize) {
        self.request_bytes += write(&mut self.out) as u64;
        self.exchanges += 1;
        self.in_flight.push_back(exchange);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// How a pipeline's stream ended.
pub(super) enum PipelineEnd {
    /// The caller has nothing to do, for one of three reasons. The session has ended, which the session's own task
    /// reports. The server did not allow the stream in the handshake. The stream's only exchange is complete.
    Closed,
    /// The server has finished its direction of the stream.
    Finished,
    /// The received data is invalid.
    Bad(String),
}

/// Runs the pipeline on `stream` until the stream ends.
pub(super) async fn run<W: World, C: Connector>(
    shared: Weak<RefCell<Fetch<W, C>>>,
    connection: usize,
    pipeline: Rc<RefCell<Pipeline>>,
    stream: <C::Session as Session>::Stream,
    // Whether each exchange has a fresh stream, so that this stream carries a single exchange.
    fresh: bool,
) {
    let number = stream.number();
    let mut reader = Reader::<W, C> {
        shared: shared.clone(),
        connection,
        pipeline,
        stream,
        send_open: true,
        fresh,
        parser: ResponseParser::new(),
        taken: 0,
        current: None,
        resetting: None,
        buffer: vec![0; READ_BYTES],
    };
    let end = poll_fn(|cx| reader.poll(cx)).await;
    if let Some(fetch) = shared.upgrade() {
        fetch.borrow_mut().pipeline_ended(connection, number, end);
    }
}

/// A response while it is being read.
struct Current {
    start: u64,
    head: Option<Head>,
    body: u64,
    /// `Ok` while the response is as expected; otherwise the first error.
    intact: Result<(), FetchError>,
}

struct Reader<W: World, C: Connector> {
    shared: Weak<RefCell<Fetch<W, C>>>,
    connection: usize,
    pipeline: Rc<RefCell<Pipeline>>,
    stream: <C::Session as Session>::Stream,
    /// Whether each exchange has a fresh stream, so that this stream carries a single exchange. If so, the sending
    /// direction is finished after the request.
    fresh: bool,
    /// Whether the sending direction is still open.
    send_open: bool,
    parser: ResponseParser,
    /// The number of bytes of the stream parsed so far.
    taken: u64,
    current: Option<Current>,
    resetting: Option<PendingReset>,
    buffer: Vec<u8>,
}

/// The state of a stream reset in progress: what has happened since the client requested the reset.
#[derive(Default)]
struct PendingReset {
    /// Exchanges that were completed although the reset was requested.
    completed: Vec<Exchange>,
    /// The first error found in data that arrived after this client had requested the stream reset; `None` if there is
    /// none. The data may have gaps, because the reset makes the server drop unsent data. All data after the error is
    /// discarded.
    garbled: Option<String>,
}

impl<W: World, C: Connector> Reader<W, C> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<PipelineEnd> {
        loop {
            if self.pipeline.borrow().void {
                return Poll::Ready(PipelineEnd::Closed);
            }
            if let Err(why) = self.reset(cx) {
                return Poll::Ready(PipelineEnd::Bad(why));
            }
            if self.write(cx).is_err() {
                return Poll::Ready(PipelineEnd::Closed);
            }
            match self.stream.poll_read(cx, &mut self.buffer) {
                Poll::Pending => {
                    self.pipeline.borrow_mut().waker = Some(cx.waker().clone());
                    return Poll::Pending;
                }
                Poll::Ready(Err(_)) => return Poll::Ready(PipelineEnd::Closed),
                Poll::Ready(Ok(0)) if self.fresh && self.pipeline.borrow().in_flight.is_empty() => {
                    return Poll::Ready(PipelineEnd::Closed);
                }
                Poll::Ready(Ok(0)) => return Poll::Ready(PipelineEnd::Finished),
                Poll::Ready(Ok(read)) => {
                    let Some(fetch) = self.shared.upgrade() else { return Poll::Ready(PipelineEnd::Closed) };
                    // The buffer is taken out of `self`, so that `self` can be borrowed while the data is processed.
                    let buffer = std::mem::take(&mut self.buffer);
                    let garbled =
                        self.resetting.as_ref().is_some_and(|resetting| resetting.garbled.is_some());
                    let result = if garbled { Ok(()) } else { self.take_in(&fetch, &buffer[..read]) };
                    self.buffer = buffer;
                    match (result, &mut self.resetting) {
                        (Ok(()), _) => {}
                        (Err(why), Some(resetting)) => resetting.garbled = Some(why),
                        (Err(why), None) => return Poll::Ready(PipelineEnd::Bad(why)),
                    }
                }
            }
        }
    }

    /// Resets the stream if all exchanges in flight on it have been given up.
    fn reset(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        if self.resetting.is_none() {
            let mut pipeline = self.pipeline.borrow_mut();
            if pipeline.cancelled.is_none() {
                return Ok(());
            }
            if !self.stream.reset() {
                // The transport cannot reset the stream, so the responses are read and discarded.
                pipeline.cancelled = None;
                return Ok(());
            }
            pipeline.out.clear();
            pipeline.written = 0;
            (pipeline.request_bytes, pipeline.exchanges) = after_reset(self.stream.bytes_written());
            self.resetting = Some(PendingReset::default());
        }
        let Poll::Ready(done) = self.stream.poll_reset(cx) else { return Ok(()) };
        let Some(PendingReset { mut completed, garbled }) = self.resetting.take() else { return Ok(()) };
        let Some(fetch) = self.shared.upgrade() else { return Ok(()) };
        {
            let mut pipeline = self.pipeline.borrow_mut();
            pipeline.cancelled = None;
            pipeline.last_read = fetch.borrow_mut().record_read();
            if done {
                self.parser = ResponseParser::new();
                self.current = None;
                self.taken = self.stream.bytes_read();
                while pipeline.in_flight.front().is_some_and(|exchange| exchange.abandoned) {
                    completed.extend(pipeline.in_flight.pop_front());
                }
            }
        }
        if let Some(why) = garbled.filter(|_| !done) {
            return Err(why);
        }
        let stream = self.stream.number();
        for exchange in completed {
            fetch.borrow_mut().completed(self.connection, stream, exchange, Err(FetchError::Timeout), false);
        }
        Ok(())
    }

    /// Writes the queued requests until the transport has no more room.
    fn write(&mut self, cx: &mut Context<'_>) -> Result<(), ()> {
        let mut pipeline = self.pipeline.borrow_mut();
        while pipeline.written < pipeline.out.len() {
            match self.stream.poll_write(cx, &pipeline.out[pipeline.written..]) {
                Poll::Ready(Ok(taken)) => pipeline.written += taken,
                Poll::Ready(Err(_)) => return Err(()),
                Poll::Pending => return Ok(()),
            }
        }
        pipeline.out.clear();
        pipeline.written = 0;
        if self.fresh && self.send_open && pipeline.exchanges > 0 {
            self.send_open = false;
            self.stream.finish();
        }
        Ok(())
    }

    fn take_in(&mut self, fetch: &SharedFetch<W, C>, mut input: &[u8]) -> Result<(), String> {
        let now = fetch.borrow_mut().record_read();
        self.pipeline.borrow_mut().last_read = now;
        loop {
            if self.current.is_none() {
                if input.is_empty() {
                    return Ok(());
                }
                let pipeline = self.pipeline.borrow();
                let exchange = pipeline.in_flight.front().ok_or("the server sent bytes without a request")?;
                if !exchange.abandoned {
                    fetch.borrow_mut().first_byte(exchange.object);
                }
                self.current = Some(Current { start: self.taken, head: None, body: 0, intact: Ok(()) });
            }
            let before = input.len();
            let step = self.parser.step(&mut input).map_err(|error| error.to_string())?;
            self.taken += (before - input.len()) as u64;
            let Some(current) = &mut self.current else { return Ok(()) };
            match step {
                Step::More => return Ok(()),
                Step::Head(head) => {
                    current.head = Some(head);
                    current.intact = check_status(head.status);
                }
                Step::Body(bytes) => {
                    let pipeline = self.pipeline.borrow();
                    if let Some(exchange) = pipeline.in_flight.front()
                        && current.intact.is_ok()
                    {
                        current.intact = exchange.check(current.body, bytes);
                        if current.intact.is_ok() && !exchange.abandoned {
                            fetch.borrow_mut().read(exchange.object, bytes.len() as u64);
                        }
                    }
                    current.body += bytes.len() as u64;
                    drop(pipeline);
                    fetch.borrow_mut().discover();
                }
                Step::End => self.complete(fetch, now),
            }
        }
    }

    /// Completes the exchange at the front of the pipeline.
    fn complete(&mut self, fetch: &SharedFetch<W, C>, now: Instant) {
        let exchange = self.pipeline.borrow_mut().in_flight.pop_front();
        let (Some(exchange), Some(current)) = (exchange, self.current.take()) else { return };
        let intact = current.intact.and_then(|()| check_length(current.body, exchange.length()));
        let response = current.start..self.taken;
        let result = intact.map(|()| Delivered { at: now, response, body: current.body });
        let close = current.head.is_some_and(|head| head.close);
        if let Some(resetting) = &mut self.resetting {
            // Report the completed exchange only after the reset, because the report may start a new exchange on this
            // stream.
            return resetting.completed.push(exchange);
        }
        // `self.pipeline` is not borrowed here, because `completed` may add another request to it.
        let stream = self.stream.number();
        fetch.borrow_mut().completed(self.connection, stream, exchange, result, close);
    }
}

/// Returns the position of the first byte and the number of the first exchange after a reset of the stream. `written`
/// is the position before the reset. The server derives the same values from the number of bytes it has read.
fn after_reset(written: u64) -> (u64, u32) {
    let resets = (written >> 32) + 1;
    (resets << 32, first_after(resets))
}

/// Returns the number of the first exchange on a stream after the `resets`th reset of the stream. The upper 16 bits
/// count the resets, so no number from before a reset is used again.
pub(crate) fn first_after(resets: u64) -> u32 {
    (resets as u32) << 16
}

/// The maximum number of bytes read at once.
const READ_BYTES: usize = 16 * 1024;
