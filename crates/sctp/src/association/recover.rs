//! What losses found by time mean to an association: recovery, timers, probes.
//!
//! Home of RFC 8985 §6.2 step 5 (the reordering timer), §7.2 to §7.4 (tail
//! loss probes); of the undoing of RFC 3708 §2 by duplicate TSNs.
//!
//! T3-rtx stays RFC 9260's: what it marks is all that is out (§6.3.3 E3). One
//! recovery spans the association (§7.2.4), windows and probes are a path's.

use super::timers::Timer;
use super::{Association, Ctx};
use crate::path::loss_control::{LossDeadline, SackNews};
use anabranch_base::Instant;
use anabranch_congestion::Delivered;

impl Association {
    /// What has arrived on a path by a SACK says what is lost there.
    pub(super) fn judge_by_time(&mut self, now: Instant, index: usize, fresh: &Delivered) -> u64 {
        let Some((by_time, smoothed)) = self.paths.at(index).on_delivered(now, fresh) else { return 0 };
        self.send.lose_by_time(now, index, by_time, smoothed)
    }

    /// Chunks of `bytes` on a path are lost. `reduces`: it is the first loss of a recovery.
    pub(super) fn record_loss(&mut self, now: Instant, index: usize, bytes: u64, reduces: bool) {
        let path = self.paths.at(index);
        path.on_lost(now, bytes, reduces);
        if reduces && path.is_controlled() {
            self.send.doubt_reduction(index);
        }
    }

    /// Fast recovery begins.
    pub(super) fn enter_recovery(&mut self) {
        self.send.enter_recovery();
        self.stats.seldom().fast_recoveries += 1;
    }

    /// RFC 8985: after any SACK, on every path. `repaired`: it ended a recovery; `needless`: so many
    /// duplicates of what was retransmitted; `idle`: it told nothing new and of no holes.
    pub(super) fn after_sack_by_time(&mut self, now: Instant, repaired: bool, needless: u64, idle: bool) {
        let (base, end) = (self.send.base(), self.send.end());
        if needless > 0
            && let Some(index) = self.send.on_needless(needless)
            && index < self.paths.len()
        {
            // Every repair was needless: so was the reduction.
            self.paths.at(index).on_needless_reduction(now);
            self.send.end_recovery();
        }
        let calm = self.send.is_recovered();
        let news = SackNews { base, end, calm, repaired, needless: needless > 0, idle };
        for index in 0..self.paths.len() {
            self.paths.at(index).after_sack(now, &news);
            self.set_loss_timer(now, index);
        }
    }

    /// The timer of what may be lost on a path, or of its probe.
    #[inline]
    pub(super) fn set_loss_timer(&mut self, now: Instant, index: usize) {
        let timer = Timer::Loss(index);
        let is_quiet = || self.state.may_send_data() && self.send.is_quiet();
        match self.paths.at(index).loss_deadline(is_quiet) {
            None => {}
            Some(LossDeadline::Lost(at)) => self.timers.set(timer, at.max(now)),
            // RFC 8985 §7.2: no later than T3-rtx, which starts anew with the probe.
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
            let lost = self.judge_by_time(ctx.now, index, &Delivered::default());
            if lost > 0 {
                let reduces = !self.send.is_recovering();
                self.record_loss(ctx.now, index, lost, reduces);
                if reduces {
                    self.enter_recovery();
                }
                // No acknowledgement may come that would let the repair go.
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

    /// RFC 8985 §7.3: new data if there is some and the peer takes it, else the last chunk again.
    fn probe_tail(&mut self, now: Instant, index: usize) {
        let rto = self.paths.get(index).rto();
        let fresh = self.takes_new_on(now, index);
        if !fresh {
            let Some(bytes) = self.send.take_tail(index) else { return };
            self.paths.at(index).lose(bytes);
        }
        self.stats.seldom().tail_probes += 1;
        let end = self.send.end();
        let path = self.paths.at(index);
        path.probe_tail(fresh, end);
        if path.flight() == 0 {
            // It starts with the probe, on whatever path that leaves.
            self.timers.stop(Timer::T3Rtx(index));
        } else {
            self.timers.set(Timer::T3Rtx(index), now + rto);
        }
    }

    /// A packet with new data has left.
    #[inline]
    pub(super) fn record_new_sent(&mut self, now: Instant, index: usize) {
        let end = self.send.end();
        if self.paths.at(index).on_new_sent(end) {
            self.set_loss_timer(now, index);
        }
    }
}
