//! The IPv4 and IPv6 headers, and code common to both.
//!
//! [`Packet`] is a view that reads packets of both IP versions. [`decrement_hop_limit`] and [`ecn::write`] change a
//! packet in place, for routers and queues. [`fragment`] fragments packets. IPv6 extension headers other than the
//! fragment header are not parsed, and this project never sends them.

pub mod ecn;
pub mod fragment;
pub mod v4;
pub mod v6;

use anabranch_base::Ecn;
use std::net::IpAddr;

/// The IANA protocol numbers that this project uses.
pub mod protocol {
    /// ICMP for IPv4.
    pub const ICMP: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// The fragment header of IPv6. It is not a transport protocol: another header follows it.
    pub const FRAGMENT: u8 = 44;
    /// ICMP for IPv6.
    pub const ICMPV6: u8 = 58;
    /// SCTP.
    pub const SCTP: u8 = 132;
}

/// The hop limit (TTL) of new packets.
pub const HOP_LIMIT: u8 = 64;

/// The reason why bytes are not an IP packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum IpError {
    /// The data is shorter than the header, or than the length in the header.
    #[error("truncated IP packet")]
    Truncated,
    /// The version field is neither 4 nor 6.
    #[error("IP version {0}")]
    Version(u8),
    /// Two length fields of the IP header contradict each other.
    #[error("an IP length field is wrong")]
    Length,
    /// The IPv4 header checksum is wrong.
    #[error("wrong IPv4 header checksum")]
    Checksum,
}

/// The position of a fragment in its packet (RFC 791 §3.2, RFC 8200 §4.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fragment {
    /// The number that all fragments of one packet share. Packets between the same two addresses have different
    /// numbers.
    pub identification: u32,
    /// The offset of this fragment in the payload of the whole packet, in bytes.
    pub offset: usize,
    /// Whether more fragments follow this fragment.
    pub more: bool,
}

/// An IP packet of either version, as a view of its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet<'a> {
    /// The source address.
    pub source: IpAddr,
    /// The target address.
    pub target: IpAddr,
    /// The protocol of the payload. In a fragment, the protocol of the whole packet's payload.
    pub protocol: u8,
    /// The ECN bits.
    pub ecn: Ecn,
    /// The number of routers that the packet may still pass (TTL).
    pub hop_limit: u8,
    /// The packet's position among the fragments; `None` if the packet is not a fragment.
    pub fragment: Option<Fragment>,
    /// The length of the IP header in bytes, including options or an IPv6 fragment header.
    pub header_len: usize,
    /// The bytes after the IP header, without the padding of the link layer.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads a packet that begins with its IP header, and verifies the IPv4 header checksum. Bytes after the end of the
    /// packet are ignored.
    ///
    /// # Errors
    /// [`IpError`].
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, IpError> {
        Self::read(bytes, true)
    }

    /// Reads the beginning of a packet that an ICMP message quotes. The payload may be shorter than the header says.
    /// The checksum is not verified, because a router may have changed the hop limit in the quoted header.
    ///
    /// # Errors
    /// [`IpError`]. A truncated payload is not an error.
    pub fn parse_quoted(bytes: &'a [u8]) -> Result<Self, IpError> {
        Self::read(bytes, false)
    }

    #[inline]
    fn read(bytes: &'a [u8], whole: bool) -> Result<Self, IpError> {
        match bytes.first().map(|byte| byte >> 4) {
            Some(4) => {
                let (header, header_len) =
                    if whole { v4::Header::parse(bytes)? } else { v4::Header::parse_quoted(bytes)? };
                Ok(Self {
                    source: header.source.into(),
                    target: header.target.into(),
                    protocol: header.protocol,
                    ecn: header.ecn,
                    hop_limit: header.hop_limit,
                    fragment: (header.more_fragments || header.fragment_offset != 0).then(|| Fragment {
                        identification: header.identification.into(),
                        offset: usize::from(header.fragment_offset) * 8,
                        more: header.more_fragments,
                    }),
                    header_len,
                    payload: &bytes[header_len..bytes.len().min(usize::from(header.total_len))],
                })
            }
            Some(6) => {
                let header = if whole { v6::Header::parse(bytes)? } else { v6::Header::parse_quoted(bytes)? };
                let end = bytes.len().min(v6::HEADER_LEN + usize::from(header.payload_len));
                let (mut protocol, mut fragment, mut header_len) = (header.protocol, None, v6::HEADER_LEN);
                if protocol == protocol::FRAGMENT {
                    let extension = bytes.get(header_len..end).and_then(<[u8]>::first_chunk);
                    (protocol, fragment) = fragment::read_v6(extension.ok_or(IpError::Truncated)?);
                    header_len += fragment::V6_LEN;
                }
                Ok(Self {
                    source: header.source.into(),
                    target: header.target.into(),
                    protocol,
                    ecn: header.ecn,
                    hop_limit: header.hop_limit,
                    fragment,
                    header_len,
                    payload: &bytes[header_len..end],
                })
            }
            Some(version) => Err(IpError::Version(version)),
            None => Err(IpError::Truncated),
        }
    }

    /// Returns the length of the IP header and the payload in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.header_len + self.payload.len()
    }

    /// Returns false, because a packet always has a header.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }
}

