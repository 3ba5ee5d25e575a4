//! RED: random early detection, with an optional gentle slope above `max`.
//!
//! The algorithm is that of Floyd and Jacobson, "Random Early Detection Gateways for Congestion Avoidance", 1993. The
//! gentle variant was published by Floyd in 2000, and is the default of ns-2. Queue lengths are measured in packets.
//! The average queue length and all probabilities are fixed-point numbers, so no decision depends on floating point.

use super::{Admission, Backlog};
use anabranch_base::{Instant, Ratio, Rng};

/// The settings of RED.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RedConfig {
    /// The average queue length in packets below which no packet is dropped.
    pub min: u64,
    /// The average queue length in packets at which the drop probability reaches `max_probability`.
    pub max: u64,
    /// The drop probability at an average queue length of `max`.
    pub max_probability: Ratio,
    /// The weight of one sample of the queue length in the average.
    pub weight: Ratio,
    /// Whether the probability rises gently from `max_probability` to 1 between `max` and twice `max`. Otherwise the
    /// probability is 1 from `max` on, as published in 1993.
    pub gentle: bool,
    /// Whether ECN-capable packets are marked instead of dropped while the average queue length is below `max`.
    pub ecn: bool,
}

impl Default for RedConfig {
    /// The defaults that Floyd recommends and ns-2 uses: `min` 5 packets, `max` 15 packets, probability 10 %, weight
    /// about 0.002 (1/512).
    fn default() -> Self {
        let share = |parts, of| Ratio::new(parts, of).unwrap_or(Ratio::ONE);
        Self {
            min: 5,
            max: 15,
            max_probability: share(1, 10),
            weight: share(1, 512),
            gentle: true,
            ecn: false,
        }
    }
}

/// The state of RED.
#[derive(Clone, Debug)]
pub struct Red {
    config: RedConfig,
    /// The weight of one sample, in units of 1/[`ONE`].
    weight: u64,
    /// The average queue length in packets, as a fixed-point number with 32 fractional bits.
    average: u64,
    /// The number of packets since RED last marked or dropped a packet.
    count: u64,
    /// The serialization time of the last packet, in nanoseconds.
    service: u64,
    last_at: Instant,
    rng: Rng,
}

impl Red {
    /// Creates the state of RED for an empty queue.
    #[must_use]
    pub fn new(config: RedConfig, rng: Rng) -> Self {
        Self {
            config,
            weight: ratio_to_fixed(config.weight),
            average: 0,
            count: 0,
            service: 0,
            last_at: Instant::ZERO,
            rng,
        }
    }

    /// Returns whether the queue marks ECN-capable packets instead of dropping them.
    #[must_use]
    pub const fn ecn(&self) -> bool {
        self.config.ecn
    }

    /// Returns the average queue length in packets, rounded down.
    #[must_use]
    pub const fn average_packets(&self) -> u64 {
        self.average >> POINT
    }

    /// Decides about a packet that has arrived. Call this after [`observe`](Self::observe).
    pub fn admit(&mut self) -> Admission {
        let probability = self.probability();
        if probability == 0 {
            self.count = 0;
            return Admission::Take;
        }
        self.count += 1;
        // RED spreads the drops evenly. With the base probability pb and `count` packets since the last drop, the
        // packet is dropped with probability pa = pb / (1 − count·pb).
        let spread = (self.count - 1).saturating_mul(probability);
        let hit = probability >= ONE || spread >= ONE || self.rng.below(ONE - spread) < probability;
        if !hit {
            return Admission::Take;
        }
        self.count = 0;
        // If the average queue length is at least `max`, even ECN-capable packets are dropped.
        if self.average >> POINT >= self.config.max { Admission::Drop } else { Admission::MarkOrDrop }
    }

    /// Updates the average queue length with the current queue length. An idle period adds samples of an empty queue:
    /// one for each packet that the link could have sent in the period.
    pub fn observe(&mut self, at: Instant, backlog: &Backlog) {
        let waiting = backlog.occupancy().packets;
        if waiting == 0 {
            let idle_from = backlog.empty_from().max(self.last_at);
            let idle = at.as_nanos().saturating_sub(idle_from.as_nanos());
            let could_have_left = idle.checked_div(self.service).unwrap_or(0);
            self.average = decay(self.average, self.weight, could_have_left.saturating_add(1));
        } else {
            let sample = waiting << POINT;
            self.average = if sample >= self.average {
                self.average + weighed(sample - self.average, self.weight)
            } else {
                self.average - weighed(self.average - sample, self.weight)
            };
        }
        self.last_at = at;
    }

    /// Sets the serialization time of the last packet. This time determines how many samples an idle period adds.
    pub(super) fn served_in(&mut self, nanos: u64) {
        self.service = nanos;
    }

    /// Returns the base probability pb for the current average, in units of 1/[`ONE`].
    fn probability(&self) -> u64 {
        let min = self.config.min << POINT;
        let max = self.config.max << POINT;
        let top = ratio_to_fixed(self.config.max_probability);
        if self.average < min {
            0
        } else if self.average < max {
            slope(self.average - min, max - min, top)
        } else if self.config.gentle && self.average < 2 * max {
            top + slope(self.average - max, max, ONE - top)
        } else {
            ONE
        }
    }
}

/// Returns `height · part / whole`.
fn slope(part: u64, whole: u64, height: u64) -> u64 {
    (u128::from(part) * u128::from(height) / u128::from(whole.max(1))) as u64
}

