//! Slow start and congestion avoidance of TCP. A loss halves the window.
//!
//! Owns the window and the threshold. The window inflation of fast recovery (RFC 5681 §3.2, RFC 6582) belongs to the
//! transport, which counts the duplicate acknowledgements.
//!
//! Implements RFC 5681 §3.1 and §4.1, RFC 3465 (counting bytes), and RFC 2861 §3 (decay while idle).

use crate::{Acked, Controller, HyStart, InitialParams};
use anabranch_base::Instant;
use anabranch_base::time::{Duration, nanos};

/// How acknowledgements make the window grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Counting {
    /// The window grows by the number of acknowledgements, as in stacks before RFC 3465. Each acknowledgement adds at
    /// most one segment in slow start, and mss²/window afterwards. With delayed acknowledgements, the window grows half
    /// as fast.
    Acks,
    /// The window grows by the number of acknowledged bytes (RFC 3465). In slow start, each acknowledgement adds at
    /// most `limit` segments.
    Bytes {
        /// L of RFC 3465, in segments: 1 or 2.
        limit: u64,
    },
}

/// The effect of an idle period on the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum AfterIdle {
    /// The window does not change.
    Keep,
    /// RFC 5681 §4.1: after an idle period of more than one RTO, the window falls back to the initial window.
    Restart,
    /// RFC 2861 §3: the window is halved for every RTO of the idle period, down to the initial window.
    Decay,
}

impl AfterIdle {
    /// Returns the congestion window and the slow-start threshold after `idle`, an idle period of more than an RTO. The
    /// input and the result are in bytes.
    pub(crate) fn apply(
        self,
        (window, ssthresh): (u64, u64),
        initial_window: u64,
        idle: Duration,
        rto: Duration,
    ) -> (u64, u64) {
        let floor = initial_window.min(window);
        match self {
            Self::Keep => (window, ssthresh),
            Self::Restart => (floor, ssthresh),
            Self::Decay => {
                // RFC 2861 §3: the threshold becomes three quarters of the window, unless it is already higher. The
                // window is halved once for each RTO of the idle period.
                let times = (nanos(idle) / nanos(rto).max(1)).min(63);
                ((window >> times).max(floor), ssthresh.max(window / 4 * 3))
            }
        }
    }
}

/// The settings of a [`Reno`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// How acknowledgements make the window grow.
    pub counting: Counting,
    /// The effect of an idle period on the window.
    pub after_idle: AfterIdle,
    /// Whether the window also grows while the sender does not fill it, as in stacks before RFC 2861.
    pub grow_unused: bool,
    /// The percentage of the bytes in flight that remains as the window after a loss: 50 in RFC 5681, 70 in some QUIC
    /// stacks.
    pub beta: u64,
}

impl Default for Config {
    /// By default, acknowledged bytes are counted, with L = 2 segments (RFC 3465). After an idle period, the window is
    /// reduced to the initial window. The window grows only while it is fully used, and a loss halves it.
    fn default() -> Self {
        Self {
            counting: Counting::Bytes { limit: 2 },
            after_idle: AfterIdle::Restart,
            grow_unused: false,
            beta: 50,
        }
    }
}

impl Counting {
    /// Returns the number of bytes by which an acknowledgement increases the window in slow start.
    #[inline]
    pub(crate) fn slow_start(self, acked: &Acked, mss: u64, after_timeout: bool) -> u64 {
        let bytes = acked.bytes;
        let more = match self {
            // RFC 5681 §3.1 eq. 2: the increase is min(N, SMSS) for each acknowledgement of N bytes.
            Self::Acks => bytes.min(mss),
            // RFC 3465 §2.3: after a timeout, one acknowledgement may cover much data that arrived long before.
            // Therefore L is 1 (one segment) until the recovery has ended.
            Self::Bytes { .. } if after_timeout => bytes.min(mss),
            Self::Bytes { limit } => bytes.min(limit * mss),
        };
        if acked.conservative { more / HyStart::GROWTH } else { more }
    }
}

