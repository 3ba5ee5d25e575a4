//! Everything from the application's bytes to acknowledged bytes.
//!
//! Owns the send buffer, the scoreboard, the congestion and the peer's window,
//! and the choice of what to send next; builds no segments. Positions count
//! from 0 at the first byte after the SYN and never wrap; the FIN takes the
//! position after the last byte.
//!
//! Home of RFC 9293 §3.8.6.2.1 (SWS avoidance of the sender), §3.7.4 (Nagle),
//! §3.8.6.1 (probing a closed window), RFC 6298 §3 (which round trips count).

mod buffer;
mod rack;
mod recovery;
mod scoreboard;

pub(crate) use buffer::SendBuffer;
pub(crate) use rack::LossTimer;
pub(crate) use recovery::{Phase, Recovery};
pub(crate) use scoreboard::Scoreboard;

use crate::config::{Config, Nagle, RecoveryKind, RttSampling};
use crate::stats::Stats;
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_base::trace::{Limit, SendCause};
use anabranch_congestion::{
    Acked, Algorithm, Controller, HyStart, InitialWindow, Pacer, Params, RttEstimator, SlowStart,
};
use rack::ByTime;
use std::ops::Range;

/// What an acknowledgement says, in positions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ack<'a> {
    /// Next position the peer expects.
    pub(crate) position: u64,
    /// SACK blocks, in the order of the option.
    pub(crate) sacks: &'a [(u64, u64)],
    /// Where a block before those begins that reports a duplicate (RFC 2883).
    pub(crate) duplicate: Option<u64>,
    /// Without data, SYN or FIN, and with the window as before (RFC 5681 §2).
    pub(crate) could_be_duplicate: bool,
    /// Echo of our timestamp, and how many nanoseconds ago that was.
    pub(crate) echo: Option<(u32, u64)>,
    /// ECN echo.
    pub(crate) ece: bool,
}

/// What came of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct AckOutcome {
    /// The cumulative acknowledgement moved.
    pub(crate) progress: bool,
    /// The retransmission timer starts anew (or stops, when nothing is out).
    pub(crate) restart_timer: bool,
    /// Our FIN is acknowledged.
    pub(crate) fin_acked: bool,
    /// The application waits for room in the buffer, and there is some.
    pub(crate) writable: bool,
    /// The last reduction was needless.
    pub(crate) spurious: bool,
}

/// What to put into the next segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Choice {
    /// Positions, the FIN's included.
    pub(crate) range: Range<u64>,
    pub(crate) cause: SendCause,
    /// RFC 6675 NextSeg rule 4.
    rescue: bool,
    /// RFC 8985 §7.3: a probe of the tail, whatever the congestion window says.
    probe: bool,
}

#[derive(Debug)]
pub(crate) struct SendHalf {
    pub(crate) buffer: SendBuffer,
    pub(crate) board: Scoreboard,
    pub(crate) recovery: Recovery,
    pub(crate) controller: Algorithm,
    pub(crate) rtt: RttEstimator,
    /// The application will write no more.
    pub(crate) finished: bool,
    /// Largest payload of a segment.
    mss: u64,
    /// Position up to which the peer's window reaches.
    edge: u64,
    /// Farthest it ever reached: a peer may take window back, though it should not.
    farthest_edge: u64,
    /// Largest window the peer has offered.
    largest_window: u64,
    nagle: Nagle,
    /// The end of the last small segment sent.
    small_until: u64,
    sampling: RttSampling,
    /// The segment being timed, when one is at a time: its end and when it was sent.
    timed: Option<(u64, Instant)>,
    /// Positions before this were sent while the congestion window was full.
    limited_until: u64,
    /// A probe of the closed window carried the byte before this position.
    probed_until: u64,
    /// ECE counts once the acknowledgement passes this (RFC 3168 §6.1.2).
    ecn_point: Option<u64>,
    /// A mark has reduced the window; losses before this position are of the same window.
    cwr_until: u64,
    /// New data carries CWR.
    pub(crate) cwr_due: bool,
    last_sent: Option<Instant>,
    /// Segments that the path no longer takes are being sent again in pieces.
    too_big: bool,
    /// Reductions are undone when they turn out needless.
    undoes: bool,
    /// The send buffer follows the window.
    grows_buffer: bool,
    /// Losses are found by time.
    by_time: Option<Box<ByTime>>,
    /// Watches slow start.
    hystart: Option<HyStart>,
    /// Spreads segments.
    pacer: Option<Pacer>,
    max_burst: Option<u32>,
    /// Segments that may still go in answer to this event.
    burst_left: u32,
    /// Why `choose` found nothing.
    pub(crate) limit: Limit,
}