/// Returns `value · weight`, where `weight` is a fixed-point number.
fn weighed(value: u64, weight: u64) -> u64 {
    ((u128::from(value) * u128::from(weight)) >> POINT) as u64
}

/// Returns `average · (1 − weight)^samples`, computed by repeated squaring.
fn decay(average: u64, weight: u64, mut samples: u64) -> u64 {
    let mut base = u128::from(ONE - weight);
    let mut factor = u128::from(ONE);
    while samples > 0 && factor > 0 {
        if samples & 1 == 1 {
            factor = (factor * base) >> POINT;
        }
        base = (base * base) >> POINT;
        samples >>= 1;
    }
    ((u128::from(average) * factor) >> POINT) as u64
}

fn ratio_to_fixed(ratio: Ratio) -> u64 {
    slope(ratio.parts(), Ratio::ONE.parts(), ONE)
}

/// The number of fractional bits of fixed-point numbers.
const POINT: u32 = 32;

/// The number 1 as a fixed-point probability or queue length.
const ONE: u64 = 1 << POINT;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::{Fate, ImmediateElement, TestPacket};
    use crate::meter::{DropCause, Meter};
    use crate::queue::{Bottleneck, Limit, Policy};
    use crate::rate::{Rate, Serializer};

    #[test]
    fn an_idle_time_decays_the_average_like_so_many_empty_samples() {
        let start = 20 << POINT;
        let mut stepwise = start;
        for _ in 0..700 {
            stepwise = decay(stepwise, ONE >> 9, 1);
        }
        let at_once = decay(start, ONE >> 9, 700);
        assert!(stepwise.abs_diff(at_once) < 1 << 12, "{stepwise} {at_once}");
        // After 700 samples of an empty queue, the factor is (1 − 1/512)^700 = 0.2545. So the average decays from 20
        // packets to 5.09.
        assert_eq!((at_once * 100) >> POINT, 508);
        assert_eq!(decay(start, ONE >> 9, u64::MAX), 0);
    }

    #[test]
    fn the_probability_rises_gently_to_certainty() {
        let mut red = Red::new(RedConfig::default(), Rng::new(1));
        let mut percent = |packets: u64| {
            red.average = packets << POINT;
            (red.probability() as u128 * 1000 / u128::from(ONE)) as u64
        };
        // The average queue length determines the probability. Between 5 and 15 packets, the probability rises from 0
        // to 10 %; between 15 and 30 packets, from 10 to 100 %. The results are in thousandths, rounded down.
        let found: Vec<u64> = [4, 5, 10, 15, 20, 25, 30, 40].into_iter().map(&mut percent).collect();
        assert_eq!(found, [0, 0, 49, 99, 399, 699, 1000, 1000]);
    }

    /// Without the gentle slope, the probability is 1 from `max` on, as published in 1993.
    #[test]
    fn the_probability_jumps_to_certainty_without_the_gentle_slope() {
        let config = RedConfig { gentle: false, ..RedConfig::default() };
        let mut red = Red::new(config, Rng::new(1));
        let mut percent = |packets: u64| {
            red.average = packets << POINT;
            (red.probability() as u128 * 1000 / u128::from(ONE)) as u64
        };
        let found: Vec<u64> = [4, 5, 10, 14, 15, 20, 30].into_iter().map(&mut percent).collect();
        assert_eq!(found, [0, 0, 49, 89, 1000, 1000, 1000]);
    }

    /// For a queue of ten packets, the average after n samples is 10 · (1 − (1 − w)^n), where w is the weight. A weight
    /// of 1/512 is an exact shift by nine bits; 0.2 % is the value of Floyd and Jacobson.
    #[test]
    fn the_average_follows_the_queue_by_its_weight() {
        let mut backlog = Backlog::default();
        (0..10).for_each(|_| backlog.add(Instant::MAX, 1500));
        let average = |weight: Ratio, samples: u64| {
            let mut red = Red::new(RedConfig { weight, ..RedConfig::default() }, Rng::new(1));
            (0..samples).for_each(|n| red.observe(Instant::from_millis(n), &backlog));
            (red.average * 1000) >> POINT
        };
        assert_eq!(ratio_to_fixed(RedConfig::default().weight), ONE >> 9);
        assert_eq!(average(RedConfig::default().weight, 1), 19);
        assert_eq!(average(RedConfig::default().weight, 100), 1775);
        assert_eq!(average("0.2%".parse().expect("a share"), 100), 1814);
        assert_eq!(average("2%".parse().expect("a share"), 100), 8673);
    }

    /// A sender that does not react to losses sends at 110 % of the rate. RED drops the excess tenth early and keeps
    /// the average between its thresholds.
    #[test]
    fn an_overload_is_shed_early() {
        let serializer = Serializer::Rate(Rate::new("12mbit".parse().expect("a rate")));
        let red = Red::new(RedConfig::default(), Rng::new(2));
        let mut queue = Bottleneck::new(Limit::Packets(100), Policy::Red(Box::new(red)), serializer);
        let mut meter = Meter::default();
        let (mut early, mut full) = (0, 0);
        for i in 0..20_000_u64 {
            let at = Instant::from_nanos(i * 909_091);
            match queue.pass(at, &mut TestPacket::new(1500), &mut meter) {
                Fate::Lost(DropCause::Early) => early += 1,
                Fate::Lost(_) => full += 1,
                _ => {}
            }
        }
        assert_eq!(full, 0);
        assert!((1_700..1_950).contains(&early), "{early}");
        let Policy::Red(red) = &queue.policy else { panic!("it is RED") };
        assert!((9..30).contains(&red.average_packets()), "{}", red.average_packets());
    }
}
