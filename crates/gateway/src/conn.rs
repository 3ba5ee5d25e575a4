//! A stream of the gateway ([`Conn`]), which is read and written at the same time and keeps bytes that were read ahead; and
//! the [`Pump`] that forwards a body from one stream to another.
//!
//! A pump reads only when it has written everything that it has read. A slow reader therefore costs the memory of one read,
//! and its sender is slowed down.

use super::head::{Refusal, begins_answer, end_of_head, too_large, write_trailers};
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

/// A stream, and the bytes read from it that have not been used yet.
#[derive(Debug)]
pub(super) struct Conn<T> {
    stream: RefCell<T>,
    held: RefCell<ReadAhead>,
    /// The session's slot, where the stream's bytes are counted.
    meter: Option<SlotHandle>,
    /// The session's share of the memory budget, against which held bytes count.
    memory: Option<Rc<SessionMemory>>,
}

#[derive(Debug, Default)]
struct ReadAhead {
    bytes: Vec<u8>,
    at: usize,
    /// Counts the bytes beyond [`HEAD_BYTES`] against the memory budget.
    hold: Option<HeldBytes>,
}

impl ReadAhead {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    fn used(&mut self, count: usize) {
        self.at += count;
        if self.at == self.bytes.len() {
            // An idle connection must not hold memory.
            (self.bytes, self.at) = (Vec::new(), 0);
            self.count();
        }
    }

    /// Whether the memory budget admits reading more.
    fn admits_more(&mut self) -> bool {
        let beyond = self.bytes.len().saturating_sub(HEAD_BYTES);
        let admits = self.hold.as_ref().is_none_or(|hold| hold.fits(beyond));
        if admits {
            self.count();
        }
        admits
    }

    fn count(&mut self) {
        if let Some(hold) = &mut self.hold {
            hold.set(self.bytes.len().saturating_sub(HEAD_BYTES));
        }
    }
}

/// The buffer that all pumps of a gateway read into.
pub(super) type Scratch = Rc<RefCell<Vec<u8>>>;

/// Creates the buffer that all pumps read into.
pub(super) fn scratch() -> Scratch {
    Rc::new(RefCell::new(vec![0; READ_BYTES]))
}

/// When an exchange last made progress.
#[derive(Debug)]
pub(super) struct Moved<W> {
    world: W,
    at: Cell<Instant>,
}

impl<W: World> Moved<W> {
    pub(super) fn new(world: &W) -> Self {
        Self { world: world.clone(), at: Cell::new(world.now()) }
    }

    pub(super) fn now(&self) {
        self.at.set(self.world.now());
    }

    /// Returns the time of the last progress.
    pub(super) fn last(&self) -> Instant {
        self.at.get()
    }

    /// Returns the time since the last progress.
    pub(super) fn still(&self) -> Duration {
        self.world.now() - self.at.get()
    }
}

/// Why no head was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum NoHead {
    /// The stream ended before a head began.
    Ended,
    /// The stream failed, or ended within a head.
    Lost(CloseReason),
    /// The bytes do not form a valid head.
    Refused(Refusal),
}

impl<T: Stream> Conn<T> {
    /// Wraps a stream to the peer; its held bytes count against the client's session.
    pub(super) fn new(stream: T, memory: Rc<SessionMemory>) -> Self {
        let held = ReadAhead { hold: Some(memory.holding()), ..ReadAhead::default() };
        Self { stream: RefCell::new(stream), held: RefCell::new(held), meter: None, memory: Some(memory) }
    }

    /// Wraps a client's stream; its bytes are also counted in the slot of its session.
    pub(super) fn metered(stream: T, meter: SlotHandle, memory: Rc<SessionMemory>) -> Self {
        Self { meter: Some(meter), ..Self::new(stream, memory) }
    }

    /// Whether the memory budget admits this many more bytes.
    pub(super) fn fits(&self, bytes: usize) -> bool {
        self.memory.as_ref().is_none_or(|memory| memory.holding().fits(bytes))
    }

