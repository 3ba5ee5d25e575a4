//! Tests the drive loop with a minimal engine, which sends each question again every 100 ms until the answer arrives.

use anabranch_base::time::Duration;
use anabranch_base::trace::TraceRecord;
use anabranch_base::{Engine, Icmp, Instant, Packet, SendBatch};
use anabranch_link::LinkSpec;
use anabranch_sim::Network;
use anabranch_transport::drive::{EngineOwner, Notify, drive};
use anabranch_world::{DatagramSocket, Local, World};
use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::{Poll, Waker};

#[derive(Default)]
struct Asker {
    local: Option<SocketAddr>,
    /// Unanswered questions: number, destination, time of the next transmission.
    open: Vec<(u8, SocketAddr, Instant)>,
    answers: Vec<(u8, SocketAddr)>,
    events: Vec<u8>,
    icmp: Vec<Icmp>,
    timeouts: u32,
    requests: u32,
}

impl Engine for Asker {
    type Event = u8;

    fn handle_packet(&mut self, _now: Instant, packet: Packet<'_>) {
        match packet.payload {
            [b'?', number] => self.answers.push((*number, packet.source)),
            [b'!', number] => {
                self.open.retain(|(open, ..)| open != number);
                self.events.push(*number);
            }
            _ => {}
        }
    }

    fn handle_icmp(&mut self, _now: Instant, icmp: &Icmp, _quoted: &[u8]) {
        self.icmp.push(*icmp);
    }

    fn handle_timeout(&mut self, _now: Instant) {
        self.timeouts += 1;
    }

    fn poll_transmit(&mut self, now: Instant, out: &mut SendBatch) -> bool {
        let Some(local) = self.local else { return false };
        out.source = local;
        if let Some((number, target)) = self.answers.pop() {
            out.target = target;
            out.push(&[b'!', number]);
            return true;
        }
        let Some((number, target, due)) = self.open.iter_mut().find(|(.., due)| *due <= now) else {
            return false;
        };
        *due = now + Duration::from_millis(100);
        out.target = *target;
        out.push(&[b'?', *number]);
        self.requests += 1;
        true
    }

    fn poll_event(&mut self) -> Option<u8> {
        self.events.pop()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        // A question with the time 0 was never sent. The engine sends it immediately, so it needs no timer.
        self.open.iter().map(|(.., due)| *due).filter(|due| *due > Instant::ZERO).min()
    }

    fn set_tracing(&mut self, _on: bool) {}

    fn take_trace(&mut self) -> Vec<TraceRecord> {
        Vec::new()
    }
}

#[derive(Default)]
struct Host {
    engine: Asker,
    notify: Notify,
    responses: Vec<(u8, Instant)>,
    waker: Option<Waker>,
}

