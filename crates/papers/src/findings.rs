//! The results of a study. They compare our values with the published values, and the order of contestants by our
//! values with their order by published values. They also say which claims hold, which causes explain deviations, and
//! which cells no cause explains.

use super::baseline::Baseline;
use super::bench::{StudyError, StudyRuns};
use super::cause::{CauseKind, CauseResult as CauseFound, Seeds};
use super::cell::{Evidence, PublishedCell};
use super::check::{self, Check, CheckResult, ComparisonContext, Outcome};
use super::claim::Claim;
use super::order::Orders;
use super::readings::Scores;
use super::readings::run::log_ratio;
use super::sensitivity::Sensitivity;
use super::table::{Size, Table};
use super::{Change, Study, figures::Figures};
use anabranch_results::stats::interval;
use std::collections::BTreeMap;

/// The results of a study: of its tables, claims and causes.
#[derive(Debug)]
pub struct Findings {
    /// The tables, in the order of the study.
    pub tables: Vec<TableResult>,
    /// The causes with their measured effects, in the order of the study.
    pub causes: Vec<CauseFound>,
    /// The claims with their outcomes, in the order of the study.
    pub claims: Vec<(Claim, CheckResult)>,
    /// The scores of the readings (interpretations of the paper); `None` if the readings were not scored.
    pub scores: Option<Scores>,
    /// The sensitivity to assumptions; `None` if it was not analysed.
    pub sensitivity: Option<Sensitivity>,
    /// Whether the user ran the study with changed assumptions.
    pub changed: bool,
}

/// A table of a study, with our values for its cells.
#[derive(Debug)]
pub struct TableResult {
    /// The name of the table of the study.
    pub name: String,
    /// The published values of the table, each with the simulated value; empty if the paper publishes no values.
    pub cells: Vec<PublishedCell>,
    /// The published orders of contestants, compared with our orders.
    pub orders: Orders,
    /// The values that simple models predict for the cells of the table; empty if the paper publishes none of the
    /// cells.
    pub baselines: Vec<Baseline>,
    /// The causes whose change was applied to all points of the table. Each entry has the identifier of the cause, and
    /// the effect of its change on the cells.
    pub whole_table_effects: Vec<(String, WholeTableEffect)>,
    /// The measured numbers of all runs of the table.
    pub figures: Figures,
}

/// The effect of a changed assumption (a cause) on all cells of a table. It includes the cells that the change moves
/// away from the published values.
#[derive(Clone, PartialEq, Debug)]
pub struct WholeTableEffect {
    /// The number of cells that the change brings near the published value: without the change they differ from it.
    pub newly_near: usize,
    /// The labels of the cells that the change moves away from the published value: without the change they are near
    /// it. Calibrated cells are left out.
    pub no_longer_near: Vec<String>,
    /// The root mean square of ln(ours/published): first without the change, then with it. Only the cells that are
    /// evidence about the transports count.
    pub errors: [f64; 2],
}

impl WholeTableEffect {
    /// Describes in a few words how the change affects the other cells of the table: the number of cells that are no
    /// longer near the published value, and the error without and with the change.
    #[must_use]
    pub fn describe_other_cells(&self) -> String {
        let error = if self.errors[1] > self.errors[0] { "the error rises" } else { "the error falls" };
        let [was, is] = self.errors.map(|error| format!("x{:.2}", error.exp()));
        let cells = match self.no_longer_near.len() {
            0 => "takes no cell away from print".to_owned(),
            1 => "takes 1 cell away from print".to_owned(),
            several => format!("takes {several} cells away from print"),
        };
        format!("{cells}; {error} from {was} to {is}")
    }
}

impl TableResult {
    /// Returns the cells whose value in our runs differs from the published value. Cells that were used for calibration
    /// are left out.
    #[must_use]
    pub fn mismatches(&self) -> Vec<&PublishedCell> {
        self.cells.iter().filter(|cell| cell.evidence != Evidence::Calibrated && cell.is_off()).collect()
    }

    /// Returns the number of cells that differ from the published value and that no cause explains.
    #[must_use]
    pub fn unexplained(&self) -> usize {
        self.mismatches().iter().filter(|cell| cell.explained.is_empty()).count()
    }

    /// Returns the number of explained cells that are explained only by causes with a price. A cause has a price if its
    /// change moves at least one other cell of the table away from the published value.
    #[must_use]
    pub fn explained_at_a_price(&self) -> usize {
        let has_price = |id: &String| {
            self.whole_table_effects
                .iter()
                .any(|(known, effect)| known == id && !effect.no_longer_near.is_empty())
        };
        let off = self.mismatches();
        let explained = off.iter().filter(|cell| !cell.explained.is_empty());
        explained.filter(|cell| cell.explained.iter().all(has_price)).count()
    }
}

impl Findings {
    /// Returns whether every cause has the expected result.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.causes.iter().all(CauseFound::is_met)
    }
}

