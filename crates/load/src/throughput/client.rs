//! The client of a throughput test. It opens the sessions, requests the test from the server, and reports each
//! interval.

use super::frame::Hello;
use super::paths::{PathReport, add_path, listed_paths};
use super::session::{Known, MeasuredSession, SessionFailure};
use super::{CpuClock, Plan, Received, SenderReport, Settings};
use anabranch_base::Instant;
use anabranch_base::time::{Duration, nanos};
use anabranch_transport::network::{Figures, PathFigures};
use anabranch_transport::{CloseReason, Connector, Session};
use anabranch_world::{Tasks, Timer, World};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::Poll;

/// The reason why a throughput test failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Failure {
    /// No session could be established.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// A session failed during the test.
    #[error("{0}")]
    Broken(String),
}

/// The measurements of one reporting interval of a throughput test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interval {
    /// The start of the interval, measured from the start of the test.
    pub from: Duration,
    /// The end of the interval, measured from the start of the test.
    pub to: Duration,
    /// The number of bytes that this end wrote during the interval.
    pub sent: u64,
    /// The number of this end's bytes that the peer acknowledged during the interval.
    pub acknowledged: u64,
    /// Whether all data was written before the interval began. If so, only the send buffer drains in the interval.
    pub draining: bool,
    /// The number of bytes that this end read during the interval.
    pub received: u64,
    /// The transport statistics. Retransmissions and the bytes of each path are those of this interval.
    pub figures: Option<Figures>,
}

/// The result of a throughput test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The duration of the longest handshake among the sessions.
    pub connect: Duration,
    /// The time from the first message to the last report.
    pub duration: Duration,
    /// The client's and the server's counters of the data that the client sends; `None` if it sends none.
    pub up: Option<(SenderReport, Received)>,
    /// The server's and the client's counters of the data that the server sends; `None` if it sends none.
    pub down: Option<(SenderReport, Received)>,
    /// The drain phase: the number of unacknowledged bytes at its start, and its duration. It starts when the client
    /// has written everything, and ends with the test.
    pub drain: Option<(u64, Duration)>,
    /// Whether the test ended on time with data left in a send buffer.
    pub is_cut: bool,
    /// The statistics of each path of a multihomed client; empty for a client with one path.
    pub paths: Vec<PathFigures>,
    /// The server's report on its paths; `None` if the server did not send one.
    pub server_paths: Option<PathReport>,
    /// The number of streams of each session.
    pub streams: u16,
    /// The settings of the server's transport; `None` if the server did not send them.
    pub server_settings: Option<Settings>,
    /// The number of retransmissions of the client; `None` if the transport does not report them.
    pub retransmitted: Option<u64>,
    /// The CPU time of the client's process in nanoseconds: in user mode, and in the kernel.
    pub client_cpu: (u64, u64),
    /// The CPU time of the server's process in nanoseconds: in user mode, and in the kernel.
    pub server_cpu: (u64, u64),
    /// The intervals, in order of time.
    pub intervals: Vec<Interval>,
}

impl Outcome {
    /// Returns whether data came from the server, and not its final report: the report follows the data.
    #[must_use]
    pub fn lacks_server_report(&self) -> bool {
        self.down.is_some_and(|(sent, received)| sent == SenderReport::default() && received.bytes > 0)
    }
}

/// A throughput test with one server. A clone is another handle of the same test.
pub struct Test<W: World, C: Connector> {
    shared: Rc<TestContext<W, C>>,
}

/// A session of the test, and its measurements on the client.
type SessionEnd<W, N> = (N, Rc<MeasuredSession<W, N>>);

struct TestContext<W: World, C: Connector> {
    world: W,
    connector: C,
    servers: Vec<SocketAddr>,
    plan: Plan,
    cpu_clock: CpuClock,
    cpu_at_start: (Duration, Duration),
    state: RefCell<TestState<W, C>>,
}

struct TestState<W: World, C: Connector> {
    ends: Vec<SessionEnd<W, C::Session>>,
    started_at: Instant,
    connect: Duration,
    intervals: Vec<Interval>,
    previous: Counts,
    /// The transport statistics at the end of the test, taken while the sessions were still open.
    last: Option<Figures>,
    /// The time at which the test ended.
    ended: Option<Instant>,
    is_cut: bool,
    failed: Option<Failure>,
}

