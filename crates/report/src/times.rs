//! Shows page times or transfer times as a table, which narrow screens show as cards.

use super::delays::{delays, sorted};
use super::distributions::Samples;
use super::standing;
use super::svg::{self, escape, format_value, span};
use super::words::{self, capital};
use anabranch_results::{Contestant, Point};
use std::fmt::Write;

pub(super) fn render(out: &mut String, point: &Point) {
    let noun = point.workload.workload_noun();
    let _ = writeln!(out, "<h2>{} time in figures</h2>", capital(noun));
    let first = point.contestants.first();
    let rivals = point.contestants.len() > 1;
    let versus = first.filter(|_| rivals).map_or(String::new(), |first| {
        format!("<th>ratio to {}<br><span class=\"unit\">95 % interval</span></th>", escape(first.label()))
    });
    let _ = writeln!(
        out,
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"cards\"><thead><tr><th>contestant</th><th>median</th><th>10–90 %<br>of runs</th><th>95th<br>percentile</th><th>mean</th><th>{}</th>\
         <th>times<br>the {}</th>{versus}<th>failed<br>runs</th></tr></thead><tbody>",
        words::term("geometric mean", "geometric mean"),
        words::term("limit", "limit"),
    );
    let times: Vec<Option<f64>> =
        point.contestants.iter().map(|contestant| standing::time(point, contestant)).collect();
    let best = times.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    for (i, (contestant, time)) in point.contestants.iter().zip(&times).enumerate() {
        let stat = &contestant.summary.page_ms;
        let at_least = if stat.failed > 0 { "≥ " } else { "" };
        let cell = |ms: Option<f64>| ms.map_or("–".to_owned(), |ms| format!("{at_least}{}", span(ms)));
        let range = match stat.p10.zip(stat.p90) {
            Some((low, high)) if low < high => svg::interval(low, high),
            Some(_) if !point.chance => "one case".to_owned(),
            _ => "–".to_owned(),
        };
        let class = if *time == Some(best) && rivals { " class=\"best\"" } else { "" };
        let ratio = first.filter(|_| rivals).map_or(String::new(), |first| {
            let cell = match (i, standing::versus(point, contestant, first)) {
                (0, _) => "1".to_owned(),
                (_, Some(found)) => standing::versus_text(&found),
                (_, None) => "–".to_owned(),
            };
            format!("<td data-of=\"ratio to {}\"><span>{cell}</span></td>", escape(first.label()))
        });
        let failed = match stat.failed {
            0 => "0".to_owned(),
            n => format!("<span class=\"bad\">{n} of {}</span>", contestant.runs.len()),
        };
        let _ = writeln!(
            out,
            "<tr><th>{}</th><td data-of=\"median\"{class}>{}</td><td data-of=\"10–90 % of runs\">{range}</td><td data-of=\"95th percentile\">{}</td><td data-of=\"mean\">{}</td>\
             <td data-of=\"geometric mean\">{}</td><td data-of=\"times the limit\">{}</td>{ratio}<td data-of=\"failed runs\">{failed}</td></tr>",
            words::head(contestant),
            cell(*time),
            cell(stat.p95),
            cell(stat.mean),
            cell(time.and(stat.geometric_mean)),
            contestant.summary.limit_ratio.geometric_mean.map_or("–".to_owned(), |x| format!("{x:.2}")),
        );
    }
    out.push_str("</tbody></table></div>\n");
    if rivals {
        out.push_str(
            "<p class=\"note\">Ratios are quotients of the geometric means of runs with the same seeds. The seed gives both the same random \
             numbers, but other packets may be lost. A run that did not finish counts as at least its deadline.</p>\n",
        );
    }
    paint(out, point);
    other_times(out, point);
    let names = words::names(point);
    let times = point.contestants.iter().map(|own| sorted(standing::values(point, own).map(|(_, ms)| ms)));
    let quantity = format!("{noun} times");
    Samples { file: "times", quantity: &quantity, names: &names, values: times.collect() }.render(out);
    if !point.workload.is_bulk() {
        let responses = point.contestants.iter().map(|own| sorted(own.runs.iter().flat_map(delays)));
        let samples = Samples {
            file: "responses",
            quantity: "response times of objects",
            names: &names,
            values: responses.collect(),
        };
        samples.render(out);
    }
}

/// Writes a table of the times at which a user sees the page. A browser must have loaded it.
fn paint(out: &mut String, point: &Point) {
    let stats = |contestant: &Contestant| {
        let summary = &contestant.summary;
        [
            ("start render", summary.start_render_ms),
            ("largest image", summary.largest_image_ms),
            ("byte index", summary.byte_index_ms),
        ]
    };
    if point.contestants.iter().flat_map(stats).all(|(_, stat)| stat.is_empty()) {
        return;
    }
    let _ = write!(
        out,
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"cards\"><thead><tr><th>medians, with<br>95th percentiles</th>\
         <th>{}</th><th>{}</th><th>{}</th></tr></thead><tbody>",
        words::term("start render", "start render"),
        words::term("largest image", "largest image"),
        words::term("byte index", "byte index"),
    );
    for contestant in &point.contestants {
        let _ = write!(out, "<tr><th>{}</th>", words::head(contestant));
        for (of, stat) in stats(contestant) {
            let at_least = if stat.failed > 0 { "≥ " } else { "" };
            let cell = match (stat.median, stat.p95) {
                (Some(median), Some(p95)) => {
                    format!(
                        "{at_least}{} <span class=\"unit\">({at_least}{})</span>",
                        span(median),
                        span(p95)
                    )
                }
                _ => "–".to_owned(),
            };
            let _ = write!(out, "<td data-of=\"{of}\">{cell}</td>");
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>\n");
}

/// Writes a small table of a contestant's other times, such as failover times.
fn other_times(out: &mut String, point: &Point) {
    let failover =
        point.contestants.iter().any(|contestant| point.runs_with_path_failure(contestant).next().is_some());
    out.push_str(
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"cards\"><thead><tr><th>means over the runs</th><th>response time<br>of an object</th>\
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
            .map_or("–".to_owned(), |bps| format!("{}\u{a0}Mbit/s", format_value(bps / 1e6)));
        let _ = write!(
            out,
            "<tr><th>{}</th><td data-of=\"response time\">{}</td><td data-of=\"first byte\">{}</td><td data-of=\"connection set-up\">{}</td><td data-of=\"goodput\">{goodput}</td>",
            words::head(contestant),
            cell(summary.object_ms.geometric_mean),
            cell(summary.first_byte_ms.mean),
            cell(summary.connect_ms.mean),
        );
        if failover {
            let stats = [
                ("declared failed after", &summary.declared_failed_ms),
                ("failover", &summary.failover_ms),
                ("service restored after", &summary.restored_ms),
            ];
            for (of, stat) in stats {
                let _ =
                    write!(out, "<td data-of=\"{of}\">{}</td>", stat.mean.map_or("never".to_owned(), span));
            }
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>\n");
}
