//! The page, the queues, the connections, and what happens to them.

use super::pipeline::{self, Exchange, Pipeline, PipelineEnd};
use super::request;
use super::{End, Outcome};
use crate::body::Pattern;
use crate::mapping::{Choice, Mapping, Policy, Think};
use crate::observe::{Assigned, Delivered, ExchangeId, FetchError, Observer};
use crate::page::Page;
use anabranch_base::time::{Duration, Instant};
use anabranch_transport::{CloseReason, Connector, Session};
use anabranch_world::World;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

pub(super) type SharedFetch<W, C, O> = Rc<RefCell<Fetch<W, C, O>>>;

/// A page being fetched.
pub(super) struct Fetch<W: World, C: Connector, O> {
    me: Weak<RefCell<Self>>,
    pub(super) world: W,
    connector: C,
    pub(super) page: Rc<Page>,
    policy: Policy,
    observer: O,
    objects: Vec<Object>,
    servers: Vec<Server>,
    connections: Vec<Connection<C::Session>>,
    tasks: Vec<W::Task<()>>,
    /// Objects that are not over.
    left: usize,
    body_bytes: u64,
    /// When something was last read on any stream.
    moved: Instant,
    waker: Option<Waker>,
}

struct Object {
    state: ObjectState,
    attempts: u32,
    /// Those it causes.
    causes: Vec<usize>,
    error: Option<FetchError>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ObjectState {
    /// Its time has not come.
    Unknown,
    /// Issued, and waiting for a place since then.
    Queued { since: Instant },
    /// On a stream of a connection.
    Riding { connection: usize, stream: u64, since: Instant },
    /// Delivered or failed.
    Over,
}

struct Server {
    mapping: Mapping,
    queue: VecDeque<usize>,
    /// Connections in a row that were never established.
    failures: u32,
}

struct Connection<S> {
    session: S,
    server: usize,
    opened: Instant,
    established: bool,
    /// Nothing rides on it any more.
    over: bool,
    pipelines: BTreeMap<u64, Rc<RefCell<Pipeline>>>,
}

/// Issues what is known from the start and opens the first connections.
pub(super) fn start<W, C, O>(
    world: W,
    connector: C,
    page: Rc<Page>,
    policy: Policy,
    observer: O,
) -> SharedFetch<W, C, O>
where
    W: World,
    C: Connector,
    O: Observer + 'static,
{
    let count = page.objects.len();
    let mut objects: Vec<Object> = (0..count)
        .map(|_| Object { state: ObjectState::Unknown, attempts: 0, causes: Vec::new(), error: None })
        .collect();
    let mut arrivals: Vec<(Duration, usize)> = Vec::new();
    let mut first = Vec::new();
    for (i, object) in page.objects.iter().enumerate() {
        if let Some(&at) = policy.arrivals.as_ref().and_then(|arrivals| arrivals.get(i)) {
            arrivals.push((at, i));
        } else if let Some(cause) = object.initiator.filter(|&cause| cause < i) {
            objects[cause].causes.push(i);
        } else {
            first.push(i);
        }
    }
    let servers = if policy.keep_origins { page.hosts.len().max(1) } else { 1 };
    let server = || Server {
        mapping: Mapping::new(&policy, connector.streams()),
        queue: VecDeque::new(),
        failures: 0,
    };
    let servers = (0..servers).map(|_| server()).collect();
    let now = world.now();
    let fetch = Rc::new_cyclic(|me| {
        RefCell::new(Fetch {
            me: me.clone(),
            world,
            connector,
            page,
            policy,
            observer,
            objects,
            servers,
            connections: Vec::new(),
            tasks: Vec::new(),
            left: count,
            body_bytes: 0,
            moved: now,
            waker: None,
        })
    });
    {
        let mut this = fetch.borrow_mut();
        this.schedule(now, arrivals);
        for object in first {
            this.issue(object);
        }
        this.dispatch_all();
    }
    fetch
}

impl<W: World, C: Connector, O: Observer + 'static> Fetch<W, C, O> {
    /// Ready when every object is over.
    pub(super) fn poll_done(&mut self, cx: &Context<'_>) -> Poll<()> {
        if self.left == 0 {
            return Poll::Ready(());
        }
        self.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Ends the fetch: closes all sessions and says what became of the page.
    pub(super) fn end(&mut self, started: Instant, in_time: bool) -> (Outcome, Vec<W::Task<()>>) {
        let now = self.world.now();
        for object in 0..self.objects.len() {
            if self.objects[object].state != ObjectState::Over {
                self.over(object, Some(FetchError::Deadline));
            }
        }
        for connection in &self.connections {
            if in_time { connection.session.close() } else { connection.session.abort() }
        }
        let objects: Vec<_> =
            self.objects.iter_mut().map(|object| object.error.take().map_or(Ok(()), Err)).collect();
        let end = match in_time {
            false => End::Deadline,
            true if objects.iter().any(Result::is_err) => End::Failed,
            true => End::Done,
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

    /// Bytes were read on some stream; returns the time.
    pub(super) fn moved(&mut self) -> Instant {
        self.moved = self.world.now();
        self.moved
    }

    pub(super) fn first_byte(&mut self, object: usize) {
        self.observer.first_byte(object, self.moved);
    }

    /// So much of the object's body was among what has just been read.
    pub(super) fn read(&self, object: usize, bytes: u64) {
        self.observer.read(object, self.moved, bytes);
    }

    /// The response to the front exchange of a pipeline has been read.
    pub(super) fn completed(
        &mut self,
        connection: usize,
        stream: u64,
        exchange: &Exchange,
        result: Result<Delivered, FetchError>,
        close: bool,
    ) {
        let server = self.connections[connection].server;
        let used_up = self.servers[server].mapping.finished(connection, stream);
        // `Connection: close` ends a TCP connection; of an association it ends one exchange.
        let single = self.connections[connection].session.streams() == 1;
        if used_up || (close && single) {
            self.servers[server].mapping.retire(connection);
            self.connections[connection].session.close();
        }
        if !exchange.abandoned {
            match result {
                Ok(delivered) => {
                    self.servers[server].failures = 0;
                    self.body_bytes += delivered.body;
                    self.observer.delivered(exchange.object, delivered);
                    self.over(exchange.object, None);
                    self.issue_caused(exchange.object);
                }
                Err(error) => self.fail(exchange.object, error),
            }
        }
        self.dispatch_all();
    }

    /// A pipeline's stream has ended.
    pub(super) fn pipeline_ended(&mut self, connection: usize, end: PipelineEnd) {
        match end {
            PipelineEnd::Closed => {}
            PipelineEnd::Finished => {
                self.connections[connection].session.close();
                self.closed(connection, &CloseReason::Finished);
            }
            PipelineEnd::Bad(why) => {
                // Whose response it was is not known for sure, but the front of the pipeline waited for it.
                let fronts = self.connections[connection].pipelines.values();
                let blamed = fronts
                    .filter_map(|pipeline| pipeline.borrow().in_flight.front().map(|e| e.object))
                    .next();
                if let Some(object) = blamed {
                    self.fail(object, FetchError::BadResponse(why));
                }
                self.connections[connection].session.abort();
                self.closed(connection, &CloseReason::Aborted);
            }
        }
    }

    /// Since when nothing has moved for this object; `None` when nothing should.
    pub(super) fn clock(&self, object: usize) -> Option<Instant> {
        match self.objects[object].state {
            ObjectState::Unknown | ObjectState::Over => None,
            ObjectState::Riding { connection, stream, since } => {
                let pipeline = self.connections[connection].pipelines.get(&stream);
                Some(since.max(pipeline.map_or(Instant::ZERO, |pipeline| pipeline.borrow().moved)))
            }
            ObjectState::Queued { since } => {
                let server = self.server_of(object);
                let opening =
                    self.connections.iter().filter(|c| c.server == server && !c.established && !c.over);
                let place = self.servers[server].queue.iter().position(|&queued| queued == object)?;
                let from =
                    if place < opening.clone().count().saturating_mul(self.connector.streams() as usize) {
                        opening.map(|c| c.opened).min().unwrap_or(since)
                    } else {
                        self.moved
                    };
                Some(since.max(from))
            }
        }
    }

    /// The clock of this object has run out.
    pub(super) fn time_out(&mut self, object: usize, now: Instant, timeout: Duration) {
        let state = self.objects[object].state;
        let server = self.server_of(object);
        match state {
            ObjectState::Unknown | ObjectState::Over => return,
            ObjectState::Queued { .. } => {
                self.servers[server].queue.retain(|&queued| queued != object);
                self.fail(object, FetchError::Timeout);
                // A handshake that nobody waits for any more is given up.
                for name in 0..self.connections.len() {
                    let connection = &self.connections[name];
                    let waited = connection.server == server && !connection.established && !connection.over;
                    if waited && connection.opened + timeout <= now {
                        self.give_up(name);
                    }
                }
            }
            ObjectState::Riding { connection, stream, .. } => {
                let pipelines = &self.connections[connection].pipelines;
                if let Some(pipeline) = pipelines.get(&stream) {
                    let mut pipeline = pipeline.borrow_mut();
                    if let Some(exchange) = pipeline.in_flight.iter_mut().find(|e| e.object == object) {
                        exchange.abandoned = true;
                    }
                    if pipeline.in_flight.iter().all(|exchange| exchange.abandoned) {
                        pipeline.cancel(now);
                    }
                }
                // The stream is reset where the transport can do that (RFC 6525); else, or where
                // others wait behind, the answer is read and thrown away. When no stream of the
                // connection moves, the connection is given up.
                let still = pipelines.values().all(|pipeline| pipeline.borrow().moved + timeout <= now);
                self.fail(object, FetchError::Timeout);
                if still {
                    self.give_up(connection);
                }
            }
        }
        self.dispatch_all();
    }

    /// Gives up connections on which a stream is not reset in time; returns when to look again.
    pub(super) fn expire_resets(&mut self, now: Instant, timeout: Duration) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        for name in 0..self.connections.len() {
            let connection = &self.connections[name];
            let asked =
                connection.pipelines.values().filter_map(|pipeline| pipeline.borrow().cancelled).min();
            match asked.filter(|_| !connection.over) {
                Some(at) if at + timeout <= now => self.give_up(name),
                Some(at) => next = Some(next.map_or(at + timeout, |next| next.min(at + timeout))),
                None => {}
            }
        }
        next
    }

    fn give_up(&mut self, connection: usize) {
        self.connections[connection].session.abort();
        let server = self.connections[connection].server;
        let failures = self.servers[server].failures;
        self.closed(connection, &CloseReason::Aborted);
        // It was our patience that ended, not the server's service.
        self.servers[server].failures = failures;
    }

    fn server_of(&self, object: usize) -> usize {
        if self.policy.keep_origins { self.page.objects[object].host } else { 0 }
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
        for caused in std::mem::take(&mut self.objects[object].causes) {
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

    /// The object's time has come: it queues.
    fn issue(&mut self, object: usize) {
        if self.objects[object].state != ObjectState::Unknown {
            return;
        }
        let now = self.world.now();
        self.observer.issued(object, now);
        self.objects[object].state = ObjectState::Queued { since: now };
        let server = self.server_of(object);
        self.servers[server].queue.push_back(object);
    }

    fn dispatch_all(&mut self) {
        for server in 0..self.servers.len() {
            self.dispatch(server);
        }
    }

    /// Gives places to what queues for this server, and opens connections.
    fn dispatch(&mut self, server: usize) {
        loop {
            while let Some(&object) = self.servers[server].queue.front() {
                let Choice::Ride { connection, stream, last } = self.servers[server].mapping.choose() else {
                    break;
                };
                self.servers[server].queue.pop_front();
                self.ride(object, connection, stream, last);
            }
            let queued = self.servers[server].queue.len();
            let wanted = self.servers[server].mapping.wanted(queued);
            let mut usable = false;
            for _ in 0..wanted {
                match self.open(server) {
                    Ok(early) => usable |= early,
                    Err(error) => return self.cannot_connect(server, &error.to_string()),
                }
            }
            if !usable {
                return self.grow(server);
            }
        }
    }

    /// Asks for streams for what queues, where the policy wants that.
    fn grow(&mut self, server: usize) {
        let mut queued = self.servers[server].queue.len();
        while let Some((name, more)) = self.servers[server].mapping.growth(queued) {
            queued = queued.saturating_sub(more as usize);
            let session = self.connections[name].session.clone();
            session.grow(more);
            let me = self.me.clone();
            self.tasks.push(self.world.spawn("http growth", async move {
                let streams = session.grown().await;
                let Some(fetch) = me.upgrade() else { return };
                let mut this = fetch.borrow_mut();
                this.servers[server].mapping.grown(name, streams);
                this.dispatch(server);
            }));
        }
    }

    /// Begins a connection; true when requests can be written to it at once.
    fn open(&mut self, server: usize) -> Result<bool, anabranch_transport::ConnectError> {
        let session = self.connector.connect(server)?;
        let now = self.world.now();
        let name = self.connections.len();
        let early = session.early_data();
        self.observer.opened(session.id(), now);
        self.servers[server].mapping.opened(name, session.streams(), early);
        let me = self.me.clone();
        let watched = session.clone();
        self.tasks.push(self.world.spawn("http connection", async move {
            if watched.established().await.is_ok()
                && let Some(fetch) = me.upgrade()
            {
                fetch.borrow_mut().established(name);
            }
            let reason = watched.closed().await;
            if let Some(fetch) = me.upgrade() {
                let mut this = fetch.borrow_mut();
                let now = this.world.now();
                this.observer.closed(watched.id(), now, &reason);
                this.closed(name, &reason);
            }
        }));
        let pipelines = BTreeMap::new();
        self.connections.push(Connection {
            session,
            server,
            opened: now,
            established: false,
            over: false,
            pipelines,
        });
        Ok(early)
    }

    fn established(&mut self, name: usize) {
        let now = self.world.now();
        let connection = &mut self.connections[name];
        connection.established = true;
        self.observer.established(connection.session.id(), now);
        if connection.over {
            return;
        }
        let server = connection.server;
        let streams = connection.session.streams();
        for pipeline in connection.pipelines.split_off(&streams).values() {
            pipeline.borrow_mut().annul();
        }
        self.servers[server].failures = 0;
        self.servers[server].mapping.established(name, streams);
        // What rode with the handshake on streams that the server has not granted goes on others.
        for (i, object) in self.objects.iter_mut().enumerate().rev() {
            if matches!(object.state, ObjectState::Riding { connection, stream, .. } if connection == name && stream >= streams)
            {
                object.state = ObjectState::Queued { since: now };
                self.servers[server].queue.push_front(i);
            }
        }
        self.dispatch(server);
    }

    /// Nothing more comes on this connection: what rode on it is tried again.
    fn closed(&mut self, name: usize, reason: &CloseReason) {
        let connection = &mut self.connections[name];
        if std::mem::replace(&mut connection.over, true) {
            return;
        }
        let (server, established) = (connection.server, connection.established);
        self.servers[server].mapping.closed(name);
        let riding = |object: &Object| matches!(object.state, ObjectState::Riding { connection, .. } if connection == name);
        let stranded: Vec<_> = (0..self.objects.len()).filter(|&i| riding(&self.objects[i])).collect();
        // The last goes to the front first, so that they keep their order.
        for &object in stranded.iter().rev() {
            if self.objects[object].attempts >= self.policy.attempts {
                // What rides with a handshake that fails never had a connection.
                let error = if established {
                    FetchError::Closed(reason.clone())
                } else {
                    FetchError::Connect(reason.to_string())
                };
                self.fail(object, error);
            } else {
                self.objects[object].state = ObjectState::Queued { since: self.world.now() };
                self.servers[server].queue.push_front(object);
            }
        }
        if !established {
            self.servers[server].failures += 1;
            if self.servers[server].failures >= self.policy.attempts {
                return self.cannot_connect(server, &reason.to_string());
            }
        }
        self.dispatch(server);
    }

    /// No connection can be had: what queues fails, unless a live connection may still take it.
    fn cannot_connect(&mut self, server: usize, why: &str) {
        if self.connections.iter().any(|c| c.server == server && !c.over) {
            return;
        }
        for object in std::mem::take(&mut self.servers[server].queue) {
            self.fail(object, FetchError::Connect(why.to_owned()));
        }
    }

    /// Puts the request for `object` on its stream.
    fn ride(&mut self, object: usize, name: usize, stream: u64, last: bool) {
        let now = self.world.now();
        let pipeline = match self.connections[name].pipelines.get(&stream) {
            Some(pipeline) => pipeline.clone(),
            None => self.open_pipeline(name, stream),
        };
        let connection = &self.connections[name];
        let wanted = &self.page.objects[object];
        let host = self.page.hosts.get(wanted.host).map_or("server", String::as_str);
        let pattern = self.policy.verify.then(|| Pattern::of(&wanted.name));
        let mut pipeline = pipeline.borrow_mut();
        let (start, index) = (pipeline.request_bytes, pipeline.exchanges);
        pipeline.push(Exchange { object, abandoned: false, pattern, expected: wanted.body }, |out| {
            request::write_head(out, &wanted.name, host, last, wanted.request_head)
        });
        let exchange = ExchangeId { connection: connection.session.id(), stream, index };
        let attempt = self.objects[object].attempts;
        self.objects[object].attempts += 1;
        self.objects[object].state = ObjectState::Riding { connection: name, stream, since: now };
        let request = start..pipeline.request_bytes;
        self.observer.assigned(object, Assigned { at: now, exchange, request, attempt });
    }

    fn open_pipeline(&mut self, name: usize, stream: u64) -> Rc<RefCell<Pipeline>> {
        let pipeline = Rc::new(RefCell::new(Pipeline::new(self.world.now())));
        self.connections[name].pipelines.insert(stream, pipeline.clone());
        match self.connections[name].session.open(stream) {
            Ok(opened) => {
                let task = pipeline::run::<W, C, O>(self.me.clone(), name, pipeline.clone(), opened);
                self.tasks.push(self.world.spawn("http stream", task));
            }
            // The end of the session is reported by its own task; nothing else must leave objects waiting.
            Err(_) => self.connections[name].session.abort(),
        }
        pipeline
    }

    /// The object is failed, and with it all it would have caused.
    fn fail(&mut self, object: usize, error: FetchError) {
        let mut failing = vec![(object, error)];
        while let Some((object, error)) = failing.pop() {
            if self.objects[object].state == ObjectState::Over {
                continue;
            }
            self.over(object, Some(error));
            let caused = std::mem::take(&mut self.objects[object].causes);
            failing.extend(caused.into_iter().rev().map(|i| (i, FetchError::InitiatorFailed(object))));
        }
    }

    fn over(&mut self, object: usize, error: Option<FetchError>) {
        if let Some(error) = &error {
            self.observer.failed(object, self.world.now(), error);
        }
        self.objects[object].state = ObjectState::Over;
        self.objects[object].error = error;
        self.left -= 1;
        if self.left == 0
            && let Some(waker) = self.waker.take()
        {
            waker.wake();
        }
    }
}
