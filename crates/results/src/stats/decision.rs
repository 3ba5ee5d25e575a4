//! Decides a comparison of two contestants from the ratio of their values and the ratio's confidence interval. If the
//! comparison is undecided, estimates how many more seeds would decide it.
//!
//! Two contestants differ if the 95 % interval of their ratio excludes 1 and the gap is at least 3 %. They tie
//! ([`Verdict::Level`]) if the interval lies between 1/1.03 and 1.03. Otherwise the comparison is undecided.
//!
//! If all ratios are identical, there is no t-interval. At least [`FEWEST_ALIKE`] identical ratios still decide the
//! comparison: both ends of the rank interval of their median are equal to the common ratio.

use super::interval::{share_ci95, t_quantile};
use crate::{Bound, Comparison, Verdict};

/// The smallest ratio of two contestants' times that counts as a difference: 1.03, or a gap of 3 %.
pub const GAP: f64 = 1.03;

/// The smallest number of ratios that decides a comparison if all measured ratios are identical. Six identical ratios
/// show with 95 % confidence that their value is the median over all possible seeds. If the median were another value,
/// six identical ratios would have a probability of at most 2 x 2^-6, or 3 %
/// ([`median_ci95`](super::interval::median_ci95)).
pub const FEWEST_ALIKE: u64 = 6;

/// How the fastest contestant compares with the other contestants.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LeaderStatus {
    /// The fastest contestant is significantly faster than every other contestant.
    Wins,
    /// The fastest contestant ties with at least one other contestant, and is significantly faster than the rest.
    Level,
    /// The comparison of the fastest contestant with at least one other contestant is undecided.
    Undecided,
    /// No run of any contestant finished.
    Nobody,
}

impl LeaderStatus {
    /// Returns the status of the first contestant. Each item of `others` is the verdict on a ratio: another
    /// contestant's time divided by the first contestant's time. [`Verdict::More`] means that the first contestant is
    /// faster.
    pub fn of_first(others: impl Iterator<Item = Option<Verdict>>) -> Self {
        let one = |verdict| match verdict {
            Some(Verdict::More) => Self::Wins,
            Some(Verdict::Level) => Self::Level,
            _ => Self::Undecided,
        };
        others.map(one).max().unwrap_or(Self::Wins)
    }
}

/// The numbers from which the comparison of two contestants is decided.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ComparisonFigures {
    /// The geometric mean of the ratios a/b, each of a pair of runs.
    pub ratio: f64,
    /// The 95 % interval of the ratio; `None` if there is only one pair, or if all ratios are equal.
    pub ci95: Option<[f64; 2]>,
    /// The number of pairs of runs.
    pub n: u64,
    /// Whether the ratio is exact, because nothing in the runs is random. Otherwise the ratio is an estimate.
    pub exact: bool,
    /// If some runs did not finish, whether the ratio is a lower or an upper bound; `None` if all runs finished.
    pub bound: Option<Bound>,
}

/// Returns the verdict on the comparison. If it is undecided, also returns how many additional seeds would decide it,
/// assuming the present spread. `None` if even [`MAX_SEEDS`] seeds in total would not decide it.
#[must_use]
pub fn decide(found: &ComparisonFigures) -> (Verdict, Option<u64>) {
    // The tolerance of 1e-12 is needed because of rounding errors: a gap of exactly 3 % must not count as smaller.
    let matters = found.ratio.ln().abs() >= GAP.ln() - 1e-12;
    let towards = if found.ratio > 1.0 { Verdict::More } else { Verdict::Less };
    let possible = match (found.bound, towards) {
        (None, _) | (Some(Bound::AtLeast), Verdict::More) | (Some(Bound::AtMost), Verdict::Less) => true,
        (Some(_), _) => false,
    };
    if !possible {
        return (Verdict::Undecided, None);
    }
    if found.exact {
        return (if matters { towards } else { Verdict::Level }, None);
    }
    let interval = match found.ci95 {
        None if found.n >= FEWEST_ALIKE => [found.ratio; 2],
        None if found.n > 1 => return (Verdict::Undecided, Some(FEWEST_ALIKE - found.n)),
        None => return (Verdict::Undecided, None),
        Some(interval) => interval,
    };
    let [low, high] = interval;
    if matters && (low > 1.0 || high < 1.0) {
        return (towards, None);
    }
    if found.bound.is_none() && low >= 1.0 / GAP && high <= GAP {
        return (Verdict::Level, None);
    }
    (Verdict::Undecided, more_seeds(found, interval))
}

