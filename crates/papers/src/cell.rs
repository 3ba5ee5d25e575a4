//! A published cell, the value that our runs measured for it, and the verdict of the comparison. The bounds of verdicts
//! were fixed before any run.

use super::figures::{Figures, Numbers};
use super::metric::Metric;
use super::printed::Row;
use super::table::Table;
use anabranch_base::Rng;
use anabranch_results::stats::interval;
use std::collections::BTreeMap;

/// A cell agrees if our value and the published value differ by at most this factor.
pub const AGREES: f64 = 1.1;
/// A cell is near the published value if our value differs from it by at most this factor.
pub const NEAR: f64 = 1.5;
/// The number of resampled means from which [`PublishedCell::range`] is computed. Each mean is over as many runs as the
/// paper averaged.
const DRAWS: usize = 2_000;
/// The maximum ratio of the upper end of [`PublishedCell::range`] to its lower end. A wider range is not informative.
const INFORMATIVE: f64 = 2.0;

/// A published number, and the value of our runs for it.
#[derive(Clone, Debug)]
pub struct PublishedCell {
    /// The labels of the cell, by column, as published.
    pub labels: BTreeMap<String, String>,
    /// The published number.
    pub published: f64,
    /// The mean of our runs that have a value; `None` if no run has one.
    pub ours: Option<f64>,
    /// The 95 % interval of our mean divided by the published number. Both ends are equal if the runs have no
    /// randomness.
    pub ratio: Option<[f64; 2]>,
    /// The 2.5th and the 97.5th percentile of resampled means. Each mean is over as many randomly drawn runs as the
    /// paper averaged.
    pub range: Option<[f64; 2]>,
    /// If a link drops every n-th packet: the smallest and the largest possible mean over as many consecutive runs as
    /// the paper averaged. The packet counter of the link is not reset between runs, so the mean depends on its value
    /// before the first run. `None` for other links, or if one of the n possible runs was not made or has no value.
    pub running: Option<[f64; 2]>,
    /// The number of our runs, and the number of our runs that did not finish.
    pub runs: (usize, usize),
    /// How near our value is to the published value.
    pub verdict: CellVerdict,
    /// The kind of evidence that the cell provides.
    pub evidence: Evidence,
    /// The causes that explain why our value differs from the published value. In runs with a cause's change, our value
    /// is within a factor of 1.5 of the published value. Empty if our value does not differ, or if no cause explains
    /// it.
    pub explained: Vec<String>,
    /// The exploratory causes that bring our value within a factor of 1.5 of the published value. They were found by
    /// trying many variants, so they do not count as explanations.
    pub exploratory_causes: Vec<String>,
    /// The counterfactual causes that bring our value within a factor of 1.5 of the published value. They contradict
    /// known properties of the paper's test rig, so they do not count as explanations.
    pub counterfactual_causes: Vec<String>,
}

/// How far a measured cell is from the published value. The verdicts refer to the 95 % interval of our mean divided by
/// the published number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CellVerdict {
    /// The whole interval is between 1/1.1 and 1.1.
    Agrees,
    /// The whole interval is between 1/1.5 and 1.5.
    Near,
    /// The whole interval is below 1/1.5 or above 1.5.
    Differs,
    /// Only a part of the interval is between 1/1.5 and 1.5, so neither `Near` nor `Differs` is certain.
    Undetermined,
    /// None of our runs has a value for the cell.
    Missing,
}

/// The kind of evidence that a cell provides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Evidence {
    /// The cell is evidence about the transports.
    Transport,
    /// The cell follows from the times of the requests or from arithmetic, so it is no evidence about the transports.
    Arithmetic,
    /// The cell is no evidence, because its published value was used to calibrate a parameter.
    Calibrated,
}

impl CellVerdict {
    /// Returns one word for the verdict on a cell, for tables and files.
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

    /// Returns the plural form, as in "3 cells agree".
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
    /// Returns the word that files use for this kind of evidence.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Transport => "transport",
            Self::Arithmetic => "arithmetic",
            Self::Calibrated => "calibrated",
        }
    }
}

impl PublishedCell {
    /// Returns whether the published number is within the [`range`](Self::range) of our resampled means; `None` if
    /// there is no range.
    #[must_use]
    pub fn is_inside(&self) -> Option<bool> {
        self.range.map(|[low, high]| (low..=high).contains(&self.published))
    }

    /// Returns whether the [`range`](Self::range) of our resampled means is narrow enough to be informative.
    #[must_use]
    pub fn is_informative(&self) -> bool {
        self.range.is_some_and(|[low, high]| high <= low * INFORMATIVE)
    }

    /// Returns whether the cell differs from the published value, or has no value to compare.
    #[must_use]
    pub fn is_off(&self) -> bool {
        matches!(self.verdict, CellVerdict::Differs | CellVerdict::Missing)
    }

    /// Returns whether the whole 95 % interval of our value is near the published value: within a factor of 1.5.
    #[must_use]
    pub fn is_near(&self) -> bool {
        matches!(self.verdict, CellVerdict::Agrees | CellVerdict::Near)
    }

