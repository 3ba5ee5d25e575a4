//! The server. hyper serves HTTP/1.1, h2 serves HTTP/2, and this crate serves HTTP/3 itself.
//!
//! Over HTTP/1.1, hyper treats every stream as a connection, and handles pipelining, heads and framing. This module
//! does what hyper cannot do. It identifies the stream and the exchange of a request, and gives a head the size that
//! the page specifies. It records when the server begins to process a request, and when the first byte of a response
//! leaves. All clocks are those of the `World`: hyper's own timers and its Date are off.
//!
//! - `site`: the content that is served
//! - `origin`: the origins that the server is responsible for
//! - [`files`]: a site with the files of a directory
//! - `access`, `stop`: the access log, and graceful shutdown
//! - `fifo_lock`: a lock with which requests are served one at a time
//! - `idle_buffers`: limits the buffers that streams keep between requests
//! - `reply`: prepares the response to a request
//! - `stream`: adapts a stream for hyper, and responds to each request over HTTP/1.1
//! - `exchanges`: the exchanges of a stream
//! - `unread_body`: the rest of a request body after the response
//! - `http2`, `http3`: serve sessions of these versions, and decide which response is written next
//! - `preface`: determines whether a session speaks HTTP/2
//! - `smuggling_guard`: filters the bytes that hyper reads
//! - `drain`: discards the bytes that are left when hyper has finished

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
mod origin;
mod preface;
mod redirect;
mod reply;
mod site;
#[cfg(test)]
mod size;
mod smuggling_guard;
mod stop;
mod stream;
mod unread_body;

pub use access::{Access, Log};
pub use date::Date;
pub use origin::{Names, OwnOrigins};
pub use redirect::Redirected;
pub use reply::min_head_size;
pub use site::{Answer, Content, PageSite, Resource, Site, SiteRequest, Store, StoredRange};
pub use stop::{Stop, StopWaiter};

use crate::closing::{AckProgress, CLOSING};
use crate::head::Strictness;
use crate::http2::io::Scratch;
use crate::http2::{ALPN, Windows};
use crate::limits::{Admission, ConcurrencyLimit, ExchangePermit, SessionMemory, Slot, SlotHandle};
use crate::mapping::Version;
use crate::observe::Recorder;
use anabranch_base::Budget;
use anabranch_base::time::{Duration, Instant};
use anabranch_transport::{CloseReason, Listener, Session};
use anabranch_world::{Tasks, Timer, World};
use bytes::Bytes;
use idle_buffers::IdleBuffers;
use preface::StreamVersion;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

/// The settings of a server.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The time from the start of processing a request until the response is ready.
    pub service_time: Duration,
    /// Whether the requests of a session are processed one at a time, in the order of arrival. Processing of the next
    /// request begins when the response to the previous one was written.
    pub serial: bool,
    /// The idle time after which a session is closed; `None` means never.
    pub idle_timeout: Option<Duration>,
    /// The time limit for the head of a request. A session is aborted if a head has begun on one of its streams and is
    /// not complete after this time. The time does not run while a response is being sent on the stream. After a
    /// refused head, the server discards data from the client for at most this time. If more data arrives later, the
    /// session is aborted. The rest of a request body without a declared length is discarded for at most twice this time.
    pub head_timeout: Option<Duration>,
    /// The wall clock, as Unix time in seconds. If it is set, responses carry a Date. The wall clock may be stepped at
    /// any time, so only the Date depends on it. Timers use the clock of the `World`.
    pub wall_clock: Option<fn() -> u64>,
    /// The maximum size of a request head in bytes; 64 KiB if `None`. The response to a larger head has status 431.
    pub max_head: Option<usize>,
    /// The origins that the server is responsible for; `None` means all.
    pub own_origins: Option<OwnOrigins>,
    /// How strictly requests are checked.
    pub strictness: Strictness,
    /// The limit on sessions, shared by all servers that hold a clone of it. When all slots are taken, a new session
    /// replaces the session that has waited longest for a request or for the rest of a request's head. If all sessions
    /// have requests in progress, the new session replaces the session whose client has stalled it longest. This
    /// session must have been stalled for at least 5 s. Otherwise the new session is refused.
    pub sessions: Option<ConcurrencyLimit>,
    /// The memory budget for heads and bodies of all sessions. The transport may share it. While no memory is
    /// available, requests wait in the transport.
    pub memory: Option<Budget>,
    /// The number of streams that keep their buffers while they wait for a request; 512 if `None`.
    pub buffers_kept: Option<usize>,
    /// The log that gets a record of every exchange when the exchange is over.
    pub log: Option<Log>,
    /// The HTTP versions that the server speaks.
    pub versions: Versions,
    /// The handle that stops the server. Once stopped, the server accepts neither new sessions nor new requests. It
    /// completes the exchanges in flight, closes its sessions and ends.
    pub stop: Option<Stop>,
}

