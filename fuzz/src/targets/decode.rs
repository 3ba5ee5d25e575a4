//! Runs decoders, which must not panic for any input. A decoded SCTP chunk must not change if it is encoded and decoded
//! again. A ladder diagram must accept every packet.

use anabranch_wire::ladder::{Ladder, Side, Transport};
use anabranch_wire::sctp::{Chunk, Chunks, Param, Params, packet};
use anabranch_wire::{icmp, ip, pcap as pcapng, sctp, tcp, udp};
use std::net::IpAddr;

/// Decodes an SCTP packet, its chunks, parameters and causes.
pub fn sctp(input: &[u8]) {
    let _ = sctp::PacketView::parse(input);
    let mut sealed = input.to_vec();
    if sealed.len() >= packet::HEADER {
        packet::finish(&mut sealed, 0);
    }
    let mut ladder = Ladder::new(Transport::Sctp, "A", "B");
    let address = IpAddr::from([10, 0, 0, 1]);
    ladder.set_side(address, Side::Left, "A");
    let _ = ladder.line(anabranch_base::Instant::ZERO, address, IpAddr::from([10, 0, 0, 2]), &sealed);
    let Ok(view) = sctp::PacketView::parse_unverified(input) else {
        return;
    };
    let mut chunks = view.chunks();
    while let Some(raw) = chunks.next_raw() {
        let Ok(raw) = raw else { break };
        // The value of each chunk is also decoded as parameters and as error causes. This tests both parsers with all
        // kinds of input.
        for param in Params::new(raw.value) {
            let _ = param.map(|param| (param.to_string(), again(&param)));
        }
        for cause in sctp::cause::Causes::new(raw.value) {
            let _ = cause.map(|cause| cause.to_string());
        }
        let Ok(chunk) = Chunk::parse(raw) else { continue };
        let line = chunk.to_string();
        let mut bytes = Vec::new();
        chunk.emit(&mut bytes);
        let mut chunks = Chunks::new(&bytes);
        let raw = chunks.next_raw().expect("a chunk").expect("a good one");
        let read = Chunk::parse(raw).expect("what was written can be read");
        assert_eq!(read.to_string(), line, "written and read again: {bytes:02x?}");
        if let Chunk::ReConfig(chunk) = chunk {
            chunk.params().for_each(drop);
        }
    }
}

fn again(param: &Param<'_>) {
    let mut bytes = Vec::new();
    let mut chunk = sctp::ChunkWriter::open(&mut bytes, 1, 0);
    param.emit(&mut chunk);
    chunk.close();
}

/// Decodes an IP packet and its content: TCP with options, UDP, ICMP.
pub fn ip(input: &[u8]) {
    let mut sealed = input.to_vec();
    if sealed.len() >= 20 && sealed[0] >> 4 == 4 {
        ip::v4::refresh_checksum(&mut sealed);
    }
    let addresses = [IpAddr::from([10, 0, 0, 1]), IpAddr::from([0x2001_u16, 0, 0, 0, 0, 0, 0, 1])];
    let _ = ip::addresses(input);
    for bytes in [input, &sealed] {
        for packet in [ip::Packet::parse(bytes), ip::Packet::parse_quoted(bytes)].into_iter().flatten() {
            payload(packet.payload, packet.source, packet.target);
            let _ = icmp::may_report(&packet);
        }
        ip::decrement_hop_limit(&mut bytes.to_vec());
    }
    for address in addresses {
        payload(input, address, address);
    }
}

fn payload(bytes: &[u8], source: IpAddr, target: IpAddr) {
    let _ = udp::Datagram::parse(bytes, source, target);
    let _ = udp::Datagram::parse_quoted(bytes);
    let _ = icmp::Message::parse(bytes, source, target);
    let _ = tcp::header::is_intact(bytes, source, target);
    let _ = tcp::header::peek_ports_and_seq(bytes);
    if let Ok(segment) = tcp::header::Segment::parse(bytes) {
        let _ = segment.sequence_len();
    }
    let _ = tcp::options::Options::parse(bytes);
    let mut ladder = Ladder::new(Transport::Tcp, "A", "B");
    let _ = ladder.line(anabranch_base::Instant::ZERO, source, target, bytes);
}

/// Decodes the frames in the payload of a QUIC packet, and a whole datagram.
pub fn quic(input: &[u8]) {
    anabranch_quic::testing::payload(input);
    anabranch_quic::testing::datagram(input);
}

/// Reads a capture file, pcap or pcapng.
pub fn pcap(input: &[u8]) {
    let Ok(mut reader) = pcapng::Reader::new(input) else {
        return;
    };
    let mut packets = 0;
    while let Ok(Some(_)) = reader.next_packet() {
        packets += 1;
        assert!(packets <= input.len(), "more packets than bytes");
    }
    assert!(reader.interfaces().len() <= input.len());
}
