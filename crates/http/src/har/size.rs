//! Determines the size in bytes of a HAR entry.
//!
//! Browsers disagree, so the first of these that is known decides the body:
//!
//! 1. `response.bodySize` above 0: bytes on the wire, as HAR 1.2 defines it.
//! 2. `response._transferSize` (Chrome) above 0, minus the head: with HTTP/2 Chrome knows only the sum of head and body. An
//!    unknown head is assumed to take [`RESPONSE_HEAD`] of it, so that the sum stays right.
//! 3. `_objectSize`, then `_bytesIn` minus the head (WebPagetest) above 0.
//! 4. `response.content.size` above 0, minus `content.compression`: the only size available for a cached entry. Without
//!    `compression` it is the size after decompression, and a note says so.
//! 5. 0, if `bodySize` says so or the status has no body (204, 205, redirects).
//!
//! Otherwise the entry has no usable size. -1 means unknown in HAR. Exporters also write other negative sizes, some by
//! subtracting although nothing was transferred. All of them count as unknown.
//!
//! A page with requests only, such as those for k6, has no sizes: every body is assumed to be 1 kB, and a note says so.
//!
//! An entry came from a cache if its status is 304, if it is marked (`_fromCache`, `fromDiskCache`, …), or if `bodySize` and
//! `_transferSize` are 0 although it has content: rule 4 applies. An entry has no response if it has `response._error`, or a
//! status of 0 (or none) unless `bodySize` is above 0 (old Firefox omitted the status of pushed responses).

use crate::page::{MAX_BODY, REQUEST_HEAD, RESPONSE_HEAD};
use serde_json::Value;

/// The sizes of an entry in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Size {
    /// The request's head and body.
    pub request: u64,
    /// The request's body.
    pub request_body: u64,
    /// The response's head.
    pub head: u64,
    /// The response's body.
    pub body: u64,
    /// The assumption that was made, if any.
    pub note: Option<&'static str>,
}

/// Sizes, or the reason why none is usable.
pub(super) type Usable = Result<Size, &'static str>;

/// Returns whether an entry contains a response.
pub(super) fn has_response(entry: &Value) -> bool {
    match entry.get("response") {
        None | Some(Value::Null) => false,
        Some(Value::Object(members)) => !members.is_empty(),
        Some(_) => true,
    }
}

/// Returns the sizes of one entry. `answered` says that some entry of its page has a response, so that an entry without one
/// has failed.
///
/// # Errors
/// The field and the reason if a size is invalid.
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

/// The note for a file with requests only, such as k6 reads.
pub const NO_RESPONSE: &str = "no response is recorded: fetched with a body of 1 kB";

/// The assumed body of each response in that case, in bytes: about that of an API response.
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
    /// Returns the size if it is known and not 0.
    fn positive(self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) if bytes > 0 => Some(bytes),
            _ => None,
        }
    }
}

/// Parses a size: a whole number, or (WebPagetest) a string that contains one.
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

/// Parses a finite JSON number, or a string that contains one.
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
