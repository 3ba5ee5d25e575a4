//! The two halves of a stream pair, as bytes (`AsyncRead`, `AsyncWrite`) and as
//! whole messages.

use anabranch_transport::{CloseReason, Delivery};
use bytes::{Buf, Bytes, BytesMut};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::PollSender;

/// On its way to the network.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// A part of a sequence of bytes.
    Bytes(Bytes),
    /// One user message.
    Message(Bytes),
    /// How messages go from here on.
    Delivery(Delivery),
    /// Payload protocol identifier from here on.
    Ppid(u32),
    /// Everything before is with the engine.
    Flushed(oneshot::Sender<()>),
}

/// On its way to the reader.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) bytes: Bytes,
    /// A user message ends here.
    pub(crate) end_of_message: bool,
    /// The peer has given up the message (RFC 3758): what came of it is void.
    pub(crate) given_up: bool,
}

/// Why a stream ended; set once, before its channels close.
pub(crate) type Ended = Arc<OnceLock<CloseReason>>;

/// How far an association is, for whoever writes on its streams.
#[derive(Debug, Default)]
pub(crate) struct Writing {
    /// Somebody here has asked for its end: what is written from now on is too late.
    pub(crate) closing: AtomicBool,
    /// Why the association has ended, once it has; set before anybody is told.
    pub(crate) ended: OnceLock<CloseReason>,
    /// What was taken from writers on all of its streams, and is not with the engine.
    queued: AtomicUsize,
}

impl Writing {
    /// Everything that was taken from writers is with the engine, or lost with its stream.
    pub(crate) fn is_done(&self) -> bool {
        self.queued.load(Ordering::Acquire) == 0
    }

    /// One thing more is.
    pub(crate) fn one_done(&self) {
        self.queued.fetch_sub(1, Ordering::AcqRel);
    }

    /// Why nothing more can be written.
    fn over(&self) -> Option<CloseReason> {
        let closing = self.closing.load(Ordering::Acquire).then_some(CloseReason::Finished);
        self.ended.get().cloned().or(closing)
    }
}

/// Pieces of at most [`PIECE`] bytes that wait between the program and the network, a direction.
const PIECES: usize = 16;

/// The most bytes handed over at once.
pub(crate) const PIECE: usize = 64 * 1024;

/// The largest message that [`SendStream::send_message`] takes, bytes.
const MESSAGE: usize = 16 << 20;

/// The other ends of the channels of a stream.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) outgoing: mpsc::Receiver<Outgoing>,
    pub(crate) incoming: mpsc::Sender<Incoming>,
    /// Resolves when the reader is gone.
    pub(crate) unread: oneshot::Receiver<()>,
    pub(crate) ended: Ended,
}

pub(crate) fn pair(number: u16, writing: Arc<Writing>) -> ((SendStream, RecvStream), Ends) {
    let (out, outgoing) = mpsc::channel(PIECES);
    let (incoming, arriving) = mpsc::channel(PIECES);
    let (alive, unread) = oneshot::channel();
    let ended = Ended::default();
    let send =
        SendStream { number, out: PollSender::new(out), flushing: None, ended: ended.clone(), writing };
    let recv = RecvStream {
        number,
        arriving,
        rest: Bytes::new(),
        ends: false,
        given_up: false,
        begun: BytesMut::new(),
        passes_over: false,
        ended: ended.clone(),
        _alive: alive,
    };
    ((send, recv), Ends { outgoing, incoming, unread, ended })
}

/// The half that writes. Dropped, what was written is still sent.
#[derive(Debug)]
pub struct SendStream {
    number: u16,
    out: PollSender<Outgoing>,
    /// What was written before it is with the engine when it resolves; nothing has been since.
    flushing: Option<oneshot::Receiver<()>>,
    ended: Ended,
    writing: Arc<Writing>,
}

impl SendStream {
    /// Its number in the association.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Sends one user message (RFC 9260 §6.1); waits for room. Its boundaries
    /// stay: the peer's [`RecvStream::recv_message`] returns it whole.
    ///
    /// Cancel-safe: dropped before it is ready, it has sent nothing; there is no part of a message.
    ///
    /// # Errors
    /// The association has ended or is being closed, or the message is empty or over 16 MiB (or over
    /// the send buffer: then the stream ends).
    pub async fn send_message(&mut self, message: impl Into<Bytes>) -> io::Result<()> {
        let message = message.into();
        if message.is_empty() || message.len() > MESSAGE {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a message has from 1 byte to 16 MiB"));
        }
        self.hand_over(Outgoing::Message(message)).await
    }

