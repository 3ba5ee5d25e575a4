//! The measuring client: loads a page over connections that it opens under a policy.
//!
//! An object is requested when the object that causes it has been delivered, or at a given time. [`crate::mapping`]
//! assigns a stream to the object. The object is transferred in one HTTP exchange and checked byte for byte. Failed
//! requests are retried a limited number of times. Remaining failures are counted, never hidden.
//!
//! - `browse`: what a browser knows of the fetch, and what it requests
//! - `connections`: the connections, and the objects on them
//! - `timeout`: the time limit for objects that make no progress
//! - `pipeline`: one stream of a connection, with its requests and responses
//! - `own_stream`: exchanges over HTTP/2 and HTTP/3, each on a stream of its own
//! - [`request`]: the encoding of requests

mod browse;
mod connections;
mod own_stream;
pub(crate) mod pipeline;
pub mod request;
mod timeout;

use crate::browser::Browser;
use crate::http2::priority::Priority;
use crate::mapping::{Choice, Mapping, Policy, Think, Version};
use crate::observe::{Delivered, FetchError, Recorder};
use crate::page::Page;
use anabranch_base::time::{Duration, Instant};
use anabranch_transport::{Connector, Session};
use anabranch_world::World;
use connections::Connection;
use pipeline::Exchange;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

/// How the fetch of a page ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FetchStatus {
    /// Every object was delivered.
    Done,
    /// Every object is delivered or failed, and some failed.
    Failed,
    /// The deadline expired before every object was delivered or failed.
    Deadline,
}

/// The result of fetching a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// How the fetch ended.
    pub end: FetchStatus,
    /// When the fetch started.
    pub started: Instant,
    /// When the last object was delivered or failed, or when the deadline expired.
    pub finished: Instant,
    /// The result of each object.
    pub objects: Vec<Result<(), FetchError>>,
    /// The total number of body bytes delivered.
    pub body_bytes: u64,
    /// The number of connections opened, including failed ones.
    pub connections: usize,
}

impl Outcome {
    /// Returns the time from the start to the end of the fetch.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.finished - self.started
    }

    /// Returns the number of objects that were not delivered.
    #[must_use]
    pub fn failed(&self) -> usize {
        self.objects.iter().filter(|object| object.is_err()).count()
    }
}

/// Fetches all objects of `page` from the servers that `connector` reaches. When the fetch is over, all sessions are
/// being closed gracefully or, if the deadline has expired, are aborted. The host behind `connector` reports when the
/// sessions are closed.
pub async fn run<W, C>(world: W, connector: C, page: Rc<Page>, policy: Policy, recorder: Recorder) -> Outcome
where
    W: World,
    C: Connector,
{
    let started = world.now();
    let (deadline, timeout) = (policy.deadline, policy.timeout);
    let fetch = start(world.clone(), connector, page, policy, recorder);
    let watch = timeout.map(|timeout| world.spawn("http timeouts", timeout::watch(fetch.clone(), timeout)));

    let done = poll_fn(|cx| fetch.borrow_mut().poll_done(cx));
    let in_time = world.timeout(deadline, done).await.is_some();

    drop(watch);
    // The tasks may hold the last handles of sessions. `end` returns the tasks, so that they are dropped after the
    // borrow of `fetch` has ended.
    let (outcome, tasks) = fetch.borrow_mut().end(started, in_time);
    drop(tasks);
    outcome
}

type SharedFetch<W, C> = Rc<RefCell<Fetch<W, C>>>;

