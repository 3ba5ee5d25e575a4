//! Processes a SACK: finds chunks that are newly acknowledged, missing or reneged.
//!
//! Changes only the sending half and returns the effects on each path. The association updates the paths. The work is
//! proportional to the number of newly acknowledged chunks and of gap blocks.
//!
//! Implements RFC 9260 §6.2.1.

use super::loss::MissRule;
use super::outstanding::{ChunkState, Entry};
use super::sack_outcome::{Newest, PathAck, SackError, SackOutcome, Waiting};
use super::{SendHalf, loss, sack_work_limit};
use anabranch_base::Instant;
use anabranch_congestion::Delivered;
use anabranch_wire::sctp::{GapBlock, SackView, Tsn};

/// A run of chunks that a SACK without gaps has acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckedRun {
    /// The TSN offset of the run's first chunk.
    pub(crate) begin: u64,
    /// The total size of these chunks in bytes, including their headers.
    pub(crate) size: u64,
    /// The path that all of these chunks were sent to.
    pub(crate) path: u8,
}

impl SendHalf {
    /// Processes a SACK. For a path index, `waiting` returns the lowest TSN in flight on that path, and the chunk whose
    /// acknowledgement gives the next round-trip time. Both TSNs are offsets from the initial TSN.
    pub(crate) fn on_sack(
        &mut self,
        now: Instant,
        sack: &SackView<'_>,
        waiting: impl Fn(usize) -> Waiting,
        outcome: &mut SackOutcome,
    ) -> Result<(), SackError> {
        self.on_sack_of(now, sack, sack.gaps(), sack.gaps().len(), waiting, outcome)
    }

    /// Processes a SACK. `gaps` are its gap blocks, and `reported` is the number of gap blocks.
    #[inline]
    pub(super) fn on_sack_of(
        &mut self,
        now: Instant,
        sack: &SackView<'_>,
        gaps: impl Iterator<Item = GapBlock>,
        reported: usize,
        waiting: impl Fn(usize) -> Waiting,
        outcome: &mut SackOutcome,
    ) -> Result<(), SackError> {
        let count = self.begin(sack.cumulative, outcome)?;
        let before = self.queue.buffered_bytes();
        let mut newest = Newest::default();
        self.take_cumulative(now, count, &waiting, outcome, &mut newest);
        let blocks = reported + self.outstanding.runs.len();
        if blocks > 0 {
            if self.sack_work.compares(blocks) {
                self.take_gaps(now, gaps, &waiting, outcome, &mut newest);
                let highest = self.outstanding.runs.last().map_or(self.outstanding.base(), |run| run.end);
                self.horizon.record(reported, highest);
            }
        } else {
            self.horizon.clear();
        }
        let base = self.outstanding.base();
        self.recovery.on_cumulative(base);
        let mut marked = 0;
        // RFC 9260 §7.2.4: misses are counted for chunks below the highest newly acknowledged TSN. In fast recovery, if
        // the cumulative TSN ack point advances, misses are counted for chunks below the highest reported TSN.
        let highest = self.outstanding.runs.last().map_or(base, |run| run.end);
        let limit = if self.recovery.exit.is_some() && outcome.cumulative { highest } else { newest.end };
        if limit > base && !self.by_time {
            let outstanding = &mut self.outstanding;
            let rule = MissRule { threshold: self.dupthresh, again: self.fast_again };
            let counted = &mut self.sack_work.counted;
            let paths = &mut outcome.paths;
            marked = loss::count_misses(outstanding, limit, newest.sent_at, rule, counted, paths);
        }
        outcome.marked = marked > 0;
        outcome.spurious = self.count_spurious(sack);
        // RFC 9260 §6.2.1 D ii: the peer's window is a_rwnd minus the bytes still outstanding.
        let unreported = if self.outstanding.nr_acked.is_some() { self.nr_acked_unreported() } else { 0 };
        self.peer_window = u64::from(sack.window).saturating_sub(self.outstanding.in_flight() + unreported);
        self.on_answered(sack.window == 0);
        self.count_acked_probe(before.saturating_sub(self.queue.buffered_bytes()));
        Ok(())
    }

