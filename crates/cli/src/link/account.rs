//! What links did, as JSON: schema `anabranch.link/1`. Times are nanoseconds.

use crate::outputs::command_line;
use anabranch_emu::report::{DirectionReport, PathReport};
use anabranch_emu::shell::{Ended, Request};
use anabranch_link::Tally;
use serde_json::{Value, json};

/// The whole account.
pub fn json(request: &Request, ended: &Ended) -> String {
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

fn direction(way: &DirectionReport, unseen: u64) -> Value {
    let meter = &way.meter;
    let quantile = |spread: &anabranch_emu::spread::Spread, thousandths| spread.quantile(thousandths);
    json!({
        "in": tally(meter.entered),
        "out": tally(meter.left),
        "lost": {
            "queue": tally(meter.overflowed),
            "aqm": tally(meter.dropped_early),
            "loss": tally(meter.lost_at_random),
            "outage": tally(meter.lost_in_outage),
            "too_big": tally(meter.too_big),
        },
        "duplicated": tally(meter.duplicated),
        "corrupted": tally(meter.corrupted),
        "marked": tally(meter.marked),
        "overtaking": tally(meter.overtaking),
        "under_way_packets": way.held,
        "unseen_packets": unseen,
        "refused_packets": way.refused + way.not_taken,
        "queue_peak": { "packets": meter.queue_peak_packets, "bytes": meter.queue_peak_bytes },
        "delay_ns": {
            "min": way.delay.least(),
            "p50": quantile(&way.delay, 500),
            "p99": quantile(&way.delay, 990),
            "max": way.delay.greatest(),
        },
        "late_ns": { "p50": quantile(&way.late, 500), "p99": quantile(&way.late, 990) },
    })
}

fn tally(count: Tally) -> Value {
    json!({ "packets": count.packets, "bytes": count.bytes })
}
