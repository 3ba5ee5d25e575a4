//! The state that all handles of an association and of its streams share, and the calls that wait.

use crate::entry::Signals;
use crate::message::{SendError, SendOptions};
use crate::shared::Shared;
use crate::state::State;
use anabranch_base::Instant;
use anabranch_sctp::AssociationId;
use std::fmt;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::Notify;

/// The state that all handles of an association and of its streams share. When this state is dropped, the association
/// is released.
pub(crate) struct Handle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: AssociationId,
    pub(crate) signals: Arc<Signals>,
    pub(crate) peer: SocketAddr,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.with(|state, now| state.release_association(now, self.id));
    }
}

impl Handle {
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(crate) fn id(&self) -> AssociationId {
        self.id
    }

    pub(crate) fn with<R>(&self, ask: impl FnOnce(&mut State, Instant) -> R) -> R {
        self.shared.with(ask)
    }

    /// Calls `ask` now and after each notification of `signal`, until `ask` returns a result.
    pub(crate) async fn until<R>(
        &self,
        signal: &Notify,
        mut ask: impl FnMut(&mut State, Instant) -> Option<R>,
    ) -> R {
        loop {
            let mut notified = pin!(signal.notified());
            // The waiter is registered before the call of `ask`, so that a notification during this call is not missed.
            notified.as_mut().enable();
            if let Some(answer) = self.with(&mut ask) {
                return answer;
            }
            notified.await;
        }
    }

    /// Sends a message, once earlier waiting messages have been accepted and the send buffer has room for this message.
    pub(crate) async fn send(
        &self,
        stream: u16,
        message: &[u8],
        options: &SendOptions,
    ) -> Result<(), SendError> {
        let mut position = QueuePosition { handle: self, ticket: None };
        poll_fn(|cx| {
            let ticket = position.ticket;
            let (sent, ticket) =
                self.with(|state, now| match state.send(now, self.id, ticket, stream, message, options) {
                    Ok(false) => (None, state.entry(self.id).map(|entry| entry.send_queue.wait(ticket, cx))),
                    Ok(true) => (Some(Ok(())), ticket),
                    Err(error) => (Some(Err(error)), ticket),
                });
            position.ticket = ticket;
            sent.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// A position in the queue of messages that wait for room in the send buffer. Dropping the value gives up the position.
struct QueuePosition<'a> {
    handle: &'a Handle,
    ticket: Option<u32>,
}

impl Drop for QueuePosition<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            let mut state = self.handle.shared.lock();
            if let Some(entry) = state.entry(self.handle.id) {
                entry.leave(ticket);
            }
        }
    }
}
