//! Decides whether a segment qualifies for the fast path, and whether a connection has anything to send.

use crate::conn::{Connection, Outbox, State};
use anabranch_base::Instant;
use anabranch_base::trace::Limit;
use anabranch_wire::tcp::Plain;

impl Connection {
    /// Returns whether this is exactly the segment expected next. If so, and if its checksum is right,
    /// [`on_expected`](Self::on_expected) may handle it.
    #[inline(always)]
    pub(crate) fn expects(&self, now: Instant, plain: &Plain) -> bool {
        let next = self.recv.next();
        let position = self.own_position(plain.ack);
        // RFC 7323 §3.2, §5.3: a negotiated timestamp is present and not older than the last one.
        let in_time = !self.agreed.timestamps
            || plain.stamps.is_some_and(|stamps| !self.agreed.is_outdated(now, stamps));
        // RFC 9293 §3.10.7.4, first: the segment has the next sequence number and fits the window.
        // Second to fourth, sixth and eighth: `Plain` has neither RST, SYN, URG nor FIN.
        // Fifth: the acknowledgement is plausible and not old.
        self.state == State::Established
            && plain.seq == self.ack_of(next)
            && next + plain.length as u64 <= self.recv.edge()
            && position >= self.send.board.una() as i64
            && position <= self.send.highest_sent() as i64
            && in_time
            && !self.orphan
    }

    /// Returns whether the checksum of a segment of this connection is right.
    #[inline(always)]
    pub(crate) fn is_intact(&self, segment: &[u8]) -> bool {
        self.template.as_ref().is_some_and(|template| template.is_intact(segment))
    }

    /// Returns whether the congestion window had no room for another segment at the last poll.
    #[inline]
    pub(crate) fn waits_for_acknowledgements(&self, out: &Outbox) -> bool {
        self.send.limit == Limit::Congestion && !out.tracing && out.fast_path
    }

    /// Returns whether there is nothing to send, or all that is left waits for acknowledgements. Polling for a segment
    /// would give none, and would record no more than this does.
    #[inline(always)]
    pub(crate) fn is_held_back(&mut self, out: &Outbox) -> bool {
        if !out.fast_path {
            return self.is_at_rest(out);
        }
        // With tracing on, a poll must run to record the limit.
        self.waits_for_nothing_else(out)
            && (self.send.is_at_rest() || !out.tracing && self.send.is_held_back())
    }
}
