//! Forwards HTTP between TCP and SCTP, in either direction.
//!
//! A gateway accepts requests from a listener of one transport, and forwards them on streams of another transport. It
//! is either a forward proxy or a reverse proxy. A forward proxy reaches any allowed origin, and opens tunnels for
//! CONNECT. A reverse proxy serves one origin. Two gateways in a row carry traffic of TCP clients over SCTP to TCP
//! servers. Each exchange and each tunnel has a stream of its own on the association.
//!
//! Bytes are forwarded as they arrive. The gateway reads from one side only as fast as the other side accepts data.
//! Therefore a large body or a stalled client costs no memory. Every wait is limited: for a head by
//! [`Options::head_timeout`], for progress by [`Options::idle`].
//!
//! - `target`, `head`: strict parsing of HTTP/1.1, and writing of new heads, with fields that tell an origin about the
//!   client
//! - [`allow`]: the rules that determine which targets may be reached
//! - `conn`: streams, and pumps between streams
//! - `origins`, `lookups`, `fair_queue`, `associations`: outgoing connections, to origins or to the next gateway
//! - `exchange`, `tunnel`: forwarding between the client and the outgoing connection
//! - `watch`: ends exchanges that make no progress, and exchanges that block other exchanges
//!
//! The gateway and the server share code in the `http` crate: limits on sessions and memory, the framing of bodies, and
//! the closing of sessions. The pools of connections and associations also serve `get --page`. The program that runs
//! the gateway opens the connections to origins. The gateway uses HTTP/1.1 with clients and with origins, so that it
//! can forward a body as it arrives, without conversion to another protocol. The gateway does not support HTTP/2.

pub mod allow;
mod associations;
mod conn;
mod exchange;
mod fair_queue;
mod head;
mod lookups;
mod origins;
mod target;
mod tunnel;
mod watch;

pub use allow::Network;
pub use associations::{Associations, Peer};
pub use origins::{Dial, Origins};

use anabranch_base::Budget;
use anabranch_base::time::{Duration, Instant};
use anabranch_http::authority::Origin;
use anabranch_http::closing::{self, AckProgress, CLOSING, reset_done};
use anabranch_http::limits::{
    Admission, Client, ConcurrencyLimit, ExchangePermit, HeldBytes, SessionMemory, Share, Slot, SlotHandle,
};
use anabranch_http::serve::{Access, Date, Log, Stop, StopWaiter};
use anabranch_http::upstream::Upstream;
use anabranch_transport::{CloseReason, Listener, Session, Stream};
use anabranch_world::{Tasks, Timer, World};
use conn::{Conn, HEAD_BYTES, HeadError, NO_MEMORY, Scratch};
use exchange::{own_answer, own_body};
use head::{Refusal, Request};
use http::Version;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// The destination to which a gateway forwards requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Route {
    /// Requests are forwarded to the target that each of them names (forward proxy).
    Any,
    /// All requests are forwarded to this origin (reverse proxy).
    Origin(Origin),
}

/// Reports faults to the operator of the gateway. All clones write to the same destination.
#[derive(Clone)]
pub struct Faults(Rc<dyn Fn(&str)>);

impl Faults {
    /// Creates a reporter that calls `write` with each line.
    pub fn new(write: impl Fn(&str) + 'static) -> Self {
        Self(Rc::new(write))
    }

    fn tell(&self, line: &str) {
        (self.0)(line);
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Faults")
    }
}

