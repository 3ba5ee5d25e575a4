//! Bytes over time in the median run: what each host put on the wire and what
//! arrived, path by path and direction by direction; what the application
//! got; where a path failed and when things went on.

use super::svg::{self, Scale, figure, px, span};
use super::{end_ns, median_run, shared_end};
use crate::results::{Contestant, PathEvent, PathSeries, PathState, Point, Race, Run, Side};
use anabranch_base::time::nanos;
use anabranch_base::units::parse_span;
use std::fmt::Write;

const WIDTH: f64 = 1040.0;
const LEFT: f64 = 118.0;
const HEIGHT: f64 = 74.0;

pub(super) fn render(out: &mut String, race: &Race, point: &Point) {
    let runs: Vec<(&Contestant, &Run)> = point
        .contestants
        .iter()
        .filter_map(|contestant| Some((contestant, median_run(contestant)?)))
        .filter(|(_, run)| run.series.bucket_ns > 0 && !run.series.paths.is_empty())
        .collect();
    if runs.is_empty() {
        return;
    }
    out.push_str("<h2>On the wire</h2>\n");
    out.push_str(
        "<ul class=\"legend\"><li><span class=\"key\" style=\"background:var(--cwnd);opacity:.5\"></span>sent by the host</li>\
         <li><span class=\"key\" style=\"background:var(--rwnd);height:3px\"></span>arrived at the other host</li>\
         <li><span class=\"key\" style=\"background:var(--timeout);height:3px\"></span>share of the page given to the application (full height: all of it)</li></ul>\n",
    );
    let failures = failures(&race.plan);
    let shared = shared_end(runs.iter().map(|(_, run)| length(run)));
    // Each direction has one scale, so that contestants and paths can be compared; requests would vanish on the responses'.
    let peak = |pick: fn(&Run) -> Vec<&PathSeries>| -> f64 {
        let rates = runs.iter().flat_map(|(_, run)| {
            let bucket = run.series.bucket_ns;
            pick(run)
                .into_iter()
                .flat_map(|p| p.wire.iter().chain(&p.delivered))
                .map(move |b| mbit(*b, bucket))
        });
        rates.fold(0.0, f64::max).max(1e-6)
    };
    let down = peak(|run| run.series.paths.iter().map(|path| &path.down).collect());
    let up = peak(|run| run.series.paths.iter().map(|path| &path.up).collect());
    for (contestant, run) in runs {
        let end = shared.unwrap_or(length(run)).max(1) as f64 / 1e6;
        let scale = Scale::new(0.0, end, LEFT, WIDTH - LEFT - 12.0);
        let own = if shared.is_some() { "" } else { "; time scale of its own" };
        let after = |what: &str, ns: Option<u64>| {
            ns.map_or(String::new(), |ns| format!("; {what} {}", span(ns as f64 / 1e6)))
        };
        let failover = after("failover", run.failover_ns) + &after("service restored after", run.restored_ns);
        let _ = writeln!(
            out,
            "<h3>{} <span class=\"meta\">seed {}{own}{failover}</span></h3>",
            svg::name(contestant.label()),
            run.seed
        );
        out.push_str("<figure>");
        panels(out, run, &scale, down, up, &failures);
        out.push_str("</figure>\n");
    }
    let _ = writeln!(
        out,
        "<p class=\"note\">Rates over {:.0} ms, IP headers included. A gap between sent and arrived is loss or queue.</p>",
        point.contestants.iter().find_map(median_run).map_or(100.0, |run| run.series.bucket_ns as f64 / 1e6)
    );
}

