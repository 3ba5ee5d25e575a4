//! Determines the size in bytes of a request body from `request.postData`.
//!
//! The body is `text`, which is base64 if `encoding` says so. If `text` is absent or empty, the body is the form that
//! `params` lists, in the encoding `application/x-www-form-urlencoded`. Some exporters write the names and values of
//! `params` encoded, others decoded. A name or value counts as encoded if it could be the result of encoding.

use serde_json::Value;

/// The value that stands for an unknown size in HAR. Multipart forms and bodies with files get this value, because
/// their parameters do not show how many bytes were sent.
const UNKNOWN: i64 = -1;

/// Returns the size of the body that `post` records, as HAR writes sizes: a number, which is -1 if the size is unknown.
/// Returns `null` if `post` records no body at all.
pub(super) fn size(post: &Value) -> Value {
    let text = post.as_str().or_else(|| post.get("text")?.as_str());
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        let encoding = post.get("encoding").and_then(Value::as_str).unwrap_or_default();
        return if encoding.eq_ignore_ascii_case("base64") { decoded(text) } else { text.len() }.into();
    }
    match post.get("params").and_then(Value::as_array) {
        Some(params) if !params.is_empty() => {
            let kind = post.get("mimeType").and_then(Value::as_str).unwrap_or_default();
            let is_form = !kind.trim_start().to_ascii_lowercase().starts_with("multipart/");
            form(params).filter(|_| is_form).map_or(UNKNOWN.into(), Value::from)
        }
        _ => text.map_or(Value::Null, |_| 0.into()),
    }
}

/// Returns the number of bytes that the base64 text `text` encodes.
fn decoded(text: &str) -> usize {
    let digits = text.bytes().filter(|byte| !byte.is_ascii_whitespace() && *byte != b'=').count();
    digits / 4 * 3 + digits % 4 * 3 / 4
}

/// Returns the size of a form with these parameters; `None` if one of them is a file.
fn form(params: &[Value]) -> Option<usize> {
    let mut size = params.len() - 1;
    for param in params {
        let text = |key: &str| param.get(key).and_then(Value::as_str).unwrap_or_default();
        if !text("fileName").is_empty() {
            return None;
        }
        size += encoded(text("name")) + "=".len() + encoded(text("value"));
    }
    Some(size)
}

/// Returns the size in bytes of `text` in the encoding of HTML forms. This encoding turns each byte into itself, a plus
/// sign (for a space) or an escape of three bytes.
fn encoded(text: &str) -> usize {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"*-._ ".contains(byte);
    let bytes = text.as_bytes();
    let is_escape =
        |at: usize| bytes.get(at + 1..at + 3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    let is_encoded = |(at, byte): (usize, &u8)| match byte {
        b' ' => false,
        b'%' => is_escape(at),
        b'+' => true,
        byte => is_plain(byte),
    };
    if bytes.iter().enumerate().all(is_encoded) {
        return text.len();
    }
    bytes.iter().map(|byte| if is_plain(byte) { 1 } else { 3 }).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_size_of_a_body_is_that_of_its_text() {
        for (post, bytes) in [
            (json!({"mimeType": "text/plain", "text": "12345"}), json!(5)),
            (json!({"text": "\u{e9}\u{20ac}\u{1f600}"}), json!(9)),
            (json!({"text": "aGVsbG8=", "encoding": "base64"}), json!(5)),
            (json!({"text": "aGVs\r\nbG8h", "encoding": "BASE64"}), json!(6)),
            (json!({"text": "aGVsbA", "encoding": "base64"}), json!(4)),
            (json!({"text": "aGVsbG8=", "encoding": ""}), json!(8)),
            (json!({"text": "a=1", "params": [{"name": "a", "value": "1"}, {"name": "b"}]}), json!(3)),
            (json!("a=1&b=2"), json!(7)),
            (json!({"text": ""}), json!(0)),
            (json!({"text": "", "params": []}), json!(0)),
            (json!({"mimeType": "text/plain"}), json!(null)),
            (json!({"mimeType": "", "params": []}), json!(null)),
            (json!({"text": 7}), json!(null)),
            (json!({}), json!(null)),
            (json!(7), json!(null)),
        ] {
            assert_eq!(size(&post), bytes, "{post}");
        }
    }

    #[test]
    fn the_size_of_a_form_is_that_of_its_encoding() {
        let form =
            |params: Value| size(&json!({"mimeType": "application/x-www-form-urlencoded", "params": params}));
        let one = |name: &str, value: &str| form(json!([{"name": name, "value": value}]));
        assert_eq!(form(json!([{"name": "a", "value": "1"}, {"name": "b"}])), json!("a=1&b=".len()));
        assert_eq!(one("a", "x y"), json!("a=x+y".len()));
        assert_eq!(one("a[]", "\u{e9}"), json!("a%5B%5D=%C3%A9".len()));
        assert_eq!(one("a%5B%5D", "x+y%20z"), json!("a%5B%5D=x+y%20z".len()));
        assert_eq!(one("a", "100%"), json!("a=100%25".len()));
        let file = json!([{"name": "a", "value": "1"}, {"name": "f", "fileName": "x.png"}]);
        assert_eq!(form(file), json!(-1));
        let parts = json!({"mimeType": "multipart/form-data", "params": [{"name": "a", "value": "1"}]});
        assert_eq!(size(&parts), json!(-1));
    }
}
