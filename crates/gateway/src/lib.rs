//! Forwards HTTP between TCP and SCTP, in either direction.
//!
//! A gateway accepts requests from a listener of one transport and forwards them on streams of another. It is either a
//! forward proxy (any allowed origin, and tunnels by CONNECT) or a reverse proxy for one origin. Two gateways back to back
//! carry TCP clients over SCTP to TCP servers. On the association each exchange and each tunnel has a stream of its own.
//!
//! Bytes are forwarded as they arrive. The gateway reads from one side only as fast as the other side accepts data, so a
//! large body or a stalled client costs no memory. Every wait is limited: for a head by [`Options::head_timeout`], for
//! progress by [`Options::idle`].
//!
//! - `target`, `head`: parse HTTP/1.1 strictly and write it anew; `forwarded`: the fields that describe the client to an
//!   origin
//! - [`allow`]: which targets may be reached
//! - `conn`: streams, and pumps between them
//! - `origins`, `origin_stream`, `lookups`, `turns`, `associations`: connections to the other side
//! - `exchange`, `tunnel`: forwarding between the two sides; `watch`: when an exchange must end
//!
//! Limits on sessions and memory, framing of bodies and closing of sessions are shared with the server, in `http`. The pools
//! of connections and associations also serve `get --page`. The TLS client for `https` origins is created when it is first
//! needed. The gateway speaks HTTP/1.1 on both sides, because it forwards bodies as they arrive; HTTP/2 is not supported.

pub mod allow;
mod associations;
mod conn;
mod exchange;
mod forwarded;
mod head;
mod lookups;
mod origin_stream;
mod origins;
mod target;
mod tunnel;
mod turns;
mod watch;

pub use allow::Network;
pub use associations::{Associations, Peer};
pub use origins::{MakeClient, Origins};

use anabranch_base::Budget;
use anabranch_base::time::{Duration, Instant};
use anabranch_http::authority::Origin;
use anabranch_http::closing::{self, AckProgress, CLOSING, reset_done};
use anabranch_http::limits::{
    Admission, Client, ConcurrencyLimit, ExchangePermit, HeldBytes, SessionMemory, Share, Slot, SlotHandle,
};
use anabranch_http::serve::{Access, Date, Log, Stop, Waiting};
use anabranch_http::upstream::Upstream;
use anabranch_transport::{CloseReason, Listener, Session, Stream};
use anabranch_world::{Tasks, Timer, World};
use conn::{Conn, HEAD_BYTES, NO_MEMORY, NoHead, Scratch};
use exchange::{After, own_answer, own_body};
use head::{Refusal, Request};
use http::Version;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, ready};

/// Where requests are forwarded to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Route {
    /// To the target that each request names: a forward proxy.
    Any,
    /// To this origin: a reverse proxy.
    Origin(Origin),
}

/// Reports faults to the operator of the gateway. Clones write to the same destination.
#[derive(Clone)]
pub struct Faults(Rc<dyn Fn(&str)>);

impl Faults {
    /// Returns faults that call `write` for each line.
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

/// Settings of a gateway for one listener.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where requests are forwarded to.
    pub route: Route,
    /// Proxies in front of a reverse gateway, whose Forwarded and X-Forwarded-* fields are kept and extended.
    pub trusted_proxies: Vec<Network>,
    /// Whether the listener's transport can close one direction of a stream: TCP can, SCTP cannot.
    pub half_close: bool,
    /// Whether clients connect over TLS or DTLS. An origin behind a reverse gateway is told so.
    pub secure: bool,
    /// The gateway's name in Via. A request that already contains it is refused with 508.
    pub name: String,
    /// Idle time after which an exchange, a tunnel or a session ends.
    pub idle: Duration,
    /// Maximum time for a request head to arrive.
    pub head_timeout: Duration,
    /// The largest request head in bytes; a larger one is answered with 431.
    pub max_head: usize,
    /// Limit on sessions, shared by all servers that hold a clone of it. When all slots are taken, a new session replaces
    /// the one that has waited longest for a request or the rest of its head. If all have requests in progress, it replaces
    /// the one whose client has been stalled longest, for at least 5 s. If no session may be ended, the new session is
    /// refused.
    pub sessions: ConcurrencyLimit,
    /// Limit on exchanges and tunnels, shared by all listeners that hold a clone of it; more are answered with 503. One
    /// session holds at most eight times the number still available, and one client (an IPv4 address, or an IPv6 /64) 31
    /// times. When almost none are available, each refused exchange ends one exchange that its client has stalled for 5 s.
    pub exchanges: ConcurrencyLimit,
    /// The wall clock, as Unix time in seconds. It dates responses that arrive without Date and the gateway's own; `None`:
    /// they have no Date.
    pub wall_clock: Option<fn() -> u64>,
    /// Memory budget of all sessions for heads and bodies; may be shared with the transport. Requests wait in the transport
    /// while no memory is available.
    pub memory: Option<Budget>,
    /// Receives a record of every exchange when it is over.
    pub log: Option<Log>,
    /// Receives a line when an origin cannot be authenticated.
    pub faults: Option<Faults>,
    /// When stopped, the gateway accepts no more sessions and requests, finishes exchanges in flight, and ends.
    pub stop: Stop,
}

