//! Paths that answer HEARTBEATs but do not deliver data (RFC 9260 §8.1 to §8.3, RFC 8899 §4.3).

use crate::net::{self, A, B, Flight, IN_UDP, Narrow, Net, V6, network};
use crate::script::{Script, configured};
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_sctp::{CloseReason, Config, Event, PathState};
use anabranch_wire::ladder::Side;
use anabranch_wire::sctp::{Data, packet};
use expect_test::expect;

/// Settings with which the first timeout makes a path potentially failed, so that a HEARTBEAT probes it. The profile
/// `modern` has the same effect.
const SUSPECTING: &[(&str, &str)] =
    &[("pf_max_retrans", "0"), ("hb_interval", "30s"), ("rto_min", "200ms"), ("rto_initial", "200ms")];

/// A path delivers HEARTBEATs but no data. HEARTBEAT ACKs clear the errors of the first three timeouts, but not of
/// later timeouts. So the RTO and the error count grow, the path fails, and the association ends.
#[test]
fn heartbeat_answers_do_not_keep_an_association_whose_data_is_lost() {
    let mut script = Script::established(SUSPECTING);
    script.lose_times(A, "DATA", 1_000);
    // A packet with this much data has no room for a HEARTBEAT, so HEARTBEATs are sent in packets of their own.
    script.send(A, 0, 1_452).run(400_000);
    script.check_drawn(expect![[r#"
         1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1452 BE     ✗ lost
         1.200          A: path to 10.0.1.2 may have failed
         1.200  A ──► B   HEARTBEAT
         1.200  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1452 BE     ✗ lost
         1.225  A ◄── B   HEARTBEAT ACK
         1.250          A: path to 10.0.1.2 is up
         1.600          A: path to 10.0.1.2 may have failed
         1.600  A ──► B   HEARTBEAT
         1.600  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1452 BE     ✗ lost
         1.625  A ◄── B   HEARTBEAT ACK
         1.650          A: path to 10.0.1.2 is up
         2.000          A: path to 10.0.1.2 may have failed
         2.000  A ──► B   HEARTBEAT
         2.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1452 BE     ✗ lost
         2.025  A ◄── B   HEARTBEAT ACK
         2.050          A: path to 10.0.1.2 is up
         2.400          A: path to 10.0.1.2 may have failed
         2.400  A ──► B   HEARTBEAT
         2.400  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1452 BE     ✗ lost
         2.425  A ◄── B   HEARTBEAT ACK
         2.800  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1452 BE     ✗ lost
         3.600          A: path to 10.0.1.2 is down
         3.600  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1452 BE     ✗ lost
         5.200  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1452 BE     ✗ lost
         8.400  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1452 BE     ✗ lost
        14.800  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1452 BE     ✗ lost
        27.600  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1452 BE     ✗ lost
        30.283  A ◄── B   HEARTBEAT
        30.308  A ──► B   HEARTBEAT ACK
        35.419  A ──► B   HEARTBEAT
        35.444  A ◄── B   HEARTBEAT ACK
        53.200          A: not delivered: sid=0 len=1452 context=1, sent
        53.200          A: closed: BlackHole { address: 10.0.1.2, size: 1500 }
        53.200  A ──► B   ABORT user-abort(heartbeats are answered, but packets of 1500 bytes are never acknowledged; with pmtud=plpmtud the sender begins with 1200 bytes)
        53.225          B: closed: Aborted(Some(12))
    "#]]);
    let end = script.net.end(A);
    let down = |event: &Event| matches!(event, Event::PathDown { .. });
    assert_eq!(end.events.iter().filter(|event| down(event)).count(), 1, "no answer brings it back");
}

/// The first five packets with DATA are lost, but the data is acknowledged in the end. Then the path is active and has
/// no errors.
#[test]
fn data_that_is_acknowledged_clears_the_path() {
    let mut script = Script::established(SUSPECTING);
    script.lose_times(A, "DATA", 5);
    script.send(A, 0, 1_400).run(20_000);
    let path = script.net.ends[0].engine.info(script.id(A)).expect("it lives").paths[0];
    assert_eq!((path.state, path.errors), (PathState::Active, 0));
    assert!(script.app(B).is_served(&Default::default()));
}

/// Runs for `ms` milliseconds, while network 1 loses the packets of A that begin with DATA.
fn run_without_data(script: &mut Script, ms: u64) {
    let until = script.net.now + Duration::from_millis(ms);
    let mut fate = |_: Instant, from: Side, flight: &Flight| {
        let vanishes = from == A
            && network(flight.target.ip()) == 1
            && flight.bytes.get(packet::HEADER) == Some(&Data::KIND);
        if vanishes { Vec::new() } else { vec![(Duration::ZERO, flight.clone())] }
    };
    script.net.run_until(until, &mut fate, None);
}

/// Runs for `ms` milliseconds. Network 1 loses all IP packets of more than `limit` bytes, even packets without the DF
/// bit. Some routers drop packets by length in this way.
fn run_without_large_packets(script: &mut Script, limit: usize, ms: u64) {
    let until = script.net.now + Duration::from_millis(ms);
    let mut fate = |_: Instant, _: Side, flight: &Flight| {
        let passes = 20 + flight.bytes.len() <= limit;
        if passes { vec![(Duration::ZERO, flight.clone())] } else { Vec::new() }
    };
    script.net.run_until(until, &mut fate, None);
}

/// Sets up an association that detects black holes, with the settings that the `anabranch` commands use on real
/// networks. A sends two messages.
fn in_a_black_hole() -> Script {
    let mut set = SUSPECTING.to_vec();
    set.extend([("pmtud", "blackhole"), ("assoc_silence", "100s")]);
    let mut script = Script::established(&set);
    script.send(A, 0, 4_000).send(A, 1, 500);
    script
}

/// A path drops packets of more than 1300 bytes, and no router fragments them. RFC 9260 §6.9: chunks that have a TSN
/// cannot be split again, so the lost chunks never arrive. The association ends when the path has failed, and both
/// sides get the reason.
#[test]
fn chunks_that_are_too_large_for_the_path_end_the_association() {
    let mut script = in_a_black_hole();
    run_without_large_packets(&mut script, 1_300, 1_000);
    script.send(A, 2, 3_000);
    run_without_large_packets(&mut script, 1_300, 14_000);
    let mut closed = |side| {
        script.net.end(side).events.iter().find_map(|event| match event {
            Event::Closed { reason, .. } => Some(*reason),
            _ => None,
        })
    };
    assert_eq!(closed(A), Some(CloseReason::BlackHole { address: net::address(B, 1).ip(), size: 1_500 }));
    assert_eq!(closed(B), Some(CloseReason::Aborted(Some(12))));
    let reason = script.net.end(B).events.iter().find_map(|event| match event {
        Event::AbortReason { reason, .. } => Some(String::from_utf8_lossy(reason).into_owned()),
        _ => None,
    });
    expect![[r#"
        Some(
            "heartbeats are answered, but packets of 1500 bytes are never acknowledged; with pmtud=plpmtud the sender begins with 1200 bytes",
        )
    "#]]
    .assert_debug_eq(&reason);
}

/// A path drops packets of more than 1300 bytes and answers some HEARTBEATs, but later loses all packets. The peer may
/// be silent only for a while, so the association ends only after `assoc_silence`. The reported reason is not the
/// packet size.
#[test]
fn an_outage_in_a_black_hole_is_a_silence() {
    let mut script = in_a_black_hole();
    run_without_large_packets(&mut script, 1_300, 1_800);
    run_without_large_packets(&mut script, 0, 90_000);
    script.net.ends[0].engine.info(script.id(A)).expect("it lives");
    run_without_large_packets(&mut script, 0, 110_000);
    let closed = |event: &Event| matches!(event, Event::Closed { reason: CloseReason::Unreachable, .. });
    assert!(script.net.end(A).events.iter().any(closed));
}

/// One of two paths delivers HEARTBEATs but no data, and fails. Once per heartbeat interval, data is tried on this
/// path. When the path delivers data again, the transfer returns to it.
#[test]
fn of_two_paths_the_one_that_loses_data_fails() {
    let mut script = Script::established_on(&[10, 20], SUSPECTING);
    let mut timeouts = Vec::new();
    for _ in 0..4 {
        for _ in 0..1_000 {
            script.send(A, 0, 500);
            run_without_data(&mut script, 60);
        }
        let path = script.net.ends[0].engine.info(script.id(A)).expect("it lives").paths[0];
        timeouts.push((path.stats.t3_expirations, path.stats.failures));
    }
    expect!["[(5, 0), (10, 1), (12, 2), (14, 4)]"].assert_eq(&format!("{timeouts:?}"));
    script.forget();
    for _ in 0..1_000 {
        script.send(A, 0, 500).run(60);
    }
    let path = script.net.ends[0].engine.info(script.id(A)).expect("it lives").paths[0];
    assert_eq!((path.state, path.errors), (PathState::Active, 0));
    let drawn = script.net.ladder.take();
    assert!(drawn.lines().rev().take(8).any(|line| line.contains("A.1") && line.contains("DATA")), "{drawn}");
}

/// One of two paths loses only large packets. A lost chunk is sent again on the other path, so no chunk is lost twice
/// on the first path. The first path still answers HEARTBEATs, so the packet size must be the cause, and the path MTU
/// search starts.
#[test]
fn of_two_paths_one_has_a_black_hole() {
    let mut set = SUSPECTING.to_vec();
    set.push(("pmtud", "blackhole"));
    let mut script = Script::established_on(&[10, 20], &set);
    script.net.narrow.insert(1, Narrow { mtu: 1_300, sends_icmp: false });
    for _ in 0..100 {
        script.send(A, 0, 1_400).run(100);
    }
    script.run(60_000);
    let path = script.net.ends[0].engine.info(script.id(A)).expect("it lives").paths[0];
    assert_eq!((path.state, path.errors, path.mtu), (PathState::Active, 0, 1_300));
    assert!(script.app(B).is_served(&Default::default()));
}

/// Returns the configuration for real networks, over a lower layer that adds 37 bytes to each packet.
fn over_layer(changes: &[(&str, &str)]) -> Config {
    let mut config = configured(changes);
    config.set_unless_user_set("pmtud", "blackhole", "real networks").expect("a knob");
    config.over_layer(37)
}

/// RFC 8261 §4: SCTP runs over a lower layer such as DTLS. The first packets on a path have at most 1200 bytes (IPv4)
/// or 1280 bytes (IPv6), including the bytes that the layer adds. Both sides then search for larger sizes, up to the
/// MTU of the interface.
#[test]
fn over_a_layer_the_first_packets_are_small() {
    for (n, base, interface) in
        [(1, 1_200, 9_000), (IN_UDP, 1_200, 1_500), (V6, 1_280, 1_280), (V6, 1_280, 1_500)]
    {
        let config = over_layer(&[]);
        let mut net = Net::numbered_from(n, 1, [config.clone(), config], &[Duration::from_millis(25)]);
        for side in [A, B] {
            net.end(side).engine.set_mtu(net::address(side, n).ip(), interface - 37);
        }
        let id = net.associate(A, 1);
        net.run_until(Instant::from_millis(101), &mut *net::rules_fate(), None);
        let size = |net: &Net| net.ends[0].engine.info(id).expect("it is up").paths[0].mtu + 37;
        assert!((base - 7..=base).contains(&size(&net)), "{n}: {}", size(&net));
        net.run_until(Instant::from_millis(5_000), &mut *net::rules_fate(), None);
        assert!((interface - 7..=interface).contains(&size(&net)), "{n}: {}", size(&net));
    }
}

/// The user's value of the knob `pmtud` takes precedence over the value for real networks. If neither is set, there is
/// no search, because simulated networks lose no ICMP messages.
#[test]
fn a_search_that_was_chosen_stays() {
    let value =
        |config: &Config| config.knobs().into_iter().find(|knob| knob.key == "pmtud").expect("a knob").value;
    assert_eq!(value(&over_layer(&[])), "plpmtud");
    assert_eq!(value(&over_layer(&[("pmtud", "icmp")])), "icmp");
    assert_eq!(value(&over_layer(&[("pmtud", "blackhole")])), "blackhole");
    assert_eq!(value(&configured(&[]).over_layer(37)), "icmp");
}
