//! The handles that an application has: a session and its streams.

use super::host::{EngineHost, SessionState, StreamState};
use super::inner::Inner;
use super::{SessionEngine, Write, WriteRefusal};
use crate::network::Figures;
use crate::session::{CloseReason, Delivery, OpenError, Session, Stream, StreamId};
use anabranch_base::{Instant, SharedBytes};
use anabranch_world::World;
use bytes::Bytes;
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A handle of a session of an engine.
pub struct EngineSession<W: World, E: SessionEngine> {
    pub(crate) handle: Rc<SessionHandle<W, E>>,
}

/// The handle that all [`EngineSession`]s and streams of a session share through an `Rc`. The session is closed when
/// the last of them is dropped.
pub(crate) struct SessionHandle<W: World, E: SessionEngine> {
    pub(crate) host: Rc<Inner<W, E>>,
    pub(crate) id: E::Id,
    key: u64,
}

impl<W: World, E: SessionEngine> Drop for SessionHandle<W, E> {
    fn drop(&mut self) {
        self.host.shared.borrow_mut().close_dropped(self.host.world.now(), self.id);
    }
}

impl<W: World, E: SessionEngine> fmt::Debug for EngineSession<W, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineSession").field("id", &self.handle.id).finish_non_exhaustive()
    }
}

impl<W: World, E: SessionEngine> Clone for EngineSession<W, E> {
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone() }
    }
}

impl<W: World, E: SessionEngine> EngineSession<W, E> {
    pub(super) fn new(host: Rc<Inner<W, E>>, id: E::Id, key: u64) -> Self {
        Self { handle: Rc::new(SessionHandle { host, id, key }) }
    }

    /// Calls the function `look` with the engine and the session's identifier, and returns the result of `look`.
    pub fn with_engine<R>(&self, look: impl FnOnce(&mut E, E::Id) -> R) -> R {
        look(&mut self.handle.host.shared.borrow_mut().engine, self.handle.id)
    }

    fn with<R>(&self, look: impl FnOnce(&mut SessionState) -> R) -> Result<R, CloseReason> {
        let mut shared = self.handle.host.shared.borrow_mut();
        shared.sessions.get_mut(&self.handle.id).map(look).ok_or(CloseReason::Aborted)
    }

    fn command(&self, give: impl FnOnce(&mut E, E::Id)) {
        let mut shared = self.handle.host.shared.borrow_mut();
        give(&mut shared.engine, self.handle.id);
        shared.notify.notify();
    }

    /// Accepts a stream that the peer has started.
    fn poll_begun(
        &self,
        cx: &mut Context<'_>,
        one_way: bool,
    ) -> Poll<Result<EngineStream<W, E>, CloseReason>> {
        let number = self.with(|session| {
            if let Some(number) = session.take_incoming(one_way) {
                session.hold::<E>(number);
                return Poll::Ready(Ok(number));
            }
            if let Some(reason) = session.end() {
                return Poll::Ready(Err(reason));
            }
            session.acceptors.add(cx);
            Poll::Pending
        });
        number.unwrap_or_else(|error| Poll::Ready(Err(error))).map_ok(|number| self.take(number))
    }

    fn take(&self, number: StreamId) -> EngineStream<W, E> {
        EngineStream {
            handle: self.handle.clone(),
            number,
            finished: false,
            delivery: Delivery::default(),
            marks: E::Marks::default(),
        }
    }
}

impl<W: World, E: SessionEngine> Session for EngineSession<W, E> {
    type Stream = EngineStream<W, E>;

    fn id(&self) -> u64 {
        self.handle.key
    }

    fn peer(&self) -> Option<SocketAddr> {
        self.with_engine(|engine, id| engine.peer(id))
    }

    fn figures(&self) -> Option<Figures> {
        self.with_engine(|engine, id| engine.session_figures(id))
    }

    fn poll_established(&self, cx: &mut Context<'_>) -> Poll<Result<(), CloseReason>> {
        let state = self.with(|session| {
            if session.established {
                return Poll::Ready(Ok(()));
            }
            if let Some(reason) = &session.closed {
                return Poll::Ready(Err(reason.clone()));
            }
            session.state_waiters.add(cx);
            Poll::Pending
        });
        state.unwrap_or_else(|error| Poll::Ready(Err(error)))
    }

