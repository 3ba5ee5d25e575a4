//! Slow start and congestion avoidance of SCTP, for one destination address.
//!
//! Owns cwnd, ssthresh and partial_bytes_acked. The transport decides when a loss is detected and when fast recovery
//! ends (§7.2.4). The rules of the three RFCs differ in a few constants and one condition: see [`Variant`].
//!
//! Implements RFC 9260 §7.2.1, §7.2.2 and §7.2.3, and the same sections of RFC 2960 and RFC 4960.

use crate::{Acked, Controller, HyStart, InitialParams};
use anabranch_base::Instant;
use anabranch_base::time::{Duration, nanos};

/// The RFC whose rules apply to the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Variant {
    /// RFC 2960: a loss or an idle period does not reduce the window below two MTUs.
    Rfc2960,
    /// RFC 4960: a loss or an idle period does not reduce the window below four MTUs.
    Rfc4960,
    /// RFC 9260: a loss or an idle period does not reduce the window below four PMDCS. The window also grows if the
    /// cumulative TSN does not advance. An idle period sets the threshold to the window before the reduction.
    Rfc9260,
}

/// The settings of an [`Sctp`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// The RFC whose rules apply to the window.
    pub variant: Variant,
    /// L of RFC 9260 §7.2.1: the largest increase of the window for each SACK in slow start, in packets.
    pub limit: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self { variant: Variant::Rfc9260, limit: 1 }
    }
}

/// The congestion window of RFC 9260 §7.2.
#[derive(Clone, Debug)]
pub struct Sctp {
    config: Config,
    mss: u64,
    cwnd: u64,
    ssthresh: u64,
    partial_bytes_acked: u64,
    /// The values of cwnd, ssthresh and partial_bytes_acked before the last reduction.
    saved: Option<(u64, u64, u64)>,
}

impl Sctp {
    /// Creates a controller in the state before data is sent.
    #[must_use]
    pub fn new(config: Config, params: InitialParams) -> Self {
        Self {
            config,
            mss: params.mss.max(1),
            cwnd: params.initial_window.max(1),
            ssthresh: params.initial_ssthresh,
            partial_bytes_acked: 0,
            saved: None,
        }
    }

    /// Returns the number of bytes counted towards the next increase in congestion avoidance.
    #[must_use]
    pub fn partial_bytes_acked(&self) -> u64 {
        self.partial_bytes_acked
    }

    /// Returns the minimum window in bytes after a loss or an idle period.
    fn floor(&self) -> u64 {
        match self.config.variant {
            Variant::Rfc2960 => 2 * self.mss,
            Variant::Rfc4960 | Variant::Rfc9260 => 4 * self.mss,
        }
    }

    fn reduce(&mut self) {
        self.saved = Some((self.cwnd, self.ssthresh, self.partial_bytes_acked));
        // RFC 9260 §7.2.3: the threshold is half of cwnd (not of the bytes in flight), but not below the minimum.
        self.ssthresh = (self.cwnd / 2).max(self.floor());
        self.partial_bytes_acked = 0;
    }
}

impl Controller for Sctp {
    fn on_acked(&mut self, _now: Instant, acked: Acked) {
        // RFC 2960 and 4960 §7.2.1, §7.2.2: the window grows only with SACKs that advance the cumulative TSN.
        let counts = acked.cumulative || self.config.variant == Variant::Rfc9260;
        if counts && !acked.in_recovery {
            if self.cwnd <= self.ssthresh {
                // RFC 9260 §7.2.1: the window grows only while it is fully used.
                if acked.window_limited {
                    let most = self.config.limit.max(1) * self.mss;
                    let more = acked.bytes.min(most);
                    self.cwnd = self.cwnd.saturating_add(if acked.conservative {
                        more / HyStart::GROWTH
                    } else {
                        more
                    });
                }
            } else {
                // RFC 9260 §7.2.2: the window grows by one packet for every acknowledged window of bytes.
                self.partial_bytes_acked = self.partial_bytes_acked.saturating_add(acked.bytes);
                if self.partial_bytes_acked >= self.cwnd {
                    if acked.window_limited {
                        self.partial_bytes_acked -= self.cwnd;
                        self.cwnd = self.cwnd.saturating_add(self.mss);
                    } else if self.config.variant == Variant::Rfc9260 {
                        self.partial_bytes_acked = self.cwnd;
                    }
                }
            }
        }
        // RFC 9260 §7.2.2: if no data is outstanding, partial_bytes_acked is reset.
        if acked.bytes >= acked.flight_before {
            self.partial_bytes_acked = 0;
        }
    }

    fn on_loss(&mut self, _now: Instant, _flight: u64, _ecn: bool) {
        self.reduce();
        self.cwnd = self.ssthresh;
    }

    fn on_timeout(&mut self, _now: Instant, _flight: u64) {
        self.reduce();
        self.cwnd = self.mss;
    }

    fn on_idle(&mut self, idle: Duration, rto: Duration) {
        let times = (nanos(idle) / nanos(rto).max(1)).min(63);
        let floor = self.floor();
        if times == 0 || self.cwnd <= floor {
            // An idle period must not increase a window that a timeout has made small.
            return;
        }
        if self.config.variant == Variant::Rfc9260 {
            self.ssthresh = self.cwnd;
        }
        self.cwnd = (self.cwnd >> times).max(floor);
        self.partial_bytes_acked = 0;
    }

    fn on_spurious(&mut self, _now: Instant) {
        if let Some((cwnd, ssthresh, partial)) = self.saved.take() {
            self.cwnd = self.cwnd.max(cwnd);
            self.ssthresh = ssthresh;
            self.partial_bytes_acked = partial;
        }
    }

    fn leave_slow_start(&mut self) {
        // Slow start ends at once: in congestion avoidance, cwnd must be above the threshold (RFC 9260 §7.2.2), so the
        // threshold is set below cwnd.
        self.ssthresh = self.ssthresh.min(self.cwnd.saturating_sub(1));
    }

    fn limit_window(&mut self, window: u64) {
        self.cwnd = self.cwnd.min(window);
    }

    fn set_mss(&mut self, mss: u64) {
        self.mss = mss.max(1);
        self.cwnd = self.cwnd.max(self.mss);
    }

    fn window(&self) -> u64 {
        self.cwnd
    }

    fn ssthresh(&self) -> u64 {
        self.ssthresh
    }

    fn name(&self) -> &'static str {
        match self.config.variant {
            Variant::Rfc2960 => "rfc2960",
            Variant::Rfc4960 => "rfc4960",
            Variant::Rfc9260 => "rfc9260",
        }
    }
}
