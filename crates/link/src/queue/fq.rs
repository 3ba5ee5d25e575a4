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