    fn early_data(&self) -> bool {
        self.with_engine(|engine, id| engine.early_data(id))
    }

    fn streams(&self) -> u64 {
        self.with(|session| session.streams).unwrap_or(0)
    }

    fn fresh_streams(&self) -> bool {
        E::FRESH_STREAMS
    }

    fn request_streams(&self, more: u64) {
        let now = self.handle.host.world.now();
        let mut shared = self.handle.host.shared.borrow_mut();
        let EngineHost { engine, sessions, notify, .. } = &mut *shared;
        let Some(session) = sessions.get_mut(&self.handle.id) else { return };
        // If the engine refuses the request, `streams_requested` stays zero, and `poll_streams_added` is ready
        // immediately.
        if session.streams_requested == (0, 0) && engine.add_streams(now, self.handle.id, more) {
            session.streams_requested = (more, more);
            notify.notify();
        }
    }

    fn poll_streams_added(&self, cx: &mut Context<'_>) -> Poll<u64> {
        let state = self.with(|session| {
            if session.streams_requested == (0, 0) || session.closed.is_some() {
                return Poll::Ready(session.streams);
            }
            session.state_waiters.add(cx);
            Poll::Pending
        });
        state.unwrap_or(Poll::Ready(0))
    }

    fn open(&self, number: StreamId) -> Result<EngineStream<W, E>, OpenError> {
        self.with(|session| {
            if let Some(reason) = &session.closed {
                return Err(OpenError::Closed(reason.clone()));
            }
            let streams = session.streams;
            if number >= streams && !E::FRESH_STREAMS {
                return Err(OpenError::NoSuchStream { number, streams });
            }
            if session.stream_state(number).open {
                return Err(OpenError::AlreadyOpen(number));
            }
            session.hold::<E>(number);
            Ok(())
        })??;
        Ok(self.take(number))
    }

    fn poll_begin(&self, cx: &mut Context<'_>, one_way: bool) -> Poll<Result<EngineStream<W, E>, OpenError>> {
        let now = self.handle.host.world.now();
        let mut shared = self.handle.host.shared.borrow_mut();
        let EngineHost { engine, sessions, .. } = &mut *shared;
        let Some(session) = sessions.get_mut(&self.handle.id) else {
            return Poll::Ready(Err(OpenError::Closed(CloseReason::Aborted)));
        };
        if let Some(reason) = &session.closed {
            return Poll::Ready(Err(OpenError::Closed(reason.clone())));
        }
        let number = match engine.begin_stream(now, self.handle.id, one_way) {
            Ok(Some(number)) => number,
            Ok(None) => {
                session.state_waiters.add(cx);
                return Poll::Pending;
            }
            Err(WriteRefusal::Failed(reason)) => return Poll::Ready(Err(OpenError::Closed(reason))),
            Err(WriteRefusal::Closed) => {
                let streams = session.streams;
                return Poll::Ready(Err(OpenError::NoSuchStream { number: streams, streams }));
            }
        };
        session.hold::<E>(number);
        drop(shared);
        Poll::Ready(Ok(self.take(number)))
    }

    fn poll_accept_one_way(&self, cx: &mut Context<'_>) -> Poll<Result<EngineStream<W, E>, CloseReason>> {
        self.poll_begun(cx, true)
    }

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<Result<EngineStream<W, E>, CloseReason>> {
        self.poll_begun(cx, false)
    }

    fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<CloseReason> {
        let state = self.with(|session| {
            if let Some(reason) = &session.closed {
                return Poll::Ready(reason.clone());
            }
            session.state_waiters.add(cx);
            Poll::Pending
        });
        state.unwrap_or_else(Poll::Ready)
    }

    fn unacknowledged(&self) -> u64 {
        self.with_engine(|engine, id| engine.unacknowledged(id))
    }

    fn close(&self) {
        let now = self.handle.host.world.now();
        self.command(|engine, id| engine.close(now, id));
    }

