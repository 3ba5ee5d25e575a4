//! The table of a race on standard output.
//!
//! For each point of a race, the table has two blocks of figures, then lines about the conditions of the race (terms),
//! then a sentence. The first block shows times with their intervals. The second block shows the work of network and
//! transports, and the parts of the response time. The lines about conditions say, for example, that six connections
//! claim a larger share of the bandwidth than one association. The sentence compares the contestants.
//!
//! If a race has several points, the table ends with a grid and a sentence. The grid shows the winner of each point,
//! and the sentence is about all points. If a race has many points, only the grid and this sentence are shown. Lines
//! have at most 100 columns.

mod crossing;
mod grid;
mod pictures;
mod summary;
mod terms;

use anabranch_results::axes::Axes;
use anabranch_results::calibration::Calibration;
use anabranch_results::label::{labels, shortened};
use anabranch_results::stats::summary::quantile;
use anabranch_results::{
    Bound, Comparison, Contestant, Expectation, PathEvent, Point, Race, Side, Stat, verdict,
};
use anabranch_transport::Protocol;
use std::collections::BTreeMap;
use std::fmt::Write;
use summary::Summary;

/// Presentation options of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Style {
    /// Whether text is emphasized with terminal escapes.
    pub color: bool,
    /// Whether to add bars, sparklines of arriving data, and a small waterfall. They are for people, not for programs.
    pub pictures: bool,
}

