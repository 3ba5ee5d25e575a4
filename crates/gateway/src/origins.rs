//! Connections to origins, each with one stream. The program that runs the gateway decides the transport of each origin
//! ([`Dial`]). A connection serves one exchange at a time, and is kept for later exchanges if the origin allows that.

use super::allow::Rules;
use super::fair_queue::{ConnectionQueue, Turn};
use super::lookups::Lookups;
use anabranch_base::time::{Duration, Instant};
use anabranch_http::authority::Origin;
use anabranch_http::upstream::{
    FirstReadCallback, Lease, ReachError, StreamOutcome, Upstream, connect_any, is_idle,
};
use anabranch_transport::{Connector, Session};
use anabranch_world::names::NameResolver;
use anabranch_world::{Detach, World};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::rc::{Rc, Weak};

/// Connects to origins.
pub struct Origins<W: World + NameResolver, D: Dial> {
    pool: Rc<Pool<W, D>>,
    _sweeper: W::Task<()>,
}

/// Opens connections to origins. The session of each connection has one stream.
pub trait Dial: 'static {
    /// The type of the connectors.
    type Connector: Connector;

    /// Checks whether the origin `to` can be authenticated, given its scheme and the trusted certificates. Called
    /// before the origin's name is looked up.
    ///
    /// # Errors
    /// [`ReachError::NoTrust`] if such origins cannot be authenticated.
    fn check(&self, to: &Origin) -> Result<(), ReachError>;

    /// Returns a connector to the addresses of the origin `to`. The connector treats each address as a server.
    ///
    /// # Errors
    /// [`ReachError`] if the origin cannot be authenticated.
    fn connector(&self, to: &Origin, addresses: Vec<SocketAddr>) -> Result<Self::Connector, ReachError>;
}

/// The type of the connections.
type Connection<D> = <<D as Dial>::Connector as Connector>::Session;

/// The type of the streams of the connections.
type ConnectionStream<D> = <Connection<D> as Session>::Stream;

/// An idle connection, and the time at which it became idle.
type IdleConnection<D> = (Connection<D>, Instant);

struct Pool<W: World + NameResolver, D: Dial> {
    world: W,
    dial: D,
    /// The origin behind a reverse gateway. It is always allowed. All other targets are subject to `rules`.
    configured: Option<Origin>,
    rules: Rules,
    /// The addresses at which this gateway accepts TCP connections.
    listening: RefCell<Vec<SocketAddr>>,
    lookups: Rc<Lookups<W>>,
    fair_queue: Rc<ConnectionQueue>,
    timeout: Duration,
    /// The idle connections of each origin. The connection that has been idle longest is first.
    idle: RefCell<BTreeMap<Origin, Vec<IdleConnection<D>>>>,
}

impl<W: World + NameResolver, D: Dial> Origins<W, D> {
    /// Creates a pool of connections to `configured`, and to the targets that `rules` allow. A target that does not
    /// answer within `timeout` is given up. `dial` opens the connections.
    #[must_use]
    pub fn new(world: &W, configured: Option<Origin>, rules: Rules, timeout: Duration, dial: D) -> Self {
        let (lookups, fair_queue, idle) = (Lookups::new(world), Rc::default(), RefCell::default());
        let world = world.clone();
        let pool = Pool {
            world: world.clone(),
            dial,
            configured,
            rules,
            listening: RefCell::default(),
            lookups,
            fair_queue,
            timeout,
            idle,
        };
        let pool = Rc::new(pool);
        let swept = Rc::downgrade(&pool);
        let sweeper = world.spawn("gateway sweeper", sweep(world.clone(), swept));
        Self { pool, _sweeper: sweeper }
    }

    /// Refuses connections to the addresses at which this gateway itself listens. A request could otherwise be tunneled
    /// through the gateway to itself again and again. Each pass through the gateway would use new connections, and no
    /// `Via` field would reveal the loop.
    pub fn never_reach(&self, listening: &[SocketAddr]) {
        self.pool.listening.borrow_mut().extend_from_slice(listening);
    }
}

