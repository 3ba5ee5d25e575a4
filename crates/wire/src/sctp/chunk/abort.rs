//! ABORT: ends the association at once.
//!
//! ```text
//! +---------------+-------------+-+-------------------------------+
//! |   type = 6    |  reserved   |T|            length             |
//! +---------------+-------------+-+-------------------------------+
//! |                        error causes …                         |
//! ```
//!
//! Implements RFC 9260 §3.3.7.

use crate::sctp::cause::Causes;
use crate::sctp::tlv::{ChunkWriter, RawChunk};
use std::fmt;

/// An ABORT chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Abort<'a> {
    /// The T bit: the sender had no tag for the receiver, and copied the verification tag of the packet that caused the
    /// ABORT (RFC 9260 §8.5.1 B).
    pub reflected: bool,
    /// The reasons for the ABORT, if any were given.
    pub causes: Causes<'a>,
}

impl<'a> Abort<'a> {
    /// Chunk type.
    pub const KIND: u8 = 6;

    /// Parses an ABORT chunk. Its error causes are checked only during iteration, because an ABORT with malformed
    /// causes is still an ABORT.
    #[must_use]
    pub fn parse(raw: RawChunk<'a>) -> Self {
        Self { reflected: raw.flags & 1 != 0, causes: Causes::new(raw.value) }
    }

    /// Begins an ABORT chunk in `buffer` with the causes of `self`. The caller appends more causes
    /// ([`Cause::emit`](crate::sctp::Cause::emit)) and closes the chunk.
    pub fn open<'b>(&self, buffer: &'b mut Vec<u8>) -> ChunkWriter<'b> {
        let mut chunk = ChunkWriter::open(buffer, Self::KIND, u8::from(self.reflected));
        chunk.bytes(self.causes.rest());
        chunk
    }

    /// Appends the whole chunk to `buffer`.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        self.open(buffer).close();
    }
}

impl fmt::Display for Abort<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.reflected { "ABORT T" } else { "ABORT" })?;
        self.causes.fmt_list(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::chunk::tests::{one, round_trip};
    use crate::sctp::{Cause, Chunk};

    /// An ABORT by the user, with the T bit and a reason of four letters, is parsed and can be written again.
    #[test]
    fn from_capture() {
        let bytes = [6, 1, 0, 12, 0, 12, 0, 8, b'g', b'o', b'n', b'e'];
        let Chunk::Abort(abort) = one(&bytes) else { panic!("ABORT") };
        assert!(abort.reflected);
        assert_eq!(abort.causes.collect::<Vec<_>>(), [Ok(Cause::UserAbort(b"gone"))]);
        assert_eq!(abort.to_string(), "ABORT T user-abort(gone)");
        round_trip(Chunk::Abort(abort));
    }

    #[test]
    fn round_trips_with_no_cause_and_with_two() {
        round_trip(Chunk::Abort(Abort::default()));
        let mut buffer = Vec::new();
        let mut chunk = Abort::default().open(&mut buffer);
        assert!(Cause::ProtocolViolation(b"x").emit(&mut chunk));
        assert!(Cause::OutOfResource.emit(&mut chunk));
        chunk.close();
        let Chunk::Abort(abort) = one(&buffer) else { panic!("ABORT") };
        let causes: Vec<_> = abort.causes.collect();
        assert_eq!(causes, [Ok(Cause::ProtocolViolation(b"x")), Ok(Cause::OutOfResource)]);
    }
}
