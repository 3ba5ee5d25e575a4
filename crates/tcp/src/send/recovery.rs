//! Decides when a loss is recognized, how long its recovery lasts, and whether it was spurious.
//!
//! Owns the phase of loss recovery and the count of duplicate acknowledgements. The peer's window and segment sizes
//! belong to other modules. If the module `rack` detects losses by time (RFC 8985), this module does not count
//! duplicates to mark segments as lost.
//!
//! Implements RFC 5681 §3.2, RFC 6582 §3.2, RFC 6675 §5, RFC 3042 §2, RFC 3522 (Eifel detection) and RFC 3708 §2
//! (detection by DSACK).

use super::scoreboard::Scoreboard;
use crate::config::{Config, RecoveryKind};
use anabranch_congestion::{Prr, RateHalving};

/// The phase of loss recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// No loss is known.
    Open,
    /// Fast recovery: losses were detected from acknowledgements, and the lost segments are being retransmitted.
    Fast,
    /// The retransmission timer has expired, and outstanding data is being retransmitted.
    Timeout,
}

/// The state for detecting that the last window reduction was spurious.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UndoState {
    /// The position of the oldest outstanding byte when the recovery began. DSACK reports of older data are ignored.
    since: u64,
    /// The timestamp of the first retransmission, once that was sent.
    first_timestamp: Option<u32>,
    /// The number of retransmissions that DSACK has not yet reported as unnecessary.
    unexplained: u32,
    /// The number of retransmissions in this recovery.
    sent: u32,
    /// Whether new data has been acknowledged since the recovery began. If true, timestamps can no longer show that the
    /// reduction was spurious.
    settled: bool,
}

impl UndoState {
    fn new(since: u64) -> Self {
        Self { since, first_timestamp: None, unexplained: 0, sent: 0, settled: false }
    }
}

#[derive(Debug)]
pub(crate) struct Recovery {
    kind: RecoveryKind,
    /// Whether losses are detected by time (RFC 8985), and not by counting duplicate acknowledgements.
    by_time: bool,
    careful: bool,
    dupthresh: u32,
    limited_transmit: bool,
    reduces_in_proportion: bool,
    /// Whether losses are detected by forward acknowledgement.
    by_fack: bool,
    /// Whether rate halving lowers the window during a recovery, and the state of rate halving in the current recovery.
    halves_rate: bool,
    halving: Option<RateHalving>,
    /// The state of proportional rate reduction, during a recovery that uses it.
    prr: Option<Prr>,
    phase: Phase,
    /// RFC 6582 "recover", RFC 6675 "RecoveryPoint": the position after the last byte sent when the recovery began.
    point: Option<u64>,
    /// Whether the last recovery followed a timeout.
    after_timeout: bool,
    dup_acks: u32,
    /// The number of bytes that fast recovery adds to the window for segments that have left the network. It can become
    /// negative with NewReno.
    inflation: i64,
    /// Whether the next retransmission is sent regardless of the congestion window and the peer's window.
    urgent: bool,
    /// RFC 6675 §4, RescueRxt: the recovery point of the recovery in which the last rescue retransmission was sent.
    rescue: Option<u64>,
    /// RFC 3042: the number of bytes that limited transmit sent beyond the window. These bytes must not increase
    /// ssthresh.
    limited_bytes: u64,
    undo_state: Option<UndoState>,
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
            by_fack: config.fack && kind == RecoveryKind::Sack && !config.rack,
            halves_rate: config.rate_halving && kind == RecoveryKind::Sack && !config.prr,
            halving: None,
            prr: None,
            phase: Phase::Open,
            point: None,
            after_timeout: false,
            dup_acks: 0,
            inflation: 0,
            urgent: false,
            rescue: None,
            limited_bytes: 0,
            undo_state: None,
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

    /// Returns whether fast recovery is repairing a loss in the outstanding data. For such a loss, the window has
    /// already been reduced.
    pub(crate) fn is_repairing(&self, board: &Scoreboard) -> bool {
        self.phase == Phase::Fast && self.point.is_some_and(|point| board.una() < point)
    }

    /// Returns the FlightSize in bytes from which ssthresh is computed after a loss (RFC 5681 §3.1).
    pub(crate) fn flight(&self, board: &Scoreboard) -> u64 {
        // RFC 5681 §3.2 step 2: data sent by limited transmit is not part of the flight size in this computation.
        board.flight().saturating_sub(self.limited_bytes)
    }

