//! Parses the text of a HAR to JSON values, and drops the values that this crate does not use.
//!
//! A recording consists mostly of headers, cookies, timings and bodies. Once parsed, they would take a dozen times the
//! size of the file in memory. The parser keeps only the values that [`read`](super::read) and its submodules use. It
//! parses all other values, so that errors are still reported, and then drops them. Of a request body, it keeps only
//! the size. The memory for kept values is bounded, because one character in the file may become a value of a hundred
//! bytes.

use super::post_data;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::cell::Cell;
use std::fmt;

/// The reason why parsing failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ParseError {
    /// The text is not JSON. A syntax error inside a value that would be dropped is also reported.
    #[error("not a HAR, not even JSON: {0}")]
    Json(serde_json::Error),
    /// The HAR file has more than this number of entries.
    #[error("log.entries: more than {0} entries; split the recording into files of fewer")]
    Entries(usize),
    /// The kept values would take more than this number of bytes of memory.
    #[error("its entries would take more than {} MiB of memory; split the recording into files of fewer", .0 >> 20)]
    Memory(u64),
}

/// The limits on the values that the parser keeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The maximum number of entries of all pages together.
    pub(super) entries: usize,
    /// The maximum memory that the kept values may take, as an estimate in bytes.
    pub(super) memory: u64,
}

/// Parses `text` and returns the values that are used later.
///
/// # Errors
/// [`ParseError`] if `text` is not JSON or exceeds `limits`.
pub(super) fn parse(text: &str, limits: Limits) -> Result<Value, ParseError> {
    let budget = Budget {
        limits,
        left: Cell::new(limits.memory),
        texts: Cell::new(MAX_TEXTS),
        exceeded: Cell::new(None),
    };
    let mut parser = serde_json::Deserializer::from_str(text);
    let value = PruneSeed(HarObject::Root, &budget).deserialize(&mut parser).and_then(|value| {
        parser.end()?;
        Ok(value)
    });
    value.map_err(|why| budget.exceeded.take().unwrap_or(ParseError::Json(why)))
}

/// The memory that is still available for the JSON values that are kept.
struct Budget {
    limits: Limits,
    left: Cell<u64>,
    /// The number of bytes of recorded bodies that may still be kept.
    texts: Cell<u64>,
    /// The error if parsing ended because a limit was exceeded; otherwise `None`.
    exceeded: Cell<Option<ParseError>>,
}

impl Budget {
    fn end<E: Error>(&self, why: ParseError) -> E {
        let line = why.to_string();
        self.exceeded.set(Some(why));
        E::custom(line)
    }

    fn take<E: Error>(&self, bytes: u64) -> Result<(), E> {
        let left = self.left.get().checked_sub(bytes);
        self.left.set(left.ok_or_else(|| self.end(ParseError::Memory(self.limits.memory)))?);
        Ok(())
    }
}

impl Budget {
    /// Removes the text of `content` unless it is HTML or CSS, which refer to other objects.
    fn drop_text(&self, content: &mut Value) {
        let mime = content.get("mimeType").and_then(Value::as_str).unwrap_or_default().trim_start();
        let refers = ["text/html", "text/css"].iter().any(|kind| starts_with(mime, kind));
        let is_plain = content.get("encoding").is_none_or(|encoding| encoding.as_str() == Some(""));
        let Some(members) = content.as_object_mut() else { return };
        let length = members.get("text").and_then(Value::as_str).map_or(0, str::len) as u64;
        let rest = self.texts.get().checked_sub(length).filter(|_| refers && is_plain);
        match rest {
            Some(rest) => self.texts.set(rest),
            None => {
                members.remove("text");
                // The text was counted when it was parsed, so return its length to the budget.
                self.left.set(self.left.get().saturating_add(length));
            }
        }
    }
}

fn starts_with(text: &str, start: &str) -> bool {
    text.get(..start.len()).is_some_and(|lead| lead.eq_ignore_ascii_case(start))
}

/// The maximum number of bytes of recorded bodies that are kept.
const MAX_TEXTS: u64 = 64 << 20;
/// The memory in bytes for an element of a list, including the unused capacity of a list that has just doubled.
const ELEMENT: u64 = 2 * size_of::<Value>() as u64;
/// The memory in bytes for an object without its members. It includes the room for four members with which a map is
/// created.
const OBJECT: u64 = 300;
/// The memory in bytes for a member of an object, without the bytes of its text. It covers the structures of key and
/// value, the hash, the slot and unused capacity.
const MEMBER: u64 = 200;
/// The overhead of a memory allocation in bytes.
const ALLOCATION: u64 = 24;

/// The type of an object in a HAR, which follows from its position in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum HarObject {
    Root,
    Log,
    Creator,
    Page,
    Entry,
    Request,
    /// The headers of a request. All headers except those in [`HEADERS`] are dropped.
    Headers,
    /// The body of a request, which is replaced by its size.
    PostData,
    Param,
    Response,
    /// The body of a response. Its text is kept if it can refer to other objects.
    Content,
    /// The certificate of a connection (Playwright, WebPagetest).
    Certificate,
    Timings,
    PageTimings,
    Initiator,
    Stack,
    Frame,
    /// A JSON object that is kept with all its members.
    Unpruned,
    /// A JSON value that is parsed and dropped.
    Nothing,
}

