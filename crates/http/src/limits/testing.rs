//! A fake session for tests of this module and of the server. It has an address and counters, but transfers no data.

use anabranch_transport::{AnyStream, CloseReason, OpenError, Session, StreamId};
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A session without a network.
#[derive(Clone, Default)]
pub(crate) struct FakeSession {
    /// The last byte of the client's address.
    pub(super) client: u8,
    pub(crate) unacknowledged: Rc<Cell<u64>>,
    pub(crate) aborted: Rc<Cell<u32>>,
}

impl FakeSession {
    pub(crate) fn of(client: u8) -> Self {
        Self { client, ..Self::default() }
    }
}

impl Session for FakeSession {
    type Stream = AnyStream;

    fn id(&self) -> u64 {
        0
    }

    fn peer(&self) -> Option<SocketAddr> {
        Some(SocketAddr::from(([192, 0, 2, self.client], 1)))
    }

    fn poll_established(&self, _cx: &mut Context<'_>) -> Poll<Result<(), CloseReason>> {
        Poll::Ready(Ok(()))
    }

    fn open(&self, _number: StreamId) -> Result<AnyStream, OpenError> {
        Err(OpenError::Closed(CloseReason::Aborted))
    }

    fn poll_accept(&self, _cx: &mut Context<'_>) -> Poll<Result<AnyStream, CloseReason>> {
        Poll::Pending
    }

    fn poll_closed(&self, _cx: &mut Context<'_>) -> Poll<CloseReason> {
        Poll::Pending
    }

    fn unacknowledged(&self) -> u64 {
        self.unacknowledged.get()
    }

    fn close(&self) {}

    fn abort(&self) {
        self.aborted.set(self.aborted.get() + 1);
    }
}
