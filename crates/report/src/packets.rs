//! Draws the packets of a capture: when each sequence number was sent and acknowledged, and why data was retransmitted.
//! It also shows how much data was in flight, and how long round trips took.
//!
//! This module also renders the page that `decode --html` writes for any capture.

use super::chart::{self, Axis, ChartPoint, Data, Figure, Frame, Ink, Mark, Shape, Width};
use super::document;
use super::svg::{bytes, escape, format_count, grouped, ms, span};
use super::words::{self, term};
use anabranch_capture::results::{Conversation, DataChannel, Decoded};
use anabranch_capture::views::{SendReason, View};
use std::fmt::Write;

/// The maximum number of conversations that are drawn per capture. The conversations with the most data are drawn.
const CONVERSATIONS: usize = 8;
/// The maximum number of conversations that a report draws per contestant. It is smaller than [`CONVERSATIONS`],
/// because a report contains the captures of several contestants.
pub(super) const OF_A_CONTESTANT: usize = 2;
/// The maximum number of data records that are kept per direction. The start of a long transfer is enough to see how it
/// works.
pub const MAX_DRAWN: usize = 6_000;

/// Returns how a reason for sending is drawn: the colour, the words, and the size of the mark.
fn reason_style(why: SendReason) -> (&'static str, &'static str, f64) {
    match why {
        SendReason::New => ("soft", "sent for the first time", 1.0),
        SendReason::Overtaken => ("turn", "overtaken on the way", 2.0),
        SendReason::Fast => ("recovery", "sent again after acknowledgements told of a gap (fast)", 2.6),
        SendReason::Timeout => ("timeout", "sent again after a timer ran out (timeout)", 3.0),
        SendReason::Other => ("rwnd", "sent again, for a reason the packets do not show", 2.6),
        SendReason::Spurious => ("blocked", "sent again although the receiver had it (spurious)", 2.6),
    }
}

const ALL: [SendReason; 6] = [
    SendReason::New,
    SendReason::Overtaken,
    SendReason::Fast,
    SendReason::Timeout,
    SendReason::Other,
    SendReason::Spurious,
];

fn legend(out: &mut String, conversations: &[&Conversation]) {
    out.push_str("<ul class=\"legend\">");
    for why in ALL {
        let has_reason =
            |talk: &&Conversation| talk.views.iter().any(|view| view.data.iter().any(|data| data.why == why));
        if conversations.iter().any(has_reason) {
            let (ink, words, _) = reason_style(why);
            let _ =
                write!(out, "<li><span class=\"key\" style=\"background:var(--{ink})\"></span>{words}</li>");
        }
    }
    let _ = writeln!(
        out,
        "<li><span class=\"key\" style=\"background:var(--ahead);height:3px\"></span>{}</li></ul>",
        words::explained(
            "acknowledged up to here",
            "The receiver has told that it has all before this number."
        )
    );
}

/// Returns the `most` conversations with the most bytes of data, in their order in the capture.
fn largest(decoded: &Decoded, most: usize) -> Vec<&Conversation> {
    let size = |talk: &Conversation| talk.directions.iter().map(|direction| direction.bytes).sum::<u64>();
    // A DTLS connection has no data of its own to draw: its data is drawn as an SCTP association.
    let has_data = |talk: &Conversation| talk.transport != "dtls" && size(talk) > 0;
    let mut all: Vec<(usize, &Conversation)> =
        decoded.conversations.iter().enumerate().filter(|(_, talk)| has_data(talk)).collect();
    all.sort_by_key(|(i, talk)| (std::cmp::Reverse(size(talk)), *i));
    all.truncate(most);
    all.sort_by_key(|(i, _)| *i);
    all.into_iter().map(|(_, talk)| talk).collect()
}

/// Draws at most `most` conversations of a capture; `subject` names the contestant or host to which the capture
/// belongs.
pub(super) fn views(out: &mut String, decoded: &Decoded, subject: &str, most: usize) {
    let shown = largest(decoded, most);
    if shown.is_empty() {
        return;
    }
    legend(out, &shown);
    let drawable = decoded.conversations.iter().filter(|talk| talk.transport != "dtls").count();
    let more = drawable - shown.len();
    for (i, talk) in shown.iter().enumerate() {
        // Draws only the direction in which more data was sent.
        let side = usize::from(talk.directions[1].bytes > talk.directions[0].bytes);
        let conversation_number =
            if shown.len() > 1 { format!(", conversation {}", i + 1) } else { String::new() };
        draw_conversation(out, talk, side, &format!("{subject}{conversation_number}"));
    }
    if more > 0 {
        let _ = writeln!(
            out,
            "<p class=\"note\">{} with less data not drawn.</p>",
            format_count(more as u64, "conversation")
        );
    }
}

