//! What was found of people, as one page of HTML that needs nothing else: maps of region and access, curves of how many people gain
//! how much, causes, and where every assumption is from.

use super::data::Parameter;
use super::tally::{Group, LOSSES, Shares, Tally};
use super::text;
use crate::report::svg::escape;
use crate::stats::summary::quantile;
use std::fmt::Write;

const STYLE: &str = include_str!("../report/style.css");
/// Width and height of a curve's drawing.
const SIZE: [f64; 2] = [640.0, 300.0];
/// The least and the greatest ratio that it shows.
const ENDS: [f64; 2] = [0.1, 4.0];
/// Points of a curve.
const STEPS: usize = 120;

/// The page. `command` makes the same results again; `populations` are those of the plan.
#[must_use]
pub fn html<'a>(tally: &Tally, command: &str, populations: impl IntoIterator<Item = &'a str>) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>Which transport is best for how many people?</title><style>{STYLE}\
         .people td,.people thead th{{text-align:center}} .people td,.people th{{padding:.3rem .6rem}} .sources \
         td{{text-align:left;white-space:normal}} .sources thead th{{text-align:left}} svg.curve{{width:100%;height:auto;\
         max-width:640px}} svg.curve text{{fill:var(--soft);font-size:11px}}</style></head><body>\n"
    );
    out.push_str("<p class=\"over\">anabranch: a population</p><h1>Which transport is best for how many people?</h1>\n");
    for population in tally.populations() {
        one(&mut out, tally, population);
    }
    if tally.populations().len() > 1 {
        let _ = write!(
            out,
            "<h2>What hangs on what is assumed</h2><p class=\"note\">Whose page is there soonest, in shares of people, where \
             one thing of the population is multiplied.</p>"
        );
        compared(&mut out, tally);
    }
    out.push_str("<h2>Contestants</h2><ul>");
    for (name, rest) in tally.nicknames() {
        let _ = write!(out, "<li><b>{}</b>: <code>{}</code></li>", escape(name), escape(rest));
    }
    out.push_str("</ul>\n");
    for (name, all) in super::sources(populations) {
        parameters(&mut out, &name, &all);
    }
    let _ = writeln!(out, "<h2>The same again</h2><p><code>{}</code></p></body></html>", escape(command));
    out
}

fn one(out: &mut String, tally: &Tally, population: &str) {
    let own = |group: &Group| group.population == population;
    let all = tally.shares(own);
    let called = if population.is_empty() { String::new() } else { format!(": {}", escape(population)) };
    let _ = write!(
        out,
        "<h2>{}{called}</h2><p class=\"note\">A time is the geometric mean of a person's page loads. Soonest: by more \
         than 3 % over every other; else the first are level. In brackets 95 % intervals of the share.</p>",
        text::people(all.people)
    );
    let _ = write!(out, "<p class=\"lead\">{}</p>", escape(&text::sentence(tally.names(), &all)));
    let losses = LOSSES.map(|(class, _)| (class, tally.shares(|group| own(group) && group.loss == class)));
    let columns: Vec<(&str, &Shares)> =
        std::iter::once(("all", &all)).chain(losses.iter().map(|(class, shares)| (*class, shares))).collect();
    out.push_str("<div class=\"scroll\"><table class=\"people\"><thead><tr><th>soonest, of people</th>");
    for (title, shares) in &columns {
        let _ = write!(out, "<th>{title}: {}</th>", shares.people);
    }
    out.push_str("</tr></thead><tbody>");
    for (at, name) in tally.names().iter().enumerate() {
        let _ = write!(out, "<tr><th>{}</th>", escape(name));
        for (_, shares) in &columns {
            let _ = write!(out, "<td>{}</td>", text::told(shares.soonest[at]));
        }
        out.push_str("</tr>");
    }
    out.push_str("<tr><th>nobody: level</th>");
    for (_, shares) in &columns {
        let _ = write!(out, "<td>{}</td>", text::told(shares.level));
    }
    out.push_str("</tr></tbody></table></div>");
    map(out, tally, population);
    curves(out, tally, population);
    let why: Vec<_> = tally.why().into_iter().filter(|why| why.population == population).collect();
    if why.is_empty() {
        return;
    }
    let _ = write!(
        out,
        "<h3>Why</h3><p class=\"note\">Experiments with one person in ten ({} people): the later gets one group of the \
         sooner's settings, and loads the same pages again. Effects are geometric means over the people of whom it is \
         named.</p><div class=\"scroll\"><table class=\"people\"><thead><tr><th>sooner</th><th>later</th><th>by</th>\
         <th>people</th><th>makes the later sooner</th></tr></thead><tbody>",
        tally.explained(population)
    );
    for why in &why {
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>x{:.2}</td></tr>",
            escape(&why.winner),
            escape(&why.loser),
            escape(&why.factor),
            why.people,
            why.effect
        );
    }
    out.push_str("</tbody></table></div>\n");
}

