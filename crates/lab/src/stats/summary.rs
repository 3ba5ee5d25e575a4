//! One contestant's values of one metric.

use super::interval::{ci95, mean};
use crate::results::Stat;

/// Describes `values`, one for each run that has one, of which `failed` did not finish.
#[must_use]
pub fn describe(values: &[f64], failed: u64) -> Stat {
    Stat {
        n: values.len() as u64,
        failed,
        mean: mean(values),
        median: quantile(values, 0.5),
        p95: quantile(values, 0.95),
        ci95: ci95(values),
    }
}

/// The quantile at `p` from 0 to 1, between neighbours by proportion (type 7 of Hyndman and Fan, the default of R and
/// NumPy); `None` of nothing.
#[must_use]
pub fn quantile(values: &[f64], p: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let place = p.clamp(0.0, 1.0) * last as f64;
    let below = place.floor() as usize;
    let (low, high) = (sorted[below], sorted[(below + 1).min(last)]);
    Some(low + (high - low) * (place - below as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        let stat = describe(&[4.0, 1.0, 3.0, 2.0], 1);
        assert_eq!((stat.n, stat.failed, stat.mean, stat.median), (4, 1, Some(2.5), Some(2.5)));
        // Place 0.95 * 3 = 2.85: 3 + 0.85 * (4 - 3).
        assert!((stat.p95.expect("a value") - 3.85).abs() < 1e-12);
        assert_eq!(
            describe(&[7.0], 0),
            Stat { n: 1, failed: 0, mean: Some(7.0), median: Some(7.0), p95: Some(7.0), ci95: None }
        );
        assert_eq!(describe(&[], 3), Stat { failed: 3, ..Stat::default() });
    }
}
