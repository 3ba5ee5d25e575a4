//! Requests of an ASCONF (add 0xC001, delete 0xC002, set primary 0xC004), responses of an ASCONF ACK (error causes
//! 0xC003, success 0xC005), and the adaptation layer indication (0xC006).
//!
//! ```text
//! +-------------------------------+-------------------------------+
//! |            type               |            length             |
//! +-------------------------------+-------------------------------+
//! |                        correlation id                         |
//! +---------------------------------------------------------------+
//! |              address parameter or error causes …              |
//! ```
//!
//! Implements RFC 5061 §4.2.1 to §4.2.6.

use super::{Param, address};
use crate::sctp::tlv::{ChunkWriter, Malformed, RawTlv, Tlvs};
use std::net::IpAddr;

pub(super) const ADD: u16 = 0xc001;
pub(super) const DELETE: u16 = 0xc002;
pub(super) const ERROR: u16 = 0xc003;
pub(super) const SET_PRIMARY: u16 = 0xc004;
pub(super) const SUCCESS: u16 = 0xc005;
pub(super) const ADAPTATION: u16 = 0xc006;

/// Reads the correlation id of a parameter. Returns the id and the bytes after it.
pub(super) fn correlated(raw: RawTlv<'_>) -> Result<(u32, &[u8]), Malformed> {
    let (&id, rest) = raw.value.split_first_chunk::<4>().ok_or(raw.malformed())?;
    Ok((u32::from_be_bytes(id), rest))
}

/// Reads a correlation id and the address parameter after it.
pub(super) fn with_address(raw: RawTlv<'_>) -> Result<(u32, IpAddr), Malformed> {
    let (id, rest) = correlated(raw)?;
    let Some(Ok(inner)) = Tlvs::new(rest).next() else {
        return Err(raw.malformed());
    };
    let address = match inner.kind {
        address::IPV4 => address::v4(inner)?.into(),
        address::IPV6 => address::v6(inner)?.into(),
        _ => return Err(raw.malformed()),
    };
    Ok((id, address))
}

pub(super) fn emit_address(chunk: &mut ChunkWriter<'_>, kind: u16, id: u32, address: IpAddr) -> bool {
    let id = id.to_be_bytes();
    match address {
        IpAddr::V4(v4) => chunk.tlv(kind, &[&id, &[0, address::IPV4 as u8, 0, 8], &v4.octets()]),
        IpAddr::V6(v6) => chunk.tlv(kind, &[&id, &[0, address::IPV6 as u8, 0, 20], &v6.octets()]),
    }
}

impl Param<'_> {
    /// Returns the correlation id, if the parameter is a request or a response.
    #[must_use]
    pub fn correlation(&self) -> Option<u32> {
        match *self {
            Self::AddAddress { id, .. }
            | Self::DeleteAddress { id, .. }
            | Self::SetPrimary { id, .. }
            | Self::ErrorCauseIndication { id, .. }
            | Self::SuccessIndication(id) => Some(id),
            Self::Unknown(raw) => correlated(raw).ok().map(|(id, _)| id),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::param::tests::round_trip;
    use std::net::Ipv6Addr;

    #[test]
    fn round_trips() {
        for address in [IpAddr::from([10, 0, 0, 9]), Ipv6Addr::LOCALHOST.into(), [0, 0, 0, 0].into()] {
            round_trip(Param::AddAddress { id: 1, address });
            round_trip(Param::DeleteAddress { id: u32::MAX, address });
            round_trip(Param::SetPrimary { id: 0, address });
        }
        round_trip(Param::ErrorCauseIndication { id: 9, causes: &[0, 0xa0, 0, 4] });
        round_trip(Param::SuccessIndication(3));
        round_trip(Param::Adaptation(0x3f01));
        assert_eq!(
            Param::ErrorCauseIndication { id: 9, causes: &[0, 0xa1, 0, 4] }.to_string(),
            "failed=no-room-for-address"
        );
    }

    #[test]
    fn one_without_an_address_is_malformed() {
        for value in
            [&[][..], &[0, 0, 0], &[0, 0, 0, 1], &[0, 0, 0, 1, 0, 11, 0, 4], &[0, 0, 0, 1, 0, 5, 0, 7, 1]]
        {
            let raw = RawTlv { kind: ADD, value, bytes: &[] };
            assert_eq!(Param::parse(raw), Err(Malformed::Tlv { kind: ADD }));
        }
    }
}
