//! What the figures of a table say of a check.

use super::{By, Direction, Found, LARGER, Outcome, Relation, SAME, SMALLER, Term};
use crate::study::effect::{Estimate, difference, figure};
use crate::study::figures::{Figures, Point};
use crate::study::metric::Metric;
use std::collections::BTreeMap;

impl Relation {
    /// What the figures of a table say of it, at some of its levels.
    #[must_use]
    pub fn decide(&self, figures: &Figures, at: &BTreeMap<String, String>, by: By) -> Found {
        let mut outcomes = self.outcomes(figures, at, By { comparisons: 1, ..by });
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
        Found { outcome: worst, found }
    }

    fn outcomes(&self, figures: &Figures, at: &BTreeMap<String, String>, by: By) -> Vec<(Outcome, String)> {
        match self {
            Self::Within(one, other, bounds) => within(figures, at, by, one, other.as_ref(), *bounds),
            Self::Trend(term, direction, factor) => trend(figures, at, by, term, *direction, factor),
        }
    }

    /// How many comparisons decide it: places and objects, and of a trend its steps as well.
    #[must_use]
    pub fn comparisons(&self, figures: &Figures, at: &BTreeMap<String, String>, by: By) -> usize {
        let places = self.outcomes(figures, at, By { comparisons: 1, ..by }).len();
        let steps = |factor: &String| {
            let mut levels: Vec<_> =
                figures.points.iter().filter_map(|point| point.factors.get(factor)).collect();
            levels.sort_unstable();
            levels.dedup();
            levels.len().max(1)
        };
        match self {
            Self::Within(..) => places,
            Self::Trend(_, _, factor) => places * steps(factor),
        }
    }

    /// The first of these keys by a level of which it, or one of its terms, says where it is decided.
    pub(in crate::study) fn names_of(
        &self,
        at: &BTreeMap<String, String>,
        keys: &[String],
    ) -> Option<String> {
        let is_named = |key: &&String| {
            at.contains_key(*key)
                || self.terms().iter().any(|term| term.at.contains_key(*key))
                || matches!(self, Self::Trend(_, _, along) if along == *key)
        };
        keys.iter().find(is_named).cloned()
    }

    /// Contestants and levels that are in it.
    #[must_use]
    pub fn terms(&self) -> Vec<&Term> {
        match self {
            Self::Within(one, other, _) => std::iter::once(one).chain(other).collect(),
            Self::Trend(term, ..) => vec![term],
        }
    }
}

impl Term {
    /// The contestant.
    #[must_use]
    pub fn contestant(&self) -> &str {
        &self.contestant
    }

    /// Levels that hold for this term alone.
    pub(in crate::study) fn place(&self) -> &BTreeMap<String, String> {
        &self.at
    }

    /// Its number, or the ratio of it and another, at the place that each says; `metric` is the table's own.
    pub(in crate::study) fn estimate(
        &self,
        other: Option<&Self>,
        figures: &Figures,
        metric: Metric,
    ) -> Option<Estimate> {
        let own = figures.at(&self.at)?;
        match other {
            None => Estimate::of_values(&self.values(own, metric, None)),
            Some(other) => {
                let second = figures.at(&other.at)?;
                let logs = |values: Vec<Option<f64>>| {
                    let log = |value: Option<f64>| value.filter(|value| *value > 0.0).map(f64::ln);
                    values.into_iter().map(log).collect::<Vec<_>>()
                };
                let (one, two) = (self.by_run(own, metric, None), other.by_run(second, metric, None));
                Estimate::of(&difference(&logs(one), &logs(two)))
            }
        }
    }

    fn metric(&self, table: Metric) -> Metric {
        self.metric.unwrap_or(table)
    }

    /// Which objects it is of, at this point: `None` where it is of whole runs.
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

    /// The values themselves.
    fn values(&self, point: &Point, metric: Metric, object: Option<usize>) -> Vec<f64> {
        let object = self.at.get("object").and_then(|number| number.parse().ok()).or(object);
        point.values(&self.contestant, self.metric(metric), object)
    }

    /// The values run by run; a run without the number is `None`.
    fn by_run(&self, point: &Point, metric: Metric, object: Option<usize>) -> Vec<Option<f64>> {
        let object = self.at.get("object").and_then(|number| number.parse().ok()).or(object);
        let runs = point.contestants.get(&self.contestant).map_or(&[][..], Vec::as_slice);
        runs.iter().map(|run| run.value(self.metric(metric), object)).collect()
    }
}

/// A check's place, behind what was found there: which of the factors are at which level, and which object.
fn told(point: &Point, object: Option<usize>) -> String {
    let mut parts: Vec<String> = point.factors.iter().map(|(key, level)| format!("{key} {level}")).collect();
    parts.extend(object.map(|number| format!("object {number}")));
    if parts.is_empty() { String::new() } else { format!(" at {}", parts.join(", ")) }
}

/// Whether a point is at these levels, those of keys that are no factors left aside.
fn is_at(point: &Point, at: &BTreeMap<String, String>) -> bool {
    at.iter().all(|(key, level)| point.factors.get(key).is_none_or(|own| own == level))
}

/// The point with some factors at other levels.
fn moved<'a>(figures: &'a Figures, from: &Point, at: &BTreeMap<String, String>) -> Option<&'a Point> {
    let mut labels = from.factors.clone();
    labels.extend(at.iter().map(|(key, level)| (key.clone(), level.clone())));
    figures.at(&labels)
}

