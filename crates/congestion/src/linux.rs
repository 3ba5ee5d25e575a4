//! Reno and CUBIC counted in whole segments, as in Linux.
//!
//! Owns the window and the threshold as numbers of segments. The transport receives both in bytes, as multiples of the
//! segment size, and reports deliveries in the same way. [`Reno`](crate::Reno) and [`Cubic`](crate::Cubic) follow the
//! RFCs. This controller differs from them in five ways:
//! - The window grows by whole segments.
//! - If slow start needs only some of the acknowledged segments to reach the threshold, the other segments count
//!   towards congestion avoidance.
//! - CUBIC computes the window that Reno would have (W_est in RFC 9438). W_est always grows by 9/17 segments per round
//!   trip, and its growth does not rise to 1 segment.
//! - Before its first loss, CUBIC's window grows by at least a twentieth per round trip.
//! - After a timeout, the window allows one segment more than is believed to be in flight.
//!
//! No RFC specifies these algorithms. They are those of net/ipv4/tcp_cong.c, tcp_cubic.c and tcp_input.c
//! (tcp_enter_loss) in Linux 6.

use crate::cubic::cube_root;
use crate::reno::AfterIdle;
use crate::{Acked, Controller, InitialParams};
use anabranch_base::Instant;
use anabranch_base::time::{Duration, nanos};

/// The settings of a [`Linux`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Whether to use CUBIC. If false, Reno is used.
    pub cubic: bool,
    /// The effect of an idle period on the window.
    pub after_idle: AfterIdle,
    /// Whether the window also grows while the sender does not fill it.
    pub grow_unused: bool,
}

/// An epoch of CUBIC's congestion avoidance. Times are in 1/1024 s.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Epoch {
    start: Instant,
    /// `k` is the time at which the curve reaches its plateau, in units of 1/1024 s after `start`. `plateau` is the
    /// height of the plateau in segments.
    k: u64,
    plateau: u64,
    /// `friendly` is the window that Reno would have, and `counted` is the number of segments counted towards Reno's
    /// next increase.
    friendly: u64,
    counted: u64,
}

/// The state of CUBIC: the current epoch, and the values that outlive an epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Curve {
    epoch: Option<Epoch>,
    /// W_max of RFC 9438 in segments: the window at the last loss, or a lower value after fast convergence. 0 before
    /// the first loss.
    max: u64,
    /// CUBIC's `cnt`: the window grows by one segment for every `cnt` segments delivered. The value was computed for
    /// the window size `window` at the time `computed`.
    cnt: u64,
    window: u64,
    computed: Instant,
}

/// Reno or CUBIC with the arithmetic of Linux.
#[derive(Clone, Debug)]
pub struct Linux {
    config: Config,
    mss: u64,
    /// The initial window, the current window and the slow-start threshold, all in segments.
    initial: u64,
    window: u64,
    ssthresh: u64,
    /// The segments counted towards the next increase of the window in congestion avoidance.
    counted: u64,
    curve: Curve,
    /// The window and the threshold before the last reduction.
    saved: Option<(u64, u64)>,
    /// Whether the retransmission timer has expired and no new data has been acknowledged since.
    timed_out: bool,
}

/// A window in segments that is far larger than any real window. The limit keeps all products in range.
const LARGEST: u64 = 1 << 30;
/// β of CUBIC as Linux defines it: 717/1024, about 0.7.
const BETA: (u64, u64) = (717, 1024);
/// The inverse of α in units of 1/8. The inverse is (1 + β)/(1 - β)/3; in eighths it is 8/3·(1024 + 717)/(1024 - 717),
/// rounded down.
const INVERSE_ALPHA_EIGHTHS: u64 = 15;
/// C of CUBIC, 0.4, as Linux defines it: 410/1024.
const C: u64 = 410;
/// Before the first loss, the window grows by one segment at least once per 20 segments delivered.
const MAX_INITIAL_CNT: u64 = 20;
/// The window grows by at most one segment for every two segments delivered.
const MIN_CNT: u64 = 2;
/// The time for which a computed `cnt` is valid while the window does not change: HZ/32.
const CNT_VALID_FOR: Duration = Duration::from_micros(31_250);

