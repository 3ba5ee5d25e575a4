//! What passed when, for drawings of a conversation: each piece of data and why
//! it was sent, each acknowledgement, each round trip, and what was under way.
//!
//! Kept only where asked for, and bounded: what comes after the last is counted.

use super::track::{Cause, Passing};
use serde::{Deserialize, Serialize};

/// One direction of a conversation over time.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct View {
    /// Data, in the order in which it passed.
    pub data: Vec<Data>,
    /// When the other side acknowledged all before this unit.
    pub acknowledged: Vec<(u64, i64)>,
    /// Round trips, as they were measured: when, and how long, nanoseconds.
    pub round_trips: Vec<(u64, u64)>,
    /// Units under way, after each packet that changed that.
    pub flight: Vec<(u64, i64)>,
    /// Data that there was no room for.
    pub left_out: u64,
}

/// Data that passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Data {
    /// When, nanoseconds since the first packet of the capture.
    pub at_ns: u64,
    /// First unit, a TSN or a byte, counted from the direction's first.
    pub start: i64,
    /// After the last.
    pub end: i64,
    /// The stream; 0 for TCP.
    pub stream: u16,
    /// Why it was sent.
    pub why: Why,
}

/// Why data was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// For the first time.
    New,
    /// For the first time, and overtaken on its way.
    Overtaken,
    /// Again, after acknowledgements that told of a gap.
    Fast,
    /// Again, after a timer ran out.
    Timeout,
    /// Again, for a reason that the packets do not show.
    Other,
    /// Again, although the receiver had it.
    Spurious,
}

/// What packets do not show of a run, for the data that one host sent: its congestion windows, and what the network did.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Course {
    /// When a congestion window changed: instant, connection, bytes.
    pub windows: Vec<(u64, u64, u64)>,
    /// When the network lost a packet.
    pub lost: Vec<Loss>,
    /// How much longer a packet took than the quickest of its size: instant of its arrival, path from 0, nanoseconds.
    pub waits: Vec<(u64, usize, u64)>,
}

/// A packet that the network lost.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Loss {
    /// When, nanoseconds of the run's clock.
    pub at_ns: u64,
    /// Which path, from 0.
    pub path: usize,
    /// A queue had no room for it, or none to spare.
    pub by_queue: bool,
}

impl View {
    /// Data passed; at most `most` are kept.
    pub(super) fn data(
        &mut self,
        most: usize,
        at_ns: u64,
        (start, end): (i64, i64),
        stream: u16,
        passing: Passing,
    ) {
        if self.data.len() >= most {
            self.left_out += 1;
            return;
        }
        let why = match passing {
            Passing::New => Why::New,
            Passing::Reordered => Why::Overtaken,
            Passing::Retransmitted { spurious: true, .. } => Why::Spurious,
            Passing::Retransmitted { cause: Cause::Fast, .. } => Why::Fast,
            Passing::Retransmitted { cause: Cause::Timeout, .. } => Why::Timeout,
            Passing::Retransmitted { cause: Cause::Other, .. } => Why::Other,
        };
        self.data.push(Data { at_ns, start, end, stream, why });
    }

    /// How far it is acknowledged, and how much is under way.
    pub(super) fn state(&mut self, most: usize, at_ns: u64, cumulative: i64, flight: i64) {
        let known = self.acknowledged.last().map_or(0, |last| last.1);
        if cumulative > known && self.acknowledged.len() < most {
            self.acknowledged.push((at_ns, cumulative));
        }
        if self.flight.last().map_or(0, |last| last.1) != flight && self.flight.len() < most {
            self.flight.push((at_ns, flight));
        }
    }

    /// A round trip was measured.
    pub(super) fn round_trip(&mut self, most: usize, at_ns: u64, nanos: u64) {
        if self.round_trips.len() < most {
            self.round_trips.push((at_ns, nanos));
        }
    }
}
