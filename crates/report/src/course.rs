//! Draws data of a run that cannot be seen in its received packets: congestion windows over time, queueing delays, and
//! losses in the network.

use super::chart::{self, Axis, Data, Figure, Frame, Ink, Mark, Plot, Shape, Width};
use super::svg::{bytes, format_count, ms, span};
use super::words::{distinct, term};
use anabranch_results::course::{Course, Loss};

const HEIGHT: u32 = 180;

/// Draws two figures side by side: congestion windows, and queueing delays. `subject` is the name of the contestant in
/// the headings.
pub(super) fn render(out: &mut String, course: &Course, subject: &str) {
    let ends = course.windows.iter().map(|window| window.0);
    let ends =
        ends.chain(course.waits.iter().map(|wait| wait.0)).chain(course.lost.iter().map(|loss| loss.at_ns));
    let Some(end) = ends.max().map(ms) else { return };
    out.push_str("<div class=\"two\">");
    windows(out, course, subject, end);
    waits(out, course, subject, end);
    out.push_str("</div>\n");
}

fn windows(out: &mut String, course: &Course, subject: &str, end: f64) {
    let connections = distinct(course.windows.iter().map(|(_, connection, _)| *connection));
    let Some(most) = course.windows.iter().map(|window| window.2).max() else { return };
    let mut data = Data::new(&["at (ms)", "connection", "congestion window (bytes)"]);
    for (at, connection, window) in &course.windows {
        data.row(&[format!("{:.6}", ms(*at)), connection.to_string(), window.to_string()]);
    }
    let summary = format!("at most {}", bytes(most as f64));
    let lines = match connections.len() {
        1 => String::new(),
        n => format!("; {} a line each", format_count(n as u64, "connection")),
    };
    let figure = Figure {
        name: "windows".to_owned(),
        heading: format!(
            "{} <span class=\"meta\">{summary}{lines}; red: a packet lost</span>",
            term("congestion window", "Congestion window")
        ),
        shows: format!(
            "Congestion windows over time, {subject}: {summary}; {}.",
            format_count(course.lost.len() as u64, "loss")
        ),
        data,
        ..Figure::default()
    };
    figure.render(out, Width::Half, |svg, width| {
        let (frame, x) = axes(width, end);
        let y = Axis::linear(0.0, most as f64 * 1.05, 4, bytes);
        chart::draw(svg, frame, [&x, &y], |plot| {
            losses(plot, &course.lost, most as f64);
            for (i, connection) in connections.iter().enumerate() {
                let own = course.windows.iter().filter(|window| window.1 == *connection);
                let mut points = own.map(|(at, _, window)| (ms(*at), *window as f64));
                let Some(first) = points.next() else { continue };
                let mut steps = chart::steps(first, points);
                steps.extend(steps.last().map(|last| (end, last.1)));
                chart::line(plot, steps, Ink::contestant(i), 1.3);
            }
        })
    });
}

fn waits(out: &mut String, course: &Course, subject: &str, end: f64) {
    let Some(longest) = course.waits.iter().map(|wait| wait.2).max().map(ms) else { return };
    let queued = course.lost.iter().filter(|loss| loss.by_queue).count();
    let summary = format!(
        "at most {}; {} lost, {queued} of them by a full queue",
        span(longest),
        format_count(course.lost.len() as u64, "packet")
    );
    let mut data = Data::new(&["at (ms)", "path", "wait (ms)", "lost"]);
    for (at, path, wait) in &course.waits {
        let cells =
            [format!("{:.6}", ms(*at)), (path + 1).to_string(), format!("{:.6}", ms(*wait)), String::new()];
        data.row(&cells);
    }
    for loss in &course.lost {
        let cause = if loss.by_queue { "queue" } else { "network" };
        let cells =
            [format!("{:.6}", ms(loss.at_ns)), (loss.path + 1).to_string(), String::new(), cause.to_owned()];
        data.row(&cells);
    }
    let figure = Figure {
        name: "queue".to_owned(),
        heading: format!("Waiting in the {} <span class=\"meta\">{summary}</span>", term("queue", "queue")),
        shows: format!("Waits of packets on their way over time, {subject}: {summary}."),
        note: "Each dot is a packet that arrived: how much longer it took than the quickest of its size. Red strokes: packets \
               that were lost."
            .to_owned(),
        data,
        ..Figure::default()
    };
    figure.render(out, Width::Half, |svg, width| {
        let (frame, x) = axes(width, end);
        let most = longest.max(0.1);
        let y = Axis::time(0.0, most * 1.05, 4);
        chart::draw(svg, frame, [&x, &y], |plot| {
            losses(plot, &course.lost, most);
            let paths = course.waits.iter().map(|wait| wait.1).max().unwrap_or(0);
            for path in 0..=paths {
                let own = course.waits.iter().filter(|wait| wait.1 == path);
                let dots = own.map(|(at, _, wait)| (ms(*at), ms(*wait))).collect();
                let ink = if path == 0 { Ink::named("accent") } else { Ink::contestant(path) };
                chart::marks(plot, [Mark::many(dots, Shape::Dots(1.2), ink)]);
            }
        })
    });
}

fn axes(width: Width, end: f64) -> (Frame, Axis) {
    let frame = Frame { left: 60, bottom: 22, ..Frame::new(width.pixels(), HEIGHT) };
    (frame, Axis::time(0.0, end, width.pick(4, 6)))
}

/// Draws a stroke for each lost packet. The stroke is taller if the packet was lost at a full queue.
fn losses(plot: &mut Plot<'_, '_>, lost: &[Loss], high: f64) {
    for loss in lost.iter().take(MOST_STROKES) {
        let share = if loss.by_queue { 1.0 } else { 0.6 };
        let at = ms(loss.at_ns);
        chart::faint_line(plot, [(at, 0.0), (at, high * share)], (Ink::named("mark"), 0.4), 1.0);
    }
}

/// The maximum number of strokes in a chart, one for each lost packet. More strokes would merge into one red area.
const MOST_STROKES: usize = 300;
