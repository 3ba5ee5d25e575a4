//! What runs come to: a contestant's figures over its seeds, and two contestants on the same seeds.

use super::{Cause, Contestant, Experiment, Point, label};
use crate::stats::metrics;
use serde::{Deserialize, Serialize};

/// Over the runs of one contestant, metric by metric.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    /// Page time, milliseconds.
    pub page_ms: Stat,
    /// Mean response time of a run's objects, milliseconds.
    pub object_ms: Stat,
    /// Median response time (of a message: its delay) of a run's delivered objects, milliseconds.
    #[serde(default)]
    pub object_p50_ms: Stat,
    /// The metric's 95th percentile.
    #[serde(default)]
    pub object_p95_ms: Stat,
    /// The metric's 99th percentile.
    #[serde(default)]
    pub object_p99_ms: Stat,
    /// The longest of a run.
    #[serde(default)]
    pub object_max_ms: Stat,
    /// Objects of a run that were not delivered.
    #[serde(default)]
    pub undelivered: Stat,
    /// Connection set-up, milliseconds.
    pub connect_ms: Stat,
    /// Mean time to first byte of a run's objects, milliseconds.
    pub first_byte_ms: Stat,
    /// Page time as a multiple of the limit.
    pub limit_ratio: Stat,
    /// Body bytes delivered over page time, bits per second.
    pub goodput_bps: Stat,
    /// Packets lost by the network, both directions.
    pub packets_lost: Stat,
    /// Packets that carried a retransmission, both directions.
    pub retransmitted: Stat,
    /// IP bytes the hosts handed to the paths, both directions.
    pub wire_bytes: Stat,
    /// Path failure to its being declared failed by the sender of the data, milliseconds.
    #[serde(default)]
    pub declared_failed_ms: Stat,
    /// Path failure to next delivery, milliseconds.
    pub failover_ms: Stat,
    /// Path failure to service restored, milliseconds.
    #[serde(default)]
    pub restored_ms: Stat,
}

impl Summary {
    /// The metrics' names, in order.
    pub const METRICS: [&'static str; 17] = [
        "page_ms",
        "object_ms",
        "object_p50_ms",
        "object_p95_ms",
        "object_p99_ms",
        "object_max_ms",
        "undelivered",
        "connect_ms",
        "first_byte_ms",
        "limit_ratio",
        "goodput_bps",
        "packets_lost",
        "retransmitted",
        "wire_bytes",
        "declared_failed_ms",
        "failover_ms",
        "restored_ms",
    ];

    /// The metric of this name.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<&Stat> {
        Some(match name {
            "page_ms" => &self.page_ms,
            "object_ms" => &self.object_ms,
            "object_p50_ms" => &self.object_p50_ms,
            "object_p95_ms" => &self.object_p95_ms,
            "object_p99_ms" => &self.object_p99_ms,
            "object_max_ms" => &self.object_max_ms,
            "undelivered" => &self.undelivered,
            "connect_ms" => &self.connect_ms,
            "first_byte_ms" => &self.first_byte_ms,
            "limit_ratio" => &self.limit_ratio,
            "goodput_bps" => &self.goodput_bps,
            "packets_lost" => &self.packets_lost,
            "retransmitted" => &self.retransmitted,
            "wire_bytes" => &self.wire_bytes,
            "declared_failed_ms" => &self.declared_failed_ms,
            "failover_ms" => &self.failover_ms,
            "restored_ms" => &self.restored_ms,
            _ => return None,
        })
    }
}

/// One metric over the runs. In `page_ms` a run that did not finish counts with its deadline, and in the percentiles of
/// objects its missing ones do, so that with any of them the figures are lower bounds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Stat {
    /// Runs that have a value; 1 where nothing is left to chance and all are alike.
    pub n: u64,
    /// Runs that did not finish.
    pub failed: u64,
    /// Mean of the values; null without one.
    pub mean: Option<f64>,
    /// Geometric mean of the values: what ratios of contestants are quotients of; null without one, or where a value is
    /// not above 0.
    pub geometric_mean: Option<f64>,
    /// Median; null without a value.
    pub median: Option<f64>,
    /// 95 % interval of the median, by ranks; null when n < 6 or all values are equal.
    pub ci95: Option<[f64; 2]>,
    /// A quarter of the values are below the first, a quarter above the second; null without a value.
    pub quartiles: Option<[f64; 2]>,
    /// 10th percentile; null without a value.
    pub p10: Option<f64>,
    /// 90th percentile; null without a value.
    pub p90: Option<f64>,
    /// 95th percentile; null without a value.
    pub p95: Option<f64>,
}

