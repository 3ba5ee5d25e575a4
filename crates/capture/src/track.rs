//! Follows the data of one direction of a conversation: when each piece was sent, retransmitted (and why), reordered
//! and acknowledged.
//!
//! All conclusions are drawn from the packets alone, and do not depend on the place of capture. The code calls a TSN of
//! an association, or a byte of a connection, a *unit*. Units are counted from the first unit of the direction.
//!
//! Data is **retransmitted** if it was captured twice. Data that fills a gap is also retransmitted if it comes so late
//! that the network cannot have reordered it. Its first transmission was then lost before the place of capture. Data
//! that fills a gap less than 0.8 round trips after the gap opened counts as *reordered*. Data that fills the gap later
//! counts as reordered only if all these conditions hold:
//! - the gap opened, or new data was acknowledged, less than a retransmission timeout ago, so no timer has expired;
//! - one or two acknowledgements have reported the gap, too few for a fast retransmission (RFC 9260 §7.2.4);
//! - the first of these reports is less than 0.8 round trips old, too recent for a retransmission by time (RFC 8985
//!   §6.2);
//! - the data does not belong to the latest fast recovery.
//!
//! In a *quiet period*, the data in question was not sent and no new data was acknowledged, for at least a
//! retransmission timeout.
//!
//! The **cause** of a retransmission is the first of these that applies:
//! 1. *timeout* if the data was last sent before a timer expired on its path: a timeout marks everything outstanding as
//!    lost (RFC 9260 §6.3.3 E3, RFC 6298 §5.4);
//! 2. *timeout* if this is at least the second retransmission of the data, and it follows a quiet period;
//! 3. *fast* if at least three acknowledgements have reported its loss since it was last sent (RFC 9260 §7.2.4, RFC
//!    5681 §3.2). The last acknowledgement must have come less than a retransmission timeout ago. Also *fast* if one or
//!    two acknowledgements have reported its loss, and the retransmission does not follow a quiet period;
//! 4. *timeout* if the retransmission follows a quiet period;
//! 5. *fast* if a fast recovery is in progress (RFC 6582 §3.2);
//! 6. *other* if none of these applies.
//!
//! The packets do not show how long the sender's retransmission timeout is. It is assumed to be the largest of three
//! times: the smoothed round-trip time plus four times its variation, two and a half round trips, and 100 ms.
//!
//! A retransmission is **spurious** if the receiver already had the data. One of three signs shows this:
//! - the acknowledgement of the data was captured before the retransmission;
//! - the receiver reported a duplicate;
//! - the acknowledgement was captured less than half of the minimum round-trip time after the retransmission. It was
//!   therefore for the first transmission (the idea of RFC 3522).

use super::arrival::Side;
use super::data_class::{Cause, DataClass};
use super::ranges::Ranges;
use super::results::Rtt;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What earlier packets of the capture have shown about a piece of data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum History {
    /// The data was not captured before.
    New,
    /// Some of the data was captured before. Or the packet is damaged: the position of its data lies before the
    /// conversation's first data.
    Seen,
    /// The data was not captured before, but the peer has acknowledged it.
    Acknowledged,
}

/// A retransmission that was found to be spurious only after it had been captured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SpuriousRetransmission {
    pub stream: u64,
    pub path: usize,
    /// The ladder line that shows the retransmission.
    pub line: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
struct SentUnit {
    end: i64,
    /// The time of the last transmission.
    last: u64,
    /// The time of the last transmission or, if the data filled a gap in the capture, the time when the gap opened.
    /// Loss reports before this time do not count for the last transmission.
    since: u64,
    transmissions: u32,
    stream: u16,
    path: usize,
    line: Option<usize>,
    acked: bool,
    is_spurious: bool,
}

/// An acknowledgement that reported a gap. `units` is the range of the TSNs or bytes that may be lost.
#[derive(Clone, Copy, Debug)]
struct GapReport {
    at: u64,
    units: (i64, i64),
}

