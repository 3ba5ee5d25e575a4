//! The dump of chrome://webrtc-internals: the statistics of data channels and transports over time.
//!
//! The dump has, for each connection, one series for each value of each statistics object: `D1-bytesSent`, for example.
//! A series is a list of numbers as text, with the times of the first and the last number. The series `D1-timestamp` has
//! the time of each number. All series of an object end at the same time, but some begin later than others.

use super::DecodeError;
use super::results::Statistics;
use anabranch_wire::pcap::CaptureError;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufReader, Read};
use std::marker::PhantomData;

/// The maximum size of a dump in bytes. A longer dump is read only up to this size, so it counts as damaged.
const MAX_SIZE: u64 = 256 << 20;
/// The maximum number of connections, and of series of a connection.
const MAX_ENTRIES: usize = 1 << 12;
/// The maximum number of values that are read of a series. Chromium keeps fewer.
const MAX_VALUES: usize = 1 << 16;

/// The names of the values that the results show, for each type of statistics object.
const SHOWN: &[(&str, &[&str])] = &[
    ("data-channel", &["messagesSent", "bytesSent", "messagesReceived", "bytesReceived"]),
    ("transport", &["packetsSent", "bytesSent", "packetsReceived", "bytesReceived"]),
    ("sctp-transport", &["smoothedRoundTripTime", "congestionWindow", "receiverWindow", "unackData"]),
    ("candidate-pair", &["currentRoundTripTime", "availableOutgoingBitrate", "bytesSent", "bytesReceived"]),
];

#[derive(Deserialize)]
struct Dump {
    #[serde(rename = "PeerConnections", default)]
    connections: Entries<Connection>,
}

#[derive(Deserialize)]
struct Connection {
    #[serde(default)]
    stats: Entries<Series>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Series {
    start_time: Option<String>,
    end_time: Option<String>,
    stats_type: Option<String>,
    values: Option<String>,
}

/// The entries of a JSON object. Only the first [`MAX_ENTRIES`] wanted ones are kept.
struct Entries<T>(Vec<(String, T)>);

trait Entry {
    fn is_wanted(name: &str) -> bool;
}

impl Entry for Connection {
    fn is_wanted(_: &str) -> bool {
        true
    }
}

impl Entry for Series {
    fn is_wanted(name: &str) -> bool {
        let Some((_, value)) = name.rsplit_once('-') else { return false };
        ["timestamp", "label"].contains(&value) || SHOWN.iter().any(|(_, shown)| shown.contains(&value))
    }
}

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Entry + Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntriesVisitor(PhantomData))
    }
}

struct EntriesVisitor<T>(PhantomData<T>);

impl<'de, T: Entry + Deserialize<'de>> Visitor<'de> for EntriesVisitor<T> {
    type Value = Entries<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            if entries.len() < MAX_ENTRIES && T::is_wanted(&name) {
                entries.push((name, map.next_value()?));
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(Entries(entries))
    }
}

/// Reads a dump.
pub(super) fn read(input: impl Read) -> Result<Vec<Statistics>, DecodeError> {
    let input = BufReader::with_capacity(1 << 16, input.take(MAX_SIZE));
    let dump: Dump = serde_json::from_reader(input).map_err(|error| match error.io_error_kind() {
        Some(_) => DecodeError::Source(CaptureError::Read(error.into())),
        None => DecodeError::Dump(error.line(), error.column()),
    })?;
    let mut all: Vec<Statistics> = Vec::new();
    for (connection, content) in dump.connections.0 {
        all.extend(objects(&connection, content.stats.0));
    }
    let first = all.iter().filter_map(|statistics| statistics.at_ns.first()).min().copied().unwrap_or(0);
    for statistics in &mut all {
        statistics.at_ns.iter_mut().for_each(|at| *at = at.saturating_sub(first));
    }
    Ok(all)
}

