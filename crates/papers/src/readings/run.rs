//! Runs a study once under each reading (possible interpretation) of its paper, and compares the measured table cells
//! with the published values.

use super::{OrderRow, Readings, ScoredReading, Scores};
use crate::bench::{StudyError, StudyRuns};
use crate::cause::Seeds;
use crate::cell::PublishedCell;
use crate::change::Change;
use crate::figures::{Figures, MEAN};
use crate::order::Orders;
use crate::printed::Row;
use crate::table::{Size, TablePoint};
use crate::{Study, Table};
use std::collections::BTreeMap;

/// The error that a cell gets if no run has a value for the cell. It is the natural logarithm of a factor of ten.
const MISSING: f64 = std::f64::consts::LN_10;

impl Study {
    /// Returns the number of simulation runs for all readings (interpretations of the paper), without the runs for
    /// calibration.
    ///
    /// # Errors
    /// A one-line message if a reading of the paper makes a change that does not fit the plan of a table.
    pub fn reading_count(&self, readings: &Readings, size: Size, seeds: &Seeds<'_>) -> Result<usize, String> {
        let seeds = Seeds { runs: readings.seed_count(size), ..*seeds };
        let mut count = 0;
        for reading in readings.all() {
            for table in readings.tables.iter().filter_map(|name| self.table(name)) {
                let (table, changes) = reading.of(table)?;
                let table_points = table_points_of(&table, &readings.rows(&table), &changes, &seeds)
                    .map_err(|error| format!("readings.toml: {}: {error}", reading.name()))?;
                count += table_points.iter().map(|table_point| table_point.plan.run_count()).sum::<usize>();
            }
        }
        Ok(count)
    }

