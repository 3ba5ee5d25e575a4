//! Describes the result of a point in words. One sentence gives the verdict by geometric means. Further sentences are
//! about unfinished runs, path failures and the parts of the response time.
//!
//! The verdict names the winner: the contestant with the smallest geometric mean of its times. The module
//! [`decision`](crate::stats::decision) decides whether its lead is significant. The verdict does not say why the
//! winner is faster, because the parts of the response time do not show the cause. Even the part that differs most
//! between two contestants need not be the cause.

use crate::stats::decision::{WinFrequency, rounded_up, usual, with_commas};
use crate::stats::metrics;
use crate::{Comparison, Contestant, Outcome, PARTS, Point, Verdict};
use anabranch_base::time::Duration;
use anabranch_base::units::format_duration;

/// Returns how many milliseconds each part of the response time takes on average, in the order of [`PARTS`]. The mean
/// is over the objects of all runs. Objects with an unknown part are left out, which [`Contestant::shortfall`] reports.
/// `None` if no object is left.
#[must_use]
pub fn mean_parts(contestant: &Contestant) -> Option<[f64; PARTS.len()]> {
    let sums = contestant.part_sums()?;
    Some(sums.why.parts().map(|sum| sum.unwrap_or(0) as f64 / 1e6 / sums.objects.max(1) as f64))
}

/// Formats the largest parts of a contestant's response time with their shares, for example `blocked 41 %, send 22 %,
/// wire 20 %`.
#[must_use]
pub fn dominant(contestant: &Contestant, most: usize) -> String {
    let Some(means) = mean_parts(contestant) else { return "-".to_owned() };
    let total: f64 = means.iter().sum();
    if total <= 0.0 {
        return "-".to_owned();
    }
    let mut ranked: Vec<(&str, f64)> = PARTS.into_iter().zip(means).collect();
    // The sort is stable, so equal parts keep their order.
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    let shares =
        ranked.iter().map(|(name, ms)| (name, 100.0 * ms / total)).filter(|(_, share)| *share >= 1.0);
    shares.take(most).map(|(name, share)| format!("{name} {share:.0} %")).collect::<Vec<_>>().join(", ")
}

/// The clauses of the verdict's sentence. Each compares the winner with one other contestant. The clauses are grouped
/// by verdict.
#[derive(Default)]
struct Clauses {
    faster: Vec<String>,
    tied: Vec<String>,
    undecided: Vec<String>,
}

/// Returns the contestants that finished at least one run, each with its geometric mean of the deciding metric. The
/// contestant with the smallest mean comes first.
#[must_use]
pub fn ranked(point: &Point) -> Vec<(&Contestant, f64)> {
    let metric = point.decisive();
    let typical = |contestant: &Contestant| contestant.summary.metric(metric).and_then(|s| s.geometric_mean);
    let mut ranked: Vec<(&Contestant, f64)> = point
        .contestants
        .iter()
        .filter(|contestant| finished(contestant, metric))
        .filter_map(|contestant| Some((contestant, typical(contestant)?)))
        .collect();
    ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
    ranked
}

fn finished(contestant: &Contestant, metric: &str) -> bool {
    contestant.runs.iter().any(|run| metrics::value(run, metric).is_some())
}

