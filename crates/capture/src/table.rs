//! Formats the results of decoding a capture as text.
//!
//! - `ends`: the comparison of both ends
//! - `statistics`: values over time

mod ends;
mod statistics;

use super::ppid;
use super::results::{
    Conversation, DataChannel, Decoded, Direction, EndpointLog, Retransmitted, Rtt, Security,
};
use std::fmt::Write;

/// Formats all results, with at most `streams` streams for each direction. The text ends in a line feed.
#[must_use]
pub fn render(decoded: &Decoded, streams: usize) -> String {
    let mut text = headline(decoded);
    for conversation in &decoded.conversations {
        text.push('\n');
        self::conversation(&mut text, conversation, streams);
    }
    let more = &decoded.not_followed;
    if more.packets > 0 {
        let _ = writeln!(
            text,
            "\nNot followed: {} of conversations after the first {} ({} INIT or SYN).",
            counted(more.packets, "packet"),
            decoded.conversations.len(),
            more.openings
        );
    }
    for statistics in &decoded.statistics {
        text.push('\n');
        statistics::render(&mut text, statistics);
    }
    if let Some(both) = &decoded.both_ends {
        text.push('\n');
        ends::render(&mut text, &decoded.file, both);
    }
    text
}

/// Describes the capture as a whole, and the packets that belong to no conversation.
pub(super) fn headline(decoded: &Decoded) -> String {
    let mut text = String::new();
    let count = |kind| decoded.conversations.iter().filter(|c| c.transport == kind).count();
    let mut parts = Vec::new();
    let kinds = [
        ("sctp", "association"),
        ("tcp", "connection"),
        ("quic", "connection of QUIC"),
        ("dtls", "connection of DTLS"),
    ];
    for (kind, name) in kinds {
        if count(kind) > 0 {
            parts.push(counted(count(kind) as u64, name));
        }
    }
    if !decoded.statistics.is_empty() {
        parts.push(counted(decoded.statistics.len() as u64, "object with statistics"));
    }
    if parts.is_empty() {
        parts.push("no association or connection".to_owned());
    }
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "{}: {}, {}, {}",
        decoded.file,
        counted(decoded.packets, "packet"),
        seconds(decoded.span_ns),
        parts.join(", ")
    );
    if let Some(at) = decoded.cut_at {
        let _ = writeln!(
            text,
            "The file ends in the middle of a packet, at byte {at}; what comes before is shown."
        );
    }
    if !decoded.left_out.is_empty() {
        let parts: Vec<String> = decoded.left_out.iter().map(|(what, n)| format!("{n} {what}")).collect();
        let _ = writeln!(text, "Left out: {}.", parts.join(", "));
    }
    text
}

/// Returns a text that names the protocol and the two sides of a conversation.
pub(super) fn subject(conversation: &Conversation) -> String {
    let side = |index: usize| {
        let side = &conversation.sides[index];
        let tag = side.tag.map(|tag| format!(" tag {tag:08x}")).unwrap_or_default();
        let addresses = match side.addresses.is_empty() {
            true => String::new(),
            false => side.addresses.join(", ") + " ",
        };
        format!("{} = {addresses}port {}{tag}", ["A", "B"][index], side.port)
    };
    let udp = conversation.udp_ports.map(|[a, b]| format!("  in UDP {a}, {b}")).unwrap_or_default();
    let tunnel = match conversation.tunnel.is_empty() {
        true => String::new(),
        false => format!("  in a tunnel: {}", conversation.tunnel.join(", ")),
    };
    let name = conversation.transport.to_uppercase();
    format!("{name}  {}   {}{udp}{tunnel}", side(0), side(1))
}

