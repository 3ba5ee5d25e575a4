//! The values from which a conversation is drawn over time. They are the pieces of data (each with the reason why it
//! was sent), the acknowledgements, the round-trip times, and the amount of data in flight.
//!
//! This data is kept only if the caller requests it. Its amount is limited, and pieces beyond the limit are only
//! counted.

use super::data_class::{Cause, DataClass};

/// One direction of a conversation over time. TSNs (SCTP), bytes (TCP) or packet numbers (QUIC) are counted from the
/// first that this direction sends.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct View {
    /// The pieces of data, in the order in which they were captured.
    pub data: Vec<Data>,
    /// The acknowledgements. Each entry is the time in nanoseconds, and the first TSN or byte that is not acknowledged.
    pub acknowledged: Vec<(u64, i64)>,
    /// The measured round-trip times: the time of each measurement and its result, in nanoseconds.
    pub round_trips: Vec<(u64, u64)>,
    /// The amount of data in flight after each packet that changed it. Each entry is the packet's time in nanoseconds,
    /// and the number of TSNs (SCTP) or bytes (TCP) in flight.
    pub flight: Vec<(u64, i64)>,
    /// The number of pieces of data that are missing in `data`, because the maximum number of pieces was reached.
    pub left_out: u64,
}

/// A piece of data that a packet carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Data {
    /// The time when the data was captured, in nanoseconds since the first packet of the capture.
    pub at_ns: u64,
    /// The first TSN or byte of the data, counted from the first TSN or byte that its sender sent.
    pub start: i64,
    /// The TSN or byte that follows the data, counted like `start`.
    pub end: i64,
    /// The stream identifier, or 0 for TCP.
    pub stream: u64,
    /// The reason why the data was sent.
    pub why: SendReason,
}

/// The reason why data was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendReason {
    /// The data was sent for the first time.
    New,
    /// The data was sent for the first time, and the network delivered later data before it.
    Overtaken,
    /// The data was retransmitted after acknowledgements that reported a gap.
    Fast,
    /// The data was retransmitted after a timer expired.
    Timeout,
    /// The data was retransmitted for a reason that the packets do not show.
    Other,
    /// The data was retransmitted although the receiver already had it.
    Spurious,
}

impl View {
    /// Adds a piece of data. If `most` pieces are already kept, only counts it.
    pub(super) fn data(
        &mut self,
        most: usize,
        at_ns: u64,
        (start, end): (i64, i64),
        stream: u64,
        class: DataClass,
    ) {
        if self.data.len() >= most {
            self.left_out += 1;
            return;
        }
        let why = match class {
            DataClass::New => SendReason::New,
            DataClass::Reordered => SendReason::Overtaken,
            DataClass::Retransmitted { spurious: true, .. } => SendReason::Spurious,
            DataClass::Retransmitted { cause: Cause::Fast, .. } => SendReason::Fast,
            DataClass::Retransmitted { cause: Cause::Timeout, .. } => SendReason::Timeout,
            DataClass::Retransmitted { cause: Cause::Other, .. } => SendReason::Other,
        };
        self.data.push(Data { at_ns, start, end, stream, why });
    }

    /// Records the first TSN or byte that is not acknowledged, and the number of TSNs or bytes in flight, if they
    /// changed. Keeps at most `most` records of each.
    pub(super) fn state(&mut self, most: usize, at_ns: u64, cumulative: i64, flight: i64) {
        let known = self.acknowledged.last().map_or(0, |last| last.1);
        if cumulative > known && self.acknowledged.len() < most {
            self.acknowledged.push((at_ns, cumulative));
        }
        if self.flight.last().map_or(0, |last| last.1) != flight && self.flight.len() < most {
            self.flight.push((at_ns, flight));
        }
    }

    /// Adds a measured round-trip time, in nanoseconds.
    pub(super) fn round_trip(&mut self, most: usize, at_ns: u64, nanos: u64) {
        if self.round_trips.len() < most {
            self.round_trips.push((at_ns, nanos));
        }
    }
}
