//! Opening sessions and taking them in, whatever the transport.
//!
//! Client code is generic over a [`Connector`], server code over a
//! [`Listener`]; which transport runs underneath is decided where they are made.

use crate::session::{CloseReason, Session};
use std::future::poll_fn;
use std::task::{Context, Poll};

/// Why a session could not even be begun. What goes wrong later is a
/// [`CloseReason`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConnectError {
    /// All local ports towards that server are in use.
    #[error("no local port is free")]
    NoPort,
    /// The host has no file descriptor left.
    #[error("out of file descriptors")]
    NoDescriptor,
    /// We have no address that could talk to that server.
    #[error("no local address can reach {0}")]
    NoRoute(String),
    /// There is no server of that number.
    #[error("there is no server {0}")]
    NoSuchServer(usize),
    /// The engine refused, with its reason.
    #[error("{0}")]
    Refused(String),
}

/// Why a port cannot be listened on.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ListenError {
    /// Somebody listens there.
    #[error("port {0} is in use")]
    PortInUse(u16),
    /// The engine refused, with its reason.
    #[error("{0}")]
    Refused(String),
}

/// Opens sessions to the servers it was made for. A clone opens to the same servers.
pub trait Connector: Clone + 'static {
    /// What it opens.
    type Session: Session;

    /// Begins a session to server number `server` (0 when there is one). The
    /// session has its [`id`](Session::id) at once; the handshake goes on in the
    /// background: see [`Session::established`].
    ///
    /// # Errors
    /// [`ConnectError`] when nothing could be begun.
    fn connect(&self, server: usize) -> Result<Self::Session, ConnectError>;

    /// The stream pairs that a new session asks for; 1 where a session is one stream.
    fn streams(&self) -> u64;

    /// Each exchange has a fresh stream, and `streams` says how many there may be at a time.
    fn fresh_streams(&self) -> bool {
        false
    }
}

/// Takes in the sessions that peers open to one port. Dropping it stops that.
pub trait Listener: 'static {
    /// What it takes in.
    type Session: Session;

    /// The next session that is established. Sessions wait here until they are
    /// taken; the engine's backlog bounds how many.
    ///
    /// # Errors
    /// The host has failed: nothing more will come.
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<Self::Session, CloseReason>>;

    /// The port.
    fn port(&self) -> u16;

    /// Waits for the next session.
    #[expect(async_fn_in_trait, reason = "worlds are single-threaded: no bound on the futures is wanted")]
    async fn accept(&mut self) -> Result<Self::Session, CloseReason> {
        poll_fn(|cx| self.poll_accept(cx)).await
    }
}
