//! What a point says, in one sentence, and what time went into.
//!
//! The winner is named only where the interval says so. Why it wins is not
//! said: where the time of one contestant goes does not tell what would change
//! it, and what two contestants differ in most need not be the cause.

use crate::results::{Contestant, Outcome, PARTS, Point};
use crate::stats::metrics;
use anabranch_base::time::Duration;
use anabranch_base::units::format_span;
use std::fmt::Write;

/// Mean milliseconds an object spent in each part, over the objects of all runs of which every part is known, in the
/// order of [`PARTS`]; `None` when that is none. Where those are not all, [`Contestant::shortfall`] says so.
#[must_use]
pub fn mean_parts(contestant: &Contestant) -> Option<[f64; 10]> {
    let mut sums = [0.0; 10];
    let mut n = 0_u64;
    for why in contestant
        .runs
        .iter()
        .flat_map(|run| &run.objects)
        .filter(|object| !object.background)
        .filter_map(|object| object.why.as_ref().filter(|why| why.is_whole()))
    {
        n += 1;
        for (sum, part) in sums.iter_mut().zip(why.parts()) {
            *sum += part.unwrap_or(0) as f64 / 1e6;
        }
    }
    (n > 0).then(|| sums.map(|sum| sum / n as f64))
}

/// The parts that matter: `blocked 41 %, send 22 %, wire 20 %`.
#[must_use]
pub fn dominant(contestant: &Contestant, most: usize) -> String {
    let Some(means) = mean_parts(contestant) else { return "-".to_owned() };
    let total: f64 = means.iter().sum();
    if total <= 0.0 {
        return "-".to_owned();
    }
    let mut ranked: Vec<(&str, f64)> = PARTS.into_iter().zip(means).collect();
    // Stable: equal parts stay in their order.
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    let shares =
        ranked.iter().map(|(name, ms)| (name, 100.0 * ms / total)).filter(|(_, share)| *share >= 1.0);
    shares.take(most).map(|(name, share)| format!("{name} {share:.0} %")).collect::<Vec<_>>().join(", ")
}

/// One sentence on page times, or on the delays of messages, at a point.
#[must_use]
pub fn sentence(point: &Point) -> String {
    let messages = point.workload.messages;
    let metric = if messages { "object_p95_ms" } else { "page_ms" };
    let does = match (messages, point.workload.is_bulk()) {
        (true, _) => "delivers 95 % of messages",
        (false, true) => "delivers the transfer",
        (false, false) => "loads the page",
    };
    let mean_of = |contestant: &Contestant| contestant.summary.metric(metric).and_then(|stat| stat.mean);
    let mut ranked: Vec<(&Contestant, f64)> =
        point.contestants.iter().filter_map(|contestant| Some((contestant, mean_of(contestant)?))).collect();
    ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
    let Some(((winner, _), rest)) = ranked.split_first() else {
        return format!("No contestant finished.{}{}", restored(point), cut_off(point));
    };
    let mut sooner: Vec<String> = Vec::new();
    let mut unclear: Vec<String> = Vec::new();
    for (other, _) in rest {
        let found = metrics::compare((&other.name, &other.runs), (&winner.name, &winner.runs), metric);
        let Some(ratio) = found.ratio else { continue };
        let interval = found.ci95.map_or(String::new(), |[low, high]| format!(" ({low:.2}-{high:.2})"));
        let clear = match found.ci95 {
            Some([low, _]) => low > 1.0,
            // What would be printed as 1.00 is no difference.
            None => ratio >= 1.005 && found.n >= 1,
        };
        if clear {
            sooner.push(format!("{ratio:.2}x{interval} sooner than {}", other.name));
        } else {
            unclear.push(format!(
                "{} ({ratio:.2}x{})",
                other.name,
                interval.replace(" (", ", ").replace(')', "")
            ));
        }
    }
    let failed: Vec<&str> = point
        .contestants
        .iter()
        .filter(|contestant| mean_of(contestant).is_none())
        .map(|contestant| contestant.name.as_str())
        .collect();
    let mut text = String::new();
    if sooner.is_empty() && unclear.is_empty() {
        let mean = mean_of(winner).unwrap_or_default();
        let _ = write!(text, "{} {does} in {} on average", winner.name, milliseconds(mean));
    } else if sooner.is_empty() {
        let _ = write!(text, "No clear difference between {} and {}", winner.name, unclear.join(", "));
    } else {
        let all: Vec<&str> = sooner.iter().map(String::as_str).collect();
        let _ = write!(text, "{} {does} {}", winner.name, and(&all));
        if !unclear.is_empty() {
            let _ = write!(text, "; no clear difference from {}", unclear.join(", "));
        }
    }
    if !failed.is_empty() {
        let _ = write!(text, "; {} never finished", and(&failed));
    }
    text + "." + &restored(point) + &cut_off(point)
}

