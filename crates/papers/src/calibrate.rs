//! Calibration: sets inputs that a paper does not give, so that our values match some of its published cells. A reading
//! is one interpretation of the paper. Each reading is calibrated separately, by the same rule, and without randomness.
//!
//! Inputs that are single numbers are found together, by Newton's method on logarithms. Each of them is calibrated by
//! certain published cells: the mean of ln(ours/published) over these cells must become 0. An input can also be a list
//! of file sizes, each calibrated by one published cell. The secant method, bounded by bisection, finds these sizes.
//!
//! Both searches bound their steps and keep the best of all trials. If no value of an input fits its cells, the other
//! inputs are still fitted. The remaining error of calibrated cells is not part of any score.

use super::bench::{StudyError, StudyRuns};
use super::cause::Seeds;
use super::change::Change;
use super::figures::Figures;
use super::printed::Row;
use super::readings::run::figures_of;
use super::readings::{Reading, Readings};
use super::sensitivity::number;
use super::{Study, Table};
use anabranch_base::Bytes;
use anabranch_results::stats::interval;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The maximum number of Newton steps. Each step makes one trial for each calibrated number.
const STEPS: usize = 4;
/// The maximum number of bisection trials.
const TRIALS: usize = 24;
/// The search ends when all remaining errors, the absolute values of ln(ours/published), are below this value.
const TOLERANCE: f64 = 0.0005;
/// The maximum change of ln(input) in one step: a factor of 4.
const MAX_STEP: f64 = std::f64::consts::LN_2 * 2.0;
/// The minimum effect of an input on the published cells that calibrate it. The effect is the change of the cells' mean
/// ln(value), divided by the change of ln(input). An input with a smaller effect keeps its value, because doubling it
/// would change the cells by less than 0.1 %.
const FLAT: f64 = 0.001;
/// The change of ln(input) in the trial that measures how an input affects the cells.
const PROBE_STEP: f64 = 0.2;

/// One `[[calibrate]]` entry of `readings.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// The plan key or contestant's setting that is calibrated, as in `--set`, without the value.
    pub key: String,
    /// The start value: a number with its unit, or sizes separated by commas.
    pub start: String,
    /// The table whose published cells determine the calibrated value.
    pub table: String,
    /// The labels (name and value) of the cells that determine the value. A cell is selected if it has all of these
    /// labels.
    pub cells: BTreeMap<String, String>,
    /// The rule by which the value is found from the cells.
    #[serde(default)]
    pub rule: Rule,
    /// The tables in which the value is set. `None` means all tables to which the value applies.
    pub tables: Option<Vec<String>>,
    /// The identifier of a choice. The calibration applies only to readings that contain this choice. A reading is a
    /// combination of choices that interprets the paper. `None` means that the calibration applies to all readings.
    pub when: Option<String>,
}

/// The rule by which a calibrated value is found from published cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// The calibrated value is one number. The number fits if the mean of ln(simulated/published) over the selected
    /// cells is 0.
    #[default]
    Number,
    /// The calibrated value is a list of sizes of consecutive files. Each size is calibrated by one cell: the published
    /// end time of the file.
    Sizes,
}

/// The result of one calibration, ready to be set in the plans.
#[derive(Clone, Debug)]
pub(super) struct Calibrated {
    /// The calibrated value, as a change of the plan.
    pub change: Change,
    /// The tables in which the value is set; `None` means all.
    pub tables: Option<Vec<String>>,
}

impl Calibrated {
    /// Returns whether the calibrated value is set in this table.
    pub(super) fn is_of(&self, table: &Table) -> bool {
        self.tables.as_ref().is_none_or(|names| names.contains(&table.name))
    }
}

