//! COOKIE ACK: tells the peer that its cookie was valid and the association is established.
//!
//! ```text
//! +---------------+---------------+-------------------------------+
//! |   type = 11   |     flags     |          length = 4           |
//! +---------------+---------------+-------------------------------+
//! ```
//!
//! Implements RFC 9260 §3.3.12.

use super::{bare, empty};
use crate::sctp::tlv::{Malformed, RawChunk};
use std::fmt;

/// A COOKIE ACK chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CookieAck;

impl CookieAck {
    /// Chunk type.
    pub const KIND: u8 = 11;

    /// Parses a COOKIE ACK chunk.
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

impl fmt::Display for CookieAck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("COOKIE ACK")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::Chunk;
    use crate::sctp::chunk::tests::{one, round_trip};

    #[test]
    fn from_capture() {
        let chunk = one(&[11, 0, 0, 4]);
        assert_eq!(chunk, Chunk::CookieAck(CookieAck));
        round_trip(chunk);
    }
}
