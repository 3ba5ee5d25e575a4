//! Renders a study as a page: published values on our curves, each finding with its effect, and each claim with its
//! result.
//!
//! This module decides the order of the sections on the page: question, answer and pictures first, the accounting last.
//! The content is plain data ([`Paper`]), so this crate does not depend on the crate with the studies.

use super::contrast::{self, Contrast};
use super::graph::{self, Graph};
use super::sheet::{self, Sheet};
use super::svg::escape;
use super::{document, heat};
use std::fmt::Write;

/// The content of the page about a study.
#[derive(Clone, Debug, Default)]
pub struct Paper {
    /// The title of the published work.
    pub title: String,
    /// The authors, year and venue of the published work.
    pub source: String,
    /// The question that the published work asks.
    pub question: String,
    /// The answer of the study to the question, as HTML; empty if the study gives none.
    pub answer: String,
    /// The differences between this study and the study of the same name that is part of the program.
    pub changed: Vec<String>,
    /// Charts of the tables whose values differ from those of the study without the user's changes.
    pub against: Vec<Contrast>,
    /// The numbers that differ from those of the study without the user's changes.
    pub against_numbers: Grid,
    /// The summary of the results: one line per table, and one line for the claims.
    pub summary: Vec<String>,
    /// The findings of the study that are drawn as charts.
    pub charts: Vec<Contrast>,
    /// The prose of the study, as HTML.
    pub prose: String,
    /// The tables of the published work, drawn as curves.
    pub tables: Vec<Sheet>,
    /// Single runs that are drawn in the same way as the figures of the published work.
    pub graphs: Vec<Graph>,
    /// A table with one row for each published value, which compares it with our value.
    pub cells: Grid,
    /// The table of the study's findings (causes).
    pub causes: Grid,
    /// The table of the paper's claims and their outcomes.
    pub claims: Grid,
    /// Further tables, each with its title.
    pub more: Vec<(String, Grid)>,
    /// A table of the study's parameters, and where their values come from.
    pub parameters: Grid,
    /// The command that reproduces the results.
    pub command: String,
    /// How to cite the published work.
    pub cite: String,
    /// The program version, the seeds and the changed assumptions.
    pub provenance: String,
}

/// A table of text, with headings.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    /// The column headings.
    pub heads: Vec<String>,
    /// The rows, each with one text per column.
    pub rows: Vec<Vec<String>>,
}

/// Renders the page of a study.
#[must_use]
pub fn html(paper: &Paper) -> String {
    let mut out = document::begin(&paper.title);
    let title = escape(&paper.title);
    let _ = write!(
        out,
        "<header><p class=\"over\">anabranch study</p>\n<h1>{title}</h1>\n<p class=\"meta\">{}</p>\n\
         <p class=\"lead\">{}</p></header>\n",
        escape(&paper.source),
        escape(&paper.question)
    );
    if !paper.answer.is_empty() {
        let _ = writeln!(out, "<section class=\"prose answer\">{}</section>", paper.answer);
    }
    if !paper.changed.is_empty() {
        out.push_str("<div class=\"change\"><h2>Not the study as it is shipped</h2><ul>");
        for line in &paper.changed {
            let _ = write!(out, "<li>{}</li>", escape(line));
        }
        out.push_str("</ul></div>\n");
    }
    if !paper.against_numbers.heads.is_empty() {
        contrast::draw_all(&mut out, &paper.against);
        out.push_str("<h2 id=\"against\">What the change does: without it, and with it</h2>\n");
        grid(&mut out, &paper.against_numbers, "figures");
    }
    paper.tables.iter().filter(|sheet| sheet.map).for_each(|sheet| heat::draw(&mut out, sheet));
    contrast::draw_all(&mut out, &paper.charts);
    let (printed, own): (Vec<&Sheet>, Vec<&Sheet>) =
        paper.tables.iter().partition(|sheet| sheet.has_published_values());
    for sheet in printed {
        sheet::draw(&mut out, sheet);
    }
    graph::draw_all(&mut out, &paper.graphs);
    let _ = write!(
        out,
        "<section class=\"prose\">{}</section>\n<h2>Findings, each a run that can fail</h2>\n",
        paper.prose
    );
    grid_of(&mut out, &paper.causes, "words", Some("cause"));
    for sheet in own {
        sheet::draw(&mut out, sheet);
    }
    accounting(&mut out, paper);
    document::end(&mut out);
    out
}

/// Writes the last sections of the page: counts, parameters, claims and cells, the command, and how to cite.
fn accounting(out: &mut String, paper: &Paper) {
    out.push_str("<div class=\"why\"><h2>What came out, counted</h2><ul>");
    for line in &paper.summary {
        let _ = write!(out, "<li>{}</li>", escape(line));
    }
    out.push_str("</ul></div>\n");
    for (number, (title, more)) in paper.more.iter().enumerate() {
        let _ = writeln!(out, "<h2 id=\"more-{}\">{}</h2>", number + 1, escape(title));
        grid(out, more, "words");
    }
    out.push_str("<h2>Parameters</h2>\n");
    grid(out, &paper.parameters, "words");
    out.push_str("<h2>Claims, and what decides each</h2>\n");
    grid_of(out, &paper.claims, "words", Some("claim"));
    if !paper.cells.rows.is_empty() {
        out.push_str("<h2 id=\"cells\">Printed cells</h2>\n");
        grid(out, &paper.cells, "figures");
    }
    let _ = write!(
        out,
        "<h2>The same again</h2>\n<pre>{}</pre>\n<h2>To cite</h2>\n<p>{}</p>\n<footer><p>{}</p></footer>\n",
        escape(&paper.command),
        escape(&paper.cite),
        escape(&paper.provenance)
    );
}

fn grid(out: &mut String, grid: &Grid, class: &str) {
    grid_of(out, grid, class, None);
}

/// Writes a table of text. If `rows_are` is given, for example `cause`, other parts of the page can link to each row. A
/// row's anchor consists of `rows_are` and the text of the first cell.
fn grid_of(out: &mut String, grid: &Grid, class: &str, rows_are: Option<&str>) {
    if grid.rows.is_empty() {
        out.push_str("<p class=\"note\">None.</p>\n");
        return;
    }
    let _ = write!(out, "<div class=\"scroll\" tabindex=\"0\"><table class=\"cards {class}\"><thead><tr>");
    for head in &grid.heads {
        let _ = write!(out, "<th>{}</th>", escape(head));
    }
    out.push_str("</tr></thead><tbody>");
    for row in &grid.rows {
        match rows_are.zip(row.first()) {
            Some((what, name)) => {
                let _ = write!(out, "<tr id=\"{what}-{}\">", escape(name));
            }
            None => out.push_str("<tr>"),
        }
        for (head, cell) in grid.heads.iter().zip(row) {
            let _ = write!(out, "<td data-of=\"{}\">{}</td>", escape(head), escape(cell));
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>\n");
}
