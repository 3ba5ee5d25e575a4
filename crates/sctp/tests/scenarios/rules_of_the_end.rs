//! Rules of RFC 9260 §8.4, §9 and §10 that no other scenario checks (`conformance/rules/rfc9260-9.toml`,
//! `rfc9260-10.toml`).

use crate::net::{self, A, B};
use crate::script::{Script, configured};
use anabranch_base::engine::{Icmp, IcmpKind};
use anabranch_sctp::{AssociationState, CloseReason, Event, Message, SendError};
use anabranch_wire::ladder::Side;
use anabranch_wire::sctp::*;
use expect_test::expect;

fn state(script: &Script, side: Side) -> Option<AssociationState> {
    script.net.ends[side as usize].engine.info(script.id(side)).map(|info| info.state)
}

fn closed(script: &Script, side: Side) -> Option<CloseReason> {
    script.net.ends[side as usize].events.iter().find_map(|event| match event {
        Event::Closed { reason, .. } => Some(*reason),
        _ => None,
    })
}

/// Sends `side` a packet with the tag that `side` has chosen. The sender need not have an association.
fn to(script: &mut Script, side: Side, write: impl FnOnce(&mut Vec<u8>)) {
    let (tag, (source, target)) = (script.tag(side), script.ports(side));
    script.inject_between(side.other(), target, source, tag, write).run(60);
}

/// RFC 9260 §8.4: an association exists between two ports. A packet with the association's tag, but with other ports,
/// belongs to no association.
#[test]
fn another_port_is_another_association() {
    for (other_source, other_target) in [(1, 0), (0, 1)] {
        let mut script = Script::warm(&[]);
        let (tag, (source, target)) = (script.tag(B), script.ports(A));
        let data = Data { tsn: Tsn(9), begin: true, end: true, payload: b"lost soul", ..Data::default() };
        script
            .inject_between(A, source + other_source, target + other_target, tag, |b| data.emit(b))
            .run(100);
        let drawn = script.net.ladder.take();
        assert!(drawn.lines().any(|line| line.contains("A ◄── B   ABORT T")), "{drawn}");
        assert_eq!([A, B].map(|side| state(&script, side)), [Some(AssociationState::Established); 2]);
        script.inject_between(A, source + other_source, target + other_target, tag, |b| {
            Abort::default().emit(b);
        });
        script.run(100);
        assert_eq!(script.net.ladder.take().lines().count(), 1, "an ABORT is not answered (§8.4 2)");
        assert_eq!(state(&script, B), Some(AssociationState::Established));
    }
}

/// RFC 9260 §9.1, §11.1.4, §11.2.5: the application's reason is sent with the ABORT, and is reported to the other
/// application.
#[test]
fn the_reason_of_an_abort_is_told() {
    let mut script = Script::established(&[]);
    let (id, now) = (script.id(A), script.net.now);
    script.net.end(A).engine.abort_with_reason(now, id, b"enough");
    script.run(100);
    assert_eq!(closed(&script, B), Some(CloseReason::Aborted(Some(12))));
    let reason = script.net.ends[1].events.iter().find_map(|event| match event {
        Event::AbortReason { reason, .. } => Some(reason.clone()),
        _ => None,
    });
    assert_eq!(reason.as_deref(), Some(&b"enough"[..]));
    script.forget();
    // A long reason is shortened so that it fits into a packet.
    let mut script = Script::established(&[]);
    let (id, now) = (script.id(A), script.net.now);
    script.net.end(A).engine.abort_with_reason(now, id, &[b'x'; 9_000]);
    script.run(100);
    let reason = script.net.ends[1]
        .events
        .iter()
        .any(|event| matches!(event, Event::AbortReason { reason, .. } if reason.len() == 512));
    assert!(reason);
    script.forget();
}

