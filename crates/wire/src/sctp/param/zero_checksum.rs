//! Zero checksum acceptable (type 0x8001): the sender accepts packets with a zero checksum, because another method
//! detects errors. The value identifies that method.
//!
//! Implements RFC 9653 §4.

pub(super) const KIND: u16 = 0x8001;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::Param;
    use crate::sctp::param::tests::round_trip;
    use crate::sctp::tlv::RawTlv;

    #[test]
    fn round_trips() {
        round_trip(Param::ZeroChecksum(1));
        assert_eq!(Param::ZeroChecksum(1).to_string(), "zero-checksum=1");
    }

    #[test]
    fn another_length_is_malformed() {
        assert!(Param::parse(RawTlv { kind: KIND, value: &[0; 5], bytes: &[] }).is_err());
    }
}