/// Returns the number of additional seeds that would make the interval narrow enough to decide. Assumes the present
/// ratio and spread. `None` if the total would exceed [`MAX_SEEDS`].
fn more_seeds(found: &ComparisonFigures, [low, high]: [f64; 2]) -> Option<u64> {
    let (log, n) = (found.ratio.ln().abs(), found.n as f64);
    let half = (high.ln() - low.ln()) / 2.0;
    // A ratio of at least `GAP` is decided when its confidence interval excludes 1. A smaller ratio is decided when the
    // whole interval is closer to 1 than `GAP`. Both conditions mean that half the width of the interval, in ln(ratio),
    // is below `target`.
    let target = if log >= GAP.ln() { log } else { GAP.ln() - log };
    let spread = half * n.sqrt() / t_quantile(found.n.saturating_sub(1).max(1) as usize);
    let wide = |seeds: f64| t_quantile(seeds as usize - 1) * spread / seeds.sqrt() >= target;
    let mut seeds = (1.96 * spread / target).powi(2).ceil().max(n + 1.0);
    while seeds <= MAX_SEEDS && wide(seeds) {
        seeds += (seeds / 1000.0).ceil();
    }
    (seeds <= MAX_SEEDS).then_some((seeds - n) as u64)
}

/// Whether contestant `b`, which is faster on average over all seeds, is also faster with most seeds. `Yes`, `Open` and
/// `No` hold the percentage of seeds with which `b` is faster. A seed with equal times counts half, in the percentage and
/// in its interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WinFrequency {
    /// The question does not arise: nothing in the runs is random, there is only one seed, or the two contestants have
    /// equal times with every seed.
    NotAsked,
    /// Contestant `b` is faster in more than half of the seeds: the 95 % interval of its share of the seeds lies above
    /// one half.
    Yes(u64),
    /// The data does not show whether contestant `b` is faster in more than half of the seeds: the 95 % interval of its
    /// share of the seeds contains one half.
    Open(u64),
    /// Contestant `b` is faster in less than half of the seeds, although it is faster in the mean over all seeds. The
    /// 95 % interval of its share of the seeds lies below one half.
    No(u64),
}

/// Returns whether contestant `b` is faster than `a` with most seeds.
#[must_use]
pub fn usual(found: &Comparison) -> WinFrequency {
    let ties = found.n - found.less - found.more;
    // Twice the number of wins, in which a tie counts half.
    let half_wins = 2 * found.more + ties;
    let interval = share_ci95(half_wins as f64 / 2.0, found.n);
    let Some([low, high]) = interval.filter(|_| !found.exact && found.n > 1 && ties < found.n) else {
        return WinFrequency::NotAsked;
    };
    let percent = (100 * half_wins + found.n) / (2 * found.n);
    match (low > 0.5, high < 0.5) {
        (true, _) => WinFrequency::Yes(percent),
        (false, true) => WinFrequency::No(percent),
        (false, false) => WinFrequency::Open(percent),
    }
}

/// Rounds up a number of seeds, so that it has at most two significant digits. The number is an estimate.
#[must_use]
pub fn rounded_up(seeds: u64) -> u64 {
    let mut unit = 1;
    while seeds / unit >= 100 {
        unit *= 10;
    }
    seeds.div_ceil(unit) * unit
}

