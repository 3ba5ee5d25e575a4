//! Tests of packets that hosts and routers may fragment: their reassembly, and how captures show them.

use crate::support::*;
use anabranch_base::engine::IcmpKind;
use anabranch_base::time::Duration;
use anabranch_base::{Ecn, SendBatch};
use anabranch_sim::{Network, NodeId, SimSocket, SimWorld};
use anabranch_wire::ip::Packet;
use anabranch_wire::pcap::Reader;
use anabranch_world::{DatagramSocket, Local, World};
use std::future::poll_fn;
use std::io::Write;
use std::net::SocketAddr;
use std::process::Command;

const UDP: Local = Local::Udp { port: 5_000 };

/// A client, a router and a server in a line. The client's link has an MTU of 1500, and the server's link an MTU of
/// `mtu`.
struct Line {
    network: Network,
    nodes: [NodeId; 3],
}

impl Line {
    fn new(mtu: u32, near: &str, far: &str) -> Self {
        let network = Network::new(1);
        let (client, router) = (network.host("client", &[ip(near)]), network.router("router"));
        let server = network.host("server", &[ip(far)]);
        network.link(client, router, &link("rate=8mbit,delay=1ms,queue=200p,mtu=1500")).expect("a link");
        let narrow = link(&format!("rate=8mbit,delay=1ms,queue=200p,mtu={mtu}"));
        network.link(router, server, &narrow).expect("a link");
        network.capture(client);
        network.capture(server);
        Self { network, nodes: [client, router, server] }
    }

    fn worlds(&self) -> [SimWorld; 2] {
        [self.network.world(self.nodes[0]), self.network.world(self.nodes[2])]
    }
}

fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + (i >> 8)) as u8).collect()
}

async fn send_fragmentable(socket: &SimSocket, from: SocketAddr, to: SocketAddr, payload: &[u8]) {
    let mut batch = SendBatch::new(1);
    (batch.source, batch.target, batch.first_tag, batch.ecn) = (from, to, 7, Ecn::Ect0);
    batch.may_fragment = true;
    batch.push(payload);
    poll_fn(|cx| socket.poll_send(cx, &mut batch)).await.expect("the host takes it");
}

/// Returns the number of packets in a capture, and how many of them are fragments. Verifies every header checksum.
fn count(capture: &[u8]) -> (usize, usize) {
    let mut reader = Reader::new(capture).expect("a capture");
    let (mut packets, mut fragments) = (0, 0);
    while let Some(record) = reader.next_packet().expect("whole") {
        packets += 1;
        let packet = Packet::parse(record.packet).expect("an IP packet with a right checksum");
        fragments += usize::from(packet.fragment.is_some());
    }
    (packets, fragments)
}

/// RFC 791 §3.2, RFC 8200 §4.5: the router fragments an IPv4 packet that exceeds the MTU of its link. The sender of an
/// IPv6 packet fragments it to 1280 bytes. Each packet arrives complete, with its ECN mark and tag.
#[test]
fn routers_cut_version_4_and_senders_version_6() {
    for (near, far, mtu, at_sender, at_router) in
        [("10.0.0.1", "10.0.1.1", 600, 0, 1), ("2001:db8::1", "2001:db8:1::1", 1280, 1, 0)]
    {
        for local in [UDP, Local::Ip { protocol: 132 }] {
            let line = Line::new(mtu, near, far);
            let [here, there] = line.worlds();
            let port = if local == UDP { 5_000 } else { 0 };
            let (from, to) = ((ip(near), port).into(), (ip(far), port).into());
            let program = async {
                let (a, b) =
                    (here.bind(local).await.expect("bound"), there.bind(local).await.expect("bound"));
                let payload = bytes(1_400);
                send_fragmentable(&a, from, to, &payload).await;
                let batch = recv_within(&there, &b, Duration::from_secs(1)).await.expect("it arrives");
                assert_eq!(batch.bytes(), payload);
                assert_eq!((batch.ecn, batch.first_tag, batch.source), (Ecn::Ect0, 7, from));
                // A packet that may not be fragmented is dropped and reported.
                send(&a, from, to, &payload).await;
                let report = recv_within(&here, &a, Duration::from_secs(1)).await.expect("a report");
                assert_eq!(report.icmp.map(|icmp| icmp.kind), Some(IcmpKind::TooBig(mtu)));
            };
            line.network.run(program, LATE).expect_done();
            let [sender, router, receiver] = line.nodes.map(|node| line.network.host_counters(node));
            assert_eq!((sender.fragmented, router.fragmented), (at_sender, at_router));
            let pieces = if mtu == 600 { 3 } else { 2 };
            assert_eq!(
                (receiver.fragments, receiver.reassembled, receiver.reassembly_failed),
                (pieces, 1, 0)
            );
            let capture = line.network.finish_capture(line.nodes[2]).expect("memory takes it");
            assert_eq!(count(&capture), (pieces as usize, pieces as usize));
        }
    }
}

