//! Runs a session of a load: opens it, requests its objects, and closes it.

use super::LoadState;
use super::cause::Cause;
use super::exchange::{Reply, RequestFailure, RequestStream, RequestTimes};
use super::requests::{Meter, RequestSender};
use super::tally::Tally;
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_http::get::{Requests, StartedConnection};
use anabranch_http::mapping::Version;
use anabranch_http::serve::Versions;
use anabranch_transport::{Connector, OpenError, Session};
use anabranch_world::{Tasks, World};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Runs one session that was due at `planned`, and requests its objects.
pub(super) async fn open<W: World, C: Connector>(shared: Rc<LoadState<W, C>>, planned: Instant) {
    let objects = shared.plan.objects.unwrap_or(1);
    let source = if objects == 0 { ObjectSource::Nothing } else { ObjectSource::Planned(planned) };
    run_session(&shared, source, objects).await;
}

/// Runs one session after the other. On each stream of a session, the next object is due when the previous one has
/// arrived.
pub(super) async fn closed<W: World, C: Connector>(shared: Rc<LoadState<W, C>>) {
    let objects = shared.plan.objects.unwrap_or(u64::MAX);
    let source = if objects == 0 { ObjectSource::Nothing } else { ObjectSource::Now };
    run_sessions(&shared, source, objects).await;
}

/// Runs one session after the other. Each session takes its objects from the queue.
pub(super) async fn pool<W: World, C: Connector>(shared: Rc<LoadState<W, C>>) {
    let objects = shared.plan.objects.unwrap_or(u64::MAX);
    run_sessions(&shared, ObjectSource::Queue, objects).await;
}

async fn run_sessions<W: World, C: Connector>(
    shared: &Rc<LoadState<W, C>>,
    source: ObjectSource,
    objects: u64,
) {
    let mut pause = FIRST_PAUSE;
    let more = || match source {
        ObjectSource::Queue => {
            shared.abandon();
            !shared.queue.is_over()
        }
        _ => shared.requests_left.get() > 0 && shared.world.now() < shared.ends,
    };
    // Objects in the queue already count as begun, so they need sessions even when the limit on objects is reached.
    let take_session = || match source {
        ObjectSource::Queue => super::take(&shared.sessions_left),
        _ => shared.take_session(),
    };
    while more() && take_session() {
        if run_session(shared, source, objects).await {
            pause = FIRST_PAUSE;
            continue;
        }
        // Pause before the next attempt, because the server does not answer.
        shared.world.sleep_until((shared.world.now() + pause).min(shared.ends)).await;
        pause = (pause * 2).min(LAST_PAUSE);
    }
}

/// Where the objects that a session requests come from, and when they are due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ObjectSource {
    /// The session has no objects. It is only opened and closed.
    Nothing,
    /// All objects are due at this time.
    Planned(Instant),
    /// The next object is due when a stream is free.
    Now,
    /// Objects are taken from the queue.
    Queue,
}

/// The objects that a session still has to request, and the results of the session so far.
pub(super) struct SessionWork {
    source: ObjectSource,
    started_at: Instant,
    established: Cell<bool>,
    /// The number of objects that the session may still request.
    left: Cell<u64>,
    replies: Cell<u64>,
    last: Cell<Instant>,
    /// Whether the session has stopped requesting objects, because a request failed or because the server is closing
    /// the connection.
    retired: Cell<bool>,
    failed: Cell<bool>,
}

