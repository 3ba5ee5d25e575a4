//! Decides whether the results of a table satisfy a check, for example "smaller than".

use super::{CheckResult, ComparisonContext, Direction, LARGER, Outcome, Relation, SAME, SMALLER, Term};
use crate::effect::{MeanEstimate, difference, figure};
use crate::figures::{Figures, Point};
use crate::metric::Metric;
use std::collections::BTreeMap;

impl Relation {
    /// Checks whether the relation holds in the results of a table. Considers only the table points whose factors have
    /// the levels `at`.
    #[must_use]
    pub fn decide(
        &self,
        figures: &Figures,
        at: &BTreeMap<String, String>,
        by: ComparisonContext,
    ) -> CheckResult {
        let mut outcomes = self.outcomes(figures, at, ComparisonContext { comparisons: 1, ..by });
        if by.comparisons > 1 && outcomes.iter().any(|(outcome, _)| *outcome == Outcome::Fails) {
            let wide = self.outcomes(figures, at, by);
            for ((outcome, _), (wide, _)) in outcomes.iter_mut().zip(wide) {
                if *outcome == Outcome::Fails && wide != Outcome::Fails {
                    *outcome = Outcome::Undetermined;
                }
            }
        }
        let worst = outcomes.iter().map(|(outcome, _)| *outcome).max().unwrap_or(Outcome::Undetermined);
        let holding = outcomes.iter().filter(|(outcome, _)| *outcome == Outcome::Holds).count();
        let example = match worst {
            Outcome::Holds => outcomes.first(),
            _ => outcomes.iter().find(|(outcome, _)| *outcome == worst),
        };
        let example = example.map_or("no such point or contestant".to_owned(), |(_, found)| found.clone());
        let found = match outcomes.len() {
            0 | 1 => example,
            all => format!("{holding} of {all}; {example}"),
        };
        CheckResult { outcome: worst, description: found }
    }

    fn outcomes(
        &self,
        figures: &Figures,
        at: &BTreeMap<String, String>,
        by: ComparisonContext,
    ) -> Vec<(Outcome, String)> {
        match self {
            Self::Within(one, other, bounds) => decide_bounds(figures, at, by, one, other.as_ref(), *bounds),
            Self::Ratios(terms, bounds) => decide_ratios(figures, at, by, terms, *bounds),
            Self::Trend(term, direction, factor) => trend(figures, at, by, term, *direction, factor),
        }
    }

    /// Returns the number of comparisons that decide the relation. Each object at each table point counts as one
    /// comparison. For a trend along a factor, the number is multiplied by the number of levels.
    #[must_use]
    pub fn comparisons(
        &self,
        figures: &Figures,
        at: &BTreeMap<String, String>,
        by: ComparisonContext,
    ) -> usize {
        let outcomes = self.outcomes(figures, at, ComparisonContext { comparisons: 1, ..by }).len();
        let steps = |factor: &String| {
            let mut levels: Vec<_> =
                figures.points.iter().filter_map(|point| point.factors.get(factor)).collect();
            levels.sort_unstable();
            levels.dedup();
            levels.len().max(1)
        };
        match self {
            Self::Within(..) | Self::Ratios(..) => outcomes,
            Self::Trend(_, _, factor) => outcomes * steps(factor),
        }
    }

    /// Returns the first of `keys` that the relation names: as a key of `at`, as a key of a term, or as the factor of a
    /// trend.
    pub(crate) fn names_of(&self, at: &BTreeMap<String, String>, keys: &[String]) -> Option<String> {
        let is_named = |key: &&String| {
            at.contains_key(*key)
                || self.terms().iter().any(|term| term.at.contains_key(*key))
                || matches!(self, Self::Trend(_, _, along) if along == *key)
        };
        keys.iter().find(is_named).cloned()
    }

    /// Returns the terms that the relation compares. Each term refers to a contestant and to levels of factors.
    #[must_use]
    pub fn terms(&self) -> Vec<&Term> {
        match self {
            Self::Within(one, other, _) => std::iter::once(one).chain(other).collect(),
            Self::Ratios(terms, _) => terms.iter().collect(),
            Self::Trend(term, ..) => vec![term],
        }
    }
}

impl Term {
    /// Returns the name of the contestant that the term refers to.
    #[must_use]
    pub fn contestant(&self) -> &str {
        &self.contestant
    }