/// A host fragments a packet that exceeds the MTU of its own link, and the router fragments the fragments again. If one
/// fragment is lost, the packet is lost.
#[test]
fn pieces_are_cut_again_and_one_lost_loses_the_packet() {
    let line = Line::new(300, "10.0.0.1", "10.0.1.1");
    let [here, there] = line.worlds();
    let program = async {
        let (a, b) = (here.bind(UDP).await.expect("bound"), there.bind(UDP).await.expect("bound"));
        let payload = bytes(20_000);
        send_fragmentable(&a, at("10.0.0.1:5000"), at("10.0.1.1:5000"), &payload).await;
        let batch = recv_within(&there, &b, Duration::from_secs(1)).await.expect("it arrives");
        assert!(batch.bytes() == payload);
    };
    line.network.run(program, LATE).expect_done();
    let [sender, router, receiver] = line.nodes.map(|node| line.network.host_counters(node));
    assert_eq!((sender.fragmented, router.fragmented), (1, 14));
    assert!(receiver.fragments > 70 && receiver.reassembled == 1, "{receiver:?}");

    let (network, here, there) =
        two_hosts(1, "rate=8mbit,delay=1ms,queue=200p,mtu=600,loss=list:2", "10.0.0.1", "10.0.0.2");
    let program = async {
        let (a, b) = (here.bind(UDP).await.expect("bound"), there.bind(UDP).await.expect("bound"));
        send_fragmentable(&a, at("10.0.0.1:5000"), at("10.0.0.2:5000"), &bytes(1_400)).await;
        assert!(recv_within(&there, &b, Duration::from_secs(1)).await.is_none(), "a piece is missing");
        send_fragmentable(&a, at("10.0.0.1:5000"), at("10.0.0.2:5000"), &bytes(1_300)).await;
        let batch = recv_within(&there, &b, Duration::from_secs(1)).await.expect("the next is whole");
        assert_eq!(batch.bytes(), bytes(1_300));
    };
    network.run(program, LATE).expect_done();
}

/// tshark reassembles the fragments and finds every checksum correct.
#[test]
fn tshark_accepts_the_pieces() {
    for (near, far, mtu) in [("10.0.0.1", "10.0.1.1", 600), ("2001:db8::1", "2001:db8:1::1", 1280)] {
        let line = Line::new(mtu, near, far);
        let [here, there] = line.worlds();
        let program = async {
            let (a, b) = (here.bind(UDP).await.expect("bound"), there.bind(UDP).await.expect("bound"));
            for _ in 0..3 {
                let (from, to) = ((ip(near), 5_000).into(), (ip(far), 5_000).into());
                send_fragmentable(&a, from, to, &bytes(1_450)).await;
                recv(&b).await;
            }
        };
        line.network.run(program, LATE).expect_done();
        let capture = line.network.finish_capture(line.nodes[2]).expect("memory takes it");
        let Some(good) = tshark(&capture, "udp.checksum.status == 1 && udp.length == 1458") else {
            eprintln!("skipped: no tshark here");
            return;
        };
        assert_eq!(good.lines().count(), 3, "{good}");
        let bad = "_ws.malformed || ip.checksum.status == 0 || udp.checksum.status == 0 || \
                   ip.fragment.error || ipv6.fragment.error || _ws.expert.severity >= 6291456";
        assert_eq!(tshark(&capture, bad).as_deref(), Some(""));
    }
}

fn tshark(capture: &[u8], filter: &str) -> Option<String> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-2", "-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"]);
    command.args(["-Y", filter]);
    // tshark's two passes need a file, because standard input can be read only once.
    let path = std::env::temp_dir().join(format!("anabranch-fragments-{}.pcapng", std::process::id()));
    std::fs::File::create(&path).ok()?.write_all(capture).ok()?;
    command.args(["-r", path.to_str()?]);
    let output = command.output().ok()?;
    let _ = std::fs::remove_file(&path);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}
