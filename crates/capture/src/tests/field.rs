//! Tests with captures as hosts in real networks make them. Checksums are left to the network card, packets are
//! captured twice, and each direction of an association uses its own addresses.

use super::*;
use crate::results::{Conversation, Direction};

/// The checksum that a test packet gets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TestChecksum {
    Right,
    /// The sum of the pseudo-header only, as a host leaves it for the network card to complete.
    Partial,
    Zero,
    Wrong,
}

fn segment(
    tape: &mut CaptureBuilder,
    micros: u32,
    from: Ipv4Addr,
    (header, payload): (Header, &[u8]),
    sum: TestChecksum,
) {
    let to = if from == A { B } else { A };
    let (source_port, target_port) = if from == A { (40_000, 80) } else { (80, 40_000) };
    let mut bytes = Vec::new();
    Header { source_port, target_port, window: 1_000, ..header }.emit(&mut bytes);
    bytes.extend_from_slice(payload);
    if sum == TestChecksum::Partial {
        let arguments: u32 = [from, to]
            .iter()
            .flat_map(|a| {
                a.octets().chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).collect::<Vec<_>>()
            })
            .sum();
        let sum = arguments + 6 + bytes.len() as u32;
        let folded = (sum & 0xffff) + (sum >> 16);
        bytes[16..18].copy_from_slice(&(folded as u16).to_be_bytes());
    } else if sum != TestChecksum::Zero {
        tcp::seal(&mut bytes, from.into(), to.into());
        bytes[17] ^= if sum == TestChecksum::Wrong { 0x55 } else { 0 };
    }
    let packet = tape.ip(6, from, to, &bytes);
    tape.frame(micros, &packet);
}

fn header(seq: u32, ack: u32, flags: Flags) -> Header {
    Header { seq: Seq(seq), ack: Seq(ack), flags, ..Header::default() }
}

fn shake(tape: &mut CaptureBuilder, sum: TestChecksum) {
    segment(tape, 0, A, (header(100, 0, Flags::SYN), b""), sum);
    segment(tape, 50_000, B, (header(900, 101, Flags::SYN.with(Flags::ACK)), b""), TestChecksum::Right);
    segment(tape, 50_000, A, (header(101, 901, Flags::ACK), b""), TestChecksum::Right);
}

fn only(tape: &CaptureBuilder) -> Conversation {
    let mut decoded = tape.decoded();
    assert_eq!(decoded.conversations.len(), 1, "{decoded:?}");
    decoded.conversations.remove(0)
}

fn up(tape: &CaptureBuilder) -> Direction {
    only(tape).directions.into_iter().next().expect("a direction")
}

#[test]
fn data_whose_checksum_is_left_to_the_card_is_counted() {
    for sum in [TestChecksum::Partial, TestChecksum::Zero, TestChecksum::Wrong] {
        let mut tape = CaptureBuilder::ethernet();
        shake(&mut tape, sum);
        // The host hands 9,000 bytes to its network card at once, and the card splits them into packets of normal size.
        segment(&mut tape, 60_000, A, (header(101, 901, Flags::ACK), &[7; 9_000]), sum);
        segment(&mut tape, 60_010, A, (header(9_101, 901, Flags::ACK), &[7; 500]), sum);
        segment(&mut tape, 90_000, B, (header(901, 9_101, Flags::ACK), b""), TestChecksum::Right);
        segment(&mut tape, 100_000, B, (header(901, 9_601, Flags::ACK), b""), TestChecksum::Right);
        segment(&mut tape, 110_000, A, (header(9_601, 901, Flags::ACK), &[7; 300]), sum);
        segment(&mut tape, 140_000, B, (header(901, 9_901, Flags::ACK), b""), TestChecksum::Right);
        let conversation = only(&tape);
        let up = &conversation.directions[0];
        assert_eq!((up.bytes, up.data, up.damaged, up.not_captured), (9_800, 3, 0, 0));
        assert_eq!((up.checksums_left, up.retransmitted.all(), up.reordered), (4, 0, 0));
        assert_eq!(
            (up.rtt.samples, up.rtt.min_ns, up.rtt.max_ns),
            (3, 30_000_000, 39_990_000),
            "from when they passed"
        );
        assert_eq!(conversation.handshake.rtt_ns, Some(50_000_000));
        let times: Vec<&str> = conversation.ladder.iter().map(|line| &line[..12]).collect();
        assert!(times.is_sorted() && times.len() == 9, "{:#?}", conversation.ladder);
        let text = table::render(&tape.decoded(), 3);
        assert!(text.contains("A to B: checksum left to the network card (4)\n"), "{text}");
        assert!(!text.contains("damaged"));
    }
}

