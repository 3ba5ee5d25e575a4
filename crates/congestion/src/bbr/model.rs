//! BBR's model of the path: the bandwidth, the round-trip time, bounds on the amount in flight, and the aggregation of
//! acknowledgements.
//!
//! Owns the model's maximum and minimum filters, and the bounds that losses set. The parent module decides states,
//! rates and windows.
//!
//! Implements the section "Updating Network Path Model Parameters" of draft-ietf-ccwg-bbr, and the draft's full-pipe
//! estimator.

use crate::delivery_rate::RateSample;
use anabranch_base::Instant;
use anabranch_base::time::Duration;

/// BBR.MinRTTFilterLen: the time for which a minimum round-trip time stays valid.
const MIN_RTT_SPAN: Duration = Duration::from_secs(10);
/// BBR.ProbeRTTInterval: ProbeRTT begins if no new minimum round-trip time was measured for this long.
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
/// BBR.ExtraAckedFilterLen: the number of round trips over which the maximum of aggregated acknowledgements is taken.
const AGGREGATION_ROUNDS: u64 = 10;

/// The model. Rates are in bytes per second, amounts of data in bytes, round-trip times in nanoseconds. `u64::MAX`
/// stands for the draft's Infinity.
#[derive(Clone, Debug)]
pub(super) struct Model {
    /// BBR.max_bw_filter: the maximum bandwidth in the last ProbeBW cycle, and the maximum in the current cycle.
    max_bw: [u64; 2],
    pub(super) bw_shortterm: u64,
    bw_latest: u64,
    pub(super) inflight_latest: u64,
    pub(super) inflight_shortterm: u64,
    pub(super) inflight_longterm: u64,
    min_rtt: Option<u64>,
    min_rtt_stamp: Instant,
    probe_rtt_min: Option<u64>,
    pub(super) probe_rtt_min_stamp: Instant,
    pub(super) probe_rtt_expired: bool,
    pub(super) round_count: u64,
    pub(super) round_start: bool,
    pub(super) next_round_delivered: u64,
    pub(super) loss_round_start: bool,
    pub(super) loss_round_delivered: u64,
    pub(super) is_loss_in_round: bool,
    pub(super) full_bw: u64,
    full_bw_count: u32,
    pub(super) full_bw_now: bool,
    pub(super) full_bw_reached: bool,
    aggregation_start: Instant,
    aggregation_delivered: u64,
    /// BBR.extra_acked_filter: the maximum number of bytes acknowledged beyond the expected amount, in the previous and
    /// in the current period. A period is half of the filter length, rounded up. While the path is not yet full, the
    /// filter length is one round trip. Afterwards it is [`AGGREGATION_ROUNDS`].
    extra_acked: [u64; 2],
    extra_acked_since: u64,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            max_bw: [0; 2],
            bw_shortterm: u64::MAX,
            bw_latest: 0,
            inflight_latest: 0,
            inflight_shortterm: u64::MAX,
            inflight_longterm: u64::MAX,
            min_rtt: None,
            min_rtt_stamp: Instant::ZERO,
            probe_rtt_min: None,
            probe_rtt_min_stamp: Instant::ZERO,
            probe_rtt_expired: false,
            round_count: 0,
            round_start: false,
            next_round_delivered: 0,
            loss_round_start: false,
            loss_round_delivered: 0,
            is_loss_in_round: false,
            full_bw: 0,
            full_bw_count: 0,
            full_bw_now: false,
            full_bw_reached: false,
            aggregation_start: Instant::ZERO,
            aggregation_delivered: 0,
            extra_acked: [0; 2],
            extra_acked_since: 0,
        }
    }
}

impl Model {
    /// BBR.max_bw: the maximum bandwidth in the last two ProbeBW cycles.
    pub(super) fn max_bw(&self) -> u64 {
        self.max_bw[0].max(self.max_bw[1])
    }

    /// BBR.bw (BoundBWForModel): the maximum bandwidth, limited by the short-term bound.
    pub(super) fn bw(&self) -> u64 {
        self.max_bw().min(self.bw_shortterm)
    }

    /// BBR.min_rtt: the minimum round-trip time in nanoseconds, once measured.
    pub(super) fn min_rtt(&self) -> Option<u64> {
        self.min_rtt
    }

    /// BBR.extra_acked: the largest number of bytes acknowledged beyond the expected amount. The filter keeps the
    /// maximum of the current and of the previous period.
    pub(super) fn extra_acked(&self) -> u64 {
        self.extra_acked[0].max(self.extra_acked[1])
    }

    /// UpdateLatestDeliverySignals: updates the bandwidth and the bytes in flight of the current round trip.
    /// `delivered` is the total number of bytes delivered so far.
    pub(super) fn update_latest(&mut self, sample: &RateSample, delivered: u64) {
        self.loss_round_start = false;
        self.bw_latest = self.bw_latest.max(sample.rate);
        self.inflight_latest = self.inflight_latest.max(sample.delivered);
        if sample.prior_delivered.is_some_and(|prior| prior >= self.loss_round_delivered) {
            self.loss_round_delivered = delivered;
            self.loss_round_start = true;
        }
    }

    /// AdvanceLatestDeliverySignals: starts new maxima at the end of a round trip.
    pub(super) fn advance_latest(&mut self, sample: &RateSample) {
        if self.loss_round_start {
            self.bw_latest = sample.rate;
            self.inflight_latest = sample.delivered;
        }
    }

    /// UpdateRound: counts round trips. Returns whether a round trip has ended.
    pub(super) fn update_round(&mut self, sample: &RateSample, delivered: u64) -> bool {
        self.round_start = sample.prior_delivered.is_some_and(|prior| prior >= self.next_round_delivered);
        if self.round_start {
            self.next_round_delivered = delivered;
            self.round_count += 1;
        }
        self.round_start
    }