    /// Returns how many bytes may be sent with a congestion window of `cwnd` bytes. The number is negative if too much
    /// data is outstanding.
    #[inline]
    pub(crate) fn room(&self, cwnd: u64, mss: u64, board: &Scoreboard) -> i64 {
        let (cwnd, flight) = (cwnd as i64, board.flight() as i64);
        if let (Phase::Fast, Some(prr)) = (self.phase, &self.prr) {
            return prr.room(board.pipe());
        }
        if let (Phase::Fast, Some(halving)) = (self.phase, &self.halving) {
            return halving.window() as i64 - board.pipe() as i64;
        }
        match (self.phase, self.by_sack()) {
            // RFC 5681 §3.2 step 4: each duplicate means that a segment has left the network. `inflation` counts the
            // bytes of these segments.
            (Phase::Fast, false) => cwnd + self.inflation - flight,
            // RFC 6675 §5: the pipe is compared with the window. Before fast recovery, comparing the pipe with the
            // window has the same effect as limited transmit.
            (Phase::Fast | Phase::Timeout, _) => cwnd - board.pipe() as i64,
            (Phase::Open, true) if self.limited_transmit => cwnd - board.pipe() as i64,
            // RFC 3042 §2: each of the first two duplicates allows one segment of new data.
            (Phase::Open, false) if self.limited_transmit => {
                cwnd + i64::from(self.dup_acks.min(2)) * mss as i64 - flight
            }
            (Phase::Open, _) => cwnd - flight,
        }
    }

    /// Processes a duplicate acknowledgement. With SACK, this is an acknowledgement that reports newly SACKed data.
    /// Returns true if fast recovery must begin.
    pub(crate) fn on_duplicate(&mut self, mss: u64, board: &mut Scoreboard) -> bool {
        if self.by_sack() {
            self.find_lost(mss, board);
        }
        match self.phase {
            Phase::Open => {
                self.dup_acks += 1;
                // RFC 6675 §5 steps 1 and 2: enough duplicates have arrived, or SACK shows that the oldest segment is
                // lost.
                let counted = if self.by_fack {
                    board.fack_count() > self.dupthresh as usize
                } else {
                    self.dup_acks >= self.dupthresh
                };
                let enough = !self.by_time && (counted || self.finds_head_lost(board));
                enough && self.may_enter(board.una())
            }
            Phase::Fast => {
                self.inflation += mss as i64;
                if self.by_fack {
                    board.lose_untouched_head();
                }
                false
            }
            Phase::Timeout => false,
        }
    }

    fn find_lost(&self, mss: u64, board: &mut Scoreboard) {
        if self.by_fack {
            if self.phase == Phase::Fast {
                board.find_lost_by_fack(self.dupthresh, self.point.unwrap_or(u64::MAX));
            }
        } else if !self.by_time {
            board.find_lost(self.dupthresh, mss);
        }
    }

    /// Returns whether losses are detected by forward acknowledgement.
    pub(crate) fn by_fack(&self) -> bool {
        self.by_fack
    }

    /// Returns the window that rate halving has reached, during a recovery that uses it.
    pub(crate) fn halved_window(&self) -> Option<u64> {
        self.halving.filter(|_| self.phase == Phase::Fast).map(|halving| halving.window())
    }

    /// Returns whether losses are detected by time.
    #[inline]
    pub(crate) fn by_time(&self) -> bool {
        self.by_time
    }

    /// Returns whether more bytes were SACKed than `dupthresh - 1` full segments hold.
    pub(crate) fn counts_loss(&self, mss: u64, board: &Scoreboard) -> bool {
        board.sacked() > u64::from(self.dupthresh.saturating_sub(1)) * mss
    }

    /// Makes the next retransmission independent of the windows. Needed if the reordering timer detects the loss: there
    /// may be no acknowledgement that would allow the retransmission.
    pub(crate) fn make_urgent(&mut self) {
        self.urgent = true;
    }

    /// Records that a tail loss probe retransmitted `bytes` bytes.
    pub(crate) fn on_probed(&mut self, bytes: u64) {
        self.count_sent(bytes);
    }

    /// Returns whether SACK shows that the oldest segment is lost (RFC 6675 §5 step 2).
    pub(crate) fn finds_head_lost(&self, board: &Scoreboard) -> bool {
        self.by_sack() && board.head_is_lost()
    }

