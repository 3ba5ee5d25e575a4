//! Streams that are reset: one exchange is cancelled, the session lives on.
//!
//! Who cancels asks for a reset both ways. At the peer both halves of it cancel
//! whoever holds the stream, whichever comes first: what the holder had not sent
//! is dropped, what was not read is thrown away. The side that asked sends
//! nothing new on the stream before both resets are done, so that whatever is
//! unread when its own half is done belongs to what is over.
//!
//! The application's half of RFC 6525 §5.2.2 and §5.2.3.

use super::SessionEngine;
use super::host::{EngineHost, SessionState, StreamState};
use crate::session::StreamId;
use anabranch_base::time::Instant;
use std::task::{Context, Poll};

/// Which directions of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResetDirections {
    /// What we send.
    pub outgoing: bool,
    /// What the peer sends.
    pub incoming: bool,
}

impl<E: SessionEngine> EngineHost<E> {
    /// Cancels what is under way on a stream; false when that cannot be.
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

    /// Streams (none: all) have been reset; `idle`: nothing was on what the peer sends.
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
                session.nothing_begun(stream);
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

    /// The peer wants our streams (none: all) reset: nobody there waits for what is on them.
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

    /// The peer does not let streams (none: all) be reset.
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
    /// Those of `streams` (none: all) that are in use here.
    pub(super) fn in_use(&self, streams: &[StreamId]) -> Vec<StreamId> {
        let near = self.stream_states.len() as u64;
        let used = |stream: &StreamId| *stream < near || self.others.contains_key(stream);
        if streams.is_empty() {
            (0..near).chain(self.others.keys().copied()).collect()
        } else {
            streams.iter().copied().filter(used).collect()
        }
    }

    /// What the peer had begun on a stream is over.
    fn nothing_begun(&mut self, stream: StreamId) {
        if std::mem::take(&mut self.stream_state(stream).announced) {
            self.begun_like(stream).retain(|&begun| begun != stream);
        }
    }

    /// Ready when the reset of a stream is over: whether it was done both ways.
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
    /// What came of one direction of our reset.
    fn settle(&mut self, which: usize, done: bool) {
        if let Some(resetting) = &mut self.resetting {
            resetting[which] = Some(done);
            self.reader.wake();
        }
    }

    /// Whoever holds it learns that nobody wants it any more.
    fn cancel(&mut self) {
        self.cancelled = true;
        self.reader.wake();
        self.writer.wake();
    }
}
