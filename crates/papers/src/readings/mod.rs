//! Readings (interpretations) of a paper. A reading is one way to answer all questions that the paper leaves open. The
//! scores show which reading is nearest to the published values. They also show the error of the selected reading in
//! table rows that were not used for the selection.
//!
//! `readings.toml` lists the open questions (axes), each with its possible answers (choices). A reading has one choice
//! of each axis. A scored row is a group of a table's cells, for example those of one contestant at one loss rate.
//! `readings.toml` names the columns whose labels identify a row. The error of a row is the root of the mean square of
//! ln(ours/published).
//!
//! The loss (in the statistical sense) of a reading is the mean error over the rows, equally weighted. A cell is left
//! out if an input was calibrated from its published value. The inputs are calibrated again for every reading
//! ([`calibrate`](super::calibrate)).
//!
//! A reading counts as equally good as the best reading if their losses differ by at most one standard error. Of the
//! equally good readings, the one that contradicts the fewest statements of the paper is selected. A tie is decided by
//! the fewest departures from the defaults that were usual when the paper was written, and then by the order in
//! `readings.toml`.
//!
//! The author of the study writes `readings.toml` before any reading is scored. The digest of the file identifies its
//! version.

pub(super) mod run;
mod scores;
#[cfg(test)]
mod tests;

pub use scores::{OrderRow, ScoredReading, Scores};

use super::calibrate::Calibration;
use super::change::Change;
use super::figures::hex;
use super::metric::Metric;
use super::printed::Row;
use super::table::Size;
use super::{Study, Table};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The maximum number of readings (interpretations) of a paper.
const MOST: usize = 160;

/// The content of a `readings.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Readings {
    /// The SHA-256 of the file.
    #[serde(skip)]
    pub hash: String,
    /// The tables whose cells are scored.
    pub tables: Vec<String>,
    /// The columns whose labels, together with the name of the table, identify a scored row.
    pub rows: Vec<String>,
    /// The number of seeds with which each reading (interpretation of the paper) is run.
    pub runs: u64,
    /// The number of seeds with which each reading is run in a quick run.
    pub quick_runs: u64,
    /// The cells that are not scored. Each entry is a set of labels. A cell is left out if it has all labels of an
    /// entry. `table` may be one of the labels.
    #[serde(default)]
    pub leave_out: Vec<BTreeMap<String, String>>,
    /// The questions that the paper leaves open.
    #[serde(rename = "axis")]
    pub axes: Vec<Axis>,
    /// The inputs that are calibrated separately for each reading.
    #[serde(default, rename = "calibrate")]
    pub calibrations: Vec<Calibration>,
}

/// One question that the paper leaves open, with its possible answers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// The name of the question.
    pub name: String,
    /// The location of the open question in the paper.
    pub why: String,
    /// The names of the tables to which the question applies. If absent, the question applies to all tables.
    pub tables: Option<Vec<String>>,
    /// Whether the axis varies alone. If so, each of its choices except the first is tried once, with the first choice
    /// of every other axis.
    #[serde(default)]
    pub alone: bool,
    /// The possible answers to the question.
    #[serde(rename = "reading")]
    pub choices: Vec<Choice>,
}

/// One possible answer to a question that the paper leaves open (an axis).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// The identifier of the choice.
    pub id: String,
    /// The changes that this choice makes to the plan, each in the form `key=value` of the option `--set`. Empty if the
    /// choice does not change the plan.
    #[serde(default)]
    pub change: Vec<String>,
    /// The metric under this interpretation; absent if it is the metric of the table.
    pub metric: Option<Metric>,
    /// The number of facts in the paper that this choice contradicts.
    #[serde(default)]
    pub stated: u32,
    /// The number of settings for which this choice differs from the default that was usual when the paper was written.
    #[serde(default)]
    pub default: u32,
    /// Whether the choice was added after the results were known. If so, it is reported but never selected.
    #[serde(default)]
    pub exploratory: bool,
}

