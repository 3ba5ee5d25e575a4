//! Events that an association reports to the application.
//!
//! Home of RFC 9260 §11.2 (notifications from SCTP to its user).

use crate::id::AssociationId;
use crate::reliability::Policy;
use anabranch_base::time::Duration;
use std::net::IpAddr;

/// An event that the application may need to act on.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// An association that this side began is established (RFC 9260 §11.2.4).
    Established {
        /// The association.
        id: AssociationId,
        /// Streams this side may send on.
        outbound_streams: u16,
        /// Streams the peer may send on.
        inbound_streams: u16,
    },
    /// A peer has set up an association with a listening port.
    Accepted {
        /// The association.
        id: AssociationId,
        /// The listening port.
        port: u16,
        /// The peer's port.
        peer_port: u16,
        /// The peer's address that is used first.
        peer: IpAddr,
        /// Streams this side may send on.
        outbound_streams: u16,
        /// Streams the peer may send on.
        inbound_streams: u16,
    },
    /// A stream has data to read. The event comes once. It comes again only after a `recv` on that stream has returned
    /// `None`, or `recv_bytes` has reported that nothing is left.
    Readable {
        /// The association.
        id: AssociationId,
        /// The stream.
        stream: u16,
    },
    /// The send buffer has room again after a `SendError::Full`.
    Writable {
        /// The association.
        id: AssociationId,
    },
    /// The bytes of a stream in the send buffer have fallen to the threshold set with `Endpoint::set_buffered_amount_low`.
    BufferedAmountLow {
        /// The association.
        id: AssociationId,
        /// The stream.
        stream: u16,
    },
    /// A message was abandoned as its `Reliability` demands (RFC 3758 §4.1 TR3, RFC 9260 §11.2.2). One event is reported
    /// for each message. When about 65,000 events are waiting, no more are added; the counters still count.
    Abandoned {
        /// The association.
        id: AssociationId,
        /// The stream that the message was sent on.
        stream: u16,
        /// The payload protocol identifier of the message.
        ppid: u32,
        /// The `context` that the message was sent with.
        context: u32,
        /// The length of the message, bytes.
        bytes: u32,
        /// The message was sent unordered.
        unordered: bool,
        /// The policy that abandoned the message.
        policy: Policy,
        /// At least a part of the message had been sent, so it may have arrived.
        sent: bool,
    },
    /// A message will not be delivered, as far as this side knows (RFC 9260 §11.2.2). Its association has ended (`Closed`
    /// follows), the peer has restarted (`Restarted` follows), or the peer does not grant its stream.
    ///
    /// One event is reported for each message that was neither acknowledged nor abandoned before. When about 65,000 events
    /// are waiting, no more are added; the counters still count.
    SendFailed {
        /// The association.
        id: AssociationId,
        /// The stream that the message was sent on.
        stream: u16,
        /// The payload protocol identifier of the message.
        ppid: u32,
        /// The `context` that the message was sent with.
        context: u32,
        /// The length of the message, bytes.
        bytes: u32,
        /// The message was sent unordered.
        unordered: bool,
        /// At least a part of the message had been sent, so it may have arrived.
        sent: bool,
        /// The message itself, if `Config::return_undelivered` is set and no part of it was acknowledged.
        payload: Option<Vec<u8>>,
    },
    /// A destination address works: it was verified for the first time, or is active again after a failure or potential
    /// failure.
    PathUp {
        /// The association.
        id: AssociationId,
        /// Index of the path, as in `info` and `stats`.
        path: usize,
        /// Its destination address.
        address: IpAddr,
    },
    /// A destination address may have failed (RFC 7829). Data goes to other addresses until this one answers (`PathUp`) or
    /// is declared inactive (`PathDown`).
    PathPotentiallyFailed {
        /// The association.
        id: AssociationId,
        /// Index of the path, as in `info` and `stats`.
        path: usize,
        /// Its destination address.
        address: IpAddr,
    },
    /// A destination address no longer answers (RFC 9260 §8.2).
    PathDown {
        /// The association.
        id: AssociationId,
        /// Index of the path, as in `info` and `stats`.
        path: usize,
        /// Its destination address.
        address: IpAddr,
    },
    /// The peer has restarted (RFC 9260 §5.2.4 A). All streams start again, and unsent and unacknowledged messages are
    /// lost. Messages that had arrived completely can still be read.
    Restarted {
        /// The association.
        id: AssociationId,
    },
    /// The peer has begun a shutdown. No further messages can be sent; messages that were given to `send` before are still
    /// delivered.
    PeerShutdown {
        /// The association.
        id: AssociationId,
    },
    /// Streams were reset at the request of either side (RFC 6525): the next ordered message on each has sequence number 0.
    /// On incoming streams, all messages sent before the reset have arrived and can be read now.
    StreamsReset {
        /// The association.
        id: AssociationId,
        /// Which side sends on the streams.
        direction: Direction,
        /// The streams in ascending order; empty means all.
        streams: Vec<u16>,
        /// The peer had sent nothing on these incoming streams, so they were already in their initial state and no reset
        /// took place.
        idle: bool,
    },
    /// The peer asks this side to reset streams that this side sends on (RFC 6525 §5.2.3). The reset waits until queued
    /// messages have been sent; the application may drop those with `Endpoint::cancel`.
    ResetRequested {
        /// The association.
        id: AssociationId,
        /// The streams in ascending order; empty means all.
        streams: Vec<u16>,
        /// Nothing has been sent on the streams since their last reset, and nothing is queued. They are already in their
        /// initial state, so no `Event::StreamsReset` follows.
        idle: bool,
    },
    /// The association has more streams (RFC 6525), at the request of either side.
    StreamsAdded {
        /// The association.
        id: AssociationId,
        /// The number of streams added for sending.
        outgoing: u16,
        /// The number of streams added for receiving.
        incoming: u16,
    },
    /// All TSNs and SSNs of both sides were reset (RFC 6525).
    AssociationReset {
        /// The association.
        id: AssociationId,
        /// The next TSN of this side.
        local_tsn: u32,
        /// The next TSN of the peer.
        remote_tsn: u32,
    },
    /// The peer did not carry out the request made by `reset_streams` or `reset_association`.
    ResetFailed {
        /// The association.
        id: AssociationId,
        /// Which side sends on the streams; `None` if the whole association was to be reset.
        direction: Option<Direction>,
        /// The streams in ascending order; empty means all.
        streams: Vec<u16>,
        /// The reason.
        result: ReconfigResult,
    },
    /// The peer did not carry out the request made by `add_streams`.
    AddFailed {
        /// The association.
        id: AssociationId,
        /// The number of outgoing streams requested.
        outgoing: u16,
        /// The number of incoming streams requested.
        incoming: u16,
        /// The reason.
        result: ReconfigResult,
    },
    /// The peer has added an address (RFC 5061); `PathUp` follows when it is verified.
    PathAdded {
        /// The association.
        id: AssociationId,
        /// Index of the path, as in `info` and `stats`: a new index, or that of a removed path.
        path: usize,
        /// Its destination address.
        address: IpAddr,
    },
    /// The peer has removed an address (RFC 5061). The index is unused until a `PathAdded` assigns it again.
    PathRemoved {
        /// The association.
        id: AssociationId,
        /// Index of the path.
        path: usize,
        /// Its destination address.
        address: IpAddr,
    },
    /// The primary path has changed, at the request of this side or of the peer (RFC 6458 §6.1.2, RFC 5061 §5.4).
    PrimaryChanged {
        /// The association.
        id: AssociationId,
        /// Index of the new primary path.
        path: usize,
        /// Its destination address.
        address: IpAddr,
    },
    /// The peer has answered a change of this side's addresses (RFC 5061).
    LocalAddress {
        /// The association.
        id: AssociationId,
        /// The local address.
        address: IpAddr,
        /// The result of the change at the peer.
        change: AddressChange,
    },
    /// A shared key came into use, went out of use, or is missing (RFC 6458 §6.1.8).
    Key {
        /// The association.
        id: AssociationId,
        /// The key's identifier.
        key: u16,
        /// What happened to the key.
        change: KeyChange,
    },
    /// The peer's adaptation layer indication from the handshake (RFC 5061 §4.2.6).
    Adaptation {
        /// The association.
        id: AssociationId,
        /// The adaptation code point.
        code: u32,
    },
    /// The peer has sent an ERROR chunk (RFC 9260 §3.3.10). One event is reported for each of its causes.
    PeerError {
        /// The association.
        id: AssociationId,
        /// The cause code.
        code: u16,
        /// The value of the error cause, without its header.
        cause: Vec<u8>,
    },
    /// The peer's application has aborted the association and gives a reason (RFC 9260 §11.2.5). `Closed` follows.
    AbortReason {
        /// The association.
        id: AssociationId,
        /// The Upper Layer Abort Reason, at most 512 bytes.
        reason: Vec<u8>,
    },
    /// The association has ended; this is its last event. Data that has arrived and was not read yet can still be read.
    Closed {
        /// The association.
        id: AssociationId,
        /// How it ended.
        reason: CloseReason,
    },
    /// A destination address that had failed or potentially failed is active again. This event follows `PathUp`.
    PathRestored {
        /// The association.
        id: AssociationId,
        /// The destination address.
        address: IpAddr,
    },
    /// Transfer of user data has resumed after an interruption, on another path or on a path that had failed in the
    /// meantime.
    Interrupted {
        /// The association.
        id: AssociationId,
        /// True if incoming data was interrupted: nothing arrived. False if outgoing data was: nothing sent was
        /// acknowledged.
        received: bool,
        /// The length of the interruption, at least 100 ms.
        outage: Duration,
        /// The peer's address on the path that carried the last data before the interruption.
        from: IpAddr,
        /// The peer's address on the path that carries data now.
        to: IpAddr,
    },
}

