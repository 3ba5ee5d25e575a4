//! The language of checks, which decide claims.
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
//! Several checks are separated by `;`: all must hold. A sentence that can be read in several ways has all readings,
//! separated by ` | `, each after its name: `(page) t: a < b | (mean over objects) t: a.object-mean < b`.
//!
//! A relation holds if it holds at every place, each by its own interval of 95 %. It fails if it fails at one place of many.
//! That place's interval is widened for the number of comparisons (Bonferroni), counted over all checks of a reading.
//!
//! Two numbers are compared by their ratio, run by run. If the published numbers of a table are means of several runs, the
//! ratio of the means is used, because that is what the paper compares. If a value is 0, there is no ratio. Then the
//! differences of all runs decide orders and trends, and bounds of a ratio are undetermined.
//! trends are decided by the differences of all runs, and bounds of a ratio are undetermined.

mod decide;
mod parse;
#[cfg(test)]
mod tests;

pub use parse::{parse, readings};

use super::metric::Metric;
use super::order::TIE;
use std::collections::BTreeMap;

/// Ratio within which two numbers are equal.
const EQUAL: f64 = 1.1;
/// Bounds of a ratio for `<`: a smaller gap is a tie, as in the published values.
const SMALLER: [f64; 2] = [0.0, 1.0 / TIE];
/// Bounds of a ratio for `>`.
const LARGER: [f64; 2] = [TIE, f64::INFINITY];
/// Bounds of a ratio for `=`.
const SAME: [f64; 2] = [1.0 / EQUAL, EQUAL];

/// A check that decides a claim.
#[derive(Clone, PartialEq, Debug)]
pub enum Check {
    /// Numbers of a table.
    Table {
        /// The table.
        table: String,
        /// The relation of its numbers.
        relation: Relation,
        /// The levels to which the check is limited.
        at: BTreeMap<String, String>,
    },
    /// A row of the feature table, with the expected words in its columns.
    Feature {
        /// The row.
        row: String,
        /// Column to expected word.
        words: Vec<(String, String)>,
    },
    /// A cause of the study.
    Cause(String),
    /// Nothing is published to compare with; the table is ours.
    Prediction(String),
    /// No run decides it.
    Undecidable(String),
}

/// How the numbers of a table are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct By {
    /// The metric of terms that do not name one.
    pub metric: Metric,
    /// The paper publishes means of runs: means are compared, not runs.
    pub means: bool,
    /// The number of runs that cover all possible cases. Numbers from all of them are exact and have no interval.
    pub cases: Option<u64>,
    /// The number of comparisons of which a single failure suffices: each gets its share of the error (Bonferroni).
    pub comparisons: usize,
}

/// A relation between numbers of a table.
#[derive(Clone, PartialEq, Debug)]
pub enum Relation {
    /// The ratio of two numbers, or a single number, is within these bounds.
    Within(Term, Option<Term>, [f64; 2]),
    /// The number rises (or falls) over the levels of a factor.
    Trend(Term, Direction, String),
}

/// The direction of a trend.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// The value increases from the first level to the last.
    Rises,
    /// The value decreases from the first level to the last.
    Falls,
}

/// A contestant's number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Term {
    contestant: String,
    /// The metric; that of the table if absent.
    metric: Option<Metric>,
    /// The levels that apply to this term alone.
    at: BTreeMap<String, String>,
}

/// The outcome of a check.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Outcome {
    /// It holds everywhere.
    Holds,
    /// Nothing is published to compare with.
    Prediction,
    /// No run decides it.
    Undecidable,
    /// It depends on how the paper is read.
    Reading,
    /// The runs do not decide it at some place.
    Undetermined,
    /// It does not hold at some place.
    Fails,
}

impl Outcome {
    /// Plural form, as in "3 claims hold".
    #[must_use]
    pub const fn of_several(self) -> &'static str {
        match self {
            Self::Holds => "hold",
            Self::Fails => "fail",
            Self::Reading => "depend on reading",
            other => other.word(),
        }
    }

    /// The word in tables and files.
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

/// The outcome of a check, with a short description of the numbers.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    /// The outcome.
    pub outcome: Outcome,
    /// The description of the numbers, in a few words.
    pub found: String,
}

/// Combines the outcomes of the readings of a claim. If one reading holds and another fails, the outcome depends on the
/// reading; otherwise the worst outcome counts. An undetermined reading is no disagreement.
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
