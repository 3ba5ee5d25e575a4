//! When to acknowledge.
//!
//! Owns how much is owed to the peer; the delay itself is a timer of the
//! connection. Home of RFC 9293 §3.8.6.3, RFC 5681 §4.2.

use crate::config::Config;
use anabranch_base::time::{Duration, Instant};
use std::ops::Range;

#[derive(Debug)]
pub(crate) struct AckDuty {
    delay: Duration,
    every: u32,
    /// Segments that are still acknowledged at once, unless both ends talk in turn.
    quick: u32,
    /// Data has been answered with data (Linux: "pingpong mode").
    in_turn: bool,
    /// When data last came.
    arrived: Option<Instant>,
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
            in_turn: false,
            arrived: None,
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
        if self.quick > 0 && !self.in_turn {
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

    /// Data has come.
    #[inline]
    pub(crate) fn on_arrival(&mut self, now: Instant) {
        self.arrived = Some(now);
    }

    /// Data leaves. Whoever answers at once is expected to do so again, and the answer takes the acknowledgement along:
    /// Linux' tcp_event_data_sent (net/ipv4/tcp_output.c).
    #[inline]
    pub(crate) fn on_data_sent(&mut self, now: Instant) {
        self.in_turn |= self.quick > 0 && self.arrived.is_some_and(|at| now.since(at) < self.delay);
    }

    /// The delay is over.
    pub(crate) fn on_delay_over(&mut self) {
        // No answer came that would have taken it along: Linux' tcp_delack_timer_handler (net/ipv4/tcp_timer.c).
        self.in_turn = false;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// As Linux does: what begins with acknowledgements at once goes over to delayed ones with the first answer, until
    /// an acknowledgement had to go without one.
    #[test]
    fn whoever_answers_at_once_delays_its_acknowledgements() {
        let delay = Duration::from_millis(40);
        let mut config = Config::default();
        (config.quickack, config.delack, config.ack_every) = (16, delay, 2);
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let mut duty = AckDuty::new(&config);
        // A request that is sent before anything has come answers nothing.
        duty.on_data_sent(at(0));
        duty.on_arrival(at(1));
        assert_eq!(duty.on_in_order(), None);
        duty.on_sent();
        // Later than an acknowledgement would have waited: no answer either.
        duty.on_data_sent(at(41));
        duty.on_arrival(at(50));
        assert_eq!(duty.on_in_order(), None);
        duty.on_sent();
        duty.on_data_sent(at(51));
        for first in [60, 70] {
            duty.on_arrival(at(first));
            assert_eq!(duty.on_in_order(), Some(delay));
            duty.on_arrival(at(first + 1));
            assert_eq!(duty.on_in_order(), None);
            duty.on_sent();
        }
        assert_eq!(duty.on_in_order(), Some(delay));
        duty.on_delay_over();
        assert!(duty.is_due());
        duty.on_sent();
        assert_eq!(duty.on_in_order(), None);
    }
}
