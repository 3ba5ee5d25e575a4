//! What the application learns.

use crate::ConnectionId;

/// Something happened to a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// An outgoing connection is open.
    Connected {
        /// Which.
        id: ConnectionId,
    },
    /// A connection came in and is open.
    Accepted {
        /// Which.
        id: ConnectionId,
        /// The port that listened.
        port: u16,
    },
    /// Data may be read. Told once until `recv` is called.
    Readable {
        /// Which.
        id: ConnectionId,
    },
    /// The send buffer has room again, after `send` took less than it was given.
    Writable {
        /// Which.
        id: ConnectionId,
    },
    /// The peer will send no more: its FIN arrived in order. Data before it may be still unread.
    Finished {
        /// Which.
        id: ConnectionId,
    },
    /// The connection is over; its id means nothing any more.
    Closed {
        /// Which.
        id: ConnectionId,
        /// Why.
        reason: CloseReason,
    },
}

/// Why a connection is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, thiserror::Error)]
pub enum CloseReason {
    /// Both sides finished, everything was acknowledged and read.
    #[error("closed by both sides")]
    Finished,
    /// The peer refused the connection.
    #[error("connection refused")]
    Refused,
    /// The peer reset the connection.
    #[error("connection reset by the peer")]
    Reset,
    /// The handshake was not answered.
    #[error("the handshake timed out")]
    HandshakeTimedOut,
    /// Data was not acknowledged for too long.
    #[error("the connection timed out")]
    TimedOut,
    /// The network said that the peer cannot be reached (the code of the ICMP message).
    #[error("unreachable (code {0})")]
    Unreachable(u8),
    /// The application here aborted it.
    #[error("aborted")]
    Aborted,
    /// The host no longer has the address that it was opened from.
    #[error("its address is gone")]
    AddressGone,
}
