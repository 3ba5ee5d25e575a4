//! Runs random traffic over links with random faults, with many seeds, and checks the invariants that must always hold.
//!
//! `SEED=n` runs one seed, `SEEDS=n` the first n seeds.

mod support;

use anabranch_base::time::Duration;
use anabranch_base::{Ecn, Rng};
use anabranch_sim::{Direction, Network, SimWorld, random_link};
use anabranch_world::{DatagramSocket, Local, World};
use std::future::poll_fn;
use support::*;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn every_packet_is_accounted_for() {
    let seeds = number("SEED").map_or(0..number("SEEDS").unwrap_or(150), |seed| seed..seed + 1);
    for seed in seeds {
        let hint = format!("replay with SEED={seed} cargo test -p anabranch-sim --test swarm");
        let result = std::panic::catch_unwind(|| storm(seed));
        let Ok(digest) = result else { panic!("{hint}") };
        if seed.is_multiple_of(10) {
            assert_eq!(digest, storm(seed), "not the same twice; {hint}");
        }
    }
}

/// Runs a storm on two hosts with two paths. The IPv4 path leads over two routers, and the IPv6 path is direct. Returns
/// the digest of all events.
fn storm(seed: u64) -> u64 {
    let mut rng = Rng::new(seed).fork("storm");
    let network = Network::new(seed);
    network.audit(false);
    network.record_link_events();
    let client = network.host("client", &[ip("10.0.0.1"), ip("2001:db8::1")]);
    let server = network.host("server", &[ip("10.0.0.2"), ip("2001:db8::2")]);
    let (left, right) = (network.router("left"), network.router("right"));
    let links = [
        network.link(client, left, &random_link(&mut rng)),
        network.link(left, right, &random_link(&mut rng)),
        network.link(right, server, &random_link(&mut rng)),
        network.link(client, server, &random_link(&mut rng)),
    ]
    .map(|link| link.expect("a link"));
    let (here, there) = (network.world(client), network.world(server));
    let program = async {
        let one = here.spawn("noise", noise(here.clone(), there.addresses()));
        let other = there.spawn("noise", noise(there.clone(), here.addresses()));
        one.await;
        other.await;
        // In this time, every packet in flight arrives or is lost.
        here.sleep_until(here.now() + Duration::from_secs(600)).await;
    };
    network.run(program, LATE).expect_done();
    for link in links {
        for direction in [Direction::Up, Direction::Down] {
            let meter = network.link_counters(link, direction).meter;
            assert_eq!(meter.carried(), meter.left.plus(meter.lost()), "{meter:?}");
        }
    }
    let link_events = network.take_link_events();
    let entered = link_events.iter().filter(|p| p.event == anabranch_sim::TapEvent::Entered).count();
    assert!(entered > 100, "{entered} packets are no storm");
    network.digest()
}

/// Sends packets of every size and kind to `peers`, and reads incoming packets.
async fn noise(world: SimWorld, peers: Vec<std::net::IpAddr>) {
    let mut rng = world.rng("noise");
    let raw = world.bind(Local::Ip { protocol: 132 }).await.expect("bound");
    let udp = world.bind(Local::Udp { port: 9899 }).await.expect("bound");
    let mut batch = anabranch_base::SendBatch::new(1);
    for tag in 1..200 {
        let path = rng.below(2) as usize;
        let own = world.addresses()[path];
        let (socket, port) = if rng.below(2) == 0 { (&raw, 0) } else { (&udp, 9899) };
        // Some packets are sent to a port without a listener.
        let target = if port != 0 && rng.below(10) == 0 { 7 } else { port };
        batch.clear();
        (batch.source, batch.target, batch.first_tag) =
            ((own, port).into(), (peers[path], target).into(), tag);
        batch.ecn = Ecn::from_bits(rng.next_u64() as u8);
        let most = if rng.below(4) == 0 { 9000 } else { 1400 };
        let size = 1 + rng.below(most) as usize;
        batch.push_with(|buffer| {
            let begin = buffer.len();
            buffer.resize(begin + size, 0);
            rng.fill(&mut buffer[begin..]);
        });
        poll_fn(|cx| socket.poll_send(cx, &mut batch)).await.expect("the host takes it");
        let span = rng.duration_up_to(Duration::from_millis(50));
        while let Some(received) =
            recv_within(&world, if rng.below(2) == 0 { &raw } else { &udp }, span).await
        {
            assert!(!received.bytes().is_empty());
            assert!(world.addresses().contains(&received.target.ip()));
        }
    }
}
