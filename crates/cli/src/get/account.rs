//! The result of `get` as JSON (schema `anabranch.get/1`) and as CSV. Times are in nanoseconds since the first object
//! was requested.

use crate::outputs::command_line;
use crate::url::Url;
use anabranch_base::time::{Instant, nanos};
use anabranch_http::visit::Visit;
use anabranch_results::csv::field;
use anabranch_transports::Transports;
use serde_json::{Map, Value, json};
use std::cell::RefCell;

/// The result of fetching one URL.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FetchRecord {
    /// The URL, as the user gave it or as a document embeds it.
    pub url: String,
    /// The index of the object that embeds this URL; `None` if the user requested the URL.
    pub initiator: Option<usize>,
    /// The status code of the last response; `None` if there was no response.
    pub status: Option<u16>,
    /// The number of bytes of the body that arrived.
    pub bytes: u64,
    /// The identifiers of the session and of the stream that carried the exchange.
    pub session_and_stream: Option<(u64, u64)>,
    /// When the URL was found in a document, or requested by the user.
    pub issued: Option<Instant>,
    /// When the request was assigned to a stream.
    pub assigned: Option<Instant>,
    /// When the head of the response was complete.
    pub head_received: Option<Instant>,
    /// When the body of the response was complete.
    pub delivered: Option<Instant>,
    /// The reason why the object failed; `None` if it did not fail.
    pub error: Option<String>,
}

/// Collects the results of all URLs while they are fetched.
#[derive(Debug)]
pub struct Ledger(RefCell<Vec<FetchRecord>>);

impl Ledger {
    /// Creates a ledger for `urls`; none of them has been fetched yet.
    pub fn new<'a>(urls: impl Iterator<Item = &'a Url>) -> Self {
        Self(RefCell::new(
            urls.map(|url| FetchRecord { url: url.text.clone(), ..FetchRecord::default() }).collect(),
        ))
    }

    /// Changes the record of object `number` by calling `note`.
    pub fn note(&self, number: usize, note: impl FnOnce(&mut FetchRecord)) {
        if let Some(fetched) = self.0.borrow_mut().get_mut(number) {
            note(fetched);
        }
    }

    /// The records of all objects so far.
    pub fn objects(&self) -> Vec<FetchRecord> {
        self.0.borrow().clone()
    }
}

/// Returns the records of the objects of a page load.
pub fn of_visit(url: &Url, visit: &Visit) -> Vec<FetchRecord> {
    let absolute = |target: &str| format!("{}://{}{target}", url.scheme.url(), url.authority());
    let fetched = visit.objects.iter().map(|object| {
        let well = object.failure.is_none();
        FetchRecord {
            url: absolute(&object.target),
            initiator: object.initiator,
            status: (object.status != 0).then_some(object.status),
            bytes: object.bytes,
            session_and_stream: object.connection.map(|connection| (connection, object.stream)),
            issued: Some(object.issued),
            assigned: object.connection.is_some().then_some(object.assigned),
            head_received: (object.status != 0).then_some(object.head_received),
            delivered: well.then_some(object.ended),
            error: object.failure.clone(),
        }
    });
    fetched.collect()
}

/// The embedded URLs that were not fetched.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LeftOut {
    /// The number of these URLs.
    pub count: usize,
    /// The first few of these URLs.
    pub first: Vec<String>,
}

/// Formats the result of a `get` from `start` to `end` as JSON. `paths` holds the fields about network paths.
pub fn json(
    objects: &[FetchRecord],
    transports: &Transports,
    left_out: &LeftOut,
    settings: Vec<(String, String)>,
    (start, end): (Instant, Instant),
    paths: Map<String, Value>,
) -> String {
    let failed = objects.iter().filter(|object| object.error.is_some()).count();
    let settings: Map<String, Value> =
        settings.into_iter().map(|(name, value)| (name, value.into())).collect();
    let mut document = json!({
        "schema": "anabranch.get/1",
        "version": env!("CARGO_PKG_VERSION"),
        "command": command_line(),
        "settings": settings,
        "objects": objects.iter().map(|object| object_json(object, transports, start)).collect::<Vec<_>>(),
        "left_out": { "count": left_out.count, "first": left_out.first },
        "totals": {
            "objects": objects.len(),
            "failed": failed,
            "bytes": objects.iter().map(|object| object.bytes).sum::<u64>(),
            "duration_ns": nanos(end - start),
        },
    });
    if let Some(fields) = document.as_object_mut() {
        fields.extend(paths);
    }
    format!("{document:#}\n")
}

/// Formats the result as CSV, with one row for each object. The columns are named as the JSON fields; unknown values
/// are empty.
pub fn csv(objects: &[FetchRecord], transports: &Transports, start: Instant) -> String {
    let mut out = format!("{}\n", COLUMNS.join(","));
    for object in objects {
        let object = object_json(object, transports, start);
        let cell = |name: &&str| match &object[*name] {
            Value::Null => String::new(),
            Value::String(text) => field(text),
            other => other.to_string(),
        };
        out += &format!("{}\n", COLUMNS.iter().map(cell).collect::<Vec<_>>().join(","));
    }
    out
}

const COLUMNS: [&str; 12] = [
    "url",
    "transport",
    "initiator",
    "status",
    "bytes",
    "connection",
    "stream",
    "issued_ns",
    "assigned_ns",
    "first_byte_ns",
    "delivered_ns",
    "error",
];

fn object_json(object: &FetchRecord, transports: &Transports, start: Instant) -> Value {
    let since = |at: Option<Instant>| at.map(|at| nanos(at - start));
    let transport = Url::parse(&object.url, transports).ok().map(|url| url.scheme.name());
    json!({
        "url": object.url,
        "transport": transport,
        "initiator": object.initiator,
        "status": object.status,
        "bytes": object.bytes,
        "connection": object.session_and_stream.map(|(connection, _)| connection),
        "stream": object.session_and_stream.map(|(_, stream)| stream),
        "issued_ns": since(object.issued),
        "assigned_ns": since(object.assigned),
        "first_byte_ns": since(object.head_received),
        "delivered_ns": since(object.delivered),
        "error": object.error,
    })
}
