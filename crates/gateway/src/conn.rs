//! The streams of the gateway. A [`Conn`] can be read and written at the same time, and keeps bytes that were read
//! ahead. A [`Pump`] forwards a body from one stream to another.
//!
//! A pump reads again only after it has written all bytes of the previous read. If the receiver of a body is slow, the
//! pump holds no more than these bytes, and the sender has to wait.

use super::head::{Refusal, check_response_prefix, end_of_head, too_large, write_trailers};
use anabranch_base::time::{Duration, Instant};
use anabranch_http::framing::{Broken, Decoder, Framing, LAST_CHUNK, write_chunk};
use anabranch_http::limits::{HeldBytes, SessionMemory, SlotHandle};
use anabranch_http::upstream::{Lease, SharedWindow};
use anabranch_transport::{CloseReason, Stream};
use anabranch_world::World;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// A stream of the gateway, with the bytes that have been read but not used yet.
#[derive(Debug)]
pub(super) struct Conn<T> {
    stream: RefCell<T>,
    read_ahead: RefCell<ReadAhead>,
    /// The counter of the client's session, to which the bytes of this stream are added; `None` if they are not
    /// counted.
    meter: Option<SlotHandle>,
    /// The session's share of the memory budget, in which the bytes read ahead are counted.
    memory: Rc<SessionMemory>,
}

#[derive(Debug)]
struct ReadAhead {
    bytes: Vec<u8>,
    at: usize,
    /// The part of the memory budget that the bytes read ahead occupy. The first [`HEAD_BYTES`] bytes do not count.
    hold: HeldBytes,
}

impl ReadAhead {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    fn consume(&mut self, count: usize) {
        self.at += count;
        if self.at == self.bytes.len() {
            // Release the buffer, because an idle connection must not hold memory.
            (self.bytes, self.at) = (Vec::new(), 0);
            self.count();
        }
    }

    /// Returns whether the memory budget allows reading more bytes ahead. If so, also counts the bytes that were read
    /// ahead so far.
    fn admits_more(&mut self) -> bool {
        let beyond = self.bytes.len().saturating_sub(HEAD_BYTES);
        let admits = self.hold.fits(beyond);
        if admits {
            self.count();
        }
        admits
    }

    fn count(&mut self) {
        self.hold.set(self.bytes.len().saturating_sub(HEAD_BYTES));
    }
}

/// The read buffer that all pumps of a gateway share.
pub(super) type Scratch = Rc<RefCell<Vec<u8>>>;

/// Creates the read buffer that all pumps of a gateway share.
pub(super) fn scratch() -> Scratch {
    Rc::new(RefCell::new(vec![0; READ_BYTES]))
}

/// The time at which an exchange last made progress.
#[derive(Debug)]
pub(super) struct ProgressClock<W> {
    world: W,
    at: Cell<Instant>,
}

impl<W: World> ProgressClock<W> {
    pub(super) fn new(world: &W) -> Self {
        Self { world: world.clone(), at: Cell::new(world.now()) }
    }

    pub(super) fn record_progress(&self) {
        self.at.set(self.world.now());
    }

    /// Returns the time at which the exchange last made progress.
    pub(super) fn last_progress(&self) -> Instant {
        self.at.get()
    }

    /// Returns the time that has passed since the exchange last made progress.
    pub(super) fn idle_time(&self) -> Duration {
        self.world.now() - self.at.get()
    }
}

/// The reason why no head of a request or response could be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum HeadError {
    /// The stream ended before the first byte of a head.
    Ended,
    /// The stream failed, or ended in the middle of a head.
    Lost(CloseReason),
    /// The bytes do not form a valid head.
    Refused(Refusal),
}

impl<T: Stream> Conn<T> {
    /// Wraps a stream to a client or to an origin. Bytes that are read ahead from the stream count towards `memory`,
    /// the memory of the client's session.
    pub(super) fn new(stream: T, memory: Rc<SessionMemory>) -> Self {
        let read_ahead = ReadAhead { bytes: Vec::new(), at: 0, hold: memory.holding() };
        Self { stream: RefCell::new(stream), read_ahead: RefCell::new(read_ahead), meter: None, memory }
    }

    /// Wraps a client's stream. The stream's bytes are also counted in the slot of the client's session.
    pub(super) fn metered(stream: T, meter: SlotHandle, memory: Rc<SessionMemory>) -> Self {
        Self { meter: Some(meter), ..Self::new(stream, memory) }
    }

    /// Returns whether the memory budget allows `bytes` more bytes.
    pub(super) fn fits(&self, bytes: usize) -> bool {
        self.memory.holding().fits(bytes)
    }