impl Calibration {
    /// Returns the first error in this `[[calibrate]]` entry, if any.
    pub(super) fn wrong(&self) -> Option<String> {
        let start = match self.rule {
            Rule::Number => number(&self.start).is_some_and(|(value, _)| value > 0.0),
            Rule::Sizes => sizes(&self.start).is_some(),
        };
        let wrong = || format!("start: '{}': write a number above 0 with its unit, or sizes", self.start);
        (!start).then(wrong).or_else(|| Change::parse(&format!("{}=1", self.key)).err())
    }

    /// Returns the rows with the published values that calibrate the input.
    pub(super) fn rows<'a>(&self, table: &'a Table) -> Vec<&'a Row> {
        let is_of =
            |row: &&Row| self.cells.iter().all(|(column, value)| row.labels.get(column) == Some(value));
        table.rows().filter(is_of).collect()
    }

    fn change(&self, value: &str) -> Result<Change, StudyError> {
        Ok(Change::parse(&format!("{}={value}", self.key))?)
    }

    fn calibrated(&self, value: &str) -> Result<Calibrated, StudyError> {
        Ok(Calibrated { change: self.change(value)?, tables: self.tables.clone() })
    }

    /// Converts the logarithm of a calibrated number to rounded text with the unit. Also returns the logarithm of the
    /// rounded number.
    fn text(&self, log: f64) -> (String, f64) {
        let unit = number(&self.start).map_or("", |(_, unit)| unit);
        let decimals = if matches!(unit, "ns" | "B" | "" | "p") { 0 } else { 3 };
        let text = format!("{:.decimals$}{unit}", log.exp());
        let value = number(&text).map_or(0.0, |(value, _)| value);
        // Zero would be an invalid value. If the number rounds to zero, the start value is used instead.
        if value > 0.0 { (text, value.ln()) } else { (self.start.clone(), self.log()) }
    }

    fn log(&self) -> f64 {
        number(&self.start).map_or(0.0, |(value, _)| value.ln())
    }
}

/// Parses sizes in bytes that are separated by commas.
fn sizes(text: &str) -> Option<Vec<f64>> {
    text.split(',').map(|one| one.parse::<Bytes>().ok().map(|size| size.0 as f64)).collect()
}

/// Returns ln(ours/published) of each published cell in `rows`; `None` for a cell for which our runs have no value.
fn logs(table: &Table, rows: &[&Row], figures: &Figures) -> Vec<Option<f64>> {
    let log = |row: &&Row| {
        let point = figures.at(&row.labels)?;
        let measured =
            interval::mean(&point.values(row.contestant(), table.definition.metric, row.object()))?;
        (measured > 0.0).then(|| (measured / row.value).ln())
    };
    rows.iter().map(log).collect()
}

