//! The answer of a race at one point, in four lines of text: which contestant to use, how its loads spread, why it is
//! faster, and which change would make another contestant win.
//!
//! The table on a terminal and the page ([`super::html`]) show the same lines. Times are medians over the runs. A
//! contestant is the clear winner if the comparisons of geometric means and of medians agree on it, against every other
//! contestant.

pub use super::medians::Line;
use super::medians::{Finisher, Standing, counted, noun, plural, ratio};
use super::{medians, reasons};
use anabranch_results::stats::decision::{FEWEST_ALIKE, GAP};
use anabranch_results::stats::metrics;
use anabranch_results::verdict::{and, milliseconds};
use anabranch_results::{Bound, Comparison, Point, Run, Stat, Verdict};

/// Returns the lines of the answer at a point. There are four, and one more for each remark about unfinished runs and
/// path failures.
#[must_use]
pub fn lines(point: &Point) -> Vec<Line> {
    all_lines(point, false)
}

/// Returns the lines of the answer at a point. With `interrupted`, the search for causes was ended early: a line for
/// which nothing was found says so.
#[must_use]
pub(super) fn all_lines(point: &Point, interrupted: bool) -> Vec<Line> {
    let names = super::names(point);
    let standing = Standing::of(point, &names);
    let restoration = restoration(point, &names);
    let mut lines: Vec<Line> = restoration.clone().into_iter().collect();
    let result = result(&standing);
    // After a path failure, the first line is about the restoration. The delays of the messages are another matter.
    lines.push(match (&restoration, result.label.strip_prefix("Use ")) {
        (None, _) => result,
        (Some(_), Some(name)) => {
            let clauses = result.clauses.iter().enumerate();
            let named = |(at, text): (usize, &String)| {
                if at == 0 { format!("shortest with {name}: {text}") } else { text.clone() }
            };
            Line::new(DELAYS, clauses.map(named).collect())
        }
        (Some(_), None) => Line::new(DELAYS, result.clauses),
    });
    lines.extend(spread(&standing));
    if standing.ranked.len() > 1 && point.disturbed().is_none() {
        let (why, flips) = (reasons::why(&standing), reasons::flips(&standing));
        let is_tried = point.comparisons.iter().any(|one| one.experiment.is_some());
        let missing = |line: Line, known: bool| {
            let text = || vec!["not known, because the race was interrupted.".to_owned()];
            if interrupted && !known { Line::new(line.label, text()) } else { line }
        };
        lines.push(missing(why, is_tried || standing.winner().is_none()));
        lines.push(missing(flips, !point.changes.is_empty()));
    }
    lines.extend(remarks(point, restoration.is_some()));
    lines
}

/// The label of the line about message delays, if the first line is about a path failure.
const DELAYS: &str = "Delays of messages";

