//! Processes an NR-SACK. The peer must never drop a chunk that it reports in an NR gap block, so this side frees the
//! chunk's bytes at once.
//!
//! After an NR gap block has acknowledged a chunk, the chunk's entry stays in `outstanding` until the chunk is
//! cumulatively acknowledged. A later SACK that does not report the chunk cannot put it back in flight, because its
//! bytes are freed.
//!
//! Implements draft-natarajan-tsvwg-sctp-nrsack §4 (the sender).

use super::SendHalf;
use super::outstanding::ChunkState;
use super::sack_outcome::{SackError, SackOutcome, Waiting};
use anabranch_base::Instant;
use anabranch_wire::sctp::NrSackView;
use std::ops::Range;

impl SendHalf {
    /// Processes an NR-SACK as [`on_sack`](Self::on_sack) processes a SACK.
    #[cold]
    pub(crate) fn on_nr_sack(
        &mut self,
        now: Instant,
        nr: &NrSackView<'_>,
        waiting: impl Fn(usize) -> Waiting,
        outcome: &mut SackOutcome,
    ) -> Result<(), SackError> {
        let told = nr.sack.gaps().len() + nr.nr_gaps().len();
        self.on_sack_of(now, &nr.sack, nr.all_gaps(), told, waiting, outcome)?;
        if nr.nr_gaps().len() == 0 {
            return Ok(());
        }
        let (base, end) = (self.outstanding.base(), self.outstanding.end());
        let mut freed = self.outstanding.nr_acked.take().unwrap_or_default();
        let known = freed.0.len();
        let mut lowest = base;
        for gap in nr.nr_gaps() {
            // NR gap blocks are ignored if they are out of order, overlap another block, or cover unsent chunks, as in
            // `take_gaps`.
            let (from, to) = (base + u64::from(gap.start).saturating_sub(1), base + u64::from(gap.end));
            if gap.start == 0 || from < lowest || from >= to || to > end {
                continue;
            }
            lowest = to;
            let mut at = from;
            while at < to {
                // Skips chunks whose bytes are already freed.
                let run = freed.0[..known].partition_point(|run| run.end <= at);
                let (start, stop) = freed.0[..known].get(run).map_or((to, to), |run| (run.start, run.end));
                for offset in at..start.min(to) {
                    self.free_chunk(offset);
                }
                if at < start {
                    freed.0.push(at..start.min(to));
                }
                at = stop.max(at + 1);
            }
        }
        if freed.0.len() > known {
            freed.0.sort_unstable_by_key(|run| run.start);
            let all = std::mem::take(&mut freed.0);
            all.into_iter().for_each(|run| join(&mut freed.0, run));
        }
        self.queue.release_now();
        self.outstanding.nr_acked = Some(freed);
        Ok(())
    }

    /// Returns the number of user bytes that NR gap blocks of earlier SACKs acknowledged and the last SACK does not
    /// report. The peer sent that SACK before these bytes arrived, and the network delayed it. So its a_rwnd does not
    /// account for these bytes.
    #[cold]
    pub(super) fn nr_acked_unreported(&self) -> u64 {
        let runs = &self.outstanding.runs;
        // Returns the end of the reported range that contains `offset`, if there is one.
        let told = |offset: u64| {
            let run = runs.get(runs.partition_point(|run| run.end <= offset));
            run.filter(|run| run.start <= offset).map(|run| run.end)
        };
        let freed = self.outstanding.nr_acked.iter().flat_map(|freed| freed.0.iter().cloned());
        freed
            .filter(|run| told(run.start).is_none_or(|end| end < run.end))
            .flatten()
            .filter(|&offset| told(offset).is_none())
            .filter_map(|offset| self.outstanding.get(offset))
            .filter(|entry| entry.state == ChunkState::Freed)
            .map(|entry| u64::from(entry.length))
            .sum()
    }

    /// Frees the bytes of a chunk in an NR gap block. Does nothing if the chunk was abandoned, or if its gap block was
    /// ignored.
    fn free_chunk(&mut self, offset: u64) {
        let Some(&entry) = self.outstanding.get(offset) else { return };
        if entry.state == ChunkState::Acked {
            self.outstanding.set(offset, ChunkState::Freed);
            self.queue.release_later(entry.message, entry.offset, entry.length.into());
        }
    }
}

/// Appends a run, and merges it with the last run if they touch.
fn join(runs: &mut Vec<Range<u64>>, run: Range<u64>) {
    match runs.last_mut() {
        Some(last) if last.end >= run.start => last.end = last.end.max(run.end),
        _ => runs.push(run),
    }
}
