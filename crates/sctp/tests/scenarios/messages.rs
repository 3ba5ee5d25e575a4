//! Division of messages into chunks, and reassembly (RFC 9260 §6.5, §6.6, §6.9, §6.10).

use crate::net::{A, B};
use crate::script::Script;
use anabranch_sctp::Message;
use anabranch_wire::sctp::*;
use expect_test::expect;

/// RFC 9260 §6.9: a large message is sent in fragments.
#[test]
fn fragments() {
    let mut script = Script::established(&[]);
    script.send(A, 3, 3_500).run(1_000);
    script.check(expect![[r#"
           1.000  A ──► B   DATA          tsn=1 sid=3 ssn=0 len=1452 B
           1.000  A ──► B   DATA          tsn=2 sid=3 ssn=0 len=1452
           1.000  A ──► B   DATA          tsn=3 sid=3 ssn=0 len=596 E
           1.025  A ◄── B   SACK          cum=1 rwnd=64084
           1.025          B: received sid=3 len=3500
           1.025  A ◄── B   SACK          cum=3 rwnd=64k
    "#]]);
}

/// RFC 9260 §6.10: small messages share a packet.
#[test]
fn bundling() {
    let mut script = Script::established(&[]);
    script.send(A, 0, 100).send(A, 1, 200).send(A, 0, 300).run(1_000);
    script.check(expect![[r#"
           1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=100 BE; DATA tsn=2 sid=1 ssn=0 len=200 BE; DATA tsn=3 sid=0 ssn=1 len=300 BE
           1.025          B: received sid=0 len=100
           1.025          B: received sid=0 len=300
           1.025          B: received sid=1 len=200
           1.025  A ◄── B   SACK          cum=3 rwnd=64k
    "#]]);
}

/// RFC 9260 §6.6: a gap in one stream does not hold back the other streams.
#[test]
fn streams_do_not_wait_for_each_other() {
    let mut script = Script::established(&[]);
    script.lose(A, "DATA tsn=1 ").send(A, 1, 1_300).send(A, 2, 1_300).send(A, 1, 1_300).run(3_000);
    script.check(expect![[r#"
        1.000  A ──► B   DATA          tsn=1 sid=1 ssn=0 len=1300 BE     ✗ lost
        1.000  A ──► B   DATA          tsn=2 sid=2 ssn=0 len=1300 BE
        1.000  A ──► B   DATA          tsn=3 sid=1 ssn=1 len=1300 BE
        1.025          B: received sid=2 len=1300
        1.025  A ◄── B   SACK          cum=0 rwnd=64k gaps=2
        1.025  A ◄── B   SACK          cum=0 rwnd=64236 gaps=2-3
        2.000  A ──► B   DATA          tsn=1 sid=1 ssn=0 len=1300 BE
        2.025          B: received sid=1 len=1300
        2.025          B: received sid=1 len=1300
        2.025  A ◄── B   SACK          cum=3 rwnd=64k
    "#]]);
}

/// RFC 9260 §6.6: an unordered message is delivered at once, although an earlier message is missing.
#[test]
fn unordered() {
    let mut script = Script::established(&[]);
    script.lose(A, "DATA tsn=1 ").send(A, 1, 1_300);
    script.send_message(A, Message { stream: 1, unordered: true, ..Message::default() }, 1_300).run(3_000);
    script.check(expect![[r#"
        1.000  A ──► B   DATA          tsn=1 sid=1 ssn=0 len=1300 BE     ✗ lost
        1.000  A ──► B   DATA          tsn=2 sid=1 len=1300 UBE
        1.025          B: received sid=1 len=1300
        1.025  A ◄── B   SACK          cum=0 rwnd=64k gaps=2
        2.000  A ──► B   DATA          tsn=1 sid=1 ssn=0 len=1300 BE
        2.025          B: received sid=1 len=1300
        2.025  A ◄── B   SACK          cum=2 rwnd=64k
    "#]]);
}

/// RFC 9260 §6.9: a fragment in the middle of a message is lost. It is retransmitted, and the message is delivered
/// whole.
#[test]
fn a_fragment_is_lost() {
    let mut script = Script::established(&[]);
    script.lose(A, "DATA tsn=2 ").send(A, 0, 4_000).send(A, 1, 100).run(3_000);
    script.check(expect![[r#"
        1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1452 B
        1.000  A ──► B   DATA          tsn=2 sid=0 ssn=0 len=1452     ✗ lost
        1.000  A ──► B   DATA          tsn=3 sid=0 ssn=0 len=1096 E; DATA tsn=4 sid=1 ssn=0 len=100 BE
        1.025  A ◄── B   SACK          cum=1 rwnd=64084
        1.025          B: received sid=1 len=100
        1.025  A ◄── B   SACK          cum=1 rwnd=62988 gaps=3-4
        2.050  A ──► B   DATA          tsn=2 sid=0 ssn=0 len=1452
        2.075          B: received sid=0 len=4000
        2.075  A ◄── B   SACK          cum=4 rwnd=64k
    "#]]);
}

/// RFC 9260 §6.9: a message larger than the receive buffer is delivered in parts.
#[test]
fn partial_delivery() {
    let mut script = Script::established(&[("rcvbuf", "8000B"), ("partial_delivery", "4000B")]);
    script.app(B).report_parts = true;
    script.send(A, 0, 20_000).run(8_000);
    assert_eq!(script.app(B).bytes, 20_000);
    script.check(expect![[r#"
           1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1452 B
           1.000  A ──► B   DATA          tsn=2 sid=0 ssn=0 len=1452
           1.000  A ──► B   DATA          tsn=3 sid=0 ssn=0 len=1452
           1.025  A ◄── B   SACK          cum=1 rwnd=6548
           1.025          B: received sid=0 part of 4356
           1.025  A ◄── B   SACK          cum=3 rwnd=8000
           1.050  A ──► B   DATA          tsn=4 sid=0 ssn=0 len=1452
           1.050  A ──► B   DATA          tsn=5 sid=0 ssn=0 len=1452
           1.050  A ──► B   DATA          tsn=6 sid=0 ssn=0 len=1452
           1.050  A ──► B   DATA          tsn=7 sid=0 ssn=0 len=1452
           1.075          B: received sid=0 part of 1452
           1.075          B: received sid=0 part of 1452
           1.075  A ◄── B   SACK          cum=5 rwnd=8000
           1.075          B: received sid=0 part of 1452
           1.075          B: received sid=0 part of 1452
           1.075  A ◄── B   SACK          cum=7 rwnd=8000
           1.100  A ──► B   DATA          tsn=8 sid=0 ssn=0 len=1452
           1.100  A ──► B   DATA          tsn=9 sid=0 ssn=0 len=1452
           1.100  A ──► B   DATA          tsn=10 sid=0 ssn=0 len=1452
           1.100  A ──► B   DATA          tsn=11 sid=0 ssn=0 len=1452
           1.125          B: received sid=0 part of 1452
           1.125          B: received sid=0 part of 1452
           1.125  A ◄── B   SACK          cum=9 rwnd=8000
           1.125          B: received sid=0 part of 1452
           1.125          B: received sid=0 part of 1452
           1.125  A ◄── B   SACK          cum=11 rwnd=8000
           1.150  A ──► B   DATA          tsn=12 sid=0 ssn=0 len=1452
           1.150  A ──► B   DATA          tsn=13 sid=0 ssn=0 len=1452
           1.150  A ──► B   DATA          tsn=14 sid=0 ssn=0 len=1124 E
           1.175          B: received sid=0 part of 1452
           1.175          B: received sid=0 part of 1452
           1.175  A ◄── B   SACK          cum=13 rwnd=8000
           1.175          B: received sid=0 len=20000
           1.375  A ◄── B   SACK          cum=14 rwnd=8000
    "#]]);
}

/// RFC 9260 §6.5: DATA for a stream that does not exist is acknowledged, reported and discarded.
#[test]
fn invalid_stream() {
    let mut script = Script::established(&[]);
    let numbers = script.net.ladder.numbers();
    let (tag, first) = (numbers.latest_tag(B).expect("a tag"), numbers.first(A).expect("a TSN"));
    let data =
        Data { tsn: Tsn(first), stream: 10, begin: true, end: true, payload: b"astray", ..Data::default() };
    // The injected chunk has TSN 1. A has sent its own chunk with TSN 1, which was lost, so A accepts the SACK for this
    // TSN.
    script.lose(A, "DATA tsn=1 ").send(A, 0, 6).run(1).inject(A, tag, |b| data.emit(b)).run(3_000);
    script.check_drawn(expect![[r#"
        1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=6 BE     ✗ lost
        1.001  A ──► B   DATA          tsn=1 sid=10 ssn=0 len=6 BE     injected
        1.026  A ◄── B   ERROR invalid-stream(10); SACK cum=1 rwnd=64k
    "#]]);
}

/// RFC 9260 §6.6: messages are delivered when the SSN wraps around after 65,535.
#[test]
fn ssn_and_tsn_wrap() {
    let mut script = Script::established(&[("rcvbuf", "1MiB"), ("sndbuf", "1MiB")]);
    script.net.draws_ladder = false;
    for _ in 0..70 {
        for _ in 0..1_000 {
            script.send(A, 0, 1);
        }
        script.run(2_000);
    }
    assert_eq!(script.app(B).messages, 70_000);
    script.check(expect![[""]]);
}
