//! Marks segments as lost: by counting, by time, on a timeout, or because they are too large.
//!
//! The callers decide which segments are lost. This module marks the segments, and maintains the position at which the
//! search for the next retransmission starts.
//!
//! Implements RFC 6675 §4 (IsLost), and the marking of segments in RFC 8985 §6.2 step 5 and §6.3.

use super::{AMBIGUOUS, LOST, RETRANSMITTED, SACKED, Scoreboard};
use anabranch_base::Instant;
use anabranch_congestion::Verdict;

impl Scoreboard {
    /// RFC 6675 §4, IsLost: marks a segment as lost if enough data above it is SACKed. Enough means `dupthresh`
    /// separate ranges, or more bytes than `dupthresh - 1` full segments hold.
    pub(crate) fn find_lost(&mut self, dupthresh: u32, mss: u64) {
        if self.sacked == 0 {
            return;
        }
        let enough = u64::from(dupthresh.saturating_sub(1)) * mss;
        let (mut bytes, mut runs, mut in_run) = (0, 0, false);
        let mut index = self.index_at_or_after(self.high_sacked);
        while index > 0 {
            index -= 1;
            let segment = self.segments[index];
            if segment.start <= self.lost_edge {
                return;
            }
            if !segment.has(SACKED) {
                in_run = false;
                continue;
            }
            bytes += segment.len();
            runs += u32::from(!in_run);
            in_run = true;
            if bytes > enough || runs >= dupthresh {
                self.lose_before(segment.start);
                return;
            }
        }
    }

    /// Returns the number of segments from the oldest to the highest one that SACK reports (fackets_out of Linux 2.6).
    pub(crate) fn fack_count(&self) -> usize {
        if self.sacked == 0 { 0 } else { self.index_at_or_after(self.high_sacked) }
    }

    /// Marks a segment before `point` as lost if it lies at least `dupthresh` segments before the highest SACKed
    /// segment (tcp_update_scoreboard of Linux 2.6).
    pub(crate) fn find_lost_by_fack(&mut self, dupthresh: u32, point: u64) {
        let lost = self.fack_count().saturating_sub(dupthresh as usize);
        let last = lost.checked_sub(1).and_then(|index| self.segments.get(index));
        if let Some(edge) = last.map(|segment| segment.end) {
            self.lose_before(edge.min(point));
        }
    }

    /// Marks the oldest segment as lost, unless it is SACKed, lost or retransmitted.
    pub(crate) fn lose_untouched_head(&mut self) {
        if self.segments.front().is_some_and(|head| !head.has(SACKED | LOST | RETRANSMITTED)) {
            self.mark_head_lost();
        }
    }

    /// Marks the oldest segment as lost, even if it has been retransmitted before.
    pub(crate) fn mark_head_lost(&mut self) {
        let Some(head) = self.segments.front().copied() else { return };
        if head.has(SACKED) {
            return;
        }
        self.mark(0, (head.marks | LOST) & !RETRANSMITTED);
        self.lost_edge = self.lost_edge.max(head.end);
        self.repair_from = self.una;
    }

    /// Returns whether the oldest segment is marked as lost and is not SACKed.
    pub(crate) fn head_is_lost(&self) -> bool {
        self.segments.front().is_some_and(|head| head.has(LOST) && !head.has(SACKED))
    }

    /// Returns whether the oldest segment has been retransmitted since it was marked as lost, and is not SACKed.
    pub(crate) fn head_is_retransmitted(&self) -> bool {
        self.segments.front().is_some_and(|head| head.has(RETRANSMITTED) && !head.has(SACKED))
    }

    /// Marks as lost all segments that are not SACKed, because the retransmission timer has expired.
    pub(crate) fn lose_all(&mut self) {
        // RFC 2018 §8, RFC 6675 §5.1: if the oldest segment was SACKed, the receiver has discarded data that it had
        // reported. In that case all SACK information is dropped.
        let reneged = self.segments.front().is_some_and(|head| head.has(SACKED));
        let keep = if reneged { AMBIGUOUS } else { AMBIGUOUS | SACKED };
        for index in 0..self.segments.len() {
            let marks = self.segments[index].marks & keep;
            self.mark(index, if marks & SACKED == 0 { marks | LOST } else { marks });
        }
        if reneged {
            self.high_sacked = self.una;
            self.recent_blocks = Default::default();
        }
        self.lost_edge = self.next;
        self.repair_from = self.una;
    }

