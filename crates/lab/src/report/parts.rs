//! The parts of a response time: their colours, their legend, what they mean,
//! and how much of each a contestant's objects had.

use super::svg::{self, Scale, escape, figure, px};
use crate::results::label::labels;
use crate::results::{Contestant, Point, SendDetail, Why};
use std::fmt::Write;

/// A part as it is drawn: name of its colour in the style sheet, label, meaning.
pub(super) type Part = (&'static str, &'static str, &'static str);

/// All parts in the order in which they occur; `send` as its three details,
/// since a full window and other objects' turn are different news.
pub(super) const PARTS: [Part; 12] = [
    ("connect", "connect", "waiting for the handshake of its connection, retransmitted packets included"),
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
    ("server", "server", "the server's own time"),
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

/// Where a part stands in [`PARTS`].
pub(super) fn index(key: &str) -> usize {
    PARTS.iter().position(|(known, _, _)| *known == key).unwrap_or(0)
}

/// An object's parts in nanoseconds, in the order of [`PARTS`]; unknown ones
/// as 0. `send` without details counts as `turn`.
pub(super) fn values(why: &Why, detail: Option<&SendDetail>) -> [u64; 12] {
    let [turn, cwnd, rwnd] = match detail {
        Some(detail) => [detail.turn_ns, detail.cwnd_ns, detail.rwnd_ns].map(Some),
        None => [why.send_ns, None, None],
    };
    let [connect, queue, _, stalled, rest @ ..] = why.parts();
    let [ahead, server, recovery, timeout, wire, blocked] = rest;
    [connect, queue, turn, cwnd, rwnd, stalled, ahead, server, recovery, timeout, wire, blocked]
        .map(|part| part.unwrap_or(0))
}

pub(super) fn legend(out: &mut String, present: [bool; 12]) {
    out.push_str("<ul class=\"legend\">");
    for ((key, name, meaning), _) in PARTS.iter().zip(present).filter(|(_, present)| *present) {
        let _ = write!(
            out,
            "<li title=\"{}\"><span class=\"key\" style=\"background:var(--{key})\"></span>{name}</li>",
            escape(meaning)
        );
    }
    out.push_str("</ul>\n");
}

/// Mean milliseconds of each part over the objects of all runs of which every part is known; `None` if that is none.
fn means(contestant: &Contestant) -> Option<[f64; 12]> {
    let (mut sums, mut n) = ([0.0; 12], 0_u64);
    for object in contestant.runs.iter().flat_map(|run| &run.objects).filter(|object| !object.background) {
        let Some(why) = object.why.as_ref().filter(|why| why.is_whole()) else { continue };
        n += 1;
        for (sum, part) in sums.iter_mut().zip(values(why, object.send_detail.as_ref())) {
            *sum += part as f64 / 1e6;
        }
    }
    (n > 0).then(|| sums.map(|sum| sum / n as f64))
}

pub(super) fn render(out: &mut String, point: &Point) {
    let known: Vec<(&Contestant, [f64; 12])> = point
        .contestants
        .iter()
        .filter_map(|contestant| means(contestant).map(|parts| (contestant, parts)))
        .collect();
    if known.is_empty() {
        return;
    }
    out.push_str("<h2>Where an object's time went</h2>\n");
    let longest = known.iter().map(|(_, parts)| parts.iter().sum::<f64>()).fold(0.0, f64::max);
    let mut present = [false; 12];
    for (_, parts) in &known {
        for (present, part) in present.iter_mut().zip(parts) {
            *present |= *part > 0.0005 * longest;
        }
    }
    legend(out, present);
    let (width, left, row) = (1040.0, 190.0, 30.0);
    let height = row * known.len() as f64 + 22.0;
    let scale = Scale::new(0.0, longest, left, width - left - 60.0);
    out.push_str("<figure>");
    svg::open(out, width, height, "mean parts of the response time");
    let ticks = scale.ticks(8);
    for (tick, label) in ticks.iter().zip(svg::time_labels(&ticks)) {
        svg::line(out, "grid", (scale.at(*tick), 0.0), (scale.at(*tick), height - 20.0));
        svg::text(out, "mid", (scale.at(*tick), height - 6.0), &label);
    }
    let names: Vec<&str> = known.iter().map(|(contestant, _)| contestant.label()).collect();
    let names = labels(&names, 26);
    for (i, (_, parts)) in known.iter().enumerate() {
        let y = row * i as f64 + row / 2.0;
        svg::text(out, "obj end", (left - 8.0, y + 4.0), &names[i]);
        let mut from = 0.0;
        for ((key, name, _), ms) in PARTS.iter().zip(parts) {
            if *ms > 0.0 {
                let (x1, x2) = (scale.at(from), scale.at(from + ms));
                let _ = write!(
                    out,
                    r#"<rect x="{}" y="{}" width="{}" height="20" fill="var(--{key})"><title>{name}: {} ms, {:.0} %</title></rect>"#,
                    px(x1),
                    px(y - 10.0),
                    px(x2 - x1),
                    figure(*ms),
                    100.0 * ms / parts.iter().sum::<f64>(),
                );
                from += ms;
            }
        }
        svg::text(out, "", (scale.at(from) + 6.0, y + 4.0), &svg::span(from));
    }
    out.push_str("</svg></figure>\n");

    out.push_str("<div class=\"scroll keep\"><table><thead><tr><th>mean ms of an object</th>");
    for ((_, name, _), _) in PARTS.iter().zip(present).filter(|(_, present)| *present) {
        let _ = write!(out, "<th>{name}</th>");
    }
    // What is too small for a colour has one column together, so that a row adds up.
    let rest = |parts: &[f64; 12]| -> f64 {
        parts.iter().zip(present).filter(|(_, present)| !present).map(|(ms, _)| ms).sum()
    };
    let others = known.iter().any(|(_, parts)| rest(parts) >= 0.005);
    if others {
        let small = PARTS.iter().zip(present).filter(|(_, present)| !present).map(|((_, name, _), _)| *name);
        let _ = write!(out, "<th title=\"{}\">other</th>", small.collect::<Vec<_>>().join(", "));
    }
    out.push_str("<th>in all</th></tr></thead><tbody>");
    for (contestant, parts) in &known {
        let _ = write!(out, "<tr><th>{}</th>", svg::name(contestant.label()));
        for (ms, _) in parts.iter().zip(present).filter(|(_, present)| *present) {
            let _ = write!(out, "<td>{}</td>", figure(*ms));
        }
        if others {
            let _ = write!(out, "<td>{}</td>", figure(rest(parts)));
        }
        let _ = write!(out, "<td>{}</td></tr>", figure(parts.iter().sum::<f64>()));
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
