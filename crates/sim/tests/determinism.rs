//! Two simulations with the same seed must carry the same bytes at the same times. With another seed, bytes and times
//! must differ.

use crate::support::*;
use anabranch_base::time::Duration;
use anabranch_sim::{Direction, Network, SimWorld};
use anabranch_world::{Local, World};

/// Runs several flows over a bottleneck that has every impairment of a link.
fn run(seed: u64) -> (u64, usize, Vec<u8>) {
    let network = Network::new(seed);
    network.audit(true);
    let (left, right) = (network.router("left"), network.router("right"));
    let bottleneck =
        link("rate=5mbit,delay=20ms,jitter=3ms,loss=ge:1%/30%,queue=30p,reorder=1%,duplicate=1%,corrupt=1%");
    let middle = network.link(left, right, &bottleneck).expect("a link");
    let (mut worlds, mut captured) = (Vec::new(), None);
    for number in 1..=5 {
        let name = format!("client {number}");
        let client = network.host(&name, &[[10, 0, 0, number].into()]);
        let server = network.host(&format!("server {number}"), &[[10, 1, 0, number].into()]);
        network.link(client, left, &link("rate=100mbit,delay=1ms")).expect("a link");
        network.link(right, server, &link("rate=100mbit,delay=1ms")).expect("a link");
        network.capture(client);
        captured = Some(client);
        worlds.push((network.world(client), network.world(server)));
    }
    let program = async {
        let tasks: Vec<_> = worlds
            .iter()
            .flat_map(|(client, server)| {
                [client.spawn("talk", talk(client.clone())), server.spawn("answer", answer(server.clone()))]
            })
            .collect();
        for task in tasks {
            task.await;
        }
    };
    network.run(program, LATE).expect_done();
    assert!(network.link_counters(middle, Direction::Up).meter.lost().packets > 0);
    let client = network.finish_capture(captured.expect("a client")).expect("a capture");
    (network.digest(), network.trail().len(), client)
}

async fn talk(world: SimWorld) {
    let socket = world.bind(Local::Udp { port: 100 }).await.expect("bound");
    let mut rng = world.rng("talk");
    let own = world.addresses()[0];
    let peer = match own {
        std::net::IpAddr::V4(own) => std::net::Ipv4Addr::from_bits(own.to_bits() + (1 << 16)),
        std::net::IpAddr::V6(_) => unreachable!("these hosts speak IPv4"),
    };
    for tag in 1..300 {
        let mut payload = vec![0; 1 + rng.below(1400) as usize];
        rng.fill(&mut payload);
        send_tagged(&socket, (own, 100).into(), (peer, 200).into(), &payload, tag).await;
        recv_within(&world, &socket, Duration::from_millis(rng.below(10))).await;
    }
}

async fn answer(world: SimWorld) {
    let socket = world.bind(Local::Udp { port: 200 }).await.expect("bound");
    while let Some(batch) = recv_within(&world, &socket, Duration::from_secs(2)).await {
        send(&socket, batch.target, batch.source, &batch.bytes()[..1]).await;
    }
}

#[test]
fn the_seed_decides_everything() {
    let (digest, events, capture) = run(7);
    assert!(events > 5000, "{events}");
    assert_eq!((digest, events, capture.clone()), run(7));
    let other = run(8);
    assert_ne!(digest, other.0);
    assert_ne!(capture, other.2);
}
