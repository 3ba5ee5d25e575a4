//! Rules of RFC 9260 §8 that no other scenario checks (`conformance/rules/rfc9260-8.toml`).

use crate::net::{A, B, PORT};
use crate::script::{Script, configured};
use anabranch_base::time::Duration;
use anabranch_sctp::{AssociationState, Event, PathInfo, PathState};
use anabranch_wire::sctp::{Abort, CookieAck, Data, Heartbeat, ShutdownAck, ShutdownComplete, Tsn};
use expect_test::expect;

fn path(script: &Script, n: usize) -> PathInfo {
    script.net.ends[0].engine.info(script.id(A)).expect("an association").paths[n]
}

/// RFC 9260 §8.1, §8.3: each HEARTBEAT ACK clears the error counts of its path and of the association.
/// Association.Max.Retrans is 2. In each of four rounds, two HEARTBEATs in a row are lost, and later HEARTBEATs are
/// answered. The association survives.
#[test]
fn a_heartbeat_ack_clears_the_errors() {
    let watchful =
        [("hb_interval", "5s"), ("assoc_max_retrans", "2"), ("path_max_retrans", "2"), ("rto_max", "2s")];
    let mut script = Script::with(configured(&watchful), configured(&[]), &[25]);
    script.associate().run(1_000);
    for _ in 0..4 {
        script.lose_times(A, "HEARTBEAT", 2).run(14_500);
        assert!(path(&script, 0).errors > 0);
        script.net.rules.clear();
        script.run(15_000);
        assert_eq!((path(&script, 0).errors, path(&script, 0).state), (0, PathState::Active));
    }
    // Without HEARTBEAT ACKs the association ends.
    script.kill(1).run(60_000);
    assert_eq!(script.net.ends[0].engine.info(script.id(A)), None);
    script.forget();
}

/// RFC 9260 §8.1: unanswered HEARTBEATs on paths that are not in use do not end the association. Two of the three paths
/// do not answer. The association would end after two errors, so these errors must not count for it.
#[test]
fn heartbeats_lost_elsewhere_do_not_count() {
    let changes =
        [("hb_interval", "2s"), ("assoc_max_retrans", "1"), ("path_max_retrans", "100"), ("rto_max", "1s")];
    let mut script = Script::established_on(&[25, 25, 25], &changes);
    script.kill(2).kill(3).run(60_000);
    assert!(path(&script, 1).errors > 10 && path(&script, 2).errors > 10);
    script.send(A, 0, 100).run(1_000);
    assert_eq!(script.app(B).messages, 1);
    script.forget();
}

/// RFC 9260 §5.4: unanswered HEARTBEATs to unverified addresses count as errors of their paths, but do not end the
/// association.
#[test]
fn probes_of_unverified_addresses_do_not_count() {
    let mut script =
        Script::multi_homed(&[25, 25, 25], &[("assoc_max_retrans", "0"), ("path_max_retrans", "3")]);
    script.kill(2).kill(3).associate().run(90_000);
    assert_eq!([1, 2].map(|n| path(&script, n).state), [PathState::Inactive; 2]);
    script.send(A, 0, 100).run(1_000);
    assert_eq!(script.app(B).messages, 1);
    script.forget();
}

/// RFC 9260 §8.3: a failed path is still probed, but unanswered probes no longer count as errors.
#[test]
fn a_path_that_is_down_counts_no_more() {
    let mut script = Script::established_on(
        &[25, 25],
        &[("hb_interval", "5s"), ("path_max_retrans", "2"), ("rto_max", "2s")],
    );
    script.kill(2).run(60_000);
    let failed = path(&script, 1);
    assert_eq!((failed.state, failed.errors), (PathState::Inactive, 3));
    script.run(60_000);
    let later = path(&script, 1);
    assert_eq!(later.errors, 3);
    assert!(later.stats.heartbeats_sent > failed.stats.heartbeats_sent + 5, "{later:?}");
    script.heal(2).run(30_000);
    assert_eq!((path(&script, 1).state, path(&script, 1).errors), (PathState::Active, 0));
    script.forget();
}

/// RFC 9260 §8.3: a HEARTBEAT ACK measures the round trip of its path.
#[test]
fn a_heartbeat_measures_the_round_trip() {
    let mut script = Script::multi_homed(&[25, 40], &[]);
    script.associate().run(2_000);
    assert_eq!(path(&script, 1).srtt, Some(Duration::from_millis(80)));
    script.forget();
}

