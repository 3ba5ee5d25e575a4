//! Draws single runs in the same way as the figures of papers: bytes and packets over time, and the sequence of
//! messages.

use super::bars::legend;
use super::chart::{self, Axis, ChartPoint, Data, Figure, Frame, Ink, Width};
use super::svg::{escape, plain};
use std::fmt::Write;

/// The drawn runs that correspond to one figure of a paper.
#[derive(Clone, Debug)]
pub struct Graph {
    /// The name of the figure in the paper.
    pub figure: String,
    /// The table of the study with these runs, and the levels of its factors.
    pub scope: String,
    /// The quantities that are drawn over time.
    pub panels: Vec<Panel>,
    /// The names of contestants, each with its message sequence chart as text.
    pub sequences: Vec<(String, String)>,
}

/// A diagram of one quantity over time, with a line for each contestant.
#[derive(Clone, Debug)]
pub struct Panel {
    /// The quantity and its unit.
    pub unit: String,
    /// The length of the time intervals, in seconds.
    pub interval: f64,
    /// The names of contestants, each with the value in every interval.
    pub lines: Vec<(String, Vec<f64>)>,
}

/// Draws the graphs of a study. Draws nothing if the study has none.
pub(super) fn draw_all(out: &mut String, graphs: &[Graph]) {
    if graphs.is_empty() {
        return;
    }
    out.push_str("<h2 id=\"graphs\">Single runs, as the figures show them</h2>\n");
    for graph in graphs {
        let _ = write!(
            out,
            "<h3>{}</h3>\n<p class=\"note\">{}. One run, with the first seed.</p>\n",
            escape(&graph.figure),
            escape(&graph.scope)
        );
        for panel in &graph.panels {
            draw(out, graph, panel);
        }
        for (name, text) in &graph.sequences {
            let _ = write!(
                out,
                "<h4>{}</h4>\n<div class=\"scroll\" tabindex=\"0\"><pre>{}</pre></div>\n",
                escape(name),
                escape(text)
            );
        }
    }
}

fn draw(out: &mut String, graph: &Graph, panel: &Panel) {
    let values = || panel.lines.iter().flat_map(|(_, values)| values).copied();
    let most = values().fold(0.0, f64::max);
    let count = panel.lines.iter().map(|(_, values)| values.len()).max().unwrap_or(0);
    if most <= 0.0 || count == 0 {
        return;
    }
    let names: Vec<String> = panel.lines.iter().map(|(name, _)| name.clone()).collect();
    let mut data = Data::new(&["contestant", "from (s)", &panel.unit]);
    for (name, values) in &panel.lines {
        for (number, value) in values.iter().enumerate() {
            data.row(&[name.clone(), format!("{:.1}", number as f64 * panel.interval), value.to_string()]);
        }
    }
    let about = format!("{}, each {:.1} s", panel.unit, panel.interval);
    let figure = Figure {
        name: "graph".to_owned(),
        heading: escape(&about),
        legend: legend(&names),
        shows: format!("{}: {about}, over time", graph.figure),
        data,
        ..Figure::default()
    };
    figure.render(out, Width::Wide, |svg, width| {
        let height = width.pick(200, 230);
        let frame = Frame { left: 74, bottom: 22, ..Frame::new(width.pixels(), height) };
        let x = Axis::time(0.0, count as f64 * panel.interval * 1e3, width.pick(4, 8));
        let y = Axis::linear(0.0, most * 1.06, 4, plain);
        chart::draw(svg, frame, [&x, &y], |plot| {
            for (index, (_, values)) in panel.lines.iter().enumerate() {
                let at = |number: usize| (number as f64 + 0.5) * panel.interval * 1e3;
                let points: Vec<ChartPoint> =
                    values.iter().enumerate().map(|(number, value)| (at(number), *value)).collect();
                chart::line(plot, points, Ink::contestant(index), 1.5);
            }
        })
    });
}
