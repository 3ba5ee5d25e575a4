//! The first screen of a point. It shows the winner and its lead, the cause, how the page loaded over time, how the
//! contestants shared the network, and what would change the result.

use super::chart::Width;
use super::standing::Ranking;
use super::svg::escape;
use super::words::{self, short_time, term};
use super::{bars, causes, failover, fairness, overview, progress, traffic};
use anabranch_results::{Point, Race};
use std::fmt::Write;

/// Draws the times, the causes, and a list of what would change the result.
pub(super) fn render(out: &mut String, race: &Race, point: &Point, ranking: &Ranking) {
    out.push_str("<div class=\"first\"><div>");
    bars::render(out, point, ranking, Width::Main);
    out.push_str("</div><div>");
    causes::render(out, point, ranking);
    change(out, race, point, ranking);
    out.push_str("</div></div>\n");
}

/// Draws the results of a few points side by side.
pub(super) fn several(out: &mut String, points: &[Point]) {
    out.push_str("<div class=\"two\">");
    for (i, point) in points.iter().enumerate() {
        let ranking = Ranking::of(point);
        let _ = writeln!(
            out,
            "<div><h2 class=\"bare\"><a href=\"#p{i}\">{}</a></h2><p class=\"lead\"><b>{}</b>. {}</p>",
            escape(&overview::point_label(point)),
            escape(&ranking.headline(point)),
            escape(&ranking.margin())
        );
        bars::render(out, point, &ranking, Width::Half);
        causes::render(out, point, &ranking);
        if let Some(first) = conditions(point).first() {
            let _ = write!(out, "<p class=\"note\">{first}</p>");
        }
        out.push_str("</div>");
    }
    out.push_str("</div>\n");
}

/// Draws the course of the race: how data arrived over time, and how the network was shared.
pub(super) fn course(out: &mut String, point: &Point) {
    failover::render(out, point);
    out.push_str("<div class=\"two\">");
    progress::render(out, point);
    out.push_str("</div>\n");
    fairness::render(out, point);
}

/// Writes the terms of the race: how each contestant uses the network, then the settings that differ between
/// contestants (marked), then the settings that are equal for all (collapsed).
pub(super) fn terms(out: &mut String, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    out.push_str("<section class=\"terms\"><h2>On what terms</h2>");
    for line in lines {
        let (key, text) = line.split_once(": ").unwrap_or(("terms", line));
        // A key in capitals, for example `UNEQUAL`, becomes `Unequal`. In any other key, such as a contestant's name,
        // only the first letter changes.
        let word = if key.chars().any(char::is_lowercase) { key.to_string() } else { key.to_lowercase() };
        let (key, text) = (words::capital(&word), escape(text));
        let _ = match key.as_str() {
            "Equal" | "Terms" => {
                write!(out, "<details><summary>{key} for all</summary><p class=\"note\">{text}</p></details>")
            }
            "Unequal" if text == "nothing else" => write!(out, "<p>Nothing else is unequal.</p>"),
            "Unequal" => write!(out, "<p><b class=\"flag\">{key}</b> {text}</p>"),
            _ => write!(out, "<p><b>{key}</b> {text}</p>"),
        };
    }
    out.push_str("</section>\n");
}

/// Writes the lines below the headline: the winner's lead, the failover times, and the contestants that did not finish.
pub(super) fn lead(out: &mut String, point: &Point, ranking: &Ranking) {
    let margin = ranking.margin();
    if !margin.is_empty() {
        let _ = writeln!(out, "<p class=\"lead\">{}</p>", escape(&margin));
    }
    let failover = traffic::failover(point);
    if !failover.is_empty() {
        let _ = writeln!(out, "<p class=\"lead\">{}</p>", escape(&failover));
    }
    let unfinished = ranking.unfinished(point);
    if !unfinished.is_empty() {
        let _ = writeln!(out, "<p class=\"lead bad\">{}</p>", escape(&unfinished));
    }
}

/// Lists what would change the result: changed settings of the loser, and the tested conditions. Also gives the factor
/// by which an ideal transport would be faster than the winner. If the race has only one point, suggests other
/// networks.
fn change(out: &mut String, race: &Race, point: &Point, ranking: &Ranking) {
    let mut lines = causes::remedies(point);
    lines.extend(conditions(point));
    if let (Some(limit), Some(first)) = (bars::limit(point), ranking.ranked.first())
        && let Some(ms) = first.ms
    {
        lines.push(format!(
            "The {} of this network is {}: no other transport could be more than ×{:.1} sooner than the first here.",
            term("limit", "limit"),
            short_time(limit),
            ms / limit
        ));
    }
    if race.points.len() < 2 {
        let tried = lines.len() > 1;
        lines.push(format!(
            "{}Race other networks to see, such as <code>--loss 0,0.5%,2%</code>, <code>--rate 2mbit,50mbit</code> or \
             <code>--rtt 20ms,200ms</code>.",
            if tried { "" } else { "This is one network and one workload: the answer may be another elsewhere. " }
        ));
    }
    out.push_str("<section class=\"change\"><h2>What would change this</h2><ul>");
    for line in lines {
        let _ = write!(out, "<li>{line}</li>");
    }
    out.push_str("</ul></section>\n");
}

fn conditions(point: &Point) -> Vec<String> {
    causes::of(point).map(|(_, experiment)| causes::conditions(experiment)).unwrap_or_default()
}