fn conversation(text: &mut String, conversation: &Conversation, streams: usize) {
    let _ = writeln!(text, "{}", subject(conversation));
    let _ = writeln!(text, "  {}; {}", beginning(conversation), ending(conversation));
    if let Some(security) = &conversation.security {
        let _ = writeln!(text, "  {}", encryption(security));
    }
    if let Some(log) = &conversation.log {
        let _ = writeln!(text, "  {}", endpoint_log(log));
    }
    let (sctp, tcp) = (conversation.transport == "sctp", conversation.transport == "tcp");
    let unit = match conversation.transport {
        "sctp" => "chunks",
        "tcp" => "segments",
        "quic" => "frames",
        _ => "records",
    };
    let heads = [
        "",
        "packets",
        "IP bytes",
        unit,
        "messages",
        "bytes",
        "numbers",
        "retransmitted",
        "spurious",
        "RTT min/mean/max ms",
    ];
    let mut rows = vec![heads.map(str::to_owned)];
    for (index, direction) in conversation.directions.iter().enumerate() {
        rows.push([
            ["A to B", "B to A"][index].to_owned(),
            direction.packets.to_string(),
            direction.wire_bytes.to_string(),
            direction.data.to_string(),
            if sctp { direction.messages.to_string() } else { "-".to_owned() },
            direction.bytes.to_string(),
            direction.numbers.map_or("-".to_owned(), |[first, last]| format!("{first}-{last}")),
            retransmitted(&direction.retransmitted),
            direction.retransmitted.spurious.to_string(),
            rtt(&direction.rtt),
        ]);
    }
    rows.extend(paths(conversation));
    for (index, direction) in conversation.directions.iter().enumerate().filter(|_| !tcp) {
        for (number, stream) in direction.streams.iter().take(streams) {
            rows.push([
                format!("{} stream {number}", ["A to B", "B to A"][index]),
                String::new(),
                String::new(),
                stream.chunks.to_string(),
                if sctp { stream.messages.to_string() } else { "-".to_owned() },
                stream.bytes.to_string(),
                format!("{}-{}", stream.tsns[0], stream.tsns[1]),
                retransmitted(&stream.retransmitted),
                stream.retransmitted.spurious.to_string(),
                String::new(),
            ]);
        }
        let more = direction.streams.len().saturating_sub(streams);
        if more > 0 {
            let mut row: [String; 10] = Default::default();
            row[0] = format!("{} ({more} streams more)", ["A to B", "B to A"][index]);
            rows.push(row);
        }
    }
    columns(text, &rows);
    for (index, direction) in conversation.directions.iter().enumerate() {
        let remarks = remarks(direction, conversation.transport);
        if !remarks.is_empty() {
            let _ = writeln!(text, "  {}: {}", ["A to B", "B to A"][index], remarks.join(", "));
        }
    }
    requests(text, conversation, streams);
    for channel in conversation.channels.iter().take(streams) {
        let _ = writeln!(text, "  {}", data_channel(channel));
    }
    if conversation.channels.len() > streams {
        let more = (conversation.channels.len() - streams) as u64;
        let _ = writeln!(text, "  ({} more)", counted(more, "data channel"));
    }
    if !conversation.ladder.is_empty() {
        text.push('\n');
        for line in &conversation.ladder {
            let _ = writeln!(text, "{line}");
        }
        if conversation.ladder_left_out > 0 {
            let _ = writeln!(text, "            … {} more", counted(conversation.ladder_left_out, "packet"));
        }
    }
}

/// Describes the encryption of a conversation in one line.
fn encryption(security: &Security) -> String {
    let mut parts = vec![security.protocol.clone()];
    parts.extend(security.suite.clone());
    parts.extend(security.server_name.as_ref().map(|name| format!("server name {name}")));
    parts.extend(security.alpn.clone());
    parts.extend(security.took_ns.map(|took| format!("handshake {} ms", millis(took))));
    let answered = security.answered_ns.map(|nanos| format!("ServerHello after {} ms", millis(nanos)));
    parts.extend(answered.filter(|_| security.took_ns.is_none()));
    let unit = encryption_unit(&security.protocol);
    if security.opened + security.sealed > 0 {
        parts.push(format!("{} decrypted", counted(security.opened, unit)));
    }
    if security.sealed > 0 {
        let why = security.why_sealed.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        parts.push(format!("{} not{why}", security.sealed));
    }
    parts.join(", ")
}

/// Returns the name of what is encrypted: QUIC's packets, or records.
pub(super) fn encryption_unit(protocol: &str) -> &'static str {
    if protocol.starts_with("QUIC") { "packet" } else { "record" }
}

/// Describes in one line what an endpoint reported in its log.
fn endpoint_log(log: &EndpointLog) -> String {
    let mut parts = vec![format!("logged by {}", log.by)];
    if log.lost > 0 {
        let by_time = log.lost_by_time;
        let why = if by_time > 0 { format!(" ({by_time} after a time)") } else { String::new() };
        parts.push(format!("{} declared lost{why}", counted(log.lost, "packet")));
    }
    if log.dropped > 0 {
        parts.push(counted(log.dropped, "packet received and dropped"));
    }
    if log.most_probes > 0 {
        parts.push(format!("at most {} in a row", counted(log.most_probes, "timeout")));
    }
    let window =
        log.congestion_window.map(|[least, most]| format!("congestion window {least} to {most} bytes"));
    parts.extend(window);
    parts.extend(log.most_in_flight.map(|bytes| format!("at most {bytes} bytes in flight")));
    let rtt = log.smoothed_rtt_ns.map(|[least, most]| [millis(least), millis(most)]);
    parts.extend(rtt.map(|[least, most]| format!("smoothed round trip {least} to {most} ms")));
    parts.join(", ")
}

