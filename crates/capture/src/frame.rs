//! Extracts the payload of the IP packet from a captured frame.
//!
//! This module knows the link types (tcpdump.org's list) and skips IPv6 extension headers (RFC 8200 §4). It also
//! corrects two effects of capturing. A capture may keep only the beginning of a packet. This module replaces the
//! missing end by zeros, so that lengths stay right. A capture may also see a packet before the network card has set
//! the packet's length field. The field is then 0 (total length, RFC 791 §3.1; payload length, RFC 2675 §2).

use super::layers::{self, CapturedBytes, HeaderKind};
use anabranch_wire::ip::{Fragment, fragment, protocol, v4, v6};
use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU16;

/// The maximum length of a captured packet in bytes. The limit is twice the size of the longest packet to which Linux
/// joins segments (512 KiB).
pub(super) const LONGEST: usize = 1 << 20;

/// The address that stands for the host that wrote a log. Logs have no addresses, and RFC 6666 reserves this one.
pub(super) const LOCAL: IpAddr = IpAddr::V6(Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 1));
/// The address that stands for the peer of the host that wrote a log.
pub(super) const REMOTE: IpAddr = IpAddr::V6(Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 2));

/// The payload of an IP packet or of a fragment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct IpPayload<'a> {
    pub source: IpAddr,
    pub target: IpAddr,
    pub protocol: u8,
    /// The Identification of the IP header or Fragment header, or 0 if the packet has no such field.
    pub identification: u32,
    pub fragment: Option<Fragment>,
    /// The size of the IP packet on the wire in bytes.
    pub wire_len: u64,
    /// Whether the capture kept only a part of the packet. Zeros then replace the missing end of `payload`.
    pub is_cut: bool,
    pub payload: Cow<'a, [u8]>,
    /// The names of the tunnels around the packet, outermost first.
    pub tunnel: Vec<&'static str>,
    /// The place where the packet was captured.
    pub vantage: Vantage,
    /// The number of the packet in the capture, counted from 1.
    pub number: u64,
    /// Whether the IP header has the ECN mark Congestion Experienced.
    pub is_marked: bool,
}

/// RFC 3168 §5: the two ECN bits of a packet that met congestion.
const CONGESTION_EXPERIENCED: u8 = 3;

/// The place where a packet was captured, as a hash of its interface, direction and tunnel. The same packet may be
/// captured at several places.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Vantage(NonZeroU16);

impl<'a> IpPayload<'a> {
    fn new(
        [source, target]: [IpAddr; 2],
        protocol: u8,
        fragment: Option<Fragment>,
        wire_len: u64,
        payload: Cow<'a, [u8]>,
    ) -> Self {
        let identification = fragment.map_or(0, |fragment| fragment.identification);
        let (tunnel, vantage) = (Vec::new(), Vantage::default());
        Self {
            source,
            target,
            protocol,
            identification,
            fragment,
            wire_len,
            is_cut: false,
            payload,
            tunnel,
            vantage,
            number: 0,
            is_marked: false,
        }
    }
}

impl Default for Vantage {
    fn default() -> Self {
        Self(NonZeroU16::MIN)
    }
}

impl Vantage {
    /// Creates a vantage, which identifies the place of capture, from any value that differs between the places.
    pub fn new(origin: impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        origin.hash(&mut hasher);
        // The packets of a file were captured at few places, so a hash of 16 bits distinguishes the places well enough.
        Self(NonZeroU16::new(hasher.finish() as u16).unwrap_or(NonZeroU16::MIN))
    }
}

/// The content of a link-layer frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Network<'a> {
    /// An IP packet, and the names of the tunnels whose headers come before it.
    Ip(CapturedBytes<'a>, Vec<&'static str>),
    /// An SCTP packet that was captured without an IP header.
    Sctp(CapturedBytes<'a>),
    /// Another protocol than IP or SCTP, for example ARP.
    Other,
    /// A frame with an unknown link type.
    UnknownLink,
}

