//! Receive window tuning: how large a window to offer, from the amount read per round trip.
//!
//! This is dynamic right-sizing as in Linux (`tcp_rcv_space_adjust`). The window stays larger than a sender in slow
//! start can use, and a connection with little traffic never offers a large window. RFC 9293 §3.8.6 leaves the size to
//! the receiver.

use crate::config::Config;
use anabranch_base::Instant;
use anabranch_base::time::{Duration, nanos};

#[derive(Debug)]
pub(super) struct Tuning {
    /// `limit` is the largest receive window, in bytes, that may be offered to the peer now. Tuning may raise `limit`
    /// up to `max_limit`.
    limit: u64,
    max_limit: u64,
    /// `offered` (Linux: rcv_ssthresh) is the window in bytes that is offered to the peer. With `by_segment`, each
    /// received segment widens `offered` up to `limit`.
    offered: u64,
    by_segment: bool,
    /// Whether the limit grows as in Linux 2.6: to twice the bytes read in a round trip.
    doubles: bool,
    /// The round-trip time that the receiver has measured, in nanoseconds; 0 while unknown.
    rtt: u64,
    /// `since` is the start of the current measurement, and `mark` is the read position at that time.
    since: Instant,
    mark: u64,
    /// The largest number of bytes read in one round trip.
    max_read: u64,
}

/// The first window offered, in bytes. The middle value of tcp_rmem in Linux is 128 KiB, of which Linux reserves half
/// for overhead. It offers the rest, but at most 65,535 bytes.
const FIRST_WINDOW: u64 = 65_535;
/// The largest first window of Linux 2.6, in bytes (MAX_TCP_WINDOW).
const FIRST_WINDOW_2_6: u64 = 32_767;
/// The limit of the offered window is twice the bytes read in a round trip plus this number of full segments. The added
/// segments let the sender's window grow (Linux: 16 in tcp_rcv_space_adjust).
const AHEAD: u64 = 16;
/// Segments shorter than this many bytes do not widen the window (Linux: tcp_event_data_recv).
const MIN_WIDENING: u64 = 128;
/// The number of segments assumed to be read in the first round trip (Linux: TCP_INIT_CWND).
const FIRST_READ: u64 = 10;

impl Tuning {
    pub(super) fn new(config: &Config) -> Self {
        let most = config.rcvbuf;
        let limit = if config.rcvbuf_auto { most.min(FIRST_WINDOW) } else { most };
        Self {
            limit,
            max_limit: most,
            offered: limit,
            by_segment: config.ack_push,
            doubles: false,
            rtt: 0,
            since: Instant::ZERO,
            mark: 0,
            max_read: 0,
        }
    }

    /// Begins as Linux 2.6 does (tcp_select_initial_window, tcp_init_buffer_space): a window of two to four segments of
    /// `mss` bytes, and at most 32,767 bytes. The limit leaves room for one segment in the buffer.
    pub(super) fn begin_with_segments(&mut self, mss: u64) {
        let count = match mss {
            4_381.. => 2,
            1_461.. => 3,
            _ => 4,
        };
        let limit = self.limit.saturating_sub(mss).max(2 * mss).min(self.limit);
        self.limit = limit;
        self.offered = limit.min(FIRST_WINDOW_2_6).min(count * mss);
        self.doubles = true;
    }

    #[inline]
    pub(super) fn offered(&self) -> u64 {
        self.offered
    }

    /// Returns whether the offered window is smaller than the limit.
    #[inline]
    pub(super) fn is_behind(&self) -> bool {
        self.offered < self.limit
    }

    /// Widens the offered window after a segment of `length` bytes has arrived, by twice this length (tcp_grow_window).
    /// Returns false and changes nothing if the segment is too short.
    pub(super) fn widen(&mut self, length: u64) -> bool {
        let wide = length >= MIN_WIDENING;
        if wide {
            self.offered = self.limit.min(self.offered + 2 * length);
        }
        wide
    }

