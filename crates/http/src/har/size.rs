//! How many bytes an entry of a HAR stands for.
//!
//! Browsers disagree, so the first of these that is known decides the body:
//!
//! 1. `response.bodySize` above 0: bytes on the wire, as HAR 1.2 means it.
//! 2. `response._transferSize` (Chrome) above 0, less the head: with HTTP/2
//!    Chrome knows head and body only together. If the head is unknown it
//!    is taken to be [`RESPONSE_HEAD`] of them, so that the sum stays right.
//! 3. `_objectSize`, then `_bytesIn` less the head (WebPagetest) above 0.
//! 4. `response.content.size` above 0, less `content.compression`: the only
//!    size that is left of a cached entry; unless `compression` is given it is
//!    the size after decompression, and a note says so.
//! 5. 0, if `bodySize` says so or the status has no body (204, 205, redirects).
//!
//! Otherwise the entry has no usable size. -1 means unknown in HAR. Exporters
//! write other negative sizes for it, too, some by subtracting where nothing was
//! transferred: each is taken as unknown.
//!
//! A page of requests alone, such as those for k6, has no sizes: every body is taken to be
//! 1 kB, and a note says so.
//!
//! Answered from a cache is an entry with status 304, or marked so
//! (`_fromCache`, `fromDiskCache`, …), or whose `bodySize` and
//! `_transferSize` are 0 while it has content: rule 4 applies.
//! No answer is `response._error`, or a status of 0 (or none) unless
//! `bodySize` is above 0 (old Firefox forgot the status of pushed responses).

use crate::page::{MAX_BODY, REQUEST_HEAD, RESPONSE_HEAD};
use serde_json::Value;

/// The bytes of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Size {
    /// Request head and body.
    pub request: u64,
    /// Request body.
    pub request_body: u64,
    /// Response head.
    pub head: u64,
    /// Response body.
    pub body: u64,
    /// What was assumed, if anything.
    pub note: Option<&'static str>,
}

/// Sizes, or why there are none that can be used.
pub(super) type Usable = Result<Size, &'static str>;

/// Whether an entry says anything of a response.
pub(super) fn has_response(entry: &Value) -> bool {
    match entry.get("response") {
        None | Some(Value::Null) => false,
        Some(Value::Object(members)) => !members.is_empty(),
        Some(_) => true,
    }
}

