//! The queue of clients with validated addresses that wait until `handshake_limiter` has room for their handshakes.
//!
//! The queue holds the first datagram of each client; quinn buffers up to [`KEPT_OF_ONE`] bytes that a waiting client
//! retransmits. Clients are grouped by network (an IPv4 address or an IPv6 prefix), and the networks are served in
//! turn. If the queue is full, the last client of the network with the most clients is dropped. For this rule, the new
//! client counts as a client of its network. If no network has more clients than its own, the new client is dropped.

use super::handshake_limiter::network;
use anabranch_base::time::{Duration, Instant};
use quinn_proto::Incoming;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::ops::Bound::{Excluded, Unbounded};

/// A waiting client, and the number of bytes received from the client.
#[derive(Debug)]
pub(super) struct WaitingClient {
    pub(super) incoming: Incoming,
    pub(super) bytes: usize,
    since: Instant,
}

/// The waiting clients, grouped by network.
#[derive(Debug, Default)]
pub(super) struct Queue {
    by_network: BTreeMap<IpAddr, VecDeque<WaitingClient>>,
    length: usize,
    /// The network that was served last.
    last_network: Option<IpAddr>,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Adds a client. If the queue is full, returns the client that gets no answer: the new client or another client.
    pub(super) fn push(&mut self, now: Instant, incoming: Incoming, bytes: usize) -> Option<Incoming> {
        let network = network(incoming.remote_address().ip());
        let mut given_up = None;
        if self.length >= MOST {
            let own = self.by_network.get(&network).map_or(0, VecDeque::len);
            let most = self.by_network.values_mut().max_by_key(|clients| clients.len());
            let Some(most) = most.filter(|most| most.len() > own + 1) else { return Some(incoming) };
            given_up = most.pop_back().map(|client| client.incoming);
            self.length -= 1;
        }
        self.by_network.entry(network).or_default().push_back(WaitingClient { incoming, bytes, since: now });
        self.length += 1;
        given_up
    }

    /// Removes the next client from the queue. The returned flag is true if the client has waited for less than
    /// [`STALE`].
    pub(super) fn pop(&mut self, now: Instant) -> Option<(WaitingClient, bool)> {
        let after = self.last_network.map_or(Unbounded, Excluded);
        let mut next = self.by_network.range((after, Unbounded)).next();
        if next.is_none() {
            next = self.by_network.first_key_value();
        }
        let network = *next?.0;
        let clients = self.by_network.get_mut(&network)?;
        let client = clients.pop_front();
        if clients.is_empty() {
            self.by_network.remove(&network);
        }
        self.last_network = Some(network);
        let client = client?;
        self.length -= 1;
        let is_there = now < client.since + STALE;
        Some((client, is_there))
    }
}

/// The maximum number of waiting clients. With one datagram each, the clients take some 25 MB.
const MOST: usize = 16_384;
/// The maximum number of bytes of later datagrams that quinn buffers for each waiting client (`KEPT_OF_ONE`), and for
/// all waiting clients together (`KEPT_OF_ALL`). The first datagram of a client does not count.
pub(super) const KEPT_OF_ONE: u64 = 4 * 1024;
pub(super) const KEPT_OF_ALL: u64 = 16 << 20;
/// The time after which a client is dropped that waits in this queue for its handshake. A client that still wants a
/// connection tries again.
const STALE: Duration = Duration::from_secs(20);
