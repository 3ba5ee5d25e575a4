//! What is on its way to a destination, and what is known of the way by it.
//!
//! Owns what leaving, arriving and getting lost do to the flight, the round
//! trip, RTO and congestion window of a path. Which chunks that concerns the
//! sending half has found out; the timers are the association's.
//!
//! Home of RFC 9260 §6.3.1 (which chunk is measured), §6.3.3 E1 and E2, §7.2.1 and §7.2.3, as far as one path is concerned.

use super::Path;
use crate::config::Config;
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_congestion::{Acked, Controller, Delivered};

/// What an acknowledgement newly acknowledges of what was sent to a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewlyAcked {
    /// Bytes, chunk headers included.
    pub(crate) bytes: u64,
    /// Bytes in flight before it.
    pub(crate) flight_before: u64,
    /// Everything below this offset is acknowledged for good.
    pub(crate) base: u64,
    /// The cumulative acknowledgement moved.
    pub(crate) cumulative: bool,
    /// It came in fast recovery.
    pub(crate) in_recovery: bool,
    /// Slow start goes on with care (RFC 9406).
    pub(crate) conservative: bool,
    /// Chances to send so far.
    pub(crate) polls: u64,
}

impl Path {
    #[inline]
    pub(crate) fn rto(&self) -> Duration {
        self.rtt.rto()
    }

    /// The smoothed round trip, once one was measured.
    #[inline]
    pub(crate) fn smoothed_rtt(&self) -> Option<Duration> {
        self.rtt.smoothed()
    }

    /// How long an answer takes, as far as known.
    pub(crate) fn round_trip(&self) -> Duration {
        self.rtt.smoothed().unwrap_or(self.rto())
    }

    /// A round trip was measured.
    pub(crate) fn on_round_trip(&mut self, rtt: Duration) {
        self.rtt.on_sample(rtt);
    }

    /// RFC 9260 §6.3.3 E2: back off — double the RTO, up to RTO.Max.
    pub(crate) fn back_off(&mut self) {
        self.rtt.back_off();
    }

    /// The peer has answered, though that measures nothing.
    pub(crate) fn forget_back_off(&mut self) {
        self.rtt.forget_back_off();
    }

    /// The configuration of a living association has changed.
    pub(crate) fn set_rto_bounds(&mut self, config: &Config) {
        self.rtt.set_bounds(config.rto_initial, config.rto_min, config.rto_max);
    }

    /// Bytes of DATA chunks in flight, their headers and padding included.
    #[inline]
    pub(crate) fn flight(&self) -> u64 {
        self.flight
    }

