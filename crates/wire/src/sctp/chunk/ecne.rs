//! ECNE: tells the peer that a packet arrived with a CE mark.
//!
//! ```text
//! +---------------+---------------+-------------------------------+
//! |   type = 12   |     flags     |          length = 8           |
//! +---------------+---------------+-------------------------------+
//! |                          lowest TSN                           |
//! ```
//!
//! RFC 9260 only reserves the chunk type. The format is that of RFC 4960 Appendix A.

use super::{bare, word};
use crate::sctp::Tsn;
use crate::sctp::tlv::{Malformed, RawChunk};
use std::fmt;

/// An ECNE (ECN echo) chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ecne {
    /// The lowest TSN in the packet with the CE mark.
    pub tsn: Tsn,
}

impl Ecne {
    /// Chunk type.
    pub const KIND: u8 = 12;

    /// Parses an ECNE chunk.
    ///
    /// # Errors
    /// The value of the chunk is not a single TSN.
    pub fn parse(raw: RawChunk<'_>) -> Result<Self, Malformed> {
        word(raw).map(|tsn| Self { tsn: Tsn(tsn) })
    }

    /// Appends the chunk.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        bare(buffer, Self::KIND, 0, &self.tsn.0.to_be_bytes());
    }
}

impl fmt::Display for Ecne {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ECNE tsn={}", self.tsn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::Chunk;
    use crate::sctp::chunk::tests::{one, round_trip};

    #[test]
    fn from_capture() {
        let chunk = one(&[12, 0, 0, 8, 0, 0, 1, 2]);
        assert_eq!(chunk, Chunk::Ecne(Ecne { tsn: Tsn(0x102) }));
        round_trip(chunk);
    }
}
