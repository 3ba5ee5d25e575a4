//! A queue with its serializer, for queueing disciplines that drop packets at the exit of the queue (CoDel).
//!
//! Whenever the serializer is free, the queueing discipline gives it the next packet.

use crate::element::{Carried, HoldingElement, Released};
use crate::meter::{Meter, Occupancy};
use crate::rate::Serializer;
use anabranch_base::Instant;

/// A queueing discipline: it orders waiting packets and drops some of them.
pub trait Discipline<P> {
    /// Adds a packet. To make room, the discipline may drop this packet or another packet.
    fn join(&mut self, at: Instant, packet: P, out: &mut Released<P>);

    /// Drops the packets that are due to be dropped, and returns the next packet to send.
    fn take(&mut self, at: Instant, out: &mut Released<P>, meter: &mut Meter) -> Option<P>;

    /// Returns how many packets and bytes wait.
    fn waiting(&self) -> Occupancy;
}

/// A queueing discipline with its serializer. This element must be the first of a chain. Only the first element gets
/// each packet at the instant at which the packet is pushed.
#[derive(Clone, Debug)]
pub struct HeldQueue<D> {
    discipline: D,
    serializer: Serializer,
    /// The time at which the last packet was added. No packet is dequeued before that time.
    last_joined: Instant,
}

impl<D> HeldQueue<D> {
    /// Creates an empty queue in front of `serializer`.
    #[must_use]
    pub const fn new(discipline: D, serializer: Serializer) -> Self {
        Self { discipline, serializer, last_joined: Instant::ZERO }
    }
}

impl<P: Carried, D: Discipline<P>> HoldingElement<P> for HeldQueue<D> {
    fn push(&mut self, at: Instant, packet: P, out: &mut Released<P>, meter: &mut Meter) {
        self.advance(at, out, meter);
        if self.discipline.waiting().packets == 0 {
            self.last_joined = at;
        }
        self.discipline.join(at, packet, out);
        self.advance(at, out, meter);
        let waiting = self.discipline.waiting();
        meter.queue_holds(waiting.packets, waiting.bytes);
    }

    fn deadline(&self) -> Option<Instant> {
        (self.discipline.waiting().packets > 0).then(|| self.serializer.free_at().max(self.last_joined))
    }

    fn advance(&mut self, now: Instant, out: &mut Released<P>, meter: &mut Meter) {
        while let Some(at) = self.deadline().filter(|at| *at <= now) {
            // The discipline may drop all waiting packets. The deadline is then `None`, and the loop ends.
            if let Some(packet) = self.discipline.take(at, out, meter) {
                let transmission = self.serializer.transmit(at, packet.wire_len());
                out.leaves(transmission.end, packet);
            }
        }
    }

    fn held(&self) -> usize {
        self.discipline.waiting().packets as usize
    }

    fn occupancy(&self) -> Occupancy {
        self.discipline.waiting()
    }
}
