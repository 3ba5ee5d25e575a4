//! The text tables with the results of one point. They show the times of the contestants. With `-v`, they also show
//! geometric means, packets and retransmissions, and the parts of the response time.

use super::Style;
use crate::medians::p95_interval;
use anabranch_results::label::labels;
use anabranch_results::stats::metrics;
use anabranch_results::{Bound, Comparison, Contestant, Point, Run, Stat, verdict};
use verdict::milliseconds;

/// The greatest width of a contestant's name, in characters.
const NAME: usize = 22;

/// Renders a text table with headings. The first column has the names of the contestants, which are shortened if the
/// rows would be wider than the style allows. The other columns are aligned to the right.
fn layout(corner: &str, headings: &[&str], point: &Point, rows: &[Vec<String>], style: Style) -> String {
    let count = |text: &str| text.chars().count();
    let widths: Vec<usize> = headings
        .iter()
        .enumerate()
        .map(|(i, heading)| rows.iter().map(|row| count(&row[i])).fold(count(heading), usize::max))
        .collect();
    let others: usize = widths.iter().map(|width| width + 2).sum();
    let names: Vec<&str> = point.contestants.iter().map(Contestant::label).collect();
    let names = labels(&names, style.width.saturating_sub(others).clamp(8, NAME));
    let name_width = names.iter().map(|name| count(name)).fold(count(corner), usize::max);
    let line = |name: &str, cells: &mut dyn Iterator<Item = &str>| {
        let cells: String = cells.zip(&widths).map(|(cell, width)| format!("  {cell:>width$}")).collect();
        format!("{name:<name_width$}{cells}")
    };
    let mut out = style.faint(&line(corner, &mut headings.iter().copied())) + "\n";
    for (name, row) in names.iter().zip(rows) {
        out += &(line(name, &mut row.iter().map(String::as_str)) + "\n");
    }
    out
}

/// Renders a table with the median, the 75th and the 95th percentile of each contestant's times. The other columns are
/// the share of the runs in which the contestant is the fastest, and the ratio of its median to the smallest median.
pub(super) fn times(point: &Point, style: Style) -> String {
    let metric = point.decisive();
    let finished =
        |contestant: &&Contestant| contestant.runs.iter().any(|run| metrics::value(run, metric).is_some());
    let median = |contestant: &Contestant| contestant.summary.metric(metric).and_then(|stat| stat.median);
    let finishers = point.contestants.iter().filter(finished);
    let first = finishers
        .filter(|one| median(one).is_some())
        .min_by(|a, b| median(a).unwrap_or(f64::INFINITY).total_cmp(&median(b).unwrap_or(f64::INFINITY)));
    let deadline = point.workload.deadline_ns.map_or(f64::INFINITY, |ns| ns as f64 / 1e6);
    let time = |ms: Option<f64>| match ms {
        None => "-".to_owned(),
        Some(ms) if ms >= deadline => format!(">={}", milliseconds(ms)),
        Some(ms) => milliseconds(ms),
    };
    let wins = wins(point);
    let row = |(i, contestant): (usize, &Contestant)| {
        let Some(stat) = contestant.summary.metric(metric).filter(|_| finished(&contestant)) else {
            return vec![
                "never".to_owned(),
                "-".to_owned(),
                "-".to_owned(),
                "0 %".to_owned(),
                "-".to_owned(),
            ];
        };
        let ratio = first.map_or(String::new(), |first| to_first(point, contestant, first));
        vec![time(stat.median), time(stat.p75), time(stat.p95), format!("{:.0} %", wins[i]), ratio]
    };
    let rows: Vec<Vec<String>> = point.contestants.iter().enumerate().map(row).collect();
    let label = first.map_or("", Contestant::label);
    let versus = match label.chars().count() <= LONGEST_IN_HEADING {
        true => format!("median / {label}'s"),
        false => "median / fastest".to_owned(),
    };
    let corner = if point.workload.messages { "p95 delay" } else { "" };
    layout(corner, &["median", "p75", "p95", "fastest in", &versus], point, &rows, style)
}

/// The length of the longest name that the heading of a ratio contains, in characters.
const LONGEST_IN_HEADING: usize = 16;

/// Returns the percentage of the runs in which each contestant is the fastest. If several contestants are equally fast
/// in a run, the run is divided among them.
fn wins(point: &Point) -> Vec<f64> {
    let runs = point.contestants.iter().map(|contestant| contestant.runs.len()).max().unwrap_or(0);
    let mut wins = vec![0.0; point.contestants.len()];
    for i in 0..runs {
        let time = |contestant: &Contestant| {
            contestant.runs.get(i).and_then(|run| metrics::value(run, point.decisive()))
        };
        let times: Vec<Option<f64>> = point.contestants.iter().map(time).collect();
        let Some(best) = times.iter().flatten().copied().min_by(f64::total_cmp) else { continue };
        let equal = times.iter().filter(|time| **time == Some(best)).count() as f64;
        for (share, _) in wins.iter_mut().zip(&times).filter(|(_, time)| **time == Some(best)) {
            *share += 100.0 / runs as f64 / equal;
        }
    }
    wins
}

