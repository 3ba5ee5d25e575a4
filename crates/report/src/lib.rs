//! Renders results: the report of a race, the table of a race ([`table`]), the page about a population of simulated
//! users ([`people`]), and the page about latency under load ([`under_load`]).
//!
//! The report of a race is one self-contained HTML page. The page draws its figures from the results alone and fetches
//! nothing. It fits large screens, narrow screens and paper, and has a light and a dark colour scheme. A small script
//! shows tooltips, steps through runs and saves figures. The page can be read without the script.
//!
//! This module decides the order of the sections on the page. The other modules write the sections. All modules depend
//! only on results ([`anabranch_results`]) and the contents of captures ([`anabranch_capture::results`]). Any figure
//! can therefore be drawn again from `results.json` without another run. Equal results give equal bytes.

pub mod answer;
mod bars;
mod causes;
mod chart;
pub mod compare;
pub mod contrast;
mod course;
mod delays;
mod distributions;
mod document;
mod failover;
mod fairness;
mod first;
pub mod graph;
mod heat;
mod medians;
mod overview;
pub mod packets;
pub mod paper;
mod parts;
pub mod people;
mod progress;
pub mod reasons;
pub mod sheet;
mod standing;
mod streams;
mod svg;
pub mod table;
mod terms;
mod times;
mod traffic;
pub mod under_load;
mod waterfall;
mod words;

use anabranch_capture::Settings;
use anabranch_capture::results::Decoded;
use anabranch_results::course::Course;
use anabranch_results::{Contestant, Outcome, Point, Race, Run, World};
use serde::{Deserialize, Serialize};
use standing::Ranking;
use std::fmt::Write;
use svg::escape;

/// Information that the page shows and that the results do not contain.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageContext<'a> {
    /// The command that reproduces these results.
    pub command: &'a str,
    /// The files that the command read, for example a HAR file.
    pub inputs: &'a [Input],
    /// The conditions under which the contestants raced: for each point of the race, lines of text that describe them.
    pub terms: &'a [Vec<String>],
    /// The decoded captures of the median runs.
    pub captures: &'a [Captured],
}

impl PageContext<'_> {
    /// Returns the conditions under which the contestants raced at a point, as lines of text.
    fn terms_of(&self, point: usize) -> &[String] {
        self.terms.get(point).map_or(&[], Vec::as_slice)
    }

    /// Returns the conditions under which the contestants raced, if the conditions are the same at all points;
    /// otherwise `None`.
    fn common_terms(&self) -> Option<&[String]> {
        let first = self.terms.first()?;
        self.terms.iter().all(|other| other == first).then_some(first)
    }
}

/// The decoded capture of one run, with the run's course over time.
#[derive(Clone, PartialEq, Debug)]
pub struct Captured {
    /// The index of the point in the race.
    pub point: usize,
    /// The index of the contestant at the point.
    pub contestant: usize,
    /// The host whose packets were captured, and the seed of the run.
    pub about: String,
    /// The contents of the capture.
    pub decoded: Decoded,
    /// The congestion windows, queueing delays and losses of the run over time. A capture does not contain them.
    pub course: Course,
}

impl Captured {
    /// Decodes the server's capture of a run, so that the report can draw the packets. `point` and `contestant` are
    /// indices. Returns `None` on failure; the report then lacks only the drawings of these packets.
    #[must_use]
    pub fn at_server(
        pcapng: &[u8],
        course: Course,
        (point, contestant): (usize, usize),
        seed: u64,
    ) -> Option<Self> {
        let settings = Settings { max_view_items: packets::MAX_DRAWN, ..Settings::default() };
        let decoded = anabranch_capture::decode("server", pcapng, &settings).ok()?;
        Some(Self {
            point,
            contestant,
            about: format!("at the server of the first object, seed {seed}"),
            decoded,
            course,
        })
    }
}

/// A file that a race read.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Input {
    /// The name of the file as typed.
    pub name: String,
    /// The length of the file in bytes.
    pub bytes: u64,
    /// The SHA-256 of the file, in hexadecimal.
    pub sha256: String,
}

/// Returns the names of the contestants of a point as every output shows them, in the order of the plan.
#[must_use]
pub fn names(point: &Point) -> Vec<String> {
    words::names(point)
}

