//! Tests with conversations in tunnels, and on links without IP.

use super::*;

/// Returns an IP packet that carries a UDP datagram to `port`. The payload of the datagram is the tunnel's `header` and
/// the inner `packet`.
fn in_udp(tape: &mut CaptureBuilder, port: u16, header: &[u8], packet: &[u8]) -> Vec<u8> {
    let (from, to) = (Ipv4Addr::new(10, 9, 0, 1), Ipv4Addr::new(10, 9, 0, 2));
    let mut bytes = [&[0; 8], header, packet].concat();
    udp::emit_in_place(&mut bytes, SocketAddr::from((from, 2_152)), SocketAddr::from((to, port)));
    tape.ip(17, from, to, &bytes)
}

/// Returns two packets of an association whose beginning is missing: data, and its acknowledgement.
fn exchange(tape: &mut CaptureBuilder) -> [Vec<u8>; 2] {
    let data = sctp(true, TAG_B, |b| data(9, 0).emit(b));
    let sack = sctp(false, TAG_A, |b| sack(9, &[], &[]).emit(b));
    [tape.ip(132, A, B, &data), tape.ip(132, B, A, &sack)]
}

#[test]
fn a_conversation_says_which_tunnels_it_travels_in() {
    let gtp = [0x34, 0xff, 0, 0, 0, 0, 0, 1, 0, 7, 0, 0x85, 1, 0, 9, 0];
    let vxlan = [&[8, 0, 0, 0, 0, 0, 9, 0][..], &[2; 12], &[8, 0]].concat();
    let cases: [(u16, &[u8], &[&str]); 3] =
        [(2_152, &gtp, &["GTP-U"]), (4_789, &vxlan, &["VXLAN"]), (6_635, &[0, 0x10, 1, 64], &["MPLS"])];
    for (port, header, names) in cases {
        let mut tape = CaptureBuilder::ethernet();
        for (millis, packet) in exchange(&mut tape).iter().enumerate() {
            let outer = in_udp(&mut tape, port, header, packet);
            tape.frame(millis as u32 * 1_000, &outer);
        }
        let decoded = tape.decoded();
        let [conversation] = &decoded.conversations[..] else { panic!("{decoded:?}") };
        assert_eq!(conversation.tunnel, names);
        assert_eq!((conversation.directions[0].data, conversation.directions[1].acks), (1, 1));
        assert_eq!(
            conversation.sides[0].addresses,
            ["192.0.2.1"],
            "the ends of the conversation, not the tunnel's"
        );
        let text = table::render(&decoded, 3);
        assert!(text.contains(&format!("  in a tunnel: {}\n", names.join(", "))), "{text}");
        let json: serde_json::Value = serde_json::from_str(&decoded.to_json()).expect("JSON");
        assert_eq!(json["conversations"][0]["tunnel"], serde_json::json!(names));
    }
}

#[test]
fn a_packet_that_was_captured_in_and_out_of_a_tunnel_counts_once() {
    let mut tape = CaptureBuilder::ethernet();
    for (millis, packet) in exchange(&mut tape).iter().enumerate() {
        let outer = in_udp(&mut tape, 2_152, &[0x30, 0xff, 0, 0, 0, 0, 0, 1], packet);
        tape.frame(millis as u32 * 10_000, packet);
        tape.frame(millis as u32 * 10_000 + 2_000, &outer);
    }
    let conversation = tape.decoded().conversations.remove(0);
    let counts = conversation.directions.map(|way| (way.packets, way.copies, way.captured_twice));
    assert_eq!((counts, conversation.tunnel), ([(1, 1, 1); 2], vec!["GTP-U"]));
}

