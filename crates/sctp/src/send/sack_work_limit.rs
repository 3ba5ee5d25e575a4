//! Limits the work that the SACKs of one packet can cause.
//!
//! Tens of thousands of small chunks may be outstanding, and the gap blocks of a SACK may change the state of each of
//! them. The SACKs of one packet change the state of at most [`CHUNKS`] chunks. Gap blocks are only advisory (RFC 9260
//! §6.2.1), so further changes can wait for the next SACK, which repeats the gap blocks. Cumulative acknowledgements
//! are never deferred: each chunk is removed only once, so their total work is bounded by the number of chunks sent.

use std::ops::Range;

/// The largest number of chunks whose state the gap blocks in the SACKs of one packet can change. The number of chunks
/// examined to count miss indications has the same limit. An honest peer causes far fewer changes between two SACKs.
pub(super) const CHUNKS: u64 = 2_048;

/// The largest number of gap blocks that are compared for the SACKs of one packet. The blocks of a SACK are compared
/// with the blocks known before, and both count. The blocks of the first SACK are always compared.
const BLOCKS: usize = 8_192;

/// The work that the SACKs of the current packet have caused so far, as numbers of chunks and gap blocks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SackWorkLimit {
    /// Number of chunks whose state was changed by gap blocks.
    changed: u64,
    /// Number of chunks that were examined in order to count misses.
    pub(super) counted: u64,
    /// Number of gap blocks that were compared.
    blocks: usize,
}

impl SackWorkLimit {
    /// Returns the number of chunks whose state the SACKs of this packet may still change.
    pub(super) fn changes_left(&self) -> u64 {
        CHUNKS - self.changed.min(CHUNKS)
    }

    /// Counts `chunks` more changes of state.
    pub(super) fn change(&mut self, chunks: u64) {
        self.changed += chunks;
    }

    /// Returns whether `blocks` more gap blocks may be compared for the SACKs of the current packet. If so, adds
    /// `blocks` to the count. The first comparison is always allowed.
    pub(super) fn compares(&mut self, blocks: usize) -> bool {
        let may = self.blocks == 0 || self.blocks + blocks <= BLOCKS;
        if may {
            self.blocks += blocks.max(1);
        }
        may
    }
}

/// The maximum number of runs of acknowledged TSNs that are kept. A SACK in a packet of 1,500 bytes reports some 360
/// runs.
const RUNS: usize = 1_024;

/// Limits the changes that a SACK makes. `before` and `after` are the runs beyond `base` that the previous SACK and
/// this SACK acknowledge. Changes `after` so that it differs from `before` in at most `most` chunks: from some TSN
/// offset on, it becomes equal to `before`.
#[cold]
pub(super) fn trim(before: &[Range<u64>], after: &mut Vec<Range<u64>>, base: u64, most: u64) {
    let Some(cut) = cut(before, after, base, most) else {
        return;
    };
    let unchanged_from = before.partition_point(|run| run.end <= cut);
    let kept = after.partition_point(|run| run.start < cut);
    if kept + before.len() - unchanged_from + 1 > RUNS {
        // Earlier SACKs were applied only up to different TSN offsets, which has split the acknowledged chunks into too
        // many runs. So this SACK is ignored.
        after.clear();
        after.extend_from_slice(before);
        return;
    }
    after.truncate(kept);
    if let Some(last) = after.last_mut() {
        last.end = last.end.min(cut);
    }
    for run in &before[unchanged_from..] {
        let run = run.start.max(cut)..run.end;
        match after.last_mut() {
            Some(last) if last.end == run.start => last.end = run.end,
            _ => after.push(run),
        }
    }
}

/// Counts the chunks that are in only one of `before` and `after`. Returns the TSN offset after the `most`-th of these
/// chunks; `None` if there are at most `most`.
fn cut(before: &[Range<u64>], after: &[Range<u64>], base: u64, most: u64) -> Option<u64> {
    let (mut old, mut new) = (before.iter().peekable(), after.iter().peekable());
    let (mut at, mut differ) = (base, 0);
    loop {
        while old.next_if(|run| run.end <= at).is_some() {}
        while new.next_if(|run| run.end <= at).is_some() {}
        let edge = |run: Option<&&Range<u64>>| match run {
            Some(run) if run.start <= at => (true, run.end),
            Some(run) => (false, run.start),
            None => (false, u64::MAX),
        };
        let ((in_old, one), (in_new, other)) = (edge(old.peek()), edge(new.peek()));
        let next = one.min(other);
        if next == u64::MAX {
            return None;
        }
        if in_old != in_new {
            if differ + (next - at) > most {
                return Some(at + most - differ);
            }
            differ += next - at;
        }
        at = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::Rng;
    use std::collections::BTreeSet;

    fn runs(rng: &mut Rng) -> Vec<Range<u64>> {
        let mut runs = Vec::new();
        let mut at = 10;
        for _ in 0..rng.below(40) {
            let start = at + 1 + rng.below(400);
            at = start + 1 + rng.below(500);
            runs.push(start..at);
        }
        runs
    }

    fn set(runs: &[Range<u64>]) -> BTreeSet<u64> {
        runs.iter().cloned().flatten().collect()
    }

    /// `trim` limits the number of chunks whose state a SACK changes. The lowest of these chunks get the state that the
    /// SACK reports. All other chunks keep the state from before the SACK.
    #[test]
    fn a_bounded_number_differ_and_they_are_the_lowest() {
        let mut trimmed = 0;
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let (before, reported) = (runs(&mut rng), runs(&mut rng));
            let mut after = reported.clone();
            let most = if seed % 3 == 0 { rng.below(CHUNKS) } else { CHUNKS };
            trim(&before, &mut after, 10, most);
            assert!(after.windows(2).all(|pair| pair[0].end < pair[1].start), "seed {seed}: {after:?}");
            let (old, new, got) = (set(&before), set(&reported), set(&after));
            let differing: Vec<_> = old.symmetric_difference(&new).copied().collect();
            let taken: Vec<_> = old.symmetric_difference(&got).copied().collect();
            let changes = differing.len().min(most as usize);
            assert_eq!(taken, differing[..changes], "seed {seed}");
            trimmed += usize::from(differing.len() > changes);
        }
        assert!(trimmed > 20, "{trimmed}");
    }
}
