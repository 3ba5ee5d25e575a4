//! Whether a segment may take the fast path, and whether a connection has anything to send.

use crate::conn::{Connection, Outbox, State};
use anabranch_base::Instant;
use anabranch_base::trace::Limit;
use anabranch_wire::tcp::Plain;

impl Connection {
    /// Whether this is the very segment that was to be expected: [`on_expected`](Self::on_expected) may have it, once
    /// its checksum is known to be right.
    #[inline(always)]
    pub(crate) fn expects(&self, now: Instant, plain: &Plain) -> bool {
        let next = self.recv.next();
        let position = self.own_position(plain.ack);
        // RFC 7323 §3.2, §5.3: what was agreed on is there and has not run backwards.
        let in_time = !self.agreed.timestamps
            || plain.stamps.is_some_and(|stamps| !self.agreed.is_outdated(now, stamps));
        // RFC 9293 §3.10.7.4, first: the next number, and all of it within the window.
        // Second to fourth, sixth and eighth: `Plain` has neither RST, SYN, URG nor FIN.
        // Fifth: an acknowledgement that can be believed, and is not old.
        self.state == State::Established
            && plain.seq == self.ack_of(next)
            && next + plain.length as u64 <= self.recv.edge()
            && position >= self.send.board.una() as i64
            && position <= self.send.highest_sent() as i64
            && in_time
            && !self.orphan
    }

    /// Whether the checksum of a segment between our ends is right.
    #[inline(always)]
    pub(crate) fn is_intact(&self, segment: &[u8]) -> bool {
        self.template.as_ref().is_some_and(|template| template.is_intact(segment))
    }

    /// When it was asked for a segment last, the congestion window had no room for the next one.
    #[inline]
    pub(crate) fn waits_for_acknowledgements(&self, out: &Outbox) -> bool {
        self.send.limit == Limit::Congestion && !out.tracing && out.fast_path
    }

    /// All that is left waits for acknowledgements, or there is nothing: to ask for a segment
    /// would give none, and note no more than this does.
    #[inline(always)]
    pub(crate) fn is_held_back(&mut self, out: &Outbox) -> bool {
        if !out.fast_path {
            return self.is_at_rest(out);
        }
        // A trace is told what the limit is.
        self.waits_for_nothing_else(out)
            && (self.send.is_at_rest() || !out.tracing && self.send.is_held_back())
    }
}
