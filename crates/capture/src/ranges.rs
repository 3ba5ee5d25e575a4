//! A set of integers that is stored as ranges, for example the TSNs captured so far. Integers may be added in any
//! order.
//!
//! The crate `quic` has its own set of ranges, for the bytes of a stream. That set does not limit the number of its
//! ranges, and its `insert` returns the parts that are new.

use std::collections::BTreeMap;

/// The maximum number of ranges. If another range is added, the lowest two ranges are joined.
const MAX: usize = 4_096;

/// A set of integers. The map has the end of each range (exclusive) by its start. Ranges never touch or overlap.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges {
    ends: BTreeMap<i64, i64>,
}

impl Ranges {
    /// Adds `start..end`.
    pub fn insert(&mut self, start: i64, end: i64) {
        if start >= end {
            return;
        }
        let (mut start, mut end) = (start, end);
        while let Some((&other, &until)) =
            self.ends.range(..=end).next_back().filter(|(_, until)| **until >= start)
        {
            self.ends.remove(&other);
            start = start.min(other);
            end = end.max(until);
        }
        self.ends.insert(start, end);
        if self.ends.len() > MAX
            && let (Some((first, _)), Some((second, until))) = (self.ends.pop_first(), self.ends.pop_first())
        {
            debug_assert!(first < second);
            self.ends.insert(first, until);
        }
    }

    /// Returns how many integers of `start..end` are not in the set.
    pub fn absent(&self, start: i64, end: i64) -> i64 {
        let (mut absent, mut from) = (0, start);
        let before = self.ends.range(..start).next_back();
        for (&first, &until) in before.into_iter().chain(self.ends.range(start..end)) {
            absent += (first - from).max(0);
            from = from.max(until);
        }
        absent + (end - from).max(0)
    }

    /// Returns whether the set contains all of `start..end`.
    pub fn covers(&self, start: i64, end: i64) -> bool {
        self.ends.range(..=start).next_back().is_some_and(|(_, &until)| until >= end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::Rng;
    use std::collections::BTreeSet;

    #[test]
    fn ranges_match_a_plain_set_of_integers() {
        let mut rng = Rng::new(1);
        for _ in 0..200 {
            let (mut ranges, mut model) = (Ranges::default(), BTreeSet::new());
            for _ in 0..30 {
                let start = rng.below(60) as i64;
                let end = start + rng.below(8) as i64;
                ranges.insert(start, end);
                model.extend(start..end);
                let (from, to) = (rng.below(60) as i64, rng.below(66) as i64);
                let (from, to) = (from.min(to), from.max(to) + 1);
                assert_eq!(ranges.covers(from, to), (from..to).all(|n| model.contains(&n)));
                assert_eq!(
                    ranges.absent(from, to) as usize,
                    (from..to).filter(|n| !model.contains(n)).count()
                );
            }
        }
    }
}
