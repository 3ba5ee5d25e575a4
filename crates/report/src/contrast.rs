//! A chart of a finding, which is the effect of one change of the plan. The chart compares the simulated values without
//! the change, the simulated values with the change, and the published values.
//!
//! In each row, every contestant has three marks. A disc is the simulated value without the change. A ring is the
//! simulated value with the change. An upright stroke is the published value.

use super::chart::{self, Axis, Data, Figure, Frame, Ink, Mark, Shape, Width};
use super::svg::{escape, plain, short_unit, shortened};
use super::words::distinct;
use anabranch_results::csv::optional;
use std::fmt::Write;

/// A finding of a study: the effect of one change of the plan on the simulated values. Each row shows these values
/// without the change and with the change.
#[derive(Clone, Debug)]
pub struct Contrast {
    /// The identifier of the finding.
    pub id: String,
    /// The subject of the finding, in a few words.
    pub heading: String,
    /// The finding in one sentence, with its effect.
    pub sentence: String,
    /// The change that the finding is about.
    pub change: String,
    /// The name of the finding's table, and the factor levels that are the same in all rows of the chart.
    pub scope: String,
    /// The unit of the values.
    pub unit: String,
    /// The factor whose level differs from row to row of the chart.
    pub along: String,
    /// The rows of the figure, from top to bottom.
    pub rows: Vec<Row>,
}

/// One row of the chart: a level of the varying factor, with the values of all contestants.
#[derive(Clone, Debug)]
pub struct Row {
    /// The label of the row: the level of the varying factor.
    pub label: String,
    /// The marks of each contestant in this row.
    pub marks: Vec<Marks>,
}

/// One contestant's published and simulated values in a row of the chart.
#[derive(Clone, Debug)]
pub struct Marks {
    /// The name of the contestant.
    pub contestant: String,
    /// The published value; `None` if none is published.
    pub published: Option<f64>,
    /// The simulated value without the finding's change: the mean, and the two ends of its 95 % interval.
    pub without: Option<[f64; 3]>,
    /// The simulated value with the finding's change: the mean, and the two ends of its 95 % interval.
    pub with: Option<[f64; 3]>,
}

impl Marks {
    fn all(&self) -> impl Iterator<Item = f64> + '_ {
        self.without.iter().chain(&self.with).flatten().chain(&self.published).copied()
    }
}

