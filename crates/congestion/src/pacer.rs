//! The pacer spreads packets over the round-trip time instead of sending them in bursts.
//!
//! Each sent packet advances a clock by the time that the packet takes at the pacing rate. The next packet may be sent
//! once real time has reached the clock. The clock lags behind real time by at most the time of ten packets, so a burst
//! has at most ten packets. If acknowledgements arrive regularly, no timer is needed.
//!
//! The pacing rate is a multiple of the window per smoothed round-trip time. The factor is 2 in slow start and 1.2
//! afterwards, as in Linux (net.ipv4.tcp_pacing_ss_ratio = 200, tcp_pacing_ca_ratio = 120). RFC 9002 §7.7 describes the
//! same method. A controller may provide a pacing rate of its own instead.

use anabranch_base::time::{Duration, nanos};
use anabranch_base::{BitRate, Instant};

/// Determines when the next packet may be sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    /// The time at which the packets sent so far would have left at the pacing rate.
    clock: Instant,
}

/// The number of packets that may be sent together (RFC 9002 §7.7: a burst no larger than the initial window).
const MAX_BURST_PACKETS: u64 = 10;

impl Pacer {
    /// Returns the time from which the next packet may be sent. The time may be in the past.
    #[inline]
    #[must_use]
    pub fn ready_at(&self) -> Instant {
        self.clock
    }

    /// Records that `bytes` bytes were sent at `now` in packets of at most `mss` bytes. The rate is computed from
    /// `window` and the round-trip time `smoothed`.
    pub fn on_sent(
        &mut self,
        now: Instant,
        bytes: u64,
        window: u64,
        mss: u64,
        slow_start: bool,
        smoothed: Option<Duration>,
    ) {
        let Some(smoothed) = smoothed else { return };
        let (times, over) = if slow_start { (2, 1) } else { (6, 5) };
        let round = u128::from(nanos(smoothed)) * over;
        let span = |bytes: u64| (u128::from(bytes) * round / (u128::from(window.max(1)) * times)) as u64;
        self.advance(now, span(MAX_BURST_PACKETS * mss), span(bytes));
    }

    /// Records that `bytes` bytes were sent at `now` in packets of at most `mss` bytes. The pacing rate is `rate`.
    pub fn on_sent_at_rate(&mut self, now: Instant, bytes: u64, rate: BitRate, mss: u64) {
        self.advance(now, rate.nanos_for(MAX_BURST_PACKETS * mss), rate.nanos_for(bytes));
    }

    /// Advances the pacer's clock by `span` nanoseconds. If the clock is more than `most` nanoseconds behind `now`, the
    /// clock is first set to `most` nanoseconds before `now`.
    #[inline]
    fn advance(&mut self, now: Instant, most: u64, span: u64) {
        let earliest = now.as_nanos().saturating_sub(most);
        self.clock = self.clock.max(Instant::from_nanos(earliest)).plus_nanos(span);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of packets sent in each quarter of a round trip of 100 ms.
    fn quarters(window: u64, slow_start: bool) -> [u64; 4] {
        let rtt = Some(Duration::from_millis(100));
        let mut pacer = Pacer::default();
        let mut counts = [0; 4];
        let begin = Instant::from_millis(1_000);
        let mut now = begin;
        pacer.on_sent(now, 1_000, window * 1_000, 1_000, slow_start, rtt);
        let mut left = window - 1;
        counts[0] += 1;
        while left > 0 {
            now = now.max(pacer.ready_at());
            pacer.on_sent(now, 1_000, window * 1_000, 1_000, slow_start, rtt);
            counts[(now.since(begin).as_millis() as usize / 25).min(3)] += 1;
            left -= 1;
        }
        counts
    }

    #[test]
    fn a_window_is_spread_over_half_a_round_trip_in_slow_start_and_most_of_it_beyond() {
        assert_eq!(quarters(100, true), [60, 40, 0, 0]);
        assert_eq!(quarters(100, false), [41, 30, 29, 0]);
    }

    #[test]
    fn ten_packets_go_at_once() {
        assert_eq!(quarters(10, true), [10, 0, 0, 0]);
    }

    #[test]
    fn nothing_is_held_back_before_a_round_trip_is_known() {
        let mut pacer = Pacer::default();
        pacer.on_sent(Instant::from_millis(5), 100_000, 1, 1_000, true, None);
        assert_eq!(pacer.ready_at(), Instant::ZERO);
    }
}
