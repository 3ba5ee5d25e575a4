//! The state that a path needs for loss recovery beyond RFC 9260 §7.2: loss detection by time (RACK), tail loss probes,
//! HyStart, pacing and proportional rate reduction. A path without any of these mechanisms has no such state.
//!
//! The algorithms of loss recovery are in the crate `congestion` and shared with TCP. `send::rack` applies them to
//! chunks, and `association::recover` applies them to timers.

use super::Path;
use crate::config::{Algorithm, Config};
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_congestion::{
    AckReport, Controller, Delivered, LossProbe, NewlyLost, Pacer, Progress, Prr, Rack, SlowStart,
    SlowStartExit, SlowStartExitState, Verdict,
};
use std::collections::VecDeque;

/// RFC 8985 §7.2: the longest time for which the receiver may delay the acknowledgement of a single packet. It is the
/// default of SACK.Delay (RFC 9260 §16).
pub(crate) const LONGEST_ACK_DELAY: Duration = Duration::from_millis(200);

/// RFC 8985 §6: detection of losses by time on one path.
#[derive(Debug, Default)]
pub(crate) struct LossByTime {
    rack: Rack,
    /// The TSN offset at which the next search for lost chunks begins. Each chunk below it that was sent only once is
    /// acknowledged, marked as lost, or in flight on another path.
    edge: u64,
    /// The chunks retransmitted on this path, oldest retransmission first. Each entry has the chunk's TSN offset and
    /// the time of its retransmission.
    retransmissions: VecDeque<(u64, Instant)>,
    /// The time at which a chunk in flight will be declared lost, unless an acknowledgement arrives earlier. `None` if
    /// no loss is suspected.
    reorder_at: Option<Instant>,
    /// Losses detected since the last report to the congestion controller.
    lost: NewlyLost,
}

impl LossByTime {
    /// Records the loss of `bytes` that were sent at `at`.
    pub(crate) fn record_lost(&mut self, at: Instant, bytes: u64) {
        self.lost.add(at, bytes);
    }

    /// Returns the reordering window. If a later chunk was delivered, a chunk counts as lost when it is unacknowledged
    /// for longer than a round trip plus this window. `sure` is true if a gap alone already indicates a loss: during a
    /// recovery, or after DupThresh later chunks were delivered.
    pub(crate) fn window(&self, smoothed: Option<Duration>, sure: bool) -> Duration {
        self.rack.window(smoothed, sure)
    }

    /// Decides whether a chunk is lost by now. `at` is its send time, and `end` is one past its TSN offset.
    pub(crate) fn judge(&self, now: Instant, at: Instant, end: u64, window: Duration) -> Verdict {
        self.rack.judge(now, at, end, window)
    }

    /// Returns the TSN offset and send time of the oldest retransmission in flight on this path. It is neither
    /// acknowledged nor lost.
    pub(crate) fn oldest_retransmission(&self) -> Option<(u64, Instant)> {
        self.retransmissions.front().copied()
    }

    /// Removes the oldest retransmission, because it has arrived or is lost.
    pub(crate) fn drop_retransmission(&mut self) {
        self.retransmissions.pop_front();
    }

    /// Returns the TSN, as an offset from the initial TSN, at which the next search for lost chunks begins. Of the
    /// chunks below this TSN, only retransmitted chunks are still examined for loss.
    pub(crate) fn edge(&self) -> u64 {
        self.edge
    }

    /// Records the result of a search for lost chunks. The next search begins at TSN offset `edge`. `reorder_at` is the
    /// time at which a chunk in flight will be declared lost, unless an acknowledgement arrives earlier.
    pub(crate) fn judged(&mut self, edge: u64, reorder_at: Option<Instant>) {
        (self.edge, self.reorder_at) = (edge, reorder_at);
    }
}

/// The time at which the loss timer of a path expires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LossDeadline {
    /// RFC 8985 §6.2 step 5: a chunk is declared lost at this instant.
    Lost(Instant),
    /// RFC 8985 §7.2: a tail loss probe is sent after this time.
    Probe(Duration),
    /// The loss timer does not run.
    Never,
}

