//! Loss detection by time, and tail loss probes: RACK-TLP on the scoreboard.
//!
//! Owns the state that the algorithms in the crate `congestion` need for this connection: the order in which
//! retransmissions were sent, and when to check for losses again. The timer belongs to the connection.
//!
//! Implements RFC 8985 §6.2 step 5, §6.3 and §7.3 for the segments of a connection.

use super::{Ack, AckOutcome, Phase, SendHalf};
use crate::stats::Stats;
use anabranch_base::Instant;
use anabranch_base::time::{Duration, nanos};
use anabranch_congestion::{Controller, Delivered, LossProbe, Rack, Verdict};
use std::collections::VecDeque;

/// The state of RACK-TLP.
#[derive(Debug)]
pub(crate) struct RackTlp {
    rack: Rack,
    /// Whether tail loss probes are enabled.
    probes: bool,
    probe: LossProbe,
    /// The start position of each retransmission and the time when it was sent, oldest first.
    retransmissions: VecDeque<(u64, Instant)>,
    /// The time at which the next segment counts as lost, unless an acknowledgement arrives earlier.
    reorder_at: Option<Instant>,
    /// Whether a tail loss probe must be sent.
    pub(super) probe_due: bool,
}

/// RFC 8985 §7.2: the longest time by which a receiver delays the acknowledgement of a single segment, as assumed by
/// Linux.
const LONGEST_ACK_DELAY: u64 = nanos(Duration::from_millis(200));

impl RackTlp {
    pub(super) fn new(probes: bool) -> Self {
        Self {
            rack: Rack::default(),
            probes,
            probe: LossProbe::default(),
            retransmissions: VecDeque::new(),
            reorder_at: None,
            probe_due: false,
        }
    }

    /// Returns whether the fast path may handle an acknowledgement of new data: no segment is suspected to be lost, and
    /// no tail loss probe is outstanding.
    #[inline]
    pub(super) fn is_calm(&self) -> bool {
        self.reorder_at.is_none() && !self.probe.is_pending()
    }
}

/// What the loss timer waits for, and when it expires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LossTimer {
    /// A segment counts as lost at this time.
    Reorder(Instant),
    /// A tail loss probe is sent after this many nanoseconds.
    Probe(u64),
}

impl SendHalf {
    /// Returns which timer of RFC 8985 should run, if any.
    #[inline]
    pub(crate) fn loss_timer(&self) -> Option<LossTimer> {
        let rack_tlp = self.rack_tlp.as_ref()?;
        if let Some(at) = rack_tlp.reorder_at {
            return Some(LossTimer::Reorder(at));
        }
        // RFC 8985 §7.2: no probe while a loss is known or suspected, and only one probe at a time.
        let flight = self.scoreboard.flight();
        let quiet = self.recovery.phase() == Phase::Open && self.scoreboard.sacked() == 0;
        if !rack_tlp.probes || !quiet || flight == 0 || rack_tlp.probe.is_pending() {
            return None;
        }
        // RFC 8985 §7.2: if only one segment is in flight, the receiver may delay its acknowledgement.
        let delay = if flight <= self.mss() { LONGEST_ACK_DELAY } else { 0 };
        Some(LossTimer::Probe(LossProbe::timeout_nanos(self.rtt.smoothed_nanos(), delay)))
    }

    /// Handles the expiry of the loss timer. Returns true if a tail loss probe must be sent.
    pub(crate) fn on_loss_timer(&mut self, now: Instant, stats: &mut Stats) -> bool {
        let Some(rack_tlp) = &mut self.rack_tlp else { return false };
        if rack_tlp.reorder_at.is_some() {
            let lost_before = self.scoreboard.has_missing();
            self.find_lost_by_time(now);
            if self.scoreboard.has_missing() && !lost_before {
                self.recovery.make_urgent();
            }
            if self.recovery.phase() == Phase::Open && self.scoreboard.has_missing() {
                self.begin_recovery(now, stats);
                if self.usage.is_some() {
                    // As in tcp_rack_reo_timeout of Linux, PRR counts the expiry of the timer as the delivery of one
                    // segment.
                    self.recovery.on_delivered(
                        self.mss,
                        false,
                        self.controller.ssthresh(),
                        self.mss,
                        &self.scoreboard,
                    );
                }
            }
            self.report(now, &Delivered::default());
            return false;
        }
        if self.recovery.phase() != Phase::Open || self.scoreboard.flight() == 0 {
            return false;
        }
        rack_tlp.probe_due = true;
        stats.tail_probes += 1;
        true
    }

