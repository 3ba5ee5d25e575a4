//! The effects of a SACK, an expired T3-rtx or an ECN Echo on the paths.
//!
//! `SendHalf` determines which chunks were acknowledged or lost. This module applies the result to congestion windows,
//! round-trip times, timers and error counters.
//!
//! Implements RFC 9260 §6.3.2 and §6.3.3, and RFC 4960 Appendix A (the sender).

use super::timers::Timer;
use super::{Association, Ctx, State};
use crate::path::Path;
use crate::path::flight::NewlyAcked;
use crate::send::Expired;
use crate::send::outstanding::Earliest;
use crate::send::sack_outcome::{SackError, SackOutcome, Waiting};
use anabranch_base::Instant;
use anabranch_base::trace::{SendCause, TraceEvent};
use anabranch_wire::sctp::{NrSackView, SackView, Tsn};

/// The chunk that acknowledges data.
#[derive(Clone, Copy, Debug)]
pub(super) enum Acknowledgement<'a> {
    Sack(&'a SackView<'a>),
    NrSack(&'a NrSackView<'a>),
    /// The Cumulative TSN Ack of a SHUTDOWN.
    Shutdown(Tsn),
}

/// Values that all paths share while one acknowledgement is processed, and results from the paths processed so far.
struct AckContext {
    /// Whether the association was in fast recovery before the acknowledgement.
    was_in_recovery: bool,
    /// Whether the association is in fast recovery after the acknowledgement.
    in_recovery: bool,
    /// The TSN offset below which all chunks are cumulatively acknowledged.
    base: u64,
    /// The TSN offset of the next new chunk.
    end: u64,
    /// The number of calls of `poll_transmit` so far.
    polls: u64,
    /// Whether data waits to be sent.
    more: bool,
    /// Whether the acknowledgement has shown a lost chunk on any path.
    lost: bool,
    /// The path on which the acknowledged chunks were sent. If one SACK acknowledges chunks of two paths after a path
    /// failure, this is the path on which data has resumed.
    acked_path: Option<usize>,
    /// Whether every loss reduces the congestion window, because there is no fast recovery.
    reduces_always: bool,
}

impl AckContext {
    /// Returns whether a loss on a path reduces its congestion window. RFC 9260 §7.2.4: a window is reduced once per
    /// fast recovery. §6.2.1 D iv: the SACK that ends a fast recovery may begin the next one.
    ///
    /// After a timeout, the association is not in fast recovery, so a further loss reduces the window again. The
    /// further loss is a new one: T3-rtx has already marked every chunk outstanding on its path as lost. RFC 5681 §4.3:
    /// the loss of a retransmission is a further sign of congestion.
    fn reduces(&self) -> bool {
        !self.in_recovery || self.reduces_always
    }
}

impl Association {
    #[inline]
    pub(super) fn on_sack(&mut self, ctx: &mut Ctx<'_>, sack: &SackView<'_>) {
        self.stats.sacks_received += 1;
        self.on_acknowledgement(ctx, Acknowledgement::Sack(sack));
    }

    /// draft-natarajan-tsvwg-sctp-nrsack: handles an NR-SACK. The peer must never drop a chunk that an NR gap block
    /// acknowledges.
    #[cold]
    pub(super) fn on_nr_sack(&mut self, ctx: &mut Ctx<'_>, nr: &NrSackView<'_>) {
        self.stats.sacks_received += 1;
        self.on_acknowledgement(ctx, Acknowledgement::NrSack(nr));
    }