impl Study {
    /// Calibrates the inputs of a reading (interpretation of the paper). Returns the calibrated values, and the error
    /// that remains: the root of the mean square of ln(ours/published) over the calibrated cells.
    pub(super) fn calibrated(
        &self,
        readings: &Readings,
        reading: &Reading<'_>,
        seeds: &Seeds<'_>,
        bench: &mut StudyRuns<'_>,
    ) -> Result<(Vec<Calibrated>, Option<f64>), StudyError> {
        let own: Vec<&Calibration> = readings
            .calibrations
            .iter()
            .filter(|one| one.when.as_ref().is_none_or(|id| reading.has(id)))
            .collect();
        let (numbers, of_sizes): (Vec<&Calibration>, Vec<_>) =
            own.iter().copied().partition(|one| one.rule == Rule::Number);
        let mut run = |one: &Calibration, set: &[Calibrated]| {
            let Some(table) = self.table(&one.table) else { return Ok(Vec::new()) };
            let (table, mut changes) = reading.of(table)?;
            changes.extend(set.iter().filter(|one| one.is_of(&table)).map(|one| one.change.clone()));
            let rows = one.rows(&table);
            Ok::<_, StudyError>(logs(&table, &rows, &figures_of(&table, &rows, &changes, seeds, bench)?))
        };
        let start: Vec<f64> = numbers.iter().map(|one| one.log()).collect();
        let found = solve(start, |logs| {
            let texts: Vec<(String, f64)> =
                numbers.iter().zip(logs).map(|(one, log)| one.text(*log)).collect();
            let set = numbers.iter().zip(&texts).map(|(one, (text, _))| one.calibrated(text));
            let set = set.collect::<Result<Vec<_>, _>>()?;
            let mut off = Vec::new();
            for one in &numbers {
                let known: Vec<f64> = run(one, &set)?.into_iter().flatten().collect();
                off.push(interval::mean(&known));
            }
            Ok::<_, StudyError>((texts.into_iter().map(|(_, log)| log).collect(), off.into_iter().collect()))
        })?;
        let set = numbers.iter().zip(found).map(|(one, log)| one.calibrated(&one.text(log).0));
        let mut set = set.collect::<Result<Vec<_>, StudyError>>()?;
        for one in of_sizes {
            let targets: Vec<f64> = self
                .table(&one.table)
                .map_or(Vec::new(), |table| one.rows(table).iter().map(|row| row.value).collect());
            let found = fit(sizes(&one.start).unwrap_or_default(), &targets, |sizes| {
                let mut set = set.clone();
                set.push(one.calibrated(&as_text(sizes))?);
                Ok::<_, StudyError>(run(one, &set)?.into_iter().collect())
            })?;
            set.push(one.calibrated(&as_text(&found))?);
        }
        let mut squares = Vec::new();
        for one in own {
            squares.extend(run(one, &set)?.into_iter().flatten().map(|log| log * log));
        }
        Ok((set, interval::mean(&squares).map(f64::sqrt)))
    }
}

fn as_text(sizes: &[f64]) -> String {
    sizes.iter().map(|size| format!("{size:.0}B")).collect::<Vec<_>>().join(",")
}

/// The result of a trial: the logarithms of the rounded inputs, and for each input the mean error of the cells that
/// calibrate it. The errors are `None` if the runs give no value at all for the cells of an input.
type Trial = (Vec<f64>, Option<Vec<f64>>);

/// Searches, by Newton's method, for numbers for which all errors that `trial` returns are 0. Returns the numbers of
/// the trial with the smallest errors.
fn solve<E>(start: Vec<f64>, mut trial: impl FnMut(&[f64]) -> Result<Trial, E>) -> Result<Vec<f64>, E> {
    if start.is_empty() {
        return Ok(start);
    }
    // The error of a trial is the sum of the absolute errors of all cells. The sum shows an improvement of some cells
    // even if another cell cannot reach its published value.
    let size = |trial: &[f64]| trial.iter().map(|one| one.abs()).sum::<f64>();
    let (mut point, Some(mut errors)) = trial(&start)? else { return Ok(start) };
    let mut best = (size(&errors), point.clone());
    for _ in 0..STEPS {
        if errors.iter().all(|one| one.abs() < TOLERANCE) {
            break;
        }
        // Changes each calibrated number by a small step, and measures the effect on each cell.
        let mut rows: Vec<Vec<f64>> = vec![Vec::new(); point.len()];
        for coordinate in 0..point.len() {
            let mut probe = point.clone();
            probe[coordinate] += PROBE_STEP;
            let (probe, Some(probe_errors)) = trial(&probe)? else { return Ok(best.1) };
            let step = probe[coordinate] - point[coordinate];
            for (row, (probe_errors, errors)) in rows.iter_mut().zip(probe_errors.iter().zip(&errors)) {
                row.push(if step > 0.0 { (probe_errors - errors) / step } else { 0.0 });
            }
        }
        let Some(step) = steps(&rows, &errors) else { break };
        let next: Vec<f64> = point.iter().zip(step).map(|(point, step)| point + step).collect();
        let (next, Some(probe_errors)) = trial(&next)? else { break };
        if next == point {
            break;
        }
        (point, errors) = (next, probe_errors);
        if size(&errors) < best.0 {
            best = (size(&errors), point.clone());
        }
    }
    Ok(best.1)
}

