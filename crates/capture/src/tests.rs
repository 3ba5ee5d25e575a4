//! Tests with captures in the formats that other programs write, and with damaged captures. The tests construct the
//! bytes of these captures.

mod encrypted;
mod ends;
mod field;
mod fields;
mod findings;
mod tunnels;

use super::results::Decoded;
use super::views::{SendReason, View};
use super::{CONVERSATIONS, DecodeError, Settings, decode, table};
use anabranch_base::Rng;
use anabranch_wire::ip::{fragment::Fragmenter, v4, v6};
use anabranch_wire::pcap::Writer;
use anabranch_wire::sctp::{
    Abort, CookieAck, CookieEcho, Data, GapBlock, Heartbeat, HeartbeatAck, Init, InitAck,
};
use anabranch_wire::sctp::{Param, Sack, Shutdown, ShutdownAck, ShutdownComplete, Tsn, packet};
use anabranch_wire::tcp::{self, Flags, Header, Seq};
use anabranch_wire::udp;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const A: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const B: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const A2: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
const B2: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);

/// A pcap capture in memory with timestamps in microseconds and big-endian numbers. This project's own capture writer
/// cannot write big-endian captures.
struct CaptureBuilder {
    bytes: Vec<u8>,
    link: Vec<u8>,
    identification: u16,
}

impl CaptureBuilder {
    fn new(link_type: u32, link: &[u8]) -> Self {
        let mut bytes = vec![0xa1, 0xb2, 0xc3, 0xd4, 0, 2, 0, 4];
        for n in [0, 0, 65_535, link_type] {
            bytes.extend(n.to_be_bytes());
        }
        Self { bytes, link: link.to_vec(), identification: 0 }
    }

    /// Creates an empty capture with the link type Ethernet.
    fn ethernet() -> Self {
        Self::new(1, &[[2; 12].as_slice(), &[8, 0]].concat())
    }

    fn frame(&mut self, micros: u32, packet: &[u8]) {
        let length = (self.link.len() + packet.len()) as u32;
        for n in [micros / 1_000_000 + 1_700_000_000, micros % 1_000_000, length, length] {
            self.bytes.extend(n.to_be_bytes());
        }
        self.bytes.extend_from_slice(&self.link);
        self.bytes.extend_from_slice(packet);
    }

    fn ip(&mut self, protocol: u8, from: Ipv4Addr, to: Ipv4Addr, payload: &[u8]) -> Vec<u8> {
        self.identification = self.identification.wrapping_add(1);
        let header = v4::Header {
            identification: self.identification,
            dont_fragment: false,
            ..v4::Header::new(from, to, protocol, payload.len() as u16)
        };
        let mut packet = vec![0; 20];
        header.emit(&mut packet);
        packet.extend_from_slice(payload);
        packet
    }

    fn sctp(
        &mut self,
        millis: u32,
        from: Ipv4Addr,
        to: Ipv4Addr,
        tag: u32,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let bytes = sctp(from == A || from == A2, tag, write);
        let packet = self.ip(132, from, to, &bytes);
        self.frame(millis * 1_000, &packet);
    }

    fn tcp(&mut self, millis: u32, from: Ipv4Addr, header: Header, payload: &[u8]) {
        let to = if from == A { B } else { A };
        let (source_port, target_port) = if from == A { (40_000, 80) } else { (80, 40_000) };
        let mut bytes = Vec::new();
        Header { source_port, target_port, window: 1_000, ..header }.emit(&mut bytes);
        bytes.extend_from_slice(payload);
        tcp::seal(&mut bytes, from.into(), to.into());
        let packet = self.ip(6, from, to, &bytes);
        self.frame(millis * 1_000, &packet);
    }

    fn decoded(&self) -> Decoded {
        read(&self.bytes).expect("a capture")
    }
}

fn read(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    decode("test", bytes, &Settings { ladder_lines: 100, ..Settings::default() })
}