/// What the ratio of two numbers, run by run, says of a relation with these bounds; where a run has 0, what their difference
/// does. `None` where no run has both.
fn compared(
    one: &[Option<f64>],
    other: &[Option<f64>],
    bounds: [f64; 2],
    by: By,
) -> Option<(Outcome, String)> {
    let runs = difference(one, other).iter().flatten().count();
    if by.means
        && let Some(found) = Estimate::of_means(one, other)
    {
        let found = found.of_cases(runs, by.cases);
        return Some((found.among(runs, by.comparisons, true).outcome(bounds), found.to_string()));
    }
    if one.iter().chain(other).flatten().any(|value| *value <= 0.0) {
        return by_difference(&difference(one, other), bounds, by);
    }
    let logs = |values: &[Option<f64>]| values.iter().map(|value| value.map(f64::ln)).collect::<Vec<_>>();
    let found = Estimate::of(&difference(&logs(one), &logs(other)))?.of_cases(runs, by.cases);
    Some((found.among(runs, by.comparisons, true).outcome(bounds), found.to_string()))
}

/// What differences say of a relation whose bounds are these of a ratio.
fn by_difference(differences: &[Option<f64>], bounds: [f64; 2], by: By) -> Option<(Outcome, String)> {
    let known: Vec<f64> = differences.iter().copied().flatten().collect();
    let found = Estimate::of_values(&known)?.of_cases(known.len(), by.cases);
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

impl Estimate {
    /// What its whole interval says of these bounds.
    fn outcome(&self, bounds: [f64; 2]) -> Outcome {
        match () {
            () if self.is_within(bounds) => Outcome::Holds,
            () if self.is_outside(bounds) => Outcome::Fails,
            () => Outcome::Undetermined,
        }
    }
}

fn within(
    figures: &Figures,
    at: &BTreeMap<String, String>,
    by: By,
    one: &Term,
    other: Option<&Term>,
    bounds: [f64; 2],
) -> Vec<(Outcome, String)> {
    let mut outcomes = Vec::new();
    let mut done: Vec<BTreeMap<String, String>> = Vec::new();
    for point in figures.points.iter().filter(|point| is_at(point, at)) {
        // Where both terms say their own level of a factor, the levels that stand in for it say the same.
        let own: Vec<&String> =
            one.at.keys().filter(|key| other.is_none_or(|other| other.at.contains_key(*key))).collect();
        let mut place = point.factors.clone();
        place.retain(|key, _| !own.contains(&key));
        if done.contains(&place) {
            continue;
        }
        done.push(place);
        let (Some(first), second) =
            (moved(figures, point, &one.at), other.map(|term| moved(figures, point, &term.at)))
        else {
            continue;
        };
        for object in one.objects(first, at, by.metric) {
            // One number may be nothing.
            let found = match (other, second) {
                (Some(term), Some(Some(second))) => {
                    let values =
                        [one.by_run(first, by.metric, object), term.by_run(second, by.metric, object)];
                    compared(&values[0], &values[1], bounds, by)
                }
                (Some(_), _) => None,
                (None, _) => {
                    let values = one.values(first, by.metric, object);
                    let found = Estimate::of_values(&values).map(|all| all.of_cases(values.len(), by.cases));
                    let wide = |found: Estimate| found.among(values.len(), by.comparisons, false);
                    found.map(|found| (wide(found).outcome(bounds), found.to_string()))
                }
            };
            let (outcome, found) = found.unwrap_or((Outcome::Undetermined, "no value".to_owned()));
            outcomes.push((outcome, format!("{found}{}", told(point, object))));
        }
    }
    outcomes
}

fn trend(
    figures: &Figures,
    at: &BTreeMap<String, String>,
    by: By,
    term: &Term,
    direction: Direction,
    factor: &str,
) -> Vec<(Outcome, String)> {
    // Points that differ in this factor alone, in the order of the plan.
    let mut lines: Vec<(BTreeMap<String, String>, Vec<&Point>)> = Vec::new();
    for point in figures.points.iter().filter(|point| is_at(point, at) && is_at(point, &term.at)) {
        if !point.factors.contains_key(factor) {
            continue;
        }
        let mut others = point.factors.clone();
        others.remove(factor);
        match lines.iter_mut().find(|(known, _)| *known == others) {
            Some((_, line)) => line.push(point),
            None => lines.push((others, vec![point])),
        }
    }
    let mut outcomes = Vec::new();
    for (_, line) in &lines {
        let [first, .., last] = line.as_slice() else { continue };
        for object in term.objects(first, at, by.metric) {
            let step = |from: &Point, to: &Point, bounds| {
                let values = [term.by_run(to, by.metric, object), term.by_run(from, by.metric, object)];
                compared(&values[0], &values[1], bounds, by)
            };
            let (ahead, back) = match direction {
                Direction::Rises => (LARGER, SMALLER),
                Direction::Falls => (SMALLER, LARGER),
            };
            let is_back = |pair: &[&Point]| {
                step(pair[0], pair[1], back).is_some_and(|(outcome, _)| outcome == Outcome::Holds)
            };
            let (outcome, change) =
                step(first, last, ahead).unwrap_or((Outcome::Undetermined, "no value".to_owned()));
            let outcome = if line.windows(2).any(is_back) { Outcome::Fails } else { outcome };
            outcomes.push((outcome, format!("last over first: {change}{}", told(first, object))));
        }
    }
    outcomes
}
