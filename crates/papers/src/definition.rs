//! The definition of a study: the published work, its question, the tables, and each parameter with its origin.

use super::graph::GraphDefinition;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The content of a `study.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// The name of the study, which is also the name of its folder.
    pub name: String,
    /// The title of the published work.
    pub title: String,
    /// The authors, year and venue of the published work.
    pub source: String,
    /// The question that the published work asks.
    pub question: String,
    /// What the runs answer, in two sentences of Markdown, which may quote results as `page.md` does; may be empty.
    #[serde(default)]
    pub answer: String,
    /// Figures of the published work that show single runs. They are drawn again from our runs.
    #[serde(default, rename = "graph")]
    pub graphs: Vec<GraphDefinition>,
    /// The names of the tables, in their order. The first table is the main table.
    pub tables: Vec<String>,
    /// The tables and figures of the published work. Each entry names the tables of our study that reproduce the
    /// published one, and the claims that are checked.
    #[serde(default, rename = "figure")]
    pub figures: Vec<Redone>,
    /// The assumptions of the study, with the ranges in which the sensitivity analysis varies them.
    #[serde(default)]
    pub vary: Vec<super::sensitivity::Vary>,
    /// The tables that the sensitivity analysis evaluates while it varies assumptions; if absent, only the first table.
    #[serde(default, rename = "vary-tables")]
    pub vary_tables: Vec<String>,
    /// The cells that the sensitivity analysis leaves out while it varies assumptions. Each entry is a set of labels. A
    /// cell is left out if it has all labels of an entry.
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
    /// The name that the published work gives the table or figure.
    pub name: String,
    /// A description of what the table or figure shows, or a note that its published values are lost.
    pub shows: String,
    /// The tables of the study that reproduce the published table or figure.
    #[serde(default)]
    pub tables: Vec<String>,
    /// The claims about the table or figure.
    #[serde(default)]
    pub claims: Vec<String>,
}

/// One parameter of the plans of a study, for example the loss rate.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// A short name of the parameter, for example `object size`.
    pub name: String,
    /// The value of the parameter, as text.
    pub value: String,
    /// Where the value comes from: the paper, or a choice of the study.
    pub is: Origin,
    /// Where the published work states the value, how the value was derived, or why it was chosen.
    pub why: String,
    /// The plan keys that the parameter fixes, written as for `--set`: either only the key, or the key, `=` and a
    /// pattern. The pattern matches all values that are equivalent to the parameter's value. If the paper states or
    /// implies the parameter, a cause of the kind `Finding` must not set these keys to other values. A cause with
    /// `counterfactual = true` may do so.
    #[serde(default)]
    pub keys: Vec<String>,
    /// The tables to which the parameter applies; if absent, it applies to all.
    pub tables: Option<Vec<String>>,
}

impl Parameter {
    /// Returns the plan keys that the parameter sets, if the paper determines the parameter's value for `table`. The
    /// result is empty if the paper leaves the value open.
    pub(super) fn fixed(&self, table: &str) -> &[String] {
        let is_of = self.tables.as_ref().is_none_or(|tables| tables.iter().any(|name| name == table));
        match self.is {
            Origin::Stated | Origin::Derived if is_of => &self.keys,
            _ => &[],
        }
    }
}

/// The origin of a parameter's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The paper states the value.
    Stated,
    /// The value follows from statements of the paper.
    Derived,
    /// The paper leaves the value open, and we chose it.
    Assumed,
    /// The value was chosen so that our values match published cells. These cells are therefore no evidence.
    Calibrated,
}

impl Origin {
    /// Returns one word for the origin, for tables and files.
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
    /// Returns the names of the tables that the sensitivity analysis evaluates while it varies assumptions.
    #[must_use]
    pub fn varied(&self) -> Vec<&str> {
        match self.vary_tables.as_slice() {
            [] => self.tables.first().map(String::as_str).into_iter().collect(),
            some => some.iter().map(String::as_str).collect(),
        }
    }

    /// Reads the text of a `study.toml`.
    ///
    /// # Errors
    /// A one-line message with the error and its location.
    pub fn parse(text: &str) -> Result<Self, String> {
        super::from_toml("study.toml", text)
    }
}
