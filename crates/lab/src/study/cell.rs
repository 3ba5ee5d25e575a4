//! One printed cell beside the measured one.

use super::definition::{Definition, Metric};
use super::published::Row;
use crate::results::{Outcome, Race, Run};
use crate::stats::interval;
use std::collections::BTreeMap;

/// A printed number and what the race found in its place.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Column to label, as printed.
    pub labels: BTreeMap<String, String>,
    /// The number as printed.
    pub published: f64,
    /// Mean over the runs that have the number; `None` without one.
    pub measured: Option<f64>,
    /// The mean's 95 % t-interval; `None` without spread.
    pub ci95: Option<[f64; 2]>,
    /// Runs, and how many of them did not finish.
    pub runs: (usize, usize),
    /// What the two say together.
    pub verdict: Verdict,
}

/// How far a measured cell lies from the printed one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The cell set one of our inputs: no evidence.
    Calibrated,
    /// Within 10 % of the printed number.
    Agrees,
    /// Within a factor of 1.5.
    Near,
    /// Farther away.
    Differs,
    /// No run has the number.
    Missing,
}

impl Verdict {
    /// One word for the table.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Calibrated => "(input)",
            Self::Agrees => "agrees",
            Self::Near => "near",
            Self::Differs => "differs",
            Self::Missing => "missing",
        }
    }

    fn of(published: f64, measured: Option<f64>) -> Self {
        let Some(measured) = measured.filter(|m| *m > 0.0) else { return Self::Missing };
        let off = (measured / published).max(published / measured);
        if off <= 1.1 {
            Self::Agrees
        } else if off <= 1.5 {
            Self::Near
        } else {
            Self::Differs
        }
    }
}

/// The race's counterpart of a printed row.
pub(super) fn measure(definition: &Definition, row: &Row, race: &Race) -> Result<Cell, String> {
    let missing = |what: String| format!("study {}: {what}", definition.name);
    let point = race
        .points
        .iter()
        .find(|point| definition.factors.iter().all(|f| point.factors.get(f) == row.labels.get(f)))
        .ok_or_else(|| missing(format!("no point of the plan for {:?}", row.labels)))?;
    let contestant = definition.contestants.get(&row.labels["arm"]);
    let contestant = contestant
        .and_then(|name| point.contestants.iter().find(|contestant| contestant.name == *name))
        .ok_or_else(|| missing(format!("no contestant for '{}'", row.labels["arm"])))?;
    let values: Vec<f64> = contestant
        .runs
        .iter()
        .filter_map(|run| match definition.metric {
            Metric::ObjectEnd => object_end(run, row.labels.get("object")?),
            Metric::NetIo => net_io(run),
        })
        .collect();
    let measured = interval::mean(&values);
    let unfinished = contestant.runs.iter().filter(|run| run.outcome != Outcome::Done).count();
    let verdict = if definition.calibrates(&row.labels) {
        Verdict::Calibrated
    } else {
        Verdict::of(row.value, measured)
    };
    Ok(Cell {
        labels: row.labels.clone(),
        published: row.value,
        measured,
        ci95: interval::ci95(&values),
        runs: (contestant.runs.len(), unfinished),
        verdict,
    })
}

/// Seconds until the object was delivered.
fn object_end(run: &Run, number: &str) -> Option<f64> {
    let index = number.parse::<usize>().ok()?.checked_sub(1)?;
    run.objects.get(index)?.delivered_ns.map(seconds)
}

/// KiB of HTTP per second, as httperf counts it.
fn net_io(run: &Run) -> Option<f64> {
    let ends = run.objects.iter().filter_map(|object| object.delivered_ns);
    let last = seconds(ends.max()?);
    let bytes: u64 = run
        .objects
        .iter()
        .filter(|object| object.delivered_ns.is_some())
        .map(|object| object.bytes + REQUEST_AND_RESPONSE_HEADS)
        .sum();
    (last > 0.0).then(|| bytes as f64 / 1024.0 / last)
}

/// What a request and a response head have together in the study's rig: the value that the loss-free rows of
/// Osterdahl's tables 1 and 2 imply (1.96 s for 50 starts at 25 a second).
const REQUEST_AND_RESPONSE_HEADS: u64 = 307;

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_symmetric_ratios() {
        assert_eq!(Verdict::of(10.0, Some(10.9)), Verdict::Agrees);
        assert_eq!(Verdict::of(10.9, Some(10.0)), Verdict::Agrees);
        assert_eq!(Verdict::of(10.0, Some(14.0)), Verdict::Near);
        assert_eq!(Verdict::of(10.0, Some(20.0)), Verdict::Differs);
        assert_eq!(Verdict::of(20.0, Some(10.0)), Verdict::Differs);
        assert_eq!(Verdict::of(10.0, None), Verdict::Missing);
    }
}
