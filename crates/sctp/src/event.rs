//! What the application learns.
//!
//! Home of RFC 9260 §11.2 (notifications from SCTP to its user).

use crate::id::AssociationId;
use crate::reliability::Policy;
use anabranch_base::time::Duration;
use std::net::IpAddr;

/// Something the application should know.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// An association that this side asked for is up (RFC 9260 §11.2.4).
    Established {
        /// Which.
        id: AssociationId,
        /// Streams this side may send on.
        outbound_streams: u16,
        /// Streams the peer may send on.
        inbound_streams: u16,
    },
    /// A peer has set up an association with a listening port.
    Accepted {
        /// Which.
        id: AssociationId,
        /// The listening port.
        port: u16,
        /// The peer's port.
        peer_port: u16,
        /// The address the peer is reached at first.
        peer: IpAddr,
        /// Streams this side may send on.
        outbound_streams: u16,
        /// Streams the peer may send on.
        inbound_streams: u16,
    },
    /// A stream has something to read. Told once; told again only after a
    /// `recv` on that stream has returned `None`, or `recv_bytes` that nothing is left.
    Readable {
        /// Which association.
        id: AssociationId,
        /// Which stream.
        stream: u16,
    },
    /// The send buffer has room again after a `SendError::Full`.
    Writable {
        /// Which.
        id: AssociationId,
    },
    /// So few bytes of a stream are left in the send buffer as `Endpoint::set_buffered_amount_low` asked for.
    BufferedAmountLow {
        /// Which association.
        id: AssociationId,
        /// Which stream.
        stream: u16,
    },
    /// A message was given up, as its `Reliability` has it (RFC 3758 §4.1 TR3,
    /// RFC 9260 §11.2.2). Told once for each message, unless some 65,000 events
    /// wait to be taken: the counters count on.
    Abandoned {
        /// Which association.
        id: AssociationId,
        /// The stream it was for.
        stream: u16,
        /// Its payload protocol identifier.
        ppid: u32,
        /// The context it was sent with.
        context: u32,
        /// Its length.
        bytes: u32,
        /// It was to be delivered without regard to order.
        unordered: bool,
        /// Why it was given up.
        policy: Policy,
        /// At least a part of it had been sent: it may have arrived all the same.
        sent: bool,
    },
    /// A message was not delivered, as far as known, and will not be (RFC 9260 §11.2.2): its association has ended
    /// (`Closed` follows), the peer has restarted (`Restarted` follows), or the peer does not grant its stream. Told once
    /// for each message that was neither acknowledged nor given up before, unless some 65,000 events wait to be taken:
    /// the counters count on.
    SendFailed {
        /// Which association.
        id: AssociationId,
        /// The stream it was for.
        stream: u16,
        /// Its payload protocol identifier.
        ppid: u32,
        /// The context it was sent with.
        context: u32,
        /// Its length.
        bytes: u32,
        /// It was to be delivered without regard to order.
        unordered: bool,
        /// At least a part of it had been sent: it may have arrived all the same.
        sent: bool,
        /// The message itself, with `Config::return_undelivered`, unless a part of it was acknowledged.
        payload: Option<Vec<u8>>,
    },
    /// A destination address works: verified for the first time, or back after it had failed or potentially failed.
    PathUp {
        /// Which association.
        id: AssociationId,
        /// Index of the path, as in `info` and `stats`.
        path: usize,
        /// Its destination address.
        address: IpAddr,
    },
    /// A destination address may have failed (RFC 7829): data goes to others
    /// until it answers (`PathUp`) or is given up (`PathDown`).
    PathPotentiallyFailed {
        /// Which association.
        id: AssociationId,
        /// Index of the path, as in `info` and `stats`.
        path: usize,
        /// Its destination address.
        address: IpAddr,
    },
    /// A destination address no longer answers (RFC 9260 §8.2).
    PathDown {
        /// Which association.
        id: AssociationId,
        /// Index of the path, as in `info` and `stats`.
        path: usize,
        /// Its destination address.
        address: IpAddr,
    },
    /// The peer has restarted (RFC 9260 §5.2.4 A): streams begin anew, unsent
    /// and unacknowledged messages are gone. What had arrived in full can still be read.
    Restarted {
        /// Which.
        id: AssociationId,
    },
    /// The peer has asked to close: it takes no further messages, what was
    /// given to `send` before will still be delivered.
    PeerShutdown {
        /// Which.
        id: AssociationId,
    },
    /// Streams begin anew, by this side's wish or the peer's (RFC 6525): the
    /// next ordered message on them has number 0. Incoming streams: what was
    /// sent before has arrived and can be read now.
    StreamsReset {
        /// Which association.
        id: AssociationId,
        /// Whose streams.
        direction: Direction,
        /// Which, ascending; none means all.
        streams: Vec<u16>,
        /// Incoming streams on which the peer had sent nothing: they are as new and did not begin
        /// anew.
        idle: bool,
    },
    /// The peer wants streams on which this side sends to begin anew (RFC 6525 §5.2.3). Whoever
    /// sends on them may cancel that (`Endpoint::cancel`): the reset waits for what was given.
    ResetRequested {
        /// Which association.
        id: AssociationId,
        /// Which streams, ascending; none means all.
        streams: Vec<u16>,
        /// Nothing has been sent on them since they last began, and nothing waits: they are as new,
        /// and no `Event::StreamsReset` follows.
        idle: bool,
    },
    /// The association has more streams (RFC 6525), by either side's wish.
    StreamsAdded {
        /// Which.
        id: AssociationId,
        /// So many more to send on.
        outgoing: u16,
        /// So many more for the peer.
        incoming: u16,
    },
    /// All TSNs and SSNs of both sides begin anew (RFC 6525).
    AssociationReset {
        /// Which.
        id: AssociationId,
        /// The next TSN of this side.
        local_tsn: u32,
        /// The next TSN of the peer.
        remote_tsn: u32,
    },
    /// The peer did not do what `reset_streams` or `reset_association` asked for.
    ResetFailed {
        /// Which association.
        id: AssociationId,
        /// Whose streams; `None` for the whole association.
        direction: Option<Direction>,
        /// Which streams, ascending; none means all.
        streams: Vec<u16>,
        /// Why.
        result: ReconfigResult,
    },
    /// The peer did not do what `add_streams` asked for.
    AddFailed {
        /// Which association.
        id: AssociationId,
        /// Streams to send on that were asked for.
        outgoing: u16,
        /// Streams of the peer that were asked for.
        incoming: u16,
        /// Why.
        result: ReconfigResult,
    },
    /// The peer has one more address (RFC 5061); `PathUp` follows when it is verified.
    PathAdded {
        /// Which association.
        id: AssociationId,
        /// Index of the path, as in `info` and `stats`: new, or that of one that was removed.
        path: usize,
        /// Its destination address.
        address: IpAddr,
    },
    /// The peer has given an address up (RFC 5061). Its index names nothing until a `PathAdded` reuses it.
    PathRemoved {
        /// Which association.
        id: AssociationId,
        /// Index of the path.
        path: usize,
        /// Its destination address.
        address: IpAddr,
    },
    /// Another path is the primary now, by the wish of this side or of the peer (RFC 6458 §6.1.2, RFC 5061 §5.4).
    PrimaryChanged {
        /// Which association.
        id: AssociationId,
        /// Index of the path.
        path: usize,
        /// Its destination address.
        address: IpAddr,
    },
    /// The peer has answered to a change of this side's addresses (RFC 5061).
    LocalAddress {
        /// Which association.
        id: AssociationId,
        /// The local address.
        address: IpAddr,
        /// What it is to the peer now.
        change: AddressChange,
    },
    /// A shared key has come into use, gone out of use, or is missing (RFC 6458 §6.1.8).
    Key {
        /// Which association.
        id: AssociationId,
        /// The key's identifier.
        key: u16,
        /// What has become of it.
        change: KeyChange,
    },
    /// What runs above the peer's SCTP, as it said in the handshake (RFC 5061 §4.2.6).
    Adaptation {
        /// Which association.
        id: AssociationId,
        /// The code point.
        code: u32,
    },
    /// The peer has sent an ERROR (RFC 9260 §3.3.10): one of its causes.
    PeerError {
        /// On which association.
        id: AssociationId,
        /// The cause code.
        code: u16,
        /// What the cause says, without its header.
        cause: Vec<u8>,
    },
    /// The peer's application has aborted it and says why (RFC 9260 §11.2.5). `Closed` follows.
    AbortReason {
        /// Which.
        id: AssociationId,
        /// The Upper Layer Abort Reason, 512 bytes of it at most.
        reason: Vec<u8>,
    },
    /// The association has ended: its last event. What arrived and was not yet
    /// read can still be read.
    Closed {
        /// Which.
        id: AssociationId,
        /// How it ended.
        reason: CloseReason,
    },
    /// A destination address is active again that had failed or potentially failed: follows `PathUp`.
    PathRestored {
        /// Which association.
        id: AssociationId,
        /// The destination address.
        address: IpAddr,
    },
    /// User data goes on that had not got on for a while, on another path or on one that had failed meanwhile.
    Interrupted {
        /// Which association.
        id: AssociationId,
        /// It was the data that the peer sends: nothing arrived. Else nothing was acknowledged of what was sent.
        received: bool,
        /// For how long, 100 ms or more.
        outage: Duration,
        /// The peer's address on the path of the last data before.
        from: IpAddr,
        /// On that of the data now.
        to: IpAddr,
    },
}