/// What a SACK has changed, apart from the chunks that it acknowledges.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SackFacts {
    /// The TSN offset below which all chunks are cumulatively acknowledged.
    pub(crate) base: u64,
    /// The TSN offset of the next new chunk.
    pub(crate) end: u64,
    /// Whether no loss recovery is in progress.
    pub(crate) is_recovered: bool,
    /// Whether the SACK ended a loss recovery.
    pub(crate) repaired: bool,
    /// Whether the SACK reports duplicates of retransmitted chunks.
    pub(crate) spurious: bool,
    /// Whether the SACK acknowledges no new chunks and reports no gaps.
    pub(crate) idle: bool,
}

/// The loss recovery state of one path.
#[derive(Debug)]
pub(crate) struct LossControl {
    /// The state of loss detection by time; `None` if this detection is off.
    by_time: Option<LossByTime>,
    /// RFC 8985 §7: whether tail loss probes are sent.
    probes: bool,
    probe: LossProbe,
    /// Whether one packet of new data may be sent as a tail loss probe, even if the congestion window is full.
    tail_probe_allowed: bool,
    /// HyStart, which ends slow start before a loss occurs; `None` if HyStart is off.
    hystart: Option<SlowStartExitState>,
    /// Linux's HyStart is off on paths whose round-trip time is shorter than this value.
    hystart_min_rtt: Duration,
    pacer: Option<Pacer>,
    /// The TSN offset of the chunk that was next to be sent when the pacer last held back data. The window counts as
    /// full until all chunks below this offset are acknowledged.
    paced_until: u64,
    /// Whether proportional rate reduction (RFC 6937) is on. `reduction` is its state in the current recovery.
    proportional: bool,
    reduction: Option<Box<Prr>>,
}

impl LossControl {
    /// Returns whether the configuration uses any of the mechanisms of this module.
    pub(super) fn is_wanted(config: &Config, paced: bool) -> bool {
        config.rack || config.hystart.is_some() || paced || config.prr
    }

    pub(super) fn new(config: &Config, paced: bool) -> Option<Box<Self>> {
        // Linux's HyStart is part of its CUBIC, so it is off with another controller.
        let exit = config.hystart;
        let exit = exit.filter(|exit| *exit != SlowStartExit::Linux || config.cc == Algorithm::Cubic);
        Self::is_wanted(config, paced).then(|| {
            Box::new(Self {
                by_time: config.rack.then(LossByTime::default),
                probes: config.rack && config.tlp,
                probe: LossProbe::default(),
                tail_probe_allowed: false,
                hystart: exit.map(SlowStartExitState::new),
                hystart_min_rtt: config.hystart_min_rtt,
                pacer: paced.then(Pacer::default),
                paced_until: 0,
                proportional: config.prr,
                reduction: None,
            })
        })
    }

    /// Updates the state after the window was reduced for a loss. `flight` bytes were in flight.
    pub(super) fn on_reduced(&mut self, flight: u64) {
        self.end_hystart();
        self.probe.forget();
        self.tail_probe_allowed = false;
        self.reduction = self.proportional.then(|| Box::new(Prr::new(flight)));
    }

    /// After T3-rtx has expired, forgets which chunks were only suspected to be lost, because all data in flight now
    /// counts as lost.
    pub(super) fn on_timeout(&mut self) {
        if let Some(hystart) = &mut self.hystart {
            hystart.on_timeout();
        }
        self.probe.forget();
        self.tail_probe_allowed = false;
        if let Some(by_time) = &mut self.by_time {
            by_time.reorder_at = None;
            by_time.retransmissions.clear();
            by_time.lost = NewlyLost::default();
        }
        self.reduction = None;
    }

    /// Records that the chunk at `offset` was retransmitted on this path.
    pub(super) fn on_retransmitted(&mut self, now: Instant, offset: u64) {
        if let Some(by_time) = &mut self.by_time {
            by_time.retransmissions.push_back((offset, now));
        }
    }

