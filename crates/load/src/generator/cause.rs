//! Why an object or a session failed, in kinds that httperf's readers know.

use anabranch_transport::{CloseReason, ConnectError};

/// A kind of failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Cause {
    /// No session within the connect timeout.
    ConnectTimeout,
    /// An object made no progress within the timeout.
    Timeout,
    /// The transport gave up on the peer.
    TransportTimeout,
    /// Nobody listens there.
    Refused,
    /// The peer ended the session at once.
    Reset,
    /// The peer ended the session in good order before the answer was complete.
    ClosedEarly,
    /// The reply is no HTTP response.
    Malformed,
    /// Out of file descriptors.
    Descriptors,
    /// All local ports are in use.
    Ports,
    /// The session was not begun: as many as are allowed were open.
    Full,
    /// The network cannot be reached, or another failure of this host.
    Network,
    /// The peer broke the transport's protocol.
    Protocol,
}

impl Cause {
    /// All, in order.
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

    /// Its name in results.
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