/// The settings of a gateway for one listener.
#[derive(Clone, Debug)]
pub struct Options {
    /// The destination to which the gateway forwards requests.
    pub route: Route,
    /// The trusted proxies in front of a reverse gateway. The gateway keeps and extends the Forwarded and X-Forwarded-*
    /// fields of their requests.
    pub trusted_proxies: Vec<Network>,
    /// Whether the listener's transport can close one direction of a stream. TCP can do this, SCTP cannot.
    pub half_close: bool,
    /// Whether clients connect over TLS or DTLS. A reverse gateway reports this to its origin.
    pub secure: bool,
    /// The name of the gateway in Via fields. A request that already contains this name is refused with status 508.
    pub name: String,
    /// The time without progress after which an exchange, a tunnel or a session ends.
    pub idle: Duration,
    /// The time within which a request head must arrive.
    pub head_timeout: Duration,
    /// The maximum size of a request head in bytes. A larger head is refused with status 431.
    pub max_head: usize,
    /// The limit on sessions. All servers with a clone of this value share the limit. When all slots are taken, a new
    /// session replaces the session that has waited longest for a request or for the rest of a head. If all sessions
    /// have requests in progress, the new session replaces the longest-stalled session, provided that its client has
    /// stalled it for at least 5 s. If no session may be replaced, the new session is refused.
    pub sessions: ConcurrencyLimit,
    /// The limit on exchanges. A tunnel counts as an exchange. All listeners with a clone of this value share the
    /// limit. Further requests are refused with status 503. The more slots are taken, the fewer slots each session and
    /// client may hold. A session may hold at most 8 times the number of free slots. A client (an IPv4 address, or an
    /// IPv6 /64) may hold at most 31 times the number of free slots. When almost no slots are free, each refused
    /// exchange ends one exchange whose client has stalled for 5 s.
    pub exchanges: ConcurrencyLimit,
    /// The wall clock, as Unix time in seconds. The gateway uses the clock for the Date of its own responses, and of
    /// forwarded responses without Date. With `None`, these responses have no Date.
    pub wall_clock: Option<fn() -> u64>,
    /// The memory budget for the heads and bodies of all sessions. The transport may use the same budget. While no
    /// memory is available, requests wait in the transport.
    pub memory: Option<Budget>,
    /// Receives a record of each exchange after its end.
    pub log: Option<Log>,
    /// Receives a line whenever an origin cannot be authenticated.
    pub faults: Option<Faults>,
    /// Stops the gateway. After this stop is triggered, the gateway accepts no more sessions and requests, finishes the
    /// exchanges in flight, and ends.
    pub stop: Stop,
}

/// The state that all sessions of a listener share.
struct Service<W, U> {
    world: W,
    upstream: Rc<U>,
    options: Options,
    scratch: Scratch,
    date: Date,
    /// The share of [`Options::exchanges`] that each client has.
    clients: RefCell<BTreeMap<Client, Rc<Share>>>,
}

impl<W, U> Service<W, U> {
    /// Creates the share that a new session of the client `peer` has in [`Options::exchanges`]. This share is a part of
    /// the client's share.
    fn share(&self, peer: Option<SocketAddr>) -> Rc<Share> {
        let limit = &self.options.exchanges;
        let mut clients = self.clients.borrow_mut();
        clients.retain(|_, share| Rc::strong_count(share) > 1);
        let client = clients.entry(Client::at(peer.map(|peer| peer.ip())));
        let client = client.or_insert_with(|| Share::new(limit.clone(), CLIENT_MULTIPLE));
        Share::within(client.clone(), SESSION_MULTIPLE)
    }
}

/// The state that all streams of a session share.
#[derive(Debug)]
struct Activity {
    /// The number of streams that are being served.
    active: Cell<u32>,
    /// The time at which a stream of the session last ended.
    since: Cell<Instant>,
    /// The number of requests in progress.
    requests_in_progress: Cell<u32>,
    /// The slot of the session. The session reports its requests and bytes to this slot.
    slot_handle: SlotHandle,
    /// The share that the session has in the limit [`Options::exchanges`].
    share: Rc<Share>,
    /// The share of the session in the memory budget.
    memory: Rc<SessionMemory>,
    peer: Option<SocketAddr>,
}

