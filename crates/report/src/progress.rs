//! Draws how a page fills up over time: the share of its bytes and of its objects that have arrived. Both are means
//! over all seeds.
//!
//! The area above each curve is the mean arrival time of a byte or of an object. A smaller area is better, as with the
//! Speed Index of browsers.

use super::bars::legend;
use super::chart::{self, Axis, ChartPoint, Data, Figure, Frame, Ink, Width};
use super::svg::ms;
use super::words::{self, short_time, term};
use anabranch_results::verdict::and;
use anabranch_results::{Contestant, Point, Run};

/// A function that returns the share of a run's data that has arrived after this many milliseconds.
type Share = fn(&Run, f64) -> f64;

/// The number of points that are computed for each curve.
const STEPS: usize = 120;

pub(super) fn render(out: &mut String, point: &Point) {
    if point.workload.messages {
        return;
    }
    let names = words::names(point);
    let end = point.contestants.iter().flat_map(|contestant| &contestant.runs).filter_map(|run| run.page_ns);
    let Some(end) = end.max().map(ms).filter(|end| *end > 0.0) else { return };
    let bulk = point.workload.is_bulk();
    let kinds: &[(&str, Share)] =
        if bulk { &[("bytes", bytes_by)] } else { &[("bytes", bytes_by), ("objects", objects_by)] };
    for (kind, share) in kinds {
        let curves: Vec<(usize, Vec<ChartPoint>)> = point
            .contestants
            .iter()
            .enumerate()
            .filter(|(_, contestant)| !contestant.runs.is_empty())
            .map(|(i, contestant)| (i, curve(contestant, end, *share)))
            .collect();
        let mut data = Data::new(&["contestant", "after (ms)", &format!("share of {kind}")]);
        for (i, curve) in &curves {
            for (ms, share) in curve {
                data.row(&[&point.contestants[*i].name, &format!("{ms:.1}"), &format!("{share:.4}")]);
            }
        }
        let half: Vec<String> = curves
            .iter()
            .filter_map(|(i, curve)| {
                let at = curve.iter().find(|(_, share)| *share >= 0.5)?;
                Some(format!("{} after {}", names[*i], short_time(at.0)))
            })
            .collect();
        let half_times = format!("Half of the {kind}: {}.", and(&half));
        let figure = Figure {
            name: format!("progress-{kind}"),
            heading: format!(
                "Share of {} there after a time",
                if *kind == "objects" { term("object", "objects") } else { (*kind).to_owned() }
            ),
            legend: legend(&names),
            shows: format!("Curves from 0 to 100 %. {half_times}"),
            note: super::svg::escape(&half_times)
                + " Means over all runs; the earlier a curve rises, the better.",
            data,
        };
        let wide = if bulk { Width::Wide } else { Width::Half };
        figure.render(out, wide, |svg, width| {
            let frame = Frame::new(width.pixels(), 210);
            let x = Axis::time(0.0, end, width.pick(4, 7));
            let y = Axis::linear(0.0, 1.0, 4, |share| format!("{:.0}\u{a0}%", share * 100.0));
            chart::draw(svg, frame, [&x, &y], |plot| {
                for (i, curve) in &curves {
                    chart::line(plot, curve.iter().copied(), Ink::contestant(*i), 2.0);
                }
            })
        });
    }
}

fn curve(contestant: &Contestant, end: f64, share: Share) -> Vec<ChartPoint> {
    let runs = contestant.runs.len() as f64;
    let at = |step: usize| {
        let ms = end * step as f64 / STEPS as f64;
        (ms, contestant.runs.iter().map(|run| share(run, ms)).sum::<f64>() / runs)
    };
    (0..=STEPS).map(at).collect()
}

/// Returns the share of a run's objects that are delivered within the first `ms` milliseconds.
fn objects_by(run: &Run, ms: f64) -> f64 {
    let delivered =
        run.objects.iter().filter(|o| o.delivered_ns.is_some_and(|ns| ns as f64 / 1e6 <= ms)).count();
    delivered as f64 / run.objects.len().max(1) as f64
}

/// Returns the share (0 to 1) of a run's bytes that the application received in the first `ms` milliseconds of the run.
/// The bytes of a time bucket are assumed to arrive evenly.
fn bytes_by(run: &Run, ms: f64) -> f64 {
    let all: u64 = run.objects.iter().map(|object| object.bytes).sum();
    let bucket = (run.series.bucket_ns.max(1)) as f64 / 1e6;
    let whole = (ms / bucket) as usize;
    let series = &run.series.application;
    let before: u64 = series.iter().take(whole).sum();
    let part = series.get(whole).map_or(0.0, |bytes| *bytes as f64 * (ms / bucket - whole as f64));
    ((before as f64 + part) / all.max(1) as f64).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_results::Series;

    #[test]
    fn shares_are_of_the_whole() {
        let text = r#"{"seed":1,"outcome":"done","page_ns":300000000,"limit_ns":null,"connect_ns":null,"failover_ns":null,
            "path_events":[],"connections":1,"objects":[],"packets":{"up":{"sent":0,"lost":0,"retransmitted":0},
            "down":{"sent":0,"lost":0,"retransmitted":0}},"events":{"timeouts":0,"fast":0,"spurious":0},
            "wire_bytes":{"up":0,"down":0},"series":{"bucket_ns":100000000,"paths":[],"application":[]}}"#;
        let mut run: Run = serde_json::from_str(text).expect("a run");
        let object = r#"{"name":"/","bytes":400,"connection":1,"stream":0,"issued_ns":0,"first_byte_ns":1,
            "delivered_ns":250000000,"failure":null,"why":null,"send_detail":null,"instants":null}"#;
        run.objects = vec![serde_json::from_str(object).expect("an object")];
        run.series = Series { bucket_ns: 100_000_000, application: vec![100, 0, 300], ..run.series };
        let shares = [0.0, 50.0, 100.0, 250.0, 300.0, 900.0].map(|ms| bytes_by(&run, ms));
        assert_eq!(shares, [0.0, 0.125, 0.25, 0.625, 1.0, 1.0]);
        assert_eq!([249.0, 250.0].map(|ms| objects_by(&run, ms)), [0.0, 1.0]);
    }
}
