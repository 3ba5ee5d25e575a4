//! The ranking of the contestants at a point: which contestant leads, by how much and with what certainty, in the words
//! of the headline.
//!
//! Times are geometric means. Therefore the ratio that is shown beside two times is their quotient. The verdict of the
//! comparison decides what the text concludes from that ratio.

use super::svg::format_count;
use super::words::{self, capital, is_plural, short_time};
use anabranch_results::stats::decision::{WinFrequency, rounded_up, usual};
use anabranch_results::stats::interval::ci95;
use anabranch_results::stats::metrics;
use anabranch_results::verdict::and;
use anabranch_results::{Bound, Comparison, Contestant, Point, Run, Stat, Verdict};

/// One contestant in the ranking.
#[derive(Clone, Debug)]
pub(super) struct RankedContestant {
    /// The index of the contestant in the plan.
    pub index: usize,
    /// The name of the contestant in words.
    pub name: String,
    /// The page time of the contestant in milliseconds, or the 95th percentile of its message delays if the workload
    /// has only messages. `None` if no run finished.
    pub ms: Option<f64>,
    /// The number of unfinished runs, and the number of all runs. For pages and transfers, `ms` is a mean in which the
    /// time of an unfinished run is its deadline.
    pub unfinished: (usize, usize),
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

/// Returns the time of a run in milliseconds; `None` if the run has no time.
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

/// Returns the geometric mean of a contestant's times.
pub(super) fn time(point: &Point, contestant: &Contestant) -> Option<f64> {
    stat(point, contestant)?.geometric_mean
}

/// Returns the 95 % interval of the geometric mean of a contestant's times, computed on the logarithms. `None` if all
/// times are equal.
pub(super) fn interval(point: &Point, contestant: &Contestant) -> Option<[f64; 2]> {
    let terms = point.terms();
    if metrics::is_one_case(&contestant.runs, terms) {
        return None;
    }
    let runs = contestant.runs.iter().filter_map(|run| metrics::bounded(run, point.decisive(), terms));
    let logs: Vec<f64> = runs.map(|value| value.value).filter(|ms| *ms > 0.0).map(f64::ln).collect();
    ci95(&logs).map(|ends| ends.map(f64::exp))
}

/// Compares contestant `a` with contestant `b` in the deciding metric.
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

/// Returns whether it is certain which of the two contestants is faster.
pub(super) fn is_decided(found: &Comparison) -> bool {
    matches!(found.verdict, Verdict::Less | Verdict::More)
}

impl Ranking {
    pub fn of(point: &Point) -> Self {
        let names = words::names(point);
        let rank = |(index, contestant): (usize, &Contestant)| {
            let finished = values(point, contestant).count();
            let unfinished = (contestant.runs.len() - finished, contestant.runs.len());
            let (name, ms) = (names[index].clone(), time(point, contestant));
            let at_least = unfinished.0 > 0 && ms.is_some() && !point.workload.messages;
            RankedContestant { index, name, ms, unfinished, at_least }
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
                || place.ms.is_some()
                    && comparison.as_ref().is_some_and(|found| found.verdict != Verdict::More)
        };
        let all = self.ranked.iter().zip(&self.to_fastest);
        all.filter(|(place, comparison)| is_tied(place, comparison)).map(|(place, _)| place).collect()
    }

    /// Returns the headline for the result of a point, for example `Six TCP connections win: 2.3 s; SCTP 3.8 s; one TCP
    /// connection 4.2 s`.
    pub fn headline(&self, point: &Point) -> String {
        let listed = |contestants: &[&RankedContestant]| {
            contestants
                .iter()
                .map(|place| format!("{} {}", place.name, format_time(place)))
                .collect::<Vec<_>>()
        };
        let note = if point.workload.messages { " (95 % of messages are there within)" } else { "" };
        match (&self.ranked[..], &self.leaders()[..]) {
            ([], _) => "No contestants".to_owned(),
            (_, []) => "No run finished".to_owned(),
            ([only], _) => format!("{}: {}{note}", capital(&only.name), format_time(only)),
            (all, [winner]) => {
                let verb = if is_plural(&winner.name) { "win" } else { "wins" };
                let other_leaders: Vec<&RankedContestant> =
                    all.iter().filter(|place| place.index != winner.index).collect();
                let name = capital(&winner.name);
                format!("{name} {verb}: {}; {}{note}", format_time(winner), listed(&other_leaders).join("; "))
            }
            (all, leaders) => {
                let is_leader =
                    |place: &RankedContestant| leaders.iter().any(|leader| leader.index == place.index);
                let rest = listed(&all.iter().filter(|place| !is_leader(place)).collect::<Vec<_>>());
                let rest = rest.iter().map(|other| format!("; {other}")).collect::<String>();
                // The sentence begins with the outcome, which names all leaders. If there are exactly two leaders,
                // their times follow without names, in the same order. If there are more, each time is given with its
                // name.
                let times = match leaders {
                    [_, _] => and(&leaders.iter().map(|place| format_time(place)).collect::<Vec<_>>()),
                    _ => listed(leaders).join("; "),
                };
                format!("{}: {times}{rest}{note}", capital(&self.outcome()))
            }
        }
    }

