//! A measured value of one contestant, or the ratio of the values of two contestants on the same seeds. Each such value
//! has a 95 % interval.

use super::figures::Point;
use super::metric::Metric;
use anabranch_results::stats::interval;

/// The contestant whose value is compared, or the two contestants whose values form a ratio.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subject {
    /// The contestant whose value is compared. In a ratio, the contestant in the numerator.
    pub of: String,
    /// The contestant in the denominator of the ratio. If `None`, there is no ratio: the value of the contestant `of`
    /// itself is compared.
    pub over: Option<String>,
}

impl Subject {
    /// Parses a subject, for example `tcp` or `tcp/sctp`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text.split_once('/') {
            Some((of, over)) => Self { of: of.trim().to_owned(), over: Some(over.trim().to_owned()) },
            None => Self { of: text.trim().to_owned(), over: None },
        }
    }

    /// Returns the names of the contestants.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        std::iter::once(&self.of).chain(&self.over).cloned().collect()
    }

    /// For each run, returns the natural logarithm of the metric of contestant `of`. If `over` is set, the metric is
    /// first divided by the metric of contestant `over`. A run without positive values gives `None`.
    #[must_use]
    pub fn logs(&self, point: &Point, metric: Metric, object: Option<usize>) -> Vec<Option<f64>> {
        let logs = |name: &str| -> Vec<Option<f64>> {
            let log = |value: f64| (value > 0.0).then(|| value.ln());
            point.by_run(name, metric, object).into_iter().map(|value| value.and_then(log)).collect()
        };
        let of = logs(&self.of);
        match &self.over {
            None => of,
            Some(over) => difference(&of, &logs(over)),
        }
    }
}

/// Subtracts two results seed by seed: `one - other`. A result without randomness has only one value. This value is
/// paired with each value of the other result.
#[must_use]
pub fn difference(one: &[Option<f64>], other: &[Option<f64>]) -> Vec<Option<f64>> {
    paired(one, other).map(|pair| pair.map(|(one, other)| one - other)).collect()
}

/// Pairs the values of two results that have the same seed. If one result has a single run, the value of this run is
/// paired with every value of the other result.
fn paired<'a>(
    one: &'a [Option<f64>],
    other: &'a [Option<f64>],
) -> impl Iterator<Item = Option<(f64, f64)>> + 'a {
    let count = if one.is_empty() || other.is_empty() { 0 } else { one.len().max(other.len()) };
    let at = |values: &[Option<f64>], i: usize| {
        values.get(if values.len() == 1 { 0 } else { i }).copied().flatten()
    };
    (0..count).map(move |i| Some((at(one, i)?, at(other, i)?)))
}

/// A geometric or arithmetic mean with its 95 % interval. If the values are all equal, both ends of the interval are
/// the mean.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MeanEstimate {
    /// The mean of the values.
    pub mean: f64,
    /// The 95 % interval of the mean.
    pub interval: [f64; 2],
}

impl MeanEstimate {
    /// Returns the geometric mean with its interval, from logarithms; `None` if no value is known.
    #[must_use]
    pub fn of(logs: &[Option<f64>]) -> Option<Self> {
        let known: Vec<f64> = logs.iter().copied().flatten().collect();
        let mean = interval::mean(&known)?;
        let [low, high] = interval::ci95(&known).unwrap_or([mean, mean]);
        Some(Self { mean: mean.exp(), interval: [low.exp(), high.exp()] })
    }

    /// Returns the arithmetic mean with its interval; `None` if there are no values.
    #[must_use]
    pub fn of_values(values: &[f64]) -> Option<Self> {
        let mean = interval::mean(values)?;
        Some(Self { mean, interval: interval::ci95(values).unwrap_or([mean, mean]) })
    }

    /// Returns the ratio of the means of two results, each with one value per seed. Only seeds with both values count.
    /// `None` if there is no such seed, or if a mean is not above 0.
    #[must_use]
    pub fn of_means(one: &[Option<f64>], other: &[Option<f64>]) -> Option<Self> {
        Self::of_product(&[one, other], &[1.0, -1.0], true)
    }

