//! Draws runs object by object. The bar of an object begins when the client wanted the object and ends with its
//! delivery. The bar is divided into the parts of the response time. Network traffic is drawn below, on the same axis.
//! The reader can step through the best, median and worst run of every contestant.
//!
//! Runs with many objects have thinner rows. Names are left out if the rows are too thin to read.

use super::chart::{Data, Figure, Width};
use super::parts::{self, PARTS, Strokes};
use super::svg::{self, Scale, escape, ms, px, span};
use super::traffic;
use super::words::{self, term};
use super::{outcome, shared_end};
use anabranch_results::csv::optional;
use anabranch_results::{Object, Point, Run};
use std::fmt::Write;

/// The labels of the runs of a contestant that the reader can select, in the order of [`Point::drawn_runs`].
const STEPS: [&str; 3] = ["best run", "median run", "worst run"];
/// The index in [`STEPS`] of the run that is shown first and printed on paper.
const MEDIAN: usize = 1;

/// Draws the waterfalls of the median runs. If `all` is set, also draws those of the best and worst runs.
pub(super) fn render(out: &mut String, point: &Point, all: bool) {
    let names = words::names(point);
    let chosen: Vec<(usize, [usize; 3])> = point
        .contestants
        .iter()
        .enumerate()
        .filter_map(|(i, contestant)| Some((i, point.drawn_runs(contestant)?)))
        .filter(|(i, _)| point.contestants[*i].runs.iter().any(|run| !run.objects.is_empty()))
        .collect();
    if chosen.is_empty() {
        return;
    }
    let run_of = |(i, runs): &(usize, [usize; 3]), step: usize| &point.contestants[*i].runs[runs[step]];
    out.push_str("<h2>Object by object</h2>\n");
    let steps: Vec<usize> = if all && chosen.iter().any(|(_, runs)| runs[0] != runs[2]) {
        vec![0, MEDIAN, 2]
    } else {
        vec![MEDIAN]
    };
    let mut present = [false; 13];
    for object in steps.iter().flat_map(|step| chosen.iter().flat_map(|own| &run_of(own, *step).objects)) {
        for (present, part) in present.iter_mut().zip(parts_of(object)) {
            *present |= part > 0;
        }
    }
    parts::legend(out, present);
    out.push_str("<div data-steps=\"which run\">");
    for step in steps {
        let hidden = if step == MEDIAN { "" } else { " hidden" };
        let _ = write!(out, "<div class=\"step\" data-label=\"{}\"{hidden}>", STEPS[step]);
        let length = |run: &Run| traffic::length(run).max(run.limit_ns.unwrap_or(0));
        let shared = shared_end(chosen.iter().map(|own| length(run_of(own, step))));
        let peak = chosen.iter().map(|own| traffic::peak_down(run_of(own, step))).fold(1e-6, f64::max);
        for own in &chosen {
            let run = run_of(own, step);
            let end = shared.unwrap_or(length(run));
            one(out, point, (&names[own.0], STEPS[step]), run, (end, shared.is_some(), peak));
        }
        out.push_str("</div>");
    }
    out.push_str("</div>");
    let _ = writeln!(
        out,
        "<p class=\"note\">Rows in the order of the page; the time behind a bar is the object's response time; parts that \
         alternate within one wait are drawn as sums. Solid line: end of the {}. Dashed line: the {}. Strip below: what the \
         network carried to the client, sent (filled) and arrived (line), on the same axis.</p>",
        point.workload.workload_noun(),
        term("limit", "limit"),
    );
}

fn one(
    out: &mut String,
    point: &Point,
    (name, step): (&str, &str),
    run: &Run,
    (end, shared, peak): (u64, bool, f64),
) {
    let noun = point.workload.workload_noun();
    let time = run.page_ns.map_or("not finished".to_owned(), |ns| format!("{noun} time {}", span(ms(ns))));
    let own = if shared { "" } else { "; time scale of its own" };
    let about = format!(
        "{step}: seed {}, {time}, {}{}{own}",
        run.seed,
        svg::format_count(run.connections, "connection"),
        outcome(run)
    );
    let figure = Figure {
        name: "waterfall".to_owned(),
        heading: format!("{} <span class=\"meta\">{}</span>", escape(name), escape(&about)),
        shows: format!("Waterfall of {name}, {about}: {}.", slowest_in_words(run)),
        data: data(run),
        ..Figure::default()
    };
    figure.render_with(out, Width::Wide, &attributes(run), |svg, width| draw(svg, width, run, end, peak));
    if run.objects.len() > NAMED_ROWS {
        slowest(out, run);
    }
}

