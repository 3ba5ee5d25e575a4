//! FORWARD TSN: tells the receiver not to wait for data that the sender has abandoned.
//!
//! ```text
//! +---------------+---------------+-------------------------------+
//! |  type = 192   |     flags     |            length             |
//! +---------------+---------------+-------------------------------+
//! |                      new cumulative TSN                       |
//! +-------------------------------+-------------------------------+
//! |            stream             |    stream sequence number     | …
//! +-------------------------------+-------------------------------+
//! ```
//!
//! I-FORWARD-TSN has the same purpose in associations that interleave messages. Its message identifiers are wider, and
//! it can also skip unordered messages.
//!
//! ```text
//! +---------------+---------------+-------------------------------+
//! |  type = 194   |     flags     |            length             |
//! +---------------+---------------+-------------------------------+
//! |                      new cumulative TSN                       |
//! +-------------------------------+-----------------------------+-+
//! |            stream             |          reserved           |U|
//! +-------------------------------+-----------------------------+-+
//! |                      message identifier                       | …
//! +---------------------------------------------------------------+
//! ```
//!
//! Implements the chunk formats of RFC 3758 §3.2 and RFC 8260 §2.3.1.

use crate::sctp::tlv::{ChunkWriter, Malformed, RawChunk};
use crate::sctp::{Ssn, Tsn};
use std::fmt;

/// An entry of a FORWARD TSN: a stream in which ordered messages were skipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Skipped {
    /// The stream.
    pub stream: u16,
    /// The highest SSN that was skipped in the stream.
    pub ssn: Ssn,
}

/// A FORWARD TSN chunk, either received or to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ForwardTsn<'a> {
    /// The new cumulative TSN. The sender does not retransmit data up to this TSN.
    pub cumulative: Tsn,
    /// The streams, each with its highest skipped SSN, in wire format.
    streams: &'a [[u8; 4]],
}

impl<'a> ForwardTsn<'a> {
    /// Chunk type.
    pub const KIND: u8 = 192;
    /// The size in bytes of a FORWARD TSN chunk that lists no streams, including the chunk header.
    pub const FIXED: usize = 8;
    /// The size in bytes of the entry for one stream in a FORWARD TSN.
    pub const EACH: usize = 4;

    /// Parses a FORWARD TSN chunk.
    ///
    /// # Errors
    /// The value does not consist of a TSN and complete entries.
    pub fn parse(raw: RawChunk<'a>) -> Result<Self, Malformed> {
        let (cumulative, rest) = raw.value.split_first_chunk::<4>().ok_or(raw.malformed())?;
        let (streams, []) = rest.as_chunks::<4>() else { return Err(raw.malformed()) };
        Ok(Self { cumulative: Tsn(u32::from_be_bytes(*cumulative)), streams })
    }

    /// Returns the streams in which messages were skipped, in the order of the chunk.
    pub fn streams(&self) -> impl ExactSizeIterator<Item = Skipped> + Clone + use<'a> {
        self.streams.iter().map(|&[s0, s1, n0, n1]| Skipped {
            stream: u16::from_be_bytes([s0, s1]),
            ssn: Ssn(u16::from_be_bytes([n0, n1])),
        })
    }

    /// Appends a chunk with this cumulative TSN and these streams.
    pub fn write(buffer: &mut Vec<u8>, cumulative: Tsn, streams: impl IntoIterator<Item = Skipped>) {
        let mut chunk = ChunkWriter::open(buffer, Self::KIND, 0);
        chunk.bytes(&cumulative.0.to_be_bytes());
        for Skipped { stream, ssn } in streams {
            let ([s0, s1], [n0, n1]) = (stream.to_be_bytes(), ssn.0.to_be_bytes());
            chunk.bytes(&[s0, s1, n0, n1]);
        }
        chunk.close();
    }

    /// Appends the chunk.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        Self::write(buffer, self.cumulative, self.streams());
    }

    /// Writes the streams with their highest skipped SSN, for example ` sid:ssn=3:7,5:0`. Writes nothing if there are
    /// no streams.
    pub(crate) fn fmt_streams(&self, f: &mut impl fmt::Write) -> fmt::Result {
        for (i, Skipped { stream, ssn }) in self.streams().enumerate() {
            f.write_str(if i == 0 { " sid:ssn=" } else { "," })?;
            write!(f, "{stream}:{ssn}")?;
        }
        Ok(())
    }
}

impl fmt::Display for ForwardTsn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FORWARD TSN cum={}", self.cumulative)?;
        self.fmt_streams(f)
    }
}

/// An entry of an I-FORWARD-TSN: a stream in which messages were skipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SkippedMessage {
    /// The stream.
    pub stream: u16,
    /// Whether the skipped messages are unordered. Unordered messages have a separate numbering.
    pub unordered: bool,
    /// The highest message identifier among the skipped messages.
    pub mid: u32,
}

/// An I-FORWARD-TSN chunk, either received or to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IForwardTsn<'a> {
    /// The new cumulative TSN. The sender does not retransmit data up to this TSN.
    pub cumulative: Tsn,
    /// The streams, each with its highest skipped message identifier, in wire format.
    streams: &'a [[u8; 8]],
}

