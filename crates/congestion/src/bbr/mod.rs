//! BBR, version 3. It sends at the measured delivery rate of the path, and keeps little more data in flight than the
//! path holds.
//!
//! Owns the state machine (Startup, Drain, the four phases of ProbeBW, ProbeRTT) and its results: the pacing rate, the
//! congestion window and, through them, the size of bursts. [`model`] owns the model of the path. The transport reports
//! each acknowledgement ([`Controller::on_report`]), and calls [`Controller::on_application_limited`] when its
//! application has nothing to send.
//!
//! Implements draft-ietf-ccwg-bbr ("BBR Congestion Control", the text of August 2026). The comments use the names of
//! the draft. This module differs from the draft in two ways. First, the offload budget is two packets, because no
//! layer below the transport aggregates packets. Second, the transport's pacer controls bursts.

mod model;
#[cfg(test)]
mod tests;

use crate::delivery_rate::{AckReport, RateSample, RateSampler};
use crate::{Acked, Controller, InitialParams};
use anabranch_base::time::{Duration, nanos};
use anabranch_base::{BitRate, Instant, Rng};
use model::Model;

/// The state of a BBR flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Startup: doubles the rate each round trip.
    Startup,
    /// Drain: drains the queue that Startup built.
    Drain,
    /// ProbeBW_DOWN: sends more slowly than the delivery rate.
    Down,
    /// ProbeBW_CRUISE: sends at the delivery rate.
    Cruise,
    /// ProbeBW_REFILL: sends at the delivery rate, without the short-term bounds of the last cycle.
    Refill,
    /// ProbeBW_UP: sends faster than the delivery rate.
    Up,
    /// ProbeRTT: keeps little data in flight, to measure the round-trip time without a queue.
    ProbeRtt,
}

impl State {
    /// IsInAProbeBWState: returns whether the state is one of the four phases of ProbeBW.
    const fn is_probe_bw(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    /// IsProbingBW: returns whether a flow in this state probes for bandwidth or prepares a probe.
    const fn is_probing(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }

    /// BBR.pacing_gain: returns the percentage of the bandwidth at which the sender paces in this state.
    const fn pacing_gain(self) -> u64 {
        match self {
            Self::Startup => 277,
            Self::Drain => 50,
            Self::Down => 90,
            Self::Cruise | Self::Refill | Self::ProbeRtt => 100,
            Self::Up => 125,
        }
    }

    /// BBR.cwnd_gain: returns the congestion window in this state as a percentage of the bandwidth-delay product.
    const fn window_gain(self) -> u64 {
        match self {
            Self::Up => 225,
            Self::ProbeRtt => 50,
            _ => 200,
        }
    }
}

/// BBR.ack_phase: which part of a bandwidth probe the arriving acknowledgements belong to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AckPhase {
    /// ACKS_INIT: no probe is in progress.
    None,
    /// ACKS_REFILLING: the path is being refilled before a probe.
    Refilling,
    /// ACKS_PROBE_STARTING: the amount in flight rises.
    Starting,
    /// ACKS_PROBE_FEEDBACK: acknowledgements of packets sent during the probe arrive.
    Coming,
    /// ACKS_PROBE_STOPPING: the probe has ended, but acknowledgements of its packets still arrive.
    Stopping,
}

/// BBR.PacingMarginPercent: the percentage by which the pacing rate stays below the computed rate.
const PACING_MARGIN: u64 = 1;
/// BBR.MinPipeCwnd: the smallest congestion window outside of timeouts, in packets.
const LEAST_PACKETS: u64 = 4;
/// BBR.offload_budget in packets. It equals the lower limit of C.send_quantum.
const QUANTUM_PACKETS: u64 = 2;
/// BBRStartupFullLossCnt: Startup may end after a round trip with this many losses.
const STARTUP_LOSSES: u64 = 6;
/// BBR.ProbeRTTDuration: the minimum time for which ProbeRTT keeps little data in flight.
const PROBE_RTT_SPAN: Duration = Duration::from_millis(200);
/// The upper bound, in round trips, of T_reno, the time between two losses of a Reno flow.
const RENO_ROUNDS: u64 = 63;

