//! The send buffer: holds messages from `send` until their last byte is acknowledged.
//!
//! The bytes of a message are copied once, into [`bytes`](super::bytes). Chunks are written from this copy, also for
//! retransmissions. The queue numbers ordered messages per stream and counts each stream's bytes for the trace. The
//! size of the queue is limited.
//!
//! Implements RFC 9260 §6.5 (the sender's half) and §11.1.5 (Send).

mod amount;
mod cancel;
mod hold;
mod limited;
mod memory;
mod release;
mod undelivered;

use super::bytes::StreamBytes;
use super::fragment;
use super::scheduler::Scheduler;
use crate::config::SchedulerKind;
use crate::error::SendError;
use crate::message::Message;
use crate::streams::Streams;
use amount::Amount;
use anabranch_base::{SharedBytes, cache};
use anabranch_wire::sctp::{Data, IData};
use bytes::Bytes;
use hold::HeldStreams;
pub(crate) use hold::ReservationId;
use limited::ReliabilityPolicy;
use memory::MemoryAccount;
use std::ops::Range;
pub(crate) use undelivered::Undelivered;

/// The number of buffered bytes above which queued data is prefetched, about the size of an L2 cache.
const NEAR: u64 = 1 << 20;

/// A message in the send buffer.
#[derive(Debug)]
pub(crate) struct QueuedMessage {
    /// The length of the message in bytes.
    pub(crate) length: u32,
    pub(crate) stream: u16,
    /// The number of the message in its stream: the MID, whose lower half is the SSN.
    pub(crate) mid: u32,
    pub(crate) ppid: u32,
    /// The application's identifier for the message.
    pub(crate) context: u32,
    /// The shared key that authenticates the message, if it is not the active key.
    pub(crate) key: Option<u16>,
    pub(crate) unordered: bool,
    pub(crate) immediate: bool,
    /// The position of the message's first byte among all bytes ever queued on its stream.
    pub(crate) stream_offset: u64,
    /// The slot of the message's stream in `Queue::streams`.
    slot: u32,
    /// The position of the message's bytes in the buffer of its stream.
    buffer_offset: u64,
    /// Number of bytes already cut into chunks, and the number of these chunks.
    cut: u32,
    chunks: u32,
    /// The number of bytes that were acknowledged and that the peer may no longer drop.
    released: u32,
    /// Whether bytes were released out of order (by an NR-SACK). If so, the released bytes are not the first bytes of
    /// the message.
    released_out_of_order: bool,
    /// Whether the message may be abandoned (RFC 3758).
    policy: ReliabilityPolicy,
    /// The bytes of a message that may be abandoned. These bytes have their own buffer so that they can be freed at any
    /// time.
    own_buffer: Option<Box<[u8]>>,
}

impl QueuedMessage {
    /// Returns `length` bytes of the message, beginning at `offset`. The message must have its own buffer.
    #[cold]
    fn own_bytes(&self, offset: u32, length: u32) -> (&[u8], &[u8]) {
        let own = self.own_buffer.as_deref().unwrap_or_default();
        (&own[offset as usize..(offset + length) as usize], &[])
    }
}

/// A list of completed messages, linked through `chunks`, so that no memory is allocated while a SACK is processed.
#[derive(Debug)]
struct Chain(Option<u32>);

impl Chain {
    const EMPTY: Self = Self(None);
    const END: u32 = u32::MAX;

    #[inline]
    fn push(&mut self, messages: &mut [QueuedMessage], message: u32) {
        messages[message as usize].chunks = self.0.replace(message).unwrap_or(Self::END);
    }

    fn iter(&self, messages: &[QueuedMessage]) -> impl Iterator<Item = u32> {
        let next = |&message: &u32| {
            let next = messages[message as usize].chunks;
            (next != Self::END).then_some(next)
        };
        std::iter::successors(self.0, next)
    }

    #[inline]
    fn pop(&mut self, messages: &[QueuedMessage]) -> Option<u32> {
        let first = self.0?;
        let next = messages[first as usize].chunks;
        self.0 = (next != Self::END).then_some(next);
        Some(first)
    }
}

/// The next chunk to be cut from a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cut {
    pub(crate) message: u32,
    pub(crate) offset: u32,
    pub(crate) length: u32,
    /// The number of chunks already cut from the message.
    pub(crate) number: u32,
}

