//! The server: hyper on each stream of each session.
//!
//! Every stream is an HTTP/1.1 connection of its own to hyper, so pipelining,
//! heads and framing are hyper's; ours is what hyper cannot know: which stream
//! and which exchange it is, how large the page says a head must be, when the
//! server starts on a request, and when the first byte of an answer leaves.
//! Clocks are the world's: hyper's own timers and its Date are off.
//!
//! - `site`: what there is to serve; `origin`: for whom; [`files`]: a directory of files
//! - `access`, `stop`: the log, and the end in good order
//! - `fifo_lock`: one request at a time; `idle_buffers`: what streams hold between requests
//! - `stream`: hyper's view of a stream, and the answer to one request; `exchanges`: those of a stream
//! - `http2`, `http3`: sessions that speak these, and whose bytes they write next; `reply`: their answers; `opening`: whether a
//!   session speaks HTTP/2
//! - `screen`, `drain`: what hyper does not get to see of it, and what is left of it when hyper has done

mod access;
mod date;
mod drain;
mod exchanges;
mod fifo_lock;
#[cfg(unix)]
pub mod files;
mod http2;
mod http3;
mod idle_buffers;
mod opening;
mod origin;
mod redirect;
mod reply;
mod screen;
mod site;
#[cfg(test)]
mod size;
mod stop;
mod stream;

pub use access::{Access, Log};
pub use date::Date;
pub use origin::{Names, OwnOrigins};
pub use redirect::Redirected;
pub use site::{Answer, Asked, Content, PageSite, Resource, Site, Store, Stored};
pub use stop::{Stop, Waiting};
pub use stream::least_head;

use crate::closing::{AckProgress, CLOSING};
use crate::head::Judged;
use crate::http2::io::Scratch;
use crate::limits::{Admission, ConcurrencyLimit, ExchangePermit, SessionMemory, Slot, SlotHandle};
use crate::observe::Observer;
use anabranch_base::Budget;
use anabranch_base::time::{Duration, Instant};
use anabranch_transport::{CloseReason, Listener, Session};
use anabranch_world::{Tasks, Timer, World};
use bytes::Bytes;
use idle_buffers::IdleBuffers;
use opening::Spoken;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

/// Settings of a server.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Time from the start of work on a request until its answer is ready.
    pub service_time: Duration,
    /// Work on one request of a session at a time, in the order of their arrival, until its answer has been written.
    pub serial: bool,
    /// Idle time after which a session is closed.
    pub idle_timeout: Option<Duration>,
    /// A session is aborted if on one of its streams the head of a request began and is not complete after so long. While
    /// an answer is under way the stream's next head is not waited for. What is no request (what follows a head that was
    /// refused) may come for as long.
    pub head_timeout: Option<Duration>,
    /// The wall clock, Unix time in seconds: answers then carry a Date. It may be stepped at any time, so nothing else
    /// looks at it; timers are the world's.
    pub wall_clock: Option<fn() -> u64>,
    /// The largest request head, bytes; a larger one is answered with 431.
    pub max_head: Option<usize>,
    /// Which origins the server answers for; `None`: for all that it is asked for.
    pub own_origins: Option<OwnOrigins>,
    /// How strictly requests are read.
    pub judged: Judged,
    /// Limit on sessions, of all servers that have a clone of it. When a newcomer finds all slots taken, the session ends
    /// that has waited longest for a request or the rest of its head; where all have requests under way, the one whose
    /// client has been stalled longest, for at least 5 s. If no session may end, the newcomer is turned away.
    pub sessions: Option<ConcurrencyLimit>,
    /// Memory budget of all sessions for heads and bodies; may be shared with the transport. Requests wait in the transport
    /// while no memory is available.
    pub memory: Option<Budget>,
    /// How many streams keep their buffers while they wait for a request; 512 if `None`.
    pub buffers_kept: Option<usize>,
    /// Receives a record of every exchange when it is over.
    pub log: Option<Log>,
    /// What is spoken.
    pub versions: Versions,
    /// When stopped, the server accepts no more sessions and requests, finishes exchanges in flight, closes the
    /// sessions and ends.
    pub stop: Option<Stop>,
}

/// The versions of HTTP that a server speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Versions {
    /// HTTP/1.1 and older.
    #[default]
    Http1,
    /// HTTP/2, on sessions of one stream.
    Http2,
    /// HTTP/3, on sessions whose streams are fresh.
    Http3,
    /// On sessions of one stream, HTTP/1.1 or HTTP/2: what the two ends have agreed on (ALPN), else what the client's first bytes are (RFC 9113 §3.3).
    Both,
}

