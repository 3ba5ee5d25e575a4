//! Defines what counts as one client, and counts the slots of each client. All ports of an IPv4 address or of an IPv6
//! /64 are one client.

use anabranch_transport::Session;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One client. All sessions whose peer has no known address count as one client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Client(Option<IpAddr>);

impl Client {
    /// Returns the client at the other end of `session`.
    pub(super) fn of<N: Session>(session: &N) -> Self {
        Self::at(session.peer().map(|peer| peer.ip()))
    }

    /// Returns the client at `address`. All IPv6 addresses of a /64 network count as the same client, because each
    /// client has a network of at least that size (RFC 6177).
    pub fn at(address: Option<IpAddr>) -> Self {
        Self(address.map(|ip| match ip.to_canonical() {
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << 64))),
            v4 @ IpAddr::V4(_) => v4,
        }))
    }
}

/// The number of slots of each client on all threads. Also holds the queue of new sessions that wait for a slot, and
/// the slots granted to sessions in this queue. The mutex is locked when a session begins or ends, not for each HTTP
/// request.
#[derive(Debug, Default)]
pub(super) struct ClientSlots(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    slots: BTreeMap<Client, usize>,
    /// The counts of `slots` with their clients, the smallest count first.
    ordered: BTreeSet<(usize, Client)>,
    /// For each new session that waits for a slot, the client of the session, in the order of the requests.
    requests: VecDeque<Client>,
    /// The number of slots that threads have granted to waiting sessions of each client. `slots` includes these grants.
    grants: BTreeMap<Client, usize>,
}

impl Counts {
    fn change(&mut self, client: Client, change: impl Fn(usize) -> usize) {
        let before = self.slots.get(&client).copied().unwrap_or(0);
        let now = change(before);
        self.ordered.remove(&(before, client));
        if now == 0 {
            self.slots.remove(&client);
        } else {
            self.slots.insert(client, now);
            self.ordered.insert((now, client));
        }
    }

    fn remove_request(&mut self, client: Client) -> bool {
        let at = self.requests.iter().position(|other| *other == client);
        at.and_then(|at| self.requests.remove(at)).is_some()
    }
}

impl ClientSlots {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that `client` has one more session slot.
    pub(super) fn join(&self, client: Client) {
        self.counts().change(client, |slots| slots + 1);
    }

    /// Records that `client` has one session slot fewer.
    pub(super) fn leave(&self, client: Client) {
        self.counts().change(client, |slots| slots.saturating_sub(1));
    }

    /// Returns the clients whose sessions may be ended to free a slot for `newcomer`, when all `max` slots are taken.
    pub(super) fn preemptable(&self, newcomer: Client, max: usize) -> Preemptable {
        let counts = self.counts();
        let needed = counts.slots.get(&newcomer).copied().unwrap_or(0) + 1;
        // Choose the client with the most slots, if it has more than its share and at least twice as many slots as
        // `newcomer` would have.
        if let Some(&(slots, client)) = counts.ordered.last()
            && slots.saturating_mul(SHARES) > max
            && slots >= needed.saturating_mul(2)
        {
            return Preemptable::From(vec![client]);
        }
        if needed.saturating_mul(SHARES) <= max.max(SHARES) {
            return Preemptable::Anyone;
        }
        // With one more slot, `newcomer` would have more than its share. It may therefore replace only its own
        // sessions, or sessions of clients that have at least as many slots as `newcomer` would have.
        let as_many = counts.ordered.range((needed, Client(None))..).map(|(_, client)| *client);
        Preemptable::Among(as_many.chain([newcomer]).collect())
    }

    /// Returns the number of session slots of `client`.
    #[cfg(test)]
    pub(super) fn slots_of(&self, client: Client) -> usize {
        self.counts().slots.get(&client).copied().unwrap_or(0)
    }

    /// Registers that a new session of `client` waits for a slot.
    pub(super) fn request_slot(&self, client: Client) {
        self.counts().requests.push_back(client);
    }

    /// Returns the client of each session that waits for a slot, in the order of the requests.
    pub(super) fn requests(&self) -> Vec<Client> {
        self.counts().requests.iter().copied().collect()
    }

    /// Grants a slot to a waiting session of `client`. Returns false if no session of `client` waits.
    pub(super) fn grant(&self, client: Client) -> bool {
        let mut counts = self.counts();
        let waits = counts.remove_request(client);
        if waits {
            *counts.grants.entry(client).or_default() += 1;
            counts.change(client, |slots| slots + 1);
        }
        waits
    }

    /// Takes a slot that was granted to a waiting session of `client`. Returns false if the client has no grant.
    pub(super) fn take_grant(&self, client: Client) -> bool {
        let mut counts = self.counts();
        let Some(grants) = counts.grants.get_mut(&client) else { return false };
        *grants -= 1;
        if *grants == 0 {
            counts.grants.remove(&client);
        }
        true
    }

    /// Withdraws one request of `client` for a slot, when a session of `client` stops waiting. Returns false if there
    /// is no such request, because a slot has been granted.
    pub(super) fn withdraw(&self, client: Client) -> bool {
        self.counts().remove_request(client)
    }

    /// Returns the number of requests and the number of grants.
    #[cfg(test)]
    pub(super) fn outstanding(&self) -> [usize; 2] {
        let counts = self.counts();
        [counts.requests.len(), counts.grants.values().sum()]
    }
}

/// The sessions that may be ended to free a slot for a new session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Preemptable {
    /// Any session of one of these clients, even a busy session: each of the clients has more slots than its share.
    From(Vec<Client>),
    /// A session of any client, if the session waits for a request or is stalled.
    Anyone,
    /// A session of one of these clients, if the session waits for a request or is stalled.
    Among(Vec<Client>),
}

/// The share of one client is 1/`SHARES` of all session slots.
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
    fn the_largest_holder_is_preempted_first_and_never_for_a_larger_one() {
        let [a, b, c, d] = ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"].map(client);
        let clients = ClientSlots::default();
        for _ in 0..1023 {
            clients.join(a);
        }
        clients.join(b);
        assert_eq!(clients.preemptable(c, 1024), Preemptable::From(vec![a]));
        assert_eq!(clients.preemptable(b, 1024), Preemptable::From(vec![a]));
        assert_eq!(clients.preemptable(a, 1024), Preemptable::Among(vec![a]));
        // Now `a` has 511 slots and `b` has 513. With one more slot, `a` would not have more than `b`, so `a` may take
        // a slot from `b`. `b` may replace only its own sessions.
        for _ in 0..512 {
            clients.leave(a);
            clients.join(b);
        }
        assert_eq!(
            (clients.preemptable(a, 1024), clients.preemptable(b, 1024)),
            (Preemptable::Among(vec![b, a]), Preemptable::Among(vec![b]))
        );
        assert_eq!(clients.preemptable(c, 1024), Preemptable::From(vec![b]));
        // If no client has more than its share, sessions of any client may be ended.
        let clients = ClientSlots::default();
        for client in [a, a, b, c] {
            clients.join(client);
        }
        assert_eq!(
            (clients.preemptable(d, 100), clients.preemptable(a, 100)),
            (Preemptable::Anyone, Preemptable::Anyone)
        );
        for client in [a, a, b, c] {
            clients.leave(client);
        }
        assert!(clients.counts().slots.is_empty() && clients.counts().ordered.is_empty());
        // A client that has all slots must be able to replace only its own sessions.
        clients.join(a);
        assert_eq!(clients.preemptable(a, 1), Preemptable::Among(vec![a]));
    }
}
