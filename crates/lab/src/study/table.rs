//! One table of a study: its plan, the number that a run becomes, and what of the printed cells it is held to.
//!
//! `TABLE.toml` holds it, `TABLE.csv` the printed cells; a table without one (a curve that is lost, an experiment of ours)
//! is a prediction.

use super::change::Change;
use super::figures::{Figures, MEAN};
use super::metric::Metric;
use super::printed::Printed;
use crate::causes::Causes;
use crate::plan::{Draft, Plan, PointPlan};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A table, ready to run.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its file's name, without the ending.
    pub name: String,
    /// The content of its file.
    pub definition: Definition,
    /// The printed cells.
    pub printed: Option<Printed>,
    /// The contestants that the study has not, and that race, too.
    pub added: Vec<String>,
}

/// The content of a `TABLE.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// What the table shows, in a few words.
    pub title: String,
    /// Where in the paper it stands; for an experiment of ours, what it is for.
    pub source: String,
    /// Title of the printed unit.
    pub unit: String,
    /// How a run becomes a cell.
    pub metric: Metric,
    /// Whose numbers its cells are, where they are not printed: those of another instrument.
    pub beside: Option<String>,
    /// Runs whose mean a printed cell is: as the paper says, else 1.
    #[serde(default = "one")]
    pub averaged: usize,
    /// Bytes of a request and its response's head together, for metrics that count them.
    #[serde(default)]
    pub heads: u64,
    /// Columns whose combinations are independent of each other: cells within a row share their causes.
    #[serde(default)]
    pub rows: Vec<String>,
    /// What of the plan was chosen with these rows in view: no order of theirs is held out then, but by readings.
    pub seen: Option<String>,
    /// Cells that set an input of ours and so prove nothing: labels that all must match.
    #[serde(default)]
    pub calibrated: Vec<BTreeMap<String, String>>,
    /// Cells that show arrivals or arithmetic and nothing of the transport: labels that all must match.
    #[serde(default)]
    pub arithmetic: Vec<BTreeMap<String, String>>,
    /// Where chance is the first packet that every n-th loses alone, its seeds are all the cases there are: n of them.
    #[serde(default)]
    pub enumerated: Option<u64>,
    /// It was found by looking at many variants, and proves nothing by itself: no claim may rest on it.
    #[serde(default)]
    pub exploratory: bool,
    /// Its page begins with a map of it: how many times as long each contestant takes as the soonest, row by row.
    #[serde(default)]
    pub map: bool,
    /// The column along which its curves are drawn; the last unless given.
    pub along: Option<String>,
    /// Seeds.
    pub runs: u64,
    /// Seeds of a quick run.
    pub quick_runs: u64,
    /// The plan, without `runs` and `seed`.
    pub plan: toml::Table,
}

const fn one() -> usize {
    1
}

/// One combination of a table's factors, as a plan of its own.
#[derive(Clone, Debug)]
pub struct Place {
    /// Factor to level.
    pub factors: BTreeMap<String, String>,
    /// The plan, of one point.
    pub plan: Plan,
}

impl Table {
    /// Reads a table from the texts of its files.
    ///
    /// # Errors
    /// One line: the file, and what is wrong.
    pub fn parse(name: &str, definition: &str, printed: Option<&str>) -> Result<Self, String> {
        let definition: Definition = toml::from_str(definition)
            .map_err(|e| format!("{name}.toml: {}", e.to_string().replace('\n', " ")))?;
        if definition
            .enumerated
            .is_some_and(|cases| (definition.runs, definition.quick_runs) != (cases, cases))
        {
            return Err(format!(
                "{name}.toml: enumerated: runs and quick_runs must be as many as there are cases"
            ));
        }
        let printed = printed.map(Printed::parse).transpose().map_err(|e| format!("{name}.csv: {e}"))?;
        let table = Self { name: name.to_owned(), definition, printed, added: Vec::new() };
        table.check_labels()?;
        Ok(table)
    }

    /// What is printed is of a contestant and of levels that the plan has: a cell of another would never be met.
    fn check_labels(&self) -> Result<(), String> {
        let Some(printed) = &self.printed else { return Ok(()) };
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

    /// The column along which curves are drawn: of a table of which nothing is printed, its first factor.
    #[must_use]
    pub fn along(&self) -> Option<String> {
        let column =
            || self.printed.as_ref()?.columns.iter().rfind(|column| *column != "contestant").cloned();
        let factor = || {
            let varies = |(key, value): (&String, &toml::Value)| {
                let levels = value.as_array().filter(|levels| levels.iter().all(|level| !level.is_table()));
                (key != "transport" && levels.is_some_and(|levels| levels.len() > 1)).then(|| key.clone())
            };
            self.definition.plan.iter().find_map(varies)
        };
        self.definition.along.clone().or_else(column).or_else(factor)
    }

    /// The contestants' names.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let contestants = self.definition.plan.get("transport").and_then(toml::Value::as_array);
        let texts = contestants.into_iter().flatten().filter_map(toml::Value::as_str);
        texts.map(|text| crate::results::label::shown(text).to_owned()).collect()
    }

