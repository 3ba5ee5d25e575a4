//! What became of one direction's data: sent, sent again and why,
//! acknowledged, reordered.
//!
//! Owns the judgement, which rests on the packets alone and works wherever the
//! capture was made. Units are TSNs or bytes, counted from the direction's
//! first.
//!
//! **Sent again** is what passes the capture twice, and what fills a gap so
//! late that it cannot have been overtaken on the way (its first copy was lost
//! before it came to the capture); less than 0.8 round trips after the gap
//! opened it counts as *reordered*.
//!
//! **Cause**, in this order:
//! 1. *timeout* if it was sent last before a timer ran out on its path: a
//!    timeout takes all that is outstanding for lost (RFC 9260 §6.3.3 E3, RFC 6298 §5.4);
//! 2. *timeout* if it was already sent again and nothing was acknowledged for
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

use super::ranges::Ranges;
use super::results::Rtt;
use std::collections::{BTreeMap, VecDeque};

/// Why something was sent again.
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
    Again { cause: Cause, inferred: bool, spurious: bool },
    /// Not seen before; overtaken.
    Reordered,
}

/// Something known to have been sent again needlessly, after it passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Needless {
    pub stream: u16,
    pub path: usize,
    /// Its line in the ladder.
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
    sent: BTreeMap<i64, Sent>,
    /// Missing between what was seen: end, and when the gap opened.
    holes: BTreeMap<i64, (i64, u64)>,
    /// After the last unit seen.
    high: i64,
    begun: bool,
    /// First unit not acknowledged.
    cumulative: i64,
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
    /// The handshake's round trip.
    pub round_trip: Option<u64>,
    pub rtt: Rtt,
    pub timeouts: u64,
    pub not_captured: u64,
    /// Found since last asked.
    pub needless: Vec<Needless>,
    /// Round trips since last asked, and on which path the data went.
    pub samples: Vec<(usize, u64)>,
}