    /// RFC 8985 §6.2 step 5: marks a segment as lost if a segment that was sent later has been delivered. In addition,
    /// the round-trip time plus the reordering window must have passed since the marked segment was sent.
    pub(super) fn find_lost_by_time(&mut self, now: Instant) {
        let Some(rack_tlp) = &mut self.rack_tlp else { return };
        let sure =
            self.recovery.phase() != Phase::Open || self.recovery.counts_loss(self.mss, &self.scoreboard);
        let window = rack_tlp.rack.window(self.rtt.smoothed(), sure);
        let mut until = None;
        while let Some(&(start, at)) = rack_tlp.retransmissions.front() {
            if let Some(end) = self.scoreboard.outstanding_retransmission_end(start, at) {
                match rack_tlp.rack.judge(now, at, end, window) {
                    Verdict::Lost => self.scoreboard.lose_retransmission(start),
                    Verdict::Until(at) => {
                        until = Some(at);
                        break;
                    }
                    Verdict::Unknown => break,
                }
            }
            rack_tlp.retransmissions.pop_front();
        }
        let rack = &rack_tlp.rack;
        let original_deadline = self.scoreboard.lose_by_time(|at, end| rack.judge(now, at, end, window));
        rack_tlp.reorder_at = match (until, original_deadline) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }

    /// Processes the segments that an acknowledgement reports as delivered. `repairing` says whether a recovery was in
    /// progress when the acknowledgement arrived.
    pub(super) fn on_delivery_by_time(
        &mut self,
        now: Instant,
        ack: &Ack<'_>,
        repairing: bool,
        stats: &mut Stats,
        outcome: &mut AckOutcome,
    ) {
        let fresh = self.scoreboard.take_delivered();
        let Some(rack_tlp) = &mut self.rack_tlp else { return };
        rack_tlp.rack.on_delivered(now, &fresh);
        let (una, next) = (self.scoreboard.una(), self.scoreboard.next());
        if ack.duplicate.is_some() {
            rack_tlp.rack.on_spurious_retransmission(una, next);
        }
        if repairing && self.recovery.phase() == Phase::Open {
            rack_tlp.rack.on_recovered();
        }
        let idle = fresh.is_empty() && ack.sacks.is_empty() && ack.could_be_duplicate;
        let repaired = rack_tlp.probe.on_ack(una, ack.duplicate.is_some(), idle);
        self.find_lost_by_time(now);
        if self.scoreboard.has_missing() && self.recovery.phase() == Phase::Open && !self.too_big {
            self.begin_recovery(now, stats);
            outcome.restart_timer = true;
        } else if repaired && self.recovery.phase() == Phase::Open {
            // RFC 8985 §7.4: the tail loss probe has repaired a loss. That loss reduces the window like any other loss.
            self.reduce(now);
        }
    }

    /// Like `on_delivery_by_time`, but for an acknowledgement that advances SND.UNA while no loss is known.
    #[inline]
    pub(super) fn on_progress_by_time(&mut self, now: Instant) {
        if let Some(rack_tlp) = &mut self.rack_tlp {
            let fresh = self.scoreboard.take_delivered();
            rack_tlp.rack.on_delivered(now, &fresh);
        }
    }

    /// Marks segments as lost after the retransmission timer has expired.
    pub(super) fn on_timeout_by_time(&mut self, now: Instant) {
        let Some(rack_tlp) = &mut self.rack_tlp else { return };
        rack_tlp.reorder_at = None;
        rack_tlp.probe_due = false;
        rack_tlp.probe.forget();
        rack_tlp.retransmissions.clear();
        let window = rack_tlp.rack.window(self.rtt.smoothed(), true);
        let rack = &rack_tlp.rack;
        self.scoreboard.lose_overdue(|at| rack.is_overdue(now, at, window));
    }

    /// Forgets an outstanding tail loss probe, because a recovery begins. The recovery reduces the window, so the
    /// answer to the probe need not reduce it again.
    pub(super) fn forget_probe(&mut self) {
        if let Some(rack_tlp) = &mut self.rack_tlp {
            rack_tlp.probe.forget();
            rack_tlp.probe_due = false;
        }
    }

    /// Records that the segment at position `start` was retransmitted.
    pub(super) fn record_retransmission(&mut self, start: u64, now: Instant) {
        if let Some(rack_tlp) = &mut self.rack_tlp {
            rack_tlp.retransmissions.push_back((start, now));
        }
    }

    /// Records that a tail loss probe was sent. If `again` is true, the probe was a retransmission.
    pub(super) fn record_probe(&mut self, again: bool) {
        let next = self.scoreboard.next();
        if let Some(rack_tlp) = &mut self.rack_tlp {
            rack_tlp.probe_due = false;
            rack_tlp.probe.on_sent(next, again);
        }
    }
}