/// The HTTP versions that a server or a client speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Versions {
    /// HTTP/1.1 and older.
    #[default]
    Http1,
    /// HTTP/2, on sessions with one stream.
    Http2,
    /// HTTP/3, on sessions in which each exchange has a stream of its own.
    Http3,
    /// HTTP/1.1 or HTTP/2, on sessions with one stream. ALPN decides between them. Without ALPN, the first bytes of the
    /// client decide (RFC 9113 §3.3).
    Both,
}

impl Versions {
    /// Returns the HTTP version that a client with this setting uses on an established session.
    #[must_use]
    pub fn on(self, session: &impl Session) -> Version {
        let http2 = Version::Http2(Windows::default());
        match self {
            Self::Http1 => Version::Http1,
            Self::Http2 => http2,
            Self::Http3 => Version::Http3,
            Self::Both if session.protocol().is_some_and(|name| name == ALPN) => http2,
            Self::Both => Version::Http1,
        }
    }
}

/// Serves `site` to every session that `listener` accepts, until the listener fails or [`Options::stop`] stops the
/// server. Dropping the future drops all sessions.
///
/// # Errors
/// The reason why the listener failed.
pub async fn run<W, L, S>(
    world: W,
    mut listener: L,
    site: Rc<S>,
    options: Options,
    recorder: Recorder,
) -> Result<(), CloseReason>
where
    W: World,
    L: Listener,
    S: Site,
{
    let buffers = IdleBuffers::new(options.buffers_kept);
    let (date, scratch) = (Date::new(options.wall_clock), Scratch::default());
    let service = Rc::new(Service { world: world.clone(), site, options, recorder, buffers, date, scratch });
    let tasks = Tasks::new(world);
    let session_limit = service.options.sessions.clone();
    let mut admission = session_limit.map(|session_limit| Admission::new(&service.world, session_limit));
    let stop = service.options.stop.as_ref().map(Stop::wait);
    let stops = |cx: &Context<'_>| stop.as_ref().map_or(Poll::Pending, |stop| stop.poll(cx));
    loop {
        let next = match &mut admission {
            Some(admission) => {
                let admitted = admission.next(&mut listener, stops).await?;
                admitted.map(|(session, slot)| (session, Some(slot)))
            }
            None => {
                let next = poll_fn(|cx| match stops(cx) {
                    Poll::Ready(()) => Poll::Ready(Ok(None)),
                    Poll::Pending => listener.poll_accept(cx).map_ok(Some),
                });
                next.await?.map(|session| (session, None))
            }
        };
        let Some((session, slot)) = next else { break };
        tasks.spawn("http session", serve_session(service.clone(), session, slot));
    }
    drop((listener, admission));
    tasks.wait_idle().await;
    Ok(())
}

/// The state that all sessions of a server share.
struct Service<W, S> {
    world: W,
    site: Rc<S>,
    options: Options,
    recorder: Recorder,
    buffers: IdleBuffers,
    date: Date,
    /// The buffer into which streams are read.
    scratch: Scratch,
}

/// The state that the streams of a session share with the session's `SessionTimeouts`.
#[derive(Debug, Default)]
struct Activity {
    /// When bytes were last read or written.
    last_activity: Cell<Instant>,
    /// The number of requests that are being served.
    serving: Cell<u32>,
    /// The number of requests received so far on HTTP/1.1 streams.
    request_count: Cell<u64>,
    /// The number of streams with a request in progress. A request is in progress from the receipt of its head until
    /// the last byte of its response was written.
    requests_in_progress: Cell<u32>,
    /// The handle through which the session reports its requests and bytes to the server's admission control.
    slot_handle: Option<SlotHandle>,
    /// The streams on which only part of a request head has arrived. The value is the time since which the server has
    /// waited for the rest.
    heads: RefCell<BTreeMap<u64, Instant>>,
    /// The number of response bytes that were read from a store and are not yet with the transport.
    buffered: Cell<usize>,
    /// The session's share of the memory budget.
    memory: Rc<SessionMemory>,
    /// The lock that a request holds while it is in progress, if requests are served one at a time.
    request_lock: fifo_lock::FifoLock,
    /// The address of the peer. It is set only if there is an access log.
    peer: Option<Box<SocketAddr>>,
    /// Whether the server is being stopped. `streams` holds the wakers of the streams that wait for the stop.
    is_stopping: Cell<bool>,
    streams: RefCell<BTreeMap<u64, Waker>>,
}