    /// Counts `bytes` bytes in the memory budget until the returned value is dropped.
    pub(super) fn holding(&self, bytes: usize) -> HeldBytes {
        let mut hold = self.memory.holding();
        hold.set(bytes);
        hold
    }

    /// Returns whether the memory budget allows reading more bytes ahead.
    pub(super) fn admits_more(&self) -> bool {
        self.read_ahead.borrow_mut().admits_more()
    }

    fn poll_read(&self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<Result<usize, CloseReason>> {
        let read = ready!(self.stream.borrow_mut().poll_read(cx, into))?;
        self.count(read);
        Poll::Ready(Ok(read))
    }

    fn count(&self, bytes: usize) {
        if let Some(meter) = &self.meter {
            meter.add_bytes(bytes);
        }
    }

    /// Returns the number of bytes written on the stream's session that the peer has not acknowledged.
    pub(super) fn unacknowledged(&self) -> u64 {
        self.stream.borrow().unacknowledged()
    }

    /// Returns the wrapped stream. Bytes that were read ahead and not used are lost.
    pub(super) fn into_stream(self) -> T {
        self.stream.into_inner()
    }

    /// Returns whether all bytes that were read from the stream have been used.
    pub(super) fn is_clean(&self) -> bool {
        self.read_ahead.borrow().rest().is_empty()
    }

    /// Returns the number of bytes that were read ahead and not used.
    pub(super) fn held_bytes(&self) -> usize {
        self.read_ahead.borrow().rest().len()
    }

    /// Reads once from the stream, and keeps the bytes for later use.
    pub(super) fn poll_fill(&self, cx: &mut Context<'_>) -> Poll<Result<usize, CloseReason>> {
        let mut piece = [0; HEAD_BYTES];
        let read = ready!(self.poll_read(cx, &mut piece))?;
        let mut read_ahead = self.read_ahead.borrow_mut();
        if read_ahead.at > 0 {
            let at = std::mem::take(&mut read_ahead.at);
            read_ahead.bytes.drain(..at);
        }
        read_ahead.bytes.extend_from_slice(&piece[..read]);
        Poll::Ready(Ok(read))
    }

    /// Waits for the first byte of a message. Returns false if the stream has ended.
    pub(super) async fn wait_for_data(&self) -> Result<bool, CloseReason> {
        if self.is_clean() {
            return Ok(poll_fn(|cx| self.poll_fill(cx)).await? > 0);
        }
        Ok(true)
    }

    /// Reads the head of the next request, including the empty line at its end. A head of more than `limit` bytes is
    /// refused.
    pub(super) async fn head(&self, limit: usize) -> Result<Vec<u8>, HeadError> {
        self.read_head(limit, |_| Ok(())).await
    }

    /// Reads the head of the next response. Fails as soon as the bytes cannot be the beginning of a response, because a
    /// peer that speaks another protocol may be waiting for data from us.
    pub(super) async fn response_head(&self, limit: usize) -> Result<Vec<u8>, HeadError> {
        self.read_head(limit, check_response_prefix).await
    }

    async fn read_head(
        &self,
        limit: usize,
        check_prefix: impl Fn(&[u8]) -> Result<(), Refusal>,
    ) -> Result<Vec<u8>, HeadError> {
        let mut at = 0;
        loop {
            {
                let mut read_ahead = self.read_ahead.borrow_mut();
                // RFC 9112 §2.2: skip empty lines before a request.
                while at == 0 && read_ahead.rest().starts_with(b"\r\n") {
                    read_ahead.consume(2);
                }
                check_prefix(read_ahead.rest()).map_err(HeadError::Refused)?;
                if let Some(end) = end_of_head(read_ahead.rest(), &mut at).map_err(HeadError::Refused)? {
                    if end > limit {
                        return Err(HeadError::Refused(too_large(&read_ahead.rest()[..end], limit)));
                    }
                    let head = read_ahead.rest()[..end].to_vec();
                    read_ahead.consume(end);
                    return Ok(head);
                }
                if read_ahead.rest().len() > limit {
                    return Err(HeadError::Refused(too_large(read_ahead.rest(), limit)));
                }
                if !read_ahead.admits_more() {
                    return Err(HeadError::Refused(Refusal::new(503, NO_MEMORY)));
                }
            }
            match poll_fn(|cx| self.poll_fill(cx)).await {
                Ok(0) if self.is_clean() => return Err(HeadError::Ended),
                Ok(0) => {
                    return Err(HeadError::Lost(CloseReason::Reset("in the middle of a head".to_owned())));
                }
                Ok(_) => {}
                Err(reason) => return Err(HeadError::Lost(reason)),
            }
        }
    }

    pub(super) fn poll_write(&self, cx: &mut Context<'_>, from: &[u8]) -> Poll<Result<usize, CloseReason>> {
        let written = ready!(self.stream.borrow_mut().poll_write(cx, from))?;
        self.count(written);
        Poll::Ready(Ok(written))
    }

    pub(super) async fn write_all(&self, mut from: &[u8]) -> Result<(), CloseReason> {
        while !from.is_empty() {
            let written = poll_fn(|cx| self.poll_write(cx, from)).await?;
            from = &from[written..];
        }
        Ok(())
    }

    /// Closes the sending direction of the stream.
    pub(super) fn finish(&self) {
        self.stream.borrow_mut().finish();
    }

    /// Reads and discards data until the stream ends, or until `limit` bytes have been read.
    pub(super) async fn discard(&self, limit: usize) {
        let mut left = limit;
        while left > 0 {
            let length = self.read_ahead.borrow().rest().len();
            self.read_ahead.borrow_mut().consume(length);
            match poll_fn(|cx| self.poll_fill(cx)).await {
                Ok(0) | Err(_) => return,
                Ok(read) => left = left.saturating_sub(read),
            }
        }
    }
}

impl<T: Stream> Conn<Lease<T>> {
    /// Returns the receive window that this stream shares with the other streams of its association. `None` if the
    /// stream does not share its window.
    pub(super) fn shared_window(&self) -> Option<Rc<SharedWindow>> {
        self.stream.borrow().shared_window.clone()
    }
}

/// The reason why a pump failed to forward a body: the stream it reads, the stream it writes, or the body's framing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum PumpError {
    /// Reading from the source failed.
    Source(CloseReason),
    /// The framing of the body is invalid, or the body ended too early.
    Framing,
    /// Writing to the sink failed.
    Sink(CloseReason),
}