/// Finds the IP packet in a frame with this link type. The returned number identifies the interface and direction, if
/// the frame's header has them.
pub(super) fn network<'a>(link_type: u16, frame: CapturedBytes<'a>) -> (Network<'a>, u32) {
    let (mut tunnel, mut interface_id) = (Vec::new(), 0);
    let begins = match link_type {
        // BSD loopback, in the byte order of the capturing host, and OpenBSD loopback: four bytes of address family
        // come first.
        0 | 108 => frame.after(4).map(|rest| (HeaderKind::Ip, rest)),
        1 => Some((HeaderKind::Ethernet, frame)),
        // PPP frames, in which the address and control fields may be missing.
        9 | 50 => Some((HeaderKind::Ppp, frame)),
        // Raw IP, for which several link types exist.
        12 | 14 | 101 | 228 | 229 => Some((HeaderKind::Ip, frame)),
        51 => {
            tunnel.push("PPPoE");
            Some((HeaderKind::Pppoe, frame))
        }
        // Cisco HDLC: address, control and an Ethernet type. Links of this type may also carry PPP.
        104 if frame.captured.starts_with(&[0xff, 3]) => Some((HeaderKind::Ppp, frame)),
        104 => frame.u16(2).zip(frame.after(4)).map(|(kind, rest)| (HeaderKind::EtherType(kind), rest)),
        // Linux cooked capture, versions 1 and 2: the header has the packet's direction and an Ethernet type. Version 2
        // also has the interface.
        113 => {
            interface_id = frame.u16(0).map_or(0, |direction| 1 + u32::from(direction));
            frame.u16(14).zip(frame.after(16)).map(|(kind, rest)| (HeaderKind::EtherType(kind), rest))
        }
        276 => {
            let interface = frame.captured.get(4..8).and_then(|bytes| bytes.try_into().ok());
            let direction = frame.captured.get(10).copied().unwrap_or(0);
            interface_id = interface.map_or(0, u32::from_be_bytes) << 8 | (1 + u32::from(direction));
            frame.u16(0).zip(frame.after(20)).map(|(kind, rest)| (HeaderKind::EtherType(kind), rest))
        }
        239 => nflog(frame, &mut interface_id).map(|rest| (HeaderKind::Ip, rest)),
        248 => return (Network::Sctp(frame), 0),
        _ => return (Network::UnknownLink, 0),
    };
    let found = begins.and_then(|(kind, bytes)| layers::ip(kind, bytes, &mut tunnel));
    (found.map_or(Network::Other, |packet| Network::Ip(packet, tunnel)), interface_id)
}

/// Returns the packet in a message of Linux's firewall log (NFLOG). The message starts with family, version and group.
/// Attributes follow, each with a length and a type in the byte order of the host. Sets `interface_id` to the number of
/// the netfilter hook where the packet was logged.
fn nflog<'a>(frame: CapturedBytes<'a>, interface_id: &mut u32) -> Option<CapturedBytes<'a>> {
    const PACKET_HEADER: u16 = 1;
    const PAYLOAD: u16 = 9;
    let read = |number: fn([u8; 2]) -> u16| {
        let (mut rest, mut hook) = (frame.after(4)?, 0);
        loop {
            let half = |at: usize| Some(number(*rest.captured.get(at..)?.first_chunk()?));
            let (length, kind) = (usize::from(half(0)?), half(2)?);
            match kind {
                PAYLOAD => return Some((rest.after(4)?, hook)),
                PACKET_HEADER => hook = *rest.captured.get(6)?,
                _ => {}
            }
            rest = rest.after(length.max(4).next_multiple_of(4))?;
        }
    };
    let (payload, hook) = read(u16::from_le_bytes).or_else(|| read(u16::from_be_bytes))?;
    *interface_id = 1 + u32::from(hook);
    Some(payload)
}

/// Returns an SCTP packet that was captured without an IP header. Its addresses are unknown.
pub(super) fn without_ip(packet: CapturedBytes<'_>) -> IpPayload<'_> {
    let (payload, is_cut) = up_to(packet.captured, packet.len().min(LONGEST));
    let unknown = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let wire_len = payload.len() as u64;
    IpPayload { is_cut, ..IpPayload::new([unknown; 2], protocol::SCTP, None, wire_len, payload) }
}

/// Returns a packet that a host logged without an IP header.
pub(super) fn logged(ends: [IpAddr; 2], protocol: u8, payload: &[u8], wire_len: u64) -> IpPayload<'_> {
    IpPayload::new(ends, protocol, None, wire_len, Cow::Borrowed(payload))
}

