//! The states of a connection.
//!
//! Home of RFC 9293 §3.3.2. LISTEN belongs to the endpoint, which keeps no
//! connection for it.

use std::fmt;

/// Where a connection is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum State {
    /// SYN sent, nothing heard.
    SynSent,
    /// SYN received and answered, its acknowledgement awaited.
    SynReceived,
    /// Data flows.
    Established,
    /// Our FIN is sent, not acknowledged; the peer's has not come.
    FinWait1,
    /// Our FIN is acknowledged; the peer's has not come.
    FinWait2,
    /// The peer's FIN has come, ours is not sent.
    CloseWait,
    /// Both FINs are sent, ours is not acknowledged, and the peer's came first after ours left.
    Closing,
    /// Both FINs are sent, ours as the answer and not acknowledged.
    LastAck,
    /// All is done; waits until old segments have died out.
    TimeWait,
    /// Over.
    Closed,
}

impl State {
    /// Both sides know each other's sequence numbers.
    #[must_use]
    pub const fn is_synchronized(self) -> bool {
        !matches!(self, Self::SynSent | Self::SynReceived | Self::Closed)
    }

    /// The peer may still send data.
    #[must_use]
    pub const fn receives(self) -> bool {
        matches!(self, Self::Established | Self::FinWait1 | Self::FinWait2)
    }
}

impl fmt::Display for State {
    /// As the RFC writes it: `SYN-SENT`.
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
