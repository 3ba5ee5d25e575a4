//! Sensitivity analysis of a study. Each assumption is changed alone, and all assumptions are changed at once.
//!
//! `[[vary]]` of `study.toml` names an assumption, and its range or its alternatives. An assumption that is changed
//! alone takes one end of its range and then the other end, or each alternative in turn. When all assumptions are
//! changed at once, they take the values of a Latin hypercube of [`POINTS`] points, log-uniform within the ranges.
//!
//! The analysis covers the tables that the study names (`vary-tables`), by default only the first table. It tests the
//! findings about these tables, and the orders of contestants in these tables. An order or finding is fragile if it
//! holds at less than the share [`FRAGILE`] of the hypercube's points.

use super::bench::{StudyError, StudyRuns};
use super::cause::Seeds;
use super::cell::{Evidence, PublishedCell};
use super::change::Change;
use super::order::Orders;
use super::printed::Row;
use super::readings::run::{figures, log_ratio};
use super::table::covers;
use super::{CauseDefinition, Study, Table};
use anabranch_base::Rng;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The number of points of the Latin hypercube, a sample in which all assumptions are changed at once.
pub const POINTS: usize = 64;
/// The number of seeds with which each point of the hypercube is run.
pub const SEEDS: u64 = 10;
/// An order of contestants or a finding is fragile if it holds at less than this share of the points of the hypercube.
pub const FRAGILE: f64 = 0.8;

/// One `[[vary]]` entry of `study.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vary {
    /// The key that is changed, as in `--set`, without the value. For example, `rtt` or `tcp-reno:iw`.
    pub key: String,
    /// If the value of the key is a number: the smallest and the largest value that are tried.
    pub between: Option<[String; 2]>,
    /// The alternative values, without the plan's own value.
    #[serde(default)]
    pub or: Vec<String>,
    /// The tables in which the key is changed; if absent, the key is changed in all tables.
    pub tables: Option<Vec<String>>,
}

/// How often an order of contestants or a finding still holds when assumptions are changed.
#[derive(Clone, PartialEq, Debug)]
pub struct Robustness {
    /// The name of the order of contestants, or of the finding.
    pub name: String,
    /// The changed assumptions, each tested alone, with which the order or finding does not hold.
    pub broken_by: Vec<String>,
    /// The number of hypercube points at which the order or finding holds, and the number of points with enough runs to
    /// decide whether it holds.
    pub joint: (usize, usize),
}

impl Robustness {
    /// Returns whether the order or finding holds at too few hypercube points: at a share below [`FRAGILE`]. Points
    /// with too few runs to decide whether it holds are not counted.
    #[must_use]
    pub fn is_fragile(&self) -> bool {
        (self.joint.0 as f64) < FRAGILE * self.joint.1 as f64
    }
}

/// The result of a sensitivity analysis.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Sensitivity {
    /// The digest of everything that determines the result.
    pub digest: String,
    /// Each single change, with the error of the cells after the change: the root of the mean square of
    /// ln(ours/published).
    pub alone: Vec<(String, Option<f64>)>,
    /// The minimum, median and maximum error of the points of the hypercube. At each point, all assumptions are changed
    /// at once. The error of a point is one number for the cells of all tables together, computed as in `alone`.
    pub joint_error: Option<[f64; 3]>,
    /// The robustness of each order of contestants in the tables, and of each finding about the tables.
    pub robustness: Vec<Robustness>,
}

impl Vary {
    /// Returns the first error in this `[[vary]]` entry, if any.
    #[must_use]
    pub fn wrong(&self) -> Option<String> {
        match (&self.between, self.or.as_slice()) {
            (Some(ends), []) => match number(&ends[0]).zip(number(&ends[1])) {
                Some(((low, unit), (high, other))) if unit == other && 0.0 < low && low < high => None,
                _ => Some("between: two numbers above 0 of one unit are needed, the lower first".to_owned()),
            },
            (None, [_, ..]) => None,
            _ => Some("one of 'between' and 'or' is needed".to_owned()),
        }
        .or_else(|| Change::parse(&format!("{}=1", self.key)).err())
    }

    /// Returns the values that the analysis tries when it changes only this assumption.
    fn tried_values(&self) -> Vec<String> {
        self.between.iter().flatten().chain(&self.or).cloned().collect()
    }

    /// Returns the value of the assumption at the position `share`: 0 is the start of the range, and 1 is its end. If
    /// the assumption has a list of alternatives instead, 0 is the first of them, and 1 is the plan's own value.
    /// Returns `None` for the plan's own value.
    fn at(&self, share: f64) -> Option<String> {
        match &self.between {
            Some([low, high]) => {
                let ((low, unit), (high, _)) = (number(low)?, number(high)?);
                let value = low * (high / low).powf(share);
                // Bytes, packets, counts and nanoseconds are rounded to whole numbers, other values to three decimals.
                let whole = unit == "ns" || (!unit.contains(['s', '%']) && value >= 2.0);
                Some(if whole { format!("{value:.0}{unit}") } else { format!("{value:.3}{unit}") })
            }
            // The plan's own value, `None`, counts as one more alternative after those in `or`.
            None => self.or.get(((self.or.len() + 1) as f64 * share) as usize).cloned(),
        }
    }

