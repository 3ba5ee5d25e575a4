//! Duplication: a share of the packets arrives twice.
//!
//! The copy leaves at the same instant, right behind the packet; jitter further
//! on may part them.

use crate::element::{Fate, Passing};
use crate::meter::Meter;
use anabranch_base::{Instant, Ratio, Rng};

/// Doubles a share of the packets.
#[derive(Clone, Debug)]
pub struct Duplicate {
    share: Ratio,
    rng: Rng,
}

impl Duplicate {
    /// Doubles `share` of the packets.
    #[must_use]
    pub const fn new(share: Ratio, rng: Rng) -> Self {
        Self { share, rng }
    }
}

impl<P> Passing<P> for Duplicate {
    fn pass(&mut self, at: Instant, _packet: &mut P, _meter: &mut Meter) -> Fate {
        if self.rng.chance(self.share) { Fate::Doubled(at) } else { Fate::Leaves(at) }
    }
}
