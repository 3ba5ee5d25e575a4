//! Cases that the random tests in `storm` found. A RE-CONFIG request and the data that waits for it are both
//! retransmitted. Lost requests must not use up the retries of the data, and lost data must not use up the retries of
//! the request.

use crate::net::{A, B};
use crate::script::{Script, configured};
use anabranch_base::time::Duration;
use anabranch_sctp::{AssociationState, Direction, Message, Reliability};
use expect_test::expect;

const ON: &[(&str, &str)] = &[("reconfig", "yes")];

fn with(a: &[(&str, &str)], b: &[(&str, &str)]) -> Script {
    let mut script = Script::with(configured(&[ON, a].concat()), configured(&[ON, b].concat()), &[25]);
    script.associate().run(1_000);
    script.send(A, 1, 8).send(B, 1, 8).run(1_000);
    script.forget();
    script
}

/// RFC 6525 §5.2.4: while A waits for the answer to its request to reset the TSNs, A accepts no DATA. If DATA arrives a
/// round trip or more after the request, A repeats the request without waiting for its timer. The peer's timer may be
/// much shorter, so the peer could give up first (§5.1.1).
#[test]
fn refused_data_asks_again() {
    let mut script = with(&[("rto_min", "10s")], &[("rto_min", "100ms"), ("assoc_max_retrans", "2")]);
    script.lose(A, "reset-tsn");
    script.reset_association(A).expect("taken");
    script.send(B, 1, 100).run(3_000);
    script.check(expect![[r#"
        2.000  A ──► B   RE-CONFIG reset-tsn(#1)     ✗ lost
        2.000  A ◄── B   DATA          tsn=2 sid=1 ssn=1 len=100 BE
        2.025  A ──► B   SACK          cum=1 rwnd=64k
        2.150  A ◄── B   DATA          tsn=2 sid=1 ssn=1 len=100 BE
        2.175  A ──► B   RE-CONFIG reset-tsn(#1); SACK cum=1 rwnd=64k
        2.200  A ◄── B   RE-CONFIG response(#1 denied) next=3/2; SACK cum=1 rwnd=64k
        2.225          A: association not reset: Denied
        2.450  A ◄── B   DATA          tsn=2 sid=1 ssn=1 len=100 BE
        2.475          A: received sid=1 len=100
        2.675  A ──► B   SACK          cum=2 rwnd=64k
    "#]]);
}

/// RFC 6525 §5.2.7 H2: the response "in progress" counts as an answer. Some of these responses are lost, but those that
/// arrive keep the error count below the limit at which the peer is unreachable (RFC 9260 §8.1).
#[test]
fn in_progress_shows_that_the_peer_is_there() {
    let mut script = with(&[("rcvbuf", "3000B"), ("assoc_max_retrans", "2"), ("path_max_retrans", "2")], &[]);
    script.app(A).reading_pause = Duration::from_secs(60);
    for _ in 0..4 {
        script.send(B, 1, 1_400);
    }
    script.reset(A, Direction::Incoming, &[1]).expect("taken");
    for _ in 0..5 {
        script.lose(B, "in-progress").run(4_000);
    }
    let id = script.id(A);
    let info = script.net.end(A).engine.info(id).expect("the association is there");
    assert_eq!(info.state, AssociationState::Established);
    script.run(60_000);
    assert!(script.net.ladder.take().contains("A: streams reset: Incoming [1]"));
}

/// RFC 9260 §6.1 A: a reset holds data back (RFC 6525 §5.1.2 A1), and the peer's window closes meanwhile. After the
/// reset, A sends this data as a window probe, because the SACK that opens the window may be lost.
#[test]
fn kept_back_data_probes_a_closed_window() {
    let mut script = with(&[], &[("rcvbuf", "3000B")]);
    script.app(B).reading_pause = Duration::from_secs(2);
    script.send(A, 1, 1_400).send(A, 1, 1_400);
    script.reset(A, Direction::Outgoing, &[1]).expect("taken");
    script.send(A, 1, 1_000).run(20_000);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=2 sid=1 ssn=1 len=1400 BE
        2.000  A ──► B   DATA          tsn=3 sid=1 ssn=2 len=1400 BE
        2.000  A ──► B   RE-CONFIG reset-out(#1 re=#0 last=3 sid=1)
        2.025  A ◄── B   SACK          cum=3 rwnd=200
        2.025          B: streams reset: Incoming [1]
        2.025  A ◄── B   RE-CONFIG response(#1 performed); SACK cum=3 rwnd=200
        2.050          A: streams reset: Outgoing [1]
        3.050  A ──► B   DATA          tsn=4 sid=1 ssn=0 len=1000 BE
        3.275  A ◄── B   SACK          cum=4 rwnd=0
        4.025  A ◄── B   SACK          cum=4 rwnd=3000
    "#]]);
}

/// RFC 9260 §5.4: a HEARTBEAT to an unverified address is sent without DATA. This holds even if no other address is
/// left (RFC 5061 §5.3 F14).
#[test]
fn nothing_rides_to_what_is_not_verified() {
    let on = [("auth", "yes"), ("auth_hmac", "sha1"), ("asconf", "yes")];
    let mut script = Script::multi_homed(&[25, 40], &on);
    script.lose_times(B, "HEARTBEAT", 3).associate().run(500);
    let now = script.net.now;
    script.net.end(A).engine.remove_address(now, crate::net::address(A, 1).ip());
    script.run(60).send(B, 0, 100).run(10_000);
    script.check(expect![[r#"
        0.000  A.1 ──► B.1   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 ip=10.0.1.1 ip=10.0.2.1 extensions=15,193,128 random chunks=128,193 hmac=sha1 families=v4
        0.025  A.1 ◄── B.1   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie ip=10.0.1.2 ip=10.0.2.2 extensions=15,193,128 random chunks=128,193 hmac=sha1
        0.050  A.1 ──► B.1   COOKIE ECHO
        0.075          B: accepted, 10 streams out, 10 in
        0.075  A.1 ◄── B.1   COOKIE ACK
        0.075  A.2 ◄── B.2   HEARTBEAT     ✗ lost
        0.100          A: established, 10 streams out, 10 in
        0.100  A.2 ──► B.2   HEARTBEAT
        0.140  A.2 ◄── B.2   HEARTBEAT ACK     ✗ lost
        0.500  A.2 ──► B.1   AUTH key=0 hmac=sha1; ASCONF serial=1 from=10.0.2.1 delete=10.0.1.1
        0.525          B: peer gives 10.0.1.1 up
        0.525  A.2 ◄── B.2   AUTH key=0 hmac=sha1; ASCONF ACK serial=1
        0.565          A: 10.0.1.1: Removed
        1.075  A.2 ◄── B.2   HEARTBEAT     ✗ lost
        1.100  A.2 ──► B.2   HEARTBEAT
        1.140  A.2 ◄── B.2   HEARTBEAT ACK
        1.180          A: path to 10.0.2.2 is up
        3.075  A.2 ◄── B.2   HEARTBEAT
        3.115  A.2 ──► B.2   HEARTBEAT ACK
        3.155          B: path to 10.0.2.1 is up
        3.155  A.2 ◄── B.2   DATA          tsn=1 sid=0 ssn=0 len=100 BE
        3.195          A: received sid=0 len=100
        3.195  A.2 ──► B.2   SACK          cum=1 rwnd=64k
    "#]]);
}

/// RFC 6525 §5.1.1, RFC 9260 §8.1: a packet with a request and data is lost, which must count as one error, not two.
/// T3-rtx counts the error, and the timer of the request only repeats the request.
#[test]
fn a_request_lost_with_data_counts_once() {
    let mut script = with(&[("assoc_max_retrans", "4"), ("path_max_retrans", "4")], &[]);
    for _ in 0..3 {
        script.lose(A, "RE-CONFIG");
    }
    script.add_streams(A, 1, 0).expect("taken");
    script.send(A, 1, 100).run(40_000);
    script.check(expect![[r#"
        2.000  A ──► B   RE-CONFIG add-out(#1 +1); DATA tsn=2 sid=1 ssn=1 len=100 BE     ✗ lost
        3.000  A ──► B   RE-CONFIG add-out(#1 +1); DATA tsn=2 sid=1 ssn=1 len=100 BE     ✗ lost
        5.000  A ──► B   RE-CONFIG add-out(#1 +1); DATA tsn=2 sid=1 ssn=1 len=100 BE     ✗ lost
        9.000  A ──► B   RE-CONFIG add-out(#1 +1); DATA tsn=2 sid=1 ssn=1 len=100 BE
        9.025          B: streams added: 0 out, 1 in
        9.025          B: received sid=1 len=100
        9.025  A ◄── B   RE-CONFIG response(#1 performed); SACK cum=2 rwnd=64k
        9.050          A: streams added: 1 out, 0 in
    "#]]);
}

/// RFC 6525 §5.1.2 A1, RFC 3758 §3.5 A1: a message that waits for the end of a stream reset expires like any unsent
/// message. The next queued message becomes the first message of the stream after the reset.
#[test]
fn what_is_kept_back_may_expire_before_the_stream_begins_anew() {
    let on = [("partial_reliability", "yes")];
    let mut script = with(&on, &on);
    script.lose(B, "RE-CONFIG");
    script.reset(A, Direction::Outgoing, &[1]).expect("taken");
    let reliability = Reliability::Lifetime(Duration::from_millis(300));
    script.send_message(A, Message { stream: 1, reliability, ..Message::default() }, 500);
    script.send(A, 1, 60).run(5_000);
    let drawn = script.net.ladder.take();
    let position = |what: &str| drawn.find(what).unwrap_or_else(|| panic!("no {what} in {drawn}"));
    let expired = position("A: gave up sid=1 len=500 context=3, unsent, by Lifetime");
    assert!(expired < position("A: streams reset: Outgoing [1]"), "{drawn}");
    assert!(position("A: streams reset") < position("DATA          tsn=2 sid=1 ssn=0 len=60 BE"), "{drawn}");
    assert!(position("B: received sid=1 len=60") > 0);
}
