//! Rules of RFC 5061 §4 and §5 that no other scenario checks (`conformance/rules/rfc5061-4.toml`, `rfc5061-5.toml`).

use crate::asconf_refused::Known;
use crate::net::{self, A, B, PORT};
use crate::script::Script;
use anabranch_sctp::{AddressError, AssociationState, CloseReason, Event};
use anabranch_wire::ladder::Side;
use anabranch_wire::sctp::*;
use expect_test::expect;
use std::net::IpAddr;

const ON: &[(&str, &str)] = &[("auth", "yes"), ("auth_hmac", "sha1"), ("asconf", "yes")];

fn at(n: usize) -> IpAddr {
    net::address(A, n).ip()
}

fn state(script: &Script, side: Side) -> Option<AssociationState> {
    script.net.ends[side as usize].engine.info(script.id(side)).map(|info| info.state)
}

/// The error cause with which an ASCONF ACK reports an unknown request.
const NOT_KNOWN: &[u8] = &[0, 8, 0, 4];

/// A withdraws its second address from the association.
fn withhold(script: &mut Script) {
    let (id, now) = (script.id(A), script.net.now);
    script.net.end(A).engine.use_address(now, id, at(2), false).expect("dynamic");
}

/// Sends an ABORT from B to A's address `n`.
fn abort(script: &mut Script, n: usize, tag: u32, reflected: bool) {
    let (source, target) = script.ports(B);
    let mut bytes = Vec::new();
    let start = packet::begin(&mut bytes, source, target, tag);
    Abort { reflected, ..Abort::default() }.emit(&mut bytes);
    packet::finish(&mut bytes, start);
    script.net.inject(B, n, bytes);
    script.run(100);
}

/// RFC 5061 §5.3 F4, §5.3.1: an ABORT to an address that is being deleted is ignored. This holds for an ABORT with the
/// receiver's tag, and for an ABORT with the sender's tag and the T bit.
#[test]
fn an_abort_to_an_address_that_goes() {
    let mut known = Known::with(2);
    let script = &mut known.script;
    withhold(script);
    script.run(200);
    let (own, peers) = (script.tag(A), script.tag(B));
    abort(script, 2, own, false);
    abort(script, 2, peers, true);
    assert_eq!(state(script, A), Some(AssociationState::Established));
    abort(script, 1, own, false);
    assert!(script.net.ends[0].events.iter().any(|event| matches!(event, Event::Closed { .. })));
    script.forget();
}

/// RFC 5061 §5.3.1: the peer has acknowledged the deletion of an address, which other associations of this host still
/// use. An ABORT that arrives at this address afterwards is ignored.
#[test]
fn an_abort_to_an_address_that_has_gone() {
    let mut script = Script::multi_homed(&[25, 25], ON);
    script.associate().run(3_000);
    withhold(&mut script);
    script.run(1_000);
    let (own, peers) = (script.tag(A), script.tag(B));
    abort(&mut script, 2, own, false);
    abort(&mut script, 2, peers, true);
    assert_eq!(state(&script, A), Some(AssociationState::Established));
    script.send(A, 0, 100).send(B, 0, 100).run(1_000);
    assert_eq!((script.app(A).messages, script.app(B).messages), (1, 1));
    script.forget();
}

/// RFC 5061 §5.3.1: an ABORT may be a late answer to a packet that A sent from an address before A deleted the address.
/// So A ignores ABORTs to the address while A adds it again, and for a while afterwards. A much later ABORT ends the
/// association.
#[test]
fn an_abort_to_an_address_that_is_back() {
    let mut script = Script::multi_homed(&[25, 25], ON);
    script.associate().run(3_000);
    withhold(&mut script);
    script.run(1_000);
    let (id, now) = (script.id(A), script.net.now);
    script.net.end(A).engine.use_address(now, id, at(2), true).expect("dynamic");
    let (own, peers) = (script.tag(A), script.tag(B));
    // These ABORTs must be ignored. They arrive before the peer answers the request to add the address, or less than
    // 30 s after the answer.
    for wait in [0, 200, 29_000] {
        script.run(wait);
        abort(&mut script, 2, own, false);
        abort(&mut script, 2, peers, true);
        assert_eq!(state(&script, A), Some(AssociationState::Established), "{wait} ms later");
    }
    script.send(A, 0, 100).send(B, 0, 100).run(2_000);
    assert_eq!((script.app(A).messages, script.app(B).messages), (1, 1));
    abort(&mut script, 2, own, false);
    assert!(script.net.ends[0].events.iter().any(|event| matches!(event, Event::Closed { .. })));
    script.forget();
}

