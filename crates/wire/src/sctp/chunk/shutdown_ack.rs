//! SHUTDOWN ACK: tells the peer that its SHUTDOWN arrived, and that all data has been sent and acknowledged.
//!
//! ```text
//! +---------------+---------------+-------------------------------+
//! |   type = 8    |     flags     |          length = 4           |
//! +---------------+---------------+-------------------------------+
//! ```
//!
//! Implements RFC 9260 §3.3.9.

use super::{bare, empty};
use crate::sctp::tlv::{Malformed, RawChunk};
use std::fmt;

/// A SHUTDOWN ACK chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShutdownAck;

impl ShutdownAck {
    /// Chunk type.
    pub const KIND: u8 = 8;

    /// Parses a SHUTDOWN ACK chunk.
    ///
    /// # Errors
    /// The chunk has a value, although it must be empty.
    pub fn parse(raw: RawChunk<'_>) -> Result<Self, Malformed> {
        empty(raw).map(|()| Self)
    }

    /// Appends the chunk.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        bare(buffer, Self::KIND, 0, &[]);
    }
}

impl fmt::Display for ShutdownAck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SHUTDOWN ACK")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::Chunk;
    use crate::sctp::chunk::tests::{one, round_trip};

    #[test]
    fn from_capture() {
        let chunk = one(&[8, 0, 0, 4]);
        assert_eq!(chunk, Chunk::ShutdownAck(ShutdownAck));
        round_trip(chunk);
    }
}
