//! Draws the bytes over time in the median run: what each host sent and what arrived, for each path and direction. Path
//! failures and the return of service are marked.

use super::chart::{self, Axis, ChartPoint, Data, Figure, Frame, Ink, LabelPosition, Plot, Width};
use super::svg::{Scale, escape, format_value, ms, px, span};
use super::words::term;
use super::{end_ns, median_runs, shared_end};
use anabranch_base::time::nanos;
use anabranch_base::units::parse_duration;
use anabranch_results::{PathEvent, PathSeries, PathState, Point, Race, Run, Side};
use std::fmt::Write;

pub(super) fn render(out: &mut String, race: &Race, point: &Point) {
    let runs: Vec<_> = median_runs(point)
        .filter(|(.., run)| run.series.bucket_ns > 0 && !run.series.paths.is_empty())
        .collect();
    let Some((.., first)) = runs.first() else { return };
    let failures = failures(&race.plan);
    let _ = write!(
        out,
        "<h2>On the wire</h2>\n<ul class=\"legend\"><li><span class=\"key\" style=\"background:var(--cwnd);opacity:.5\"></span>sent by \
         the host</li><li><span class=\"key\" style=\"background:var(--rwnd);height:3px\"></span>arrived at the other host</li></ul>\
         <p class=\"note\">Median runs; rates over {:.0} ms, headers included. A gap between sent and arrived is loss or {}.</p>\n",
        ms(first.series.bucket_ns),
        term("queue", "queue")
    );
    let shared = shared_end(runs.iter().map(|(.., run)| length(run)));
    // All panels of one direction have the same scale, so that contestants and paths can be compared. The two
    // directions have different scales, because requests would be invisible on the scale of the responses.
    let down = runs.iter().map(|(.., run)| peak_down(run)).fold(1e-6, f64::max);
    let up = runs.iter().map(|(.., run)| peak(run, |path| &path.up)).fold(1e-6, f64::max);
    let whole = Drawing { down, up, failures: &failures };
    for (_, name, run) in runs {
        let end = shared.unwrap_or(length(run)).max(1) as f64 / 1e6;
        let own = if shared.is_some() { "" } else { "; time scale of its own" };
        let after = |label: &str, ns: Option<u64>| {
            ns.map_or(String::new(), |ns| format!("; {label} {}", span(ms(ns))))
        };
        let failover = after("failover", run.failover_ns) + &after("service restored after", run.restored_ns);
        let about = format!("seed {}{own}{failover}", run.seed);
        let figure = Figure {
            name: "wire".to_owned(),
            heading: format!("{} <span class=\"meta\">{}</span>", escape(&name), escape(&about)),
            shows: format!("Bytes on the wire over time, {name}, {about}."),
            data: data(run),
            ..Figure::default()
        };
        figure.render(out, Width::Wide, |svg, width| whole.draw(svg, width, run, end));
    }
}

fn data(run: &Run) -> Data {
    let mut data = Data::new(&["path", "direction", "from (ms)", "sent (bytes)", "arrived (bytes)"]);
    for (i, path) in run.series.paths.iter().enumerate() {
        for (series, direction) in [(&path.down, "to the client"), (&path.up, "to the server")] {
            let value = |list: &[u64], k: usize| list.get(k).copied().unwrap_or(0).to_string();
            for k in 0..series.wire.len().max(series.delivered.len()) {
                let from = k as u64 * run.series.bucket_ns / 1_000_000;
                data.row(&[
                    (i + 1).to_string(),
                    direction.to_owned(),
                    from.to_string(),
                    value(&series.wire, k),
                    value(&series.delivered, k),
                ]);
            }
        }
    }
    data
}

/// The properties that the drawings of all runs of a point have in common: the scales and the path failures.
struct Drawing<'a> {
    down: f64,
    up: f64,
    failures: &'a [Failure],
}