fn sctp(from_a: bool, tag: u32, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (source, target) = if from_a { (5_000, 80) } else { (80, 5_000) };
    let start = packet::begin(&mut bytes, source, target, tag);
    write(&mut bytes);
    packet::finish(&mut bytes, start);
    bytes
}

const TAG_A: u32 = 0xaaaa;
const TAG_B: u32 = 0xbbbb;

fn data(tsn: u32, stream: u16) -> Data<'static> {
    Data { tsn: Tsn(tsn), stream, begin: true, end: true, payload: &[7; 100], ..Data::default() }
}

fn sack(cumulative: u32, gaps: &'static [GapBlock], duplicates: &'static [Tsn]) -> Sack<'static> {
    Sack { cumulative: Tsn(cumulative), window: 65_536, gaps, duplicates }
}

/// Appends the four handshake messages of an association, which take 50 ms. The capture is made at the initiator.
fn open(tape: &mut CaptureBuilder) {
    let init = Init {
        tag: TAG_A,
        window: 65_536,
        outbound_streams: 4,
        inbound_streams: 4,
        tsn: Tsn(100),
        ..Init::default()
    };
    tape.sctp(0, A, B, 0, |b| init.emit(b));
    tape.sctp(50, B, A, TAG_A, |b| {
        let mut chunk = InitAck(Init { tag: TAG_B, tsn: Tsn(700), ..init }).open(b);
        Param::StateCookie(&[1; 8]).emit(&mut chunk);
        chunk.close();
    });
    tape.sctp(50, A, B, TAG_B, |b| CookieEcho { cookie: &[1; 8] }.emit(b));
    tape.sctp(100, B, A, TAG_A, |b| CookieAck.emit(b));
}

