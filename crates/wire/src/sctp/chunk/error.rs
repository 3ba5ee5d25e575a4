//! ERROR: reports an error that does not end the association.
//!
//! ```text
//! +---------------+---------------+-------------------------------+
//! |   type = 9    |     flags     |            length             |
//! +---------------+---------------+-------------------------------+
//! |                        error causes …                         |
//! ```
//!
//! Implements RFC 9260 §3.3.10, except the causes, which are in [`cause`](crate::sctp::cause).

use crate::sctp::cause::Causes;
use crate::sctp::tlv::{ChunkWriter, RawChunk};
use std::fmt;

/// An ERROR chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Error<'a> {
    /// The reasons for the ERROR; there is at least one.
    pub causes: Causes<'a>,
}

impl<'a> Error<'a> {
    /// Chunk type.
    pub const KIND: u8 = 9;

    /// Parses an ERROR chunk. Its error causes are checked only during iteration.
    #[must_use]
    pub fn parse(raw: RawChunk<'a>) -> Self {
        Self { causes: Causes::new(raw.value) }
    }

    /// Begins an ERROR chunk in `buffer` with the causes of `self`. The caller appends more causes
    /// ([`Cause::emit`](crate::sctp::Cause::emit)) and closes the chunk.
    pub fn open<'b>(&self, buffer: &'b mut Vec<u8>) -> ChunkWriter<'b> {
        let mut chunk = ChunkWriter::open(buffer, Self::KIND, 0);
        chunk.bytes(self.causes.rest());
        chunk
    }

    /// Appends the whole chunk to `buffer`.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        self.open(buffer).close();
    }
}

impl fmt::Display for Error<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ERROR")?;
        self.causes.fmt_list(f)
    }
}

#[cfg(test)]
mod tests {
    use crate::sctp::chunk::tests::{one, round_trip};
    use crate::sctp::{Cause, Chunk};

    /// An ERROR with the cause "invalid stream", for stream 32,769, is parsed and can be written again.
    #[test]
    fn from_capture() {
        let bytes = [9, 0, 0, 12, 0, 1, 0, 8, 0x80, 0x01, 0, 0];
        let Chunk::Error(error) = one(&bytes) else { panic!("ERROR") };
        assert_eq!(error.causes.collect::<Vec<_>>(), [Ok(Cause::InvalidStream(32_769))]);
        assert_eq!(error.to_string(), "ERROR invalid-stream(32769)");
        round_trip(Chunk::Error(error));
    }
}
