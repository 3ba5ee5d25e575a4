//! Jitter: a delay that varies from packet to packet.
//!
//! Each packet's departure is shifted by a time drawn uniformly from −j to +j. Unless reordering is allowed, a packet
//! never leaves before the packet ahead of it. Instead it leaves at the same instant as that packet, directly behind
//! it. This element must follow a [`Delay`](crate::delay::Delay) of at least j, so that no packet leaves this element
//! before it has entered the delay.

use crate::element::{Fate, ImmediateElement};
use crate::meter::Meter;
use crate::spec::SpecError;
use crate::table::{Impairment, Side};
use crate::{Carried, DirectionSpec, Stage};
use anabranch_base::time::{Duration, nanos};
use anabranch_base::units::{format_duration, parse_duration};
use anabranch_base::{Instant, Rng};

/// An element that shifts the departure of each packet by a uniformly distributed time.
#[derive(Clone, Debug)]
pub struct Jitter {
    spread: u64,
    in_order: bool,
    last: Instant,
    rng: Rng,
}

impl Jitter {
    /// Creates an element that makes each packet leave earlier or later by up to `spread`. If `in_order` is set, no
    /// packet overtakes another.
    #[must_use]
    pub const fn new(spread: Duration, in_order: bool, rng: Rng) -> Self {
        Self { spread: nanos(spread), in_order, last: Instant::ZERO, rng }
    }
}

impl Impairment<Duration> for Jitter {
    const PLACE: u8 = 80;

    fn read(text: &str) -> Result<Duration, String> {
        parse_duration(text).map_err(|error| error.to_string())
    }

    fn show(spec: &DirectionSpec) -> String {
        if spec.jitter.is_zero() { String::new() } else { format_duration(spec.jitter) }
    }

    fn check(spec: &DirectionSpec) -> Result<(), String> {
        if spec.jitter > spec.delay {
            let (jitter, delay) = (format_duration(spec.jitter), format_duration(spec.delay));
            return Err(format!(
                "jitter {jitter} is more than the delay {delay}: a packet cannot leave before it arrives"
            ));
        }
        Ok(())
    }

    fn stage<P: Carried>(side: &Side<'_>) -> Result<Option<Stage<P>>, SpecError> {
        let spec = side.spec;
        let jitter = || Self::new(spec.jitter, spec.reorder.is_none(), side.rng.fork("jitter"));
        Ok((!spec.jitter.is_zero()).then(|| Stage::Jitter(jitter())))
    }
}

impl<P> ImmediateElement<P> for Jitter {
    fn pass(&mut self, at: Instant, _packet: &mut P, _meter: &mut Meter) -> Fate {
        let drawn = self.rng.below(self.spread.saturating_mul(2).saturating_add(1));
        let earliest = at.as_nanos().saturating_sub(self.spread);
        let mut leaves = Instant::from_nanos(earliest).plus_nanos(drawn);
        if self.in_order {
            leaves = leaves.max(self.last);
            self.last = leaves;
        }
        Fate::Leaves(leaves)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::TestPacket;

    fn leave(in_order: bool) -> Vec<u64> {
        let mut jitter = Jitter::new(Duration::from_millis(5), in_order, Rng::new(4));
        let mut meter = Meter::default();
        (0..1000_u64)
            .map(|i| match jitter.pass(Instant::from_millis(100 + i), &mut TestPacket::new(1), &mut meter) {
                Fate::Leaves(at) => at.as_nanos(),
                fate => panic!("{fate:?}"),
            })
            .collect()
    }

    #[test]
    fn packets_move_within_the_spread_and_stay_in_order() {
        for (i, at) in leave(false).iter().enumerate() {
            let exact = (100 + i as u64) * 1_000_000;
            assert!((exact - 5_000_000..=exact + 5_000_000).contains(at));
        }
        assert!(leave(false).windows(2).any(|pair| pair[0] > pair[1]));
        let ordered = leave(true);
        assert!(ordered.windows(2).all(|pair| pair[0] <= pair[1]));
        // With `in_order`, no packet leaves later than its own delay plus the spread.
        for (i, at) in ordered.iter().enumerate() {
            assert!(*at <= (105 + i as u64) * 1_000_000);
        }
        assert_eq!(leave(true), ordered, "same seed, same instants");
    }
}