/// What is known about the data that one side of a conversation sends.
#[derive(Debug, Default)]
pub(super) struct Track {
    received: Ranges,
    /// The records of transmissions. The key of a record is its first TSN or byte position. No two records overlap.
    sent: BTreeMap<i64, SentUnit>,
    /// The records in `sent` that are not acknowledged, by their first TSN or byte. An acknowledgement visits only
    /// these records and removes those that it covers, so a repeated acknowledgement finds none.
    waiting: BTreeSet<i64>,
    /// The gaps between captured data. The key is the first missing TSN or byte. The value is the first TSN or byte
    /// after the gap, and the time in nanoseconds when the gap opened.
    holes: BTreeMap<i64, (i64, u64)>,
    /// The highest TSN or byte position that was captured or acknowledged, plus one.
    high: i64,
    started: bool,
    /// The first TSN (SCTP) or byte (TCP) that is not acknowledged cumulatively.
    cumulative: i64,
    /// The blocks beyond `cumulative` that the last acknowledgement reported as received. They are sorted and do not
    /// touch.
    blocks: Vec<(i64, i64)>,
    reports: VecDeque<GapReport>,
    last_ack: Option<u64>,
    last_advance: u64,
    /// The time of the last timeout on each path.
    timed_out: BTreeMap<usize, u64>,
    /// The first TSN or byte position after the data that the latest fast recovery covers. The recovery covers all data
    /// that was captured or acknowledged before the latest fast retransmission.
    recovery: i64,
    /// The number of records in `sent` whose data is acknowledged.
    history: usize,
    smoothed: Option<(u64, u64)>,
    /// Whether the sender may retransmit after a single report of a gap (RFC 8985 §6.2). Most TCP senders and few SCTP
    /// senders do so.
    pub has_rack: bool,
    /// The round-trip time of the handshake, in nanoseconds.
    pub round_trip: Option<u64>,
    pub rtt: Rtt,
    pub timeouts: u64,
    pub not_captured: u64,
    /// The total number of records that acknowledgements visited. A record that was visited twice counts twice.
    #[cfg(test)]
    visits: usize,
    /// The spurious retransmissions found since the caller last took this list.
    pub spurious: Vec<SpuriousRetransmission>,
    /// The round-trip times measured since the caller last took this list. Each entry is the index of the data's path
    /// and the time in nanoseconds.
    pub samples: Vec<(usize, u64)>,
}

/// The state of both directions. A `Track` is allocated on first use, so the conversations of a port scan need no
/// memory for it.
#[derive(Debug, Default)]
pub(super) struct Tracks([Option<Box<Track>>; 2]);

impl Tracks {
    /// Returns the track of the data that this side sends.
    pub fn of(&mut self, side: Side) -> &mut Track {
        self.0[side].get_or_insert_default()
    }

    /// Returns the track of the data that this side sends, unless no such data is known.
    pub fn known(&self, side: Side) -> Option<&Track> {
        self.0[side].as_deref()
    }
}

/// The maximum number of records of transmissions, and of gaps, that a [`Track`] keeps.
const MAX: usize = 1 << 16;
/// If there are more records of acknowledged data than this, the records with the lowest TSNs or bytes are removed.
const HISTORY: usize = 1_024;
/// The maximum number of acknowledgements to keep, among those that report gaps or duplicates.
const REPORTS: usize = 64;
/// One report of a duplicate marks at most this number of records as spurious. A report refers to a single packet (RFC
/// 2883 §4), which cannot carry the data of more records.
const DUPLICATES: usize = 1_024;
/// The minimum reordering time in nanoseconds, used if the round-trip time is very short. A late packet that arrives
/// within the reordering time counts as reordered.
const RACK_REORDERING: u64 = 3_000_000;
const LATE_REORDERING: u64 = 30_000_000;
const MIN_TIMEOUT: u64 = 100_000_000;

impl Track {
    /// Converts a TSN or sequence number on the wire to an offset from the first one. Numbers on the wire wrap around,
    /// so the result is the candidate nearest to the last captured TSN or byte.
    pub fn unit(&self, wire: u32, first: u32) -> i64 {
        let last = first.wrapping_add(self.high as u32);
        self.high + i64::from(wire.wrapping_sub(last) as i32)
    }

    /// Returns whether `unit`, a TSN or byte position, is at most `reach` away from the highest position captured or
    /// acknowledged so far. No host sends data further ahead or behind.
    pub fn plausible(&self, unit: i64, reach: i64) -> bool {
        !self.started || (unit - self.high).abs() <= reach
    }