/// Runs one session with its objects. Returns true if the session was established and nothing failed.
async fn run_session<W: World, C: Connector>(
    shared: &Rc<LoadState<W, C>>,
    source: ObjectSource,
    objects: u64,
) -> bool {
    let world = &shared.world;
    let started_at = world.now();
    let session = match shared.connector.connect(shared.server) {
        Ok(session) => session,
        Err(error) => {
            fail_next_object(shared, source, Cause::of_connect(&error), || error.to_string());
            return false;
        }
    };
    let open = OpenSession::new(shared, SessionWork::new(source, objects, started_at));
    // Early requests are sent with the handshake, so do not wait until the session is established.
    let early = session.early_data() && shared.plan.versions == Versions::Http3 && objects > 0;
    let established = match early {
        true => Some(Ok(())),
        false => world.timeout(shared.plan.timeout, session.established()).await,
    };
    let refused = match established {
        Some(Ok(())) => None,
        Some(Err(reason)) => Some((Cause::of_close(&reason), reason.to_string())),
        None => Some((
            Cause::ConnectTimeout,
            format!("no session within {} s", shared.plan.timeout.as_secs_f32()),
        )),
    };
    if let Some((cause, message)) = refused {
        fail_next_object(shared, source, cause, || message);
        session.abort();
        return false;
    }
    open.work.established.set(true);
    {
        let now = world.now();
        let mut tally = shared.tally.borrow_mut();
        tally.established(now.since(started_at));
        tally.early += u64::from(early);
        tally.last = now;
    }
    let open = Rc::new(open);
    let streams = session.streams().min(shared.plan.streams.into()).max(1).min(objects);
    let version = shared.plan.versions.on(&session);
    match streams {
        0 => {
            // A session without objects counts as one request.
            let _ = shared.take_request();
        }
        _ if version != Version::Http1 => {
            match Requests::begin(session.clone(), version, shared.plan.secure).await {
                Ok(started_at) => send_multiplexed(&open, started_at, version).await,
                Err(error) => open.ended_before_first_request(&error),
            }
        }
        1 => send_on_stream(open.clone(), session.clone(), 0).await,
        _ => {
            let tasks = Tasks::new(world.clone());
            for number in 0..streams {
                tasks.spawn("load stream", send_on_stream(open.clone(), session.clone(), number));
            }
            tasks.wait_idle().await;
        }
    }
    if open.work.failed.get() {
        session.abort();
        return false;
    }
    session.close();
    let ended = world.timeout(CLOSING, session.closed()).await;
    if source == ObjectSource::Nothing {
        let mut tally = shared.tally.borrow_mut();
        tally.last = world.now();
        match ended {
            Some(reason) if reason.is_graceful() => return true,
            Some(reason) => tally.failed(world.now(), Cause::of_close(&reason), || reason.to_string()),
            None => tally.failed(world.now(), Cause::Timeout, || "the session did not close".to_owned()),
        }
        open.work.failed.set(true);
        return false;
    }
    true
}

/// Counts a failed session as a failed object, so that a load with a fixed number of objects ends. If other sessions
/// have already begun the remaining objects, the failed session is not counted.
fn fail_next_object<W: World, C: Connector>(
    shared: &LoadState<W, C>,
    source: ObjectSource,
    cause: Cause,
    message: impl FnOnce() -> String,
) {
    // Objects from the queue already count as begun, so only other objects are counted now.
    if source == ObjectSource::Queue || super::take(&shared.requests_left) {
        shared.fail(cause, message);
    }
}

/// A session that the tally counts as open until this value is dropped.
struct OpenSession<W: World, C: Connector> {
    shared: Rc<LoadState<W, C>>,
    work: Rc<SessionWork>,
    number: u64,
}

impl<W: World, C: Connector> Drop for OpenSession<W, C> {
    fn drop(&mut self) {
        let broken = self.work.failed.get() || !self.work.established.get();
        self.work.ended(&mut self.shared.tally.borrow_mut(), broken);
        self.shared.open.borrow_mut().remove(&self.number);
    }
}

impl SessionWork {
    fn new(source: ObjectSource, objects: u64, started_at: Instant) -> Self {
        Self {
            source,
            started_at,
            established: Cell::new(false),
            left: Cell::new(objects),
            replies: Cell::new(0),
            last: Cell::new(started_at),
            retired: Cell::new(false),
            failed: Cell::new(false),
        }
    }

    /// Adds the session to the tally, with its duration and its number of replies.
    fn ended(&self, tally: &mut Tally, broken: bool) {
        tally.ended(self.last.get().since(self.started_at), self.replies.get(), broken);
    }

    /// Adds this session, which is still open, to the tally. The session counts as broken only if a request has failed.
    pub(super) fn interrupted(&self, tally: &mut Tally) {
        self.ended(tally, self.failed.get());
    }
}

impl<W: World, C: Connector> OpenSession<W, C> {
    fn new(shared: &Rc<LoadState<W, C>>, work: SessionWork) -> Self {
        let mut tally = shared.tally.borrow_mut();
        tally.began();
        let (number, work) = (tally.sessions, Rc::new(work));
        shared.open.borrow_mut().insert(number, work.clone());
        Self { shared: shared.clone(), work, number }
    }

    /// Stops the session from requesting more objects.
    fn retire(&self) {
        self.work.retired.set(true);
        self.shared.queue.wake();
    }

