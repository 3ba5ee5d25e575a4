//! QPACK (RFC 9204) with only the static table: encodes and decodes field sections. The integers and strings are those
//! of HPACK (RFC 7541 §5).
//!
//! Neither the decoder nor the encoder uses a dynamic table: its capacity stays at the default, 0. Therefore a field
//! section never depends on another stream.
//!
//! - `huffman`: the Huffman code of strings
//! - `static_table`: fields with predefined indices

mod huffman;
mod static_table;

use static_table::{STATIC_TABLE, StaticMatch, find};

/// RFC 9204 §4.1.1: the largest integer that is decoded.
const MAX_INTEGER: u64 = (1 << 62) - 1;

/// Appends the encoded field section of `fields` to `out`.
pub fn encode<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>, out: &mut Vec<u8>) {
    // RFC 9204 §4.5.1: Required Insert Count and Base are 0.
    out.extend_from_slice(&[0, 0]);
    for (name, value) in fields {
        match find(name, value) {
            Some(StaticMatch::Field(index)) => put_integer(out, 6, 0b1100_0000, index),
            Some(StaticMatch::Name(index)) => {
                put_integer(out, 4, 0b0101_0000, index);
                put_string(out, 7, 0, value);
            }
            None => {
                put_string(out, 3, 0b0010_0000, name);
                put_string(out, 7, 0, value);
            }
        }
    }
}

/// Decodes a field section. Calls `field` with the name and value of each field line.
///
/// # Errors
/// The reason why the section cannot be decoded.
pub fn decode(section: &[u8], mut field: impl FnMut(&[u8], &[u8])) -> Result<(), &'static str> {
    let mut rest = section;
    // RFC 9204 §4.5.1.1: the dynamic table has the capacity 0, so a field section cannot require an insert.
    if integer(&mut rest, 8)? != 0 {
        return Err("a field section requires dynamic table entries, of which there are none");
    }
    let negative = rest.first().is_some_and(|byte| byte & 0x80 != 0);
    let _delta_base = integer(&mut rest, 7)?;
    // RFC 9204 §4.5.1.2: the Required Insert Count is 0 here. With the sign bit set, Base would be negative, which is
    // an error.
    if negative {
        return Err("the Base of a field section is negative");
    }
    let (mut name, mut value) = (Vec::new(), Vec::new());
    while let Some(&first) = rest.first() {
        if first & 0x80 != 0 {
            // RFC 9204 §4.5.2: this is an indexed field line.
            let index = integer(&mut rest, 6)?;
            let (name, value) = entry(first & 0x40 != 0, index)?;
            field(name.as_bytes(), value.as_bytes());
        } else if first & 0x40 != 0 {
            // RFC 9204 §4.5.4: this is a literal field line with a name reference.
            let index = integer(&mut rest, 4)?;
            let (name, _) = entry(first & 0x10 != 0, index)?;
            field(name.as_bytes(), string(&mut rest, 7, &mut value)?);
        } else if first & 0x20 != 0 {
            // RFC 9204 §4.5.6: this is a literal field line with a literal name.
            let name = string(&mut rest, 3, &mut name)?;
            field(name, string(&mut rest, 7, &mut value)?);
        } else {
            // RFC 9204 §4.5.3, §4.5.5: the two forms with a post-base index refer to the dynamic table.
            return Err(DYNAMIC);
        }
    }
    Ok(())
}

/// The reason why a field section with a reference to the dynamic table is refused.
pub const DYNAMIC: &str = "a field line refers to the dynamic table, which is empty";

fn entry(is_static: bool, index: u64) -> Result<(&'static str, &'static str), &'static str> {
    if is_static { static_entry(index) } else { Err(DYNAMIC) }
}

/// Returns the name and value of the static table's entry with this index.
///
/// # Errors
/// The static table has no such entry.
pub fn static_entry(index: u64) -> Result<(&'static str, &'static str), &'static str> {
    // RFC 9204 §3.1: an index beyond the static table is an error.
    let entry = usize::try_from(index).ok().and_then(|index| STATIC_TABLE.get(index));
    entry.copied().ok_or("the static table has no entry of that index")
}

/// A decoded integer or string; `None` if it is incomplete; or the reason why it is invalid.
pub type Partial<T> = Result<Option<T>, &'static str>;

/// Decodes an integer that begins in the lowest `prefix` bits of the first byte (RFC 9204 §4.1.1, RFC 7541 §5.1).
///
/// # Errors
/// The integer is too large.
pub fn partial_integer(rest: &mut &[u8], prefix: u32) -> Partial<u64> {
    let mut bytes = rest.iter();
    let Some(&first) = bytes.next() else { return Ok(None) };
    let most = (1_u64 << prefix) - 1;
    let mut value = u64::from(first) & most;
    if value == most {
        let mut shift = 0;
        loop {
            let Some(&byte) = bytes.next() else { return Ok(None) };
            // RFC 9204 §4.1.1: integers have at most 62 bits.
            let part = u64::from(byte & 0x7f);
            if shift > 56 || part << shift > MAX_INTEGER - value {
                return Err("an integer has more than 62 bits");
            }
            value += part << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
    }
    *rest = bytes.as_slice();
    Ok(Some(value))
}

/// Decodes an integer like [`partial_integer`].
///
/// # Errors
/// The integer is too large or incomplete.
pub fn integer(rest: &mut &[u8], prefix: u32) -> Result<u64, &'static str> {
    partial_integer(rest, prefix)?.ok_or("a field section ends within an integer")
}