    /// Returns the outcome without figures, for example `six TCP connections win` or
    /// `SCTP and one TCP connection are level`.
    pub fn outcome(&self) -> String {
        let leaders = self.leaders();
        let names = and(&leaders.iter().map(|place| place.name.as_str()).collect::<Vec<_>>());
        let is_tied = |place: &&RankedContestant| {
            let all = self.ranked.iter().zip(&self.to_fastest);
            let mut found =
                all.filter(|(other, _)| other.index == place.index).filter_map(|(_, it)| it.as_ref());
            found.all(|it| it.exact || it.verdict == Verdict::Level)
        };
        match &leaders[..] {
            [] => "no run finished".to_owned(),
            [one] if is_plural(&one.name) => format!("{names} win"),
            [_] => format!("{names} wins"),
            [_, others @ ..] if others.iter().all(is_tied) => format!("{names} are level"),
            _ => format!("undecided between {names}"),
        }
    }

    /// Describes the lead of the first contestant over the second, its certainty, and how often the first contestant
    /// wins. Empty if there is only one contestant.
    pub fn margin(&self) -> String {
        let [first, second, ..] = &self.ranked[..] else { return String::new() };
        let Some((found, ratio)) = self.lead().and_then(|found| Some((found, found.ratio?))) else {
            return String::new();
        };
        let sure = match (found.exact, found.ci95) {
            (true, _) => " (exact: all runs are alike)".to_owned(),
            (false, Some([low, high])) => format!(" (95 % interval {low:.2} to {high:.2})"),
            (false, None) if found.n > 1 => format!(" ({} runs, all alike)", found.n),
            (false, None) => " (one run: no interval)".to_owned(),
        };
        let bound = match found.bound {
            None => "",
            Some(Bound::AtLeast) => "at least ",
            Some(Bound::AtMost) => "at most ",
            Some(Bound::Unknown) => "perhaps ",
        };
        let verb = if is_plural(&second.name) { "take" } else { "takes" };
        let by = format!(
            "{} {verb} {bound}{ratio:.2} times as long as {}{sure}",
            capital(&second.name),
            first.name
        );
        let more = match found.verdict {
            Verdict::More => {
                let wins = if is_plural(&first.name) { "win" } else { "wins" };
                match usual(found) {
                    WinFrequency::NotAsked => String::new(),
                    WinFrequency::Yes(percent) => {
                        format!(
                            " {} {wins} {percent} % of the runs against {}.",
                            capital(&first.name),
                            second.name
                        )
                    }
                    WinFrequency::Open(percent) => format!(
                        " Sooner on average, perhaps not usually: {} {wins} {percent} % of the runs, which may as well \
                         be half.",
                        first.name
                    ),
                    WinFrequency::No(percent) => format!(
                        " Sooner on average, not usually: {} {wins} {percent} % of the runs.",
                        first.name
                    ),
                }
            }
            Verdict::Level => " A gap of less than 3 % counts as level.".to_owned(),
            Verdict::Less | Verdict::Undecided => match (found.more_seeds, found.bound) {
                (Some(more), _) => {
                    format!(
                        " That is undecided; about {} would decide.",
                        format_count(rounded_up(more), "more seed")
                    )
                }
                (None, Some(_)) => " Unfinished runs leave it open.".to_owned(),
                (None, None) => " That is undecided.".to_owned(),
            },
        };
        format!("{by}.{more}")
    }

    /// Describes which contestants have runs that did not finish, and the consequence for their times. Empty if all
    /// runs finished.
    pub fn unfinished(&self, point: &Point) -> String {
        let some = self.ranked.iter().filter(|place| place.unfinished.0 > 0);
        let counts: Vec<String> = some
            .map(|place| format!("{} of {} runs of {}", place.unfinished.0, place.unfinished.1, place.name))
            .collect();
        match (counts.is_empty(), point.workload.messages) {
            (true, _) => String::new(),
            (false, true) => format!("Not finished: {}; times are those of the other runs.", and(&counts)),
            (false, false) => {
                format!("Not finished: {}; they count as at least their deadline.", and(&counts))
            }
        }
    }
}

/// Formats the time of a contestant.
pub(super) fn format_time(contestant: &RankedContestant) -> String {
    match contestant.ms {
        Some(ms) if contestant.at_least => format!("at least {}", short_time(ms)),
        Some(ms) => short_time(ms),
        None => "never finished".to_owned(),
    }
}
