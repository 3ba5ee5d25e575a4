//! Packets that belong to no association, and packets with wrong tags (RFC 9260 §8.4, §8.5).

use crate::net::{A, B, PORT};
use crate::script::Script;
use anabranch_wire::sctp::*;
use expect_test::expect;

fn data() -> Data<'static> {
    Data { tsn: Tsn(9), begin: true, end: true, payload: b"lost soul", ..Data::default() }
}

/// RFC 9260 §8.4 rule 8: a packet that no other rule covers is answered by ABORT, with the T bit and the packet's tag.
#[test]
fn data_out_of_the_blue() {
    let mut script = Script::new(&[]);
    script.inject_between(A, 999, PORT, 0xdead, |b| data().emit(b)).run(100);
    script.check(expect![[r#"
           0.000  A ──► B   DATA          tsn=9 sid=0 ssn=0 len=9 BE   vtag=0000dead     injected
           0.025  A ◄── B   ABORT T   vtag=0000dead
    "#]]);
}

/// RFC 9260 §8.4 rules 2 and 6: an ABORT is never answered, and neither is a SHUTDOWN COMPLETE.
#[test]
fn the_end_out_of_the_blue() {
    let mut script = Script::new(&[]);
    script.inject_between(A, 999, PORT, 0xdead, |b| Abort::default().emit(b));
    script.inject_between(A, 999, PORT, 0xdead, |b| ShutdownComplete::default().emit(b));
    script.run(100);
    script.check(expect![[r#"
           0.000  A ──► B   ABORT   vtag=0000dead     injected
           0.000  A ──► B   SHUTDOWN COMPLETE   vtag=0000dead     injected
    "#]]);
}

/// RFC 9260 §8.4 rule 5: a SHUTDOWN ACK is answered by SHUTDOWN COMPLETE with the T bit.
#[test]
fn shutdown_ack_out_of_the_blue() {
    let mut script = Script::new(&[]);
    script.inject_between(A, 999, PORT, 0xdead, |b| ShutdownAck.emit(b)).run(100);
    script.check(expect![[r#"
           0.000  A ──► B   SHUTDOWN ACK   vtag=0000dead     injected
           0.025  A ◄── B   SHUTDOWN COMPLETE T   vtag=0000dead
    "#]]);
}

/// RFC 9260 §8.4 rule 7: a COOKIE ACK is discarded, and so is an ERROR that reports a stale cookie.
#[test]
fn cookie_ack_and_stale_cookie_out_of_the_blue() {
    let mut script = Script::new(&[]);
    script.inject_between(A, 999, PORT, 0xdead, |b| CookieAck.emit(b));
    script.inject_between(A, 999, PORT, 0xdead, |b| {
        let mut chunk = Error::default().open(b);
        Cause::StaleCookie(5).emit(&mut chunk);
        chunk.close();
    });
    script.run(100);
    script.check(expect![[r#"
           0.000  A ──► B   COOKIE ACK   vtag=0000dead     injected
           0.000  A ──► B   ERROR stale-cookie(5us)   vtag=0000dead     injected
    "#]]);
}

/// RFC 9260 §8.5.1 A: the tag of an INIT is 0. An INIT with another tag belongs to no association.
#[test]
fn an_init_with_a_tag() {
    let mut script = Script::new(&[]);
    let init = Init {
        tag: 5,
        window: 9_000,
        outbound_streams: 1,
        inbound_streams: 1,
        tsn: Tsn(1),
        ..Init::default()
    };
    script.inject_between(A, 999, PORT, 0xdead, |b| init.emit(b)).run(100);
    script.check(expect![[r#"
           0.000  A ──► B   INIT          tag=A1 rwnd=9000 os=1 is=1 tsn=1   vtag=0000dead     injected
    "#]]);
}

/// RFC 9260 §3.1: an INIT must be the only chunk of its packet. An INIT with another chunk in its packet is not
/// answered.
#[test]
fn an_init_with_company() {
    let mut script = Script::new(&[]);
    let init = Init {
        tag: 5,
        window: 9_000,
        outbound_streams: 1,
        inbound_streams: 1,
        tsn: Tsn(1),
        ..Init::default()
    };
    script.inject_between(A, 999, PORT, 0, |b| {
        init.emit(b);
        data().emit(b);
    });
    script.run(100);
    script.check(expect![[r#"
           0.000  A ──► B   INIT          tag=A1 rwnd=9000 os=1 is=1 tsn=1; DATA tsn=9 sid=0 ssn=0 len=9 BE     injected
    "#]]);
}

/// RFC 9260 §3.3.2: an INIT without streams is answered by ABORT. An INIT with tag 0 is discarded without an answer.
#[test]
fn an_init_that_offers_nothing() {
    let mut script = Script::new(&[]);
    let good = Init {
        tag: 5,
        window: 9_000,
        outbound_streams: 1,
        inbound_streams: 1,
        tsn: Tsn(1),
        ..Init::default()
    };
    script.inject_between(A, 991, PORT, 0, |b| Init { outbound_streams: 0, ..good }.emit(b)).run(100);
    script.inject_between(A, 992, PORT, 0, |b| Init { inbound_streams: 0, ..good }.emit(b)).run(100);
    script.inject_between(A, 993, PORT, 0, |b| Init { tag: 0, ..good }.emit(b)).run(100);
    script.check(expect![[r#"
           0.000  A ──► B   INIT          tag=A1 rwnd=9000 os=0 is=1 tsn=1     injected
           0.025  A ◄── B   ABORT invalid-mandatory-param
           0.100  A ──► B   INIT          tag=A1 rwnd=9000 os=1 is=0 tsn=1     injected
           0.125  A ◄── B   ABORT invalid-mandatory-param
           0.200  A ──► B   INIT          tag=A2 rwnd=9000 os=1 is=1 tsn=1     injected
    "#]]);
}

/// RFC 9260 §8.5: a packet of a known association with a wrong tag is silently discarded.
#[test]
fn wrong_tags_are_ignored() {
    let mut script = Script::established(&[]);
    let numbers = script.net.ladder.numbers();
    let (mine, theirs) = (numbers.first(A).expect("a TSN"), numbers.first(B).expect("a TSN"));
    script.inject(A, 0xdead, |b| Data { tsn: Tsn(mine), ..data() }.emit(b)).run(100);
    script.inject(A, 0xdead, |b| Abort::default().emit(b)).run(100);
    script.inject(A, 0xdead, |b| Shutdown { cumulative: Tsn(theirs).minus(1) }.emit(b)).run(100);
    script.inject(A, 0xdead, |b| ShutdownComplete::default().emit(b)).run(100);
    script.send(A, 0, 10).run(1_000);
    script.check(expect![[r#"
        1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=9 BE   vtag=0000dead     injected
        1.100  A ──► B   ABORT   vtag=0000dead     injected
        1.200  A ──► B   SHUTDOWN      cum=0   vtag=0000dead     injected
        1.300  A ──► B   SHUTDOWN COMPLETE   vtag=0000dead     injected
        1.400  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=10 BE
        1.425          B: received sid=0 len=10
        1.425  A ◄── B   SACK          cum=1 rwnd=64k
    "#]]);
}

/// RFC 9260 §8.5.1 B: an ABORT that carries the tag chosen by its own sender ends the association only if it has the T
/// bit.
#[test]
fn a_reflected_abort_counts() {
    let mut script = Script::established(&[]);
    let tag = script.net.ladder.numbers().latest_tag(A).expect("A's tag");
    script.inject(A, tag, |b| Abort { reflected: false, ..Abort::default() }.emit(b)).run(100);
    script.inject(A, tag, |b| Abort { reflected: true, ..Abort::default() }.emit(b)).run(100);
    script.check(expect![[r#"
           1.000  A ──► B   ABORT   vtag=A1     injected
           1.100  A ──► B   ABORT T   vtag=A1     injected
           1.125          B: closed: Aborted(None)
    "#]]);
}

/// RFC 9260 §8.4: B's host has lost the association. The ABORT that B's host sends ends the association at A, too.
#[test]
fn the_peer_forgot_everything() {
    let mut script = Script::established(&[]);
    let engine = anabranch_sctp::Endpoint::new(
        crate::script::configured(&[]),
        vec![crate::net::address(B, 1)],
        anabranch_base::Rng::new(5),
    );
    script.net.end(B).engine = engine;
    script.send(A, 0, 10).run(1_000);
    script.check_drawn(expect![[r#"
        1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=10 BE
        1.025  A ◄── B   ABORT T   vtag=B1
        1.050          A: not delivered: sid=0 len=10 context=1, sent
        1.050          A: closed: Aborted(None)
    "#]]);
}

/// Bytes that are not an SCTP packet are ignored.
#[test]
fn rubbish() {
    let mut script = Script::established(&[]);
    for bytes in [vec![], vec![1], vec![0; 11], vec![0; 12], vec![0xff; 64]] {
        if !bytes.is_empty() {
            script.net.inject(A, 1, bytes);
        }
    }
    script.run(100).send(A, 0, 10).run(1_000);
    script.check(expect![[r#"
           1.000  A ──► B   (1 bytes, too short)     injected
           1.000  A ──► B   (11 bytes, too short)     injected
           1.000  A ──► B   (no chunk)   vtag=00000000     injected
           1.000  A ──► B   (chunk type 255 has length 65535, which does not fit the packet)   vtag=ffffffff     injected
           1.100  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=10 BE
           1.125          B: received sid=0 len=10
           1.125  A ◄── B   SACK          cum=1 rwnd=64k
    "#]]);
}
