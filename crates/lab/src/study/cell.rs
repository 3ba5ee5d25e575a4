//! A published cell, its measured counterpart, and a verdict whose bounds were fixed before any run.

use super::figures::{Figures, Numbers};
use super::metric::Metric;
use super::printed::Row;
use super::table::Table;
use crate::stats::interval;
use anabranch_base::Rng;
use std::collections::BTreeMap;

/// Largest ratio at which a cell agrees.
pub const AGREES: f64 = 1.1;
/// Largest ratio at which a cell is near.
pub const NEAR: f64 = 1.5;
/// Number of resampled means, each of as many runs as the paper averaged.
const DRAWS: usize = 2_000;
/// Ratio of its ends above which our range is too wide to be informative.
const INFORMATIVE: f64 = 2.0;

/// A published number and our runs' value for it.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Column to label, as published.
    pub labels: BTreeMap<String, String>,
    /// The published number.
    pub printed: f64,
    /// Mean over the runs that have a value; `None` if there is none.
    pub ours: Option<f64>,
    /// The 95 % interval of ours over published; the two ends are equal if nothing is drawn from the seed.
    pub ratio: Option<[f64; 2]>,
    /// The range of means of as many runs as the paper averaged, from the 2.5th to the 97.5th percentile.
    pub range: Option<[f64; 2]>,
    /// The same if the drop-every-n-th counter continues from one run to the next: smallest and largest mean.
    pub running: Option<[f64; 2]>,
    /// Number of runs, and how many of them did not finish.
    pub runs: (usize, usize),
    /// The conclusion from the comparison.
    pub verdict: Verdict,
    /// The kind of evidence that the cell provides.
    pub evidence: Evidence,
    /// Causes whose change brings the cell near the published value.
    pub explained: Vec<String>,
    /// Exploratory causes that do so; these explain nothing.
    pub perhaps: Vec<String>,
    /// Counterfactuals that do so; they contradict what is known of the rig and explain nothing.
    pub against: Vec<String>,
}

/// The distance of a measured cell from the published one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The whole interval of ours over published is within a factor of 1.1.
    Agrees,
    /// The whole interval is within a factor of 1.5.
    Near,
    /// The whole interval is outside a factor of 1.5.
    Differs,
    /// The interval is partly within a factor of 1.5.
    Undetermined,
    /// No run has a value.
    Missing,
}

/// The kind of evidence that a cell provides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Evidence {
    /// It is evidence about the transports.
    Transport,
    /// It only shows the arrivals, or arithmetic.
    Arithmetic,
    /// It is no evidence: it set an input of ours.
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

    /// Plural form, as in "3 cells agree".
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
    /// Whether the published number is within the 95 % range of means of as many runs as the paper averaged.
    #[must_use]
    pub fn is_inside(&self) -> Option<bool> {
        self.range.map(|[low, high]| (low..=high).contains(&self.printed))
    }

    /// Whether the range is narrow enough to be informative.
    #[must_use]
    pub fn is_informative(&self) -> bool {
        self.range.is_some_and(|[low, high]| high <= low * INFORMATIVE)
    }

    /// Whether the cell differs from the published value, or has no value to compare.
    #[must_use]
    pub fn is_off(&self) -> bool {
        matches!(self.verdict, Verdict::Differs | Verdict::Missing)
    }

    /// Whether the whole interval is near the published value.
    #[must_use]
    pub fn is_near(&self) -> bool {
        matches!(self.verdict, Verdict::Agrees | Verdict::Near)
    }

    /// Whether the whole interval is near the published value, with an interval that holds for `cells` cells at once
    /// (Bonferroni).
    #[must_use]
    pub fn is_near_among(&self, cells: usize) -> bool {
        let wider = interval::widened(self.runs.0, cells);
        let ratio = self.ratio.zip(self.ours).map(|([low, high], ours)| {
            let middle = ours / self.printed;
            [(middle - (middle - low) * wider).max(0.0), middle + (high - middle) * wider]
        });
        matches!(Verdict::of(ratio), Verdict::Agrees | Verdict::Near)
    }

    /// The measured counterpart of a published row.
    #[must_use]
    pub fn measure(table: &Table, row: &Row, figures: &Figures) -> Self {
        // There are several points if a label stands for every level of a factor.
        let points = figures.all_at(&row.labels);
        let runs: Vec<&Vec<Numbers>> =
            points.iter().filter_map(|point| point.contestants.get(row.contestant())).collect();
        let values = means(&runs, table.definition.metric, row.object());
        let all = runs.first().copied();
        let unfinished = runs.iter().copied().flatten().filter(|run| !run.is_done()).count();
        let ours = interval::mean(&values);
        let ratio = ours.map(|mean| {
            // If all possible cases were run, the mean is exact.
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

/// For each seed the mean over the points; a seed without a value at one of them is left out.
pub(super) fn means(points: &[&Vec<Numbers>], metric: Metric, object: Option<usize>) -> Vec<f64> {
    let seeds = points.iter().map(|runs| runs.len()).max().unwrap_or(0);
    let mean = |seed: usize| {
        let values = points.iter().map(|runs| runs.get(seed)?.value(metric, object));
        Some(values.sum::<Option<f64>>()? / points.len() as f64)
    };
    (0..seeds).filter_map(mean).collect()
}

/// The 2.5th and 97.5th percentile of means of `averaged` values, resampled from `values`.
pub(super) fn range_of_means(values: &[f64], averaged: usize) -> Option<[f64; 2]> {
    if values.is_empty() || averaged == 0 {
        return None;
    }
    // Every cell with the same number of runs uses the same draws.
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

/// The smallest and largest mean of `averaged` consecutive runs whose drop counter continues. Each run has its value and its
/// number of packets. The run with seed s (from 1) drops packet 1 + s mod `cases` first.
fn running_means(runs: &[(f64, usize)], cases: usize, averaged: usize) -> Option<[f64; 2]> {
    // Selects the run by the number of packets that pass before one is dropped.
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
        // Every second packet is dropped: seed 1 passes one and drops the next, seed 2 drops the first.
        let (passes, loses) = ((1.0, 3), (2.0, 3));
        assert_eq!(running_means(&[passes, loses], 2, 1), Some([1.0, 2.0]));
        // With an odd number of packets the two runs alternate; with an even number the same run repeats.
        assert_eq!(running_means(&[passes, loses], 2, 4), Some([1.5, 1.5]));
        assert_eq!(running_means(&[(1.0, 2), (2.0, 4)], 2, 4), Some([1.0, 2.0]));
    }
}
