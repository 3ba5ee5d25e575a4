//! Delivers messages to the application, stream by stream.
//!
//! Owns the readable bytes of each stream and the messages that wait for an earlier message. A stream has a lane (a
//! queue of its own) for ordered messages. Once needed, it also has a lane for unordered messages. So neither kind of
//! message blocks the other.
//!
//! Implements RFC 9260 §6.5 and §6.6 (the receiver's half), and §11.1.7 (Receive).

mod arrivals;
mod direct;
mod last_packet;
mod read_queue;
mod reset;
mod skip;

use super::Violation;
use super::pool::Pool;
use crate::message::Received;
use crate::streams::Streams;
use anabranch_base::{PacketBytes, SharedBytes};
use arrivals::Arrivals;
pub(crate) use arrivals::Upcoming;
use last_packet::LastPacket;
use read_queue::ReadQueue;
use skip::Skips;
use std::collections::btree_map::{BTreeMap, Entry};
use std::ops::Range;

/// The stream, number and attributes of a complete message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    pub(crate) stream: u16,
    /// The number of the message in its stream: in DATA the SSN (also if the message is unordered), in I-DATA the lower
    /// half of the MID.
    pub(crate) ssn: u16,
    pub(crate) ppid: u32,
    /// The TSN of the message's first chunk.
    pub(crate) tsn: u32,
    pub(crate) unordered: bool,
}

#[derive(Debug, Default)]
struct Stream {
    next_ssn: u16,
    ordered: ReadQueue,
    unordered: Option<Box<ReadQueue>>,
    /// Complete ordered messages that wait for an earlier message, by SSN. The tree makes insertions cheap, whatever
    /// the order in which messages arrive.
    waiting: BTreeMap<u16, (Delivery, Vec<u8>)>,
    /// Complete unordered messages that wait behind an unordered message that is being delivered in parts.
    blocked: Vec<(Delivery, Vec<u8>)>,
    /// The queue whose first message was read in part: true for unordered messages, false for ordered messages.
    partly_read: Option<bool>,
    signalled: bool,
}

impl Stream {
    /// Returns whether all messages of the stream are complete and ordered, and none of them waits for an earlier
    /// message.
    #[inline]
    fn is_simple(&self) -> bool {
        self.unordered.is_none() && self.ordered.tail.is_none() && self.waiting.is_empty()
    }

    fn readable(&self) -> bool {
        let unordered = self.unordered.as_deref().is_some_and(ReadQueue::readable);
        match self.partly_read {
            Some(true) => unordered,
            Some(false) => self.ordered.readable(),
            None => unordered || self.ordered.readable(),
        }
    }

    fn lane(&mut self, unordered: bool) -> &mut ReadQueue {
        if unordered { self.unordered.get_or_insert_default() } else { &mut self.ordered }
    }

    /// Adds to the unordered lane the messages that waited while another unordered message was delivered in parts.
    /// Returns their number.
    fn let_pass(&mut self, pool: &mut Pool) -> u64 {
        let mut released = 0;
        for (to, payload) in std::mem::take(&mut self.blocked) {
            self.lane(true).push(&payload, to);
            pool.put(payload);
            released += 1;
        }
        released
    }

    /// Moves the waiting messages whose turn has come to the lane of ordered messages. Returns their number.
    fn release(&mut self, pool: &mut Pool) -> u64 {
        let mut released = 0;
        while !self.waiting.is_empty()
            && let Some((to, payload)) = self.waiting.remove(&self.next_ssn)
        {
            self.ordered.push(&payload, to);
            self.next_ssn = self.next_ssn.wrapping_add(1);
            pool.put(payload);
            released += 1;
        }
        released
    }
}

/// The receiving side of all streams of an association.
#[derive(Debug)]
pub(crate) struct Order {
    streams: Streams<Stream>,
    partial_delivery: u64,
    /// Streams that became readable since the application was last informed.
    newly_readable: Vec<u16>,
    /// Number of complete messages that were added to a lane. The application reads messages from lanes.
    completed: u64,
    /// Number of messages that the application has read.
    read: u64,
    /// Number of complete messages that wait for another message.
    out_of_order_messages: u64,
    /// The messages that the peer has abandoned.
    skips: Option<Box<Skips>>,
    last: LastPacket,
    /// The order of readable messages over all streams; `None` if this order is not tracked.
    arrivals: Option<Box<Arrivals>>,
    /// Whether this association shares memory with others.
    shared: bool,
}

impl Order {
    pub(crate) fn new(partial_delivery: u64, shared: bool) -> Self {
        Self {
            streams: Streams::new(),
            partial_delivery,
            newly_readable: Vec::new(),
            completed: 0,
            read: 0,
            out_of_order_messages: 0,
            skips: None,
            last: LastPacket::default(),
            arrivals: None,
            shared,
        }
    }