impl Event {
    /// The association that it is about.
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

/// Which streams: those this side sends on, the peer's, or both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Streams this side sends on.
    Outgoing,
    /// Streams the peer sends on.
    Incoming,
    /// Both ways.
    Both,
}

impl Direction {
    /// Streams this side sends on are among them.
    #[must_use]
    pub const fn is_outgoing(self) -> bool {
        !matches!(self, Self::Incoming)
    }

    /// Streams the peer sends on are among them.
    #[must_use]
    pub const fn is_incoming(self) -> bool {
        !matches!(self, Self::Outgoing)
    }
}

/// Why the peer did not re-configure streams (RFC 6525 §4.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ReconfigResult {
    /// It does not want to, or not now.
    Denied,
    /// It has no such stream.
    WrongStream,
    /// It is at another request.
    AlreadyInProgress,
    /// The request had a number that it did not expect.
    BadSequenceNumber,
    /// A result that RFC 6525 does not know.
    Unknown,
}

impl ReconfigResult {
    /// RFC 6525 §4.4, Table 3: 0 and 1 are success.
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

/// What a local address is to the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AddressChange {
    /// Part of the association.
    Added,
    /// Not part of it any more.
    Removed,
    /// Where it is asked to send first.
    Primary,
    /// What was asked for was refused with this cause code, or 0 without one.
    Refused(u16),
}

