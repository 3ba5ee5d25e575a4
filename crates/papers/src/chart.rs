//! The chart of a finding. It shows the values without the change and with the change at each point of a curve, beside
//! the published values.

use super::cause::CauseResult;
use super::figures::Figures;
use super::findings::{Findings, TableResult};
use super::{Study, Table};
use anabranch_report::contrast::{Contrast, Marks, Row};
use anabranch_results::stats::interval;
use std::collections::BTreeMap;

/// Returns the charts of a study, in the order of its causes.
#[must_use]
pub fn all(study: &Study, findings: &Findings) -> Vec<Contrast> {
    let of = |found: &CauseResult| {
        let own = findings.tables.iter().find(|own| own.name == found.cause.table)?;
        contrast(study.table(&found.cause.table)?, own, found)
    };
    findings.causes.iter().filter_map(of).collect()
}

fn contrast(table: &Table, own: &TableResult, found: &CauseResult) -> Option<Contrast> {
    let heading = found.cause.chart.clone()?;
    let [without, with] = found.figures.as_ref()?;
    let metric = found.cause.metric.unwrap_or(table.definition.metric);
    let is_own = metric == table.definition.metric;
    let along = table.along().unwrap_or_default();
    let names = super::effect::Subject::parse(&found.cause.of).names();
    let value = |figures: &Figures, labels: &BTreeMap<String, String>, name: &str| {
        let object = labels.get("object").and_then(|number| number.parse().ok());
        let values = figures.at(labels)?.values(name, metric, object);
        let mean = interval::mean(&values)?;
        let [low, high] = interval::ci95_from_zero(&values).unwrap_or([mean, mean]);
        Some([mean, low, high])
    };
    let printed = |labels: &BTreeMap<String, String>, name: &str| {
        let mut labels = labels.clone();
        labels.insert("contestant".to_owned(), name.to_owned());
        own.cells.iter().find(|cell| is_own && cell.labels == labels).map(|cell| cell.published)
    };
    let mut rows = Vec::new();
    for labels in chart_points(&found.cause.at, &along, without, &names) {
        let marks = names
            .iter()
            .map(|name| Marks {
                contestant: name.clone(),
                published: printed(&labels, name),
                without: value(without, &labels, name),
                with: value(with, &labels, name),
            })
            .filter(|marks| marks.published.is_some() || own.cells.is_empty() || !is_own);
        match labels.get(&along) {
            Some(level) => rows.push(Row { label: level.clone(), marks: marks.collect() }),
            // If the table has a single point, its chart has one row per contestant.
            None => rows.extend(marks.map(|one| Row { label: one.contestant.clone(), marks: vec![one] })),
        }
    }
    rows.retain(|row| !row.marks.is_empty());
    let fixed = found.cause.at.iter().filter(|(key, _)| **key != along);
    let fixed: Vec<String> = fixed.map(|(key, level)| format!(", {key} {level}")).collect();
    Some(Contrast {
        id: found.cause.id.clone(),
        heading,
        sentence: found.sentence(),
        change: shown(&found.cause.change),
        scope: format!("Table {}: {}{}", table.name, table.definition.title, fixed.concat()),
        unit: if is_own { table.definition.unit.clone() } else { metric.name() },
        along,
        rows,
    })
}

/// Returns the changes as text, with long values cut short. The table of findings shows the full values.
fn shown(changes: &[String]) -> String {
    let one = |change: &String| match change.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &change[..end]),
        None => change.clone(),
    };
    changes.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// Returns the labels of each point of a chart's curve along the factor `along`. All other factors have the levels that
/// the cause names (`at`).
fn chart_points(
    at: &BTreeMap<String, String>,
    along: &str,
    figures: &Figures,
    names: &[String],
) -> Vec<BTreeMap<String, String>> {
    let mut found = Vec::new();
    for point in &figures.points {
        let mut labels = point.factors.clone();
        if let Some(object) = at.get("object") {
            labels.insert("object".to_owned(), object.clone());
        }
        if along != "object" || !at.contains_key(along) {
            found.push(labels);
            continue;
        }
        let runs = names.first().and_then(|name| point.contestants.get(name)?.first());
        for object in 1..=runs.map_or(0, super::figures::Numbers::objects) {
            labels.insert("object".to_owned(), object.to_string());
            found.push(labels.clone());
        }
    }
    found
}
