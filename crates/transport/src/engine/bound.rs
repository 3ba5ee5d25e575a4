//! A transport that runs on a host: an engine, its socket and its drive loop. This module starts the transport, opens
//! and accepts sessions, and closes them.

use super::SessionEngine;
use super::host::EngineHost;
use super::inner::Inner;
use super::session::EngineSession;
use crate::connector::{ConnectError, Connector, ListenError, Listener};
use crate::drive::drive;
use crate::erased::{AnyConnector, AnyListener};
use crate::network::PathFigures;
use crate::protocol::{ConnectionLog, Host, PathEvent, Server, Totals};
use crate::session::CloseReason;
use crate::settings::Settings;
use anabranch_base::trace::TraceRecord;
use anabranch_world::{DatagramSocket, Work, World};
use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A running transport on one host: one engine, one socket, one drive loop. A clone is another handle of the same
/// transport. The transport runs until all its handles and all handles of its sessions are dropped.
pub struct BoundHost<W: World, E: SessionEngine> {
    pub(crate) inner: Rc<Inner<W, E>>,
}

impl<W: World, E: SessionEngine> fmt::Debug for BoundHost<W, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(E::NAME).finish_non_exhaustive()
    }
}

impl<W: World, E: SessionEngine> Clone for BoundHost<W, E> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<W: World, E: SessionEngine> BoundHost<W, E> {
    /// Drives `engine` over `socket`: the socket of a `World`, or a layer around such a socket. If `follow` is
    /// `Some(n)`, each change of the host's addresses is reported to the engine as a change of routes. If `n` is not 0,
    /// the engine's addresses are also replaced by the first `n` addresses that the host has after the change.
    pub fn over(world: W, engine: E, socket: impl DatagramSocket, follow: Option<usize>) -> Self {
        let shared = Rc::new(RefCell::new(EngineHost::new(engine)));
        let task = drive(world.clone(), socket, shared.clone());
        let driver = world.spawn(E::NAME, task);
        let follower =
            follow.map(|most| world.spawn("addresses", self::follow(world.clone(), shared.clone(), most)));
        Self { inner: Rc::new(Inner { world, shared, _driver: driver, _follower: follower }) }
    }

    /// Starts a session with a server.
    ///
    /// # Errors
    /// [`ConnectError`] if the session could not be started.
    pub fn connect_to(&self, server: &Server) -> Result<EngineSession<W, E>, ConnectError> {
        let mut shared = self.inner.shared.borrow_mut();
        if let Some(reason) = &shared.failure {
            return Err(ConnectError::Refused(reason.to_string()));
        }
        let id = shared.engine.connect(self.inner.world.now(), server)?;
        let key = shared.opened(id);
        drop(shared);
        Ok(EngineSession::new(self.inner.clone(), id, key))
    }

    /// Calls the function `look` with read access to the engine, and returns the result of `look`.
    pub fn engine<R>(&self, look: impl FnOnce(&E) -> R) -> R {
        look(&self.inner.shared.borrow().engine)
    }

    /// Accepts sessions that peers open to `port`. Up to `backlog` sessions may wait to be accepted; 0 stands for the
    /// engine's default.
    ///
    /// # Errors
    /// [`ListenError`] if the engine cannot listen on `port`.
    pub fn listen_with(&self, port: u16, backlog: u32) -> Result<EngineListener<W, E>, ListenError> {
        let mut shared = self.inner.shared.borrow_mut();
        shared.engine.listen(port, backlog)?;
        shared.listening(port, backlog);
        drop(shared);
        Ok(EngineListener { inner: self.inner.clone(), port })
    }

    /// Starts or stops the recording of a trace.
    pub fn set_tracing(&self, on: bool) {
        self.inner.shared.borrow_mut().engine.set_tracing(on);
    }

    /// Returns the part of the trace that was recorded since the last call.
    #[must_use]
    pub fn take_trace(&self) -> Vec<TraceRecord> {
        self.inner.shared.borrow_mut().engine.take_trace()
    }

    /// Closes all sessions gracefully and waits until they have ended.
    pub async fn close(&self) {
        Host::close(self);
        self.wait_idle().await;
    }

    /// Waits until all sessions have ended.
    pub async fn wait_idle(&self) {
        poll_fn(|cx| self.poll_idle(cx)).await;
    }
}

impl<W: World, E: SessionEngine> Host for BoundHost<W, E> {
    fn connector(&self, servers: Vec<Server>) -> AnyConnector {
        AnyConnector::new(EngineConnector::new(self.clone(), servers))
    }

    fn listen(&self, port: u16, backlog: u32) -> Result<AnyListener, ListenError> {
        self.listen_with(port, backlog).map(AnyListener::new)
    }

