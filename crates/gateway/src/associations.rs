//! Associations with a peer. Each exchange has its own stream, which is the lowest free one.
//!
//! Streams of an association share its receive window. A stream that is not read blocks the others (see `watch`). Its
//! association gets no further exchanges as long as another association is possible.
//!
//! A stream that ended in the middle of an exchange is reset (RFC 6525) and used again. If the peer does not support that,
//! the association gets no further exchanges and ends with its last one.

use super::allow::Rules;
use anabranch_base::time::Duration;
use anabranch_http::authority::Origin;
use anabranch_http::closing::reset_done;
use anabranch_http::upstream::{Ending, Lease, ReachError, SharedWindow, Upstream, connect_in_turn};
use anabranch_transport::{Connector, Session, Stream};
use anabranch_world::{Detach, Timer, World};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt;
use std::future::poll_fn;
use std::net::IpAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Reaches one peer over a pool of associations.
pub struct Associations<W: World, C: Connector> {
    pool: Rc<Pool<W, C>>,
}

/// The role of the peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Peer {
    /// A gateway that forwards to origins: all, or those that the rules allow.
    Gateway(Option<Rules>),
    /// The origin itself.
    Origin(Origin),
}

struct Pool<W: World, C: Connector> {
    world: W,
    connector: C,
    /// The number of the connector's servers, all of which are the peer.
    servers: usize,
    peer: Peer,
    timeout: Duration,
    list: RefCell<Vec<Rc<Association<C::Session>>>>,
    /// Whether an association is being set up.
    connecting: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
}

struct Association<S> {
    session: S,
    /// Streams that have been returned.
    free: RefCell<BTreeSet<u64>>,
    /// Streams from this number on have never been used.
    unused: Cell<u64>,
    window: Rc<SharedWindow>,
    /// Whether it gets no more exchanges.
    retired: Cell<bool>,
}

impl<S: Session> Association<S> {
    fn has_room(&self) -> bool {
        !self.retired.get() && (!self.free.borrow().is_empty() || self.unused.get() < self.session.streams())
    }

    /// Opens the lowest free stream.
    fn take(&self) -> Option<S::Stream> {
        while self.has_room() {
            let number = self
                .free
                .borrow_mut()
                .pop_first()
                .unwrap_or_else(|| self.unused.replace(self.unused.get() + 1));
            if let Ok(mut stream) = self.session.open(number) {
                // Data without a request would be taken for a response.
                let mut cx = Context::from_waker(Waker::noop());
                match stream.poll_read(&mut cx, &mut [0]) {
                    Poll::Pending => return Some(stream),
                    Poll::Ready(_) => self.retired.set(true),
                }
            }
        }
        None
    }

    fn is_over(&self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        if self.session.poll_closed(&mut cx).is_ready() {
            return true;
        }
        let unused = self.retired.get() && self.window.lent.get() == 0;
        if unused {
            self.session.abort();
        }
        unused
    }
}

impl<W: World, C: Connector> Associations<W, C> {
    /// Reaches `peer`, which each of the `servers` servers of `connector` is. Waits at most `timeout` for a stream.
    #[must_use]
    pub fn new(world: &W, connector: C, servers: usize, peer: Peer, timeout: Duration) -> Self {
        let pool = Pool {
            world: world.clone(),
            connector,
            servers,
            peer,
            timeout,
            list: RefCell::default(),
            connecting: Cell::new(false),
            waiting: RefCell::default(),
        };
        Self { pool: Rc::new(pool) }
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

    /// Takes a stream of an open association; also returns whether the association has been used before.
    fn take(&self) -> Option<Taken<C::Session>> {
        let mut list = self.list.borrow_mut();
        list.retain(|association| !association.is_over());
        let is_blocked = |association: &&Rc<Association<C::Session>>| association.window.blocking.get() > 0;
        let full = list.len() >= MAX_ASSOCIATIONS;
        let good = list.iter().filter(|association| !is_blocked(association));
        // If all are blocked and no other association is possible, a blocked one is better than none.
        let rest = list.iter().filter(|association| full && is_blocked(association));
        good.chain(rest).find_map(|association| {
            let used = association.unused.get() > 0;
            association.take().map(|stream| (association.clone(), stream, used))
        })
    }

    async fn connect(&self) -> Result<(), ReachError> {
        let guard = Connecting::begin(self);
        let session = connect_in_turn(&self.world, &self.connector, self.servers, self.timeout).await;
        let session = session.map_err(|mut whys| whys.pop().unwrap_or(ReachError::Timeout))?;
        let association = Association {
            session,
            free: RefCell::default(),
            unused: Cell::new(0),
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
        window.lent.set(window.lent.get() + 1);
        let pool = self.clone();
        let back = move |mut stream: <C::Session as Session>::Stream, how: Ending, waits: bool| {
            let number = stream.number();
            if how == Ending::Reusable {
                drop(stream);
                return pool.given_back(&association, Some(number));
            }
            if !waits {
                association.retired.set(true);
                drop(stream);
                return pool.given_back(&association, None);
            }
            if how != Ending::Cancelled && !stream.reset() {
                association.retired.set(true);
                pool.given_back(&association, None);
                // Further data on the stream has no reader, and would fill the window that other streams share.
                let discard = async move {
                    let mut buffer = vec![0; 4096];
                    while let Ok(1..) = stream.read(&mut buffer).await {}
                };
                return pool.world.spawn("gateway stream that nobody reads", discard).detach();
            }
            let world = pool.world.clone();
            let reset = async move {
                let done = if how == Ending::Cancelled {
                    // The peer has requested the reset and is about to perform it.
                    pool.world.sleep_until(pool.world.now() + SETTLING).await;
                    true
                } else {
                    reset_done(&pool.world, &mut stream, RESETTING).await
                };
                association.retired.set(association.retired.get() || !done);
                drop(stream);
                pool.given_back(&association, Some(number));
            };
            world.spawn("gateway stream reset", reset).detach();
        };
        Lease::new(stream, connection, reused, Some(window), Box::new(back))
    }

    fn given_back(&self, association: &Association<C::Session>, number: Option<u64>) {
        association.free.borrow_mut().extend(number);
        association.window.lent.set(association.window.lent.get() - 1);
        if association.retired.get() && association.window.lent.get() == 0 {
            association.session.abort();
        }
        self.changed();
    }
}

/// A stream, its association, and whether the association has been used before.
type Taken<S> = (Rc<Association<S>>, <S as Session>::Stream, bool);

/// Marks that an association is being set up, until dropped.
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
        if fresh {
            // The associations in use have failed, or may have.
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

/// The most simultaneous associations with the peer.
const MAX_ASSOCIATIONS: usize = 16;
/// How long the reset of a stream may take.
const RESETTING: Duration = Duration::from_secs(10);
/// How long a stream stays unused while the peer resets it.
const SETTLING: Duration = Duration::from_secs(1);
