//! Reassembles I-DATA fragments into messages.
//!
//! Owns the incomplete messages. The key of a message consists of its stream, an ordered or unordered flag, and its
//! message identifier. This module extends identifiers and fragment numbers to 64 bits, so that they never wrap. The
//! next message of a stream is reassembled in the stream's buffer. Every other message has a buffer of its own.
//! Complete messages go to [`order`](super::order), which receives messages only in order. This module uses TSNs only
//! to decide which messages may be delivered in parts.
//!
//! Implements RFC 8260 §2.2.3.

use super::Violation;
use super::order::{Delivery, Order};
use super::pool::Pool;
use crate::streams::Streams;
use anabranch_wire::sctp::IData;
use std::collections::BTreeMap;

/// The 64-bit number of a stream's first message, whose Message Identifier (MID) is 0. Lower numbers stay free for MIDs
/// that count as older than MID 0, because a peer can send such MIDs.
const FIRST: u64 = 1 << 32;

/// The messages being reassembled in an association with interleaving.
#[derive(Debug, Default)]
pub(crate) struct Interleaved {
    streams: Streams<Stream>,
    /// Messages that have started, are incomplete, and are not delivered in parts. The key is the TSN of the first
    /// fragment, as an offset from the initial TSN.
    incomplete: BTreeMap<u64, MessageKey>,
    /// Unordered messages that could not be delivered in parts, because another message of their stream was being
    /// delivered in parts. Maps the stream, and the TSN of the first fragment as an offset from the initial TSN, to the
    /// message number. A correct peer never causes an entry, because it sends the unordered messages of a stream one
    /// after the other (RFC 8260 §2.2.2).
    blocked: BTreeMap<(u16, u64), u64>,
    /// The number of fragments that wait for an earlier fragment, plus the number of messages that wait for an earlier
    /// message.
    waiting_count: usize,
    /// The next message number for each stream that has no slot and on which the peer has skipped messages. The key
    /// holds the stream number and a flag that is true for unordered messages.
    skipped: BTreeMap<(u16, bool), u64>,
    /// Number of bytes dropped and not yet credited to the receive window.
    dropped: u64,
    pool: Pool,
}

/// Identifies a message.
#[derive(Clone, Copy, Debug)]
struct MessageKey {
    stream: u16,
    unordered: bool,
    number: u64,
}

#[derive(Debug)]
struct Stream {
    ordered: Sequence,
    unordered: Sequence,
}

#[derive(Debug)]
struct Sequence {
    /// For ordered messages, the number of the next message to be delivered. For unordered messages, one past the
    /// highest number seen.
    next: u64,
    /// The lowest message number that is still accepted after the peer last abandoned a message; 0 if it has abandoned
    /// none.
    floor: u64,
    /// Incomplete and waiting messages by number. Most sequences hold only one message. Each message is boxed, because
    /// a map node reserves room for several values.
    messages: BTreeMap<u64, Box<PartialMessage>>,
}

/// A message of which at least one fragment has arrived.
#[derive(Debug, Default)]
struct PartialMessage {
    /// The TSN offset, PPID and TSN of the first fragment. `None` until the first fragment arrives.
    begin: Option<(u64, u32, u32)>,
    /// The number of the next fragment to be appended.
    next: u64,
    /// The number of the last fragment, `None` until it arrives.
    last: Option<u64>,
    /// The assembled bytes of the message, except the bytes that are already in the stream's buffer.
    buffer: Vec<u8>,
    /// Whether the bytes of the message go directly to the stream's buffer.
    direct: bool,
    /// Fragments that wait for a missing fragment, by fragment number.
    waiting: BTreeMap<u64, Vec<u8>>,
}

impl PartialMessage {
    fn is_complete(&self) -> bool {
        self.last.is_some_and(|last| self.next > last)
    }
}