/// If there are at most this many rows, every row has its name.
const NAMED_ROWS: usize = 160;
/// The space above the first row of the waterfall, in pixels.
const TOP: f64 = 20.0;
/// The height of the strip that shows the network traffic below a waterfall, in pixels.
const STRIP_HEIGHT: f64 = 44.0;

/// Returns the height of a row of the waterfall, and the CSS class of the object's name. Both depend on the number of
/// rows.
fn rows(count: usize, width: Width) -> (f64, Option<&'static str>) {
    match (count, width.is_narrow()) {
        (0..=60, true) => (26.0, Some("obj")),
        (61..=120, true) => (20.0, Some("obj small")),
        (0..=30, false) => (18.0, Some("obj")),
        (31..=90, false) => (13.0, Some("obj small")),
        (91..=NAMED_ROWS, _) => (9.0, width.pick(None, Some("obj tiny"))),
        (161..=400, _) => (3.6, None),
        _ => (2.4, None),
    }
}

/// Returns the attributes with which the page's script finds the row under the pointer.
fn attributes(run: &Run) -> impl Fn(Width) -> String + use<'_> {
    move |width| {
        let (row, _) = rows(run.objects.len(), width);
        format!(
            " class=\"rows\" data-row=\"{row}\" data-top=\"{TOP}\" data-first=\"0\" data-count=\"{}\"",
            run.objects.len()
        )
    }
}

/// Returns the times of every object in a run, for the table of the figure.
fn data(run: &Run) -> Data {
    let mut columns =
        vec!["object", "bytes", "connection", "stream", "wanted (ms)", "delivered (ms)", "response (ms)"];
    let names: Vec<String> = PARTS.iter().map(|(_, name, _)| format!("{name} (ms)")).collect();
    columns.extend(names.iter().map(String::as_str));
    columns.push("failure");
    let mut data = Data::new(&columns);
    let ms = |ns: Option<u64>| ns.map_or(String::new(), |ns| format!("{:.3}", ms(ns)));
    for object in &run.objects {
        let response =
            object.delivered_ns.zip(object.issued_ns).map(|(until, from)| until.saturating_sub(from));
        let mut row = vec![
            object.name.clone(),
            object.bytes.to_string(),
            optional(object.connection),
            optional(object.stream),
            ms(object.issued_ns),
            ms(object.delivered_ns),
            ms(response),
        ];
        let known = object.why.is_some();
        row.extend(parts_of(object).map(|ns| if known && ns > 0 { ms(Some(ns)) } else { String::new() }));
        row.push(object.failure.clone().unwrap_or_default());
        data.row(&row);
    }
    data
}

fn draw(out: &mut String, width: Width, run: &Run, end: u64, peak: f64) -> u32 {
    let (row, names) = rows(run.objects.len(), width);
    let narrow = width.is_narrow();
    let whole = f64::from(width.pixels());
    let (left, right) = if narrow { (2.0, 8.0) } else { (210.0, 62.0) };
    let scale = Scale::new(0.0, end as f64 / 1e6, left, whole - left - right);
    let bottom = TOP + run.objects.len() as f64 * row;
    let ticks = scale.ticks(if narrow { 4 } else { 8 });
    for (tick, label) in ticks.iter().zip(svg::time_labels(&ticks)) {
        let x = scale.at(*tick);
        let class = if narrow && *tick == 0.0 { "plain" } else { "plain mid" };
        svg::text(out, class, (x.min(whole - 18.0), 13.0), &label);
        svg::line(out, "grid", (x, TOP), (x, bottom + STRIP_HEIGHT + 4.0));
    }
    let top = bottom + 4.0;
    // The lines that mark the limit and the page time are drawn before the labels, so that they do not strike through
    // the labels.
    for (at, class) in [(run.limit_ns, "limit"), (run.page_ns, "ends")] {
        if let Some(ns) = at {
            let x = scale.at(ms(ns));
            svg::line(out, class, (x, TOP), (x, top + STRIP_HEIGHT));
        }
    }
    bars(out, &run.objects, row, &scale, names.is_some() && narrow);
    for (i, object) in run.objects.iter().enumerate() {
        label(out, object, i + 1, (TOP + i as f64 * row, row), names, (&scale, left, narrow));
    }
    traffic::strip(out, run, &scale, (top, STRIP_HEIGHT), peak);
    if !narrow {
        svg::text(out, "plain end", (left - 8.0, top + 12.0), "wire, to the client");
    }
    svg::line(out, "axis", (left, top + STRIP_HEIGHT), (whole - right, top + STRIP_HEIGHT));
    (top + STRIP_HEIGHT + 4.0).ceil() as u32
}

