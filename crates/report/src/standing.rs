//! Ranks the contestants at a point by geometric means: which contestant leads, by how much and with what certainty.
//!
//! The times of contestants are geometric means over the runs. Therefore the mean ratio of two contestants' runs equals
//! the quotient of their times. The verdict of the comparison decides what the text concludes from that ratio.

use super::words::{self, short_time};
use anabranch_results::stats::metrics;
use anabranch_results::{Bound, Comparison, Contestant, Point, Run, Stat};

/// One contestant in the ranking.
#[derive(Clone, Debug)]
pub(super) struct RankedContestant {
    /// The index of the contestant in the plan.
    pub index: usize,
    /// The name of the contestant.
    pub name: String,
    /// The median page time of the contestant in milliseconds, or the median of the 95th percentiles of its message
    /// delays if the workload has only messages. `None` if no run finished.
    pub ms: Option<f64>,
    /// Whether the time is only a lower bound, because some runs did not finish. Never set for a workload of messages.
    pub at_least: bool,
}

/// All contestants of a point, fastest first. Contestants that never finished come last.
#[derive(Clone, Debug)]
pub(super) struct Ranking {
    pub ranked: Vec<RankedContestant>,
    /// For each contestant in `ranked`, its comparison with the fastest contestant.
    to_fastest: Vec<Option<Comparison>>,
}

/// Returns the time by which a run is compared, in milliseconds; `None` if the run has no time.
pub(super) fn value(point: &Point, run: &Run) -> Option<f64> {
    metrics::value(run, point.decisive()).filter(|ms| *ms > 0.0)
}

/// Returns the times of a contestant's runs in milliseconds, each with its seed.
pub(super) fn values<'a>(
    point: &'a Point,
    contestant: &'a Contestant,
) -> impl Iterator<Item = (u64, f64)> + 'a {
    contestant.runs.iter().filter_map(|run| Some((run.seed, value(point, run)?)))
}

/// Returns the statistics of a contestant's times; `None` if no run finished.
pub(super) fn stat<'a>(point: &Point, contestant: &'a Contestant) -> Option<&'a Stat> {
    let finished = contestant.runs.iter().any(|run| value(point, run).is_some());
    contestant.summary.metric(point.decisive()).filter(|_| finished)
}

/// Returns the median of a contestant's times.
pub(super) fn time(point: &Point, contestant: &Contestant) -> Option<f64> {
    stat(point, contestant)?.median
}

/// Returns the 95 % interval of the median of a contestant's times; `None` if there are too few runs, or if all times
/// are equal.
pub(super) fn interval(point: &Point, contestant: &Contestant) -> Option<[f64; 2]> {
    stat(point, contestant)?.ci95
}

/// Compares contestant `a` with contestant `b` in the metric that decides which contestant wins.
pub(super) fn versus(point: &Point, a: &Contestant, b: &Contestant) -> Option<Comparison> {
    point.compared(&a.name, &b.name, point.decisive())
}

/// Returns the comparison of a contestant with the first contestant of the plan.
pub(super) fn versus_first<'a>(
    point: &'a Point,
    contestant: &Contestant,
    metric: &str,
) -> Option<&'a Comparison> {
    let first = &point.contestants.first()?.name;
    point.comparisons.iter().find(|c| c.a == contestant.name && c.b == *first && c.metric == metric)
}

/// Formats a ratio as HTML, for example `0.62`, with its interval in a second line. The ratio is highlighted if the
/// comparison is decided.
pub(super) fn versus_text(ratio: &Comparison) -> String {
    let Some(value) = ratio.ratio else { return "–".to_owned() };
    let sign = match ratio.bound {
        None => "",
        Some(Bound::AtLeast) => "≥ ",
        Some(Bound::AtMost) => "≤ ",
        Some(Bound::Unknown) => "? ",
    };
    let clear = if is_decided(ratio) { "best" } else { "" };
    let ends = |[low, high]: [f64; 2]| format!("<br><span class=\"unit\">{low:.2} – {high:.2}</span>");
    let interval = ratio.ci95.map_or(String::new(), ends);
    format!("<span class=\"{clear}\">{sign}{value:.2}</span>{interval}")
}

/// Returns whether one of the two compared contestants is certainly faster.
pub(super) fn is_decided(found: &Comparison) -> bool {
    found.is_clearly_slower() || found.inverse().is_clearly_slower()
}

impl Ranking {
    pub fn of(point: &Point) -> Self {
        let names = words::names(point);
        let rank = |(index, contestant): (usize, &Contestant)| {
            let finished = values(point, contestant).count();
            let unfinished = contestant.runs.len() - finished;
            let (name, ms) = (names[index].clone(), time(point, contestant));
            let at_least = unfinished > 0 && ms.is_some() && !point.workload.messages;
            RankedContestant { index, name, ms, at_least }
        };
        let mut contestants: Vec<RankedContestant> = point.contestants.iter().enumerate().map(rank).collect();
        let order = |ranked: &RankedContestant| ranked.ms.unwrap_or(f64::INFINITY);
        contestants.sort_by(|a, b| order(a).total_cmp(&order(b)));
        let against = |ranked_contestant: &RankedContestant| {
            let first = &point.contestants[contestants.first()?.index];
            ranked_contestant
                .ms
                .and_then(|_| versus(point, &point.contestants[ranked_contestant.index], first))
        };
        let comparisons = contestants.iter().map(against).collect();
        Self { ranked: contestants, to_fastest: comparisons }
    }

    /// Returns the comparison of the second-fastest contestant with the fastest.
    pub fn lead(&self) -> Option<&Comparison> {
        self.to_fastest.get(1)?.as_ref()
    }

    /// Returns the leaders: the fastest contestant and all contestants that are not clearly slower. A single leader is
    /// the winner.
    pub fn leaders(&self) -> Vec<&RankedContestant> {
        let Some(first) = self.ranked.first().filter(|place| place.ms.is_some()) else { return Vec::new() };
        let is_tied = |place: &RankedContestant, comparison: &Option<Comparison>| {
            place.index == first.index
                || place.ms.is_some() && comparison.as_ref().is_some_and(|found| !found.is_clearly_slower())
        };
        let all = self.ranked.iter().zip(&self.to_fastest);
        all.filter(|(place, comparison)| is_tied(place, comparison)).map(|(place, _)| place).collect()
    }

    /// Lists the times of all contestants, for the text alternative of a figure.
    pub fn times(&self) -> String {
        let time = |one: &RankedContestant| format!("{} {}", one.name, format_time(one));
        self.ranked.iter().map(time).collect::<Vec<_>>().join("; ")
    }
}

/// Formats the time of a contestant in the ranking.
pub(super) fn format_time(contestant: &RankedContestant) -> String {
    match contestant.ms {
        Some(ms) if contestant.at_least => format!("at least {}", short_time(ms)),
        Some(ms) => short_time(ms),
        None => "never finished".to_owned(),
    }
}