impl SendHalf {
    pub(crate) fn new(config: &Config, mss: u64) -> Self {
        let mut half = Self {
            buffer: SendBuffer::new(
                if config.sndbuf_auto { FIRST_BUFFER } else { config.sndbuf },
                config.sndbuf,
            ),
            board: Scoreboard::default(),
            recovery: Recovery::new(RecoveryKind::NewReno, config),
            controller: Algorithm::new(config.controller(), Params::new(mss, config.iw)),
            rtt: RttEstimator::new(config.rtt()),
            finished: false,
            mss,
            edge: 0,
            farthest_edge: 0,
            largest_window: 0,
            nagle: config.nagle,
            small_until: 0,
            sampling: config.rtt_sample,
            timed: None,
            limited_until: 0,
            probed_until: 0,
            ecn_point: None,
            cwr_until: 0,
            cwr_due: false,
            last_sent: None,
            too_big: false,
            undoes: config.undo,
            grows_buffer: config.sndbuf_auto,
            by_time: None,
            hystart: None,
            pacer: None,
            max_burst: config.max_burst,
            burst_left: config.max_burst.unwrap_or(u32::MAX),
            limit: Limit::Application,
        };
        half.begin(config, mss, false, false);
        half
    }

    /// The handshake has settled the segment size and SACK. `syn_lost`: the
    /// SYN or its answer was lost, as far as the rules of the initial window care.
    pub(crate) fn begin(&mut self, config: &Config, mss: u64, sack: bool, syn_lost: bool) {
        self.mss = mss;
        let window = if syn_lost { InitialWindow::Packets(1) } else { config.iw };
        self.controller = Algorithm::new(config.controller(), Params::new(mss, window));
        if self.grows_buffer {
            // As Linux sizes it: twice the window, no less than twice the usual first one.
            self.buffer.grow_to(2 * self.controller.window().max(10 * mss));
        }
        let kind = match config.recovery {
            RecoveryKind::Sack if !sack => RecoveryKind::NewReno,
            kind => kind,
        };
        self.recovery = Recovery::new(kind, config);
        self.by_time = self.recovery.by_time().then(|| Box::new(ByTime::new(config.tlp)));
        self.hystart = config.hystart.then(HyStart::default);
        self.pacer = config.pacing.then(Pacer::default);
        if self.by_time.is_some() || self.hystart.is_some() {
            self.board.note_deliveries();
        }
    }

    pub(crate) fn mss(&self) -> u64 {
        self.mss
    }

    /// The peer's window, from the cumulative acknowledgement on.
    pub(crate) fn peer_window(&self) -> u64 {
        self.edge.saturating_sub(self.board.una())
    }

    /// The highest acknowledgement that makes sense.
    #[inline]
    pub(crate) fn highest_sent(&self) -> u64 {
        self.board.next().max(self.probed_until)
    }

    /// The peer's window is `window` bytes from `position` on.
    #[inline]
    pub(crate) fn set_window(&mut self, position: u64, window: u64) {
        self.edge = position + window;
        self.farthest_edge = self.farthest_edge.max(self.edge);
        self.largest_window = self.largest_window.max(window);
    }

    /// Positions of data and FIN not sent yet.
    #[inline]
    fn end(&self) -> u64 {
        self.buffer.end() + u64::from(self.finished)
    }

    /// Something has never been sent.
    #[inline]
    pub(crate) fn has_unsent(&self) -> bool {
        self.board.next() < self.end()
    }

    /// Our FIN has been sent and acknowledged.
    pub(crate) fn fin_acked(&self) -> bool {
        self.finished && self.board.una() > self.buffer.end()
    }

    /// Every byte written has been acknowledged.
    pub(crate) fn all_data_acked(&self) -> bool {
        self.board.una() >= self.buffer.end()
    }

    /// Payload and FIN of a range of positions.
    pub(crate) fn parts(&self, range: &Range<u64>) -> (Range<u64>, bool) {
        let end = self.buffer.end();
        (range.start.min(end)..range.end.min(end), self.finished && range.end > end)
    }