/// The BBR state of one path.
#[derive(Debug)]
pub struct Bbr {
    mss: u64,
    initial_window: u64,
    rng: Rng,
    sampler: RateSampler,
    model: Model,
    state: State,
    ack_phase: AckPhase,
    /// C.cwnd: the congestion window in bytes.
    window: u64,
    /// C.pacing_rate: the pacing rate in bytes per second.
    rate: u64,
    /// Whether a round-trip time has been measured, so that the rate is no longer the initial guess.
    knows_rtt: bool,
    /// BBR.prior_cwnd: the congestion window to restore after a recovery or ProbeRTT, in bytes.
    prior_window: u64,
    recovering: bool,
    /// Whether the retransmission timer has expired and the lost data has not been repaired yet.
    after_timeout: bool,
    /// C.is_cwnd_limited: whether the congestion window limited sending, in the current and in the previous round trip.
    window_used: [bool; 2],
    idle_restart: bool,
    drain_start_round: u64,
    /// The number of losses in the current round trip of Startup.
    startup_losses: u64,
    /// The round trip in which the recovery began.
    recovery_round: u64,
    /// BBR.is_bw_probe_sample: whether rate samples come from a bandwidth probe.
    is_probe_sample: bool,
    prev_probe_too_high: bool,
    prev_probe_precautionary: bool,
    probe_up_acked: u64,
    probe_up_acked_per_packet: u64,
    probe_up_rounds: u32,
    rounds_since_probe_up: u64,
    probe_wait: Duration,
    cycle_stamp: Instant,
    probe_rtt_done: Option<Instant>,
    probe_rtt_round_done: bool,
    undo: Undo,
}

/// The state that is restored when a recovery turns out to be spurious.
#[derive(Clone, Copy, Debug, Default)]
struct Undo {
    state: Option<State>,
    bw_shortterm: u64,
    inflight_shortterm: u64,
    inflight_longterm: u64,
}

impl Bbr {
    /// Creates the state for a path without measurements.
    #[must_use]
    pub fn new(params: InitialParams) -> Self {
        let mut bbr = Self {
            mss: params.mss.max(1),
            initial_window: params.initial_window,
            rng: Rng::new(params.seed).fork("bbr"),
            sampler: RateSampler::default(),
            model: Model::default(),
            state: State::Startup,
            ack_phase: AckPhase::None,
            window: params.initial_window,
            rate: 0,
            knows_rtt: false,
            prior_window: 0,
            recovering: false,
            after_timeout: false,
            window_used: [false; 2],
            idle_restart: false,
            drain_start_round: 0,
            startup_losses: 0,
            recovery_round: 0,
            is_probe_sample: false,
            prev_probe_too_high: false,
            prev_probe_precautionary: false,
            probe_up_acked: 0,
            probe_up_acked_per_packet: u64::MAX,
            probe_up_rounds: 0,
            rounds_since_probe_up: 0,
            probe_wait: Duration::ZERO,
            cycle_stamp: Instant::ZERO,
            probe_rtt_done: None,
            probe_rtt_round_done: false,
            undo: Undo::default(),
        };
        // InitPacingRate: no round-trip time is known yet, so one millisecond is assumed.
        bbr.guess_rate(1_000_000);
        bbr
    }

    /// Returns the current state of the BBR state machine.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns BBR.max_bw in bytes per second.
    #[must_use]
    pub fn bandwidth(&self) -> u64 {
        self.model.max_bw()
    }

    /// Returns BBR.min_rtt, once known.
    #[must_use]
    pub fn min_rtt(&self) -> Option<Duration> {
        self.model.min_rtt().map(Duration::from_nanos)
    }

    /// Returns BBR.inflight_longterm in bytes, once losses have set it.
    #[must_use]
    pub fn inflight_longterm(&self) -> Option<u64> {
        Some(self.model.inflight_longterm).filter(|bytes| *bytes < u64::MAX)
    }

    fn min_window(&self) -> u64 {
        LEAST_PACKETS * self.mss
    }

    /// InitPacingRate: sets the rate from the initial window and the round-trip time `rtt` in nanoseconds.
    fn guess_rate(&mut self, rtt: u64) {
        let nominal = u128::from(self.initial_window) * 1_000_000_000 / u128::from(rtt.max(1));
        let rate = nominal * u128::from(State::Startup.pacing_gain()) / 100;
        self.rate = u64::try_from(rate).unwrap_or(u64::MAX).max(1);
    }

    // The functions below compute target amounts in flight.