    /// Starts to examine all chunks for loss again, because the peer has dropped data that it had acknowledged.
    pub(super) fn on_reneged(&mut self) {
        if let Some(by_time) = &mut self.by_time {
            by_time.edge = 0;
        }
    }

    /// Informs proportional rate reduction and the pacer that `bytes` bytes were sent in packets of `mss` bytes. The
    /// pacer uses the controller's pacing rate or, if there is none, a rate derived from the congestion window.
    fn pace(
        &mut self,
        now: Instant,
        bytes: u64,
        controller: &anabranch_congestion::Algorithm,
        mss: u64,
        smoothed: Option<Duration>,
    ) {
        if let Some(prr) = &mut self.reduction {
            prr.on_sent(bytes);
        }
        if let Some(pacer) = &mut self.pacer {
            let (window, threshold) = (controller.window(), controller.ssthresh());
            match controller.pacing_rate() {
                Some(rate) => pacer.on_sent_at_rate(now, bytes, rate, mss),
                None => pacer.on_sent(now, bytes, window, mss, window < threshold, smoothed),
            }
        }
    }

    pub(super) fn end_hystart(&mut self) {
        if let Some(hystart) = &mut self.hystart {
            hystart.on_reduced();
        }
    }
}

impl Path {
    /// RFC 9406 §4.2: updates HyStart after a SACK. Returns true if the window must grow more slowly (conservative slow
    /// start), or if slow start has ended.
    pub(super) fn watch_slow_start(
        &mut self,
        now: Instant,
        acked: u64,
        next: u64,
        arrived: Option<&Delivered>,
    ) -> bool {
        let mss = self.chunk_limit() as u64;
        let (controller, Some(control)) = self.congestion() else { return false };
        let window = controller.window();
        let Some(hystart) = control.hystart.as_mut() else { return false };
        let long = hystart.min_rtt().is_none_or(|least| least >= control.hystart_min_rtt);
        let slow_start = window < controller.ssthresh() && long;
        let rtt = arrived.and_then(|arrived| arrived.sample(now));
        match hystart.on_ack(now, &Progress { acked, next, rtt, window, mss, slow_start }) {
            SlowStart::Full => false,
            SlowStart::Conservative => true,
            SlowStart::Leave => {
                controller.leave_slow_start();
                true
            }
        }
    }

    /// RFC 9260 §7.2.1, "fully utilized": returns the number of bytes that count as in flight before a SACK. `polls` is
    /// the number of calls of `poll_transmit` so far, and `more` says whether more data waits to be sent. If more data
    /// waits, and an earlier SACK since the last `poll_transmit` found the window full, the window still counts as
    /// full. Otherwise a host that reads several SACKs at once would grow the window for the first SACK only.
    #[inline]
    pub(super) fn flight_before(&self, polls: u64, more: bool) -> u64 {
        if more && self.window_full_at == Some(polls) { self.flight.max(self.window()) } else { self.flight }
    }

    /// Returns whether the sender used the whole congestion window. `flight` is the number of bytes in flight before a
    /// SACK arrived. `acked` is the TSN offset below which the SACK acknowledges all chunks.
    ///
    /// RFC 9260 §7.2.1 requires a full window. If the path uses a mechanism of this module, the rules of TCP (and
    /// Linux) apply instead. The window then counts as used if less than one packet was free, slow start used half of
    /// the window, or the pacer held data back (RFC 9002 §7.8). In these cases the application did not limit the
    /// sender.
    #[inline]
    pub(super) fn fills_window(&self, flight: u64, acked: u64) -> bool {
        let window = self.window();
        let Some(control) = self.loss_control() else { return flight >= window };
        acked < control.paced_until
            || flight + self.chunk_limit() as u64 > window
            || (window < self.threshold() && 2 * flight > window)
    }