    /// How messages are delivered from here on: unordered, or only for so long
    /// (RFC 3758). Bytes written as such are always delivered, in order.
    ///
    /// Cancel-safe: dropped before it is ready, it has changed nothing.
    ///
    /// # Errors
    /// The association has ended or is being closed.
    pub async fn set_delivery(&mut self, delivery: Delivery) -> io::Result<()> {
        self.hand_over(Outgoing::Delivery(delivery)).await
    }

    /// The payload protocol identifier from here on; at first 0 of messages, and
    /// 63 (HTTP over SCTP) of bytes.
    ///
    /// Cancel-safe: dropped before it is ready, it has changed nothing.
    ///
    /// # Errors
    /// The association has ended or is being closed.
    pub async fn set_ppid(&mut self, ppid: u32) -> io::Result<()> {
        self.hand_over(Outgoing::Ppid(ppid)).await
    }

    async fn hand_over(&mut self, what: Outgoing) -> io::Result<()> {
        poll_fn(|cx| self.poll_room(cx)).await?;
        self.give(what)
    }

    /// Ready when one thing can be given; an error once it would be too late.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(reason) = self.ended.get().cloned().or_else(|| self.writing.over()) {
            return Poll::Ready(Err(gone(Some(&reason))));
        }
        let room = ready!(self.out.poll_reserve(cx));
        Poll::Ready(room.map_err(|_| gone(self.ended.get())))
    }

    /// Gives what there is room for.
    fn give(&mut self, what: Outgoing) -> io::Result<()> {
        self.flushing = None;
        self.writing.queued.fetch_add(1, Ordering::AcqRel);
        self.out.send_item(what).map_err(|_| {
            self.writing.one_done();
            gone(self.ended.get())
        })
    }
}

impl AsyncWrite for SendStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        if from.is_empty() {
            return Poll::Ready(Ok(0));
        }
        ready!(self.poll_room(cx))?;
        let piece = &from[..from.len().min(PIECE)];
        Poll::Ready(self.give(Outgoing::Bytes(Bytes::copy_from_slice(piece))).map(|()| piece.len()))
    }

    /// Ready when the engine has all of it; what the engine has is delivered, or
    /// the association ends with a reason.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.flushing.is_none() {
            ready!(self.poll_room(cx))?;
            let (done, flushing) = oneshot::channel();
            self.give(Outgoing::Flushed(done))?;
            self.flushing = Some(flushing);
        }
        let Some(flushing) = &mut self.flushing else { return Poll::Ready(Ok(())) };
        let done = ready!(Pin::new(flushing).poll(cx));
        self.flushing = None;
        Poll::Ready(done.map_err(|_| gone(self.ended.get())))
    }

    /// As [`poll_flush`](AsyncWrite::poll_flush): SCTP has no half-close.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

/// The half that reads. Dropped, what still comes is thrown away, so that other
/// streams have room.
#[derive(Debug)]
pub struct RecvStream {
    number: u16,
    arriving: mpsc::Receiver<Incoming>,
    /// What has come and was not read; a message ends behind it.
    rest: Bytes,
    ends: bool,
    given_up: bool,
    /// What has come of a message that is not complete.
    begun: BytesMut,
    /// The message was too long: what still comes of it is nobody's.
    passes_over: bool,
    ended: Ended,
    _alive: oneshot::Sender<()>,
}

/// Why there is no message.
#[derive(Debug, thiserror::Error)]
pub enum RecvError {
    /// The message is larger than allowed. What is left of it is passed over: the next call has the next message.
    #[error("a message of more than {0} bytes")]
    TooLong(usize),
    /// The stream ended in the middle of a message, or not in good order.
    #[error(transparent)]
    Closed(#[from] CloseReason),
}

impl RecvStream {
    /// Its number in the association.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }

    /// The next whole user message, of at most `most` bytes; `None` when the
    /// association has ended in good order.
    ///
    /// Cancel-safe: dropped before it is ready, it has lost nothing; what has come of a message waits for the next call,
    /// or for whoever reads bytes.
    ///
    /// # Errors
    /// [`RecvError`].
    pub async fn recv_message(&mut self, most: usize) -> Result<Option<Bytes>, RecvError> {
        poll_fn(|cx| self.poll_message(cx, most)).await
    }