impl Linux {
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
            curve: Curve::default(),
            saved: None,
            timed_out: false,
        }
    }

    /// Sets the slow-start threshold after a loss to a share of the `used` bytes that the transport reported.
    fn reduce(&mut self, used: u64) {
        self.saved = Some((self.window, self.ssthresh));
        let used = (used / self.mss).min(LARGEST);
        if self.config.cubic {
            // Fast convergence: if losses happen at a smaller window than last time, the plateau is lowered, to release
            // bandwidth.
            self.curve.max = if self.window < self.curve.max {
                self.window * (BETA.1 + BETA.0) / (2 * BETA.1)
            } else {
                self.window
            };
            self.curve.epoch = None;
            self.ssthresh = used * BETA.0 / BETA.1;
        } else {
            self.ssthresh = used / 2;
        }
        self.ssthresh = self.ssthresh.max(2);
        self.counted = 0;
    }

    /// Reduces the window to one segment and resets the state after a timeout.
    fn collapse(&mut self) {
        self.window = 1;
        self.counted = 0;
        self.curve = Curve::default();
        self.timed_out = true;
    }

    /// Returns CUBIC's `cnt`: the number of delivered segments after which the window grows by one segment. `n` is the
    /// number of newly delivered segments.
    fn update_cnt(&mut self, now: Instant, n: u64, rtt: Option<Duration>) -> u64 {
        let window = self.window;
        let curve = &mut self.curve;
        if let Some(epoch) = &mut curve.epoch {
            epoch.counted += n;
        }
        let fresh = curve.window == window && now.since(curve.computed) <= CNT_VALID_FOR;
        if fresh && curve.cnt > 0 {
            return curve.cnt;
        }
        (curve.window, curve.computed) = (window, now);
        let mut epoch = curve.epoch.unwrap_or_else(|| {
            let rise = curve.max.saturating_sub(window);
            // K = cbrt(rise / C) in seconds, and C = 410/1024. In units of 1/1024 s, K = cbrt((rise · 2^40) / 410): the
            // constant C contributes 2^10, and the unit contributes 2^30.
            let k = cube_root((u128::from(rise) << 40) / u128::from(C));
            Epoch { start: now, k, plateau: curve.max.max(window), friendly: window, counted: n }
        });
        let ahead = nanos(now.since(epoch.start)).saturating_add(rtt.map_or(0, nanos));
        let t = (ahead.min(1 << 43) << 10) / 1_000_000_000;
        let away = u128::from(t.abs_diff(epoch.k).min(1 << 24));
        let rise = ((u128::from(C) * away * away * away) >> 40) as u64;
        let target =
            if t < epoch.k { epoch.plateau.saturating_sub(rise) } else { epoch.plateau.saturating_add(rise) };
        let mut cnt = if target > window { window / (target - window) } else { 100 * window };
        if curve.max == 0 {
            cnt = cnt.min(MAX_INITIAL_CNT);
        }
        // The window of CUBIC grows at least as fast as that of Reno, which gains one segment for every `each` segments
        // delivered.
        let each = (window * INVERSE_ALPHA_EIGHTHS / 8).max(1);
        let gained = epoch.counted.saturating_sub(1) / each;
        epoch.counted -= gained * each;
        epoch.friendly += gained;
        if epoch.friendly > window {
            cnt = cnt.min(window / (epoch.friendly - window));
        }
        curve.epoch = Some(epoch);
        curve.cnt = cnt.max(MIN_CNT);
        curve.cnt
    }

    /// Counts `n` newly delivered segments, and grows the window by one segment for every `cnt` segments counted.
    fn avoid(&mut self, cnt: u64, n: u64) {
        // If `cnt` has fallen since the previous call, the segments counted in earlier calls cause at most one
        // increase.
        if self.counted >= cnt {
            self.counted = 0;
            self.window += 1;
        }
        self.counted += n;
        if self.counted >= cnt {
            self.window += self.counted / cnt;
            self.counted %= cnt;
        }
        self.window = self.window.min(LARGEST);
    }
}