impl EngineOwner for Host {
    type Engine = Asker;
    fn engine(&mut self) -> &mut Asker {
        &mut self.engine
    }
    fn handle_event(&mut self, now: Instant, event: u8) {
        self.responses.push((event, now));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
    fn handle_failure(&mut self, _error: &io::Error) {}
    fn notify(&mut self) -> &mut Notify {
        &mut self.notify
    }
}

async fn start<W: World>(world: &W) -> (Rc<RefCell<Host>>, W::Task<()>) {
    let socket = world.bind(Local::Udp { port: 7 }).await.expect("a socket");
    let host = Rc::new(RefCell::new(Host::default()));
    host.borrow_mut().engine.local = socket.local().first().copied();
    let task = world.spawn("drive", drive(world.clone(), socket, host.clone()));
    (host, task)
}

async fn wait_for_responses(host: &Rc<RefCell<Host>>, count: usize) {
    poll_fn(|cx| {
        let mut host = host.borrow_mut();
        if host.responses.len() >= count {
            return Poll::Ready(());
        }
        host.waker = Some(cx.waker().clone());
        Poll::Pending
    })
    .await;
}

fn ask(host: &Rc<RefCell<Host>>, number: u8, target: SocketAddr) {
    let mut host = host.borrow_mut();
    host.engine.open.push((number, target, Instant::ZERO));
    host.notify.notify();
}

const NEAR: [u8; 4] = [10, 0, 0, 1];
const FAR: [u8; 4] = [10, 0, 0, 2];

fn network(link: &str) -> (Network, impl World, impl World) {
    let network = Network::new(3);
    let (near, far): (IpAddr, IpAddr) = (NEAR.into(), FAR.into());
    let (client, server) = (network.host("client", &[near]), network.host("server", &[far]));
    network.link(client, server, &LinkSpec::parse(link).expect("a link")).expect("linked");
    let (here, there) = (network.world(client), network.world(server));
    (network, here, there)
}

#[test]
fn commands_between_polls_are_sent_at_once_and_answers_wake_waiters() {
    let (network, here, there) = network("rate=1gbit,rtt=20ms");
    let responses = network.run(
        async {
            let (near, _near) = start(&here).await;
            let (_far, _task) = start(&there).await;
            here.sleep_until(Instant::from_millis(5)).await;
            for number in 0..10 {
                ask(&near, number, (FAR, 7).into());
            }
            wait_for_responses(&near, 10).await;
            let host = near.borrow();
            assert_eq!(
                (host.engine.requests, host.engine.timeouts),
                (10, 0),
                "nothing twice, no needless alarm"
            );
            host.responses.clone()
        },
        Instant::MAX,
    );
    let responses = responses.expect_done();
    assert!(
        responses.iter().all(|(_, at)| at.since(Instant::from_millis(25)) < Duration::from_millis(1)),
        "{responses:?}"
    );
}

#[test]
fn lost_questions_are_asked_again_when_the_deadline_comes() {
    let (network, here, there) = network("rate=1gbit,rtt=20ms,up-loss=list:1/2");
    let at = network.run(
        async {
            let (near, _near) = start(&here).await;
            let (_far, _task) = start(&there).await;
            ask(&near, 1, (FAR, 7).into());
            // The second question is sent and answered while the first question is unanswered. The timer for repeating
            // the first question must not move.
            here.sleep_until(Instant::from_millis(150)).await;
            ask(&near, 2, (FAR, 7).into());
            wait_for_responses(&near, 2).await;
            let host = near.borrow();
            assert_eq!((host.engine.requests, host.engine.timeouts), (4, 2));
            host.responses.clone()
        },
        Instant::MAX,
    );
    let responses = at.expect_done();
    assert_eq!(responses.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [2, 1]);
    assert!(responses[1].1.since(Instant::from_millis(220)) < Duration::from_millis(1), "{responses:?}");
}

#[test]
fn nothing_is_done_while_nothing_happens() {
    let (network, here, there) = network("rate=1gbit,rtt=20ms");
    let done = network.run(
        async {
            let (near, _near) = start(&here).await;
            let (_far, _task) = start(&there).await;
            for number in 0..100 {
                ask(&near, number, (FAR, 7).into());
                wait_for_responses(&near, usize::from(number) + 1).await;
            }
            here.sleep_until(Instant::from_millis(100_000)).await;
            near.borrow().engine.timeouts
        },
        Instant::MAX,
    );
    assert_eq!(done.expect_done(), 0, "every question was answered before its alarm");
}

#[test]
fn same_seed_same_events() {
    let run = || {
        let (network, here, there) = network("rate=56kbit,rtt=20ms,loss=20%,jitter=3ms");
        network.audit(false);
        let responses = network.run(
            async {
                let (near, _near) = start(&here).await;
                let (_far, _task) = start(&there).await;
                (0..50).for_each(|number| ask(&near, number, (FAR, 7).into()));
                wait_for_responses(&near, 50).await;
                near.borrow().responses.clone()
            },
            Instant::MAX,
        );
        (responses.expect_done(), network.digest())
    };
    assert_eq!(run(), run());
}
