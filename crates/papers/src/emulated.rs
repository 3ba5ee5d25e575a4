//! Emulated results of a study: the protocols of the host's operating system run over an emulation of the study's
//! network. The results are shown beside the published values and our simulated values, but get no verdict.
//!
//! `emulated.toml` in the folder of a study lists the tables with emulated results, and the plan keys that replace
//! those of the table. This module reads that file, builds the plans, and renders the columns. The caller runs the
//! plans, because they take real time on the host.

use super::bench::{StudyError, StudyRuns};
use super::cause::Seeds;
use super::figures::{Figures, Point};
use super::{Change, Study, Table};
use anabranch_lab::plan::{Draft, Plan};
use anabranch_results::csv::{of_rows, optional};
use anabranch_results::{Race, label};
use anabranch_transports::Transports;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::rc::Rc;

/// A table of the study that is also run in the emulated network, with the protocols of the host.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Emulated {
    /// The name of the table.
    pub of: String,
    /// The name of a contestant of the table. The output shows this contestant's published and simulated values for
    /// comparison.
    pub beside: String,
    /// The number of emulated runs per cell.
    pub runs: u64,
    /// A sentence about conditions that hold in the emulated runs but are not in the plan, and about differences
    /// between the emulated and the simulated runs.
    pub says: String,
    /// Changes that give our simulated runs the same settings as the emulated runs.
    #[serde(default)]
    pub change: Vec<String>,
    /// Plan keys that replace those of the table's plan.
    pub plan: toml::Table,
}

/// The results for one cell of a table whose plan also runs in the emulated network.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// The labels of the cell, by column.
    pub labels: BTreeMap<String, String>,
    /// The published value; `None` if the paper has no value for this cell.
    pub published: Option<f64>,
    /// The mean of our simulated runs; `None` if there is none.
    pub simulated: Option<f64>,
    /// For each emulated contestant, in the order of the plan, the values of its runs.
    pub emulated: Vec<Vec<f64>>,
}

/// The emulated results for all cells of a table.
#[derive(Debug)]
pub struct EmulatedTable {
    /// The name of the table.
    pub table: String,
    /// The unit of the values.
    pub unit: String,
    /// The contestant whose published and simulated values are shown beside the emulated values.
    pub beside: String,
    /// The contestants in the emulated network, in the syntax of `--transport`.
    pub contestants: Vec<String>,
    /// The conditions of the emulated runs: kernel, settings, and differences from the simulated runs.
    pub says: String,
    /// The cells, in the order of the plan.
    pub rows: Vec<Row>,
}

/// The content of an `emulated.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "table")]
    tables: Vec<Emulated>,
}

/// Reads the text of an `emulated.toml`.
///
/// # Errors
/// A one-line message with the error and its location.
pub fn parse(text: &str) -> Result<Vec<Emulated>, String> {
    Ok(super::from_toml::<File>("emulated.toml", text)?.tables)
}

/// Returns the message that the program prints for a study without emulated results.
#[must_use]
pub fn none(study: &Study) -> String {
    format!("study {}: it has no emulated side; it runs in the virtual world", study.definition.name)
}

impl Emulated {
    /// Returns the complete plan of the emulated runs. If `runs` is given, it replaces the number of runs in
    /// `emulated.toml`.
    ///
    /// # Errors
    /// A one-line message if the table does not exist or the plan is wrong.
    pub fn plan(
        &self,
        study: &Study,
        runs: Option<u64>,
        seed: u64,
        transports: &Transports,
    ) -> Result<Plan, String> {
        let mut table = self.table(study)?.clone();
        table.definition.plan.extend(self.plan.clone());
        table.definition.plan.insert("world".to_owned(), "emulated".into());
        let draft: Draft = table.draft(runs.unwrap_or(self.runs), seed, &[])?;
        Plan::interpret(draft, transports).map_err(|error| format!("emulated.toml: {}: {error}", self.of))
    }

    /// Checks that the study has the table, and the contestant whose values are shown for comparison.
    pub(super) fn check(&self, study: &Study) -> Result<(), String> {
        self.table(study).map(drop)
    }