/// Data with a wrong checksum is sent again before the peer acknowledges it. The first packet must count as damaged.
#[test]
fn data_with_a_bad_checksum_is_damaged_unless_acknowledged() {
    let mut tape = CaptureBuilder::ethernet();
    shake(&mut tape, TestChecksum::Right);
    segment(&mut tape, 60_000, A, (header(101, 901, Flags::ACK), &[7; 100]), TestChecksum::Right);
    let begin = tape.bytes.len();
    segment(&mut tape, 61_000, A, (header(201, 901, Flags::ACK), &[7; 100]), TestChecksum::Right);
    // This changes the payload, so the digests of the two transmissions differ.
    tape.bytes[begin + 100] ^= 1;
    segment(&mut tape, 62_000, A, (header(301, 901, Flags::ACK), &[7; 100]), TestChecksum::Right);
    segment(&mut tape, 90_000, B, (header(901, 201, Flags::ACK), b""), TestChecksum::Right);
    segment(&mut tape, 400_000, A, (header(201, 901, Flags::ACK), &[7; 100]), TestChecksum::Right);
    segment(&mut tape, 430_000, B, (header(901, 401, Flags::ACK), b""), TestChecksum::Right);
    let found = up(&tape);
    assert_eq!((found.damaged, found.checksums_left, found.bytes, found.data), (1, 0, 300, 3));
    assert_eq!((found.retransmitted.timeout, found.retransmitted.inferred), (1, 1), "{found:?}");
    // The capture ends before an acknowledgement or a retransmission of this packet. The packet counts as damaged,
    // because earlier data of the same side had right checksums.
    segment(&mut tape, 440_000, A, (header(401, 901, Flags::ACK), &[7; 100]), TestChecksum::Wrong);
    assert_eq!((up(&tape).damaged, up(&tape).bytes), (2, 300));
    // The data of this packet was acknowledged earlier, so the acknowledgement that follows does not show that B
    // accepted the packet. The packet therefore counts as damaged, and not as a packet whose checksum A leaves to its
    // network card.
    segment(&mut tape, 450_000, A, (header(101, 901, Flags::ACK), &[7; 100]), TestChecksum::Wrong);
    segment(&mut tape, 460_000, A, (header(401, 901, Flags::ACK), &[8; 100]), TestChecksum::Right);
    segment(&mut tape, 490_000, B, (header(901, 501, Flags::ACK), b""), TestChecksum::Right);
    // The sequence number of this packet is below that of A's first byte, so the acknowledgement that follows does not
    // show that B accepted the packet. The packet therefore counts as damaged, and not as a packet whose checksum A
    // leaves to its network card.
    segment(
        &mut tape,
        500_000,
        A,
        (header(101_u32.wrapping_sub(1 << 20), 901, Flags::ACK), &[7; 100]),
        TestChecksum::Wrong,
    );
    segment(&mut tape, 510_000, B, (header(901, 501, Flags::ACK), b""), TestChecksum::Right);
    let found = up(&tape);
    assert_eq!((found.damaged, found.checksums_left, found.bytes), (4, 0, 400));
}

/// The receiver's network card joins segments. The joined segment has the checksum of the first segment, which is wrong
/// for the whole. Segments that were not joined have right checksums.
#[test]
fn segments_joined_on_receipt_are_counted_in_order() {
    let mut tape = CaptureBuilder::ethernet();
    shake(&mut tape, TestChecksum::Right);
    for (millis, seq, length, sum) in [
        (60, 101, 1_000, TestChecksum::Right),
        (61, 1_101, 3_000, TestChecksum::Wrong),
        (62, 4_101, 1_000, TestChecksum::Right),
        (63, 5_101, 2_000, TestChecksum::Wrong),
    ] {
        segment(&mut tape, millis * 1_000, A, (header(seq, 901, Flags::ACK), &vec![7; length]), sum);
    }
    segment(&mut tape, 70_000, B, (header(901, 7_101, Flags::ACK), b""), TestChecksum::Right);
    let found = up(&tape);
    assert_eq!((found.bytes, found.reordered, found.retransmitted.all(), found.damaged), (7_000, 0, 0, 0));
    assert_eq!(found.checksums_left, 2);
}

