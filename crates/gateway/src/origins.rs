//! Connections to origins over the host's TCP, with TLS for `https`. A connection serves one exchange at a time, and is kept
//! for later exchanges if the origin allows that.

use super::allow::Rules;
use super::lookups::Lookups;
use super::turns::{Turn, Turns};
use anabranch_base::time::{Duration, Instant};
use anabranch_http::authority::Origin;
use anabranch_http::upstream::{Begins, Ending, Lease, ReachError, Upstream, connect_any, is_idle};
use anabranch_tls::{Client, TlsConnector};
use anabranch_transport::kernel::KernelConnector;
use anabranch_transport::{AnySession, AnyStream, CloseReason, Session};
use anabranch_world::Detach;
use anabranch_world::kernel::KernelTcp;
use anabranch_world::names::Names;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::rc::{Rc, Weak};

/// Connects to origins over TCP, and to `https` origins over TLS.
pub struct Origins<W: KernelTcp + Names> {
    pool: Rc<Pool<W>>,
    _sweeper: W::Task<()>,
}

/// A function that creates the TLS client, or returns the reason why no server can be authenticated.
pub type MakeClient = Box<dyn Fn() -> Result<Client, String>>;

/// An idle connection, and the time since when it has been idle.
type Kept = (AnySession, Instant);

struct Pool<W: KernelTcp + Names> {
    world: W,
    /// The origin behind a reverse gateway, which is always allowed. All other targets are subject to `rules`.
    configured: Option<Origin>,
    rules: Rules,
    /// The addresses at which this gateway accepts TCP connections.
    listening: RefCell<Vec<SocketAddr>>,
    lookups: Rc<Lookups<W>>,
    turns: Rc<Turns>,
    timeout: Duration,
    /// The TLS client. It is created when it is first needed, because loading the certificates of authorities takes time.
    client: OnceCell<Result<Client, String>>,
    begin_tls: MakeClient,
    /// The idle connections of each origin, the longest idle first.
    kept: RefCell<BTreeMap<Origin, Vec<Kept>>>,
}

impl<W: KernelTcp + Names> Origins<W> {
    /// Creates a pool of connections to `configured`, and to the targets that `rules` allow. A target that does not answer
    /// within `timeout` is given up. `begin_tls` creates the TLS client for `https` origins.
    #[must_use]
    pub fn new(
        world: &W,
        configured: Option<Origin>,
        rules: Rules,
        timeout: Duration,
        begin_tls: MakeClient,
    ) -> Self {
        let (lookups, turns, kept) = (Lookups::new(world), Rc::default(), RefCell::default());
        let (world, client) = (world.clone(), OnceCell::new());
        let pool = Pool {
            world: world.clone(),
            configured,
            rules,
            listening: RefCell::default(),
            lookups,
            turns,
            timeout,
            client,
            begin_tls,
            kept,
        };
        let pool = Rc::new(pool);
        let swept = Rc::downgrade(&pool);
        let sweeper = world.spawn("gateway sweeper", sweep(world.clone(), swept));
        Self { pool, _sweeper: sweeper }
    }

    /// Refuses connections to the addresses at which this gateway itself listens. If a request were tunneled repeatedly
    /// through the gateway to itself, each pass would use new connections, and no `Via` field would reveal the loop.
    pub fn never_reach(&self, listening: &[SocketAddr]) {
        self.pool.listening.borrow_mut().extend_from_slice(listening);
    }
}

impl<W: KernelTcp + Names> fmt::Debug for Origins<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origins").field("configured", &self.pool.configured).finish_non_exhaustive()
    }
}

/// Closes the connections that have been idle for too long.
async fn sweep<W: KernelTcp + Names>(world: W, pool: Weak<Pool<W>>) {
    loop {
        world.sleep_until(world.now() + KEPT_FOR / 4).await;
        let Some(pool) = pool.upgrade() else { return };
        let now = world.now();
        pool.kept.borrow_mut().retain(|_, sessions| {
            sessions.retain(|(_, since)| *since + KEPT_FOR > now);
            !sessions.is_empty()
        });
    }
}

impl<W: KernelTcp + Names> Pool<W> {
    /// Returns an idle connection to `to` that is still open, and on which no data has arrived.
    fn take(&self, to: &Origin) -> Option<(AnySession, AnyStream)> {
        let mut kept = self.kept.borrow_mut();
        let sessions = kept.get_mut(to)?;
        let mut found = None;
        while let Some((session, _)) = sessions.pop() {
            let Ok(mut stream) = session.open(0) else { continue };
            if is_idle(&mut stream) {
                found = Some((session, stream));
                break;
            }
        }
        if sessions.is_empty() {
            kept.remove(to);
        }
        found
    }

