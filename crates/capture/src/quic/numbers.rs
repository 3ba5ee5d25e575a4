//! The packet numbers that one side of a QUIC connection has used: which packets arrived, and which never did.
//!
//! The numbers of a side have no gaps, except those that it skips on purpose (RFC 9000 §21.4), which are rare. A number
//! that was not captured therefore belongs to a packet that was lost before the place of capture, unless the peer
//! acknowledged it.

use crate::ranges::Ranges;
use crate::timeline::LostPackets;

/// The maximum number of gaps that are remembered.
const MAX_GAPS: usize = 1 << 16;

/// Missing packet numbers between captured ones.
struct Gap {
    start: u64,
    end: u64,
    /// The time of the packet after the gap, and its number in the capture.
    at: u64,
    packet: u64,
}

#[derive(Default)]
pub(super) struct PacketNumbers {
    /// The lowest captured number, and the number after the highest one.
    range: Option<(u64, u64)>,
    /// The numbers of packets that were acknowledged, and of captured packets that need no acknowledgement.
    settled: Ranges,
    gaps: Vec<Gap>,
}

impl PacketNumbers {
    /// Records a captured packet. `packet` is its number in the capture.
    pub fn captured(&mut self, number: u64, at: u64, packet: u64, needs_ack: bool) {
        let (first, end) = *self.range.get_or_insert((number, number));
        if number > end && self.gaps.len() < MAX_GAPS {
            self.gaps.push(Gap { start: end, end: number, at, packet });
        }
        self.range = Some((first.min(number), end.max(number.saturating_add(1))));
        if !needs_ack {
            self.arrived(number, number);
        }
    }

    /// Records that the packets `first..=last` have arrived.
    pub fn arrived(&mut self, first: u64, last: u64) {
        // RFC 9000 §12.3: a packet number is less than 2^62.
        let bounded = |number: u64| number.min(1 << 62) as i64;
        self.settled.insert(bounded(first), bounded(last) + 1);
    }

    /// Returns how many numbers this side has used.
    pub fn all(&self) -> u64 {
        self.range.map_or(0, |(first, end)| end - first)
    }

    /// Returns the packets below `lost_before` that were lost before the place of capture. `waiting` returns how many
    /// packets of a range were captured and not acknowledged.
    pub fn lost(
        &self,
        lost_before: u64,
        waiting: impl Fn(std::ops::Range<u64>) -> u64,
    ) -> impl Iterator<Item = LostPackets> {
        self.gaps.iter().filter_map(move |gap| {
            let (start, end) = (gap.start, gap.end.min(lost_before));
            if start >= end {
                return None;
            }
            let absent = self.settled.absent(start as i64, end as i64).unsigned_abs();
            let count = absent.saturating_sub(waiting(start..end));
            let lost = LostPackets { at: gap.at, packet: gap.packet, count, is_captured: false };
            (count > 0).then_some(lost)
        })
    }
}
