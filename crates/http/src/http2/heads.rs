//! Pads heads with fields to the size that a page specifies. The page specifies the size of the head in HTTP/1.1, which
//! usually exceeds the size of the necessary fields. Padding fields of one line each make up the difference. They are
//! the same in every head, like the recurring fields of a browser. Therefore header compression sends each padding
//! field once, and then only refers to it.

use http::{HeaderMap, HeaderName, HeaderValue};

/// Adds padding fields with a total size of `bytes` in HTTP/1.1 format. A remainder shorter than a line is left out.
pub(crate) fn fill(fields: &mut HeaderMap, bytes: usize) {
    let name = HeaderName::from_static(NAME);
    for line in 0..bytes / LINE {
        // The padding lines of a head differ, so that header compression does not encode one as a reference to another
        // line of the same head.
        let letter = char::from(b'a' + (line % 26) as u8);
        let value = letter.to_string().repeat(LINE - NAME.len() - 4);
        if let Ok(value) = HeaderValue::from_str(&value) {
            fields.append(name.clone(), value);
        }
    }
}

const NAME: &str = "x-fill";
/// The size in bytes of each padding field in HTTP/1.1 format. It is about the size of a typical browser field.
const LINE: usize = 50;
