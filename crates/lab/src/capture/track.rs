//! What became of one direction's data: sent, retransmitted and why,
//! acknowledged, reordered.
//!
//! Owns the judgement, which rests on the packets alone and works wherever the
//! capture was made. Units are TSNs or bytes, counted from the direction's
//! first.
//!
//! **Retransmitted** is what passes the capture twice, and what fills a gap so
//! late that it cannot have been overtaken on the way (its first copy was lost
//! before it came to the capture); less than 0.8 round trips after the gap
//! opened it counts as *reordered*. So it does later, too, where no timeout
//! can have passed and fewer than three acknowledgements reported the gap, the
//! first of them less than 0.8 round trips ago: that is no reason for a fast
//! retransmission (RFC 9260 §7.2.4), and too soon for one by time (RFC 8985
//! §6.2).
//!
//! **Cause**, in this order:
//! 1. *timeout* if it was sent last before a timer ran out on its path: a
//!    timeout takes all that is outstanding for lost (RFC 9260 §6.3.3 E3, RFC 6298 §5.4);
//! 2. *timeout* if it was already retransmitted and nothing was acknowledged for
//!    a retransmission timeout;
//! 3. *fast* if three acknowledgements since told of its loss, the last of
//!    them within a retransmission timeout (RFC 9260 §7.2.4, RFC 5681 §3.2), or
//!    fewer and no timeout can have passed;
//! 4. *timeout* if nothing happened for as long as one takes;
//! 5. *fast* if a recovery that was fast is under way (RFC 6582 §3.2);
//! 6. else *other*.
//!
//! How long a retransmission timeout is the packets do not tell: at least the
//! smoothed round trip and four deviations, two and a half round trips, and 100 ms.
//!
//! **Spurious** is what the receiver had: its acknowledgement passed the
//! capture before the second copy did; or the receiver reported a duplicate;
//! or the acknowledgement came in less than half of the least round trip, and
//! so was the first copy's (the idea of RFC 3522).

use super::arrival::Side;
use super::ranges::Ranges;
use super::results::Rtt;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Why something was retransmitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cause {
    Fast,
    Timeout,
    Other,
}

/// What passing data is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Passing {
    /// Not seen before, and nothing after it.
    New,
    /// Seen before (or, inferred, lost before the capture).
    Retransmitted { cause: Cause, inferred: bool, spurious: bool },
    /// Not seen before; overtaken.
    Reordered,
}

/// What is known of data that passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum History {
    /// Nothing.
    New,
    /// Some of it passed before, or it cannot be this conversation's.
    Seen,
    /// It was not seen, and yet the peer has acknowledged it.
    Acknowledged,
}

/// Something known to have been retransmitted needlessly, after it passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Needless {
    pub stream: u16,
    pub path: usize,
    /// The ladder's line of its last transmission.
    pub line: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    end: i64,
    /// When it passed last.
    last: u64,
    /// From when on losses reported mean this.
    since: u64,
    times: u32,
    stream: u16,
    path: usize,
    line: Option<usize>,
    acked: bool,
    needless: bool,
}

/// An acknowledgement that told of losses among these units.
#[derive(Clone, Copy, Debug)]
struct Report {
    at: u64,
    units: (i64, i64),
}

