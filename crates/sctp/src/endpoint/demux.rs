//! Whose packet is it?
//!
//! By our own tag, which is random and known to the peer alone; by addresses
//! and ports for the packets that carry another tag or none.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::net::{IpAddr, SocketAddr};

/// The peer's address, and both ports. Made by [`Demux::pair`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Pair {
    pub(super) peer: IpAddr,
    pub(super) peer_port: u16,
    pub(super) local_port: u16,
    /// 0 without UDP, and where it does not count.
    udp_port: u16,
}

/// How many associations a report of the network is shown, which does not say of which UDP port it is.
const MAX_LOOKED_AT: usize = 16;

/// Tags are random and chosen by us, so they are their own hash.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct TagHasher(u64);

impl Hasher for TagHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0 << 8 | u64::from(byte);
        }
    }

    fn write_u32(&mut self, tag: u32) {
        // Both the low and the high bits are used by the table.
        self.0 = u64::from(tag) | u64::from(tag) << 32;
    }
}

/// The maps from what a packet carries to a slot.
#[derive(Debug, Default)]
pub(crate) struct Demux {
    /// Peers are told apart by their UDP port, too.
    udp_apart: bool,
    tags: HashMap<u32, u32, BuildHasherDefault<TagHasher>>,
    pairs: BTreeMap<Pair, u32>,
    /// The last one found: packets come in runs.
    last: Option<(u32, u32)>,
}

impl Demux {
    /// Programs that have SCTP in them share an address with others (RFC 6951 §5.1), on their host or behind their NAT, and
    /// cannot know what SCTP ports those have taken. With `udp_apart` their UDP ports keep them apart; else the INIT of one
    /// can restart the association of another, as the lookup of RFC 6951 §5.4 has it.
    pub(super) fn new(udp_apart: bool) -> Self {
        Self { udp_apart, ..Self::default() }
    }

    /// By what an association with this address of the peer is found.
    pub(super) fn pair(&self, peer: SocketAddr, peer_port: u16, local_port: u16) -> Pair {
        let udp_port = if self.udp_apart { peer.port() } else { 0 };
        Pair { peer: peer.ip(), peer_port, local_port, udp_port }
    }

    /// The association whose local tag is `tag`.
    #[inline]
    pub(crate) fn by_tag(&mut self, tag: u32) -> Option<u32> {
        if let Some((last, slot)) = self.last
            && last == tag
        {
            return Some(slot);
        }
        self.search(tag)
    }

    #[cold]
    fn search(&mut self, tag: u32) -> Option<u32> {
        let slot = *self.tags.get(&tag)?;
        self.last = Some((tag, slot));
        Some(slot)
    }

    pub(super) fn by_pair(&self, pair: Pair) -> Option<u32> {
        self.pairs.get(&pair).copied()
    }

    /// Of the associations of an address and these ports, whatever the UDP port is: the first few.
    pub(super) fn by_address(&self, peer: IpAddr, peer_port: u16, local_port: u16) -> Vec<u32> {
        let pair = |udp_port: u16| Pair { peer, peer_port, local_port, udp_port };
        self.pairs.range(pair(0)..=pair(u16::MAX)).map(|(_, slot)| *slot).take(MAX_LOOKED_AT).collect()
    }

    pub(super) fn has_tag(&self, tag: u32) -> bool {
        self.tags.contains_key(&tag)
    }

    /// How many tags and pairs of ends are known.
    pub(super) fn sizes(&self) -> (usize, usize) {
        (self.tags.len(), self.pairs.len())
    }

    pub(super) fn add_tag(&mut self, tag: u32, slot: u32) {
        self.tags.insert(tag, slot);
    }

    pub(super) fn remove_tag(&mut self, tag: u32) {
        self.tags.remove(&tag);
        self.last = None;
    }

    /// False when it is somebody's already.
    pub(super) fn add_pair(&mut self, pair: Pair, slot: u32) -> bool {
        let entry = self.pairs.entry(pair);
        let free = matches!(entry, Entry::Vacant(_));
        entry.or_insert(slot);
        free
    }

    /// False when it is another's.
    pub(super) fn remove_pair(&mut self, pair: Pair, slot: u32) -> bool {
        let ours = self.pairs.get(&pair) == Some(&slot);
        if ours {
            self.pairs.remove(&pair);
        }
        ours
    }
}
