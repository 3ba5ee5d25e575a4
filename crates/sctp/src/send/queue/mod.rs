//! Messages from `send` until the last of their bytes is acknowledged.
//!
//! Owns the messages: the bytes of one are copied in once ([`bytes`](super::bytes))
//! and its chunks are written from there, first and again. Numbers ordered messages per stream and counts each
//! stream's bytes for the trace. What is buffered is bounded.
//!
//! Home of RFC 9260 §6.5 (the sender's half) and §11.1.5 (Send).

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
use anabranch_base::cache;
use anabranch_wire::sctp::{Data, IData};
use hold::Hold;
pub(crate) use hold::Ticket;
use limited::Promise;
use memory::Purse;
use std::ops::Range;
pub(crate) use undelivered::Undelivered;

/// So many bytes may be held before it is worth to ask memory for them ahead of their turn: about
/// what a second-level cache keeps.
const NEAR: u64 = 1 << 20;

/// A message.
#[derive(Debug)]
pub(crate) struct Stored {
    /// Bytes in all.
    pub(crate) length: u32,
    pub(crate) stream: u16,
    /// Its number in its stream: MID, or in the low half SSN.
    pub(crate) mid: u32,
    pub(crate) ppid: u32,
    /// The application's own name for it.
    pub(crate) context: u32,
    /// The shared key that it is to be signed with, if not the active one.
    pub(crate) key: Option<u16>,
    pub(crate) unordered: bool,
    pub(crate) immediate: bool,
    /// Where it begins in what was ever given on its stream.
    pub(crate) begins: u64,
    /// Where its stream's state lies.
    slot: u32,
    /// Where its bytes lie in what that stream holds.
    place: u64,
    /// Bytes that have been cut into chunks, and into how many.
    cut: u32,
    chunks: u32,
    /// Bytes that have been acknowledged for good.
    released: u32,
    /// Those are not the first ones: some were acknowledged out of their order (NR-SACK).
    scattered: bool,
    /// Whether it may be given up (RFC 3758).
    promise: Promise,
    /// Its bytes, if it may be: they can go at any time.
    own: Option<Box<[u8]>>,
}

impl Stored {
    /// `length` bytes at `offset` of a message that has its bytes to itself.
    #[cold]
    fn own_bytes(&self, offset: u32, length: u32) -> (&[u8], &[u8]) {
        let own = self.own.as_deref().unwrap_or_default();
        (&own[offset as usize..(offset + length) as usize], &[])
    }
}

/// Messages that are done with, one leading to the next by its `chunks`: no
/// memory is asked for while a SACK is taken in.
#[derive(Debug)]
struct Chain(Option<u32>);

impl Chain {
    const EMPTY: Self = Self(None);
    const END: u32 = u32::MAX;

    #[inline]
    fn push(&mut self, messages: &mut [Stored], message: u32) {
        messages[message as usize].chunks = self.0.replace(message).unwrap_or(Self::END);
    }

    fn iter(&self, messages: &[Stored]) -> impl Iterator<Item = u32> {
        let next = |&message: &u32| {
            let next = messages[message as usize].chunks;
            (next != Self::END).then_some(next)
        };
        std::iter::successors(self.0, next)
    }

    #[inline]
    fn pop(&mut self, messages: &[Stored]) -> Option<u32> {
        let first = self.0?;
        let next = messages[first as usize].chunks;
        self.0 = (next != Self::END).then_some(next);
        Some(first)
    }
}

/// The next chunk of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cut {
    pub(crate) message: u32,
    pub(crate) offset: u32,
    pub(crate) length: u32,
    /// How many chunks of the message went before.
    pub(crate) number: u32,
}

#[derive(Debug, Default)]
struct Stream {
    next_ordered: u32,
    next_unordered: u32,
    /// Bytes that were ever given, whatever became of them.
    given: u64,
    amount: Amount,
    bytes: StreamBytes,
}

impl Stream {
    /// So many more bytes are given: how many were before them. They count from here on even if they are given up before
    /// they are sent: whoever gave them has counted them.
    #[inline]
    fn count_given(&mut self, bytes: usize) -> u64 {
        let before = self.given;
        self.given += bytes as u64;
        before
    }
}

