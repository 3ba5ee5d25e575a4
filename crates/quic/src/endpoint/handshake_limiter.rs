//! Limits the handshakes that a server has under way, and decides which client may begin the next handshake.
//!
//! RFC 9000 §8.1.2 and §21.3 leave it to the implementation how a busy server behaves. This server does the following:
//! - From [`RETRY_FROM`] handshakes on, a client whose address is not validated gets a Retry packet. The server keeps
//!   no state for that client.
//! - With [`MAX_HALF_OPEN`] handshakes, or many connections waiting to be accepted, a client with a validated address
//!   waits in `queue`.
//! - If the queue is full, the client gets no answer. The client's timer (RFC 9002 §6.2) makes the client try again.
//!   The server does not end another handshake to make room for this client.
//! - A handshake that takes too long is ended in favour of a new client. The limit is three seconds if the network of
//!   the slow client has far more handshakes than the network of the new client. Otherwise it is ten seconds.

use super::Id;
use anabranch_base::time::{Duration, Instant};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

/// The handshakes that a server has under way.
#[derive(Debug, Default)]
pub(super) struct HandshakeLimiter {
    /// The start time and network of each handshake, the oldest first.
    under_way: BTreeMap<Id, (Instant, IpAddr)>,
    by_network: BTreeMap<IpAddr, BTreeSet<Id>>,
    /// The number of connections that wait to be accepted.
    pub(super) waiting: usize,
}

/// The decision whether another handshake may begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Room {
    /// A handshake may begin.
    Free,
    /// A handshake may begin if this older handshake is ended.
    Evict(Id),
    /// No handshake may begin now.
    None,
}

impl HandshakeLimiter {
    /// Returns the number of handshakes under way.
    pub(super) fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Returns whether clients have to validate their addresses before a handshake begins.
    pub(super) fn is_busy(&self) -> bool {
        self.under_way.len() >= RETRY_FROM || self.waiting >= MOST_WAITING
    }

    /// Returns whether a handshake from any network can begin without ending an older handshake.
    pub(super) fn is_free(&self) -> bool {
        self.waiting < MOST_WAITING && self.under_way.len() < MAX_HALF_OPEN
    }

    /// Returns whether a handshake with a client at this address may begin, if necessary in place of an older
    /// handshake.
    pub(super) fn room(&self, now: Instant, address: IpAddr) -> Room {
        if self.waiting >= MOST_WAITING {
            return Room::None;
        }
        if self.under_way.len() < MAX_HALF_OPEN {
            return Room::Free;
        }
        let old =
            |id: &Id, age: Duration| self.under_way.get(id).is_some_and(|(since, _)| *since + age <= now);
        if let Some((id, _)) = self.under_way.first_key_value().filter(|(id, _)| old(id, LONG)) {
            return Room::Evict(*id);
        }
        let own = self.by_network.get(&network(address)).map_or(0, BTreeSet::len);
        let most = self.by_network.values().max_by_key(|handshakes| handshakes.len());
        let most =
            most.filter(|handshakes| handshakes.len() > MAX_HALF_OPEN / 8 && handshakes.len() > 2 * own);
        match most.and_then(BTreeSet::first).filter(|id| old(id, SOON)) {
            Some(id) => Room::Evict(*id),
            None => Room::None,
        }
    }

    /// Records that a handshake has begun.
    pub(super) fn insert(&mut self, now: Instant, id: Id, address: IpAddr) {
        self.under_way.insert(id, (now, network(address)));
        self.by_network.entry(network(address)).or_default().insert(id);
    }

    /// Records that a handshake is done or has failed.
    pub(super) fn remove(&mut self, id: Id) {
        if let Some((_, network)) = self.under_way.remove(&id)
            && let Some(handshakes) = self.by_network.get_mut(&network)
        {
            handshakes.remove(&id);
            if handshakes.is_empty() {
                self.by_network.remove(&network);
            }
        }
    }
}

/// Returns the network that counts as one client: an IPv4 address, or the 64-bit prefix of an IPv6 address.
pub(super) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        address => address,
    }
}

