//! Determines the sizes in bytes of the request and the response of a HAR entry.
//!
//! The size of the request body is the first of these values that is above 0: `request.bodySize`, the `Content-Length`
//! of the request, and the size of `postData` (module `post_data`). A `bodySize` of 0 does not end the search. Chrome
//! computes it from the recorded text, so it writes 0 for an upload even if `Content-Length` is larger. Other exporters
//! write 0 for an unknown size. If the request had a body of unknown size, it is sent without a body, and a note says
//! so.
//!
//! Browsers fill in the size fields differently. The first of these rules that applies determines the size of the
//! response body:
//!
//! 1. `response.bodySize`, if it is above 0: bytes on the wire, as HAR 1.2 defines it.
//! 2. `response._transferSize` (Chrome) minus the head, if `_transferSize` is above 0: with HTTP/2 Chrome knows only
//!    the sum of head and body. A head of unknown size is assumed to have [`RESPONSE_HEAD`] bytes, and the body has the
//!    rest.
//! 3. `_objectSize` (WebPagetest), if it is above 0. Otherwise `_bytesIn` minus the head, if `_bytesIn` is above 0.
//! 4. `response.content.size` minus `content.compression`, if `content.size` is above 0: the only size available for a
//!    cached entry. Without `compression` it is the size after decompression, and a note says so.
//! 5. Zero bytes, if `bodySize` is 0 or if the status (204, 205 or a redirect) implies that there is no body.
//!
//! If no rule applies, the entry has no usable size. In HAR, -1 means unknown. Exporters also write other negative
//! sizes, some by subtracting the head although nothing was transferred. All negative sizes count as unknown.
//!
//! If no entry of a page has a response, as in files for k6, the file states no response sizes. Every response body is
//! then assumed to be 1 kB, and a note says so.
//!
//! An entry came from a cache if its status is 304, or if it is marked (`_fromCache`, `fromDiskCache`, …). It also came
//! from a cache if `bodySize` and `_transferSize` are 0 although it has content. For such entries, rule 4 applies. An
//! entry has no response if it has `response._error`. An entry whose status is 0 or missing has no response either,
//! unless `bodySize` is above 0: old Firefox omitted the status of pushed responses.

use crate::page::{MAX_BODY, REQUEST_HEAD, RESPONSE_HEAD};
use serde_json::Value;

/// The sizes of the request and the response of a HAR entry, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Size {
    /// The size of the request, head and body together.
    pub request: u64,
    /// The size of the request body.
    pub request_body: u64,
    /// Whether the request had a body of unknown size. `request_body` is 0 in that case.
    pub unknown_body: bool,
    /// The size of the response head.
    pub head: u64,
    /// The size of the response body.
    pub body: u64,
    /// Whether the browser took the response from a cache.
    pub from_cache: bool,
    /// A note for a warning, if there is one: for example, that a size was assumed.
    pub note: Option<&'static str>,
}

/// The sizes of an entry, or the reason why the entry has no usable sizes.
pub(super) type EntrySizes = Result<Size, &'static str>;

/// Returns whether a HAR entry contains a response.
pub(super) fn has_response(entry: &Value) -> bool {
    match entry.get("response") {
        None | Some(Value::Null) => false,
        Some(Value::Object(members)) => !members.is_empty(),
        Some(_) => true,
    }
}

/// Returns the sizes of one entry. `answered` says that at least one entry of the page has a response. If so, an entry
/// without a response has failed.
///
/// An `Err` of the outer result means that a size or the status is invalid. It holds the name of the field and the
/// reason.
pub(super) fn of(entry: &Value, answered: bool) -> Result<EntrySizes, (&'static str, String)> {
    let field = |pointer: &str, name: &'static str| -> Result<Known, (&'static str, String)> {
        match entry.pointer(pointer) {
            None | Some(Value::Null) => Ok(Known::Absent),
            Some(value) => known(value).map_err(|why| (name, why)),
        }
    };
    let request_head = field("/request/headersSize", "request.headersSize")?.positive();
    let (request_body, unknown_body) = match request_body(
        entry.get("request").unwrap_or(&Value::Null),
        field("/request/bodySize", "request.bodySize")?,
    ) {
        Known::Bytes(bytes) => (bytes, false),
        size => (0, size == Known::Unknown),
    };
    if !answered {
        let request = request_head.unwrap_or(REQUEST_HEAD).saturating_add(request_body);
        let note = Some(NO_RESPONSE);
        let (head, body) = (RESPONSE_HEAD, ASSUMED_BODY);
        return Ok(Ok(Size { request, request_body, unknown_body, head, body, from_cache: false, note }));
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
    let is_marked = CACHE_MARKS.iter().any(|mark| entry.pointer(mark).is_some_and(truthy));
    let cached = status == 304 || is_marked || (nothing_moved && transfer == Known::Bytes(0));
    let request = request_head.unwrap_or(REQUEST_HEAD).saturating_add(request_body);
    let size = |head: Option<u64>, body: u64, note: Option<&'static str>| {
        let head = head.unwrap_or(RESPONSE_HEAD);
        let (body, from_cache) = (body.min(MAX_BODY), cached);
        Ok(Ok(Size { request, request_body, unknown_body, head, body, from_cache, note }))
    };
    if cached {
        return match (from_content, content) {
            (Some((body, true)), _) => size(head, body, Some(FROM_CACHE)),
            (Some((body, false)), _) => size(head, body, Some(FROM_CACHE_DECODED)),
            (None, Known::Bytes(0)) if status != 304 => size(head, 0, is_marked.then_some(FROM_CACHE_EMPTY)),
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

/// Returns the size of the body of `request`; `Known::Absent` if the request has no body. `body_size` is the value of
/// `bodySize`.
fn request_body(request: &Value, body_size: Known) -> Known {
    let of =
        |value: Option<&Value>| value.map_or(Known::Absent, |value| known(value).unwrap_or(Known::Absent));
    let length = of(super::header(request, "content-length"));
    let posted = of(request.get("postData"));
    if let Some(bytes) = [body_size, length, posted].into_iter().find_map(Known::positive) {
        return Known::Bytes(bytes);
    }
    let method = request.get("method").and_then(Value::as_str).unwrap_or_default();
    let has_body = ["POST", "PUT", "PATCH"].iter().any(|with| method.eq_ignore_ascii_case(with));
    let is_none = [body_size, length, posted].contains(&Known::Bytes(0));
    if posted == Known::Unknown || has_body && !is_none { Known::Unknown } else { Known::Absent }
}

/// The warning about a request body whose size is not recorded.
pub const UNKNOWN_BODY: &str = "the size of the request body is not recorded (bodySize, Content-Length or postData): \
    requested without a body";

/// The warning about entries of a HAR file that have a request but no response. Such files describe load tests, for
/// example with k6.
pub const NO_RESPONSE: &str = "no response is recorded: fetched with a body of 1 kB";

/// The size in bytes that is assumed for each response body if no entry of the page has a response. An API response has
/// about this size.
const ASSUMED_BODY: u64 = 1000;

const FROM_CACHE: &str = "came from the browser's cache; fetched here, as on a first visit";
const FROM_CACHE_DECODED: &str =
    "came from the browser's cache; fetched here at its size after decompression (content.size)";
const FROM_CACHE_EMPTY: &str =
    "came from the browser's cache, with a size of 0: fetched here with an empty body";

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

/// The value of one size field of a HAR entry.
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

/// Parses a size: a whole number or, in WebPagetest, a string that contains a whole number.
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