#[test]
fn an_association_from_beginning_to_end() {
    let mut tape = CaptureBuilder::ethernet();
    open(&mut tape);
    // TSN 101 is lost. Three SACKs report the loss, and the data is retransmitted.
    for tsn in 100..105 {
        tape.sctp(100 + tsn - 100, A, B, TAG_B, |b| data(tsn, (tsn % 2) as u16).emit(b));
    }
    tape.sctp(150, B, A, TAG_A, |b| sack(100, &[], &[]).emit(b));
    tape.sctp(152, B, A, TAG_A, |b| sack(100, &[GapBlock { start: 2, end: 2 }], &[]).emit(b));
    tape.sctp(153, B, A, TAG_A, |b| sack(100, &[GapBlock { start: 2, end: 3 }], &[]).emit(b));
    tape.sctp(154, B, A, TAG_A, |b| sack(100, &[GapBlock { start: 2, end: 4 }], &[]).emit(b));
    tape.sctp(154, A, B, TAG_B, |b| data(101, 1).emit(b));
    tape.sctp(204, B, A, TAG_A, |b| sack(104, &[], &[]).emit(b));
    // TSN 105 is lost, and retransmitted twice after timeouts. The second retransmission is acknowledged after only 10
    // ms and reported as a duplicate, so it was spurious.
    tape.sctp(300, A, B, TAG_B, |b| data(105, 1).emit(b));
    tape.sctp(1_300, A, B, TAG_B, |b| data(105, 1).emit(b));
    tape.sctp(3_300, A, B, TAG_B, |b| data(105, 1).emit(b));
    tape.sctp(3_310, B, A, TAG_A, |b| sack(105, &[], &[Tsn(105)]).emit(b));
    // A heartbeat on the second path is answered after 20 ms.
    tape.sctp(3_400, A2, B2, TAG_B, |b| Heartbeat { info: &[5; 8], rest: &[] }.emit(b));
    tape.sctp(3_420, B2, A2, TAG_A, |b| HeartbeatAck { info: &[5; 8], rest: &[] }.emit(b));
    tape.sctp(4_000, A, B, TAG_B, |b| Shutdown { cumulative: Tsn(699) }.emit(b));
    tape.sctp(4_050, B, A, TAG_A, |b| ShutdownAck.emit(b));
    tape.sctp(4_050, A, B, TAG_B, |b| ShutdownComplete { reflected: false }.emit(b));

    let decoded = tape.decoded();
    let [conversation] = &decoded.conversations[..] else { panic!("{decoded:?}") };
    assert_eq!(
        (conversation.handshake.took_ns, conversation.handshake.rtt_ns),
        (Some(100_000_000), Some(50_000_000))
    );
    assert_eq!(
        (conversation.end.how, conversation.end.by, conversation.end.at_ns),
        ("shutdown", Some("A"), Some(4_050_000_000))
    );
    let up = &conversation.directions[0];
    assert_eq!((up.data, up.messages, up.bytes, up.numbers), (6, 6, 600, Some([100, 105])));
    assert_eq!((up.retransmitted.fast, up.retransmitted.timeout, up.retransmitted.spurious), (1, 2, 1));
    assert_eq!((up.retransmitted_packets, up.fast_packets, up.timeouts), (3, 1, 2));
    assert_eq!(
        (up.rtt.min_ns, up.rtt.max_ns),
        (50_000_000, 50_000_000),
        "what was sent twice is not measured"
    );
    assert_eq!(
        (up.streams[&0].messages, up.streams[&1].chunks, up.streams[&1].retransmitted.all()),
        (3, 3, 3)
    );
    assert_eq!((conversation.directions[1].gap_acks, conversation.directions[1].duplicates_reported), (3, 1));
    assert_eq!(conversation.sides[0].addresses, ["192.0.2.1", "198.51.100.1"]);
    let second = &conversation.paths[1].directions[0];
    assert_eq!((second.heartbeats, second.rtt.mean_ns), ([1, 1], 20_000_000));
    let remarks: Vec<&str> = conversation.ladder.iter().filter_map(|line| line.split('↻').nth(1)).collect();
    assert_eq!(remarks, [" fast retransmission", " timeout", " timeout, spurious"]);
    assert!(
        conversation.ladder.iter().any(|line| line.contains("A2 ──► B2  HEARTBEAT")),
        "{:#?}",
        conversation.ladder
    );
    assert!(table::render(&decoded, 5).contains("shut down by A at 4.050 s"));
}

#[test]
fn a_view_has_each_piece_with_its_cause_and_no_more_than_asked_for() {
    let mut tape = CaptureBuilder::ethernet();
    open(&mut tape);
    for (millis, tsn) in [(100, 100), (101, 101), (102, 102), (103, 103)] {
        tape.sctp(millis, A, B, TAG_B, |b| data(tsn, 0).emit(b));
    }
    tape.sctp(150, B, A, TAG_A, |b| sack(100, &[GapBlock { start: 2, end: 3 }], &[]).emit(b));
    // Only one SACK reported the loss, and nothing arrived for a long time. The cause of this retransmission is
    // therefore a timeout.
    tape.sctp(2_000, A, B, TAG_B, |b| data(101, 0).emit(b));
    tape.sctp(2_050, B, A, TAG_A, |b| sack(103, &[], &[]).emit(b));
    let view = |most: usize| {
        let settings = Settings { max_view_items: most, ..Settings::default() };
        decode("tape", &tape.bytes[..], &settings).expect("a capture").conversations[0].views[0].clone()
    };
    let whole = view(100);
    let pieces: Vec<(i64, SendReason)> = whole.data.iter().map(|data| (data.start, data.why)).collect();
    let expected = [
        (0, SendReason::New),
        (1, SendReason::New),
        (2, SendReason::New),
        (3, SendReason::New),
        (1, SendReason::Timeout),
    ];
    assert_eq!(pieces, expected);
    assert_eq!(whole.acknowledged.iter().map(|(_, unit)| *unit).collect::<Vec<_>>(), [1, 4]);
    // After the first SACK, three TSNs are not acknowledged cumulatively. Two of them have arrived, so one is in
    // flight.
    assert_eq!(whole.flight.iter().map(|(_, flight)| *flight).collect::<Vec<_>>(), [1, 2, 3, 4, 1, 0]);
    // Each SACK gives one round-trip time, measured from the newest data that it acknowledges. The data that the second
    // SACK acknowledges was sent twice, so it is not measured (Karn's algorithm).
    assert_eq!(whole.round_trips, [(150_000_000, 47_000_000)]);
    let cut = view(2);
    assert_eq!((cut.data.len(), cut.left_out, cut.flight.len()), (2, 3, 2));
    assert_eq!(view(0), View::default());
}

