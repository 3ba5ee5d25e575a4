//! Draws the tables of a study as charts: curves of our values, with marks for the published values. The module `heat`
//! draws the same tables as heat maps.

use super::bars::legend;
use super::chart::{self, Axis, ChartPoint, Data, Figure, Frame, Ink, Mark, Shape, Width};
use super::svg::{escape, plain, short_unit, shortened};
use super::words::{capital, distinct};
use anabranch_results::csv::optional;
use std::fmt::Write;

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
    /// Whether the table is also drawn as a heat map, in which the fastest contestant of each row stands out.
    pub map: bool,
}

impl Sheet {
    /// Returns whether there are published values to compare with.
    pub(super) fn has_published_values(&self) -> bool {
        let curves = self.panels.iter().flat_map(|panel| &panel.curves);
        curves.flat_map(|curve| &curve.published).any(Option::is_some)
    }
}

/// Curves of several contestants that share their axes.
#[derive(Clone, Debug)]
pub struct Panel {
    /// The title: the factors that are constant within the panel, each with its level.
    pub title: String,
    /// The levels of the factor that varies along the curves.
    pub levels: Vec<String>,
    /// One curve per contestant.
    pub curves: Vec<Curve>,
}

/// The values of one contestant at each level of the factor along the x axis.
#[derive(Clone, Debug)]
pub struct Curve {
    /// The name of the contestant.
    pub name: String,
    /// Our values at each level, as `[low, mean, high]`. `low` and `high` are the 2.5th and 97.5th percentile of
    /// resampled means. Each mean is over as many runs as the paper averaged.
    pub ours: Vec<Option<[f64; 3]>>,
    /// The published value at each level; `None` for a level without a published value.
    pub published: Vec<Option<f64>>,
}

/// Draws a study's table as curves.
pub(super) fn draw(out: &mut String, sheet: &Sheet) {
    let curves = sheet.panels.iter().flat_map(|panel| &panel.curves);
    let names = distinct(curves.map(|curve| curve.name.clone()));
    let _ = write!(
        out,
        "<h2 id=\"table-{}\">{}</h2>\n{}",
        escape(&sheet.name),
        escape(&sheet.title),
        legend(&names)
    );
    let (areas, circles) = if sheet.has_published_values() {
        ("what as many runs as a printed number averages give", " Circles: as printed.")
    } else {
        ("what a run gives", " Nothing is printed: the numbers are ours.")
    };
    let _ = write!(
        out,
        "<p class=\"note\">{}. Lines: the means of our runs; areas: {areas}, 19 times of 20.{circles}</p>\n\
         <div class=\"panels\">",
        escape(&capital(&sheet.unit))
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
    let own_values = panel.curves.iter().flat_map(|curve| curve.ours.iter().flatten()).flatten();
    let printed = panel.curves.iter().flat_map(|curve| curve.published.iter().flatten());
    let all: Vec<f64> = own_values.chain(printed).copied().filter(|value| *value > 0.0).collect();
    let (Some(least), Some(most)) =
        (all.iter().copied().reduce(f64::min), all.iter().copied().reduce(f64::max))
    else {
        return;
    };
    let mut data = Data::new(&["contestant", &sheet.along, "ours", "low", "high", "printed"]);
    for curve in &panel.curves {
        for (i, level) in panel.levels.iter().enumerate() {
            let own_value = curve.ours.get(i).copied().flatten();
            let printed = optional(curve.published.get(i).copied().flatten());
            let [low, mean, high] = [0, 1, 2].map(|at| optional(own_value.map(|own_value| own_value[at])));
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
        let height = width.pick(240, 270);
        let frame = Frame { left: 60, bottom: 42, ..Frame::new(width.pixels(), height) };
        let levels: Vec<String> = panel.levels.iter().map(|level| level.chars().take(14).collect()).collect();
        let x = Axis::levels(&levels).named(sheet.along.as_str());
        let y = if most / least > 20.0 {
            Axis::logarithmic(least / 1.3, most * 1.3, plain)
        } else {
            Axis::linear(0.0, most * 1.08, 5, plain)
        };
        chart::draw(svg, frame, [&x, &y.named(shortened(short_unit(&sheet.unit), 30))], |plot| {
            for curve in &panel.curves {
                let index = names.iter().position(|name| *name == curve.name).unwrap_or(0);
                let ink = Ink::contestant(index);
                let at = |of: usize| -> Vec<ChartPoint> {
                    let known = curve
                        .ours
                        .iter()
                        .enumerate()
                        .filter_map(|(i, own_value)| Some((i as f64, (*own_value)?[of])));
                    known.filter(|(_, value)| *value > 0.0).collect()
                };
                let mut around = at(0);
                around.extend(at(2).into_iter().rev());
                chart::area(plot, around, ink, 0.16);
                chart::line(plot, at(1), ink, 1.6);
                chart::marks(plot, [Mark::many(at(1), Shape::Dots(1.8), ink)]);
                let printed =
                    curve.published.iter().enumerate().filter_map(|(i, value)| Some((i, (*value)?)));
                let marks = printed.map(|(i, value)| {
                    let title = format!("{}, {}: {} in print", curve.name, panel.levels[i], plain(value));
                    Mark::dot((i as f64, value), 4.6, ink, title).faint(0.75)
                });
                chart::marks(plot, marks);
            }
        })
    });
}
