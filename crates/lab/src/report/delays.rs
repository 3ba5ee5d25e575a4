//! Delays of messages: how they are distributed over all runs, and in the
//! median run message by message over time, each coloured by what took most
//! of it.

use super::parts::{self, PARTS};
use super::svg::{self, Scale, escape, px, span};
use super::times::{versus_first, versus_text};
use super::{median_run, outcome};
use crate::results::{Contestant, Object, Point, Run};
use std::fmt::Write;

const WIDTH: f64 = 1040.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 16.0;
/// Height of the plot of shares, and of a run's.
const SHARES: f64 = 220.0;
const STICKS: f64 = 120.0;
/// Colours of contestants, in their order.
const COLOURS: [&str; 6] = ["cwnd", "timeout", "ahead", "blocked", "stalled", "queue"];

pub(super) fn render(out: &mut String, point: &Point) {
    table(out, point);
    shares(out, point);
    parts::render(out, point);
    over_time(out, point);
}

fn table(out: &mut String, point: &Point) {
    out.push_str("<h2>Delay of a message</h2>\n");
    let first = point.contestants.first().map_or("", |contestant| contestant.label());
    let _ = writeln!(
        out,
        "<div class=\"scroll keep\"><table><thead><tr><th>contestant</th><th>median</th><th>95th<br>percentile</th>\
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
            "<tr><th>{}</th><td>{}</td><td{class}>{}</td><td>{}</td><td>{}</td><td>{ratio}</td><td>{}</td><td>{failed}</td></tr>",
            svg::name(contestant.label()),
            cell(summary.object_p50_ms.geometric_mean),
            cell(summary.object_p95_ms.geometric_mean),
            cell(summary.object_p99_ms.geometric_mean),
            cell(summary.object_max_ms.geometric_mean),
            summary.undelivered.mean.map_or("–".to_owned(), svg::figure),
        );
    }
    out.push_str(
        "</tbody></table></div>\n<p class=\"note\">Each figure is the geometric mean over the runs of that run's own. A delay counts from the \
         planned instant of a message, also while its sender had no room for it.</p>\n",
    );
}

/// Delays of the delivered messages of a run, milliseconds.
fn delays(run: &Run) -> impl Iterator<Item = f64> + '_ {
    let measured = run.objects.iter().filter(|object| !object.background);
    measured.filter_map(|o| Some(o.delivered_ns?.saturating_sub(o.issued_ns?) as f64 / 1e6))
}

/// For each contestant the share of its messages that took longer than a delay, both on logarithmic scales: the tail is
/// what transports differ in.
fn shares(out: &mut String, point: &Point) {
    let sorted = |contestant: &Contestant| {
        let mut all: Vec<f64> = contestant.runs.iter().flat_map(delays).collect();
        all.sort_unstable_by(f64::total_cmp);
        all
    };
    let all: Vec<(&Contestant, Vec<f64>)> = point
        .contestants
        .iter()
        .map(|contestant| (contestant, sorted(contestant)))
        .filter(|(_, delays)| !delays.is_empty())
        .collect();
    let (low, high) = all.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), (_, delays)| {
        (low.min(delays[0]), high.max(delays[delays.len() - 1]))
    });
    let most = all.iter().map(|(_, delays)| delays.len()).max().unwrap_or(0);
    if most < 2 || low <= 0.0 {
        return;
    }
    out.push_str("<h3>Share of messages that take longer</h3>\n<ul class=\"legend\">");
    for (i, (contestant, _)) in all.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        let _ = write!(
            out,
            "<li><span class=\"key\" style=\"background:var(--{colour})\"></span>{}</li>",
            svg::name(contestant.label())
        );
    }
    out.push_str("</ul>\n<figure>");
    let least = (1.0 / most as f64).log10().floor();
    let x = Scale::new((low * 0.9).log10(), (high * 1.1).log10(), LEFT, WIDTH - LEFT - RIGHT);
    let y = Scale::new(least, 0.0, SHARES, -SHARES + 8.0);
    svg::open(out, WIDTH, SHARES + 22.0, "share of messages that took longer than a delay");
    for power in least as i64..=0 {
        let at = y.at(power as f64);
        svg::line(out, "grid", (LEFT, at), (WIDTH - RIGHT, at));
        let percent = 100.0 * 10_f64.powi(power as i32);
        svg::text(out, "end small", (LEFT - 6.0, at + 3.0), &format!("{percent}\u{a0}%"));
    }
    for power in (low * 0.9).log10().floor() as i64..=(high * 1.1).log10().ceil() as i64 {
        for step in [1.0, 2.0, 5.0] {
            let value = step * 10_f64.powi(power as i32);
            if value < low * 0.9 || value > high * 1.1 {
                continue;
            }
            let at = x.at(value.log10());
            svg::line(out, "grid", (at, 8.0), (at, SHARES));
            svg::text(out, "mid", (at, SHARES + 16.0), &span(value));
        }
    }
    for (i, (_, delays)) in all.iter().enumerate() {
        let n = delays.len() as f64;
        let mut path = format!("M{} {}", px(LEFT), px(y.at(0.0)));
        let mut last = (f64::NAN, f64::NAN);
        for (rank, delay) in delays.iter().enumerate() {
            // At this delay the share of those that take longer falls to what is left.
            let left = (n - 1.0 - rank as f64) / n;
            let (to, level) = (x.at(delay.log10()), y.at(if left > 0.0 { left.log10() } else { least }));
            if last.0.is_nan()
                || (to - last.0).abs() > 0.5
                || (level - last.1).abs() > 0.5
                || rank + 1 == delays.len()
            {
                let _ = write!(path, "H{}V{}", px(to), px(level));
                last = (to, level);
            }
        }
        let colour = COLOURS[i % COLOURS.len()];
        let _ = write!(out, r#"<path class="bar" stroke="var(--{colour})" stroke-width="1.8" d="{path}"/>"#);
    }
    out.push_str(
        "</svg></figure>\n<p class=\"note\">All delivered messages of all runs; both scales are logarithmic. A line further left is \
         sooner; one that falls steeply has no tail.</p>\n",
    );
}

