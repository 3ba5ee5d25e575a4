//! Packets with several chunks of the same type. Each chunk is processed, in order (RFC 9260 §6.10).

use crate::net::{A, B};
use crate::script::Script;
use anabranch_wire::sctp::{Ecne, GapBlock, Heartbeat, Sack, Tsn};
use expect_test::expect;

const OPEN: u32 = 60_000;

/// Returns the `n`th TSN of A, counted from 1.
fn tsn(script: &Script, n: u32) -> Tsn {
    Tsn(script.net.ladder.numbers().first(A).expect("a TSN")).plus(n).plus(u32::MAX)
}

fn sack(cumulative: Tsn, gaps: &[GapBlock]) -> Sack<'_> {
    Sack { cumulative, window: OPEN, gaps, duplicates: &[] }
}

/// A packet has two SACKs. Data that the second SACK acknowledges is not retransmitted by T3-rtx.
#[test]
fn the_second_of_two_sacks_acknowledges() {
    let mut script = Script::warm(&[("iw", "10"), ("max_burst", "0")]);
    script.lose_times(B, "SACK", 9).send(A, 0, 1_000).send(A, 0, 1_000).send(A, 0, 1_000).run(100);
    let (tag, cumulative) = (script.tag(A), [2, 3, 4].map(|n| tsn(&script, n)));
    script.net.rules.clear();
    script.inject(B, tag, |packet| {
        for cumulative in cumulative {
            sack(cumulative, &[]).emit(packet);
        }
    });
    script.run(5_000);
    let stats = script.net.ends[0].engine.stats(script.id(A)).expect("there");
    assert_eq!((stats.sacks_received, stats.retransmitted_timeout), (5, 0));
    assert_eq!(script.net.ends[0].engine.info(script.id(A)).expect("there").outstanding, 0);
}

/// RFC 9260 §7.2.4: if a packet contains several SACK chunks, each of them counts as a miss indication. A SACK that is
/// older than the SACK before it is ignored (§6.2.1 D i).
#[test]
fn three_reports_in_one_packet_are_three() {
    let mut script = Script::warm(&[("iw", "10"), ("max_burst", "0")]);
    script.lose_times(B, "SACK", 9).lose(A, "DATA tsn=2 ");
    for _ in 0..4 {
        script.send(A, 0, 1_000);
    }
    script.run(60);
    let (tag, base) = (script.tag(A), tsn(&script, 1));
    script.net.rules.clear();
    script.inject(B, tag, |packet| {
        for end in 2..=4 {
            sack(base, &[GapBlock { start: 2, end }]).emit(packet);
        }
        sack(Tsn(base.0.wrapping_sub(1)), &[]).emit(packet);
    });
    script.run(2_000);
    let stats = script.net.ends[0].engine.stats(script.id(A)).expect("there");
    assert_eq!((stats.retransmitted_fast, stats.retransmitted_timeout), (1, 0));
}

/// A packet full of SACKs that contradict each other takes no more time than one SACK, and does no harm.
#[test]
fn a_packet_full_of_sacks_does_no_harm() {
    let mut script =
        Script::established(&[("iw", "10"), ("max_burst", "0"), ("rcvbuf", "1MiB"), ("mss", "64B")]);
    script.lose_times(B, "SACK", 999);
    for _ in 0..3 {
        script.send(A, 0, 9_000);
    }
    script.run(40);
    let (tag, base) = (script.tag(A), tsn(&script, 0));
    script.net.rules.clear();
    script.inject(B, tag, |packet| {
        for turn in 0..60 {
            sack(base, &[GapBlock { start: 2 + turn % 2, end: 90 - turn }]).emit(packet);
        }
    });
    script.run(60_000);
    let info = script.net.ends[0].engine.info(script.id(A)).expect("there");
    assert_eq!((info.outstanding, info.buffered), (0, 0), "all of it arrives");
}

/// RFC 9260 §8.3: each HEARTBEAT of a packet is answered.
#[test]
fn each_heartbeat_is_answered() {
    let mut script = Script::warm(&[]);
    let tag = script.tag(B);
    script.inject(A, tag, |packet| {
        for info in [b"first...", b"second.."] {
            Heartbeat { info, rest: &[] }.emit(packet);
        }
    });
    script.run(1_000);
    script.check(expect![[r#"
        2.000  A ──► B   HEARTBEAT; HEARTBEAT     injected
        2.025  A ◄── B   HEARTBEAT ACK; HEARTBEAT ACK
    "#]]);
}

/// RFC 4960 Appendix A: two ECNE chunks in a packet reduce the window once, and one CWR answers both.
#[test]
fn the_cwr_answers_both_echoes() {
    let mut script = Script::warm(&[("ecn", "yes"), ("iw", "10"), ("max_burst", "0")]);
    script.lose_times(B, "SACK", 9);
    for _ in 0..4 {
        script.send(A, 0, 1_000);
    }
    script.run(60);
    let (tag, tsns) = (script.tag(A), [5, 2].map(|n| tsn(&script, n)));
    script.net.rules.clear();
    script.forget();
    script.inject(B, tag, |packet| {
        for tsn in tsns {
            Ecne { tsn }.emit(packet);
        }
    });
    script.run(50).send(A, 0, 100).run(3_000);
    script.check(expect![[r#"
        2.060  A ◄── B   ECNE          tsn=5; ECNE tsn=2     injected
        2.110  A ──► B   CWR           tsn=5; DATA tsn=6 sid=0 ssn=5 len=100 BE
        2.135          B: received sid=0 len=100
        2.335  A ◄── B   SACK          cum=6 rwnd=64k
    "#]]);
    let stats = script.net.ends[0].engine.stats(script.id(A)).expect("there");
    assert_eq!(stats.ecn_reductions, 1);
}