    fn abort(&self) {
        let now = self.handle.host.world.now();
        self.command(|engine, id| engine.abort(now, id));
    }

    fn close_with(&self, code: u64, reason: &str) {
        let now = self.handle.host.world.now();
        self.command(|engine, id| engine.close_with(now, id, code, reason));
    }

    fn limit_unsent(&self, bytes: u64) {
        let now = self.handle.host.world.now();
        self.command(|engine, id| engine.limit_unsent(now, id, bytes));
    }
}

/// A handle of a stream of a session: a two-way sequence of bytes.
pub struct EngineStream<W: World, E: SessionEngine> {
    pub(crate) handle: Rc<SessionHandle<W, E>>,
    pub(crate) number: StreamId,
    finished: bool,
    /// How whole messages on this stream are delivered.
    delivery: Delivery,
    /// The attributes that the engine attaches to data written on this stream.
    pub(crate) marks: E::Marks,
}

impl<W: World, E: SessionEngine> fmt::Debug for EngineStream<W, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineStream").field("number", &self.number).finish_non_exhaustive()
    }
}

impl<W: World, E: SessionEngine> Drop for EngineStream<W, E> {
    fn drop(&mut self) {
        let (id, number) = (self.handle.id, self.number);
        let now = self.handle.host.world.now();
        let mut shared = self.handle.host.shared.borrow_mut();
        if E::FRESH_STREAMS {
            shared.release_stream(now, id, number);
            return;
        }
        let unread = shared.engine.has_unread(id, number);
        if let Some(session) = shared.sessions.get_mut(&id) {
            session.give_back(number);
            if unread {
                session.readable(number);
            }
        }
    }
}

impl<W: World, E: SessionEngine> EngineStream<W, E> {
    /// Reads data by calling `read`, which returns two values. The first value is the data and its length in bytes, or
    /// `None` if there was no data. The second value is true if no more data can be read now. At the end of the stream,
    /// this function returns the result of `end` instead of data.
    #[inline]
    pub(crate) fn read_by<R>(
        &mut self,
        cx: &Context<'_>,
        end: impl FnOnce() -> R,
        read: impl FnOnce(&mut E, E::Id, StreamId) -> (Option<(R, usize)>, bool),
    ) -> Poll<Result<R, CloseReason>> {
        let (id, stream) = (self.handle.id, self.number);
        let mut shared = self.handle.host.shared.borrow_mut();
        let EngineHost { engine, sessions, notify, .. } = &mut *shared;
        let Some(session) = sessions.get_mut(&id) else {
            return Poll::Ready(Err(CloseReason::Aborted));
        };
        let state = session.stream_state(stream);
        if state.cancelled {
            return Poll::Ready(Err(CloseReason::Cancelled));
        }
        // If the last read took all data and nothing has arrived since, the engine need not be called.
        if !state.is_drained {
            let (got, dry) = read(engine, id, stream);
            state.is_drained = dry;
            // A read can raise the limits for the peer's data and streams. The engine then has to announce the new
            // limits to the peer.
            if engine.has_output() {
                notify.notify();
            }
            if let Some((got, bytes)) = got {
                state.read += bytes as u64;
                return Poll::Ready(Ok(got));
            }
        }
        match session.end() {
            // RFC 9000 §2.4: the end of a session does not complete its QUIC streams (`FRESH_STREAMS`). If the last
            // byte of a QUIC stream has not arrived, a read of the stream fails.
            Some(CloseReason::Finished) if !E::FRESH_STREAMS || engine.is_finished(id, stream) => {
                Poll::Ready(Ok(end()))
            }
            Some(reason) => Poll::Ready(Err(reason)),
            None if engine.cancel_code(id, stream, true).is_some() => {
                Poll::Ready(Err(CloseReason::Cancelled))
            }
            None if engine.is_finished(id, stream) => Poll::Ready(Ok(end())),
            None => {
                session.wait_to_read(stream, cx);
                Poll::Pending
            }
        }
    }

    /// Writes messages of `message` bytes each or, if `message` is `None`, bytes that the engine may split anywhere.
    fn write(
        &mut self,
        cx: &Context<'_>,
        from: &[u8],
        message: Option<usize>,
    ) -> Poll<Result<usize, CloseReason>> {
        if from.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.write_by(cx, message, |engine, now, id, write| engine.send(now, id, write, from))
    }

