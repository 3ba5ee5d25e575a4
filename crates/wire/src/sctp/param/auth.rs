//! RANDOM (type 0x8002), CHUNKS (0x8003) and HMAC-ALGO (0x8004): the handshake parameters of chunk authentication.
//!
//! Implements RFC 4895 §3.1 to §3.3.

use crate::sctp::cause::hmac_name;
use std::fmt;

pub(super) const RANDOM: u16 = 0x8002;
pub(super) const CHUNKS: u16 = 0x8003;
pub(super) const HMAC_ALGO: u16 = 0x8004;

/// Returns the HMAC identifiers in the value of an HMAC-ALGO parameter.
pub fn hmacs(bytes: &[u8]) -> impl Iterator<Item = u16> + '_ {
    bytes.as_chunks::<2>().0.iter().map(|&pair| u16::from_be_bytes(pair))
}

pub(super) fn fmt_chunks(f: &mut fmt::Formatter<'_>, kinds: &[u8]) -> fmt::Result {
    f.write_str("chunks=")?;
    for (i, kind) in kinds.iter().enumerate() {
        write!(f, "{}{kind}", if i == 0 { "" } else { "," })?;
    }
    Ok(())
}

pub(super) fn fmt_hmacs(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    f.write_str("hmac=")?;
    for (i, hmac) in hmacs(bytes).enumerate() {
        f.write_str(if i == 0 { "" } else { "," })?;
        hmac_name(f, hmac)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::sctp::Param;
    use crate::sctp::param::tests::round_trip;

    #[test]
    fn round_trips() {
        round_trip(Param::Random(&[7; 32]));
        round_trip(Param::ChunkList(&[0, 0xc1, 0x80]));
        round_trip(Param::HmacAlgos(&[0, 3, 0, 1]));
        assert_eq!(Param::HmacAlgos(&[0, 3, 0, 1, 0, 4]).to_string(), "hmac=sha256,sha1,4");
        assert_eq!(Param::ChunkList(&[0, 0xc1]).to_string(), "chunks=0,193");
        assert_eq!(Param::Random(&[7; 32]).to_string(), "random");
        assert_eq!(Param::Random(&[7; 30]).to_string(), "random=30");
    }
}
