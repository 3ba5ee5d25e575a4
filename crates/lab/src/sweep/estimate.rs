//! How much a sweep will write, told before it runs.
//!
//! The figures are measured, over pages and bulk transfers, and rounded; an estimate is meant to be right within a factor of two.

use super::Shard;
use crate::plan::{Outline, PointPlan};
use crate::run::one;

/// Files and bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Estimate {
    /// Files.
    pub files: u64,
    /// Bytes in all of them.
    pub bytes: u64,
    /// Of these, in captures.
    pub captures: u64,
}

/// JSON of an object of a run.
const OBJECT: u64 = 750;
/// JSON of a run beside its objects and series.
const RUN: u64 = 750;
/// JSON of a contestant beside its runs: settings, figures, comparisons.
const CONTESTANT: u64 = 12_000;
/// HAR of an object.
const ENTRY: u64 = 900;

/// A packet in what a drawing shows beside packets.
const COURSE: u64 = 35;

/// Of this plan, or of this part of it, with these captures, where the report draws the first `drawn` points packet by
/// packet.
#[must_use]
pub fn of(outline: &Outline, shard: Option<Shard>, pcap: &str, drawn: usize) -> Estimate {
    let plan = outline.plan();
    let mut estimate = Estimate { files: 1, ..Estimate::default() };
    let (contestants, seeds) = (plan.contestants.len() as u64, plan.seeds.len() as u64);
    if outline.people().is_some() {
        // Of each person one file, without objects, captures and archives; then results.json and the page.
        let own = |number: &usize| shard.is_none_or(|shard| shard.has(*number));
        let people = (1..=outline.count()).filter(own).count() as u64;
        let bytes = people * contestants * (CONTESTANT + seeds * RUN);
        let whole = u64::from(shard.is_none());
        return Estimate { files: 1 + people + 2 * whole, bytes: bytes * (1 + whole), captures: 0 };
    }
    let mut results = 0;
    for (index, point) in outline.points().enumerate() {
        if !shard.is_none_or(|shard| shard.has(index + 1)) {
            continue;
        }
        let objects = point.workload.page.objects.len() as u64;
        let json = contestants * (CONTESTANT + seeds * (RUN + objects * OBJECT));
        results += json;
        estimate.files += 1;
        estimate.bytes += json;
        if point.workload.bulk.is_none() && point.workload.messages.is_none() {
            estimate.files += contestants;
            estimate.bytes += contestants * objects * ENTRY;
        }
        let captured = match pcap {
            "all" => contestants * seeds,
            "off" => 0,
            _ => contestants,
        };
        let hosts = 1 + point.workload.servers() as u64;
        estimate.files += captured * hosts;
        estimate.captures += captured * capture(&point);
        if index < drawn && captured > 0 {
            estimate.files += contestants;
            estimate.bytes += contestants * packets(&point).min(one::MOST_IN_COURSE as u64) * COURSE;
        }
    }
    estimate.bytes += estimate.captures;
    if shard.is_none() {
        // All points in one file, with indents, and the report.
        estimate.files += 2;
        estimate.bytes += results + results / 8;
    }
    estimate
}

/// Bytes that one run sends beside headers.
fn payload(point: &PointPlan) -> u64 {
    let responses: u64 = point.workload.page.objects.iter().map(anabranch_http::page::Object::response).sum();
    responses + 100 * point.workload.page.objects.len() as u64
}

/// Packets of one run that carry data.
fn packets(point: &PointPlan) -> u64 {
    payload(point) / 1400 + 2 * point.workload.page.objects.len() as u64 + 10
}

/// Bytes of one run's captures: every packet at both of its ends, and every second one acknowledged.
fn capture(point: &PointPlan) -> u64 {
    let (payload, packets) = (payload(point), packets(point));
    2 * (payload + packets * (60 + 36) + packets / 2 * (70 + 36))
}
