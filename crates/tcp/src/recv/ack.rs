//! Decides when to send acknowledgements.
//!
//! Owns the record of the acknowledgements that we owe to the peer. The timer for the acknowledgement delay belongs to
//! the connection. Implements RFC 9293 §3.8.6.3 and RFC 5681 §4.2.
//!
//! With the knob `ack_push`, acknowledgements are sent early where Linux sends them early. Data with PSH is
//! acknowledged once the application has read it (tcp_cleanup_rbuf). A segment is acknowledged immediately if its
//! arrival lets this side offer a larger receive window (tcp_grow_window). After a duplicate segment, the next
//! `quickack` segments are acknowledged immediately. When this side answers data with data, the last two rules are
//! suspended until an acknowledgement delay expires or another duplicate arrives.

use crate::config::Config;
use anabranch_base::time::{Duration, Instant};
use std::ops::Range;

#[derive(Debug)]
pub(crate) struct AckScheduler {
    delay: Duration,
    every: u32,
    /// The number of further segments that are acknowledged immediately. Ignored while `pingpong` is set.
    quick_acks: u32,
    /// Set while the two sides send in turn: this side has answered data with data (Linux: "pingpong mode").
    pingpong: bool,
    /// The time when data last arrived.
    arrived: Option<Instant>,
    /// The number of segments with new in-order data since the last acknowledgement.
    waiting: u32,
    /// The number of acknowledgements to send now. It exceeds 1 if several segments arrived out of order.
    pending_acks: u32,
    /// The range of a duplicate segment's data, which must be reported by SACK.
    pub(crate) duplicate: Option<Range<u64>>,
    /// The size of a full segment in bytes if `ack_push` is set, otherwise 0.
    full_segment: u64,
    /// The number of bytes in the segments that `waiting` counts.
    waiting_bytes: u64,
    /// How many of the waiting segments had PSH set. As in Linux, 2 means more than one.
    pushed_segments: u8,
    /// `max_quick_acks` is the number of segments that are acknowledged immediately in a phase of quick
    /// acknowledgements. `is_new` is true until the first of these phases begins.
    max_quick_acks: u32,
    is_new: bool,
    /// Whether the number of segments that are acknowledged immediately also depends on the offered window, and the
    /// window that was offered last, in bytes.
    quick_by_window: bool,
    offered: u64,
    /// Whether a full segment with PSH counts in `pushed_segments`. If not, only small segments count.
    psh_counts: bool,
}

/// The assumed size of a full segment in bytes, until a segment of at least this size arrives (Linux: TCP_MSS_DEFAULT).
const FIRST_FULL: u64 = 536;
/// The limit of `pending_acks`. A longer burst of acknowledgements would tell the peer nothing new.
const MAX_OWED: u32 = 64;