    /// Records that a packet with the data `start..end` was captured on `path`. Returns the classification of the data.
    pub fn sent(&mut self, at: u64, start: i64, end: i64, stream: u16, path: usize) -> DataClass {
        self.started = true;
        let mut since = at;
        let class = if start >= self.high {
            if start > self.high {
                self.hole(self.high, start, at);
            }
            self.high = end;
            DataClass::New
        } else if self.overlaps(start, end) {
            self.retransmitted(at, start, end, path)
        } else {
            let opened = self.fill(start, end);
            since = opened.unwrap_or(at);
            self.late(at, since, start, path)
        };
        self.high = self.high.max(end);
        self.received.insert(start, end);
        let transmissions = if class == DataClass::New || class == DataClass::Reordered { 1 } else { 2 };
        let acked = end <= self.cumulative;
        let spurious = matches!(class, DataClass::Retransmitted { spurious: true, .. });
        let mut known = false;
        for sent in self.overlapping(start, end) {
            known = true;
            (sent.last, sent.since, sent.path) = (at, at, path);
            sent.transmissions = sent.transmissions.saturating_add(1);
            sent.is_spurious = spurious;
        }
        if !known {
            let line = None;
            let sent = SentUnit {
                end,
                last: at,
                since,
                transmissions,
                stream,
                path,
                line,
                acked,
                is_spurious: spurious,
            };
            self.sent.insert(start, sent);
            self.history += usize::from(acked);
            if !acked {
                self.waiting.insert(start);
            }
        }
        self.prune();
        class
    }

    /// Sets the ladder line that shows the data `start..end`, or `None` if no line shows it.
    pub fn drawn(&mut self, start: i64, end: i64, line: Option<usize>) {
        for sent in self.overlapping(start, end) {
            sent.line = line;
        }
    }

    /// Records an acknowledgement of all data before `cumulative` and in `blocks`. `duplicate` is true for a duplicate
    /// acknowledgement (RFC 5681 §2). Without blocks, a duplicate reports that the data at `cumulative` is missing.
    pub fn acknowledged(&mut self, at: u64, cumulative: i64, blocks: Vec<(i64, i64)>, duplicate: bool) {
        let blocks = merge_blocks(blocks);
        if cumulative > self.high {
            if self.started {
                self.not_captured += cumulative.abs_diff(self.high);
            }
            self.high = cumulative;
            self.started = true;
        }
        let mut newest = None;
        if cumulative > self.cumulative {
            let from = std::mem::replace(&mut self.cumulative, cumulative);
            self.arrived(at, from, cumulative, &mut newest);
            self.last_advance = at;
            while self.holes.first_key_value().is_some_and(|(start, _)| *start < cumulative) {
                self.holes.pop_first();
            }
        }
        for &(start, end) in &blocks {
            // Skips data that the previous acknowledgement already reported.
            let before = self.block(start).filter(|(_, until)| start <= *until);
            let start = before.map_or(start, |(_, until)| until.max(start));
            self.arrived(at, start, end, &mut newest);
        }
        if let Some((path, sample)) = newest {
            self.measured(path, sample);
        }
        let units = match blocks.last().map(|(_, end)| *end) {
            Some(highest) if highest > cumulative => Some((cumulative, highest)),
            _ => duplicate.then_some((cumulative, cumulative + 1)),
        };
        if let Some(units) = units {
            self.reports.push_back(GapReport { at, units });
            if self.reports.len() > REPORTS {
                self.reports.pop_front();
            }
        }
        self.blocks = blocks;
        self.last_ack = Some(at);
        self.prune();
    }

    /// Records that the receiver got the data `start..end` more than once.
    pub fn duplicate(&mut self, start: i64, end: i64) {
        let mut found = Vec::new();
        let sent_twice = |sent: &&mut SentUnit| sent.transmissions > 1 && !sent.is_spurious;
        for sent in self.overlapping(start, end).take(DUPLICATES).filter(sent_twice) {
            sent.is_spurious = true;
            found.push(SpuriousRetransmission {
                stream: sent.stream.into(),
                path: sent.path,
                line: sent.line,
            });
        }
        self.spurious.append(&mut found);
    }

