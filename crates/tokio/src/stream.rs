//! The two halves of a stream pair, as bytes (`AsyncRead`, `AsyncWrite`) and as
//! whole messages.

use anabranch_transport::{CloseReason, Delivery};
use bytes::{Buf, Bytes, BytesMut};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
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

pub(crate) fn pair(number: u16) -> ((SendStream, RecvStream), Ends) {
    let (out, outgoing) = mpsc::channel(PIECES);
    let (incoming, arriving) = mpsc::channel(PIECES);
    let (alive, unread) = oneshot::channel();
    let ended = Ended::default();
    let send = SendStream { number, out: PollSender::new(out), flushing: None, ended: ended.clone() };
    let recv = RecvStream {
        number,
        arriving,
        rest: Bytes::new(),
        ends: false,
        given_up: false,
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
    flushing: Option<oneshot::Receiver<()>>,
    ended: Ended,
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
    /// # Errors
    /// The association has ended, or the message is empty or over 16 MiB (or over
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
    /// # Errors
    /// The association has ended.
    pub async fn set_delivery(&mut self, delivery: Delivery) -> io::Result<()> {
        self.hand_over(Outgoing::Delivery(delivery)).await
    }

    /// The payload protocol identifier from here on; at first 0 of messages, and
    /// 63 (HTTP over SCTP) of bytes.
    ///
    /// # Errors
    /// The association has ended.
    pub async fn set_ppid(&mut self, ppid: u32) -> io::Result<()> {
        self.hand_over(Outgoing::Ppid(ppid)).await
    }

    async fn hand_over(&mut self, what: Outgoing) -> io::Result<()> {
        poll_fn(|cx| self.out.poll_reserve(cx)).await.map_err(|_| gone(&self.ended))?;
        self.out.send_item(what).map_err(|_| gone(&self.ended))
    }
}

impl AsyncWrite for SendStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        if from.is_empty() {
            return Poll::Ready(Ok(0));
        }
        if ready!(self.out.poll_reserve(cx)).is_err() {
            return Poll::Ready(Err(gone(&self.ended)));
        }
        let piece = &from[..from.len().min(PIECE)];
        let sent = self.out.send_item(Outgoing::Bytes(Bytes::copy_from_slice(piece)));
        Poll::Ready(sent.map(|()| piece.len()).map_err(|_| gone(&self.ended)))
    }

    /// Ready when the engine has all of it; what the engine has is delivered, or
    /// the association ends with a reason.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.flushing.is_none() {
            if ready!(self.out.poll_reserve(cx)).is_err() {
                return Poll::Ready(Err(gone(&self.ended)));
            }
            let (done, flushing) = oneshot::channel();
            if self.out.send_item(Outgoing::Flushed(done)).is_err() {
                return Poll::Ready(Err(gone(&self.ended)));
            }
            self.flushing = Some(flushing);
        }
        let Some(flushing) = &mut self.flushing else { return Poll::Ready(Ok(())) };
        let done = ready!(Pin::new(flushing).poll(cx));
        self.flushing = None;
        Poll::Ready(done.map_err(|_| gone(&self.ended)))
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
    ended: Ended,
    _alive: oneshot::Sender<()>,
}

/// Why there is no message.
#[derive(Debug, thiserror::Error)]
pub enum RecvError {
    /// The message is larger than allowed; the stream is of no more use.
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
    /// association has ended in good order. Not cancel-safe in the middle of a
    /// message of several pieces.
    ///
    /// # Errors
    /// [`RecvError`].
    pub async fn recv_message(&mut self, most: usize) -> Result<Option<Bytes>, RecvError> {
        let mut whole = BytesMut::new();
        loop {
            if !poll_fn(|cx| self.poll_piece(cx)).await {
                let reason = self.ended.get().cloned().unwrap_or(CloseReason::Finished);
                return match reason {
                    CloseReason::Finished if whole.is_empty() => Ok(None),
                    CloseReason::Finished => Err(CloseReason::Reset("in mid-message".to_owned()).into()),
                    reason => Err(reason.into()),
                };
            }
            if std::mem::take(&mut self.given_up) {
                whole.clear();
                continue;
            }
            let piece = std::mem::take(&mut self.rest);
            if whole.len() + piece.len() > most {
                return Err(RecvError::TooLong(most));
            }
            if std::mem::take(&mut self.ends) {
                if whole.is_empty() {
                    return Ok(Some(piece));
                }
                whole.extend_from_slice(&piece);
                return Ok(Some(whole.freeze()));
            }
            whole.extend_from_slice(&piece);
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
        while self.rest.is_empty() {
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
        Poll::Ready(Ok(()))
    }
}

fn gone(ended: &Ended) -> io::Error {
    match ended.get() {
        Some(CloseReason::Finished) | None => io::Error::from(io::ErrorKind::BrokenPipe),
        Some(reason) => reason.clone().into(),
    }
}
