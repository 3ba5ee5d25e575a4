//! The state that the drive loop and the handles of a transport share: the engine, its sessions, the sessions that wait
//! to be accepted, and the waiting tasks.

use super::SessionEngine;
use crate::drive::{EngineOwner, Notify};
use crate::session::{CloseReason, ONE_WAY, StreamId};
use crate::table::Table;
use crate::waiters::Waiters;
use anabranch_base::time::Instant;
use anabranch_world::Waiter;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::task::{Context, Poll};

/// The state that the drive loop and all handles of a transport share.
#[derive(Debug)]
pub struct EngineHost<E: SessionEngine> {
    /// The engine.
    pub engine: E,
    pub(super) notify: Notify,
    pub(super) sessions: Table<E::Id, SessionState>,
    listeners: BTreeMap<u16, Backlog<E::Id>>,
    /// Set when the socket has failed. All sessions end with this reason.
    pub(super) failure: Option<CloseReason>,
    idle: Waiters,
}

/// Established sessions of one port that the application has not accepted yet.
#[derive(Debug)]
struct Backlog<I> {
    /// The maximum number of sessions that may wait.
    limit: usize,
    waiting: VecDeque<I>,
    acceptor: Waiter,
}

/// The part of a session's state that this layer keeps in addition to the engine's state.
#[derive(Debug)]
pub(super) struct SessionState {
    key: u64,
    /// The number of stream pairs that the session has. Until the session is established, this is the number of stream
    /// pairs that it requests. A pair is an outgoing and an incoming stream with the same id.
    pub(super) streams: u64,
    pub(super) established: bool,
    /// Whether the peer started the session.
    accepted: bool,
    /// How many additional streams this side has requested without an answer so far: outgoing, incoming.
    pub(super) streams_requested: (u64, u64),
    /// Whether the peer has announced that it will send no more data.
    peer_finished: bool,
    pub(super) closed: Option<CloseReason>,
    /// Whether an application has a handle of the session, or may still accept the session from a backlog.
    has_handle: bool,
    /// Tasks that wait for the handshake or for the end of the session.
    pub(super) state_waiters: Waiters,
    pub(super) acceptors: Waiters,
    /// Streams that the peer has started and for which no handle exists: two-way streams, then one-way streams.
    pub(super) incoming_streams: [VecDeque<StreamId>; 2],
    /// The states of the streams with low numbers, indexed by stream number. The states of all other streams are in
    /// `high_stream_states`.
    pub(super) stream_states: Vec<StreamState>,
    pub(super) high_stream_states: BTreeMap<StreamId, Box<StreamState>>,
    /// Streams that wait for room in the send buffer, in the order in which they get room: by rank, and streams of
    /// equal rank as they were queued.
    writers: BTreeMap<(u32, u64), StreamId>,
    next_turn: u64,
}

/// The state of one stream, in both directions.
#[derive(Debug, Default)]
pub(super) struct StreamState {
    pub(super) open: bool,
    /// Whether the stream is in `incoming_streams`.
    pub(super) announced: bool,
    /// True if the stream was announced before, or the application has had a handle of the stream. The stream is then
    /// not announced again. Used only if a session has a single stream.
    had_handle: bool,
    pub(super) reader: Waiter,
    pub(super) writer: Waiter,
    /// The key of the stream in `writers`, if the stream is queued there. `has_written` is true if data was written on
    /// the stream since it was queued.
    turn: Option<(u32, u64)>,
    has_written: bool,
    /// The rank of the stream: streams with a lower rank get room in the send buffer first.
    pub(super) rank: u32,
    /// Whether all data has been read and no data has arrived since then.
    pub(super) is_drained: bool,
    pub(super) read: u64,
    pub(super) written: u64,
    /// Whether the peer has cancelled the current exchange on the stream.
    pub(super) cancelled: bool,
    /// The reset that this side has requested, if any. For the outgoing and the incoming direction: whether the stream
    /// was reset, or `None` until the result is known.
    pub(super) resetting: Option<[Option<bool>; 2]>,
}

impl<E: SessionEngine> EngineHost<E> {
    pub(super) fn new(engine: E) -> Self {
        Self {
            engine,
            notify: Notify::default(),
            sessions: Table::default(),
            listeners: BTreeMap::new(),
            failure: None,
            idle: Waiters::default(),
        }
    }

    /// Makes the drive loop poll the engine again.
    pub fn wake_loop(&self) {
        self.notify.notify();
    }