/// Returns one sentence that compares the contestants' page times, transfer times or message delays at one point of a
/// sweep.
#[must_use]
pub fn sentence(point: &Point) -> String {
    let metric = point.decisive();
    let does = match (point.workload.messages, point.workload.is_bulk()) {
        (true, _) => "delivers 95 % of messages",
        (false, true) => "delivers the transfer",
        (false, false) => "loads the page",
    };
    let ranked = ranked(point);
    let Some(((winner, time), rest)) = ranked.split_first() else {
        return "No contestant finished.".to_owned() + &all_remarks(point);
    };
    let name = winner.label();
    let mut clauses = Clauses::default();
    for (other, _) in rest {
        if let Some(found) = point.compared(&other.name, &winner.name, metric) {
            clauses.add(&found, other.label());
        }
    }
    let mut parts = Vec::new();
    if !clauses.faster.is_empty() {
        parts.push(format!("{name} {does} {}", and(&clauses.faster)));
    } else if rest.is_empty() {
        parts.push(format!("{name} {does} in {}", milliseconds(*time)));
    }
    // If there is no earlier clause, the winner is not named yet, so the next clause names it.
    let mut subject = if parts.is_empty() { format!("{name} is ") } else { String::new() };
    if !clauses.tied.is_empty() {
        parts.push(format!("{}tied with {}", std::mem::take(&mut subject), and(&clauses.tied)));
    }
    if !clauses.undecided.is_empty() {
        let contestants = and(&clauses.undecided);
        parts.push(format!("{}undecided against {contestants}", std::mem::take(&mut subject)));
    }
    let failed: Vec<&str> = point
        .contestants
        .iter()
        .filter(|contestant| !finished(contestant, metric))
        .map(Contestant::label)
        .collect();
    if !failed.is_empty() {
        parts.push(format!("{} never finished", and(&failed)));
    }
    parts.join("; ") + "." + &all_remarks(point)
}

/// Returns sentences about unfinished runs, the time until service was restored after a path failure, and the runs that
/// the deadline ended. Each sentence comes with a heading of one word.
#[must_use]
pub fn remarks(point: &Point) -> Vec<(&'static str, String)> {
    let all =
        [("Unfinished", unfinished(point)), ("Failover", restored(point)), ("Deadline", cut_off(point))];
    all.into_iter().filter_map(|(heading, text)| Some((heading, text?))).collect()
}

fn all_remarks(point: &Point) -> String {
    remarks(point).into_iter().map(|(_, text)| format!(" {text}")).collect()
}

impl Clauses {
    /// Adds a clause that compares another contestant (`other`) with the winner.
    fn add(&mut self, found: &Comparison, other: &str) {
        let Some(ratio) = found.ratio else { return };
        let digits = match (found.exact, found.ci95) {
            (true, _) => "exact".to_owned(),
            (false, Some([low, high])) => format!("{low:.2}-{high:.2}"),
            (false, None) if found.n > 1 => format!("{} runs all alike", found.n),
            (false, None) => "no interval".to_owned(),
        };
        match found.verdict {
            Verdict::More => {
                let at_least = if found.bound.is_some() { "at least " } else { "" };
                let usually = match usual(found) {
                    WinFrequency::NotAsked => String::new(),
                    WinFrequency::Yes(percent) => format!(" (wins {percent} % of seeds)"),
                    WinFrequency::Open(percent) => format!(
                        " on average, perhaps not usually (wins {percent} % of seeds, which may as well be half)"
                    ),
                    WinFrequency::No(percent) => {
                        format!(" on average, not usually (wins {percent} % of seeds)")
                    }
                };
                self.faster
                    .push(format!("{at_least}{ratio:.2} times ({digits}) faster than {other}{usually}"));
            }
            Verdict::Level => self.tied.push(format!("{other} (ratio {ratio:.2}, {digits})")),
            Verdict::Less | Verdict::Undecided => {
                let more = match (found.more_seeds, found.bound) {
                    (Some(1), _) => "; 1 more seed".to_owned(),
                    (Some(more), _) => format!("; {} more seeds", with_commas(rounded_up(more))),
                    (None, Some(_)) => "; unfinished runs leave it open".to_owned(),
                    (None, None) => String::new(),
                };
                self.undecided.push(format!("{other} (ratio {ratio:.2}, {digits}{more})"));
            }
        }
    }
}

/// Returns a sentence about the unfinished runs, in whose results the deadline takes the place of missing times.
fn unfinished(point: &Point) -> Option<String> {
    let ranked = ranked(point);
    let count = |contestant: &Contestant| contestant.summary.page_ms.failed;
    let some: Vec<String> = ranked
        .iter()
        .filter(|(contestant, _)| count(contestant) > 0)
        .map(|(one, _)| format!("{} of {} runs of {}", count(one), one.runs.len(), one.label()))
        .collect();
    if some.is_empty() {
        return None;
    }
    let some = and(&some);
    Some(if point.workload.messages {
        format!("{some} did not finish; their missing messages count as late as the deadline.")
    } else {
        format!("{some} did not finish, and count as at least the deadline.")
    })
}

