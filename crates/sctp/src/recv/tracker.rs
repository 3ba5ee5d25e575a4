//! Stores which TSNs have arrived.
//!
//! Keeps the cumulative TSN, the runs of TSNs after it, and the duplicates to report. This module knows nothing of
//! streams or messages. The *offset* of a TSN is its distance from the peer's initial TSN. Offsets start at 0 and never
//! wrap.
//!
//! Implements RFC 9260 §6.7.

use anabranch_wire::sctp::{GapBlock, Tsn};
use std::collections::VecDeque;
use std::ops::Range;

/// The largest distance of an accepted TSN from the cumulative TSN. A Gap Ack Block has 16-bit offsets, so it cannot
/// report a larger distance (RFC 9260 §3.3.4).
pub(crate) const SPAN: u64 = 65_535;

/// The maximum number of runs of consecutive TSNs beyond the cumulative TSN. One SACK can report far fewer runs. A
/// higher maximum would make inserting a TSN slow.
pub(crate) const RUNS: usize = 1_024;

/// The largest number of duplicates reported in one SACK.
const DUPLICATES: usize = 16;

/// The classification of a TSN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arrival {
    /// The TSN has not arrived before. Contains its TSN offset.
    New(u64),
    /// The TSN has arrived before.
    Duplicate,
    /// The TSN is too far ahead, or would start a new run although there are already [`RUNS`] runs.
    TooFar,
}

/// The set of TSNs that have arrived.
#[derive(Debug)]
pub(crate) struct Tracker {
    initial: u32,
    /// The lowest TSN offset that has not arrived.
    next: u64,
    /// Runs of TSN offsets that have arrived beyond `next`, ascending and never adjacent.
    runs: VecDeque<Range<u64>>,
    duplicates: Vec<Tsn>,
}

impl Tracker {
    pub(crate) fn new(initial: u32) -> Self {
        Self { initial, next: 0, runs: VecDeque::new(), duplicates: Vec::new() }
    }

    /// Returns the peer's initial TSN, before any renumbering.
    pub(crate) fn initial(&self) -> u32 {
        self.initial
    }

    /// Expects `next` as the peer's next TSN, because the TSNs were reset. The TSN offsets continue without a jump, and
    /// missing TSNs are no longer expected.
    pub(crate) fn renumber(&mut self, next: u32) {
        self.next = self.end();
        self.runs.clear();
        self.duplicates.clear();
        self.initial = next.wrapping_sub(self.next as u32);
    }

    /// Returns the lowest TSN offset that has not arrived.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Returns the Cumulative TSN Ack.
    #[inline]
    pub(crate) fn cumulative(&self) -> u32 {
        self.initial.wrapping_add(self.next as u32).wrapping_sub(1)
    }

    /// Returns whether a TSN is missing below a TSN that has arrived.
    #[inline]
    pub(crate) fn has_gaps(&self) -> bool {
        !self.runs.is_empty()
    }