/// The acknowledgement is captured before the data that it acknowledges, for example because the network card has
/// several queues. The data must not count as damaged.
#[test]
fn data_that_was_acknowledged_before_it_passed_is_not_damaged() {
    let mut tape = CaptureBuilder::ethernet();
    shake(&mut tape, TestChecksum::Right);
    segment(&mut tape, 60_000, B, (header(901, 201, Flags::ACK), b""), TestChecksum::Right);
    segment(&mut tape, 60_010, A, (header(101, 901, Flags::ACK), &[7; 100]), TestChecksum::Wrong);
    let found = up(&tape);
    assert_eq!((found.bytes, found.damaged, found.checksums_left), (100, 0, 1));
}

/// If damage changes the ports of a packet, the packet looks like a conversation of its own. The packet must count as
/// damaged.
#[test]
fn a_single_packet_with_a_bad_checksum_is_damaged() {
    for write in [|b: &mut Vec<u8>| data(100, 0).emit(b), |b: &mut Vec<u8>| sack(100, &[], &[]).emit(b)] {
        let mut tape = CaptureBuilder::ethernet();
        packet_of(&mut tape, 0, (A, B), sctp(true, TAG_B, write), TestChecksum::Wrong);
        let found = up(&tape);
        assert_eq!((found.damaged, found.packets, found.data), (1, 0, 0));
        // A second packet with the same ports shows that the ports are not damaged. The wrong checksums must now count
        // as left to the network card.
        packet_of(&mut tape, 10, (A, B), sctp(true, TAG_B, |b| data(101, 0).emit(b)), TestChecksum::Wrong);
        assert_eq!((up(&tape).damaged, up(&tape).packets, up(&tape).checksums_left), (0, 2, 2));
    }
}

#[test]
fn the_queue_of_waiting_packets_is_bounded() {
    let mut tape = CaptureBuilder::ethernet();
    shake(&mut tape, TestChecksum::Right);
    segment(&mut tape, 60_000, A, (header(101, 901, Flags::ACK), &[7; 100]), TestChecksum::Wrong);
    for n in 0..400 {
        segment(
            &mut tape,
            61_000 + n,
            B,
            (header(901 + n * 100, 101, Flags::ACK), &[7; 100]),
            TestChecksum::Right,
        );
    }
    segment(&mut tape, 70_000, B, (header(40_901, 201, Flags::ACK), b""), TestChecksum::Right);
    let found = only(&tape);
    // No data of A had a right checksum, so A leaves its checksums to the network card.
    assert_eq!((found.directions[0].checksums_left, found.directions[0].bytes), (1, 100));
    assert_eq!(found.directions[1].bytes, 40_000);
}

/// Appends an SCTP packet to the capture, with a right, wrong or zero checksum as `sum` requires.
fn packet_of(
    tape: &mut CaptureBuilder,
    micros: u32,
    ends: (Ipv4Addr, Ipv4Addr),
    mut bytes: Vec<u8>,
    sum: TestChecksum,
) {
    match sum {
        TestChecksum::Zero => bytes[8..12].fill(0),
        TestChecksum::Wrong => bytes[9] ^= 0x55,
        _ => {}
    }
    let packet = tape.ip(132, ends.0, ends.1, &bytes);
    tape.frame(micros, &packet);
}