/// Accepts sessions from `listener` and forwards their requests through `upstream`. Runs until the listener fails, or
/// until [`Options::stop`] is triggered. Dropping the future drops all sessions.
///
/// # Errors
/// The reason why the listener failed.
pub async fn run<W, L, U>(
    world: W,
    mut listener: L,
    upstream: Rc<U>,
    options: Options,
) -> Result<(), CloseReason>
where
    W: World,
    L: Listener,
    U: Upstream,
{
    let service = Rc::new(Service {
        world: world.clone(),
        upstream,
        date: Date::new(options.wall_clock),
        options,
        scratch: conn::scratch(),
        clients: RefCell::default(),
    });
    let tasks = Tasks::new(world);
    let mut admission = Admission::new(&service.world, service.options.sessions.clone());
    let stop = service.options.stop.wait();
    let stops = |cx: &Context<'_>| stop.poll(cx);
    while let Some((session, slot)) = admission.next(&mut listener, stops).await? {
        tasks.spawn("gateway session", serve_session(service.clone(), session, slot));
    }
    drop((listener, admission));
    tasks.wait_idle().await;
    Ok(())
}

async fn serve_session<W: World, U: Upstream, N: Session>(
    service: Rc<Service<W, U>>,
    session: N,
    slot: Slot<N>,
) {
    let world = &service.world;
    let tasks = Tasks::new(world.clone());
    let peer = session.peer();
    let share = service.share(peer);
    let (active, since) = (Cell::new(0), Cell::new(world.now()));
    let (slot_handle, under_way) = (slot.handle(), Cell::new(0));
    let memory = SessionMemory::new(service.options.memory.as_ref());
    let activity = Rc::new(Activity {
        active,
        since,
        requests_in_progress: under_way,
        slot_handle,
        share,
        memory,
        peer,
    });
    let memory = activity.memory.clone();
    let stop = service.options.stop.wait();
    let idle = service.options.idle;
    let (mut timer, mut ack_progress) = (world.timer(), AckProgress::default());
    timer.set(Some(world.now() + idle));
    loop {
        let next = poll_fn(|cx| {
            if stop.poll(cx).is_ready() {
                return Poll::Ready(None);
            }
            while timer.poll(cx).is_ready() {
                let (now, quiet) = (world.now(), activity.active.get() == 0);
                // Acknowledgements count as activity, because the last responses may still be in flight.
                if ack_progress.is_made(&session) {
                    activity.since.set(now);
                }
                if quiet && activity.since.get() + idle <= now {
                    return Poll::Ready(None);
                }
                timer.set(Some(if quiet { activity.since.get() + idle } else { now + idle }));
            }
            ready!(memory.poll_begin(cx));
            session.poll_accept(cx).map(Some)
        });
        let stream = match next.await {
            Some(Ok(stream)) => stream,
            Some(Err(_)) => break,
            None => break,
        };
        activity.active.set(activity.active.get() + 1);
        tasks.spawn(
            "gateway stream",
            serve_stream(service.clone(), session.clone(), stream, activity.clone(), memory.begin()),
        );
    }
    tasks.wait_idle().await;
    closing::close(world, &session).await;
    drop(slot);
}

/// An active stream of a client's session. When this value is dropped, the session counts one active stream less.
struct Active<W: World>(Rc<Activity>, W);

impl<W: World> Drop for Active<W> {
    fn drop(&mut self) {
        self.0.active.set(self.0.active.get() - 1);
        self.0.since.set(self.1.now());
    }
}

/// Counts a request as in progress until this value is dropped. Meanwhile the session's slot records that the gateway,
/// not the client, has to act next.
struct InProgressGuard(Rc<Activity>);

impl InProgressGuard {
    fn begin(activity: &Rc<Activity>) -> Self {
        activity.requests_in_progress.set(activity.requests_in_progress.get() + 1);
        activity.slot_handle.set_busy();
        activity.slot_handle.begin_server_turn();
        Self(activity.clone())
    }
}

impl Drop for InProgressGuard {
    fn drop(&mut self) {
        self.0.slot_handle.end_server_turn();
        self.0.requests_in_progress.set(self.0.requests_in_progress.get() - 1);
        if self.0.requests_in_progress.get() == 0 {
            self.0.slot_handle.set_waiting();
        }
    }
}

