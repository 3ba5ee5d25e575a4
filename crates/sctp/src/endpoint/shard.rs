//! Several endpoints that share the same addresses and port, one per thread.
//!
//! The local verification tag of an association encodes the endpoint (shard) that owns the association. The peer's
//! COOKIE ECHO and all later packets of the peer carry this tag, whatever addresses and UDP ports these packets have. A
//! hash of addresses would not find an association that is multi-homed, or whose NAT mapping has changed.
//!
//! An INIT does not carry the local tag, and an ABORT with the T bit carries the peer's tag. These packets are matched
//! by addresses and ports. Each endpoint publishes the addresses and ports that it owns as [`Claim`]s, and looks up the
//! claims of other endpoints through [`OtherShards`].
//!
//! Implements RFC 9260 §5.3.1: a tag is random, except for the part that encodes the shard.

use super::Endpoint;
use super::demux::AddressKey;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// The index of an endpoint among the endpoints that share a port, and the number of these endpoints.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shard {
    index: u32,
    count: u32,
}

/// A notice by an endpoint to the other shards that it has gained or lost an association. The claim names the peer's
/// address and both ports of the association.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Claim {
    /// The peer's address.
    pub peer: IpAddr,
    /// The peer's SCTP port.
    pub peer_port: u16,
    /// The local SCTP port.
    pub local_port: u16,
    /// True if the endpoint that sends this notice has gained the association, false if it has lost the association.
    pub gained: bool,
}

/// Queries to the other endpoints that share the port ([`Shard`]).
pub trait OtherShards: Send + Sync + fmt::Debug {
    /// Returns whether the endpoint of another shard than `shard` has the association with these ports and this address
    /// of the peer.
    fn has_association(&self, shard: Shard, peer: IpAddr, peer_port: u16, local_port: u16) -> bool;

    /// Returns whether another SCTP stack on this host uses the port at this local address or, without an `address`, at
    /// any local address. If so, this endpoint neither answers packets to the port nor chooses the port for an
    /// association.
    fn have_port(&self, address: Option<IpAddr>, port: u16) -> bool {
        let _ = (address, port);
        false
    }
}

impl Shard {
    /// The maximum number of shards. With 64 shards, 26 bits of a tag are random; with 16 shards, 28 bits are random.
    pub const MAX: u32 = 64;

    /// Returns the shard with this index, counted from 0, of `count` shards. Returns `None` if `index` or `count` is
    /// too large.
    #[must_use]
    pub fn new(index: u32, count: u32) -> Option<Self> {
        (index < count && count <= Self::MAX).then_some(Self { index, count })
    }

    /// Returns the index of this shard.
    #[must_use]
    pub fn index(self) -> u32 {
        self.index
    }

    /// Returns the number of shards.
    #[must_use]
    pub fn count(self) -> u32 {
        self.count
    }

    /// Returns the index of the shard that owns `tag`, if there are `count` shards.
    #[must_use]
    pub fn of_tag(tag: u32, count: u32) -> u32 {
        tag % count.max(1)
    }

    /// Returns whether this shard may choose the port as an ephemeral port.
    pub(super) fn owns_port(self, port: u16) -> bool {
        u32::from(port) % self.count == self.index
    }

    /// Returns the tag of this shard in the block that contains `tag`; `None` on overflow. A block is `count`
    /// consecutive tags, one for each shard.
    fn own(self, tag: u32) -> Option<u32> {
        (tag - Self::of_tag(tag, self.count)).checked_add(self.index)
    }
}

impl Default for Shard {
    fn default() -> Self {
        Self { index: 0, count: 1 }
    }
}

