//! Statistics over the runs of one contestant, and of two contestants on the same seeds.

use super::{Cause, Contestant, Experiment, Point, Run, label};
use crate::stats::decision::GAP;
use crate::stats::metrics;
use serde::{Deserialize, Serialize};

/// Statistics of one contestant over its runs, by metric.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    /// Page time, milliseconds.
    pub page_ms: Stat,
    /// Time until a browser could render the page for the first time, milliseconds. Left out if no browser loaded a page.
    #[serde(default, skip_serializing_if = "Stat::is_empty")]
    pub start_render_ms: Stat,
    /// Time until a browser had the whole of the largest image, milliseconds. Left out if there is none.
    #[serde(default, skip_serializing_if = "Stat::is_empty")]
    pub largest_image_ms: Stat,
    /// Byte index, milliseconds: the integral over time of the share of the body bytes that a browser had not received.
    /// Left out if no browser loaded a page.
    #[serde(default, skip_serializing_if = "Stat::is_empty")]
    pub byte_index_ms: Stat,
    /// Mean response time of a run's objects, milliseconds.
    pub object_ms: Stat,
    /// Median response time of a run's delivered objects (for messages: median delay), milliseconds.
    #[serde(default)]
    pub object_p50_ms: Stat,
    /// 95th percentile of the response times of a run's delivered objects, milliseconds.
    #[serde(default)]
    pub object_p95_ms: Stat,
    /// 99th percentile of the response times of a run's delivered objects, milliseconds.
    #[serde(default)]
    pub object_p99_ms: Stat,
    /// Longest response time of a run's delivered objects, milliseconds.
    #[serde(default)]
    pub object_max_ms: Stat,
    /// Number of objects of a run that were not delivered.
    #[serde(default)]
    pub undelivered: Stat,
    /// Time to set up a connection, milliseconds.
    pub connect_ms: Stat,
    /// Mean time to first byte of a run's objects, milliseconds.
    pub first_byte_ms: Stat,
    /// Page time divided by the lower bound on page times ([`Run::limit_ns`](super::Run::limit_ns)).
    pub limit_ratio: Stat,
    /// Delivered body bytes divided by the page time, in bits per second.
    pub goodput_bps: Stat,
    /// Packets lost by the network, in both directions.
    pub packets_lost: Stat,
    /// Packets that carried a retransmission, in both directions.
    pub retransmitted: Stat,
    /// IP bytes that the hosts handed to the paths, in both directions.
    pub wire_bytes: Stat,
    /// Time from the path failure until the sender of the data declared the path failed, milliseconds.
    #[serde(default)]
    pub declared_failed_ms: Stat,
    /// Time from the path failure to the first arrival of data that was sent after the failure, milliseconds.
    pub failover_ms: Stat,
    /// Time from the path failure until the service was restored, milliseconds.
    #[serde(default)]
    pub restored_ms: Stat,
}

