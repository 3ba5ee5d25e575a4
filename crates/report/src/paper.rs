//! Renders a study as a page: published values on our curves, each finding with its effect, and each claim with its result.
//!
//! This module decides the order of the page and draws its figures. The content is plain data ([`Paper`]), so the report
//! does not depend on studies.

use super::bars::legend;
use super::chart::backend::Ink;
use super::chart::figure::{Data, Figure, Width};
use super::chart::{self, At, Axis, Frame, Mark, Shape};
use super::contrast::{self, Contrast};
use super::svg::{escape, shortened};
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
    /// The differences from the study as shipped.
    pub changed: Vec<String>,
    /// One line per table, and one line for the claims.
    pub summary: Vec<String>,
    /// The findings that are drawn as charts.
    pub charts: Vec<Contrast>,
    /// The prose of the study, as HTML.
    pub prose: String,
    /// The tables of the published work, as curves.
    pub tables: Vec<Sheet>,
    /// The result of every published cell.
    pub cells: Grid,
    /// The findings.
    pub causes: Grid,
    /// The claims.
    pub claims: Grid,
    /// Further tables, each with its title.
    pub more: Vec<(String, Grid)>,
    /// The parameters, and where their values come from.
    pub parameters: Grid,
    /// The command that reproduces the results.
    pub command: String,
    /// How to cite the published work.
    pub cite: String,
    /// The program version, the seeds and the changed assumptions.
    pub made: String,
}

/// A table of text.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    /// The column headings.
    pub heads: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
}

/// One table of the published work, drawn as curves.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// The name of the table.
    pub name: String,
    /// The name of the table, and a description of its values.
    pub title: String,
    /// The unit of the values.
    pub unit: String,
    /// The factor that varies along a curve.
    pub along: String,
    /// One panel for each combination of the other factors.
    pub panels: Vec<Panel>,
    /// Whether the table is also drawn as a map of the fastest contestants.
    pub map: bool,
}

impl Sheet {
    /// Returns whether there are published values to compare with.
    fn is_printed(&self) -> bool {
        let curves = self.panels.iter().flat_map(|panel| &panel.curves);
        curves.flat_map(|curve| &curve.printed).any(Option::is_some)
    }
}

/// Curves that share their axes.
#[derive(Clone, Debug)]
pub struct Panel {
    /// The levels of the factors that are the same for all curves of the panel.
    pub title: String,
    /// The levels of the factor that varies along the curves.
    pub levels: Vec<String>,
    /// One curve per contestant.
    pub curves: Vec<Curve>,
}

/// The values of one contestant, level by level.
#[derive(Clone, Debug)]
pub struct Curve {
    /// The name of the contestant.
    pub name: String,
    /// Our values at each level, as `[low, mean, high]`. `low` and `high` are the 2.5th and 97.5th percentile of means over
    /// as many runs as a published value averages.
    pub ours: Vec<Option<[f64; 3]>>,
    /// The published values; `None` for a level without one.
    pub printed: Vec<Option<f64>>,
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
    if !paper.changed.is_empty() {
        out.push_str("<div class=\"change\"><h2>Not the study as it is shipped</h2><ul>");
        for line in &paper.changed {
            let _ = write!(out, "<li>{}</li>", escape(line));
        }
        out.push_str("</ul></div>\n");
    }
    out.push_str("<div class=\"why\"><h2>What came out</h2><ul>");
    for line in &paper.summary {
        let _ = write!(out, "<li>{}</li>", escape(line));
    }
    out.push_str("</ul></div>\n");
    paper.tables.iter().filter(|sheet| sheet.map).for_each(|sheet| heat::draw(&mut out, sheet));
    contrast::draw_all(&mut out, &paper.charts);
    let (printed, own): (Vec<&Sheet>, Vec<&Sheet>) =
        paper.tables.iter().partition(|sheet| sheet.is_printed());
    for sheet in printed {
        draw(&mut out, sheet);
    }
    let _ = write!(
        out,
        "<section class=\"prose\">{}</section>\n<h2>Findings, each a run that can fail</h2>\n",
        paper.prose
    );
    grid_of(&mut out, &paper.causes, "words", Some("cause"));
    for sheet in own {
        draw(&mut out, sheet);
    }
    for (number, (title, more)) in paper.more.iter().enumerate() {
        let _ = writeln!(out, "<h2 id=\"more-{}\">{}</h2>", number + 1, escape(title));
        grid(&mut out, more, "words");
    }
    out.push_str("<h2>Parameters</h2>\n");
    grid(&mut out, &paper.parameters, "words");
    out.push_str("<h2>Claims, and what decides each</h2>\n");
    grid_of(&mut out, &paper.claims, "words", Some("claim"));
    if !paper.cells.rows.is_empty() {
        out.push_str("<h2 id=\"cells\">Printed cells</h2>\n");
        grid(&mut out, &paper.cells, "figures");
    }
    let _ = write!(
        out,
        "<h2>The same again</h2>\n<pre>{}</pre>\n<h2>To cite</h2>\n<p>{}</p>\n<footer><p>{}</p></footer>\n",
        escape(&paper.command),
        escape(&paper.cite),
        escape(&paper.made)
    );
    document::end(&mut out);
    out
}

fn grid(out: &mut String, grid: &Grid, class: &str) {
    grid_of(out, grid, class, None);
}