/// Decodes a string (RFC 9204 §4.1.2). Its length is an integer with a `prefix`-bit prefix after the Huffman bit. A
/// Huffman-coded string is decoded into `decoded`.
///
/// # Errors
/// The string is incomplete, or its Huffman code is wrong.
pub fn string<'a, 'b>(
    rest: &mut &'a [u8],
    prefix: u32,
    decoded: &'b mut Vec<u8>,
) -> Result<&'b [u8], &'static str>
where
    'a: 'b,
{
    let encoded = rest.first().is_some_and(|byte| byte >> prefix & 1 == 1);
    let length = integer(rest, prefix)?;
    let text = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length));
    let (text, after) = text.ok_or("a field section ends within a string")?;
    *rest = after;
    if !encoded {
        return Ok(text);
    }
    decoded.clear();
    if huffman::decode(text, decoded) { Ok(decoded) } else { Err(HUFFMAN) }
}

const HUFFMAN: &str = "a string is not in the Huffman code";

fn put_integer(out: &mut Vec<u8>, prefix: u32, flags: u8, value: u64) {
    let most = (1 << prefix) - 1;
    if value < most {
        return out.push(flags | value as u8);
    }
    out.push(flags | most as u8);
    let mut left = value - most;
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

/// Appends `text` as a Huffman-coded string.
fn put_string(out: &mut Vec<u8>, prefix: u32, flags: u8, text: &[u8]) {
    put_integer(out, prefix, flags | 1 << prefix, huffman::encoded_length(text) as u64);
    huffman::encode(text, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(section: &[u8]) -> Result<Vec<(String, String)>, &'static str> {
        let mut fields = Vec::new();
        decode(section, |name, value| {
            fields.push((
                String::from_utf8_lossy(name).into_owned(),
                String::from_utf8_lossy(value).into_owned(),
            ));
        })?;
        Ok(fields)
    }

    #[test]
    fn sections_are_read_as_they_are_written() {
        let long = "x".repeat(5_000);
        let fields = [
            (":status", "200"),
            (":status", "299"),
            ("content-type", "text/plain"),
            ("content-type", "a/b"),
            ("x-frame-options", "sameorigin"),
            ("x-own", ""),
            ("x-long", &long),
        ];
        let mut section = Vec::new();
        encode(fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())), &mut section);
        let expected = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(decoded(&section).as_deref(), Ok(&expected[..]));
        for end in 0..section.len() {
            // Decodes every prefix of the section. Decoding must fail, or yield the first fields of the whole section.
            // It must not panic.
            let part = decoded(&section[..end]);
            assert!(part.is_err() || expected.starts_with(&part.clone().unwrap_or_default()), "{part:?}");
        }
        assert_eq!(section[..4], [0, 0, 0xc0 | 25, 0x50 | 15]);
    }

    /// Tests the example of RFC 9204 Appendix B.1.
    #[test]
    fn the_example_of_the_rfc_is_read() {
        let section = b"\0\0\x51\x0b/index.html";
        let expected = [(":path".to_owned(), "/index.html".to_owned())];
        assert_eq!(decoded(section).as_deref(), Ok(&expected[..]));
    }

    #[test]
    fn sections_that_are_wrong_are_refused() {
        for wrong in [
            &[][..],
            &[0],
            // The first field section has a Required Insert Count other than 0, and the second has a negative Base.
            &[1, 0],
            &[0, 0x80],
            // References to the dynamic table, in each of the four forms.
            &[0, 0, 0x80],
            &[0, 0, 0x40, 0],
            &[0, 0, 0x10],
            &[0, 0, 0x00, 0],
            // References to index 99, which is the first index beyond the static table, and to a far higher index.
            &[0, 0, 0xff, 36],
            &[0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
            // An integer with 63 bits.
            &[0, 0, 0xff, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40],
            // Strings that are incomplete or not valid Huffman code.
            &[0, 0, 0x51, 1],
            &[0, 0, 0x51, 0x81, 0],
            &[0, 0, 0x51, 0x84, 0xff, 0xff, 0xff, 0xff],
            &[0, 0, 0x2f, 0xff],
        ] {
            assert!(decoded(wrong).is_err(), "{wrong:?}");
        }
        assert!(decoded(&[0, 0, 0xff, 35]).is_ok(), "entry 98 is the last");
        assert!(decoded(&[0, 5]).is_ok(), "a Base that nothing refers to");
    }
}
