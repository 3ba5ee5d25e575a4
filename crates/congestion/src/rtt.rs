//! Round-trip time and retransmission timeout.
//!
//! Home of RFC 6298 and RFC 9260 §6.3.1, which differ only in constants:
//! initial, minimum and maximum RTO, and clock granularity.

use anabranch_base::time::{Duration, nanos};

/// The constants of an [`RttEstimator`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RttConfig {
    /// RTO before the first measurement.
    pub rto_initial: Duration,
    /// Smallest RTO.
    pub rto_min: Duration,
    /// Largest RTO, also under back-off.
    pub rto_max: Duration,
    /// Clock granularity G: the least that 4·RTTVAR adds.
    pub granularity: Duration,
}

/// Smoothed round-trip time and the timeout that follows from it.
#[derive(Clone, Debug)]
pub struct RttEstimator {
    config: RttConfig,
    /// Smoothed RTT and its variation, nanoseconds, once measured.
    smoothed: Option<(u64, u64)>,
    rto: u64,
}

impl RttEstimator {
    /// An estimator without a measurement.
    #[must_use]
    pub fn new(config: RttConfig) -> Self {
        Self { config, smoothed: None, rto: nanos(config.rto_initial) }
    }

    /// Takes in one measurement. The caller has obeyed Karn's rule.
    pub fn on_sample(&mut self, rtt: Duration) {
        let r = nanos(rtt);
        let (srtt, var) = match self.smoothed {
            // RFC 6298 §2.2, RFC 9260 §6.3.1 C2: SRTT = R, RTTVAR = R/2.
            None => (r, r / 2),
            // RFC 6298 §2.3, RFC 9260 §6.3.1 C3: beta = 1/4 and alpha = 1/8, RTTVAR before SRTT.
            Some((srtt, var)) => ((srtt * 7 + r) / 8, (var * 3 + srtt.abs_diff(r)) / 4),
        };
        self.smoothed = Some((srtt, var));
        let margin = (4 * var).max(nanos(self.config.granularity));
        self.rto = (srtt + margin).clamp(nanos(self.config.rto_min), nanos(self.config.rto_max));
    }

    /// RFC 6298 §5.5, RFC 9260 §6.3.3 E2: doubles the RTO, up to its maximum.
    pub fn back_off(&mut self) {
        self.rto = self.rto.saturating_mul(2).min(nanos(self.config.rto_max));
    }

    /// The retransmission timeout now.
    #[must_use]
    pub fn rto(&self) -> Duration {
        Duration::from_nanos(self.rto)
    }

    /// The smoothed round-trip time, once measured.
    #[must_use]
    pub fn smoothed(&self) -> Option<Duration> {
        self.smoothed.map(|(srtt, _)| Duration::from_nanos(srtt))
    }

    /// Other bounds from now on; the RTO is brought within them. The initial RTO counts as
    /// long as nothing has been measured.
    pub fn set_bounds(&mut self, initial: Duration, min: Duration, max: Duration) {
        let untouched = self.smoothed.is_none() && self.rto == nanos(self.config.rto_initial);
        self.config = RttConfig { rto_initial: initial, rto_min: min, rto_max: max, ..self.config };
        let rto = if untouched { nanos(initial) } else { self.rto };
        self.rto = rto.max(nanos(min)).min(nanos(max));
    }

    /// The constants.
    #[must_use]
    pub fn config(&self) -> RttConfig {
        self.config
    }
}
