//! Several points at a glance: one row each, a column for each contestant.

use super::svg::{self, escape, span};
use super::times::{versus_first, versus_text};
use crate::results::{Point, label};
use std::fmt::Write;

pub(super) fn render(out: &mut String, points: &[Point]) {
    // Contestants may differ from point to point; columns are all there are, in order of appearance.
    let mut contestants: Vec<&str> = Vec::new();
    for contestant in points.iter().flat_map(|point| &point.contestants) {
        if !contestants.contains(&contestant.name.as_str()) {
            contestants.push(&contestant.name);
        }
    }
    let mut factors: Vec<&str> = Vec::new();
    for factor in points.iter().flat_map(|point| point.factors.keys()) {
        if !factors.contains(&factor.as_str()) {
            factors.push(factor);
        }
    }
    out.push_str("<h2>All points</h2>\n<div class=\"scroll\"><table><thead><tr>");
    for factor in &factors {
        let _ = write!(out, "<th class=\"left\">{}</th>", escape(factor));
    }
    for contestant in &contestants {
        let _ = write!(out, "<th>{}</th>", svg::name(label::shown(contestant)));
    }
    out.push_str("</tr></thead><tbody>");
    for (i, point) in points.iter().enumerate() {
        out.push_str("<tr>");
        for (column, factor) in factors.iter().enumerate() {
            let level = escape(point.factors.get(*factor).map_or("–", String::as_str));
            let cell = if column == 0 { format!("<a href=\"#p{i}\">{level}</a>") } else { level };
            let _ = write!(out, "<td class=\"left\">{cell}</td>");
        }
        let best = point
            .contestants
            .iter()
            .filter_map(|contestant| contestant.summary.page_ms.geometric_mean)
            .fold(f64::INFINITY, f64::min);
        for name in &contestants {
            let Some(contestant) = point.contestants.iter().find(|contestant| contestant.name == *name)
            else {
                out.push_str("<td>–</td>");
                continue;
            };
            let typical = contestant.summary.page_ms.geometric_mean;
            let class = if typical == Some(best) { " class=\"best\"" } else { "" };
            let failed = match contestant.summary.page_ms.failed {
                0 => String::new(),
                n => format!(" <span class=\"bad\">({n} failed)</span>"),
            };
            let ratio = versus_first(point, contestant, "page_ms");
            let ratio = ratio.map_or(String::new(), |ratio| {
                format!("<br><span class=\"unit\">×</span> {}", versus_text(ratio))
            });
            let _ = write!(
                out,
                "<td><span{class}>{}</span>{failed}{ratio}</td>",
                typical.map_or("–".to_owned(), span)
            );
        }
        out.push_str("</tr>\n");
    }
    let mut wholes: Vec<&str> = points.iter().map(|point| point.workload.whole()).collect();
    wholes.dedup();
    let whole =
        if let [one] = wholes[..] { format!("{one} time") } else { "time until all is there".to_owned() };
    let _ = writeln!(
        out,
        "</tbody></table></div>\n<p class=\"note\">Geometric mean of the {whole}; below it the ratio to the first \
         contestant with its 95 % interval. The least mean of a row stands out.</p>",
    );
}