/// One direction.
#[derive(Debug, Default)]
pub(super) struct Track {
    seen: Ranges,
    /// By first unit; none overlaps another.
    sent: BTreeMap<i64, Sent>,
    /// Those that are not acknowledged: an acknowledgement goes through no others, however often it says the same.
    waiting: BTreeSet<i64>,
    /// Missing between what was seen: end, and when the gap opened.
    holes: BTreeMap<i64, (i64, u64)>,
    /// After the last unit seen.
    high: i64,
    begun: bool,
    /// First unit not acknowledged.
    cumulative: i64,
    /// What the last acknowledgement said has arrived beyond that, in order and apart.
    blocks: Vec<(i64, i64)>,
    reports: VecDeque<Report>,
    last_ack: Option<u64>,
    last_advance: u64,
    /// By path: the last timeout.
    timed_out: BTreeMap<usize, u64>,
    /// A fast recovery lasts to here.
    recovery: i64,
    /// Records of what is acknowledged.
    history: usize,
    smoothed: Option<(u64, u64)>,
    /// The sender may retransmit after one report (RFC 8985 §6.2), as most of TCP do and few of SCTP.
    pub has_rack: bool,
    /// The handshake's round trip.
    pub round_trip: Option<u64>,
    pub rtt: Rtt,
    pub timeouts: u64,
    pub not_captured: u64,
    /// Records that acknowledgements went through.
    #[cfg(test)]
    visits: usize,
    /// Found since last asked.
    pub needless: Vec<Needless>,
    /// Round trips since last asked, and on which path the data went.
    pub samples: Vec<(usize, u64)>,
}

/// Both directions. Each is made when something happens in it: of a scan's conversations, in none.
#[derive(Debug, Default)]
pub(super) struct Tracks([Option<Box<Track>>; 2]);

impl Tracks {
    /// What this side sends.
    pub fn of(&mut self, side: Side) -> &mut Track {
        self.0[side].get_or_insert_default()
    }

    /// If there is something.
    pub fn known(&self, side: Side) -> Option<&Track> {
        self.0[side].as_deref()
    }
}

/// Records kept at most.
const MAX: usize = 1 << 16;
/// Of what is acknowledged.
const HISTORY: usize = 1_024;
/// Acknowledgements with gaps kept.
const REPORTS: usize = 64;
/// Of one report of a duplicate: it tells of one packet (RFC 2883 §4).
const DUPLICATES: usize = 1_024;
/// However short the round trip, packets are overtaken by this much.
const RACK_REORDERING: u64 = 3_000_000;
const LATE_REORDERING: u64 = 30_000_000;
const MIN_TIMEOUT: u64 = 100_000_000;

impl Track {
    /// The unit that a number on the wire stands for, given that numbers wrap: the one nearest to the last.
    pub fn unit(&self, wire: u32, first: u32) -> i64 {
        let last = first.wrapping_add(self.high as u32);
        self.high + i64::from(wire.wrapping_sub(last) as i32)
    }

    /// Nobody sends so far ahead of (or behind) what was seen.
    pub fn plausible(&self, unit: i64, reach: i64) -> bool {
        !self.begun || (unit - self.high).abs() <= reach
    }

    /// Data passes: `start..end`, on this path.
    pub fn sent(&mut self, at: u64, start: i64, end: i64, stream: u16, path: usize) -> Passing {
        self.begun = true;
        let mut since = at;
        let passing = if start >= self.high {
            if start > self.high {
                self.hole(self.high, start, at);
            }
            self.high = end;
            Passing::New
        } else if self.overlaps(start, end) {
            self.retransmitted(at, start, end, path)
        } else {
            let opened = self.fill(start, end);
            since = opened.unwrap_or(at);
            self.late(at, since, start, path)
        };
        self.high = self.high.max(end);
        self.seen.insert(start, end);
        let times = if passing == Passing::New || passing == Passing::Reordered { 1 } else { 2 };
        let acked = end <= self.cumulative;
        let spurious = matches!(passing, Passing::Retransmitted { spurious: true, .. });
        let mut known = false;
        for sent in self.over(start, end) {
            known = true;
            (sent.last, sent.since, sent.path) = (at, at, path);
            sent.times = sent.times.saturating_add(1);
            sent.needless = spurious;
        }
        if !known {
            let line = None;
            let sent = Sent { end, last: at, since, times, stream, path, line, acked, needless: spurious };
            self.sent.insert(start, sent);
            self.history += usize::from(acked);
            if !acked {
                self.waiting.insert(start);
            }
        }
        self.prune();
        passing
    }

    /// The ladder's line that data which just passed is drawn in; `None` where the ladder has no line for it.
    pub fn drawn(&mut self, start: i64, end: i64, line: Option<usize>) {
        for sent in self.over(start, end) {
            sent.line = line;
        }
    }

