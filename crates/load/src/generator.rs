//! A load generator: sessions and objects at a rate, or as fast as they are answered.
//!
//! In an open loop ([`Pace::Open`], [`Pace::Pool`]) the send time of each object is
//! planned in advance, and its latency counts from that time. So if a server stalls for
//! a second, every object that was due in that second shows the delay. A generator that
//! counts from the actual send time omits it ("coordinated omission"). In a closed loop
//! ([`Pace::Closed`]) the next object is due when one has arrived, so the server sets
//! the pace.
//!
//! - `histogram`: durations in bounded memory; `tally`: all counters
//! - `cause`: kinds of failures
//! - `exchange`: a request and its reply; `requests`: the same over HTTP/2 and HTTP/3; `session`: the objects of a
//!   session
//! - `report`: text in httperf's format, JSON, CSV

mod cause;
mod exchange;
mod histogram;
pub mod report;
mod requests;
mod session;
mod tally;

pub use cause::Cause;
pub use histogram::Histogram;
pub use tally::{Second, Tally};

use anabranch_base::Rng;
use anabranch_base::time::{Duration, Instant, nanos};
use anabranch_http::http2::ALPN;
use anabranch_http::serve::Versions;
use anabranch_transport::{Connector, Session};
use anabranch_world::{Tasks, World};
use session::{Queue, Work};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The load to put on a server.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// The value of the Host field.
    pub authority: String,
    /// Whether TLS is used: HTTP/2 names the scheme in each request.
    pub secure: bool,
    /// The request target.
    pub target: String,
    /// When objects are due.
    pub pace: Pace,
    /// The number of objects per session; `None`: no limit. With 0, a session is opened and closed again.
    pub objects: Option<u64>,
    /// The number of streams per session that carry objects at the same time; a transport may have fewer. Over HTTP/2 and
    /// HTTP/3, the number of outstanding requests.
    pub streams: u16,
    /// The versions of HTTP. If several are allowed and none is negotiated, HTTP/1.1 is used.
    pub versions: Versions,
    /// The total number of objects.
    pub requests: Option<u64>,
    /// The total number of sessions.
    pub sessions: Option<u64>,
    /// How long new objects and sessions are begun.
    pub duration: Option<Duration>,
    /// An object or a handshake without progress for this time has failed.
    pub timeout: Duration,
    /// The maximum number of concurrent sessions in an open loop; further ones fail.
    pub most: u64,
    /// The seed of random intervals; `None` uses the world's randomness.
    pub seed: Option<u64>,
}

/// When objects are due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// A session with its objects is due at each interval.
    Open {
        /// The time between two sessions; its mean if intervals are random.
        interval: Duration,
        /// Whether the intervals are those of a Poisson process.
        random: bool,
    },
    /// An object is due at each interval, and one of a number of sessions carries it.
    Pool {
        /// The time between two objects; its mean if intervals are random.
        interval: Duration,
        /// Whether the intervals are those of a Poisson process.
        random: bool,
        /// The number of sessions.
        sessions: u64,
    },
    /// A fixed number of concurrent sessions; on each, the next object is due when one has arrived.
    Closed {
        /// The number of sessions.
        sessions: u64,
    },
}

/// The version of HTTP that a session uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Spoken {
    Http1,
    Http2,
    Http3,
}

impl Plan {
    /// Returns the version of HTTP for this established session.
    fn spoken(&self, session: &impl Session) -> Spoken {
        match self.versions {
            Versions::Http3 => Spoken::Http3,
            Versions::Http2 => Spoken::Http2,
            Versions::Both if session.protocol().is_some_and(|name| name == ALPN) => Spoken::Http2,
            Versions::Http1 | Versions::Both => Spoken::Http1,
        }
    }

    /// Returns when the first `count` objects or sessions are due, from the start. `None` if the loop is closed, or if
    /// the intervals are drawn from the world's randomness.
    #[must_use]
    pub fn first_due(&self, count: usize) -> Option<Vec<Duration>> {
        let (interval, random, most) = match self.pace {
            Pace::Open { interval, random } => (interval, random, self.sessions),
            Pace::Pool { interval, random, .. } => (interval, random, self.requests),
            Pace::Closed { .. } => return None,
        };
        let rng = if random { Some(self.rng()?) } else { None };
        let mut schedule = Schedule::new(Instant::ZERO, interval, rng);
        let count = most.map_or(count, |most| usize::try_from(most).unwrap_or(count).min(count));
        let due = (0..count).map(|_| schedule.next().since(Instant::ZERO));
        Some(due.take_while(|due| self.duration.is_none_or(|ends| *due < ends)).collect())
    }