/// Describes a data channel in one line.
fn data_channel(channel: &DataChannel) -> String {
    let mut parts = vec![format!("data channel '{}' on stream {}", channel.label, channel.stream)];
    if !channel.protocol.is_empty() {
        parts.push(format!("protocol {}", channel.protocol));
    }
    parts.push(if channel.unordered { "unordered" } else { "ordered" }.to_owned());
    parts.push(match (channel.max_retransmits, channel.max_lifetime_ms) {
        (Some(times), _) => format!("retransmitted at most {}", counted(times.into(), "time")),
        (_, Some(millis)) => format!("sent for at most {millis} ms"),
        _ => "reliable".to_owned(),
    });
    parts.push(format!("opened by {} at {}", channel.by, seconds(channel.opened_ns)));
    parts.push(match channel.accepted_ns {
        Some(at) => format!("accepted after {} ms", millis(at.saturating_sub(channel.opened_ns))),
        None => "not accepted".to_owned(),
    });
    for (side, name) in ["A to B", "B to A"].iter().enumerate() {
        let messages = counted(channel.messages[side], "message");
        let waiting = match channel.most_unacknowledged[side] {
            0 => String::new(),
            bytes => {
                let at = channel.most_unacknowledged_ns[side].unwrap_or(0);
                format!(", {bytes} at most not acknowledged, at {}", seconds(at))
            }
        };
        parts.push(format!("{name} {messages} of {} bytes{waiting}", channel.bytes[side]));
    }
    parts.join(", ")
}

/// Writes the HTTP requests, with at most `most` lines.
fn requests(text: &mut String, conversation: &Conversation, most: usize) {
    let all = &conversation.requests;
    if all.is_empty() {
        return;
    }
    let total = all.len() as u64 + conversation.requests_left_out;
    let done = all.iter().filter(|request| request.done_ns.is_some()).count();
    let bytes: u64 = all.iter().map(|request| request.bytes[1]).sum();
    let _ =
        writeln!(text, "  {}, {done} complete, {bytes} bytes of responses", counted(total, "HTTP request"));
    for request in all.iter().take(most) {
        let method = request.method.as_deref().unwrap_or("request");
        let target = request.target.as_ref().map(|target| format!(" {target}")).unwrap_or_default();
        let stream = if request.stream > 0 || conversation.transport == "quic" {
            format!(" on stream {}", request.stream)
        } else {
            String::new()
        };
        let status = request.status.map(|status| format!(", status {status}")).unwrap_or_default();
        let after = |at: Option<u64>| at.map(|at| millis(at.saturating_sub(request.at_ns)));
        let answered =
            after(request.answered_ns).map(|ms| format!(", answered after {ms} ms")).unwrap_or_default();
        let done = after(request.done_ns)
            .map_or(", not complete".to_owned(), |ms| format!(", complete after {ms} ms"));
        let at = seconds(request.at_ns);
        let _ = writeln!(
            text,
            "    {at}  {method}{target}{stream}{status}, {} bytes{answered}{done}",
            request.bytes[1]
        );
    }
    if most > 0 && all.len() > most {
        let _ = writeln!(text, "    ({} more)", counted((all.len() - most) as u64, "request"));
    }
}

/// Returns a row for each direction of each path, or no rows if there is only one path.
fn paths(conversation: &Conversation) -> Vec<[String; 10]> {
    let mut rows = Vec::new();
    if conversation.paths.len() < 2 {
        return rows;
    }
    for path in &conversation.paths {
        for (index, on) in path.directions.iter().enumerate().filter(|(_, on)| on.packets > 0) {
            let [from, to] = [&path.addresses[index], &path.addresses[1 - index]];
            rows.push([
                format!("{from} to {to}"),
                on.packets.to_string(),
                on.wire_bytes.to_string(),
                on.data.to_string(),
                String::new(),
                String::new(),
                String::new(),
                retransmitted(&on.retransmitted),
                on.retransmitted.spurious.to_string(),
                rtt(&on.rtt),
            ]);
        }
    }
    rows
}

fn beginning(conversation: &Conversation) -> String {
    let shake = &conversation.handshake;
    if !shake.seen {
        return "began before the capture".to_owned();
    }
    let what = match conversation.transport {
        "sctp" => "INIT",
        "tcp" => "SYN",
        _ => "ClientHello",
    };
    let mut line = match shake.took_ns {
        Some(took) => format!("handshake {} ms", millis(took)),
        None if conversation.end.how == "incomplete" || conversation.security.is_none() => {
            "handshake not completed".to_owned()
        }
        None => "handshake encrypted".to_owned(),
    };
    if let Some(trip) = shake.rtt_ns {
        let _ = write!(line, " (round trip {} ms)", millis(trip));
    }
    if shake.attempts > 1 {
        let _ = write!(line, ", {what} sent {} times", shake.attempts);
    }
    line
}