    /// Removes the addresses at which this gateway itself listens. `own` are the addresses of its host.
    fn leave_out_itself(&self, addresses: &mut Vec<SocketAddr>, own: &[IpAddr]) {
        let listening = self.listening.borrow();
        addresses.retain(|&address| !listening.iter().any(|&ours| leads_to(address, ours, own)));
    }

    /// Returns the TLS client, and creates it at the first call.
    fn client(&self) -> Result<&Client, String> {
        self.client.get_or_init(|| (self.begin_tls)()).as_ref().map_err(Clone::clone)
    }

    fn keep(&self, to: Origin, session: AnySession) {
        let mut kept = self.kept.borrow_mut();
        if kept.values().map(Vec::len).sum::<usize>() < MAX_KEPT {
            kept.entry(to).or_default().push((session, self.world.now()));
        }
    }
}

fn lend<W: KernelTcp + Names>(
    pool: &Rc<Pool<W>>,
    to: &Origin,
    session: AnySession,
    stream: AnyStream,
    reused: bool,
) -> Lease<AnyStream> {
    let (pool, to, connection) = (pool.clone(), to.clone(), session.id());
    let back = move |stream: AnyStream, how: Ending, _| {
        drop(stream);
        match how {
            Ending::Reusable => pool.keep(to, session),
            Ending::Over => session.close(),
            Ending::Torn | Ending::Cancelled => session.abort(),
        }
    };
    Lease::new(stream, connection, reused, None, Box::new(back))
}

/// Ends the turn of a new connection when the origin first sends data, or after [`NEW_FOR`]. After that time the origin has
/// accepted the connection or will never accept it.
fn begins<W: KernelTcp + Names>(world: &W, turn: Turn) -> Begins {
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

impl<W: KernelTcp + Names> Upstream for Origins<W> {
    type Stream = AnyStream;

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
    ) -> Result<Lease<AnyStream>, ReachError> {
        let pool = &self.pool;
        let (authority, configured) = (&to.authority, pool.configured.as_ref() == Some(to));
        if !configured && !pool.rules.may_allow(&authority.host, authority.port) {
            return Err(ReachError::Forbidden);
        }
        if let Some((session, stream)) = pool.take(to).filter(|_| !fresh) {
            return Ok(lend(pool, to, session, stream, true));
        }
        let tls = if to.secure { Some(pool.client().map_err(ReachError::NoTrust)?) } else { None };
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
        pool.leave_out_itself(&mut addresses, &own);
        if addresses.is_empty() {
            return Err(ReachError::Loop);
        }
        let turn = pool.world.timeout(pool.timeout, pool.turns.next(authority, client)).await;
        let turn = turn.ok_or(ReachError::Timeout)?;
        let count = addresses.len();
        let connector = KernelConnector::new(pool.world.clone(), addresses);
        let session = match tls {
            None => AnySession::new(connect_any(&pool.world, &connector, count, pool.timeout).await?),
            Some(tls) => {
                let names = vec![authority.host.clone(); count];
                let connector = TlsConnector::new(pool.world.clone(), connector, tls.clone(), &names)
                    .map_err(|why| ReachError::Closed(CloseReason::Untrusted(why)))?;
                AnySession::new(connect_any(&pool.world, &connector, count, pool.timeout).await?)
            }
        };
        let stream = session.open(0)?;
        Ok(lend(pool, to, session, stream, false).that_begins(begins(&pool.world, turn)))
    }
}

/// Returns whether a connection to `address` would reach a listener at `ours`. `own` are the addresses of the host.
pub(super) fn leads_to(address: SocketAddr, ours: SocketAddr, own: &[IpAddr]) -> bool {
    let (to, at) = (address.ip().to_canonical(), ours.ip().to_canonical());
    // A connection to the unspecified address reaches this host.
    let here = to.is_unspecified() || to.is_loopback() || own.contains(&to);
    let same = to == at || (to.is_unspecified() && at.is_loopback()) || (at.is_unspecified() && here);
    address.port() == ours.port() && same
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
    fn what_leads_to_the_gateway_itself_is_known_by_address_and_port() {
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
