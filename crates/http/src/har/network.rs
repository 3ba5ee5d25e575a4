//! Infers from the times of a recording what its network was like, and how long its servers took.
//!
//! - **Round trip** to an address: the time to connect without TLS. If there are several connections, the quantile 1/3
//!   of their times is used, because a busy link or browser delays some of them. If the connection was begun before its
//!   request, the round trip lies between the recorded time and the time of the TLS handshake, and the middle is used.
//!   For an address without a new connection, its shortest `wait` is used. If there are several addresses, their median is used, weighted by bytes.
//! - **Rate**: the bytes of the responses that began and ended within a period, divided by its length. Of all periods
//!   of at least 35 % of the load, the fastest counts. A shorter period may seem faster than the link, because data
//!   that waited for a retransmission is delivered at once. Over HTTP/1.1, such data is of one of several connections,
//!   which seldom fill the link for long. So periods of at least 20 % count.
//! - **Server time** of an object: its `wait` minus the round trip, and minus the time in which other responses
//!   arrived. Behind other responses, a response waits for the link or its connection, and not for the server. Over TLS
//!   and TCP, a browser can read a record of 16 KiB (RFC 8446 §5.1) only when it is complete. A response therefore began
//!   to arrive earlier than its first byte was read, by the time that the link needs for a record. The first response of
//!   a connection may take a second round trip, because the initial window of ten packets (RFC 6928) is too small for a
//!   record.

use super::initiator::FetchEntry;
use super::timings::{self, Handshake, duration};
use crate::page::recorded::{HttpVersion, Interval, Recorded, Recording};
use std::collections::BTreeMap;

/// The properties of a page's network, inferred from the times of the page's entries.
pub(super) struct Network<'a> {
    addresses: BTreeMap<&'a str, Address>,
    flights: BTreeMap<(&'a str, &'a str), Flight>,
    traffic: Traffic,
    rate_bps: Option<Interval>,
}

/// What is known about the round trip to an address. Times are in milliseconds.
#[derive(Clone, Debug, Default)]
struct Address {
    handshakes: Vec<Handshake>,
    shortest_wait: Option<f64>,
    bytes: u64,
}

impl Address {
    /// Returns the round trip to the address.
    fn round_trip(&self) -> Option<f64> {
        quantile(&self.connects(), 1.0 / 3.0).or(self.shortest_wait)
    }

    /// Returns the round trips that its connections took to connect.
    fn connects(&self) -> Vec<f64> {
        let least_tls = self.handshakes.iter().filter_map(|handshake| handshake.tls).reduce(f64::min);
        let connect = |handshake: &Handshake| match least_tls.filter(|_| handshake.is_cut) {
            // A longer TLS handshake took more than one round trip, or a busy browser delayed it.
            Some(tls) if (handshake.first..MOST_CUT * handshake.first).contains(&tls) => {
                f64::midpoint(handshake.first, tls)
            }
            _ => handshake.first,
        };
        self.handshakes.iter().map(connect).collect()
    }
}

/// The first flight of a connection: the responses to the requests that it carried in its first round trip.
#[derive(Clone, Copy, Debug)]
struct Flight {
    /// When the round trip ends, in milliseconds.
    until: f64,
    bytes: u64,
}

impl Flight {
    /// Returns the first flights of connections over TLS and TCP, by address and connection.
    fn first<'a>(
        entries: &[FetchEntry<'a>],
        addresses: &BTreeMap<&str, Address>,
    ) -> BTreeMap<(&'a str, &'a str), Self> {
        let mut flights: BTreeMap<_, Self> = BTreeMap::new();
        // The entries are in the order in which they were queued. Sort them by the time when they were sent.
        let mut sent: Vec<(f64, &FetchEntry<'a>)> = entries
            .iter()
            .filter(|entry| entry.address.tls && is_from_network(entry))
            .filter(|entry| timings::version(entry.value) != Some(HttpVersion::Http3))
            .filter_map(|entry| Some((entry.first_byte() - waited(entry)?, entry)))
            .collect();
        sent.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (at, entry) in sent {
            let Some(key) = connection(entry) else { continue };
            let rtt = addresses.get(key.0).and_then(Address::round_trip).unwrap_or(0.0);
            let flight = flights.entry(key).or_insert(Self { until: at + rtt, bytes: 0 });
            if at < flight.until {
                flight.bytes = flight.bytes.saturating_add(entry.size.as_ref().map_or(0, |size| size.body));
            }
        }
        flights
    }
}

/// A response with the times in milliseconds at which it began and ended.
#[derive(Clone, Copy)]
struct Received {
    began: f64,
    ended: f64,
    bytes: f64,
}

/// The time during which responses arrived.
#[derive(Default)]
struct Traffic {
    /// The times in milliseconds at which a response begins or ends.
    times: Vec<f64>,
    /// For each of `times`: the total time before it in which responses were arriving, in milliseconds.
    busy: Vec<f64>,
}

impl Traffic {
    /// Returns when the responses of a list arrived. It is assumed that each response arrived at a constant rate.
    fn of(responses: &[Received]) -> Self {
        let mut changes: Vec<(f64, f64, bool)> = Vec::with_capacity(2 * responses.len());
        for response in responses {
            let ended = response.ended.max(response.began + SHORTEST_MS);
            let rate = response.bytes / (ended - response.began);
            changes.extend([(response.began, rate, true), (ended, -rate, false)]);
        }
        changes.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut traffic = Self::default();
        let (mut rate, mut active, mut busy) = (0.0_f64, 0_usize, 0.0);
        let mut last = changes.first().map_or(0.0, |(at, ..)| *at);
        let span = changes.last().map_or(0.0, |(at, ..)| at - last);
        // Ignore rates below a tenth of the mean: a trickle, for example of events, does not delay other responses.
        let trickle = total(responses) / span.max(SHORTEST_MS) / 10.0;
        for (at, change, begins) in changes {
            busy += if rate > trickle { at - last } else { 0.0 };
            traffic.times.push(at);
            traffic.busy.push(busy);
            active = if begins { active + 1 } else { active.saturating_sub(1) };
            // Reset the rate when no response is arriving, so that rounding errors do not remain.
            rate = if active == 0 { 0.0 } else { rate + change };
            last = at;
        }
        traffic
    }

