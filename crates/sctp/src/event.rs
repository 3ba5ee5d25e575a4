//! Events that an association reports to the application.
//!
//! Implements RFC 9260 §11.2 (notifications from SCTP to its user).

use crate::id::AssociationId;
use crate::reliability::Policy;
use anabranch_base::time::Duration;
use std::net::IpAddr;

/// An event that the application may need to act on.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// An association that this side started is established (RFC 9260 §11.2.4).
    Established {
        /// The association.
        id: AssociationId,
        /// Number of streams that this side may send on.
        outbound_streams: u16,
        /// Number of streams that the peer may send on.
        inbound_streams: u16,
    },
    /// A peer has established an association with a listening port of this side.
    Accepted {
        /// The association.
        id: AssociationId,
        /// The listening port.
        port: u16,
        /// The peer's port.
        peer_port: u16,
        /// The address from which the peer sent its INIT. This is the association's primary address at the start.
        peer: IpAddr,
        /// Number of streams that this side may send on.
        outbound_streams: u16,
        /// Number of streams that the peer may send on.
        inbound_streams: u16,
    },
    /// A stream has data to read. The event is reported again only after `recv` on that stream has returned `None`, or
    /// `recv_bytes` has reported that no data is left.
    Readable {
        /// The association.
        id: AssociationId,
        /// The stream.
        stream: u16,
    },
    /// The send buffer has room again after `send` has returned `SendError::Full`.
    Writable {
        /// The association.
        id: AssociationId,
    },
    /// The buffered bytes of a stream have fallen to the threshold set with `Endpoint::set_buffered_amount_low`.
    BufferedAmountLow {
        /// The association.
        id: AssociationId,
        /// The stream.
        stream: u16,
    },
    /// A message was abandoned. Either the limit of its `Reliability` was reached (RFC 3758 §4.1 TR3, RFC 9260
    /// §11.2.2), or the application cancelled it. One event is reported for each message. While about 65,000 events are
    /// waiting, no more events of this kind are added, but the counters still count the messages.
    Abandoned {
        /// The association.
        id: AssociationId,
        /// The stream on which the message was sent.
        stream: u16,
        /// The payload protocol identifier of the message.
        ppid: u32,
        /// The `context` that was passed to `send` with the message.
        context: u32,
        /// The length of the message in bytes.
        bytes: u32,
        /// Whether the message was sent unordered.
        unordered: bool,
        /// The policy that abandoned the message.
        policy: Policy,
        /// Whether at least a part of the message had been sent, so that it may have arrived.
        sent: bool,
    },
    /// A message will not be delivered, as far as this side knows (RFC 9260 §11.2.2). There are three reasons. The
    /// association of the message has ended (`Closed` follows). The peer has restarted (`Restarted` follows). The peer
    /// does not grant the stream of the message.
    ///
    /// Each queued or sent message gets its own event, unless the message is already acknowledged or abandoned.
    /// While about 65,000 events are waiting, no more events of this kind are added. The counters still count the
    /// messages.
    SendFailed {
        /// The association.
        id: AssociationId,
        /// The stream on which the message was sent.
        stream: u16,
        /// The payload protocol identifier of the message.
        ppid: u32,
        /// The `context` that was passed to `send` with the message.
        context: u32,
        /// The length of the message in bytes.
        bytes: u32,
        /// Whether the message was sent unordered.
        unordered: bool,
        /// Whether at least a part of the message had been sent, so that it may have arrived.
        sent: bool,
        /// The contents of the message, if `Config::return_undelivered` is set and no part of the message was
        /// acknowledged.
        payload: Option<Vec<u8>>,
    },
    /// A destination address is active: it was verified for the first time, or has recovered from a failure or
    /// potential failure.
    PathUp {
        /// The association.
        id: AssociationId,
        /// Index of the path, as in `info` and `stats`.
        path: usize,
        /// The destination address of the path.
        address: IpAddr,
    },
    /// A destination address may have failed (RFC 7829), so data is sent to other addresses. The state ends with
    /// `PathUp` if the address answers, or with `PathDown` if the address is declared inactive.
    PathPotentiallyFailed {
        /// The association.
        id: AssociationId,
        /// Index of the path, as in `info` and `stats`.
        path: usize,
        /// The destination address of the path.
        address: IpAddr,
    },
    /// A destination address no longer answers (RFC 9260 §8.2).
    PathDown {
        /// The association.
        id: AssociationId,
        /// Index of the path, as in `info` and `stats`.
        path: usize,
        /// The destination address of the path.
        address: IpAddr,
    },
    /// The peer has restarted (RFC 9260 §5.2.4 A). All streams start again, and unsent and unacknowledged messages
    /// are lost. Messages that had arrived completely can still be read.
    Restarted {
        /// The association.
        id: AssociationId,
    },
    /// The peer has started a shutdown. No further messages can be sent. Messages that were passed to `send` earlier
    /// are still delivered.
    PeerShutdown {
        /// The association.
        id: AssociationId,
    },
    /// Streams were reset at the request of either side (RFC 6525). The next ordered message on each stream has
    /// sequence number 0. On incoming streams, all messages sent before the reset have arrived and can be read now.
    StreamsReset {
        /// The association.
        id: AssociationId,
        /// The direction of the streams.
        direction: Direction,
        /// The numbers of the streams in ascending order. An empty list stands for all streams of this direction.
        streams: Vec<u16>,
        /// True if the peer had nothing to reset, because it has sent no message on these incoming streams since their
        /// last reset.
        idle: bool,
    },
    /// The peer asks this side to reset streams on which this side sends (RFC 6525 §5.2.3). The reset waits until
    /// queued messages have been sent. The application may drop these messages with `Endpoint::cancel`.
    ResetRequested {
        /// The association.
        id: AssociationId,
        /// The numbers of the streams in ascending order. An empty list stands for all outgoing streams.
        streams: Vec<u16>,
        /// True if no message has been sent on the streams since their last reset, and no message is queued. Then there
        /// is nothing to reset, so no `Event::StreamsReset` follows.
        idle: bool,
    },
    /// The association has additional streams (RFC 6525), at the request of either side.
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
    /// The peer did not carry out a request made with `reset_streams` or `reset_association`.
    ResetFailed {
        /// The association.
        id: AssociationId,
        /// The direction of the streams; `None` if the whole association was to be reset.
        direction: Option<Direction>,
        /// The numbers of the streams in ascending order. An empty list stands for all streams of this direction.
        streams: Vec<u16>,
        /// The reason that the peer gave.
        result: ReconfigResult,
    },
    /// The peer did not carry out a request made with `add_streams`.
    AddFailed {
        /// The association.
        id: AssociationId,
        /// The number of outgoing streams requested.
        outgoing: u16,
        /// The number of incoming streams requested.
        incoming: u16,
        /// The reason that the peer gave.
        result: ReconfigResult,
    },
    /// The peer has added an address (RFC 5061). `PathUp` follows when the address is verified.
    PathAdded {
        /// The association.
        id: AssociationId,
        /// Index of the path, as in `info` and `stats`. The index of a removed path may be used again.
        path: usize,
        /// The destination address of the path.
        address: IpAddr,
    },
    /// The peer has removed an address (RFC 5061). A later `PathAdded` may use the index of this path again.
    PathRemoved {
        /// The association.
        id: AssociationId,
        /// Index of the path.
        path: usize,
        /// The destination address of the path.
        address: IpAddr,
    },
    /// The primary path has changed, at the request of this side or of the peer (RFC 6458 §6.1.2, RFC 5061 §5.4).
    PrimaryChanged {
        /// The association.
        id: AssociationId,
        /// Index of the new primary path.
        path: usize,
        /// The destination address of the new primary path.
        address: IpAddr,
    },
    /// The peer has answered a request to change this side's addresses (RFC 5061).
    LocalAddress {
        /// The association.
        id: AssociationId,
        /// The local address.
        address: IpAddr,
        /// The result of the request.
        change: AddressChange,
    },
    /// A shared key is now in use, is no longer in use, or is missing (RFC 6458 §6.1.8).
    Key {
        /// The association.
        id: AssociationId,
        /// The identifier of the key.
        key: u16,
        /// Shows how the use of the key has changed.
        change: KeyChange,
    },
    /// The adaptation layer indication that the peer has sent in the handshake (RFC 5061 §4.2.6).
    Adaptation {
        /// The association.
        id: AssociationId,
        /// The adaptation code point.
        code: u32,
    },
    /// The peer has sent an ERROR chunk (RFC 9260 §3.3.10). One event is reported for each error cause in the chunk.
    PeerError {
        /// The association.
        id: AssociationId,
        /// The cause code.
        code: u16,
        /// The value of the error cause, without its header.
        cause: Vec<u8>,
    },
    /// The peer's application has aborted the association and given a reason (RFC 9260 §11.2.5). `Closed` follows.
    AbortReason {
        /// The association.
        id: AssociationId,
        /// The Upper Layer Abort Reason, limited to 512 bytes.
        reason: Vec<u8>,
    },
    /// The association has ended. This is its last event. Data that has arrived and was not read yet can still be
    /// read.
    Closed {
        /// The association.
        id: AssociationId,
        /// The reason for the end, and the side that ended the association.
        reason: CloseReason,
    },
    /// A destination address that had failed or potentially failed is active again. This event follows `PathUp`.
    PathRestored {
        /// The association.
        id: AssociationId,
        /// The destination address.
        address: IpAddr,
    },
    /// An interruption of the transfer of user data has ended. The transfer resumed on another path, on a path that had
    /// failed, or after a wait longer than a retransmission timeout (RTO). Reported only for associations with several
    /// paths.
    Interrupted {
        /// The association.
        id: AssociationId,
        /// True if incoming data was interrupted, that is, nothing arrived. False if outgoing data was interrupted,
        /// that is, no sent data was acknowledged.
        received: bool,
        /// The length of the interruption, at least 100 ms.
        outage: Duration,
        /// The peer's address on the path that was used for the last data before the interruption.
        from: IpAddr,
        /// The peer's address on the path on which data has resumed.
        to: IpAddr,
    },
}

