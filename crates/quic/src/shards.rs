//! Runs several endpoints behind one port, one thread each. The connection ID assigns each packet to an endpoint.
//!
//! The first four bytes of a destination connection ID, as a number modulo the number of endpoints, are the index of
//! the endpoint. A client chooses its first destination connection ID at random (RFC 9000 §7.2), so its first packet
//! reaches a random endpoint. All connection IDs that an endpoint issues lead to that endpoint, whatever the client's
//! address. Therefore the endpoints share no state, and a client may change its address.

use anabranch_base::Icmp;
use anabranch_world::steering::{Steering, SteeringField};
use std::net::IpAddr;

/// Identifies one of the endpoints that share a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shard {
    index: u32,
    count: u32,
}

impl Shard {
    /// Creates the identity of endpoint `index` among `count` endpoints. Returns `None` if the index is out of range or
    /// `count` is above the limit.
    #[must_use]
    pub fn new(index: u32, count: u32) -> Option<Self> {
        (index < count && count <= MAX).then_some(Self { index, count })
    }

    /// Changes the first four bytes of a connection ID so that packets with this ID are assigned to this endpoint. The
    /// bytes stay as random as possible.
    pub(crate) fn mark(self, id: &mut [u8]) {
        let Some(first) = id.first_chunk_mut::<4>() else { return };
        let drawn = u32::from_be_bytes(*first);
        // The base is a multiple of `count`. It is not the highest multiple, because adding the index to the highest
        // multiple could overflow.
        let base = (drawn - drawn % self.count).min(u32::MAX - u32::MAX % self.count - self.count);
        *first = (base + self.index).to_be_bytes();
    }
}

/// Assigns each packet to one of the `count` endpoints that share a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Steered {
    count: u32,
}

impl Steered {
    /// Creates the rule that assigns each packet to one of `count` endpoints. Returns `None` if `count` is 0 or above
    /// the limit.
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
        // A QUIC server ignores ICMP messages, so no endpoint gets them.
        None
    }

    fn field(&self) -> SteeringField {
        SteeringField::ConnectionId
    }
}

/// The maximum number of endpoints behind a port. More endpoints would be of no use, and would make connection IDs less
/// random.
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
    fn a_marked_connection_id_steers_to_its_endpoint() {
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
