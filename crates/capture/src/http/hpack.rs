//! HPACK (RFC 7541): decodes the field blocks of HTTP/2.
//!
//! The dynamic table is limited to a size that a peer may use. The beginning of a connection must have been captured:
//! after a gap, the table is not known.

use anabranch_wire::qpack::{integer, string};
use std::collections::VecDeque;

/// The maximum size of the dynamic table in bytes (RFC 7541 §4.1). No known peer allows more.
const MAX_TABLE: usize = 1 << 16;

/// An HPACK decoder. It decodes every field of a head, because the dynamic table depends on all of them.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// The dynamic table. The newest entry comes first.
    entries: VecDeque<(Vec<u8>, Vec<u8>)>,
    size: usize,
    /// The table size that the peer's encoder has set. If it has set none (`None`), the size is 4,096 bytes.
    limit: Option<usize>,
}

impl Decoder {
    /// Decodes a field block. Calls `field` with the name and value of each field.
    ///
    /// # Errors
    /// The reason why the block cannot be decoded.
    pub fn decode(
        &mut self,
        mut rest: &[u8],
        mut field: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), &'static str> {
        let (mut name_buffer, mut value_buffer) = (Vec::new(), Vec::new());
        while let Some(&first) = rest.first() {
            // RFC 7541 §6: the first bits of a field select its representation.
            if first & 0x80 != 0 {
                let (name, value) = self.entry(integer(&mut rest, 7)?)?;
                field(name, value);
                continue;
            }
            if first & 0xe0 == 0x20 {
                let limit = usize::try_from(integer(&mut rest, 5)?).unwrap_or(usize::MAX);
                self.limit = Some(limit.min(MAX_TABLE));
                self.evict();
                continue;
            }
            let is_added = first & 0x40 != 0;
            let name = match integer(&mut rest, if is_added { 6 } else { 4 })? {
                0 => string(&mut rest, 7, &mut name_buffer)?.to_vec(),
                index => self.entry(index)?.0.to_vec(),
            };
            let value = string(&mut rest, 7, &mut value_buffer)?;
            field(&name, value);
            if is_added {
                self.size += name.len() + value.len() + ENTRY;
                self.entries.push_front((name, value.to_vec()));
                self.evict();
            }
        }
        Ok(())
    }

    fn entry(&self, index: u64) -> Result<(&[u8], &[u8]), &'static str> {
        let index = usize::try_from(index).ok().and_then(|index| index.checked_sub(1)).ok_or(UNKNOWN)?;
        if let Some((name, value)) = STATIC_TABLE.get(index) {
            return Ok((name.as_bytes(), value.as_bytes()));
        }
        let (name, value) = self.entries.get(index - STATIC_TABLE.len()).ok_or(UNKNOWN)?;
        Ok((name, value))
    }

    fn evict(&mut self) {
        while self.size > self.limit.unwrap_or(4_096)
            && let Some((name, value)) = self.entries.pop_back()
        {
            self.size -= name.len() + value.len() + ENTRY;
        }
    }
}

const UNKNOWN: &str = "no table has an entry of that index";
/// RFC 7541 §4.1: the size of an entry in addition to its name and its value.
const ENTRY: usize = 32;

/// The static table (RFC 7541 Appendix A).
#[rustfmt::skip]
const STATIC_TABLE: [(&str, &str); 61] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
    (":scheme", "http"), (":scheme", "https"), (":status", "200"), (":status", "204"), (":status", "206"),
    (":status", "304"), (":status", "400"), (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""), ("accept", ""),
    ("access-control-allow-origin", ""), ("age", ""), ("allow", ""), ("authorization", ""), ("cache-control", ""),
    ("content-disposition", ""), ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
    ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""), ("date", ""), ("etag", ""),
    ("expect", ""), ("expires", ""), ("from", ""), ("host", ""), ("if-match", ""), ("if-modified-since", ""),
    ("if-none-match", ""), ("if-range", ""), ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""),
    ("location", ""), ("max-forwards", ""), ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""),
    ("referer", ""), ("refresh", ""), ("retry-after", ""), ("server", ""), ("set-cookie", ""),
    ("strict-transport-security", ""), ("transfer-encoding", ""), ("user-agent", ""), ("vary", ""), ("via", ""),
    ("www-authenticate", ""),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(decoder: &mut Decoder, block: &[u8]) -> Vec<String> {
        let mut fields = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        decoder
            .decode(block, |name, value| fields.push(format!("{}: {}", text(name), text(value))))
            .expect("a field block");
        fields
    }

    /// The examples of RFC 7541 must be decoded: the first two requests of C.3 (without Huffman coding), and the first
    /// request of C.4 (with Huffman coding).
    #[test]
    fn the_examples_of_the_rfc_are_read() {
        let mut decoder = Decoder::default();
        let first = [&[0x82, 0x86, 0x84, 0x41, 0x0f][..], b"www.example.com"].concat();
        let expected = [":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"];
        assert_eq!(fields(&mut decoder, &first), expected);
        assert_eq!(decoder.size, 57);
        let second = [&[0x82, 0x86, 0x84, 0xbe, 0x58, 0x08][..], b"no-cache"].concat();
        let found = fields(&mut decoder, &second);
        assert_eq!(found[3..], [":authority: www.example.com", "cache-control: no-cache"]);
        assert_eq!(decoder.size, 110);
        let coded = [
            0x82, 0x86, 0x84, 0x41, 0x8c, 0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4,
            0xff,
        ];
        assert_eq!(fields(&mut Decoder::default(), &coded), expected);
        assert_eq!(fields(&mut decoder, &[0x20]), [""; 0]);
        assert_eq!((decoder.size, decoder.decode(&[0xbe], |_, _| {})), (0, Err(UNKNOWN)));
    }
}