    /// Returns the highest TSN or byte position that was captured or acknowledged, plus one.
    pub fn high(&self) -> i64 {
        self.high
    }

    /// Returns the number of TSNs or bytes in flight, which were sent but not reported as received.
    pub fn flight(&self) -> i64 {
        let beyond: i64 = self.blocks.iter().map(|(start, end)| end - start).sum();
        (self.high - self.cumulative - beyond).max(0)
    }

    /// Returns the first TSN (SCTP) or byte (TCP) that is not acknowledged cumulatively.
    pub fn cumulative(&self) -> i64 {
        self.cumulative
    }

    /// Returns the records of transmissions that overlap the data `start..end`.
    fn overlapping(&mut self, start: i64, end: i64) -> impl Iterator<Item = &mut SentUnit> {
        let first = self.sent.range(..=start).next_back().filter(|(_, sent)| sent.end > start);
        let from = first.map_or(start, |(from, _)| *from);
        self.sent.range_mut(from..end.max(from)).map(|(_, sent)| sent)
    }

    /// Among the blocks of the last acknowledgement, returns the last block that begins at or before `unit`. `unit` is
    /// a TSN, or the sequence number of a byte.
    fn block(&self, unit: i64) -> Option<(i64, i64)> {
        let after = self.blocks.partition_point(|(start, _)| *start <= unit);
        self.blocks[..after].last().copied()
    }

    fn overlaps(&self, start: i64, end: i64) -> bool {
        let last = self.sent.range(..end).next_back();
        last.is_some_and(|(_, sent)| sent.end > start) || self.received.covers(start, end)
    }

    fn retransmitted(&mut self, at: u64, start: i64, end: i64, path: usize) -> DataClass {
        let acked = end <= self.cumulative || self.block(start).is_some_and(|(_, until)| end <= until);
        let record = self.overlapping(start, end).next().copied();
        let (cause, earlier) = match record {
            Some(sent) => (
                self.cause(at, start, (sent.last, sent.since, sent.path, sent.transmissions), path),
                sent.acked,
            ),
            // The data was acknowledged long ago, and its record was removed.
            None => (Cause::Other, true),
        };
        DataClass::Retransmitted { cause, inferred: false, spurious: acked || earlier }
    }

    /// Classifies data that is captured for the first time after later data: as reordered or as retransmitted.
    fn late(&mut self, at: u64, opened: u64, start: i64, path: usize) -> DataClass {
        let reordering_window = self.round_trip.map_or(3_000_000, |trip| trip / 5 * 4);
        if at - opened.min(at) < reordering_window {
            return DataClass::Reordered;
        }
        if self.is_late_reordering(at, opened, start) {
            return DataClass::Reordered;
        }
        // The first retransmission normally comes within a few round trips after the gap opened. If the first captured
        // retransmission comes later, an earlier one was probably lost before it reached the place of capture.
        let slow = self.round_trip.is_some_and(|trip| at - opened.min(at) >= 4 * trip);
        let cause = self.cause(at, start, (opened, opened, path, 1 + u32::from(slow)), path);
        DataClass::Retransmitted { cause, inferred: true, spurious: false }
    }

    /// Returns true if data that fills a gap at time `at` was probably reordered and not retransmitted. All of these
    /// conditions must hold. One or two acknowledgements have reported the gap, and the first of them was captured less
    /// than a reordering window before `at`. The gap opened, or the cumulative acknowledgement last advanced, less than
    /// a retransmission timeout before `at`. The data does not belong to the latest fast recovery.
    fn is_late_reordering(&self, at: u64, opened: u64, start: i64) -> bool {
        let Some(first) = self.missed(opened, start).next().map(|report| report.at) else { return false };
        let quiet = at.saturating_sub(opened.max(self.last_advance));
        if self.missed(opened, start).count() >= 3 || quiet >= self.timeout() || start < self.recovery {
            return false;
        }
        let floor = if self.has_rack { RACK_REORDERING } else { LATE_REORDERING };
        self.round_trip.is_none_or(|trip| at.saturating_sub(first) < (trip / 5 * 4).max(floor))
    }

