//! I-DATA: a fragment of a user message, in an association that interleaves fragments of several messages.
//!
//! ```text
//! +---------------+-------+-+-+-+-+-------------------------------+
//! |   type = 64   |  res  |I|U|B|E|            length             |
//! +---------------+-------+-+-+-+-+-------------------------------+
//! |                              TSN                              |
//! +-------------------------------+-------------------------------+
//! |           stream              |           reserved            |
//! +-------------------------------+-------------------------------+
//! |                      message identifier                       |
//! +---------------------------------------------------------------+
//! |  payload protocol identifier (B)  /  fragment sequence number |
//! +---------------------------------------------------------------+
//! |                            payload …                          |
//! ```
//!
//! Implements RFC 8260 §2.1.

use super::Data;
use crate::sctp::Tsn;
use crate::sctp::tlv::{Malformed, RawChunk, pad};
use std::fmt;

/// An I-DATA chunk. Parsing accepts an empty payload. The endpoint decides how to respond (RFC 9260 §6.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IData<'a> {
    /// The I bit: the sender requests an immediate SACK.
    pub immediate: bool,
    /// The U bit: the message is unordered.
    pub unordered: bool,
    /// The B bit: this is the first fragment of its message.
    pub begin: bool,
    /// The E bit: this is the last fragment of its message.
    pub end: bool,
    /// The transmission sequence number.
    pub tsn: Tsn,
    /// The stream number.
    pub stream: u16,
    /// The message identifier. Each stream has separate numberings for ordered and unordered messages.
    pub mid: u32,
    /// The fragment sequence number. The first fragment has number 0, which the chunk does not contain.
    pub fsn: u32,
    /// The payload protocol identifier in the first fragment of a message; 0 in all other fragments.
    pub ppid: u32,
    /// The user data.
    pub payload: &'a [u8],
}

impl<'a> IData<'a> {
    /// Chunk type.
    pub const KIND: u8 = 64;
    /// The number of bytes before the payload, including the chunk header.
    pub const HEADER: usize = 20;

    /// Creates an I-DATA chunk from `data`, with message identifier `mid` and fragment sequence number `fsn`.
    #[must_use]
    pub const fn numbered(data: Data<'a>, mid: u32, fsn: u32) -> Self {
        let Data { immediate, unordered, begin, end, tsn, stream, ppid, payload, .. } = data;
        Self { immediate, unordered, begin, end, tsn, stream, mid, fsn, ppid, payload }
    }

    /// Parses an I-DATA chunk.
    ///
    /// # Errors
    /// The chunk is shorter than its fixed part.
    #[inline]
    pub fn parse(raw: RawChunk<'a>) -> Result<Self, Malformed> {
        let Some((&[t0, t1, t2, t3, s0, s1, _, _, m0, m1, m2, m3, n0, n1, n2, n3], payload)) =
            raw.value.split_first_chunk::<16>()
        else {
            return Err(raw.malformed());
        };
        let begin = raw.flags & Data::BEGIN != 0;
        let number = u32::from_be_bytes([n0, n1, n2, n3]);
        // RFC 8260 §2.1: the PPID and the fragment sequence number share one field. The first fragment carries the
        // PPID, and its sequence number is 0.
        let (ppid, fsn) = if begin { (number, 0) } else { (0, number) };
        Ok(Self {
            immediate: raw.flags & Data::IMMEDIATE != 0,
            unordered: raw.flags & Data::UNORDERED != 0,
            begin,
            end: raw.flags & Data::END != 0,
            tsn: Tsn(u32::from_be_bytes([t0, t1, t2, t3])),
            stream: u16::from_be_bytes([s0, s1]),
            mid: u32::from_be_bytes([m0, m1, m2, m3]),
            fsn,
            ppid,
            payload,
        })
    }

