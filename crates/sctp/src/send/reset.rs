//! Stream resets, as far as sent data is concerned.
//!
//! Messages queued during a reset are held back under a ticket ([`queue`](super::queue)). A FORWARD TSN keeps numbers
//! from before a reset apart from those after it.
//!
//! Home of no rule: RFC 6525 is `association::reconfig`'s.

use super::SendHalf;
use super::queue::Ticket;

impl SendHalf {
    /// Records that streams are asked to reset after all data sent so far.
    pub(crate) fn record_reset(&mut self) {
        let (base, end) = (self.outstanding.base(), self.outstanding.end());
        self.resets.retain(|&at| at > base && at < end);
        self.resets.push(end);
    }

    /// Holds back messages queued on `streams` (empty for all) until their reset is answered.
    pub(crate) fn hold(&mut self, ticket: Ticket, streams: &[u16]) {
        self.queue.hold(ticket, streams);
    }

    /// Whether one of `streams` (empty for any) is being held.
    pub(crate) fn is_held(&self, streams: &[u16]) -> bool {
        self.queue.is_held(streams)
    }

    /// Whether all messages queued before this ticket have a TSN.
    pub(crate) fn is_clear(&self, ticket: Ticket) -> bool {
        self.queue.is_clear(ticket)
    }

    /// The reset was answered; `anew` says that the sequence numbers are reset.
    pub(crate) fn resume(&mut self, ticket: Ticket, anew: bool) {
        self.queue.resume(ticket, anew);
    }

    /// Whether a message was queued on one of `streams` (empty for any) since their last reset, numbered or waiting
    /// for a number.
    pub(crate) fn has_begun(&self, streams: &[u16]) -> bool {
        self.queue.is_numbered(streams) || self.queue.is_waiting(streams)
    }

    /// Resets the sequence numbers of all streams.
    pub(crate) fn reset_streams(&mut self) {
        self.queue.reset();
    }

    /// Sets the TSN of the next chunk; nothing is outstanding.
    pub(crate) fn renumber(&mut self, next: u32) {
        self.outstanding.renumber(next);
    }
}
