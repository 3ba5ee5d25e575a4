//! The table on standard output.
//!
//! Two blocks and a sentence a point: times with their intervals; what the
//! network and the transports had to do, and where the time went; then the
//! terms on which each contestant raced, because six connections and one
//! association are different bids for bandwidth. At most 100 columns.

use crate::results::label::{labels, shortened};
use crate::results::{Contestant, PathEvent, PathState, Point, Race, Side, Stat};
use crate::transports::Transports;
use crate::verdict;
use std::fmt::Write;

/// How the table is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Style {
    /// Emphasis by terminal escapes.
    pub color: bool,
}

impl Style {
    fn bold(self, text: &str) -> String {
        if self.color { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn faint(self, text: &str) -> String {
        if self.color { format!("\x1b[2m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// The widest line.
pub const COLUMNS: usize = 100;

/// The whole race as text, with the standard transports.
#[must_use]
pub fn render(race: &Race, style: Style) -> String {
    render_with(race, style, &Transports::standard())
}

/// The whole race as text, with these transports, each of which has words of its own.
#[must_use]
pub fn render_with(race: &Race, style: Style, transports: &Transports) -> String {
    let mut out = String::new();
    for warning in &race.warnings {
        out += &wrapped(&format!("warning: {warning}"), 0);
    }
    for (i, point) in race.points.iter().enumerate() {
        if i > 0 {
            out.push('\n');
        }
        out += &point_table(point, style, transports);
    }
    for expectation in &race.expectations {
        let found = expectation.found.map_or("nothing finished".to_owned(), figure);
        let word = if expectation.met { "met" } else { "MISSED" };
        out += &wrapped(&format!("{word}: {} (found {found})", expectation.expected), 2);
    }
    out
}

/// One point.
#[must_use]
pub fn point_table(point: &Point, style: Style, transports: &Transports) -> String {
    let mut out = String::new();
    if !point.factors.is_empty() {
        let factors: Vec<String> = point.factors.iter().map(|(k, v)| format!("{k} {v}")).collect();
        out += &format!("{}\n", style.bold(&factors.join(", ")));
    }
    let runs = point.contestants.first().map_or(0, |contestant| contestant.runs.len());
    let seeds = match point.contestants.first().map(|contestant| contestant.runs.as_slice()) {
        Some([one]) => format!("1 run, seed {}", one.seed),
        Some([first, .., last]) => format!("{runs} runs, seeds {}-{}", first.seed, last.seed),
        _ => "no run".to_owned(),
    };
    out += &wrapped(&format!("{} over {}; {seeds}", point.workload.name, point.network), 2);
    out.push('\n');
    out += &if point.workload.messages { delays(point, style) } else { times(point, style) };
    out.push('\n');
    out += &work(point, style);
    out.push('\n');
    if point.contestants.iter().any(|contestant| point.met_failure(contestant).next().is_some()) {
        out += &failures(point, style);
        out.push('\n');
    }
    for contestant in &point.contestants {
        let terms = terms(contestant, transports);
        let terms = if point.workload.messages { without_requests(&terms) } else { terms };
        out += &style_lines(&wrapped(&terms, 2), |line| style.faint(line));
    }
    for contestant in &point.contestants {
        for line in [path_events(contestant), contestant.shortfall()].into_iter().flatten() {
            out += &wrapped(&line, 2);
        }
    }
    out.push('\n');
    out += &style_lines(&wrapped(&verdict::sentence(point), 0), |line| style.bold(line));
    out
}

fn times(point: &Point, style: Style) -> String {
    let name_width = name_width(point);
    let whole = format!("{} ms", point.workload.whole());
    let whole_width = whole.len().max(7);
    // What is one object has its time already.
    let objects = !point.workload.is_bulk();
    let last = |text: &str| if objects { format!("  {text:>8}") } else { String::new() };
    let others = name_width + whole_width + 41 + last("").len();
    let (versus, ratio_width) = versus("ratio to", point, others);
    let mut out = style_lines(
        &format!(
            "{:<name_width$}  {whole:>whole_width$}  {:>15}  {:>7}  {versus:>ratio_width$}  {:>7}{}\n",
            "",
            "95 % interval",
            "median",
            "x limit",
            last("obj. ms")
        ),
        |line| style.faint(line),
    );
    for (contestant, name) in point.contestants.iter().zip(names(point)) {
        let page = &contestant.summary.page_ms;
        // An interval may begin below zero where runs are few: a hyphen would be read as a minus.
        let interval = page.ci95.map_or("-".to_owned(), |[low, high]| {
            let dash = if low < 0.0 { ".." } else { "-" };
            format!("{}{dash}{}", figure(low), figure(high))
        });
        let ratio = ratio(point, &contestant.name, "page_ms");
        let _ = writeln!(
            out,
            "{:<name_width$}  {:>whole_width$}  {interval:>15}  {:>7}  {ratio:>ratio_width$}  {:>7}{}",
            name,
            optional(page.mean),
            optional(page.median),
            contestant.summary.limit_ratio.mean.map_or("-".to_owned(), |x| format!("{x:.2}")),
            last(&optional(contestant.summary.object_ms.mean)),
        );
    }
    out
}

/// The heading of the column that sets contestants against the first, and its width beside `others` columns: as wide as
/// the first one's name needs, where there is room.
fn versus(what: &str, point: &Point, others: usize) -> (String, usize) {
    let first = point.contestants.first().map_or("", |contestant| contestant.name.as_str());
    let room = COLUMNS.saturating_sub(others).max(RATIO_WIDTH);
    let heading = format!("{what} {}", shortened(first, room - what.len() - 1));
    let width = heading.chars().count().max(RATIO_WIDTH);
    (heading, width)
}

/// What a ratio and its interval take.
const RATIO_WIDTH: usize = 22;

/// Delays of messages, each figure the mean of the runs' own.
fn delays(point: &Point, style: Style) -> String {
    let name_width = name_width(point);
    let (versus, ratio_width) = versus("p95 to", point, name_width + 55);
    let mut out = style_lines(
        &format!(
            "{:<name_width$}  {:>8}  {:>8}  {:>8}  {:>8}  {versus:>ratio_width$}  {:>11}
",
            "delay, ms", "median", "p95", "p99", "longest", "undelivered"
        ),
        |line| style.faint(line),
    );
    for (contestant, name) in point.contestants.iter().zip(names(point)) {
        let summary = &contestant.summary;
        let _ = writeln!(
            out,
            "{:<name_width$}  {:>8}  {:>8}  {:>8}  {:>8}  {:>ratio_width$}  {:>11}",
            name,
            mean(&summary.object_p50_ms),
            mean(&summary.object_p95_ms),
            mean(&summary.object_p99_ms),
            mean(&summary.object_max_ms),
            ratio(point, &contestant.name, "object_p95_ms"),
            mean(&summary.undelivered),
        );
    }
    out
}

/// A contestant's ratio to the first, with its interval.
fn ratio(point: &Point, contestant: &str, metric: &str) -> String {
    match point.comparisons.iter().find(|c| c.a == contestant && c.metric == metric) {
        Some(found) => match (found.ratio, found.ci95) {
            (Some(ratio), Some([low, high])) => format!("{ratio:.2} ({low:.2}-{high:.2})"),
            (Some(ratio), None) => format!("{ratio:.2}"),
            (None, _) => "-".to_owned(),
        },
        None => "1".to_owned(),
    }
}

fn work(point: &Point, style: Style) -> String {
    let name_width = name_width(point);
    let mut out = style_lines(
        &format!(
            "{:<name_width$}  {:>5}  {:>5}  {:>7}  {:>5}  {:>6}  {}\n",
            "", "conns", "lost", "retrans", "RTOs", "failed", "where objects' time went"
        ),
        |line| style.faint(line),
    );
    for (contestant, name) in point.contestants.iter().zip(names(point)) {
        let per_run = |count: fn(&crate::results::Run) -> u64| {
            let n = contestant.runs.len().max(1) as f64;
            figure(contestant.runs.iter().map(count).sum::<u64>() as f64 / n)
        };
        let room = COLUMNS.saturating_sub(name_width + 40);
        let most = (1..=4).rev().map(|n| verdict::dominant(contestant, n)).find(|text| text.len() <= room);
        let _ = writeln!(
            out,
            "{:<name_width$}  {:>5}  {:>5}  {:>7}  {:>5}  {:>6}  {}",
            name,
            per_run(|run| run.connections),
            mean(&contestant.summary.packets_lost),
            mean(&contestant.summary.retransmitted),
            per_run(|run| run.events.timeouts),
            contestant.summary.page_ms.failed,
            most.unwrap_or_default(),
        );
    }
    out
}

/// What the first failure of a path did: until it was declared failed, until new data came, until the service was
/// restored; means over the runs in which that happened, and how many these are where they are not all.
fn failures(point: &Point, style: Style) -> String {
    let name_width = name_width(point).max(FAILOVER.len());
    let mut out = style_lines(
        &format!(
            "{FAILOVER:<name_width$}  {:>18}  {:>18}  {:>18}\n",
            "declared failed", "first new data", "service restored"
        ),
        |line| style.faint(line),
    );
    for (contestant, name) in point.contestants.iter().zip(names(point)) {
        let runs = point.met_failure(contestant).count() as u64;
        let cell = |stat: &Stat| match (runs, stat.n, stat.mean) {
            (0, ..) => "-".to_owned(),
            (_, 0, _) | (.., None) => "never".to_owned(),
            (all, n, Some(mean)) if n < all => format!("{} ({n} of {all})", figure(mean)),
            (.., Some(mean)) => figure(mean),
        };
        let summary = &contestant.summary;
        let _ = writeln!(
            out,
            "{name:<name_width$}  {:>18}  {:>18}  {:>18}",
            cell(&summary.declared_failed_ms),
            cell(&summary.failover_ms),
            cell(&summary.restored_ms)
        );
    }
    out
}

/// Above the names of contestants beside times that count from a path's failure.
const FAILOVER: &str = "failover ms, until";

/// What became of the paths in the median run, as the contestant saw it: `sctp, seed 4: path 1 declared failed after
/// 8.02 s by the server, active again after 14.3 s`.
fn path_events(contestant: &Contestant) -> Option<String> {
    let run = contestant.runs.iter().find(|run| run.seed == contestant.median_seed)?;
    let event_text = |event: &PathEvent| {
        let state = match event.state {
            PathState::PotentiallyFailed => "potentially failed",
            PathState::Failed => "declared failed",
            PathState::Active => "active again",
        };
        let by = match event.by {
            Side::Client => "client",
            Side::Server => "server",
        };
        format!("path {} {state} after {:.2} s by the {by}", event.path, event.at_ns as f64 / 1e9)
    };
    let mut parts: Vec<String> = run.path_events.iter().take(PATH_EVENTS).map(event_text).collect();
    match run.path_events.len().saturating_sub(PATH_EVENTS) {
        0 => {}
        more => parts.push(format!("and {more} more in the JSON")),
    }
    (!parts.is_empty()).then(|| format!("{}, seed {}: {}", contestant.name, run.seed, parts.join(", ")))
}

/// The most path events that a contestant's line tells.
const PATH_EVENTS: usize = 6;

/// [`terms`] without what is about requests.
fn without_requests(terms: &str) -> String {
    terms.replace(", not pipelined", "").replace(", pipelined", "")
}

/// The terms on which a contestant raced.
#[must_use]
pub fn terms(contestant: &Contestant, transports: &Transports) -> String {
    let setting = |key: &str| contestant.settings.get(key).map_or("?", String::as_str);
    // What is not in the list has connections.
    let words = transports.find(setting("transport")).map(|it| it.capabilities().words).unwrap_or_default();
    let [session, sessions] = words.session;
    // Fewer may have been enough.
    let opened = contestant.runs.iter().map(|run| run.connections).max().unwrap_or(0);
    let connections = match setting("connections") {
        n if opened > 0 && n.parse().is_ok_and(|n: u64| opened < n) => {
            format!("at most {n} {sessions} ({opened} opened)")
        }
        "1" => format!("1 {session}"),
        "as needed" => format!("{sessions} as needed"),
        n => format!("{n} {sessions}"),
    };
    let mut terms = vec![connections];
    match setting("objects-per-connection") {
        "no limit" | "?" => {}
        "1" => terms.push("a new one for each object".to_owned()),
        k => terms.push(format!("{k} objects each")),
    }
    // Those with several streams say what they do when all are busy.
    if contestant.settings.contains_key("when-full") {
        let full = match setting("when-full") {
            "rr" => ", pipelined in turn when full",
            "spf" => ", pipelined on the least busy when full",
            "grow" => ", more when full",
            _ => "",
        };
        // An exchange takes one each way.
        let pairs =
            ["streams", "inbound"].into_iter().filter_map(|key| setting(key).parse::<u64>().ok()).min();
        let streams = pairs.map_or_else(|| setting("streams").to_owned(), |pairs| pairs.to_string());
        terms.push(format!("{streams} {}{full}", if streams == "1" { "stream" } else { "streams" }));
    } else {
        terms.push(if setting("pipeline") == "yes" { "pipelined" } else { "not pipelined" }.to_owned());
    }
    let delay = format!("{} delay", words.acknowledgement);
    let named = [
        ("initial window", "iw"),
        ("RTO min", "rto_min"),
        (delay.as_str(), "delack"),
        ("cc", "cc"),
        ("profile", "profile"),
    ];
    // Not every transport has each of them.
    let given = named.into_iter().filter_map(|(name, key)| Some((name, contestant.settings.get(key)?)));
    terms.extend(given.map(|(name, value)| format!("{name} {value}")));
    format!("{}: {}", contestant.name, terms.join(", "))
}

/// The contestants' names as the rows have them.
fn names(point: &Point) -> Vec<String> {
    let names: Vec<&str> = point.contestants.iter().map(|contestant| contestant.name.as_str()).collect();
    labels(&names, name_width(point))
}

fn name_width(point: &Point) -> usize {
    point
        .contestants
        .iter()
        .map(|contestant| contestant.name.chars().count())
        .max()
        .unwrap_or(0)
        .clamp(10, 22)
}

fn optional(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), figure)
}

fn mean(stat: &Stat) -> String {
    optional(stat.mean)
}

/// About four figures, without an exponent: `12345`, `1234`, `123.4`, `12.3`, `1.2`, `7`.
fn figure(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 || v == v.trunc() => format!("{value:.0}"),
        v if v >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// `text` broken at [`COLUMNS`], later lines indented.
fn wrapped(text: &str, indent: usize) -> String {
    let (mut out, mut column) = (String::new(), 0);
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > COLUMNS {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            column = indent;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out.push('\n');
    out
}

fn style_lines(text: &str, style: impl Fn(&str) -> String) -> String {
    text.lines().map(|line| style(line) + "\n").collect()
}
