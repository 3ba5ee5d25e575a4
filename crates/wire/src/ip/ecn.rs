//! The two ECN bits, and their position in IPv4 and IPv6 headers.
//!
//! Implements RFC 3168 §5 and §23.1 (the octet that ECN shares with the DSCP).

use super::{v4, v6};
use anabranch_base::Ecn;

/// Returns the ECN bits of the IP packet at the start of `bytes`. Returns not-ECT if there is no IP packet.
#[must_use]
#[inline]
pub fn read(bytes: &[u8]) -> Ecn {
    match bytes {
        [first, second, ..] if first >> 4 == 4 => Ecn::from_bits(*second),
        [first, second, ..] if first >> 4 == 6 => Ecn::from_bits(second >> 4),
        _ => Ecn::NotEct,
    }
}

/// Sets the ECN bits of the IP packet at the start of `bytes` and updates the IPv4 header checksum. Does nothing if
/// there is no IP packet.
pub fn write(bytes: &mut [u8], ecn: Ecn) {
    match bytes.first().map(|byte| byte >> 4) {
        Some(4) if bytes.len() >= v4::HEADER_LEN => {
            bytes[1] = bytes[1] & !0b11 | ecn as u8;
            v4::refresh_checksum(bytes);
        }
        Some(6) if bytes.len() >= v6::HEADER_LEN => bytes[1] = bytes[1] & !0x30 | (ecn as u8) << 4,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::Packet;
    use std::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn marks_are_written_and_read_in_both_versions() {
        let mut v4_packet = [0; 20];
        v4::Header::new(Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST, 6, 0).emit(&mut v4_packet);
        let mut v6_packet = [0; 40];
        v6::Header::new(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, 6, 0).emit(&mut v6_packet);
        for ecn in [Ecn::Ect0, Ecn::Ce, Ecn::Ect1, Ecn::NotEct] {
            write(&mut v4_packet, ecn);
            write(&mut v6_packet, ecn);
            for packet in [&v4_packet[..], &v6_packet[..]] {
                assert_eq!(read(packet), ecn);
                assert_eq!(Packet::parse(packet).map(|view| view.ecn), Ok(ecn));
            }
        }
    }
}
