//! The language in which claims say what decides them.
//!
//! ```text
//! TABLE: TERM < TERM            at every point (of each object) the first is smaller
//! TABLE: TERM > TERM            it is larger
//! TABLE: TERM = TERM            the two are within a factor of 1.1
//! TABLE: TERM / TERM in A..B    their ratio is within these bounds
//! TABLE: TERM in A..B           its number is
//! TABLE: TERM rises over KEY    it rises from the first level of a factor to the last, and falls between none
//! TABLE: TERM falls over KEY
//! .. at KEY=LEVEL, KEY=LEVEL    only there
//! TERM:  CONTESTANT[.METRIC][\[KEY=LEVEL, ..\]]
//! feature ROW: COLUMN=WORD      a row of the table of features
//! cause ID                      a cause of the study, which must hold
//! prediction TABLE              nothing is printed to compare with; the table is ours
//! undecidable WHY               no run decides it
//! ```
//!
//! Several are divided by `;`: all must hold. A sentence that can be read in several ways has all of them, divided by ` | `,
//! each with its name before it: `(page) t: a < b | (mean over objects) t: a.object-mean < b`.
//!
//! That a relation holds everywhere needs every place by its own interval of 95 %. That it fails needs one place, of many: its
//! interval is as wide as so many comparisons need (Bonferroni), those of all checks of a reading together.
//!
//! Two numbers are compared by their ratio, run by run; in a table whose printed numbers are means of several runs, by that of
//! their means, which is what the paper compares. Of a run in which one of them is 0 there is none: then orders and
//! trends are decided by the differences of all runs, and bounds of a ratio are undetermined.

use super::claim::Reading;
use super::effect::{Estimate, difference, figure};
use super::figures::{Figures, Point};
use super::metric::Metric;
use super::order::TIE;
use std::collections::BTreeMap;

/// Ratio within which two numbers are equal.
const EQUAL: f64 = 1.1;
/// Bounds of a ratio for `<`: what is closer is a tie here as it is in print.
const SMALLER: [f64; 2] = [0.0, 1.0 / TIE];
/// For `>`.
const LARGER: [f64; 2] = [TIE, f64::INFINITY];
/// For `=`.
const SAME: [f64; 2] = [1.0 / EQUAL, EQUAL];

/// What decides a claim.
#[derive(Clone, PartialEq, Debug)]
pub enum Check {
    /// Numbers of a table.
    Table {
        /// The table.
        table: String,
        /// What of it.
        relation: Relation,
        /// Only there.
        at: BTreeMap<String, String>,
    },
    /// A row of the table of features: what its columns are to say.
    Feature {
        /// The row.
        row: String,
        /// Column to word.
        words: Vec<(String, String)>,
    },
    /// A cause of the study.
    Cause(String),
    /// Nothing is printed; the table is ours.
    Prediction(String),
    /// No run decides it.
    Undecidable(String),
}

/// What a table compares by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct By {
    /// The number of a run, where a term does not say another.
    pub metric: Metric,
    /// The paper prints means of runs: these are compared, and not the runs.
    pub means: bool,
    /// So many runs are all the cases there are: of these a number is known, and has no interval.
    pub cases: Option<u64>,
    /// Comparisons of which one that fails is enough: each is held to its share of the error (Bonferroni).
    pub comparisons: usize,
}

/// What numbers of a table are to each other.
#[derive(Clone, PartialEq, Debug)]
pub enum Relation {
    /// The ratio of two, or the value of one, is within these bounds.
    Within(Term, Option<Term>, [f64; 2]),
    /// It rises (or falls) over the levels of a factor.
    Trend(Term, Direction, String),
}

/// Which way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the first level to the last it becomes larger.
    Rises,
    /// It becomes smaller.
    Falls,
}

/// A contestant's number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Term {
    contestant: String,
    /// That of the table unless given.
    metric: Option<Metric>,
    /// Levels that hold for this term alone.
    at: BTreeMap<String, String>,
}

/// What came of a check.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Outcome {
    /// It is so, everywhere.
    Holds,
    /// Nothing is printed to compare with.
    Prediction,
    /// No run decides it.
    Undecidable,
    /// It hangs on how the paper is read.
    Reading,
    /// The runs do not tell, somewhere.
    Undetermined,
    /// It is not so, somewhere.
    Fails,
}