/// Returns the source and the target address of the IP packet at the start of `bytes`, and checks nothing else. Returns
/// `None` if the bytes end before the addresses.
#[must_use]
#[inline]
pub fn addresses(bytes: &[u8]) -> Option<(IpAddr, IpAddr)> {
    match bytes.first()? >> 4 {
        4 => {
            let field = bytes.get(12..20)?.first_chunk::<8>()?;
            let [a, b, c, d, e, f, g, h] = *field;
            Some((IpAddr::from([a, b, c, d]), IpAddr::from([e, f, g, h])))
        }
        6 => {
            let (source, target) = bytes.get(8..40)?.split_first_chunk::<16>()?;
            Some((IpAddr::from(*source), IpAddr::from(*target.first_chunk::<16>()?)))
        }
        _ => None,
    }
}

/// Returns a hash that is equal for all packets of a flow. As in RFC 8290 §4.1, the hash covers the addresses, the
/// protocol and, if present, the ports. Returns 0 if `bytes` is not an IP packet.
#[must_use]
pub fn flow_hash(bytes: &[u8]) -> u64 {
    let Ok(packet) = Packet::parse_quoted(bytes) else { return 0 };
    let ports = match packet.protocol {
        // Only the first fragment of a packet contains ports, so ports are ignored in all fragments.
        _ if packet.fragment.is_some() => None,
        protocol::TCP | protocol::UDP | protocol::SCTP => packet.payload.get(..4),
        _ => None,
    };
    let addresses = match bytes[0] >> 4 {
        4 => &bytes[12..20],
        _ => &bytes[8..40],
    };
    // The hash function is FNV-1a.
    let parts = addresses.iter().chain(std::slice::from_ref(&packet.protocol));
    parts.chain(ports.unwrap_or_default()).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Returns the length of the IP header of a packet from `source`: 20 bytes for IPv4, 40 for IPv6.
#[must_use]
pub const fn header_len(source: IpAddr) -> usize {
    match source {
        IpAddr::V4(_) => v4::HEADER_LEN,
        IpAddr::V6(_) => v6::HEADER_LEN,
    }
}

/// Decrements the hop limit of the IP packet at the start of `bytes` and updates the IPv4 header checksum. Returns
/// false and changes nothing if the hop limit is exhausted, or if there is no IP packet.
pub fn decrement_hop_limit(bytes: &mut [u8]) -> bool {
    match bytes.first().map(|byte| byte >> 4) {
        Some(4) if bytes.len() >= v4::HEADER_LEN => {
            if bytes[8] <= 1 {
                return false;
            }
            bytes[8] -= 1;
            v4::refresh_checksum(bytes);
            true
        }
        Some(6) if bytes.len() >= v6::HEADER_LEN => {
            if bytes[7] <= 1 {
                return false;
            }
            bytes[7] -= 1;
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn v4_packet() -> Vec<u8> {
        let header = v4::Header::new(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2), 132, 8);
        let mut bytes = vec![0; 28];
        header.emit(&mut bytes);
        bytes
    }

    #[test]
    fn either_version_is_read() {
        let packet = v4_packet();
        let view = Packet::parse(&packet).expect("an IPv4 packet");
        assert_eq!((view.protocol, view.payload.len(), view.hop_limit), (132, 8, HOP_LIMIT));
        assert_eq!(addresses(&packet), Some((view.source, view.target)));

        let header = v6::Header::new(Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED, 6, 4);
        let mut bytes = vec![0; 44 + 3];
        header.emit(&mut bytes);
        let view = Packet::parse(&bytes).expect("an IPv6 packet");
        assert_eq!((view.protocol, view.payload.len(), view.header_len), (6, 4, 40));
        assert_eq!(addresses(&bytes), Some((view.source, view.target)));
        assert_eq!(addresses(&bytes[..39]), None);
    }

    #[test]
    fn invalid_packets_are_refused() {
        assert_eq!(Packet::parse(&[]), Err(IpError::Truncated));
        assert_eq!(Packet::parse(&[0x55; 60]), Err(IpError::Version(5)));
        let packet = v4_packet();
        for cut in 0..packet.len() {
            assert!(Packet::parse(&packet[..cut]).is_err(), "cut to {cut}");
        }
        assert!(Packet::parse_quoted(&packet[..24]).is_ok_and(|view| view.payload.len() == 4));
    }

    #[test]
    fn hop_limit_runs_out() {
        let mut packet = v4_packet();
        for _ in 1..HOP_LIMIT {
            assert!(decrement_hop_limit(&mut packet));
            assert!(Packet::parse(&packet).is_ok(), "the checksum follows");
        }
        assert!(!decrement_hop_limit(&mut packet));
        assert!(!decrement_hop_limit(&mut [0x45]));
    }
}
