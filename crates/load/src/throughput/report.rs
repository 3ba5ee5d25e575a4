//! Prints the result of a throughput test as lines in the style of iperf, as JSON, and as CSV.

use super::paths::PathReport;
use super::{Interval, Outcome, Plan, Received, SenderReport, Settings};
use anabranch_base::time::{Duration, nanos};
use anabranch_transport::network::{Figures, PathFigures};
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// The information that a report needs in addition to the outcome of the test.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReportContext {
    /// The command line as it was typed.
    pub command: String,
    /// The URL of the server.
    pub url: String,
    /// The URL scheme of the transport.
    pub transport: String,
    /// The settings of the client's transport.
    pub settings: Settings,
    /// The number of sessions that use Multipath TCP. `None` if the user did not request Multipath TCP, or if the host
    /// cannot report the number.
    pub multipath: Option<u64>,
    /// Whether the user interrupted the test.
    pub interrupted: bool,
    /// Additional fields of the JSON report that describe events of network paths.
    pub paths: Map<String, Value>,
}

/// Returns the table heading that is printed above the lines of the intervals. With `figures`, it has columns for the
/// client's retransmissions and congestion window. For a multihomed session it also has a column for the path in use.
#[must_use]
pub fn heading(plan: &Plan, figures: Option<&Figures>) -> &'static str {
    match figures.filter(|_| plan.up) {
        Some(figures) if figures.paths.len() > 1 => {
            "[ID]  Interval           Transfer       Bitrate            Retr   Cwnd      Path\n"
        }
        Some(_) => "[ID]  Interval           Transfer       Bitrate            Retr   Cwnd\n",
        None => "[ID]  Interval           Transfer       Bitrate\n",
    }
}

/// Returns the printed lines of one interval, one line per direction.
#[must_use]
pub fn line(plan: &Plan, interval: &Interval) -> String {
    let mut out = String::new();
    for (wanted, name, bytes) in
        [(plan.up, "up", interval.acknowledged), (plan.down, "dn", interval.received)]
    {
        if !wanted {
            continue;
        }
        let mut tail = match &interval.figures {
            Some(figures) if name == "up" => {
                let current =
                    figures.paths.iter().find(|path| path.current).filter(|_| figures.paths.len() > 1);
                let path = current.map_or_else(String::new, |path| format!("   {}", path.address));
                format!("  {:>5}   {}{path}", figures.retransmitted, amount(figures.cwnd as f64, "B"))
            }
            _ => String::new(),
        };
        if interval.draining && name == "up" {
            tail += "  draining";
        }
        let _ = writeln!(out, "{}{tail}", row(name, interval.from, interval.to, bytes));
    }
    out
}

fn row(name: &str, from: Duration, to: Duration, bytes: u64) -> String {
    let span = to.saturating_sub(from).as_secs_f64();
    let rate = if span > 0.0 { bytes as f64 * 8.0 / span } else { 0.0 };
    format!(
        "[{name}]  {:>6.2}-{:<6.2} s  {:>10}  {:>14}",
        from.as_secs_f64(),
        to.as_secs_f64(),
        amount(bytes as f64, "B"),
        amount(rate, "bit/s")
    )
}

/// Formats an amount with a decimal prefix, for example `1.23 GB`.
fn amount(value: f64, unit: &str) -> String {
    let (scaled, prefix) = match value {
        v if v >= 1e9 => (v / 1e9, "G"),
        v if v >= 1e6 => (v / 1e6, "M"),
        v if v >= 1e3 => (v / 1e3, "k"),
        v => (v, ""),
    };
    format!("{scaled:.2} {prefix}{unit}")
}