    fn table<'a>(&self, study: &'a Study) -> Result<&'a Table, String> {
        let table = study.table(&self.of).ok_or_else(|| format!("emulated.toml: no table '{}'", self.of))?;
        match table.names().contains(&self.beside) {
            true => Ok(table),
            false => Err(format!("emulated.toml: {}: no contestant '{}'", self.of, self.beside)),
        }
    }

    /// Combines emulated results with the published values and with our simulated values. Runs the simulations that are
    /// needed.
    ///
    /// # Errors
    /// [`StudyError`] if the simulations fail.
    pub fn emulated_table(
        &self,
        study: &Study,
        race: &Race,
        seeds: &Seeds<'_>,
        bench: &mut StudyRuns<'_>,
    ) -> Result<EmulatedTable, StudyError> {
        let table = self.table(study)?;
        let simulated = self.simulate(table, seeds, bench)?;
        Ok(self.columns(table, race, &simulated))
    }

    /// Simulates the table and returns our values. All contestants of the plan run, also those that are not compared,
    /// because some plan keys apply only to them.
    fn simulate(
        &self,
        table: &Table,
        seeds: &Seeds<'_>,
        bench: &mut StudyRuns<'_>,
    ) -> Result<Figures, StudyError> {
        let changes = self.change.iter().map(|text| Change::parse(text)).collect::<Result<Vec<_>, _>>();
        let changes = changes.map_err(|error| format!("emulated.toml: {}: {error}", self.of))?;
        let draft = table.draft(seeds.runs, seeds.first, &changes);
        let table_points =
            draft.and_then(|draft| table.table_points(&draft, &BTreeMap::new(), None, seeds.transports));
        bench.figures(&table_points?, table.definition.heads)
    }

    fn columns(&self, table: &Table, race: &Race, simulated: &Figures) -> EmulatedTable {
        let definition = &table.definition;
        let first = race.points.first();
        let contestants: Vec<_> =
            first.iter().flat_map(|point| &point.contestants).map(|c| c.name.clone()).collect();
        // Each point has one row, or one row per object if the metric describes objects.
        let points_and_objects = race.points.iter().flat_map(|point| {
            let emulated_point =
                Point::of_contestants(point.factors.clone(), &point.contestants, definition.heads);
            let emulated_point = Rc::new(emulated_point);
            let first = emulated_point.contestants.values().next().and_then(|runs| runs.first());
            let objects: Vec<Option<usize>> = match definition.metric.is_of_objects() {
                true => (1..=first.map_or(0, |run| run.objects())).map(Some).collect(),
                false => vec![None],
            };
            objects.into_iter().map(move |object| (Rc::clone(&emulated_point), object))
        });
        let rows = points_and_objects.map(|(emulated_point, object)| {
            let mut labels = emulated_point.factors.clone();
            labels.extend(object.map(|number| ("object".to_owned(), number.to_string())));
            let values = |text: &String| emulated_point.values(label::shown(text), definition.metric, object);
            let printed = table.rows().find(|row| {
                row.contestant() == self.beside
                    && labels.iter().all(|(key, level)| row.labels.get(key).is_none_or(|own| own == level))
            });
            let virtual_time =
                simulated.at(&labels).map(|own| own.values(&self.beside, definition.metric, object));
            Row {
                published: printed.map(|row| row.value),
                simulated: virtual_time.as_deref().and_then(mean),
                emulated: contestants.iter().map(values).collect(),
                labels,
            }
        });
        let rows = rows.collect();
        let settings = first.iter().flat_map(|point| &point.contestants).map(|contestant| {
            let of = |key: &str| contestant.settings.get(key).map(|value| format!("{key} {value}"));
            let list: Vec<_> =
                ["profile", "cc", "iw", "rto_min", "delack"].into_iter().filter_map(of).collect();
            format!("{}: {}", label::shown(&contestant.name), list.join(", "))
        });
        let settings: Vec<_> = settings.collect();
        let kernel = race.host.kernel.as_deref().unwrap_or("no kernel's name");
        let simulated = match self.change.is_empty() {
            true => String::new(),
            false => format!("ours with {}; ", self.change.join(" ")),
        };
        let says = format!(
            "{kernel}; {}; {} runs; {simulated}{}",
            settings.join("; "),
            self.runs_of(race),
            self.says
        );
        EmulatedTable {
            table: self.of.clone(),
            unit: definition.unit.clone(),
            beside: self.beside.clone(),
            contestants,
            says,
            rows,
        }
    }

    fn runs_of(&self, race: &Race) -> usize {
        let first = race.points.first().and_then(|point| point.contestants.first());
        first.map_or(0, |contestant| contestant.runs.len())
    }
}

