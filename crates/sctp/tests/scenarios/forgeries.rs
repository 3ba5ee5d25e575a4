//! Packets that an attacker forged: HEARTBEAT ACKs, SACKs, cookies, and chunks that end or restart an association (RFC
//! 9260 §5.1.5, §5.2.2, §5.4, §8.5, §12.2.4; RFC 5062).

use crate::net::{self, A, B, Flight, Net, PORT, Watch};
use crate::script::Script;
use anabranch_base::Engine;
use anabranch_base::time::Duration;
use anabranch_sctp::{AssociationState, PathState};
use anabranch_wire::ladder::Side;
use anabranch_wire::sctp::*;
use expect_test::expect;

/// Sends B a HEARTBEAT ACK as A, from A's address in network `n`.
fn answer(script: &mut Script, n: usize, info: &[u8]) {
    let (source, target) = script.ports(A);
    let mut bytes = Vec::new();
    let start = packet::begin(&mut bytes, source, target, script.tag(B));
    HeartbeatAck { info, rest: &[] }.emit(&mut bytes);
    packet::finish(&mut bytes, start);
    script.net.inject(A, n, bytes);
    script.run(5);
}

fn path(script: &mut Script, side: Side, n: usize) -> PathState {
    let id = script.id(side);
    let info = script.net.end(side).engine.info(id).expect("it lives");
    let peer = net::address(side.other(), n).ip();
    info.paths.iter().find(|path| path.address == peer).expect("the path").state
}

