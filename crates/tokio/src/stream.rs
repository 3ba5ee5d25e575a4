//! The two halves of a stream pair. They transfer messages, and also bytes (`AsyncRead`, `AsyncWrite`).

use crate::entry::{RECV, SEND};
use crate::handle::Handle;
use crate::message::{Received, RecvError, SendError, SendOptions};
use anabranch_sctp::SchedulerError;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub(crate) fn pair(handle: &Arc<Handle>, number: u16) -> (SendStream, RecvStream) {
    let send =
        SendStream { handle: handle.clone(), number, options: SendOptions::default(), low_threshold: 0 };
    (send, RecvStream { handle: handle.clone(), number })
}

/// The sending half of a stream. Written data is sent even after this half has been dropped.
#[derive(Debug)]
pub struct SendStream {
    handle: Arc<Handle>,
    number: u16,
    options: SendOptions,
    low_threshold: usize,
}

impl Drop for SendStream {
    fn drop(&mut self) {
        self.handle.with(|state, now| state.give_back(now, self.handle.id(), self.number, SEND));
    }
}

impl SendStream {
    /// Returns the number of the stream in its association.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Sets the default options for messages and bytes on this stream. If the options have no payload protocol
    /// identifier, bytes are sent with 63 (HTTP over SCTP).
    pub fn set_options(&mut self, options: SendOptions) {
        self.options = options;
    }

    /// Sends one user message (RFC 9260 §6.1). The call waits until the send buffer has room, and waiting calls are
    /// served in order. Message boundaries are kept: the peer's [`RecvStream::recv`] returns the message as a whole.
    ///
    /// Cancel-safe: if the future is dropped before it is ready, nothing has been sent. A message is never sent in
    /// part.
    ///
    /// # Errors
    /// [`SendError`], if the message cannot be sent. In that case no part of it was sent.
    pub async fn send(&mut self, message: impl AsRef<[u8]>) -> Result<(), SendError> {
        self.handle.send(self.number, message.as_ref(), &self.options).await
    }

    /// Sends a message like [`send`](Self::send), with these options.
    ///
    /// Cancel-safe, like [`send`](Self::send).
    ///
    /// # Errors
    /// The errors of [`send`](Self::send).
    pub async fn send_with(
        &mut self,
        message: impl AsRef<[u8]>,
        options: &SendOptions,
    ) -> Result<(), SendError> {
        self.handle.send(self.number, message.as_ref(), options).await
    }

    /// Returns the number of bytes sent on this stream that are neither acknowledged nor abandoned yet.
    #[must_use]
    pub fn buffered_amount(&self) -> usize {
        self.handle.with(|state, _| state.endpoint.buffered_amount(self.handle.id(), self.number))
    }

    /// Sets the threshold of [`buffered_amount_low`](Self::buffered_amount_low) in bytes. Its default is 0.
    pub fn set_buffered_amount_low_threshold(&mut self, bytes: usize) {
        self.low_threshold = bytes;
    }

    /// Waits until [`buffered_amount`](Self::buffered_amount) is at most the threshold.
    ///
    /// Cancel-safe: dropping the future has no effect.
    ///
    /// # Errors
    /// [`SendError`], if the association has ended or is being closed.
    pub async fn buffered_amount_low(&mut self) -> Result<(), SendError> {
        let (id, number, low_threshold) = (self.handle.id(), self.number, self.low_threshold);
        poll_fn(|cx| {
            self.handle.with(|state, _| {
                let end = state.removed_reason();
                let Some((endpoint, _, entry)) = state.parts(id) else { return Poll::Ready(Err(end.into())) };
                if let Some(reason) = entry.shut() {
                    return Poll::Ready(Err(reason.into()));
                }
                if endpoint.buffered_amount(id, number) <= low_threshold {
                    return Poll::Ready(Ok(()));
                }
                entry.wait_for_low(number, low_threshold, cx);
                state.watch(id);
                Poll::Pending
            })
        })
        .await
    }

    /// Sets the scheduling value of the stream (RFC 8260 §3). Depending on the scheduler, this is a priority (0 is
    /// served first) or a weight; see [`ConfigBuilder::scheduler`](crate::ConfigBuilder::scheduler).
    ///
    /// # Errors
    /// [`SchedulerError`], if the association has ended.
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

    /// Returns immediately, because written data is already in the SCTP engine. If the association has ended or is
    /// closing, returns the reason as an error.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let end = self.handle.with(|state, _| {
            let end = state.removed_reason();
            state.entry(self.handle.id()).map_or(Some(end), |entry| entry.shut())
        });
        Poll::Ready(end.map_or(Ok(()), |reason| Err(SendError::Closed(reason).into())))
    }

    /// Does the same as [`poll_flush`](AsyncWrite::poll_flush), because SCTP has no half-close.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

/// The receiving half of a stream. If this half is dropped while the sending half exists, data that arrives on the
/// stream is discarded, so that other streams have room in the receive buffer. The data is not discarded if a task
/// receives messages from any stream ([`Association::recv`](crate::Association::recv)).
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
    /// Returns the number of the stream in its association.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Receives the next complete user message of this stream.
    ///
    /// Cancel-safe: if the future is dropped before it is ready, nothing is lost. Received parts of a message are kept
    /// for the next call, or for a reader of bytes.
    ///
    /// # Errors
    /// [`RecvError`], if a message was too long, or if the association has ended and all messages have been read.
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

    /// Receives a message like [`recv`](Self::recv), but returns `None` instead of waiting.
    ///
    /// # Errors
    /// The errors of [`recv`](Self::recv).
    pub fn try_recv(&mut self) -> Result<Option<Received>, RecvError> {
        self.handle.with(|state, now| state.recv(now, self.handle.id(), Some(self.number)))
    }
}

impl AsyncRead for RecvStream {
    /// Reads bytes across message boundaries. The stream ends when the association has ended gracefully.
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
