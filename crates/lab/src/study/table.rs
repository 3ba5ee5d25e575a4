//! Studies as text: the list, the description, the comparison.

use super::{Cell, Study, Verdict};
use std::fmt::Write;

/// One line a study.
#[must_use]
pub fn listing() -> String {
    let mut out = String::new();
    for name in super::names() {
        if let Ok(study) = super::open(name) {
            let _ = writeln!(out, "{name:<16} {}", study.definition.question);
        }
    }
    out
}

/// What a study is, what it assumes, and the plan that redoes it.
#[must_use]
pub fn description(study: &Study) -> String {
    let d = &study.definition;
    let mut out = format!("{}: {}\n{}\n\n{}\n", d.name, d.title, d.source, d.question);
    for (title, lines) in
        [("Assumptions", &d.assumptions), ("Calibrated", &d.calibrated), ("Findings", &d.findings)]
    {
        if !lines.is_empty() {
            let _ = writeln!(out, "\n{title}:");
            for line in lines {
                out.push_str(&wrapped(line, 98));
            }
        }
    }
    let _ = writeln!(out, "\nContestants:");
    for (printed, contestant) in &d.contestants {
        let _ = writeln!(out, "  {printed:<8} {contestant}");
    }
    let _ = writeln!(out, "\nPlan:\n{}", toml::to_string(&d.plan).unwrap_or_default().trim_end());
    let _ = writeln!(out, "\n{} printed cells in {}.", study.published.rows.len(), d.unit);
    out
}

/// Every printed cell beside ours, and how many agree.
#[must_use]
pub fn comparison_table(study: &Study, cells: &[Cell]) -> String {
    let columns = &study.published.columns;
    let width = |column: &String| {
        cells
            .iter()
            .filter_map(|c| c.labels.get(column))
            .map(String::len)
            .chain([heading(column).len()])
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = columns.iter().map(width).collect();
    let mut out = format!(
        "{}: {}\n{}; in {}\n\n",
        study.definition.name, study.definition.title, study.definition.source, study.definition.unit
    );
    for (column, width) in columns.iter().zip(&widths) {
        let _ = write!(out, "{:<width$}  ", heading(column));
    }
    let _ = writeln!(
        out,
        "{:>10}  {:>10}  {:>21}  {:>7}  {:>8}  verdict",
        "published", "ours", "95 % interval", "ratio", "runs"
    );
    for cell in cells {
        for (column, width) in columns.iter().zip(&widths) {
            let _ = write!(out, "{:<width$}  ", cell.labels.get(column).map_or("", String::as_str));
        }
        let ours = cell.measured.map_or("-".to_owned(), figure);
        let interval =
            cell.ci95.map_or("-".to_owned(), |[low, high]| format!("{} - {}", figure(low), figure(high)));
        let ratio = cell.measured.map_or("-".to_owned(), |m| format!("{:.2}", m / cell.published));
        let (runs, unfinished) = cell.runs;
        let runs = if unfinished == 0 { runs.to_string() } else { format!("{runs} ({unfinished}!)") };
        let _ = writeln!(
            out,
            "{:>10}  {ours:>10}  {interval:>21}  {ratio:>7}  {runs:>8}  {}",
            figure(cell.published),
            cell.verdict.word()
        );
    }
    out.push('\n');
    out.push_str(&verdict_line(cells));
    if cells.iter().any(|cell| cell.runs.1 > 0) {
        out.push_str("(n!): runs in which at least one object failed or was not done at the deadline.\n");
    }
    out
}

/// What a column of a published table is called: files call a contestant `arm`.
fn heading(column: &str) -> &str {
    if column == "arm" { "contestant" } else { column }
}

fn verdict_line(cells: &[Cell]) -> String {
    let count = |verdict| cells.iter().filter(|cell| cell.verdict == verdict).count();
    let mut parts = vec![
        format!("{} agree (within 10 %)", count(Verdict::Agrees)),
        format!("{} near (within a factor of 1.5)", count(Verdict::Near)),
        format!("{} differ", count(Verdict::Differs)),
    ];
    for (verdict, what) in [(Verdict::Missing, "missing"), (Verdict::Calibrated, "calibrated our inputs")] {
        let n = count(verdict);
        if n > 0 {
            parts.push(format!("{n} {what}"));
        }
    }
    format!("{} cells: {}.\n", cells.len(), parts.join(", "))
}

/// Four significant figures, without an exponent.
fn figure(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 => format!("{value:.0}"),
        v if v >= 100.0 => format!("{value:.1}"),
        v if v >= 10.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// A bullet broken at `width` columns.
fn wrapped(text: &str, width: usize) -> String {
    let mut out = String::from("  -");
    let mut column = 3;
    for word in text.split_whitespace() {
        if column + 1 + word.len() > width {
            out.push_str("\n   ");
            column = 3;
        }
        out.push(' ');
        out.push_str(word);
        column += 1 + word.len();
    }
    out.push('\n');
    out
}
