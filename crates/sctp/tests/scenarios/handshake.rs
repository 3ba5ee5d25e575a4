//! Setting up an association (RFC 9260 §5.1), with and without losses.

use crate::net::{A, B, PORT};
use crate::script::{Script, configured};
use anabranch_sctp::Event;
use expect_test::expect;

/// RFC 9260 §5.1.6: without losses, the handshake consists of INIT, INIT ACK, COOKIE ECHO and COOKIE ACK.
#[test]
fn four_packets() {
    let mut script = Script::new(&[]);
    script.associate().run(1_000);
    script.check(expect![[r#"
           0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
           0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
           0.050  A ──► B   COOKIE ECHO
           0.075          B: accepted, 10 streams out, 10 in
           0.075  A ◄── B   COOKIE ACK
           0.100          A: established, 10 streams out, 10 in
    "#]]);
}

/// RFC 9260 §5.1 C: DATA may be bundled with COOKIE ECHO and COOKIE ACK.
#[test]
fn data_rides_with_the_cookie() {
    let mut script = Script::new(&[]);
    script.associate().send(A, 0, 100).run(1_000);
    script.check(expect![[r#"
           0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
           0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
           0.050  A ──► B   COOKIE ECHO; DATA tsn=1 sid=0 ssn=0 len=100 BE
           0.075          B: accepted, 10 streams out, 10 in
           0.075          B: received sid=0 len=100
           0.075  A ◄── B   COOKIE ACK; SACK cum=1 rwnd=64k
           0.100          A: established, 10 streams out, 10 in
    "#]]);
}

/// With `cookie_data=no`, data waits for the COOKIE ACK.
#[test]
fn data_waits_for_the_cookie() {
    let mut script = Script::new(&[("cookie_data", "no")]);
    script.associate().send(A, 0, 100).run(1_000);
    script.check(expect![[r#"
           0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
           0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
           0.050  A ──► B   COOKIE ECHO
           0.075          B: accepted, 10 streams out, 10 in
           0.075  A ◄── B   COOKIE ACK
           0.100          A: established, 10 streams out, 10 in
           0.100  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=100 BE
           0.125          B: received sid=0 len=100
           0.125  A ◄── B   SACK          cum=1 rwnd=64k
    "#]]);
}

/// RFC 9260 §5.1 A, §4: an INIT is lost. T1-init expires, and the INIT is sent again.
#[test]
fn lost_init() {
    let mut script = Script::new(&[]);
    script.lose(A, "INIT tag").associate().run(3_000);
    script.check(expect![[r#"
           0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4     ✗ lost
           1.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
           1.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
           1.050  A ──► B   COOKIE ECHO
           1.075          B: accepted, 10 streams out, 10 in
           1.075  A ◄── B   COOKIE ACK
           1.100          A: established, 10 streams out, 10 in
    "#]]);
}

/// RFC 9260 §5.1 B: an INIT ACK is lost. The responder has kept no state, and answers the retransmitted INIT in the
/// same way.
#[test]
fn lost_init_ack() {
    let mut script = Script::new(&[]);
    script.lose(B, "INIT ACK").associate().run(3_000);
    script.check(expect![[r#"
           0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
           0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie     ✗ lost
           1.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
           1.025  A ◄── B   INIT ACK      tag=B2 rwnd=64k os=10 is=10 tsn=1 …cookie
           1.050  A ──► B   COOKIE ECHO
           1.075          B: accepted, 10 streams out, 10 in
           1.075  A ◄── B   COOKIE ACK
           1.100          A: established, 10 streams out, 10 in
    "#]]);
}

/// RFC 9260 §5.1 C: a COOKIE ECHO with DATA is lost. T1-cookie expires, and the COOKIE ECHO and the DATA are sent
/// again.
#[test]
fn lost_cookie_echo() {
    let mut script = Script::new(&[]);
    script.lose(A, "COOKIE ECHO").associate().send(A, 0, 100).run(3_000);
    script.check(expect![[r#"
           0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
           0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
           0.050  A ──► B   COOKIE ECHO; DATA tsn=1 sid=0 ssn=0 len=100 BE     ✗ lost
           1.050  A ──► B   COOKIE ECHO; DATA tsn=1 sid=0 ssn=0 len=100 BE
           1.075          B: accepted, 10 streams out, 10 in
           1.075          B: received sid=0 len=100
           1.075  A ◄── B   COOKIE ACK; SACK cum=1 rwnd=64k
           1.100          A: established, 10 streams out, 10 in
    "#]]);
}

/// RFC 9260 §5.2.4 D: a COOKIE ACK is lost. The repeated COOKIE ECHO belongs to an existing association, and is
/// answered by another COOKIE ACK.
#[test]
fn lost_cookie_ack() {
    let mut script = Script::new(&[]);
    script.lose(B, "COOKIE ACK").associate().run(3_000);
    script.check(expect![[r#"
           0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
           0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
           0.050  A ──► B   COOKIE ECHO
           0.075          B: accepted, 10 streams out, 10 in
           0.075  A ◄── B   COOKIE ACK     ✗ lost
           1.050  A ──► B   COOKIE ECHO
           1.075  A ◄── B   COOKIE ACK
           1.100          A: established, 10 streams out, 10 in
    "#]]);
}

/// RFC 9260 §5.1.4, §8.1: no INIT is answered. After Max.Init.Retransmits (2) the association is given up. The RTO is
/// 1, 2 and then 4 s.
#[test]
fn nobody_answers() {
    let mut script = Script::new(&[("init_max_retrans", "2")]);
    script.lose_times(A, "INIT", 9).associate().run(20_000);
    script.check(expect![[r#"
           0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4     ✗ lost
           1.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4     ✗ lost
           3.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4     ✗ lost
           7.000          A: closed: Unreachable
    "#]]);
}

/// RFC 9260 §5.1 B: an INIT to a port without a listener is answered by ABORT.
#[test]
fn nobody_listens() {
    let mut script = Script::new(&[]);
    script.net.associate_from(A, 1, None, PORT + 1);
    script.run(1_000);
    script.check(expect![[r#"
           0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
           0.025  A ◄── B   ABORT
           0.050          A: closed: Aborted(None)
    "#]]);
}

/// RFC 9260 §5.2.6: a cookie that arrives too late is answered by ERROR. A sends a new INIT with a cookie
/// preservative.
#[test]
fn stale_cookie() {
    let mut script = Script::new(&[("cookie_life", "1s")]);
    script.delay(A, "COOKIE ECHO", 1_500).associate().run(6_000);
    script.check(expect![[r#"
           0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
           0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
           0.050  A ──► B   COOKIE ECHO     delayed 1500 ms
           1.050  A ──► B   COOKIE ECHO
           1.075  A ◄── B   ERROR stale-cookie(50000us)
           1.100  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 preserve=100ms families=v4
           1.125  A ◄── B   INIT ACK      tag=B2 rwnd=64k os=10 is=10 tsn=1 …cookie
           1.150  A ──► B   COOKIE ECHO
           1.175          B: accepted, 10 streams out, 10 in
           1.175  A ◄── B   COOKIE ACK
           1.200          A: established, 10 streams out, 10 in
           1.575  A ◄── B   ERROR stale-cookie(550000us)
    "#]]);
}

/// A COOKIE ECHO and its retransmission both arrive too late. The ERROR for the retransmission refers to the old
/// cookie, but reaches A when A already has a new cookie. So A must keep the new cookie.
#[test]
fn the_same_cookie_is_stale_twice() {
    let mut script = Script::new(&[("cookie_life", "1s"), ("hb_interval", "0")]);
    script.delay(A, "COOKIE ECHO", 1_075).associate();
    script.duplicate_late(B, "ERROR", 20).run(6_000);
    script.check(expect![[r#"
        0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
        0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
        0.050  A ──► B   COOKIE ECHO     delayed 1075 ms
        1.050  A ──► B   COOKIE ECHO
        1.075  A ◄── B   ERROR stale-cookie(50000us)     duplicated
        1.100  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 preserve=100ms families=v4
        1.125  A ◄── B   INIT ACK      tag=B2 rwnd=64k os=10 is=10 tsn=1 …cookie
        1.150  A ◄── B   ERROR stale-cookie(125000us)
        1.150  A ──► B   COOKIE ECHO
        1.175          B: accepted, 10 streams out, 10 in
        1.175  A ◄── B   COOKIE ACK
        1.200          A: established, 10 streams out, 10 in
    "#]]);
    let events = &script.net.ends[0].events;
    assert!(!events.iter().any(|event| matches!(event, Event::PeerError { .. })), "{events:?}");
}

/// RFC 9260 §5.2.6: A measures two round trips: from the COOKIE ECHO to the ERROR, and from the new INIT to its INIT
/// ACK. If the COOKIE ECHO was retransmitted, the timer of the new INIT starts without the back-off of T1-cookie.
#[test]
fn the_rto_after_a_stale_cookie() {
    for once in [true, false] {
        let mut script = Script::new(&[("cookie_life", "60ms"), ("rto_min", "100ms")]);
        if once {
            script.delay(A, "COOKIE ECHO", 80);
        } else {
            script.lose_times(A, "COOKIE ECHO", 2);
        }
        script.lose(A, "preserve=").associate().run(9_000);
        script.check(if once { expect![[r#"
            0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
            0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
            0.050  A ──► B   COOKIE ECHO     delayed 80 ms
            0.155  A ◄── B   ERROR stale-cookie(70000us)
            0.180  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 preserve=200ms families=v4     ✗ lost
            0.395  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 preserve=200ms families=v4
            0.420  A ◄── B   INIT ACK      tag=B2 rwnd=64k os=10 is=10 tsn=1 …cookie
            0.445  A ──► B   COOKIE ECHO
            0.470          B: accepted, 10 streams out, 10 in
            0.470  A ◄── B   COOKIE ACK
            0.495          A: established, 10 streams out, 10 in
        "#]] } else { expect![[r#"
            0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
            0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
            0.050  A ──► B   COOKIE ECHO     ✗ lost
            0.200  A ──► B   COOKIE ECHO     ✗ lost
            0.500  A ──► B   COOKIE ECHO
            0.525  A ◄── B   ERROR stale-cookie(440000us)
            0.550  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 preserve=490ms families=v4     ✗ lost
            0.700  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 preserve=490ms families=v4
            0.725  A ◄── B   INIT ACK      tag=B2 rwnd=64k os=10 is=10 tsn=1 …cookie
            0.750  A ──► B   COOKIE ECHO
            0.775          B: accepted, 10 streams out, 10 in
            0.775  A ◄── B   COOKIE ACK
            0.800          A: established, 10 streams out, 10 in
        "#]] });
    }
}

/// RFC 9260 §6.3.1 C4: the INIT after a stale cookie is not a retransmission, so the answer to this INIT measures the
/// round trip.
#[test]
fn the_new_init_measures_the_round_trip() {
    let mut script = Script::new(&[("cookie_life", "60ms"), ("rto_min", "10ms"), ("rto_var_min", "0")]);
    script.delay(A, "COOKIE ECHO", 80).associate();
    script.lose_times(A, "COOKIE ECHO", 2).run(9_000);
    script.check(expect![[r#"
        0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
        0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
        0.050  A ──► B   COOKIE ECHO     delayed 80 ms
        0.155  A ◄── B   ERROR stale-cookie(70000us)
        0.180  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 preserve=200ms families=v4
        0.205  A ◄── B   INIT ACK      tag=B2 rwnd=64k os=10 is=10 tsn=1 …cookie
        0.230  A ──► B   COOKIE ECHO     ✗ lost
        0.415  A ──► B   COOKIE ECHO     ✗ lost
        0.785  A ──► B   COOKIE ECHO
        0.810  A ◄── B   ERROR stale-cookie(345000us)
        0.835  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 preserve=395ms families=v4
        0.860  A ◄── B   INIT ACK      tag=B3 rwnd=64k os=10 is=10 tsn=1 …cookie
        0.885  A ──► B   COOKIE ECHO
        0.910          B: accepted, 10 streams out, 10 in
        0.910  A ◄── B   COOKIE ACK
        0.935          A: established, 10 streams out, 10 in
    "#]]);
}

/// RFC 9260 §6.3.1 C5: the answer to a retransmitted INIT gives no round-trip time. T1-cookie nevertheless starts with
/// the initial RTO, not with the RTO that T1-init has doubled.
#[test]
fn the_cookie_echo_does_not_wait_as_the_init_did() {
    let mut script = Script::new(&[("rto_initial", "1s")]);
    script.lose_times(A, "INIT", 2).lose(A, "COOKIE ECHO").associate().run(9_000);
    script.check(expect![[r#"
        0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4     ✗ lost
        1.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4     ✗ lost
        3.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
        3.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
        3.050  A ──► B   COOKIE ECHO     ✗ lost
        4.050  A ──► B   COOKIE ECHO
        4.075          B: accepted, 10 streams out, 10 in
        4.075  A ◄── B   COOKIE ACK
        4.100          A: established, 10 streams out, 10 in
    "#]]);
}

/// RFC 9260 §5.1.1: each side sends on no more streams than the other side accepts.
#[test]
fn streams_are_negotiated() {
    let mut script =
        Script::with(configured(&[("num_ostreams", "3")]), configured(&[("num_ostreams", "7")]), &[25]);
    script.associate().run(1_000);
    script.check(expect![[r#"
        0.000  A ──► B   INIT          tag=A1 rwnd=64k os=3 is=3 tsn=1 families=v4
        0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=3 is=7 tsn=1 …cookie
        0.050  A ──► B   COOKIE ECHO
        0.075          B: accepted, 3 streams out, 3 in
        0.075  A ◄── B   COOKIE ACK
        0.100          A: established, 3 streams out, 3 in
    "#]]);
}

/// RFC 9260 §5.2.1: both sides send an INIT at the same time, which sets up a single association.
#[test]
fn both_ask_at_once() {
    let mut script = Script::new(&[]);
    script.net.associate_from(A, 1, Some(5_000), PORT);
    script.net.associate_from(B, 1, Some(PORT), 5_000);
    script.run(3_000).send(A, 0, 10).send(B, 0, 10).run(1_000);
    script.check(expect![[r#"
           0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
           0.000  A ◄── B   INIT          tag=B1 rwnd=64k os=10 is=10 tsn=1 families=v4
           0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
           0.025  A ──► B   INIT ACK      tag=A1 rwnd=64k os=10 is=10 tsn=1 …cookie
           0.050  A ──► B   COOKIE ECHO
           0.050  A ◄── B   COOKIE ECHO
           0.075          B: established, 10 streams out, 10 in
           0.075  A ◄── B   COOKIE ACK
           0.075          A: established, 10 streams out, 10 in
           0.075  A ──► B   COOKIE ACK
           3.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=10 BE
           3.000  A ◄── B   DATA          tsn=1 sid=0 ssn=0 len=10 BE
           3.025          B: received sid=0 len=10
           3.025  A ◄── B   SACK          cum=1 rwnd=64k
           3.025          A: received sid=0 len=10
           3.025  A ──► B   SACK          cum=1 rwnd=64k
    "#]]);
}

/// RFC 9260 §5.2.1: A's COOKIE ECHO is lost, and B sends an INIT while A is in COOKIE-ECHOED. The result is a single
/// association.
#[test]
fn an_init_in_the_cookie_echoed_state() {
    let mut script = Script::new(&[]);
    script.lose(A, "COOKIE ECHO");
    script.net.associate_from(A, 1, Some(5_000), PORT);
    script.run(60);
    script.net.associate_from(B, 1, Some(PORT), 5_000);
    script.run(3_000).send(A, 0, 10).send(B, 0, 10).run(1_000);
    script.check(expect![[r#"
           0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
           0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
           0.050  A ──► B   COOKIE ECHO     ✗ lost
           0.060  A ◄── B   INIT          tag=B2 rwnd=64k os=10 is=10 tsn=1 families=v4
           0.085  A ──► B   INIT ACK      tag=A1 rwnd=64k os=10 is=10 tsn=1 …cookie
           0.110  A ◄── B   COOKIE ECHO
           0.135          A: established, 10 streams out, 10 in
           0.135  A ──► B   COOKIE ACK
           0.160          B: established, 10 streams out, 10 in
           3.060  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=10 BE
           3.060  A ◄── B   DATA          tsn=1 sid=0 ssn=0 len=10 BE
           3.085          B: received sid=0 len=10
           3.085  A ◄── B   SACK          cum=1 rwnd=64k
           3.085          A: received sid=0 len=10
           3.085  A ──► B   SACK          cum=1 rwnd=64k
    "#]]);
}

/// RFC 9260 §6.8: an INIT is damaged on its way. B ignores the INIT, and A repeats it when T1-init expires.
#[test]
fn corrupt_init() {
    let mut script = Script::new(&[]);
    script.corrupt(A, "INIT tag").associate().run(3_000);
    script.check(expect![[r#"
           0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4     ✗ corrupted
           1.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
           1.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
           1.050  A ──► B   COOKIE ECHO
           1.075          B: accepted, 10 streams out, 10 in
           1.075  A ◄── B   COOKIE ACK
           1.100          A: established, 10 streams out, 10 in
    "#]]);
}

/// RFC 9260 §5.2.3: an INIT ACK that arrives a second time is ignored.
#[test]
fn init_ack_twice() {
    let mut script = Script::new(&[]);
    script.duplicate(B, "INIT ACK").associate().run(3_000);
    script.check(expect![[r#"
           0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
           0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie     duplicated
           0.050  A ──► B   COOKIE ECHO
           0.075          B: accepted, 10 streams out, 10 in
           0.075  A ◄── B   COOKIE ACK
           0.100          A: established, 10 streams out, 10 in
    "#]]);
}

/// RFC 9260 §5.1.1: messages are queued before the handshake ends. Messages for streams that the peer does not accept
/// are not sent.
#[test]
fn early_messages_on_streams_that_are_not_granted() {
    let mut script =
        Script::with(configured(&[("num_ostreams", "10")]), configured(&[("num_ostreams", "2")]), &[25]);
    script.associate().send(A, 1, 10).send(A, 2, 20).send(A, 0, 30).run(2_000);
    script.check_drawn(expect![[r#"
        0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
        0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=2 is=2 tsn=1 …cookie
        0.050          A: not delivered: sid=2 len=20 context=2, unsent
        0.050  A ──► B   COOKIE ECHO; DATA tsn=1 sid=1 ssn=0 len=10 BE; DATA tsn=2 sid=0 ssn=0 len=30 BE
        0.075          B: accepted, 2 streams out, 2 in
        0.075          B: received sid=1 len=10
        0.075          B: received sid=0 len=30
        0.075  A ◄── B   COOKIE ACK; SACK cum=2 rwnd=64k
        0.100          A: established, 2 streams out, 2 in
    "#]]);
}
