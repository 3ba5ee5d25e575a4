//! CUBIC: after a loss, the window grows as a cubic function of time. The curve has a plateau around the window at
//! which the loss happened.
//!
//! All arithmetic uses integers: windows are in 1/65536 bytes ([`Fixed`]), times in 2^-20 s. The window approaches the
//! curve with each acknowledged byte, as the RFC allows. An acknowledgement of two segments therefore counts twice, and
//! delayed acknowledgements do not slow the growth.
//!
//! Implements RFC 9438 §4.2 to §4.10. HyStart++ is not included: slow start is that of RFC 5681.

use crate::reno::{AfterIdle, Counting};
use crate::{Acked, Controller, InitialParams};
use anabranch_base::Instant;
use anabranch_base::time::{Duration, nanos};

/// The settings of a [`Cubic`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// RFC 9438 §4.7: whether to release bandwidth faster if losses happen at a smaller window than before.
    pub fast_convergence: bool,
    /// How acknowledgements make the window grow in slow start.
    pub counting: Counting,
    /// The minimum window, in packets, after a loss: 2 for TCP (RFC 9438 §4.6), 4 for SCTP (RFC 9260 §7.2.3).
    pub least_packets: u64,
    /// The effect of an idle period on the window.
    pub after_idle: AfterIdle,
    /// Whether the window also grows while the sender does not fill it.
    pub grow_unused: bool,
    /// RFC 9438 §4.3: whether α rises to 1 as soon as W_est (the estimate of Reno's window) is as large as the window
    /// was just before the last loss. Linux keeps α at 9/17.
    pub alpha_rises: bool,
    /// Whether a loss sets the slow-start threshold to a share of the window, as in Linux and RFC 9260 §7.2.3.
    /// Otherwise the threshold is a share of the bytes in flight.
    pub threshold_of_window: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            fast_convergence: true,
            counting: Counting::Bytes { limit: 2 },
            least_packets: 2,
            after_idle: AfterIdle::Restart,
            grow_unused: false,
            alpha_rises: true,
            threshold_of_window: false,
        }
    }
}

/// A number of bytes in units of 1/65536 byte.
type Fixed = u64;
const FIXED_BITS: u32 = 16;
/// Times are fixed-point numbers of seconds with this number of fractional bits: a tick is 2^-20 s.
const TICK_BITS: u32 = 20;
/// A window in bytes that is far larger than any real window. The limit keeps all products in range.
const LARGEST_WINDOW: u64 = 1 << 40;
/// β of RFC 9438 §4.6, 0.7, as a fraction.
const BETA: (u64, u64) = (7, 10);
/// α of RFC 9438 §4.3 for β = 0.7: 3·(1 - 0.7)/(1 + 0.7) = 9/17.
const ALPHA: (u64, u64) = (9, 17);

/// An epoch of congestion avoidance, which the RFC calls a stage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Epoch {
    /// The time when the epoch started, moved later by the periods in which the application did not use the window.
    start: Instant,
    /// The time at which the curve reaches its plateau, in ticks after `start`.
    k: u64,
    /// The height of the plateau, W_max.
    plateau: Fixed,
    /// W_est: the window that Reno would have in the same conditions.
    friendly: Fixed,
    /// The time since which the sender has not used its whole window.
    unused_since: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct CurveState {
    window: Fixed,
    ssthresh: u64,
    /// W_max, the window at the plateau of the curve; 0 while unknown.
    max: Fixed,
    /// cwnd_prior: the window before the last reduction.
    prior: Fixed,
    epoch: Option<Epoch>,
    /// Whether the sender recovers from a timeout. The field is cleared when the next congestion avoidance stage
    /// begins.
    after_timeout: bool,
}

/// The CUBIC congestion window of RFC 9438.
#[derive(Clone, Debug)]
pub struct Cubic {
    config: Config,
    mss: u64,
    initial_window: u64,
    state: CurveState,
    /// Whether the retransmission timer has expired, and no new data has been acknowledged since then.
    timed_out: bool,
    saved: Option<Box<CurveState>>,
}

