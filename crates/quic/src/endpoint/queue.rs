//! Clients that have shown their addresses and wait until there is room for their handshakes (`entrance`).
//!
//! Each is one datagram, and those that its timer sends meanwhile as far as quinn keeps them ([`KEPT_OF_ONE`]). Networks have
//! their turns one after the other. Where the queue is full, who comes is not answered, or the last of the network with most.

use super::entrance::network;
use anabranch_base::time::{Duration, Instant};
use quinn_proto::Incoming;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::ops::Bound::{Excluded, Unbounded};

/// A client that waits, and the bytes that have come from it.
#[derive(Debug)]
pub(super) struct Waits {
    pub(super) incoming: Incoming,
    pub(super) came: usize,
    since: Instant,
}

/// Who waits, by networks.
#[derive(Debug, Default)]
pub(super) struct Queue {
    of_network: BTreeMap<IpAddr, VecDeque<Waits>>,
    length: usize,
    /// Whose turn was the last.
    turn: Option<IpAddr>,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Takes one in; gives back who is not to be answered.
    pub(super) fn push(&mut self, now: Instant, incoming: Incoming, came: usize) -> Option<Incoming> {
        let network = network(incoming.remote_address().ip());
        let mut given_up = None;
        if self.length >= MOST {
            let own = self.of_network.get(&network).map_or(0, VecDeque::len);
            let most = self.of_network.values_mut().max_by_key(|of_it| of_it.len());
            let Some(most) = most.filter(|most| most.len() > own + 1) else { return Some(incoming) };
            given_up = most.pop_back().map(|waits| waits.incoming);
            self.length -= 1;
        }
        self.of_network.entry(network).or_default().push_back(Waits { incoming, came, since: now });
        self.length += 1;
        given_up
    }

    /// The next, and whether its client may still be there.
    pub(super) fn pop(&mut self, now: Instant) -> Option<(Waits, bool)> {
        let after = self.turn.map_or(Unbounded, Excluded);
        let mut next = self.of_network.range((after, Unbounded)).next();
        if next.is_none() {
            next = self.of_network.first_key_value();
        }
        let network = *next?.0;
        let of_it = self.of_network.get_mut(&network)?;
        let waits = of_it.pop_front();
        if of_it.is_empty() {
            self.of_network.remove(&network);
        }
        self.turn = Some(network);
        let waits = waits?;
        self.length -= 1;
        let is_there = now < waits.since + STALE;
        Some((waits, is_there))
    }
}

/// Clients that wait: some 25 MB with a datagram each.
const MOST: usize = 16_384;
/// What quinn keeps of each beside its first datagram, and of all.
pub(super) const KEPT_OF_ONE: u64 = 4 * 1024;
pub(super) const KEPT_OF_ALL: u64 = 16 << 20;
/// Who has waited longer than this is forgotten, and asks again if it is there.
const STALE: Duration = Duration::from_secs(20);
