//! Tests of hosts that share a processor. A program runs until it waits, and only after the network stack has finished
//! its work.

use crate::support::*;
use anabranch_base::time::Duration;
use anabranch_sim::{Cost, Network, NodeId, SimSocket, SimWorld};
use anabranch_world::{Detach, Local, Work, World};
use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

const RAW: Local = Local::Ip { protocol: 6 };

/// The names of events, in the order in which the events happened.
type Log = Rc<RefCell<Vec<&'static str>>>;

fn hosts(cost: Cost) -> (Network, NodeId, NodeId) {
    let network = Network::new(1);
    let (client, server) =
        (network.host("client", &[ip("10.0.0.1")]), network.host("server", &[ip("10.0.0.2")]));
    network.link(client, server, &link("rate=unlimited,delay=0ms,queue=5000p")).expect("a link");
    for host in [client, server] {
        network.set_processing_cost(host, cost);
    }
    (network, client, server)
}

/// Starts a network stack: a task that receives packets, writes to `log`, and wakes the program that waits for them.
fn stack(world: &SimWorld, socket: Rc<SimSocket>, log: &Log, what: &'static str) -> Rc<RefCell<Waiting>> {
    let waiting = Rc::new(RefCell::new(Waiting::default()));
    let (shared, log) = (waiting.clone(), log.clone());
    world
        .spawn("stack", async move {
            loop {
                recv(&socket).await;
                log.borrow_mut().push(what);
                let mut waiting = shared.borrow_mut();
                waiting.packets += 1;
                if let Some(waker) = waiting.waker.take() {
                    waker.wake();
                }
            }
        })
        .detach();
    waiting
}

#[derive(Default)]
struct Waiting {
    packets: u32,
    waker: Option<std::task::Waker>,
}

/// Takes the next packet that the stack has received, or waits for one.
async fn take(waiting: &RefCell<Waiting>) {
    poll_fn(|cx| {
        let mut waiting = waiting.borrow_mut();
        if waiting.packets == 0 {
            waiting.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        waiting.packets -= 1;
        Poll::Ready(())
    })
    .await;
}

/// The server sends two packets, one after the other. Returns the order of events. The client logs each packet twice:
/// when its stack receives it, and when its program reads it.
fn two_packets(shares: bool, cost: Cost) -> Vec<&'static str> {
    let (network, client, server) = hosts(cost);
    if shares {
        network.share_processor(&[client, server]);
    }
    let (here, there) = (network.world(client), network.world(server));
    let log = Log::default();
    let outcome = network.run(
        async {
            let (a, b) = (here.bind(RAW).await.expect("bound"), there.bind(RAW).await.expect("bound"));
            let waiting = stack(&here, Rc::new(a), &log, "stack");
            let reader = log.clone();
            let program = here.spawn("client", async move {
                for _ in 0..2 {
                    take(&waiting).await;
                    reader.borrow_mut().push("program");
                }
            });
            let writer = log.clone();
            there
                .spawn("server", async move {
                    for _ in 0..2 {
                        send(&b, at("10.0.0.2:0"), at("10.0.0.1:0"), &[1; 100]).await;
                        writer.borrow_mut().push("sent");
                    }
                    std::future::pending::<()>().await;
                })
                .detach();
            program.await;
        },
        LATE,
    );
    outcome.expect_done();
    log.take()
}

#[test]
fn a_program_runs_after_all_that_the_other_has_sent() {
    let costs = [Cost::default(), Cost { per_byte: Duration::from_nanos(6), ..Cost::default() }];
    for cost in costs {
        let order = two_packets(true, cost);
        assert_eq!(order, ["sent", "sent", "stack", "stack", "program", "program"], "{cost:?}");
    }
    // If each host has its own processor, the client reads the first packet before the second has arrived.
    let order = two_packets(false, costs[1]);
    assert_eq!(order, ["sent", "sent", "stack", "program", "stack", "program"]);
}

/// The work of both ends is done by one processor, one piece after the other. A packet of 120 bytes takes 120 us at
/// each end.
#[test]
fn one_processor_does_the_work_of_both_ends() {
    let cost = Cost { per_byte: Duration::from_micros(1), ..Cost::default() };
    let arrivals = |shares: bool| {
        let (network, client, server) = hosts(cost);
        if shares {
            network.share_processor(&[client, server]);
        }
        let (here, there) = (network.world(client), network.world(server));
        let arrivals = network.run(
            async {
                let (a, b) = (here.bind(RAW).await.expect("bound"), there.bind(RAW).await.expect("bound"));
                for _ in 0..2 {
                    send(&b, at("10.0.0.2:0"), at("10.0.0.1:0"), &[1; 100]).await;
                }
                let mut arrivals = Vec::new();
                for _ in 0..2 {
                    recv(&a).await;
                    arrivals.push(here.now());
                }
                arrivals
            },
            LATE,
        );
        arrivals.expect_done()
    };
    assert_eq!(arrivals(false), [240, 360].map(micros));
    assert_eq!(arrivals(true), [360, 480].map(micros));
}

/// The server's program works for 1 ms and then sends a packet, which must wait until this work is done. Meanwhile the
/// client sends a packet, which must not wait for that work.
#[test]
fn packets_interrupt_a_program() {
    let cost =
        Cost { per_byte: Duration::from_micros(1), per_request: Duration::from_millis(1), ..Cost::default() };
    let (network, client, server) = hosts(cost);
    network.share_processor(&[client, server]);
    let (here, there) = (network.world(client), network.world(server));
    let arrivals = network.run(
        async {
            let (a, b) = (here.bind(RAW).await.expect("bound"), there.bind(RAW).await.expect("bound"));
            there.charge(Work::Request);
            send(&b, at("10.0.0.2:0"), at("10.0.0.1:0"), &[1; 100]).await;
            send(&a, at("10.0.0.1:0"), at("10.0.0.2:0"), &[1; 100]).await;
            recv(&b).await;
            let at_server = there.now();
            recv(&a).await;
            [at_server, here.now()]
        },
        LATE,
    );
    assert_eq!(arrivals.expect_done(), [240, 1_480].map(micros));
}