    /// Returns whether the limit of the offered window may still grow.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.limit < self.max_limit
    }

    /// Records that a data segment echoed a timestamp that we sent `age` nanoseconds ago.
    #[inline]
    pub(super) fn on_echo(&mut self, age: u64) {
        if self.is_open() {
            self.rtt = if self.rtt == 0 { age } else { (7 * self.rtt + age) / 8 };
        }
    }

    /// Records that the application has read up to position `read`. `rtt` is the round-trip time that the sending half
    /// has measured.
    #[inline]
    pub(super) fn on_read(&mut self, now: Instant, read: u64, rtt: Option<Duration>, mss: u64) {
        if self.is_open() {
            let rtt = if self.rtt > 0 { self.rtt } else { rtt.map_or(0, nanos) };
            if nanos(now.since(self.since)) >= rtt {
                self.measure(now, read, mss);
            }
        }
    }

    fn measure(&mut self, now: Instant, read: u64, mss: u64) {
        let copied = read - self.mark;
        if self.doubles {
            // tcp_rcv_space_adjust of Linux 2.6: the buffer grows if it is too small for twice the bytes read.
            if 2 * copied > self.limit.max(FIRST_WINDOW) {
                self.limit = self.max_limit.min(2 * copied);
            }
            (self.since, self.mark) = (now, read);
            return;
        }
        // tcp_init_buffer_space: the amount read in the first round trip is assumed to be ten segments. It is limited
        // to the whole segments that fit into the first window (tcp_select_initial_window). On a loopback interface,
        // ten segments are larger than this window, so they can never be read in one round trip.
        let first = FIRST_WINDOW / mss.clamp(1, FIRST_WINDOW) * mss;
        let best = self.max_read.max(first.min(FIRST_READ * mss)).max(1);
        if copied > best {
            let window = 2 * copied + AHEAD * mss;
            // In slow start the amount of data that the application reads grows again in the next round trip. The
            // window is therefore increased by twice the relative growth of this amount.
            let growth = u128::from(window) * u128::from(copied - best) / u128::from(best);
            let window = u128::from(window) + 2 * growth;
            self.limit = self.limit.max(u64::try_from(window).unwrap_or(u64::MAX).min(self.max_limit));
            self.max_read = copied;
            if !self.by_segment {
                self.offered = self.limit;
            }
        }
        (self.since, self.mark) = (now, read);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// tcp_grow_window: with `ack_push` the offered window grows by twice the length of each segment that is not small.
    /// Without `ack_push`, the offered window grows to the limit immediately.
    #[test]
    fn more_is_offered_segment_by_segment() {
        for by_segment in [true, false] {
            let mut config = Config::default();
            config.ack_push = by_segment;
            let mut tuning = Tuning::new(&config);
            tuning.on_read(Instant::from_millis(100), 50_000, Some(Duration::from_millis(100)), 1460);
            assert_eq!(tuning.offered() == 65_535, by_segment, "{}", tuning.offered());
            if by_segment {
                let widened = [1460, MIN_WIDENING - 1].map(|length| (tuning.widen(length), tuning.offered()));
                assert_eq!(widened, [(true, 68_455), (false, 68_455)]);
                assert!(tuning.is_behind());
            }
        }
    }

    /// tcp_init_buffer_space: ten segments of this size do not fit into the first window, only three do. The window
    /// grows as soon as the application reads more than three segments in a round trip.
    #[test]
    fn large_segments_let_the_window_grow() {
        const MSS: u64 = 16_384;
        for (read, grows) in [(3 * MSS, false), (FIRST_WINDOW, true)] {
            let mut tuning = Tuning::new(&Config::default());
            tuning.on_read(Instant::from_millis(100), read, Some(Duration::from_millis(100)), MSS);
            assert_eq!(tuning.limit > FIRST_WINDOW, grows, "{read} bytes read: {}", tuning.limit);
        }
    }

    /// Linux 2.6: the first window is two to four segments. Each segment widens it, up to the buffer less one segment.
    /// Twice the bytes read in a round trip are offered if they are more than the first buffer holds.
    #[test]
    fn the_window_of_linux_2_6_begins_with_segments() {
        for (mss, first, limit) in [(1_460, 5_840, 64_075), (4_000, 12_000, 61_535), (16_396, 32_767, 49_139)]
        {
            let mut config = Config::default();
            config.rcvbuf = 131_070;
            let mut tuning = Tuning::new(&config);
            tuning.begin_with_segments(mss);
            assert_eq!(tuning.offered(), first, "{mss}");
            for _ in 0..40 {
                tuning.widen(mss);
            }
            assert_eq!(tuning.offered(), limit, "{mss}");
            let round_trip = Some(Duration::from_millis(100));
            tuning.on_read(Instant::from_millis(100), 30_000, round_trip, mss);
            assert_eq!(tuning.limit, limit, "{mss}");
            tuning.on_read(Instant::from_millis(200), 70_000, round_trip, mss);
            assert_eq!(tuning.limit, 80_000, "{mss}");
            tuning.on_read(Instant::from_millis(300), 170_000, round_trip, mss);
            assert_eq!(tuning.limit, 131_070, "{mss}");
        }
    }

    /// A sender in slow start never has to wait for the window. A sender that sends little is offered a small window.
    #[test]
    fn the_window_stays_ahead_of_slow_start() {
        let mut tuning = Tuning::new(&Config::default());
        let (mut read, mut flight) = (0, 14_600);
        for round in 1..12 {
            for _ in 0..flight / 1460 {
                tuning.widen(1460);
            }
            assert!(
                tuning.offered() >= flight.min(6_291_456),
                "round {round}: {flight} of {}",
                tuning.offered()
            );
            read += flight;
            tuning.on_read(Instant::from_millis(100 * round), read, Some(Duration::from_millis(100)), 1460);
            flight *= 2;
        }
        assert_eq!(tuning.offered(), 6_291_456);

        let mut tuning = Tuning::new(&Config::default());
        for round in 1..100 {
            tuning.on_read(
                Instant::from_millis(100 * round),
                5_000 * round,
                Some(Duration::from_millis(100)),
                1460,
            );
        }
        assert_eq!(tuning.offered(), 65_535);
    }
}
