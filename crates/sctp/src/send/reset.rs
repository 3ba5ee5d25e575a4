//! Stream resets, as far as they concern sent data.
//!
//! Messages queued during a reset are held back until the reset ends. The caller releases them with a ticket that
//! identifies the reset ([`queue`](super::queue)). A FORWARD TSN never lists sequence numbers from before a reset
//! together with numbers from after that reset.
//!
//! Implements no RFC rule: `association::reconfig` implements RFC 6525.

use super::SendHalf;
use super::queue::ReservationId;

impl SendHalf {
    /// Records a reset that takes effect after all chunks sent so far: the sequence numbers of later chunks start again
    /// at 0.
    pub(crate) fn record_reset(&mut self) {
        let (base, end) = (self.outstanding.base(), self.outstanding.end());
        self.resets.retain(|&at| at > base && at < end);
        self.resets.push(end);
    }

    /// Holds back messages queued on `streams` until the reset of these streams is answered. An empty list stands for
    /// all streams.
    pub(crate) fn hold(&mut self, ticket: ReservationId, streams: &[u16]) {
        self.queue.hold(ticket, streams);
    }

    /// Returns whether messages of one of `streams` are held back. An empty list stands for any stream.
    pub(crate) fn is_held(&self, streams: &[u16]) -> bool {
        self.queue.is_held(streams)
    }

    /// Returns whether each message that was queued before the reset request `ticket` has been dropped, or has TSNs for
    /// all its chunks.
    pub(crate) fn is_clear(&self, ticket: ReservationId) -> bool {
        self.queue.is_clear(ticket)
    }

    /// Called when the peer has answered the reset request `ticket`. Releases the messages that were held back for this
    /// request. `anew` says whether sequence numbers start again at 0.
    pub(crate) fn resume(&mut self, ticket: ReservationId, anew: bool) {
        self.queue.resume(ticket, anew);
    }

    /// Returns whether a message was queued on one of `streams` since the last reset of that stream, even if the
    /// message still waits for its sequence number. An empty list stands for any stream.
    pub(crate) fn has_begun(&self, streams: &[u16]) -> bool {
        self.queue.is_numbered(streams) || self.queue.is_waiting(streams)
    }

    /// Resets the sequence numbers of all streams.
    pub(crate) fn reset_streams(&mut self) {
        self.queue.reset();
    }

    /// Sets the TSN of the next chunk. Must be called only while no chunk is outstanding.
    pub(crate) fn renumber(&mut self, next: u32) {
        self.outstanding.renumber(next);
    }
}
