//! Opening and accepting sessions, independent of the transport.
//!
//! Client code is generic over a [`Connector`], server code over a
//! [`Listener`]; the transport is chosen where they are created.

use crate::session::{CloseReason, Session};
use std::future::poll_fn;
use std::task::{Context, Poll};

/// Why a session could not be begun. Later failures are reported as a
/// [`CloseReason`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConnectError {
    /// All local ports towards that server are in use.
    #[error("no local port is free")]
    NoPort,
    /// The host has no file descriptor left.
    #[error("out of file descriptors")]
    NoDescriptor,
    /// This host has no address from which it could reach that server.
    #[error("no local address can reach {0}")]
    NoRoute(String),
    /// There is no server of that number.
    #[error("there is no server {0}")]
    NoSuchServer(usize),
    /// The engine refused, with this reason.
    #[error("{0}")]
    Refused(String),
}

/// Why a port cannot be listened on.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ListenError {
    /// Another listener uses the port.
    #[error("port {0} is in use")]
    PortInUse(u16),
    /// The engine refused, with this reason.
    #[error("{0}")]
    Refused(String),
}

/// Opens sessions to the servers it was created for. A clone opens sessions to the same
/// servers.
pub trait Connector: Clone + 'static {
    /// The type of the sessions it opens.
    type Session: Session;

    /// Begins a session to server number `server` (0 when there is only one). The
    /// session has its [`id`](Session::id) at once; the handshake continues in the
    /// background, see [`Session::established`].
    ///
    /// # Errors
    /// [`ConnectError`] when nothing could be begun.
    fn connect(&self, server: usize) -> Result<Self::Session, ConnectError>;

    /// The number of stream pairs that a new session asks for; 1 where a session is one
    /// stream.
    fn streams(&self) -> u64;

    /// Whether each exchange has a fresh stream; then `streams` is the number that may be
    /// open at a time.
    fn fresh_streams(&self) -> bool {
        false
    }
}

/// Accepts the sessions that peers open to one port. Dropping it stops listening.
pub trait Listener: 'static {
    /// The type of the sessions it accepts.
    type Session: Session;

    /// Accepts the next established session. Sessions wait here until they are
    /// accepted; the engine's backlog limits how many.
    ///
    /// # Errors
    /// The host has failed: no further session will arrive.
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<Self::Session, CloseReason>>;

    /// The port it listens on.
    fn port(&self) -> u16;

    /// Waits for the next session.
    #[expect(async_fn_in_trait, reason = "worlds are single-threaded: no bound on the futures is wanted")]
    async fn accept(&mut self) -> Result<Self::Session, CloseReason> {
        poll_fn(|cx| self.poll_accept(cx)).await
    }
}