/// Serves `site` to every session that `listener` takes in, until the listener
/// fails or [`Options::stop`] says so. Dropping the future drops all sessions.
///
/// # Errors
/// Why the listener failed.
pub async fn run<W, L, S, O>(
    world: W,
    mut listener: L,
    site: Rc<S>,
    options: Options,
    observer: O,
) -> Result<(), CloseReason>
where
    W: World,
    L: Listener,
    S: Site,
    O: Observer + 'static,
{
    let buffers = IdleBuffers::new(options.buffers_kept);
    let (date, scratch) = (Date::new(options.wall_clock), Scratch::default());
    let service = Rc::new(Service { world: world.clone(), site, options, observer, buffers, date, scratch });
    let tasks = Tasks::new(world);
    let room = service.options.sessions.clone();
    let mut admission = room.map(|room| Admission::new(&service.world, room));
    let stop = service.options.stop.as_ref().map(Stop::wait);
    loop {
        let next = poll_fn(|cx| {
            if stop.as_ref().is_some_and(|stop| stop.poll(cx).is_ready()) {
                return Poll::Ready(None);
            }
            if let Some(Poll::Ready(admitted)) = admission.as_mut().map(|admission| admission.poll(cx)) {
                return Poll::Ready(Some(Ok(Err(admitted))));
            }
            listener.poll_accept(cx).map(|session| Some(session.map(Ok)))
        });
        let Some(next) = next.await else { break };
        let (session, slot) = match (next?, &mut admission) {
            (Err((session, slot)), _) => (session, Some(slot)),
            (Ok(session), None) => (session, None),
            (Ok(session), Some(admission)) => match admission.admit(session) {
                Some((session, slot)) => (session, Some(slot)),
                None => continue,
            },
        };
        tasks.spawn("http session", serve_session(service.clone(), session, slot));
    }
    drop((listener, admission));
    tasks.idle().await;
    Ok(())
}

/// What all sessions of a server share.
struct Service<W, S, O> {
    world: W,
    site: Rc<S>,
    options: Options,
    observer: O,
    buffers: IdleBuffers,
    date: Date,
    /// What streams are read into.
    scratch: Scratch,
}

impl<W, S: Site, O> Service<W, S, O> {
    /// The answer to a request, whose target has this scheme if it has one.
    fn answer(&self, asked: &Asked<'_>, scheme: Option<&str>) -> Answer {
        let own = self.options.own_origins.as_ref();
        let elsewhere = own.and_then(|own| own.refuse(scheme, asked.host));
        elsewhere.unwrap_or_else(|| self.site.answer(asked))
    }
}

/// Path and query of what is asked for.
fn target_of(uri: &http::Uri) -> Cow<'_, str> {
    let target = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    // RFC 9112 §3.2.1: an empty path is that of the root.
    if target.starts_with('?') { format!("/{target}").into() } else { target.into() }
}

/// State that the streams of a session share with its watch.
#[derive(Debug, Default)]
struct Activity {
    /// When something was last read or written.
    moved: Cell<Instant>,
    /// Requests being served.
    serving: Cell<u32>,
    /// Requests so far that came on streams of HTTP/1.1.
    asked: Cell<u64>,
    /// Streams on which a request is under way, from its head to the last byte of its answer.
    under_way: Cell<u32>,
    /// The session's slot, where requests and bytes are reported.
    slot_handle: Option<SlotHandle>,
    /// Streams on which a head is waited for that has begun, and since when.
    heads: RefCell<BTreeMap<u64, Instant>>,
    /// Bytes of answers that are neither in their store nor with the transport.
    held: Cell<usize>,
    /// The session's part of the memory budget.
    memory: Rc<SessionMemory>,
    /// Held by the request that is worked on, where they are worked on one at a time.
    turns: fifo_lock::FifoLock,
    /// Whom the session is with; asked for only where there is a log.
    peer: Option<Box<SocketAddr>>,
    /// The server is ending; the streams that want to know it.
    ending: Cell<bool>,
    streams: RefCell<BTreeMap<u64, Waker>>,
}

impl Activity {
    /// Counts a stream that has a request under way.
    fn begin(&self) {
        self.under_way.set(self.under_way.get() + 1);
        if let Some(slot_handle) = &self.slot_handle {
            slot_handle.set_busy();
        }
    }

