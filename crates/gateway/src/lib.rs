//! HTTP between TCP and SCTP, in either direction.
//!
//! A gateway takes requests from a listener of one transport and carries them on
//! by streams of another: as a forward proxy (any origin that is allowed, and
//! tunnels by CONNECT), or as a reverse proxy for one origin. Two of them, back to
//! back, carry TCP clients over SCTP to TCP servers: on the association each
//! exchange and each tunnel has a stream of its own.
//!
//! Bytes are carried as they come; what one side does not take, the other does
//! not read, so a large body or a client that stops costs no memory. Every wait
//! ends: for a head after [`Options::head_timeout`], for anything to move after
//! [`Options::idle`].
//!
//! - `target`, `head`: HTTP/1.1, read strictly and written anew; `forwarded`: what an origin is told of the client
//! - [`allow`]: who may be reached
//! - `conn`: streams, and pumps between them
//! - `origins`, `lookups`, `turns`, `associations`: how the other side is reached
//! - `exchange`, `tunnel`: what goes on between the two

pub mod allow;
mod associations;
mod conn;
mod exchange;
mod forwarded;
mod head;
mod lookups;
mod origins;
mod target;
mod tunnel;
mod turns;

pub use allow::Network;
pub use associations::{Associations, Peer};
pub use origins::Origins;

use anabranch_http::authority::Authority;
use anabranch_http::closing::{self, CLOSING, Uptake, begun_anew};
use anabranch_http::room::{Begun, Client, Entrance, Hold, Memory, Room, Seat, Share, Spot};
use anabranch_http::serve::{Access, Log, Stop, Waiting};
use anabranch_http::upstream::Upstream;
use anabranch_base::Budget;
use anabranch_base::time::{Duration, Instant};
use anabranch_transport::{CloseReason, Listener, Session, Stream};
use anabranch_world::{Tasks, Timer, World};
use conn::{Conn, HEAD_BYTES, NO_MEMORY, NoHead, Scratch};
use exchange::{After, own_answer, own_body};
use head::{Refusal, Request};
use http::Version;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, ready};

/// Where requests go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Route {
    /// Where they say: a forward proxy.
    Any,
    /// To this origin: a reverse proxy.
    Origin(Authority),
}

/// How a gateway behaves to those that come by one listener.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where requests go.
    pub route: Route,
    /// Proxies before a reverse gateway: what they tell of their clients is believed, and added to.
    pub trusted_proxies: Vec<Network>,
    /// The listener's transport tells where a direction ends: TCP does, SCTP does not.
    pub half_close: bool,
    /// What the gateway calls itself in Via; one that comes by here again goes round in circles.
    pub name: String,
    /// An exchange, a tunnel or a session on which nothing moves for so long ends.
    pub idle: Duration,
    /// A request's head is complete after so long.
    pub head_timeout: Duration,
    /// The largest request head, bytes; a larger one is answered with 431.
    pub max_head: usize,
    /// Sessions at a time, of all servers that have a clone of it. For one more that session ends that has waited longest
    /// for a request, or for the rest of its head; where all have requests under way, that whose client has taken and
    /// sent next to nothing for longest, and for 5 s at least. While there is none it is turned away.
    pub sessions: Room,
    /// Exchanges and tunnels at a time, of all listeners that have a clone of it; more are answered with 503. One session
    /// has at most eight times what it leaves, and all of a client (an address, of IPv6 a /64) 31 times what they leave.
    /// Where next to nothing is left, one that its client has held up for 5 s ends for each that was turned away.
    pub room: Room,
    /// What all sessions may hold together of heads and bodies, beside the transport; it may be shared with that. Requests
    /// wait in the transport where there is no memory for them.
    pub memory: Option<Budget>,
    /// Is told of every exchange when it is over.
    pub log: Option<Log>,
    /// When stopped, nothing more is taken in, and what is in flight is finished.
    pub stop: Stop,
}

/// What all sessions of a listener share.
struct Service<W, U> {
    world: W,
    upstream: Rc<U>,
    options: Options,
    scratch: Scratch,
    /// What each client has of the exchanges there can be.
    clients: RefCell<BTreeMap<Client, Rc<Share>>>,
}

impl<W, U> Service<W, U> {
    /// A session's share of its client's.
    fn share(&self, peer: Option<SocketAddr>) -> Rc<Share> {
        let room = &self.options.room;
        let mut clients = self.clients.borrow_mut();
        clients.retain(|_, share| Rc::strong_count(share) > 1);
        let client = clients.entry(Client::at(peer.map(|peer| peer.ip())));
        let client = client.or_insert_with(|| Share::new(room.clone(), TIMES_LEFT_OF_ALL));
        Share::within(client.clone(), TIMES_LEFT)
    }
}

/// What the streams of a session tell it.
#[derive(Debug)]
struct Activity {
    /// Streams that are being served.
    active: Cell<u32>,
    /// When the last of them ended.
    since: Cell<Instant>,
    /// Requests under way, and where that counts.
    under_way: Cell<u32>,
    spot: Spot,
    /// Of the exchanges there can be.
    share: Rc<Share>,
    /// Its part of the memory that all sessions share.
    memory: Rc<Memory>,
    peer: Option<SocketAddr>,
}

