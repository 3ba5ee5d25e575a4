//! A race as one self-contained HTML page: figures drawn from the results
//! alone, no script, nothing fetched from anywhere, fit for a screen (light or
//! dark) and for paper.
//!
//! Owns the page's order; the sections belong to the modules. It knows
//! [`results`](crate::results) and nothing else of the laboratory, so that any
//! figure can be drawn again from `results.json` without another run.

mod delays;
mod overview;
mod parts;
mod svg;
mod terms;
mod times;
mod traffic;
mod waterfall;

use crate::results::{Contestant, Outcome, Point, Race, Run, World};
use std::fmt::Write;
use svg::escape;

/// What the results do not hold themselves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Framing<'a> {
    /// The command that gives these results again.
    pub command: &'a str,
    /// One sentence for each point, in order: what it says. May be empty.
    pub verdicts: &'a [String],
}

/// The whole page.
#[must_use]
pub fn html(race: &Race, framing: &Framing<'_>) -> String {
    let mut out = String::with_capacity(200_000);
    let title = race.points.first().map_or("A race".to_owned(), |point| {
        let contestants: Vec<_> = point.contestants.iter().map(|contestant| contestant.label()).collect();
        format!("{}: {}", point.workload.name, contestants.join(" · "))
    });
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{}</title>\n<style>\n{STYLE}</style></head>\n<body>\n",
        escape(&title)
    );
    out.push_str("<header><p class=\"over\">anabranch race</p>\n");
    match race.points.as_slice() {
        [] => out.push_str("<h1>No results</h1></header>\n"),
        [point] => {
            let _ = writeln!(out, "<h1>{}</h1>", escape(&subject(point)));
            let _ = writeln!(out, "<p class=\"meta\">{}</p>", escape(&circumstances(race, point)));
            lead(&mut out, framing.verdicts.first());
            out.push_str("</header>\n");
            warnings(&mut out, race);
            sections(&mut out, race, point);
        }
        points => {
            let _ = writeln!(out, "<h1>{} over {} networks or workloads</h1>", escape(&title), points.len());
            out.push_str("</header>\n");
            warnings(&mut out, race);
            overview::render(&mut out, points);
            for (i, point) in points.iter().enumerate() {
                let _ = writeln!(
                    out,
                    "<section class=\"point\" id=\"p{i}\"><h1>{}</h1>",
                    escape(&factors(point))
                );
                let _ = writeln!(
                    out,
                    "<p class=\"meta\">{}: {}</p>",
                    escape(&subject(point)),
                    escape(&circumstances(race, point))
                );
                lead(&mut out, framing.verdicts.get(i));
                // Of many points only the first few are drawn open; paper shows those.
                let open = if i < OPEN_POINTS { " open" } else { "" };
                let _ = writeln!(out, "<details{open}><summary>figures of this point</summary>");
                sections(&mut out, race, point);
                out.push_str("</details></section>\n");
            }
        }
    }
    terms::expectations(&mut out, race);
    parts::glossary(&mut out);
    terms::reproduce(&mut out, race, framing.command);
    let world = match race.world {
        World::Virtual => {
            "Run in virtual time: processing costs none, and the same seed gives the same bytes. These numbers \
             say nothing about processor load."
        }
        World::Emulated => "Run on live packets: another run will differ.",
    };
    // Of the machine only what may have decided the result: a race in virtual time gives the same page everywhere.
    let kernel =
        race.host.kernel.as_deref().map_or(String::new(), |kernel| format!(" on {}", escape(kernel)));
    let _ = write!(
        out,
        "<footer><p>{world} anabranch {}{kernel}. Results schema {}.</p></footer>\n</body></html>\n",
        escape(&race.host.version),
        escape(&race.schema),
    );
    out
}

fn sections(out: &mut String, race: &Race, point: &Point) {
    if point.workload.messages {
        delays::render(out, point);
    } else {
        times::render(out, point);
        parts::render(out, point);
        waterfall::render(out, point);
    }
    traffic::render(out, race, point);
    terms::work(out, point);
    terms::settings(out, point);
}

fn lead(out: &mut String, verdict: Option<&String>) {
    if let Some(verdict) = verdict {
        let _ = writeln!(out, "<p class=\"lead\">{}</p>", escape(verdict));
    }
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

/// `news over 10mbit, 80ms round trip, 1% loss`.
fn subject(point: &Point) -> String {
    format!("{} over {}", point.workload.name, point.network)
}

fn factors(point: &Point) -> String {
    if point.factors.is_empty() {
        return subject(point);
    }
    point.factors.iter().map(|(factor, level)| format!("{factor} {level}")).collect::<Vec<_>>().join(", ")
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
    let objects = svg::count(point.workload.objects, "object");
    let world = match race.world {
        World::Virtual => "virtual network",
        World::Emulated => "emulated network, live packets",
    };
    // A workload whose name says how much it is need not say so twice.
    if point.workload.name.contains(" object") {
        return format!("{seeds}; {world}");
    }
    format!("{objects}, {} in all; {seeds}; {world}", svg::bytes(point.workload.bytes as f64))
}

/// The run that stands for the contestant.
fn median_run(contestant: &Contestant) -> Option<&Run> {
    contestant.runs.iter().find(|run| run.seed == contestant.median_seed).or_else(|| contestant.runs.first())
}

/// How many times as long as the quickest the slowest may be to share its time scale.
const MAX_STRETCH: u64 = 4;

/// The end of the time scale that runs of these lengths share, unless it would press the quickest into a corner.
fn shared_end(lengths: impl Iterator<Item = u64> + Clone) -> Option<u64> {
    let (shortest, longest) = (lengths.clone().min()?, lengths.max()?);
    (longest <= shortest.saturating_mul(MAX_STRETCH)).then_some(longest)
}

/// When the run was over: its page time, else the last thing known of it.
fn end_ns(run: &Run) -> u64 {
    let of_object = |object: &crate::results::Object| object.delivered_ns.or(object.issued_ns);
    run.page_ns.unwrap_or_else(|| run.objects.iter().filter_map(of_object).max().unwrap_or(0))
}

/// ` (failed)` and the like, empty for a run that finished.
fn outcome(run: &Run) -> &'static str {
    match run.outcome {
        Outcome::Done => "",
        Outcome::Failed => ", with failed objects",
        Outcome::Deadline => ", stopped at its deadline",
    }
}

/// How many points are drawn open when there are several.
const OPEN_POINTS: usize = 3;

const STYLE: &str = include_str!("style.css");

#[cfg(test)]
mod tests;
