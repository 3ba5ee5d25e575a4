//! One printed cell beside the measured one, and the verdict, whose bounds were set before any run.

use super::figures::{Figures, Numbers};
use super::metric::Metric;
use super::printed::Row;
use super::table::Table;
use crate::stats::interval;
use anabranch_base::Rng;
use std::collections::BTreeMap;

/// Ratio up to which a cell agrees.
pub const AGREES: f64 = 1.1;
/// Ratio up to which a cell is near.
pub const NEAR: f64 = 1.5;
/// Draws of the mean of as many runs as the paper averaged.
const DRAWS: usize = 2_000;
/// A range of ours that is wider than this could hold nearly anything.
const INFORMATIVE: f64 = 2.0;

/// A printed number and what the runs give in its place.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Column to label, as printed.
    pub labels: BTreeMap<String, String>,
    /// The number as printed.
    pub printed: f64,
    /// Mean over the runs that have the number; `None` without one.
    pub ours: Option<f64>,
    /// The 95 % interval of ours over print; the two ends are alike where nothing is drawn from the seed.
    pub ratio: Option<[f64; 2]>,
    /// What as many runs as the paper averaged would give, from the 2.5th to the 97.5th percentile.
    pub range: Option<[f64; 2]>,
    /// The same where the counter of every n-th packet goes on from one of these runs to the next: least and most.
    pub running: Option<[f64; 2]>,
    /// Runs, and how many of them did not finish.
    pub runs: (usize, usize),
    /// What the two say together.
    pub verdict: Verdict,
    /// What the cell is evidence of.
    pub evidence: Evidence,
    /// Causes whose change brings it near print.
    pub explained: Vec<String>,
    /// The same of exploratory causes, which explain nothing.
    pub perhaps: Vec<String>,
    /// The same of counterfactuals, which are against what is known of the rig and explain nothing.
    pub against: Vec<String>,
}

/// How far a measured cell lies from the printed one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The whole interval of ours over print is within a factor of 1.1.
    Agrees,
    /// It is within a factor of 1.5.
    Near,
    /// It is wholly outside that.
    Differs,
    /// It is partly within.
    Undetermined,
    /// No run has the number.
    Missing,
}

/// What a cell is evidence of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Evidence {
    /// The transports.
    Transport,
    /// The arrivals, or arithmetic alone.
    Arithmetic,
    /// Nothing: it set an input of ours.
    Calibrated,
}

impl Verdict {
    /// One word for tables and files.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::Near => "near",
            Self::Differs => "differs",
            Self::Undetermined => "undetermined",
            Self::Missing => "missing",
        }
    }

    /// The word behind a number of cells.
    #[must_use]
    pub const fn of_several(self) -> &'static str {
        match self {
            Self::Agrees => "agree",
            Self::Differs => "differ",
            other => other.word(),
        }
    }

    fn of(ratio: Option<[f64; 2]>) -> Self {
        let Some([low, high]) = ratio else { return Self::Missing };
        let within = |bound: f64| low >= 1.0 / bound && high <= bound;
        match () {
            () if within(AGREES) => Self::Agrees,
            () if within(NEAR) => Self::Near,
            () if low > NEAR || high < 1.0 / NEAR => Self::Differs,
            () => Self::Undetermined,
        }
    }
}

impl Evidence {
    /// One word for files.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Transport => "transport",
            Self::Arithmetic => "arithmetic",
            Self::Calibrated => "calibrated",
        }
    }
}

impl Cell {
    /// The printed number is one that as many runs as the paper averaged give, 19 times of 20.
    #[must_use]
    pub fn is_inside(&self) -> Option<bool> {
        self.range.map(|[low, high]| (low..=high).contains(&self.printed))
    }

    /// The range excludes something.
    #[must_use]
    pub fn is_informative(&self) -> bool {
        self.range.is_some_and(|[low, high]| high <= low * INFORMATIVE)
    }