/// When the service was restored after the first failure of a path: a sentence behind a blank, or nothing.
fn restored(point: &Point) -> String {
    let restored_after = |contestant: &Contestant| {
        let (runs, stat) = (point.met_failure(contestant).count() as u64, &contestant.summary.restored_ms);
        match stat.mean {
            _ if runs == 0 => None,
            None => Some(format!("never with {}", contestant.name)),
            Some(mean) if stat.n < runs => Some(format!(
                "after {} with {} (in {} of {runs} runs)",
                milliseconds(mean),
                contestant.name,
                stat.n
            )),
            Some(mean) => Some(format!("after {} with {}", milliseconds(mean), contestant.name)),
        }
    };
    let all: Vec<String> = point.contestants.iter().filter_map(restored_after).collect();
    if all.is_empty() {
        return String::new();
    }
    let at = point.failure_ns.unwrap_or_default() as f64 / 1e9;
    format!(" When a path fails at {at} s, service is restored {}.", and(&all))
}

/// That runs were ended by their deadline, which one, and what to write instead: a sentence behind a blank, or nothing.
fn cut_off(point: &Point) -> String {
    let late = |contestant: &Contestant| {
        contestant.runs.iter().filter(|run| run.outcome == Outcome::Deadline).count()
    };
    let ended: Vec<String> = point
        .contestants
        .iter()
        .filter(|contestant| late(contestant) > 0)
        .map(|contestant| match (late(contestant), contestant.runs.len()) {
            (n, all) if n == all => contestant.name.clone(),
            (n, all) => format!("{n} of {all} runs of {}", contestant.name),
        })
        .collect();
    let Some(deadline) = point.workload.deadline_ns.filter(|_| !ended.is_empty()) else {
        return String::new();
    };
    let span = |ns: u64| format_span(Duration::from_nanos(ns));
    let advice = match enough(point, deadline) {
        Some(ns) if ns <= MAX_DEADLINE_NS => format!("write a later one, such as --deadline {}", span(ns)),
        Some(_) => "far more time is needed: transfer less".to_owned(),
        None => "in one of these runs nothing arrived, so a later one may not help".to_owned(),
    };
    format!(" The deadline (--deadline {}) ended {}; {advice}.", span(deadline), and(&ended))
}

/// A deadline by which the runs that were cut off would have been over, had they gone on as until then, and a fifth more,
/// in whole seconds; `None` where one of them had received nothing.
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

/// The latest deadline that a plan may have.
const MAX_DEADLINE_NS: u64 = 86_400_000_000_000;

/// `1.24 s`, `340 ms`, `12.5 ms`.
#[must_use]
pub fn milliseconds(ms: f64) -> String {
    match ms {
        ms if ms >= 1000.0 => format!("{:.2} s", ms / 1000.0),
        ms if ms >= 100.0 => format!("{ms:.0} ms"),
        ms => format!("{ms:.1} ms"),
    }
}

fn and<T: AsRef<str> + std::borrow::Borrow<str>>(items: &[T]) -> String {
    match items {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [first @ .., last] => format!("{} and {}", first.join(", "), last.as_ref()),
    }
}
