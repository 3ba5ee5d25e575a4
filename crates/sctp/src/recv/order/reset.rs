//! Resets the sequence numbers of streams.
//!
//! Implements RFC 6525 §5.2.2 E3 and §5.2.4 G5 (as far as they concern the order of received messages).

use super::super::pool::Pool;
use super::{Order, Stream};

impl Stream {
    /// Delivers the messages that waited for an earlier message, and expects number 0 next. Returns how many messages
    /// were delivered.
    fn reset(&mut self, pool: &mut Pool) -> u64 {
        let mut released = 0;
        // Delivers the messages in the order of their numbers, which may wrap.
        let mut before = std::mem::take(&mut self.waiting);
        let after = before.split_off(&self.next_ssn);
        for (_, (to, payload)) in after.into_iter().chain(before) {
            self.ordered.push(&payload, to);
            pool.put(payload);
            released += 1;
        }
        self.next_ssn = 0;
        released
    }
}

impl Order {
    /// Resets the next expected sequence number of each stream in `streams` to 0. An empty list stands for all streams.
    /// None of these streams may have an incomplete message.
    pub(crate) fn reset(&mut self, streams: &[u16], pool: &mut Pool) {
        if let Some(skips) = &mut self.skips {
            skips.reset(streams);
        }
        if streams.is_empty() {
            for stream in self.streams.in_use() {
                self.begin_one(stream, pool);
            }
        }
        for &stream in streams {
            self.begin_one(stream, pool);
        }
    }

    fn begin_one(&mut self, stream: u16, pool: &mut Pool) {
        if let Some(slot) = self.streams.find(stream) {
            let released = self.streams.at(slot).reset(pool);
            self.pass(stream, false, released);
            self.emit_readable(slot, stream);
        }
    }

    /// Drops the unfinished messages of all streams, ordered and unordered, because the rest of these messages will not
    /// arrive.
    pub(crate) fn drop_tails(&mut self) {
        for stream in self.streams.in_use() {
            let Some(slot) = self.streams.find(stream) else { continue };
            for unordered in [false, true] {
                let state = self.streams.at(slot);
                if unordered && state.unordered.is_none() {
                    continue;
                }
                let unseen = state.ends_unseen(unordered);
                state.drop_tail(unordered);
                if unseen {
                    self.withdraw(stream, unordered);
                }
            }
            let state = self.streams.at(slot);
            let behind = std::mem::take(&mut state.blocked);
            let count = behind.len() as u64;
            for (to, payload) in behind {
                state.unordered.get_or_insert_default().push(&payload, to);
            }
            self.pass(stream, true, count);
        }
    }

    /// Called after a restart of the peer. Drops all data that cannot be read yet, and sets the next message number of
    /// every stream to 0.
    pub(crate) fn end_all(&mut self) {
        self.drop_tails();
        self.skips = None;
        self.out_of_order_messages = 0;
        for stream in self.streams.in_use() {
            if let Some(slot) = self.streams.find(stream) {
                let state = self.streams.at(slot);
                state.waiting.clear();
                state.next_ssn = 0;
                self.emit_readable(slot, stream);
            }
        }
    }

    /// Returns the number of bytes in two kinds of messages: those that can be read, and those that wait for an earlier
    /// message.
    pub(crate) fn held_bytes(&self) -> u64 {
        let of = |stream: &Stream| {
            let unordered = stream.unordered.as_deref().map_or(0, |lane| lane.bytes.len() - lane.taken);
            let waiting: usize = stream.waiting.values().map(|(_, payload)| payload.len()).sum();
            let behind: usize = stream.blocked.iter().map(|(_, payload)| payload.len()).sum();
            (stream.ordered.bytes.len() - stream.ordered.taken + unordered + waiting + behind) as u64
        };
        self.streams.iter().map(of).sum::<u64>() + self.last.left()
    }
}