impl Controller for Linux {
    fn on_acked(&mut self, now: Instant, acked: Acked) {
        if acked.bytes > 0 && acked.cumulative {
            self.timed_out = false;
        }
        let mut n = (acked.bytes / self.mss).min(LARGEST);
        if n == 0 || acked.in_recovery || !(acked.window_limited || self.config.grow_unused) {
            return;
        }
        if self.window < self.ssthresh {
            let window = self.window.saturating_add(n).min(self.ssthresh);
            n -= window - self.window;
            self.window = window;
            if n == 0 {
                return;
            }
        }
        let cnt = if self.config.cubic { self.update_cnt(now, n, acked.rtt) } else { self.window };
        self.avoid(cnt, n);
    }

    fn on_loss(&mut self, _now: Instant, flight: u64, _ecn: bool) {
        self.reduce(flight);
        self.window = self.ssthresh;
    }

    fn on_timeout(&mut self, _now: Instant, flight: u64) {
        if !self.timed_out {
            self.reduce(flight);
        }
        self.collapse();
    }

    fn on_failed_recovery(&mut self, _now: Instant, _flight: u64) {
        // tcp_enter_loss: the threshold has already been reduced for this loss, so only the window is reset.
        self.collapse();
    }

    fn on_remaining(&mut self, pipe: u64) {
        self.window = (pipe / self.mss + 1).min(LARGEST);
    }

    fn on_idle(&mut self, idle: Duration, rto: Duration) {
        if let Some(epoch) = &mut self.curve.epoch {
            // tcp_cubic.c, CA_EVENT_TX_START: the curve does not advance during idle time.
            epoch.start += idle;
        }
        if idle > rto {
            let (window, ssthresh) =
                self.config.after_idle.apply((self.window, self.ssthresh), self.initial, idle, rto);
            (self.window, self.ssthresh) = (window, ssthresh);
        }
    }

    fn on_spurious(&mut self, _now: Instant) {
        if let Some((window, ssthresh)) = self.saved.take() {
            self.window = self.window.max(window);
            self.ssthresh = self.ssthresh.max(ssthresh);
            self.timed_out = false;
        }
    }

