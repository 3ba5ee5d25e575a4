//! The causes of failed objects and sessions, in the categories of httperf.

use anabranch_transport::{CloseReason, ConnectError};

/// The cause of the failure of an object or a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Cause {
    /// The session was not established within the connect timeout.
    ConnectTimeout,
    /// An object made no progress within the timeout.
    Timeout,
    /// The transport gave up waiting for the peer.
    TransportTimeout,
    /// The connection was refused.
    Refused,
    /// The peer aborted the session.
    Reset,
    /// The peer closed the session gracefully before the reply was complete.
    ClosedEarly,
    /// The reply is not an HTTP response.
    Malformed,
    /// This process had no file descriptor left.
    Descriptors,
    /// All local ports are in use.
    Ports,
    /// The session was not begun, because the maximum number of sessions was open.
    Full,
    /// The network cannot be reached, or this host failed in another way.
    Network,
    /// The peer violated the transport protocol.
    Protocol,
}

impl Cause {
    /// All causes, in the order of their numbers.
    pub const ALL: [Self; 12] = [
        Self::ConnectTimeout,
        Self::Timeout,
        Self::TransportTimeout,
        Self::Refused,
        Self::Reset,
        Self::ClosedEarly,
        Self::Malformed,
        Self::Descriptors,
        Self::Ports,
        Self::Full,
        Self::Network,
        Self::Protocol,
    ];

    /// Returns the name of the cause in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ConnectTimeout => "connect_timeout",
            Self::Timeout => "timeout",
            Self::TransportTimeout => "transport_timeout",
            Self::Refused => "refused",
            Self::Reset => "reset",
            Self::ClosedEarly => "closed_early",
            Self::Malformed => "malformed",
            Self::Descriptors => "descriptors",
            Self::Ports => "ports",
            Self::Full => "full",
            Self::Network => "network",
            Self::Protocol => "protocol",
        }
    }

    pub(super) fn of_close(reason: &CloseReason) -> Self {
        match reason {
            CloseReason::Finished => Self::ClosedEarly,
            CloseReason::Reset(_) | CloseReason::Aborted | CloseReason::Cancelled => Self::Reset,
            CloseReason::Refused => Self::Refused,
            CloseReason::TimedOut(_) => Self::TransportTimeout,
            CloseReason::Protocol(_) | CloseReason::Untrusted(_) => Self::Protocol,
            CloseReason::Network(_) => Self::Network,
        }
    }

    pub(super) fn of_connect(error: &ConnectError) -> Self {
        match error {
            ConnectError::NoPort => Self::Ports,
            ConnectError::NoDescriptor => Self::Descriptors,
            ConnectError::NoRoute(_) | ConnectError::NoSuchServer(_) | ConnectError::Refused(_) => {
                Self::Network
            }
        }
    }
}
