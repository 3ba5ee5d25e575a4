//! The behaviour suite: tests that every implementation of `World` must pass.
//!
//! The tests are generic programs that panic on a failure. Each implementation of `World` runs them among its own
//! tests. A program tested in virtual time should then behave in the same way on the operating system's network. A test
//! program gets the handles of two hosts that can reach each other, or two handles of one host.

use crate::{DatagramSocket, Detach, Local, Timer, World};
use anabranch_base::time::Duration;
use anabranch_base::{Ecn, Instant, RecvBatch, SendBatch};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

/// Two hosts that can reach each other.
#[derive(Clone, Debug)]
pub struct HostPair<W> {
    /// The host on which most of the test's program runs.
    pub near: W,
    /// The second host, which may be the same host as `near`.
    pub far: W,
}

/// One test: its name, and the function that runs it on a new pair of hosts.
pub type Case<W> = (&'static str, fn(HostPair<W>) -> Pin<Box<dyn Future<Output = ()>>>);

/// Returns all tests of the suite.
#[must_use]
pub fn cases<W: World>() -> Vec<Case<W>> {
    vec![
        ("sleeps end in the order of their deadlines", |pair| Box::pin(sleeps_end_in_order(pair.near))),
        ("equal deadlines end in the order of setting", |pair| Box::pin(equal_deadlines_in_order(pair.near))),
        ("a cancelled sleep never fires", |pair| Box::pin(cancelled_sleep_never_fires(pair.near))),
        ("a timer can be moved and cleared", |pair| Box::pin(timer_moves(pair.near))),
        ("tasks run first in first out", |pair| Box::pin(tasks_in_order(pair.near))),
        ("a task gives its result", |pair| Box::pin(task_gives_result(pair.near))),
        ("a dropped task is cancelled", |pair| Box::pin(dropped_task_is_cancelled(pair.near))),
        ("a detached task runs on", |pair| Box::pin(detached_task_runs_on(pair.near))),
        ("randomness belongs to its label", |pair| Box::pin(randomness_by_label(pair.near))),
        ("a port can be bound once", |pair| Box::pin(bind_twice_fails(pair.near))),
        ("port 0 is a free port", |pair| Box::pin(port_zero_is_free(pair.near))),
        ("a datagram goes there and back", |pair| Box::pin(datagram_round_trip(pair))),
        ("datagrams wait for their reader in order", |pair| Box::pin(datagrams_wait_in_order(pair))),
        ("nobody at home is no error", |pair| Box::pin(closed_port_leaves_socket_usable(pair))),
        ("a foreign source address is refused", |pair| Box::pin(foreign_source_is_refused(pair))),
    ]
}

/// Sleeps end in the order of their deadlines, and not before the deadlines.
pub async fn sleeps_end_in_order<W: World>(world: W) {
    let begin = world.now();
    let ended = Rc::new(RefCell::new(Vec::new()));
    let mut tasks = Vec::new();
    for millis in [30, 10, 20, 0] {
        let (inside, ended) = (world.clone(), ended.clone());
        tasks.push(world.spawn("sleeper", async move {
            let at = begin + Duration::from_millis(millis);
            inside.sleep_until(at).await;
            assert!(inside.now() >= at, "a sleep ended early");
            ended.borrow_mut().push(millis);
        }));
    }
    for task in tasks {
        task.await;
    }
    assert_eq!(*ended.borrow(), [0, 10, 20, 30]);
}

/// Tasks that sleep until the same deadline wake in the order in which they began to sleep.
pub async fn equal_deadlines_in_order<W: World>(world: W) {
    let at = world.now() + Duration::from_millis(5);
    let ended = Rc::new(RefCell::new(Vec::new()));
    let mut tasks = Vec::new();
    for number in 0..10 {
        let (inside, ended) = (world.clone(), ended.clone());
        tasks.push(world.spawn("sleeper", async move {
            inside.sleep_until(at).await;
            ended.borrow_mut().push(number);
        }));
    }
    for task in tasks {
        task.await;
    }
    assert_eq!(*ended.borrow(), (0..10).collect::<Vec<_>>());
}

/// A dropped sleep wakes no task and delays no task.
pub async fn cancelled_sleep_never_fires<W: World>(world: W) {
    let begin = world.now();
    let fired = Rc::new(Cell::new(false));
    let (inside, shared) = (world.clone(), fired.clone());
    let task = world.spawn("long sleep", async move {
        inside.sleep_until(begin + Duration::from_millis(10)).await;
        shared.set(true);
    });
    world.sleep_until(begin + Duration::from_millis(2)).await;
    drop(task);
    world.sleep_until(begin + Duration::from_millis(30)).await;
    assert!(!fired.get(), "the cancelled sleep fired");
}

/// A timer fires at the deadline that was set last.
pub async fn timer_moves<W: World>(world: W) {
    let begin = world.now();
    let at = |millis| begin + Duration::from_millis(millis);
    let mut timer = world.timer();
    assert!(!is_ready(&mut timer).await, "a timer not set is ready");
    timer.set(Some(at(5)));
    timer.set(Some(at(20)));
    poll_fn(|cx| timer.poll(cx)).await;
    assert!(world.now() >= at(20), "moved later, fired early");
    assert!(!is_ready(&mut timer).await, "a timer that has fired is still set");

    let now = world.now();
    timer.set(Some(now + Duration::from_secs(1000)));
    assert!(!is_ready(&mut timer).await);
    timer.set(Some(now + Duration::from_millis(5)));
    poll_fn(|cx| timer.poll(cx)).await;
    assert!(world.now() < now + Duration::from_secs(1000), "moved earlier, fired late");

    let now = world.now();
    timer.set(Some(now + Duration::from_millis(2)));
    timer.set(None);
    world.sleep_until(now + Duration::from_millis(10)).await;
    assert!(!is_ready(&mut timer).await, "a cleared timer fired");

    timer.set(Some(begin));
    assert!(is_ready(&mut timer).await, "a deadline of the past is due at once");
}

async fn is_ready(timer: &mut impl Timer) -> bool {
    poll_fn(|cx| Poll::Ready(timer.poll(cx).is_ready())).await
}

/// Tasks first run in the order in which they were started, and then run in turns.
pub async fn tasks_in_order<W: World>(world: W) {
    let steps = Rc::new(RefCell::new(Vec::new()));
    let mut tasks = Vec::new();
    for name in ["a", "b", "c"] {
        let steps = steps.clone();
        tasks.push(world.spawn(name, async move {
            for turn in 0..2 {
                steps.borrow_mut().push((name, turn));
                yield_now().await;
            }
        }));
    }
    for task in tasks {
        task.await;
    }
    assert_eq!(*steps.borrow(), [("a", 0), ("b", 0), ("c", 0), ("a", 1), ("b", 1), ("c", 1)]);
}

/// Suspends the calling task once, so that each other runnable task runs.
async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Awaiting a task's handle returns the task's result, whether or not the task has already finished.
pub async fn task_gives_result<W: World>(world: W) {
    let quick = world.spawn("quick", async { 7 });
    let inside = world.clone();
    let slow = world.spawn("slow", async move {
        inside.sleep_until(inside.now() + Duration::from_millis(2)).await;
        "done"
    });
    assert_eq!(slow.await, "done");
    assert_eq!(quick.await, 7);
}

/// If a task's handle is dropped, the task's future is dropped soon afterwards.
pub async fn dropped_task_is_cancelled<W: World>(world: W) {
    let held = Rc::new(());
    let inside = held.clone();
    let task = world.spawn("holder", async move {
        std::future::pending::<()>().await;
        drop(inside);
    });
    yield_now().await;
    assert_eq!(Rc::strong_count(&held), 2);
    drop(task);
    world.sleep_until(world.now() + Duration::from_millis(2)).await;
    assert_eq!(Rc::strong_count(&held), 1, "the future of a dropped task lives on");
}

/// A detached task outlives its handle.
pub async fn detached_task_runs_on<W: World>(world: W) {
    let done = Rc::new(Cell::new(false));
    let (inside, shared) = (world.clone(), done.clone());
    world
        .spawn("detached", async move {
            inside.sleep_until(inside.now() + Duration::from_millis(2)).await;
            shared.set(true);
        })
        .detach();
    world.sleep_until(world.now() + Duration::from_millis(20)).await;
    assert!(done.get(), "the detached task did not run");
}

/// Equal labels give equal random numbers, and different labels give different random numbers.
pub async fn randomness_by_label<W: World>(world: W) {
    let draw = |label: &str| world.rng(label).next_u64();
    assert_eq!(draw("one"), draw("one"));
    assert_ne!(draw("one"), draw("two"));
}

/// A second socket cannot be bound to a port until the first socket is dropped.
pub async fn bind_twice_fails<W: World>(world: W) {
    let socket = world.bind(Local::Udp { port: 0 }).await.expect("a free port");
    let port = socket.local()[0].port();
    let error = world.bind(Local::Udp { port }).await.err().expect("the port is taken");
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    drop(socket);
    world.bind(Local::Udp { port }).await.expect("the port is free again");
}

/// Two sockets that are bound to port 0 get two different free ports. A socket is bound at every address of the host.
pub async fn port_zero_is_free<W: World>(world: W) {
    let one = world.bind(Local::Udp { port: 0 }).await.expect("a free port");
    let other = world.bind(Local::Udp { port: 0 }).await.expect("another free port");
    let (one, other) = (one.local(), other.local());
    assert_ne!(one[0].port(), 0);
    assert_ne!(one[0].port(), other[0].port());
    let addresses: Vec<_> = one.iter().map(SocketAddr::ip).collect();
    assert_eq!(addresses, world.addresses());
}

/// A datagram arrives unchanged, carries its source address, and can be answered.
pub async fn datagram_round_trip<W: World>(pair: HostPair<W>) {
    let (here, there) = bind_pair(&pair).await;
    let (from, to) = (here.local()[0], first_like(&there.local(), here.local()[0]));
    let mut out = SendBatch::new(here.max_segments());
    let mut input = RecvBatch::new(there.max_segments());
    (out.source, out.target, out.ecn) = (from, to, Ecn::Ect0);
    out.push(b"there");
    poll_fn(|cx| here.poll_send(cx, &mut out)).await.expect("sent");
    assert!(out.is_empty(), "the socket took the batch");
    poll_fn(|cx| there.poll_recv(cx, &mut input)).await.expect("received");
    assert_eq!(input.segments().collect::<Vec<_>>(), [b"there"]);
    assert_eq!((input.source, input.target, input.ecn, input.icmp), (from, to, Ecn::Ect0, None));

    out.clear();
    (out.source, out.target) = (input.target, input.source);
    out.push(b"and back");
    poll_fn(|cx| there.poll_send(cx, &mut out)).await.expect("sent");
    poll_fn(|cx| here.poll_recv(cx, &mut input)).await.expect("received");
    assert_eq!(input.segments().collect::<Vec<_>>(), [b"and back"]);
    assert_eq!((input.source, input.target), (to, from));
    assert!(here.mtu(from.ip()) >= 576);
}

async fn bind_pair<W: World>(pair: &HostPair<W>) -> (W::Socket, W::Socket) {
    let here = pair.near.bind(Local::Udp { port: 0 }).await.expect("a free port");
    let there = pair.far.bind(Local::Udp { port: 0 }).await.expect("a free port");
    (here, there)
}

fn first_like(addresses: &[SocketAddr], like: SocketAddr) -> SocketAddr {
    let same = addresses.iter().find(|address| address.is_ipv4() == like.is_ipv4());
    *same.expect("an address of the same family")
}

/// Datagrams that nobody reads yet are queued, and are later read in the order of their arrival.
pub async fn datagrams_wait_in_order<W: World>(pair: HostPair<W>) {
    let (here, there) = bind_pair(&pair).await;
    let mut out = SendBatch::new(1);
    (out.source, out.target) = (here.local()[0], first_like(&there.local(), here.local()[0]));
    for number in 0..8_u8 {
        out.push(&[number; 30]);
        poll_fn(|cx| here.poll_send(cx, &mut out)).await.expect("sent");
        (out.source, out.target) = (here.local()[0], first_like(&there.local(), here.local()[0]));
    }
    pair.near.sleep_until(pair.near.now() + Duration::from_millis(500)).await;
    let mut numbers = Vec::new();
    let mut input = RecvBatch::new(there.max_segments());
    while numbers.len() < 8 {
        input.clear();
        poll_fn(|cx| there.poll_recv(cx, &mut input)).await.expect("received");
        numbers.extend(input.segments().map(|segment| segment[0]));
    }
    assert_eq!(numbers, (0..8).collect::<Vec<_>>());
}

/// A datagram for a closed port is lost or reported, and the sending socket stays usable.
pub async fn closed_port_leaves_socket_usable<W: World>(pair: HostPair<W>) {
    let (here, there) = bind_pair(&pair).await;
    let to = first_like(&there.local(), here.local()[0]);
    drop(there);
    let mut batch = SendBatch::new(1);
    (batch.source, batch.target) = (here.local()[0], to);
    batch.push(b"anybody?");
    poll_fn(|cx| here.poll_send(cx, &mut batch)).await.expect("sending is no error");
    let give_up: Instant = pair.near.now() + Duration::from_millis(500);
    let mut timer = pair.near.timer();
    timer.set(Some(give_up));
    let mut report = RecvBatch::new(here.max_segments());
    let answer = poll_fn(|cx| match here.poll_recv(cx, &mut report) {
        Poll::Ready(answer) => Poll::Ready(Some(answer)),
        Poll::Pending => timer.poll(cx).map(|()| None),
    });
    if let Some(answer) = answer.await {
        answer.expect("the socket is of use still");
        assert!(report.icmp.is_some_and(|icmp| icmp.target == to.ip()), "a report names the peer");
    }
}

/// A packet with a source address that the host does not have cannot be sent.
pub async fn foreign_source_is_refused<W: World>(pair: HostPair<W>) {
    let (here, there) = bind_pair(&pair).await;
    let mut batch = SendBatch::new(1);
    batch.source = "203.0.113.77:9".parse().expect("an address");
    batch.target = there.local()[0];
    if !batch.target.is_ipv4() {
        batch.source = "[2001:db8:ffff::77]:9".parse().expect("an address");
    }
    batch.push(b"forged");
    let sent = poll_fn(|cx| here.poll_send(cx, &mut batch)).await;
    assert!(sent.is_err(), "a packet left from a foreign address");
}