    /// RFC 6582 §3.2 step 2: returns whether duplicate acknowledgements may begin a recovery. Duplicates that the
    /// retransmissions of the last recovery caused must not begin a recovery.
    fn may_enter(&self, una: u64) -> bool {
        match (self.point, self.kind) {
            (None, _) | (_, RecoveryKind::Sack) => true,
            // RFC 5681 does not compare `una` with the recovery point, so plain Reno may begin a new recovery for every
            // gap. After a timeout, Reno compares the two positions, as later versions of ns-2 and BSD do.
            (_, RecoveryKind::Reno) if !self.after_timeout => true,
            (Some(point), _) if self.careful => una > point,
            // RFC 2582 §5: the less careful variant also begins a recovery if the duplicates acknowledge exactly the
            // recovery point.
            (Some(point), _) => una >= point,
        }
    }

    /// Begins fast recovery, after the controller has reduced the congestion window. If the congestion window is
    /// counted in segments, `window` is its size in bytes before that reduction. Otherwise `window` is `None`.
    pub(crate) fn enter_fast(&mut self, mss: u64, window: Option<u64>, board: &mut Scoreboard) {
        self.phase = Phase::Fast;
        self.point = Some(board.next());
        self.after_timeout = false;
        self.rescue = None;
        self.limited_bytes = 0;
        // RFC 5681 §3.2 step 3: the window is inflated by one segment for each duplicate acknowledgement.
        self.inflation = i64::from(self.dupthresh) * mss as i64;
        self.halving = window.filter(|_| self.halves_rate).map(RateHalving::new);
        self.prr =
            self.reduces_in_proportion.then(|| window.map_or_else(|| Prr::new(board.flight()), Prr::linux));
        // The previous recovery may already have retransmitted the oldest segment. That segment is not retransmitted
        // again (RFC 6675 §4, NextSeg rule 1). Its acknowledgement will echo a timestamp from before the new recovery,
        // which would make the new reduction look spurious. So no undo state is kept in this case.
        let retransmitted = board.head_is_retransmitted();
        self.undo_state = (!retransmitted).then(|| UndoState::new(board.una()));
        // RFC 6675 §5 step 4.3: the oldest segment is retransmitted immediately, even if IsLost does not hold for it.
        if !self.by_time && !retransmitted {
            board.mark_head_lost();
        }
        if self.by_fack {
            self.find_lost(mss, board);
        }
        self.urgent = board.has_missing();
    }

    /// Begins the recovery after the retransmission timer has expired. If losses are detected by time, the caller has
    /// already marked the lost segments.
    pub(crate) fn enter_timeout(&mut self, board: &mut Scoreboard) {
        // A second timeout in a row keeps the undo state of the first timeout, because the first timeout may still
        // prove spurious.
        if self.phase != Phase::Timeout || self.undo_state.is_none() {
            self.undo_state = Some(UndoState::new(board.una()));
        }
        self.phase = Phase::Timeout;
        self.point = Some(board.next());
        self.after_timeout = true;
        self.dup_acks = 0;
        self.inflation = 0;
        self.limited_bytes = 0;
        self.urgent = true;
        self.halving = None;
        if !self.by_time {
            board.lose_all();
        }
    }

    /// Processes an advance of the cumulative acknowledgement by `acked` bytes. Must be called after the scoreboard was
    /// updated. Returns whether the retransmission timer may restart. With NewReno's impatient variant, only the first
    /// partial acknowledgement of a recovery restarts the timer.
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
            // RFC 5681 §3.2 step 6: any acknowledgement of new data ends the recovery.
            (Phase::Fast, RecoveryKind::Reno) => {
                self.leave();
                true
            }
            (Phase::Fast, _) if over => {
                self.leave();
                true
            }
            // RFC 6582 §3.2 step 5: a partial acknowledgement shows that the first segment after it is also lost.
            (Phase::Fast, RecoveryKind::NewReno) => {
                board.mark_head_lost();
                self.urgent = true;
                self.inflation -= acked as i64;
                if acked >= mss {
                    self.inflation += mss as i64;
                }
                // RFC 6582 §4, impatient variant: only the first partial acknowledgement restarts the timer.
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

    /// Passes `bytes` newly delivered bytes to proportional rate reduction, if it is in use.
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
        if let (Phase::Fast, Some(halving)) = (self.phase, &mut self.halving) {
            halving.on_ack(ssthresh, board.pipe(), mss);
        }
    }

    fn leave(&mut self) {
        self.phase = Phase::Open;
        self.dup_acks = 0;
        self.inflation = 0;
        self.urgent = false;
        self.rescue = None;
    }

