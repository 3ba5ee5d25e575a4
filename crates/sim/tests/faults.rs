//! Tests of outages, and of changes of links and addresses during a run.

use crate::support::*;
use anabranch_base::time::Duration;
use anabranch_base::{Instant, SendBatch};
use anabranch_sim::{Direction, Network, NetworkChange, SimWorld, TapEvent};
use anabranch_world::{DatagramSocket, Local, World};
use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;

const RAW: Local = Local::Ip { protocol: 132 };

/// Sends one packet each millisecond. Returns the numbers and arrival times of the packets that arrived.
async fn stream(here: SimWorld, there: SimWorld, count: u64) -> Vec<(u64, Instant)> {
    let (from, to) = ((here.addresses()[0], 0).into(), (there.addresses()[0], 0).into());
    let (a, b) = (here.bind(RAW).await.expect("bound"), there.bind(RAW).await.expect("bound"));
    let clock = here.clone();
    let sender = here.spawn("sender", async move {
        for tag in 1..=count {
            send_tagged(&a, from, to, &[1; 80], tag).await;
            clock.sleep_until(clock.now() + Duration::from_millis(1)).await;
        }
        a
    });
    let mut arrived = Vec::new();
    while let Some(batch) = recv_within(&there, &b, Duration::from_millis(100)).await {
        arrived.push((batch.first_tag, there.now()));
    }
    drop(sender.await);
    arrived
}

#[test]
fn a_cut_link_loses_entering_and_propagating_packets() {
    let network = Network::new(1);
    let (client, server) =
        (network.host("client", &[ip("10.0.0.1")]), network.host("server", &[ip("10.0.0.2")]));
    let path = network.link(client, server, &link("rate=8mbit,delay=5ms")).expect("a link");
    network.record_link_events();
    network.outage(path, micros(20_500), Some(Duration::from_millis(10)));
    let arrived = network.run(stream(network.world(client), network.world(server), 40), LATE).expect_done();
    // Packet n is sent at n - 1 ms and arrives 5.1 ms later. Packets 17 to 21 are in flight at 20.5 ms, and 22 to 31
    // are sent while the link is down. None of these packets arrives. The link works again from 30.5 ms on.
    let tags: Vec<_> = arrived.iter().map(|(tag, _)| *tag).collect();
    let expected: Vec<_> = (1..=16).chain(32..=40).collect();
    assert_eq!(tags, expected);
    let counters = network.link_counters(path, Direction::Up);
    assert_eq!(counters.switched_off, 15);
    let lost = network.take_link_events().iter().filter(|p| matches!(p.event, TapEvent::Lost(_))).count();
    assert_eq!(lost, 15);
}

#[test]
fn outages_of_the_description_let_what_propagates_arrive() {
    let network = Network::new(1);
    let (client, server) =
        (network.host("client", &[ip("10.0.0.1")]), network.host("server", &[ip("10.0.0.2")]));
    let mut spec = link("rate=8mbit,delay=5ms");
    spec.fail(&anabranch_link::PathOutage {
        at: Duration::from_micros(20_500),
        span: Some(Duration::from_millis(10)),
        path: 1,
    });
    let path = network.link(client, server, &spec).expect("a link");
    let arrived = network.run(stream(network.world(client), network.world(server), 40), LATE).expect_done();
    let tags: Vec<_> = arrived.iter().map(|(tag, _)| *tag).collect();
    assert_eq!(tags, (1..=21).chain(32..=40).collect::<Vec<_>>());
    assert_eq!(network.link_counters(path, Direction::Up).meter.lost_in_outage.packets, 10);
}

#[test]
fn a_link_described_anew_takes_effect_for_what_enters_later() {
    let network = Network::new(1);
    let (client, server) =
        (network.host("client", &[ip("10.0.0.1")]), network.host("server", &[ip("10.0.0.2")]));
    let path = network.link(client, server, &link("rate=8mbit,delay=5ms")).expect("a link");
    let slower = Box::new(link("rate=800kbit,delay=20ms,mtu=600"));
    network.schedule(micros(10_500), NetworkChange::Respec(path, slower)).expect("a link");
    let arrived = network.run(stream(network.world(client), network.world(server), 13), LATE).expect_done();
    let expected: Vec<_> = (1..=11)
        .map(|tag| (tag, micros((tag - 1) * 1000 + 5_100)))
        .chain((12..=13).map(|tag| (tag, micros((tag - 1) * 1000 + 21_000))))
        .collect();
    assert_eq!(arrived, expected);
    assert_eq!(network.link_counters(path, Direction::Up).meter.left.packets, 13);
}

#[test]
fn addresses_come_and_go() {
    let network = Network::new(1);
    let client = network.host("client", &[ip("10.0.0.1"), ip("10.1.0.1")]);
    let server = network.host("server", &[ip("10.0.0.2"), ip("10.1.0.2")]);
    for index in [0, 1] {
        let (a, b) = (client.interface(index), server.interface(index));
        network.link(a, b, &link("rate=8mbit,delay=1ms")).expect("a link");
    }
    let (here, there) = (network.world(client), network.world(server));
    let new = ip("10.5.0.1");
    network
        .schedule(micros(1000), NetworkChange::RemoveAddress(client.interface(0), ip("10.0.0.1")))
        .expect("fine");
    network.schedule(micros(2000), NetworkChange::AddAddress(client.interface(1), new)).expect("fine");
    network.change(NetworkChange::Prefer(server.interface(1))).expect("fine");
    let changes = Rc::new(Cell::new(0));
    let (watcher, count) = (here.clone(), changes.clone());
    let _watch = here.spawn("watch addresses", async move {
        loop {
            poll_fn(|cx| watcher.poll_address_change(cx)).await;
            count.set(count.get() + 1);
        }
    });
    network
        .run(
            async {
                let (a, b) = (here.bind(RAW).await.expect("bound"), there.bind(RAW).await.expect("bound"));
                send(&a, at("10.0.0.1:0"), at("10.0.0.2:0"), b"before").await;
                here.sleep_until(micros(1500)).await;
                assert_eq!(here.addresses(), [ip("10.1.0.1")]);
                let mut batch = SendBatch::new(1);
                (batch.source, batch.target) = (at("10.0.0.1:0"), at("10.0.0.2:0"));
                batch.push(b"after");
                let refused =
                    poll_fn(|cx| a.poll_send(cx, &mut batch)).await.expect_err("the address is gone");
                assert_eq!(refused.kind(), std::io::ErrorKind::AddrNotAvailable);
                // The server answers the packet that the client sent before it lost its address. The answer is lost,
                // because no host has the client's old address any more.
                let first = recv(&b).await;
                send(&b, first.target, first.source, b"answer").await;
                here.sleep_until(micros(5000)).await;
                assert_eq!(here.addresses(), [ip("10.1.0.1"), new]);
                assert_eq!(
                    there.addresses(),
                    [ip("10.1.0.2"), ip("10.0.0.2")],
                    "those it prefers come first"
                );
                send(&a, (new, 0).into(), at("10.1.0.2:0"), b"from the new one").await;
                let second = recv(&b).await;
                send(&b, second.target, second.source, b"answer").await;
                assert_eq!(recv(&a).await.bytes(), b"answer");
            },
            LATE,
        )
        .expect_done();
    assert_eq!(changes.get(), 2);
    assert_eq!(network.host_counters(client).not_ours + network.host_counters(server).no_route, 1);
}