    fn cause(&mut self, at: u64, start: i64, sent: (u64, u64, usize, u32), path: usize) -> Cause {
        let (last, since, last_path, transmissions) = sent;
        if self.timed_out.get(&last_path).is_some_and(|&timeout| timeout > last) {
            return Cause::Timeout;
        }
        let timeout = self.timeout();
        let quiet = at.saturating_sub(last.max(self.last_advance));
        let silence = at.saturating_sub(self.last_ack.unwrap_or(last));
        let reports = self.missed(since, start).count();
        let cause = if transmissions > 1 && quiet >= timeout {
            Cause::Timeout
        } else if (reports >= 3 && silence < timeout) || (reports > 0 && quiet < timeout) {
            Cause::Fast
        } else if quiet >= timeout {
            Cause::Timeout
        } else if start < self.recovery && silence < timeout {
            Cause::Fast
        } else {
            Cause::Other
        };
        match cause {
            Cause::Fast => self.recovery = self.recovery.max(self.high),
            Cause::Timeout => {
                self.timeouts += 1;
                for path in [last_path, path] {
                    self.timed_out.insert(path, at);
                }
            }
            Cause::Other => {}
        }
        cause
    }

    /// Returns the gap reports captured at or after `since` that show the TSN or byte `unit` as missing.
    fn missed(&self, since: u64, unit: i64) -> impl Iterator<Item = &GapReport> {
        let missed =
            move |report: &&GapReport| report.at >= since && report.units.0 <= unit && unit < report.units.1;
        self.reports.iter().filter(missed)
    }

    /// Returns what earlier packets have shown about the data `start..end`. To be called before the data is processed.
    pub fn history(&self, start: i64, end: i64) -> History {
        // A TSN or byte before the first data cannot belong to this conversation: damage changed the number in the
        // packet.
        if self.started && (start < 0 || start < self.high && self.overlaps(start, end)) {
            History::Seen
        } else if self.started && end <= self.cumulative {
            History::Acknowledged
        } else {
            History::New
        }
    }

    /// Returns the shortest time in nanoseconds after which the sender's retransmission timer can have expired.
    fn timeout(&self) -> u64 {
        let (smoothed, deviation) = self.smoothed.unwrap_or_default();
        let trip = smoothed.max(self.round_trip.unwrap_or(0));
        (smoothed + 4 * deviation).max(trip / 2 * 5).max(MIN_TIMEOUT)
    }

    fn hole(&mut self, start: i64, end: i64, at: u64) {
        self.holes.insert(start, (end, at));
        if self.holes.len() > MAX {
            self.holes.pop_first();
        }
    }

    /// Removes `start..end` from the gap that contains `start`. Returns the time when that gap opened.
    fn fill(&mut self, start: i64, end: i64) -> Option<u64> {
        let (&from, &(until, opened)) = self.holes.range(..=start).next_back()?;
        if start >= until {
            return None;
        }
        self.holes.remove(&from);
        for (from, until) in [(from, start), (end, until)] {
            if from < until {
                self.holes.insert(from, (until, opened));
            }
        }
        Some(opened)
    }

    /// Marks the data `start..end` as acknowledged. No earlier acknowledgement has reported any of this data.
    fn arrived(&mut self, at: u64, start: i64, end: i64, newest: &mut Option<(usize, u64)>) {
        if start >= end {
            return;
        }
        let hasty = self.rtt.min_ns / 2;
        let (mut found, mut done) = (Vec::new(), Vec::new());
        // Includes the record that begins before `start`, if it ends after `start`. A record that ends after `end`
        // remains unacknowledged.
        let before = self.waiting.range(..start).next_back();
        let before = before.filter(|from| self.sent.get(from).is_some_and(|sent| sent.end > start));
        for from in before.into_iter().chain(self.waiting.range(start..end)) {
            #[cfg(test)]
            {
                self.visits += 1;
            }
            let Some(sent) = self.sent.get_mut(from).filter(|sent| sent.end <= end) else { continue };
            sent.acked = true;
            done.push(*from);
            let age = at.saturating_sub(sent.last);
            if sent.transmissions == 1 {
                // An acknowledgement may cover several pieces of data. Only the round-trip time of the piece sent last
                // is kept. The arrival of that piece caused the acknowledgement, so its round-trip time includes no
                // delay by the receiver.
                if newest.is_none_or(|(_, least)| age <= least) {
                    *newest = Some((sent.path, age));
                }
            } else if age < hasty && !sent.is_spurious {
                sent.is_spurious = true;
                found.push(SpuriousRetransmission {
                    stream: sent.stream.into(),
                    path: sent.path,
                    line: sent.line,
                });
            }
        }
        self.history += done.len();
        for from in done {
            self.waiting.remove(&from);
        }
        self.spurious.append(&mut found);
    }

