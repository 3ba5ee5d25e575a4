//! Estimates the round-trip time and computes the retransmission timeout.
//!
//! Implements RFC 6298 and RFC 9260 §6.3.1. They differ only in constants: the initial, minimum and maximum RTO, and
//! the clock granularity.

use anabranch_base::time::{Duration, nanos};

/// The constants of an [`RttEstimator`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RttConfig {
    /// The RTO before the first measurement.
    pub rto_initial: Duration,
    /// The smallest RTO.
    pub rto_min: Duration,
    /// The largest RTO, including the back-off.
    pub rto_max: Duration,
    /// The clock granularity G: the RTO exceeds SRTT by 4·RTTVAR, but at least by G.
    pub granularity: Duration,
}

/// The values of [`RttConfig`] in nanoseconds. In this form they need less memory, which matters because every path of
/// every association has them.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    initial: u64,
    min: u64,
    max: u64,
    granularity: u64,
}

impl Bounds {
    /// RFC 6298 §2.4, §2.5, RFC 9260 §6.3.1 C6, C7: limits `rto` to the bounds. If the minimum exceeds the maximum, the
    /// maximum applies, so that a retransmission never waits too long. The transports reject a minimum above the
    /// maximum.
    #[inline]
    fn within(self, rto: u64) -> u64 {
        rto.max(self.min).min(self.max)
    }
}

/// The smoothed round-trip time and its variation in nanoseconds.
#[derive(Clone, Copy, Debug)]
enum Estimate {
    /// There is no sample yet.
    None,
    /// From a sample that may be too long. The next sample replaces it.
    Provisional(u64, u64),
    /// From at least one unambiguous sample.
    Measured(u64, u64),
}

impl Estimate {
    #[inline]
    const fn values(self) -> Option<(u64, u64)> {
        match self {
            Self::None => None,
            Self::Provisional(srtt, var) | Self::Measured(srtt, var) => Some((srtt, var)),
        }
    }
}

/// The smoothed round-trip time, and the retransmission timeout computed from it.
#[derive(Clone, Debug)]
pub struct RttEstimator {
    bounds: Bounds,
    estimate: Estimate,
    rto: u64,
}

impl RttEstimator {
    /// Creates an estimator that has no measurement yet.
    #[must_use]
    pub fn new(config: RttConfig) -> Self {
        let bounds = Bounds {
            initial: nanos(config.rto_initial),
            min: nanos(config.rto_min),
            max: nanos(config.rto_max),
            granularity: nanos(config.granularity),
        };
        Self { bounds, estimate: Estimate::None, rto: bounds.initial }
    }

    /// Processes a measured round-trip time. The caller must leave out ambiguous measurements (Karn's algorithm).
    pub fn on_sample(&mut self, rtt: Duration) {
        let r = nanos(rtt);
        let (srtt, var) = match self.estimate {
            // RFC 6298 §2.2, RFC 9260 §6.3.1 C2: SRTT = R, RTTVAR = R/2.
            Estimate::None | Estimate::Provisional(..) => (r, r / 2),
            // RFC 6298 §2.3, RFC 9260 §6.3.1 C3: beta = 1/4 and alpha = 1/8. RTTVAR is updated before SRTT.
            Estimate::Measured(srtt, var) => ((srtt * 7 + r) / 8, (var * 3 + srtt.abs_diff(r)) / 4),
        };
        self.estimate = Estimate::Measured(srtt, var);
        self.rto = self.timeout(srtt, var);
    }

    /// Processes a round-trip time that may be too long, because the peer may have retransmitted its answer. The sample
    /// is used only if there is no other sample, and only if it does not raise the RTO. The next sample replaces it.
    pub fn on_provisional_sample(&mut self, rtt: Duration) {
        let r = nanos(rtt);
        // RFC 9260 §6.3.1 C2: SRTT = R and RTTVAR = R/2, so RTO = 3·R.
        if matches!(self.estimate, Estimate::None) && r <= self.rto / 3 {
            self.estimate = Estimate::Provisional(r, r / 2);
            self.rto = self.timeout(r, r / 2).min(self.rto);
        }
    }

