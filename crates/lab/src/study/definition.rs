//! The definition of a study: its source, its question, its tables, and each parameter with its origin.

use serde::Deserialize;
use std::collections::BTreeMap;

/// The content of a `study.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// The name of the folder.
    pub name: String,
    /// The title of the published work.
    pub title: String,
    /// Authors, year and venue of the published work.
    pub source: String,
    /// The question of the published work.
    pub question: String,
    /// Names of the tables, in order; the first is the main one.
    pub tables: Vec<String>,
    /// Every table and figure of the published work, with the tables and claims that reproduce it.
    #[serde(default, rename = "figure")]
    pub figures: Vec<Redone>,
    /// Assumptions, with the ranges in which they are varied.
    #[serde(default)]
    pub vary: Vec<super::sensitivity::Vary>,
    /// The tables that are evaluated while assumptions vary; the first if absent.
    #[serde(default, rename = "vary-tables")]
    pub vary_tables: Vec<String>,
    /// Places that are not evaluated while assumptions vary: labels that all must match.
    #[serde(default, rename = "vary-without")]
    pub vary_without: Vec<BTreeMap<String, String>>,
    /// The parameters of the plans, with their values and origins.
    #[serde(default, rename = "parameter")]
    pub parameters: Vec<Parameter>,
}

/// A table or figure of the published work.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redone {
    /// Its name in the work.
    pub name: String,
    /// What it shows, or that its values are lost.
    pub shows: String,
    /// The tables that reproduce it.
    #[serde(default)]
    pub tables: Vec<String>,
    /// The claims about its content.
    #[serde(default)]
    pub claims: Vec<String>,
}

/// One parameter of the plans.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// What it describes.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Its origin.
    pub is: Origin,
    /// The location in the paper, the derivation, or the reason.
    pub why: String,
    /// The plan keys that it fixes, as in `--set` without a value. An optional `=` is followed by a pattern of equivalent
    /// values. If the parameter is stated or derived, a cause that changes such a key is a counterfactual.
    #[serde(default)]
    pub keys: Vec<String>,
    /// The tables to which it applies; all if absent.
    pub tables: Option<Vec<String>>,
}

impl Parameter {
    /// The keys that the parameter fixes in this table; empty if the paper leaves them open.
    pub(super) fn fixed(&self, table: &str) -> &[String] {
        let is_of = self.tables.as_ref().is_none_or(|tables| tables.iter().any(|name| name == table));
        match self.is {
            Origin::Stated | Origin::Derived if is_of => &self.keys,
            _ => &[],
        }
    }
}

/// The origin of a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The paper states it.
    Stated,
    /// It follows from what the paper states.
    Derived,
    /// The paper leaves it open, and we chose a value.
    Assumed,
    /// Published cells determine it; these cells are then no evidence.
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
    /// The tables that are evaluated while assumptions vary.
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
    /// One line: the error and its location.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|e| format!("study.toml: {}", e.to_string().replace('\n', " ")))
    }
}