impl Summary {
    /// The names of the metrics, in the order of the output.
    pub const METRICS: [&'static str; 20] = [
        "page_ms",
        "start_render_ms",
        "largest_image_ms",
        "byte_index_ms",
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

    /// Returns the statistics of the metric `name`.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<&Stat> {
        Some(match name {
            "page_ms" => &self.page_ms,
            "start_render_ms" => &self.start_render_ms,
            "largest_image_ms" => &self.largest_image_ms,
            "byte_index_ms" => &self.byte_index_ms,
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

/// Statistics of one metric over the runs. A run that did not finish counts in `page_ms` with its deadline. Its missing
/// objects count in the percentiles as if they were delivered at the deadline. Figures that include such runs are lower
/// bounds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Stat {
    /// The number of runs that have a value. It is 1 if nothing is random and all runs are identical.
    pub n: u64,
    /// Number of runs that did not finish.
    pub failed: u64,
    /// Mean of the values; null if there is no value.
    pub mean: Option<f64>,
    /// Geometric mean of the values; null if there is no value, or if a value is not above 0. The ratio of two
    /// contestants is the quotient of their geometric means.
    pub geometric_mean: Option<f64>,
    /// Median; null if there is no value.
    pub median: Option<f64>,
    /// 95 % interval of the median, by ranks; null when n < 6 or all values are equal.
    pub ci95: Option<[f64; 2]>,
    /// First and third quartile; null if there is no value.
    pub quartiles: Option<[f64; 2]>,
    /// 10th percentile; null if there is no value.
    pub p10: Option<f64>,
    /// 75th percentile, the third quartile; null if there is no value.
    #[serde(default)]
    pub p75: Option<f64>,
    /// 90th percentile; null if there is no value.
    pub p90: Option<f64>,
    /// 95th percentile; null if there is no value.
    pub p95: Option<f64>,
}

impl Stat {
    /// Returns whether no run has a value.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.n == 0
    }
}

/// Comparison of two contestants on the same seeds: the ratio of `a` to `b`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Comparison {
    /// The contestant in the numerator of the ratio, in the syntax of the command line.
    pub a: String,
    /// The contestant in the denominator of the ratio, in the syntax of the command line. The plan lists `b` before
    /// `a`.
    pub b: String,
    /// Name of the metric, one of [`Summary::METRICS`].
    pub metric: String,
    /// Geometric mean of the ratios a/b over the seeds in which both contestants have a value; null if there is no such
    /// seed.
    pub ratio: Option<f64>,
    /// The 95 % t-interval of the ratio, computed on logarithms; null if there are fewer than two pairs, or if all
    /// ratios are equal.
    pub ci95: Option<[f64; 2]>,
    /// Median of `a` divided by the median of `b`, over the seeds in which both contestants have a value. Null if there
    /// is no such seed, or if unfinished runs determine both medians.
    #[serde(default)]
    pub median_ratio: Option<f64>,
    /// 95 % interval of `median_ratio`, by a percentile bootstrap that resamples pairs; null when n < 6 or all pairs
    /// are equal.
    #[serde(default)]
    pub median_ci95: Option<[f64; 2]>,
    /// Number of pairs of runs; 1 if `exact`.
    pub n: u64,
    /// Whether the ratio is a lower or an upper bound, because some runs did not finish; left out if all runs finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
    /// Whether the ratio is exact, because nothing is random and all runs are identical. Otherwise the ratio is an
    /// estimate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exact: bool,
    /// Number of pairs in which the value of `a` is less than the value of `b`.
    pub less: u64,
    /// Number of pairs in which the value of `a` is more than the value of `b`.
    pub more: u64,
    /// The conclusion of the comparison.
    pub verdict: Verdict,
    /// How many more seeds would decide the comparison, assuming that the spread of the ratios stays the same. Null if
    /// the comparison is decided, or if no number of seeds would decide it.
    pub more_seeds: Option<u64>,
    /// The causes of the difference between `a` and `b` that experiments found, largest effect first. Empty if no
    /// experiments were made, or if they found no cause.
    #[serde(default)]
    pub causes: Vec<Cause>,
    /// The experiments that searched for the causes; left out if no experiments were made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experiment: Option<Experiment>,
}

impl Run {
    /// The maximum lateness, in nanoseconds, with which a packet may leave an emulated link without harm. A packet that
    /// is later makes a gap between acknowledgements. A gap longer than this time ends the train of acknowledgements that
    /// Linux's HyStart detects (hystart_ack_delta_us). Slow start then continues until the queue overflows.
    pub const DISTURBING_NS: u64 = 2_000_000;

    /// Returns whether packets left an emulated link so late that they may have changed the behaviour of the hosts.
    #[must_use]
    pub fn is_disturbed(&self) -> bool {
        self.late_ns.is_some_and(|late| late > Self::DISTURBING_NS)
    }
}

impl Comparison {
    /// Returns whether `a` is certainly slower than `b`, by the geometric mean and by the median, and by at least [`GAP`].
    /// Only then does a point name `b` as its winner.
    #[must_use]
    pub fn is_clearly_slower(&self) -> bool {
        // The tolerance of 1e-12 is needed because of rounding errors, as in [`decide`](crate::stats::decision::decide).
        let by_median = self.median_ratio.is_none_or(|ratio| ratio >= GAP - 1e-12)
            && self.median_ci95.is_none_or(|[low, _]| low > 1.0);
        self.verdict == Verdict::More && by_median
    }

    /// Returns the same comparison with the contestants `a` and `b` swapped. The ratio becomes its reciprocal.
    #[must_use]
    pub fn inverse(&self) -> Self {
        Self {
            a: self.b.clone(),
            b: self.a.clone(),
            metric: self.metric.clone(),
            ratio: self.ratio.map(f64::recip),
            ci95: self.ci95.map(reciprocal),
            median_ratio: self.median_ratio.map(f64::recip),
            median_ci95: self.median_ci95.map(reciprocal),
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

/// Returns the interval of the reciprocal of a ratio whose interval is given.
fn reciprocal([low, high]: [f64; 2]) -> [f64; 2] {
    [high.recip(), low.recip()]
}

/// How contestants that raced at the same time shared the network in one run. Lists are in the order of the
/// contestants.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Sharing {
    /// The seed of the run.
    pub seed: u64,
    /// When the last contestant started, in nanoseconds on the clock of the network; left out if 0, as in the
    /// simulation.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub from_ns: u64,
    /// When the first contestant finished, in nanoseconds on the clock of the network. All contestants were loading
    /// from `from_ns` until then.
    pub until_ns: u64,
    /// Body bytes that each contestant received from `from_ns` until `until_ns`.
    pub bytes: Vec<u64>,
    /// Each contestant's share of all body bytes received from `from_ns` until `until_ns`.
    pub shares: Vec<f64>,
    /// Jain's index of the shares: 1 if all shares are equal, 1/n if one of n contestants has everything.
    pub jain: f64,
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// The conclusion of a comparison, as decided by [`decide`](crate::stats::decision::decide).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The value of `a` is less than the value of `b`. For times, `a` is faster.
    Less,
    /// The value of `a` is more than the value of `b`. For times, `a` is slower.
    More,
    /// The contestants tie: any gap between them is too small to matter.
    #[serde(rename = "tie", alias = "level")]
    Level,
    /// There are too few seeds to decide.
    Undecided,
}

impl Verdict {
    /// Returns the name of the verdict in result files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Less => "less",
            Self::More => "more",
            Self::Level => "tie",
            Self::Undecided => "undecided",
        }
    }

