//! Releases acknowledged bytes and frees their memory.
//!
//! A SACK may acknowledge many messages at once. The bytes of consecutive messages of one stream are freed together.
//!
//! `send/sack.rs` decides when bytes may be freed (RFC 9260 §6.2.1).

use super::Queue;
use super::limited::ReliabilityPolicy;
use std::ops::Range;

impl Queue {
    /// Releases `length` more cumulatively acknowledged bytes of a message.
    #[inline]
    pub(crate) fn release(&mut self, message: u32, length: u32) {
        self.release_later(message, 0, length);
        self.release_now();
    }

    /// Like [`release`](Self::release), but leaves the freeing of memory to the next
    /// [`release_now`](Self::release_now), which frees the memory of many messages at once.
    #[inline]
    pub(crate) fn release_later(&mut self, message: u32, offset: u32, length: u32) {
        if !matches!(self.messages[message as usize].policy, ReliabilityPolicy::Abandoned(_)) {
            self.buffered -= u64::from(length);
        }
        let stored = &mut self.messages[message as usize];
        if stored.policy != ReliabilityPolicy::Full {
            return self.release_limited(message, length);
        }
        let from = stored.buffer_offset + u64::from(offset);
        let to = from + u64::from(length);
        stored.released_out_of_order |= offset != stored.released;
        stored.released += length;
        let (slot, done) = (stored.slot, stored.released == stored.length);
        if done {
            self.free.push(&mut self.messages, message);
        }
        if self.range_to_free.0 == slot && self.range_to_free.1.end == from {
            self.range_to_free.1.end = to;
            return;
        }
        self.release_now();
        self.range_to_free = (slot, from..to);
    }

    #[inline]
    pub(crate) fn release_now(&mut self) {
        let (slot, Range { start, end }) = self.range_to_free.clone();
        if start == end {
            return;
        }
        self.range_to_free.1.start = end;
        self.count_off(slot, end - start);
        let bytes = &mut self.streams.at(slot as usize).bytes;
        bytes.free(start, end - start);
        if bytes.is_empty() {
            self.on_stream_idle(slot as usize);
        } else if self.holds_much() {
            self.trim(slot as usize);
        }
    }

    /// Handles a stream that has nothing left to send. The stream keeps its memory for the next message as long as
    /// all memory kept by such streams is less than one send buffer.
    pub(super) fn on_stream_idle(&mut self, slot: usize) {
        let most = self.most_resting();
        let bytes = &mut self.streams.at(slot).bytes;
        if self.idle_memory + bytes.capacity() <= most {
            self.idle_memory += bytes.capacity();
        } else {
            let (before, left) = (bytes.capacity(), most.saturating_sub(self.idle_memory));
            bytes.release_spare(if self.memory.is_some() { left } else { 0 });
            self.idle_memory += bytes.capacity();
            self.payload_memory -= before - bytes.capacity();
            self.settle();
        }
    }
}