/// Formats a whole number with commas between groups of three digits, for example `45,000`.
#[must_use]
pub fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The largest number of seeds that a plan accepts.
pub const MAX_SEEDS: f64 = 1e6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_stand_between_groups_of_three_digits() {
        assert_eq!(
            [0, 580, 1000, 45_000, 1_000_000].map(with_commas),
            ["0", "580", "1,000", "45,000", "1,000,000"]
        );
    }

    fn decided(ratio: f64, low: f64, high: f64) -> (Verdict, Option<u64>) {
        decide(&ComparisonFigures { ratio, ci95: Some([low, high]), n: 100, exact: false, bound: None })
    }

    #[test]
    fn a_gap_counts_from_three_percent_and_without_doubt() {
        assert_eq!(decided(1.10, 1.05, 1.15), (Verdict::More, None));
        assert_eq!(decided(0.90, 0.85, 0.95), (Verdict::Less, None));
        assert_eq!(decided(1.01, 0.99, 1.02), (Verdict::Level, None));
        // The interval excludes 1, so the contestants differ. However, all ratios in the interval are within 3 % of 1,
        // so the difference is too small to matter, and the contestants tie.
        assert_eq!(decided(1.015, 1.005, 1.025), (Verdict::Level, None));
        for (ratio, low, high) in [(1.02, 1.005, 1.04), (1.10, 0.95, 1.27), (0.99, 0.90, 1.09)] {
            let (verdict, more) = decided(ratio, low, high);
            assert_eq!(verdict, Verdict::Undecided, "{ratio}");
            assert!(more.is_some_and(|more| more > 0), "{ratio}: {more:?}");
        }
    }

    /// Checks that the comparison is decided with the suggested number of additional seeds. With about 0.5 % fewer
    /// seeds, it must still be undecided.
    #[test]
    fn the_suggested_number_of_seeds_decides() {
        for ratio in [1.002_f64, 1.01, 1.05, 1.2, 0.97, 0.85] {
            let half = |n: f64| t_quantile(n as usize - 1) * 1.1 / n.sqrt();
            let with = |n: u64| {
                let ci95 = [(ratio.ln() - half(n as f64)).exp(), (ratio.ln() + half(n as f64)).exp()];
                decide(&ComparisonFigures { ratio, ci95: Some(ci95), n, exact: false, bound: None })
            };
            let (verdict, more) = with(100);
            let (Verdict::Undecided, Some(more)) = (verdict, more) else { panic!("{ratio}: {verdict:?}") };
            assert_ne!(with(100 + more).0, Verdict::Undecided, "{ratio}: {more} more");
            let fewer = 100 + more - 1 - more / 200;
            assert!(fewer <= 100 || with(fewer).0 == Verdict::Undecided, "{ratio}: {more} are too many");
        }
    }

    #[test]
    fn one_case_is_decided_without_an_interval_and_one_run_of_chance_is_not() {
        let one = |ratio, exact| decide(&ComparisonFigures { ratio, ci95: None, n: 1, exact, bound: None }).0;
        assert_eq!((one(1.03, true), one(0.9, true)), (Verdict::More, Verdict::Less));
        assert_eq!((one(1.02, true), one(1.0, true)), (Verdict::Level, Verdict::Level));
        assert_eq!(one(2.0, false), Verdict::Undecided);
    }

    /// Packets can be lost at random, but no run lost a packet. The ratio of the contestants' times is then equal in
    /// every run. Six equal ratios must decide the comparison, five must not.
    #[test]
    fn six_identical_ratios_decide() {
        let alike =
            |ratio, n, bound| decide(&ComparisonFigures { ratio, ci95: None, n, exact: false, bound });
        assert_eq!(alike(1.03, 6, None), (Verdict::More, None));
        assert_eq!(alike(0.5, 10, None), (Verdict::Less, None));
        assert_eq!(alike(1.02, 6, None), (Verdict::Level, None));
        assert_eq!(alike(2.0, 5, None), (Verdict::Undecided, Some(1)));
        assert_eq!(alike(2.0, 2, None), (Verdict::Undecided, Some(4)));
        assert_eq!(alike(2.0, 1, None), (Verdict::Undecided, None));
        assert_eq!(alike(2.0, 6, Some(Bound::AtLeast)), (Verdict::More, None));
        assert_eq!(alike(2.0, 6, Some(Bound::AtMost)), (Verdict::Undecided, None));
        assert_eq!(alike(1.0, 6, Some(Bound::AtLeast)), (Verdict::Undecided, None));
    }

    /// [`FEWEST_ALIKE`] is the smallest number of values whose median has a rank interval.
    #[test]
    fn min_identical_ratios_is_what_the_rank_interval_needs() {
        let values = |n: u64| (1..=n).map(|value| value as f64).collect::<Vec<_>>();
        assert!(crate::stats::interval::median_ci95(&values(FEWEST_ALIKE)).is_some());
        assert_eq!(crate::stats::interval::median_ci95(&values(FEWEST_ALIKE - 1)), None);
    }

    /// Returns how often `b` wins according to [`usual`], if `b` was faster in `more` seeds and slower in `less` seeds.
    fn won(more: u64, less: u64) -> WinFrequency {
        let terms = crate::stats::metrics::PointTerms { deadline_ns: None, is_random: true };
        let found = crate::stats::metrics::compare(("a", &[]), ("b", &[]), "page_ms", terms);
        usual(&Comparison { more, less, n: more + less, exact: false, ..found })
    }

    #[test]
    fn usually_is_said_where_few_seeds_do_not_leave_it_open() {
        assert_eq!(won(80, 20), WinFrequency::Yes(80));
        assert_eq!(won(4, 1), WinFrequency::Open(80), "of five");
        assert_eq!(won(57, 43), WinFrequency::Open(57));
        assert_eq!(won(43, 57), WinFrequency::Open(43));
        assert_eq!(won(20, 80), WinFrequency::No(20));
        assert_eq!(won(0, 1), WinFrequency::NotAsked);
    }

    /// The percentage and the interval that decides must treat ties alike.
    #[test]
    fn a_tie_counts_half_in_the_share_and_in_its_interval() {
        let with_ties = |more, less, ties| {
            let terms = crate::stats::metrics::PointTerms { deadline_ns: None, is_random: true };
            let found = crate::stats::metrics::compare(("a", &[]), ("b", &[]), "page_ms", terms);
            usual(&Comparison { more, less, n: more + less + ties, exact: false, ..found })
        };
        // The 12 seeds with a winner alone would be decided: 10 of 12. Their share of all seeds is not.
        assert_eq!(with_ties(10, 2, 0), WinFrequency::Yes(83));
        assert_eq!(with_ties(10, 2, 88), WinFrequency::Open(54));
        assert_eq!(with_ties(2, 10, 88), WinFrequency::Open(46));
        assert_eq!(with_ties(60, 10, 30), WinFrequency::Yes(75));
        assert_eq!(with_ties(10, 60, 30), WinFrequency::No(25));
        assert_eq!(with_ties(1, 0, 2), WinFrequency::Open(67));
        assert_eq!(with_ties(0, 0, 9), WinFrequency::NotAsked, "all seeds tie");
    }

    #[test]
    fn a_bound_decides_only_towards_where_it_points() {
        let bounded = |ratio: f64, bound| {
            let ci95 = Some([ratio / 1.01, ratio * 1.01]);
            decide(&ComparisonFigures { ratio, ci95, n: 50, exact: false, bound: Some(bound) }).0
        };
        assert_eq!(bounded(1.5, Bound::AtLeast), Verdict::More);
        assert_eq!(bounded(0.5, Bound::AtMost), Verdict::Less);
        assert_eq!(bounded(1.5, Bound::AtMost), Verdict::Undecided);
        assert_eq!(bounded(0.5, Bound::AtLeast), Verdict::Undecided);
        assert_eq!(bounded(1.0, Bound::AtLeast), Verdict::Undecided);
        assert_eq!(bounded(1.5, Bound::Unknown), Verdict::Undecided);
    }
}