impl Endpoint {
    /// Makes this endpoint one of several that share the same addresses and UDP port. Must be called before the first
    /// association. The endpoint then chooses only local tags and local SCTP ports that belong to its shard. If the
    /// application chooses a local SCTP port, that port must belong to the shard as well.
    ///
    /// ```
    /// # use anabranch_base::{Engine, Rng, SendBatch};
    /// # use anabranch_sctp::testing::{address, Pair, Side};
    /// # use anabranch_sctp::{Associate, Config, OtherShards, Shard};
    /// # use std::{net::IpAddr, sync::Arc};
    /// #[derive(Debug)]
    /// struct Nobody;
    /// impl OtherShards for Nobody {
    ///     fn has_association(&self, _: Shard, _: IpAddr, _: u16, _: u16) -> bool {
    ///         false
    ///     }
    /// }
    ///
    /// # let Pair { mut a, now, .. } = Pair::new(Config::default(), Config::default(), 1, 1);
    /// a.set_shard(Shard::new(1, 4).expect("there are four"), Arc::new(Nobody));
    /// a.associate(now, Associate::to(address(Side::B, 0), 80))?;
    /// let mut batch = SendBatch::new(1);
    /// assert!(a.poll_transmit(now, &mut batch));
    /// let init = batch.packets().next().expect("an INIT");
    /// let tag = u32::from_be_bytes(init.payload[16..20].try_into()?);
    /// assert_eq!(Shard::of_tag(tag, 4), 1, "answers find it");
    /// assert!(a.poll_claim().is_some_and(|claim| claim.gained && claim.peer_port == 80));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_shard(&mut self, shard: Shard, other_shards: Arc<dyn OtherShards>) {
        assert!(self.slots.is_empty(), "there are associations already");
        self.shard = shard;
        self.other_shards = Some(other_shards);
    }

    /// Returns the shard of this endpoint.
    #[must_use]
    pub fn shard(&self) -> Shard {
        self.shard
    }

    /// Returns the next claim, which must be passed to the other endpoints that share the port. Always `None` if there
    /// is only one shard.
    pub fn poll_claim(&mut self) -> Option<Claim> {
        self.claims.pop_front()
    }

    /// RFC 9260 §5.3.1: returns a random tag that is not 0 and not in use.
    pub(super) fn new_tag(&mut self) -> u32 {
        loop {
            let Some(tag) = self.shard.own(self.rng.next_u32()) else { continue };
            // A new association must not get the tag of a used cookie. Its COOKIE ECHO would look like a delayed copy
            // of the old COOKIE ECHO.
            if tag != 0 && !self.demux.has_tag(tag) && !self.used_cookies.has(tag) {
                return tag;
            }
        }
    }

    /// Returns whether another SCTP stack on this host uses the port at `address` or, without an `address`, at any
    /// local address.
    pub(super) fn has_neighbour(&self, address: Option<IpAddr>, port: u16) -> bool {
        self.other_shards.as_ref().is_some_and(|others| others.have_port(address, port))
    }

    /// Returns whether another endpoint that shares the port has the association with these addresses and ports.
    pub(super) fn is_known_to_other_shard(&self, pair: AddressKey) -> bool {
        let AddressKey { peer, peer_port, local_port, .. } = pair;
        let others = self.other_shards.as_ref();
        others.is_some_and(|others| others.has_association(self.shard, peer, peer_port, local_port))
    }

    #[inline]
    pub(super) fn claim(&mut self, pair: AddressKey, gained: bool) {
        if self.shard.count > 1 {
            let AddressKey { peer, peer_port, local_port, .. } = pair;
            self.claims.push_back(Claim { peer, peer_port, local_port, gained });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Associate, Config};
    use anabranch_base::{Ecn, Engine, Instant, Packet, Rng, SendBatch};
    use anabranch_wire::sctp::{ShutdownAck, packet};
    use std::net::SocketAddr;

    /// A test double for the other shards. They have one association, with this address of the peer and the ports 5000
    /// and 80.
    #[derive(Debug)]
    struct Theirs(IpAddr);

    impl OtherShards for Theirs {
        fn has_association(&self, _: Shard, peer: IpAddr, peer_port: u16, local_port: u16) -> bool {
            (peer, peer_port, local_port) == (self.0, 5000, 80)
        }
    }

    fn endpoint(shard: Shard) -> Endpoint {
        let config = Config::profile("rfc9260").expect("a profile");
        let mut endpoint = Endpoint::new(config, vec!["192.0.2.1:9899".parse().expect("one")], Rng::new(7));
        endpoint.set_shard(shard, Arc::new(Theirs([192, 0, 2, 7].into())));
        endpoint
    }

    #[test]
    fn tags_are_spread_over_all_that_are_a_shards_own() {
        for count in [1, 2, 3, 16, 64] {
            for index in [0, count - 1] {
                let shard = Shard::new(index, count).expect("there is one");
                let mut endpoint = endpoint(shard);
                let tags: Vec<u32> = (0..2000).map(|_| endpoint.new_tag()).collect();
                assert!(tags.iter().all(|&tag| tag != 0 && Shard::of_tag(tag, count) == index));
                // In the upper bits of the tags, zeros and ones are still equally frequent.
                for bit in 8..32 {
                    let ones = tags.iter().filter(|&&tag| tag >> bit & 1 == 1).count();
                    assert!((850..1150).contains(&ones), "bit {bit} of {count}: {ones}");
                }
            }
        }
        assert_eq!(Shard::new(2, 2), None);
        assert_eq!(Shard::new(0, 65), None);
        let last = Shard::new(2, 3).expect("there is one");
        assert_eq!((last.own(u32::MAX), last.own(u32::MAX - 1)), (None, Some(u32::MAX - 1)));
    }

    #[test]
    fn claims_report_begun_and_ended_associations() {
        let shard = Shard::new(1, 3).expect("there is one");
        let mut endpoint = endpoint(shard);
        let ask = Associate::to("192.0.2.9:9899".parse().expect("an address"), 80);
        let id = endpoint.associate(Instant::ZERO, ask).expect("begun");
        let claim = endpoint.poll_claim().expect("a claim");
        assert!(claim.gained && claim.peer_port == 80 && u32::from(claim.local_port) % 3 == 1);
        assert_eq!(endpoint.poll_claim(), None);
        endpoint.abort(Instant::ZERO, id);
        assert_eq!(endpoint.poll_claim(), Some(Claim { gained: false, ..claim }));
        assert_eq!(endpoint.poll_claim(), None);
        let mut alone = super::tests::endpoint(Shard::default());
        let ask = Associate::to("192.0.2.9:9899".parse().expect("an address"), 80);
        alone.associate(Instant::ZERO, ask).expect("begun");
        assert_eq!(alone.poll_claim(), None);
    }
    /// RFC 9260 §8.5 and §8.4: this shard sends no answer to a packet that belongs to an association of another shard.
    #[test]
    fn packets_of_another_shards_association_are_not_answered() {
        let mut endpoint = endpoint(Shard::new(1, 3).expect("there is one"));
        for (last, answered) in [(7, false), (8, true)] {
            let mut bytes = Vec::new();
            let start = packet::begin(&mut bytes, 5000, 80, 0x4000_0000);
            ShutdownAck.emit(&mut bytes);
            packet::finish(&mut bytes, start);
            let source = SocketAddr::from(([192, 0, 2, last], 9899));
            let target = SocketAddr::from(([192, 0, 2, 1], 9899));
            let packet = Packet { source, target, ecn: Ecn::NotEct, tag: 0, payload: &bytes };
            endpoint.handle_packet(Instant::ZERO, packet);
            let mut out = SendBatch::new(1);
            assert_eq!(endpoint.poll_transmit(Instant::ZERO, &mut out), answered);
        }
    }
}
