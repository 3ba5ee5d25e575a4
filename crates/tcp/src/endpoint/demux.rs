//! Finds the connection that a segment belongs to.
//!
//! Connections are looked up in a hash map whose hash is keyed with a random secret of the endpoint. The map is never
//! iterated. The result of the last lookup is cached, because consecutive segments often belong to the same connection.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::net::{IpAddr, SocketAddr};

/// The four-tuple that identifies a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FourTuple {
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
}

impl std::hash::Hash for FourTuple {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for end in [&self.local, &self.remote] {
            match end.ip() {
                IpAddr::V4(ip) => state.write_u32(ip.to_bits()),
                IpAddr::V6(ip) => {
                    state.write_u64((ip.to_bits() >> 64) as u64);
                    state.write_u64(ip.to_bits() as u64);
                }
            }
            state.write_u16(end.port());
        }
    }
}

#[derive(Debug)]
pub(crate) struct Demux {
    map: HashMap<FourTuple, u32, Keyed>,
    last: Option<(FourTuple, u32)>,
}

impl Demux {
    pub(super) fn new(key: u64) -> Self {
        Self { map: HashMap::with_hasher(Keyed(key | 1)), last: None }
    }

    /// Returns the slot of the connection with this four-tuple.
    #[inline]
    pub(super) fn find(&mut self, ends: &FourTuple) -> Option<u32> {
        if let Some((known, slot)) = &self.last
            && known == ends
        {
            return Some(*slot);
        }
        let slot = *self.map.get(ends)?;
        self.last = Some((*ends, slot));
        Some(slot)
    }

    /// Returns the slot that the last lookup found, if that lookup was for this four-tuple. `ports` are the remote port
    /// and the local port.
    #[inline(always)]
    pub(crate) fn find_again(
        &self,
        remote: &SocketAddr,
        local: &SocketAddr,
        ports: (u16, u16),
    ) -> Option<u32> {
        let (ends, slot) = self.last.as_ref()?;
        let known = (ends.remote.port(), ends.local.port()) == ports
            && same_host(&ends.remote, remote)
            && same_host(&ends.local, local);
        known.then_some(*slot)
    }

    pub(super) fn contains(&self, ends: &FourTuple) -> bool {
        self.map.contains_key(ends)
    }

    pub(super) fn insert(&mut self, ends: FourTuple, slot: u32) {
        self.map.insert(ends, slot);
    }

    /// Removes the four-tuple from the map, if it still belongs to `slot`.
    pub(super) fn remove(&mut self, ends: &FourTuple, slot: u32) {
        if self.map.get(ends) == Some(&slot) {
            self.map.remove(ends);
            self.last = None;
        }
    }
}

/// Compares two addresses without their ports. IPv4 addresses are compared as integers, which is faster.
#[inline(always)]
fn same_host(one: &SocketAddr, other: &SocketAddr) -> bool {
    match (one, other) {
        (SocketAddr::V4(one), SocketAddr::V4(other)) => one.ip().to_bits() == other.ip().to_bits(),
        _ => one.ip() == other.ip(),
    }
}

/// A multiply-and-fold hash that starts from a secret value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keyed(pub(super) u64);

pub(super) struct Fold(u64);

impl BuildHasher for Keyed {
    type Hasher = Fold;
    fn build_hasher(&self) -> Fold {
        Fold(self.0)
    }
}

impl Hasher for Fold {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }
    fn write_u16(&mut self, value: u16) {
        self.write_u64(u64::from(value));
    }
    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }
    fn write_u64(&mut self, value: u64) {
        let product = u128::from(self.0 ^ value) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product as u64) ^ (product >> 64) as u64 ^ self.0.rotate_left(23);
    }
}