    /// BDPMultiple: returns the bandwidth-delay product at the rate `bandwidth`, times `gain` in percent.
    fn bdp_multiple(&self, bandwidth: u64, gain: u64) -> u64 {
        match self.model.min_rtt() {
            None => self.initial_window,
            Some(rtt) => {
                let bdp = u128::from(bandwidth) * u128::from(rtt) / 1_000_000_000;
                u64::try_from(bdp * u128::from(gain) / 100).unwrap_or(u64::MAX)
            }
        }
    }

    /// QuantizationBudget: raises `inflight` to at least two packets and the minimum window, and adds two packets in
    /// ProbeBW_UP.
    fn quantized(&self, inflight: u64) -> u64 {
        let more = if self.state == State::Up { 2 * self.mss } else { 0 };
        inflight.max(QUANTUM_PACKETS * self.mss).max(self.min_window()).saturating_add(more)
    }

    /// Inflight: returns the bandwidth-delay product in bytes at the rate `bandwidth`, times `gain` in percent, as
    /// adjusted by `quantized`.
    fn inflight(&self, bandwidth: u64, gain: u64) -> u64 {
        self.quantized(self.bdp_multiple(bandwidth, gain))
    }

    /// InflightWithHeadroom: returns the long-term bound on the bytes in flight, less 15 % that are left to other
    /// flows.
    fn inflight_with_headroom(&self) -> u64 {
        let longterm = self.model.inflight_longterm;
        if longterm == u64::MAX {
            return u64::MAX;
        }
        let headroom = (longterm * 15 / 100).max(self.mss);
        longterm.saturating_sub(headroom).max(self.min_window())
    }

    /// TargetInflight: returns the bandwidth-delay product, at most the congestion window.
    fn target_inflight(&self) -> u64 {
        self.bdp_multiple(self.model.bw(), 100).min(self.window)
    }

    /// ProbeRTTCwnd: returns the congestion window during ProbeRTT.
    fn probe_rtt_window(&self) -> u64 {
        self.bdp_multiple(self.model.bw(), State::ProbeRtt.window_gain()).max(self.min_window())
    }

    // Startup and Drain.

    /// CheckStartupDone: ends Startup if the rate no longer grows or too much is lost.
    fn check_startup_done(&mut self, sample: &RateSample) {
        self.check_startup_high_loss(sample);
        if self.state == State::Startup && self.model.full_bw_reached {
            self.state = State::Drain;
            self.drain_start_round = self.model.round_count;
        }
    }

    /// CheckStartupHighLoss: marks the path as full after a round trip in recovery with at least six losses and more
    /// than 2 % lost.
    fn check_startup_high_loss(&mut self, sample: &RateSample) {
        if self.state != State::Startup || self.model.full_bw_reached || !self.model.loss_round_start {
            return;
        }
        let losses = std::mem::take(&mut self.startup_losses);
        let in_recovery_for_a_round = self.recovering && self.model.round_count > self.recovery_round;
        if in_recovery_for_a_round
            && losses >= STARTUP_LOSSES
            && is_too_high(sample.lost, sample.tx_in_flight)
        {
            self.undo.state = Some(State::Startup);
            self.model.full_bw_reached = true;
            self.model.full_bw_now = true;
            self.model.inflight_longterm =
                self.bdp_multiple(self.model.bw(), 100).max(self.model.inflight_latest);
        }
    }

    /// CheckDrainDone: ends Drain once the queue is drained, or after more than three round trips.
    fn check_drain_done(&mut self, now: Instant) {
        if self.state == State::Drain
            && (self.sampler.in_flight() <= self.inflight(self.model.bw(), 100)
                || self.model.round_count > self.drain_start_round + 3)
        {
            self.start_down(now);
        }
    }

    // ProbeBW.

    /// StartProbeBW_DOWN: begins a phase that drains the queue.
    fn start_down(&mut self, now: Instant) {
        self.model.reset_congestion_signals();
        self.probe_up_acked_per_packet = u64::MAX;
        // PickProbeWait: chooses at random when to probe for bandwidth again.
        self.rounds_since_probe_up = self.rng.below(2);
        self.probe_wait = Duration::from_secs(2) + Duration::from_nanos(self.rng.below(1_000_000_000));
        self.cycle_stamp = now;
        self.ack_phase = AckPhase::Stopping;
        self.start_round();
        self.state = State::Down;
    }