impl Drawing<'_> {
    /// Draws the panels one below the other: for each path, one for the traffic to the client and one for the traffic
    /// to the server.
    fn draw(&self, out: &mut String, width: Width, run: &Run, end: f64) -> u32 {
        let several = run.series.paths.len() > 1;
        let mut top = 0;
        for (i, path) in run.series.paths.iter().enumerate() {
            for (series, is_down) in [(&path.down, true), (&path.up, false)] {
                let last = i + 1 == run.series.paths.len() && !is_down;
                let height = if is_down { 120 } else { 72 } + if last { 22 } else { 0 };
                let peak = if is_down { self.down } else { self.up };
                let name = match (several, is_down) {
                    (false, true) => "to the client".to_owned(),
                    (false, false) => "to the server".to_owned(),
                    (true, true) => format!("path {}, to the client", i + 1),
                    (true, false) => format!("path {}, to the server", i + 1),
                };
                let _ = write!(out, "<g transform=\"translate(0 {top})\">");
                let frame =
                    Frame { width: width.pixels(), height, left: 62, bottom: if last { 22 } else { 2 } };
                let x = Axis::time(0.0, end, width.pick(4, 8));
                let x = if last { x } else { x.unlabelled() };
                // The name of the panel is above the labels of events.
                let y = Axis::linear(0.0, peak * 1.18, if is_down { 3 } else { 2 }, |mbit| {
                    if mbit == 0.0 { "0".to_owned() } else { format!("{}\u{a0}Mbit", format_value(mbit)) }
                });
                chart::draw(out, frame, [&x, &y], |plot| {
                    let bucket = run.series.bucket_ns;
                    chart::area(plot, steps(&series.wire, bucket), Ink::named("cwnd"), 0.42);
                    chart::line(plot, steps(&series.delivered, bucket), Ink::named("rwnd"), 1.4);
                    chart::text(
                        plot,
                        (end * 0.004, peak * 1.1),
                        LabelPosition::Right,
                        Ink::named("ink"),
                        &name,
                    );
                    for failure in self.failures.iter().filter(|failure| failure.path == i + 1) {
                        failure.draw(plot, end, peak, is_down);
                    }
                    // Each host chooses its sending path by the path states that it has detected. Therefore the
                    // server's path events are shown with the responses, and the client's with the requests.
                    let side = if is_down { Side::Server } else { Side::Client };
                    draw_path_events(plot, run, (i as u64 + 1, side), (end, peak));
                    if is_down && i == 0 {
                        self.draw_recovery(plot, run, (end, peak));
                    }
                });
                out.push_str("</g>");
                top += height;
            }
        }
        top
    }

    /// Marks two instants after the first link failure: the arrival of the next new data, and the restoration of
    /// service.
    fn draw_recovery(&self, plot: &mut Plot<'_, '_>, run: &Run, (end, peak): (f64, f64)) {
        let Some(first) = self.failures.iter().map(|f| f.at_ms).reduce(f64::min) else { return };
        for (after, label, share) in
            [(run.failover_ns, "delivery goes on", 0.78), (run.restored_ns, "service restored", 0.6)]
        {
            if let Some(ns) = after {
                upright(plot, first + ms(ns), (end, peak, share), (Ink::named("ink"), label));
            }
        }
    }
}

/// Draws a vertical line at `x`, with a label at its right; near the end of the axis, the label is at its left.
fn upright(plot: &mut Plot<'_, '_>, x: f64, (end, peak, share): (f64, f64, f64), (ink, label): (Ink, &str)) {
    chart::line(plot, [(x, 0.0), (x, peak)], ink, 1.0);
    if label.is_empty() {
        return;
    }
    let position = if x > end * 0.7 { LabelPosition::Left } else { LabelPosition::Right };
    chart::text(plot, (x, peak * share), position, ink, &format!("\u{a0}{label}\u{a0}"));
}

/// Marks the path state changes that the host `by` detected. If several associations report changes, only those of the
/// first association are shown.
fn draw_path_events(plot: &mut Plot<'_, '_>, run: &Run, (path, by): (u64, Side), (end, peak): (f64, f64)) {
    let is_on_path = |e: &&PathEvent| e.path == path && e.by == by;
    let Some(connection) = run.path_events.iter().find(is_on_path).map(|event| event.connection) else {
        return;
    };
    // For each kind of state change, the time in ms of its last label. A label is left out if it would overlap the last
    // label of its kind.
    let mut last = [f64::NEG_INFINITY; 3];
    for event in run.path_events.iter().filter(is_on_path).filter(|e| e.connection == connection).take(MARKS)
    {
        let row = match event.state {
            PathState::PotentiallyFailed => 2,
            PathState::Failed => 0,
            PathState::Active => 1,
        };
        let name = event.state.words();
        let x = ms(event.at_ns);
        let label = if x - last[row] >= end * 0.14 { name } else { "" };
        upright(plot, x, (end, peak, 0.42 - 0.18 * row as f64), (Ink::named("ink"), label));
        if !label.is_empty() {
            last[row] = x;
        }
    }
}

/// The maximum number of marks for path events that are drawn for one path.
const MARKS: usize = 20;

