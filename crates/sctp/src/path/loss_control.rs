//! What a path remembers for loss recovery beyond RFC 9260 §7.2: losses found
//! by time, the probe of the tail, the watch over slow start, the pace, the
//! reduction in proportion. A path without any of it has none of this.
//!
//! The algorithms are `congestion`'s, and TCP's as well; `send::rack` applies
//! them to chunks, `association::recover` to timers and windows.

use super::Path;
use crate::config::{Algorithm, Config};
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_congestion::{
    Controller, Delivered, LossProbe, Pacer, Progress, Prr, Rack, SlowStart, SlowStartEnd, SlowStartExit,
};
use std::collections::VecDeque;

/// The state of one path.
#[derive(Debug)]
pub(crate) struct LossControl {
    /// RFC 8985 §6: losses are found by time.
    pub(crate) rack: Option<Rack>,
    /// Below this offset nothing that was sent once is in flight here without having been judged lost.
    pub(crate) edge: u64,
    /// Chunks retransmitted to this path, and when: the oldest first.
    pub(crate) repairs: VecDeque<(u64, Instant)>,
    /// When the next chunk is lost, unless something arrives before.
    pub(crate) reorder_at: Option<Instant>,
    /// RFC 8985 §7: tail loss probes are sent.
    pub(crate) probes: bool,
    pub(crate) probe: LossProbe,
    /// One packet of new data goes as a probe, whatever the congestion window says.
    pub(crate) tail: bool,
    /// What ends slow start before a loss does.
    pub(crate) hystart: Option<SlowStartEnd>,
    /// Linux's watches no path with a shorter round trip.
    hystart_min_rtt: Duration,
    pub(crate) pacer: Option<Pacer>,
    /// The pace, not the window, held back what follows this offset.
    pub(crate) held_until: u64,
    /// RFC 6937 is in use, and the account of the recovery that runs.
    proportional: bool,
    pub(crate) reduction: Option<Prr>,
}

impl LossControl {
    pub(super) fn new(config: &Config, paced: bool) -> Option<Box<Self>> {
        let any = config.rack || config.hystart.is_some() || paced || config.prr;
        // Linux's is a part of its CUBIC.
        let exit = config.hystart;
        let exit = exit.filter(|exit| *exit != SlowStartExit::Linux || config.cc == Algorithm::Cubic);
        any.then(|| {
            Box::new(Self {
                rack: config.rack.then(Rack::default),
                edge: 0,
                repairs: VecDeque::new(),
                reorder_at: None,
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
    pub(crate) fn on_reduced(&mut self, flight: u64) {
        self.end_hystart();
        self.probe.forget();
        self.tail = false;
        self.reduction = self.proportional.then(|| Prr::new(flight));
    }

    /// T3-rtx has run out: what was suspected is known.
    pub(crate) fn on_timeout(&mut self) {
        if let Some(hystart) = &mut self.hystart {
            hystart.on_timeout();
        }
        self.probe.forget();
        self.tail = false;
        self.reorder_at = None;
        self.repairs.clear();
        self.reduction = None;
    }

    pub(crate) fn end_hystart(&mut self) {
        if let Some(hystart) = &mut self.hystart {
            hystart.on_reduced();
        }
    }
}

impl Path {
    /// RFC 9406 §4.2: how slow start goes on after a SACK.
    pub(crate) fn watch_slow_start(
        &mut self,
        now: Instant,
        acked: u64,
        next: u64,
        fresh: Option<&Delivered>,
    ) -> bool {
        let (window, mss) = (self.congestion.window(), self.chunk_limit() as u64);
        let Some(control) = self.loss_control.as_mut() else { return false };
        let Some(hystart) = control.hystart.as_mut() else { return false };
        let long = hystart.least_rtt().is_none_or(|least| least >= control.hystart_min_rtt);
        let slow_start = window < self.congestion.ssthresh() && long;
        let rtt = fresh.and_then(|fresh| fresh.sample(now));
        match hystart.on_ack(now, &Progress { acked, next, rtt, window, mss, slow_start }) {
            SlowStart::Full => false,
            SlowStart::Conservative => true,
            SlowStart::Leave => {
                self.congestion.leave_slow_start();
                true
            }
        }
    }

    /// RFC 9260 §7.2.1, "fully utilized": a window that a SACK found full stays full until the association may
    /// send again (`polls` counts its chances), if there is `more` to send. A host that reads several SACKs at
    /// once would otherwise grow the window by the first of them alone.
    #[inline]
    pub(crate) fn flight_before(&self, polls: u64, more: bool) -> u64 {
        if more && self.full_at == Some(polls) {
            self.flight.max(self.congestion.window())
        } else {
            self.flight
        }
    }

    /// The sender used its window, with `flight` bytes out before a SACK up to `acked`.
    ///
    /// RFC 9260 §7.2.1 asks for a window that is full. With one of the newer mechanisms it counts
    /// as for TCP (and Linux): all but a packet, in slow start half of it, or held back by the pace
    /// (RFC 9002 §7.8), as what they hold back is not the application's.
    #[inline]
    pub(crate) fn fills_window(&self, flight: u64, acked: u64) -> bool {
        let window = self.congestion.window();
        let Some(control) = &self.loss_control else { return flight >= window };
        acked < control.held_until
            || flight + self.chunk_limit() as u64 > window
            || (window < self.congestion.ssthresh() && 2 * flight > window)
    }

    /// Whether packets of data leave at a pace.
    #[inline]
    pub(crate) fn is_paced(&self) -> bool {
        self.loss_control.as_ref().is_some_and(|control| control.pacer.is_some())
    }

    /// Data of `bytes` leaves.
    #[inline]
    pub(crate) fn pace(&mut self, now: Instant, bytes: u64) {
        self.congestion.on_sent(now, bytes);
        if self.loss_control.is_some() {
            self.pace_controlled(now, bytes);
        }
    }

    fn pace_controlled(&mut self, now: Instant, bytes: u64) {
        let mss = self.chunk_limit() as u64;
        let Some(control) = &mut self.loss_control else { return };
        if let Some(prr) = &mut control.reduction {
            prr.on_sent(bytes);
        }
        if let Some(pacer) = &mut control.pacer {
            let (window, threshold) = (self.congestion.window(), self.congestion.ssthresh());
            match self.congestion.pacing_rate() {
                Some(rate) => pacer.on_sent_at_rate(now, bytes, rate, mss),
                None => pacer.on_sent(now, bytes, window, mss, window < threshold, self.rtt.smoothed()),
            }
        }
    }
}