    /// An acknowledgement passes: everything before `cumulative` has arrived, and so have `blocks`. `duplicate`: it is
    /// one that only a gap explains, though it shows no blocks.
    pub fn acknowledged(&mut self, at: u64, cumulative: i64, blocks: Vec<(i64, i64)>, duplicate: bool) {
        let blocks = apart(blocks);
        if cumulative > self.high {
            if self.begun {
                self.not_captured += cumulative.abs_diff(self.high);
            }
            self.high = cumulative;
            self.begun = true;
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
            // What the last acknowledgement said already is not gone through again.
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
            self.reports.push_back(Report { at, units });
            if self.reports.len() > REPORTS {
                self.reports.pop_front();
            }
        }
        self.blocks = blocks;
        self.last_ack = Some(at);
        self.prune();
    }

    /// The receiver had `start..end` more than once.
    pub fn duplicate(&mut self, start: i64, end: i64) {
        let mut found = Vec::new();
        let sent_twice = |sent: &&mut Sent| sent.times > 1 && !sent.needless;
        for sent in self.over(start, end).take(DUPLICATES).filter(sent_twice) {
            sent.needless = true;
            found.push(Needless { stream: sent.stream, path: sent.path, line: sent.line });
        }
        self.needless.append(&mut found);
    }

    /// After the last unit seen or acknowledged.
    pub fn high(&self) -> i64 {
        self.high
    }

    /// Units sent that nobody is known to have.
    pub fn flight(&self) -> i64 {
        let beyond: i64 = self.blocks.iter().map(|(start, end)| end - start).sum();
        (self.high - self.cumulative - beyond).max(0)
    }

    /// The first unit that is not acknowledged.
    pub fn cumulative(&self) -> i64 {
        self.cumulative
    }

    /// Records that lie in `start..end`, in part at least.
    fn over(&mut self, start: i64, end: i64) -> impl Iterator<Item = &mut Sent> {
        let first = self.sent.range(..=start).next_back().filter(|(_, sent)| sent.end > start);
        let from = first.map_or(start, |(from, _)| *from);
        self.sent.range_mut(from..end.max(from)).map(|(_, sent)| sent)
    }

    /// The block that begins at this unit, or last before it.
    fn block(&self, unit: i64) -> Option<(i64, i64)> {
        let after = self.blocks.partition_point(|(start, _)| *start <= unit);
        self.blocks[..after].last().copied()
    }

    fn overlaps(&self, start: i64, end: i64) -> bool {
        let last = self.sent.range(..end).next_back();
        last.is_some_and(|(_, sent)| sent.end > start) || self.seen.covers(start, end)
    }

    fn retransmitted(&mut self, at: u64, start: i64, end: i64, path: usize) -> Passing {
        let acked = end <= self.cumulative || self.block(start).is_some_and(|(_, until)| end <= until);
        let record = self.over(start, end).next().copied();
        let (cause, had) = match record {
            Some(sent) => {
                (self.cause(at, start, (sent.last, sent.since, sent.path, sent.times), path), sent.acked)
            }
            // Long acknowledged, and forgotten.
            None => (Cause::Other, true),
        };
        Passing::Retransmitted { cause, inferred: false, spurious: acked || had }
    }

    /// Not seen before, but what follows it was.
    fn late(&mut self, at: u64, opened: u64, start: i64, path: usize) -> Passing {
        let reordering_window = self.round_trip.map_or(3_000_000, |trip| trip / 5 * 4);
        if at - opened.min(at) < reordering_window {
            return Passing::Reordered;
        }
        if self.is_late_reordering(at, opened, start) {
            return Passing::Reordered;
        }
        // The first retransmission comes within few round trips: after that, it was one of several.
        let slow = self.round_trip.is_some_and(|trip| at - opened.min(at) >= 4 * trip);
        let cause = self.cause(at, start, (opened, opened, path, 1 + u32::from(slow)), path);
        Passing::Retransmitted { cause, inferred: true, spurious: false }
    }