/// A reading of the paper: one answer (choice) to each open question (axis).
#[derive(Clone, Debug)]
pub struct Reading<'a> {
    /// One entry per open question of the paper: the axis (the question), and the choice (the answer).
    parts: Vec<(&'a Axis, &'a Choice)>,
}

impl Readings {
    /// Reads the text of a `readings.toml`.
    ///
    /// # Errors
    /// A one-line message with the error and its location.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |message: String| format!("readings.toml: {message}");
        let mut own: Self = super::from_toml("readings.toml", text)?;
        own.hash = hex(text.as_bytes());
        if own.tables.is_empty() || own.runs == 0 || own.quick_runs == 0 {
            return Err(wrong("tables, runs and quick-runs: at least one of each is needed".to_owned()));
        }
        let mut ids: Vec<&str> = Vec::new();
        for axis in &own.axes {
            for choice in &axis.choices {
                if ids.contains(&choice.id.as_str()) {
                    return Err(wrong(format!("'{}' is the id of two readings", choice.id)));
                }
                ids.push(&choice.id);
                for change in &choice.change {
                    Change::parse(change).map_err(|error| wrong(format!("{}: {error}", choice.id)))?;
                }
            }
            if axis.choices.is_empty() {
                return Err(wrong(format!("{}: no reading", axis.name)));
            }
        }
        for calibration in &own.calibrations {
            let known = calibration.when.as_ref().is_none_or(|id| ids.contains(&id.as_str()));
            let message =
                calibration.wrong().or((!known)
                    .then(|| format!("when: no reading '{}'", calibration.when.as_deref().unwrap_or(""))));
            if let Some(message) = message {
                return Err(wrong(format!("calibrate {}: {message}", calibration.key)));
            }
        }
        let mut crossed = own.axes.iter().filter(|axis| !axis.alone);
        let count = crossed.try_fold(1_usize, |n, axis| n.checked_mul(axis.choices.len()));
        let added = own.axes.iter().filter(|axis| axis.alone).map(|axis| axis.choices.len() - 1).sum();
        let count = count.and_then(|count| count.checked_add(added));
        if count.is_none_or(|count| count > MOST) {
            return Err(wrong(format!("more than {MOST} readings in all; leave some out")));
        }
        if own.all().iter().all(Reading::is_exploratory) {
            return Err(wrong("every reading is exploratory: none could be chosen".to_owned()));
        }
        Ok(own)
    }

    /// Returns the names of all tables that the file uses.
    pub(super) fn table_names(&self) -> impl Iterator<Item = &str> {
        self.tables.iter().chain(self.calibrations.iter().map(|one| &one.table)).map(String::as_str)
    }

    /// Returns an error message for the first table, change or cell that the file names but the study does not have.
    pub(super) fn first_unknown_item(&self, study: &Study) -> Option<String> {
        let all = self.axes.iter().filter_map(|axis| axis.tables.as_ref()).flatten();
        let named = self.tables.iter().chain(all).chain(self.calibrations.iter().map(|one| &one.table));
        let unknown = named.clone().find(|name| study.table(name).is_none());
        if let Some(name) = unknown {
            return Some(format!("no table '{name}'"));
        }
        let empty =
            self.tables.iter().find(|name| study.table(name).is_some_and(|table| table.published.is_none()));
        if let Some(name) = empty {
            return Some(format!("{name}: nothing is printed, so nothing can be scored"));
        }
        for choice in self.axes.iter().flat_map(|axis| &axis.choices) {
            let changes = choice.change.iter().map(|text| Change::parse(text)).collect::<Result<Vec<_>, _>>();
            match changes.map(|changes| study.first_unsupported_change(&changes)) {
                Ok(None) => {}
                Ok(Some(line)) | Err(line) => return Some(format!("{}: {line}", choice.id)),
            }
        }
        self.calibrations.iter().find_map(|one| {
            let table = study.table(&one.table)?;
            one.rows(table)
                .is_empty()
                .then(|| format!("calibrate {}: no printed cell is {:?}", one.key, one.cells))
        })
    }

    /// Returns all readings. First come the combinations of the choices of all axes that are not `alone`, with the last
    /// axis varying fastest. In these combinations, each `alone` axis has its first choice. Then each `alone` axis adds
    /// one reading for each of its choices except the first. In each of these added readings, all other axes have their
    /// first choices.
    #[must_use]
    pub fn all(&self) -> Vec<Reading<'_>> {
        let mut all = vec![Reading { parts: Vec::new() }];
        for axis in &self.axes {
            let crossed = if axis.alone { 1 } else { axis.choices.len() };
            let longer = all.iter().flat_map(|reading| {
                axis.choices[..crossed].iter().map(move |choice| {
                    let mut parts = reading.parts.clone();
                    parts.push((axis, choice));
                    Reading { parts }
                })
            });
            all = longer.collect();
        }
        for (at, axis) in self.axes.iter().enumerate().filter(|(_, axis)| axis.alone) {
            for choice in &axis.choices[1..] {
                let mut parts = all[0].parts.clone();
                parts[at] = (axis, choice);
                all.push(Reading { parts });
            }
        }
        all
    }

    fn seed_count(&self, size: Size) -> u64 {
        match size {
            Size::Full => self.runs,
            Size::Quick => self.quick_runs,
            Size::Runs(runs) => runs,
        }
    }

    /// Returns the published cells of a table that are scored.
    fn rows<'a>(&self, table: &'a Table) -> Vec<&'a Row> {
        let printed = table.rows();
        let is_left_out = |row: &Row| {
            let is = |column: &str, value: &String| match column {
                "table" => *value == table.name,
                _ => row.labels.get(column) == Some(value),
            };
            self.leave_out.iter().any(|cell| cell.iter().all(|(column, value)| is(column, value)))
        };
        // A cell from which an input of the simulation is calibrated always agrees with its published value, so it is
        // not scored.
        let is_calibrated = |row: &Row| {
            let own = self.calibrations.iter().filter(|one| one.table == table.name);
            table.calibrates(&row.labels)
                || own.flat_map(|one| one.rows(table)).any(|one| one.labels == row.labels)
        };
        printed.filter(|row| !is_left_out(row) && !is_calibrated(row)).collect()
    }
}

