//! Tests of the packet filter, which drops packets at the sending host.

use crate::support::*;
use anabranch_base::SendBatch;
use anabranch_sim::{Direction, Network, SimSocket, TapEvent, TapRecord};
use anabranch_world::{DatagramSocket, Local, World};
use std::future::poll_fn;
use std::io;

const NEAR: &str = "10.0.0.1:0";
const FAR: &str = "10.0.0.2:0";

/// Sends one packet. A refused packet must stay in its batch, and any other packet must not.
async fn try_send(socket: &SimSocket, from: &str, to: &str) -> Result<(), io::ErrorKind> {
    let mut batch = SendBatch::new(1);
    (batch.source, batch.target, batch.first_tag) = (at(from), at(to), 7);
    batch.push(&[1; 80]);
    let result = poll_fn(|cx| socket.poll_send(cx, &mut batch)).await;
    assert_eq!(result.is_err(), !batch.is_empty(), "{result:?}");
    result.map_err(|error| error.kind())
}

/// Creates two hosts and a link whose loss is moved to the packet filters of the hosts.
fn filtered_hosts(loss: &str) -> (Network, anabranch_sim::SimWorld, anabranch_sim::SimWorld) {
    let network = Network::new(1);
    let (client, server) =
        (network.host("client", &[ip("10.0.0.1")]), network.host("server", &[ip("10.0.0.2")]));
    let spec = link(&format!("rate=10mbit,delay=1ms,{loss}"));
    let wire = network.link(client, server, &spec.lossless()).expect("a link");
    network.filter_output(wire, &spec).expect("rules");
    network.record_link_events();
    let (here, there) = (network.world(client), network.world(server));
    (network, here, there)
}

#[test]
fn a_dropped_packet_never_enters_the_link() {
    let (network, here, there) = filtered_hosts("loss=nth:2/first=2/shared");
    let raw = Local::Ip { protocol: 6 };
    let results = network.run(
        async {
            let (a, b) = (here.bind(raw).await.expect("bound"), there.bind(raw).await.expect("bound"));
            // The rules of both hosts share one packet counter, so the second and the fourth packet of the two hosts
            // together are dropped.
            let results = [
                try_send(&a, NEAR, FAR).await,
                try_send(&a, NEAR, FAR).await,
                try_send(&b, FAR, NEAR).await,
                try_send(&b, FAR, NEAR).await,
            ];
            here.sleep_until(micros(10_000)).await;
            results
        },
        LATE,
    );
    let refused = Err(io::ErrorKind::PermissionDenied);
    assert_eq!(results.expect_done(), [Ok(()), refused, Ok(()), refused]);
    let events = network.take_link_events();
    let of = |event: TapEvent| {
        let found = events.iter().filter(|record| record.event == event);
        found.map(|record: &TapRecord| (record.direction, record.bytes, record.tag)).collect::<Vec<_>>()
    };
    let one_each = [(Direction::Up, 100, 7), (Direction::Down, 100, 7)];
    assert_eq!(of(TapEvent::Entered), one_each);
    assert_eq!(of(TapEvent::Filtered), one_each);
    assert_eq!(of(TapEvent::Left), one_each);
}

/// A program with a UDP socket is not informed: the packet counts as sent.
#[test]
fn programs_with_udp_sockets_are_not_informed() {
    let (network, here, there) = filtered_hosts("loss=list:1");
    let received = network.run(
        async {
            let a = here.bind(Local::Udp { port: 5000 }).await.expect("bound");
            let b = there.bind(Local::Udp { port: 7 }).await.expect("bound");
            for _ in 0..2 {
                try_send(&a, "10.0.0.1:5000", "10.0.0.2:7").await.expect("it counts as sent");
            }
            recv(&b).await;
            there.now()
        },
        LATE,
    );
    // The only packet on the link has 108 bytes, which take 86.4 us at 10 Mbit/s.
    assert_eq!(received.expect_done().as_nanos(), 1_086_400);
    let filtered = network.take_link_events().iter().filter(|one| one.event == TapEvent::Filtered).count();
    assert_eq!(filtered, 1);
}
