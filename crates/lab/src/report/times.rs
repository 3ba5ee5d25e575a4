//! The times of pages, or of transfers: each contestant a row with its geometric mean, the range of most runs,
//! the median, every run, and the limit, all on one scale; figures beside.

use super::svg::{self, Scale, escape, figure, px, span, time_labels};
use crate::results::{Bound, Comparison, Contestant, Point, Verdict};
use std::fmt::Write;

const WIDTH: f64 = 420.0;
const ROW: f64 = 46.0;

pub(super) fn render(out: &mut String, point: &Point) {
    let whole = point.workload.whole();
    let _ = writeln!(out, "<h2>{} time</h2>", capital(whole));
    let pages = |contestant: &Contestant| -> Vec<f64> {
        contestant.runs.iter().filter_map(|r| r.page_ns).map(|ns| ns as f64 / 1e6).collect()
    };
    let limits: Vec<f64> = point
        .contestants
        .iter()
        .flat_map(|contestant| &contestant.runs)
        .filter_map(|r| r.limit_ns)
        .map(|ns| ns as f64 / 1e6)
        .collect();
    let values: Vec<f64> = point.contestants.iter().flat_map(pages).chain(limits.iter().copied()).collect();
    let Some(high) = values.iter().copied().reduce(f64::max) else {
        out.push_str("<p>No run finished.</p>\n");
        return;
    };
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let pad = ((high - low) * 0.04).max(high * 0.01);
    let scale = Scale::new((low - pad).max(0.0), high + pad, 6.0, WIDTH - 12.0);
    let limit = svg_mean(&limits);

    let first = point.contestants.first().map_or("", |contestant| contestant.label());
    let rivals = point.contestants.len() > 1;
    let versus = if rivals {
        format!("<th>ratio to {}<br><span class=\"unit\">95 % interval</span></th>", escape(first))
    } else {
        String::new()
    };
    out.push_str("<div class=\"scroll keep\"><table><thead><tr><th>contestant</th><th class=\"plot\">");
    axis(out, &scale, limit, whole);
    let _ = writeln!(
        out,
        "</th><th>geometric mean<br><span class=\"unit\">10–90 % of runs</span></th><th>median</th><th>95th<br>percentile</th>\
         <th>times<br>the limit</th>{versus}<th>failed<br>runs</th></tr></thead><tbody>"
    );
    let best = point
        .contestants
        .iter()
        .filter_map(|contestant| contestant.summary.page_ms.geometric_mean)
        .fold(f64::INFINITY, f64::min);
    for contestant in &point.contestants {
        let stat = &contestant.summary.page_ms;
        let _ = write!(out, "<tr><th>{}</th><td class=\"plot\">", svg::name(contestant.label()));
        row(out, (contestant, whole), &pages(contestant), &scale, limit);
        let at_least = if stat.failed > 0 && stat.n > 0 { "≥ " } else { "" };
        let typical = stat.geometric_mean.map_or("–".to_owned(), |ms| format!("{at_least}{}", span(ms)));
        let class = if stat.geometric_mean == Some(best) && rivals { " class=\"best\"" } else { "" };
        let range = stat.p10.zip(stat.p90).filter(|(low, high)| low < high);
        let range = range.map_or("one case".to_owned(), |(low, high)| svg::interval(low, high));
        let ratio = versus_first(point, contestant, "page_ms");
        let ratio = match (rivals, ratio) {
            (false, _) => String::new(),
            (true, Some(ratio)) => format!("<td>{}</td>", versus_text(ratio)),
            (true, None) => {
                format!("<td class=\"unit\">{}</td>", if contestant.label() == first { "1" } else { "–" })
            }
        };
        let failed = match stat.failed {
            0 => "0".to_owned(),
            n => format!("<span class=\"bad\">{n} of {}</span>", contestant.runs.len()),
        };
        let _ = writeln!(
            out,
            "</td><td{class}>{typical}<br><span class=\"unit\">{range}</span></td><td>{}</td><td>{}</td><td>{}</td>{ratio}<td>{failed}</td></tr>",
            stat.median.map_or("–".to_owned(), span),
            stat.p95.map_or("–".to_owned(), span),
            contestant.summary.limit_ratio.geometric_mean.map_or("–".to_owned(), |x| format!("{x:.2}")),
        );
    }
    out.push_str("</tbody></table></div>\n");
    let _ = write!(
        out,
        "<p class=\"note\">Dot and bar: geometric mean of the runs, and where 10 to 90 % of them lie. Tall tick: median. Strokes below: every \
         run. Dotted line: the limit, the {whole} over the bare capacity of the network, which no transport can beat.",
    );
    if rivals {
        out.push_str(
            " Ratios are quotients of the geometric means, seed by seed; seeds are common random numbers, not the same luck. A run \
             that did not finish counts as at least its deadline.",
        );
    }
    out.push_str("</p>\n");
    others(out, point);
}

