//! A table of a study: its plan, the metric of its cells, and how its published cells are used.
//!
//! `TABLE.toml` holds the plan of the runs and the metric; `TABLE.csv` holds the published cells. A table has no
//! published cells if the published values are lost, or if no paper describes the experiment. The results of such a
//! table are predictions.

use super::change::Change;
use super::figures::{Figures, MEAN};
use super::metric::Metric;
use super::printed::{PublishedTable, Row};
use anabranch_lab::plan::causes::Causes;
use anabranch_lab::plan::{Draft, Plan, PointPlan};
use anabranch_transports::Transports;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A table of a study, read from its files: the plan of its runs, and its published values.
#[derive(Clone, Debug)]
pub struct Table {
    /// The name of the table's file, without the extension.
    pub name: String,
    /// The content of the table's file.
    pub definition: Definition,
    /// The published cells; `None` if the paper has no values for this table.
    pub published: Option<PublishedTable>,
    /// The contestants that were added to those of the study.
    pub added: Vec<String>,
    /// The levels of factors to which the user limited the table; empty if all points run.
    pub only: BTreeMap<String, String>,
}

/// How many seeds each table runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// Each table runs the full number of seeds that its file defines.
    Full,
    /// Each table runs the smaller number of seeds that its file defines for quick runs.
    Quick,
    /// Each table runs this number of seeds.
    Runs(u64),
}

impl Size {
    /// Returns the number of seeds for one table.
    #[must_use]
    pub fn of(self, table: &Table) -> u64 {
        match self {
            Self::Full => table.definition.runs,
            Self::Quick => table.definition.quick_runs,
            Self::Runs(runs) => runs,
        }
    }
}

/// The content of a `TABLE.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// A description of the table, in a few words.
    pub title: String,
    /// The location of the table in the paper; for an experiment of ours, its purpose.
    pub source: String,
    /// The unit of the published values.
    pub unit: String,
    /// The metric that turns a simulated run into a value of the table.
    pub metric: Metric,
    /// The program or protocol stack on which we measured the cells, for example `ns-2.35`. Absent if the paper
    /// publishes the cells.
    pub beside: Option<String>,
    /// The table that has the same published cells, if this table interprets the paper's test rig differently. The
    /// cells count as evidence only in that table.
    pub repeats: Option<String>,
    /// The number of runs over which the paper averaged a published value; 1 if the paper does not state it.
    #[serde(default = "one")]
    pub averaged: usize,
    /// The bytes of a request's head and a response's head together, for metrics that count them.
    #[serde(default)]
    pub heads: u64,
    /// The columns whose labels identify a row of the table. Different rows count as independent samples. Cells of one
    /// row depend on each other.
    #[serde(default)]
    pub rows: Vec<String>,
    /// What the author of the plan chose after seeing the published values; absent if there was no such choice. If
    /// present, every row may have influenced the choice. The order of the contestants in this table is then no
    /// independent test of the plan.
    pub seen: Option<String>,
    /// The cells from whose published values a parameter of the plan was calibrated. They are therefore no evidence.
    /// Each entry is a set of labels, and selects the cells that have all of them.
    #[serde(default)]
    pub calibrated: Vec<BTreeMap<String, String>>,
    /// The cells that say nothing about the transport: they follow from arithmetic or from the arrival times of
    /// requests. Each entry is a set of labels, and selects the cells that have all of them.
    #[serde(default)]
    pub arithmetic: Vec<BTreeMap<String, String>>,
    /// The number n of a rule that drops every n-th packet, if nothing else in the runs is random. The only random
    /// choice is then which packet is dropped first, and n seeds cover all n possibilities.
    #[serde(default)]
    pub enumerated: Option<u64>,
    /// Whether the table was found by trying many variants. If so, it proves nothing by itself, and no claim may rest
    /// on it.
    #[serde(default)]
    pub exploratory: bool,
    /// Whether the page starts with a map of the table, which shows each contestant's time relative to the fastest, row
    /// by row.
    #[serde(default)]
    pub map: bool,
    /// The column of the table whose values form the x axis of the charts; if absent, the last column.
    pub along: Option<String>,
    /// The number of seeds with which the table is run.
    pub runs: u64,
    /// The number of seeds with which the table is run in a quick run.
    pub quick_runs: u64,
    /// The plan, without `runs` and `seed`.
    pub plan: toml::Table,
}

const fn one() -> usize {
    1
}

