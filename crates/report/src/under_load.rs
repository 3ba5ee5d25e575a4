//! The page of `load --html` and `bulk --html`: latency under load, and the load itself, over the time of the test.
//!
//! Each quantity has a panel, and all panels have the same time axis. Latency has a logarithmic axis, because its 99th
//! percentile may be a hundred times its median.

use super::chart::{self, Axis, ChartPoint, Data, Figure, Frame, Ink, Width};
use super::document;
use super::svg::{self, escape, plain};
use std::fmt::Write;

/// A test of a network or a server, with quantities over time.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct UnderLoad {
    /// What was tested, in one line.
    pub title: String,
    /// The command as it was typed.
    pub command: String,
    /// Lines about the whole test.
    pub facts: Vec<String>,
    /// The quantities, from top to bottom.
    pub panels: Vec<Panel>,
    /// The version of the program.
    pub version: String,
}

/// A quantity over time.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Panel {
    /// The base name of the files of a saved figure: letters and hyphens.
    pub file: &'static str,
    /// The quantity, for example `latency of requests`.
    pub quantity: &'static str,
    /// The unit of the values.
    pub unit: &'static str,
    /// Whether the axis is logarithmic, if the values differ enough.
    pub logarithmic: bool,
    /// The curves: the name of each, and its points. A point has the seconds since the start, and the value.
    pub curves: Vec<(&'static str, Vec<(f64, f64)>)>,
}

/// Renders the page. Equal tests give equal bytes.
#[must_use]
pub fn html(test: &UnderLoad) -> String {
    let mut out = document::begin(&test.title);
    let _ = write!(
        out,
        "<header><p class=\"over\">anabranch</p>\n<h1>{}</h1>\n<p class=\"meta\"><code>{}</code></p></header>\n",
        escape(&test.title),
        escape(&test.command)
    );
    for fact in &test.facts {
        let _ = writeln!(out, "<p>{}</p>", escape(fact));
    }
    let points = test.panels.iter().flat_map(|panel| &panel.curves).flat_map(|(_, points)| points);
    let end = points.map(|(at, _)| *at).fold(0.0, f64::max);
    if end > 0.0 {
        test.panels.iter().for_each(|panel| draw(&mut out, panel, end));
    } else {
        out.push_str(
            "<p class=\"note\">The test ended before its first interval, so there is nothing to draw.</p>\n",
        );
    }
    let _ = writeln!(
        out,
        "<footer><p>anabranch {}. Real time: another test will differ.</p></footer>",
        test.version
    );
    document::end(&mut out);
    out
}

/// A logarithmic axis whose largest value is less than this many times the smallest would have only one or two ticks, so
/// the axis is linear instead.
const LEAST_LOGARITHMIC_RATIO: f64 = 20.0;

/// Draws a panel whose time axis has `end` seconds.
fn draw(out: &mut String, panel: &Panel, end: f64) {
    let curves: Vec<_> = panel.curves.iter().filter(|(_, points)| !points.is_empty()).collect();
    let values = || curves.iter().flat_map(|(_, points)| points).map(|(_, value)| *value);
    let high = values().fold(0.0, f64::max);
    let Some(low) = values().filter(|value| *value > 0.0).min_by(f64::total_cmp) else { return };
    let mut data = Data::new(&["curve", "at (s)", &format!("{} ({})", panel.quantity, panel.unit)]);
    for (name, points) in &curves {
        for (at, value) in points {
            data.row(&[(*name).to_owned(), format!("{at:.3}"), plain(*value)]);
        }
    }
    let key = |(index, (name, _)): (usize, &&(&str, Vec<ChartPoint>))| {
        format!("<li><span class=\"key\" style=\"background:var(--c{index})\"></span>{}</li>", escape(name))
    };
    let legend: String = curves.iter().enumerate().map(key).collect();
    let figure = Figure {
        name: panel.file.to_owned(),
        heading: format!("{}, {}", super::words::capital(panel.quantity), panel.unit),
        legend: format!("<ul class=\"legend\">{legend}</ul>"),
        shows: format!(
            "{} over time, from {} to {} {}.",
            super::words::capital(panel.quantity),
            svg::format_value(values().fold(f64::INFINITY, f64::min)),
            svg::format_value(high),
            panel.unit
        ),
        data,
        ..Figure::default()
    };
    figure.render(out, Width::Wide, |drawing, width| {
        let frame = Frame::new(width.pixels(), width.pick(200, 240));
        let x = Axis::linear(0.0, end, width.pick(4, 10), plain).named("seconds since the start");
        let y = match panel.logarithmic && high > low * LEAST_LOGARITHMIC_RATIO {
            true => Axis::logarithmic(low * 0.9, high * 1.1, svg::format_value),
            false => Axis::linear(0.0, high * 1.05, 5, svg::format_value),
        };
        chart::draw(drawing, frame, [&x, &y], |plot| {
            for (index, (_, points)) in curves.iter().enumerate() {
                chart::line(plot, points.iter().copied(), Ink::contestant(index), 1.8);
            }
        })
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test() -> UnderLoad {
        let curve = |scale: f64| (1..=5).map(|at| (f64::from(at), scale * f64::from(at))).collect();
        UnderLoad {
            title: "http://a/ under load".to_owned(),
            command: "anabranch load <http://a/>".to_owned(),
            facts: vec!["500 replies".to_owned()],
            panels: vec![Panel {
                file: "latency",
                quantity: "latency",
                unit: "ms",
                logarithmic: true,
                curves: vec![
                    ("median", curve(1.0)),
                    ("99th percentile", curve(80.0)),
                    ("maximum", Vec::new()),
                ],
            }],
            version: "0.1.0".to_owned(),
        }
    }

    #[test]
    fn equal_tests_give_equal_pages_with_each_curve_and_unit() {
        let page = html(&test());
        assert_eq!(page, html(&test()));
        // Each of two drawings has two curves. The third has no points.
        assert_eq!(page.matches("<li><span class=\"key\"").count(), 2, "{page}");
        assert!(page.contains("Latency, ms") && page.contains("seconds since the start"));
        assert!(page.contains("99th percentile,5.000,400"), "the numbers of the figure");
        assert!(page.contains("anabranch load &lt;http://a/&gt;") && !page.contains("<http://a/>"));
    }

    #[test]
    fn every_axis_has_several_ticks() {
        let labels = |scale: f64| {
            let mut test = test();
            let curve =
                |factor: f64| (1..=5).map(|at| (f64::from(at), factor * (7.0 + f64::from(at)))).collect();
            test.panels[0].curves = vec![("median", curve(1.0)), ("maximum", curve(scale))];
            let page = html(&test);
            // The labels of the vertical axis of the wide drawing end at the axis.
            let drawing = page.split("<svg").nth(1).expect("a drawing");
            let labels = drawing.split("<text class=\"end\"").skip(1);
            let text = |rest: &str| rest.split(['>', '<']).nth(1).expect("a text").to_owned();
            labels.map(text).collect::<Vec<_>>()
        };
        assert_eq!(labels(1.5), ["0", "5.00", "10.0", "15.0"]);
        assert_eq!(labels(50.0), ["10.0", "30.0", "100", "300"]);
    }

    #[test]
    fn a_test_without_an_interval_says_so() {
        let page = html(&UnderLoad { panels: Vec::new(), ..test() });
        assert!(page.contains("nothing to draw") && !page.contains("<figure"), "{page}");
    }
}
