//! Writes the log of one connection in qlog format (draft-ietf-quic-qlog-main-schema, version 0.3), as JSON text
//! sequences (RFC 7464). The log has those events of draft-ietf-quic-qlog-quic-events that can be observed.
//!
//! The events are recorded where packets are encrypted and decrypted (module `keys`), and in the congestion controller
//! (module `window`). The events show packets with their frames in both directions, lost packets, the congestion window
//! and the round-trip time. The first Initial packet that a server receives is missing, because the server decrypts it
//! before the connection exists. The caller supplies the output ([`Logs`]), so this module does not use files.

use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_transport::network::Logs;
use anabranch_transport::protocol::ConnectionLog;
use anabranch_wire::quic::{Frame, Frames};
use quinn_proto::Side;
use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// Logs that are kept in memory, in the order in which the connections began.
#[derive(Default)]
pub(crate) struct MemoryLogs(Mutex<Vec<(String, MemoryLog)>>);

/// The content of a log in memory, which grows while the connection lasts.
#[derive(Clone, Default)]
struct MemoryLog(Arc<Mutex<Vec<u8>>>);

impl Write for MemoryLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Logs for MemoryLogs {
    fn begin(&self, name: &str) -> Option<Box<dyn Write + Send>> {
        let log = MemoryLog::default();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((name.to_owned(), log.clone()));
        Some(Box::new(log))
    }
}

impl MemoryLogs {
    /// Removes and returns all logs with the content written so far.
    pub(crate) fn take(&self) -> Vec<ConnectionLog> {
        let logs = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let content =
            |log: MemoryLog| std::mem::take(&mut *log.0.lock().unwrap_or_else(PoisonError::into_inner));
        logs.into_iter().map(|(name, log)| ConnectionLog { name, content: content(log) }).collect()
    }
}

/// The kind of keys that protect a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PacketType {
    Initial,
    Handshake,
    ZeroRtt,
    OneRtt,
}

impl PacketType {
    /// Returns the name of these keys in qlog's `PacketType`.
    const fn name(self) -> &'static str {
        match self {
            Self::Initial => "initial",
            Self::Handshake => "handshake",
            Self::ZeroRtt => "0RTT",
            Self::OneRtt => "1RTT",
        }
    }
}

/// A packet with its plaintext payload: a sent packet before encryption, or a received packet after decryption.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoggedPacket<'a> {
    pub(crate) packet_type: PacketType,
    pub(crate) number: u64,
    /// The length of the whole packet in bytes, including its header and its authentication tag.
    pub(crate) length: usize,
    pub(crate) payload: &'a [u8],
}

/// The values that loss recovery and congestion control report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) window: u64,
    pub(crate) in_flight: u64,
    pub(crate) smoothed_rtt: Option<Duration>,
    pub(crate) min_rtt: Option<Duration>,
}

/// The log of one connection.
pub(crate) struct Qlog {
    /// The output; `None` once a write has failed.
    out: Option<Box<dyn Write + Send>>,
    since: Instant,
    /// The metrics that were last written to the log.
    metrics: Metrics,
    /// The record that is being composed.
    text: String,
}

impl fmt::Debug for Qlog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Qlog").field("since", &self.since).finish_non_exhaustive()
    }
}

impl Qlog {
    /// Returns the file name of a log. It contains the client's first destination connection ID, so the logs of both
    /// ends have matching names.
    pub(crate) fn name(side: Side, first: &[u8]) -> String {
        format!("{}.{}.sqlog", Hex(first), vantage(side))
    }

    /// Creates a log whose time starts now, and writes its header.
    pub(crate) fn begin(out: Box<dyn Write + Send>, side: Side, first: &[u8], now: Instant) -> Self {
        let (metrics, text) = (Metrics::default(), String::new());
        let mut log = Self { out: Some(out), since: now, metrics, text };
        let _ = write!(
            log.text,
            "{{\"qlog_version\":\"0.3\",\"qlog_format\":\"JSON-SEQ\",\"title\":\"anabranch {}\",\"trace\":{{\"vantage_point\":\
             {{\"type\":\"{}\"}},\"common_fields\":{{\"ODCID\":\"{}\",\"time_format\":\"relative\",\"reference_time\":0}}}}}}",
            env!("CARGO_PKG_VERSION"),
            vantage(side),
            Hex(first),
        );
        log.flush();
        log
    }

    /// Writes the record in `text` to the output, and clears `text`.
    fn flush(&mut self) {
        if let Some(out) = &mut self.out
            && writeln!(out, "\x1e{}", self.text).is_err()
        {
            // After a write error nothing more is logged, because a full disk must not end the connection.
            self.out = None;
        }
        self.text.clear();
    }

    /// Begins a record in `text`. The caller appends the record's data and a closing brace.
    fn event(&mut self, at: Instant, name: &str) {
        let since = at.since(self.since).as_nanos();
        let (millis, rest) = (since / 1_000_000, since % 1_000_000);
        let _ = write!(self.text, "{{\"time\":{millis}.{rest:06},\"name\":\"{name}\",\"data\":");
    }