    /// StartProbeBW_REFILL: begins a phase that fills the path before a probe.
    fn start_refill(&mut self) {
        self.model.reset_shortterm();
        self.probe_up_rounds = 0;
        self.probe_up_acked = 0;
        self.prev_probe_precautionary = false;
        self.ack_phase = AckPhase::Refilling;
        self.start_round();
        self.state = State::Refill;
    }

    /// StartProbeBW_UP: begins a probe for more bandwidth.
    fn start_up(&mut self, sample: &RateSample) {
        self.ack_phase = AckPhase::Starting;
        self.start_round();
        self.model.reset_full_bw();
        self.model.full_bw = sample.rate;
        self.state = State::Up;
        self.raise_slope();
    }

    fn start_round(&mut self) {
        self.model.next_round_delivered = self.sampler.delivered();
    }

    /// UpdateProbeBWCyclePhase: moves to the next phase of ProbeBW if it is time.
    fn advance_cycle(&mut self, now: Instant, sample: &RateSample, acked: u64) {
        if !self.model.full_bw_reached || self.adapt_longterm(sample, acked) {
            return;
        }
        match self.state {
            State::Down => {
                if !self.is_time_to_probe(now) && self.is_time_to_cruise() {
                    self.state = State::Cruise;
                }
            }
            State::Cruise => {
                self.is_time_to_probe(now);
            }
            State::Refill => {
                // After a round trip in ProbeBW_REFILL the path is full, so the probe can begin.
                if self.model.round_start {
                    self.is_probe_sample = true;
                    self.start_up(sample);
                }
            }
            State::Up => {
                if self.is_time_to_go_down(sample) {
                    self.prev_probe_too_high = false;
                    self.start_down(now);
                }
            }
            State::Startup | State::Drain | State::ProbeRtt => {}
        }
    }

    /// AdaptLongTermModel: raises the long-term bound on the amount in flight. Returns whether the state has changed.
    fn adapt_longterm(&mut self, sample: &RateSample, acked: u64) -> bool {
        if self.ack_phase == AckPhase::Starting && self.model.round_start {
            self.ack_phase = AckPhase::Coming;
        }
        if self.ack_phase == AckPhase::Stopping && self.model.round_start {
            self.is_probe_sample = false;
            self.ack_phase = AckPhase::None;
            if self.state.is_probe_bw() {
                if !sample.app_limited {
                    self.model.advance_max_bw();
                }
                // Precautionary Bandwidth Probing: the last probe stopped early although it caused no high loss, so the
                // next probe follows at once.
                if self.prev_probe_precautionary && !self.prev_probe_too_high {
                    self.start_refill();
                    return true;
                }
            }
        }
        if !is_too_high(sample.lost, sample.tx_in_flight) && self.model.inflight_longterm < u64::MAX {
            self.model.inflight_longterm = self.model.inflight_longterm.max(sample.tx_in_flight);
            if self.state == State::Up {
                self.raise_longterm(acked);
            }
        }
        false
    }

    /// IsTimeToProbeBW: returns whether it is time for a probe. If so, starts the probe.
    fn is_time_to_probe(&mut self, now: Instant) -> bool {
        let waited = now.since(self.cycle_stamp) > self.probe_wait;
        // IsRenoCoexistenceProbeTime: a probe is due as often as a Reno flow with this window would have a loss.
        let rounds = (self.target_inflight() / self.mss).min(RENO_ROUNDS);
        let due = waited || self.rounds_since_probe_up >= rounds;
        if due {
            self.start_refill();
        }
        due
    }

    /// IsTimeToCruise: returns whether the queue is drained and enough headroom remains below the long-term bound.
    fn is_time_to_cruise(&self) -> bool {
        let in_flight = self.sampler.in_flight();
        in_flight <= self.inflight_with_headroom() && in_flight <= self.inflight(self.model.max_bw(), 100)
    }

    /// IsTimeToGoDown: returns whether the probe for bandwidth should end.
    fn is_time_to_go_down(&mut self, sample: &RateSample) -> bool {
        if self.prev_probe_too_high && self.sampler.in_flight() >= self.model.inflight_longterm {
            self.prev_probe_precautionary = true;
            return true;
        }
        if self.uses_window() && self.window >= self.model.inflight_longterm {
            self.model.reset_full_bw();
            self.model.full_bw = sample.rate;
            return false;
        }
        self.model.full_bw_now
    }

