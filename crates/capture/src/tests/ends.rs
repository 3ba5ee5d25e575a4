//! Tests of the comparison of the captures of both ends.

use super::*;
use crate::results::{BothEnds, MatchedDirection};
use crate::{DecodeError, decode_both};

fn compared(one: &[u8], other: &[u8]) -> BothEnds {
    let decoded = decode_both([("one", one), ("other", other)], &Settings::default()).expect("captures");
    *decoded.both_ends.expect("a comparison")
}

/// Returns the captures at A and at B. The clock of B is 400 ms ahead. Packets take 20 ms, except that the packet of 60
/// bytes takes 35 ms. The packet of 80 bytes is lost, and sent again with the same content. An address translator has
/// changed the port of A.
fn captures() -> [CaptureBuilder; 2] {
    let mut ends = [CaptureBuilder::ethernet(), CaptureBuilder::ethernet()];
    let datagram = |ports: [u16; 2], length: usize| {
        let mut bytes = vec![length as u8; 8 + length];
        udp::emit_in_place(&mut bytes, SocketAddr::from((A, ports[0])), SocketAddr::from((B, ports[1])));
        bytes
    };
    // For each packet: its time at A and at B in milliseconds, whether A sends it, and its length.
    let packets: [(Option<u32>, Option<u32>, bool, usize); 9] = [
        (Some(0), None, true, 10),
        (Some(10), Some(430), true, 20),
        (Some(55), Some(435), false, 30),
        (Some(60), Some(495), true, 60),
        (Some(61), Some(481), true, 70),
        (Some(70), None, true, 80),
        (Some(100), Some(520), true, 80),
        (None, Some(530), false, 50),
        (None, Some(540), false, 51),
    ];
    for (at_a, at_b, is_from_a, length) in packets {
        for (end, at) in [at_a, at_b].into_iter().enumerate() {
            let Some(at) = at else { continue };
            let port = if end == 0 { 5_000 } else { 61_000 };
            let (from, to) = if is_from_a { (A, B) } else { (B, A) };
            let ports = if is_from_a { [port, 443] } else { [443, port] };
            let header = v4::Header::new(from, to, 17, 8 + length as u16);
            let mut packet = vec![0; 20];
            header.emit(&mut packet);
            packet.extend(datagram(ports, length));
            ends[end].frame(at * 1_000, &packet);
        }
    }
    ends
}

#[test]
fn lost_and_late_packets_are_found_whichever_file_comes_first() {
    let [at_a, at_b] = captures();
    for is_reversed in [false, true] {
        let files = if is_reversed { [&at_b, &at_a] } else { [&at_a, &at_b] };
        let found = compared(&files[0].bytes, &files[1].bytes);
        let [flow] = &found.flows[..] else { panic!("{found:?}") };
        assert!(flow.ends_known, "{flow:?}");
        assert_eq!(flow.round_trip_ns, Some(40_000_000), "20 ms, and 20 ms back");
        let [up, down] = if is_reversed {
            let [down, up] = &flow.directions;
            [up, down]
        } else {
            [&flow.directions[0], &flow.directions[1]]
        };
        let counts = |of: &MatchedDirection| [of.sent, of.arrived, of.lost, of.outside, of.only_received];
        // The first packet was sent before the capture at B began, and the last packets after the capture at A had
        // ended.
        assert_eq!(counts(up), [6, 4, 1, 1, 0], "{up:?}");
        assert_eq!(counts(down), [3, 1, 0, 2, 0], "{down:?}");
        assert_eq!((up.overtaken, up.delay.samples, up.delay.max_ns), (1, 3, 15_000_000));
        assert_eq!((up.delay.median_ns, found.elsewhere), (0, [0, 0]));
    }
    let both = decode_both([("one", &at_a.bytes[..]), ("other", &at_b.bytes[..])], &Settings::default());
    let text = table::render(&both.expect("captures"), 5);
    let ends = "192.0.2.1 port 5000 (one), 192.0.2.2 port 443 (other), round trip at least 40.0 ms";
    assert!(text.contains(ends) && text.contains("0.000/0.000/15.0"), "{text}");
}

#[test]
fn files_without_common_packets_have_no_flows() {
    let [at_a, _] = captures();
    let mut other = CaptureBuilder::ethernet();
    open(&mut other);
    let found = compared(&at_a.bytes, &other.bytes);
    assert_eq!((found.flows.len(), found.elsewhere[0]), (0, 7));
    assert!(found.elsewhere[1] > 0);
    // If the same file is given twice, no packet takes any time. Nothing then shows at which end each file was
    // captured.
    let same = compared(&at_a.bytes, &at_a.bytes);
    assert!(!same.flows[0].ends_known && same.flows[0].directions.iter().all(|of| of.lost == 0), "{same:?}");
    let failed = decode_both([("one", &at_a.bytes[..]), ("other", b"")], &Settings::default());
    assert!(matches!(failed, Err((1, DecodeError::Source(_)))), "{failed:?}");
}