async fn serve_stream<W: World, U: Upstream, N: Session>(
    service: Rc<Service<W, U>>,
    session: N,
    stream: N::Stream,
    activity: Rc<Activity>,
    // The permit of the exchange, held until no data is left on the stream.
    _exchange: ExchangePermit,
) {
    let active = Active(activity.clone(), service.world.clone());
    let number = stream.number();
    let conn = Conn::metered(stream, activity.slot_handle.clone(), activity.memory.clone());
    let stop = service.options.stop.wait();
    let half_close = service.options.half_close;
    let after = loop {
        match next_request(&service, &conn, &stop).await {
            Ok((mut request, _held)) => {
                let under_way = InProgressGuard::begin(&activity);
                let mut access = Access {
                    peer: activity.peer,
                    stream: number,
                    method: request.method.clone(),
                    target: std::mem::take(&mut request.written),
                    version: if request.minor == 0 { Version::HTTP_10 } else { Version::HTTP_11 },
                    status: 0,
                    bytes: 0,
                };
                let framed = service.options.half_close
                    || request.method != "CONNECT"
                    || request.has_field_value(head::TUNNEL_FRAMING, "chunked");
                let after = if framed {
                    exchange::exchange(&service, &conn, &request, &activity, &mut access).await
                } else {
                    let refusal = Refusal::new(400, "a tunnel on a stream needs Tunnel-Framing: chunked");
                    exchange::answer(&service, &conn, &request, &refusal, false, &mut access).await
                };
                if let Some(log) = &service.options.log {
                    log.write(&access);
                }
                drop(under_way);
                if after != ClientStreamEnd::Reuse {
                    break after;
                }
                // Return an idle stream to the session, where it needs no task and no memory.
                if !half_close && conn.is_clean() {
                    return;
                }
            }
            Err(HeadError::Refused(refusal)) => {
                let access = Access {
                    peer: activity.peer,
                    stream: number,
                    method: "-".to_owned(),
                    target: "-".to_owned(),
                    version: Version::HTTP_11,
                    status: refusal.status,
                    bytes: own_body(&refusal).len() as u64,
                };
                if let Some(log) = &service.options.log {
                    log.write(&access);
                }
                let response = own_answer(&refusal, true, false, &service.date);
                let sent = service.world.timeout(CLOSING, conn.write_all(&response)).await;
                break if sent.is_some_and(|sent| sent.is_ok()) {
                    ClientStreamEnd::Part
                } else {
                    ClientStreamEnd::Tear(false)
                };
            }
            Err(HeadError::Ended) => break ClientStreamEnd::Idle,
            Err(HeadError::Lost(reason)) => break ClientStreamEnd::Tear(reason == CloseReason::Cancelled),
        }
    };
    end(&service, session, conn, after).await;
    drop(active);
}

/// The state of the client's stream after an exchange. The gateway then reuses, closes or resets the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ClientStreamEnd {
    /// The stream can carry another request.
    Reuse,
    /// The gateway and the client have both finished, and the stream is closed.
    Close,
    /// No request has begun: the client has ended the stream, or has waited too long, or the gateway is stopping. The
    /// stream is closed at once.
    Idle,
    /// The stream is closed, although the client may still be sending the request that was refused.
    Part,
    /// The exchange failed. The gateway resets the client's stream, unless the client has cancelled the exchange (the
    /// flag is true).
    Tear(bool),
    /// The response ended too early. The stream is reset after the client has received the part that arrived.
    Cut,
}

