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
use anabranch_wire::qlog::{self, Escaped, Hex};
pub(crate) use anabranch_wire::qlog::{LoggedPacket, PacketType};
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

/// The values of loss recovery and congestion control that the log records.
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
    /// The text of the log record that is being composed.
    text: String,
}

impl fmt::Debug for Qlog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Qlog").field("since", &self.since).finish_non_exhaustive()
    }
}

impl Qlog {
    /// Returns the file name of a log. The name contains the client's first destination connection ID, so the two ends
    /// of a connection give their logs matching names.
    pub(crate) fn name(side: Side, first: &[u8]) -> String {
        format!("{}.{}.sqlog", Hex(first), vantage(side))
    }

    /// Creates a log whose time starts now, and writes its header.
    pub(crate) fn begin(out: Box<dyn Write + Send>, side: Side, first: &[u8], now: Instant) -> Self {
        let vantage = format!("\"type\":\"{}\"", vantage(side));
        let text = qlog::header(&vantage, first);
        let mut log = Self { out: Some(out), since: now, metrics: Metrics::default(), text };
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
        qlog::begin_event(&mut self.text, at.since(self.since).as_nanos() as u64, name);
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
        qlog::packet(&mut self.text, at.since(self.since).as_nanos() as u64, sent, seen);
        self.flush();
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

#[cfg(test)]
mod tests {
    use super::*;

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
