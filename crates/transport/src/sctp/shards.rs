//! Several [`SctpHost`](super::SctpHost)s that share one port, each in a thread of its own, and the directory that
//! assigns packets to the hosts.
//!
//! Below, a host is one of these `SctpHost`s. A host chooses the verification tag of each of its associations. In most
//! packets this tag identifies the host. The packets in the following list have no such tag. For them, all hosts share
//! a directory of their associations, which is searched for the peer's address and both ports:
//!
//! - an INIT, whose packet has tag 0 and no other chunk. The peer may already have an association, because the peer
//!   restarts or because both sides start an association at the same time. The host of that association then gets the
//!   INIT (RFC 9260 §5.2). Otherwise the random initiate tag selects the host
//! - an ABORT or a SHUTDOWN COMPLETE that reflects the peer's own tag (§8.5.1)
//! - an ICMP report, which quotes a packet with the peer's tag (§10)
//! - a packet with an unknown tag from a known peer: it is discarded (§8.5) and not answered as out of the blue

use anabranch_base::Icmp;
use anabranch_sctp::{Claim, OtherShards, Shard};
use anabranch_wire::sctp::{Abort, Chunk, Header, PacketView, ShutdownComplete};
use anabranch_world::steering::Steering;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The key of an association: the peer's address, the peer's port, the local port.
type Key = (IpAddr, u16, u16);

/// Records which host has each association, for several SCTP hosts that share one port.
#[derive(Debug)]
pub struct Directory {
    count: u32,
    owners: Mutex<BTreeMap<Key, u32>>,
}

/// The identity of one of the SCTP hosts that share a port.
#[derive(Clone, Debug)]
pub struct Member {
    pub(super) shard: Shard,
    pub(super) directory: Arc<Directory>,
}

impl Directory {
    /// Creates a directory for `count` hosts; `None` if `count` is 0 or too large.
    #[must_use]
    pub fn new(count: u32) -> Option<Arc<Self>> {
        Shard::new(0, count).map(|_| Arc::new(Self { count, owners: Mutex::default() }))
    }

