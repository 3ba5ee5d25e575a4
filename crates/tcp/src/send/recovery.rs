//! Decides when a loss is recognized, how long its recovery lasts, and whether it was spurious.
//!
//! Owns the phase of loss recovery and the count of duplicate acknowledgements. Does not deal with the peer's window or
//! with segment sizes. `rack` is the detector that works by time (RFC 8985). If it is in use, counting marks nothing as
//! lost here.
//!
//! Home of RFC 5681 §3.2, RFC 6582 §3.2, RFC 6675 §5, RFC 3042 §2,
//! RFC 3522 (Eifel detection), RFC 3708 §2 (detection by DSACK).

use super::scoreboard::Scoreboard;
use crate::config::{Config, RecoveryKind};
use anabranch_congestion::Prr;

/// The phase of loss recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// No loss is known.
    Open,
    /// Fast recovery.
    Fast,
    /// Retransmitting after a retransmission timeout.
    Timeout,
}

/// State for detecting that the last window reduction was spurious.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Doubt {
    /// The oldest outstanding byte when the recovery began. Duplicates of older data are ignored.
    since: u64,
    /// The timestamp of the first retransmission, once sent.
    stamp: Option<u32>,
    /// The number of retransmissions that DSACK has not yet reported as unnecessary.
    unexplained: u32,
    /// The number of retransmissions.
    sent: u32,
    /// New data has been acknowledged, so timestamps can decide nothing more.
    settled: bool,
}

impl Doubt {
    fn new(since: u64) -> Self {
        Self { since, stamp: None, unexplained: 0, sent: 0, settled: false }
    }
}

#[derive(Debug)]
pub(crate) struct Recovery {
    kind: RecoveryKind,
    /// Losses are detected by time (RFC 8985) and not by counting.
    by_time: bool,
    careful: bool,
    dupthresh: u32,
    limited_transmit: bool,
    reduces_in_proportion: bool,
    /// The state of proportional rate reduction, during a recovery that uses it.
    prr: Option<Prr>,
    phase: Phase,
    /// RFC 6582 "recover", RFC 6675 "RecoveryPoint": the position after the last byte sent when the recovery began.
    point: Option<u64>,
    /// The last recovery followed a timeout.
    after_timeout: bool,
    dup_acks: u32,
    /// The bytes that fast recovery adds to the window for segments that have left the network. Can become negative
    /// with NewReno.
    inflation: i64,
    /// The next retransmission is sent regardless of the windows.
    urgent: bool,
    /// RFC 6675 §4, RescueRxt.
    rescue: Option<u64>,
    /// RFC 3042: bytes that limited transmit sent beyond the window. They must not increase ssthresh.
    limited_bytes: u64,
    doubt: Option<Doubt>,
}

impl Recovery {
    pub(crate) fn new(kind: RecoveryKind, config: &Config) -> Self {
        Self {
            kind,
            by_time: config.rack && kind == RecoveryKind::Sack,
            careful: config.careful,
            dupthresh: config.dupthresh,
            limited_transmit: config.limited_transmit,
            reduces_in_proportion: config.prr && kind == RecoveryKind::Sack,
            prr: None,
            phase: Phase::Open,
            point: None,
            after_timeout: false,
            dup_acks: 0,
            inflation: 0,
            urgent: false,
            rescue: None,
            limited_bytes: 0,
            doubt: None,
        }
    }

    #[inline]
    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns whether losses are repaired with SACK.
    #[inline]
    pub(crate) fn by_sack(&self) -> bool {
        self.kind == RecoveryKind::Sack
    }

    /// Returns whether a retransmission must be sent regardless of the windows.
    #[inline]
    pub(crate) fn is_urgent(&self) -> bool {
        self.urgent
    }

    /// Returns whether a loss within the outstanding data has already reduced the window and is being repaired.
    pub(crate) fn is_repairing(&self, board: &Scoreboard) -> bool {
        self.phase == Phase::Fast && self.point.is_some_and(|point| board.una() < point)
    }

    /// Returns the amount of outstanding data from which the next threshold is computed.
    pub(crate) fn flight(&self, board: &Scoreboard) -> u64 {
        // RFC 5681 §3.2 step 2: data sent by limited transmit does not count.
        board.flight().saturating_sub(self.limited_bytes)
    }

    /// Returns how many bytes may be sent under a congestion window of `cwnd` bytes; negative if too much is
    /// outstanding.
    #[inline]
    pub(crate) fn room(&self, cwnd: u64, mss: u64, board: &Scoreboard) -> i64 {
        let (cwnd, flight) = (cwnd as i64, board.flight() as i64);
        if let (Phase::Fast, Some(prr)) = (self.phase, &self.prr) {
            return prr.room(board.pipe());
        }
        match (self.phase, self.by_sack()) {
            // RFC 5681 §3.2 step 4: each duplicate stands for a segment that has left the network.
            (Phase::Fast, false) => cwnd + self.inflation - flight,
            // RFC 6675 §5: by the pipe. During the first duplicates this amounts to limited transmit.
            (Phase::Fast | Phase::Timeout, _) => cwnd - board.pipe() as i64,
            (Phase::Open, true) if self.limited_transmit => cwnd - board.pipe() as i64,
            // RFC 3042 §2: one segment for each of the first two duplicates.
            (Phase::Open, false) if self.limited_transmit => {
                cwnd + i64::from(self.dup_acks.min(2)) * mss as i64 - flight
            }
            (Phase::Open, _) => cwnd - flight,
        }
    }