    /// Fewer than three acknowledgements told of the gap, a retransmission that they led to would come later, and no timeout
    /// can have passed.
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
        let (last, since, before, times) = sent;
        if self.timed_out.get(&before).is_some_and(|&timeout| timeout > last) {
            return Cause::Timeout;
        }
        let timeout = self.timeout();
        let quiet = at.saturating_sub(last.max(self.last_advance));
        let silence = at.saturating_sub(self.last_ack.unwrap_or(last));
        let reports = self.missed(since, start).count();
        let cause = if times > 1 && quiet >= timeout {
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
                for path in [before, path] {
                    self.timed_out.insert(path, at);
                }
            }
            Cause::Other => {}
        }
        cause
    }

    /// Acknowledgements since then that told of the loss of this unit.
    fn missed(&self, since: u64, unit: i64) -> impl Iterator<Item = &Report> {
        let missed =
            move |report: &&Report| report.at >= since && report.units.0 <= unit && unit < report.units.1;
        self.reports.iter().filter(missed)
    }

    /// What is known of data before it passes.
    pub fn history(&self, start: i64, end: i64) -> History {
        // What lies before the first data is of no use to anybody: a number that damage has made up.
        if self.begun && (start < 0 || start < self.high && self.overlaps(start, end)) {
            History::Seen
        } else if self.begun && end <= self.cumulative {
            History::Acknowledged
        } else {
            History::New
        }
    }

    /// The least that a retransmission timer can have waited.
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

    /// Takes `start..end` out of the hole it lies in; when that opened.
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

    /// Units are acknowledged for the first time.
    fn arrived(&mut self, at: u64, start: i64, end: i64, newest: &mut Option<(usize, u64)>) {
        if start >= end {
            return;
        }
        let hasty = self.rtt.min_ns / 2;
        let (mut found, mut done) = (Vec::new(), Vec::new());
        // One may begin before, and one end after.
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
            if sent.times == 1 {
                // The one sent last was not waited with.
                if newest.is_none_or(|(_, least)| age <= least) {
                    *newest = Some((sent.path, age));
                }
            } else if age < hasty && !sent.needless {
                sent.needless = true;
                found.push(Needless { stream: sent.stream, path: sent.path, line: sent.line });
            }
        }
        self.history += done.len();
        for from in done {
            self.waiting.remove(&from);
        }
        self.needless.append(&mut found);
    }

    fn measured(&mut self, path: usize, sample: u64) {
        self.rtt.add(sample);
        self.samples.push((path, sample));
        // RFC 6298 §2: a quarter of the deviation, an eighth of the round trip.
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

/// The units as blocks in order, none touching another.
fn apart(mut blocks: Vec<(i64, i64)>) -> Vec<(i64, i64)> {
    // A receiver's are so already (RFC 9260 §3.3.4), but for TCP's, which are few.
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

    /// Whatever a SACK of 64 KiB says, and however often: it is gone through once, and so is each record.
    #[test]
    fn hostile_blocks_are_gone_through_once() {
        const UNITS: i64 = 40_000;
        let mut track = Track::default();
        for unit in 0..UNITS {
            track.sent(1, unit, unit + 1, 0, 0);
        }
        // All over each other: every one would go through most records.
        let nested: Vec<(i64, i64)> = (0..16_000).map(|at| (2 + at, UNITS - at)).rev().collect();
        let scattered: Vec<(i64, i64)> = (0..16_000).map(|at| (2 + 2 * at, 3 + 2 * at)).collect();
        for at in 2..50 {
            track.acknowledged(at, 1, nested.clone(), false);
            assert_eq!(track.blocks, [(2, UNITS)]);
            // Says less than was said, so that the next says more.
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
            let found = apart(blocks.clone());
            assert!((0..50).all(|unit| among(&blocks, unit) == among(&found, unit)), "{blocks:?}: {found:?}");
            assert!(found.windows(2).all(|pair| pair[0].1 < pair[1].0), "{blocks:?}: {found:?}");
        }
    }
}