    /// Counts `bytes` against the memory budget until the result is dropped.
    pub(super) fn holding(&self, bytes: usize) -> Option<HeldBytes> {
        let mut hold = self.memory.as_ref()?.holding();
        hold.set(bytes);
        Some(hold)
    }

    /// Whether the memory budget admits reading more.
    pub(super) fn admits_more(&self) -> bool {
        self.held.borrow_mut().admits_more()
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

    /// Returns the bytes written on its session that the peer has not acknowledged.
    pub(super) fn unacknowledged(&self) -> u64 {
        self.stream.borrow().unacknowledged()
    }

    /// Returns the stream itself. Bytes that were read and not used are lost.
    pub(super) fn into_stream(self) -> T {
        self.stream.into_inner()
    }

    /// Whether all bytes that were read have been used.
    pub(super) fn is_clean(&self) -> bool {
        self.held.borrow().rest().is_empty()
    }

    /// Returns how many bytes were read and not used.
    pub(super) fn held_bytes(&self) -> usize {
        self.held.borrow().rest().len()
    }

    /// Reads once and appends to the held bytes.
    pub(super) fn poll_fill(&self, cx: &mut Context<'_>) -> Poll<Result<usize, CloseReason>> {
        let mut piece = [0; HEAD_BYTES];
        let read = ready!(self.poll_read(cx, &mut piece))?;
        let mut held = self.held.borrow_mut();
        if held.at > 0 {
            let at = std::mem::take(&mut held.at);
            held.bytes.drain(..at);
        }
        held.bytes.extend_from_slice(&piece[..read]);
        Poll::Ready(Ok(read))
    }

    /// Waits for the first byte; returns false at the end of the stream.
    pub(super) async fn begins(&self) -> Result<bool, CloseReason> {
        if self.is_clean() {
            return Ok(poll_fn(|cx| self.poll_fill(cx)).await? > 0);
        }
        Ok(true)
    }

    /// Reads the next head of a request, including its final empty line, of at most `limit` bytes.
    pub(super) async fn head(&self, limit: usize) -> Result<Vec<u8>, NoHead> {
        self.head_that(limit, |_| Ok(())).await
    }

    /// Reads the next head of a response. It fails as soon as the bytes cannot begin a response, because a peer that speaks
    /// another protocol may be waiting for us.
    pub(super) async fn answer_head(&self, limit: usize) -> Result<Vec<u8>, NoHead> {
        self.head_that(limit, begins_answer).await
    }

    async fn head_that(
        &self,
        limit: usize,
        begins: impl Fn(&[u8]) -> Result<(), Refusal>,
    ) -> Result<Vec<u8>, NoHead> {
        let mut at = 0;
        loop {
            {
                let mut held = self.held.borrow_mut();
                // RFC 9112 §2.2: skip empty lines before a request.
                while at == 0 && held.rest().starts_with(b"\r\n") {
                    held.used(2);
                }
                begins(held.rest()).map_err(NoHead::Refused)?;
                if let Some(end) = end_of_head(held.rest(), &mut at).map_err(NoHead::Refused)? {
                    if end > limit {
                        return Err(NoHead::Refused(too_large(&held.rest()[..end], limit)));
                    }
                    let head = held.rest()[..end].to_vec();
                    held.used(end);
                    return Ok(head);
                }
                if held.rest().len() > limit {
                    return Err(NoHead::Refused(too_large(held.rest(), limit)));
                }
                if !held.admits_more() {
                    return Err(NoHead::Refused(Refusal::new(503, NO_MEMORY)));
                }
            }
            match poll_fn(|cx| self.poll_fill(cx)).await {
                Ok(0) if self.is_clean() => return Err(NoHead::Ended),
                Ok(0) => return Err(NoHead::Lost(CloseReason::Reset("in the middle of a head".to_owned()))),
                Ok(_) => {}
                Err(reason) => return Err(NoHead::Lost(reason)),
            }
        }
    }

    pub(super) fn poll_write(&self, cx: &mut Context<'_>, from: &[u8]) -> Poll<Result<usize, CloseReason>> {
        let taken = ready!(self.stream.borrow_mut().poll_write(cx, from))?;
        self.count(taken);
        Poll::Ready(Ok(taken))
    }

    pub(super) async fn write_all(&self, mut from: &[u8]) -> Result<(), CloseReason> {
        while !from.is_empty() {
            let taken = poll_fn(|cx| self.poll_write(cx, from)).await?;
            from = &from[taken..];
        }
        Ok(())
    }

    /// Closes the sending direction.
    pub(super) fn finish(&self) {
        self.stream.borrow_mut().finish();
    }

    /// Reads and discards data, until the stream ends or `limit` bytes have arrived.
    pub(super) async fn discard(&self, limit: usize) {
        let mut left = limit;
        while left > 0 {
            let length = self.held.borrow().rest().len();
            self.held.borrow_mut().used(length);
            match poll_fn(|cx| self.poll_fill(cx)).await {
                Ok(0) | Err(_) => return,
                Ok(read) => left = left.saturating_sub(read),
            }
        }
    }
}

impl<T: Stream> Conn<Lease<T>> {
    /// Returns the receive window that the leased stream shares with others, if it does.
    pub(super) fn shared_window(&self) -> Option<Rc<SharedWindow>> {
        self.stream.borrow().shared_window.clone()
    }
}

/// Which side of a pump failed, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Stopped {
    /// The source failed.
    Source(CloseReason),
    /// The body was not framed as announced, or ended early.
    Framing,
    /// The sink failed.
    Sink(CloseReason),
}