    /// Returns how long responses arrived between two times, in milliseconds.
    fn busy(&self, from: f64, until: f64) -> f64 {
        (self.busy_before(until) - self.busy_before(from)).max(0.0)
    }

    fn busy_before(&self, at: f64) -> f64 {
        let after = self.times.partition_point(|time| *time <= at);
        match (after.checked_sub(1), self.times.get(after)) {
            (None, _) => 0.0,
            (Some(before), None) => self.busy[before],
            (Some(before), Some(next)) => {
                let share = (at - self.times[before]) / (next - self.times[before]);
                self.busy[before] + share * (self.busy[after] - self.busy[before])
            }
        }
    }
}

impl<'a> Network<'a> {
    /// Infers the network from `entries`, which are ordered by time. The rate is inferred from the responses that began
    /// at `until` or earlier. `until` is in milliseconds since 1970.
    pub(super) fn of(entries: &[FetchEntry<'a>], until: Option<f64>) -> Self {
        let mut addresses: BTreeMap<&str, Address> = BTreeMap::new();
        let mut responses = Vec::new();
        let mut records = Vec::new();
        let mut http1 = 0;
        for entry in entries.iter().filter(|entry| is_from_network(entry)) {
            let bytes = entry.size.as_ref().map_or(0, |size| size.head.saturating_add(size.body));
            responses.push(Received { began: entry.first_byte(), ended: entry.ended, bytes: bytes as f64 });
            records.push(first_record(entry));
            http1 += usize::from(timings::version(entry.value) == Some(HttpVersion::Http1));
            let known = addresses.entry(address(entry)).or_default();
            known.handshakes.extend(entry.timings.handshake(timings::version(entry.value)));
            known.shortest_wait = [known.shortest_wait, waited(entry)].into_iter().flatten().reduce(f64::min);
            known.bytes = known.bytes.saturating_add(bytes);
        }
        let in_time = |response: &&Received| until.is_none_or(|until| response.began <= until);
        let share = if 2 * http1 > responses.len() { PERIOD_HTTP1 } else { PERIOD };
        let rate_bps = rate(responses.iter().filter(in_time).copied().collect(), share);
        for (response, record) in responses.iter_mut().zip(records) {
            response.began -= transmission(record, rate_bps);
        }
        let traffic = Traffic::of(&responses);
        let flights = Flight::first(entries, &addresses);
        Self { addresses, flights, traffic, rate_bps }
    }

    /// Returns the round-trip time, if at least one connection was opened.
    fn round_trip(&self) -> Option<Interval> {
        let connected = self.addresses.values().filter(|address| !address.handshakes.is_empty());
        let mut known: Vec<(f64, &Address)> =
            connected.filter_map(|address| Some((address.round_trip()?, address))).collect();
        known.sort_by(|a, b| a.0.total_cmp(&b.0));
        let total: u64 = known.iter().fold(0, |sum, (_, address)| sum.saturating_add(address.bytes));
        let at = |share: f64| {
            let mut sum = 0.0;
            known.iter().find(|(_, address)| {
                sum += address.bytes as f64;
                sum >= share * total as f64
            })
        };
        let (value, middle) = *at(0.5)?;
        let connects = middle.connects();
        let usual = quantile(&connects, 0.5).unwrap_or(value);
        let fastest = quantile(&connects, 0.0).unwrap_or(value);
        let low = at(0.1)?.0.min(fastest).min(value * (1.0 - PROCESSING));
        let high = at(0.9)?.0.max(usual).max(value * (1.0 + PROCESSING));
        let nanos = |millis: f64| (millis * 1e6).round() as u64;
        Some(Interval { value: nanos(value), low: nanos(low), high: nanos(high) })
    }

    /// Returns the recorded times of `entry` on a page that started at `start`.
    pub(super) fn recorded(&self, entry: &FetchEntry<'_>, start: f64) -> Recorded {
        let since = |at: f64| duration(at - start);
        let rtt = self.addresses.get(address(entry)).and_then(Address::round_trip);
        let server_time = waited(entry).zip(rtt).filter(|_| is_from_network(entry)).map(|(wait, rtt)| {
            let first_byte = entry.first_byte();
            let flight = connection(entry).and_then(|key| self.flights.get(&key));
            let is_slow = flight.is_some_and(|it| first_byte - wait < it.until && it.bytes > INITIAL_WINDOW);
            let took = (wait - if is_slow { 2.0 * rtt } else { rtt }).max(0.0);
            // In a second round trip, most of the record has arrived already.
            let record = if is_slow { transmission(first_record(entry), self.rate_bps) } else { 0.0 };
            duration(took - self.traffic.busy(first_byte - took, first_byte - record))
        });
        Recorded {
            queued: since(entry.started),
            blocked: duration(entry.sent() - entry.started),
            first_byte: since(entry.first_byte()),
            ended: since(entry.ended),
            server_time,
            version: timings::version(entry.value),
            from_cache: entry.size.as_ref().is_ok_and(|size| size.from_cache),
            by_service_worker: is_by_service_worker(entry),
        }
    }

    /// Returns what the recording says about the load of the page. `on_load` is the time of the load event in
    /// milliseconds since the start of the page. `None` if no entry has timings.
    pub(super) fn recording(
        &self,
        entries: &[FetchEntry<'_>],
        start: f64,
        on_load: Option<f64>,
    ) -> Option<Recording> {
        let mut versions = [0; 3];
        let mut ended = start;
        for entry in entries.iter().filter(|entry| is_from_network(entry)) {
            match timings::version(entry.value) {
                Some(HttpVersion::Http1) => versions[0] += 1,
                Some(HttpVersion::Http2) => versions[1] += 1,
                Some(HttpVersion::Http3) => versions[2] += 1,
                None => {}
            }
            if on_load.is_none_or(|on_load| entry.started <= start + on_load) {
                ended = ended.max(entry.ended);
            }
        }
        let has_times = entries.iter().any(|entry| waited(entry).is_some());
        has_times.then(|| Recording {
            load: duration(ended - start),
            on_load: on_load.map(duration),
            versions,
            rtt_ns: self.round_trip(),
            rate_bps: self.rate_bps,
        })
    }
}

/// Returns how long `entry` waited for its response, in milliseconds. Some exporters write 0 for unknown.
fn waited(entry: &FetchEntry<'_>) -> Option<f64> {
    entry.timings.wait.filter(|wait| *wait > 0.0)
}

/// Returns the address of the server of `entry`, and its connection. Returns `None` if no connection is recorded.
/// Firefox writes the port of the server instead, which does not count.
pub(super) fn connection<'a>(entry: &FetchEntry<'a>) -> Option<(&'a str, &'a str)> {
    let text = entry.value.get("connection").and_then(serde_json::Value::as_str)?;
    let port = entry.address.host.rsplit_once(':').map_or("", |(_, port)| port);
    (!["", "0", "80", "443", port].contains(&text)).then(|| (address(entry), text))
}

/// Returns the number of bytes in the TLS record that had to arrive before the first byte of the response was read. The
/// number is 0 without TLS and over QUIC.
fn first_record(entry: &FetchEntry<'_>) -> u64 {
    let has_records = entry.address.tls && timings::version(entry.value) != Some(HttpVersion::Http3);
    entry.size.as_ref().ok().filter(|_| has_records).map_or(0, |size| size.body.min(RECORD))
}

/// Returns how many milliseconds a link of this rate takes for `bytes` bytes. It is 0 if the rate is unknown.
fn transmission(bytes: u64, rate_bps: Option<Interval>) -> f64 {
    rate_bps.map_or(0.0, |rate| bytes as f64 * 8e3 * HEADERS / rate.value as f64)
}

/// Returns whether the response of `entry` crossed the network.
fn is_from_network(entry: &FetchEntry<'_>) -> bool {
    entry.size.as_ref().is_ok_and(|size| !size.from_cache) && !is_by_service_worker(entry)
}

fn is_by_service_worker(entry: &FetchEntry<'_>) -> bool {
    entry.value.get("_fetchedViaServiceWorker").and_then(serde_json::Value::as_bool) == Some(true)
}

/// Returns the address of the server of `entry`, or its host if no address is recorded.
fn address<'a>(entry: &FetchEntry<'a>) -> &'a str {
    let host = entry.url.split("://").nth(1).and_then(|rest| rest.split(['/', '?', '#']).next());
    let address = entry.value.get("serverIPAddress").and_then(serde_json::Value::as_str);
    address.filter(|address| !address.is_empty()).or(host).unwrap_or_default()
}

