//! Supported address types (type 12): says whether the sender can use IPv4, IPv6 or both.
//!
//! Implements RFC 9260 §3.3.2.1.5.

use super::address::{IPV4, IPV6};
use crate::sctp::tlv::{Malformed, RawTlv};
use std::fmt;

pub(super) const KIND: u16 = 12;

/// A list of address parameter types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddressTypes<'a> {
    bytes: &'a [u8],
}

impl<'a> AddressTypes<'a> {
    /// IPv4 only.
    pub const V4: Self = Self { bytes: &[0, IPV4 as u8] };
    /// IPv6 only.
    pub const V6: Self = Self { bytes: &[0, IPV6 as u8] };
    /// IPv4 and IPv6.
    pub const BOTH: Self = Self { bytes: &[0, IPV4 as u8, 0, IPV6 as u8] };

    pub(super) fn parse(raw: RawTlv<'a>) -> Result<Self, Malformed> {
        if raw.value.len().is_multiple_of(2) { Ok(Self { bytes: raw.value }) } else { Err(raw.malformed()) }
    }

    pub(super) const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the address types in the order of the parameter.
    pub fn kinds(&self) -> impl Iterator<Item = u16> + use<'a> {
        self.bytes.as_chunks::<2>().0.iter().map(|&pair| u16::from_be_bytes(pair))
    }

    /// Returns whether IPv4 is among the types.
    #[must_use]
    pub fn has_v4(&self) -> bool {
        self.kinds().any(|kind| kind == IPV4)
    }

    /// Returns whether IPv6 is among the types.
    #[must_use]
    pub fn has_v6(&self) -> bool {
        self.kinds().any(|kind| kind == IPV6)
    }
}

impl fmt::Display for AddressTypes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, kind) in self.kinds().enumerate() {
            f.write_str(if i == 0 { "" } else { "," })?;
            match kind {
                IPV4 => f.write_str("v4")?,
                IPV6 => f.write_str("v6")?,
                _ => write!(f, "{kind}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::Param;
    use crate::sctp::param::tests::round_trip;

    #[test]
    fn round_trips_and_answers() {
        for types in [AddressTypes::V4, AddressTypes::V6, AddressTypes::BOTH] {
            round_trip(Param::SupportedAddresses(types));
        }
        assert!(AddressTypes::V4.has_v4() && !AddressTypes::V4.has_v6());
        assert_eq!(Param::SupportedAddresses(AddressTypes::BOTH).to_string(), "families=v4,v6");
    }

    #[test]
    fn half_a_type_is_malformed() {
        assert!(AddressTypes::parse(RawTlv { kind: KIND, value: &[0, 5, 0], bytes: &[] }).is_err());
    }
}