    pub(super) fn on_acknowledgement(&mut self, ctx: &mut Ctx<'_>, acknowledgement: Acknowledgement<'_>) {
        let recovers_until = self.send.recovers_until();
        let was_in_recovery = recovers_until.is_some();
        let records_arrivals = self.config.rack || self.config.hystart.is_some();
        let mut outcome = self.send.take_outcome(self.paths.len(), records_arrivals);
        let paths = &self.paths;
        let waiting = |path: usize| {
            let (earliest, timed) = paths.get(path).awaited();
            Waiting { earliest, timed }
        };
        let result = match acknowledgement {
            Acknowledgement::Sack(sack) => self.send.on_sack(ctx.now, sack, waiting, &mut outcome),
            Acknowledgement::NrSack(nr) => self.send.on_nr_sack(ctx.now, nr, waiting, &mut outcome),
            Acknowledgement::Shutdown(tsn) => self.send.on_shutdown(ctx.now, tsn, waiting, &mut outcome),
        };
        if let Err(error) = result {
            self.send.keep_outcome(outcome);
            return self.on_bad_acknowledgement(ctx, acknowledgement, error);
        }
        self.send.renew_burst();
        let mut ack_context = AckContext {
            was_in_recovery,
            in_recovery: self.send.is_recovering(),
            base: self.send.base(),
            end: self.send.end(),
            polls: self.paths.polls(),
            more: self.send.unsent_bytes() > 0,
            lost: false,
            acked_path: None,
            reduces_always: !self.config.fast_recovery,
        };
        for index in 0..outcome.paths.len() {
            self.apply_to_path(ctx, index, &outcome, &mut ack_context);
        }
        if let Some(interruption) =
            ack_context.acked_path.and_then(|path| self.paths.on_data_acked(ctx.now, path))
        {
            self.record_interruption(ctx, interruption);
        }
        if ack_context.lost && ack_context.reduces() {
            self.enter_recovery();
        }
        if self.config.rack || self.config.prr {
            let repaired = was_in_recovery && !self.send.is_recovering();
            let is_new = outcome.cumulative || outcome.arrived.iter().any(|arrived| !arrived.is_empty());
            let idle = !is_new && !self.send.has_gaps();
            self.after_sack_by_time(ctx.now, repaired, outcome.spurious, idle);
        }
        if outcome.spurious > 0 {
            self.stats.rare_mut().retransmitted_spurious += outcome.spurious;
            for _ in 0..outcome.spurious {
                ctx.trace.record(ctx.now, self.trace_key(), || TraceEvent::Spurious);
            }
        }
        let skipped = outcome.skipped;
        if !outcome.skips.is_empty() {
            self.reduce_window_for_skipped(ctx.now, &outcome.skips, recovers_until);
        }
        self.send.keep_outcome(outcome);
        if self.send.has_limits() {
            self.on_forward_answered(ctx, skipped);
        }
        self.after_acknowledgement(ctx);
    }

    /// Applies an acknowledgement to one path: its congestion window, RTT, error counter and losses.
    #[inline]
    fn apply_to_path(
        &mut self,
        ctx: &mut Ctx<'_>,
        index: usize,
        outcome: &SackOutcome,
        ack_context: &mut AckContext,
    ) {
        let ack = outcome.paths[index];
        if ack.acked == 0 && ack.acked_in_flight == 0 && ack.lost == 0 && ack.reneged == 0 {
            return;
        }
        let path = self.paths.at(index);
        let flight_before = path.on_bytes_acked(ack.acked_in_flight, ack_context.polls, ack_context.more);
        if ack.timed {
            path.end_measurement(ack.sample);
        }
        if ack.acked > 0 {
            let newly = NewlyAcked {
                bytes: ack.acked,
                flight_before,
                base: ack_context.base,
                cumulative: outcome.cumulative,
                in_recovery: ack_context.was_in_recovery,
                conservative: path.is_conservative(
                    ctx.now,
                    ack_context.base,
                    ack_context.end,
                    outcome.arrived.get(index),
                ),
                polls: ack_context.polls,
            };
            let revived = path.on_newly_acked(ctx.now, newly);
            // RFC 9260 §8.1: newly acknowledged data clears the error counter of the association, in addition to that
            // of the path.
            self.paths.clear_errors();
            if ack_context.acked_path.is_none_or(|before| self.paths.is_last_sent_on(before)) {
                ack_context.acked_path = Some(index);
            }
            if revived {
                self.on_path_up(ctx, index, true);
            }
        }
        if ack.reneged > 0 {
            self.paths.at(index).on_reneged(ack.reneged);
        }
        let mut lost = ack.lost;
        if self.config.rack {
            lost += self.detect_losses_by_time(ctx.now, index, &outcome.arrived[index]);
        }
        // RFC 9260 §7.2.4: first the window grows by the acknowledged data, then the loss reduces it.
        if lost > 0 {
            ack_context.lost = true;
            self.record_loss(ctx.now, index, lost, ack_context.reduces());
        }
        if self.paths.get(index).wants_reports() {
            let recovering = ack_context.in_recovery || lost > 0 || self.send.repairs_timeout();
            let arrived = outcome.arrived.get(index).copied().unwrap_or_default();
            self.paths.at(index).report(ctx.now, ack.acked, &arrived, recovering);
        }
        self.paths.at(index).reduce_in_proportion(ack.acked, outcome.cumulative && lost == 0);
        self.rearm_t3(ctx.now, index, ack.earliest, lost > 0 || ack.reneged > 0);
    }

