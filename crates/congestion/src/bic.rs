//! Reno and BIC counted in whole segments, as in Linux 2.6.8 to 2.6.12.
//!
//! Up to a window of 14 segments the controller is Reno. Above it, the window grows by binary search towards the window
//! at the last loss, and a loss takes a fifth of the window. [`Linux`](crate::Linux) has the arithmetic of Linux 6.
//! This controller differs from `Linux` in three ways besides BIC:
//! - An acknowledgement counts once, however many segments it acknowledges.
//! - Slow start includes the window that is equal to the threshold.
//! - The transport lowers the window during a recovery and after it ([`Controller::limit_window`]).
//!
//! No RFC specifies this algorithm. It is that of net/ipv4/tcp_input.c (bictcp_cwnd, reno_cong_avoid, tcp_enter_loss,
//! tcp_undo_cwr) and include/net/tcp.h (tcp_recalc_ssthresh, tcp_current_ssthresh) in Linux 2.6.12-rc2. The idea is
//! from "Binary Increase Congestion Control for Fast, Long Distance Networks" (Xu, Harfoush, Rhee, INFOCOM 2004).

use crate::reno::AfterIdle;
use crate::{Acked, Controller, InitialParams};
use anabranch_base::Instant;
use anabranch_base::time::Duration;

/// The settings of a [`Bic`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// The effect of an idle period on the window.
    pub after_idle: AfterIdle,
    /// Whether the window also grows while the sender does not fill it.
    pub grow_unused: bool,
}

/// Reno for small windows, BIC for large ones.
#[derive(Clone, Debug)]
pub struct Bic {
    config: Config,
    mss: u64,
    /// The initial window, the current window and the slow-start threshold, all in segments.
    initial: u64,
    window: u64,
    ssthresh: u64,
    /// The acknowledgements counted towards the next increase of the window (snd_cwnd_cnt).
    counted: u64,
    /// The window at the last loss in segments, or less after fast convergence; 0 before the first loss.
    last_max: u64,
    /// The window grows by one segment for `cnt` acknowledgements. `cnt` was computed for a window of `computed_for`
    /// segments, at the time `computed_at`.
    cnt: u64,
    computed_for: u64,
    computed_at: Instant,
    /// The slow-start threshold before the last reduction. Undoing a spurious reduction restores it.
    prior_ssthresh: Option<u64>,
    /// Whether the retransmission timer has expired and no new data has been acknowledged since.
    timed_out: bool,
}

/// A window in segments that is far larger than any real window. The limit keeps all products in range.
const LARGEST: u64 = 1 << 30;
/// The largest window in segments at which the controller behaves like Reno (tcp_bic_low_window).
const LOW_WINDOW: u64 = 14;
/// The share of the window that a loss leaves: 819/1024 (tcp_bic_beta, BICTCP_BETA_SCALE).
const BETA: (u64, u64) = (819, 1024);
/// The largest increase of the window for each window of acknowledgements (BICTCP_MAX_INCREMENT).
const MAX_INCREMENT: u64 = 32;
/// The number of windows of acknowledgements in which the window grows by `B` segments near its target
/// (BICTCP_FUNC_OF_MIN_INCR).
const FUNC_OF_MIN_INCR: u64 = 11;
/// Each step of the binary search adds a quarter of the distance to the target window (BICTCP_B).
const B: u64 = 4;
/// The time for which a computed `cnt` is valid while the window does not change: HZ/32, in whole ticks of 1 ms.
const CNT_VALID_FOR: Duration = Duration::from_millis(31);

impl Bic {
    /// Creates a controller in the state before data is sent.
    #[must_use]
    pub fn new(config: Config, params: InitialParams) -> Self {
        let mss = params.mss.max(1);
        let initial = (params.initial_window / mss).clamp(1, LARGEST);
        let ssthresh =
            if params.initial_ssthresh == u64::MAX { LARGEST } else { params.initial_ssthresh / mss };
        Self {
            config,
            mss,
            initial,
            window: initial,
            ssthresh,
            counted: 0,
            last_max: 0,
            cnt: 0,
            computed_for: 0,
            computed_at: Instant::ZERO,
            prior_ssthresh: None,
            timed_out: false,
        }
    }

