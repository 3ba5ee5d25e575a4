//! Tracks the data in flight to a destination address, and updates the path when this data is acknowledged or lost.
//!
//! Updates the bytes in flight, round-trip time, RTO and congestion window of a path when chunks are sent,
//! acknowledged or lost. The sending half decides which chunks are acknowledged or lost. The association owns the
//! timers.
//!
//! Implements RFC 9260 §6.3.1 (which chunk is measured), §6.3.3 E1 and E2, §7.2.1 and §7.2.3 as far as they concern one
//! path.

use super::Path;
use crate::config::Config;
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_congestion::{Acked, Controller, Delivered};

/// The data on one path that an acknowledgement newly acknowledges, and the state of the path and of its association.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewlyAcked {
    /// Number of bytes newly acknowledged, chunk headers included.
    pub(crate) bytes: u64,
    /// Number of bytes in flight before the acknowledgement.
    pub(crate) flight_before: u64,
    /// The TSN offset below which all chunks are cumulatively acknowledged.
    pub(crate) base: u64,
    /// Whether the cumulative TSN ack point advanced.
    pub(crate) cumulative: bool,
    /// Whether the association was in fast recovery before the acknowledgement.
    pub(crate) in_recovery: bool,
    /// Whether slow start is conservative (CSS of RFC 9406).
    pub(crate) conservative: bool,
    /// The number of calls of `poll_transmit` so far.
    pub(crate) polls: u64,
}

impl Path {
    #[inline]
    pub(crate) fn rto(&self) -> Duration {
        self.rtt.rto()
    }

    /// Returns the smoothed round-trip time, if one was measured.
    #[inline]
    pub(crate) fn smoothed_rtt(&self) -> Option<Duration> {
        self.rtt.smoothed()
    }

    /// Returns the smoothed round-trip time, or the RTO if no round trip was measured yet.
    pub(crate) fn round_trip(&self) -> Duration {
        self.rtt.smoothed().unwrap_or(self.rto())
    }

    /// Adds a round-trip time sample.
    pub(crate) fn on_round_trip(&mut self, rtt: Duration) {
        self.rtt.on_sample(rtt);
    }

    /// Adds a round-trip time sample that may be too long. It only shortens the RTO, and the next sample replaces it.
    pub(crate) fn on_provisional_round_trip(&mut self, rtt: Duration) {
        self.rtt.on_provisional_sample(rtt);
    }

    /// RFC 9260 §6.3.3 E2: backs off, that is, doubles the RTO up to RTO.Max.
    pub(crate) fn back_off(&mut self) {
        self.rtt.back_off();
    }

    /// Undoes the back-off of the RTO after the peer has answered without giving a round-trip sample.
    pub(crate) fn forget_back_off(&mut self) {
        self.rtt.forget_back_off();
    }

    /// Applies the RTO bounds of `config` after the configuration of an existing association has changed.
    pub(crate) fn set_rto_bounds(&mut self, config: &Config) {
        self.rtt.set_bounds(config.rto_initial, config.rto_min, config.rto_max);
    }

    /// Returns the number of bytes of DATA chunks in flight, headers and padding included.
    #[inline]
    pub(crate) fn flight(&self) -> u64 {
        self.flight
    }