/// Writes the figure of a finding.
pub(super) fn draw(out: &mut String, contrast: &Contrast) {
    let all = || contrast.rows.iter().flat_map(|row| &row.marks);
    let names = distinct(all().map(|marks| marks.contestant.clone()));
    let values = || all().flat_map(Marks::all).filter(|value| *value > 0.0);
    let (Some(least), Some(most)) = (values().reduce(f64::min), values().reduce(f64::max)) else { return };
    let is_printed = all().any(|marks| marks.published.is_some());
    let is_drawn_from_seeds =
        all().flat_map(|marks| marks.without.iter().chain(&marks.with)).any(|[_, low, high]| low < high);
    let printed = if is_printed { " Stroke: as printed." } else { " Nothing is printed." };
    let lines = if is_drawn_from_seeds {
        " Lines: 95 % intervals."
    } else {
        " One run each: nothing is drawn from the seeds."
    };
    let figure = Figure {
        name: format!("change-{}", contrast.id),
        heading: escape(&contrast.heading),
        legend: format!(
            "<p class=\"says\">{}</p>{}",
            escape(&contrast.sentence),
            super::bars::legend(&names)
        ),
        shows: format!("{}: {}", contrast.heading, contrast.sentence),
        note: format!(
            "{}; {}. Disc: without that. Ring: with <code>{}</code>.{printed}{lines}",
            escape(&contrast.scope),
            escape(&contrast.unit),
            escape(&contrast.change)
        ),
        data: data(contrast),
    };
    figure.render(out, Width::Half, |svg, width| {
        // Each row of the chart draws its contestants one below the other.
        let (between, many) = (15, names.len().max(1));
        let row = between * many as u32 + 12;
        let height = row * contrast.rows.len() as u32 + 52;
        let longest = contrast.rows.iter().map(|row| row.label.chars().count()).max().unwrap_or(0).min(16);
        let frame = Frame { left: 32 + 7 * longest as u32, bottom: 42, ..Frame::new(width.pixels(), height) };
        let row_labels: Vec<String> = contrast.rows.iter().map(|row| shortened(&row.label, 16)).collect();
        let ticks = width.pick(4, 6);
        let x = if most / least > 20.0 {
            Axis::logarithmic(least / 1.25, most * 1.25, plain)
        } else {
            Axis::linear(0.0, most * 1.06, ticks, plain)
        };
        let unit = shortened(short_unit(&contrast.unit), width.pick(40, 60));
        let y = Axis::names(&row_labels).named(shortened(&contrast.along, 14));
        chart::draw(svg, frame, [&x.named(unit), &y], |plot| {
            for (number, row_of) in contrast.rows.iter().enumerate() {
                for marks in &row_of.marks {
                    let index = names.iter().position(|name| *name == marks.contestant).unwrap_or(0);
                    let ink = Ink::contestant(index);
                    let share = f64::from(between) / f64::from(row);
                    let y = number as f64 + (index as f64 - (many - 1) as f64 / 2.0) * share;
                    let named = |what: &str| format!("{}, {}: {what}", row_of.label, marks.contestant);
                    if let (Some([one, ..]), Some([other, ..])) = (marks.without, marks.with) {
                        chart::faint_line(plot, [(one, y), (other, y)], (ink, 0.35), 3.0);
                    }
                    for interval in [marks.without, marks.with] {
                        let Some([_, low, high]) = interval.filter(|[_, low, high]| low < high) else {
                            continue;
                        };
                        chart::line(plot, [(low.max(least / 1.25), y), (high, y)], ink, 1.2);
                    }
                    if let Some([mean, ..]) = marks.with {
                        let title = named(&format!("{} with the change", plain(mean)));
                        let ring = Mark::dot((mean, y), 5.0, ink, title.clone());
                        chart::marks(plot, [ring, Mark::dot((mean, y), 3.2, Ink::named("paper"), title)]);
                    }
                    if let Some([mean, ..]) = marks.without {
                        let title = named(&format!("{} without that", plain(mean)));
                        chart::marks(plot, [Mark::dot((mean, y), 3.4, ink, title)]);
                    }
                    if let Some(value) = marks.published {
                        let half = share * 0.46;
                        chart::line(plot, [(value, y - half), (value, y + half)], Ink::named("ink"), 2.0);
                        let title = named(&format!("{} in print", plain(value)));
                        let point = Mark {
                            shape: Shape::Dot(6.0),
                            ..Mark::dot((value, y), 6.0, Ink::named("ink"), title)
                        };
                        chart::marks(plot, [point.faint(0.0)]);
                    }
                }
            }
        })
    });
}

fn data(contrast: &Contrast) -> Data {
    let along = if contrast.along.is_empty() { "place" } else { &contrast.along };
    let columns = ["contestant", along, "printed", "without", "low", "high", "with", "low", "high"];
    let mut data = Data::new(&columns);
    for row in &contrast.rows {
        for marks in &row.marks {
            let three = |of: Option<[f64; 3]>| [0, 1, 2].map(|at| optional(of.map(|of| of[at])));
            let mut cells = vec![marks.contestant.clone(), row.label.clone(), optional(marks.published)];
            cells.extend(three(marks.without));
            cells.extend(three(marks.with));
            data.row(&cells);
        }
    }
    data
}

/// Writes the figures of all findings.
pub(super) fn draw_all(out: &mut String, contrasts: &[Contrast]) {
    if contrasts.is_empty() {
        return;
    }
    out.push_str("<h2>What one change does</h2>\n<div class=\"two changes\">");
    for contrast in contrasts {
        let _ = write!(out, "<div id=\"change-{}\">", escape(&contrast.id));
        draw(out, contrast);
        out.push_str("</div>");
    }
    out.push_str("</div>\n");
}
