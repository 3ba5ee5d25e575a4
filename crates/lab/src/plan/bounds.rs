//! Memory limits. A plan that needs more memory than a machine has is rejected before anything runs.
//!
//! The objects of a run stay in memory until their results are written. With `--out`, results are written after each
//! point (combination of factor levels), and otherwise after the last point. Every packet of a run stays in memory
//! until the run has been analysed. An object takes about 2 kB and a packet 400 bytes. Both sizes were measured and
//! rounded up.

use super::error::PlanError;
use super::{Contestant, Outline, PointPlan};
use anabranch_base::time::nanos;

/// The maximum number of paths, and also the maximum number of hosts on each side of the network.
pub const MAX_HOSTS: usize = 250;

/// Rejects a point that is too large even if it runs alone: it has too many paths, servers, packets or records.
/// `several` says whether the plan has other points. If so, the error for too many records says that it is about one
/// point.
///
/// # Errors
/// [`PlanError`] with the number that is too large, the limit, and advice on what to make smaller.
pub fn check(
    point: &PointPlan,
    contestants: &[Contestant],
    seeds: usize,
    several: bool,
) -> Result<(), PlanError> {
    let (paths, servers) = (point.network.paths.len(), point.workload.servers());
    for (n, what) in [(paths, "paths"), (servers, "servers")] {
        if n > MAX_HOSTS {
            let merge = if what == "servers" { ", or --origins merge" } else { "" };
            return Err(PlanError::at("network", format!("{n} {what}; write at most {MAX_HOSTS}{merge}")));
        }
    }
    let packets = packets(point);
    if packets > MAX_PACKETS {
        return Err(PlanError::at(
            "workload",
            format!(
                "a run may put {packets} packets on the paths, more than the {MAX_PACKETS} that are kept; write \
                     fewer or smaller objects, a lower rate or an earlier deadline"
            ),
        ));
    }
    let records = records(point, contestants, seeds);
    if records > MAX_RECORDS {
        let at = if several { " at one point" } else { "" };
        return Err(PlanError::at(
            "runs",
            format!(
                "{seeds} seeds of every contestant make {records} records{at}, more than the {MAX_RECORDS} that are \
                     kept; write fewer runs or objects"
            ),
        ));
    }
    Ok(())
}

/// Rejects a plan if the results of all its points together do not fit in memory.
///
/// # Errors
/// If there are too many records, the [`PlanError`] has their number and the limit, and says what to do instead. A plan
/// with a population is always rejected, with a [`PlanError`] that only says what to do instead.
pub fn check_together(outline: &Outline) -> Result<(), PlanError> {
    let plan = outline.plan();
    if outline.people().is_some() {
        let what = "people are raced one by one; add --out DIR, or sweep them from Python";
        return Err(PlanError::at("population", what));
    }
    let each = outline.points().map(|point| records(&point, &plan.contestants, plan.seeds.len()));
    let records = each.fold(0, u64::saturating_add);
    if records <= MAX_RECORDS {
        return Ok(());
    }
    Err(PlanError::at(
        "runs",
        format!(
            "{} seeds of every contestant and combination make {records} records, more than the {MAX_RECORDS} that are \
             kept at once; add --out DIR, which writes each combination as it is done, or write fewer runs, levels or \
             objects",
            plan.seeds.len()
        ),
    ))
}

/// Returns the number of records of results that are kept in memory for a point. A run has one record for each object,
/// and a few more for its counters and series.
fn records(point: &PointPlan, contestants: &[Contestant], seeds: usize) -> u64 {
    let run = point.workload.page.objects.len() as u64 + 5;
    run.saturating_mul(contestants.len() as u64).saturating_mul(seeds as u64)
}

/// Returns the maximum number of data packets to the client in a run. That is the number for all data, or the number
/// that the network can carry until the deadline, whichever is smaller.
fn packets(point: &PointPlan) -> u64 {
    let page = &point.workload.page;
    let payload: u128 = page.objects.iter().map(|object| u128::from(object.response())).sum();
    let mut capacity = 0_u128;
    let mut largest = 0;
    for path in &point.network.paths {
        largest = largest.max(path.down.mtu);
        let later = path.down.rate.changes().iter().map(|(_, rate)| rate.bits_per_second());
        let rate = match (&path.down.trace, path.down.rate.first()) {
            (Some(_), _) => path.down.mean_rate().map_or(u64::MAX, |rate| rate.bits_per_second()),
            (None, None) => u64::MAX,
            (None, Some(first)) => later.fold(first.bits_per_second(), u64::max),
        };
        let bits = u128::from(rate) * u128::from(nanos(point.workload.deadline)) / 1_000_000_000;
        capacity = capacity.saturating_add(bits / 8);
    }
    // IP and transport headers with options take about 52 bytes.
    let each = u128::from(largest.saturating_sub(52).max(16));
    u64::try_from(payload.min(capacity) / each).unwrap_or(u64::MAX)
}

/// The maximum number of data packets in a run: 9 GB in packets of 1500 bytes.
pub const MAX_PACKETS: u64 = 6_000_000;
/// The maximum number of records in memory at the same time, over all runs (see `records`).
pub const MAX_RECORDS: u64 = 5_000_000;

#[cfg(test)]
mod tests {
    use crate::plan::{Draft, Outline, Plan};
    use anabranch_transports::Transports;

    fn refused(flags: &[(&str, &str)]) -> String {
        let flags = flags.iter().copied();
        Draft::from_flags(flags)
            .and_then(|draft| Plan::interpret(draft, &Transports::standard()))
            .map(|_| ())
            .expect_err("too much")
            .to_string()
    }

    fn accepted(flags: &[(&str, &str)]) {
        Draft::from_flags(flags.iter().copied())
            .and_then(|draft| Plan::interpret(draft, &Transports::standard()))
            .expect("a plan");
    }

    #[test]
    fn plans_that_exceed_memory_are_refused_in_one_line() {
        let line = refused(&[("bulk", "999GB"), ("rate", "100gbit")]);
        assert!(line.starts_with("workload: ") && line.contains("packets"), "{line}");
        let line = refused(&[("runs", "1000000"), ("page", "news")]);
        assert!(line.starts_with("runs: ") && line.contains("fewer runs"), "{line}");
        let line = refused(&[("deadline", "100000min")]);
        assert!(line.starts_with("--deadline: ") && line.contains("1440min"), "{line}");
        let line = refused(&vec![("path", "rate=1mbit"); 300]);
        assert!(line.contains("300 paths"), "{line}");
    }

    #[test]
    fn points_fit_one_by_one_where_they_do_not_together() {
        let levels: Vec<String> = (1..=2000).map(|ms| format!("{ms}ms")).collect();
        let flags =
            [("rtt", levels.join(",")), ("loss", "0,1%,2%,3%,4%".to_owned()), ("runs", "100".to_owned())];
        let flags = flags.iter().map(|(key, value)| (*key, value.as_str())).chain([("objects", "1x1kB")]);
        let outline = Draft::from_flags(flags)
            .and_then(|draft| Outline::interpret(draft, &Transports::standard()))
            .expect("one by one");
        let line = super::check_together(&outline).expect_err("together").to_string();
        assert!(line.starts_with("runs: ") && line.contains("--out DIR"), "{line}");
    }

    #[test]
    fn large_plans_that_fit_are_accepted() {
        accepted(&[("bulk", "999GB")]);
        accepted(&[("bulk", "5GB"), ("rate", "10gbit")]);
        accepted(&[("runs", "200000"), ("objects", "1x1B"), ("transport", "tcp")]);
        accepted(&[("deadline", "1440min"), ("rate", "56kbit")]);
    }
}