    /// Adds a session that this side has started, and returns the session's key in traces.
    pub(super) fn opened(&mut self, id: E::Id) -> u64 {
        let key = self.engine.trace_key(id);
        self.sessions.insert(id, SessionState::new(key, self.engine.streams()));
        self.engine.publish();
        self.notify.notify();
        key
    }

    /// Adds the backlog for a port on which the engine listens.
    pub(super) fn listening(&mut self, port: u16, backlog: u32) {
        let limit = if backlog == 0 { MAX_BACKLOG } else { MAX_BACKLOG.min(backlog as usize) };
        let backlog = Backlog { limit, waiting: VecDeque::new(), acceptor: Waiter::default() };
        self.listeners.insert(port, backlog);
    }

    /// Returns an iterator over the sessions that have not ended.
    pub(super) fn live(&self) -> impl Iterator<Item = E::Id> {
        self.sessions.iter().filter(|(_, session)| session.closed.is_none()).map(|(id, _)| id)
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
    ) -> Poll<Result<(E::Id, u64), CloseReason>> {
        if let Some(backlog) = self.listeners.get_mut(&port) {
            if let Some(id) = backlog.waiting.pop_front() {
                self.engine.set_accept_queue(port, backlog.waiting.len() as u32);
                let key = self.sessions.get(&id).map_or(0, |session| session.key);
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
            self.close_dropped(now, id);
        }
        self.notify.notify();
    }

    /// Closes a session gracefully after the last handle of it has been dropped.
    pub(super) fn close_dropped(&mut self, now: Instant, id: E::Id) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.has_handle = false;
        if session.closed.is_some() {
            self.sessions.remove(&id);
            self.engine.release(now, id);
        } else {
            self.engine.close(now, id);
        }
        self.notify.notify();
    }

    /// Releases a stream after its last handle has been dropped. Only for engines that never use the number of a stream
    /// again ([`FRESH_STREAMS`](SessionEngine::FRESH_STREAMS)).
    pub(super) fn release_stream(&mut self, now: Instant, id: E::Id, stream: StreamId) {
        self.engine.release_stream(now, id, stream);
        if let Some(session) = self.sessions.get_mut(&id) {
            session.give_back(stream);
            session.high_stream_states.remove(&stream);
        }
        self.notify.notify();
    }

    /// Records that the handshake of a session started by this side is done. The session has `streams` stream pairs,
    /// each an outgoing and an incoming stream with the same id.
    pub fn established(&mut self, id: E::Id, streams: u64) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.streams = streams;
            session.established = true;
            session.begin::<E>();
            session.state_waiters.wake();
        }
    }

    /// Adds a session to the backlog of `port`. A peer has started the session, and its handshake is done. Aborts the
    /// session if the backlog is full or nobody listens on `port`.
    pub fn accepted(&mut self, now: Instant, id: E::Id, port: u16, streams: u64) {
        let Some(backlog) = self.listeners.get_mut(&port).filter(|b| b.waiting.len() < b.limit) else {
            self.engine.abort(now, id);
            return;
        };
        let mut session = SessionState::new(self.engine.trace_key(id), streams);
        session.established = true;
        session.accepted = true;
        session.begin::<E>();
        self.engine.accepted(id, port);
        self.sessions.insert(id, session);
        backlog.waiting.push_back(id);
        // The engine must know how many sessions wait: while the queue is full, an engine may ignore the last packet of
        // a handshake. The peer retransmits that packet later.
        self.engine.set_accept_queue(port, backlog.waiting.len() as u32);
        backlog.acceptor.wake();
    }

    /// Records that data of the stream, or its end, can be read.
    #[inline]
    pub fn readable(&mut self, id: E::Id, stream: StreamId) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.readable(stream);
        }
    }

    /// Records that the session has room for writes again.
    #[inline]
    pub fn writable(&mut self, id: E::Id) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.writable();
        }
    }

    /// Records that a new attempt to start a stream may succeed, because the peer may have raised its limit.
    pub fn streams_available(&mut self, id: E::Id) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.state_waiters.wake();
        }
    }

    /// Records that the peer will send no new data in the whole session.
    pub fn peer_finished(&mut self, id: E::Id) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.peer_finished = true;
            session.wake_all();
        }
    }

    /// Records the answer to a session's request for more streams. `outgoing` and `incoming` are the numbers of
    /// requested streams that the answer covers, whether the peer added or refused them. `streams` is the session's new
    /// number of stream pairs, if known.
    pub fn grown(&mut self, id: E::Id, (outgoing, incoming): (u64, u64), streams: Option<u64>) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.streams_requested.0 = session.streams_requested.0.saturating_sub(outgoing);
        session.streams_requested.1 = session.streams_requested.1.saturating_sub(incoming);
        if session.streams_requested == (0, 0) {
            session.state_waiters.wake();
        }
        if let Some(streams) = streams {
            session.streams = streams;
        }
    }

    /// Records that the session has ended for `reason`.
    pub fn closed(&mut self, now: Instant, id: E::Id, reason: CloseReason) {
        if let Some(session) = self.sessions.get_mut(&id).filter(|session| session.closed.is_none()) {
            session.closed = Some(reason);
            session.wake_all();
            if !session.has_handle {
                self.sessions.remove(&id);
                self.engine.release(now, id);
            }
        }
        if self.live().next().is_none() {
            self.idle.wake();
        }
    }

    /// Returns whether the handshake of a session is done, and whether the peer started the session.
    #[must_use]
    pub fn progress(&self, id: E::Id) -> (bool, bool) {
        self.sessions.get(&id).map_or((false, false), |session| (session.established, session.accepted))
    }
}