/// Returns the corners of a stepped curve of rates, which starts and ends at zero. `values` are the bytes in each time
/// bucket.
fn steps(values: &[u64], bucket_ns: u64) -> Vec<ChartPoint> {
    let mut points: Vec<ChartPoint> = vec![(0.0, 0.0)];
    for (i, value) in values.iter().enumerate() {
        let (from, until) = (i as u64 * bucket_ns, (i as u64 + 1) * bucket_ns);
        let level = mbit(*value, bucket_ns);
        points.extend([(ms(from), level), (ms(until), level)]);
    }
    let end = points.last().map_or(0.0, |point| point.0);
    points.push((end, 0.0));
    points
}

/// Draws a thin strip below a waterfall, with the traffic to the client over all paths. `top` is the upper edge of the
/// strip, and `tall` is its height, both in pixels. `peak` is the rate in Mbit/s at the upper edge.
pub(super) fn strip(out: &mut String, run: &Run, scale: &Scale, (top, tall): (f64, f64), peak: f64) {
    let bucket = run.series.bucket_ns.max(1);
    let sum = |pick: fn(&PathSeries) -> &Vec<u64>| -> Vec<u64> {
        let lists: Vec<&Vec<u64>> = run.series.paths.iter().map(|path| pick(&path.down)).collect();
        let buckets = lists.iter().map(|list| list.len()).max().unwrap_or(0);
        (0..buckets).map(|k| lists.iter().filter_map(|list| list.get(k)).sum()).collect()
    };
    let path = |values: &[u64]| {
        let mut text = String::new();
        let mut level = f64::NAN;
        for (ms, mbit) in steps(values, bucket) {
            let (x, y) = (scale.at(ms), top + tall - tall * (mbit / peak).min(1.0));
            let _ = match (text.is_empty(), y == level) {
                (true, _) => write!(text, "M{} {}", px(x), px(y)),
                (false, true) => Ok(()),
                (false, false) => write!(text, "H{}V{}", px(x), px(y)),
            };
            level = y;
        }
        text
    };
    let (wire, delivered) = (path(&sum(|series| &series.wire)), path(&sum(|series| &series.delivered)));
    if wire.len() > 10 {
        let _ = write!(out, "<path fill=\"var(--cwnd)\" opacity=\"0.42\" d=\"{wire}Z\"/>");
        let _ = write!(
            out,
            "<path fill=\"none\" stroke=\"var(--rwnd)\" stroke-width=\"1.2\" d=\"{delivered}\"/>"
        );
    }
}

fn mbit(bytes: u64, bucket_ns: u64) -> f64 {
    bytes as f64 * 8e3 / bucket_ns as f64
}

fn peak(run: &Run, pick: fn(&anabranch_results::Directions<PathSeries>) -> &PathSeries) -> f64 {
    let bucket = run.series.bucket_ns.max(1);
    let paths = run.series.paths.iter().map(pick);
    let rates =
        paths.flat_map(|path| path.wire.iter().chain(&path.delivered)).map(|bytes| mbit(*bytes, bucket));
    rates.fold(1e-6, f64::max)
}

/// Returns the highest rate to the client on any single path, in Mbit/s.
pub(super) fn peak_down(run: &Run) -> f64 {
    peak(run, |path| &path.down)
}

/// Returns the time in nanoseconds at which the last time bucket of a run ends. Bytes are counted in these intervals.
pub(super) fn length(run: &Run) -> u64 {
    let longest = |series: &PathSeries| series.wire.len().max(series.delivered.len());
    let buckets = run.series.paths.iter().map(|p| longest(&p.up).max(longest(&p.down))).max().unwrap_or(0);
    let buckets = buckets.max(run.series.application.len()) as u64;
    end_ns(run).max(buckets.saturating_mul(run.series.bucket_ns))
}

/// A path failure that the plan specifies.
struct Failure {
    path: usize,
    at_ms: f64,
    until_ms: Option<f64>,
}

impl Failure {
    fn draw(&self, plot: &mut Plot<'_, '_>, end: f64, peak: f64, named: bool) {
        let marks = [(Some(self.at_ms), "path fails"), (self.until_ms, "path restored")];
        for (at, label) in marks {
            let Some(at) = at.filter(|at| *at <= end) else { continue };
            upright(plot, at, (end, peak, 0.93), (Ink::named("mark"), if named { label } else { "" }));
        }
    }
}

/// Reads the plan's `fail` entries, which are tables or texts such as `path=1,at=10s,for=5s`.
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
        let span = |key: &str| Some(ms(nanos(parse_duration(&value(key)?).ok()?)));
        let at_ms = span("at")?;
        Some(Failure {
            path: value("path").and_then(|text| text.parse().ok()).unwrap_or(1),
            at_ms,
            until_ms: span("for").map(|span| at_ms + span),
        })
    };
    entries.iter().filter_map(read).collect()
}
