//! RACK detects losses by time: a segment counts as lost if another segment that was sent sufficiently later has been
//! delivered.
//!
//! Owns the reordering window and the state of the newest delivery. The transport owns the scoreboard, the congestion
//! window and the timer. For each acknowledgement, the transport passes the delivered segments to [`Rack`] (as a
//! [`Delivered`]), and then asks which outstanding segments are lost. The end position of a segment is a byte position
//! in TCP, and the TSN offset of the chunk plus one in SCTP. If two segments were sent at the same instant, the segment
//! with the higher end position counts as sent later.
//!
//! Implements RFC 8985 §6.2 (RACK, steps 1 to 5) and the condition in §6.3.

use anabranch_base::Instant;
use anabranch_base::time::{Duration, nanos};

/// The segments that an acknowledgement newly delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivered {
    /// The delivered segment that was sent last: its send time, its end position, and whether it was a retransmission.
    newest: Option<(Instant, u64, bool)>,
    /// The lowest end position among the delivered segments that were never retransmitted.
    lowest_original: u64,
    /// The highest end position of the delivered segments.
    highest: u64,
}

impl Default for Delivered {
    fn default() -> Self {
        Self { newest: None, lowest_original: u64::MAX, highest: 0 }
    }
}

impl Delivered {
    /// Adds a segment or chunk: the time when it was last sent, its end position, and whether it was sent more than
    /// once.
    #[inline]
    pub fn add(&mut self, sent_at: Instant, end: u64, retransmitted: bool) {
        if self.newest.is_none_or(|(at, last, _)| (at, last) < (sent_at, end)) {
            self.newest = Some((sent_at, end, retransmitted));
        }
        if !retransmitted {
            self.lowest_original = self.lowest_original.min(end);
        }
        self.highest = self.highest.max(end);
    }

    /// Returns the round-trip time of the newest delivered segment, if that segment was sent only once.
    #[inline]
    #[must_use]
    pub fn sample(&self, now: Instant) -> Option<Duration> {
        self.newest.filter(|(_, _, retransmitted)| !retransmitted).map(|(at, _, _)| now.since(at))
    }

    /// Returns the send time of the newest delivered segment.
    #[inline]
    #[must_use]
    pub fn newest_sent(&self) -> Option<Instant> {
        self.newest.map(|(at, _, _)| at)
    }

    /// Returns whether no segment was delivered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.newest.is_none()
    }
}

/// The verdict on a segment that was sent and has not been acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// No segment that was sent later has been delivered, so RACK cannot judge whether this segment is lost.
    Unknown,
    /// A segment that was sent later has been delivered. At the given time, the judged segment counts as lost if it has
    /// not been acknowledged.
    Until(Instant),
    /// The segment is lost.
    Lost,
}

/// The state of RACK for one path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rack {
    /// RACK.xmit_ts and RACK.end_seq: send time and end position of the newest delivered segment.
    newest: Option<(Instant, u64)>,
    /// RACK.rtt: the round-trip time of the newest delivered segment, in nanoseconds.
    rtt: u64,
    /// RACK.min_RTT in nanoseconds: the minimum of the current period and the minimum of the previous period. A period
    /// lasts [`MIN_RTT_SPAN`].
    min_rtt: [u64; 2],
    min_rtt_since: Instant,
    /// RACK.fack: the highest end position of all delivered segments.
    highest: u64,
    reordering_seen: bool,
    /// RACK.reo_wnd_mult minus one: the number of times that the reordering window was widened.
    reo_wnd_steps: u32,
    /// RACK.reo_wnd_persist: the number of recoveries after which the widened reordering window is reset.
    recoveries_left: u32,
    /// RACK.dsack_round: the reordering window is not widened again before this position is acknowledged.
    widened_until: u64,
}

/// The number of recoveries after which a widened reordering window is reset (RFC 8985 §6.2, step 4).
const RECOVERIES: u32 = 16;
/// The length of each of the two periods whose minimum round-trip times are kept (RFC 8985 §6.2 step 1: a windowed
/// filter). Two periods last 5 minutes, as the window of Linux does.
const MIN_RTT_SPAN: Duration = Duration::from_secs(150);

