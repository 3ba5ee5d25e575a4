//! Renders the winner at each point as a grid. The levels of the last factor are the columns, and the levels of the
//! factor before it are the rows. Each combination of the other factors has a grid of its own.

use anabranch_results::axes::Axes;
use anabranch_results::cell::{LeaderStatus, PointResult};
use anabranch_results::label::{labels, shortened};
use std::fmt::Write;

/// The maximum number of lines with cells in all grids. Further lines are only counted.
const MOST_LINES: usize = 48;

/// Renders the results of the points as grids. The last factor has its levels in the columns, and the factor before it
/// in the rows. Each combination of levels of the other factors is the heading of one grid.
#[must_use]
pub fn render(axes: &Axes, cells: &[Option<PointResult>], names: &[&str], line_width: usize) -> String {
    let Some(across) = axes.0.last() else { return String::new() };
    let down = axes.0.len().checked_sub(2).map(|at| &axes.0[at]);
    let outer = Axes(axes.0[..axes.0.len().saturating_sub(2)].to_vec());
    let names = labels(names, NAME);
    let rows = down.map_or(1, |axis| axis.levels.len());
    let columns = across.levels.len();
    let text =
        |index: usize| cells.get(index).map_or_else(String::new, |cell| format_cell(cell.as_ref(), &names));
    let headings: Vec<String> = across.levels.iter().map(|level| heading(&across.factor, level)).collect();
    let row_names: Vec<String> = match down {
        Some(axis) => axis.levels.iter().map(|level| heading(&axis.factor, level)).collect(),
        None => vec![String::new()],
    };
    let widest = |texts: &[String]| texts.iter().map(|text| text.chars().count()).max().unwrap_or(0);
    let (margin, mut out, mut lines) = (widest(&row_names), String::new(), 0);
    for table in 0..outer.count() {
        if lines >= MOST_LINES {
            let left = outer.count() - table;
            let _ = writeln!(out, "{left} more of these; the result has every point");
            break;
        }
        let indices = outer.level_indices(table);
        let at: Vec<String> = outer
            .0
            .iter()
            .zip(&indices)
            .map(|(axis, level)| heading(&axis.factor, &axis.levels[*level]))
            .collect();
        if !at.is_empty() {
            let _ = writeln!(out, "{}:", at.join(", "));
        }
        let first = table * rows * columns;
        let all: Vec<String> = (first..first + rows * columns).map(text).collect();
        let width = widest(&all).max(widest(&headings)) + 2;
        let at_once = (line_width.saturating_sub(margin) / width).max(1);
        for from in (0..columns).step_by(at_once) {
            if lines >= MOST_LINES {
                let _ = writeln!(out, "{} more columns; the result has every point", columns - from);
                break;
            }
            let part = from..(from + at_once).min(columns);
            let line = |name: &str, cells: &[String]| {
                let cells: String = cells.iter().map(|cell| format!("  {cell:<0$}", width - 2)).collect();
                format!("{name:<margin$}{cells}").trim_end().to_owned() + "\n"
            };
            out += &line("", &headings[part.clone()]);
            for (row, name) in row_names.iter().enumerate() {
                if lines == MOST_LINES {
                    let _ = writeln!(out, "{} more lines; the result has every point", rows - row);
                    break;
                }
                lines += 1;
                out += &line(name, &all[row * columns..][part.clone()]);
            }
        }
    }
    out
}

/// The maximum width of a contestant's name in a cell of the grid, in characters.
const NAME: usize = 14;

/// Formats a factor and its level. A level is shortened, because it can be the long name of a file or page.
fn heading(factor: &str, level: &str) -> String {
    format!("{factor} {}", shortened(level, 20))
}

/// Formats a cell of the grid: the name of the fastest contestant, and the runner-up's time divided by the fastest
/// time. For example, `sctp x1.21` if the contestant `sctp` wins, and `sctp? x1.21` if the comparison is undecided.
fn format_cell(cell: Option<&PointResult>, names: &[String]) -> String {
    let Some(cell) = cell else { return ".".to_owned() };
    let first = cell.first.and_then(|first| names.get(first)).map_or("", String::as_str);
    let lead = cell.lead.map_or(String::new(), |lead| format!(" x{lead:.2}"));
    match cell.standing {
        LeaderStatus::Wins => format!("{first}{lead}"),
        LeaderStatus::Level => format!("{first}~{lead}"),
        LeaderStatus::Undecided => format!("{first}?{lead}"),
        LeaderStatus::Nobody => "none".to_owned(),
    }
}