/// One combination of a table's factors, as a plan of its own.
#[derive(Clone, Debug)]
pub struct TablePoint {
    /// The level of each factor at this point.
    pub factors: BTreeMap<String, String>,
    /// The plan that runs only this combination. It has exactly one point.
    pub plan: Plan,
}

impl Table {
    /// Returns the published cells.
    pub fn rows(&self) -> impl Iterator<Item = &Row> + Clone {
        self.published.iter().flat_map(|printed| &printed.rows)
    }

    /// Reads a table from the texts of its files.
    ///
    /// # Errors
    /// A one-line message with the file and the error.
    pub fn parse(name: &str, definition: &str, printed: Option<&str>) -> Result<Self, String> {
        let definition: Definition = super::from_toml(&format!("{name}.toml"), definition)?;
        if definition
            .enumerated
            .is_some_and(|cases| (definition.runs, definition.quick_runs) != (cases, cases))
        {
            return Err(format!(
                "{name}.toml: enumerated: runs and quick_runs must be as many as there are cases"
            ));
        }
        let printed =
            printed.map(PublishedTable::parse).transpose().map_err(|e| format!("{name}.csv: {e}"))?;
        let table = Self {
            name: name.to_owned(),
            definition,
            published: printed,
            added: Vec::new(),
            only: BTreeMap::new(),
        };
        table.check_labels()?;
        Ok(table)
    }

    /// Checks that the plan has the contestant and the levels of every published cell. Any other cell would never be
    /// measured.
    fn check_labels(&self) -> Result<(), String> {
        let Some(printed) = &self.published else { return Ok(()) };
        let names = self.names();
        let refuse = |column: &str, label: &str, known: &[String]| {
            Err(format!("{0}.csv: {column} '{label}': {0}.toml has {1}", self.name, known.join(", ")))
        };
        for column in &printed.columns {
            let levels = self.definition.plan.get(column).and_then(toml::Value::as_array);
            let of_plan = levels.is_some() || ["contestant", "object"].contains(&column.as_str());
            if !of_plan {
                let factors = self
                    .definition
                    .plan
                    .iter()
                    .filter(|(key, value)| *key != "transport" && value.is_array());
                let known: Vec<String> = factors.map(|(key, _)| key.clone()).collect();
                return refuse("column", column, &known);
            }
            let levels: Vec<String> = match levels {
                _ if column == "contestant" => names.clone(),
                Some(levels) => levels.iter().filter_map(level).collect(),
                None => continue,
            };
            let unknown = printed.rows.iter().filter_map(|row| row.labels.get(column));
            if let Some(label) = unknown.into_iter().find(|label| *label != MEAN && !levels.contains(label)) {
                return refuse(column, label, &levels);
            }
        }
        Ok(())
    }

    /// Returns the column along which the curves are drawn. Unless the table names one, it is the last published column
    /// other than `contestant`. Without published values it is the first factor of the plan.
    #[must_use]
    pub fn along(&self) -> Option<String> {
        let column =
            || self.published.as_ref()?.columns.iter().rfind(|column| *column != "contestant").cloned();
        let factor = || {
            let varies = |(key, value): (&String, &toml::Value)| {
                let levels = value.as_array().filter(|levels| levels.iter().all(|level| !level.is_table()));
                (key != "transport" && levels.is_some_and(|levels| levels.len() > 1)).then(|| key.clone())
            };
            self.definition.plan.iter().find_map(varies)
        };
        self.definition.along.clone().or_else(column).or_else(factor)
    }

