//! Finds the IP packets inside tunnels.
//!
//! This module detects a tunnel by its IP protocol or UDP port, and skips the tunnel's headers, options and extensions.
//!
//! Implements these tunnels:
//! - IP in IP: RFC 2003 (IPv4 in IPv4), RFC 4213 §3 (IPv6 in IPv4), RFC 2473 (in IPv6)
//! - GRE: RFC 2784, 2890 and 1701, RFC 7637 (NVGRE), RFC 2637 §4.1 (PPTP), RFC 8086 (GRE in UDP)
//! - MPLS: RFC 7510 (in UDP), RFC 4023 (in IP)
//! - over UDP: RFC 7348 §5 (VXLAN), RFC 8926 §3.4 (Geneve), 3GPP TS 29.281 §5 (GTP-U)

use super::frame::{IpPayload, carried};
use super::layers::{CapturedBytes, HeaderKind, MAX_TUNNELS, ip};
use anabranch_wire::udp;

/// The result of looking for a tunnel in a packet.
pub(super) enum Tunnel<'a> {
    /// The packet is a tunnel that carries this inner packet.
    Carries(IpPayload<'a>),
    /// The packet belongs to a tunnel, but is not parsed further. Either it carries no IP packet, or too many tunnels
    /// are nested. The string is the name under which such packets are counted.
    Other(&'static str),
    /// The packet does not belong to a tunnel.
    None,
}

/// A tunnel header: the name of the tunnel, the kind of its payload, and the bytes of its payload.
type Header<'a> = (&'static str, HeaderKind, CapturedBytes<'a>);

/// Looks for a tunnel in a packet, and parses the packet inside the tunnel.
pub(super) fn open<'a>(outer: &'a IpPayload<'_>) -> Tunnel<'a> {
    let Some((name, kind, bytes)) = header(outer) else { return Tunnel::None };
    if outer.tunnel.len() >= MAX_TUNNELS {
        return Tunnel::Other("packets in too many tunnels");
    }
    let mut tunnel = outer.tunnel.clone();
    tunnel.push(name);
    let inner = ip(kind, bytes, &mut tunnel).and_then(carried);
    let Some(inner) = inner.filter(|_| tunnel.len() <= MAX_TUNNELS) else {
        return Tunnel::Other("tunnelled frames without IP");
    };
    Tunnel::Carries(IpPayload {
        tunnel,
        is_cut: inner.is_cut || outer.is_cut,
        vantage: outer.vantage,
        number: outer.number,
        ..inner
    })
}

fn header<'a>(outer: &'a IpPayload<'_>) -> Option<Header<'a>> {
    // No bytes are missing here: if the capture kept only a part of the packet, zeros already replace the rest.
    let bytes = CapturedBytes::whole(&outer.payload);
    match (outer.protocol, outer.source.is_ipv4()) {
        (4, true) => Some(("IP in IP (4in4)", HeaderKind::Ip, bytes)),
        (4, false) => Some(("IP in IP (4in6)", HeaderKind::Ip, bytes)),
        (41, true) => Some(("IP in IP (6in4)", HeaderKind::Ip, bytes)),
        (41, false) => Some(("IP in IP (6in6)", HeaderKind::Ip, bytes)),
        (47, _) => gre(bytes),
        (137, _) => Some(("MPLS", HeaderKind::Mpls, bytes)),
        (17, _) => in_udp(&outer.payload),
        _ => None,
    }
}

/// Detects tunnels by the ports registered with IANA, and by port 8472, which Linux uses for VXLAN.
fn in_udp(datagram: &[u8]) -> Option<Header<'_>> {
    let datagram = udp::Datagram::parse_quoted(datagram).ok()?;
    let bytes = CapturedBytes::whole(datagram.payload);
    match datagram.target_port {
        2_152 => gtp(bytes),
        // RFC 7348 §5: the header has eight bytes. The flag I must be set, and an Ethernet frame follows.
        4_789 | 8_472 if bytes.captured.first()? & 0x08 != 0 => {
            Some(("VXLAN", HeaderKind::Ethernet, bytes.after(8)?))
        }
        4_790 => vxlan_gpe(bytes),
        6_081 => geneve(bytes),
        4_754 => gre(bytes),
        6_635 => Some(("MPLS", HeaderKind::Mpls, bytes)),
        _ if datagram.source_port == 2_152 => gtp(bytes),
        _ => None,
    }
}