impl Event {
    /// Returns the association that the event is about.
    ///
    /// ```
    /// # use anabranch_sctp::{testing::Pair, Config, Event};
    /// # let (_, id, _) = Pair::associated(&Config::default());
    /// assert_eq!(Event::Writable { id }.association(), id);
    /// ```
    #[must_use]
    pub const fn association(&self) -> AssociationId {
        match *self {
            Self::Established { id, .. }
            | Self::Accepted { id, .. }
            | Self::Readable { id, .. }
            | Self::Writable { id }
            | Self::BufferedAmountLow { id, .. }
            | Self::Abandoned { id, .. }
            | Self::SendFailed { id, .. }
            | Self::PathUp { id, .. }
            | Self::PathDown { id, .. }
            | Self::PathPotentiallyFailed { id, .. }
            | Self::PathRestored { id, .. }
            | Self::Interrupted { id, .. }
            | Self::Restarted { id }
            | Self::PeerShutdown { id }
            | Self::StreamsReset { id, .. }
            | Self::ResetRequested { id, .. }
            | Self::StreamsAdded { id, .. }
            | Self::AssociationReset { id, .. }
            | Self::ResetFailed { id, .. }
            | Self::AddFailed { id, .. }
            | Self::PathAdded { id, .. }
            | Self::PathRemoved { id, .. }
            | Self::PrimaryChanged { id, .. }
            | Self::LocalAddress { id, .. }
            | Self::Key { id, .. }
            | Self::Adaptation { id, .. }
            | Self::PeerError { id, .. }
            | Self::AbortReason { id, .. }
            | Self::Closed { id, .. } => id,
        }
    }
}