#[test]
fn a_stray_middle_an_abort_and_a_restart() {
    let mut tape = CaptureBuilder::ethernet();
    // The handshake was not captured. The tag of each side is learnt from the first packet to that side.
    tape.sctp(0, B, A, TAG_A, |b| data(9, 0).emit(b));
    tape.sctp(1, A, B, TAG_B, |b| sack(9, &[], &[]).emit(b));
    let reason = |b: &mut Vec<u8>| {
        let mut chunk = Abort::default().open(b);
        anabranch_wire::sctp::Cause::UserAbort(b"enough").emit(&mut chunk);
        chunk.close();
    };
    tape.sctp(2, A, B, TAG_B, reason);
    open(&mut tape);
    let decoded = tape.decoded();
    let [old, new] = &decoded.conversations[..] else { panic!("{decoded:?}") };
    assert_eq!((old.end.how, old.end.by), ("abort", Some("B")), "the first sender is A");
    assert!(old.end.reason.is_some() && !old.handshake.seen && new.handshake.seen);
    assert_eq!((new.end.how, new.end.at_ns), ("open", None));
}

#[test]
fn a_connection_from_beginning_to_end() {
    let mut tape = CaptureBuilder::ethernet();
    let ack =
        |seq: u32, ack: u32| Header { seq: Seq(seq), ack: Seq(ack), flags: Flags::ACK, ..Header::default() };
    let syn = Header { seq: Seq(u32::MAX - 1), flags: Flags::SYN, ..Header::default() };
    tape.tcp(0, A, syn, b"");
    tape.tcp(1_000, A, syn, b"");
    tape.tcp(
        1_080,
        B,
        Header { seq: Seq(10), ack: Seq(u32::MAX), flags: Flags::SYN.with(Flags::ACK), ..syn },
        b"",
    );
    let first = u32::MAX;
    tape.tcp(1_080, A, ack(first, 11), b"");
    for n in 0..5_u32 {
        tape.tcp(1_100 + n, A, ack(first.wrapping_add(n * 100), 11), &[7; 100]);
    }
    tape.tcp(1_180, B, ack(11, first.wrapping_add(100)), b"");
    for n in 3..=5_u32 {
        let mut sack = ack(11, first.wrapping_add(100));
        sack.options.sack.push(Seq(first.wrapping_add(200)), Seq(first.wrapping_add(n * 100)));
        tape.tcp(1_180 + n, B, sack, b"");
    }
    tape.tcp(1_185, A, ack(first.wrapping_add(100), 11), &[7; 100]);
    tape.tcp(1_265, B, ack(11, first.wrapping_add(500)), b"");
    let fin = |header: Header| Header { flags: Flags::ACK.with(Flags::FIN), ..header };
    tape.tcp(1_300, A, fin(ack(first.wrapping_add(500), 11)), b"");
    tape.tcp(1_380, B, fin(ack(11, first.wrapping_add(501))), b"");
    tape.tcp(1_380, A, ack(first.wrapping_add(501), 12), b"");
    // A connection attempt from the same port as before is refused.
    tape.tcp(5_000, A, Header { seq: Seq(77), ..syn }, b"");
    tape.tcp(5_080, B, Header { ack: Seq(78), flags: Flags::RST.with(Flags::ACK), ..Header::default() }, b"");

    let decoded = tape.decoded();
    let [conversation, refused] = &decoded.conversations[..] else { panic!("{decoded:?}") };
    assert_eq!(
        (conversation.handshake.took_ns, conversation.handshake.rtt_ns),
        (Some(1_080_000_000), Some(80_000_000))
    );
    assert_eq!(
        (conversation.handshake.attempts, conversation.end.how, conversation.end.by),
        (2, "closed", Some("A"))
    );
    let up = &conversation.directions[0];
    assert_eq!((up.data, up.bytes, up.retransmitted.fast, up.retransmitted.all()), (6, 500, 1, 1), "{up:?}");
    assert_eq!((conversation.directions[1].gap_acks, up.rtt.min_ns), (3, 80_000_000));
    assert_eq!((refused.end.how, refused.end.by), ("refused", Some("B")));
}

