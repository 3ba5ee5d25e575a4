//! Decides whether a model behaves like the system that it models. The question is not whether no difference was found, but
//! whether a relevant difference is ruled out.
//!
//! Times are equivalent if the 90 % interval of their ratio, paired by seed, lies within 5 % of one (two one-sided tests at
//! 5 %, D. J. Schuirmann 1987). Counts of packets are near if their means are within 15 % or 5 packets of one another.

use super::interval::{mean, t_quantile_90};

/// The ratio of observed times to the times of the model.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Equivalence {
    /// Geometric mean over the seeds; NaN if there are none.
    pub ratio: f64,
    /// The ratio's 90 % t-interval; NaN if there are fewer than two seeds.
    pub ci90: [f64; 2],
    /// Whether the interval lies within the margin.
    pub holds: bool,
}

/// Compares (observed, model) times of the same seeds.
#[must_use]
pub fn equivalence(pairs: &[(f64, f64)]) -> Equivalence {
    let logs: Vec<f64> = pairs.iter().map(|(seen, said)| (seen / said).ln()).collect();
    let (n, middle) = (logs.len() as f64, mean(&logs).unwrap_or(f64::NAN));
    let squares: f64 = logs.iter().map(|log| (log - middle).powi(2)).sum();
    let half = if logs.len() < 2 {
        f64::NAN
    } else {
        t_quantile_90(logs.len() - 1) * (squares / (n - 1.0) / n).sqrt()
    };
    let ci90 = [(middle - half).exp(), (middle + half).exp()];
    Equivalence { ratio: middle.exp(), ci90, holds: ci90[0] > 1.0 - MARGIN && ci90[1] < 1.0 + MARGIN }
}

/// Whether two mean numbers of packets are near one another.
#[must_use]
pub fn near(seen: f64, said: f64) -> bool {
    (seen - said).abs() <= (SHARE * seen).max(PACKETS)
}

/// Maximum relative difference of times.
const MARGIN: f64 = 0.05;
/// Maximum difference of packet counts: this share or this many packets, whichever is more.
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