/// Reuses, closes or resets the client's stream, as `after` says. If the session has only one stream, closes or aborts
/// the session instead of the stream.
async fn end<W: World, U, N: Session>(
    service: &Service<W, U>,
    session: N,
    conn: Conn<N::Stream>,
    after: ClientStreamEnd,
) {
    let half_close = service.options.half_close;
    let after = match after {
        ClientStreamEnd::Cut => {
            service.world.timeout(LINGER, delivered(&service.world, &conn)).await;
            ClientStreamEnd::Tear(false)
        }
        after => after,
    };
    match after {
        ClientStreamEnd::Reuse | ClientStreamEnd::Tear(true) => {}
        ClientStreamEnd::Idle if half_close => session.close(),
        ClientStreamEnd::Close | ClientStreamEnd::Part if half_close => {
            conn.finish();
            // Read the data that the client has sent meanwhile. Closing with unread data would send a reset, which
            // could destroy the response.
            service.world.timeout(LINGER, conn.discard(MAX_DISCARDED)).await;
            session.close();
        }
        ClientStreamEnd::Tear(_) if half_close => session.abort(),
        // The client has finished its request, and no unread data is left. The next data on the stream is a new
        // request.
        ClientStreamEnd::Close | ClientStreamEnd::Idle if conn.is_clean() => {}
        ClientStreamEnd::Close
        | ClientStreamEnd::Idle
        | ClientStreamEnd::Part
        | ClientStreamEnd::Tear(_)
        | ClientStreamEnd::Cut => {
            // On a stream of an association, only a reset separates the data of this exchange from later data. After a
            // failed exchange (`Tear(false)`), the gateway resets the stream immediately. In the other cases a response
            // was sent, which must arrive before the reset. The gateway therefore first waits up to `LINGER` for the
            // client's request to end.
            if after != ClientStreamEnd::Tear(false) {
                service.world.timeout(LINGER, conn.discard(MAX_DISCARDED)).await;
            }
            let mut stream = conn.into_stream();
            if !stream.reset() {
                return session.abort();
            }
            if !reset_done(&service.world, &mut stream, CLOSING).await {
                session.abort();
            }
        }
    }
}

/// Waits until the client has acknowledged all written data.
async fn delivered<W: World, T: Stream>(world: &W, conn: &Conn<T>) {
    while conn.unacknowledged() > 0 {
        world.sleep_until(world.now() + LOOK_AGAIN).await;
    }
}

/// Waits for a request. Returns the request and the memory reserved for it in the budget of its session. A stream on
/// which no request begins in time counts as ended.
async fn next_request<W: World, U, T: Stream>(
    service: &Service<W, U>,
    conn: &Conn<T>,
    stop: &StopWaiter,
) -> Result<(Request, HeldBytes), HeadError> {
    let options = &service.options;
    let began = {
        let mut begins = pin!(conn.wait_for_data());
        let first = poll_fn(|cx| match begins.as_mut().poll(cx) {
            Poll::Ready(began) => Poll::Ready(Some(began)),
            Poll::Pending => stop.poll(cx).map(|()| None),
        });
        service.world.timeout(options.idle, first).await.flatten()
    };
    if !began.unwrap_or(Ok(false)).map_err(HeadError::Lost)? {
        return Err(HeadError::Ended);
    }
    let head = service.world.timeout(options.head_timeout, conn.head(options.max_head)).await;
    let late = || HeadError::Refused(Refusal::new(408, "the request did not arrive in time"));
    let request = Request::parse(&head.ok_or_else(late)??, options.secure).map_err(HeadError::Refused)?;
    let bytes = request.bytes().saturating_sub(HEAD_BYTES);
    match conn.fits(bytes) {
        true => Ok((request, conn.holding(bytes))),
        false => Err(HeadError::Refused(Refusal::new(503, NO_MEMORY))),
    }
}

/// A session may begin an exchange while it has fewer than `SESSION_MULTIPLE` · n exchanges. Here n is the number of
/// exchanges that the whole gateway may still begin.
const SESSION_MULTIPLE: usize = 8;
/// The factor that replaces [`SESSION_MULTIPLE`] for all sessions from one client address together. It is greater than
/// that factor, so that several clients behind one address do not lock each other out.
const CLIENT_MULTIPLE: usize = 31;
/// The interval at which the gateway checks whether the client has acknowledged the written data.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// The longest wait after a response, before the gateway closes the stream or connection. During the wait, the client
/// can end its request or acknowledge the response.
const LINGER: Duration = Duration::from_secs(2);
/// The maximum number of bytes that the gateway reads from the client and discards during the wait of [`LINGER`].
const MAX_DISCARDED: usize = 256 * 1024;
