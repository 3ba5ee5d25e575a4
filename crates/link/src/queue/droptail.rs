//! Drop-tail: a queue that accepts packets while they fit, and drops all others.
//!
//! This module also defines the limit that every queue has, and the threshold above which a drop-tail queue marks
//! ECN-capable packets (as for DCTCP, RFC 8257 §3.1).

use super::{Admission, Occupancy};

/// The maximum number of packets or bytes that may wait in a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// At most this many packets.
    Packets(u64),
    /// At most this many bytes.
    Bytes(u64),
    /// No limit, for links whose queue does not matter.
    Unlimited,
}

impl Limit {
    /// Returns whether a packet of `bytes` bytes may join the packets that already wait.
    #[must_use]
    #[inline]
    pub const fn has_room(self, waiting: Occupancy, bytes: usize) -> bool {
        match self {
            Self::Packets(limit) => waiting.packets < limit,
            Self::Bytes(limit) => waiting.bytes + bytes as u64 <= limit,
            Self::Unlimited => true,
        }
    }
}

/// The backlog above which a drop-tail queue marks ECN-capable packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Threshold(
    /// A packet is marked if the backlog, including this packet, would exceed this limit.
    pub Limit,
);

impl Threshold {
    /// Decides about a packet. A packet that would bring the queue above the threshold is marked if it is ECN-capable.
    /// The threshold drops no packet, so every other packet is accepted without a mark.
    #[inline]
    pub(super) const fn admit(self, waiting: Occupancy, bytes: usize) -> Admission {
        if self.0.has_room(waiting, bytes) { Admission::Take } else { Admission::MarkOrDrop }
    }
}

#[cfg(test)]
mod tests {
    use crate::element::{Carried, Fate, ImmediateElement, TestPacket};
    use crate::meter::{DropCause, Meter};
    use crate::queue::{Bottleneck, Limit, Policy, Threshold};
    use crate::rate::{Rate, Serializer};
    use anabranch_base::{Ecn, Instant};

    /// Creates a queue on a link of 12 Mbit/s, which sends a packet of 1500 bytes in 1 ms.
    fn bottleneck(limit: Limit, policy: Policy) -> Bottleneck {
        Bottleneck::new(limit, policy, Serializer::Rate(Rate::new("12mbit".parse().expect("a rate"))))
    }

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1000)
    }

    #[test]
    fn packets_wait_until_their_first_bit_is_sent() {
        let mut queue = bottleneck(Limit::Packets(2), Policy::DropTail(None));
        let mut meter = Meter::default();
        let mut send = |micros| queue.pass(at(micros), &mut TestPacket::new(1500), &mut meter);
        // The first packet is on the wire, two more packets wait, and the fourth packet finds no room.
        assert_eq!(send(0), Fate::Leaves(at(1000)));
        assert_eq!(send(0), Fate::Leaves(at(2000)));
        assert_eq!(send(0), Fate::Leaves(at(3000)));
        assert_eq!(send(999), Fate::Lost(DropCause::Overflow));
        // At 1 ms the second packet starts to be sent, which makes room for one more packet.
        assert_eq!(send(1000), Fate::Leaves(at(4000)));
        assert_eq!(send(1000), Fate::Lost(DropCause::Overflow));
        // The link is idle from 4 ms on, so a packet at 5.5 ms is sent immediately.
        assert_eq!(send(5500), Fate::Leaves(at(6500)));
        assert_eq!(meter.queue_peak_packets, 2);
        assert_eq!(meter.queue_peak_bytes, 3000);
    }

    #[test]
    fn a_limit_in_bytes_counts_the_packet_that_comes() {
        let mut queue = bottleneck(Limit::Bytes(2000), Policy::DropTail(None));
        let mut meter = Meter::default();
        let mut send = |bytes| queue.pass(at(0), &mut TestPacket::new(bytes), &mut meter);
        assert!(matches!(send(1500), Fate::Leaves(_)));
        assert!(matches!(send(1500), Fate::Leaves(_)));
        assert_eq!(send(501), Fate::Lost(DropCause::Overflow));
        assert!(matches!(send(500), Fate::Leaves(_)));
    }

    #[test]
    fn above_the_threshold_what_can_be_marked_is() {
        let mut queue = bottleneck(Limit::Packets(10), Policy::DropTail(Some(Threshold(Limit::Packets(1)))));
        let mut meter = Meter::default();
        let mut marks = Vec::new();
        for ecn in [Ecn::Ect0, Ecn::Ect0, Ecn::Ect1, Ecn::NotEct, Ecn::Ce] {
            let mut packet = TestPacket { ecn, ..TestPacket::new(1500) };
            assert!(matches!(queue.pass(at(0), &mut packet, &mut meter), Fate::Leaves(_)));
            marks.push(packet.ecn());
        }
        // The first packet is sent at once, so the second packet is alone in the queue. The third, the fourth and the
        // fifth exceed the threshold of one packet. Of these, only the third is marked now: the fourth is not
        // ECN-capable, and the fifth was marked before.
        assert_eq!(marks, [Ecn::Ect0, Ecn::Ect0, Ecn::Ce, Ecn::NotEct, Ecn::Ce]);
        assert_eq!(meter.changed.marked.packets, 1);
    }
}
