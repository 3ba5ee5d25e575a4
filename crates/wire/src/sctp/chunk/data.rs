//! DATA: a fragment of a user message.
//!
//! ```text
//! +---------------+-------+-+-+-+-+-------------------------------+
//! |   type = 0    |  res  |I|U|B|E|            length             |
//! +---------------+-------+-+-+-+-+-------------------------------+
//! |                              TSN                              |
//! +-------------------------------+-------------------------------+
//! |           stream              |    stream sequence number     |
//! +-------------------------------+-------------------------------+
//! |                  payload protocol identifier                  |
//! +---------------------------------------------------------------+
//! |                            payload …                          |
//! ```
//!
//! Implements RFC 9260 §3.3.1 and RFC 7053 §3 (the I bit).

use crate::sctp::tlv::{Malformed, RawChunk, pad};
use crate::sctp::{Ssn, Tsn};
use std::fmt;

/// A DATA chunk. Parsing accepts an empty payload. The endpoint decides how to respond (RFC 9260 §6.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Data<'a> {
    /// The I bit: the sender requests an immediate SACK.
    pub immediate: bool,
    /// The U bit: the message is unordered and the SSN has no meaning.
    pub unordered: bool,
    /// The B bit: this is the first fragment of its message.
    pub begin: bool,
    /// The E bit: this is the last fragment of its message.
    pub end: bool,
    /// The transmission sequence number.
    pub tsn: Tsn,
    /// The stream number.
    pub stream: u16,
    /// The stream sequence number.
    pub ssn: Ssn,
    /// The payload protocol identifier, set by the application.
    pub ppid: u32,
    /// The user data.
    pub payload: &'a [u8],
}

impl<'a> Data<'a> {
    /// Chunk type.
    pub const KIND: u8 = 0;
    /// The number of bytes before the payload, including the chunk header.
    pub const HEADER: usize = 16;

    pub(super) const END: u8 = 0x01;
    pub(super) const BEGIN: u8 = 0x02;
    pub(super) const UNORDERED: u8 = 0x04;
    pub(super) const IMMEDIATE: u8 = 0x08;

    /// Parses a DATA chunk.
    ///
    /// # Errors
    /// The chunk is shorter than its fixed part.
    #[inline(always)]
    pub fn parse(raw: RawChunk<'a>) -> Result<Self, Malformed> {
        let Some((&[t0, t1, t2, t3, s0, s1, n0, n1, p0, p1, p2, p3], payload)) =
            raw.value.split_first_chunk::<12>()
        else {
            return Err(raw.malformed());
        };
        Ok(Self {
            immediate: raw.flags & Self::IMMEDIATE != 0,
            unordered: raw.flags & Self::UNORDERED != 0,
            begin: raw.flags & Self::BEGIN != 0,
            end: raw.flags & Self::END != 0,
            tsn: Tsn(u32::from_be_bytes([t0, t1, t2, t3])),
            stream: u16::from_be_bytes([s0, s1]),
            ssn: Ssn(u16::from_be_bytes([n0, n1])),
            ppid: u32::from_be_bytes([p0, p1, p2, p3]),
            payload,
        })
    }

    /// Appends the header of a chunk with a payload of `length` bytes, and ignores `self.payload`. The caller appends
    /// the payload, and then calls [`pad`] with `length`. Panics if the chunk would be too long.
    #[inline]
    pub fn emit_header(&self, buffer: &mut Vec<u8>, length: usize) {
        let total = Self::HEADER + length;
        assert!(total <= usize::from(u16::MAX), "a DATA chunk of {total} bytes");
        let flags = u8::from(self.immediate) << 3
            | u8::from(self.unordered) << 2
            | u8::from(self.begin) << 1
            | u8::from(self.end);
        let mut head = [0; Self::HEADER];
        head[0..4].copy_from_slice(&[Self::KIND, flags, (total >> 8) as u8, total as u8]);
        head[4..8].copy_from_slice(&self.tsn.0.to_be_bytes());
        head[8..10].copy_from_slice(&self.stream.to_be_bytes());
        head[10..12].copy_from_slice(&self.ssn.0.to_be_bytes());
        head[12..16].copy_from_slice(&self.ppid.to_be_bytes());
        buffer.extend_from_slice(&head);
    }

