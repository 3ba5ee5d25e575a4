//! Means and medians with their 95 % intervals.

/// The 97.5 % quantiles of Student's t for 1 to 30 degrees of freedom. They come from the exact series for whole
/// degrees of freedom (Abramowitz and Stegun 26.7.3 and 26.7.4).
const QUANTILES: [f64; 30] = [
    12.706_204_736,
    4.302_652_730,
    3.182_446_305,
    2.776_445_105,
    2.570_581_836,
    2.446_911_851,
    2.364_624_252,
    2.306_004_135,
    2.262_157_163,
    2.228_138_852,
    2.200_985_160,
    2.178_812_830,
    2.160_368_656,
    2.144_786_688,
    2.131_449_546,
    2.119_905_299,
    2.109_815_578,
    2.100_922_040,
    2.093_024_054,
    2.085_963_447,
    2.079_613_845,
    2.073_873_068,
    2.068_657_610,
    2.063_898_562,
    2.059_538_553,
    2.055_529_439,
    2.051_830_516,
    2.048_407_142,
    2.045_229_642,
    2.042_272_456,
];

/// Returns the 97.5 % quantile of Student's t, for at least one degree of freedom.
#[must_use]
pub fn t_quantile(degrees: usize) -> f64 {
    if let Some(exact) = degrees.checked_sub(1).and_then(|i| QUANTILES.get(i)) {
        return *exact;
    }
    // For 31 or more degrees of freedom, the expansion differs from the exact quantile by at most 3e-8.
    expansion(1.959_963_984_540_054, degrees)
}

/// Returns the quantile of Student's t that is exceeded with the probability `tail`, which is below a half. Inverts, by
/// bisection, the exact distribution function for whole degrees of freedom (Abramowitz and Stegun 26.7.3 and 26.7.4).
/// Zero degrees of freedom count as one.
#[must_use]
pub fn t_quantile_at(degrees: usize, tail: f64) -> f64 {
    let degrees = degrees.max(1);
    let (mut low, mut high) = (0.0, std::f64::consts::FRAC_PI_2);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if t_tail(degrees, middle) > tail { low = middle } else { high = middle }
    }
    (degrees as f64).sqrt() * low.tan()
}

/// Returns the probability that Student's t exceeds sqrt(degrees) * tan(angle).
fn t_tail(degrees: usize, angle: f64) -> f64 {
    let (sin, cos) = angle.sin_cos();
    let is_odd = degrees % 2 == 1;
    // The series for even degrees is 1 + 1/2 cos^2 + (1*3)/(2*4) cos^4 + ... The series for odd degrees is cos + 2/3
    // cos^3 + (2*4)/(3*5) cos^5 + ...
    let (mut term, mut sum) = if is_odd { (cos, 0.0) } else { (1.0, 0.0) };
    let mut power = usize::from(is_odd);
    while power + 2 <= degrees {
        sum += term;
        term *= cos * cos * (power + 1) as f64 / (power + 2) as f64;
        power += 2;
    }
    let within = match is_odd {
        true => (angle + sin * sum) * std::f64::consts::FRAC_2_PI,
        false => sin * sum,
    };
    (1.0 - within) / 2.0
}

/// Returns the factor by which 95 % intervals over `values` values must be widened for several comparisons
/// (Bonferroni). With this factor, `comparisons` intervals all hold with a probability of 95 %.
#[must_use]
pub fn widened(values: usize, comparisons: usize) -> f64 {
    if values < 2 || comparisons < 2 {
        return 1.0;
    }
    t_quantile_at(values - 1, 0.025 / comparisons as f64) / t_quantile(values - 1)
}

/// Returns the one-sided 95 % quantile of Student's t, which t exceeds with a probability of 5 %. There must be at
/// least one degree of freedom. From three degrees on, the result is within 1 % of the exact quantile.
#[must_use]
pub fn t_quantile_95(degrees: usize) -> f64 {
    match degrees {
        0 | 1 => 6.313_751_515,
        2 => 2.919_985_580,
        _ => expansion(1.644_853_626_951_473, degrees),
    }
}

/// Abramowitz and Stegun 26.7.5: returns a quantile of Student's t by an expansion around `z`, the same quantile of the
/// normal distribution.
fn expansion(z: f64, degrees: usize) -> f64 {
    let v = degrees as f64;
    let odd = |coefficients: [f64; 5]| coefficients.iter().rev().fold(0.0, |sum, c| sum * z * z + c) * z;
    z + odd([1.0, 1.0, 0.0, 0.0, 0.0]) / (4.0 * v)
        + odd([3.0, 16.0, 5.0, 0.0, 0.0]) / (96.0 * v * v)
        + odd([-15.0, 17.0, 19.0, 3.0, 0.0]) / (384.0 * v * v * v)
        + odd([-945.0, -1920.0, 1482.0, 776.0, 79.0]) / (92160.0 * v * v * v * v)
}

/// Returns the mean; `None` for an empty slice.
#[must_use]
pub fn mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() { None } else { Some(values.iter().sum::<f64>() / values.len() as f64) }
}

