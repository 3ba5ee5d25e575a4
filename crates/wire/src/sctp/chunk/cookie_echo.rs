//! COOKIE ECHO: returns the state cookie to the peer that created it.
//!
//! ```text
//! +---------------+---------------+-------------------------------+
//! |   type = 10   |     flags     |            length             |
//! +---------------+---------------+-------------------------------+
//! |                           cookie …                            |
//! ```
//!
//! Implements RFC 9260 §3.3.11.

use super::bare;
use crate::sctp::tlv::RawChunk;
use std::fmt;

/// A COOKIE ECHO chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CookieEcho<'a> {
    /// The value of the state cookie parameter, unchanged.
    pub cookie: &'a [u8],
}

impl<'a> CookieEcho<'a> {
    /// Chunk type.
    pub const KIND: u8 = 10;

    /// Parses a COOKIE ECHO chunk.
    #[must_use]
    pub fn parse(raw: RawChunk<'a>) -> Self {
        Self { cookie: raw.value }
    }

    /// Appends the chunk. A cookie that was received in a parameter always fits into the chunk.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        bare(buffer, Self::KIND, 0, self.cookie);
    }
}

impl fmt::Display for CookieEcho<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "COOKIE ECHO len={}", self.cookie.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::Chunk;
    use crate::sctp::chunk::tests::{one, round_trip};

    #[test]
    fn from_capture() {
        let chunk = one(&[10, 0, 0, 9, 0x12, 0x34, 0x56, 0x78, 0x9a, 0, 0, 0]);
        assert_eq!(chunk, Chunk::CookieEcho(CookieEcho { cookie: &[0x12, 0x34, 0x56, 0x78, 0x9a] }));
        round_trip(chunk);
    }
}
