//! Several endpoints behind one port, a thread each: a connection id says whose a packet is.
//!
//! The first four bytes of a destination connection id, modulo their number, are the endpoint's. A client draws its first one
//! (RFC 9000 §7.2), which leads to some endpoint; that one gives the connection ids that lead to it again, wherever the
//! client's packets come from. So nothing is shared, and a client that moves is followed.

use anabranch_base::Icmp;
use anabranch_world::steering::{Mark, Steering};
use std::net::IpAddr;

/// One of several endpoints behind a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shard {
    index: u32,
    count: u32,
}

impl Shard {
    /// Number `index` of `count`; `None` where there is no such one, or more than may be.
    #[must_use]
    pub fn new(index: u32, count: u32) -> Option<Self> {
        (index < count && count <= MAX).then_some(Self { index, count })
    }

    /// Makes a connection id lead here, by as little as that takes.
    pub(crate) fn mark(self, id: &mut [u8]) {
        let Some(first) = id.first_chunk_mut::<4>() else { return };
        let drawn = u32::from_be_bytes(*first);
        // The largest of all is at most the number of endpoints too high.
        let base = (drawn - drawn % self.count).min(u32::MAX - u32::MAX % self.count - self.count);
        *first = (base + self.index).to_be_bytes();
    }
}

/// Whose a packet is, of so many endpoints.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Steered {
    count: u32,
}

impl Steered {
    /// Among so many; `None` where those are too many, or none.
    #[must_use]
    pub fn new(count: u32) -> Option<Self> {
        (1..=MAX).contains(&count).then_some(Self { count })
    }
}

impl Steering for Steered {
    fn owner(&self, _: IpAddr, packet: &[u8]) -> Option<u32> {
        let at = if packet.first()? & 0x80 == 0 { 1 } else { 6 };
        let first = packet.get(at..)?.first_chunk::<4>()?;
        Some(u32::from_be_bytes(*first) % self.count)
    }

    fn owner_of_report(&self, _: &Icmp, _: &[u8]) -> Option<u32> {
        // A server believes none.
        None
    }

    fn mark(&self) -> Mark {
        Mark::ConnectionId
    }
}

/// More would be no use, and take from what is random of a connection id.
const MAX: u32 = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::{IcmpKind, Rng};

    #[test]
    fn a_report_of_the_network_belongs_to_no_endpoint() {
        let (source, target) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let icmp = Icmp { kind: IcmpKind::Unreachable(3), source, target };
        let quoted = [0xc0, 0, 0, 0, 1, 8, 0, 0, 0, 0, 0, 0, 0, 0];
        let steered = Steered::new(2).expect("some");
        assert_eq!(steered.owner(source, &quoted), Some(0));
        assert_eq!(steered.owner_of_report(&icmp, &quoted), None);
    }

    #[test]
    fn what_is_marked_leads_back() {
        let mut rng = Rng::new(3);
        for count in [1, 2, 3, 7, 64, 256] {
            let steered = Steered::new(count).expect("some");
            for _ in 0..200 {
                let index = rng.below(u64::from(count)) as u32;
                let mut id = [0; 8];
                rng.fill(&mut id);
                if rng.below(10) == 0 {
                    id[..4].fill(0xff);
                }
                Shard::new(index, count).expect("one").mark(&mut id);
                let short = [&[0x40][..], &id, &[9; 9]].concat();
                let long = [&[0xc0, 0, 0, 0, 1, 8][..], &id, &[9; 9]].concat();
                let owners = [short, long].map(|packet| steered.owner([0, 0, 0, 0].into(), &packet));
                assert_eq!(owners, [Some(index); 2]);
            }
            for cut in 0..5 {
                assert_eq!(steered.owner([0, 0, 0, 0].into(), &[0x40; 5][..cut]), None);
            }
        }
        assert_eq!((Shard::new(2, 2), Steered::new(0), Steered::new(257)), (None, None, None));
    }
}