/// Extends `number` to 64 bits (RFC 8260 §2.1: serial number arithmetic of 32 bits). Returns the value closest to
/// `near` whose lower 32 bits are `number`.
fn count_on(near: u64, number: u32) -> Option<u64> {
    near.checked_add_signed(i64::from(number.wrapping_sub(near as u32).cast_signed()))
}

impl Interleaved {
    /// Creates the state without messages. `shared` says whether memory is shared with other associations.
    pub(crate) fn new(shared: bool) -> Self {
        Self { pool: Pool::new(shared), ..Self::default() }
    }

    /// Returns the number of waiting fragments and incomplete messages.
    #[inline]
    pub(crate) fn pieces(&self) -> usize {
        self.waiting_count + self.incomplete.len() + self.blocked.len()
    }

    /// Receives a fragment whose TSN has the given `offset`. `next` is the lowest TSN offset that has not arrived. With
    /// `at_once`, unfinished messages are delivered in parts, because buffer space is short.
    #[inline]
    pub(crate) fn accept(
        &mut self,
        data: &IData<'_>,
        offset: u64,
        next: u64,
        order: &mut Order,
        at_once: bool,
    ) -> Result<(), Violation> {
        let slot = self.slot(data.stream);
        let sequence = self.streams.at(slot).sequence(data.unordered);
        let Some(number) = count_on(sequence.next, data.mid) else {
            return Err(Violation("RFC 8260 2.1: a message identifier lies behind"));
        };
        if number < sequence.floor {
            self.dropped += data.payload.len() as u64;
            return Ok(());
        }
        if data.unordered {
            sequence.next = sequence.next.max(number + 1);
        } else if number < sequence.next {
            return Err(Violation("RFC 8260 2.1: a message identifier was used twice"));
        }
        let whole = data.begin && data.end;
        if whole && !sequence.messages.contains_key(&number) && (data.unordered || number == sequence.next) {
            order.deliver(
                delivery(
                    MessageKey { stream: data.stream, unordered: data.unordered, number },
                    data.ppid,
                    data.tsn.0,
                ),
                data.payload,
                &mut self.pool,
            )?;
            if !data.unordered {
                sequence.next += 1;
                self.release(slot, data.stream, order)?;
            }
        } else {
            let key = MessageKey { stream: data.stream, unordered: data.unordered, number };
            self.accept_part(slot, key, data, offset, order)?;
            self.hand_out_large(slot, key, next, order);
        }
        if at_once && !self.incomplete.is_empty() {
            self.hand_out_all(next, order);
        }
        Ok(())
    }

    /// Stops expecting messages up to `mid` in the ordered or unordered sequence of a stream. Complete messages are
    /// delivered, incomplete messages are dropped (RFC 8260 §2.3.1).
    pub(crate) fn skip_to(
        &mut self,
        stream: u16,
        unordered: bool,
        mid: u32,
        order: &mut Order,
    ) -> Result<(), Violation> {
        let Some(slot) = self.streams.find(stream) else {
            let next = self.skipped.entry((stream, unordered)).or_insert(FIRST);
            if let Some(number) = count_on(*next, mid)
                && number >= *next
            {
                *next = number + 1;
                if !unordered {
                    order.expect_next(stream, mid.wrapping_add(1) as u16);
                }
            }
            return Ok(());
        };
        let sequence = self.streams.at(slot).sequence(unordered);
        let Some(number) = count_on(sequence.next, mid).filter(|&number| number >= sequence.floor) else {
            return Ok(());
        };
        if !unordered && number < sequence.next {
            return Ok(());
        }
        let later = sequence.messages.split_off(&(number + 1));
        let up_to = std::mem::replace(&mut sequence.messages, later);
        let turn = if unordered { u64::MAX } else { sequence.next };
        sequence.floor = number + 1;
        sequence.next = sequence.next.max(number + 1);
        for (number, message) in up_to {
            self.waiting_count -= message.waiting.len() + usize::from(number > turn && !unordered);
            let key = MessageKey { stream, unordered, number };
            self.give_up(key, *message, order)?;
        }
        if !unordered {
            order.expect_next(stream, mid.wrapping_add(1) as u16);
            self.release(slot, stream, order)?;
        }
        Ok(())
    }