    /// Returns one past the highest TSN offset that has arrived.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.runs.back().map_or(self.next, |run| run.end)
    }

    /// Returns whether no TSN is missing and `tsn` is the next TSN.
    #[inline]
    pub(crate) fn is_next(&self, tsn: u32) -> bool {
        self.runs.is_empty() && tsn == self.initial.wrapping_add(self.next as u32)
    }

    /// Classifies `tsn` without inserting it.
    #[inline]
    pub(crate) fn classify(&self, tsn: u32) -> Arrival {
        let expected = self.initial.wrapping_add(self.next as u32);
        let ahead = tsn.wrapping_sub(expected);
        if ahead == 0 {
            return Arrival::New(self.next);
        }
        // RFC 9260 §1.6: half of all TSNs are ahead of the expected TSN, the other half is behind it.
        if ahead >= 1 << 31 {
            return Arrival::Duplicate;
        }
        if u64::from(ahead) >= SPAN {
            return Arrival::TooFar;
        }
        let offset = self.next + u64::from(ahead);
        if self.contains(offset) {
            return Arrival::Duplicate;
        }
        if self.runs.len() >= RUNS && !self.touches(offset) {
            return Arrival::TooFar;
        }
        Arrival::New(offset)
    }

    /// Returns whether `offset` is adjacent to a run.
    #[cold]
    fn touches(&self, offset: u64) -> bool {
        let at = self.runs.partition_point(|run| run.end < offset);
        self.runs.get(at).is_some_and(|run| run.end == offset || run.start == offset + 1)
    }

    fn contains(&self, offset: u64) -> bool {
        match self.runs.back() {
            Some(last) if offset < last.end => {
                let at = self.runs.partition_point(|run| run.end <= offset);
                self.runs.get(at).is_some_and(|run| run.contains(&offset))
            }
            _ => false,
        }
    }

    /// Inserts a TSN offset that was classified as new.
    #[inline]
    pub(crate) fn insert(&mut self, offset: u64) {
        assert!(offset >= self.next, "a TSN arrived twice");
        if offset == self.next {
            self.next += 1;
            if let Some(first) = self.runs.front()
                && first.start == self.next
            {
                self.next = first.end;
                self.runs.pop_front();
            }
            return;
        }
        self.insert_gap(offset);
    }

    fn insert_gap(&mut self, offset: u64) {
        // A new run usually belongs at the end.
        let at = match self.runs.back() {
            Some(last) if offset >= last.end => self.runs.len(),
            _ => self.runs.partition_point(|run| run.end <= offset),
        };
        let joins_left = at > 0 && self.runs[at - 1].end == offset;
        let joins_right = at < self.runs.len() && self.runs[at].start == offset + 1;
        match (joins_left, joins_right) {
            (true, true) => {
                self.runs[at - 1].end = self.runs[at].end;
                self.runs.remove(at);
            }
            (true, false) => self.runs[at - 1].end = offset + 1,
            (false, true) => self.runs[at].start = offset,
            (false, false) => self.runs.insert(at, offset..offset + 1),
        }
    }

    /// Returns how far `tsn` is ahead of the Cumulative TSN Ack. Zero or negative if the TSN is acknowledged.
    pub(crate) fn ahead(&self, tsn: u32) -> i32 {
        tsn.wrapping_sub(self.cumulative()) as i32
    }

    /// RFC 3758 §3.6: counts all TSNs below `end` as arrived. The cumulative TSN also advances over the run right after
    /// `end`.
    pub(crate) fn skip_to(&mut self, end: u64) {
        self.next = self.next.max(end);
        while let Some(run) = self.runs.front().filter(|run| run.start <= self.next) {
            self.next = self.next.max(run.end);
            self.runs.pop_front();
        }
    }

    /// Records a duplicate for the next SACK.
    pub(crate) fn record_duplicate(&mut self, tsn: u32) {
        if self.duplicates.len() < DUPLICATES {
            self.duplicates.push(Tsn(tsn));
        }
    }

    pub(crate) fn duplicates(&self) -> &[Tsn] {
        &self.duplicates
    }

    pub(crate) fn clear_duplicates(&mut self) {
        self.duplicates.clear();
    }

    /// Returns the Gap Ack Blocks relative to the Cumulative TSN Ack, lowest first.
    pub(crate) fn gap_blocks(&self) -> impl Iterator<Item = GapBlock> {
        // A gap block gives TSNs as distances from the Cumulative TSN Ack, which has TSN offset `next - 1`. The
        // distance of TSN offset `o` is `o - next + 1`.
        let next = self.next;
        self.runs
            .iter()
            .map(move |run| GapBlock { start: (run.start - next + 1) as u16, end: (run.end - next) as u16 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::Rng;
    use std::collections::BTreeSet;

    #[test]
    fn agrees_with_a_plain_set() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            let initial = u32::MAX - 20;
            let mut tracker = Tracker::new(initial);
            let mut model = BTreeSet::new();
            for _ in 0..300 {
                let offset = rng.below(60) + model.len() as u64 / 4;
                let tsn = initial.wrapping_add(offset as u32);
                match tracker.classify(tsn) {
                    Arrival::New(o) => {
                        assert_eq!(o, offset);
                        assert!(model.insert(offset));
                        tracker.insert(o);
                    }
                    Arrival::Duplicate => assert!(model.contains(&offset)),
                    Arrival::TooFar => unreachable!(),
                }
                let next = (0..).find(|o| !model.contains(o)).expect("a hole");
                assert_eq!(tracker.next(), next);
                assert_eq!(tracker.end(), (*model.iter().last().expect("one") + 1).max(next));
                let mut covered = BTreeSet::new();
                for GapBlock { start, end } in tracker.gap_blocks() {
                    covered.extend((u64::from(start)..=u64::from(end)).map(|b| next + b - 1));
                }
                let beyond: BTreeSet<_> = model.iter().copied().filter(|&o| o > next).collect();
                assert_eq!(covered, beyond);
            }
        }
    }

    /// However scattered the arriving TSNs are, the number of runs is bounded. At the bound, TSNs that would start a
    /// new run are refused, but TSNs next to a run are accepted.
    #[test]
    fn runs_are_bounded() {
        let mut tracker = Tracker::new(0);
        for run in 0..RUNS as u64 {
            tracker.insert(2 * run + 10);
        }
        let last = 2 * RUNS as u32 + 8;
        assert_eq!(tracker.classify(last + 9), Arrival::TooFar);
        assert_eq!(tracker.classify(last + 1), Arrival::New(u64::from(last) + 1));
        assert_eq!(tracker.classify(9), Arrival::New(9));
        assert_eq!(tracker.classify(8), Arrival::TooFar);
        assert_eq!(tracker.classify(0), Arrival::New(0), "the lowest that is missing is always taken");
        assert_eq!(tracker.classify(11), Arrival::New(11));
        assert_eq!(tracker.classify(10), Arrival::Duplicate);
    }

    #[test]
    fn tsns_beyond_the_gap_block_range_are_too_far() {
        let tracker = Tracker::new(5);
        assert_eq!(tracker.classify(5 + 65_534), Arrival::New(65_534));
        assert_eq!(tracker.classify(5 + 65_535), Arrival::TooFar);
        assert_eq!(tracker.classify(4), Arrival::Duplicate);
    }
}