#[derive(Debug, Default)]
struct Stream {
    next_ordered: u32,
    next_unordered: u32,
    /// Number of bytes ever queued on this stream, including bytes of abandoned messages.
    queued_bytes: u64,
    amount: Amount,
    bytes: StreamBytes,
}

impl Stream {
    /// Counts `bytes` more queued bytes and returns the previous count. The count covers all bytes that the application
    /// has written, including those of messages that are abandoned unsent.
    #[inline]
    fn count_given(&mut self, bytes: usize) -> u64 {
        let before = self.queued_bytes;
        self.queued_bytes += bytes as u64;
        before
    }
}

/// The send buffer.
#[derive(Debug)]
pub(crate) struct Queue {
    messages: Vec<QueuedMessage>,
    free: Chain,
    /// Completed messages of limited reliability that [`take_completed_limited`](Self::take_completed_limited) has not
    /// returned yet.
    completed_limited: Chain,
    /// The index of the latest queued message.
    latest: u32,
    scheduler: Scheduler,
    streams: Streams<Stream>,
    /// The indices of the messages that are being cancelled, in ascending order. The scheduler no longer contains these
    /// messages.
    cancelling: Box<[u32]>,
    /// Streams that wait for a reset (RFC 6525), and the messages held back on them.
    hold: Option<Box<HeldStreams>>,
    /// The size in bytes of the DATA or I-DATA header.
    header: usize,
    /// The configured size of the buffer in bytes. `limit` is the current size, and `buffered` counts the bytes in the
    /// buffer.
    configured_limit: u64,
    limit: u64,
    buffered: u64,
    unsent: u64,
    /// Memory in bytes of streams that have nothing to send.
    idle_memory: u64,
    /// The memory in bytes of the payload buffers: those of all streams, and those of messages that have a buffer of
    /// their own.
    payload_memory: u64,
    /// The memory account, if associations share memory.
    memory: Option<Box<MemoryAccount>>,
    /// Bytes of one stream that the current SACK has acknowledged: the slot of the stream, and the range to free.
    range_to_free: (u32, Range<u64>),
    /// The size of the smallest message that was rejected for lack of room.
    smallest_rejected: Option<u64>,
    /// Streams whose buffered amount has become low and that were not reported yet.
    low: Vec<u16>,
}

impl Queue {
    pub(crate) fn new(limit: u64, kind: SchedulerKind) -> Self {
        Self {
            messages: Vec::new(),
            free: Chain::EMPTY,
            completed_limited: Chain::EMPTY,
            latest: 0,
            scheduler: Scheduler::new(kind),
            streams: Streams::new(),
            cancelling: Box::default(),
            hold: None,
            header: Data::HEADER,
            configured_limit: limit,
            limit,
            buffered: 0,
            unsent: 0,
            idle_memory: 0,
            payload_memory: 0,
            memory: None,
            range_to_free: (0, 0..0),
            smallest_rejected: None,
            low: Vec::new(),
        }
    }

    /// Returns the number of queued user bytes that were not yet sent in a chunk.
    #[inline]
    pub(crate) fn unsent_bytes(&self) -> u64 {
        self.unsent
    }

    /// Returns the number of buffered user bytes: those not sent yet, and those sent that may have to be retransmitted.
    pub(crate) fn buffered_bytes(&self) -> u64 {
        self.buffered
    }

    /// Sets the size of the buffer in bytes. Messages already in the buffer are kept.
    pub(crate) fn set_limit(&mut self, limit: u64) {
        (self.configured_limit, self.limit) = (limit, limit);
    }

    /// Returns the free space of the buffer in bytes.
    pub(crate) fn writable_bytes(&self) -> u64 {
        self.limit.saturating_sub(self.buffered)
    }

    pub(crate) fn push(&mut self, message: Message, payload: &[u8]) -> Result<(), SendError> {
        self.check(payload.len(), payload.len())?;
        let slot = self.streams.slot(message.stream, Stream::default);
        let stream = self.streams.at(slot);
        let offset = stream.bytes.end();
        let stream_offset = stream.count_given(payload.len());
        let policy = ReliabilityPolicy::of(&message);
        let index = if policy == ReliabilityPolicy::Full {
            self.store(slot, payload);
            self.enlist(&message, slot, (offset, stream_offset), payload.len())
        } else {
            let index = self.enlist(&message, slot, (offset, stream_offset), payload.len());
            let stored = &mut self.messages[index as usize];
            stored.policy = policy;
            stored.own_buffer = Some(payload.into());
            self.payload_memory += payload.len() as u64;
            index
        };
        self.latest = index;
        Ok(())
    }

