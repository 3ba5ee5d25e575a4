//! An enum of all controllers, so that a transport can hold any of them without a type parameter. A controller from
//! outside this crate is boxed.

use crate::{
    AckReport, Acked, Bbr, Bic, Controller, Cubic, InitialWindow, Linux, Reno, Sctp, bic, cubic, linux, reno,
    sctp,
};
use anabranch_base::time::Duration;
use anabranch_base::{BitRate, Instant};

/// The initial parameters of every controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InitialParams {
    /// The unit of the congestion window in bytes. For TCP: the SMSS. For SCTP: the PMDCS under RFC 9260, or the path
    /// MTU under RFC 2960 and RFC 4960.
    pub mss: u64,
    /// The initial window in bytes.
    pub initial_window: u64,
    /// The initial slow-start threshold in bytes: "arbitrarily high", unless the transport has a better value.
    pub initial_ssthresh: u64,
    /// The seed of the controller's random choices, if the controller makes random choices. BBR chooses at random when
    /// to probe for bandwidth.
    pub seed: u64,
}

impl InitialParams {
    /// Creates parameters for packets of `mss` bytes: the initial window according to `initial`, an unlimited threshold
    /// and seed 0.
    #[must_use]
    pub fn new(mss: u64, initial: InitialWindow) -> Self {
        Self { mss, initial_window: initial.bytes(mss), initial_ssthresh: u64::MAX, seed: 0 }
    }

    /// Returns the same parameters with this seed.
    #[must_use]
    pub fn seeded(self, seed: u64) -> Self {
        Self { seed, ..self }
    }
}

/// The type of a controller, together with its settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AlgorithmConfig {
    /// Slow start and congestion avoidance of TCP (RFC 5681).
    Reno(reno::Config),
    /// Slow start and congestion avoidance of SCTP (RFC 9260 §7.2 and its predecessors).
    Sctp(sctp::Config),
    /// CUBIC (RFC 9438).
    Cubic(cubic::Config),
    /// Reno or CUBIC as in Linux: the window is counted in whole segments.
    Linux(linux::Config),
    /// Reno and BIC as in Linux 2.6.11: the window is counted in whole segments.
    Bic(bic::Config),
    /// BBR, version 3 (draft-ietf-ccwg-bbr).
    Bbr,
}

/// Any controller, boxed so that a path without a controller needs little memory.
#[derive(Debug)]
pub enum Algorithm {
    /// Slow start and congestion avoidance of TCP (RFC 5681).
    Reno(Box<Reno>),
    /// Slow start and congestion avoidance of SCTP (RFC 9260 §7.2 and its predecessors).
    Sctp(Box<Sctp>),
    /// CUBIC (RFC 9438).
    Cubic(Box<Cubic>),
    /// Reno or CUBIC as in Linux: the window is counted in whole segments.
    Linux(Box<Linux>),
    /// Reno and BIC as in Linux 2.6.11: the window is counted in whole segments.
    Bic(Box<Bic>),
    /// BBR, version 3 (draft-ietf-ccwg-bbr).
    Bbr(Box<Bbr>),
    /// A controller from outside this crate.
    Other(Box<dyn Controller + Send + Sync>),
}

impl Algorithm {
    /// Creates a controller of type `kind`, in the state before data is sent.
    #[must_use]
    pub fn new(kind: AlgorithmConfig, params: InitialParams) -> Self {
        match kind {
            AlgorithmConfig::Reno(config) => Self::Reno(Box::new(Reno::new(config, params))),
            AlgorithmConfig::Sctp(config) => Self::Sctp(Box::new(Sctp::new(config, params))),
            AlgorithmConfig::Cubic(config) => Self::Cubic(Box::new(Cubic::new(config, params))),
            AlgorithmConfig::Linux(config) => Self::Linux(Box::new(Linux::new(config, params))),
            AlgorithmConfig::Bic(config) => Self::Bic(Box::new(Bic::new(config, params))),
            AlgorithmConfig::Bbr => Self::Bbr(Box::new(Bbr::new(params))),
        }
    }
}

macro_rules! each {
    ($self:ident, $controller:ident => $call:expr) => {
        match $self {
            Algorithm::Reno($controller) => $call,
            Algorithm::Sctp($controller) => $call,
            Algorithm::Cubic($controller) => $call,
            Algorithm::Linux($controller) => $call,
            Algorithm::Bic($controller) => $call,
            Algorithm::Bbr($controller) => $call,
            Algorithm::Other($controller) => $call,
        }
    };
}

impl Controller for Algorithm {
    #[inline]
    fn on_sent(&mut self, now: Instant, bytes: u64) {
        each!(self, c => c.on_sent(now, bytes));
    }

    #[inline]
    fn pacing_rate(&self) -> Option<BitRate> {
        each!(self, c => c.pacing_rate())
    }

    #[inline]
    fn on_acked(&mut self, now: Instant, acked: Acked) {
        each!(self, c => c.on_acked(now, acked));
    }

    fn on_report(&mut self, now: Instant, report: &AckReport) {
        each!(self, c => c.on_report(now, report));
    }

    #[inline]
    fn wants_reports(&self) -> bool {
        each!(self, c => c.wants_reports())
    }

    fn on_application_limited(&mut self) {
        each!(self, c => c.on_application_limited());
    }

    fn on_loss(&mut self, now: Instant, flight: u64, ecn: bool) {
        each!(self, c => c.on_loss(now, flight, ecn));
    }

    fn on_timeout(&mut self, now: Instant, flight: u64) {
        each!(self, c => c.on_timeout(now, flight));
    }

    fn on_failed_recovery(&mut self, now: Instant, flight: u64) {
        each!(self, c => c.on_failed_recovery(now, flight));
    }

    fn on_remaining(&mut self, pipe: u64) {
        each!(self, c => c.on_remaining(pipe));
    }

    fn on_idle(&mut self, idle: Duration, rto: Duration) {
        each!(self, c => c.on_idle(idle, rto));
    }

    fn on_spurious(&mut self, now: Instant) {
        each!(self, c => c.on_spurious(now));
    }

    fn leave_slow_start(&mut self) {
        each!(self, c => c.leave_slow_start());
    }

    fn limit_window(&mut self, window: u64) {
        each!(self, c => c.limit_window(window));
    }

    fn set_mss(&mut self, mss: u64) {
        each!(self, c => c.set_mss(mss));
    }

    #[inline]
    fn window(&self) -> u64 {
        each!(self, c => c.window())
    }

    #[inline]
    fn ssthresh(&self) -> u64 {
        each!(self, c => c.ssthresh())
    }

    fn name(&self) -> &'static str {
        each!(self, c => c.name())
    }
}
