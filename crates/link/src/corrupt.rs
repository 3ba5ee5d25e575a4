//! Corruption: flips bits in a share of the packets, without updating their checksums.

use crate::element::{Carried, Fate, ImmediateElement};
use crate::meter::Meter;
use crate::spec::SpecError;
use crate::table::{Impairment, Side};
use crate::{DirectionSpec, Stage};
use anabranch_base::{Instant, Ratio, Rng};

/// An element that corrupts a share of the packets.
#[derive(Clone, Debug)]
pub struct Corrupt {
    share: Ratio,
    rng: Rng,
}

impl Corrupt {
    /// Creates an element that corrupts `share` of the packets.
    #[must_use]
    pub const fn new(share: Ratio, rng: Rng) -> Self {
        Self { share, rng }
    }
}

impl Impairment<Ratio> for Corrupt {
    const PLACE: u8 = 50;

    fn read(text: &str) -> Result<Ratio, String> {
        text.parse::<Ratio>().map_err(|error| error.to_string())
    }

    fn show(spec: &DirectionSpec) -> String {
        if spec.corrupt == Ratio::ZERO { String::new() } else { spec.corrupt.to_string() }
    }

    fn stage<P: Carried>(side: &Side<'_>) -> Result<Option<Stage<P>>, SpecError> {
        let share = side.spec.corrupt;
        Ok((share != Ratio::ZERO).then(|| Stage::Corrupt(Self::new(share, side.rng.fork("corrupt")))))
    }
}

impl<P: Carried> ImmediateElement<P> for Corrupt {
    fn pass(&mut self, at: Instant, packet: &mut P, meter: &mut Meter) -> Fate {
        if self.rng.chance(self.share) {
            meter.changed.corrupted.add(packet.wire_len());
            packet.corrupt(&mut self.rng);
        }
        Fate::Leaves(at)
    }
}

/// Flips one to four different bits of a packet.
pub fn flip_bits(bytes: &mut [u8], rng: &mut Rng) {
    let bits = bytes.len() as u64 * 8;
    if bits == 0 {
        return;
    }
    // Flips one to four bits, 37 bits apart. No bit is flipped twice, because the second flip would undo the first.
    let first = rng.below(bits);
    let more = rng.below(4);
    for step in 0..=more {
        let bit = (first + step * 37) % bits;
        bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
    }
}
