//! The result of a throughput test: lines like iperf's, JSON, CSV.

use super::{Interval, Outcome, Plan, Received, Sent, Settings};
use anabranch_base::time::{Duration, nanos};
use serde_json::{Value, json};
use std::fmt::Write;

/// What a result says besides the outcome.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Framing {
    /// The command as it was typed.
    pub command: String,
    /// The server.
    pub url: String,
    /// The transport, by its URL scheme.
    pub transport: String,
    /// Settings of the client's transport.
    pub settings: Settings,
    /// How many sessions use Multipath TCP, if it was asked for and the host knows.
    pub multipath: Option<u64>,
    /// Whether the user interrupted the test.
    pub interrupted: bool,
}

/// The line above the intervals. `probed`: it names the sender's retransmissions and window, which the transport knows.
#[must_use]
pub fn heading(plan: &Plan, probed: bool) -> &'static str {
    match plan.up && probed {
        true => "[ID]  Interval           Transfer       Bitrate            Retr   Cwnd\n",
        false => "[ID]  Interval           Transfer       Bitrate\n",
    }
}

/// The lines of one interval, one for each direction.
#[must_use]
pub fn line(plan: &Plan, interval: &Interval) -> String {
    let mut out = String::new();
    for (wanted, name, bytes) in [(plan.up, "up", interval.sent), (plan.down, "dn", interval.received)] {
        if !wanted {
            continue;
        }
        let tail = match interval.probe {
            Some(probe) if name == "up" => {
                format!("  {:>5}   {}", probe.retransmitted, amount(probe.cwnd as f64, "B"))
            }
            _ => String::new(),
        };
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

/// `1.23 GB`: thousands, as everywhere here.
fn amount(value: f64, unit: &str) -> String {
    let (scaled, prefix) = match value {
        v if v >= 1e9 => (v / 1e9, "G"),
        v if v >= 1e6 => (v / 1e6, "M"),
        v if v >= 1e3 => (v / 1e3, "k"),
        v => (v, ""),
    };
    format!("{scaled:.2} {prefix}{unit}")
}

/// The lines below the intervals.
#[must_use]
pub fn summary(plan: &Plan, outcome: &Outcome, framing: &Framing) -> String {
    let mut out = String::from("- - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - -\n");
    let zero = Duration::ZERO;
    for (name, both) in [("up", &outcome.up), ("dn", &outcome.down)] {
        let Some((sent, received)) = both else { continue };
        let retransmitted = match (name, outcome.retransmitted) {
            ("up", Some(count)) => format!("  {count:>5}"),
            _ => String::new(),
        };
        let _ = writeln!(
            out,
            "{}{retransmitted}  sender",
            row(name, zero, Duration::from_nanos(sent.nanos), sent.bytes)
        );
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
            amount(received.least as f64, "B"),
            amount(received.most as f64, "B")
        );
    }
    let congestion = |up: bool| {
        let settings = senders(up, outcome, framing)?;
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
    let moved = gigabytes(outcome);
    let each = |(user, system): (u64, u64)| (user as f64 / 1e9, system as f64 / 1e9);
    let (client, server) = (each(outcome.client), each(outcome.server));
    let total = client.0 + client.1 + server.0 + server.1;
    let _ = writeln!(
        out,
        "CPU [s]: client {:.2} (user {:.2} system {:.2}), server {:.2} (user {:.2} system {:.2}){}",
        client.0 + client.1,
        client.0,
        client.1,
        server.0 + server.1,
        server.0,
        server.1,
        if moved > 0.0 { format!("; {:.2} CPU-s/GB, both ends", total / moved) } else { String::new() }
    );
    if let Some(multipath) = framing.multipath
        && multipath < u64::from(plan.sessions)
    {
        let fallen = u64::from(plan.sessions) - multipath;
        let which = match plan.sessions {
            1 => "The connection is".to_owned(),
            all if multipath == 0 => format!("All {all} connections are"),
            all => format!("{fallen} of {all} connections are"),
        };
        let _ = writeln!(
            out,
            "{which} plain TCP, on one path: the other end, or a box on the way, has no MPTCP."
        );
    }
    if framing.interrupted {
        out += "Interrupted: the other end's figures are those of its last report.\n";
    }
    out
}

/// The settings of the end that sends in a direction, if that end has sent them.
fn senders<'a>(up: bool, outcome: &'a Outcome, framing: &'a Framing) -> Option<&'a Settings> {
    if up { Some(&framing.settings) } else { outcome.server_settings.as_ref() }
}

fn gigabytes(outcome: &Outcome) -> f64 {
    let received = |both: &Option<(Sent, Received)>| both.map_or(0, |(_, received)| received.bytes);
    (received(&outcome.up) + received(&outcome.down)) as f64 / 1e9
}

/// The result as JSON, schema `anabranch.bulk/1`.
#[must_use]
pub fn json(plan: &Plan, outcome: &Outcome, framing: &Framing) -> String {
    let map = |settings: Option<&Settings>| -> Value {
        let pairs =
            |all: &Settings| all.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
        settings.map_or(Value::Null, |all| Value::Object(pairs(all)))
    };
    let moved = gigabytes(outcome);
    let cost = (outcome.client.0 + outcome.client.1 + outcome.server.0 + outcome.server.1) as f64 / 1e9;
    let document = json!({
        "schema": "anabranch.bulk/1",
        "version": env!("CARGO_PKG_VERSION"),
        "plan": {
            "command": framing.command,
            "url": framing.url,
            "transport": framing.transport,
            // Of the end that sends; where both do, of the client.
            "settings": map(senders(plan.up, outcome, framing)),
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
        "end": if framing.interrupted { "interrupted" } else { "done" },
        "connect_ns": nanos(outcome.connect),
        "duration_ns": nanos(outcome.duration),
        "streams": outcome.streams,
        "multipath_sessions": framing.multipath,
        "settings": {
            "client": map(Some(&framing.settings)),
            "server": map(outcome.server_settings.as_ref()),
        },
        "up": outcome.up.map(direction),
        "down": outcome.down.map(direction),
        "retransmitted": outcome.retransmitted,
        "cpu": {
            "client": { "user_ns": outcome.client.0, "system_ns": outcome.client.1 },
            "server": { "user_ns": outcome.server.0, "system_ns": outcome.server.1 },
            "s_per_gb": if moved > 0.0 { Some(cost / moved) } else { None },
        },
        "intervals": outcome.intervals.iter().map(|interval| json!({
            "from_ns": nanos(interval.from),
            "to_ns": nanos(interval.to),
            "sent": interval.sent,
            "received": interval.received,
            "retransmitted": interval.probe.map(|probe| probe.retransmitted),
            "cwnd": interval.probe.map(|probe| probe.cwnd),
            "srtt_ns": interval.probe.map(|probe| probe.srtt),
        })).collect::<Vec<_>>(),
    });
    format!("{document:#}\n")
}

fn direction((sent, received): (Sent, Received)) -> Value {
    let rate = |bytes: u64, nanos: u64| if nanos > 0 { bytes as f64 * 8e9 / nanos as f64 } else { 0.0 };
    json!({
        "sent": { "bytes": sent.bytes, "messages": sent.messages, "duration_ns": sent.nanos, "bps": rate(sent.bytes, sent.nanos) },
        "received": {
            "bytes": received.bytes,
            "messages": received.messages,
            "duration_ns": received.nanos,
            "bps": rate(received.bytes, received.nanos),
            "streams_used": received.streams,
            "stream_bytes_min": received.least,
            "stream_bytes_max": received.most,
            "whole": received.whole,
        },
    })
}

/// The intervals as CSV, a row each.
#[must_use]
pub fn csv(outcome: &Outcome) -> String {
    let mut out = "from_ns,to_ns,sent,received,retransmitted,cwnd,srtt_ns\n".to_owned();
    for interval in &outcome.intervals {
        let (from, to) = (nanos(interval.from), nanos(interval.to));
        let probe = interval.probe.map_or_else(
            || ",,".to_owned(),
            |probe| format!("{},{},{}", probe.retransmitted, probe.cwnd, probe.srtt),
        );
        let _ = writeln!(out, "{from},{to},{},{},{probe}", interval.sent, interval.received);
    }
    out
}
