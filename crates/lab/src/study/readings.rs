//! What a paper leaves open, read in every way it can be: which reading comes nearest to print, and how near a reading
//! comes to rows that had no part in choosing it.
//!
//! `readings.toml` holds axes, each with its readings; a reading of the paper takes one of each. Its loss is the mean over
//! rows (a contestant's cells at one loss, or as the file says) of the root of the mean square of ln(ours/print), rows
//! equal, calibrated cells left out. What is calibrated is set anew for every reading ([`calibrate`](super::calibrate)). Of
//! readings within one standard error of the least loss that one is chosen that departs least from what the paper states,
//! then from the defaults of its day, then the first. The file is written before its readings are scored: its digest says
//! which one was.

use super::bench::{Bench, StudyError};
use super::calibrate::Calibration;
use super::cause::Seeds;
use super::cell::Cell;
use super::change::Change;
use super::effect::figure;
use super::figures::{Figures, MEAN, hex};
use super::findings::Size;
use super::metric::Metric;
use super::order::Orders;
use super::printed::Row;
use super::table::Place;
use super::{Study, Table};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Most readings of a paper.
const MOST: usize = 144;
/// What a cell counts that no run has a number for: a factor of ten.
const MISSING: f64 = std::f64::consts::LN_10;

/// The content of a `readings.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Readings {
    /// Digest of the file, SHA-256.
    #[serde(skip)]
    pub hash: String,
    /// The tables whose cells are scored.
    pub tables: Vec<String>,
    /// The columns that make a row of a table, beside the table itself.
    pub rows: Vec<String>,
    /// Seeds, and those of a quick run.
    pub runs: u64,
    /// Seeds of a quick run.
    pub quick_runs: u64,
    /// Cells that are not scored: labels that all must match, `table` among them.
    #[serde(default)]
    pub leave_out: Vec<BTreeMap<String, String>>,
    /// What is open.
    #[serde(rename = "axis")]
    pub axes: Vec<Axis>,
    /// What is set anew for each reading.
    #[serde(default, rename = "calibrate")]
    pub calibrations: Vec<Calibration>,
}

/// One thing that the paper leaves open.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// What.
    pub name: String,
    /// Where the paper leaves it open.
    pub why: String,
    /// The tables that it is of; all unless given.
    pub tables: Option<Vec<String>>,
    /// Its readings beside the first are each tried once, with the first of every other axis: added one at a time.
    #[serde(default)]
    pub alone: bool,
    /// The ways to read it.
    #[serde(rename = "reading")]
    pub choices: Vec<Choice>,
}

/// One way to read it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// Its name.
    pub id: String,
    /// What is changed, as `--set` has it; nothing where the plan is as it is.
    #[serde(default)]
    pub change: Vec<String>,
    /// The number that a run becomes, where it is another than the table's.
    pub metric: Option<Metric>,
    /// How many facts that the paper states it departs from.
    #[serde(default)]
    pub stated: u32,
    /// How many defaults of the paper's day it departs from.
    #[serde(default)]
    pub default: u32,
    /// It was found after results had been seen: it is scored and never chosen.
    #[serde(default)]
    pub exploratory: bool,
}

/// A reading of the paper: one of each axis.
#[derive(Clone, Debug)]
pub struct Reading<'a> {
    /// Axis and what it is read as.
    parts: Vec<(&'a Axis, &'a Choice)>,
}

/// A reading that was run.
#[derive(Clone, PartialEq, Debug)]
pub struct Scored {
    /// Its name: those of its parts.
    pub name: String,
    /// Departures from what is stated, and from defaults.
    pub departures: (u32, u32),
    /// It is never chosen.
    pub exploratory: bool,
    /// What was set for it by calibrated cells.
    pub calibrated: Vec<String>,
    /// The root of the mean square of ln(ours/print) that is left in these: a reading that cannot meet them shows it here.
    pub left: Option<f64>,
    /// Of each row the root of the mean square of ln(ours/print).
    pub errors: Vec<f64>,
    /// Of each row of orders how many are as in print, and of how many.
    pub orders: Vec<(usize, usize)>,
}