/// Returns the summary of a test, which is printed after the lines of the intervals.
#[must_use]
pub fn summary(plan: &Plan, outcome: &Outcome, context: &ReportContext) -> String {
    let mut out = String::from("- - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - -\n");
    let zero = Duration::ZERO;
    for (name, both) in [("up", &outcome.up), ("dn", &outcome.down)] {
        let Some((sent, received)) = both else { continue };
        let retransmitted = match (name, outcome.retransmitted) {
            ("up", Some(count)) => format!("  {count:>5}"),
            _ => String::new(),
        };
        // The sender's line shows how many bytes the peer had acknowledged when the sender had written everything. If
        // the sender does not report this number, the line shows all bytes sent.
        let acknowledged = sent.acknowledged().unwrap_or(sent.bytes);
        if name == "dn" && outcome.lacks_server_report() {
            let _ = writeln!(out, "[dn]  sender: not known, because its report has not arrived");
        } else {
            let _ = writeln!(
                out,
                "{}{retransmitted}  sender",
                row(name, zero, Duration::from_nanos(sent.nanos), acknowledged)
            );
        }
        let to = Duration::from_nanos(received.nanos);
        let _ = writeln!(out, "{}  receiver", row(name, zero, to, received.bytes));
        let span = to.as_secs_f64();
        let rate = if span > 0.0 { received.messages as f64 / span } else { 0.0 };
        let _ = writeln!(
            out,
            "[{name}]  {} messages of {} B, {:.0}/s, on {} streams ({} to {})",
            received.messages,
            plan.message,
            rate,
            received.streams,
            amount(received.min_stream_bytes as f64, "B"),
            amount(received.max_stream_bytes as f64, "B")
        );
    }
    if let Some((bytes, span)) = outcome.drain.filter(|(_, span)| *span >= SHORTEST_DRAIN) {
        let (bytes, span) = (amount(bytes as f64, "B"), span.as_secs_f64());
        let and = if outcome.is_cut { "not all of it was" } else { "it was all" };
        let _ =
            writeln!(out, "[up]  {bytes} were left in the send buffer; {and} acknowledged {span:.2} s later");
    }
    out += &path_lines(&outcome.paths);
    if let Some(report) = &outcome.server_paths {
        out += &server_lines(report);
    }
    let congestion = |up: bool| {
        let settings = sender_settings(up, outcome, context)?;
        settings.iter().find(|(key, _)| key == "cc").map(|(_, name)| name.as_str())
    };
    match (congestion(true).filter(|_| plan.up), congestion(false).filter(|_| plan.down)) {
        (Some(up), Some(down)) if up != down => {
            let _ = writeln!(out, "Congestion control: {up} up, {down} down");
        }
        (Some(name), _) | (None, Some(name)) => {
            let _ = writeln!(out, "Congestion control: {name}");
        }
        (None, None) => {}
    }
    out += &cpu_line(outcome);
    if let Some(multipath) = context.multipath
        && multipath < u64::from(plan.sessions)
    {
        let fallen = u64::from(plan.sessions) - multipath;
        let sessions = match plan.sessions {
            1 => "The connection is".to_owned(),
            all if multipath == 0 => format!("All {all} connections are"),
            all => format!("{fallen} of {all} connections are"),
        };
        let _ = writeln!(
            out,
            "{sessions} plain TCP, on one path: the other end, or a box on the way, has no MPTCP."
        );
    }
    if outcome.is_cut && outcome.lacks_server_report() {
        out += "Ended on time. The server's report follows the data in its send buffer: a longer --drain waits for both.\n";
    } else if outcome.is_cut {
        out +=
            "Ended on time: the other end's figures are those of its last report. --drain waits for more.\n";
    }
    if context.interrupted {
        out += "Interrupted: the other end's figures are those of its last report.\n";
    }
    out
}

/// Returns the line about the CPU time of both ends.
fn cpu_line(outcome: &Outcome) -> String {
    let moved = gigabytes(outcome);
    let seconds = |(user, system): (u64, u64)| {
        let (user, system) = (user as f64 / 1e9, system as f64 / 1e9);
        format!("{:.2} (user {user:.2} system {system:.2})", user + system)
    };
    let client = seconds(outcome.client_cpu);
    if outcome.server_cpu == (0, 0) && outcome.lacks_server_report() {
        return format!("CPU [s]: client {client}, server not known\n");
    }
    let parts = [outcome.client_cpu.0, outcome.client_cpu.1, outcome.server_cpu.0, outcome.server_cpu.1];
    let total: f64 = parts.iter().map(|ns| *ns as f64 / 1e9).sum();
    let each =
        if moved > 0.0 { format!("; {:.2} CPU-s/GB, both ends", total / moved) } else { String::new() };
    format!("CPU [s]: client {client}, server {}{each}\n", seconds(outcome.server_cpu))
}