    #[cold]
    fn on_bad_acknowledgement(
        &mut self,
        ctx: &mut Ctx<'_>,
        acknowledgement: Acknowledgement<'_>,
        error: SackError,
    ) {
        match (error, acknowledgement) {
            // RFC 9260 §6.2.1 D i: the SACK is older than the last SACK, so it is ignored.
            (SackError::Old, _) => {}
            // RFC 6525 §5.2.4: the SACK contains TSNs from before a reset, so it is ignored.
            (SackError::NeverSent, _) if self.was_renumbered_recently(ctx.now) => {}
            // RFC 9260 §12.4: only a SACK that acknowledges unsent TSNs has to end the association. A SHUTDOWN that
            // acknowledges unsent TSNs acknowledges nothing here. Widely used stacks write one of their own TSNs into a
            // SHUTDOWN (interop/README.md).
            (SackError::NeverSent, Acknowledgement::Shutdown(_)) => {}
            (SackError::NeverSent, _) => {
                self.violated(ctx, "6.2.1: a SACK acknowledges what was never sent");
            }
        }
    }

    /// Completes the processing of an acknowledgement by SACK or SHUTDOWN.
    pub(super) fn after_acknowledgement(&mut self, ctx: &mut Ctx<'_>) {
        self.emit_writable(ctx);
        self.refused_probe_again();
        self.check_probe(ctx.now);
        self.advance_shutdown(ctx);
    }

    /// Emits `Writable` if the send buffer has room again after `send` refused a message.
    #[inline]
    pub(crate) fn emit_writable(&mut self, ctx: &mut Ctx<'_>) {
        if self.send.has_rejected() {
            self.size_send_buffer();
        }
        if self.send.take_writable() {
            self.emit_writable_now(ctx);
        }
        self.emit_low(ctx);
    }

    /// Emits an event for each stream whose buffered amount has fallen to the stream's threshold.
    #[inline]
    pub(crate) fn emit_low(&mut self, ctx: &mut Ctx<'_>) {
        while let Some(stream) = self.send.take_low() {
            ctx.events.push_back(crate::event::Event::BufferedAmountLow { id: self.id, stream });
        }
    }

    #[cold]
    fn emit_writable_now(&mut self, ctx: &mut Ctx<'_>) {
        if self.takes_messages() {
            ctx.events.push_back(crate::event::Event::Writable { id: self.id });
        }
    }

    /// RFC 9260 §6.3.2 R2, R3, R4: starts, restarts or stops the T3-rtx of a path after a SACK.
    #[inline]
    pub(crate) fn rearm_t3(&mut self, now: Instant, index: usize, earliest_acked: bool, disturbed: bool) {
        let path = self.paths.at(index);
        let timer = Timer::T3Rtx(index);
        if path.flight() == 0 {
            // RFC 9260 §6.3.2 R2: T3-rtx stops if no chunk is in flight on the path.
            path.record_earliest(self.send.end(), true);
            self.timers.stop(timer);
            return;
        }
        if earliest_acked || disturbed {
            let from = if disturbed { 0 } else { path.earliest() };
            let found = self.send.earliest_within(index, from);
            let (Earliest::At(earliest) | Earliest::NotBelow(earliest)) = found;
            path.record_earliest(earliest, matches!(found, Earliest::At(_)));
        }
        // RFC 9260 §6.3.2 R3: restart the timer if the earliest chunk was acknowledged. R4: start it if a chunk was
        // reneged.
        if earliest_acked || !self.timers.is_set(timer) {
            self.timers.set(timer, now + path.rto());
        }
    }

    /// RFC 9260 §6.3.3: handles the expiration of a path's T3-rtx.
    pub(super) fn on_t3(&mut self, ctx: &mut Ctx<'_>, index: usize) {
        if matches!(self.state, State::CookieEchoed(_)) {
            // Until the COOKIE ACK arrives, DATA is sent only together with the COOKIE ECHO, and T1-cookie doubles the
            // timeout. So T3-rtx only marks the chunks for retransmission. It neither doubles the timeout nor returns
            // to slow start.
            self.mark_all_for_retransmission();
            return;
        }
        let Expired { probe, silent } = self.send.on_t3();
        // A peer answers every window probe that it receives. If T3-rtx expires without any SACK since the last window
        // probe, the probe may have been too large for the path.
        if self.paths.get(index).has_mtu_search() && (!probe || silent) {
            self.suspect_black_hole(ctx, index);
        }
        self.stats.rare_mut().t3_expirations += 1;
        // RFC 9260 §6.3.3 E1, E2: doubles the timeout. Returns to slow start, unless the timer guarded a window probe.
        self.paths.at(index).on_t3(ctx.now, !probe);
        self.lose_flight(index, if probe { SendCause::Probe } else { SendCause::Timeout });
        if !probe {
            self.send.begin_timeout_repair();
        }
        if silent {
            self.paths.on_data_timeout();
            let health = self.paths.at(index).on_timeout(ctx.now, self.config.path_max_retrans);
            self.paths.count_error(ctx.now);
            self.on_health(ctx, index, health);
            if self.end_without_acknowledgement(ctx, index) {
                return;
            }
            self.paths.rotate();
        }
        if self.send.has_limits() {
            self.advance_shutdown(ctx);
        }
    }

