//! What the host's own protocols do on the rig of a study, in the emulated world: beside print and ours, not judged.
//!
//! `emulated.toml` of a study's folder says which tables have such a side, and which keys of the plan take the place of
//! the table's there. Here are its reading, its plans, and the columns; who runs them is the caller's to say, because
//! real time is the host's.

use super::bench::{Bench, StudyError};
use super::cause::Seeds;
use super::figures::{Figures, Point};
use super::{Study, Table};
use crate::plan::{Draft, Plan};
use crate::results::{Race, label};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A table's side in the emulated world.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Emulated {
    /// The table beside which it stands.
    pub of: String,
    /// The contestant of the table whose print, and whose numbers of ours, stand beside it.
    pub beside: String,
    /// Runs of each cell.
    pub runs: u64,
    /// What is in force there and is not in the plan, and what is unequal: one sentence.
    pub says: String,
    /// Keys that take the place of the table's plan's.
    pub plan: toml::Table,
}

/// A cell in the emulated world.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// Column to label.
    pub labels: BTreeMap<String, String>,
    /// As printed, if it is.
    pub printed: Option<f64>,
    /// Our mean in virtual time.
    pub ours: Option<f64>,
    /// Each contestant there, in the order of the plan: its number run by run.
    pub there: Vec<Vec<f64>>,
}

/// All cells of a table in the emulated world.
#[derive(Debug)]
pub struct Side {
    /// The table's name.
    pub table: String,
    /// What the numbers are.
    pub unit: String,
    /// Whose print and numbers of ours stand there.
    pub beside: String,
    /// The contestants there, as typed.
    pub contestants: Vec<String>,
    /// What was in force: kernel, settings, what is unequal.
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

/// Reads an `emulated.toml`.
///
/// # Errors
/// One line: what is wrong and where.
pub fn parse(text: &str) -> Result<Vec<Emulated>, String> {
    let file: Result<File, _> = toml::from_str(text);
    Ok(file.map_err(|e| format!("emulated.toml: {}", e.to_string().replace('\n', " ")))?.tables)
}

/// What is said of a study that has no such side.
#[must_use]
pub fn none(study: &Study) -> String {
    format!("study {}: it has no emulated side; it runs in the virtual world", study.definition.name)
}

impl Emulated {
    /// The plan, whole; `runs` in the place of its own number.
    ///
    /// # Errors
    /// One line: the table is not there, or the plan is wrong.
    pub fn plan(&self, study: &Study, runs: Option<u64>, seed: u64) -> Result<Plan, String> {
        let mut table = self.table(study)?.clone();
        table.definition.plan.extend(self.plan.clone());
        table.definition.plan.insert("world".to_owned(), "emulated".into());
        let draft: Draft = table.draft(runs.unwrap_or(self.runs), seed, &[])?;
        Plan::interpret(draft).map_err(|error| format!("emulated.toml: {}: {error}", self.of))
    }

    /// What it names is there.
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

    /// Sets what was run there beside print and beside our numbers, which are run for it.
    ///
    /// # Errors
    /// [`StudyError`].
    pub fn side(
        &self,
        study: &Study,
        race: &Race,
        seeds: &Seeds<'_>,
        bench: &mut Bench<'_>,
    ) -> Result<Side, StudyError> {
        let table = self.table(study).map_err(StudyError::Change)?;
        let places = table.draft(seeds.runs, seeds.first, &[]).and_then(|draft| {
            table.places(&draft, &BTreeMap::new(), Some(std::slice::from_ref(&self.beside)))
        });
        let ours = bench.figures(&places.map_err(StudyError::Change)?, table.definition.heads)?;
        Ok(self.columns(table, race, &ours))
    }

