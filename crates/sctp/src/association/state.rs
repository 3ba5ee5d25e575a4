//! Where an association stands.
//!
//! Each variant owns what only that state needs.
//!
//! Home of RFC 9260 §4.

use crate::stats::AssociationState;

/// The state of RFC 9260 §4; CLOSED keeps only what can still be read.
///
/// It is asked for several times a packet: a tag of its own is read faster than
/// one that is hidden in what COOKIE-ECHOED holds.
#[derive(Debug)]
#[repr(u8)]
pub(crate) enum State {
    CookieWait(Init),
    CookieEchoed(Box<Echo>),
    Established,
    ShutdownPending,
    ShutdownSent,
    ShutdownReceived,
    ShutdownAckSent,
    Closed,
}

/// What is needed while INIT is unanswered.
#[derive(Debug, Default)]
pub(crate) struct Init {
    /// Retransmissions so far.
    pub(crate) retries: u32,
    /// Milliseconds to ask for in a Cookie Preservative.
    pub(crate) preserve_ms: Option<u32>,
    /// Stale cookies so far.
    pub(crate) stale: u32,
    /// COOKIE ECHOs with stale cookies that may still be answered.
    pub(crate) late: u32,
}

/// What is needed while COOKIE ECHO is unanswered.
#[derive(Debug)]
pub(crate) struct Echo {
    /// The peer's State Cookie.
    pub(crate) cookie: Vec<u8>,
    /// Retransmissions so far.
    pub(crate) retries: u32,
    /// Stale cookies so far.
    pub(crate) stale: u32,
    /// COOKIE ECHOs with stale cookies that may still be answered.
    pub(crate) late: u32,
    /// The INIT that the cookie answers was sent more than once.
    pub(crate) init_repeated: bool,
}

impl Echo {
    /// One has gone unanswered before, with this cookie or with one that is stale by now.
    pub(crate) fn is_overdue(&self) -> bool {
        self.retries > 0 || self.stale > 0
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

    /// RFC 9260 §5, §6: DATA may be sent (beside what rides with COOKIE ECHO).
    #[inline]
    pub(crate) fn may_send_data(&self) -> bool {
        matches!(self, Self::Established | Self::ShutdownPending | Self::ShutdownReceived)
    }

    /// RFC 9260 §6: DATA is taken in.
    #[inline]
    pub(crate) fn may_receive_data(&self) -> bool {
        matches!(self, Self::Established | Self::ShutdownPending | Self::ShutdownSent)
    }

    /// The application may add messages.
    pub(crate) fn accepts_messages(&self) -> bool {
        matches!(self, Self::CookieWait(_) | Self::CookieEchoed(_) | Self::Established)
    }

    /// The handshake is over and the end has not come.
    #[inline]
    pub(crate) fn is_up(&self) -> bool {
        !matches!(self, Self::CookieWait(_) | Self::CookieEchoed(_) | Self::Closed)
    }
}
