//! Renders the part of the report that a reader sees first. It shows the winner, its lead and the cause. It also shows
//! how the page loaded over time, how the contestants shared the network, and what would change the result.

use super::answer::{self, Line};
use super::chart::Width;
use super::standing::Ranking;
use super::svg::escape;
use super::words::{self, short_time, term, unbroken};
use super::{bars, causes, failover, fairness, overview, progress, reasons};
use anabranch_results::{Point, Race};
use std::fmt::Write;

/// Draws the contestants' times and the causes of the lead, and lists what would change the result.
pub(super) fn render(out: &mut String, race: &Race, point: &Point, ranking: &Ranking) {
    out.push_str("<div class=\"first\"><div>");
    bars::render(out, point, ranking, Width::Main);
    out.push_str("</div><div>");
    causes::render(out, point);
    change(out, race, point, ranking);
    out.push_str("</div></div>\n");
}

/// Draws the results of a few points side by side.
pub(super) fn several(out: &mut String, points: &[Point]) {
    out.push_str("<div class=\"two\">");
    for (i, point) in points.iter().enumerate() {
        let ranking = Ranking::of(point);
        let heading = escape(&overview::point_heading(point));
        let _ = write!(out, "<div><h2 class=\"bare\"><a href=\"#p{i}\">{heading}</a></h2>");
        for line in answer::lines(point) {
            lead(out, &line);
        }
        bars::render(out, point, &ranking, Width::Half);
        causes::render(out, point);
        out.push_str("</div>");
    }
    out.push_str("</div>\n");
}

/// Writes a line of the answer (which contestant to use, and why) as HTML.
pub(super) fn lead(out: &mut String, line: &Line) {
    let _ =
        writeln!(out, "<p class=\"lead\"><b>{}:</b> {}</p>", unbroken(&line.label), unbroken(&line.text()));
}

/// Draws the course of the race: how data arrived over time, and how the network was shared.
pub(super) fn course(out: &mut String, point: &Point) {
    failover::render(out, point);
    out.push_str("<div class=\"two\">");
    progress::render(out, point);
    out.push_str("</div>\n");
    fairness::render(out, point);
}

/// Writes what the contestants' names mean, and the terms of the race: the settings under which the contestants raced.
pub(super) fn contestants(out: &mut String, point: &Point, lines: &[String]) {
    out.push_str("<section class=\"terms\"><h2>Contestants</h2>");
    words::contestants(out, point);
    terms(out, lines, &words::names(point));
    out.push_str("</section>\n");
}

/// Writes the terms of the race: how each contestant uses the network, then the settings that differ between
/// contestants (marked), then the settings that are equal for all (collapsed). `names` are the names of the contestants,
/// which keep their spelling.
fn terms(out: &mut String, lines: &[String], names: &[String]) {
    for line in lines {
        let (key, text) = line.split_once(": ").unwrap_or(("terms", line));
        let is_name = names.iter().any(|name| name == key);
        let key = if is_name { escape(key) } else { words::capital(&escape(key)) };
        let text = unbroken(text);
        let _ = match key.as_str() {
            "Equal" | "Terms" => {
                write!(out, "<details><summary>{key} for all</summary><p class=\"note\">{text}</p></details>")
            }
            "Not equal" if text == "nothing else" => write!(out, "<p>Nothing else is unequal.</p>"),
            "Not equal" => write!(out, "<p><b class=\"flag\">{key}</b> {text}</p>"),
            _ => write!(out, "<p><b>{key}</b> {text}</p>"),
        };
    }
}

/// Lists the changed networks and settings that were raced too, with their results, and the factor by which an ideal
/// transport would be faster than the winner. If nothing else was raced, suggests other networks.
fn change(out: &mut String, race: &Race, point: &Point, ranking: &Ranking) {
    out.push_str("<section class=\"change\"><h2>What would change this</h2>");
    let names = words::names(point);
    if !point.changes.is_empty() {
        out.push_str("<table class=\"cards\"><thead><tr><th>with</th><th class=\"left\">winner</th>");
        for name in &names {
            let _ = write!(out, "<th>{}</th>", escape(name));
        }
        out.push_str("</tr></thead><tbody>");
    }
    for changed in &point.changes {
        let known = |typed: &String| point.contestants.iter().position(|one| one.name == *typed);
        let winner = changed.winner.as_ref().and_then(known).map_or("no clear winner", |index| &names[index]);
        let class = if changed.flips { " best" } else { "" };
        let _ = write!(
            out,
            "<tr><td data-of=\"with\">{}</td><td class=\"left{class}\" data-of=\"winner\">{}</td>",
            escape(&reasons::noun(&changed.change)),
            escape(winner)
        );
        for (median, name) in changed.medians_ms.iter().zip(&names) {
            let median = median.map_or("–".to_owned(), short_time);
            let _ = write!(out, "<td data-of=\"{}\">{median}</td>", escape(name));
        }
        out.push_str("</tr>");
    }
    if !point.changes.is_empty() {
        out.push_str("</tbody></table>");
    }
    if let (Some(limit), Some(first)) = (bars::limit(point), ranking.ranked.first())
        && let Some(ms) = first.ms
    {
        let _ = write!(
            out,
            "<p>The {} of this network is {}: no transport could be more than {:.1} times faster than {}.</p>",
            term("limit", "limit"),
            short_time(limit),
            ms / limit,
            escape(&first.name)
        );
    }
    if race.points.len() < 2 && point.changes.is_empty() {
        out.push_str(
            "<p>This is one network and one workload. Race others to see whether the result holds, such as \
             <code class=\"option\">--loss 0,0.5%,2%</code>, <code class=\"option\">--rate 2mbit,50mbit</code> or <code class=\"option\">--rtt 20ms,200ms</code>.</p>",
        );
    }
    out.push_str("</section>\n");
}
