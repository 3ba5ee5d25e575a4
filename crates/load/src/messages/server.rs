//! The sending side of a message test. It sends each message at its planned time, and pieces of the bulk transfer when
//! the transport has room.

use super::{BULK, BULK_NAME, HEADER, MESSAGE_NAME, MessagesRequest};
use crate::server::{read_request, serve_each};
use anabranch_base::time::{Duration, Instant};
use anabranch_http::body::Pattern;
use anabranch_http::observe::{Assigned, ExchangeId, Recorder};
use anabranch_transport::{CloseReason, Delivery, Listener, OpenError, Session, Stream};
use anabranch_world::{Timer, World};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::{Context, Poll};

/// Serves all sessions that `listener` accepts, until the listener fails.
///
/// # Errors
/// The reason why the listener failed.
pub async fn serve<W, L>(
    world: W,
    listener: L,
    delivery: Delivery,
    recorder: Recorder,
) -> Result<(), CloseReason>
where
    W: World,
    L: Listener,
{
    let serve = |session| send(world.clone(), session, delivery, recorder.clone());
    serve_each(&world, listener, "message session", serve).await
}

async fn send<W: World, N: Session>(
    world: W,
    session: N,
    delivery: Delivery,
    recorder: Recorder,
) -> Result<(), CloseReason> {
    let mut stream = session.accept().await?;
    let Some(request) = read_request(&mut stream).await? else { return Ok(()) };
    let Some(messages_request) = MessagesRequest::decode(&request) else {
        session.abort();
        return Ok(());
    };
    let started_at = world.now();
    let streams = BTreeMap::new();
    let mut timer = world.timer();
    let mut sender = Sender {
        request: messages_request,
        delivery,
        started_at,
        session,
        recorder,
        streams,
        next: 0,
        bulk_at: 0,
        message: None,
        bulk: None,
    };
    sender.take(stream);
    sender.announce();
    poll_fn(|cx| sender.poll(cx, &world, &mut timer)).await?;
    sender.session.close();
    sender.session.closed().await;
    Ok(())
}

/// A message, or a piece of the bulk transfer, that is being written to the transport.
struct Frame {
    stream: u64,
    bytes: Vec<u8>,
    /// Whether the frame has been offered to the transport at least once.
    offered: bool,
    written: usize,
    number: u32,
}

struct Sender<N: Session> {
    request: MessagesRequest,
    delivery: Delivery,
    /// The time at which message number 0 is due.
    started_at: Instant,
    session: N,
    recorder: Recorder,
    streams: BTreeMap<u64, N::Stream>,
    /// The number of messages that this connection has begun to send.
    next: u32,
    /// The number of bytes of the bulk transfer that have been put into frames.
    bulk_at: u64,
    message: Option<Frame>,
    bulk: Option<Frame>,
}

impl<N: Session> Sender<N> {
    /// Returns the number of the message that this connection sends after `turn` earlier messages; `None` after the
    /// last message.
    fn number(&self, turn: u32) -> Option<u32> {
        let number = turn.checked_mul(self.request.step)?.checked_add(self.request.first)?;
        (number < self.request.count).then_some(number)
    }

    fn due(&self, number: u32) -> Instant {
        self.started_at + Duration::from_nanos(self.request.interval_ns.saturating_mul(u64::from(number)))
    }

    /// Reports the planned send time of each message to the recorder. The delay of a message is measured from its
    /// planned time.
    fn announce(&self) {
        let mut turn = 0;
        while let Some(number) = self.number(turn) {
            self.recorder.issued(number as usize, self.due(number));
            turn += 1;
        }
        if self.request.bulk > 0 {
            self.recorder.issued(self.request.count as usize, self.started_at);
        }
    }

    fn poll<W: World>(
        &mut self,
        cx: &mut Context<'_>,
        world: &W,
        timer: &mut W::Timer,
    ) -> Poll<Result<(), CloseReason>> {
        loop {
            let number = self.number(self.next);
            if self.message.is_none()
                && let Some(number) = number.filter(|&number| self.due(number) <= world.now())
            {
                self.message = Some(self.cut_message(number));
                self.next += 1;
            }
            if self.bulk.is_none() && self.bulk_at < self.request.bulk {
                self.bulk = Some(self.cut_bulk());
            }
            // A frame that has been written in part is completed before the next frame begins, because a transport may
            // have only one stream.
            let bulk_first = self.bulk.as_ref().is_some_and(|frame| frame.written > 0);
            let order = if bulk_first { [true, false] } else { [false, true] };
            let mut moved = false;
            for bulk in order {
                let busy = self.message.as_ref().is_some_and(|frame| frame.written > 0);
                if bulk && busy || !bulk && bulk_first {
                    continue;
                }
                let slot = if bulk { &mut self.bulk } else { &mut self.message };
                let Some(mut frame) = slot.take() else { continue };
                let written = self.write(cx, world.now(), &mut frame);
                let slot = if bulk { &mut self.bulk } else { &mut self.message };
                match written {
                    Poll::Ready(Err(reason)) => return Poll::Ready(Err(reason)),
                    Poll::Ready(Ok(())) => moved = true,
                    Poll::Pending => {}
                }
                if frame.written < frame.bytes.len() {
                    *slot = Some(frame);
                }
                if moved {
                    break;
                }
            }
            if moved {
                continue;
            }
            let idle = self.message.is_none() && self.bulk.is_none();
            match self.number(self.next) {
                None if idle => return Poll::Ready(Ok(())),
                Some(number) if self.message.is_none() => {
                    timer.set(Some(self.due(number)));
                    if timer.poll(cx).is_ready() {
                        continue;
                    }
                }
                _ => {}
            }
            return Poll::Pending;
        }
    }

