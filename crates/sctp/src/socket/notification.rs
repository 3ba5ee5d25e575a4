//! What a socket tells its application beside data.
//!
//! Home of RFC 6458 §6.1 (the notifications) and §6.2 (which of them are wanted).

use crate::event::Direction;
use crate::id::AssociationId;
use std::net::IpAddr;

/// Which notifications a socket is given (RFC 6458 §6.2.2, `SCTP_EVENT`).
///
/// The values are those of the events' order in RFC 6458 §6.1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum EventKind {
    /// `SCTP_ASSOC_CHANGE`.
    AssociationChange,
    /// `SCTP_PEER_ADDR_CHANGE`.
    PeerAddressChange,
    /// `SCTP_REMOTE_ERROR`.
    RemoteError,
    /// `SCTP_SEND_FAILED_EVENT`.
    SendFailed,
    /// `SCTP_SHUTDOWN_EVENT`.
    Shutdown,
    /// `SCTP_ADAPTATION_INDICATION`.
    Adaptation,
    /// `SCTP_PARTIAL_DELIVERY_EVENT`.
    PartialDelivery,
    /// `SCTP_AUTHENTICATION_EVENT`.
    Authentication,
    /// `SCTP_SENDER_DRY_EVENT`.
    SenderDry,
    /// `SCTP_STREAM_RESET_EVENT` (RFC 6525 §6.1.1).
    StreamReset,
    /// `SCTP_ASSOC_RESET_EVENT` (RFC 6525 §6.1.2).
    AssociationReset,
    /// `SCTP_STREAM_CHANGE_EVENT` (RFC 6525 §6.1.3).
    StreamChange,
    /// `SCTP_NOTIFICATIONS_STOPPED_EVENT`: subscribed with any other (RFC 6458 §6.1.10).
    Stopped,
}

/// A set of [`EventKind`]s.
///
/// ```
/// use anabranch_sctp::socket::{EventKind, EventSet};
/// let mut wanted = EventSet::default();
/// wanted.set(EventKind::SenderDry, true);
/// assert!(wanted.has(EventKind::SenderDry) && !wanted.has(EventKind::Shutdown));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EventSet(u16);

impl EventSet {
    /// Whether `kind` is in it.
    #[must_use]
    pub fn has(self, kind: EventKind) -> bool {
        self.0 >> kind as u16 & 1 == 1
    }

    /// Puts `kind` in or takes it out.
    pub fn set(&mut self, kind: EventKind, on: bool) {
        let bit = 1 << kind as u16;
        self.0 = if on { self.0 | bit } else { self.0 & !bit };
    }
}

/// What has become of an association (RFC 6458 §6.1.1, `sac_state`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AssociationChange {
    /// `SCTP_COMM_UP`: it is up.
    Up,
    /// `SCTP_COMM_LOST`: it failed or was aborted; the first cause code of the peer's ABORT, if it gave one.
    Lost(Option<u16>),
    /// `SCTP_RESTART`: the peer has restarted it.
    Restart,
    /// `SCTP_SHUTDOWN_COMP`: it has ended in good order.
    ShutdownComplete,
    /// `SCTP_CANT_STR_ASSOC`: it could not be set up.
    CannotStart,
}

/// What has become of a peer's address (RFC 6458 §6.1.2, `spc_state`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddressChange {
    /// `SCTP_ADDR_AVAILABLE`: it answers, again or for the first time.
    Available,
    /// `SCTP_ADDR_POTENTIALLY_FAILED`: it may not answer any more (RFC 7829 §7.1).
    PotentiallyFailed,
    /// `SCTP_ADDR_UNREACHABLE`: it does not answer any more.
    Unreachable,
    /// `SCTP_ADDR_REMOVED`: the peer has taken it away (RFC 5061).
    Removed,
    /// `SCTP_ADDR_ADDED`: the peer has added it (RFC 5061).
    Added,
    /// `SCTP_ADDR_MADE_PRIM`: it has become the primary (RFC 5061).
    MadePrimary,
}