impl Outcome {
    /// The word behind a number of claims.
    #[must_use]
    pub const fn of_several(self) -> &'static str {
        match self {
            Self::Holds => "hold",
            Self::Fails => "fail",
            Self::Reading => "depend on reading",
            other => other.word(),
        }
    }

    /// As tables and files have it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Fails => "fails",
            Self::Undetermined => "undetermined",
            Self::Reading => "depends on reading",
            Self::Prediction => "no published value",
            Self::Undecidable => "not decidable",
        }
    }
}

/// Reads what a claim's column says, in every way in which the claim is read.
///
/// # Errors
/// One line: what is wrong, and where.
pub fn readings(text: &str) -> Result<Vec<Reading>, String> {
    let all: Vec<&str> = text.split(" | ").map(str::trim).collect();
    if let [one] = all.as_slice()
        && !one.starts_with('(')
    {
        return Ok(vec![Reading { name: String::new(), checks: parse(one)? }]);
    }
    if all.len() < 2 {
        return Err(format!("'{text}': a reading has a name where there are several, divided by ' | '"));
    }
    let each = all.into_iter().map(|one| {
        let named = one.strip_prefix('(').and_then(|one| one.split_once(") "));
        let (name, checks) =
            named.ok_or_else(|| format!("'{one}': '(NAME OF THE READING) ..' was expected"))?;
        Ok(Reading { name: name.to_owned(), checks: parse(checks)? })
    });
    each.collect()
}

/// What the outcomes of the readings of one claim come to: what they all say, or that it hangs on the reading. What the
/// runs do not tell in one reading is no disagreement.
#[must_use]
pub fn of_readings(mut found: Vec<(&str, Found)>) -> Option<Found> {
    if found.len() < 2 {
        return found.pop().map(|(_, found)| found);
    }
    let has = |outcome: Outcome| found.iter().any(|(_, one)| one.outcome == outcome);
    let outcome = match has(Outcome::Holds) && has(Outcome::Fails) {
        true => Outcome::Reading,
        false => found.iter().map(|(_, one)| one.outcome).max()?,
    };
    let each = found.iter().map(|(name, one)| format!("{name}: {} ({})", one.outcome.word(), one.found));
    Some(Found { outcome, found: each.collect::<Vec<_>>().join("; ") })
}

/// Reads the checks of one reading.
///
/// # Errors
/// One line: what is wrong, and where.
pub fn parse(text: &str) -> Result<Vec<Check>, String> {
    text.split(';')
        .map(|one| one_of(one.trim()).map_err(|what| format!("'{}': {what}", one.trim())))
        .collect()
}

fn one_of(text: &str) -> Result<Check, String> {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let rest = rest.trim();
    match word {
        "" => return Err("nothing is to be checked".to_owned()),
        "cause" => return Ok(Check::Cause(rest.to_owned())),
        "prediction" => return Ok(Check::Prediction(rest.to_owned())),
        "undecidable" if rest.is_empty() => return Err("a reason is missing".to_owned()),
        "undecidable" => return Ok(Check::Undecidable(rest.to_owned())),
        "feature" => {
            let (row, words) = rest.split_once(':').ok_or("feature ROW: COLUMN=WORD was expected")?;
            let words = words.split(',').map(|pair| {
                let (column, word) = pair.split_once('=').ok_or("COLUMN=WORD was expected")?;
                Ok((column.trim().to_owned(), word.trim().to_owned()))
            });
            return Ok(Check::Feature {
                row: row.trim().to_owned(),
                words: words.collect::<Result<_, String>>()?,
            });
        }
        _ => {}
    }
    let (table, rest) = text.split_once(':').ok_or("TABLE: was expected")?;
    let (relation, at) = match rest.split_once(" at ") {
        Some((relation, at)) => (relation, levels(at)?),
        None => (rest, BTreeMap::new()),
    };
    Ok(Check::Table { table: table.trim().to_owned(), relation: relation_of(relation.trim())?, at })
}

