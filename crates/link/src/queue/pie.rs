//! PIE: drops arriving packets at random, to hold the queueing delay at a target.
//!
//! Implements RFC 8033: §4.1 random dropping, §4.2 the drop probability, §4.3 the latency, §4.4 burst tolerance, §5.1
//! ECN, §5.4 derandomisation, §5.5 the cap on the probability's growth. The latency is the time that the last packet in
//! the queue still has to wait. This time is known exactly, so the timestamps of §4.3 are not needed.
//!
//! The probability is a fixed-point number in units of 10⁻¹². The formula of §4.2 adds weighted delays in seconds to
//! the probability. A delay of 1 ns is 10⁻⁹ s, so before the weighting it counts as 1000 of these units.

use super::{Admission, Backlog};
use anabranch_base::time::{Duration, nanos};
use anabranch_base::{Instant, Ratio, Rng};

/// The settings of PIE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PieConfig {
    /// The queueing delay at which PIE holds the queue (QDELAY_REF).
    pub target: Duration,
    /// The interval between updates of the drop probability (T_UPDATE).
    pub update: Duration,
    /// The duration of bursts that pass without drops (MAX_BURST).
    pub burst: Duration,
    /// Whether ECN-capable packets are marked instead of dropped, up to a probability of 10 %.
    pub ecn: bool,
    /// The size of a full packet in bytes. Nothing is dropped while the queue holds at most two full packets.
    pub mean_packet: u64,
}

impl Default for PieConfig {
    /// The default values of RFC 8033 §4.
    fn default() -> Self {
        Self {
            target: Duration::from_millis(15),
            update: Duration::from_millis(15),
            burst: Duration::from_millis(150),
            ecn: false,
            mean_packet: 1500,
        }
    }
}

/// The state of PIE.
#[derive(Clone, Debug)]
pub struct Pie {
    config: PieConfig,
    target: u64,
    /// The drop probability in units of 1/[`ONE`].
    probability: u64,
    /// The sum of the drop probabilities of all packets since the last drop.
    accumulated: u64,
    /// The queueing delay at the last update of the probability, in nanoseconds.
    old_delay: u64,
    /// The remaining burst allowance, in nanoseconds.
    burst_left: u64,
    next_update: Instant,
    rng: Rng,
}

impl Pie {
    /// Creates the state of PIE for an empty queue.
    #[must_use]
    pub fn new(config: PieConfig, rng: Rng) -> Self {
        Self {
            config,
            target: nanos(config.target),
            probability: 0,
            accumulated: 0,
            old_delay: 0,
            burst_left: nanos(config.burst),
            next_update: Instant::ZERO + config.update,
            rng,
        }
    }

    /// Returns whether the queue marks ECN-capable packets instead of dropping them.
    #[must_use]
    pub const fn ecn(&self) -> bool {
        self.config.ecn
    }

    /// Returns the current drop probability.
    #[must_use]
    pub fn probability(&self) -> Ratio {
        Ratio::new(self.probability, ONE).unwrap_or(Ratio::ONE)
    }

    /// Decides about a packet that arrives at `at`.
    pub fn admit(&mut self, at: Instant, backlog: &Backlog) -> Admission {
        self.catch_up(at, backlog);
        // RFC 8033 §4.4: accept every packet while the burst allowance lasts.
        if self.burst_left > 0 {
            return Admission::Take;
        }
        // RFC 8033 §4.1: nothing is dropped if the queue is short, either in time or in bytes.
        let short = self.old_delay < self.target / 2 && self.probability < ONE / 5;
        if short || backlog.occupancy().bytes <= 2 * self.config.mean_packet {
            return Admission::Take;
        }
        if !self.draw() {
            return Admission::Take;
        }
        // RFC 8033 §5.1: if the probability exceeds 10 %, drop even ECN-capable packets.
        if self.probability <= ONE / 10 { Admission::MarkOrDrop } else { Admission::Drop }
    }

    /// RFC 8033 §5.4: decides at random whether to drop a packet, but avoids drops that are too close together or too
    /// far apart.
    fn draw(&mut self) -> bool {
        if self.probability == 0 {
            self.accumulated = 0;
        }
        self.accumulated = self.accumulated.saturating_add(self.probability);
        if self.accumulated < ONE / 100 * 85 {
            return false;
        }
        let hit = self.accumulated >= ONE / 10 * 85 || self.rng.below(ONE) < self.probability;
        if hit {
            self.accumulated = 0;
        }
        hit
    }

    /// Performs the updates of the probability that were due since the last packet.
    fn catch_up(&mut self, at: Instant, backlog: &Backlog) {
        while self.next_update <= at {
            let delay = backlog.delay_at(self.next_update);
            self.update(delay);
            self.next_update += self.config.update;
            let at_rest = self.probability == 0
                && self.old_delay == 0
                && delay == 0
                && self.burst_left == nanos(self.config.burst);
            if at_rest && self.next_update <= at {
                // Further updates would change nothing until the next packet, so all updates up to the time `at` are
                // skipped.
                let update = nanos(self.config.update).max(1);
                let missed = (at.as_nanos() - self.next_update.as_nanos()) / update;
                self.next_update = self.next_update.plus_nanos((missed + 1).saturating_mul(update));
            }
        }
    }

