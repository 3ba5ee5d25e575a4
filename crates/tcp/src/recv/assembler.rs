//! Records which ranges of bytes beyond a gap have arrived.
//!
//! Keeps the position ranges ("runs") of data that arrived out of order. The runs are sorted, and a gap separates any
//! two of them. Remembers which runs received data most recently. The bytes are stored elsewhere.
//!
//! Implements RFC 2018 §4 (which blocks a SACK reports, and in which order).

use std::collections::VecDeque;
use std::ops::Range;

#[derive(Debug)]
pub(crate) struct Assembler {
    runs: VecDeque<Range<u64>>,
    /// The stream positions where the most recent out-of-order data began, newest first; `u64::MAX` if unused. Some
    /// positions may lie in runs that were removed since, and several may lie in the same run.
    recent: [u64; RECENT],
    /// The largest number of separate runs of data. Data that would need more runs is rejected, because each run costs
    /// memory.
    most_runs: usize,
}

const RECENT: usize = 8;

impl Assembler {
    pub(crate) fn new(most_runs: usize) -> Self {
        Self { runs: VecDeque::new(), recent: [u64::MAX; RECENT], most_runs }
    }

    /// Returns whether no data has arrived beyond a gap.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Returns the position after the last byte that arrived beyond a gap, or 0 if there is none.
    pub(crate) fn end(&self) -> u64 {
        self.runs.back().map_or(0, |run| run.end)
    }

    /// Returns the first part of `range` that has arrived before, if any.
    pub(crate) fn overlap(&self, range: &Range<u64>) -> Option<Range<u64>> {
        let run = self.runs.get(self.index_after(range.start))?;
        let (start, end) = (run.start.max(range.start), run.end.min(range.end));
        (start < end).then_some(start..end)
    }

    /// Adds `range`, which must not be empty, and calls `on_new` for each new part of it. If there would be too many
    /// separate runs of data, returns false and adds nothing.
    pub(crate) fn insert(&mut self, range: Range<u64>, mut on_new: impl FnMut(Range<u64>)) -> bool {
        assert!(range.start < range.end, "an empty range");
        // The runs of data that touch or overlap the range get the indices `first..last`.
        let first = self.runs.partition_point(|run| run.end < range.start);
        let mut last = first;
        let mut at = range.start;
        let (mut start, mut end) = (range.start, range.end);
        while let Some(run) = self.runs.get(last).filter(|run| run.start <= range.end) {
            if at < run.start {
                on_new(at..run.start);
            }
            at = at.max(run.end);
            start = start.min(run.start);
            end = end.max(run.end);
            last += 1;
        }
        if first == last && self.runs.len() >= self.most_runs {
            return false;
        }
        if at < range.end {
            on_new(at..range.end);
        }
        match last - first {
            0 => self.runs.insert(first, start..end),
            1 => self.runs[first] = start..end,
            _ => {
                self.runs[first] = start..end;
                self.runs.drain(first + 1..last);
            }
        }
        // RFC 2018 §4: `recent` begins with the newest run of data. If `recent` already has a position in this run,
        // that position is replaced.
        let same = self.recent.iter().position(|at| (start..end).contains(at));
        self.recent[..=same.unwrap_or(RECENT - 1)].rotate_right(1);
        self.recent[0] = range.start;
        true
    }

    /// Given that all data before `next` has arrived, removes the runs that continue it without a gap. Returns the
    /// position of the first gap.
    pub(crate) fn advance(&mut self, mut next: u64) -> u64 {
        while let Some(run) = self.runs.front().filter(|run| run.start <= next) {
            next = next.max(run.end);
            self.runs.pop_front();
        }
        next
    }

    /// Calls `tell` for at most `most` runs of data: first for the runs that arrived recently, newest first, and after
    /// them for all other runs.
    pub(crate) fn report(&self, most: usize, mut tell: impl FnMut(Range<u64>)) {
        let mut reported = [u64::MAX; RECENT];
        let mut count = 0;
        let recent = self.recent.iter().filter_map(|&position| {
            self.runs.get(self.index_after(position)).filter(|run| run.contains(&position))
        });
        for run in recent.chain(self.runs.iter()) {
            if count == most.min(RECENT) || count == self.runs.len() {
                return;
            }
            if !reported[..count].contains(&run.start) {
                reported[count] = run.start;
                count += 1;
                tell(run.clone());
            }
        }
    }

    /// Returns the index of the first run that ends after `position`.
    fn index_after(&self, position: u64) -> usize {
        self.runs.partition_point(|run| run.end <= position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::Rng;

    /// A model of the assembler, as the reference in the test, that records for each byte whether it has arrived.
    #[derive(Default)]
    struct Model {
        arrived: Vec<bool>,
    }

    impl Model {
        fn insert(&mut self, range: Range<u64>) -> Vec<u64> {
            let places = range.start as usize..range.end as usize;
            if self.arrived.len() < places.end {
                self.arrived.resize(places.end, false);
            }
            places
                .filter(|&place| !std::mem::replace(&mut self.arrived[place], true))
                .map(|p| p as u64)
                .collect()
        }

        fn contiguous(&self, next: u64) -> u64 {
            let held =
                self.arrived[(next as usize).min(self.arrived.len())..].iter().take_while(|&&held| held);
            next + held.count() as u64
        }
    }

    #[test]
    fn agrees_with_a_model_that_keeps_every_byte() {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let (mut assembler, mut model, mut next) = (Assembler::new(1000), Model::default(), 0);
            for step in 0..200 {
                let start = next + rng.below(60);
                let range = start..start + 1 + rng.below(25);
                let mut on_new = Vec::new();
                assert!(assembler.insert(range.clone(), |part| on_new.extend(part)));
                assert_eq!(on_new, model.insert(range.clone()), "seed {seed} step {step}");
                let mut blocks = Vec::new();
                assembler.report(4, |block| blocks.push(block));
                assert!(
                    blocks[0].start <= range.start && range.end <= blocks[0].end,
                    "the newest comes first"
                );
                for block in &blocks {
                    assert!(block.clone().all(|place| model.arrived[place as usize]));
                    assert!(
                        !model.arrived.get(block.end as usize).copied().unwrap_or(false),
                        "blocks are whole runs"
                    );
                }
                next = assembler.advance(next);
                assert_eq!(next, model.contiguous(next), "seed {seed} step {step}");
                assert!(
                    assembler.runs.iter().zip(assembler.runs.iter().skip(1)).all(|(a, b)| a.end < b.start)
                );
            }
        }
    }

    /// RFC 2018 §4: blocks are reported in the order of their last change, the newest change first. It does not matter
    /// how often the first block has grown.
    #[test]
    fn blocks_are_reported_in_the_order_of_their_last_change() {
        let mut assembler = Assembler::new(100);
        for start in [10, 50, 30] {
            assembler.insert(start..start + 5, |_| {});
        }
        for start in 70..90 {
            assembler.insert(start..start + 1, |_| {});
        }
        let mut blocks = Vec::new();
        assembler.report(4, |block| blocks.push(block));
        assert_eq!(blocks, [70..90, 30..35, 50..55, 10..15]);
    }

    #[test]
    fn the_number_of_runs_is_bounded() {
        let mut assembler = Assembler::new(3);
        for start in [10, 20, 30] {
            assert!(assembler.insert(start..start + 1, |_| {}));
        }
        assert!(!assembler.insert(40..41, |_| panic!("kept")));
        assert!(assembler.insert(31..33, |_| {}), "a run may still grow");
        assert_eq!(assembler.end(), 33);
    }
}
