//! The parts of a response time: their colours, their legend, their meanings, and the mean of each part over a
//! contestant's objects.

use super::chart::{self, Axis, Data, Figure, Frame, Ink, LabelPosition, Mark, Width};
use super::svg::{self, escape, format_value};
use super::words;
use anabranch_results::label::labels;
use anabranch_results::{Contestant, Point, SendDetail, TimeBreakdown};
use std::fmt::Write;

/// How a part of the response time is drawn: the name of its colour in the style sheet, its label, and its meaning.
pub(super) type Part = (&'static str, &'static str, &'static str);

/// All parts of a response time, in the order in which they occur. The part `send` is shown as three parts, because a
/// sender may wait for three reasons: the congestion window, the receive window, and data of other objects.
pub(super) const PARTS: [Part; 13] = [
    ("connect", "connect", "waiting for the handshake of its connection, retransmitted packets included"),
    ("secure", "secure", "waiting for the handshake of TLS, after that of the transport"),
    ("queue", "queue", "waiting for a connection slot or a stream"),
    (
        "turn",
        "send: turn",
        "waiting in the sender while other objects' bytes went first, or for a small reason of its own",
    ),
    (
        "cwnd",
        "send: cwnd",
        "waiting in the sender for room in the congestion window, with nothing to retransmit",
    ),
    ("rwnd", "send: rwnd", "waiting in the sender for room in the receiver's window"),
    (
        "stalled",
        "stalled",
        "waiting in the sender while it retransmitted other bytes or awaited a timer for them",
    ),
    ("ahead", "ahead", "the request lay unread or unserved behind earlier exchanges of its connection"),
    (
        "server",
        "server",
        "the server's work on the request, and the wait until the transport took the head of the response, behind \
         other responses",
    ),
    ("recovery", "recovery", "own bytes lost and retransmitted by fast retransmit"),
    ("timeout", "timeout", "own bytes lost and retransmitted only when a timer ran out"),
    (
        "wire",
        "wire",
        "flight of the request and of the last response bytes: router queues, serialization, propagation",
    ),
    (
        "blocked",
        "blocked",
        "complete at the receiver, but withheld behind another object's hole: head-of-line blocking of the transport",
    ),
];

/// Returns the index of a part in [`PARTS`].
pub(super) fn index(key: &str) -> usize {
    PARTS.iter().position(|(known, _, _)| *known == key).unwrap_or(0)
}

/// Returns the parts of an object's response time in nanoseconds, in the order of [`PARTS`]. Unknown parts are 0. If
/// the details of the part `send` are not known, the whole part counts as `turn`.
pub(super) fn values(why: &TimeBreakdown, detail: Option<&SendDetail>) -> [u64; 13] {
    let [turn, cwnd, rwnd] = match detail {
        Some(detail) => [detail.turn_ns, detail.cwnd_ns, detail.rwnd_ns].map(Some),
        None => [why.send_ns, None, None],
    };
    let [connect, secure, queue, _, stalled, rest @ ..] = why.parts();
    let [ahead, server, recovery, timeout, wire, blocked] = rest;
    [connect, secure, queue, turn, cwnd, rwnd, stalled, ahead, server, recovery, timeout, wire, blocked]
        .map(|part| part.unwrap_or(0))
}

pub(super) fn legend(out: &mut String, present: [bool; 13]) {
    out.push_str("<ul class=\"legend\">");
    for ((key, name, meaning), _) in PARTS.iter().zip(present).filter(|(_, present)| *present) {
        let _ = write!(
            out,
            "<li><span class=\"key\" style=\"background:var(--{key})\"></span>{}</li>",
            words::explained(name, meaning)
        );
    }
    out.push_str("</ul>\n");
}

/// Returns the mean of each part in milliseconds, over the objects of all runs. Background objects and objects with an
/// unknown part are left out. `None` if no object is left.
fn means(contestant: &Contestant) -> Option<[f64; 13]> {
    let sums = contestant.part_sums()?;
    let sum = values(&sums.why, Some(&sums.send_detail));
    Some(sum.map(|ns| ns as f64 / 1e6 / sums.objects.max(1) as f64))
}

/// The mean parts of the response times at one point, for the contestants whose parts are known. Also says which parts
/// are large enough to show.
struct Means<'a> {
    point: &'a Point,
    /// The index of each contestant whose parts are known, with the means of its parts over all objects.
    known: Vec<(usize, [f64; 13])>,
    present: [bool; 13],
    longest: f64,
}

