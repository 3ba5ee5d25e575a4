//! Outages: times at which the link is down.
//!
//! This element follows the serializer. The router therefore continues to send while the link is down, and a packet is
//! lost if its serialization ends during the outage. A packet that was already propagating when the outage began still
//! arrives. An interval includes its start and excludes its end.

use crate::element::{Fate, ImmediateElement};
use crate::meter::{DropCause, Meter};
use anabranch_base::Instant;
use anabranch_base::time::Duration;

/// An interval in which the link is down.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Down {
    /// The first instant at which the link is down.
    pub from: Instant,
    /// The first instant at which the link works again; [`Instant::MAX`] if it never does.
    pub until: Instant,
}

impl Down {
    /// Creates an interval that starts at `from` and lasts for `span`, or for ever if `span` is `None`.
    #[must_use]
    pub fn new(from: Instant, span: Option<Duration>) -> Self {
        Self { from, until: span.map_or(Instant::MAX, |span| from + span) }
    }

    /// Returns the intervals in order of time, with overlapping ones merged.
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

/// An element that drops packets that are sent while the link is down.
#[derive(Clone, Debug)]
pub struct Outage {
    /// The intervals, in order of time and without overlap.
    downs: Vec<Down>,
    /// The number of intervals that have ended. They are not checked again, because packets arrive in order of time.
    ended: usize,
}

impl Outage {
    /// The position of the element in the chain (see the module `table`): behind the serializer.
    pub(crate) const PLACE: u8 = 30;

    /// Creates an outage for these intervals, which may be in any order and may overlap.
    #[must_use]
    pub fn new(downs: &[Down]) -> Self {
        Self { downs: Down::joined(downs), ended: 0 }
    }
}

impl<P> ImmediateElement<P> for Outage {
    fn pass(&mut self, at: Instant, _packet: &mut P, _meter: &mut Meter) -> Fate {
        while self.downs.get(self.ended).is_some_and(|down| down.until <= at && down.until != Instant::MAX) {
            self.ended += 1;
        }
        match self.downs.get(self.ended) {
            Some(down) if down.from <= at => Fate::Lost(DropCause::Outage),
            _ => Fate::Leaves(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::TestPacket;

    #[test]
    fn packets_sent_while_the_link_is_down_are_lost() {
        let s = |seconds: u64| Instant::from_millis(seconds * 1000);
        let span = |seconds| Some(Duration::from_secs(seconds));
        // The intervals are given out of order, and those that begin at 5 s and 6 s overlap.
        let downs = [Down::new(s(20), None), Down::new(s(5), span(2)), Down::new(s(6), span(3))];
        let mut outage = Outage::new(&downs);
        let mut meter = Meter::default();
        let lost: Vec<u64> = (0..25)
            .filter(|second| {
                let fate = outage.pass(s(*second), &mut TestPacket::new(1), &mut meter);
                fate == Fate::Lost(DropCause::Outage)
            })
            .collect();
        assert_eq!(lost, [5, 6, 7, 8, 20, 21, 22, 23, 24]);
    }
}
