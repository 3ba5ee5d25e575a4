//! RED: random early detection, with the gentle slope or without.
//!
//! Floyd and Jacobson, "Random Early Detection Gateways for Congestion
//! Avoidance", 1993; the gentle variant is Floyd's of 2000, which ns-2 takes by
//! default. Queues are measured in packets. The averaged queue, in packets, and all probabilities are fixed
//! point: no floating point takes part in a decision.

use super::{Admission, Backlog};
use anabranch_base::{Instant, Ratio, Rng};

/// What RED is set to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RedConfig {
    /// Below this average nothing is dropped, in packets.
    pub min: u64,
    /// At this average the probability reaches `max_probability`, in packets.
    pub max: u64,
    /// The probability at `max`.
    pub max_probability: Ratio,
    /// The weight of a sample in the average.
    pub weight: Ratio,
    /// Above `max` the probability rises to 1 at twice `max`; else it is 1 there (1993).
    pub gentle: bool,
    /// Marks ECN-capable packets instead of dropping them (below `max`).
    pub ecn: bool,
}

impl Default for RedConfig {
    /// Floyd's recommendation and ns-2's default: 5, 15, 10 %, about 0.002 (1/512).
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

/// RED's state.
#[derive(Clone, Debug)]
pub struct Red {
    config: RedConfig,
    /// The weight of a sample, in parts of [`ONE`].
    weight: u64,
    /// The averaged queue in packets, 32 bits after the point.
    average: u64,
    /// Packets since the last one that was marked or dropped.
    count: u64,
    /// What a packet takes to serialize, seen last, in nanoseconds.
    service: u64,
    last_at: Instant,
    rng: Rng,
}

impl Red {
    /// RED with an empty queue.
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

    /// Whether the queue marks rather than drops.
    #[must_use]
    pub const fn ecn(&self) -> bool {
        self.config.ecn
    }

    /// The averaged queue in packets, rounded down.
    #[must_use]
    pub const fn average_packets(&self) -> u64 {
        self.average >> POINT
    }

    /// Decides about a packet that has arrived, after [`observe`](Self::observe).
    pub fn admit(&mut self) -> Admission {
        let probability = self.probability();
        if probability == 0 {
            self.count = 0;
            return Admission::Take;
        }
        self.count += 1;
        // Spread the marks evenly: pa = pb / (1 − count·pb).
        let spread = (self.count - 1).saturating_mul(probability);
        let hit = probability >= ONE || spread >= ONE || self.rng.below(ONE - spread) < probability;
        if !hit {
            return Admission::Take;
        }
        self.count = 0;
        // Above the upper threshold even ECN-capable packets are dropped.
        if self.average >> POINT >= self.config.max { Admission::Drop } else { Admission::MarkOrDrop }
    }

    /// Takes the present queue into the average; an idle time counts as many
    /// samples of an empty queue as packets could have been sent in it.
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

    /// How long a packet lately took on the wire, for the reckoning of idle time.
    pub(super) fn served_in(&mut self, nanos: u64) {
        self.service = nanos;
    }

    /// The probability before spreading, in parts of [`ONE`].
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

/// `height · part / whole`.
fn slope(part: u64, whole: u64, height: u64) -> u64 {
    (u128::from(part) * u128::from(height) / u128::from(whole.max(1))) as u64
}

/// `value · weight`.
fn weighed(value: u64, weight: u64) -> u64 {
    ((u128::from(value) * u128::from(weight)) >> POINT) as u64
}

/// `average · (1 − weight)^samples`, by repeated squaring.
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

/// Bits after the point.
const POINT: u32 = 32;

/// Certainty.
const ONE: u64 = 1 << POINT;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::{Blank, Cause, Fate, Passing};
    use crate::meter::Meter;
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
        // (1 − 1/512)^700 = 0.2545: 5.09 packets are left.
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
        // 5 – 15: to 10 %; 15 – 30: to 100 %. In thousandths, rounded down.
        let found: Vec<u64> = [4, 5, 10, 15, 20, 25, 30, 40].into_iter().map(&mut percent).collect();
        assert_eq!(found, [0, 0, 49, 99, 399, 699, 1000, 1000]);
    }

    /// Without the gentle slope certainty begins at `max`, as in 1993.
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

    /// The average of a queue of ten after so many samples is 10 · (1 − (1 − w)^n): w = 1/512 is exactly a shift by nine,
    /// 0.2 % is Floyd and Jacobson's.
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

    /// Offered 110 % of the rate without a reaction, RED sheds the tenth that is
    /// too much early and keeps the average between its thresholds.
    #[test]
    fn an_overload_is_shed_early() {
        let serializer = Serializer::Rate(Rate::new("12mbit".parse().expect("a rate")));
        let red = Red::new(RedConfig::default(), Rng::new(2));
        let mut queue = Bottleneck::new(Limit::Packets(100), Policy::Red(Box::new(red)), serializer);
        let mut meter = Meter::default();
        let (mut early, mut full) = (0, 0);
        for i in 0..20_000_u64 {
            let at = Instant::from_nanos(i * 909_091);
            match queue.pass(at, &mut Blank::new(1500), &mut meter) {
                Fate::Lost(Cause::Early) => early += 1,
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