#[test]
fn fragments_udp_and_version_6() {
    // Three cases: a Linux cooked capture; a packet in three fragments; SCTP in UDP, on the port of RFC 6951 and on
    // another port.
    let mut tape = CaptureBuilder::new(113, &[[0; 14].as_slice(), &[8, 0]].concat());
    let whole = sctp(true, TAG_B, |b| Data { payload: &[1; 1_000], ..data(1, 0) }.emit(b));
    let packet = tape.ip(132, A, B, &whole);
    let mut pieces = Fragmenter::of(&packet, 420, 9).expect("it may be cut");
    let mut piece = Vec::new();
    while pieces.append_next(&mut piece) {
        tape.frame(0, &std::mem::take(&mut piece));
    }
    for port in [9_899, 4_444] {
        let mut datagram = vec![0; 8];
        datagram.extend(sctp(true, 0xcccc + u32::from(port), |b| data(1, 0).emit(b)));
        udp::emit_in_place(&mut datagram, SocketAddr::from((A, 2_000)), SocketAddr::from((B, port)));
        let packet = tape.ip(17, A, B, &datagram);
        tape.frame(1, &packet);
    }
    let decoded = tape.decoded();
    let [plain, carried] = &decoded.conversations[..] else { panic!("{decoded:?}") };
    assert_eq!((plain.directions[0].bytes, plain.directions[0].packets), (1_000, 1));
    assert_eq!((carried.udp_ports, carried.directions[0].data), (Some([2_000, 9_899]), 1));
    assert_eq!(decoded.left_out.get("UDP datagrams"), Some(&1));
    let settings = Settings { udp_ports: vec![(4_444, Some(2_000))], ..Settings::default() };
    assert_eq!(decode("test", &tape.bytes[..], &settings).expect("a capture").left_out["UDP datagrams"], 1);

    let (a, b) = (Ipv6Addr::new(1, 0, 0, 0, 0, 0, 0, 1), Ipv6Addr::new(1, 0, 0, 0, 0, 0, 0, 2));
    let mut writer = Writer::new(Vec::new(), "test").expect("a section");
    writer.interface("eth0", 0).expect("an interface");
    let body = [&[132, 0, 1, 4, 0, 0, 0, 0], &sctp(true, TAG_B, |b| data(1, 0).emit(b))[..]].concat();
    let mut packet = vec![0; 40];
    v6::Header::new(a, b, 60, body.len() as u16).emit(&mut packet);
    packet.extend(body);
    writer.packet(0, 5, &packet, None, None).expect("a packet");
    let decoded = read(&writer.finish().expect("flushed")).expect("a capture");
    assert_eq!(decoded.conversations[0].sides[1].addresses, [IpAddr::from(b).to_string()]);
}

