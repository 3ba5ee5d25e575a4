//! What a study is: its source, its question, its tables, and each parameter with where it comes from.

use serde::Deserialize;
use std::collections::BTreeMap;

/// The content of a `study.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// The folder's name.
    pub name: String,
    /// What the published work is called.
    pub title: String,
    /// Who printed the numbers, when and where.
    pub source: String,
    /// What the published work asks.
    pub question: String,
    /// Names of the tables, in order; the first is the main one.
    pub tables: Vec<String>,
    /// Every table and figure of the published work, with what redoes it.
    #[serde(default, rename = "figure")]
    pub figures: Vec<Redone>,
    /// Assumptions, and between what they may lie.
    #[serde(default)]
    pub vary: Vec<super::sensitivity::Vary>,
    /// The tables that are looked at while they are varied; the first unless given.
    #[serde(default, rename = "vary-tables")]
    pub vary_tables: Vec<String>,
    /// Places that are not looked at while they are varied: labels that all must match.
    #[serde(default, rename = "vary-without")]
    pub vary_without: Vec<BTreeMap<String, String>>,
    /// What every number of the plans is, and where it comes from.
    #[serde(default, rename = "parameter")]
    pub parameters: Vec<Parameter>,
}

/// A table or figure of the published work.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redone {
    /// What the work calls it.
    pub name: String,
    /// What it shows; where its values are lost, that.
    pub shows: String,
    /// The tables that redo it.
    #[serde(default)]
    pub tables: Vec<String>,
    /// The claims that say what it shows.
    #[serde(default)]
    pub claims: Vec<String>,
}

/// One parameter of the plans.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// What it is of.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Where it comes from.
    pub is: Origin,
    /// The place in the paper, the arithmetic, or the reason.
    pub why: String,
    /// What it fixes in plans, as `--set` has it without a value; behind a `=`, the values that are as fixed. Where it is
    /// stated or derived, a cause that changes this is a counterfactual.
    #[serde(default)]
    pub keys: Vec<String>,
    /// The tables that it is of; all unless given.
    pub tables: Option<Vec<String>>,
}

impl Parameter {
    /// What the paper says of this table, or what follows from that: none where it is open.
    pub(super) fn fixed(&self, table: &str) -> &[String] {
        let is_of = self.tables.as_ref().is_none_or(|tables| tables.iter().any(|name| name == table));
        match self.is {
            Origin::Stated | Origin::Derived if is_of => &self.keys,
            _ => &[],
        }
    }
}

/// Where a parameter comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The paper says it.
    Stated,
    /// It follows from what the paper says.
    Derived,
    /// The paper leaves it open, and we chose.
    Assumed,
    /// Printed cells set it, which are no evidence then.
    Calibrated,
}

impl Origin {
    /// One word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Stated => "stated",
            Self::Derived => "derived",
            Self::Assumed => "assumed",
            Self::Calibrated => "calibrated",
        }
    }
}

impl Definition {
    /// The tables that are looked at while assumptions are varied.
    #[must_use]
    pub fn varied(&self) -> Vec<&str> {
        match self.vary_tables.as_slice() {
            [] => self.tables.first().map(String::as_str).into_iter().collect(),
            some => some.iter().map(String::as_str).collect(),
        }
    }

    /// Reads a `study.toml`.
    ///
    /// # Errors
    /// One line: what is wrong and where.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|e| format!("study.toml: {}", e.to_string().replace('\n', " ")))
    }
}
