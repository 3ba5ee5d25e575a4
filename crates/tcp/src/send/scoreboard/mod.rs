//! The scoreboard: one record for each outstanding segment, oldest first.
//!
//! Owns the state of each segment (SACKed, lost, retransmitted) and the byte counts derived from these states. The
//! counts are kept up to date, so that no acknowledgement needs a pass over the whole window. Windows and timers belong
//! to other modules.
//!
//! [`loss`] marks segments as lost.
//!
//! Implements RFC 6675 §3 and §4 (scoreboard, SetPipe, the search of NextSeg).

mod loss;

use anabranch_base::Instant;
use anabranch_congestion::{Delivered, NewlyLost};
use std::collections::VecDeque;
use std::ops::Range;

/// An outstanding segment.
#[derive(Clone, Copy, Debug)]
struct SentSegment {
    start: u64,
    end: u64,
    /// The time when the segment was last sent.
    at: Instant,
    marks: u8,
}

/// Mark: the receiver has reported the segment by SACK.
const SACKED: u8 = 1;
/// Mark: the segment is considered lost.
const LOST: u8 = 2;
/// Mark: the segment was retransmitted after it was marked as lost (RFC 6675: at or below HighRxt).
const RETRANSMITTED: u8 = 4;
/// Mark: the segment was retransmitted at least once, so it gives no RTT sample (Karn's algorithm).
const AMBIGUOUS: u8 = 8;

impl SentSegment {
    #[inline]
    const fn len(&self) -> u64 {
        self.end - self.start
    }

    #[inline]
    const fn has(&self, mark: u8) -> bool {
        self.marks & mark != 0
    }
}

/// The segments that a cumulative acknowledgement removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Freed {
    /// The number of bytes by which the cumulative acknowledgement advanced.
    pub(crate) bytes: u64,
    /// The time when the oldest of the segments was sent, for an RTT sample. Segments that were retransmitted or SACKed
    /// do not count.
    pub(crate) sent_at: Option<Instant>,
    /// Whether at least one of the segments had been retransmitted.
    pub(crate) ambiguous: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Scoreboard {
    segments: VecDeque<SentSegment>,
    una: u64,
    next: u64,
    /// The number of bytes or segments reported by SACK. The unit is a segment if the window counts segments, otherwise
    /// a byte.
    sacked: u64,
    /// The number of units (segments or bytes) that are lost and not SACKed.
    lost: u64,
    /// The number of units (segments or bytes) that were retransmitted and not SACKed.
    retransmitted: u64,
    /// The number of units (segments or bytes) that are lost and have been neither retransmitted nor SACKed.
    missing: u64,
    /// The end of the highest SACKed segment.
    high_sacked: u64,
    /// The position before which every segment is SACKed or lost.
    lost_edge: u64,
    /// The position before which every lost segment has been retransmitted.
    repair_from: u64,
    /// The SACK blocks that were processed last. They are kept because receivers repeat blocks.
    recent_blocks: [(u64, u64); 4],
    /// Whether deliveries are recorded in `delivered`.
    records_deliveries: bool,
    /// The segments delivered since the last call of [`take_delivered`](Self::take_delivered).
    delivered: Delivered,
    /// The segments marked as lost since the last call of [`take_lost`](Self::take_lost).
    newly_lost: NewlyLost,
    /// If the congestion window is counted in segments, each segment occupies this number of bytes of the window. 0 if
    /// the window is counted in bytes, in which each segment occupies its length.
    segment_size: u64,
    /// Running totals. `arrived` counts the units reported as delivered, by SACK or by a cumulative acknowledgement.
    /// `losses` counts the units marked as lost, both originals and retransmissions.
    arrived: u64,
    losses: u64,
}

impl Scoreboard {
    /// Creates a scoreboard on which every segment occupies `segment_size` bytes of the congestion window. If
    /// `segment_size` is 0, each segment counts with its real length.
    pub(crate) fn counting(segment_size: u64) -> Self {
        Self { segment_size, ..Self::default() }
    }

    /// Sets the number of bytes that each segment occupies in the congestion window. Does nothing if segments count
    /// with their real lengths.
    pub(crate) fn set_segment_size(&mut self, segment_size: u64) {
        if self.segment_size > 0 {
            self.segment_size = segment_size;
        }
    }

    /// Converts units to bytes. A unit is a segment if the window counts segments, otherwise a byte.
    #[inline]
    fn bytes(&self, units: u64) -> u64 {
        if self.segment_size > 0 { units * self.segment_size } else { units }
    }

    /// Returns the size of a segment in units: 1 if a unit is a segment, the segment's length if a unit is a byte.
    #[inline]
    fn weight(&self, segment: &SentSegment) -> u64 {
        if self.segment_size > 0 { 1 } else { segment.len() }
    }