impl Event {
    /// Returns the association that the event concerns.
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

/// A direction of streams: streams on which this side sends, streams on which the peer sends, or both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Streams on which this side sends.
    Outgoing,
    /// Streams on which the peer sends.
    Incoming,
    /// Both directions.
    Both,
}

impl Direction {
    /// Returns true if this direction includes streams on which this side sends.
    #[must_use]
    pub const fn is_outgoing(self) -> bool {
        !matches!(self, Self::Incoming)
    }

    /// Returns true if this direction includes streams on which the peer sends.
    #[must_use]
    pub const fn is_incoming(self) -> bool {
        !matches!(self, Self::Outgoing)
    }
}

/// The reason why the peer did not carry out a stream re-configuration request (RFC 6525 §4.4).
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
    /// RFC 6525 §4.4, Table 3: returns the reason of a failure. Result codes 0 and 1 mean success and give `None`.
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

/// The peer's answer to a request to add, remove or prefer one of this side's addresses (RFC 5061).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AddressChange {
    /// The address is now part of the association.
    Added,
    /// The address is no longer part of the association.
    Removed,
    /// The peer was asked to use the address as its primary destination, and has accepted.
    Primary,
    /// The peer refused the request with this error cause code; 0 if the peer gave no error cause.
    Refused(u16),
}

