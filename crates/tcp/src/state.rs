//! The states of a TCP connection.
//!
//! Implements RFC 9293 §3.3.2. The state LISTEN belongs to the endpoint, because a listener has no connection.

use std::fmt;

/// The state of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum State {
    /// A SYN was sent, and no answer has arrived.
    SynSent,
    /// A SYN was received and answered, and the answer is not acknowledged yet.
    SynReceived,
    /// Open: data flows in both directions.
    Established,
    /// Our FIN has been sent but is not acknowledged; the peer's FIN has not arrived.
    FinWait1,
    /// Our FIN has been acknowledged; the peer's FIN has not arrived.
    FinWait2,
    /// The peer's FIN has arrived; our FIN has not been sent.
    CloseWait,
    /// Both FINs have been sent, and our FIN is not acknowledged. Our FIN was sent before the peer's FIN arrived.
    Closing,
    /// Both FINs have been sent, and our FIN is not acknowledged. Our FIN was sent after the peer's FIN arrived.
    LastAck,
    /// Both sides have finished; the connection waits until old segments have left the network.
    TimeWait,
    /// The connection has ended.
    Closed,
}

impl State {
    /// Returns whether both sides have received each other's SYN.
    #[must_use]
    pub const fn is_synchronized(self) -> bool {
        !matches!(self, Self::SynSent | Self::SynReceived | Self::Closed)
    }

    /// Returns whether the peer may still send data.
    #[must_use]
    pub const fn receives(self) -> bool {
        matches!(self, Self::Established | Self::FinWait1 | Self::FinWait2)
    }
}

impl fmt::Display for State {
    /// Writes the name of the state in RFC 9293, for example `SYN-SENT`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SynSent => "SYN-SENT",
            Self::SynReceived => "SYN-RECEIVED",
            Self::Established => "ESTABLISHED",
            Self::FinWait1 => "FIN-WAIT-1",
            Self::FinWait2 => "FIN-WAIT-2",
            Self::CloseWait => "CLOSE-WAIT",
            Self::Closing => "CLOSING",
            Self::LastAck => "LAST-ACK",
            Self::TimeWait => "TIME-WAIT",
            Self::Closed => "CLOSED",
        })
    }
}