impl Cubic {
    /// Creates a controller in the state before data is sent.
    #[must_use]
    pub fn new(config: Config, params: InitialParams) -> Self {
        let window = params.initial_window.clamp(1, LARGEST_WINDOW);
        Self {
            config,
            mss: params.mss.max(1),
            initial_window: window,
            state: CurveState {
                window: window << FIXED_BITS,
                ssthresh: params.initial_ssthresh,
                max: 0,
                prior: 0,
                epoch: None,
                after_timeout: false,
            },
            timed_out: false,
            saved: None,
        }
    }

    /// RFC 9438 §4.2: begins a new congestion avoidance stage with the current window.
    fn begin_epoch(&mut self, now: Instant) -> Epoch {
        let state = &mut self.state;
        // RFC 9438 §4.8, §4.10: the current window becomes the plateau after a timeout, or if it is not below W_max.
        // W_max is 0 after a slow start that ended without a loss.
        let known = state.max > state.window && !state.after_timeout;
        if !known {
            state.max = state.window;
        }
        if state.prior == 0 {
            state.prior = state.window;
        }
        state.after_timeout = false;
        // K = cbrt((W_max - cwnd) / C), with windows in segments and C = 2/5. A factor of 2^60 under the cube root
        // converts K from seconds to ticks of 2^-20 s. `rise` already has a factor of 2^16, so the shift is by 44 bits.
        // Windows are at most 2^56 and 5/2 is below 2^2, so the operand is below 2^(56 + 2 + 44).
        let rise = u128::from(state.max - state.window) * 5 / (2 * u128::from(self.mss));
        let k = cube_root(rise << (3 * TICK_BITS - FIXED_BITS));
        Epoch { start: now, k, plateau: state.max, friendly: state.window, unused_since: None }
    }

    /// RFC 9438 §4.2 eq. 1: returns W_cubic, the height of the curve, `t` ticks after the stage began.
    fn curve(&self, epoch: &Epoch, t: u64) -> Fixed {
        let away = t.abs_diff(epoch.k).min(1 << 31);
        let cube = u128::from(away).pow(3); // at most 2^93
        // The slope C·mss = 2/5·mss is in 1/65536 bytes. The limit of 2^17 bytes on the MSS keeps the slope below 2^32,
        // so `cube * slope` fits 128 bits.
        let slope = u128::from((self.mss.min(1 << 17) << (FIXED_BITS + 1)) / 5);
        let rise = u64::try_from((cube * slope) >> (3 * TICK_BITS)).unwrap_or(u64::MAX);
        if t >= epoch.k { epoch.plateau.saturating_add(rise) } else { epoch.plateau.saturating_sub(rise) }
    }