    /// Returns the number of units sent and not cumulatively acknowledged. A unit is a segment or a byte.
    #[inline]
    fn out(&self) -> u64 {
        if self.segment_size > 0 { self.segments.len() as u64 } else { self.flight() }
    }

    /// Returns the number of bytes sent and not cumulatively acknowledged. If the congestion window is counted in
    /// segments, every segment is treated as a full segment.
    #[inline]
    pub(crate) fn load(&self) -> u64 {
        self.bytes(self.out())
    }

    /// Returns the number of bytes that SACKs and cumulative acknowledgements have reported as delivered. If the
    /// congestion window is counted in segments, every segment is treated as a full segment.
    #[inline]
    pub(crate) fn arrived(&self) -> u64 {
        self.bytes(self.arrived)
    }

    /// Returns the running total of units (segments or bytes) marked as lost.
    #[inline]
    pub(crate) fn losses(&self) -> u64 {
        self.losses
    }

    /// Starts recording deliveries, so that [`take_delivered`](Self::take_delivered) can report them.
    pub(crate) fn record_deliveries(&mut self) {
        self.records_deliveries = true;
    }

    /// Returns the segments delivered since the last call.
    #[inline]
    pub(crate) fn take_delivered(&mut self) -> Delivered {
        std::mem::take(&mut self.delivered)
    }

    /// Returns the segments marked as lost since the last call.
    #[inline]
    pub(crate) fn take_lost(&mut self) -> NewlyLost {
        std::mem::take(&mut self.newly_lost)
    }

    /// Returns the segments delivered since the last call of [`take_delivered`](Self::take_delivered), and keeps the
    /// record of them.
    #[inline]
    pub(crate) fn fresh(&self) -> &Delivered {
        &self.delivered
    }

    /// Returns the number of bytes reported by SACK.
    pub(crate) fn sacked(&self) -> u64 {
        self.bytes(self.sacked)
    }

    /// Returns whether some segment is lost and has not been retransmitted.
    pub(crate) fn has_missing(&self) -> bool {
        self.missing > 0
    }

    /// Returns the oldest position that is not cumulatively acknowledged.
    #[inline]
    pub(crate) fn una(&self) -> u64 {
        self.una
    }

    /// Returns the position after the highest position sent.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// RFC 5681 §2, FlightSize: returns the number of bytes sent and not cumulatively acknowledged.
    #[inline]
    pub(crate) fn flight(&self) -> u64 {
        self.next - self.una
    }

    /// Returns the position before which every segment is SACKed or lost.
    #[inline]
    pub(crate) fn lost_edge(&self) -> u64 {
        self.lost_edge
    }

    /// RFC 6675 §4, SetPipe: returns an estimate of the number of bytes in the network.
    #[inline]
    pub(crate) fn pipe(&self) -> u64 {
        self.bytes(self.out() - self.sacked - self.lost + self.retransmitted)
    }

    /// Records that a segment of new data was sent at the time `at`. The segment ends at the position `end`.
    #[inline]
    pub(crate) fn push(&mut self, end: u64, at: Instant) {
        assert!(end > self.next, "an empty segment");
        self.segments.push_back(SentSegment { start: self.next, end, at, marks: 0 });
        self.next = end;
    }

    /// Removes all data before `position`, which is acknowledged. The data may include a window probe, for which there
    /// is no record.
    #[inline]
    pub(crate) fn acknowledge(&mut self, position: u64) -> Freed {
        let mut freed = Freed { bytes: position - self.una, ..Freed::default() };
        while let Some(front) = self.segments.front_mut() {
            if front.start >= position {
                break;
            }
            let whole = front.end <= position;
            let gone = front.end.min(position) - front.start;
            let marks = front.marks;
            // If the window is counted in segments, a segment counts as acknowledged only when all its bytes are
            // acknowledged.
            let units = if self.segment_size == 0 { gone } else { u64::from(whole) };
            if marks & SACKED == 0 {
                self.arrived += units;
            }
            if marks & AMBIGUOUS != 0 {
                freed.ambiguous = true;
            } else if marks & SACKED == 0 && freed.sent_at.is_none() {
                freed.sent_at = Some(front.at);
            }
            if self.records_deliveries && marks & SACKED == 0 {
                let (at, end) = (front.at, front.end);
                self.delivered.add(at, end, marks & AMBIGUOUS != 0);
            }
            if whole {
                self.segments.pop_front();
            } else {
                front.start = position;
            }
            if marks != 0 {
                self.discount(marks, units);
            }
        }
        if freed.ambiguous {
            freed.sent_at = None;
        }
        self.una = position;
        self.next = self.next.max(position);
        self.lost_edge = self.lost_edge.max(position);
        self.repair_from = self.repair_from.max(position);
        self.high_sacked = self.high_sacked.max(position);
        freed
    }

