//! The two halves of a stream pair, as whole messages and as bytes (`AsyncRead`, `AsyncWrite`).

use crate::association::Handle;
use crate::entry::{RECV, SEND};
use crate::message::{Received, RecvError, SendError, SendOptions};
use anabranch_sctp::SchedulerError;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub(crate) fn pair(handle: &Arc<Handle>, number: u16) -> (SendStream, RecvStream) {
    let send = SendStream { handle: handle.clone(), number, options: SendOptions::default(), low: 0 };
    (send, RecvStream { handle: handle.clone(), number })
}

/// The half that writes. Dropped, what was written is still sent.
#[derive(Debug)]
pub struct SendStream {
    handle: Arc<Handle>,
    number: u16,
    options: SendOptions,
    low: usize,
}

impl Drop for SendStream {
    fn drop(&mut self) {
        self.handle.with(|state, now| state.give_back(now, self.handle.id(), self.number, SEND));
    }
}

impl SendStream {
    /// Its number in the association.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }

    /// How messages and bytes are sent that are given no options of their own. Bytes without a payload protocol identifier
    /// have 63 (HTTP over SCTP).
    pub fn set_options(&mut self, options: SendOptions) {
        self.options = options;
    }

    /// Sends one user message (RFC 9260 §6.1); waits for room in the send buffer, behind those who wait already. Its boundaries
    /// stay: the peer's [`RecvStream::recv`] returns it whole.
    ///
    /// Cancel-safe: dropped before it is ready, it has sent nothing; there is no part of a message.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent.
    pub async fn send(&mut self, message: impl AsRef<[u8]>) -> Result<(), SendError> {
        self.handle.send(self.number, message.as_ref(), &self.options).await
    }

    /// The same with options of its own.
    ///
    /// Cancel-safe, as [`send`](Self::send).
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn send_with(
        &mut self,
        message: impl AsRef<[u8]>,
        options: &SendOptions,
    ) -> Result<(), SendError> {
        self.handle.send(self.number, message.as_ref(), options).await
    }

    /// Bytes of this stream that were sent and are not acknowledged, or given up, yet.
    #[must_use]
    pub fn buffered_amount(&self) -> usize {
        self.handle.with(|state, _| state.endpoint.buffered_amount(self.handle.id(), self.number))
    }

    /// At how many bytes, or fewer, [`buffered_amount_low`](Self::buffered_amount_low) is ready; at first 0.
    pub fn set_buffered_amount_low_threshold(&mut self, bytes: usize) {
        self.low = bytes;
    }

    /// Waits until [`buffered_amount`](Self::buffered_amount) is no more than the threshold.
    ///
    /// Cancel-safe: dropped before it is ready, it has done nothing.
    ///
    /// # Errors
    /// The association has ended, or is being closed.
    pub async fn buffered_amount_low(&mut self) -> Result<(), SendError> {
        let (id, number, low) = (self.handle.id(), self.number, self.low);
        poll_fn(|cx| {
            self.handle.with(|state, _| {
                let end = state.end();
                let Some((endpoint, _, entry)) = state.parts(id) else { return Poll::Ready(Err(end.into())) };
                if let Some(reason) = entry.shut() {
                    return Poll::Ready(Err(reason.into()));
                }
                if endpoint.buffered_amount(id, number) <= low {
                    return Poll::Ready(Ok(()));
                }
                entry.wait_for_low(number, low, cx);
                state.watch(id);
                Poll::Pending
            })
        })
        .await
    }

    /// Its priority (0 goes first) or its weight, for the schedulers that know one (RFC 8260 §3); see
    /// [`ConfigBuilder::scheduler`](crate::ConfigBuilder::scheduler).
    ///
    /// # Errors
    /// The association has ended.
    pub fn set_scheduler_value(&mut self, value: u16) -> Result<(), SchedulerError> {
        let (id, number) = (self.handle.id(), self.number);
        self.handle.with(|state, now| state.endpoint.set_stream_value(now, id, number, value))
    }
}

impl AsyncWrite for SendStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        if from.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let (id, number) = (self.handle.id(), self.number);
        self.handle.with(|state, now| match state.write(now, id, number, from, &self.options) {
            Ok(0) => {
                if let Some(entry) = state.entry(id) {
                    entry.wait_to_write(number, cx);
                }
                Poll::Pending
            }
            Ok(taken) => Poll::Ready(Ok(taken)),
            Err(error) => Poll::Ready(Err(error.into())),
        })
    }

    /// Ready at once: what was written is with the engine, which delivers it, or the association ends with a reason.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let end = self.handle.with(|state, _| {
            let end = state.end();
            state.entry(self.handle.id()).map_or(Some(end), |entry| entry.shut())
        });
        Poll::Ready(end.map_or(Ok(()), |reason| Err(SendError::Closed(reason).into())))
    }

    /// As [`poll_flush`](AsyncWrite::poll_flush): SCTP has no half-close.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

/// The half that reads. Dropped while the other half is held, what still comes on the stream is thrown away, so that other
/// streams have room; unless somebody reads whatever the stream ([`Association::recv`](crate::Association::recv)).
#[derive(Debug)]
pub struct RecvStream {
    handle: Arc<Handle>,
    number: u16,
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        self.handle.with(|state, now| state.give_back(now, self.handle.id(), self.number, RECV));
    }
}

impl RecvStream {
    /// Its number in the association.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }

    /// The next whole user message of this stream.
    ///
    /// Cancel-safe: dropped before it is ready, it has lost nothing; what has come of a message waits for the next call, or
    /// for whoever reads bytes.
    ///
    /// # Errors
    /// [`RecvError`]: a message was too long, or the association has ended and all is read.
    pub async fn recv(&mut self) -> Result<Received, RecvError> {
        let (id, number) = (self.handle.id(), self.number);
        poll_fn(|cx| {
            self.handle.with(|state, now| match state.recv(now, id, Some(number)).transpose() {
                Some(message) => Poll::Ready(message),
                None => {
                    if let Some(entry) = state.entry(id) {
                        entry.wait_to_read(number, cx);
                    }
                    Poll::Pending
                }
            })
        })
        .await
    }

    /// As [`recv`](Self::recv), but `None` where that would wait.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn try_recv(&mut self) -> Result<Option<Received>, RecvError> {
        self.handle.with(|state, now| state.recv(now, self.handle.id(), Some(self.number)))
    }
}

impl AsyncRead for RecvStream {
    /// Bytes, over the ends of messages. The end is that of the association, in good order.
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if into.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let (id, number) = (self.handle.id(), self.number);
        let read =
            self.handle.with(|state, now| match state.read(now, id, number, into.initialize_unfilled()) {
                Ok(Some(bytes)) => Poll::Ready(Ok(bytes)),
                Ok(None) => {
                    if let Some(entry) = state.entry(id) {
                        entry.wait_to_read(number, cx);
                    }
                    Poll::Pending
                }
                Err(reason) => Poll::Ready(Err(reason)),
            });
        let bytes = ready!(read)?;
        into.advance(bytes);
        Poll::Ready(Ok(()))
    }
}