    /// UpdateMaxBw: raises the maximum bandwidth of the current cycle. `update_round` counts the round trips.
    pub(super) fn update_max_bw(&mut self, sample: &RateSample) {
        if sample.rate > 0 && (sample.rate >= self.max_bw() || !sample.app_limited) {
            self.max_bw[1] = self.max_bw[1].max(sample.rate);
        }
    }

    /// AdvanceMaxBwFilter: begins a new ProbeBW cycle. If the last cycle had no sample, the old maximum is kept.
    pub(super) fn advance_max_bw(&mut self) {
        if self.max_bw[1] > 0 {
            self.max_bw = [self.max_bw[1], 0];
        }
    }

    /// InitLowerBounds and LossLowerBounds: lowers the short-term bounds. Called after a round trip with a loss while
    /// no probe was in progress.
    pub(super) fn lower_bounds(&mut self, window: u64) {
        if self.bw_shortterm == u64::MAX {
            self.bw_shortterm = self.max_bw();
        }
        if self.inflight_shortterm == u64::MAX {
            self.inflight_shortterm = window;
        }
        // BBR.Beta: 7/10 of a bound is kept.
        let reduced = |bound: u64| u64::try_from(u128::from(bound) * 7 / 10).unwrap_or(bound);
        self.bw_shortterm = self.bw_latest.max(reduced(self.bw_shortterm));
        self.inflight_shortterm = self.inflight_latest.max(reduced(self.inflight_shortterm));
    }

    /// ResetShortTermModel: removes the short-term bounds.
    pub(super) fn reset_shortterm(&mut self) {
        (self.bw_shortterm, self.inflight_shortterm) = (u64::MAX, u64::MAX);
    }

    /// ResetCongestionSignals: forgets the losses and maxima of the current round trip.
    pub(super) fn reset_congestion_signals(&mut self) {
        self.is_loss_in_round = false;
        (self.bw_latest, self.inflight_latest) = (0, 0);
    }

    /// HandleSpuriousLossDetection: restores the bounds from before the loss. The parent module restores the rest.
    pub(super) fn restore(&mut self, bw_shortterm: u64, inflight_shortterm: u64, inflight_longterm: u64) {
        self.is_loss_in_round = false;
        self.reset_full_bw();
        self.bw_shortterm = self.bw_shortterm.max(bw_shortterm);
        self.inflight_shortterm = self.inflight_shortterm.max(inflight_shortterm);
        self.inflight_longterm = self.inflight_longterm.max(inflight_longterm);
    }

    /// ResetFullBW: restarts the detection of a full path.
    pub(super) fn reset_full_bw(&mut self) {
        (self.full_bw, self.full_bw_count, self.full_bw_now) = (0, 0, false);
    }

    /// CheckFullBWReached: detects a full path after three round trips in each of which the rate grew by less than a
    /// quarter.
    pub(super) fn check_full_bw(&mut self, sample: &RateSample) {
        if self.full_bw_now || !self.round_start || sample.app_limited {
            return;
        }
        if u128::from(sample.rate) * 4 >= u128::from(self.full_bw) * 5 {
            self.reset_full_bw();
            self.full_bw = sample.rate;
            return;
        }
        self.full_bw_count += 1;
        self.full_bw_now = self.full_bw_count >= 3;
        self.full_bw_reached |= self.full_bw_now;
    }

    /// UpdateMinRTT: updates the minimum round-trip time from a sample in nanoseconds.
    pub(super) fn update_min_rtt(&mut self, now: Instant, rtt: Option<u64>) {
        self.probe_rtt_expired =
            self.probe_rtt_min.is_some() && now.since(self.probe_rtt_min_stamp) > PROBE_RTT_INTERVAL;
        if let Some(rtt) = rtt
            && (self.probe_rtt_min.is_none_or(|least| rtt < least) || self.probe_rtt_expired)
        {
            self.probe_rtt_min = Some(rtt);
            self.probe_rtt_min_stamp = now;
        }
        let expired = now.since(self.min_rtt_stamp) > MIN_RTT_SPAN;
        if let Some(least) = self.probe_rtt_min
            && (self.min_rtt.is_none_or(|known| least < known) || expired)
        {
            self.min_rtt = Some(least);
            self.min_rtt_stamp = self.probe_rtt_min_stamp;
        }
    }

    /// Restarts the measurement of aggregation at `now`. Called when no data was in flight, so earlier acknowledgements
    /// do not matter.
    pub(super) fn restart_aggregation(&mut self, now: Instant) {
        self.aggregation_start = now;
    }

    /// UpdateACKAggregation: counts `acked` more bytes, and measures how far the acknowledged bytes exceed the expected
    /// amount. `window` is the congestion window.
    pub(super) fn update_aggregation(&mut self, now: Instant, acked: u64, window: u64) {
        let span = u128::from(now.since(self.aggregation_start).as_nanos() as u64);
        let mut expected = u64::try_from(u128::from(self.bw()) * span / 1_000_000_000).unwrap_or(u64::MAX);
        if self.aggregation_delivered <= expected {
            self.aggregation_delivered = 0;
            self.aggregation_start = now;
            expected = 0;
        }
        self.aggregation_delivered += acked;
        let extra = self.aggregation_delivered.saturating_sub(expected).min(window);
        let rounds = if self.full_bw_reached { AGGREGATION_ROUNDS } else { 1 };
        if self.round_count - self.extra_acked_since >= rounds.div_ceil(2) {
            self.extra_acked = [self.extra_acked[1], 0];
            self.extra_acked_since = self.round_count;
        }
        self.extra_acked[1] = self.extra_acked[1].max(extra);
    }
}