    /// Returns the identity of the SCTP host with the index `index`, counted from 0. `None` if there is no such host.
    #[must_use]
    pub fn member(self: &Arc<Self>, index: u32) -> Option<Member> {
        Shard::new(index, self.count).map(|shard| Member { shard, directory: self.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, u32>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the index of the shard whose host has an association with these ports and with one of the addresses
    /// `peers`.
    fn find(&self, peers: impl IntoIterator<Item = IpAddr>, peer_port: u16, local_port: u16) -> Option<u32> {
        let owners = self.lock();
        peers.into_iter().find_map(|peer| owners.get(&(peer, peer_port, local_port)).copied())
    }

    /// Records that a host has started or ended an association.
    pub(super) fn record(&self, shard: Shard, claim: Claim) {
        let Claim { peer, peer_port, local_port, gained } = claim;
        let (key, mut directory) = ((peer, peer_port, local_port), self.lock());
        if gained {
            directory.insert(key, shard.index());
        } else if directory.get(&key) == Some(&shard.index()) {
            // If another host has meanwhile started an association with this key, the entry belongs to that host and
            // stays.
            directory.remove(&key);
        }
    }
}

impl Steering for Directory {
    fn owner(&self, source: IpAddr, packet: &[u8]) -> Option<u32> {
        let header = Header::parse(packet)?;
        let (kind, flags) = (*packet.get(FIRST_CHUNK)?, *packet.get(FIRST_CHUNK + 1)?);
        let Header { source_port, target_port, tag } = header;
        if tag == 0 {
            let initiate: [u8; 4] = packet.get(INITIATE_TAG..INITIATE_TAG + 4)?.try_into().ok()?;
            // Several packets may arrive as one batch, which goes to the host that owns the batch's first packet. An
            // INIT can therefore arrive at a host that does not own the INIT. If the INIT is for a new association, the
            // initiate tag selects the owner.
            let new = Shard::of_tag(u32::from_be_bytes(initiate), self.count);
            return self.find(addresses(source, packet), source_port, target_port).or(Some(new));
        }
        // RFC 9260 §3.3.7, §3.3.13: if the T bit is set, the tag is one that the peer has chosen.
        if [Abort::KIND, ShutdownComplete::KIND].contains(&kind)
            && flags & 1 == 1
            && let Some(owner) = self.find([source], source_port, target_port)
        {
            return Some(owner);
        }
        Some(Shard::of_tag(tag, self.count))
    }

    fn owner_of_report(&self, icmp: &Icmp, quoted: &[u8]) -> Option<u32> {
        // This host has sent the quoted packet, so its source port is the local port.
        let header = Header::parse(quoted)?;
        self.find([icmp.target], header.target_port, header.source_port)
    }
}

impl OtherShards for Directory {
    fn has_association(&self, shard: Shard, peer: IpAddr, peer_port: u16, local_port: u16) -> bool {
        self.find([peer], peer_port, local_port).is_some_and(|owner| owner != shard.index())
    }
}

/// RFC 9260 §5.1.2: returns the source address of an INIT and the addresses that the INIT lists.
fn addresses(source: IpAddr, packet: &[u8]) -> Vec<IpAddr> {
    let mut addresses = vec![source];
    let chunk = PacketView::parse_unverified(packet).ok().and_then(|view| view.chunks().next()?.ok());
    if let Some(Chunk::Init(init)) = chunk {
        let listed = init.params.flatten().filter_map(|param| param.address());
        addresses.extend(listed.take(MAX_LISTED));
    }
    addresses
}

/// The offset in bytes of the first chunk of a packet (RFC 9260 §3.1).
const FIRST_CHUNK: usize = 12;
/// The offset in bytes of the initiate tag in a packet whose first chunk is an INIT (RFC 9260 §3.3.2).
const INITIATE_TAG: usize = 16;
/// The maximum number of addresses that are used from the list in an INIT. The engine has the same limit.
const MAX_LISTED: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::IcmpKind;
    use anabranch_wire::sctp::{CookieAck, Init, Param, packet};

    fn ip(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    fn written(tag: u32, chunk: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut bytes = Vec::new();
        let start = packet::begin(&mut bytes, 5000, 80, tag);
        chunk(&mut bytes);
        packet::finish(&mut bytes, start);
        bytes
    }

    /// Creates a directory of three hosts. The last host has an association with 192.0.2.7.
    fn directory() -> Arc<Directory> {
        let directory = Directory::new(3).expect("three");
        let claim = Claim { peer: ip(7), peer_port: 5000, local_port: 80, gained: true };
        directory.record(Shard::new(2, 3).expect("one"), claim);
        directory
    }

    /// RFC 9260 §5.2.2, §8.5.1, §10: if no shard of this host chose the tag of a packet, the peer's address and the
    /// ports determine the shard that gets the packet.
    #[test]
    fn packets_without_our_tag_are_steered_by_address_and_ports() {
        let directory = directory();
        let data = written(10, |out| CookieAck.emit(out));
        assert_eq!(directory.owner(ip(7), &data), Some(1));
        let init = written(0, |out| Init { tag: 9, ..Init::default() }.emit(out));
        assert_eq!((directory.owner(ip(7), &init), directory.owner(ip(8), &init)), (Some(2), Some(0)));
        let listing = written(0, |out| {
            let mut chunk = Init { tag: 9, ..Init::default() }.open(out);
            Param::Ipv4([192, 0, 2, 9].into()).emit(&mut chunk);
            Param::Ipv4([192, 0, 2, 7].into()).emit(&mut chunk);
            chunk.close();
        });
        assert_eq!(directory.owner(ip(8), &listing), Some(2));
        let abort = |reflected| written(10, |out| Abort { reflected, ..Abort::default() }.emit(out));
        assert_eq!(directory.owner(ip(7), &abort(true)), Some(2));
        assert_eq!(directory.owner(ip(7), &abort(false)), Some(1));
        assert_eq!(directory.owner(ip(8), &abort(true)), Some(1));
        for cut in 0..13 {
            assert_eq!(directory.owner(ip(7), &data[..cut]), None);
        }
        let icmp = Icmp { kind: IcmpKind::Unreachable(3), source: ip(1), target: ip(7) };
        let mut quoted = Vec::new();
        packet::begin(&mut quoted, 80, 5000, 10);
        assert_eq!(directory.owner_of_report(&icmp, &quoted), Some(2));
        assert_eq!(directory.owner_of_report(&icmp, &quoted[..3]), None);
    }

    #[test]
    fn a_late_release_does_not_remove_another_shards_claim() {
        let directory = directory();
        let [one, two] = [1, 2].map(|index| Shard::new(index, 3).expect("one"));
        let claim = Claim { peer: ip(7), peer_port: 5000, local_port: 80, gained: true };
        assert!(
            directory.has_association(one, ip(7), 5000, 80)
                && !directory.has_association(two, ip(7), 5000, 80)
        );
        directory.record(one, claim);
        directory.record(two, Claim { gained: false, ..claim });
        assert!(directory.has_association(two, ip(7), 5000, 80));
        directory.record(one, Claim { gained: false, ..claim });
        assert!(!directory.has_association(two, ip(7), 5000, 80) && directory.lock().is_empty());
    }
}
