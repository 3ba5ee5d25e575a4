//! The handle of an association: sends and receives messages, opens streams, and closes the association.

use crate::entry::Signals;
use crate::events::Events;
use crate::handle::Handle;
use crate::message::{Received, RecvError, SendError, SendOptions};
use crate::shared::Shared;
use crate::state::State;
use crate::stream::{self, RecvStream, SendStream};
use anabranch_sctp::{AssociationId, AssociationInfo, AssociationStats};
use anabranch_transport::{CloseReason, OpenError};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// An association. A clone is another handle of the same association. The association is shut down gracefully when its
/// last handle and its last stream have been dropped.
///
/// There are two ways to send and receive messages. [`send`](Self::send) and [`recv`](Self::recv) work on any stream;
/// [`open_bi`](Self::open_bi) and [`accept_bi`](Self::accept_bi) return handles of single streams. Each received
/// message goes to the first task that asks for it.
#[derive(Clone)]
pub struct Association {
    pub(crate) handle: Arc<Handle>,
}

impl fmt::Debug for Association {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Association").field("peer", &self.handle.peer).finish_non_exhaustive()
    }
}

impl Association {
    pub(crate) fn new(
        shared: Arc<Shared>,
        id: AssociationId,
        signals: Arc<Signals>,
        peer: SocketAddr,
    ) -> Self {
        Self { handle: Arc::new(Handle { shared, id, signals, peer }) }
    }

    /// Waits until the association is established. Returns an error if the association ends first.
    pub(crate) async fn established(&self) -> Result<(), CloseReason> {
        let id = self.handle.id;
        let up = |state: &mut State, _| {
            let end = state.removed_reason();
            let Some(entry) = state.entry(id) else { return Some(Err(end)) };
            match entry.ended() {
                Some(reason) => Some(Err(reason.clone())),
                None => entry.established.then_some(Ok(())),
            }
        };
        self.handle.until(&self.handle.signals.state, up).await
    }

    /// Returns the peer's first address, with the peer's SCTP port.
    #[must_use]
    pub fn remote_address(&self) -> SocketAddr {
        self.handle.peer
    }

    /// Returns the local SCTP port; `None` after the association has ended.
    #[must_use]
    pub fn local_port(&self) -> Option<u16> {
        self.info().map(|info| info.local_port)
    }

    /// Returns the number of stream pairs. A pair is an outgoing and an incoming stream with the same number. The
    /// numbers start at 0.
    #[must_use]
    pub fn streams(&self) -> u16 {
        self.handle.with(|state, _| state.entry(self.handle.id).map_or(0, |entry| entry.pairs()))
    }

    /// Returns the size in bytes of the largest message that fits into the send buffer. Larger messages cannot be sent.
    #[must_use]
    pub fn max_message_size(&self) -> usize {
        self.handle.with(|state, _| state.largest_message(self.handle.id))
    }

    /// Sends one user message on a stream (RFC 9260 §6.1). The call waits until the send buffer has room, and waiting
    /// calls are served in order. The peer receives the message as a whole.
    ///
    /// Cancel-safe: if the future is dropped before it is ready, nothing has been sent. A message is never sent in
    /// part.
    ///
    /// # Errors
    /// [`SendError`], if the message cannot be sent. In that case no part of it was sent.
    pub async fn send(
        &self,
        stream: u16,
        message: impl AsRef<[u8]>,
        options: &SendOptions,
    ) -> Result<(), SendError> {
        self.handle.send(stream, message.as_ref(), options).await
    }

    /// Sends a message like [`send`](Self::send), but returns an error instead of waiting.
    ///
    /// # Errors
    /// [`SendError::Full`] if [`send`](Self::send) would wait; otherwise the errors of [`send`](Self::send).
    pub fn try_send(
        &self,
        stream: u16,
        message: impl AsRef<[u8]>,
        options: &SendOptions,
    ) -> Result<(), SendError> {
        let id = self.handle.id;
        let taken =
            self.handle.with(|state, now| state.send(now, id, None, stream, message.as_ref(), options))?;
        if taken { Ok(()) } else { Err(SendError::Full) }
    }

    /// Receives the next message from any stream. Of several complete messages, it returns the one that became readable
    /// first.
    ///
    /// Cancel-safe: if the future is dropped before it is ready, nothing is lost. Received parts of a message are kept
    /// for the next call.
    ///
    /// # Errors
    /// [`RecvError`], if a message was too long, or if the association has ended and all messages have been read.
    pub async fn recv(&self) -> Result<Received, RecvError> {
        let id = self.handle.id;
        let next = |state: &mut State, now| state.recv(now, id, None).transpose();
        self.handle.until(&self.handle.signals.readable, next).await
    }