    /// Fast path for a SACK without gap blocks and duplicates. It applies only if each newly acknowledged chunk was
    /// sent once, and all of them on one path. Returns `None` if this is not the case, if any chunk is missing or
    /// marked for retransmission, or if loss recovery is in progress.
    #[inline]
    pub(crate) fn take_next(&mut self, cumulative: Tsn, window: u32) -> Option<AckedRun> {
        /// The largest number of newly acknowledged chunks on the fast path. The fast path scans the entries of these
        /// chunks twice, which is too slow for more chunks.
        const MAX_CHUNKS: usize = 256;
        let count = usize::try_from(self.outstanding.ahead(cumulative.0)).ok()?;
        if count > MAX_CHUNKS {
            return None;
        }
        let smooth =
            self.outstanding.has_no_gaps_or_losses() && self.recovery.is_over() && self.limits.is_none();
        if !smooth {
            return None;
        }
        let entries = self.outstanding.lowest(count);
        let path = entries.first()?.path;
        let alike = entries.iter().all(|entry| entry.path == path && !entry.was_retransmitted);
        if entries.len() < count || !alike {
            return None;
        }
        let (mut bytes, mut size) = (0, 0);
        for entry in entries {
            bytes += u64::from(entry.length);
            size += entry.size();
            self.queue.release_later(entry.message, entry.offset, entry.length.into());
        }
        let begin = self.outstanding.base();
        self.outstanding.drop_lowest(count, bytes);
        self.queue.release_now();
        self.outstanding.miss_floor = self.outstanding.miss_floor.max(self.outstanding.base());
        self.peer_window = u64::from(window).saturating_sub(self.outstanding.in_flight());
        Some(AckedRun { begin, size, path })
    }

    /// Processes the Cumulative TSN Ack of a SHUTDOWN.
    pub(crate) fn on_shutdown(
        &mut self,
        now: Instant,
        cumulative: Tsn,
        waiting: impl Fn(usize) -> Waiting,
        outcome: &mut SackOutcome,
    ) -> Result<(), SackError> {
        let count = self.begin(cumulative, outcome)?;
        let before = self.outstanding.in_flight();
        // RFC 9260 §3.3.8: a SHUTDOWN has no gap blocks. A chunk that a gap block of an earlier SACK has acknowledged
        // stays acknowledged.
        self.take_cumulative(now, count, &waiting, outcome, &mut Newest::default());
        self.recovery.on_cumulative(self.outstanding.base());
        // A SHUTDOWN has no a_rwnd. This side assumes that the peer's application has read the data that the SHUTDOWN
        // acknowledges. Otherwise the peer's window would shrink with every chunk sent, and only a window probe could
        // open it.
        self.peer_window += before - self.outstanding.in_flight();
        self.on_answered(false);
        Ok(())
    }

    /// Returns the number of chunks that `cumulative` newly acknowledges. Clears `outcome`.
    #[inline]
    fn begin(&self, cumulative: Tsn, outcome: &mut SackOutcome) -> Result<u64, SackError> {
        let ahead = self.outstanding.ahead(cumulative.0);
        if ahead < 0 {
            return Err(SackError::Old);
        }
        let count = u64::from(ahead.unsigned_abs());
        if count > self.outstanding.end() - self.outstanding.base() {
            return Err(SackError::NeverSent);
        }
        for path in &mut outcome.paths {
            *path = PathAck::default();
        }
        outcome.arrived.fill(Delivered::default());
        outcome.cumulative = count > 0;
        outcome.skipped = false;
        outcome.marked = false;
        outcome.spurious = 0;
        outcome.skips.clear();
        Ok(count)
    }

    fn take_cumulative(
        &mut self,
        now: Instant,
        count: u64,
        waiting: &impl Fn(usize) -> Waiting,
        outcome: &mut SackOutcome,
        newest: &mut Newest,
    ) {
        let mut left = count as usize;
        while left > 0 {
            let run = self.take_run(now, left, waiting, outcome, newest);
            if run > 0 {
                left -= run;
                continue;
            }
            let offset = self.outstanding.base();
            let Some(entry) = self.outstanding.pop() else {
                break;
            };
            left -= 1;
            match entry.state {
                ChunkState::Abandoned => {
                    outcome.skipped = true;
                    outcome.on_abandoned_skipped(offset, &entry);
                }
                ChunkState::Acked => {}
                // The bytes of this chunk were freed earlier, when an NR gap block acknowledged it.
                ChunkState::Freed => continue,
                _ => acknowledge(now, offset, &entry, false, waiting, outcome, newest),
            }
            self.queue.release_later(entry.message, entry.offset, entry.length.into());
        }
        self.queue.release_now();
        let base = self.outstanding.base();
        self.outstanding.miss_floor = self.outstanding.miss_floor.max(base);
        clip(&mut self.outstanding.runs, base);
        if let Some(freed) = &mut self.outstanding.nr_acked {
            clip(&mut freed.0, base);
        }
    }

