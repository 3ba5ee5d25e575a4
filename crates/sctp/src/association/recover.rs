//! Recovery from losses that are detected by time, with its timers and probes.
//!
//! Implements RFC 8985 §6.2 step 5 (the reordering timer) and §7.2 to §7.4 (tail loss probes). Duplicate TSNs can show
//! that a reduction of the congestion window was unnecessary. Such a reduction is undone as in RFC 3708 §2.
//!
//! T3-rtx works as in RFC 9260: it marks all chunks outstanding on its path as lost (§6.3.3 E3). One recovery spans the
//! association (§7.2.4), while congestion windows and probes belong to a path.

use super::timers::Timer;
use super::{Association, Ctx};
use crate::path::loss_control::{LossDeadline, SackFacts};
use anabranch_base::Instant;
use anabranch_congestion::Delivered;

impl Association {
    /// Detects losses on a path. `arrived` describes the chunks sent on this path that a SACK has newly acknowledged.
    /// Returns the number of bytes lost.
    pub(super) fn detect_losses_by_time(&mut self, now: Instant, index: usize, arrived: &Delivered) -> u64 {
        let Some((by_time, smoothed)) = self.paths.at(index).on_delivered(now, arrived) else { return 0 };
        self.send.lose_by_time(now, index, by_time, smoothed)
    }

    /// Records that `bytes` bytes sent on a path are lost. `reduces` is true for the first loss of each fast recovery.
    /// Only this loss reduces the congestion window.
    pub(super) fn record_loss(&mut self, now: Instant, index: usize, bytes: u64, reduces: bool) {
        let path = self.paths.at(index);
        path.on_lost(now, bytes, reduces);
        if reduces && path.is_controlled() {
            self.send.begin_spurious_detection(index);
        }
    }

    /// Enters fast recovery, if it is in use.
    pub(super) fn enter_recovery(&mut self) {
        if self.config.fast_recovery {
            self.send.enter_recovery();
        } else {
            // Without fast recovery (RFC 2960 §7.2.4), one packet is retransmitted regardless of the window.
            self.send.allow_free_packet();
        }
        self.stats.rare_mut().fast_recoveries += 1;
    }

    /// RFC 8985: updates every path after any SACK.
    ///
    /// - `repaired`: the SACK ended a recovery.
    /// - `spurious`: the number of retransmitted chunks that the SACK reports as duplicates.
    /// - `idle`: the SACK acknowledged no new chunks, and there are no gaps.
    pub(super) fn after_sack_by_time(&mut self, now: Instant, repaired: bool, spurious: u64, idle: bool) {
        let (base, end) = (self.send.base(), self.send.end());
        if spurious > 0
            && let Some(index) = self.send.on_spurious(spurious)
            && index < self.paths.len()
        {
            // All retransmissions of the recovery were unnecessary, so the reduction of the congestion window was
            // spurious.
            self.paths.at(index).on_spurious_reduction(now);
            self.send.end_recovery();
        }
        let is_recovered = self.send.is_recovered();
        let facts = SackFacts { base, end, is_recovered, repaired, spurious: spurious > 0, idle };
        for index in 0..self.paths.len() {
            self.paths.at(index).after_sack(now, &facts);
            self.set_loss_timer(now, index);
        }
    }

    /// Sets the loss timer of a path. It expires when the next chunk counts as lost, or when a tail loss probe is due.
    #[inline]
    pub(super) fn set_loss_timer(&mut self, now: Instant, index: usize) {
        let timer = Timer::Loss(index);
        let is_quiet = || self.state.may_send_data() && self.send.is_quiet();
        match self.paths.at(index).loss_deadline(is_quiet) {
            None => {}
            Some(LossDeadline::Lost(at)) => self.timers.set(timer, at.max(now)),
            // RFC 8985 §7.2: the probe is sent no later than T3-rtx would expire. When the probe is sent, T3-rtx is
            // restarted.
            Some(LossDeadline::Probe(wait)) => {
                self.timers.set(timer, (now + wait).min(self.timers.at(Timer::T3Rtx(index))));
            }
            Some(LossDeadline::Never) => self.timers.stop(timer),
        }
    }

    pub(super) fn on_loss_timer(&mut self, ctx: &mut Ctx<'_>, index: usize) {
        let path = self.paths.at(index);
        if path.flight() == 0 || !self.state.may_send_data() {
            path.forget_suspicion();
            return;
        }
        if path.suspects_loss() {
            let lost = self.detect_losses_by_time(ctx.now, index, &Delivered::default());
            if lost > 0 {
                let reduces = !self.send.is_recovering();
                self.record_loss(ctx.now, index, lost, reduces);
                if reduces {
                    self.enter_recovery();
                }
                // One packet may be sent regardless of the congestion window. Otherwise, if the window is full, the
                // retransmission would wait for an acknowledgement that may never arrive.
                self.send.allow_free_packet();
                if self.paths.get(index).wants_reports() {
                    self.paths.at(index).report(ctx.now, 0, &Delivered::default(), true);
                }
            }
            self.rearm_t3(ctx.now, index, false, lost > 0);
            self.set_loss_timer(ctx.now, index);
        } else if self.send.is_quiet() {
            self.probe_tail(ctx.now, index);
        }
    }

    /// RFC 8985 §7.3: sends new data as a probe, if data is queued and the peer's window allows it. Otherwise
    /// retransmits the last chunk.
    fn probe_tail(&mut self, now: Instant, index: usize) {
        let rto = self.paths.get(index).rto();
        let has_new_data = self.takes_new_on(now, index);
        if !has_new_data {
            let Some(bytes) = self.send.take_tail(index) else { return };
            self.paths.at(index).lose(bytes);
        }
        self.stats.rare_mut().tail_probes += 1;
        let end = self.send.end();
        let path = self.paths.at(index);
        path.probe_tail(has_new_data, end);
        if path.flight() == 0 {
            // The probe has not been sent yet, so no chunk is in flight on this path. T3-rtx starts when the probe is
            // sent, on the path that carries it.
            self.timers.stop(Timer::T3Rtx(index));
        } else {
            self.timers.set(Timer::T3Rtx(index), now + rto);
        }
    }

    /// Records that a packet with new data was sent on path `index`.
    #[inline]
    pub(super) fn record_new_sent(&mut self, now: Instant, index: usize) {
        let end = self.send.end();
        if self.paths.at(index).on_new_sent(end) {
            self.set_loss_timer(now, index);
        }
    }
}
