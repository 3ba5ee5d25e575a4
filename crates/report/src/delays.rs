//! Shows the delays of messages in three ways: as a table, as a distribution over all runs, and message by message in
//! the median run. In the drawing of the median run, each message has the colour of the largest part of its delay.

use super::chart::{Data, Figure, Width};
use super::distributions::Samples;
use super::parts::{self, PARTS, Strokes};
use super::standing::{versus_first, versus_text};
use super::svg::{self, Scale, escape, ms, px, span};
use super::words;
use super::{median_runs, outcome};
use anabranch_results::csv::optional;
use anabranch_results::{Object, Point, Run};
use std::fmt::Write;

/// The height of the plot with the messages of the median run, in pixels.
const PLOT_HEIGHT: f64 = 120.0;

pub(super) fn render(out: &mut String, point: &Point) {
    table(out, point);
    let names = words::names(point);
    let values = point.contestants.iter().map(|contestant| sorted(contestant.runs.iter().flat_map(delays)));
    let samples =
        Samples { file: "delays", quantity: "delays of messages", names: &names, values: values.collect() };
    samples.render(out);
    parts::render(out, point);
    over_time(out, point);
}

/// Returns the values in ascending order.
pub(super) fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut all: Vec<f64> = values.collect();
    all.sort_unstable_by(f64::total_cmp);
    all
}

/// Returns the response times of a run's delivered objects in milliseconds, without background objects. For a workload
/// of messages, these are the delays of the messages.
pub(super) fn delays(run: &Run) -> impl Iterator<Item = f64> + '_ {
    let measured = run.objects.iter().filter(|object| !object.background);
    measured.filter_map(|o| Some(o.delivered_ns?.saturating_sub(o.issued_ns?) as f64 / 1e6))
}

fn table(out: &mut String, point: &Point) {
    out.push_str("<h2>Delay of a message</h2>\n");
    let first = point.contestants.first().map_or("", |contestant| contestant.label());
    let _ = writeln!(
        out,
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"cards\"><thead><tr><th>contestant</th><th>median</th><th>95th<br>percentile</th>\
         <th>99th<br>percentile</th><th>longest</th><th>95th, ratio to {}<br><span class=\"unit\">95 % interval</span></th>\
         <th>undelivered</th><th>failed<br>runs</th></tr></thead><tbody>",
        escape(first)
    );
    let best = point
        .contestants
        .iter()
        .filter_map(|contestant| contestant.summary.object_p95_ms.geometric_mean)
        .fold(f64::INFINITY, f64::min);
    for contestant in &point.contestants {
        let summary = &contestant.summary;
        let cell = |mean: Option<f64>| mean.map_or("–".to_owned(), span);
        let class = if summary.object_p95_ms.geometric_mean == Some(best) { " class=\"best\"" } else { "" };
        let ratio = versus_first(point, contestant, "object_p95_ms");
        let ratio = ratio.map_or("<span class=\"unit\">1</span>".to_owned(), versus_text);
        let failed = match summary.object_p95_ms.failed {
            0 => "0".to_owned(),
            n => format!("<span class=\"bad\">{n} of {}</span>", contestant.runs.len()),
        };
        let _ = writeln!(
            out,
            "<tr><th>{}</th><td data-of=\"median\">{}</td><td data-of=\"95th percentile\"{class}>{}</td><td data-of=\"99th percentile\">{}</td>\
             <td data-of=\"longest\">{}</td><td data-of=\"95th, ratio\"><span>{ratio}</span></td><td data-of=\"undelivered\">{}</td>\
             <td data-of=\"failed runs\">{failed}</td></tr>",
            words::head(contestant),
            cell(summary.object_p50_ms.geometric_mean),
            cell(summary.object_p95_ms.geometric_mean),
            cell(summary.object_p99_ms.geometric_mean),
            cell(summary.object_max_ms.geometric_mean),
            summary.undelivered.mean.map_or("–".to_owned(), svg::format_value),
        );
    }
    out.push_str(
        "</tbody></table></div>\n<p class=\"note\">Each figure is the geometric mean over the runs of that run's own. A delay counts from the \
         planned instant of a message, also while its sender had no room for it.</p>\n",
    );
}