    /// Handles the usual case, in which the lowest acknowledged chunks were in flight on one path. Removes these
    /// chunks, at most `most` of them, and returns their number. Returns 0 if the lowest chunk is not in flight.
    #[inline]
    fn take_run(
        &mut self,
        now: Instant,
        most: usize,
        waiting: &impl Fn(usize) -> Waiting,
        outcome: &mut SackOutcome,
        newest: &mut Newest,
    ) -> usize {
        let base = self.outstanding.base();
        let entries = self.outstanding.lowest(most);
        let Some(path) = entries.first().map(|entry| entry.path) else {
            return 0;
        };
        let (mut run, mut bytes, mut size) = (0, 0, 0);
        for entry in entries {
            if entry.state != ChunkState::InFlight || entry.path != path {
                break;
            }
            run += 1;
            bytes += u64::from(entry.length);
            size += entry.size();
            newest.sent_at = newest.sent_at.max(entry.sent_at);
            self.queue.release_later(entry.message, entry.offset, entry.length.into());
        }
        if run == 0 {
            return 0;
        }
        newest.end = newest.end.max(base + run as u64);
        if let Some(arrived) = outcome.arrived.get_mut(usize::from(path)) {
            for (entry, end) in entries[..run].iter().zip(base + 1..) {
                arrived.add(entry.sent_at, end, entry.was_retransmitted);
            }
        }
        if let Some(ack) = outcome.paths.get_mut(usize::from(path)) {
            let expected = waiting(usize::from(path));
            ack.acked += size;
            ack.acked_in_flight += size;
            ack.earliest |= base <= expected.earliest;
            // RFC 9260 §6.3.1 C4, C5: as in `acknowledge`, a retransmitted chunk gives no round-trip sample.
            if let Some((timed, at)) = expected.timed
                && let Some(entry) = timed.checked_sub(base).and_then(|i| entries[..run].get(i as usize))
            {
                ack.timed = true;
                if !entry.was_retransmitted {
                    ack.sample = Some(now - at);
                }
            }
        }
        self.outstanding.drop_lowest(run, bytes);
        run
    }

    /// Compares the gap blocks of a SACK, run by run, with the runs that earlier SACKs acknowledged.
    fn take_gaps(
        &mut self,
        now: Instant,
        gaps: impl Iterator<Item = GapBlock>,
        waiting: &impl Fn(usize) -> Waiting,
        outcome: &mut SackOutcome,
        newest: &mut Newest,
    ) {
        let (base, end) = (self.outstanding.base(), self.outstanding.end());
        let before = std::mem::take(&mut self.outstanding.runs);
        let mut after = std::mem::take(&mut outcome.spare_runs);
        after.clear();
        for gap in gaps {
            // Block offsets are relative to the cumulative TSN, which is `base - 1`. Blocks that are out of order,
            // overlap, or lie beyond the last sent chunk are ignored.
            let (from, to) = (base + u64::from(gap.start).saturating_sub(1), base + u64::from(gap.end));
            let lowest = after.last().map_or(base, |run: &std::ops::Range<u64>| run.end);
            if gap.start == 0 || from < lowest || from >= to || to > end {
                continue;
            }
            match after.last_mut() {
                Some(last) if last.end == from => last.end = to,
                _ => after.push(from..to),
            }
        }
        let most = self.sack_work.changes_left();
        if end - base > most {
            sack_work_limit::trim(&before, &mut after, base, most);
        }
        // Merges two sorted lists of runs. Chunks that are only in the new list are newly acknowledged, and chunks that
        // are only in the old list were reneged.
        let (mut old, mut new) = (0, 0);
        let mut at = base;
        while old < before.len() || new < after.len() {
            while before.get(old).is_some_and(|run| run.end <= at) {
                old += 1;
            }
            while after.get(new).is_some_and(|run| run.end <= at) {
                new += 1;
            }
            let in_old = before.get(old).is_some_and(|run| run.start <= at);
            let in_new = after.get(new).is_some_and(|run| run.start <= at);
            let edge = |runs: &[std::ops::Range<u64>], i: usize, inside: bool| {
                runs.get(i).map_or(u64::MAX, |run| if inside { run.end } else { run.start })
            };
            let next = edge(&before, old, in_old).min(edge(&after, new, in_new));
            if next == u64::MAX {
                break;
            }
            if in_old != in_new {
                self.sack_work.change(next - at);
            }
            match (in_old, in_new) {
                (false, true) => self.gap_acked(now, at..next, waiting, outcome, newest),
                (true, false) => self.renege(at..next, outcome),
                _ => {}
            }
            at = next;
        }
        self.outstanding.runs = after;
        outcome.spare_runs = before;
    }

