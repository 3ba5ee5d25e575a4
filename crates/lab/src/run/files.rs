//! The files of a run: their names, and the page load as HAR.

use anabranch_base::Instant;
use anabranch_http::har::write::{self as har, Fetch};
use anabranch_http::page::Page;
use anabranch_results::{Point, Run, label};
use std::collections::BTreeMap;

/// Returns the prefix of the file names of each contestant.
#[must_use]
pub fn names(point: &Point, prefix: &str) -> Vec<String> {
    let contestants: Vec<&str> =
        point.contestants.iter().map(|contestant| contestant.name.as_str()).collect();
    label::file_names(&contestants).into_iter().map(|name| format!("{prefix}{name}")).collect()
}

/// Returns whether `--pcap median` keeps the capture of a host of the median run. The server sends most data, and its
/// capture shows why packets were sent again. If the page has several servers, only the client's capture has the packets
/// of all of them.
#[must_use]
pub fn is_kept(host: &str, servers: usize) -> bool {
    host == "server" || (host == "client" && servers > 1)
}

/// Formats the page load of a run as HAR.
#[must_use]
pub fn page_load(page: &Page, settings: &BTreeMap<String, String>, run: &Run, comment: &str) -> String {
    let is = |key: &str, value: &str| settings.get(key).is_some_and(|is| is == value);
    let version = [("2", "HTTP/2"), ("3", "HTTP/3")].into_iter().find(|(value, _)| is("http", value));
    let version = version.map_or("HTTP/1.1", |(_, version)| version);
    // RFC 9114 §3.1: URLs that are fetched over HTTP/3 have the scheme https.
    let scheme = if is("tls", "yes") || is("http", "3") { "https" } else { "http" };
    let instant = |ns: u64| Instant::from_nanos(ns);
    let last = run.objects.iter().filter_map(|object| object.delivered_ns).max().unwrap_or(0);
    let fetches: Vec<Fetch> = run
        .objects
        .iter()
        .enumerate()
        .filter_map(|(index, object)| {
            let issued = object.issued_ns?;
            Some(Fetch {
                object: index,
                issued: instant(issued),
                assigned: object.instants.map(|instants| instant(instants.assigned_ns)),
                first_byte: object.first_byte_ns.map(instant),
                ended: instant(object.delivered_ns.unwrap_or(last).max(issued)),
                version,
                connection: object.connection.map(|port| port.to_string()).unwrap_or_default(),
                status: if object.failure.is_none() { 200 } else { 0 },
                failure: object.failure.clone(),
            })
        })
        .collect();
    har::write(page, scheme, &fetches, 0, env!("CARGO_PKG_VERSION"), comment)
}