    /// Returns the verdict for the same comparison with the contestants `a` and `b` swapped.
    #[must_use]
    pub const fn inverse(self) -> Self {
        match self {
            Self::Less => Self::More,
            Self::More => Self::Less,
            same => same,
        }
    }
}

/// Whether a calculated ratio is a lower or an upper bound of the true ratio. If all runs finished, the calculated
/// ratio is no bound. An unfinished run takes longer than its deadline, but counts with the deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Bound {
    /// Some runs of `a`, the numerator, did not finish, so the true ratio is at least the calculated ratio.
    #[serde(rename = "at least")]
    AtLeast,
    /// Some runs of `b`, the denominator, did not finish, so the true ratio is at most the calculated ratio.
    #[serde(rename = "at most")]
    AtMost,
    /// Some runs of `a` did not finish, and some runs of `b` with other seeds did not finish either. The true ratio may
    /// be above or below the calculated ratio.
    #[serde(rename = "unknown")]
    Unknown,
}

impl Contestant {
    /// Returns the contestant's display name: the nickname if there is one, otherwise the text that the user typed.
    #[must_use]
    pub fn label(&self) -> &str {
        label::shown(&self.name)
    }
}

impl Point {
    /// Returns the properties of the point that are needed to interpret its runs: the deadline, and whether runs with
    /// different seeds can differ.
    #[must_use]
    pub fn terms(&self) -> metrics::PointTerms {
        metrics::PointTerms { deadline_ns: self.workload.deadline_ns, is_random: self.chance }
    }

    /// Compares `a` with `b` in this metric. The two contestants may be in either order in the plan.
    #[must_use]
    pub fn compared(&self, a: &str, b: &str, metric: &str) -> Option<Comparison> {
        let stored = |a: &str, b: &str| {
            self.comparisons.iter().find(|found| found.a == a && found.b == b && found.metric == metric)
        };
        stored(a, b).cloned().or_else(|| stored(b, a).map(Comparison::inverse))
    }

    /// Returns the contestant that is certainly faster than every other one that finished a run. It has the smallest
    /// median, and each comparison with it is clear by the geometric mean and by the median. `None` if the machine was
    /// too busy to measure ([`disturbed`](Self::disturbed)).
    #[must_use]
    pub fn clear_winner(&self) -> Option<&Contestant> {
        if self.disturbed().is_some() {
            return None;
        }
        let metric = self.decisive();
        let median = |one: &'_ Contestant| {
            let finished = one.runs.iter().any(|run| metrics::value(run, metric).is_some());
            one.summary.metric(metric).filter(|_| finished)?.median
        };
        let mut ranked: Vec<(&Contestant, f64)> =
            self.contestants.iter().filter_map(|one| Some((one, median(one)?))).collect();
        ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
        let (&(first, _), others) = ranked.split_first()?;
        let is_slower = |other: &Contestant| {
            let found = self.compared(&other.name, &first.name, metric);
            found.is_some_and(|found| found.is_clearly_slower())
        };
        (self.contestants.len() > 1 && others.iter().all(|(other, _)| is_slower(other))).then_some(first)
    }

    /// Returns the contestant with the largest share of runs in the emulated network that a busy machine disturbed
    /// ([`Run::is_disturbed`]), and the number of these runs. `None` if no contestant has at least a quarter of such
    /// runs. Half of the runs decide a median, and its interval needs a part of the others.
    #[must_use]
    pub fn disturbed(&self) -> Option<(&Contestant, usize)> {
        let count = |one: &Contestant| one.runs.iter().filter(|run| run.is_disturbed()).count();
        let all = self.contestants.iter().map(|one| (one, count(one)));
        let most = all.max_by_key(|(one, count)| 1000 * count / one.runs.len().max(1))?;
        (most.1 > 0 && 4 * most.1 >= most.0.runs.len()).then_some(most)
    }

    /// Returns the name of the metric that decides which contestant wins.
    #[must_use]
    pub fn decisive(&self) -> &'static str {
        if self.workload.messages { "object_p95_ms" } else { "page_ms" }
    }
}
