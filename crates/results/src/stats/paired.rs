//! Compares two contestants by the pairs of their runs with the same seed.
//!
//! Two runs with the same seed draw the same random numbers. Their conditions are still not identical: once the runs
//! differ, packet k of one run is not packet k of the other run. Pairing by seed removes the variation that both runs
//! share, so the ratio is taken seed by seed.

use super::interval::{ci95, geometric_mean};
use crate::Bound;

/// The value of a metric in one run. It may be a lower bound.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Value {
    /// The value, in the unit of the metric.
    pub value: f64,
    /// True if the run did not finish. The true value is then `value` or more.
    pub at_least: bool,
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self { value, at_least: false }
    }
}

/// The geometric mean of the ratios of two contestants' values, with its interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ratio {
    /// Geometric mean of the ratios a/b; `None` if there is no pair.
    pub ratio: Option<f64>,
    /// 95 % t-interval of the ratio, computed on logarithms; `None` when n < 2 or all ratios are equal.
    pub ci95: Option<[f64; 2]>,
    /// Number of pairs that count: both values are above 0, and at least one of the two runs finished.
    pub n: u64,
    /// Whether the ratio is a lower or an upper bound, because some runs did not finish; `None` if all runs finished.
    pub bound: Option<Bound>,
    /// Number of pairs in which the value of `a` is less than that of `b`, and number of pairs in which it is more.
    pub wins: [u64; 2],
}

/// Returns the geometric mean of the ratios a/b. A pair counts only if both values exist and are above 0. The value of
/// an unfinished run is a lower bound (`at_least`). If both values of a pair are lower bounds, the pair does not count,
/// because it does not bound the ratio.
#[must_use]
pub fn ratio<V: Into<Value> + Copy>(pairs: &[(Option<V>, Option<V>)]) -> Ratio {
    let positive = |value: Option<V>| value.map(V::into).filter(|value| value.value > 0.0);
    let pairs: Vec<(Value, Value)> = pairs
        .iter()
        .filter_map(|&(a, b)| Some((positive(a)?, positive(b)?)))
        .filter(|(a, b)| !(a.at_least && b.at_least))
        .collect();
    let ratios: Vec<f64> = pairs.iter().map(|(a, b)| a.value / b.value).collect();
    let logs: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
    let some = |predicate: fn(&(Value, Value)) -> bool| pairs.iter().any(predicate);
    let bound = match (some(|(a, _)| a.at_least), some(|(_, b)| b.at_least)) {
        (false, false) => None,
        (true, false) => Some(Bound::AtLeast),
        (false, true) => Some(Bound::AtMost),
        (true, true) => Some(Bound::Unknown),
    };
    let count = |of: fn(&f64) -> bool| ratios.iter().filter(|ratio| of(ratio)).count() as u64;
    Ratio {
        ratio: geometric_mean(&ratios),
        ci95: ci95(&logs).map(|[low, high]| [low.exp(), high.exp()]),
        n: logs.len() as u64,
        bound,
        wins: [count(|ratio| *ratio < 1.0), count(|ratio| *ratio > 1.0)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        // The two ratios are 2 and 1/2. Their geometric mean is 1, their logarithms are ±ln 2, the standard error of
        // the logarithms is ln 2, and t(1) = 12.706…
        let both =
            ratio(&[(Some(2.0), Some(1.0)), (Some(1.0), Some(2.0)), (None, Some(1.0)), (Some(9.0), None)]);
        assert_eq!((both.n, both.wins, both.bound), (2, [1, 1], None));
        assert!((both.ratio.expect("a ratio") - 1.0).abs() < 1e-15);
        let [low, high] = both.ci95.expect("an interval");
        let half = 12.706_204_736 * 2.0_f64.ln();
        assert!((high.ln() - half).abs() < 1e-9 && (low.ln() + half).abs() < 1e-9);
    }

    #[test]
    fn equal_ratios_have_no_interval() {
        let same = ratio(&[(Some(3.0), Some(2.0)), (Some(3.0), Some(2.0))]);
        assert_eq!((same.ratio, same.ci95, same.n, same.wins), (Some(1.5), None, 2, [0, 2]));
        let none = ratio::<f64>(&[(None, Some(1.0))]);
        assert_eq!(none, Ratio { ratio: None, ci95: None, n: 0, bound: None, wins: [0, 0] });
    }

    #[test]
    fn unfinished_runs_make_the_ratio_a_bound() {
        let over = |value| Some(Value::from(value));
        let cut = Some(Value { value: 600.0, at_least: true });
        let found = ratio(&[(cut, over(6.0)), (over(1.0), over(1.0))]);
        assert_eq!(
            (found.ratio.map(f64::round), found.bound, found.n),
            (Some(10.0), Some(Bound::AtLeast), 2)
        );
        assert_eq!(ratio(&[(over(6.0), cut)]).bound, Some(Bound::AtMost));
        assert_eq!(ratio(&[(over(6.0), cut), (cut, over(6.0))]).bound, Some(Bound::Unknown));
        // Neither run finished, so the pair says nothing about the ratio.
        let found = ratio(&[(cut, cut), (over(2.0), over(1.0))]);
        assert_eq!((found.ratio, found.bound, found.n), (Some(2.0), None, 1));
    }
}
