//! Rules of RFC 9260 §5 that no other scenario checks (`conformance/rules/rfc9260-5.toml`).

use crate::net::{self, A, B, PORT};
use crate::script::{Script, configured};
use anabranch_base::{Ecn, Engine, Instant, Packet, Rng};
use anabranch_sctp::testing::transmit_all_bytes;
use anabranch_sctp::{Associate, AssociationState, Endpoint, PathState};
use anabranch_wire::ladder::Side;
use anabranch_wire::sctp::param::AddressTypes;
use anabranch_wire::sctp::*;
use expect_test::expect;
use std::net::{IpAddr, SocketAddr};

fn init() -> Init<'static> {
    Init {
        tag: 0x0102_0304,
        window: 60_000,
        outbound_streams: 3,
        inbound_streams: 4,
        tsn: Tsn(7),
        ..Init::default()
    }
}

/// Sends an INIT from A to B from `port`, with the parameters that `write` appends.
fn ask(script: &mut Script, port: u16, write: impl FnOnce(&mut tlv::ChunkWriter<'_>)) {
    script.inject_between(A, port, PORT, 0, |b| {
        let init = init();
        let mut chunk = init.open(b);
        write(&mut chunk);
        chunk.close();
    });
    script.run(30);
}

/// Returns the packets that are in flight to a side.
fn under_way(script: &Script, to: Side) -> Vec<Vec<u8>> {
    let there = |target: SocketAddr| (1..=3).any(|n| net::address(to, n) == target);
    script
        .net
        .in_flight
        .values()
        .filter(|flight| there(flight.target))
        .map(|flight| flight.bytes.clone())
        .collect()
}

/// Takes the INIT ACK to A out of the network, and returns its header, its fields and its State Cookie. A must not
/// receive this INIT ACK, because A sent no INIT.
fn answer(script: &mut Script) -> (Header, InitFields, Vec<u8>) {
    let packet = under_way(script, A).pop().expect("an answer");
    script.net.in_flight.clear();
    let view = PacketView::parse(&packet).expect("a packet");
    let Some(Ok(Chunk::InitAck(ack))) = view.chunks().next() else { panic!("an INIT ACK") };
    let cookie = ack.0.params.flatten().find_map(|param| match param {
        Param::StateCookie(cookie) => Some(cookie.to_vec()),
        _ => None,
    });
    let fields =
        InitFields { tag: ack.0.tag, outbound: ack.0.outbound_streams, inbound: ack.0.inbound_streams };
    (view.header, fields, cookie.expect("a State Cookie"))
}

struct InitFields {
    tag: u32,
    outbound: u16,
    inbound: u16,
}

/// RFC 9260 §5.1: when the timer of an INIT or COOKIE ECHO expires, the chunk is sent to the next address, with the RTO
/// of that address. §5.4: the COOKIE ACK is sent to the source address of the COOKIE ECHO. If this address is not
/// confirmed, a HEARTBEAT is bundled with the COOKIE ACK.
#[test]
fn init_and_cookie_echo_try_every_address() {
    let mut script = Script::multi_homed(&[25, 25], &[]);
    script.lose(A, "INIT tag").lose(A, "COOKIE ECHO");
    script.net.associate(A, 2);
    script.run(4_000);
    script.check(expect![[r#"
        0.000  A.1 ──► B.1   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 ip=10.0.1.1 ip=10.0.2.1 families=v4     ✗ lost
        1.000  A.2 ──► B.2   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 ip=10.0.1.1 ip=10.0.2.1 families=v4
        1.025  A.2 ◄── B.2   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie ip=10.0.1.2 ip=10.0.2.2
        1.050  A.2 ──► B.2   COOKIE ECHO     ✗ lost
        2.050  A.1 ──► B.1   COOKIE ECHO
        2.075          B: accepted, 10 streams out, 10 in
        2.075  A.1 ◄── B.1   COOKIE ACK; HEARTBEAT
        2.100          A: established, 10 streams out, 10 in
        2.100  A.1 ──► B.1   HEARTBEAT ACK
        2.125          B: path to 10.0.1.1 is up
    "#]]);
}

/// RFC 9260 §5.1.2: addresses of an IP version that this side does not have are silently ignored. The peer supports the
/// IP version over which its INIT arrived, even if the INIT does not list this version.
#[test]
fn addresses_of_a_family_that_is_not_ours() {
    let mut script = Script::new(&[]);
    ask(&mut script, 5_000, |chunk| {
        Param::from(IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, 1])).emit(chunk);
        Param::from(net::address(A, 1).ip()).emit(chunk);
        Param::SupportedAddresses(AddressTypes::V6).emit(chunk);
    });
    let (_, ack, cookie) = answer(&mut script);
    script.inject_between(A, 5_000, PORT, ack.tag, |b| CookieEcho { cookie: &cookie }.emit(b)).run(30);
    let chunks = under_way(&script, A);
    let view = PacketView::parse(&chunks[0]).expect("a packet");
    assert!(matches!(view.chunks().next(), Some(Ok(Chunk::CookieAck(_)))) && view.chunks().count() == 1);
    let info = script.net.ends[1].engine.info(script.id(B)).expect("an association");
    let addresses: Vec<_> = info.paths.iter().map(|path| path.address).collect();
    assert_eq!(addresses, [net::address(A, 1).ip()]);
    script.net.in_flight.clear();
    script.forget();
}

/// RFC 9260 §5.2.1: an endpoint in COOKIE-WAIT receives an INIT. The endpoint answers only if the INIT comes from an
/// address to which it has sent its own INIT.
#[test]
fn an_init_from_a_stranger_while_asking() {
    let mut script = Script::multi_homed(&[25, 25], &[]);
    script.lose_times(A, "INIT tag", 9).associate().run(100);
    let (port, _) = script.ports(A);
    let mut bytes = Vec::new();
    let start = packet::begin(&mut bytes, PORT, port, 0);
    let (init, listed) = (init(), net::address(B, 1).ip());
    let mut chunk = init.open(&mut bytes);
    Param::from(listed).emit(&mut chunk);
    chunk.close();
    packet::finish(&mut bytes, start);
    script.net.inject(B, 2, bytes);
    script.run(500);
    script.check_drawn(expect![[r#"
        0.000  A.1 ──► B.1   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 ip=10.0.1.1 ip=10.0.2.1 families=v4     ✗ lost
        0.100  A.2 ◄── B.2   INIT          tag=B1 rwnd=60000 os=3 is=4 tsn=1 ip=10.0.1.2     injected
    "#]]);
}

/// RFC 9260 §5.2.1: an endpoint in COOKIE-WAIT answers an INIT, and T1-init continues to run.
#[test]
fn t1_init_goes_on() {
    let mut script = Script::new(&[]);
    script.lose_times(A, "INIT tag", 2).lose_times(A, "INIT ACK", 9).associate().run(500);
    let (port, _) = script.ports(A);
    script.inject_between(B, PORT, port, 0, |b| init().open(b).close()).run(3_000);
    script.check_drawn(expect![[r#"
        0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4     ✗ lost
        0.500  A ◄── B   INIT          tag=B1 rwnd=60000 os=3 is=4 tsn=1     injected
        0.525  A ──► B   INIT ACK      tag=A1 rwnd=64k os=10 is=10 tsn=1 …cookie     ✗ lost
        1.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4     ✗ lost
        3.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
        3.025  A ◄── B   INIT ACK      tag=B2 rwnd=64k os=10 is=10 tsn=1 …cookie
        3.050  A ──► B   COOKIE ECHO
        3.075          B: accepted, 10 streams out, 10 in
        3.075  A ◄── B   COOKIE ACK
        3.100          A: established, 10 streams out, 10 in
    "#]]);
}

/// RFC 9260 §5.2.1: in COOKIE-ECHOED, an INIT with an additional address is refused, and the refusal names the address.
/// The association does not change.
#[test]
fn a_new_address_while_the_cookie_is_out() {
    let mut script = Script::new(&[]);
    script.lose(A, "COOKIE ECHO").associate().run(100);
    let stranger = IpAddr::from([10, 0, 7, 7]);
    let ((port, _), init) = (script.ports(A), init());
    script.inject_between(B, PORT, port, 0, |b| {
        let mut chunk = init.open(b);
        Param::from(stranger).emit(&mut chunk);
        Param::from(net::address(B, 1).ip()).emit(&mut chunk);
        chunk.close();
    });
    script.run(30);
    let refusal = under_way(&script, B).pop().expect("an answer");
    let view = PacketView::parse(&refusal).expect("a packet");
    let Some(Ok(Chunk::Abort(abort))) = view.chunks().next() else { panic!("an ABORT") };
    assert_eq!((view.header.tag, abort.reflected), (init.tag, false));
    let cause = abort.causes.flatten().next();
    let named = [0, 5, 0, 8, 10, 0, 7, 7];
    assert!(matches!(cause, Some(Cause::RestartWithNewAddresses(list)) if list == named), "{cause:?}");
    script.run(2_000);
    script.check(expect![[r#"
        0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
        0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
        0.050  A ──► B   COOKIE ECHO     ✗ lost
        0.100  A ◄── B   INIT          tag=B2 rwnd=60000 os=3 is=4 tsn=1 ip=10.0.7.7 ip=10.0.1.2     injected
        0.125  A ──► B   ABORT restart-with-new-addresses
        1.050  A ──► B   COOKIE ECHO   vtag=B1
        1.075          B: accepted, 10 streams out, 10 in
        1.075  A ◄── B   COOKIE ACK
        1.100          A: established, 10 streams out, 10 in
    "#]]);
}

/// RFC 9260 §5.2.2: the INIT ACK for a restart has the INIT's Initiate Tag as its Verification Tag, a new Initiate Tag,
/// and a cookie. It offers as many streams as the association has, but no more than the INIT accepts. The existing
/// association does not change.
#[test]
fn the_answer_to_a_restart() {
    let mut script = Script::established(&[]);
    let ((port, _), before) = (script.ports(A), script.tag(B));
    let info = script.net.ends[1].engine.info(script.id(B));
    ask(&mut script, port, |_| {});
    let (header, ack, cookie) = answer(&mut script);
    assert_eq!(header.tag, 0x0102_0304);
    assert!(ack.tag != before && ack.tag != 0 && !cookie.is_empty());
    // B's association has ten streams in each direction. The INIT accepts four streams from B.
    assert_eq!((ack.outbound, ack.inbound), (4, 10));
    assert_eq!(script.net.ends[1].engine.info(script.id(B)), info);
    script.forget();
}

/// RFC 9260 §5.2.4 step 3: a stale cookie whose tags differ from the association's is answered by ERROR, and the other
/// chunks of its packet are discarded.
#[test]
fn a_stale_cookie_of_a_restart() {
    let mut script = Script::established(&[]);
    let (port, _) = script.ports(A);
    ask(&mut script, port, |_| {});
    let (_, ack, cookie) = answer(&mut script);
    script.run(61_000).forget();
    let data = Data { tsn: Tsn(7), begin: true, end: true, payload: b"late", ..Data::default() };
    script.inject_between(A, port, PORT, ack.tag, |b| {
        CookieEcho { cookie: &cookie }.emit(b);
        data.emit(b);
    });
    script.run(30);
    let packet = under_way(&script, A).pop().expect("an answer");
    let view = PacketView::parse(&packet).expect("a packet");
    assert_eq!(view.header.tag, 0x0102_0304);
    let Some(Ok(Chunk::Error(error))) = view.chunks().next() else { panic!("an ERROR") };
    assert!(matches!(error.causes.flatten().next(), Some(Cause::StaleCookie(over)) if over > 900_000));
    assert_eq!(script.app(B).messages, 0);
    script.net.in_flight.clear();
    script.forget();
}

/// RFC 9260 §5.1.5 step 3: a cookie is valid only for the ports for which it was made, including the local port.
#[test]
fn a_cookie_for_another_port() {
    let mut script = Script::new(&[]);
    ask(&mut script, 5_000, |_| {});
    let (_, ack, cookie) = answer(&mut script);
    script.forget();
    script.inject_between(A, 5_000, PORT + 1, ack.tag, |b| CookieEcho { cookie: &cookie }.emit(b)).run(100);
    script.check(expect![[r#"
        0.030  A ──► B   COOKIE ECHO     injected
    "#]]);
}

/// RFC 9260 §5.2.4 A: the cookie of a restart arrives in SHUTDOWN-ACK-SENT. No association is set up.
#[test]
fn a_restart_while_shutdown_ack_is_out() {
    let mut script = Script::established(&[]);
    let (port, _) = script.ports(A);
    ask(&mut script, port, |_| {});
    let (_, ack, cookie) = answer(&mut script);
    script.forget();
    script.lose(A, "SHUTDOWN COMPLETE").shutdown(A).run(100);
    script.inject_between(A, port, PORT, ack.tag, |b| CookieEcho { cookie: &cookie }.emit(b)).run(26);
    let said = under_way(&script, A);
    let kinds: Vec<_> = said.iter().map(|bytes| bytes[packet::HEADER]).collect();
    assert_eq!(kinds, [Error::KIND, ShutdownAck::KIND]);
    let info = script.net.ends[1].engine.info(script.id(B)).expect("an association");
    assert_eq!(info.state, AssociationState::ShutdownAckSent);
    script.forget();
}

/// RFC 9260 §5.2.4 B: A is in COOKIE-ECHOED and answers an INIT of B. First A's own COOKIE ECHO sets up the
/// association, and after that B's COOKIE ECHO arrives. The association stays established, and A uses B's new tag from
/// that cookie.
#[test]
fn a_collision_that_is_told_of_late() {
    let mut script = Script::new(&[]);
    script.lose(A, "COOKIE ECHO").associate().run(100);
    let ((port, _), to_a) = (script.ports(A), script.tag(A));
    script.inject_between(B, PORT, port, 0, |b| init().open(b).close()).run(26);
    let packet = under_way(&script, B).pop().expect("an answer");
    script.net.in_flight.clear();
    let view = PacketView::parse(&packet).expect("a packet");
    let Some(Ok(Chunk::InitAck(ack))) = view.chunks().next() else { panic!("an INIT ACK") };
    let cookie = ack.0.params.flatten().find_map(|param| match param {
        Param::StateCookie(cookie) => Some(cookie),
        _ => None,
    });
    let cookie = cookie.expect("a State Cookie");
    script.run(2_000);
    let state = |script: &Script| script.net.ends[0].engine.info(script.id(A)).map(|info| info.state);
    assert_eq!(state(&script), Some(AssociationState::Established));
    script.inject_between(B, PORT, port, to_a, |b| CookieEcho { cookie }.emit(b)).run(26);
    let answer = under_way(&script, B).pop().expect("an answer");
    let view = PacketView::parse(&answer).expect("a packet");
    assert!(matches!(view.chunks().next(), Some(Ok(Chunk::CookieAck(_)))));
    assert_eq!((view.header.tag, state(&script)), (0x0102_0304, Some(AssociationState::Established)));
    script.net.in_flight.clear();
    script.forget();
}

/// RFC 9260 §5.2.6: outside COOKIE-ECHOED, an ERROR about a stale cookie has no effect, and no event is reported.
#[test]
fn a_stale_cookie_error_outside_cookie_echoed_is_ignored() {
    let mut script = Script::established(&[]);
    let (to_a, event_count) = (script.tag(A), script.net.ends[0].events.len());
    script.inject(B, to_a, |b| {
        let mut chunk = Error::default().open(b);
        Cause::StaleCookie(300_000).emit(&mut chunk);
        chunk.close();
    });
    script.run(100);
    assert_eq!(script.net.ends[0].events.len(), event_count);
    script.check(expect![[r#"
        1.000  A ◄── B   ERROR stale-cookie(300000us)     injected
    "#]]);
}

/// RFC 9260 §5.2.6: the requested increase of the cookie's lifetime is at most the round-trip time plus one second, no
/// matter how stale the cookie was.
#[test]
fn a_second_longer_at_most() {
    let mut script = Script::new(&[]);
    script.lose(A, "COOKIE ECHO").associate().run(100);
    let ((port, _), to_a) = (script.ports(A), script.tag(A));
    script.inject_between(B, PORT, port, to_a, |b| {
        let mut chunk = Error::default().open(b);
        Cause::StaleCookie(60_000_000).emit(&mut chunk);
        chunk.close();
    });
    script.run(26);
    script.check_drawn(expect![[r#"
        0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
        0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
        0.050  A ──► B   COOKIE ECHO     ✗ lost
        0.100  A ◄── B   ERROR stale-cookie(60000000us)     injected
        0.125  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 preserve=1075ms families=v4
    "#]]);
}

/// RFC 9260 §5.2.4 step 3: a cookie that has both tags of the association is valid, no matter how old it is.
#[test]
fn a_cookie_of_the_existing_association_is_never_stale() {
    let mut script = Script::new(&[]);
    script.associate().run(60);
    let echo = under_way(&script, B).pop().expect("the COOKIE ECHO");
    script.run(80_000).forget();
    script.net.inject(A, 1, echo);
    script.run(100);
    script.check(expect![[r#"
        80.060  A ──► B   COOKIE ECHO     injected
        80.085  A ◄── B   COOKIE ACK
    "#]]);
}

/// RFC 9260 §5.2.4 A: after a restart of the peer the congestion window has its initial size.
#[test]
fn a_restart_resets_the_congestion_window() {
    let mut script = Script::new(&[]);
    script.net.associate_from(A, 1, Some(5_000), PORT);
    script.run(1_000);
    let window = |script: &Script| {
        let info = script.net.ends[1].engine.info(script.id(B)).expect("an association");
        (info.paths[0].cwnd, info.paths[0].ssthresh)
    };
    let begun = window(&script);
    script.lose(B, "tsn=30").send(B, 0, 60_000).run(5_000);
    assert_ne!(window(&script), begun);
    let engine = Endpoint::new(configured(&[]), vec![net::address(A, 1)], Rng::new(77));
    script.net.reboot(A, engine);
    script.net.associate_from(A, 1, Some(5_000), PORT);
    script.run(1_000);
    assert_eq!(window(&script), begun);
    script.forget();
}

/// RFC 9260 §5.4: a SHUTDOWN ACK arrives from an unverified address. No chunk is sent to that address, not even the
/// answer.
#[test]
fn a_shutdown_complete_goes_to_no_unverified_address() {
    let mut script = Script::multi_homed(&[25, 25], &[]);
    script.lose_times(A, "HEARTBEAT", 99).lose_times(B, "HEARTBEAT", 99).associate().run(500);
    let info = script.net.ends[0].engine.info(script.id(A)).expect("an association");
    assert_eq!(info.paths[1].state, PathState::Unconfirmed);
    script.forget();
    script.lose_times(B, "SHUTDOWN ACK", 9).shutdown(A).run(30);
    let (port, _) = script.ports(A);
    let mut bytes = Vec::new();
    let start = packet::begin(&mut bytes, PORT, port, script.tag(A));
    ShutdownAck.emit(&mut bytes);
    packet::finish(&mut bytes, start);
    script.net.rules.retain(|rule| rule.pattern != "SHUTDOWN ACK");
    script.net.inject(B, 2, bytes);
    script.run(100);
    script.check_drawn(expect![[r#"
        0.500  A.1 ──► B.1   SHUTDOWN      cum=0
        0.525          B: peer wants to shut down
        0.525  A.1 ◄── B.1   SHUTDOWN ACK     ✗ lost
        0.530  A.2 ◄── B.2   SHUTDOWN ACK     injected
        0.555          A: closed: Shutdown
        0.555  A.1 ──► B.1   SHUTDOWN COMPLETE
        0.580          B: closed: Shutdown
    "#]]);
}

/// RFC 9260 §8.4 rule 1: neither an INIT nor a valid COOKIE ECHO is answered if its source or destination is a
/// multicast address.
#[test]
fn nothing_is_set_up_with_a_group() {
    let ours = SocketAddr::from(([10, 0, 1, 2], 0));
    let peer = SocketAddr::from(([10, 0, 1, 1], 0));
    let group = SocketAddr::from(([224, 0, 0, 1], 0));
    let everybody = SocketAddr::from(([255, 255, 255, 255], 0));
    let now = Instant::from_millis(1);
    let mut endpoint = Endpoint::new(configured(&[]), vec![ours], Rng::new(1));
    endpoint.listen(PORT).expect("a free port");
    let mut say = |source, target, tag, write: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = Vec::new();
        let start = packet::begin(&mut bytes, 5_000, PORT, tag);
        write(&mut bytes);
        packet::finish(&mut bytes, start);
        let packet = Packet { source, target, ecn: Ecn::NotEct, tag: 0, payload: &bytes };
        endpoint.handle_packet(now, packet);
        transmit_all_bytes(&mut endpoint, now).into_iter().next()
    };
    let ask = |b: &mut Vec<u8>| init().open(b).close();
    for (source, target) in [(group, ours), (peer, group), (everybody, ours), (peer, everybody)] {
        assert_eq!(say(source, target, 0, &ask), None, "INIT from {source} to {target}");
    }
    let answer = say(peer, ours, 0, &ask).expect("an INIT ACK");
    let view = PacketView::parse(&answer).expect("a packet");
    let Some(Ok(Chunk::InitAck(ack))) = view.chunks().next() else { panic!("an INIT ACK") };
    let cookie = ack.0.params.flatten().find_map(|param| match param {
        Param::StateCookie(cookie) => Some(cookie),
        _ => None,
    });
    let cookie = cookie.expect("a State Cookie");
    let echo = |b: &mut Vec<u8>| CookieEcho { cookie }.emit(b);
    for (source, target) in [(group, ours), (peer, group), (everybody, ours), (peer, everybody)] {
        assert_eq!(say(source, target, ack.0.tag, &echo), None, "COOKIE ECHO from {source} to {target}");
    }
    assert!(say(peer, ours, ack.0.tag, &echo).is_some(), "a COOKIE ACK");
}

/// RFC 9260 §8.4 rule 1: a COOKIE ECHO with a multicast address is not answered. This holds even if the COOKIE ECHO
/// follows an AUTH chunk with a valid signature (RFC 4895 §6.3).
#[test]
fn nothing_is_set_up_with_a_group_that_signs() {
    let ours = SocketAddr::from(([10, 0, 1, 2], 0));
    let peer = SocketAddr::from(([10, 0, 1, 1], 0));
    let group = SocketAddr::from(([224, 0, 0, 1], 0));
    let now = Instant::from_millis(1);
    let config = configured(&[("auth", "yes"), ("auth_chunks", "all")]);
    let mut a = Endpoint::new(config.clone(), vec![peer], Rng::new(1));
    let mut b = Endpoint::new(config, vec![ours], Rng::new(2));
    b.listen(PORT).expect("a free port");
    a.associate(now, Associate::to(ours, PORT)).expect("a way there");
    let next = |endpoint: &mut Endpoint| transmit_all_bytes(endpoint, now).into_iter().next();
    let hand = |endpoint: &mut Endpoint, source, target, bytes: &[u8]| {
        endpoint.handle_packet(now, Packet { source, target, ecn: Ecn::NotEct, tag: 0, payload: bytes });
    };
    hand(&mut b, peer, ours, &next(&mut a).expect("an INIT"));
    hand(&mut a, ours, peer, &next(&mut b).expect("an INIT ACK"));
    let echo = next(&mut a).expect("a COOKIE ECHO");
    let view = PacketView::parse(&echo).expect("a packet");
    assert!(matches!(view.chunks().next(), Some(Ok(Chunk::Auth(_)))), "it is signed");
    for (source, target) in [(group, ours), (peer, group)] {
        hand(&mut b, source, target, &echo);
        assert_eq!(next(&mut b), None, "COOKIE ECHO from {source} to {target}");
    }
    hand(&mut b, peer, ours, &echo);
    assert!(next(&mut b).is_some(), "a COOKIE ACK");
}

/// RFC 9260 §6: DATA that arrives before the COOKIE ACK is not accepted. §8.3: a HEARTBEAT that arrives before the
/// COOKIE ACK is answered.
#[test]
fn data_before_the_cookie_ack_is_discarded() {
    let mut script = Script::new(&[]);
    script.lose_times(B, "COOKIE ACK", 1).associate().run(200);
    let to_a = script.tag(A);
    let first = Tsn(script.net.ladder.numbers().first(B).expect("a TSN"));
    let data = Data { tsn: first, begin: true, end: true, payload: b"early", ..Data::default() };
    script.inject(B, to_a, |b| data.emit(b));
    script.inject(B, to_a, |b| Heartbeat { info: b"are you there?", rest: &[] }.emit(b));
    script.run(2_000);
    script.check(expect![[r#"
        0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
        0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
        0.050  A ──► B   COOKIE ECHO
        0.075          B: accepted, 10 streams out, 10 in
        0.075  A ◄── B   COOKIE ACK     ✗ lost
        0.200  A ◄── B   DATA          tsn=1 sid=0 ssn=0 len=5 BE     injected
        0.200  A ◄── B   HEARTBEAT     injected
        0.225  A ──► B   HEARTBEAT ACK
        1.050  A ──► B   COOKIE ECHO
        1.075  A ◄── B   COOKIE ACK
        1.100          A: established, 10 streams out, 10 in
    "#]]);
    let info = script.net.ends[0].engine.info(script.id(A)).expect("an association");
    assert_eq!(info.state, AssociationState::Established);
}
