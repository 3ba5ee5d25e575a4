//! Zero checksum acceptable (type 0x8001): the sender accepts packets with a zero checksum, because another method
//! detects errors. The value identifies that method.
//!
//! Home of RFC 9653 §4.

use crate::sctp::tlv::{Malformed, RawTlv};

pub(super) const KIND: u16 = 0x8001;

/// Returns the Error Detection Method Identifier.
pub(super) fn parse(raw: RawTlv<'_>) -> Result<u32, Malformed> {
    <[u8; 4]>::try_from(raw.value).map(u32::from_be_bytes).map_err(|_| raw.malformed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::Param;
    use crate::sctp::param::tests::round_trip;

    #[test]
    fn round_trips() {
        round_trip(Param::ZeroChecksum(1));
        assert_eq!(Param::ZeroChecksum(1).to_string(), "zero-checksum=1");
    }

    #[test]
    fn another_length_is_malformed() {
        assert!(parse(RawTlv { kind: KIND, value: &[0; 5], bytes: &[] }).is_err());
    }
}