    /// C.is_cwnd_limited: returns whether the congestion window limited sending in this round trip or in the previous
    /// round trip.
    fn uses_window(&self) -> bool {
        self.window_used[0] || self.window_used[1]
    }

    /// RaiseInflightLongtermSlope: doubles the growth of the long-term bound for the next round trip.
    fn raise_slope(&mut self) {
        let growth = 1 << self.probe_up_rounds;
        self.probe_up_rounds = (self.probe_up_rounds + 1).min(30);
        self.probe_up_acked_per_packet = (self.window / growth).max(self.mss);
    }

    /// ProbeInflightLongtermUpward: raises the long-term bound while the probe finds no high loss.
    fn raise_longterm(&mut self, acked: u64) {
        if !self.uses_window() || self.window < self.model.inflight_longterm {
            return;
        }
        self.probe_up_acked += acked;
        if self.probe_up_acked >= self.probe_up_acked_per_packet {
            let packets = self.probe_up_acked / self.probe_up_acked_per_packet;
            self.probe_up_acked -= packets * self.probe_up_acked_per_packet;
            self.model.inflight_longterm = self.model.inflight_longterm.saturating_add(packets * self.mss);
        }
        if self.model.round_start {
            self.raise_slope();
        }
    }

    // ProbeRTT.

    /// CheckProbeRTT: begins ProbeRTT if the minimum round-trip time is too old.
    fn check_probe_rtt(&mut self, now: Instant, delivered: u64) {
        if self.state != State::ProbeRtt && self.model.probe_rtt_expired && !self.idle_restart {
            self.save_window();
            self.state = State::ProbeRtt;
            self.probe_rtt_done = None;
            self.ack_phase = AckPhase::Stopping;
            self.start_round();
        }
        if self.state == State::ProbeRtt {
            self.handle_probe_rtt(now);
        }
        if delivered > 0 {
            self.idle_restart = false;
        }
    }

    /// HandleProbeRTT: ends ProbeRTT once it has lasted long enough.
    fn handle_probe_rtt(&mut self, now: Instant) {
        // Rates measured during ProbeRTT are lower than the path's bandwidth. The samples are marked as
        // application-limited, so that they do not lower the estimate.
        self.sampler.mark_limited();
        match self.probe_rtt_done {
            None if self.sampler.in_flight() <= self.probe_rtt_window() => {
                self.probe_rtt_done = Some(now + PROBE_RTT_SPAN);
                self.probe_rtt_round_done = false;
                self.start_round();
            }
            Some(_) => {
                self.probe_rtt_round_done |= self.model.round_start;
                if self.probe_rtt_round_done {
                    self.check_probe_rtt_done(now);
                }
            }
            None => {}
        }
    }

    /// CheckProbeRTTDone: leaves ProbeRTT if its duration has passed.
    fn check_probe_rtt_done(&mut self, now: Instant) {
        if self.probe_rtt_done.is_none_or(|done| now <= done) {
            return;
        }
        self.model.probe_rtt_min_stamp = now;
        self.restore_window();
        // ExitProbeRTT: continues with ProbeBW, or with Startup if the path was never full.
        self.model.reset_shortterm();
        if self.model.full_bw_reached {
            self.start_down(now);
            self.state = State::Cruise;
        } else {
            self.state = State::Startup;
        }
    }

    // Losses.

    /// NoteLoss: records that a loss occurred in this round trip. The first loss also saves the state.
    fn note_loss(&mut self) {
        if !self.model.is_loss_in_round {
            self.model.loss_round_delivered = self.sampler.delivered();
            self.save_state();
        }
        self.model.is_loss_in_round = true;
    }

    /// HandleLostPacket: updates the model after losses. Called once for each `AckReport` with losses; `lost` is the
    /// sum of these losses in bytes.
    fn on_lost(&mut self, now: Instant, lost: u64, loss: Option<crate::delivery_rate::LossSample>) {
        self.note_loss();
        self.startup_losses += lost.div_ceil(self.mss);
        let Some(loss) = loss.filter(|_| self.is_probe_sample) else { return };
        if !is_too_high(loss.lost, loss.tx_in_flight) {
            return;
        }
        // InflightAtLoss: finds how many bytes were in flight when the share of lost bytes exceeded 2 %.
        let size = lost.min(loss.tx_in_flight).min(loss.lost);
        let (flight_before, lost_before) = (loss.tx_in_flight - size, loss.lost - size);
        let prefix = (flight_before * 2 / 100).saturating_sub(lost_before) * 100 / 98;
        // HandleInflightTooHigh: ends the bandwidth probe and lowers the long-term bound.
        self.prev_probe_too_high = true;
        self.is_probe_sample = false;
        if !loss.app_limited {
            self.model.inflight_longterm = (flight_before + prefix).max(self.target_inflight() * 7 / 10);
        }
        if self.state == State::Up {
            self.undo.state = Some(State::Up);
            self.start_down(now);
        }
    }