    /// All that is known of an incomplete message is kept in `self`: the future that polls may be dropped at any time.
    fn poll_message(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<Result<Option<Bytes>, RecvError>> {
        loop {
            if !ready!(self.poll_piece(cx)) {
                let in_the_middle = !self.begun.is_empty() || self.passes_over;
                let reason = self.ended.get().cloned().unwrap_or(CloseReason::Finished);
                return Poll::Ready(match reason {
                    CloseReason::Finished if !in_the_middle => Ok(None),
                    CloseReason::Finished => Err(CloseReason::Reset("in mid-message".to_owned()).into()),
                    reason => Err(reason.into()),
                });
            }
            if std::mem::take(&mut self.given_up) {
                (self.begun, self.rest, self.passes_over) = Default::default();
                continue;
            }
            let (piece, ends) = (std::mem::take(&mut self.rest), std::mem::take(&mut self.ends));
            if self.passes_over {
                self.passes_over = !ends;
            } else if self.begun.len() + piece.len() > most {
                (self.begun, self.passes_over) = (BytesMut::new(), !ends);
                return Poll::Ready(Err(RecvError::TooLong(most)));
            } else if ends && self.begun.is_empty() {
                return Poll::Ready(Ok(Some(piece)));
            } else {
                self.begun.extend_from_slice(&piece);
                if ends {
                    return Poll::Ready(Ok(Some(std::mem::take(&mut self.begun).freeze())));
                }
            }
        }
    }

    /// Sees to it that there is something in `rest`, or a message's end; false at the end of the stream.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        while self.rest.is_empty() && !self.ends && !self.given_up {
            let Some(next) = ready!(self.arriving.poll_recv(cx)) else { return Poll::Ready(false) };
            self.rest = next.bytes;
            self.ends = next.end_of_message && !next.given_up;
            self.given_up = next.given_up;
        }
        Poll::Ready(true)
    }
}

impl AsyncRead for RecvStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if into.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        if !self.begun.is_empty() {
            let take = self.begun.len().min(into.remaining());
            into.put_slice(&self.begun.split_to(take));
            return Poll::Ready(Ok(()));
        }
        while self.rest.is_empty() || self.passes_over {
            if self.passes_over {
                self.passes_over = !self.ends && !self.given_up;
                self.rest.clear();
            }
            // To a reader of bytes the ends of messages mean nothing.
            (self.ends, self.given_up) = (false, false);
            if !ready!(self.poll_piece(cx)) {
                return Poll::Ready(match self.ended.get() {
                    None | Some(CloseReason::Finished) => Ok(()),
                    Some(reason) => Err(reason.clone().into()),
                });
            }
        }
        let take = self.rest.len().min(into.remaining());
        into.put_slice(&self.rest[..take]);
        self.rest.advance(take);
        // What was read to its end is no message any more, not an empty one either.
        self.ends &= !self.rest.is_empty();
        Poll::Ready(Ok(()))
    }
}

fn gone(reason: Option<&CloseReason>) -> io::Error {
    match reason {
        Some(CloseReason::Finished) | None => io::Error::from(io::ErrorKind::BrokenPipe),
        Some(reason) => reason.clone().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    /// A flush that was dropped says nothing of what is written after it.
    #[test]
    fn a_flush_waits_for_what_was_written_after_one_that_was_dropped() {
        let ((mut send, _recv), mut ends) = pair(0, Arc::default());
        let mut send = Pin::new(&mut send);
        let mut cx = Context::from_waker(Waker::noop());
        let mut with_the_engine = || {
            while let Ok(outgoing) = ends.outgoing.try_recv() {
                if let Outgoing::Flushed(done) = outgoing {
                    let _ = done.send(());
                }
            }
        };
        assert!(matches!(send.as_mut().poll_write(&mut cx, b"one"), Poll::Ready(Ok(3))));
        assert!(send.as_mut().poll_flush(&mut cx).is_pending(), "and dropped");
        with_the_engine();
        assert!(matches!(send.as_mut().poll_write(&mut cx, b"two"), Poll::Ready(Ok(3))));
        assert!(send.as_mut().poll_flush(&mut cx).is_pending(), "the engine has not heard of it");
        with_the_engine();
        assert!(matches!(send.as_mut().poll_flush(&mut cx), Poll::Ready(Ok(()))));
    }
}