/// Totals from the start of the test to the end of the most recent interval. All are in bytes, except `retransmitted`,
/// which is a number of retransmissions.
#[derive(Debug, Default)]
struct Counts {
    sent: u64,
    acknowledged: u64,
    received: u64,
    retransmitted: u64,
    /// The acknowledged and the received bytes of each path.
    paths: BTreeMap<IpAddr, (u64, u64)>,
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
    /// Creates a test with the first server that answers. `servers` are the addresses of the servers that `connector`
    /// knows, in the same order.
    pub fn new(world: W, connector: C, servers: Vec<SocketAddr>, plan: Plan, cpu_clock: CpuClock) -> Self {
        let started_at = world.now();
        let state = TestState {
            ends: Vec::new(),
            started_at,
            connect: Duration::ZERO,
            intervals: Vec::new(),
            previous: Counts::default(),
            last: None,
            ended: None,
            is_cut: false,
            failed: None,
        };
        let cpu_at_start = cpu_clock();
        let state = RefCell::new(state);
        Self {
            shared: Rc::new(TestContext { world, connector, servers, plan, cpu_clock, cpu_at_start, state }),
        }
    }

    /// Runs the test, and calls `line` after each interval. If the future is dropped before the end,
    /// [`outcome`](Self::outcome) returns the measurements so far.
    ///
    /// # Errors
    /// [`Failure`], with a one-line message.
    pub async fn run(&self, mut line: impl FnMut(&Interval)) -> Result<(), Failure> {
        let shared = &self.shared;
        let (world, plan) = (&shared.world, &shared.plan);
        let mut server = None;
        for _ in 0..plan.sessions.max(1) {
            let mut started_at = world.now();
            let session = match server {
                Some(server) => self.open(server).await.map_err(Failure::Connect)?,
                None => {
                    let (found, session, at) = self.find().await.map_err(Failure::Connect)?;
                    (server, started_at) = (Some(found), at);
                    session
                }
            };
            let end = MeasuredSession::new(world, &session, shared.cpu_clock, None);
            let mut state = shared.state.borrow_mut();
            state.connect = state.connect.max(world.now().since(started_at));
            state.ends.push((session, end));
        }
        let count = u64::from(plan.sessions.max(1));
        let hello = Hello {
            up: plan.up,
            down: plan.down,
            unordered: plan.unordered,
            settings: true,
            paths: true,
            streams: plan.streams.max(1),
            message: plan.message,
            span: plan.span,
            bytes: plan.bytes.map_or(0, |bytes| bytes.div_ceil(count).max(1)),
        };
        let tasks = Tasks::new(world.clone());
        shared.state.borrow_mut().started_at = world.now();
        let ends: Vec<_> = shared.state.borrow().ends.iter().map(|(_, end)| end.clone()).collect();
        for end in ends {
            let shared = shared.clone();
            tasks.spawn("throughput session", async move {
                if let Err(failed) = end.ask(hello, shared.plan.timeout).await {
                    let message = match failed {
                        SessionFailure::Closed(CloseReason::Finished) => {
                            "the server closed before the test was complete".to_owned()
                        }
                        failed => failed.to_string(),
                    };
                    shared.state.borrow_mut().failed.get_or_insert(Failure::Broken(message));
                }
            });
        }
        let mut timer = world.timer();
        timer.set(Some(world.now() + plan.interval));
        let mut end_timer = world.timer();
        end_timer.set(plan.bytes.is_none().then(|| self.started_at() + plan.span + plan.drain));
        let mut idle = std::pin::pin!(tasks.wait_idle());
        poll_fn(|cx| {
            let over = idle.as_mut().poll(cx);
            if shared.state.borrow().failed.is_some() {
                return Poll::Ready(());
            }
            while over.is_pending() && timer.poll(cx).is_ready() {
                timer.set(Some(world.now() + plan.interval));
                line(&self.interval());
            }
            while over.is_pending() && end_timer.poll(cx).is_ready() {
                // The time for draining is over, so a test that still makes progress ends here. A test without progress
                // continues until it makes progress again, or fails after the timeout.
                if self.has_progressed() {
                    shared.state.borrow_mut().is_cut = true;
                    return Poll::Ready(());
                }
                end_timer.set(Some(world.now() + PROGRESS_CHECK));
            }
            over
        })
        .await;
        if let Some(rest) = self.final_interval() {
            line(&rest);
        }
        let failed = shared.state.borrow_mut().failed.take();
        let sessions = shared.state.borrow().ends.to_vec();
        if let Some(failed) = failed {
            sessions.iter().for_each(|(session, _)| session.abort());
            return Err(failed);
        }
        self.freeze();
        if shared.state.borrow().is_cut {
            sessions.iter().for_each(|(session, _)| session.abort());
            return Ok(());
        }
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

    /// Returns whether a session has recently made progress.
    fn has_progressed(&self) -> bool {
        let span = self.shared.plan.drain.max(RECENT);
        self.shared.state.borrow().ends.iter().any(|(_, end)| end.has_progressed_within(span))
    }

    /// Returns the measurements of the unfinished interval at the end of the test. Returns `None` if it is shorter than
    /// a twentieth of an interval.
    pub fn final_interval(&self) -> Option<Interval> {
        let shared = &self.shared;
        let shortest = shared.plan.interval / 20;
        let (started_at, last) = {
            let state = shared.state.borrow();
            // Without sessions, nothing has been sent.
            if state.ends.is_empty() {
                return None;
            }
            (state.started_at, state.intervals.last().map_or(Duration::ZERO, |last| last.to))
        };
        (shared.world.now().since(started_at) > last + shortest).then(|| self.interval())
    }

    /// Connects to the first server that answers. Returns the index of the server, the session, and the start time of
    /// its handshake. If no server answers, returns all error messages.
    async fn find(&self) -> Result<(usize, C::Session, Instant), String> {
        let servers = &self.shared.servers;
        let mut errors = Vec::new();
        for server in 0..servers.len().max(1) {
            let started_at = self.shared.world.now();
            match self.open(server).await {
                Ok(session) => return Ok((server, session, started_at)),
                Err(error) if servers.len() > 1 => errors.push(format!("{}: {error}", servers[server].ip())),
                Err(error) => errors.push(error),
            }
        }
        Err(errors.join("; "))
    }

    /// Opens a session with the server of index `server`, and waits until the session is established.
    async fn open(&self, server: usize) -> Result<C::Session, String> {
        let TestContext { world, plan, connector, .. } = &*self.shared;
        let session = connector.connect(server).map_err(|error| error.to_string())?;
        match world.timeout(plan.timeout, session.established()).await {
            Some(Ok(())) => Ok(session),
            Some(Err(error)) => Err(error.to_string()),
            None => {
                session.abort();
                Err(format!("no answer within {} s", plan.timeout.as_secs_f32()))
            }
        }
    }

    /// Returns the result of `read` for each established session.
    pub fn each<T>(&self, read: impl Fn(&C::Session) -> T) -> Vec<T> {
        self.shared.state.borrow().ends.iter().map(|(session, _)| read(session)).collect()
    }

    /// Saves the statistics that are available only while the sessions are open.
    fn freeze(&self) {
        let (figures, now) = (self.figures(), self.shared.world.now());
        let mut state = self.shared.state.borrow_mut();
        state.previous.retransmitted = figures.as_ref().map_or(0, |figures| figures.retransmitted);
        (state.last, state.ended) = (figures, Some(now));
    }

    /// Returns the time at which the test began, from which intervals are measured.
    pub fn started_at(&self) -> Instant {
        self.shared.state.borrow().started_at
    }

    /// Returns the statistics of all sessions together: sums, and the round-trip time of the first session.
    fn figures(&self) -> Option<Figures> {
        let state = self.shared.state.borrow();
        let mut all: Option<Figures> = None;
        for (session, _) in &state.ends {
            let one = session.figures()?;
            let paths = listed_paths(one.paths);
            match &mut all {
                Some(all) => {
                    all.retransmitted += one.retransmitted;
                    all.cwnd += one.cwnd;
                    all.paths = paths.into_iter().fold(std::mem::take(&mut all.paths), add_path);
                }
                none => *none = Some(Figures { paths, ..one }),
            }
        }
        all
    }

    fn interval(&self) -> Interval {
        let figures = self.figures();
        let mut state = self.shared.state.borrow_mut();
        let now = self.shared.world.now();
        let from = state.intervals.last().map_or(Duration::ZERO, |last| last.to);
        let began = state.started_at + from + self.shared.plan.interval / 20;
        let mut counts = Counts { paths: state.previous.paths.clone(), ..Counts::default() };
        let mut draining = self.shared.plan.up;
        for (_, end) in &state.ends {
            let sent = end.sent_bytes.get();
            counts.sent += sent;
            counts.received += end.received_bytes.get();
            counts.acknowledged += sent.saturating_sub(end.unacknowledged());
            draining &= end.finished.get().is_some_and(|(at, _)| at <= began);
        }
        counts.acknowledged = counts.acknowledged.max(state.previous.acknowledged);
        counts.retransmitted = figures.as_ref().map_or(0, |figures| figures.retransmitted);
        let figures = figures.map(|mut figures| {
            for path in &mut figures.paths {
                let (acknowledged, received) = counts.paths.get(&path.address).copied().unwrap_or((0, 0));
                // The peer may drop data that it has acknowledged, and the number of acknowledged bytes then falls.
                // With `max`, each byte counts in one interval only.
                let so_far = path.acknowledged.max(acknowledged);
                counts.paths.insert(path.address, (so_far, path.received));
                path.acknowledged = so_far - acknowledged;
                path.received = path.received.saturating_sub(received);
            }
            figures.retransmitted = counts.retransmitted.saturating_sub(state.previous.retransmitted);
            figures
        });
        let before = std::mem::replace(&mut state.previous, counts);
        let interval = Interval {
            from,
            to: now.since(state.started_at),
            sent: state.previous.sent - before.sent,
            acknowledged: state.previous.acknowledged - before.acknowledged,
            draining,
            received: state.previous.received - before.received,
            figures,
        };
        state.intervals.push(interval.clone());
        interval
    }

    /// Returns the results of the test so far.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let shared = &self.shared;
        let now = self.figures();
        let has_figures =
            now.is_some() || shared.state.borrow().intervals.iter().any(|i| i.figures.is_some());
        let state = shared.state.borrow();
        let ended = state.ended.unwrap_or_else(|| shared.world.now());
        let finished = state.ends.iter().map(|(_, end)| end.finished.get());
        let drain = finished.collect::<Option<Vec<_>>>().filter(|_| shared.plan.up).and_then(|finished| {
            let last = finished.iter().map(|(at, _)| *at).max()?;
            Some((finished.iter().map(|(_, left)| left).sum(), ended.since(last)))
        });
        let paths =
            state.last.as_ref().or(now.as_ref()).map_or_else(Vec::new, |figures| figures.paths.clone());
        let known: Vec<Known> = state.ends.iter().map(|(_, end)| end.known()).collect();
        let up = known.iter().map(|known| (known.sent, known.peer_received)).reduce(add);
        let down = known.iter().map(|known| (known.peer_sent, known.received)).reduce(add);
        let first = known.first().copied().unwrap_or_default();
        let server_cpu = if shared.plan.up {
            (first.peer_received.user, first.peer_received.system)
        } else {
            (first.peer_sent.user, first.peer_sent.system)
        };
        let (user, system) = (shared.cpu_clock)();
        let duration = known.iter().flat_map(|known| [known.sent.nanos, known.received.nanos]).max();
        Outcome {
            connect: state.connect,
            duration: Duration::from_nanos(duration.unwrap_or(0)),
            up: up.filter(|_| shared.plan.up),
            down: down.filter(|_| shared.plan.down),
            drain,
            is_cut: state.is_cut,
            paths,
            server_paths: state.ends.iter().filter_map(|(_, end)| end.peer_paths()).reduce(PathReport::add),
            streams: first.streams,
            server_settings: state.ends.first().and_then(|(_, end)| end.peer_settings()),
            retransmitted: has_figures.then_some(state.previous.retransmitted),
            client_cpu: (
                nanos(user.saturating_sub(shared.cpu_at_start.0)),
                nanos(system.saturating_sub(shared.cpu_at_start.1)),
            ),
            server_cpu,
            intervals: state.intervals.clone(),
        }
    }
}

/// Returns the sums of the counters of two sessions.
fn add(one: (SenderReport, Received), other: (SenderReport, Received)) -> (SenderReport, Received) {
    let (mut sent, mut received) = one;
    sent.bytes += other.0.bytes;
    sent.messages += other.0.messages;
    sent.nanos = sent.nanos.max(other.0.nanos);
    sent.unacknowledged = sent.unacknowledged.zip(other.0.unacknowledged).map(|(one, other)| one + other);
    received.bytes += other.1.bytes;
    received.messages += other.1.messages;
    received.nanos = received.nanos.max(other.1.nanos);
    received.streams += other.1.streams;
    received.min_stream_bytes = received.min_stream_bytes.min(other.1.min_stream_bytes);
    received.max_stream_bytes = received.max_stream_bytes.max(other.1.max_stream_bytes);
    received.whole &= other.1.whole;
    (sent, received)
}

/// A session that made progress within this time is still draining its send buffer.
const RECENT: Duration = Duration::from_secs(1);
/// The time between two checks for progress after the end of the drain phase.
const PROGRESS_CHECK: Duration = Duration::from_millis(100);
/// The maximum time that the client waits for the server to close a session.
const CLOSING: Duration = Duration::from_secs(2);
