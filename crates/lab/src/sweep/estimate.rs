//! Estimates the number and the size of the files that a sweep will write, before the sweep runs.
//!
//! The constants were measured over pages and bulk transfers, and rounded. The estimate is meant to be right within a
//! factor of two.

use super::Shard;
use crate::plan::{Outline, Plan, PointPlan};
use crate::run::one;

/// An estimate of the number of files and of their size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SizeEstimate {
    /// The number of files.
    pub files: u64,
    /// The total size of the files in bytes.
    pub bytes: u64,
    /// The bytes of captures, which `bytes` includes.
    pub captures: u64,
}

/// JSON bytes for each object of a run with the parts of the response times.
const OBJECT: u64 = 140;
/// JSON bytes for each object of a run without these parts.
const BARE_OBJECT: u64 = 35;
/// The number of runs of a contestant that the report draws object by object. Only they have the parts in the results.
const DRAWN_RUNS: u64 = 3;
/// JSON bytes for each run in the results, without the run's objects.
const RUN: u64 = 1000;
/// JSON bytes for each contestant in the results, without its runs: settings, figures and comparisons.
const CONTESTANT: u64 = 12_000;
/// The factor by which compression makes the files of points smaller than their JSON.
const PACKED: u64 = 4;
/// The size in bytes of a report without any points.
const REPORT: u64 = 120_000;
/// The size in bytes that each point adds to the report, without the charts of runs.
const REPORT_POINT: u64 = 100_000;
/// The size in bytes that each drawn object adds to the report.
const REPORT_OBJECT: u64 = 550;
/// The size in bytes that each object adds to a HAR file.
const ENTRY: u64 = 900;

/// Bytes per packet in the files with data for charts: congestion windows, losses and queueing delays. Captures do not
/// contain these data.
const COURSE: u64 = 35;

/// Estimates the number and size of the files of a plan, or of one shard of the plan. `pcap` names the captures that
/// are kept, as in `--pcap`. Only the first `drawn` points have files with data for charts.
#[must_use]
pub fn of(outline: &Outline, shard: Option<Shard>, pcap: &str, drawn: usize) -> SizeEstimate {
    let plan = outline.plan();
    let mut estimate = SizeEstimate { files: 1, ..SizeEstimate::default() };
    let (contestants, seeds) = (plan.contestants.len() as u64, plan.seeds.len() as u64);
    if outline.people().is_some() {
        // A sweep over a population stores one file per person, without objects, captures and archives. A sweep that is
        // not divided into shards also stores `results.json` and the report page.
        let own = |number: &usize| shard.is_none_or(|shard| shard.has(*number));
        let people = (1..=outline.count()).filter(own).count() as u64;
        let bytes = people * contestants * (CONTESTANT + seeds * RUN);
        let whole = u64::from(shard.is_none());
        let bytes = bytes / PACKED + bytes * whole;
        return SizeEstimate { files: 1 + people + 2 * whole, bytes, captures: 0 };
    }
    let (mut results, mut drawn_objects) = (0, 0);
    for (index, point) in outline.points().enumerate() {
        if !shard.is_none_or(|shard| shard.has(index + 1)) {
            continue;
        }
        results += json_bytes(plan, &point, true);
        drawn_objects += drawn_objects_of(plan, &point);
        estimate.files += 1;
        estimate.bytes += json_bytes(plan, &point, false) / PACKED;
        let captured = add_point(&mut estimate, plan, &point, pcap);
        if index < drawn && captured > 0 {
            estimate.files += contestants;
            estimate.bytes += contestants * packets(&point).min(one::MOST_IN_COURSE as u64) * COURSE;
        }
    }
    estimate.bytes += estimate.captures;
    if shard.is_none() {
        // A sweep that is not divided into shards also writes the report and `results.json`, which holds all points.
        estimate.files += 2;
        estimate.bytes += results + report_bytes(drawn_objects, outline.count() as u64);
    }
    estimate
}

/// Estimates the number and size of the files of a race that is not a sweep.
#[must_use]
pub fn of_race(plan: &Plan, pcap: &str) -> SizeEstimate {
    // The two files are `results.json` and the report.
    let mut estimate = SizeEstimate { files: 2, ..SizeEstimate::default() };
    let (mut results, mut drawn_objects) = (0, 0);
    for point in &plan.points {
        results += json_bytes(plan, point, true);
        drawn_objects += drawn_objects_of(plan, point);
        add_point(&mut estimate, plan, point, pcap);
    }
    let report = report_bytes(drawn_objects, plan.points.len() as u64);
    estimate.bytes += results + report + estimate.captures;
    estimate
}

/// Returns the bytes of the report on `points` points, which draws `objects` objects.
fn report_bytes(objects: u64, points: u64) -> u64 {
    REPORT + points * REPORT_POINT + objects * REPORT_OBJECT
}

/// Returns the number of objects of a point that the report draws.
fn drawn_objects_of(plan: &Plan, point: &PointPlan) -> u64 {
    let runs = if point.workload.messages.is_some() { 1 } else { DRAWN_RUNS.min(plan.seeds.len() as u64) };
    plan.contestants.len() as u64 * runs * point.workload.page.objects.len() as u64
}

/// Estimates the number of JSON bytes in the results of one point. With `thin`, only the drawn runs have every detail.
fn json_bytes(plan: &Plan, point: &PointPlan, thin: bool) -> u64 {
    let (contestants, seeds) = (plan.contestants.len() as u64, plan.seeds.len() as u64);
    let whole = if thin { seeds.min(DRAWN_RUNS) } else { seeds };
    let of_object = whole * OBJECT + (seeds - whole) * BARE_OBJECT;
    contestants * (CONTESTANT + seeds * RUN + point.workload.page.objects.len() as u64 * of_object)
}

/// Adds the page loads and the captures of a point. Returns the number of runs that are captured.
fn add_point(estimate: &mut SizeEstimate, plan: &Plan, point: &PointPlan, pcap: &str) -> u64 {
    let (contestants, seeds) = (plan.contestants.len() as u64, plan.seeds.len() as u64);
    if point.workload.bulk.is_none() && point.workload.messages.is_none() {
        estimate.files += contestants;
        estimate.bytes += contestants * point.workload.page.objects.len() as u64 * ENTRY;
    }
    let captured = match pcap {
        "all" => contestants * seeds,
        "off" => 0,
        _ => contestants,
    };
    let servers = point.workload.servers() as u64;
    // The captures of all hosts contain each packet twice. By default, only the server's capture is kept. With several
    // servers, the client's capture is kept, too.
    let (hosts, ends) = match (pcap, servers) {
        ("median", 1) => (1, 1),
        ("median", _) => (2, 2),
        _ => (1 + servers, 2),
    };
    estimate.files += captured * hosts;
    estimate.captures += captured * ends * capture(point);
    captured
}

/// Returns the number of bytes that one run transfers, without transport headers.
fn payload(point: &PointPlan) -> u64 {
    let responses: u64 = point.workload.page.objects.iter().map(anabranch_http::page::Object::response).sum();
    responses + 100 * point.workload.page.objects.len() as u64
}

/// Estimates the number of packets with data in one run.
fn packets(point: &PointPlan) -> u64 {
    payload(point) / 1400 + 2 * point.workload.page.objects.len() as u64 + 10
}

/// Returns the bytes of the capture of all packets of one run at one end. Every second packet is acknowledged.
fn capture(point: &PointPlan) -> u64 {
    let (payload, packets) = (payload(point), packets(point));
    payload + packets * (60 + 36) + packets / 2 * (70 + 36)
}