#[test]
fn crc32c_that_is_left_to_the_card_is_no_damage() {
    for sum in [TestChecksum::Zero, TestChecksum::Wrong] {
        let mut tape = CaptureBuilder::ethernet();
        open(&mut tape);
        for tsn in 100..103 {
            packet_of(&mut tape, tsn * 1_000, (A, B), sctp(true, TAG_B, |b| data(tsn, 0).emit(b)), sum);
        }
        tape.sctp(150, B, A, TAG_A, |b| sack(102, &[], &[]).emit(b));
        let found = up(&tape);
        assert_eq!((found.data, found.damaged, found.checksums_left), (3, 0, 3));
        assert_eq!(found.rtt.min_ns, 48_000_000);
    }
    // RFC 9653: B accepts packets without a checksum. A zero checksum from A is therefore intended, and must not count
    // as one that the network card computes later.
    let mut tape = CaptureBuilder::ethernet();
    tape.sctp(0, A, B, 0, |b| {
        Init { tag: TAG_A, outbound_streams: 1, inbound_streams: 1, tsn: Tsn(100), ..Init::default() }.emit(b)
    });
    tape.sctp(50, B, A, TAG_A, |b| {
        let mut chunk = InitAck(Init { tag: TAG_B, tsn: Tsn(700), ..Init::default() }).open(b);
        Param::ZeroChecksum(1).emit(&mut chunk);
        Param::StateCookie(&[1; 8]).emit(&mut chunk);
        chunk.close();
    });
    packet_of(&mut tape, 100_000, (A, B), sctp(true, TAG_B, |b| data(100, 0).emit(b)), TestChecksum::Zero);
    assert_eq!((up(&tape).data, up(&tape).checksums_left), (1, 0));
    // RFC 2960 §6.8: a packet with an Adler-32 checksum must also count as intact.
    let mut tape = CaptureBuilder::ethernet();
    let mut bytes = sctp(true, TAG_B, |b| data(100, 0).emit(b));
    bytes[8..12].fill(0);
    let (low, high) = bytes.iter().fold((1_u32, 0), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % 65_521;
        (low, (high + low) % 65_521)
    });
    bytes[8..12].copy_from_slice(&(high << 16 | low).to_be_bytes());
    packet_of(&mut tape, 0, (A, B), bytes, TestChecksum::Right);
    assert_eq!((up(&tape).data, up(&tape).checksums_left), (1, 0));
}

const A3: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);

/// The beginning of the association was not captured, and its directions use different addresses. The decoder must find
/// out that both directions belong to one association.
#[test]
fn directions_over_different_addresses_are_one_association() {
    type Step = (Ipv4Addr, Ipv4Addr, fn(&mut Vec<u8>));
    let beat: fn(&mut Vec<u8>) = |b| Heartbeat { info: &[5; 8], rest: &[] }.emit(b);
    let answer: fn(&mut Vec<u8>) = |b| HeartbeatAck { info: &[5; 8], rest: &[] }.emit(b);
    let from_a: fn(&mut Vec<u8>) = |b| data(1_000, 0).emit(b);
    let from_b: fn(&mut Vec<u8>) = |b| data(5_000, 0).emit(b);
    let ack_a: fn(&mut Vec<u8>) = |b| sack(1_000, &[], &[]).emit(b);
    let ack_b: fn(&mut Vec<u8>) = |b| sack(5_000, &[], &[]).emit(b);
    let cases: [(&str, Vec<Step>, usize); 6] = [
        (
            "a heartbeat and its answer",
            vec![(A, B2, beat), (B, A2, answer), (A, B, from_a), (B, A2, ack_a)],
            4,
        ),
        ("acknowledgements", vec![(B, A, from_b), (A2, B2, from_a), (B, A, ack_a), (A2, B2, ack_b)], 2),
        ("an acknowledgement before its data", vec![(B, A, ack_a), (A2, B2, from_a)], 2),
        ("one address", vec![(A, B2, from_a), (B, A, from_b)], 2),
        // Without evidence that they belong together, the two directions remain two associations.
        ("nothing", vec![(A2, B2, from_a), (B, A, from_b)], 0),
        ("data of others", vec![(A, B2, from_a), (B, A, |b| sack(900_000, &[], &[]).emit(b))], 0),
    ];
    for (name, steps, paths) in cases {
        let mut tape = CaptureBuilder::ethernet();
        for (at, (from, to, write)) in steps.iter().enumerate() {
            let is_a = [A, A2].contains(from);
            tape.sctp(at as u32 * 10, *from, *to, if is_a { TAG_B } else { TAG_A }, write);
        }
        let decoded = tape.decoded();
        if paths == 0 {
            assert_eq!(decoded.conversations.len(), 2, "{name}");
            continue;
        }
        let [found] = &decoded.conversations[..] else { panic!("{name}: {decoded:?}") };
        assert_eq!(
            (found.paths.len(), found.ladder.len()),
            (paths.min(found.paths.len()).max(2), steps.len()),
            "{name}"
        );
        assert_eq!(found.directions.iter().map(|way| way.packets).sum::<u64>(), steps.len() as u64, "{name}");
        let tags: Vec<_> = found.sides.iter().map(|side| (side.port, side.tag)).collect();
        for expected in [(5_000, Some(TAG_A)), (80, Some(TAG_B))] {
            assert!(tags.contains(&expected), "{name}: {tags:x?}");
        }
        assert!(found.ladder.is_sorted(), "{name}: {:#?}", found.ladder);
    }
}