    /// Returns the factor levels that apply to this term alone.
    pub(crate) fn levels(&self) -> &BTreeMap<String, String> {
        &self.at
    }

    /// Returns the mean of the term. If `denominator` is given, returns the mean ratio of the term to `denominator`.
    /// Each of the two terms is measured at the factor levels that it names. `metric` applies to terms that name no
    /// metric.
    pub(crate) fn estimate(
        &self,
        denominator: Option<&Self>,
        figures: &Figures,
        metric: Metric,
    ) -> Option<MeanEstimate> {
        let own = figures.at(&self.at)?;
        match denominator {
            None => MeanEstimate::of_values(&self.values(own, metric, None)),
            Some(denominator) => {
                let second = figures.at(&denominator.at)?;
                let logs = |values: Vec<Option<f64>>| {
                    let log = |value: Option<f64>| value.filter(|value| *value > 0.0).map(f64::ln);
                    values.into_iter().map(log).collect::<Vec<_>>()
                };
                let (one, two) = (self.by_run(own, metric, None), denominator.by_run(second, metric, None));
                MeanEstimate::of(&difference(&logs(one), &logs(two)))
            }
        }
    }

    fn metric(&self, table: Metric) -> Metric {
        self.metric.unwrap_or(table)
    }

    /// Returns the page objects whose values the check compares at `point`. Each object is given by its index in the
    /// page, from 1. Returns a single `None` if the metric describes whole runs.
    fn objects(&self, point: &Point, at: &BTreeMap<String, String>, table: Metric) -> Vec<Option<usize>> {
        if !self.metric(table).is_of_objects() {
            return vec![None];
        }
        if let Some(number) = self.at.get("object").or_else(|| at.get("object")) {
            return vec![number.parse().ok()];
        }
        let runs = point.contestants.get(&self.contestant);
        let count = runs.and_then(|runs| runs.first()).map_or(0, |run| run.objects());
        (1..=count).map(Some).collect()
    }

    /// Returns the value of the term in each run at one point of the table. Runs without a value are left out.
    fn values(&self, point: &Point, metric: Metric, object: Option<usize>) -> Vec<f64> {
        self.by_run(point, metric, object).into_iter().flatten().collect()
    }

    /// Returns the value of the term in each run at one point of the table; `None` for a run without a value. `metric`
    /// applies if the term names no metric.
    fn by_run(&self, point: &Point, metric: Metric, object: Option<usize>) -> Vec<Option<f64>> {
        let object = self.at.get("object").and_then(|number| number.parse().ok()).or(object);
        point.by_run(&self.contestant, self.metric(metric), object)
    }
}

/// Describes where `terms` were compared, as the end of a sentence, for example ` at loss 1%, object 2`. Names the level
/// of each term if a term has a level of its own, for example `timeout 15s against 60s`.
fn result_suffix(point: &Point, object: Option<usize>, terms: &[&Term]) -> String {
    let mut factors = point.factors.clone();
    factors.extend(object.map(|number| ("object".to_owned(), number.to_string())));
    let part = |(key, level): (&String, &String)| {
        let mut levels: Vec<&String> = terms.iter().map(|term| term.at.get(key).unwrap_or(level)).collect();
        levels.dedup();
        let levels: Vec<&str> = levels.into_iter().map(String::as_str).collect();
        format!("{key} {}", levels.join(" against "))
    };
    let parts: Vec<String> = factors.iter().map(part).collect();
    if parts.is_empty() { String::new() } else { format!(" at {}", parts.join(", ")) }
}

/// Returns whether a point has the factor levels `at`. Keys that are not factors of the point are ignored.
fn is_at(point: &Point, at: &BTreeMap<String, String>) -> bool {
    at.iter().all(|(key, level)| point.factors.get(key).is_none_or(|own| own == level))
}

/// Returns the table point that has the levels `at` for the factors in `at`, and the levels of `from` for all other
/// factors.
fn moved_point<'a>(figures: &'a Figures, from: &Point, at: &BTreeMap<String, String>) -> Option<&'a Point> {
    let mut labels = from.factors.clone();
    labels.extend(at.iter().map(|(key, level)| (key.clone(), level.clone())));
    figures.at(&labels)
}

