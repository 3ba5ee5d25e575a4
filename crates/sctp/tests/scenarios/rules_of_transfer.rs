//! Rules of RFC 9260 §6 and §7 that no other scenario checks (`conformance/rules/rfc9260-6.toml`, `-7`).

use crate::net::{self, A, B};
use crate::script::Script;
use anabranch_base::engine::{Icmp, IcmpKind};
use anabranch_sctp::{AssociationState, Config, Message, PathInfo};
use anabranch_wire::ladder::Side;
use anabranch_wire::sctp::*;
use expect_test::expect;
use std::net::SocketAddr;

/// Returns the `n`th TSN of a side, counted from 1 as in ladder diagrams.
fn tsn(script: &Script, side: Side, n: u32) -> Tsn {
    Tsn(script.net.ladder.numbers().first(side).expect("a TSN").wrapping_add(n).wrapping_sub(1))
}

fn block(start: u16, end: u16) -> GapBlock {
    GapBlock { start, end }
}

/// Sends a SACK from B for the first `cumulative` TSNs of A.
fn sack(script: &mut Script, cumulative: u32, gaps: &[GapBlock]) {
    let (vtag, cumulative) = (script.tag(A), tsn(script, A, cumulative));
    let sack = Sack { cumulative, window: 60_000, gaps, duplicates: &[] };
    script.inject(B, vtag, |b| sack.emit(b)).run(30);
}

fn path(script: &Script, n: usize) -> PathInfo {
    script.net.ends[0].engine.info(script.id(A)).expect("an association").paths[n]
}

fn under_way(script: &Script, to: Side) -> Vec<Vec<u8>> {
    let there = |target: SocketAddr| (1..=3).any(|n| net::address(to, n) == target);
    script
        .net
        .in_flight
        .values()
        .filter(|flight| there(flight.target))
        .map(|flight| flight.bytes.clone())
        .collect()
}

