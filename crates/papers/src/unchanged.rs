//! Compares a study with changed assumptions with the unchanged study: every value of its tables, side by side on the
//! same seeds, and the claims whose outcomes differ.

use super::effect::{MeanEstimate, figure};
use super::figures::Point;
use super::findings::{Findings, TableResult};
use super::{Change, Study, Table};
use anabranch_report::contrast::{Contrast, Marks, Row};
use anabranch_report::paper::Grid;
use anabranch_results::stats::interval;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// One value of a table, measured without the user's changes and with them.
struct Pair<'a> {
    contestant: String,
    object: Option<usize>,
    /// The table point without the changes, and the table point with them.
    points: [&'a Point; 2],
    /// The factors that the changes set to one value, each with that value.
    set: Vec<(String, String)>,
    /// The means over the runs: without the changes, and with them.
    means: [f64; 2],
    /// The mean with the changes divided by the mean without them; `None` if a mean is not above 0. The interval takes
    /// the runs in pairs of the same seed.
    ratio: Option<MeanEstimate>,
}

/// Returns pairs of values of the metric that the table defines: the value without the user's changes, and the value
/// with them. A pair is of two points that have the same level of every factor that is not changed. `set` has the
/// changed keys of the plan with their values.
fn pairs<'a>(
    table: &Table,
    [without, with]: [&'a TableResult; 2],
    set: &[(String, String)],
) -> Vec<Pair<'a>> {
    let metric = table.definition.metric;
    let mut found = Vec::new();
    for first in &without.figures.points {
        let belongs = |second: &&std::rc::Rc<Point>| {
            let is_same = |(key, level): (&String, &String)| {
                set.iter().any(|(changed, _)| changed == key)
                    || first.factors.get(key).is_none_or(|own| own == level)
            };
            second.factors.iter().all(is_same)
        };
        let Some(second) = with.figures.points.iter().find(belongs) else { continue };
        let is_other = |(key, value): &&(String, String)| {
            !second.factors.contains_key(key) && first.factors.get(key).is_some_and(|own| own != value)
        };
        let set: Vec<(String, String)> = set.iter().filter(is_other).cloned().collect();
        for contestant in table.names() {
            let Some(runs) = first.contestants.get(&contestant) else { continue };
            let objects: Vec<Option<usize>> = match metric.is_of_objects() {
                true => (1..=runs.first().map_or(0, |run| run.objects())).map(Some).collect(),
                false => vec![None],
            };
            for object in objects {
                let values = [first, second].map(|point| point.by_run(&contestant, metric, object));
                let mean = |values: &Vec<Option<f64>>| {
                    interval::mean(&values.iter().copied().flatten().collect::<Vec<_>>())
                };
                let (Some(one), Some(other)) = (mean(&values[0]), mean(&values[1])) else { continue };
                let ratio = MeanEstimate::of_means(&values[1], &values[0]);
                found.push(Pair {
                    contestant: contestant.clone(),
                    object,
                    points: [first, second],
                    set: set.clone(),
                    means: [one, other],
                    ratio,
                });
            }
        }
    }
    found
}

impl Pair<'_> {
    fn is_same(&self) -> bool {
        self.means[0] == self.means[1]
    }

    /// Returns the cells of a row: the point, the contestant, both values, and their ratio. If a change sets a factor,
    /// its level without the change is followed by that with it.
    fn row(&self) -> [String; 5] {
        let of_factor = |(key, level): (&String, &String)| match self.set.iter().find(|(set, _)| set == key) {
            Some((_, value)) => format!("{key}={level} -> {value}"),
            None => format!("{key}={level}"),
        };
        let mut place: Vec<String> = self.points[0].factors.iter().map(of_factor).collect();
        place.extend(self.object.map(|object| format!("object={object}")));
        let ratio = self.ratio.as_ref().map_or("-".to_owned(), ToString::to_string);
        let [one, other] = self.means.map(figure);
        [place.join(" "), self.contestant.clone(), one, other, ratio]
    }
}

/// The comparison of one table without the user's changes and with them.
struct Compared {
    name: String,
    title: String,
    unit: String,
    rows: Vec<[String; 5]>,
    same: usize,
    /// The factors that the changes set to one value, if several rows therefore have the same runs with the changes.
    merged: Vec<String>,
    picture: Option<Contrast>,
}

fn compared(study: &Study, [without, with]: [&Findings; 2], changes: &[Change]) -> Vec<Compared> {
    let set: Vec<(String, String)> = changes.iter().filter_map(Change::setting).collect();
    let one = |own: &TableResult| {
        let (table, before) =
            study.table(&own.name).zip(without.tables.iter().find(|t| t.name == own.name))?;
        let pairs = pairs(table, [before, own], &set);
        let rows: Vec<_> = pairs.iter().filter(|pair| !pair.is_same()).map(Pair::row).collect();
        let same = pairs.len() - rows.len();
        let is_shared = |(key, _): &&(String, String)| {
            let levels = before.figures.points.iter().filter_map(|point| point.factors.get(key));
            levels.collect::<BTreeSet<_>>().len() > 1
                && own.figures.points.iter().all(|point| !point.factors.contains_key(key))
        };
        let merged = set.iter().filter(is_shared).map(|(key, _)| key.clone()).collect();
        Some(Compared {
            name: own.name.clone(),
            title: table.definition.title.clone(),
            unit: table.definition.unit.clone(),
            picture: (!rows.is_empty()).then(|| picture(table, before, &pairs, changes)),
            rows,
            same,
            merged,
        })
    };
    with.tables.iter().filter_map(one).collect()
}