    /// Writes data by calling `send`, which returns the number of bytes that the engine has taken.
    #[inline]
    fn write_by(
        &mut self,
        cx: &Context<'_>,
        message: Option<usize>,
        send: impl FnOnce(&mut E, Instant, E::Id, Write<E::Marks>) -> Result<usize, WriteRefusal>,
    ) -> Poll<Result<usize, CloseReason>> {
        if self.finished {
            return Poll::Ready(Err(CloseReason::Finished));
        }
        let (id, stream) = (self.handle.id, self.number);
        let now = self.handle.host.world.now();
        let mut shared = self.handle.host.shared.borrow_mut();
        let EngineHost { engine, sessions, notify, .. } = &mut *shared;
        let Some(session) = sessions.get_mut(&id) else {
            return Poll::Ready(Err(CloseReason::Aborted));
        };
        if session.stream_state(stream).cancelled {
            return Poll::Ready(Err(CloseReason::Cancelled));
        }
        let write = Write { stream, message, delivery: self.delivery, marks: self.marks };
        let taken = match send(engine, now, id, write) {
            Ok(taken) => taken,
            Err(WriteRefusal::Closed) => {
                return Poll::Ready(Err(session.closed.clone().unwrap_or(CloseReason::Finished)));
            }
            Err(WriteRefusal::Failed(reason)) => return Poll::Ready(Err(reason)),
        };
        if taken == 0 {
            // An engine may report a full buffer even after the session has ended. There will never be room again, so
            // the reason for the end is returned.
            if let Some(reason) = &session.closed {
                return Poll::Ready(Err(reason.clone()));
            }
            session.wait_to_write(stream, cx);
            return Poll::Pending;
        }
        session.wrote(stream, taken as u64);
        if engine.has_work() {
            notify.notify();
        }
        Poll::Ready(Ok(taken))
    }

    fn cancel(&mut self, reading: bool, code: u64) {
        let now = self.handle.host.world.now();
        let mut shared = self.handle.host.shared.borrow_mut();
        shared.engine.cancel_direction(now, self.handle.id, self.number, reading, code);
        shared.notify.notify();
    }

    fn position(&self, of: impl FnOnce(&StreamState) -> u64) -> u64 {
        let mut shared = self.handle.host.shared.borrow_mut();
        shared.sessions.get_mut(&self.handle.id).map_or(0, |session| of(session.stream_state(self.number)))
    }
}

impl<W: World, E: SessionEngine> Stream for EngineStream<W, E> {
    fn number(&self) -> StreamId {
        self.number
    }

    fn bytes_read(&self) -> u64 {
        self.position(|state| state.read)
    }

    fn bytes_written(&self) -> u64 {
        self.position(|state| state.written)
    }

