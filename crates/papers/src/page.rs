//! Renders the findings of a study as a page of the report. Tables become curves, and the prose comes from Markdown.

use super::cell::{Evidence, range_of_means};
use super::effect::figure;
use super::figures::MEAN;
use super::findings::{Findings, TableResult};
use super::{CopyStatus, Seeds, Study, Table, chart, quote, summary, text, unchanged};
use anabranch_report::graph::Graph;
use anabranch_report::paper::{Grid, Paper};
use anabranch_report::sheet::{Curve, Panel, Sheet};
use anabranch_results::stats::interval;
use std::collections::BTreeMap;

/// The text of the program's citation file.
const CITATION: &str = include_str!("../../../CITATION.cff");

/// Renders the page of a study with these findings. `without` has the findings without the changes of `seeds`, if there
/// are changes, and `graphs` the drawn runs. `changed` lists differences from the study as shipped, `command`
/// reproduces the page, and `program` is the version and source of the program.
#[must_use]
pub fn html(
    study: &Study,
    findings: &Findings,
    without: Option<&Findings>,
    graphs: Vec<Graph>,
    seeds: &Seeds<'_>,
    [changed, command, program]: [&str; 3],
) -> String {
    let definition = &study.definition;
    let tables: Vec<Sheet> =
        findings.tables.iter().filter_map(|found| Some(sheet(study.table(&found.name)?, found))).collect();
    let is_drawn = |name: &str| tables.iter().any(|sheet| sheet.name == name);
    let prose = quote::html(&quote::filled(study, findings), is_drawn);
    let answer = quote::html(&quote::filled_text(&definition.answer, study, findings), is_drawn);
    let (against, against_numbers) =
        without.map(|without| unchanged::page(study, without, findings, seeds.changes)).unwrap_or_default();
    let mut set: Vec<String> = seeds.changes.iter().map(ToString::to_string).collect();
    for name in study.tables.iter().flat_map(|table| &table.added) {
        let added = format!("{name} added");
        if !set.contains(&added) {
            set.push(added);
        }
    }
    let set = match (set.is_empty(), &study.copy) {
        (true, CopyStatus::Changed { .. }) => "assumptions as the copy has them".to_owned(),
        (true, _) => "no assumption changed".to_owned(),
        (false, _) => format!("changed: {}", set.join(", ")),
    };
    let points = findings.tables.iter().flat_map(|found| &found.figures.points);
    let runs = points.flat_map(|point| point.contestants.values()).map(Vec::len).max().unwrap_or(0);
    let provenance = format!("seeds from {} on, up to {runs} at a place, {set}", seeds.first);
    anabranch_report::paper::html(&Paper {
        title: definition.title.clone(),
        source: definition.source.clone(),
        question: definition.question.clone(),
        answer,
        against,
        against_numbers,
        changed: changed.lines().map(str::to_owned).collect(),
        summary: summary::summary(study, findings)
            .lines()
            .map(str::to_owned)
            .chain(text::robustness(study, findings))
            .collect(),
        charts: chart::all(study, findings),
        prose,
        tables,
        graphs,
        cells: cells(findings),
        causes: causes(findings),
        claims: claims(findings),
        more: more(study, findings),
        parameters: parameters(study),
        command: command.to_owned(),
        cite: format!(
            "{}: {}. Version {program}; study {}, {provenance}. It redoes {}: {}.",
            cited("- name"),
            cited("title"),
            text::called(study),
            definition.source.trim_end_matches('.'),
            definition.title
        ),
        provenance: format!(
            "Run in virtual time by anabranch {program}: {}, {provenance}. The same seeds give the same bytes.",
            text::called(study)
        ),
    })
}

/// Returns a field of the program's citation file.
fn cited(field: &str) -> &'static str {
    let value = |line: &'static str| line.trim_start().strip_prefix(field)?.strip_prefix(": ");
    CITATION.lines().find_map(value).unwrap_or_default().trim_matches('"')
}

