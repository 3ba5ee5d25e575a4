//! The UDP port to which packets of an association are sent (RFC 6951).
//!
//! A NAT between A and the network changes the source port of A's packets. B receives on port 9899.

use crate::net::{self, A, B, Flight};
use crate::script::Script;
use anabranch_base::time::Duration;
use anabranch_base::{Ecn, Engine, Icmp, IcmpKind, Instant, Packet, Rng};
use anabranch_sctp::testing::transmit_all;
use anabranch_sctp::{Associate, CloseReason, Config, Endpoint, Event, Message, PrimaryError};
use anabranch_wire::ladder::Side;
use anabranch_wire::sctp::{CookieAck, Init, Tsn, packet};
use std::net::SocketAddr;

/// Two endpoints with a NAT in front of A.
struct Natted {
    script: Script,
    /// The UDP source port that the NAT gives A's packets. If the port is 0, the packets have no UDP header.
    port: u16,
    /// The destination ports of the packets that B has sent.
    ports: Vec<u16>,
}

impl Natted {
    fn new() -> Self {
        let mut script = Script::new(&[]);
        script.associate();
        let mut natted = Self { script, port: 40_000, ports: Vec::new() };
        natted.run(1_000);
        natted
    }

    fn run(&mut self, ms: u64) {
        let until = self.script.net.now + Duration::from_millis(ms);
        let Self { script, port, ports } = self;
        let mut fate = |_: Instant, from: Side, flight: &Flight| {
            let mut copy = flight.clone();
            if from == A {
                copy.source.set_port(*port);
            } else {
                copy.source.set_port(9_899);
                ports.push(flight.target.port());
            }
            vec![(Duration::ZERO, copy)]
        };
        script.net.run_until(until, &mut fate, None);
    }

    /// Returns the destination UDP ports of B's packets since the last call. Equal ports in a row are returned once.
    fn take_ports(&mut self) -> Vec<u16> {
        let mut ports = std::mem::take(&mut self.ports);
        ports.dedup();
        ports
    }

    /// Returns the UDP port to which a side sends.
    fn port_of_peer(&self, side: Side) -> u16 {
        let info = self.script.net.ends[side as usize].engine.info(self.script.id(side));
        info.expect("it is up").paths[0].encapsulation_port
    }

    /// Delivers a packet to B with A's address and UDP source port `port`.
    fn inject(&mut self, port: u16, tag: u32, write: impl FnOnce(&mut Vec<u8>)) {
        let (from, to) = self.script.ports(A);
        let mut bytes = Vec::new();
        let start = packet::begin(&mut bytes, from, to, tag);
        write(&mut bytes);
        packet::finish(&mut bytes, start);
        let mut source = net::address(A, 1);
        source.set_port(port);
        let (now, target) = (self.script.net.now, net::address(B, 1));
        let packet = Packet { source, target, ecn: Ecn::NotEct, tag: 0, payload: &bytes };
        self.script.net.end(B).engine.handle_packet(now, packet);
    }
}

