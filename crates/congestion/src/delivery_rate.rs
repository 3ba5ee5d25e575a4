//! Measures how fast a path delivers data: each acknowledgement gives one rate sample.
//!
//! Computes a [`RateSample`] from each [`AckReport`]. A sample covers the data delivered between the sending and the
//! acknowledgement of the newest acknowledged packet. Its rate is the lower of two rates: that at which this data was
//! sent, and that at which it was acknowledged. For each time at which data was sent, a record has the totals of
//! delivered, lost and outstanding bytes. Records are found by their send time, so that a transport stores nothing with
//! its packets.
//!
//! Implements the section "Delivery Rate Samples" of draft-ietf-ccwg-bbr. This module differs from the draft in one
//! way: the losses that an acknowledgement reveals are handled together, with the send time of the newest lost packet.

use anabranch_base::Instant;
use anabranch_base::time::{Duration, nanos};
use std::collections::VecDeque;

/// The report that the transport gives to a congestion controller such as BBR, which models the path. A report follows
/// each acknowledgement, and each expiry of the loss timer of RFC 8985.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AckReport {
    /// The number of bytes that the acknowledgement newly reports as delivered, cumulatively or selectively.
    pub delivered: u64,
    /// The send time of the newest data among the bytes newly delivered.
    pub newest: Option<Instant>,
    /// The round-trip time of the newest delivered data, if that data was sent only once.
    pub rtt: Option<Duration>,
    /// The number of bytes that are newly considered lost.
    pub lost: u64,
    /// The send time of the newest data among the bytes newly considered lost.
    pub newest_lost: Option<Instant>,
    /// The number of bytes in flight now: sent, but neither delivered nor considered lost.
    pub in_flight: u64,
    /// Whether a loss is being repaired.
    pub recovering: bool,
}

/// The data that the transport has declared lost since the last [`AckReport`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NewlyLost {
    /// The number of lost bytes.
    pub bytes: u64,
    /// The send time of the newest lost data.
    pub newest: Option<Instant>,
}

impl NewlyLost {
    /// Adds `bytes` lost bytes that were sent at `at`.
    #[inline]
    pub fn add(&mut self, at: Instant, bytes: u64) {
        self.bytes += bytes;
        self.newest = self.newest.max(Some(at));
    }
}

/// The record of the data that was sent at one instant, with the totals at that time.
#[derive(Clone, Copy, Debug)]
struct SendRecord {
    at: Instant,
    delivered: u64,
    lost: u64,
    delivered_at: Instant,
    first_sent: Instant,
    in_flight: u64,
    app_limited: bool,
}

/// The rate sample that is computed from one report. Among the packets that this report newly delivers, "the newest
/// packet" is the one that was sent last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RateSample {
    /// RS.delivery_rate in bytes per second; 0 if the report gives no reliable rate.
    pub rate: u64,
    /// RS.delivered: the bytes delivered since the newest packet was sent.
    pub delivered: u64,
    /// RS.prior_delivered: the bytes that had been delivered when the newest packet was sent. `None` if the report
    /// newly delivers no packet.
    pub prior_delivered: Option<u64>,
    /// RS.tx_in_flight: the bytes in flight just after the newest packet was sent.
    pub tx_in_flight: u64,
    /// RS.lost: the number of bytes declared lost since the newest packet was sent.
    pub lost: u64,
    /// RS.is_app_limited: whether the application had no more data when the newest packet was sent.
    pub app_limited: bool,
}

/// A summary of the losses in one [`AckReport`]. Among the packets that this report newly declares lost, "the lost
/// packet" is the one that was sent last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LossSample {
    /// RS.tx_in_flight: the bytes in flight just after the lost packet was sent.
    pub tx_in_flight: u64,
    /// RS.lost: the number of bytes declared lost from the sending of "the lost packet" until this report. The bytes of
    /// this packet are included.
    pub lost: u64,
    /// RS.is_app_limited: whether the application had no more data when the lost packet was sent.
    pub app_limited: bool,
}

/// The state for measuring the delivery rate of one path.
#[derive(Clone, Debug, Default)]
pub struct RateSampler {
    sent: VecDeque<SendRecord>,
    delivered: u64,
    lost: u64,
    in_flight: u64,
    delivered_at: Instant,
    first_sent: Instant,
    /// C.app_limited: samples count as application-limited until `delivered` exceeds this number of bytes. 0 while
    /// samples are not limited.
    limited_until: u64,
    min_rtt: Option<u64>,
    last_rtt: u64,
}

