//! HyStart++ ends slow start before the queue overflows: growing round-trip times show that the queue is filling.
//!
//! Owns the boundaries of rounds (one round trip each) and their minimum round-trip times. The window belongs to the
//! controller. [`HyStart`] only decides at which rate slow start continues ([`Acked::conservative`](crate::Acked)) and
//! when it ends ([`Controller::leave_slow_start`](crate::Controller)).
//!
//! Implements RFC 9406 §4.2 and §4.3.

use anabranch_base::time::{Duration, nanos};

/// How slow start continues after an acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlowStart {
    /// Slow start continues at its full rate.
    Full,
    /// Slow start continues at a quarter of its rate (RFC 9406 §4.2: Conservative Slow Start).
    Conservative,
    /// Slow start ends.
    Leave,
}

/// The state of HyStart++ for one path.
#[derive(Clone, Copy, Debug, Default)]
pub struct HyStart {
    /// Whether HyStart++ has ended. Only the first slow start is observed (RFC 9406 §4.3).
    done: bool,
    /// windowEnd of RFC 9406 §4.2: the position at which the current round ends.
    round_end: u64,
    /// lastRoundMinRTT and currentRoundMinRTT: the minimum round-trip times of the last and the current round in
    /// nanoseconds; 0 while unknown.
    last_min_rtt: u64,
    current_min_rtt: u64,
    /// rttSampleCount of RFC 9406 §4.2: the number of round-trip time samples in the current round.
    samples: u32,
    /// During conservative slow start, cssBaselineMinRtt in nanoseconds and the number of rounds so far.
    conservative: Option<(u64, u32)>,
}

/// RFC 9406 §4.3: MIN_RTT_THRESH and MAX_RTT_THRESH, in nanoseconds.
const MIN_RISE: u64 = 4_000_000;
const MAX_RISE: u64 = 16_000_000;
/// RFC 9406 §4.3, MIN_RTT_DIVISOR: conservative slow start begins if the minimum round-trip time rises from one round
/// to the next by 1/`DIVISOR`. This threshold is limited to the range from `MIN_RISE` to `MAX_RISE`.
const DIVISOR: u64 = 8;
/// RFC 9406 §4.3, N_RTT_SAMPLE: the number of round-trip samples that a round needs, before its minimum is compared
/// with that of the previous round.
const SAMPLES: u32 = 8;
/// RFC 9406 §4.3, CSS_ROUNDS: the number of rounds of conservative slow start.
const ROUNDS: u32 = 5;

impl HyStart {
    /// CSS_GROWTH_DIVISOR of RFC 9406 §4.3: in conservative slow start the window grows at 1/`GROWTH` of the usual
    /// rate.
    pub(crate) const GROWTH: u64 = 4;

    /// Returns whether HyStart++ has ended.
    #[inline]
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.done
    }

    /// Ends HyStart++, because a loss or an ECN mark has ended slow start.
    pub fn end(&mut self) {
        self.done = true;
    }

    /// Processes an acknowledgement up to position `acked`, while data up to position `next` has been sent. `rtt` is
    /// the round-trip time that the acknowledgement gave, if any. Must be called only while the window is below the
    /// slow-start threshold.
    pub fn on_ack(&mut self, acked: u64, next: u64, rtt: Option<Duration>) -> SlowStart {
        if self.done {
            return SlowStart::Full;
        }
        if let Some(rtt) = rtt {
            let rtt = nanos(rtt).max(1);
            self.current_min_rtt =
                if self.current_min_rtt == 0 { rtt } else { self.current_min_rtt.min(rtt) };
            self.samples = self.samples.saturating_add(1);
        }
        let enough = self.samples >= SAMPLES && self.current_min_rtt > 0;
        match self.conservative {
            None if enough && self.last_min_rtt > 0 => {
                let rise = (self.last_min_rtt / DIVISOR).clamp(MIN_RISE, MAX_RISE);
                if self.current_min_rtt >= self.last_min_rtt.saturating_add(rise) {
                    self.conservative = Some((self.current_min_rtt, 0));
                }
            }
            // The round-trip time has fallen below the baseline: its rise was temporary, so normal slow start resumes.
            Some((baseline, _)) if enough && self.current_min_rtt < baseline => self.conservative = None,
            _ => {}
        }
        if acked >= self.round_end {
            self.round_end = next;
            (self.last_min_rtt, self.current_min_rtt, self.samples) = (self.current_min_rtt, 0, 0);
            if let Some((_, rounds)) = &mut self.conservative {
                *rounds += 1;
                if *rounds >= ROUNDS {
                    self.done = true;
                    return SlowStart::Leave;
                }
            }
        }
        if self.conservative.is_some() { SlowStart::Conservative } else { SlowStart::Full }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs one round of ten acknowledgements with this round-trip time. Returns the result of the last
    /// acknowledgement.
    fn round(hystart: &mut HyStart, end: &mut u64, rtt_ms: u64) -> SlowStart {
        let next = *end + 10;
        let mut advice = SlowStart::Full;
        for acked in *end + 1 - 10..=*end {
            advice = hystart.on_ack(acked, next, Some(Duration::from_millis(rtt_ms)));
        }
        *end = next;
        advice
    }

    #[test]
    fn a_rising_round_trip_slows_it_down_and_ends_it_after_five_rounds() {
        let (mut hystart, mut end) = (HyStart::default(), 10);
        hystart.on_ack(0, 10, None);
        assert_eq!(round(&mut hystart, &mut end, 40), SlowStart::Full);
        assert_eq!(round(&mut hystart, &mut end, 44), SlowStart::Full, "less than an eighth");
        assert_eq!(round(&mut hystart, &mut end, 50), SlowStart::Conservative);
        for _ in 0..3 {
            assert_eq!(round(&mut hystart, &mut end, 55), SlowStart::Conservative);
        }
        assert_eq!(round(&mut hystart, &mut end, 55), SlowStart::Leave);
        assert!(hystart.is_over());
        assert_eq!(round(&mut hystart, &mut end, 99), SlowStart::Full);
    }

    #[test]
    fn a_round_trip_that_falls_again_takes_it_back() {
        let (mut hystart, mut end) = (HyStart::default(), 10);
        hystart.on_ack(0, 10, None);
        round(&mut hystart, &mut end, 40);
        assert_eq!(round(&mut hystart, &mut end, 60), SlowStart::Conservative);
        assert_eq!(round(&mut hystart, &mut end, 41), SlowStart::Full);
        assert!(!hystart.is_over());
    }

    #[test]
    fn fewer_than_eight_rtt_samples_have_no_effect() {
        let mut hystart = HyStart::default();
        for acked in 0..200 {
            let rtt = Duration::from_millis(10 + acked);
            assert_eq!(hystart.on_ack(acked, acked + 7, Some(rtt)), SlowStart::Full);
        }
    }
}
