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
//! Several are divided by `;`: all must hold.

use super::effect::{Estimate, difference};
use super::figures::{Figures, Point};
use super::metric::Metric;
use std::collections::BTreeMap;

/// Ratio within which two numbers are equal.
const EQUAL: f64 = 1.1;
/// Two numbers that are closer are the same.
const ROUNDING: f64 = 1e-9;

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

/// Reads what a claim's column says.
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
    // Smaller is smaller by more than rounding; beyond that whole intervals decide.
    let (below, above) = ([0.0, 1.0 - ROUNDING], [1.0 + ROUNDING, f64::INFINITY]);
    for (sign, bounds) in [(" < ", below), (" > ", above), (" = ", [1.0 / EQUAL, EQUAL])] {
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
    fn parse(text: &str) -> Result<Self, String> {
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

/// A check's place: which of the factors are at which level, and which object.
fn told(point: &Point, object: Option<usize>) -> String {
    let mut parts: Vec<String> = point.factors.iter().map(|(key, level)| format!("{key} {level}")).collect();
    parts.extend(object.map(|number| format!("object {number}")));
    parts.join(", ")
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
    /// What the figures of a table say of it; `metric` is the table's own.
    #[must_use]
    pub fn decide(&self, figures: &Figures, at: &BTreeMap<String, String>, metric: Metric) -> Found {
        let outcomes = match self {
            Self::Within(one, other, bounds) => within(figures, at, metric, one, other.as_ref(), *bounds),
            Self::Trend(term, direction, factor) => trend(figures, at, metric, term, *direction, factor),
        };
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

    fn logs(&self, point: &Point, metric: Metric, object: Option<usize>) -> Vec<Option<f64>> {
        let object = self.at.get("object").and_then(|number| number.parse().ok()).or(object);
        let subject = super::effect::Subject { of: self.contestant.clone(), over: None };
        subject.logs(point, self.metric(metric), object)
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

fn within(
    figures: &Figures,
    at: &BTreeMap<String, String>,
    metric: Metric,
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
        for object in one.objects(first, at, metric) {
            let logs = one.logs(first, metric, object);
            let logs = match (other, second) {
                (Some(term), Some(Some(second))) => difference(&logs, &term.logs(second, metric, object)),
                (Some(_), _) => Vec::new(),
                (None, _) => logs,
            };
            // One number may be nothing, which has no logarithm; of a ratio it has to have one.
            let found = match other {
                Some(_) => Estimate::of(&logs),
                None => Estimate::of_values(&one.values(first, metric, object)),
            };
            let Some(found) = found else {
                outcomes.push((Outcome::Undetermined, format!("no value at {}", told(point, object))));
                continue;
            };
            let outcome = match () {
                () if found.is_within(bounds) => Outcome::Holds,
                () if found.is_outside(bounds) => Outcome::Fails,
                () => Outcome::Undetermined,
            };
            outcomes.push((outcome, format!("{found} at {}", told(point, object))));
        }
    }
    outcomes
}

fn trend(
    figures: &Figures,
    at: &BTreeMap<String, String>,
    metric: Metric,
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
        for object in term.objects(first, at, metric) {
            let step = |from: &Point, to: &Point| {
                let logs = difference(&term.logs(to, metric, object), &term.logs(from, metric, object));
                let change = Estimate::of(&logs)?;
                Some(match direction {
                    Direction::Rises => change,
                    Direction::Falls => {
                        let [low, high] = change.interval;
                        Estimate { mean: 1.0 / change.mean, interval: [1.0 / high, 1.0 / low] }
                    }
                })
            };
            let whole = step(first, last);
            let back =
                line.windows(2).any(|pair| step(pair[0], pair[1]).is_some_and(|step| step.interval[1] < 1.0));
            let outcome = match whole {
                None => Outcome::Undetermined,
                Some(whole) if back || whole.interval[1] <= 1.0 => Outcome::Fails,
                Some(whole) if whole.interval[0] > 1.0 => Outcome::Holds,
                Some(_) => Outcome::Undetermined,
            };
            let change = whole.map_or("nothing".to_owned(), |whole| format!("x{whole}"));
            outcomes.push((outcome, format!("{change} from first to last, at {}", told(first, object))));
        }
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use super::super::figures::Figures;
    use super::*;

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
            points: vec![
                point("0", [1.0, 1.0, 1.0, 1.0], [1.05, 1.05, 1.05, 1.05]),
                point("1%", [4.0, 4.2, 4.1, 4.3], [2.0, 2.1, 2.2, 2.0]),
            ],
        }
    }

    fn decided(text: &str) -> Outcome {
        let checks = parse(text).expect(text);
        let [Check::Table { relation, at, .. }] = checks.as_slice() else { panic!("{text}: one of a table") };
        relation.decide(&figures(), at, Metric::Page).outcome
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
        let both = parse("cause a; prediction b").expect("two");
        assert_eq!(both, [Check::Cause("a".to_owned()), Check::Prediction("b".to_owned())]);
    }
}