/// Returns a sentence about the time at which service was restored after the first path failure.
fn restored(point: &Point) -> Option<String> {
    let restored_after = |contestant: &Contestant| {
        let (runs, stat) =
            (point.runs_with_path_failure(contestant).count() as u64, &contestant.summary.restored_ms);
        match stat.mean {
            _ if runs == 0 => None,
            None => Some(format!("never with {}", contestant.label())),
            Some(mean) if stat.n < runs => Some(format!(
                "after {} with {} (in {} of {runs} runs)",
                milliseconds(mean),
                contestant.label(),
                stat.n
            )),
            Some(mean) => Some(format!("after {} with {}", milliseconds(mean), contestant.label())),
        }
    };
    let all: Vec<String> = point.contestants.iter().filter_map(restored_after).collect();
    let at = point.failure_ns.unwrap_or_default() as f64 / 1e9;
    (!all.is_empty()).then(|| format!("When a path fails at {at} s, service is restored {}.", and(&all)))
}

/// Returns a sentence about the runs that the deadline stopped, with advice on a longer deadline.
fn cut_off(point: &Point) -> Option<String> {
    let late = |contestant: &Contestant| {
        contestant.runs.iter().filter(|run| run.outcome == Outcome::Deadline).count()
    };
    let ended: Vec<String> = point
        .contestants
        .iter()
        .filter(|contestant| late(contestant) > 0)
        .map(|contestant| match (late(contestant), contestant.runs.len()) {
            (n, all) if n == all => contestant.label().to_owned(),
            (n, all) => format!("{n} of {all} runs of {}", contestant.label()),
        })
        .collect();
    let deadline = point.workload.deadline_ns.filter(|_| !ended.is_empty())?;
    let span = |ns: u64| format_duration(Duration::from_nanos(ns));
    let advice = match enough(point, deadline) {
        Some(ns) if ns <= MAX_DEADLINE_NS => format!("write a later one, such as --deadline {}", span(ns)),
        Some(_) => "far more time is needed: transfer less".to_owned(),
        None => "in one of these runs nothing arrived, so a later one may not help".to_owned(),
    };
    Some(format!("The deadline (--deadline {}) ended {}; {advice}.", span(deadline), and(&ended)))
}

/// Estimates a longer deadline that would let every unfinished run finish. Each run is assumed to continue at its mean
/// rate. The result is in nanoseconds, rounded up to whole seconds. It has a margin of a fifth, and is at least twice
/// the present deadline. `None` if an unfinished run has received nothing.
fn enough(point: &Point, deadline: u64) -> Option<u64> {
    let runs = point
        .contestants
        .iter()
        .flat_map(|contestant| &contestant.runs)
        .filter(|run| run.outcome == Outcome::Deadline);
    let needs = runs.map(|run| {
        let got: u64 = run.series.application.iter().sum();
        let all = u128::from(point.workload.bytes.max(got));
        let ns = (u128::from(deadline) * all * 6).checked_div(u128::from(got) * 5)?;
        Some(u64::try_from(ns).unwrap_or(u64::MAX).max(deadline.saturating_mul(2)))
    });
    let most = needs.collect::<Option<Vec<u64>>>()?.into_iter().max()?;
    Some(most.div_ceil(1_000_000_000).saturating_mul(1_000_000_000))
}

/// The latest deadline that a plan accepts.
const MAX_DEADLINE_NS: u64 = 86_400_000_000_000;

/// Formats a time in milliseconds, for example `1.24 s`, `340 ms` or `12.5 ms`.
#[must_use]
pub fn milliseconds(ms: f64) -> String {
    match ms {
        ms if ms >= 1000.0 => format!("{:.2} s", ms / 1000.0),
        ms if ms >= 100.0 => format!("{ms:.0} ms"),
        ms => format!("{ms:.1} ms"),
    }
}

/// Joins items with commas and `and`, for example `a`, `a and b`, or `a, b and c`.
#[must_use]
pub fn and<T: AsRef<str> + std::borrow::Borrow<str>>(items: &[T]) -> String {
    match items {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [first @ .., last] => format!("{} and {}", first.join(", "), last.as_ref()),
    }
}
