//! Renders the results of a race as text for standard output.
//!
//! The text of each point begins with its answer ([`super::answer`]): what to use, how the times spread, the reason,
//! and the changes that flip the result. A table of the times follows. With [`Style::verbose`], further tables follow:
//! the means, packets and retransmissions, the experiments, and the conditions of the race.
//!
//! If a race has several points, the text ends with a grid and a sentence. The grid shows the winner of each point,
//! and the sentence is about all points. If a race has many points, only the grid and this sentence are shown.

mod crossing;
mod figures;
mod grid;
mod pictures;
mod summary;
mod terms;

use super::{answer, reasons, words};
use anabranch_results::axes::Axes;
use anabranch_results::calibration::Calibration;
use anabranch_results::stats::summary::quantile;
use anabranch_results::{Comparison, Contestant, Expectation, PathEvent, Point, Race, Side, verdict};
use anabranch_transport::Protocol;
use std::collections::BTreeMap;
use summary::Summary;

/// Options for the text of a race.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Style {
    /// The maximum width of a line, in columns.
    pub width: usize,
    /// Whether text is emphasized with terminal escapes.
    pub color: bool,
    /// Whether the text is complete. Otherwise it has only the answer and the times.
    pub verbose: bool,
    /// Whether the verbose text has bars, sparklines of arriving data, and a small waterfall. These pictures are for
    /// people, not for programs.
    pub pictures: bool,
    /// Whether the search for causes was interrupted. The answer then says which of its lines are missing.
    pub interrupted: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self { width: COLUMNS, color: false, verbose: false, pictures: false, interrupted: false }
    }
}

