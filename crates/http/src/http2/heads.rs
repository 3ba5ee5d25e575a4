//! Heads of the size that a page says, in fields: what a head had in HTTP/1.1 beyond the necessary is filled with fields of
//! a line each, the same ones in each head. So header compression does with them what it does with a browser's: sent once,
//! then named.

use http::{HeaderMap, HeaderName, HeaderValue};

/// Adds fields of `bytes` in all, as HTTP/1.1 counts them; what is less than a line stays away.
pub(crate) fn fill(fields: &mut HeaderMap, bytes: usize) {
    let name = HeaderName::from_static(NAME);
    for line in 0..bytes / LINE {
        // Lines of one head differ, else one would be named by another.
        let letter = char::from(b'a' + (line % 26) as u8);
        let value = letter.to_string().repeat(LINE - NAME.len() - 4);
        if let Ok(value) = HeaderValue::from_str(&value) {
            fields.append(name.clone(), value);
        }
    }
}

const NAME: &str = "x-fill";
/// Bytes of a line: fields of browsers have about as many.
const LINE: usize = 50;
