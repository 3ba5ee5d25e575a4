//! Two contestants on the same seeds.
//!
//! Seeds are common random numbers, not "the same luck": after the first
//! difference, packet k is another packet. Pairing still removes what the
//! seeds share, and the ratio is taken seed by seed.

use super::interval::{ci95, mean};

/// A geometric mean ratio with its interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ratio {
    /// Geometric mean of a/b; `None` without a pair.
    pub ratio: Option<f64>,
    /// 95 % t-interval on the logarithms; `None` when n < 2 or all ratios are equal.
    pub ci95: Option<[f64; 2]>,
    /// Pairs in which both have a value above 0.
    pub n: u64,
}

/// Geometric mean of a/b over the pairs in which both have a value.
#[must_use]
pub fn ratio(pairs: &[(Option<f64>, Option<f64>)]) -> Ratio {
    let logs: Vec<f64> = pairs
        .iter()
        .filter_map(|&(a, b)| Some((a.filter(|a| *a > 0.0)?, b.filter(|b| *b > 0.0)?)))
        .map(|(a, b)| (a / b).ln())
        .collect();
    Ratio {
        ratio: mean(&logs).map(f64::exp),
        ci95: ci95(&logs).map(|[low, high]| [low.exp(), high.exp()]),
        n: logs.len() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        // Ratios 2 and 1/2: geometric mean 1, logs ±ln 2, standard error ln 2, t(1) = 12.706…
        let both =
            ratio(&[(Some(2.0), Some(1.0)), (Some(1.0), Some(2.0)), (None, Some(1.0)), (Some(9.0), None)]);
        assert_eq!(both.n, 2);
        assert!((both.ratio.expect("a ratio") - 1.0).abs() < 1e-15);
        let [low, high] = both.ci95.expect("an interval");
        let half = 12.706_204_736 * 2.0_f64.ln();
        assert!((high.ln() - half).abs() < 1e-9 && (low.ln() + half).abs() < 1e-9);
    }

    #[test]
    fn equal_ratios_have_no_interval() {
        let same = ratio(&[(Some(3.0), Some(2.0)), (Some(3.0), Some(2.0))]);
        assert_eq!((same.ci95, same.n), (None, 2));
        assert!((same.ratio.expect("a ratio") - 1.5).abs() < 1e-12);
        assert_eq!(ratio(&[(None, Some(1.0))]), Ratio { ratio: None, ci95: None, n: 0 });
    }
}
