//! Propagation delay: every packet leaves the same span after it entered.

use crate::element::{Fate, Passing};
use crate::meter::Meter;
use anabranch_base::Instant;
use anabranch_base::time::{Duration, nanos};

/// A fixed delay.
#[derive(Clone, Copy, Debug)]
pub struct Delay {
    nanos: u64,
}

impl Delay {
    /// The delay of this span.
    #[must_use]
    pub const fn new(span: Duration) -> Self {
        Self { nanos: nanos(span) }
    }
}

impl<P> Passing<P> for Delay {
    #[inline]
    fn pass(&mut self, at: Instant, _packet: &mut P, _meter: &mut Meter) -> Fate {
        Fate::Leaves(at.plus_nanos(self.nanos))
    }
}