/// Returns the line that says which contestant restores service first after a path failure. Only for messages: the time
/// of a page or a transfer contains the time of the failure, but the 95th percentile of delays may not.
fn restoration(point: &Point, names: &[String]) -> Option<Line> {
    if point.disturbed().is_some() {
        return None;
    }
    let failed_at = point.failure_ns.filter(|_| point.workload.messages && names.len() > 1)?;
    let mut restored: Vec<(&str, &Stat, u64)> = Vec::new();
    let mut never: Vec<&str> = Vec::new();
    for (contestant, name) in point.contestants.iter().zip(names) {
        let runs = point.runs_with_path_failure(contestant).count() as u64;
        match (runs, contestant.summary.restored_ms.mean) {
            (0, _) => return None,
            (_, None) => never.push(name),
            (_, Some(_)) => restored.push((name, &contestant.summary.restored_ms, runs)),
        }
    }
    let mean = |stat: &Stat| stat.mean.unwrap_or(f64::INFINITY);
    // A contestant that restores service in more of its runs comes first.
    let share = |(_, stat, runs): &(&str, &Stat, u64)| stat.n as f64 / *runs as f64;
    restored.sort_by(|a, b| share(b).total_cmp(&share(a)).then(mean(a.1).total_cmp(&mean(b.1))));
    let time = |one: &(&str, &Stat, u64)| {
        let (name, stat, runs) = *one;
        let of = if stat.n < runs { format!(" (in {} of {runs} runs)", stat.n) } else { String::new() };
        (name.to_owned(), format!("{}{of}", at_least(point, mean(stat))))
    };
    let failed_at = milliseconds(failed_at as f64 / 1e6).replace(' ', "\u{a0}");
    let Some(first) = restored.first() else {
        return Some(Line::new(
            "No winner",
            vec![format!("no contestant restores service after the failure at {failed_at}.")],
        ));
    };
    let is_close = |other: &&(&str, &Stat, u64)| {
        let overlap = match (first.1.ci95, other.1.ci95) {
            (Some([_, high]), Some([low, _])) => high >= low,
            _ => false,
        };
        share(other) >= share(first) && (mean(other.1) < GAP * mean(first.1) || overlap)
    };
    let (name, after) = time(first);
    let close: Vec<String> = restored[1..].iter().filter(is_close).map(|one| time(one).0).collect();
    let others: Vec<String> = restored[1..]
        .iter()
        .filter(|one| !is_close(one))
        .map(time)
        .map(|(name, after)| format!("{name} after {after}"))
        .collect();
    let mut clauses = vec![format!("it restores service {after} after the path fails at {failed_at}.")];
    let label = if close.is_empty() {
        format!("Use {name}")
    } else {
        let all: Vec<String> = std::iter::once(name.clone()).chain(close).collect();
        clauses = vec![format!(
            "{} restore service at about the same time, {after} after the path fails at {failed_at}.",
            and(&all)
        )];
        "No clear winner".to_owned()
    };
    if !others.is_empty() {
        clauses.push(format!("The others do so later: {}.", and(&others)));
    }
    if !never.is_empty() {
        clauses.push(format!("Service is never restored with {}.", and(&never)));
    }
    Some(Line::new(label, clauses))
}

/// Returns the name of the clear winner at a point.
#[must_use]
pub fn winner(point: &Point) -> Option<String> {
    let names = super::names(point);
    if let Some(restoration) = restoration(point, &names) {
        return restoration.label.strip_prefix("Use ").map(str::to_owned);
    }
    Standing::of(point, &names).winner().map(|winner| winner.name.to_owned())
}

/// Returns the line that names the winner, its lead and how certain the lead is.
fn result(standing: &Standing<'_>) -> Line {
    let point = standing.point;
    let Some(first) = standing.ranked.first() else {
        let runs = point.contestants.iter().map(|one| one.runs.len()).max().unwrap_or(0);
        let text = format!("none of the {} of each contestant finished.", counted(runs as u64, noun(point)));
        return Line::new("No winner", vec![text]);
    };
    if let Some((contestant, count)) = point.disturbed() {
        let (of, late) = (counted(contestant.runs.len() as u64, noun(point)), Run::DISTURBING_NS / 1_000_000);
        let text = format!(
            "this machine was busy, and packets were more than {late}\u{a0}ms late in {count} of {of} of {}.",
            contestant.label()
        );
        return Line::new("Not measured", vec![text, "Race again with --threads\u{a0}1.".to_owned()]);
    }
    let time = takes(point, &at_least(point, first.median));
    let others_failed =
        |text: String| if standing.never.is_empty() { text } else { text + " No other contestant finished." };
    let Some((next, found)) = standing.next() else {
        let alone = point.contestants.len() == 1;
        let label = if alone { first.name.to_owned() } else { format!("Use {}", first.name) };
        return Line::new(label, vec![others_failed(format!("its {time}."))]);
    };
    let mut line = if standing.winner().is_some() {
        let text = format!(
            "its {time}, {} faster than the next, {} ({}).",
            times(found, next.median / first.median),
            next.name,
            at_least(point, next.median)
        );
        let mut clauses = vec![text];
        clauses.extend(certainty(found));
        Line::new(format!("Use {}", first.name), clauses)
    } else {
        unclear(standing, first)
    };
    if !standing.never.is_empty() {
        line.clauses.push(format!("{} never finished.", and(&standing.never)));
    }
    line
}

