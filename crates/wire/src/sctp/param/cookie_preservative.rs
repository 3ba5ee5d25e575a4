//! Cookie preservative (type 9): asks the peer for a longer lifetime of the next cookie.
//!
//! Home of RFC 9260 §3.3.2.1.3.

use crate::sctp::tlv::{Malformed, RawTlv};

pub(super) const KIND: u16 = 9;

/// Returns the suggested increase of the cookie lifetime in milliseconds.
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
        round_trip(Param::CookiePreservative(60_000));
    }

    #[test]
    fn another_length_is_malformed() {
        assert!(parse(RawTlv { kind: KIND, value: &[0; 3], bytes: &[] }).is_err());
    }
}