impl HarObject {
    /// Returns the type of the member `key` of this object; `None` if the member is not used.
    fn member(self, key: &str) -> Option<Self> {
        Some(match (self, key) {
            (Self::Root, "log") => Self::Log,
            // The file may contain a bare log, or a list of HARs, logs or entries, instead of a HAR.
            (Self::Root, key) => return Self::Log.member(key).or_else(|| Self::Entry.member(key)),
            (Self::Log, "entries") => Self::Entry,
            (Self::Log, "pages") => Self::Page,
            (Self::Log, "creator") => Self::Creator,
            (Self::Entry, "request") => Self::Request,
            (Self::Entry, "response") => Self::Response,
            (Self::Entry, "_initiator") => Self::Initiator,
            (Self::Entry, "_securityDetails") => Self::Certificate,
            (Self::Entry, "timings") => Self::Timings,
            (Self::Page, "pageTimings") => Self::PageTimings,
            (Self::Request, "headers") => Self::Headers,
            (Self::Request, "postData") => Self::PostData,
            (Self::PostData, "params") => Self::Param,
            (Self::Response, "content") => Self::Content,
            (Self::Initiator, "stack") | (Self::Stack, "parent") => Self::Stack,
            (Self::Stack, "callFrames") => Self::Frame,
            (Self::Log, "comment")
            | (Self::Creator, "name")
            | (Self::Page, "id" | "title")
            | (
                Self::Entry,
                "pageref"
                | "startedDateTime"
                | "time"
                | "_objectSize"
                | "_bytesIn"
                | "_fromCache"
                | "fromCache"
                | "_fromDiskCache"
                | "fromDiskCache"
                | "serverIPAddress"
                | "connection"
                | "_priority"
                | "_resourceType"
                | "_fetchedViaServiceWorker",
            )
            | (Self::Timings, "blocked" | "dns" | "connect" | "ssl" | "send" | "wait" | "receive")
            | (Self::PageTimings, "onLoad")
            | (Self::Certificate, "subjectName" | "sanList")
            | (Self::Request, "url" | "method" | "headersSize" | "bodySize")
            | (Self::Headers, "name" | "value")
            | (Self::PostData, "mimeType" | "text" | "encoding")
            | (Self::Param, "name" | "value" | "fileName")
            | (
                Self::Response,
                "status" | "httpVersion" | "headersSize" | "bodySize" | "_transferSize" | "_error"
                | "redirectURL" | "fromDiskCache" | "_fromDiskCache",
            )
            | (Self::Content, "size" | "compression" | "mimeType" | "text" | "encoding")
            | (Self::Initiator, "type" | "lineNumber")
            | (Self::Initiator | Self::Frame, "url")
            | (Self::Unpruned, _) => Self::Unpruned,
            _ => return None,
        })
    }

    /// Returns whether pruning keeps `element` of a JSON list of this type.
    fn wants(self, element: &Value) -> bool {
        let name = || element.get("name").and_then(Value::as_str);
        let is_used = |name: &str| HEADERS.iter().any(|used| name.eq_ignore_ascii_case(used));
        match self {
            Self::Nothing => false,
            Self::Headers => name().is_some_and(is_used),
            _ => true,
        }
    }
}

/// The request headers that are used.
const HEADERS: [&str; 2] = ["referer", "content-length"];

/// Deserializes a JSON value that has the given type in the HAR, and counts the memory of what is kept.
#[derive(Clone, Copy)]
struct PruneSeed<'b>(HarObject, &'b Budget);

impl<'de> DeserializeSeed<'de> for PruneSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<Value, D::Error> {
        let Self(place, budget) = self;
        let before = budget.left.get();
        let mut value = parser.deserialize_any(self)?;
        match place {
            HarObject::PostData => {
                budget.left.set(before);
                value = post_data::size(&value);
            }
            HarObject::Content => budget.drop_text(&mut value),
            _ => {}
        }
        Ok(value)
    }
}