    /// SaveCwnd: remembers the congestion window for the time after a recovery or ProbeRTT.
    fn save_window(&mut self) {
        let unmodulated = !self.recovering && !self.after_timeout && self.state != State::ProbeRtt;
        self.prior_window = if unmodulated { self.window } else { self.prior_window.max(self.window) };
    }

    /// RestoreCwnd: restores the window that `save_window` remembered.
    fn restore_window(&mut self) {
        self.window = self.window.max(self.prior_window);
    }

    /// SaveStateUponLoss: remembers the window, the state and the bounds, in case the loss is spurious.
    fn save_state(&mut self) {
        self.save_window();
        self.undo = Undo {
            state: None,
            bw_shortterm: self.model.bw_shortterm,
            inflight_shortterm: self.model.inflight_shortterm,
            inflight_longterm: self.model.inflight_longterm,
        };
    }

    // The functions below compute the pacing rate and the congestion window.

    /// SetPacingRateWithGain: sets the pacing rate from the bandwidth and `gain` in percent.
    fn set_rate(&mut self, gain: u64) {
        let rate = u128::from(self.model.bw()) * u128::from(gain * (100 - PACING_MARGIN)) / 10_000;
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        if self.model.full_bw_reached || rate > self.rate {
            self.rate = rate.max(1);
        }
    }

    /// SetCwnd: grows the congestion window by `acked` bytes and applies all bounds.
    fn set_window(&mut self, acked: u64) {
        // UpdateMaxInflight: computes the largest useful amount in flight.
        let cap = self.bdp_multiple(self.model.bw(), self.state.window_gain());
        let most = self.quantized(cap.saturating_add(self.model.extra_acked()));
        if self.model.full_bw_reached {
            self.window = (self.window + acked).min(most);
        } else if self.window < most || self.sampler.delivered() < self.initial_window {
            self.window += acked;
        }
        self.window = self.window.max(self.min_window());
        // BoundCwndForProbeRTT: limits the window during ProbeRTT.
        if self.state == State::ProbeRtt {
            self.window = self.window.min(self.probe_rtt_window());
        }
        // BoundCwndForModel: limits the window by the long-term and short-term bounds of the model.
        let cap = match self.state {
            State::Down | State::Refill | State::Up => self.model.inflight_longterm,
            State::Cruise | State::ProbeRtt => self.inflight_with_headroom(),
            State::Startup | State::Drain => u64::MAX,
        };
        let cap = cap.min(self.model.inflight_shortterm).max(self.min_window());
        self.window = self.window.min(cap);
    }
}

/// IsInflightTooHigh: returns whether more than BBR.LossThresh, 2 %, was lost.
fn is_too_high(lost: u64, in_flight: u64) -> bool {
    u128::from(lost) * 100 > u128::from(in_flight) * 2
}

impl Controller for Bbr {
    /// OnTransmit: called before each packet is sent.
    fn on_sent(&mut self, now: Instant, bytes: u64) {
        // HandleRestartFromIdle: after an idle period, sends at the delivery rate.
        if self.sampler.is_idle() {
            self.idle_restart = true;
            self.model.restart_aggregation(now);
            if self.state.is_probe_bw() {
                self.set_rate(100);
            } else if self.state == State::ProbeRtt {
                self.check_probe_rtt_done(now);
            }
        }
        self.sampler.on_sent(now, bytes);
        self.window_used[0] |= self.sampler.in_flight() + self.mss > self.window;
    }

    /// Does nothing, because [`on_report`](Self::on_report) handles acknowledgements.
    fn on_acked(&mut self, _: Instant, _: Acked) {}