/// Returns the rate of the link towards the client, from periods of at least the share `period` of the load. Returns
/// `None` if the responses have too few bytes.
fn rate(mut responses: Vec<Received>, period: f64) -> Option<Interval> {
    if total(&responses) < LEAST_BYTES {
        return None;
    }
    responses.sort_by(|a, b| a.ended.total_cmp(&b.ended));
    let mut starts: Vec<f64> = responses.iter().map(|response| response.began).collect();
    starts.sort_by(f64::total_cmp);
    let load = responses.last()?.ended - starts.first()?;
    let starts: Vec<f64> = starts.iter().step_by(starts.len().div_ceil(MOST_STARTS)).copied().collect();
    // Returns the rate in bit/s of the fastest period that lasts at least the share `share` of the load.
    let fastest = |share: f64| {
        let mut fastest = 0.0_f64;
        for start in &starts {
            let mut bytes = 0.0;
            for response in responses.iter().filter(|response| response.began >= *start) {
                bytes += response.bytes;
                let span = response.ended - start;
                if span >= share * load * 0.999 && span >= SHORTEST_MS {
                    fastest = fastest.max(bytes * 8e3 / span * HEADERS);
                }
            }
        }
        fastest
    };
    let (value, short) = (fastest(period), fastest(0.05));
    let whole = |rate: f64| rate.round().max(1.0) as u64;
    if short > BURST * value {
        // The load filled the link only briefly, so even the rate of the short period may be below that of the link.
        return Some(Interval { value: whole(short), low: whole(value), high: u64::MAX });
    }
    let high = (1.2 * fastest(0.2)).max(spread(&responses, &starts, 0.2 * load)).max(value);
    Some(Interval { value: whole(value), low: whole(0.95 * fastest(0.6).min(value)), high: whole(high) })
}