    /// Ends the association if another retransmission on path `index` cannot succeed. Returns true if the association
    /// has ended.
    fn end_without_acknowledgement(&mut self, ctx: &mut Ctx<'_>, index: usize) -> bool {
        let unreachable = self.paths.is_peer_unreachable(&self.config, ctx.now);
        let path = self.paths.at(index);
        // RFC 9260 §6.9: a chunk that has a TSN cannot be split again. If it is too large for the path, every
        // retransmission of it is lost, even as IP fragments. So the association ends when its last path has failed
        // (§8.1).
        let limit = path.chunk_limit().saturating_sub(self.extensions.auth_room()) as u64;
        let lowest = self.send.lowest_size();
        let black_hole = lowest > limit && path.on_too_large_timeout(lowest);
        let heartbeats_only = self.paths.get(index).delivers_heartbeats_only();
        if unreachable && !heartbeats_only {
            // RFC 9260 §8.1: the peer is unreachable, so the association ends.
            self.give_up(ctx);
            return true;
        }
        let ends = unreachable || black_hole && !self.paths.iter().any(Path::is_active);
        if ends {
            self.abort_black_hole(ctx, index);
        } else if lowest > limit && heartbeats_only {
            // Send a HEARTBEAT. Its answer shows, before the next timeout, whether small packets still arrive.
            self.paths.at(index).ask_heartbeat_once();
        }
        ends
    }

    /// RFC 9260 §6.3.3 E3: marks all chunks in flight on a path for retransmission.
    pub(super) fn lose_flight(&mut self, index: usize, cause: SendCause) {
        self.paths.at(index).lose_flight(self.send.end());
        self.timers.stop(Timer::Loss(index));
        self.send.lose_flight(index, cause);
    }

    // The next three methods implement window probing (RFC 9260 §6.1 A): while the peer's window is closed, probes are
    // sent.

    /// Begins or ends window probing, depending on the peer's window.
    #[inline]
    pub(crate) fn check_probe(&mut self, now: Instant) {
        // While data is outstanding, T3-rtx runs and the probe timer does not.
        if self.send.awaits_nothing() {
            self.check_probe_idle(now);
        }
    }

    fn check_probe_idle(&mut self, now: Instant) {
        let Some(shut_out) = self.send.is_shut_out() else {
            // No data waits that could be sent as a window probe, so the probe timer stops.
            if self.send.is_probing() {
                self.timers.stop(Timer::Probe);
            }
            return;
        };
        if shut_out && self.state.may_send_data() {
            if let Some(sent) = self.send.begin_probing()
                && !self.timers.is_set(Timer::Probe)
            {
                // The first probe is sent after one RTO. Each further interval between probes is twice as long as the
                // previous one.
                let rto = self.paths.get(self.paths.current()).rto();
                let wait = rto.saturating_mul(1 << sent.min(16)).min(self.config.rto_max.max(rto));
                self.timers.set(Timer::Probe, now + wait);
            }
        } else if self.send.end_probing() {
            self.timers.stop(Timer::Probe);
        }
    }

    /// If the peer dropped a window probe and has now opened its window, retransmits the probe without waiting for the
    /// probe timer.
    fn refused_probe_again(&mut self) {
        let Some((index, size)) = self.send.take_refused_probe() else {
            return;
        };
        let path = self.paths.at(index);
        path.lose(size);
        if path.flight() == 0 {
            self.timers.stop(Timer::T3Rtx(index));
        }
    }

    /// RFC 4960 Appendix A: handles an ECN Echo. The peer has received a packet of this side that had an ECN mark.
    pub(super) fn on_ecne(&mut self, ctx: &mut Ctx<'_>, tsn: u32) {
        if !self.extensions.ecn.is_on() {
            return;
        }
        let offset = self.send.offset_of(tsn);
        if offset >= self.send.end() as i64 {
            return;
        }
        self.extensions.ecn.ask_cwr(tsn);
        if !self.extensions.ecn.may_reduce(offset, self.send.end()) {
            return;
        }
        // RFC 4960 Appendix A: the congestion window of the marked packet's path is reduced once per window of data.
        let index = self.send.path_of(offset).unwrap_or(self.paths.current());
        if !self.send.is_recovering() {
            self.paths.at(index).on_ecn_mark(ctx.now);
            self.stats.rare_mut().ecn_reductions += 1;
        }
    }
}