    /// Adds a stream to the sender, and sets how its messages are delivered.
    fn take(&mut self, mut stream: N::Stream) {
        let is_background = self.request.bulk > 0 && stream.number() == 0 && self.session.streams() > 1;
        stream.set_delivery(match is_background {
            true => Delivery { background: true, ..Delivery::default() },
            false => self.delivery,
        });
        self.streams.insert(stream.number(), stream);
    }

    fn cut_message(&self, number: u32) -> Frame {
        let streams = self.session.streams().max(1);
        let turn = self.next;
        let stream = match (self.request.bulk > 0, streams) {
            (true, 2..) => 1 + u64::from(turn) % (streams - 1),
            _ => u64::from(turn) % streams,
        };
        let mut bytes = head(number, self.request.size);
        let body = self.request.size as usize - HEADER;
        append(&mut bytes, Pattern::of(MESSAGE_NAME), u64::from(number), body as u64);
        Frame { stream, bytes, offered: false, written: 0, number }
    }

    fn cut_bulk(&mut self) -> Frame {
        let body = u64::from(self.request.bulk_write).min(self.request.bulk - self.bulk_at);
        let mut bytes = head(BULK, body as u32 + HEADER as u32);
        append(&mut bytes, Pattern::of(BULK_NAME), self.bulk_at, body);
        self.bulk_at += body;
        Frame { stream: 0, bytes, offered: false, written: 0, number: BULK }
    }

    /// Reports that a frame is offered to the transport for the first time. For a message, the reported time is its
    /// planned time, even if the message is offered after this time. The transport has then caused the delay, because
    /// it had no room for earlier messages.
    fn offer(&self, now: Instant, frame: &Frame) {
        let (object, at) = match frame.number {
            BULK if self.bulk_at > u64::from(self.request.bulk_write) => return,
            BULK => (self.request.count, now),
            number => (number, self.due(number)),
        };
        let exchange =
            ExchangeId { connection: self.session.id(), stream: frame.stream, index: frame.number };
        self.recorder.assigned(object as usize, Assigned { at, exchange, request: 0..0, attempt: 0 });
        self.recorder.serving(exchange, at);
        self.recorder.written(exchange, at);
    }

    /// Writes as much of a frame as the transport accepts.
    fn write(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        frame: &mut Frame,
    ) -> Poll<Result<(), CloseReason>> {
        if !self.streams.contains_key(&frame.stream) {
            match self.session.open(frame.stream) {
                Ok(stream) => self.take(stream),
                Err(OpenError::Closed(reason)) => return Poll::Ready(Err(reason)),
                Err(error) => return Poll::Ready(Err(CloseReason::Protocol(error.to_string()))),
            }
        }
        if !std::mem::replace(&mut frame.offered, true) {
            self.offer(now, frame);
        }
        let Some(stream) = self.streams.get_mut(&frame.stream) else { return Poll::Pending };
        let before = stream.bytes_written();
        let written = match stream.poll_write_message(cx, &frame.bytes[frame.written..]) {
            Poll::Ready(Ok(written)) => written,
            Poll::Ready(Err(reason)) => return Poll::Ready(Err(reason)),
            Poll::Pending => return Poll::Pending,
        };
        let whole = frame.bytes.len() as u64;
        if frame.written == 0 && (frame.number != BULK || self.bulk_at == self.request.bulk) {
            // The bulk transfer is one object. It is recorded when the first byte of its last piece is written.
            let object = if frame.number == BULK { self.request.count } else { frame.number };
            self.recorder.placed(object as usize, before..before + whole);
        }
        frame.written += written;
        Poll::Ready(Ok(()))
    }
}

fn head(number: u32, length: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length as usize);
    bytes.extend_from_slice(&number.to_be_bytes());
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes
}

fn append(bytes: &mut Vec<u8>, pattern: Pattern, mut offset: u64, mut left: u64) {
    while left > 0 {
        let piece = pattern.bytes(offset, left);
        bytes.extend_from_slice(&piece);
        offset += piece.len() as u64;
        left -= piece.len() as u64;
    }
}
