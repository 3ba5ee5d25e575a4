//! The trace of an engine: which bytes it sent when, in which packet and why; which bytes arrived; and what limited the
//! sender.
//!
//! `lab` attributes response times from these records. They are kept only while tracing is on, and never influence a
//! protocol.

use crate::time::Instant;
use std::ops::Range;

/// One record of a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceRecord {
    /// The time of the event.
    pub at: Instant,
    /// The connection or association, identified by the initiator's port, which both ends know.
    pub connection: u64,
    /// The event.
    pub event: TraceEvent,
}

/// An event of a connection. A *unit* is a position in sequence space. Units count from 0 at the first byte (TCP, after
/// the SYN) or at the first TSN (SCTP, one for each DATA chunk), and never wrap. Streams that share no sequence space
/// (QUIC) each get a part of it, in which a unit is a byte.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TraceEvent {
    /// The handshake began (first SYN or INIT sent).
    Opening,
    /// A lower layer, whose handshake came first, carries packets from now on.
    Secured,
    /// The first packet from the peer arrived, in a handshake that combines transport and security. The time from here
    /// to [`Established`](Self::Established) counts as the security handshake.
    Answered,
    /// User data may be sent from now on.
    Established,
    /// The connection ended, gracefully or not.
    Closed,
    /// User data was put into a packet.
    Sent {
        /// The units sent.
        units: Range<u64>,
        /// The stream (0 for TCP).
        stream: u64,
        /// The position of these bytes in the data that the application wrote to the stream, counted from 0. For TCP it
        /// equals `units`.
        bytes: Range<u64>,
        /// The packet's number (see `SendBatch::first_tag`).
        packet: u64,
        /// The reason for sending them.
        cause: SendCause,
    },
    /// User data arrived for the first time and was kept (not dropped).
    Received {
        /// The units received.
        units: Range<u64>,
        /// The number that the sender gave to the packet that carried them.
        packet: u64,
    },
    /// From now on, this limits the sender.
    Limited(Limit),
    /// From now on, the congestion window of the path in use has this many bytes.
    Window(u64),
    /// A retransmission turned out to be spurious.
    Spurious,
}

/// The reason why user data was put into a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum SendCause {
    /// First transmission.
    New,
    /// Retransmitted because later data was acknowledged (fast retransmit, or
    /// retransmission within a recovery begun by one).
    Fast,
    /// Retransmitted because a timer (T3-rtx, RTO) expired, or in the recovery that followed.
    Timeout,
    /// A probe of a closed window.
    Probe,
}

/// What currently limits a sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Limit {
    /// No data is waiting to be sent.
    Application,
    /// The congestion window is full (no recovery is under way).
    Congestion,
    /// The receiver's window is full.
    Receiver,
    /// A fast recovery is under way.
    Recovery,
    /// A retransmission timer expired, and the data found lost is being retransmitted.
    Timeout,
    /// Another limit of the sender: Nagle, bundling delay, burst limit or pacing.
    Pacing,
}
