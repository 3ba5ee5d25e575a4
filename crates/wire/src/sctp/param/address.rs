//! IPv4 (type 5) and IPv6 (type 6) address parameters: further addresses of the sender.
//!
//! Implements RFC 9260 §3.3.2.1.1 and §3.3.2.1.2.

use crate::sctp::tlv::{Malformed, RawTlv};
use std::net::{Ipv4Addr, Ipv6Addr};

pub(super) const IPV4: u16 = 5;
pub(super) const IPV6: u16 = 6;

pub(super) fn v4(raw: RawTlv<'_>) -> Result<Ipv4Addr, Malformed> {
    <[u8; 4]>::try_from(raw.value).map(Ipv4Addr::from).map_err(|_| raw.malformed())
}

pub(super) fn v6(raw: RawTlv<'_>) -> Result<Ipv6Addr, Malformed> {
    <[u8; 16]>::try_from(raw.value).map(Ipv6Addr::from).map_err(|_| raw.malformed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::Param;
    use crate::sctp::param::tests::round_trip;

    #[test]
    fn round_trips() {
        round_trip(Param::Ipv4(Ipv4Addr::new(10, 0, 0, 1)));
        round_trip(Param::Ipv6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1)));
    }

    #[test]
    fn another_length_is_malformed() {
        let raw = |kind, value| RawTlv { kind, value, bytes: &[] };
        assert!(v4(raw(IPV4, &[0; 5])).is_err() && v4(raw(IPV4, &[0; 3])).is_err());
        assert!(v6(raw(IPV6, &[0; 15])).is_err() && v6(raw(IPV6, &[0; 4])).is_err());
    }
}