    /// If a tail loss probe or proportional rate reduction decides whether a packet may be sent, returns the decision.
    /// Otherwise returns `None`.
    #[inline(never)]
    pub(super) fn is_open_by(
        &self,
        control: &LossControl,
        blocked: bool,
        is_recovering: impl Fn() -> bool,
    ) -> Option<bool> {
        if control.tail_probe_allowed {
            return Some(true);
        }
        // RFC 6937: in a recovery, an allowance limits the data sent. It grows with the data delivered.
        let prr = control.reduction.as_ref().filter(|_| is_recovering())?;
        // If no chunk is in flight, a packet may be sent even if the allowance is used up, because no acknowledgement
        // will come to raise it.
        Some((prr.allowance() > 0 || self.flight == 0) && !blocked)
    }

    /// RFC 6937: updates the allowance after `acked` bytes were delivered. `safe` says that the SACK shows no further
    /// loss.
    #[inline]
    pub(crate) fn reduce_in_proportion(&mut self, acked: u64, safe: bool) {
        let (mss, threshold, flight) = (self.chunk_limit() as u64, self.threshold(), self.flight);
        if let Some(prr) = self.loss_control_mut().and_then(|control| control.reduction.as_mut()) {
            prr.on_delivered(acked, safe, threshold, flight, mss);
        }
    }

    /// Records the chunks that a SACK newly acknowledges on this path. With loss detection by time, returns the state
    /// of this detection and the smoothed round-trip time.
    pub(crate) fn on_delivered(
        &mut self,
        now: Instant,
        arrived: &Delivered,
    ) -> Option<(&mut LossByTime, Option<Duration>)> {
        let smoothed = self.rtt.smoothed();
        let by_time = self.congestion().1?.by_time.as_mut()?;
        by_time.rack.on_delivered(now, arrived);
        Some((by_time, smoothed))
    }

    /// Reports a SACK, or losses found by the loss timer, to a controller that needs reports. `delivered` is the number
    /// of bytes that have arrived in total, including the chunks of `arrived`. `recovering` says whether loss recovery
    /// is in progress.
    pub(crate) fn report(&mut self, now: Instant, delivered: u64, arrived: &Delivered, recovering: bool) {
        let in_flight = self.flight;
        let (controller, loss_control) = self.congestion();
        let by_time = loss_control.and_then(|control| control.by_time.as_mut());
        let lost = by_time.map(|by_time| std::mem::take(&mut by_time.lost)).unwrap_or_default();
        let report = AckReport {
            delivered,
            newest: arrived.newest_sent(),
            rtt: arrived.sample(now),
            lost: lost.bytes,
            newest_lost: lost.newest,
            in_flight,
            recovering,
        };
        controller.on_report(now, &report);
    }

    /// Informs the controller that the congestion window had room, but there was no data to send.
    pub(crate) fn on_application_limited(&mut self) {
        self.congestion().0.on_application_limited();
    }

    /// RFC 3708 §2: undoes the reduction of the congestion window, because every retransmission was spurious.
    pub(crate) fn on_spurious_reduction(&mut self, now: Instant) {
        let (controller, loss_control) = self.congestion();
        controller.on_spurious(now);
        if let Some(control) = loss_control {
            control.reduction = None;
        }
    }

    /// RFC 8985: updates the loss recovery state after any SACK.
    pub(crate) fn after_sack(&mut self, now: Instant, facts: &SackFacts) {
        let SackFacts { base, end, is_recovered, repaired, spurious: needless, idle } = *facts;
        let flight = self.flight;
        if needless && self.is_controlled() {
            // RFC 8985 §6.2 step 4: a spurious retransmission on any path widens the reordering windows of all paths.
            // If this path has not sent data yet, its loss recovery state is created here.
            self.congestion();
        }
        let Some((controller, Some(control))) = self.begun() else { return };
        if is_recovered {
            control.reduction = None;
        }
        if let Some(LossByTime { rack, .. }) = &mut control.by_time {
            if needless {
                rack.on_spurious_retransmission(base, end);
            }
            if repaired {
                rack.on_recovered();
            }
        }
        if control.probe.on_ack(base, needless, idle) && is_recovered {
            // RFC 8985 §7.4: the tail loss probe has repaired a loss. This reduces the window like any other loss.
            controller.on_loss(now, flight, false);
            control.end_hystart();
        }
    }

