//! Decodes captures with tunnels, as the command `decode` does. The target generates packets of SCTP and TCP, puts them
//! into tunnels and link-layer frames, truncates them and changes them. The fuzz input decides each of these steps.

use crate::source::Source;
use anabranch_capture::{Settings, csv, decode, table, why};
use anabranch_wire::ip::{fragment::Fragmenter, v4, v6};
use anabranch_wire::sctp::{Data, GapBlock, Heartbeat, HeartbeatAck, Init, Sack, Tsn, packet};
use anabranch_wire::tcp::{self, Flags, Header, Seq};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Link types, each with the bytes before a packet on such a link.
const LINKS: &[(u16, &[u8])] = &[
    (101, &[]),
    (1, &[2, 2, 2, 2, 2, 2, 4, 4, 4, 4, 4, 4, 8, 0]),
    (1, &[2, 2, 2, 2, 2, 2, 4, 4, 4, 4, 4, 4, 0x81, 0, 0, 5, 8, 0]),
    (1, &[2, 2, 2, 2, 2, 2, 4, 4, 4, 4, 4, 4, 0x88, 0x47, 0, 1, 1, 64]),
    (1, &[2, 2, 2, 2, 2, 2, 4, 4, 4, 4, 4, 4, 0x88, 0x64, 0x11, 0, 0, 1, 1, 0, 0, 0x21]),
    (9, &[0xff, 3, 0, 0x21]),
    (9, &[0x21]),
    (51, &[0x11, 0, 0, 1, 1, 0, 0, 0x21]),
    (104, &[0x0f, 0, 8, 0]),
    (113, &[0, 4, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0]),
    (276, &[8, 0, 0, 0, 0, 0, 0, 2, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0]),
    (239, &[2, 0, 0, 1, 8, 0, 1, 0, 8, 0, 3, 0, 99, 0, 9, 0]),
    (248, &[]),
];

/// UDP ports of tunnels, each with the tunnel's header.
const IN_UDP: &[(u16, &[u8])] = &[
    (2_152, &[0x30, 0xff, 0, 0, 0, 0, 0, 1]),
    (2_152, &[0x36, 0xff, 0, 0, 0, 0, 0, 1, 0, 7, 0, 0x85, 1, 0, 9, 0x85, 2, 1, 1, 1, 1, 1, 1, 0]),
    (4_789, &[8, 0, 0, 0, 0, 0, 9, 0, 2, 2, 2, 2, 2, 2, 4, 4, 4, 4, 4, 4, 8, 0]),
    (4_790, &[12, 0, 0, 1, 0, 0, 9, 0]),
    (6_081, &[1, 0, 8, 0, 0, 0, 9, 0, 1, 2, 3, 0]),
    (6_635, &[0, 1, 0, 64, 0, 1, 1, 64]),
    (4_754, &[0x70, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0]),
    (9_899, &[]),
];

/// GRE headers: plain, with source routes, with a key, ERSPAN and PPTP.
const GRE: &[&[u8]] = &[
    &[0, 0, 8, 0],
    &[0x40, 0, 8, 0, 0, 0, 0, 0, 8, 0, 0, 4, 10, 0, 0, 3, 0, 0, 0, 0],
    &[0x20, 0, 0x65, 0x58, 0, 0, 9, 1, 2, 2, 2, 2, 2, 2, 4, 4, 4, 4, 4, 4, 8, 0],
    &[0x10, 0, 0x88, 0xbe, 0, 0, 0, 1, 0x10, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 4, 4, 4, 4, 4, 4, 8, 0],
    &[0x30, 0x81, 0x88, 0x0b, 0, 20, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0xff, 3, 0x21],
];

/// Decodes captures whose packets are in tunnels.
pub fn run(input: &[u8]) {
    let mut source = Source::new(input);
    let (link_type, front) = source.pick(LINKS);
    let mut capture = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
    for field in [0, 0, 65_535, u32::from(link_type)] {
        capture.extend(field.to_le_bytes());
    }
    let (mut micros, mut frames) = (0_u32, 0_u64);
    while !source.is_over() && frames < 200 {
        micros += source.below(100_000);
        let mut packets = vec![if link_type == 248 { sctp(&mut source) } else { carried(&mut source) }];
        for _ in 0..source.below(11) {
            packets = packets.into_iter().flat_map(|packet| tunnelled(&mut source, packet)).collect();
            packets.truncate(8);
        }
        for packet in packets {
            let mut frame = [front, &packet].concat();
            let whole = frame.len();
            change(&mut source, &mut frame);
            // Writes the frame once or twice: a capture of all interfaces may contain a frame twice.
            for _ in 0..1 + source.below(2) {
                let length = if source.one_in(8) { source.number() } else { whole.max(frame.len()) as u32 };
                for field in [micros / 1_000_000, micros % 1_000_000, frame.len() as u32, length] {
                    capture.extend(field.to_le_bytes());
                }
                capture.extend_from_slice(&frame);
                frames += 1;
            }
        }
    }
    let settings =
        Settings { ladder_lines: 20, max_view_items: 20, max_events: 1_000, ..Settings::default() };
    let Ok(decoded) = decode("fuzz", &capture[..], &settings) else { return };
    assert_eq!(decoded.packets, frames);
    let left_out: u64 = decoded.left_out.values().sum::<u64>() + decoded.not_followed.packets;
    let directions = decoded.conversations.iter().flat_map(|conversation| &conversation.directions);
    let counted: u64 =
        directions.clone().map(|direction| direction.packets + direction.copies + direction.damaged).sum();
    // All fragments of a packet count as one packet.
    assert!(left_out + counted <= frames, "{left_out} and {counted} of {frames}");
    for direction in directions {
        assert!(
            direction.captured_twice <= direction.copies && direction.checksums_left <= direction.packets
        );
    }
    assert!(decoded.conversations.iter().all(|conversation| conversation.tunnel.len() <= 8));
    assert!(!table::render(&decoded, 3).is_empty() && !csv::render(&decoded).is_empty());
    assert!(!why::render(&decoded).is_empty());
    assert!(decoded.to_json().ends_with('\n'));
}

