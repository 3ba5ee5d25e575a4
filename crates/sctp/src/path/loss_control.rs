//! What a path remembers for loss recovery beyond RFC 9260 §7.2: losses found
//! by time, the probe of the tail, the watch over slow start, the pace, the
//! reduction in proportion. A path without any of it has none of this.
//!
//! The algorithms are `congestion`'s, and TCP's as well; `send::rack` applies
//! them to chunks, `association::recover` to timers.

use super::Path;
use crate::config::{Algorithm, Config};
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_congestion::{
    Controller, Delivered, LossProbe, Lost, Pacer, Progress, Prr, Rack, Report, SlowStart, SlowStartEnd,
    SlowStartExit, Verdict,
};
use std::collections::VecDeque;

/// RFC 8985 §7.2: how long a receiver may hold back a lone acknowledgement (RFC 9260 §16, SACK.Delay).
pub(crate) const LONGEST_ACK_DELAY: Duration = Duration::from_millis(200);

/// RFC 8985 §6: how losses on one path are found by time.
#[derive(Debug, Default)]
pub(crate) struct LossByTime {
    rack: Rack,
    /// Below this offset nothing that was sent once is in flight here without having been judged lost.
    edge: u64,
    /// Chunks retransmitted to this path, and when: the oldest first.
    repairs: VecDeque<(u64, Instant)>,
    /// When the next chunk is lost, unless something arrives before.
    reorder_at: Option<Instant>,
    /// What was taken for lost since a controller was told.
    lost: Lost,
}

impl LossByTime {
    /// What left at `at` is lost.
    pub(crate) fn record_lost(&mut self, at: Instant, bytes: u64) {
        self.lost.add(at, bytes);
    }

    /// How long what was sent later may arrive before; `sure`: something is known to be lost.
    pub(crate) fn window(&self, smoothed: Option<Duration>, sure: bool) -> Duration {
        self.rack.window(smoothed, sure)
    }

    /// Whether what was sent at `at` and ends at `end` is lost by now.
    pub(crate) fn judge(&self, now: Instant, at: Instant, end: u64, window: Duration) -> Verdict {
        self.rack.judge(now, at, end, window)
    }

    /// The oldest retransmission to this path that has not been judged, and when it left.
    pub(crate) fn oldest_repair(&self) -> Option<(u64, Instant)> {
        self.repairs.front().copied()
    }

    /// The oldest retransmission has been judged.
    pub(crate) fn drop_repair(&mut self) {
        self.repairs.pop_front();
    }

    /// Below this offset all that was sent once has been judged.
    pub(crate) fn edge(&self) -> u64 {
        self.edge
    }

    /// All that was sent once has been judged below `edge`; the next is lost at `reorder_at` unless something arrives before.
    pub(crate) fn judged(&mut self, edge: u64, reorder_at: Option<Instant>) {
        (self.edge, self.reorder_at) = (edge, reorder_at);
    }
}

/// Until when the loss timer of a path runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LossDeadline {
    /// RFC 8985 §6.2 step 5: then something is lost.
    Lost(Instant),
    /// RFC 8985 §7.2: so long after this instant the tail is probed.
    Probe(Duration),
    /// It does not run.
    Never,
}

/// What a SACK says beside what it acknowledges.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SackNews {
    /// Everything below this offset is acknowledged for good.
    pub(crate) base: u64,
    /// What is sent next has this offset.
    pub(crate) end: u64,
    /// Nothing is being recovered.
    pub(crate) calm: bool,
    /// It ended a recovery.
    pub(crate) repaired: bool,
    /// It reports duplicates of what was retransmitted.
    pub(crate) needless: bool,
    /// It tells nothing new and of no holes.
    pub(crate) idle: bool,
}

