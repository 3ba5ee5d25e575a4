//! Sessions over the TCP, Multipath TCP or SCTP of the host's kernel. As with this project's TCP engine, a connection
//! is a session with one stream, number 0.
//!
//! These sessions record no traces, because the kernel exports none. The sessions have few statistics ([`Counters`]).
//! The only identifier of a connection is the port of the side that started it. A session that is closed locally reads
//! and discards incoming data for a while. Otherwise the kernel would answer this data with a RST, and the peer could
//! lose the last bytes sent to it.
//!
//! - `protocol`: offers the kernel's protocols through the interface of a transport

mod protocol;

pub use protocol::{Kernel, KernelSettings, SocketSettings};

use crate::connector::{ConnectError, Connector, ListenError, Listener};
use crate::network::Figures;
use crate::session::{CloseReason, OpenError, Session, Stream, StreamId};
use crate::waiters::Waiters;
use anabranch_base::time::Duration;
use anabranch_world::kernel::{Connection, Counters, KernelTcp, ListeningSocket};
use anabranch_world::{Timer, Waiter, Work};
use std::cell::RefCell;
use std::fmt;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A listener that accepts connections to one address and port.
pub struct KernelListener<W: KernelTcp> {
    world: W,
    listening: W::Listening,
    /// The timer of the pause that follows a failure to accept a connection.
    pause: W::Timer,
    paused: bool,
}

impl<W: KernelTcp> KernelListener<W> {
    /// Listens at the local address `at`. Up to `backlog` connections may wait to be accepted.
    ///
    /// # Errors
    /// [`ListenError`], with the error message of the host.
    pub fn new(world: W, at: SocketAddr, backlog: u32) -> Result<Self, ListenError> {
        let listening = world.listen_tcp(at, backlog).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => ListenError::PortInUse(at.port()),
            _ => ListenError::Refused(error.to_string()),
        })?;
        Ok(Self::over(world, listening))
    }

    /// Creates a listener from a socket that already listens.
    pub fn over(world: W, listening: W::Listening) -> Self {
        let pause = world.timer();
        Self { world, listening, pause, paused: false }
    }

    /// Returns the address of this listener.
    pub fn local(&self) -> SocketAddr {
        self.listening.local()
    }
}

impl<W: KernelTcp> Listener for KernelListener<W> {
    type Session = KernelSession<W>;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<KernelSession<W>, CloseReason>> {
        loop {
            if self.paused && self.pause.poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.paused = false;
            match self.listening.poll_accept(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(connection)) => {
                    self.world.charge(Work::Connection);
                    let id = u64::from(connection.remote().port());
                    return Poll::Ready(Ok(KernelSession::new(&self.world, connection, id, true)));
                }
                // Either the connection ended while it waited to be accepted, or the host is short of descriptors or
                // memory. The socket can still be used, so the next attempt follows after a pause.
                Poll::Ready(Err(_)) => {
                    self.pause.set(Some(self.world.now() + PAUSE));
                    self.paused = true;
                }
            }
        }
    }

    fn port(&self) -> u16 {
        self.listening.local().port()
    }
}

/// A connector that opens connections to the servers for which it was created.
#[derive(Clone, Debug)]
pub struct KernelConnector<W: KernelTcp> {
    world: W,
    servers: Rc<[SocketAddr]>,
}

impl<W: KernelTcp> KernelConnector<W> {
    /// Creates a connector to `servers`. A server's number is its index in `servers`.
    #[must_use]
    pub fn new(world: W, servers: Vec<SocketAddr>) -> Self {
        Self { world, servers: servers.into() }
    }
}

impl<W: KernelTcp> Connector for KernelConnector<W> {
    type Session = KernelSession<W>;

    fn connect(&self, server: usize) -> Result<KernelSession<W>, ConnectError> {
        let remote = *self.servers.get(server).ok_or(ConnectError::NoSuchServer(server))?;
        let connection = self.world.connect_tcp(remote).map_err(|error| match error.kind() {
            io::ErrorKind::NetworkUnreachable => ConnectError::NoRoute(remote.to_string()),
            // The kernel chooses the local address, so "address not available" means that no local port is free.
            io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable => ConnectError::NoPort,
            _ if OUT_OF_DESCRIPTORS.iter().any(|code| error.raw_os_error() == Some(*code)) => {
                ConnectError::NoDescriptor
            }
            _ => ConnectError::Refused(error.to_string()),
        })?;
        let id = u64::from(connection.local().port());
        Ok(KernelSession::new(&self.world, connection, id, false))
    }