    /// Ends the wait for a message that the peer has skipped. A complete message is delivered, an incomplete message is
    /// dropped.
    fn give_up(
        &mut self,
        key: MessageKey,
        message: PartialMessage,
        order: &mut Order,
    ) -> Result<(), Violation> {
        if let Some((begin, ppid, tsn)) = message.begin {
            self.leave(key, begin);
            if message.is_complete() {
                if !key.unordered {
                    order.expect_next(key.stream, key.number as u16);
                }
                let to = delivery(key, ppid, tsn);
                order.deliver(to, &message.buffer, &mut self.pool)?;
                self.pool.put(message.buffer);
                return Ok(());
            }
        }
        if message.direct {
            order.cut_short(key.stream, key.unordered, key.number as u16, &mut self.pool);
        }
        self.dropped += message.buffer.len() as u64;
        for (_, payload) in message.waiting {
            self.dropped += payload.len() as u64;
            self.pool.put(payload);
        }
        Ok(())
    }

    /// Returns whether a message of one of `streams` is incomplete. An empty list stands for any stream.
    pub(crate) fn is_inside(&self, streams: &[u16]) -> bool {
        let has_incomplete =
            |sequence: &Sequence| sequence.messages.values().any(|message| !message.is_complete());
        let inside = |stream: &Stream| has_incomplete(&stream.ordered) || has_incomplete(&stream.unordered);
        if streams.is_empty() {
            return self.streams.iter().any(inside);
        }
        streams.iter().any(|&stream| self.streams.get(stream).is_some_and(inside))
    }

