//! The effect of ICMP's Protocol Unreachable on an association (RFC 9260 §10 ICMP8).

use crate::net::{self, A, B};
use crate::script::Script;
use anabranch_base::engine::{Icmp, IcmpKind};
use anabranch_sctp::{CloseReason, Event};
use anabranch_wire::sctp::{Init, packet};
use expect_test::expect;

/// Delivers to A an ICMP message that says that B's host does not support SCTP. The message quotes a packet from A.
fn protocol_unreachable(script: &mut Script) {
    let tag = script.net.ladder.numbers().latest_tag(B).expect("a tag");
    let (source, target) = script.ports(A);
    let mut quoted = Vec::new();
    packet::begin(&mut quoted, source, target, tag);
    let (source, target) = (net::address(A, 1).ip(), net::address(B, 1).ip());
    script.net.icmp(A, &Icmp { kind: IcmpKind::Unreachable(2), source, target }, &quoted[..8]);
    script.run(1);
}

fn closed(script: &mut Script) -> Option<CloseReason> {
    script.net.end(A).events.iter().find_map(|event| match event {
        Event::Closed { reason, .. } => Some(*reason),
        _ => None,
    })
}

/// RFC 9260 §10 ICMP8: with the settings of the RFC, Protocol Unreachable ends the association at once, as an ABORT
/// does.
#[test]
fn believed() {
    let mut script = Script::established(&[]);
    protocol_unreachable(&mut script);
    assert_eq!(closed(&mut script), Some(CloseReason::NotListening));
}

/// During a transfer, the raw socket of the peer's host is full for a moment. The host drops a packet and answers with
/// Protocol Unreachable. This packet is lost, but the association continues.
#[test]
fn doubted_while_the_peer_answers() {
    let mut script = Script::established(&[("icmp_doubt", "yes")]);
    script.lose(A, "DATA").send(A, 0, 100).run(10);
    protocol_unreachable(&mut script);
    script.run(1_500);
    // The first timeout alone does not confirm the ICMP message, so the association continues. The retransmission is
    // answered, so no second timeout follows.
    script.check(expect![[r#"
        1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=100 BE     ✗ lost
        2.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=100 BE
        2.025          B: received sid=0 len=100
        2.025  A ◄── B   SACK          cum=1 rwnd=64k
    "#]]);
    assert_eq!(closed(&mut script), None);
}

/// A host no longer supports SCTP. It sends Protocol Unreachable again for the retransmission after the second timeout,
/// which ends the association.
#[test]
fn protocol_unreachable_is_confirmed_by_timeouts() {
    let mut script = Script::established(&[("icmp_doubt", "yes")]);
    script.lose_times(A, "DATA", 10).send(A, 0, 100).run(10);
    protocol_unreachable(&mut script);
    script.run(1_200);
    protocol_unreachable(&mut script);
    assert_eq!(closed(&mut script), None);
    script.run(2_000);
    protocol_unreachable(&mut script);
    assert_eq!(closed(&mut script), Some(CloseReason::NotListening));
}

/// RFC 9260 §10: each code of both ICMP versions has the right effect, on an established association and during the
/// handshake.
#[test]
fn every_code() {
    for (network, v6) in [(1, false), (net::V6, true)] {
        for kind in
            (0..16).map(IcmpKind::Unreachable).chain([IcmpKind::UnknownNextHeader, IcmpKind::TooBig(1_280)])
        {
            for asking in [false, true] {
                let mut script = Script::in_network(network, &[]);
                script.associate().run(if asking { 1 } else { 1_000 });
                let (source_port, target_port) = script.ports(A);
                let tag = if asking { 0 } else { script.net.ladder.numbers().latest_tag(B).expect("a tag") };
                let mut quoted = Vec::new();
                let start = packet::begin(&mut quoted, source_port, target_port, tag);
                if asking {
                    quoted = script.under_way(A, Init::KIND);
                }
                let end = if asking { 20 } else { start + 8 };
                let (source, target) = (net::address(A, network).ip(), net::address(B, network).ip());
                script.net.icmp(A, &Icmp { kind, source, target }, &quoted[..end]);
                script.run(1);
                let protocol = match kind {
                    IcmpKind::UnknownNextHeader => v6,
                    kind => kind == IcmpKind::Unreachable(2) && !v6,
                };
                let expected = protocol.then_some(CloseReason::NotListening);
                assert_eq!(closed(&mut script), expected, "{kind:?} v6={v6} asking={asking}");
            }
        }
    }
}