    /// Lowers the threshold after a loss, and records the window that the search starts from.
    fn reduce(&mut self) {
        self.prior_ssthresh = Some(self.ssthresh.max(self.window / 2 + self.window / 4));
        self.last_max = if self.window < self.last_max {
            self.window * (BETA.1 + BETA.0) / (2 * BETA.1)
        } else {
            self.window
        };
        let left = if self.window > LOW_WINDOW { self.window * BETA.0 / BETA.1 } else { self.window / 2 };
        self.ssthresh = left.max(2);
        self.counted = 0;
    }

    /// Returns the number of acknowledgements after which the window grows by one segment.
    fn update_cnt(&mut self, now: Instant) -> u64 {
        let window = self.window;
        if self.computed_for == window && now.since(self.computed_at) <= CNT_VALID_FOR {
            return self.cnt;
        }
        (self.computed_for, self.computed_at) = (window, now);
        let max = self.last_max;
        self.cnt = if window <= LOW_WINDOW {
            window
        } else if window < max {
            match (max - window) / B {
                distance if distance > MAX_INCREMENT => window / MAX_INCREMENT,
                0 | 1 => window * FUNC_OF_MIN_INCR / B,
                distance => window / distance,
            }
        } else if window < max + B {
            window * FUNC_OF_MIN_INCR / B
        } else if window < max + MAX_INCREMENT * (B - 1) {
            window * (B - 1) / (window - max)
        } else {
            window / MAX_INCREMENT
        };
        self.cnt
    }
}

impl Controller for Bic {
    fn on_acked(&mut self, now: Instant, acked: Acked) {
        if acked.bytes == 0 || !acked.cumulative {
            return;
        }
        self.timed_out = false;
        if acked.in_recovery || !(acked.window_limited || self.config.grow_unused) {
            return;
        }
        if self.window <= self.ssthresh {
            self.window += 1;
        } else if self.counted >= self.update_cnt(now) {
            self.window += 1;
            self.counted = 0;
        } else {
            self.counted += 1;
        }
        self.window = self.window.min(LARGEST);
    }

    fn on_loss(&mut self, _now: Instant, _flight: u64, _ecn: bool) {
        self.reduce();
        self.window = self.ssthresh.min(self.window);
    }

    fn on_timeout(&mut self, now: Instant, flight: u64) {
        if !self.timed_out {
            self.reduce();
        }
        self.on_failed_recovery(now, flight);
    }

    fn on_failed_recovery(&mut self, _now: Instant, _flight: u64) {
        (self.window, self.counted, self.timed_out) = (1, 0, true);
    }

    fn on_idle(&mut self, idle: Duration, rto: Duration) {
        if idle > rto {
            let state = (self.window, self.ssthresh);
            (self.window, self.ssthresh) = self.config.after_idle.apply(state, self.initial, idle, rto);
        }
    }

    fn on_spurious(&mut self, _now: Instant) {
        if let Some(prior) = self.prior_ssthresh.take() {
            self.window = self.window.max(self.last_max);
            self.ssthresh = self.ssthresh.max(prior);
            self.timed_out = false;
        }
    }

    fn leave_slow_start(&mut self) {
        self.ssthresh = self.ssthresh.min(self.window);
    }

    fn limit_window(&mut self, window: u64) {
        self.window = self.window.min(window / self.mss).max(1);
    }

    fn set_mss(&mut self, mss: u64) {
        self.mss = mss.max(1);
    }

    fn window(&self) -> u64 {
        self.window * self.mss
    }