/// Forwards one body from the stream `source` to the stream `sink`.
#[derive(Debug)]
pub(super) struct Pump<'a, W, S, D> {
    source: &'a Conn<S>,
    sink: &'a Conn<D>,
    progress_clock: &'a ProgressClock<W>,
    scratch: Scratch,
    progress: &'a PumpProgress,
    decoder: Decoder,
    /// Whether the body is written in chunks.
    chunked: bool,
    /// Whether trailers are forwarded.
    trailers: bool,
    /// The bytes that have to be written before the next read.
    out: Vec<u8>,
    at: usize,
    /// The number of bytes in `out` that the memory budget already counts.
    counted: usize,
    ended: bool,
}

/// The progress of a pump, which its exchange watches.
#[derive(Debug, Default)]
pub(super) struct PumpProgress {
    /// Whether the sink accepts no data at the moment.
    pub(super) blocked: Cell<bool>,
    /// The number of bytes of the body that have been read.
    pub(super) transferred: Cell<u64>,
    /// Whether the whole body has been written.
    pub(super) done: Cell<bool>,
}

impl<W, S, D> Drop for Pump<'_, W, S, D> {
    fn drop(&mut self) {
        self.count(0);
    }
}

impl<W, S, D> Pump<'_, W, S, D> {
    /// Counts `bytes` bytes in the memory budget, because the sink does not accept them yet.
    fn count(&mut self, bytes: usize) {
        let before = std::mem::replace(&mut self.counted, bytes);
        if before != bytes {
            self.sink.memory.hold(bytes);
            self.sink.memory.release(before);
        }
    }
}

impl<'a, W: World, S: Stream, D: Stream> Pump<'a, W, S, D> {
    /// Creates a pump that writes `head` first, and then a body. The body is read in the given framing. It is written
    /// in chunks if `chunked` is true.
    pub(super) fn new(
        (source, sink): (&'a Conn<S>, &'a Conn<D>),
        (progress_clock, scratch, progress): (&'a ProgressClock<W>, &Scratch, &'a PumpProgress),
        head: Vec<u8>,
        framing: Framing,
        chunked: bool,
    ) -> Self {
        let (scratch, decoder) = (scratch.clone(), Decoder::new(framing));
        Self {
            source,
            sink,
            progress_clock,
            scratch,
            progress,
            decoder,
            chunked,
            trailers: false,
            out: head,
            at: 0,
            counted: 0,
            ended: false,
        }
    }

    /// Sets whether trailers are forwarded. Trailers require chunked framing of both the source and the sink.
    pub(super) fn with_trailers(mut self, forward_trailers: bool) -> Self {
        self.trailers = forward_trailers;
        if forward_trailers {
            self.decoder.keep_trailers();
        }
        self
    }

    /// Forwards data until the whole body has been written.
    pub(super) async fn run(mut self) -> Result<(), PumpError> {
        poll_fn(|cx| self.poll(cx)).await
    }