/// Returns the change of each calibrated number in one step of Newton's method. `effects[i][j]` is the effect of number
/// `j` on the error `i`. A number that has no effect on its own error stays unchanged. Each change is limited. If one
/// change exceeds the limit, the other changes are computed again.
fn steps(effects: &[Vec<f64>], errors: &[f64]) -> Option<Vec<f64>> {
    let mut fixed: Vec<Option<f64>> =
        effects.iter().enumerate().map(|(at, row)| (row[at].abs() < FLAT).then_some(0.0)).collect();
    loop {
        let free: Vec<usize> = (0..errors.len()).filter(|at| fixed[*at].is_none()).collect();
        let rows = free.iter().map(|row| {
            let moved = fixed.iter().zip(&effects[*row]).filter_map(|(step, effect)| Some((*step)? * effect));
            let right = -errors[*row] - moved.sum::<f64>();
            free.iter().map(|column| effects[*row][*column]).chain([right]).collect()
        });
        let found = linear(rows.collect())?;
        let mut too_large = free.iter().zip(&found).filter(|(_, step)| step.abs() > MAX_STEP).peekable();
        if too_large.peek().is_none() {
            free.iter().zip(&found).for_each(|(at, step)| fixed[*at] = Some(*step));
            return fixed.into_iter().collect();
        }
        too_large.for_each(|(at, step)| fixed[*at] = Some(MAX_STEP.copysign(*step)));
    }
}

/// Solves a system of linear equations. The last column holds the right-hand sides. Returns `None` if there is no
/// unique solution.
fn linear(mut rows: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let n = rows.len();
    for column in 0..n {
        let pivot = (column..n).max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()))?;
        rows.swap(column, pivot);
        if rows[column][column].abs() < 1e-9 {
            return None;
        }
        let own = rows[column].clone();
        for (number, row) in rows.iter_mut().enumerate().filter(|(number, _)| *number != column) {
            debug_assert_ne!(number, column);
            let share = row[column] / own[column];
            row.iter_mut().zip(&own).for_each(|(one, own)| *one -= share * own);
        }
    }
    Some((0..n).map(|at| rows[at][n] / rows[at][at]).collect())
}

