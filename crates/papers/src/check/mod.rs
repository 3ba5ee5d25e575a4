//! The language of checks. A check is a comparison of measured numbers that decides a claim of a paper.
//!
//! ```text
//! TABLE: TERM < TERM            at every point (and for each object) the first number is smaller
//! TABLE: TERM > TERM            the first number is larger
//! TABLE: TERM = TERM            the two numbers are within a factor of 1.1
//! TABLE: TERM / TERM in A..B    the ratio of the two numbers is within these bounds
//! TABLE: TERM / TERM < TERM / TERM   the first ratio is smaller (or `>`, `=`)
//! TABLE: TERM in A..B           the number is within these bounds
//! TABLE: TERM rises over KEY    the number rises from the first level of a factor to the last, and never falls between
//! TABLE: TERM falls over KEY    the number falls from the first level of a factor to the last, and never rises between
//! .. at KEY=LEVEL, KEY=LEVEL    only at these levels
//! TERM:  CONTESTANT[.METRIC][\[KEY=LEVEL, ..\]]
//! feature ROW: COLUMN=WORD      a row of the feature table has this word in this column; `tcp/PROFILE`: with a profile
//! cause ID                      the cause of the study with this identifier holds
//! prediction TABLE              the paper publishes no value to compare with; the table is our prediction
//! undecidable WHY               no run decides the claim
//! ```
//!
//! Several checks are separated by `;`, and all of them must hold. If the paper's sentence can be read in several ways,
//! the checks of each reading are written separately, with ` | ` between two readings. Each reading begins with its
//! name in parentheses. For example: `(page) t: a < b | (mean over objects) t: a.object-mean < b`.
//!
//! A relation holds if, at each point, the whole 95 % interval is within the bounds. It fails if, at one point, the
//! whole interval is outside the bounds. To decide whether it fails, the interval is widened for the number of
//! comparisons in all checks of the same reading (Bonferroni). If the relation neither holds nor fails, it is
//! undetermined.
//!
//! Two numbers are compared by their ratio, run by run. If the published numbers of a table are means of several runs,
//! the ratio of the means is used, because the paper compares means.
//!
//! If one of the two numbers is 0 in a run, they have no ratio in this run. Orders (`<` and `>`) and trends are then
//! decided by the difference of the two numbers in each run. A check of a ratio against bounds is undetermined in this
//! case.

mod decide;
mod parse;
#[cfg(test)]
mod tests;

pub use parse::{parse, readings};

use super::metric::Metric;
use super::order::TIE;
use std::collections::BTreeMap;

/// Two numbers count as equal (`a = b` in a check) if their ratio is at most this factor.
const EQUAL: f64 = 1.1;
/// The bounds of the ratio a/b in a check `a < b`. Values that differ by less than the factor [`TIE`] are tied. The
/// same rule applies to published values.
const SMALLER: [f64; 2] = [0.0, 1.0 / TIE];
/// The bounds of the ratio a/b in a check `a > b`.
const LARGER: [f64; 2] = [TIE, f64::INFINITY];
/// The bounds of the ratio a/b in a check `a = b`.
const SAME: [f64; 2] = [1.0 / EQUAL, EQUAL];

/// A check that decides a claim.
#[derive(Clone, PartialEq, Debug)]
pub enum Check {
    /// The check compares numbers of a table.
    Table {
        /// The name of the table.
        table: String,
        /// The relation between the numbers.
        relation: Relation,
        /// The factor levels to which the check is limited.
        at: BTreeMap<String, String>,
    },
    /// The check compares the entries of one row of the feature table with the expected words, for example `yes`.
    Feature {
        /// The name of the row of the feature table.
        row: String,
        /// The expected words. Each has the column in which it is expected.
        words: Vec<(String, String)>,
    },
    /// The check is met if the effect of the cause with this identifier is within the bounds that the study states.
    Cause(String),
    /// The paper publishes no value to compare with. The table of this name is our prediction.
    Prediction(String),
    /// No run can decide the claim. The text is the reason.
    Undecidable(String),
}

