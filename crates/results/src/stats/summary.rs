//! Computes statistics of one contestant's values of one metric.

use super::interval::{geometric_mean, mean, median_ci95};
use crate::Stat;

/// Returns the statistics of one metric. `values` has one value for each run that has one. `failed` is the number of
/// runs that did not finish.
#[must_use]
pub fn describe(values: &[f64], failed: u64) -> Stat {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |p: f64| quantile_of_sorted(&sorted, p);
    Stat {
        n: values.len() as u64,
        failed,
        mean: mean(values),
        geometric_mean: geometric_mean(values),
        median: at(0.5),
        ci95: median_ci95(&sorted),
        quartiles: at(0.25).zip(at(0.75)).map(<[f64; 2]>::from),
        p10: at(0.1),
        p75: at(0.75),
        p90: at(0.9),
        p95: at(0.95),
    }
}

/// Returns the quantile at `p`, from 0 to 1, interpolated linearly between neighbours (type 7 of Hyndman and Fan, the
/// default of R and NumPy). `None` for an empty slice.
#[must_use]
pub fn quantile(values: &[f64], p: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile_of_sorted(&sorted, p)
}

fn quantile_of_sorted(sorted: &[f64], p: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let position = p.clamp(0.0, 1.0) * last as f64;
    let lower = position.floor() as usize;
    let (low, high) = (sorted[lower], sorted[(lower + 1).min(last)]);
    Some(low + (high - low) * (position - lower as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        let stat = describe(&[4.0, 1.0, 3.0, 2.0], 1);
        assert_eq!((stat.n, stat.failed, stat.mean, stat.median), (4, 1, Some(2.5), Some(2.5)));
        assert_eq!(stat.quartiles, Some([1.75, 3.25]));
        // The geometric mean of 1, 2, 3, 4 is the fourth root of 24.
        assert!((stat.geometric_mean.expect("a value") - 2.213_363_839).abs() < 1e-9);
        // The sorted values 1, 2, 3, 4 have the positions 0 to 3. The 95th percentile is at position 0.95 * 3 = 2.85,
        // between the values 3 and 4. It is 3 + 0.85 * (4 - 3) = 3.85.
        assert!((stat.p95.expect("a value") - 3.85).abs() < 1e-12);
        assert!((stat.p10.expect("a value") - 1.3).abs() < 1e-12);
        let seven = Some(7.0);
        let one = Stat {
            n: 1,
            mean: seven,
            geometric_mean: seven,
            median: seven,
            quartiles: Some([7.0; 2]),
            p10: seven,
            p75: seven,
            p90: seven,
            p95: seven,
            ..Stat::default()
        };
        assert_eq!(describe(&[7.0], 0), one);
        assert_eq!(describe(&[], 3), Stat { failed: 3, ..Stat::default() });
    }

    #[test]
    fn values_that_include_zero_have_no_geometric_mean() {
        assert_eq!(describe(&[0.0, 4.0], 0).geometric_mean, None);
    }
}