fn relation_of(text: &str) -> Result<Relation, String> {
    for (word, direction) in [(" rises over ", Direction::Rises), (" falls over ", Direction::Falls)] {
        if let Some((term, factor)) = text.split_once(word) {
            return Ok(Relation::Trend(Term::parse(term)?, direction, factor.trim().to_owned()));
        }
    }
    for (sign, bounds) in [(" < ", SMALLER), (" > ", LARGER), (" = ", SAME)] {
        if let Some((one, other)) = text.split_once(sign) {
            return Ok(Relation::Within(Term::parse(one)?, Some(Term::parse(other)?), bounds));
        }
    }
    let (terms, bounds) =
        text.split_once(" in ").ok_or("<, >, =, 'in A..B' or 'rises over KEY' was expected")?;
    let (low, high) = bounds.split_once("..").ok_or("bounds A..B were expected")?;
    let number = |text: &str| text.trim().parse::<f64>().map_err(|_| format!("'{text}' is no number"));
    let bounds = [number(low)?, number(high)?];
    match terms.split_once(" / ") {
        Some((one, other)) => Ok(Relation::Within(Term::parse(one)?, Some(Term::parse(other)?), bounds)),
        None => Ok(Relation::Within(Term::parse(terms)?, None, bounds)),
    }
}

fn levels(text: &str) -> Result<BTreeMap<String, String>, String> {
    let pairs = text.split(',').map(|pair| {
        let (key, level) =
            pair.split_once('=').ok_or_else(|| format!("'{pair}' where KEY=LEVEL was expected"))?;
        Ok((key.trim().to_owned(), level.trim().to_owned()))
    });
    pairs.collect()
}

impl Term {
    /// Reads `tcp`, `tcp.packets` or `tcp[loss=1%]`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (name, at) = match text.split_once('[') {
            Some((name, rest)) => (name, levels(rest.strip_suffix(']').ok_or("']' is missing")?)?),
            None => (text, BTreeMap::new()),
        };
        let (contestant, metric) = match name.split_once('.') {
            Some((contestant, metric)) => (contestant, Some(Metric::parse(metric)?)),
            None => (name, None),
        };
        if contestant.is_empty() || contestant.contains(' ') {
            return Err(format!("'{text}' where a contestant was expected"));
        }
        Ok(Self { contestant: contestant.to_owned(), metric, at })
    }
}

/// A check's place, behind what was found there: which of the factors are at which level, and which object.
fn told(point: &Point, object: Option<usize>) -> String {
    let mut parts: Vec<String> = point.factors.iter().map(|(key, level)| format!("{key} {level}")).collect();
    parts.extend(object.map(|number| format!("object {number}")));
    if parts.is_empty() { String::new() } else { format!(" at {}", parts.join(", ")) }
}

