//! Corner cases of the RFC: chunks and packets that this stack would never send, or would never send in the order of
//! these tests.

use crate::net::{self, A, B, PORT};
use crate::script::{Script, configured};
use anabranch_base::Rng;
use anabranch_base::engine::{Icmp, IcmpKind};
use anabranch_sctp::{Endpoint, Message};
use anabranch_wire::ladder::Side;
use anabranch_wire::sctp::tlv::ChunkWriter;
use anabranch_wire::sctp::*;
use expect_test::expect;

fn tag(script: &Script, side: Side) -> u32 {
    script.net.ladder.numbers().latest_tag(side).expect("a tag")
}

/// Returns the `n`th TSN of a side, counted from 1 as in ladder diagrams.
fn tsn(script: &Script, side: Side, n: u32) -> Tsn {
    Tsn(script.net.ladder.numbers().first(side).expect("a TSN")).plus(n - 1)
}

/// Injects a SACK from B for the first `cumulative` TSNs of A.
fn sack(script: &mut Script, cumulative: u32, gaps: &[GapBlock]) {
    let vtag = tag(script, A);
    let before_first = Tsn(tsn(script, A, 1).0.wrapping_sub(1));
    let sack = Sack { cumulative: before_first.plus(cumulative), window: 60_000, gaps, duplicates: &[] };
    script.inject(B, vtag, |b| sack.emit(b)).run(30);
}

/// Returns the chunks of the packets that are in flight to a side.
fn under_way(script: &Script, to: Side) -> Vec<&[u8]> {
    let there = |target: std::net::SocketAddr| (1..=3).any(|n| net::address(to, n) == target);
    script
        .net
        .in_flight
        .values()
        .filter(|flight| there(flight.target))
        .map(|flight| &flight.bytes[..])
        .collect()
}