    /// Records that the session ended before its first request. Each of its streams may report the same end, but the
    /// end counts once.
    fn ended_before_first_request(&self, error: &OpenError) {
        if !self.work.failed.replace(true) {
            let cause = match error {
                OpenError::Closed(reason) => Cause::of_close(reason),
                _ => Cause::Protocol,
            };
            fail_next_object(&self.shared, self.work.source, cause, || error.to_string());
        }
        self.retire();
    }

    /// Requests one object after the other by calling `exchange`, and counts the results.
    async fn one_by_one(
        &self,
        mut exchange: impl AsyncFnMut(RequestTimes) -> Result<(Reply, bool), RequestFailure>,
    ) {
        let (shared, work) = (&self.shared, &self.work);
        while let Some(planned) = self.next().await {
            // If the object is due now (`Now`), its planned time is the current time. The clock is not read again,
            // because reading it takes a noticeable part of a request's time.
            let started_at = if work.source == ObjectSource::Now { planned } else { shared.world.now() };
            match exchange(RequestTimes { planned, started_at }).await {
                Ok((reply, close)) => {
                    work.replies.set(work.replies.get() + 1);
                    work.last.set(reply.done);
                    shared.tally.borrow_mut().replied(reply);
                    if close {
                        self.retire();
                    }
                }
                // The server has replied to earlier requests, but accepts no more on this session. Another session
                // requests the object.
                Err(failed) if failed.unprocessed && work.replies.get() > 0 && self.put_back(planned) => {
                    self.retire();
                }
                Err(failed) => {
                    shared.fail(failed.cause, || failed.message);
                    work.failed.set(true);
                    self.retire();
                }
            }
        }
    }

    /// Gives an object back, so that another session can request it. Returns false if only this session may request the
    /// object.
    fn put_back(&self, planned: Instant) -> bool {
        let shared = &self.shared;
        match self.work.source {
            ObjectSource::Nothing | ObjectSource::Planned(_) => false,
            ObjectSource::Now => {
                shared.requests_left.set(shared.requests_left.get().saturating_add(1));
                true
            }
            ObjectSource::Queue => {
                shared.queue.due.borrow_mut().push_front(planned);
                shared.queue.wake();
                true
            }
        }
    }

    /// Waits for the next object of this session, and returns its planned time. Returns `None` if there are no more
    /// objects.
    async fn next(&self) -> Option<Instant> {
        let (work, shared) = (&self.work, &self.shared);
        if work.retired.get() || work.left.get() == 0 {
            return None;
        }
        work.left.set(work.left.get() - 1);
        match work.source {
            ObjectSource::Nothing => None,
            // An object that was due before the end of the load is still requested, even if it is late.
            ObjectSource::Planned(at) => {
                if !super::take(&shared.requests_left) {
                    return None;
                }
                if shared.is_too_late(Some(shared.ends)) {
                    (0..=work.left.take()).for_each(|_| shared.fail_unsent());
                    return None;
                }
                Some(at)
            }
            ObjectSource::Now => shared.take_request(),
            ObjectSource::Queue => {
                shared.abandon();
                shared.queue.take(&work.retired).await
            }
        }
    }
}

/// Requests one object after the other on a stream (HTTP/1.1).
async fn send_on_stream<W: World, C: Connector>(
    open: Rc<OpenSession<W, C>>,
    session: C::Session,
    number: u64,
) {
    let shared = &open.shared;
    let stream = match session.open(number) {
        Ok(stream) => stream,
        Err(error) => return open.ended_before_first_request(&error),
    };
    let mut stream = RequestStream::new(&shared.world, stream, shared.plan.timeout);
    let bytes = shared.request.len() as u64;
    let on_sent = || shared.tally.borrow_mut().request_sent(bytes);
    let exchange = async |times| stream.exchange(times, &shared.request, &shared.buffer, on_sent).await;
    open.one_by_one(exchange).await;
}