/// RFC 9260 §5.4, RFC 5062 §2.3: an address is confirmed when the random number that was sent to it comes back. A wrong
/// number, the number for another address, or a number of the wrong length does not confirm the address.
#[test]
fn forged_heartbeat_acks_are_ignored() {
    let mut script = Script::multi_homed(&[25, 40], &[]);
    script.lose_times(A, "HEARTBEAT ACK", 1).associate().run(80);
    let heartbeat = script.under_way(B, 4);
    let info = heartbeat[packet::HEADER + 8..].to_vec();
    script.run(100);
    script.forget();
    let mut other = info.clone();
    other[11] ^= 1;
    let mut elsewhere = info.clone();
    elsewhere[3] ^= 1;
    let forgeries =
        [&other[..], &elsewhere, &[0; 20], &[0; 24], &info[..19], &[&info[..], &[0]].concat(), &[]];
    for forgery in forgeries {
        answer(&mut script, 2, forgery);
        script.run(30);
        assert_eq!(path(&mut script, B, 2), PathState::Unconfirmed, "{forgery:?}");
    }
    // The right random number confirms the address, whatever the source address of the HEARTBEAT ACK is.
    answer(&mut script, 1, &info);
    script.run(30);
    script.check(expect![[r#"
        0.180  A.2 ──► B.2   HEARTBEAT ACK     injected
        0.215  A.2 ──► B.2   HEARTBEAT ACK     injected
        0.250  A.2 ──► B.2   HEARTBEAT ACK     injected
        0.285  A.2 ──► B.2   HEARTBEAT ACK     injected
        0.320  A.2 ──► B.2   HEARTBEAT ACK     injected
        0.355  A.2 ──► B.2   HEARTBEAT ACK     injected
        0.390  A.2 ──► B.2   HEARTBEAT ACK     injected
        0.425  A.1 ──► B.1   HEARTBEAT ACK     injected
        0.450          B: path to 10.0.2.1 is up
    "#]]);
    assert_eq!(path(&mut script, B, 2), PathState::Active);
}

/// RFC 9260 §8.3, §8.2: while an address does not answer, the peer repeats an old HEARTBEAT ACK. The address must
/// become inactive nevertheless.
#[test]
fn an_old_heartbeat_answer() {
    let mut script = Script::multi_homed(&[25, 40], &[("hb_interval", "1s"), ("path_max_retrans", "1")]);
    script.associate().run(80);
    let info = script.under_way(B, 4)[packet::HEADER + 8..].to_vec();
    script.run(2_000).kill(2);
    for _ in 0..40 {
        answer(&mut script, 1, &info);
        script.run(500);
    }
    assert_eq!(path(&mut script, B, 2), PathState::Inactive);
    script.forget();
}

/// RFC 9260 §5.1.5, §12.2.4: a cookie is valid only if it is unchanged, and only for the ports and the tag for which it
/// was made. Any other cookie is silently discarded and leaves no state.
#[test]
fn forged_cookies_are_rejected() {
    let mut script = Script::new(&[]);
    let init = Init {
        tag: 5,
        window: 9_000,
        outbound_streams: 1,
        inbound_streams: 1,
        tsn: Tsn(1),
        ..Init::default()
    };
    script.inject_between(A, 999, PORT, 0, |b| init.emit(b)).run(30);
    let bytes = script.under_way(B, 2);
    let view = PacketView::parse(&bytes).expect("a good packet");
    let Some(Ok(Chunk::InitAck(ack))) = view.chunks().next() else { panic!("an INIT ACK") };
    let params = tlv::Tlvs::new(ack.0.params.rest()).flatten().flat_map(Param::parse);
    let cookie = params
        .filter_map(|param| match param {
            Param::StateCookie(cookie) => Some(cookie.to_vec()),
            _ => None,
        })
        .next()
        .expect("a cookie");
    let right = ack.0.tag;
    script.run(100);
    script.forget();
    let echo = |script: &mut Script, port: u16, tag: u32, cookie: &[u8]| {
        script.inject_between(A, port, PORT, tag, |b| CookieEcho { cookie }.emit(b)).run(50);
    };
    // These cookies are forged: bits are changed, or the cookie is shorter, longer or empty.
    for at in (0..cookie.len()).step_by(7) {
        let mut forged = cookie.clone();
        forged[at] ^= 0x10;
        echo(&mut script, 999, right, &forged);
    }
    echo(&mut script, 999, right, &cookie[..cookie.len() - 1]);
    echo(&mut script, 999, right, &[&cookie[..], &[0]].concat());
    echo(&mut script, 999, right, &[]);
    script.forget();
    // The valid cookie arrives from another source port, and then with a wrong verification tag.
    echo(&mut script, 998, right, &cookie);
    echo(&mut script, 999, 0xdead, &cookie);
    assert!(script.net.end(B).events.is_empty() && script.net.end(B).engine.poll_timeout().is_none());
    // The valid cookie arrives unchanged, then once more, and then again after its association has ended.
    echo(&mut script, 999, right, &cookie);
    echo(&mut script, 999, right, &cookie);
    script.inject_between(A, 999, PORT, right, |b| Abort::default().emit(b)).run(50);
    echo(&mut script, 999, right, &cookie);
    script.check(expect![[r#"
        0.630  A ──► B   COOKIE ECHO     injected
        0.680  A ──► B   COOKIE ECHO   vtag=0000dead     injected
        0.730  A ──► B   COOKIE ECHO     injected
        0.755          B: accepted, 1 streams out, 1 in
        0.755  A ◄── B   COOKIE ACK
        0.780  A ──► B   COOKIE ECHO     injected
        0.805  A ◄── B   COOKIE ACK
        0.830  A ──► B   ABORT     injected
        0.855          B: closed: Aborted(None)
        0.880  A ──► B   COOKIE ECHO     injected
        0.905  A ◄── B   ABORT
    "#]]);
}

/// RFC 9260 §8.5.1: a chunk that ends or restarts an association needs a tag that only the two hosts know. This holds
/// with the T bit and without it.
#[test]
fn closing_chunks_need_a_valid_tag() {
    let mut script = Script::warm(&[]);
    let (a, b) = (script.tag(A), script.tag(B));
    let next = script.net.ladder.numbers().first(A).expect("a TSN").wrapping_add(1);
    for wrong in [0, 1, a ^ 1, b ^ 1, u32::MAX] {
        script.inject(A, wrong, |b| Abort { reflected: true, ..Abort::default() }.emit(b));
        script.inject(A, wrong, |b| Abort::default().emit(b));
        script.inject(A, wrong, |b| ShutdownComplete { reflected: true }.emit(b));
        script.inject(A, wrong, |b| ShutdownAck.emit(b));
        script.inject(A, wrong, |b| CookieAck.emit(b));
        script.inject(A, wrong, |b| {
            Data { tsn: Tsn(next), begin: true, end: true, payload: b"blind", ..Data::default() }.emit(b);
        });
        script.inject(A, wrong, |b| {
            Sack { cumulative: Tsn(next), window: 0, gaps: &[], duplicates: &[] }.emit(b);
        });
    }
    script.run(1_000);
    script.forget();
    script.net.draws_ladder = false;
    script.send(A, 0, 100).send(B, 0, 100).run(1_000);
    for side in [A, B] {
        let id = script.id(side);
        let info = script.net.end(side).engine.info(id).expect("it lives");
        assert_eq!(info.state, AssociationState::Established);
        assert_eq!(script.app(side).messages, 2, "{side:?}");
    }
}

/// RFC 9260 §5.2.2, §12.2.4.1: a third host sends an INIT that lists A's address as its own. The host can neither join
/// nor end the association of A and B, although the INIT comes from A's port.
#[test]
fn a_restart_from_elsewhere() {
    let mut script = Script::multi_homed(&[25, 40], &[]);
    // Leave A only its address in network 1. The address 10.0.2.1 belongs to another host.
    let (now, second) = (script.net.now, net::address(A, 2).ip());
    script.net.end(A).engine.remove_address(now, second);
    script.associate().run(2_000);
    script.send(A, 0, 8).run(1_000);
    script.forget();
    let (source, target) = script.ports(A);
    let mut bytes = Vec::new();
    let start = packet::begin(&mut bytes, source, target, 0);
    let init = Init {
        tag: 5,
        window: 9_000,
        outbound_streams: 1,
        inbound_streams: 1,
        tsn: Tsn(1),
        ..Init::default()
    };
    let mut chunk = init.open(&mut bytes);
    Param::Ipv4([10, 0, 1, 1].into()).emit(&mut chunk);
    chunk.close();
    packet::finish(&mut bytes, start);
    script.net.inject(A, 2, bytes);
    script.run(100);
    script.check(expect![[r#"
        3.000  A.2 ──► B.2   INIT          tag=A2 rwnd=9000 os=1 is=1 tsn=1 ip=10.0.1.1     injected
        3.040  A.2 ◄── B.2   ABORT restart-with-new-addresses
    "#]]);
    script.net.draws_ladder = false;
    script.send(A, 0, 100).send(B, 0, 100).run(1_000);
    assert_eq!((script.app(A).messages, script.app(B).messages), (1, 2));
}

/// An observer that remembers the highest TSN that A has sent.
#[derive(Default)]
struct Highest(Option<Tsn>);

impl Watch for Highest {
    fn sent(&mut self, _: &Net, from: Side, flight: &Flight) {
        let view = PacketView::parse(&flight.bytes).expect("a good packet");
        for chunk in view.chunks().flatten() {
            if let (Side::Left, Chunk::Data(data)) = (from, chunk)
                && self.0.is_none_or(|highest| data.tsn.after(highest))
            {
                self.0 = Some(data.tsn);
            }
        }
    }

    fn arrives(&mut self, _: &Net, _: Side, _: &Flight) {}

    fn settled(&mut self, _: &Net) {}
}

fn cwnd(script: &mut Script) -> u64 {
    let id = script.id(A);
    script.net.end(A).engine.info(id).expect("it lives").paths[0].cwnd
}

/// The peer of A acknowledges each TSN as soon as A has sent it, although no DATA has arrived. Only the peer itself is
/// harmed, because it loses data. RFC 9260 §7.2.1: each SACK grows the congestion window by at most one packet. If the
/// peer splits an acknowledgement into more SACKs, each SACK adds less (for the reason see RFC 3465).
#[test]
fn optimistic_sacks() {
    let mut script = Script::warm(&[("sndbuf", "1MiB")]);
    for _ in 0..100 {
        script.send(A, 0, 1_000);
    }
    let to_a = script.tag(A);
    let mut highest = Highest::default();
    let mut lost = |_, side: Side, flight: &Flight| match side {
        A => Vec::new(),
        _ => vec![(Duration::ZERO, flight.clone())],
    };
    let mut acknowledged = script.net.ladder.numbers().first(A).map(Tsn).expect("a TSN");
    let mut sacks = 0;
    for _ in 0..200 {
        let until = script.net.now + Duration::from_millis(1);
        script.net.run_until(until, &mut lost, Some(&mut highest));
        let Some(sent) = highest.0.filter(|sent| sent.after(acknowledged)) else { break };
        // The peer sends a SACK for each TSN, all at once.
        while sent.after(acknowledged) {
            acknowledged = acknowledged.next();
            let before = cwnd(&mut script);
            let sack = Sack { cumulative: acknowledged, window: 1 << 20, gaps: &[], duplicates: &[] };
            script.inject(B, to_a, |b| sack.emit(b));
            let until = script.net.now + Duration::from_millis(25);
            script.net.run_until(until, &mut lost, Some(&mut highest));
            let grown = cwnd(&mut script) - before;
            assert!(grown <= 1_016, "{grown} bytes more for a chunk of 1016");
            sacks += 1;
        }
    }
    assert_eq!(sacks, 100, "all is acknowledged");
    let id = script.id(A);
    let info = script.net.end(A).engine.info(id).expect("it lives");
    assert_eq!((info.state, info.buffered), (AssociationState::Established, 0));
    script.forget();
}

/// RFC 9260 §6.2.1, §12.4: a forged SACK has impossible gap blocks: beyond the sent TSNs, overlapping, reversed, or out
/// of order. The receiver of the SACK does not free data that has not arrived, and the association does not stall.
#[test]
fn impossible_gap_blocks() {
    let block = |start, end| GapBlock { start, end };
    let lists = [
        vec![block(5, 9)],
        vec![block(1, u16::MAX)],
        vec![block(3, 2)],
        vec![block(0, 0)],
        vec![block(2, 3), block(2, 3), block(1, 4)],
        vec![block(u16::MAX, u16::MAX); 200],
    ];
    for gaps in lists {
        let mut script = Script::warm(&[]);
        let first = script.net.ladder.numbers().first(A).map(Tsn).expect("a TSN");
        script.lose_times(A, "DATA", 2).send(A, 0, 100).send(A, 0, 100).run(1);
        let sack = Sack { cumulative: first, window: 9_000, gaps: &gaps, duplicates: &[] };
        let to_a = script.tag(A);
        script.inject(B, to_a, |b| sack.emit(b)).run(30_000);
        let id = script.id(A);
        let state = script.net.end(A).engine.info(id).map(|info| info.state);
        // If the association still exists, all data must have arrived.
        if state == Some(AssociationState::Established) {
            assert_eq!(script.app(B).messages, 3, "{gaps:?}");
        } else {
            assert!(script.net.ladder.text().contains("protocol-violation"), "{gaps:?}");
        }
        script.forget();
    }
}
