//! Interleaving of messages, and the order in which streams are served (RFC 8260).

use crate::net::{A, B};
use crate::script::{Script, configured};
use anabranch_sctp::{Message, SchedulerKind};
use anabranch_wire::ladder::Side;
use anabranch_wire::sctp::*;
use expect_test::expect;

const ON: (&str, &str) = ("interleaving", "yes");

fn set(script: &mut Script, side: Side, kind: SchedulerKind) {
    let (id, now) = (script.id(side), script.net.now);
    script.net.end(side).engine.set_scheduler(now, id, kind).expect("an association");
}

fn value(script: &mut Script, side: Side, stream: u16, value: u16) {
    let (id, now) = (script.id(side), script.net.now);
    script.net.end(side).engine.set_stream_value(now, id, stream, value).expect("a stream");
}

/// Returns the tag that B chose, and the first TSN of A.
fn tag_and_tsn(script: &Script) -> (u32, Tsn) {
    let numbers = script.net.ladder.numbers();
    (numbers.latest_tag(B).expect("a tag"), Tsn(numbers.first(A).expect("a TSN")))
}

/// RFC 8260 §2.2.1: both sides announce interleaving. User data is sent as I-DATA from the first chunk on.
#[test]
fn negotiation() {
    let mut script = Script::new(&[ON]);
    script.associate().send(A, 0, 8).run(500);
    script.send(B, 3, 8).run(500);
    script.check(expect![[r#"
        0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 extensions=64 families=v4
        0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie extensions=64
        0.050  A ──► B   COOKIE ECHO; I-DATA tsn=1 sid=0 mid=0 len=8 BE
        0.075          B: accepted, 10 streams out, 10 in
        0.075          B: received sid=0 len=8
        0.075  A ◄── B   COOKIE ACK; SACK cum=1 rwnd=64k
        0.100          A: established, 10 streams out, 10 in
        0.500  A ◄── B   I-DATA        tsn=1 sid=3 mid=0 len=8 BE
        0.525          A: received sid=3 len=8
        0.525  A ──► B   SACK          cum=1 rwnd=64k
    "#]]);
}

/// RFC 8260 §2.2.1: only one side announces interleaving, so DATA is used.
#[test]
fn one_side_alone() {
    let mut script = Script::with(configured(&[ON]), configured(&[]), &[25]);
    script.associate().send(A, 0, 8).run(500);
    script.check(expect![[r#"
        0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 extensions=64 families=v4
        0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
        0.050  A ──► B   COOKIE ECHO; DATA tsn=1 sid=0 ssn=0 len=8 BE
        0.075          B: accepted, 10 streams out, 10 in
        0.075          B: received sid=0 len=8
        0.075  A ◄── B   COOKIE ACK; SACK cum=1 rwnd=64k
        0.100          A: established, 10 streams out, 10 in
    "#]]);
}

/// RFC 8260 §1.1, figure 2: large messages on three streams are sent in turn. The fragments of each message are
/// numbered from 0, and the B bit marks the first fragment.
#[test]
fn large_messages_in_turn() {
    let mut script = Script::established(&[ON, ("scheduler", "rr")]);
    script.send(A, 0, 4_000).send(A, 1, 100).send(A, 1, 200).send(A, 2, 4_000).run(1_000);
    script.check(expect![[r#"
        1.000  A ──► B   I-DATA        tsn=1 sid=0 mid=0 len=1448 B
        1.000  A ──► B   I-DATA        tsn=2 sid=1 mid=0 len=100 BE; I-DATA tsn=3 sid=2 mid=0 len=1328 B
        1.000  A ──► B   I-DATA        tsn=4 sid=0 mid=0 fsn=1 len=1448
        1.025  A ◄── B   SACK          cum=1 rwnd=64088
        1.025          B: received sid=1 len=100
        1.025  A ◄── B   SACK          cum=4 rwnd=61312
        1.050  A ──► B   I-DATA        tsn=5 sid=1 mid=1 len=200 BE; I-DATA tsn=6 sid=2 mid=0 fsn=1 len=1228
        1.050  A ──► B   I-DATA        tsn=7 sid=0 mid=0 fsn=2 len=1104 E; I-DATA tsn=8 sid=2 mid=0 fsn=2 len=324
        1.050  A ──► B   I-DATA        tsn=9 sid=2 mid=0 fsn=3 len=1120 E
        1.075          B: received sid=1 len=200
        1.075          B: received sid=0 len=4000
        1.075  A ◄── B   SACK          cum=8 rwnd=62656
        1.075          B: received sid=2 len=4000
        1.275  A ◄── B   SACK          cum=9 rwnd=64k
    "#]]);
}

/// RFC 8260 §1.1, figure 1: without interleaving, large messages on three streams are not interrupted.
#[test]
fn large_messages_in_turn_without_interleaving() {
    let mut script = Script::established(&[("scheduler", "rr")]);
    script.send(A, 0, 4_000).send(A, 1, 100).send(A, 1, 200).send(A, 2, 4_000).run(1_000);
    script.check(expect![[r#"
        1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1452 B
        1.000  A ──► B   DATA          tsn=2 sid=0 ssn=0 len=1452
        1.000  A ──► B   DATA          tsn=3 sid=0 ssn=0 len=1096 E; DATA tsn=4 sid=1 ssn=0 len=100 BE
        1.000  A ──► B   DATA          tsn=5 sid=2 ssn=0 len=1452 B
        1.025  A ◄── B   SACK          cum=1 rwnd=64084
        1.025          B: received sid=0 len=4000
        1.025          B: received sid=1 len=100
        1.025  A ◄── B   SACK          cum=4 rwnd=64k
        1.050  A ──► B   DATA          tsn=6 sid=2 ssn=0 len=1452
        1.050  A ──► B   DATA          tsn=7 sid=2 ssn=0 len=1096 E; DATA tsn=8 sid=1 ssn=1 len=200 BE
        1.075  A ◄── B   SACK          cum=6 rwnd=62632
        1.075          B: received sid=2 len=4000
        1.075          B: received sid=1 len=200
        1.275  A ◄── B   SACK          cum=8 rwnd=64k
    "#]]);
}

/// RFC 8260 §2.1: ordered and unordered messages of a stream are numbered separately.
#[test]
fn two_counts_a_stream() {
    let mut script = Script::established(&[ON]);
    let unordered = Message { stream: 1, unordered: true, ..Message::default() };
    script
        .send(A, 1, 10)
        .send_message(A, unordered, 20)
        .send(A, 1, 30)
        .send_message(A, unordered, 40)
        .run(500);
    script.check(expect![[r#"
        1.000  A ──► B   I-DATA        tsn=1 sid=1 mid=0 len=10 BE; I-DATA tsn=2 sid=1 mid=0 len=20 UBE; I-DATA tsn=3 sid=1 mid=1 len=30 BE; I-DATA tsn=4 sid=1 mid=1 len=40 UBE
        1.025          B: received sid=1 len=20
        1.025          B: received sid=1 len=40
        1.025          B: received sid=1 len=10
        1.025          B: received sid=1 len=30
        1.025  A ◄── B   SACK          cum=4 rwnd=64k
    "#]]);
}

/// RFC 8260 §2.2.3: a lost fragment delays only its own stream.
#[test]
fn a_fragment_is_lost() {
    let mut script = Script::established(&[ON, ("scheduler", "rr")]);
    script.lose(A, "sid=0 mid=0 fsn=1").send(A, 0, 4_000).send(A, 1, 2_000).send(A, 0, 50).run(3_000);
    script.check(expect![[r#"
        1.000  A ──► B   I-DATA        tsn=1 sid=0 mid=0 len=1448 B
        1.000  A ──► B   I-DATA        tsn=2 sid=1 mid=0 len=1448 B
        1.000  A ──► B   I-DATA        tsn=3 sid=0 mid=0 fsn=1 len=1448     ✗ lost
        1.025  A ◄── B   SACK          cum=1 rwnd=64088
        1.050  A ──► B   I-DATA        tsn=4 sid=1 mid=0 fsn=1 len=552 E; I-DATA tsn=5 sid=0 mid=0 fsn=2 len=876
        1.050  A ──► B   I-DATA        tsn=6 sid=0 mid=0 fsn=3 len=228 E; I-DATA tsn=7 sid=0 mid=1 len=50 BE
        1.075          B: received sid=1 len=2000
        1.075  A ◄── B   SACK          cum=2 rwnd=63212 gaps=4-5
        1.075  A ◄── B   SACK          cum=2 rwnd=62934 gaps=4-7
        2.100  A ──► B   I-DATA        tsn=3 sid=0 mid=0 fsn=1 len=1448
        2.125          B: received sid=0 len=4000
        2.125          B: received sid=0 len=50
        2.125  A ◄── B   SACK          cum=7 rwnd=64k
    "#]]);
}

/// RFC 8260 §3.4: an urgent message is sent as soon as it is queued, although a less urgent message is only partly
/// sent.
#[test]
fn an_urgent_message_overtakes() {
    let mut script = Script::established(&[ON, ("scheduler", "priority")]);
    value(&mut script, A, 0, 1);
    script.send(A, 0, 12_000).run(40);
    script.send(A, 5, 8).run(1_000);
    script.check(expect![[r#"
        1.000  A ──► B   I-DATA        tsn=1 sid=0 mid=0 len=1448 B
        1.000  A ──► B   I-DATA        tsn=2 sid=0 mid=0 fsn=1 len=1448
        1.000  A ──► B   I-DATA        tsn=3 sid=0 mid=0 fsn=2 len=1448
        1.025  A ◄── B   SACK          cum=1 rwnd=64088
        1.025  A ◄── B   SACK          cum=3 rwnd=61192
        1.050  A ──► B   I-DATA        tsn=4 sid=5 mid=0 len=8 BE; I-DATA tsn=5 sid=0 mid=0 fsn=3 len=1420
        1.050  A ──► B   I-DATA        tsn=6 sid=0 mid=0 fsn=4 len=1448
        1.050  A ──► B   I-DATA        tsn=7 sid=0 mid=0 fsn=5 len=1448
        1.050  A ──► B   I-DATA        tsn=8 sid=0 mid=0 fsn=6 len=1448
        1.075          B: received sid=5 len=8
        1.075  A ◄── B   SACK          cum=6 rwnd=58324
        1.075  A ◄── B   SACK          cum=8 rwnd=55428
        1.100  A ──► B   I-DATA        tsn=9 sid=0 mid=0 fsn=7 len=1448
        1.100  A ──► B   I-DATA        tsn=10 sid=0 mid=0 fsn=8 len=444 E
        1.125          B: received sid=0 len=12000
        1.125  A ◄── B   SACK          cum=10 rwnd=64k
    "#]]);
}

/// RFC 8260 §4.3.2: the scheduler is changed while messages are queued. A partly sent message is finished first.
#[test]
fn the_scheduler_changes_under_way() {
    let mut script = Script::established(&[ON]);
    script.send(A, 0, 12_000).send(A, 5, 2_000).run(40);
    set(&mut script, A, SchedulerKind::RoundRobinPacket);
    script.run(1_000);
    script.check(expect![[r#"
        1.000  A ──► B   I-DATA        tsn=1 sid=0 mid=0 len=1448 B
        1.000  A ──► B   I-DATA        tsn=2 sid=0 mid=0 fsn=1 len=1448
        1.000  A ──► B   I-DATA        tsn=3 sid=0 mid=0 fsn=2 len=1448
        1.025  A ◄── B   SACK          cum=1 rwnd=64088
        1.025  A ◄── B   SACK          cum=3 rwnd=61192
        1.050  A ──► B   I-DATA        tsn=4 sid=0 mid=0 fsn=3 len=1448
        1.050  A ──► B   I-DATA        tsn=5 sid=5 mid=0 len=1448 B
        1.050  A ──► B   I-DATA        tsn=6 sid=0 mid=0 fsn=4 len=1448
        1.050  A ──► B   I-DATA        tsn=7 sid=5 mid=0 fsn=1 len=552 E
        1.075  A ◄── B   SACK          cum=5 rwnd=58296
        1.075          B: received sid=5 len=2000
        1.075  A ◄── B   SACK          cum=7 rwnd=58296
        1.100  A ──► B   I-DATA        tsn=8 sid=0 mid=0 fsn=5 len=1448
        1.100  A ──► B   I-DATA        tsn=9 sid=0 mid=0 fsn=6 len=1448
        1.100  A ──► B   I-DATA        tsn=10 sid=0 mid=0 fsn=7 len=1448
        1.100  A ──► B   I-DATA        tsn=11 sid=0 mid=0 fsn=8 len=416 E
        1.125  A ◄── B   SACK          cum=9 rwnd=55400
        1.125          B: received sid=0 len=12000
        1.125  A ◄── B   SACK          cum=11 rwnd=64k
    "#]]);
}

/// RFC 8260 §2.2.3: I-DATA was negotiated, so a DATA chunk ends the association.
#[test]
fn data_is_a_violation() {
    let mut script = Script::established(&[ON]);
    let (tag, tsn) = tag_and_tsn(&script);
    script.inject(A, tag, |buffer| {
        Data { tsn, begin: true, end: true, payload: b"old", ..Data::default() }.emit(buffer);
    });
    script.run(500);
    script.check_drawn(expect![[r#"
        1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=3 BE     injected
        1.025          B: closed: PeerViolated("RFC 8260 2.2.3: DATA where I-DATA was agreed on")
        1.025  A ◄── B   ABORT protocol-violation(RFC 8260 2.2.3: DATA where I-DATA was agreed on)
        1.050          A: closed: Aborted(Some(13))
    "#]]);
}

/// RFC 8260 §2.2.3: I-DATA was not negotiated, so an I-DATA chunk ends the association.
#[test]
fn idata_is_a_violation() {
    let mut script = Script::with(configured(&[]), configured(&[ON]), &[25]);
    script.associate().run(1_000);
    script.forget();
    let (tag, tsn) = tag_and_tsn(&script);
    script.inject(A, tag, |buffer| {
        IData { tsn, begin: true, end: true, payload: b"new", ..IData::default() }.emit(buffer);
    });
    script.run(500);
    script.check_drawn(expect![[r#"
        1.000  A ──► B   I-DATA        tsn=1 sid=0 mid=0 len=3 BE     injected
        1.025          B: closed: PeerViolated("RFC 8260 2.2.3: I-DATA where it was not agreed on")
        1.025  A ◄── B   ABORT protocol-violation(RFC 8260 2.2.3: I-DATA where it was not agreed on)
        1.050          A: closed: Aborted(Some(13))
    "#]]);
}

/// RFC 9260 §3.2: if interleaving is switched off, I-DATA is an unknown chunk.
#[test]
fn idata_is_unknown() {
    let mut script = Script::established(&[]);
    let (tag, tsn) = tag_and_tsn(&script);
    script.inject(A, tag, |buffer| {
        IData { tsn, begin: true, end: true, payload: b"new", ..IData::default() }.emit(buffer);
    });
    script.run(500);
    script.check_drawn(expect![[r#"
        1.000  A ──► B   I-DATA        tsn=1 sid=0 mid=0 len=3 BE     injected
        1.025  A ◄── B   ERROR unrecognized-chunk(64)
    "#]]);
}