/// Returns the chart of a table without the changes and with them, along the factor of its curves.
fn picture(table: &Table, before: &TableResult, pairs: &[Pair<'_>], changes: &[Change]) -> Contrast {
    let along = table.along().unwrap_or_default();
    let mut rows: Vec<Row> = Vec::new();
    for pair in pairs {
        let mut labels = pair.points[0].factors.clone();
        labels.extend(pair.object.map(|object| ("object".to_owned(), object.to_string())));
        let first = labels.remove(&along);
        let parts: Vec<&str> = first.iter().chain(labels.values()).map(String::as_str).collect();
        let label = if parts.is_empty() { pair.contestant.clone() } else { parts.join(" ") };
        let value = |point: &Point| {
            let values = point.values(&pair.contestant, table.definition.metric, pair.object);
            let mean = interval::mean(&values)?;
            let [low, high] = interval::ci95_from_zero(&values).unwrap_or([mean, mean]);
            Some([mean, low, high])
        };
        let marks = Marks {
            contestant: pair.contestant.clone(),
            published: published(before, pair),
            without: value(pair.points[0]),
            with: value(pair.points[1]),
        };
        match rows.iter_mut().find(|row| row.label == label) {
            Some(row) => row.marks.push(marks),
            None => rows.push(Row { label, marks: vec![marks] }),
        }
    }
    let changes: Vec<String> = changes.iter().map(ToString::to_string).collect();
    let changes = changes.join(" ");
    Contrast {
        id: format!("set-{}", table.name),
        heading: format!("{}: {changes}", table.name),
        sentence: "Without what was set, and with it.".to_owned(),
        change: changes,
        scope: format!("Table {}: {}", table.name, table.definition.title),
        unit: table.definition.unit.clone(),
        along,
        rows,
    }
}

/// Returns the published value of the cell that a pair belongs to.
fn published(found: &TableResult, pair: &Pair<'_>) -> Option<f64> {
    let mut labels: BTreeMap<String, String> = pair.points[0].factors.clone();
    labels.insert("contestant".to_owned(), pair.contestant.clone());
    labels.extend(pair.object.map(|object| ("object".to_owned(), object.to_string())));
    let is_it = |label: (&String, &String)| labels.get(label.0) == Some(label.1);
    found.cells.iter().find(|cell| cell.labels.iter().all(is_it)).map(|cell| cell.published)
}

/// Returns a line for each claim that has another outcome with the user's changes.
fn other_outcomes([without, with]: [&Findings; 2]) -> Vec<String> {
    let pairs = without.claims.iter().zip(&with.claims);
    let others = pairs.filter(|((_, one), (_, other))| one.outcome != other.outcome);
    others
        .map(|((claim, one), (_, other))| {
            format!(
                "{}: {} (without: {}): {}",
                claim.id,
                other.outcome.word(),
                one.outcome.word(),
                claim.claim
            )
        })
        .collect()
}

const HEADS: [&str; 5] = ["place", "contestant", "without", "with", "with/without, 95 %"];

/// What the columns are.
const RATIOS: &str = "without, with: means of the runs; with/without: their ratio, with an interval by runs of the same seed\n";

/// Renders the comparison as text. `without` and `with` are the findings without the changes and with them.
#[must_use]
pub fn text(study: &Study, without: &Findings, with: &Findings, changes: &[Change]) -> String {
    let mut out = "What the change does: the study without it and with it, on the same seeds\n".to_owned();
    for table in compared(study, [without, with], changes) {
        if table.rows.is_empty() {
            let _ = writeln!(
                out,
                "\n{}: all {} numbers are the same: none of its runs depends on the change",
                table.name, table.same
            );
            continue;
        }
        let _ = writeln!(out, "\n{}: {}; {}\n", table.name, table.title, table.unit);
        let width = |at: usize| {
            let cells = table.rows.iter().map(|row| row[at].chars().count());
            cells.chain([HEADS[at].len()]).max().unwrap_or(0)
        };
        let widths = [0, 1, 2, 3].map(width);
        for row in std::iter::once(&HEADS.map(str::to_owned)).chain(&table.rows) {
            let [place, contestant, one, other, ratio] = row;
            let [a, b, c, d] = widths;
            let _ = writeln!(out, "{place:<a$}  {contestant:<b$}  {one:>c$}  {other:>d$}  {ratio}");
        }
        if table.same > 0 {
            let _ = writeln!(out, "{} more numbers are the same", table.same);
        }
        out += RATIOS;
        for key in &table.merged {
            let _ = writeln!(
                out,
                "{key} is one value with the change: rows that differ only in {key} have the same runs with it"
            );
        }
    }
    let others = other_outcomes([without, with]);
    if !others.is_empty() {
        out.push_str("\nclaims with another outcome\n");
        others.iter().for_each(|line| out += &super::text::wrapped(line, 98));
    }
    out.push_str("\nWith the change, against the paper\n\n");
    out
}

/// Returns the comparison for the page: a chart for each table whose values change, and the values that change.
#[must_use]
pub fn page(study: &Study, without: &Findings, with: &Findings, changes: &[Change]) -> (Vec<Contrast>, Grid) {
    let (mut charts, mut rows) = (Vec::new(), Vec::new());
    for table in compared(study, [without, with], changes) {
        charts.extend(table.picture);
        for [place, rest @ ..] in table.rows {
            let place = format!("{} {place}", table.name);
            rows.push(std::iter::once(place).chain(rest).collect());
        }
    }
    (charts, Grid { heads: HEADS.map(str::to_owned).to_vec(), rows })
}