impl<E: SessionEngine> EngineOwner for EngineHost<E> {
    type Engine = E;

    const AT_ONCE: usize = E::AT_ONCE;

    fn engine(&mut self) -> &mut E {
        &mut self.engine
    }

    fn notify(&mut self) -> &mut Notify {
        &mut self.notify
    }

    #[inline]
    fn handle_event(&mut self, now: Instant, event: E::Event) {
        E::handle_event(self, now, event);
    }

    fn handle_failure(&mut self, error: &io::Error) {
        let reason = CloseReason::Network(error.to_string());
        self.failure = Some(reason.clone());
        for session in self.sessions.values_mut() {
            if session.closed.is_none() {
                session.closed = Some(reason.clone());
            }
            session.wake_all();
        }
        for backlog in self.listeners.values_mut() {
            backlog.acceptor.wake();
        }
        self.idle.wake();
    }
}

impl SessionState {
    pub(super) fn new(key: u64, streams: u64) -> Self {
        Self {
            key,
            streams,
            established: false,
            accepted: false,
            streams_requested: (0, 0),
            peer_finished: false,
            closed: None,
            has_handle: true,
            state_waiters: Waiters::default(),
            acceptors: Waiters::default(),
            incoming_streams: [VecDeque::new(), VecDeque::new()],
            stream_states: Vec::new(),
            high_stream_states: BTreeMap::new(),
            writers: BTreeMap::new(),
            next_turn: 0,
        }
    }

    /// Offers the only stream of a session to the application for acceptance, once the session is established. Does
    /// nothing if the engine has several streams per session.
    fn begin<E: SessionEngine>(&mut self) {
        if E::ONE_STREAM {
            let state = self.stream_state(0);
            if !std::mem::replace(&mut state.had_handle, true) {
                state.announced = true;
                self.announce(0);
            }
        }
    }

    /// Returns the state of the stream with this number, creating it if necessary.
    #[inline]
    pub(super) fn stream_state(&mut self, stream: StreamId) -> &mut StreamState {
        if stream < self.stream_states.len() as u64 {
            &mut self.stream_states[stream as usize]
        } else {
            self.new_stream_state(stream)
        }
    }

    #[cold]
    fn new_stream_state(&mut self, stream: StreamId) -> &mut StreamState {
        if stream >= MAX_DENSE_STREAMS {
            return self.high_stream_states.entry(stream).or_default();
        }
        let index = stream as usize;
        if index < 4 {
            // No memory is reserved for further streams: there can be thousands of sessions that never use another
            // stream.
            self.stream_states.reserve_exact(index + 1 - self.stream_states.len());
        }
        self.stream_states.resize_with(index + 1, StreamState::default);
        &mut self.stream_states[index]
    }

    /// Returns the reason for the end of the session if no more data or streams can arrive. A read or an accept then
    /// returns this reason. Returns `None` if the caller has to wait.
    #[inline]
    pub(super) fn end(&self) -> Option<CloseReason> {
        if self.closed.is_some() || self.peer_finished { Some(self.reason()) } else { None }
    }

    #[cold]
    fn reason(&self) -> CloseReason {
        self.closed.clone().unwrap_or(CloseReason::Finished)
    }

    #[inline]
    pub(super) fn wait_to_read(&mut self, stream: StreamId, cx: &Context<'_>) {
        self.stream_state(stream).reader.wait(cx);
    }