    /// Forwards as much as possible now. Returns `Ready` when the whole body has been written, or after an error.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), PumpError>> {
        for _ in 0..TURNS {
            while self.at < self.out.len() {
                let written = self.sink.poll_write(cx, &self.out[self.at..]);
                self.progress.blocked.set(written.is_pending());
                if written.is_pending() {
                    self.count(self.out.len());
                }
                self.at += ready!(written).map_err(PumpError::Sink)?;
                self.progress_clock.record_progress();
            }
            self.out.clear();
            self.at = 0;
            self.count(0);
            if self.ended {
                self.progress.done.set(true);
                return Poll::Ready(Ok(()));
            }
            if self.decoder.is_done() {
                self.ended = true;
                if self.trailers {
                    self.out.extend_from_slice(b"0\r\n");
                    let written = write_trailers(&mut self.out, self.decoder.trailers());
                    written.map_err(|()| PumpError::Framing)?;
                    self.out.extend_from_slice(b"\r\n");
                } else if self.chunked {
                    self.out.extend_from_slice(LAST_CHUNK);
                }
                continue;
            }
            if self.read(cx)?.is_pending() {
                self.out.shrink_to(MAX_KEPT);
                return Poll::Pending;
            }
        }
        // The pump could continue, but it lets other tasks run first.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Removes the next bytes of the body from the front of `input` and returns them; `None` if more input is needed.
    fn step<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<&'i [u8]>, PumpError> {
        let bytes = self.decoder.step(input).map_err(|Broken| PumpError::Framing)?;
        Ok(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }

    /// Appends bytes of the body to `out`, as a chunk if the sink needs chunks. The gateway writes `out` to the sink
    /// before it reads again.
    fn queue_bytes(&mut self, bytes: &[u8]) {
        if self.chunked { write_chunk(&mut self.out, bytes) } else { self.out.extend_from_slice(bytes) }
    }

    fn count_body_bytes(&self, bytes: usize) {
        self.progress.transferred.set(self.progress.transferred.get() + bytes as u64);
    }

    /// Reads once, and writes as much of the data as the sink accepts.
    fn read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), PumpError>> {
        let source = self.source;
        let mut read_ahead = source.read_ahead.borrow_mut();
        let mut input = read_ahead.rest();
        if !input.is_empty() {
            let before = input.len();
            let mut transferred = 0;
            while let Some(bytes) = self.step(&mut input)? {
                transferred += bytes.len();
                self.queue_bytes(bytes);
            }
            let used = before - input.len();
            read_ahead.consume(used);
            self.count_body_bytes(transferred);
            return Poll::Ready(Ok(()));
        }
        let most = self.sink.memory.piece(READ_BYTES);
        let scratch = self.scratch.clone();
        let mut scratch = scratch.borrow_mut();
        let read = ready!(source.poll_read(cx, &mut scratch[..most])).map_err(PumpError::Source)?;
        self.progress_clock.record_progress();
        if read == 0 {
            return Poll::Ready(self.decoder.end().map_err(|Broken| PumpError::Framing));
        }
        let mut input = &scratch[..read];
        while let Some(mut rest) = self.step(&mut input)? {
            self.count_body_bytes(rest.len());
            // The usual case: the sink accepts the data at once, and no copy is made.
            while !self.chunked && self.out.is_empty() && !rest.is_empty() {
                match self.sink.poll_write(cx, rest) {
                    Poll::Ready(Ok(taken)) => rest = &rest[taken..],
                    Poll::Ready(Err(reason)) => return Poll::Ready(Err(PumpError::Sink(reason))),
                    Poll::Pending => break,
                }
            }
            self.queue_bytes(rest);
        }
        // Keep the bytes after the body, because they belong to the next head.
        if !input.is_empty() {
            read_ahead.bytes.extend_from_slice(input);
            read_ahead.count();
        }
        Poll::Ready(Ok(()))
    }
}

/// The maximum number of bytes of a body that one call reads.
const READ_BYTES: usize = 64 * 1024;
/// The reason for refusing a head that does not fit into the memory budget.
pub(super) const NO_MEMORY: &str = "there is no memory for so large a head";
/// The maximum number of bytes of a head that one call reads. The memory budget charges each exchange this number of
/// bytes in advance. Only further bytes of the head are charged when they arrive.
pub(super) const HEAD_BYTES: usize = 4096;
/// The maximum size in bytes of the output buffer that a pump keeps while it waits for data.
const MAX_KEPT: usize = 4096;
/// The number of reads after which a pump lets other tasks run.
const TURNS: usize = 16;