fn panels(out: &mut String, run: &Run, scale: &Scale, down: f64, up: f64, failures: &[Failure]) {
    let paths = run.series.paths.len();
    let several = paths > 1;
    let height = |tall: bool| if tall { HEIGHT } else { HEIGHT * 0.5 };
    let whole: f64 = paths as f64 * (height(true) + height(false) + 14.0) + 20.0;
    svg::open(out, WIDTH, whole, "bytes over time");
    let ticks = scale.ticks(8);
    let mut y = 6.0;
    for (i, path) in run.series.paths.iter().enumerate() {
        for (series, is_down) in [(&path.down, true), (&path.up, false)] {
            let tall = height(is_down);
            let peak = if is_down { down } else { up };
            for tick in &ticks {
                svg::line(out, "grid", (scale.at(*tick), y), (scale.at(*tick), y + tall));
            }
            let name = if several { format!("path {} ", i + 1) } else { String::new() };
            let name = format!("{name}{}", if is_down { "down" } else { "up" });
            svg::text(out, "strong end", (LEFT - 14.0, y + tall / 2.0 + 8.0), &name);
            svg::text(out, "end small", (LEFT - 4.0, y + 8.0), &format!("{}\u{a0}Mbit/s", figure(peak)));
            svg::text(out, "end small", (LEFT - 4.0, y + tall), "0");
            let rate = |values: &[u64]| steps(values, run.series.bucket_ns, scale, peak, y, tall);
            let wire = rate(&series.wire);
            if !wire.is_empty() {
                let _ = write!(out, r#"<path class="wired" d="{wire}V{}H{}Z"/>"#, px(y + tall), px(LEFT));
            }
            let _ = write!(out, r#"<path class="deliv" d="{}"/>"#, rate(&series.delivered));
            if is_down && i == 0 {
                let share = progress(&run.series.application, run.series.bucket_ns, scale, y, tall);
                let _ = write!(out, r#"<path class="app" d="{share}"/>"#);
            }
            svg::line(out, "axis", (LEFT, y + tall), (WIDTH - 12.0, y + tall));
            for failure in failures.iter().filter(|failure| failure.path == i + 1) {
                failure.draw(out, scale, y, tall, is_down);
            }
            // What a side found out steers what it sends: the server's mind beside the responses, the client's
            // beside the requests.
            let side = if is_down { Side::Server } else { Side::Client };
            found(out, run, (i as u64 + 1, side), scale, y, tall);
            y += tall + 7.0;
        }
    }
    for (tick, label) in ticks.iter().zip(svg::time_labels(&ticks)) {
        svg::text(out, "mid", (scale.at(*tick), whole - 4.0), &label);
    }
    // The first failure is what failover is measured from.
    if let (Some(failover), Some(first)) =
        (run.failover_ns, failures.iter().map(|f| f.at_ms).reduce(f64::min))
    {
        let x = scale.at(first + failover as f64 / 1e6);
        svg::line(out, "ends", (x, 2.0), (x, whole - 20.0));
        beside(out, "small", (x, 10.0), "delivery goes on");
    }
    if let (Some(restored), Some(first)) =
        (run.restored_ns, failures.iter().map(|f| f.at_ms).reduce(f64::min))
    {
        let x = scale.at(first + restored as f64 / 1e6);
        svg::line(out, "ends", (x, 2.0), (x, whole - 20.0));
        beside(out, "small", (x, 24.0), "service restored");
    }
    out.push_str("</svg>");
}

/// Marks where a side took a path for failed, and for active again; of many associations, the first that did.
fn found(out: &mut String, run: &Run, (path, by): (u64, Side), scale: &Scale, y: f64, tall: f64) {
    let here = |e: &&PathEvent| e.path == path && e.by == by;
    let Some(connection) = run.path_events.iter().find(here).map(|event| event.connection) else { return };
    // Where the last label of each row begins: the next one like it needs room, or does without.
    let mut last = [f64::NEG_INFINITY; 3];
    for event in run.path_events.iter().filter(here).filter(|e| e.connection == connection).take(MARKS) {
        let (name, row) = match event.state {
            PathState::PotentiallyFailed => ("potentially failed", 2),
            PathState::Failed => ("declared failed", 0),
            PathState::Active => ("active again", 1),
        };
        let x = scale.at(event.at_ns as f64 / 1e6);
        svg::line(out, "ends", (x, y), (x, y + tall));
        let room = label_width(name) * if is_last(x, name) { 2.0 } else { 1.0 };
        if x - last[row] >= room {
            beside(out, "small", (x, y + tall - 8.0 - 12.0 * row as f64), name);
            last[row] = x;
        }
    }
}

/// A small label to the right of a line, or to its left where the plot has no room for it there.
fn beside(out: &mut String, class: &str, (x, y): (f64, f64), label: &str) {
    if is_last(x, label) {
        svg::text(out, &format!("{class} end"), (x - 3.0, y), label);
    } else {
        svg::text(out, class, (x + 3.0, y), label);
    }
}

/// No room is left for the label to the right of `x`.
fn is_last(x: f64, label: &str) -> bool {
    x + label_width(label) > WIDTH
}

/// A small label and the gap to its line.
fn label_width(label: &str) -> f64 {
    3.0 + label.chars().count() as f64 * SMALL_LETTER
}

/// As wide as a letter of a small label is at most, on average.
const SMALL_LETTER: f64 = 5.2;

/// The most marks of one path.
const MARKS: usize = 20;

/// A step line through the rates of `values`.
fn steps(values: &[u64], bucket_ns: u64, scale: &Scale, peak: f64, y: f64, tall: f64) -> String {
    let mut path = String::new();
    let mut last = f64::NAN;
    for (i, value) in values.iter().enumerate() {
        let level = y + tall - tall * (mbit(*value, bucket_ns) / peak).min(1.0);
        let x = scale.at(i as f64 * bucket_ns as f64 / 1e6);
        if i == 0 {
            let _ = write!(path, "M{} {}", px(x), px(level));
        } else if level != last {
            let _ = write!(path, "H{}V{}", px(x), px(level));
        }
        last = level;
    }
    if !values.is_empty() {
        let _ =
            write!(path, "H{}V{}", px(scale.at(values.len() as f64 * bucket_ns as f64 / 1e6)), px(y + tall));
    }
    path
}

/// A line from nothing to everything: what has been given out by the end of each bucket.
fn progress(values: &[u64], bucket_ns: u64, scale: &Scale, y: f64, tall: f64) -> String {
    let whole = values.iter().sum::<u64>().max(1) as f64;
    let mut path = format!("M{} {}", px(scale.at(0.0)), px(y + tall));
    let mut given = 0;
    for (i, value) in values.iter().enumerate() {
        given += value;
        let x = scale.at((i + 1) as f64 * bucket_ns as f64 / 1e6);
        let _ = write!(path, "L{} {}", px(x), px(y + tall - tall * given as f64 / whole));
    }
    path
}

fn mbit(bytes: u64, bucket_ns: u64) -> f64 {
    bytes as f64 * 8e3 / bucket_ns as f64
}

fn length(run: &Run) -> u64 {
    let longest = |series: &PathSeries| series.wire.len().max(series.delivered.len());
    let buckets = run.series.paths.iter().map(|p| longest(&p.up).max(longest(&p.down))).max().unwrap_or(0);
    let buckets = buckets.max(run.series.application.len()) as u64;
    end_ns(run).max(buckets.saturating_mul(run.series.bucket_ns))
}

/// A failure of a path that the plan ordered.
struct Failure {
    path: usize,
    at_ms: f64,
    until_ms: Option<f64>,
}

impl Failure {
    fn draw(&self, out: &mut String, scale: &Scale, y: f64, tall: f64, named: bool) {
        let x = scale.at(self.at_ms);
        svg::line(out, "mark", (x, y), (x, y + tall));
        if named {
            beside(out, "marked small", (x, y + 18.0), "path fails");
        }
        if let Some(until) = self.until_ms {
            let x = scale.at(until);
            svg::line(out, "mark", (x, y), (x, y + tall));
            if named {
                beside(out, "marked small", (x, y + 30.0), "path restored");
            }
        }
    }
}

/// The plan's `fail` entries, in either form: a table, or `path=1,at=10s,for=5s`.
fn failures(plan: &serde_json::Value) -> Vec<Failure> {
    let Some(entries) = plan.get("fail").and_then(|fail| fail.as_array()) else { return Vec::new() };
    let read = |entry: &serde_json::Value| {
        let value = |key: &str| -> Option<String> {
            if let Some(text) = entry.as_str() {
                let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
                return pairs.into_iter().find(|(k, _)| k.trim() == key).map(|(_, v)| v.trim().to_owned());
            }
            match entry.get(key)? {
                serde_json::Value::String(text) => Some(text.clone()),
                other => Some(other.to_string()),
            }
        };
        let ms = |key: &str| {
            value(key).and_then(|text| parse_span(&text).ok()).map(|span| nanos(span) as f64 / 1e6)
        };
        let at_ms = ms("at")?;
        Some(Failure {
            path: value("path").and_then(|text| text.parse().ok()).unwrap_or(1),
            at_ms,
            until_ms: ms("for").map(|span| at_ms + span),
        })
    };
    entries.iter().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_stays_within_the_plot() {
        let shown = |x| {
            let mut out = String::new();
            beside(&mut out, "small", (x, 10.0), "declared failed");
            out
        };
        assert!(!shown(500.0).contains("end") && shown(500.0).contains("503"), "{}", shown(500.0));
        let last = shown(WIDTH - 12.0);
        assert!(last.contains("small end") && last.contains("1025"), "{last}");
    }
}