#[test]
fn invalid_captures_are_refused_in_one_line() {
    let error_of = |bytes: &[u8]| read(bytes).expect_err("not a capture").to_string();
    assert_eq!(error_of(b""), "the capture ends after 0 bytes, before its header does");
    assert_eq!(error_of(b"\x7fELF\0\0\0\0\0\0\0\0"), "not a pcap or pcapng capture");
    assert!(error_of(b"#!/bin/sh\nexit").starts_with("no capture (pcap, pcapng), and no log"));
    let mut radio = CaptureBuilder::new(105, &[]);
    radio.frame(0, &[0; 50]);
    assert!(error_of(&radio.bytes).starts_with("link type 105 is not known"));
    let mut tape = CaptureBuilder::ethernet();
    open(&mut tape);
    let length = tape.bytes.len();
    let cut = read(&tape.bytes[..length - 3]).expect("read to there");
    assert!(cut.cut_at.is_some() && cut.packets == 3);
    assert!(table::render(&cut, 5).contains("ends in the middle of a packet"));
}

#[test]
fn damage_and_copies_are_left_out() {
    let mut tape = CaptureBuilder::ethernet();
    open(&mut tape);
    tape.sctp(100, A, B, TAG_B, |b| data(100, 0).emit(b));
    let begin = tape.bytes.len();
    tape.sctp(101, A, B, TAG_B, |b| data(101, 0).emit(b));
    let copy = tape.bytes[begin..].to_vec();
    tape.bytes.extend(&copy);
    tape.sctp(102, A, B, TAG_B, |b| data(102, 0).emit(b));
    *tape.bytes.last_mut().expect("a byte") ^= 1;
    let up = tape.decoded().conversations.remove(0).directions.into_iter().next().expect("a direction");
    assert_eq!((up.data, up.copies, up.damaged, up.retransmitted.all()), (2, 1, 1, 0));
}

/// Appends a SYN from this port of A.
fn syn(tape: &mut CaptureBuilder, millis: u32, port: u16, seq: u32) {
    let header =
        Header { source_port: port, target_port: 80, seq: Seq(seq), flags: Flags::SYN, ..Header::default() };
    let mut bytes = Vec::new();
    header.emit(&mut bytes);
    tcp::seal(&mut bytes, A.into(), B.into());
    let packet = tape.ip(6, A, B, &bytes);
    tape.frame(millis * 1_000, &packet);
}

#[test]
fn packets_beyond_the_conversation_limit_are_counted() {
    let mut tape = CaptureBuilder::ethernet();
    open(&mut tape);
    tape.tcp(50, A, Header { seq: Seq(9), flags: Flags::SYN, ..Header::default() }, b"");
    // The limit of two conversations is reached, so the next three conversations are not followed.
    syn(&mut tape, 60, 1_025, 1);
    syn(&mut tape, 61, 1_025, 1);
    tape.sctp(62, A2, B2, 0, |b| Init { tag: 7, ..Init::default() }.emit(b));
    tape.sctp(63, B2, A2, 7, |b| InitAck(Init { tag: 8, ..Init::default() }).emit(b));
    // The followed connection is reset, and a new connection uses the same ports. The new connection is not followed.
    tape.tcp(64, B, Header { ack: Seq(10), flags: Flags::RST.with(Flags::ACK), ..Header::default() }, b"");
    tape.tcp(65, A, Header { seq: Seq(900), flags: Flags::SYN, ..Header::default() }, b"");
    let ack = Flags::SYN.with(Flags::ACK);
    tape.tcp(66, B, Header { seq: Seq(70), ack: Seq(901), flags: ack, ..Header::default() }, b"");
    // New packets of the two followed conversations are still processed.
    tape.sctp(100, A, B, TAG_B, |b| data(100, 0).emit(b));
    let settings = Settings { conversations: 2, ..Settings::default() };
    let decoded = decode("test", &tape.bytes[..], &settings).expect("a capture");
    let figures: Vec<_> = decoded
        .conversations
        .iter()
        .map(|conversation| {
            (
                conversation.transport,
                conversation.end.how,
                conversation.directions[0].packets,
                conversation.directions[1].packets,
            )
        })
        .collect();
    assert_eq!(figures, [("sctp", "open", 3, 2), ("tcp", "refused", 1, 1)]);
    assert_eq!((decoded.not_followed.packets, decoded.not_followed.openings), (6, 4));
    assert_eq!(decoded.conversations[0].directions[0].data, 1);
    let text = table::render(&decoded, 3);
    let line = "\n\nNot followed: 6 packets of conversations after the first 2 (4 INIT or SYN).\n";
    assert!(text.ends_with(line), "{text}");
    let json: serde_json::Value = serde_json::from_str(&decoded.to_json()).expect("JSON");
    assert_eq!(json["not_followed"], serde_json::json!({ "packets": 6, "openings": 4 }));
}