/// The state of the fetch of one page.
struct Fetch<W: World, C: Connector> {
    me: Weak<RefCell<Self>>,
    world: W,
    connector: C,
    page: Rc<Page>,
    policy: Policy,
    recorder: Recorder,
    /// The browser that decides when objects are requested; `None` if each object is requested after its initiator.
    browser: Option<Browser>,
    /// The time from which the browser can pass on another request ([`crate::browser::Rules::request`]).
    requests_free: Instant,
    /// The time from which the browser can process another response ([`crate::browser::Rules::response`]).
    responses_free: Instant,
    /// Whether a task waits to look for requests that have waited too long at the browser's limits.
    watches_waiting: bool,
    objects: Vec<Object>,
    servers: Vec<Server>,
    /// Whether hosts that a browser coalesces share their connections.
    shares_connections: bool,
    connections: Vec<Connection<C::Session>>,
    tasks: Vec<W::Task<()>>,
    /// The objects to request at the start; `None` once they have been scheduled.
    roots: Option<Roots>,
    /// The number of unfinished objects.
    left: usize,
    body_bytes: u64,
    /// When data was last read on any stream.
    last_read: Instant,
    waker: Option<Waker>,
}

struct Object {
    state: ObjectState,
    attempts: u32,
    /// The indices of the objects whose requests this object causes.
    dependents: Vec<usize>,
    /// The number of body bytes delivered in the current attempt.
    delivered: u64,
    /// When the response began in the current attempt.
    begun: Instant,
    error: Option<FetchError>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ObjectState {
    /// The object has not been requested yet.
    Unknown,
    /// The object has waited for a stream since the time `since`.
    Queued { since: Instant },
    /// The object is in flight on a stream of a connection.
    InFlight { connection: usize, stream: u64, since: Instant },
    /// The whole response has arrived, and the browser processes it.
    Arrived,
    /// The object was delivered or failed.
    Finished,
}

/// The objects whose requests no other object causes.
struct Roots {
    /// Objects that are requested at these times after the start.
    arrivals: Vec<(Duration, usize)>,
    /// Objects that are requested at the start.
    first: Vec<usize>,
}

/// A server to which requests are sent. With a browser, each host has two of these values, and the second is for
/// requests without credentials.
struct Server {
    host: usize,
    mapping: Mapping,
    queue: VecDeque<usize>,
    /// The number of consecutive connections to this server that were never established.
    failures: u32,
}

/// Returns how many exchanges a session with `streams` streams carries at the same time.
fn max_concurrent(version: Version, streams: u64) -> u64 {
    match version {
        Version::Http1 | Version::Http3 => streams,
        Version::Http2(windows) => windows.concurrent.into(),
    }
}

/// Requests the objects that are known from the start, and opens the first connections.
fn start<W, C>(
    world: W,
    connector: C,
    page: Rc<Page>,
    policy: Policy,
    recorder: Recorder,
) -> SharedFetch<W, C>
where
    W: World,
    C: Connector,
{
    let count = page.objects.len();
    let mut objects: Vec<Object> = (0..count)
        .map(|_| Object {
            state: ObjectState::Unknown,
            attempts: 0,
            dependents: Vec::new(),
            delivered: 0,
            begun: Instant::ZERO,
            error: None,
        })
        .collect();
    let browser = browse::browser(&page, &policy, connector.streams());
    let mut arrivals: Vec<(Duration, usize)> = Vec::new();
    let mut first = Vec::new();
    for (i, object) in page.objects.iter().enumerate() {
        if let Some(&at) = policy.arrivals.as_ref().and_then(|arrivals| arrivals.get(i)) {
            arrivals.push((at, i));
        } else if let Some(cause) = object.initiator.filter(|&cause| cause < i) {
            objects[cause].dependents.push(i);
        } else if browser.is_some() {
            // The browser itself finds the objects to request at the start.
        } else if policy.think == Think::Recorded && !object.think.is_zero() {
            // No other object causes the request of this object. The page records when the object is requested,
            // relative to the start of the page load.
            arrivals.push((object.think, i));
        } else {
            first.push(i);
        }
    }
    let hosts = if policy.keep_origins { page.hosts.len().max(1) } else { 1 };
    let probes = browse::probes(browser.as_ref(), &policy);
    let places = max_concurrent(policy.version, connector.streams());
    let fresh = connector.fresh_streams();
    let shares_connections = policy.version != Version::Http1 || fresh || connector.streams() > 1;
    let server = |host| Server {
        host,
        mapping: Mapping::new(&policy, places).fresh(fresh).probing(probes),
        queue: VecDeque::new(),
        failures: 0,
    };
    let without_credentials = 0..if browser.is_some() { hosts } else { 0 };
    let servers = (0..hosts).chain(without_credentials).map(server).collect();
    let now = world.now();
    let fetch = Rc::new_cyclic(|me| {
        RefCell::new(Fetch {
            me: me.clone(),
            world,
            connector,
            page,
            policy,
            recorder,
            browser,
            objects,
            servers,
            shares_connections,
            connections: Vec::new(),
            tasks: Vec::new(),
            roots: None,
            left: count,
            body_bytes: 0,
            requests_free: now,
            responses_free: now,
            watches_waiting: false,
            last_read: now,
            waker: None,
        })
    });
    {
        let mut this = fetch.borrow_mut();
        this.roots = Some(Roots { arrivals, first });
        if this.policy.preconnect {
            this.preconnect();
        }
        this.begin();
    }
    fetch
}

impl<W: World, C: Connector> Fetch<W, C> {
    /// Completes when every object is delivered or failed.
    fn poll_done(&mut self, cx: &Context<'_>) -> Poll<()> {
        if self.left == 0 {
            return Poll::Ready(());
        }
        self.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Ends the fetch: closes all sessions and returns the result.
    fn end(&mut self, started: Instant, in_time: bool) -> (Outcome, Vec<W::Task<()>>) {
        let now = self.world.now();
        for object in 0..self.objects.len() {
            if self.objects[object].state != ObjectState::Finished {
                self.finish_object(object, Some(FetchError::Deadline));
            }
        }
        for connection in &self.connections {
            if in_time { connection.session.close() } else { connection.session.abort() }
        }
        let objects: Vec<_> =
            self.objects.iter_mut().map(|object| object.error.take().map_or(Ok(()), Err)).collect();
        let end = match in_time {
            false => FetchStatus::Deadline,
            true if objects.iter().any(Result::is_err) => FetchStatus::Failed,
            true => FetchStatus::Done,
        };
        let outcome = Outcome {
            end,
            started,
            finished: now,
            objects,
            body_bytes: self.body_bytes,
            connections: self.connections.len(),
        };
        (outcome, std::mem::take(&mut self.tasks))
    }

    /// Records that bytes were read on some stream. Returns the current time.
    fn record_read(&mut self) -> Instant {
        self.last_read = self.world.now();
        self.last_read
    }

    fn first_byte(&mut self, object: usize) {
        self.recorder.first_byte(object, self.last_read);
        self.objects[object].begun = self.last_read;
        self.answered(object);
    }

    /// Reports that the last read contained `bytes` bytes of the object's body.
    fn read(&mut self, object: usize, bytes: u64) {
        self.recorder.read(object, self.last_read, bytes);
        self.objects[object].delivered += bytes;
        if let Some(browser) = &mut self.browser {
            browser.delivered(object, self.objects[object].delivered);
        }
        self.record_rendering();
    }

    /// Handles the end of the exchange at the front of a pipeline, once the browser has processed the response. `result`
    /// is the delivered response or the error.
    fn completed(
        &mut self,
        connection: usize,
        stream: u64,
        exchange: Exchange,
        mut result: Result<Delivered, FetchError>,
        close: bool,
    ) {
        let processed = match &mut result {
            Ok(delivered) if !exchange.abandoned => {
                delivered.at = self.process(exchange.object, delivered.at);
                delivered.at
            }
            _ => self.world.now(),
        };
        if processed <= self.world.now() {
            return self.processed(connection, stream, &exchange, result, close);
        }
        self.objects[exchange.object].state = ObjectState::Arrived;
        let (world, me) = (self.world.clone(), self.me.clone());
        self.tasks.push(self.world.spawn("browser", async move {
            world.sleep_until(processed).await;
            let Some(fetch) = me.upgrade() else { return };
            fetch.borrow_mut().processed(connection, stream, &exchange, result, close);
        }));
    }

    /// Frees the stream of an exchange, and reports its object as delivered or failed.
    fn processed(
        &mut self,
        connection: usize,
        stream: u64,
        exchange: &Exchange,
        result: Result<Delivered, FetchError>,
        close: bool,
    ) {
        let server = self.connections[connection].server;
        let used_up = self.servers[server].mapping.finished(connection, stream);
        // On a connection with a single stream, such as TCP, `Connection: close` ends the connection. On an association
        // with several streams, the field ends only the exchange.
        let session = &self.connections[connection].session;
        let single = session.streams() == 1 && !session.fresh_streams();
        if used_up || (close && single) {
            self.servers[server].mapping.retire(connection);
            self.connections[connection].session.close();
        }
        if !exchange.abandoned {
            match result {
                Ok(delivered) => {
                    self.servers[server].failures = 0;
                    self.body_bytes += delivered.body;
                    self.recorder.delivered(exchange.object, delivered);
                    self.finish_object(exchange.object, None);
                    self.issue_caused(exchange.object);
                }
                Err(error) => self.fail(exchange.object, error),
            }
        }
        self.dispatch_all();
    }

    /// Before the first request, opens every connection that the policy allows. A connection that fails to open is
    /// opened again when it is needed.
    fn preconnect(&mut self) {
        let hosts = if self.browser.is_some() { self.servers.len() / 2 } else { self.servers.len() };
        for server in 0..hosts {
            for _ in 0..self.policy.connections.min(self.page.objects.len()) {
                let _ = self.open(server);
            }
        }
    }

    /// Requests the objects that are known before any response, unless an earlier call has requested them. With
    /// `preconnect`, a call during a handshake does nothing, and a later call requests the objects.
    fn begin(&mut self) {
        let waits =
            self.policy.preconnect && self.connections.iter().any(|it| !it.established && !it.is_ended);
        if waits {
            return;
        }
        if let Some(roots) = self.roots.take() {
            self.schedule(self.world.now(), roots.arrivals);
            for object in roots.first {
                self.issue(object);
            }
            self.dispatch_all();
        }
    }

    /// Returns the server from which `object` is requested. Hosts share a connection only if it carries several requests
    /// at a time.
    fn server_of(&self, object: usize) -> usize {
        let host = self.page.objects[object].host;
        let server = match (self.policy.keep_origins, self.shares_connections) {
            (false, _) => return 0,
            (true, false) => host,
            (true, true) => self.page.coalesce.get(host).copied().unwrap_or(host),
        };
        match &self.browser {
            Some(browser) if browser.is_without_credentials(object) => self.page.hosts.len() + server,
            _ => server,
        }
    }

    fn schedule(&mut self, start: Instant, mut arrivals: Vec<(Duration, usize)>) {
        arrivals.sort_unstable();
        if arrivals.is_empty() {
            return;
        }
        let (world, me) = (self.world.clone(), self.me.clone());
        self.tasks.push(self.world.spawn("http arrivals", async move {
            for (at, object) in arrivals {
                world.sleep_until(start + at).await;
                let Some(fetch) = me.upgrade() else { return };
                let mut this = fetch.borrow_mut();
                this.issue(object);
                this.dispatch_all();
            }
        }));
    }

    fn issue_caused(&mut self, object: usize) {
        if self.browser.is_some() {
            return;
        }
        for caused in std::mem::take(&mut self.objects[object].dependents) {
            let think = self.page.objects[caused].think;
            if self.policy.think == Think::None || think.is_zero() {
                self.issue(caused);
                continue;
            }
            let (world, me, at) = (self.world.clone(), self.me.clone(), self.world.now() + think);
            self.tasks.push(self.world.spawn("http think", async move {
                world.sleep_until(at).await;
                let Some(fetch) = me.upgrade() else { return };
                let mut this = fetch.borrow_mut();
                this.issue(caused);
                this.dispatch_all();
            }));
        }
    }

    /// Adds `object` to the queue of its server, so that it will be requested. Does nothing if `object` was queued
    /// before.
    fn issue(&mut self, object: usize) {
        if self.objects[object].state != ObjectState::Unknown {
            return;
        }
        let now = self.world.now();
        self.recorder.issued(object, now);
        self.objects[object].state = ObjectState::Queued { since: now };
        let server = self.server_of(object);
        let urgency = |object: usize| match &self.browser {
            // net `client_socket_pool.cc`: the waiting request of the highest priority gets the next connection.
            Some(browser) => browser.urgency(object).urgency,
            None => self.priority_of(object).map_or(0, |priority| priority.urgency),
        };
        let (own, queue) = (urgency(object), &self.servers[server].queue);
        // Objects of the same urgency keep the order in which they were requested.
        let at = queue.iter().position(|&queued| urgency(queued) > own).unwrap_or(queue.len());
        self.servers[server].queue.insert(at, object);
    }

    /// Returns the priority that is written in the request for `object`; `None` if the policy states no priorities.
    fn priority_of(&self, object: usize) -> Option<Priority> {
        self.policy.sends_priority().then(|| match &self.browser {
            Some(browser) => browser.urgency(object),
            None => Priority::of_type(&self.page.objects[object].content_type),
        })
    }

    fn dispatch_all(&mut self) {
        loop {
            let issued = self.browse();
            for server in 0..self.servers.len() {
                self.dispatch(server);
            }
            // Repeat if objects were queued: if one of them failed at once, the browser may request others.
            if !issued {
                return;
            }
        }
    }

    /// Assigns streams to the objects queued for `server`, and opens connections as needed.
    fn dispatch(&mut self, server: usize) {
        loop {
            while let Some(&object) = self.servers[server].queue.front() {
                let Choice::Assign { connection, stream, last } = self.servers[server].mapping.choose()
                else {
                    break;
                };
                self.servers[server].queue.pop_front();
                self.send_request(object, connection, stream, last);
            }
            let queued = self.servers[server].queue.len();
            let wanted = self.servers[server].mapping.wanted(queued);
            let wanted = wanted.min(self.sockets_left(server, wanted));
            let mut usable = false;
            for _ in 0..wanted {
                match self.open(server) {
                    Ok(early) => usable |= early,
                    Err(error) => return self.fail_queued(server, &error.to_string()),
                }
            }
            if !usable {
                return self.grow(server);
            }
        }
    }

    /// Marks `object` as failed, and also all objects that it initiates, directly or indirectly.
    fn fail(&mut self, object: usize, error: FetchError) {
        let mut failing = vec![(object, error)];
        while let Some((object, error)) = failing.pop() {
            if self.objects[object].state == ObjectState::Finished {
                continue;
            }
            self.finish_object(object, Some(error));
            let mut caused = std::mem::take(&mut self.objects[object].dependents);
            // A browser may already have requested some of these objects before their initiator was complete. Those
            // objects do not fail.
            caused.retain(|&i| self.objects[i].state == ObjectState::Unknown);
            failing.extend(caused.into_iter().rev().map(|i| (i, FetchError::InitiatorFailed(object))));
        }
    }

    fn finish_object(&mut self, object: usize, error: Option<FetchError>) {
        if let Some(error) = &error {
            self.recorder.failed(object, self.world.now(), error);
        }
        self.objects[object].state = ObjectState::Finished;
        self.objects[object].error = error;
        self.tell_time();
        if let Some(browser) = &mut self.browser {
            browser.finished(object);
        }
        self.record_rendering();
        self.left -= 1;
        if self.left == 0
            && let Some(waker) = self.waker.take()
        {
            waker.wake();
        }
    }
}