    fn streams(&self) -> u64 {
        1
    }
}

/// A session that is a connection of the host's kernel.
pub struct KernelSession<W: KernelTcp> {
    handle: Rc<ConnectionHandle<W>>,
}

struct ConnectionHandle<W: KernelTcp> {
    world: W,
    connection: W::Connection,
    id: u64,
    state: RefCell<ConnectionState<W>>,
}

struct ConnectionState<W: KernelTcp> {
    established: bool,
    closed: Option<CloseReason>,
    /// Whether a write has failed. Data that arrived before the failure can still be read.
    write_failed: bool,
    /// Whether a handle of the stream has ever existed (`opened`), and whether one exists now (`open`).
    opened: bool,
    open: bool,
    /// Whether the peer has sent its last byte, and whether this side has sent its own.
    peer_finished: bool,
    finished: bool,
    read: u64,
    written: u64,
    /// Set by [`Session::close`]. The timer limits the time for which a closed connection may go without new
    /// acknowledgements.
    closing_timer: Option<W::Timer>,
    /// The number of bytes that the peer had not acknowledged at the last check.
    last_unacknowledged: u64,
    /// Tasks that wait for the handshake, for the stream or for the end of the connection.
    waiters: Waiters,
    reader: Waiter,
    writer: Waiter,
}

impl<W: KernelTcp> ConnectionState<W> {
    fn close(&mut self, reason: CloseReason) {
        self.closed.get_or_insert(reason);
        self.waiters.wake();
        self.reader.wake();
        self.writer.wake();
    }

    fn settle(&mut self) {
        if self.peer_finished && self.finished {
            self.close(CloseReason::Finished);
        }
    }
}

impl<W: KernelTcp> Clone for KernelSession<W> {
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone() }
    }
}

impl<W: KernelTcp> KernelSession<W> {
    fn new(world: &W, connection: W::Connection, id: u64, established: bool) -> Self {
        let state = ConnectionState {
            established,
            closed: None,
            write_failed: false,
            opened: false,
            open: false,
            peer_finished: false,
            finished: false,
            read: 0,
            written: 0,
            closing_timer: None,
            last_unacknowledged: u64::MAX,
            waiters: Waiters::default(),
            reader: Waiter::default(),
            writer: Waiter::default(),
        };
        let handle = ConnectionHandle { world: world.clone(), connection, id, state: RefCell::new(state) };
        Self { handle: Rc::new(handle) }
    }

    /// Returns the kernel's counters; see [`Connection::counters`].
    #[must_use]
    pub fn counters(&self) -> Option<Counters> {
        self.handle.connection.counters()
    }

    /// Returns the congestion control in use; see [`Connection::congestion`].
    #[must_use]
    pub fn congestion(&self) -> Option<String> {
        self.handle.connection.congestion()
    }

    /// Returns whether the connection uses Multipath TCP; see [`Connection::is_multipath`].
    #[must_use]
    pub fn is_multipath(&self) -> Option<bool> {
        self.handle.connection.is_multipath()
    }
}

impl<W: KernelTcp> ConnectionHandle<W> {
    /// Ends the sending direction, because this side will write no more data.
    fn finish(&self) {
        let mut state = self.state.borrow_mut();
        if !std::mem::replace(&mut state.finished, true) {
            self.connection.finish();
            state.settle();
        }
    }

    /// Ends a connection that this side has closed, if the peer has acknowledged no further data within `CLOSING`.
    fn end_stalled(&self, state: &mut ConnectionState<W>, cx: &mut Context<'_>) {
        while state.closed.is_none()
            && state.closing_timer.as_mut().is_some_and(|timer| timer.poll(cx).is_ready())
        {
            let left = self.connection.unacknowledged().unwrap_or(0);
            if left > 0 && left < state.last_unacknowledged {
                state.last_unacknowledged = left;
                state.closing_timer.iter_mut().for_each(|timer| timer.set(Some(self.world.now() + CLOSING)));
                continue;
            }
            self.connection.abort();
            state.close(CloseReason::TimedOut("while closing".to_owned()));
        }
    }

    /// Reads and discards data that arrives after this side has sent its last byte, if no handle of the stream exists.
    fn discard(&self, state: &mut ConnectionState<W>, cx: &mut Context<'_>) {
        let mut scratch = [0; 4096];
        // The number of reads per call is limited, so that a peer that sends endlessly does not keep other tasks
        // waiting.
        for _ in 0..16 {
            if !state.finished || state.open || state.peer_finished || state.closed.is_some() {
                return;
            }
            match self.connection.poll_read(cx, &mut scratch) {
                Poll::Pending => return,
                Poll::Ready(Ok(0)) => {
                    state.peer_finished = true;
                    state.settle();
                }
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => state.close(reason(&error)),
            }
        }
        cx.waker().wake_by_ref();
    }