/// Renders the whole page of a race as HTML.
#[must_use]
pub fn html(race: &Race, context: &PageContext<'_>) -> String {
    let title = match race.points.as_slice() {
        [] => "No results".to_owned(),
        [point] => title_of(point),
        points => overview::headline(points),
    };
    let mut out = document::begin(&title);
    let _ =
        write!(out, "<header><p class=\"over\">anabranch race</p>\n<h1>{}</h1>\n", words::unbroken(&title));
    match race.points.as_slice() {
        [] => out.push_str("</header>\n"),
        [point] => {
            let ranking = Ranking::of(point);
            lead(&mut out, race, point);
            out.push_str("</header>\n");
            warnings(&mut out, race);
            first::render(&mut out, race, point, &ranking);
            first::contestants(&mut out, point, context.terms_of(0));
            sections(&mut out, race, (0, point), context);
        }
        points => {
            let _ =
                writeln!(out, "<p class=\"meta\">{}</p></header>", escape(&describe_workload(race, points)));
            warnings(&mut out, race);
            let few = points.len() <= FEW_POINTS;
            if few {
                first::several(&mut out, points);
            }
            overview::change(&mut out, points);
            let common = context.common_terms();
            first::contestants(&mut out, &points[0], common.unwrap_or_default());
            overview::render(&mut out, points);
            for (i, point) in points.iter().enumerate().take(DRAWN_POINTS) {
                let ranking = Ranking::of(point);
                let _ = writeln!(
                    out,
                    "<section class=\"point\" id=\"p{i}\"><h2>{}</h2>\n<h1 class=\"of-point\">{}</h1>",
                    escape(&factors(point)),
                    words::unbroken(&title_of(point))
                );
                // If there are only a few points, the first screen already has their answers.
                if !few {
                    lead(&mut out, race, point);
                }
                // If there are several points, only the figures of the first few points are open. Only open figures are
                // printed on paper.
                let open = if i < OPEN_POINTS { " open" } else { "" };
                let _ = writeln!(out, "<details{open}><summary>figures of this point</summary>");
                if !few {
                    first::render(&mut out, race, point, &ranking);
                }
                if common.is_none() {
                    first::contestants(&mut out, point, context.terms_of(i));
                }
                sections(&mut out, race, (i, point), context);
                out.push_str("</details></section>\n");
            }
            if let more @ 1.. = points.len().saturating_sub(DRAWN_POINTS) {
                let more = svg::format_count(more as u64, "point");
                let _ = writeln!(
                    out,
                    "<p class=\"note\">{more} more have no figures of their own here: race one alone.</p>"
                );
            }
        }
    }
    terms::expectations(&mut out, race);
    parts::glossary(&mut out);
    words::glossary(&mut out);
    terms::reproduce(&mut out, race, context);
    let world = match race.world {
        World::Virtual => {
            "Run in virtual time: processing costs none, and the same seed gives the same bytes. These numbers \
             say nothing about processor load."
        }
        World::Emulated => "Run on live packets: another run will differ.",
    };
    // Names only facts of the machine that may have affected the result. A race in virtual time must give the same page
    // on every machine.
    let kernel =
        race.host.kernel.as_deref().map_or(String::new(), |kernel| format!(" on {}", escape(kernel)));
    let _ = writeln!(
        out,
        "<footer><p>{world} anabranch {}{kernel}. Results schema {}.</p></footer>",
        escape(&race.host.version),
        escape(&race.schema),
    );
    document::end(&mut out);
    out
}

/// Returns the first line of the answer at a point: which contestant to use, and its lead.
fn title_of(point: &Point) -> String {
    let line = answer::lines(point).into_iter().next();
    line.map_or(String::new(), |line| format!("{}: {}", line.label, line.clauses[0]))
}

/// Writes the other lines of the answer at a point, and describes the workload and the network.
fn lead(out: &mut String, race: &Race, point: &Point) {
    let lines = answer::lines(point);
    let certainty = lines.first().map_or(String::new(), |line| line.clauses[1..].join(" "));
    if !certainty.is_empty() {
        let _ = writeln!(out, "<p class=\"lead\">{}</p>", words::unbroken(&certainty));
    }
    for line in lines.iter().skip(1) {
        first::lead(out, line);
    }
    let about = (escape(&subject(point)), escape(&circumstances(race, point)));
    let _ = writeln!(out, "<p class=\"meta\">{}. {}.</p>", about.0, about.1);
}

fn sections(out: &mut String, race: &Race, (number, point): (usize, &Point), context: &PageContext<'_>) {
    first::course(out, point);
    if point.workload.messages {
        delays::render(out, point);
    } else {
        times::render(out, point);
        parts::render(out, point);
        waterfall::render(out, point, race.points.len() <= FEW_POINTS);
    }
    streams::render(out, point);
    traffic::render(out, race, point);
    terms::work(out, point);
    terms::settings(out, point);
    sequences(out, point, number, context);
}

/// Draws the packets of the median runs at a point.
fn sequences(out: &mut String, point: &Point, number: usize, context: &PageContext<'_>) {
    let own: Vec<&Captured> = context.captures.iter().filter(|captured| captured.point == number).collect();
    if own.is_empty() {
        return;
    }
    let names = words::names(point);
    out.push_str("<section class=\"packets\"><h2>Packets of the median runs</h2>\n");
    for captured in own {
        let name = names.get(captured.contestant).map_or("", String::as_str);
        let subject = format!("{name} ({})", captured.about);
        packets::views(out, &captured.decoded, &subject, packets::OF_A_CONTESTANT);
        course::render(out, &captured.course, &subject);
    }
    out.push_str("</section>\n");
}