#[test]
fn a_scan_of_many_ports_stays_small() {
    let mut tape = CaptureBuilder::ethernet();
    for at in 0..CONVERSATIONS as u32 + 5 {
        // There are more conversations than 16-bit ports, so the target port varies, too.
        let (port, target_port) = ((1 + at % 60_000) as u16, (80 + at / 60_000) as u16);
        let mut bytes = Vec::new();
        Header { source_port: port, target_port, flags: Flags::SYN, ..Header::default() }.emit(&mut bytes);
        tcp::seal(&mut bytes, A.into(), B.into());
        let packet = tape.ip(6, A, B, &bytes);
        tape.frame(at, &packet);
    }
    let decoded = tape.decoded();
    assert_eq!(decoded.conversations.len(), CONVERSATIONS);
    assert_eq!((decoded.not_followed.packets, decoded.not_followed.openings), (5, 5));
    // The records of sent data and the line numbers of the ladder diagram are allocated only when they are used.
    assert!(
        size_of::<super::conversation::ConversationBuilder>() <= 1_200,
        "{}",
        size_of::<super::conversation::ConversationBuilder>()
    );
}

#[test]
fn long_captures_have_no_ladders_unasked() {
    let mut tape = CaptureBuilder::ethernet();
    open(&mut tape);
    let lines = |packets| {
        let settings = Settings { ladder_lines: 60, ladder_packets: packets, ..Settings::default() };
        let mut decoded = decode("test", &tape.bytes[..], &settings).expect("a capture");
        decoded.conversations.remove(0).ladder.len()
    };
    assert_eq!((lines(4), lines(3), lines(0)), (4, 0, 0));
}

