//! Fragments an IP packet to fit the MTU of a link.
//!
//! ```text
//!  0               1               2               3
//! |  next header  |    reserved   |  offset (13 bits)   | res |M|
//! |                        identification                         |
//! ```
//!
//! Implements RFC 791 §3.2 (IPv4 fragmentation; the fields are in `v4.rs`) and RFC 8200 §4.5 (IPv6, with the fragment
//! header drawn above). This module does not reassemble packets, which is the task of the receiving host.

use super::{Fragment, protocol, v4, v6};

/// The length of the IPv6 fragment header in bytes.
pub const V6_LEN: usize = 8;

/// Reads an IPv6 fragment header. Returns the protocol of the whole packet, and the position of the fragment in that
/// packet. The position is `None` if the fragment is the whole packet (RFC 6946).
#[must_use]
pub fn read_v6(header: &[u8; V6_LEN]) -> (u8, Option<Fragment>) {
    let [next, _, high, low, id @ ..] = *header;
    let field = u16::from_be_bytes([high, low]);
    let fragment = Fragment {
        identification: u32::from_be_bytes(id),
        offset: usize::from(field & !7),
        more: field & 1 != 0,
    };
    (next, (fragment.more || fragment.offset != 0).then_some(fragment))
}

/// The fragments of an IP packet, in order.
#[derive(Clone, Copy, Debug)]
pub struct Fragmenter<'a> {
    header: &'a [u8],
    /// The part of the payload that has not been put into a fragment yet.
    rest: &'a [u8],
    /// The number of payload bytes before `rest`.
    offset: usize,
    /// The largest payload of a fragment in bytes, a multiple of eight.
    max_payload: usize,
    /// The flag "more fragments" of the original packet, which is true if that packet is itself a fragment other than
    /// the last.
    more: bool,
    identification: u32,
}

impl<'a> Fragmenter<'a> {
    /// Prepares to fragment `packet` for a link with this `mtu`. A fragment of an IPv4 packet can be fragmented again.
    /// `identification` is used only for IPv6. Returns `None` if the packet must not be fragmented: it has Don't
    /// Fragment set, or is an IPv6 packet that is already a fragment. Also returns `None` if the MTU has no room for
    /// eight bytes of payload, or if the packet has IP options, which this project never sends.
    #[must_use]
    pub fn of(packet: &'a [u8], mtu: usize, identification: u32) -> Option<Self> {
        if packet.first()? >> 4 == 4 {
            let (header, header_len) = v4::Header::parse_quoted(packet).ok()?;
            if header.dont_fragment || header_len != v4::HEADER_LEN {
                return None;
            }
            return Self {
                header: packet.get(..header_len)?,
                rest: packet.get(header_len..usize::from(header.total_len))?,
                offset: usize::from(header.fragment_offset) * 8,
                max_payload: 0,
                more: header.more_fragments,
                identification,
            }
            .with_room(mtu.checked_sub(header_len)?);
        }
        let header = v6::Header::parse(packet).ok()?;
        if header.protocol == protocol::FRAGMENT {
            return None;
        }
        Self {
            header: packet.get(..v6::HEADER_LEN)?,
            rest: packet.get(v6::HEADER_LEN..)?.get(..usize::from(header.payload_len))?,
            offset: 0,
            max_payload: 0,
            more: false,
            identification,
        }
        .with_room(mtu.checked_sub(v6::HEADER_LEN + V6_LEN)?)
    }

    fn with_room(self, room: usize) -> Option<Self> {
        let max_payload = room & !7;
        (max_payload > 0).then_some(Self { max_payload, ..self })
    }

