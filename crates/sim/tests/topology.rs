//! Several interfaces, routers, and ICMP messages between nodes.

use crate::support::*;
use anabranch_base::time::Duration;
use anabranch_base::{Icmp, IcmpKind};
use anabranch_sim::{Direction, Network};
use anabranch_world::{DatagramSocket, Local, World};

const RAW: Local = Local::Ip { protocol: 132 };

#[test]
fn the_source_address_picks_the_interface() {
    let network = Network::new(1);
    let client = network.host("client", &[ip("10.0.0.1"), ip("2001:db8:2::1")]);
    let server = network.host("server", &[ip("10.0.0.2"), ip("2001:db8:2::2")]);
    let extra = network.interface(client, &[ip("10.3.0.1"), ip("2001:db8:3::1")]);
    let extra_far = network.interface(server, &[ip("10.3.0.2"), ip("2001:db8:3::2")]);
    let first = network
        .link(client.interface(0), server.interface(0), &link("rate=8mbit,delay=10ms"))
        .expect("a link");
    network.link(client, server, &link("rate=8mbit,delay=20ms,mtu=1400")).expect("a link");
    network.link(extra, extra_far, &link("rate=8mbit,delay=30ms,mtu=1300")).expect("a link");
    let (here, there) = (network.world(client), network.world(server));
    assert_eq!(here.addresses().len(), 4);
    network
        .run(
            async {
                let (a, b) = (here.bind(RAW).await.expect("bound"), there.bind(RAW).await.expect("bound"));
                let mtus: Vec<_> = here.addresses().into_iter().map(|address| a.mtu(address)).collect();
                assert_eq!(mtus, [1500, 1400, 1300, 1300]);
                let cases = [
                    ("10.0.0.1:0", "10.0.0.2:0", 10, 20),
                    ("[2001:db8:2::1]:0", "[2001:db8:2::2]:0", 20, 40),
                    ("10.3.0.1:0", "10.3.0.2:0", 30, 20),
                    ("[2001:db8:3::1]:0", "[2001:db8:3::2]:0", 30, 40),
                    // A host accepts packets for all its addresses at every interface.
                    ("10.0.0.1:0", "10.3.0.2:0", 10, 20),
                    ("10.3.0.1:0", "10.0.0.2:0", 30, 20),
                ];
                for (from, to, delay, header) in cases {
                    let begin = here.now();
                    send(&a, at(from), at(to), &vec![1; 100 - header]).await;
                    let batch = recv(&b).await;
                    assert_eq!((batch.source, batch.target), (at(from), at(to)));
                    let expected = Duration::from_micros(100) + Duration::from_millis(delay);
                    assert_eq!(there.now().since(begin), expected, "{from} to {to}");
                }
            },
            LATE,
        )
        .expect_done();
    assert_eq!(network.link_counters(first, Direction::Up).meter.left.packets, 2);
}

#[test]
fn a_host_chooses_a_source_when_none_is_given() {
    let network = Network::new(1);
    let client = network.host("client", &[ip("10.0.0.1"), ip("10.1.0.1")]);
    let server = network.host("server", &[ip("10.0.0.2"), ip("10.1.0.2")]);
    let (left, right) = (network.router("left"), network.router("right"));
    // The two paths have no link in common.
    for (index, router) in [(0, left), (1, right)] {
        network.link(client.interface(index), router, &link("rate=8mbit,delay=1ms")).expect("a link");
        network.link(router, server.interface(index), &link("rate=8mbit,delay=1ms")).expect("a link");
    }
    let (here, there) = (network.world(client), network.world(server));
    network
        .run(
            async {
                let (a, b) = (here.bind(RAW).await.expect("bound"), there.bind(RAW).await.expect("bound"));
                for (to, from) in [("10.0.0.2:0", "10.0.0.1:0"), ("10.1.0.2:0", "10.1.0.1:0")] {
                    send(&a, at("0.0.0.0:0"), at(to), b"hello").await;
                    assert_eq!(recv(&b).await.source, at(from));
                }
                // No host has this address, so the packet is lost without an error.
                send(&a, at("0.0.0.0:0"), at("10.77.0.1:0"), b"hello").await;
            },
            LATE,
        )
        .expect_done();
    assert_eq!(network.host_counters(left).forwarded, 1);
    assert_eq!(network.host_counters(right).forwarded, 1);
    assert_eq!(network.host_counters(client).no_route, 1);
}