fn over_time(out: &mut String, point: &Point) {
    let runs: Vec<_> = median_runs(point).collect();
    if runs.iter().all(|(_, _, run)| run.objects.is_empty()) {
        return;
    }
    out.push_str("<h2>The median run, message by message</h2>\n");
    let mut present = [false; 13];
    for (_, _, run) in &runs {
        for object in run.objects.iter().filter(|object| !object.background) {
            if let Some(part) = largest(object) {
                present[part] = true;
            }
        }
    }
    parts::legend(out, present);
    let issued = runs.iter().flat_map(|(_, _, run)| run.objects.iter().filter_map(|o| o.issued_ns));
    let end = issued.max().unwrap_or(1) as f64 / 1e6;
    for (_, name, run) in runs {
        let mut data = Data::new(&["message", "stream", "planned (ms)", "delay (ms)", "mostly"]);
        for object in run.objects.iter().filter(|object| !object.background) {
            let ms = |ns: Option<u64>| ns.map_or(String::new(), |ns| format!("{:.3}", ms(ns)));
            let delay =
                object.delivered_ns.zip(object.issued_ns).map(|(until, from)| until.saturating_sub(from));
            let mostly = largest(object).map_or("", |part| PARTS[part].1);
            let stream = optional(object.stream);
            data.row(&[object.name.clone(), stream, ms(object.issued_ns), ms(delay), mostly.to_owned()]);
        }
        let figure = Figure {
            name: "messages".to_owned(),
            heading: format!(
                "{} <span class=\"meta\">seed {}{}</span>",
                escape(&name),
                run.seed,
                outcome(run)
            ),
            shows: format!(
                "Delays of the messages of {name} over time; longest {}.",
                span(delays(run).fold(0.0, f64::max))
            ),
            data,
            ..Figure::default()
        };
        figure.render(out, Width::Wide, |svg, width| sticks(svg, run, end, width));
    }
    out.push_str(
        "<p class=\"note\">Each message is a stroke at its planned instant, as high as its delay, in the colour of the part that \
         took most of it; crosses were not delivered. Every contestant has a height scale of its own.</p>\n",
    );
}

/// Returns the largest part of an object's response time, as an index into [`PARTS`].
fn largest(object: &Object) -> Option<usize> {
    let values = parts::values(object.why.as_ref()?, object.send_detail.as_ref());
    (0..values.len()).max_by_key(|&part| (values[part], std::cmp::Reverse(part)))
}

fn sticks(out: &mut String, run: &Run, end: f64, width: Width) -> u32 {
    let (whole, left, right) = (f64::from(width.pixels()), 60.0, 16.0);
    let x = Scale::new(0.0, end, left, whole - left - right);
    let high = delays(run).fold(0.0_f64, f64::max).max(1e-6);
    let y = Scale::new(0.0, high, PLOT_HEIGHT, -PLOT_HEIGHT + 8.0);
    let heights = Scale::new(0.0, high, 0.0, 1.0).ticks(3);
    for (tick, label) in heights.iter().zip(svg::time_labels(&heights)) {
        svg::line(out, "grid", (left, y.at(*tick)), (whole - right, y.at(*tick)));
        svg::text(out, "plain end", (left - 6.0, y.at(*tick) + 3.0), &label);
    }
    let ticks = x.ticks(width.pick(4, 8));
    for (tick, label) in ticks.iter().zip(svg::time_labels(&ticks)) {
        svg::text(out, "plain mid", (x.at(*tick), PLOT_HEIGHT + 16.0), &label);
    }
    let mut strokes = Strokes::default();
    for object in run.objects.iter().filter(|object| !object.background) {
        let Some(issued) = object.issued_ns else { continue };
        let at = x.at(issued as f64 / 1e6);
        let Some(delivered) = object.delivered_ns else {
            let _ = write!(strokes.missing, "M{} {}l4 4m-4 0l4 -4", px(at - 2.0), px(PLOT_HEIGHT - 5.0));
            continue;
        };
        let top = y.at(delivered.saturating_sub(issued) as f64 / 1e6);
        let path = match largest(object) {
            Some(part) => &mut strokes.parts[part],
            None => &mut strokes.unknown,
        };
        let _ = write!(path, "M{} {}V{}", px(at), px(PLOT_HEIGHT), px(top));
    }
    let count = run.objects.len().max(1) as f64;
    strokes.write(out, ((whole - left - right) / count * 0.8).clamp(0.4, 3.0));
    svg::line(out, "axis", (left, PLOT_HEIGHT), (whole - right, PLOT_HEIGHT));
    PLOT_HEIGHT as u32 + 22
}