    /// RFC 8985 §6.3: marks segments as lost after a retransmission timeout. These are the oldest segment, and each
    /// segment for whose sending time `overdue` returns true.
    pub(crate) fn lose_overdue(&mut self, overdue: impl Fn(Instant) -> bool) {
        if self.segments.front().is_some_and(|head| head.has(SACKED)) {
            return self.lose_all();
        }
        let mut edge = None;
        for index in 0..self.segments.len() {
            let segment = self.segments[index];
            if segment.has(SACKED) {
                continue;
            }
            if index == 0 || overdue(segment.at) {
                self.mark(index, segment.marks & AMBIGUOUS | LOST);
            } else if !segment.has(LOST) {
                edge = edge.or(Some(segment.start));
            }
        }
        self.lost_edge = edge.unwrap_or(self.next);
        self.repair_from = self.una;
    }

    /// RFC 8985 §6.2 step 5, for segments sent once: calls `judge` for each segment, oldest first, and marks the
    /// segment as lost if that is the verdict. Stops at the first segment that may still arrive, and returns the time
    /// at which that segment counts as lost.
    pub(crate) fn lose_by_time(&mut self, judge: impl Fn(Instant, u64) -> Verdict) -> Option<Instant> {
        let mut index = self.index_at_or_after(self.lost_edge);
        let from = self.lost_edge;
        let mut until = None;
        while let Some(segment) = self.segments.get(index).copied() {
            if !segment.has(SACKED | LOST) {
                match judge(segment.at, segment.end) {
                    Verdict::Lost => self.mark(index, segment.marks & AMBIGUOUS | LOST),
                    Verdict::Until(at) => {
                        until = Some(at);
                        break;
                    }
                    Verdict::Unknown => break,
                }
            }
            self.lost_edge = segment.end;
            index += 1;
        }
        if self.lost_edge > from {
            self.repair_from = self.repair_from.min(from);
        }
        until
    }

    /// Returns the end of the segment that starts at `start`, if the retransmission that was sent at the time `at` is
    /// still outstanding.
    pub(crate) fn outstanding_retransmission_end(&self, start: u64, at: Instant) -> Option<u64> {
        let segment = self.segments.get(self.index_at_or_after(start))?;
        let out =
            segment.start == start && segment.at == at && segment.has(RETRANSMITTED) && !segment.has(SACKED);
        out.then_some(segment.end)
    }

    /// Marks a segment as lost again, because its retransmission is lost. The segment starts at `start`.
    pub(crate) fn lose_retransmission(&mut self, start: u64) {
        let index = self.index_at_or_after(start);
        let Some(segment) = self.segments.get(index).copied() else { return };
        if segment.has(LOST) {
            self.mark(index, segment.marks & !RETRANSMITTED);
            self.repair_from = self.repair_from.min(segment.start);
        }
    }

    /// Marks segments larger than `size` bytes as lost, because they exceed the path MTU.
    pub(crate) fn lose_larger_than(&mut self, size: u64) {
        for index in 0..self.segments.len() {
            let segment = self.segments[index];
            if segment.len() > size && !segment.has(SACKED) {
                self.mark(index, (segment.marks | LOST) & !RETRANSMITTED);
            }
        }
        self.lost_edge = self.lost_edge.max(self.una);
        self.repair_from = self.una;
    }

    /// Removes the marks "lost" and "retransmitted" from all segments, because the losses were spurious.
    pub(crate) fn forgive(&mut self) {
        for index in 0..self.segments.len() {
            let marks = self.segments[index].marks & !(LOST | RETRANSMITTED);
            self.mark(index, marks);
        }
        self.lost_edge = self.una;
        self.repair_from = self.una;
    }

    /// Marks as lost every segment before `edge` that was not SACKed.
    fn lose_before(&mut self, edge: u64) {
        let mut index = self.index_at_or_after(self.lost_edge.min(edge));
        // A partial acknowledgement may have cut a segment at `lost_edge`. The rest of that segment starts exactly at
        // `lost_edge`, so the search by start position finds it.
        while let Some(segment) = self.segments.get(index).copied() {
            if segment.start >= edge {
                break;
            }
            if segment.marks & (SACKED | LOST) == 0 {
                self.mark(index, segment.marks | LOST);
            }
            index += 1;
        }
        self.repair_from = self.repair_from.min(self.lost_edge);
        self.lost_edge = self.lost_edge.max(edge);
    }
}