/// RFC 9260 §3.3.8: a SHUTDOWN has no gap blocks, but does not revoke the gap blocks of earlier SACKs. So TSN 3 is not
/// retransmitted.
#[test]
fn a_shutdown_takes_no_gap_block_back() {
    let mut script = Script::established(&[]);
    script.lose_times(A, "DATA", 3).send(A, 0, 4_000).run(100);
    sack(&mut script, 0, &[GapBlock { start: 3, end: 3 }]);
    let shutdown = Shutdown { cumulative: tsn(&script, A, 1) };
    let vtag = tag(&script, A);
    script.inject(B, vtag, |b| shutdown.emit(b)).run(1_500);
    script.check_drawn(expect![[r#"
        1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1452 B     ✗ lost
        1.000  A ──► B   DATA          tsn=2 sid=0 ssn=0 len=1452     ✗ lost
        1.000  A ──► B   DATA          tsn=3 sid=0 ssn=0 len=1096 E     ✗ lost
        1.100  A ◄── B   SACK          cum=0 rwnd=60000 gaps=3     injected
        1.130  A ◄── B   SHUTDOWN      cum=1     injected
        1.155          A: peer wants to shut down
        2.155  A ──► B   DATA          tsn=2 sid=0 ssn=0 len=1452
        2.180  A ◄── B   SACK          cum=0 rwnd=64084 gaps=2
    "#]]);
}

/// RFC 9260 §6.2.1 D iv, §7.2.4: the SACK that ends a recovery is also the third miss indication of a TSN sent during
/// that recovery. So the next recovery begins, and the window is halved again.
#[test]
fn one_sack_ends_a_recovery_and_begins_the_next() {
    let mut script = Script::established(&[("iw", "12"), ("max_burst", "0")]);
    script.lose_times(A, "DATA", 99);
    for _ in 0..30 {
        script.send(A, 0, 1_400);
    }
    script.run(100);
    let first = |end| GapBlock { start: 2, end };
    for end in 2..=4 {
        sack(&mut script, 0, &[first(end)]);
    }
    let info = |script: &Script| {
        let (engine, id) = (&script.net.ends[0].engine, script.id(A));
        let (info, stats) = (engine.info(id).expect("info"), engine.stats(id).expect("stats"));
        (stats.fast_recoveries, info.paths[0].cwnd / 1_468)
    };
    assert_eq!(info(&script), (1, 7));
    // The recovery ends when TSN 17 is cumulatively acknowledged. TSNs 1 and 18 are missing: the next SACKs report TSNs
    // 2 to 17, then also TSN 19, then also TSN 20.
    sack(&mut script, 0, &[first(17)]);
    for end in 19..=20 {
        sack(&mut script, 0, &[first(17), GapBlock { start: 19, end }]);
    }
    assert_eq!(info(&script).0, 1, "two misses");
    sack(&mut script, 17, &[GapBlock { start: 2, end: 4 }]);
    assert_eq!(info(&script).0, 2);
}

/// RFC 9260 §6.1: TSN 1 moves to the second path at 5.000 s, while T3-rtx runs on that path for TSN 2. This does not
/// restart the timer, which expires at 5.500 s.
#[test]
fn a_chunk_that_moves_restarts_no_timer() {
    let mut script = Script::established_on(&[25, 25], &[]);
    script.kill(1).kill(2).send(A, 0, 1_000).run(500);
    let (id, now) = (script.id(A), script.net.now);
    script.net.end(A).engine.set_primary(now, id, 1).expect("verified");
    script.send(A, 0, 1_000).run(1_100);
    script.check_drawn(expect![[r#"
        4.000          network 1 fails
        4.000          network 2 fails
        4.000  A.1 ──► B.1   DATA          tsn=1 sid=0 ssn=0 len=1000 BE     ✗ lost
        4.500          A: primary is 10.0.2.2
        4.500  A.2 ──► B.2   DATA          tsn=2 sid=0 ssn=1 len=1000 BE     ✗ lost
        5.000  A.2 ──► B.2   DATA          tsn=1 sid=0 ssn=0 len=1000 BE     ✗ lost
        5.500  A.1 ──► B.1   DATA          tsn=1 sid=0 ssn=0 len=1000 BE     ✗ lost
    "#]]);
}

/// RFC 9260 §6.3.1 C4: a round-trip time is measured in every round trip. C5: data whose acknowledgement may have
/// waited for a retransmission is not measured. TSN 8 is sent between TSN 6 and the retransmission of TSN 6, so TSN 8
/// is not measured.
#[test]
fn round_trips_are_measured() {
    let mut script = Script::warm(&[("hb_interval", "0")]);
    let srtt = |script: &Script| {
        let info = script.net.ends[0].engine.info(script.id(A)).expect("info");
        info.paths[0].srtt.expect("measured").as_millis()
    };
    for (delay, expected) in [(0, 50), (80, 60), (160, 78)] {
        // The network delays the DATA packet. The SACK has the usual delay.
        let message = Message { immediate: true, ..Message::default() };
        script.delay(A, "DATA", delay).send_message(A, message, 100).run(300);
        assert_eq!(srtt(&script), expected);
    }
    script.forget();
    script.lose(A, "DATA tsn=6 ").delay(A, "DATA tsn=8 ", 40);
    script.send(A, 0, 1_400).send(A, 0, 1_400).send(A, 0, 1_400).run(60);
    assert_eq!(srtt(&script), 75, "by TSN 5");
    script.send(A, 0, 1_400).send(A, 0, 1_400).send(A, 0, 1_400).run(900);
    script.check(expect![[r#"
        2.900  A ──► B   DATA          tsn=5 sid=0 ssn=4 len=1400 BE
        2.900  A ──► B   DATA          tsn=6 sid=0 ssn=5 len=1400 BE     ✗ lost
        2.900  A ──► B   DATA          tsn=7 sid=0 ssn=6 len=1400 BE
        2.925          B: received sid=0 len=1400
        2.925  A ◄── B   SACK          cum=5 rwnd=64136 gaps=7
        2.960  A ──► B   DATA          tsn=8 sid=0 ssn=7 len=1400 BE     delayed 40 ms
        2.960  A ──► B   DATA          tsn=9 sid=0 ssn=8 len=1400 BE
        2.960  A ──► B   DATA          tsn=10 sid=0 ssn=9 len=1400 BE
        2.985  A ◄── B   SACK          cum=5 rwnd=62736 gaps=7,9
        2.985  A ◄── B   SACK          cum=5 rwnd=61336 gaps=7,9-10
        3.010  A ──► B   DATA          tsn=6 sid=0 ssn=5 len=1400 BE
        3.025  A ◄── B   SACK          cum=5 rwnd=59936 gaps=7-10
        3.035          B: received sid=0 len=1400
        3.035          B: received sid=0 len=1400
        3.035          B: received sid=0 len=1400
        3.035          B: received sid=0 len=1400
        3.035          B: received sid=0 len=1400
        3.035  A ◄── B   SACK          cum=10 rwnd=64k
    "#]]);
    assert_eq!(srtt(&script), 75, "not by TSN 8");
}

/// RFC 9260 §6.9: a chunk that has a TSN is not divided again when the path MTU shrinks. The chunk is sent on another
/// path with a larger MTU.
#[test]
fn a_chunk_too_large_for_its_path_goes_elsewhere() {
    let mut script = Script::established_on(&[25, 40], &[]);
    script.lose(A, "DATA").send(A, 0, 2_000).run(10);
    let (vtag, (source, target)) = (tag(&script, B), script.ports(A));
    let mut quoted = Vec::new();
    packet::begin(&mut quoted, source, target, vtag);
    let (source, target) = (net::address(A, 1).ip(), net::address(B, 1).ip());
    script.net.icmp(A, &Icmp { kind: IcmpKind::TooBig(600), source, target }, &quoted[..8]);
    script.run(100).send(A, 0, 1_000).run(1_000);
    script.check(expect![[r#"
        4.000  A.1 ──► B.1   DATA          tsn=1 sid=0 ssn=0 len=1452 B     ✗ lost
        4.000  A.1 ──► B.1   DATA          tsn=2 sid=0 ssn=0 len=548 E
        4.010  A.2 ──► B.2   DATA          tsn=1 sid=0 ssn=0 len=1452 B
        4.025  A.1 ◄── B.1   SACK          cum=0 rwnd=64988 gaps=2
        4.050          B: received sid=0 len=2000
        4.050  A.2 ◄── B.2   SACK          cum=2 rwnd=64k
        4.110  A.1 ──► B.1   DATA          tsn=3 sid=0 ssn=1 len=552 B
        4.110  A.1 ──► B.1   DATA          tsn=4 sid=0 ssn=1 len=448 E
        4.135          B: received sid=0 len=1000
        4.135  A.1 ◄── B.1   SACK          cum=4 rwnd=64k
    "#]]);
}

/// RFC 9260 §9.1: a packet that contains an ABORT is not answered, even if its other chunks violate the protocol.
#[test]
fn an_abort_behind_a_violation() {
    let mut script = Script::established(&[]);
    let empty = Data { tsn: tsn(&script, A, 1), begin: true, end: true, ..Data::default() };
    let vtag = tag(&script, B);
    script.inject(A, vtag, |b| {
        empty.emit(b);
        Abort::default().emit(b);
    });
    script.run(100);
    script.check_drawn(expect![[r#"
        1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=0 BE; ABORT     injected
        1.025          B: closed: PeerViolated("6.2: a DATA chunk without user data")
    "#]]);
}

fn init_ack(tag: u32, window: u32) -> InitAck<'static> {
    InitAck(Init { tag, window, outbound_streams: 1, inbound_streams: 1, tsn: Tsn(1), ..Init::default() })
}

/// RFC 9260 §3.3.3: an INIT ACK with an Initiate Tag of 0 ends the handshake, and is answered by ABORT. The ABORT has
/// this side's own tag and the T bit.
#[test]
fn an_init_ack_with_tag_zero() {
    let mut script = Script::new(&[]);
    script.lose(A, "INIT").associate().run(10);
    let (vtag, (source, target)) = (tag(&script, A), script.ports(A));
    script.inject_between(B, target, source, vtag, |b| init_ack(0, 9_000).emit(b)).run(100);
    script.check_drawn(expect![[r#"
        0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4     ✗ lost
        0.010  A ◄── B   INIT ACK      tag=B1 rwnd=9000 os=1 is=1 tsn=1     injected
        0.035          A: closed: PeerViolated("3.3.3: a mandatory value of the INIT ACK is invalid")
        0.035  A ──► B   ABORT T invalid-mandatory-param   vtag=A1
    "#]]);
}

/// RFC 9260 §3.3.3: an INIT ACK with a window below 1500 is answered by an ABORT. The INIT ACK has no other effect, and
/// the INIT is retransmitted.
#[test]
fn an_init_ack_with_a_small_window() {
    let mut script = Script::new(&[]);
    script.lose(A, "INIT").associate().run(10);
    let (vtag, (source, target)) = (tag(&script, A), script.ports(A));
    script.inject_between(B, target, source, vtag, |b| init_ack(5, 1_499).emit(b)).run(1_200);
    script.check(expect![[r#"
        0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4     ✗ lost
        0.010  A ◄── B   INIT ACK      tag=B1 rwnd=1499 os=1 is=1 tsn=1     injected
        0.035  A ──► B   ABORT invalid-mandatory-param
        1.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
        1.025  A ◄── B   INIT ACK      tag=B2 rwnd=64k os=10 is=10 tsn=1 …cookie
        1.050  A ──► B   COOKIE ECHO
        1.075          B: accepted, 10 streams out, 10 in
        1.075  A ◄── B   COOKIE ACK
        1.100          A: established, 10 streams out, 10 in
    "#]]);
}

/// RFC 9260 §5.1.2 rule 4: an INIT ACK that lists the INIT's destination address may come from another address. §5.4:
/// the COOKIE ECHO is sent to the INIT's destination address, because this address is known to be the peer's.
#[test]
fn an_init_ack_from_another_address() {
    let mut script = Script::multi_homed(&[25, 25], &[]);
    script.lose(A, "INIT").associate().run(10);
    let (vtag, (source, target)) = (tag(&script, A), script.ports(A));
    let mut bytes = Vec::new();
    let start = packet::begin(&mut bytes, target, source, vtag);
    let ack = init_ack(5, 9_000);
    let mut chunk = ack.open(&mut bytes);
    assert!(Param::StateCookie(b"not B's").emit(&mut chunk));
    for n in 1..=2 {
        assert!(Param::from(net::address(B, n).ip()).emit(&mut chunk));
    }
    chunk.close();
    packet::finish(&mut bytes, start);
    script.net.inject(B, 2, bytes);
    script.run(100);
    script.check(expect![[r#"
        0.000  A.1 ──► B.1   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 ip=10.0.1.1 ip=10.0.2.1 families=v4     ✗ lost
        0.010  A.2 ◄── B.2   INIT ACK      tag=B1 rwnd=9000 os=1 is=1 tsn=1 …cookie ip=10.0.1.2 ip=10.0.2.2     injected
        0.035  A.1 ──► B.1   COOKIE ECHO
    "#]]);
}

/// RFC 9260 §5.1.2: the application gave A an address of B that B does not list. No packet is sent to that address.
#[test]
fn an_address_that_is_not_listed() {
    let mut script = Script::multi_homed(&[25, 25], &[]);
    let mut single = Endpoint::new(configured(&[]), vec![net::address(B, 1)], Rng::new(5));
    single.listen(PORT).expect("free");
    script.net.end(B).engine = single;
    script.net.associate(A, 2);
    script.run(500).lose(A, "DATA").send(A, 0, 100).run(1_500);
    script.check(expect![[r#"
        0.000  A.1 ──► B.1   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 ip=10.0.1.1 ip=10.0.2.1 families=v4
        0.025  A.1 ◄── B.1   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
        0.050  A.1 ──► B.1   COOKIE ECHO
        0.075          B: accepted, 10 streams out, 10 in
        0.075  A.1 ◄── B.1   COOKIE ACK
        0.075  A.2 ◄── B.1   HEARTBEAT
        0.100          A: established, 10 streams out, 10 in
        0.100  A.1 ──► B.1   HEARTBEAT ACK
        0.125          B: path to 10.0.2.1 is up
        0.500  A.1 ──► B.1   DATA          tsn=1 sid=0 ssn=0 len=100 BE     ✗ lost
        1.500  A.1 ──► B.1   DATA          tsn=1 sid=0 ssn=0 len=100 BE
        1.525          B: received sid=0 len=100
        1.525  A.1 ◄── B.1   SACK          cum=1 rwnd=64k
    "#]]);
}

/// RFC 9260 §5.4: an ERROR about a packet from an unverified address is sent to a verified address.
#[test]
fn no_error_to_an_unverified_address() {
    let mut script = Script::multi_homed(&[25, 25], &[]);
    script.lose_times(B, "HEARTBEAT", 99).associate().run(500);
    script.forget();
    let (vtag, (source, target)) = (tag(&script, B), script.ports(A));
    let mut bytes = Vec::new();
    let start = packet::begin(&mut bytes, source, target, vtag);
    ChunkWriter::open(&mut bytes, 0x7e, 0).close();
    packet::finish(&mut bytes, start);
    script.net.inject(A, 2, bytes);
    script.run(100);
    script.check(expect![[r#"
        0.500  A.2 ──► B.2   CHUNK 126 flags=00 len=0     injected
        0.525  A.1 ◄── B.1   ERROR unrecognized-chunk(126)
    "#]]);
}

/// RFC 9260 §5.4: if several addresses are unverified, the addresses are probed in turn, HB.Max.Burst (1) per RTO.
#[test]
fn unverified_addresses_take_turns() {
    let mut script = Script::multi_homed(&[25, 25, 25], &[]);
    script.kill(2).kill(3).associate().run(12_000);
    let drawn = script.net.ladder.take();
    let probes: Vec<_> =
        drawn.lines().filter(|line| line.contains("──► B") && line.contains("HEARTB")).collect();
    expect![[r#"
         0.100  A.2 ──► B.2   HEARTBEAT     ✗ lost
         1.100  A.3 ──► B.3   HEARTBEAT     ✗ lost
         3.100  A.2 ──► B.2   HEARTBEAT     ✗ lost
         4.100  A.3 ──► B.3   HEARTBEAT     ✗ lost
         9.100  A.2 ──► B.2   HEARTBEAT     ✗ lost
        10.100  A.3 ──► B.3   HEARTBEAT     ✗ lost
    "#]]
    .assert_eq(&crate::script::flush_left(&probes.join("\n")));
}

/// RFC 9260 §9.2: any packet from B shows that B is reachable, so T2-shutdown, which was started at 1.000, is restarted
/// at 1.925.
#[test]
fn whatever_comes_restarts_t2() {
    let mut script = Script::established(&[]);
    script.lose(A, "SHUTDOWN").shutdown(A).run(900);
    let vtag = tag(&script, A);
    script.inject(B, vtag, |b| Error::default().open(b).close()).run(1_500);
    script.check(expect![[r#"
        1.000  A ──► B   SHUTDOWN      cum=0     ✗ lost
        1.900  A ◄── B   ERROR     injected
        2.925  A ──► B   SHUTDOWN      cum=0
        2.950          B: peer wants to shut down
        2.950  A ◄── B   SHUTDOWN ACK
        2.975          A: closed: Shutdown
        2.975  A ──► B   SHUTDOWN COMPLETE
        3.000          B: closed: Shutdown
    "#]]);
}

/// RFC 9260 §9.2: any packet from the peer B clears A's count of unanswered SHUTDOWNs. A count of two would end the
/// association. Here three SHUTDOWNs are lost, but B's ERRORs clear the count in time.
#[test]
fn whatever_comes_clears_the_count_of_shutdowns() {
    let mut script = Script::established(&[("assoc_max_retrans", "1")]);
    script.lose_times(A, "SHUTDOWN", 3).shutdown(A).run(1_500);
    for _ in 0..2 {
        let vtag = tag(&script, A);
        script.inject(B, vtag, |b| Error::default().open(b).close()).run(4_000);
    }
    script.run(9_000);
    script.check(expect![[r#"
         1.000  A ──► B   SHUTDOWN      cum=0     ✗ lost
         2.000  A ──► B   SHUTDOWN      cum=0     ✗ lost
         2.500  A ◄── B   ERROR     injected
         4.525  A ──► B   SHUTDOWN      cum=0     ✗ lost
         6.500  A ◄── B   ERROR     injected
        10.525  A ──► B   SHUTDOWN      cum=0
        10.550          B: peer wants to shut down
        10.550  A ◄── B   SHUTDOWN ACK
        10.575          A: closed: Shutdown
        10.575  A ──► B   SHUTDOWN COMPLETE
        10.600          B: closed: Shutdown
    "#]]);
}

/// RFC 9260 §8.3: bytes after the Heartbeat Information are returned in the HEARTBEAT ACK.
#[test]
fn all_of_a_heartbeat_is_returned() {
    let mut script = Script::established(&[]);
    let heartbeat = Heartbeat { info: b"now", rest: &[0x80, 9, 0, 6, 1, 2, 0, 0] };
    let vtag = tag(&script, B);
    script.inject(A, vtag, |b| heartbeat.emit(b)).run(30);
    let answers = under_way(&script, A);
    let view = PacketView::parse(answers[0]).expect("a packet");
    let expected = HeartbeatAck { info: heartbeat.info, rest: heartbeat.rest };
    assert_eq!(view.chunks().next(), Some(Ok(Chunk::HeartbeatAck(expected))));
}

/// RFC 9260 §3.3.5: a HEARTBEAT without Heartbeat Information, as pion sends it, is not answered. This HEARTBEAT does
/// not end the association.
#[test]
fn a_heartbeat_that_asks_for_nothing() {
    let mut script = Script::established(&[]);
    let vtag = tag(&script, B);
    script.inject(A, vtag, |b| b.extend_from_slice(&[Heartbeat::KIND, 0, 0, 4])).run(1_000);
    script.send(A, 1, 100).run(1_000);
    script.check(expect![[r#"
        1.000  A ──► B   (chunk type 4 does not have the form of its type)     injected
        2.000  A ──► B   DATA          tsn=1 sid=1 ssn=0 len=100 BE
        2.025          B: received sid=1 len=100
        2.025  A ◄── B   SACK          cum=1 rwnd=64k
    "#]]);
}

/// RFC 9260 §6.10: an unknown chunk fills its packet. The answer quotes the part of the chunk that fits.
#[test]
fn a_quote_that_is_too_long() {
    let mut script = Script::established(&[]);
    let vtag = tag(&script, B);
    script.inject(A, vtag, |b| {
        let mut chunk = ChunkWriter::open(b, 0x7e, 0);
        chunk.bytes(&[7; 1_464]);
        chunk.close();
    });
    script.run(30);
    let answers = under_way(&script, A);
    assert_eq!(answers[0].len(), 1_480);
    let view = PacketView::parse(answers[0]).expect("a packet");
    let Some(Ok(Chunk::Error(error))) = view.chunks().next() else { panic!("an ERROR") };
    let cause = error.causes.flatten().next();
    assert!(matches!(cause, Some(Cause::UnrecognizedChunk(quote)) if quote.len() == 1_460), "{cause:?}");
}