    /// Counts one stream fewer with a request under way.
    fn done(&self) {
        self.under_way.set(self.under_way.get() - 1);
        if let Some(slot_handle) = self.slot_handle.as_ref().filter(|_| self.under_way.get() == 0) {
            slot_handle.set_waiting();
        }
    }

    /// Records that the rest of a head is waited for on `stream`.
    fn head_begins(&self, stream: u64, now: Instant) {
        self.heads.borrow_mut().entry(stream).or_insert(now);
    }

    /// Records that no head is waited for on `stream`.
    fn head_ends(&self, stream: u64) {
        removed(&mut self.heads.borrow_mut(), &stream);
    }

    /// Records that bytes were read or written.
    fn moved(&self, now: Instant, bytes: usize) {
        self.moved.set(now);
        if let Some(slot_handle) = &self.slot_handle {
            slot_handle.add_bytes(bytes);
        }
    }

    /// Ready when the server is ending.
    fn poll_ending(&self, stream: u64, cx: &Context<'_>) -> Poll<()> {
        if self.ending.get() {
            return Poll::Ready(());
        }
        let mut streams = self.streams.borrow_mut();
        match streams.get_mut(&stream) {
            Some(waker) => waker.clone_from(cx.waker()),
            None => {
                streams.insert(stream, cx.waker().clone());
            }
        }
        Poll::Pending
    }

    /// Forgets a stream that is over.
    fn forget(&self, stream: u64) {
        removed(&mut self.streams.borrow_mut(), &stream);
    }

    fn end(&self) {
        self.ending.set(true);
        for waker in std::mem::take(&mut *self.streams.borrow_mut()).into_values() {
            waker.wake();
        }
    }
}

/// Removes `key`. An empty map keeps its root when nothing is in it; thousands of sessions would have one each.
fn removed<K: Ord, V>(map: &mut BTreeMap<K, V>, key: &K) {
    if map.remove(key).is_some() && map.is_empty() {
        *map = BTreeMap::new();
    }
}

/// One task does it all: there may be thousands of sessions that do nothing.
#[expect(clippy::manual_async_fn, reason = "an async fn keeps room for each argument twice")]
fn serve_session<W, S, O, N>(
    service: Rc<Service<W, S, O>>,
    session: N,
    slot: Option<Slot<N>>,
) -> impl Future<Output = ()>
where
    W: World,
    S: Site,
    O: Observer + 'static,
    N: Session,
{
    async move {
        let peer = if service.options.log.is_some() { session.peer() } else { None };
        let slot_handle = slot.as_ref().map(Slot::handle);
        let memory = SessionMemory::new(service.options.memory.as_ref());
        let activity =
            Rc::new(Activity { peer: peer.map(Box::new), slot_handle, memory, ..Activity::default() });
        activity.moved.set(service.world.now());
        let mut watch = Watch::new(&service.world, &service.options);
        let mut served = std::pin::pin!(async {
            match service.options.versions {
                // Boxed: else the task of every session, of whatever version, has room for it.
                Versions::Http3 => {
                    Box::pin(http3::serve(service.clone(), session.clone(), activity.clone())).await;
                }
                _ => serve_streams(&service, &session, &activity).await,
            }
        });
        poll_fn(|cx| {
            if let Some(watch) = &mut watch {
                watch.poll(cx, &service.world, &service.options, &session, &activity);
            }
            served.as_mut().poll(cx)
        })
        .await;
        drop(slot);
    }
}

/// The streams that a session has had.
struct ServedStreams<W: World> {
    tasks: Tasks<W>,
    /// A stream number can come again: its exchanges are counted on.
    logs: BTreeMap<u64, Rc<exchanges::Log>>,
}

