//! Which number of a run each metric is.

use super::{describe, paired};
use crate::results::{Comparison, Outcome, Run, Stat, Summary};

/// The metrics in which contestants are compared, and the table shows.
pub const COMPARED: [&str; 8] = [
    "page_ms",
    "object_ms",
    "connect_ms",
    "first_byte_ms",
    "goodput_bps",
    "packets_lost",
    "retransmitted",
    "wire_bytes",
];

/// The value of a metric in one run; `None` when the run has none (it did not finish, nothing failed over, …).
#[must_use]
pub fn value(run: &Run, metric: &str) -> Option<f64> {
    let milliseconds = |ns: u64| ns as f64 / 1e6;
    match metric {
        "page_ms" => run.page_ns.map(milliseconds),
        // Of a run in which every object was delivered: a mean over survivors would flatter.
        "object_ms" => {
            mean_of(run, |o| Some(o.delivered_ns?.saturating_sub(o.issued_ns?))).map(|ns| ns / 1e6)
        }
        "first_byte_ms" => {
            mean_of(run, |o| Some(o.first_byte_ns?.saturating_sub(o.issued_ns?))).map(|ns| ns / 1e6)
        }
        "connect_ms" => run.connect_ns.map(milliseconds),
        "limit_ratio" => {
            let limit = run.limit_ns.filter(|limit| *limit > 0)?;
            Some(run.page_ns? as f64 / limit as f64)
        }
        "goodput_bps" => {
            let page = run.page_ns.filter(|page| *page > 0)?;
            let bytes: u64 = run.objects.iter().map(|o| o.bytes).sum();
            Some(bytes as f64 * 8e9 / page as f64)
        }
        "packets_lost" => Some((run.packets.up.lost + run.packets.down.lost) as f64),
        "retransmitted" => Some((run.packets.up.retransmitted + run.packets.down.retransmitted) as f64),
        "wire_bytes" => Some((run.wire_bytes.up + run.wire_bytes.down) as f64),
        "failover_ms" => run.failover_ns.map(milliseconds),
        _ => None,
    }
}

/// Mean of a span in nanoseconds over a finished run's objects.
fn mean_of(run: &Run, span: impl Fn(&crate::results::Object) -> Option<u64>) -> Option<f64> {
    if run.outcome != Outcome::Done || run.objects.is_empty() {
        return None;
    }
    let mut sum = 0.0;
    for object in &run.objects {
        sum += span(object)? as f64;
    }
    Some(sum / run.objects.len() as f64)
}

/// Summarises one contestant's runs.
#[must_use]
pub fn summarise(runs: &[Run]) -> Summary {
    let failed = runs.iter().filter(|run| run.outcome != Outcome::Done).count() as u64;
    let stat = |metric: &str| -> Stat {
        let values: Vec<f64> = runs.iter().filter_map(|run| value(run, metric)).collect();
        describe(&values, failed)
    };
    Summary {
        page_ms: stat("page_ms"),
        object_ms: stat("object_ms"),
        connect_ms: stat("connect_ms"),
        first_byte_ms: stat("first_byte_ms"),
        limit_ratio: stat("limit_ratio"),
        goodput_bps: stat("goodput_bps"),
        packets_lost: stat("packets_lost"),
        retransmitted: stat("retransmitted"),
        wire_bytes: stat("wire_bytes"),
        failover_ms: stat("failover_ms"),
    }
}

/// Compares contestant `a` with `b` in one metric, over their runs in the same order of seeds.
#[must_use]
pub fn compare(a: (&str, &[Run]), b: (&str, &[Run]), metric: &str) -> Comparison {
    let pairs: Vec<_> =
        a.1.iter().zip(b.1).map(|(one, other)| (value(one, metric), value(other, metric))).collect();
    let found = paired::ratio(&pairs);
    Comparison {
        a: a.0.to_owned(),
        b: b.0.to_owned(),
        metric: metric.to_owned(),
        ratio: found.ratio,
        ci95: found.ci95,
        n: found.n,
    }
}

/// The seed whose page time is the median (the lower of the two middle ones); the first seed when none finished.
#[must_use]
pub fn median_seed(runs: &[Run]) -> u64 {
    let mut finished: Vec<(u64, u64)> =
        runs.iter().filter_map(|run| Some((run.page_ns?, run.seed))).collect();
    finished.sort_unstable();
    match finished.len().checked_sub(1) {
        Some(last) => finished[last / 2].1,
        None => runs.first().map_or(0, |run| run.seed),
    }
}