    pub(crate) fn partial_delivery(&self) -> u64 {
        self.partial_delivery
    }

    pub(crate) fn completed(&self) -> u64 {
        self.completed
    }

    /// Returns the number of unread messages.
    #[inline]
    pub(crate) fn unread(&self) -> u64 {
        self.completed.saturating_sub(self.read)
    }

    /// Returns the number of streams that have been used.
    #[inline]
    pub(crate) fn streams_in_use(&self) -> usize {
        self.streams.count()
    }

    /// Returns the number of complete messages that wait for an earlier message.
    #[inline]
    pub(crate) fn out_of_order_messages(&self) -> u64 {
        self.out_of_order_messages
    }

    /// Returns the number of messages that the application has read.
    pub(crate) fn messages_read(&self) -> u64 {
        self.read
    }

    /// Records that `released` messages became readable in a lane. They had waited for an earlier message.
    fn pass(&mut self, stream: u16, unordered: bool, released: u64) {
        self.arrive(stream, unordered, released);
        self.completed += released;
        self.out_of_order_messages = self.out_of_order_messages.saturating_sub(released);
    }

    /// Returns whether data can be read on any stream.
    pub(crate) fn has_unread(&self) -> bool {
        self.streams.iter().any(Stream::readable)
    }

    /// Adds a complete message to the ordered or unordered messages that the application can read. Holds an ordered
    /// message back while an earlier message of its stream is missing.
    #[inline]
    pub(crate) fn deliver(&mut self, to: Delivery, payload: &[u8], pool: &mut Pool) -> Result<(), Violation> {
        let slot = self.slot(to.stream);
        let stream = self.streams.at(slot);
        if to.unordered {
            let lane = stream.unordered.get_or_insert_default();
            if lane.tail.is_some() {
                let mut copy = pool.take();
                copy.extend_from_slice(payload);
                stream.blocked.push((to, copy));
                self.out_of_order_messages += 1;
                return Ok(());
            }
            lane.push(payload, to);
            self.completed += 1;
            self.arrive(to.stream, true, 1);
        } else {
            // RFC 9260 §6.6: ordered messages are delivered in the order of stream sequence numbers. A later message
            // is held back.
            let ahead = to.ssn.wrapping_sub(stream.next_ssn);
            if ahead != 0 {
                if self.skips.as_mut().is_some_and(|skips| skips.drops(ahead, payload)) {
                    return Ok(());
                }
                Self::hold_back(stream, ahead, to, payload, pool)?;
                self.out_of_order_messages += 1;
                return Ok(());
            }
            if stream.ordered.tail.is_some() {
                return Err(Violation("6.5: a stream sequence number was used twice"));
            }
            stream.ordered.push(payload, to);
            stream.next_ssn = stream.next_ssn.wrapping_add(1);
            self.completed += 1;
            let released = if stream.waiting.is_empty() { 0 } else { stream.release(pool) };
            self.arrive(to.stream, false, 1);
            if released > 0 {
                self.pass(to.stream, false, released);
            }
        }
        self.emit_readable(slot, to.stream);
        Ok(())
    }

    /// Fast path for a complete ordered message at `payload` in `packet`. Adds the message to its lane only if it is
    /// the next message of its stream and the stream has no unfinished, unordered or waiting message. Returns `None` if
    /// the fast path does not apply. Otherwise returns whether the stream has become readable, which the caller must
    /// report.
    #[inline(always)]
    pub(crate) fn take_next(
        &mut self,
        to: Delivery,
        packet: &mut PacketBytes<'_>,
        payload: Range<usize>,
    ) -> Option<bool> {
        let slot = self.streams.find(to.stream)?;
        let state = self.streams.at(slot);
        if to.ssn != state.next_ssn || !state.is_simple() || !self.newly_readable.is_empty() {
            return None;
        }
        if state.ordered.messages.is_empty() && self.last.keep(slot, packet, payload.clone()) {
            state.ordered.push_kept(payload.len(), to);
        } else {
            packet.join();
            state.ordered.push(&packet.bytes()[payload], to);
        }
        state.next_ssn = to.ssn.wrapping_add(1);
        self.completed += 1;
        let became_readable = !std::mem::replace(&mut state.signalled, true);
        self.arrive(to.stream, false, 1);
        Some(became_readable)
    }

    #[cold]
    fn hold_back(
        stream: &mut Stream,
        ahead: u16,
        to: Delivery,
        payload: &[u8],
        pool: &mut Pool,
    ) -> Result<(), Violation> {
        if ahead >= 1 << 15 {
            return Err(Violation("6.5: a stream sequence number lies behind"));
        }
        let Entry::Vacant(place) = stream.waiting.entry(to.ssn) else {
            return Err(Violation("6.5: a stream sequence number was used twice"));
        };
        let mut copy = pool.take();
        copy.extend_from_slice(payload);
        place.insert((to, copy));
        Ok(())
    }

