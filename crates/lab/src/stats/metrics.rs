//! Which number of a run each metric is.

use super::{describe, paired};
use crate::results::{Comparison, Outcome, Run, Stat, Summary};

/// The metrics in which contestants are compared, and the table shows.
pub const COMPARED: [&str; 10] = [
    "page_ms",
    "object_ms",
    "object_p95_ms",
    "object_p99_ms",
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
        "object_p50_ms" => percentile(run, 50),
        "object_p95_ms" => percentile(run, 95),
        "object_p99_ms" => percentile(run, 99),
        "object_max_ms" => percentile(run, 100),
        "undelivered" => Some(measured(run).filter(|o| o.delivered_ns.is_none()).count() as f64),
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
        "declared_failed_ms" => run.declared_failed_ns.map(milliseconds),
        "failover_ms" => run.failover_ns.map(milliseconds),
        "restored_ms" => run.restored_ns.map(milliseconds),
        _ => None,
    }
}

/// The objects that are measured.
fn measured(run: &Run) -> impl Iterator<Item = &crate::results::Object> {
    run.objects.iter().filter(|object| !object.background)
}

/// Milliseconds within which so many percent of a finished run's delivered objects came (nearest rank).
fn percentile(run: &Run, percent: usize) -> Option<f64> {
    if run.outcome != Outcome::Done {
        return None;
    }
    let span = |o: &crate::results::Object| Some(o.delivered_ns?.saturating_sub(o.issued_ns?));
    let mut spans: Vec<u64> = measured(run).filter_map(span).collect();
    let rank = (spans.len() * percent).div_ceil(100).checked_sub(1)?;
    let (_, at, _) = spans.select_nth_unstable(rank);
    Some(*at as f64 / 1e6)
}

/// Mean of a span in nanoseconds over a finished run's objects.
fn mean_of(run: &Run, span: impl Fn(&crate::results::Object) -> Option<u64>) -> Option<f64> {
    if run.outcome != Outcome::Done || run.objects.is_empty() {
        return None;
    }
    let (mut sum, mut n) = (0.0, 0.0);
    for object in measured(run) {
        sum += span(object)? as f64;
        n += 1.0;
    }
    (n > 0.0).then(|| sum / n)
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
        object_p50_ms: stat("object_p50_ms"),
        object_p95_ms: stat("object_p95_ms"),
        object_p99_ms: stat("object_p99_ms"),
        object_max_ms: stat("object_max_ms"),
        undelivered: stat("undelivered"),
        connect_ms: stat("connect_ms"),
        first_byte_ms: stat("first_byte_ms"),
        limit_ratio: stat("limit_ratio"),
        goodput_bps: stat("goodput_bps"),
        packets_lost: stat("packets_lost"),
        retransmitted: stat("retransmitted"),
        wire_bytes: stat("wire_bytes"),
        declared_failed_ms: stat("declared_failed_ms"),
        failover_ms: stat("failover_ms"),
        restored_ms: stat("restored_ms"),
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

/// The seed whose value of `metric` is the median (the lower of the two middle ones); the first seed when no run has one.
#[must_use]
pub fn median_seed(runs: &[Run], metric: &str) -> u64 {
    let mut finished: Vec<(f64, u64)> =
        runs.iter().filter_map(|run| Some((value(run, metric)?, run.seed))).collect();
    finished.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    match finished.len().checked_sub(1) {
        Some(last) => finished[last / 2].1,
        None => runs.first().map_or(0, |run| run.seed),
    }
}
