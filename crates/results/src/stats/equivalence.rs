//! Decides whether a model behaves like the system that it models. To decide this, a relevant difference must be ruled
//! out. It is not enough that no difference was found.
//!
//! Times are equivalent if the 90 % interval of their ratio, paired by seed, lies within 5 % of 1. This is a pair of
//! one-sided tests at the 5 % level (D. J. Schuirmann 1987). Packet counts are near one another if their means differ
//! by at most 15 % or 5 packets, whichever is more.

use super::interval::{mean, t_quantile_95};

/// The ratio of observed times to the model's times, and whether they are equivalent.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Equivalence {
    /// Geometric mean of the ratio over the seeds; NaN if there are no seeds.
    pub ratio: f64,
    /// The 90 % t-interval of the ratio; NaN if there are fewer than two seeds.
    pub ci90: [f64; 2],
    /// Whether the times are equivalent: the interval lies within the margin.
    pub holds: bool,
}

/// Compares pairs of times, (observed, model), where both times of a pair have the same seed.
#[must_use]
pub fn equivalence(pairs: &[(f64, f64)]) -> Equivalence {
    let logs: Vec<f64> = pairs.iter().map(|(observed, modeled)| (observed / modeled).ln()).collect();
    let (n, middle) = (logs.len() as f64, mean(&logs).unwrap_or(f64::NAN));
    let squares: f64 = logs.iter().map(|log| (log - middle).powi(2)).sum();
    let half = if logs.len() < 2 {
        f64::NAN
    } else {
        t_quantile_95(logs.len() - 1) * (squares / (n - 1.0) / n).sqrt()
    };
    let ci90 = [(middle - half).exp(), (middle + half).exp()];
    Equivalence { ratio: middle.exp(), ci90, holds: ci90[0] > 1.0 - MARGIN && ci90[1] < 1.0 + MARGIN }
}

/// Returns whether an observed mean number of packets (`observed`) and the model's mean (`modeled`) are near one
/// another.
#[must_use]
pub fn near(observed: f64, modeled: f64) -> bool {
    (observed - modeled).abs() <= (SHARE * observed).max(PACKETS)
}

/// The maximum difference between the times of the system and of the model, as a share of the model's times.
const MARGIN: f64 = 0.05;
/// The maximum difference of packet counts: `SHARE` of the observed count or `PACKETS`, whichever is more.
const SHARE: f64 = 0.15;
const PACKETS: f64 = 5.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_narrow_interval_around_one_is_equivalence() {
        let near = |spread: f64, off: f64| {
            let pairs: Vec<_> =
                (0..10).map(|n| (off * (1.0 + if n % 2 == 0 { spread } else { -spread }), 1.0)).collect();
            equivalence(&pairs)
        };
        assert!(near(0.03, 1.01).holds);
        assert!(!near(0.03, 1.04).holds, "too far");
        assert!(!near(0.3, 1.0).holds, "nothing is ruled out");
        let found = near(0.03, 1.01);
        assert!(found.ci90[0] < found.ratio && found.ratio < found.ci90[1]);
        assert!(!equivalence(&[(1.0, 1.0)]).holds && !equivalence(&[]).holds);
    }

    #[test]
    fn counts_are_near_by_share_or_by_packets() {
        assert!(near(2.0, 7.0) && !near(2.0, 7.1));
        assert!(near(100.0, 115.0) && !near(100.0, 116.0) && near(100.0, 85.0));
    }
}