/// What has become of a shared key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum KeyChange {
    /// The peer signs with it, and did not before.
    PeerUses,
    /// The peer signs with it, and it is not known here: what it signs is thrown away.
    Unknown,
    /// This side does not sign with it any more.
    Free,
}

/// How an association ended, and whose doing it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CloseReason {
    /// Graceful shutdown: everything was delivered both ways.
    Shutdown,
    /// This side's application aborted it.
    Local,
    /// The peer sent ABORT; the first cause code, when it gave one.
    Aborted(Option<u16>),
    /// The peer did not answer in time (RFC 9260 §8.1, or the handshake was given up).
    Unreachable,
    /// The peer has restarted, and a new association with it was accepted
    /// ([`Endpoint::replace_restarted`](crate::Endpoint::replace_restarted)).
    PeerRestarted,
    /// The network says that nobody listens there: on the UDP port (RFC 6951 §5.5), or to SCTP (RFC 9260 §10).
    NotListening,
    /// The peer's shutdown took too long (T5-shutdown-guard).
    ShutdownTimeout,
    /// The State Cookie went stale again and again (RFC 9260 §5.2.6).
    StaleCookie,
    /// The peer broke a rule; names the section.
    PeerViolated(&'static str),
    /// The peer cannot do what this side needs.
    PeerIncompatible(&'static str),
}
