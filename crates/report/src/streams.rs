//! Draws two curves for the median run: data received, and data delivered to the application. The gap between the two
//! curves is data that the receiver withheld from the application, because data that was sent earlier was missing.

use super::chart::{self, Axis, ChartPoint, Data, Figure, Frame, Ink, Mark, Width};
use super::svg::{escape, ms, span};
use super::words::{short_time, term};
use super::{end_ns, median_runs};
use anabranch_results::{Object, Point, Run};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A stream of a transport connection, as (number of the connection, number of the stream).
type Stream = (u64, u64);

/// The maximum number of streams that are shown per run. The streams whose data was withheld longest are shown.
const STREAMS: usize = 16;

pub(super) fn render(out: &mut String, point: &Point) {
    let has_withheld = |run: &Run| run.objects.iter().any(|object| withheld(object) > 0);
    let runs: Vec<_> = median_runs(point).filter(|(.., run)| has_withheld(run)).collect();
    if runs.is_empty() {
        return;
    }
    let _ = write!(
        out,
        "<h2>Received and delivered</h2>\n<p class=\"note\">Median runs. Upper curve: objects complete at the receiver; lower curve: \
         objects given to the application. What lies between was withheld: {}. Below, by stream: from complete to delivered.</p>\n\
         <div class=\"two\">",
        term("head-of-line blocking", "head-of-line blocking")
    );
    for (i, name, run) in runs {
        draw_run(out, &name, i, run);
    }
    out.push_str("</div>\n");
}

/// Returns the nanoseconds for which an object was complete at the receiver but withheld.
fn withheld(object: &Object) -> u64 {
    object.why.as_ref().and_then(|breakdown| breakdown.blocked_ns).unwrap_or(0)
}

fn draw_run(out: &mut String, name: &str, index: usize, run: &Run) {
    let mut complete: Vec<f64> = Vec::new();
    let mut delivered: Vec<f64> = Vec::new();
    // For each stream, the spans of time in which objects were withheld. A span lasts from the completion of an object
    // to its delivery.
    let mut streams: BTreeMap<Stream, Vec<(f64, f64)>> = BTreeMap::new();
    let mut data =
        Data::new(&["object", "connection", "stream", "complete (ms)", "delivered (ms)", "withheld (ms)"]);
    for object in run.objects.iter().filter(|object| !object.background) {
        let (Some(at), Some(done)) = (&object.instants, object.delivered_ns) else { continue };
        complete.push(ms(at.complete_ns));
        delivered.push(ms(done));
        let key = (object.connection.unwrap_or(0), object.stream.unwrap_or(0));
        if withheld(object) > 0 {
            streams.entry(key).or_default().push((ms(at.complete_ns), ms(done)));
        }
        data.row(&[
            object.name.clone(),
            key.0.to_string(),
            key.1.to_string(),
            format!("{:.3}", ms(at.complete_ns)),
            format!("{:.3}", ms(done)),
            format!("{:.3}", ms(withheld(object))),
        ]);
    }
    let all: f64 = run.objects.iter().map(|object| ms(withheld(object))).sum();
    let blocked = run.objects.iter().filter(|object| withheld(object) > 0).count();
    let summary = format!(
        "{blocked} of {} objects withheld, {} each on average",
        complete.len(),
        short_time(all / blocked.max(1) as f64)
    );
    let mut lanes: Vec<(Stream, Vec<(f64, f64)>)> = streams.into_iter().collect();
    let longest = |spans: &[(f64, f64)]| spans.iter().map(|(from, until)| until - from).sum::<f64>();
    lanes.sort_by(|a, b| longest(&b.1).total_cmp(&longest(&a.1)).then(a.0.cmp(&b.0)));
    lanes.truncate(STREAMS);
    let end = ms(end_ns(run)).max(1.0);
    let figure = Figure {
        name: "received-delivered".to_owned(),
        heading: format!("{} <span class=\"meta\">{}</span>", escape(name), escape(&summary)),
        shows: format!("Objects received and delivered over time, {name}: {summary}."),
        data,
        ..Figure::default()
    };
    figure.render(out, Width::Half, |svg, width| {
        let frame = Frame { bottom: 22, ..Frame::new(width.pixels(), 180) };
        let x = Axis::time(0.0, end, width.pick(4, 6));
        let y = Axis::linear(0.0, complete.len() as f64, 4, |n| format!("{n:.0}"));
        chart::draw(svg, frame, [&x, &y], |plot| {
            let (upper, lower) = (stairs(&complete, end), stairs(&delivered, end));
            let between: Vec<ChartPoint> = upper.iter().chain(lower.iter().rev()).copied().collect();
            chart::area(plot, between, Ink::named("blocked"), 0.35);
            chart::line(plot, upper, Ink::named("blocked"), 1.2);
            chart::line(plot, lower, Ink::contestant(index), 1.8);
        });
        let row = 9;
        let foot = Frame { height: row * lanes.len() as u32 + 14, bottom: 2, ..frame };
        let _ = write!(svg, "<g transform=\"translate(0 {})\">", frame.height);
        let y = Axis::bare(lanes.len() as f64 - 0.5, -0.5);
        chart::draw(svg, foot, [&x.unlabelled(), &y], |plot| {
            for (i, ((connection, stream), spans)) in lanes.iter().enumerate() {
                let marks = spans.iter().map(|(from, until)| {
                    let title =
                        format!("connection {connection}, stream {stream}: withheld {}", span(until - from));
                    Mark::bar((*from, i as f64), (*until, i as f64), 6.0, Ink::named("blocked"), title)
                });
                chart::marks(plot, marks.collect::<Vec<_>>());
            }
        });
        svg.push_str("</g>");
        frame.height + foot.height
    });
}

/// Returns the corners of a step curve. The height of the curve at a time is the number of `instants` up to that time.
fn stairs(instants: &[f64], end: f64) -> Vec<ChartPoint> {
    let mut sorted = instants.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let mut points = chart::steps((0.0, 0.0), sorted.iter().copied().zip((1..).map(f64::from)));
    points.push((end, sorted.len() as f64));
    points
}

#[cfg(test)]
mod tests {
    #[test]
    fn stairs_rise_at_each_instant() {
        let expected = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (3.0, 1.0), (3.0, 2.0), (9.0, 2.0)];
        assert_eq!(super::stairs(&[3.0, 1.0], 9.0), expected);
    }
}