    /// Returns the product of the results, each raised to its power in `powers`, which is 1 or -1. Each result has one
    /// value per seed, or a single value for all seeds. Only seeds with all values count. With `means` this is the
    /// product of the means, otherwise the geometric mean of the products of the seeds. `None` if there is no such
    /// seed, or if a factor is not above 0.
    #[must_use]
    pub fn of_product(results: &[&[Option<f64>]], powers: &[f64], means: bool) -> Option<Self> {
        let count = results.iter().map(|values| values.len()).max()?;
        let at = |values: &[Option<f64>], i: usize| {
            values.get(if values.len() == 1 { 0 } else { i }).copied().flatten()
        };
        let of_seed = |i: usize| results.iter().map(|values| at(values, i)).collect::<Option<Vec<f64>>>();
        let seeds: Vec<Vec<f64>> = (0..count).filter_map(of_seed).collect();
        if !means {
            let product = |values: &Vec<f64>| {
                let logs = values.iter().zip(powers).map(|(value, power)| value.ln() * power);
                values.iter().all(|value| *value > 0.0).then(|| logs.sum())
            };
            let logs: Vec<Option<f64>> = seeds.iter().map(product).collect();
            return if logs.contains(&None) { None } else { Self::of(&logs) };
        }
        let mean = |at: usize| interval::mean(&seeds.iter().map(|values| values[at]).collect::<Vec<_>>());
        let all = (0..results.len()).map(mean).collect::<Option<Vec<f64>>>()?;
        if all.iter().any(|mean| *mean <= 0.0) {
            return None;
        }
        // The contribution of each run to the logarithm of the product, in a first-order approximation.
        let part = |values: &Vec<f64>| {
            values.iter().zip(&all).zip(powers).map(|((value, mean), power)| power * value / mean).sum()
        };
        let parts: Vec<f64> = seeds.iter().map(part).collect();
        let [low, high] = interval::ci95(&parts).unwrap_or([0.0, 0.0]);
        let product = |so_far: f64, (mean, power): (&f64, &f64)| {
            if *power > 0.0 { so_far * mean } else { so_far / mean }
        };
        let mean = all.iter().zip(powers).fold(1.0, product);
        Some(Self { mean, interval: [mean * low.exp(), mean * high.exp()] })
    }

    /// Returns the estimate with an interval of width zero if its runs (`runs`) cover all possible `cases`, because the
    /// mean is then exact. Otherwise returns the estimate unchanged.
    #[must_use]
    pub fn of_cases(self, runs: usize, cases: Option<u64>) -> Self {
        let interval = if cases == Some(runs as u64) { [self.mean; 2] } else { self.interval };
        Self { interval, ..self }
    }

    /// Returns the estimate with an interval that holds for `comparisons` comparisons at once (Bonferroni). `runs` is
    /// the number of runs behind the estimate. `logs` is set if the interval was computed on logarithms.
    #[must_use]
    pub fn among(self, runs: usize, comparisons: usize, logs: bool) -> Self {
        let wider = interval::widened(runs, comparisons);
        let end = |end: f64| match logs {
            true if self.mean > 0.0 => self.mean * (end / self.mean).powf(wider),
            _ => self.mean + (end - self.mean) * wider,
        };
        Self { interval: self.interval.map(end), ..self }
    }

    /// Returns whether the whole interval is within these bounds.
    #[must_use]
    pub fn is_within(&self, [low, high]: [f64; 2]) -> bool {
        self.interval[0] >= low && self.interval[1] <= high
    }

    /// Returns whether the whole interval is below these bounds or above them.
    #[must_use]
    pub fn is_outside(&self, [low, high]: [f64; 2]) -> bool {
        self.interval[1] < low || self.interval[0] > high
    }
}

impl std::fmt::Display for MeanEstimate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [low, high] = self.interval;
        write!(f, "{}", figure(self.mean))?;
        if low < high { write!(f, " ({}-{})", figure(low), figure(high)) } else { Ok(()) }
    }
}