    #[inline]
    fn emit_readable(&mut self, slot: usize, stream: u16) {
        let state = self.streams.at(slot);
        if !state.signalled && state.readable() {
            state.signalled = true;
            self.newly_readable.push(stream);
        }
    }

    /// Returns the streams that became readable since the last call.
    #[inline]
    pub(crate) fn newly_readable(&mut self) -> &mut Vec<u16> {
        &mut self.newly_readable
    }

    /// RFC 9260 §11.1.7: reads at most the rest of one message.
    pub(crate) fn read(&mut self, stream: u16, out: &mut [u8]) -> Option<Received> {
        let slot = self.streams.find(stream)?;
        let state = self.streams.at(slot);
        let unordered = match state.partly_read {
            Some(unordered) => unordered,
            None => {
                state.unordered.as_deref().is_some_and(|lane| !lane.messages.is_empty())
                    || !state.ordered.readable()
            }
        };
        self.read_lane(slot, stream, unordered, out)
    }

    /// Like [`read`](Self::read), for one lane.
    #[inline]
    fn read_lane(&mut self, slot: usize, stream: u16, unordered: bool, out: &mut [u8]) -> Option<Received> {
        let state = self.streams.at(slot);
        let received = match (unordered, &mut state.unordered) {
            (true, Some(lane)) => lane.read(out, true, None),
            (true, None) => None,
            (false, _) => state.ordered.read(out, false, self.last.of(slot)),
        };
        match received {
            Some(received) => {
                state.partly_read = (!received.end_of_message).then_some(unordered);
                self.read += u64::from(received.end_of_message && !received.incomplete);
                let lane = if unordered { state.unordered.as_deref_mut() } else { Some(&mut state.ordered) };
                if let Some(lane) = lane {
                    lane.free_unused(slot, self.shared);
                }
                if received.end_of_message {
                    self.depart(stream, unordered);
                }
            }
            None => state.signalled = false,
        }
        received
    }

    /// Does the same as [`read`](Self::read) followed by [`is_drained`](Self::is_drained), but faster. It applies only
    /// if the stream has a single unread message, which is in the kept packet buffer and fits into `out`. Returns the
    /// length of the message in bytes and its payload protocol identifier, or `None` if the method does not apply.
    #[inline]
    pub(crate) fn read_last(&mut self, stream: u16, out: &mut [u8]) -> Option<(usize, u32)> {
        self.read_last_by(stream, |last| {
            let length = last.left() as usize;
            last.copy(out.get_mut(..length)?);
            Some(length)
        })
    }

    /// Like [`read_last`](Self::read_last), but reads a message without a copy. Applies only if the sender shares the
    /// memory of the message, and if the message has at most `most` bytes.
    #[inline]
    pub(crate) fn read_last_shared(&mut self, stream: u16, most: usize) -> Option<(SharedBytes, u32)> {
        self.read_last_by(stream, |last| {
            last.whole_shared_len().filter(|length| *length <= most)?;
            Some(last.take_shared())
        })
    }

    #[inline(always)]
    fn read_last_by<R>(
        &mut self,
        stream: u16,
        read: impl FnOnce(&mut LastPacket) -> Option<R>,
    ) -> Option<(R, u32)> {
        let slot = self.streams.find(stream)?;
        let last = self.last.of(slot)?;
        let state = self.streams.at(slot);
        let alone = state.ordered.messages.len() == 1 && state.is_simple() && state.partly_read.is_none();
        if !alone || self.arrivals.is_some() {
            return None;
        }
        let read = read(last)?;
        state.signalled = false;
        let ppid = state.ordered.messages.pop_front()?.ppid;
        self.read += 1;
        Some((read, ppid))
    }

    /// Returns true if a stream has no data that can be read now. The stream is then reported as readable again when
    /// more data arrives.
    #[inline]
    pub(crate) fn is_drained(&mut self, stream: u16) -> bool {
        let Some(slot) = self.streams.find(stream) else {
            return true;
        };
        let state = self.streams.at(slot);
        let dry = !state.readable();
        state.signalled &= !dry;
        dry
    }

    /// Returns the number of bytes that one [`read`](Self::read) would return.
    pub(crate) fn readable_bytes(&self, stream: u16) -> usize {
        let Some(state) = self.streams.get(stream) else {
            return 0;
        };
        let unordered = state.unordered.as_deref().map_or(0, ReadQueue::first);
        match state.partly_read {
            Some(true) => unordered,
            Some(false) => state.ordered.first(),
            None if unordered > 0 => unordered,
            None => state.ordered.first(),
        }
    }
}
