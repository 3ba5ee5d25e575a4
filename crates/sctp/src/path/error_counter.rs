//! The error counter of the whole association.
//!
//! Implements RFC 9260 §8.1 (the association's error counter).

use crate::config::Config;
use anabranch_base::Instant;

/// The error counter of RFC 9260 §8.1: consecutive retransmissions to all addresses, and unanswered HEARTBEATs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ErrorCounter {
    count: u32,
    /// The time at which the first of the `count` errors occurred.
    since: Instant,
}

impl ErrorCounter {
    pub(crate) fn new(now: Instant) -> Self {
        Self { count: 0, since: now }
    }

    /// Resets the counter, because the peer has answered.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }

    /// RFC 9260 §8.1: counts one more consecutive retransmission or unanswered HEARTBEAT.
    pub(crate) fn count(&mut self, now: Instant) {
        if self.count == 0 {
            self.since = now;
        }
        self.count = self.count.saturating_add(1);
    }

    /// RFC 9260 §8.1: returns whether the peer is unreachable. The RFC only compares the number of errors with a limit.
    /// With more paths or a smaller RTO.Min, this limit is reached earlier, so the association would survive only
    /// shorter outages. The setting `assoc_silence` therefore also requires a minimum time since the first error.
    pub(crate) fn is_exceeded(&self, config: &Config, now: Instant) -> bool {
        self.count > config.assoc_max_retrans && now.since(self.since) >= config.assoc_silence
    }
}
