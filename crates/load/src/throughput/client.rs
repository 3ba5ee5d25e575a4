//! The client: opens the sessions, asks for the test, and reports each interval.

use super::frame::Hello;
use super::session::{End, Failed, Known};
use super::{Plan, Processor, Received, Sent, Settings};
use anabranch_base::Instant;
use anabranch_base::time::{Duration, nanos};
use anabranch_transport::{CloseReason, Connector, Session};
use anabranch_world::{Tasks, Timer, World};
use std::cell::RefCell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Poll;

/// Why a test failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Failure {
    /// No session could be begun.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// A session broke.
    #[error("{0}")]
    Broken(String),
}

/// A transport's figures of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Probe {
    /// Chunks or segments retransmitted so far.
    pub retransmitted: u64,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Smoothed round-trip time, nanoseconds.
    pub srtt: u64,
}

/// The figures of an interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interval {
    /// Its beginning, since that of the test.
    pub from: Duration,
    /// Its end, since the beginning of the test.
    pub to: Duration,
    /// Bytes written here.
    pub sent: u64,
    /// Bytes read here.
    pub received: u64,
    /// The transport's figures; retransmissions are those of the interval.
    pub probe: Option<Probe>,
}

/// The result of a test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The longest handshake of a session.
    pub connect: Duration,
    /// From the first message to the last report.
    pub duration: Duration,
    /// Data from the client to the server, as the client counted it, and as the server did.
    pub up: Option<(Sent, Received)>,
    /// Data from the server to the client, as the server counted it, and as the client did.
    pub down: Option<(Sent, Received)>,
    /// Streams of each session.
    pub streams: u16,
    /// Settings of the server's transport; `None` if the server does not say.
    pub server_settings: Option<Settings>,
    /// Retransmissions of the client.
    pub retransmitted: Option<u64>,
    /// Processor time of the client's process, nanoseconds: user mode, kernel.
    pub client: (u64, u64),
    /// Processor time of the server's process, likewise.
    pub server: (u64, u64),
    /// The intervals, in order of time.
    pub intervals: Vec<Interval>,
}

/// A test on one server. A clone is the same test.
pub struct Test<W: World, C: Connector> {
    shared: Rc<TestContext<W, C>>,
}

/// Asks the transport about a session.
type ProbeFn<N> = Box<dyn Fn(&N) -> Option<Probe>>;
/// A session, and this end of the test on it.
type SessionEnd<W, N> = (N, Rc<End<W, N>>);

struct TestContext<W: World, C: Connector> {
    world: W,
    connector: C,
    servers: Vec<SocketAddr>,
    plan: Plan,
    processor: Processor,
    cost: (Duration, Duration),
    probe: ProbeFn<C::Session>,
    state: RefCell<TestState<W, C>>,
}

struct TestState<W: World, C: Connector> {
    ends: Vec<SessionEnd<W, C::Session>>,
    begun: Instant,
    connect: Duration,
    intervals: Vec<Interval>,
    before: (u64, u64, u64),
    failed: Option<Failure>,
}

impl<W: World, C: Connector> Clone for Test<W, C> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<W: World, C: Connector> fmt::Debug for Test<W, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Test").field("plan", &self.shared.plan).finish_non_exhaustive()
    }
}

impl<W: World, C: Connector> Test<W, C> {
    /// A test with the first server of `connector` that answers; `servers` are their addresses. `probe` asks the
    /// transport about a session.
    pub fn new(
        world: W,
        connector: C,
        servers: Vec<SocketAddr>,
        plan: Plan,
        processor: Processor,
        probe: impl Fn(&C::Session) -> Option<Probe> + 'static,
    ) -> Self {
        let begun = world.now();
        let state = TestState {
            ends: Vec::new(),
            begun,
            connect: Duration::ZERO,
            intervals: Vec::new(),
            before: (0, 0, 0),
            failed: None,
        };
        let (cost, probe) = (processor(), Box::new(probe));
        let state = RefCell::new(state);
        Self {
            shared: Rc::new(TestContext { world, connector, servers, plan, processor, cost, probe, state }),
        }
    }

