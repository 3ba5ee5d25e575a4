//! A histogram of durations in bounded memory, from which percentiles are computed.
//!
//! The width of the buckets grows with the duration: each power of two is divided into 128 buckets. Therefore a
//! percentile is at most 0.8 % too high, and never too low. The minimum, the maximum, the sum and the sum of squares
//! are exact.

use crate::time::{Duration, nanos};

/// Counts of recorded durations, and their exact minimum, maximum, sum and sum of squares.
#[derive(Clone, PartialEq, Debug)]
pub struct Histogram {
    /// The number of durations in each bucket, up to the highest used bucket.
    counts: Vec<u64>,
    count: u64,
    min: u64,
    max: u64,
    sum: u128,
    /// The sum of the squares of all durations in microseconds, for the standard deviation.
    squares: f64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: Vec::new(), count: 0, min: u64::MAX, max: 0, sum: 0, squares: 0.0 }
    }
}

impl Histogram {
    /// Adds a duration.
    #[inline]
    pub fn add(&mut self, span: Duration) {
        let value = nanos(span);
        let bucket = bucket(value);
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.count += 1;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.sum += u128::from(value);
        let micros = value as f64 / 1e3;
        self.squares += micros * micros;
    }

    /// Removes all durations, but keeps the memory for reuse.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        *self = Self { counts: std::mem::take(&mut self.counts), ..Self::default() };
    }

    /// Returns the number of recorded durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the shortest recorded duration; zero if no duration is recorded.
    #[must_use]
    pub fn min(&self) -> Duration {
        Duration::from_nanos(if self.count == 0 { 0 } else { self.min })
    }

    /// Returns the longest recorded duration; zero if no duration is recorded.
    #[must_use]
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max)
    }

    /// Returns the mean of the recorded durations; zero if no duration is recorded.
    #[must_use]
    pub fn mean(&self) -> Duration {
        let mean = self.sum.checked_div(u128::from(self.count)).unwrap_or(0);
        Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// Returns the standard deviation of the recorded durations; zero if fewer than two are recorded.
    #[must_use]
    pub fn deviation(&self) -> Duration {
        if self.count < 2 {
            return Duration::ZERO;
        }
        let n = self.count as f64;
        let mean = self.sum as f64 / 1e3 / n;
        let variance = (self.squares - n * mean * mean).max(0.0) / (n - 1.0);
        Duration::from_nanos((variance.sqrt() * 1e3) as u64)
    }

    /// Returns a percentile: a fraction `share` (0 to 1) of the recorded durations is at most as long as the result.
    /// Returns zero if no duration is recorded.
    #[must_use]
    pub fn percentile(&self, share: f64) -> Duration {
        if self.count == 0 {
            return Duration::ZERO;
        }
        let rank = ((share * self.count as f64).ceil() as u64).clamp(1, self.count);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Duration::from_nanos(upper(bucket).clamp(self.min, self.max));
            }
        }
        self.max()
    }
}

/// Returns the number of the bucket for a value.
#[inline]
fn bucket(value: u64) -> usize {
    let bits = 64 - value.leading_zeros();
    // Each value up to 255 has its own bucket. Larger values share a bucket if they have the same bit length and the
    // same 8 bits from the highest set bit on.
    let shift = bits.saturating_sub(PRECISION + 1);
    (shift as usize) * (1 << PRECISION) + (value >> shift) as usize
}

/// Returns the largest value of a bucket.
fn upper(bucket: usize) -> u64 {
    let shift = (bucket >> PRECISION).saturating_sub(1) as u32;
    let top = (bucket - ((shift as usize) << PRECISION)) as u64;
    (top << shift) | ((1 << shift) - 1)
}

/// The number of bits after a value's highest set bit that determine its bucket.
const PRECISION: u32 = 7;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn every_value_lies_in_its_bucket_and_buckets_are_narrow() {
        let mut rng = Rng::new(7);
        let edges = (0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1]);
        let values = edges.chain([u64::MAX]).chain((0..20_000).map(|n| rng.next_u64() >> (n % 64)));
        for value in values {
            let upper = upper(bucket(value));
            assert!(value <= upper, "{value} above {upper}");
            assert!(upper - value <= value / 128, "{value} far below {upper}");
            assert!(upper == u64::MAX || bucket(upper + 1) == bucket(value) + 1, "{value}: a gap");
        }
    }

    #[test]
    fn percentiles_agree_with_a_sorted_list() {
        let mut rng = Rng::new(8);
        for round in 0..20 {
            let (mut histogram, mut all) = (Histogram::default(), Vec::new());
            histogram.add(Duration::from_secs(9));
            histogram.clear();
            for _ in 0..1 + rng.below(2000) {
                let value = 1 + (rng.next_u64() >> (30 + rng.below(30)));
                all.push(value);
                histogram.add(Duration::from_nanos(value));
            }
            all.sort_unstable();
            assert_eq!(histogram.count(), all.len() as u64);
            assert_eq!(
                (histogram.min(), histogram.max()),
                (Duration::from_nanos(all[0]), Duration::from_nanos(all[all.len() - 1]))
            );
            for share in [0.0, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0] {
                let rank = ((share * all.len() as f64).ceil() as usize).clamp(1, all.len());
                let (right, got) = (all[rank - 1], nanos(histogram.percentile(share)));
                assert!(
                    got >= right && got - right <= right / 128,
                    "round {round}, {share}: {got}, not {right}"
                );
            }
            let mean = all.iter().map(|&v| v as f64).sum::<f64>() / all.len() as f64;
            assert!((nanos(histogram.mean()) as f64 - mean).abs() < 2.0);
        }
    }
}