/// One interpretation of a claim.
#[derive(Clone, PartialEq, Debug)]
pub struct Reading {
    /// The name of the interpretation; empty if there is only one.
    pub name: String,
    /// The checks of this interpretation. All of them must hold.
    pub checks: Vec<Check>,
}

/// How a check compares the numbers of one table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ComparisonContext {
    /// The default metric. It applies to each term of a check that names no metric.
    pub metric: Metric,
    /// Whether the paper publishes averages over several runs. If so, averages are compared instead of single runs.
    pub means: bool,
    /// The number of different runs that the seeds can produce; `None` if it is unknown. If all of these runs were
    /// made, a mean over them is exact and has no interval.
    pub cases: Option<u64>,
    /// The number of comparisons. The claim fails if one comparison fails, so the error probability is divided among
    /// the comparisons (Bonferroni).
    pub comparisons: usize,
}

/// A relation between numbers of a table.
#[derive(Clone, PartialEq, Debug)]
pub enum Relation {
    /// The ratio of two numbers, or a single number, is within these bounds.
    Within(Term, Option<Term>, [f64; 2]),
    /// The ratio of the first two numbers, divided by the ratio of the last two numbers, is within these bounds.
    Ratios(Box<[Term; 4]>, [f64; 2]),
    /// A number rises or falls from the first level of the named factor to the last.
    Trend(Term, Direction, String),
}

/// The direction of a trend.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// The value rises from the first level to the last.
    Rises,
    /// The value falls from the first level to the last.
    Falls,
}

/// Identifies a number that a check compares: a contestant's metric at certain levels of the factors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Term {
    contestant: String,
    /// The metric; `None` if it is that of the table.
    metric: Option<Metric>,
    /// The factor levels that apply to this term alone.
    at: BTreeMap<String, String>,
}

/// The outcome of a check, ordered from the best outcome to the worst.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Outcome {
    /// The check holds at every point.
    Holds,
    /// The paper publishes no value to compare with.
    Prediction,
    /// No run can decide the claim.
    Undecidable,
    /// The claim can be read in several ways. It holds under one reading and fails under another.
    Reading,
    /// The runs do not decide the check at one or more points.
    Undetermined,
    /// The check fails at one or more points.
    Fails,
}

impl Outcome {
    /// Returns the plural form, as in "3 claims hold".
    #[must_use]
    pub const fn of_several(self) -> &'static str {
        match self {
            Self::Holds => "hold",
            Self::Fails => "fail",
            Self::Reading => "depend on reading",
            other => other.word(),
        }
    }

    /// Returns the word that stands for this outcome in tables and files.
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

/// The outcome of a check, with a short description of the measured numbers that decided it.
#[derive(Clone, PartialEq, Debug)]
pub struct CheckResult {
    /// Whether the check holds.
    pub outcome: Outcome,
    /// The description of the measured numbers, in a few words.
    pub description: String,
}

/// Combines the outcomes of a claim under several readings of its text. If the claim holds under one reading and fails
/// under another, the outcome is [`Outcome::Reading`], whatever the other readings give. Otherwise the result is the
/// worst outcome.
#[must_use]
pub fn of_readings(mut found: Vec<(&str, CheckResult)>) -> Option<CheckResult> {
    if found.len() < 2 {
        return found.pop().map(|(_, found)| found);
    }
    let has = |outcome: Outcome| found.iter().any(|(_, one)| one.outcome == outcome);
    let outcome = match has(Outcome::Holds) && has(Outcome::Fails) {
        true => Outcome::Reading,
        false => found.iter().map(|(_, one)| one.outcome).max()?,
    };
    let each =
        found.iter().map(|(name, one)| format!("{name}: {} ({})", one.outcome.word(), one.description));
    Some(CheckResult { outcome, description: each.collect::<Vec<_>>().join("; ") })
}