/// The state of one path.
#[derive(Debug)]
pub(crate) struct LossControl {
    /// Losses are found by time.
    by_time: Option<LossByTime>,
    /// RFC 8985 §7: tail loss probes are sent.
    probes: bool,
    probe: LossProbe,
    /// One packet of new data goes as a probe, whatever the congestion window says.
    tail: bool,
    /// What ends slow start before a loss does.
    hystart: Option<SlowStartEnd>,
    /// Linux's watches no path with a shorter round trip.
    hystart_min_rtt: Duration,
    pacer: Option<Pacer>,
    /// The pace, not the window, held back what follows this offset.
    held_until: u64,
    /// RFC 6937 is in use, and the account of the recovery that runs.
    proportional: bool,
    reduction: Option<Box<Prr>>,
}

impl LossControl {
    /// These settings want any of it.
    pub(super) fn is_wanted(config: &Config, paced: bool) -> bool {
        config.rack || config.hystart.is_some() || paced || config.prr
    }

    pub(super) fn new(config: &Config, paced: bool) -> Option<Box<Self>> {
        // Linux's is a part of its CUBIC.
        let exit = config.hystart;
        let exit = exit.filter(|exit| *exit != SlowStartExit::Linux || config.cc == Algorithm::Cubic);
        Self::is_wanted(config, paced).then(|| {
            Box::new(Self {
                by_time: config.rack.then(LossByTime::default),
                probes: config.rack && config.tlp,
                probe: LossProbe::default(),
                tail: false,
                hystart: exit.map(SlowStartEnd::new),
                hystart_min_rtt: config.hystart_min_rtt,
                pacer: paced.then(Pacer::default),
                held_until: 0,
                proportional: config.prr,
                reduction: None,
            })
        })
    }

    /// The window has been reduced for a loss, with `flight` bytes out.
    pub(super) fn on_reduced(&mut self, flight: u64) {
        self.end_hystart();
        self.probe.forget();
        self.tail = false;
        self.reduction = self.proportional.then(|| Box::new(Prr::new(flight)));
    }

    /// T3-rtx has run out: what was suspected is known.
    pub(super) fn on_timeout(&mut self) {
        if let Some(hystart) = &mut self.hystart {
            hystart.on_timeout();
        }
        self.probe.forget();
        self.tail = false;
        if let Some(by_time) = &mut self.by_time {
            by_time.reorder_at = None;
            by_time.repairs.clear();
            by_time.lost = Lost::default();
        }
        self.reduction = None;
    }

    /// The chunk at `offset` was retransmitted.
    pub(super) fn on_repaired(&mut self, now: Instant, offset: u64) {
        if let Some(by_time) = &mut self.by_time {
            by_time.repairs.push_back((offset, now));
        }
    }

    /// The peer has dropped what it had acknowledged.
    pub(super) fn on_reneged(&mut self) {
        if let Some(by_time) = &mut self.by_time {
            by_time.edge = 0;
        }
    }

    /// Data of `bytes` leaves, by what `controller` says, in packets of `mss` bytes.
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
    /// RFC 9406 §4.2: how slow start goes on after a SACK.
    pub(super) fn watch_slow_start(
        &mut self,
        now: Instant,
        acked: u64,
        next: u64,
        fresh: Option<&Delivered>,
    ) -> bool {
        let mss = self.chunk_limit() as u64;
        let (controller, Some(control)) = self.congestion() else { return false };
        let window = controller.window();
        let Some(hystart) = control.hystart.as_mut() else { return false };
        let long = hystart.least_rtt().is_none_or(|least| least >= control.hystart_min_rtt);
        let slow_start = window < controller.ssthresh() && long;
        let rtt = fresh.and_then(|fresh| fresh.sample(now));
        match hystart.on_ack(now, &Progress { acked, next, rtt, window, mss, slow_start }) {
            SlowStart::Full => false,
            SlowStart::Conservative => true,
            SlowStart::Leave => {
                controller.leave_slow_start();
                true
            }
        }
    }

