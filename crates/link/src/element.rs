//! The trait that packets implement, and the two traits that elements of a link implement.
//!
//! An element is an [`ImmediateElement`] if it decides the fate of a packet when the packet enters. It is a
//! [`HoldingElement`] if it decides later. The set of elements is closed: `chain::Stage` is an enum. The set of packet
//! types is open, so the packet is a generic parameter.

use crate::meter::{DropCause, Meter, Occupancy};
use anabranch_base::{Ecn, Instant, Rng};

/// A packet, with the operations that a link needs.
pub trait Carried: Sized {
    /// Returns the number of bytes that occupy the link: the IP header and everything after it.
    fn wire_len(&self) -> usize;

    /// Returns the two ECN bits of the IP header.
    fn ecn(&self) -> Ecn;

    /// Sets the ECN bits to CE and updates the IP header checksum. Called only if [`ecn`](Self::ecn) returns ECT(0) or
    /// ECT(1).
    fn mark_ce(&mut self);

    /// Returns a number that is equal for packets of one flow (addresses, protocol, ports), for fair queueing. The
    /// number need not be a hash, because the queue hashes it.
    fn flow(&self) -> u64;

    /// Called when this packet will be the next to leave. An implementation may prefetch the packet into the CPU
    /// caches.
    #[inline]
    fn approach(&self) {}

    /// Returns a copy of the packet, as a network that duplicates packets would deliver it.
    #[must_use]
    fn duplicate(&self) -> Self;

    /// Flips one or more bits, chosen by `rng`, and leaves checksums unchanged.
    fn corrupt(&mut self, rng: &mut Rng);
}

/// The fate of a packet that enters an [`ImmediateElement`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The packet leaves the element at this instant.
    Leaves(Instant),
    /// The packet and a copy of it leave the element at this instant, the packet first.
    Doubled(Instant),
    /// The packet is lost for this cause.
    Lost(DropCause),
}

/// An element that decides the fate of a packet immediately.
pub trait ImmediateElement<P> {
    /// Handles a packet that enters at `at`. It may modify the packet. From call to call, `at` does not decrease,
    /// except behind an element that reorders packets.
    fn pass(&mut self, at: Instant, packet: &mut P, meter: &mut Meter) -> Fate;
}

/// An element that holds packets and decides their fate later.
pub trait HoldingElement<P> {
    /// Handles a packet that enters at `at`. The `at` of successive calls does not decrease.
    fn push(&mut self, at: Instant, packet: P, out: &mut Released<P>, meter: &mut Meter);

    /// Returns the time at which [`advance`](Self::advance) should be called next; `None` if no packet is held. The
    /// time may be earlier than the next event, but is never later.
    fn deadline(&self) -> Option<Instant>;

    /// Processes all events that are due at or before `now`, each at its own instant.
    fn advance(&mut self, now: Instant, out: &mut Released<P>, meter: &mut Meter);

    /// Returns the number of packets that the element holds.
    fn held(&self) -> usize;

    /// Returns how many packets and bytes wait in a queue of the element.
    fn occupancy(&self) -> Occupancy;
}

/// The packets that a [`HoldingElement`] has released (sent on or lost), in the order of their release.
#[derive(Debug)]
pub struct Released<P> {
    /// Each packet with the instant at which it leaves the element or is lost. The drop cause is `None` if the packet
    /// leaves the element.
    pub packets: Vec<(Instant, P, Option<DropCause>)>,
}

impl<P> Default for Released<P> {
    fn default() -> Self {
        Self { packets: Vec::new() }
    }
}

impl<P> Released<P> {
    /// Records that `packet` leaves the element at `at`.
    pub fn leaves(&mut self, at: Instant, packet: P) {
        self.packets.push((at, packet, None));
    }

    /// Records that `packet` is lost at `at`.
    pub fn lost(&mut self, at: Instant, packet: P, cause: DropCause) {
        self.packets.push((at, packet, Some(cause)));
    }
}

/// A packet without content, which has only a size, a flow, ECN bits and a number. Used in tests, examples and
/// benchmarks of links without a network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TestPacket {
    /// The size of the packet on the wire in bytes.
    pub bytes: usize,
    /// ECN bits.
    pub ecn: Ecn,
    /// The flow.
    pub flow: u64,
    /// A number that a test may choose to tell packets apart.
    pub number: u64,
    /// Whether the link has corrupted the packet.
    pub damaged: bool,
}

impl TestPacket {
    /// Creates a packet of `bytes` bytes that is not ECN-capable and has flow 0 and number 0.
    #[must_use]
    pub const fn new(bytes: usize) -> Self {
        Self { bytes, ecn: Ecn::NotEct, flow: 0, number: 0, damaged: false }
    }

    /// Creates a packet of `bytes` bytes with the number `number`.
    #[must_use]
    pub const fn numbered(bytes: usize, number: u64) -> Self {
        Self { number, ..Self::new(bytes) }
    }
}

impl Carried for TestPacket {
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