impl<W: World + NameResolver, D: Dial> fmt::Debug for Origins<W, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origins").field("configured", &self.pool.configured).finish_non_exhaustive()
    }
}

/// Closes the connections that have been idle for too long.
async fn sweep<W: World + NameResolver, D: Dial>(world: W, pool: Weak<Pool<W, D>>) {
    loop {
        world.sleep_until(world.now() + KEPT_FOR / 4).await;
        let Some(pool) = pool.upgrade() else { return };
        let now = world.now();
        pool.idle.borrow_mut().retain(|_, sessions| {
            sessions.retain(|(_, since)| *since + KEPT_FOR > now);
            !sessions.is_empty()
        });
    }
}

impl<W: World + NameResolver, D: Dial> Pool<W, D> {
    /// Returns an idle connection to the origin `to` that is still open, and on which no data has arrived.
    fn take(&self, origin: &Origin) -> Option<(Connection<D>, ConnectionStream<D>)> {
        let mut idle = self.idle.borrow_mut();
        let sessions = idle.get_mut(origin)?;
        let mut found = None;
        while let Some((session, _)) = sessions.pop() {
            let Ok(mut stream) = session.open(0) else { continue };
            if is_idle(&mut stream) {
                found = Some((session, stream));
                break;
            }
        }
        if sessions.is_empty() {
            idle.remove(origin);
        }
        found
    }

    /// Removes the addresses at which this gateway itself listens. `own` are the addresses of its host.
    fn remove_own_addresses(&self, addresses: &mut Vec<SocketAddr>, own: &[IpAddr]) {
        let listening = self.listening.borrow();
        addresses.retain(|&address| {
            !listening.iter().any(|&listen_address| leads_to(address, listen_address, own))
        });
    }

    fn keep(&self, origin: Origin, session: Connection<D>) {
        let mut idle = self.idle.borrow_mut();
        if idle.values().map(Vec::len).sum::<usize>() < MAX_KEPT {
            idle.entry(origin).or_default().push((session, self.world.now()));
        }
    }
}

fn lend<W: World + NameResolver, D: Dial>(
    pool: &Rc<Pool<W, D>>,
    origin: &Origin,
    session: Connection<D>,
    stream: ConnectionStream<D>,
    reused: bool,
) -> Lease<ConnectionStream<D>> {
    let (pool, origin, connection) = (pool.clone(), origin.clone(), session.id());
    let give_back = move |stream: ConnectionStream<D>, how: StreamOutcome, _| {
        drop(stream);
        match how {
            StreamOutcome::Reusable => pool.keep(origin, session),
            StreamOutcome::Over => session.close(),
            StreamOutcome::Torn | StreamOutcome::Cancelled => session.abort(),
        }
    };
    Lease::new(stream, connection, reused, None, Box::new(give_back))
}

/// Returns a callback that ends `turn`, the turn of a new connection. The callback is called when the origin first
/// sends data. If the origin sends no data, the turn ends after [`NEW_FOR`]: by then the origin has accepted the
/// connection or will never accept it.
fn end_turn_on_first_data<W: World>(world: &W, turn: Turn) -> FirstReadCallback {
    let turn = Rc::new(Cell::new(Some(turn)));
    let (late, clock) = (Rc::downgrade(&turn), world.clone());
    let ends = async move {
        clock.sleep_until(clock.now() + NEW_FOR).await;
        if let Some(turn) = late.upgrade() {
            drop(turn.take());
        }
    };
    world.spawn("gateway new connection", ends).detach();
    Box::new(move || drop(turn.take()))
}

impl<W: World + NameResolver, D: Dial> Upstream for Origins<W, D> {
    type Stream = ConnectionStream<D>;

    fn half_close(&self) -> bool {
        true
    }

    fn is_gateway(&self) -> bool {
        false
    }