    fn ssthresh(&self) -> u64 {
        if self.ssthresh >= LARGEST { u64::MAX } else { self.ssthresh * self.mss }
    }

    fn name(&self) -> &'static str {
        "bic"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::InitialWindow;

    const MSS: u64 = 1000;

    fn controller(window: u64) -> Bic {
        let config = Config { after_idle: AfterIdle::Decay, grow_unused: false };
        let mut controller = Bic::new(config, InitialParams::new(MSS, InitialWindow::Packets(2)));
        controller.window = window;
        controller
    }

    /// Acknowledges one segment at a time, 1 ms apart, and returns the number of acknowledgements until the window
    /// grows by a segment.
    fn until_growth(controller: &mut Bic, now: &mut Instant) -> u64 {
        let window = controller.window;
        let acked = Acked {
            bytes: MSS,
            flight_before: window * MSS,
            cumulative: true,
            in_recovery: false,
            window_limited: true,
            conservative: false,
            rtt: None,
        };
        for count in 1..100_000 {
            *now += Duration::from_millis(1);
            controller.on_acked(*now, acked);
            if controller.window > window {
                return count;
            }
        }
        panic!("the window does not grow");
    }

    /// Up to 14 segments, a loss halves the window, and the window then grows by one segment for each window of
    /// acknowledgements. As in Linux, the growth by one segment takes one acknowledgement more than the window has
    /// segments.
    #[test]
    fn a_small_window_is_that_of_reno() {
        let (mut bic, mut now) = (controller(10), Instant::from_millis(1000));
        bic.on_loss(now, 0, false);
        assert_eq!((bic.window, bic.ssthresh), (5, 5));
        assert_eq!(until_growth(&mut bic, &mut now), 1, "slow start includes the threshold");
        assert_eq!([6, 7, 8].map(|_| until_growth(&mut bic, &mut now)), [7, 8, 9]);
        bic.on_timeout(now, 0);
        assert_eq!((bic.window, bic.ssthresh), (1, 4));
        bic.on_timeout(now, 0);
        assert_eq!(bic.ssthresh, 4, "a second timeout in a row leaves the threshold");
    }

    /// After a loss, a large window falls by a fifth. The window then grows fast while it is far below the window at
    /// the loss, and slowly near that window.
    #[test]
    fn a_large_window_is_searched_for() {
        let (mut bic, mut now) = (controller(1000), Instant::from_millis(1000));
        bic.on_loss(now, 0, false);
        assert_eq!((bic.window, bic.ssthresh, bic.last_max), (799, 799, 1000));
        until_growth(&mut bic, &mut now);
        let mut step = |window: u64| {
            (bic.window, bic.counted) = (window, 0);
            until_growth(&mut bic, &mut now)
        };
        // At a window of 801, a quarter of the distance to the target is 49. The growth is therefore limited to 32
        // segments for each window. At a window of 900, the window grows by a quarter of the distance, 25 segments.
        assert_eq!([step(801), step(900)], [801 / 32 + 1, 900 / 25 + 1]);
        assert_eq!([step(995), step(1002)], [995 * 11 / 4 + 1, 1002 * 11 / 4 + 1]);
        assert_eq!([step(1040), step(1200)], [1040 * 3 / 40 + 1, 1200 / 32 + 1]);
        // Fast convergence: a loss at a smaller window than last time lowers the target.
        bic.window = 500;
        bic.on_loss(now, 0, false);
        assert_eq!((bic.last_max, bic.ssthresh), (449, 399));
        bic.on_spurious(now);
        assert_eq!((bic.window, bic.ssthresh), (449, 799));
    }

    #[test]
    fn the_transport_may_lower_the_window() {
        let mut bic = controller(10);
        bic.limit_window(4 * MSS);
        assert_eq!(bic.window(), 4 * MSS);
        bic.limit_window(20 * MSS);
        assert_eq!(bic.window(), 4 * MSS);
    }
}