impl Rack {
    /// Processes the segments that an acknowledgement delivered (RFC 8985 §6.2 steps 1 to 3).
    pub fn on_delivered(&mut self, now: Instant, delivered: &Delivered) {
        let Some((at, end, retransmitted)) = delivered.newest else { return };
        // RFC 8985 §6.2 step 3: a segment that was never retransmitted has arrived after segments with higher end
        // positions, so it was reordered.
        self.reordering_seen |= delivered.lowest_original < self.highest;
        self.highest = self.highest.max(delivered.highest);
        let rtt = nanos(now.since(at)).max(1);
        if retransmitted {
            // RFC 8985 §6.2 step 2: less than the minimum round-trip time has passed since the retransmission, so the
            // original segment was acknowledged.
            if rtt < self.min_rtt() {
                return;
            }
        } else {
            self.take_minimum(now, rtt);
        }
        self.rtt = rtt;
        if self.newest.is_none_or(|newest| newest < (at, end)) {
            self.newest = Some((at, end));
        }
    }

    fn take_minimum(&mut self, now: Instant, rtt: u64) {
        if now.since(self.min_rtt_since) >= MIN_RTT_SPAN || self.min_rtt[0] == 0 {
            self.min_rtt = [rtt, self.min_rtt[0]];
            self.min_rtt_since = now;
        } else if rtt < self.min_rtt[0] {
            self.min_rtt[0] = rtt;
        }
    }

    fn min_rtt(&self) -> u64 {
        let [this, last] = self.min_rtt;
        if last == 0 { this } else { this.min(last) }
    }

    /// Processes a report that a retransmission was unnecessary (a DSACK, a duplicate TSN). Such a report means that
    /// the reordering window was too small. `acked` is the cumulative acknowledgement, and `next` is the end of the
    /// data sent so far.
    pub fn on_spurious_retransmission(&mut self, acked: u64, next: u64) {
        // RFC 8985 §6.2 step 4: the reordering window is widened at most once per round trip.
        if acked >= self.widened_until {
            self.widened_until = next;
            self.reo_wnd_steps = (self.reo_wnd_steps + 1).min(WIDEST);
        }
        self.recoveries_left = RECOVERIES;
    }

    /// Counts a recovery that has ended. After several recoveries, a widened reordering window is reset.
    pub fn on_recovered(&mut self) {
        self.recoveries_left = self.recoveries_left.saturating_sub(1);
        if self.recoveries_left == 0 {
            self.reo_wnd_steps = 0;
        }
    }

    /// RFC 8985 §6.2 step 4, RACK_update_reo_wnd: returns the reordering window. This is the time for which a segment
    /// may be late before it counts as lost. `sure` is set in a recovery, or if at least DupThresh later segments were
    /// delivered.
    #[must_use]
    pub fn window(&self, smoothed: Option<Duration>, sure: bool) -> Duration {
        if !self.reordering_seen && sure {
            return Duration::ZERO;
        }
        let wide = (self.min_rtt() / 4).saturating_mul(u64::from(1 + self.reo_wnd_steps));
        Duration::from_nanos(wide.min(smoothed.map_or(u64::MAX, nanos)))
    }

    /// RFC 8985 §6.2 step 5: judges a segment. `at` is the time at which the segment was sent, and `end` is the
    /// position in the stream at which its data ends. `window` is the reordering window.
    #[inline]
    #[must_use]
    pub fn judge(&self, now: Instant, at: Instant, end: u64, window: Duration) -> Verdict {
        match self.newest {
            Some(newest) if newest > (at, end) => {
                let until = at.plus_nanos(self.rtt.saturating_add(nanos(window)));
                if until <= now { Verdict::Lost } else { Verdict::Until(until) }
            }
            _ => Verdict::Unknown,
        }
    }

    /// RFC 8985 §6.3: returns whether a segment sent at `at` is old enough to count as lost when the retransmission
    /// timer expires.
    #[must_use]
    pub fn is_overdue(&self, now: Instant, at: Instant, window: Duration) -> bool {
        self.newest.is_none() || at.plus_nanos(self.rtt.saturating_add(nanos(window))) <= now
    }
}