    fn unacknowledged(&self) -> u64 {
        self.handle.host.shared.borrow().engine.unacknowledged(self.handle.id)
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<Result<usize, CloseReason>> {
        if into.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let now = self.handle.host.world.now();
        let mut marks = self.marks;
        let read = self.read_by(
            cx,
            || 0,
            |engine, id, stream| {
                let (bytes, dry) = engine.recv(now, id, stream, into);
                engine.note_marks(&mut marks);
                ((bytes > 0).then_some((bytes, bytes)), dry)
            },
        );
        self.marks = marks;
        read
    }

    fn poll_read_message(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<Result<(usize, bool), CloseReason>> {
        if into.is_empty() {
            return Poll::Ready(Ok((0, false)));
        }
        let now = self.handle.host.world.now();
        let mut marks = self.marks;
        let read = self.read_by(
            cx,
            || (0, false),
            |engine, id, stream| {
                let (read, dry) = engine.recv_part(now, id, stream, into);
                engine.note_marks(&mut marks);
                (read.map(|(bytes, ends)| ((bytes, ends), bytes)), dry)
            },
        );
        self.marks = marks;
        read
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, from: &[u8]) -> Poll<Result<usize, CloseReason>> {
        self.write(cx, from, None)
    }

    fn poll_write_bytes(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut Bytes,
    ) -> Poll<Result<usize, CloseReason>> {
        if from.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.write_by(cx, None, |engine, now, id, write| engine.send_shared(now, id, write, from))
    }

    fn poll_read_bytes(
        &mut self,
        cx: &mut Context<'_>,
        most: usize,
    ) -> Poll<Result<SharedBytes, CloseReason>> {
        if most == 0 {
            return Poll::Ready(Ok(SharedBytes::default()));
        }
        let now = self.handle.host.world.now();
        let mut marks = self.marks;
        let read = self.read_by(cx, SharedBytes::default, |engine, id, stream| {
            let (bytes, dry) = match engine.recv_shared(now, id, stream, most) {
                Some(bytes) => {
                    let dry = bytes.len() < most;
                    (bytes, dry)
                }
                None => {
                    // One byte more than there is, so that the engine notices that no data is left.
                    let length = most.min(engine.readable_bytes(id, stream).saturating_add(1));
                    let length = length.min(u32::MAX as usize);
                    let mut buffer = vec![0; length];
                    let (read, dry) = engine.recv(now, id, stream, &mut buffer);
                    buffer.truncate(read);
                    (buffer.into(), dry)
                }
            };
            engine.note_marks(&mut marks);
            let length = bytes.len();
            ((length > 0).then_some((bytes, length)), dry)
        });
        self.marks = marks;
        read
    }

    fn poll_write_message(
        &mut self,
        cx: &mut Context<'_>,
        message: &[u8],
    ) -> Poll<Result<usize, CloseReason>> {
        self.write(cx, message, Some(message.len()))
    }

    fn poll_write_messages(
        &mut self,
        cx: &mut Context<'_>,
        from: &[u8],
        size: usize,
    ) -> Poll<Result<usize, CloseReason>> {
        self.write(cx, from, Some(size))
    }

    fn set_delivery(&mut self, delivery: Delivery) {
        self.delivery = delivery;
        let (now, id, stream) = (self.handle.host.world.now(), self.handle.id, self.number);
        self.handle.host.shared.borrow_mut().engine.set_delivery(now, id, stream, delivery);
    }

    fn reset(&mut self) -> bool {
        let now = self.handle.host.world.now();
        self.handle.host.shared.borrow_mut().reset(now, self.handle.id, self.number)
    }

    fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let mut shared = self.handle.host.shared.borrow_mut();
        match shared.sessions.get_mut(&self.handle.id) {
            Some(session) => session.poll_reset(self.number, cx),
            None => Poll::Ready(false),
        }
    }

    fn set_rank(&mut self, rank: u32) {
        let (now, id, stream) = (self.handle.host.world.now(), self.handle.id, self.number);
        let mut shared = self.handle.host.shared.borrow_mut();
        if let Some(session) = shared.sessions.get_mut(&id) {
            session.stream_state(stream).rank = rank;
        }
        shared.engine.set_rank(now, id, stream, rank);
    }

    fn cancel_writing(&mut self, code: u64) {
        self.cancel(false, code);
    }

    fn cancel_reading(&mut self, code: u64) {
        self.cancel(true, code);
    }

    fn cancel_code(&self, reading: bool) -> Option<u64> {
        self.handle.host.shared.borrow().engine.cancel_code(self.handle.id, self.number, reading)
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<u64> {
        let mut shared = self.handle.host.shared.borrow_mut();
        if let Some(code) = shared.engine.cancel_code(self.handle.id, self.number, false) {
            return Poll::Ready(code);
        }
        if let Some(session) = shared.sessions.get_mut(&self.handle.id) {
            session.wait_to_read(self.number, cx);
        }
        Poll::Pending
    }

    fn finish(&mut self) {
        if !E::HALF_CLOSE {
            self.finished = true;
            return;
        }
        let now = self.handle.host.world.now();
        let mut shared = self.handle.host.shared.borrow_mut();
        shared.engine.finish(now, self.handle.id, self.number);
        shared.notify.notify();
    }

    fn supports_half_close(&self) -> bool {
        E::HALF_CLOSE
    }
}