fn warnings(out: &mut String, race: &Race) {
    if race.warnings.is_empty() {
        return;
    }
    out.push_str("<h3>Before you trust the numbers</h3><ul class=\"note\">");
    for warning in &race.warnings {
        let _ = write!(out, "<li>{}</li>", escape(warning));
    }
    out.push_str("</ul>\n");
}

/// Describes in one sentence the workload and the network that all points have in common.
fn describe_workload(race: &Race, points: &[Point]) -> String {
    let mut names: Vec<&str> = points.iter().map(|point| point.workload.name.as_str()).collect();
    names.dedup();
    let runs = points.first().map_or(String::new(), |point| circumstances(race, point));
    match names[..] {
        [one] => format!("{one}. {runs}."),
        _ => format!("{} workloads. {runs}.", names.len()),
    }
}

/// Describes the workload and the network of a point, for example `news over 10mbit, 80ms round trip, 1% loss`.
fn subject(point: &Point) -> String {
    format!("{} over {}", point.workload.name, point.network)
}

fn factors(point: &Point) -> String {
    if point.factors.is_empty() {
        return subject(point);
    }
    overview::point_heading(point)
}

fn circumstances(race: &Race, point: &Point) -> String {
    let seeds = match point.contestants.first().map(|contestant| contestant.runs.as_slice()) {
        Some([one]) => format!("1 run each, seed {}", one.seed),
        Some([first, .., last]) => {
            let runs = point.contestants[0].runs.len();
            format!("{runs} runs each, seeds {} to {}", first.seed, last.seed)
        }
        _ => "no runs".to_owned(),
    };
    let objects = svg::format_count(point.workload.objects, "object");
    let world = match race.world {
        World::Virtual => "virtual network",
        World::Emulated => "emulated network, live packets",
    };
    // The name of this workload already contains the number and the size of its objects.
    if point.workload.name.contains(" object") {
        return format!("{seeds}; {world}");
    }
    format!("{objects}, {} in all; {seeds}; {world}", svg::bytes(point.workload.bytes as f64))
}

/// Returns the contestant's median run. Figures that show one run of each contestant show this run.
fn median_run(contestant: &Contestant) -> Option<&Run> {
    contestant.runs.iter().find(|run| run.seed == contestant.median_seed).or_else(|| contestant.runs.first())
}

/// Returns the median run of each contestant that has runs, with the index of the contestant and its name in words.
fn median_runs(point: &Point) -> impl Iterator<Item = (usize, String, &Run)> {
    let named = words::names(point).into_iter().enumerate().zip(&point.contestants);
    named.filter_map(|((i, name), contestant)| Some((i, name, median_run(contestant)?)))
}

/// All runs are drawn on one time scale if the longest run is at most this many times as long as the shortest run.
const MAX_STRETCH: u64 = 4;

/// Returns the end of one time scale for all runs, in nanoseconds, given the lengths of the runs. `None` if the
/// shortest run would be too small to read on this scale.
fn shared_end(lengths: impl Iterator<Item = u64> + Clone) -> Option<u64> {
    let (shortest, longest) = (lengths.clone().min()?, lengths.max()?);
    (longest <= shortest.saturating_mul(MAX_STRETCH)).then_some(longest)
}

/// Returns the end of the run in nanoseconds: the time at which the page was complete, or the last recorded instant if
/// the page was not completed.
fn end_ns(run: &Run) -> u64 {
    let of_object = |object: &anabranch_results::Object| object.delivered_ns.or(object.issued_ns);
    run.page_ns.unwrap_or_else(|| run.objects.iter().filter_map(of_object).max().unwrap_or(0))
}

/// Returns a note on how the run ended, for example `, with failed objects`; empty for a run that finished.
fn outcome(run: &Run) -> &'static str {
    match run.outcome {
        Outcome::Done => "",
        Outcome::Failed => ", with failed objects",
        Outcome::Deadline => ", stopped at its deadline",
    }
}

/// The maximum number of points of a race that have figures of their own. The limit keeps the page small.
const DRAWN_POINTS: usize = 48;

/// If the result has at most this many points, the first screen of the report shows all of them.
const FEW_POINTS: usize = 4;

/// The number of points (combinations of factor levels) whose figures are expanded when the page loads.
const OPEN_POINTS: usize = 1;

const STYLE: &str = include_str!("style.css");
/// The style sheet that a figure needs on the page and also when it is saved as a file.
const SVG_STYLE: &str = include_str!("svg-style.css");
const SCRIPT: &str = include_str!("script.js");

#[cfg(test)]
mod golden;
#[cfg(test)]
mod tests;
