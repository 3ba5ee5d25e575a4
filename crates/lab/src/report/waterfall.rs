//! For each contestant the median run object by object, every bar cut into
//! the parts of its response time. All contestants of a point share a scale
//! unless they differ too much.
//!
//! A long page is cut into blocks, so that paper can break between them, and
//! drawn in thinner rows; names give way when rows become too thin to read.

use super::parts::{self, PARTS};
use super::svg::{self, Scale, escape, px, span};
use super::{end_ns, median_run, outcome, shared_end};
use crate::results::{Object, Point, Run};
use std::fmt::Write;

const WIDTH: f64 = 1040.0;
const LEFT: f64 = 210.0;
const RIGHT: f64 = 62.0;
/// Rows of a block.
const BLOCK: usize = 60;

pub(super) fn render(out: &mut String, point: &Point) {
    let whole = point.workload.whole();
    let runs: Vec<(&str, &Run)> = point
        .contestants
        .iter()
        .filter_map(|contestant| median_run(contestant).map(|run| (contestant.label(), run)))
        .collect();
    if runs.iter().all(|(_, run)| run.objects.is_empty()) {
        return;
    }
    out.push_str("<h2>The median run, object by object</h2>\n");
    let mut present = [false; 12];
    let length = |run: &Run| end_ns(run).max(run.limit_ns.unwrap_or(0));
    let shared = shared_end(runs.iter().map(|(_, run)| length(run)));
    for (_, run) in &runs {
        for object in &run.objects {
            for (present, part) in present.iter_mut().zip(parts_of(object)) {
                *present |= part > 0;
            }
        }
    }
    parts::legend(out, present);
    for (name, run) in runs {
        let scale = Scale::new(0.0, shared.unwrap_or(length(run)) as f64 / 1e6, LEFT, WIDTH - LEFT - RIGHT);
        let own = if shared.is_some() { "" } else { "; time scale of its own" };
        let time = run
            .page_ns
            .map_or("not finished".to_owned(), |ns| format!("{whole} time {}", span(ns as f64 / 1e6)));
        // On paper the heading and the axis stay with the first block.
        out.push_str("<figure class=\"long\"><div class=\"keep\">");
        let _ = writeln!(
            out,
            "<h3>{} <span class=\"meta\">seed {}, {time}, {}{}{own}</span></h3>",
            svg::name(name),
            run.seed,
            svg::count(run.connections, "connection"),
            outcome(run),
        );
        figure(out, name, run, &scale);
        out.push_str("</figure>\n");
        if run.objects.len() > NAMED_ROWS {
            slowest(out, run);
        }
    }
    let _ = writeln!(
        out,
        "<p class=\"note\">Rows in the order of the page; each bar runs from the moment the client wanted the object to the \
         delivery of its last byte, with the response time behind it; parts that alternate within one wait are drawn as \
         sums. Solid line: end of the {whole}. Dotted line: the limit. On a screen, point at a row for its name and numbers.</p>",
    );
}

/// Up to so many rows every row has its name.
const NAMED_ROWS: usize = 160;

/// Height of a row and style of its name by the number of rows.
fn rows(count: usize) -> (f64, Option<&'static str>) {
    match count {
        0..=30 => (18.0, Some("obj")),
        31..=90 => (13.0, Some("obj small")),
        91..=NAMED_ROWS => (9.0, Some("obj tiny")),
        161..=400 => (3.6, None),
        _ => (2.4, None),
    }
}

fn figure(out: &mut String, name: &str, run: &Run, scale: &Scale) {
    let (row, names) = rows(run.objects.len());
    let ticks = scale.ticks(8);
    svg::open(out, WIDTH, 20.0, &format!("time axis of the waterfall of {name}"));
    for (tick, label) in ticks.iter().zip(svg::time_labels(&ticks)) {
        svg::text(out, "mid", (scale.at(*tick), 13.0), &label);
        svg::line(out, "axis", (scale.at(*tick), 16.0), (scale.at(*tick), 20.0));
    }
    out.push_str("</svg>");
    // Blocks of equal size look better than a last one of two rows.
    let blocks = run.objects.len().div_ceil(BLOCK).max(1);
    let size = run.objects.len().div_ceil(blocks).max(1);
    for (block, objects) in run.objects.chunks(size).enumerate() {
        let height = objects.len() as f64 * row;
        if block > 0 {
            out.push_str("<div class=\"keep\">");
        }
        svg::open(out, WIDTH, height, &format!("waterfall of {name}, rows {} on", block * size + 1));
        for tick in &ticks {
            svg::line(out, "grid", (scale.at(*tick), 0.0), (scale.at(*tick), height));
        }
        bars(out, objects, row, scale);
        for (i, object) in objects.iter().enumerate() {
            let number = block * size + i + 1;
            label(out, object, number, i as f64 * row, row, names, scale);
        }
        if let Some(limit) = run.limit_ns {
            let x = scale.at(limit as f64 / 1e6);
            svg::line(out, "limit", (x, 0.0), (x, height));
        }
        if let Some(page) = run.page_ns {
            let x = scale.at(page as f64 / 1e6);
            svg::line(out, "ends", (x, 0.0), (x, height));
        }
        out.push_str("</svg></div>");
    }
    if run.objects.is_empty() {
        out.push_str("</div>");
    }
}

