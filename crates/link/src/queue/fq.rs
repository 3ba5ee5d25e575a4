//! FQ-CoDel: a queue of its own for each flow, served in turn, each under CoDel.
//!
//! Home of RFC 8290: §4.1 enqueueing (classification, the new-flow list, what
//! to drop when full), §4.2 dequeueing by deficit round robin, §5.2.1 – §5.2.4
//! the parameters. Flows are told apart by a seeded hash; two that fall into
//! one queue share it.

use super::codel::{Codel, CodelConfig, Fifo};
use super::held::{Discipline, HeldQueue};
use super::{Limit, Occupancy};
use crate::element::{Carried, Cause, Released};
use crate::meter::Meter;
use anabranch_base::{Instant, Rng};
use std::collections::VecDeque;

/// An FQ-CoDel queue with its serializer.
pub type FqCodel<P> = HeldQueue<FairQueues<P>>;

/// The flows' queues and whose turn it is.
#[derive(Clone, Debug)]
pub struct FairQueues<P> {
    limit: Limit,
    quantum: i64,
    config: CodelConfig,
    seed: u64,
    flows: Vec<Flow<P>>,
    /// Flows that have not been served yet since they became active.
    fresh: VecDeque<usize>,
    /// Flows that wait for their next turn.
    old: VecDeque<usize>,
    waiting: Occupancy,
}

#[derive(Clone, Debug)]
struct Flow<P> {
    queue: Fifo<P>,
    codel: Codel,
    deficit: i64,
    /// On one of the two lists.
    listed: bool,
}

impl<P> FairQueues<P> {
    /// [`QUEUES`] empty queues which share `limit`; a flow may send `quantum`
    /// bytes a turn.
    #[must_use]
    pub fn new(limit: Limit, quantum: u32, config: CodelConfig, mut rng: Rng) -> Self {
        let flow = || Flow { queue: Fifo::default(), codel: Codel::default(), deficit: 0, listed: false };
        Self {
            limit,
            quantum: i64::from(quantum.max(1)),
            config,
            seed: rng.next_u64(),
            flows: std::iter::repeat_with(flow).take(QUEUES).collect(),
            fresh: VecDeque::new(),
            old: VecDeque::new(),
            waiting: Occupancy::default(),
        }
    }

    /// The queue of a flow.
    fn place(&self, flow: u64) -> usize {
        let mut mixed = (flow ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> 32) as usize % QUEUES
    }
}

impl<P: Carried> Discipline<P> for FairQueues<P> {
    fn join(&mut self, at: Instant, packet: P, out: &mut Released<P>) {
        let place = self.place(packet.flow());
        let full = !self.limit.has_room(self.waiting, packet.wire_len());
        self.waiting.packets += 1;
        self.waiting.bytes += packet.wire_len() as u64;
        let flow = &mut self.flows[place];
        flow.queue.push(at, packet);
        if !flow.listed {
            flow.listed = true;
            flow.deficit = self.quantum;
            self.fresh.push_back(place);
        }
        if full && self.waiting.packets > 1 {
            self.drop_from_longest(at, out);
        }
    }

    fn take(&mut self, at: Instant, out: &mut Released<P>, meter: &mut Meter) -> Option<P> {
        loop {
            // RFC 8290 §4.2: new flows come before old ones.
            let (place, is_fresh) = match self.fresh.front() {
                Some(place) => (*place, true),
                None => (*self.old.front()?, false),
            };
            let flow = &mut self.flows[place];
            if flow.deficit <= 0 {
                flow.deficit += self.quantum;
                if is_fresh {
                    self.fresh.pop_front()
                } else {
                    self.old.pop_front()
                };
                self.old.push_back(place);
                continue;
            }
            let before = flow.queue.occupancy();
            let taken = flow.codel.take(at, &self.config, &mut flow.queue, out, meter);
            let after = flow.queue.occupancy();
            self.waiting.packets -= before.packets - after.packets;
            self.waiting.bytes -= before.bytes - after.bytes;
            if let Some(packet) = taken {
                flow.deficit -= packet.wire_len() as i64;
                return Some(packet);
            }
            // RFC 8290 §4.2: an emptied new flow goes through the old list once,
            // lest a flow that sends just so keeps being new.
            if is_fresh {
                self.fresh.pop_front();
                self.old.push_back(place);
            } else {
                self.old.pop_front();
                flow.listed = false;
            }
        }
    }

