//! Processes acknowledgements: progress, round-trip times, losses and the congestion window.
//!
//! Owns no state. Each acknowledgement is passed to the scoreboard, the recovery and the controller. The order matters,
//! because each of the three uses results of the one before it. The outcome is returned to the connection.
//!
//! Implements RFC 5681 §3.1 and §3.2, RFC 6675 §5, RFC 6298 §3 (which round trips are measured), and RFC 3168 §6.1.2
//! for a single acknowledgement.

use super::{Phase, SendHalf};
use crate::config::RttSampling;
use crate::stats::Stats;
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_congestion::{
    AckReport, Acked, Controller, Delivered, Progress, SlowStart, SlowStartExitState,
};

/// The content of a received acknowledgement. Positions count the bytes that this side sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ack<'a> {
    /// The next position that the peer expects.
    pub(crate) position: u64,
    /// SACK blocks, in the order of the option.
    pub(crate) sacks: &'a [(u64, u64)],
    /// The start of a block that preceded `sacks` in the option and reports a duplicate (RFC 2883).
    pub(crate) duplicate: Option<u64>,
    /// Whether the segment has neither data nor SYN nor FIN, and leaves the window unchanged (RFC 5681 §2).
    pub(crate) could_be_duplicate: bool,
    /// The echoed timestamp, and its age in nanoseconds.
    pub(crate) echo: Option<(u32, u64)>,
    /// Whether the segment has ECE (ECN echo) set.
    pub(crate) ece: bool,
}

/// What the connection must do after an acknowledgement was processed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct AckOutcome {
    /// Whether the peer acknowledged new data: the cumulative acknowledgement advanced.
    pub(crate) progress: bool,
    /// True if the retransmission timer must be restarted or, if nothing is in flight any more, stopped.
    pub(crate) restart_timer: bool,
    /// Whether our FIN is acknowledged.
    pub(crate) fin_acked: bool,
    /// True if the application waits for room in the send buffer and the buffer now has enough room.
    pub(crate) writable: bool,
    /// Whether the last window reduction turned out to be spurious.
    pub(crate) spurious: bool,
}

impl SendHalf {
    /// Returns whether a data segment that acknowledges `position` changes nothing in the sending half. In that case
    /// [`on_ack`](Self::on_ack) need not be called. The segment must have neither SACK blocks nor an ECN echo.
    #[inline]
    pub(crate) fn knows(&self, position: u64) -> bool {
        position == self.scoreboard.una() && self.recovery.phase() == Phase::Open
    }

    /// Processes an acknowledgement that the caller has found acceptable.
    #[inline(always)]
    pub(crate) fn on_ack(&mut self, now: Instant, ack: &Ack<'_>, stats: &mut Stats) -> AckOutcome {
        let plain = ack.sacks.is_empty() && ack.duplicate.is_none() && !ack.ece;
        let calm = self.rack_tlp.as_ref().is_none_or(|rack_tlp| rack_tlp.is_calm());
        if plain && calm && self.recovery.phase() == Phase::Open && ack.position > self.scoreboard.una() {
            // This branch is for an acknowledgement that advances while no loss is known. It skips most of the steps
            // below.
            let mut outcome = AckOutcome::default();
            let (arrived, pipe_before) = (self.scoreboard.arrived(), self.scoreboard.pipe());
            self.on_new_ack(now, ack, self.scoreboard.flight(), stats, &mut outcome);
            if self.usage.is_some() {
                self.grow_by_segments(now, self.scoreboard.arrived() - arrived, pipe_before);
            }
            let fresh = self.reported.is_some().then(|| *self.scoreboard.fresh());
            self.on_progress_by_time(now);
            if let Some(fresh) = fresh {
                self.report(now, &fresh);
            }
            return outcome;
        }
        self.on_any_ack(now, ack, stats)
    }