/// The largest value of `reo_wnd_steps`. The smoothed round-trip time also limits the window, so larger values would
/// have no effect.
const WIDEST: u32 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn arrives(rack: &mut Rack, now: u64, sent: &[(u64, u64, bool)]) {
        let mut delivered = Delivered::default();
        for &(ms, end, retransmitted) in sent {
            delivered.add(at(ms), end, retransmitted);
        }
        rack.on_delivered(at(now), &delivered);
    }

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn what_left_a_quarter_round_trip_before_an_arrival_is_lost() {
        let mut rack = Rack::default();
        assert_eq!(rack.judge(at(0), at(0), 1, MS(0)), Verdict::Unknown);
        arrives(&mut rack, 100, &[(0, 1, false)]);
        arrives(&mut rack, 102, &[(2, 3, false)]);
        let window = rack.window(Some(MS(100)), false);
        assert_eq!(window, MS(25));
        assert_eq!(rack.judge(at(102), at(1), 2, window), Verdict::Until(at(126)));
        assert_eq!(rack.judge(at(126), at(1), 2, window), Verdict::Lost);
        // RACK cannot judge a segment that was sent after the newest delivered segment. Of two segments sent at the
        // same instant, the segment with the higher end position counts as sent later.
        assert_eq!(rack.judge(at(500), at(3), 4, window), Verdict::Unknown);
        assert_eq!(rack.judge(at(500), at(2), 4, window), Verdict::Unknown);
        assert_eq!(rack.judge(at(500), at(2), 2, window), Verdict::Lost);
        // In a recovery, the reordering window is zero as long as no reordering has been seen.
        assert_eq!(rack.window(Some(MS(100)), true), MS(0));
    }

    #[test]
    fn reordering_is_seen_once_something_old_and_sent_once_arrives_late() {
        let mut rack = Rack::default();
        // One acknowledgement delivers two segments, and its blocks list the later segment first. This does not show
        // reordering.
        arrives(&mut rack, 100, &[(0, 3, false), (0, 1, false)]);
        assert_eq!(rack.window(Some(MS(100)), true), MS(0));
        // The late arrival of a retransmission does not show reordering.
        arrives(&mut rack, 160, &[(60, 2, true)]);
        assert_eq!(rack.window(Some(MS(100)), true), MS(0));
        arrives(&mut rack, 161, &[(1, 5, false)]);
        arrives(&mut rack, 162, &[(1, 4, false)]);
        assert_eq!(rack.window(Some(MS(100)), true), MS(25));
    }

    #[test]
    fn duplicates_widen_the_window_up_to_the_round_trip_and_sixteen_recoveries_forget_it() {
        let mut rack = Rack::default();
        arrives(&mut rack, 100, &[(0, 1, false)]);
        rack.on_spurious_retransmission(1, 10);
        rack.on_spurious_retransmission(5, 12);
        assert_eq!(rack.window(Some(MS(90)), false), MS(50), "once a round trip");
        rack.on_spurious_retransmission(10, 20);
        rack.on_spurious_retransmission(20, 30);
        assert_eq!(rack.window(Some(MS(90)), false), MS(90));
        for _ in 0..16 {
            assert_eq!(rack.window(Some(MS(90)), false), MS(90));
            rack.on_recovered();
        }
        assert_eq!(rack.window(Some(MS(90)), false), MS(25));
    }

    #[test]
    fn an_early_ack_does_not_count_for_the_retransmission() {
        let mut rack = Rack::default();
        arrives(&mut rack, 100, &[(0, 1, false)]);
        arrives(&mut rack, 160, &[(150, 2, true)]);
        assert_eq!(
            rack.judge(at(1000), at(149), 1, MS(0)),
            Verdict::Unknown,
            "the retransmission proved nothing"
        );
        arrives(&mut rack, 260, &[(155, 2, true)]);
        assert_eq!(rack.judge(at(1000), at(149), 1, MS(0)), Verdict::Lost);
    }
}