    /// Appends the next fragment, a complete IP packet, to `out`. Returns false if there are no more fragments.
    pub fn append_next(&mut self, out: &mut Vec<u8>) -> bool {
        if self.rest.is_empty() {
            return false;
        }
        let (piece, rest) = self.rest.split_at(self.max_payload.min(self.rest.len()));
        let more = self.more || !rest.is_empty();
        let begin = out.len();
        out.extend_from_slice(self.header);
        let header = &mut out[begin..];
        if header[0] >> 4 == 4 {
            let length = (v4::HEADER_LEN + piece.len()) as u16;
            let flags = u16::from(more) << 13 | (self.offset / 8) as u16;
            header[2..4].copy_from_slice(&length.to_be_bytes());
            header[6..8].copy_from_slice(&flags.to_be_bytes());
            v4::refresh_checksum(header);
        } else {
            let length = (V6_LEN + piece.len()) as u16;
            header[4..6].copy_from_slice(&length.to_be_bytes());
            let next = std::mem::replace(&mut header[6], protocol::FRAGMENT);
            let [high, low] = (self.offset as u16 | u16::from(more)).to_be_bytes();
            out.extend_from_slice(&[next, 0, high, low]);
            out.extend_from_slice(&self.identification.to_be_bytes());
        }
        out.extend_from_slice(piece);
        self.offset += piece.len();
        self.rest = rest;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::Packet;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn v4_packet(payload: u16, dont_fragment: bool) -> Vec<u8> {
        let (source, target) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let header =
            v4::Header { dont_fragment, identification: 7, ..v4::Header::new(source, target, 132, payload) };
        let mut bytes: Vec<u8> = (0..20 + payload).map(|i| i as u8).collect();
        header.emit(&mut bytes);
        bytes
    }

    fn v6_packet(payload: u16) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..40 + payload).map(|i| i as u8).collect();
        v6::Header::new(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, 132, payload).emit(&mut bytes);
        bytes
    }

    fn cut(packet: &[u8], mtu: usize) -> Vec<Vec<u8>> {
        let mut pieces = Fragmenter::of(packet, mtu, 0x1234_5678).expect("it may be cut");
        let mut out = Vec::new();
        loop {
            let mut piece = Vec::new();
            if !pieces.append_next(&mut piece) {
                return out;
            }
            assert!(piece.len() <= mtu);
            out.push(piece);
        }
    }

    /// RFC 791 §3.2, RFC 8200 §4.5: offsets in units of 8 bytes, lengths, flags and checksums of fragments are right.
    #[test]
    fn the_pieces_are_the_packet() {
        for (packet, id, header) in [(v4_packet(1480, false), 7, 20), (v6_packet(1460), 0x1234_5678, 40)] {
            let pieces = cut(&packet, 600);
            assert_eq!(pieces.len(), 3);
            let mut whole = Vec::new();
            for piece in &pieces {
                let view = Packet::parse(piece).expect("a packet with a right checksum");
                let fragment = view.fragment.expect("a piece");
                assert_eq!((fragment.identification, fragment.offset), (id, whole.len()));
                assert_eq!(fragment.more, whole.len() + view.payload.len() < packet.len() - header);
                assert_eq!(view.protocol, 132);
                whole.extend_from_slice(view.payload);
            }
            assert_eq!(whole, packet[header..]);
        }
    }

    #[test]
    fn a_router_cuts_a_piece_again() {
        let packet = v4_packet(1480, false);
        let smaller: Vec<_> = cut(&packet, 1000).iter().flat_map(|piece| cut(piece, 600)).collect();
        let fragments: Vec<_> = smaller
            .iter()
            .map(|piece| Packet::parse(piece).expect("a packet").fragment.expect("a piece"))
            .map(|fragment| (fragment.offset, fragment.more))
            .collect();
        assert_eq!(fragments, [(0, true), (576, true), (976, false)]);
    }

    #[test]
    fn packets_with_dont_fragment_are_not_fragmented() {
        assert!(Fragmenter::of(&v4_packet(1480, true), 600, 0).is_none(), "Don't Fragment");
        assert!(Fragmenter::of(&v4_packet(1480, false), 27, 0).is_none(), "no room for eight bytes");
        assert!(
            Fragmenter::of(&cut(&v6_packet(1460), 1280)[0], 600, 0).is_none(),
            "only the sender cuts IPv6"
        );
        assert!(Fragmenter::of(&[], 600, 0).is_none() && Fragmenter::of(&[0x55; 80], 600, 0).is_none());
        let packet = v4_packet(100, false);
        for end in 0..packet.len() {
            assert!(Fragmenter::of(&packet[..end], 60, 0).is_none(), "cut off at {end}");
        }
    }

    /// RFC 6946: a fragment header in front of a whole packet has no effect.
    #[test]
    fn an_atomic_fragment_is_a_packet() {
        let mut packet = v6_packet(8);
        let (header, payload) = packet.split_at(40);
        let mut atomic = header.to_vec();
        atomic.extend_from_slice(&[132, 0, 0, 0, 1, 2, 3, 4]);
        atomic.extend_from_slice(payload);
        (atomic[5], atomic[6]) = (16, protocol::FRAGMENT);
        let view = Packet::parse(&atomic).expect("a packet");
        assert_eq!((view.fragment, view.protocol, view.header_len), (None, 132, 48));
        assert_eq!(view.payload, payload);
        packet[6] = protocol::FRAGMENT;
        packet[5] = 7;
        assert!(Packet::parse(&packet).is_err(), "no room for the header");
    }
}