/// The largest number of records. If there are more records, the oldest are discarded.
const MOST_RECORDS: usize = 1 << 15;

impl RateSampler {
    /// Returns C.delivered: the number of bytes delivered so far.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Returns C.inflight: the number of bytes in the network.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Returns whether no data is in flight and the application had no data to send.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.limited_until > 0
    }

    /// OnPacketSent: records that `bytes` bytes are sent at `now`.
    pub fn on_sent(&mut self, now: Instant, bytes: u64) {
        if self.in_flight == 0 {
            (self.first_sent, self.delivered_at) = (now, now);
        }
        self.in_flight += bytes;
        if let Some(last) = self.sent.back_mut().filter(|last| last.at == now) {
            last.in_flight = self.in_flight;
            return;
        }
        if self.sent.len() == MOST_RECORDS {
            self.sent.pop_front();
        }
        self.sent.push_back(SendRecord {
            at: now,
            delivered: self.delivered,
            lost: self.lost,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            in_flight: self.in_flight,
            app_limited: self.limited_until > 0,
        });
    }

    /// MarkConnectionAppLimited: until the data in flight has been delivered, samples count as limited by the
    /// application.
    pub fn mark_limited(&mut self) {
        self.limited_until = (self.delivered + self.in_flight).max(1);
    }

    /// Counts all data in flight as lost, because the retransmission timer has expired.
    pub fn lose_all(&mut self) {
        self.lost += self.in_flight;
        self.in_flight = 0;
    }

    /// Corrects an earlier call of [`lose_all`](Self::lose_all): `in_flight` bytes are in flight after all, and no
    /// longer count as lost.
    pub fn restore_in_flight(&mut self, in_flight: u64) {
        self.lost = self.lost.saturating_sub(in_flight.saturating_sub(self.in_flight));
        self.in_flight = in_flight;
    }

    /// UpdateRateSample and GenerateRateSample: processes a report and returns its rate sample. Also returns a summary
    /// of the losses in the same report.
    pub fn on_report(&mut self, now: Instant, report: &AckReport) -> (RateSample, Option<LossSample>) {
        self.delivered += report.delivered;
        self.lost += report.lost;
        self.in_flight = report.in_flight;
        if report.delivered > 0 {
            self.delivered_at = now;
        }
        if let Some(rtt) = report.rtt.map(nanos) {
            self.last_rtt = rtt;
            self.min_rtt = Some(self.min_rtt.map_or(rtt, |least| least.min(rtt)));
        }
        let loss = report.newest_lost.and_then(|at| self.record(at)).map(|record| LossSample {
            tx_in_flight: record.in_flight,
            lost: self.lost - record.lost,
            app_limited: record.app_limited,
        });
        let mut sample = RateSample::default();
        if let Some(record) = report.newest.and_then(|at| self.record(at)) {
            sample = RateSample {
                rate: 0,
                delivered: self.delivered - record.delivered,
                prior_delivered: Some(record.delivered),
                tx_in_flight: record.in_flight,
                lost: self.lost - record.lost,
                app_limited: record.app_limited,
            };
            self.first_sent = record.at;
            let sending = nanos(record.at.since(record.first_sent));
            let interval = sending.max(nanos(now.since(record.delivered_at)));
            // An interval shorter than the minimum round-trip time comes from a spurious retransmission: the original
            // packet was acknowledged. Such an interval gives no rate.
            if interval > 0 && self.min_rtt.is_none_or(|least| interval >= least) {
                sample.rate = per_second(sample.delivered, interval);
            }
            // `record.at` is the time at which the newest delivered data was sent. Data that was sent more than two
            // round trips earlier can hardly be declared lost any more, so its records are discarded.
            let oldest = record.at.as_nanos().saturating_sub(2 * self.last_rtt);
            while self.sent.front().is_some_and(|first| first.at.as_nanos() < oldest) {
                self.sent.pop_front();
            }
        }
        if self.limited_until > 0 && self.delivered > self.limited_until {
            self.limited_until = 0;
        }
        (sample, loss)
    }

    /// Returns the record of the data sent at `at`, or of the last data sent before that time.
    fn record(&self, at: Instant) -> Option<SendRecord> {
        let after = self.sent.partition_point(|sent| sent.at <= at);
        self.sent.get(after.checked_sub(1)?).copied()
    }
}