    fn settings(&self) -> Option<Box<dyn Settings>> {
        Some(self.inner.shared.borrow().engine.settings())
    }

    fn set_tracing(&self, on: bool) {
        Self::set_tracing(self, on);
    }

    fn take_trace(&self) -> Vec<TraceRecord> {
        Self::take_trace(self)
    }

    fn start_logging(&self) {
        self.inner.shared.borrow_mut().engine.start_logging();
    }

    fn take_logs(&self) -> Vec<ConnectionLog> {
        self.inner.shared.borrow_mut().engine.take_logs()
    }

    fn totals(&self) -> Totals {
        self.inner.shared.borrow().engine.totals()
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.inner.shared.borrow().engine.addresses()
    }

    fn accepted(&self) -> u64 {
        self.inner.shared.borrow().engine.accepted_count()
    }

    fn paths(&self) -> Vec<PathFigures> {
        self.inner.shared.borrow().engine.paths()
    }

    fn on_path_event(&self, listener: Box<dyn Fn(PathEvent)>) {
        self.inner.shared.borrow_mut().engine.on_path_event(listener);
    }

    fn poll_idle(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.inner.shared.borrow_mut().poll_idle(cx)
    }

    fn close(&self) {
        let now = self.inner.world.now();
        let mut shared = self.inner.shared.borrow_mut();
        let live: Vec<_> = shared.live().collect();
        for id in live {
            shared.engine.close(now, id);
        }
        shared.wake_loop();
    }
}

/// After each change of the host's addresses, gives the engine the first `most` of the host's addresses, and notifies
/// the engine of changed routes. If `most` is 0, the engine keeps the addresses that it started with.
async fn follow<W: World, E: SessionEngine>(world: W, shared: Rc<RefCell<EngineHost<E>>>, most: usize) {
    loop {
        poll_fn(|cx| world.poll_address_change(cx)).await;
        let mut shared = shared.borrow_mut();
        if most > 0 {
            let mut present = world.addresses();
            present.truncate(most);
            shared.engine.follow_addresses(world.now(), &present);
        }
        // Destinations that had no route may now have a route.
        shared.engine.handle_routes(world.now());
        shared.wake_loop();
    }
}

/// Accepts the sessions that peers open to one port.
pub struct EngineListener<W: World, E: SessionEngine> {
    inner: Rc<Inner<W, E>>,
    port: u16,
}

impl<W: World, E: SessionEngine> fmt::Debug for EngineListener<W, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineListener").field("port", &self.port).finish_non_exhaustive()
    }
}

impl<W: World, E: SessionEngine> Listener for EngineListener<W, E> {
    type Session = EngineSession<W, E>;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<EngineSession<W, E>, CloseReason>> {
        let accepted = self.inner.shared.borrow_mut().poll_accept(self.port, cx);
        accepted.map_ok(|(id, key)| {
            self.inner.world.charge(Work::Connection);
            EngineSession::new(self.inner.clone(), id, key)
        })
    }

    fn port(&self) -> u16 {
        self.port
    }
}

impl<W: World, E: SessionEngine> Drop for EngineListener<W, E> {
    fn drop(&mut self) {
        self.inner.shared.borrow_mut().close_listener(self.inner.world.now(), self.port);
    }
}

/// Opens sessions from one host to the servers for which it was created.
#[derive(Debug)]
pub struct EngineConnector<W: World, E: SessionEngine> {
    host: BoundHost<W, E>,
    servers: Rc<[Server]>,
}

impl<W: World, E: SessionEngine> Clone for EngineConnector<W, E> {
    fn clone(&self) -> Self {
        Self { host: self.host.clone(), servers: self.servers.clone() }
    }
}

impl<W: World, E: SessionEngine> EngineConnector<W, E> {
    /// Creates a connector from `host` to `servers`. A server's number is its index in `servers`.
    #[must_use]
    pub fn new(host: BoundHost<W, E>, servers: Vec<impl Into<Server>>) -> Self {
        Self { host, servers: servers.into_iter().map(Into::into).collect() }
    }
}

impl<W: World, E: SessionEngine> Connector for EngineConnector<W, E> {
    type Session = EngineSession<W, E>;

    fn connect(&self, server: usize) -> Result<EngineSession<W, E>, ConnectError> {
        self.host.connect_to(self.servers.get(server).ok_or(ConnectError::NoSuchServer(server))?)
    }

    fn streams(&self) -> u64 {
        self.host.inner.shared.borrow().engine.streams()
    }

    fn fresh_streams(&self) -> bool {
        E::FRESH_STREAMS
    }
}