    /// Queues `payload` as reliable messages of `piece` bytes each, until there is no more room. The last message may
    /// be shorter. Returns the number of bytes queued.
    pub(crate) fn push_pieces(
        &mut self,
        message: Message,
        payload: &[u8],
        piece: usize,
    ) -> Result<usize, SendError> {
        self.push_pieces_by(message, payload.len(), piece, |queue, slot, taken| {
            queue.store(slot, &payload[..taken]);
        })
    }

    /// Like [`push_pieces`](Self::push_pieces), but shares the memory of `payload` if possible. Removes the bytes taken
    /// from `payload`.
    pub(crate) fn push_shared_pieces(
        &mut self,
        message: Message,
        payload: &mut Bytes,
        piece: usize,
    ) -> Result<usize, SendError> {
        self.push_pieces_by(message, payload.len(), piece, |queue, slot, taken| {
            queue.store_shared(slot, payload.split_to(taken));
        })
    }

    /// Queues messages of `piece` bytes each, as far as there is room for `length` bytes. `store` stores as many bytes as
    /// are queued in the buffer of a stream, whose slot is given.
    #[inline]
    fn push_pieces_by(
        &mut self,
        message: Message,
        length: usize,
        piece: usize,
        store: impl FnOnce(&mut Self, usize, usize),
    ) -> Result<usize, SendError> {
        let room = self.check(length, piece.min(length))?;
        let taken = if length <= room { length } else { room - room % piece };
        let slot = self.streams.slot(message.stream, Stream::default);
        let stream = self.streams.at(slot);
        let begin = stream.bytes.end();
        let stream_offset = stream.count_given(taken);
        store(self, slot, taken);
        let mut offset = 0;
        while offset < taken {
            let size = piece.min(taken - offset);
            let within = offset as u64;
            self.enlist(&message, slot, (begin + within, stream_offset + within), size);
            offset += size;
        }
        if taken < length {
            self.record_rejected(piece.min(length - taken));
        }
        Ok(taken)
    }

    /// Checks whether a message of `piece` bytes can be queued. The application passed `length` bytes, which may be
    /// split into several messages. Returns the free space in bytes before the message is queued.
    #[inline]
    fn check(&mut self, length: usize, piece: usize) -> Result<usize, SendError> {
        if length == 0 {
            return Err(SendError::Empty);
        }
        if piece as u64 > self.configured_limit || piece as u64 > u64::from(u32::MAX) {
            return Err(SendError::TooLarge);
        }
        let mut room = self.writable_bytes();
        if self.buffered == 0 {
            // An empty buffer accepts one message that is larger than the current limit of the buffer. Even this
            // message must not be larger than the configured limit.
            room = room.max(piece as u64);
        }
        if piece as u64 > room {
            self.record_rejected(piece);
            return Err(SendError::Full);
        }
        Ok(room as usize)
    }

    /// Records that the application waits for room for `length` bytes.
    fn record_rejected(&mut self, length: usize) {
        let length = length as u64;
        self.smallest_rejected = Some(self.smallest_rejected.map_or(length, |wanted| wanted.min(length)));
    }

    /// Appends bytes to the buffer of the stream in `slot`.
    #[inline]
    fn store(&mut self, slot: usize, payload: &[u8]) {
        let bytes = &mut self.streams.at(slot).bytes;
        if bytes.is_empty() {
            self.idle_memory -= bytes.capacity();
        }
        self.payload_memory += bytes.push(payload, self.limit);
    }

    /// Like [`store`](Self::store), but shares the memory of `payload` if possible. Associations that share a budget copy
    /// the bytes, because the budget limits memory that they own.
    fn store_shared(&mut self, slot: usize, payload: Bytes) {
        let bytes = &mut self.streams.at(slot).bytes;
        if self.memory.is_some() || !bytes.can_share(payload.len()) {
            return self.store(slot, &payload);
        }
        if bytes.is_empty() {
            self.idle_memory -= bytes.capacity();
        }
        bytes.push_shared(payload);
    }

    /// Creates an entry for a message.
    #[cold]
    fn fresh(&mut self) -> u32 {
        if self.messages.len() < 4 {
            // The list grows by single entries at first, to save memory. A host may have thousands of associations
            // that never queue more than one message at a time.
            self.messages.reserve_exact(1);
        }
        self.messages.push(QueuedMessage::empty());
        (self.messages.len() - 1) as u32
    }

