//! Reordering: a share of the packets overtakes.
//!
//! A packet is chosen with a fixed probability and leaves a lead earlier than
//! its delay would let it, so it passes all packets that entered less than the
//! lead before it. With the whole delay as the lead this is what netem's
//! `reorder` does. Belongs behind a [`Delay`](crate::delay::Delay) of at least
//! the lead. On a link whose packets are spaced wider than the lead nothing is
//! overtaken; the packet is merely early.

use crate::element::{Carried, Fate, Passing};
use crate::meter::Meter;
use anabranch_base::time::{Duration, nanos};
use anabranch_base::{Instant, Ratio, Rng};

/// Sends a share of the packets ahead.
#[derive(Clone, Debug)]
pub struct Reorder {
    share: Ratio,
    lead: u64,
    rng: Rng,
}

impl Reorder {
    /// Sends `share` of the packets ahead by `lead`.
    #[must_use]
    pub const fn new(share: Ratio, lead: Duration, rng: Rng) -> Self {
        Self { share, lead: nanos(lead), rng }
    }
}

impl<P: Carried> Passing<P> for Reorder {
    fn pass(&mut self, at: Instant, packet: &mut P, meter: &mut Meter) -> Fate {
        if !self.rng.chance(self.share) {
            return Fate::Leaves(at);
        }
        meter.overtaking.add(packet.wire_len());
        Fate::Leaves(Instant::from_nanos(at.as_nanos().saturating_sub(self.lead)))
    }
}