impl Activity {
    /// Counts another stream with a request in progress.
    fn begin(&self) {
        self.requests_in_progress.set(self.requests_in_progress.get() + 1);
        if let Some(slot_handle) = &self.slot_handle {
            slot_handle.set_busy();
        }
    }

    /// Reduces the number of streams with a request in progress by 1.
    fn done(&self) {
        self.requests_in_progress.set(self.requests_in_progress.get() - 1);
        if let Some(slot_handle) = self.slot_handle.as_ref().filter(|_| self.requests_in_progress.get() == 0)
        {
            slot_handle.set_waiting();
        }
    }

    /// Records that `stream` waits for the rest of a head, unless this is already recorded.
    fn head_begins(&self, stream: u64, now: Instant) {
        self.heads.borrow_mut().entry(stream).or_insert(now);
    }

    /// Records that `stream` no longer waits for the rest of a head.
    fn head_ends(&self, stream: u64) {
        removed(&mut self.heads.borrow_mut(), &stream);
    }

    /// Records that `bytes` bytes were read or written.
    fn record_bytes(&self, now: Instant, bytes: usize) {
        self.last_activity.set(now);
        if let Some(slot_handle) = &self.slot_handle {
            slot_handle.add_bytes(bytes);
        }
    }

    /// Completes when the server is being stopped.
    fn poll_stopping(&self, stream: u64, cx: &Context<'_>) -> Poll<()> {
        if self.is_stopping.get() {
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

    /// Forgets a stream that has ended.
    fn forget(&self, stream: u64) {
        removed(&mut self.streams.borrow_mut(), &stream);
    }

    fn end(&self) {
        self.is_stopping.set(true);
        for waker in std::mem::take(&mut *self.streams.borrow_mut()).into_values() {
            waker.wake();
        }
    }
}

/// Removes `key` from `map`. If the map becomes empty, a new map replaces it, because an emptied map keeps its root
/// node. Without the replacement, thousands of idle sessions would each hold such a node.
fn removed<K: Ord, V>(map: &mut BTreeMap<K, V>, key: &K) {
    if map.remove(key).is_some() && map.is_empty() {
        *map = BTreeMap::new();
    }
}

/// Serves a session. A single task serves the session and all its streams, because more tasks would cost too much
/// memory with thousands of idle sessions.
#[expect(clippy::manual_async_fn, reason = "an async fn keeps room for each argument twice")]
fn serve_session<W, S, N>(
    service: Rc<Service<W, S>>,
    session: N,
    slot: Option<Slot<N>>,
) -> impl Future<Output = ()>
where
    W: World,
    S: Site,
    N: Session,
{
    async move {
        let peer = if service.options.log.is_some() { session.peer() } else { None };
        let slot_handle = slot.as_ref().map(Slot::handle);
        let memory = SessionMemory::new(service.options.memory.as_ref());
        let activity =
            Rc::new(Activity { peer: peer.map(Box::new), slot_handle, memory, ..Activity::default() });
        activity.last_activity.set(service.world.now());
        let mut watch = SessionTimeouts::new(&service.world, &service.options);
        let mut served = std::pin::pin!(async {
            match service.options.versions {
                // The future is boxed. Otherwise the task of every session, of any version, would reserve space for
                // this future.
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

/// The streams of a session that are or were served: their tasks, and the state of their exchanges.
struct ServedStreams<W: World> {
    tasks: Tasks<W>,
    /// The state of the exchanges of each stream, by stream number. A later stream with the same number continues with
    /// this state.
    exchanges_by_stream: BTreeMap<u64, Rc<exchanges::StreamExchanges>>,
}

#[expect(clippy::manual_async_fn, reason = "an async fn keeps room for each argument twice")]
fn serve_streams<W, S, N>(
    service: &Rc<Service<W, S>>,
    session: &N,
    activity: &Rc<Activity>,
) -> impl Future<Output = ()>
where
    W: World,
    S: Site,
    N: Session,
{
    async move {
        let mut served_streams: Option<Box<ServedStreams<W>>> = None;
        let stop = service.options.stop.as_ref().map(Stop::wait);
        loop {
            let next = poll_fn(|cx| {
                if stop.as_ref().is_some_and(|stop| stop.poll(cx).is_ready()) {
                    return Poll::Ready(None);
                }
                if let Some(served_streams) = &served_streams {
                    // Completed tasks are removed here, even if no new stream arrives for a long time.
                    let _ = served_streams.tasks.poll_idle(cx);
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
            let ServedStreams { tasks, exchanges_by_stream } =
                &mut **served_streams.get_or_insert_with(|| {
                    Box::new(ServedStreams {
                        tasks: Tasks::new(service.world.clone()),
                        exchanges_by_stream: BTreeMap::new(),
                    })
                });
            let whole = (session.clone(), stream);
            // A session that opens a new stream for each exchange never reuses a stream number, so no later exchange
            // needs the state of the earlier ones.
            let mut once = BTreeMap::new();
            let exchanges_by_stream = if session.fresh_streams() { &mut once } else { exchanges_by_stream };
            match preface::known_version(service.options.versions, &whole) {
                StreamVersion::Http1 => {
                    let exchanges =
                        exchanges::StreamExchanges::of(exchanges_by_stream, session.id(), &whole.1);
                    let served = stream::serve(
                        service.clone(),
                        exchanges,
                        whole,
                        activity.clone(),
                        exchange,
                        Bytes::new(),
                    );
                    tasks.spawn("http served stream", served);
                }
                StreamVersion::Http2 => {
                    let served =
                        http2::serve(service.clone(), whole, activity.clone(), exchange, Bytes::new());
                    tasks.spawn("http/2 served session", served);
                }
                StreamVersion::Unknown => {
                    let exchanges =
                        exchanges::StreamExchanges::of(exchanges_by_stream, session.id(), &whole.1);
                    let served =
                        preface::serve(service.clone(), exchanges, whole, activity.clone(), exchange);
                    tasks.spawn("http served stream", served);
                }
            }
        }
        activity.end();
        if let Some(served_streams) = &served_streams {
            served_streams.tasks.wait_idle().await;
        }
        session.close();
        session.closed().await;
    }
}

/// Closes a session that is idle or too slow.
struct SessionTimeouts<W: World> {
    timer: W::Timer,
    /// Whether the timer is set.
    armed: bool,
    /// The time at which a closing session is checked again; `None` if the session is not closing.
    closing: Option<Instant>,
    /// Detects whether the peer acknowledges the data that was sent to it.
    ack_progress: AckProgress,
}

impl<W: World> SessionTimeouts<W> {
    /// Creates the timer of a session. Returns `None` if the options have neither an idle timeout nor a head timeout.
    fn new(world: &W, options: &Options) -> Option<Self> {
        if options.idle_timeout.is_none() && options.head_timeout.is_none() {
            return None;
        }
        Some(Self { timer: world.timer(), armed: false, closing: None, ack_progress: AckProgress::default() })
    }

    /// Closes the session if a timeout has expired, and sets the timer for the next check.
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
            let due = self.check(now, options, session, activity);
            self.timer.set(Some(due.max(now.plus_nanos(1))));
            self.armed = true;
        }
    }

    /// Checks the timeouts. Returns the time of the next check.
    fn check<N: Session>(
        &mut self,
        now: Instant,
        options: &Options,
        session: &N,
        activity: &Activity,
    ) -> Instant {
        let far = Duration::from_secs(3600);
        if let Some(until) = self.closing {
            // A session whose peer acknowledges neither the remaining data nor the close is aborted.
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
        // A send buffer accepts a large response at once, and the data may then be in flight for a long time. Therefore
        // newly acknowledged data counts as activity.
        if self.ack_progress.is_made(session) {
            activity.last_activity.set(now);
        }
        let busy = activity.serving.get() > 0;
        let idle = options.idle_timeout.unwrap_or(far);
        if options.idle_timeout.is_some() && !busy && activity.last_activity.get() + idle <= now {
            session.close();
            self.closing = Some(now + CLOSING);
            return now + CLOSING;
        }
        let idle_due = if busy { now + idle } else { activity.last_activity.get() + idle };
        let head_due = head_since.unwrap_or(now) + options.head_timeout.unwrap_or(far);
        idle_due.min(head_due)
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