/// Returns the sender's settings, if they are known. The client is the sender if `up`, otherwise the server.
fn sender_settings<'a>(up: bool, outcome: &'a Outcome, context: &'a ReportContext) -> Option<&'a Settings> {
    if up { Some(&context.settings) } else { outcome.server_settings.as_ref() }
}

/// The minimum duration of a drain phase that is reported. A shorter drain phase is little more than the last round
/// trip.
const SHORTEST_DRAIN: Duration = Duration::from_millis(500);

fn gigabytes(outcome: &Outcome) -> f64 {
    let received = |both: &Option<(SenderReport, Received)>| both.map_or(0, |(_, received)| received.bytes);
    (received(&outcome.up) + received(&outcome.down)) as f64 / 1e9
}

/// Returns the report as JSON with the schema `anabranch.bulk/1`.
#[must_use]
pub fn json(plan: &Plan, outcome: &Outcome, context: &ReportContext) -> String {
    let map = |settings: Option<&Settings>| -> Value {
        let pairs =
            |all: &Settings| all.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
        settings.map_or(Value::Null, |all| Value::Object(pairs(all)))
    };
    let moved = gigabytes(outcome);
    let cost = (outcome.client_cpu.0 + outcome.client_cpu.1 + outcome.server_cpu.0 + outcome.server_cpu.1)
        as f64
        / 1e9;
    let mut document = json!({
        "schema": "anabranch.bulk/1",
        "version": env!("CARGO_PKG_VERSION"),
        "plan": {
            "command": context.command,
            "url": context.url,
            "transport": context.transport,
            // The settings of the sending end. If both ends send, these are the settings of the client.
            "settings": map(sender_settings(plan.up, outcome, context)),
            "up": plan.up,
            "down": plan.down,
            "message_bytes": plan.message,
            "streams": plan.streams,
            "unordered": plan.unordered,
            "sessions": plan.sessions,
            "duration_ns": if plan.bytes.is_none() { Some(nanos(plan.span)) } else { None },
            "bytes": plan.bytes,
            "timeout_ns": nanos(plan.timeout),
        },
        "end": if context.interrupted { "interrupted" } else { "done" },
        "connect_ns": nanos(outcome.connect),
        "duration_ns": nanos(outcome.duration),
        "streams": outcome.streams,
        "multipath_sessions": context.multipath,
        "settings": {
            "client": map(Some(&context.settings)),
            "server": map(outcome.server_settings.as_ref()),
        },
        "up": outcome.up.map(direction),
        "down": outcome.down.map(direction),
        "retransmitted": outcome.retransmitted,
        "cpu": {
            "client": { "user_ns": outcome.client_cpu.0, "system_ns": outcome.client_cpu.1 },
            "server": { "user_ns": outcome.server_cpu.0, "system_ns": outcome.server_cpu.1 },
            "s_per_gb": if moved > 0.0 { Some(cost / moved) } else { None },
        },
        "intervals": outcome.intervals.iter().map(|interval| json!({
            "from_ns": nanos(interval.from),
            "to_ns": nanos(interval.to),
            "sent": interval.sent,
            "acknowledged": interval.acknowledged,
            "draining": interval.draining,
            "received": interval.received,
            "retransmitted": interval.figures.as_ref().map(|figures| figures.retransmitted),
            "cwnd": interval.figures.as_ref().map(|figures| figures.cwnd),
            "srtt_ns": interval.figures.as_ref().map(|figures| nanos(figures.srtt)),
            "paths": interval.figures.as_ref().map(|figures| paths(&figures.paths)),
        })).collect::<Vec<_>>(),
        "drain": outcome.drain.map(|(bytes, span)| json!({ "bytes": bytes, "duration_ns": nanos(span) })),
        "paths": paths(&outcome.paths),
        "server_paths": outcome.server_paths.as_ref().map(server_paths),
    });
    if let Some(fields) = document.as_object_mut() {
        fields.extend(context.paths.clone());
    }
    format!("{document:#}\n")
}

/// A path that received at most this number of bytes carried only HEARTBEATs.
const MAX_UNUSED: u64 = 10_000;

