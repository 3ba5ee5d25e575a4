//! The graceful shutdown (RFC 9260 §9.2) with its races, and the abort (§9.1).

use crate::net::{A, B};
use crate::script::Script;
use expect_test::expect;

/// RFC 9260 §9.2: a shutdown consists of SHUTDOWN, SHUTDOWN ACK and SHUTDOWN COMPLETE.
#[test]
fn three_packets() {
    let mut script = Script::established(&[]);
    script.shutdown(A).run(1_000);
    script.check(expect![[r#"
           1.000  A ──► B   SHUTDOWN      cum=0
           1.025          B: peer wants to shut down
           1.025  A ◄── B   SHUTDOWN ACK
           1.050          A: closed: Shutdown
           1.050  A ──► B   SHUTDOWN COMPLETE
           1.075          B: closed: Shutdown
    "#]]);
}

/// RFC 9260 §9.2: messages queued before the shutdown are delivered first, on both sides.
#[test]
fn data_first() {
    let mut script = Script::established(&[]);
    script.send(A, 0, 3_000).send(B, 1, 2_000).shutdown(A).run(2_000);
    script.check(expect![[r#"
           1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1452 B
           1.000  A ──► B   DATA          tsn=2 sid=0 ssn=0 len=1452
           1.000  A ──► B   DATA          tsn=3 sid=0 ssn=0 len=96 IE
           1.000  A ◄── B   DATA          tsn=1 sid=1 ssn=0 len=1452 B
           1.000  A ◄── B   DATA          tsn=2 sid=1 ssn=0 len=548 E
           1.025  A ◄── B   SACK          cum=1 rwnd=64084
           1.025          B: received sid=0 len=3000
           1.025  A ◄── B   SACK          cum=3 rwnd=64k
           1.025  A ──► B   SACK          cum=1 rwnd=64084
           1.025          A: received sid=1 len=2000
           1.050  A ──► B   SHUTDOWN      cum=2
           1.075          B: peer wants to shut down
           1.075  A ◄── B   SHUTDOWN ACK
           1.100          A: closed: Shutdown
           1.100  A ──► B   SHUTDOWN COMPLETE
           1.125          B: closed: Shutdown
    "#]]);
}

/// RFC 9260 §9.2: the receiver of a SHUTDOWN sends its remaining data. Each packet of data is answered by another
/// SHUTDOWN, which acknowledges the data.
#[test]
fn the_other_side_finishes_sending() {
    let mut script = Script::established(&[]);
    script.send(B, 1, 12_000).run(26).shutdown(A).run(3_000);
    script.check(expect![[r#"
           1.000  A ◄── B   DATA          tsn=1 sid=1 ssn=0 len=1452 B
           1.000  A ◄── B   DATA          tsn=2 sid=1 ssn=0 len=1452
           1.000  A ◄── B   DATA          tsn=3 sid=1 ssn=0 len=1452
           1.025  A ──► B   SACK          cum=1 rwnd=64084
           1.025  A ──► B   SACK          cum=3 rwnd=61180
           1.026  A ──► B   SHUTDOWN      cum=3
           1.050  A ◄── B   DATA          tsn=4 sid=1 ssn=0 len=1452
           1.050  A ◄── B   DATA          tsn=5 sid=1 ssn=0 len=1452
           1.050  A ◄── B   DATA          tsn=6 sid=1 ssn=0 len=1452
           1.050  A ◄── B   DATA          tsn=7 sid=1 ssn=0 len=1452
           1.051          B: peer wants to shut down
           1.051  A ◄── B   DATA          tsn=8 sid=1 ssn=0 len=1452
           1.075  A ──► B   SHUTDOWN      cum=4
           1.075  A ──► B   SHUTDOWN      cum=5
           1.075  A ──► B   SHUTDOWN      cum=6
           1.075  A ──► B   SHUTDOWN      cum=7
           1.076  A ──► B   SHUTDOWN      cum=8
           1.100  A ◄── B   DATA          tsn=9 sid=1 ssn=0 len=384 E
           1.125          A: received sid=1 len=12000
           1.125  A ──► B   SHUTDOWN      cum=9
           1.150  A ◄── B   SHUTDOWN ACK
           1.175          A: closed: Shutdown
           1.175  A ──► B   SHUTDOWN COMPLETE
           1.200          B: closed: Shutdown
    "#]]);
}

/// RFC 9260 §9.2: T2-shutdown repeats a lost SHUTDOWN.
#[test]
fn lost_shutdown() {
    let mut script = Script::established(&[]);
    script.lose(A, "SHUTDOWN cum").shutdown(A).run(3_000);
    script.check(expect![[r#"
           1.000  A ──► B   SHUTDOWN      cum=0     ✗ lost
           2.000  A ──► B   SHUTDOWN      cum=0
           2.025          B: peer wants to shut down
           2.025  A ◄── B   SHUTDOWN ACK
           2.050          A: closed: Shutdown
           2.050  A ──► B   SHUTDOWN COMPLETE
           2.075          B: closed: Shutdown
    "#]]);
}

/// RFC 9260 §9.2: a SHUTDOWN is lost. The peer sends HEARTBEATs, which are not answered after the SHUTDOWN (§8.3).
/// These HEARTBEATs do not delay the retransmission of the SHUTDOWN.
#[test]
fn lost_shutdown_among_heartbeats() {
    let mut script =
        Script::established(&[("hb_interval", "10ms"), ("rto_min", "4s"), ("rto_initial", "4s")]);
    script.lose(A, "SHUTDOWN cum").shutdown(A).run(9_000);
    script.check(expect![[r#"
        1.000  A ──► B   SHUTDOWN      cum=0     ✗ lost
        4.249  A ◄── B   HEARTBEAT
        5.000  A ──► B   SHUTDOWN      cum=0
        5.025          B: peer wants to shut down
        5.025  A ◄── B   SHUTDOWN ACK
        5.050          A: closed: Shutdown
        5.050  A ──► B   SHUTDOWN COMPLETE
        5.075          B: closed: Shutdown
    "#]]);
}

/// A SHUTDOWN is lost. The peer sends HEARTBEATs, each after an AUTH chunk (RFC 4895). These HEARTBEATs do not delay
/// the retransmission of the SHUTDOWN.
#[test]
fn lost_shutdown_among_authenticated_heartbeats() {
    let on = [("auth", "yes"), ("auth_hmac", "sha1"), ("auth_chunks", "heartbeat")];
    let slow = [("hb_interval", "10ms"), ("rto_min", "4s"), ("rto_initial", "4s")];
    let mut script = Script::established(&[on, slow].concat());
    script.lose(A, "SHUTDOWN cum").shutdown(A).run(9_000);
    script.check(expect![[r#"
        1.000  A ──► B   SHUTDOWN      cum=0     ✗ lost
        4.249  A ◄── B   AUTH key=0 hmac=sha1; HEARTBEAT
        5.000  A ──► B   SHUTDOWN      cum=0
        5.025          B: peer wants to shut down
        5.025  A ◄── B   SHUTDOWN ACK
        5.050          A: closed: Shutdown
        5.050  A ──► B   SHUTDOWN COMPLETE
        5.075          B: closed: Shutdown
    "#]]);
}

/// RFC 9260 §6.4: the SHUTDOWN ACK is sent to the source of the SHUTDOWN.
#[test]
fn answered_where_it_came_from() {
    let mut script = Script::established_on(&[25, 40], &[]);
    script.lose(A, "SHUTDOWN cum").shutdown(A).run(3_000);
    script.check(expect![[r#"
        4.000  A.1 ──► B.1   SHUTDOWN      cum=0     ✗ lost
        5.000  A.2 ──► B.2   SHUTDOWN      cum=0
        5.040          B: peer wants to shut down
        5.040  A.2 ◄── B.2   SHUTDOWN ACK
        5.080          A: closed: Shutdown
        5.080  A.2 ──► B.2   SHUTDOWN COMPLETE
        5.120          B: closed: Shutdown
    "#]]);
}

/// RFC 9260 §9.2: a SHUTDOWN ACK is lost. When T2-shutdown expires, A repeats the SHUTDOWN, which B answers again.
#[test]
fn lost_shutdown_ack() {
    let mut script = Script::established(&[]);
    script.lose(B, "SHUTDOWN ACK").shutdown(A).run(3_000);
    script.check(expect![[r#"
           1.000  A ──► B   SHUTDOWN      cum=0
           1.025          B: peer wants to shut down
           1.025  A ◄── B   SHUTDOWN ACK     ✗ lost
           2.000  A ──► B   SHUTDOWN      cum=0
           2.025  A ◄── B   SHUTDOWN ACK
           2.050          A: closed: Shutdown
           2.050  A ──► B   SHUTDOWN COMPLETE
           2.075          B: closed: Shutdown
    "#]]);
}

/// RFC 9260 §8.4 rule 5: a SHUTDOWN COMPLETE is lost. The repeated SHUTDOWN ACK arrives when A no longer has an
/// association, and is answered nevertheless.
#[test]
fn lost_shutdown_complete() {
    let mut script = Script::established(&[]);
    script.lose(A, "SHUTDOWN COMPLETE").shutdown(A).run(3_000);
    script.check(expect![[r#"
           1.000  A ──► B   SHUTDOWN      cum=0
           1.025          B: peer wants to shut down
           1.025  A ◄── B   SHUTDOWN ACK
           1.050          A: closed: Shutdown
           1.050  A ──► B   SHUTDOWN COMPLETE     ✗ lost
           2.025  A ◄── B   SHUTDOWN ACK
           2.050  A ──► B   SHUTDOWN COMPLETE T   vtag=A1
           2.075          B: closed: Shutdown
    "#]]);
}

/// RFC 9260 §9.2: both sides shut down at the same time. Each side receives a SHUTDOWN in SHUTDOWN-SENT, and answers it
/// with SHUTDOWN ACK.
#[test]
fn both_at_once() {
    let mut script = Script::established(&[]);
    script.shutdown(A).shutdown(B).run(3_000);
    script.check(expect![[r#"
           1.000  A ──► B   SHUTDOWN      cum=0
           1.000  A ◄── B   SHUTDOWN      cum=0
           1.025  A ◄── B   SHUTDOWN ACK
           1.025  A ──► B   SHUTDOWN ACK
           1.050          A: closed: Shutdown
           1.050  A ──► B   SHUTDOWN COMPLETE
           1.050          B: closed: Shutdown
           1.050  A ◄── B   SHUTDOWN COMPLETE
    "#]]);
}

/// RFC 9260 §9.2: both sides shut down at the same time, while data of both is in flight. All data is acknowledged
/// before the SHUTDOWNs are sent.
#[test]
fn both_at_once_with_data() {
    let mut script = Script::established(&[]);
    script.send(A, 0, 2_000).send(B, 0, 2_000).shutdown(A).shutdown(B).run(3_000);
    script.check(expect![[r#"
           1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1452 B
           1.000  A ──► B   DATA          tsn=2 sid=0 ssn=0 len=548 IE
           1.000  A ◄── B   DATA          tsn=1 sid=0 ssn=0 len=1452 B
           1.000  A ◄── B   DATA          tsn=2 sid=0 ssn=0 len=548 IE
           1.025  A ◄── B   SACK          cum=1 rwnd=64084
           1.025          B: received sid=0 len=2000
           1.025  A ◄── B   SACK          cum=2 rwnd=64k
           1.025  A ──► B   SACK          cum=1 rwnd=64084
           1.025          A: received sid=0 len=2000
           1.025  A ──► B   SACK          cum=2 rwnd=64k
           1.050  A ──► B   SHUTDOWN      cum=2
           1.050  A ◄── B   SHUTDOWN      cum=2
           1.075  A ◄── B   SHUTDOWN ACK
           1.075  A ──► B   SHUTDOWN ACK
           1.100          A: closed: Shutdown
           1.100  A ──► B   SHUTDOWN COMPLETE
           1.100          B: closed: Shutdown
           1.100  A ◄── B   SHUTDOWN COMPLETE
    "#]]);
}

/// The last chunk is lost. The chunk is retransmitted and acknowledged before the SHUTDOWN is sent.
#[test]
fn lost_data_before_the_end() {
    let mut script = Script::established(&[]);
    script.lose(A, "DATA tsn=1 ").send(A, 0, 500).shutdown(A).run(4_000);
    script.check(expect![[r#"
           1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=500 IBE     ✗ lost
           2.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=500 BE
           2.025          B: received sid=0 len=500
           2.025  A ◄── B   SACK          cum=1 rwnd=64k
           2.050  A ──► B   SHUTDOWN      cum=0
           2.075          B: peer wants to shut down
           2.075  A ◄── B   SHUTDOWN ACK
           2.100          A: closed: Shutdown
           2.100  A ──► B   SHUTDOWN COMPLETE
           2.125          B: closed: Shutdown
    "#]]);
}

/// RFC 9260 §9.2: the application sends a message and shuts down before the handshake begins. The handshake is
/// completed, the message is delivered, and the SHUTDOWN follows.
#[test]
fn before_it_is_established() {
    let mut script = Script::new(&[]);
    script.associate().send(A, 0, 100).shutdown(A).run(3_000);
    script.check(expect![[r#"
           0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
           0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
           0.050  A ──► B   COOKIE ECHO; DATA tsn=1 sid=0 ssn=0 len=100 BE
           0.075          B: accepted, 10 streams out, 10 in
           0.075          B: received sid=0 len=100
           0.075  A ◄── B   COOKIE ACK; SACK cum=1 rwnd=64k
           0.100          A: established, 10 streams out, 10 in
           0.100  A ──► B   SHUTDOWN      cum=0
           0.125          B: peer wants to shut down
           0.125  A ◄── B   SHUTDOWN ACK
           0.150          A: closed: Shutdown
           0.150  A ──► B   SHUTDOWN COMPLETE
           0.175          B: closed: Shutdown
    "#]]);
}

/// RFC 9260 §9.2: the application shuts down in COOKIE-ECHOED, and B has sent data. The handshake is completed, and B's
/// data is delivered before the association ends.
#[test]
fn while_the_cookie_is_out() {
    let mut script = Script::new(&[]);
    script.lose(B, "COOKIE ACK").associate().run(80).shutdown(A).send(B, 0, 100).run(3_000);
    script.check(expect![[r#"
        0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
        0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
        0.050  A ──► B   COOKIE ECHO
        0.075          B: accepted, 10 streams out, 10 in
        0.075  A ◄── B   COOKIE ACK     ✗ lost
        0.080  A ◄── B   DATA          tsn=1 sid=0 ssn=0 len=100 BE
        1.050  A ──► B   COOKIE ECHO
        1.075  A ◄── B   COOKIE ACK
        1.080  A ◄── B   DATA          tsn=1 sid=0 ssn=0 len=100 BE
        1.100          A: established, 10 streams out, 10 in
        1.100  A ──► B   SHUTDOWN      cum=0
        1.105          A: received sid=0 len=100
        1.105  A ──► B   SHUTDOWN      cum=1
        1.125          B: peer wants to shut down
        1.130  A ◄── B   SHUTDOWN ACK
        1.155          A: closed: Shutdown
        1.155  A ──► B   SHUTDOWN COMPLETE
        1.180          B: closed: Shutdown
    "#]]);
}

/// RFC 9260 §9.2: the peer does not answer. The RTO is 1, 2 and then 4 s. After that, the peer counts as unreachable.
#[test]
fn no_answer() {
    let mut script = Script::established(&[("assoc_max_retrans", "2"), ("path_max_retrans", "2")]);
    script.lose_times(B, "SHUTDOWN", 9).shutdown(A).run(9_000);
    script.check_drawn(expect![[r#"
        1.000  A ──► B   SHUTDOWN      cum=0
        1.025          B: peer wants to shut down
        1.025  A ◄── B   SHUTDOWN ACK     ✗ lost
        2.000  A ──► B   SHUTDOWN      cum=0
        2.025  A ◄── B   SHUTDOWN ACK     ✗ lost
        3.025  A ◄── B   SHUTDOWN ACK     ✗ lost
        4.000  A ──► B   SHUTDOWN      cum=0
        4.025  A ◄── B   SHUTDOWN ACK     ✗ lost
        6.025  A ◄── B   SHUTDOWN ACK     ✗ lost
        8.000          A: closed: Unreachable
        8.000  A ──► B   ABORT
        8.025          B: closed: Aborted(None)
    "#]]);
}

/// RFC 9260 §9.2: T5-shutdown-guard ends a shutdown that takes too long. B answers all packets but never finishes.
#[test]
fn guard() {
    let mut script = Script::established(&[("rto_max", "2s")]);
    script.lose_times(B, "SHUTDOWN ACK", 99).lose_times(B, "ABORT", 9).shutdown(A).run(30_000);
    let drawn = script.net.ladder.take();
    let closed: Vec<_> = drawn.lines().filter(|line| line.contains("closed")).collect();
    expect![[r#"
        11.000          A: closed: ShutdownTimeout
        11.025          B: closed: Aborted(Some(12))
    "#]]
    .assert_eq(&crate::script::flush_left(&closed.join("\n")));
}

/// RFC 9260 §5.2.4: a new association is requested while the old association is being shut down. The COOKIE ECHO is
/// answered by SHUTDOWN ACK and ERROR.
#[test]
fn restart_while_shutting_down() {
    let mut script = Script::new(&[]);
    script.net.associate_from(A, 1, Some(5_000), crate::net::PORT);
    script.run(1_000);
    script.forget();
    // B has sent a SHUTDOWN ACK, and A has lost all its state.
    script.lose_times(B, "SHUTDOWN ACK", 1).shutdown(A).run(30);
    let engine = anabranch_sctp::Endpoint::new(
        crate::script::configured(&[]),
        vec![crate::net::address(A, 1)],
        anabranch_base::Rng::new(5),
    );
    script.net.end(A).engine = engine;
    script.net.note("        A reboots");
    script.net.associate_from(A, 1, Some(5_000), crate::net::PORT);
    script.run(5_000).send(A, 0, 10).run(1_000);
    script.check(expect![[r#"
           1.000  A ──► B   SHUTDOWN      cum=0
           1.025          B: peer wants to shut down
           1.025  A ◄── B   SHUTDOWN ACK     ✗ lost
           1.030          A reboots
           1.030  A ──► B   INIT          tag=A2 rwnd=64k os=10 is=10 tsn=1 families=v4
           1.055  A ◄── B   SHUTDOWN ACK   vtag=A1
           1.080  A ──► B   SHUTDOWN COMPLETE T   vtag=A1
           1.105          B: closed: Shutdown
           2.030  A ──► B   INIT          tag=A2 rwnd=64k os=10 is=10 tsn=1 families=v4
           2.055  A ◄── B   INIT ACK      tag=B2 rwnd=64k os=10 is=10 tsn=1 …cookie
           2.080  A ──► B   COOKIE ECHO
           2.105          B: accepted, 10 streams out, 10 in
           2.105  A ◄── B   COOKIE ACK
           2.130          A: established, 10 streams out, 10 in
           6.030  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=10 BE
           6.055          B: received sid=0 len=10
           6.055  A ◄── B   SACK          cum=1 rwnd=64k
    "#]]);
}

/// RFC 9260 §9.1: an ABORT is sent with the application's error cause.
#[test]
fn abort() {
    let mut script = Script::established(&[]);
    script.abort(B).run(1_000);
    script.check(expect![[r#"
           1.000          B: closed: Local
           1.000  A ◄── B   ABORT user-abort
           1.025          A: closed: Aborted(Some(12))
    "#]]);
}

/// RFC 9260 §9.1: an ABORT discards all queued data.
#[test]
fn abort_with_data_waiting() {
    let mut script = Script::established(&[]);
    script.send(A, 0, 20_000).abort(A).run(1_000);
    script.check_drawn(expect![[r#"
        1.000          A: not delivered: sid=0 len=20000 context=1, unsent
        1.000          A: closed: Local
        1.000  A ──► B   ABORT user-abort
        1.025          B: closed: Aborted(Some(12))
    "#]]);
}

/// RFC 9260 §8.4: an ABORT is lost. The next data of the peer is answered by another ABORT.
#[test]
fn lost_abort() {
    let mut script = Script::established(&[]);
    script.lose(A, "ABORT").abort(A).run(100).send(B, 0, 10).run(1_000);
    script.check_drawn(expect![[r#"
        1.000          A: closed: Local
        1.000  A ──► B   ABORT user-abort     ✗ lost
        1.100  A ◄── B   DATA          tsn=1 sid=0 ssn=0 len=10 BE
        1.125  A ──► B   ABORT T   vtag=A1
        1.150          B: not delivered: sid=0 len=10 context=1, sent
        1.150          B: closed: Aborted(None)
    "#]]);
}
