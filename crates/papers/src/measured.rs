//! Writes all measured numbers of a table as text, and as CSV with one number per row. This includes numbers for which
//! the paper publishes no value.

use super::effect::figure;
use super::figures::{MEAN, Numbers};
use super::findings::TableResult;
use super::metric::{Metric, OF_RUNS};
use super::table::Table;
use anabranch_results::csv::{of_rows, optional};
use anabranch_results::stats::interval;
use std::collections::BTreeMap;
use std::fmt::Write;

/// One number that was measured for a contestant at one point of a table.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured<'a> {
    /// The level of each factor, or [`MEAN`] for a mean over all levels.
    pub factors: BTreeMap<String, String>,
    /// The name of the contestant.
    pub contestant: &'a str,
    /// The number of the object, from 1; `None` if the metric describes whole runs.
    pub object: Option<usize>,
    /// The number of runs in which the metric has a value.
    pub runs: usize,
    /// The number of runs in which an object failed or was not delivered by the deadline.
    pub unfinished: usize,
    /// The mean and its 95 % interval; `None` if no run has a value. Both ends are equal if the runs have no
    /// randomness.
    pub mean: Option<(f64, [f64; 2])>,
    /// The published value; `None` if the paper gives none.
    pub published: Option<f64>,
}

/// Returns the measured values of this metric for all points, contestants and objects. Contestants are in the order of
/// the plan.
#[must_use]
pub fn all<'a>(table: &Table, found: &'a TableResult, metric: Metric) -> Vec<Measured<'a>> {
    let mut numbers = Vec::new();
    for point in &found.figures.points {
        // The contestants are in the order of the plan, not in alphabetical order.
        let of = |name: &String| point.contestants.get_key_value(name);
        for (contestant, runs) in table.names().iter().filter_map(of) {
            let objects: Vec<Option<usize>> = match metric.is_of_objects() {
                true => (1..=runs.first().map_or(0, |run| run.objects())).map(Some).collect(),
                false => vec![None],
            };
            for object in objects {
                let values = point.values(contestant, metric, object);
                // If our runs cover all possible random choices, the mean is exact and has no interval.
                let known = table.cases(&found.figures).is_some_and(|cases| cases == values.len() as u64);
                let around =
                    |mean| interval::ci95_from_zero(&values).filter(|_| !known).unwrap_or([mean, mean]);
                let mut labels = point.factors.clone();
                labels.extend(object.map(|object| ("object".to_owned(), object.to_string())));
                let printed =
                    published(found, contestant, &labels).filter(|_| metric == table.definition.metric);
                numbers.push(Measured {
                    factors: point.factors.clone(),
                    contestant,
                    object,
                    runs: values.len(),
                    unfinished: runs.iter().filter(|run| !run.is_done()).count(),
                    mean: interval::mean(&values).map(|mean| (mean, around(mean))),
                    published: printed,
                });
            }
        }
    }
    if metric == table.definition.metric {
        numbers.extend(means_of_levels(table, found));
    }
    numbers
}

/// A published cell may be a mean over all levels of a factor, for example over all loss rates. Returns our means over
/// the same levels, for every contestant.
fn means_of_levels<'a>(table: &Table, found: &'a TableResult) -> Vec<Measured<'a>> {
    let metric = table.definition.metric;
    let mut levels: Vec<BTreeMap<String, String>> = Vec::new();
    for cell in found.cells.iter().filter(|cell| cell.labels.values().any(|label| label == MEAN)) {
        let mut labels = cell.labels.clone();
        labels.remove("contestant");
        if !levels.contains(&labels) {
            levels.push(labels);
        }
    }
    let Some(first) = found.figures.points.first() else { return Vec::new() };
    let mut numbers = Vec::new();
    for labels in levels {
        let points = found.figures.all_at(&labels);
        let object = labels.get("object").and_then(|number| number.parse().ok());
        let names = table.names();
        let of = |name: &String| first.contestants.get_key_value(name);
        for (contestant, _) in names.iter().filter_map(of) {
            let runs: Vec<&Vec<Numbers>> =
                points.iter().filter_map(|point| point.contestants.get(contestant)).collect();
            let values = super::cell::means(&runs, metric, object);
            let around = |mean| interval::ci95_from_zero(&values).unwrap_or([mean, mean]);
            let level = |key: &String| (key.clone(), labels.get(key).cloned().unwrap_or_default());
            numbers.push(Measured {
                factors: first.factors.keys().map(level).collect(),
                contestant,
                object,
                runs: values.len(),
                unfinished: runs.iter().copied().flatten().filter(|run| !run.is_done()).count(),
                mean: interval::mean(&values).map(|mean| (mean, around(mean))),
                published: published(found, contestant, &labels),
            });
        }
    }
    numbers
}