    /// Returns whether the bytes in flight fill the congestion window.
    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.flight >= self.window()
    }

    /// RFC 9260 §7.2.3: returns whether only one packet may be in flight. This limit applies from a timeout until DATA
    /// or a FORWARD TSN is acknowledged.
    pub(crate) fn sends_one_packet(&self) -> bool {
        self.one_packet
    }

    /// Returns whether a packet may be sent on this path now. `is_recovering` returns whether the association is in
    /// loss recovery, and is called only if the path uses proportional rate reduction (RFC 6937).
    #[inline(always)]
    pub(crate) fn is_open(&self, is_recovering: impl Fn() -> bool) -> bool {
        // RFC 9260 §7.2.3: after a timeout only one packet may be in flight, until data is acknowledged.
        let blocked = self.one_packet && self.flight > 0;
        if let Some(control) = self.loss_control()
            && let Some(open) = self.is_open_by(control, blocked, is_recovering)
        {
            return open;
        }
        // RFC 9260 §6.1 B: while fewer bytes than cwnd are in flight, a whole packet may be sent.
        self.flight < self.window() && !blocked
    }

    /// RFC 4460 §2.14.2 (Max.Burst): lowers the congestion window to the bytes in flight plus `packets` packets. As in
    /// Linux 2.6.11 (sctp_packet_append_data, net/sctp/output.c), the window is not restored afterwards.
    #[cold]
    pub(crate) fn limit_burst(&mut self, packets: u32) {
        let window = self.flight + u64::from(packets) * self.chunk_limit() as u64;
        self.congestion().0.limit_window(window);
    }

    // Sending.

    /// RFC 9260 §6.3.1 C4: starts to measure the round trip of the chunk at `offset`, unless a chunk is being
    /// measured.
    #[inline(always)]
    pub(crate) fn begin_measurement(&mut self, now: Instant, offset: u64) {
        if self.timed.is_none() {
            self.timed = Some((offset, now));
        }
    }

    /// RFC 9260 §6.3.1 C5 (Karn): stops the measurement if the measured chunk is the retransmitted chunk at `offset` or
    /// a later chunk. A retransmitted chunk gives no sample. The acknowledgement of a later chunk may have waited for
    /// the retransmission.
    pub(super) fn end_measurement_from(&mut self, offset: u64) {
        if self.timed.is_some_and(|(timed, _)| timed >= offset) {
            self.timed = None;
        }
    }

    /// Records that the chunk at `offset` was sent. `again` says whether it was sent to this destination before.
    /// Returns true if the chunk is the earliest chunk in flight on this path and was sent again.
    #[inline(always)]
    pub(crate) fn on_chunk_sent(&mut self, now: Instant, offset: u64, size: u64, again: bool) -> bool {
        let idle = self.flight == 0;
        self.flight += size;
        self.pace(now, size);
        let is_earliest_resent = again && !idle && offset <= self.earliest;
        if idle || offset < self.earliest {
            self.earliest = offset;
        }
        is_earliest_resent
    }

    /// Records that the chunk at `offset` was retransmitted to this destination. `moved` is true if the chunk was last
    /// sent to another destination.
    pub(crate) fn on_chunk_repeated(&mut self, now: Instant, offset: u64, moved: bool) {
        if let Some(control) = self.congestion().1 {
            control.on_retransmitted(now, offset);
        }
        self.stats.rare_mut().retransmitted += 1;
        if moved {
            self.ambiguous_below = self.ambiguous_below.max(offset + 1);
        }
    }

    /// Records that a packet with DATA was sent. `new` is true for new DATA. Only new DATA can give a round-trip
    /// sample.
    #[inline(always)]
    pub(crate) fn on_data_sent(&mut self, now: Instant, new: bool) {
        if new {
            self.last_used = now;
        }
        self.last_data = now;
    }

    /// Returns the time at which DATA was last sent on this path, or `Instant::MAX` if no DATA was sent.
    pub(crate) fn last_data_sent(&self) -> Instant {
        self.last_data
    }

    /// Shrinks the congestion window of an idle path (RFC 9260 §7.2.1), once per RTO.
    #[inline]
    pub(crate) fn shrink_if_idle(&mut self, now: Instant) {
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

    // Acknowledgements.

    /// Returns the lowest TSN in flight, as an offset from the initial TSN. Returns `u64::MAX` if the search for this
    /// TSN was cut short. The caller must then assume that any acknowledged chunk was the lowest in flight.
    ///
    /// Also returns the TSN offset and the send time of the chunk whose round trip is measured; `None` if no chunk is
    /// measured.
    #[inline]
    pub(crate) fn awaited(&self) -> (u64, Option<(u64, Instant)>) {
        let earliest = if self.is_earliest_a_bound { u64::MAX } else { self.earliest };
        (earliest, self.timed)
    }

    /// Returns whether the chunk at `offset` is, or may be, the lowest in flight on this path.
    #[inline]
    pub(crate) fn may_be_earliest(&self, offset: u64) -> bool {
        self.is_earliest_a_bound || offset <= self.earliest
    }

    /// Removes acknowledged bytes from the bytes in flight. Returns the number of bytes that were in flight before, for
    /// [`fills_window`](Self::fills_window).
    #[inline]
    pub(crate) fn on_bytes_acked(&mut self, bytes: u64, polls: u64, more: bool) -> u64 {
        let before = self.flight_before(polls, more);
        self.flight = self.flight.saturating_sub(bytes);
        before
    }

    /// Ends the round-trip measurement, because the measured chunk was acknowledged. Passes `sample` to the RTT
    /// estimator. A chunk that was sent more than once gives no sample.
    #[inline]
    pub(crate) fn end_measurement(&mut self, sample: Option<Duration>) {
        self.timed = None;
        if let Some(sample) = sample {
            self.rtt.on_sample(sample);
        }
    }

    /// Takes a round-trip sample if the TSN offset of the measured chunk is from `begin` up to, but not including,
    /// `end`. The caller guarantees that all chunks in this range are acknowledged and were sent only once.
    #[inline(always)]
    pub(crate) fn measure_run(&mut self, now: Instant, begin: u64, end: u64) {
        if let Some((timed, at)) = self.timed
            && timed >= begin
            && timed < end
        {
            // RFC 9260 §6.3.1 C4, C5: at most one chunk per round trip is measured, and only a chunk that was sent
            // once.
            self.timed = None;
            self.rtt.on_sample(now - at);
        }
    }

    /// Grows the congestion window after data was newly acknowledged. Returns true if the path recovered from a
    /// failure.
    #[inline(always)]
    pub(crate) fn on_newly_acked(&mut self, now: Instant, newly: NewlyAcked) -> bool {
        let NewlyAcked { bytes, flight_before, base, cumulative, in_recovery, conservative, polls } = newly;
        self.one_packet = false;
        self.stats.bytes_acked += bytes;
        let revived = self.is_shown_by(base) && self.on_answer(now);
        let full = self.fills_window(flight_before, base);
        self.window_full_at = full.then_some(polls);
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

    /// RFC 9406 §4.2: updates the slow-start state after a SACK. Returns true if the window must grow more slowly, or
    /// if slow start has ended.
    #[inline]
    pub(crate) fn is_conservative(
        &mut self,
        now: Instant,
        acked: u64,
        next: u64,
        arrived: Option<&Delivered>,
    ) -> bool {
        self.loss_control().is_some() && self.watch_slow_start(now, acked, next, arrived)
    }

    /// RFC 9260 §6.2.1 D iii: handles data that the peer has dropped although a gap ack block had acknowledged it. The
    /// data is in flight again.
    pub(crate) fn on_reneged(&mut self, bytes: u64) {
        self.add_to_flight(bytes);
        self.stats.bytes_acked = self.stats.bytes_acked.saturating_sub(bytes);
        if let Some(control) = self.loss_control_mut() {
            control.on_reneged();
        }
    }

    /// Adds `bytes` to the bytes in flight. Called when chunks count as in flight again.
    pub(crate) fn add_to_flight(&mut self, bytes: u64) {
        self.flight += bytes;
    }

    /// Records that the path works, as shown by a chunk other than a SACK. Returns true if the path recovered from a
    /// failure.
    pub(crate) fn on_path_proved(&mut self, now: Instant) -> bool {
        self.one_packet = false;
        self.on_answer(now)
    }

    /// Sets the lowest TSN offset in flight on this path, or the next offset to be sent if no chunk is in flight.
    pub(crate) fn set_earliest(&mut self, offset: u64) {
        self.earliest = offset;
    }

    /// Records the result of a search for the lowest TSN offset in flight. If `found` is false, the search was cut
    /// short and `offset` is a lower bound.
    #[inline]
    pub(crate) fn record_earliest(&mut self, offset: u64, found: bool) {
        self.earliest = offset;
        self.is_earliest_a_bound = !found;
    }

    /// Returns a lower bound of the TSN offsets in flight on this path.
    #[inline]
    pub(crate) fn earliest(&self) -> u64 {
        self.earliest
    }

    // Losses.

    /// Subtracts `bytes` from the bytes in flight, because the chunks will be retransmitted.
    pub(crate) fn lose(&mut self, bytes: u64) {
        self.flight = self.flight.saturating_sub(bytes);
    }

    /// Records the loss of chunks with `bytes` bytes in total. `reduces` is true for the first loss of a recovery,
    /// which reduces the congestion window.
    pub(crate) fn on_lost(&mut self, now: Instant, bytes: u64, reduces: bool) {
        if reduces {
            // RFC 9260 §7.2.4: the window is reduced once per fast recovery, when the recovery begins. The SACK that
            // starts the recovery has already grown the window.
            let flight = self.flight;
            let (controller, loss_control) = self.congestion();
            controller.on_loss(now, flight, false);
            if let Some(control) = loss_control {
                control.on_reduced(flight);
            }
            self.stats.rare_mut().fast_recoveries += 1;
        }
        self.lose(bytes);
    }

    /// RFC 4960 Appendix A: reduces the congestion window, because a packet was ECN-marked on this path.
    pub(crate) fn on_ecn_mark(&mut self, now: Instant) {
        let flight = self.flight;
        let (controller, loss_control) = self.congestion();
        controller.on_loss(now, flight, true);
        if let Some(control) = loss_control {
            control.end_hystart();
        }
    }

    /// RFC 9260 §6.3.3: records that T3-rtx expired. `reduces` is false for a window probe, whose loss does not reduce
    /// the congestion window.
    pub(crate) fn on_t3(&mut self, now: Instant, reduces: bool) {
        self.stats.rare_mut().t3_expirations += 1;
        if reduces {
            self.collapse(now);
        }
        self.back_off();
    }

    /// RFC 9260 §6.3.3 E1: shrinks the congestion window and returns to slow start, as after an expiry of T3-rtx.
    pub(crate) fn collapse(&mut self, now: Instant) {
        let flight = self.flight;
        self.congestion().0.on_timeout(now, flight);
        self.one_packet = true;
    }

    /// RFC 9260 §6.3.3 E3: no data counts as in flight any more, because all of it is marked for retransmission. New
    /// data has TSN offsets from `next` on.
    pub(crate) fn lose_flight(&mut self, next: u64) {
        self.timed = None;
        self.flight = 0;
        self.record_earliest(next, true);
        if let Some(control) = self.loss_control_mut() {
            control.on_timeout();
        }
    }

    /// Removes all data from the flight. Acknowledgements of this data are no longer expected.
    pub(crate) fn forget_flight(&mut self) {
        self.flight = 0;
    }

    /// Called after chunks were abandoned. If the chunk whose round trip is measured is no longer in flight, ends the
    /// measurement. `first` is the lowest TSN offset in flight on this path. `flies` returns whether the chunk at a TSN
    /// offset is in flight.
    pub(crate) fn disregard(&mut self, first: u64, flies: impl Fn(u64) -> bool) {
        self.set_earliest(first);
        self.timed = self.timed.filter(|&(timed, _)| flies(timed));
    }

    /// Stops using the path for now. No data counts as in flight on this path, and no HEARTBEAT as outstanding.
    pub(crate) fn suspend(&mut self) {
        self.flight = 0;
        self.timed = None;
        self.one_packet = false;
        self.heartbeat = Default::default();
    }
}
