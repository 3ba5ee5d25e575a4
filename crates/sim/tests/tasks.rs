//! Tasks and timers: order, cancelling, and reports of waiting tasks.

use crate::support::*;
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_sim::{Network, Outcome, SimWorld, Task};
use anabranch_world::{Detach, Local, Timer, World};
use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::rc::Rc;
use std::task::Poll;

fn one_host() -> (Network, SimWorld) {
    let network = Network::new(1);
    let host = network.host("lonely", &[ip("10.0.0.1")]);
    let world = network.world(host);
    (network, world)
}

#[test]
fn a_stall_names_the_waiting_tasks() {
    let (network, world) = one_host();
    let _waits = world.spawn("waits for ever", pending::<()>());
    let inside = world.clone();
    let _reads = world.spawn("reads", async move {
        let socket = inside.bind(Local::Udp { port: 1 }).await.expect("bound");
        recv(&socket).await;
    });
    world.spawn("is done", async {}).detach();
    let outcome = network.run(
        async {
            world.sleep_until(micros(7)).await;
            pending::<()>().await;
        },
        LATE,
    );
    let Outcome::Stalled(waiting) = outcome else { panic!("{outcome:?}") };
    assert_eq!(
        waiting.to_string(),
        "at 0.000007000 these tasks wait: main, lonely/waits for ever, lonely/reads"
    );
}

#[test]
fn a_cancelled_sleep_moves_no_clock_and_holds_up_no_stall() {
    let (network, world) = one_host();
    let outcome = network.run(
        async {
            let long = world.sleep_until(Instant::from_millis(1_000_000));
            let mut long = Box::pin(long);
            poll_fn(|cx| Poll::Ready(long.as_mut().poll(cx).is_pending())).await;
            drop(long);
            world.sleep_until(Instant::from_nanos(7)).await;
            pending::<()>().await;
        },
        Instant::MAX,
    );
    let Outcome::Stalled(waiting) = outcome else { panic!("{outcome:?}") };
    assert_eq!(waiting.at, Instant::from_nanos(7));
}

#[test]
fn tasks_that_spin_within_one_instant_are_stopped() {
    let (network, world) = one_host();
    network.set_round_cap(1000);
    let _spins = world.spawn("spins", async {
        poll_fn(|cx| {
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        })
        .await;
    });
    let Outcome::Livelock(waiting) = network.run(pending::<()>(), LATE) else { panic!("it must spin") };
    assert_eq!(waiting.tasks, [("lonely".to_owned(), "spins")]);
}

/// The limit on rounds of tasks applies to a single instant: any number of rounds may run if time passes between them.
#[test]
fn the_cap_is_for_one_instant_only() {
    let (network, world) = one_host();
    network.set_round_cap(10);
    let program = async {
        for _ in 0..1000 {
            world.sleep_until(world.now() + Duration::from_nanos(1)).await;
        }
    };
    network.run(program, LATE).expect_done();
    assert_eq!(network.now(), Instant::from_nanos(1000));
}

#[test]
fn a_moved_timer_fires_once_at_its_last_deadline() {
    let (network, world) = one_host();
    network.audit(true);
    let program = async {
        let mut timer = world.timer();
        timer.set(Some(micros(1)));
        for step in 0..1000 {
            // The deadline is moved to a later time again and again, as a transport does with its retransmission timer.
            timer.set(Some(micros(100 + step)));
        }
        poll_fn(|cx| timer.poll(cx)).await;
        assert_eq!(world.now(), micros(1099));
        timer.set(Some(micros(5000)));
        timer.set(Some(micros(2000)));
        poll_fn(|cx| timer.poll(cx)).await;
        assert_eq!(world.now(), micros(2000));
        timer.set(Some(micros(3000)));
        timer.set(None);
        world.sleep_until(micros(9000)).await;
    };
    network.run(program, LATE).expect_done();
    let times: Vec<_> = network.trail().iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [micros(1099), micros(2000), micros(9000)], "an early entry is no event");
}

#[test]
fn a_task_may_cancel_itself_and_others() {
    let (network, world) = one_host();
    let handle: Rc<RefCell<Option<Task<()>>>> = Rc::default();
    let steps = Rc::new(Cell::new(0));
    let (own, steps_of_task, inside) = (handle.clone(), steps.clone(), world.clone());
    *handle.borrow_mut() = Some(world.spawn("cancels itself", async move {
        steps_of_task.set(1);
        drop(own.borrow_mut().take());
        inside.sleep_until(micros(1)).await;
        steps_of_task.set(2);
    }));
    let victim = world.spawn("victim", pending::<()>());
    let killer = world.spawn("killer", async move { drop(victim) });
    let program = async {
        killer.await;
        world.sleep_until(micros(10)).await;
    };
    network.run(program, LATE).expect_done();
    assert_eq!(steps.get(), 1);
    let Outcome::Stalled(waiting) = network.run(pending::<()>(), LATE) else { panic!("it must stall") };
    assert!(waiting.tasks.is_empty(), "{waiting}");
}

#[test]
fn dropping_the_network_drops_its_tasks() {
    let (network, world) = one_host();
    let held = Rc::new(());
    let (inside, deep) = (held.clone(), world.clone());
    world
        .spawn("holds", async move {
            let socket = deep.bind(Local::Udp { port: 1 }).await.expect("bound");
            let held = inside.clone();
            let nested = deep.spawn("nested", async move {
                pending::<()>().await;
                drop(held);
            });
            recv(&socket).await;
            nested.await;
        })
        .detach();
    assert_eq!(network.run(world.sleep_until(LATE), micros(5)), Outcome::Deadline);
    assert_eq!(Rc::strong_count(&held), 3);
    drop(network);
    assert_eq!(Rc::strong_count(&held), 1);
    // `world`, the handle of a host, still works after the network was dropped.
    assert_eq!(world.now(), micros(5));
}

#[test]
fn a_thousand_tasks_wake_in_order() {
    let (network, world) = one_host();
    let order = Rc::new(RefCell::new(Vec::new()));
    let tasks: Vec<_> = (0..1000)
        .map(|number| {
            let (inside, order) = (world.clone(), order.clone());
            world.spawn("sleeper", async move {
                // Tasks with higher numbers wake earlier. The tasks 2n and 2n + 1 wake at the same time.
                inside.sleep_until(micros(1000 - number / 2)).await;
                order.borrow_mut().push(number);
            })
        })
        .collect();
    let program = async {
        for task in tasks {
            task.await;
        }
    };
    network.run(program, LATE).expect_done();
    let expected: Vec<u64> = (0..500).rev().flat_map(|pair| [2 * pair, 2 * pair + 1]).collect();
    assert_eq!(*order.borrow(), expected);
}