    /// Queues a stream for room in the send buffer. A stream that has written since it was last queued moves to the end
    /// of the queue. A stream that has not written keeps its place in the queue.
    pub(super) fn wait_to_write(&mut self, stream: StreamId, cx: &Context<'_>) {
        let turn = self.next_turn;
        let state = self.stream_state(stream);
        state.writer.wait(cx);
        let next = (state.rank, turn);
        if state.turn.is_some() && !state.has_written {
            return;
        }
        state.has_written = false;
        let before = state.turn.replace(next);
        if let Some(turn) = before {
            self.writers.remove(&turn);
        }
        self.writers.insert(next, stream);
        self.next_turn += 1;
    }

    /// Records that `bytes` bytes were written on the stream.
    pub(super) fn wrote(&mut self, stream: StreamId, bytes: u64) {
        let state = self.stream_state(stream);
        state.written += bytes;
        state.has_written = true;
    }

    /// Clears the state of a stream after the last handle of it has been dropped.
    pub(super) fn give_back(&mut self, stream: StreamId) {
        let state = self.stream_state(stream);
        state.open = false;
        state.cancelled = false;
        state.resetting = None;
        state.rank = 0;
        state.reader.forget();
        state.writer.forget();
        if let Some(turn) = state.turn.take() {
            self.writers.remove(&turn);
        }
    }

    /// Removes the first stream from the queue of streams that the peer has started, and returns its number.
    pub(super) fn take_incoming(&mut self, one_way: bool) -> Option<StreamId> {
        let stream = self.incoming_streams[usize::from(one_way)].pop_front()?;
        self.stream_state(stream).announced = false;
        Some(stream)
    }

    /// Records that a handle of the stream exists.
    pub(super) fn hold<E: SessionEngine>(&mut self, stream: StreamId) {
        let state = self.stream_state(stream);
        state.open = true;
        state.had_handle = E::ONE_STREAM;
        if std::mem::take(&mut state.announced) {
            self.incoming_queue(stream).retain(|&begun| begun != stream);
        }
    }

    /// Returns the queue for streams that the peer has started: the queue of one-way streams if `stream` is one-way,
    /// otherwise the queue of two-way streams.
    pub(super) fn incoming_queue(&mut self, stream: StreamId) -> &mut VecDeque<StreamId> {
        &mut self.incoming_streams[usize::from(stream & ONE_WAY != 0)]
    }

    /// Wakes the reader of the stream. If there is no handle of the stream, lets the application accept the stream.
    #[inline]
    pub(super) fn readable(&mut self, stream: StreamId) {
        let state = self.stream_state(stream);
        state.is_drained = false;
        if state.open {
            state.reader.wake();
        } else if !state.had_handle && !std::mem::replace(&mut state.announced, true) {
            self.announce(stream);
        }
    }

    #[cold]
    fn announce(&mut self, stream: StreamId) {
        self.incoming_queue(stream).push_back(stream);
        self.acceptors.wake();
    }

    fn writable(&mut self) {
        for &stream in self.writers.values() {
            let state = match self.stream_states.get_mut(usize::try_from(stream).unwrap_or(usize::MAX)) {
                Some(state) => Some(state),
                None => self.high_stream_states.get_mut(&stream).map(|state| &mut **state),
            };
            if let Some(state) = state {
                state.writer.wake();
            }
        }
    }

    pub(super) fn wake_all(&mut self) {
        self.state_waiters.wake();
        self.acceptors.wake();
        for state in self
            .stream_states
            .iter_mut()
            .chain(self.high_stream_states.values_mut().map(|state| &mut **state))
        {
            state.reader.wake();
            state.writer.wake();
        }
    }
}

/// The states of streams below this number are stored in a vector. A single packet of a peer may contain the highest
/// stream number, and must not make the vector large.
const MAX_DENSE_STREAMS: StreamId = 256;
/// The maximum number of sessions per port that may wait to be accepted.
const MAX_BACKLOG: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    /// A byte on the last of 65,535 streams allocates memory for that stream only.
    #[test]
    fn a_high_stream_number_allocates_one_stream() {
        let mut session = SessionState::new(1, u64::from(u16::MAX));
        for stream in [65_534, 3, 300] {
            session.readable(stream);
            session.wrote(stream, 7);
        }
        assert!(
            (session.stream_states.len() as u64) < MAX_DENSE_STREAMS && session.high_stream_states.len() == 2
        );
        assert_eq!(std::iter::from_fn(|| session.take_incoming(false)).collect::<Vec<_>>(), [65_534, 3, 300]);
        assert!([65_534, 3, 300].iter().all(|&stream| session.stream_state(stream).written == 7));
        assert_eq!(session.in_use(&[3, 299, 300]), [3, 300]);
        assert_eq!(session.in_use(&[]), [0, 1, 2, 3, 300, 65_534]);
    }
}