    /// Widens the interval of our value so that it holds for `cells` cells at once (Bonferroni). Returns whether the
    /// whole widened interval is within a factor of 1.5 of the published value.
    #[must_use]
    pub fn is_near_among(&self, cells: usize) -> bool {
        let wider = interval::widened(self.runs.0, cells);
        let ratio = self.ratio.zip(self.ours).map(|([low, high], ours)| {
            let middle = ours / self.published;
            [(middle - (middle - low) * wider).max(0.0), middle + (high - middle) * wider]
        });
        matches!(CellVerdict::of(ratio), CellVerdict::Agrees | CellVerdict::Near)
    }

    /// Compares the published number in a row with the value of our runs.
    #[must_use]
    pub fn measure(table: &Table, row: &Row, figures: &Figures) -> Self {
        // The labels of a row may match several points, because a label may stand for all levels of a factor.
        let points = figures.all_at(&row.labels);
        let runs: Vec<&Vec<Numbers>> =
            points.iter().filter_map(|point| point.contestants.get(row.contestant())).collect();
        let values = means(&runs, table.definition.metric, row.object());
        let all = runs.first().copied();
        let unfinished = runs.iter().copied().flatten().filter(|run| !run.is_done()).count();
        let ours = interval::mean(&values);
        let ratio = ours.map(|mean| {
            // If our runs cover all possible random choices, the mean is exact and has no interval.
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
            published: row.value,
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
            verdict: CellVerdict::of(ratio),
            evidence,
            explained: Vec::new(),
            exploratory_causes: Vec::new(),
            counterfactual_causes: Vec::new(),
        }
    }
}

/// Returns for each seed the mean of its values over all `points`. A seed without a value at one of the points is left
/// out.
pub(super) fn means(points: &[&Vec<Numbers>], metric: Metric, object: Option<usize>) -> Vec<f64> {
    let seeds = points.iter().map(|runs| runs.len()).max().unwrap_or(0);
    let mean = |seed: usize| {
        let values = points.iter().map(|runs| runs.get(seed)?.value(metric, object));
        Some(values.sum::<Option<f64>>()? / points.len() as f64)
    };
    (0..seeds).filter_map(mean).collect()
}

/// Returns the 2.5th and the 97.5th percentile of resampled means. Each mean is over `averaged` random draws from
/// `values`.
pub(super) fn range_of_means(values: &[f64], averaged: usize) -> Option<[f64; 2]> {
    if values.is_empty() || averaged == 0 {
        return None;
    }
    // The generator has a fixed seed, so all cells with the same number of runs use the same random numbers.
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

/// Returns the smallest and the largest mean over `averaged` consecutive runs, among all runs that can be the first.
/// Each element of `runs` is the value of a run and its number of packets.
///
/// In these runs, a link drops every n-th packet, where n is `cases`. In the run with seed s (from 1), the first
/// dropped packet is number 1 + (s mod `cases`). The link's packet counter is not reset between consecutive runs. The
/// number of packets in one run therefore determines which run comes next.
fn running_means(runs: &[(f64, usize)], cases: usize, averaged: usize) -> Option<[f64; 2]> {
    // Returns the value and the packet count of the run whose first drop comes after `passed` packets.
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
            (Some([0.95, 1.05]), CellVerdict::Agrees),
            (Some([1.0 / 1.1, 1.1]), CellVerdict::Agrees),
            (Some([0.95, 1.2]), CellVerdict::Near),
            (Some([0.7, 1.49]), CellVerdict::Near),
            (Some([1.2, 1.6]), CellVerdict::Undetermined),
            (Some([0.5, 2.0]), CellVerdict::Undetermined),
            (Some([1.51, 1.6]), CellVerdict::Differs),
            (Some([0.4, 0.66]), CellVerdict::Differs),
            (None, CellVerdict::Missing),
        ] {
            assert_eq!(CellVerdict::of(ratio), verdict, "{ratio:?}");
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
        // If single values are drawn from 1 to 100, 95 % of them are between 3 and 98.
        assert!((one[0] - 3.0).abs() < 2.0 && (one[1] - 98.0).abs() < 2.0, "{one:?}");
        // The standard deviation of the values from 1 to 100 is 28.9. That of a mean of five values is
        // 28.9 / sqrt 5 = 12.9, so 95 % of the means are within 50.5 -+ 25.3.
        assert!((five[0] - 25.2).abs() < 3.0 && (five[1] - 75.8).abs() < 3.0, "{five:?}");
        assert_eq!(range_of_means(&[2.0; 4], 3), Some([2.0, 2.0]));
        assert_eq!(range_of_means(&[], 1), None);
    }

    #[test]
    fn a_counter_that_goes_on_chooses_the_next_run() {
        // Each pair is the value of a run and its number of packets. Every second packet is dropped. In the run
        // `passes`, that is the second packet. In the run `loses`, these are the first and the third packet.
        let (passes, loses) = ((1.0, 3), (2.0, 3));
        assert_eq!(running_means(&[passes, loses], 2, 1), Some([1.0, 2.0]));
        // The packet counter is not reset between runs. After a run with an odd number of packets, the other run
        // follows, so `passes` and `loses` alternate. After a run with an even number, the same run follows again.
        assert_eq!(running_means(&[passes, loses], 2, 4), Some([1.5, 1.5]));
        assert_eq!(running_means(&[(1.0, 2), (2.0, 4)], 2, 4), Some([1.0, 2.0]));
    }
}
