//! Who a client is, and how many seats each has: an address, of IPv6 a network of 64 bits, whatever its ports.

use anabranch_transport::Session;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One client. All without an address are one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Client(Option<IpAddr>);

impl Client {
    /// Whom `session` is with.
    pub(super) fn of<N: Session>(session: &N) -> Self {
        Self::at(session.peer().map(|peer| peer.ip()))
    }

    /// The one at `address`: of IPv6 whoever has a network of its own (RFC 6177).
    pub fn at(address: Option<IpAddr>) -> Self {
        Self(address.map(|ip| match ip.to_canonical() {
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << 64))),
            v4 @ IpAddr::V4(_) => v4,
        }))
    }
}

/// The seats of each client, in all threads together, and whom there is none for. Looked at when a session comes or goes,
/// not when a request does.
#[derive(Debug, Default)]
pub(super) struct Census(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    seats: BTreeMap<Client, usize>,
    /// The same, fewest first.
    ordered: BTreeSet<(usize, Client)>,
    /// Who waits for a seat.
    waiting: VecDeque<Client>,
}

impl Counts {
    fn change(&mut self, client: Client, change: impl Fn(usize) -> usize) {
        let before = self.seats.get(&client).copied().unwrap_or(0);
        let now = change(before);
        self.ordered.remove(&(before, client));
        if now == 0 {
            self.seats.remove(&client);
        } else {
            self.seats.insert(client, now);
            self.ordered.insert((now, client));
        }
    }
}

impl Census {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `client` has one seat more.
    pub(super) fn join(&self, client: Client) {
        self.counts().change(client, |seats| seats + 1);
    }

    /// And one fewer.
    pub(super) fn leave(&self, client: Client) {
        self.counts().change(client, |seats| seats.saturating_sub(1));
    }

    /// Of `most` seats all are taken, and `newcomer` would like one.
    pub(super) fn claim(&self, newcomer: Client, most: usize) -> Claim {
        let counts = self.counts();
        let wanted = counts.seats.get(&newcomer).copied().unwrap_or(0) + 1;
        // Somebody has more than a share, and twice as many as the newcomer would have.
        if let Some(&(seats, client)) = counts.ordered.last()
            && seats.saturating_mul(SHARES) > most
            && seats >= wanted.saturating_mul(2)
        {
            return Claim::From(vec![client]);
        }
        if wanted.saturating_mul(SHARES) <= most.max(SHARES) {
            return Claim::Anybody;
        }
        // Who has more than a share takes nothing from who has less: only what is its own, or another's who has as much.
        let as_many = counts.ordered.range((wanted, Client(None))..).map(|(_, client)| *client);
        Claim::Among(as_many.chain([newcomer]).collect())
    }

    /// `client` waits for a seat.
    pub(super) fn wish(&self, client: Client) {
        self.counts().waiting.push_back(client);
    }

    /// It does not any more.
    pub(super) fn forget(&self, client: Client) {
        let mut counts = self.counts();
        if let Some(at) = counts.waiting.iter().position(|other| *other == client) {
            counts.waiting.remove(at);
        }
    }

    /// Who has waited longest, and waits no more.
    pub(super) fn next_wish(&self) -> Option<Client> {
        self.counts().waiting.pop_front()
    }
}

/// Whose session may end for a newcomer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Claim {
    /// That of one who has far too many, whatever it is at.
    From(Vec<Client>),
    /// One that waits or stands still, of anybody.
    Anybody,
    /// One that waits or stands still, of these.
    Among(Vec<Client>),
}

/// What is more than one of so many equal parts of all seats is more than a client's share.
const SHARES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn client(text: &str) -> Client {
        Client::at(Some(text.parse().expect("an address")))
    }

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        assert_eq!(client("2001:db8::1"), client("2001:db8::ffff:1:2:3"));
        assert_ne!(client("2001:db8::1"), client("2001:db8:0:1::1"));
        assert_eq!(client("::ffff:192.0.2.1"), client("192.0.2.1"));
        assert_ne!(client("192.0.2.1"), client("192.0.2.2"));
    }

    #[test]
    fn who_has_most_gives_and_who_has_much_takes_from_nobody_who_has_less() {
        let [a, b, c, d] = ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"].map(client);
        let census = Census::default();
        for _ in 0..1023 {
            census.join(a);
        }
        census.join(b);
        assert_eq!(census.claim(c, 1024), Claim::From(vec![a]));
        assert_eq!(census.claim(b, 1024), Claim::From(vec![a]));
        assert_eq!(census.claim(a, 1024), Claim::Among(vec![a]));
        // Half each: neither takes from the other, nor from who has one.
        for _ in 0..512 {
            census.leave(a);
            census.join(b);
        }
        assert_eq!(
            (census.claim(a, 1024), census.claim(b, 1024)),
            (Claim::Among(vec![b, a]), Claim::Among(vec![b]))
        );
        assert_eq!(census.claim(c, 1024), Claim::From(vec![b]));
        // Where nobody has much, all are equal.
        let census = Census::default();
        for client in [a, a, b, c] {
            census.join(client);
        }
        assert_eq!((census.claim(d, 100), census.claim(a, 100)), (Claim::Anybody, Claim::Anybody));
        for client in [a, a, b, c] {
            census.leave(client);
        }
        assert!(census.counts().seats.is_empty() && census.counts().ordered.is_empty());
        // Alone one takes only from oneself; there is nobody else.
        census.join(a);
        assert_eq!(census.claim(a, 1), Claim::Among(vec![a]));
    }
}