    fn rng(&self) -> Option<Rng> {
        self.seed.map(|seed| Rng::new(seed).fork("load"))
    }
}

/// A load on one server. A clone is another handle of the same load.
pub struct Load<W: World, C: Connector> {
    shared: Rc<LoadState<W, C>>,
}

impl<W: World, C: Connector> Clone for Load<W, C> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<W: World, C: Connector> std::fmt::Debug for Load<W, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Load").field("plan", &self.shared.plan).finish_non_exhaustive()
    }
}

/// The state that all sessions of a load share.
struct LoadState<W: World, C: Connector> {
    world: W,
    connector: C,
    /// The number of the server in the connector.
    server: usize,
    plan: Plan,
    request: Vec<u8>,
    tally: RefCell<Tally>,
    /// Open sessions, by number.
    open: RefCell<BTreeMap<u64, Rc<Work>>>,
    /// Whether the load is over.
    over: Cell<bool>,
    /// The number of objects that may still be begun.
    requests_left: Cell<u64>,
    sessions_left: Cell<u64>,
    /// The time from which nothing is begun any more.
    ends: Instant,
    /// The buffer for all reads.
    buffer: RefCell<Vec<u8>>,
    /// Objects that are due and have no stream yet.
    queue: Queue,
}

impl<W: World, C: Connector> Load<W, C> {
    /// Creates a load on server number `server` of `connector`. Its time begins now.
    pub fn new(world: W, connector: C, server: usize, plan: Plan) -> Self {
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: anabranch/{}\r\n\r\n",
            plan.target,
            plan.authority,
            env!("CARGO_PKG_VERSION")
        );
        let begun = world.now();
        let shared = LoadState {
            connector,
            server,
            request: request.into_bytes(),
            tally: RefCell::new(Tally::new(begun)),
            open: RefCell::default(),
            over: Cell::new(false),
            requests_left: Cell::new(plan.requests.unwrap_or(u64::MAX)),
            sessions_left: Cell::new(plan.sessions.unwrap_or(u64::MAX)),
            ends: plan.duration.map_or(Instant::MAX, |span| begun + span),
            buffer: RefCell::new(vec![0; READ_BYTES]),
            queue: Queue::default(),
            plan,
            world,
        };
        Self { shared: Rc::new(shared) }
    }

    /// Runs the load to its end. If the future is dropped early, [`tally`](Self::tally) has the measurements so far.
    pub async fn run(&self) {
        let shared = &self.shared;
        let ticker = shared.world.spawn("load seconds", seconds(self.clone()));
        let tasks = Tasks::new(shared.world.clone());
        match shared.plan.pace {
            Pace::Open { interval, random } => {
                let mut schedule = self.schedule(interval, random);
                while shared.take_session() {
                    let planned = schedule.next();
                    if !shared.wait_for(planned).await {
                        break;
                    }
                    shared.record_start(planned);
                    if shared.tally.borrow().concurrent < shared.plan.most {
                        tasks.spawn("load session", session::open(shared.clone(), planned));
                    } else if take(&shared.requests_left) {
                        shared.fail(Cause::Full, || format!("{} sessions are open", shared.plan.most));
                    }
                }
            }
            Pace::Pool { interval, random, sessions } => {
                for _ in 0..sessions {
                    tasks.spawn("load sessions", session::pool(shared.clone()));
                }
                let mut schedule = self.schedule(interval, random);
                while shared.take_request() {
                    let planned = schedule.next();
                    if !shared.wait_for(planned).await {
                        break;
                    }
                    shared.record_start(planned);
                    if !shared.queue.push(planned) {
                        shared.fail(Cause::Full, || "too many objects wait for a stream".to_owned());
                    }
                }
                shared.queue.end(shared.world.now());
            }
            Pace::Closed { sessions } => {
                for _ in 0..sessions {
                    tasks.spawn("load sessions", session::closed(shared.clone()));
                }
            }
        }
        tasks.idle().await;
        shared.abandon_rest();
        drop(ticker);
        shared.tally.borrow_mut().finish(shared.world.now());
        shared.over.set(true);
    }

    /// Returns the measurements so far, as if the load ended now: they include open sessions and the current second.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let shared = &self.shared;
        let mut tally = shared.tally.borrow().clone();
        if !shared.over.get() {
            tally.finish(shared.world.now());
            shared.open.borrow().values().for_each(|work| work.interrupted(&mut tally));
        }
        tally
    }

    /// The numbers of replies and failures so far, for a progress line.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        let tally = self.shared.tally.borrow();
        (tally.replies, tally.error_count())
    }

    /// The number of open sessions.
    #[must_use]
    pub fn open_sessions(&self) -> u64 {
        self.shared.tally.borrow().concurrent
    }

    fn schedule(&self, interval: Duration, random: bool) -> Schedule {
        let begun = self.shared.tally.borrow().begun;
        let drawn = || self.shared.plan.rng().unwrap_or_else(|| self.shared.world.rng("load"));
        Schedule::new(begun, interval, random.then(drawn))
    }
}