    /// Processes the SACK block `start..end`. Returns the number of bytes that the block newly reports.
    pub(crate) fn sack(&mut self, start: u64, end: u64) -> u64 {
        let (start, end) = (start.max(self.una), end.min(self.next));
        if start >= end {
            return 0;
        }
        // If a block in `recent_blocks` lies inside the new block, its segments are already marked. So only the rest of
        // the new block is processed.
        let known =
            self.recent_blocks.iter().copied().find(|&(from, to)| from >= start && to <= end && from < to);
        let newly = match known {
            Some((from, to)) => {
                // If the earlier block ended inside a segment, that segment is not marked yet. So processing resumes at
                // the start of that segment.
                let cut = self.index_at_or_after(to).saturating_sub(1);
                let begun = self.segments.get(cut).filter(|s| s.end > to && s.start >= start);
                let resume = begun.map_or(to, |segment| segment.start.min(to));
                self.sack_range(start, from) + self.sack_range(resume, end)
            }
            None => self.sack_range(start, end),
        };
        if let Some((from, to)) = known
            && let Some(place) = self.recent_blocks.iter_mut().find(|block| **block == (from, to))
        {
            *place = (start, end);
        } else {
            self.recent_blocks.rotate_right(1);
            self.recent_blocks[0] = (start, end);
        }
        newly
    }

    fn sack_range(&mut self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        let mut newly = 0;
        let mut index = self.index_at_or_after(start);
        while index < self.segments.len() && self.segments[index].end <= end {
            let segment = self.segments[index];
            if !segment.has(SACKED) {
                newly += segment.len();
                self.arrived += self.weight(&segment);
                if self.records_deliveries {
                    self.delivered.add(segment.at, segment.end, segment.has(AMBIGUOUS));
                }
                self.mark(index, segment.marks | SACKED);
                self.high_sacked = self.high_sacked.max(segment.end);
            }
            index += 1;
        }
        newly
    }

    /// RFC 6675 §4, NextSeg rule 1: returns the first lost segment that has not been retransmitted, limited to its
    /// first `mss` bytes.
    pub(crate) fn next_lost(&mut self, mss: u64) -> Option<Range<u64>> {
        if self.missing == 0 {
            return None;
        }
        let mut index = self.index_at_or_after(self.repair_from);
        while let Some(segment) = self.segments.get(index).copied() {
            if segment.marks & (SACKED | LOST | RETRANSMITTED) == LOST {
                self.repair_from = segment.start;
                return Some(segment.start..segment.end.min(segment.start + mss));
            }
            index += 1;
        }
        self.repair_from = self.next;
        None
    }

    /// RFC 6675 §4, NextSeg rule 3: returns the first segment that is neither SACKed nor retransmitted and lies below
    /// the highest SACKed segment.
    pub(crate) fn next_unsacked(&self, mss: u64) -> Option<Range<u64>> {
        // The search starts at `lost_edge`: all earlier segments are SACKed or lost, and NextSeg rule 1 has
        // retransmitted the lost ones.
        self.segments
            .iter()
            .skip(self.index_at_or_after(self.lost_edge))
            .take_while(|segment| segment.start < self.high_sacked)
            .find(|segment| !segment.has(SACKED | RETRANSMITTED))
            .map(|segment| segment.start..segment.end.min(segment.start + mss))
    }

    /// RFC 6675 §4, NextSeg rule 4: returns the highest outstanding segment that is not SACKed. Returns `None` if that
    /// segment has already been retransmitted. Read literally, the rule would send that segment twice in a row.
    pub(crate) fn last_unsacked(&self, mss: u64) -> Option<Range<u64>> {
        let segment = self.segments.iter().rev().find(|segment| !segment.has(SACKED))?;
        if segment.has(RETRANSMITTED) {
            return None;
        }
        Some(segment.end.saturating_sub(mss).max(segment.start)..segment.end)
    }

    /// Records that `range`, which is part of one segment, was retransmitted at the time `at`.
    pub(crate) fn record_retransmission(&mut self, range: &Range<u64>, at: Instant) {
        let index = self.index_at_or_after(range.start);
        self.split(index, range.start);
        let index = self.index_at_or_after(range.start);
        self.split(index, range.end);
        let Some(segment) = self.segments.get_mut(index) else { return };
        assert!(segment.start == range.start && segment.end == range.end, "a repair of no segment");
        segment.at = at;
        let marks = segment.marks | RETRANSMITTED | AMBIGUOUS;
        self.mark(index, marks);
    }