/// RFC 9260 §6.1 B: a packet may be sent while the flight size is below cwnd (initially 4404 bytes). So the flight size
/// may exceed cwnd by less than one packet. §7.2.1: the slow-start threshold is initially high.
#[test]
fn one_packet_beyond_the_window() {
    let mut script = Script::established(&[("max_burst", "0")]);
    let begun = path(&script, 0);
    assert!(begun.cwnd == 4_404 && begun.ssthresh > 1 << 30, "{begun:?}");
    script.lose_times(A, "DATA", 99);
    for _ in 0..9 {
        script.send(A, 0, 1_000);
    }
    script.run(10);
    assert_eq!(path(&script, 0).flight, 5 * 1_016);
    script.check_drawn(expect![[r#"
        1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1000 BE     ✗ lost
        1.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=1000 BE     ✗ lost
        1.000  A ──► B   DATA          tsn=3 sid=0 ssn=2 len=1000 BE     ✗ lost
        1.000  A ──► B   DATA          tsn=4 sid=0 ssn=3 len=1000 BE     ✗ lost
        1.000  A ──► B   DATA          tsn=5 sid=0 ssn=4 len=1000 BE     ✗ lost
    "#]]);
}

/// RFC 9260 §6.1 D: at most Max.Burst (4) packets are sent at once, even if the congestion window allows more. The
/// limit does not reduce the window.
#[test]
fn no_more_than_a_burst_at_once() {
    let mut script = Script::established(&[("iw", "20")]);
    let before = path(&script, 0).cwnd;
    script.lose_times(A, "DATA", 99).send(A, 0, 20_000).run(10);
    assert_eq!((path(&script, 0).stats.packets_sent - 2, path(&script, 0).cwnd), (4, before));
    script.forget();
}

/// RFC 9260 §6.2, §6.7: there are more gap blocks than one packet has room for. The SACK reports the lowest gap blocks.
#[test]
fn as_many_gap_blocks_as_fit() {
    let mut script = Script::established(&[]);
    let to_b = script.tag(B);
    for packet in 0..12 {
        let chunks: Vec<Tsn> = (0..60).map(|n| tsn(&script, A, 2 + 2 * (60 * packet + n))).collect();
        // These messages have SSN 1, so they wait for the message with SSN 0.
        script.inject(A, to_b, |b| {
            for tsn in chunks {
                Data { tsn, ssn: Ssn(1), begin: true, payload: b"x", ..Data::default() }.emit(b);
            }
        });
    }
    script.run(26);
    let answers = under_way(&script, A);
    let last = answers.last().expect("SACKs");
    let view = PacketView::parse(last).expect("a packet");
    let mut chunks = view.chunks();
    let Some(Ok(Chunk::Sack(sack))) = chunks.next() else { panic!("a SACK") };
    assert!(chunks.next().is_none(), "one SACK");
    let gap_blocks: Vec<_> = sack.gaps().collect();
    // A packet has 1500 bytes. The headers of IP, SCTP and SACK are subtracted.
    assert_eq!((last.len(), gap_blocks.len()), (1_480, (1_480 - 12 - 16) / 4));
    assert!(
        gap_blocks.iter().zip(1..).all(|(gap, n)| *gap == block(2 * n, 2 * n)),
        "the lowest: {gap_blocks:?}"
    );
    script.net.in_flight.clear();
    script.forget();
}

/// RFC 9260 §6.2, §9.2: a SHUTDOWN cannot report gap blocks, so it is bundled with a SACK.
#[test]
fn gaps_while_shutting_down_need_a_sack() {
    let mut script = Script::warm(&[]);
    script.lose_times(B, "SHUTDOWN", 1).shutdown(B).run(10);
    script.lose(A, "tsn=2 ").send(A, 0, 100).run(5).send(A, 0, 100).run(100);
    script.check_drawn(expect![[r#"
        2.000  A ◄── B   SHUTDOWN      cum=1     ✗ lost
        2.010  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
        2.015  A ──► B   DATA          tsn=3 sid=0 ssn=2 len=100 BE
        2.040  A ◄── B   SACK          cum=1 rwnd=65436 gaps=3; SHUTDOWN cum=1
        2.065          A: peer wants to shut down
    "#]]);
}

/// RFC 9260 §6.2.1 D iii: a gap block has acknowledged a TSN, and the next SACK no longer reports it. The TSN is
/// outstanding again, has one miss indication, and has a timer (§6.3.2 R4). Its bytes count as acknowledged only once.
#[test]
fn a_reneged_tsn_is_missing_again() {
    let mut script = Script::established(&[("max_burst", "0")]);
    script.lose_times(A, "DATA", 3).send(A, 0, 4_000).run(10);
    let acked = |script: &mut Script| {
        let id = script.id(A);
        let info = script.net.end(A).engine.info(id).expect("it lives");
        (info.gap_acked, info.paths[0].stats.bytes_acked)
    };
    sack(&mut script, 0, &[block(3, 3)]);
    assert_eq!(path(&script, 0).flight, 2 * 1_468);
    assert_eq!(acked(&mut script), (1_096, 1_112));
    sack(&mut script, 0, &[]);
    assert_eq!(path(&script, 0).flight, 2 * 1_468 + 1_112);
    assert_eq!(acked(&mut script), (0, 0));
    script.run(3_000);
    assert_eq!(acked(&mut script), (0, 2 * 1_468 + 1_112));
    script.check(expect![[r#"
        1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1452 B     ✗ lost
        1.000  A ──► B   DATA          tsn=2 sid=0 ssn=0 len=1452     ✗ lost
        1.000  A ──► B   DATA          tsn=3 sid=0 ssn=0 len=1096 E     ✗ lost
        1.010  A ◄── B   SACK          cum=0 rwnd=60000 gaps=3     injected
        1.040  A ◄── B   SACK          cum=0 rwnd=60000     injected
        2.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1452 B
        2.025  A ◄── B   SACK          cum=1 rwnd=64084
        2.050  A ──► B   DATA          tsn=2 sid=0 ssn=0 len=1452
        2.050  A ──► B   DATA          tsn=3 sid=0 ssn=0 len=1096 E
        2.075          B: received sid=0 len=4000
        2.075  A ◄── B   SACK          cum=3 rwnd=64k
    "#]]);
}

/// RFC 9260 §6.2.1 D iii: TSN 1 already has one miss indication. A SACK that revokes the acknowledgement of TSN 2
/// counts as one miss indication for TSN 2, and as none for TSN 1. Each of the two TSNs then needs two more miss
/// indications.
#[test]
fn reneging_counts_as_one_miss() {
    let mut script = Script::established(&[("iw", "20"), ("max_burst", "0")]);
    script.lose_times(A, "DATA", 99);
    for _ in 0..6 {
        script.send(A, 0, 1_400);
    }
    script.run(10);
    for gaps in [&[block(2, 2)][..], &[], &[block(4, 4)]] {
        sack(&mut script, 0, gaps);
    }
    let sent = |script: &Script, n: u32| script.net.ladder.text().matches(&format!("tsn={n} ")).count();
    assert_eq!([1, 2, 3].map(|n| sent(&script, n)), [1, 1, 1]);
    sack(&mut script, 0, &[block(4, 5)]);
    assert_eq!([1, 2, 3].map(|n| sent(&script, n)), [2, 2, 1], "{}", script.net.ladder.text());
    script.forget();
}

/// RFC 9260 §6.3.2 R4: the acknowledgement of a TSN is revoked. T3-rtx of the TSN's destination address is started
/// again, although all data sent there had been acknowledged. No other timer expires before this T3-rtx.
#[test]
fn reneging_starts_t3_rtx() {
    let mut script = Script::established_on(&[25, 25], &[]);
    script.lose_times(A, "DATA", 2).send(A, 0, 1_000).run(10);
    let (id, now) = (script.id(A), script.net.now);
    script.net.end(A).engine.set_primary(now, id, 1).expect("verified");
    script.send(A, 0, 1_000).run(500);
    sack(&mut script, 0, &[block(2, 2)]);
    script.run(300);
    sack(&mut script, 0, &[]);
    script.run(1_500);
    script.check(expect![[r#"
        4.000  A.1 ──► B.1   DATA          tsn=1 sid=0 ssn=0 len=1000 BE     ✗ lost
        4.010          A: primary is 10.0.2.2
        4.010  A.2 ──► B.2   DATA          tsn=2 sid=0 ssn=1 len=1000 BE     ✗ lost
        4.510  A.1 ◄── B.1   SACK          cum=0 rwnd=60000 gaps=2     injected
        4.840  A.1 ◄── B.1   SACK          cum=0 rwnd=60000     injected
        5.000  A.2 ──► B.2   DATA          tsn=1 sid=0 ssn=0 len=1000 BE
        5.025          B: received sid=0 len=1000
        5.025  A.2 ◄── B.2   SACK          cum=1 rwnd=64k
        6.050  A.1 ──► B.1   DATA          tsn=2 sid=0 ssn=1 len=1000 BE
        6.075          B: received sid=0 len=1000
        6.275  A.1 ◄── B.1   SACK          cum=2 rwnd=64k
    "#]]);
}

/// RFC 9260 §6.4: a fast retransmission is sent to the destination address of the original.
#[test]
fn a_fast_retransmit_stays_on_its_path() {
    let mut script = Script::established_on(&[25, 25], &[("iw", "10"), ("max_burst", "0")]);
    script.lose(A, "tsn=2 ").send(A, 0, 8_000).run(500);
    let drawn = script.net.ladder.text();
    let moved = drawn.lines().filter(|line| line.contains("DATA") && !line.contains("A.1 ──► B.1"));
    assert_eq!(moved.count(), 0, "{drawn}");
    assert_eq!(drawn.matches("DATA          tsn=2 ").count(), 2, "{drawn}");
    assert_eq!(path(&script, 0).stats.fast_recoveries, 1);
    script.forget();
}

/// RFC 9260 §6.6: the SSN field of an unordered message has no significance.
#[test]
fn the_ssn_of_an_unordered_message_means_nothing() {
    let mut script = Script::warm(&[]);
    script.send_message(A, Message { unordered: true, ..Message::default() }, 100).run(1);
    for flight in script.net.in_flight.values_mut() {
        // The SSN comes after the common header, the chunk header, the TSN and the stream identifier.
        flight.bytes[22..24].copy_from_slice(&777_u16.to_be_bytes());
        packet::finish(&mut flight.bytes, 0);
    }
    script.run(100).send(A, 0, 50).run(1_000);
    assert_eq!(script.app(B).messages, 3);
    script.forget();
}

/// RFC 9260 §6.9: each fragment of an unordered message has the U bit.
#[test]
fn all_of_an_unordered_message_is_unordered() {
    let mut script = Script::warm(&[]);
    script.send_message(A, Message { unordered: true, ..Message::default() }, 4_000).run(1_000);
    let drawn = script.net.ladder.text();
    let ends: Vec<_> = drawn
        .lines()
        .filter(|line| line.contains("DATA"))
        .filter_map(|line| line.split(' ').next_back())
        .collect();
    assert_eq!(ends, ["UB", "U", "UE"], "{drawn}");
    script.forget();
}

/// RFC 9260 §7.2.4: a SACK counts as a miss indication only for missing TSNs below the highest TSN that it newly
/// acknowledges. TSNs 1 and 4 are missing in three SACKs, but only TSN 1 has three miss indications.
#[test]
fn misses_count_below_what_is_newly_acknowledged() {
    let mut script = Script::established(&[("iw", "10"), ("max_burst", "0")]);
    script.lose_times(A, "DATA", 6);
    for _ in 0..5 {
        script.send(A, 0, 1_000);
    }
    script.run(10);
    let before = tsn(&script, A, 0);
    let vtag = script.tag(A);
    for gaps in [&[block(5, 5)][..], &[block(3, 3), block(5, 5)], &[block(2, 3), block(5, 5)]] {
        let sack = Sack { cumulative: before, window: 60_000, gaps, duplicates: &[] };
        script.inject(B, vtag, |b| sack.emit(b)).run(30);
    }
    script.check_drawn(expect![[r#"
        1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1000 BE     ✗ lost
        1.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=1000 BE     ✗ lost
        1.000  A ──► B   DATA          tsn=3 sid=0 ssn=2 len=1000 BE     ✗ lost
        1.000  A ──► B   DATA          tsn=4 sid=0 ssn=3 len=1000 BE     ✗ lost
        1.000  A ──► B   DATA          tsn=5 sid=0 ssn=4 len=1000 BE     ✗ lost
        1.010  A ◄── B   SACK          cum=0 rwnd=60000 gaps=5     injected
        1.040  A ◄── B   SACK          cum=0 rwnd=60000 gaps=3,5     injected
        1.070  A ◄── B   SACK          cum=0 rwnd=60000 gaps=2-3,5     injected
        1.095  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1000 BE     ✗ lost
    "#]]);
}

/// RFC 9260 §7.2.4: the SACK with the third miss indication also acknowledges data. The congestion window grows first,
/// and then it is halved.
#[test]
fn the_window_grows_before_it_is_halved() {
    let mut script = Script::established(&[("iw", "12"), ("max_burst", "0")]);
    script.lose_times(A, "DATA", 99);
    for _ in 0..30 {
        script.send(A, 0, 1_400);
    }
    script.run(10);
    // The forged SACKs report TSNs 2, 4 and 5, so TSNs 1 and 3 are missing.
    let old = tsn(&script, A, 0);
    let vtag = script.tag(A);
    for gaps in [[block(2, 2), block(4, 4)], [block(2, 2), block(4, 5)]] {
        let sack = Sack { cumulative: old, window: 60_000, gaps: &gaps, duplicates: &[] };
        script.inject(B, vtag, |b| sack.emit(b)).run(30);
    }
    let before = path(&script, 0);
    assert_eq!(before.stats.fast_recoveries, 0, "two misses");
    sack(&mut script, 2, &[block(2, 4)]);
    let after = path(&script, 0);
    assert_eq!((after.stats.fast_recoveries, after.cwnd), (1, (before.cwnd + 1_468) / 2));
    // More data is in flight than the window allows. §7.2.4 step 3: one packet is retransmitted nevertheless.
    assert!(after.flight > after.cwnd, "{after:?}");
    let drawn = script.net.ladder.text();
    assert_eq!(drawn.matches("tsn=3 ").count(), 2, "{drawn}");
    // §7.2.1: in fast recovery the window does not grow, although it is fully utilized.
    let full = path(&script, 0);
    assert!(full.flight > full.cwnd, "{full:?}");
    sack(&mut script, 2, &[block(2, 5)]);
    assert_eq!(path(&script, 0).cwnd, full.cwnd);
    script.forget();
}

/// RFC 9260 §7.2.4: another loss during fast recovery is retransmitted, but does not reduce the window again.
#[test]
fn one_reduction_a_recovery() {
    let mut script = Script::established(&[("iw", "20"), ("max_burst", "0")]);
    script.lose_times(A, "DATA", 99);
    for _ in 0..12 {
        script.send(A, 0, 1_400);
    }
    script.run(10);
    for end in 2..=4 {
        sack(&mut script, 0, &[block(2, end)]);
    }
    let first = path(&script, 0);
    assert_eq!(first.stats.fast_recoveries, 1);
    for end in 6..=8 {
        sack(&mut script, 0, &[block(2, 4), block(6, end)]);
    }
    let second = path(&script, 0);
    assert_eq!((second.stats.fast_recoveries, second.cwnd, second.ssthresh), (1, first.cwnd, first.ssthresh));
    let drawn = script.net.ladder.text();
    assert_eq!(drawn.matches("tsn=5 ").count(), 2, "{drawn}");
    script.forget();
}

/// RFC 9260 §7.2.4 step 5: a chunk is fast retransmitted only once. After that, the chunk waits for T3-rtx, no matter
/// how many miss indications it gets. This holds even if chunks that were sent after the retransmission are
/// acknowledged.
#[test]
fn no_second_fast_retransmit() {
    let mut script = Script::established(&[("iw", "20"), ("max_burst", "0")]);
    script.lose_times(A, "DATA", 99);
    for _ in 0..4 {
        script.send(A, 0, 1_400);
    }
    script.run(10);
    for end in 2..=4 {
        sack(&mut script, 0, &[block(2, end)]);
    }
    for end in 5..=9 {
        script.send(A, 0, 1_400).run(1);
        sack(&mut script, 0, &[block(2, end)]);
    }
    let drawn = script.net.ladder.text();
    assert_eq!(drawn.matches("tsn=1 ").count(), 2, "{drawn}");
    script.forget();
}

/// RFC 9260 §7.2.4: T3-rtx retransmits a chunk. A later chunk that arrives counts as a miss indication only if it was
/// sent after the retransmission. Chunks sent before the retransmission or in the same packet do not count.
#[test]
fn only_chunks_sent_after_a_retransmission_count_as_misses() {
    let mut script = Script::established(&[("iw", "10"), ("max_burst", "0")]);
    script.lose_times(A, "DATA", 99);
    for _ in 0..4 {
        script.send(A, 0, 100);
    }
    // T3-rtx expires at 2.000, and TSNs 1 to 4 are retransmitted in one packet.
    script.run(1_100);
    let sent = |script: &Script, tsn: u32| script.net.ladder.text().matches(&format!("tsn={tsn} ")).count();
    assert_eq!([1, 2, 3, 4].map(|tsn| sent(&script, tsn)), [2; 4], "{}", script.net.ladder.text());
    for end in 2..=4 {
        sack(&mut script, 0, &[block(2, end)]);
    }
    assert_eq!(sent(&script, 1), 2, "{}", script.net.ladder.text());
    for end in 5..=7 {
        assert_eq!(sent(&script, 1), 2, "{}", script.net.ladder.text());
        script.send(A, 0, 100).run(1);
        sack(&mut script, 0, &[block(2, end)]);
    }
    assert_eq!(sent(&script, 1), 3, "{}", script.net.ladder.text());
    script.forget();
}

/// RFC 9260 §6.1, §7.2.4 step 4: T3-rtx was started at 1.000 s. At 1.485 s the earliest outstanding chunk is
/// retransmitted, and the timer is restarted although other chunks are in flight.
#[test]
fn the_earliest_restarts_the_timer() {
    let mut script = Script::established(&[("iw", "10"), ("max_burst", "0")]);
    script.lose_times(A, "DATA", 6);
    for _ in 0..5 {
        script.send(A, 0, 1_400);
    }
    script.run(400);
    for end in 2..=4 {
        sack(&mut script, 0, &[block(2, end)]);
    }
    script.run(1_500);
    script.check_drawn(expect![[r#"
        1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1400 BE     ✗ lost
        1.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=1400 BE     ✗ lost
        1.000  A ──► B   DATA          tsn=3 sid=0 ssn=2 len=1400 BE     ✗ lost
        1.000  A ──► B   DATA          tsn=4 sid=0 ssn=3 len=1400 BE     ✗ lost
        1.000  A ──► B   DATA          tsn=5 sid=0 ssn=4 len=1400 BE     ✗ lost
        1.400  A ◄── B   SACK          cum=0 rwnd=60000 gaps=2     injected
        1.430  A ◄── B   SACK          cum=0 rwnd=60000 gaps=2-3     injected
        1.460  A ◄── B   SACK          cum=0 rwnd=60000 gaps=2-4     injected
        1.485  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1400 BE     ✗ lost
        2.485  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1400 BE
        2.510          B: received sid=0 len=1400
        2.510  A ◄── B   SACK          cum=1 rwnd=64k
    "#]]);
}

/// RFC 9260 §6.2.1 C: chunks that T3-rtx marks for retransmission do not count as data in the peer's buffer. Their size
/// is added to rwnd.
#[test]
fn chunks_marked_for_retransmission_free_rwnd() {
    let mut script = Script::established(&[]);
    let room =
        |script: &Script| script.net.ends[0].engine.info(script.id(A)).expect("an association").peer_rwnd;
    let all = room(&script);
    script.lose_times(A, "DATA", 4).send(A, 0, 1_400).send(A, 0, 1_400).run(10);
    assert_eq!(room(&script), all - 2 * 1_400);
    // One of the two chunks that T3-rtx marked was retransmitted, so this chunk is in flight again.
    script.run(1_000);
    assert_eq!(room(&script), all - 1_400);
    script.net.rules.clear();
    script.run(5_000).forget();
}

/// RFC 9260 §6.1 A: the peer accepts each window probe, but keeps its window closed. The first probe is sent after one
/// RTO, and later probes at growing intervals, up to RTO.Max.
#[test]
fn accepted_window_probes_back_off() {
    let mut script = Script::established(&[("rto_max", "8s"), ("mss", "100B")]);
    let sack = |script: &mut Script, n: u32| {
        let (vtag, cumulative) = (script.tag(A), tsn(script, A, n));
        let sack = Sack { cumulative, window: 0, gaps: &[], duplicates: &[] };
        script.inject(B, vtag, |b| sack.emit(b));
    };
    script.lose_times(A, "DATA", 99).send(A, 0, 100).run(1);
    sack(&mut script, 1);
    script.run(100).forget();
    for _ in 0..6 {
        script.send(A, 0, 100);
    }
    for probe in 2..7 {
        while !script.net.ladder.text().contains(&format!("tsn={probe} ")) {
            script.run(50);
        }
        sack(&mut script, probe);
        script.run(50);
    }
    let drawn = script.net.ladder.take();
    let data = drawn.lines().filter(|line| line.contains("DATA"));
    let times: Vec<f64> = data.filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect();
    let waits: Vec<i64> = times.windows(2).map(|pair| (pair[1] - pair[0]).round() as i64).collect();
    assert_eq!(waits, [2, 4, 8, 8], "{drawn}");
}

/// RFC 9260 §6.2.1 D i: a SACK that is older than a SACK already received is ignored: neither its window nor its gap
/// blocks have an effect.
#[test]
fn an_old_sack_is_ignored() {
    let mut script = Script::established(&[]);
    script.lose_times(A, "DATA", 3).send(A, 0, 1_000).send(A, 0, 1_000).send(A, 0, 1_000).run(10);
    sack(&mut script, 1, &[]);
    // RFC 9260 §6.2.1 D ii: rwnd is the advertised window minus the outstanding data.
    let info = |script: &Script| {
        let info = script.net.ends[0].engine.info(script.id(A)).expect("an association");
        (info.peer_rwnd, info.outstanding, info.paths[0].flight)
    };
    let before = info(&script);
    assert_eq!(before.0, 60_000 - 2 * 1_000);
    let (vtag, old) = (script.tag(A), tsn(&script, A, 0));
    let late = Sack { cumulative: old, window: 9_000, gaps: &[block(2, 3)], duplicates: &[] };
    script.inject(B, vtag, |b| late.emit(b)).run(30);
    assert_eq!(info(&script), before);
    script.forget();
}

/// RFC 9260 §6.2.1 D ii: rwnd is the a_rwnd of the SACK minus the outstanding data, or 0 if more data is outstanding.
/// Data that a gap block acknowledges is not outstanding.
#[test]
fn rwnd_is_a_rwnd_less_what_is_outstanding() {
    let mut script = Script::established(&[("iw", "10"), ("max_burst", "0")]);
    script.lose_times(A, "DATA", 99);
    for _ in 0..5 {
        script.send(A, 0, 1_000);
    }
    script.run(10);
    let rwnd =
        |script: &Script| script.net.ends[0].engine.info(script.id(A)).expect("an association").peer_rwnd;
    let (vtag, first) = (script.tag(A), tsn(&script, A, 1));
    let mut peer_window = |window: u32, gaps: &[GapBlock]| {
        let sack = Sack { cumulative: first, window, gaps, duplicates: &[] };
        script.inject(B, vtag, |b| sack.emit(b)).run(30);
        rwnd(&script)
    };
    // For the first SACK, TSNs 2 to 5 are outstanding. For the second SACK, TSNs 2, 3 and 5 are outstanding.
    assert_eq!(peer_window(60_000, &[]), 60_000 - 4 * 1_000);
    assert_eq!(peer_window(50_000, &[block(3, 3)]), 50_000 - 3 * 1_000);
    assert_eq!(peer_window(3_000, &[block(3, 3)]), 0);
    assert_eq!(peer_window(2_999, &[block(3, 3)]), 0);
    // TSN 4 is outstanding again, because its acknowledgement is revoked.
    assert_eq!(peer_window(40_000, &[]), 40_000 - 4 * 1_000);
    script.forget();
}

/// RFC 9260 §7.2.1: a SACK increases only the window of the path on which the acknowledged data was sent.
#[test]
fn each_path_has_its_own_window() {
    let mut script = Script::established_on(&[25, 25], &[]);
    let before = [path(&script, 0).cwnd, path(&script, 1).cwnd];
    script.send(A, 0, 60_000).run(3_000);
    assert!(path(&script, 0).cwnd > before[0]);
    assert_eq!(path(&script, 1).cwnd, before[1]);
    script.forget();
}

/// RFC 9260 §7.3: an ICMP message about a path changes only the MTU of that path. Messages are divided into chunks for
/// the smallest MTU of all paths.
#[test]
fn chunks_are_cut_for_the_narrowest_path() {
    let mut script = Script::established_on(&[25, 25], &[]);
    let mut quoted = Vec::new();
    let (source, target) = script.ports(A);
    packet::begin(&mut quoted, source, target, script.tag(B));
    let [from, to] = [A, B].map(|side| net::address(side, 2).ip());
    script.net.icmp(A, &Icmp { kind: IcmpKind::TooBig(600), source: from, target: to }, &quoted[..8]);
    assert_eq!((path(&script, 0).mtu, path(&script, 1).mtu), (1_500, 600));
    script.send(A, 0, 2_000).run(10);
    let drawn = script.net.ladder.take();
    assert!(
        drawn.contains("len=552 B;") && drawn.lines().all(|line| line.contains("A.1 ──► B.1")),
        "{drawn}"
    );
    script.run(1_000).forget();
}

/// RFC 9260 §6: a SACK that arrives in SHUTDOWN-SENT is discarded. The test's SACK acknowledges data that was never
/// sent, which in another state would end the association.
#[test]
fn a_sack_in_shutdown_sent_is_discarded() {
    let mut script = Script::warm(&[]);
    script.lose(A, "SHUTDOWN").shutdown(A).run(10);
    sack(&mut script, 9, &[]);
    let info = script.net.ends[0].engine.info(script.id(A)).expect("an association");
    assert_eq!(info.state, AssociationState::ShutdownSent);
    script.forget();
}

/// RFC 9260 §6.2: the SACK delay must not exceed 500 ms.
#[test]
fn no_longer_delay_than_half_a_second() {
    let mut config = Config::default();
    assert!(config.set("delack", "500ms").is_ok());
    assert!(config.set("delack", "501ms").is_err());
    assert_eq!(config.delack.as_millis(), 500);
}