    /// Appends the whole chunk with a payload that is given in two pieces. `self.payload` is ignored. Panics if the
    /// chunk would be too long.
    #[inline]
    pub fn emit_parts(&self, buffer: &mut Vec<u8>, (front, back): (&[u8], &[u8])) {
        let length = front.len() + back.len();
        let total = Self::HEADER + length;
        assert!(total <= usize::from(u16::MAX), "an I-DATA chunk of {total} bytes");
        let flags = u8::from(self.immediate) << 3
            | u8::from(self.unordered) << 2
            | u8::from(self.begin) << 1
            | u8::from(self.end);
        let mut head = [0; Self::HEADER];
        head[0..4].copy_from_slice(&[Self::KIND, flags, (total >> 8) as u8, total as u8]);
        head[4..8].copy_from_slice(&self.tsn.0.to_be_bytes());
        head[8..10].copy_from_slice(&self.stream.to_be_bytes());
        head[12..16].copy_from_slice(&self.mid.to_be_bytes());
        let number = if self.begin { self.ppid } else { self.fsn };
        head[16..20].copy_from_slice(&number.to_be_bytes());
        buffer.extend_from_slice(&head);
        buffer.extend_from_slice(front);
        buffer.extend_from_slice(back);
        pad(buffer, length);
    }

    /// Appends the whole chunk with its padding.
    #[inline]
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        self.emit_parts(buffer, (self.payload, &[]));
    }

    /// Writes the end of the chunk's line in a ladder diagram, after the stream number: message identifier, fragment
    /// number, payload protocol identifier, length and flags.
    pub(crate) fn fmt_rest(&self, f: &mut impl fmt::Write) -> fmt::Result {
        write!(f, " mid={}", self.mid)?;
        if !self.begin {
            write!(f, " fsn={}", self.fsn)?;
        }
        if self.ppid != 0 {
            write!(f, " ppid={}", self.ppid)?;
        }
        write!(f, " len={}", self.payload.len())?;
        let Self { immediate, unordered, begin, end, .. } = *self;
        Data { immediate, unordered, begin, end, ..Data::default() }.fmt_flags(f)
    }
}

impl fmt::Display for IData<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "I-DATA tsn={} sid={}", self.tsn, self.stream)?;
        self.fmt_rest(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::Chunk;
    use crate::sctp::chunk::tests::{one, round_trip};

    /// RFC 8260 §2.1: the same field contains the PPID in the first fragment, and the fragment sequence number in later
    /// fragments.
    #[test]
    fn reads_both_forms() {
        let mut bytes = [
            0x40, 0x0e, 0x00, 0x16, 0x00, 0x00, 0x00, 0x07, 0x00, 0x05, 0xff, 0xff, 0x00, 0x01, 0x00, 0x00,
            0x00, 0x00, 0x00, 0x35, 0x68, 0x69, 0x00, 0x00,
        ];
        let Chunk::IData(first) = one(&bytes) else { panic!("I-DATA") };
        assert_eq!((first.tsn, first.stream, first.mid), (Tsn(7), 5, 65_536));
        assert_eq!((first.ppid, first.fsn, first.payload), (53, 0, &b"hi"[..]));
        assert_eq!(first.to_string(), "I-DATA tsn=7 sid=5 mid=65536 ppid=53 len=2 IUB");
        bytes[1] = 1;
        let Chunk::IData(last) = one(&bytes) else { panic!("I-DATA") };
        assert_eq!((last.ppid, last.fsn), (0, 53));
        assert_eq!(last.to_string(), "I-DATA tsn=7 sid=5 mid=65536 fsn=53 len=2 E");
    }

    #[test]
    fn round_trips() {
        for (n, payload) in [&b""[..], b"a", b"ab", b"abc", b"abcd"].into_iter().enumerate() {
            for bits in 0..16_u8 {
                let begin = bits & 2 != 0;
                round_trip(Chunk::IData(IData {
                    immediate: bits & 8 != 0,
                    unordered: bits & 4 != 0,
                    begin,
                    end: bits & 1 != 0,
                    tsn: Tsn(u32::MAX - n as u32),
                    stream: 65_535,
                    mid: u32::MAX,
                    fsn: if begin { 0 } else { 0x8000_0001 },
                    ppid: if begin { 0xdead_beef } else { 0 },
                    payload,
                }));
            }
        }
    }

    #[test]
    fn a_short_one_is_malformed() {
        assert_eq!(
            IData::parse(RawChunk { kind: 64, flags: 3, value: &[0; 15], bytes: &[] }),
            Err(Malformed::Chunk { kind: 64 })
        );
    }
}
