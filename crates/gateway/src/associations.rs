//! A pool of associations with one peer. Each exchange uses a stream of its own: the lowest stream that is free.
//!
//! The streams of an association share its receive window, so a stream that is not read blocks the other streams (see
//! `watch`). An association with such a stream gets no new exchanges as long as another association can be used or set
//! up.
//!
//! A stream on which an exchange ended early is reset (RFC 6525). After the reset it carries another exchange. If the
//! peer does not support resets, the association gets no new exchanges, and ends after its last exchange.

use super::allow::Rules;
use super::origins::leads_to;
use anabranch_base::time::Duration;
use anabranch_http::authority::Origin;
use anabranch_http::closing::reset_done;
use anabranch_http::upstream::{
    Lease, ReachError, SharedWindow, StreamOutcome, Upstream, connect_in_turn, is_idle,
};
use anabranch_transport::{Connector, Session, Stream};
use anabranch_world::{Detach, Timer, World};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Forwards requests to one peer over a pool of associations.
pub struct Associations<W: World, C: Connector> {
    pool: Rc<Pool<W, C>>,
}

/// What the peer of a pool of associations is: another gateway, or an origin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Peer {
    /// The peer is another gateway. If there are rules, this gateway forwards to the peer only requests for origins
    /// that the rules allow. Otherwise this gateway forwards all requests to the peer.
    Gateway(Option<Rules>),
    /// The peer is this origin itself.
    Origin(Origin),
}

struct Pool<W: World, C: Connector> {
    world: W,
    connector: C,
    /// The number of addresses of the peer, each of which is a separate server for the connector.
    servers: usize,
    peer: Peer,
    /// Whether the peer is this gateway itself.
    is_loop: Cell<bool>,
    timeout: Duration,
    list: RefCell<Vec<Rc<Association<C::Session>>>>,
    /// Whether an association is being set up now.
    connecting: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
}

struct Association<S> {
    session: S,
    /// The streams that have been used and are free again.
    free: RefCell<BTreeSet<u64>>,
    /// The lowest stream number that has never been used.
    next_unused: Cell<u64>,
    window: Rc<SharedWindow>,
    /// Whether the association is retired, which means that it gets no new exchanges.
    retired: Cell<bool>,
}

impl<S: Session> Association<S> {
    fn has_room(&self) -> bool {
        !self.retired.get()
            && (!self.free.borrow().is_empty() || self.next_unused.get() < self.session.streams())
    }

    /// Opens the lowest free stream. Returns `None` if there is no free stream.
    fn take(&self) -> Option<S::Stream> {
        while self.has_room() {
            let number = self
                .free
                .borrow_mut()
                .pop_first()
                .unwrap_or_else(|| self.next_unused.replace(self.next_unused.get() + 1));
            if let Ok(mut stream) = self.session.open(number) {
                // A free stream must have no data. An association with data on a free stream gets no new exchanges.
                if is_idle(&mut stream) {
                    return Some(stream);
                }
                self.retired.set(true);
            }
        }
        None
    }

    fn is_over(&self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        if self.session.poll_closed(&mut cx).is_ready() {
            return true;
        }
        let unused = self.retired.get() && self.window.leased.get() == 0;
        if unused {
            self.session.abort();
        }
        unused
    }
}

impl<W: World, C: Connector> Associations<W, C> {
    /// Creates a pool of associations with `peer`. `connector` can connect to `servers` addresses, which are
    /// all addresses of the peer. A request waits at most `timeout` for a stream.
    #[must_use]
    pub fn new(world: &W, connector: C, servers: usize, peer: Peer, timeout: Duration) -> Self {
        let pool = Pool {
            world: world.clone(),
            connector,
            servers,
            peer,
            is_loop: Cell::new(false),
            timeout,
            list: RefCell::default(),
            connecting: Cell::new(false),
            waiting: RefCell::default(),
        };
        Self { pool: Rc::new(pool) }
    }

    /// Refuses all requests if this gateway itself listens on one of the addresses `peer`. Otherwise each request would
    /// return to this gateway. The `Via` field would reveal the loop only after the request has used an association.
    pub fn never_reach(&self, peer: &[SocketAddr], listening: &[SocketAddr]) {
        let own = self.pool.world.addresses();
        let is_ours =
            |&to: &SocketAddr| listening.iter().any(|&listen_address| leads_to(to, listen_address, &own));
        self.pool.is_loop.set(peer.iter().any(is_ours));
    }

    /// Closes all associations gracefully.
    pub fn close(&self) {
        for association in self.pool.list.borrow().iter() {
            association.session.close();
        }
    }
}

impl<W: World, C: Connector> fmt::Debug for Associations<W, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Associations").field("peer", &self.pool.peer).finish_non_exhaustive()
    }
}

impl<W: World, C: Connector> Pool<W, C> {
    fn changed(&self) {
        for waker in std::mem::take(&mut *self.waiting.borrow_mut()) {
            waker.wake();
        }
    }

    /// Takes a free stream, preferably of an association that is not blocked. Also returns whether the association has
    /// been used before.
    fn take(&self) -> Option<PooledStream<C::Session>> {
        let mut list = self.list.borrow_mut();
        list.retain(|association| !association.is_over());
        let is_blocked = |association: &&Rc<Association<C::Session>>| association.window.blocking.get() > 0;
        let full = list.len() >= MAX_ASSOCIATIONS;
        let good = list.iter().filter(|association| !is_blocked(association));
        // If all associations are blocked and no further association may be set up, uses a blocked association.
        let rest = list.iter().filter(|association| full && is_blocked(association));
        good.chain(rest).find_map(|association| {
            let used = association.next_unused.get() > 0;
            association.take().map(|stream| (association.clone(), stream, used))
        })
    }