/// Returns the published value for `contestant` at the point with these labels. The first cell is used that belongs to
/// the contestant and has all its other labels in `labels`.
fn published(found: &TableResult, contestant: &str, labels: &BTreeMap<String, String>) -> Option<f64> {
    let own = |(key, label): (&String, &String)| match key.as_str() {
        "contestant" => label == contestant,
        _ => labels.get(key) == Some(label),
    };
    found.cells.iter().find(|cell| cell.labels.iter().all(own)).map(|cell| cell.published)
}

/// Returns the text of `tables/TABLE.csv`. The numbers of the table's own metric come first, then those of all other
/// metrics for which runs have values.
#[must_use]
pub fn csv(table: &Table, found: &TableResult) -> String {
    let own = table.definition.metric;
    let keys: Vec<&String> =
        found.figures.points.first().map_or(Vec::new(), |point| point.factors.keys().collect());
    let rest = [
        "contestant",
        "object",
        "metric",
        "unit",
        "runs",
        "unfinished",
        "mean",
        "low",
        "high",
        "printed",
        "added",
    ];
    let mut rows =
        vec![keys.iter().map(|key| key.as_str()).chain(rest).map(str::to_owned).collect::<Vec<_>>()];
    let objects = [Metric::ObjectEnd, Metric::ObjectTime].into_iter().filter(|_| own.is_of_objects());
    let other_metrics = objects.chain(OF_RUNS).filter(|metric| *metric != own);
    for metric in std::iter::once(own).chain(other_metrics) {
        for one in all(table, found, metric) {
            if one.mean.is_none() && metric != own {
                continue;
            }
            let added = table.added.iter().any(|name| name == one.contestant);
            let mut row: Vec<String> = one.factors.values().cloned().collect();
            row.extend([
                one.contestant.to_owned(),
                optional(one.object),
                metric.name(),
                metric.unit().to_owned(),
                one.runs.to_string(),
                one.unfinished.to_string(),
                optional(one.mean.map(|(mean, _)| mean)),
                optional(one.mean.map(|(_, [low, _])| low)),
                optional(one.mean.map(|(_, [_, high])| high)),
                optional(one.published),
                if added { "yes" } else { "no" }.to_owned(),
            ]);
            rows.push(row);
        }
    }
    of_rows(&rows)
}

/// Renders one line for each measured value of the table's metric. If `added` is set, renders only the values of
/// contestants that the user added to the study.
#[must_use]
pub fn text(table: &Table, found: &TableResult, added: bool) -> String {
    let definition = &table.definition;
    let mut rows: Vec<[String; 4]> = Vec::new();
    for one in all(table, found, definition.metric) {
        let is_added = table.added.iter().any(|name| name == one.contestant);
        if added && !is_added {
            continue;
        }
        let mut labels: Vec<String> =
            one.factors.iter().map(|(key, level)| format!("{key}={level}")).collect();
        labels.extend(one.object.map(|object| format!("object={object}")));
        let name = if is_added { format!("{} (added)", one.contestant) } else { one.contestant.to_owned() };
        let around = match one.mean {
            Some((_, [low, high])) if low < high => format!("{}-{}", figure(low), figure(high)),
            _ => "-".to_owned(),
        };
        let mean = one.mean.map_or("-".to_owned(), |(mean, _)| figure(mean));
        rows.push([name, labels.join(" "), mean, format!("{around:>17}  {:>5}", one.runs)]);
    }
    if rows.is_empty() {
        return String::new();
    }
    let width = |at: usize, head: &str| {
        rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0).max(head.len())
    };
    let (names, level_width) = (width(0, "contestant"), width(1, "at"));
    let what = if added { "added, without print" } else { "measured; nothing is printed" };
    let mut out = format!("\n{}: {}; {what}; {}\n\n", table.name, definition.title, definition.unit);
    let _ = writeln!(
        out,
        "{:<names$}  {:<level_width$}  {:>9}  {:>17}  {:>5}",
        "contestant", "at", "ours", "95 % interval", "runs"
    );
    for [name, levels, mean, rest] in &rows {
        let _ = writeln!(out, "{name:<names$}  {levels:<level_width$}  {mean:>9}  {rest}");
    }
    out
}