/// Finds the sizes in bytes of consecutive files such that the transfer of each file ends at its target time. The
/// closure `off` simulates transfers of files of the given sizes, and returns ln(simulated end time / target time) for
/// each file. The search varies the cumulative sizes, because the end time of a file depends on its own size and on the
/// sizes of all files before it.
fn fit<E>(
    start: Vec<f64>,
    targets: &[f64],
    mut off: impl FnMut(&[f64]) -> Result<Option<Vec<f64>>, E>,
) -> Result<Vec<f64>, E> {
    let mut ends: Vec<f64> = start
        .iter()
        .scan(0.0, |sum, size| {
            *sum += size;
            Some(*sum)
        })
        .collect();
    // The rate in bytes per second, between the end of the first file and the end of the last.
    let rate = match (ends.as_slice(), targets) {
        ([first, .., last], [begin, .., end]) if end > begin && ends.len() == targets.len() => {
            (last - first) / (end - begin)
        }
        _ => return Ok(start),
    };
    let mut between = vec![(0.0, f64::INFINITY); ends.len()];
    // The result of the previous trial for each file: the number of bytes up to the end of the file, and the simulated
    // time at which the file ended.
    let mut before: Vec<Option<(f64, f64)>> = vec![None; ends.len()];
    let mut best = (f64::INFINITY, start);
    for _ in 0..TRIALS {
        let sizes: Vec<f64> = std::iter::once(ends[0])
            .chain(ends.windows(2).map(|pair| pair[1] - pair[0]))
            .map(|size| size.round().max(1.0))
            .collect();
        let Some(now) = off(&sizes)?.filter(|now| now.len() == ends.len()) else { break };
        let error = now.iter().map(|one| one.abs()).sum::<f64>();
        if error < best.0 {
            best = (error, sizes);
        }
        if now.iter().all(|one| one.abs() < TOLERANCE) {
            break;
        }
        for at in 0..ends.len() {
            let (low, high) = &mut between[at];
            if now[at] <= 0.0 {
                *low = f64::max(*low, ends[at]);
            } else {
                *high = f64::min(*high, ends[at]);
            }
            let reached = targets[at] * now[at].exp();
            let slope = before[at].map(|(end, time)| (ends[at] - end) / (reached - time));
            let rate = slope.filter(|slope| slope.is_finite() && *slope > 0.0).unwrap_or(rate);
            before[at] = Some((ends[at], reached));
            let next = ends[at] + (targets[at] - reached) * rate;
            let inside = next > *low && next < *high;
            ends[at] = if inside {
                next
            } else if high.is_finite() {
                (*low + *high) / 2.0
            } else {
                ends[at]
            };
        }
        for at in 1..ends.len() {
            ends[at] = ends[at].max(ends[at - 1] + 1.0);
        }
    }
    Ok(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_where_their_cells_are_met() {
        // With the parameters x and y, the results of two cells are 1/x + 2/y and 4/x + 3/y. The targets of the cells
        // are 10 and 20. Both targets are met at x = 0.5 and y = 0.25.
        let off = |logs: &[f64]| {
            let (x, y) = (logs[0].exp(), logs[1].exp());
            let cells = [(1.0 / x + 2.0 / y) / 10.0, (4.0 / x + 3.0 / y) / 20.0];
            Ok::<_, ()>((logs.to_vec(), Some(cells.map(f64::ln).to_vec())))
        };
        let found = solve(vec![0.0, 0.0], off).expect("numbers");
        assert!((found[0].exp() - 0.5).abs() < 0.001 && (found[1].exp() - 0.25).abs() < 0.001, "{found:?}");
        // Here the second cell misses its target for every y. The value of x must still match the first cell to its
        // target.
        let off = |logs: &[f64]| {
            let (x, y) = (logs[0].exp(), logs[1].exp());
            Ok::<_, ()>((logs.to_vec(), Some(vec![(x / 0.5).ln() + 0.01 * y, 2.0 + 0.01 * logs[1].tanh()])))
        };
        let found = solve(vec![0.0, 0.0], off).expect("numbers");
        let (x, y) = (found[0].exp(), found[1].exp());
        assert!(((x / 0.5).ln() + 0.01 * y).abs() < 0.01, "{found:?}");
        // A parameter that does not affect its cell keeps its start value. So does a parameter whose cell has no
        // result.
        assert_eq!(solve(vec![1.0], |logs| Ok::<_, ()>((logs.to_vec(), Some(vec![0.3])))), Ok(vec![1.0]));
        assert_eq!(solve(vec![1.0], |logs| Ok::<_, ()>((logs.to_vec(), None))), Ok(vec![1.0]));
    }

    #[test]
    fn sizes_are_found_by_the_ends_of_their_files() {
        // The link waits one second, and then passes 1000 B/s. After the first 5000 B, the link waits one more second.
        let targets = [2.0, 4.0, 9.0];
        let ends = |sizes: &[f64]| {
            let mut sum = 0.0;
            let ends = sizes.iter().zip(targets).map(|(size, target): (&f64, f64)| {
                sum += size;
                let wait = if sum > 5000.0 { 2.0 } else { 1.0 };
                ((sum / 1000.0 + wait) / target).ln()
            });
            Ok::<_, ()>(Some(ends.collect::<Vec<_>>()))
        };
        let found = fit(vec![100.0, 100.0, 100.0], &targets, ends).expect("sizes");
        for (found, right) in found.iter().zip([1000.0, 2000.0, 4000.0]) {
            assert!((found - right).abs() < 10.0, "{found} for {right}");
        }
    }
}
