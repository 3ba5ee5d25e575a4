//! SHUTDOWN: tells the peer that the sender will send no more data, and acknowledges the data received so far.
//!
//! ```text
//! +---------------+---------------+-------------------------------+
//! |   type = 7    |     flags     |          length = 8           |
//! +---------------+---------------+-------------------------------+
//! |                     cumulative TSN ack                        |
//! ```
//!
//! Implements RFC 9260 §3.3.8.

use super::{bare, word};
use crate::sctp::Tsn;
use crate::sctp::tlv::{Malformed, RawChunk};
use std::fmt;

/// A SHUTDOWN chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shutdown {
    /// The cumulative TSN ack: all TSNs up to this TSN have arrived.
    pub cumulative: Tsn,
}

impl Shutdown {
    /// Chunk type.
    pub const KIND: u8 = 7;

    /// Parses a SHUTDOWN chunk.
    ///
    /// # Errors
    /// The value of the chunk is not a single TSN.
    pub fn parse(raw: RawChunk<'_>) -> Result<Self, Malformed> {
        word(raw).map(|tsn| Self { cumulative: Tsn(tsn) })
    }

    /// Appends the chunk.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        bare(buffer, Self::KIND, 0, &self.cumulative.0.to_be_bytes());
    }
}

impl fmt::Display for Shutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SHUTDOWN cum={}", self.cumulative)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::Chunk;
    use crate::sctp::chunk::tests::{one, round_trip};

    #[test]
    fn from_capture() {
        let chunk = one(&[7, 0, 0, 8, 0x69, 0x4f, 0xbb, 0xd5]);
        assert_eq!(chunk, Chunk::Shutdown(Shutdown { cumulative: Tsn(0x694f_bbd5) }));
        round_trip(chunk);
    }

    #[test]
    fn another_length_is_malformed() {
        for value in [&[][..], &[0; 3], &[0; 5], &[0; 8]] {
            let raw = RawChunk { kind: 7, flags: 0, value, bytes: &[] };
            assert_eq!(Shutdown::parse(raw), Err(Malformed::Chunk { kind: 7 }));
        }
    }
}
