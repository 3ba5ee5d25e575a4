//! Tests of hosts whose processor takes time for its work, and of their bounded queues.

use crate::support::*;
use anabranch_base::time::Duration;
use anabranch_sim::{Cost, Network};
use anabranch_world::{Local, Work, World};

const RAW: Local = Local::Ip { protocol: 132 };

fn hosts() -> (Network, anabranch_sim::NodeId, anabranch_sim::NodeId) {
    let network = Network::new(1);
    let (client, server) =
        (network.host("client", &[ip("10.0.0.1")]), network.host("server", &[ip("10.0.0.2")]));
    network.link(client, server, &link("rate=1gbit,delay=1ms,queue=5000p")).expect("a link");
    (network, client, server)
}

#[test]
fn packets_wait_for_the_processor_both_ways() {
    let (network, client, server) = hosts();
    let cost = Cost {
        per_packet: Duration::from_micros(50),
        per_byte: Duration::from_nanos(100),
        per_connection: Duration::from_millis(3),
        per_request: Duration::from_millis(7),
    };
    network.set_processing_cost(server, cost);
    let (here, there) = (network.world(client), network.world(server));
    let instants = network.run(
        async {
            let (a, b) = (here.bind(RAW).await.expect("bound"), there.bind(RAW).await.expect("bound"));
            for _ in 0..3 {
                // A packet of 1000 bytes takes 8 us on the link and 150 us of processor time.
                send(&a, at("10.0.0.1:0"), at("10.0.0.2:0"), &[1; 980]).await;
            }
            let mut instants = Vec::new();
            for _ in 0..3 {
                recv(&b).await;
                instants.push(there.now());
            }
            there.charge(Work::Connection);
            send(&b, at("10.0.0.2:0"), at("10.0.0.1:0"), &[2; 980]).await;
            recv(&a).await;
            instants.push(here.now());
            there.charge(Work::Request);
            send(&b, at("10.0.0.2:0"), at("10.0.0.1:0"), &[2; 980]).await;
            recv(&a).await;
            instants.push(here.now());
            instants
        },
        LATE,
    );
    let accepted = 1458 + 3000 + 150 + 8 + 1000;
    let answered = accepted + 7000 + 150 + 8 + 1000;
    let instants = instants.expect_done();
    assert_eq!(instants, [1158, 1308, 1458, accepted, answered].map(micros));
}

#[test]
fn charging_has_no_effect_without_a_configured_cost() {
    let (network, _, server) = hosts();
    let there = network.world(server);
    there.charge(Work::Connection);
    network.run(there.sleep_until(micros(1)), LATE).expect_done();
    assert_eq!(network.now(), micros(1));
}

#[test]
fn a_full_processor_queue_drops_and_counts() {
    let (network, client, server) = hosts();
    network.set_processing_cost(server, Cost { per_packet: Duration::from_millis(1), ..Cost::default() });
    let (here, there) = (network.world(client), network.world(server));
    let received = |count: u64| {
        let (here, there) = (here.clone(), there.clone());
        async move {
            let (a, b) = (here.bind(RAW).await.expect("bound"), there.bind(RAW).await.expect("bound"));
            for _ in 0..count {
                send(&a, at("10.0.0.1:0"), at("10.0.0.2:0"), &[1; 952]).await;
            }
            there.sleep_until(there.now() + Duration::from_secs(10)).await;
            let mut received = 0;
            while recv_within(&there, &b, Duration::from_millis(1)).await.is_some() {
                received += 1;
            }
            received
        }
    };
    // 2000 packets arrive in 16 ms. The processor handles about 15 packets in that time, and its queue holds 1000
    // packets.
    let worked = network.run(received(2000), LATE).expect_done();
    let counters = network.host_counters(server);
    assert_eq!(counters.processor_full + worked, 2000);
    assert!((1000..1020).contains(&worked), "{worked}");

    network.set_processing_cost(server, Cost::default());
    network.set_receive_buffer(server, 100_000);
    let accepted = network.run(received(2000), LATE).expect_done();
    // Each buffer holds a packet of 972 bytes and the headroom in front of it, so 100 buffers fit.
    assert_eq!(accepted, 100);
    assert_eq!(network.host_counters(server).socket_full, 1900);
}