/// Parses an IP packet. Returns `None` if the packet is invalid.
pub(super) fn carried(packet: CapturedBytes<'_>) -> Option<IpPayload<'_>> {
    match packet.captured.first()? >> 4 {
        4 => parse_ipv4(packet),
        6 => parse_ipv6(packet),
        _ => None,
    }
}

fn parse_ipv4(packet: CapturedBytes<'_>) -> Option<IpPayload<'_>> {
    let mut patched = *packet.captured.first_chunk::<{ v4::HEADER_LEN }>()?;
    let header_len = usize::from(patched[0] & 15) * 4;
    let mut wire_len = usize::from(u16::from_be_bytes([patched[2], patched[3]]));
    if wire_len == 0 {
        // The length field may be 0 in a large packet that the network card splits into several. The card sets the
        // length later, or the length of the large packet does not fit into the field.
        wire_len = packet.len().min(LONGEST);
        patched[2..4].copy_from_slice(&u16::try_from(wire_len).unwrap_or(u16::MAX).to_be_bytes());
    }
    // IP options are not needed, so the header is parsed as if it had none.
    patched[0] = v4::WITHOUT_OPTIONS;
    let (header, _) = v4::Header::parse_quoted(&patched).ok()?;
    let declared = wire_len.checked_sub(header_len).filter(|_| header_len >= v4::HEADER_LEN)?;
    let piece = header.more_fragments || header.fragment_offset != 0;
    let fragment = piece.then(|| Fragment {
        identification: header.identification.into(),
        offset: usize::from(header.fragment_offset) * 8,
        more: header.more_fragments,
    });
    let (payload, is_cut) = up_to(packet.captured.get(header_len..)?, declared);
    let ends = [header.source, header.target].map(IpAddr::from);
    let carried = IpPayload::new(ends, header.protocol, fragment, wire_len as u64, payload);
    let is_marked = header.ecn as u8 == CONGESTION_EXPERIENCED;
    Some(IpPayload { identification: header.identification.into(), is_cut, is_marked, ..carried })
}

fn parse_ipv6(packet: CapturedBytes<'_>) -> Option<IpPayload<'_>> {
    let header = v6::Header::parse_quoted(packet.captured).ok()?;
    let rest = packet.after(v6::HEADER_LEN)?;
    let whole = match header.payload_len {
        // RFC 2675 §3: in a jumbogram this field is 0, and an option has the length. The field is also 0 if the network
        // card sets the length later.
        0 => rest.len().min(LONGEST),
        length => usize::from(length),
    };
    let rest = rest.captured;
    let (mut at, mut next, mut piece) = (0, header.protocol, None);
    // RFC 8200 §4.1: each extension header names the next header. Later fragments have no headers after the fragment
    // header.
    loop {
        let extension = rest.get(at..)?;
        let words = |unit: usize, first: usize| Some((usize::from(*extension.get(1)?) + first) * unit);
        let length = match next {
            // These headers (hop-by-hop options, routing, destination options, mobility) give their length in units of
            // eight bytes. The authentication header gives its length in words of four bytes.
            0 | 43 | 60 | 135 => words(8, 1)?,
            51 => words(4, 2)?,
            protocol::FRAGMENT if piece.is_none() => {
                let (inner, position) = fragment::read_v6(extension.first_chunk()?);
                (next, piece) = (inner, position);
                at += fragment::V6_LEN;
                if piece.is_some_and(|position| position.offset > 0) {
                    break;
                }
                continue;
            }
            _ => break,
        };
        next = *extension.first()?;
        at += length;
    }
    let declared = whole.checked_sub(at)?;
    let (payload, is_cut) = up_to(rest.get(at..)?, declared);
    let ends = [header.source, header.target].map(IpAddr::from);
    let carried = IpPayload::new(ends, next, piece, (v6::HEADER_LEN + whole) as u64, payload);
    Some(IpPayload { is_cut, is_marked: header.ecn as u8 == CONGESTION_EXPERIENCED, ..carried })
}

/// Returns the first `declared` bytes. If the capture has fewer bytes, zeros replace the missing ones, and the flag is
/// true.
fn up_to(bytes: &[u8], declared: usize) -> (Cow<'_, [u8]>, bool) {
    if let Some(all) = bytes.get(..declared) {
        return (Cow::Borrowed(all), false);
    }
    let mut whole = bytes.to_vec();
    whole.resize(declared, 0);
    (Cow::Owned(whole), true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let (a, b) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let mut bytes = vec![0; 20];
        v4::Header::new(a, b, protocol, payload.len() as u16).emit(&mut bytes);
        bytes.extend_from_slice(payload);
        bytes
    }

    #[test]
    fn every_link_type_leads_to_the_packet() {
        let packet = ipv4(132, b"carried");
        let before = |front: &[u8]| [front, &packet[..], &[0; 3][..]].concat();
        let mac = [7; 12];
        let frames = [
            (0, before(&[2, 0, 0, 0])),
            (108, before(&[0, 0, 0, 2])),
            (1, before(&[&mac[..], &[8, 0]].concat())),
            (1, before(&[&mac[..], &[0x81, 0, 0, 5, 8, 0]].concat())),
            (1, before(&[&mac[..], &[0x88, 0xa8, 0, 1, 0x81, 0, 0, 5, 8, 0]].concat())),
            (101, before(&[])),
            (12, before(&[])),
            (14, before(&[])),
            (228, before(&[])),
            (113, before(&[&[0; 14][..], &[8, 0]].concat())),
            (276, before(&[&[8, 0][..], &[0; 18]].concat())),
            (1, before(&[&mac[..], &[0, 50, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0]].concat())),
            (9, before(&[0xff, 3, 0, 0x21])),
            (9, before(&[0x21])),
            (9, before(&[0, 0x57])),
            (50, before(&[0xff, 3, 0x21])),
            (104, before(&[0x0f, 0, 8, 0])),
            (104, before(&[0xff, 3, 0, 0x21])),
            (104, before(&[0x8f, 0, 0x81, 0, 0, 5, 8, 0])),
            // NFLOG, in both byte orders. The first frame has a packet header attribute and the payload attribute. The
            // second frame has a prefix attribute of seven bytes, a byte of padding, and the payload attribute.
            (239, before(&[2, 0, 0, 1, 8, 0, 1, 0, 8, 0, 3, 0, 33, 0, 9, 0])),
            (239, before(&[2, 0, 0, 1, 0, 7, 0, 10, 1, 2, 3, 0, 0, 33, 0, 9])),
        ];
        for (link_type, frame) in frames {
            let (Network::Ip(found, tunnel), _) = network(link_type, CapturedBytes::whole(&frame)) else {
                panic!("link type {link_type}")
            };
            let carried = carried(found).expect("a packet");
            assert_eq!((carried.protocol, &carried.payload[..]), (132, &b"carried"[..]), "{link_type}");
            assert_eq!(tunnel, [""; 0], "{link_type}");
        }
        let other =
            |link_type, frame: &[u8]| network(link_type, CapturedBytes::whole(frame)).0 == Network::Other;
        assert_eq!(network(105, CapturedBytes::whole(&packet)).0, Network::UnknownLink);
        assert!(other(1, &[&mac[..], &[8, 6, 0, 1]].concat()), "ARP");
        assert!(other(9, &[0xff, 3, 0xc0, 0x21, 1, 1, 0, 4]), "LCP");
        assert!(other(239, &[2, 0, 0, 1, 8, 0, 1, 0]), "a header alone");
        assert!(
            matches!(network(248, CapturedBytes::whole(b"sctp")).0, Network::Sctp(found) if found.captured == b"sctp")
        );
    }

    #[test]
    fn tunnels_of_links_are_named() {
        let packet = ipv4(132, b"carried");
        let label = [0, 0x10, 0x00, 64, 0, 0x20, 0x01, 64];
        let ppp = [&[0x11, 0, 0, 7, 0, 29, 0, 0x21][..], &packet].concat();
        let link = |kind: [u8; 2], rest: &[u8]| [&[7; 12][..], &kind, rest].concat();
        for (expected, frame) in [
            ("MPLS", link([0x88, 0x47], &[&label[..], &packet].concat())),
            ("MPLS", link([0x88, 0x48], &[&label[4..], &packet].concat())),
            // An MPLS pseudowire: a control word, and then an Ethernet frame.
            ("MPLS", link([0x88, 0x47], &[&label[4..], &[0; 4], &link([8, 0], &packet)].concat())),
            ("PPPoE", link([0x88, 0x64], &ppp)),
            ("PPPoE", link([0x81, 0], &[&[0, 5, 0x88, 0x64], &ppp[..]].concat())),
            (
                "PPPoE MPLS",
                link([0x88, 0x64], &[&[0x11, 0, 0, 7, 0, 33, 2, 0x81], &label[4..], &packet].concat()),
            ),
        ] {
            let (Network::Ip(found, tunnel), _) = network(1, CapturedBytes::whole(&frame)) else {
                panic!("{expected}")
            };
            assert_eq!(tunnel.join(" "), expected);
            assert_eq!(carried(found).expect("a packet").payload[..], b"carried"[..]);
            for cut in 0..frame.len() {
                let _ = network(1, CapturedBytes::new(&frame[..cut], frame.len()));
            }
        }
    }

    #[test]
    fn cooked_captures_tell_where_a_packet_was_captured() {
        let packet = ipv4(132, b"carried");
        let cooked = |direction: u8| [&[0, direction][..], &[0; 12], &[8, 0], &packet].concat();
        let second = |interface: u8, direction: u8| {
            [&[8, 0, 0, 0, 0, 0, 0, interface, 0, 1, direction][..], &[0; 9], &packet].concat()
        };
        let frames = [
            (113, cooked(0)),
            (113, cooked(4)),
            (276, second(1, 0)),
            (276, second(1, 4)),
            (276, second(2, 0)),
        ];
        let networks = frames.map(|(link_type, frame)| network(link_type, CapturedBytes::whole(&frame)).1);
        let distinct: std::collections::BTreeSet<u32> = networks.into_iter().collect();
        assert_eq!(distinct.len(), networks.len(), "{networks:?}");
        assert!(!distinct.contains(&0));
    }

    #[test]
    fn extension_headers_are_passed() {
        let payload: &[&[u8]] =
            &[&[43, 0, 1, 4, 0, 0, 0, 0], &[60, 0, 0, 0, 0, 0, 0, 0], &[132, 1], &[0; 14], b"rest"];
        let payload = payload.concat();
        let mut bytes = vec![0; 40];
        v6::Header::new([1; 16].into(), [2; 16].into(), 0, payload.len() as u16).emit(&mut bytes);
        bytes.extend_from_slice(&payload);
        let found = carried(CapturedBytes::whole(&bytes)).expect("a packet");
        assert_eq!((found.protocol, &found.payload[..]), (132, &b"rest"[..]));
        for cut in 0..bytes.len() {
            let _ = carried(CapturedBytes::whole(&bytes[..cut]));
        }
    }

    #[test]
    fn truncated_packets_keep_their_length() {
        let packet = ipv4(6, &[9; 100]);
        let found = carried(CapturedBytes::whole(&packet[..50])).expect("a packet");
        assert!(
            found.is_cut && found.payload.len() == 100 && found.payload[29] == 9 && found.payload[30] == 0
        );
        let mut large = packet;
        large[2..4].fill(0);
        assert_eq!(carried(CapturedBytes::whole(&large)).expect("a packet").payload.len(), 100);
        // If the capture kept only a part of the packet, the original length is restored, even if no header field can
        // hold it.
        let found = carried(CapturedBytes::new(&large[..60], 70_020)).expect("a packet");
        assert_eq!((found.payload.len(), found.wire_len, found.is_cut), (70_000, 70_020, true));
        let found = carried(CapturedBytes::new(&large[..60], usize::MAX)).expect("a packet");
        assert_eq!(found.wire_len, LONGEST as u64);
    }
}
