//! The rank test of Mann and Whitney: tests whether two sets of values may come from one distribution.
//!
//! If no two values are equal and one set is small, the test counts all arrangements and is exact. Otherwise it uses
//! the normal distribution, corrected for ties and for continuity.

/// Returns the two-sided p-value of the rank test; 1 if either set is empty or all values are equal.
#[must_use]
pub fn mann_whitney(a: &[f64], b: &[f64]) -> f64 {
    let (small, large) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    let (n, m) = (small.len(), large.len());
    if n == 0 {
        return 1.0;
    }
    let mut all: Vec<(f64, bool)> = small.iter().map(|value| (*value, true)).collect();
    all.extend(large.iter().map(|value| (*value, false)));
    all.sort_by(|x, y| x.0.total_cmp(&y.0));
    // `rank_sum` is twice the sum of the ranks of `small`. Equal values share their mean rank, which may end in one
    // half, so the doubled sum is always an integer.
    let (mut rank_sum, mut ties, mut at) = (0_u64, 0.0, 0);
    for group in all.chunk_by(|x, y| x.0 == y.0) {
        let own_count = group.iter().filter(|(_, is_own)| *is_own).count() as u64;
        rank_sum += own_count * (2 * at + group.len() as u64 + 1);
        let t = group.len() as f64;
        ties += t * t * t - t;
        at += group.len() as u64;
    }
    let double_u = rank_sum - (n * (n + 1)) as u64;
    if ties == 0.0 && n <= EXACT {
        return exact(n, m, (double_u / 2) as usize);
    }
    let (n, m) = (n as f64, m as f64);
    let total = n + m;
    let variance = n * m / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let away = ((double_u as f64 / 2.0 - n * m / 2.0).abs() - 0.5).max(0.0);
    (2.0 * upper_tail(away / variance.sqrt())).min(1.0)
}

/// Returns the exact two-sided p-value: twice the share of arrangements in which the statistic is at least as extreme
/// as `u`.
fn exact(n: usize, m: usize, u: usize) -> f64 {
    // `counts[k][s]` is the number of ways to choose k of the numbers seen so far such that their sum is the smallest
    // possible sum plus s.
    let most = n * m;
    let mut counts = vec![vec![0.0_f64; most + 1]; n + 1];
    counts[0][0] = 1.0;
    for number in 0..n + m {
        for k in (1..=n.min(number + 1)).rev() {
            // `number` is the k-th smallest of the chosen numbers, with k from 1. Numbers count from 0, so `number` is
            // at least k - 1. `rank_of_k` is the number of smaller numbers that are not chosen: `number` - (k - 1).
            let rank_of_k = number + 1 - k;
            if rank_of_k > m {
                continue;
            }
            for s in (rank_of_k..=most).rev() {
                counts[k][s] += counts[k - 1][s - rank_of_k];
            }
        }
    }
    let all: f64 = counts[n].iter().sum();
    let out = u.min(most - u);
    let tail: f64 = counts[n][..=out].iter().sum();
    (2.0 * tail / all).min(1.0)
}

/// Returns the share of the standard normal distribution above `z`, for z >= 0 (Abramowitz and Stegun 26.2.17, error
/// below 7.5e-8).
fn upper_tail(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z);
    let polynomial = t
        * (0.319_381_530
            + t * (-0.356_563_782 + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * polynomial
}

/// If the smaller set has at most this number of values, and no two values are equal, the p-value is exact. It is then
/// computed by counting all arrangements of the ranks.
const EXACT: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, right: f64) -> bool {
        (found - right).abs() < 1e-4
    }

    #[test]
    fn arrangements_are_counted() {
        // The 6 values can be divided into two sets of 3 in 20 ways. In each tail, one of them is at least as extreme:
        // p = 2/20.
        assert!(near(mann_whitney(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]), 0.1));
        // Here the test statistic U is 1. In each tail, two of the 20 arrangements are at least as extreme: p = 4/20.
        assert!(near(mann_whitney(&[1.0, 2.0, 4.0], &[3.0, 5.0, 6.0]), 0.2));
        // The 10 values can be divided into two sets of 5 in 252 ways. In each tail, one of them is at least as
        // extreme: p = 2/252.
        let low = [1.0, 2.0, 3.0, 4.0, 5.0];
        assert!(near(mann_whitney(&low, &[6.0, 7.0, 8.0, 9.0, 10.0]), 2.0 / 252.0));
        assert!(near(mann_whitney(&[1.5, 3.5], &[1.0, 2.0, 3.0, 4.0]), 1.0));
    }

    #[test]
    fn the_order_of_the_sets_does_not_matter() {
        let (a, b) = ([3.0, 1.0, 4.0, 1.5], [9.0, 2.6, 5.0, 3.5, 8.0]);
        assert_eq!(mann_whitney(&a, &b).to_bits(), mann_whitney(&b, &a).to_bits());
    }

    #[test]
    fn ties_are_no_evidence() {
        assert!(near(mann_whitney(&[1.0; 5], &[1.0; 200]), 1.0));
        assert!(near(mann_whitney(&[], &[1.0]), 1.0));
        // Five values of 2 against 200 values of 1 are evidence of a difference.
        assert!(mann_whitney(&[2.0; 5], &[1.0; 200]) < 0.01);
    }

    #[test]
    fn the_normal_tail_is_right() {
        assert!(
            near(upper_tail(0.0), 0.5)
                && near(upper_tail(1.959_964), 0.025)
                && near(upper_tail(2.575_829), 0.005)
        );
    }
}