/// The congestion window of RFC 5681.
#[derive(Clone, Debug)]
pub struct Reno {
    config: Config,
    mss: u64,
    initial_window: u64,
    window: u64,
    ssthresh: u64,
    /// The number of acknowledged bytes counted towards the next increase in congestion avoidance.
    counted: u64,
    /// Whether the timer has expired and no new data has been acknowledged since.
    timed_out: bool,
    /// Whether the current slow start began with a timeout.
    after_timeout: bool,
    /// The window and the threshold before the last reduction.
    saved: Option<(u64, u64)>,
}

impl Reno {
    /// Creates a controller in the state before data is sent.
    #[must_use]
    pub fn new(config: Config, params: InitialParams) -> Self {
        Self {
            config,
            mss: params.mss.max(1),
            initial_window: params.initial_window,
            window: params.initial_window.max(1),
            ssthresh: params.initial_ssthresh,
            counted: 0,
            timed_out: false,
            after_timeout: false,
            saved: None,
        }
    }

    /// RFC 5681 §3.1 eq. 4: returns `percent` of the bytes in flight, but at least two segments.
    fn share(&self, flight: u64, percent: u64) -> u64 {
        (flight.saturating_mul(percent) / 100).max(2 * self.mss)
    }
}

impl Controller for Reno {
    fn on_acked(&mut self, _now: Instant, acked: Acked) {
        if acked.bytes > 0 && acked.cumulative {
            self.timed_out = false;
        }
        if acked.in_recovery || !(acked.window_limited || self.config.grow_unused) {
            return;
        }
        if self.window < self.ssthresh {
            let more = self.config.counting.slow_start(&acked, self.mss, self.after_timeout);
            self.window = self.window.saturating_add(more);
            return;
        }
        self.after_timeout = false;
        match self.config.counting {
            // RFC 5681 §3.1 eq. 3: the increase is at least one byte.
            Counting::Acks => {
                if acked.bytes > 0 {
                    self.window = self.window.saturating_add((self.mss * self.mss / self.window).max(1));
                }
            }
            // RFC 3465 §2.1: the window grows by one segment for every acknowledged window of bytes.
            Counting::Bytes { .. } => {
                self.counted = self.counted.saturating_add(acked.bytes);
                if self.counted >= self.window {
                    self.counted -= self.window;
                    self.window = self.window.saturating_add(self.mss);
                }
            }
        }
    }

    fn on_loss(&mut self, _now: Instant, flight: u64, _ecn: bool) {
        self.saved = Some((self.window, self.ssthresh));
        self.ssthresh = self.share(flight, self.config.beta);
        self.window = self.ssthresh;
        self.counted = 0;
        self.after_timeout = false;
    }

    fn on_timeout(&mut self, _now: Instant, flight: u64) {
        // RFC 5681 §3.1: if the same segment times out again, ssthresh is not reduced again.
        if !self.timed_out {
            self.saved = Some((self.window, self.ssthresh));
            self.ssthresh = self.share(flight, 50);
        }
        // RFC 5681 §3.1: the window after a timeout is one segment, whatever the initial window was.
        self.window = self.mss;
        self.counted = 0;
        self.timed_out = true;
        self.after_timeout = true;
    }

    fn on_idle(&mut self, idle: Duration, rto: Duration) {
        if idle <= rto {
            return;
        }
        (self.window, self.ssthresh) =
            self.config.after_idle.apply((self.window, self.ssthresh), self.initial_window, idle, rto);
        self.counted = 0;
    }

    fn on_spurious(&mut self, _now: Instant) {
        if let Some((window, ssthresh)) = self.saved.take() {
            self.window = self.window.max(window);
            self.ssthresh = ssthresh;
            self.timed_out = false;
            self.after_timeout = false;
        }
    }

    fn leave_slow_start(&mut self) {
        self.ssthresh = self.ssthresh.min(self.window);
    }

    fn set_mss(&mut self, mss: u64) {
        self.mss = mss.max(1);
        self.window = self.window.max(self.mss);
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn ssthresh(&self) -> u64 {
        self.ssthresh
    }

    fn name(&self) -> &'static str {
        "reno"
    }
}