    /// A new event begins: the burst limit starts afresh.
    #[inline]
    pub(crate) fn begin_burst(&mut self) {
        if let Some(limit) = self.max_burst {
            self.burst_left = limit;
        }
    }

    /// Data that acknowledges just this position, with no SACK block and no ECN echo, tells
    /// the sending half nothing ([`on_ack`](Self::on_ack) would find nothing to do).
    #[inline]
    pub(crate) fn knows(&self, position: u64) -> bool {
        position == self.board.una() && self.recovery.phase() == Phase::Open
    }

    /// An acceptable acknowledgement arrived.
    #[inline]
    pub(crate) fn on_ack(&mut self, now: Instant, ack: &Ack<'_>, stats: &mut Stats) -> AckOutcome {
        let plain = ack.sacks.is_empty() && ack.duplicate.is_none() && !ack.ece;
        let calm = self.by_time.as_ref().is_none_or(|by_time| by_time.is_calm());
        if plain && calm && self.recovery.phase() == Phase::Open && ack.position > self.board.una() {
            // Nothing is amiss, and it moves on: of all that follows only this has something to do.
            let mut outcome = AckOutcome::default();
            self.on_new_ack(now, ack, self.board.flight(), stats, &mut outcome);
            self.on_progress_by_time(now);
            return outcome;
        }
        self.on_any_ack(now, ack, stats)
    }

    #[inline(never)]
    fn on_any_ack(&mut self, now: Instant, ack: &Ack<'_>, stats: &mut Stats) -> AckOutcome {
        let mut outcome = AckOutcome::default();
        let flight_before = self.board.flight();
        let (delivered_before, edge_before) = (self.board.delivered(), self.board.lost_edge());
        let newly_sacked = if self.recovery.by_sack() {
            ack.sacks.iter().map(|&(start, end)| self.board.sack(start, end)).sum()
        } else {
            0
        };
        if ack.ece {
            self.on_ecn_echo(now, ack.position, stats);
        }
        let progress = ack.position > self.board.una();
        let repairing = self.recovery.phase() != Phase::Open;
        if progress {
            self.on_new_ack(now, ack, flight_before, stats, &mut outcome);
        }
        // RFC 6675 §2: with SACK, what reports something new is a duplicate, even if it moves on as well.
        let duplicate = if self.recovery.by_sack() {
            newly_sacked > 0
        } else {
            !progress && flight_before > 0 && ack.could_be_duplicate
        };
        stats.dup_acks += u64::from(duplicate);
        // What SACK already betrayed beyond the recovery that just ended needs no further duplicates.
        let known =
            repairing && self.recovery.phase() == Phase::Open && self.recovery.finds_head_lost(&self.board);
        if (duplicate && self.recovery.on_duplicate(self.mss, &mut self.board)) || known {
            self.begin_recovery(now, stats);
            outcome.restart_timer = true;
        }
        self.on_delivery_by_time(now, ack, repairing, stats, &mut outcome);
        let (delivered, edge) = (self.board.delivered() - delivered_before, self.board.lost_edge());
        let safe = progress && edge <= edge_before.max(self.board.una());
        self.recovery.on_delivered(delivered, safe, self.controller.ssthresh(), self.mss, &self.board);
        if let Some(start) = ack.duplicate
            && self.recovery.is_disproved_by_dsack(start)
        {
            self.undo(now, stats, &mut outcome);
        }
        outcome
    }

    /// RFC 5681 §3.2 step 2, RFC 6675 §5 step 4.
    fn begin_recovery(&mut self, now: Instant, stats: &mut Stats) {
        stats.fast_recoveries += 1;
        self.forget_probe();
        // RFC 3168 §6.1.2: one reduction for the marks and losses of one window.
        if self.board.una() >= self.cwr_until {
            self.reduce(now);
        }
        self.recovery.enter_fast(self.mss, &mut self.board);
        // RFC 3168 §6.1.2: whatever the reason of a reduction, CWR tells of it, and
        // marks of the same window ask for no other.
        self.ecn_point = Some(self.board.next());
        self.cwr_due = true;
    }

    /// A loss counts: the window shrinks.
    fn reduce(&mut self, now: Instant) {
        let flight = self.recovery.flight(&self.board);
        self.controller.on_loss(now, flight, false);
        self.end_hystart();
    }