impl Style {
    fn bold(self, text: &str) -> String {
        if self.color { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn faint(self, text: &str) -> String {
        if self.color { format!("\x1b[2m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// The maximum width of a line, in columns.
pub const COLUMNS: usize = 100;

/// The transports in the race. Each transport supplies the words that describe it.
pub type Protocols<'a> = &'a [&'a dyn Protocol];

/// Renders the whole race as text.
#[must_use]
pub fn render(race: &Race, style: Style, protocols: Protocols<'_>) -> String {
    render_warned(race, style, protocols, &race.warnings)
}

/// Renders the whole race as text. Shows the warnings in `warnings` instead of the race's own warnings.
#[must_use]
pub fn render_warned(race: &Race, style: Style, protocols: Protocols<'_>, warnings: &[String]) -> String {
    let axes = Axes::of(race.points.iter().map(|point| &point.factors));
    let mut table = Table::new(axes.unwrap_or_default(), race.points.len(), style);
    for (index, point) in race.points.iter().enumerate() {
        table.add(index, point, protocols);
    }
    let calibrated = race.calibrations.iter().flat_map(Calibration::lines);
    calibrated.map(|line| wrapped(&line, 0)).collect::<String>() + &table.text(warnings, &race.expectations)
}

/// Builds the report of a race whose points arrive one by one, in any order. If the race has few points, each point has
/// its own table. If it has many, there is only a summary.
#[derive(Clone, Debug)]
pub struct Table {
    style: Style,
    count: usize,
    summary: Summary,
    /// For each point that is shown, by its index: its text without the conditions of the race (terms), and its text
    /// with them.
    blocks: BTreeMap<usize, [String; 2]>,
    about: CommonTerms,
}

/// The terms (conditions of the race) and the workload of the first point. Two flags say whether the terms and the
/// workload of all other points are the same.
#[derive(Clone, Default, Debug)]
struct CommonTerms {
    /// The terms (conditions of the race) of the first point. They are shown once, after the text of all points, if
    /// every point has the same terms.
    terms: Vec<String>,
    /// The workload and the seeds of the first point.
    workload: String,
    seeds: String,
    points: usize,
    same_terms: bool,
    same_workload: bool,
}

/// A race with at most this many points has one table for each point. A race with more points has only a summary.
const BLOCKS: usize = 4;

impl Table {
    /// Returns an empty table for `count` points over these factors.
    #[must_use]
    pub fn new(axes: Axes, count: usize, style: Style) -> Self {
        let about = CommonTerms { same_terms: true, same_workload: true, ..CommonTerms::default() };
        Self { style, count, summary: Summary::new(axes), blocks: BTreeMap::new(), about }
    }

    /// Adds the point with this `index`, from 0.
    pub fn add(&mut self, index: usize, point: &Point, protocols: Protocols<'_>) {
        self.summary.add(index, point);
        let (terms, about) = (terms::lines(point, protocols), &mut self.about);
        if self.count <= BLOCKS {
            let block = |terms: &[String]| point_table(point, terms, self.style);
            self.blocks.insert(index, [block(&[]), block(&terms)]);
        }
        if about.points == 0 {
            about.workload.clone_from(&point.workload.name);
            about.seeds = run_seeds(point);
            about.terms.clone_from(&terms);
        }
        about.points += 1;
        about.same_terms &= about.terms == terms;
        about.same_workload &= about.workload == point.workload.name;
    }

    /// Returns the text of all points added so far.
    #[must_use]
    pub fn text(&self, warnings: &[String], expectations: &[Expectation]) -> String {
        let (mut out, about, style) = (String::new(), &self.about, self.style);
        for warning in warnings {
            out += &wrapped(&format!("warning: {warning}"), 0);
        }
        // If the terms (conditions of the race) are the same at all points, they are written once, after the points.
        let shared = about.same_terms && about.points > 1;
        let blocks: Vec<&str> =
            self.blocks.values().map(|block| block[usize::from(!shared)].as_str()).collect();
        out += &blocks.join("\n");
        if self.count > BLOCKS && about.points > 0 {
            let workload = if about.same_workload { about.workload.as_str() } else { "several workloads" };
            out += &wrapped(&format!("{workload}; {} points, each {}", self.count, about.seeds), 2);
        }
        if shared {
            out.push('\n');
            out += &faint_lines(&about.terms, style);
        }
        if self.count > 1 && self.count == self.summary.all() {
            out += &self.together();
        }
        out + &self::expectations(expectations)
    }

    /// Renders the summary of all points: legend, grid and sentence.
    fn together(&self) -> String {
        let (summary, style) = (&self.summary, self.style);
        let mut out = "\n".to_owned();
        out += &style_lines(&wrapped(&summary.legend(), 2), |line| style.faint(line));
        out += &summary.grid();
        out.push('\n');
        out += &style_lines(&wrapped(&summary.sentence(), 0), |line| style.bold(line));
        for line in summary.crossings() {
            out += &wrapped(&line, 2);
        }
        out
    }
}

/// Renders the outcome of the plan's expectations. If there are many expectations, only those that were not met are
/// listed.
#[must_use]
pub fn expectations(expectations: &[Expectation]) -> String {
    let all = expectations.len() <= MOST_EXPECTATIONS;
    let (mut out, mut missed) = (String::new(), 0);
    for expectation in expectations {
        missed += usize::from(!expectation.met);
        if all || (!expectation.met && missed <= MOST_EXPECTATIONS) {
            let found = expectation.found.map_or("nothing finished".to_owned(), format_value);
            let word = if expectation.met { "met" } else { "MISSED" };
            out += &wrapped(&format!("{word}: {} (found {found})", expectation.expected), 2);
        }
    }
    if !all {
        let n = expectations.len();
        out += &format!("{n} expectations: {} met, {missed} missed\n", n - missed);
    }
    out
}

/// Returns the lines of a report about the conditions under which the contestants of a point raced. The lines say how
/// each contestant uses the network, which conditions are unequal, and which are equal. `names` are the contestants'
/// names.
#[must_use]
pub fn terms(point: &Point, protocols: Protocols<'_>, names: &[String]) -> Vec<String> {
    terms::in_words(point, protocols, names)
}

/// The maximum length of the list of expectations. If a plan has more expectations, only missed expectations are
/// listed.
const MOST_EXPECTATIONS: usize = 40;

fn faint_lines(lines: &[String], style: Style) -> String {
    lines.iter().map(|line| style_lines(&wrapped(line, 2), |line| style.faint(line))).collect()
}

/// Renders one point. `terms` are lines about the contestants' settings (module `terms`), which follow the results.
fn point_table(point: &Point, terms: &[String], style: Style) -> String {
    let mut out = String::new();
    if !point.factors.is_empty() {
        let factors: Vec<String> = point.factors.iter().map(|(k, v)| format!("{k} {v}")).collect();
        out += &format!("{}\n", style.bold(&factors.join(", ")));
    }
    let seeds = seeds(point);
    out += &wrapped(&format!("{} over {}; {seeds}", point.workload.name, point.network), 2);
    out.push('\n');
    out += &if point.workload.messages { delays(point, style) } else { times(point, style) };
    out.push('\n');
    if style.pictures {
        for picture in [pictures::bars(point), pictures::waterfall(point)] {
            if !picture.is_empty() {
                out += &(picture + "\n");
            }
        }
    }
    out += &work(point, style);
    out.push('\n');
    if point.contestants.iter().any(|contestant| point.runs_with_path_failure(contestant).next().is_some()) {
        out += &failures(point, style);
        out.push('\n');
    }
    let before = out.len();
    if let Some(line) = sharing(point) {
        out += &wrapped(&line, 2);
    }
    out += &faint_lines(terms, style);
    for contestant in &point.contestants {
        for line in [path_events(point, contestant), contestant.shortfall()].into_iter().flatten() {
            out += &wrapped(&line, 2);
        }
    }
    if out.len() > before {
        out.push('\n');
    }
    out += &style_lines(&wrapped(&verdict::sentence(point), 0), |line| style.bold(line));
    out + &why(point)
}

/// Returns the text that explains why the winner is faster than the fastest contestant that does not tie with it. Each
/// finding of the experiments is one line.
fn why(point: &Point) -> String {
    let ranks = |comparison: &Comparison| comparison.experiment.as_ref().map(|experiment| experiment.ranks);
    let of_winner = |comparison: &&Comparison| ranks(comparison).is_some_and(|[first, _]| first == 1);
    let nearest = point.comparisons.iter().filter(of_winner).min_by_key(|comparison| ranks(comparison));
    let lines = nearest.and_then(|comparison| comparison.why(3));
    let item = |(i, line): (usize, &String)| {
        if i == 0 { wrapped(line, 0) } else { wrapped(&format!("- {line}"), 2) }
    };
    lines.iter().flatten().enumerate().map(item).collect()
}

/// Describes the runs, for example `100 runs, seeds 1-100`, and how many of them are distinct.
fn seeds(point: &Point) -> String {
    let seeds = run_seeds(point);
    let runs = point.contestants.first().map_or(0, |contestant| contestant.runs.len());
    let distinct = point.contestants.iter().map(|contestant| contestant.distinct_runs).max().unwrap_or(0);
    match (point.chance, distinct) {
        (false, 1) if runs > 1 => format!("{seeds}: 1 distinct run, exact, one case"),
        (false, 1) => format!("{seeds}: exact, one case"),
        (_, n) if n < runs as u64 => format!("{seeds}: at most {n} of them distinct"),
        _ => seeds,
    }
}

/// Describes the runs and their seeds, for example `100 runs, seeds 1-100`.
fn run_seeds(point: &Point) -> String {
    match point.contestants.first().map_or(&[][..], |contestant| contestant.runs.as_slice()) {
        [] => "no run".to_owned(),
        [one] => format!("1 run, seed {}", one.seed),
        all @ [first, .., last] => format!("{} runs, seeds {}-{}", all.len(), first.seed, last.seed),
    }
}

fn times(point: &Point, style: Style) -> String {
    let name_width = name_width(point);
    let time_heading = format!("{} ms", point.workload.workload_noun());
    let time_width = time_heading.len().max(7);
    // A bulk transfer is one object, and the table already has its time.
    let has_objects = !point.workload.is_bulk();
    let last = |text: &str| if has_objects { format!("  {text:>8}") } else { String::new() };
    let other_columns_width = name_width + time_width + 32 + last("").len();
    let (versus, ratio_width) = versus("ratio to", point, other_columns_width);
    let mut out = style_lines(
        &format!(
            "{:<name_width$}  {time_heading:>time_width$}  {:>15}  {versus:>ratio_width$}  {:>7}{}\n",
            "",
            "10-90 % of runs",
            "x limit",
            last("obj. ms")
        ),
        |line| style.faint(line),
    );
    for (contestant, name) in point.contestants.iter().zip(names(point)) {
        let page = &contestant.summary.page_ms;
        let range = match page.p10.zip(page.p90) {
            Some((low, high)) if low < high => format!("{}-{}", format_value(low), format_value(high)),
            Some(_) if !point.chance => "one case".to_owned(),
            Some(_) if page.n > 1 => "all alike".to_owned(),
            _ => "-".to_owned(),
        };
        let ratio = ratio(point, &contestant.name, "page_ms");
        let _ = writeln!(
            out,
            "{:<name_width$}  {:>time_width$}  {range:>15}  {ratio:>ratio_width$}  {:>7}{}",
            name,
            format!("{}{}", at_least(page), typical(page)),
            contestant.summary.limit_ratio.geometric_mean.map_or("-".to_owned(), |x| format!("{x:.2}")),
            last(&typical(&contestant.summary.object_ms)),
        );
    }
    out
}

/// Returns the prefix `>=` if some runs did not finish. An unfinished run counts as if it had finished at the deadline,
/// so the number after the prefix is a lower bound.
fn at_least(stat: &Stat) -> &'static str {
    if stat.failed > 0 && stat.n > 0 { ">=" } else { "" }
}

/// Returns the heading and the width of the column that compares contestants with the first contestant.
/// `other_columns_width` is the width of all other columns. If there is room, the column is wide enough for the first
/// contestant's name.
fn versus(what: &str, point: &Point, other_columns_width: usize) -> (String, usize) {
    let first = point.contestants.first().map_or("", Contestant::label);
    let room = COLUMNS.saturating_sub(other_columns_width).max(RATIO_WIDTH);
    let heading = format!("{what} {}", shortened(first, room - what.len() - 1));
    let width = heading.chars().count().max(RATIO_WIDTH);
    (heading, width)
}

/// The width in characters of a ratio with its interval.
const RATIO_WIDTH: usize = 22;

/// Renders the message delays. Each figure is the geometric mean over the runs.
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
        let all_came = summary.undelivered.mean == Some(0.0);
        let delay = |stat: &Stat| format!("{}{}", if all_came { "" } else { at_least(stat) }, typical(stat));
        let _ = writeln!(
            out,
            "{:<name_width$}  {:>8}  {:>8}  {:>8}  {:>8}  {:>ratio_width$}  {:>11}",
            name,
            delay(&summary.object_p50_ms),
            delay(&summary.object_p95_ms),
            delay(&summary.object_p99_ms),
            delay(&summary.object_max_ms),
            ratio(point, &contestant.name, "object_p95_ms"),
            mean(&summary.undelivered),
        );
    }
    out
}

/// Formats a contestant's ratio to the first contestant, with its interval.
fn ratio(point: &Point, contestant: &str, metric: &str) -> String {
    let first = point.contestants.first().map_or("", |contestant| contestant.name.as_str());
    let against = |c: &&Comparison| c.a == contestant && c.b == first && c.metric == metric;
    match point.comparisons.iter().find(against) {
        Some(found) => {
            let sign = match found.bound {
                None => "",
                Some(Bound::AtLeast) => ">=",
                Some(Bound::AtMost) => "<=",
                Some(Bound::Unknown) => "?",
            };
            match (found.ratio, found.ci95) {
                (Some(ratio), Some([low, high])) => format!("{sign}{ratio:.2} ({low:.2}-{high:.2})"),
                (Some(ratio), None) => format!("{sign}{ratio:.2}"),
                (None, _) => "-".to_owned(),
            }
        }
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
        let per_run = |count: fn(&anabranch_results::Run) -> u64| {
            let n = contestant.runs.len().max(1) as f64;
            format_value(contestant.runs.iter().map(count).sum::<u64>() as f64 / n)
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

/// Renders the effects of the first path failure: the time until the path was declared failed, until new data arrived,
/// and until service was restored. Each figure is the mean over the runs in which the event happened. If the event did
/// not happen in all runs, the number of runs in which it happened is shown.
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
        let runs = point.runs_with_path_failure(contestant).count() as u64;
        let cell = |stat: &Stat| match (runs, stat.n, stat.mean) {
            (0, ..) => "-".to_owned(),
            (_, 0, _) | (.., None) => "never".to_owned(),
            (all, n, Some(mean)) if n < all => format!("{} ({n} of {all})", format_value(mean)),
            (.., Some(mean)) => format_value(mean),
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

/// Renders how contestants that raced at the same time shared the network. The shares count the bytes that were
/// transferred until the first contestant finished. Jain's index is 1 if all contestants get the same share. For
/// example: `together: shares of the bytes until the first was done, means over runs: tcp 38 %, sctp 62 %; Jain's index
/// 0.95, 10-90 % of runs 0.87-1.00`.
fn sharing(point: &Point) -> Option<String> {
    if point.sharing.is_empty() {
        return None;
    }
    let n = point.sharing.len() as f64;
    let share = |index: usize| 100.0 * point.sharing.iter().map(|run| run.shares[index]).sum::<f64>() / n;
    let shares =
        point.contestants.iter().enumerate().map(|(i, one)| format!("{} {:.0} %", one.label(), share(i)));
    let jain: Vec<f64> = point.sharing.iter().map(|run| run.jain).collect();
    let at = |p: f64| quantile(&jain, p).unwrap_or_default();
    Some(format!(
        "together: shares of the bytes until the first was done, means over runs: {}; Jain's index {:.2}, 10-90 % of \
         runs {:.2}-{:.2}",
        shares.collect::<Vec<_>>().join(", "),
        jain.iter().sum::<f64>() / n,
        at(0.1),
        at(0.9)
    ))
}

/// The heading above the contestants' names in the table of failover times. These times count from the path failure.
const FAILOVER: &str = "failover ms, until";

/// Renders the path state changes that the contestant detected in its median run. For example: `sctp, seed 4, after the
/// failure: path 1 failed at 8.02 s by the server, path 1 active at 14.3 s by the server`. Times count from the path
/// failure, or from the start of a run without a path failure.
fn path_events(point: &Point, contestant: &Contestant) -> Option<String> {
    let run = contestant.runs.iter().find(|run| run.seed == contestant.median_seed)?;
    let failure = point.failure_ns;
    let event_text = |event: &PathEvent| {
        let by = match event.by {
            Side::Client => "client",
            Side::Server => "server",
        };
        let at = (event.at_ns as f64 - failure.unwrap_or_default() as f64) / 1e9;
        format!("path {} {} at {at:.2} s by the {by}", event.path, event.state.words())
    };
    let mut parts: Vec<String> = run.path_events.iter().take(PATH_EVENTS).map(event_text).collect();
    match run.path_events.len().saturating_sub(PATH_EVENTS) {
        0 => {}
        more => parts.push(format!("and {more} more in the JSON")),
    }
    let since = if failure.is_some() { ", after the failure" } else { "" };
    (!parts.is_empty())
        .then(|| format!("{}, seed {}{since}: {}", contestant.label(), run.seed, parts.join(", ")))
}

/// The maximum number of path events that are listed for a run. The others are only counted.
const PATH_EVENTS: usize = 6;

/// Returns the names of the contestants as shown in the rows.
fn names(point: &Point) -> Vec<String> {
    let names: Vec<&str> = point.contestants.iter().map(Contestant::label).collect();
    labels(&names, name_width(point))
}

fn name_width(point: &Point) -> usize {
    point
        .contestants
        .iter()
        .map(|contestant| contestant.label().chars().count())
        .max()
        .unwrap_or(0)
        .clamp(10, 22)
}

/// Formats the geometric mean, because the printed ratio of two contestants is the quotient of their geometric means.
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
fn format_value(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 || v == v.trunc() => format!("{value:.0}"),
        v if v >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Wraps `text` at [`COLUMNS`]. Lines after the first are indented by `indent` columns.
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