/// Writes a table of text. If `rows_are` is given, it names the kind of row. Each row then has an anchor made of that kind
/// and the name in its first cell, for links.
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

fn draw(out: &mut String, sheet: &Sheet) {
    let names: Vec<String> =
        sheet.panels.iter().flat_map(|panel| &panel.curves).fold(Vec::new(), |mut all, curve| {
            if !all.contains(&curve.name) {
                all.push(curve.name.clone());
            }
            all
        });
    let _ = write!(
        out,
        "<h2 id=\"table-{}\">{}</h2>\n{}",
        escape(&sheet.name),
        escape(&sheet.title),
        legend(&names)
    );
    let (areas, circles) = if sheet.is_printed() {
        ("what as many runs as a printed number averages give", " Circles: as printed.")
    } else {
        ("what a run gives", " Nothing is printed: the numbers are ours.")
    };
    let _ = write!(
        out,
        "<p class=\"note\">{}. Lines: the means of our runs; areas: {areas}, 19 times of 20.{circles}</p>\n\
         <div class=\"panels\">",
        escape(&super::words::capital(&sheet.unit))
    );
    for (number, panel) in sheet.panels.iter().enumerate() {
        let wide = if sheet.panels.len() == 1 { Width::Wide } else { Width::Half };
        draw_panel(out, sheet, panel, &names, (number, wide));
    }
    out.push_str("</div>\n");
}

fn draw_panel(
    out: &mut String,
    sheet: &Sheet,
    panel: &Panel,
    names: &[String],
    (number, wide): (usize, Width),
) {
    let ours = panel.curves.iter().flat_map(|curve| curve.ours.iter().flatten()).flatten();
    let printed = panel.curves.iter().flat_map(|curve| curve.printed.iter().flatten());
    let all: Vec<f64> = ours.chain(printed).copied().filter(|value| *value > 0.0).collect();
    let (Some(least), Some(most)) =
        (all.iter().copied().reduce(f64::min), all.iter().copied().reduce(f64::max))
    else {
        return;
    };
    let mut data = Data::new(&["contestant", &sheet.along, "ours", "low", "high", "printed"]);
    for curve in &panel.curves {
        for (i, level) in panel.levels.iter().enumerate() {
            let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
            let ours = curve.ours.get(i).copied().flatten();
            let printed = number(curve.printed.get(i).copied().flatten());
            let [low, mean, high] = [0, 1, 2].map(|at| number(ours.map(|ours| ours[at])));
            data.row(&[&curve.name, level, &mean, &low, &high, &printed]);
        }
    }
    let figure = Figure {
        name: format!("curves-{}", number + 1),
        heading: escape(&panel.title),
        shows: format!("{}, {}: {} over {}", sheet.title, panel.title, sheet.unit, sheet.along),
        data,
        ..Figure::default()
    };
    figure.render(out, wide, |svg, width| {
        let height = if width.is_narrow() { 240 } else { 270 };
        let frame = Frame { left: 60, below: 42, ..Frame::new(width.pixels(), height) };
        let levels: Vec<String> = panel.levels.iter().map(|level| level.chars().take(14).collect()).collect();
        let x = Axis::levels(&levels).named(sheet.along.as_str());
        let y = if most / least > 20.0 {
            Axis::logarithmic(least / 1.3, most * 1.3, plain)
        } else {
            Axis::linear(0.0, most * 1.08, 5, plain)
        };
        chart::draw(svg, frame, [&x, &y.named(shortened(short_unit(&sheet.unit), 30))], |plot| {
            for curve in &panel.curves {
                let place = names.iter().position(|name| *name == curve.name).unwrap_or(0);
                let ink = Ink::contestant(place);
                let at = |of: usize| -> Vec<At> {
                    let known =
                        curve.ours.iter().enumerate().filter_map(|(i, ours)| Some((i as f64, (*ours)?[of])));
                    known.filter(|(_, value)| *value > 0.0).collect()
                };
                let mut around = at(0);
                around.extend(at(2).into_iter().rev());
                chart::area(plot, around, ink, 0.16);
                chart::line(plot, at(1), ink, 1.6);
                chart::marks(plot, [Mark::many(at(1), Shape::Dots(1.8), ink)]);
                let printed = curve.printed.iter().enumerate().filter_map(|(i, value)| Some((i, (*value)?)));
                let marks = printed.map(|(i, value)| {
                    let title = format!("{}, {}: {} in print", curve.name, panel.levels[i], plain(value));
                    Mark::dot((i as f64, value), 4.6, ink, title).faint(0.75)
                });
                chart::marks(plot, marks);
            }
        });
        height
    });
}

/// Returns the unit for an axis, without the part in brackets. The note beside the figure has the full text.
pub(super) fn short_unit(unit: &str) -> &str {
    unit.split(" (").next().unwrap_or(unit)
}

/// Formats a number for an axis, without an exponent.
pub(super) fn plain(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{:.0}M", v / 1e6),
        v if v >= 1e4 => format!("{:.0}k", v / 1e3),
        v if v >= 10.0 => format!("{v:.0}"),
        v if v >= 1.0 => format!("{}", (v * 10.0).round() / 10.0),
        0.0 => "0".to_owned(),
        v => format!("{}", (v * 1000.0).round() / 1000.0),
    }
}