    /// RFC 9260 §7.2.1, "fully utilized": a window that a SACK found full stays full until the association may
    /// send again (`polls` counts its chances), if there is `more` to send. A host that reads several SACKs at
    /// once would otherwise grow the window by the first of them alone.
    #[inline]
    pub(super) fn flight_before(&self, polls: u64, more: bool) -> u64 {
        if more && self.full_at == Some(polls) { self.flight.max(self.window()) } else { self.flight }
    }

    /// The sender used its window, with `flight` bytes out before a SACK up to `acked`.
    ///
    /// RFC 9260 §7.2.1 asks for a window that is full. With one of the newer mechanisms it counts
    /// as for TCP (and Linux): all but a packet, in slow start half of it, or held back by the pace
    /// (RFC 9002 §7.8), as what they hold back is not the application's.
    #[inline]
    pub(super) fn fills_window(&self, flight: u64, acked: u64) -> bool {
        let window = self.window();
        let Some(control) = self.loss_control() else { return flight >= window };
        acked < control.held_until
            || flight + self.chunk_limit() as u64 > window
            || (window < self.threshold() && 2 * flight > window)
    }

    /// The congestion window lets a packet go where more than that has a say; `None` where it has not.
    #[inline(never)]
    pub(super) fn is_open_by(
        &self,
        control: &LossControl,
        blocked: bool,
        is_recovering: impl Fn() -> bool,
    ) -> Option<bool> {
        if control.tail {
            return Some(true);
        }
        // RFC 6937: in a recovery, what leaves follows what arrives.
        let prr = control.reduction.as_ref().filter(|_| is_recovering())?;
        // With nothing on its way no acknowledgement would come that allows more.
        Some((prr.allowance() > 0 || self.flight == 0) && !blocked)
    }

    /// RFC 6937: `acked` bytes have arrived; `safe`: and they show no further loss.
    #[inline]
    pub(crate) fn reduce_in_proportion(&mut self, acked: u64, safe: bool) {
        let (mss, threshold, flight) = (self.chunk_limit() as u64, self.threshold(), self.flight);
        if let Some(prr) = self.loss_control_mut().and_then(|control| control.reduction.as_mut()) {
            prr.on_delivered(acked, safe, threshold, flight, mss);
        }
    }

    /// What has arrived on a path by a SACK. Where losses are found by time: what judges the rest, and the smoothed round
    /// trip.
    pub(crate) fn on_delivered(
        &mut self,
        now: Instant,
        fresh: &Delivered,
    ) -> Option<(&mut LossByTime, Option<Duration>)> {
        let smoothed = self.rtt.smoothed();
        let by_time = self.congestion().1?.by_time.as_mut()?;
        by_time.rack.on_delivered(now, fresh);
        Some((by_time, smoothed))
    }

    /// What an event has shown of the path, for a controller that wants to know: so many bytes have arrived, `fresh` among
    /// them; `recovering`: a loss is being repaired.
    pub(crate) fn report(&mut self, now: Instant, delivered: u64, fresh: &Delivered, recovering: bool) {
        let in_flight = self.flight;
        let (controller, loss_control) = self.congestion();
        let by_time = loss_control.and_then(|control| control.by_time.as_mut());
        let lost = by_time.map(|by_time| std::mem::take(&mut by_time.lost)).unwrap_or_default();
        let report = Report {
            delivered,
            newest: fresh.newest_sent(),
            rtt: fresh.sample(now),
            lost: lost.bytes,
            newest_lost: lost.newest,
            in_flight,
            recovering,
        };
        controller.on_report(now, &report);
    }

    /// There was a chance to send, and nothing to be sent.
    pub(crate) fn on_application_limited(&mut self) {
        self.congestion().0.on_application_limited();
    }

    /// RFC 3708 §2: every repair was needless: so was the reduction.
    pub(crate) fn on_needless_reduction(&mut self, now: Instant) {
        let (controller, loss_control) = self.congestion();
        controller.on_spurious(now);
        if let Some(control) = loss_control {
            control.reduction = None;
        }
    }