#[test]
fn static_routes_go_first_and_routers_without_a_route_say_so() {
    let network = Network::new(1);
    let client = network.host("client", &[ip("10.0.0.1")]);
    let server = network.host("server", &[ip("10.9.0.1")]);
    let (near, long, short) = (network.router("near"), network.router("long"), network.router("short"));
    let far = network.router("far");
    network.link(client, near, &link("delay=1ms")).expect("a link");
    network.link(near, short, &link("delay=1ms")).expect("a link");
    network.link(short, far, &link("delay=1ms")).expect("a link");
    network.link(far, server, &link("delay=1ms")).expect("a link");
    let detour = network.interface(near, &[]);
    network.link(detour, long, &link("delay=5ms")).expect("a link");
    network.link(long, far, &link("delay=5ms")).expect("a link");
    network.route(ip("10.9.0.0"), 16, detour);
    // The route for the prefix 0.0.0.0/0 is the client's default route.
    network.route(ip("0.0.0.0"), 0, client.interface(0));
    let (here, there) = (network.world(client), network.world(server));
    network
        .run(
            async {
                let (a, b) = (here.bind(RAW).await.expect("bound"), there.bind(RAW).await.expect("bound"));
                send(&a, at("10.0.0.1:0"), at("10.9.0.1:0"), b"hello").await;
                recv(&b).await;
                send(&a, at("10.0.0.1:0"), at("192.0.2.1:0"), b"nowhere").await;
                let report = recv(&a).await;
                let (source, target) = (ip("10.0.0.1"), ip("192.0.2.1"));
                assert_eq!(report.icmp, Some(Icmp { kind: IcmpKind::Unreachable(0), source, target }));
                assert_eq!(report.bytes(), b"nowhere");
            },
            LATE,
        )
        .expect_done();
    assert_eq!(network.host_counters(long).forwarded, 1);
    assert_eq!(network.host_counters(short).forwarded, 0);
}

/// RFC 1191 §4, RFC 4443 §3.2: the sender learns the MTU of the smallest link.
#[test]
fn packets_too_big_are_reported_to_the_sender() {
    for (near, far) in [("10.0.0.1", "10.9.0.1"), ("2001:db8::1", "2001:db8:9::1")] {
        let network = Network::new(1);
        let client = network.host("client", &[ip(near)]);
        let server = network.host("server", &[ip(far)]);
        let router = network.router("router");
        network.link(client, router, &link("delay=1ms,mtu=1500")).expect("a link");
        network.link(router, server, &link("delay=1ms,mtu=1280")).expect("a link");
        network.capture(client);
        let (here, there) = (network.world(client), network.world(server));
        network
            .run(
                async {
                    let raw = here.bind(RAW).await.expect("bound");
                    let udp = here.bind(Local::Udp { port: 9899 }).await.expect("bound");
                    let far_raw = there.bind(RAW).await.expect("bound");
                    let header = if ip(near).is_ipv4() { 20 } else { 40 };
                    let (from, to) = ((ip(near), 0).into(), (ip(far), 0).into());

                    // The first packet exceeds the MTU of the router's link by one byte, and the next packet fits.
                    send(&raw, from, to, &vec![5; 1281 - header]).await;
                    let report = recv(&raw).await;
                    let icmp = Icmp { kind: IcmpKind::TooBig(1280), source: ip(near), target: ip(far) };
                    assert_eq!(report.icmp, Some(icmp));
                    assert!(report.bytes().len() >= 8 && report.bytes().iter().all(|byte| *byte == 5));
                    send(&raw, from, to, &vec![6; 1280 - header]).await;
                    assert_eq!(recv(&far_raw).await.bytes().len(), 1280 - header);

                    // This packet exceeds the MTU of the host's own link.
                    send(&raw, from, to, &vec![7; 1501 - header]).await;
                    assert_eq!(recv(&raw).await.icmp.map(|icmp| icmp.kind), Some(IcmpKind::TooBig(1500)));

                    // For UDP, the ICMP report has the ports of the packet. The report's bytes are those that follow
                    // the packet's UDP header.
                    let (from, to) = ((ip(near), 9899).into(), (ip(far), 4000).into());
                    send(&udp, from, to, &[8; 1400]).await;
                    let report = recv(&udp).await;
                    assert_eq!((report.icmp, report.source, report.target), (Some(icmp), to, from));
                    assert!(report.bytes().iter().all(|byte| *byte == 8));
                },
                LATE,
            )
            .expect_done();
        assert_eq!(network.host_counters(router).too_big, 2);
        assert_eq!(network.host_counters(client).too_big, 1);
    }
}