impl<'de> Visitor<'de> for PruneSeed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        if self.0 == HarObject::Nothing {
            return Ok(Value::Null);
        }
        self.1.take(value.len() as u64 + ALLOCATION)?;
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let Self(place, budget) = self;
        let mut kept = Vec::new();
        let mut before = budget.left.get();
        while let Some(element) = list.next_element_seed(self)? {
            if !place.wants(&element) {
                budget.left.set(before);
                continue;
            }
            if matches!(place, HarObject::Root | HarObject::Entry) && kept.len() >= budget.limits.entries {
                return Err(budget.end(ParseError::Entries(budget.limits.entries)));
            }
            budget.take(ELEMENT)?;
            before = budget.left.get();
            kept.push(element);
        }
        kept.shrink_to_fit();
        Ok(Value::Array(kept))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let Self(place, budget) = self;
        if place == HarObject::Nothing {
            while members.next_entry_seed(self, self)?.is_some() {}
            return Ok(Value::Null);
        }
        let mut kept = Map::new();
        budget.take(OBJECT)?;
        while let Some(key) = members.next_key::<String>()? {
            match place.member(&key) {
                Some(place) => {
                    budget.take(MEMBER + key.len() as u64)?;
                    // If a key occurs twice, the last value is kept.
                    kept.insert(key, members.next_value_seed(PruneSeed(place, budget))?);
                }
                None => {
                    members.next_value_seed(PruneSeed(HarObject::Nothing, budget))?;
                }
            }
        }
        Ok(Value::Object(kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { entries: 10, memory: 1 << 20 };

    #[test]
    fn more_entries_than_the_limit_are_refused() {
        let text = |count: usize| format!("{{\"log\":{{\"entries\":[{}]}}}}", vec!["{}"; count].join(","));
        assert!(parse(&text(10), LIMITS).is_ok());
        let why = parse(&text(11), LIMITS).expect_err("refused").to_string();
        assert_eq!(why, "log.entries: more than 10 entries; split the recording into files of fewer");
    }

    /// All kept values count towards the memory limit: elements, members, strings, and values of an unexpected type.
    #[test]
    fn values_above_the_memory_limit_are_refused() {
        let many = |one: &str| vec![one; 20_000].join(",");
        let entry = |rest: &str| format!("{{\"log\":{{\"entries\":[{{{rest}}}]}}}}");
        let texts = [
            entry(&format!("\"fromCache\":[{}]", many("0"))),
            entry(&format!("\"fromCache\":[{}]", many("[]"))),
            entry(&format!("\"_initiator\":{{\"stack\":{{\"callFrames\":[{}]}}}}", many("{\"url\":\"\"}"))),
            entry(&format!("\"request\":{{\"url\":\"{}\"}}", "a".repeat(1 << 20))),
            format!("{{\"log\":{{\"pages\":[{}]}}}}", many("{\"id\":\"\"}")),
        ];
        for text in texts {
            let why = parse(&text, LIMITS).expect_err("refused").to_string();
            assert!(why.contains("more than 1 MiB of memory"), "{why}: {text:.80}");
        }
        // Dropped values do not count towards the memory limit.
        let headers = many("{\"name\":\"Accept\",\"value\":\"*\"}");
        let text = entry(&format!("\"request\":{{\"headers\":[{headers}]}}"));
        assert!(parse(&text, LIMITS).is_ok());
        let body = format!("{{\"request\":{{\"postData\":{{\"text\":\"{}\"}}}}}}", "a".repeat(900_000));
        let text = format!("{{\"log\":{{\"entries\":[{}]}}}}", [body.as_str(); 5].join(","));
        assert!(parse(&text, LIMITS).is_ok());
    }

    #[test]
    fn only_used_members_are_kept() {
        let text = r#"{"log":{"version":"1.2","creator":{"name":"us","version":"1"},"entries":[{"time":1.5,
            "request":{"url":"http://a/","cookies":[{"name":"c"}],"headers":[{"name":"Accept","value":"*"},
            {"name":"referer","value":"http://b/","comment":""},{"name":"Content-Length","value":"4"}],
            "postData":{"mimeType":"text/plain","text":"long"},"bodySize":-1},"cache":{},
            "response":{"status":200,"status":304,"content":{"size":9,"text":"long"},"headers":[{}]},
            "_initiator":{"type":"script","stack":{"callFrames":[{"url":"u","lineNumber":3}]}}}]}}"#;
        let kept = r#"{"log":{"creator":{"name":"us"},"entries":[{"time":1.5,
            "request":{"url":"http://a/","headers":[{"name":"referer","value":"http://b/"},
            {"name":"Content-Length","value":"4"}],"postData":4,"bodySize":-1},
            "response":{"status":304,"content":{"size":9}},
            "_initiator":{"type":"script","stack":{"callFrames":[{"url":"u"}]}}}]}}"#;
        let kept: Value = serde_json::from_str(kept).expect("JSON");
        assert_eq!(parse(text, LIMITS).expect("JSON"), kept);
    }

    /// The error message for invalid JSON does not depend on whether the parser keeps or drops the value.
    #[test]
    fn errors_match_those_of_a_full_parse() {
        let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
        let broken =
            ["tru", "1e999", r#""\q""#, r#""\ud800""#, "\"a\nb\"", "[1,]", "{1:2}", "{\"a\":}", "01", &deep];
        for broken in broken {
            for text in [
                broken.to_owned(),
                format!("{{\"other\": {broken}}}"),
                format!("{{\"log\": {{\"comment\": {broken}}}}}"),
                format!(
                    "{{\"log\": {{\"entries\": [{{\"response\": {{\"content\": {{\"text\": {broken}}}}}}}]}}}}"
                ),
                format!("{{\"log\": {{\"entries\": {broken}}}}}"),
                format!("{{}} {broken}"),
            ] {
                let whole = serde_json::from_str::<Value>(&text).expect_err("broken").to_string();
                let Err(ParseError::Json(why)) = parse(&text, LIMITS) else { panic!("{text}") };
                assert_eq!(why.to_string(), whole, "{text}");
            }
        }
    }
}