/// State that all sessions of a listener share.
struct Service<W, U> {
    world: W,
    upstream: Rc<U>,
    options: Options,
    scratch: Scratch,
    date: Date,
    /// The share of each client in [`Options::exchanges`].
    clients: RefCell<BTreeMap<Client, Rc<Share>>>,
}

impl<W, U> Service<W, U> {
    /// Returns the share of a new session, within its client's share.
    fn share(&self, peer: Option<SocketAddr>) -> Rc<Share> {
        let limit = &self.options.exchanges;
        let mut clients = self.clients.borrow_mut();
        clients.retain(|_, share| Rc::strong_count(share) > 1);
        let client = clients.entry(Client::at(peer.map(|peer| peer.ip())));
        let client = client.or_insert_with(|| Share::new(limit.clone(), TIMES_LEFT_OF_ALL));
        Share::within(client.clone(), TIMES_LEFT)
    }
}

/// State that the streams of a session share.
#[derive(Debug)]
struct Activity {
    /// Streams that are being served.
    active: Cell<u32>,
    /// When the last of these streams ended.
    since: Cell<Instant>,
    /// Requests in progress.
    under_way: Cell<u32>,
    /// The session's slot, to which requests and bytes are reported.
    slot_handle: SlotHandle,
    /// The session's share in [`Options::exchanges`].
    share: Rc<Share>,
    /// The session's share of the memory budget.
    memory: Rc<SessionMemory>,
    peer: Option<SocketAddr>,
}

/// Forwards the requests that arrive at `listener` through `upstream`, until the listener fails or [`Options::stop`] is
/// triggered. Dropping the future drops all sessions.
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
    loop {
        let next = poll_fn(|cx| {
            if stop.poll(cx).is_ready() {
                return Poll::Ready(None);
            }
            if let Poll::Ready(admitted) = admission.poll(cx) {
                return Poll::Ready(Some(Ok(Err(admitted))));
            }
            listener.poll_accept(cx).map(|session| Some(session.map(Ok)))
        });
        let Some(next) = next.await else { break };
        let admitted = match next? {
            Err(admitted) => Some(admitted),
            Ok(session) => admission.admit(session),
        };
        let Some((session, slot)) = admitted else { continue };
        tasks.spawn("gateway session", serve_session(service.clone(), session, slot));
    }
    drop((listener, admission));
    tasks.idle().await;
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
    let activity = Rc::new(Activity { active, since, under_way, slot_handle, share, memory, peer });
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
                // The last responses may still be in flight.
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
    tasks.idle().await;
    closing::close(world, &session).await;
    drop(slot);
}

/// Marks a stream as being served until it is dropped.
struct Active<W: World>(Rc<Activity>, W);

impl<W: World> Drop for Active<W> {
    fn drop(&mut self) {
        self.0.active.set(self.0.active.get() - 1);
        self.0.since.set(self.1.now());
    }
}

/// Marks a request as in progress, with the next step being the gateway's, until it is dropped.
struct UnderWay(Rc<Activity>);

impl UnderWay {
    fn begin(activity: &Rc<Activity>) -> Self {
        activity.under_way.set(activity.under_way.get() + 1);
        activity.slot_handle.set_busy();
        activity.slot_handle.begin_server_turn();
        Self(activity.clone())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.slot_handle.end_server_turn();
        self.0.under_way.set(self.0.under_way.get() - 1);
        if self.0.under_way.get() == 0 {
            self.0.slot_handle.set_waiting();
        }
    }
}