/// Returns the line for a point without a clear winner. It names the contestants between which the race does not
/// decide, and says why.
fn unclear(standing: &Standing<'_>, first: &Finisher<'_>) -> Line {
    let point = standing.point;
    let (loads, load) = (plural(point), noun(point));
    let rivals: Vec<(&Finisher<'_>, &Comparison)> = standing.rivals().collect();
    let mut names = vec![first.name];
    names.extend(rivals.iter().map(|(rival, _)| rival.name));
    let medians: Vec<f64> =
        std::iter::once(first.median).chain(rivals.iter().map(|(rival, _)| rival.median)).collect();
    let medians = format!("their median {loads} take {}", listed(point, &medians));
    let label = "No clear winner";
    let opponent = standing.opponent();
    if let Some((rival, _)) = opponent.filter(|(_, found)| found.verdict == Verdict::Less) {
        let text = format!(
            "{} has the faster median {load} ({}; {} {}), but {} is faster on average.",
            first.name,
            at_least(point, first.median),
            rival.name,
            at_least(point, rival.median),
            rival.name
        );
        return Line::new(label, vec![text]);
    }
    if rivals.iter().all(|(_, found)| found.verdict == Verdict::Level) {
        let text = format!("{} tie: {medians}, on average less than 3\u{a0}% apart.", and(&names));
        return Line::new(label, vec![text]);
    }
    let mut clauses = vec![format!("{} are too close to call: {medians}.", and(&names))];
    let slower = standing.ranked.iter().filter(|one| !names.contains(&one.name));
    let slower: Vec<String> =
        slower.map(|one| format!("{} ({})", one.name, at_least(point, one.median))).collect();
    match slower.as_slice() {
        [] => {}
        [one] => clauses.push(format!("{one} is slower.")),
        all => clauses.push(format!("{} are slower.", and(all))),
    }
    let Some((rival, found)) = opponent else { return Line::new(label, clauses) };
    if found.n < 2 && !found.exact {
        clauses.push(format!("One {load} decides nothing here; race more, such as --runs 100."));
    } else if let (None, Verdict::More, true) = (found.bound, found.verdict, is_median_slower(found)) {
        let mean = ratio(found.ratio.unwrap_or(1.0));
        clauses.push(format!(
            "On average {} is {mean} times faster, but the medians are less than 3\u{a0}% apart.",
            first.name
        ));
    } else if let (None, Some([low, high]), true) = (found.bound, found.median_ci95, is_median_slower(found))
    {
        clauses.push(format!(
            "The medians differ ({} to {} times, with 95\u{a0}% confidence), the means do not: the {loads} scatter too \
             much to call a winner.",
            ratio(low),
            ratio(high)
        ));
    } else if let (None, Some([low, high])) = (found.bound, found.median_ci95) {
        let (rival, first) = (rival.name, first.name);
        clauses.push(if low < 1.0 && (1.0..1.5).contains(&high) {
            let [less, more] = [1.0 - low, high - 1.0].map(|part| (100.0 * part).round());
            format!(
                "With 95\u{a0}% confidence {rival} needs between {less}\u{a0}% less and {more}\u{a0}% more time than {first}."
            )
        } else {
            let (low, high) = (ratio(low), ratio(high));
            format!("With 95\u{a0}% confidence {rival} takes {low} to {high} times as long as {first}.")
        });
    }
    if (2..FEW).contains(&found.n) {
        clauses.push(format!("{} of each are few; more may decide it.", counted(found.n, load)));
    }
    Line::new(label, clauses)
}

/// With fewer runs, an undecided comparison says that more may decide it.
const FEW: u64 = 25;

/// Returns whether the median of contestant `a` is certainly larger than that of `b`, however little.
fn is_median_slower(found: &Comparison) -> bool {
    found.median_ci95.is_some_and(|[low, _]| low > 1.0)
}

/// Describes how certain the lead of a contestant is, from the interval of the ratio of medians.
fn certainty(found: &Comparison) -> Option<String> {
    match found.median_ci95 {
        Some([low, high]) => {
            let (low, high) = (ratio(low), ratio(high));
            let range = if low == high { low } else { format!("{low} to {high}") };
            Some(format!("With 95\u{a0}% confidence it is {range} times faster."))
        }
        None if !found.exact && found.n < FEWEST_ALIKE => {
            Some(format!("That is from {} only.", counted(found.n, "pair")))
        }
        None => None,
    }
}

/// Says how often each of two contestants is faster, and describes the distribution of their times. The two are the
/// winner and the runner-up, or the two contestants that the first line of the answer names.
fn spread(standing: &Standing<'_>) -> Option<Line> {
    let point = standing.point;
    let first = standing.ranked.first()?;
    let label = "Spread";
    if metrics::is_one_case(&first.contestant.runs, point.terms()) {
        let text =
            format!("none, because nothing in this race is random: every {} is the same.", noun(point));
        return Some(Line::new(label, vec![text]));
    }
    if first.stat.n < 2 {
        return None;
    }
    let Some((other, found)) = standing.opponent() else {
        let has_p95 = is_precise(medians::p95_interval(point, first.contestant));
        return Some(Line::new(label, vec![format!("{}.", quantiles(point, first, has_p95)?)]));
    };
    let has_p95 = is_p95_known(point, first, other);
    let [p75, p95] = [other.stat.p75?, other.stat.p95?].map(|ms| at_least(point, ms));
    let these = if has_p95 { format!("these are {p75} and {p95}") } else { format!("this is {p75}") };
    let times = format!("{}. For {} {these}.", quantiles(point, first, has_p95)?, other.name);
    let is_pair = standing.winner().is_some() || standing.ranked.len() < 3;
    let mut clauses = vec![frequency(point, (first, other), found, is_pair), times];
    clauses.extend(steadiest(standing));
    Some(Line::new(label, clauses))
}

/// If there is no clear winner, names the contestant whose 95th percentile is the smallest. `None` if its lead in these
/// runs is too small to matter.
fn steadiest(standing: &Standing<'_>) -> Option<String> {
    let first = standing.ranked.first()?;
    let p95 = |one: &Finisher<'_>| one.stat.p95.unwrap_or(f64::INFINITY);
    let (best, _) = standing.rivals().min_by(|a, b| p95(a.0).total_cmp(&p95(b.0)))?;
    let matters = standing.winner().is_none()
        && p95(first) / p95(best) >= MIN_TAIL
        && is_p95_known(standing.point, first, best);
    matters.then(|| {
        let time = at_least(standing.point, p95(best));
        format!("{} has the fewest slow {}: 95\u{a0}% take under {time}.", best.name, plural(standing.point))
    })
}

/// Describes in how many runs each of two contestants is faster. If both are often faster, also compares the slower
/// halves of their runs. Unless `is_pair` is set, the sentence says that no other contestant counts.
fn frequency(
    point: &Point,
    (first, next): (&Finisher<'_>, &Finisher<'_>),
    found: &Comparison,
    is_pair: bool,
) -> String {
    let (n, loads) = (found.n, plural(point));
    let tail = first.stat.p75.zip(next.stat.p75).map_or(1.0, |(first, next)| next / first);
    let (name, wins, other, slower) = if tail >= 1.0 {
        (next.name, found.less, first.name, tail)
    } else {
        (first.name, found.more, next.name, 1.0 / tail)
    };
    if 4 * wins >= n && slower >= MIN_TAIL && found.bound.is_none() {
        return format!(
            "{name} is faster than {other} in {wins} of {n} {loads}, but {} times slower in its slower half.",
            ratio(slower)
        );
    }
    let (first, next, more) = (first.name, next.name, found.more);
    match is_pair {
        true => format!("{first} is faster than {next} in {more} of {n} {loads}."),
        false => format!("compared with {next} alone, {first} is faster in {more} of {n} {loads}."),
    }
}

/// The smallest ratio of the third quartiles of two contestants for which their slower halves are compared.
const MIN_TAIL: f64 = 1.2;

/// The largest ratio of the ends of an interval of a 95th percentile with which the answer names the percentile.
const MAX_P95_WIDTH: f64 = 1.1;

fn is_precise(interval: Option<[f64; 2]>) -> bool {
    interval.is_some_and(|[low, high]| high <= MAX_P95_WIDTH * low)
}

/// Returns whether there are enough runs to compare the 95th percentiles of two contestants: both are precise, or their
/// intervals do not overlap.
fn is_p95_known(point: &Point, one: &Finisher<'_>, other: &Finisher<'_>) -> bool {
    let [one, other] = [one, other].map(|it| medians::p95_interval(point, it.contestant));
    let is_apart = one.zip(other).is_some_and(|(one, other)| one[1] < other[0] || other[1] < one[0]);
    is_apart || (is_precise(one) && is_precise(other))
}

/// Describes how long 75 % and, with `has_p95`, 95 % of a contestant's runs take at most.
fn quantiles(point: &Point, one: &Finisher<'_>, has_p95: bool) -> Option<String> {
    let [most, nearly] = [one.stat.p75?, one.stat.p95?].map(|ms| at_least(point, ms));
    let nearly = if has_p95 { format!(" and 95\u{a0}% under {nearly}") } else { String::new() };
    Some(format!("75\u{a0}% of {}'s {} take under {most}{nearly}", one.name, plural(point)))
}

/// Returns lines with remarks about unfinished runs, path failures and the deadline. `without_failover` is set if
/// another line is about the path failure.
fn remarks(point: &Point, without_failover: bool) -> Vec<Line> {
    let mut all = anabranch_results::verdict::remarks(point);
    all.retain(|(heading, _)| !(without_failover && *heading == "Failover"));
    // The text follows a colon, so it begins in lower case, unless it begins with the name of a contestant.
    let lower = |text: String| match text.strip_prefix("The ").or(text.strip_prefix("When ")) {
        Some(rest) => format!("{} {rest}", if text.starts_with('T') { "the" } else { "when" }),
        None => text,
    };
    all.into_iter().map(|(label, text)| Line::new(label, vec![with_units(&lower(text))])).collect()
}

/// Replaces the spaces before units of time by no-break spaces.
fn with_units(text: &str) -> String {
    let is_unit = |word: &str| ["s", "ms"].contains(&word.trim_end_matches([',', '.', ';']));
    let mut out = String::new();
    for word in text.split(' ') {
        if !out.is_empty() {
            out.push(if is_unit(word) { '\u{a0}' } else { ' ' });
        }
        out += word;
    }
    out
}

/// Lists times, for example `1.46, 1.50 and 1.60 s`. The unit is written only once if all times have the same unit.
/// Equal times are written once.
fn listed(point: &Point, times: &[f64]) -> String {
    let mut all: Vec<String> = times.iter().map(|&ms| at_least(point, ms)).collect();
    all.dedup();
    let unit =
        all.last().and_then(|last| last.rsplit_once('\u{a0}')).map(|(_, unit)| format!("\u{a0}{unit}"));
    let Some(unit) = unit.filter(|unit| all.iter().all(|time| time.ends_with(unit.as_str()))) else {
        return and(&all);
    };
    let bare: Vec<&str> = all.iter().map(|time| time.trim_end_matches(unit.as_str())).collect();
    and(&bare) + &unit
}

/// Formats a time in milliseconds. A time at or above the deadline is marked as a lower bound.
fn at_least(point: &Point, ms: f64) -> String {
    let deadline = point.workload.deadline_ns.map_or(f64::INFINITY, |ns| ns as f64 / 1e6);
    let bound = if ms >= deadline && !point.workload.messages { "at\u{a0}least\u{a0}" } else { "" };
    format!("{bound}{}", milliseconds(ms).replace(' ', "\u{a0}"))
}

/// Formats the clause that gives the time of a contestant's median run.
fn takes(point: &Point, time: &str) -> String {
    if point.workload.messages {
        return format!("median run delivers 95\u{a0}% of its messages within {time}");
    }
    format!("median {} takes {time}", noun(point))
}

/// Returns how many times faster the denominator of a comparison is: `1.07 times`, for a quotient of medians of 1.07.
fn times(found: &Comparison, medians: f64) -> String {
    let bound = match found.bound {
        None => "",
        Some(Bound::AtLeast) => "at least ",
        Some(_) => "about ",
    };
    format!("{bound}{} times", ratio(found.median_ratio.unwrap_or(medians)))
}

#[cfg(test)]
mod tests;
