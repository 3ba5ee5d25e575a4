//! Stream resets, which cancel one exchange while the session continues.
//!
//! The side that cancels an exchange requests a reset of the stream in both directions. At the peer, the first reset of
//! a direction cancels the exchange: unsent data is dropped and unread data is discarded. The requesting side sends no
//! new data on the stream until both directions have been reset. Therefore all data that the peer discards belongs to
//! the cancelled exchange.
//!
//! RFC 6525 specifies stream resets. The SCTP engine implements the protocol of RFC 6525. This module implements the
//! application's part of RFC 6525 §5.2.2 and §5.2.3.

use super::SessionEngine;
use super::host::{EngineHost, SessionState, StreamState};
use crate::session::StreamId;
use anabranch_base::time::Instant;
use std::task::{Context, Poll};

/// The directions of a stream that a reset covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResetDirections {
    /// The direction in which this side sends.
    pub outgoing: bool,
    /// The direction in which the peer sends.
    pub incoming: bool,
}

impl<E: SessionEngine> EngineHost<E> {
    /// Cancels the exchange on a stream. Returns false if the transport or the session does not allow it.
    pub(super) fn reset(&mut self, now: Instant, id: E::Id, stream: StreamId) -> bool {
        let Some(session) = self.sessions.get_mut(&id).filter(|session| session.closed.is_none()) else {
            return false;
        };
        let state = session.stream_state(stream);
        if state.resetting.is_some() {
            return true;
        }
        if !self.engine.reset_stream(now, id, stream) {
            return false;
        }
        state.resetting = Some([None, None]);
        self.notify.notify();
        true
    }

    /// Handles the completed reset of `streams`; an empty list stands for all streams. `idle` is true if the peer had
    /// sent no data on the streams between their previous reset and this reset.
    pub fn streams_reset(
        &mut self,
        now: Instant,
        id: E::Id,
        directions: ResetDirections,
        streams: &[StreamId],
        idle: bool,
    ) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        for stream in session.in_use(streams) {
            if directions.incoming {
                self.engine.discard(now, id, stream);
                session.remove_incoming(stream);
            }
            let state = session.stream_state(stream);
            if directions.outgoing {
                state.written = E::position_after_reset(state.written);
                state.settle(0, true);
            }
            if directions.incoming {
                if !idle {
                    state.read = E::position_after_reset(state.read);
                }
                if state.resetting.is_some() {
                    state.settle(1, true);
                } else if state.open {
                    state.cancel();
                    self.engine.cancel(now, id, stream);
                }
            }
        }
        self.notify.notify();
    }

    /// Handles the peer's request that this side resets its outgoing direction of `streams`; an empty list stands for
    /// all streams. The peer no longer wants the data on these streams, so their exchanges are cancelled.
    pub fn reset_requested(&mut self, now: Instant, id: E::Id, streams: &[StreamId]) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        for stream in session.in_use(streams) {
            let state = session.stream_state(stream);
            if state.resetting.is_some() {
                continue;
            }
            self.engine.cancel(now, id, stream);
            if state.open {
                state.cancel();
                self.engine.discard(now, id, stream);
            }
        }
        self.notify.notify();
    }

    /// Handles the peer's refusal to reset `streams`; an empty list stands for all streams.
    pub fn reset_failed(&mut self, id: E::Id, directions: ResetDirections, streams: &[StreamId]) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        for stream in session.in_use(streams) {
            let state = session.stream_state(stream);
            if directions.outgoing {
                state.settle(0, false);
            }
            if directions.incoming {
                state.settle(1, false);
            }
        }
    }
}

impl SessionState {
    /// Returns those of `streams` that this side uses. If `streams` is empty, returns all streams that this side uses.
    pub(super) fn in_use(&self, streams: &[StreamId]) -> Vec<StreamId> {
        let dense = self.stream_states.len() as u64;
        let used = |stream: &StreamId| *stream < dense || self.high_stream_states.contains_key(stream);
        if streams.is_empty() {
            (0..dense).chain(self.high_stream_states.keys().copied()).collect()
        } else {
            streams.iter().copied().filter(used).collect()
        }
    }

    /// Removes a stream from the queue of streams that the peer has started.
    fn remove_incoming(&mut self, stream: StreamId) {
        if std::mem::take(&mut self.stream_state(stream).announced) {
            self.incoming_queue(stream).retain(|&begun| begun != stream);
        }
    }

    /// Ready when no reset of the stream is in progress. The result is true if both directions have been reset.
    pub(super) fn poll_reset(&mut self, stream: StreamId, cx: &Context<'_>) -> Poll<bool> {
        let closed = self.closed.is_some();
        let state = self.stream_state(stream);
        match state.resetting {
            None => Poll::Ready(false),
            Some([Some(out), Some(back)]) => {
                state.resetting = None;
                Poll::Ready(out && back)
            }
            Some(_) if closed => Poll::Ready(false),
            Some(_) => {
                state.reader.wait(cx);
                Poll::Pending
            }
        }
    }
}

impl StreamState {
    /// Records the result of a reset requested by this side, for one direction.
    fn settle(&mut self, direction: usize, done: bool) {
        if let Some(resetting) = &mut self.resetting {
            resetting[direction] = Some(done);
            self.reader.wake();
        }
    }

    /// Records that the peer has cancelled the exchange on this stream, and wakes the tasks that read or write it.
    fn cancel(&mut self) {
        self.cancelled = true;
        self.reader.wake();
        self.writer.wake();
    }
}
