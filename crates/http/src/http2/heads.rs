//! Pads heads with fields to the size that a page specifies. The page specifies the size of the head in HTTP/1.1, which
//! usually exceeds the size of the necessary fields. Padding fields of one line each make up the difference. They are
//! the same in every head, like the recurring fields of a browser. Therefore header compression sends each padding
//! field once, and then only refers to it.

use http::{HeaderMap, HeaderName, HeaderValue};

/// Adds padding fields with a total size of `bytes` in HTTP/1.1 format. A remainder shorter than a line is left out.
pub(crate) fn fill(fields: &mut HeaderMap, bytes: usize) {
    for line in 0..bytes / LINE {
        // Each line has a name of its own, because h2 compresses only the first of several fields with one name.
        let name = format!("{NAME}-{line}");
        let value = "x".repeat(LINE - name.len() - 4);
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            fields.insert(name, value);
        }
    }
}

const NAME: &str = "x-fill";
/// The size in bytes of each padding field in HTTP/1.1 format. It is about the size of a typical browser field.
const LINE: usize = 50;