/// Truncates a frame, or changes some of its bytes.
fn change(source: &mut Source<'_>, frame: &mut Vec<u8>) {
    if source.one_in(4) {
        frame.truncate(source.below(frame.len() as u32 + 1) as usize);
    }
    for _ in 0..source.below(16).saturating_sub(11) {
        if !frame.is_empty() {
            let at = source.below(frame.len() as u32) as usize;
            frame[at] = source.byte();
        }
    }
}

fn carried(source: &mut Source<'_>) -> Vec<u8> {
    if source.one_in(3) {
        let bytes = segment(source);
        return ip(source, tcp::PROTOCOL, &bytes);
    }
    let bytes = sctp(source);
    ip(source, 132, &bytes)
}

/// Returns an IP packet with addresses from a small set, so that packets belong to the same conversations.
fn ip(source: &mut Source<'_>, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let (from, to) = (source.below(3) as u8 + 1, source.below(3) as u8 + 1);
    let length = payload.len() as u16;
    let mut bytes = vec![0; if source.one_in(5) { v6::HEADER_LEN } else { v4::HEADER_LEN }];
    if bytes.len() == v6::HEADER_LEN {
        v6::Header::new(Ipv6Addr::from([from; 16]), Ipv6Addr::from([to; 16]), protocol, length)
            .emit(&mut bytes);
    } else {
        let identification = source.byte().into();
        let header = v4::Header::new(
            Ipv4Addr::from([10, 0, 0, from]),
            Ipv4Addr::from([10, 0, 0, to]),
            protocol,
            length,
        );
        v4::Header { identification, dont_fragment: false, ..header }.emit(&mut bytes);
        if source.one_in(10) {
            bytes[2..4].fill(0);
        }
    }
    bytes.extend_from_slice(payload);
    bytes
}

fn sctp(source: &mut Source<'_>) -> Vec<u8> {
    let ports = [5_000, 80, 36_412];
    let mut bytes = Vec::new();
    let tag = source.below(4);
    let start = packet::begin(&mut bytes, source.pick(&ports), source.pick(&ports), tag);
    for _ in 0..1 + source.below(3) {
        let tsn = Tsn((u32::MAX - 4).wrapping_add(source.below(10)));
        let info = [source.byte() % 3];
        match source.below(5) {
            0 => Init { tag: 1 + source.below(3), tsn, ..Init::default() }.emit(&mut bytes),
            1 => Heartbeat { info: &info, rest: &[] }.emit(&mut bytes),
            2 => HeartbeatAck { info: &info, rest: &[] }.emit(&mut bytes),
            3 => {
                let gaps = [GapBlock { start: 2, end: 2 + source.below(4) as u16 }];
                let gaps = &gaps[..source.below(2) as usize];
                Sack { cumulative: tsn, window: 9, gaps, duplicates: &[] }.emit(&mut bytes);
            }
            _ => Data { tsn, begin: true, end: true, payload: &[7; 10], ..Data::default() }.emit(&mut bytes),
        }
    }
    packet::finish(&mut bytes, start);
    if source.one_in(4) {
        // Writes an arbitrary checksum, as in a packet whose checksum is left to the network card.
        let sum = source.number();
        bytes[8..12].copy_from_slice(&sum.to_le_bytes());
    }
    bytes
}

fn segment(source: &mut Source<'_>) -> Vec<u8> {
    let ports = [4_000, 80];
    let flags = source.pick(&[
        Flags::ACK,
        Flags::ACK,
        Flags::SYN,
        Flags::SYN.with(Flags::ACK),
        Flags::FIN.with(Flags::ACK),
        Flags::RST,
    ]);
    let mut bytes = Vec::new();
    let header = Header {
        source_port: source.pick(&ports),
        target_port: source.pick(&ports),
        seq: Seq((u32::MAX - 40).wrapping_add(source.below(80))),
        ack: Seq((u32::MAX - 40).wrapping_add(source.below(80))),
        flags,
        window: 9,
        ..Header::default()
    };
    header.emit(&mut bytes);
    bytes.extend_from_slice(&[7; 30][..source.below(31) as usize]);
    let sum = source.number() as u16;
    bytes[16..18].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// Returns a packet in a tunnel, possibly fragmented.
fn tunnelled(source: &mut Source<'_>, packet: Vec<u8>) -> Vec<Vec<u8>> {
    let outer = match source.below(4) {
        0 => ip(source, if packet.first().is_some_and(|byte| byte >> 4 == 6) { 41 } else { 4 }, &packet),
        1 => {
            let bytes = [source.pick(GRE), &packet].concat();
            ip(source, 47, &bytes)
        }
        2 => {
            let (port, header) = source.pick(IN_UDP);
            let length = (8 + header.len() + packet.len()) as u16;
            let mut bytes = [port.to_be_bytes(), port.to_be_bytes(), length.to_be_bytes(), [0; 2]].concat();
            bytes.extend([header, &packet].concat());
            ip(source, 17, &bytes)
        }
        _ => packet,
    };
    let mut found = Vec::new();
    if source.one_in(12)
        && let Some(mut pieces) = Fragmenter::of(&outer, 60 + source.below(60) as usize, 9)
    {
        let mut piece = Vec::new();
        while pieces.append_next(&mut piece) {
            found.push(std::mem::take(&mut piece));
        }
        return found;
    }
    found.push(outer);
    found
}