/// RFC 5061 §5.3 F13: packets from a deleted address do not belong to the association.
#[test]
fn packets_from_an_address_that_has_gone() {
    let mut known = Known::with(2);
    known.ask(1, &[Param::DeleteAddress { id: 1, address: at(2) }]);
    known.script.lose_times(B, "ABORT", 9).forget();
    let (tag, (source, target)) = (known.script.tag(B), known.script.ports(A));
    let mut bytes = Vec::new();
    let start = packet::begin(&mut bytes, source, target, tag);
    Data { tsn: Tsn(9), begin: true, end: true, payload: b"late", ..Data::default() }.emit(&mut bytes);
    packet::finish(&mut bytes, start);
    known.script.net.inject(A, 2, bytes);
    known.script.run(100);
    let drawn = known.script.net.ladder.take();
    assert!(drawn.lines().any(|line| line.contains("A.2 ◄── B.2   ABORT T")), "{drawn}");
    known.lives(1);
}

/// RFC 5061 §5.3 F11: after a failed addition or deletion, all later additions and deletions in the same ASCONF fail.
/// §4.2.1, §4.2.2: a multicast address is not the address of a host.
#[test]
fn all_that_follows_fails() {
    let group = IpAddr::from([224, 0, 0, 9]);
    let broadcast = IpAddr::from([255, 255, 255, 255]);
    let delete = |id: u32| Param::DeleteAddress { id, address: at(2) };
    for first in [
        Param::AddAddress { id: 1, address: group },
        Param::AddAddress { id: 1, address: broadcast },
        Param::DeleteAddress { id: 1, address: group },
        Param::DeleteAddress { id: 1, address: at(1) },
    ] {
        let mut known = Known::with(2);
        known.ask(1, &[first, delete(2), Param::AddAddress { id: 3, address: at(9) }]);
        let drawn = known.script.net.ladder.take();
        assert!(!drawn.contains("gives") && !drawn.contains("peer has"), "{drawn}");
        assert_eq!(drawn.matches("no-room-for-address").count(), 2, "{drawn}");
        known.lives(2);
    }
    // Requests before a failed addition are executed, and so is a Set Primary request after it.
    let mut known = Known::with(2);
    known.ask(
        1,
        &[
            delete(1),
            Param::AddAddress { id: 2, address: group },
            Param::SetPrimary { id: 3, address: at(1) },
        ],
    );
    known.script.check(expect![[r#"
        3.035  A.1 ──► B.1   AUTH key=0 hmac=sha1; ASCONF serial=1 from=10.0.1.1 delete=10.0.2.1 add=224.0.0.9 primary=10.0.1.1     injected
        3.060          B: peer gives 10.0.2.1 up
        3.060  A.1 ◄── B.1   AUTH key=0 hmac=sha1; ASCONF ACK serial=1 failed=unresolvable-address done     ✗ lost
    "#]]);
    known.lives(1);
}

/// RFC 5061 §5.3 F3b: if a peer reports Set Primary as unknown, Set Primary is not requested from that peer again. §5.3
/// F3a: additions and deletions that the peer reports as unknown are not requested again.
#[test]
fn unsupported_set_primary_is_not_requested_again() {
    let mut known = Known::with(2);
    let (id, now) = (known.script.id(A), known.script.net.now);
    known.script.net.end(A).engine.set_peer_primary(now, id, at(2)).expect("dynamic");
    known.script.run(30);
    known.answer(0, &[Param::ErrorCauseIndication { id: 1, causes: NOT_KNOWN }]);
    known.script.run(2_000);
    known.script.check(expect![[r#"
        3.035  A.1 ──► B.1   AUTH key=0 hmac=sha1; ASCONF serial=1 from=10.0.1.1 primary=10.0.2.1
        3.060          B: primary is 10.0.2.1
        3.060  A.1 ◄── B.1   AUTH key=0 hmac=sha1; ASCONF ACK serial=1     ✗ lost
        3.065  A.1 ◄── B.1   AUTH key=0 hmac=sha1; ASCONF ACK serial=1 failed=unrecognized-params     injected
        3.090          A: 10.0.2.1: Refused(8)
    "#]]);
    let now = known.script.net.now;
    let asked = known.script.net.end(A).engine.set_peer_primary(now, id, at(1));
    assert_eq!(asked, Err(AddressError::NotDynamic));
    // The peer does not know the parameter Set Primary. Addresses can still be added and deleted.
    withhold(&mut known.script);
    known.script.run(30);
    known.answer(1, &[Param::ErrorCauseIndication { id: 2, causes: NOT_KNOWN }]);
    known.script.run(2_000);
    let drawn = known.script.net.ladder.take();
    assert_eq!(drawn.matches("ASCONF serial=2 ").count(), 1, "{drawn}");
    let (id, now) = (known.script.id(A), known.script.net.now);
    known.script.net.end(A).engine.use_address(now, id, at(2), true).expect("dynamic");
    withhold(&mut known.script);
    known.script.run(2_000);
    assert_eq!(known.script.net.ladder.take(), "");
}

/// RFC 5061 §5.3 F11: a deletion is requested again if it failed because of an earlier request in the same ASCONF. A
/// deletion that failed for another reason is not requested again.
#[test]
fn a_deletion_that_failed_behind_another_request_is_asked_for_again() {
    for behind in [true, false] {
        let mut known = Known::with(2);
        let id = known.script.id(A);
        let primary = |known: &mut Known, n: usize| {
            let now = known.script.net.now;
            known.script.net.end(A).engine.set_peer_primary(now, id, at(n)).expect("dynamic");
        };
        // Both requests of the second ASCONF are queued while the first ASCONF waits for its answer.
        primary(&mut known, 2);
        known.script.run(30);
        primary(&mut known, 1);
        withhold(&mut known.script);
        known.answer(0, &[]);
        known.script.run(30);
        known.script.forget();
        // The peer answers that the request with the number `id` failed (error cause 0xA4, no authorization, RFC 5061 §4.3.5).
        let failed = |id| Param::ErrorCauseIndication { id, causes: &[0, 0xa4, 0, 4] };
        let first = if behind { failed(2) } else { Param::SuccessIndication(2) };
        known.answer(1, &[first, failed(3)]);
        known.script.run(200);
        let drawn = known.script.net.ladder.take();
        assert_eq!(drawn.contains("ASCONF serial=3 from=10.0.1.1 delete=10.0.2.1"), behind, "{drawn}");
    }
}

/// RFC 5061 §5.1 A9, §5.1.1: a peer that reports ASCONF as an unknown chunk gets no more ASCONFs, and T4 does not run.
#[test]
fn a_peer_that_does_not_know_the_chunk() {
    let mut known = Known::with(2);
    let script = &mut known.script;
    withhold(script);
    script.run(30);
    let tag = script.tag(A);
    script.inject(B, tag, |b| {
        let mut chunk = Error::default().open(b);
        Cause::UnrecognizedChunk(&[0xc1, 0, 0, 4]).emit(&mut chunk);
        chunk.close();
    });
    script.run(100).forget();
    // RFC 9260 §11.2.6: the application is notified that the peer does not know the chunk.
    let is_peer_error = |event: &Event| matches!(event, Event::PeerError { code: 6, .. });
    assert!(script.net.ends[0].events.iter().any(is_peer_error));
    let (id, now) = (script.id(A), script.net.now);
    script.net.end(A).engine.use_address(now, id, at(2), true).expect("dynamic");
    withhold(script);
    script.run(20_000);
    assert_eq!(script.net.ladder.take(), "");
    assert_eq!(state(script, A), Some(AssociationState::Established));
}

/// RFC 5061 §5.3 F0: an answer to an ASCONF that was never sent ends the association. An answer to an earlier ASCONF is
/// ignored.
#[test]
fn an_answer_to_nothing() {
    let mut known = Known::with(2);
    known.answer(u32::MAX, &[]);
    assert_eq!(state(&known.script, A), Some(AssociationState::Established));
    known.script.forget();
    known.answer(0, &[]);
    let script = &mut known.script;
    let closed = script.net.ends[0]
        .events
        .iter()
        .any(|event| matches!(event, Event::Closed { reason: CloseReason::PeerViolated(_), .. }));
    let drawn = script.net.ladder.take();
    assert!(closed && drawn.contains("ABORT illegal-asconf-ack"), "{drawn}");
}

/// RFC 5061 §5.1.1 C4: in SHUTDOWN-ACK-SENT an ASCONF is not answered.
#[test]
fn nothing_is_asked_or_answered_at_the_end() {
    let mut known = Known::with(2);
    known.script.lose_times(B, "SHUTDOWN ACK", 9).shutdown(A).run(30);
    assert_eq!(state(&known.script, B), Some(AssociationState::ShutdownAckSent));
    known.script.net.rules.retain(|rule| rule.pattern != "ASCONF ACK");
    known.ask(1, &[Param::DeleteAddress { id: 1, address: at(2) }]);
    let drawn = known.script.net.ladder.take();
    assert!(!drawn.contains("ASCONF ACK") && !drawn.contains("gives"), "{drawn}");
}

/// RFC 5061 §4.2: an address request in an INIT is ignored.
#[test]
fn requests_in_an_init() {
    let mut script = Script::multi_homed(&[25, 25], ON);
    script.inject_between(A, 999, PORT, 0, |b| {
        let init = Init {
            tag: 7,
            window: 65_536,
            outbound_streams: 3,
            inbound_streams: 3,
            tsn: Tsn(1),
            ..Init::default()
        };
        let mut chunk = init.open(b);
        Param::AddAddress { id: 1, address: at(2) }.emit(&mut chunk);
        Param::DeleteAddress { id: 2, address: at(1) }.emit(&mut chunk);
        chunk.close();
    });
    script.run(100);
    let drawn = script.net.ladder.take();
    let answer = drawn.lines().find(|line| line.contains("B.1   INIT ACK")).expect("an answer");
    assert!(!answer.contains("unrecognized"), "{drawn}");
}
