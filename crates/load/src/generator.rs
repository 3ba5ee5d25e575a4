//! A load generator: opens sessions and requests objects, either at a rate or as fast as the server replies.
//!
//! In an open loop ([`Pace::Open`], [`Pace::Pool`]) the send time of each object is planned in advance, and its latency
//! is measured from the planned time. If a server stalls for a second, every object that was due in that second shows
//! the delay. A generator that measures from the actual send time hides the delay ("coordinated omission"). In a closed
//! loop ([`Pace::Closed`]) the next object is due when the previous one has arrived, so the server determines the rate.
//!
//! - `tally`: all counters and measurements
//! - `cause`: the causes of failures
//! - `exchange`: a request and its reply over HTTP/1.1
//! - `requests`: a request and its reply over HTTP/2 and HTTP/3
//! - `session`: a session with its objects
//! - `report`: the report as text (in httperf's format), as JSON, or as CSV

mod cause;
mod exchange;
pub mod report;
mod requests;
mod session;
mod tally;

pub use cause::Cause;
pub use tally::{Line, Tally};

use anabranch_base::Rng;
use anabranch_base::time::{Duration, Instant, nanos};
use anabranch_http::serve::Versions;
use anabranch_transport::Connector;
use anabranch_world::{Tasks, World};
use session::{Queue, SessionWork};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The plan of a load: which objects are requested from a server, when, and over how many sessions.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// The value of the Host field in requests.
    pub authority: String,
    /// Whether TLS is used. It determines the scheme of the URL that HTTP/2 requests contain.
    pub secure: bool,
    /// The target of all requests.
    pub target: String,
    /// The times at which objects are due.
    pub pace: Pace,
    /// The maximum number of objects per session; `None` for no limit. If it is 0, sessions are only opened and closed.
    pub objects: Option<u64>,
    /// The maximum number of streams per session that carry objects at the same time. Over HTTP/2 and HTTP/3, this is
    /// the maximum number of outstanding requests. If the transport has fewer streams, all of them are used.
    pub streams: u16,
    /// The versions of HTTP that may be used. If several versions are allowed and none is negotiated, HTTP/1.1 is used.
    pub versions: Versions,
    /// The total number of objects; `None` for no limit.
    pub requests: Option<u64>,
    /// The total number of sessions; `None` for no limit.
    pub sessions: Option<u64>,
    /// The time during which new objects and sessions are begun; `None` for no limit.
    pub duration: Option<Duration>,
    /// The time without progress after which an object or a handshake has failed.
    pub timeout: Duration,
    /// The maximum number of concurrent sessions in an open loop. Further sessions are not opened and count as failed.
    pub max_sessions: u64,
    /// The seed of the random intervals between sessions; `None` uses the randomness of the `World`.
    pub seed: Option<u64>,
}

/// How the times at which objects are due follow from the plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// After each interval, a new session with all its objects is due.
    Open {
        /// The time between two sessions; the mean time if intervals are random.
        interval: Duration,
        /// Whether the times form a Poisson process.
        random: bool,
    },
    /// After each interval, one more object is due. A fixed number of sessions carries all objects.
    Pool {
        /// The time between two objects; the mean time if intervals are random.
        interval: Duration,
        /// Whether the times form a Poisson process.
        random: bool,
        /// The number of concurrent sessions.
        sessions: u64,
    },
    /// There is a fixed number of concurrent sessions. On each of them, the next object is due when the previous one
    /// has arrived.
    Closed {
        /// The number of concurrent sessions.
        sessions: u64,
    },
}

impl Plan {
    /// Returns the times at which the first `count` objects or sessions are due, measured from the start of the load.
    /// Returns `None` if no times are fixed in advance ([`Pace::Closed`]), or if the intervals are random and the plan
    /// has no seed.
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
    /// The index of the server in the connector.
    server: usize,
    plan: Plan,
    request: Vec<u8>,
    tally: RefCell<Tally>,
    /// The open sessions, by number.
    open: RefCell<BTreeMap<u64, Rc<SessionWork>>>,
    /// Whether the load has ended.
    over: Cell<bool>,
    /// The number of objects that may still be begun.
    requests_left: Cell<u64>,
    sessions_left: Cell<u64>,
    /// The time from which no sessions or objects are begun any more.
    ends: Instant,
    /// The read buffer that all streams share.
    buffer: RefCell<Vec<u8>>,
    /// The objects that are due and wait for a stream.
    queue: Queue,
}