    /// It differs from print, or nothing is there to compare.
    #[must_use]
    pub fn is_off(&self) -> bool {
        matches!(self.verdict, Verdict::Differs | Verdict::Missing)
    }

    /// It is near print, as a whole.
    #[must_use]
    pub fn is_near(&self) -> bool {
        matches!(self.verdict, Verdict::Agrees | Verdict::Near)
    }

    /// It is near print, as a whole, by an interval that holds for so many cells at once (Bonferroni).
    #[must_use]
    pub fn is_near_among(&self, cells: usize) -> bool {
        let wider = interval::widened(self.runs.0, cells);
        let ratio = self.ratio.zip(self.ours).map(|([low, high], ours)| {
            let middle = ours / self.printed;
            [(middle - (middle - low) * wider).max(0.0), middle + (high - middle) * wider]
        });
        matches!(Verdict::of(ratio), Verdict::Agrees | Verdict::Near)
    }

    /// What the figures give in the place of a printed row.
    #[must_use]
    pub fn measure(table: &Table, row: &Row, figures: &Figures) -> Self {
        // Several where a label stands for every level of a factor.
        let points = figures.all_at(&row.labels);
        let runs: Vec<&Vec<Numbers>> =
            points.iter().filter_map(|point| point.contestants.get(row.contestant())).collect();
        let values = means(&runs, table.definition.metric, row.object());
        let all = runs.first().copied();
        let unfinished = runs.iter().copied().flatten().filter(|run| !run.is_done()).count();
        let ours = interval::mean(&values);
        let ratio = ours.map(|mean| {
            // Of all the cases there are the mean is known.
            let known = table.cases(figures).is_some_and(|cases| cases == values.len() as u64);
            let [low, high] = interval::ci95_from_zero(&values).filter(|_| !known).unwrap_or([mean, mean]);
            [low / row.value, high / row.value]
        });
        let evidence = match () {
            () if table.calibrates(&row.labels) => Evidence::Calibrated,
            () if table.is_arithmetic(&row.labels) => Evidence::Arithmetic,
            () => Evidence::Transport,
        };
        Self {
            labels: row.labels.clone(),
            printed: row.value,
            ours,
            ratio,
            range: range_of_means(&values, table.definition.averaged),
            running: table.cases(figures).zip(all).and_then(|(cases, runs)| {
                let cases = usize::try_from(cases).ok().filter(|cases| *cases == runs.len())?;
                let one = |run: &Numbers| {
                    let packets = run.value(Metric::Packets, None)?;
                    Some((run.value(table.definition.metric, row.object())?, packets as usize))
                };
                let runs = runs.iter().map(one).collect::<Option<Vec<_>>>()?;
                running_means(&runs, cases, table.definition.averaged)
            }),
            runs: (runs.iter().map(|runs| runs.len()).sum(), unfinished),
            verdict: Verdict::of(ratio),
            evidence,
            explained: Vec::new(),
            perhaps: Vec::new(),
            against: Vec::new(),
        }
    }
}

/// Seed by seed the mean over the points; a seed that has no number at one of them is left out.
pub(super) fn means(points: &[&Vec<Numbers>], metric: Metric, object: Option<usize>) -> Vec<f64> {
    let seeds = points.iter().map(|runs| runs.len()).max().unwrap_or(0);
    let mean = |seed: usize| {
        let values = points.iter().map(|runs| runs.get(seed)?.value(metric, object));
        Some(values.sum::<Option<f64>>()? / points.len() as f64)
    };
    (0..seeds).filter_map(mean).collect()
}

/// The 2.5th and 97.5th percentile of means of `averaged` values, drawn anew from these.
pub(super) fn range_of_means(values: &[f64], averaged: usize) -> Option<[f64; 2]> {
    if values.is_empty() || averaged == 0 {
        return None;
    }
    // The same draws for every cell of as many runs.
    let mut rng = Rng::new(1).fork("means of runs");
    let mut means: Vec<f64> = (0..DRAWS)
        .map(|_| {
            let drawn = (0..averaged).map(|_| values[rng.below(values.len() as u64) as usize]);
            drawn.sum::<f64>() / averaged as f64
        })
        .collect();
    means.sort_by(f64::total_cmp);
    Some([means[DRAWS * 25 / 1_000], means[DRAWS * 975 / 1_000 - 1]])
}