/// Returns the statistics of each object of a connection.
fn objects(connection: &str, series: Vec<(String, Series)>) -> Vec<Statistics> {
    let mut by_object: BTreeMap<String, BTreeMap<String, Series>> = BTreeMap::new();
    for (name, series) in series {
        if let Some((id, value)) = name.rsplit_once('-') {
            by_object.entry(id.to_owned()).or_default().insert(value.to_owned(), series);
        }
    }
    let object = |(id, series): (String, BTreeMap<String, Series>)| object(connection, id, &series);
    by_object.into_iter().filter_map(object).collect()
}

fn object(connection: &str, id: String, series: &BTreeMap<String, Series>) -> Option<Statistics> {
    let kind = series.values().find_map(|series| series.stats_type.as_deref())?;
    let (kind, shown) = SHOWN.iter().find(|(known, _)| *known == kind)?;
    let mut values: BTreeMap<String, Vec<Option<f64>>> = shown
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), numbers(series.get(*name)?))))
        .filter(|(_, values)| !values.is_empty())
        .collect();
    // Leaves out candidate pairs that were never used, which are most of them.
    let is_used =
        |name: &str| values.get(name).is_some_and(|values| values.last().is_some_and(|v| *v > Some(0.0)));
    if *kind == "candidate-pair" && !is_used("bytesSent") && !is_used("bytesReceived") {
        return None;
    }
    let count = values.values().map(Vec::len).max()?;
    // Series that began later have fewer values, so they are padded at the beginning.
    for values in values.values_mut() {
        let mut padded = vec![None; count - values.len()];
        padded.append(values);
        *values = padded;
    }
    let label = series.get("label").and_then(|series| series.values.as_deref()).and_then(first_text);
    let at_ns = times(series, count);
    Some(Statistics { connection: connection.to_owned(), id, kind: (*kind).to_owned(), label, at_ns, values })
}

/// Returns the times of the last `count` values of an object, in nanoseconds since 1970.
fn times(series: &BTreeMap<String, Series>, count: usize) -> Vec<u64> {
    let nanos = |millis: f64| (millis * 1e6) as u64;
    if let Some(stamps) = series.get("timestamp").map(numbers).filter(|stamps| stamps.len() >= count) {
        return stamps[stamps.len() - count..].iter().map(|millis| nanos(millis.unwrap_or(0.0))).collect();
    }
    // If the times of some values are missing, all values are assumed to be equally distant in time.
    let longest = series.values().max_by_key(|series| numbers(series).len());
    let time = |text: Option<&String>| text.and_then(|text| date(text)).unwrap_or(0.0);
    let begin = time(longest.and_then(|series| series.start_time.as_ref()));
    let end = time(longest.and_then(|series| series.end_time.as_ref()));
    let step = if count > 1 { (end - begin) / (count - 1) as f64 } else { 0.0 };
    (0..count).map(|index| nanos(begin + step * index as f64)).collect()
}

/// Parses the values of a series, which are a JSON list as text. Other values than numbers become `None`.
fn numbers(series: &Series) -> Vec<Option<f64>> {
    let text = series.values.as_deref().unwrap_or_default().trim();
    let Some(text) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) else {
        return Vec::new();
    };
    if text.trim().is_empty() {
        return Vec::new();
    }
    let number = |value: &str| value.trim().parse().ok().filter(|value: &f64| value.is_finite());
    text.split(',').take(MAX_VALUES).map(number).collect()
}

/// Returns the first text in a JSON list.
fn first_text(list: &str) -> Option<String> {
    let mut texts = serde_json::Deserializer::from_str(list.trim().strip_prefix('[')?).into_iter::<String>();
    let text = texts.next()?.ok()?;
    (!text.is_empty()).then(|| text.chars().filter(|character| !character.is_control()).take(80).collect())
}