/// Forwards one body from `source` to `sink`.
#[derive(Debug)]
pub(super) struct Pump<'a, W, S, D> {
    source: &'a Conn<S>,
    sink: &'a Conn<D>,
    moved: &'a Moved<W>,
    scratch: Scratch,
    progress: &'a PumpProgress,
    decoder: Decoder,
    /// Whether to write chunks.
    chunked: bool,
    /// Whether to forward trailers.
    trailers: bool,
    /// Bytes to write before the next read.
    out: Vec<u8>,
    at: usize,
    /// Bytes of `out` that are counted against the memory budget.
    counted: usize,
    ended: bool,
}

/// The progress of a pump.
#[derive(Debug, Default)]
pub(super) struct PumpProgress {
    /// Whether the sink accepts no data at present.
    pub(super) blocked: Cell<bool>,
    /// Bytes of the body read so far.
    pub(super) carried: Cell<u64>,
    /// Whether the whole body has been written.
    pub(super) done: Cell<bool>,
}

impl<W, S, D> Drop for Pump<'_, W, S, D> {
    fn drop(&mut self) {
        self.count(0);
    }
}

impl<W, S, D> Pump<'_, W, S, D> {
    /// Counts `bytes`, which the sink does not accept yet, against the memory budget.
    fn count(&mut self, bytes: usize) {
        let before = std::mem::replace(&mut self.counted, bytes);
        if let Some(memory) = self.memory().filter(|_| before != bytes) {
            memory.hold(bytes);
            memory.release(before);
        }
    }

    /// Returns the memory budget of the client's session, on whichever side the client is.
    fn memory(&self) -> Option<&SessionMemory> {
        self.sink.memory.as_deref().or(self.source.memory.as_deref())
    }
}

