//! Queues in front of a serializer.
//!
//! A queue that decides at a packet's arrival whether to drop the packet (drop-tail, RED, PIE) stores no packets. The
//! serializer schedules each packet's departure immediately. The packets that still wait at a later instant are
//! computed from this schedule ([`Backlog`]). [`Bottleneck`] is a queue of this kind with its serializer. CoDel
//! ([`codel`]) and FQ-CoDel ([`fq`]) make this decision at the time a packet is dequeued, and therefore hold packets.
//!
//! A packet counts as waiting in the queue until its first bit is on the wire, as in ns-2 and in the queue of a network
//! interface.

pub mod codel;
pub mod droptail;
pub mod fq;
pub mod held;
pub mod pie;
pub mod red;
mod setting;

use crate::element::{Carried, Fate, ImmediateElement};
use crate::meter::{DropCause, Meter, Occupancy};
use crate::rate::Serializer;
use anabranch_base::{Ecn, Instant};
use std::collections::VecDeque;

pub use droptail::{Limit, Threshold};
pub use pie::Pie;
pub use red::Red;

/// The packets that wait in a queue. The scheduled start of each packet's serialization tells which packets still wait.
#[derive(Clone, Debug, Default)]
pub struct Backlog {
    /// The packets that waited at the last [`settle`](Self::settle) or were added since, in order. Each entry has the
    /// scheduled start of the packet's serialization and the packet's size in bytes.
    starts: VecDeque<(Instant, u32)>,
    bytes: u64,
    /// The scheduled start of the last packet's serialization.
    last_start: Instant,
}

impl Backlog {
    /// Removes the packets whose serialization has started by `at`.
    #[inline(always)]
    pub fn settle(&mut self, at: Instant) {
        while let Some(&(start, bytes)) = self.starts.front() {
            if start > at {
                break;
            }
            self.bytes -= u64::from(bytes);
            self.starts.pop_front();
        }
    }

    /// Adds a packet of `bytes` bytes that waits until `start`.
    #[inline]
    pub fn add(&mut self, start: Instant, bytes: usize) {
        self.last_start = start;
        self.bytes += bytes as u64;
        self.starts.push_back((start, bytes as u32));
    }

    /// Returns how many packets and bytes wait, as of the last [`settle`](Self::settle).
    #[must_use]
    #[inline]
    pub fn occupancy(&self) -> Occupancy {
        Occupancy { packets: self.starts.len() as u64, bytes: self.bytes }
    }

    /// Returns how many packets and bytes wait at `at`. `at` may be any instant since the last call of
    /// [`settle`](Self::settle).
    #[must_use]
    pub fn occupancy_at(&self, at: Instant) -> Occupancy {
        let gone = self.starts.partition_point(|(start, _)| *start <= at);
        let gone_bytes: u64 = self.starts.range(..gone).map(|(_, bytes)| u64::from(*bytes)).sum();
        Occupancy { packets: (self.starts.len() - gone) as u64, bytes: self.bytes - gone_bytes }
    }

    /// Returns the time in nanoseconds that the last packet in the queue still has to wait at `at`.
    #[must_use]
    pub fn delay_at(&self, at: Instant) -> u64 {
        self.last_start.as_nanos().saturating_sub(at.as_nanos())
    }

    /// Returns the time at which the queue becomes empty or, if it is empty, last became empty.
    #[must_use]
    pub const fn empty_from(&self) -> Instant {
        self.last_start
    }
}

/// A queue's decision about an arriving packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// The packet may join the queue.
    Take,
    /// If the packet is ECN-capable, it is marked CE and joins the queue. Otherwise an AQM drops the packet, but a
    /// drop-tail queue with a threshold accepts it unmarked.
    MarkOrDrop,
    /// The packet is dropped.
    Drop,
}

/// The policy by which a queue decides about an arriving packet while the queue is not full.
#[derive(Clone, Debug)]
pub enum Policy {
    /// Accepts all packets that fit. If a threshold is set, packets that would exceed it are marked.
    DropTail(Option<Threshold>),
    /// Random early detection.
    Red(Box<Red>),
    /// Proportional integral controller enhanced (PIE).
    Pie(Box<Pie>),
}