/// Parses a time such as `2026-11-29T12:34:56.789Z`. Returns milliseconds since 1970.
fn date(text: &str) -> Option<f64> {
    let (day, time) = text.strip_suffix('Z')?.split_once('T')?;
    let mut parts = day.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let mut part = || parts.next().flatten();
    let (year, month, day) = (part()?, part()?, part()?);
    (year.abs() < 10_000 && (1..=12).contains(&month) && (1..=31).contains(&day)).then_some(())?;
    let mut parts = time.splitn(3, ':').map(|part| part.parse::<f64>().ok());
    let mut part = || parts.next().flatten();
    let (hours, minutes, seconds) = (part()?, part()?, part()?);
    // Years are counted from March, so that a leap day is the last day of its year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let days = 365 * year + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468;
    Some(((days as f64 * 24.0 + hours) * 60.0 + minutes) * 60_000.0 + seconds * 1_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Settings, decode, table};

    #[test]
    fn channels_and_used_pairs_are_shown_over_time() {
        let series = |kind: &str, values: &str| {
            format!(
                r#"{{"startTime":"2026-03-01T00:00:00.000Z","endTime":"2026-03-01T00:00:02.000Z","statsType":"{kind}","values":"{values}"}}"#
            )
        };
        let stats = [
            ("D1-bytesSent", series("data-channel", "[0,10,30]")),
            ("D1-bytesReceived", series("data-channel", "[5,6]")),
            ("D1-label", series("data-channel", r#"[\"a,b\",\"a,b\"]"#)),
            ("D1-state", series("data-channel", r#"[\"open\"]"#)),
            ("CP-1-bytesSent", series("candidate-pair", "[0,7]")),
            ("CP-1-timestamp", series("candidate-pair", "[1772323199000,1772323200500,1772323201500]")),
            ("CP-1-currentRoundTripTime", series("candidate-pair", r#"[0.02,\"x\"]"#)),
            ("CP-2-bytesSent", series("candidate-pair", "[0,0]")),
            ("V1-bytesSent", series("outbound-rtp", "[1]")),
            ("odd", "{}".to_owned()),
        ];
        let stats: Vec<String> = stats.iter().map(|(name, series)| format!("\"{name}\":{series}")).collect();
        let dump = format!(
            "{{\"getUserMedia\":[],\"PeerConnections\":{{\"1-2\":{{\"url\":\"x\",\"stats\":{{{}}}}},\"1-3\":{{}}}}}}",
            stats.join(",")
        );
        let decoded = decode("test", dump.as_bytes(), &Settings::default()).expect("a dump");
        let [pair, channel] = &decoded.statistics[..] else { panic!("{decoded:?}") };
        assert_eq!((channel.id.as_str(), channel.label.as_deref()), ("D1", Some("a,b")));
        assert_eq!(channel.at_ns, [0, 1_000_000_000, 2_000_000_000]);
        assert_eq!(channel.values["bytesReceived"], [None, Some(5.0), Some(6.0)]);
        assert_eq!((pair.id.as_str(), &pair.at_ns[..]), ("CP-1", &[500_000_000, 1_500_000_000][..]));
        assert_eq!(pair.values["currentRoundTripTime"], [Some(0.02), None]);
        let text = table::render(&decoded, 5);
        assert!(text.contains("data-channel D1 \"a,b\" of connection 1-2, 3 samples"), "{text}");
        assert!(text.contains("2 objects with statistics"), "{text}");
    }

    #[test]
    fn damaged_dumps_are_refused() {
        let error = |dump: &str| {
            decode("test", dump.as_bytes(), &Settings::default()).expect_err("no dump").to_string()
        };
        let expected = "damaged webrtc-internals dump at line 2, column ";
        assert!(error("{\n\"PeerConnections\"").starts_with(expected));
        assert!(error("{\"PeerConnections\":[]}").starts_with("damaged"));
        let odd = r#"{"PeerConnections":{"a":{"stats":{"D1-bytesSent":{"statsType":"data-channel","values":"[1"}}}}}"#;
        assert!(decode("test", odd.as_bytes(), &Settings::default()).expect("a dump").statistics.is_empty());
        assert_eq!(date("1970-01-01T00:00:01.5Z"), Some(1_500.0));
        assert_eq!(date("2024-02-29T12:00:00Z"), Some(1_709_208_000_000.0));
        assert_eq!((date("2024-13-01T00:00:00Z"), date("now")), (None, None));
    }
}