    /// Removes the newest segment, which was never sent. Returns false if `range` is not that segment.
    pub(crate) fn take_back_new(&mut self, range: &Range<u64>) -> bool {
        let newest = self.segments.back();
        let found = newest.is_some_and(|s| s.start == range.start && s.end == range.end && s.marks == 0);
        if found {
            self.segments.pop_back();
            self.next = range.start;
        }
        found
    }

    /// Takes back the retransmission of `range`, which was never sent. Returns false if the segment counts as not
    /// retransmitted.
    pub(crate) fn take_back_retransmission(&mut self, range: &Range<u64>) -> bool {
        let index = self.index_at_or_after(range.start);
        let Some(segment) = self.segments.get(index).copied() else { return false };
        if segment.start != range.start || segment.end != range.end || !segment.has(RETRANSMITTED) {
            return false;
        }
        self.mark(index, segment.marks & !RETRANSMITTED);
        self.repair_from = self.repair_from.min(segment.start);
        true
    }

    /// Returns the index of the first segment that starts at or after `position`. A segment that contains the position
    /// but starts before it does not count.
    #[inline]
    fn index_at_or_after(&self, position: u64) -> usize {
        match self.segments.front() {
            Some(front) if front.start < position => self.segments.partition_point(|s| s.start < position),
            _ => 0,
        }
    }

    /// Splits a segment in two at `position`, if `position` lies within it. `near` is the index of this segment or of a
    /// neighbour.
    fn split(&mut self, near: usize, position: u64) {
        for index in near.saturating_sub(1)..(near + 1).min(self.segments.len()) {
            let segment = self.segments[index];
            if segment.start < position && position < segment.end {
                self.segments[index].end = position;
                self.segments.insert(index + 1, SentSegment { start: position, ..segment });
                if self.segment_size > 0 {
                    self.count(segment.marks, 1);
                }
                return;
            }
        }
    }

    /// Replaces the marks of a segment and updates the counts.
    #[inline]
    fn mark(&mut self, index: usize, marks: u8) {
        let units = self.weight(&self.segments[index]);
        let before = std::mem::replace(&mut self.segments[index].marks, marks);
        let missing = self.missing;
        self.discount(before, units);
        self.count(marks, units);
        let newly = self.missing.saturating_sub(missing);
        self.losses += newly;
        if self.records_deliveries && newly > 0 {
            let bytes = self.bytes(newly);
            self.newly_lost.add(self.segments[index].at, bytes);
        }
    }

    #[inline]
    fn count(&mut self, marks: u8, units: u64) {
        if marks & SACKED != 0 {
            self.sacked += units;
            return;
        }
        if marks & LOST != 0 {
            self.lost += units;
        }
        if marks & (LOST | RETRANSMITTED) == LOST {
            self.missing += units;
        }
        if marks & RETRANSMITTED != 0 {
            self.retransmitted += units;
        }
    }

    #[inline]
    fn discount(&mut self, marks: u8, units: u64) {
        if marks & SACKED != 0 {
            self.sacked -= units;
            return;
        }
        if marks & LOST != 0 {
            self.lost -= units;
        }
        if marks & (LOST | RETRANSMITTED) == LOST {
            self.missing -= units;
        }
        if marks & RETRANSMITTED != 0 {
            self.retransmitted -= units;
        }
    }

    /// Asserts that the counts match the marks of the segments.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn check_invariants(&self) {
        let sum = |keep: &dyn Fn(&SentSegment) -> bool| {
            self.segments.iter().filter(|s| keep(s)).map(|s| self.weight(s)).sum::<u64>()
        };
        let open = |s: &SentSegment| !s.has(SACKED);
        assert_eq!(self.sacked, sum(&|s| s.has(SACKED)), "SACKed");
        assert_eq!(self.lost, sum(&|s| open(s) && s.has(LOST)), "lost");
        assert_eq!(self.retransmitted, sum(&|s| open(s) && s.has(RETRANSMITTED)), "sent again");
        assert_eq!(self.missing, sum(&|s| open(s) && s.marks & (LOST | RETRANSMITTED) == LOST), "missing");
        let mut at = self.una;
        for segment in &self.segments {
            assert!(segment.start == at && segment.end > at, "segments follow each other");
            assert!(
                segment.end <= self.lost_edge || segment.start >= self.lost_edge,
                "an edge inside a segment"
            );
            assert!(
                segment.start >= self.lost_edge || segment.has(SACKED | LOST),
                "before the edge, all is known"
            );
            at = segment.end;
        }
        assert_eq!(at, self.next, "segments cover what is out");
        let first = self.segments.iter().find(|s| s.marks & (SACKED | LOST | RETRANSMITTED) == LOST);
        assert!(first.is_none_or(|s| s.start >= self.repair_from), "a lost segment behind the search");
    }
}

#[cfg(test)]
mod tests;