fn heads(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn parameters(study: &Study) -> Grid {
    let row = |parameter: &super::Parameter| {
        [&parameter.name, &parameter.value, parameter.is.word(), &parameter.why].map(str::to_owned).to_vec()
    };
    Grid {
        heads: heads(&["parameter", "value", "is", "because"]),
        rows: study.definition.parameters.iter().map(row).collect(),
    }
}

/// Returns further tables for the page of a study, each with its title. The first has the predictions of simple models.
/// If available, the scores of the readings (interpretations of the paper) and the sensitivity to assumptions follow.
fn more(study: &Study, findings: &Findings) -> Vec<(String, Grid)> {
    let mut more = vec![("What arithmetic alone would say".to_owned(), baselines(findings))];
    if let Some(scores) = text::scores(study, findings) {
        let rows = scores.lines().into_iter().map(|line| line.to_vec()).collect();
        more.push((
            format!("What the paper leaves open: {}", scores.heading()),
            Grid { heads: heads(&["what", "reading", "loss", "orders as in print"]), rows },
        ));
    }
    if let Some(found) = text::varied(study, findings) {
        let error = |(change, error): &(String, Option<f64>)| {
            vec![change.clone(), error.map_or("-".to_owned(), figure)]
        };
        more.push((
            "One assumption changed at a time, and the error of the cells then (rms of ln ours/print)"
                .to_owned(),
            Grid { heads: heads(&["changed", "error"]), rows: found.alone.iter().map(error).collect() },
        ));
        let row = |robustness: &super::sensitivity::Robustness| {
            let (holds, of) = robustness.joint;
            let fragile = if robustness.is_fragile() { "fragile" } else { "" };
            vec![
                robustness.name.clone(),
                format!("{holds} of {of}"),
                fragile.to_owned(),
                robustness.broken_by.join(", "),
            ]
        };
        let names = ["order or finding", "points in which it holds", "", "alone it is broken by"];
        more.push((
            "What hangs on the assumptions: all changed at once, and each alone".to_owned(),
            Grid { heads: heads(&names), rows: found.robustness.iter().map(row).collect() },
        ));
    }
    more
}

fn baselines(findings: &Findings) -> Grid {
    let rows = findings.tables.iter().flat_map(|found| {
        found.baselines.iter().map(|one| {
            let skill = one.skill(&found.cells).map_or("-".to_owned(), |skill| format!("{skill:.2}"));
            let orders = format!("{} of {}", one.orders.same, one.orders.all);
            let own = format!("{} of {}", found.orders.same, found.orders.all);
            vec![found.name.clone(), one.model.name().to_owned(), orders, own, skill]
        })
    });
    Grid {
        heads: heads(&["table", "model", "orders as printed", "ours", "skill of ours over it"]),
        rows: rows.collect(),
    }
}

fn causes(findings: &Findings) -> Grid {
    let rows = findings.causes.iter().map(|found| {
        let cause = &found.cause;
        let words = [cause.kind().word(), found.verdict()].map(str::to_owned);
        let [kind, verdict] = words;
        let says = found.sentence() + &text::whole_table_effect(findings, &cause.id);
        vec![cause.id.clone(), kind, cause.change.join(" "), says, verdict]
    });
    Grid { heads: heads(&["cause", "kind", "change", "what it does", "here"]), rows: rows.collect() }
}

fn claims(findings: &Findings) -> Grid {
    let rows = findings.claims.iter().map(|(claim, found)| {
        let of = [&claim.id, &claim.location, &claim.claim, &claim.check];
        let mut row: Vec<String> = of.into_iter().cloned().collect();
        row.extend([text::outcome_word(claim, found), found.description.clone()]);
        row
    });
    Grid {
        heads: heads(&["claim", "place", "what it says", "check", "outcome", "found"]),
        rows: rows.collect(),
    }
}

fn cells(findings: &Findings) -> Grid {
    let mut rows = Vec::new();
    for found in &findings.tables {
        for cell in &found.cells {
            let labels: Vec<&str> = cell.labels.values().map(String::as_str).collect();
            let pair = |pair: Option<[f64; 2]>| {
                pair.map_or("-".to_owned(), |[low, high]| format!("{}-{}", figure(low), figure(high)))
            };
            let evidence = if cell.evidence == Evidence::Transport { "" } else { cell.evidence.word() };
            rows.push(vec![
                format!("{} {}", found.name, labels.join(" ")),
                figure(cell.published),
                cell.ours.map_or("-".to_owned(), figure),
                pair(cell.ratio),
                pair(cell.range),
                format!("{} {evidence}", cell.verdict.word()).trim_end().to_owned(),
                text::named(cell, found),
            ]);
        }
    }
    let names = ["cell", "printed", "ours", "ours/print, 95 %", "range of our runs", "verdict", "near with"];
    Grid { heads: heads(&names), rows }
}

/// The labels of a cell, by column.
type Labels = BTreeMap<String, String>;

/// Returns a table of the study as curves for the page. The x axis is the column [`Table::along`]. If the runs do not
/// vary this column, the contestants form the x axis.
fn sheet(table: &Table, found: &TableResult) -> Sheet {
    let metric = table.definition.metric;
    let objects = metric.is_of_objects();
    let varies = |column: &String| {
        objects && column == "object"
            || found.figures.points.iter().any(|point| point.factors.contains_key(column))
    };
    let along = table.along().filter(varies).unwrap_or_else(|| "contestant".to_owned());
    let printed =
        |labels: &Labels| found.cells.iter().find(|cell| cell.labels == *labels).map(|cell| cell.published);
    // Collects every measured number, published or not, under the labels that a published cell would have.
    let mut panels: Vec<(Labels, Vec<String>)> = Vec::new();
    let mut numbers: Vec<(Labels, Option<[f64; 3]>)> = Vec::new();
    for point in &found.figures.points {
        for (name, runs) in &point.contestants {
            let count = if objects { runs.first().map_or(0, |run| run.objects()) } else { 1 };
            for object in 1..=count {
                let mut labels = point.factors.clone();
                labels.insert("contestant".to_owned(), name.clone());
                if objects {
                    labels.insert("object".to_owned(), object.to_string());
                }
                let values = point.values(name, metric, objects.then_some(object));
                // A map uses the geometric mean, as `race` does, so that a single page load of a minute does not
                // dominate.
                let mean = if table.definition.map { interval::geometric_mean } else { interval::mean };
                let estimate = mean(&values).zip(range_of_means(&values, table.definition.averaged));
                let mut labels_of_panel = labels.clone();
                let level = labels_of_panel.remove(&along).unwrap_or_default();
                labels_of_panel.remove("contestant");
                add_level(&mut panels, labels_of_panel, level);
                numbers.push((labels, estimate.map(|(mean, [low, high])| [low, mean, high])));
            }
        }
    }
    // A published mean over all levels of a factor is drawn in a panel of its own.
    for cell in found.cells.iter().filter(|cell| cell.labels.values().any(|level| level == MEAN)) {
        let mut labels_of_panel = cell.labels.clone();
        let level = labels_of_panel.get(&along).cloned().unwrap_or_default();
        labels_of_panel.remove("contestant");
        if level != MEAN {
            labels_of_panel.remove(&along);
        }
        add_level(&mut panels, labels_of_panel, level);
        let estimate = cell.ours.map(|ours| {
            let [low, high] = cell.range.unwrap_or([ours, ours]);
            [low, ours, high]
        });
        numbers.push((cell.labels.clone(), estimate));
    }
    let panels = panels.into_iter().map(|(labels_of_panel, levels)| {
        let at = |name: &str, level: &String| {
            let mut labels = labels_of_panel.clone();
            labels.insert(along.clone(), level.clone());
            // If the contestants form the x axis, each contestant has a single point, at its own name.
            let other = labels.insert("contestant".to_owned(), name.to_owned());
            if other.is_none_or(|other| other == name) { labels } else { Labels::new() }
        };
        let shown = |name: &String| match table.added.contains(name) {
            true => format!("{name} (added)"),
            false => name.clone(),
        };
        let curve = |name: &String| Curve {
            name: shown(name),
            ours: levels
                .iter()
                .map(|level| numbers.iter().find(|(labels, _)| *labels == at(name, level))?.1)
                .collect(),
            published: levels.iter().map(|level| printed(&at(name, level))).collect(),
        };
        let title: Vec<String> =
            labels_of_panel.iter().map(|(key, level)| format!("{key} {level}")).collect();
        Panel {
            title: title.join(", "),
            curves: table.names().iter().map(curve).collect(),
            levels: levels.clone(),
        }
    });
    Sheet {
        name: table.name.clone(),
        title: format!("{}: {}", table.name, table.definition.title),
        unit: table.definition.unit.clone(),
        panels: panels.collect(),
        along,
        map: table.definition.map,
    }
}

/// Adds a level of the x axis to the panel with these labels. Creates the panel if there is none.
fn add_level(panels: &mut Vec<(Labels, Vec<String>)>, labels: Labels, level: String) {
    match panels.iter_mut().find(|(known, _)| *known == labels) {
        Some((_, levels)) if levels.contains(&level) => {}
        Some((_, levels)) => levels.push(level),
        None => panels.push((labels, vec![level])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_cites_what_the_file_says() {
        assert_eq!(cited("version"), env!("CARGO_PKG_VERSION"));
        assert!(
            cited("title").starts_with("anabranch: ") && cited("- name").contains("authors"),
            "{CITATION}"
        );
    }
}