    fn end(&mut self) {
        self.text.push('}');
        self.flush();
    }

    /// Writes a record for a packet that is being sent or has been received.
    pub(crate) fn packet(&mut self, at: Instant, sent: bool, seen: LoggedPacket<'_>) {
        if self.out.is_none() {
            return;
        }
        self.event(at, if sent { "transport:packet_sent" } else { "transport:packet_received" });
        let LoggedPacket { packet_type, number, length, payload } = seen;
        let _ = write!(
            self.text,
            "{{\"header\":{{\"packet_type\":\"{}\",\"packet_number\":{number}}},\"raw\":{{\"length\":{length},\
             \"payload_length\":{}}},\"frames\":[",
            packet_type.name(),
            payload.len(),
        );
        let mut first = true;
        for frame in Frames(payload) {
            if !std::mem::replace(&mut first, false) {
                self.text.push(',');
            }
            let _ = write!(self.text, "{}", QuicFrame(&frame));
        }
        self.text.push_str("]}");
        self.end();
    }

    /// Writes a record for a packet that was declared lost.
    pub(crate) fn lost(&mut self, at: Instant, number: u64, by_timer: bool) {
        if self.out.is_none() {
            return;
        }
        self.event(at, "recovery:packet_lost");
        let trigger = if by_timer { "pto_expired" } else { "reordering_threshold" };
        let _ = write!(
            self.text,
            "{{\"header\":{{\"packet_type\":\"1RTT\",\"packet_number\":{number}}},\"trigger\":\"{trigger}\"}}"
        );
        self.end();
    }

    /// Writes a record with the congestion window, bytes in flight and round-trip times, if any of them has changed.
    pub(crate) fn metrics(&mut self, at: Instant, now: Metrics) {
        let before = std::mem::replace(&mut self.metrics, now);
        if self.out.is_none() || before == now {
            return;
        }
        self.event(at, "recovery:metrics_updated");
        let _ =
            write!(self.text, "{{\"congestion_window\":{},\"bytes_in_flight\":{}", now.window, now.in_flight);
        for (name, span) in [("smoothed_rtt", now.smoothed_rtt), ("min_rtt", now.min_rtt)] {
            if let Some(span) = span {
                let micros = span.as_micros();
                let _ = write!(self.text, ",\"{name}\":{}.{:03}", micros / 1_000, micros % 1_000);
            }
        }
        self.text.push('}');
        self.end();
    }

    /// Writes a record for the end of the connection.
    pub(crate) fn closed(&mut self, at: Instant, reason: &str) {
        if self.out.is_none() {
            return;
        }
        self.event(at, "connectivity:connection_closed");
        let _ = write!(self.text, "{{\"reason\":\"{}\"}}", Escaped(reason));
        self.end();
        if let Some(out) = &mut self.out {
            let _ = out.flush();
        }
    }
}

const fn vantage(side: Side) -> &'static str {
    match side {
        Side::Client => "client",
        Side::Server => "server",
    }
}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Formats text as the content of a JSON string (RFC 8259 §7).
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '"' | '\\' => write!(f, "\\{c}"),
            c if c.is_control() => write!(f, "\\u{:04x}", u32::from(c)),
            c => f.write_char(c),
        })
    }
}

/// Formats a frame as qlog's `QuicFrame`.
struct QuicFrame<'a>(&'a Frame<'a>);

