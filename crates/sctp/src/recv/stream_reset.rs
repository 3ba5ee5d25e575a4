//! Numbers of the peer that begin anew.
//!
//! Home of RFC 6525 §5.2.2 and §5.2.4, and of RFC 9260 §5.2.4 A (what they ask of the receiving half).

use super::RecvHalf;
use super::reassembly::Reassembly;

impl RecvHalf {
    /// The peer's initial TSN, before any reset.
    pub(crate) fn initial_tsn(&self) -> u32 {
        self.tracker.initial()
    }

    /// How far `tsn` lies beyond the Cumulative TSN Ack; not above zero when it has been reached.
    pub(crate) fn beyond(&self, tsn: u32) -> i32 {
        tsn.wrapping_sub(self.tracker.cumulative()) as i32
    }

    /// A chunk is not taken now; the peer will send it again.
    pub(crate) fn refuse(&mut self) {
        self.ack.on_refused();
    }

    /// A message of one of `streams` (none: any) is under way.
    pub(crate) fn is_inside(&self, streams: &[u16]) -> bool {
        match &self.interleaved {
            Some(interleaved) => interleaved.is_inside(streams),
            None => self.reassembly.as_ref().is_some_and(|reassembly| reassembly.is_inside(streams)),
        }
    }

    /// Something is missing, or under way.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.tracker.has_gaps() || self.is_inside(&[])
    }

    /// `streams` (none: all) expect number 0 next.
    pub(crate) fn reset(&mut self, streams: &[u16]) {
        if let Some(interleaved) = &mut self.interleaved {
            // In turn and with no message in the way, nothing is refused.
            interleaved.reset(streams, &mut self.order).unwrap_or(());
        }
        let shared = self.account.is_some();
        let reassembly = Reassembly::begun(&mut self.reassembly, shared);
        self.order.reset(streams, reassembly.pool());
    }

    /// RFC 6525 §5.2.4 G4: the peer goes on with TSN `next`; what was missing will not come.
    pub(crate) fn renumber(&mut self, next: u32) {
        if self.is_unfinished() && !self.interleaves {
            self.order.drop_tails();
            self.reassembly = None;
        }
        self.tracker.renumber(next);
        if let Some(reassembly) = &mut self.reassembly {
            reassembly.forget_held();
        }
        self.reset(&[]);
        self.order.take_dropped();
        if let Some(interleaved) = &mut self.interleaved {
            interleaved.take_dropped();
        }
        self.window.hold(self.order.held_bytes());
    }

    /// RFC 9260 §5.2.4 A: the peer has restarted, and all its numbers begin anew. What `before` had received in full, and
    /// acknowledged, and nobody has read yet can still be read; what was to come before it or belongs to it will not.
    pub(crate) fn inherit(&mut self, before: Self) {
        self.order = before.order;
        self.order.end_all();
        self.order.take_dropped();
        self.window.hold(self.order.held_bytes());
    }

    /// The peer may send on so many more streams.
    pub(crate) fn add_streams(&mut self, more: u16) {
        self.streams = self.streams.saturating_add(more);
    }
}