/// What numbers say, and in words where they say that it is not so, or nothing.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    /// What came of it.
    pub outcome: Outcome,
    /// What was found, in a few words.
    pub found: String,
}

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
    pub(super) fn names_of(&self, at: &BTreeMap<String, String>, keys: &[String]) -> Option<String> {
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
    pub(super) fn place(&self) -> &BTreeMap<String, String> {
        &self.at
    }

    /// Its number, or the ratio of it and another, at the place that each says; `metric` is the table's own.
    pub(super) fn estimate(
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

#[cfg(test)]
mod tests {
    use super::super::figures::Figures;
    use super::*;

    const PAGE: By = By { metric: Metric::Page, means: false, cases: None, comparisons: 1 };

    /// Page times of two contestants at two losses, four seeds each.
    fn figures() -> Figures {
        let point = |loss: &str, tcp: [f64; 4], sctp: [f64; 4]| {
            let runs = |pages: [f64; 4]| {
                pages.iter().map(|page| super::super::figures::Numbers::of_page(*page)).collect::<Vec<_>>()
            };
            std::rc::Rc::new(Point {
                factors: BTreeMap::from([("loss".to_owned(), loss.to_owned())]),
                contestants: BTreeMap::from([("tcp".to_owned(), runs(tcp)), ("sctp".to_owned(), runs(sctp))]),
            })
        };
        Figures {
            cases: None,
            points: vec![
                point("0", [1.0, 1.0, 1.0, 1.0], [1.05, 1.05, 1.05, 1.05]),
                point("1%", [4.0, 4.2, 4.1, 4.3], [2.0, 2.1, 2.2, 2.0]),
            ],
        }
    }

    /// Where a run has 0 there is no ratio: orders and trends are those of the differences, and no run is left out.
    #[test]
    fn a_number_that_is_nothing_is_not_left_out() {
        let runs = |pages: [f64; 4]| pages.map(super::super::figures::Numbers::of_page).to_vec();
        let point = |loss: &str, tcp: [f64; 4], sctp: [f64; 4]| {
            std::rc::Rc::new(Point {
                factors: BTreeMap::from([("loss".to_owned(), loss.to_owned())]),
                contestants: BTreeMap::from([("tcp".to_owned(), runs(tcp)), ("sctp".to_owned(), runs(sctp))]),
            })
        };
        let points = vec![
            point("0", [0.0; 4], [0.0; 4]),
            // Of the two runs that have a ratio the first is always larger.
            point("1%", [0.0, 0.0, 3.0, 3.0], [5.0, 6.0, 2.0, 2.0]),
            point("2%", [0.0, 1.0, 0.0, 1.0], [8.0, 9.0, 8.0, 9.0]),
        ];
        let figures = Figures { points, cases: None };
        for (text, outcome, found) in [
            ("t: tcp < sctp at loss=0", Outcome::Fails, "a difference of 0.000 to 0.000 at loss 0"),
            ("t: tcp = sctp at loss=0", Outcome::Holds, "a difference of 0.000 to 0.000 at loss 0"),
            (
                "t: tcp / sctp in 0..2 at loss=0",
                Outcome::Undetermined,
                "no ratio, since a run has 0, at loss 0",
            ),
            ("t: tcp > sctp at loss=1%", Outcome::Undetermined, "a difference of "),
            ("t: tcp < sctp at loss=2%", Outcome::Holds, "a difference of -8.000 to -8.000 at loss 2%"),
            ("t: tcp > sctp at loss=2%", Outcome::Fails, "a difference of -8.000 to -8.000 at loss 2%"),
            ("t: sctp rises over loss", Outcome::Holds, "last over first: a difference of "),
            ("t: sctp falls over loss", Outcome::Fails, "last over first: a difference of "),
        ] {
            let checks = parse(text).expect(text);
            let [Check::Table { relation, at, .. }] = checks.as_slice() else {
                panic!("{text}: one of a table")
            };
            let decided = relation.decide(&figures, at, PAGE);
            assert_eq!(decided.outcome, outcome, "{text}: {}", decided.found);
            assert!(decided.found.starts_with(found), "{text}: {}", decided.found);
        }
    }

    fn decided(text: &str) -> Outcome {
        let checks = parse(text).expect(text);
        let [Check::Table { relation, at, .. }] = checks.as_slice() else { panic!("{text}: one of a table") };
        relation.decide(&figures(), at, PAGE).outcome
    }

    #[test]
    fn numbers_of_a_table_decide() {
        for (text, outcome) in [
            ("t: tcp < sctp at loss=0", Outcome::Holds),
            ("t: tcp < sctp", Outcome::Fails),
            ("t: tcp > sctp at loss=1%", Outcome::Holds),
            ("t: tcp = sctp at loss=0", Outcome::Holds),
            ("t: tcp = sctp at loss=1%", Outcome::Fails),
            ("t: tcp > tcp at loss=0", Outcome::Fails),
            ("t: tcp < tcp at loss=0", Outcome::Fails),
            ("t: tcp / sctp in 1.8..2.2 at loss=1%", Outcome::Holds),
            ("t: tcp / sctp in 1.98..2.0 at loss=1%", Outcome::Undetermined),
            ("t: tcp in 0.9..1.1 at loss=0", Outcome::Holds),
            ("t: tcp in 1..1 at loss=0", Outcome::Holds),
            ("t: tcp.page in 0..0 at loss=0", Outcome::Fails),
            ("t: tcp[loss=1%] / tcp[loss=0] in 3.5..4.5", Outcome::Holds),
            ("t: sctp[loss=1%] / tcp[loss=0] in 3.5..4.5", Outcome::Fails),
            ("t: tcp rises over loss", Outcome::Holds),
            ("t: sctp falls over loss", Outcome::Fails),
            ("t: tcp.net-io < sctp", Outcome::Undetermined),
            ("t: udp < sctp", Outcome::Undetermined),
            ("t: tcp < sctp at loss=7%", Outcome::Undetermined),
        ] {
            assert_eq!(decided(text), outcome, "{text}");
        }
    }

    /// One place of many that fails by an interval of 95 % may do so by chance: it is held to its share of the error.
    #[test]
    fn one_place_of_many_fails_by_a_wider_interval() {
        let runs = |pages: [f64; 4]| pages.map(super::super::figures::Numbers::of_page).to_vec();
        let point = |loss: usize, sctp: [f64; 4]| {
            let contestants = [("tcp", [1.0; 4]), ("sctp", sctp)];
            std::rc::Rc::new(Point {
                factors: BTreeMap::from([("loss".to_owned(), format!("{loss}%"))]),
                contestants: contestants.map(|(name, pages)| (name.to_owned(), runs(pages))).into(),
            })
        };
        // The ratio is 1.10 (1.04 to 1.17) at one place: it fails alone, and not as one of thirty.
        let shaky = point(1, [1.05, 1.10, 1.15, 1.10]);
        let others = (2..=30).map(|loss| point(loss, [0.5; 4]));
        let points: Vec<_> = std::iter::once(shaky).chain(others).collect();
        let figures = Figures { points, cases: None };
        let checks = parse("t: sctp < tcp").expect("a check");
        let [Check::Table { relation, at, .. }] = checks.as_slice() else { panic!("one of a table") };
        assert_eq!(relation.decide(&figures, at, PAGE).outcome, Outcome::Fails);
        let comparisons = relation.comparisons(&figures, at, PAGE);
        assert_eq!(comparisons, 30);
        let found = relation.decide(&figures, at, By { comparisons, ..PAGE });
        assert_eq!(found.outcome, Outcome::Undetermined, "{}", found.found);
        // What is far beyond chance fails all the same, and what holds needs no more than its own interval.
        let figures = Figures { points: vec![point(1, [2.0, 2.1, 2.0, 2.1])], cases: None };
        assert_eq!(relation.decide(&figures, at, By { comparisons, ..PAGE }).outcome, Outcome::Fails);
        let figures = Figures { points: vec![point(1, [0.85, 0.90, 0.95, 0.90])], cases: None };
        assert_eq!(relation.decide(&figures, at, By { comparisons, ..PAGE }).outcome, Outcome::Holds);
        let [trend] = parse("t: sctp rises over loss").expect("a check").try_into().expect("one");
        let Check::Table { relation, at, .. } = trend else { panic!("one of a table") };
        assert_eq!(relation.comparisons(&super::tests::figures(), &at, PAGE), 2);
    }

    #[test]
    fn a_claim_may_hang_on_how_it_is_read() {
        let said = |text: &str| {
            let readings = readings(text).expect(text);
            let found = readings.iter().map(|reading| {
                let [Check::Table { relation, at, .. }] = reading.checks.as_slice() else { panic!("{text}") };
                (reading.name.as_str(), relation.decide(&figures(), at, PAGE))
            });
            of_readings(found.collect()).expect("an outcome")
        };
        let found = said("(without loss) t: tcp < sctp at loss=0 | (with it) t: tcp < sctp at loss=1%");
        assert_eq!(found.outcome, Outcome::Reading);
        assert!(
            found.found.starts_with("without loss: holds (") && found.found.contains("; with it: fails (")
        );
        for (text, outcome) in [
            ("(a) t: tcp < sctp at loss=0 | (b) t: tcp = sctp at loss=0", Outcome::Holds),
            ("(a) t: tcp > sctp at loss=0 | (b) t: tcp < sctp at loss=1%", Outcome::Fails),
            ("(a) t: tcp < sctp at loss=0 | (b) t: tcp.net-io < sctp", Outcome::Undetermined),
            ("t: tcp < sctp at loss=0", Outcome::Holds),
        ] {
            assert_eq!(said(text).outcome, outcome, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        for (text, told) in [
            ("", "nothing"),
            ("tcp < sctp", "TABLE"),
            ("t: tcp sctp", "was expected"),
            ("t: tcp.speed < sctp", "no metric 'speed'"),
            ("t: tcp in 1", "A..B"),
            ("t: tcp in a..b", "no number"),
            ("t: tcp < sctp at loss", "KEY=LEVEL"),
            ("t: tcp[loss=1 < sctp", "']'"),
            ("undecidable", "reason"),
            ("feature order", "COLUMN=WORD"),
            ("t: tcp < sctp;", "nothing"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(told), "{text}: {error}");
        }
        for (text, told) in [
            ("(page) cause a", "several"),
            ("(page) cause a | cause b", "NAME OF THE READING"),
            ("(page) cause a | (objects) ;", "nothing"),
            ("cause a | ", "NAME OF THE READING"),
        ] {
            let error = readings(text).expect_err(text);
            assert!(error.contains(told), "{text}: {error}");
        }
        let both = parse("cause a; prediction b").expect("two");
        assert_eq!(both, [Check::Cause("a".to_owned()), Check::Prediction("b".to_owned())]);
    }
}
