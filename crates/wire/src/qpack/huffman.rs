//! The Huffman code of HPACK, which QPACK uses (RFC 9204 §4.1.2, RFC 7541 §5.2 and Appendix B).
//!
//! The code is canonical. Codes of the same length are consecutive numbers in the order of their symbols. The first
//! code of each length follows the last code of the next shorter length. Therefore the lengths alone define the whole
//! code.

use std::sync::OnceLock;

/// The length of each symbol's code in bits. The last entry is the length for EOS.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];
/// The length of the longest code in bits.
const LONGEST: usize = 30;
/// The number of bits that are looked up at once. Most characters of text have codes of at most this length.
const LOOKUP: u32 = 8;
const EOS: u16 = 256;

struct Tables {
    codes: [u32; 257],
    /// The symbols of the Huffman code, in the order of their codes.
    symbols: [u16; 257],
    /// For each code length: the first code, the index of its symbol in `symbols`, and the number of codes.
    firsts: [(u32, u16, u16); LONGEST + 1],
    /// Indexed by the next [`LOOKUP`] bits of the input: the symbol of the first code in these bits, and the length of
    /// that code. The length is 0 if the code is longer than [`LOOKUP`] bits.
    lookup: [(u8, u8); 1 << LOOKUP],
}

fn tables() -> &'static Tables {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    TABLES.get_or_init(|| {
        let mut tables = Tables {
            codes: [0; 257],
            symbols: [0; 257],
            firsts: [(0, 0, 0); LONGEST + 1],
            lookup: [(0, 0); 256],
        };
        let (mut code, mut index) = (0_u32, 0);
        for length in 1..=LONGEST {
            code <<= 1;
            let first = (code, index);
            for (symbol, _) in LENGTHS.iter().enumerate().filter(|(_, of)| usize::from(**of) == length) {
                tables.codes[symbol] = code;
                tables.symbols[usize::from(index)] = symbol as u16;
                if length as u32 <= LOOKUP {
                    let free = LOOKUP - length as u32;
                    let begin = (code << free) as usize;
                    tables.lookup[begin..begin + (1 << free)].fill((symbol as u8, length as u8));
                }
                code += 1;
                index += 1;
            }
            tables.firsts[length] = (first.0, first.1, index - first.1);
        }
        tables
    })
}

/// Returns the size in bytes of `text` after Huffman coding.
pub(super) fn encoded_length(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|&byte| usize::from(LENGTHS[usize::from(byte)])).sum();
    bits.div_ceil(8)
}

/// Appends the Huffman-coded `text` to `out`.
pub(super) fn encode(text: &[u8], out: &mut Vec<u8>) {
    let tables = tables();
    let (mut bits, mut count) = (0_u64, 0_u32);
    for &byte in text {
        let length = u32::from(LENGTHS[usize::from(byte)]);
        bits = bits << length | u64::from(tables.codes[usize::from(byte)]);
        count += length;
        while count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    if count > 0 {
        // RFC 7541 §5.2: the last byte is padded with the first bits of EOS, which are ones.
        out.push((bits << (8 - count)) as u8 | (0xff >> count));
    }
}

/// Appends the decoded text to `out`. Returns false if `code` is not valid Huffman code.
pub(super) fn decode(code: &[u8], out: &mut Vec<u8>) -> bool {
    let tables = tables();
    let mut code = code.iter();
    // The bits that have not been decoded yet are the lowest `count` bits of `bits`.
    let (mut bits, mut count) = (0_u64, 0_u32);
    loop {
        while count < LONGEST as u32 {
            let Some(&byte) = code.next() else { break };
            bits = bits << 8 | u64::from(byte);
            count += 8;
        }
        if count == 0 {
            return true;
        }
        // The lookup needs `LOOKUP` bits. If fewer bits are left, bits of value 1 are appended, like the padding of RFC
        // 7541 §5.2.
        let ahead = if count >= LOOKUP {
            bits >> (count - LOOKUP)
        } else {
            (bits << (LOOKUP - count)) | (0xff >> count)
        };
        let (symbol, length) = tables.lookup[(ahead & 0xff) as usize];
        if length > 0 && u32::from(length) <= count {
            out.push(symbol);
            count -= u32::from(length);
            continue;
        }
        match longer(tables, bits, count) {
            Some((symbol, _)) if symbol == EOS => return false,
            Some((symbol, length)) => {
                out.push(symbol as u8);
                count -= length;
            }
            // RFC 7541 §5.2: the padding consists of at most seven bits, which are the first bits of EOS.
            None => return count < 8 && bits & ((1 << count) - 1) == (1 << count) - 1,
        }
    }
}

/// Finds the first code in the lowest `count` bits of `bits`. Returns the symbol and the length of the code, or `None`
/// if the code is incomplete.
fn longer(tables: &Tables, bits: u64, count: u32) -> Option<(u16, u32)> {
    for length in 1..=(LONGEST as u32).min(count) {
        let code = (bits >> (count - length) & ((1 << length) - 1)) as u32;
        let (first, index, codes) = tables.firsts[length as usize];
        if code >= first && code - first < u32::from(codes) {
            return Some((tables.symbols[usize::from(index) + (code - first) as usize], length));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::Rng;

    fn decoded(code: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        decode(code, &mut out).then_some(out)
    }

    /// Tests the examples of RFC 7541 Appendix C.4.1, C.4.3 and C.6.1, and codes of Appendix B.
    #[test]
    fn examples_of_the_rfc_are_read_and_written() {
        for (text, code) in [
            (
                "www.example.com",
                &[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff][..],
            ),
            ("custom-value", &[0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xb8, 0xe8, 0xb4, 0xbf]),
            ("302", &[0x64, 0x02]),
            ("", &[]),
        ] {
            let mut out = Vec::new();
            encode(text.as_bytes(), &mut out);
            assert_eq!((&out[..], out.len()), (code, encoded_length(text.as_bytes())), "{text}");
            assert_eq!(decoded(code).as_deref(), Some(text.as_bytes()));
        }
        let tables = tables();
        let codes = [(0, 0x1ff8), (10, 0x3fff_fffc), (48, 0), (97, 3), (255, 0x3ff_ffee), (256, 0x3fff_ffff)];
        assert!(codes.iter().all(|&(symbol, code)| tables.codes[symbol] == code));
    }

    #[test]
    fn every_text_is_read_as_it_was_written() {
        let mut rng = Rng::new(1);
        for length in 0..600 {
            let mut text = vec![0; length % 60];
            rng.fill(&mut text);
            if length % 2 == 0 {
                text.iter_mut().for_each(|byte| *byte = b' ' + *byte % 95);
            }
            let mut code = Vec::new();
            encode(&text, &mut code);
            assert_eq!(decoded(&code).as_deref(), Some(&text[..]));
        }
    }

    #[test]
    fn eos_and_wrong_padding_are_refused() {
        // The code of `a` is 00011. Three bits of padding follow.
        assert_eq!(decoded(&[0b0001_1111]).as_deref(), Some(&b"a"[..]));
        for wrong in [&[0b0001_1000][..], &[0b0001_1110], &[0b0001_1111, 0xff], &[0xff; 4], &[0xff]] {
            assert_eq!(decoded(wrong), None, "{wrong:?}");
        }
    }
}