    fn change(&self, value: &str) -> Result<Change, StudyError> {
        Ok(Change::parse(&format!("{}={value}", self.key))?)
    }
}

/// Splits a text into a number and its unit.
pub(super) fn number(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    Some((number.parse().ok()?, unit))
}

/// Returns the points of a Latin hypercube. Each point has `dimensions` coordinates from 0 to 1. In each dimension,
/// this range is divided into `points` equal intervals. Each interval holds the coordinate of exactly one point.
fn hypercube(dimensions: usize, points: usize) -> Vec<Vec<f64>> {
    let mut rng = Rng::new(1).fork("hypercube");
    let columns: Vec<Vec<f64>> = (0..dimensions)
        .map(|_| {
            let mut cells: Vec<usize> = (0..points).collect();
            rng.shuffle(&mut cells);
            let within = |cell: usize, rng: &mut Rng| {
                (cell as f64 + rng.below(1_000) as f64 / 1_000.0) / points as f64
            };
            cells.into_iter().map(|cell| within(cell, &mut rng)).collect()
        })
        .collect();
    (0..points).map(|point| columns.iter().map(|column| column[point]).collect()).collect()
}

impl Study {
    /// Runs the plans of the tables, and these tables' experiments on causes. Each assumption is changed alone, and
    /// then all assumptions are changed at once.
    ///
    /// # Errors
    /// [`StudyError`] if a plan cannot be run, or cannot be changed as requested.
    pub fn sensitivity(
        &self,
        seeds: &Seeds<'_>,
        bench: &mut StudyRuns<'_>,
    ) -> Result<Sensitivity, StudyError> {
        let without = &self.definition.vary_without;
        let tables: Vec<Varied<'_>> = self
            .definition
            .varied()
            .into_iter()
            .filter_map(|name| self.table(name))
            .map(|table| {
                let looked_at = |row: &&Row| !covers(without, &row.labels);
                let printed = table.rows();
                let is_of = |cause: &&CauseDefinition| {
                    cause.table == table.name && !cause.planted && !cause.exploratory
                };
                Varied {
                    table,
                    rows: printed.filter(looked_at).collect(),
                    causes: self
                        .causes
                        .iter()
                        .filter(is_of)
                        .filter(|cause| !covers(without, &cause.at))
                        .collect(),
                }
            })
            .collect();
        let mut run = |changes: &[(&Vary, Change)]| {
            let (mut squares, mut outcomes) = (Vec::new(), Vec::new());
            for varied in &tables {
                let is_of = |(vary, _): &&(&Vary, Change)| {
                    let of = vary.tables.as_ref();
                    of.is_none_or(|names| names.contains(&varied.table.name))
                };
                let own: Vec<Change> =
                    changes.iter().filter(is_of).map(|(_, change)| change.clone()).collect();
                let (errors, own) = varied.outcomes(&own, tables.len() > 1, seeds, bench)?;
                squares.extend(errors);
                outcomes.extend(own);
            }
            Ok::<_, StudyError>((anabranch_results::stats::interval::mean(&squares).map(f64::sqrt), outcomes))
        };
        let mut robustness: BTreeMap<String, Robustness> = BTreeMap::new();
        let mut result =
            Sensitivity { digest: self.stored_scores.sensitivity_digest.clone(), ..Sensitivity::default() };
        for vary in &self.definition.vary {
            for value in vary.tried_values() {
                let change = vary.change(&value)?;
                let (error, outcomes) = run(&[(vary, change.clone())])?;
                result.alone.push((change.to_string(), error));
                for (name, holds) in outcomes {
                    let one = entry(&mut robustness, name);
                    if holds == Some(false) {
                        one.broken_by.push(change.to_string());
                    }
                }
            }
        }
        let mut errors = Vec::new();
        for shares in hypercube(self.definition.vary.len(), POINTS) {
            let changes = self.definition.vary.iter().zip(shares).filter_map(|(vary, share)| {
                vary.at(share).map(|value| Ok::<_, StudyError>((vary, vary.change(&value)?)))
            });
            let changes = changes.collect::<Result<Vec<_>, _>>()?;
            let (error, outcomes) = run(&changes)?;
            errors.extend(error);
            for (name, holds) in outcomes {
                let one = entry(&mut robustness, name);
                if let Some(holds) = holds {
                    one.joint = (one.joint.0 + usize::from(holds), one.joint.1 + 1);
                }
            }
        }
        errors.sort_by(f64::total_cmp);
        result.joint_error =
            errors.first().zip(errors.last()).map(|(least, most)| [*least, errors[errors.len() / 2], *most]);
        result.robustness = robustness.into_values().collect();
        Ok(result)
    }
}