/// A direction of streams: those this side sends on, those the peer sends on, or both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Streams this side sends on.
    Outgoing,
    /// Streams the peer sends on.
    Incoming,
    /// Both directions.
    Both,
}

impl Direction {
    /// True if streams that this side sends on are included.
    #[must_use]
    pub const fn is_outgoing(self) -> bool {
        !matches!(self, Self::Incoming)
    }

    /// True if streams that the peer sends on are included.
    #[must_use]
    pub const fn is_incoming(self) -> bool {
        !matches!(self, Self::Outgoing)
    }
}

/// Why the peer did not carry out a stream re-configuration request (RFC 6525 §4.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ReconfigResult {
    /// The peer denied the request.
    Denied,
    /// The peer has no such stream.
    WrongStream,
    /// The peer is still processing another request.
    AlreadyInProgress,
    /// The request had an unexpected sequence number.
    BadSequenceNumber,
    /// A result code that RFC 6525 does not define.
    Unknown,
}

impl ReconfigResult {
    /// RFC 6525 §4.4, Table 3: result codes 0 and 1 mean success, for which this returns `None`.
    pub(crate) const fn failure(result: u32) -> Option<Self> {
        Some(match result {
            0 | 1 => return None,
            2 => Self::Denied,
            3 => Self::WrongStream,
            4 => Self::AlreadyInProgress,
            5 => Self::BadSequenceNumber,
            _ => Self::Unknown,
        })
    }
}

/// The state of a local address at the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AddressChange {
    /// The address is now part of the association.
    Added,
    /// The address is no longer part of the association.
    Removed,
    /// The peer was asked to use the address as its primary destination.
    Primary,
    /// The peer refused the request with this cause code, or 0 if it gave none.
    Refused(u16),
}

/// A change in the use of a shared key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum KeyChange {
    /// The peer has begun to sign with the key.
    PeerUses,
    /// The peer signs with a key that is not known here. Packets signed with it are dropped.
    Unknown,
    /// This side no longer signs with the key.
    Free,
}

/// How an association ended, and which side ended it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CloseReason {
    /// Graceful shutdown: everything was delivered in both directions.
    Shutdown,
    /// The local application aborted the association.
    Local,
    /// The peer sent an ABORT. Holds the first cause code, if there was one.
    Aborted(Option<u16>),
    /// The peer did not answer in time: it was declared unreachable (RFC 9260 §8.1), or the handshake was given up.
    Unreachable,
    /// The peer has restarted, and a new association with it was accepted
    /// ([`Endpoint::replace_restarted`](crate::Endpoint::replace_restarted)).
    PeerRestarted,
    /// The network reports that the UDP port (RFC 6951 §5.5) or SCTP itself (RFC 9260 §10) is unreachable at the peer.
    NotListening,
    /// The peer's shutdown took too long (T5-shutdown-guard).
    ShutdownTimeout,
    /// The State Cookie was reported stale repeatedly (RFC 9260 §5.2.6).
    StaleCookie,
    /// The peer violated the protocol. The text names the section.
    PeerViolated(&'static str),
    /// The peer does not support something that this side requires.
    PeerIncompatible(&'static str),
}