/// The maximum number of ladder lines must not change any other output, even if it is 0. A shorter ladder diagram must
/// be the beginning of a longer one.
#[test]
fn the_number_of_ladder_lines_changes_no_result() {
    static DUPLICATES: [Tsn; 3] = [Tsn(103), Tsn(105), Tsn(104)];
    let mut sctp = CaptureBuilder::ethernet();
    open(&mut sctp);
    for tsn in 100..110 {
        sctp.sctp(tsn, A, B, TAG_B, |b| data(tsn, (tsn % 2) as u16).emit(b));
    }
    // TSNs 103 to 105 are retransmitted needlessly after a timeout. The receiver reports two of the duplicates in one
    // SACK. The third is reported after TSN 105 was sent a third time.
    for tsn in 103..106 {
        sctp.sctp(2_000 + tsn, A, B, TAG_B, |b| data(tsn, (tsn % 2) as u16).emit(b));
    }
    sctp.sctp(2_160, B, A, TAG_A, |b| sack(104, &[], &DUPLICATES[..2]).emit(b));
    sctp.sctp(4_500, A, B, TAG_B, |b| data(105, 1).emit(b));
    sctp.sctp(4_560, B, A, TAG_A, |b| sack(109, &[], &DUPLICATES[1..]).emit(b));
    let mut tcp = CaptureBuilder::ethernet();
    tcp.tcp(0, A, Header { seq: Seq(0), flags: Flags::SYN, ..Header::default() }, b"");
    let ack = Flags::SYN.with(Flags::ACK);
    tcp.tcp(50, B, Header { seq: Seq(0), ack: Seq(1), flags: ack, ..Header::default() }, b"");
    for (millis, seq) in [(50, 1), (51, 101), (52, 201), (53, 301), (1_100, 101), (1_200, 201)] {
        let header = Header { seq: Seq(seq), ack: Seq(1), flags: Flags::ACK, ..Header::default() };
        tcp.tcp(millis, A, header, &[7; 100]);
    }
    // RFC 2883 §4: the first SACK block reports a segment that arrived twice.
    for (millis, copy) in [(1_105, 101), (1_205, 201)] {
        let mut header = Header { seq: Seq(1), ack: Seq(401), flags: Flags::ACK, ..Header::default() };
        header.options.sack.push(Seq(copy), Seq(copy + 100));
        tcp.tcp(millis, B, header, b"");
    }
    for tape in [sctp, tcp] {
        let with = |lines, packets| {
            let settings = Settings { ladder_lines: lines, ladder_packets: packets, ..Settings::default() };
            let mut decoded = decode("test", &tape.bytes[..], &settings).expect("a capture");
            let ladder = std::mem::take(&mut decoded.conversations[0].ladder);
            decoded.conversations[0].ladder_left_out = 0;
            (ladder, decoded.to_json(), table::render(&decoded, 20))
        };
        let (full, json, text) = with(1_000, u64::MAX);
        let needless = full.iter().filter(|line| line.contains("spurious")).count();
        assert!(needless >= 2, "{full:#?}");
        for lines in 0..=full.len() {
            let (ladder, same, shown) = with(lines, u64::MAX);
            assert_eq!(ladder, full[..lines], "a ladder of {lines} lines");
            assert_eq!((&same, &shown), (&json, &text), "with a ladder of {lines} lines");
        }
        // If a capture has more packets than the limit `ladder_packets`, the results have no ladder diagram.
        for packets in 0..full.len() as u64 {
            assert_eq!(with(1_000, packets), (Vec::new(), json.clone(), text.clone()), "{packets} packets");
        }
    }
}

/// Decoding a file with any content must end without a panic.
#[test]
fn mutated_captures_never_panic() {
    let mut tape = CaptureBuilder::ethernet();
    open(&mut tape);
    for tsn in 100..110 {
        tape.sctp(tsn, A, B, TAG_B, |b| data(tsn, 0).emit(b));
        tape.sctp(tsn, B, A, TAG_A, |b| sack(100, &[GapBlock { start: 2, end: 9 }], &[Tsn(101)]).emit(b));
    }
    for seq in 0..10_u32 {
        let mut header = Header { seq: Seq(seq * 3), ack: Seq(5), flags: Flags::ACK, ..Header::default() };
        header.options.sack.push(Seq(1), Seq(seq));
        tape.tcp(200 + seq, if seq % 2 == 0 { A } else { B }, header, b"abcdef");
    }
    let mut rng = Rng::new(11);
    for _ in 0..4_000 {
        let mut bytes = tape.bytes.clone();
        for _ in 0..=rng.below(12) {
            let at = rng.below(bytes.len() as u64) as usize;
            match rng.below(3) {
                0 => bytes[at] = rng.next_u64() as u8,
                1 => bytes[at] ^= 1 << rng.below(8),
                _ => bytes[at] = [0, 0xff, 0x7f, 0x80][rng.below(4) as usize],
            }
        }
        bytes.truncate(bytes.len() - rng.below(40) as usize);
        if let Ok(decoded) = read(&bytes) {
            assert!(!table::render(&decoded, 3).is_empty() && decoded.to_json().ends_with('\n'));
        }
    }
}