/// Both ports of S1AP associations are 36412, for every base station, so the ports do not distinguish associations. Two
/// associations must stay two.
#[test]
fn two_associations_between_equal_ports_stay_two() {
    let mut tape = CaptureBuilder::ethernet();
    let mut add_packet = |millis: u32, from, to, tag, write: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = Vec::new();
        let start = packet::begin(&mut bytes, 36_412, 36_412, tag);
        write(&mut bytes);
        packet::finish(&mut bytes, start);
        let packet = tape.ip(132, from, to, &bytes);
        tape.frame(millis * 1_000, &packet);
    };
    // A server at address A has associations with two clients. The second client uses different addresses for sending
    // and for receiving.
    add_packet(0, A, B, 1, &|b| data(10, 0).emit(b));
    add_packet(1, A, B2, 2, &|b| data(500_000, 0).emit(b));
    add_packet(2, A3, A, 3, &|b| sack(500_000, &[], &[]).emit(b));
    add_packet(3, B, A, 4, &|b| sack(10, &[], &[]).emit(b));
    add_packet(4, A, B, 1, &|b| data(11, 0).emit(b));
    add_packet(5, A3, A, 3, &|b| data(77, 0).emit(b));
    add_packet(6, A, B2, 2, &|b| sack(77, &[], &[]).emit(b));
    let decoded = tape.decoded();
    let [one, other] = &decoded.conversations[..] else { panic!("{decoded:?}") };
    assert_eq!((one.directions[0].packets, one.directions[1].packets, one.paths.len()), (2, 1, 1));
    assert_eq!((other.directions[0].packets, other.directions[1].packets, other.paths.len()), (2, 2, 2));
    assert_eq!(other.sides[1].addresses, ["198.51.100.2", "203.0.113.1"]);
    assert_eq!((other.sides[0].tag, other.sides[1].tag), (Some(3), Some(2)));
    assert_eq!((other.directions[0].rtt.samples, other.directions[1].rtt.samples), (1, 1));
}

/// With Linux's link types, a router captures each packet twice: when it arrives at one interface, and when it leaves
/// by another interface. Such a packet must count once.
#[test]
fn packets_that_were_captured_twice_count_once() {
    let cooked = |direction: u8| [&[0, direction][..], &[0; 12], &[8, 0]].concat();
    let raw = (vec![], vec![]);
    for (link_type, (first, second), apart) in
        [(101, raw, 20), (113, (cooked(0), cooked(4)), 20), (113, (cooked(0), cooked(4)), 20_000)]
    {
        let mut single = CaptureBuilder::new(link_type, &first);
        let mut tape = CaptureBuilder::new(link_type, &first);
        for identified in [false, true] {
            let mut add_packet = |micros: u32, write: &dyn Fn(&mut CaptureBuilder)| {
                let mut one = CaptureBuilder::new(link_type, &[]);
                one.identification = if identified { micros as u16 } else { u16::MAX };
                write(&mut one);
                // Skips the file header (24 bytes) and the packet header (16 bytes).
                let packet = &one.bytes[24 + 16..];
                single.link.clone_from(&first);
                single.frame(micros, packet);
                for (link, after) in [(&first, 0), (&second, apart)] {
                    tape.link.clone_from(link);
                    tape.frame(micros + after, packet);
                }
            };
            let base = if identified { 10_000_000 } else { 0 };
            let ports = if identified { 1_000 } else { 0 };
            add_packet(base, &|t| {
                segment(t, 0, A, (header(100 + ports, 0, Flags::SYN), b""), TestChecksum::Right)
            });
            let answer = Flags::SYN.with(Flags::ACK);
            add_packet(base + 100_000, &|t| {
                segment(t, 0, B, (header(900, 101 + ports, answer), b""), TestChecksum::Right)
            });
            add_packet(base + 200_000, &|t| {
                segment(t, 0, A, (header(101 + ports, 901, Flags::ACK), b""), TestChecksum::Right)
            });
            for n in 0..6 {
                let sent = header(101 + ports + n * 100, 901, Flags::ACK);
                add_packet(base + 300_000 + n * 50_000, &|t| {
                    segment(t, 0, A, (sent, &[7; 100]), TestChecksum::Right)
                });
            }
            // A host sends three identical acknowledgements in quick succession. They must count as duplicate
            // acknowledgements (RFC 5681 §2), and not as copies.
            for n in 0..3 {
                let ack = header(901, 201 + ports, Flags::ACK);
                add_packet(base + 700_000 + n * 100, &|t| segment(t, 0, B, (ack, b""), TestChecksum::Right));
            }
            let reset = header(901, 0, Flags::RST);
            add_packet(base + 900_000, &|t| segment(t, 0, B, (reset, b""), TestChecksum::Right));
        }
        let shown = |tape: &CaptureBuilder| {
            let mut decoded = tape.decoded();
            let twice: Vec<_> = decoded
                .conversations
                .iter()
                .flat_map(|c| &c.directions)
                .map(|d| [d.captured_twice, d.packets])
                .collect();
            decoded.conversations.iter_mut().for_each(|conversation| conversation.last_ns = 0);
            for direction in decoded.conversations.iter_mut().flat_map(|c| &mut c.directions) {
                (direction.copies, direction.captured_twice) = (0, 0);
            }
            (decoded.conversations, twice)
        };
        let ((expected, _), (found, twice)) = (shown(&single), shown(&tape));
        assert_eq!(found.len(), 2);
        assert_eq!(found, expected, "{link_type}, {apart}");
        assert!(twice.iter().all(|[twice, packets]| twice == packets), "{twice:?}");
        let text = table::render(&tape.decoded(), 3);
        assert!(text.contains("A to B: 8 packets captured twice"), "{text}");
    }
}