fn bars(out: &mut String, objects: &[Object], row: f64, scale: &Scale, below_name: bool) {
    let mut strokes = Strokes::default();
    let thick = if below_name { row * 0.4 } else { (row * 0.82).max(row - 2.5) };
    let middle_of = |i: usize| TOP + i as f64 * row + if below_name { row * 0.75 } else { row / 2.0 };
    for (i, object) in objects.iter().enumerate() {
        let middle = middle_of(i);
        let y = px(middle);
        let Some(issued) = object.issued_ns else { continue };
        let at = |ns: u64| scale.at(ms(ns));
        let Some(delivered) = object.delivered_ns else {
            let x = at(issued);
            let arm = (row * 0.35).min(4.0);
            for (dx, dy) in [(arm, arm), (arm, -arm)] {
                let _ = write!(
                    strokes.missing,
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
            let _ = write!(strokes.unknown, "M{} {y}H{}", px(at(issued)), px(at(delivered)));
        }
        for (part, from, until) in segments {
            let (x1, x2) = (at(from), at(until));
            // Parts narrower than 0.05 pixels are not drawn, because nobody could see them.
            if x2 - x1 >= 0.05 {
                let _ = write!(strokes.parts[part], "M{} {y}H{}", px(x1), px(x2));
            }
        }
    }
    strokes.write(out, thick);
}

/// Returns the parts of an object's response time; all are zero if they are not known.
fn parts_of(object: &Object) -> [u64; 13] {
    object.why.as_ref().map_or([0; 13], |breakdown| parts::values(breakdown, object.send_detail.as_ref()))
}

/// Returns the time spans of the parts of an object's response time, as (part, from, until). `part` is an index in
/// [`PARTS`]. `from` and `until` are in nanoseconds and have the same origin as `issued`.
///
/// The result records the length of every part, but not every instant at which one part ends and the next begins. Parts
/// between the same two recorded instants are drawn in a fixed order.
fn segments(object: &Object, issued: u64, delivered: u64) -> Vec<(usize, u64, u64)> {
    let Some(at) = &object.instants else { return Vec::new() };
    let mut left = parts_of(object);
    let intervals: [(u64, &[&str]); 10] = [
        (at.assigned_ns, &["connect", "secure", "queue"]),
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
    let mut found = Vec::with_capacity(13);
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

/// The parts of the response time in which an object waits at its sender. An interval between two recorded instants may
/// contain several of these parts.
const SENDING: [&str; 4] = ["turn", "cwnd", "rwnd", "stalled"];

fn label(
    out: &mut String,
    object: &Object,
    number: usize,
    (y, row): (f64, f64),
    names: Option<&str>,
    (scale, left, narrow): (&Scale, f64, bool),
) {
    let response = match (object.issued_ns, object.delivered_ns) {
        (Some(issued), Some(delivered)) => Some((delivered, (delivered.saturating_sub(issued)) as f64 / 1e6)),
        _ => None,
    };
    let Some(class) = names else {
        if !narrow && (number == 1 || number.is_multiple_of(20)) {
            svg::text(out, "small end", (left - 8.0, y + row), &format!("object {number}"));
        }
        return;
    };
    if narrow {
        // The object's name and its time are written on one line above the bar.
        let time = response.map_or("not delivered".to_owned(), |(_, ms)| span(ms));
        let text = format!("{}  {time}", described(&object.name, if class == "obj" { 38 } else { 42 }));
        let class = if response.is_some() { "small obj" } else { "small marked" };
        svg::text(out, class, (left, y + row * 0.45), &text);
        return;
    }
    let baseline = y + row * 0.5 + row.min(12.0) * 0.3;
    // The number of letters of an object's name that fit into the left margin, at the text size of this row.
    let width = match class {
        "obj" => 30,
        "obj small" => 34,
        _ => 44,
    };
    let size = class.strip_prefix("obj ").unwrap_or("plain");
    svg::text(out, &format!("{size} obj end"), (left - 8.0, baseline), &described(&object.name, width));
    if let Some((delivered, ms)) = response {
        svg::text(out, size, (scale.at(delivered as f64 / 1e6) + 4.0, baseline), &span(ms));
    } else {
        let failure = object.failure.as_deref().unwrap_or("not delivered");
        svg::text(out, "small marked", (left + 4.0, baseline), failure);
    }
}

/// Returns the type of an object, its host and its path, in at most `width` characters. The host is at the beginning
/// and the file at the end, so that both are readable if the middle is left out.
fn described(name: &str, width: usize) -> String {
    let bare = name.split_once("://").map_or(name, |(_, rest)| rest);
    let kind = kind(bare);
    if kind.is_empty() {
        return svg::shortened(bare, width);
    }
    format!("{kind} {}", svg::shortened(bare, width.saturating_sub(kind.len() + 1)))
}

/// Returns the type of an object from the end of its path; empty if it is not known.
fn kind(path: &str) -> &'static str {
    let path = path.split(['?', '#']).next().unwrap_or(path);
    let file = path.split_once('/').map_or("", |(_, path)| path.rsplit('/').next().unwrap_or(path));
    match file.rsplit_once('.').map_or("", |(_, end)| end).to_ascii_lowercase().as_str() {
        "" if file.is_empty() && path.contains('/') => "html",
        "html" | "htm" => "html",
        "css" => "css",
        "js" | "mjs" => "js",
        "png" | "jpg" | "jpeg" | "gif" | "svg" | "webp" | "avif" | "ico" => "image",
        "woff" | "woff2" | "ttf" | "otf" => "font",
        "mp4" | "webm" | "mp3" => "media",
        "json" | "xml" | "txt" => "data",
        _ => "",
    }
}

/// Returns the objects of a run, sorted by response time, longest first.
fn by_time(run: &Run) -> Vec<(usize, &Object, u64)> {
    let mut objects: Vec<(usize, &Object, u64)> = run
        .objects
        .iter()
        .enumerate()
        .filter_map(|(i, object)| Some((i, object, object.delivered_ns?.saturating_sub(object.issued_ns?))))
        .collect();
    objects.sort_by_key(|&(i, _, ns)| (std::cmp::Reverse(ns), i));
    objects
}

/// Returns the text alternative of the waterfall: the number of objects, and the slowest objects.
fn slowest_in_words(run: &Run) -> String {
    let longest: Vec<String> = by_time(run)
        .into_iter()
        .take(3)
        .map(|(_, object, ns)| format!("{} {}", svg::shortened(&object.name, 60), span(ms(ns))))
        .collect();
    format!("{}; slowest {}", svg::format_count(run.objects.len() as u64, "object"), longest.join(", "))
}

/// Writes a table with the names and times of the slowest objects, for drawings whose rows have no names.
fn slowest(out: &mut String, run: &Run) {
    out.push_str("<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th>slowest objects</th><th class=\"left\">name</th><th>size</th><th>response time</th><th class=\"left\">mostly</th></tr></thead><tbody>");
    for (i, object, ns) in by_time(run).into_iter().take(8) {
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
            span(ms(ns)),
            escape(&mostly.join(", ")),
        );
    }
    out.push_str("</tbody></table></div>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_has_type_host_and_file() {
        let name = "https://cdn.example.org/static/images/teaser/large/picture-003.jpg?w=640";
        assert_eq!(described(name, 38), "image cdn.example.org…re-003.jpg?w=640");
        assert_eq!(described("/", 38), "html /");
        assert_eq!(described("/css/01.css", 38), "css /css/01.css");
        assert_eq!(described("message 3", 38), "message 3");
    }
}