    /// RFC 9438 §4.2 to §4.5: computes the window after `bytes` more bytes were acknowledged.
    fn avoid(&mut self, now: Instant, bytes: u64, rtt: Option<Duration>) {
        let mut epoch = match self.state.epoch.take() {
            Some(epoch) => epoch,
            None => self.begin_epoch(now),
        };
        if let Some(since) = epoch.unused_since.take() {
            // RFC 9438 §4.2: t excludes the time in which the window was not fully used.
            epoch.start += now.since(since);
        }
        let t = ticks(now.since(epoch.start));
        let window = self.state.window;
        let bytes = bytes.min(window >> FIXED_BITS);

        // RFC 9438 §4.3 eq. 4: W_est (the window that Reno would have) grows by α segments for each acknowledged
        // window. Once W_est is as large as the window was just before the last loss, α is 1.
        let share = (self.mss << FIXED_BITS).saturating_mul(bytes) / (window >> FIXED_BITS).max(1);
        let risen = self.config.alpha_rises && epoch.friendly >= self.state.prior;
        let (times, over) = if risen { (1, 1) } else { ALPHA };
        epoch.friendly = epoch.friendly.saturating_add(share * times / over);

        let next = if self.curve(&epoch, t) < epoch.friendly {
            // RFC 9438 §4.3: the window is at least `W_est`, the estimate of Reno's window. The `max` ensures that the
            // window never shrinks.
            epoch.friendly.max(window)
        } else {
            // RFC 9438 §4.2: the target is the height of the curve one RTT ahead, but at most 1.5 times the window.
            let ahead = t.saturating_add(ticks(rtt.unwrap_or(Duration::ZERO)));
            let target = self.curve(&epoch, ahead).clamp(window, window + window / 2);
            // RFC 9438 §4.4, §4.5: the window grows by (target - cwnd) / cwnd for each acknowledged segment.
            let share = u128::from(target - window) * u128::from(bytes);
            window + (share / u128::from((window >> FIXED_BITS).max(1))) as u64
        };
        self.state.window = next.min(LARGEST_WINDOW << FIXED_BITS);
        self.state.epoch = Some(epoch);
    }

    /// Returns the number of bytes from which the slow-start threshold after a loss is computed: the window or the
    /// bytes in flight.
    fn used(&self, flight: u64) -> u64 {
        if self.config.threshold_of_window { self.window() } else { flight }
    }

    /// RFC 9438 §4.6, §4.7: the steps that the reactions to a loss and to a timeout have in common.
    fn reduce(&mut self, used: u64) {
        self.saved = Some(Box::new(self.state));
        let state = &mut self.state;
        state.prior = state.window;
        state.max = if self.config.fast_convergence && state.window < state.max {
            // Fast convergence: W_max = cwnd·(1 + β)/2.
            state.window / (2 * BETA.1) * (BETA.1 + BETA.0)
        } else {
            state.window
        };
        let reduced = used.min(LARGEST_WINDOW) * BETA.0 / BETA.1;
        state.ssthresh = reduced.max(self.config.least_packets.max(1) * self.mss);
        state.epoch = None;
    }
}

impl Controller for Cubic {
    fn on_acked(&mut self, now: Instant, acked: Acked) {
        if acked.bytes > 0 && acked.cumulative {
            self.timed_out = false;
        }
        if acked.in_recovery || acked.bytes == 0 {
            return;
        }
        if !(acked.window_limited || self.config.grow_unused) {
            if let Some(epoch) = &mut self.state.epoch {
                epoch.unused_since.get_or_insert(now);
            }
            return;
        }
        if self.window() < self.state.ssthresh {
            let more = self.config.counting.slow_start(&acked, self.mss, self.state.after_timeout);
            let window = (self.window().saturating_add(more)).min(LARGEST_WINDOW);
            self.state.window = window << FIXED_BITS;
        } else {
            self.avoid(now, acked.bytes, acked.rtt);
        }
    }

    fn on_loss(&mut self, _now: Instant, flight: u64, ecn: bool) {
        let used = self.used(flight);
        let reduced = used.min(LARGEST_WINDOW) * BETA.0 / BETA.1;
        self.reduce(used);
        // RFC 9438 §4.6: after an ECN mark, the window may fall to one segment, although `ssthresh` does not fall below
        // `least_packets`.
        let window = if ecn { reduced.max(self.mss) } else { self.state.ssthresh };
        self.state.window = window << FIXED_BITS;
        self.state.after_timeout = false;
    }

    fn on_timeout(&mut self, _now: Instant, flight: u64) {
        // RFC 5681 §3.1: if the same segment times out again, ssthresh is not reduced again.
        if !self.timed_out {
            self.reduce(self.used(flight));
        }
        self.state.window = self.mss << FIXED_BITS;
        self.state.epoch = None;
        self.state.after_timeout = true;
        self.timed_out = true;
    }

