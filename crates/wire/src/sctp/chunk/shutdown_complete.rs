//! SHUTDOWN COMPLETE: tells the peer that the graceful shutdown has finished.
//!
//! ```text
//! +---------------+-------------+-+-------------------------------+
//! |   type = 14   |  reserved   |T|          length = 4           |
//! +---------------+-------------+-+-------------------------------+
//! ```
//!
//! Implements RFC 9260 §3.3.13.

use super::{bare, empty};
use crate::sctp::tlv::{Malformed, RawChunk};
use std::fmt;

/// A SHUTDOWN COMPLETE chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ShutdownComplete {
    /// The T bit: the sender had no tag for the receiver, and copied the verification tag of the SHUTDOWN ACK (RFC 9260
    /// §8.5.1 C).
    pub reflected: bool,
}

impl ShutdownComplete {
    /// Chunk type.
    pub const KIND: u8 = 14;

    /// Parses a SHUTDOWN COMPLETE chunk.
    ///
    /// # Errors
    /// The chunk has a value, although it must be empty.
    pub fn parse(raw: RawChunk<'_>) -> Result<Self, Malformed> {
        empty(raw).map(|()| Self { reflected: raw.flags & 1 != 0 })
    }

    /// Appends the chunk.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        bare(buffer, Self::KIND, u8::from(self.reflected), &[]);
    }
}

impl fmt::Display for ShutdownComplete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.reflected { "SHUTDOWN COMPLETE T" } else { "SHUTDOWN COMPLETE" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::Chunk;
    use crate::sctp::chunk::tests::{one, round_trip};

    #[test]
    fn from_capture() {
        for reflected in [false, true] {
            let bytes = [14, u8::from(reflected), 0, 4];
            let chunk = one(&bytes);
            assert_eq!(chunk, Chunk::ShutdownComplete(ShutdownComplete { reflected }));
            round_trip(chunk);
        }
    }
}