/// RFC 9260 §8.5.1 B: an ABORT with the receiver's own tag counts only without the T bit. An ABORT with the peer's tag
/// counts only with the T bit.
#[test]
fn an_abort_with_the_wrong_t_bit_ends_nothing() {
    let mut script = Script::warm(&[]);
    let (to_a, to_b) = (script.tag(A), script.tag(B));
    for (side, own, peers) in [(A, to_a, to_b), (B, to_b, to_a)] {
        let from = side.other();
        script.inject(from, own, |b| Abort { reflected: true, ..Abort::default() }.emit(b));
        script.inject(from, peers, |b| Abort::default().emit(b));
        script.run(100);
        let info = script.net.ends[side as usize].engine.info(script.id(side)).expect("it lives");
        assert_eq!(info.state, AssociationState::Established);
    }
    script.inject(A, to_a, |b| Abort { reflected: true, ..Abort::default() }.emit(b)).run(100);
    assert!(script.net.ends[1].events.iter().any(|event| matches!(event, Event::Closed { .. })));
    script.forget();
}

/// RFC 9260 §8.5.1 C: in SHUTDOWN-ACK-SENT, a SHUTDOWN COMPLETE with the receiver's own tag counts only without the T
/// bit. A SHUTDOWN COMPLETE with the peer's tag counts only with the T bit.
#[test]
fn a_shutdown_complete_with_the_wrong_t_bit_ends_nothing() {
    let mut script = Script::established(&[]);
    script.lose_times(A, "SHUTDOWN COMPLETE", 9).shutdown(A).run(60);
    let state = |script: &Script| script.net.ends[1].engine.info(script.id(B)).map(|info| info.state);
    let (port, _) = script.ports(B);
    let (to_a, to_b) = (script.tag(A), script.tag(B));
    let peer_port = script.net.ends[1].engine.info(script.id(B)).expect("it lives").peer_port;
    let say = |script: &mut Script, tag: u32, reflected: bool| {
        script.net.rules.clear();
        script.inject_between(A, peer_port, port, tag, |b| ShutdownComplete { reflected }.emit(b)).run(26);
    };
    say(&mut script, to_b, true);
    say(&mut script, to_a, false);
    assert_eq!(state(&script), Some(AssociationState::ShutdownAckSent));
    say(&mut script, to_a, true);
    assert_eq!(state(&script), None);
    script.forget();
}

/// RFC 9260 §8.4: rule 5 precedes rules 6 and 7, and rule 2 precedes all others. So a SHUTDOWN ACK that belongs to no
/// association is answered, no matter which other chunks its packet has. Only an ABORT in the packet prevents this.
#[test]
fn a_shutdown_ack_is_answered_whatever_stands_beside_it() {
    let mut script = Script::new(&[]);
    script.inject_between(A, 999, PORT, 0xdead, |b| {
        CookieAck.emit(b);
        ShutdownAck.emit(b);
    });
    script.run(100);
    script.inject_between(A, 999, PORT, 0xdead, |b| {
        ShutdownAck.emit(b);
        Abort::default().emit(b);
    });
    script.run(100);
    script.check(expect![[r#"
           0.000  A ──► B   COOKIE ACK; SHUTDOWN ACK   vtag=0000dead     injected
           0.025  A ◄── B   SHUTDOWN COMPLETE T   vtag=0000dead
           0.100  A ──► B   SHUTDOWN ACK; ABORT   vtag=0000dead     injected
    "#]]);
}

/// RFC 9260 §8.5.1 A: only an INIT has tag 0. Other packets with tag 0 are not answered, not even by an ABORT.
#[test]
fn nothing_but_an_init_has_tag_zero() {
    let mut script = Script::new(&[]);
    let data = Data { tsn: Tsn(9), begin: true, end: true, payload: b"lost", ..Data::default() };
    script.inject_between(A, 999, PORT, 0, |b| data.emit(b));
    script.inject_between(A, 999, PORT, 0, |b| ShutdownAck.emit(b));
    script.inject_between(A, 999, PORT, 0, |b| Heartbeat { info: b"here?", rest: &[] }.emit(b));
    script.run(100);
    assert!(!script.net.ladder.take().contains("A ◄── B"));
}

/// RFC 9260 §8.2: the primary path fails, and one of the two alternate paths replaces it.
#[test]
fn one_alternate_takes_over() {
    let mut script = Script::established_on(&[25, 25, 25], &[("path_max_retrans", "0")]);
    script.kill(1).send(A, 0, 100).run(3_000);
    assert_eq!(path(&script, 0).state, PathState::Inactive);
    script.forget();
    for _ in 0..20 {
        script.send(A, 0, 1_000).run(300);
    }
    let drawn = script.net.ladder.take();
    let data = |direction: &str| {
        drawn.lines().filter(|line| line.contains(direction) && line.contains("DATA")).count()
    };
    assert_eq!((data("A.1 ──► B.1"), data("A.2 ──► B.2"), data("A.3 ──► B.3")), (0, 20, 0), "{drawn}");
    let info = script.net.ends[1].engine.info(script.id(B)).expect("an association");
    assert_eq!(info.state, AssociationState::Established);
}
