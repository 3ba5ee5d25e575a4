//! The notifications that a socket passes to its application.
//!
//! Implements RFC 6458 §6.1 (the notifications) and §6.2 (the subscriptions).

use crate::event::Direction;
use crate::id::AssociationId;
use std::net::IpAddr;

/// The kinds of notifications that a socket can subscribe to (RFC 6458 §6.2.2, `SCTP_EVENT`).
///
/// The kinds are numbered in the order of RFC 6458 §6.1.
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
    /// `SCTP_NOTIFICATIONS_STOPPED_EVENT`: an application that subscribes to any other kind is subscribed to this kind
    /// as well (RFC 6458 §6.1.10).
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
    /// Returns true if the set contains `kind`.
    #[must_use]
    pub fn has(self, kind: EventKind) -> bool {
        self.0 >> kind as u16 & 1 == 1
    }

    /// Adds `kind` to the set if `on`, otherwise removes it.
    pub fn set(&mut self, kind: EventKind, on: bool) {
        let bit = 1 << kind as u16;
        self.0 = if on { self.0 | bit } else { self.0 & !bit };
    }
}

/// The change of an association (RFC 6458 §6.1.1, `sac_state`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AssociationChange {
    /// `SCTP_COMM_UP`: the association is established.
    Up,
    /// `SCTP_COMM_LOST`: the association failed or was aborted. Contains the first cause code of the peer's ABORT, if
    /// there is one.
    Lost(Option<u16>),
    /// `SCTP_RESTART`: the peer has restarted the association.
    Restart,
    /// `SCTP_SHUTDOWN_COMP`: the association has shut down gracefully.
    ShutdownComplete,
    /// `SCTP_CANT_STR_ASSOC`: the association could not be established.
    CannotStart,
}

/// The change of an address of the peer (RFC 6458 §6.1.2, `spc_state`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddressChange {
    /// `SCTP_ADDR_AVAILABLE`: the address is reachable, again or for the first time.
    Available,
    /// `SCTP_ADDR_POTENTIALLY_FAILED`: the address may have become unreachable (RFC 7829 §7.1).
    PotentiallyFailed,
    /// `SCTP_ADDR_UNREACHABLE`: the address has become unreachable.
    Unreachable,
    /// `SCTP_ADDR_REMOVED`: the peer has deleted the address (RFC 5061).
    Removed,
    /// `SCTP_ADDR_ADDED`: the peer has added the address (RFC 5061).
    Added,
    /// `SCTP_ADDR_MADE_PRIM`: the address has become the primary address (RFC 5061).
    MadePrimary,
}

/// A notification (RFC 6458 §6.1, `union sctp_notification`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notification {
    /// An association was established, has ended, or was restarted (§6.1.1).
    AssociationChange {
        /// The association.
        association: AssociationId,
        /// The change.
        change: AssociationChange,
        /// Number of streams that this side may send on.
        outbound_streams: u16,
        /// Number of streams that the peer may send on.
        inbound_streams: u16,
    },
    /// The state of an address of the peer has changed, or the peer has added or removed an address (§6.1.2).
    PeerAddressChange {
        /// The association.
        association: AssociationId,
        /// The address.
        address: IpAddr,
        /// The change.
        change: AddressChange,
    },
    /// The peer has sent an ERROR chunk (§6.1.3).
    RemoteError {
        /// The association.
        association: AssociationId,
        /// The cause code.
        code: u16,
        /// The contents of the cause, without its header.
        data: Vec<u8>,
    },
    /// A message could not be delivered (§6.1.11).
    SendFailed {
        /// The association.
        association: AssociationId,
        /// Whether a part of the message had been sent.
        sent: bool,
        /// The context that was passed to `send` with the message.
        context: u32,
        /// The stream of the message.
        stream: u16,
        /// The payload protocol identifier of the message.
        ppid: u32,
        /// The length of the message in bytes. The contents are not returned.
        bytes: u32,
    },
    /// The peer has started a shutdown: no more data can be sent (§6.1.5).
    Shutdown {
        /// The association.
        association: AssociationId,
    },
    /// The adaptation code point of the peer's upper layer (§6.1.6, RFC 5061 §4.2.6).
    Adaptation {
        /// The association.
        association: AssociationId,
        /// The adaptation code point.
        indication: u32,
    },
    /// A partially delivered message will not be completed (§6.1.7).
    PartialDeliveryAborted {
        /// The association.
        association: AssociationId,
        /// The stream of the message.
        stream: u16,
    },
    /// The use of a key has changed, or the peer does not support AUTH (§6.1.8).
    Authentication {
        /// The association.
        association: AssociationId,
        /// The key identifier.
        key: u16,
        /// The change.
        change: KeyChange,
    },
    /// All data that was sent has been acknowledged (§6.1.9).
    SenderDry {
        /// The association.
        association: AssociationId,
    },
    /// Streams were reset, or a request to reset them failed (RFC 6525 §6.1.1).
    StreamReset {
        /// The association.
        association: AssociationId,
        /// The streams. An empty list stands for all streams.
        streams: Vec<u16>,
        /// Whether the streams are outgoing, incoming, or both.
        direction: Direction,
        /// True if the peer denied the request, or if the request failed for another reason.
        failed: bool,
    },
    /// The SSNs and TSNs were reset, or a request to reset them failed (RFC 6525 §6.1.2).
    AssociationReset {
        /// The association.
        association: AssociationId,
        /// The TSN of the next chunk that this side sends; 0 if the reset failed.
        local_tsn: u32,
        /// The TSN of the next chunk that the peer sends; 0 if the reset failed.
        remote_tsn: u32,
        /// True if the peer denied the request, or if the request failed for another reason.
        failed: bool,
    },
    /// Streams were added, or a request to add streams failed (RFC 6525 §6.1.3).
    StreamChange {
        /// The association.
        association: AssociationId,
        /// Number of streams on which the peer may send. If `failed` is true, the number of additional inbound streams
        /// that this side requested.
        inbound_streams: u16,
        /// Number of streams on which this side may send. If `failed` is true, the number of additional outbound
        /// streams that this side requested.
        outbound_streams: u16,
        /// True if the peer denied the request, or if the request failed for another reason.
        failed: bool,
    },
    /// The notification queue was full. No more notifications follow until the application subscribes again (RFC 6458
    /// §6.1.10).
    Stopped {
        /// The association of the first notification that was dropped.
        association: AssociationId,
    },
}

/// What has changed for an AUTH key (RFC 6458 §6.1.8, `auth_indication`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyChange {
    /// `SCTP_AUTH_NEW_KEY`: the peer has started to use the key.
    New,
    /// `SCTP_AUTH_FREE_KEY`: this side no longer uses the key, and all data authenticated with it is acknowledged.
    Free,
    /// `SCTP_AUTH_NO_AUTH`: the peer does not support AUTH.
    NoAuth,
    /// The peer uses a key that this side does not know. RFC 6458 has no value for this indication.
    Unknown,
}

impl Notification {
    /// Returns the kind of the notification. The application subscribes to kinds.
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

    /// Returns the association that the notification is about.
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
