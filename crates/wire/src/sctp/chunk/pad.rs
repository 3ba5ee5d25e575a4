//! PAD: padding bytes that extend a packet to a wanted size.
//!
//! ```text
//! +---------------+---------------+-------------------------------+
//! |  type = 0x84  |   flags = 0   |            length             |
//! +---------------+---------------+-------------------------------+
//! |                   padding data, ignored …                     |
//! ```
//!
//! Implements RFC 4820 §3.

use super::bare;
use crate::sctp::tlv::{ChunkWriter, RawChunk};
use std::fmt;

/// A PAD chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pad<'a> {
    /// The padding bytes, which the receiver ignores.
    pub filling: &'a [u8],
}

impl<'a> Pad<'a> {
    /// Chunk type. A receiver that does not know this type skips the chunk without a report.
    pub const KIND: u8 = 0x84;
    /// The size in bytes of a PAD chunk without padding bytes.
    pub const HEADER: usize = 4;

    /// Parses a PAD chunk.
    #[must_use]
    pub fn parse(raw: RawChunk<'a>) -> Self {
        Self { filling: raw.value }
    }

    /// Appends the chunk.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        bare(buffer, Self::KIND, 0, self.filling);
    }

    /// Appends a PAD chunk that is filled with zeros. Its total size, including the header, is `length` bytes, which
    /// must be at least [`HEADER`](Self::HEADER).
    pub fn emit_zeros(length: usize, buffer: &mut Vec<u8>) {
        const ZEROS: [u8; 256] = [0; 256];
        let mut chunk = ChunkWriter::open(buffer, Self::KIND, 0);
        let mut left = length.saturating_sub(Self::HEADER);
        while left > 0 {
            let some = left.min(ZEROS.len());
            chunk.bytes(&ZEROS[..some]);
            left -= some;
        }
        chunk.close();
    }
}

impl fmt::Display for Pad<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PAD len={}", self.filling.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::Chunk;
    use crate::sctp::chunk::tests::{one, round_trip};

    #[test]
    fn from_capture() {
        let bytes = [0x84, 0, 0, 9, 1, 2, 3, 4, 5, 0, 0, 0];
        let chunk = one(&bytes);
        assert_eq!(chunk, Chunk::Pad(Pad { filling: &[1, 2, 3, 4, 5] }));
        round_trip(chunk);
    }

    #[test]
    fn zeros_of_any_length() {
        for length in [4, 8, 260, 264, 1_460] {
            let mut buffer = Vec::new();
            Pad::emit_zeros(length, &mut buffer);
            assert_eq!(buffer.len(), length);
            assert_eq!(one(&buffer).to_string(), format!("PAD len={}", length - 4));
        }
    }
}
