//! Computes the metrics of a run, and compares the contestants' values of each metric.

use super::decision::{self, ComparisonFigures};
use super::paired::Value;
use super::{describe, median_ratio, paired};
use crate::{Comparison, Outcome, Run, Stat, Summary, Verdict};

/// The properties of an experiment point (one combination of settings) that are needed to interpret its runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PointTerms {
    /// The time from the start of a run to its deadline, in nanoseconds. At the deadline, the run is stopped. An
    /// unfinished run would have taken at least this long. `None` if the deadline is not known.
    pub deadline_ns: Option<u64>,
    /// Whether runs with different seeds can differ, for example by random loss or jitter.
    pub is_random: bool,
}

/// The metrics in which contestants are compared. The table shows these comparisons.
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

/// Returns the value of a metric in one run. `None` if the run has no value. For example, a run that did not finish has
/// no page time, and a run without a path failure has no failover time.
#[must_use]
pub fn value(run: &Run, metric: &str) -> Option<f64> {
    let milliseconds = |ns: u64| ns as f64 / 1e6;
    match metric {
        "page_ms" => run.page_ns.map(milliseconds),
        "start_render_ms" => run.start_render_ns.map(milliseconds),
        "largest_image_ms" => run.largest_image_ns.map(milliseconds),
        "byte_index_ms" => run.byte_index_ns.map(milliseconds),
        // Only runs in which every object was delivered have a mean. A mean over the delivered objects alone would be
        // too optimistic.
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

/// Like [`value`], but also for runs that did not finish. An unfinished run has the deadline as its page time, which is
/// a lower bound. Its undelivered objects count as having waited until the deadline or longer, so percentiles that
/// include them are lower bounds.
#[must_use]
pub fn bounded(run: &Run, metric: &str, terms: PointTerms) -> Option<Value> {
    if run.outcome == Outcome::Done {
        return value(run, metric).map(Value::from);
    }
    let at_least = |ns: u64| Value { value: ns as f64 / 1e6, at_least: true };
    match (metric, terms.deadline_ns) {
        ("page_ms", deadline) => deadline.map(at_least),
        ("object_p50_ms", Some(deadline)) => waited(run, 50, deadline),
        ("object_p95_ms", Some(deadline)) => waited(run, 95, deadline),
        ("object_p99_ms", Some(deadline)) => waited(run, 99, deadline),
        ("object_max_ms", Some(deadline)) => waited(run, 100, deadline),
        _ => value(run, metric).map(Value::from),
    }
}

/// Returns the delay percentile of an unfinished run in milliseconds (nearest rank). It is a lower bound if its rank
/// falls on an undelivered object. All undelivered objects rank after the delivered objects, even those that have
/// waited only briefly.
fn waited(run: &Run, percent: usize, deadline: u64) -> Option<Value> {
    let (mut finished, mut missing) = (Vec::new(), Vec::new());
    for object in measured(run) {
        let issued = object.issued_ns.unwrap_or(0);
        match object.delivered_ns {
            Some(at) => finished.push(at.saturating_sub(issued)),
            None => missing.push(deadline.saturating_sub(issued)),
        }
    }
    let rank = ((finished.len() + missing.len()) * percent).div_ceil(100).checked_sub(1)?;
    finished.sort_unstable();
    if let Some(span) = finished.get(rank) {
        return Some(Value::from(*span as f64 / 1e6));
    }
    finished.append(&mut missing);
    finished.sort_unstable();
    Some(Value { value: finished[rank] as f64 / 1e6, at_least: true })
}

/// Returns the number of distinct runs. Runs are distinct if their outcomes or page times differ. They are also
/// distinct if an object was issued, or its first or last byte arrived, at another time. A different seed alone does
/// not count.
#[must_use]
pub fn distinct(runs: &[Run]) -> u64 {
    let story = |run: &Run| {
        let objects = run.objects.iter().map(|o| (o.issued_ns, o.first_byte_ns, o.delivered_ns));
        (run.outcome as u8, run.page_ns, objects.collect::<Vec<_>>())
    };
    // Most runs that differ also have different page times. The full comparison is therefore made only among runs with
    // equal page times.
    let mut ends: Vec<(Option<u64>, usize)> = runs.iter().map(|run| run.page_ns).zip(0..).collect();
    ends.sort_unstable();
    let alike = ends.chunk_by(|a, b| a.0 == b.0);
    let of_group = |group: &[(Option<u64>, usize)]| {
        if group.len() == 1 {
            return 1;
        }
        let mut stories: Vec<_> = group.iter().map(|&(_, index)| story(&runs[index])).collect();
        stories.sort_unstable();
        stories.dedup();
        stories.len() as u64
    };
    alike.map(of_group).sum()
}

/// Returns the runs that the statistics count. If nothing is random and all runs are identical, this is only the first
/// run. Otherwise it is all runs.
#[must_use]
pub fn counted(runs: &[Run], terms: PointTerms) -> &[Run] {
    if is_one_case(runs, terms) { &runs[..1] } else { runs }
}

/// Returns whether all runs are identical because nothing is random. Any further run would then be identical, too.
#[must_use]
pub fn is_one_case(runs: &[Run], terms: PointTerms) -> bool {
    !terms.is_random && distinct(runs) == 1
}

/// Returns the objects that are measured, that is, all except background traffic.
fn measured(run: &Run) -> impl Iterator<Item = &crate::Object> {
    run.objects.iter().filter(|object| !object.background)
}

/// Returns a percentile (nearest rank) of the times from issue to delivery of a run's objects, in milliseconds. `None`
/// if the run did not finish.
fn percentile(run: &Run, percent: usize) -> Option<f64> {
    if run.outcome != Outcome::Done {
        return None;
    }
    let span = |o: &crate::Object| Some(o.delivered_ns?.saturating_sub(o.issued_ns?));
    let mut spans: Vec<u64> = measured(run).filter_map(span).collect();
    let rank = (spans.len() * percent).div_ceil(100).checked_sub(1)?;
    let (_, at, _) = spans.select_nth_unstable(rank);
    Some(*at as f64 / 1e6)
}

/// Returns the mean of the times, in nanoseconds, that `span` returns for the objects of a finished run.
fn mean_of(run: &Run, span: impl Fn(&crate::Object) -> Option<u64>) -> Option<f64> {
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

/// Summarises the runs of one contestant.
#[must_use]
pub fn summarise(runs: &[Run], terms: PointTerms) -> Summary {
    let runs = counted(runs, terms);
    let failed = runs.iter().filter(|run| run.outcome != Outcome::Done).count() as u64;
    let stat = |metric: &str| -> Stat {
        let values = runs.iter().filter_map(|run| bounded(run, metric, terms));
        describe(&values.map(|value| value.value).collect::<Vec<f64>>(), failed)
    };
    // A contestant's runs load the same page. If one of them has the time, the others would have had it later.
    let paint = |metric: &str| -> Stat {
        let values = runs.iter().filter(|run| run.outcome != Outcome::Done || value(run, metric).is_some());
        let values =
            values.filter_map(|run| value(run, metric).or(terms.deadline_ns.map(|ns| ns as f64 / 1e6)));
        let any = runs.iter().any(|run| value(run, metric).is_some());
        if any { describe(&values.collect::<Vec<f64>>(), failed) } else { Stat::default() }
    };
    Summary {
        page_ms: stat("page_ms"),
        start_render_ms: paint("start_render_ms"),
        largest_image_ms: paint("largest_image_ms"),
        byte_index_ms: paint("byte_index_ms"),
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

/// Compares contestant `a` with contestant `b` in one metric. Both lists of runs must have the same order of seeds.
#[must_use]
pub fn compare(a: (&str, &[Run]), b: (&str, &[Run]), metric: &str, terms: PointTerms) -> Comparison {
    let exact = is_one_case(a.1, terms) && is_one_case(b.1, terms);
    let runs = a.1.iter().zip(b.1).take(if exact { 1 } else { usize::MAX });
    let of = |run: &Run| bounded(run, metric, terms);
    let pairs: Vec<(Option<Value>, Option<Value>)> = runs.map(|(one, other)| (of(one), of(other))).collect();
    let (found, medians) = (paired::ratio(&pairs), median_ratio::of(&pairs));
    let (ci95, n, bound) = (found.ci95, found.n, found.bound);
    let decided =
        found.ratio.map(|ratio| decision::decide(&ComparisonFigures { ratio, ci95, n, exact, bound }));
    let (verdict, more_seeds) = decided.unwrap_or((Verdict::Undecided, None));
    Comparison {
        a: a.0.to_owned(),
        b: b.0.to_owned(),
        metric: metric.to_owned(),
        ratio: found.ratio,
        ci95,
        median_ratio: medians.ratio,
        median_ci95: medians.ci95,
        n,
        bound,
        exact,
        less: found.wins[0],
        more: found.wins[1],
        verdict,
        more_seeds,
        causes: Vec::new(),
        experiment: None,
    }
}

/// Returns the seed of the run whose value of `metric` is the median. If two values are in the middle, the lower value
/// counts. If no run has a value, returns the first seed.
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
