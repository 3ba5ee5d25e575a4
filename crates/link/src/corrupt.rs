//! Corruption: a share of the packets has bits flipped, checksums left as they are.

use crate::element::{Carried, Fate, Passing};
use crate::meter::Meter;
use anabranch_base::{Instant, Ratio, Rng};

/// Damages a share of the packets.
#[derive(Clone, Debug)]
pub struct Corrupt {
    share: Ratio,
    rng: Rng,
}

impl Corrupt {
    /// Damages `share` of the packets.
    #[must_use]
    pub const fn new(share: Ratio, rng: Rng) -> Self {
        Self { share, rng }
    }
}

impl<P: Carried> Passing<P> for Corrupt {
    fn pass(&mut self, at: Instant, packet: &mut P, meter: &mut Meter) -> Fate {
        if self.rng.chance(self.share) {
            meter.corrupted.add(packet.wire_len());
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
    // An even number of flips of the same bit would be no damage.
    let first = rng.below(bits);
    let more = rng.below(4);
    for step in 0..=more {
        let bit = (first + step * 37) % bits;
        bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
    }
}
