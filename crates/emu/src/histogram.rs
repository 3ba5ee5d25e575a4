//! A histogram of times, with counts in buckets whose width grows with the time.
//!
//! The width of a bucket is at most 1/64 of the times in it, so quantiles are accurate to 1.6 %. The minimum, the
//! maximum and the mean are exact. Times have no upper limit.

/// A histogram of times in nanoseconds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    sum: u128,
    least: u64,
    greatest: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS], count: 0, sum: 0, least: u64::MAX, greatest: 0 }
    }
}

impl Histogram {
    /// Counts a time.
    pub fn add(&mut self, nanos: u64) {
        self.buckets[bucket(nanos)] += 1;
        self.count += 1;
        self.sum += u128::from(nanos);
        self.least = self.least.min(nanos);
        self.greatest = self.greatest.max(nanos);
    }

    /// Returns the number of times that were counted.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the shortest time; `None` if no time was counted.
    #[must_use]
    pub fn least(&self) -> Option<u64> {
        (self.count > 0).then_some(self.least)
    }

    /// Returns the longest time; `None` if no time was counted.
    #[must_use]
    pub fn greatest(&self) -> Option<u64> {
        (self.count > 0).then_some(self.greatest)
    }

    /// Returns the mean of the times; `None` if no time was counted.
    #[must_use]
    pub fn mean(&self) -> Option<u64> {
        u64::try_from(self.sum.checked_div(u128::from(self.count))?).ok()
    }

    /// Returns the time that `thousandths` of 1000 times do not exceed; `None` if no time was counted.
    #[must_use]
    pub fn quantile(&self, thousandths: u64) -> Option<u64> {
        let rank = (self.count * thousandths).div_ceil(1000).max(1);
        let mut seen = 0;
        let index = self.buckets.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        Some(middle(index).clamp(self.least, self.greatest))
    }
}

/// Returns the index of the bucket for a time. The first 64 buckets are one nanosecond wide. After them there are 64
/// buckets for each doubling of the time.
fn bucket(nanos: u64) -> usize {
    let doublings = (u64::BITS - nanos.leading_zeros()).saturating_sub(FINE + 1);
    (u64::from(doublings) * STEPS + (nanos >> doublings)) as usize
}

/// Returns the time in the middle of a bucket.
fn middle(index: usize) -> u64 {
    let index = index as u64;
    let doublings = (index / STEPS).saturating_sub(1);
    let first = (index - doublings * STEPS) << doublings;
    first + (1_u64 << doublings) / 2
}

const FINE: u32 = 6;
const STEPS: u64 = 1 << FINE;
const BUCKETS: usize = (64 - FINE as usize + 1) * STEPS as usize;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_has_a_bucket_near_it() {
        let mut nanos = 0_u64;
        for step in 0..100_000_u64 {
            let index = bucket(nanos);
            assert!(index < BUCKETS);
            assert!(middle(index).abs_diff(nanos) <= nanos / 64 + 1, "{nanos} in {}", middle(index));
            nanos = nanos.saturating_add(nanos / 97 + step % 7);
        }
        assert!(bucket(u64::MAX) < BUCKETS && bucket(u64::MAX - 1) <= bucket(u64::MAX));
    }

    #[test]
    fn quantiles_are_those_of_the_times() {
        let mut histogram = Histogram::default();
        assert_eq!((histogram.quantile(500), histogram.least(), histogram.mean()), (None, None, None));
        for micros in 1..=1000_u64 {
            histogram.add(micros * 1000);
        }
        let near =
            |found: Option<u64>, right: u64| found.is_some_and(|found| found.abs_diff(right) <= right / 60);
        assert!(near(histogram.quantile(500), 500_000));
        assert!(near(histogram.quantile(990), 990_000));
        assert_eq!(histogram.quantile(1000), Some(1_000_000));
        assert_eq!((histogram.least(), histogram.greatest()), (Some(1000), Some(1_000_000)));
        assert_eq!((histogram.count(), histogram.mean()), (1000, Some(500_500)));
    }
}