/// Region by access: who is soonest for most, the darker the larger its share.
fn map(out: &mut String, tally: &Tally, population: &str) {
    let access = tally.values(|group| &group.access);
    out.push_str(
        "<h3>Where</h3><p class=\"note\">The commonest outcome there, its share, and of how many people that is \
         said. The fuller the colour, the larger the share.</p><div class=\"scroll\"><table class=\"people\"><thead><tr><th></th>",
    );
    for kind in &access {
        let _ = write!(out, "<th>{}</th>", escape(kind));
    }
    out.push_str("</tr></thead><tbody>");
    for region in tally.values(|group| &group.region) {
        let _ = write!(out, "<tr><th>{}</th>", escape(region));
        for kind in &access {
            let here = |group: &Group| {
                group.population == population && group.region == region && group.access == **kind
            };
            let shares = tally.shares(here);
            let said = text::most(&shares, tally.names());
            let first = shares.commonest().filter(|_| shares.people >= text::FEW);
            let share = first.map_or(0.0, |at| shares.soonest[at].value());
            let colour = first.map_or("var(--faint)".to_owned(), |at| format!("var(--c{})", at % 8));
            let _ = write!(
                out,
                "<td style=\"background:color-mix(in srgb,{colour} {:.0}%,transparent)\">{}</td>",
                share * 60.0,
                escape(&said)
            );
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>\n");
}

/// Of each contestant against the first: which share of people gains at least so much.
fn curves(out: &mut String, tally: &Tally, population: &str) {
    let Some(base) = tally.names().first() else { return };
    let x = |ratio: f64| (ratio / ENDS[0]).ln() / (ENDS[1] / ENDS[0]).ln() * (SIZE[0] - 60.0) + 45.0;
    let y = |share: f64| 10.0 + (1.0 - share) * (SIZE[1] - 45.0);
    let _ = write!(
        out,
        "<h3>How much</h3><p class=\"note\">The share of people for whom {}'s time is at least so many times each other's. \
         Right of 1 the other is sooner.</p><svg class=\"curve\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"gains\">",
        escape(base),
        SIZE[0],
        SIZE[1]
    );
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let _ = write!(
            out,
            "<path d=\"M45 {0:.1}H{1}\" stroke=\"var(--rule)\"/><text x=\"40\" y=\"{2:.1}\" text-anchor=\"end\">{3:.0} %</text>",
            y(share),
            SIZE[0] - 15.0,
            y(share) + 4.0,
            share * 100.0
        );
    }
    for ratio in [0.1, 0.2, 0.5, 1.0, 2.0, 4.0] {
        let _ = write!(
            out,
            "<path d=\"M{0:.1} 10V{1:.1}\" stroke=\"var(--rule)\"/><text x=\"{0:.1}\" y=\"{2:.1}\" text-anchor=\"middle\">x{ratio}</text>",
            x(ratio),
            y(0.0),
            y(0.0) + 16.0
        );
    }
    for other in 1..tally.names().len() {
        let pair = tally.pair(other, 0, |group| group.population == population);
        let points = (0..=STEPS).map(|step| {
            let ratio = ENDS[0] * (ENDS[1] / ENDS[0]).powf(step as f64 / STEPS as f64);
            let above = pair.ratios.len() - pair.ratios.partition_point(|one| *one < ratio);
            format!("{:.1} {:.1}", x(ratio), y(above as f64 / pair.ratios.len().max(1) as f64))
        });
        let _ = write!(
            out,
            "<path d=\"M{}\" fill=\"none\" stroke=\"var(--c{})\" stroke-width=\"2\"/>",
            points.collect::<Vec<_>>().join("L"),
            other % 8
        );
        let _ = write!(
            out,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\" style=\"fill:var(--c{})\">{}</text>",
            SIZE[0] - 20.0,
            10.0 + 16.0 * other as f64,
            other % 8,
            escape(&tally.names()[other])
        );
    }
    out.push_str("</svg>\n<div class=\"scroll\"><table class=\"people\"><thead><tr><th></th><th>sooner for</th><th>later for</th><th>the other's time over its own at the 10th, 50th and 90th of 100 people</th></tr></thead><tbody>");
    for one in 0..tally.names().len() {
        for other in 0..one {
            let pair = tally.pair(one, other, |group| group.population == population);
            let at = |share: f64| {
                quantile(&pair.ratios, share).map_or("-".to_owned(), |ratio| format!("x{ratio:.2}"))
            };
            let _ = write!(
                out,
                "<tr><th>{} over {}</th><td>{}</td><td>{}</td><td>{} {} {}</td></tr>",
                escape(&tally.names()[one]),
                escape(&tally.names()[other]),
                text::told(pair.sooner),
                text::told(pair.later),
                at(0.1),
                at(0.5),
                at(0.9)
            );
        }
    }
    out.push_str("</tbody></table></div>\n");
}

fn compared(out: &mut String, tally: &Tally) {
    out.push_str("<div class=\"scroll\"><table class=\"people\"><thead><tr><th>population</th>");
    for name in tally.names() {
        let _ = write!(out, "<th>{}</th>", escape(name));
    }
    out.push_str("<th>level</th></tr></thead><tbody>");
    for population in tally.populations() {
        let shares = tally.shares(|group| group.population == population);
        let _ = write!(out, "<tr><th>{}</th>", escape(population));
        for share in shares.soonest.iter().chain([&shares.level]) {
            let _ = write!(out, "<td>{}</td>", text::told(*share));
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>\n");
}

/// Where each value is from.
fn parameters(out: &mut String, name: &str, all: &[Parameter]) {
    let _ = write!(
        out,
        "<h2>What the population called {} is made of</h2><div class=\"scroll\"><table class=\"sources\"><thead><tr><th>what</th><th>value</th>\
         <th>is</th><th>source, or why</th></tr></thead><tbody>",
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
        let page = html(&three(), "anabranch race p.toml --out 'a<b'", ["world", "world:loss=x0"]);
        for part in ["3 people", "too few: 1", "<svg class=\"curve\"", "windows", "Measurement Lab", "a&lt;b"]
        {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("<script") && !page.contains("src="));
        assert!(html(&Tally::default(), "", []).contains("</html>"));
    }
}
