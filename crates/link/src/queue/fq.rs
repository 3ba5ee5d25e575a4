//! FQ-CoDel: one queue per flow, served in turn, each managed by CoDel.
//!
//! Implements RFC 8290: §4.1 enqueueing (classification, list of new flows, drops when the queue is full), §4.2
//! dequeueing by deficit round robin, §5.2.1 – §5.2.5 the parameters. A seeded hash assigns flows to queues, so flows
//! with the same hash share a queue.

use super::codel::{Codel, CodelConfig, Fifo};
use super::held::{Discipline, HeldQueue};
use super::{Limit, Occupancy};
use crate::element::{Carried, Released};
use crate::meter::{DropCause, Meter};
use anabranch_base::{Instant, Rng};
use std::collections::VecDeque;

/// An FQ-CoDel queue, including the serializer that sends its packets at the rate of the link.
pub type FqCodel<P> = HeldQueue<FairQueues<P>>;

/// The queues of the flows, and the order in which they are served.
#[derive(Clone, Debug)]
pub struct FairQueues<P> {
    limit: Limit,
    quantum: i64,
    config: CodelConfig,
    seed: u64,
    flows: Vec<Flow<P>>,
    /// The indices of new flows. They have not been served since they became active.
    new_flows: VecDeque<usize>,
    /// The indices of old flows. They wait for their next turn.
    old_flows: VecDeque<usize>,
    waiting: Occupancy,
}

#[derive(Clone, Debug)]
struct Flow<P> {
    queue: Fifo<P>,
    codel: Codel,
    deficit: i64,
    /// Whether the flow is active, which means that it is on one of the lists `new_flows` and `old_flows`.
    listed: bool,
}

impl<P> FairQueues<P> {
    /// Creates [`QUEUES`] empty queues that share the limit `limit`. A flow may send `quantum` bytes per turn.
    #[must_use]
    pub fn new(limit: Limit, quantum: u32, config: CodelConfig, mut rng: Rng) -> Self {
        let flow = || Flow { queue: Fifo::default(), codel: Codel::default(), deficit: 0, listed: false };
        Self {
            limit,
            quantum: i64::from(quantum.max(1)),
            config,
            seed: rng.next_u64(),
            flows: std::iter::repeat_with(flow).take(QUEUES).collect(),
            new_flows: VecDeque::new(),
            old_flows: VecDeque::new(),
            waiting: Occupancy::default(),
        }
    }

    /// Returns the index of the queue for the flow `flow`.
    fn queue_index(&self, flow: u64) -> usize {
        let mut mixed = (flow ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> 32) as usize % QUEUES
    }
}

impl<P: Carried> Discipline<P> for FairQueues<P> {
    fn join(&mut self, at: Instant, packet: P, out: &mut Released<P>) {
        let index = self.queue_index(packet.flow());
        let full = !self.limit.has_room(self.waiting, packet.wire_len());
        self.waiting.packets += 1;
        self.waiting.bytes += packet.wire_len() as u64;
        let flow = &mut self.flows[index];
        flow.queue.push(at, packet);
        if !flow.listed {
            flow.listed = true;
            flow.deficit = self.quantum;
            self.new_flows.push_back(index);
        }
        if full && self.waiting.packets > 1 {
            self.drop_from_longest(at, out);
        }
    }

    fn take(&mut self, at: Instant, out: &mut Released<P>, meter: &mut Meter) -> Option<P> {
        loop {
            // RFC 8290 §4.2: new flows are served before old flows.
            let (index, is_fresh) = match self.new_flows.front() {
                Some(index) => (*index, true),
                None => (*self.old_flows.front()?, false),
            };
            let flow = &mut self.flows[index];
            if flow.deficit <= 0 {
                flow.deficit += self.quantum;
                if is_fresh {
                    self.new_flows.pop_front()
                } else {
                    self.old_flows.pop_front()
                };
                self.old_flows.push_back(index);
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
            // RFC 8290 §4.2: a new flow whose queue has become empty is moved to the old list, not removed. Otherwise a
            // flow whose next packet always arrives just in time would be a new flow for ever.
            if is_fresh {
                self.new_flows.pop_front();
                self.old_flows.push_back(index);
            } else {
                self.old_flows.pop_front();
                flow.listed = false;
            }
        }
    }

    fn waiting(&self) -> Occupancy {
        self.waiting
    }
}

impl<P: Carried> FairQueues<P> {
    /// RFC 8290 §4.1: when the limit is exceeded, drops a packet from the head of the queue with the most bytes.
    fn drop_from_longest(&mut self, at: Instant, out: &mut Released<P>) {
        let active = self.new_flows.iter().chain(&self.old_flows).copied();
        // If several queues are equally long, the first of them is chosen. `max_by_key` returns the last maximum, so
        // the order is reversed.
        let longest = active.rev().max_by_key(|index| self.flows[*index].queue.occupancy().bytes);
        let Some((_, packet)) = longest.and_then(|index| self.flows[index].queue.pop()) else { return };
        self.waiting.packets -= 1;
        self.waiting.bytes -= packet.wire_len() as u64;
        out.lost(at, packet, DropCause::Overflow);
    }
}

/// The number of queues (RFC 8290 §5.2.5).
pub const QUEUES: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::{Chain, Stage};
    use crate::element::TestPacket;
    use crate::rate::{Rate, Serializer};

    /// Creates a chain with FQ-CoDel, in which a packet of 1500 bytes takes 1 ms.
    fn chain(limit: Limit) -> Chain<TestPacket> {
        let serializer = Serializer::Rate(Rate::new("12mbit".parse().expect("a rate")));
        let queues = FairQueues::new(limit, 1500, CodelConfig::default(), Rng::new(1));
        Chain::new(vec![Stage::FqCodel(Box::new(FqCodel::new(queues, serializer)))])
    }

    fn packet(flow: u64, number: u64, bytes: usize) -> TestPacket {
        TestPacket { flow, ..TestPacket::numbered(bytes, number) }
    }

    fn drain(chain: &mut Chain<TestPacket>) -> Vec<(u64, u64)> {
        let mut order = Vec::new();
        while let Some(now) = chain.next() {
            while let Some(packet) = chain.pop(now) {
                order.push((packet.flow, packet.number));
            }
        }
        order
    }

    /// RFC 8290 §4.2: flows take turns, and a new flow is served first.
    #[test]
    fn flows_take_turns_and_a_new_one_comes_first() {
        let mut chain = chain(Limit::Packets(1000));
        for number in 1..=4 {
            chain.push(Instant::ZERO, packet(7, number, 1500));
        }
        for number in 1..=2 {
            chain.push(Instant::ZERO, packet(9, number, 1500));
        }
        // Packet 1 of flow 7 leaves immediately and uses up that flow's quantum. The new flow 9 is served next, and
        // then the two flows take turns.
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

    /// RFC 8290 §4.1: when the limit is exceeded, packets are dropped from the head of the longest queue.
    #[test]
    fn a_full_queue_drops_from_the_longest_flow() {
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
