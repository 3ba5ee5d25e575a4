//! Estimates whether the network is slow. On a slow network, the browser holds more requests back, and for longer.
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

/// What the browser's limits depend on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quality {
    /// Whether fewer requests may run.
    pub is_slow: bool,
    /// The longest time that a request waits at a limit.
    pub longest_wait: Duration,
}

impl Quality {
    /// Returns the quality of a network with this HTTP round-trip time.
    pub(super) fn of(rules: &Rules, rtt: Duration) -> Self {
        let waits = rules.longest_waits.iter().rev();
        let longest_wait =
            waits.copied().find(|(from, _)| *from <= rtt).map_or(Duration::MAX, |(_, wait)| wait);
        Self { is_slow: rtt >= rules.slow_rtt, longest_wait }
    }
}

/// The estimated quality of the network.
#[derive(Debug)]
pub struct NetworkQuality {
    rules: &'static Rules,
    /// The HTTP round-trip times in ascending order. Each is the time from sending a request until the head of its
    /// response arrived.
    rtts: Vec<Duration>,
    /// The number of round-trip times when the estimate was last computed.
    computed_with: usize,
    quality: Quality,
}

impl NetworkQuality {
    pub(super) fn new(rules: &'static Rules) -> Self {
        let quality = Quality::of(rules, rules.default_rtt);
        Self { rules, rtts: vec![rules.default_rtt], computed_with: 1, quality }
    }

    /// Adds an HTTP round-trip time. Returns the quality if it has changed.
    pub(super) fn observe(&mut self, rtt: Duration) -> Option<Quality> {
        let at = self.rtts.partition_point(|&other| other <= rtt);
        self.rtts.insert(at, rtt);
        // Chromium also counts the default value of the transport's round-trip time, hence `+ 1`.
        let (before, now) = (self.computed_with + 1, self.rtts.len() + 1);
        if 2 * now <= 3 * before {
            return None;
        }
        self.computed_with = self.rtts.len();
        let median = self.rtts[(self.rtts.len() - 1) / 2];
        let quality = Quality::of(self.rules, median);
        let before = std::mem::replace(&mut self.quality, quality);
        (before != quality).then_some(quality)
    }
}