    /// Returns the RTO for this smoothed RTT and this variation.
    #[inline]
    fn timeout(&self, srtt: u64, var: u64) -> u64 {
        self.bounds.within(srtt + (4 * var).max(self.bounds.granularity))
    }

    /// RFC 6298 §5.5, RFC 9260 §6.3.3 E2: doubles the RTO, up to its maximum.
    pub fn back_off(&mut self) {
        self.rto = self.rto.saturating_mul(2).min(self.bounds.max);
    }

    /// Undoes the back-off: sets the RTO to the value computed from measurements, or to the initial RTO if there are no
    /// measurements. Called when the peer has answered, but the answer gives no measurement.
    pub fn forget_back_off(&mut self) {
        self.rto = match self.estimate.values() {
            Some((srtt, var)) => self.timeout(srtt, var),
            None => self.bounds.initial,
        };
    }

    /// Returns the current retransmission timeout.
    #[must_use]
    pub fn rto(&self) -> Duration {
        Duration::from_nanos(self.rto)
    }

    /// Returns the current retransmission timeout in nanoseconds.
    #[must_use]
    #[inline]
    pub const fn rto_nanos(&self) -> u64 {
        self.rto
    }

    /// Returns the smoothed round-trip time in nanoseconds, once measured.
    #[must_use]
    #[inline]
    pub fn smoothed_nanos(&self) -> Option<u64> {
        self.estimate.values().map(|(srtt, _)| srtt)
    }

    /// Returns the smoothed round-trip time, once measured.
    #[must_use]
    pub fn smoothed(&self) -> Option<Duration> {
        self.smoothed_nanos().map(Duration::from_nanos)
    }

    /// Sets new bounds. If the RTO is outside of the new bounds, it changes to the nearest bound. `initial` applies
    /// only if no round trip has been measured.
    pub fn set_bounds(&mut self, initial: Duration, min: Duration, max: Duration) {
        let untouched = matches!(self.estimate, Estimate::None) && self.rto == self.bounds.initial;
        let (initial, min, max) = (nanos(initial), nanos(min), nanos(max));
        self.bounds = Bounds { initial, min, max, ..self.bounds };
        let rto = if untouched { initial } else { self.rto };
        self.rto = self.bounds.within(rto);
    }

