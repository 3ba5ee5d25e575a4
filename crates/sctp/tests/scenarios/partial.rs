//! Abandoned messages (RFC 3758, RFC 7496).

use crate::net::{A, B};
use crate::script::{Script, configured};
use anabranch_base::time::Duration;
use anabranch_sctp::{Abandoned, Message, Policy, Reliability, SendError};
use anabranch_wire::sctp::{ForwardTsn, Skipped, Ssn, Tsn};
use expect_test::expect;

/// Settings: both sides support FORWARD TSN, and all packets of a message are sent at once.
const ON: &[(&str, &str)] = &[("partial_reliability", "yes"), ("iw", "10"), ("max_burst", "0")];

fn with(more: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    [ON, more].concat()
}

fn lifetime(stream: u16, ms: u64) -> Message {
    let reliability = Reliability::Lifetime(Duration::from_millis(ms));
    Message { stream, reliability, ..Message::default() }
}

fn retransmissions(stream: u16, most: u32) -> Message {
    Message { stream, reliability: Reliability::Retransmissions(most), ..Message::default() }
}

fn priority(stream: u16, priority: u32) -> Message {
    Message { stream, reliability: Reliability::Priority(priority), ..Message::default() }
}

/// RFC 3758 §3.3: the extension is announced in INIT and INIT ACK.
#[test]
fn both_say_that_they_support_it() {
    let mut script = Script::new(ON);
    script.associate().run(1_000);
    script.check(expect![[r#"
        0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 forward-tsn extensions=192 families=v4
        0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie forward-tsn extensions=192
        0.050  A ──► B   COOKIE ECHO
        0.075          B: accepted, 10 streams out, 10 in
        0.075  A ◄── B   COOKIE ACK
        0.100          A: established, 10 streams out, 10 in
    "#]]);
    let id = script.id(A);
    assert!(script.net.end(A).engine.info(id).expect("there").extensions.partial_reliability);
}

/// RFC 3758 §4.1: a message whose lifetime ends before T3-rtx expires is not retransmitted. A FORWARD TSN tells the
/// peer to skip the message.
#[test]
fn a_message_times_out() {
    let mut script = Script::warm(ON);
    script.lose(A, "DATA tsn=2 ").send_message(A, lifetime(0, 300), 100).run(4_000);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
        3.000          A: gave up sid=0 len=100 context=3, sent, by Lifetime
        3.000  A ──► B   FORWARD TSN   cum=2 sid:ssn=0:1
        3.225  A ◄── B   SACK          cum=2 rwnd=64k
    "#]]);
}

/// RFC 3758 §3.5 C4, §3.6: when a message is skipped, later messages of its stream are delivered at once. Other streams
/// do not wait.
#[test]
fn those_behind_it_are_delivered() {
    let mut script = Script::warm(ON);
    script.lose(A, "DATA tsn=2 ").send_message(A, lifetime(3, 10), 1_452);
    script.send(A, 3, 1_452).send(A, 4, 1_452).send(A, 3, 1_452).run(3_000);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=2 sid=3 ssn=0 len=1452 BE     ✗ lost
        2.000  A ──► B   DATA          tsn=3 sid=3 ssn=1 len=1452 BE
        2.000  A ──► B   DATA          tsn=4 sid=4 ssn=0 len=1452 BE
        2.000  A ──► B   DATA          tsn=5 sid=3 ssn=2 len=1452 BE
        2.025  A ◄── B   SACK          cum=1 rwnd=64084 gaps=3
        2.025          B: received sid=4 len=1452
        2.025  A ◄── B   SACK          cum=1 rwnd=64084 gaps=3-4
        2.025  A ◄── B   SACK          cum=1 rwnd=62632 gaps=3-5
        2.050          A: gave up sid=3 len=1452 context=3, sent, by Lifetime
        2.050  A ──► B   FORWARD TSN   cum=2 sid:ssn=3:0
        2.075          B: received sid=3 len=1452
        2.075          B: received sid=3 len=1452
        2.075  A ◄── B   SACK          cum=5 rwnd=64k
    "#]]);
}

/// RFC 3758 §4.1 TR2: during its lifetime, a message is retransmitted like any other message.
#[test]
fn a_message_in_its_lifetime_is_sent_again() {
    let mut script = Script::warm(ON);
    script.lose(A, "DATA tsn=2 ").send_message(A, lifetime(0, 2_000), 100).run(4_000);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
        3.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE
        3.025          B: received sid=0 len=100
        3.225  A ◄── B   SACK          cum=2 rwnd=64k
    "#]]);
}

/// RFC 7496 §3.1: a message that allows no retransmissions is abandoned at its first loss, which fast retransmit or a
/// timeout detects. The congestion window shrinks nevertheless.
#[test]
fn no_retransmission() {
    let mut script = Script::warm(ON);
    script.lose(A, "DATA tsn=2 ");
    for _ in 0..5 {
        script.send_message(A, retransmissions(0, 0), 1_452);
    }
    script.run(1_000);
    script.lose(A, "DATA tsn=7 ").send_message(A, retransmissions(0, 0), 100).run(3_000);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=1452 BE     ✗ lost
        2.000  A ──► B   DATA          tsn=3 sid=0 ssn=2 len=1452 BE
        2.000  A ──► B   DATA          tsn=4 sid=0 ssn=3 len=1452 BE
        2.000  A ──► B   DATA          tsn=5 sid=0 ssn=4 len=1452 BE
        2.000  A ──► B   DATA          tsn=6 sid=0 ssn=5 len=1452 BE
        2.025  A ◄── B   SACK          cum=1 rwnd=64084 gaps=3
        2.025  A ◄── B   SACK          cum=1 rwnd=62632 gaps=3-4
        2.025  A ◄── B   SACK          cum=1 rwnd=61180 gaps=3-5
        2.025  A ◄── B   SACK          cum=1 rwnd=59728 gaps=3-6
        2.050          A: gave up sid=0 len=1452 context=3, sent, by Retransmissions
        2.050  A ──► B   FORWARD TSN   cum=2 sid:ssn=0:1
        2.075          B: received sid=0 len=1452
        2.075          B: received sid=0 len=1452
        2.075          B: received sid=0 len=1452
        2.075          B: received sid=0 len=1452
        2.075  A ◄── B   SACK          cum=6 rwnd=64k
        3.000  A ──► B   DATA          tsn=7 sid=0 ssn=6 len=100 BE     ✗ lost
        4.000          A: gave up sid=0 len=100 context=8, sent, by Retransmissions
        4.000  A ──► B   FORWARD TSN   cum=7 sid:ssn=0:6
        4.225  A ◄── B   SACK          cum=7 rwnd=64k
    "#]]);
    let stats = script.net.ends[0].engine.stats(script.id(A)).expect("there");
    assert_eq!((stats.fast_recoveries, stats.t3_expirations), (1, 1));
    assert_eq!((stats.retransmitted_fast, stats.retransmitted_timeout), (0, 0));
}

/// RFC 7496 §3.1: a message that allows one retransmission is abandoned when the retransmission is lost.
#[test]
fn one_retransmission() {
    let mut script = Script::warm(ON);
    script.lose_times(A, "DATA tsn=2 ", 2).send_message(A, retransmissions(0, 1), 100).run(5_000);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
        3.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
        5.000          A: gave up sid=0 len=100 context=3, sent, by Retransmissions
        5.000  A ──► B   FORWARD TSN   cum=2 sid:ssn=0:1
        5.225  A ◄── B   SACK          cum=2 rwnd=64k
    "#]]);
}

/// RFC 3758 §3.5 A3: all fragments of a message are abandoned together, even those that have arrived and those that
/// were never sent. All unsent fragments together get one TSN.
#[test]
fn a_fragmented_message_is_given_up_as_a_whole() {
    let mut script = Script::warm(&with(&[("iw", "2"), ("max_burst", "4")]));
    script.lose(A, "DATA tsn=3 ").send_message(A, lifetime(0, 40), 20_000).send(A, 0, 200).run(3_000);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=1452 B
        2.000  A ──► B   DATA          tsn=3 sid=0 ssn=1 len=1452     ✗ lost
        2.040          A: gave up sid=0 len=20000 context=3, sent, by Lifetime
        2.040  A ──► B   FORWARD TSN   cum=4 sid:ssn=0:1
        2.065  A ◄── B   SACK          cum=4 rwnd=64k
        2.090  A ──► B   DATA          tsn=5 sid=0 ssn=2 len=200 BE
        2.115          B: received sid=0 len=200
        2.315  A ◄── B   SACK          cum=5 rwnd=64k
    "#]]);
}

/// RFC 3758 §4.1 TR3: a message that was never sent has no TSN and no SSN, so the peer is not notified.
#[test]
fn nothing_was_sent() {
    let mut script = Script::warm(&with(&[("iw", "1")]));
    script.send(A, 0, 1_452).send_message(A, lifetime(0, 20), 1_000).send(A, 0, 500).run(2_000);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=1452 BE
        2.020          A: gave up sid=0 len=1000 context=4, unsent, by Lifetime
        2.025          B: received sid=0 len=1452
        2.225  A ◄── B   SACK          cum=2 rwnd=64k
        2.250  A ──► B   DATA          tsn=3 sid=0 ssn=2 len=500 BE
        2.275          B: received sid=0 len=500
        2.475  A ◄── B   SACK          cum=3 rwnd=64k
    "#]]);
}

/// A FORWARD TSN is lost, and T3-rtx retransmits it (RFC 3758 §3.5 C5, A5).
#[test]
fn the_forward_tsn_is_lost() {
    let mut script = Script::warm(ON);
    script.lose(A, "DATA tsn=2 ").lose_times(A, "FORWARD TSN", 2);
    script.send_message(A, retransmissions(0, 0), 100).run(10_000);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
        3.000          A: gave up sid=0 len=100 context=3, sent, by Retransmissions
        3.000  A ──► B   FORWARD TSN   cum=2 sid:ssn=0:1     ✗ lost
        5.000  A ──► B   FORWARD TSN   cum=2 sid:ssn=0:1     ✗ lost
        9.000  A ──► B   FORWARD TSN   cum=2 sid:ssn=0:1
        9.225  A ◄── B   SACK          cum=2 rwnd=64k
    "#]]);
}

/// The SACK that answers a FORWARD TSN is lost. The FORWARD TSN is retransmitted, and is answered again (RFC 3758
/// §3.6).
#[test]
fn the_answer_is_lost() {
    let mut script = Script::warm(ON);
    script.lose(A, "DATA tsn=2 ").lose(B, "SACK cum=2");
    script.send_message(A, retransmissions(0, 0), 100).run(10_000);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
        3.000          A: gave up sid=0 len=100 context=3, sent, by Retransmissions
        3.000  A ──► B   FORWARD TSN   cum=2 sid:ssn=0:1
        3.225  A ◄── B   SACK          cum=2 rwnd=64k     ✗ lost
        5.000  A ──► B   FORWARD TSN   cum=2 sid:ssn=0:1
        5.025  A ◄── B   SACK          cum=2 rwnd=64k
    "#]]);
}

/// RFC 3758 §3.5 F2: A sends a FORWARD TSN, and no answer comes within a round trip. A repeats the FORWARD TSN at the
/// next SACK, and does not repeat it at further SACKs of that round trip.
#[test]
fn repeated_once_a_round_trip() {
    let mut script = Script::warm(ON);
    script.lose(A, "DATA tsn=2 ").lose(A, "FORWARD TSN").send_message(A, retransmissions(0, 0), 1_452);
    for _ in 0..8 {
        script.send(A, 1, 1_452).send(A, 2, 1_452).run(20);
    }
    script.run(2_000);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=1452 BE     ✗ lost
        2.000  A ──► B   DATA          tsn=3 sid=1 ssn=0 len=1452 BE
        2.000  A ──► B   DATA          tsn=4 sid=2 ssn=0 len=1452 BE
        2.020  A ──► B   DATA          tsn=5 sid=1 ssn=1 len=1452 BE
        2.020  A ──► B   DATA          tsn=6 sid=2 ssn=1 len=1452 BE
        2.025          B: received sid=1 len=1452
        2.025  A ◄── B   SACK          cum=1 rwnd=64k gaps=3
        2.025          B: received sid=2 len=1452
        2.025  A ◄── B   SACK          cum=1 rwnd=64k gaps=3-4
        2.045          B: received sid=1 len=1452
        2.045  A ◄── B   SACK          cum=1 rwnd=64k gaps=3-5
        2.045          B: received sid=2 len=1452
        2.045  A ◄── B   SACK          cum=1 rwnd=64k gaps=3-6
        2.050  A ──► B   DATA          tsn=7 sid=1 ssn=2 len=1452 BE
        2.050  A ──► B   DATA          tsn=8 sid=2 ssn=2 len=1452 BE
        2.060  A ──► B   DATA          tsn=9 sid=1 ssn=3 len=1452 BE
        2.060  A ──► B   DATA          tsn=10 sid=2 ssn=3 len=1452 BE
        2.070          A: gave up sid=0 len=1452 context=3, sent, by Retransmissions
        2.070  A ──► B   FORWARD TSN   cum=2 sid:ssn=0:1     ✗ lost
        2.075          B: received sid=1 len=1452
        2.075  A ◄── B   SACK          cum=1 rwnd=64k gaps=3-7
        2.075          B: received sid=2 len=1452
        2.075  A ◄── B   SACK          cum=1 rwnd=64k gaps=3-8
        2.085          B: received sid=1 len=1452
        2.085  A ◄── B   SACK          cum=1 rwnd=64k gaps=3-9
        2.085          B: received sid=2 len=1452
        2.085  A ◄── B   SACK          cum=1 rwnd=64k gaps=3-10
        2.100  A ──► B   DATA          tsn=11 sid=1 ssn=4 len=1452 BE
        2.100  A ──► B   DATA          tsn=12 sid=2 ssn=4 len=1452 BE
        2.110  A ──► B   DATA          tsn=13 sid=1 ssn=5 len=1452 BE
        2.110  A ──► B   DATA          tsn=14 sid=2 ssn=5 len=1452 BE
        2.125          B: received sid=1 len=1452
        2.125  A ◄── B   SACK          cum=1 rwnd=64k gaps=3-11
        2.125          B: received sid=2 len=1452
        2.125  A ◄── B   SACK          cum=1 rwnd=64k gaps=3-12
        2.135          B: received sid=1 len=1452
        2.135  A ◄── B   SACK          cum=1 rwnd=64k gaps=3-13
        2.135          B: received sid=2 len=1452
        2.135  A ◄── B   SACK          cum=1 rwnd=64k gaps=3-14
        2.150  A ──► B   FORWARD TSN   cum=2 sid:ssn=0:1
        2.150  A ──► B   DATA          tsn=15 sid=1 ssn=6 len=1452 BE
        2.150  A ──► B   DATA          tsn=16 sid=2 ssn=6 len=1452 BE
        2.160  A ──► B   DATA          tsn=17 sid=1 ssn=7 len=1452 BE
        2.160  A ──► B   DATA          tsn=18 sid=2 ssn=7 len=1452 BE
        2.175  A ◄── B   SACK          cum=14 rwnd=64k
        2.175          B: received sid=1 len=1452
        2.175          B: received sid=2 len=1452
        2.175  A ◄── B   SACK          cum=16 rwnd=64k
        2.185          B: received sid=1 len=1452
        2.185          B: received sid=2 len=1452
        2.185  A ◄── B   SACK          cum=18 rwnd=64k
    "#]]);
}

/// RFC 3758 §3.2: a FORWARD TSN lists no SSN for an unordered message.
#[test]
fn an_unordered_message_is_skipped() {
    let mut script = Script::warm(ON);
    let message = Message { unordered: true, ..retransmissions(5, 0) };
    script.lose(A, "DATA tsn=2 ").send_message(A, message, 100).run(3_000);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=2 sid=5 len=100 UBE     ✗ lost
        3.000          A: gave up sid=5 len=100 context=3, sent, by Retransmissions
        3.000  A ──► B   FORWARD TSN   cum=2
        3.225  A ◄── B   SACK          cum=2 rwnd=64k
    "#]]);
}

/// A chunk arrives after the FORWARD TSN that skipped it, and counts as a duplicate (RFC 3758 §3.6).
#[test]
fn the_message_arrives_after_it_was_skipped() {
    let mut script = Script::warm(ON);
    script.delay(A, "DATA tsn=2 ", 1_500).send_message(A, retransmissions(0, 0), 100).run(4_000);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE     delayed 1500 ms
        3.000          A: gave up sid=0 len=100 context=3, sent, by Retransmissions
        3.000  A ──► B   FORWARD TSN   cum=2 sid:ssn=0:1
        3.225  A ◄── B   SACK          cum=2 rwnd=64k
        3.525  A ◄── B   SACK          cum=2 rwnd=64k dups=2
    "#]]);
}

/// RFC 7496 §3.2: the send buffer is full. A message of the lowest priority is abandoned for a message of a higher
/// priority and for a reliable message, but not for a message of the same priority.
#[test]
fn a_higher_priority_needs_room() {
    let mut script = Script::warm(&with(&[("sndbuf", "6000B"), ("iw", "1")]));
    script.send_message(A, priority(0, 9), 1_452).run(1);
    script.send_message(A, priority(1, 7), 2_000).send_message(A, priority(2, 5), 2_000);
    let (id, now) = (script.id(A), script.net.now);
    let engine = &mut script.net.end(A).engine;
    assert_eq!(engine.send(now, id, priority(3, 9), &[0; 2_000]), Err(SendError::Full));
    script.send_message(A, priority(3, 6), 2_000).send(A, 4, 2_000).run(2_000);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=1452 BE
        2.001          A: gave up sid=0 len=1452 context=3, sent, by Priority
        2.001          A: gave up sid=1 len=2000 context=4, unsent, by Priority
        2.001  A ──► B   FORWARD TSN   cum=2 sid:ssn=0:1
        2.025          B: received sid=0 len=1452
        2.026  A ◄── B   SACK          cum=2 rwnd=64k
        2.051  A ──► B   DATA          tsn=3 sid=2 ssn=0 len=1452 B
        2.276  A ◄── B   SACK          cum=3 rwnd=64084
        2.301  A ──► B   DATA          tsn=4 sid=2 ssn=0 len=548 E; DATA tsn=5 sid=3 ssn=0 len=888 B
        2.301  A ──► B   DATA          tsn=6 sid=3 ssn=0 len=1112 E; DATA tsn=7 sid=4 ssn=0 len=324 B
        2.326          B: received sid=2 len=2000
        2.326          B: received sid=3 len=2000
        2.326  A ◄── B   SACK          cum=7 rwnd=65212
        2.351          A: writable
        2.351  A ──► B   DATA          tsn=8 sid=4 ssn=0 len=1452
        2.351  A ──► B   DATA          tsn=9 sid=4 ssn=0 len=224 E
        2.376          B: received sid=4 len=2000
        2.376  A ◄── B   SACK          cum=9 rwnd=64k
    "#]]);
    let engine = &script.net.end(A).engine;
    assert_eq!(engine.abandoned(id, None, None), Some(Abandoned { unsent: 1, sent: 1 }));
    assert_eq!(engine.abandoned(id, Some(1), Some(Policy::Priority)), Some(Abandoned { unsent: 1, sent: 0 }));
    assert_eq!(engine.abandoned(id, None, Some(Policy::Lifetime)), Some(Abandoned::default()));
}

/// RFC 3758 §3.3.2: a peer without support for FORWARD TSN receives none. An unsent message is abandoned nevertheless
/// (RFC 9260 §11.1.5), but a partly sent message is delivered in full.
#[test]
fn the_peer_does_not_support_it() {
    let mut script = Script::with(configured(&with(&[("iw", "1")])), configured(&[]), &[25]);
    script.associate().run(1_000);
    script.send(A, 0, 8).run(1_000);
    script.forget();
    script.lose(A, "DATA tsn=2 ").send_message(A, lifetime(0, 20), 1_452).run(1);
    script.send_message(A, lifetime(1, 200), 1_452).run(4_000);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=1452 BE     ✗ lost
        2.201          A: gave up sid=1 len=1452 context=3, unsent, by Lifetime
        3.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=1452 BE
        3.025          B: received sid=0 len=1452
        3.225  A ◄── B   SACK          cum=2 rwnd=64k
    "#]]);
}

/// RFC 3758 §3.3.1: an endpoint that has not announced support reports a FORWARD TSN as an unknown chunk.
#[test]
fn a_forward_tsn_that_was_not_agreed_on() {
    let mut script = Script::warm(&[]);
    let tag = script.net.ladder.numbers().latest_tag(B).expect("seen");
    script.inject(A, tag, |packet| ForwardTsn::write(packet, Tsn(7), []));
    script.inject(A, tag, |packet| packet.extend_from_slice(&[0xc0, 0, 0, 6, 1, 2, 0, 0])).run(1_000);
    script.check(expect![[r#"
        2.000  A ──► B   FORWARD TSN   cum=-887563328     injected
        2.000  A ──► B   (chunk type 192 does not have the form of its type)     injected
        2.025  A ◄── B   ERROR unrecognized-chunk(192)
        2.025  A ◄── B   ERROR unrecognized-chunk(192)
    "#]]);
}

/// RFC 9260 §9.2: a shutdown waits until the peer has skipped the abandoned messages.
#[test]
fn a_shutdown_waits_for_the_skip() {
    let mut script = Script::warm(ON);
    script.lose(A, "DATA tsn=2 ").send_message(A, retransmissions(0, 0), 100).shutdown(A).run(4_000);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 IBE     ✗ lost
        3.000          A: gave up sid=0 len=100 context=3, sent, by Retransmissions
        3.000  A ──► B   FORWARD TSN   cum=2 sid:ssn=0:1
        3.225  A ◄── B   SACK          cum=2 rwnd=64k
        3.250  A ──► B   SHUTDOWN      cum=1
        3.275          B: peer wants to shut down
        3.275  A ◄── B   SHUTDOWN ACK
        3.300          A: closed: Shutdown
        3.300  A ──► B   SHUTDOWN COMPLETE
        3.325          B: closed: Shutdown
    "#]]);
}

/// The peer has sent SHUTDOWN, and answers a FORWARD TSN by another SHUTDOWN.
#[test]
fn given_up_while_the_peer_shuts_down() {
    let mut script = Script::warm(ON);
    script.lose(A, "DATA tsn=2 ").send_message(A, retransmissions(0, 0), 100).run(10).shutdown(B).run(4_000);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
        2.010  A ◄── B   SHUTDOWN      cum=1
        2.035          A: peer wants to shut down
        3.000          A: gave up sid=0 len=100 context=3, sent, by Retransmissions
        3.000  A ──► B   FORWARD TSN   cum=2 sid:ssn=0:1
        3.010  A ◄── B   SHUTDOWN      cum=1
        3.025  A ◄── B   SHUTDOWN      cum=2
        3.050  A ──► B   SHUTDOWN ACK
        3.075          B: closed: Shutdown
        3.075  A ◄── B   SHUTDOWN COMPLETE
        3.100          A: closed: Shutdown
    "#]]);
}

/// A message is abandoned after half of it was read, and the reader is notified (RFC 3758 §3.6).
#[test]
fn a_reader_of_parts_is_told() {
    let mut script = Script::warm(&with(&[("partial_delivery", "2000B")]));
    script.app(B).report_parts = true;
    script.lose(A, "DATA tsn=4 ").send_message(A, retransmissions(0, 0), 6_000).send(A, 0, 400).run(3_000);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=1452 B
        2.000  A ──► B   DATA          tsn=3 sid=0 ssn=1 len=1452
        2.000  A ──► B   DATA          tsn=4 sid=0 ssn=1 len=1452     ✗ lost
        2.000  A ──► B   DATA          tsn=5 sid=0 ssn=1 len=1452
        2.000  A ──► B   DATA          tsn=6 sid=0 ssn=1 len=192 E; DATA tsn=7 sid=0 ssn=2 len=400 BE
        2.025          B: received sid=0 part of 2904
        2.025  A ◄── B   SACK          cum=3 rwnd=64k
        2.025  A ◄── B   SACK          cum=3 rwnd=64084 gaps=5
        2.025  A ◄── B   SACK          cum=3 rwnd=63492 gaps=5-7
        3.050          A: gave up sid=0 len=6000 context=3, sent, by Retransmissions
        3.050  A ──► B   FORWARD TSN   cum=6 sid:ssn=0:1
        3.075          B: sid=0 ends after 2904
        3.075          B: received sid=0 len=400
        3.075  A ◄── B   SACK          cum=7 rwnd=64k
    "#]]);
}

/// A path fails. Reliable messages and the FORWARD TSN are sent on the other path.
#[test]
fn skipped_on_the_other_path() {
    let mut script = Script::established_on(&[25, 40], &with(&[("path_max_retrans", "0")]));
    script.send(A, 0, 8).run(1_000);
    script.forget();
    script.kill(1).send_message(A, retransmissions(0, 0), 100).send(A, 0, 200).run(4_000);
    script.check(expect![[r#"
        5.000          network 1 fails
        5.000  A.1 ──► B.1   DATA          tsn=2 sid=0 ssn=1 len=100 BE; DATA tsn=3 sid=0 ssn=2 len=200 BE     ✗ lost
        6.000          A: path to 10.0.1.2 is down
        6.000          A: gave up sid=0 len=100 context=2, sent, by Retransmissions
        6.000  A.2 ──► B.2   FORWARD TSN   cum=2 sid:ssn=0:1; DATA tsn=3 sid=0 ssn=2 len=200 BE
        6.040          B: received sid=0 len=200
        6.240  A.2 ◄── B.2   SACK          cum=3 rwnd=64k
    "#]]);
}

/// RFC 9260 §12, RFC 3758 §7: a FORWARD TSN that no correct sender would send has little effect and does no harm.
#[test]
fn nonsense_is_not_followed() {
    let mut script = Script::warm(ON);
    let tag = script.net.ladder.numbers().latest_tag(B).expect("seen");
    let next = script.net.ladder.numbers().first(A).expect("seen").wrapping_add(1);
    // The first FORWARD TSN has a wrong tag, and the second names a stream that does not exist.
    script.inject(A, tag ^ 1, |packet| ForwardTsn::write(packet, Tsn(next.wrapping_add(4)), [])).run(300);
    let beyond = Skipped { stream: 60_000, ssn: Ssn(4) };
    script.inject(A, tag, |packet| ForwardTsn::write(packet, Tsn(next.wrapping_sub(1)), [beyond])).run(300);
    script.send(A, 0, 100).run(1_000);
    script.check(expect![[r#"
        2.000  A ──► B   FORWARD TSN   cum=6   vtag=f64eaa24     injected
        2.300  A ──► B   FORWARD TSN   cum=1 sid:ssn=60000:4     injected
        2.325  A ◄── B   SACK          cum=1 rwnd=64k
        2.600  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE
        2.625          B: received sid=0 len=100
        2.825  A ◄── B   SACK          cum=2 rwnd=64k
    "#]]);
}

/// RFC 8260 §2.3.1: with interleaving, I-FORWARD-TSN lists the skipped messages by stream and message identifier,
/// including unordered messages.
#[test]
fn interleaved_messages_are_skipped() {
    let mut script = Script::warm(&with(&[("interleaving", "yes")]));
    let unordered = Message { unordered: true, ..retransmissions(5, 0) };
    script.lose(A, "tsn=2 ").send_message(A, unordered, 1_400).send_message(A, lifetime(5, 10), 1_400);
    script.lose(A, "tsn=3 ").send(A, 5, 1_400).send(A, 6, 1_400).send(A, 6, 1_400).run(3_000);
    script.check(expect![[r#"
        2.000  A ──► B   I-DATA        tsn=2 sid=5 mid=0 len=1400 UBE     ✗ lost
        2.000  A ──► B   I-DATA        tsn=3 sid=5 mid=0 len=1400 BE     ✗ lost
        2.000  A ──► B   I-DATA        tsn=4 sid=5 mid=1 len=1400 BE
        2.000  A ──► B   I-DATA        tsn=5 sid=6 mid=0 len=1400 BE
        2.000  A ──► B   I-DATA        tsn=6 sid=6 mid=1 len=1400 BE
        2.025  A ◄── B   SACK          cum=1 rwnd=64136 gaps=4
        2.025          B: received sid=6 len=1400
        2.025  A ◄── B   SACK          cum=1 rwnd=64136 gaps=4-5
        2.025          B: received sid=6 len=1400
        2.025  A ◄── B   SACK          cum=1 rwnd=64136 gaps=4-6
        2.050          A: gave up sid=5 len=1400 context=4, sent, by Lifetime
        2.050          A: gave up sid=5 len=1400 context=3, sent, by Retransmissions
        2.050  A ──► B   I-FORWARD-TSN cum=3 sid:mid=5:0,5:0U
        2.075          B: received sid=5 len=1400
        2.075  A ◄── B   SACK          cum=6 rwnd=64k
    "#]]);
}

/// RFC 3758 §4.1 TR5: a message and its retransmission are lost. The message is abandoned when its lifetime has ended
/// and later chunks have arrived, without waiting for T3-rtx. Its stream continues.
#[test]
fn an_expired_message_holds_its_stream_up_no_longer() {
    let mut script = Script::warm(ON);
    script.lose(A, "DATA tsn=2 ").lose(A, "DATA tsn=2 ").send_message(A, lifetime(0, 200), 100);
    for _ in 0..30 {
        script.run(10).send(A, 0, 100);
    }
    script.run(5_000);
    let ladder = script.net.ladder.take();
    let skipped = ladder.lines().position(|line| line.contains("FORWARD TSN")).expect("it is skipped");
    let sent_again = ladder.lines().filter(|line| line.contains("DATA") && line.contains("tsn=2 ")).count();
    assert_eq!(sent_again, 2, "{ladder}");
    let at: f64 = ladder
        .lines()
        .nth(skipped)
        .and_then(|line| line.split_whitespace().next()?.parse().ok())
        .expect("a time");
    let begun: f64 =
        ladder.lines().next().and_then(|line| line.split_whitespace().next()?.parse().ok()).expect("a time");
    assert!((0.2..0.3).contains(&(at - begun)), "skipped {} s after it was sent:\n{ladder}", at - begun);
}
