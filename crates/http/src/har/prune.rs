//! A HAR's text as values, without what nobody reads.
//!
//! A recording is mostly headers, cookies, timings and the bodies themselves, and
//! as values all that takes a dozen times the room it has in the file. What
//! [`read`](super::read) and its parts look at is kept, the rest is parsed, so that what is
//! wrong is reported as ever, and dropped on the way.

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// The values of `text` that somebody reads.
///
/// # Errors
/// What is no JSON, kept or not.
pub(super) fn parse(text: &str) -> serde_json::Result<Value> {
    let mut parser = serde_json::Deserializer::from_str(text);
    let value = Keep(HarObject::Root).deserialize(&mut parser)?;
    parser.end()?;
    Ok(value)
}

/// Where in a HAR an object stands, or a list of such.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum HarObject {
    Root,
    Log,
    Creator,
    Page,
    Entry,
    Request,
    /// Of a request; the others than `Referer` are dropped, too.
    Headers,
    Response,
    Content,
    Initiator,
    Stack,
    Frame,
    /// All of it is kept.
    Whole,
}

impl HarObject {
    /// Where the member `key` stands; none when nobody reads it.
    fn member(self, key: &str) -> Option<Self> {
        Some(match (self, key) {
            (Self::Root, "log") => Self::Log,
            (Self::Log, "entries") => Self::Entry,
            (Self::Log, "pages") => Self::Page,
            (Self::Log, "creator") => Self::Creator,
            (Self::Entry, "request") => Self::Request,
            (Self::Entry, "response") => Self::Response,
            (Self::Entry, "_initiator") => Self::Initiator,
            (Self::Request, "headers") => Self::Headers,
            (Self::Response, "content") => Self::Content,
            (Self::Initiator, "stack") | (Self::Stack, "parent") => Self::Stack,
            (Self::Stack, "callFrames") => Self::Frame,
            (Self::Log, "comment")
            | (Self::Creator, "name")
            | (Self::Page, "id" | "title")
            | (
                Self::Entry,
                "pageref" | "startedDateTime" | "time" | "_objectSize" | "_bytesIn" | "_fromCache"
                | "fromCache" | "_fromDiskCache" | "fromDiskCache",
            )
            | (Self::Request, "url" | "method" | "headersSize" | "bodySize")
            | (Self::Headers, "name" | "value")
            | (
                Self::Response,
                "status" | "headersSize" | "bodySize" | "_transferSize" | "_error" | "redirectURL"
                | "fromDiskCache" | "_fromDiskCache",
            )
            | (Self::Content, "size" | "compression" | "mimeType")
            | (Self::Initiator | Self::Frame, "url") => Self::Whole,
            _ => return None,
        })
    }

    /// Whether an element of a list that stands here is read.
    fn wants(self, element: &Value) -> bool {
        let name = || element.get("name").and_then(Value::as_str);
        self != Self::Headers || name().is_some_and(|name| name.eq_ignore_ascii_case("referer"))
    }
}

/// Takes in a value that stands at this place.
struct Keep(HarObject);

impl<'de> DeserializeSeed<'de> for Keep {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<Value, D::Error> {
        match self.0 {
            HarObject::Whole => Value::deserialize(parser),
            _ => parser.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Keep {
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
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut kept = Vec::new();
        while let Some(element) = list.next_element_seed(Self(self.0))? {
            if self.0.wants(&element) {
                kept.push(element);
            }
        }
        kept.shrink_to_fit();
        Ok(Value::Array(kept))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut kept = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            match self.0.member(&key) {
                Some(place) => {
                    // Of two of the same name the last counts.
                    kept.insert(key, members.next_value_seed(Keep(place))?);
                }
                None => {
                    members.next_value::<Skipped>()?;
                }
            }
        }
        Ok(Value::Object(kept))
    }
}

/// A value that is parsed as if it were kept: with every rule, and to the same depth.
struct Skipped;

impl<'de> Deserialize<'de> for Skipped {
    fn deserialize<D: Deserializer<'de>>(parser: D) -> Result<Self, D::Error> {
        parser.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Skipped {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self, A::Error> {
        while list.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self, A::Error> {
        while members.next_entry::<Self, Self>()?.is_some() {}
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_kept_and_nothing_else() {
        let text = r#"{"log":{"version":"1.2","creator":{"name":"us","version":"1"},"entries":[{"time":1.5,
            "request":{"url":"http://a/","cookies":[{"name":"c"}],"headers":[{"name":"Accept","value":"*"},
            {"name":"referer","value":"http://b/","comment":""}],"bodySize":-1},"cache":{},
            "response":{"status":200,"status":304,"content":{"size":9,"text":"long"},"headers":[{}]},
            "_initiator":{"type":"script","stack":{"callFrames":[{"url":"u","lineNumber":3}]}}}]}}"#;
        let kept = r#"{"log":{"creator":{"name":"us"},"entries":[{"time":1.5,
            "request":{"url":"http://a/","headers":[{"name":"referer","value":"http://b/"}],"bodySize":-1},
            "response":{"status":304,"content":{"size":9}},
            "_initiator":{"stack":{"callFrames":[{"url":"u"}]}}}]}}"#;
        let kept: Value = serde_json::from_str(kept).expect("JSON");
        assert_eq!(parse(text).expect("JSON"), kept);
    }

    /// Errors are reported in the same words, whether the value is dropped or kept.
    #[test]
    fn what_is_wrong_is_told_as_by_those_who_keep_everything() {
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
                assert_eq!(parse(&text).expect_err("broken").to_string(), whole, "{text}");
            }
        }
    }
}