impl fmt::Display for QuicFrame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Frame::Stream { id, offset, data, fin } => write!(
                f,
                "{{\"frame_type\":\"stream\",\"stream_id\":{id},\"offset\":{offset},\"length\":{},\"fin\":{fin}}}",
                data.len()
            ),
            Frame::Ack(ranges) => {
                f.write_str("{\"frame_type\":\"ack\",\"acked_ranges\":[")?;
                for (at, range) in ranges.iter().rev().enumerate() {
                    let comma = if at > 0 { "," } else { "" };
                    write!(f, "{comma}[{},{}]", range.start(), range.end())?;
                }
                f.write_str("]}")
            }
            Frame::Crypto { offset, data } => {
                write!(f, "{{\"frame_type\":\"crypto\",\"offset\":{offset},\"length\":{}}}", data.len())
            }
            Frame::MaxData(most) => write!(f, "{{\"frame_type\":\"max_data\",\"maximum\":{most}}}"),
            Frame::MaxStreamData { id, limit: most } => {
                write!(f, "{{\"frame_type\":\"max_stream_data\",\"stream_id\":{id},\"maximum\":{most}}}")
            }
            Frame::DataBlocked(limit) => {
                write!(f, "{{\"frame_type\":\"data_blocked\",\"limit\":{limit}}}")
            }
            Frame::StreamDataBlocked { id, limit } => {
                write!(f, "{{\"frame_type\":\"stream_data_blocked\",\"stream_id\":{id},\"limit\":{limit}}}")
            }
            Frame::ResetStream(id) => {
                write!(f, "{{\"frame_type\":\"reset_stream\",\"stream_id\":{id}}}")
            }
            Frame::StopSending(id) => {
                write!(f, "{{\"frame_type\":\"stop_sending\",\"stream_id\":{id}}}")
            }
            Frame::Padding => f.write_str("{\"frame_type\":\"padding\"}"),
            Frame::Ping => f.write_str("{\"frame_type\":\"ping\"}"),
            Frame::Close { transport, code } => {
                let space = if *transport { "transport" } else { "application" };
                write!(
                    f,
                    "{{\"frame_type\":\"connection_close\",\"error_space\":\"{space}\",\"raw_error_code\":{code}}}"
                )
            }
            Frame::PathChallenge(token) => {
                write!(f, "{{\"frame_type\":\"path_challenge\",\"data\":\"{token:016x}\"}}")
            }
            Frame::PathResponse(token) => {
                write!(f, "{{\"frame_type\":\"path_response\",\"data\":\"{token:016x}\"}}")
            }
            Frame::NewConnectionId(_) => f.write_str("{\"frame_type\":\"new_connection_id\"}"),
            Frame::Other(kind) => match name(*kind) {
                Some(name) => write!(f, "{{\"frame_type\":\"{name}\"}}"),
                None => write!(f, "{{\"frame_type\":\"unknown\",\"raw_frame_type\":{kind}}}"),
            },
        }
    }
}

/// Returns the qlog name of a frame type whose content is not logged; `None` if the type is unknown.
const fn name(kind: u64) -> Option<&'static str> {
    Some(match kind {
        0x07 => "new_token",
        0x12 | 0x13 => "max_streams",
        0x16 | 0x17 => "streams_blocked",
        0x19 => "retire_connection_id",
        0x1e => "handshake_done",
        0x30 | 0x31 => "datagram",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_only_where_json_demands_it() {
        // RFC 8259 §7: only quotation marks, reverse solidi and control characters are escaped.
        assert_eq!(Escaped("a \"b\" \\ c\n\u{1}é").to_string(), "a \\\"b\\\" \\\\ c\\u000a\\u0001é");
    }

    #[test]
    fn a_log_in_memory_has_a_record_for_each_event() {
        let memory_logs = MemoryLogs::default();
        let out = memory_logs.begin("name").expect("a log");
        let mut log = Qlog::begin(out, Side::Client, &[0xab, 0x01], Instant::from_millis(5));
        let metrics = Metrics { window: 12_000, in_flight: 1_200, ..Metrics::default() };
        log.metrics(Instant::from_millis(7), metrics);
        log.metrics(Instant::from_millis(8), metrics);
        let smoothed_rtt = Some(Duration::from_micros(1_500));
        log.metrics(Instant::from_millis(9), Metrics { smoothed_rtt, ..metrics });
        log.lost(Instant::from_millis(10), 3, true);
        log.lost(Instant::from_millis(10), 4, false);
        log.closed(Instant::from_millis(11), "no \"reason\"");
        let logs = memory_logs.take();
        assert_eq!(logs.iter().map(|log| &log.name[..]).collect::<Vec<_>>(), ["name"]);
        let text = String::from_utf8(logs[0].content.clone()).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        let wanted = [
            concat!(
                "\x1e{\"qlog_version\":\"0.3\",\"qlog_format\":\"JSON-SEQ\",\"title\":\"anabranch ",
                env!("CARGO_PKG_VERSION"),
                "\",\"trace\":{\"vantage_point\":{\"type\":\"client\"},\"common_fields\":{\"ODCID\":\"ab01\",",
                "\"time_format\":\"relative\",\"reference_time\":0}}}"
            ),
            "\x1e{\"time\":2.000000,\"name\":\"recovery:metrics_updated\",\"data\":{\"congestion_window\":12000,\
             \"bytes_in_flight\":1200}}",
            "\x1e{\"time\":4.000000,\"name\":\"recovery:metrics_updated\",\"data\":{\"congestion_window\":12000,\
             \"bytes_in_flight\":1200,\"smoothed_rtt\":1.500}}",
            "\x1e{\"time\":5.000000,\"name\":\"recovery:packet_lost\",\"data\":{\"header\":{\"packet_type\":\"1RTT\",\
             \"packet_number\":3},\"trigger\":\"pto_expired\"}}",
            "\x1e{\"time\":5.000000,\"name\":\"recovery:packet_lost\",\"data\":{\"header\":{\"packet_type\":\"1RTT\",\
             \"packet_number\":4},\"trigger\":\"reordering_threshold\"}}",
            "\x1e{\"time\":6.000000,\"name\":\"connectivity:connection_closed\",\"data\":{\"reason\":\"no \\\"reason\\\"\"}}",
        ];
        assert_eq!(lines, wanted);
        assert_eq!(memory_logs.take(), []);
    }
}
