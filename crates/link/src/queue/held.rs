//! A queue that decides about a packet when it is dequeued, with the serializer that the queue feeds.
//!
//! Whenever the serializer is free, it gets the next packet from the queueing discipline.

use super::Occupancy;
use crate::element::{Carried, HoldingElement, Released};
use crate::meter::Meter;
use crate::rate::Serializer;
use anabranch_base::Instant;

/// A queueing discipline: it orders waiting packets and drops some of them.
pub trait Discipline<P> {
    /// Adds a packet. The discipline may drop this packet, or another one to make room.
    fn join(&mut self, at: Instant, packet: P, out: &mut Released<P>);

    /// Returns the next packet to send, after dropping the packets that are due to be dropped.
    fn take(&mut self, at: Instant, out: &mut Released<P>, meter: &mut Meter) -> Option<P>;

    /// Returns the amount of packets that wait.
    fn waiting(&self) -> Occupancy;
}

/// A queueing discipline with its serializer. It must be the first element of a chain, where packets enter at the
/// instant at which they are pushed.
#[derive(Clone, Debug)]
pub struct HeldQueue<D> {
    discipline: D,
    serializer: Serializer,
    /// The time at which the last packet was added. No packet is dequeued before that time.
    joined: Instant,
}

impl<D> HeldQueue<D> {
    /// Creates an empty queue in front of `serializer`.
    #[must_use]
    pub const fn new(discipline: D, serializer: Serializer) -> Self {
        Self { discipline, serializer, joined: Instant::ZERO }
    }

    /// Returns the amount of packets that wait in the queue.
    #[must_use]
    pub fn occupancy<P>(&self) -> Occupancy
    where
        D: Discipline<P>,
    {
        self.discipline.waiting()
    }
}

impl<P: Carried, D: Discipline<P>> HoldingElement<P> for HeldQueue<D> {
    fn push(&mut self, at: Instant, packet: P, out: &mut Released<P>, meter: &mut Meter) {
        self.advance(at, out, meter);
        if self.discipline.waiting().packets == 0 {
            self.joined = at;
        }
        self.discipline.join(at, packet, out);
        self.advance(at, out, meter);
        let waiting = self.discipline.waiting();
        meter.queue_holds(waiting.packets, waiting.bytes);
    }

    fn deadline(&self) -> Option<Instant> {
        (self.discipline.waiting().packets > 0).then(|| self.serializer.free().max(self.joined))
    }

    fn advance(&mut self, now: Instant, out: &mut Released<P>, meter: &mut Meter) {
        while let Some(at) = self.deadline().filter(|at| *at <= now) {
            // If the discipline drops all waiting packets, the deadline becomes `None` and the loop ends.
            if let Some(packet) = self.discipline.take(at, out, meter) {
                let transmission = self.serializer.transmit(at, packet.wire_len());
                out.leaves(transmission.end, packet);
            }
        }
    }

    fn held(&self) -> usize {
        self.discipline.waiting().packets as usize
    }
}
