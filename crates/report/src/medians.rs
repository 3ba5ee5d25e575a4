//! Ranks the contestants of a point by their medians, and decides whether one of them is the clear winner.

use anabranch_results::stats::decision::with_commas;
use anabranch_results::stats::interval::quantile_ci95;
use anabranch_results::stats::metrics;
use anabranch_results::{Comparison, Contestant, Point, Stat, Verdict};

/// One line of the answer of a race. The clauses are sentences, the most important first, so that a narrow terminal can
/// leave out the last ones. A no-break space separates a number from its unit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// The words before the colon of the line, for example `Use http3`.
    pub label: String,
    /// The sentences after the colon of the line.
    pub clauses: Vec<String>,
}

impl Line {
    pub(super) fn new(label: impl Into<String>, clauses: Vec<String>) -> Self {
        Self { label: label.into(), clauses }
    }

    /// Returns the sentences after the colon as one text.
    #[must_use]
    pub fn text(&self) -> String {
        self.clauses.join(" ")
    }
}

/// A contestant that finished at least one run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Finisher<'a> {
    pub contestant: &'a Contestant,
    pub name: &'a str,
    /// Statistics of the metric that decides which contestant wins.
    pub stat: &'a Stat,
    pub median: f64,
}

/// The contestants of a point, ranked by their medians.
#[derive(Clone, Debug)]
pub(super) struct Standing<'a> {
    pub point: &'a Point,
    /// The contestants that finished at least one run, the smallest median first.
    pub ranked: Vec<Finisher<'a>>,
    /// For each contestant in `ranked` after the first: its comparison with the first.
    to_first: Vec<Comparison>,
    /// The names of the contestants that finished no run.
    pub never: Vec<&'a str>,
}

impl<'a> Standing<'a> {
    /// Ranks the contestants of a point. `names` are their names in the order of the plan.
    pub fn of(point: &'a Point, names: &'a [String]) -> Self {
        let metric = point.decisive();
        let (mut ranked, mut never) = (Vec::new(), Vec::new());
        for (contestant, name) in point.contestants.iter().zip(names) {
            let finished = contestant.runs.iter().any(|run| metrics::value(run, metric).is_some());
            let stat = contestant.summary.metric(metric).filter(|_| finished);
            match stat.and_then(|stat| Some((stat, stat.median?))) {
                Some((stat, median)) => ranked.push(Finisher { contestant, name, stat, median }),
                None => never.push(name.as_str()),
            }
        }
        ranked.sort_by(|a, b| a.median.total_cmp(&b.median));
        let first = ranked.first().map_or("", |first| first.contestant.name.as_str());
        let versus = |other: &Finisher<'_>| point.compared(&other.contestant.name, first, metric);
        let to_first = ranked.iter().skip(1).filter_map(versus).collect();
        Self { point, ranked, to_first, never }
    }

    /// Returns the winner, if one contestant is certainly faster than every other one.
    pub fn winner(&self) -> Option<&Finisher<'a>> {
        let winner = self.point.clear_winner()?;
        self.ranked.iter().find(|one| one.contestant.name == winner.name)
    }

    /// Returns the contestant with the second-smallest median, and its comparison with the first.
    pub fn next(&self) -> Option<(&Finisher<'a>, &Comparison)> {
        Some((self.ranked.get(1)?, self.to_first.first()?))
    }

    /// Returns the contestant with which the answer compares the first, and this comparison. If there is a winner, this
    /// is the next contestant. Otherwise it is a contestant that is faster on average, one that is too close to decide,
    /// or one that ties.
    pub fn opponent(&self) -> Option<(&Finisher<'a>, &Comparison)> {
        let verdict = |wanted| move |found: &(&Finisher<'a>, &Comparison)| found.1.verdict == wanted;
        let open = |found: &(&Finisher<'a>, &Comparison)| found.1.verdict != Verdict::Level;
        let rival = self.rivals().find(verdict(Verdict::Less)).or_else(|| self.rivals().find(open));
        rival.or_else(|| self.rivals().next()).or_else(|| self.next())
    }

    /// Returns the contestants that are not certainly slower than the first, each with its comparison.
    pub fn rivals(&self) -> impl Iterator<Item = (&Finisher<'a>, &Comparison)> {
        self.ranked.iter().skip(1).zip(&self.to_first).filter(|(_, found)| !found.is_clearly_slower())
    }
}

/// Returns the 95 % interval of the 95th percentile of a contestant's times. `None` if there are too few runs.
pub(super) fn p95_interval(point: &Point, contestant: &Contestant) -> Option<[f64; 2]> {
    let (metric, terms) = (point.decisive(), point.terms());
    let value = |run| Some(metrics::bounded(run, metric, terms)?.value);
    let mut values: Vec<f64> = contestant.runs.iter().filter_map(value).collect();
    values.sort_by(f64::total_cmp);
    quantile_ci95(&values, 0.95)
}

/// Formats a ratio, with two decimals below 2 and with one decimal above.
pub(super) fn ratio(value: f64) -> String {
    if value >= 1.995 { format!("{value:.1}") } else { format!("{value:.2}") }
}

/// Returns the noun for one run of this workload, for example `load`.
pub(super) fn noun(point: &Point) -> &'static str {
    match point.workload.workload_noun() {
        "page" => "load",
        "transfer" => "transfer",
        _ => "run",
    }
}

pub(super) fn plural(point: &Point) -> String {
    format!("{}s", noun(point))
}

pub(super) fn counted(n: u64, noun: &str) -> String {
    if n == 1 { format!("1\u{a0}{noun}") } else { format!("{}\u{a0}{noun}s", with_commas(n)) }
}
