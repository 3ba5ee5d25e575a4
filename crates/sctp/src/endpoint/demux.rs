//! Demultiplexing: finds the association that a packet belongs to.
//!
//! The association of most packets is found by the local tag, which is random and known only to the peer. If the tag is
//! unknown or 0, the association is found by addresses and ports.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::net::{IpAddr, SocketAddr};

/// A key of the demultiplexer: the peer's address and both ports. Made by [`Demux::address_key`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct AddressKey {
    pub(super) peer: IpAddr,
    pub(super) peer_port: u16,
    pub(super) local_port: u16,
    /// The peer's UDP encapsulation port; 0 without UDP encapsulation, or if UDP ports do not distinguish peers.
    udp_port: u16,
}

/// The maximum number of associations to which one ICMP message is passed. Several associations over UDP can have the
/// same address and SCTP ports, and the message lacks the UDP port that would distinguish them.
const MAX_LOOKED_AT: usize = 16;

/// Hashes a tag to itself. Tags are random and this side chooses them, so an attacker cannot cause collisions.
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
        // The hash table uses both the low and the high bits of a hash, so the tag is stored in both.
        self.0 = u64::from(tag) | u64::from(tag) << 32;
    }
}

/// The maps from a packet's tag, or from its addresses and ports, to the slot of its association.
#[derive(Debug, Default)]
pub(crate) struct Demux {
    /// Whether the UDP port distinguishes peers that have the same address.
    udp_apart: bool,
    tags: HashMap<u32, u32, BuildHasherDefault<TagHasher>>,
    address_keys: BTreeMap<AddressKey, u32>,
    /// The tag and slot that were found last. They are compared first, because packets for one association often arrive
    /// one after the other.
    last: Option<(u32, u32)>,
}

impl Demux {
    /// Creates an empty demultiplexer. Several applications on one host or behind one NAT may each have an SCTP stack
    /// (RFC 6951 §5.1). The stacks share an IP address, and may use the same SCTP ports. With `udp_apart`, the
    /// demultiplexer distinguishes the stacks by their UDP ports. Without `udp_apart`, the lookup follows RFC 6951
    /// §5.4, and the INIT of one application can restart the association of another application.
    pub(super) fn new(udp_apart: bool) -> Self {
        Self { udp_apart, ..Self::default() }
    }

    /// Returns the key of an association with the peer's address `peer` and these SCTP ports.
    pub(super) fn address_key(&self, peer: SocketAddr, peer_port: u16, local_port: u16) -> AddressKey {
        let udp_port = if self.udp_apart { peer.port() } else { 0 };
        AddressKey { peer: peer.ip(), peer_port, local_port, udp_port }
    }

    /// Returns the slot of the association whose local tag is `tag`.
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

    pub(super) fn by_address_key(&self, address_key: AddressKey) -> Option<u32> {
        self.address_keys.get(&address_key).copied()
    }

    /// Returns the slots of the associations with this address and these ports, whatever their UDP port. At most
    /// `MAX_LOOKED_AT` slots are returned.
    pub(super) fn by_address(&self, peer: IpAddr, peer_port: u16, local_port: u16) -> Vec<u32> {
        let address_key = |udp_port: u16| AddressKey { peer, peer_port, local_port, udp_port };
        self.address_keys
            .range(address_key(0)..=address_key(u16::MAX))
            .map(|(_, slot)| *slot)
            .take(MAX_LOOKED_AT)
            .collect()
    }

    pub(super) fn has_tag(&self, tag: u32) -> bool {
        self.tags.contains_key(&tag)
    }

    /// Returns the number of stored tags and the number of stored address keys.
    pub(super) fn sizes(&self) -> (usize, usize) {
        (self.tags.len(), self.address_keys.len())
    }

    pub(super) fn add_tag(&mut self, tag: u32, slot: u32) {
        self.tags.insert(tag, slot);
    }

    pub(super) fn remove_tag(&mut self, tag: u32) {
        self.tags.remove(&tag);
        self.last = None;
    }

    /// Stores `address_key` for `slot`. Returns false if the key already belongs to a slot.
    pub(super) fn add_address_key(&mut self, address_key: AddressKey, slot: u32) -> bool {
        let entry = self.address_keys.entry(address_key);
        let free = matches!(entry, Entry::Vacant(_));
        entry.or_insert(slot);
        free
    }

    /// Removes `address_key`. Returns false if the key belongs to another slot.
    pub(super) fn remove_address_key(&mut self, address_key: AddressKey, slot: u32) -> bool {
        let ours = self.address_keys.get(&address_key) == Some(&slot);
        if ours {
            self.address_keys.remove(&address_key);
        }
        ours
    }
}
