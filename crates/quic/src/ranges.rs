//! A set of byte ranges within a stream.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of byte ranges that neither overlap nor touch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ranges {
    /// Maps the start of each range to its end.
    ends: BTreeMap<u64, u64>,
    total: u64,
}

impl Ranges {
    /// Returns the number of bytes in the set.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Adds a range. Returns the number of its bytes that were not in the set.
    pub(crate) fn add(&mut self, range: Range<u64>) -> u64 {
        // The fast path: most added ranges begin where the last range of the set ends.
        if let Some(mut last) = self.ends.last_entry()
            && *last.get() == range.start
            && !range.is_empty()
        {
            last.insert(range.end);
            let added = range.end - range.start;
            self.total += added;
            return added;
        }
        let before = self.total;
        self.insert(range);
        self.total - before
    }

    /// Adds a range. Returns the parts of the range that were not in the set, in ascending order.
    pub(crate) fn insert(&mut self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut fresh = Vec::new();
        let (mut begin, mut end, mut at) = (range.start, range.end, range.start);
        if range.is_empty() {
            return fresh;
        }
        if let Some((&before, &to)) = self.ends.range(..=range.start).next_back()
            && to >= range.start
        {
            begin = before;
            at = at.max(to);
        }
        let held: Vec<(u64, u64)> =
            self.ends.range(begin..=range.end).map(|(begin, end)| (*begin, *end)).collect();
        for (from, to) in held {
            if from > at {
                fresh.push(at..from);
            }
            at = at.max(to);
            end = end.max(to);
            self.ends.remove(&from);
        }
        if at < range.end {
            fresh.push(at..range.end);
        }
        self.total += fresh.iter().map(|piece| piece.end - piece.start).sum::<u64>();
        self.ends.insert(begin, end);
        fresh
    }

    /// Removes a range. Returns the number of its bytes that were in the set.
    pub(crate) fn remove(&mut self, range: &Range<u64>) -> u64 {
        let first = self.ends.range(..range.start).next_back().filter(|(_, end)| **end > range.start);
        let held: Vec<(u64, u64)> = first
            .into_iter()
            .chain(self.ends.range(range.start..range.end.max(range.start)))
            .map(|(begin, end)| (*begin, *end))
            .collect();
        let mut removed = 0;
        for (begin, end) in held {
            self.ends.remove(&begin);
            if begin < range.start {
                self.ends.insert(begin, range.start);
            }
            if end > range.end {
                self.ends.insert(range.end, end);
            }
            removed += end.min(range.end) - begin.max(range.start);
        }
        self.total -= removed;
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::Rng;

    #[test]
    fn a_removed_range_leaves_no_empty_one() {
        let mut ranges = Ranges::default();
        ranges.add(10..20);
        assert_eq!(ranges.remove(&(10..15)), 5);
        let mut rest = Ranges::default();
        rest.add(15..20);
        assert_eq!(ranges, rest);
        assert_eq!(ranges.remove(&(15..20)), 5);
        assert_eq!(ranges, Ranges::default());
    }

    #[test]
    fn ranges_do_what_single_bytes_would() {
        let mut rng = Rng::new(7);
        for _ in 0..300 {
            let (mut ranges, mut bytes) = (Ranges::default(), [false; 64]);
            for _ in 0..40 {
                let start = rng.below(60);
                let range = start..start + rng.below(64 - start + 1);
                let before = bytes;
                if rng.below(3) == 0 {
                    let there = range.clone().filter(|at| before[*at as usize]).count() as u64;
                    assert_eq!(ranges.remove(&range), there);
                    range.for_each(|at| bytes[at as usize] = false);
                } else {
                    let missing: Vec<u64> = range.clone().filter(|at| !before[*at as usize]).collect();
                    if rng.below(2) == 0 {
                        assert_eq!(ranges.add(range.clone()), missing.len() as u64);
                    } else {
                        let fresh: Vec<u64> = ranges.insert(range.clone()).into_iter().flatten().collect();
                        assert_eq!(fresh, missing);
                    }
                    range.for_each(|at| bytes[at as usize] = true);
                }
                assert_eq!(ranges.total(), bytes.iter().filter(|there| **there).count() as u64);
            }
        }
    }
}