    /// Returns the deadline of the loss timer, or `None` if losses are not detected by time (RFC 8985). `is_quiet`
    /// returns true if no chunk is known to be lost.
    #[inline]
    pub(crate) fn loss_deadline(&mut self, is_quiet: impl Fn() -> bool) -> Option<LossDeadline> {
        let (flight, alone) = (self.flight, self.flight <= self.chunk_limit() as u64);
        let smoothed = self.rtt.smoothed();
        let Some((_, control)) = self.begun() else { return Some(LossDeadline::Never) };
        let control = control?;
        let by_time = control.by_time.as_mut()?;
        if flight == 0 {
            // The path has no data in flight: the chunk that might be lost has arrived or moved to another path. The
            // old deadline must not apply to a chunk that is sent later.
            by_time.reorder_at = None;
        }
        if let Some(at) = by_time.reorder_at {
            return Some(LossDeadline::Lost(at));
        }
        // RFC 8985 §7.2: no probe is sent while a loss is known or suspected, or while another probe is pending.
        if !control.probes || control.probe.is_pending() || flight == 0 || !is_quiet() {
            return Some(LossDeadline::Never);
        }
        Some(LossDeadline::Probe(LossProbe::timeout(smoothed, alone, LONGEST_ACK_DELAY)))
    }

    /// Returns whether the loss timer runs for a chunk that may be lost. The chunk counts as lost if it is not
    /// acknowledged before the timer expires.
    pub(crate) fn suspects_loss(&self) -> bool {
        self.loss_control().and_then(|control| control.by_time.as_ref()?.reorder_at).is_some()
    }

    /// Stops the wait for a chunk that may be lost.
    pub(crate) fn forget_suspicion(&mut self) {
        if let Some(by_time) = self.loss_control_mut().and_then(|control| control.by_time.as_mut()) {
            by_time.reorder_at = None;
        }
    }

    /// RFC 8985 §7.3: prepares a tail loss probe. If `has_new_data` is true, new data can be sent on the path, and the
    /// probe carries it; otherwise the probe is a retransmitted chunk. `end` is the TSN of the next new chunk, as an
    /// offset from the initial TSN.
    pub(crate) fn probe_tail(&mut self, has_new_data: bool, end: u64) {
        let Some(control) = self.congestion().1 else { return };
        if has_new_data {
            control.tail_probe_allowed = true;
        } else {
            control.probe.on_sent(end, true);
        }
    }

    /// Records that a packet with new data up to TSN offset `end` was sent. Returns true if the loss timer may have to
    /// be restarted.
    #[inline]
    pub(crate) fn on_new_sent(&mut self, end: u64) -> bool {
        let Some(control) = self.congestion().1 else { return false };
        if std::mem::take(&mut control.tail_probe_allowed) {
            control.probe.on_sent(end, false);
        }
        true
    }

    /// If pacing delays the next packet, returns the time at which the packet may be sent. In this case, also records
    /// that the pacer held back the data after TSN offset `end`.
    pub(crate) fn hold_back(&mut self, now: Instant, end: u64) -> Option<Instant> {
        let control = self.loss_control_mut()?;
        let at = control.pacer.as_ref().map_or(now, Pacer::ready_at);
        if at <= now || control.tail_probe_allowed {
            return None;
        }
        control.paced_until = end;
        Some(at)
    }

    /// Returns whether data packets are paced.
    #[inline]
    pub(crate) fn is_paced(&self) -> bool {
        self.loss_control().is_some_and(|control| control.pacer.is_some())
    }

    /// Records `bytes` of sent data for the controller and the pacer.
    #[inline]
    pub(super) fn pace(&mut self, now: Instant, bytes: u64) {
        let (mss, smoothed) = (self.chunk_limit() as u64, self.rtt.smoothed());
        let (controller, loss_control) = self.congestion();
        controller.on_sent(now, bytes);
        if let Some(control) = loss_control {
            control.pace(now, bytes, controller, mss, smoothed);
        }
    }
}
