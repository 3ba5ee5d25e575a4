//! Formats the results of a population as one HTML page without external files. The page has a map of regions, the
//! causes of the differences between contestants, and the source of every assumption. For each contestant, a curve
//! shows how much longer people wait than with the fastest contestant.

use super::tally::{CauseSummary, Group, LOSSES, Shares, Tally};
use super::text;
use crate::document;
use crate::svg::escape;
use anabranch_results::stats::decision::GAP;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

const STYLE: &str = include_str!("../style.css");
const OWN_STYLE: &str = include_str!("page.css");
/// The width and the height of a diagram with curves, in SVG pixels.
const SIZE: [f64; 2] = [640.0, 300.0];
/// The maximum number of points in a curve.
const STEPS: usize = 120;
/// The row and column of each region on the map. Regions that are not listed are placed below.
const MAP: [(&str, u8, u8); 9] = [
    ("Northern America", 1, 1),
    ("Europe", 1, 2),
    ("Western and Central Asia", 1, 3),
    ("Eastern Asia", 1, 4),
    ("Latin America", 2, 1),
    ("Africa", 2, 2),
    ("Southern Asia", 2, 3),
    ("South-Eastern Asia", 2, 4),
    ("Oceania", 3, 4),
];

/// A value in the population file, and where it comes from.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// The name of the parameter.
    pub name: String,
    /// The value of the parameter, in words.
    pub value: String,
    /// Whether the value is `measured` or `assumed`.
    pub is: String,
    /// If the value is measured: who measured it, when, and under which licence. If it is assumed: the reason.
    pub source: String,
}

/// Returns the HTML page. `command` is the command that reproduces the results. `sources` has the name of each
/// population with the sources of its values.
#[must_use]
pub fn html(tally: &Tally, command: &str, sources: &[(String, Vec<Parameter>)]) -> String {
    let styles = [("", STYLE), ("", OWN_STYLE)];
    let mut out = document::head("Which transport is best for how many people?", &styles, None);
    out.push_str("<p class=\"over\">anabranch: a population</p><h1>Which transport is best for how many people?</h1>\n\
         <p class=\"note\">Simulated: each person's network is drawn from a population, and so is the page unless the command names one. \
         Pages are loaded over a virtual network, alone, from an empty cache. No real person's page was measured. The end of this page lists the contestants, the values of \
         the population with their sources, the people who are missing, and all assumptions.</p>\n");
    for population in tally.populations() {
        write_population(&mut out, tally, population);
    }
    if tally.populations().len() > 1 {
        let _ = write!(
            out,
            "<h2>What depends on the assumptions</h2><p class=\"note\">The share of people for whom each contestant is fastest, \
             when one property of the population is multiplied.</p>"
        );
        compared(&mut out, tally);
    }
    out.push_str("<h2>Contestants</h2><ul>");
    for (name, rest) in tally.contestants() {
        let name = name.map_or(String::new(), |name| format!("<b>{}</b>: ", escape(name)));
        let _ = write!(out, "<li>{name}<code>{}</code></li>", escape(rest));
    }
    out.push_str(
        "</ul><p class=\"note\">Congestion control is CUBIC unless <code>cc</code> names another.</p>\n",
    );
    for (name, all) in sources {
        parameters(&mut out, name, all);
    }
    let _ = writeln!(
        out,
        "<h2>Reproduce it</h2><p>anabranch {}: <code>{}</code></p></body></html>",
        env!("CARGO_PKG_VERSION"),
        escape(command)
    );
    out
}

fn write_population(out: &mut String, tally: &Tally, population: &str) {
    let own = |group: &Group| group.population == population;
    let all = tally.shares(own);
    let called = if population.is_empty() { String::new() } else { format!(": {}", escape(population)) };
    let _ = write!(
        out,
        "<h2>{}{called}</h2><p class=\"note\">The time of a person is the geometric mean of all page loads of this person; {}. \
         Brackets hold 95 % confidence intervals of shares: they cover the choice of people.</p>",
        text::people(all.people),
        text::TERMS
    );
    let _ = write!(out, "<p class=\"lead\">{}</p>", escape(&text::sentence(tally.names(), &all)));
    shares(out, tally, population, all);
    map(out, tally, population);
    costs(out, tally, population);
    pairs(out, tally, population);
    causes(out, tally, population);
}

