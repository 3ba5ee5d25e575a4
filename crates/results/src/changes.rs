//! The results of a point after changes to its network, page or contestants. They show which changes make another
//! contestant win.
//!
//! Results are compared by medians. The laboratory runs most changes. If another point of the race already has the
//! changed value, its result is used instead of a further run ([`of_neighbors`]).

use crate::axes::Axes;
use crate::stats::decision::{ComparisonFigures, LeaderStatus, decide};
use crate::stats::median_ratio::{self, MedianRatio};
use crate::stats::metrics::{self, PointTerms};
use crate::stats::paired::Value;
use crate::{Bound, Point, Verdict};
use serde::{Deserialize, Serialize};

/// One change to a point of a race, and the results of the contestants after the change.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Changed {
    /// The change as a user types it, for example `loss=1%`, `origins=merge`, `cc=bbr` or `visit=repeat`.
    pub change: String,
    /// Number of seeds; 1 if nothing is random.
    pub n: u64,
    /// The median of each contestant's page time (for messages: of its 95th percentile of delays) in milliseconds, in
    /// the order of the contestants. Null if half the runs or more did not finish.
    pub medians_ms: Vec<Option<f64>>,
    /// The contestant with the smallest median, as typed; null if it ties with another, or if the comparison is
    /// undecided.
    pub winner: Option<String>,
    /// The contestant with the second smallest median, as typed; null if fewer than two have a median.
    pub runner_up: Option<String>,
    /// Second smallest median divided by the smallest; null without `runner_up`.
    pub median_ratio: Option<f64>,
    /// 95 % interval of `median_ratio`, by a percentile bootstrap over the seeds; null when n < 6 or all pairs are
    /// equal.
    pub median_ci95: Option<[f64; 2]>,
    /// Whether the change makes another contestant win. False unless both results are decided.
    pub flips: bool,
}

/// The plan keys whose other values in the same race count as changes. The laboratory runs a change of such a key only
/// if the race has no points with other values of the key.
pub const KEYS: [&str; 5] = ["loss", "origins", "visit", "rtt", "rate"];

impl Changed {
    /// Returns the result of contestants after `change`. Each contestant has one value per seed, and all contestants
    /// have the same seeds. `is_random` says whether runs with other seeds could differ.
    #[must_use]
    pub fn of(change: String, contestants: &[(&str, Vec<Option<Value>>)], is_random: bool) -> Self {
        let medians: Vec<Option<Value>> =
            contestants.iter().map(|(_, values)| median_ratio::median(values)).collect();
        let medians_ms: Vec<Option<f64>> = medians
            .iter()
            .map(|median| median.filter(|median| !median.at_least).map(|median| median.value))
            .collect();
        let mut order: Vec<usize> = (0..contestants.len()).filter(|&i| medians_ms[i].is_some()).collect();
        // The sort is stable, so contestants with equal medians keep their order.
        order.sort_by(|&a, &b| medians_ms[a].unwrap_or(0.0).total_cmp(&medians_ms[b].unwrap_or(0.0)));
        let n = contestants.first().map_or(0, |(_, values)| values.len()) as u64;
        let exact = n == 1 && !is_random;
        let over_first = |other: usize, first: usize| {
            let pairs = contestants[other].1.iter().copied().zip(contestants[first].1.iter().copied());
            median_ratio::of(&pairs.collect::<Vec<_>>())
        };
        let (mut winner, mut runner_up, mut ratio) = (None, None, MedianRatio::default());
        if let Some(&first) = order.first() {
            let verdict = |other: usize| -> Option<Verdict> {
                let MedianRatio { ratio, ci95 } = over_first(other, first);
                let bound = medians[other].filter(|median| median.at_least).map(|_| Bound::AtLeast);
                Some(decide(&ComparisonFigures { ratio: ratio?, ci95, n, exact, bound }).0)
            };
            let others = (0..contestants.len()).filter(|&other| other != first).map(verdict);
            if LeaderStatus::of_first(others) == LeaderStatus::Wins {
                winner = Some(contestants[first].0.to_owned());
            }
            if let Some(&second) = order.get(1) {
                runner_up = Some(contestants[second].0.to_owned());
                ratio = over_first(second, first);
            }
        }
        Self {
            change,
            n,
            medians_ms,
            winner,
            runner_up,
            median_ratio: ratio.ratio,
            median_ci95: ratio.ci95,
            flips: false,
        }
    }

    /// Returns the result of a point without a change. The medians are those of [`of`](Self::of). The winner is the
    /// one that the answer of the point names ([`Point::clear_winner`]): averages have to agree with medians.
    #[must_use]
    pub fn none(point: &Point) -> Self {
        let (metric, terms) = (point.decisive(), point.terms());
        let is_one_case =
            point.contestants.iter().all(|contestant| metrics::is_one_case(&contestant.runs, terms));
        let values = |runs: &[crate::Run]| -> Vec<Option<Value>> {
            let counted = if is_one_case { &runs[..runs.len().min(1)] } else { runs };
            counted.iter().map(|run| metrics::bounded(run, metric, terms)).collect()
        };
        let contestants: Vec<_> =
            point.contestants.iter().map(|one| (one.name.as_str(), values(&one.runs))).collect();
        let PointTerms { is_random, .. } = terms;
        let found = Self::of(String::new(), &contestants, is_random);
        let winner = point.clear_winner().map(|winner| winner.name.clone());
        Self { winner, ..found }
    }

