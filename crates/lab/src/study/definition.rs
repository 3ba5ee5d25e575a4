//! What a study is: its source, its assumptions, and the plan that redoes it.

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
    /// What the printed table asks.
    pub question: String,
    /// What the source leaves open and we had to choose, one sentence each.
    pub assumptions: Vec<String>,
    /// Which of our inputs were set so that printed cells are met, and which cells those are, one sentence each.
    #[serde(default)]
    pub calibrated: Vec<String>,
    /// What we learned where ours and the printed numbers part, one sentence each.
    #[serde(default)]
    pub findings: Vec<String>,
    /// How a run becomes a cell.
    pub metric: Metric,
    /// Title of the printed unit.
    pub unit: String,
    /// Which columns of the published table are factors of the plan.
    pub factors: Vec<String>,
    /// Printed name of a contestant to the contestant as the plan spells it.
    #[serde(rename = "arms")]
    pub contestants: BTreeMap<String, String>,
    /// Cells that calibrated an input and so prove nothing: labels that all must match.
    #[serde(default)]
    pub calibration_cells: Vec<BTreeMap<String, String>>,
    /// Seeds of a quick run.
    pub quick_runs: u64,
    /// The race plan, without `transport` and `runs`, which come from the fields above.
    pub plan: toml::Table,
}

/// How one run becomes one number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Seconds from the start of the run until the object of the column `object` (its number, from 1) is delivered.
    ObjectEnd,
    /// What httperf prints as Net I/O: KiB per second of HTTP bytes in both directions, heads included, of the
    /// requests that were answered, over the time until the last one ended.
    NetIo,
}

impl Definition {
    /// Reads a `study.toml`.
    ///
    /// # Errors
    /// One line: what is wrong and where.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|e| e.to_string().replace('\n', " "))
    }

    /// The race plan, as the text of a plan file, of a run with `runs` seeds from `seed` on.
    #[must_use]
    pub fn race_plan(&self, runs: u64, seed: u64) -> String {
        let mut plan = self.plan.clone();
        let transports =
            self.contestants.values().map(|contestant| toml::Value::String(contestant.clone())).collect();
        plan.insert("transport".to_owned(), toml::Value::Array(transports));
        plan.insert("runs".to_owned(), toml::Value::Integer(i64::try_from(runs).unwrap_or(i64::MAX)));
        plan.insert("seed".to_owned(), toml::Value::Integer(i64::try_from(seed).unwrap_or(i64::MAX)));
        plan.to_string()
    }

    /// The cell of these labels was used to set an input.
    #[must_use]
    pub fn calibrates(&self, labels: &BTreeMap<String, String>) -> bool {
        self.calibration_cells
            .iter()
            .any(|cell| cell.iter().all(|(column, value)| labels.get(column) == Some(value)))
    }
}