/// Returns a line for each path, with its bytes. Omits unused paths, for example those of the other address family.
#[must_use]
pub fn path_lines(paths: &[PathFigures]) -> String {
    let is_used =
        |path: &&PathFigures| path.acknowledged > 0 || path.received > MAX_UNUSED || path.state != "active";
    let line = |path: &PathFigures| {
        let [acknowledged, received] =
            [path.acknowledged, path.received].map(|bytes| amount(bytes as f64, "B"));
        let PathFigures { address, state, .. } = path;
        format!("Path to {address}: {state}, {acknowledged} acknowledged, {received} received\n")
    };
    paths.iter().filter(is_used).map(line).collect()
}

/// Returns the printed lines about the server's paths and the events on them.
fn server_lines(report: &PathReport) -> String {
    let paths = path_lines(&report.paths);
    let mut out: String = paths.lines().map(|line| format!("Server: {line}\n")).collect();
    let changes = report.changes.iter().map(|change| {
        let at = change.at.as_secs_f64();
        (change.at, format!("Server: {at:.3} s: path to {} {}\n", change.address, change.state))
    });
    let interruptions = report.interruptions.iter().map(|it| {
        let (at, outage) = (it.to.as_secs_f64(), it.to.saturating_sub(it.from).as_secs_f64());
        let path = if it.before == it.after { "again" } else { "now" };
        let data = if it.received { "data from the client" } else { "data" };
        let text = format!("{data} goes on after an interruption of {outage:.3} s, {path} on the path to");
        (it.to, format!("Server: {at:.3} s: {text} {}\n", it.after))
    });
    let mut events: Vec<_> = changes.chain(interruptions).collect();
    events.sort_by_key(|(at, _)| *at);
    out.extend(events.into_iter().map(|(_, line)| line));
    out
}

/// Returns the server's report on its paths as JSON.
fn server_paths(report: &PathReport) -> Value {
    json!({
        "paths": paths(&report.paths),
        "path_changes": report.changes.iter().map(|change| json!({
            "at_ns": nanos(change.at),
            "address": change.address.to_string(),
            "state": change.state,
        })).collect::<Vec<_>>(),
        "interruptions": report.interruptions.iter().map(|it| json!({
            "from_ns": nanos(it.from),
            "to_ns": nanos(it.to),
            "direction": if it.received { "received" } else { "sent" },
            "before": it.before.to_string(),
            "after": it.after.to_string(),
        })).collect::<Vec<_>>(),
    })
}

/// Returns the paths as JSON.
#[must_use]
pub fn paths(paths: &[PathFigures]) -> Value {
    let path = |path: &PathFigures| {
        json!({
            "address": path.address.to_string(),
            "state": path.state,
            "current": path.current,
            "cwnd": path.cwnd,
            "acknowledged": path.acknowledged,
            "received": path.received,
        })
    };
    paths.iter().map(path).collect()
}

fn direction((sent, received): (SenderReport, Received)) -> Value {
    let rate = |bytes: u64, nanos: u64| if nanos > 0 { bytes as f64 * 8e9 / nanos as f64 } else { 0.0 };
    json!({
        "sent": {
            "bytes": sent.bytes,
            "messages": sent.messages,
            "duration_ns": sent.nanos,
            "bps": rate(sent.bytes, sent.nanos),
            "acknowledged": sent.acknowledged(),
            "acknowledged_bps": sent.acknowledged().map(|bytes| rate(bytes, sent.nanos)),
        },
        "received": {
            "bytes": received.bytes,
            "messages": received.messages,
            "duration_ns": received.nanos,
            "bps": rate(received.bytes, received.nanos),
            "streams_used": received.streams,
            "stream_bytes_min": received.min_stream_bytes,
            "stream_bytes_max": received.max_stream_bytes,
            "whole": received.whole,
        },
    })
}

/// Returns the intervals as CSV, one row per interval.
#[must_use]
pub fn csv(outcome: &Outcome) -> String {
    let mut out = "from_ns,to_ns,sent,received,retransmitted,cwnd,srtt_ns,acknowledged,draining\n".to_owned();
    for interval in &outcome.intervals {
        let (from, to) = (nanos(interval.from), nanos(interval.to));
        let figures = interval.figures.as_ref().map_or_else(
            || ",,".to_owned(),
            |figures| format!("{},{},{}", figures.retransmitted, figures.cwnd, nanos(figures.srtt)),
        );
        let Interval { sent, received, acknowledged, draining, .. } = interval;
        let _ = writeln!(out, "{from},{to},{sent},{received},{figures},{acknowledged},{draining}");
    }
    out
}
