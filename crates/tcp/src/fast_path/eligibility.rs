//! Decides whether a segment qualifies for the fast path, and whether a connection has anything to send.

use crate::conn::{Connection, Outbox};
use crate::state::State;
use anabranch_base::Instant;
use anabranch_base::trace::Limit;
use anabranch_wire::tcp::PlainSegment;

impl Connection {
    /// Returns whether `plain` is exactly the segment that the connection expects next. If so,
    /// [`on_expected`](Self::on_expected) may handle the segment after its checksum was verified.
    #[inline(always)]
    pub(crate) fn expects(&self, now: Instant, plain: &PlainSegment) -> bool {
        let next = self.recv.next();
        let position = self.own_position(plain.ack);
        // RFC 7323 §3.2, §5.3: if timestamps are negotiated, a timestamp is present and not older than TS.Recent.
        let in_time = !self.options.timestamps
            || plain.stamps.is_some_and(|stamps| !self.options.is_outdated(now, stamps));
        // The checks of RFC 9293 §3.10.7.4. First: the segment has the next sequence number and fits into the window.
        // Second (RST), fourth (SYN), sixth (URG) and eighth (FIN): a `PlainSegment` has none of these flags. Third
        // (security): not implemented. Fifth (ACK): the acknowledgement is plausible and not old.
        self.state == State::Established
            && plain.seq == self.ack_of(next)
            && next + plain.length as u64 <= self.recv.edge()
            && position >= self.send.scoreboard.una() as i64
            && position <= self.send.highest_sent() as i64
            && in_time
            && !self.orphan
    }

    /// Returns whether the checksum of a segment of this connection is right.
    #[inline(always)]
    pub(crate) fn is_intact(&self, segment: &[u8]) -> bool {
        self.template.as_ref().is_some_and(|template| template.is_intact(segment))
    }

    /// Returns whether the congestion window was full at the last poll, so that only an acknowledgement can allow
    /// another segment.
    #[inline]
    pub(crate) fn waits_for_acknowledgements(&self, out: &Outbox) -> bool {
        self.send.limit == Limit::Congestion && !out.tracing && out.fast_path
    }

    /// Returns whether a poll would return no segment: either there is nothing to send, or all data must wait for
    /// acknowledgements. If so, this function has already recorded what the poll would record.
    #[inline(always)]
    pub(crate) fn is_held_back(&mut self, out: &Outbox) -> bool {
        if !out.fast_path {
            return self.is_at_rest(out);
        }
        // If tracing is on, a poll must run, because only a poll writes the reason for the wait to the trace.
        self.waits_for_nothing_else(out)
            && (self.send.is_at_rest() || !out.tracing && self.send.is_held_back())
    }
}