    fn leave_slow_start(&mut self) {
        self.ssthresh = self.ssthresh.min(self.window);
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
        if self.config.cubic { "cubic" } else { "reno" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::InitialWindow;

    const MSS: u64 = 1000;
    const RTT: Duration = Duration::from_millis(100);

    fn controller(cubic: bool) -> Linux {
        let config = Config { cubic, after_idle: AfterIdle::Decay, grow_unused: false };
        Linux::new(config, InitialParams::new(MSS, InitialWindow::Packets(10)))
    }

    fn acked(segments: u64) -> Acked {
        Acked {
            bytes: segments * MSS,
            flight_before: segments * MSS,
            cumulative: true,
            in_recovery: false,
            window_limited: true,
            conservative: false,
            rtt: Some(RTT),
        }
    }

    /// Simulates `count` round trips. In each round trip, one window of segments is acknowledged, two segments at a
    /// time. Returns the window after each round trip, in segments.
    fn rounds(controller: &mut Linux, now: &mut Instant, count: u64) -> Vec<u64> {
        let mut windows = Vec::new();
        for _ in 0..count {
            let pairs = controller.window / 2;
            for _ in 0..pairs {
                *now += RTT / pairs as u32;
                controller.on_acked(*now, acked(2));
            }
            windows.push(controller.window);
        }
        windows
    }

    #[test]
    fn windows_are_whole_segments_and_slow_start_ends_on_the_threshold() {
        let (mut reno, mut now) = (controller(false), Instant::ZERO);
        assert_eq!(rounds(&mut reno, &mut now, 3), [20, 40, 80]);
        reno.on_loss(now, reno.window() + 700, false);
        assert_eq!((reno.window, reno.ssthresh()), (40, 40 * MSS));
        assert_eq!(rounds(&mut reno, &mut now, 3), [41, 41, 42], "what comes in pairs makes 40 of 41");
        reno.on_timeout(now, reno.window());
        reno.on_remaining(4 * MSS);
        assert_eq!((reno.window, reno.ssthresh), (5, 21));
        reno.window = 20;
        // One of the three segments completes slow start. The other two count towards the next increase.
        reno.on_acked(now, acked(3));
        assert_eq!((reno.window, reno.counted), (21, 2));
    }

    /// tcp_enter_loss: a timeout during a recovery, or a second timeout, does not reduce the threshold again.
    #[test]
    fn a_repair_that_fails_does_not_reduce_again() {
        for cubic in [false, true] {
            let mut linux = controller(cubic);
            linux.window = 100;
            linux.on_loss(Instant::ZERO, linux.window(), false);
            let ssthresh = linux.ssthresh();
            linux.on_failed_recovery(Instant::ZERO, linux.window());
            assert_eq!((linux.window, linux.ssthresh()), (1, ssthresh));
            linux.on_timeout(Instant::ZERO, linux.window());
            assert_eq!(linux.ssthresh(), ssthresh);
            linux.on_spurious(Instant::ZERO);
            assert_eq!(linux.window, 100);
        }
    }

    /// tcp_cubic.c: before the first loss, the window grows by at least a twentieth per round trip.
    #[test]
    fn before_a_loss_the_window_grows_by_a_twentieth() {
        let (mut cubic, mut now) = (controller(true), Instant::ZERO);
        (cubic.window, cubic.ssthresh) = (100, 100);
        assert_eq!(rounds(&mut cubic, &mut now, 4), [105, 110, 115, 121]);
    }

    /// W_est is the window that Reno would have. In RFC 9438, W_est grows by one segment per round trip once W_est has
    /// reached the window that preceded the loss. In Linux, W_est continues to grow by 9/17 segments per round trip.
    #[test]
    fn reno_s_share_of_cubic_stays_as_it_is() {
        let (mut cubic, mut now) = (controller(true), Instant::ZERO);
        cubic.window = 20;
        cubic.ssthresh = 20;
        cubic.on_loss(now, cubic.window(), false);
        assert_eq!(cubic.window, 14);
        // At an RTT of 10 ms, the curve grows more slowly than W_est, so W_est determines the window.
        for _ in 0..40 {
            for _ in 0..cubic.window / 2 {
                now += Duration::from_millis(20) / cubic.window as u32;
                cubic.on_acked(now, Acked { rtt: Some(Duration::from_millis(10)), ..acked(2) });
            }
        }
        assert!((30..=36).contains(&cubic.window), "{}: 40 rounds of 9/17 are 21 segments", cubic.window);
    }

    #[test]
    fn extremes_do_not_overflow() {
        let mut cubic = controller(true);
        cubic.on_acked(Instant::MAX, Acked { bytes: u64::MAX, rtt: Some(Duration::MAX), ..acked(1) });
        cubic.on_acked(Instant::MAX, Acked { bytes: u64::MAX, rtt: Some(Duration::MAX), ..acked(1) });
        cubic.on_loss(Instant::MAX, u64::MAX, false);
        cubic.on_idle(Duration::MAX, Duration::ZERO);
        cubic.on_acked(Instant::MAX, acked(2));
        cubic.on_timeout(Instant::MAX, u64::MAX);
        cubic.on_remaining(u64::MAX / 2);
        cubic.on_spurious(Instant::MAX);
        assert!(cubic.window() > 0);
    }
}