/// Returns the geometric mean; `None` if there are no values, or if a value is not above 0. If all values are equal,
/// the result is exactly that value, to the last bit.
#[must_use]
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    let first = *values.first()?;
    if values.iter().any(|value| *value <= 0.0) {
        return None;
    }
    if values.iter().all(|value| *value == first) {
        return Some(first);
    }
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    mean(&logs).map(f64::exp)
}

/// Returns the distribution-free 95 % interval of the median by ranks. It reaches from the k-th value to the k-th value
/// from the end. k is the largest rank at which the binomial distribution leaves at most 2.5 % on either side. `None`
/// if all values are equal, or if there are fewer than six values, for which no interval reaches 95 %.
#[must_use]
pub fn median_ci95(sorted: &[f64]) -> Option<[f64; 2]> {
    let (first, last) = (sorted.first()?, sorted.last()?);
    if first == last {
        return None;
    }
    quantile_ci95(sorted, 0.5)
}

/// Returns the distribution-free 95 % interval of the quantile at `p`, which is above 0 and below 1, by ranks. `None` if
/// there are too few values. For `p` of 0.95, 72 values are enough.
#[must_use]
pub fn quantile_ci95(sorted: &[f64], p: f64) -> Option<[f64; 2]> {
    let (below, above) =
        (binomial_tail(sorted.len(), p, 0.025)?, binomial_tail(sorted.len(), 1.0 - p, 0.025)?);
    Some([sorted[below], sorted[sorted.len() - 1 - above]])
}

/// Returns the largest k such that `n` coins show k or fewer heads with a probability of at most `most`, if each coin
/// shows a head with the probability `p`. `None` if even 0 heads are more probable than `most`.
fn binomial_tail(n: usize, p: f64, most: f64) -> Option<usize> {
    // Uses logarithms because 2^-n underflows for n above 1,074.
    let mut log = n as f64 * (1.0 - p).ln();
    let odds = (p / (1.0 - p)).ln();
    let (mut tail, mut found) = (0.0, None);
    for heads in 0..n {
        tail += log.exp();
        if tail > most {
            break;
        }
        found = Some(heads);
        log += ((n - heads) as f64 / (heads + 1) as f64).ln() + odds;
    }
    found
}

/// Returns the 95 % interval of the share `hits` / `of`, by Wilson's score; `None` if `of` is 0. A half hit counts as
/// 0.5. The interval is then slightly too wide, because halves vary less than hits and misses.
#[must_use]
pub fn share_ci95(hits: f64, of: u64) -> Option<[f64; 2]> {
    const Z: f64 = 1.959_963_984_540_054;
    if of == 0 {
        return None;
    }
    let (n, p) = (of as f64, hits / of as f64);
    let scale = 1.0 + Z * Z / n;
    let middle = (p + Z * Z / (2.0 * n)) / scale;
    let half = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt() / scale;
    Some([middle - half, middle + half])
}

/// Returns the 95 % t-interval of the mean. `None` if there are fewer than two values, or if all are equal, because a
/// repeated deterministic outcome has no sampling error.
#[must_use]
pub fn ci95(values: &[f64]) -> Option<[f64; 2]> {
    let first = values.first()?;
    if values.len() < 2 || values.iter().all(|v| v == first) {
        return None;
    }
    let n = values.len() as f64;
    let mean = mean(values)?;
    let variance = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / (n - 1.0);
    let half = t_quantile(values.len() - 1) * (variance / n).sqrt();
    Some([mean - half, mean + half])
}

