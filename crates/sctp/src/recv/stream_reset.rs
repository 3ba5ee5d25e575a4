//! Resets the sequence numbers of the peer's streams, and the peer's TSNs.
//!
//! Implements RFC 6525 §5.2.2 and §5.2.4, and RFC 9260 §5.2.4 A (as far as they concern the receiving half).

use super::RecvHalf;
use super::reassembly::Reassembly;

impl RecvHalf {
    /// Returns the peer's initial TSN, before any reset.
    pub(crate) fn initial_tsn(&self) -> u32 {
        self.tracker.initial()
    }

    /// Returns how far `tsn` is ahead of the Cumulative TSN Ack. Zero or negative if the TSN is acknowledged.
    pub(crate) fn beyond(&self, tsn: u32) -> i32 {
        tsn.wrapping_sub(self.tracker.cumulative()) as i32
    }

    /// Records that a chunk was refused; the peer will retransmit it.
    pub(crate) fn refuse(&mut self) {
        self.ack.on_refused();
    }

    /// Returns whether a message of one of `streams` is incomplete. An empty list stands for any stream.
    pub(crate) fn is_inside(&self, streams: &[u16]) -> bool {
        match &self.interleaved {
            Some(interleaved) => interleaved.is_inside(streams),
            None => self.reassembly.as_ref().is_some_and(|reassembly| reassembly.is_inside(streams)),
        }
    }

    /// Returns whether a chunk is missing or a message is incomplete.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.tracker.has_gaps() || self.is_inside(&[])
    }

    /// Sets the next expected sequence number of each stream in `streams` to 0. An empty list stands for all streams.
    pub(crate) fn reset(&mut self, streams: &[u16]) {
        if let Some(interleaved) = &mut self.interleaved {
            // This call cannot fail, because messages are released in order and no message is in progress.
            interleaved.reset(streams, &mut self.order).unwrap_or(());
        }
        let shared = self.account.is_some();
        let reassembly = Reassembly::get_or_create(&mut self.reassembly, shared);
        self.order.reset(streams, reassembly.pool());
    }

    /// RFC 6525 §5.2.4 G4: continues with TSN `next` of the peer. Missing chunks will not arrive.
    pub(crate) fn renumber(&mut self, next: u32) {
        if self.is_unfinished() && !self.interleaves {
            self.order.drop_tails();
            self.reassembly = None;
        }
        self.tracker.renumber(next);
        if let Some(reassembly) = &mut self.reassembly {
            reassembly.forget_waiting();
        }
        self.reset(&[]);
        self.order.take_dropped();
        if let Some(interleaved) = &mut self.interleaved {
            interleaved.take_dropped();
        }
        self.window.set_used(self.order.held_bytes());
    }

    /// RFC 9260 §5.2.4 A: takes over the data received before a restart of the peer. The sequence numbers of messages
    /// (SSN, MID) start again at 0 on all streams. Complete messages of `before` can still be read if no earlier
    /// message of their stream is missing. All other data is dropped.
    pub(crate) fn inherit(&mut self, before: Self) {
        self.order = before.order;
        self.order.end_all();
        self.order.take_dropped();
        self.window.set_used(self.order.held_bytes());
    }

    /// Allows the peer to send on `more` additional streams.
    pub(crate) fn add_streams(&mut self, more: u16) {
        self.streams = self.streams.saturating_add(more);
    }
}