    /// Receives a message like [`recv`](Self::recv), but returns `None` instead of waiting.
    ///
    /// # Errors
    /// The errors of [`recv`](Self::recv).
    pub fn try_recv(&self) -> Result<Option<Received>, RecvError> {
        self.handle.with(|state, now| state.recv(now, self.handle.id, None))
    }

    /// Opens the lowest-numbered stream that has no local handle. The peer has possibly used that stream already. To
    /// open a certain stream instead, call [`open_number`](Self::open_number).
    ///
    /// # Errors
    /// [`OpenError`], if this side has handles of all streams, or if the association has ended.
    pub fn open_bi(&self) -> Result<(SendStream, RecvStream), OpenError> {
        self.open(None)
    }

    /// Opens the stream with this number.
    ///
    /// # Errors
    /// [`OpenError`], if there is no such stream, if this side already has a handle of it, or if the association has
    /// ended.
    pub fn open_number(&self, number: u16) -> Result<(SendStream, RecvStream), OpenError> {
        self.open(Some(number))
    }

    fn open(&self, number: Option<u16>) -> Result<(SendStream, RecvStream), OpenError> {
        let number = self.handle.with(|state, _| state.open_stream(self.handle.id, number))?;
        Ok(stream::pair(&self.handle, number))
    }

    /// Waits until the peer sends a message on a stream that this program has not opened or accepted yet. Returns the
    /// stream.
    ///
    /// Cancel-safe: if the future is dropped before it is ready, no stream has been taken.
    ///
    /// # Errors
    /// The reason why the association has ended.
    pub async fn accept_bi(&self) -> Result<(SendStream, RecvStream), CloseReason> {
        let id = self.handle.id;
        let next = |state: &mut State, _| state.accept_stream(id).transpose();
        let number = self.handle.until(&self.handle.signals.incoming_streams, next).await?;
        Ok(stream::pair(&self.handle, number))
    }

    /// Returns the events of the association. Received messages are not events.
    #[must_use]
    pub fn events(&self) -> Events {
        self.handle.with(|state, _| state.events(self.handle.id).map(|events| events.listen()));
        Events { handle: self.handle.clone() }
    }

    /// Returns information about the association: its state, the negotiated features, and the values of each path. The
    /// values of a path are its round-trip time, retransmission timeout, congestion window, bytes in flight and
    /// counters. Returns `None` once the association has ended.
    #[must_use]
    pub fn info(&self) -> Option<AssociationInfo> {
        self.handle.with(|state, _| state.endpoint.info(self.handle.id))
    }

    /// Returns the statistics of the association; `None` once the association has ended.
    #[must_use]
    pub fn stats(&self) -> Option<AssociationStats> {
        self.handle.with(|state, _| state.endpoint.stats(self.handle.id))
    }

    /// Shuts the association down gracefully. Messages sent before this call are still delivered; later calls to send
    /// return an error. This call does not wait for the end of the association; [`closed`](Self::closed) does.
    pub fn close(&self) {
        self.handle.with(|state, now| state.close(now, self.handle.id));
    }

    /// Aborts the association with an ABORT chunk.
    pub fn abort(&self) {
        self.abort_with_reason(b"");
    }

    /// Aborts the association with a reason. The peer's program receives at most the first 512 bytes of the reason
    /// ([`Event::AbortReason`](crate::Event::AbortReason)).
    pub fn abort_with_reason(&self, reason: impl AsRef<[u8]>) {
        self.handle.with(|state, now| state.abort(now, self.handle.id, reason.as_ref()));
    }

    /// Waits until the association has ended, and returns the reason.
    ///
    /// Cancel-safe: dropping the future has no effect.
    pub async fn closed(&self) -> CloseReason {
        self.handle.until(&self.handle.signals.state, |state, _| self.reason(state)).await
    }

    /// Returns the reason why the association has ended; `None` if it has not ended.
    #[must_use]
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.handle.with(|state, _| self.reason(state))
    }

    fn reason(&self, state: &mut State) -> Option<CloseReason> {
        let end = state.removed_reason();
        match state.entry(self.handle.id) {
            Some(entry) => entry.ended().cloned(),
            None => Some(end),
        }
    }
}