fn over_time(out: &mut String, point: &Point) {
    let runs: Vec<(&Contestant, &Run)> = point
        .contestants
        .iter()
        .filter_map(|contestant| Some((contestant, median_run(contestant)?)))
        .collect();
    if runs.iter().all(|(_, run)| run.objects.is_empty()) {
        return;
    }
    out.push_str("<h2>The median run, message by message</h2>\n");
    let mut present = [false; 12];
    for (_, run) in &runs {
        for object in run.objects.iter().filter(|object| !object.background) {
            if let Some(part) = largest(object) {
                present[part] = true;
            }
        }
    }
    parts::legend(out, present);
    let end =
        runs.iter().flat_map(|(_, run)| run.objects.iter().filter_map(|o| o.issued_ns)).max().unwrap_or(1);
    let x = Scale::new(0.0, end as f64 / 1e6, LEFT, WIDTH - LEFT - RIGHT);
    for (contestant, run) in runs {
        let _ = writeln!(
            out,
            "<h3>{} <span class=\"meta\">seed {}{}</span></h3><figure>",
            svg::name(contestant.label()),
            run.seed,
            outcome(run)
        );
        sticks(out, contestant.label(), run, &x);
        out.push_str("</figure>\n");
    }
    out.push_str(
        "<p class=\"note\">Each message is a stroke at its planned instant, as high as its delay, in the colour of the part that \
         took most of it; crosses were not delivered. Every contestant has a height scale of its own.</p>\n",
    );
}

/// The part that took most of an object's response time.
fn largest(object: &Object) -> Option<usize> {
    let values = parts::values(object.why.as_ref()?, object.send_detail.as_ref());
    (0..values.len()).max_by_key(|&part| (values[part], std::cmp::Reverse(part)))
}

fn sticks(out: &mut String, name: &str, run: &Run, x: &Scale) {
    let high = delays(run).fold(0.0_f64, f64::max).max(1e-6);
    let y = Scale::new(0.0, high, STICKS, -STICKS + 8.0);
    svg::open(out, WIDTH, STICKS + 20.0, &format!("delays of {name} over time"));
    let heights = Scale::new(0.0, high, 0.0, 1.0).ticks(3);
    for tick in &heights {
        svg::line(out, "grid", (LEFT, y.at(*tick)), (WIDTH - RIGHT, y.at(*tick)));
    }
    for (tick, label) in heights.iter().zip(svg::time_labels(&heights)) {
        svg::text(out, "end small", (LEFT - 6.0, y.at(*tick) + 3.0), &label);
    }
    let ticks = x.ticks(8);
    for (tick, label) in ticks.iter().zip(svg::time_labels(&ticks)) {
        svg::text(out, "mid", (x.at(*tick), STICKS + 16.0), &label);
    }
    let mut paths: [String; 12] = Default::default();
    let (mut unknown, mut lost) = (String::new(), String::new());
    for object in run.objects.iter().filter(|object| !object.background) {
        let Some(issued) = object.issued_ns else { continue };
        let at = x.at(issued as f64 / 1e6);
        let Some(delivered) = object.delivered_ns else {
            let _ = write!(lost, "M{} {}l4 4m-4 0l4 -4", px(at - 2.0), px(STICKS - 5.0));
            continue;
        };
        let top = y.at(delivered.saturating_sub(issued) as f64 / 1e6);
        let path = largest(object).map_or(&mut unknown, |part| &mut paths[part]);
        let _ = write!(path, "M{} {}V{}", px(at), px(STICKS), px(top));
    }
    let count = run.objects.len().max(1) as f64;
    let thick = px(((WIDTH - LEFT - RIGHT) / count * 0.8).clamp(0.5, 3.0));
    for ((key, _, _), path) in PARTS.iter().zip(&paths).filter(|(_, path)| !path.is_empty()) {
        let _ = write!(out, r#"<path class="bar" stroke="var(--{key})" stroke-width="{thick}" d="{path}"/>"#);
    }
    if !unknown.is_empty() {
        let _ = write!(out, r#"<path class="bar whole" stroke-width="{thick}" d="{unknown}"/>"#);
    }
    if !lost.is_empty() {
        let _ = write!(out, r#"<path class="mark" style="stroke-dasharray:none" d="{lost}"/>"#);
    }
    svg::line(out, "axis", (LEFT, STICKS), (WIDTH - RIGHT, STICKS));
    out.push_str("</svg>");
}
