//! Counts of what a chain did to its packets.
//!
//! Always: entered + duplicated = left + lost + still inside, in packets and in
//! bytes. The counters cost a few additions a packet and are never off.

use crate::element::Cause;

/// Packets and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Packets.
    pub packets: u64,
    /// Bytes, IP headers included.
    pub bytes: u64,
}

impl Tally {
    /// One more packet of `bytes`.
    #[inline]
    pub fn add(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }
}

/// The counters of one chain.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Meter {
    /// Handed to the chain.
    pub entered: Tally,
    /// Handed out by the chain.
    pub left: Tally,
    /// Copies the chain made.
    pub duplicated: Tally,
    /// Packets whose bits the chain flipped.
    pub corrupted: Tally,
    /// Packets marked CE.
    pub marked: Tally,
    /// Packets sent ahead of their turn.
    pub overtaking: Tally,
    /// Lost: the queue was full.
    pub overflowed: Tally,
    /// Lost: taken out early by active queue management.
    pub dropped_early: Tally,
    /// Lost: by the loss model.
    pub lost_at_random: Tally,
    /// Lost: the link was down.
    pub lost_in_outage: Tally,
    /// Refused: larger than the MTU.
    pub too_big: Tally,
    /// The most packets that ever waited in the queue at once, the one being
    /// serialized not among them.
    pub queue_peak_packets: u64,
    /// The most bytes that ever waited in the queue at once.
    pub queue_peak_bytes: u64,
}

impl Meter {
    /// Counts a lost packet under its cause.
    pub fn lose(&mut self, cause: Cause, bytes: usize) {
        match cause {
            Cause::Overflow => self.overflowed.add(bytes),
            Cause::Early => self.dropped_early.add(bytes),
            Cause::Loss => self.lost_at_random.add(bytes),
            Cause::Outage => self.lost_in_outage.add(bytes),
            Cause::TooBig(_) => self.too_big.add(bytes),
        }
    }

    /// Everything that entered and will not leave, whatever the cause.
    #[must_use]
    pub fn lost(&self) -> Tally {
        let all =
            [self.overflowed, self.dropped_early, self.lost_at_random, self.lost_in_outage, self.too_big];
        all.iter().fold(Tally::default(), |sum, one| Tally {
            packets: sum.packets + one.packets,
            bytes: sum.bytes + one.bytes,
        })
    }

    /// Notes how much waits in the queue now.
    #[inline]
    pub fn queue_holds(&mut self, packets: u64, bytes: u64) {
        // Branches that are seldom taken: two maxima at once take a processor longer.
        if packets > self.queue_peak_packets {
            self.queue_peak_packets = packets;
        }
        if bytes > self.queue_peak_bytes {
            self.queue_peak_bytes = bytes;
        }
    }
}
