//! When a loss is believed, how long its repair lasts, and when it was none.
//!
//! Owns the phase of loss recovery and the counters of duplicate
//! acknowledgements; decides nothing about windows of the peer or about
//! segments' sizes. The time-based detector (RFC 8985) is `rack`: where it
//! is in use nothing is taken for lost here by counting.
//!
//! Home of RFC 5681 §3.2, RFC 6582 §3.2, RFC 6675 §5, RFC 3042 §2,
//! RFC 3522 (Eifel detection), RFC 3708 §2 (detection by DSACK).

use super::scoreboard::Scoreboard;
use crate::config::{Config, RecoveryKind};
use anabranch_congestion::Prr;

/// What the sender is busy with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// No loss is known.
    Open,
    /// Fast recovery.
    Fast,
    /// Repairing after a retransmission timeout.
    Timeout,
}

/// What would show that the last reduction was needless.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Doubt {
    /// The oldest byte out when the repair began: older duplicates say nothing of it.
    since: u64,
    /// Timestamp of the first retransmission, once sent.
    stamp: Option<u32>,
    /// Retransmissions that DSACK has not reported as needless.
    unexplained: u32,
    /// Retransmissions at all.
    sent: u32,
    /// An acknowledgement of new data has come: timestamps tell no more.
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
    /// Losses are found by time (RFC 8985), not by counting.
    by_time: bool,
    careful: bool,
    dupthresh: u32,
    limited_transmit: bool,
    reduces_in_proportion: bool,
    /// In a recovery that reduces in proportion.
    prr: Option<Prr>,
    phase: Phase,
    /// RFC 6582 "recover", RFC 6675 "RecoveryPoint": what was sent when the last repair began.
    point: Option<u64>,
    /// It was a timeout's repair.
    after_timeout: bool,
    dup_acks: u32,
    /// What fast recovery adds to the window for segments that have left the network; NewReno may owe.
    inflation: i64,
    /// The next retransmission goes whatever the windows say.
    urgent: bool,
    /// RFC 6675 §4, RescueRxt.
    rescue: Option<u64>,
    /// RFC 3042: bytes sent beyond the window, which are no reason for a larger ssthresh.
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

    /// Losses are repaired by SACK.
    #[inline]
    pub(crate) fn by_sack(&self) -> bool {
        self.kind == RecoveryKind::Sack
    }

    /// A retransmission is due whatever the windows say.
    #[inline]
    pub(crate) fn is_urgent(&self) -> bool {
        self.urgent
    }

    /// A loss of the window that is out has reduced the window already, and is being repaired.
    pub(crate) fn is_repairing(&self, board: &Scoreboard) -> bool {
        self.phase == Phase::Fast && self.point.is_some_and(|point| board.una() < point)
    }

    /// What was outstanding, for the next threshold.
    pub(crate) fn flight(&self, board: &Scoreboard) -> u64 {
        // RFC 5681 §3.2 step 2: data that limited transmit sent does not count.
        board.flight().saturating_sub(self.limited_bytes)
    }

    /// How much may be sent under a congestion window of `cwnd` bytes; negative when too much is out.
    #[inline]
    pub(crate) fn room(&self, cwnd: u64, mss: u64, board: &Scoreboard) -> i64 {
        let (cwnd, flight) = (cwnd as i64, board.flight() as i64);
        if let (Phase::Fast, Some(prr)) = (self.phase, &self.prr) {
            return prr.room(board.pipe());
        }
        match (self.phase, self.by_sack()) {
            // RFC 5681 §3.2 step 4: each duplicate stands for a segment that has left.
            (Phase::Fast, false) => cwnd + self.inflation - flight,
            // RFC 6675 §5: by the pipe. In the first duplicates this is limited transmit.
            (Phase::Fast | Phase::Timeout, _) => cwnd - board.pipe() as i64,
            (Phase::Open, true) if self.limited_transmit => cwnd - board.pipe() as i64,
            // RFC 3042 §2: one segment each for the first two duplicates.
            (Phase::Open, false) if self.limited_transmit => {
                cwnd + i64::from(self.dup_acks.min(2)) * mss as i64 - flight
            }
            (Phase::Open, _) => cwnd - flight,
        }
    }

    /// A duplicate acknowledgement, or with SACK one that reported something
    /// new without moving. True when a fast recovery is to begin.
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

    /// Losses are found by time.
    #[inline]
    pub(crate) fn by_time(&self) -> bool {
        self.by_time
    }

    /// As many bytes as `dupthresh` segments have, or more, were reported beyond a hole.
    pub(crate) fn counts_loss(&self, mss: u64, board: &Scoreboard) -> bool {
        board.sacked() > u64::from(self.dupthresh.saturating_sub(1)) * mss
    }

    /// The reordering timer has found a loss: it is repaired at once, as no acknowledgement may come.
    pub(crate) fn hurry(&mut self) {
        self.urgent = true;
    }

    /// A tail loss probe has repeated something.
    pub(crate) fn on_probed(&mut self, bytes: u64) {
        self.count_sent(bytes);
    }

    /// By SACK, the oldest segment is known to be lost (RFC 6675 §5 step 2).
    pub(crate) fn finds_head_lost(&self, board: &Scoreboard) -> bool {
        self.by_sack() && board.head_is_lost()
    }

    /// RFC 6582 §3.2 step 2: duplicates that the repair itself caused must not begin another.
    fn may_enter(&self, una: u64) -> bool {
        match (self.point, self.kind) {
            (None, _) | (_, RecoveryKind::Sack) => true,
            // RFC 5681 knows no such check: plain Reno enters again for every hole, but not on
            // duplicates that a timeout's repair caused (as ns-2 and the BSDs came to do).
            (_, RecoveryKind::Reno) if !self.after_timeout => true,
            (Some(point), _) if self.careful => una > point,
            // RFC 2582 §5, the less careful variant.
            (Some(point), _) => una >= point,
        }
    }

    /// A fast recovery begins (the controller has been told of the loss).
    /// `window`: what the congestion window was, where it is one of segments.
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
        // The recovery that just ended may have repaired the head already, as data it had sent itself was
        // lost. That repair has not been answered: it is not repeated (RFC 6675 §4, NextSeg rule 1), and its
        // answer, older than any repair of this recovery, says nothing against this reduction.
        let repaired = board.head_is_repaired();
        self.doubt = (!repaired).then(|| Doubt::new(board.una()));
        // RFC 6675 §5 step 4.3: the first segment goes at once, lost by the rules or not.
        if !self.by_time && !repaired {
            board.lose_head();
        }
        self.urgent = board.has_missing();
    }

    /// The retransmission timer ran out.
    /// The caller has marked what is lost where losses are found by time.
    pub(crate) fn enter_timeout(&mut self, board: &mut Scoreboard) {
        // A second timeout says nothing new about whether the first was needless.
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

    /// The cumulative acknowledgement moved over `acked` bytes. Call after the
    /// scoreboard knows. True when the first partial acknowledgement of this
    /// recovery, or none, was it: the retransmission timer may start anew.
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
            // RFC 5681 §3.2 step 6: any new acknowledgement ends it.
            (Phase::Fast, RecoveryKind::Reno) => {
                self.leave();
                true
            }
            (Phase::Fast, _) if over => {
                self.leave();
                true
            }
            // RFC 6582 §3.2 step 5: a partial acknowledgement shows the next loss.
            (Phase::Fast, RecoveryKind::NewReno) => {
                board.lose_head();
                self.urgent = true;
                self.inflation -= acked as i64;
                if acked >= mss {
                    self.inflation += mss as i64;
                }
                // The impatient variant: only the first partial one restarts the timer.
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

    /// An acknowledgement told of `bytes` more that the receiver has.
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

    /// New data was sent.
    #[inline]
    pub(crate) fn on_sent(&mut self, bytes: u64) {
        self.count_sent(bytes);
        if self.phase == Phase::Open && self.dup_acks > 0 {
            self.limited_bytes += bytes;
        }
    }

    /// Something was retransmitted, with this timestamp if the option is in use.
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

    /// RFC 6675 §4, NextSeg rule 4: one rescue for each entry, when nothing else may go.
    /// Only what was out before the recovery began is rescued: the rule means
    /// the end of a lost window, not new data that has just left.
    pub(crate) fn may_rescue(&self, una: u64, end: u64) -> bool {
        self.phase == Phase::Fast
            && self.by_sack()
            && self.rescue.is_none_or(|rescue| una > rescue)
            && self.point.is_some_and(|point| end <= point)
    }

    /// The rescue was sent.
    pub(crate) fn on_rescued(&mut self) {
        self.rescue = self.point;
    }

    /// RFC 3522 §3.2: the first acknowledgement of new data after the first
    /// retransmission echoes an older timestamp: it answers the original.
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

    /// RFC 3708 §2: DSACK has now reported every retransmission of the last repair.
    pub(crate) fn is_disproved_by_dsack(&mut self, start: u64) -> bool {
        let Some(doubt) = self.doubt.as_mut().filter(|doubt| start >= doubt.since) else { return false };
        doubt.unexplained = doubt.unexplained.saturating_sub(1);
        doubt.sent > 0 && doubt.unexplained == 0
    }

    /// The loss was none: everything as before (the controller has been told).
    pub(crate) fn forgive(&mut self, board: &mut Scoreboard) {
        self.doubt = None;
        if self.phase != Phase::Open {
            self.leave();
            board.forgive();
        }
    }
}