/// Carries what comes by `listener` on by `upstream`, until the listener fails
/// or [`Options::stop`] says so. Dropping the future drops all sessions.
///
/// # Errors
/// Why the listener failed.
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
        options,
        scratch: conn::scratch(),
        clients: RefCell::default(),
    });
    let tasks = Tasks::new(world);
    let mut entrance = Entrance::new(&service.world, service.options.sessions.clone());
    let stop = service.options.stop.wait();
    loop {
        let next = poll_fn(|cx| {
            if stop.poll(cx).is_ready() {
                return Poll::Ready(None);
            }
            if let Poll::Ready(admitted) = entrance.poll(cx) {
                return Poll::Ready(Some(Ok(Err(admitted))));
            }
            listener.poll_accept(cx).map(|session| Some(session.map(Ok)))
        });
        let Some(next) = next.await else { break };
        let admitted = match next? {
            Err(admitted) => Some(admitted),
            Ok(session) => entrance.admit(session),
        };
        let Some((session, seat)) = admitted else { continue };
        tasks.spawn("gateway session", serve_session(service.clone(), session, seat));
    }
    drop((listener, entrance));
    tasks.idle().await;
    Ok(())
}

async fn serve_session<W: World, U: Upstream, N: Session>(
    service: Rc<Service<W, U>>,
    session: N,
    seat: Seat<N>,
) {
    let world = &service.world;
    let tasks = Tasks::new(world.clone());
    let peer = session.peer();
    let share = service.share(peer);
    let (active, since) = (Cell::new(0), Cell::new(world.now()));
    let (spot, under_way) = (seat.spot(), Cell::new(0));
    let memory = Memory::new(service.options.memory.as_ref());
    let activity = Rc::new(Activity { active, since, under_way, spot, share, memory, peer });
    let memory = activity.memory.clone();
    let stop = service.options.stop.wait();
    let idle = service.options.idle;
    let (mut timer, mut uptake) = (world.timer(), Uptake::default());
    timer.set(Some(world.now() + idle));
    loop {
        let next = poll_fn(|cx| {
            if stop.poll(cx).is_ready() {
                return Poll::Ready(None);
            }
            while timer.poll(cx).is_ready() {
                let (now, quiet) = (world.now(), activity.active.get() == 0);
                // The last answers may still be on their way.
                if uptake.goes_on(&session) {
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
    drop(seat);
}

/// A stream is being served, as long as this lives.
struct Active<W: World>(Rc<Activity>, W);

impl<W: World> Drop for Active<W> {
    fn drop(&mut self) {
        self.0.active.set(self.0.active.get() - 1);
        self.0.since.set(self.1.now());
    }
}

/// The next step of an exchange is the client's, as long as this says so.
struct Waited<'a> {
    activity: &'a Activity,
    says: bool,
}

impl Waited<'_> {
    fn set(&mut self, waited: bool) {
        match (std::mem::replace(&mut self.says, waited), waited) {
            (false, true) => self.activity.spot.owes_no_more(),
            (true, false) => self.activity.spot.owes(),
            _ => {}
        }
    }
}

impl Drop for Waited<'_> {
    fn drop(&mut self) {
        self.set(false);
    }
}

/// A request is under way, as long as this lives: the next step is ours.
struct UnderWay(Rc<Activity>);

impl UnderWay {
    fn begin(activity: &Rc<Activity>) -> Self {
        activity.under_way.set(activity.under_way.get() + 1);
        activity.spot.busy();
        activity.spot.owes();
        Self(activity.clone())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.spot.owes_no_more();
        self.0.under_way.set(self.0.under_way.get() - 1);
        if self.0.under_way.get() == 0 {
            self.0.spot.waits();
        }
    }
}

async fn serve_stream<W: World, U: Upstream, N: Session>(
    service: Rc<Service<W, U>>,
    session: N,
    stream: N::Stream,
    activity: Rc<Activity>,
    // Until there is nothing on the stream any more.
    _exchange: Begun,
) {
    let active = Active(activity.clone(), service.world.clone());
    let number = stream.number();
    let conn = Conn::metered(stream, activity.spot.clone(), activity.memory.clone());
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
                if after != After::Again {
                    break after;
                }
                // A stream without anything on it waits in the session, where it costs nothing.
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
                let told = own_answer(&refusal, true, false);
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

/// Ends the client's stream, or its connection.
async fn end<W: World, U, N: Session>(
    service: &Service<W, U>,
    session: N,
    conn: Conn<N::Stream>,
    after: After,
) {
    let connection = service.options.half_close;
    match after {
        After::Again | After::Tear(true) => {}
        After::Close | After::Part if connection => {
            conn.finish();
            // What the client has sent meanwhile is taken in: a reset would take the answer from it.
            service.world.timeout(LINGER, conn.discard(MOST_DISCARDED)).await;
            session.close();
        }
        After::Tear(_) if connection => session.abort(),
        // Whatever comes next on the stream is a request.
        After::Close if conn.is_clean() => {}
        After::Close | After::Part | After::Tear(_) => {
            // On a stream nothing but a reset parts what was from what comes; the answer goes out first.
            if after != After::Tear(false) {
                service.world.timeout(LINGER, conn.discard(MOST_DISCARDED)).await;
            }
            let mut stream = conn.into_stream();
            if !stream.reset() {
                return session.abort();
            }
            if !begun_anew(&service.world, &mut stream, CLOSING).await {
                session.abort();
            }
        }
    }
}

/// What came where a request was expected.
enum Next {
    /// One, and what it takes of its session's memory.
    Request(Request, Option<Hold>),
    /// Nothing, or not in time to begin one.
    Ended,
    Refused(Refusal),
    /// The client is gone; `true`: it has cancelled.
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
        None => Next::Refused(Refusal::new(408, "the request did not become complete")),
        Some(Ok(head)) => match Request::parse(&head) {
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

/// A session may have as often as many exchanges as are left.
const TIMES_LEFT: usize = 8;
/// And all of a client's together: more than one of them, so that who is behind one address with others is not left out.
const TIMES_LEFT_OF_ALL: usize = 31;
/// How long a client that was told to go may go on sending.
const LINGER: Duration = Duration::from_secs(2);
/// And how much.
const MOST_DISCARDED: usize = 256 * 1024;
