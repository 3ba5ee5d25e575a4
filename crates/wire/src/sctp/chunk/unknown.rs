//! A chunk of an unknown type. `Chunk` has a variant for unknown chunks, so that code that reports chunks needs no
//! special case for them.
//!
//! RFC 9260 §3.2: the rule for unknown types is in [`UnrecognizedAction::chunk`].

use super::bare;
use crate::sctp::tlv::{RawChunk, UnrecognizedAction};
use std::fmt;

/// A chunk of an unknown type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownChunk<'a> {
    /// The chunk, unparsed.
    pub raw: RawChunk<'a>,
}

impl UnknownChunk<'_> {
    /// Returns the action that the type of this unknown chunk requires.
    #[must_use]
    pub const fn action(&self) -> UnrecognizedAction {
        UnrecognizedAction::chunk(self.raw.kind)
    }

    /// Appends the chunk.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        bare(buffer, self.raw.kind, self.raw.flags, self.raw.value);
    }
}

impl fmt::Display for UnknownChunk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CHUNK {} flags={:02x} len={}", self.raw.kind, self.raw.flags, self.raw.value.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::Chunk;
    use crate::sctp::chunk::tests::{one, round_trip};

    #[test]
    fn round_trips_and_knows_its_rule() {
        let chunk = one(&[0xc3, 9, 0, 6, 1, 2, 0, 0]);
        let Chunk::Unknown(unknown) = chunk else { panic!("unknown") };
        assert_eq!(unknown.action(), UnrecognizedAction { stop: false, report: true });
        assert_eq!(unknown.raw.bytes, [0xc3, 9, 0, 6, 1, 2]);
        round_trip(chunk);
    }
}
