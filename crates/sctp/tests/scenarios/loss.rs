//! Recovery of lost packets (RFC 9260 §6.3.3, §7.2.4).

use crate::net::{A, B};
use crate::script::Script;
use expect_test::expect;

/// RFC 9260 §7.2.4: a chunk is fast retransmitted after three miss indications.
#[test]
fn fast_retransmit() {
    let mut script = Script::established(&[("iw", "10"), ("max_burst", "0")]);
    script.lose(A, "DATA tsn=2 ").send(A, 0, 9_000).run(2_000);
    script.check(expect![[r#"
        1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1452 B
        1.000  A ──► B   DATA          tsn=2 sid=0 ssn=0 len=1452     ✗ lost
        1.000  A ──► B   DATA          tsn=3 sid=0 ssn=0 len=1452
        1.000  A ──► B   DATA          tsn=4 sid=0 ssn=0 len=1452
        1.000  A ──► B   DATA          tsn=5 sid=0 ssn=0 len=1452
        1.000  A ──► B   DATA          tsn=6 sid=0 ssn=0 len=1452
        1.000  A ──► B   DATA          tsn=7 sid=0 ssn=0 len=288 E
        1.025  A ◄── B   SACK          cum=1 rwnd=64084
        1.025  A ◄── B   SACK          cum=1 rwnd=62632 gaps=3
        1.025  A ◄── B   SACK          cum=1 rwnd=61180 gaps=3-4
        1.025  A ◄── B   SACK          cum=1 rwnd=59728 gaps=3-5
        1.025  A ◄── B   SACK          cum=1 rwnd=58276 gaps=3-6
        1.025  A ◄── B   SACK          cum=1 rwnd=57988 gaps=3-7
        1.050  A ──► B   DATA          tsn=2 sid=0 ssn=0 len=1452
        1.075          B: received sid=0 len=9000
        1.075  A ◄── B   SACK          cum=7 rwnd=64k
    "#]]);
}

/// RFC 9260 §7.2.4: two chunks of one window are lost. Both are retransmitted in one fast recovery.
#[test]
fn two_holes() {
    let mut script = Script::established(&[("iw", "10"), ("max_burst", "0")]);
    script.lose(A, "DATA tsn=2 ").lose(A, "DATA tsn=4 ").send(A, 0, 12_000).run(2_000);
    script.check(expect![[r#"
        1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1452 B
        1.000  A ──► B   DATA          tsn=2 sid=0 ssn=0 len=1452     ✗ lost
        1.000  A ──► B   DATA          tsn=3 sid=0 ssn=0 len=1452
        1.000  A ──► B   DATA          tsn=4 sid=0 ssn=0 len=1452     ✗ lost
        1.000  A ──► B   DATA          tsn=5 sid=0 ssn=0 len=1452
        1.000  A ──► B   DATA          tsn=6 sid=0 ssn=0 len=1452
        1.000  A ──► B   DATA          tsn=7 sid=0 ssn=0 len=1452
        1.000  A ──► B   DATA          tsn=8 sid=0 ssn=0 len=1452
        1.000  A ──► B   DATA          tsn=9 sid=0 ssn=0 len=384 E
        1.025  A ◄── B   SACK          cum=1 rwnd=64084
        1.025  A ◄── B   SACK          cum=1 rwnd=62632 gaps=3
        1.025  A ◄── B   SACK          cum=1 rwnd=61180 gaps=3,5
        1.025  A ◄── B   SACK          cum=1 rwnd=59728 gaps=3,5-6
        1.025  A ◄── B   SACK          cum=1 rwnd=58276 gaps=3,5-7
        1.025  A ◄── B   SACK          cum=1 rwnd=56824 gaps=3,5-8
        1.025  A ◄── B   SACK          cum=1 rwnd=56440 gaps=3,5-9
        1.050  A ──► B   DATA          tsn=2 sid=0 ssn=0 len=1452
        1.050  A ──► B   DATA          tsn=4 sid=0 ssn=0 len=1452
        1.075  A ◄── B   SACK          cum=3 rwnd=54988 gaps=5-9
        1.075          B: received sid=0 len=12000
        1.075  A ◄── B   SACK          cum=9 rwnd=64k
    "#]]);
}

/// RFC 9260 §7.2.4 step 5: a chunk is fast retransmitted only once. If the retransmission is lost as well, T3-rtx
/// retransmits the chunk.
#[test]
fn the_fast_retransmit_is_lost() {
    let mut script = Script::established(&[("iw", "10"), ("max_burst", "0")]);
    script.lose_times(A, "DATA tsn=2 ", 2).send(A, 0, 9_000).run(4_000);
    script.check(expect![[r#"
        1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1452 B
        1.000  A ──► B   DATA          tsn=2 sid=0 ssn=0 len=1452     ✗ lost
        1.000  A ──► B   DATA          tsn=3 sid=0 ssn=0 len=1452
        1.000  A ──► B   DATA          tsn=4 sid=0 ssn=0 len=1452
        1.000  A ──► B   DATA          tsn=5 sid=0 ssn=0 len=1452
        1.000  A ──► B   DATA          tsn=6 sid=0 ssn=0 len=1452
        1.000  A ──► B   DATA          tsn=7 sid=0 ssn=0 len=288 E
        1.025  A ◄── B   SACK          cum=1 rwnd=64084
        1.025  A ◄── B   SACK          cum=1 rwnd=62632 gaps=3
        1.025  A ◄── B   SACK          cum=1 rwnd=61180 gaps=3-4
        1.025  A ◄── B   SACK          cum=1 rwnd=59728 gaps=3-5
        1.025  A ◄── B   SACK          cum=1 rwnd=58276 gaps=3-6
        1.025  A ◄── B   SACK          cum=1 rwnd=57988 gaps=3-7
        1.050  A ──► B   DATA          tsn=2 sid=0 ssn=0 len=1452     ✗ lost
        2.050  A ──► B   DATA          tsn=2 sid=0 ssn=0 len=1452
        2.075          B: received sid=0 len=9000
        2.075  A ◄── B   SACK          cum=7 rwnd=64k
    "#]]);
}

/// RFC 9260 §6.3.3: no SACK reports the loss of the last chunk, so T3-rtx retransmits it.
#[test]
fn the_tail_is_lost() {
    let mut script = Script::established(&[]);
    script.lose(A, "DATA tsn=2 ").send(A, 0, 2_800).run(4_000);
    script.check(expect![[r#"
           1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1452 B
           1.000  A ──► B   DATA          tsn=2 sid=0 ssn=0 len=1348 E     ✗ lost
           1.025  A ◄── B   SACK          cum=1 rwnd=64084
           2.050  A ──► B   DATA          tsn=2 sid=0 ssn=0 len=1348 E
           2.075          B: received sid=0 len=2800
           2.275  A ◄── B   SACK          cum=2 rwnd=64k
    "#]]);
}

/// RFC 9260 §6.3.3 E2: a chunk is lost three times. The RTO is 1, 2 and then 4 s.
#[test]
fn backing_off() {
    let mut script = Script::established(&[]);
    script.lose_times(A, "DATA tsn=1 ", 3).send(A, 0, 100).run(9_000);
    script.check(expect![[r#"
           1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=100 BE     ✗ lost
           2.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=100 BE     ✗ lost
           4.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=100 BE     ✗ lost
           8.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=100 BE
           8.025          B: received sid=0 len=100
           8.025  A ◄── B   SACK          cum=1 rwnd=64k
    "#]]);
}

/// RFC 9260 §6.3.3 E3: a whole window is lost. When T3-rtx expires, one packet is sent, and the remaining packets
/// follow as the congestion window opens.
#[test]
fn a_whole_window_is_lost() {
    let mut script = Script::established(&[("iw", "4")]);
    script.lose_times(A, "DATA", 4).send(A, 0, 5_600).run(4_000);
    script.check(expect![[r#"
           1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1452 B     ✗ lost
           1.000  A ──► B   DATA          tsn=2 sid=0 ssn=0 len=1452     ✗ lost
           1.000  A ──► B   DATA          tsn=3 sid=0 ssn=0 len=1452     ✗ lost
           1.000  A ──► B   DATA          tsn=4 sid=0 ssn=0 len=1244 E     ✗ lost
           2.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1452 B
           2.025  A ◄── B   SACK          cum=1 rwnd=64084
           2.050  A ──► B   DATA          tsn=2 sid=0 ssn=0 len=1452
           2.050  A ──► B   DATA          tsn=3 sid=0 ssn=0 len=1452
           2.075  A ◄── B   SACK          cum=3 rwnd=61180
           2.100  A ──► B   DATA          tsn=4 sid=0 ssn=0 len=1244 E
           2.125          B: received sid=0 len=5600
           2.325  A ◄── B   SACK          cum=4 rwnd=64k
    "#]]);
}

/// RFC 9260 §8.1, §8.2: the peer stops answering, and the association ends after Association.Max.Retrans.
#[test]
fn the_peer_vanishes() {
    let mut script = Script::established(&[("assoc_max_retrans", "2"), ("path_max_retrans", "2")]);
    script.kill(1).send(A, 0, 100).run(20_000);
    script.check_drawn(expect![[r#"
        1.000          network 1 fails
        1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=100 BE     ✗ lost
        2.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=100 BE     ✗ lost
        4.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=100 BE     ✗ lost
        8.000          A: path to 10.0.1.2 is down
        8.000          A: not delivered: sid=0 len=100 context=1, sent
        8.000          A: closed: Unreachable
        8.000  A ──► B   ABORT     ✗ lost
    "#]]);
}

/// RFC 9260 §6.3.1 C5 (Karn): the answer to a retransmission is not measured.
#[test]
fn karn() {
    let mut script = Script::established(&[]);
    let before = script.net.ends[0].engine.info(script.id(A)).expect("info").paths[0].srtt;
    script.lose(A, "DATA tsn=1 ").send(A, 0, 100).run(3_000);
    let after = script.net.ends[0].engine.info(script.id(A)).expect("info").paths[0].srtt;
    assert_eq!(before, after, "the retransmission was not measured");
    script.check(expect![[r#"
           1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=100 BE     ✗ lost
           2.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=100 BE
           2.025          B: received sid=0 len=100
           2.025  A ◄── B   SACK          cum=1 rwnd=64k
    "#]]);
}

/// Sends five packets, a millisecond apart. The second packet is delayed by `us` microseconds.
fn reordered(us: u64) -> Script {
    let mut script = Script::established(&[("iw", "10"), ("delack", "0")]);
    script.delay_us(A, "DATA tsn=2 ", us);
    for _ in 0..5 {
        script.send(A, 0, 1_000).run(1);
    }
    script.run(2_000);
    script
}

/// RFC 9260 §7.2.4: a chunk that two packets have overtaken does not count as lost.
#[test]
fn reordering_by_two_is_tolerated() {
    let mut script = reordered(2_500);
    let stats = script.net.ends[0].engine.stats(script.id(A)).expect("stats");
    assert_eq!((stats.retransmitted_fast, stats.retransmitted_spurious), (0, 0));
    script.check(expect![[r#"
        1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1000 BE
        1.001  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=1000 BE     delayed 2.5 ms
        1.002  A ──► B   DATA          tsn=3 sid=0 ssn=2 len=1000 BE
        1.003  A ──► B   DATA          tsn=4 sid=0 ssn=3 len=1000 BE
        1.004  A ──► B   DATA          tsn=5 sid=0 ssn=4 len=1000 BE
        1.025          B: received sid=0 len=1000
        1.025  A ◄── B   SACK          cum=1 rwnd=64k
        1.027  A ◄── B   SACK          cum=1 rwnd=64536 gaps=3
        1.028  A ◄── B   SACK          cum=1 rwnd=63536 gaps=3-4
        1.028          B: received sid=0 len=1000
        1.028          B: received sid=0 len=1000
        1.028          B: received sid=0 len=1000
        1.028  A ◄── B   SACK          cum=4 rwnd=64k
        1.029          B: received sid=0 len=1000
        1.029  A ◄── B   SACK          cum=5 rwnd=64k
    "#]]);
}

/// RFC 9260 §7.2.4: a chunk counts as lost when three later packets have arrived. A duplicate TSN then shows that the
/// chunk was only late.
#[test]
fn reordering_by_three_is_not() {
    let mut script = reordered(3_500);
    let stats = script.net.ends[0].engine.stats(script.id(A)).expect("stats");
    assert_eq!((stats.retransmitted_fast, stats.retransmitted_spurious), (1, 1));
    script.check(expect![[r#"
        1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1000 BE
        1.001  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=1000 BE     delayed 3.5 ms
        1.002  A ──► B   DATA          tsn=3 sid=0 ssn=2 len=1000 BE
        1.003  A ──► B   DATA          tsn=4 sid=0 ssn=3 len=1000 BE
        1.004  A ──► B   DATA          tsn=5 sid=0 ssn=4 len=1000 BE
        1.025          B: received sid=0 len=1000
        1.025  A ◄── B   SACK          cum=1 rwnd=64k
        1.027  A ◄── B   SACK          cum=1 rwnd=64536 gaps=3
        1.028  A ◄── B   SACK          cum=1 rwnd=63536 gaps=3-4
        1.029  A ◄── B   SACK          cum=1 rwnd=62536 gaps=3-5
        1.029          B: received sid=0 len=1000
        1.029          B: received sid=0 len=1000
        1.029          B: received sid=0 len=1000
        1.029          B: received sid=0 len=1000
        1.029  A ◄── B   SACK          cum=5 rwnd=64k
        1.054  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=1000 BE
        1.079  A ◄── B   SACK          cum=5 rwnd=64k dups=2
    "#]]);
}

/// A SACK arrives 30 ms later than usual, and the round trip is longer than RTO.Min. With `rto_var_min=200ms`, as in
/// Linux TCP, the RTO exceeds a steady round-trip time by at least 200 ms, so T3-rtx does not expire. With
/// `rto_var_min=0ms`, T3-rtx expires.
#[test]
fn the_variation_has_a_floor() {
    for (floor, expirations) in [("0ms", 1), ("200ms", 0)] {
        let mut script = Script::established(&[("rto_min", "50ms"), ("rto_var_min", floor), ("delack", "0")]);
        for _ in 0..60 {
            script.send(A, 0, 1_000).run(1_000);
        }
        script.delay(B, "SACK ", 30).send(A, 0, 1_000).run(1_000);
        let stats = script.net.ends[0].engine.stats(script.id(A)).expect("stats");
        assert_eq!(stats.t3_expirations, expirations, "floor {floor}");
    }
}
