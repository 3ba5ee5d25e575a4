//! The state of an association.
//!
//! Each variant of `State` owns the data that is needed in that state only.
//!
//! Implements RFC 9260 §4.

use crate::stats::AssociationState;

/// The state according to RFC 9260 §4. An association in CLOSED keeps only unread data.
///
/// The state is read several times per packet. With `repr(u8)` the discriminant has a byte of its own, which is faster
/// to read than a niche in the data of COOKIE-ECHOED.
#[derive(Debug)]
#[repr(u8)]
pub(crate) enum State {
    CookieWait(CookieWaitState),
    CookieEchoed(Box<CookieEchoedState>),
    Established,
    ShutdownPending,
    ShutdownSent,
    ShutdownReceived,
    ShutdownAckSent,
    Closed,
}

/// The data that is needed while waiting for the answer to the INIT.
#[derive(Debug, Default)]
pub(crate) struct CookieWaitState {
    /// Retransmissions of the INIT so far.
    pub(crate) retries: u32,
    /// The time in milliseconds by which to extend the cookie's lifetime. The INIT requests it in a Cookie
    /// Preservative.
    pub(crate) preserve_ms: Option<u32>,
    /// The number of stale cookies so far.
    pub(crate) stale_cookies: u32,
    /// The number of unanswered COOKIE ECHOs that carried an earlier cookie. The peer may still answer each of them
    /// with a Stale Cookie error.
    pub(crate) unanswered_echoes: u32,
}

/// The data that is needed while waiting for the answer to the COOKIE ECHO.
#[derive(Debug)]
pub(crate) struct CookieEchoedState {
    /// The peer's State Cookie.
    pub(crate) cookie: Vec<u8>,
    /// Retransmissions of the COOKIE ECHO so far.
    pub(crate) retries: u32,
    /// The number of stale cookies so far.
    pub(crate) stale_cookies: u32,
    /// The number of unanswered COOKIE ECHOs that carried an earlier cookie. The peer may still answer each of them
    /// with a Stale Cookie error.
    pub(crate) unanswered_echoes: u32,
    /// Whether the INIT that the peer answered with this cookie was sent more than once.
    pub(crate) init_repeated: bool,
}

impl CookieEchoedState {
    /// Returns whether an earlier COOKIE ECHO was sent without success: this COOKIE ECHO was retransmitted, or the peer
    /// reported an earlier cookie as stale.
    pub(crate) fn is_overdue(&self) -> bool {
        self.retries > 0 || self.stale_cookies > 0
    }
}

impl State {
    pub(crate) fn public(&self) -> AssociationState {
        match self {
            Self::CookieWait(_) => AssociationState::CookieWait,
            Self::CookieEchoed(_) => AssociationState::CookieEchoed,
            Self::Established => AssociationState::Established,
            Self::ShutdownPending => AssociationState::ShutdownPending,
            Self::ShutdownSent => AssociationState::ShutdownSent,
            Self::ShutdownReceived => AssociationState::ShutdownReceived,
            Self::ShutdownAckSent => AssociationState::ShutdownAckSent,
            Self::Closed => AssociationState::Closed,
        }
    }

    /// RFC 9260 §5, §6: returns whether DATA may be sent, apart from DATA bundled with COOKIE ECHO.
    #[inline]
    pub(crate) fn may_send_data(&self) -> bool {
        matches!(self, Self::Established | Self::ShutdownPending | Self::ShutdownReceived)
    }

    /// RFC 9260 §6: returns whether DATA is accepted.
    #[inline]
    pub(crate) fn may_receive_data(&self) -> bool {
        matches!(self, Self::Established | Self::ShutdownPending | Self::ShutdownSent)
    }

    /// Returns whether the application may send messages.
    pub(crate) fn accepts_messages(&self) -> bool {
        matches!(self, Self::CookieWait(_) | Self::CookieEchoed(_) | Self::Established)
    }

    /// Returns whether the handshake is complete and the association has not ended.
    #[inline]
    pub(crate) fn is_up(&self) -> bool {
        !matches!(self, Self::CookieWait(_) | Self::CookieEchoed(_) | Self::Closed)
    }
}