    /// Records that `bytes` bytes of new data were sent.
    #[inline]
    pub(crate) fn on_sent(&mut self, bytes: u64) {
        self.count_sent(bytes);
        if self.phase == Phase::Open && self.dup_acks > 0 {
            self.limited_bytes += bytes;
        }
    }

    /// Records that `bytes` bytes were retransmitted. `timestamp` is the timestamp of the segment, if timestamps are in
    /// use.
    pub(crate) fn on_retransmitted(&mut self, timestamp: Option<u32>, bytes: u64) {
        self.count_sent(bytes);
        self.urgent = false;
        if let Some(undo) = &mut self.undo_state {
            undo.unexplained += 1;
            undo.sent += 1;
            undo.first_timestamp = undo.first_timestamp.or(timestamp);
        }
    }

    /// Corrects the counts for `bytes` bytes of new data that this host refused to send.
    pub(crate) fn take_back_new(&mut self, bytes: u64) {
        self.limited_bytes = self.limited_bytes.saturating_sub(bytes);
        if let (Phase::Fast, Some(prr)) = (self.phase, &mut self.prr) {
            prr.on_unsent(bytes);
        }
    }

    /// Corrects the counts for a retransmission of `bytes` bytes that this host refused to send. The next event may
    /// send these bytes regardless of the windows, as at the beginning of the recovery.
    pub(crate) fn take_back_retransmission(&mut self, bytes: u64) {
        self.urgent = self.phase != Phase::Open;
        if let (Phase::Fast, Some(prr)) = (self.phase, &mut self.prr) {
            prr.on_unsent(bytes);
        }
        if let Some(undo) = &mut self.undo_state {
            undo.unexplained = undo.unexplained.saturating_sub(1);
            undo.sent = undo.sent.saturating_sub(1);
            if undo.sent == 0 {
                undo.first_timestamp = None;
            }
        }
    }

    fn count_sent(&mut self, bytes: u64) {
        if let (Phase::Fast, Some(prr)) = (self.phase, &mut self.prr) {
            prr.on_sent(bytes);
        }
    }

    /// RFC 6675 §4, NextSeg rule 4: returns whether a rescue retransmission that ends at the position `end` may be
    /// sent. Each recovery may have one rescue retransmission, sent when nothing else may be sent. Only data that was
    /// outstanding when the recovery began is rescued, because the rule is for the end of a lost window.
    pub(crate) fn may_rescue(&self, una: u64, end: u64) -> bool {
        self.phase == Phase::Fast
            && self.by_sack()
            && !self.by_fack
            && self.rescue.is_none_or(|rescue| una > rescue)
            && self.point.is_some_and(|point| end <= point)
    }

    /// Records that the rescue retransmission of this recovery was sent.
    pub(crate) fn on_rescued(&mut self) {
        self.rescue = self.point;
    }

    /// RFC 3522 §3.2: returns whether the echoed timestamp shows that the recovery was spurious. Only the first
    /// acknowledgement of new data can show this. If that acknowledgement echoes a timestamp older than the first
    /// retransmission, it answers the original segment.
    pub(crate) fn is_disproved_by_echo(&mut self, echo: Option<u32>) -> bool {
        let Some(undo) = &mut self.undo_state else { return false };
        if undo.settled || undo.sent == 0 || self.phase == Phase::Open {
            return false;
        }
        undo.settled = true;
        match (undo.first_timestamp, echo) {
            (Some(timestamp), Some(echo)) => (echo.wrapping_sub(timestamp) as i32) < 0,
            _ => false,
        }
    }

    /// RFC 3708 §2: returns whether DSACK has now reported every retransmission of the last recovery as unnecessary.
    /// `start` is the start of the reported block.
    pub(crate) fn is_disproved_by_dsack(&mut self, start: u64) -> bool {
        let Some(undo) = self.undo_state.as_mut().filter(|undo| start >= undo.since) else { return false };
        undo.unexplained = undo.unexplained.saturating_sub(1);
        undo.sent > 0 && undo.unexplained == 0
    }

    /// Ends a recovery that was spurious and clears the marks that it left on the scoreboard. The controller has
    /// already restored the window.
    pub(crate) fn undo_recovery(&mut self, board: &mut Scoreboard) {
        self.undo_state = None;
        if self.phase != Phase::Open {
            self.leave();
            board.forgive();
        }
    }
}
