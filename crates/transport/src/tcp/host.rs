//! The engine and what waits for it.

use crate::drive::{Bell, Driven};
use crate::session::CloseReason;
use crate::table::Table;
use crate::waiters::{Waiter, Waiters};
use anabranch_base::time::Instant;
use anabranch_tcp::{CloseReason as EngineReason, ConnectionId, Endpoint, Event};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::task::{Context, Poll};

/// What the drive loop and all handles of a host share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) engine: Endpoint,
    pub(super) bell: Bell,
    pub(super) connections: Table<ConnectionId, Connection>,
    pub(super) listeners: BTreeMap<u16, Backlog>,
    /// The socket failed.
    pub(super) failure: Option<CloseReason>,
    idle: Waiters,
}

/// Connections that were accepted and not yet taken.
#[derive(Debug)]
pub(super) struct Backlog {
    /// How many may wait.
    limit: usize,
    waiting: VecDeque<ConnectionId>,
    acceptor: Waiter,
}

impl Backlog {
    /// Room for `limit` connections; 0 takes the most there may be.
    pub(super) fn new(limit: u32) -> Self {
        let limit = if limit == 0 { MAX_BACKLOG } else { MAX_BACKLOG.min(limit as usize) };
        Self { limit, waiting: VecDeque::new(), acceptor: Waiter::default() }
    }
}

/// What this side knows of a connection beyond the engine.
#[derive(Debug)]
pub(super) struct Connection {
    key: u64,
    pub(super) established: bool,
    pub(super) closed: Option<CloseReason>,
    /// An application holds it, or may still take it from a backlog.
    held: bool,
    /// The one stream is held, or has ever been.
    pub(super) open: bool,
    pub(super) opened: bool,
    /// Wait for the handshake or the end.
    pub(super) state_waiters: Waiters,
    /// The last read took all there was, and nothing has been told of since.
    pub(super) dry: bool,
    pub(super) reader: Waiter,
    pub(super) writer: Waiter,
    pub(super) read: u64,
    pub(super) written: u64,
}

impl Shared {
    pub(super) fn new(engine: Endpoint) -> Self {
        Self {
            engine,
            bell: Bell::default(),
            connections: Table::default(),
            listeners: BTreeMap::new(),
            failure: None,
            idle: Waiters::default(),
        }
    }

    /// Connections that have not ended.
    pub(super) fn live(&self) -> impl Iterator<Item = ConnectionId> {
        self.connections.iter().filter(|(_, c)| c.closed.is_none()).map(|(id, _)| id)
    }

    pub(super) fn poll_idle(&mut self, cx: &Context<'_>) -> Poll<()> {
        if self.live().next().is_none() {
            return Poll::Ready(());
        }
        self.idle.add(cx);
        Poll::Pending
    }

    pub(super) fn poll_accept(
        &mut self,
        port: u16,
        cx: &Context<'_>,
    ) -> Poll<Result<(ConnectionId, u64), CloseReason>> {
        if let Some(backlog) = self.listeners.get_mut(&port) {
            if let Some(id) = backlog.waiting.pop_front() {
                self.engine.set_accept_queue(port, backlog.waiting.len() as u32);
                let key = self.connections.get(&id).map_or(0, |connection| connection.key);
                return Poll::Ready(Ok((id, key)));
            }
            backlog.acceptor.wait(cx);
        }
        match &self.failure {
            Some(reason) => Poll::Ready(Err(reason.clone())),
            None => Poll::Pending,
        }
    }

    pub(super) fn close_listener(&mut self, now: Instant, port: u16) {
        self.engine.close_listener(port);
        for id in self.listeners.remove(&port).map(|backlog| backlog.waiting).unwrap_or_default() {
            self.engine.abort(now, id);
            self.let_go(now, id);
        }
        self.bell.ring();
    }

    /// No handle of the connection is left: it ends in good order by itself.
    pub(super) fn let_go(&mut self, now: Instant, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.held = false;
        if connection.closed.is_some() {
            self.connections.remove(&id);
        } else {
            self.engine.close(now, id);
        }
        self.bell.ring();
    }

    fn accepted(&mut self, now: Instant, id: ConnectionId, port: u16) {
        let Some(backlog) = self.listeners.get_mut(&port).filter(|b| b.waiting.len() < b.limit) else {
            self.engine.abort(now, id);
            return;
        };
        let key = self.engine.trace_key(id).unwrap_or_default();
        let mut connection = Connection::new(key);
        connection.established = true;
        self.connections.insert(id, connection);
        backlog.waiting.push_back(id);
        // The engine drops the end of a handshake that finds the queue full; the peer tries again.
        self.engine.set_accept_queue(port, backlog.waiting.len() as u32);
        backlog.acceptor.wake();
    }

    fn closed(&mut self, id: ConnectionId, reason: CloseReason) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.closed = Some(reason);
            connection.wake_all();
            if !connection.held {
                self.connections.remove(&id);
            }
        }
        if self.live().next().is_none() {
            self.idle.wake();
        }
    }
}

impl Driven for Shared {
    type Engine = Endpoint;

    fn engine(&mut self) -> &mut Endpoint {
        &mut self.engine
    }

    fn bell(&mut self) -> &mut Bell {
        &mut self.bell
    }

    fn handle_event(&mut self, now: Instant, event: Event) {
        match event {
            Event::Accepted { id, port } => self.accepted(now, id, port),
            Event::Closed { id, reason } => self.closed(id, told(reason)),
            Event::Connected { id } => {
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.established = true;
                    connection.state_waiters.wake();
                }
            }
            Event::Readable { id } | Event::Finished { id } => {
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.dry = false;
                    connection.reader.wake();
                }
            }
            Event::Writable { id } => {
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.writer.wake();
                }
            }
        }
    }

    fn handle_failure(&mut self, error: &io::Error) {
        let reason = CloseReason::Network(error.to_string());
        self.failure = Some(reason.clone());
        for connection in self.connections.values_mut() {
            if connection.closed.is_none() {
                connection.closed = Some(reason.clone());
            }
            connection.wake_all();
        }
        for backlog in self.listeners.values_mut() {
            backlog.acceptor.wake();
        }
        self.idle.wake();
    }
}

impl Connection {
    pub(super) fn new(key: u64) -> Self {
        Self {
            key,
            established: false,
            closed: None,
            held: true,
            open: false,
            opened: false,
            state_waiters: Waiters::default(),
            dry: false,
            reader: Waiter::default(),
            writer: Waiter::default(),
            read: 0,
            written: 0,
        }
    }

    /// The stream is held from here on.
    pub(super) fn hold(&mut self) {
        self.open = true;
        self.opened = true;
    }

    fn wake_all(&mut self) {
        self.state_waiters.wake();
        self.reader.wake();
        self.writer.wake();
    }
}

/// What the application is told of the engine's reason.
fn told(reason: EngineReason) -> CloseReason {
    match reason {
        EngineReason::Finished => CloseReason::Finished,
        EngineReason::Refused => CloseReason::Refused,
        EngineReason::Reset => CloseReason::Reset(String::new()),
        EngineReason::HandshakeTimedOut => CloseReason::TimedOut("in the handshake".to_owned()),
        EngineReason::TimedOut => CloseReason::TimedOut(String::new()),
        EngineReason::Unreachable(code) => CloseReason::Network(format!("unreachable, ICMP code {code}")),
        EngineReason::Aborted => CloseReason::Aborted,
    }
}

/// Connections that may wait to be taken, a port.
const MAX_BACKLOG: usize = 4096;