/// Writes a table with the share of people for whom each contestant is fastest, by kind of access and by loss.
fn shares(out: &mut String, tally: &Tally, population: &str, all: Shares) {
    let own = |group: &Group| group.population == population;
    let access = tally.values(|group| &group.access);
    let mut columns = vec![("all", all)];
    columns.extend(
        access.iter().map(|kind| (*kind, tally.shares(|group| own(group) && group.access == **kind))),
    );
    columns.extend(LOSSES.map(|(class, _)| (class, tally.shares(|group| own(group) && group.loss == class))));
    let _ = write!(
        out,
        "<div class=\"scroll\"><table class=\"people\"><thead><tr><th></th><th></th><th colspan=\"{}\">access</th><th \
         colspan=\"{}\">random packet loss</th></tr><tr><th>fastest for</th>",
        access.len(),
        LOSSES.len()
    );
    for (title, shares) in &columns {
        let _ = write!(out, "<th>{}<br>{}</th>", escape(title), text::people(shares.people));
    }
    out.push_str("</tr></thead><tbody>");
    for at in 0..tally.names().len() + 2 {
        let _ = write!(out, "<tr><th>{}</th>", escape(text::outcome(tally.names(), at)));
        for share in columns.iter().filter_map(|(_, shares)| shares.outcomes().nth(at)) {
            let _ = write!(out, "<td>{}</td>", text::format_share(share));
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
}

/// Writes how common each outcome is in each region. Each region has a tile, with a bar for each kind of access.
fn map(out: &mut String, tally: &Tally, population: &str) {
    let _ = write!(
        out,
        "<h3>Where</h3><p class=\"note\">The share of a region's people for whom each contestant is fastest, and the most common outcome \
         with the 95 % interval of its share. Groups of fewer than {} people have no result.</p><p class=\"legend\">",
        text::FEW
    );
    for at in 0..tally.names().len() + 2 {
        let name = escape(text::outcome(tally.names(), at));
        let _ = write!(out, "<span><i style=\"background:{}\"></i>{name}</span>", colour(tally, at));
    }
    out.push_str("</p><div class=\"map\">");
    for region in tally.values(|group| &group.region) {
        let position = MAP.iter().find(|(name, ..)| *name == region);
        let position =
            position.map_or(String::new(), |(_, row, column)| format!(" style=\"grid-area:{row}/{column}\""));
        let _ = write!(out, "<div class=\"tile\"{position}><b>{}</b>", escape(region));
        for kind in tally.values(|group| &group.access) {
            let shares = tally.shares(|group| {
                group.population == population && group.region == region && group.access == kind
            });
            let most = text::most_common_outcome(&shares, tally.names());
            let _ = write!(out, "<span>{}: {}</span>", escape(kind), escape(&most));
            if shares.people < text::FEW {
                continue;
            }
            out.push_str("<div class=\"bar\">");
            for (at, share) in shares.outcomes().enumerate() {
                let _ = write!(
                    out,
                    "<i title=\"{} {}\" style=\"width:{:.1}%;background:{}\"></i>",
                    escape(text::outcome(tally.names(), at)),
                    text::format_share(share),
                    share.value() * 100.0,
                    colour(tally, at)
                );
            }
            out.push_str("</div>");
        }
        out.push_str("</div>");
    }
    out.push_str("</div>\n");
}

/// Returns the colour that stands for an outcome: a contestant as the fastest, a tie, or undecided.
fn colour(tally: &Tally, outcome: usize) -> String {
    match outcome.checked_sub(tally.names().len()) {
        None => format!("var(--c{})", outcome % 8),
        Some(0) => "var(--rule)".to_owned(),
        Some(_) => "var(--faint)".to_owned(),
    }
}

/// Writes, for each contestant, how much longer people would wait if everyone used this contestant, compared with the
/// fastest contestant for each person.
fn costs(out: &mut String, tally: &Tally, population: &str) {
    const CAPTION: &str = "A cumulative distribution for each contestant. Across: the time with this contestant, divided by the person's \
                           shortest time with any contestant. Up: the share of people whose quotient is at most this. The dotted line is x1.03. The higher \
                           a curve, the less it costs if everyone uses this contestant. The costs are slightly too high, because the shortest of several \
                           times is partly luck.";
    let _ = write!(out, "<h3>What it costs if everyone uses the same</h3><p class=\"note\">{CAPTION}</p>");
    let names = tally.names();
    let all = |group: &Group| group.population == population;
    let across = Axis {
        ends: [1.0, 10.0],
        ticks: &[1.0, 1.5, 2.0, 3.0, 5.0, 10.0],
        title: "time / shortest time of any contestant",
    };
    out.push_str("<figure>");
    curves(out, names, &across, (0..names.len()).map(|at| (at, tally.cost(at, all).ratios)), false);
    out.push_str("</figure><div class=\"two\">");
    for (class, _) in LOSSES {
        let is_shown = |group: &Group| all(group) && group.loss == class;
        let people = tally.shares(is_shown).people;
        if people < text::FEW {
            continue;
        }
        let _ = write!(out, "<figure><figcaption>{class}: {}</figcaption>", text::people(people));
        curves(out, names, &across, (0..names.len()).map(|at| (at, tally.cost(at, is_shown).ratios)), false);
        out.push_str("</figure>");
    }
    out.push_str(
        "</div><div class=\"scroll\"><table class=\"people\"><thead><tr><th>if everyone used it</th><th>within 3 % \
         for</th><th>geometric mean</th><th>50th percentile</th><th>90th percentile</th></tr></thead><tbody>",
    );
    for (at, name) in names.iter().enumerate() {
        let cost = tally.cost(at, all);
        let _ = write!(
            out,
            "<tr><th>{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(name),
            text::format_share(cost.near_fastest),
            text::shown(cost.mean()),
            text::ratio_at(&cost.ratios, 0.5),
            text::ratio_at(&cost.ratios, 0.9)
        );
    }
    out.push_str(
        "</tbody></table></div><div class=\"scroll\"><table class=\"people\"><thead><tr><th>geometric mean, by random packet \
         loss</th>",
    );
    for (class, _) in LOSSES {
        let _ = write!(out, "<th>{class}</th>");
    }
    out.push_str("</tr></thead><tbody>");
    for (at, name) in names.iter().enumerate() {
        let _ = write!(out, "<tr><th>{}</th>", escape(name));
        for (class, _) in LOSSES {
            let _ = write!(out, "<td>{}</td>", text::mean_of(tally, at, population, class));
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>\n");
}

/// Writes a table that compares each contestant with each earlier contestant of the plan.
fn pairs(out: &mut String, tally: &Tally, population: &str) {
    let Some(base) = tally.names().first() else { return };
    let own = |group: &Group| group.population == population;
    let title = format!("time of {base} / time of the other");
    let _ = write!(
        out,
        "<h3>Pairs of contestants</h3><p class=\"note\">Across: the time of {}, divided by the time of the other. Up: the share of \
         people whose quotient is at least this. Right of x1 the other is faster; between the dotted lines the two are within 3 %.</p><figure>",
        escape(base)
    );
    let across = Axis { ends: [0.1, 4.0], ticks: &[0.1, 0.2, 0.5, 1.0, 2.0, 4.0], title: &title };
    let each = (1..tally.names().len()).map(|at| (at, tally.pair(at, 0, own).ratios));
    curves(out, tally.names(), &across, each, true);
    out.push_str(
        "</figure><div class=\"scroll\"><table class=\"people\"><thead><tr><th></th><th>faster for</th><th>slower for</th><th>tie \
         for</th><th>time of the second / time of the first: 10th, 50th, 90th percentile of people</th></tr></thead><tbody>",
    );
    for one in 0..tally.names().len() {
        for other in 0..one {
            let pair = tally.pair(one, other, own);
            let _ = write!(
                out,
                "<tr><th>{} vs {}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                escape(&tally.names()[one]),
                escape(&tally.names()[other]),
                text::format_share(pair.faster),
                text::format_share(pair.slower),
                text::format_share(pair.tied),
                [0.1, 0.5, 0.9].map(|share| text::ratio_at(&pair.ratios, share)).join(" ")
            );
        }
    }
    out.push_str("</tbody></table></div>\n");
}

fn causes(out: &mut String, tally: &Tally, population: &str) {
    let causes: Vec<_> = tally.causes().into_iter().filter(|cause| cause.population == population).collect();
    if causes.is_empty() {
        return;
    }
    let (people, unnamed) = tally.explained(population);
    let _ = write!(
        out,
        "<h3>Why</h3><p class=\"note\">Experiments with one person in ten ({}), between the fastest contestant and the next that is slower \
         beyond chance. The slower one gets one group of the other's settings, and loads the same pages again. A group that makes it faster \
         is a cause of the gap; one that makes it even slower is not. Effects are geometric means over the people to whom the cause \
         applies. For {} of {} whose contestants differ, no tested setting explains the gap.</p>",
        text::people(people),
        unnamed.count,
        text::people(unnamed.of)
    );
    let (slower, faster): (Vec<&CauseSummary>, Vec<&CauseSummary>) =
        causes.iter().partition(|cause| cause.holds_back);
    cause_table(out, "because of", &faster);
    if !slower.is_empty() {
        out.push_str(
            "<p class=\"note\">Not causes: settings that make the slower of the two even slower.</p>",
        );
    }
    cause_table(out, "even slower with", &slower);
}

/// Writes a table of changed settings and their effects.
fn cause_table(out: &mut String, heading: &str, causes: &[&CauseSummary]) {
    if causes.is_empty() {
        return;
    }
    let _ = write!(
        out,
        "<div class=\"scroll\"><table class=\"people\"><thead><tr><th>faster</th><th>slower</th><th>{heading}</th>\
         <th>most often by</th><th>people</th><th>time of the slower without it / with it</th></tr></thead><tbody>"
    );
    for cause in causes {
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td><code>{}</code></td><td>{}</td><td>x{:.2}</td></tr>",
            escape(&cause.winner),
            escape(&cause.loser),
            escape(&cause.factor),
            escape(&cause.change),
            cause.people,
            cause.effect
        );
    }
    out.push_str("</tbody></table></div>\n");
}

/// The horizontal axis of a diagram with curves. It is logarithmic.
struct Axis<'a> {
    ends: [f64; 2],
    ticks: &'a [f64],
    title: &'a str,
}

/// Draws a curve for each contestant from its sorted ratios. The height of a curve is the share of people whose ratio
/// is at most the value on the axis. If `is_above` is set, the height is the share of people whose ratio is at least
/// that value.
fn curves(
    out: &mut String,
    names: &[String],
    across: &Axis<'_>,
    each: impl Iterator<Item = (usize, Vec<f64>)>,
    is_above: bool,
) {
    let [low, high] = across.ends;
    let [width, height] = SIZE;
    let x = |ratio: f64| (ratio / low).ln() / (high / low).ln() * (width - 75.0) + 60.0;
    let y = |share: f64| 10.0 + (1.0 - share) * (height - 65.0);
    let title = escape(across.title);
    let _ = write!(
        out,
        "<svg class=\"curve\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"share of people by {title}\">"
    );
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let _ = write!(
            out,
            "<path d=\"M60 {0:.1}H{1}\" stroke=\"var(--rule)\"/><text x=\"55\" y=\"{2:.1}\" text-anchor=\"end\">{3:.0} %</text>",
            y(share),
            width - 15.0,
            y(share) + 4.0,
            share * 100.0
        );
    }
    for ratio in across.ticks {
        let _ = write!(
            out,
            "<path d=\"M{0:.1} 10V{1:.1}\" stroke=\"var(--rule)\"/><text x=\"{0:.1}\" y=\"{2:.1}\" text-anchor=\"middle\">x{ratio}</text>",
            x(*ratio),
            y(0.0),
            y(0.0) + 16.0
        );
    }
    for ratio in [1.0 / GAP, GAP].into_iter().filter(|ratio| *ratio > low) {
        let _ = write!(
            out,
            "<path d=\"M{:.1} 10V{:.1}\" stroke=\"var(--faint)\" stroke-dasharray=\"2 3\"/>",
            x(ratio),
            y(0.0)
        );
    }
    let _ = write!(
        out,
        "<text x=\"{0:.1}\" y=\"{1:.1}\" text-anchor=\"middle\">{title}</text><text class=\"up\" x=\"12\" y=\"{2:.1}\" text-anchor=\"middle\" \
         transform=\"rotate(-90 12 {2:.1})\">share of people</text>",
        x((low * high).sqrt()),
        height - 8.0,
        y(0.5)
    );
    for (line, (at, ratios)) in each.enumerate() {
        let points = (0..=STEPS).map(|step| {
            let ratio = low * (high / low).powf(step as f64 / STEPS as f64);
            let count = match is_above {
                true => ratios.len() - ratios.partition_point(|one| *one < ratio),
                false => ratios.partition_point(|one| *one <= ratio),
            };
            format!("{:.1} {:.1}", x(ratio), y(count as f64 / ratios.len().max(1) as f64))
        });
        let points = points.collect::<Vec<_>>().join("L");
        // The labels are on the right, at the bottom for rising curves and at the top for falling curves. No curve runs
        // through these corners.
        let top = if is_above { 26.0 } else { y(0.0) - 16.0 * names.len() as f64 };
        let _ = write!(
            out,
            "<path d=\"M{points}\" fill=\"none\" stroke=\"var(--c{0})\" stroke-width=\"2\"/><text x=\"{1}\" y=\"{2:.1}\" \
             text-anchor=\"end\" style=\"fill:var(--c{0})\">{3}</text>",
            at % 8,
            width - 20.0,
            top + 16.0 * line as f64,
            escape(&names[at])
        );
    }
    out.push_str("</svg>");
}

fn compared(out: &mut String, tally: &Tally) {
    out.push_str("<div class=\"scroll\"><table class=\"people\"><thead><tr><th>population</th>");
    for name in tally.names() {
        let _ = write!(out, "<th>{}</th>", escape(name));
    }
    out.push_str("<th>tie</th><th>undecided</th></tr></thead><tbody>");
    for population in tally.populations() {
        let shares = tally.shares(|group| group.population == population);
        let _ = write!(out, "<tr><th>{}</th>", escape(population));
        for share in shares.outcomes() {
            let _ = write!(out, "<td>{}</td>", text::format_share(share));
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>\n");
}

/// Writes a table of the parameters of the population `name`: the value of each, and the source that it comes from.
fn parameters(out: &mut String, name: &str, all: &[Parameter]) {
    let _ = write!(
        out,
        "<h2>Population {}: values and sources</h2><div class=\"scroll\"><table class=\"sources\"><thead><tr><th>property</th><th>value</th>\
         <th>measured or assumed</th><th>source, or reason</th></tr></thead><tbody>",
        escape(name)
    );
    for one in all {
        let _ = write!(
            out,
            "<tr><th>{}</th><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&one.name),
            escape(&one.value),
            escape(&one.is),
            escape(&one.source)
        );
    }
    out.push_str("</tbody></table></div>\n");
}

#[cfg(test)]
mod tests {
    use super::super::tests::three;
    use super::*;

    #[test]
    fn the_page_holds_maps_curves_and_sources_and_nothing_of_elsewhere() {
        let source = Parameter {
            name: "rate".to_owned(),
            value: "quantiles".to_owned(),
            is: "measured".to_owned(),
            source: "Measurement Lab".to_owned(),
        };
        let sources = [("world".to_owned(), vec![source])];
        let page = html(&three(), "anabranch race p.toml --out 'a<b'", &sources);
        for part in [
            "3 people",
            "Simulated",
            "too few: 1",
            "grid-area:1/2",
            "<svg class=\"curve\"",
            "windows",
            "Not causes",
            "Measurement Lab",
            "a&lt;b",
        ] {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("<script") && !page.contains("src="));
        assert!(html(&Tally::default(), "", &[]).contains("</html>"));
    }
}