    /// Waits until the function `ready` returns a value. After this side has closed the connection, each poll also
    /// discards incoming data, and ends the connection if the connection has stalled.
    fn wait<T>(
        &self,
        cx: &mut Context<'_>,
        mut ready: impl FnMut(&mut ConnectionState<W>) -> Option<T>,
    ) -> Poll<T> {
        let mut state = self.state.borrow_mut();
        if let Some(result) = ready(&mut state) {
            return Poll::Ready(result);
        }
        self.end_stalled(&mut state, cx);
        self.discard(&mut state, cx);
        match ready(&mut state) {
            Some(result) => Poll::Ready(result),
            None => {
                state.waiters.add(cx);
                Poll::Pending
            }
        }
    }
}

impl<W: KernelTcp> Session for KernelSession<W> {
    type Stream = KernelStream<W>;

    fn id(&self) -> u64 {
        self.handle.id
    }

    fn peer(&self) -> Option<SocketAddr> {
        Some(self.handle.connection.remote())
    }

    fn figures(&self) -> Option<Figures> {
        let Counters { retransmitted, cwnd, srtt } = self.counters()?;
        Some(Figures { retransmitted, cwnd, srtt, ..Figures::default() })
    }

    fn congestion(&self) -> Option<String> {
        self.handle.connection.congestion()
    }

    fn is_multipath(&self) -> Option<bool> {
        self.handle.connection.is_multipath()
    }

    fn poll_established(&self, cx: &mut Context<'_>) -> Poll<Result<(), CloseReason>> {
        let mut state = self.handle.state.borrow_mut();
        if let Some(reason) = &state.closed {
            return Poll::Ready(Err(reason.clone()));
        }
        if state.established {
            return Poll::Ready(Ok(()));
        }
        state.waiters.add(cx);
        match self.handle.connection.poll_connected(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(())) => {
                state.established = true;
                state.waiters.wake();
                state.reader.wake();
                state.writer.wake();
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => {
                let reason = reason(&error);
                state.close(reason.clone());
                Poll::Ready(Err(reason))
            }
        }
    }

    fn open(&self, number: StreamId) -> Result<KernelStream<W>, OpenError> {
        if number > 0 {
            return Err(OpenError::NoSuchStream { number, streams: 1 });
        }
        let mut state = self.handle.state.borrow_mut();
        match &state.closed {
            Some(reason) => return Err(OpenError::Closed(reason.clone())),
            None if state.open => return Err(OpenError::AlreadyOpen(0)),
            None => {}
        }
        (state.opened, state.open) = (true, true);
        Ok(KernelStream { handle: self.handle.clone() })
    }

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<Result<KernelStream<W>, CloseReason>> {
        let accepted = self.handle.wait(cx, |state| {
            if state.established && !state.opened && state.closed.is_none() {
                (state.opened, state.open) = (true, true);
                return Some(Ok(()));
            }
            state.closed.clone().map(Err)
        });
        accepted.map_ok(|()| KernelStream { handle: self.handle.clone() })
    }

    fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<CloseReason> {
        self.handle.wait(cx, |state| state.closed.clone())
    }

    fn unacknowledged(&self) -> u64 {
        self.handle.connection.unacknowledged().unwrap_or(0)
    }

    fn close(&self) {
        self.handle.finish();
        let mut state = self.handle.state.borrow_mut();
        if state.closed.is_none() && state.closing_timer.is_none() {
            let mut timer = self.handle.world.timer();
            timer.set(Some(self.handle.world.now() + CLOSING));
            state.closing_timer = Some(timer);
            // Tasks that already wait must be polled again, so that they also wait for this timer.
            state.waiters.wake();
            state.reader.wake();
        }
    }

    fn abort(&self) {
        self.handle.connection.abort();
        let mut state = self.handle.state.borrow_mut();
        // `finished` keeps a later close from sending a FIN before the reset. A FIN would make truncated data look
        // complete to the peer.
        state.finished = true;
        state.write_failed = false;
        state.close(CloseReason::Aborted);
    }
}

/// The byte stream of a connection, in both directions.
pub struct KernelStream<W: KernelTcp> {
    handle: Rc<ConnectionHandle<W>>,
}

impl<W: KernelTcp> Drop for KernelStream<W> {
    fn drop(&mut self) {
        let mut state = self.handle.state.borrow_mut();
        state.open = false;
        state.reader.forget();
        state.writer.forget();
        state.waiters.wake();
    }
}