    fn end_hystart(&mut self) {
        if let Some(hystart) = &mut self.hystart {
            hystart.end();
        }
    }

    /// RFC 9406 §4.2: how slow start goes on after an acknowledgement of new data.
    fn watch_slow_start(&mut self, now: Instant) -> bool {
        let Some(hystart) = &mut self.hystart else { return false };
        if hystart.is_over() || self.controller.window() >= self.controller.ssthresh() {
            return false;
        }
        let rtt = self.board.fresh().sample(now);
        match hystart.on_ack(self.board.una(), self.board.next(), rtt) {
            SlowStart::Full => false,
            SlowStart::Conservative => true,
            SlowStart::Leave => {
                self.controller.leave_slow_start();
                true
            }
        }
    }

    fn on_new_ack(
        &mut self,
        now: Instant,
        ack: &Ack<'_>,
        flight_before: u64,
        stats: &mut Stats,
        outcome: &mut AckOutcome,
    ) {
        let una_before = self.board.una();
        let freed = self.board.acknowledge(ack.position);
        let data_end = self.buffer.end();
        outcome.progress = true;
        outcome.writable = self.buffer.release(ack.position.min(data_end));
        outcome.fin_acked = self.fin_acked();
        stats.bytes_acked += ack.position.min(data_end) - una_before.min(data_end);
        self.sample_rtt(now, ack, freed.sample, freed.ambiguous);
        if self.recovery.is_disproved_by_echo(ack.echo.map(|(echo, _)| echo)) {
            self.undo(now, stats, outcome);
        }
        let phase = self.recovery.phase();
        let conservative = self.hystart.is_some() && self.watch_slow_start(now);
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
        if self.grows_buffer {
            self.buffer.grow_to(2 * self.controller.window());
        }
        outcome.restart_timer = self.recovery.on_progress(freed.bytes, self.mss, &mut self.board);
    }