impl<W: World, C: Connector> Load<W, C> {
    /// Creates a load on server number `server` of `connector`. The duration of the load is counted from this call.
    pub fn new(world: W, connector: C, server: usize, plan: Plan) -> Self {
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: anabranch/{}\r\n\r\n",
            plan.target,
            plan.authority,
            env!("CARGO_PKG_VERSION")
        );
        let started_at = world.now();
        let shared = LoadState {
            connector,
            server,
            request: request.into_bytes(),
            tally: RefCell::new(Tally::new(started_at)),
            open: RefCell::default(),
            over: Cell::new(false),
            requests_left: Cell::new(plan.requests.unwrap_or(u64::MAX)),
            sessions_left: Cell::new(plan.sessions.unwrap_or(u64::MAX)),
            ends: plan.duration.map_or(Instant::MAX, |span| started_at + span),
            buffer: RefCell::new(vec![0; READ_BYTES]),
            queue: Queue::default(),
            plan,
            world,
        };
        Self { shared: Rc::new(shared) }
    }

    /// Runs the load to its end. If the future is dropped earlier, [`tally`](Self::tally) returns the measurements so
    /// far.
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
                    if shared.tally.borrow().concurrent < shared.plan.max_sessions {
                        tasks.spawn("load session", session::open(shared.clone(), planned));
                    } else if take(&shared.requests_left) {
                        shared
                            .fail(Cause::Full, || format!("{} sessions are open", shared.plan.max_sessions));
                    }
                }
            }
            Pace::Pool { interval, random, sessions } => {
                for _ in 0..sessions {
                    tasks.spawn("load sessions", session::pool(shared.clone()));
                }
                let mut schedule = self.schedule(interval, random);
                while shared.take_request().is_some() {
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
        tasks.wait_idle().await;
        shared.abandon_rest();
        drop(ticker);
        shared.tally.borrow_mut().finish(shared.world.now());
        shared.over.set(true);
    }

    /// Returns the measurements so far, as if the load ended now. They include open sessions and the current second.
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

    /// Returns the numbers of replies and failures so far, for a progress line.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        let tally = self.shared.tally.borrow();
        (tally.replies, tally.error_count())
    }

    /// Returns whether no session has been established so far, and at least one has failed.
    #[must_use]
    pub fn has_only_failed(&self) -> bool {
        self.shared.tally.borrow().never_connected().is_some()
    }

    /// Returns the number of sessions that are open now.
    #[must_use]
    pub fn open_sessions(&self) -> u64 {
        self.shared.tally.borrow().concurrent
    }

    fn schedule(&self, interval: Duration, random: bool) -> Schedule {
        let started_at = self.shared.tally.borrow().started_at;
        let rng = || self.shared.plan.rng().unwrap_or_else(|| self.shared.world.rng("load"));
        Schedule::new(started_at, interval, random.then(rng))
    }
}

impl<W: World, C: Connector> LoadState<W, C> {
    /// Begins another object, if one may be begun. Returns the time at which it began.
    fn take_request(&self) -> Option<Instant> {
        let now = take(&self.requests_left).then(|| self.world.now());
        now.filter(|now| *now < self.ends)
    }

    fn take_session(&self) -> bool {
        take(&self.sessions_left) && self.requests_left.get() > 0
    }

    /// Waits until the time `planned`. Returns false if the load ends before that time.
    async fn wait_for(&self, planned: Instant) -> bool {
        if planned >= self.ends {
            return false;
        }
        if self.world.now() < planned {
            self.world.sleep_until(planned).await;
        }
        true
    }

    /// Records the delay from `planned`, the planned time of an object or session, to its actual start.
    fn record_start(&self, planned: Instant) {
        let delay = self.world.now().since(planned);
        self.tally.borrow_mut().start_delay.add(delay);
    }

    fn fail(&self, cause: Cause, message: impl FnOnce() -> String) {
        self.tally.borrow_mut().failed(self.world.now(), cause, message);
    }
}

fn take(left: &Cell<u64>) -> bool {
    let count = left.get();
    left.set(count.saturating_sub(1));
    count > 0
}

/// Generates the planned times of an open loop.
struct Schedule {
    next: Instant,
    interval: u64,
    rng: Option<Rng>,
}

impl Schedule {
    fn new(started_at: Instant, interval: Duration, rng: Option<Rng>) -> Self {
        Self { next: started_at, interval: nanos(interval).max(1), rng }
    }

    fn next(&mut self) -> Instant {
        let due = self.next;
        let gap = match &mut self.rng {
            None => self.interval,
            // The intervals of a Poisson process have an exponential distribution.
            Some(rng) => {
                let uniform = (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
                (-(1.0 - uniform).ln() * self.interval as f64) as u64
            }
        };
        self.next = due.plus_nanos(gap);
        due
    }
}

/// Calls [`Tally::tick`] after each second.
async fn seconds<W: World, C: Connector>(load: Load<W, C>) {
    let mut at = load.shared.tally.borrow().started_at;
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
    fn the_schedule_is_known_in_advance() {
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
            max_sessions: 1,
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
