//! The trace of an engine. For sent bytes it records the time, the packet and the reason. It also records which bytes
//! arrived, and what limited the sender.
//!
//! The crate `lab` uses these records to divide a response time by cause, for example into transmission and waiting.
//! Records are kept only while tracing is on, and never influence a protocol.

use crate::time::Instant;
use std::ops::Range;

/// An event with its time and its connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceRecord {
    /// The time of the event.
    pub at: Instant,
    /// The connection or association, identified by the port of the side that opened it. Both ends know this port.
    pub connection: u64,
    /// The event.
    pub event: TraceEvent,
}

/// An event of a connection. A *unit* is a position in sequence space. In TCP a unit is a byte, counted from 0 after
/// the SYN. In SCTP a unit is a TSN (one for each DATA chunk), counted from 0 at the first TSN. Units never wrap. In
/// QUIC, where streams share no sequence space, each stream gets a range of units, and a unit is a byte.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TraceEvent {
    /// The handshake began: the first SYN or INIT was sent.
    Opening,
    /// A lower layer has finished its own handshake, and carries packets from now on.
    Secured,
    /// The first packet from the peer arrived. Recorded only if one handshake sets up both transport and security, as
    /// in QUIC. The time from this event to [`Established`](Self::Established) counts as the security handshake.
    Answered,
    /// User data may be sent from now on.
    Established,
    /// The connection ended, either gracefully or with an error.
    Closed,
    /// User data was put into a packet.
    Sent {
        /// The units sent.
        units: Range<u64>,
        /// The stream, which is 0 for TCP.
        stream: u64,
        /// The position of the sent bytes in the data that the application wrote to the stream, counted from 0. In TCP,
        /// `bytes` equals `units`.
        bytes: Range<u64>,
        /// The number of the packet (see `SendBatch::first_tag`).
        packet: u64,
        /// The reason why the units were sent.
        cause: SendCause,
    },
    /// User data arrived for the first time and was not dropped.
    Received {
        /// The units received.
        units: Range<u64>,
        /// The number of the packet in which the units arrived. The sender has chosen this number.
        packet: u64,
    },
    /// From now on, this limit prevents the sender from sending more data.
    Limited(Limit),
    /// The congestion window of the path in use is now this number of bytes.
    Window(u64),
    /// A retransmission turned out to be spurious.
    Spurious,
}

/// The reason why user data was put into a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum SendCause {
    /// The data was sent for the first time.
    New,
    /// The data was retransmitted because later data was acknowledged: by a fast retransmit, or during the recovery
    /// that the fast retransmit began.
    Fast,
    /// The data was retransmitted because a timer (T3-rtx, RTO) expired, or during the recovery that followed the
    /// timeout.
    Timeout,
    /// The data was sent as a probe, because the receiver's window is closed.
    Probe,
}

/// The limit that currently prevents a sender from sending more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Limit {
    /// No data is waiting to be sent.
    Application,
    /// The congestion window is full, and the sender is not in a recovery.
    Congestion,
    /// The receiver's window is full.
    Receiver,
    /// A fast recovery is in progress.
    Recovery,
    /// A retransmission timer has expired, and lost data is being retransmitted.
    Timeout,
    /// Another limit of the sender: the Nagle algorithm, the bundling delay, the burst limit or pacing.
    Pacing,
}
