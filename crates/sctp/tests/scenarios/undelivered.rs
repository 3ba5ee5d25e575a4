//! Messages that are not delivered because their association ends. Each message is reported once (RFC 9260 §11.2.2).

use crate::net::{self, A, B, PORT};
use crate::script::{Script, configured};
use anabranch_base::Rng;
use anabranch_sctp::{Endpoint, Message};
use expect_test::expect;

/// Sets up an association with four messages. One message is acknowledged, one is sent completely, one is sent partly,
/// and one is unsent.
fn loaded() -> Script {
    let mut script = Script::warm(&[("iw", "3"), ("max_burst", "0")]);
    script.send(A, 2, 50).run(1_000);
    script.lose_times(A, "DATA", 99);
    script.send(A, 0, 1_000).send_message(
        A,
        Message { stream: 1, unordered: true, ppid: 7, ..Message::default() },
        6_000,
    );
    script.send(A, 0, 10).run(10);
    script.forget();
    script
}

#[test]
fn by_an_abort_of_this_side() {
    let mut script = loaded();
    script.abort(A).run(1_000);
    script.check_drawn(expect![[r#"
        3.010          A: not delivered: sid=0 len=1000 context=4, sent
        3.010          A: not delivered: sid=1 len=6000 context=5, sent
        3.010          A: not delivered: sid=0 len=10 context=6, unsent
        3.010          A: closed: Local
        3.010  A ──► B   ABORT user-abort
        3.035          B: closed: Aborted(Some(12))
    "#]]);
    let stats = script.net.ends[0].engine.totals().sum;
    assert_eq!((stats.undelivered_sent, stats.undelivered_unsent), (2, 1));
}

#[test]
fn by_an_abort_of_the_peer() {
    let mut script = loaded();
    script.abort(B).run(1_000);
    script.check_drawn(expect![[r#"
        3.010          B: closed: Local
        3.010  A ◄── B   ABORT user-abort
        3.035          A: not delivered: sid=0 len=1000 context=4, sent
        3.035          A: not delivered: sid=1 len=6000 context=5, sent
        3.035          A: not delivered: sid=0 len=10 context=6, unsent
        3.035          A: closed: Aborted(Some(12))
    "#]]);
}

#[test]
fn by_the_silence_of_the_peer() {
    let mut script = Script::warm(&[("assoc_max_retrans", "1")]);
    script.send(A, 2, 50).run(1_000);
    script.forget();
    script.kill(1).send(A, 0, 1_000).run(60_000);
    script.check_drawn(expect![[r#"
        3.000          network 1 fails
        3.000  A ──► B   DATA          tsn=3 sid=0 ssn=1 len=1000 BE     ✗ lost
        4.000  A ──► B   DATA          tsn=3 sid=0 ssn=1 len=1000 BE     ✗ lost
        6.000          A: not delivered: sid=0 len=1000 context=4, sent
        6.000          A: closed: Unreachable
        6.000  A ──► B   ABORT     ✗ lost
    "#]]);
}

#[test]
fn by_a_handshake_that_comes_to_nothing() {
    let mut script = Script::new(&[("init_max_retrans", "1")]);
    script.kill(1).associate().send(A, 0, 1_000).run(60_000);
    script.check_drawn(expect![[r#"
        0.000          network 1 fails
        0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4     ✗ lost
        1.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4     ✗ lost
        3.000          A: not delivered: sid=0 len=1000 context=1, unsent
        3.000          A: closed: Unreachable
    "#]]);
}

/// RFC 9260 §5.1.1: messages for streams that the peer does not grant are reported.
#[test]
fn by_a_peer_with_fewer_streams() {
    let mut script =
        Script::with(configured(&[("num_ostreams", "9")]), configured(&[("num_ostreams", "3")]), &[25]);
    script.associate().send(A, 2, 10).send(A, 5, 20).send(A, 8, 30).run(1_000);
    script.check_drawn(expect![[r#"
        0.000  A ──► B   INIT          tag=A1 rwnd=64k os=9 is=9 tsn=1 families=v4
        0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=3 is=3 tsn=1 …cookie
        0.050          A: not delivered: sid=5 len=20 context=2, unsent
        0.050          A: not delivered: sid=8 len=30 context=3, unsent
        0.050  A ──► B   COOKIE ECHO; DATA tsn=1 sid=2 ssn=0 len=10 BE
        0.075          B: accepted, 3 streams out, 3 in
        0.075          B: received sid=2 len=10
        0.075  A ◄── B   COOKIE ACK; SACK cum=1 rwnd=64k
        0.100          A: established, 3 streams out, 3 in
    "#]]);
}

/// RFC 9260 §5.2.4 A: messages that the peer had not acknowledged before its restart are reported as undelivered.
#[test]
fn by_a_restart_of_the_peer() {
    let mut script = Script::new(&[("iw", "3"), ("max_burst", "0")]);
    script.net.associate_from(A, 1, Some(5_000), PORT);
    script.run(1_000).send(B, 3, 9).run(1_000);
    script.lose_times(B, "DATA", 99).send(B, 0, 100).send(B, 1, 6_000).send(B, 2, 10).run(100);
    script.net.rules.clear();
    let engine = Endpoint::new(configured(&[]), vec![net::address(A, 1)], Rng::new(77));
    script.net.reboot(A, engine);
    script.forget();
    script.net.associate_from(A, 1, Some(5_000), PORT);
    script.run(1_000);
    script.check_drawn(expect![[r#"
        2.100  A ──► B   INIT          tag=A2 rwnd=64k os=10 is=10 tsn=1 families=v4
        2.125  A ◄── B   INIT ACK      tag=B2 rwnd=64k os=10 is=10 tsn=1 …cookie
        2.150  A ──► B   COOKIE ECHO
        2.175          B: not delivered: sid=0 len=100 context=2, sent
        2.175          B: not delivered: sid=1 len=6000 context=3, sent
        2.175          B: not delivered: sid=2 len=10 context=4, unsent
        2.175          B: peer restarted
        2.175  A ◄── B   COOKIE ACK
        2.200          A: established, 10 streams out, 10 in
    "#]]);
}

/// An abandoned message is reported as abandoned, and not again as undelivered.
#[test]
fn not_what_was_given_up_before() {
    let mut script = Script::warm(&[("partial_reliability", "yes")]);
    script.lose_times(A, "DATA", 99);
    script.send(A, 0, 100).send(A, 1, 200).run(10);
    let (id, now) = (script.id(A), script.net.now);
    script.net.end(A).engine.cancel(now, id, 1);
    script.run(10).abort(A).run(100);
    script.check_drawn(expect![[r#"
        2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE; DATA tsn=3 sid=1 ssn=0 len=200 BE     ✗ lost
        2.010          A: gave up sid=1 len=200 context=4, sent, by Cancelled
        2.020          A: not delivered: sid=0 len=100 context=3, sent
        2.020          A: closed: Local
        2.020  A ──► B   ABORT user-abort
        2.045          B: closed: Aborted(Some(12))
    "#]]);
}