    /// Runs the test, and calls `line` after each interval. If dropped before its end, [`outcome`](Self::outcome) has
    /// what was measured.
    ///
    /// # Errors
    /// [`Failure`]: one line.
    pub async fn run(&self, mut line: impl FnMut(&Interval)) -> Result<(), Failure> {
        let shared = &self.shared;
        let (world, plan) = (&shared.world, &shared.plan);
        let mut server = None;
        for _ in 0..plan.sessions.max(1) {
            let mut begun = world.now();
            let session = match server {
                Some(server) => self.open(server).await.map_err(Failure::Connect)?,
                None => {
                    let (found, session, at) = self.find().await.map_err(Failure::Connect)?;
                    (server, begun) = (Some(found), at);
                    session
                }
            };
            let end = End::new(world, &session, shared.processor, None);
            let mut state = shared.state.borrow_mut();
            state.connect = state.connect.max(world.now().since(begun));
            state.ends.push((session, end));
        }
        let count = u64::from(plan.sessions.max(1));
        let hello = Hello {
            up: plan.up,
            down: plan.down,
            unordered: plan.unordered,
            settings: true,
            streams: plan.streams.max(1),
            message: plan.message,
            span: plan.span,
            bytes: plan.bytes.map_or(0, |bytes| bytes.div_ceil(count).max(1)),
        };
        let tasks = Tasks::new(world.clone());
        shared.state.borrow_mut().begun = world.now();
        let ends: Vec<_> = shared.state.borrow().ends.iter().map(|(_, end)| end.clone()).collect();
        for end in ends {
            let shared = shared.clone();
            tasks.spawn("throughput session", async move {
                if let Err(failed) = end.ask(hello, shared.plan.timeout).await {
                    let why = match failed {
                        Failed::Closed(CloseReason::Finished) => {
                            "the server closed before the test was complete".to_owned()
                        }
                        failed => failed.to_string(),
                    };
                    shared.state.borrow_mut().failed.get_or_insert(Failure::Broken(why));
                }
            });
        }
        let mut timer = world.timer();
        timer.set(Some(world.now() + plan.interval));
        let mut idle = std::pin::pin!(tasks.idle());
        poll_fn(|cx| {
            let over = idle.as_mut().poll(cx);
            if shared.state.borrow().failed.is_some() {
                return Poll::Ready(());
            }
            while over.is_pending() && timer.poll(cx).is_ready() {
                timer.set(Some(world.now() + plan.interval));
                line(&self.interval());
            }
            over
        })
        .await;
        if let Some(rest) = self.rest() {
            line(&rest);
        }
        let failed = shared.state.borrow_mut().failed.take();
        let sessions = shared.state.borrow().ends.to_vec();
        if let Some(failed) = failed {
            sessions.iter().for_each(|(session, _)| session.abort());
            return Err(failed);
        }
        self.freeze();
        for (session, end) in sessions {
            session.close();
            let ended = async {
                end.peer_ended().await;
                session.closed().await
            };
            let _ = world.timeout(CLOSING, ended).await;
        }
        Ok(())
    }

    /// The interval that had begun when the test ended, or was dropped; `None` if it is too short to count.
    pub fn rest(&self) -> Option<Interval> {
        let shared = &self.shared;
        let shortest = shared.plan.interval / 20;
        let (begun, last) = {
            let state = shared.state.borrow();
            // Nothing was sent yet.
            if state.ends.is_empty() {
                return None;
            }
            (state.begun, state.intervals.last().map_or(Duration::ZERO, |last| last.to))
        };
        (shared.world.now().since(begun) > last + shortest).then(|| self.interval())
    }

    /// The first server that answers, a session with it, and when that was begun; or why each did not.
    async fn find(&self) -> Result<(usize, C::Session, Instant), String> {
        let servers = &self.shared.servers;
        let mut whys = Vec::new();
        for server in 0..servers.len().max(1) {
            let begun = self.shared.world.now();
            match self.open(server).await {
                Ok(session) => return Ok((server, session, begun)),
                Err(why) if servers.len() > 1 => whys.push(format!("{}: {why}", servers[server].ip())),
                Err(why) => whys.push(why),
            }
        }
        Err(whys.join("; "))
    }