    fn measured(&mut self, path: usize, sample: u64) {
        self.rtt.add(sample);
        self.samples.push((path, sample));
        // RFC 6298 §2: a new sample has the weight 1/4 in the deviation and 1/8 in the smoothed round-trip time.
        self.smoothed = Some(match self.smoothed {
            None => (sample, sample / 2),
            Some((smoothed, deviation)) => {
                ((smoothed * 7 + sample) / 8, (deviation * 3 + smoothed.abs_diff(sample)) / 4)
            }
        });
    }

    fn prune(&mut self) {
        while self.sent.len() > MAX
            || (self.history > HISTORY && self.sent.first_key_value().is_some_and(|(_, sent)| sent.acked))
        {
            let Some((from, sent)) = self.sent.pop_first() else { return };
            self.waiting.remove(&from);
            self.history -= usize::from(sent.acked && self.history > 0);
        }
    }
}

/// Sorts blocks of TSNs or bytes, and joins blocks that touch or overlap.
fn merge_blocks(mut blocks: Vec<(i64, i64)>) -> Vec<(i64, i64)> {
    // SCTP receivers send sorted blocks (RFC 9260 §3.3.4), and sorting them again is fast. TCP receivers send unsorted
    // blocks, but only a few.
    blocks.sort_unstable();
    blocks.dedup_by(|next, block| {
        let touching = next.0 <= block.1;
        if touching {
            block.1 = block.1.max(next.1);
        }
        touching
    });
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Large SACKs with hostile blocks are repeated many times. Each record must be visited only a few times, not once
    /// per SACK.
    #[test]
    fn hostile_blocks_are_gone_through_once() {
        const UNITS: i64 = 40_000;
        let mut track = Track::default();
        for unit in 0..UNITS {
            track.sent(1, unit, unit + 1, 0, 0);
        }
        // The blocks are nested. Visiting each block separately would visit most records for every block.
        let nested: Vec<(i64, i64)> = (0..16_000).map(|at| (2 + at, UNITS - at)).rev().collect();
        let scattered: Vec<(i64, i64)> = (0..16_000).map(|at| (2 + 2 * at, 3 + 2 * at)).collect();
        for at in 2..50 {
            track.acknowledged(at, 1, nested.clone(), false);
            assert_eq!(track.blocks, [(2, UNITS)]);
            // The SACK `scattered` leaves out most TSNs that the previous SACK, `nested`, reported. When `nested` comes
            // again, these TSNs therefore count as newly reported.
            track.acknowledged(at, 1, scattered.clone(), false);
            assert_eq!(track.blocks, scattered);
        }
        assert_eq!(track.waiting.iter().copied().collect::<Vec<_>>(), [1]);
        assert!(track.visits <= 2 * UNITS as usize, "{} visits", track.visits);
        track.acknowledged(50, UNITS, Vec::new(), false);
        assert!(track.waiting.is_empty() && track.rtt.samples == 2 && track.rtt.max_ns == 49);
    }

    #[test]
    fn blocks_are_the_same_units_in_order_and_apart() {
        let mut rng = anabranch_base::Rng::new(3);
        for _ in 0..500 {
            let mut block = |_| {
                let start = rng.below(40) as i64;
                (start, start + 1 + rng.below(6) as i64)
            };
            let blocks: Vec<(i64, i64)> = (0..8).map(&mut block).collect();
            let among = |blocks: &[(i64, i64)], unit| blocks.iter().any(|&(s, e)| s <= unit && unit < e);
            let found = merge_blocks(blocks.clone());
            assert!((0..50).all(|unit| among(&blocks, unit) == among(&found, unit)), "{blocks:?}: {found:?}");
            assert!(found.windows(2).all(|pair| pair[0].1 < pair[1].0), "{blocks:?}: {found:?}");
        }
    }
}