/// Decides whether the ratio of two results is within the bounds. Each of `first` and `second` is one result, with one
/// value per run. If `by.means` is set, uses the ratio of their means, otherwise the ratio in each run. If one of these
/// means or values is 0 or less, there is no ratio, and the difference in each run is used. Returns `None` if no run
/// has both values.
fn compared(
    first: &[Option<f64>],
    second: &[Option<f64>],
    bounds: [f64; 2],
    by: ComparisonContext,
) -> Option<(Outcome, String)> {
    let runs = difference(first, second).iter().flatten().count();
    if by.means
        && let Some(found) = MeanEstimate::of_means(first, second)
    {
        let found = found.of_cases(runs, by.cases);
        return Some((found.among(runs, by.comparisons, true).outcome(bounds), found.to_string()));
    }
    if first.iter().chain(second).flatten().any(|value| *value <= 0.0) {
        return by_difference(&difference(first, second), bounds, by);
    }
    let logs = |values: &[Option<f64>]| values.iter().map(|value| value.map(f64::ln)).collect::<Vec<_>>();
    let found = MeanEstimate::of(&difference(&logs(first), &logs(second)))?.of_cases(runs, by.cases);
    Some((found.among(runs, by.comparisons, true).outcome(bounds), found.to_string()))
}

/// Decides a relation between two results by their difference in each run. This function is used if a value is 0 or
/// less, because the ratio then has no logarithm. `bounds` are the bounds of the ratio.
fn by_difference(
    differences: &[Option<f64>],
    bounds: [f64; 2],
    by: ComparisonContext,
) -> Option<(Outcome, String)> {
    let known: Vec<f64> = differences.iter().copied().flatten().collect();
    let found = MeanEstimate::of_values(&known)?.of_cases(known.len(), by.cases);
    let [low, high] = found.among(known.len(), by.comparisons, false).interval;
    let outcome = match bounds {
        SMALLER if high < 0.0 => Outcome::Holds,
        SMALLER if low >= 0.0 => Outcome::Fails,
        LARGER if low > 0.0 => Outcome::Holds,
        LARGER if high <= 0.0 => Outcome::Fails,
        SAME if known.iter().all(|difference| *difference == 0.0) => Outcome::Holds,
        SMALLER | LARGER => Outcome::Undetermined,
        _ => return Some((Outcome::Undetermined, "no ratio, since a run has 0,".to_owned())),
    };
    Some((outcome, format!("a difference of {} to {}", figure(low), figure(high))))
}

impl MeanEstimate {
    /// Decides whether the whole interval of the estimate is inside these bounds (holds), outside of them (fails), or
    /// neither.
    fn outcome(&self, bounds: [f64; 2]) -> Outcome {
        match () {
            () if self.is_within(bounds) => Outcome::Holds,
            () if self.is_outside(bounds) => Outcome::Fails,
            () => Outcome::Undetermined,
        }
    }
}

fn decide_bounds(
    figures: &Figures,
    at: &BTreeMap<String, String>,
    by: ComparisonContext,
    first_term: &Term,
    second_term: Option<&Term>,
    bounds: [f64; 2],
) -> Vec<(Outcome, String)> {
    let mut outcomes = Vec::new();
    let mut done: Vec<BTreeMap<String, String>> = Vec::new();
    for point in figures.points.iter().filter(|point| is_at(point, at)) {
        // If every term fixes the level of a factor, points that differ only in this factor give the same comparison.
        // This comparison is made only once.
        let own: Vec<&String> = first_term
            .at
            .keys()
            .filter(|key| second_term.is_none_or(|second_term| second_term.at.contains_key(*key)))
            .collect();
        let mut factors = point.factors.clone();
        factors.retain(|key, _| !own.contains(&key));
        if done.contains(&factors) {
            continue;
        }
        done.push(factors);
        let (Some(first), second) = (
            moved_point(figures, point, &first_term.at),
            second_term.map(|term| moved_point(figures, point, &term.at)),
        ) else {
            continue;
        };
        for object in first_term.objects(first, at, by.metric) {
            // With a single term, its mean itself is compared with the bounds, even if the mean is 0. With two terms,
            // the ratio or difference of their values is compared.
            let found = match (second_term, second) {
                (Some(term), Some(Some(second))) => {
                    let first_values = first_term.by_run(first, by.metric, object);
                    compared(&first_values, &term.by_run(second, by.metric, object), bounds, by)
                }
                (Some(_), _) => None,
                (None, _) => {
                    let values = first_term.values(first, by.metric, object);
                    let found =
                        MeanEstimate::of_values(&values).map(|all| all.of_cases(values.len(), by.cases));
                    let wide = |found: MeanEstimate| found.among(values.len(), by.comparisons, false);
                    found.map(|found| (wide(found).outcome(bounds), found.to_string()))
                }
            };
            let (outcome, found) = found.unwrap_or((Outcome::Undetermined, "no value".to_owned()));
            let terms: Vec<&Term> = std::iter::once(first_term).chain(second_term).collect();
            outcomes.push((outcome, format!("{found}{}", result_suffix(point, object, &terms))));
        }
    }
    outcomes
}