    /// An established session with that server, or why there is none.
    async fn open(&self, server: usize) -> Result<C::Session, String> {
        let TestContext { world, plan, connector, .. } = &*self.shared;
        let session = connector.connect(server).map_err(|why| why.to_string())?;
        match world.timeout(plan.timeout, session.established()).await {
            Some(Ok(())) => Ok(session),
            Some(Err(why)) => Err(why.to_string()),
            None => {
                session.abort();
                Err(format!("no answer within {} s", plan.timeout.as_secs_f32()))
            }
        }
    }

    /// What `ask` finds of each established session.
    pub fn each<T>(&self, ask: impl Fn(&C::Session) -> T) -> Vec<T> {
        self.shared.state.borrow().ends.iter().map(|(session, _)| ask(session)).collect()
    }

    /// Keeps what can only be asked of an open session.
    fn freeze(&self) {
        let retransmitted = self.probe().map_or(0, |probe| probe.retransmitted);
        self.shared.state.borrow_mut().before.2 = retransmitted;
    }

    /// The figures of all sessions: sums, and the round trip of the first.
    fn probe(&self) -> Option<Probe> {
        let state = self.shared.state.borrow();
        let mut all: Option<Probe> = None;
        for (session, _) in &state.ends {
            let one = (self.shared.probe)(session)?;
            match &mut all {
                Some(all) => {
                    all.retransmitted += one.retransmitted;
                    all.cwnd += one.cwnd;
                }
                none => *none = Some(one),
            }
        }
        all
    }

    fn interval(&self) -> Interval {
        let probe = self.probe();
        let mut state = self.shared.state.borrow_mut();
        let (sent, received) = state.ends.iter().fold((0, 0), |(sent, received), (_, end)| {
            (sent + end.sent_bytes.get(), received + end.received_bytes.get())
        });
        let retransmitted = probe.map_or(0, |probe| probe.retransmitted);
        let before = std::mem::replace(&mut state.before, (sent, received, retransmitted));
        let interval = Interval {
            from: state.intervals.last().map_or(Duration::ZERO, |last| last.to),
            to: self.shared.world.now().since(state.begun),
            sent: sent - before.0,
            received: received - before.1,
            probe: probe
                .map(|probe| Probe { retransmitted: retransmitted.saturating_sub(before.2), ..probe }),
        };
        state.intervals.push(interval);
        interval
    }

    /// What was measured so far.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let shared = &self.shared;
        let probed =
            self.probe().is_some() || shared.state.borrow().intervals.iter().any(|i| i.probe.is_some());
        let state = shared.state.borrow();
        let known: Vec<Known> = state.ends.iter().map(|(_, end)| end.known()).collect();
        let up = known.iter().map(|known| (known.sent, known.peer_received)).reduce(add);
        let down = known.iter().map(|known| (known.peer_sent, known.received)).reduce(add);
        let first = known.first().copied().unwrap_or_default();
        let server = if shared.plan.up {
            (first.peer_received.user, first.peer_received.system)
        } else {
            (first.peer_sent.user, first.peer_sent.system)
        };
        let (user, system) = (shared.processor)();
        let duration = known.iter().flat_map(|known| [known.sent.nanos, known.received.nanos]).max();
        Outcome {
            connect: state.connect,
            duration: Duration::from_nanos(duration.unwrap_or(0)),
            up: up.filter(|_| shared.plan.up),
            down: down.filter(|_| shared.plan.down),
            streams: first.streams,
            server_settings: state.ends.first().and_then(|(_, end)| end.peer_settings()),
            retransmitted: probed.then_some(state.before.2),
            client: (nanos(user.saturating_sub(shared.cost.0)), nanos(system.saturating_sub(shared.cost.1))),
            server,
            intervals: state.intervals.clone(),
        }
    }
}

/// The figures of two sessions in one.
fn add(one: (Sent, Received), other: (Sent, Received)) -> (Sent, Received) {
    let (mut sent, mut received) = one;
    sent.bytes += other.0.bytes;
    sent.messages += other.0.messages;
    sent.nanos = sent.nanos.max(other.0.nanos);
    received.bytes += other.1.bytes;
    received.messages += other.1.messages;
    received.nanos = received.nanos.max(other.1.nanos);
    received.streams += other.1.streams;
    received.least = received.least.min(other.1.least);
    received.most = received.most.max(other.1.most);
    received.whole &= other.1.whole;
    (sent, received)
}

/// How long a server may take to close a session.
const CLOSING: Duration = Duration::from_secs(2);