    /// Returns the constants of the estimator.
    #[must_use]
    pub fn config(&self) -> RttConfig {
        let Bounds { initial, min, max, granularity } = self.bounds;
        RttConfig {
            rto_initial: Duration::from_nanos(initial),
            rto_min: Duration::from_nanos(min),
            rto_max: Duration::from_nanos(max),
            granularity: Duration::from_nanos(granularity),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9260 §6.3.1 C1, C2, C3, C6, C7, §6.3.3 E2: the RTOs equal the RTOs computed by hand.
    #[test]
    fn estimates_follow_the_formulas_of_rfc_9260() {
        let (ms, us) = (Duration::from_millis, Duration::from_micros);
        let config =
            RttConfig { rto_initial: ms(1000), rto_min: ms(10), rto_max: ms(60_000), granularity: ms(1) };
        let mut rtt = RttEstimator::new(config);
        assert_eq!((rtt.rto(), rtt.smoothed()), (ms(1000), None));
        rtt.on_sample(ms(100));
        assert_eq!((rtt.rto(), rtt.smoothed()), (ms(100 + 4 * 50), Some(ms(100))));
        // RTTVAR = 3/4 · 50 + 1/4 · |100 - 200|, with the previous SRTT of 100; SRTT = 7/8 · 100 + 1/8 · 200.
        rtt.on_sample(ms(200));
        assert_eq!((rtt.rto(), rtt.smoothed()), (us(112_500 + 4 * 62_500), Some(us(112_500))));
        rtt.back_off();
        assert_eq!(rtt.rto(), us(725_000));
        rtt.on_sample(ms(100));
        assert!(rtt.rto() < us(400_000), "a measurement takes the doubling back: {:?}", rtt.rto());
        for _ in 0..20 {
            rtt.back_off();
        }
        assert_eq!(rtt.rto(), ms(60_000));
        for _ in 0..100 {
            rtt.on_sample(ms(1));
        }
        assert_eq!(rtt.rto(), ms(10));
    }

    /// `forget_back_off` restores the RTO from before the back-off, without a new round-trip time.
    #[test]
    fn a_back_off_is_forgotten() {
        let config = RttConfig {
            rto_initial: Duration::from_secs(3),
            rto_min: Duration::from_millis(100),
            rto_max: Duration::from_secs(60),
            granularity: Duration::from_millis(1),
        };
        let mut rtt = RttEstimator::new(config);
        for expected in [3_000, 150] {
            rtt.back_off();
            rtt.back_off();
            rtt.forget_back_off();
            assert_eq!(rtt.rto(), Duration::from_millis(expected));
            rtt.on_sample(Duration::from_millis(50));
        }
    }

    /// A provisional sample shortens the initial RTO, and the first unambiguous sample replaces it (C2, not C3). It has
    /// no effect after another sample, or if it would raise the RTO.
    #[test]
    fn a_provisional_sample_only_lowers_the_rto_until_the_next_sample() {
        let ms = Duration::from_millis;
        let config =
            RttConfig { rto_initial: ms(900), rto_min: ms(200), rto_max: ms(60_000), granularity: ms(1) };
        let mut rtt = RttEstimator::new(config);
        for too_long in [ms(301), ms(5_000), Duration::MAX] {
            rtt.on_provisional_sample(too_long);
            assert_eq!((rtt.rto(), rtt.smoothed()), (ms(900), None));
        }
        rtt.on_provisional_sample(ms(100));
        assert_eq!((rtt.rto(), rtt.smoothed()), (ms(300), Some(ms(100))));
        rtt.on_provisional_sample(ms(80));
        assert_eq!(rtt.smoothed(), Some(ms(100)), "only the first");
        rtt.back_off();
        rtt.forget_back_off();
        assert_eq!(rtt.rto(), ms(300));
        rtt.on_sample(ms(80));
        assert_eq!((rtt.rto(), rtt.smoothed()), (ms(80 + 160), Some(ms(80))), "as the first sample (C2)");
        rtt.on_provisional_sample(ms(10));
        assert_eq!(rtt.smoothed(), Some(ms(80)), "not after a measurement");
        // The bounds apply: the RTO is at least RTO.Min, but never above the initial RTO.
        let mut rtt = RttEstimator::new(config);
        rtt.on_provisional_sample(ms(1));
        assert_eq!(rtt.rto(), ms(200));
        let mut rtt = RttEstimator::new(RttConfig { rto_initial: ms(90), ..config });
        rtt.on_provisional_sample(ms(30));
        assert_eq!((rtt.rto(), rtt.smoothed()), (ms(90), Some(ms(30))));
    }

    /// The minimum RTO may exceed the maximum RTO. Even then, a measurement must not panic.
    #[test]
    fn contradictory_rto_bounds_do_not_panic() {
        let seconds = Duration::from_secs;
        let config = RttConfig {
            rto_initial: seconds(1),
            rto_min: seconds(61),
            rto_max: seconds(60),
            granularity: Duration::from_millis(1),
        };
        let mut rtt = RttEstimator::new(config);
        rtt.on_sample(Duration::from_millis(40));
        assert_eq!(rtt.rto(), seconds(60));
        rtt.set_bounds(seconds(1), seconds(3), seconds(2));
        assert_eq!(rtt.rto(), seconds(2));
        rtt.on_sample(seconds(86_400));
        rtt.on_sample(Duration::ZERO);
        assert_eq!(rtt.rto(), seconds(2));
    }
}
