//! Duplication: a share of the packets arrives twice.
//!
//! The copy leaves at the same instant as the packet, directly behind it. A later element for jitter may separate the
//! packet and its copy.

use crate::element::{Fate, ImmediateElement};
use crate::meter::Meter;
use crate::spec::SpecError;
use crate::table::{Impairment, Side};
use crate::{Carried, DirectionSpec, Stage};
use anabranch_base::{Instant, Ratio, Rng};

/// An element that duplicates a share of the packets.
#[derive(Clone, Debug)]
pub struct Duplicate {
    share: Ratio,
    rng: Rng,
}

impl Duplicate {
    /// Creates an element that duplicates `share` of the packets.
    #[must_use]
    pub const fn new(share: Ratio, rng: Rng) -> Self {
        Self { share, rng }
    }
}

impl Impairment<Ratio> for Duplicate {
    const PLACE: u8 = 60;

    fn read(text: &str) -> Result<Ratio, String> {
        text.parse::<Ratio>().map_err(|error| error.to_string())
    }

    fn show(spec: &DirectionSpec) -> String {
        if spec.duplicate == Ratio::ZERO { String::new() } else { spec.duplicate.to_string() }
    }

    fn stage<P: Carried>(side: &Side<'_>) -> Result<Option<Stage<P>>, SpecError> {
        let share = side.spec.duplicate;
        Ok((share != Ratio::ZERO).then(|| Stage::Duplicate(Self::new(share, side.rng.fork("duplicate")))))
    }
}

impl<P> ImmediateElement<P> for Duplicate {
    fn pass(&mut self, at: Instant, _packet: &mut P, _meter: &mut Meter) -> Fate {
        if self.rng.chance(self.share) { Fate::Doubled(at) } else { Fate::Leaves(at) }
    }
}