    fn on_idle(&mut self, idle: Duration, rto: Duration) {
        let window = self.state.window;
        if idle > rto {
            let (fallen, ssthresh) = self.config.after_idle.apply(
                (window >> FIXED_BITS, self.state.ssthresh),
                self.initial_window,
                idle,
                rto,
            );
            self.state.ssthresh = ssthresh;
            if fallen < window >> FIXED_BITS {
                self.state.window = fallen << FIXED_BITS;
            }
        }
        if self.state.window < window {
            // RFC 5681 §4.1: a reduction after an idle period ends the congestion avoidance stage. RFC 9438 §5.8 refers
            // to this section.
            self.state.epoch = None;
        } else if let Some(epoch) = &mut self.state.epoch
            && epoch.unused_since.is_none()
        {
            // RFC 9438 §4.2: idle time is not part of t, even if the idle time is short.
            epoch.start += idle;
        }
    }

    fn on_spurious(&mut self, _now: Instant) {
        // RFC 9438 §4.9.2: the state from before the loss is restored, unless the window has grown back to its old
        // size.
        if let Some(before) = self.saved.take()
            && self.state.window < self.state.prior
        {
            self.state = *before;
            self.timed_out = false;
        }
    }

    fn leave_slow_start(&mut self) {
        self.state.ssthresh = self.state.ssthresh.min(self.window());
    }

    fn set_mss(&mut self, mss: u64) {
        self.mss = mss.max(1);
        self.state.window = self.state.window.max(self.mss << FIXED_BITS);
    }

    fn window(&self) -> u64 {
        self.state.window >> FIXED_BITS
    }

    fn ssthresh(&self) -> u64 {
        self.state.ssthresh
    }

    fn name(&self) -> &'static str {
        "cubic"
    }
}

fn ticks(span: Duration) -> u64 {
    // Computes ns·2^20/10^9. A span above 2.4 hours counts as 2.4 hours.
    (nanos(span).min(1 << 43) << TICK_BITS) / 1_000_000_000
}