/// Formats the ratio of a contestant's median to the median of contestant `first`, with its 95 % interval.
fn to_first(point: &Point, contestant: &Contestant, first: &Contestant) -> String {
    if contestant.name == first.name {
        return "1".to_owned();
    }
    let Some(found) = point.compared(&contestant.name, &first.name, point.decisive()) else {
        return "-".to_owned();
    };
    with_interval(&found, found.median_ratio, found.median_ci95)
}

/// Formats a ratio with its interval: `1.31 (1.19-1.45)`.
fn with_interval(found: &Comparison, ratio: Option<f64>, interval: Option<[f64; 2]>) -> String {
    let sign = match found.bound {
        None => "",
        Some(Bound::AtLeast) => ">=",
        Some(Bound::AtMost) => "<=",
        Some(Bound::Unknown) => "?",
    };
    match (ratio, interval) {
        (Some(ratio), Some([low, high])) => format!("{sign}{ratio:.2} ({low:.2}-{high:.2})"),
        (Some(ratio), None) => format!("{sign}{ratio:.2}"),
        (None, _) => "-".to_owned(),
    }
}

/// Renders a table with the geometric means over the runs, and their ratios to the first contestant and to the lower
/// bound.
pub(super) fn means(point: &Point, style: Style) -> String {
    let row = |contestant: &Contestant| {
        let page = &contestant.summary.page_ms;
        let range = match page.p10.zip(page.p90) {
            Some((low, high)) if low < high => format!("{}-{}", format_value(low), format_value(high)),
            Some(_) if !point.chance => "not random".to_owned(),
            Some(_) if page.n > 1 => "all equal".to_owned(),
            _ => "-".to_owned(),
        };
        let limit = contestant.summary.limit_ratio.geometric_mean;
        let mut row = vec![
            format!("{}{}", at_least(page), typical(page)),
            range,
            ratio(point, &contestant.name, "page_ms"),
            limit.map_or("-".to_owned(), |x| format!("{x:.2}")),
        ];
        // A bulk transfer is a single object, whose time is already in another column.
        if !point.workload.is_bulk() {
            row.push(typical(&contestant.summary.object_ms));
        }
        row
    };
    let rows: Vec<Vec<String>> = point.contestants.iter().map(row).collect();
    let versus = versus("ratio to", point);
    let headings = ["mean ms", "10-90 % of runs", &versus, "x limit", "object ms"];
    let shown = headings.len() - usize::from(point.workload.is_bulk());
    layout("", &headings[..shown], point, &rows, style)
}

/// Renders when a user sees the page: for each of the paint metrics the median and the 95th percentile over the runs.
/// `None` if no browser loaded the page.
pub(super) fn paint(point: &Point, style: Style) -> Option<String> {
    let stats = |contestant: &Contestant| {
        let summary = &contestant.summary;
        [summary.start_render_ms, summary.largest_image_ms, summary.byte_index_ms]
    };
    if point.contestants.iter().flat_map(stats).all(|stat| stat.is_empty()) {
        return None;
    }
    let cells = |stat: Stat| {
        let cell = |ms: Option<f64>| {
            ms.map_or("-".to_owned(), |ms| format!("{}{}", at_least(&stat), milliseconds(ms)))
        };
        [cell(stat.median), cell(stat.p95)]
    };
    let row = |contestant: &Contestant| stats(contestant).into_iter().flat_map(cells).collect();
    let rows: Vec<Vec<String>> = point.contestants.iter().map(row).collect();
    let headings = ["start render", "p95", "largest image", "p95", "byte index", "p95"];
    Some(layout("medians", &headings, point, &rows, style))
}

/// Returns the prefix `>=` if some runs did not finish. An unfinished run counts as if it had finished at the deadline,
/// so the number after the prefix is a lower bound.
fn at_least(stat: &Stat) -> &'static str {
    if stat.failed > 0 && stat.n > 0 { ">=" } else { "" }
}

/// Returns the heading of the column that compares contestants with the first contestant of the plan.
fn versus(what: &str, point: &Point) -> String {
    let first = point.contestants.first().map_or("", Contestant::label);
    let first = if first.chars().count() <= LONGEST_IN_HEADING { first } else { "the first" };
    format!("{what} {first}")
}