/// Renders the emulated results of a study as text: published values, simulated values, and the emulated mean with
/// minimum and maximum.
#[must_use]
pub fn text(study: &Study, tables: &[EmulatedTable]) -> String {
    let mut out = String::new();
    for table in tables {
        let name = &study.definition.name;
        let _ = writeln!(out, "{name}/{}, {}: beside, not judged\n{}", table.table, table.beside, table.unit);
        out += &super::text::wrapped(&table.says, 98);
        let row_name = |row: &Row| {
            // The name of a row lists the levels of its factors, in the order of the factors' keys. The number of the
            // object comes last.
            let (objects, factors): (Vec<_>, Vec<_>) =
                row.labels.iter().partition(|(key, _)| *key == "object");
            let object = objects.into_iter().map(|(_, number)| format!("object {number}"));
            factors.into_iter().map(|(_, level)| level.clone()).chain(object).collect::<Vec<_>>().join(" ")
        };
        let wide = table.rows.iter().map(|row| row_name(row).len()).max().unwrap_or(0);
        let heads = table.contestants.iter().map(|name| format!("  {:>24}", label::shown(name)));
        let _ = writeln!(out, "{:wide$}  {:>9}  {:>9}{}", "", "print", "ours", heads.collect::<String>());
        for row in &table.rows {
            let one = |value: Option<f64>| value.map_or("-".to_owned(), super::effect::figure);
            let cells = row.emulated.iter().map(|values| format!("  {:>24}", spread(values)));
            let (printed, simulated) = (one(row.published), one(row.simulated));
            let _ = writeln!(
                out,
                "{:wide$}  {printed:>9}  {simulated:>9}{}",
                row_name(row),
                cells.collect::<String>()
            );
        }
        out.push('\n');
    }
    out
}

/// Formats the mean of `values` with their minimum and maximum.
fn spread(values: &[f64]) -> String {
    let Some(mean) = mean(values) else { return "-".to_owned() };
    let (low, high) = ends(values);
    let [mean, low, high] = [mean, low, high].map(super::effect::figure);
    format!("{mean} ({low}-{high})")
}

fn ends(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(*v), high.max(*v)))
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Renders the emulated results of a study as CSV, with one row per cell and contestant.
#[must_use]
pub fn csv(tables: &[EmulatedTable]) -> String {
    let mut rows = vec![HEAD.map(str::to_owned).to_vec()];
    for table in tables {
        for row in &table.rows {
            let levels: Vec<_> = row.labels.iter().map(|(key, level)| format!("{key}={level}")).collect();
            for (contestant, values) in table.contestants.iter().zip(&row.emulated) {
                let ends = (!values.is_empty()).then(|| ends(values));
                rows.push(vec![
                    table.table.clone(),
                    table.unit.clone(),
                    levels.join(" "),
                    table.beside.clone(),
                    optional(row.published),
                    optional(row.simulated),
                    contestant.clone(),
                    values.len().to_string(),
                    optional(mean(values)),
                    optional(ends.map(|(low, _)| low)),
                    optional(ends.map(|(_, high)| high)),
                    table.says.clone(),
                ]);
            }
        }
    }
    of_rows(&rows)
}

/// The names of the columns of the CSV file.
pub const HEAD: [&str; 12] = [
    "table",
    "unit",
    "place",
    "beside",
    "printed",
    "ours",
    "contestant",
    "runs",
    "mean",
    "least",
    "most",
    "in_force",
];

