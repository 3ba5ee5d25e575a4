//! Peers that behave differently from this stack, as other stacks do (`interop/README.md`), and how this stack reacts.

use crate::net::{A, B};
use crate::script::{Script, configured};
use anabranch_base::{Engine, Instant, RecvBatch, Rng, SendBatch};
use anabranch_sctp::{Associate, Endpoint, Event, Message, testing};
use anabranch_wire::sctp::{Shutdown, Tsn};
use expect_test::expect;
use std::net::SocketAddr;

/// RFC 9260 §9.2, §12.4: the Cumulative TSN Ack of a SHUTDOWN is beyond all sent TSNs, so the SHUTDOWN acknowledges no
/// data. Data is retransmitted until a SACK acknowledges it, and then the SHUTDOWN ACK follows.
#[test]
fn a_shutdown_for_the_future() {
    let mut script = Script::established(&[]);
    script.lose(A, "DATA").send(A, 0, 1_000).run(100);
    let numbers = script.net.ladder.numbers();
    let (tag, first) = (numbers.latest_tag(A).expect("a tag"), numbers.first(A).expect("a TSN"));
    let shutdown = Shutdown { cumulative: Tsn(first).plus(1_000_000) };
    script.inject(B, tag, |b| shutdown.emit(b)).run(1_400);
    script.check_drawn(expect![[r#"
        1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1000 BE     ✗ lost
        1.100  A ◄── B   SHUTDOWN      cum=1000001     injected
        1.125          A: peer wants to shut down
        2.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1000 BE
        2.025          B: received sid=0 len=1000
        2.025  A ◄── B   SACK          cum=1 rwnd=64k
        2.050  A ──► B   SHUTDOWN ACK
    "#]]);
}

/// RFC 9260 §5.1.2: an INIT need not list the supported address types.
#[test]
fn an_init_without_address_types() {
    let config = || configured(&[("address_types", "no")]);
    let mut script = Script::with(config(), config(), &[25]);
    script.associate().run(1_000);
    script.check_drawn(expect![[r#"
        0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1
        0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
        0.050  A ──► B   COOKIE ECHO
        0.075          B: accepted, 10 streams out, 10 in
        0.075  A ◄── B   COOKIE ACK
        0.100          A: established, 10 streams out, 10 in
    "#]]);
}

/// RFC 9260 §6.9: a message and the fragments of another message arrive in any order, each in a packet of its own. The
/// receiver may keep the buffers of these packets. The data that is read equals the data that was sent.
#[test]
fn fragments_in_any_order_from_buffers_that_could_be_kept() {
    let orders = (0..256).map(|n| [n >> 6, n >> 4 & 3, n >> 2 & 3, n & 3]);
    for order in orders.filter(|order| (0..4).all(|at| order.contains(&at))) {
        let addresses = [SocketAddr::from(([10, 0, 0, 1], 0)), SocketAddr::from(([10, 0, 0, 2], 0))];
        let mut ends = addresses.map(|a| {
            Endpoint::new(
                configured(&[("iw", "12"), ("max_burst", "0")]),
                vec![a],
                Rng::new(u64::from(a.is_ipv4())),
            )
        });
        let now = Instant::from_millis(1);
        ends[1].listen(80).expect("a port");
        let id = ends[0].associate(now, Associate::to(addresses[1], 80)).expect("an association");
        let (mut batch, mut arrived) = (SendBatch::new(1), RecvBatch::new(1));
        for turn in 0..4 {
            while ends[turn % 2].poll_transmit(now, &mut batch) {
                arrived.receive(&mut batch);
                ends[1 - turn % 2].handle_batch(now, &mut arrived);
            }
        }
        let messages: Vec<u8> = (0..5_752).map(|i| (i % 251) as u8).collect();
        for message in [&messages[..1_452], &messages[1_452..]] {
            ends[0].send(now, id, Message::default(), message).expect("room");
        }
        let packets = testing::transmit_all_bytes(&mut ends[0], now);
        assert_eq!(packets.len(), 4);
        let mut heard = Vec::new();
        let mut buffer = [0; 5_000];
        for at in order {
            arrived.clear();
            (arrived.source, arrived.target) = (addresses[0], addresses[1]);
            arrived.push(&packets[at]);
            ends[1].handle_batch(now, &mut arrived);
            while let Some(event) = ends[1].poll_event() {
                if let Event::Readable { id, stream } = event {
                    while let Some(received) = ends[1].recv(now, id, stream, &mut buffer).expect("open") {
                        heard.extend_from_slice(&buffer[..received.bytes]);
                    }
                }
            }
        }
        assert!(heard == messages, "{order:?}: {} bytes", heard.len());
    }
}
