//! HyStart as in Linux's CUBIC. Slow start ends when a train of acknowledgements has lasted for half a round trip, or
//! when round-trip times grow.
//!
//! Owns the current round and the minimum round-trip time; the window belongs to the controller.
//! [`HyStart`](crate::HyStart) (RFC 9406) is derived from this algorithm. RFC 9406 ignores trains of acknowledgements,
//! and slows the growth of the window for some rounds before slow start ends.
//!
//! No RFC specifies this algorithm. It is that of S. Ha and I. Rhee, "Taming the elephants: new TCP slow start", 2011
//! (doi 10.1016/j.comnet.2011.01.014). The constants are those of net/ipv4/tcp_cubic.c in Linux 6.

use anabranch_base::Instant;
use anabranch_base::time::{Duration, nanos};

/// The state of Linux's HyStart for one path. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct HyStartLinux {
    /// Whether trains of acknowledgements are ignored, so that only growing round-trip times end slow start.
    without_trains: bool,
    /// Whether HyStart has found a reason to end slow start.
    is_over: bool,
    has_round: bool,
    /// The start of the current round.
    round_start: Instant,
    /// The position at which the current round ends.
    round_end: u64,
    /// The time of the last acknowledgement of a train.
    train_end: Instant,
    /// `current` is the minimum round-trip time of this round, 0 while unknown. `samples` is the number of round-trip
    /// times measured in this round.
    current: u64,
    samples: u32,
    /// The minimum round-trip time in nanoseconds since the start of the connection or the last timeout; 0 while
    /// unknown.
    min_rtt: u64,
}

/// hystart_low_window: while the window has fewer segments, HyStart is inactive.
const LOW_WINDOW: u64 = 16;
/// hystart_ack_delta_us: acknowledgements that arrive at most this far apart form a train.
const TRAIN_GAP: Duration = Duration::from_millis(2);
/// HYSTART_MIN_SAMPLES: the minimum of a round's round-trip times may end slow start only if the round has at least
/// this number of them.
const SAMPLES: u32 = 8;
/// HYSTART_DELAY_MIN and HYSTART_DELAY_MAX, in nanoseconds. Slow start ends when the round-trip time has risen by an
/// eighth of its minimum, limited to these bounds.
const MIN_RISE: u64 = 4_000_000;
const MAX_RISE: u64 = 16_000_000;
/// hystart_ack_delay: an allowance for segments that are sent together. The allowance is the time to send four bursts
/// of 64 KiB (`AGGREGATED` bytes) at two windows per round trip, the rate of slow start. It is at most
/// `MAX_AGGREGATION` nanoseconds.
const MAX_AGGREGATION: u64 = 1_000_000;
const AGGREGATED: u64 = 4 * 65_536;

impl HyStartLinux {
    /// Creates the state of the variant that ignores trains, as in QUIC stacks derived from Chromium.
    #[must_use]
    pub fn without_trains() -> Self {
        Self { without_trains: true, ..Self::default() }
    }

    /// Records a round-trip time that was measured on data sent only once. Called in slow start and outside of it.
    #[inline]
    pub fn on_round_trip(&mut self, rtt: Duration) {
        let rtt = nanos(rtt).max(1);
        if self.min_rtt == 0 || rtt < self.min_rtt {
            self.min_rtt = rtt;
        }
    }

    /// Returns the minimum round-trip time, once measured.
    #[inline]
    #[must_use]
    pub fn min_rtt(&self) -> Option<Duration> {
        (self.min_rtt > 0).then(|| Duration::from_nanos(self.min_rtt))
    }

    /// Returns whether HyStart has ended slow start.
    #[inline]
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Restarts all measurements, because the retransmission timer has expired (tcp_cubic.c, TCP_CA_Loss).
    pub fn on_timeout(&mut self) {
        *self = Self { without_trains: self.without_trains, ..Self::default() };
    }