#[test]
fn copies_of_the_first_packet_are_recognized_by_its_identification() {
    let mut tape = CaptureBuilder::ethernet();
    let mut put = |at: u32, from, packet| {
        tape.identification = 6;
        segment(&mut tape, at * 1_000, from, packet, TestChecksum::Right);
    };
    // The first packet of each side is captured again 2 ms later. After a second, the client sends its SYN again with
    // the same Identification.
    for at in [0, 2, 1_000] {
        put(at, A, (header(100, 0, Flags::SYN), b""));
    }
    for at in [1_010, 1_012] {
        put(at, B, (header(900, 101, Flags::SYN.with(Flags::ACK)), b""));
    }
    let found = tape.decoded().conversations.remove(0).directions.map(|way| (way.packets, way.copies));
    assert_eq!(found, [(2, 1), (1, 1)]);
}

#[test]
fn a_gap_that_is_filled_after_one_report_is_reordering() {
    let fill = |reports: u16, at: u32, round_trip: u32| {
        let mut tape = CaptureBuilder::ethernet();
        // Captures the handshake, so that the decoder knows the round-trip time.
        if round_trip > 0 {
            open(&mut tape);
        }
        for (millis, tsn) in [(100, 100), (101, 102), (102, 103), (103, 104)] {
            tape.sctp(millis, A, B, TAG_B, |b| data(tsn, 0).emit(b));
        }
        for end in 0..reports {
            let gaps: [&[GapBlock]; 3] = [
                &[GapBlock { start: 2, end: 2 }],
                &[GapBlock { start: 2, end: 3 }],
                &[GapBlock { start: 2, end: 4 }],
            ];
            let cumulative =
                Sack { cumulative: Tsn(100), window: 65_536, gaps: gaps[usize::from(end)], duplicates: &[] };
            tape.sctp(104 + u32::from(end), B, A, TAG_A, |b| cumulative.emit(b));
        }
        tape.sctp(at, A, B, TAG_B, |b| data(101, 0).emit(b));
        tape.sctp(at + 1, B, A, TAG_A, |b| sack(104, &[], &[]).emit(b));
        let found = up(&tape);
        (found.reordered, found.retransmitted.fast, found.retransmitted.timeout)
    };
    // TSN 101 is first reported missing at the time 104 ms, and the round-trip time is 50 ms. Less than 0.8 round trips
    // later (before 144 ms), TSN 101 arrives too early to be a retransmission.
    for at in [108, 130, 143] {
        assert_eq!((fill(1, at, 50), fill(2, at, 50)), ((1, 0, 0), (1, 0, 0)), "{at}");
    }
    assert_eq!(fill(3, 150, 50), (0, 1, 0), "three: a fast retransmission (RFC 9260 §7.2.4)");
    assert_eq!(fill(1, 160, 50), (0, 1, 0), "a round trip after the report: by time, as in RFC 8985 §6.2");
    assert_eq!(fill(1, 1_200, 50), (0, 0, 1), "later than a timer takes");
    assert_eq!((fill(1, 160, 0), fill(3, 160, 0)), ((1, 0, 0), (0, 1, 0)));
}