/// RFC 9260 §9.2: a retransmitted SHUTDOWN acknowledges the data that has arrived since the first SHUTDOWN.
#[test]
fn a_retransmitted_shutdown_acknowledges_new_data() {
    let mut script = Script::established(&[]);
    script.lose_times(A, "SHUTDOWN", 2).shutdown(A).run(100);
    script.send(B, 0, 100).run(3_000);
    script.check(expect![[r#"
        1.000  A ──► B   SHUTDOWN      cum=0     ✗ lost
        1.100  A ◄── B   DATA          tsn=1 sid=0 ssn=0 len=100 BE
        1.125          A: received sid=0 len=100
        1.125  A ──► B   SHUTDOWN      cum=1     ✗ lost
        2.100  A ◄── B   DATA          tsn=1 sid=0 ssn=0 len=100 BE
        2.125  A ──► B   SACK          cum=1 rwnd=64k dups=1; SHUTDOWN cum=1
        2.150          B: peer wants to shut down
        2.150  A ◄── B   SHUTDOWN ACK
        2.175          A: closed: Shutdown
        2.175  A ──► B   SHUTDOWN COMPLETE
        2.200          B: closed: Shutdown
    "#]]);
}

/// RFC 9260 §9.2: in SHUTDOWN-RECEIVED, a shutdown request of the application has no effect. A repeated SHUTDOWN of the
/// peer has no effect either, until all data is acknowledged.
#[test]
fn a_shutdown_request_in_shutdown_received_is_ignored() {
    let mut script = Script::established(&[]);
    script.lose(B, "DATA").send(B, 0, 100).run(10).shutdown(A).run(100);
    assert_eq!(state(&script, B), Some(AssociationState::ShutdownReceived));
    script.shutdown(B).run(10);
    assert_eq!(state(&script, B), Some(AssociationState::ShutdownReceived));
    // A repeats its SHUTDOWN before B's data is acknowledged. The repeated SHUTDOWN acknowledges nothing new.
    script.run(5_000);
    script.check(expect![[r#"
        1.000  A ◄── B   DATA          tsn=1 sid=0 ssn=0 len=100 BE     ✗ lost
        1.010  A ──► B   SHUTDOWN      cum=0
        1.035          B: peer wants to shut down
        2.000  A ◄── B   DATA          tsn=1 sid=0 ssn=0 len=100 BE
        2.010  A ──► B   SHUTDOWN      cum=0
        2.025          A: received sid=0 len=100
        2.025  A ──► B   SHUTDOWN      cum=1
        2.050  A ◄── B   SHUTDOWN ACK
        2.075          A: closed: Shutdown
        2.075  A ──► B   SHUTDOWN COMPLETE
        2.100          B: closed: Shutdown
    "#]]);
}

/// RFC 9260 §9.2: in the four shutdown states no message is accepted from the application.
#[test]
fn no_message_is_taken_while_shutting_down() {
    for (side, lost, expected) in [
        (A, "", AssociationState::ShutdownPending),
        (A, "SHUTDOWN", AssociationState::ShutdownSent),
        (B, "DATA", AssociationState::ShutdownReceived),
        (B, "SHUTDOWN ACK", AssociationState::ShutdownAckSent),
    ] {
        let mut script = Script::established(&[]);
        match expected {
            AssociationState::ShutdownPending => script.lose(A, "DATA").send(A, 0, 100).run(1),
            AssociationState::ShutdownReceived => script.lose(B, "DATA").send(B, 0, 100).run(1),
            _ => script.lose(side, lost),
        };
        script.shutdown(A).run(60);
        assert_eq!(state(&script, side), Some(expected));
        let (id, now) = (script.id(side), script.net.now);
        let sent = script.net.end(side).engine.send(now, id, Message::default(), b"too late");
        assert_eq!(sent, Err(SendError::Closing), "{expected:?}");
        script.run(9_000);
        assert_eq!([A, B].map(|side| closed(&script, side)), [Some(CloseReason::Shutdown); 2]);
        script.forget();
    }
}

/// RFC 9260 §9.2: an unanswered SHUTDOWN ACK is retransmitted Association.Max.Retrans times. After that, the peer is
/// considered unreachable.
#[test]
fn a_shutdown_ack_is_not_repeated_for_ever() {
    let mut script = Script::established(&[("assoc_max_retrans", "2"), ("path_max_retrans", "2")]);
    script.shutdown(A).run(30);
    script.kill(1).run(20_000);
    assert_eq!(closed(&script, B), Some(CloseReason::Unreachable));
    let drawn = script.net.ladder.take();
    assert_eq!(drawn.lines().filter(|line| line.contains("SHUTDOWN ACK")).count(), 3, "{drawn}");
}

/// RFC 9260 §9.2: a SHUTDOWN COMPLETE is ignored except in SHUTDOWN-ACK-SENT.
#[test]
fn a_shutdown_complete_in_any_other_state() {
    // The six states are COOKIE-WAIT, COOKIE-ECHOED, ESTABLISHED, SHUTDOWN-PENDING, SHUTDOWN-SENT and
    // SHUTDOWN-RECEIVED.
    for n in 0..6 {
        let mut script = if n < 2 { Script::new(&[]) } else { Script::established(&[]) };
        let side = if n == 5 { B } else { A };
        match n {
            0 => script.lose(A, "INIT").associate().run(10),
            1 => script.lose(A, "COOKIE ECHO").associate().run(60),
            2 => &mut script,
            3 => script.lose(A, "DATA").send(A, 0, 100).run(1).shutdown(A).run(1),
            4 => script.lose(A, "SHUTDOWN").shutdown(A).run(1),
            _ => script.lose(B, "DATA").send(B, 0, 100).run(1).shutdown(A).run(60),
        };
        let before = state(&script, side).expect("an association");
        to(&mut script, side, |b| ShutdownComplete::default().emit(b));
        assert_eq!(state(&script, side), Some(before), "case {n}");
        script.forget();
    }
}

/// RFC 9260 §9.2: a SHUTDOWN that arrives before the association is established is not answered. A SHUTDOWN ACK is
/// answered by a SHUTDOWN COMPLETE with the tag of the SHUTDOWN ACK, and the handshake continues.
#[test]
fn shutdowns_before_it_is_up() {
    for (lost, ms) in [("INIT", 10), ("COOKIE ECHO", 60)] {
        let mut script = Script::new(&[]);
        script.lose(A, lost).associate().run(ms);
        let before = state(&script, A);
        script.forget();
        to(&mut script, A, |b| Shutdown { cumulative: Tsn(0) }.emit(b));
        assert_eq!(script.net.ladder.take().lines().count(), 1, "{lost}");
        to(&mut script, A, |b| ShutdownAck.emit(b));
        let drawn = script.net.ladder.take();
        let answers: Vec<_> = drawn.lines().filter(|line| line.contains("A ──► B")).collect();
        assert!(answers.len() == 1 && answers[0].contains("SHUTDOWN COMPLETE T"), "{drawn}");
        assert_eq!(state(&script, A), before);
        script.run(2_000);
        assert_eq!(state(&script, A), Some(AssociationState::Established));
        script.forget();
    }
}

/// Delivers to A an ICMP message of this kind. The message quotes a packet from A to B with these ports and this tag.
/// `rest` follows the quoted common header.
fn report(script: &mut Script, kind: IcmpKind, ports: (u16, u16), tag: u32, rest: &[u8]) {
    let mut quoted = Vec::new();
    packet::begin(&mut quoted, ports.0, ports.1, tag);
    quoted.extend_from_slice(rest);
    let (source, target) = (net::address(A, 1).ip(), net::address(B, 1).ip());
    script.net.icmp(A, &Icmp { kind, source, target }, &quoted);
    script.run(1);
}

/// RFC 9260 §10 ICMP5, ICMP6, ICMP8: an ICMP message counts only if it quotes a packet that this side sent. The ports
/// must match, and the tag must be the peer's. If the quoted packet is an INIT, its Initiate Tag must be this side's
/// own tag.
#[test]
fn icmp_messages_without_a_matching_quote_are_ignored() {
    let protocol = IcmpKind::Unreachable(2);
    let mut script = Script::warm(&[]);
    let (to_a, to_b, ports) = (script.tag(A), script.tag(B), script.ports(A));
    let init = |tag: u32| [&[1, 0, 0, 20][..], &tag.to_be_bytes(), &[0; 12]].concat();
    for (ports, tag, rest) in [
        (ports, to_b ^ 1, vec![]),
        (ports, to_a, vec![]),
        (ports, 0, vec![]),
        (ports, 0, init(to_a)),
        (ports, 0, init(to_b)),
        ((ports.0 + 1, ports.1), to_b, vec![]),
        ((ports.1, ports.0), to_b, vec![]),
    ] {
        report(&mut script, protocol, ports, tag, &rest);
        assert_eq!(closed(&script, A), None, "{ports:?} {tag:08x} {rest:?}");
    }
    // The ICMP message quotes too few bytes to contain a verification tag.
    let (source, target) = (net::address(A, 1).ip(), net::address(B, 1).ip());
    script.net.icmp(A, &Icmp { kind: protocol, source, target }, &[0; 7]);
    report(&mut script, protocol, ports, to_b, &[]);
    assert_eq!(closed(&script, A), Some(CloseReason::NotListening));
    script.forget();
    // The association is in COOKIE-WAIT.
    let mut script = Script::new(&[]);
    script.lose(A, "INIT").associate().run(10);
    let (tag, ports) = (script.tag(A), script.ports(A));
    for rest in [init(tag ^ 1), init(tag)[..7].to_vec(), [&[2], &init(tag)[1..]].concat(), vec![]] {
        report(&mut script, protocol, ports, 0, &rest);
        assert_eq!(closed(&script, A), None, "{rest:?}");
    }
    report(&mut script, protocol, ports, 0, &init(tag));
    assert_eq!(closed(&script, A), Some(CloseReason::NotListening));
    script.forget();
}

/// RFC 9260 §10 ICMP7: Packet Too Big reduces the path MTU if the quotation has the right tag.
#[test]
fn a_packet_too_big_makes_packets_smaller() {
    let mut script = Script::with(configured(&[]), configured(&[]), &[25]);
    script.associate().run(1_000);
    let (tag, ports) = (script.tag(B), script.ports(A));
    let mtu = |script: &Script| script.net.ends[0].engine.info(script.id(A)).expect("up").paths[0].mtu;
    let before = mtu(&script);
    report(&mut script, IcmpKind::TooBig(1_280), ports, tag ^ 1, &[]);
    assert_eq!(mtu(&script), before);
    report(&mut script, IcmpKind::TooBig(1_280), ports, tag, &[]);
    assert_eq!(mtu(&script), 1_280);
    script.forget();
}
