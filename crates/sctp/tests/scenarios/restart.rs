//! COOKIE ECHO chunks for an association that exists (RFC 9260 §5.2.4, table 12).

use crate::net::{self, A, B, PORT};
use crate::script::{Script, configured};
use anabranch_base::Rng;
use anabranch_base::time::Duration;
use anabranch_sctp::Endpoint;
use expect_test::expect;

/// Reboots A's host: replaces A's endpoint by a new endpoint without state at the same address.
fn reboot(script: &mut Script) {
    let engine = Endpoint::new(configured(&[]), vec![net::address(A, 1)], Rng::new(77));
    script.net.end(A).engine = engine;
    script.net.end(A).app.forgive();
    script.net.end(B).app.forgive();
    script.net.note("        A reboots");
}

/// RFC 9260 §5.2.4 A: the peer has restarted, and both tags in its cookie are new. The association continues with new
/// TSNs, and the application is notified.
#[test]
fn case_a_the_peer_restarted() {
    let mut script = Script::new(&[]);
    script.net.associate_from(A, 1, Some(5_000), PORT);
    script.run(1_000).send(A, 0, 100).run(1_000);
    script.forget();
    reboot(&mut script);
    script.net.associate_from(A, 1, Some(5_000), PORT);
    script.send(A, 0, 50).run(1_000).send(B, 0, 60).run(1_000);
    script.check(expect![[r#"
           2.000          A reboots
           2.000  A ──► B   INIT          tag=A2 rwnd=64k os=10 is=10 tsn=1 families=v4
           2.025  A ◄── B   INIT ACK      tag=B2 rwnd=64k os=10 is=10 tsn=1 …cookie
           2.050  A ──► B   COOKIE ECHO; DATA tsn=1 sid=0 ssn=0 len=50 BE
           2.075          B: peer restarted
           2.075          B: received sid=0 len=50
           2.075  A ◄── B   COOKIE ACK; SACK cum=1 rwnd=64k
           2.100          A: established, 10 streams out, 10 in
           3.000  A ◄── B   DATA          tsn=1 sid=0 ssn=0 len=60 BE
           3.025          A: received sid=0 len=60
           3.025  A ──► B   SACK          cum=1 rwnd=64k
    "#]]);
}

/// RFC 9260 §5.2.4 A: the peer has restarted, and the application wants a new association after a restart. The old
/// association ends as if by an ABORT, and a new association begins. Data bundled with the COOKIE ECHO belongs to the
/// new association. Unread data of the old association is dropped.
#[test]
fn case_a_the_peer_restarted_and_is_accepted_anew() {
    let mut script = Script::new(&[]);
    script.net.end(B).engine.replace_restarted(true);
    script.net.associate_from(A, 1, Some(5_000), PORT);
    script.run(1_000).send(B, 0, 100).run(10);
    script.forget();
    reboot(&mut script);
    script.net.associate_from(A, 1, Some(5_000), PORT);
    script.send(A, 0, 50).run(1_000).send(B, 0, 60).run(1_000);
    script.check(expect![[r#"
        1.010          A reboots
        1.010  A ──► B   INIT          tag=A2 rwnd=64k os=10 is=10 tsn=1 families=v4
        1.035  A ◄── B   INIT ACK      tag=B2 rwnd=64k os=10 is=10 tsn=1 …cookie
        1.060  A ──► B   COOKIE ECHO; DATA tsn=1 sid=0 ssn=0 len=50 BE
        1.085          B: not delivered: sid=0 len=100 context=1, sent
        1.085          B: closed: PeerRestarted
        1.085          B: accepted, 10 streams out, 10 in
        1.085          B: received sid=0 len=50
        1.085  A ◄── B   COOKIE ACK; SACK cum=1 rwnd=64k
        1.110          A: established, 10 streams out, 10 in
        2.010  A ◄── B   DATA          tsn=1 sid=0 ssn=0 len=60 BE
        2.035          A: received sid=0 len=60
        2.035  A ──► B   SACK          cum=1 rwnd=64k
    "#]]);
    assert!(matches!(script.net.end(B).ids[..], [before, now] if before != now));
}

/// RFC 9260 §5.2.4 A: the peer has restarted while B has data in flight. That data is lost with the old association.
#[test]
fn case_a_with_data_outstanding() {
    let mut script = Script::new(&[]);
    script.net.associate_from(A, 1, Some(5_000), PORT);
    script.run(1_000);
    script.forget();
    script.lose_times(B, "DATA tsn=1", 9).send(B, 0, 100).run(100);
    reboot(&mut script);
    script.net.rules.clear();
    script.net.associate_from(A, 1, Some(5_000), PORT);
    script.run(3_000).send(B, 0, 60).run(1_000);
    script.check(expect![[r#"
        1.000  A ◄── B   DATA          tsn=1 sid=0 ssn=0 len=100 BE     ✗ lost
        1.100          A reboots
        1.100  A ──► B   INIT          tag=A2 rwnd=64k os=10 is=10 tsn=1 families=v4
        1.125  A ◄── B   INIT ACK      tag=B2 rwnd=64k os=10 is=10 tsn=1 …cookie
        1.150  A ──► B   COOKIE ECHO
        1.175          B: not delivered: sid=0 len=100 context=1, sent
        1.175          B: peer restarted
        1.175  A ◄── B   COOKIE ACK
        1.200          A: established, 10 streams out, 10 in
        4.100  A ◄── B   DATA          tsn=1 sid=0 ssn=0 len=60 BE
        4.125          A: received sid=0 len=60
        4.125  A ──► B   SACK          cum=1 rwnd=64k
    "#]]);
}

/// RFC 9260 §5.2.4 B: both sides have sent an INIT, and the COOKIE ECHOs cross. The result is a single association.
#[test]
fn case_b_crossing_cookies() {
    let mut script = Script::new(&[]);
    script.delay(A, "INIT tag", 10);
    script.net.associate_from(A, 1, Some(5_000), PORT);
    script.net.associate_from(B, 1, Some(PORT), 5_000);
    script.run(5_000).send(A, 0, 10).send(B, 0, 10).run(1_000);
    script.check(expect![[r#"
           0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4     delayed 10 ms
           0.000  A ◄── B   INIT          tag=B1 rwnd=64k os=10 is=10 tsn=1 families=v4
           0.025  A ──► B   INIT ACK      tag=A1 rwnd=64k os=10 is=10 tsn=1 …cookie
           0.035  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
           0.050  A ◄── B   COOKIE ECHO
           0.060  A ──► B   COOKIE ECHO
           0.075          A: established, 10 streams out, 10 in
           0.075  A ──► B   COOKIE ACK
           0.085          B: established, 10 streams out, 10 in
           0.085  A ◄── B   COOKIE ACK
           5.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=10 BE
           5.000  A ◄── B   DATA          tsn=1 sid=0 ssn=0 len=10 BE
           5.025          B: received sid=0 len=10
           5.025  A ◄── B   SACK          cum=1 rwnd=64k
           5.025          A: received sid=0 len=10
           5.025  A ──► B   SACK          cum=1 rwnd=64k
    "#]]);
}

/// RFC 9260 §5.2.4 C: B answers A's INIT with the tag B1. B then sends an INIT of its own with the tag B2, and this
/// handshake sets up the association. A's COOKIE ECHO with the tag B1 arrives later, and has no effect.
#[test]
fn case_c_a_late_cookie() {
    let mut script = Script::new(&[]);
    script.delay(A, "COOKIE ECHO", 400);
    script.net.associate_from(A, 1, Some(5_000), PORT);
    script.run(60);
    script.net.associate_from(B, 1, Some(PORT), 5_000);
    script.run(3_000).send(A, 0, 10).send(B, 0, 10).run(1_000);
    script.check(expect![[r#"
        0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
        0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
        0.050  A ──► B   COOKIE ECHO     delayed 400 ms
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

/// A peer has given up a handshake and set up another association. The late COOKIE ECHO of the first handshake must not
/// affect the new association.
#[test]
fn a_cookie_of_a_former_attempt() {
    let mut script = Script::new(&[]);
    script.delay(A, "COOKIE ECHO", 400);
    script.net.associate_from(A, 1, Some(5_000), PORT);
    script.run(100);
    let id = script.id(A);
    let now = script.net.now;
    script.net.end(A).engine.abort(now, id);
    script.net.end(A).engine.release(now, id);
    script.net.associate_from(A, 1, Some(5_000), PORT);
    script.run(3_000).send(A, 0, 10).run(1_000);
    script.check(expect![[r#"
        0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
        0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
        0.050  A ──► B   COOKIE ECHO     delayed 400 ms
        0.100          A: closed: Local
        0.100  A ──► B   ABORT user-abort
        0.100  A ──► B   INIT          tag=A2 rwnd=64k os=10 is=10 tsn=1 families=v4
        0.125  A ◄── B   INIT ACK      tag=B2 rwnd=64k os=10 is=10 tsn=1 …cookie
        0.150  A ──► B   COOKIE ECHO
        0.175          B: accepted, 10 streams out, 10 in
        0.175  A ◄── B   COOKIE ACK
        0.200          A: established, 10 streams out, 10 in
        3.100  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=10 BE
        3.125          B: received sid=0 len=10
        3.125  A ◄── B   SACK          cum=1 rwnd=64k
    "#]]);
}

/// A late COOKIE ECHO, whose association has ended, must not set up the association again. RFC 9260 §5.1.5 leaves this
/// case open.
#[test]
fn a_used_up_cookie() {
    let mut script = Script::new(&[]);
    script.duplicate_late(A, "COOKIE ECHO", 900);
    script.associate().send(A, 0, 10).shutdown(A).run(3_000);
    script.check(expect![[r#"
        0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
        0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
        0.050  A ──► B   COOKIE ECHO; DATA tsn=1 sid=0 ssn=0 len=10 BE     duplicated
        0.075          B: accepted, 10 streams out, 10 in
        0.075          B: received sid=0 len=10
        0.075  A ◄── B   COOKIE ACK; SACK cum=1 rwnd=64k
        0.100          A: established, 10 streams out, 10 in
        0.100  A ──► B   SHUTDOWN      cum=0
        0.125          B: peer wants to shut down
        0.125  A ◄── B   SHUTDOWN ACK
        0.150          A: closed: Shutdown
        0.150  A ──► B   SHUTDOWN COMPLETE
        0.175          B: closed: Shutdown
        0.975  A ◄── B   ABORT
    "#]]);
    assert_eq!(script.app(B).messages, 1);
}

/// RFC 9260 §5.2.4 D: the same COOKIE ECHO with DATA arrives twice. Both copies are answered, and the DATA is delivered
/// once.
#[test]
fn case_d_the_cookie_came_twice() {
    let mut script = Script::new(&[]);
    script.duplicate(A, "COOKIE ECHO").associate().send(A, 0, 10).run(1_000);
    script.check(expect![[r#"
           0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
           0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
           0.050  A ──► B   COOKIE ECHO; DATA tsn=1 sid=0 ssn=0 len=10 BE     duplicated
           0.075          B: accepted, 10 streams out, 10 in
           0.075          B: received sid=0 len=10
           0.075  A ◄── B   COOKIE ACK; SACK cum=1 rwnd=64k
           0.076  A ◄── B   COOKIE ACK; SACK cum=1 rwnd=64k dups=1
           0.100          A: established, 10 streams out, 10 in
    "#]]);
}

/// RFC 9260 §5.2.2: an INIT for an association that exists is answered, with the association's tie-tags in the cookie.
/// The association does not change until the cookie comes back.
#[test]
fn an_init_alone_changes_nothing() {
    let mut script = Script::new(&[]);
    script.net.associate_from(A, 1, Some(5_000), PORT);
    script.run(1_000);
    script.forget();
    script.inject(A, 0, |buffer| {
        let init = anabranch_wire::sctp::Init {
            tag: 0x1234_5678,
            window: 65_536,
            outbound_streams: 1,
            inbound_streams: 1,
            tsn: anabranch_wire::sctp::Tsn(1),
            ..Default::default()
        };
        init.emit(buffer);
    });
    script.run(1_000);
    // From here on, the ladder diagram is switched off, because it would count TSNs from the injected INIT. `check`
    // also requires that both messages arrive.
    script.net.draws_ladder = false;
    script.send(A, 0, 10).send(B, 0, 10).run(1_000);
    script.check(expect![[r#"
        1.000  A ──► B   INIT          tag=A2 rwnd=64k os=1 is=1 tsn=1     injected
        1.025  A ◄── B   INIT ACK      tag=B2 rwnd=64k os=1 is=10 tsn=1 …cookie
    "#]]);
}

/// RFC 9260 §5.2.4 A: complete messages were acknowledged, so the peer's application relies on them. Such messages can
/// be read after the restart, before later messages. Incomplete messages, and messages that wait for missing messages,
/// are dropped.
#[test]
fn what_has_arrived_is_read_after_a_restart() {
    for interleaving in ["no", "yes"] {
        let mut script = Script::new(&[("interleaving", interleaving), ("partial_delivery", "3000B")]);
        script.net.associate_from(A, 1, Some(5_000), PORT);
        script.run(1_000);
        script.app(B).reading_pause = Duration::from_secs(60);
        script.send(A, 0, 100).send(A, 0, 2_000).send(A, 4, 300).run(300);
        // The first message of stream 5, and the end of the message on stream 6, are lost.
        script.lose_times(A, "sid=5 ssn=0", 99).lose_times(A, "sid=5 mid=0", 99).send(A, 5, 10).run(1);
        script.send(A, 5, 20).send(A, 6, 1_000).run(100);
        script.net.end(A).engine = Endpoint::new(configured(&[]), vec![net::address(A, 1)], Rng::new(77));
        script.net.note("        A reboots");
        script.net.in_flight.clear();
        script.net.rules.clear();
        script.net.associate_from(A, 1, Some(5_000), PORT);
        script.run(100);
        let (id, now) = (script.id(B), script.net.now);
        let engine = &mut script.net.end(B).engine;
        let mut read = |stream| {
            let mut lengths = Vec::new();
            while let Ok(Some(received)) = engine.recv(now, id, stream, &mut [0; 9_000]) {
                assert!(received.end_of_message && !received.incomplete);
                lengths.push(received.bytes);
            }
            lengths
        };
        assert_eq!([read(0), read(4), read(5), read(6)], [vec![100, 2_000], vec![300], vec![], vec![1_000]]);
    }
}