    /// Returns this result with the field `flips` filled in. `before` is the result without the change.
    #[must_use]
    pub fn after(self, before: &Self) -> Self {
        let flips = self.winner.is_some() && before.winner.is_some() && self.winner != before.winner;
        Self { flips, ..self }
    }
}

/// Returns the results of the neighbours of point `index` as changes. A neighbour has the next or the previous level of
/// one factor in [`KEYS`], and the same level of all other factors. `results` has the result of each point.
#[must_use]
pub fn of_neighbors(axes: &Axes, results: &[Changed], index: usize) -> Vec<Changed> {
    let own = axes.level_indices(index);
    let mut changes = Vec::new();
    for (factor, axis) in axes.0.iter().enumerate().filter(|(_, axis)| KEYS.contains(&axis.factor.as_str())) {
        let [previous, next] = [own[factor].checked_sub(1), own[factor].checked_add(1)];
        for level in [previous, next].into_iter().flatten().filter(|level| *level < axis.levels.len()) {
            let mut indices = own.clone();
            indices[factor] = level;
            let Some(found) = results.get(axes.index(&indices)) else { continue };
            let change = format!("{}={}", axis.factor, axis.levels[level]);
            changes.push(Changed { change, ..found.clone() }.after(&results[index]));
        }
    }
    changes
}

/// Returns whether [`of_neighbors`] finds a change at any point.
#[must_use]
pub fn has_neighbors(axes: &Axes) -> bool {
    axes.0.iter().any(|axis| KEYS.contains(&axis.factor.as_str()) && axis.levels.len() > 1)
}

/// Adds the results of neighbouring points to each point of a race with several points.
pub fn add_neighbors(points: &mut [Point]) {
    let Some(axes) = Axes::of(points.iter().map(|point| &point.factors)) else { return };
    if !has_neighbors(&axes) {
        return;
    }
    let results: Vec<Changed> = points.iter().map(Changed::none).collect();
    for (index, point) in points.iter_mut().enumerate() {
        point.changes.splice(..0, of_neighbors(&axes, &results, index));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axes::Axis;

    fn values(values: &[f64]) -> Vec<Option<Value>> {
        values.iter().map(|value| Some(Value::from(*value))).collect()
    }

    fn steady(value: f64) -> Vec<Option<Value>> {
        values(&[value - 1.0, value, value + 1.0, value, value - 1.0, value, value + 1.0, value])
    }

    #[test]
    fn the_smallest_median_wins_if_the_interval_excludes_a_tie() {
        let found = Changed::of(
            "loss=1%".to_owned(),
            &[("a", steady(150.0)), ("b", steady(100.0)), ("c", steady(120.0))],
            true,
        );
        assert_eq!((found.winner.as_deref(), found.runner_up.as_deref()), (Some("b"), Some("c")));
        assert_eq!(found.medians_ms, [150.0, 100.0, 120.0].map(Some));
        assert_eq!((found.n, found.median_ratio), (8, Some(1.2)));
        let level = Changed::of(String::new(), &[("a", steady(100.0)), ("b", steady(100.5))], true);
        assert_eq!((level.winner, level.runner_up.as_deref()), (None, Some("b")));
        let one = Changed::of(String::new(), &[("a", values(&[1.0])), ("b", values(&[2.0]))], false);
        assert_eq!(one.winner.as_deref(), Some("a"), "nothing is random");
        let one = Changed::of(String::new(), &[("a", values(&[1.0])), ("b", values(&[2.0]))], true);
        assert_eq!(one.winner, None, "one seed of many");
    }

    #[test]
    fn a_contestant_that_never_finishes_has_no_median_and_loses() {
        let cut = vec![Some(Value { value: 600.0, at_least: true }); 8];
        let found = Changed::of(String::new(), &[("a", cut.clone()), ("b", steady(100.0))], true);
        assert_eq!((found.winner.as_deref(), found.runner_up), (Some("b"), None));
        assert_eq!((found.medians_ms, found.median_ratio), (vec![None, Some(100.0)], None));
        let nobody = Changed::of(String::new(), &[("a", cut.clone()), ("b", cut)], true);
        assert_eq!((nobody.winner, nobody.medians_ms), (None, vec![None, None]));
    }

    #[test]
    fn neighbors_differ_in_one_factor_by_one_level() {
        let axis = |factor: &str, levels: &[&str]| Axis {
            factor: factor.to_owned(),
            levels: levels.iter().map(|level| (*level).to_owned()).collect(),
        };
        let axes = Axes(vec![axis("queue", &["1p", "2p"]), axis("loss", &["0", "1%", "2%"])]);
        let result = |winner: &str| {
            let mut result = Changed::of(String::new(), &[("a", steady(1.0))], true);
            result.winner = Some(winner.to_owned());
            result
        };
        let results: Vec<Changed> = ["a", "a", "b", "a", "a", "a"].map(result).to_vec();
        let found = of_neighbors(&axes, &results, 1);
        let told: Vec<(&str, bool)> = found.iter().map(|one| (one.change.as_str(), one.flips)).collect();
        assert_eq!(told, [("loss=0", false), ("loss=2%", true)]);
        let found = of_neighbors(&axes, &results, 5);
        assert_eq!(found.len(), 1, "the other level of 'queue' is no change that is tried");
        assert!(!found[0].flips);
    }
}
