//! Decides when to send acknowledgements.
//!
//! Owns the acknowledgements due to the peer; the delay itself is a timer of the connection. Home of RFC 9293 §3.8.6.3,
//! RFC 5681 §4.2. With `ack_push`, it sends acknowledgements early where Linux does: for pushed data once it is read
//! (tcp_cleanup_rbuf), and for segments that widen the window (tcp_grow_window). After a duplicate or a silence it
//! acknowledges all segments at once for a while.

use crate::config::Config;
use anabranch_base::time::{Duration, Instant};
use std::ops::Range;

#[derive(Debug)]
pub(crate) struct AckDuty {
    delay: Duration,
    every: u32,
    /// The number of further segments that are acknowledged at once, unless both ends send in turn.
    quick: u32,
    /// Data has been answered with data (Linux: "pingpong mode").
    in_turn: bool,
    /// The time when data last arrived.
    arrived: Option<Instant>,
    /// Segments with new data in order since the last acknowledgement.
    waiting: u32,
    /// The number of acknowledgements to send now; more than one if several segments arrived out of order.
    owed: u32,
    /// A duplicate range to report by SACK.
    pub(crate) duplicate: Option<Range<u64>>,
    /// The size of a full segment in bytes, if pushed data is acknowledged once it is read, as in Linux. 0 if not.
    full: u64,
    /// Like `waiting`, in bytes.
    waiting_bytes: u64,
    /// How many of the waiting segments were pushed, as far as Linux distinguishes: 0, 1, or 2 for more than one.
    pushed: u8,
    /// The number of segments acknowledged at once in a quick-acknowledgement phase, and whether the first phase has
    /// yet to begin.
    most_quick: u32,
    fresh: bool,
}

/// The assumed size of a full segment before one has arrived (Linux: TCP_MSS_DEFAULT).
const FIRST_FULL: u64 = 536;
/// More acknowledgements would be a burst without information.
const MAX_OWED: u32 = 64;

