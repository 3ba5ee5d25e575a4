//! Skips abandoned ordered messages, and drops messages that stay unfinished.
//!
//! For a stream on which no message has arrived yet, only the next expected sequence number is stored. A FORWARD TSN
//! with a long list of such streams therefore costs little memory.
//!
//! Implements RFC 3758 §3.6 (stranded messages, partial delivery).

use super::{Order, Pool, Stream};
use std::collections::BTreeMap;

/// Half the range of stream sequence numbers. A number that is further ahead counts as behind, because the numbers
/// wrap.
const HALF: u16 = 1 << 15;

/// The messages that the peer has abandoned.
#[derive(Debug, Default)]
pub(super) struct Skips {
    /// Whether the peer has abandoned messages. Chunks that belong to such messages are dropped without an error.
    has_abandoned: bool,
    /// For each stream without a slot: the sequence number that its next ordered message will have. A stream without an
    /// entry starts at 0.
    next: BTreeMap<u16, u16>,
    /// Number of bytes dropped and not yet credited to the receive window.
    pub(super) dropped: u64,
}

impl Skips {
    /// Resets the next sequence number of each stream in `streams` to 0. An empty list stands for all streams.
    pub(super) fn reset(&mut self, streams: &[u16]) {
        self.next.retain(|stream, _| !streams.is_empty() && streams.binary_search(stream).is_err());
    }

    /// Drops a message if the peer has abandoned it. `ahead` is the distance from the next expected number to the
    /// number of the message. Returns whether the message was dropped.
    pub(super) fn drops(&mut self, ahead: u16, payload: &[u8]) -> bool {
        let given_up = self.has_abandoned && ahead >= HALF;
        if given_up {
            self.dropped += payload.len() as u64;
        }
        given_up
    }
}

impl Stream {
    /// Returns the sequence number of the waiting message that is the first in stream order.
    fn lowest_waiting(&self) -> Option<u16> {
        let (mut after, mut all) = (self.waiting.range(self.next_ssn..), self.waiting.keys());
        after.next().map(|(&ssn, _)| ssn).or_else(|| all.next().copied())
    }

    /// Drops the unfinished message at the end of the queue of ordered or unordered messages. If the application has
    /// read a part of it, the application is informed that the message has ended. Returns the number of unread bytes.
    pub(super) fn drop_tail(&mut self, unordered: bool) -> u64 {
        let reading = self.partly_read == Some(unordered);
        let lane = self.lane(unordered);
        let Some(tail) = lane.tail.take() else {
            return 0;
        };
        let dropped = tail.received;
        lane.bytes.truncate(lane.bytes.len() - dropped as usize);
        if reading && lane.messages.is_empty() {
            // RFC 3758 §3.6: the reader of a partial message is informed that the rest of that message will not arrive.
            lane.end_message(tail.end(true));
        }
        dropped.into()
    }
}

impl Order {
    /// Returns the slot of a stream, and creates it if necessary. A new slot expects the message after the last message
    /// that was skipped on the stream.
    #[inline]
    pub(super) fn slot(&mut self, stream: u16) -> usize {
        let skips = &mut self.skips;
        self.streams.slot(stream, || Stream {
            next_ssn: skips.as_mut().and_then(|skips| skips.next.remove(&stream)).unwrap_or(0),
            ..Stream::default()
        })
    }

    /// Returns the number of bytes dropped since the last call.
    pub(crate) fn take_dropped(&mut self) -> u64 {
        self.skips.as_mut().map_or(0, |skips| std::mem::take(&mut skips.dropped))
    }

    /// Drops the unfinished message at the end of one of the two queues of `stream`. If `unordered` is true, this is
    /// the queue of unordered messages. Otherwise it is the queue of ordered messages, and the message must have the
    /// number `ssn`.
    pub(crate) fn cut_short(&mut self, stream: u16, unordered: bool, ssn: u16, pool: &mut Pool) {
        let Some(slot) = self.streams.find(stream) else {
            return;
        };
        let state = self.streams.at(slot);
        if state.lane(unordered).tail.as_ref().is_none_or(|tail| !unordered && tail.ssn != ssn) {
            return;
        }
        let unseen = state.ends_unseen(unordered);
        self.skips.get_or_insert_default().dropped += state.drop_tail(unordered);
        let released = if unordered { state.let_pass(pool) } else { 0 };
        if unseen {
            self.withdraw(stream, unordered);
        }
        self.pass(stream, unordered, released);
        self.emit_readable(slot, stream);
    }

    /// Sets the number of the next ordered message on `stream`.
    pub(crate) fn expect_next(&mut self, stream: u16, ssn: u16) {
        match self.streams.find(stream) {
            Some(slot) => self.streams.at(slot).next_ssn = ssn,
            None => drop(self.skips.get_or_insert_default().next.insert(stream, ssn)),
        }
    }

    /// RFC 3758 §3.6: skips the missing ordered messages of `stream` up to `ssn`. Complete messages up to `ssn` are
    /// delivered.
    pub(crate) fn skip(&mut self, stream: u16, ssn: u16, pool: &mut Pool) {
        let skips = self.skips.get_or_insert_default();
        skips.has_abandoned = true;
        let Some(slot) = self.streams.find(stream) else {
            let next = skips.next.entry(stream).or_default();
            if ssn.wrapping_sub(*next) < HALF {
                *next = ssn.wrapping_add(1);
            }
            return;
        };
        let state = self.streams.at(slot);
        let ahead = ssn.wrapping_sub(state.next_ssn);
        if ahead >= HALF {
            return;
        }
        // The unfinished message is one of the skipped messages. It is dropped, because the rest of it will not arrive.
        let unseen = state.ends_unseen(false);
        skips.dropped += state.drop_tail(false);
        let (next, mut released) = (state.next_ssn, 0);
        // Delivers waiting messages up to `ssn`, the lowest first. The numbers of messages may wrap.
        while let Some(waiting) = state.lowest_waiting().filter(|w| w.wrapping_sub(next) <= ahead)
            && let Some((to, payload)) = state.waiting.remove(&waiting)
        {
            state.ordered.push(&payload, to);
            pool.put(payload);
            released += 1;
        }
        state.next_ssn = ssn.wrapping_add(1);
        released += state.release(pool);
        if unseen {
            self.withdraw(stream, false);
        }
        self.pass(stream, false, released);
        self.emit_readable(slot, stream);
    }
}