/// Returns the rate in bit/s of the fastest period of `span` milliseconds that begins at one of `starts`. It is assumed
/// that each response arrived at a constant rate.
fn spread(responses: &[Received], starts: &[f64], span: f64) -> f64 {
    let within = |response: &Received, start: f64| {
        let ended = response.ended.max(response.began + SHORTEST_MS);
        let common = ended.min(start + span) - response.began.max(start);
        response.bytes * common.max(0.0) / (ended - response.began)
    };
    let bytes = |start: &f64| responses.iter().map(|response| within(response, *start)).sum::<f64>();
    let most = starts.iter().map(bytes).fold(0.0, f64::max);
    most * 8e3 / span.max(SHORTEST_MS) * HEADERS
}

fn total(responses: &[Received]) -> f64 {
    responses.iter().map(|response| response.bytes).sum()
}

/// Returns the quantile `share` of `values`, by linear interpolation.
fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = share * sorted.len().checked_sub(1)? as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    Some(below + (at - at.floor()) * (above - below))
}

/// The shortest time in milliseconds over which a response is assumed to arrive, so that its rate is finite.
const SHORTEST_MS: f64 = 0.5;
/// The share of a measured round trip that may be processing time of the client and the server.
const PROCESSING: f64 = 0.07;
/// A TLS handshake of at least this many times the first round trip does not show how much of that round trip is missing.
const MOST_CUT: f64 = 1.5;
/// The largest number of bytes in a TLS record.
const RECORD: u64 = 16_384;
/// The bytes of responses in the ten packets that a TCP connection sends in its first round trip.
const INITIAL_WINDOW: u64 = 14_000;
/// The shortest period from which a rate is inferred, as a share of the load. Of simulated loads of five pages over eight
/// networks of 2 to 20 Mbit/s, the error of the rate is smallest with these shares.
const PERIOD: f64 = 0.35;
const PERIOD_HTTP1: f64 = 0.2;
/// The minimum number of bytes from which a rate is inferred.
const LEAST_BYTES: f64 = 50_000.0;
/// The maximum number of start times of periods that are tried to find the fastest period.
const MOST_STARTS: usize = 200;
/// If short periods are faster than long ones by more than this factor, the load did not fill the link.
const BURST: f64 = 4.0;
/// The bytes on the link for each byte of a response. An IP packet of 1500 bytes carries 1448 bytes of TCP payload, and
/// this payload includes TLS and HTTP/2 framing.
const HEADERS: f64 = 1.045;
