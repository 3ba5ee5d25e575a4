//! Estimates whether the network is slow. On a slow network, the browser holds more requests back.
//!
//! Source: net `network_quality_estimator.cc`, `NotifyHeadersReceived`, `ShouldComputeEffectiveConnectionType` and
//! `GetRecentEffectiveConnectionTypeUsingMetrics`. The estimate is the median of the HTTP round-trip times. At the
//! start of a page load, the median has only one value, a default. These parts of Chromium's estimator are left out,
//! because they matter little within one load:
//!
//! - round-trip times of TCP and QUIC, which are lower bounds of the estimate (those of QUIC are upper bounds, too),
//! - the weight of a value, which halves every minute,
//! - the removal of values of requests that hang, and the update of the estimate every 10 s.

use super::Rules;
use std::time::Duration;

/// The estimated quality of the network.
#[derive(Debug)]
pub struct NetworkQuality {
    slow_rtt: Duration,
    /// The HTTP round-trip times in ascending order. Each is the time from sending a request until the head of its
    /// response arrived.
    rtts: Vec<Duration>,
    /// The number of round-trip times when the estimate was last computed.
    computed_with: usize,
    is_slow: bool,
}

impl NetworkQuality {
    pub(super) fn new(rules: &Rules) -> Self {
        let is_slow = rules.default_rtt >= rules.slow_rtt;
        Self { slow_rtt: rules.slow_rtt, rtts: vec![rules.default_rtt], computed_with: 1, is_slow }
    }

    /// Adds an HTTP round-trip time. If the network has become slow or is no longer slow, returns whether it is slow.
    pub(super) fn observe(&mut self, rtt: Duration) -> Option<bool> {
        let at = self.rtts.partition_point(|&other| other <= rtt);
        self.rtts.insert(at, rtt);
        // Chromium also counts the default value of the transport's round-trip time, hence `+ 1`.
        let (before, now) = (self.computed_with + 1, self.rtts.len() + 1);
        if 2 * now <= 3 * before {
            return None;
        }
        self.computed_with = self.rtts.len();
        let median = self.rtts[(self.rtts.len() - 1) / 2];
        let was_slow = std::mem::replace(&mut self.is_slow, median >= self.slow_rtt);
        (was_slow != self.is_slow).then_some(self.is_slow)
    }
}