    /// RFC 8033 §4.2: updates the drop probability with a proportional integral controller.
    fn update(&mut self, delay: u64) {
        let target = self.target as i128;
        // The gains, in probability per second of delay, are alpha = 1/8 and beta = 10/8. In fixed-point units of
        // 10⁻¹², a probability of 1 per second is 1000 units per nanosecond. Hence the factor 1000.
        let error = (delay as i128 - target) * 1000;
        let change = (delay as i128 - self.old_delay as i128) * 1000;
        let mut step = (error + 10 * change) / 8;
        // RFC 8033 §4.2: take smaller steps while the probability is small.
        let scale = [
            (ONE / 1_000_000, 2048),
            (ONE / 100_000, 512),
            (ONE / 10_000, 128),
            (ONE / 1000, 32),
            (ONE / 100, 8),
            (ONE / 10, 2),
        ];
        if let Some((_, divisor)) = scale.iter().find(|(below, _)| self.probability < *below) {
            step /= divisor;
        }
        // RFC 8033 §5.5: from a probability of 10 % on, one update adds at most 2 percentage points.
        if self.probability >= ONE / 10 {
            step = step.min((ONE / 50) as i128);
        }
        let mut probability = (self.probability as i128 + step).clamp(0, ONE as i128) as u64;
        // RFC 8033 §4.2: let the probability decay while there is no congestion.
        if delay == 0 && self.old_delay == 0 {
            probability -= probability.div_ceil(64);
        }
        self.probability = probability;
        self.update_burst(delay);
        self.old_delay = delay;
    }

    /// RFC 8033 §4.4: decreases the burst allowance with time, and renews it when the queue is short.
    fn update_burst(&mut self, delay: u64) {
        self.burst_left = self.burst_left.saturating_sub(nanos(self.config.update));
        let calm = delay < self.target / 2 && self.old_delay < self.target / 2;
        if self.probability == 0 && calm {
            self.burst_left = nanos(self.config.burst);
        }
    }
}

/// The probability 1 in fixed-point units.
const ONE: u64 = Ratio::ONE.parts();

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::{Fate, ImmediateElement, TestPacket};
    use crate::meter::{DropCause, Meter};
    use crate::queue::{Bottleneck, Limit, Policy};
    use crate::rate::{Rate, Serializer};

    fn pie() -> Pie {
        Pie::new(PieConfig::default(), Rng::new(1))
    }

    /// RFC 8033 §4.2: the step is alpha (delay − target) + beta (delay − old delay), scaled down while the probability
    /// is small.
    #[test]
    fn the_controller_steps_as_computed_by_hand() {
        let mut pie = pie();
        // The delay of 20 ms is 5 ms above the target and 20 ms above the old delay. The step is 0.125/s · 5 ms +
        // 1.25/s · 20 ms = 0.025625, divided by 2048, the divisor for probabilities below 10⁻⁶.
        pie.update(20_000_000);
        assert_eq!(pie.probability, 25_625_000_000 / 2048);
        // The probability is now 12.5 millionths, and the delay stays the same. The next step is 0.125/s · 5 ms =
        // 0.000625, divided by 128, the divisor for the range 10⁻⁵ – 10⁻⁴.
        pie.update(20_000_000);
        assert_eq!(pie.probability, 25_625_000_000 / 2048 + 625_000_000 / 128);
        // RFC 8033 §5.5: from a probability of 10 % on, one update adds at most 2 percentage points.
        pie.probability = ONE / 5;
        pie.update(200_000_000);
        assert_eq!(pie.probability, ONE / 5 + ONE / 50);
        // The queue was empty at two updates in a row, so its delay is 15 ms below the target. The controller first
        // subtracts 0.125/s · 15 ms = 0.001875. Then the probability loses 1/64 of its value.
        (pie.old_delay, pie.probability) = (0, ONE / 2);
        pie.update(0);
        let down = ONE / 2 - 1_875_000_000;
        assert_eq!(pie.probability, down - down.div_ceil(64));
    }

    /// RFC 8033 §4.4: a burst of up to 150 ms passes without drops, even if the queue grows far above the target. A
    /// permanent overload is held near the target delay.
    #[test]
    fn a_burst_passes_and_an_overload_is_held_near_the_target() {
        let serializer = Serializer::Rate(Rate::new("12mbit".parse().expect("a rate")));
        let mut queue = Bottleneck::new(Limit::Packets(1000), Policy::Pie(Box::new(pie())), serializer);
        let mut meter = Meter::default();
        for _ in 0..100 {
            let fate = queue.pass(Instant::from_millis(1), &mut TestPacket::new(1500), &mut meter);
            assert!(matches!(fate, Fate::Leaves(_)));
        }
        // For the next minute, a sender that does not react to losses sends at 110 % of the bottleneck's rate.
        let (mut early, mut delay, mut counted) = (0, 0_u64, 0);
        for i in 0..66_000_u64 {
            let at = Instant::from_nanos(1_000_000 + i * 909_091);
            match queue.pass(at, &mut TestPacket::new(1500), &mut meter) {
                Fate::Lost(DropCause::Early) => early += 1,
                Fate::Leaves(end) if i > 33_000 => {
                    delay += end.as_nanos() - at.as_nanos() - 1_000_000;
                    counted += 1;
                }
                _ => {}
            }
        }
        assert!((5_700..6_300).contains(&early), "{early}");
        let mean = delay / counted;
        assert!((12_000_000..18_000_000).contains(&mean), "{mean}");
    }

    #[test]
    fn a_long_silence_costs_nothing_and_forgets() {
        let mut pie = pie();
        pie.probability = ONE / 2;
        let backlog = Backlog::default();
        // After 100 days without a packet, `catch_up` must not loop over 576 million updates.
        pie.catch_up(Instant::from_millis(8_640_000_000), &backlog);
        assert_eq!(pie.probability, 0);
        assert!(pie.next_update > Instant::from_millis(8_640_000_000));
    }
}
