//! Errors of the whole association in a row.
//!
//! Home of RFC 9260 §8.1 (the association's error counter).

use crate::config::Config;
use anabranch_base::Instant;

/// The error counter of RFC 9260 §8.1: retransmissions in a row to all addresses, and HEARTBEATs without an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ErrorCounter {
    count: u32,
    /// When the first of them was.
    since: Instant,
}

impl ErrorCounter {
    pub(crate) fn new(now: Instant) -> Self {
        Self { count: 0, since: now }
    }

    /// The peer has shown that it is there.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }

    /// RFC 9260 §8.1: one more retransmission in a row, or HEARTBEAT without an answer.
    pub(crate) fn count(&mut self, now: Instant) {
        if self.count == 0 {
            self.since = now;
        }
        self.count = self.count.saturating_add(1);
    }

    /// RFC 9260 §8.1: the peer is unreachable. By the letter the number of errors says so. It comes the sooner the
    /// more paths there are and the smaller RTO.Min is, so that more paths would survive less: a profile may ask for
    /// a time as well.
    pub(crate) fn is_exceeded(&self, config: &Config, now: Instant) -> bool {
        self.count > config.assoc_max_retrans && now.since(self.since) >= config.assoc_silence
    }
}