/// The sizes of one entry; `answered`: some entry of its page has a response, so that one without has failed.
///
/// # Errors
/// Field and reason when a size is no size at all.
pub(super) fn of(entry: &Value, answered: bool) -> Result<Usable, (&'static str, String)> {
    let field = |pointer: &str, name: &'static str| -> Result<Known, (&'static str, String)> {
        match entry.pointer(pointer) {
            None | Some(Value::Null) => Ok(Known::Absent),
            Some(value) => known(value).map_err(|why| (name, why)),
        }
    };
    let request_head = field("/request/headersSize", "request.headersSize")?.positive();
    let request_body = field("/request/bodySize", "request.bodySize")?.positive().unwrap_or(0);
    if !answered {
        let request = request_head.unwrap_or(REQUEST_HEAD).saturating_add(request_body);
        let note = Some(NO_RESPONSE);
        return Ok(Ok(Size { request, request_body, head: RESPONSE_HEAD, body: ASSUMED_BODY, note }));
    }
    let head = field("/response/headersSize", "response.headersSize")?.positive();
    let transfer = field("/response/_transferSize", "response._transferSize")?;
    let body = field("/response/bodySize", "response.bodySize")?;
    let content = field("/response/content/size", "response.content.size")?;
    let saved = entry.pointer("/response/content/compression").and_then(number);
    let saved = saved.filter(|saved| *saved >= 0.0).map(|saved| saved as u64);
    let object = field("/_objectSize", "_objectSize")?;
    let received = field("/_bytesIn", "_bytesIn")?;
    let status = match entry.pointer("/response/status") {
        None | Some(Value::Null) => 0,
        Some(status) => number(status).ok_or_else(|| ("response.status", "not a number".to_owned()))? as i64,
    };

    let failed = entry.pointer("/response/_error").is_some_and(|error| match error {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        _ => true,
    });
    let forgotten = status == 0 && body.positive().is_some();
    if failed || !(forgotten || (100..=999).contains(&status)) {
        return Ok(Err("got no answer (status 0, failed or blocked)"));
    }

    let from_content = content.positive().map(|size| match saved {
        Some(saved) if saved <= size => (size - saved, true),
        _ => (size, false),
    });
    let nothing_moved = body == Known::Bytes(0) && !matches!(transfer, Known::Bytes(1..));
    let cached = status == 304
        || CACHE_MARKS.iter().any(|mark| entry.pointer(mark).is_some_and(truthy))
        || (nothing_moved && transfer == Known::Bytes(0));
    let request = request_head.unwrap_or(REQUEST_HEAD).saturating_add(request_body);
    let size = |head: Option<u64>, body: u64, note: Option<&'static str>| {
        let head = head.unwrap_or(RESPONSE_HEAD);
        Ok(Ok(Size { request, request_body, head, body: body.min(MAX_BODY), note }))
    };
    if cached {
        return match (from_content, content) {
            (Some((body, true)), _) => size(head, body, Some(FROM_CACHE)),
            (Some((body, false)), _) => size(head, body, Some(FROM_CACHE_DECODED)),
            (None, Known::Bytes(0)) if status != 304 => size(head, 0, None),
            _ => Ok(Err("came from the browser's cache, with no size given")),
        };
    }
    if let Some(body) = body.positive() {
        return size(head, body, forgotten.then_some("no status, but a body was received: fetched"));
    }
    if let Some(total) = transfer.positive() {
        let head = head.unwrap_or(RESPONSE_HEAD).min(total);
        return size(Some(head), total - head, None);
    }
    if let Some(body) = object.positive() {
        return size(head, body, None);
    }
    if let Some(total) = received.positive() {
        let head = head.unwrap_or(RESPONSE_HEAD).min(total);
        return size(Some(head), total - head, None);
    }
    if let Some((body, exact)) = from_content {
        let note = "no transfer size, so the size after decompression was taken (content.size)";
        return size(head, body, (!exact).then_some(note));
    }
    let bodyless = matches!(status, 204 | 205) || (300..400).contains(&status);
    if body == Known::Bytes(0) || bodyless {
        return size(head, 0, None);
    }
    Ok(Err("no usable size (-1 or absent in bodySize, _transferSize and content.size)"))
}

/// What is said of a file of requests alone, such as k6 reads.
pub const NO_RESPONSE: &str = "no response is recorded: fetched with a body of 1 kB";

/// The body of each response then, in bytes: about that of an answer of an API.
const ASSUMED_BODY: u64 = 1000;

const FROM_CACHE: &str = "came from the browser's cache; fetched here, as on a first visit";
const FROM_CACHE_DECODED: &str =
    "came from the browser's cache; fetched here at its size after decompression (content.size)";

const CACHE_MARKS: [&str; 6] = [
    "/_fromCache",
    "/fromCache",
    "/_fromDiskCache",
    "/fromDiskCache",
    "/response/fromDiskCache",
    "/response/_fromDiskCache",
];

fn truthy(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Bool(true) => true,
        Value::Number(n) => n.as_f64() != Some(0.0),
        Value::String(text) => !matches!(text.as_str(), "" | "0" | "false"),
        Value::Array(_) | Value::Object(_) => true,
    }
}

/// One size field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Known {
    Absent,
    Unknown,
    Bytes(u64),
}

impl Known {
    /// The size, if known and not 0.
    fn positive(self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) if bytes > 0 => Some(bytes),
            _ => None,
        }
    }
}

/// A size as JSON has it: a whole number, or (WebPagetest) a text that is one.
fn known(value: &Value) -> Result<Known, String> {
    if value.as_str() == Some("") {
        return Ok(Known::Absent);
    }
    let bytes = number(value).ok_or_else(|| format!("{} is not a number of bytes", shown(value)))?;
    if bytes < 0.0 {
        return Ok(Known::Unknown);
    }
    if bytes > MAX_BODY as f64 {
        return Err(format!("{} is more than {MAX_BODY} bytes", shown(value)));
    }
    Ok(Known::Bytes(bytes as u64))
}

/// A finite JSON number, or a text that is one.
pub(super) fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    number.filter(|n| n.is_finite())
}

fn shown(value: &Value) -> String {
    value.to_string().chars().take(40).collect()
}