fn draw_conversation(out: &mut String, talk: &Conversation, side: usize, subject: &str) {
    let (view, direction) = (&talk.views[side], &talk.directions[side]);
    // Data is numbered by chunk (TSN) in SCTP, by packet in QUIC, and by byte in TCP.
    let has_chunks = !direction.streams.is_empty();
    let (unit, axis) = if talk.is_numbered_by_packet() {
        ("packet", "packet number")
    } else if has_chunks {
        ("TSN", "TSN, from the first")
    } else {
        ("byte", "byte, from the first")
    };
    let again = &direction.retransmitted;
    let summary = format!(
        "{} from {} to {}: {} sent again ({} fast, {} by timeout, {} otherwise; {} of all needlessly)",
        bytes(direction.bytes as f64),
        ["A", "B"][side],
        ["B", "A"][side],
        again.all(),
        again.fast,
        again.timeout,
        again.other,
        again.spurious
    );
    let left_out = match view.left_out {
        0 => String::new(),
        n => format!(" The first {} are drawn; {n} more are not.", view.data.len()),
    };
    let mut data = Data::new(&["at (ms)", &format!("first {unit}"), "length", "stream", "why"]);
    for piece in &view.data {
        let why = format!("{:?}", piece.why).to_lowercase();
        data.row(&[
            format!("{:.6}", ms(piece.at_ns)),
            piece.start.to_string(),
            (piece.end - piece.start).to_string(),
            piece.stream.to_string(),
            why,
        ]);
    }
    let figure = Figure {
        name: "sequence".to_owned(),
        heading: format!("{} <span class=\"meta\">{}</span>", escape(subject), escape(&summary)),
        shows: format!("Sequence numbers over time, {subject}. {summary}."),
        note: escape(&left_out),
        data,
        ..Figure::default()
    };
    let start = ms(talk.first_ns);
    let ends = view.data.last().map(|piece| piece.at_ns).into_iter();
    let ends = ends.chain(view.acknowledged.last().map(|(at, _)| *at));
    let end = ends.map(ms).fold(start + 1.0, f64::max);
    let high = view.data.iter().map(|piece| piece.end).max().unwrap_or(1) as f64;
    figure.render(out, Width::Wide, |svg, width| {
        let narrow = width.is_narrow();
        let frame = Frame { left: 62, ..Frame::new(width.pixels(), if narrow { 300 } else { 380 }) };
        let x = Axis::time(start, end, if narrow { 4 } else { 9 }).named(if narrow {
            ""
        } else {
            "time in the capture"
        });
        let y = Axis::linear(0.0, high, 6, shown(has_chunks)).named(if narrow { "" } else { axis });
        chart::draw(svg, frame, [&x, &y], |plot| {
            let acknowledged = view.acknowledged.iter().map(|(at, unit)| (ms(*at), *unit as f64));
            chart::line(plot, chart::steps((start, 0.0), acknowledged), Ink::named("ahead"), 1.0);
            // First transmissions are numerous, so one SVG path without tooltips draws all of them. Each retransmission
            // is an element with a tooltip.
            let new: Vec<ChartPoint> = view
                .data
                .iter()
                .filter(|piece| piece.why == SendReason::New)
                .map(|piece| (ms(piece.at_ns), piece.start as f64))
                .collect();
            chart::marks(plot, [Mark::many(new, Shape::Dots(1.1), Ink::named("soft"))]);
            let repaired = view.data.iter().filter(|piece| piece.why != SendReason::New).map(|piece| {
                let (ink, words, radius) = reason_style(piece.why);
                let title = format!(
                    "{unit} {} at {:.1} ms{}: {words}",
                    piece.start,
                    ms(piece.at_ns),
                    if has_chunks { format!(", stream {}", piece.stream) } else { String::new() }
                );
                Mark::dot((ms(piece.at_ns), piece.start as f64), radius, Ink::named(ink), title)
            });
            chart::marks(plot, repaired.take(MAX_TOOLTIPS).collect::<Vec<_>>());
        })
    });
    over_time(out, view, subject, has_chunks, (start, end));
}

