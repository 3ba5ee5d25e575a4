//! From a captured frame to what its IP packet carries.
//!
//! Owns the link types (tcpdump.org's list), the way past VLAN tags and IPv6
//! extension headers (RFC 8200 §4), and the repair of two things captures do
//! to packets: they cut them (the missing end is taken as zeros, so that
//! lengths stay right), and they catch them before the network card has given
//! them a length (RFC 791 §3.1: total length 0).

use anabranch_wire::ip::{Fragment, fragment, protocol, v4, v6};
use std::borrow::Cow;
use std::net::IpAddr;

/// What an IP packet carries, or a piece of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Carried<'a> {
    pub source: IpAddr,
    pub target: IpAddr,
    pub protocol: u8,
    /// Identification, 0 where there is none.
    pub identification: u32,
    pub fragment: Option<Fragment>,
    /// Bytes of the IP packet on the wire.
    pub wire_len: u64,
    /// The capture kept less than there was: the end of `payload` is zeros.
    pub cut: bool,
    pub payload: Cow<'a, [u8]>,
}

/// Where the IP packet begins in a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Network<'a> {
    Ip(&'a [u8]),
    /// ARP and the like.
    Other,
    /// Nothing is known of frames of this link type.
    UnknownLink,
}

/// Looks for the IP packet in a frame of this link type.
pub(super) fn network(link_type: u16, frame: &[u8]) -> Network<'_> {
    let found = match link_type {
        // BSD loopback, in the byte order of whoever captured, and OpenBSD's: an address family.
        0 | 108 => frame.get(4..),
        1 => ethernet(frame),
        // Raw IP, by several numbers.
        12 | 14 | 101 | 228 | 229 => Some(frame),
        // Linux cooked capture, and its second version.
        113 => frame.get(14..).and_then(|rest| tagged(rest)),
        276 => cooked2(frame),
        _ => return Network::UnknownLink,
    };
    match found {
        Some(packet) if matches!(packet.first().map(|byte| byte >> 4), Some(4 | 6)) => Network::Ip(packet),
        _ => Network::Other,
    }
}

fn ethernet(frame: &[u8]) -> Option<&[u8]> {
    tagged(frame.get(12..)?)
}

fn cooked2(frame: &[u8]) -> Option<&[u8]> {
    let kind = u16::from_be_bytes(*frame.first_chunk()?);
    let rest = frame.get(20..)?;
    if is_tag(kind) { rest.get(2..).and_then(tagged) } else { is_ip(kind).then_some(rest) }
}

/// What follows an Ethernet type, past VLAN tags.
fn tagged(mut rest: &[u8]) -> Option<&[u8]> {
    loop {
        let kind = u16::from_be_bytes(*rest.first_chunk()?);
        if !is_tag(kind) {
            return is_ip(kind).then(|| &rest[2..]);
        }
        rest = rest.get(4..)?;
    }
}

fn is_ip(kind: u16) -> bool {
    [0x0800, 0x86dd].contains(&kind)
}

fn is_tag(kind: u16) -> bool {
    [0x8100, 0x88a8, 0x9100].contains(&kind)
}

/// Reads an IP packet; `None` when there is none of use.
pub(super) fn carried(packet: &[u8]) -> Option<Carried<'_>> {
    match packet.first()? >> 4 {
        4 => carried_v4(packet),
        6 => carried_v6(packet),
        _ => None,
    }
}