    fn gap_acked(
        &mut self,
        now: Instant,
        range: std::ops::Range<u64>,
        waiting: &impl Fn(usize) -> Waiting,
        outcome: &mut SackOutcome,
        newest: &mut Newest,
    ) {
        for offset in range {
            let Some(&entry) = self.outstanding.get(offset) else {
                return;
            };
            if entry.state == ChunkState::Abandoned {
                outcome.on_abandoned_arrived(&entry);
                if let Some(entry) = self.outstanding.at(offset) {
                    entry.fast = true;
                }
                continue;
            }
            if matches!(entry.state, ChunkState::Acked | ChunkState::Freed) {
                continue;
            }
            let was_in_flight = entry.state == ChunkState::InFlight;
            acknowledge(now, offset, &entry, was_in_flight, waiting, outcome, newest);
            self.outstanding.set(offset, ChunkState::Acked);
        }
    }

    /// RFC 9260 §6.2.1 D iii: the peer has dropped chunks that it had acknowledged. These chunks are outstanding again,
    /// and one more miss is counted for each.
    fn renege(&mut self, range: std::ops::Range<u64>, outcome: &mut SackOutcome) {
        for offset in range {
            let Some(entry) = self.outstanding.at(offset) else {
                return;
            };
            if matches!(entry.state, ChunkState::Abandoned | ChunkState::Freed) {
                continue;
            }
            entry.miss_indications = entry.miss_indications.saturating_add(1);
            let (size, path) = (entry.size(), usize::from(entry.path));
            self.outstanding.miss_floor = self.outstanding.miss_floor.min(offset);
            self.outstanding.set(offset, ChunkState::InFlight);
            if let Some(path) = outcome.paths.get_mut(path) {
                path.reneged += size;
            }
        }
    }

    /// Counts reported duplicates of retransmitted chunks. Each duplicate shows that one transmission was unnecessary.
    fn count_spurious(&mut self, sack: &SackView<'_>) -> u64 {
        let mut spurious = 0;
        // Examines at most 64 duplicates, because each TSN is searched for in the list of recent retransmissions.
        // Honest peers do not report more.
        for tsn in sack.duplicates().take(64) {
            spurious += u64::from(self.outstanding.take_retransmitted(tsn.0));
        }
        spurious
    }
}

/// Removes the parts of the runs that lie below `base`.
fn clip(runs: &mut Vec<std::ops::Range<u64>>, base: u64) {
    if runs.first().is_some_and(|run| run.start < base) {
        let gone = runs.partition_point(|run| run.end <= base);
        runs.drain(..gone);
        if let Some(first) = runs.first_mut() {
            first.start = first.start.max(base);
        }
    }
}

/// Records that the chunk at `offset` is acknowledged for the first time.
#[inline]
fn acknowledge(
    now: Instant,
    offset: u64,
    entry: &Entry,
    was_in_flight: bool,
    waiting: &impl Fn(usize) -> Waiting,
    outcome: &mut SackOutcome,
    newest: &mut Newest,
) {
    newest.record(offset + 1, entry.sent_at);
    if let Some(arrived) = outcome.arrived.get_mut(usize::from(entry.path)) {
        arrived.add(entry.sent_at, offset + 1, entry.was_retransmitted);
    }
    let Some(ack) = outcome.paths.get_mut(usize::from(entry.path)) else {
        return;
    };
    let size = entry.size();
    ack.acked += size;
    let expected = waiting(usize::from(entry.path));
    if was_in_flight {
        ack.acked_in_flight += size;
        ack.earliest |= offset <= expected.earliest;
    }
    // RFC 9260 §6.3.1 C4, C5: at most one chunk per round trip is measured, and never a retransmitted chunk.
    if let Some((timed, at)) = expected.timed
        && timed == offset
    {
        ack.timed = true;
        if !entry.was_retransmitted {
            ack.sample = Some(now - at);
        }
    }
}