impl<W: World, C: Connector> LoadState<W, C> {
    /// Returns whether another object may be begun; if so, it counts as begun.
    fn take_request(&self) -> bool {
        take(&self.requests_left) && self.world.now() < self.ends
    }

    fn take_session(&self) -> bool {
        take(&self.sessions_left) && self.requests_left.get() > 0
    }

    /// Waits for `planned`; returns false if the load ends before.
    async fn wait_for(&self, planned: Instant) -> bool {
        if planned >= self.ends {
            return false;
        }
        if self.world.now() < planned {
            self.world.sleep_until(planned).await;
        }
        true
    }

    /// Records how late an object or session is begun that was planned for `planned`.
    fn record_start(&self, planned: Instant) {
        let late = self.world.now().since(planned);
        self.tally.borrow_mut().late.add(late);
    }

    fn fail(&self, cause: Cause, said: impl FnOnce() -> String) {
        self.tally.borrow_mut().failed(self.world.now(), cause, said);
    }
}

fn take(left: &Cell<u64>) -> bool {
    let count = left.get();
    left.set(count.saturating_sub(1));
    count > 0
}

/// The planned times in an open loop.
struct Schedule {
    next: Instant,
    interval: u64,
    rng: Option<Rng>,
}

impl Schedule {
    fn new(begun: Instant, interval: Duration, rng: Option<Rng>) -> Self {
        Self { next: begun, interval: nanos(interval).max(1), rng }
    }

    fn next(&mut self) -> Instant {
        let due = self.next;
        let gap = match &mut self.rng {
            None => self.interval,
            // The intervals of a Poisson process are exponentially distributed.
            Some(rng) => {
                let uniform = (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
                (-(1.0 - uniform).ln() * self.interval as f64) as u64
            }
        };
        self.next = due.plus_nanos(gap);
        due
    }
}

/// Closes the current second of the tally, every second.
async fn seconds<W: World, C: Connector>(load: Load<W, C>) {
    let mut at = load.shared.tally.borrow().begun;
    loop {
        at += Duration::from_secs(1);
        load.shared.world.sleep_until(at).await;
        load.shared.tally.borrow_mut().tick(load.shared.world.now());
    }
}

const READ_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_planned_can_be_told_beforehand() {
        let plan = |pace: Pace| Plan {
            authority: String::new(),
            secure: false,
            target: "/".to_owned(),
            pace,
            objects: None,
            streams: 1,
            versions: Versions::Http1,
            requests: None,
            sessions: None,
            duration: Some(Duration::from_millis(25)),
            timeout: Duration::from_secs(1),
            most: 1,
            seed: None,
        };
        let interval = Duration::from_millis(10);
        let even = plan(Pace::Open { interval, random: false });
        let millis = |due: &[u64]| Some(due.iter().copied().map(Duration::from_millis).collect::<Vec<_>>());
        assert_eq!(even.first_due(5), millis(&[0, 10, 20]));
        assert_eq!(Plan { sessions: Some(2), ..even }.first_due(5), millis(&[0, 10]));
        assert_eq!(plan(Pace::Closed { sessions: 3 }).first_due(5), None);
        let random = plan(Pace::Pool { interval, random: true, sessions: 3 });
        assert_eq!(random.first_due(5), None);
        let drawn = |seed| Plan { seed: Some(seed), duration: None, ..random.clone() }.first_due(100);
        assert!(drawn(1).is_some_and(|due| due.len() == 100) && drawn(1) == drawn(1) && drawn(1) != drawn(2));
    }
}
