//! HEARTBEAT and HEARTBEAT ACK: check whether a path works, and measure its round-trip time.
//!
//! ```text
//! +---------------+---------------+-------------------------------+
//! | type = 4 or 5 |     flags     |            length             |
//! +---------------+---------------+-------------------------------+
//! |    parameter type = 1         |        parameter length       |
//! +-------------------------------+-------------------------------+
//! |                    heartbeat information …                    |
//! ```
//!
//! Implements RFC 9260 §3.3.5 and §3.3.6.

use crate::sctp::param::heartbeat_info;
use crate::sctp::tlv::{ChunkWriter, Malformed, RawChunk, Tlvs, padded};
use std::fmt;

/// A HEARTBEAT chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heartbeat<'a> {
    /// The heartbeat information, which is opaque to the receiver. The receiver returns it unchanged.
    pub info: &'a [u8],
    /// Further parameters of the chunk. The receiver also returns these parameters unchanged.
    pub rest: &'a [u8],
}

/// A HEARTBEAT ACK chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeartbeatAck<'a> {
    /// The heartbeat information of the HEARTBEAT that the chunk answers.
    pub info: &'a [u8],
    /// The parameters that followed the heartbeat information in the HEARTBEAT that the chunk answers.
    pub rest: &'a [u8],
}

fn read(raw: RawChunk<'_>) -> Result<(&[u8], &[u8]), Malformed> {
    match Tlvs::new(raw.value).next() {
        Some(Ok(tlv)) if tlv.kind == heartbeat_info::KIND => {
            Ok((tlv.value, raw.value.get(padded(tlv.bytes.len())..).unwrap_or(&[])))
        }
        _ => Err(raw.malformed()),
    }
}

fn emit(buffer: &mut Vec<u8>, kind: u8, info: &[u8], rest: &[u8]) {
    let mut chunk = ChunkWriter::open(buffer, kind, 0);
    chunk.tlv(heartbeat_info::KIND, &[info]);
    if !rest.is_empty() {
        let length = chunk.length();
        chunk.bytes(&[0; 3][..padded(length) - length]);
        chunk.bytes(rest);
    }
    chunk.close();
}

impl<'a> Heartbeat<'a> {
    /// Chunk type.
    pub const KIND: u8 = 4;

    /// Parses a HEARTBEAT chunk.
    ///
    /// # Errors
    /// The value does not begin with a heartbeat information parameter.
    pub fn parse(raw: RawChunk<'a>) -> Result<Self, Malformed> {
        read(raw).map(|(info, rest)| Self { info, rest })
    }

    /// Appends the chunk.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        emit(buffer, Self::KIND, self.info, self.rest);
    }
}

impl<'a> HeartbeatAck<'a> {
    /// Chunk type.
    pub const KIND: u8 = 5;

    /// Parses a HEARTBEAT ACK chunk.
    ///
    /// # Errors
    /// The value does not begin with a heartbeat information parameter.
    pub fn parse(raw: RawChunk<'a>) -> Result<Self, Malformed> {
        read(raw).map(|(info, rest)| Self { info, rest })
    }

    /// Appends the chunk.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        emit(buffer, Self::KIND, self.info, self.rest);
    }
}

impl fmt::Display for Heartbeat<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HEARTBEAT info={}", self.info.len())
    }
}

impl fmt::Display for HeartbeatAck<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HEARTBEAT ACK info={}", self.info.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::Chunk;
    use crate::sctp::chunk::tests::{one, round_trip};

    #[test]
    fn from_capture() {
        let bytes = [4, 0, 0, 0x0e, 0, 1, 0, 0x0a, 1, 2, 3, 4, 5, 6, 0, 0];
        assert_eq!(one(&bytes), Chunk::Heartbeat(Heartbeat { info: &[1, 2, 3, 4, 5, 6], rest: &[] }));
    }

    #[test]
    fn round_trips() {
        for len in 0..9 {
            let info = [7; 9];
            for rest in [&[][..], &[0x80, 1, 0, 5, 9]] {
                round_trip(Chunk::Heartbeat(Heartbeat { info: &info[..len], rest }));
                round_trip(Chunk::HeartbeatAck(HeartbeatAck { info: &info[..len], rest }));
            }
        }
    }

    #[test]
    fn one_without_information_is_malformed() {
        for value in [&[][..], &[0, 2, 0, 4], &[0, 1, 0, 9, 0]] {
            let raw = RawChunk { kind: 4, flags: 0, value, bytes: &[] };
            assert_eq!(Heartbeat::parse(raw), Err(Malformed::Chunk { kind: 4 }));
        }
    }
}
