//! When to acknowledge.
//!
//! Owns how much is owed to the peer; the delay itself is a timer of the
//! connection. Home of RFC 9293 §3.8.6.3, RFC 5681 §4.2.

use crate::config::Config;
use anabranch_base::time::Duration;
use std::ops::Range;

#[derive(Debug)]
pub(crate) struct AckDuty {
    delay: Duration,
    every: u32,
    /// Segments that are still acknowledged at once.
    quick: u32,
    /// Segments with new data in order since the last acknowledgement.
    waiting: u32,
    /// Acknowledgements to send now; more than one when several segments came out of order.
    owed: u32,
    /// A duplicate to report by SACK.
    pub(crate) duplicate: Option<Range<u64>>,
}

/// More would be a burst that tells nothing.
const MOST_OWED: u32 = 64;

impl AckDuty {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            delay: config.delack,
            every: config.ack_every,
            quick: config.quickack,
            waiting: 0,
            owed: 0,
            duplicate: None,
        }
    }

    /// New data arrived in order. Returns the delay after which it must be
    /// acknowledged, if it may wait.
    #[inline]
    pub(crate) fn on_in_order(&mut self) -> Option<Duration> {
        self.waiting += 1;
        if self.quick > 0 {
            self.quick -= 1;
            self.owed = self.owed.max(1);
        }
        if self.waiting >= self.every || self.delay.is_zero() {
            self.owed = self.owed.max(1);
        }
        (self.owed == 0).then_some(self.delay)
    }

    /// Something arrived that the peer must hear of now: a hole, its filling, a duplicate, a FIN.
    pub(crate) fn at_once(&mut self) {
        self.owed = self.owed.max(1);
    }

    /// RFC 5681 §4.2: each segment beyond a hole earns a duplicate acknowledgement of its own.
    pub(crate) fn on_out_of_order(&mut self) {
        self.owed = (self.owed + 1).min(MOST_OWED);
    }

    /// The delay is over.
    pub(crate) fn on_delay_over(&mut self) {
        if self.waiting > 0 {
            self.at_once();
        }
    }

    /// An acknowledgement must go now.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.owed > 0
    }

    /// A segment with the acknowledgement left.
    #[inline]
    pub(crate) fn on_sent(&mut self) {
        self.waiting = 0;
        self.owed = self.owed.saturating_sub(1);
        self.duplicate = None;
    }
}