/// Returns the rate of `bytes` bytes in `interval` nanoseconds, in bytes per second.
fn per_second(bytes: u64, interval: u64) -> u64 {
    u64::try_from(u128::from(bytes) * 1_000_000_000 / u128::from(interval.max(1))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn delivered(bytes: u64, newest: u64, now: u64, in_flight: u64) -> AckReport {
        AckReport {
            delivered: bytes,
            newest: Some(at(newest)),
            rtt: Some(Duration::from_millis(now - newest)),
            in_flight,
            ..AckReport::default()
        }
    }

    #[test]
    fn the_rate_is_that_of_the_bottleneck_however_fast_the_flight_left() {
        let mut sampler = RateSampler::default();
        // Ten packets are sent at once, and the bottleneck passes one packet every 10 ms.
        sampler.on_sent(at(1_000), 10_000);
        let mut rates = Vec::new();
        for n in 1..=10 {
            let now = 1_090 + 10 * n;
            rates.push(sampler.on_report(at(now), &delivered(1_000, 1_000, now, 10_000 - 1_000 * n)).0.rate);
        }
        // The first sample has a low rate: it divides one packet by the round-trip time of 100 ms. The last sample
        // divides all ten packets by 190 ms.
        assert_eq!((rates[0], rates[9]), (10_000, 52_631));
        // The packets of the next flight are sent as acknowledgements arrive: 1,000 bytes every 10 ms.
        let mut sampler = RateSampler::default();
        for n in 0..20 {
            sampler.on_sent(at(1_000 + 10 * n), 1_000);
        }
        let mut last = RateSample::default();
        for n in 0..20 {
            let (sent, now) = (1_000 + 10 * n, 1_200 + 10 * n);
            last = sampler.on_report(at(now), &delivered(1_000, sent, now, 19_000 - 1_000 * n)).0;
        }
        assert_eq!(last.rate, 1_000 * 20 * 1_000 / 390);
    }

    #[test]
    fn what_left_while_there_was_nothing_more_to_send_is_marked() {
        let mut sampler = RateSampler::default();
        sampler.on_sent(at(1_000), 1_000);
        sampler.mark_limited();
        sampler.on_sent(at(1_010), 1_000);
        assert!(!sampler.on_report(at(1_100), &delivered(1_000, 1_000, 1_100, 1_000)).0.app_limited);
        assert!(!sampler.is_idle());
        sampler.on_sent(at(1_101), 1_000);
        assert!(sampler.on_report(at(1_110), &delivered(1_000, 1_010, 1_110, 1_000)).0.app_limited);
        // All data that was outstanding when the application ran out of data has now been delivered. The packet that is
        // sent next gives a sample that does not count as limited by the application.
        sampler.on_sent(at(1_111), 1_000);
        sampler.on_report(at(1_201), &delivered(1_000, 1_101, 1_201, 1_000));
        assert!(!sampler.on_report(at(1_211), &delivered(1_000, 1_111, 1_211, 0)).0.app_limited);
    }

    #[test]
    fn a_loss_is_judged_by_the_flight_it_was_sent_into() {
        let mut sampler = RateSampler::default();
        for n in 0..10 {
            sampler.on_sent(at(1_000 + n), 1_000);
        }
        let report = AckReport {
            delivered: 1_000,
            newest: Some(at(1_009)),
            lost: 3_000,
            newest_lost: Some(at(1_004)),
            in_flight: 6_000,
            ..AckReport::default()
        };
        let (sample, loss) = sampler.on_report(at(1_109), &report);
        assert_eq!(loss, Some(LossSample { tx_in_flight: 5_000, lost: 3_000, app_limited: false }));
        assert_eq!((sample.tx_in_flight, sample.lost, sample.prior_delivered), (10_000, 3_000, Some(0)));
    }

    #[test]
    fn an_answer_that_came_sooner_than_any_round_trip_gives_no_rate() {
        let mut sampler = RateSampler::default();
        sampler.on_sent(at(1_000), 1_000);
        sampler.on_report(at(1_100), &delivered(1_000, 1_000, 1_100, 0));
        sampler.on_sent(at(1_200), 5_000);
        let early = AckReport { delivered: 5_000, newest: Some(at(1_200)), ..AckReport::default() };
        assert_eq!(sampler.on_report(at(1_201), &early).0.rate, 0);
    }

    #[test]
    fn records_are_bounded() {
        let mut sampler = RateSampler::default();
        for n in 0..2 * MOST_RECORDS as u64 {
            sampler.on_sent(Instant::from_nanos(n), 1);
        }
        assert_eq!(sampler.sent.len(), MOST_RECORDS);
    }
}
