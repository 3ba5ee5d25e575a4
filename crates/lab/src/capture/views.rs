//! Data for drawings of a conversation over time: each piece of data with its cause, each acknowledgement, each
//! round-trip time, and the data in flight.
//!
//! Only kept if requested, and bounded: the pieces that do not fit are counted.

use super::track::{Cause, Passing};
use serde::{Deserialize, Serialize};

/// One direction of a conversation over time.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct View {
    /// Data, in the order in which it passed.
    pub data: Vec<Data>,
    /// The time at which the other side acknowledged everything before this unit.
    pub acknowledged: Vec<(u64, i64)>,
    /// Measured round-trip times: when, and how long, in nanoseconds.
    pub round_trips: Vec<(u64, u64)>,
    /// Units in flight, after each packet that changed their number.
    pub flight: Vec<(u64, i64)>,
    /// The number of pieces of data that did not fit.
    pub left_out: u64,
}

/// A piece of data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Data {
    /// When it passed, in nanoseconds since the first packet of the capture.
    pub at_ns: u64,
    /// The first unit, a TSN or a byte, counted from the first of the direction.
    pub start: i64,
    /// The unit after the last one.
    pub end: i64,
    /// The stream; 0 for TCP.
    pub stream: u16,
    /// Why it was sent.
    pub why: Why,
}

/// Why data was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// Sent for the first time.
    New,
    /// Sent for the first time, and overtaken.
    Overtaken,
    /// Retransmitted after acknowledgements that reported a gap.
    Fast,
    /// Retransmitted after a timer expired.
    Timeout,
    /// Retransmitted for a reason that the packets do not show.
    Other,
    /// Retransmitted although the receiver already had it.
    Spurious,
}

/// Data about what one host sent that packets do not show: congestion windows, and losses and delays in the network.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Course {
    /// Changes of a congestion window: time, connection, bytes.
    pub windows: Vec<(u64, u64, u64)>,
    /// Packets that the network lost.
    pub lost: Vec<Loss>,
    /// How much longer each packet took than the fastest of its size: arrival time, path from 0, nanoseconds.
    pub waits: Vec<(u64, usize, u64)>,
}

/// A packet that the network lost.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Loss {
    /// When, in nanoseconds of the run's clock.
    pub at_ns: u64,
    /// The path, from 0.
    pub path: usize,
    /// Whether a queue dropped it, because it was full or by active queue management.
    pub by_queue: bool,
}

impl View {
    /// Adds data that passed, unless `most` pieces are already kept.
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

    /// Records how far the data is acknowledged and how much is in flight, if that changed.
    pub(super) fn state(&mut self, most: usize, at_ns: u64, cumulative: i64, flight: i64) {
        let known = self.acknowledged.last().map_or(0, |last| last.1);
        if cumulative > known && self.acknowledged.len() < most {
            self.acknowledged.push((at_ns, cumulative));
        }
        if self.flight.last().map_or(0, |last| last.1) != flight && self.flight.len() < most {
            self.flight.push((at_ns, flight));
        }
    }

    /// Adds a measured round-trip time.
    pub(super) fn round_trip(&mut self, most: usize, at_ns: u64, nanos: u64) {
        if self.round_trips.len() < most {
            self.round_trips.push((at_ns, nanos));
        }
    }
}