/// Formats a value with three to four significant digits and without an exponent.
#[must_use]
pub fn figure(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 => format!("{value:.0}"),
        v if v >= 100.0 => format!("{value:.1}"),
        v if v >= 10.0 => format!("{value:.2}"),
        v if v >= 0.1 || v == 0.0 => format!("{value:.3}"),
        _ => format!("{value:.5}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_of_means_is_that_of_the_sums() {
        // With the change, the value of one of two runs falls to a hundredth. The ratio of the geometric means falls to
        // a tenth (the root of 0.01), and the ratio of the arithmetic means only to 0.505.
        let (with, without) = ([Some(1.0), Some(0.01)], [Some(1.0), Some(1.0)]);
        let by_means = MeanEstimate::of_means(&with, &without).expect("a ratio");
        assert!((by_means.mean - 0.505).abs() < 1e-12);
        let logs = |values: &[Option<f64>]| values.iter().map(|v| v.map(f64::ln)).collect::<Vec<_>>();
        let by_runs = MeanEstimate::of(&difference(&logs(&with), &logs(&without))).expect("a ratio");
        assert!((by_runs.mean - 0.1).abs() < 1e-12);
        // If the ratios are all equal, both ends of the interval are the ratio. A pair with a missing value is left
        // out.
        let same = MeanEstimate::of_means(&[Some(3.0), None, Some(3.0)], &[Some(2.0)]).expect("a ratio");
        assert_eq!((same.mean, same.interval), (1.5, [1.5, 1.5]));
        assert_eq!(MeanEstimate::of_means(&[Some(1.0)], &[Some(0.0)]), None);
        // If both numbers vary in the same way from seed to seed, their ratio has no spread.
        let alike =
            MeanEstimate::of_means(&[Some(1.0), Some(4.0)], &[Some(2.0), Some(8.0)]).expect("a ratio");
        assert_eq!((alike.mean, alike.interval), (0.5, [0.5, 0.5]));
    }

    #[test]
    fn one_run_stands_for_all_where_nothing_is_drawn() {
        let logs = difference(&[Some(1.0), Some(2.0), None], &[Some(0.5)]);
        assert_eq!(logs, [Some(0.5), Some(1.5), None]);
        assert!(difference(&[], &[Some(1.0)]).is_empty());
        assert_eq!(MeanEstimate::of(&[None]), None);
        assert_eq!(
            MeanEstimate::of_values(&[0.0, 0.0]).map(|none| (none.mean, none.interval)),
            Some((0.0, [0.0, 0.0]))
        );
        let alone = MeanEstimate::of(&[Some(0.0)]).expect("one");
        assert_eq!((alone.mean, alone.interval), (1.0, [1.0, 1.0]));
        let two = MeanEstimate::of_values(&[1.0, 3.0]).expect("two");
        assert!(two.of_cases(2, Some(10)).interval[1] > 3.0, "two of ten cases");
        assert_eq!(two.of_cases(2, Some(2)).interval, [2.0, 2.0], "all the cases there are");
        // With 20 comparisons, each comparison gets a twentieth of the error of 5 %. Student's t with one degree of
        // freedom is therefore 254.6 instead of 12.7.
        let [low, high] = two.interval;
        let wider = two.among(2, 20, false).interval;
        assert!(((wider[1] - 2.0) / (high - 2.0) - 254.647 / 12.706_2).abs() < 1e-3, "{wider:?}");
        assert!(((2.0 - wider[0]) / (2.0 - low) - 254.647 / 12.706_2).abs() < 1e-3, "{wider:?}");
        assert_eq!(two.among(2, 1, false).interval, two.interval);
        assert_eq!(alone.among(1, 20, true).interval, [1.0, 1.0], "what is known has no interval");
        assert!(alone.is_within([1.0, 1.0]) && !alone.is_outside([0.9, 1.1]) && alone.is_outside([1.1, 2.0]));
    }
}