    /// Processes an acknowledgement that gave the round-trip sample `rtt`. Data up to position `acked` is acknowledged,
    /// and data up to position `next` has been sent. `window` and `mss` are in bytes. Must be called only in slow
    /// start, and after [`on_round_trip`](Self::on_round_trip). Returns true if slow start must end.
    pub fn on_ack(
        &mut self,
        now: Instant,
        (acked, next): (u64, u64),
        rtt: Duration,
        (window, mss): (u64, u64),
    ) -> bool {
        if self.is_over {
            return false;
        }
        if !self.has_round || acked > self.round_end {
            self.has_round = true;
            (self.round_start, self.train_end) = (now, now);
            self.round_end = next;
            (self.current, self.samples) = (0, 0);
        }
        if window < LOW_WINDOW * mss {
            return false;
        }
        if !self.without_trains && now.since(self.train_end) <= TRAIN_GAP {
            self.train_end = now;
            // If a whole window is sent at once, its acknowledgements arrive at the rate of the bottleneck. If this
            // train of acknowledgements lasts for half a round trip, the window is half of the bandwidth-delay product.
            let apart = u128::from(AGGREGATED) * u128::from(self.min_rtt) / u128::from(2 * window.max(1));
            let aggregation = u64::try_from(apart).unwrap_or(u64::MAX).min(MAX_AGGREGATION);
            let longest = self.min_rtt.saturating_add(aggregation) / 2;
            self.is_over |= nanos(now.since(self.round_start)) > longest;
        }
        let rtt = nanos(rtt).max(1);
        if self.current == 0 || rtt < self.current {
            self.current = rtt;
        }
        if self.samples < SAMPLES {
            self.samples += 1;
        } else {
            let rise = (self.min_rtt / 8).clamp(MIN_RISE, MAX_RISE);
            self.is_over |= self.current > self.min_rtt.saturating_add(rise);
        }
        self.is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;
    const MSS: u64 = 1000;

    /// Runs a round that starts at `start`, with `n` acknowledgements of one segment each, `gap` apart. Returns the
    /// index of the acknowledgement that ended slow start, if any.
    fn round(
        hystart: &mut HyStartLinux,
        start: Instant,
        first: u64,
        (n, gap): (u64, Duration),
        rtt: Duration,
    ) -> Option<u64> {
        (0..n).find(|&i| {
            hystart.on_round_trip(rtt);
            let now = start + gap * i as u32;
            hystart.on_ack(now, (first + i + 1, first + n), rtt, (n * MSS, MSS))
        })
    }

    #[test]
    fn a_train_of_half_a_round_trip_ends_it() {
        let mut hystart = HyStartLinux::default();
        let at = Instant::from_millis;
        assert_eq!(round(&mut hystart, at(100), 0, (20, MS(1)), MS(100)), None, "a train of 20 ms");
        assert_eq!(round(&mut hystart, at(200), 20, (40, MS(1)), MS(100)), None, "of 40 ms");
        // Slow start ends when the train has lasted for 50.5 ms: half a round trip of 100 ms, plus half of the 1 ms
        // allowed for segments sent together.
        assert_eq!(round(&mut hystart, at(300), 60, (80, MS(1)), MS(100)), Some(51));
        assert!(hystart.is_over());
    }

    #[test]
    fn without_trains_only_growing_round_trips_end_it() {
        let mut hystart = HyStartLinux::without_trains();
        let at = Instant::from_millis;
        assert_eq!(round(&mut hystart, at(100), 0, (20, MS(1)), MS(100)), None);
        hystart.on_timeout();
        assert_eq!(round(&mut hystart, at(300), 60, (80, MS(1)), MS(100)), None, "a train of 80 ms");
        assert_eq!(round(&mut hystart, at(400), 140, (80, MS(1)), MS(113)), Some(8));
    }

    #[test]
    fn what_comes_farther_apart_is_no_train() {
        let mut hystart = HyStartLinux::default();
        assert_eq!(
            round(&mut hystart, Instant::from_millis(100), 0, (30, Duration::from_micros(2_001)), MS(100)),
            None
        );
    }

    #[test]
    fn a_round_whose_first_nine_round_trips_are_all_longer_ends_it() {
        let at = Instant::from_millis;
        let far = (20, MS(3));
        let mut hystart = HyStartLinux::default();
        assert_eq!(round(&mut hystart, at(100), 0, far, MS(100)), None);
        assert_eq!(round(&mut hystart, at(200), 20, far, MS(112)), None, "less than an eighth");
        assert_eq!(round(&mut hystart, at(300), 40, far, MS(113)), Some(8));
        hystart.on_timeout();
        assert!(!hystart.is_over() && hystart.min_rtt().is_none());
    }

    #[test]
    fn a_small_window_is_left_alone() {
        let mut hystart = HyStartLinux::default();
        let at = Instant::from_millis;
        assert_eq!(round(&mut hystart, at(100), 0, (15, MS(1)), MS(10)), None);
        assert_eq!(round(&mut hystart, at(200), 15, (15, MS(1)), MS(60)), None);
        assert!(round(&mut hystart, at(300), 30, (16, MS(1)), MS(60)).is_some());
    }
}