    /// Returns the names of the contestants.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let contestants = self.definition.plan.get("transport").and_then(toml::Value::as_array);
        let texts = contestants.into_iter().flatten().filter_map(toml::Value::as_str);
        texts.map(|text| anabranch_results::label::shown(text).to_owned()).collect()
    }

    /// Returns the plan as a draft. If the command `race` runs this draft, it gives the numbers of the study.
    ///
    /// # Errors
    /// A one-line message if a change cannot be applied to the plan, or if the plan is invalid. An invalid plan is a
    /// defect of this program.
    pub fn draft(&self, runs: u64, seed: u64, changes: &[Change]) -> Result<Draft, String> {
        let mut plan = self.definition.plan.clone();
        for (key, value) in [("runs", runs), ("seed", seed)] {
            plan.insert(key.to_owned(), toml::Value::Integer(i64::try_from(value).unwrap_or(i64::MAX)));
        }
        // Turns off the search for causes that the command `race` makes, because a study tests its causes by its own
        // experiments. The values of the table do not depend on this setting.
        plan.insert("causes".to_owned(), toml::Value::String("off".to_owned()));
        let draft = Draft::from_table(&format!("{}.toml", self.name), &plan).map_err(|e| e.to_string())?;
        changes.iter().try_fold(draft, |draft, change| change.apply(draft))
    }

    /// Returns every combination of the plan's factor levels as a plan of its own, limited to the levels in `only` and
    /// in [`Table::only`], and to these contestants. A plan without randomness is run with one seed.
    ///
    /// # Errors
    /// Returns the errors of [`draft`](Self::draft), and an error if no point has the levels in `only`.
    pub fn table_points(
        &self,
        draft: &Draft,
        only: &BTreeMap<String, String>,
        contestants: Option<&[String]>,
        transports: &Transports,
    ) -> Result<Vec<TablePoint>, String> {
        let text = |error: anabranch_lab::plan::PlanError| error.to_string();
        let whole = Plan::interpret(draft.clone(), transports).map_err(text)?;
        let mut found = Vec::new();
        for point in points(&whole) {
            // Keys that are not factors, such as `object`, do not select points. They select values within the results
            // of a run.
            let is_excluded = only
                .iter()
                .chain(&self.only)
                .any(|(key, level)| point.factors.get(key).is_some_and(|own| own != level));
            if is_excluded {
                continue;
            }
            let mut draft = at_point(&whole.draft, &point.factors);
            if let Some(names) = contestants {
                draft.transports.retain(|(text, _)| {
                    names.iter().any(|name| name == anabranch_results::label::shown(text))
                });
            }
            let mut plan = Plan::interpret(draft, transports).map_err(text)?;
            if !plan.points.iter().any(PointPlan::is_random) && plan.cross.is_none() {
                plan.seeds.truncate(1);
            }
            plan.causes = Causes::Off;
            found.push(TablePoint { factors: point.factors.clone(), plan });
        }
        if found.is_empty() {
            return Err(format!("{}: no point has {only:?}", self.name));
        }
        Ok(found)
    }

    /// Returns n, the number of different runs with a rule that drops every n-th packet, if the definition states such
    /// a rule (`enumerated`). Another n, which `--set` gave, is returned as well. `None` if a changed plan has further
    /// random choices.
    #[must_use]
    pub fn cases(&self, figures: &Figures) -> Option<u64> {
        self.definition.enumerated.and(figures.cases)
    }

    /// Returns a warning if the table runs all cases of a rule that drops every n-th packet, and `--set` gave a rule
    /// with more cases than there are runs.
    #[must_use]
    pub fn too_few_runs(&self, figures: &Figures, runs: u64) -> Option<String> {
        let cases = self.cases(figures).filter(|cases| *cases > runs)?;
        Some(format!(
            "{}: {runs} runs are {runs} of the {cases} packets with which the drops can begin; --runs {cases} takes all",
            self.name
        ))
    }

    /// Returns whether the published value of the cell with these labels was used to determine an input of our runs.
    #[must_use]
    pub fn calibrates(&self, labels: &BTreeMap<String, String>) -> bool {
        covers(&self.definition.calibrated, labels)
    }

    /// Returns whether the cell with these labels is no evidence about the transports. The value of such a cell follows
    /// from arithmetic or from the arrival times of requests.
    #[must_use]
    pub fn is_arithmetic(&self, labels: &BTreeMap<String, String>) -> bool {
        covers(&self.definition.arithmetic, labels)
    }
}

fn points(plan: &Plan) -> &[PointPlan] {
    &plan.points
}

/// Returns the level of a factor in the form that the labels of published cells use.
pub(super) fn level(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(_) | toml::Value::Float(_) | toml::Value::Boolean(_) => Some(value.to_string()),
        _ => None,
    }
}

/// Returns whether one of these sets of labels matches the labels of a cell.
pub(super) fn covers(cells: &[BTreeMap<String, String>], labels: &BTreeMap<String, String>) -> bool {
    cells.iter().any(|cell| cell.iter().all(|(column, value)| labels.get(column) == Some(value)))
}

/// Returns the draft of a plan with each factor fixed to one level.
fn at_point(draft: &Draft, factors: &BTreeMap<String, String>) -> Draft {
    let mut draft = draft.clone();
    for values in &mut draft.given {
        if let Some(level) = factors.get(values.key.name) {
            values.levels = vec![level.clone()];
        }
    }
    for (number, path) in draft.paths.iter_mut().enumerate() {
        for (key, levels) in &mut path.entries {
            if let Some(level) = factors.get(&format!("path.{}.{key}", number + 1)) {
                *levels = vec![level.clone()];
            }
        }
    }
    draft
}
