//! ICMP errors: destination unreachable, packet too big and unrecognized next header, for IPv4 and IPv6.
//!
//! ```text
//!  0               1               2               3
//! |      type     |      code     |            checksum           |
//! | unused; v4: next-hop MTU in the low half; v6: MTU or pointer  |
//! |        as much of the packet as fits, from its IP header      |
//! ```
//!
//! Implements RFC 792 (type 3), RFC 1191 §4 (next-hop MTU), and RFC 4443 §3.1, §3.2 and §3.4 (code 1). ICMP messages of
//! other types cause [`IcmpError::Other`].

use crate::checksum::{Checksum, internet_checksum};
use crate::ip::{Packet, protocol, v4, v6};
use anabranch_base::{Icmp, IcmpKind};
use std::net::IpAddr;

/// Codes of ICMPv4 destination unreachable (RFC 792).
pub mod code_v4 {
    /// No route to the network.
    pub const NETWORK: u8 = 0;
    /// The host does not support the transport protocol.
    pub const PROTOCOL: u8 = 2;
    /// No program listens on the port.
    pub const PORT: u8 = 3;
    /// The packet needs fragmentation, but has Don't Fragment set.
    pub const TOO_BIG: u8 = 4;
}

/// Codes of ICMPv6 destination unreachable (RFC 4443 §3.1).
pub mod code_v6 {
    /// No route to the destination.
    pub const NO_ROUTE: u8 = 0;
    /// No program listens on the port.
    pub const PORT: u8 = 4;
}

/// The length in bytes of the ICMP header, which precedes the quoted packet.
pub const HEADER_LEN: usize = 8;

const UNREACHABLE_V4: u8 = 3;
const UNREACHABLE_V6: u8 = 1;
const TOO_BIG_V6: u8 = 2;
const PARAMETER_PROBLEM_V6: u8 = 4;
/// RFC 4443 §3.4: the code for an unrecognized next header.
const NEXT_HEADER: u8 = 1;
/// The offset of the next header field in an IPv6 header.
const NEXT_HEADER_AT: u32 = 6;

/// RFC 1812 §4.3.2.3: the quoted packet is cut so that the whole IP packet fits in 576 bytes.
const LARGEST_V4: usize = 576;
/// RFC 4443 §3.1: the quoted packet is cut so that the whole IP packet fits in the minimum IPv6 MTU.
const LARGEST_V6: usize = 1280;

/// The reason why bytes are not a supported ICMP error.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum IcmpError {
    /// The message is shorter than its header.
    #[error("truncated ICMP message")]
    Truncated,
    /// The checksum is wrong.
    #[error("wrong ICMP checksum")]
    Checksum,
    /// The ICMP type, or the code of a parameter problem, is not supported.
    #[error("an ICMP message of type {0}")]
    Other(u8),
    /// The bytes that the error quotes are not an IP packet, or its IP version differs from that of the ICMP error.
    #[error("an ICMP message that quotes no IP packet")]
    Quote,
}

/// An ICMP error message, as a view of the received bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message<'a> {
    /// The type of the error, and the source and the target of the quoted packet.
    pub icmp: Icmp,
    /// The quoted packet. Its payload is usually cut short.
    pub quoted: Packet<'a>,
}

impl<'a> Message<'a> {
    /// Reads and verifies the ICMP message in `bytes`, the payload of an IP packet from `source` to `target`.
    ///
    /// # Errors
    /// [`IcmpError`].
    pub fn parse(bytes: &'a [u8], source: IpAddr, target: IpAddr) -> Result<Self, IcmpError> {
        let Some(header) = bytes.first_chunk::<HEADER_LEN>() else {
            return Err(IcmpError::Truncated);
        };
        if !verify(bytes, source, target) {
            return Err(IcmpError::Checksum);
        }
        let low = u32::from(u16::from_be_bytes([header[6], header[7]]));
        let number = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        let kind = match (source, header[0], header[1]) {
            (IpAddr::V4(_), UNREACHABLE_V4, code_v4::TOO_BIG) => IcmpKind::TooBig(low),
            (IpAddr::V4(_), UNREACHABLE_V4, code) => IcmpKind::Unreachable(code),
            (IpAddr::V6(_), UNREACHABLE_V6, code) => IcmpKind::Unreachable(code),
            (IpAddr::V6(_), TOO_BIG_V6, _) => IcmpKind::TooBig(number),
            (IpAddr::V6(_), PARAMETER_PROBLEM_V6, NEXT_HEADER) => IcmpKind::UnknownNextHeader,
            (_, other, _) => return Err(IcmpError::Other(other)),
        };
        let quoted = Packet::parse_quoted(&bytes[HEADER_LEN..]).map_err(|_| IcmpError::Quote)?;
        if quoted.source.is_ipv4() != source.is_ipv4() {
            return Err(IcmpError::Quote);
        }
        Ok(Self { icmp: Icmp { kind, source: quoted.source, target: quoted.target }, quoted })
    }
}

