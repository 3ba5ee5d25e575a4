//! The handles an application holds of a connection and its stream.

use super::Inner;
use super::host::{Connection, Shared};
use crate::session::{CloseReason, OpenError, Session, Stream};
use anabranch_base::Engine;
use anabranch_tcp::{ConnectionId, Info, SendError, Stats};
use anabranch_world::World;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A connection.
#[derive(Debug)]
pub struct TcpSession<W: World> {
    held: Rc<Held<W>>,
}

/// One per connection: closes it when the last handle is gone.
#[derive(Debug)]
struct Held<W: World> {
    host: Rc<Inner<W>>,
    id: ConnectionId,
    key: u64,
}

impl<W: World> Drop for Held<W> {
    fn drop(&mut self) {
        self.host.shared.borrow_mut().let_go(self.host.world.now(), self.id);
    }
}

impl<W: World> Clone for TcpSession<W> {
    fn clone(&self) -> Self {
        Self { held: self.held.clone() }
    }
}

impl<W: World> TcpSession<W> {
    pub(super) fn new(host: Rc<Inner<W>>, id: ConnectionId, key: u64) -> Self {
        Self { held: Rc::new(Held { host, id, key }) }
    }

    /// The connection as it stands; `None` once it has ended.
    #[must_use]
    pub fn info(&self) -> Option<Info> {
        self.held.host.shared.borrow().engine.info(self.held.id)
    }

    /// What it has done; `None` once it has ended.
    #[must_use]
    pub fn stats(&self) -> Option<Stats> {
        self.held.host.shared.borrow().engine.stats(self.held.id)
    }

    fn with<R>(&self, look: impl FnOnce(&mut Connection) -> R) -> Result<R, CloseReason> {
        let mut shared = self.held.host.shared.borrow_mut();
        shared.connections.get_mut(&self.held.id).map(look).ok_or(CloseReason::Aborted)
    }

    fn take(&self) -> TcpStream<W> {
        TcpStream { held: self.held.clone() }
    }
}

impl<W: World> Session for TcpSession<W> {
    type Stream = TcpStream<W>;

    fn id(&self) -> u64 {
        self.held.key
    }

    fn peer(&self) -> Option<SocketAddr> {
        self.info().map(|info| info.remote)
    }

    fn poll_established(&self, cx: &mut Context<'_>) -> Poll<Result<(), CloseReason>> {
        let state = self.with(|connection| {
            if connection.established {
                return Poll::Ready(Ok(()));
            }
            if let Some(reason) = &connection.closed {
                return Poll::Ready(Err(reason.clone()));
            }
            connection.state_waiters.add(cx);
            Poll::Pending
        });
        state.unwrap_or_else(|gone| Poll::Ready(Err(gone)))
    }

    fn early_data(&self) -> bool {
        false
    }

    fn streams(&self) -> u16 {
        1
    }

    /// A connection has one stream, whatever is asked for.
    fn grow(&self, _more: u16) {}

    fn poll_grown(&self, _cx: &mut Context<'_>) -> Poll<u16> {
        Poll::Ready(1)
    }

    fn open(&self, number: u16) -> Result<TcpStream<W>, OpenError> {
        if number > 0 {
            return Err(OpenError::NoSuchStream { number, streams: 1 });
        }
        self.with(|connection| match &connection.closed {
            Some(reason) => Err(OpenError::Closed(reason.clone())),
            None if connection.open => Err(OpenError::AlreadyOpen(0)),
            None => {
                connection.hold();
                Ok(())
            }
        })??;
        Ok(self.take())
    }

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<Result<TcpStream<W>, CloseReason>> {
        let state = self.with(|connection| {
            if connection.established && !connection.opened {
                connection.hold();
                return Poll::Ready(Ok(()));
            }
            if let Some(reason) = &connection.closed {
                return Poll::Ready(Err(reason.clone()));
            }
            connection.state_waiters.add(cx);
            Poll::Pending
        });
        state.unwrap_or_else(|gone| Poll::Ready(Err(gone))).map_ok(|()| self.take())
    }

    fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<CloseReason> {
        let state = self.with(|connection| {
            if let Some(reason) = &connection.closed {
                return Poll::Ready(reason.clone());
            }
            connection.state_waiters.add(cx);
            Poll::Pending
        });
        state.unwrap_or_else(Poll::Ready)
    }