    async fn connect(&self) -> Result<(), ReachError> {
        let guard = Connecting::begin(self);
        let session = connect_in_turn(&self.world, &self.connector, self.servers, self.timeout).await;
        let session = session.map_err(|mut errors| errors.pop().unwrap_or(ReachError::Timeout))?;
        let association = Association {
            session,
            free: RefCell::default(),
            next_unused: Cell::new(0),
            window: Rc::default(),
            retired: Cell::new(false),
        };
        self.list.borrow_mut().push(Rc::new(association));
        drop(guard);
        Ok(())
    }

    fn lend(
        self: &Rc<Self>,
        association: Rc<Association<C::Session>>,
        stream: <C::Session as Session>::Stream,
        reused: bool,
    ) -> Lease<<C::Session as Session>::Stream> {
        let (window, connection) = (association.window.clone(), association.session.id());
        window.leased.set(window.leased.get() + 1);
        let pool = self.clone();
        let give_back =
            move |mut stream: <C::Session as Session>::Stream, how: StreamOutcome, waits: bool| {
                let number = stream.number();
                if how == StreamOutcome::Reusable {
                    drop(stream);
                    return pool.release(&association, Some(number));
                }
                if !waits {
                    association.retired.set(true);
                    drop(stream);
                    return pool.release(&association, None);
                }
                if how != StreamOutcome::Cancelled && !stream.reset() {
                    association.retired.set(true);
                    pool.release(&association, None);
                    // Discards further data on the stream, because unread data would fill the receive window that all
                    // streams share.
                    let discard = async move {
                        let mut buffer = vec![0; 4096];
                        while let Ok(1..) = stream.read(&mut buffer).await {}
                    };
                    return pool.world.spawn("gateway stream that nobody reads", discard).detach();
                }
                let world = pool.world.clone();
                let reset = async move {
                    let done = if how == StreamOutcome::Cancelled {
                        // The peer has cancelled the exchange, and its reset of the stream is about to arrive. Wait for
                        // the reset before the stream is used again.
                        pool.world.sleep_until(pool.world.now() + SETTLING).await;
                        true
                    } else {
                        reset_done(&pool.world, &mut stream, RESETTING).await
                    };
                    association.retired.set(association.retired.get() || !done);
                    drop(stream);
                    pool.release(&association, Some(number));
                };
                world.spawn("gateway stream reset", reset).detach();
            };
        Lease::new(stream, connection, reused, Some(window), Box::new(give_back))
    }

    fn release(&self, association: &Association<C::Session>, number: Option<u64>) {
        association.free.borrow_mut().extend(number);
        association.window.leased.set(association.window.leased.get() - 1);
        if association.retired.get() && association.window.leased.get() == 0 {
            association.session.abort();
        }
        self.changed();
    }
}

/// A stream, its association, and whether the association has been used before.
type PooledStream<S> = (Rc<Association<S>>, <S as Session>::Stream, bool);

/// Records that an association is being set up, until this value is dropped.
struct Connecting<'a, W: World, C: Connector>(&'a Pool<W, C>);

impl<'a, W: World, C: Connector> Connecting<'a, W, C> {
    fn begin(pool: &'a Pool<W, C>) -> Self {
        pool.connecting.set(true);
        Self(pool)
    }
}

impl<W: World, C: Connector> Drop for Connecting<'_, W, C> {
    fn drop(&mut self) {
        self.0.connecting.set(false);
        self.0.changed();
    }
}

impl<W: World, C: Connector> Upstream for Associations<W, C> {
    type Stream = <C::Session as Session>::Stream;

    fn half_close(&self) -> bool {
        false
    }

    fn is_gateway(&self) -> bool {
        matches!(self.pool.peer, Peer::Gateway(_))
    }

    async fn reach(
        &self,
        to: &Origin,
        fresh: bool,
        _client: Option<IpAddr>,
    ) -> Result<Lease<Self::Stream>, ReachError> {
        let pool = &self.pool;
        match &pool.peer {
            Peer::Gateway(Some(rules)) if !rules.may_allow(&to.authority.host, to.authority.port) => {
                return Err(ReachError::Forbidden);
            }
            Peer::Origin(origin) if origin != to => return Err(ReachError::Forbidden),
            _ => {}
        }
        if pool.is_loop.get() {
            return Err(ReachError::Loop);
        }
        if fresh {
            // Some associations may have failed meanwhile, so remove those that have ended.
            pool.list.borrow_mut().retain(|association| !association.is_over());
        }
        let mut timer = pool.world.timer();
        let deadline = pool.world.now() + pool.timeout;
        loop {
            if let Some((association, stream, used)) = pool.take() {
                return Ok(pool.lend(association, stream, used));
            }
            if !pool.connecting.get() && pool.list.borrow().len() < MAX_ASSOCIATIONS {
                pool.connect().await?;
                continue;
            }
            timer.set(Some(deadline));
            let mut waited = false;
            poll_fn(|cx| {
                if std::mem::replace(&mut waited, true) {
                    return Poll::Ready(Ok(()));
                }
                pool.waiting.borrow_mut().push(cx.waker().clone());
                timer.poll(cx).map(|()| Err(ReachError::Timeout))
            })
            .await?;
            if pool.world.now() >= deadline {
                return Err(ReachError::Timeout);
            }
        }
    }
}

/// The maximum number of concurrent associations with the peer.
const MAX_ASSOCIATIONS: usize = 16;
/// The time for which the gateway waits until a stream has been reset.
const RESETTING: Duration = Duration::from_secs(10);
/// The time for which the gateway leaves a stream unused after the peer has cancelled its exchange. In this time, the
/// peer's reset of the stream arrives.
const SETTLING: Duration = Duration::from_secs(1);
