//! What an engine remembers for the laboratory: which bytes it sent when, in
//! which packet and why; which arrived; and what held it back.
//!
//! The records are what the attribution of response time (`lab`) is made of.
//! They are kept only while tracing is on, and never steer a protocol.

use crate::time::Instant;
use std::ops::Range;

/// One record of a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceRecord {
    /// When.
    pub at: Instant,
    /// Which connection or association: the initiator's port, which both ends know.
    pub connection: u64,
    /// What.
    pub event: TraceEvent,
}

/// What happened. A *unit* is a range in sequence space, counted from 0 at the
/// first byte (TCP, after the SYN) or the first TSN (SCTP, one per DATA chunk),
/// never wrapping. Where streams have no sequence in common (QUIC) each has a part
/// of the space, in which a unit is a byte.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TraceEvent {
    /// The handshake began (first SYN or INIT sent).
    Opening,
    /// A layer beneath, whose handshake came first, carries packets from here on.
    Secured,
    /// The first packet of the peer has come, of a handshake that is of transport and security in one: what follows until
    /// [`Established`](Self::Established) is the latter's.
    Answered,
    /// User data may flow from here on.
    Established,
    /// The connection ended, gracefully or not.
    Closed,
    /// User data was put into a packet.
    Sent {
        /// The units sent.
        units: Range<u64>,
        /// The stream (0 for TCP).
        stream: u64,
        /// Where these bytes lie in what the application has written to that
        /// stream, counted from 0. For TCP it equals `units`.
        bytes: Range<u64>,
        /// The packet's number (see `SendBatch::first_tag`).
        packet: u64,
        /// Why.
        cause: SendCause,
    },
    /// User data arrived for the first time and was kept.
    Received {
        /// The units received.
        units: Range<u64>,
        /// The sender's number of the packet that brought them.
        packet: u64,
    },
    /// From here on this is what keeps the sender from sending more.
    Limited(Limit),
    /// From here on the congestion window, of the path in use, has so many bytes.
    Window(u64),
    /// A retransmission is known to have been needless.
    Spurious,
}

/// Why user data was put into a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum SendCause {
    /// First transmission.
    New,
    /// Retransmitted because later data was acknowledged (fast retransmit, or
    /// retransmission within a recovery begun by one).
    Fast,
    /// Retransmitted because a timer ran out (T3-rtx, RTO), or in the recovery
    /// that followed it.
    Timeout,
    /// A probe of a closed window.
    Probe,
}

/// What keeps a sender from sending more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Limit {
    /// Nothing is waiting to be sent.
    Application,
    /// The congestion window is full (no recovery is under way).
    Congestion,
    /// The receiver's window is full.
    Receiver,
    /// A fast recovery is under way.
    Recovery,
    /// A retransmission timer has run out, and what it found lost is being retransmitted.
    Timeout,
    /// Something else of the sender's: Nagle, bundling delay, burst limit, pacing.
    Pacing,
}