fn verify(bytes: &[u8], source: IpAddr, target: IpAddr) -> bool {
    if source.is_ipv4() {
        return internet_checksum(bytes) == 0;
    }
    // RFC 4443 §2.3: the checksum of ICMPv6 includes a pseudo-header.
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let sum = Checksum::pseudo_header(source, target, protocol::ICMPV6, length);
    sum.is_some_and(|mut sum| {
        sum.add(bytes);
        sum.is_valid()
    })
}

/// Returns whether an ICMP error may be sent in response to a packet (RFC 1122 §3.2.2, RFC 4443 §2.4 e). No error may
/// be sent for a fragment other than the first, for an ICMP error, or for a packet from an unspecified or multicast
/// address.
#[must_use]
pub fn may_report(packet: &Packet<'_>) -> bool {
    let error = match (packet.protocol, packet.payload.first()) {
        (protocol::ICMP, Some(kind)) => matches!(kind, 3 | 4 | 5 | 11 | 12),
        (protocol::ICMPV6, Some(kind)) => *kind < 128,
        _ => false,
    };
    let first = packet.fragment.is_none_or(|piece| piece.offset == 0);
    !error && first && !packet.source.is_unspecified() && !packet.source.is_multicast()
}

/// Appends an IP packet to `out`: an ICMP error of type `kind` from `source` to `target`. The error quotes the
/// beginning of `packet`, including its IP header. `source` and `target` must be of the same IP version.
pub fn append(out: &mut Vec<u8>, source: IpAddr, target: IpAddr, kind: IcmpKind, packet: &[u8]) {
    let begin = out.len();
    let (ip_len, largest) = match source {
        IpAddr::V4(_) => (v4::HEADER_LEN, LARGEST_V4),
        IpAddr::V6(_) => (v6::HEADER_LEN, LARGEST_V6),
    };
    let quote = &packet[..packet.len().min(largest - ip_len - HEADER_LEN)];
    out.resize(begin + ip_len + HEADER_LEN, 0);
    out.extend_from_slice(quote);
    let message_len = HEADER_LEN + quote.len();
    let (header, message) = out[begin..].split_at_mut(ip_len);
    match (source, target) {
        (IpAddr::V4(source), IpAddr::V4(target)) => {
            v4::Header::new(source, target, protocol::ICMP, message_len as u16).emit(header);
            let (code, mtu) = match kind {
                IcmpKind::TooBig(mtu) => (code_v4::TOO_BIG, u16::try_from(mtu).unwrap_or(u16::MAX)),
                IcmpKind::Unreachable(code) => (code, 0),
                IcmpKind::UnknownNextHeader => (code_v4::PROTOCOL, 0),
            };
            message[..2].copy_from_slice(&[UNREACHABLE_V4, code]);
            message[6..8].copy_from_slice(&mtu.to_be_bytes());
            let checksum = internet_checksum(message);
            message[2..4].copy_from_slice(&checksum.to_be_bytes());
        }
        (IpAddr::V6(source), IpAddr::V6(target)) => {
            v6::Header::new(source, target, protocol::ICMPV6, message_len as u16).emit(header);
            match kind {
                IcmpKind::TooBig(mtu) => {
                    message[0] = TOO_BIG_V6;
                    message[4..8].copy_from_slice(&mtu.to_be_bytes());
                }
                IcmpKind::Unreachable(code) => message[..2].copy_from_slice(&[UNREACHABLE_V6, code]),
                IcmpKind::UnknownNextHeader => {
                    message[..2].copy_from_slice(&[PARAMETER_PROBLEM_V6, NEXT_HEADER]);
                    message[4..8].copy_from_slice(&NEXT_HEADER_AT.to_be_bytes());
                }
            }
            let mut sum = Checksum::pseudo_header_v6(source, target, protocol::ICMPV6, message_len as u32);
            sum.add(message);
            let checksum = sum.finish();
            message[2..4].copy_from_slice(&checksum.to_be_bytes());
        }
        _ => panic!("ICMP between address families"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn packet(v6: bool, payload_len: u16) -> (Vec<u8>, IpAddr, IpAddr) {
        if v6 {
            let (source, target) = (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), Ipv6Addr::LOCALHOST);
            let mut bytes = vec![7; v6::HEADER_LEN + usize::from(payload_len)];
            v6::Header::new(source, target, 132, payload_len).emit(&mut bytes);
            (bytes, source.into(), target.into())
        } else {
            let (source, target) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
            let mut bytes = vec![7; v4::HEADER_LEN + usize::from(payload_len)];
            v4::Header::new(source, target, 132, payload_len).emit(&mut bytes);
            (bytes, source.into(), target.into())
        }
    }

    #[test]
    fn round_trip_of_both_kinds_in_both_versions() {
        for v6 in [false, true] {
            let kinds =
                [IcmpKind::TooBig(1400), IcmpKind::Unreachable(code_v4::PORT), IcmpKind::UnknownNextHeader];
            for kind in kinds {
                for length in [0, 8, 1480] {
                    let (original, source, target) = packet(v6, length);
                    let mut out = vec![9; 3];
                    append(&mut out, target, source, kind, &original);
                    let outer = Packet::parse(&out[3..]).expect("an IP packet");
                    assert_eq!((outer.source, outer.target), (target, source));
                    assert!(outer.len() <= if v6 { 1280 } else { 576 });
                    let message = Message::parse(outer.payload, target, source).expect("a message");
                    // ICMPv4 reports an unknown protocol as destination unreachable. ICMPv6 has a separate type for
                    // this error.
                    let kind = match kind {
                        IcmpKind::UnknownNextHeader if !v6 => IcmpKind::Unreachable(code_v4::PROTOCOL),
                        kind => kind,
                    };
                    assert_eq!(message.icmp, Icmp { kind, source, target });
                    assert_eq!(message.quoted.protocol, 132);
                    assert!(message.quoted.payload.iter().all(|byte| *byte == 7));
                    assert!(may_report(&Packet::parse(&original).expect("the original")));
                    assert!(!may_report(&outer), "no report about a report");
                }
            }
        }
    }

    #[test]
    fn damage_is_noticed() {
        for v6 in [false, true] {
            let (original, source, target) = packet(v6, 40);
            let mut out = Vec::new();
            append(&mut out, target, source, IcmpKind::TooBig(1280), &original);
            let ip_len = crate::ip::header_len(source);
            for bit in ip_len * 8..out.len() * 8 {
                out[bit / 8] ^= 1 << (bit % 8);
                let outer = Packet::parse(&out).expect("the IP header is whole");
                assert_eq!(
                    Message::parse(outer.payload, target, source),
                    Err(IcmpError::Checksum),
                    "bit {bit}"
                );
                out[bit / 8] ^= 1 << (bit % 8);
            }
            assert_eq!(Message::parse(&out[..5], target, source), Err(IcmpError::Truncated));
        }
    }

    #[test]
    fn other_messages_are_told_apart() {
        let mut echo = [8, 0, 0, 0, 0, 1, 0, 1];
        let checksum = internet_checksum(&echo);
        echo[2..4].copy_from_slice(&checksum.to_be_bytes());
        let here = IpAddr::from([10, 0, 0, 1]);
        assert_eq!(Message::parse(&echo, here, here), Err(IcmpError::Other(8)));
    }
}
