//! Reports, as JSON (schema `anabranch.link/1`), how many packets the emulated links carried and dropped. Times are in
//! nanoseconds.

use crate::outputs::command_line;
use anabranch_base::Histogram;
use anabranch_base::time::nanos;
use anabranch_emu::report::{DirectionReport, PathReport};
use anabranch_emu::shell::{CommandOutcome, Request};
use anabranch_link::Tally;
use serde_json::{Value, json};

/// Returns the complete JSON report.
pub fn json(request: &Request, ended: &CommandOutcome) -> String {
    let links: Vec<Value> =
        request.links.iter().zip(&ended.paths).map(|(spec, path)| link(spec, path)).collect();
    let document = json!({
        "schema": "anabranch.link/1",
        "version": env!("CARGO_PKG_VERSION"),
        "command": command_line(),
        "seed": request.seed,
        "status": ended.status,
        "links": links,
    });
    format!("{document:#}\n")
}

fn link(spec: &anabranch_link::LinkSpec, path: &PathReport) -> Value {
    json!({
        "link": spec.to_string(),
        "span_ns": path.span.as_nanos() as u64,
        "busy_ns": path.busy.as_nanos() as u64,
        "up": direction(&path.up, path.unseen[0]),
        "down": direction(&path.down, path.unseen[1]),
    })
}

fn direction(report: &DirectionReport, unseen: u64) -> Value {
    let meter = &report.meter;
    let known = |times: &Histogram, span| (times.count() > 0).then(|| nanos(span));
    let at = |times: &Histogram, share| known(times, times.percentile(share));
    let named = |(name, _, count): (&str, &str, Tally)| (name.to_owned(), tally(count));
    let mut account = serde_json::Map::new();
    account.insert("in".to_owned(), tally(meter.entered));
    account.insert("out".to_owned(), tally(meter.left));
    account.insert("lost".to_owned(), meter.lost_by().into_iter().map(named).collect());
    account.extend(meter.changed.each().into_iter().map(named));
    let rest = json!({
        "under_way_packets": report.held,
        "unseen_packets": unseen,
        "refused_packets": report.refused + report.refused_by_kernel,
        "queue_peak": { "packets": meter.queue_peak_packets, "bytes": meter.queue_peak_bytes },
        "delay_ns": {
            "min": known(&report.delay, report.delay.min()),
            "p50": at(&report.delay, 0.5),
            "p99": at(&report.delay, 0.99),
            "max": known(&report.delay, report.delay.max()),
        },
        "late_ns": { "p50": at(&report.late, 0.5), "p99": at(&report.late, 0.99) },
    });
    if let Value::Object(rest) = rest {
        account.extend(rest);
    }
    Value::Object(account)
}

fn tally(count: Tally) -> Value {
    json!({ "packets": count.packets, "bytes": count.bytes })
}