/// Returns a function that formats a number of chunks. If `has_chunks` is not set, the function formats a number of
/// bytes.
fn shown(has_chunks: bool) -> fn(f64) -> String {
    if has_chunks { grouped } else { bytes }
}

/// The maximum number of retransmissions with tooltips per drawing.
const MAX_TOOLTIPS: usize = 1_500;

/// Draws two diagrams over time: the data in flight, and the round-trip times.
fn over_time(out: &mut String, view: &View, subject: &str, has_chunks: bool, (start, end): (f64, f64)) {
    out.push_str("<div class=\"two\">");
    let axes = |width: Width| {
        let frame = Frame { left: 60, bottom: 22, ..Frame::new(width.pixels(), 170) };
        (frame, Axis::time(start, end, width.pick(4, 6)))
    };
    let mut data = Data::new(&[
        "at (ms)",
        if has_chunks { "under way (chunks or packets)" } else { "under way (bytes)" },
    ]);
    for (at, flight) in &view.flight {
        data.row(&[format!("{:.6}", ms(*at)), flight.to_string()]);
    }
    let most = view.flight.iter().map(|(_, flight)| *flight).max().unwrap_or(0) as f64;
    let figure = Figure {
        name: "flight".to_owned(),
        heading: format!(
            "{} <span class=\"meta\">sent and not known to have arrived</span>",
            term("flight", "Flight")
        ),
        shows: format!("Data under way over time, {subject}; at most {most}."),
        data,
        ..Figure::default()
    };
    if most > 0.0 {
        figure.render(out, Width::Half, |svg, width| {
            let (frame, x) = axes(width);
            let y = Axis::linear(0.0, most * 1.05, 4, shown(has_chunks));
            chart::draw(svg, frame, [&x, &y], |plot| {
                let flight = view.flight.iter().map(|(at, flight)| (ms(*at), *flight as f64));
                chart::line(plot, chart::steps((start, 0.0), flight), Ink::named("cwnd"), 1.1);
                for piece in view.data.iter().filter(|piece| piece.why == SendReason::Timeout).take(200) {
                    chart::faint_line(
                        plot,
                        [(ms(piece.at_ns), 0.0), (ms(piece.at_ns), most)],
                        (Ink::named("timeout"), 0.35),
                        1.0,
                    );
                }
            })
        });
    }
    let longest = view.round_trips.iter().map(|(_, nanos)| ms(*nanos)).fold(0.0, f64::max);
    let least = view.round_trips.iter().map(|(_, nanos)| ms(*nanos)).fold(f64::INFINITY, f64::min);
    if longest > 0.0 {
        let mut data = Data::new(&["at (ms)", "round trip (ms)"]);
        for (at, nanos) in &view.round_trips {
            data.row(&[format!("{:.6}", ms(*at)), format!("{:.6}", ms(*nanos))]);
        }
        let figure = Figure {
            name: "round-trips".to_owned(),
            heading: format!(
                "{} <span class=\"meta\">{} to {}; what is above the least is waiting in queues, or for a late acknowledgement</span>",
                term("round trip", "Round trips"),
                span(least),
                span(longest)
            ),
            shows: format!("Round trips over time, {subject}: {} to {}.", span(least), span(longest)),
            data,
            ..Figure::default()
        };
        figure.render(out, Width::Half, |svg, width| {
            let (frame, x) = axes(width);
            let y = Axis::time(0.0, longest * 1.05, 4);
            chart::draw(svg, frame, [&x, &y], |plot| {
                let dots = view.round_trips.iter().map(|(at, nanos)| (ms(*at), ms(*nanos))).collect();
                chart::marks(plot, [Mark::many(dots, Shape::Dots(1.3), Ink::named("accent"))]);
            })
        });
    }
    out.push_str("</div>\n");
}

/// The maximum number of data channels that are drawn. The channels with the most unacknowledged bytes are drawn.
const CHANNELS: usize = 8;