    /// Queues a message of `length` bytes and returns its index. The bytes of the message are at `buffer_offset` in the
    /// stream's buffer, and `stream_offset` bytes were queued on the stream before them.
    #[inline(always)]
    fn enlist(
        &mut self,
        message: &Message,
        slot: usize,
        (offset, stream_offset): (u64, u64),
        length: usize,
    ) -> u32 {
        let index = match self.free.pop(&self.messages) {
            Some(index) => index,
            None => self.fresh(),
        };
        let stored = &mut self.messages[index as usize];
        stored.length = length as u32;
        stored.slot = slot as u32;
        stored.buffer_offset = offset;
        stored.stream_offset = stream_offset;
        stored.stream = message.stream;
        stored.ppid = message.ppid;
        stored.context = message.context;
        stored.key = message.key;
        stored.unordered = message.unordered;
        stored.immediate = message.immediate;
        stored.cut = 0;
        stored.chunks = 0;
        stored.released = 0;
        stored.released_out_of_order = false;
        stored.policy = ReliabilityPolicy::Full;
        match &mut self.hold {
            Some(hold) if hold.ticket(message.stream).is_some() => hold.keep(index),
            _ => self.scheduler.push(message.stream, index),
        }
        self.buffered += length as u64;
        self.unsent += length as u64;
        self.streams.at(slot).amount.add(length as u64);
        index
    }

    /// Assigns a number to a message just before its first chunk is written. A message that is dropped earlier leaves
    /// no gap in the numbers.
    #[inline]
    pub(crate) fn number(&mut self, cut: Cut) {
        if cut.offset > 0 {
            return;
        }
        let stored = &mut self.messages[cut.message as usize];
        let stream = self.streams.at(stored.slot as usize);
        // RFC 9260 §6.5: only ordered messages have a sequence number. RFC 8260 §2.1: unordered messages are counted
        // separately; both counts may wrap.
        let next = if stored.unordered { &mut stream.next_unordered } else { &mut stream.next_ordered };
        stored.mid = *next;
        *next = next.wrapping_add(1);
    }

    #[inline]
    pub(crate) fn message(&self, index: u32) -> &QueuedMessage {
        &self.messages[index as usize]
    }