#[expect(clippy::manual_async_fn, reason = "an async fn keeps room for each argument twice")]
fn serve_streams<W, S, O, N>(
    service: &Rc<Service<W, S, O>>,
    session: &N,
    activity: &Rc<Activity>,
) -> impl Future<Output = ()>
where
    W: World,
    S: Site,
    O: Observer + 'static,
    N: Session,
{
    async move {
        let mut begun: Option<Box<ServedStreams<W>>> = None;
        let stop = service.options.stop.as_ref().map(Stop::wait);
        loop {
            let next = poll_fn(|cx| {
                if stop.as_ref().is_some_and(|stop| stop.poll(cx).is_ready()) {
                    return Poll::Ready(None);
                }
                if let Some(begun) = &begun {
                    // What is done is forgotten, however long nothing new comes.
                    let _ = begun.tasks.poll_idle(cx);
                }
                ready!(activity.memory.poll_begin(cx));
                session.poll_accept(cx).map(Some)
            });
            let stream = match next.await {
                Some(Ok(stream)) => stream,
                Some(Err(_)) => return,
                None => break,
            };
            let exchange = activity.memory.begin();
            let ServedStreams { tasks, logs } = &mut **begun.get_or_insert_with(|| {
                Box::new(ServedStreams { tasks: Tasks::new(service.world.clone()), logs: BTreeMap::new() })
            });
            let whole = (session.clone(), stream);
            // What does not come again is not remembered.
            let mut once = BTreeMap::new();
            let logs = if session.fresh_streams() { &mut once } else { logs };
            match opening::spoken(service.options.versions, &whole) {
                Spoken::Http1 => {
                    let log = exchanges::Log::of(logs, session.id(), &whole.1);
                    let served =
                        stream::serve(service.clone(), log, whole, activity.clone(), exchange, Bytes::new());
                    tasks.spawn("http served stream", served);
                }
                Spoken::Http2 => {
                    let served =
                        http2::serve(service.clone(), whole, activity.clone(), exchange, Bytes::new());
                    tasks.spawn("http/2 served session", served);
                }
                Spoken::Unknown => {
                    let log = exchanges::Log::of(logs, session.id(), &whole.1);
                    let served = opening::serve(service.clone(), log, whole, activity.clone(), exchange);
                    tasks.spawn("http served stream", served);
                }
            }
        }
        activity.end();
        if let Some(begun) = &begun {
            begun.tasks.idle().await;
        }
        session.close();
        session.closed().await;
    }
}

/// Ends a session that stands still.
struct Watch<W: World> {
    timer: W::Timer,
    /// The timer is set.
    armed: bool,
    /// Until when it may take to close, once it has to.
    closing: Option<Instant>,
    /// What the peer takes of what was sent.
    ack_progress: AckProgress,
}

impl<W: World> Watch<W> {
    /// `None` where sessions may stand still.
    fn new(world: &W, options: &Options) -> Option<Self> {
        if options.idle_timeout.is_none() && options.head_timeout.is_none() {
            return None;
        }
        Some(Self { timer: world.timer(), armed: false, closing: None, ack_progress: AckProgress::default() })
    }

    /// Does what is due, and is looked at again when there may be more.
    fn poll<N: Session>(
        &mut self,
        cx: &mut Context<'_>,
        world: &W,
        options: &Options,
        session: &N,
        activity: &Activity,
    ) {
        while !self.armed || self.timer.poll(cx).is_ready() {
            let now = world.now();
            let due = self.look(now, options, session, activity);
            self.timer.set(Some(due.max(now.plus_nanos(1))));
            self.armed = true;
        }
    }

    /// When to look again.
    fn look<N: Session>(
        &mut self,
        now: Instant,
        options: &Options,
        session: &N,
        activity: &Activity,
    ) -> Instant {
        let far = Duration::from_secs(3600);
        if let Some(until) = self.closing {
            // A peer that does not take what is left, or the end, is not waited for.
            if until > now {
                return until;
            }
            if !self.ack_progress.is_made(session) {
                session.abort();
                return now + far;
            }
            self.closing = Some(now + CLOSING);
            return now + CLOSING;
        }
        let head_since = activity.heads.borrow().values().min().copied();
        if let (Some(since), Some(head)) = (head_since, options.head_timeout)
            && since + head <= now
        {
            session.abort();
            return now + far;
        }
        // What was written long ago may be on its way for long: all of a large answer fits into a send buffer.
        if self.ack_progress.is_made(session) {
            activity.moved.set(now);
        }
        let busy = activity.serving.get() > 0;
        let idle = options.idle_timeout.unwrap_or(far);
        if options.idle_timeout.is_some() && !busy && activity.moved.get() + idle <= now {
            session.close();
            self.closing = Some(now + CLOSING);
            return now + CLOSING;
        }
        let idle_due = if busy { now + idle } else { activity.moved.get() + idle };
        let head_due = head_since.unwrap_or(now) + options.head_timeout.unwrap_or(far);
        idle_due.min(head_due)
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