/// One notification (RFC 6458 §6.1, `union sctp_notification`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notification {
    /// An association has begun, ended or restarted (§6.1.1).
    AssociationChange {
        /// Which.
        association: AssociationId,
        /// What has become of it.
        change: AssociationChange,
        /// Streams this side may send on.
        outbound_streams: u16,
        /// Streams the peer may send on.
        inbound_streams: u16,
    },
    /// An address of the peer has changed (§6.1.2).
    PeerAddressChange {
        /// Of which association.
        association: AssociationId,
        /// The address.
        address: IpAddr,
        /// What has become of it.
        change: AddressChange,
    },
    /// The peer has sent an ERROR (§6.1.3).
    RemoteError {
        /// On which association.
        association: AssociationId,
        /// The cause code.
        code: u16,
        /// What the cause says, without its header.
        data: Vec<u8>,
    },
    /// A message could not be delivered (§6.1.11).
    SendFailed {
        /// On which association.
        association: AssociationId,
        /// Some of it had been sent.
        sent: bool,
        /// What went with it.
        context: u32,
        /// The stream.
        stream: u16,
        /// Its payload protocol identifier.
        ppid: u32,
        /// Its length in bytes. Its bytes the engine does not give back.
        bytes: u32,
    },
    /// The peer has begun to shut down: no more can be sent (§6.1.5).
    Shutdown {
        /// Which.
        association: AssociationId,
    },
    /// What the peer's layer above says of itself (§6.1.6, RFC 5061 §4.2.6).
    Adaptation {
        /// Whose.
        association: AssociationId,
        /// The indication.
        indication: u32,
    },
    /// A message that was handed out in parts will not be completed (§6.1.7).
    PartialDeliveryAborted {
        /// On which association.
        association: AssociationId,
        /// The stream.
        stream: u16,
    },
    /// A key is in use, out of use, or the peer does not authenticate (§6.1.8).
    Authentication {
        /// On which association.
        association: AssociationId,
        /// The key's number.
        key: u16,
        /// What happened.
        change: KeyChange,
    },
    /// Everything that was sent has been acknowledged (§6.1.9).
    SenderDry {
        /// On which association.
        association: AssociationId,
    },
    /// Streams begin anew (RFC 6525 §6.1.1).
    StreamReset {
        /// On which association.
        association: AssociationId,
        /// The streams; none are all.
        streams: Vec<u16>,
        /// Those this side sends on, the peer's, or both.
        direction: Direction,
        /// It was refused or failed.
        failed: bool,
    },
    /// SSNs and TSNs begin anew (RFC 6525 §6.1.2).
    AssociationReset {
        /// Which.
        association: AssociationId,
        /// The next TSN of this side; 0 when it failed.
        local_tsn: u32,
        /// The next TSN of the peer; 0 when it failed.
        remote_tsn: u32,
        /// It was refused or failed.
        failed: bool,
    },
    /// Streams were added (RFC 6525 §6.1.3).
    StreamChange {
        /// On which association.
        association: AssociationId,
        /// Streams the peer may send on now, or that it should have got.
        inbound_streams: u16,
        /// Streams this side may send on now, or that it should have got.
        outbound_streams: u16,
        /// It was refused or failed.
        failed: bool,
    },
    /// There was no room for more notifications: none comes any more until they are subscribed
    /// anew (§6.1.10).
    Stopped {
        /// The association that there would have been more to tell of.
        association: AssociationId,
    },
}

/// What happened to a key (RFC 6458 §6.1.8, `auth_indication`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyChange {
    /// `SCTP_AUTH_NEW_KEY`: the peer uses it for the first time.
    New,
    /// `SCTP_AUTH_FREE_KEY`: nothing sent under it waits any more.
    Free,
    /// `SCTP_AUTH_NO_AUTH`: the peer does not support AUTH.
    NoAuth,
    /// The peer signs with it, and it is not known here (RFC 6458 has no word for that).
    Unknown,
}

impl Notification {
    /// Its kind, by which it is subscribed.
    #[must_use]
    pub fn kind(&self) -> EventKind {
        match self {
            Self::AssociationChange { .. } => EventKind::AssociationChange,
            Self::PeerAddressChange { .. } => EventKind::PeerAddressChange,
            Self::RemoteError { .. } => EventKind::RemoteError,
            Self::SendFailed { .. } => EventKind::SendFailed,
            Self::Shutdown { .. } => EventKind::Shutdown,
            Self::Adaptation { .. } => EventKind::Adaptation,
            Self::PartialDeliveryAborted { .. } => EventKind::PartialDelivery,
            Self::Authentication { .. } => EventKind::Authentication,
            Self::SenderDry { .. } => EventKind::SenderDry,
            Self::StreamReset { .. } => EventKind::StreamReset,
            Self::AssociationReset { .. } => EventKind::AssociationReset,
            Self::StreamChange { .. } => EventKind::StreamChange,
            Self::Stopped { .. } => EventKind::Stopped,
        }
    }

    /// The association it is about.
    #[must_use]
    pub fn association(&self) -> AssociationId {
        match self {
            Self::AssociationChange { association, .. }
            | Self::PeerAddressChange { association, .. }
            | Self::RemoteError { association, .. }
            | Self::SendFailed { association, .. }
            | Self::Shutdown { association }
            | Self::Adaptation { association, .. }
            | Self::PartialDeliveryAborted { association, .. }
            | Self::Authentication { association, .. }
            | Self::SenderDry { association }
            | Self::StreamReset { association, .. }
            | Self::AssociationReset { association, .. }
            | Self::StreamChange { association, .. }
            | Self::Stopped { association } => *association,
        }
    }
}
