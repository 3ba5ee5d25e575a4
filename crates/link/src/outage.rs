//! Times at which the link is down.
//!
//! This element is behind the serializer: the router continues to send into the dead
//! link, and a packet whose serialization ends while the link is down is lost. A
//! packet that was already propagating when the outage began arrives. An interval
//! includes its start and excludes its end.

use crate::element::{Cause, Fate, Passing};
use crate::meter::Meter;
use anabranch_base::Instant;
use anabranch_base::time::Duration;

/// An interval in which the link is down.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Down {
    /// The first instant at which it is down.
    pub from: Instant,
    /// The first instant at which it works again; [`Instant::MAX`] if never.
    pub until: Instant,
}

impl Down {
    /// Creates an interval that starts at `from` and lasts for `span`, or for ever.
    #[must_use]
    pub fn new(from: Instant, span: Option<Duration>) -> Self {
        Self { from, until: span.map_or(Instant::MAX, |span| from + span) }
    }

    /// Sorts these intervals and merges overlapping ones.
    #[must_use]
    pub fn joined(downs: &[Self]) -> Vec<Self> {
        let mut sorted = downs.to_vec();
        sorted.sort_unstable();
        let mut joined: Vec<Self> = Vec::with_capacity(sorted.len());
        for down in sorted {
            match joined.last_mut() {
                Some(last) if down.from <= last.until => last.until = last.until.max(down.until),
                _ => joined.push(down),
            }
        }
        joined
    }
}

/// Drops packets that are sent while the link is down.
#[derive(Clone, Debug)]
pub struct Outage {
    /// Sorted, without overlap.
    downs: Vec<Down>,
    /// The number of intervals that are over: packets come in order of time.
    over: usize,
}

impl Outage {
    /// Its position in the chain (see `table`): behind the serializer.
    pub(crate) const PLACE: u8 = 30;

    /// Creates an outage for these intervals, in any order; overlapping ones are merged.
    #[must_use]
    pub fn new(downs: &[Down]) -> Self {
        Self { downs: Down::joined(downs), over: 0 }
    }
}

impl<P> Passing<P> for Outage {
    fn pass(&mut self, at: Instant, _packet: &mut P, _meter: &mut Meter) -> Fate {
        while self.downs.get(self.over).is_some_and(|down| down.until <= at && down.until != Instant::MAX) {
            self.over += 1;
        }
        match self.downs.get(self.over) {
            Some(down) if down.from <= at => Fate::Lost(Cause::Outage),
            _ => Fate::Leaves(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::Blank;

    #[test]
    fn what_is_sent_while_the_link_is_down_is_lost() {
        let s = |seconds: u64| Instant::from_millis(seconds * 1000);
        let span = |seconds| Some(Duration::from_secs(seconds));
        // Given out of order; the second and third overlap.
        let downs = [Down::new(s(20), None), Down::new(s(5), span(2)), Down::new(s(6), span(3))];
        let mut outage = Outage::new(&downs);
        let mut meter = Meter::default();
        let lost: Vec<u64> = (0..25)
            .filter(|second| {
                let fate = outage.pass(s(*second), &mut Blank::new(1), &mut meter);
                fate == Fate::Lost(Cause::Outage)
            })
            .collect();
        assert_eq!(lost, [5, 6, 7, 8, 20, 21, 22, 23, 24]);
    }
}
