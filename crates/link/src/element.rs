//! The interface of packets, and the two traits of elements.
//!
//! An element that can tell at once when (or whether) a packet leaves is
//! [`Passing`]; one that decides later is [`Holding`]. The set of elements is
//! closed (`chain::Stage` is an enum). The set of packet types is open, so the
//! packet is the generic parameter.

use crate::meter::Meter;
use anabranch_base::{Ecn, Instant, Rng};

/// A packet as a link sees it.
pub trait Carried: Sized {
    /// The number of bytes that occupy the link: the IP header and everything after it.
    fn wire_len(&self) -> usize;

    /// The two ECN bits of the IP header.
    fn ecn(&self) -> Ecn;

    /// Sets the ECN bits to CE and updates the header checksum. Called only when
    /// [`ecn`](Self::ecn) is ECT(0) or ECT(1).
    fn mark_ce(&mut self);

    /// A number that is equal for packets of one flow (addresses, protocol, ports), for
    /// fair queueing. It need not be mixed: the queue does that.
    fn flow(&self) -> u64;

    /// Called when the packet will leave next; may prefetch it into the caches.
    #[inline]
    fn approach(&self) {}

    /// Returns a copy, as a faulty network would deliver it.
    #[must_use]
    fn duplicate(&self) -> Self;

    /// Flips one or more bits chosen by `rng`, leaving checksums as they are.
    fn corrupt(&mut self, rng: &mut Rng);
}

/// Why the link did not deliver a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Cause {
    /// The queue was full.
    Overflow,
    /// Active queue management (RED, PIE, CoDel) dropped it.
    Early,
    /// The loss model dropped it after it had used the link.
    Loss,
    /// It collided too often with packets from the other end.
    Collision,
    /// The link was down.
    Outage,
    /// It was larger than the link's MTU (the value): the sender gets an ICMP message.
    TooBig(u32),
}

/// The fate of a packet that enters a [`Passing`] element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The packet leaves at this instant.
    Leaves(Instant),
    /// The packet and a copy of it leave at this instant, the packet first.
    Doubled(Instant),
    /// The packet never leaves.
    Lost(Cause),
}

/// An element that decides the fate of a packet at once.
pub trait Passing<P> {
    /// Handles a packet that enters at `at`; may change it in place. Calls come in the
    /// order of `at`, except behind an element that reorders.
    fn pass(&mut self, at: Instant, packet: &mut P, meter: &mut Meter) -> Fate;
}

/// An element that holds packets and decides later.
pub trait Holding<P> {
    /// Handles a packet that enters at `at`, which is not before any earlier call's instant.
    fn push(&mut self, at: Instant, packet: P, out: &mut Released<P>, meter: &mut Meter);

    /// The time at which [`advance`](Self::advance) next has something to do; `None`
    /// if no packet is held. It may be too early, but never too late.
    fn deadline(&self) -> Option<Instant>;

    /// Processes everything that is due at or before `now`, each event at its own instant.
    fn advance(&mut self, now: Instant, out: &mut Released<P>, meter: &mut Meter);

    /// The number of packets held.
    fn held(&self) -> usize;
}

/// The packets that a [`Holding`] element has released, in order.
#[derive(Debug)]
pub struct Released<P> {
    /// Each packet with the instant at which it leaves, or at which it is lost for a cause.
    pub packets: Vec<(Instant, P, Option<Cause>)>,
}

impl<P> Default for Released<P> {
    fn default() -> Self {
        Self { packets: Vec::new() }
    }
}

impl<P> Released<P> {
    /// Records that the packet leaves at `at`.
    pub fn leaves(&mut self, at: Instant, packet: P) {
        self.packets.push((at, packet, None));
    }

    /// Records that the packet is lost at `at`.
    pub fn lost(&mut self, at: Instant, packet: P, cause: Cause) {
        self.packets.push((at, packet, Some(cause)));
    }
}

/// A packet without content: a size, a flow, an ECN mark and a number. For
/// tests, examples and benchmarks of links alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Blank {
    /// Bytes on the wire.
    pub bytes: usize,
    /// ECN bits.
    pub ecn: Ecn,
    /// The flow.
    pub flow: u64,
    /// Any number, to tell packets apart.
    pub number: u64,
    /// Whether it has been corrupted.
    pub damaged: bool,
}

impl Blank {
    /// A packet of this many bytes, not ECN-capable, flow 0, number 0.
    #[must_use]
    pub const fn new(bytes: usize) -> Self {
        Self { bytes, ecn: Ecn::NotEct, flow: 0, number: 0, damaged: false }
    }

    /// A packet of this many bytes with a number.
    #[must_use]
    pub const fn numbered(bytes: usize, number: u64) -> Self {
        Self { number, ..Self::new(bytes) }
    }
}

impl Carried for Blank {
    fn wire_len(&self) -> usize {
        self.bytes
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn mark_ce(&mut self) {
        self.ecn = Ecn::Ce;
    }

    fn flow(&self) -> u64 {
        self.flow
    }

    fn duplicate(&self) -> Self {
        self.clone()
    }

    fn corrupt(&mut self, _rng: &mut Rng) {
        self.damaged = true;
    }
}