/// Two contestants on the same seeds: `a` over `b`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Comparison {
    /// The contestant above the line, as typed.
    pub a: String,
    /// The contestant below the line, as typed: one before `a` in the plan.
    pub b: String,
    /// Name of the metric ([`Summary::METRICS`]).
    pub metric: String,
    /// Geometric mean of a/b over the seeds in which both have a value; null without one.
    pub ratio: Option<f64>,
    /// 95 % t-interval on the logarithms; null when n < 2 or all ratios are equal.
    pub ci95: Option<[f64; 2]>,
    /// Pairs; 1 where it is `exact`.
    pub n: u64,
    /// What the ratio is where runs did not finish; left out where all did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
    /// Nothing was left to chance, and all runs are alike: one case, and no estimate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exact: bool,
    /// Pairs in which a's value is less than b's.
    pub less: u64,
    /// Pairs in which a's value is more than b's.
    pub more: u64,
    /// What that says.
    pub verdict: Verdict,
    /// How many more seeds would decide, if they spread as these do; null where it is decided, or where no number would.
    pub more_seeds: Option<u64>,
    /// What makes the one sooner than the other, as experiments found it, those of most effect first; empty where none is
    /// named.
    #[serde(default)]
    pub causes: Vec<Cause>,
    /// The experiments; left out where none were made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experiment: Option<Experiment>,
}

impl Comparison {
    /// The same with the contestants changed about: `b` over `a`.
    #[must_use]
    pub fn inverse(&self) -> Self {
        Self {
            a: self.b.clone(),
            b: self.a.clone(),
            metric: self.metric.clone(),
            ratio: self.ratio.map(f64::recip),
            ci95: self.ci95.map(|[low, high]| [high.recip(), low.recip()]),
            bound: self.bound.map(|bound| match bound {
                Bound::AtLeast => Bound::AtMost,
                Bound::AtMost => Bound::AtLeast,
                Bound::Unknown => Bound::Unknown,
            }),
            less: self.more,
            more: self.less,
            verdict: self.verdict.inverse(),
            causes: self.causes.clone(),
            experiment: self.experiment.clone(),
            ..*self
        }
    }
}

/// What contestants that raced together had of the network in one run, in the order of the contestants.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Sharing {
    /// The seed.
    pub seed: u64,
    /// When the last of them began, on the network's clock; left out where it is 0, as in the virtual world.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub from_ns: u64,
    /// When the first of them was done, on that clock: until then all were loading.
    pub until_ns: u64,
    /// Body bytes that each received between the two.
    pub bytes: Vec<u64>,
    /// Each one's share of them.
    pub shares: Vec<f64>,
    /// Jain's index of the shares: 1 where all are the same, 1/n where one has all.
    pub jain: f64,
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// What a comparison says, by [`decide`](crate::stats::decision::decide).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// a's value is less: of times, a is sooner.
    Less,
    /// a's value is more.
    More,
    /// No gap that matters.
    Level,
    /// The seeds are too few to tell.
    Undecided,
}

impl Verdict {
    /// As results name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Less => "less",
            Self::More => "more",
            Self::Level => "level",
            Self::Undecided => "undecided",
        }
    }

    /// With the contestants changed about.
    #[must_use]
    pub const fn inverse(self) -> Self {
        match self {
            Self::Less => Self::More,
            Self::More => Self::Less,
            same => same,
        }
    }
}

/// What a ratio is where runs that did not finish count with their deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Bound {
    /// Runs of `a` did not finish: the ratio is this or more.
    #[serde(rename = "at least")]
    AtLeast,
    /// Runs of `b` did not finish: the ratio is this or less.
    #[serde(rename = "at most")]
    AtMost,
    /// Runs of both did not finish, each in other seeds: no bound.
    #[serde(rename = "unknown")]
    Unknown,
}

impl Contestant {
    /// What it is called where people read: its nickname, or as it was typed.
    #[must_use]
    pub fn label(&self) -> &str {
        label::shown(&self.name)
    }
}

impl Point {
    /// What must be known to say what its runs mean.
    #[must_use]
    pub fn terms(&self) -> metrics::Terms {
        metrics::Terms { deadline_ns: self.workload.deadline_ns, chance: self.chance }
    }

    /// `a` over `b` in this metric, whichever of the two comes first in the plan.
    #[must_use]
    pub fn compared(&self, a: &str, b: &str, metric: &str) -> Option<Comparison> {
        let stored = |a: &str, b: &str| {
            self.comparisons.iter().find(|found| found.a == a && found.b == b && found.metric == metric)
        };
        stored(a, b).cloned().or_else(|| stored(b, a).map(Comparison::inverse))
    }

    /// The metric that the verdict is about.
    #[must_use]
    pub fn decisive(&self) -> &'static str {
        if self.workload.messages { "object_p95_ms" } else { "page_ms" }
    }
}
