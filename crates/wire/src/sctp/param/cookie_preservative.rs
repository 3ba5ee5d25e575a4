//! Cookie preservative (type 9): asks the peer for a longer lifetime of the next cookie.
//!
//! Implements RFC 9260 §3.3.2.1.3.

pub(super) const KIND: u16 = 9;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::Param;
    use crate::sctp::param::tests::round_trip;
    use crate::sctp::tlv::RawTlv;

    #[test]
    fn round_trips() {
        round_trip(Param::CookiePreservative(60_000));
    }

    #[test]
    fn another_length_is_malformed() {
        assert!(Param::parse(RawTlv { kind: KIND, value: &[0; 3], bytes: &[] }).is_err());
    }
}
