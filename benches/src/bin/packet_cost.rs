//! Measures the cost of one packet in the simulated network, without a transport protocol. One task sends packets from
//! its host over a link; another task receives them and acknowledges every second packet.
//!
//!     cargo run --release --bin packet_cost
//!
//! Prints CPU time per packet (wall time of a busy thread). Compare only runs on the same machine.

use anabranch_base::{Instant, RecvBatch, SendBatch};
use anabranch_link::LinkSpec;
use anabranch_sim::{Network, SimWorld};
use anabranch_world::{DatagramSocket, Local, World};
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;

const PACKETS: u64 = 2_000_000;
const WINDOW: u64 = 200;

/// Sends `PACKETS` packets. At most `WINDOW` packets are unacknowledged at any time.
async fn send(world: SimWorld, from: IpAddr, to: IpAddr, at: Local) -> io::Result<u64> {
    let socket = world.bind(at).await?;
    let (mut out, mut input) = (SendBatch::new(1), RecvBatch::new(1));
    let (mut sent, mut acknowledged) = (0, 0);
    while acknowledged < PACKETS {
        while sent < PACKETS && sent - acknowledged < WINDOW {
            sent += 1;
            (out.source, out.target, out.first_tag) = ((from, 0).into(), (to, 7).into(), sent);
            out.push_with(|buffer| {
                buffer.extend_from_slice(&sent.to_be_bytes());
                buffer.resize(buffer.len() + 1452, 0);
            });
            poll_fn(|cx| socket.poll_send(cx, &mut out)).await?;
        }
        poll_fn(|cx| socket.poll_recv(cx, &mut input)).await?;
        acknowledged += 2;
    }
    Ok(sent)
}

/// Receives packets and acknowledges every second one.
async fn receive(world: SimWorld, at: Local) -> io::Result<()> {
    let socket = world.bind(at).await?;
    let (mut out, mut input) = (SendBatch::new(1), RecvBatch::new(1));
    let mut received = 0_u64;
    loop {
        poll_fn(|cx| socket.poll_recv(cx, &mut input)).await?;
        received += 1;
        if received.is_multiple_of(2) {
            (out.source, out.target) = (input.target, input.source);
            out.push(&[0; 20]);
            poll_fn(|cx| socket.poll_send(cx, &mut out)).await?;
        }
    }
}

fn measure(
    name: &str,
    network: &Network,
    near: IpAddr,
    far: IpAddr,
    sender: Local,
    receiver: Local,
    ends: (SimWorld, SimWorld),
) {
    let (here, there) = ends;
    let _receiver = there.spawn("receive", receive(there.clone(), receiver));
    let start = std::time::Instant::now();
    let sent = network.run(send(here.clone(), near, far, sender), Instant::MAX).expect_done();
    let took = start.elapsed();
    let packets = sent.unwrap_or(0) * 3 / 2;
    let each = took.as_nanos() as u64 / packets.max(1);
    println!(
        "{name:<40} {each:>5} ns a packet ({packets} packets, {:.2} s, {} virtual)",
        took.as_secs_f64(),
        here.now()
    );
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let spec = LinkSpec::parse("rate=100mbit,rtt=20ms,queue=500p,loss=0")?;
    let (near, far): (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let (near6, far6): (IpAddr, IpAddr) = ("2001:db8::1".parse()?, "2001:db8::2".parse()?);
    let raw = Local::Ip { protocol: 132 };
    let direct = |near: IpAddr, far: IpAddr| -> Result<_, Box<dyn std::error::Error>> {
        let network = Network::new(1);
        let (client, server) = (network.host("client", &[near]), network.host("server", &[far]));
        network.link(client, server, &spec)?;
        let ends = (network.world(client), network.world(server));
        Ok((network, ends))
    };
    for _ in 0..2 {
        let (network, ends) = direct(near, far)?;
        measure("IPv4, one link", &network, near, far, raw, raw, ends);
    }
    let (network, ends) = direct(near6, far6)?;
    measure("IPv6, one link", &network, near6, far6, raw, raw, ends);
    let (network, ends) = direct(near, far)?;
    let (from, to) = (Local::Udp { port: 9 }, Local::Udp { port: 7 });
    measure("IPv4 and UDP with checksum, one link", &network, near, far, from, to, ends);
    let (network, ends) = direct(near, far)?;
    network.audit(false);
    measure("IPv4, one link, with digest", &network, near, far, raw, raw, ends);

    let network = Network::new(1);
    let (client, server) = (network.host("client", &[near]), network.host("server", &[far]));
    let (left, right) = (network.router("left"), network.router("right"));
    let access = LinkSpec::parse("rate=1gbit,rtt=1ms,queue=500p")?;
    network.link(client, left, &access)?;
    network.link(left, right, &spec)?;
    network.link(right, server, &access)?;
    let ends = (network.world(client), network.world(server));
    measure("IPv4, three links, two routers", &network, near, far, raw, raw, ends);
    Ok(())
}
