//! Arrival times, compared with values computed by hand.

use crate::support::*;
use anabranch_base::time::Duration;
use anabranch_base::{Ecn, Instant};
use anabranch_sim::{Direction, Network, Outcome};
use anabranch_world::{DatagramSocket, Local, World};

const RAW: Local = Local::Ip { protocol: 132 };

#[test]
fn serialization_then_propagation_in_either_version() {
    // A packet of 1000 bytes takes 1 ms at 8 Mbit/s. The propagation delay is 10 ms.
    for (near, far, header) in [("10.0.0.1", "10.0.0.2", 20), ("2001:db8::1", "2001:db8::2", 40)] {
        let (network, here, there) = two_hosts(1, "rate=8mbit,delay=10ms,queue=100p", near, far);
        let (near, far) = ((ip(near), 0).into(), (ip(far), 0).into());
        let arrivals = network.run(
            async {
                let (a, b) = (here.bind(RAW).await.expect("bound"), there.bind(RAW).await.expect("bound"));
                for number in 0..3 {
                    send(&a, near, far, &vec![number; 1000 - header]).await;
                }
                let mut arrivals = Vec::new();
                for number in 0..3 {
                    let batch = recv(&b).await;
                    assert_eq!(batch.bytes(), vec![number; 1000 - header]);
                    assert_eq!((batch.source, batch.target, batch.ecn), (near, far, Ecn::NotEct));
                    arrivals.push(there.now());
                }
                arrivals
            },
            LATE,
        );
        assert_eq!(arrivals.expect_done(), [micros(11_000), micros(12_000), micros(13_000)]);
    }
}

#[test]
fn three_links_and_two_routers() {
    let network = Network::new(1);
    let (client, server) =
        (network.host("client", &[ip("10.0.0.1")]), network.host("server", &[ip("10.9.0.1")]));
    let (left, right) = (network.router("left"), network.router("right"));
    network.link(client, left, &link("rate=80mbit,delay=1ms,queue=10p")).expect("a link");
    let middle = network.link(left, right, &link("rate=8mbit,delay=20ms,queue=10p")).expect("a link");
    network.link(right, server, &link("rate=80mbit,delay=2ms,queue=10p")).expect("a link");
    let (here, there) = (network.world(client), network.world(server));
    let (near, far) = ((ip("10.0.0.1"), 0).into(), (ip("10.9.0.1"), 0).into());
    let arrivals = network.run(
        async {
            let (a, b) = (here.bind(RAW).await.expect("bound"), there.bind(RAW).await.expect("bound"));
            send(&a, near, far, &[1; 980]).await;
            send(&a, near, far, &[2; 980]).await;
            let first = recv(&b).await;
            let at_first = there.now();
            recv(&b).await;
            let at_second = there.now();
            // The answer takes the same path back.
            send(&b, first.target, first.source, &[3; 980]).await;
            recv(&a).await;
            [at_first, at_second, here.now()]
        },
        LATE,
    );
    // The first packet takes 0.1 + 1 + 1 + 20 + 0.1 + 2 ms. The second packet leaves the bottleneck 1 ms later. The
    // answer takes as long as the first packet.
    assert_eq!(arrivals.expect_done(), [micros(24_200), micros(25_200), micros(49_400)]);
    let counters = network.link_counters(middle, Direction::Up);
    assert_eq!((counters.meter.entered.packets, counters.meter.left.bytes), (2, 2000));
    assert_eq!(network.link_counters(middle, Direction::Down).meter.left.packets, 1);
    assert_eq!(network.host_counters(left).forwarded, 3);
}

#[test]
fn a_full_queue_drops_and_counts() {
    let (network, here, there) = two_hosts(1, "rate=8mbit,delay=1ms,queue=4p", "10.0.0.1", "10.0.0.2");
    let (near, far) = ((ip("10.0.0.1"), 0).into(), (ip("10.0.0.2"), 0).into());
    network.record_link_events();
    let received = network.run(
        async {
            let (a, b) = (here.bind(RAW).await.expect("bound"), there.bind(RAW).await.expect("bound"));
            for tag in 1..=10 {
                send_tagged(&a, near, far, &[0; 980], tag).await;
            }
            let mut tags = Vec::new();
            while let Some(batch) = recv_within(&there, &b, Duration::from_millis(50)).await {
                tags.push(batch.first_tag);
            }
            tags
        },
        LATE,
    );
    // One packet is being serialized, and four wait in the queue.
    assert_eq!(received.expect_done(), [1, 2, 3, 4, 5]);
    let link_events = network.take_link_events();
    let lost: Vec<_> = link_events
        .iter()
        .filter(|passage| matches!(passage.event, anabranch_sim::TapEvent::Lost(_)))
        .map(|passage| passage.tag)
        .collect();
    assert_eq!(lost, [6, 7, 8, 9, 10]);
    assert_eq!(link_events.len(), 10 + 5 + 5);
}

#[test]
fn a_run_ends_at_its_deadline_and_goes_on_in_the_next() {
    let (network, here, _) = two_hosts(1, "rate=8mbit,delay=1ms", "10.0.0.1", "10.0.0.2");
    let slept = network.run(here.sleep_until(micros(500)), micros(400));
    assert_eq!(slept, Outcome::Deadline);
    assert_eq!(network.now(), micros(400));
    let slept = network.run(here.sleep_until(micros(500)), LATE);
    assert_eq!((slept, network.now()), (Outcome::Done(()), micros(500)));
}

#[test]
fn a_multi_segment_batch_is_so_many_packets() {
    let (network, here, there) = two_hosts(1, "rate=8mbit,delay=0ms,queue=10p", "10.0.0.1", "10.0.0.2");
    let tags = network.run(
        async {
            let a = here.bind(Local::Udp { port: 5 }).await.expect("bound");
            let b = there.bind(Local::Udp { port: 6 }).await.expect("bound");
            assert_eq!(a.max_segments(), 1);
            let mut batch = anabranch_base::SendBatch::new(3);
            (batch.source, batch.target) = (at("10.0.0.1:5"), at("10.0.0.2:6"));
            batch.first_tag = 7;
            for size in [100, 100, 40] {
                batch.push(&vec![9; size]);
            }
            std::future::poll_fn(|cx| a.poll_send(cx, &mut batch)).await.expect("sent");
            assert!(batch.is_empty());
            let mut tags = Vec::new();
            for _ in 0..3 {
                let batch = recv(&b).await;
                tags.push((batch.first_tag, batch.bytes().len(), there.now()));
            }
            tags
        },
        Instant::MAX,
    );
    // With the headers, the packets have 128, 128 and 68 bytes.
    assert_eq!(tags.expect_done(), [(7, 100, micros(128)), (8, 100, micros(256)), (9, 40, micros(324))]);
}