/// Returns the largest integer whose cube is at most `n`.
pub(crate) fn cube_root(n: u128) -> u64 {
    if n == 0 {
        return 0;
    }
    // Newton's method, starting above the root: the first value is a power of two that is not below the root.
    let mut x = 1_u128 << (128 - n.leading_zeros()).div_ceil(3);
    loop {
        let next = (2 * x + n / (x * x)) / 3;
        if next >= x {
            return x as u64;
        }
        x = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cube_roots_are_exact() {
        for root in (0..200).chain([1 << 20, (1 << 34) + 12_345, (1 << 40) - 1, 1 << 41]) {
            let n = u128::from(root).pow(3);
            assert_eq!(cube_root(n), root);
            assert_eq!(cube_root(n + 1), if root == 0 { 1 } else { root });
            if root > 0 {
                assert_eq!(cube_root(n - 1), root - 1);
            }
        }
    }

    /// If little of the window is in use, the base of the slow-start threshold matters: RFC 9438 uses the bytes in
    /// flight, Linux the window.
    #[test]
    fn the_setting_selects_the_base_of_ssthresh() {
        let after = |threshold_of_window| {
            let params =
                InitialParams { mss: 1000, initial_window: 100_000, initial_ssthresh: 100_000, seed: 0 };
            let mut cubic = Cubic::new(Config { threshold_of_window, ..Config::default() }, params);
            cubic.on_loss(Instant::ZERO, 20_000, false);
            cubic.ssthresh()
        };
        assert_eq!((after(false), after(true)), (14_000, 70_000));
    }

    /// RFC 9438 §4.3: once W_est is as large as the window was at the last loss, W_est grows by one segment per round
    /// trip. In Linux, W_est continues to grow by 9/17 of a segment per round trip. No time passes in this test, so the
    /// cubic curve stays below W_est.
    #[test]
    fn renos_share_rises_after_the_loss_is_made_good_unless_set_otherwise() {
        let growth = |alpha_rises| {
            let params =
                InitialParams { mss: 1000, initial_window: 20_000, initial_ssthresh: 20_000, seed: 0 };
            let mut cubic = Cubic::new(Config { alpha_rises, ..Config::default() }, params);
            let mut last_round = 0;
            cubic.on_loss(Instant::ZERO, 20_000, false);
            for _ in 0..40 {
                let before = cubic.window();
                let acked = Acked {
                    bytes: before,
                    flight_before: before,
                    cumulative: true,
                    in_recovery: false,
                    window_limited: true,
                    conservative: false,
                    rtt: None,
                };
                cubic.on_acked(Instant::ZERO, acked);
                last_round = cubic.window() - before;
            }
            assert!(cubic.window() > 20_000, "the loss has been made good");
            last_round
        };
        assert_eq!((growth(true), growth(false)), (1000, 529));
    }

    /// RFC 5681 §4.1, RFC 2861 §3: the setting decides how much of the window remains after an idle period.
    #[test]
    fn idleness_does_what_the_setting_says() {
        let after = |after_idle| {
            let params =
                InitialParams { mss: 1000, initial_window: 80_000, initial_ssthresh: 80_000, seed: 0 };
            let mut cubic = Cubic::new(Config { after_idle, ..Config::default() }, params);
            cubic.initial_window = 10_000;
            cubic.on_idle(Duration::from_millis(500), Duration::from_millis(200));
            (cubic.window(), cubic.ssthresh())
        };
        assert_eq!(after(AfterIdle::Keep), (80_000, 80_000));
        assert_eq!(after(AfterIdle::Restart), (10_000, 80_000));
        assert_eq!(after(AfterIdle::Decay), (20_000, 80_000));
    }

    /// RFC 9438 §5.8: a window that is not fully used does not grow, unless the configuration allows this
    /// (`grow_unused`).
    #[test]
    fn an_unused_window_grows_only_where_that_is_set() {
        let after = |grow_unused| {
            let params =
                InitialParams { mss: 1000, initial_window: 10_000, initial_ssthresh: u64::MAX, seed: 0 };
            let mut cubic = Cubic::new(Config { grow_unused, ..Config::default() }, params);
            let acked = Acked {
                bytes: 1000,
                flight_before: 1000,
                cumulative: true,
                in_recovery: false,
                window_limited: false,
                conservative: false,
                rtt: None,
            };
            cubic.on_acked(Instant::ZERO, acked);
            cubic.window()
        };
        assert_eq!((after(false), after(true)), (10_000, 11_000));
    }

    #[test]
    fn ticks_do_not_overflow() {
        assert_eq!(ticks(Duration::from_secs(1)), 1 << TICK_BITS);
        assert_eq!(ticks(Duration::from_millis(500)), 1 << (TICK_BITS - 1));
        assert!(ticks(Duration::MAX) > 1 << 32);
    }

    #[test]
    fn extreme_windows_and_times_do_not_overflow() {
        let params = InitialParams {
            mss: u64::from(u16::MAX),
            initial_window: u64::MAX,
            initial_ssthresh: 1,
            seed: 0,
        };
        let mut cubic = Cubic::new(Config::default(), params);
        let acked = Acked {
            bytes: u64::MAX,
            flight_before: u64::MAX,
            cumulative: true,
            in_recovery: false,
            window_limited: true,
            conservative: false,
            rtt: Some(Duration::MAX),
        };
        cubic.on_acked(Instant::ZERO, acked);
        cubic.on_acked(Instant::MAX, acked);
        cubic.on_loss(Instant::MAX, u64::MAX, false);
        cubic.on_idle(Duration::MAX, Duration::ZERO);
        cubic.on_acked(Instant::MAX, acked);
        cubic.on_timeout(Instant::MAX, u64::MAX);
        cubic.on_spurious(Instant::MAX);
        assert!(cubic.window() <= LARGEST_WINDOW);
    }
}
