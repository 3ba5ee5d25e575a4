//! Streams that begin anew, as far as what is sent on them is concerned.
//!
//! What is given on them meanwhile is held back under a ticket ([`queue`](super::queue)). What a FORWARD TSN says of
//! numbers from before is kept apart from those after.
//!
//! Home of no rule: RFC 6525 is `association::reconfig`'s.

use super::SendHalf;
use super::queue::Ticket;

impl SendHalf {
    /// Streams are asked to begin anew behind all that was sent.
    pub(crate) fn record_reset(&mut self) {
        let (base, end) = (self.outstanding.base(), self.outstanding.end());
        self.resets.retain(|&at| at > base && at < end);
        self.resets.push(end);
    }

    /// What is given on `streams` (none: all) from now on waits until their reset has been answered.
    pub(crate) fn hold(&mut self, ticket: Ticket, streams: &[u16]) {
        self.queue.hold(ticket, streams);
    }

    /// One of `streams` (none: any) is being held.
    pub(crate) fn is_held(&self, streams: &[u16]) -> bool {
        self.queue.is_held(streams)
    }

    /// All that was given before this ticket has a TSN.
    pub(crate) fn is_clear(&self, ticket: Ticket) -> bool {
        self.queue.is_clear(ticket)
    }

    /// The reset has been answered; `anew`: their numbers begin anew.
    pub(crate) fn resume(&mut self, ticket: Ticket, anew: bool) {
        self.queue.resume(ticket, anew);
    }

    /// Something was given on one of `streams` (none: any) since their numbers began: with a number, or waiting for one.
    pub(crate) fn has_begun(&self, streams: &[u16]) -> bool {
        self.queue.is_numbered(streams) || self.queue.is_waiting(streams)
    }

    /// The numbers of all streams begin anew.
    pub(crate) fn reset_streams(&mut self) {
        self.queue.reset();
    }

    /// Nothing is outstanding, and the next chunk has this TSN.
    pub(crate) fn renumber(&mut self, next: u32) {
        self.outstanding.renumber(next);
    }
}