impl Study {
    /// Runs the plans of the study's tables, and then the plans with the changes of the study's causes. Decides the
    /// study's claims from the results.
    ///
    /// # Errors
    /// [`StudyError`] if a plan cannot be run, or cannot be changed as requested.
    pub fn run(
        &self,
        size: Size,
        seeds: &Seeds<'_>,
        bench: &mut StudyRuns<'_>,
    ) -> Result<Findings, StudyError> {
        let mut tables = Vec::new();
        for table in &self.tables {
            let baselines = Baseline::all(table, seeds)?;
            let found = run_table(table, &Seeds { runs: size.of(table), ..*seeds }, bench)?;
            tables.push(TableResult { baselines, ..found });
        }
        let mut causes = Vec::new();
        for cause in &self.causes {
            let (table, own) = self
                .table(&cause.table)
                .zip(tables.iter_mut().find(|t| t.name == cause.table))
                .ok_or_else(|| format!("causes.toml: {}: no table '{}'", cause.id, cause.table))?;
            let seeds = Seeds { runs: size.of(table), ..*seeds };
            let result = cause.run(table, &seeds, bench)?;
            if cause.explains && !cause.planted {
                let is_another = |second: &&super::CauseDefinition| {
                    second.explains && !second.planted && second.table == cause.table
                };
                let tried = self.causes.iter().filter(is_another).count();
                let effect = explain(cause, table, own, tried, &seeds, bench)?;
                own.whole_table_effects.push((cause.id.clone(), effect));
            }
            causes.push(result);
        }
        let set: Vec<String> = seeds.changes.iter().filter_map(Change::factor).collect();
        let mut claims = Vec::new();
        for claim in &self.claims {
            let found = self.decide(claim, &tables, &causes, &set)?;
            claims.push((claim.clone(), found));
        }
        let changed = !seeds.changes.is_empty();
        Ok(Findings { tables, causes, claims, scores: None, sensitivity: None, changed })
    }

    /// Decides a claim from the results. `set` names the plan keys that the user overrode for all tables.
    fn decide(
        &self,
        claim: &Claim,
        tables: &[TableResult],
        causes: &[CauseFound],
        set: &[String],
    ) -> Result<CheckResult, String> {
        let wrong = |message: String| format!("claims.csv: {}: {message}", claim.id);
        let each = claim.readings.iter().map(|reading| {
            let found = self.decide_all(&reading.checks, tables, causes, set).map_err(wrong)?;
            Ok((reading.name.as_str(), found))
        });
        let each = each.collect::<Result<Vec<_>, String>>()?;
        check::of_readings(each).ok_or_else(|| wrong("nothing decides it".to_owned()))
    }

    /// Decides several checks of a claim, all of which must hold.
    fn decide_all(
        &self,
        checks: &[Check],
        tables: &[TableResult],
        causes: &[CauseFound],
        set: &[String],
    ) -> Result<CheckResult, String> {
        let own = |table: &str| {
            let found = tables.iter().find(|found| found.name == table).zip(self.table(table));
            found.ok_or_else(|| format!("no table '{table}'"))
        };
        let by = |own: &TableResult, table: &Table, comparisons| ComparisonContext {
            metric: table.definition.metric,
            means: table.definition.averaged > 1,
            cases: table.cases(&own.figures),
            comparisons,
        };
        // A claim fails if one of many comparisons fails, so the permitted probability of an error is divided among the
        // comparisons.
        let mut comparisons = 0;
        for check in checks {
            let Check::Table { table, relation, at } = check else { continue };
            let (found, table) = own(table)?;
            comparisons += relation.comparisons(&found.figures, at, by(found, table, 1));
        }
        let (mut all, mut features_decided): (Option<CheckResult>, _) = (None, false);
        for check in checks {
            let one = match check {
                // The claim refers to a key that `--set` fixed at one value in all tables. The levels that the claim
                // needs were not run.
                Check::Table { relation, at, .. } if relation.names_of(at, set).is_some() => {
                    let key = relation.names_of(at, set).unwrap_or_default();
                    CheckResult {
                        outcome: Outcome::Undetermined,
                        description: format!("no such point: {key} was set"),
                    }
                }
                Check::Table { table, relation, at } => {
                    let (found, table) = own(table)?;
                    relation.decide(&found.figures, at, by(found, table, comparisons.max(1)))
                }
                Check::Cause(id) => {
                    let cause = causes
                        .iter()
                        .find(|found| found.cause.id == *id)
                        .ok_or_else(|| format!("no cause '{id}'"))?;
                    let outcome = if cause.holds { Outcome::Holds } else { Outcome::Fails };
                    CheckResult { outcome, description: cause.sentence() }
                }
                Check::Prediction(table) => {
                    if self.table(table).is_none() {
                        return Err(format!("no table '{table}'"));
                    }
                    CheckResult {
                        outcome: Outcome::Prediction,
                        description: format!("table {table} is ours"),
                    }
                }
                Check::Undecidable(why) => {
                    CheckResult { outcome: Outcome::Undecidable, description: why.clone() }
                }
                Check::Feature { .. } if features_decided => continue,
                Check::Feature { .. } => {
                    features_decided = true;
                    features(checks)?
                }
            };
            all = Some(match all {
                None => one,
                Some(before) if one.outcome > before.outcome => one,
                Some(before) => before,
            });
        }
        all.ok_or_else(|| "nothing decides it".to_owned())
    }
}

