//! Reads from the `timings` of a HAR entry for how long its request was blocked, connecting, sending, waiting and
//! receiving.

use super::size;
use crate::page::recorded::HttpVersion;
use serde_json::Value;
use std::time::Duration;

/// The recorded parts of an entry's time, in milliseconds. A part is `None` if it is missing or -1.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Timings {
    pub blocked: Option<f64>,
    pub dns: Option<f64>,
    /// The time to connect. It includes the TLS handshake if the file counts it as part of connecting.
    pub connect: Option<f64>,
    pub ssl: Option<f64>,
    pub send: Option<f64>,
    pub wait: Option<f64>,
    pub receive: Option<f64>,
    /// Whether `connect` includes `ssl`, as HAR 1.2 says. Firefox does not include it.
    with_ssl: bool,
}

/// The first round trips of a connection, in milliseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Handshake {
    /// The first round trip: the TCP handshake, or the QUIC handshake.
    pub first: f64,
    /// The TLS handshake over TCP: one or two round trips, and the processing time of both ends.
    pub tls: Option<f64>,
    /// Whether the connection was begun before the request, so that the beginning of the first round trip is missing.
    /// Chromium opens a connection for a navigation before it sends the request. It then writes that the name lookup
    /// began and ended with the request (net `url_request.cc`, `ConvertRealLoadTimesToBlockingTimes`).
    pub is_cut: bool,
}

impl Timings {
    /// Reads the timings of `entry`, which took `took` milliseconds. Values that are not numbers are ignored.
    pub(super) fn of(entry: &Value, took: f64) -> Self {
        let part = |name: &str| {
            let value = entry.get("timings")?.get(name).and_then(size::number)?;
            (value >= 0.0).then_some(value.min(MAX_MILLIS))
        };
        let mut timings = Self {
            blocked: part("blocked"),
            dns: part("dns"),
            connect: part("connect"),
            ssl: part("ssl"),
            send: part("send"),
            wait: part("wait"),
            receive: part("receive"),
            with_ssl: true,
        };
        // The parts add up to the time of the entry, so the sum shows whether `connect` includes `ssl`.
        let sum = timings.before_first_byte() + timings.receive.unwrap_or(0.0);
        timings.with_ssl = (sum - took).abs() <= (sum + timings.ssl.unwrap_or(0.0) - took).abs();
        timings
    }

    /// Returns the time from queueing the request until the first byte of the response.
    pub(super) fn before_first_byte(&self) -> f64 {
        let ssl = self.ssl.filter(|_| !self.with_ssl);
        [self.blocked, self.dns, self.connect, ssl, self.send, self.wait].into_iter().flatten().sum()
    }

    /// Returns the first round trips of a connection, if this entry opened the connection.
    pub(super) fn handshake(&self, version: Option<HttpVersion>) -> Option<Handshake> {
        let connect = self.connect.filter(|connect| *connect > 0.0)?;
        let is_cut = self.with_ssl && self.dns == Some(0.0);
        match self.ssl.filter(|_| self.with_ssl) {
            // A QUIC handshake, including TLS, takes one round trip plus the processing time of both ends. What is
            // missing of a handshake that is cut may be as much.
            Some(_) if version == Some(HttpVersion::Http3) => {
                let computing = if is_cut { 0.0 } else { COMPUTING };
                Some(Handshake { first: connect * (1.0 - computing), tls: None, is_cut: false })
            }
            // Chromium sometimes reports nearly the whole time as TLS. The round trip is then unknown.
            Some(ssl) => Some(Handshake { first: connect - ssl, tls: Some(ssl), is_cut })
                .filter(|handshake| handshake.first > connect / 50.0),
            None => Some(Handshake { first: connect, tls: None, is_cut: false }),
        }
    }
}

/// Returns the HTTP version of the response of `entry`, if it is known.
pub(super) fn version(entry: &Value) -> Option<HttpVersion> {
    let text = entry.pointer("/response/httpVersion").and_then(Value::as_str)?.to_ascii_lowercase();
    let is = |names: &[&str]| names.iter().any(|name| text.contains(name));
    if is(&["h3", "http/3", "quic/"]) {
        Some(HttpVersion::Http3)
    } else if is(&["h2", "http/2"]) {
        Some(HttpVersion::Http2)
    } else {
        is(&["http/1", "http/0"]).then_some(HttpVersion::Http1)
    }
}

/// Converts milliseconds to a duration. Negative times count as 0.
pub(super) fn duration(millis: f64) -> Duration {
    Duration::from_nanos((millis.clamp(0.0, MAX_MILLIS) * 1e6).round() as u64)
}

/// The share of a QUIC handshake that is processing time of both ends. Handshakes of Chromium 156 on emulated links
/// took 3 to 12 % longer than their round trips.
const COMPUTING: f64 = 0.05;
/// The maximum length of a recorded time in milliseconds, which is over a day. A longer time is reduced to it.
const MAX_MILLIS: f64 = 1e8;

/// Returns whether `entry` is a CORS preflight.
pub(super) fn is_preflight(entry: &Value) -> bool {
    entry.pointer("/request/method").and_then(Value::as_str) == Some("OPTIONS")
}