/// A change in the use of a shared key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum KeyChange {
    /// The peer has started to authenticate chunks with the key.
    PeerUses,
    /// The peer authenticates chunks with a key that is not known to this side. Packets with such chunks are dropped.
    Unknown,
    /// This side no longer authenticates chunks with the key.
    Free,
}

/// The reason why an association ended, and the side that ended it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CloseReason {
    /// The association was shut down gracefully: all data was delivered in both directions.
    Shutdown,
    /// The local application aborted the association.
    Local,
    /// The peer sent an ABORT. Contains the first error cause code, if there was one.
    Aborted(Option<u16>),
    /// The peer did not answer in time: it was declared unreachable (RFC 9260 §8.1), or the handshake timed out.
    Unreachable,
    /// The peer answers HEARTBEATs but acknowledges no data. The packets with data to the peer may be too large for the
    /// path (RFC 8899 §4.3).
    BlackHole {
        /// The destination address.
        address: IpAddr,
        /// The size in bytes, IP header included, of the packet that carried the lowest unacknowledged chunk.
        size: u32,
    },
    /// The peer has restarted, and a new association with it was accepted
    /// ([`Endpoint::replace_restarted`](crate::Endpoint::replace_restarted)).
    PeerRestarted,
    /// The network reports that the UDP port (RFC 6951 §5.5) or SCTP itself (RFC 9260 §10) is unreachable at the peer.
    NotListening,
    /// The peer did not complete the shutdown in time (T5-shutdown-guard).
    ShutdownTimeout,
    /// The peer reported that the State Cookie was stale (RFC 9260 §5.2.6), and the handshake was not repeated again:
    /// this happened too often, or acknowledged data would have been lost.
    StaleCookie,
    /// The peer violated the protocol. The text names the section of the RFC.
    PeerViolated(&'static str),
    /// The peer does not support something that this side requires.
    PeerIncompatible(&'static str),
}

impl CloseReason {
    /// Describes the reason `BlackHole` in one line. If the packets were larger than 1280 bytes, the line names a
    /// setting that avoids the black hole. For every other reason in this enum, returns an empty text.
    #[must_use]
    pub fn details(&self) -> String {
        let Self::BlackHole { size, .. } = self else { return String::new() };
        let advice = if *size > 1280 { "; with pmtud=plpmtud the sender begins with 1200 bytes" } else { "" };
        format!("heartbeats are answered, but packets of {size} bytes are never acknowledged{advice}")
    }
}