/// RFC 1122 §3.2.2.1, RFC 4443 §3.1 and §3.4: a host answers a packet for an unused port or protocol with an ICMP
/// message, unless it is configured not to.
#[test]
fn unknown_ports_and_protocols_are_unreachable_unless_the_host_is_silent() {
    for (near, far, port, protocol) in [
        ("10.0.0.1", "10.0.0.2", 3, IcmpKind::Unreachable(2)),
        ("2001:db8::1", "2001:db8::2", 4, IcmpKind::UnknownNextHeader),
    ] {
        let network = Network::new(1);
        let client = network.host("client", &[ip(near)]);
        let server = network.host("server", &[ip(far)]);
        network.link(client, server, &link("delay=1ms")).expect("a link");
        let here = network.world(client);
        let program = async {
            let udp = here.bind(Local::Udp { port: 1000 }).await.expect("bound");
            let raw = here.bind(RAW).await.expect("bound");
            send(&udp, (ip(near), 1000).into(), (ip(far), 2000).into(), b"udp").await;
            send(&raw, (ip(near), 0).into(), (ip(far), 0).into(), b"sctp").await;
            let first = recv_within(&here, &udp, Duration::from_millis(100)).await;
            let second = recv_within(&here, &raw, Duration::from_millis(100)).await;
            [first, second].map(|batch| batch.and_then(|batch| batch.icmp).map(|icmp| icmp.kind))
        };
        let expected = [IcmpKind::Unreachable(port), protocol].map(Some);
        assert_eq!(network.run(program, LATE).expect_done(), expected);
        assert_eq!(network.host_counters(server).stray, 2);

        network.set_answers_strays(server, false);
        let program = async {
            let raw = here.bind(RAW).await.expect("bound");
            send(&raw, (ip(near), 0).into(), (ip(far), 0).into(), b"sctp").await;
            recv_within(&here, &raw, Duration::from_millis(100)).await.is_none()
        };
        assert!(network.run(program, LATE).expect_done());
    }
}

#[test]
fn a_loop_of_routes_ends_with_the_hop_limit() {
    let network = Network::new(1);
    let client = network.host("client", &[ip("10.0.0.1")]);
    let (left, right) = (network.router("left"), network.router("right"));
    network.link(client, left, &link("delay=1ms")).expect("a link");
    let (there, back) = (network.interface(left, &[]), network.interface(right, &[]));
    network.link(there, back, &link("delay=1ms")).expect("a link");
    network.route(ip("192.0.2.0"), 24, there);
    network.route(ip("192.0.2.0"), 24, back);
    let here = network.world(client);
    let program = async {
        let raw = here.bind(RAW).await.expect("bound");
        send(&raw, at("10.0.0.1:0"), at("192.0.2.1:0"), b"round and round").await;
        here.sleep_until(LATE).await;
    };
    network.run(program, LATE).expect_done();
    let (left, right) = (network.host_counters(left), network.host_counters(right));
    assert_eq!((left.forwarded + right.forwarded, left.hop_limit + right.hop_limit), (63, 1));
}

/// The link corrupts half of the packets. Raw sockets get corrupted packets, unless the IP header checksum is wrong.
/// UDP sockets get no corrupted packet.
#[test]
fn corruption_is_noticed_by_checksums() {
    let network = Network::new(3);
    let client = network.host("client", &[ip("10.0.0.1")]);
    let server = network.host("server", &[ip("10.0.0.2")]);
    network.link(client, server, &link("rate=100mbit,delay=1ms,queue=10000p,corrupt=50%")).expect("a link");
    let (here, there) = (network.world(client), network.world(server));
    let (clean, damaged) = network
        .run(
            async {
                let udp = here.bind(Local::Udp { port: 1 }).await.expect("bound");
                let far_udp = there.bind(Local::Udp { port: 2 }).await.expect("bound");
                let raw = here.bind(RAW).await.expect("bound");
                let far_raw = there.bind(RAW).await.expect("bound");
                for _ in 0..1000 {
                    send(&udp, at("10.0.0.1:1"), at("10.0.0.2:2"), &[7; 100]).await;
                    send(&raw, at("10.0.0.1:0"), at("10.0.0.2:0"), &[7; 100]).await;
                }
                let mut clean = 0;
                while let Some(batch) = recv_within(&there, &far_udp, Duration::from_millis(500)).await {
                    assert_eq!(batch.bytes(), [7; 100], "UDP never hands over damage");
                    clean += 1;
                }
                let mut damaged = 0;
                while let Some(batch) = recv_within(&there, &far_raw, Duration::from_millis(500)).await {
                    damaged += usize::from(batch.bytes() != [7; 100]);
                }
                (clean, damaged)
            },
            LATE,
        )
        .expect_done();
    assert!((400..600).contains(&clean), "{clean}");
    // About a sixth of the corrupted packets have the error in the IP header, and are dropped.
    assert!((300..500).contains(&damaged), "{damaged}");
    let counters = network.host_counters(server);
    assert!(counters.bad_header > 100 && counters.bad_transport > 300, "{counters:?}");
}