impl AckDuty {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            delay: config.delack,
            every: config.ack_every,
            // As in Linux, the quick acknowledgements begin with the first data.
            quick: if config.ack_push { 0 } else { config.quickack },
            in_turn: false,
            arrived: None,
            waiting: 0,
            owed: 0,
            duplicate: None,
            full: if config.ack_push { FIRST_FULL } else { 0 },
            fresh: config.ack_push,
            waiting_bytes: 0,
            pushed: 0,
            most_quick: config.quickack,
        }
    }

    /// New data of `bytes` bytes arrived in order; `pushed` is its PSH flag. `unread` is the number of bytes that wait
    /// for the application, including these. Returns the delay after which it must be acknowledged, if it may wait.
    #[inline]
    pub(crate) fn on_segment(&mut self, bytes: u64, pushed: bool, unread: u64) -> Option<Duration> {
        if self.full > 0 { self.on_segment_pushed(bytes, pushed, unread) } else { self.on_in_order() }
    }

    /// Like `on_segment`, following Linux: __tcp_ack_snd_check, and tcp_measure_rcv_mss for pushed data.
    fn on_segment_pushed(&mut self, bytes: u64, pushed: bool, unread: u64) -> Option<Duration> {
        if std::mem::take(&mut self.fresh) {
            self.quick = self.quick.max(self.most_quick);
        }
        self.waiting += 1;
        self.waiting_bytes += bytes;
        if bytes < self.full {
            // A small segment counts as pushed even without PSH.
            self.pushed = (self.pushed + 1).min(2);
        } else {
            self.full = bytes;
            self.pushed = self.pushed.max(u8::from(pushed));
        }
        let quick = self.quick > 0 && !self.in_turn;
        // More than a full segment waits, and the window can advance. If not, the application is slow, and its read
        // will trigger the acknowledgement.
        let enough = self.waiting_bytes > self.full && unread <= self.waiting_bytes;
        if quick || enough || self.delay.is_zero() {
            self.owed = self.owed.max(1);
        }
        (self.owed == 0).then_some(self.delay)
    }

    /// The application has read all available data.
    #[inline]
    pub(crate) fn on_read(&mut self) {
        let more = self.full > 0 && self.waiting_bytes > self.full;
        if more || (self.pushed > 0 && (self.pushed > 1 || !self.in_turn)) {
            self.at_once();
        }
    }

    /// The window that may be offered has grown. The segment that caused this is acknowledged at once.
    pub(crate) fn on_growth(&mut self) {
        if self.full > 0 {
            self.quick = self.quick.max(1);
        }
    }

    /// The peer has retransmitted data that had arrived. An immediate acknowledgement tells it which data comes next.
    pub(crate) fn on_duplicate(&mut self) {
        if self.full > 0 {
            self.quick = self.quick.max(self.most_quick);
            self.in_turn = false;
        }
    }

    /// New data arrived in order. Returns the delay after which it must be acknowledged, if it may wait.
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

    /// An acknowledgement must be sent now: for a gap, a filled gap, a duplicate or a FIN.
    pub(crate) fn at_once(&mut self) {
        self.owed = self.owed.max(1);
    }

    /// The peer's FIN arrived before ours was sent. The program is expected to close, and its FIN will carry the
    /// acknowledgement (Linux: tcp_fin assumes that both ends send in turn). Returns the delay after which the FIN must
    /// be acknowledged, if it may wait.
    pub(crate) fn on_awaited_fin(&mut self) -> Option<Duration> {
        self.in_turn = true;
        self.waiting += 1;
        if self.delay.is_zero() {
            self.at_once();
        }
        (self.owed == 0).then_some(self.delay)
    }

    /// RFC 5681 §4.2: each segment beyond a gap causes a duplicate acknowledgement of its own.
    pub(crate) fn on_out_of_order(&mut self) {
        self.owed = (self.owed + 1).min(MAX_OWED);
    }

    /// Data has arrived.
    #[inline]
    pub(crate) fn on_arrival(&mut self, now: Instant) {
        self.arrived = Some(now);
    }

    /// Data is sent. An application that answers at once is expected to do so again, and its answers carry the
    /// acknowledgements: Linux' tcp_event_data_sent (net/ipv4/tcp_output.c).
    #[inline]
    pub(crate) fn on_data_sent(&mut self, now: Instant) {
        self.in_turn |=
            (self.quick > 0 || self.full > 0) && self.arrived.is_some_and(|at| now.since(at) < self.delay);
    }

    /// The acknowledgement delay has expired.
    pub(crate) fn on_delay_over(&mut self) {
        // No data was sent that would have carried the acknowledgement: Linux' tcp_delack_timer_handler
        // (net/ipv4/tcp_timer.c).
        self.in_turn = false;
        if self.waiting > 0 {
            self.at_once();
        }
    }

    /// Returns whether an acknowledgement must be sent now.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.owed > 0
    }

    /// A segment with the acknowledgement was sent.
    #[inline]
    pub(crate) fn on_sent(&mut self) {
        if self.full > 0 {
            self.quick = self.quick.saturating_sub(1);
            (self.waiting_bytes, self.pushed) = (0, 0);
        }
        self.waiting = 0;
        self.owed = self.owed.saturating_sub(1);
        self.duplicate = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// tcp_cleanup_rbuf of Linux: a pushed segment is acknowledged once it has been read, unless both ends send in
    /// turn. A small segment counts as pushed. Two pushed segments are acknowledged even if both ends send in turn.
    #[test]
    fn what_was_pushed_is_acknowledged_when_it_is_read() {
        let mut config = Config::default();
        (config.quickack, config.ack_push) = (0, true);
        let mut duty = AckDuty::new(&config);
        let mut read = |bytes, pushed| {
            let delay = duty.on_segment(bytes, pushed, bytes);
            duty.on_read();
            let due = duty.is_due();
            if due {
                duty.on_sent();
            }
            (delay.is_none(), due)
        };
        assert_eq!(read(1000, false), (false, false));
        assert_eq!(read(1000, false), (true, true), "two full segments");
        assert_eq!(read(1000, true), (false, true), "pushed and read");
        assert_eq!(read(200, false), (false, true), "a small one");
        duty.in_turn = true;
        let mut read = |bytes, pushed| {
            duty.on_segment(bytes, pushed, bytes);
            duty.on_read();
            duty.is_due()
        };
        assert!(!read(1000, true) && read(200, false));
        // The application does not read: two segments wait like one.
        duty.on_sent();
        assert!(duty.on_segment(1000, false, 5000).is_some() && duty.on_segment(1000, false, 6000).is_some());
        duty.on_read();
        assert!(duty.is_due());
        // Without the knob, two segments or the delay cause the acknowledgement, and PSH has no effect.
        config.ack_push = false;
        let mut duty = AckDuty::new(&config);
        duty.on_segment(1000, true, 1000);
        duty.on_read();
        assert!(!duty.is_due());
    }

    /// As in Linux: a connection that begins with quick acknowledgements changes to delayed ones with its first answer,
    /// until an acknowledgement has to be sent without data.
    #[test]
    fn whoever_answers_at_once_delays_its_acknowledgements() {
        let delay = Duration::from_millis(40);
        let mut config = Config::default();
        (config.quickack, config.delack, config.ack_every) = (16, delay, 2);
        config.ack_push = false;
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let mut duty = AckDuty::new(&config);
        // A request that is sent before any data has arrived is not an answer.
        duty.on_data_sent(at(0));
        duty.on_arrival(at(1));
        assert_eq!(duty.on_in_order(), None);
        duty.on_sent();
        // Data sent after the acknowledgement delay is not an answer either.
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