impl Style {
    fn bold(self, text: &str) -> String {
        if self.color { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn faint(self, text: &str) -> String {
        if self.color { format!("\x1b[2m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// The width of a line in columns, if the width of the terminal is not known.
pub const COLUMNS: usize = 100;

/// The transports in the race, which supply the words that describe them.
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
    calibrated.map(|line| wrapped(&line, 0, style.width)).collect::<String>()
        + &table.text(warnings, &race.expectations)
}

/// Builds the text of a race whose points arrive one by one, in any order. If the race has few points, each point has
/// its own table. If it has many, there is only a summary.
#[derive(Clone, Debug)]
pub struct Table {
    style: Style,
    count: usize,
    summary: Summary,
    /// The texts of the points that are shown, by the index of the point. Each point has two texts: without the
    /// conditions of the race (terms), and with them.
    blocks: BTreeMap<usize, [String; 2]>,
    about: CommonTerms,
}

/// The terms (conditions of the race) and the workload of the first point. Two flags say whether all other points have
/// the same terms and the same workload.
#[derive(Clone, Default, Debug)]
struct CommonTerms {
    /// The terms (conditions of the race) of the first point. They are shown once, after the text of all points, if
    /// every point has the same terms.
    terms: Vec<String>,
    /// The workload and the seeds of the first point.
    workload: String,
    seeds: String,
    /// The caveats of the transports. The brief text shows each of them once, after all points.
    caveats: Vec<String>,
    points: usize,
    same_terms: bool,
    same_workload: bool,
}

/// A race with at most this many points has one table for each point. A race with more points has only a summary.
const BLOCKS: usize = 4;

impl Table {
    /// Returns a text without results, for a race with `count` points over these factors.
    #[must_use]
    pub fn new(axes: Axes, count: usize, style: Style) -> Self {
        let about = CommonTerms { same_terms: true, same_workload: true, ..CommonTerms::default() };
        Self { style, count, summary: Summary::new(axes), blocks: BTreeMap::new(), about }
    }

    /// Adds the results of the point with this `index`, counted from 0.
    pub fn add(&mut self, index: usize, point: &Point, protocols: Protocols<'_>) {
        self.summary.add(index, point);
        let terms = match self.style.verbose {
            true => terms::lines(point, protocols),
            false => terms::brief(point, protocols, self.style.width),
        };
        let about = &mut self.about;
        if self.count <= BLOCKS {
            let block = |terms: &[String]| point_table(point, terms, self.style);
            self.blocks.insert(index, [block(&[]), block(&terms)]);
        }
        if about.points == 0 {
            about.workload.clone_from(&point.workload.name);
            about.seeds = run_seeds(point);
            about.terms.clone_from(&terms);
            if !self.style.verbose {
                about.caveats = terms::caveats(point, protocols);
            }
        }
        about.points += 1;
        about.same_terms &= about.terms == terms;
        about.same_workload &= about.workload == point.workload.name;
    }

    /// Returns the text of all points that were added so far.
    #[must_use]
    pub fn text(&self, warnings: &[String], expectations: &[Expectation]) -> String {
        let (mut out, about, style) = (String::new(), &self.about, self.style);
        for warning in warnings {
            out += &wrapped(&format!("warning: {warning}"), 0, style.width);
        }
        // If the terms (conditions of the race) are the same at all points, they are written only once, after the
        // points.
        let shared = about.same_terms && about.points > 1;
        let blocks: Vec<&str> =
            self.blocks.values().map(|block| block[usize::from(!shared)].as_str()).collect();
        out += &blocks.join("\n");
        if self.count > BLOCKS && about.points > 0 {
            let workload = if about.same_workload { about.workload.as_str() } else { "several workloads" };
            let line = format!("{workload}; {} points, each {}", self.count, about.seeds);
            out += &wrapped(&line, 2, style.width);
        }
        if shared {
            out.push('\n');
            out += &faint_lines(&about.terms, style);
        }
        out += &faint_lines(&about.caveats, style);
        if self.count > 1 && self.count == self.summary.all() {
            out += &self.together();
        }
        out + &self::expectations(expectations, style.width)
    }

    /// Renders the summary of all points: legend, grid and sentence.
    fn together(&self) -> String {
        let (summary, style) = (&self.summary, self.style);
        let mut out = "\n".to_owned();
        // If there are few points, their answers already say everything that the grid shows.
        if self.count > BLOCKS || style.verbose {
            out += &style_lines(&wrapped(&summary.legend(), 2, style.width), |line| style.faint(line));
            out += &summary.grid(style.width);
            out.push('\n');
            out += &style_lines(&wrapped(&summary.sentence(), 0, style.width), |line| style.bold(line));
        }
        out += &summary.crossings().iter().map(|line| wrapped(line, 2, style.width)).collect::<String>();
        out
    }
}

/// Renders the outcome of the plan's expectations. If there are many expectations, only those that were not met are
/// listed.
fn expectations(expectations: &[Expectation], width: usize) -> String {
    let all = expectations.len() <= MOST_EXPECTATIONS;
    let (mut out, mut missed) = (String::new(), 0);
    for expectation in expectations {
        missed += usize::from(!expectation.met);
        if all || (!expectation.met && missed <= MOST_EXPECTATIONS) {
            let found = expectation.found.map_or("nothing finished".to_owned(), figures::format_value);
            let word = if expectation.met { "met" } else { "MISSED" };
            let line = format!("{word}: {} (found {found})", expectation.expected);
            out += &wrapped(&line, 2, width);
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
    let one = |line: &String| style_lines(&wrapped(line, 2, style.width), |line| style.faint(line));
    lines.iter().map(one).collect()
}

/// Renders one point: its conditions, the answer, and the times. `terms` are lines about the contestants' settings
/// (module `terms`), which follow the results.
fn point_table(point: &Point, terms: &[String], style: Style) -> String {
    let levels: Vec<String> =
        point.factors.iter().map(|(key, level)| reasons::noun(&format!("{key}={level}"))).collect();
    let levels = if levels.is_empty() { String::new() } else { words::capital(&levels.join(", ")) + ": " };
    // Leaves out the end of a page's name, which describes how its loads vary. Only few readers need it.
    let name = match point.workload.name.split_once(", loads vary") {
        Some((name, _)) if !style.verbose => name,
        _ => &point.workload.name,
    };
    let network = &point.network;
    let usual = if style.verbose { "" } else { ", queue 1bdp, mtu 1500" };
    let network = network.strip_suffix(usual).unwrap_or(network);
    let about = format!("{levels}{name} over {network}; {}", seeds(point));
    let mut out = style_lines(&wrapped(&about, 2, style.width), |line| style.faint(line));
    for line in answer::all_lines(point, style.interrupted) {
        out += &answered(&line, style);
    }
    let finished = !verdict::ranked(point).is_empty();
    if finished {
        out.push('\n');
        out += &figures::times(point, style);
    }
    if point.contestants.iter().any(|contestant| point.runs_with_path_failure(contestant).next().is_some()) {
        out.push('\n');
        out += &figures::failures(point, style);
    }
    if style.verbose {
        out.push('\n');
        out += &details(point, style);
    }
    let mut lines: Vec<String> = sharing(point).into_iter().collect();
    for contestant in &point.contestants {
        let found = [path_events(point, contestant), contestant.shortfall()];
        lines.extend(found.into_iter().flatten().filter(|_| style.verbose));
    }
    if !lines.is_empty() || !terms.is_empty() {
        out.push('\n');
    }
    out += &lines.iter().map(|line| wrapped(line, 2, style.width)).collect::<String>();
    out + &faint_lines(terms, style)
}

/// Renders one line of the answer. A clause is left out if the line would need more than [`ANSWER_LINES`] lines.
fn answered(line: &answer::Line, style: Style) -> String {
    let label = format!("{}:", line.label);
    let mut text = String::new();
    for clause in &line.clauses {
        let longer = format!("{text} {clause}");
        let is_first = text.is_empty();
        if !is_first && wrapped(&(label.clone() + &longer), 2, style.width).lines().count() > ANSWER_LINES {
            break;
        }
        text = longer;
    }
    // The escapes are added after wrapping, because they have no width.
    wrapped(&(label.clone() + &text), 2, style.width).replacen(&label, &style.bold(&label), 1)
}

/// The maximum number of lines of the terminal for one line of the answer.
const ANSWER_LINES: usize = 3;

/// Renders the tables that appear only in the verbose text.
fn details(point: &Point, style: Style) -> String {
    let mut out =
        if point.workload.messages { figures::delays(point, style) } else { figures::means(point, style) };
    out.push('\n');
    if let Some(paint) = figures::paint(point, style) {
        out += &(paint + "\n");
    }
    if style.pictures {
        for picture in [pictures::bars(point, style.width), pictures::waterfall(point, style.width)] {
            if !picture.is_empty() {
                out += &(picture + "\n");
            }
        }
    }
    out += &figures::work(point, style);
    let parts: Vec<String> = figures::parts(point).collect();
    if !parts.is_empty() {
        out += &format!("\n{}\n", style.faint("parts of the objects' response times"));
        out += &parts.iter().map(|line| wrapped(line, 2, style.width)).collect::<String>();
    }
    out.push('\n');
    out += &wrapped(&figures::slow_runs(point), 2, style.width);
    out += &wrapped(&format!("By geometric means: {}", verdict::sentence(point)), 2, style.width);
    out + &experiments(point, style.width)
}

/// Lists the results of the experiments with two contestants: the winner, and the fastest of the contestants that do
/// not tie with it.
fn experiments(point: &Point, width: usize) -> String {
    let ranks = |comparison: &Comparison| comparison.experiment.as_ref().map(|experiment| experiment.ranks);
    let of_winner = |comparison: &&Comparison| ranks(comparison).is_some_and(|[first, _]| first == 1);
    let nearest = point.comparisons.iter().filter(of_winner).min_by_key(|comparison| ranks(comparison));
    let lines = nearest.map(reasons::all).unwrap_or_default();
    let item = |(i, line): (usize, &String)| {
        if i == 0 { wrapped(line, 0, width) } else { wrapped(&format!("- {line}"), 2, width) }
    };
    lines.iter().enumerate().map(item).collect()
}

/// Describes the runs, for example `100 runs, seeds 1-100`, and how many of them are distinct.
fn seeds(point: &Point) -> String {
    let seeds = run_seeds(point);
    let runs = point.contestants.first().map_or(0, |contestant| contestant.runs.len());
    let distinct = point.contestants.iter().map(|contestant| contestant.distinct_runs).max().unwrap_or(0);
    match (point.chance, distinct) {
        (false, 1) => format!("{seeds}; nothing is random"),
        (_, 1) if runs > 1 => format!("{seeds}; all runs of a contestant are equal"),
        (_, n) if n < runs as u64 => format!("{seeds}; no contestant has more than {n} different runs"),
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

/// Wraps `text` at `width` columns, at spaces only. A no-break space becomes a space. Lines after the first are indented
/// by `indent` columns.
fn wrapped(text: &str, indent: usize, width: usize) -> String {
    let (mut out, mut column) = (String::new(), 0);
    for word in text.split([' ', '\n']).filter(|word| !word.is_empty()) {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > width {
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
    out.replace('\u{a0}', " ")
}

fn style_lines(text: &str, style: impl Fn(&str) -> String) -> String {
    text.lines().map(|line| style(line) + "\n").collect()
}