    /// Processes a duplicate acknowledgement; with SACK, one that reported new data without advancing. Returns true if
    /// fast recovery must begin.
    pub(crate) fn on_duplicate(&mut self, mss: u64, board: &mut Scoreboard) -> bool {
        if self.by_sack() {
            self.find_lost(mss, board);
        }
        match self.phase {
            Phase::Open => {
                self.dup_acks += 1;
                // RFC 6675 §5 step 1 and 2.
                let enough =
                    !self.by_time && (self.dup_acks >= self.dupthresh || self.finds_head_lost(board));
                enough && self.may_enter(board.una())
            }
            Phase::Fast => {
                self.inflation += mss as i64;
                false
            }
            Phase::Timeout => false,
        }
    }

    fn find_lost(&self, mss: u64, board: &mut Scoreboard) {
        if !self.by_time {
            board.find_lost(self.dupthresh, mss);
        }
    }

    /// Returns whether losses are detected by time.
    #[inline]
    pub(crate) fn by_time(&self) -> bool {
        self.by_time
    }

    /// Returns whether more than `dupthresh - 1` full segments, in bytes, were SACKed.
    pub(crate) fn counts_loss(&self, mss: u64, board: &Scoreboard) -> bool {
        board.sacked() > u64::from(self.dupthresh.saturating_sub(1)) * mss
    }

    /// The reordering timer has found a loss. It is repaired at once, because no acknowledgement may arrive.
    pub(crate) fn hurry(&mut self) {
        self.urgent = true;
    }

    /// Records a tail loss probe that retransmitted data.
    pub(crate) fn on_probed(&mut self, bytes: u64) {
        self.count_sent(bytes);
    }

    /// Returns whether SACK shows that the oldest segment is lost (RFC 6675 §5 step 2).
    pub(crate) fn finds_head_lost(&self, board: &Scoreboard) -> bool {
        self.by_sack() && board.head_is_lost()
    }

    /// RFC 6582 §3.2 step 2: duplicates caused by the recovery's own retransmissions must not begin another recovery.
    fn may_enter(&self, una: u64) -> bool {
        match (self.point, self.kind) {
            (None, _) | (_, RecoveryKind::Sack) => true,
            // RFC 5681 has no such check: plain Reno enters recovery again for every gap. The exception is duplicates
            // caused by retransmissions after a timeout (as in later ns-2 and BSD versions).
            (_, RecoveryKind::Reno) if !self.after_timeout => true,
            (Some(point), _) if self.careful => una > point,
            // RFC 2582 §5: the less careful variant.
            (Some(point), _) => una >= point,
        }
    }

    /// Begins fast recovery; the controller has already reacted to the loss. `window` is the congestion window before
    /// that, if it counts segments.
    pub(crate) fn enter_fast(&mut self, mss: u64, window: Option<u64>, board: &mut Scoreboard) {
        self.phase = Phase::Fast;
        self.point = Some(board.next());
        self.after_timeout = false;
        self.rescue = None;
        self.limited_bytes = 0;
        // RFC 5681 §3.2 step 3.
        self.inflation = i64::from(self.dupthresh) * mss as i64;
        self.prr =
            self.reduces_in_proportion.then(|| window.map_or_else(|| Prr::new(board.flight()), Prr::linux));
        // The recovery that just ended may already have retransmitted the head, because data it had sent itself was
        // lost. That retransmission is unanswered and is not repeated (RFC 6675 §4, NextSeg rule 1). Its
        // acknowledgement is older than any retransmission of this recovery, and so does not show this reduction to be
        // spurious.
        let repaired = board.head_is_repaired();
        self.doubt = (!repaired).then(|| Doubt::new(board.una()));
        // RFC 6675 §5 step 4.3: the first segment is retransmitted at once, whether or not the rules call it lost.
        if !self.by_time && !repaired {
            board.lose_head();
        }
        self.urgent = board.has_missing();
    }

    /// The retransmission timer expired. If losses are detected by time, the caller has already marked them.
    pub(crate) fn enter_timeout(&mut self, board: &mut Scoreboard) {
        // A second timeout is no new evidence whether the first was spurious.
        if self.phase != Phase::Timeout || self.doubt.is_none() {
            self.doubt = Some(Doubt::new(board.una()));
        }
        self.phase = Phase::Timeout;
        self.point = Some(board.next());
        self.after_timeout = true;
        self.dup_acks = 0;
        self.inflation = 0;
        self.limited_bytes = 0;
        self.urgent = true;
        if !self.by_time {
            board.lose_all();
        }
    }