/// Draws the bytes of data channels that were sent and not acknowledged, over time.
fn channels(out: &mut String, decoded: &Decoded) {
    let all = decoded.conversations.iter().flat_map(|talk| &talk.channels);
    let most = |channel: &DataChannel| channel.most_unacknowledged.into_iter().max().unwrap_or(0);
    let mut all: Vec<(usize, &DataChannel)> =
        all.enumerate().filter(|(_, channel)| most(channel) > 0).collect();
    all.sort_by_key(|(i, channel)| (std::cmp::Reverse(most(channel)), *i));
    all.truncate(CHANNELS);
    if all.is_empty() {
        return;
    }
    out.push_str("<h2>Data channels</h2>\n<div class=\"two\">");
    for (_, channel) in all {
        let label = escape(&channel.label);
        let mut data = Data::new(&["at (ms)", "from", "not acknowledged (bytes)"]);
        for (side, points) in channel.unacknowledged.iter().enumerate() {
            for (at, sum) in points {
                data.row(&[format!("{:.6}", ms(*at)), ["A", "B"][side].to_owned(), sum.to_string()]);
            }
        }
        let figure = Figure {
            name: "channel".to_owned(),
            heading: format!(
                "Channel {label}, stream {} <span class=\"meta\">sent and not acknowledged: from A at most {}, from B at \
                 most {}; what an application has buffered beyond that is not in the packets</span>",
                channel.stream,
                bytes(channel.most_unacknowledged[0] as f64),
                bytes(channel.most_unacknowledged[1] as f64),
            ),
            shows: format!("Bytes of channel {label} that were sent and not acknowledged, over time."),
            data,
            ..Figure::default()
        };
        let times = || channel.unacknowledged.iter().flatten().map(|(at, _)| ms(*at));
        let (start, end) = (times().fold(f64::INFINITY, f64::min), times().fold(0.0, f64::max));
        figure.render(out, Width::Half, |svg, width| {
            let frame = Frame { left: 60, bottom: 22, ..Frame::new(width.pixels(), 170) };
            let x = Axis::time(start, end.max(start + 1.0), width.pick(4, 6));
            let y = Axis::linear(0.0, most(channel) as f64 * 1.05, 4, bytes);
            chart::draw(svg, frame, [&x, &y], |plot| {
                for (points, ink) in channel.unacknowledged.iter().zip(["cwnd", "recovery"]) {
                    let points = points.iter().map(|(at, sum)| (ms(*at), *sum as f64));
                    chart::line(plot, chart::steps((start, 0.0), points), Ink::named(ink), 1.1);
                }
            })
        });
    }
    out.push_str("</div>\n");
}

/// Lists why conversations in the capture were slow or failed.
fn findings(out: &mut String, decoded: &Decoded) {
    let found = |talk: &&Conversation| !talk.findings.is_empty();
    for talk in decoded.conversations.iter().filter(found) {
        let name = talk.transport.to_uppercase();
        let ports = [talk.sides[0].port, talk.sides[1].port];
        let _ = write!(out, "<h2>Why: {name}, ports {} and {}</h2>\n<ul>\n", ports[0], ports[1]);
        for finding in &talk.findings {
            let cost = match finding.cost_ns {
                0 => String::new(),
                nanos => format!("<b>{}</b> ", span(ms(nanos))),
            };
            let _ = writeln!(out, "<li>{cost}{}</li>", escape(&finding.text));
        }
        out.push_str("</ul>\n");
    }
}

/// Renders a capture as a page of its own. `text` is the output of `decode`.
#[must_use]
pub fn html(decoded: &Decoded, text: &str) -> String {
    let file = decoded.file.rsplit('/').next().unwrap_or_default();
    let title = format!("{file}: {}", format_count(decoded.packets, "packet"));
    let mut out = document::begin(&title);
    let _ =
        write!(out, "<header><p class=\"over\">anabranch decode</p>\n<h1>{}</h1></header>\n", escape(&title));
    findings(&mut out, decoded);
    if largest(decoded, 1).is_empty() {
        out.push_str("<p>No association or connection with data.</p>\n");
    }
    views(&mut out, decoded, "conversation", CONVERSATIONS);
    channels(&mut out, decoded);
    let _ = write!(out, "<h2>In words</h2>\n<pre class=\"csv tall\" tabindex=\"0\">{}</pre>\n", escape(text));
    words::glossary(&mut out);
    document::end(&mut out);
    out
}