/// A row of orders, and the scored rows that have a cell in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OrderRow {
    /// The table and the labels of the row.
    pub name: String,
    /// Which scored rows share a cell with it: they choose nothing where it is left out.
    pub shares: Vec<usize>,
}

/// What came of all readings.
#[derive(Clone, PartialEq, Debug)]
pub struct Scores {
    /// Digest of the file.
    pub hash: String,
    /// Digest of all that they follow from.
    pub of: String,
    /// Seeds of each run.
    pub seeds: u64,
    /// The rows' names.
    pub rows: Vec<String>,
    /// The rows of orders.
    pub order_rows: Vec<OrderRow>,
    /// The readings, in the order of the file.
    pub readings: Vec<Scored>,
    /// The one that is chosen by all rows.
    pub selected: usize,
    /// How many are within one standard error of the least loss, exploratory ones aside.
    pub alike: usize,
    /// Of each row the error of the reading that all other rows choose, and which that is.
    pub held_out: Vec<(f64, usize)>,
    /// The one that is chosen without looking at any row.
    pub stated: usize,
    /// The median of the losses, exploratory ones aside.
    pub median: f64,
    /// The exploratory one with the least loss.
    pub exploratory: Option<usize>,
}

impl Readings {
    /// Reads a `readings.toml`.
    ///
    /// # Errors
    /// One line: what is wrong and where.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |what: String| format!("readings.toml: {what}");
        let mut own: Self = toml::from_str(text).map_err(|e| wrong(e.to_string().replace('\n', " ")))?;
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
            let what =
                calibration.wrong().or((!known)
                    .then(|| format!("when: no reading '{}'", calibration.when.as_deref().unwrap_or(""))));
            if let Some(what) = what {
                return Err(wrong(format!("calibrate {}: {what}", calibration.key)));
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

    /// Every table that it is about.
    pub(super) fn table_names(&self) -> impl Iterator<Item = &str> {
        self.tables.iter().chain(self.calibrations.iter().map(|one| &one.table)).map(String::as_str)
    }

    /// What of it the study has no place for.
    pub(super) fn misfit(&self, study: &Study) -> Option<String> {
        let all = self.axes.iter().filter_map(|axis| axis.tables.as_ref()).flatten();
        let named = self.tables.iter().chain(all).chain(self.calibrations.iter().map(|one| &one.table));
        let unknown = named.clone().find(|name| study.table(name).is_none());
        if let Some(name) = unknown {
            return Some(format!("no table '{name}'"));
        }
        let empty =
            self.tables.iter().find(|name| study.table(name).is_some_and(|table| table.printed.is_none()));
        if let Some(name) = empty {
            return Some(format!("{name}: nothing is printed, so nothing can be scored"));
        }
        for choice in self.axes.iter().flat_map(|axis| &axis.choices) {
            let changes = choice.change.iter().map(|text| Change::parse(text)).collect::<Result<Vec<_>, _>>();
            match changes.map(|changes| study.misfit(&changes)) {
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

    /// Every reading, the last axis turning first; then those of what is added alone.
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

    fn seeds(&self, size: Size) -> u64 {
        match size {
            Size::Full => self.runs,
            Size::Quick => self.quick_runs,
            Size::Runs(runs) => runs,
        }
    }

    /// The rows of a table that are scored.
    fn rows<'a>(&self, table: &'a Table) -> Vec<&'a Row> {
        let printed = table.printed.iter().flat_map(|printed| &printed.rows);
        let is_left_out = |row: &Row| {
            let is = |column: &str, value: &String| match column {
                "table" => *value == table.name,
                _ => row.labels.get(column) == Some(value),
            };
            self.leave_out.iter().any(|cell| cell.iter().all(|(column, value)| is(column, value)))
        };
        // What sets an input is met by setting it.
        let sets = |row: &Row| {
            let own = self.calibrations.iter().filter(|one| one.table == table.name);
            table.calibrates(&row.labels)
                || own.flat_map(|one| one.rows(table)).any(|one| one.labels == row.labels)
        };
        printed.filter(|row| !is_left_out(row) && !sets(row)).collect()
    }
}

impl Reading<'_> {
    /// The ids of its parts.
    #[must_use]
    pub fn name(&self) -> String {
        self.parts.iter().map(|(_, choice)| choice.id.as_str()).collect::<Vec<_>>().join(" ")
    }

    /// It has this part.
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

    /// The table as it is read, and what is changed in its plan.
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

impl Study {
    /// Runs of all readings, those that calibrate aside.
    ///
    /// # Errors
    /// One line: a change does not fit.
    pub fn reading_count(&self, readings: &Readings, size: Size, seeds: &Seeds<'_>) -> Result<usize, String> {
        let seeds = Seeds { runs: readings.seeds(size), ..*seeds };
        let mut count = 0;
        for reading in readings.all() {
            for table in readings.tables.iter().filter_map(|name| self.table(name)) {
                let (table, changes) = reading.of(table)?;
                let places = places(&table, &readings.rows(&table), &changes, &seeds)
                    .map_err(|error| format!("readings.toml: {}: {error}", reading.name()))?;
                count += places.iter().map(|place| place.plan.run_count()).sum::<usize>();
            }
        }
        Ok(count)
    }

    /// Runs every reading and scores it.
    ///
    /// # Errors
    /// [`StudyError`].
    pub fn score(
        &self,
        readings: &Readings,
        size: Size,
        seeds: &Seeds<'_>,
        bench: &mut Bench<'_>,
    ) -> Result<Scores, StudyError> {
        let seeds = Seeds { runs: readings.seeds(size), ..*seeds };
        let mut scored = Vec::new();
        let mut rows = Vec::new();
        let mut order_rows: Vec<(String, Vec<String>)> = Vec::new();
        for reading in readings.all() {
            let (calibrated, left) = self.calibrated(readings, &reading, &seeds, bench)?;
            let mut by_row: Vec<(String, Vec<f64>)> = Vec::new();
            let mut orders: BTreeMap<String, (usize, usize)> = BTreeMap::new();
            for table in readings.tables.iter().filter_map(|name| self.table(name)) {
                let (table, mut changes) = reading.of(table).map_err(StudyError::Change)?;
                let set = calibrated.iter().filter(|one| one.is_of(&table));
                changes.extend(set.map(|one| one.change.clone()));
                let scored = readings.rows(&table);
                let figures = figures(&table, &scored, &changes, &seeds, bench)?;
                for cell in scored.iter().map(|row| Cell::measure(&table, row, &figures)) {
                    let name = row_name(&table, &readings.rows, &cell.labels);
                    // The same rows of orders whatever the reading.
                    let of_orders = row_name(&table, &table.definition.rows, &cell.labels);
                    match order_rows.iter_mut().find(|(known, _)| *known == of_orders) {
                        Some((_, shares)) if shares.contains(&name) => {}
                        Some((_, shares)) => shares.push(name.clone()),
                        None => order_rows.push((of_orders, vec![name.clone()])),
                    }
                    let error = off(&cell);
                    match by_row.iter_mut().find(|(known, _)| *known == name) {
                        Some((_, errors)) => errors.push(error),
                        None => by_row.push((name, vec![error])),
                    }
                }
                // What sets an input has an order, too.
                let printed = table.printed.iter().flat_map(|printed| &printed.rows);
                let all: Vec<Cell> = printed.map(|row| Cell::measure(&table, row, &figures)).collect();
                let found = Orders::of(&table, &all);
                for (list, same) in [(&found.kept, 1), (&found.missed, 0)] {
                    for (_, place) in list {
                        let one = orders.entry(row_name(&table, &table.definition.rows, place)).or_default();
                        *one = (one.0 + same, one.1 + 1);
                    }
                }
            }
            let rms = |errors: &[f64]| {
                (errors.iter().map(|error| error * error).sum::<f64>() / errors.len() as f64).sqrt()
            };
            scored.push(Scored {
                name: reading.name(),
                departures: reading.departures(),
                exploratory: reading.is_exploratory(),
                calibrated: calibrated.iter().map(|one| one.change.to_string()).collect(),
                left,
                errors: by_row.iter().map(|(_, errors)| rms(errors)).collect(),
                orders: order_rows
                    .iter()
                    .map(|(name, _)| orders.get(name).copied().unwrap_or_default())
                    .collect(),
            });
            rows = by_row.into_iter().map(|(name, _)| name).collect();
        }
        let at = |name: &String| rows.iter().position(|row| row == name);
        let order_rows = order_rows
            .into_iter()
            .map(|(name, shares)| OrderRow { name, shares: shares.iter().filter_map(at).collect() })
            .collect();
        Scores::of(readings.hash.clone(), rows, order_rows, scored)
            .map(|scores| Scores { seeds: seeds.runs, of: self.kept.of_scores.clone(), ..scores })
            .ok_or_else(|| StudyError::Change("readings.toml: no cell is left to score".to_owned()))
    }
}

/// ln(ours/print) of a cell; one that no run has a number for, or nothing, is off by a factor of ten.
pub(super) fn off(cell: &Cell) -> f64 {
    cell.ours.filter(|ours| *ours > 0.0).map_or(MISSING, |ours| (ours / cell.printed).ln())
}

/// The table, and the labels in these columns.
fn row_name(table: &Table, columns: &[String], labels: &BTreeMap<String, String>) -> String {
    let labels = columns.iter().filter_map(|column| labels.get(column));
    let parts: Vec<&str> = std::iter::once(&table.name).chain(labels).map(String::as_str).collect();
    parts.join("/")
}

/// The figures of the places of these rows, of the contestants that the table has.
pub(super) fn figures(
    table: &Table,
    rows: &[&Row],
    changes: &[Change],
    seeds: &Seeds<'_>,
    bench: &mut Bench<'_>,
) -> Result<Figures, StudyError> {
    let places = places(table, rows, changes, seeds).map_err(StudyError::Change)?;
    bench.figures(&places, table.definition.heads)
}

/// The same of those contestants alone whose rows these are.
pub(super) fn figures_of(
    table: &Table,
    rows: &[&Row],
    changes: &[Change],
    seeds: &Seeds<'_>,
    bench: &mut Bench<'_>,
) -> Result<Figures, StudyError> {
    let mut places = places(table, rows, changes, seeds).map_err(StudyError::Change)?;
    for Place { plan, .. } in places.iter_mut().filter(|place| !place.plan.together) {
        let is_of =
            |text: &str| rows.iter().any(|row| row.contestant() == crate::results::label::shown(text));
        plan.contestants.retain(|one| is_of(&one.text));
        plan.draft.transports.retain(|(text, _)| is_of(text));
    }
    bench.figures(&places, table.definition.heads)
}

/// Their places.
fn places(table: &Table, rows: &[&Row], changes: &[Change], seeds: &Seeds<'_>) -> Result<Vec<Place>, String> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    // Whoever is in the table: the plan may be wrong without one of them, and tables of one plan share their runs.
    let printed = table.printed.iter().flat_map(|printed| &printed.rows);
    let mut names: Vec<String> = printed.map(|row| row.contestant().to_owned()).collect();
    names.sort();
    names.dedup();
    let runs = table.definition.enumerated.unwrap_or(seeds.runs);
    let draft = table.draft(runs, seeds.first, &seeds.changes_of(table, &of_table(table, changes)))?;
    let mut places = table.places(&draft, &BTreeMap::new(), Some(&names))?;
    places.retain(|place| {
        let is_in = |row: &Row, (key, level): (&String, &String)| {
            row.labels.get(key).is_some_and(|label| label == level || label == MEAN)
        };
        rows.iter().any(|row| place.factors.iter().all(|factor| is_in(row, factor)))
    });
    Ok(places)
}

/// Those of the changes that the table has a place for.
fn of_table(table: &Table, changes: &[Change]) -> Vec<Change> {
    let names = table.names();
    changes.iter().filter(|change| change.is_of(&names)).cloned().collect()
}

impl Scores {
    /// What readings with these errors say; `None` where no row is scored.
    pub(super) fn of(
        hash: String,
        rows: Vec<String>,
        order_rows: Vec<OrderRow>,
        readings: Vec<Scored>,
    ) -> Option<Self> {
        let count = rows.len();
        if count == 0 || readings.iter().all(|reading| reading.exploratory) {
            return None;
        }
        let all: Vec<usize> = (0..count).collect();
        let (selected, alike) = choose(&readings, &all)?;
        let held_out = (0..count).map(|left_out| {
            let rest: Vec<usize> = (0..count).filter(|row| *row != left_out).collect();
            // Of one row nothing is left to choose by: then nothing but departures does.
            let (chosen, _) = choose(&readings, &rest)?;
            Some((readings[chosen].errors[left_out], chosen))
        });
        let held_out = held_out.collect::<Option<Vec<_>>>()?;
        let (stated, _) = choose(&readings, &[])?;
        let of = |exploratory: bool| {
            let mut some: Vec<(f64, usize)> = (0..readings.len())
                .filter(|at| readings[*at].exploratory == exploratory)
                .map(|at| (readings[at].loss(), at))
                .collect();
            some.sort_by(|a, b| a.0.total_cmp(&b.0));
            some
        };
        let others = of(false);
        let median = (others[(others.len() - 1) / 2].0 + others[others.len() / 2].0) / 2.0;
        let exploratory = of(true).first().map(|(_, at)| *at);
        let (of, seeds) = (String::new(), 0);
        Some(Self {
            hash,
            of,
            seeds,
            rows,
            order_rows,
            selected,
            alike,
            held_out,
            stated,
            median,
            exploratory,
            readings,
        })
    }

    /// Orders as in print of a reading, and of how many; rows in which all are, and of how many.
    #[must_use]
    pub fn orders_of(&self, reading: usize) -> [usize; 4] {
        counted(self.readings[reading].orders.iter().copied())
    }

    /// The same where each row of orders is that of the reading which the rows choose that share no cell with it.
    #[must_use]
    pub fn held_out_orders(&self) -> [usize; 4] {
        counted(self.held_out_each().into_iter().flatten())
    }

    /// The same of each row of orders.
    pub(super) fn held_out_each(&self) -> Vec<Option<(usize, usize)>> {
        let each = self.order_rows.iter().enumerate().map(|(at, row)| {
            let rest: Vec<usize> = (0..self.rows.len()).filter(|one| !row.shares.contains(one)).collect();
            let (chosen, _) = choose(&self.readings, &rest)?;
            self.readings[chosen].orders.get(at).copied()
        });
        each.collect()
    }

    /// The mean over rows of what [`held_out`](Self::held_out) has.
    #[must_use]
    pub fn held_out_loss(&self) -> f64 {
        mean(self.held_out.iter().map(|(error, _)| *error))
    }

    /// What they are, and the digest of the file.
    #[must_use]
    pub fn heading(&self) -> String {
        let (all, of) = (self.readings.len(), self.rows.len());
        let exploratory = self.readings.iter().filter(|reading| reading.exploratory).count();
        let exploratory =
            if exploratory > 0 { format!(", {exploratory} of them exploratory") } else { String::new() };
        format!(
            "readings {}: {all} of what the paper leaves open{exploratory}, by the mean over {of} rows of the rms of \
             ln(ours/print), {} a place; {} within one standard error of the best",
            self.hash,
            if self.seeds == 1 { "one run".to_owned() } else { format!("{} runs", self.seeds) },
            self.alike
        )
    }

    /// A line for each of what is to be said of them: what, the reading, the loss, and its orders.
    #[must_use]
    pub fn lines(&self) -> Vec<[String; 4]> {
        let of = |what: &str, at: usize| {
            let reading = &self.readings[at];
            let left =
                reading.left.map_or(String::new(), |left| format!("; calibrated cells {}", shown(left)));
            let orders = in_words(self.orders_of(at));
            [what.to_owned(), reading.name.clone(), shown(reading.loss()) + &left, orders]
        };
        let mut chosen: Vec<usize> = self.held_out.iter().map(|(_, at)| *at).collect();
        chosen.sort_unstable();
        chosen.dedup();
        let names: Vec<&str> = chosen.iter().map(|at| self.readings[*at].name.as_str()).collect();
        let mut lines = vec![
            of("selected", self.selected),
            [
                "held out".to_owned(),
                names.join(" | "),
                shown(self.held_out_loss()),
                in_words(self.held_out_orders()),
            ],
            of("stated only", self.stated),
            ["median of all".to_owned(), String::new(), shown(self.median), String::new()],
        ];
        lines.extend(self.exploratory.map(|at| of("best exploratory, never chosen", at)));
        lines
    }
}

impl Scored {
    /// The mean over rows.
    #[must_use]
    pub fn loss(&self) -> f64 {
        mean(self.errors.iter().copied())
    }
}

/// Orders that are as in print, all of them, rows in which all are, and rows that have any.
fn counted(rows: impl Iterator<Item = (usize, usize)>) -> [usize; 4] {
    rows.filter(|(_, all)| *all > 0).fold([0; 4], |[same, all, whole, rows], (kept, of)| {
        [same + kept, all + of, whole + usize::from(kept == of), rows + 1]
    })
}

/// A loss, and the factor that it is.
fn shown(loss: f64) -> String {
    format!("{} (x{:.2})", figure(loss), loss.exp())
}

/// Orders and rows of orders; nothing where print has none.
fn in_words([same, all, whole, rows]: [usize; 4]) -> String {
    if all == 0 { String::new() } else { format!("orders {same}/{all}, rows {whole}/{rows}") }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}

/// The reading that these rows choose, and how many are within one standard error of the best; `None` where every one is
/// exploratory. Without a row all are alike.
fn choose(readings: &[Scored], rows: &[usize]) -> Option<(usize, usize)> {
    let loss = |reading: &Scored| mean(rows.iter().map(|row| reading.errors[*row]));
    let open = || readings.iter().enumerate().filter(|(_, reading)| !reading.exploratory);
    let (_, best) = open().min_by(|(_, a), (_, b)| loss(a).total_cmp(&loss(b)))?;
    let (least, n) = (loss(best), rows.len() as f64);
    let squares = rows.iter().map(|row| (best.errors[*row] - least).powi(2)).sum::<f64>();
    let error = if rows.len() > 1 { (squares / (n - 1.0) / n).sqrt() } else { 0.0 };
    // What is alike but for rounding is alike.
    let alike = || open().filter(|(_, reading)| loss(reading) <= least + error + 1e-12);
    let chosen = alike().min_by_key(|(at, reading)| (reading.departures, *at))?;
    Some((chosen.0, alike().count()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scored(name: &str, departures: (u32, u32), errors: &[f64]) -> Scored {
        Scored {
            name: name.to_owned(),
            departures,
            exploratory: false,
            calibrated: Vec::new(),
            left: None,
            errors: errors.to_vec(),
            orders: Vec::new(),
        }
    }

    fn scores(readings: Vec<Scored>) -> Scores {
        let rows = (0..readings[0].errors.len()).map(|row| row.to_string()).collect();
        Scores::of("hash".to_owned(), rows, Vec::new(), readings).expect("scores")
    }

    #[test]
    fn orders_of_a_row_that_is_left_out_are_those_of_what_the_others_choose() {
        let of = |name: &str, errors: [f64; 2], orders: [(usize, usize); 2]| Scored {
            orders: orders.to_vec(),
            ..scored(name, (0, 0), &errors)
        };
        // Row 0 alone chooses a, row 1 alone b.
        let readings = vec![of("a", [0.1, 0.9], [(2, 2), (0, 3)]), of("b", [0.8, 0.1], [(1, 2), (3, 3)])];
        let row = |name: &str, shares: &[usize]| OrderRow { name: name.to_owned(), shares: shares.to_vec() };
        let rows = vec!["0".to_owned(), "1".to_owned()];
        let order_rows = vec![row("x", &[0]), row("y", &[1])];
        let found = Scores::of("hash".to_owned(), rows, order_rows, readings).expect("scores");
        assert_eq!((found.orders_of(0), found.orders_of(1)), ([2, 5, 1, 2], [4, 5, 1, 2]));
        assert_eq!(found.held_out_orders(), [1, 5, 0, 2], "b of the first, a of the second");
        assert_eq!(found.lines()[1][3], "orders 1/5, rows 0/2");
    }

    #[test]
    fn what_is_left_out_is_scored_by_what_the_rest_chooses() {
        // By all rows a (mean 0.2; deviation 0.1 over 3 rows, so an SE of 0.0577) is chosen: b has 0.3.
        let found =
            scores(vec![scored("b", (0, 0), &[0.0, 0.0, 0.9]), scored("a", (0, 0), &[0.1, 0.2, 0.3])]);
        assert_eq!((found.selected, found.alike), (1, 1));
        // Without row 3 b has nothing to be blamed for, and then it pays; without row 1 or 2 a is chosen (0.25 and 0.2
        // with an SE of 0.05 and 0.1, against 0.45 twice).
        assert_eq!(found.held_out, [(0.1, 1), (0.2, 1), (0.9, 0)]);
        assert!((found.held_out_loss() - 0.4).abs() < 1e-12);
        assert_eq!(found.stated, 0, "the first, where nothing departs");
        assert!((found.median - 0.25).abs() < 1e-12);
    }

    #[test]
    fn among_those_alike_the_fewest_departures_decide() {
        // Least 0.2 with an SE of 0.0577: all up to 0.2577 are alike.
        let best = [0.1, 0.2, 0.3];
        let order = |second: (u32, u32), third: (u32, u32)| {
            scores(vec![
                scored("best", (1, 1), &best),
                scored("second", second, &[0.25; 3]),
                scored("third", third, &[0.25; 3]),
                scored("far", (0, 0), &[0.26; 3]),
            ])
        };
        assert_eq!(order((1, 2), (1, 2)).selected, 0);
        assert_eq!(order((2, 0), (1, 0)).selected, 2, "defaults come after what is stated");
        assert_eq!(order((0, 9), (1, 0)).selected, 1, "what is stated comes first");
        assert_eq!(order((1, 0), (1, 0)).selected, 1, "then the order of the file");
        assert_eq!((order((1, 0), (1, 0)).alike, order((1, 0), (1, 0)).stated), (3, 3));
    }

    #[test]
    fn what_is_exploratory_is_never_chosen() {
        let mut found = scored("found afterwards", (0, 0), &[0.0, 0.0]);
        found.exploratory = true;
        let found = scores(vec![found, scored("a", (1, 0), &[0.5, 0.7])]);
        assert_eq!((found.selected, found.stated, found.exploratory), (1, 1, Some(0)));
        assert_eq!(found.held_out, [(0.5, 1), (0.7, 1)]);
        assert!((found.median - 0.6).abs() < 1e-12);
        assert_eq!(found.lines()[0], ["selected", "a", "0.600 (x1.82)", ""].map(str::to_owned));
    }

    const FILE: &str = "tables = ['t']\nrows = ['contestant']\nruns = 2\nquick-runs = 1\n\
                        [[axis]]\nname = 'rtt'\nwhy = 'unsaid'\n[[axis.reading]]\nid = '80'\n\
                        [[axis.reading]]\nid = '160'\nchange = ['rtt=160ms']\nstated = 1\n\
                        [[axis]]\nname = 'clock'\nwhy = 'unsaid'\n[[axis.reading]]\nid = 'start'\nmetric = 'page'\n\
                        [[axis.reading]]\nid = 'found'\nexploratory = true\ndefault = 2\n";

    #[test]
    fn every_reading_is_one_of_each_axis() {
        let file = Readings::parse(FILE).expect("readings");
        let all = file.all();
        let names: Vec<String> = all.iter().map(Reading::name).collect();
        assert_eq!(names, ["80 start", "80 found", "160 start", "160 found"]);
        assert_eq!(
            (all[3].departures(), all[3].is_exploratory(), all[2].is_exploratory()),
            ((1, 2), true, false)
        );
        // The digest is of the file, whatever is changed in it.
        assert_eq!(file.hash.len(), 64);
        assert_ne!(Readings::parse(&format!("# said later\n{FILE}")).expect("readings").hash, file.hash);
    }

    #[test]
    fn what_is_added_alone_goes_with_the_first_of_every_axis() {
        let one = |name: &str, alone: &str, ids: [&str; 3]| {
            let readings = ids.map(|id| format!("[[axis.reading]]\nid = '{id}'\n")).concat();
            format!("[[axis]]\nname = '{name}'\nwhy = ''\n{alone}{readings}")
        };
        let head = "tables = ['t']\nrows = []\nruns = 1\nquick-runs = 1\n";
        let alone = one("b", "alone = true\n", ["bare", "edge", "tunnel"]);
        let file =
            Readings::parse(&format!("{head}{}{alone}", one("a", "", ["1", "2", "3"]))).expect("readings");
        let names: Vec<String> = file.all().iter().map(Reading::name).collect();
        assert_eq!(names, ["1 bare", "2 bare", "3 bare", "1 edge", "1 tunnel"]);
    }

    #[test]
    fn what_is_wrong_is_told_in_a_line() {
        for (text, told) in [
            ("", "tables"),
            (&FILE.replace("runs = 2", "runs = 0"), "at least one"),
            (&FILE.replace("id = '160'", "id = '80'"), "two readings"),
            (&FILE.replace("rtt=160ms", "160ms"), "160: "),
            (&FILE.replace("exploratory", "explorative"), "explorative"),
            (&FILE.replace("id = 'start'", "id = 'start'\nexploratory = true"), "none could be chosen"),
            (
                &format!("{FILE}[[calibrate]]\ntable = 't'\nkey = 'rtt'\nstart = 'x'\ncells = {{}}\n"),
                "calibrate rtt",
            ),
            (
                &format!(
                    "{FILE}[[calibrate]]\ntable = 't'\nkey = 'rtt'\nstart = '1ms'\ncells = {{}}\nwhen = 'no'\n"
                ),
                "no reading 'no'",
            ),
        ] {
            let error = Readings::parse(text).expect_err(told);
            assert!(error.starts_with("readings.toml: ") && error.contains(told), "{told}: {error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
        let many: String = (0..8)
            .map(|axis| {
                let one = |n| format!("[[axis.reading]]\nid = '{axis}-{n}'\n");
                format!("[[axis]]\nname = '{axis}'\nwhy = ''\n{}{}", one(0), one(1))
            })
            .collect();
        let head = "tables = ['t']\nrows = []\nruns = 1\nquick-runs = 1\n";
        assert!(Readings::parse(&format!("{head}{many}")).expect_err("256").contains("more than 144"));
    }
}