    /// Runs every reading (interpretation) of the paper, and scores how far its results are from the published values.
    ///
    /// # Errors
    /// [`StudyError`] if the runs fail.
    pub fn score(
        &self,
        readings: &Readings,
        size: Size,
        seeds: &Seeds<'_>,
        bench: &mut StudyRuns<'_>,
    ) -> Result<Scores, StudyError> {
        let seeds = Seeds { runs: readings.seed_count(size), ..*seeds };
        let mut scored = Vec::new();
        let mut rows = Vec::new();
        let mut order_rows: Vec<(String, Vec<String>)> = Vec::new();
        for reading in readings.all() {
            let (calibrated, left) = self.calibrated(readings, &reading, &seeds, bench)?;
            let mut by_row: Vec<(String, Vec<f64>)> = Vec::new();
            let mut orders: BTreeMap<String, (usize, usize)> = BTreeMap::new();
            for table in readings.tables.iter().filter_map(|name| self.table(name)) {
                let (table, mut changes) = reading.of(table)?;
                let set = calibrated.iter().filter(|one| one.is_of(&table));
                changes.extend(set.map(|one| one.change.clone()));
                let scored_rows = readings.rows(&table);
                let figures = figures(&table, &scored_rows, &changes, &seeds, bench)?;
                for cell in scored_rows.iter().map(|row| PublishedCell::measure(&table, row, &figures)) {
                    let name = row_name(&table, &readings.rows, &cell.labels);
                    // Orders of contestants are compared within each row of the table. A row of the table may contain
                    // several rows that are scored separately. `order_rows` lists the scored rows in each row of the
                    // table. This list is the same for all readings.
                    let of_orders = row_name(&table, &table.definition.rows, &cell.labels);
                    match order_rows.iter_mut().find(|(known, _)| *known == of_orders) {
                        Some((_, row_names)) if row_names.contains(&name) => {}
                        Some((_, row_names)) => row_names.push(name.clone()),
                        None => order_rows.push((of_orders, vec![name.clone()])),
                    }
                    let error = log_ratio(&cell);
                    match by_row.iter_mut().find(|(known, _)| *known == name) {
                        Some((_, errors)) => errors.push(error),
                        None => by_row.push((name, vec![error])),
                    }
                }
                // Cells from which an input was calibrated do not enter the error of a reading. They are used here
                // nevertheless, to compare which contestant is faster.
                let printed = table.rows();
                let all: Vec<PublishedCell> =
                    printed.map(|row| PublishedCell::measure(&table, row, &figures)).collect();
                let found = Orders::of(&table, &all);
                for (list, same) in [(&found.preserved, 1), (&found.missed, 0)] {
                    for (_, labels) in list {
                        let one = orders.entry(row_name(&table, &table.definition.rows, labels)).or_default();
                        *one = (one.0 + same, one.1 + 1);
                    }
                }
            }
            let rms = |errors: &[f64]| {
                (errors.iter().map(|error| error * error).sum::<f64>() / errors.len() as f64).sqrt()
            };
            scored.push(ScoredReading {
                name: reading.name(),
                departures: reading.departures(),
                exploratory: reading.is_exploratory(),
                calibrated: calibrated.iter().map(|one| one.change.to_string()).collect(),
                remaining_error: left,
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
            .map(|(name, row_names)| OrderRow {
                name,
                scored_rows: row_names.iter().filter_map(at).collect(),
            })
            .collect();
        Scores::of(readings.hash.clone(), rows, order_rows, scored)
            .map(|scores| Scores {
                seeds: seeds.runs,
                digest: self.stored_scores.scores_digest.clone(),
                ..scores
            })
            .ok_or_else(|| "readings.toml: no cell is left to score".to_owned().into())
    }
}

/// Returns ln(ours/published) of a cell. If our value is missing or not positive, returns ln(10).
pub(crate) fn log_ratio(cell: &PublishedCell) -> f64 {
    cell.ours
        .filter(|own_value| *own_value > 0.0)
        .map_or(MISSING, |own_value| (own_value / cell.published).ln())
}

/// Returns the name of a table row: the name of the table, and the labels of the row in these columns.
fn row_name(table: &Table, columns: &[String], labels: &BTreeMap<String, String>) -> String {
    let labels = columns.iter().filter_map(|column| labels.get(column));
    let parts: Vec<&str> = std::iter::once(&table.name).chain(labels).map(String::as_str).collect();
    parts.join("/")
}

/// Runs the plans that belong to these table rows, with all contestants of the table, and returns the results.
pub(crate) fn figures(
    table: &Table,
    rows: &[&Row],
    changes: &[Change],
    seeds: &Seeds<'_>,
    bench: &mut StudyRuns<'_>,
) -> Result<Figures, StudyError> {
    let table_points = table_points_of(table, rows, changes, seeds)?;
    bench.figures(&table_points, table.definition.heads)
}

/// Runs the plans that belong to these table rows, only with the contestants that the rows name, and returns the
/// results.
pub(crate) fn figures_of(
    table: &Table,
    rows: &[&Row],
    changes: &[Change],
    seeds: &Seeds<'_>,
    bench: &mut StudyRuns<'_>,
) -> Result<Figures, StudyError> {
    let mut table_points = table_points_of(table, rows, changes, seeds)?;
    for TablePoint { plan, .. } in table_points.iter_mut().filter(|place| !place.plan.together) {
        let is_of =
            |text: &str| rows.iter().any(|row| row.contestant() == anabranch_results::label::shown(text));
        plan.contestants.retain(|one| is_of(&one.text));
        plan.draft.transports.retain(|(text, _)| is_of(text));
    }
    bench.figures(&table_points, table.definition.heads)
}

/// Returns the points at which these rows were measured, each with its plan.
fn table_points_of(
    table: &Table,
    rows: &[&Row],
    changes: &[Change],
    seeds: &Seeds<'_>,
) -> Result<Vec<TablePoint>, String> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    // Every contestant of the table is run, even a contestant without a row in `rows`. The plan may be invalid without
    // one of them, and tables with the same plan can share runs only if the contestants are the same.
    let printed = table.rows();
    let mut names: Vec<String> = printed.map(|row| row.contestant().to_owned()).collect();
    names.sort();
    names.dedup();
    let runs = table.definition.enumerated.unwrap_or(seeds.runs);
    let draft = Seeds { runs, ..*seeds }.draft(table, &of_table(table, changes))?;
    let mut table_points = table.table_points(&draft, &BTreeMap::new(), Some(&names), seeds.transports)?;
    table_points.retain(|table_point| {
        let is_in = |row: &Row, (key, level): (&String, &String)| {
            row.labels.get(key).is_some_and(|label| label == level || label == MEAN)
        };
        rows.iter().any(|row| table_point.factors.iter().all(|factor| is_in(row, factor)))
    });
    Ok(table_points)
}

/// Returns those of `changes` that apply to the table.
fn of_table(table: &Table, changes: &[Change]) -> Vec<Change> {
    let names = table.names();
    changes.iter().filter(|change| change.is_of(&names)).cloned().collect()
}