/// Records kept at most.
const MOST: usize = 1 << 16;
/// Of what is acknowledged.
const HISTORY: usize = 1_024;
/// Acknowledgements with gaps kept.
const REPORTS: usize = 64;
const LEAST_TIMEOUT: u64 = 100_000_000;

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
            self.again(at, start, end, path)
        } else {
            let opened = self.fill(start, end);
            since = opened.unwrap_or(at);
            self.late(at, since, start, path)
        };
        self.high = self.high.max(end);
        self.seen.insert(start, end);
        let times = if passing == Passing::New || passing == Passing::Reordered { 1 } else { 2 };
        let acked = end <= self.cumulative;
        let spurious = matches!(passing, Passing::Again { spurious: true, .. });
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
        }
        self.prune();
        passing
    }

    /// Data that just passed is drawn in this line of the ladder.
    pub fn drawn(&mut self, start: i64, end: i64, line: usize) {
        for sent in self.over(start, end) {
            sent.line = Some(line);
        }
    }

    /// An acknowledgement passes: everything before `cumulative` has arrived, and so have `blocks`. `repeated`: it is
    /// one that only a gap explains, though it shows no blocks.
    pub fn acknowledged(&mut self, at: u64, cumulative: i64, blocks: &[(i64, i64)], repeated: bool) {
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
            self.holes = self.holes.split_off(&cumulative);
        }
        for &(start, end) in blocks {
            // What the last acknowledgement said already is not gone through again.
            let before = self.blocks.iter().find(|(s, e)| *s <= start && start <= *e).copied();
            let start = before.map_or(start, |(_, until)| until.max(start));
            self.arrived(at, start, end, &mut newest);
        }
        if let Some((path, sample)) = newest {
            self.measured(path, sample);
        }
        let highest = blocks.iter().map(|(_, end)| *end).max();
        let units = match highest {
            Some(highest) if highest > cumulative => Some((cumulative, highest)),
            _ => repeated.then_some((cumulative, cumulative + 1)),
        };
        if let Some(units) = units {
            self.reports.push_back(Report { at, units });
            if self.reports.len() > REPORTS {
                self.reports.pop_front();
            }
        }
        self.blocks.clear();
        self.blocks.extend_from_slice(blocks);
        self.last_ack = Some(at);
        self.prune();
    }

    /// The receiver had `start..end` more than once.
    pub fn duplicate(&mut self, start: i64, end: i64) {
        let mut found = Vec::new();
        for sent in self.over(start, end).filter(|sent| sent.times > 1 && !sent.needless) {
            sent.needless = true;
            found.push(Needless { stream: sent.stream, path: sent.path, line: sent.line });
        }
        self.needless.append(&mut found);
    }

    /// After the last unit seen or acknowledged.
    pub fn high(&self) -> i64 {
        self.high
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

    fn overlaps(&self, start: i64, end: i64) -> bool {
        let last = self.sent.range(..end).next_back();
        last.is_some_and(|(_, sent)| sent.end > start) || self.seen.covers(start, end)
    }

    fn again(&mut self, at: u64, start: i64, end: i64, path: usize) -> Passing {
        let acked = end <= self.cumulative || self.blocks.iter().any(|&(s, e)| s <= start && end <= e);
        let record = self.over(start, end).next().copied();
        let (cause, had) = match record {
            Some(sent) => {
                (self.cause(at, start, (sent.last, sent.since, sent.path, sent.times), path), sent.acked)
            }
            // Long acknowledged, and forgotten.
            None => (Cause::Other, true),
        };
        Passing::Again { cause, inferred: false, spurious: acked || had }
    }

    /// Not seen before, but what follows it was.
    fn late(&mut self, at: u64, opened: u64, start: i64, path: usize) -> Passing {
        let patience = self.round_trip.map_or(3_000_000, |trip| trip / 5 * 4);
        if at - opened.min(at) < patience {
            return Passing::Reordered;
        }
        // The first repair comes within few round trips: after that, it was one of several.
        let slow = self.round_trip.is_some_and(|trip| at - opened.min(at) >= 4 * trip);
        let cause = self.cause(at, start, (opened, opened, path, 1 + u32::from(slow)), path);
        Passing::Again { cause, inferred: true, spurious: false }
    }

    fn cause(&mut self, at: u64, start: i64, sent: (u64, u64, usize, u32), path: usize) -> Cause {
        let (last, since, before, times) = sent;
        if self.timed_out.get(&before).is_some_and(|&timeout| timeout > last) {
            return Cause::Timeout;
        }
        let timeout = self.timeout();
        let quiet = at.saturating_sub(last.max(self.last_advance));
        let silence = at.saturating_sub(self.last_ack.unwrap_or(last));
        let missed =
            |report: &&Report| report.at >= since && report.units.0 <= start && start < report.units.1;
        let reports = self.reports.iter().filter(missed).count();
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

    /// The least that a retransmission timer can have waited.
    fn timeout(&self) -> u64 {
        let (smoothed, deviation) = self.smoothed.unwrap_or_default();
        let trip = smoothed.max(self.round_trip.unwrap_or(0));
        (smoothed + 4 * deviation).max(trip / 2 * 5).max(LEAST_TIMEOUT)
    }

    fn hole(&mut self, start: i64, end: i64, at: u64) {
        self.holes.insert(start, (end, at));
        if self.holes.len() > MOST {
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
        let (mut found, mut done) = (Vec::new(), 0);
        for sent in self.over(start, end).filter(|sent| !sent.acked && sent.end <= end) {
            sent.acked = true;
            done += 1;
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
        self.history += done;
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
        while self.sent.len() > MOST
            || (self.history > HISTORY && self.sent.first_key_value().is_some_and(|(_, sent)| sent.acked))
        {
            let Some((_, sent)) = self.sent.pop_first() else { return };
            self.history -= usize::from(sent.acked && self.history > 0);
        }
    }
}