    /// Returns `length` bytes of a message, beginning at `offset`, in up to two slices.
    #[inline(always)]
    pub(crate) fn payload<'a>(
        &'a self,
        message: &'a QueuedMessage,
        offset: u32,
        length: u32,
    ) -> (&'a [u8], &'a [u8]) {
        if message.own_buffer.is_some() {
            return message.own_bytes(offset, length);
        }
        let bytes = &self.streams.of(message.slot as usize).bytes;
        bytes.slices(message.buffer_offset + u64::from(offset), length as usize)
    }

    /// Returns the bytes of the chunk `cut` without a copy, if the application shares their memory.
    #[inline]
    pub(crate) fn share_cut(&mut self, cut: Cut) -> Option<SharedBytes> {
        let message = &self.messages[cut.message as usize];
        if message.own_buffer.is_some() {
            return None;
        }
        let from = message.buffer_offset + u64::from(cut.offset);
        self.streams.at(message.slot as usize).bytes.share(from, cut.length.into())
    }

    /// Returns the next chunk, with at most `largest` user bytes. Returns `None` if it does not fit into `room` bytes,
    /// or if no data waits.
    #[inline]
    pub(crate) fn next_cut(&self, largest: u32, room: usize) -> Option<Cut> {
        let message = self.scheduler.head()?;
        let stored = &self.messages[message as usize];
        let length = fragment::cut(stored.length, stored.cut, largest, room, self.header)?;
        Some(Cut { message, offset: stored.cut, length, number: stored.chunks })
    }

    /// Records that the chunk `cut` was sent.
    #[inline]
    pub(crate) fn commit(&mut self, cut: Cut) {
        let stored = &mut self.messages[cut.message as usize];
        assert!(stored.cut == cut.offset, "a chunk was cut twice");
        stored.cut += cut.length;
        stored.chunks += 1;
        self.unsent -= u64::from(cut.length);
        let done = stored.cut == stored.length;
        self.scheduler.cut(cut.length, done);
        if done && let Some(hold) = &mut self.hold {
            hold.done(stored.stream);
        }
        if self.buffered > NEAR {
            let offset = stored.buffer_offset + u64::from(stored.cut);
            self.streams.at(stored.slot as usize).bytes.approach(offset);
            if let Some(next) = self.scheduler.soon() {
                cache::prefetch(&self.messages[next as usize]);
            }
        }
    }

    /// Returns true once, when the buffer has room again after a message was rejected. Waits until a considerable part
    /// of the buffer is free, so that the application is not called for every acknowledgement.
    #[inline]
    pub(crate) fn take_writable(&mut self) -> bool {
        match self.smallest_rejected {
            Some(wanted)
                if self.buffered == 0
                    || self.writable_bytes() >= wanted.max((self.limit / 8).min(1 << 16)) =>
            {
                self.smallest_rejected = None;
                true
            }
            _ => false,
        }
    }

    /// RFC 9260 §5.1.1: the peer accepts only `granted` streams. Drops messages that were queued on higher stream
    /// numbers before this limit was known. Returns these messages; `payloads` says whether their contents are
    /// included.
    pub(crate) fn drop_beyond(&mut self, granted: u16, payloads: bool) -> Vec<Undelivered> {
        let (mut dropped, mut refused) = (Vec::new(), Vec::new());
        let messages = &self.messages;
        self.scheduler.retain(|message| {
            let stored = &messages[message as usize];
            let kept = stored.stream < granted || stored.cut > 0;
            if !kept {
                dropped.push(message);
            }
            kept
        });
        for message in dropped {
            let payload = if payloads { self.whole(message) } else { None };
            let stored = &mut self.messages[message as usize];
            let length = stored.length;
            refused.push(Undelivered { payload, ..stored.undelivered(false) });
            // No part of the message waits to be sent any more.
            stored.cut = length;
            self.unsent -= u64::from(length);
            self.release(message, length);
        }
        refused
    }

    /// RFC 8260 §2.2.1: selects I-DATA or DATA for all further messages.
    pub(crate) fn set_interleaving(&mut self, on: bool) {
        self.scheduler.set_interleaving(on);
        self.header = if on { IData::HEADER } else { Data::HEADER };
    }

    /// Returns the size in bytes of the DATA or I-DATA header.
    #[inline]
    pub(crate) fn header(&self) -> usize {
        self.header
    }

    /// Informs the scheduler that a packet with new chunks is complete.
    #[inline]
    pub(crate) fn packet_done(&mut self) {
        self.scheduler.packet_done();
    }

    /// RFC 8260 §3: changes the stream scheduler.
    pub(crate) fn set_scheduler(&mut self, kind: SchedulerKind) {
        let messages = &self.messages;
        let begun = self.scheduler.head().is_some_and(|head| messages[head as usize].cut > 0);
        self.scheduler.set_kind(kind, begun, |message| messages[message as usize].stream);
    }

    /// Sets a stream's priority or weight.
    pub(crate) fn set_stream_value(&mut self, stream: u16, value: u16) {
        self.scheduler.set_value(stream, value);
    }

    /// Returns the messages that are to be authenticated with this key and are not fully acknowledged.
    pub(crate) fn messages_of(&self, key: u16) -> Vec<u32> {
        (0..self.messages.len() as u32).filter(|&message| self.asks_for(message, key)).collect()
    }

    /// Returns whether the message still needs this key: the key authenticates its chunks, and some of these chunks are
    /// not acknowledged. An abandoned message needs no key.
    pub(crate) fn asks_for(&self, message: u32, key: u16) -> bool {
        let stored = &self.messages[message as usize];
        let abandoned = matches!(stored.policy, ReliabilityPolicy::Abandoned(_));
        stored.key == Some(key) && stored.released < stored.length && !abandoned
    }

    /// Takes over the state that outlives a restart: the settings of streams and scheduler, and the size of the
    /// smallest rejected message. The application still waits for the event that there is room for this message.
    pub(crate) fn inherit(&mut self, before: &mut Self) {
        self.smallest_rejected = before.smallest_rejected;
        self.inherit_low(before);
        self.scheduler.inherit(&mut before.scheduler);
    }
}

impl QueuedMessage {
    const fn empty() -> Self {
        Self {
            length: 0,
            slot: 0,
            buffer_offset: 0,
            stream: 0,
            mid: 0,
            ppid: 0,
            context: 0,
            key: None,
            unordered: false,
            immediate: false,
            stream_offset: 0,
            cut: 0,
            chunks: 0,
            released: 0,
            released_out_of_order: false,
            policy: ReliabilityPolicy::Full,
            own_buffer: None,
        }
    }
}