/// Least and most of means of `averaged` runs in a row, whose counter goes on. Of the runs, each with its value and its
/// packets, the one of seed s (from 1) loses packet 1 + s mod `cases` first.
fn running_means(runs: &[(f64, usize)], cases: usize, averaged: usize) -> Option<[f64; 2]> {
    // By how many packets are still passed before one is lost.
    let after = |passed: usize| runs[(passed + cases - 1) % cases];
    let means = (0..cases).map(|start| {
        let (mut passed, mut sum) = (start, 0.0);
        for _ in 0..averaged {
            let (value, packets) = after(passed);
            sum += value;
            passed = (passed + cases - packets % cases) % cases;
        }
        sum / averaged as f64
    });
    let means: Vec<f64> = means.collect();
    let least = means.iter().copied().reduce(f64::min)?;
    Some([least, means.iter().copied().fold(least, f64::max)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_of_whole_intervals() {
        for (ratio, verdict) in [
            (Some([0.95, 1.05]), Verdict::Agrees),
            (Some([1.0 / 1.1, 1.1]), Verdict::Agrees),
            (Some([0.95, 1.2]), Verdict::Near),
            (Some([0.7, 1.49]), Verdict::Near),
            (Some([1.2, 1.6]), Verdict::Undetermined),
            (Some([0.5, 2.0]), Verdict::Undetermined),
            (Some([1.51, 1.6]), Verdict::Differs),
            (Some([0.4, 0.66]), Verdict::Differs),
            (None, Verdict::Missing),
        ] {
            assert_eq!(Verdict::of(ratio), verdict, "{ratio:?}");
        }
    }

    #[test]
    fn a_mean_over_levels_is_taken_seed_by_seed() {
        let runs = |pages: &[f64]| pages.iter().map(|page| Numbers::of_page(*page)).collect::<Vec<_>>();
        let (slow, fast) = (runs(&[1.0, 2.0, 9.0]), runs(&[3.0, 6.0]));
        assert_eq!(means(&[&slow, &fast], Metric::Page, None), [2.0, 4.0], "the third has no other");
        assert_eq!(means(&[&fast], Metric::Page, None), [3.0, 6.0]);
        assert!(means(&[], Metric::Page, None).is_empty());
    }

    #[test]
    fn means_of_more_runs_spread_less() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        let [one, five] = [1, 5].map(|averaged| range_of_means(&values, averaged).expect("values"));
        // One of 1 to 100, 95 % of the time: 3 to 98.
        assert!((one[0] - 3.0).abs() < 2.0 && (one[1] - 98.0).abs() < 2.0, "{one:?}");
        // The deviation of a mean of five is 28.9 / sqrt 5 = 12.9: 50.5 -+ 25.3.
        assert!((five[0] - 25.2).abs() < 3.0 && (five[1] - 75.8).abs() < 3.0, "{five:?}");
        assert_eq!(range_of_means(&[2.0; 4], 3), Some([2.0, 2.0]));
        assert_eq!(range_of_means(&[], 1), None);
    }

    #[test]
    fn a_counter_that_goes_on_chooses_the_next_run() {
        // Of every second packet: seed 1 passes one and loses the next, seed 2 loses the first.
        let (passes, loses) = ((1.0, 3), (2.0, 3));
        assert_eq!(running_means(&[passes, loses], 2, 1), Some([1.0, 2.0]));
        // An odd number of packets: the two alternate. An even one: what was, stays.
        assert_eq!(running_means(&[passes, loses], 2, 4), Some([1.5, 1.5]));
        assert_eq!(running_means(&[(1.0, 2), (2.0, 4)], 2, 4), Some([1.0, 2.0]));
    }
}