#[cfg(test)]
mod tests {
    use super::super::bench::NullStore;
    use super::*;

    /// Checks the plans of all shipped `emulated.toml` files. A faulty plan would otherwise be found only when the
    /// emulated world runs it.
    #[test]
    #[cfg(target_os = "linux")]
    fn the_shipped_sides_are_plans_that_the_emulated_world_takes() {
        let mut emulated_tables = 0;
        for name in super::super::names() {
            let study = super::super::open(name).expect("a study");
            for emulated in &study.emulated {
                let plan = emulated
                    .plan(&study, None, 1, &Transports::standard())
                    .unwrap_or_else(|error| panic!("{name}: {error}"));
                assert_eq!(plan.world, anabranch_results::World::Emulated, "{name}");
                assert_eq!(plan.seeds.len() as u64, emulated.runs, "{name}");
                anabranch_lab::run::live::check(&plan).unwrap_or_else(|error| panic!("{name}: {error}"));
                // Checks the plan of the simulated runs. These runs start only after the emulated runs, so a study
                // would detect a faulty plan late.
                let (seeds, table) = (
                    Seeds { runs: 1, first: 1, changes: &[], transports: &Transports::standard() },
                    emulated.table(&study).expect("a table"),
                );
                let simulated = emulated.simulate(table, &seeds, &mut StudyRuns::counting(&NullStore));
                assert!(simulated.is_ok(), "{name}: {simulated:?}");
                emulated_tables += 1;
            }
        }
        assert!(emulated_tables >= 5, "all but sasikala-2008 have one: ns-2 is what stands beside that");
    }

    #[test]
    fn published_simulated_and_emulated_values_share_a_row() {
        let row = |printed, ours, there| Row {
            labels: BTreeMap::from([("objects".to_owned(), "50x100B".to_owned())]),
            published: printed,
            simulated: ours,
            emulated: there,
        };
        let table = EmulatedTable {
            table: "every-tenth".to_owned(),
            unit: "KB/s".to_owned(),
            beside: "tcp-linux".to_owned(),
            contestants: vec!["reno=tcp:cc=reno".to_owned(), "cubic=tcp:cc=cubic".to_owned()],
            says: "Linux 6; reno: cc reno".to_owned(),
            rows: vec![row(Some(9.04), Some(2.75), vec![vec![4.0, 10.0], vec![]]), row(None, None, vec![])],
        };
        let study = super::super::open("osterdahl-2005").expect("a study");
        let text = text(&study, std::slice::from_ref(&table));
        let line = text.lines().find(|line| line.starts_with("50x100B")).expect("a row");
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!(words, ["50x100B", "9.040", "2.750", "7.000", "(4.000-10.00)", "-"], "{text}");
        assert!(text.contains("beside, not judged") && text.contains("Linux 6; reno: cc reno"), "{text}");
        let csv = csv(&[table]);
        let lines: Vec<_> = csv.lines().collect();
        assert_eq!(lines.len(), 3, "{csv}");
        assert_eq!(
            lines[1],
            "every-tenth,KB/s,objects=50x100B,tcp-linux,9.04,2.75,reno=tcp:cc=reno,2,7,4,10,Linux 6; reno: cc reno"
        );
        assert_eq!(
            lines[2],
            "every-tenth,KB/s,objects=50x100B,tcp-linux,9.04,2.75,cubic=tcp:cc=cubic,0,,,,Linux 6; reno: cc reno"
        );
    }

    #[test]
    fn errors_name_the_invalid_entry() {
        let toml = "[[table]]\nof = 'no-drops'\nbeside = 'tcp'\nruns = 5\nsays = ''\nplan = {}\n";
        let study = super::super::open("osterdahl-2005").expect("a study");
        let transports = Transports::standard();
        let tables = parse(toml).expect("read");
        let wrong = tables[0].plan(&study, None, 1, &transports).expect_err("no such contestant");
        assert!(wrong.contains("emulated.toml: no-drops: no contestant 'tcp'"), "{wrong}");
        assert!(parse("[[table]]\nfrom = 1\n").expect_err("a field").contains("emulated.toml"));
    }
}
