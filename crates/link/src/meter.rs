//! Counters of the packets in a chain.
//!
//! For packets and for bytes, this invariant holds: entered + duplicated = left + lost + still inside. The counters are
//! always on; they cost a few additions per packet.

use crate::Changed;

/// A number of packets, and the number of their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// The number of packets.
    pub packets: u64,
    /// The number of bytes, IP headers included.
    pub bytes: u64,
}

impl Tally {
    /// Counts one more packet of `bytes` bytes.
    #[inline]
    pub fn add(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }

    /// Returns the sum of both tallies.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self { packets: self.packets + other.packets, bytes: self.bytes + other.bytes }
    }
}

/// The numbers of packets and bytes that wait in a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Occupancy {
    /// The number of packets.
    pub packets: u64,
    /// The number of bytes.
    pub bytes: u64,
}

/// The reason why the link did not deliver a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum DropCause {
    /// The queue was full.
    Overflow,
    /// Active queue management (RED, PIE, CoDel) dropped the packet.
    Early,
    /// The loss model dropped the packet on the wire, so the packet still used the link.
    Loss,
    /// The packet collided too often with packets from the other end.
    Collision,
    /// The link was down.
    Outage,
    /// The packet was larger than the link's MTU, which is this number of bytes. The sender gets an ICMP message.
    TooBig(u32),
}

/// The counters of one chain.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Meter {
    /// Packets that entered the chain.
    pub entered: Tally,
    /// Packets that left the chain.
    pub left: Tally,
    /// Packets that were changed but not lost, by kind of change.
    pub changed: Changed,
    /// Packets lost because the queue was full.
    pub overflowed: Tally,
    /// Packets that active queue management dropped.
    pub dropped_early: Tally,
    /// Packets lost by the loss model.
    pub lost_at_random: Tally,
    /// Packets lost because they collided too often with packets from the other end.
    pub lost_in_collisions: Tally,
    /// Packets lost because the link was down.
    pub lost_in_outage: Tally,
    /// Packets refused because they were larger than the MTU.
    pub too_big: Tally,
    /// The maximum number of packets that waited in the queue at the same time. The packet that is being serialized
    /// does not count.
    pub queue_peak_packets: u64,
    /// The maximum number of bytes that waited in the queue at the same time.
    pub queue_peak_bytes: u64,
}

impl Meter {
    /// Counts a packet of `bytes` bytes that was lost for `cause`.
    pub fn lose(&mut self, cause: DropCause, bytes: usize) {
        match cause {
            DropCause::Overflow => self.overflowed.add(bytes),
            DropCause::Early => self.dropped_early.add(bytes),
            DropCause::Loss => self.lost_at_random.add(bytes),
            DropCause::Collision => self.lost_in_collisions.add(bytes),
            DropCause::Outage => self.lost_in_outage.add(bytes),
            DropCause::TooBig(_) => self.too_big.add(bytes),
        }
    }

    /// Returns the lost packets by cause: the name of the cause in results, a phrase for reports, and the count.
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

    /// Returns the number of packets that the chain had to carry: the packets that entered, and the copies that the
    /// chain made.
    #[must_use]
    pub fn carried(&self) -> Tally {
        self.entered.plus(self.changed.duplicated)
    }

    /// Returns the number of packets that entered the chain and were lost in it, for any cause.
    #[must_use]
    pub fn lost(&self) -> Tally {
        self.lost_by().into_iter().fold(Tally::default(), |sum, (.., one)| sum.plus(one))
    }

    /// Returns the sums of the counters of two chains. A peak in the result is the larger of the two peaks.
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

    /// Records that the queue currently holds `packets` packets with `bytes` bytes.
    #[inline]
    pub fn queue_holds(&mut self, packets: u64, bytes: u64) {
        // Two rarely taken branches are faster than computing two maxima for each packet.
        if packets > self.queue_peak_packets {
            self.queue_peak_packets = packets;
        }
        if bytes > self.queue_peak_bytes {
            self.queue_peak_bytes = bytes;
        }
    }
}
