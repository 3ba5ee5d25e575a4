//! The ratio of two contestants' medians, with a bootstrap interval.
//!
//! The median is the time of a typical load. A few very slow loads change the geometric mean of the ratios
//! ([`paired`](super::paired)), but not the medians.

use super::paired::Value;
use super::summary::quantile;
use anabranch_base::Rng;

/// The number of bootstrap resamples of the pairs of runs.
const RESAMPLES: usize = 2_000;
/// The name of the random number stream that draws the resamples. The name and the seed are fixed, so that equal
/// results have equal intervals.
const LABEL: &str = "median/resamples";
/// The smallest number of pairs of runs for which an interval is computed. With fewer values, even the whole range
/// covers the median with less than 95 % confidence.
const MIN_PAIRS: usize = 6;

/// The ratio of two contestants' medians, with its interval.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct MedianRatio {
    /// Median of contestant a divided by the median of contestant b. `None` if there is no pair, if a median is not
    /// above 0, or if unfinished runs determine both medians. If they determine one of the medians, the ratio is a
    /// bound.
    pub ratio: Option<f64>,
    /// 95 % percentile bootstrap interval of the ratio. `None` if there is no ratio, if there are fewer than six pairs,
    /// or if all pairs are equal.
    pub ci95: Option<[f64; 2]>,
}

/// Returns the ratio of the medians of a and b over the pairs in which both have a value. A resample draws whole pairs,
/// so variation that both contestants share cancels out.
#[must_use]
pub fn of(pairs: &[(Option<Value>, Option<Value>)]) -> MedianRatio {
    let (a, b): (Vec<Value>, Vec<Value>) = pairs.iter().filter_map(|&(a, b)| a.zip(b)).unzip();
    let (by_a, by_b) = (Ranked::new(&a), Ranked::new(&b));
    let ratio_of = |counts: &[usize]| {
        let (a, b) = (by_a.median(counts)?, by_b.median(counts)?);
        let is_known = a.value > 0.0 && b.value > 0.0 && !(a.at_least && b.at_least);
        is_known.then(|| a.value / b.value)
    };
    let ratio = ratio_of(&vec![1; a.len()]);
    if ratio.is_none() || a.len() < MIN_PAIRS || (by_a.is_constant() && by_b.is_constant()) {
        return MedianRatio { ratio, ci95: None };
    }
    let mut rng = Rng::new(0).fork(LABEL);
    let mut counts = vec![0; a.len()];
    let mut resampled = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        counts.fill(0);
        for _ in 0..a.len() {
            counts[rng.below(a.len() as u64) as usize] += 1;
        }
        resampled.extend(ratio_of(&counts));
    }
    let ci95 = quantile(&resampled, 0.025).zip(quantile(&resampled, 0.975)).map(<[f64; 2]>::from);
    MedianRatio { ratio, ci95 }
}

/// Returns the median of the values of one contestant. It is a lower bound if unfinished runs determine it. `None` if
/// there is no value.
#[must_use]
pub fn median(values: &[Option<Value>]) -> Option<Value> {
    let known: Vec<Value> = values.iter().flatten().copied().collect();
    Ranked::new(&known).median(&vec![1; known.len()])
}

/// The values of one contestant in increasing order, each with the index of its pair.
struct Ranked(Vec<(Value, usize)>);

impl Ranked {
    fn new(values: &[Value]) -> Self {
        let mut ranked: Vec<(Value, usize)> = values.iter().copied().zip(0..).collect();
        ranked.sort_by(|(a, _), (b, _)| a.value.total_cmp(&b.value).then(a.at_least.cmp(&b.at_least)));
        Self(ranked)
    }

    fn is_constant(&self) -> bool {
        self.0.first().zip(self.0.last()).is_none_or(|((first, _), (last, _))| first == last)
    }

    /// Returns the median of a resample that contains pair i `counts[i]` times. It is a lower bound if a value in the
    /// middle is a lower bound. `None` if there is no value.
    fn median(&self, counts: &[usize]) -> Option<Value> {
        let last = counts.iter().sum::<usize>().checked_sub(1)?;
        let low = self.at_rank(counts, last / 2)?;
        let high = if last % 2 == 0 { low } else { self.at_rank(counts, last / 2 + 1)? };
        Some(Value { value: f64::midpoint(low.value, high.value), at_least: high.at_least })
    }

    /// Returns the value at the position `rank`, counted from 0, of a sorted resample that contains pair i `counts[i]`
    /// times.
    fn at_rank(&self, counts: &[usize], rank: usize) -> Option<Value> {
        let mut below = 0;
        self.0.iter().find_map(|(value, pair)| {
            below += counts[*pair];
            (below > rank).then_some(*value)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(values: impl IntoIterator<Item = (f64, f64)>) -> Vec<(Option<Value>, Option<Value>)> {
        values.into_iter().map(|(a, b)| (Some(a.into()), Some(b.into()))).collect()
    }

    #[test]
    fn the_ratio_is_that_of_the_medians() {
        // The medians of 1, 2, 30, 40 and of 8, 8, 8, 2 are 16 and 8. The geometric mean of the ratios is 1.24.
        let found = of(&pairs([(30.0, 8.0), (1.0, 8.0), (40.0, 8.0), (2.0, 2.0)]));
        assert_eq!(found, MedianRatio { ratio: Some(2.0), ci95: None });
        assert_eq!(of(&[]), MedianRatio::default());
        assert_eq!(of(&pairs([(0.0, 1.0), (0.0, 1.0)])).ratio, None);
        let missing = [(None, Some(1.0.into())), (Some(4.0.into()), Some(2.0.into()))];
        assert_eq!(of(&missing).ratio, Some(2.0));
    }

    #[test]
    fn pairs_are_kept_together() {
        // The medians of both contestants vary between resamples, but their ratio does not.
        let found = of(&pairs((1..=20).map(|i| (f64::from(3 * i), f64::from(i)))));
        let [low, high] = found.ci95.expect("an interval");
        assert!((low - 3.0).abs() < 1e-12 && (high - 3.0).abs() < 1e-12, "{low} to {high}");
        assert_eq!(of(&pairs([(3.0, 2.0); 20])), MedianRatio { ratio: Some(1.5), ci95: None });
        assert_eq!(of(&pairs((1..=5).map(|i| (f64::from(i), 1.0)))).ci95, None, "too few pairs");
    }

    #[test]
    fn the_interval_agrees_with_the_interval_by_ranks() {
        // The ranks of the 95 % interval of the median of 100 values are 40 and 61.
        let found = of(&pairs((1..=100).map(|i| (f64::from(i), 1.0))));
        let [low, high] = found.ci95.expect("an interval");
        assert_eq!(found.ratio, Some(50.5));
        assert!((low - 40.0).abs() < 3.0 && (high - 61.0).abs() < 3.0, "{low} to {high}");
    }

    #[test]
    fn unfinished_runs_can_hide_both_medians() {
        let cut = Some(Value { value: 600.0, at_least: true });
        let done = |value: f64| Some(Value::from(value));
        assert_eq!(of(&[(cut, cut), (cut, done(1.0)), (done(2.0), cut)]).ratio, None);
        assert_eq!(of(&[(cut, done(1.0)), (cut, done(2.0)), (done(2.0), cut)]).ratio, Some(300.0));
        assert_eq!(of(&[(cut, cut), (done(2.0), done(1.0)), (done(2.0), done(1.0))]).ratio, Some(2.0));
    }
}