/// Decides whether the ratio of two ratios is within the bounds. The first two terms form the one ratio, the last two
/// the other.
fn decide_ratios(
    figures: &Figures,
    at: &BTreeMap<String, String>,
    by: ComparisonContext,
    terms: &[Term; 4],
    bounds: [f64; 2],
) -> Vec<(Outcome, String)> {
    let mut outcomes = Vec::new();
    let mut done: Vec<BTreeMap<String, String>> = Vec::new();
    for point in figures.points.iter().filter(|point| is_at(point, at)) {
        let mut factors = point.factors.clone();
        factors.retain(|key, _| !terms.iter().all(|term| term.at.contains_key(key)));
        if done.contains(&factors) {
            continue;
        }
        done.push(factors);
        let values = terms.each_ref().map(|term| {
            let moved = moved_point(figures, point, &term.at);
            moved.map_or(Vec::new(), |moved| term.by_run(moved, by.metric, None))
        });
        let parts = [1.0, -1.0, -1.0, 1.0];
        let found = MeanEstimate::of_product(&values.each_ref().map(Vec::as_slice), &parts, by.means);
        let runs = values.iter().map(Vec::len).max().unwrap_or(0);
        let (outcome, found) = match found.map(|found| found.of_cases(runs, by.cases)) {
            Some(found) => (found.among(runs, by.comparisons, true).outcome(bounds), found.to_string()),
            None => (Outcome::Undetermined, "no ratio of ratios".to_owned()),
        };
        let terms: Vec<&Term> = terms.iter().collect();
        outcomes.push((outcome, format!("{found}{}", result_suffix(point, None, &terms))));
    }
    outcomes
}

fn trend(
    figures: &Figures,
    at: &BTreeMap<String, String>,
    by: ComparisonContext,
    term: &Term,
    direction: Direction,
    factor: &str,
) -> Vec<(Outcome, String)> {
    // Groups the table points that differ only in the factor of the trend, in the order of the plan.
    let mut lines: Vec<(BTreeMap<String, String>, Vec<&Point>)> = Vec::new();
    for point in figures.points.iter().filter(|point| is_at(point, at) && is_at(point, &term.at)) {
        if !point.factors.contains_key(factor) {
            continue;
        }
        let mut other_factors = point.factors.clone();
        other_factors.remove(factor);
        match lines.iter_mut().find(|(known, _)| *known == other_factors) {
            Some((_, line)) => line.push(point),
            None => lines.push((other_factors, vec![point])),
        }
    }
    let mut outcomes = Vec::new();
    for (_, line) in &lines {
        let [first, .., last] = line.as_slice() else { continue };
        for object in term.objects(first, at, by.metric) {
            let values = |point: &Point| term.by_run(point, by.metric, object);
            let step = |from: &Point, to: &Point, bounds| compared(&values(to), &values(from), bounds, by);
            let (ahead, reverse) = match direction {
                Direction::Rises => (LARGER, SMALLER),
                Direction::Falls => (SMALLER, LARGER),
            };
            let is_back = |pair: &[&Point]| {
                step(pair[0], pair[1], reverse).is_some_and(|(outcome, _)| outcome == Outcome::Holds)
            };
            let (outcome, change) =
                step(first, last, ahead).unwrap_or((Outcome::Undetermined, "no value".to_owned()));
            let outcome = if line.windows(2).any(is_back) { Outcome::Fails } else { outcome };
            let ends = [first, last].map(|point| {
                let at = point.factors.get_key_value(factor).map(|(key, level)| (key.clone(), level.clone()));
                Term { at: at.into_iter().collect(), ..term.clone() }
            });
            let [one, other] = &ends;
            let suffix = result_suffix(first, object, &[other, one]);
            outcomes.push((outcome, format!("last over first: {change}{suffix}")));
        }
    }
    outcomes
}