/// Renders a table with the delays of messages. Each number is a geometric mean over the runs.
pub(super) fn delays(point: &Point, style: Style) -> String {
    let row = |contestant: &Contestant| {
        let summary = &contestant.summary;
        let all_came = summary.undelivered.mean == Some(0.0);
        let delay = |stat: &Stat| format!("{}{}", if all_came { "" } else { at_least(stat) }, typical(stat));
        vec![
            delay(&summary.object_p50_ms),
            delay(&summary.object_p95_ms),
            delay(&summary.object_p99_ms),
            delay(&summary.object_max_ms),
            ratio(point, &contestant.name, "object_p95_ms"),
            mean(&summary.undelivered),
        ]
    };
    let rows: Vec<Vec<String>> = point.contestants.iter().map(row).collect();
    let versus = versus("p95 to", point);
    let headings = ["median", "p95", "p99", "longest", &versus, "undelivered"];
    layout("delay, ms", &headings, point, &rows, style)
}

/// Formats a contestant's ratio to the first contestant, with its interval.
fn ratio(point: &Point, contestant: &str, metric: &str) -> String {
    let first = point.contestants.first().map_or("", |contestant| contestant.name.as_str());
    let against = |c: &&Comparison| c.a == contestant && c.b == first && c.metric == metric;
    let found = point.comparisons.iter().find(against);
    found.map_or("1".to_owned(), |found| with_interval(found, found.ratio, found.ci95))
}

/// Renders a table with connections, losses and retransmissions, each as the mean over the runs.
pub(super) fn work(point: &Point, style: Style) -> String {
    let row = |contestant: &Contestant| {
        let per_run = |count: fn(&Run) -> u64| {
            let n = contestant.runs.len().max(1) as f64;
            format_value(contestant.runs.iter().map(count).sum::<u64>() as f64 / n)
        };
        vec![
            per_run(|run| run.connections),
            mean(&contestant.summary.packets_lost),
            mean(&contestant.summary.retransmitted),
            per_run(|run| run.events.timeouts),
            contestant.summary.page_ms.failed.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = point.contestants.iter().map(row).collect();
    let headings = ["connections", "lost", "retransmitted", "RTOs", "unfinished"];
    layout("", &headings, point, &rows, style)
}

/// Lists the 95th percentile of each contestant's times with its interval.
pub(super) fn slow_runs(point: &Point) -> String {
    let one = |contestant: &Contestant| {
        let p95 = contestant.summary.metric(point.decisive())?.p95?;
        let interval = p95_interval(point, contestant)
            .map_or("too few runs for one".to_owned(), |[low, high]| {
                format!("{} to {}", milliseconds(low), milliseconds(high))
            });
        Some(format!("{} {} ({interval})", contestant.label(), milliseconds(p95)))
    };
    let all: Vec<String> = point.contestants.iter().filter_map(one).collect();
    format!("p95 and its 95 % interval: {}", all.join("; "))
}

/// Describes for each contestant which parts of its objects' response times are the largest.
pub(super) fn parts(point: &Point) -> impl Iterator<Item = String> {
    let known = point.contestants.iter().filter(|contestant| verdict::mean_parts(contestant).is_some());
    known.map(|contestant| format!("{}: {}", contestant.label(), verdict::dominant(contestant, 4)))
}

/// The heading above the contestants' names in the table of failover times. These times count from the path failure.
const FAILOVER: &str = "failover ms, until";

/// Renders a table with the effects of the first path failure: the time until the path was declared failed, until new
/// data arrived, and until service was restored. Each number is the mean over the runs in which the event happened. If
/// the event did not happen in all runs, the number of runs in which it happened is shown.
pub(super) fn failures(point: &Point, style: Style) -> String {
    let row = |contestant: &Contestant| {
        let runs = point.runs_with_path_failure(contestant).count() as u64;
        let cell = |stat: &Stat| match (runs, stat.n, stat.mean) {
            (0, ..) => "-".to_owned(),
            (_, 0, _) | (.., None) => "never".to_owned(),
            (all, n, Some(mean)) if n < all => format!("{} ({n} of {all})", format_value(mean)),
            (.., Some(mean)) => format_value(mean),
        };
        let summary = &contestant.summary;
        [&summary.declared_failed_ms, &summary.failover_ms, &summary.restored_ms].map(cell).to_vec()
    };
    let rows: Vec<Vec<String>> = point.contestants.iter().map(row).collect();
    layout(FAILOVER, &["declared failed", "first new data", "service restored"], point, &rows, style)
}

/// Formats the geometric mean of a metric. It is used because the printed ratio of two contestants is the quotient of
/// their geometric means.
fn typical(stat: &Stat) -> String {
    optional(stat.geometric_mean)
}

fn optional(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), format_value)
}

fn mean(stat: &Stat) -> String {
    optional(stat.mean)
}

/// Formats a value without an exponent. Values from 1000 on and whole numbers have no decimals, other values from 1 on
/// have one, and smaller values have two. For example, `12345`, `123.4`, `7` or `0.25`.
pub(super) fn format_value(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 || v == v.trunc() => format!("{value:.0}"),
        v if v >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