async fn serve_stream<W: World, U: Upstream, N: Session>(
    service: Rc<Service<W, U>>,
    session: N,
    stream: N::Stream,
    activity: Rc<Activity>,
    // Held until no data is left on the stream.
    _exchange: ExchangePermit,
) {
    let active = Active(activity.clone(), service.world.clone());
    let number = stream.number();
    let conn = Conn::metered(stream, activity.slot_handle.clone(), activity.memory.clone());
    let stop = service.options.stop.wait();
    let connection = service.options.half_close;
    let after = loop {
        match next_request(&service, &conn, &stop).await {
            Next::Request(mut request, _held) => {
                let under_way = UnderWay::begin(&activity);
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
                    || request.says(head::TUNNEL_FRAMING, "chunked");
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
                if after != After::Reuse {
                    break after;
                }
                // An idle stream is returned to the session, where it costs nothing.
                if !connection && conn.is_clean() {
                    return;
                }
            }
            Next::Refused(refusal) => {
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
                let told = own_answer(&refusal, true, false, &service.date);
                let sent = service.world.timeout(CLOSING, conn.write_all(&told)).await;
                break if sent.is_some_and(|sent| sent.is_ok()) { After::Part } else { After::Tear(false) };
            }
            Next::Ended => break After::Close,
            Next::Lost(cancelled) => break After::Tear(cancelled),
        }
    };
    end(&service, session, conn, after).await;
    drop(active);
}

/// Ends the client's stream or its connection.
async fn end<W: World, U, N: Session>(
    service: &Service<W, U>,
    session: N,
    conn: Conn<N::Stream>,
    after: After,
) {
    let connection = service.options.half_close;
    let after = match after {
        After::Cut => {
            service.world.timeout(LINGER, delivered(&service.world, &conn)).await;
            After::Tear(false)
        }
        after => after,
    };
    match after {
        After::Reuse | After::Tear(true) => {}
        After::Close | After::Part if connection => {
            conn.finish();
            // Data that the client has sent meanwhile is read: closing with unread data would send a reset, which could
            // destroy the response.
            service.world.timeout(LINGER, conn.discard(MAX_DISCARDED)).await;
            session.close();
        }
        After::Tear(_) if connection => session.abort(),
        // The next data on the stream is a new request.
        After::Close if conn.is_clean() => {}
        After::Close | After::Part | After::Tear(_) | After::Cut => {
            // On a stream only a reset separates old data from new. The response is sent first.
            if after != After::Tear(false) {
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

/// The result of waiting for a request.
enum Next {
    /// A request, and the memory that it takes of its session's budget.
    Request(Request, Option<HeldBytes>),
    /// The stream ended, or no request began in time.
    Ended,
    Refused(Refusal),
    /// The client has gone; `true`: it has cancelled.
    Lost(bool),
}

async fn next_request<W: World, U, T: Stream>(
    service: &Service<W, U>,
    conn: &Conn<T>,
    stop: &Waiting,
) -> Next {
    let options = &service.options;
    let began = {
        let mut begins = pin!(conn.begins());
        let first = poll_fn(|cx| match begins.as_mut().poll(cx) {
            Poll::Ready(began) => Poll::Ready(Some(began)),
            Poll::Pending => stop.poll(cx).map(|()| None),
        });
        service.world.timeout(options.idle, first).await.flatten()
    };
    match began {
        None | Some(Ok(false)) => return Next::Ended,
        Some(Err(reason)) => return Next::Lost(reason == CloseReason::Cancelled),
        Some(Ok(true)) => {}
    }
    match service.world.timeout(options.head_timeout, conn.head(options.max_head)).await {
        None => Next::Refused(Refusal::new(408, "the request did not arrive in time")),
        Some(Ok(head)) => match Request::parse(&head, options.secure) {
            Ok(request) => {
                let bytes = request.bytes().saturating_sub(HEAD_BYTES);
                match conn.fits(bytes) {
                    true => Next::Request(request, conn.holding(bytes)),
                    false => Next::Refused(Refusal::new(503, NO_MEMORY)),
                }
            }
            Err(refusal) => Next::Refused(refusal),
        },
        Some(Err(NoHead::Ended)) => Next::Ended,
        Some(Err(NoHead::Refused(refusal))) => Next::Refused(refusal),
        Some(Err(NoHead::Lost(reason))) => Next::Lost(reason == CloseReason::Cancelled),
    }
}

/// A session may hold this many times the number of exchanges still available.
const TIMES_LEFT: usize = 8;
/// The same for all sessions of a client. It exceeds [`TIMES_LEFT`], so that clients behind one address do not lock each
/// other out.
const TIMES_LEFT_OF_ALL: usize = 31;
/// The interval between checks whether the client has acknowledged the written data.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// How long a refused client may continue to send.
const LINGER: Duration = Duration::from_secs(2);
/// The most bytes of a client that are read and discarded before its stream ends.
const MAX_DISCARDED: usize = 256 * 1024;
