//! Traits for opening and accepting sessions, independent of the transport.
//!
//! Client code is generic over a [`Connector`], and server code is generic over a [`Listener`]. The code that creates
//! the connector or listener chooses the transport.

use crate::session::{CloseReason, Session};
use std::future::poll_fn;
use std::task::{Context, Poll};

/// The reason why a session could not be started. A session that fails later ends with a [`CloseReason`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConnectError {
    /// All local ports for sessions to this server are in use.
    #[error("no local port is free")]
    NoPort,
    /// The process has no file descriptor left.
    #[error("out of file descriptors")]
    NoDescriptor,
    /// The host has no address from which it could reach the server.
    #[error("no local address can reach {0}")]
    NoRoute(String),
    /// The connector has no server with this number.
    #[error("there is no server {0}")]
    NoSuchServer(usize),
    /// The engine refused to start the session, for the reason in the text.
    #[error("{0}")]
    Refused(String),
}

/// The reason why a listener could not be created.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ListenError {
    /// Another listener uses the port.
    #[error("port {0} is in use")]
    PortInUse(u16),
    /// The engine refused to listen, for the reason in the text.
    #[error("{0}")]
    Refused(String),
}

/// Opens sessions to the servers for which it was created. A clone opens sessions to the same servers.
pub trait Connector: Clone + 'static {
    /// The type of the sessions that [`connect`](Self::connect) returns.
    type Session: Session;

    /// Starts a session to the server with the number `server`; servers are counted from 0. The session's
    /// [`id`](Session::id) is valid immediately. The handshake continues in the background; see
    /// [`Session::established`].
    ///
    /// # Errors
    /// [`ConnectError`] if the session could not be started.
    fn connect(&self, server: usize) -> Result<Self::Session, ConnectError>;

    /// Returns the number of stream pairs that a new session requests; 1 if a session has a single stream.
    fn streams(&self) -> u64;

    /// Returns whether each exchange has a fresh stream. If so, [`streams`](Self::streams) is the number of streams
    /// that may be open at the same time.
    fn fresh_streams(&self) -> bool {
        false
    }
}

/// Accepts the sessions that peers open to one port. Dropping the listener stops listening.
pub trait Listener: 'static {
    /// The type of the accepted sessions.
    type Session: Session;

    /// Accepts the next established session. Established sessions wait in the listener until they are accepted. The
    /// engine's backlog limits their number.
    ///
    /// # Errors
    /// The host has failed, and no further session will arrive.
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<Self::Session, CloseReason>>;

    /// Returns the port of this listener.
    fn port(&self) -> u16;

    /// Waits for the next established session and accepts it.
    #[expect(async_fn_in_trait, reason = "worlds are single-threaded: no bound on the futures is wanted")]
    async fn accept(&mut self) -> Result<Self::Session, CloseReason> {
        poll_fn(|cx| self.poll_accept(cx)).await
    }
}
