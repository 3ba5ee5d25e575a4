//! AUTH: authenticates the chunks that follow in the same packet.
//!
//! ```text
//! +---------------+---------------+-------------------------------+
//! |   type = 15   |     flags     |            length             |
//! +---------------+---------------+-------------------------------+
//! |     shared key identifier     |        HMAC identifier        |
//! +-------------------------------+-------------------------------+
//! |                            HMAC …                             |
//! ```
//!
//! Implements RFC 4895 §5.1.

use crate::sctp::cause::hmac_name;
use crate::sctp::tlv::{ChunkWriter, Malformed, RawChunk};
use std::fmt;

/// An AUTH chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Auth<'a> {
    /// The identifier of the endpoint pair shared key that was used.
    pub key: u16,
    /// The HMAC identifier: 1 is SHA-1, 3 is SHA-256.
    pub hmac: u16,
    /// The HMAC over this chunk, with zeros in the HMAC field, and over all chunks after it.
    pub mac: &'a [u8],
}

impl<'a> Auth<'a> {
    /// Chunk type.
    pub const KIND: u8 = 15;
    /// The length of the chunk in bytes, without the HMAC.
    pub const HEADER: usize = 8;

    /// Parses an AUTH chunk.
    ///
    /// # Errors
    /// The chunk is too short for the two identifiers.
    pub fn parse(raw: RawChunk<'a>) -> Result<Self, Malformed> {
        let Some((&[k0, k1, h0, h1], mac)) = raw.value.split_first_chunk::<4>() else {
            return Err(raw.malformed());
        };
        Ok(Self { key: u16::from_be_bytes([k0, k1]), hmac: u16::from_be_bytes([h0, h1]), mac })
    }

    /// Appends the chunk.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        let mut chunk = ChunkWriter::open(buffer, Self::KIND, 0);
        chunk.bytes(&self.key.to_be_bytes());
        chunk.bytes(&self.hmac.to_be_bytes());
        chunk.bytes(self.mac);
        chunk.close();
    }
}

impl fmt::Display for Auth<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AUTH key={} hmac=", self.key)?;
        hmac_name(f, self.hmac)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::Chunk;
    use crate::sctp::chunk::tests::{one, round_trip};

    #[test]
    fn from_capture() {
        let mut bytes = vec![15, 0, 0, 28, 0, 2, 0, 1];
        bytes.extend_from_slice(&[0xab; 20]);
        let chunk = one(&bytes);
        assert_eq!(chunk, Chunk::Auth(Auth { key: 2, hmac: 1, mac: &[0xab; 20] }));
        assert_eq!(chunk.to_string(), "AUTH key=2 hmac=sha1");
        round_trip(chunk);
        round_trip(Chunk::Auth(Auth { key: 0, hmac: 9, mac: &[] }));
    }

    #[test]
    fn one_without_identifiers_is_malformed() {
        let raw = RawChunk { kind: 15, flags: 0, value: &[0, 0, 0], bytes: &[] };
        assert_eq!(Auth::parse(raw), Err(Malformed::Chunk { kind: 15 }));
    }
}
