//! The events that the application receives.

use crate::ConnectionId;

/// An event of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// An outgoing connection is open.
    Connected {
        /// The connection.
        id: ConnectionId,
    },
    /// An incoming connection is open.
    Accepted {
        /// The connection.
        id: ConnectionId,
        /// The listening port.
        port: u16,
    },
    /// Data can be read. After this event, more data causes no further event until the application calls `recv`.
    Readable {
        /// The connection.
        id: ConnectionId,
    },
    /// The send buffer has room again. Emitted only after `send` accepted fewer bytes than it was given.
    Writable {
        /// The connection.
        id: ConnectionId,
    },
    /// The peer will send no more data: its FIN arrived in order. Earlier data may still be unread.
    Finished {
        /// The connection.
        id: ConnectionId,
    },
    /// The connection has ended and its id is no longer valid.
    Closed {
        /// The connection.
        id: ConnectionId,
        /// The reason.
        reason: CloseReason,
    },
}

/// The reason why a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, thiserror::Error)]
pub enum CloseReason {
    /// Both sides finished, and all data was acknowledged and read.
    #[error("closed by both sides")]
    Finished,
    /// The peer refused the connection.
    #[error("connection refused")]
    Refused,
    /// The peer reset the connection.
    #[error("connection reset by the peer")]
    Reset,
    /// The peer did not answer the handshake.
    #[error("the handshake timed out")]
    HandshakeTimedOut,
    /// Data was not acknowledged for too long.
    #[error("the connection timed out")]
    TimedOut,
    /// The network reported that the peer is unreachable. The value is the code of the ICMP message.
    #[error("unreachable (code {0})")]
    Unreachable(u8),
    /// The local application aborted the connection.
    #[error("aborted")]
    Aborted,
    /// The host no longer has the local address of the connection.
    #[error("its address is gone")]
    AddressGone,
}
