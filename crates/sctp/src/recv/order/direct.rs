//! Reassembles a message directly at the end of its lane, from which the application reads. A lane is the queue of the
//! ordered or of the unordered messages of a stream. Such a message may be delivered in parts before it is complete.
//!
//! Implements RFC 9260 §6.9 and §11.1.7 (partial delivery), as far as they concern one stream.

use super::read_queue::Tail;
use super::{Delivery, Order, Stream};
use crate::recv::Violation;
use crate::recv::pool::Pool;

impl Order {
    /// Starts an ordered message if it is the next message of its stream, and returns true. The bytes of the message
    /// must then be passed to [`extend_direct`](Self::extend_direct). Returns false, and changes nothing, if another
    /// message comes first.
    pub(crate) fn begin_direct(&mut self, to: Delivery) -> Result<bool, Violation> {
        let Delivery { stream, ssn, ppid, tsn, .. } = to;
        let slot = self.slot(stream);
        let state = self.streams.at(slot);
        if ssn != state.next_ssn {
            return Ok(false);
        }
        if state.ordered.tail.is_some() {
            return Err(Violation("6.5: a stream sequence number was used twice"));
        }
        state.ordered.tail = Some(Tail { received: 0, ssn, ppid, tsn, in_parts: false });
        Ok(true)
    }

    /// Appends the beginning of an unfinished message, `bytes`, to the read queue of its stream, if the message may be
    /// delivered in parts now. Returns whether the bytes were appended.
    pub(crate) fn adopt(&mut self, to: Delivery, bytes: &[u8]) -> bool {
        let Delivery { stream, ssn, ppid, tsn, unordered } = to;
        let slot = self.slot(stream);
        let state = self.streams.at(slot);
        if !unordered && ssn != state.next_ssn {
            return false;
        }
        let lane = state.lane(unordered);
        if lane.tail.is_some() {
            return false;
        }
        lane.bytes.extend(bytes);
        lane.tail = Some(Tail { received: bytes.len() as u32, ssn, ppid, tsn, in_parts: true });
        self.arrive(stream, unordered, 1);
        self.emit_readable(slot, stream);
        true
    }

    /// Appends bytes to the unfinished last message in the read queue of a stream. If that message was abandoned, drops
    /// the bytes.
    pub(crate) fn extend_direct(&mut self, stream: u16, unordered: bool, ssn: u16, payload: &[u8]) {
        let slot = self.streams.slot(stream, Stream::default);
        let lane = self.streams.at(slot).lane(unordered);
        let Some(tail) = lane.tail.as_mut().filter(|tail| unordered || tail.ssn == ssn) else {
            // The message was abandoned, so its bytes are dropped.
            self.skips.get_or_insert_default().dropped += payload.len() as u64;
            return;
        };
        lane.bytes.extend(payload);
        tail.received += payload.len() as u32;
        if tail.in_parts {
            self.emit_readable(slot, stream);
        }
    }

    /// Delivers the unfinished ordered or unordered message of `stream` in parts from now on. Does so only if the
    /// message is large, or if `at_once` is true because buffer space is short.
    pub(crate) fn expose(&mut self, stream: u16, unordered: bool, at_once: bool) {
        let partial_delivery = self.partial_delivery;
        let slot = self.streams.slot(stream, Stream::default);
        if let Some(tail) = &mut self.streams.at(slot).lane(unordered).tail
            && !tail.in_parts
            && (at_once || u64::from(tail.received) >= partial_delivery)
        {
            tail.in_parts = true;
            self.arrive(stream, unordered, 1);
            self.emit_readable(slot, stream);
        }
    }

    /// Completes the unfinished message at the end of a lane.
    pub(crate) fn finish_direct(
        &mut self,
        stream: u16,
        unordered: bool,
        ssn: u16,
        pool: &mut Pool,
    ) -> Result<(), Violation> {
        let slot = self.streams.slot(stream, Stream::default);
        let state = self.streams.at(slot);
        let lane = state.lane(unordered);
        let Some(tail) = lane.tail.take_if(|tail| unordered || tail.ssn == ssn) else {
            return Ok(());
        };
        let seen = tail.in_parts;
        lane.end_message(tail.end(false));
        let released = if unordered {
            state.let_pass(pool)
        } else {
            state.next_ssn = state.next_ssn.wrapping_add(1);
            state.release(pool)
        };
        self.completed += 1;
        self.arrive(stream, unordered, u64::from(!seen));
        self.pass(stream, unordered, released);
        self.emit_readable(slot, stream);
        Ok(())
    }
}