impl AckScheduler {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            delay: config.delack,
            every: config.ack_every,
            // With `ack_push`, the arrival of the first data segment sets `quick_acks`, as in Linux.
            quick_acks: if config.ack_push { 0 } else { config.quickack },
            pingpong: false,
            arrived: None,
            waiting: 0,
            pending_acks: 0,
            duplicate: None,
            full_segment: if config.ack_push { FIRST_FULL } else { 0 },
            is_new: config.ack_push,
            waiting_bytes: 0,
            pushed_segments: 0,
            max_quick_acks: config.quickack,
            quick_by_window: config.quickack_window,
            offered: 0,
            psh_counts: config.psh_counts,
        }
    }

    /// Records that a window of `window` bytes was offered to the peer.
    #[inline]
    pub(crate) fn on_offered(&mut self, window: u64) {
        self.offered = window;
    }

    /// Returns how many segments are acknowledged immediately when a new phase of immediate acknowledgements begins
    /// (tcp_incr_quickack of Linux).
    fn quick_phase(&self) -> u32 {
        if !self.quick_by_window {
            return self.max_quick_acks;
        }
        let fitting = self.offered / (2 * self.full_segment.max(1));
        let count = if fitting == 0 { 2 } else { fitting };
        u32::try_from(count).unwrap_or(u32::MAX).min(self.max_quick_acks)
    }

    /// Records that a segment with `bytes` bytes of new data arrived in order; `pushed` is its PSH flag. `unread` is
    /// the number of bytes that wait for the application, including the new bytes. Returns the delay after which the
    /// segment must be acknowledged, or `None` if it must be acknowledged now.
    #[inline]
    pub(crate) fn on_segment(&mut self, bytes: u64, pushed: bool, unread: u64) -> Option<Duration> {
        if self.full_segment > 0 { self.on_segment_pushed(bytes, pushed, unread) } else { self.on_in_order() }
    }

    /// The variant of `on_segment` with `ack_push`. It follows __tcp_ack_snd_check and tcp_measure_rcv_mss of Linux.
    fn on_segment_pushed(&mut self, bytes: u64, pushed: bool, unread: u64) -> Option<Duration> {
        self.waiting += 1;
        self.waiting_bytes += bytes;
        if bytes < self.full_segment {
            // A segment that is smaller than a full segment counts as if it had PSH.
            self.pushed_segments = (self.pushed_segments + 1).min(2);
        } else {
            self.full_segment = bytes;
            self.pushed_segments = self.pushed_segments.max(u8::from(pushed && self.psh_counts));
        }
        if std::mem::take(&mut self.is_new) {
            self.quick_acks = self.quick_acks.max(self.quick_phase());
        }
        let quick = self.quick_acks > 0 && !self.pingpong;
        // The acknowledgement is sent now if more than a full segment is unacknowledged, and the window can advance
        // because all earlier data was read. If earlier data is unread, the acknowledgement is sent when the
        // application reads.
        let enough = self.waiting_bytes > self.full_segment && unread <= self.waiting_bytes;
        if quick || enough || self.delay.is_zero() {
            self.pending_acks = self.pending_acks.max(1);
        }
        (self.pending_acks == 0).then_some(self.delay)
    }

    /// Records that the application has read all available data.
    #[inline]
    pub(crate) fn on_read(&mut self) {
        let more = self.full_segment > 0 && self.waiting_bytes > self.full_segment;
        if more || (self.pushed_segments > 0 && (self.pushed_segments > 1 || !self.pingpong)) {
            self.ack_now();
        }
    }

    /// Records that the segment being handled lets the receive window grow. This segment is acknowledged immediately.
    pub(crate) fn on_growth(&mut self) {
        if self.full_segment > 0 {
            self.quick_acks = self.quick_acks.max(1);
        }
    }

    /// Records that the peer has retransmitted data that we already had. If the knob `ack_push` is on, the next
    /// segments are acknowledged immediately, which tells the peer what data we expect next.
    pub(crate) fn on_duplicate(&mut self) {
        if self.full_segment > 0 {
            self.quick_acks = self.quick_acks.max(self.quick_phase());
            self.pingpong = false;
        }
    }

    /// Records that new data arrived in order, when `ack_push` is off. Returns the delay after which the data must be
    /// acknowledged, or `None` if it must be acknowledged now.
    #[inline]
    pub(crate) fn on_in_order(&mut self) -> Option<Duration> {
        self.waiting += 1;
        if self.quick_acks > 0 && !self.pingpong {
            self.quick_acks -= 1;
            self.pending_acks = self.pending_acks.max(1);
        }
        if self.waiting >= self.every || self.delay.is_zero() {
            self.pending_acks = self.pending_acks.max(1);
        }
        (self.pending_acks == 0).then_some(self.delay)
    }

    /// Requires an immediate acknowledgement, because of a gap, a filled gap, a duplicate or a FIN.
    pub(crate) fn ack_now(&mut self) {
        self.pending_acks = self.pending_acks.max(1);
    }

    /// Records that the peer's FIN arrived before ours was sent. The application is expected to close the connection,
    /// and our FIN will carry the acknowledgement (Linux: tcp_fin enters "pingpong mode"). Returns the delay after
    /// which the peer's FIN must be acknowledged, or `None` if it must be acknowledged now.
    pub(crate) fn on_awaited_fin(&mut self) -> Option<Duration> {
        self.pingpong = true;
        self.waiting += 1;
        if self.delay.is_zero() {
            self.ack_now();
        }
        (self.pending_acks == 0).then_some(self.delay)
    }

    /// RFC 5681 §4.2: each segment that arrives beyond a gap causes a duplicate acknowledgement of its own.
    pub(crate) fn on_out_of_order(&mut self) {
        self.pending_acks = (self.pending_acks + 1).min(MAX_OWED);
    }

    /// Records the time when data arrived.
    #[inline]
    pub(crate) fn on_arrival(&mut self, now: Instant) {
        self.arrived = Some(now);
    }

    /// Records that data is sent. If the application answers data within the acknowledgement delay, its next answers
    /// are expected to carry the acknowledgements. See tcp_event_data_sent of Linux (net/ipv4/tcp_output.c).
    #[inline]
    pub(crate) fn on_data_sent(&mut self, now: Instant) {
        self.pingpong |= (self.quick_acks > 0 || self.full_segment > 0)
            && self.arrived.is_some_and(|at| now.since(at) < self.delay);
    }

    /// Called when the acknowledgement delay has expired.
    pub(crate) fn on_delay_over(&mut self) {
        // During the delay no data was sent that could carry the acknowledgement, so the two sides no longer send in
        // turn. See tcp_delack_timer_handler of Linux (net/ipv4/tcp_timer.c).
        self.pingpong = false;
        if self.waiting > 0 {
            self.ack_now();
        }
    }

    /// Returns whether an acknowledgement must be sent now.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.pending_acks > 0
    }

    /// Records that a segment with the latest acknowledgement was sent.
    #[inline]
    pub(crate) fn on_sent(&mut self) {
        if self.full_segment > 0 {
            self.quick_acks = self.quick_acks.saturating_sub(1);
            (self.waiting_bytes, self.pushed_segments) = (0, 0);
        }
        self.waiting = 0;
        self.pending_acks = self.pending_acks.saturating_sub(1);
        self.duplicate = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As in Linux (tcp_cleanup_rbuf), a segment with PSH is acknowledged as soon as it has been read. If the two sides
    /// answer data with data ("pingpong mode"), the acknowledgement needs two segments with PSH since the last
    /// acknowledgement. A small segment counts as a segment with PSH.
    #[test]
    fn what_was_pushed_is_acknowledged_when_it_is_read() {
        let mut config = Config::default();
        (config.quickack, config.ack_push) = (0, true);
        let mut scheduler = AckScheduler::new(&config);
        let mut read = |bytes, pushed| {
            let delay = scheduler.on_segment(bytes, pushed, bytes);
            scheduler.on_read();
            let due = scheduler.is_due();
            if due {
                scheduler.on_sent();
            }
            (delay.is_none(), due)
        };
        assert_eq!(read(1000, false), (false, false));
        assert_eq!(read(1000, false), (true, true), "two full segments");
        assert_eq!(read(1000, true), (false, true), "pushed and read");
        assert_eq!(read(200, false), (false, true), "a small one");
        scheduler.pingpong = true;
        let mut read = |bytes, pushed| {
            scheduler.on_segment(bytes, pushed, bytes);
            scheduler.on_read();
            scheduler.is_due()
        };
        assert!(!read(1000, true) && read(200, false));
        // If the application has not read earlier data, two full segments cause no immediate acknowledgement. The
        // acknowledgement becomes due when the application reads.
        scheduler.on_sent();
        assert!(
            scheduler.on_segment(1000, false, 5000).is_some()
                && scheduler.on_segment(1000, false, 6000).is_some()
        );
        scheduler.on_read();
        assert!(scheduler.is_due());
        // Without `ack_push`, two segments or the delay cause the acknowledgement, and PSH has no effect.
        config.ack_push = false;
        let mut scheduler = AckScheduler::new(&config);
        scheduler.on_segment(1000, true, 1000);
        scheduler.on_read();
        assert!(!scheduler.is_due());
    }

    /// As in Linux 2.6, the number of segments that are acknowledged immediately depends on their size and on the
    /// offered window. If a window of 32,767 bytes is offered, one segment of 16,383 bytes is acknowledged immediately,
    /// or 16 segments of 64 bytes.
    #[test]
    fn quick_acks_depend_on_the_window() {
        let mut config = Config::default();
        (config.quickack, config.quickack_window) = (16, true);
        for (window, segment, quick) in
            [(32_767, 16_383, 1), (32_767, 64, 16), (5_840, 1_448, 2), (1_000, 1_448, 2)]
        {
            let mut scheduler = AckScheduler::new(&config);
            scheduler.on_offered(window);
            let now = (1..=20).take_while(|_| {
                let delay = scheduler.on_segment(segment, false, 1 << 20);
                scheduler.on_sent();
                delay.is_none()
            });
            assert_eq!(now.count(), quick, "{segment} bytes, window {window}");
        }
    }

    /// As in Linux, a connection that begins with quick acknowledgements changes to delayed acknowledgements when it
    /// first answers data with data. The connection returns to quick acknowledgements when it has to send an
    /// acknowledgement without data.
    #[test]
    fn immediate_replies_switch_to_delayed_acks() {
        let delay = Duration::from_millis(40);
        let mut config = Config::default();
        (config.quickack, config.delack, config.ack_every) = (16, delay, 2);
        config.ack_push = false;
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let mut scheduler = AckScheduler::new(&config);
        // Data that this side sends before any data has arrived does not count as an answer.
        scheduler.on_data_sent(at(0));
        scheduler.on_arrival(at(1));
        assert_eq!(scheduler.on_in_order(), None);
        scheduler.on_sent();
        // Data that this side sends after the acknowledgement delay does not count as an answer to the received data.
        scheduler.on_data_sent(at(41));
        scheduler.on_arrival(at(50));
        assert_eq!(scheduler.on_in_order(), None);
        scheduler.on_sent();
        scheduler.on_data_sent(at(51));
        for first in [60, 70] {
            scheduler.on_arrival(at(first));
            assert_eq!(scheduler.on_in_order(), Some(delay));
            scheduler.on_arrival(at(first + 1));
            assert_eq!(scheduler.on_in_order(), None);
            scheduler.on_sent();
        }
        assert_eq!(scheduler.on_in_order(), Some(delay));
        scheduler.on_delay_over();
        assert!(scheduler.is_due());
        scheduler.on_sent();
        assert_eq!(scheduler.on_in_order(), None);
    }
}