    /// The plan as a file: what `race` runs to the same numbers.
    ///
    /// # Errors
    /// One line: the changes do not fit, or the plan is wrong, which is an error of ours.
    pub fn draft(&self, runs: u64, seed: u64, changes: &[Change]) -> Result<Draft, String> {
        let mut plan = self.definition.plan.clone();
        for (key, value) in [("runs", runs), ("seed", seed)] {
            plan.insert(key.to_owned(), toml::Value::Integer(i64::try_from(value).unwrap_or(i64::MAX)));
        }
        // Cells are times, whatever their causes; those that a study names are experiments of their own.
        plan.insert("causes".to_owned(), toml::Value::String("off".to_owned()));
        let draft = Draft::from_table(&format!("{}.toml", self.name), &plan).map_err(|e| e.to_string())?;
        changes.iter().try_fold(draft, |draft, change| change.apply(draft))
    }

    /// Every combination of the plan's factors as a plan of its own; `only` these levels, and these contestants. Where
    /// nothing is drawn from the seed, one seed is all.
    ///
    /// # Errors
    /// As [`draft`](Self::draft); and where `only` names what is not there.
    pub fn places(
        &self,
        draft: &Draft,
        only: &BTreeMap<String, String>,
        contestants: Option<&[String]>,
    ) -> Result<Vec<Place>, String> {
        let text = |error: crate::plan::PlanError| error.to_string();
        let whole = Plan::interpret(draft.clone()).map_err(text)?;
        let mut places = Vec::new();
        for point in points(&whole) {
            // An `object` or another column that is no factor chooses among the numbers of a run.
            let other =
                only.iter().any(|(key, level)| point.factors.get(key).is_some_and(|own| own != level));
            if other {
                continue;
            }
            let mut draft = at_point(&whole.draft, &point.factors);
            if let Some(names) = contestants {
                draft
                    .transports
                    .retain(|(text, _)| names.iter().any(|name| name == crate::results::label::shown(text)));
            }
            let mut plan = Plan::interpret(draft).map_err(text)?;
            if !plan.points.iter().any(PointPlan::has_chance) && plan.cross.is_none() {
                plan.seeds.truncate(1);
            }
            plan.causes = Causes::Off;
            places.push(Place { factors: point.factors.clone(), plan });
        }
        if places.is_empty() {
            return Err(format!("{}: no point has {only:?}", self.name));
        }
        Ok(places)
    }

    /// How many runs are all the cases there are; `None` where its seeds, or those of the changed plan that gave these
    /// figures, are draws.
    #[must_use]
    pub fn cases(&self, figures: &Figures) -> Option<u64> {
        self.definition.enumerated.filter(|cases| figures.cases == Some(*cases))
    }

    /// The cell of these labels was used to set an input.
    #[must_use]
    pub fn calibrates(&self, labels: &BTreeMap<String, String>) -> bool {
        covers(&self.definition.calibrated, labels)
    }

    /// The cell of these labels shows nothing of the transport.
    #[must_use]
    pub fn is_arithmetic(&self, labels: &BTreeMap<String, String>) -> bool {
        covers(&self.definition.arithmetic, labels)
    }
}

fn points(plan: &Plan) -> &[PointPlan] {
    &plan.points
}

/// A level of a factor as cells are labelled with it.
fn level(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(_) | toml::Value::Float(_) | toml::Value::Boolean(_) => Some(value.to_string()),
        _ => None,
    }
}

/// One of these cells has these labels.
pub(super) fn covers(cells: &[BTreeMap<String, String>], labels: &BTreeMap<String, String>) -> bool {
    cells.iter().any(|cell| cell.iter().all(|(column, value)| labels.get(column) == Some(value)))
}

/// The draft with each factor at one level.
fn at_point(draft: &Draft, factors: &BTreeMap<String, String>) -> Draft {
    let mut draft = draft.clone();
    for given in &mut draft.given {
        if let Some(level) = factors.get(given.key.name) {
            given.levels = vec![level.clone()];
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