/// Requests objects over HTTP/2 or HTTP/3, with as many outstanding requests as the plan allows per session.
async fn send_multiplexed<W: World, C: Connector>(
    open: &Rc<OpenSession<W, C>>,
    (requests, conversation, traffic): StartedConnection,
    version: Version,
) {
    let shared = &open.shared;
    let (world, plan) = (&shared.world, &shared.plan);
    {
        let mut tally = shared.tally.borrow_mut();
        let count = if version == Version::Http3 { &mut tally.http3 } else { &mut tally.http2 };
        *count += 1;
    }
    let query = match requests.query(&plan.authority, &plan.target) {
        Ok(query) => query,
        Err(reason) => return open.ended_before_first_request(&OpenError::Closed(reason)),
    };
    let meter = Rc::new(Meter::new(traffic));
    let conversation_task = world.spawn("load requests", conversation);
    let tasks = Tasks::new(world.clone());
    for _ in 0..u64::from(plan.streams).min(open.work.left.get()) {
        let (open, meter) = (open.clone(), meter.clone());
        let mut sender = RequestSender::new(world, (requests.clone(), query.clone()), meter, plan.timeout);
        tasks.spawn("load stream", async move {
            let on_sent = |bytes| open.shared.tally.borrow_mut().request_sent(bytes);
            open.one_by_one(async |times| sender.exchange(times, on_sent).await).await;
        });
    }
    tasks.wait_idle().await;
    // `requests` is the last handle with which requests can be sent. Dropping it ends the connection.
    drop(requests);
    if !open.work.failed.get() {
        let _ = world.timeout(CLOSING, conversation_task).await;
    }
    shared.tally.borrow_mut().add_framing(meter.sent(), meter.framing());
}

impl<W: World, C: Connector> LoadState<W, C> {
    /// Returns whether the objects that still wait for a session must be given up. The limit is one timeout after
    /// `ended`, the time at which the last object was added. Without this limit, a load on a slow server would last as
    /// long as its queue, and a load without a server would never end.
    fn is_too_late(&self, ended: Option<Instant>) -> bool {
        let now = self.world.now();
        ended.is_some_and(|ended| now >= ended && now.since(ended) >= self.plan.timeout)
    }

    fn fail_unsent(&self) {
        self.fail(Cause::Timeout, || "not requested in time: no stream was free".to_owned());
    }

    /// Gives up the objects that wait for a session, if it is too late to request them
    /// ([`is_too_late`](Self::is_too_late)).
    fn abandon(&self) {
        if self.is_too_late(self.queue.over.get()) {
            self.abandon_rest();
        }
    }

    /// Gives up the objects that still wait for a session, because no session is left that could request them.
    pub(super) fn abandon_rest(&self) {
        let due = std::mem::take(&mut *self.queue.due.borrow_mut());
        due.iter().for_each(|_| self.fail_unsent());
    }
}

/// The queue of objects that are due, in the order of their times, and the streams that wait for an object.
#[derive(Default)]
pub(super) struct Queue {
    due: RefCell<VecDeque<Instant>>,
    waiting: RefCell<VecDeque<Waker>>,
    /// The time at which the last object was added; `None` while more objects will follow.
    over: Cell<Option<Instant>>,
}

impl Queue {
    /// Adds an object that was due at `planned`. Returns false if the queue is full.
    pub(super) fn push(&self, planned: Instant) -> bool {
        let mut due = self.due.borrow_mut();
        if due.len() >= MAX_DUE {
            return false;
        }
        due.push_back(planned);
        if let Some(waker) = self.waiting.borrow_mut().pop_front() {
            waker.wake();
        }
        true
    }

    /// Records that no more objects will be added.
    pub(super) fn end(&self, now: Instant) {
        self.over.set(Some(now));
        self.wake();
    }

    fn is_over(&self) -> bool {
        self.over.get().is_some() && self.due.borrow().is_empty()
    }

    /// Wakes all streams that wait for an object.
    fn wake(&self) {
        for waker in self.waiting.borrow_mut().drain(..) {
            waker.wake();
        }
    }

    async fn take(&self, retired: &Cell<bool>) -> Option<Instant> {
        poll_fn(|cx| {
            if retired.get() {
                return Poll::Ready(None);
            }
            if let Some(planned) = self.due.borrow_mut().pop_front() {
                return Poll::Ready(Some(planned));
            }
            if self.over.get().is_some() {
                return Poll::Ready(None);
            }
            let mut waiting = self.waiting.borrow_mut();
            if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                waiting.push_back(cx.waker().clone());
            }
            Poll::Pending
        })
        .await
    }
}

/// The maximum time for which a session waits for the peer to close it.
const CLOSING: Duration = Duration::from_secs(2);
/// The first and the longest pause between two attempts to connect to a server that does not answer.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LAST_PAUSE: Duration = Duration::from_millis(100);
/// The maximum number of objects in the queue.
const MAX_DUE: usize = 1 << 20;