    /// UpdateOnACK: after an acknowledgement, updates the model, the state, the pacing rate and the congestion window.
    fn on_report(&mut self, now: Instant, report: &AckReport) {
        let (sample, loss) = self.sampler.on_report(now, report);
        if report.lost > 0 {
            self.on_lost(now, report.lost, loss);
        }
        if !report.recovering && (self.recovering || self.after_timeout) && report.delivered > 0 {
            self.restore_window();
            (self.recovering, self.after_timeout) = (false, false);
        }
        if report.delivered == 0 {
            return;
        }
        if let Some(rtt) = report.rtt.map(nanos).filter(|_| !self.knows_rtt) {
            self.knows_rtt = true;
            self.guess_rate(rtt);
        }
        // UpdateModelAndState.
        self.model.update_latest(&sample, self.sampler.delivered());
        if self.model.update_round(&sample, self.sampler.delivered()) {
            self.rounds_since_probe_up += 1;
            self.window_used = [false, self.window_used[0]];
        }
        self.model.update_max_bw(&sample);
        if self.model.loss_round_start {
            if !self.state.is_probing() && self.model.is_loss_in_round {
                self.model.lower_bounds(self.window);
            }
            self.model.is_loss_in_round = false;
        }
        self.model.update_aggregation(now, report.delivered, self.window);
        self.model.check_full_bw(&sample);
        self.check_startup_done(&sample);
        self.check_drain_done(now);
        self.advance_cycle(now, &sample, report.delivered);
        self.model.update_min_rtt(now, report.rtt.map(nanos));
        self.check_probe_rtt(now, report.delivered);
        self.model.advance_latest(&sample);
        // UpdateControlParameters.
        self.set_rate(self.state.pacing_gain());
        self.set_window(report.delivered);
    }

    fn wants_reports(&self) -> bool {
        true
    }

    fn on_application_limited(&mut self) {
        // CheckIfApplicationLimited: this function checks only the window. The transport checks the other conditions.
        if self.sampler.in_flight() < self.window {
            self.sampler.mark_limited();
        }
    }

    /// OnEnterFastRecovery: the window is kept, and the model reacts to each loss. An ECN mark has no effect, because
    /// the draft defines no reaction to classic ECN.
    fn on_loss(&mut self, _: Instant, _: u64, ecn: bool) {
        if !ecn {
            self.save_state();
            self.recovering = true;
            self.recovery_round = self.model.round_count;
        }
    }

    /// OnEnterRTO: the window falls to one packet, and all data in flight counts as lost.
    fn on_timeout(&mut self, _: Instant, _: u64) {
        self.save_state();
        self.note_loss();
        self.sampler.lose_all();
        self.after_timeout = true;
        self.window = self.mss;
    }

    fn on_remaining(&mut self, pipe: u64) {
        self.sampler.restore_in_flight(pipe);
        self.window = pipe + self.mss;
    }

    /// Does nothing, because [`on_sent`](Self::on_sent) does HandleRestartFromIdle.
    fn on_idle(&mut self, _: Duration, _: Duration) {}

    /// HandleSpuriousLossDetection: restores the window, the bounds and the state from before the loss.
    fn on_spurious(&mut self, _: Instant) {
        self.restore_window();
        (self.recovering, self.after_timeout) = (false, false);
        let Undo { state, bw_shortterm, inflight_shortterm, inflight_longterm } = self.undo;
        self.model.restore(bw_shortterm, inflight_shortterm, inflight_longterm);
        match state {
            Some(State::Startup) if self.state != State::Startup => {
                self.model.full_bw_reached = false;
                if self.state != State::ProbeRtt {
                    self.state = State::Startup;
                }
            }
            Some(State::Up) if self.state != State::Up && self.state != State::ProbeRtt => {
                self.start_refill()
            }
            _ => {}
        }
        self.undo.state = None;
    }

    /// Does nothing, because BBR has no slow start that could end early.
    fn leave_slow_start(&mut self) {}

    fn set_mss(&mut self, mss: u64) {
        self.mss = mss.max(1);
        self.window = self.window.max(self.min_window());
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn pacing_rate(&self) -> Option<BitRate> {
        BitRate::from_bits_per_second(self.rate.saturating_mul(8))
    }

    /// Returns `u64::MAX`, because BBR has no slow-start threshold.
    fn ssthresh(&self) -> u64 {
        u64::MAX
    }

    fn name(&self) -> &'static str {
        "bbr"
    }
}