    #[inline(never)]
    fn on_any_ack(&mut self, now: Instant, ack: &Ack<'_>, stats: &mut Stats) -> AckOutcome {
        let mut outcome = AckOutcome::default();
        let flight_before = self.scoreboard.flight();
        let (arrived_before, edge_before) = (self.scoreboard.arrived(), self.scoreboard.lost_edge());
        let losses_before = self.scoreboard.losses();
        let (pipe_before, disordered) = (self.scoreboard.pipe(), self.scoreboard.sacked() > 0);
        let newly_sacked = if self.recovery.by_sack() {
            ack.sacks.iter().map(|&(start, end)| self.scoreboard.sack(start, end)).sum()
        } else {
            0
        };
        self.find_lost_retransmissions(ack);
        if ack.ece {
            self.on_ecn_echo(now, ack.position, stats);
        }
        let progress = ack.position > self.scoreboard.una();
        let phase_before = self.recovery.phase();
        let repairing = phase_before != Phase::Open;
        let halved = self.recovery.halved_window();
        if progress {
            self.on_new_ack(now, ack, flight_before, stats, &mut outcome);
        }
        let ended = self.recovery.phase() == Phase::Open && !outcome.spurious;
        if let Some(window) = halved.filter(|_| ended) {
            // tcp_complete_cwr: after the recovery, the window stays as small as rate halving has made it.
            self.controller.limit_window(window);
        }
        // RFC 6675 §2: with SACK, an acknowledgement that newly SACKs data counts as a duplicate, even if it advances
        // SND.UNA.
        let duplicate = if self.recovery.by_sack() {
            newly_sacked > 0
        } else {
            !progress && flight_before > 0 && ack.could_be_duplicate
        };
        stats.dup_acks += u64::from(duplicate);
        // During the recovery that has just ended, SACK may have revealed losses of later data. These losses start the
        // next recovery without further duplicate acknowledgements.
        let known = repairing
            && self.recovery.phase() == Phase::Open
            && self.recovery.finds_head_lost(&self.scoreboard);
        if (duplicate && self.recovery.on_duplicate(self.mss, &mut self.scoreboard)) || known {
            self.begin_recovery(now, stats);
            outcome.restart_timer = true;
        }
        let fresh = *self.scoreboard.fresh();
        self.on_delivery_by_time(now, ack, repairing, stats, &mut outcome);
        let (delivered, edge) = (self.scoreboard.arrived() - arrived_before, self.scoreboard.lost_edge());
        let safe = progress
            && if self.usage.is_some() {
                self.scoreboard.losses() == losses_before
            } else {
                edge <= edge_before.max(self.scoreboard.una())
            };
        self.recovery.on_delivered(delivered, safe, self.controller.ssthresh(), self.mss, &self.scoreboard);
        let may_grow =
            self.recovery.phase() != Phase::Fast && (!self.grows_by_ack || phase_before != Phase::Fast);
        if self.usage.is_some() && progress && may_grow {
            // As in tcp_cong_control of Linux, the window grows after it is known whether a recovery has begun or
            // ended.
            self.grow_by_segments(now, delivered, pipe_before);
        }
        if repairing || disordered || newly_sacked > 0 || !progress && ack.could_be_duplicate {
            self.moderate();
        }
        self.report(now, &fresh);
        if let Some(start) = ack.duplicate
            && self.recovery.is_disproved_by_dsack(start)
        {
            self.undo(now, stats, &mut outcome);
        }
        outcome
    }

    /// Reports an event, such as an ACK, to the congestion controller, if it wants reports. `fresh` describes the
    /// segments that the event delivered.
    #[inline]
    pub(super) fn report(&mut self, now: Instant, fresh: &Delivered) {
        if self.reported.is_some() {
            self.report_now(now, fresh);
        }
    }

    fn report_now(&mut self, now: Instant, fresh: &Delivered) {
        // Clears the record of deliveries. Without loss detection by time, no other code clears it.
        let _ = self.scoreboard.take_delivered();
        let (arrived, lost) = (self.scoreboard.arrived(), self.scoreboard.take_lost());
        let before = self.reported.replace(arrived).unwrap_or(arrived);
        let report = AckReport {
            delivered: arrived - before,
            newest: fresh.newest_sent(),
            rtt: fresh.sample(now),
            lost: lost.bytes,
            newest_lost: lost.newest,
            in_flight: self.scoreboard.pipe(),
            recovering: self.recovery.phase() != Phase::Open,
        };
        self.controller.on_report(now, &report);
        self.grow_buffer();
    }