fn ending(conversation: &Conversation) -> String {
    let end = &conversation.end;
    let by = end.by.map(|side| format!(" by {side}")).unwrap_or_default();
    let at = end.at_ns.map(|at| format!(" at {}", seconds(at))).unwrap_or_default();
    let reason = end.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    match end.how {
        "open" => {
            format!("still open at the end of the capture, last packet at {}", seconds(conversation.last_ns))
        }
        "incomplete" => format!("last packet at {}", seconds(conversation.last_ns)),
        "shutdown" => format!("shut down{by}{at}"),
        "abort" => format!("aborted{by}{at}{reason}"),
        "restarted" => format!("replaced{at}: the peer restarted"),
        how => format!("{how}{by}{at}{reason}"),
    }
}

fn remarks(direction: &Direction, transport: &str) -> Vec<String> {
    let sctp = transport == "sctp";
    let mut parts = Vec::new();
    let mut add = |count: u64, what: &str| {
        if count > 0 {
            parts.push(counted(count, what));
        }
    };
    add(direction.retransmitted_packets, "packet with retransmitted data");
    add(direction.timeouts, "timeout");
    add(direction.retransmitted.inferred, "retransmitted, known by the gap it fills");
    add(direction.reordered, "overtaken");
    let gap_acks = match transport {
        "sctp" => "SACK with gaps",
        "quic" => "ACK with gaps",
        _ => "ACK with SACK blocks",
    };
    add(direction.gap_acks, gap_acks);
    add(direction.duplicates_reported, "duplicate reported");
    add(direction.captured_twice, "packet captured twice");
    add(direction.copies - direction.captured_twice, "copy made on the way");
    add(direction.damaged, "damaged");
    add(direction.not_captured, if sctp { "TSN not captured" } else { "byte not captured" });
    add(direction.keep_alives, "keep-alive");
    if direction.checksums_left > 0 {
        parts.push(format!("checksum left to the network card ({})", direction.checksums_left));
    }
    // A payload protocol identifier of 0 means that the application did not specify any.
    for (ppid, count) in direction.ppids.iter().filter(|(ppid, _)| **ppid != 0) {
        let name = ppid::name(*ppid).map(|name| format!(" ({name})")).unwrap_or_default();
        parts.push(format!("{} of PPID {ppid}{name}", counted(*count, "message")));
    }
    if sctp {
        let rare = direction.chunks.iter().filter(|(name, _)| !["DATA", "I-DATA", "SACK"].contains(name));
        parts.extend(rare.map(|(name, count)| format!("{count} {name}")));
    }
    parts
}

fn retransmitted(retransmitted: &Retransmitted) -> String {
    if retransmitted.all() == 0 {
        return "0".to_owned();
    }
    let parts =
        [(retransmitted.fast, "fast"), (retransmitted.timeout, "timeout"), (retransmitted.other, "other")];
    let parts: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    parts.join(" + ")
}

fn rtt(rtt: &Rtt) -> String {
    match rtt.samples {
        0 => "-".to_owned(),
        _ => format!("{}/{}/{}", millis(rtt.min_ns), millis(rtt.mean_ns), millis(rtt.max_ns)),
    }
}

fn columns<const N: usize>(text: &mut String, rows: &[[String; N]]) {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    for row in rows {
        let mut line = format!("  {:<1$}", row[0], widths[0]);
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            let _ = write!(line, "  {cell:>width$}");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

pub(super) fn counted(count: u64, what: &str) -> String {
    if let Some(what) = what.strip_prefix("HTTP ") {
        return counted(count, what).replacen(' ', " HTTP ", 1);
    }
    let mut words = what.splitn(2, ' ');
    let (first, rest) = (words.next().unwrap_or_default(), words.next());
    let plural = match first {
        "overtaken" | "damaged" | "retransmitted," => "",
        _ if count == 1 => "",
        "copy" => {
            return format!("{count} copies{}", rest.map(|rest| format!(" {rest}")).unwrap_or_default());
        }
        _ => "s",
    };
    format!("{count} {first}{plural}{}", rest.map(|rest| format!(" {rest}")).unwrap_or_default())
}

pub(super) fn seconds(nanos: u64) -> String {
    format!("{}.{:03} s", nanos / 1_000_000_000, nanos / 1_000_000 % 1_000)
}

/// Formats `nanos` nanoseconds as milliseconds: with three decimals below 10 ms, otherwise with one.
pub(super) fn millis(nanos: u64) -> String {
    let micros = nanos / 1_000;
    if micros < 10_000 {
        format!("{}.{:03}", micros / 1_000, micros % 1_000)
    } else {
        format!("{}.{}", micros / 1_000, micros % 1_000 / 100)
    }
}
