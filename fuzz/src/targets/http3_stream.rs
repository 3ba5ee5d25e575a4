//! Parses one HTTP/3 request stream (RFC 9114 §4.1, RFC 9204 §4.5), with a request or a response, without a session
//! around it.
//!
//! The result is a message or one error. This result must not depend on how the bytes are split, and the content must
//! not be longer than the input.

use crate::source::Source;
use anabranch_http::http3::read_message;

/// Parses generated frames of a message, which are mostly valid.
pub fn run(input: &[u8]) {
    let mut source = Source::new(input);
    let is_request = source.one_in(2);
    let piece = 1 + source.below(40) as usize;
    let mut bytes = Vec::new();
    while !source.is_over() && !source.one_in(12) {
        let (kind, payload) = match source.below(8) {
            0..=2 => (1, section(&mut source, is_request)),
            3 | 4 => (0, source.bytes(30).to_vec()),
            5 => (u64::from(source.below(16)), source.bytes(20).to_vec()),
            6 => (u64::from(source.number()), source.bytes(20).to_vec()),
            _ => {
                bytes.extend(source.bytes(20));
                continue;
            }
        };
        let length = if source.one_in(16) { source.number().into() } else { payload.len() as u64 };
        put_varint(&mut bytes, kind, &mut source);
        put_varint(&mut bytes, length, &mut source);
        bytes.extend(payload);
    }
    let whole = read_message(&bytes, is_request, bytes.len());
    if let Ok(content) = whole {
        assert!(content <= bytes.len() as u64, "{content} bytes of content in {}", bytes.len());
    }
    for piece in [1, piece] {
        assert_eq!(read_message(&bytes, is_request, piece), whole, "in pieces of {piece}");
    }
}

/// Returns a field section. It usually has the required fields of a message, and further fields of all forms.
fn section(source: &mut Source<'_>, is_request: bool) -> Vec<u8> {
    let mut section = if source.one_in(24) { source.bytes(2).to_vec() } else { vec![0, 0] };
    match is_request {
        _ if source.one_in(8) => {}
        // Adds the fields of a request: GET, https, an authority and /.
        true => section.extend([0xd1, 0xd7, 0x50, 1, b'a', 0xc1]),
        false => section.push(source.pick(&[0xd9, 0xd8, 0xda, 0xff])),
    }
    while !source.one_in(3) {
        match source.below(6) {
            // Adds a reference to the static table. The index may be beyond the end of the table.
            0 => section.extend([0xff, source.byte() & 0x7f]),
            1 => section.push(0xc0 | source.byte()),
            // Adds a literal value, with or without Huffman coding.
            2 => {
                let value = source.bytes(12).to_vec();
                let huffman = if source.one_in(2) { 0x80 } else { 0 };
                section.extend(
                    [&[0x50 | source.byte() & 0x0f, huffman | value.len() as u8][..], &value].concat(),
                );
            }
            // Adds a content length, which may or may not match the content.
            3 => section.extend([0x54, 1, source.pick(b"0359x ")]),
            4 => {
                let name = source.pick(&[&b"x"[..], b"te", b"connection", b"X", b":path", b"host"]);
                let value = source.pick(&[&b"a"[..], b"trailers", b" a", b"/", b""]);
                let length = match name.len() {
                    length @ 0..7 => vec![0x20 | length as u8],
                    length => vec![0x27, (length - 7) as u8],
                };
                section.extend([&length[..], name, &[value.len() as u8], value].concat());
            }
            _ => section.extend(source.bytes(6)),
        }
    }
    section
}

/// Appends a variable-length integer (RFC 9000 §16), not always in the shortest form.
fn put_varint(out: &mut Vec<u8>, value: u64, source: &mut Source<'_>) {
    let long = source.one_in(8);
    match value {
        0..0x40 if !long => out.push(value as u8),
        0..0x4000 if !long => out.extend((value as u16 | 0x4000).to_be_bytes()),
        0..0x4000_0000 if !long => out.extend((value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend((value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}