    /// RFC 8985: after any SACK.
    pub(crate) fn after_sack(&mut self, now: Instant, news: &SackNews) {
        let SackNews { base, end, calm, repaired, needless, idle } = *news;
        let flight = self.flight;
        if needless && self.is_controlled() {
            // RFC 8985 §6.2 step 4: what a needless repair says of the order of packets counts for all that is sent later.
            self.congestion();
        }
        let Some((controller, Some(control))) = self.begun() else { return };
        if calm {
            control.reduction = None;
        }
        if let Some(LossByTime { rack, .. }) = &mut control.by_time {
            if needless {
                rack.on_needless(base, end);
            }
            if repaired {
                rack.on_recovered();
            }
        }
        if control.probe.on_ack(base, needless, idle) && calm {
            // RFC 8985 §7.4: the probe was the repair, and the loss counts like any other.
            controller.on_loss(now, flight, false);
            control.end_hystart();
        }
    }

    /// Until when the loss timer runs; `None` where there is none. `is_quiet`: nothing is known of a loss.
    #[inline]
    pub(crate) fn loss_deadline(&mut self, is_quiet: impl Fn() -> bool) -> Option<LossDeadline> {
        let (flight, alone) = (self.flight, self.flight <= self.chunk_limit() as u64);
        let smoothed = self.rtt.smoothed();
        let Some((_, control)) = self.begun() else { return Some(LossDeadline::Never) };
        let control = control?;
        let by_time = control.by_time.as_mut()?;
        if flight == 0 {
            // What waited for its time has arrived or gone elsewhere: what is sent here next is not late.
            by_time.reorder_at = None;
        }
        if let Some(at) = by_time.reorder_at {
            return Some(LossDeadline::Lost(at));
        }
        // RFC 8985 §7.2: not while a loss is known or suspected, and one probe at a time.
        if !control.probes || control.probe.is_pending() || flight == 0 || !is_quiet() {
            return Some(LossDeadline::Never);
        }
        Some(LossDeadline::Probe(LossProbe::timeout(smoothed, alone, LONGEST_ACK_DELAY)))
    }

    /// Something may be lost, and time will tell.
    pub(crate) fn suspects_loss(&self) -> bool {
        self.loss_control().and_then(|control| control.by_time.as_ref()?.reorder_at).is_some()
    }

    /// What waited for its time is not waited for any more.
    pub(crate) fn forget_suspicion(&mut self) {
        if let Some(by_time) = self.loss_control_mut().and_then(|control| control.by_time.as_mut()) {
            by_time.reorder_at = None;
        }
    }

    /// RFC 8985 §7.3: the tail is probed: by `fresh` data that may go now, or by a chunk that is sent again. What is sent
    /// next has offset `end`.
    pub(crate) fn probe_tail(&mut self, fresh: bool, end: u64) {
        let Some(control) = self.congestion().1 else { return };
        if fresh {
            control.tail = true;
        } else {
            control.probe.on_sent(end, true);
        }
    }

    /// A packet with new data has left, up to `end`. Whether the loss timer may have to follow.
    #[inline]
    pub(crate) fn on_new_sent(&mut self, end: u64) -> bool {
        let Some(control) = self.congestion().1 else { return false };
        if std::mem::take(&mut control.tail) {
            control.probe.on_sent(end, false);
        }
        true
    }

    /// Until when the next packet has to wait, by its pace, which holds back what follows `end`.
    pub(crate) fn hold_back(&mut self, now: Instant, end: u64) -> Option<Instant> {
        let control = self.loss_control_mut()?;
        let at = control.pacer.as_ref().map_or(now, Pacer::ready_at);
        if at <= now || control.tail {
            return None;
        }
        control.held_until = end;
        Some(at)
    }

    /// Whether packets of data leave at a pace.
    #[inline]
    pub(crate) fn is_paced(&self) -> bool {
        self.loss_control().is_some_and(|control| control.pacer.is_some())
    }

    /// Data of `bytes` leaves.
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