#[test]
fn fragments_inside_and_outside_a_tunnel_are_reassembled() {
    let mut tape = CaptureBuilder::ethernet();
    let whole = sctp(true, TAG_B, |b| Data { payload: &[1; 1_000], ..data(1, 0) }.emit(b));
    let packet = tape.ip(132, A, B, &whole);
    let mut pieces = Fragmenter::of(&packet, 620, 9).expect("it may be cut");
    let mut piece = Vec::new();
    while pieces.append_next(&mut piece) {
        let inner = std::mem::take(&mut piece);
        let outer = in_udp(&mut tape, 2_152, &[0x30, 0xff, 0, 0, 0, 0, 0, 1], &inner);
        let mut outer_pieces = Fragmenter::of(&outer, 420, 11).expect("it may be cut");
        while outer_pieces.append_next(&mut piece) {
            tape.frame(0, &std::mem::take(&mut piece));
        }
    }
    let decoded = tape.decoded();
    assert_eq!(decoded.conversations[0].directions[0].bytes, 1_000);
    assert_eq!((decoded.packets, decoded.left_out.len()), (4, 0));
}

#[test]
fn ports_that_are_named_for_sctp_are_no_tunnel() {
    let mut tape = CaptureBuilder::ethernet();
    // The SCTP packet looks like a GTP-U packet: its source port, 0x30ff, equals the first two bytes of a GTP-U header
    // with message type 255.
    let mut bytes = Vec::new();
    let start = packet::begin(&mut bytes, 0x30ff, 80, 7);
    data(9, 0).emit(&mut bytes);
    packet::finish(&mut bytes, start);
    let outer = in_udp(&mut tape, 2_152, &[], &bytes);
    tape.frame(0, &outer);
    let settings = Settings { udp_ports: vec![(2_152, None)], ..Settings::default() };
    let decoded = decode("test", &tape.bytes[..], &settings).expect("a capture");
    assert_eq!(
        (decoded.conversations[0].udp_ports, decoded.conversations[0].tunnel.len()),
        (Some([2_152; 2]), 0)
    );
    assert_eq!(tape.decoded().left_out["tunnelled frames without IP"], 1);
}

/// Packets of link type 248 begin with the common header of SCTP.
#[test]
fn sctp_without_ip_has_no_addresses() {
    let mut tape = CaptureBuilder::new(248, &[]);
    for bytes in [
        sctp(true, TAG_B, |b| data(9, 0).emit(b)),
        sctp(false, TAG_A, |b| sack(9, &[], &[]).emit(b)),
        sctp(true, TAG_B, |b| data(10, 0).emit(b)),
    ] {
        tape.frame(0, &bytes);
    }
    let decoded = tape.decoded();
    let [conversation] = &decoded.conversations[..] else { panic!("{decoded:?}") };
    assert_eq!((conversation.directions[0].data, conversation.directions[1].acks), (2, 1));
    assert_eq!(conversation.sides[0].addresses, [""; 0]);
    let text = table::render(&decoded, 3);
    assert!(text.contains("SCTP  A = port 5000 tag 0000aaaa   B = port 80 tag 0000bbbb\n"), "{text}");
}

#[test]
fn packets_that_a_capture_cut_before_they_had_a_length_are_whole() {
    let mut tape = CaptureBuilder::ethernet();
    let ack = Header { seq: Seq(1), ack: Seq(1), flags: Flags::ACK, ..Header::default() };
    let mut bytes = Vec::new();
    Header { source_port: 40_000, target_port: 80, ..ack }.emit(&mut bytes);
    let mut packet = tape.ip(6, A, B, &bytes);
    // RFC 791 §3.1: the total length is 0, because the network card sets it when it splits the segment. The capture
    // keeps only the headers of the segment.
    packet[2..4].fill(0);
    tape.frame(0, &packet);
    let whole = 14 + 40 + 30_000_u32;
    let at = tape.bytes.len() - 14 - 40 - 4;
    tape.bytes[at..at + 4].copy_from_slice(&whole.to_be_bytes());
    let direction = &tape.decoded().conversations[0].directions[0];
    assert_eq!((direction.bytes, direction.wire_bytes), (30_000, 30_040));
}