/// A queue together with its serializer. When a packet arrives, the queue decides at once whether to drop it.
#[derive(Clone, Debug)]
pub struct Bottleneck {
    limit: Limit,
    policy: Policy,
    serializer: Serializer,
    backlog: Backlog,
}

impl Bottleneck {
    /// Creates a queue that holds at most `limit` packets or bytes, in front of `serializer`.
    #[must_use]
    pub fn new(limit: Limit, policy: Policy, serializer: Serializer) -> Self {
        Self { limit, policy, serializer, backlog: Backlog::default() }
    }

    /// Returns how many packets and bytes wait at `now`.
    #[must_use]
    pub fn occupancy(&self, now: Instant) -> Occupancy {
        self.backlog.occupancy_at(now)
    }

    /// Applies the limit and the policy to an arriving packet, and marks the packet if the policy requires it. Returns
    /// the cause if the packet is dropped.
    #[inline(always)]
    fn admit<P: Carried>(&mut self, at: Instant, packet: &mut P, meter: &mut Meter) -> Option<DropCause> {
        if let Policy::Red(red) = &mut self.policy {
            red.observe(at, &self.backlog);
        }
        // A packet that finds the link idle never waits, so the limit does not apply to it.
        if !self.limit.has_room(self.backlog.occupancy(), packet.wire_len()) && self.serializer.free_at() > at
        {
            return Some(DropCause::Overflow);
        }
        match self.policy {
            Policy::DropTail(None) => None,
            _ => self.admit_by_policy(at, packet, meter),
        }
    }

    #[inline(never)]
    fn admit_by_policy<P: Carried>(
        &mut self,
        at: Instant,
        packet: &mut P,
        meter: &mut Meter,
    ) -> Option<DropCause> {
        let waiting = self.backlog.occupancy();
        let bytes = packet.wire_len();
        let (admission, ecn, otherwise) = match &mut self.policy {
            Policy::DropTail(None) => return None,
            Policy::DropTail(Some(threshold)) => (threshold.admit(waiting, bytes), true, None),
            Policy::Red(red) => (red.admit(), red.ecn(), Some(DropCause::Early)),
            Policy::Pie(pie) => (pie.admit(at, &self.backlog), pie.ecn(), Some(DropCause::Early)),
        };
        match admission {
            Admission::Take => None,
            Admission::Drop => Some(DropCause::Early),
            Admission::MarkOrDrop if ecn && mark_ce(packet, meter) => None,
            Admission::MarkOrDrop => otherwise,
        }
    }
}

/// Marks an ECN-capable packet. Returns false if the packet is not ECN-capable (RFC 3168 §5).
pub(crate) fn mark_ce<P: Carried>(packet: &mut P, meter: &mut Meter) -> bool {
    match packet.ecn() {
        Ecn::NotEct => false,
        Ecn::Ce => true,
        Ecn::Ect0 | Ecn::Ect1 => {
            packet.mark_ce();
            meter.changed.marked.add(packet.wire_len());
            true
        }
    }
}

impl<P: Carried> ImmediateElement<P> for Bottleneck {
    #[inline(always)]
    fn pass(&mut self, at: Instant, packet: &mut P, meter: &mut Meter) -> Fate {
        self.backlog.settle(at);
        if let Some(cause) = self.admit(at, packet, meter) {
            return Fate::Lost(cause);
        }
        let bytes = packet.wire_len();
        let transmission = self.serializer.transmit(at, bytes);
        if let Policy::Red(red) = &mut self.policy {
            red.served_in(transmission.end.as_nanos() - transmission.start.as_nanos());
        }
        if transmission.start > at {
            self.backlog.add(transmission.start, bytes);
            let waiting = self.backlog.occupancy();
            meter.queue_holds(waiting.packets, waiting.bytes);
        }
        Fate::Leaves(transmission.end)
    }
}
