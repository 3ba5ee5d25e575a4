//! Loss detection by time, and tail loss probes (RFC 8985).

use crate::net::{A, B, Narrow, address};
use crate::script::Script;
use anabranch_base::Engine;
use anabranch_sctp::testing::transmit_all;
use expect_test::expect;

const TIMED: [(&str, &str); 4] = [("iw", "10"), ("max_burst", "0"), ("rack", "yes"), ("tlp", "yes")];

/// RFC 8985 §7: the last chunk is lost. A tail loss probe retransmits it, long before T3-rtx expires.
#[test]
fn the_probe_repairs_the_tail() {
    let mut script = Script::established(&TIMED);
    script.lose(A, "DATA tsn=3 ").send(A, 0, 4_000).run(4_000);
    let stats = script.net.ends[0].engine.stats(script.id(A)).expect("stats");
    assert_eq!((stats.tail_probes, stats.t3_expirations), (1, 0));
    script.check(expect![[r#"
        1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1452 B
        1.000  A ──► B   DATA          tsn=2 sid=0 ssn=0 len=1452
        1.000  A ──► B   DATA          tsn=3 sid=0 ssn=0 len=1096 E     ✗ lost
        1.025  A ◄── B   SACK          cum=1 rwnd=64084
        1.150  A ──► B   DATA          tsn=3 sid=0 ssn=0 len=1096 E
        1.175          B: received sid=0 len=4000
        1.175  A ◄── B   SACK          cum=3 rwnd=64k
    "#]]);
}

/// RFC 8985 §6.2: a chunk that arrives within the reordering window does not count as lost.
#[test]
fn reordering_within_the_window_is_tolerated() {
    let mut script = Script::established(&[("iw", "10"), ("delack", "0"), ("rack", "yes")]);
    script.delay_us(A, "DATA tsn=2 ", 6_000);
    for _ in 0..2 {
        script.send(A, 0, 1_000).run(1);
    }
    script.send(A, 0, 1_000).run(2_000);
    let stats = script.net.ends[0].engine.stats(script.id(A)).expect("stats");
    assert_eq!((stats.retransmitted_fast, stats.t3_expirations), (0, 0));
    script.check(expect![[r#"
        1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1000 BE
        1.001  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=1000 BE     delayed 6 ms
        1.002  A ──► B   DATA          tsn=3 sid=0 ssn=2 len=1000 BE
        1.025          B: received sid=0 len=1000
        1.025  A ◄── B   SACK          cum=1 rwnd=64k
        1.027  A ◄── B   SACK          cum=1 rwnd=64536 gaps=3
        1.032          B: received sid=0 len=1000
        1.032          B: received sid=0 len=1000
        1.032  A ◄── B   SACK          cum=3 rwnd=64k
    "#]]);
}

/// RFC 8985 §6.2: the loss of a retransmission is detected when packets that were sent after it arrive.
#[test]
fn a_lost_retransmission_is_retransmitted() {
    let mut script = Script::established(&TIMED);
    script.lose_times(A, "DATA tsn=2 ", 2).send(A, 0, 9_000).run(49);
    script.send(A, 0, 9_000).run(4_000);
    let stats = script.net.ends[0].engine.stats(script.id(A)).expect("stats");
    assert_eq!((stats.retransmitted_fast, stats.t3_expirations), (2, 0));
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
        1.049  A ──► B   DATA          tsn=8 sid=0 ssn=1 len=1452 B
        1.049  A ──► B   DATA          tsn=9 sid=0 ssn=1 len=1452
        1.049  A ──► B   DATA          tsn=10 sid=0 ssn=1 len=1452
        1.049  A ──► B   DATA          tsn=11 sid=0 ssn=1 len=1452
        1.050  A ──► B   DATA          tsn=12 sid=0 ssn=1 len=1452
        1.050  A ──► B   DATA          tsn=13 sid=0 ssn=1 len=1452
        1.050  A ──► B   DATA          tsn=14 sid=0 ssn=1 len=288 E
        1.050  A ──► B   DATA          tsn=2 sid=0 ssn=0 len=1452     ✗ lost
        1.074  A ◄── B   SACK          cum=1 rwnd=56536 gaps=3-8
        1.074  A ◄── B   SACK          cum=1 rwnd=55084 gaps=3-9
        1.074  A ◄── B   SACK          cum=1 rwnd=53632 gaps=3-10
        1.074  A ◄── B   SACK          cum=1 rwnd=52180 gaps=3-11
        1.075  A ◄── B   SACK          cum=1 rwnd=50728 gaps=3-12
        1.075  A ◄── B   SACK          cum=1 rwnd=49276 gaps=3-13
        1.075  A ◄── B   SACK          cum=1 rwnd=48988 gaps=3-14
        1.100  A ──► B   DATA          tsn=2 sid=0 ssn=0 len=1452
        1.125          B: received sid=0 len=9000
        1.125          B: received sid=0 len=9000
        1.125  A ◄── B   SACK          cum=14 rwnd=64k
    "#]]);
}

/// RFC 8985 §6.1: of two chunks sent at the same instant, the chunk with the higher TSN counts as sent later. So an
/// arriving chunk shows the loss of lower TSNs only. TSNs 2 and 4 are detected as lost when TSN 5 has arrived, and the
/// tail loss probe retransmits TSN 6.
#[test]
fn sent_in_one_instant() {
    let mut script = Script::established(&TIMED);
    script.lose(A, "DATA tsn=2 ").lose(A, "DATA tsn=4 ").lose(A, "DATA tsn=6 ").send(A, 0, 8_000).run(4_000);
    let stats = script.net.ends[0].engine.stats(script.id(A)).expect("stats");
    assert_eq!(stats.t3_expirations, 0);
    script.check(expect![[r#"
        1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1452 B
        1.000  A ──► B   DATA          tsn=2 sid=0 ssn=0 len=1452     ✗ lost
        1.000  A ──► B   DATA          tsn=3 sid=0 ssn=0 len=1452
        1.000  A ──► B   DATA          tsn=4 sid=0 ssn=0 len=1452     ✗ lost
        1.000  A ──► B   DATA          tsn=5 sid=0 ssn=0 len=1452
        1.000  A ──► B   DATA          tsn=6 sid=0 ssn=0 len=740 E     ✗ lost
        1.025  A ◄── B   SACK          cum=1 rwnd=64084
        1.025  A ◄── B   SACK          cum=1 rwnd=62632 gaps=3
        1.025  A ◄── B   SACK          cum=1 rwnd=61180 gaps=3,5
        1.062  A ──► B   DATA          tsn=2 sid=0 ssn=0 len=1452
        1.062  A ──► B   DATA          tsn=4 sid=0 ssn=0 len=1452
        1.087  A ◄── B   SACK          cum=3 rwnd=59728 gaps=5
        1.087  A ◄── B   SACK          cum=5 rwnd=58276
        1.112  A ──► B   DATA          tsn=6 sid=0 ssn=0 len=740 E
        1.137          B: received sid=0 len=8000
        1.337  A ◄── B   SACK          cum=6 rwnd=64k
    "#]]);
}

/// RFC 8985 §6.2: the reordering timer of a path runs for a single chunk. The MTU of the path shrinks, and the chunk
/// moves to another path, so the timer must stop. Otherwise the old deadline would already have passed when the next
/// chunk is sent on the first path.
#[test]
fn a_time_that_nothing_waits_for() {
    let mut script = Script::established_on(&[100, 5], &TIMED);
    script.lose(A, "DATA tsn=1 ").duplicate_late(B, "gaps=2-3", 5).send(A, 0, 4_000).run(202);
    script.net.narrow.insert(1, Narrow { mtu: 1_000, sends_icmp: true });
    script.send(A, 0, 1_400).run(1_000);
    script.check(expect![[r#"
        4.000  A.1 ──► B.1   DATA          tsn=1 sid=0 ssn=0 len=1452 B     ✗ lost
        4.000  A.1 ──► B.1   DATA          tsn=2 sid=0 ssn=0 len=1452
        4.000  A.1 ──► B.1   DATA          tsn=3 sid=0 ssn=0 len=1096 E
        4.100  A.1 ◄── B.1   SACK          cum=0 rwnd=64084 gaps=2
        4.100  A.1 ◄── B.1   SACK          cum=0 rwnd=62988 gaps=2-3     duplicated
        4.202  A.1 ──► B.1   DATA          tsn=4 sid=0 ssn=1 len=1400 BE     ✗ too big, told
        4.202  A.2 ──► B.2   DATA          tsn=1 sid=0 ssn=0 len=1452 B
        4.202  A.2 ──► B.2   DATA          tsn=4 sid=0 ssn=1 len=1400 BE
        4.207          B: received sid=0 len=4000
        4.207  A.2 ◄── B.2   SACK          cum=3 rwnd=64k
        4.207          B: received sid=0 len=1400
        4.407  A.2 ◄── B.2   SACK          cum=4 rwnd=64k
    "#]]);
    script.send(A, 0, 500);
    let (now, engine) = (script.net.now, &mut script.net.ends[0].engine);
    assert!(transmit_all(engine, now).iter().all(|packet| packet.target == address(B, 1)));
    assert!(engine.poll_timeout().is_some_and(|at| at > now), "a timer has run out already");
}

/// RFC 5681 §4.3: a second loss during the recovery from a timeout is a separate sign of congestion, so it reduces the
/// window. Otherwise slow start would fill a queue that is already full.
#[test]
fn a_loss_during_the_recovery_from_a_timeout_reduces_the_window() {
    for times in [1, 2] {
        let mut script =
            Script::established(&[("iw", "10"), ("max_burst", "0"), ("rack", "yes"), ("tlp", "no")]);
        for tsn in 1..=10 {
            script.lose_times(A, &format!("DATA tsn={tsn} "), if tsn == 5 { times } else { 1 });
        }
        script.send(A, 0, 14_000).run(10_000);
        let stats = script.net.ends[0].engine.stats(script.id(A)).expect("stats");
        assert_eq!((stats.fast_recoveries, stats.t3_expirations), (times as u64 - 1, 1));
    }
}