/// All segments of the rows: one path for each part keeps the file small.
fn bars(out: &mut String, objects: &[Object], row: f64, scale: &Scale) {
    let mut paths: [String; 12] = Default::default();
    let mut unknown = String::new();
    let mut undelivered = String::new();
    for (i, object) in objects.iter().enumerate() {
        let y = px(i as f64 * row + row / 2.0);
        let Some(issued) = object.issued_ns else { continue };
        let at = |ns: u64| scale.at(ns as f64 / 1e6);
        let Some(delivered) = object.delivered_ns else {
            let x = at(issued);
            let contestant = (row * 0.35).min(4.0);
            let middle = i as f64 * row + row / 2.0;
            for (dx, dy) in [(contestant, contestant), (contestant, -contestant)] {
                let _ = write!(
                    undelivered,
                    "M{} {}L{} {}",
                    px(x - dx),
                    px(middle - dy),
                    px(x + dx),
                    px(middle + dy)
                );
            }
            continue;
        };
        let segments = segments(object, issued, delivered);
        if segments.is_empty() {
            let _ = write!(unknown, "M{} {y}H{}", px(at(issued)), px(at(delivered)));
        }
        for (part, from, until) in segments {
            let (x1, x2) = (at(from), at(until));
            // What is thinner than a hair would only be noise.
            if x2 - x1 >= 0.05 {
                let _ = write!(paths[part], "M{} {y}H{}", px(x1), px(x2));
            }
        }
    }
    let thick = px((row * 0.82).max(row - 2.5));
    for ((key, _, _), path) in PARTS.iter().zip(&paths).filter(|(_, path)| !path.is_empty()) {
        let _ = write!(out, r#"<path class="bar" stroke="var(--{key})" stroke-width="{thick}" d="{path}"/>"#);
    }
    if !unknown.is_empty() {
        let _ = write!(out, r#"<path class="bar whole" stroke-width="{thick}" d="{unknown}"/>"#);
    }
    if !undelivered.is_empty() {
        let _ = write!(out, r#"<path class="mark" style="stroke-dasharray:none" d="{undelivered}"/>"#);
    }
}

/// The parts of an object, all zero when they are not known.
fn parts_of(object: &Object) -> [u64; 12] {
    object.why.as_ref().map_or([0; 12], |why| parts::values(why, object.send_detail.as_ref()))
}

/// The parts of one object where they lie in time: (part, from, until), nanoseconds.
///
/// Only the instants and the sums are known, so within an interval that
/// several parts share they are drawn in a fixed order.
fn segments(object: &Object, issued: u64, delivered: u64) -> Vec<(usize, u64, u64)> {
    let Some(at) = &object.instants else { return Vec::new() };
    let mut left = parts_of(object);
    let intervals: [(u64, &[&str]); 10] = [
        (at.assigned_ns, &["connect", "queue"]),
        (at.req_sent_ns, &SENDING),
        (at.req_copy_ns, &["recovery", "timeout"]),
        (at.req_in_ns, &["wire"]),
        (at.serving_ns, &["ahead"]),
        (at.written_ns, &["server"]),
        (at.sent_ns, &SENDING),
        (at.copy_ns, &["recovery", "timeout"]),
        (at.complete_ns, &["wire"]),
        (delivered, &["blocked"]),
    ];
    let mut found = Vec::with_capacity(12);
    let mut cursor = issued;
    for (until, keys) in intervals {
        for key in keys {
            let part = parts::index(key);
            let share = left[part].min(until.saturating_sub(cursor));
            if share > 0 {
                found.push((part, cursor, cursor + share));
                left[part] -= share;
                cursor += share;
            }
        }
        cursor = cursor.max(until);
    }
    found
}

/// What an interval in the sender may be made of.
const SENDING: [&str; 4] = ["turn", "cwnd", "rwnd", "stalled"];

fn label(
    out: &mut String,
    object: &Object,
    number: usize,
    y: f64,
    row: f64,
    names: Option<&str>,
    scale: &Scale,
) {
    let baseline = y + row * 0.5 + row.min(12.0) * 0.3;
    let response = match (object.issued_ns, object.delivered_ns) {
        (Some(issued), Some(delivered)) => Some((delivered, (delivered.saturating_sub(issued)) as f64 / 1e6)),
        _ => None,
    };
    if let Some(class) = names {
        // As many letters as fit the margin at the size of the row's text.
        let width = match class {
            "obj" => 30,
            "obj small" => 34,
            _ => 44,
        };
        svg::text(out, &format!("{class} end"), (LEFT - 8.0, baseline), &svg::shortened(&object.name, width));
        if let Some((delivered, ms)) = response {
            let size = if class == "obj" { "" } else { class.trim_start_matches("obj ") };
            svg::text(out, size, (scale.at(delivered as f64 / 1e6) + 4.0, baseline), &span(ms));
        } else {
            svg::text(
                out,
                "marked small",
                (LEFT + 4.0, baseline),
                object.failure.as_deref().unwrap_or("not delivered"),
            );
        }
    } else if number == 1 || number.is_multiple_of(20) {
        svg::text(out, "end small", (LEFT - 8.0, y + row), &format!("object {number}"));
    }
    let _ = write!(
        out,
        r#"<rect class="hit" x="0" y="{}" width="{WIDTH}" height="{}"><title>{}</title></rect>"#,
        px(y),
        px(row),
        escape(&tooltip(object, number)),
    );
}

/// All about one object, in lines.
fn tooltip(object: &Object, number: usize) -> String {
    let mut text = format!("{number}. {}\n{}", object.name, svg::bytes(object.bytes as f64));
    if let (Some(connection), Some(stream)) = (object.connection, object.stream) {
        let _ = write!(text, ", connection {connection}, stream {stream}");
    }
    if let (Some(issued), Some(delivered)) = (object.issued_ns, object.delivered_ns) {
        let (from, until) = (issued as f64 / 1e6, delivered as f64 / 1e6);
        let _ = write!(text, "\n{from:.1} to {until:.1} ms: {:.1} ms", until - from);
    }
    for ((_, name, _), ns) in PARTS.iter().zip(parts_of(object)).filter(|(_, ns)| *ns > 0) {
        let _ = write!(text, "\n{name} {:.1} ms", ns as f64 / 1e6);
    }
    if let Some(failure) = &object.failure {
        let _ = write!(text, "\nfailed: {failure}");
    }
    text
}

/// Where rows have no names: the objects that took longest, by name.
fn slowest(out: &mut String, run: &Run) {
    let mut objects: Vec<(usize, &Object, u64)> = run
        .objects
        .iter()
        .enumerate()
        .filter_map(|(i, object)| Some((i, object, object.delivered_ns?.saturating_sub(object.issued_ns?))))
        .collect();
    objects.sort_by_key(|&(i, _, ns)| (std::cmp::Reverse(ns), i));
    out.push_str("<div class=\"scroll keep\"><table><thead><tr><th>slowest objects</th><th class=\"left\">name</th><th>size</th><th>response time</th><th class=\"left\">mostly</th></tr></thead><tbody>");
    for (i, object, ns) in objects.into_iter().take(8) {
        let mut mostly: Vec<(&str, u64)> =
            PARTS.iter().map(|(_, name, _)| *name).zip(parts_of(object)).collect();
        mostly.sort_by_key(|&(_, ns)| std::cmp::Reverse(ns));
        let mostly: Vec<String> = mostly
            .iter()
            .take(2)
            .filter(|(_, part)| *part > 0)
            .map(|(name, part)| format!("{name} {}", span(*part as f64 / 1e6)))
            .collect();
        let _ = write!(
            out,
            "<tr><td>{}</td><td class=\"left name\">{}</td><td>{}</td><td>{}</td><td class=\"left\">{}</td></tr>",
            i + 1,
            escape(&svg::shortened(&object.name, 60)),
            svg::bytes(object.bytes as f64),
            span(ns as f64 / 1e6),
            escape(&mostly.join(", ")),
        );
    }
    out.push_str("</tbody></table></div>\n");
}