    fn waiting(&self) -> Occupancy {
        self.waiting
    }
}

impl<P: Carried> FairQueues<P> {
    /// RFC 8290 §4.1: when full, the flow with the most bytes pays, from its head.
    fn drop_from_longest(&mut self, at: Instant, out: &mut Released<P>) {
        let active = self.fresh.iter().chain(&self.old).copied();
        // The last of equals would be taken by `max_by_key`; the first is.
        let longest = active.rev().max_by_key(|place| self.flows[*place].queue.occupancy().bytes);
        let Some((_, packet)) = longest.and_then(|place| self.flows[place].queue.pop()) else { return };
        self.waiting.packets -= 1;
        self.waiting.bytes -= packet.wire_len() as u64;
        out.lost(at, packet, Cause::Overflow);
    }
}

/// How many queues there are (RFC 8290 §5.2.4).
pub const QUEUES: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::{Chain, Stage};
    use crate::element::Blank;
    use crate::rate::{Rate, Serializer};

    /// 1 ms a packet of 1500 bytes.
    fn chain(limit: Limit) -> Chain<Blank> {
        let serializer = Serializer::Rate(Rate::new("12mbit".parse().expect("a rate")));
        let queues = FairQueues::new(limit, 1500, CodelConfig::default(), Rng::new(1));
        Chain::new(vec![Stage::FqCodel(Box::new(FqCodel::new(queues, serializer)))])
    }

    fn packet(flow: u64, number: u64, bytes: usize) -> Blank {
        Blank { flow, ..Blank::numbered(bytes, number) }
    }

    fn drain(chain: &mut Chain<Blank>) -> Vec<(u64, u64)> {
        let mut order = Vec::new();
        while let Some(now) = chain.next() {
            while let Some(packet) = chain.pop(now) {
                order.push((packet.flow, packet.number));
            }
        }
        order
    }

    /// RFC 8290 §4.2: flows take turns; a new one comes first.
    #[test]
    fn flows_take_turns_and_a_new_one_comes_first() {
        let mut chain = chain(Limit::Packets(1000));
        for number in 1..=4 {
            chain.push(Instant::ZERO, packet(7, number, 1500));
        }
        for number in 1..=2 {
            chain.push(Instant::ZERO, packet(9, number, 1500));
        }
        // 7/1 goes at once and uses up its quantum. Then the new flow 9; then turns.
        let expected = [(7, 1), (9, 1), (7, 2), (9, 2), (7, 3), (7, 4)];
        assert_eq!(drain(&mut chain), expected);
    }

    #[test]
    fn a_turn_is_counted_in_bytes() {
        let mut chain = chain(Limit::Packets(1000));
        for number in 1..=3 {
            chain.push(Instant::ZERO, packet(7, number, 1500));
        }
        for number in 1..=6 {
            chain.push(Instant::ZERO, packet(9, number, 500));
        }
        let expected = [(7, 1), (9, 1), (9, 2), (9, 3), (7, 2), (9, 4), (9, 5), (9, 6), (7, 3)];
        assert_eq!(drain(&mut chain), expected);
    }

    /// RFC 8290 §4.1: the longest queue pays, from its head.
    #[test]
    fn when_full_the_longest_queue_pays() {
        let mut chain = chain(Limit::Packets(5));
        for number in 1..=6 {
            chain.push(Instant::ZERO, packet(7, number, 1500));
        }
        chain.push(Instant::ZERO, packet(9, 1, 1500));
        let lost: Vec<_> =
            std::iter::from_fn(|| chain.pop_dropped()).map(|d| (d.packet.flow, d.packet.number)).collect();
        assert_eq!(lost, [(7, 2)]);
        assert_eq!(chain.occupancy(Instant::ZERO).packets, 5);
        assert_eq!(drain(&mut chain), [(7, 1), (9, 1), (7, 3), (7, 4), (7, 5), (7, 6)]);
        assert_eq!(chain.occupancy(Instant::ZERO).bytes, 0);
    }
}
