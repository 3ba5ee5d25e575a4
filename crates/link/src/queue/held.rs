//! A queue that decides when a packet is dequeued, and its serializer.
//!
//! Whenever the serializer is free, the discipline is asked for the next packet.

use super::Occupancy;
use crate::element::{Carried, Holding, Released};
use crate::meter::Meter;
use crate::rate::Serializer;
use anabranch_base::Instant;

/// A queueing discipline: orders and drops waiting packets.
pub trait Discipline<P> {
    /// Adds a packet. It, or another packet instead, may be dropped to make room.
    fn join(&mut self, at: Instant, packet: P, out: &mut Released<P>);

    /// Returns the next packet for the wire, after dropping those that are due.
    fn take(&mut self, at: Instant, out: &mut Released<P>, meter: &mut Meter) -> Option<P>;

    /// The packets that wait.
    fn waiting(&self) -> Occupancy;
}

/// A queueing discipline in front of a serializer. It must be first in a chain,
/// where packets enter at the instant at which they are pushed.
#[derive(Clone, Debug)]
pub struct HeldQueue<D> {
    discipline: D,
    serializer: Serializer,
    /// The time at which the last packet was added: none is dequeued earlier.
    joined: Instant,
}

impl<D> HeldQueue<D> {
    /// Creates an empty queue.
    #[must_use]
    pub const fn new(discipline: D, serializer: Serializer) -> Self {
        Self { discipline, serializer, joined: Instant::ZERO }
    }

    /// The packets that wait.
    #[must_use]
    pub fn occupancy<P>(&self) -> Occupancy
    where
        D: Discipline<P>,
    {
        self.discipline.waiting()
    }
}

impl<P: Carried, D: Discipline<P>> Holding<P> for HeldQueue<D> {
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
            // A discipline may drop all waiting packets; then the loop ends.
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