fn axis(out: &mut String, scale: &Scale, limit: Option<f64>, whole: &str) {
    svg::open(out, WIDTH, 32.0, &format!("{whole} time axis"));
    let ticks = scale.ticks(5);
    for (tick, label) in ticks.iter().zip(time_labels(&ticks)) {
        let x = scale.at(*tick);
        svg::text(out, "mid", (x, 24.0), &label);
        svg::line(out, "axis", (x, 28.0), (x, 32.0));
    }
    if let Some(limit) = limit {
        svg::text(out, "mid small", (scale.at(limit).max(12.0), 10.0), "limit");
    }
    out.push_str("</svg>");
}

fn row(
    out: &mut String,
    (contestant, whole): (&Contestant, &str),
    pages: &[f64],
    scale: &Scale,
    limit: Option<f64>,
) {
    let label = format!("{whole} times of {}", contestant.label());
    svg::open(out, WIDTH, ROW, &label);
    for tick in scale.ticks(5) {
        svg::line(out, "grid", (scale.at(tick), 0.0), (scale.at(tick), ROW));
    }
    if let Some(limit) = limit {
        svg::line(out, "limit", (scale.at(limit), 0.0), (scale.at(limit), ROW));
    }
    let mut strokes = String::new();
    for page in pages {
        let _ = write!(strokes, "M{} 31V41", px(scale.at(*page)));
    }
    let _ = write!(out, r#"<path class="rug" d="{strokes}"/>"#);
    let stat = &contestant.summary.page_ms;
    let middle = 17.0;
    if let Some((low, high)) = stat.p10.zip(stat.p90) {
        svg::line(out, "ci", (scale.at(low), middle), (scale.at(high), middle));
    }
    if let Some(median) = stat.median {
        svg::line(out, "median", (scale.at(median), middle - 9.0), (scale.at(median), middle + 9.0));
    }
    if let Some(typical) = stat.geometric_mean {
        let _ = write!(out, r#"<circle class="dot" cx="{}" cy="{middle}" r="4"/>"#, px(scale.at(typical)));
    }
    out.push_str("</svg>");
}

/// The other times of a contestant, in a small table.
fn others(out: &mut String, point: &Point) {
    let failover = point.contestants.iter().any(|contestant| point.met_failure(contestant).next().is_some());
    out.push_str(
        "<div class=\"scroll keep\"><table><thead><tr><th>means over the runs</th><th>response time<br>of an object</th>\
         <th>time to<br>first byte</th><th>connection<br>set-up</th><th>goodput</th>",
    );
    if failover {
        out.push_str(
            "<th>path failure<br>to declared failed</th><th>failover<br>(failure to next delivery)</th>\
             <th>failure to<br>service restored</th>",
        );
    }
    out.push_str("</tr></thead><tbody>");
    for contestant in &point.contestants {
        let summary = &contestant.summary;
        let cell = |mean: Option<f64>| mean.map_or("–".to_owned(), span);
        let goodput = summary
            .goodput_bps
            .mean
            .map_or("–".to_owned(), |bps| format!("{}\u{a0}Mbit/s", figure(bps / 1e6)));
        let _ = write!(
            out,
            "<tr><th>{}</th><td>{}</td><td>{}</td><td>{}</td><td>{goodput}</td>",
            svg::name(contestant.label()),
            cell(summary.object_ms.geometric_mean),
            cell(summary.first_byte_ms.mean),
            cell(summary.connect_ms.mean),
        );
        if failover {
            for stat in [&summary.declared_failed_ms, &summary.failover_ms, &summary.restored_ms] {
                let _ = write!(out, "<td>{}</td>", stat.mean.map_or("never".to_owned(), span));
            }
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>\n");
}

/// How a contestant compares with the first.
pub(super) fn versus_first<'a>(
    point: &'a Point,
    contestant: &Contestant,
    metric: &str,
) -> Option<&'a Comparison> {
    let first = &point.contestants.first()?.name;
    point.comparisons.iter().find(|c| c.a == contestant.name && c.b == *first && c.metric == metric)
}

/// `0.62` and its interval, marked when the comparison is decided.
pub(super) fn versus_text(ratio: &Comparison) -> String {
    let Some(value) = ratio.ratio else { return "–".to_owned() };
    let sign = match ratio.bound {
        None => "",
        Some(Bound::AtLeast) => "≥ ",
        Some(Bound::AtMost) => "≤ ",
        Some(Bound::Unknown) => "? ",
    };
    let Some([low, high]) = ratio.ci95 else { return format!("{sign}{value:.2}") };
    let clear = if matches!(ratio.verdict, Verdict::Less | Verdict::More) { "best" } else { "" };
    format!(
        "<span class=\"{clear}\">{sign}{value:.2}</span><br><span class=\"unit\">{low:.2} – {high:.2}</span>"
    )
}

/// `Page` for `page`.
pub(super) fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

fn svg_mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