    /// Appends the whole chunk with a payload that is given in two pieces. `self.payload` is ignored.
    #[inline(always)]
    pub fn emit_parts(&self, buffer: &mut Vec<u8>, (front, back): (&[u8], &[u8])) {
        let length = front.len() + back.len();
        self.emit_header(buffer, length);
        buffer.extend_from_slice(front);
        if !back.is_empty() {
            append(buffer, back);
        }
        pad(buffer, length);
    }

    /// Appends the whole chunk with its padding.
    #[inline]
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        self.emit_header(buffer, self.payload.len());
        buffer.extend_from_slice(self.payload);
        pad(buffer, self.payload.len());
    }
}

/// Appends the second piece of a payload, which is given in two pieces if it wraps around the end of a ring buffer.
#[cold]
fn append(buffer: &mut Vec<u8>, back: &[u8]) {
    buffer.extend_from_slice(back);
}

impl fmt::Display for Data<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DATA tsn={} sid={}", self.tsn, self.stream)?;
        if !self.unordered {
            write!(f, " ssn={}", self.ssn)?;
        }
        if self.ppid != 0 {
            write!(f, " ppid={}", self.ppid)?;
        }
        write!(f, " len={}", self.payload.len())?;
        self.fmt_flags(f)
    }
}

impl Data<'_> {
    /// Writes a space and the letters of the flags that are set, in the order of the RFC, for example ` UBE`. Writes
    /// nothing if no flag is set.
    pub(crate) fn fmt_flags(&self, f: &mut impl fmt::Write) -> fmt::Result {
        let flags = [(self.immediate, 'I'), (self.unordered, 'U'), (self.begin, 'B'), (self.end, 'E')];
        for (i, (_, letter)) in flags.iter().filter(|(set, _)| *set).enumerate() {
            if i == 0 {
                f.write_char(' ')?;
            }
            f.write_char(*letter)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::Chunk;
    use crate::sctp::chunk::tests::{one, round_trip};

    /// A DATA chunk from a kernel's SCTP implementation is parsed. It has a message of one byte in a single fragment.
    #[test]
    fn from_capture() {
        let bytes = [
            0x00, 0x03, 0x00, 0x11, 0x28, 0x02, 0x43, 0x45, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x3f,
            0x61, 0x00, 0x00, 0x00,
        ];
        let Chunk::Data(data) = one(&bytes) else { panic!("DATA") };
        assert_eq!((data.tsn, data.stream, data.ssn, data.ppid), (Tsn(0x2802_4345), 1, Ssn(0), 63));
        assert!(data.begin && data.end && !data.unordered && !data.immediate);
        assert_eq!(data.payload, b"a");
        assert_eq!(data.to_string(), "DATA tsn=671236933 sid=1 ssn=0 ppid=63 len=1 BE");
    }

    #[test]
    fn round_trips() {
        for (n, payload) in [&b""[..], b"a", b"ab", b"abc", b"abcd"].into_iter().enumerate() {
            for bits in 0..16_u8 {
                round_trip(Chunk::Data(Data {
                    immediate: bits & 8 != 0,
                    unordered: bits & 4 != 0,
                    begin: bits & 2 != 0,
                    end: bits & 1 != 0,
                    tsn: Tsn(u32::MAX - n as u32),
                    stream: 65_535,
                    ssn: Ssn(4_000),
                    ppid: 0xdead_beef,
                    payload,
                }));
            }
        }
    }

    #[test]
    fn a_short_one_is_malformed() {
        assert_eq!(
            Data::parse(RawChunk { kind: 0, flags: 3, value: &[0; 11], bytes: &[] }),
            Err(Malformed::Chunk { kind: 0 })
        );
    }
}
