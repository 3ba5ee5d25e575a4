//! Writes three tables of the page. They show each contestant's settings, the counts of packets, bytes and transport
//! events, and which expectations of the plan are met. Also writes how to reproduce the race.

use super::PageContext;
use super::svg::{bytes, escape, format_value};
use super::words;
use anabranch_results::{Contestant, Point, Race, Run};
use std::collections::BTreeSet;
use std::fmt::Write;

/// The settings that every comparison must show, in this order. All other settings are in a collapsed list.
const REQUIRED_SETTINGS: [&str; 14] = [
    "transport",
    "http",
    "connections",
    "per-object",
    "objects-per-connection",
    "streams",
    "num_ostreams",
    "paths",
    "pipeline",
    "when-full",
    "profile",
    "cc",
    "iw",
    "rto_min",
];

pub(super) fn settings(out: &mut String, point: &Point) {
    let mut keys: Vec<&str> = REQUIRED_SETTINGS.to_vec();
    keys.push("delack");
    let known: BTreeSet<&str> = point
        .contestants
        .iter()
        .flat_map(|contestant| contestant.settings.keys().map(String::as_str))
        .collect();
    keys.retain(|key| known.contains(key));
    let rest: Vec<&str> = known.iter().copied().filter(|key| !keys.contains(key)).collect();
    if known.is_empty() {
        return;
    }
    out.push_str(
        "<h2>Settings</h2>\n<p class=\"note\">Who has more connections has a larger share of a full \
         network. Rows in bold differ between contestants.</p>\n",
    );
    table(out, point, &keys);
    if !rest.is_empty() {
        let _ = write!(out, "<details><summary>all other settings ({})</summary>", rest.len());
        table(out, point, &rest);
        out.push_str("</details>\n");
    }
}

fn table(out: &mut String, point: &Point, keys: &[&str]) {
    out.push_str("<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th>setting</th>");
    for contestant in &point.contestants {
        let _ = write!(out, "<th>{}</th>", words::head(contestant));
    }
    out.push_str("</tr></thead><tbody>");
    for key in keys {
        let values: Vec<Option<&String>> =
            point.contestants.iter().map(|contestant| contestant.settings.get(*key)).collect();
        let differs = values.windows(2).any(|pair| pair[0] != pair[1]);
        let class = if differs { "differs" } else { "same" };
        let _ = write!(out, "<tr class=\"{class}\"><th>{}</th>", escape(key));
        for value in values {
            let _ = write!(out, "<td>{}</td>", escape(value.map_or("–", String::as_str)));
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>\n");
}

/// A row of the table of packets, bytes and events: its label, a function for the value of a run, and whether the value
/// is in bytes.
type Row = (&'static str, fn(&Run) -> Option<f64>, bool);

/// Writes a table of the packets, bytes and events of the network and the transports, as means over the runs.
pub(super) fn work(out: &mut String, point: &Point) {
    out.push_str(
        "<h2>Packets and events</h2>\n<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th>means over the runs</th>",
    );
    for contestant in &point.contestants {
        let _ = write!(out, "<th>{}</th>", words::head(contestant));
    }
    out.push_str("</tr></thead><tbody>");
    let rows: [Row; 12] = [
        ("connections opened", |run| Some(run.connections as f64), false),
        ("packets sent down", |run| Some(run.packets.down.sent as f64), false),
        ("packets sent up", |run| Some(run.packets.up.sent as f64), false),
        ("lost by the network, down", |run| Some(run.packets.down.lost as f64), false),
        ("lost by the network, up", |run| Some(run.packets.up.lost as f64), false),
        ("retransmitted, down", |run| Some(run.packets.down.retransmitted as f64), false),
        ("retransmitted, up", |run| Some(run.packets.up.retransmitted as f64), false),
        ("retransmitted, fast", |run| Some(run.events.fast as f64), false),
        ("timeouts", |run| Some(run.events.timeouts as f64), false),
        // The value is `None` if the protocol stack cannot know whether its retransmissions were spurious.
        ("retransmitted, spurious", |run| run.events.spurious.map(|count| count as f64), false),
        ("on the wire, down", |run| Some(run.wire_bytes.down as f64), true),
        ("on the wire, up", |run| Some(run.wire_bytes.up as f64), true),
    ];
    for (name, value, is_bytes) in rows {
        let _ = write!(out, "<tr><td>{name}</td>");
        for contestant in &point.contestants {
            let shown = match mean(contestant, value) {
                Some(mean) if is_bytes => bytes(mean),
                Some(mean) => format_value(mean),
                None => "not known".to_owned(),
            };
            let _ = write!(out, "<td>{shown}</td>");
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>\n");
}

fn mean(contestant: &Contestant, value: fn(&Run) -> Option<f64>) -> Option<f64> {
    let sum = contestant.runs.iter().map(value).sum::<Option<f64>>()?;
    Some(sum / contestant.runs.len().max(1) as f64)
}

pub(super) fn expectations(out: &mut String, race: &Race) {
    if race.expectations.is_empty() {
        return;
    }
    out.push_str("<h2>Expectations</h2>\n<div class=\"scroll\" tabindex=\"0\"><table><tbody>");
    for expectation in &race.expectations {
        let found = expectation
            .found
            .map_or("nothing finished".to_owned(), |found| format!("found {}", format_value(found)));
        let met = if expectation.met { "met" } else { "<span class=\"bad\">missed</span>" };
        let _ = write!(
            out,
            "<tr><td class=\"wrap\">{}</td><td>{found}</td><td>{met}</td></tr>",
            escape(&expectation.expected)
        );
    }
    out.push_str("</tbody></table></div>\n");
}

pub(super) fn reproduce(out: &mut String, race: &Race, context: &PageContext<'_>) {
    out.push_str("<h2>Reproduce this race</h2>\n");
    if !context.command.is_empty() {
        let _ = writeln!(out, "<pre>{}</pre>", escape(context.command));
    }
    if !context.inputs.is_empty() {
        out.push_str(
            "<p class=\"note\">It read these files:</p><div class=\"scroll\" tabindex=\"0\"><table><tbody>",
        );
        for input in context.inputs {
            let _ = write!(
                out,
                "<tr><th>{}</th><td class=\"wrap\">{} bytes, SHA-256 <code>{}</code></td></tr>",
                escape(&input.name),
                input.bytes,
                escape(&input.sha256)
            );
        }
        out.push_str("</tbody></table></div>\n");
    }
    let plan = serde_json::to_string_pretty(&race.plan).unwrap_or_default();
    let _ = writeln!(
        out,
        "<p class=\"note\">The numbers stand in <code>results.json</code> beside this file; packets of the median runs in the \
         captures.</p><details><summary>the plan in full</summary><pre>{}</pre></details>",
        escape(&plan)
    );
}