    /// RFC 5681 §3.2 step 2, RFC 6675 §5 step 4: starts fast recovery.
    pub(super) fn begin_recovery(&mut self, now: Instant, stats: &mut Stats) {
        stats.fast_recoveries += 1;
        self.forget_probe();
        let window = self.usage.is_some().then(|| self.controller.window());
        // RFC 3168 §6.1.2: the marks and losses of one window of data reduce the congestion window only once.
        if self.scoreboard.una() >= self.cwr_until {
            self.reduce(now);
        }
        self.recovery.enter_fast(self.mss, window, &mut self.scoreboard);
        // RFC 3168 §6.1.2: CWR announces every reduction, whatever its reason. Marks within the same window of data
        // cause no second reduction.
        self.ecn_point = Some(self.scoreboard.next());
        self.cwr_due = true;
    }

    /// Reduces the congestion window because of a loss.
    pub(super) fn reduce(&mut self, now: Instant) {
        let flight = if self.threshold_of_window {
            self.controller.window()
        } else {
            self.recovery.flight(&self.scoreboard)
        };
        self.controller.on_loss(now, flight, false);
        self.end_hystart();
    }

    fn end_hystart(&mut self) {
        if let Some(hystart) = &mut self.hystart {
            hystart.on_reduced();
        }
    }

    /// Grows a window that is counted in segments, after an acknowledgement of new data. `bytes` is the number of
    /// delivered bytes, and `pipe_before` is the number of bytes in flight before the acknowledgement.
    fn grow_by_segments(&mut self, now: Instant, bytes: u64, pipe_before: u64) {
        let (window, ssthresh) = (self.controller.window(), self.controller.ssthresh());
        let Some(usage) = &self.usage else { return };
        let rtt = self.hystart.as_ref().and_then(SlowStartExitState::min_rtt).or_else(|| self.rtt.smoothed());
        let acked = Acked {
            bytes,
            flight_before: bytes,
            cumulative: true,
            in_recovery: false,
            window_limited: if self.grows_by_ack {
                pipe_before >= window
            } else {
                usage.allows_growth(window, ssthresh)
            },
            conservative: false,
            rtt,
        };
        self.controller.on_acked(now, acked);
        self.grow_buffer();
    }

    /// tcp_moderate_cwnd of Linux 2.6: outside a recovery, limits the window to three segments more than the data in
    /// flight. Called for acknowledgements that may reveal a loss.
    fn moderate(&mut self) {
        if self.moderates && self.recovery.phase() != Phase::Fast {
            self.controller.limit_window(self.scoreboard.pipe() + MAX_BURST * self.mss);
        }
    }

    /// RFC 9406 §4.2: checks after an acknowledgement of new data whether slow start must slow down or end. Returns
    /// true in both cases.
    fn watch_slow_start(&mut self, now: Instant) -> bool {
        let Some(hystart) = &mut self.hystart else { return false };
        let window = self.controller.window();
        let progress = Progress {
            acked: self.scoreboard.una(),
            next: self.scoreboard.next(),
            rtt: self.scoreboard.fresh().sample(now),
            window,
            mss: self.mss,
            slow_start: window < self.controller.ssthresh(),
        };
        match hystart.on_ack(now, &progress) {
            SlowStart::Full => false,
            SlowStart::Conservative => true,
            SlowStart::Leave => {
                self.controller.leave_slow_start();
                true
            }
        }
    }

    #[inline(always)]
    fn on_new_ack(
        &mut self,
        now: Instant,
        ack: &Ack<'_>,
        flight_before: u64,
        stats: &mut Stats,
        outcome: &mut AckOutcome,
    ) {
        let una_before = self.scoreboard.una();
        let freed = self.scoreboard.acknowledge(ack.position);
        let data_end = self.buffer.end();
        outcome.progress = true;
        outcome.writable = self.buffer.release(ack.position.min(data_end));
        outcome.fin_acked = self.fin_acked();
        stats.bytes_acked += ack.position.min(data_end) - una_before.min(data_end);
        self.sample_rtt(now, ack, freed.sent_at, freed.ambiguous);
        if self.recovery.is_disproved_by_echo(ack.echo.map(|(echo, _)| echo)) {
            self.undo(now, stats, outcome);
        }
        let phase = self.recovery.phase();
        let conservative = self.hystart.is_some() && self.watch_slow_start(now);
        if self.usage.is_some() {
            outcome.restart_timer = self.recovery.on_progress(freed.bytes, self.mss, &mut self.scoreboard);
            return;
        }
        let cwnd = self.controller.window();
        let window_limited = una_before < self.limited_until
            || flight_before + self.mss > cwnd
            || (cwnd < self.controller.ssthresh() && 2 * flight_before > cwnd);
        self.controller.on_acked(
            now,
            Acked {
                bytes: freed.bytes,
                flight_before,
                cumulative: true,
                in_recovery: phase == Phase::Fast,
                window_limited,
                conservative,
                rtt: self.rtt.smoothed(),
            },
        );
        self.grow_buffer();
        outcome.restart_timer = self.recovery.on_progress(freed.bytes, self.mss, &mut self.scoreboard);
    }