impl<W: KernelTcp> KernelStream<W> {
    fn write_by(
        &self,
        cx: &mut Context<'_>,
        write: impl FnOnce(&W::Connection, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<Result<usize, CloseReason>> {
        let mut state = self.handle.state.borrow_mut();
        if let Some(reason) = &state.closed {
            return Poll::Ready(Err(reason.clone()));
        }
        if state.finished {
            return Poll::Ready(Err(CloseReason::Finished));
        }
        state.writer.wait(cx);
        if !state.established {
            return Poll::Pending;
        }
        match write(&self.handle.connection, cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(taken)) => {
                state.written += taken as u64;
                Poll::Ready(Ok(taken))
            }
            Poll::Ready(Err(error)) => {
                let reason = reason(&error);
                state.close(reason.clone());
                state.write_failed = true;
                Poll::Ready(Err(reason))
            }
        }
    }
}

impl<W: KernelTcp> Stream for KernelStream<W> {
    fn number(&self) -> StreamId {
        0
    }

    fn bytes_read(&self) -> u64 {
        self.handle.state.borrow().read
    }

    fn bytes_written(&self) -> u64 {
        self.handle.state.borrow().written
    }

    fn unacknowledged(&self) -> u64 {
        self.handle.connection.unacknowledged().unwrap_or(0)
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<Result<usize, CloseReason>> {
        let mut state = self.handle.state.borrow_mut();
        self.handle.end_stalled(&mut state, cx);
        if into.is_empty() || state.peer_finished {
            return Poll::Ready(Ok(0));
        }
        if let Some(reason) = state.closed.clone() {
            // RFC 9112 §9.5: a server may answer and close before it has read the whole request. Its RST makes the next
            // write fail, but the kernel still holds the response. An end of the data that follows is not trusted,
            // because the RST may have truncated the data.
            if state.write_failed
                && let Poll::Ready(Ok(read @ 1..)) = self.handle.connection.poll_read(cx, into)
            {
                state.read += read as u64;
                return Poll::Ready(Ok(read));
            }
            state.write_failed = false;
            return Poll::Ready(Err(reason));
        }
        state.reader.wait(cx);
        if !state.established {
            return Poll::Pending;
        }
        match self.handle.connection.poll_read(cx, into) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(0)) => {
                state.peer_finished = true;
                state.settle();
                Poll::Ready(Ok(0))
            }
            Poll::Ready(Ok(read)) => {
                state.read += read as u64;
                Poll::Ready(Ok(read))
            }
            Poll::Ready(Err(error)) => {
                let reason = reason(&error);
                state.close(reason.clone());
                Poll::Ready(Err(reason))
            }
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, from: &[u8]) -> Poll<Result<usize, CloseReason>> {
        if from.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.write_by(cx, |connection, cx| connection.poll_write(cx, from))
    }

    fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize, CloseReason>> {
        if slices.iter().all(|slice| slice.is_empty()) {
            return Poll::Ready(Ok(0));
        }
        self.write_by(cx, |connection, cx| connection.poll_write_vectored(cx, slices))
    }

    fn finish(&mut self) {
        self.handle.finish();
    }

    fn supports_half_close(&self) -> bool {
        true
    }
}

impl<W: KernelTcp> fmt::Debug for KernelListener<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelListener").field("local", &self.local()).finish_non_exhaustive()
    }
}

impl<W: KernelTcp> fmt::Debug for KernelSession<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelSession").field("id", &self.handle.id).finish_non_exhaustive()
    }
}

impl<W: KernelTcp> fmt::Debug for KernelStream<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelStream").field("id", &self.handle.id).finish_non_exhaustive()
    }
}

/// Converts an error of the kernel to the reason why a session ended.
fn reason(error: &io::Error) -> CloseReason {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => CloseReason::Refused,
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted | io::ErrorKind::BrokenPipe => {
            CloseReason::Reset(String::new())
        }
        io::ErrorKind::TimedOut => CloseReason::TimedOut(String::new()),
        _ => CloseReason::Network(error.to_string()),
    }
}

/// The error numbers ENFILE and EMFILE, which are the same on every Linux.
const OUT_OF_DESCRIPTORS: [i32; 2] = [23, 24];
/// The pause after a failure to accept a connection.
const PAUSE: Duration = Duration::from_millis(50);
/// A connection that this host has closed is aborted when the peer has acknowledged no further data for this time.
const CLOSING: Duration = Duration::from_secs(5);