impl Reading<'_> {
    /// Returns the name of this reading of the paper: the identifiers of its choices, separated by spaces.
    #[must_use]
    pub fn name(&self) -> String {
        self.parts.iter().map(|(_, choice)| choice.id.as_str()).collect::<Vec<_>>().join(" ")
    }

    /// Returns whether this reading of the paper includes the choice with this identifier.
    #[must_use]
    pub fn has(&self, id: &str) -> bool {
        self.parts.iter().any(|(_, choice)| choice.id == id)
    }

    fn is_exploratory(&self) -> bool {
        self.parts.iter().any(|(_, choice)| choice.exploratory)
    }

    fn departures(&self) -> (u32, u32) {
        let sum = |of: fn(&Choice) -> u32| self.parts.iter().map(|(_, choice)| of(choice)).sum();
        (sum(|choice| choice.stated), sum(|choice| choice.default))
    }

    /// Returns the table as this reading of the paper interprets it: with the reading's metric, and with the reading's
    /// changes to the table's plan.
    pub(super) fn of(&self, table: &Table) -> Result<(Table, Vec<Change>), String> {
        let mut table = table.clone();
        let mut changes = Vec::new();
        for (axis, choice) in &self.parts {
            if axis.tables.as_ref().is_some_and(|names| !names.contains(&table.name)) {
                continue;
            }
            table.definition.metric = choice.metric.unwrap_or(table.definition.metric);
            for text in &choice.change {
                changes.push(Change::parse(text)?);
            }
        }
        Ok((table, changes))
    }
}