    /// RFC 8260 §2.3.2: the message numbers of `streams` start at 0 again, for ordered and unordered messages. An empty
    /// list stands for all streams. Complete messages are delivered, incomplete messages are dropped.
    pub(crate) fn reset(&mut self, streams: &[u16], order: &mut Order) -> Result<(), Violation> {
        let all = if streams.is_empty() { self.streams.in_use() } else { Vec::new() };
        if streams.is_empty() {
            self.skipped.clear();
        }
        for &stream in streams.iter().chain(&all) {
            for unordered in [false, true] {
                self.skipped.remove(&(stream, unordered));
                let Some(slot) = self.streams.find(stream) else {
                    continue;
                };
                let fresh = Sequence { next: FIRST, floor: 0, messages: BTreeMap::new() };
                let sequence = std::mem::replace(self.streams.at(slot).sequence(unordered), fresh);
                for (number, message) in sequence.messages {
                    self.waiting_count -=
                        message.waiting.len() + usize::from(number > sequence.next && !unordered);
                    self.give_up(MessageKey { stream, unordered, number }, *message, order)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the number of bytes dropped since the last call.
    pub(crate) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    /// Returns the slot of a stream. If the stream has none, creates a slot that expects the message after the last
    /// skipped message of the stream.
    #[inline]
    fn slot(&mut self, stream: u16) -> usize {
        let skipped = &mut self.skipped;
        self.streams.slot(stream, || {
            let mut new_sequence = |unordered| {
                let next = skipped.remove(&(stream, unordered));
                Sequence { next: next.unwrap_or(FIRST), floor: next.unwrap_or(0), messages: BTreeMap::new() }
            };
            Stream { ordered: new_sequence(false), unordered: new_sequence(true) }
        })
    }

    fn accept_part(
        &mut self,
        slot: usize,
        key: MessageKey,
        data: &IData<'_>,
        offset: u64,
        order: &mut Order,
    ) -> Result<(), Violation> {
        let sequence = self.streams.at(slot).sequence(key.unordered);
        let turn = key.unordered || key.number == sequence.next;
        let waiting = &mut self.waiting_count;
        let assembly = sequence.messages.entry(key.number).or_insert_with(|| {
            *waiting += usize::from(!turn);
            Box::default()
        });
        let fsn = if data.begin { Some(0) } else { count_on(assembly.next, data.fsn) };
        let Some(fsn) = fsn.filter(|&fsn| (fsn == 0) == data.begin) else {
            return Err(Violation("RFC 8260 2.1: a fragment number lies behind, or is 0 and not the first"));
        };
        if fsn < assembly.next || assembly.waiting.contains_key(&fsn) {
            return Err(Violation("RFC 8260 2.1: a fragment number was used twice"));
        }
        let highest = assembly.waiting.last_key_value().map_or(0, |(&fsn, _)| fsn);
        if assembly.last.is_some_and(|last| fsn > last || data.end) || (data.end && fsn < highest) {
            return Err(Violation("RFC 8260 2.1: a fragment lies behind the last of its message"));
        }
        if data.end {
            assembly.last = Some(fsn);
        }
        if data.begin {
            assembly.begin = Some((offset, data.ppid, data.tsn.0));
            self.incomplete.insert(offset, key);
            let to = delivery(key, data.ppid, data.tsn.0);
            assembly.direct = turn && !key.unordered && order.begin_direct(to)?;
            if !assembly.direct {
                assembly.buffer = self.pool.take();
            }
        }
        if fsn > assembly.next {
            let mut copy = self.pool.take();
            copy.extend_from_slice(data.payload);
            assembly.waiting.insert(fsn, copy);
            self.waiting_count += 1;
            return Ok(());
        }
        append(assembly, key, data.payload, order);
        while let Some(entry) = assembly.waiting.first_entry()
            && *entry.key() == assembly.next
        {
            let payload = entry.remove();
            self.waiting_count -= 1;
            append(assembly, key, &payload, order);
            self.pool.put(payload);
        }
        if turn && assembly.is_complete() {
            self.finish(slot, key, order)?;
            if !key.unordered {
                self.release(slot, key.stream, order)?;
            }
        }
        Ok(())
    }

    /// Delivers a complete message that is the next in its sequence.
    fn finish(&mut self, slot: usize, key: MessageKey, order: &mut Order) -> Result<(), Violation> {
        let sequence = self.streams.at(slot).sequence(key.unordered);
        let Some(assembly) = sequence.messages.remove(&key.number) else {
            return Ok(());
        };
        if !key.unordered {
            sequence.next += 1;
        }
        let Some((begin, ppid, tsn)) = assembly.begin else {
            return Ok(());
        };
        self.leave(key, begin);
        if assembly.direct {
            let mid = key.number as u16;
            return order.finish_direct(key.stream, key.unordered, mid, &mut self.pool);
        }
        let to = delivery(key, ppid, tsn);
        order.deliver(to, &assembly.buffer, &mut self.pool)?;
        self.pool.put(assembly.buffer);
        Ok(())
    }

    /// Delivers the complete messages that are now the next in order.
    #[inline]
    fn release(&mut self, slot: usize, stream: u16, order: &mut Order) -> Result<(), Violation> {
        loop {
            let sequence = &self.streams.at(slot).ordered;
            let Some((&number, assembly)) = sequence.messages.first_key_value() else {
                return Ok(());
            };
            if number != sequence.next {
                return Ok(());
            }
            let key = MessageKey { stream, unordered: false, number };
            let (complete, begin) = (assembly.is_complete(), assembly.begin);
            self.waiting_count -= 1;
            if !complete {
                if let Some((begin, ..)) = begin {
                    // All earlier messages were delivered, so this message can now be delivered in parts.
                    // `hand_out_all` may have removed it from `incomplete` while an earlier message was expected, so it
                    // is inserted again.
                    self.incomplete.insert(begin, key);
                }
                return Ok(());
            }
            self.finish(slot, key, order)?;
        }
    }

    /// RFC 9260 §6.9: delivers a large message in parts before it is complete.
    fn hand_out_large(&mut self, slot: usize, key: MessageKey, next: u64, order: &mut Order) {
        let sequence = self.streams.at(slot).sequence(key.unordered);
        let Some(assembly) = sequence.messages.get(&key.number) else {
            return;
        };
        // The bytes of a `direct` message are stored in `order`, not in `assembly.buffer`. `Order::expose` checks
        // whether these bytes are enough for partial delivery.
        let large = assembly.direct || assembly.buffer.len() as u64 >= order.partial_delivery();
        if large && assembly.begin.is_some_and(|(begin, ..)| begin < next) {
            self.deliver_in_parts(slot, key, false, order);
        }
    }

    /// Delivers unfinished messages in parts, because buffer space is short and their missing fragments may need the
    /// remaining space. Skips a message if a TSN before its first fragment is missing. The chunk with that TSN could
    /// complete another message of the same stream. That message would be blocked by the partly delivered message,
    /// which itself waits for buffer space.
    #[cold]
    pub(super) fn hand_out_all(&mut self, next: u64, order: &mut Order) {
        while let Some(entry) = self.incomplete.first_entry()
            && *entry.key() < next
        {
            let begin = *entry.key();
            let key = entry.remove();
            if let Some(slot) = self.streams.find(key.stream)
                && !self.deliver_in_parts(slot, key, true, order)
                && key.unordered
            {
                self.blocked.insert((key.stream, begin), key.number);
            }
        }
    }

    /// Removes a message that started at `begin` and was completed or dropped. If the message was unordered, moves one
    /// blocked message of its stream back to `incomplete`, so that its delivery in parts is tried again. Only one
    /// message is moved, so that the cost of a call is bounded.
    fn leave(&mut self, key: MessageKey, begin: u64) {
        self.incomplete.remove(&begin);
        if !key.unordered || self.blocked.is_empty() {
            return;
        }
        self.blocked.remove(&(key.stream, begin));
        let mut of_stream = self.blocked.range((key.stream, 0)..=(key.stream, u64::MAX));
        if let Some((&(stream, begin), &number)) = of_stream.next() {
            self.blocked.remove(&(stream, begin));
            self.incomplete.insert(begin, MessageKey { number, ..key });
        }
    }

    /// Delivers the parts of a message as they arrive, if the message is the next in order. Returns false only if the
    /// message must wait because another message is being delivered in parts.
    fn deliver_in_parts(&mut self, slot: usize, key: MessageKey, at_once: bool, order: &mut Order) -> bool {
        let sequence = self.streams.at(slot).sequence(key.unordered);
        let turn = key.unordered || key.number == sequence.next;
        let Some(assembly) = sequence.messages.get_mut(&key.number).filter(|_| turn) else {
            return true;
        };
        if assembly.direct {
            order.expose(key.stream, key.unordered, at_once);
            return true;
        }
        let Some((begin, ppid, tsn)) = assembly.begin else {
            return true;
        };
        if !order.adopt(delivery(key, ppid, tsn), &assembly.buffer) {
            return false;
        }
        assembly.direct = true;
        self.pool.put(std::mem::take(&mut assembly.buffer));
        self.incomplete.remove(&begin);
        true
    }
}

impl Stream {
    #[inline]
    fn sequence(&mut self, unordered: bool) -> &mut Sequence {
        if unordered { &mut self.unordered } else { &mut self.ordered }
    }
}

/// Returns the delivery information of a message. `ssn` holds only the low 16 bits of the message number. These are
/// enough for the module `order`, which receives the messages in order.
fn delivery(key: MessageKey, ppid: u32, tsn: u32) -> Delivery {
    let MessageKey { stream, unordered, number } = key;
    Delivery { stream, ssn: number as u16, ppid, tsn, unordered }
}

/// Appends the next fragment to a message.
fn append(assembly: &mut PartialMessage, key: MessageKey, payload: &[u8], order: &mut Order) {
    assembly.next += 1;
    if assembly.direct {
        order.extend_direct(key.stream, key.unordered, key.number as u16, payload);
    } else {
        assembly.buffer.extend_from_slice(payload);
    }
}

#[cfg(test)]
mod tests;
