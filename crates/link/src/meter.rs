//! Counters of a chain.
//!
//! Invariant: entered + duplicated = left + lost + still inside, in packets and in
//! bytes. The counters cost a few additions per packet and are always on.

use crate::Changed;
use crate::element::Cause;

/// A number of packets and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// The number of packets.
    pub packets: u64,
    /// The number of bytes, IP headers included.
    pub bytes: u64,
}

impl Tally {
    /// Counts one more packet of `bytes`.
    #[inline]
    pub fn add(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }

    /// Returns the sum.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self { packets: self.packets + other.packets, bytes: self.bytes + other.bytes }
    }
}

/// The counters of one chain.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Meter {
    /// Packets that entered the chain.
    pub entered: Tally,
    /// Packets that left the chain.
    pub left: Tally,
    /// Packets that were changed but not lost.
    pub changed: Changed,
    /// Lost: the queue was full.
    pub overflowed: Tally,
    /// Lost: dropped early by active queue management.
    pub dropped_early: Tally,
    /// Lost: by the loss model.
    pub lost_at_random: Tally,
    /// Lost: collided with packets from the other end too often.
    pub lost_in_collisions: Tally,
    /// Lost: the link was down.
    pub lost_in_outage: Tally,
    /// Refused: larger than the MTU.
    pub too_big: Tally,
    /// The maximum number of packets that waited in the queue at once, without the one
    /// being serialized.
    pub queue_peak_packets: u64,
    /// The maximum number of bytes that waited in the queue at once.
    pub queue_peak_bytes: u64,
}

impl Meter {
    /// Counts a lost packet under its cause.
    pub fn lose(&mut self, cause: Cause, bytes: usize) {
        match cause {
            Cause::Overflow => self.overflowed.add(bytes),
            Cause::Early => self.dropped_early.add(bytes),
            Cause::Loss => self.lost_at_random.add(bytes),
            Cause::Collision => self.lost_in_collisions.add(bytes),
            Cause::Outage => self.lost_in_outage.add(bytes),
            Cause::TooBig(_) => self.too_big.add(bytes),
        }
    }

    /// Lost packets by cause: the name in results, and a phrase.
    #[must_use]
    pub fn lost_by(&self) -> [(&'static str, &'static str, Tally); 6] {
        [
            ("queue", "by a full queue", self.overflowed),
            ("aqm", "by queue management", self.dropped_early),
            ("loss", "by the loss model", self.lost_at_random),
            ("collision", "in collisions", self.lost_in_collisions),
            ("outage", "in an outage", self.lost_in_outage),
            ("too_big", "too big", self.too_big),
        ]
    }

    /// All packets that entered and were lost, for any cause.
    #[must_use]
    pub fn lost(&self) -> Tally {
        self.lost_by().into_iter().fold(Tally::default(), |sum, (.., one)| sum.plus(one))
    }

    /// Returns the sum of the counters of two chains, and the higher of their peaks.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            entered: self.entered.plus(other.entered),
            left: self.left.plus(other.left),
            changed: self.changed.plus(&other.changed),
            overflowed: self.overflowed.plus(other.overflowed),
            dropped_early: self.dropped_early.plus(other.dropped_early),
            lost_at_random: self.lost_at_random.plus(other.lost_at_random),
            lost_in_collisions: self.lost_in_collisions.plus(other.lost_in_collisions),
            lost_in_outage: self.lost_in_outage.plus(other.lost_in_outage),
            too_big: self.too_big.plus(other.too_big),
            queue_peak_packets: self.queue_peak_packets.max(other.queue_peak_packets),
            queue_peak_bytes: self.queue_peak_bytes.max(other.queue_peak_bytes),
        }
    }

    /// Records the current length of the queue.
    #[inline]
    pub fn queue_holds(&mut self, packets: u64, bytes: u64) {
        // Rarely taken branches are faster than computing two maxima.
        if packets > self.queue_peak_packets {
            self.queue_peak_packets = packets;
        }
        if bytes > self.queue_peak_bytes {
            self.queue_peak_bytes = bytes;
        }
    }
}