    /// The congestion window is used up.
    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.flight >= self.window()
    }

    /// RFC 9260 §7.2.3: after a timeout one packet only, until something is acknowledged.
    pub(crate) fn sends_one_packet(&self) -> bool {
        self.one_packet
    }

    /// The congestion window lets a packet go; whether the association `is_recovering` from a loss matters where more than
    /// the window has a say.
    #[inline(always)]
    pub(crate) fn is_open(&self, is_recovering: impl Fn() -> bool) -> bool {
        // RFC 9260 §7.2.3: after a timeout one packet, until something is acknowledged.
        let blocked = self.one_packet && self.flight > 0;
        if let Some(control) = self.loss_control()
            && let Some(open) = self.is_open_by(control, blocked, is_recovering)
        {
            return open;
        }
        // RFC 9260 §6.1 B: while the flight is below cwnd a whole packet may go.
        self.flight < self.window() && !blocked
    }

    // What leaves.

    /// RFC 9260 §6.3.1 C4: one measurement at a time: of the chunk at `offset`, if none is under way.
    #[inline(always)]
    pub(crate) fn begin_measurement(&mut self, now: Instant, offset: u64) {
        if self.timed.is_none() {
            self.timed = Some((offset, now));
        }
    }

    /// RFC 9260 §6.3.1 C5 (Karn): what was sent twice measures nothing, nor does what was first sent after it and may have
    /// waited for it.
    pub(super) fn end_measurement_from(&mut self, offset: u64) {
        if self.timed.is_some_and(|(timed, _)| timed >= offset) {
            self.timed = None;
        }
    }

    /// The chunk at `offset` leaves, `again` for this destination. True when it is the earliest there and leaves again.
    #[inline(always)]
    pub(crate) fn on_chunk_sent(&mut self, now: Instant, offset: u64, size: u64, again: bool) -> bool {
        let idle = self.flight == 0;
        self.flight += size;
        self.pace(now, size);
        let earliest_again = again && !idle && offset <= self.earliest;
        if idle || offset < self.earliest {
            self.earliest = offset;
        }
        earliest_again
    }

    /// The chunk at `offset` was retransmitted to this destination, which `moved` it from another.
    pub(crate) fn on_chunk_repeated(&mut self, now: Instant, offset: u64, moved: bool) {
        if let Some(control) = self.congestion().1 {
            control.on_repaired(now, offset);
        }
        self.stats.seldom().retransmitted += 1;
        if moved {
            self.moved = self.moved.max(offset + 1);
        }
    }

    /// A packet with DATA has left; `new` DATA can measure the round trip.
    #[inline(always)]
    pub(crate) fn on_data_sent(&mut self, now: Instant, new: bool) {
        if new {
            self.last_used = now;
        }
        self.last_data = now;
    }

    /// A path that rests: its window shrinks (RFC 9260 §7.2.1), once an RTO.
    #[inline]
    pub(crate) fn account_rest(&mut self, now: Instant) {
        if self.flight == 0 {
            self.shrink_idle(now);
        }
    }

    #[cold]
    fn shrink_idle(&mut self, now: Instant) {
        if self.last_data == Instant::MAX {
            return;
        }
        let idle: Duration = now - self.last_data;
        let rto = self.rto();
        if idle >= rto {
            self.congestion().0.on_idle(idle, rto);
        }
    }

    // What arrives.

    /// What is waited for: the lowest offset in flight, or the highest it can be as long as it was not found among very many;
    /// and the chunk that is measured, with when it left.
    #[inline]
    pub(crate) fn awaited(&self) -> (u64, Option<(u64, Instant)>) {
        // Not found yet among very many: whatever is acknowledged may be it.
        let earliest = if self.earliest_unsure { u64::MAX } else { self.earliest };
        (earliest, self.timed)
    }

    /// The chunk at `offset` is the lowest in flight here, or may be.
    #[inline]
    pub(crate) fn may_be_earliest(&self, offset: u64) -> bool {
        self.earliest_unsure || offset <= self.earliest
    }

    /// Bytes have arrived. What was in flight before, as far as the window is concerned: see
    /// [`fills_window`](Self::fills_window).
    #[inline]
    pub(crate) fn land(&mut self, bytes: u64, polls: u64, more: bool) -> u64 {
        let before = self.flight_before(polls, more);
        self.flight = self.flight.saturating_sub(bytes);
        before
    }

    /// The chunk that was measured is acknowledged, with what that measured.
    #[inline]
    pub(crate) fn end_measurement(&mut self, sample: Option<Duration>) {
        self.timed = None;
        if let Some(sample) = sample {
            self.rtt.on_sample(sample);
        }
    }

    /// Chunks from `begin` to `end`, all sent once, are acknowledged: the one that is measured among them.
    #[inline(always)]
    pub(crate) fn measure_run(&mut self, now: Instant, begin: u64, end: u64) {
        if let Some((timed, at)) = self.timed
            && timed >= begin
            && timed < end
        {
            // RFC 9260 §6.3.1 C4, C5: one measurement each round trip, and it was sent once.
            self.timed = None;
            self.rtt.on_sample(now - at);
        }
    }

    /// Data is newly acknowledged: the window grows. True when the path is back.
    #[inline(always)]
    pub(crate) fn on_newly_acked(&mut self, now: Instant, newly: NewlyAcked) -> bool {
        let NewlyAcked { bytes, flight_before, base, cumulative, in_recovery, conservative, polls } = newly;
        self.one_packet = false;
        self.stats.bytes_acked += bytes;
        let revived = self.is_shown_by(base) && self.on_answer(now);
        let full = self.fills_window(flight_before, base);
        self.full_at = full.then_some(polls);
        let acked = Acked {
            bytes,
            flight_before,
            cumulative,
            in_recovery,
            window_limited: full,
            conservative,
            rtt: self.rtt.smoothed(),
        };
        self.congestion().0.on_acked(now, acked);
        revived
    }

    /// RFC 9406 §4.2: how slow start goes on after a SACK; whether with care.
    #[inline]
    pub(crate) fn is_conservative(
        &mut self,
        now: Instant,
        acked: u64,
        next: u64,
        fresh: Option<&Delivered>,
    ) -> bool {
        self.loss_control().is_some() && self.watch_slow_start(now, acked, next, fresh)
    }

    /// RFC 9260 §6.2.1 D iii: the peer has dropped what it had acknowledged: it is judged anew.
    pub(crate) fn on_reneged(&mut self, bytes: u64) {
        self.fly_again(bytes);
        if let Some(control) = self.loss_control_mut() {
            control.on_reneged();
        }
    }

    /// Bytes that had left the flight are in it again.
    pub(crate) fn fly_again(&mut self, bytes: u64) {
        self.flight += bytes;
    }

    /// Something that is no acknowledgement of DATA shows that the path works. True when it is back.
    pub(crate) fn on_shown(&mut self, now: Instant) -> bool {
        self.one_packet = false;
        self.on_answer(now)
    }

    /// `offset` is the lowest in flight here, or what comes next when nothing is.
    pub(crate) fn set_earliest(&mut self, offset: u64) {
        self.earliest = offset;
    }

    /// The same, of a search; not `found`: it is not below `offset`, but there was too much to look at.
    #[inline]
    pub(crate) fn record_earliest(&mut self, offset: u64, found: bool) {
        self.earliest = offset;
        self.earliest_unsure = !found;
    }

    /// What the lowest in flight is not below.
    #[inline]
    pub(crate) fn earliest(&self) -> u64 {
        self.earliest
    }

    // What gets lost.

    /// Chunks of `bytes` have left the flight: they are to be sent again.
    pub(crate) fn lose(&mut self, bytes: u64) {
        self.flight = self.flight.saturating_sub(bytes);
    }

    /// Chunks of `bytes` are lost; the first ones of a recovery reduce the window.
    pub(crate) fn on_lost(&mut self, now: Instant, bytes: u64, reduces: bool) {
        if reduces {
            // RFC 9260 §7.2.4: once, on entering fast recovery, after the window grew by this SACK.
            let flight = self.flight;
            let (controller, loss_control) = self.congestion();
            controller.on_loss(now, flight, false);
            if let Some(control) = loss_control {
                control.on_reduced(flight);
            }
            self.stats.seldom().fast_recoveries += 1;
        }
        self.lose(bytes);
    }

    /// RFC 4960 Appendix A: a packet was marked on its way.
    pub(crate) fn on_marked(&mut self, now: Instant) {
        let flight = self.flight;
        let (controller, loss_control) = self.congestion();
        controller.on_loss(now, flight, true);
        if let Some(control) = loss_control {
            control.end_hystart();
        }
    }

    /// RFC 9260 §6.3.3: T3-rtx has run out, and `reduces` the window unless it was for a probe.
    pub(crate) fn on_t3(&mut self, now: Instant, reduces: bool) {
        self.stats.seldom().t3_expirations += 1;
        if reduces {
            self.collapse(now);
        }
        self.back_off();
    }

    /// RFC 9260 §6.3.3 E1: slow start anew.
    pub(crate) fn collapse(&mut self, now: Instant) {
        let flight = self.flight;
        self.congestion().0.on_timeout(now, flight);
        self.one_packet = true;
    }

    /// RFC 9260 §6.3.3 E3: all that is on its way is to be retransmitted; what is sent next has offsets from `next` on.
    pub(crate) fn lose_flight(&mut self, next: u64) {
        self.timed = None;
        self.flight = 0;
        self.record_earliest(next, true);
        if let Some(control) = self.loss_control_mut() {
            control.on_timeout();
        }
    }

    /// Nothing that is on its way is waited for any more.
    pub(crate) fn forget_flight(&mut self) {
        self.flight = 0;
    }

    /// What was given up measures no round trip; `first` is the lowest offset in flight here, `flies` says of any whether
    /// it is in flight.
    pub(crate) fn disregard(&mut self, first: u64, flies: impl Fn(u64) -> bool) {
        self.set_earliest(first);
        self.timed = self.timed.filter(|&(timed, _)| flies(timed));
    }

    /// Nothing goes there for now, and nothing is known of what did.
    pub(crate) fn stand_still(&mut self) {
        self.flight = 0;
        self.timed = None;
        self.one_packet = false;
        self.heartbeat = Default::default();
    }
}