/// Limits on the number of handshakes in progress. From `RETRY_FROM` handshakes on, new clients have to validate their
/// addresses first. From `MAX_HALF_OPEN` handshakes on, no further handshake begins.
const RETRY_FROM: usize = 256;
const MAX_HALF_OPEN: usize = 1_024;
/// While this number of connections wait to be accepted, no further handshake begins. The sum of `MOST_WAITING` and
/// `MAX_HALF_OPEN` is below the capacity of a listener.
const MOST_WAITING: usize = 2_048;
/// A handshake of this age may be ended in favour of a new client from a network with far fewer handshakes. By then,
/// the client of the ended handshake had time to repeat its first packet once, one second after the first transmission.
const SOON: Duration = Duration::from_secs(3);
/// A handshake of this age may be ended in favour of any new client. By then, the client of the ended handshake had
/// time to repeat its first packet one, three and seven seconds after the first transmission.
const LONG: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_millis(1_000 * seconds)
    }

    #[test]
    fn stuck_handshakes_are_evicted_only_for_other_networks() {
        let (here, there) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let mut limiter = HandshakeLimiter::default();
        for number in 0..MAX_HALF_OPEN as u64 {
            assert_eq!(limiter.room(at(0), here), Room::Free);
            assert_eq!(limiter.is_busy(), number >= RETRY_FROM as u64);
            limiter.insert(at(0), Id(number), here);
        }
        assert_eq!([here, there].map(|ip| limiter.room(at(2), ip)), [Room::None; 2]);
        assert_eq!([here, there].map(|ip| limiter.room(at(3), ip)), [Room::None, Room::Evict(Id(0))]);
        assert_eq!([here, there].map(|ip| limiter.room(at(10), ip)), [Room::Evict(Id(0)); 2]);
        limiter.remove(Id(0));
        assert_eq!(limiter.room(at(3), here), Room::Free);
        // If two networks have equally many handshakes in progress, only a handshake that is at least `LONG` old is
        // evicted.
        for number in 1..MAX_HALF_OPEN as u64 / 2 {
            limiter.remove(Id(number));
        }
        for number in 0..MAX_HALF_OPEN as u64 / 2 {
            limiter.insert(at(0), Id(5_000 + number), there);
        }
        assert_eq!([here, there].map(|ip| limiter.room(at(5), ip)), [Room::None; 2]);
        limiter.waiting = MOST_WAITING;
        assert_eq!(limiter.room(at(20), here), Room::None);
    }

    #[test]
    fn the_last_place_is_free_and_the_next_is_none() {
        let here = IpAddr::from([10, 0, 0, 1]);
        let mut limiter = HandshakeLimiter { waiting: MOST_WAITING - 1, ..HandshakeLimiter::default() };
        assert_eq!((limiter.is_free(), limiter.room(at(0), here)), (true, Room::Free));
        limiter.waiting = MOST_WAITING;
        assert_eq!((limiter.is_free(), limiter.room(at(0), here)), (false, Room::None));
        limiter.waiting = 0;
        for number in 0..MAX_HALF_OPEN as u64 {
            assert!(limiter.is_free(), "{number} handshakes");
            limiter.insert(at(0), Id(number), here);
        }
        assert!(!limiter.is_free());
    }

    /// Returns the limiter's decision about a new client of network 0. Five seconds earlier, each network `i` began
    /// `handshakes[i]` handshakes.
    fn room_beside(handshakes: &[usize]) -> Room {
        let ip = |network: usize| IpAddr::from([10, 0, 0, network as u8]);
        let mut limiter = HandshakeLimiter::default();
        for (network, count) in handshakes.iter().enumerate() {
            for _ in 0..*count {
                limiter.insert(at(0), Id(limiter.under_way() as u64), ip(network));
            }
        }
        assert_eq!(limiter.under_way(), MAX_HALF_OPEN);
        limiter.room(at(5), ip(0))
    }

    #[test]
    fn a_network_gives_way_early_above_an_eighth_of_all_and_twice_the_newcomers() {
        let eighth = MAX_HALF_OPEN / 8;
        assert_eq!(
            room_beside(&[0, eighth, eighth, eighth, eighth, eighth, eighth, eighth, eighth]),
            Room::None
        );
        let above = [0, eighth + 1, eighth - 1, eighth, eighth, eighth, eighth, eighth, eighth];
        assert_eq!(room_beside(&above), Room::Evict(Id(0)));
        assert_eq!(room_beside(&[341, 682, 1]), Room::None);
        assert_eq!(room_beside(&[341, 683]), Room::Evict(Id(341)));
    }

    #[test]
    fn sixty_four_bits_are_one_client() {
        let ip = |text: &str| network(text.parse().expect("an address"));
        assert_eq!(ip("2001:db8::1"), ip("2001:db8::2:3:4:5"));
        assert_ne!(ip("2001:db8::1"), ip("2001:db8:0:1::1"));
        assert_eq!(ip("::ffff:10.0.0.1"), ip("10.0.0.1"));
    }
}