/// Collects the SVG paths of a drawing of response times: one path for each part, one for times whose parts are
/// unknown, and one for undelivered objects. The drawing is written directly, without the crate `plotters`. All strokes
/// of a part are one path, which keeps the file small.
#[derive(Default)]
pub(super) struct Strokes {
    pub parts: [String; 13],
    pub unknown: String,
    pub missing: String,
}

impl Strokes {
    /// Writes the SVG paths, with strokes `thick` pixels wide.
    pub fn write(&self, out: &mut String, thick: f64) {
        let thick = svg::px(thick);
        for ((key, _, _), path) in PARTS.iter().zip(&self.parts).filter(|(_, path)| !path.is_empty()) {
            let _ =
                write!(out, r#"<path class="bar" stroke="var(--{key})" stroke-width="{thick}" d="{path}"/>"#);
        }
        if !self.unknown.is_empty() {
            let _ = write!(out, r#"<path class="bar whole" stroke-width="{thick}" d="{}"/>"#, self.unknown);
        }
        if !self.missing.is_empty() {
            let _ = write!(out, r#"<path class="mark" d="{}"/>"#, self.missing);
        }
    }
}

/// Draws the parts of an object's response time for each contestant, and lists them in a table. Each part is a mean
/// over objects.
pub(super) fn render(out: &mut String, point: &Point) {
    let all = point.contestants.iter().enumerate();
    let known: Vec<_> = all.filter_map(|(i, contestant)| Some((i, means(contestant)?))).collect();
    if known.is_empty() {
        return;
    }
    out.push_str("<h2>Where an object's time went</h2>\n");
    let longest = known.iter().map(|(_, parts)| parts.iter().sum::<f64>()).fold(0.0, f64::max);
    let mut present = [false; 13];
    for (_, parts) in &known {
        for (present, part) in present.iter_mut().zip(parts) {
            *present |= *part > 0.0005 * longest;
        }
    }
    legend(out, present);
    let means = Means { point, known, present, longest };
    means.bars(out);
    means.table(out);
}

impl Means<'_> {
    fn bars(&self, out: &mut String) {
        let (known, longest) = (&self.known, self.longest);
        let all = words::names(self.point);
        let names: Vec<&str> = known.iter().map(|(i, _)| all[*i].as_str()).collect();
        let mut columns = vec!["contestant".to_owned()];
        columns.extend(PARTS.iter().map(|(_, name, _)| format!("{name} (ms)")));
        let mut data = Data::new(&columns.iter().map(String::as_str).collect::<Vec<_>>());
        for (name, (_, parts)) in names.iter().zip(known) {
            let mut row = vec![(*name).to_owned()];
            row.extend(parts.iter().map(|ms| format!("{ms:.3}")));
            data.row(&row);
        }
        let figure = Figure {
            name: "parts".to_owned(),
            shows: known
                .iter()
                .map(|(i, parts)| format!("{}: {} in all", all[*i], svg::span(parts.iter().sum())))
                .collect::<Vec<_>>()
                .join("; "),
            data,
            ..Figure::default()
        };
        figure.render(out, Width::Wide, |svg, width| {
            let narrow = width.is_narrow();
            let (row, left) = if narrow { (48, 4) } else { (32, 200) };
            let frame =
                Frame { width: width.pixels(), height: row * known.len() as u32 + 36, left, bottom: 22 };
            let x = Axis::time(0.0, longest * 1.08, if narrow { 4 } else { 8 });
            let y = Axis::bare(known.len() as f64 - 0.5, -0.5);
            let names = labels(&names, if narrow { 40 } else { 28 });
            chart::draw(svg, frame, [&x, &y], |plot| {
                for (i, (_, parts)) in known.iter().enumerate() {
                    let sum: f64 = parts.iter().sum();
                    let middle = i as f64 + if narrow { 0.2 } else { 0.0 };
                    let (at, position) = if narrow {
                        (i as f64 - 0.28, LabelPosition::Right)
                    } else {
                        (middle, LabelPosition::Left)
                    };
                    chart::text(plot, (0.0, at), position, Ink::named("ink"), &format!("{}\u{a0}", names[i]));
                    let mut from = 0.0;
                    for ((key, name, _), ms) in PARTS.iter().zip(parts).filter(|(_, ms)| **ms > 0.0) {
                        let title = format!("{name}: {} ms, {:.0} %", format_value(*ms), 100.0 * ms / sum);
                        chart::marks(
                            plot,
                            [Mark::bar((from, middle), (from + ms, middle), 20.0, Ink::named(key), title)],
                        );
                        from += ms;
                    }
                    chart::text(
                        plot,
                        (from, middle),
                        LabelPosition::Right,
                        Ink::named("ink"),
                        &format!("\u{a0}{}", svg::span(sum)),
                    );
                }
            })
        });
    }

    fn table(&self, out: &mut String) {
        let (point, present) = (self.point, self.present);
        out.push_str("<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th>mean ms of an object</th>");
        for ((_, name, _), _) in PARTS.iter().zip(present).filter(|(_, present)| *present) {
            let _ = write!(out, "<th>{name}</th>");
        }
        // Parts that are too small to have a colour share one column, so that the columns of a row add up.
        let rest = |parts: &[f64; 13]| -> f64 {
            parts.iter().zip(present).filter(|(_, present)| !present).map(|(ms, _)| ms).sum()
        };
        let has_rest = self.known.iter().any(|(_, parts)| rest(parts) >= 0.005);
        if has_rest {
            let small =
                PARTS.iter().zip(present).filter(|(_, present)| !present).map(|((_, name, _), _)| *name);
            let _ = write!(out, "<th title=\"{}\">other</th>", small.collect::<Vec<_>>().join(", "));
        }
        out.push_str("<th>in all</th></tr></thead><tbody>");
        for (i, parts) in &self.known {
            let _ = write!(out, "<tr><th>{}</th>", words::head(&point.contestants[*i]));
            for (ms, _) in parts.iter().zip(present).filter(|(_, present)| *present) {
                let _ = write!(out, "<td>{}</td>", format_value(*ms));
            }
            if has_rest {
                let _ = write!(out, "<td>{}</td>", format_value(rest(parts)));
            }
            let _ = write!(out, "<td>{}</td></tr>", format_value(parts.iter().sum::<f64>()));
        }
        let short: Vec<String> = point.contestants.iter().filter_map(Contestant::shortfall).collect();
        let over = match short.as_slice() {
            [] => "Over all delivered objects of all runs.".to_owned(),
            short => format!("Over the objects whose parts are known. {}.", escape(&short.join("; "))),
        };
        let _ = write!(
            out,
            "</tbody></table></div>\n<p class=\"note\">{over} The parts of each object add up to its response time to the \
             nanosecond. Meanings stand at the end.</p>\n",
        );
    }
}

pub(super) fn glossary(out: &mut String) {
    out.push_str("<h2>What the parts mean</h2>\n<div class=\"keep\"><table><tbody>");
    for (key, name, meaning) in PARTS {
        let _ = write!(
            out,
            "<tr><th><span class=\"key\" style=\"background:var(--{key})\"></span> {name}</th><td class=\"wrap\">{}</td></tr>",
            escape(meaning)
        );
    }
    out.push_str("</tbody></table></div>\n");
}