fn entry(robustness: &mut BTreeMap<String, Robustness>, name: String) -> &mut Robustness {
    let new = || Robustness { name: name.clone(), broken_by: Vec::new(), joint: (0, 0) };
    robustness.entry(name.clone()).or_insert_with(new)
}

/// The name of each order or finding, and whether it holds. `None` means that the runs do not decide it.
type Outcomes = Vec<(String, Option<bool>)>;

/// A table, and those of its published rows and causes that are evaluated after each change of assumptions.
struct Varied<'a> {
    table: &'a Table,
    rows: Vec<&'a Row>,
    causes: Vec<&'a CauseDefinition>,
}

impl Varied<'_> {
    /// Runs the table with `changes`. Returns the squared errors of its cells, and the outcomes (the orders of
    /// contestants, and the findings). If `named` is set, the names of the orders include the name of the table.
    fn outcomes(
        &self,
        changes: &[Change],
        named: bool,
        seeds: &Seeds<'_>,
        bench: &mut StudyRuns<'_>,
    ) -> Result<(Vec<f64>, Outcomes), StudyError> {
        let table = self.table;
        let all = seeds.changes_of(table, changes);
        let seeds = Seeds { runs: table.definition.enumerated.unwrap_or(SEEDS), changes: &all, ..*seeds };
        let figures = figures(table, &self.rows, &[], &seeds, bench)?;
        let cells: Vec<PublishedCell> =
            self.rows.iter().map(|row| PublishedCell::measure(table, row, &figures)).collect();
        let mut outcomes = orders(&Orders::of(table, &cells), if named { &table.name } else { "" });
        for cause in &self.causes {
            // Runs the cause only at the point that its `at` selects, because its effect on other cells is not
            // analysed.
            let alone = CauseDefinition { explains: false, chart: None, ..(*cause).clone() };
            let found = alone.run(table, &seeds, bench)?;
            outcomes.push((format!("finding {}", cause.id), found.effect.map(|_| found.holds)));
        }
        let is_evidence = |cell: &&PublishedCell| cell.evidence == Evidence::Transport;
        Ok((cells.iter().filter(is_evidence).map(|cell| log_ratio(cell).powi(2)).collect(), outcomes))
    }
}

/// Returns the name of each published order of a table's contestants, and whether our values have the same order.
fn orders(found: &Orders, table: &str) -> Outcomes {
    let of = |(pair, levels): &(String, BTreeMap<String, String>)| {
        let levels: Vec<&str> = levels.values().map(String::as_str).collect();
        let at = if levels.is_empty() { String::new() } else { format!(" at {}", levels.join("/")) };
        let table = if table.is_empty() { String::new() } else { format!(" of {table}") };
        format!("order of {pair}{at}{table}")
    };
    let preserved = found.preserved.iter().map(|one| (of(one), Some(true)));
    preserved.chain(found.missed.iter().map(|one| (of(one), Some(false)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vary(between: Option<[&str; 2]>, or: &[&str]) -> Vary {
        Vary {
            key: "rtt".to_owned(),
            between: between.map(|ends| ends.map(str::to_owned)),
            or: or.iter().map(|text| (*text).to_owned()).collect(),
            tables: None,
        }
    }

    #[test]
    fn values_lie_between_their_ends_by_logarithms() {
        let rtt = vary(Some(["40ms", "160ms"]), &[]);
        assert_eq!(
            [0.0, 0.5, 1.0].map(|share| rtt.at(share)),
            ["40.000ms", "80.000ms", "160.000ms"].map(|t| Some(t.to_owned()))
        );
        let size = vary(Some(["10kB", "1000kB"]), &[]);
        assert_eq!(size.at(0.5).as_deref(), Some("100kB"));
        let choice = vary(None, &["b", "c"]);
        assert_eq!(
            [0.1, 0.5, 0.9].map(|share| choice.at(share)),
            [Some("b".to_owned()), Some("c".to_owned()), None]
        );
    }

    #[test]
    fn what_is_wrong_is_told() {
        assert_eq!(vary(Some(["40ms", "160ms"]), &[]).wrong(), None);
        assert_eq!(vary(None, &["1"]).wrong(), None);
        for wrong in [
            vary(None, &[]),
            vary(Some(["40ms", "1s"]), &[]),
            vary(Some(["2", "1"]), &[]),
            vary(Some(["1", "2"]), &["3"]),
        ] {
            assert!(wrong.wrong().is_some(), "{wrong:?}");
        }
    }

    #[test]
    fn a_latin_hypercube_samples_each_interval_once() {
        let cube = hypercube(3, 64);
        for dimension in 0..3 {
            let mut parts: Vec<usize> = cube.iter().map(|point| (point[dimension] * 64.0) as usize).collect();
            parts.sort_unstable();
            assert_eq!(parts, (0..64).collect::<Vec<_>>());
        }
        assert_eq!(cube, hypercube(3, 64), "the same each time");
    }
}