    /// RFC 6298 §3, RFC 7323 §4.1: one round trip, unless it cannot be told which copy was answered.
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
        // Timestamps tell the copies apart; their clock is coarse, so they only serve where ours cannot.
        let echoed = ack.echo.filter(|_| ambiguous).map(|(_, ago)| Duration::from_nanos(ago));
        if let Some(rtt) = measured.or(echoed) {
            self.rtt.on_sample(rtt);
        }
    }

    fn on_ecn_echo(&mut self, now: Instant, position: u64, stats: &mut Stats) {
        // RFC 3168 §6.1.2: at most one reduction a window of data, and none on top of a loss's.
        let counted = self.ecn_point.is_some_and(|point| position <= point);
        if counted || self.recovery.phase() != Phase::Open || self.board.flight() == 0 {
            return;
        }
        self.ecn_point = Some(self.board.next());
        self.cwr_until = self.board.next();
        self.cwr_due = true;
        stats.ecn_reductions += 1;
        self.controller.on_loss(now, self.board.flight(), true);
        self.end_hystart();
    }

    fn undo(&mut self, now: Instant, stats: &mut Stats, outcome: &mut AckOutcome) {
        stats.spurious += 1;
        outcome.spurious = true;
        if !self.undoes {
            return;
        }
        self.controller.on_spurious(now);
        self.recovery.forgive(&mut self.board);
    }

    /// The retransmission timer ran out.
    pub(crate) fn on_timeout(&mut self, now: Instant) {
        // RFC 5681 §3.1 allows no more than half of what is out. In a recovery that counts much that
        // has arrived or is lost, and the window says better what the path was thought to hold.
        let flight = self.recovery.flight(&self.board).min(self.controller.window());
        self.controller.on_timeout(now, flight);
        self.end_hystart();
        self.on_timeout_by_time(now);
        self.recovery.enter_timeout(&mut self.board);
        // RFC 6298 §5.5.
        self.rtt.back_off();
        self.timed = None;
        // RFC 3168 §6.1.2.
        self.ecn_point = Some(self.board.next());
        self.cwr_due = true;
    }

    /// RFC 5961 §5.2: the oldest acknowledgement that an honest peer may still send.
    pub(crate) fn lowest_plausible(&self) -> i64 {
        self.board.una() as i64 - self.largest_window.max(1) as i64
    }

    /// The path takes smaller packets now: what was larger goes again in pieces.
    pub(crate) fn set_mss(&mut self, mss: u64) {
        if mss >= self.mss {
            return;
        }
        self.mss = mss;
        self.controller.set_mss(mss);
        // RFC 1191 §6.5: no congestion, so the window stays as it is and no recovery begins.
        self.board.lose_larger_than(mss);
        self.too_big = self.board.flight() > 0;
    }

    /// What to send next, or why nothing.
    pub(crate) fn choose(&mut self) -> Option<Choice> {
        if self.burst_left == 0 && self.board.flight() > 0 {
            self.limit = Limit::Pacing;
            return None;
        }
        if self.by_time.as_ref().is_some_and(|by_time| by_time.probe_due) {
            return self.choose_probe();
        }
        let phase = self.recovery.phase();
        let room = self.recovery.room(self.controller.window(), self.mss, &self.board);
        let cause = if phase == Phase::Timeout { SendCause::Timeout } else { SendCause::Fast };
        if let Some(range) = self.board.next_lost(self.mss)
            && (phase != Phase::Open || self.too_big)
        {
            let fits = room >= (range.end - range.start) as i64 || self.board.pipe() == 0;
            if fits || self.recovery.is_urgent() {
                return Some(Choice { range, cause, rescue: false, probe: false });
            }
            self.limit = if phase == Phase::Timeout { Limit::Timeout } else { Limit::Recovery };
            return None;
        }
        self.too_big = false;
        let new = self.choose_new(room);
        if new.is_some() || phase != Phase::Fast || !self.recovery.by_sack() || self.by_time.is_some() {
            return new;
        }
        self.choose_unconfirmed(room)
    }

    /// RFC 6675 §4, NextSeg rules 3 and 4.
    fn choose_unconfirmed(&mut self, room: i64) -> Option<Choice> {
        if room <= 0 {
            return None;
        }
        let cause = SendCause::Fast;
        if let Some(range) = self.board.next_unsacked(self.mss) {
            return (room >= (range.end - range.start) as i64).then_some(Choice {
                range,
                cause,
                rescue: false,
                probe: false,
            });
        }
        let range = self.board.last_unsacked(self.mss)?;
        if !self.recovery.may_rescue(self.board.una(), range.end) {
            return None;
        }
        (room >= (range.end - range.start) as i64).then_some(Choice {
            range,
            cause,
            rescue: true,
            probe: false,
        })
    }

    /// RFC 8985 §7.3: new data if there is some and the peer takes it, else the last segment again.
    fn choose_probe(&mut self) -> Option<Choice> {
        let room = self.mss as i64;
        if let Some(new) = self.choose_new(room) {
            return Some(Choice { probe: true, ..new });
        }
        let range = self.board.last_unsacked(self.mss);
        if range.is_none() {
            // It is on its way again already.
            self.forget_probe();
        }
        range.map(|range| Choice { range, cause: SendCause::Fast, rescue: false, probe: true })
    }

    fn choose_new(&mut self, room: i64) -> Option<Choice> {
        let (next, end) = (self.board.next(), self.end());
        if next >= end {
            self.limit = Limit::Application;
            return None;
        }
        let blocked = match self.recovery.phase() {
            Phase::Open => Limit::Congestion,
            Phase::Fast => Limit::Recovery,
            Phase::Timeout => Limit::Timeout,
        };
        let data = self.buffer.end().saturating_sub(next);
        let window = self.edge.saturating_sub(next);
        let length = data.min(self.mss).min(window);
        if length == 0 && data > 0 {
            self.limit = Limit::Receiver;
            return None;
        }
        let idle = self.board.flight() == 0;
        if room < length as i64 && !(idle && room > 0) {
            self.limit = blocked;
            self.limited_until = next;
            return None;
        }
        let last = length == data;
        // RFC 9293 §3.8.6.2.1: full segments, all there is (Nagle permitting), or half the peer's window.
        let worthwhile = length == self.mss
            || (last && (idle || self.finished || !self.waits_as_small()))
            || (length > 0 && length >= self.largest_window / 2);
        if !worthwhile {
            self.limit = if last { Limit::Pacing } else { Limit::Receiver };
            return None;
        }
        let fin = last && self.finished;
        Some(Choice {
            range: next..next + length + u64::from(fin),
            cause: SendCause::New,
            rescue: false,
            probe: false,
        })
    }

    /// RFC 9293 §3.7.4: a small segment waits for those on their way, in
    /// Minshall's variant only for another small one.
    fn waits_as_small(&self) -> bool {
        match self.nagle {
            Nagle::No => false,
            Nagle::Yes => true,
            Nagle::Minshall => self.small_until > self.board.una(),
        }
    }

    /// The chosen segment is on its way.
    #[inline]
    pub(crate) fn on_sent(&mut self, now: Instant, choice: &Choice, stamp: Option<u32>) {
        let length = choice.range.end - choice.range.start;
        self.last_sent = Some(now);
        self.burst_left = self.burst_left.saturating_sub(1);
        if let Some(pacer) = &mut self.pacer {
            let (window, threshold) = (self.controller.window(), self.controller.ssthresh());
            pacer.on_sent(now, length, window, self.mss, window < threshold, self.rtt.smoothed());
        }
        if choice.cause == SendCause::New {
            self.board.push(choice.range.end, now);
            if length < self.mss {
                self.small_until = choice.range.end;
            }
            self.recovery.on_sent(length);
            if self.sampling == RttSampling::Once && self.timed.is_none() {
                self.timed = Some((choice.range.end, now));
            }
            if choice.probe {
                self.note_probe(false);
            }
            return;
        }
        self.board.repair(&choice.range, now);
        if choice.probe {
            self.recovery.on_probed(length);
            self.note_probe(true);
        } else {
            self.recovery.on_repaired(stamp, length);
            self.note_repair(choice.range.start, now);
        }
        // Karn: what is sent again is not timed.
        self.timed = None;
        if choice.rescue {
            self.recovery.on_rescued();
        }
    }

    /// What was chosen has to wait until then, for the sake of its pace.
    #[inline]
    pub(crate) fn held_until(&mut self, now: Instant, choice: &Choice) -> Option<Instant> {
        let at = self.pacer.as_ref()?.ready_at();
        if at <= now || choice.probe {
            return None;
        }
        self.limit = Limit::Pacing;
        // RFC 9002 §7.8: who is held back by the pace still uses the window.
        self.limited_until = self.board.next();
        Some(at)
    }

    /// Before new data after a silence: the window may have grown stale.
    pub(crate) fn on_resume(&mut self, now: Instant) {
        if let Some(last) = self.last_sent
            && self.board.flight() == 0
        {
            self.controller.on_idle(now.since(last), self.rtt.rto());
        }
    }

    /// Nothing is on its way, nothing waits, and [`choose`](Self::choose) has said so.
    #[inline]
    pub(crate) fn is_at_rest(&self) -> bool {
        self.board.flight() == 0 && !self.has_unsent() && self.limit == Limit::Application && !self.too_big
    }

    /// Data waits, nothing is on its way, and the peer's window is what forbids it.
    pub(crate) fn is_shut_out(&self) -> bool {
        self.has_unsent() && self.board.flight() == 0 && self.limit == Limit::Receiver
    }

    /// RFC 9293 §3.8.6.1: what a probe of the closed window carries: a byte
    /// beyond it, or whatever little it takes.
    pub(crate) fn probe(&mut self) -> Option<Range<u64>> {
        let next = self.board.next();
        let data = self.buffer.end().saturating_sub(next);
        if data == 0 {
            return None;
        }
        let window = self.edge.saturating_sub(next);
        let length = window.min(data).min(self.mss).max(1);
        self.probed_until = self.probed_until.max(next + length);
        Some(next..next + length)
    }

    /// The connection is over: the buffer is of no more use.
    pub(crate) fn discard(&mut self) {
        self.buffer.discard();
    }

    /// Asserts what must hold at any time.
    #[cfg(feature = "testing")]
    pub(crate) fn check_invariants(&self) {
        self.board.check_invariants();
        assert!(self.board.next() <= self.end(), "sent more than was written");
        // The peer's window is only ever exceeded by a probe and the FIN, and when the peer took it back.
        assert!(
            self.board.next() <= self.farthest_edge.max(self.probed_until) + 1,
            "beyond the peer's window"
        );
    }
}

/// Where an automatic send buffer begins (Linux: tcp_wmem's middle value).
const FIRST_BUFFER: u64 = 16_384;