/// The send buffer.
#[derive(Debug)]
pub(crate) struct Queue {
    messages: Vec<Stored>,
    free: Chain,
    /// Messages that could be given up and are done with.
    gone: Chain,
    /// The number of the latest message.
    latest: u32,
    scheduler: Scheduler,
    streams: Streams<Stream>,
    /// Messages that are being cancelled and wait no longer.
    taken_off: Box<[u32]>,
    /// Streams that are being reset (RFC 6525).
    hold: Option<Box<Hold>>,
    /// Bytes in front of the user data of a chunk.
    header: usize,
    /// Most bytes that may be buffered, and how many now.
    most: u64,
    limit: u64,
    buffered: u64,
    unsent: u64,
    /// Memory that streams with nothing to send hold.
    resting: u64,
    /// Memory that all streams hold, and messages that have their bytes to themselves.
    stored: u64,
    /// Where associations share memory.
    purse: Option<Box<Purse>>,
    /// What a SACK has acknowledged so far of one stream: its slot, and a range of its bytes.
    freeing: (u32, Range<u64>),
    /// Somebody was turned away with a message of this size.
    wanted: Option<u64>,
    /// Streams whose buffered amount has become low, and of which nobody has been told.
    low: Vec<u16>,
}

impl Queue {
    pub(crate) fn new(limit: u64, kind: SchedulerKind) -> Self {
        Self {
            messages: Vec::new(),
            free: Chain::EMPTY,
            gone: Chain::EMPTY,
            latest: 0,
            scheduler: Scheduler::new(kind),
            streams: Streams::new(),
            taken_off: Box::default(),
            hold: None,
            header: Data::HEADER,
            most: limit,
            limit,
            buffered: 0,
            unsent: 0,
            resting: 0,
            stored: 0,
            purse: None,
            freeing: (0, 0..0),
            wanted: None,
            low: Vec::new(),
        }
    }

    /// Bytes that no chunk carries yet.
    #[inline]
    pub(crate) fn unsent_bytes(&self) -> u64 {
        self.unsent
    }

    /// Bytes held, unsent and unacknowledged.
    pub(crate) fn buffered_bytes(&self) -> u64 {
        self.buffered
    }

    /// Takes up to so many bytes from now on; what it holds it keeps.
    pub(crate) fn set_limit(&mut self, limit: u64) {
        (self.most, self.limit) = (limit, limit);
    }

    /// Room for more.
    pub(crate) fn writable_bytes(&self) -> u64 {
        self.limit.saturating_sub(self.buffered)
    }

    pub(crate) fn push(&mut self, message: Message, payload: &[u8]) -> Result<(), SendError> {
        self.check(payload.len(), payload.len())?;
        let slot = self.streams.slot(message.stream, Stream::default);
        let stream = self.streams.at(slot);
        let place = stream.bytes.end();
        let begins = stream.count_given(payload.len());
        let promise = Promise::of(&message);
        let index = if promise == Promise::Full {
            self.store(slot, payload);
            self.enlist(&message, slot, (place, begins), payload.len())
        } else {
            let index = self.enlist(&message, slot, (place, begins), payload.len());
            let stored = &mut self.messages[index as usize];
            stored.promise = promise;
            stored.own = Some(payload.into());
            self.stored += payload.len() as u64;
            index
        };
        self.latest = index;
        Ok(())
    }

    /// Takes in `payload` as messages of `piece` bytes that are not given up, the last of what is
    /// left, as far as there is room for them; how many bytes.
    pub(crate) fn push_pieces(
        &mut self,
        message: Message,
        payload: &[u8],
        piece: usize,
    ) -> Result<usize, SendError> {
        let room = self.check(payload.len(), piece.min(payload.len()))?;
        let taken = if payload.len() <= room { payload.len() } else { room - room % piece };
        let slot = self.streams.slot(message.stream, Stream::default);
        let stream = self.streams.at(slot);
        let begin = stream.bytes.end();
        let begins = stream.count_given(taken);
        self.store(slot, &payload[..taken]);
        let mut place = 0;
        while place < taken {
            let length = piece.min(taken - place);
            let within = place as u64;
            self.enlist(&message, slot, (begin + within, begins + within), length);
            place += length;
        }
        if taken < payload.len() {
            self.turn_away(piece.min(payload.len() - taken));
        }
        Ok(taken)
    }

