//! TCP bound to a world: a connection is a session with one stream, number 0.
//!
//! One [`TcpHost`] is a host's whole TCP: one engine, one socket (IP protocol
//! 6), one drive loop.
//!
//! - `host`: the engine and what waits for it
//! - `session`: the handles an application holds

mod host;
mod session;

pub use session::{TcpSession, TcpStream};

use crate::connector::{ConnectError, Connector, ListenError, Listener};
use crate::drive::drive;
use crate::session::CloseReason;
use anabranch_base::Engine;
use anabranch_base::trace::TraceRecord;
use anabranch_tcp::{Config, Endpoint};
use anabranch_world::{Datagrams, Local, Work, World};
use host::{Connection, Shared};
use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A host's TCP. A clone is the same host. It lives as long as any handle of
/// it or of its sessions.
#[derive(Debug)]
pub struct TcpHost<W: World> {
    inner: Rc<Inner<W>>,
}

struct Inner<W: World> {
    world: W,
    shared: Rc<RefCell<Shared>>,
    /// Runs the drive loop as long as this lives.
    _driver: W::Task<()>,
}

impl<W: World> std::fmt::Debug for Inner<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TcpHost").finish_non_exhaustive()
    }
}

impl<W: World> Clone for TcpHost<W> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<W: World> TcpHost<W> {
    /// Starts TCP on this host, over all of its addresses.
    ///
    /// # Errors
    /// The carrier cannot be had: see [`World::bind`].
    pub async fn new(world: W, config: Config) -> io::Result<Self> {
        let socket = world.bind(Local::Ip { protocol: 6 }).await?;
        let addresses: Vec<_> = socket.local().iter().map(SocketAddr::ip).collect();
        let mut engine = Endpoint::new(config, addresses.clone(), world.rng("tcp"));
        for address in addresses {
            engine.set_mtu(address, socket.mtu(address));
        }
        let shared = Rc::new(RefCell::new(Shared::new(engine)));
        let task = drive(world.clone(), socket, shared.clone());
        let driver = world.spawn("tcp", task);
        Ok(Self { inner: Rc::new(Inner { world, shared, _driver: driver }) })
    }

    /// Begins a connection to `remote`.
    ///
    /// # Errors
    /// [`ConnectError`] when nothing could be begun.
    pub fn connect(&self, remote: SocketAddr) -> Result<TcpSession<W>, ConnectError> {
        let mut shared = self.inner.shared.borrow_mut();
        if let Some(reason) = &shared.failure {
            return Err(ConnectError::Refused(reason.to_string()));
        }
        let id =
            shared.engine.connect(self.inner.world.now(), None, remote).map_err(|error| match error {
                anabranch_tcp::ConnectError::NoAddress(_) => ConnectError::NoRoute(remote.to_string()),
                anabranch_tcp::ConnectError::NoFreePort => ConnectError::NoPort,
                error => ConnectError::Refused(error.to_string()),
            })?;
        let key = shared.engine.trace_key(id).unwrap_or_default();
        shared.connections.insert(id, Connection::new(key));
        shared.bell.ring();
        drop(shared);
        Ok(TcpSession::new(self.inner.clone(), id, key))
    }

    /// Takes in connections that peers begin with `port`; `backlog` is how many
    /// may wait to be taken, 0 for the configured number.
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn listen(&self, port: u16, backlog: u32) -> Result<TcpListener<W>, ListenError> {
        let mut shared = self.inner.shared.borrow_mut();
        shared.engine.listen(port, backlog).map_err(|error| match error {
            anabranch_tcp::ListenError::InUse(_) => ListenError::PortInUse(port),
            error => ListenError::Refused(error.to_string()),
        })?;
        shared.listeners.insert(port, host::Backlog::new(backlog));
        drop(shared);
        Ok(TcpListener { inner: self.inner.clone(), port })
    }

    /// Looks at the engine: statistics, views, configuration.
    pub fn inspect<R>(&self, look: impl FnOnce(&Endpoint) -> R) -> R {
        look(&self.inner.shared.borrow().engine)
    }

    /// Starts or stops keeping a trace.
    pub fn set_tracing(&self, on: bool) {
        self.inner.shared.borrow_mut().engine.set_tracing(on);
    }

    /// Takes the trace kept since the last call.
    #[must_use]
    pub fn take_trace(&self) -> Vec<TraceRecord> {
        self.inner.shared.borrow_mut().engine.take_trace()
    }

    /// Closes all connections in good order and waits until they are gone.
    pub async fn close(&self) {
        let now = self.inner.world.now();
        {
            let mut shared = self.inner.shared.borrow_mut();
            let live: Vec<_> = shared.live().collect();
            for id in live {
                shared.engine.close(now, id);
            }
            shared.bell.ring();
        }
        self.idle().await;
    }

    /// Waits until no connection is alive.
    pub async fn idle(&self) {
        poll_fn(|cx| self.inner.shared.borrow_mut().poll_idle(cx)).await;
    }
}

/// Takes in connections to one port.
#[derive(Debug)]
pub struct TcpListener<W: World> {
    inner: Rc<Inner<W>>,
    port: u16,
}

impl<W: World> Listener for TcpListener<W> {
    type Session = TcpSession<W>;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<TcpSession<W>, CloseReason>> {
        let accepted = self.inner.shared.borrow_mut().poll_accept(self.port, cx);
        accepted.map_ok(|(id, key)| {
            self.inner.world.charge(Work::Connection);
            TcpSession::new(self.inner.clone(), id, key)
        })
    }

    fn port(&self) -> u16 {
        self.port
    }
}

impl<W: World> Drop for TcpListener<W> {
    fn drop(&mut self) {
        self.inner.shared.borrow_mut().close_listener(self.inner.world.now(), self.port);
    }
}

/// Opens connections from one host to given servers.
#[derive(Debug)]
pub struct TcpConnector<W: World> {
    host: TcpHost<W>,
    servers: Rc<[SocketAddr]>,
}

impl<W: World> Clone for TcpConnector<W> {
    fn clone(&self) -> Self {
        Self { host: self.host.clone(), servers: self.servers.clone() }
    }
}

impl<W: World> TcpConnector<W> {
    /// From `host` to `servers`, numbered in this order.
    #[must_use]
    pub fn new(host: TcpHost<W>, servers: Vec<SocketAddr>) -> Self {
        Self { host, servers: servers.into() }
    }
}

impl<W: World> Connector for TcpConnector<W> {
    type Session = TcpSession<W>;

    fn connect(&self, server: usize) -> Result<TcpSession<W>, ConnectError> {
        let remote = self.servers.get(server).ok_or(ConnectError::NoSuchServer(server))?;
        self.host.connect(*remote)
    }

    fn streams(&self) -> u16 {
        1
    }
}