impl<'a, W: World, S: Stream, D: Stream> Pump<'a, W, S, D> {
    /// Returns a pump that writes `head` and then a body. The body is read in the given framing, and written in chunks if
    /// `chunked`.
    pub(super) fn new(
        (source, sink): (&'a Conn<S>, &'a Conn<D>),
        (moved, scratch, progress): (&'a Moved<W>, &Scratch, &'a PumpProgress),
        head: Vec<u8>,
        framing: Framing,
        chunked: bool,
    ) -> Self {
        let (scratch, decoder) = (scratch.clone(), Decoder::new(framing));
        Self {
            source,
            sink,
            moved,
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

    /// Sets whether trailers are forwarded, which requires chunks on both sides.
    pub(super) fn carrying_trailers(mut self, carried: bool) -> Self {
        self.trailers = carried;
        if carried {
            self.decoder.keep_trailers();
        }
        self
    }

    /// Runs until the whole body has been written.
    pub(super) async fn run(mut self) -> Result<(), Stopped> {
        poll_fn(|cx| self.poll(cx)).await
    }

    /// Ready when the whole body has been written.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Stopped>> {
        for _ in 0..TURNS {
            while self.at < self.out.len() {
                let written = self.sink.poll_write(cx, &self.out[self.at..]);
                self.progress.blocked.set(written.is_pending());
                if written.is_pending() {
                    self.count(self.out.len());
                }
                self.at += ready!(written).map_err(Stopped::Sink)?;
                self.moved.now();
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
                    written.map_err(|()| Stopped::Framing)?;
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
        // Let other tasks run.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Reads once, and writes what the sink accepts.
    fn read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Stopped>> {
        {
            let mut held = self.source.held.borrow_mut();
            let mut input = held.rest();
            if !input.is_empty() {
                let before = input.len();
                let mut carried = 0;
                loop {
                    let bytes = self.decoder.step(&mut input).map_err(|Broken| Stopped::Framing)?;
                    if bytes.is_empty() {
                        break;
                    }
                    carried += bytes.len() as u64;
                    if self.chunked {
                        write_chunk(&mut self.out, bytes)
                    } else {
                        self.out.extend_from_slice(bytes)
                    }
                }
                let used = before - input.len();
                held.used(used);
                self.progress.carried.set(self.progress.carried.get() + carried);
                return Poll::Ready(Ok(()));
            }
        }
        let most = self.memory().map_or(READ_BYTES, |memory| memory.piece(READ_BYTES));
        let scratch = self.scratch.clone();
        let mut scratch = scratch.borrow_mut();
        let read = ready!(self.source.poll_read(cx, &mut scratch[..most])).map_err(Stopped::Source)?;
        self.moved.now();
        if read == 0 {
            return Poll::Ready(self.decoder.end().map_err(|Broken| Stopped::Framing));
        }
        let mut input = &scratch[..read];
        loop {
            let bytes = self.decoder.step(&mut input).map_err(|Broken| Stopped::Framing)?;
            if bytes.is_empty() {
                break;
            }
            self.progress.carried.set(self.progress.carried.get() + bytes.len() as u64);
            if self.chunked {
                write_chunk(&mut self.out, bytes);
                continue;
            }
            let mut rest = bytes;
            // Most data is accepted by the sink at once, and is written without a copy.
            while self.out.is_empty() && !rest.is_empty() {
                match self.sink.poll_write(cx, rest) {
                    Poll::Ready(Ok(taken)) => rest = &rest[taken..],
                    Poll::Ready(Err(reason)) => return Poll::Ready(Err(Stopped::Sink(reason))),
                    Poll::Pending => break,
                }
            }
            self.out.extend_from_slice(rest);
        }
        // Bytes after the body belong to the next head.
        if !input.is_empty() {
            let mut held = self.source.held.borrow_mut();
            held.bytes.extend_from_slice(input);
            held.count();
        }
        Poll::Ready(Ok(()))
    }
}

/// The size of one read of a body.
const READ_BYTES: usize = 64 * 1024;
/// The refusal of a head that does not fit into the memory budget.
pub(super) const NO_MEMORY: &str = "there is no memory for so large a head";
/// The size of one read of a head. This much of a head is included in the cost of an exchange and not counted again.
pub(super) const HEAD_BYTES: usize = 4096;
/// The most bytes of buffer that a pump keeps while it waits for data.
const MAX_KEPT: usize = 4096;
/// Reads of one pump before other tasks run.
const TURNS: usize = 16;
