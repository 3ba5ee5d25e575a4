//! Pads heads with fields to the size that a page says. The bytes that a head had in HTTP/1.1 beyond the necessary ones are
//! replaced by fields of one line each, which are the same in each head. Header compression therefore treats them like a
//! browser's fields: they are sent once and then referenced.

use http::{HeaderMap, HeaderName, HeaderValue};

/// Adds fields of `bytes` in total, as HTTP/1.1 counts them; a remainder shorter than a line is left out.
pub(crate) fn fill(fields: &mut HeaderMap, bytes: usize) {
    let name = HeaderName::from_static(NAME);
    for line in 0..bytes / LINE {
        // Lines of one head differ, so that none is encoded as a reference to another.
        let letter = char::from(b'a' + (line % 26) as u8);
        let value = letter.to_string().repeat(LINE - NAME.len() - 4);
        if let Ok(value) = HeaderValue::from_str(&value) {
            fields.append(name.clone(), value);
        }
    }
}

const NAME: &str = "x-fill";
/// The size of a line in bytes, about that of a typical field of browsers.
const LINE: usize = 50;