/// 3GPP TS 29.281 §5.1: skips the header of a GTP-U packet. It must have version 1, protocol type 1 and message type
/// 255 (G-PDU).
fn gtp(bytes: CapturedBytes<'_>) -> Option<Header<'_>> {
    let [flags, 0xff, ..] = *bytes.captured.first_chunk::<8>()? else { return None };
    if flags >> 4 != 0b0011 {
        return None;
    }
    let mut rest = bytes.after(8)?;
    // The header has the fields for sequence number, N-PDU number and next extension if any of their flags is set.
    if flags & 0b111 != 0 {
        let mut next = *rest.captured.get(3)?;
        rest = rest.after(4)?;
        // TS 29.281 §5.2.1: extensions follow only if the flag E is set. Each has its length in words at its beginning,
        // and the type of the next extension in its last byte.
        while flags & 0b100 != 0 && next != 0 {
            let length = usize::from(*rest.captured.first()?) * 4;
            next = *rest.captured.get(length.checked_sub(1)?)?;
            rest = rest.after(length)?;
        }
    }
    // The payload is a frame if the PDU session has the type Ethernet.
    let kind = if rest.is_ethernet()? { HeaderKind::Ethernet } else { HeaderKind::Ip };
    Some(("GTP-U", kind, rest))
}

/// draft-ietf-nvo3-vxlan-gpe §3: if the flag P is set, the fourth byte is the type of the payload.
fn vxlan_gpe(bytes: CapturedBytes<'_>) -> Option<Header<'_>> {
    let [flags, _, _, next] = *bytes.captured.first_chunk()?;
    let kind = match next {
        1 | 2 if flags & 4 != 0 => HeaderKind::Ip,
        5 if flags & 4 != 0 => HeaderKind::Mpls,
        3 => HeaderKind::Ethernet,
        _ if flags & 4 == 0 => HeaderKind::Ethernet,
        _ => return None,
    };
    Some(("VXLAN-GPE", kind, bytes.after(8)?))
}

/// RFC 8926 §3.4: skips a Geneve header. It has version 0, the length of the options in words, and an Ethernet type.
fn geneve(bytes: CapturedBytes<'_>) -> Option<Header<'_>> {
    let first = *bytes.captured.first()?;
    if first >> 6 != 0 {
        return None;
    }
    let options = usize::from(first & 0x3f) * 4;
    Some(("Geneve", HeaderKind::EtherType(bytes.u16(2)?), bytes.after(8 + options)?))
}

fn gre(bytes: CapturedBytes<'_>) -> Option<Header<'_>> {
    let (flags, protocol) = (bytes.u16(0)?, bytes.u16(2)?);
    let has = |flag: u16| flags & flag != 0;
    let field = |flag: u16| if has(flag) { 4 } else { 0 };
    match flags & 7 {
        0 => {
            // RFC 2784 §2.1, RFC 2890 §2, RFC 1701: flags say which of three optional fields follow: the checksum with
            // the routing offset, the key, and the sequence number.
            let mut rest = bytes.after(4 + field(0xc000) + field(0x2000) + field(0x1000))?;
            // RFC 1701: a list of source routes follows, each with its length. An empty route ends the list.
            while has(0x4000) {
                let (family, length) = (rest.u16(0)?, usize::from(*rest.captured.get(3)?));
                rest = rest.after(4 + length)?;
                if family == 0 && length == 0 {
                    break;
                }
            }
            match protocol {
                // NVGRE (RFC 7637 §3.2) has the same header as other Ethernet frames in GRE with a key, so it has no
                // name of its own.
                // ERSPAN carries mirrored frames. If the GRE header has a sequence number, an ERSPAN header of 8 bytes
                // comes first.
                0x88be => {
                    Some(("ERSPAN", HeaderKind::Ethernet, rest.after(if has(0x1000) { 8 } else { 0 })?))
                }
                0x22eb => {
                    let more = if rest.captured.get(11)? & 1 != 0 { 8 } else { 0 };
                    Some(("ERSPAN", HeaderKind::Ethernet, rest.after(12 + more)?))
                }
                _ => Some(("GRE", HeaderKind::EtherType(protocol), rest)),
            }
        }
        // RFC 2637 §4.1: PPTP carries PPP after a key. A sequence number and an acknowledgement follow the key if their
        // flags are set.
        1 if protocol == 0x880b => {
            Some(("GRE", HeaderKind::Ppp, bytes.after(8 + field(0x1000) + field(0x0080))?))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_wire::ip::{v4, v6};
    use std::net::{IpAddr, SocketAddr};

    fn v4_packet(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 20];
        v4::Header::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), protocol, payload.len() as u16)
            .emit(&mut bytes);
        bytes.extend_from_slice(payload);
        bytes
    }

    fn v6_packet(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 40];
        v6::Header::new([1; 16].into(), [2; 16].into(), protocol, payload.len() as u16).emit(&mut bytes);
        bytes.extend_from_slice(payload);
        bytes
    }

    fn datagram(port: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = [&[0; 8], payload].concat();
        let to = |last: u8, port| SocketAddr::new(IpAddr::from([10, 0, 0, last]), port);
        udp::emit_in_place(&mut bytes, to(1, 1_024), to(2, port));
        v4_packet(17, &bytes)
    }

    fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
        // The destination MAC address, at the start of the frame, looks like the beginning of an IPv4 packet.
        [&[0x45; 12][..], &kind.to_be_bytes(), payload].concat()
    }

    /// Removes the tunnels around a packet of protocol 132, and returns their names.
    fn names(packet: &[u8]) -> Vec<&'static str> {
        let found = carried(CapturedBytes::whole(packet)).expect("a packet");
        if found.protocol == 132 {
            assert_eq!(&found.payload[..], b"within");
            return found.tunnel;
        }
        match open(&found) {
            Tunnel::Carries(inner) if inner.protocol == 132 => {
                assert_eq!(&inner.payload[..], b"within");
                inner.tunnel
            }
            Tunnel::Carries(inner) => match open(&inner) {
                Tunnel::Carries(inner) => inner.tunnel,
                _ => panic!("nothing in {:?}", inner.tunnel),
            },
            Tunnel::Other(what) => vec![what],
            Tunnel::None => Vec::new(),
        }
    }

    #[test]
    fn every_tunnel_leads_to_the_packet_within() {
        let (inner, inner6) = (v4_packet(132, b"within"), v6_packet(132, b"within"));
        let frame = ethernet(0x0800, &inner);
        let before = |front: &[u8], rest: &[u8]| [front, rest].concat();
        let gtp = |front: &[u8], rest: &[u8]| datagram(2_152, &before(front, rest));
        let gre = |front: &[u8], rest: &[u8]| v4_packet(47, &before(front, rest));
        let label = [0, 0x10, 0x01, 64];
        let bottom: [&[u8]; 2] = [&[0, 0x10, 0x00, 64], &label];
        let labels = before(&bottom.concat(), &inner);
        let all: Vec<(&str, Vec<u8>)> = vec![
            ("GTP-U", gtp(&[0x30, 0xff, 0, 0, 0, 0, 0, 1], &inner)),
            ("GTP-U", gtp(&[0x32, 0xff, 0, 0, 0, 0, 0, 1, 0, 7, 0, 0], &inner)),
            // This header has two extensions: a PDU session container, and an extension of two words.
            (
                "GTP-U",
                gtp(
                    &[0x34, 0xff, 0, 0, 0, 0, 0, 1, 0, 7, 0, 0x85, 1, 0, 9, 0xc0, 2, 1, 2, 3, 4, 5, 6, 0],
                    &inner6,
                ),
            ),
            // The header's field for the type of the next extension header is ignored unless the flag E is set.
            ("GTP-U", gtp(&[0x31, 0xff, 0, 0, 0, 0, 0, 1, 0, 0, 5, 0x85], &inner)),
            ("GTP-U", gtp(&[0x30, 0xff, 0, 0, 0, 0, 0, 1], &frame)),
            ("VXLAN", datagram(4_789, &before(&[8, 0, 0, 0, 0, 0, 9, 0], &frame))),
            ("VXLAN", datagram(8_472, &before(&[8, 0, 0, 0, 0, 0, 9, 0], &frame))),
            ("VXLAN-GPE", datagram(4_790, &before(&[0x0c, 0, 0, 1, 0, 0, 9, 0], &inner))),
            ("Geneve", datagram(6_081, &before(&[0, 0, 0x65, 0x58, 0, 0, 9, 0], &frame))),
            ("Geneve", datagram(6_081, &before(&[2, 0, 8, 0, 0, 0, 9, 0, 1, 2, 3, 1, 0, 0, 0, 0], &inner))),
            ("GRE", gre(&[0, 0, 8, 0], &inner)),
            ("GRE", gre(&[0xb0, 0, 8, 0, 1, 2, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1], &inner)),
            ("GRE", gre(&[0x20, 0, 0x86, 0xdd, 0, 0, 0, 7], &inner6)),
            // This header has a source route of four bytes, and the empty route that ends the list.
            ("GRE", gre(&[0x40, 0, 8, 0, 0, 0, 0, 0, 8, 0, 0, 4, 10, 0, 0, 3, 0, 0, 0, 0], &inner)),
            ("GRE", gre(&[0, 0, 0x65, 0x58], &frame)),
            ("GRE", gre(&[0x20, 0, 0x65, 0x58, 0, 0, 9, 1], &frame)),
            ("ERSPAN", gre(&[0x10, 0, 0x88, 0xbe, 0, 0, 0, 1, 0x10, 0, 0, 0, 0, 0, 0, 0], &frame)),
            (
                "GRE",
                gre(&[0x30, 0x81, 0x88, 0x0b, 0, 20, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0xff, 3, 0x21], &inner),
            ),
            ("GRE", datagram(4_754, &before(&[0, 0, 8, 0], &inner))),
            ("GRE MPLS", gre(&[0, 0, 0x88, 0x47], &labels)),
            ("MPLS", datagram(6_635, &labels)),
            ("MPLS", v4_packet(137, &labels)),
            ("MPLS", datagram(6_635, &before(&[0, 0x10, 1, 64, 0, 0, 0, 1], &frame))),
            // Two pseudowires without a control word. The destination address of the frame looks like an IPv4 packet in
            // the first, and like a control word in the second.
            ("MPLS", datagram(6_635, &before(&[0, 0x10, 1, 64], &frame))),
            ("MPLS", datagram(6_635, &before(&[0, 0x10, 1, 64, 0, 0x1b, 0x21], &frame[3..]))),
            ("IP in IP (4in4)", v4_packet(4, &inner)),
            ("IP in IP (6in4)", v4_packet(41, &inner6)),
            ("IP in IP (4in6)", v6_packet(4, &inner)),
            ("IP in IP (6in6)", v6_packet(41, &inner6)),
            ("GTP-U IP in IP (4in4)", gtp(&[0x30, 0xff, 0, 0, 0, 0, 0, 1], &v4_packet(4, &inner))),
            (
                "VXLAN PPPoE",
                datagram(
                    4_789,
                    &before(
                        &[8, 0, 0, 0, 0, 0, 9, 0],
                        &ethernet(0x8864, &before(&[0x11, 0, 0, 1, 0, 28, 0, 0x21], &inner)),
                    ),
                ),
            ),
        ];
        for (expected, packet) in &all {
            assert_eq!(names(packet).join(" "), *expected, "{packet:02x?}");
            // A packet that is cut at any position, or has any byte changed, causes no panic.
            for at in 0..packet.len() {
                let mut changed = packet.clone();
                changed[at] = !changed[at];
                for bytes in [&packet[..at], &changed] {
                    if let Some(found) = carried(CapturedBytes::new(bytes, packet.len())) {
                        let _ = matches!(open(&found), Tunnel::Carries(_));
                    }
                }
            }
        }
    }

    #[test]
    fn payloads_without_an_ip_packet_are_no_tunnel_or_are_named() {
        let echo = datagram(2_152, &[0x32, 1, 0, 4, 0, 0, 0, 0, 0, 1, 0, 0]);
        assert_eq!(names(&echo), Vec::<&str>::new(), "an echo request of GTP-U");
        let arp = datagram(4_789, &[&[8, 0, 0, 0, 0, 0, 9, 0][..], &ethernet(0x0806, &[0; 28])].concat());
        assert_eq!(names(&arp), ["tunnelled frames without IP"]);
        assert_eq!(names(&datagram(53, b"\x30\xff")), Vec::<&str>::new());
        // If the capture kept only a part of the outer packet, the inner packet is also marked as cut.
        let packet = v4_packet(4, &v4_packet(132, &[7; 100]));
        let found = carried(CapturedBytes::new(&packet[..80], packet.len())).expect("a packet");
        let Tunnel::Carries(inner) = open(&found) else { panic!("a packet within") };
        assert!(
            inner.is_cut && inner.payload.len() == 100 && inner.payload[39] == 7 && inner.payload[40] == 0
        );
    }

    #[test]
    fn tunnels_in_tunnels_have_an_end() {
        let mut packet = v4_packet(132, b"within");
        for _ in 0..MAX_TUNNELS + 1 {
            packet = v4_packet(4, &packet);
        }
        let mut found = carried(CapturedBytes::whole(&packet)).expect("a packet");
        let mut depth = 0;
        loop {
            let next = match open(&found) {
                Tunnel::Carries(inner) => IpPayload { payload: inner.payload.into_owned().into(), ..inner },
                Tunnel::Other(what) => break assert_eq!(what, "packets in too many tunnels"),
                Tunnel::None => panic!("{:?}", found.tunnel),
            };
            (found, depth) = (next, depth + 1);
        }
        assert_eq!(depth, MAX_TUNNELS);
    }
}
