//! Writes the head of a request with exactly the size that the page specifies.
//!
//! Implements RFC 9112 §3 (request line) as far as a client writes it.

use crate::http2::priority::Priority;
use crate::page::bounded_head;
use std::fmt::Write;

/// Appends a GET request for `target` to `out` and returns its length. The length is `size` bytes (see
/// [`bounded_head`]), unless the request line and the necessary fields alone are longer.
///
/// One padding field brings the head to the wanted size, in place of the fields that a browser would send. If the
/// missing bytes are too few for a field, they are written as spaces before the value of Host. The receiver strips
/// these spaces (RFC 9112 §5.1).
pub fn write_head(
    out: &mut Vec<u8>,
    target: &str,
    host: &str,
    close: bool,
    priority: Option<Priority>,
    size: u64,
) -> usize {
    let connection = if close { CLOSE } else { "" };
    // RFC 9218 §5: the `priority` field is the same in every HTTP version.
    let priority_field = priority.map_or_else(String::new, |priority| format!("priority: {priority}\r\n"));
    let necessary = min_head_size(target, host, close) + priority_field.len();
    let gap = (bounded_head(size) as usize).saturating_sub(necessary);
    let (spaces, padding) = if gap >= PADDING_FIELD.len() + 2 { (0, Some(gap)) } else { (gap, None) };

    let before = out.len();
    let mut text = String::with_capacity(necessary + gap);
    // Writing to a string cannot fail.
    let _ =
        write!(text, "GET {target} HTTP/1.1\r\nHost: {:spaces$}{host}\r\n{connection}{priority_field}", "");
    if let Some(gap) = padding {
        let width = gap - PADDING_FIELD.len() - 2;
        let _ = write!(text, "{PADDING_FIELD}{:x<width$}\r\n", "");
    }
    text.push_str("\r\n");
    out.extend_from_slice(text.as_bytes());
    out.len() - before
}

/// Returns the size in bytes of a GET request that has only the necessary fields.
#[must_use]
pub fn min_head_size(target: &str, host: &str, close: bool) -> usize {
    let connection = if close { CLOSE.len() } else { 0 };
    "GET  HTTP/1.1\r\nHost: \r\n\r\n".len() + target.len() + host.len() + connection
}

/// The field that announces that no request follows on this connection (RFC 9112 §9.6).
const CLOSE: &str = "Connection: close\r\n";

/// The name of the padding field in requests and responses.
pub const PADDING_FIELD: &str = "x-fill:";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_heads_are_padded_to_the_exact_size() {
        let priority = Priority::of_type("text/javascript");
        for (close, priority) in
            [(false, None), (true, None), (false, Some(priority)), (true, Some(priority))]
        {
            let least = write_head(&mut Vec::new(), "/a?b=c", "host", close, priority, 0);
            let priority_bytes = priority.map_or(0, |_| "priority: u=1\r\n".len());
            assert_eq!(least, min_head_size("/a?b=c", "host", close) + priority_bytes);
            for size in least..least + 40 {
                let mut out = b"earlier".to_vec();
                assert_eq!(write_head(&mut out, "/a?b=c", "host", close, priority, size as u64), size);
                assert_eq!(out.len(), size + 7);
                let mut fields = [httparse::EMPTY_HEADER; 8];
                let mut request = httparse::Request::new(&mut fields);
                assert_eq!(request.parse(&out[7..]), Ok(httparse::Status::Complete(size)));
                assert_eq!((request.method, request.path), (Some("GET"), Some("/a?b=c")));
                assert_eq!(request.headers[0].value, b"host");
            }
        }
    }

    #[test]
    fn oversized_request_heads_are_limited() {
        let size = write_head(&mut Vec::new(), "/", "h", false, None, u64::MAX);
        assert_eq!(size as u64, bounded_head(u64::MAX));
    }
}