/// Runs the experiments behind a table of a paper, and compares the results with the published values.
fn run_table(table: &Table, seeds: &Seeds<'_>, bench: &mut StudyRuns<'_>) -> Result<TableResult, StudyError> {
    let draft = seeds.draft(table, &[])?;
    let table_points = table.table_points(&draft, &BTreeMap::new(), None, seeds.transports)?;
    let figures = bench.figures(&table_points, table.definition.heads)?;
    let rows = table.rows();
    let cells: Vec<PublishedCell> = rows.map(|row| PublishedCell::measure(table, row, &figures)).collect();
    let orders = Orders::of(table, &cells);
    let (name, baselines, over) = (table.name.clone(), Vec::new(), Vec::new());
    Ok(TableResult { name, cells, orders, baselines, whole_table_effects: over, figures })
}

/// Runs all points of the table with the change of `cause`. Records which cells the change brings near their published
/// value, and which cells it moves away from their published value. `tried` is the number of causes that are tested for
/// each cell that differs from its published value. The intervals are widened for the number of all tests: `tried`
/// tests of each of these cells.
fn explain(
    cause: &super::CauseDefinition,
    table: &Table,
    own: &mut TableResult,
    tried: usize,
    seeds: &Seeds<'_>,
    bench: &mut StudyRuns<'_>,
) -> Result<WholeTableEffect, StudyError> {
    let all = seeds.changes_of(table, &cause.changes()?);
    let changed = run_table(table, &Seeds { changes: &all, ..*seeds }, bench)?;
    let error = |cells: &[PublishedCell]| {
        let evidence = cells.iter().filter(|cell| cell.evidence == Evidence::Transport);
        let squares: Vec<f64> = evidence.map(|cell| log_ratio(cell).powi(2)).collect();
        interval::mean(&squares).map_or(0.0, f64::sqrt)
    };
    let mut effect = WholeTableEffect {
        newly_near: 0,
        no_longer_near: Vec::new(),
        errors: [error(&own.cells), error(&changed.cells)],
    };
    let tries = tried * own.mismatches().len();
    for cell in own.cells.iter_mut().filter(|cell| cell.evidence != Evidence::Calibrated) {
        let Some(changed_cell) = changed.cells.iter().find(|changed_cell| changed_cell.labels == cell.labels)
        else {
            continue;
        };
        if cell.is_near() && changed_cell.is_off() {
            let labels: Vec<&str> = cell.labels.values().map(String::as_str).collect();
            effect.no_longer_near.push(labels.join(" "));
        }
        if cell.is_off() && changed_cell.is_near_among(tries) {
            effect.newly_near += 1;
            let list = match cause.kind() {
                CauseKind::Finding => &mut cell.explained,
                CauseKind::Exploratory => &mut cell.exploratory_causes,
                CauseKind::Counterfactual | CauseKind::Planted => &mut cell.counterfactual_causes,
            };
            list.push(cause.id.clone());
        }
    }
    Ok(effect)
}

/// Compares the feature table with all words that the checks expect in its cells. A column `TRANSPORT/PROFILE` is a
/// transport with the settings of a profile.
fn features(checks: &[Check]) -> Result<CheckResult, String> {
    let (mut rows, mut cells, mut wrong) = (Vec::new(), 0, Vec::new());
    for check in checks {
        let Check::Feature { row, words } = check else { continue };
        rows.push(row.as_str());
        let line =
            words.iter().any(|(column, _)| !column.contains('/')).then(|| anabranch_features::line(row));
        let line = line.transpose()?;
        for (column, word) in words {
            cells += 1;
            let verdict = match (column.split_once('/'), &line) {
                (Some((transport, profile)), _) => {
                    anabranch_features::with_profile(row, transport, profile)?.verdict
                }
                (None, Some(line)) => verdict_of(line, column)?,
                _ => return Err(format!("no column '{column}'")),
            };
            if verdict.name() != word {
                wrong.push(format!("{row}: {column}: {}", verdict.name()));
            }
        }
    }
    let (right, rows) = (cells - wrong.len(), rows.join("; "));
    let counted = if cells > 1 { format!("{right} of {cells} cells; ") } else { String::new() };
    Ok(match wrong.is_empty() {
        true => CheckResult { outcome: Outcome::Holds, description: format!("features: {counted}{rows}") },
        false => CheckResult {
            outcome: Outcome::Fails,
            description: format!("features: {counted}{}", wrong.join("; ")),
        },
    })
}

/// Returns the word that the feature table has in this row and column.
fn verdict_of(
    line: &anabranch_features::Line,
    column: &str,
) -> Result<anabranch_features::FeatureVerdict, String> {
    let cell = line.cells.iter().find(|cell| cell.transport.eq_ignore_ascii_case(column));
    Ok(cell.ok_or_else(|| format!("no column '{column}'"))?.cell.verdict)
}