    fn unacknowledged(&self) -> u64 {
        self.held.host.shared.borrow().engine.buffered_bytes(self.held.id) as u64
    }

    fn close(&self) {
        let mut shared = self.held.host.shared.borrow_mut();
        shared.engine.close(self.held.host.world.now(), self.held.id);
        shared.bell.ring();
    }

    fn abort(&self) {
        let mut shared = self.held.host.shared.borrow_mut();
        shared.engine.abort(self.held.host.world.now(), self.held.id);
        shared.bell.ring();
    }
}

/// The bytes of a connection, both ways.
#[derive(Debug)]
pub struct TcpStream<W: World> {
    held: Rc<Held<W>>,
}

impl<W: World> Drop for TcpStream<W> {
    fn drop(&mut self) {
        let mut shared = self.held.host.shared.borrow_mut();
        if let Some(connection) = shared.connections.get_mut(&self.held.id) {
            connection.open = false;
            connection.reader.forget();
            connection.writer.forget();
        }
    }
}

impl<W: World> TcpStream<W> {
    fn position(&self, of: impl FnOnce(&Connection) -> u64) -> u64 {
        self.held.host.shared.borrow().connections.get(&self.held.id).map_or(0, of)
    }
}

impl<W: World> Stream for TcpStream<W> {
    fn number(&self) -> u16 {
        0
    }

    fn bytes_read(&self) -> u64 {
        self.position(|connection| connection.read)
    }

    fn bytes_written(&self) -> u64 {
        self.position(|connection| connection.written)
    }

    fn unacknowledged(&self) -> u64 {
        self.held.host.shared.borrow().engine.buffered_bytes(self.held.id) as u64
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<Result<usize, CloseReason>> {
        if into.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let mut shared = self.held.host.shared.borrow_mut();
        let Shared { engine, connections, bell, .. } = &mut *shared;
        let Some(connection) = connections.get_mut(&self.held.id) else {
            return Poll::Ready(Err(CloseReason::Aborted));
        };
        // Most reads take all there is, and the next one need not ask.
        if !connection.dry {
            let read = engine.recv(self.held.host.world.now(), self.held.id, into).unwrap_or(0);
            connection.dry = read < into.len();
            if read > 0 {
                connection.read += read as u64;
                // Room in the receive buffer may be worth a window update; mostly it is not.
                if engine.has_output() {
                    bell.ring();
                }
                return Poll::Ready(Ok(read));
            }
        }
        match &connection.closed {
            Some(CloseReason::Finished) => Poll::Ready(Ok(0)),
            Some(reason) => Poll::Ready(Err(reason.clone())),
            None if engine.is_finished(self.held.id) => Poll::Ready(Ok(0)),
            None => {
                connection.reader.wait(cx);
                Poll::Pending
            }
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, from: &[u8]) -> Poll<Result<usize, CloseReason>> {
        if from.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let mut shared = self.held.host.shared.borrow_mut();
        let Shared { engine, connections, bell, .. } = &mut *shared;
        let Some(connection) = connections.get_mut(&self.held.id) else {
            return Poll::Ready(Err(CloseReason::Aborted));
        };
        match engine.send(self.held.host.world.now(), self.held.id, from) {
            Ok(0) => {
                connection.writer.wait(cx);
                Poll::Pending
            }
            Ok(taken) => {
                connection.written += taken as u64;
                // What waits for acknowledgements waits, however much it is.
                if engine.has_output() {
                    bell.ring();
                }
                Poll::Ready(Ok(taken))
            }
            Err(SendError::Closed | SendError::Finished) => {
                Poll::Ready(Err(connection.closed.clone().unwrap_or(CloseReason::Finished)))
            }
        }
    }

    fn poll_write_message(
        &mut self,
        cx: &mut Context<'_>,
        message: &[u8],
    ) -> Poll<Result<usize, CloseReason>> {
        self.poll_write(cx, message)
    }

    fn half_closes(&self) -> bool {
        true
    }

    fn finish(&mut self) {
        let mut shared = self.held.host.shared.borrow_mut();
        shared.engine.finish(self.held.host.world.now(), self.held.id);
        shared.bell.ring();
    }
}
