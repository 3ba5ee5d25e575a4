//! Writes a page load as HAR 1.2, which tools can draw as a waterfall.

use super::date;
use crate::page::Page;
use anabranch_base::time::Instant;
use http::StatusCode;
use serde_json::{Value, json};

/// The times and the result of fetching one object of a page, from which a HAR entry is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fetch {
    /// The index of the object in the page.
    pub object: usize,
    /// When the page requested the object.
    pub issued: Instant,
    /// When the request was assigned to a connection.
    pub assigned: Option<Instant>,
    /// When the first byte of the response was read.
    pub first_byte: Option<Instant>,
    /// When the last byte of the response was read, or when the object failed.
    pub ended: Instant,
    /// The HTTP version, for example `HTTP/2`.
    pub version: &'static str,
    /// The identifier of the connection, as text.
    pub connection: String,
    /// The status of the response; 0 if there was no response.
    pub status: u16,
    /// The reason why the object failed; `None` if it did not fail.
    pub failure: Option<String>,
}

/// Formats one page load as pretty-printed HAR 1.2. `scheme` is the scheme of the URLs. `began` is the start of the run
/// in milliseconds since 1970; simulated runs start at 0.
#[must_use]
pub fn write(
    page: &Page,
    scheme: &str,
    fetches: &[Fetch],
    began: u64,
    version: &str,
    comment: &str,
) -> String {
    let loaded = fetches.iter().map(|fetch| fetch.ended).max().unwrap_or_default();
    let entries: Vec<Value> = fetches
        .iter()
        .filter_map(|fetch| {
            page.objects.get(fetch.object).map(|object| entry(page, scheme, object, fetch, began))
        })
        .collect();
    let har = json!({
        "log": {
            "version": "1.2",
            "creator": {"name": "anabranch", "version": version},
            "pages": [{
                "startedDateTime": date::iso(began),
                "id": "page_1",
                "title": page.name,
                "pageTimings": {"onContentLoad": -1, "onLoad": millis(loaded.as_nanos())},
                "comment": page.source,
            }],
            "entries": entries,
            "comment": comment,
        }
    });
    let mut text = serde_json::to_string_pretty(&har).unwrap_or_default();
    text.push('\n');
    text
}

fn entry(page: &Page, scheme: &str, object: &crate::page::Object, fetch: &Fetch, began: u64) -> Value {
    let assigned = fetch.assigned.unwrap_or(fetch.ended).clamp(fetch.issued, fetch.ended);
    let first_byte = fetch.first_byte.unwrap_or(fetch.ended).clamp(assigned, fetch.ended);
    let span = |from: Instant, to: Instant| millis((to - from).as_nanos() as u64);
    let host = page.hosts.get(object.host).map_or("server", String::as_str);
    let status = StatusCode::from_u16(fetch.status).ok();
    let initiator = object.initiator.and_then(|i| page.objects.get(i)).map(|cause| {
        let host = page.hosts.get(cause.host).map_or("server", String::as_str);
        format!("{scheme}://{host}{}", cause.name)
    });
    let version = fetch.version;
    let mut value = json!({
        "pageref": "page_1",
        "startedDateTime": date::iso(began.saturating_add(fetch.issued.as_nanos() / 1_000_000)),
        "time": span(fetch.issued, fetch.ended),
        "request": {
            "method": "GET",
            "url": format!("{scheme}://{host}{}", object.name),
            "httpVersion": version,
            "cookies": [],
            "headers": [],
            "queryString": [],
            "headersSize": object.request_head,
            "bodySize": 0,
        },
        "response": {
            "status": fetch.status,
            "statusText": status.and_then(|status| status.canonical_reason()).unwrap_or_default(),
            "httpVersion": version,
            "cookies": [],
            "headers": [],
            "content": {"size": object.body, "mimeType": object.content_type},
            "redirectURL": "",
            "headersSize": object.response_head,
            "bodySize": object.body,
        },
        "cache": {},
        "timings": {
            "blocked": span(fetch.issued, assigned),
            "dns": -1,
            "connect": -1,
            "send": 0,
            "wait": span(assigned, first_byte),
            "receive": span(first_byte, fetch.ended),
            "ssl": -1,
        },
        "connection": fetch.connection,
    });
    if let Some(map) = value.as_object_mut() {
        if let Some(initiator) = initiator {
            map.insert("_initiator".to_owned(), initiator.into());
        }
        if let Some(failure) = &fetch.failure {
            map.insert("comment".to_owned(), failure.as_str().into());
        }
    }
    value
}

/// Converts nanoseconds to milliseconds, the unit of times in HAR.
fn millis(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}