    /// The cumulative acknowledgement advanced by `acked` bytes. Call this after updating the scoreboard. Returns
    /// whether the retransmission timer may restart. With NewReno, only the first partial acknowledgement of a recovery
    /// restarts it.
    pub(crate) fn on_progress(&mut self, acked: u64, mss: u64, board: &mut Scoreboard) -> bool {
        self.limited_bytes = 0;
        let over = self.point.is_none_or(|point| board.una() >= point);
        match (self.phase, self.kind) {
            (Phase::Open, _) => {
                self.dup_acks = 0;
                true
            }
            (Phase::Timeout, _) => {
                if over {
                    self.leave();
                } else if self.by_sack() {
                    self.find_lost(mss, board);
                }
                true
            }
            // RFC 5681 §3.2 step 6: any acknowledgement of new data ends recovery.
            (Phase::Fast, RecoveryKind::Reno) => {
                self.leave();
                true
            }
            (Phase::Fast, _) if over => {
                self.leave();
                true
            }
            // RFC 6582 §3.2 step 5: a partial acknowledgement reveals the next loss.
            (Phase::Fast, RecoveryKind::NewReno) => {
                board.lose_head();
                self.urgent = true;
                self.inflation -= acked as i64;
                if acked >= mss {
                    self.inflation += mss as i64;
                }
                // The impatient variant: only the first partial acknowledgement restarts the timer.
                let first = self.dup_acks != 0;
                self.dup_acks = 0;
                first
            }
            (Phase::Fast, RecoveryKind::Sack) => {
                self.find_lost(mss, board);
                true
            }
        }
    }

    /// An acknowledgement reported `bytes` more delivered bytes.
    pub(crate) fn on_delivered(
        &mut self,
        bytes: u64,
        safe: bool,
        ssthresh: u64,
        mss: u64,
        board: &Scoreboard,
    ) {
        if let (Phase::Fast, Some(prr)) = (self.phase, &mut self.prr) {
            prr.on_delivered(bytes, safe, ssthresh, board.pipe(), mss);
        }
    }

    fn leave(&mut self) {
        self.phase = Phase::Open;
        self.dup_acks = 0;
        self.inflation = 0;
        self.urgent = false;
        self.rescue = None;
    }

    /// Records that new data was sent.
    #[inline]
    pub(crate) fn on_sent(&mut self, bytes: u64) {
        self.count_sent(bytes);
        if self.phase == Phase::Open && self.dup_acks > 0 {
            self.limited_bytes += bytes;
        }
    }

    /// Records a retransmission, with its timestamp if the option is in use.
    pub(crate) fn on_repaired(&mut self, stamp: Option<u32>, bytes: u64) {
        self.count_sent(bytes);
        self.urgent = false;
        if let Some(doubt) = &mut self.doubt {
            doubt.unexplained += 1;
            doubt.sent += 1;
            doubt.stamp = doubt.stamp.or(stamp);
        }
    }

    fn count_sent(&mut self, bytes: u64) {
        if let (Phase::Fast, Some(prr)) = (self.phase, &mut self.prr) {
            prr.on_sent(bytes);
        }
    }

    /// RFC 6675 §4, NextSeg rule 4: one rescue retransmission per recovery, when nothing else may be sent. Only data
    /// that was outstanding when the recovery began is rescued: the rule is for the end of a lost window, not for new
    /// data just sent.
    pub(crate) fn may_rescue(&self, una: u64, end: u64) -> bool {
        self.phase == Phase::Fast
            && self.by_sack()
            && self.rescue.is_none_or(|rescue| una > rescue)
            && self.point.is_some_and(|point| end <= point)
    }

    /// Records that the rescue retransmission was sent.
    pub(crate) fn on_rescued(&mut self) {
        self.rescue = self.point;
    }

    /// RFC 3522 §3.2: returns whether the echoed timestamp shows that the recovery was spurious. That is so if the
    /// first acknowledgement of new data after the first retransmission echoes an older timestamp: it answers the
    /// original.
    pub(crate) fn is_disproved_by_echo(&mut self, echo: Option<u32>) -> bool {
        let Some(doubt) = &mut self.doubt else { return false };
        if doubt.settled || doubt.sent == 0 || self.phase == Phase::Open {
            return false;
        }
        doubt.settled = true;
        match (doubt.stamp, echo) {
            (Some(stamp), Some(echo)) => (echo.wrapping_sub(stamp) as i32) < 0,
            _ => false,
        }
    }

    /// RFC 3708 §2: returns whether DSACK has now reported every retransmission of the last recovery.
    pub(crate) fn is_disproved_by_dsack(&mut self, start: u64) -> bool {
        let Some(doubt) = self.doubt.as_mut().filter(|doubt| start >= doubt.since) else { return false };
        doubt.unexplained = doubt.unexplained.saturating_sub(1);
        doubt.sent > 0 && doubt.unexplained == 0
    }

    /// The loss was spurious: restores the state before it. The controller has already done so.
    pub(crate) fn forgive(&mut self, board: &mut Scoreboard) {
        self.doubt = None;
        if self.phase != Phase::Open {
            self.leave();
            board.forgive();
        }
    }
}