/// Like [`ci95`], for values that cannot be negative, such as times, bytes and counts: the interval starts at 0 or
/// above.
#[must_use]
pub fn ci95_from_zero(values: &[f64]) -> Option<[f64; 2]> {
    ci95(values).map(|[low, high]| [low.max(0.0), high])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_printed_tables() {
        for (degrees, printed) in [
            (1, 12.706),
            (2, 4.303),
            (9, 2.262),
            (29, 2.045),
            (30, 2.042),
            (40, 2.021),
            (60, 2.000),
            (120, 1.980),
        ] {
            let t = t_quantile(degrees);
            assert!((t - printed).abs() < 0.000_5, "t({degrees}) = {t}, tables print {printed}");
        }
        // The table ends at 30 degrees of freedom and the expansion starts at 31, without a jump between them.
        assert!(t_quantile(30) > t_quantile(31) && t_quantile(30) - t_quantile(31) < 0.003);
        assert!((t_quantile(31) - 2.039_513_446).abs() < 1e-7);
    }

    #[test]
    fn quantiles_of_any_tail_are_those_of_the_printed_tables() {
        for (degrees, tail, printed) in [
            (1, 0.025, 12.706),
            (1, 0.0005, 636.619),
            (2, 0.005, 9.925),
            (3, 0.0005, 12.924),
            (4, 0.025, 2.776),
            (9, 0.001, 4.297),
            (19, 0.005, 2.861),
            (99, 0.025, 1.984),
            (120, 0.0005, 3.373),
        ] {
            let t = t_quantile_at(degrees, tail);
            assert!((t / printed - 1.0).abs() < 2e-4, "t({degrees}, {tail}) = {t}, tables print {printed}");
        }
        assert!((1..60).all(|degrees| (t_quantile_at(degrees, 0.025) - t_quantile(degrees)).abs() < 1e-6));
        assert_eq!((widened(10, 1), widened(1, 9)), (1.0, 1.0));
        assert!((widened(10, 25) - 4.297 / 2.262).abs() < 1e-3);
    }

    #[test]
    fn quantiles_of_the_90_percent_interval_are_those_of_the_tables() {
        for (degrees, printed) in [(1, 6.314), (2, 2.920), (3, 2.353), (7, 1.895), (29, 1.699), (120, 1.658)]
        {
            let t = t_quantile_95(degrees);
            assert!((t / printed - 1.0).abs() < 0.01, "t({degrees}) = {t}, tables print {printed}");
        }
    }

    #[test]
    fn interval_matches_a_hand_calculation() {
        // The values 1, 2, 3, 4 have the mean 2.5 and the variance 5/3. With t(3) = 3.182446305 the half width of the
        // interval is 3.182446305 * sqrt(5/12).
        let [low, high] = ci95(&[1.0, 2.0, 3.0, 4.0]).expect("an interval");
        let half = 3.182_446_305 * (5.0_f64 / 12.0).sqrt();
        assert!((low - (2.5 - half)).abs() < 1e-12 && (high - (2.5 + half)).abs() < 1e-12);
        assert!((half - 2.054_260).abs() < 1e-6);
    }

    #[test]
    fn ranks_are_those_of_the_printed_tables() {
        // The expected ranks are from Conover, Practical Nonparametric Statistics. The interval of 6 values is the
        // whole range. That of 10 values goes from the 2nd to the 9th, of 20 from the 6th to the 15th, and of 100 from
        // the 40th to the 61st.
        let ranks = |n: u32| {
            let values: Vec<f64> = (1..=n).map(f64::from).collect();
            median_ci95(&values)
        };
        assert_eq!(ranks(5), None);
        assert_eq!(ranks(6), Some([1.0, 6.0]));
        assert_eq!(ranks(10), Some([2.0, 9.0]));
        assert_eq!(ranks(20), Some([6.0, 15.0]));
        assert_eq!(ranks(100), Some([40.0, 61.0]));
        // For n = 1,000,000 values, 2^-n underflows. The ranks are near 500,000 - 980 and 500,000 + 980.
        let [low, high] = ranks(1_000_000).expect("an interval");
        assert!((low - 499_020.0).abs() < 3.0 && (high - 500_981.0).abs() < 3.0, "{low} {high}");
        assert_eq!(median_ci95(&[2.0; 50]), None);
        // 0.95^71 is 0.0262 and 0.95^72 is 0.0249. Of 100 values, 89 or fewer are below the 95th percentile with a
        // probability of 0.0115, and 90 or fewer with 0.0282.
        let p95 = |n: u32| quantile_ci95(&(1..=n).map(f64::from).collect::<Vec<_>>(), 0.95);
        assert_eq!((p95(71), p95(72), p95(100)), (None, Some([64.0, 72.0]), Some([90.0, 100.0])));
        assert_eq!(quantile_ci95(&[], 0.95), None);
    }

    #[test]
    fn share_interval_matches_a_hand_calculation() {
        // A share of 15 of 20 has the 95 % interval 0.531 to 0.888 (Newcombe 1998).
        let [low, high] = share_ci95(15.0, 20).expect("an interval");
        assert!((low - 0.531).abs() < 5e-4 && (high - 0.888).abs() < 5e-4, "{low} {high}");
        assert_eq!(share_ci95(0.0, 0), None);
    }

    #[test]
    fn identical_values_have_exactly_equal_bounds() {
        assert_eq!(geometric_mean(&[1_742.5; 7]), Some(1_742.5));
        assert!((geometric_mean(&[2.0, 8.0]).expect("a mean") - 4.0).abs() < 1e-12);
        assert_eq!((geometric_mean(&[]), geometric_mean(&[0.0, 1.0])), (None, None));
    }

    #[test]
    fn no_interval_without_spread() {
        assert_eq!(ci95(&[]), None);
        assert_eq!(ci95(&[3.0]), None);
        assert_eq!(ci95(&[3.0, 3.0, 3.0]), None);
    }

    #[test]
    fn intervals_of_non_negative_values_do_not_go_below_zero() {
        assert!(ci95(&[1.0, 3.0]).is_some_and(|[low, high]| low < 0.0 && high > 14.0));
        assert_eq!(ci95_from_zero(&[1.0, 3.0]), ci95(&[1.0, 3.0]).map(|[_, high]| [0.0, high]));
        assert_eq!(ci95_from_zero(&[10.0, 10.1]), ci95(&[10.0, 10.1]));
    }
}