    /// Of `length` bytes the first `piece` can be taken; how much room there is.
    #[inline]
    fn check(&mut self, length: usize, piece: usize) -> Result<usize, SendError> {
        if length == 0 {
            return Err(SendError::Empty);
        }
        if piece as u64 > self.most || piece as u64 > u64::from(u32::MAX) {
            return Err(SendError::TooLarge);
        }
        let mut room = self.writable_bytes();
        if self.buffered == 0 {
            // What is more than may be buffered now goes alone.
            room = room.max(piece as u64);
        }
        if piece as u64 > room {
            self.turn_away(piece);
            return Err(SendError::Full);
        }
        Ok(room as usize)
    }

    /// Somebody is to be told when there is room for a message of so many bytes.
    fn turn_away(&mut self, length: usize) {
        let length = length as u64;
        self.wanted = Some(self.wanted.map_or(length, |wanted| wanted.min(length)));
    }

    /// Puts bytes behind those that the stream in `slot` has.
    #[inline]
    fn store(&mut self, slot: usize, payload: &[u8]) {
        let bytes = &mut self.streams.at(slot).bytes;
        if bytes.is_empty() {
            self.resting -= bytes.capacity();
        }
        self.stored += bytes.push(payload, self.limit);
    }

    /// A place for one more message.
    #[cold]
    fn fresh(&mut self) -> u32 {
        if self.messages.len() < 4 {
            // Thousands of associations may never have more than one at a time.
            self.messages.reserve_exact(1);
        }
        self.messages.push(Stored::empty());
        (self.messages.len() - 1) as u32
    }

    /// A message of `length` bytes waits from here on, whose bytes lie at `place` and whose stream had been given so many
    /// before it (`begins`); its number.
    #[inline(always)]
    fn enlist(&mut self, message: &Message, slot: usize, (place, begins): (u64, u64), length: usize) -> u32 {
        let index = match self.free.pop(&self.messages) {
            Some(index) => index,
            None => self.fresh(),
        };
        let stored = &mut self.messages[index as usize];
        stored.length = length as u32;
        stored.slot = slot as u32;
        stored.place = place;
        stored.begins = begins;
        stored.stream = message.stream;
        stored.ppid = message.ppid;
        stored.context = message.context;
        stored.key = message.key;
        stored.unordered = message.unordered;
        stored.immediate = message.immediate;
        stored.cut = 0;
        stored.chunks = 0;
        stored.released = 0;
        stored.scattered = false;
        stored.promise = Promise::Full;
        match &mut self.hold {
            Some(hold) if hold.ticket(message.stream).is_some() => hold.keep(index),
            _ => self.scheduler.push(message.stream, index),
        }
        self.buffered += length as u64;
        self.unsent += length as u64;
        self.streams.at(slot).amount.add(length as u64);
        index
    }

    /// Gives a message its number before its first chunk is written: as late as
    /// that, so that one which is dropped before leaves no gap.
    #[inline]
    pub(crate) fn number(&mut self, cut: Cut) {
        if cut.offset > 0 {
            return;
        }
        let stored = &mut self.messages[cut.message as usize];
        let stream = self.streams.at(stored.slot as usize);
        // RFC 9260 §6.5: one number to each ordered message, none to others.
        // RFC 8260 §2.1: those are counted, too, apart; both counts may wrap.
        let next = if stored.unordered { &mut stream.next_unordered } else { &mut stream.next_ordered };
        stored.mid = *next;
        *next = next.wrapping_add(1);
    }

    #[inline]
    pub(crate) fn message(&self, index: u32) -> &Stored {
        &self.messages[index as usize]
    }