impl<'a> IForwardTsn<'a> {
    /// Chunk type.
    pub const KIND: u8 = 194;
    /// The size in bytes of an I-FORWARD-TSN chunk that lists no streams, including the chunk header.
    pub const FIXED: usize = 8;
    /// The size in bytes of the entry for one stream in an I-FORWARD-TSN.
    pub const EACH: usize = 8;

    /// Parses an I-FORWARD-TSN chunk.
    ///
    /// # Errors
    /// The value does not consist of a TSN and complete entries.
    pub fn parse(raw: RawChunk<'a>) -> Result<Self, Malformed> {
        let (cumulative, rest) = raw.value.split_first_chunk::<4>().ok_or(raw.malformed())?;
        let (streams, []) = rest.as_chunks::<8>() else { return Err(raw.malformed()) };
        Ok(Self { cumulative: Tsn(u32::from_be_bytes(*cumulative)), streams })
    }

    /// Returns the streams in which messages were skipped, in the order of the chunk.
    pub fn streams(&self) -> impl ExactSizeIterator<Item = SkippedMessage> + Clone + use<'a> {
        self.streams.iter().map(|&[s0, s1, _, flags, m0, m1, m2, m3]| SkippedMessage {
            stream: u16::from_be_bytes([s0, s1]),
            unordered: flags & 1 != 0,
            mid: u32::from_be_bytes([m0, m1, m2, m3]),
        })
    }

    /// Appends a chunk with this cumulative TSN and these streams.
    pub fn write(buffer: &mut Vec<u8>, cumulative: Tsn, streams: impl IntoIterator<Item = SkippedMessage>) {
        let mut chunk = ChunkWriter::open(buffer, Self::KIND, 0);
        chunk.bytes(&cumulative.0.to_be_bytes());
        for SkippedMessage { stream, unordered, mid } in streams {
            let ([s0, s1], [m0, m1, m2, m3]) = (stream.to_be_bytes(), mid.to_be_bytes());
            chunk.bytes(&[s0, s1, 0, u8::from(unordered), m0, m1, m2, m3]);
        }
        chunk.close();
    }

    /// Appends the chunk.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        Self::write(buffer, self.cumulative, self.streams());
    }

    /// Writes the streams with their highest skipped message identifier, for example ` sid:mid=3:7,5:0U`. `U` stands
    /// for unordered messages. Writes nothing if there are no streams.
    pub(crate) fn fmt_streams(&self, f: &mut impl fmt::Write) -> fmt::Result {
        for (i, SkippedMessage { stream, unordered, mid }) in self.streams().enumerate() {
            f.write_str(if i == 0 { " sid:mid=" } else { "," })?;
            write!(f, "{stream}:{mid}{}", if unordered { "U" } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Display for IForwardTsn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "I-FORWARD-TSN cum={}", self.cumulative)?;
        self.fmt_streams(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::Chunk;
    use crate::sctp::chunk::tests::{one, round_trip};

    #[test]
    fn from_capture() {
        let bytes =
            [0xc0, 0x00, 0x00, 0x10, 0x00, 0x00, 0x01, 0x02, 0x00, 0x03, 0x00, 0x07, 0x00, 0x05, 0xff, 0xff];
        let Chunk::ForwardTsn(forward) = one(&bytes) else { panic!("FORWARD TSN") };
        assert_eq!(forward.cumulative, Tsn(0x102));
        let streams: Vec<_> = forward.streams().collect();
        assert_eq!(streams, [Skipped { stream: 3, ssn: Ssn(7) }, Skipped { stream: 5, ssn: Ssn(u16::MAX) }]);
        assert_eq!(forward.to_string(), "FORWARD TSN cum=258 sid:ssn=3:7,5:65535");
        round_trip(Chunk::ForwardTsn(forward));
        round_trip(one(&[0xc0, 0, 0, 8, 0, 0, 0, 1]));
    }

    #[test]
    fn from_capture_interleaved() {
        let bytes = [
            0xc2, 0x00, 0x00, 0x18, 0x00, 0x00, 0x01, 0x02, 0x00, 0x03, 0xff, 0xfe, 0x00, 0x00, 0x00, 0x07,
            0x00, 0x03, 0x00, 0x01, 0x00, 0x01, 0x00, 0x00,
        ];
        let Chunk::IForwardTsn(forward) = one(&bytes) else { panic!("I-FORWARD-TSN") };
        let streams: Vec<_> = forward.streams().collect();
        assert_eq!(
            streams,
            [
                SkippedMessage { stream: 3, unordered: false, mid: 7 },
                SkippedMessage { stream: 3, unordered: true, mid: 0x1_0000 }
            ]
        );
        assert_eq!(forward.to_string(), "I-FORWARD-TSN cum=258 sid:mid=3:7,3:65536U");
        let mut again = Vec::new();
        forward.emit(&mut again);
        let Chunk::IForwardTsn(back) = one(&again) else { panic!("I-FORWARD-TSN") };
        assert!(back.streams().eq(streams), "reserved bits are not looked at and not set");
        round_trip(one(&again));
    }

    #[test]
    fn half_an_entry_is_malformed() {
        for (kind, length) in [(192, 0), (192, 6), (194, 3), (194, 8)] {
            let value = [0; 12];
            let raw = RawChunk { kind, flags: 0, value: &value[..length], bytes: &[] };
            assert_eq!(Chunk::parse(raw), Err(Malformed::Chunk { kind }));
        }
    }
}