    async fn reach(
        &self,
        to: &Origin,
        fresh: bool,
        client: Option<IpAddr>,
    ) -> Result<Lease<ConnectionStream<D>>, ReachError> {
        let pool = &self.pool;
        let (authority, configured) = (&to.authority, pool.configured.as_ref() == Some(to));
        if !configured && !pool.rules.may_allow(&authority.host, authority.port) {
            return Err(ReachError::Forbidden);
        }
        if let Some((session, stream)) = pool.take(to).filter(|_| !fresh) {
            return Ok(lend(pool, to, session, stream, true));
        }
        pool.dial.check(to)?;
        let found = pool.world.timeout(pool.timeout, pool.lookups.look_up(authority, client)).await;
        let mut addresses = found.ok_or(ReachError::Timeout)?;
        if addresses.is_empty() {
            return Err(ReachError::Unresolved);
        }
        let own = pool.world.addresses();
        addresses.retain(|&address| configured || pool.rules.allow(&authority.host, address, &own));
        if addresses.is_empty() {
            return Err(ReachError::Forbidden);
        }
        pool.remove_own_addresses(&mut addresses, &own);
        if addresses.is_empty() {
            return Err(ReachError::Loop);
        }
        let turn = pool.world.timeout(pool.timeout, pool.fair_queue.next(authority, client)).await;
        let turn = turn.ok_or(ReachError::Timeout)?;
        let count = addresses.len();
        let connector = pool.dial.connector(to, addresses)?;
        let session = connect_any(&pool.world, &connector, count, pool.timeout).await?;
        let stream = session.open(0)?;
        Ok(lend(pool, to, session, stream, false)
            .with_first_read_callback(end_turn_on_first_data(&pool.world, turn)))
    }
}

/// Returns whether a connection to `address` would reach a listener at `listen_address`. `own` are the addresses of the
/// host.
pub(super) fn leads_to(address: SocketAddr, listen_address: SocketAddr, own: &[IpAddr]) -> bool {
    let (to, at) = (address.ip().to_canonical(), listen_address.ip().to_canonical());
    // A connection to the unspecified address reaches this host.
    let is_local = to.is_unspecified() || to.is_loopback() || own.contains(&to);
    let same = to == at || (to.is_unspecified() && at.is_loopback()) || (at.is_unspecified() && is_local);
    address.port() == listen_address.port() && same
}

/// The time for which an idle connection is kept.
const KEPT_FOR: Duration = Duration::from_secs(20);
/// The time for which a connection counts as new if the origin sends nothing.
const NEW_FOR: Duration = Duration::from_secs(1);
/// The maximum number of idle connections to all origins together.
const MAX_KEPT: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_listeners_are_recognized_by_address_and_port() {
        let own = ["192.0.2.1".parse().expect("an address"), "2001:db8::1".parse().expect("an address")];
        let leads = |to: &str, ours: &str| {
            leads_to(to.parse().expect("an address"), ours.parse().expect("an address"), &own)
        };
        for to in
            ["127.0.0.1:80", "127.1.2.3:80", "0.0.0.0:80", "192.0.2.1:80", "[::1]:80", "[2001:db8::1]:80"]
        {
            assert!(leads(to, "0.0.0.0:80") && leads(to, "[::]:80"), "{to}");
        }
        assert!(leads("127.0.0.1:80", "127.0.0.1:80") && leads("0.0.0.0:80", "127.0.0.1:80"));
        assert!(leads("[::ffff:127.0.0.1]:80", "127.0.0.1:80") && leads("[::]:80", "[::1]:80"));
        for (to, ours) in [
            ("127.0.0.1:81", "127.0.0.1:80"),
            ("127.0.0.2:80", "127.0.0.1:80"),
            ("192.0.2.2:80", "0.0.0.0:80"),
            ("192.0.2.1:80", "127.0.0.1:80"),
        ] {
            assert!(!leads(to, ours), "{to} {ours}");
        }
    }
}