    /// `length` bytes of a message at `offset`, in up to two pieces.
    #[inline(always)]
    pub(crate) fn payload<'a>(
        &'a self,
        message: &'a Stored,
        offset: u32,
        length: u32,
    ) -> (&'a [u8], &'a [u8]) {
        if message.own.is_some() {
            return message.own_bytes(offset, length);
        }
        let bytes = &self.streams.of(message.slot as usize).bytes;
        bytes.slices(message.place + u64::from(offset), length as usize)
    }

    /// The next chunk, if one of at most `largest` user bytes goes into `room` bytes.
    #[inline]
    pub(crate) fn next_cut(&self, largest: u32, room: usize) -> Option<Cut> {
        let message = self.scheduler.head()?;
        let stored = &self.messages[message as usize];
        let length = fragment::cut(stored.length, stored.cut, largest, room, self.header)?;
        Some(Cut { message, offset: stored.cut, length, number: stored.chunks })
    }

    /// The chunk has been sent.
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
            let place = stored.place + u64::from(stored.cut);
            self.streams.at(stored.slot as usize).bytes.approach(place);
            if let Some(next) = self.scheduler.soon() {
                cache::prefetch(&self.messages[next as usize]);
            }
        }
    }

    /// True once when there is room again for somebody who was turned away, and
    /// enough of it that one call to the application serves several
    /// acknowledgements; not so much that the buffer runs low meanwhile.
    #[inline]
    pub(crate) fn take_writable(&mut self) -> bool {
        match self.wanted {
            Some(wanted)
                if self.buffered == 0
                    || self.writable_bytes() >= wanted.max((self.limit / 8).min(1 << 16)) =>
            {
                self.wanted = None;
                true
            }
            _ => false,
        }
    }

    /// RFC 9260 §5.1.1: the peer takes only `granted` streams: messages on others
    /// that were given before that was known are dropped. Says which, with their bytes where those are wanted.
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
            // Nothing of it waits any more.
            stored.cut = length;
            self.unsent -= u64::from(length);
            self.release(message, length);
        }
        refused
    }

    /// RFC 8260 §2.2.1: from now on messages go as I-DATA, or as DATA.
    pub(crate) fn set_interleaving(&mut self, on: bool) {
        self.scheduler.set_interleaving(on);
        self.header = if on { IData::HEADER } else { Data::HEADER };
    }

    /// Bytes in front of the user data of a chunk.
    #[inline]
    pub(crate) fn header(&self) -> usize {
        self.header
    }

    /// A packet with new chunks is complete.
    #[inline]
    pub(crate) fn packet_done(&mut self) {
        self.scheduler.packet_done();
    }

    /// RFC 8260 §3: another order of streams from now on.
    pub(crate) fn set_scheduler(&mut self, kind: SchedulerKind) {
        let messages = &self.messages;
        let begun = self.scheduler.head().is_some_and(|head| messages[head as usize].cut > 0);
        self.scheduler.set_kind(kind, begun, |message| messages[message as usize].stream);
    }

    /// A stream's priority or weight.
    pub(crate) fn set_stream_value(&mut self, stream: u16, value: u16) {
        self.scheduler.set_value(stream, value);
    }

    /// Messages that ask to be signed with this key and are not acknowledged in full.
    pub(crate) fn messages_of(&self, key: u16) -> Vec<u32> {
        (0..self.messages.len() as u32).filter(|&message| self.asks_for(message, key)).collect()
    }

    /// It does, and is not.
    pub(crate) fn asks_for(&self, message: u32, key: u16) -> bool {
        let stored = &self.messages[message as usize];
        let abandoned = matches!(stored.promise, Promise::Abandoned(_));
        stored.key == Some(key) && stored.released < stored.length && !abandoned
    }

    /// What outlives a restart: somebody was turned away and must be told although everything is
    /// gone; and how streams take turns.
    pub(crate) fn inherit(&mut self, before: &mut Self) {
        self.wanted = before.wanted;
        self.inherit_low(before);
        self.scheduler.inherit(&mut before.scheduler);
    }
}

impl Stored {
    const fn empty() -> Self {
        Self {
            length: 0,
            slot: 0,
            place: 0,
            stream: 0,
            mid: 0,
            ppid: 0,
            context: 0,
            key: None,
            unordered: false,
            immediate: false,
            begins: 0,
            cut: 0,
            chunks: 0,
            released: 0,
            scattered: false,
            promise: Promise::Full,
            own: None,
        }
    }
}
