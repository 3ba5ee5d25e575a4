//! Streams that begin anew: one exchange is cancelled, the association lives on.
//!
//! Who cancels asks for a reset both ways. At the peer both halves of it cancel
//! whoever holds the stream, whichever comes first: what the holder had not sent
//! is dropped (`Endpoint::cancel`), what was not read is thrown away. The side
//! that asked sends nothing new on the stream before both resets are done, so
//! that whatever is unread when its own half is done belongs to what is over.
//!
//! The application's half of RFC 6525 §5.2.2 and §5.2.3.

use super::{Association, Lane, Shared};
use anabranch_base::time::Instant;
use anabranch_sctp::{AssociationId, Direction, Endpoint, position_anew};
use std::task::{Context, Poll};

impl Shared {
    /// Cancels what is under way on a stream; false when that cannot be.
    pub(in crate::sctp) fn reset(&mut self, now: Instant, id: AssociationId, stream: u16) -> bool {
        let Some(association) = self.associations.get_mut(&id).filter(|a| a.closed.is_none()) else {
            return false;
        };
        let lane = association.lane(stream);
        if lane.resetting.is_some() {
            return true;
        }
        if self.engine.reset_streams(now, id, Direction::Both, &[stream]).is_err() {
            return false;
        }
        self.engine.cancel(now, id, stream);
        lane.resetting = Some([None, None]);
        self.bell.ring();
        true
    }

    /// Streams (none: all) have begun anew.
    pub(super) fn begun_anew(
        &mut self,
        now: Instant,
        id: AssociationId,
        direction: Direction,
        streams: &[u16],
        idle: bool,
    ) {
        let Some(association) = self.associations.get_mut(&id) else { return };
        for stream in association.among(streams) {
            if direction.is_incoming() {
                throw_away(&mut self.engine, now, id, stream);
                association.nothing_begun(stream);
            }
            let lane = association.lane(stream);
            if direction.is_outgoing() {
                lane.written = position_anew(lane.written);
                lane.settle(0, true);
            }
            if direction.is_incoming() {
                if !idle {
                    lane.read = position_anew(lane.read);
                }
                if lane.resetting.is_some() {
                    lane.settle(1, true);
                } else if lane.open {
                    lane.cancel();
                    self.engine.cancel(now, id, stream);
                }
            }
        }
        self.bell.ring();
    }

    /// The peer wants our streams (none: all) to begin anew: nobody there waits for what is on them.
    pub(super) fn cancelled_by_peer(&mut self, now: Instant, id: AssociationId, streams: &[u16]) {
        let Some(association) = self.associations.get_mut(&id) else { return };
        for stream in association.among(streams) {
            let lane = association.lane(stream);
            if lane.resetting.is_some() {
                continue;
            }
            self.engine.cancel(now, id, stream);
            if lane.open {
                lane.cancel();
                throw_away(&mut self.engine, now, id, stream);
            }
        }
        self.bell.ring();
    }

    /// The peer does not let streams (none: all) begin anew.
    pub(super) fn not_begun_anew(&mut self, id: AssociationId, direction: Direction, streams: &[u16]) {
        let Some(association) = self.associations.get_mut(&id) else { return };
        for stream in association.among(streams) {
            let lane = association.lane(stream);
            if direction.is_outgoing() {
                lane.settle(0, false);
            }
            if direction.is_incoming() {
                lane.settle(1, false);
            }
        }
    }
}

impl Association {
    /// Those of `streams` (none: all) that are in use here.
    pub(super) fn among(&self, streams: &[u16]) -> Vec<u16> {
        let used = |stream: &u16| usize::from(*stream) < self.lanes.len() || self.others.contains_key(stream);
        if streams.is_empty() {
            (0..self.lanes.len()).map(|stream| stream as u16).chain(self.others.keys().copied()).collect()
        } else {
            streams.iter().copied().filter(used).collect()
        }
    }

    /// What the peer had begun on a stream is over.
    fn nothing_begun(&mut self, stream: u16) {
        if std::mem::take(&mut self.lane(stream).announced) {
            self.begun.retain(|&begun| begun != stream);
        }
    }

    /// Ready when the reset of a stream is over: whether it has begun anew.
    pub(in crate::sctp) fn poll_reset(&mut self, stream: u16, cx: &Context<'_>) -> Poll<bool> {
        let closed = self.closed.is_some();
        let lane = self.lane(stream);
        match lane.resetting {
            None => Poll::Ready(false),
            Some([Some(out), Some(back)]) => {
                lane.resetting = None;
                Poll::Ready(out && back)
            }
            Some(_) if closed => Poll::Ready(false),
            Some(_) => {
                lane.reader.wait(cx);
                Poll::Pending
            }
        }
    }
}

impl Lane {
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

/// Reads what nobody wants any more.
fn throw_away(engine: &mut Endpoint, now: Instant, id: AssociationId, stream: u16) {
    let mut buffer = [0; 4096];
    while let Ok(Some(_)) = engine.recv(now, id, stream, &mut buffer) {}
}