/// RFC 6951 §5.1, §5.4: the port is learned from the handshake, stored for each destination, and updated when the NAT
/// changes the port.
#[test]
fn ports_are_learned_and_followed() {
    let mut natted = Natted::new();
    assert_eq!((natted.port_of_peer(A), natted.port_of_peer(B)), (9_899, 40_000));
    assert_eq!(natted.take_ports(), [40_000]);
    natted.port = 40_001;
    natted.script.send(A, 0, 10).send(A, 0, 10);
    natted.run(1_000);
    assert_eq!(natted.port_of_peer(B), 40_001);
    assert_eq!(natted.take_ports(), [40_001]);
    natted.script.check_drawn(expect_test::expect![[r#"
        0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
        0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
        0.050  A ──► B   COOKIE ECHO
        0.075          B: accepted, 10 streams out, 10 in
        0.075  A ◄── B   COOKIE ACK
        0.100          A: established, 10 streams out, 10 in
        1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=10 BE; DATA tsn=2 sid=0 ssn=1 len=10 BE
        1.025          B: received sid=0 len=10
        1.025          B: received sid=0 len=10
        1.025  A ◄── B   SACK          cum=2 rwnd=64k
    "#]]);
}

/// RFC 6951 §5.4, §5.6: when A's packets arrive without a UDP header, B stops the encapsulation of its own packets. B's
/// DATA may then be eight bytes longer.
#[test]
fn encapsulation_ends_and_begins() {
    let mut natted = Natted::new();
    let id = natted.script.id(B);
    assert_eq!(natted.script.net.end(B).engine.fragment_size(id), 1_444);
    natted.port = 0;
    natted.script.send(A, 0, 10);
    natted.run(1_000);
    assert_eq!(natted.port_of_peer(B), 0);
    assert_eq!(natted.script.net.end(B).engine.fragment_size(id), 1_452);
    natted.port = 5;
    natted.script.send(A, 0, 10);
    natted.run(1_000);
    assert_eq!((natted.port_of_peer(B), natted.script.net.end(B).engine.fragment_size(id)), (5, 1_444));
}

/// RFC 6951 §5.4: the peer's UDP port is updated only after the Verification Tag was checked. An INIT ACK goes to the
/// UDP source port of the INIT. The association still sends to the UDP port that it has stored for the peer.
#[test]
fn unverified_packets_do_not_change_the_udp_port() {
    let mut natted = Natted::new();
    natted.take_ports();
    let tag = natted.script.net.ladder.numbers().latest_tag(B).expect("a tag");
    natted.inject(6_666, tag ^ 1, |b| CookieAck.emit(b));
    let init = Init {
        tag: 7,
        window: 9_000,
        outbound_streams: 1,
        inbound_streams: 1,
        tsn: Tsn(1),
        ..Init::default()
    };
    natted.inject(6_667, 0, |b| init.emit(b));
    natted.run(10);
    assert_eq!(natted.port_of_peer(B), 40_000);
    // RFC 9260 §8.4: the INIT is answered, but the stray COOKIE ACK is not.
    assert_eq!(natted.take_ports(), [6_667]);
    natted.inject(6_668, tag, |b| CookieAck.emit(b));
    assert_eq!(natted.port_of_peer(B), 6_668);
}

/// RFC 6951 §5.4, RFC 9260 §5.2.4 A: a peer restarts behind another UDP port. The association must use the new port
/// when the peer's COOKIE ECHO arrives, and not earlier.
#[test]
fn a_restart_from_another_port() {
    let mut natted = Natted::new();
    let (local, _) = natted.script.ports(A);
    let now = natted.script.net.now;
    let old = natted.script.id(A);
    natted.script.net.end(A).engine.release(now, old);
    // The ABORT that A sends is lost, so B does not know that A's association has ended.
    natted.script.lose(A, "ABORT");
    natted.run(1);
    natted.port = 50_000;
    natted.take_ports();
    natted.script.net.associate_from(A, 1, Some(local), net::PORT);
    natted.run(30);
    assert_eq!((natted.port_of_peer(B), natted.take_ports()), (40_000, vec![50_000]));
    natted.run(1_000);
    assert_eq!((natted.port_of_peer(B), natted.take_ports()), (50_000, vec![50_000]));
    assert!(natted.script.net.end(B).events.iter().any(|event| matches!(event, Event::Restarted { .. })));
}

/// RFC 6951 §5.5: with encapsulation, an ICMP message that reports a closed UDP port counts as a report that the host
/// has no SCTP. The packet quoted by the message must have the right tag. Without encapsulation, the message has no
/// effect (RFC 9260 §10).
#[test]
fn port_unreachable() {
    for (port, ends) in [(9_899, true), (0, false)] {
        let mut natted = Natted::new();
        let (id, now) = (natted.script.id(A), natted.script.net.now);
        let engine = &mut natted.script.net.end(A).engine;
        engine.set_encapsulation_port(now, id, 0, port).expect("a path");
        assert_eq!(engine.set_encapsulation_port(now, id, 1, port), Err(PrimaryError::Unknown));
        let (from, to) = natted.script.ports(A);
        let tag = natted.script.net.ladder.numbers().latest_tag(B).expect("a tag");
        for tag in [tag ^ 1, tag] {
            let mut quoted = Vec::new();
            packet::begin(&mut quoted, from, to, tag);
            let (source, target) = (net::address(A, 1).ip(), net::address(B, 1).ip());
            let icmp = Icmp { kind: IcmpKind::Unreachable(3), source, target };
            natted.script.net.icmp(A, &icmp, &quoted);
            natted.run(1);
        }
        let closed = natted
            .script
            .net
            .end(A)
            .events
            .iter()
            .filter(|event| matches!(event, Event::Closed { reason: CloseReason::NotListening, .. }));
        assert_eq!(closed.count(), usize::from(ends));
    }
}

/// RFC 6951 §6.1: the application may set the UDP port of a peer.
#[test]
fn the_application_sets_the_port() {
    let mut natted = Natted::new();
    natted.take_ports();
    let (id, now) = (natted.script.id(B), natted.script.net.now);
    natted.script.net.end(B).engine.set_encapsulation_port(now, id, 0, 12_345).expect("a path");
    natted.script.send(B, 0, 10);
    natted.run(10);
    assert_eq!(natted.take_ports(), [12_345]);
    natted.run(1_000);
    assert_eq!(natted.port_of_peer(B), 40_000, "its answer came from there");
}

/// Two programs on one host have their own SCTP stacks and use the same SCTP port. Returns the events of the listener.
fn two_programs_of_one_host(udp_apart: &str) -> Vec<&'static str> {
    let mut config = Config::default();
    config.set("udp_apart", udp_apart).expect("a knob");
    let at = |host: u8, port: u16| SocketAddr::from(([10, 0, 0, host], port));
    let addresses = [at(1, 40_000), at(1, 50_000), at(2, 9_899)];
    let mut ends = addresses
        .map(|address| Endpoint::new(config.clone(), vec![address], Rng::new(address.port().into())));
    ends[2].listen(80).expect("a free port");
    let mut now = Instant::ZERO;
    let mut carry = |ends: &mut [Endpoint; 3]| {
        for _ in 0..10 {
            now += Duration::from_millis(1);
            for from in 0..3 {
                for packet in transmit_all(&mut ends[from], now) {
                    let to = addresses.iter().position(|address| *address == packet.target).expect("an end");
                    ends[to].handle_packet(now, packet.packet());
                }
            }
        }
        now
    };
    let mut ids = Vec::new();
    for client in 0..2 {
        let ask = Associate { local_port: Some(60_000), ..Associate::to(addresses[2], 80) };
        ids.push(ends[client].associate(Instant::ZERO, ask).expect("a free port"));
        carry(&mut ends);
    }
    // After the second program has opened its association, the first program sends data on the older association.
    let now = carry(&mut ends);
    let _ = ends[0].send(now, ids[0], Message::default(), b"still here");
    carry(&mut ends);
    std::iter::from_fn(|| ends[2].poll_event())
        .filter_map(|event| match event {
            Event::Accepted { .. } => Some("accepted"),
            Event::Restarted { .. } => Some("restarted"),
            Event::Readable { .. } => Some("readable"),
            Event::Closed { .. } => Some("closed"),
            _ => None,
        })
        .collect()
}

/// RFC 6951 §5.1: programs on one host use separate UDP ports. With the lookup of §5.4, which ignores UDP ports, the
/// second program's INIT would restart the first program's association.
#[test]
fn programs_of_one_host_are_told_apart() {
    assert_eq!(two_programs_of_one_host("yes"), ["accepted", "accepted", "readable"]);
    assert!(two_programs_of_one_host("no").contains(&"restarted"));
}