    /// RFC 6298 §3, RFC 7323 §4.1: takes one RTT sample, if it is known which copy of a segment was acknowledged.
    fn sample_rtt(&mut self, now: Instant, ack: &Ack<'_>, sample: Option<Instant>, ambiguous: bool) {
        let measured = match self.sampling {
            RttSampling::Once => match self.timed {
                Some((end, at)) if ack.position >= end => {
                    self.timed = None;
                    Some(now.since(at))
                }
                _ => None,
            },
            RttSampling::Every => sample.map(|at| now.since(at)),
        };
        // The echoed timestamp shows which copy of a segment was acknowledged. The timestamp clock is coarse, so the
        // echo is used only if the segment was retransmitted.
        let echoed = ack.echo.filter(|_| ambiguous).map(|(_, ago)| Duration::from_nanos(ago));
        if let Some(rtt) = measured.or(echoed) {
            self.rtt.on_sample(rtt);
        }
    }

    fn on_ecn_echo(&mut self, now: Instant, position: u64, stats: &mut Stats) {
        // RFC 3168 §6.1.2: CE marks reduce the window at most once per window of data. They do not reduce it if a loss
        // has already done so.
        let counted = self.ecn_point.is_some_and(|point| position <= point);
        if counted || self.recovery.phase() != Phase::Open || self.scoreboard.flight() == 0 {
            return;
        }
        self.ecn_point = Some(self.scoreboard.next());
        self.cwr_until = self.scoreboard.next();
        self.cwr_due = true;
        stats.ecn_reductions += 1;
        let flight =
            if self.threshold_of_window { self.controller.window() } else { self.scoreboard.flight() };
        self.controller.on_loss(now, flight, true);
        self.end_hystart();
    }

    fn undo(&mut self, now: Instant, stats: &mut Stats, outcome: &mut AckOutcome) {
        stats.spurious += 1;
        outcome.spurious = true;
        if !self.undoes {
            return;
        }
        self.controller.on_spurious(now);
        self.recovery.undo_recovery(&mut self.scoreboard);
        self.moderate();
    }

    /// Reduces the window and begins the recovery after the retransmission timer has expired.
    pub(crate) fn on_timeout(&mut self, now: Instant) {
        let flight = if self.threshold_of_window {
            self.controller.window()
        } else {
            // RFC 5681 §3.1: the new threshold is at most half of the flight size. During a recovery, the flight size
            // also counts data that has already arrived or is lost. If the congestion window is smaller, it is used
            // instead of the flight size.
            self.recovery.flight(&self.scoreboard).min(self.controller.window())
        };
        if self.recovery.is_repairing(&self.scoreboard) {
            self.controller.on_failed_recovery(now, flight);
        } else {
            self.controller.on_timeout(now, flight);
        }
        if let Some(hystart) = &mut self.hystart {
            hystart.on_timeout();
        }
        self.on_timeout_by_time(now);
        self.recovery.enter_timeout(&mut self.scoreboard);
        // The controller itself counts all outstanding data as lost, so it needs no report of these losses.
        let _ = self.scoreboard.take_lost();
        self.controller.on_remaining(self.scoreboard.pipe());
        // RFC 6298 §5.5: the RTO is doubled.
        self.rtt.back_off();
        self.timed = None;
        // RFC 3168 §6.1.2: the timeout has reduced the window, so CE marks on data that was sent before the timeout are
        // ignored.
        self.ecn_point = Some(self.scoreboard.next());
        self.cwr_due = true;
    }
}

/// The number of segments by which the window may exceed the data in flight after an acknowledgement that may reveal a
/// loss (Linux 2.6: tcp_max_burst).
const MAX_BURST: u64 = 3;