fn carried_v4(packet: &[u8]) -> Option<Carried<'_>> {
    let mut patched = *packet.first_chunk::<{ v4::HEADER_LEN }>()?;
    let header_len = usize::from(patched[0] & 15) * 4;
    // Left to the network card, which cuts what is captured here as one packet.
    if patched[2..4] == [0, 0] {
        let length = u16::try_from(packet.len()).unwrap_or(u16::MAX);
        patched[2..4].copy_from_slice(&length.to_be_bytes());
    }
    // Options are of no interest: read as a header without, of the same packet.
    patched[0] = v4::WITHOUT_OPTIONS;
    let (header, _) = v4::Header::parse_quoted(&patched).ok()?;
    let wire_len = usize::from(header.total_len);
    let declared = wire_len.checked_sub(header_len).filter(|_| header_len >= v4::HEADER_LEN)?;
    let piece = header.more_fragments || header.fragment_offset != 0;
    let fragment = piece.then(|| Fragment {
        identification: header.identification.into(),
        offset: usize::from(header.fragment_offset) * 8,
        more: header.more_fragments,
    });
    let (payload, cut) = up_to(packet.get(header_len..)?, declared);
    Some(Carried {
        source: header.source.into(),
        target: header.target.into(),
        protocol: header.protocol,
        identification: header.identification.into(),
        fragment,
        wire_len: wire_len as u64,
        cut,
        payload,
    })
}

fn carried_v6(packet: &[u8]) -> Option<Carried<'_>> {
    let header = v6::Header::parse_quoted(packet).ok()?;
    let rest = &packet[v6::HEADER_LEN..];
    let whole = match header.payload_len {
        0 => rest.len(),
        length => usize::from(length),
    };
    let (mut at, mut next, mut piece) = (0, header.protocol, None);
    // RFC 8200 §4.1: headers follow each other; a fragment but the first has no further ones.
    loop {
        let extension = rest.get(at..)?;
        let words = |unit: usize, first: usize| Some((usize::from(*extension.get(1)?) + first) * unit);
        let length = match next {
            // Hop-by-hop options, routing, destination options, mobility; authentication counts words of four.
            0 | 43 | 60 | 135 => words(8, 1)?,
            51 => words(4, 2)?,
            protocol::FRAGMENT if piece.is_none() => {
                let (inner, place) = fragment::read_v6(extension.first_chunk()?);
                (next, piece) = (inner, place);
                at += fragment::V6_LEN;
                if piece.is_some_and(|place| place.offset > 0) {
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
    let (payload, cut) = up_to(rest.get(at..)?, declared);
    Some(Carried {
        source: header.source.into(),
        target: header.target.into(),
        protocol: next,
        identification: piece.map_or(0, |place| place.identification),
        fragment: piece,
        wire_len: (v6::HEADER_LEN + whole) as u64,
        cut,
        payload,
    })
}

/// The first `declared` bytes, made up of zeros where the capture has none; true if so.
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
        ];
        for (link_type, frame) in frames {
            let Network::Ip(found) = network(link_type, &frame) else { panic!("link type {link_type}") };
            let carried = carried(found).expect("a packet");
            assert_eq!((carried.protocol, &carried.payload[..]), (132, &b"carried"[..]), "{link_type}");
        }
        assert_eq!(network(105, &packet), Network::UnknownLink);
        assert_eq!(network(1, &[&mac[..], &[8, 6, 0, 1]].concat()), Network::Other, "ARP");
    }

    #[test]
    fn extension_headers_are_passed() {
        let payload: &[&[u8]] =
            &[&[43, 0, 1, 4, 0, 0, 0, 0], &[60, 0, 0, 0, 0, 0, 0, 0], &[132, 1], &[0; 14], b"rest"];
        let payload = payload.concat();
        let mut bytes = vec![0; 40];
        v6::Header::new([1; 16].into(), [2; 16].into(), 0, payload.len() as u16).emit(&mut bytes);
        bytes.extend_from_slice(&payload);
        let found = carried(&bytes).expect("a packet");
        assert_eq!((found.protocol, &found.payload[..]), (132, &b"rest"[..]));
        for cut in 0..bytes.len() {
            let _ = carried(&bytes[..cut]);
        }
    }

    #[test]
    fn what_the_capture_left_out_keeps_its_length() {
        let packet = ipv4(6, &[9; 100]);
        let found = carried(&packet[..50]).expect("a packet");
        assert!(found.cut && found.payload.len() == 100 && found.payload[29] == 9 && found.payload[30] == 0);
        let mut large = packet;
        large[2..4].fill(0);
        assert_eq!(carried(&large).expect("a packet").payload.len(), 100);
    }
}
