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

/// What numbers say, and in words where they say that it is not so, or nothing.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    /// What came of it.
    pub outcome: Outcome,
    /// What was found, in a few words.
    pub found: String,
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