    fn columns(&self, table: &Table, race: &Race, ours: &Figures) -> Side {
        let definition = &table.definition;
        let first = race.points.first();
        let contestants: Vec<_> =
            first.iter().flat_map(|point| &point.contestants).map(|c| c.name.clone()).collect();
        let rows = race.points.iter().map(|point| {
            let labels = point.factors.clone();
            let there = Point::of_contestants(labels.clone(), &point.contestants, definition.heads);
            let values = |text: &String| there.values(label::shown(text), definition.metric, None);
            let printed = table.printed.iter().flat_map(|printed| &printed.rows).find(|row| {
                row.contestant() == self.beside
                    && labels.iter().all(|(key, level)| row.labels.get(key).is_none_or(|own| own == level))
            });
            let virtual_time = ours.at(&labels).map(|own| own.values(&self.beside, definition.metric, None));
            Row {
                printed: printed.map(|row| row.value),
                ours: virtual_time.as_deref().and_then(mean),
                there: contestants.iter().map(values).collect(),
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
        let says = format!("{kernel}; {}; {} runs; {}", settings.join("; "), self.runs_of(race), self.says);
        Side {
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

/// The sides of a study as text: print, ours and what came there, mean with the least and the most.
#[must_use]
pub fn text(study: &Study, sides: &[Side]) -> String {
    let mut out = String::new();
    for side in sides {
        let name = &study.definition.name;
        let _ = writeln!(out, "{name}/{}, {}: beside, not judged\n{}", side.table, side.beside, side.unit);
        out += &super::text::wrapped(&side.says, 98);
        let place = |row: &Row| row.labels.values().cloned().collect::<Vec<_>>().join(" ");
        let wide = side.rows.iter().map(|row| place(row).len()).max().unwrap_or(0);
        let heads = side.contestants.iter().map(|name| format!("  {:>24}", label::shown(name)));
        let _ = writeln!(out, "{:wide$}  {:>9}  {:>9}{}", "", "print", "ours", heads.collect::<String>());
        for row in &side.rows {
            let one = |value: Option<f64>| value.map_or("-".to_owned(), super::effect::figure);
            let there = row.there.iter().map(|values| format!("  {:>24}", spread(values)));
            let (printed, ours) = (one(row.printed), one(row.ours));
            let _ =
                writeln!(out, "{:wide$}  {printed:>9}  {ours:>9}{}", place(row), there.collect::<String>());
        }
        out.push('\n');
    }
    out
}

/// A mean with the least and the most.
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

/// The sides of a study as CSV: a row a cell and contestant there.
#[must_use]
pub fn csv(sides: &[Side]) -> String {
    let mut rows = vec![HEAD.map(str::to_owned).to_vec()];
    for side in sides {
        for row in &side.rows {
            let place: Vec<_> = row.labels.iter().map(|(key, level)| format!("{key}={level}")).collect();
            for (contestant, values) in side.contestants.iter().zip(&row.there) {
                let one = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
                let ends = (!values.is_empty()).then(|| ends(values));
                rows.push(vec![
                    side.table.clone(),
                    side.unit.clone(),
                    place.join(" "),
                    side.beside.clone(),
                    one(row.printed),
                    one(row.ours),
                    contestant.clone(),
                    values.len().to_string(),
                    one(mean(values)),
                    one(ends.map(|(low, _)| low)),
                    one(ends.map(|(_, high)| high)),
                    side.says.clone(),
                ]);
            }
        }
    }
    super::text::written(&rows)
}

/// Columns of the CSV.
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
    use super::*;

    /// A plan that the emulated world refuses would be found out on the day of the run only.
    #[test]
    #[cfg(target_os = "linux")]
    fn the_shipped_sides_are_plans_that_the_emulated_world_takes() {
        let mut sides = 0;
        for name in super::super::names() {
            let study = super::super::open(name).expect("a study");
            for side in &study.emulated {
                let plan = side.plan(&study, None, 1).unwrap_or_else(|error| panic!("{name}: {error}"));
                assert_eq!((plan.world, plan.seeds.len()), (crate::results::World::Emulated, 5), "{name}");
                crate::run::live::check(&plan).unwrap_or_else(|error| panic!("{name}: {error}"));
                sides += 1;
            }
        }
        assert!(sides >= 2, "osterdahl-2005 and ha-2005 have one");
    }

    #[test]
    fn print_ours_and_what_came_there_stand_in_a_row() {
        let row = |printed, ours, there| Row {
            labels: BTreeMap::from([("objects".to_owned(), "50x100B".to_owned())]),
            printed,
            ours,
            there,
        };
        let side = Side {
            table: "every-tenth".to_owned(),
            unit: "KB/s".to_owned(),
            beside: "tcp-linux".to_owned(),
            contestants: vec!["reno=tcp:cc=reno".to_owned(), "cubic=tcp:cc=cubic".to_owned()],
            says: "Linux 6; reno: cc reno".to_owned(),
            rows: vec![row(Some(9.04), Some(2.75), vec![vec![4.0, 10.0], vec![]]), row(None, None, vec![])],
        };
        let study = super::super::open("osterdahl-2005").expect("a study");
        let text = text(&study, std::slice::from_ref(&side));
        let line = text.lines().find(|line| line.starts_with("50x100B")).expect("a row");
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!(words, ["50x100B", "9.040", "2.750", "7.000", "(4.000-10.00)", "-"], "{text}");
        assert!(text.contains("beside, not judged") && text.contains("Linux 6; reno: cc reno"), "{text}");
        let csv = csv(&[side]);
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
    fn what_is_wrong_is_named() {
        let side = "[[table]]\nof = 'no-drops'\nbeside = 'tcp'\nruns = 5\nsays = ''\nplan = {}\n";
        let study = super::super::open("osterdahl-2005").expect("a study");
        let wrong = parse(side).expect("read")[0].plan(&study, None, 1).expect_err("no such contestant");
        assert!(wrong.contains("emulated.toml: no-drops: no contestant 'tcp'"), "{wrong}");
        assert!(parse("[[table]]\nfrom = 1\n").expect_err("a field").contains("emulated.toml"));
    }
}
