//! Probes whether a transport accepts forged packets. A third host sends a packet with A's address as the source. The
//! hosts share no key, so B can only check the addresses and numbers in the packet's headers.

use super::harness::{Harness, numbered, send_packet};
use super::testbed::{A, B, PORT, Testbed, v4};
use super::{FeatureCell, TransportKind};
use anabranch_link::LinkSpec;
use anabranch_sim::{Network, NodeId};
use anabranch_wire::pcap;
use anabranch_wire::tcp::seal;
use anabranch_world::{Local, World};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The size in bytes of each message that A or the forger sends.
const SIZE: usize = 50;
/// The number that the forged message carries.
const FORGED: u32 = 666;

/// Probes whether B accepts a forged packet as if A had sent it.
pub(super) fn probe(kind: TransportKind) -> Result<FeatureCell, String> {
    let (testbed, forger) = testbed()?;
    let received = testbed.run(async {
        let mut harness = Harness::start(&testbed, &kind.carrier(&[])).await?;
        harness.connect().await;
        harness.say(A, 1, SIZE);
        harness.pass(500).await;
        inject(&testbed, forger, kind).await?;
        harness.pass(500).await;
        Ok(harness.numbers(B, SIZE))
    })?;
    let packet = match kind {
        TransportKind::Udp => "a datagram that a third host sends with A's address and port",
        _ => "a segment that a third host sends with A's address, ports and next sequence number",
    };
    let is_accepted = received.contains(&FORGED);
    let outcome = if is_accepted { "comes to B as A's" } else { "does not come to B" };
    Ok(FeatureCell::of(received.contains(&1) && !is_accepted, format!("it takes no key; {packet} {outcome}")))
}

/// Builds a network of A and B with a router between them, and a third host that also has A's address.
fn testbed() -> Result<(Testbed, NodeId), String> {
    let network = Network::new(1);
    let addresses: [Vec<IpAddr>; 2] =
        [vec![Ipv4Addr::new(10, 0, 1, 1).into()], vec![Ipv4Addr::new(10, 0, 2, 1).into()]];
    // C, the host that forges packets, shares A's address. Packets to a shared address go to the host that was created
    // last, so C is created before A.
    let forger = network.host("C", &addresses[A]);
    let nodes = [network.host("A", &addresses[A]), network.host("B", &addresses[B])];
    let router = network.router("router");
    let mut links = Vec::new();
    let spec = LinkSpec::parse("rate=10mbit,rtt=20ms,queue=100p").map_err(|error| error.to_string())?;
    for host in [nodes[A], nodes[B], forger] {
        links.push(network.link(host, router, &spec).map_err(|error| error.to_string())?);
    }
    network.set_answers_strays(forger, false);
    network.capture(nodes[A]);
    Ok((Testbed { network, nodes, addresses, links, router: Some(router) }, forger))
}

/// Lets the forger send the packet that A would send next.
async fn inject(testbed: &Testbed, forger: NodeId, kind: TransportKind) -> io::Result<()> {
    let [source, target] = [testbed.addresses[A][0], testbed.addresses[B][0]];
    let message = numbered(FORGED, SIZE);
    let (local, ports, bytes) = if kind == TransportKind::Udp {
        let ports = [PORT + A as u16, PORT + B as u16];
        (Local::Udp { port: ports[A] }, ports, message)
    } else {
        (Local::Ip { protocol: 6 }, [0, 0], next_segment(testbed, source, target, &message)?)
    };
    let socket = testbed.network.world(forger).bind(local).await?;
    send_packet(&socket, SocketAddr::new(source, ports[A]), SocketAddr::new(target, ports[B]), &bytes)
}

/// Builds the TCP segment that follows A's last segment with data, as an eavesdropper could.
fn next_segment(testbed: &Testbed, source: IpAddr, target: IpAddr, message: &[u8]) -> io::Result<Vec<u8>> {
    let seen = testbed.network.finish_capture(testbed.nodes[A])?;
    let mut reader = pcap::Reader::new(&seen).map_err(io::Error::other)?;
    let mut last = None;
    while let Some(record) = reader.next_packet().map_err(io::Error::other)? {
        let Some((from, _, segment)) = v4(record.packet) else { continue };
        // RFC 9293 §3.1: the data offset counts words of four bytes.
        let head = segment.get(12).map_or(0, |offset| usize::from(offset >> 4) * 4);
        if from == source && segment.len() == head + SIZE {
            last = Some((segment.to_vec(), head));
        }
    }
    let (mut segment, head) = last.ok_or_else(|| io::Error::other("A sent no data"))?;
    let seq = segment[4..].first_chunk().map_or(0, |seq| u32::from_be_bytes(*seq));
    segment[4..8].copy_from_slice(&seq.wrapping_add(SIZE as u32).to_be_bytes());
    segment[head..].copy_from_slice(message);
    segment[16..18].fill(0);
    seal(&mut segment, source, target);
    Ok(segment)
}
