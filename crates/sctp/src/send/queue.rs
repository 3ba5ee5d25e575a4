//! Messages from `send` until the last of their bytes is acknowledged.
//!
//! Owns the bytes: a message is copied in once and its chunks are written from
//! there, first and again. Numbers ordered messages per stream and counts each
//! stream's bytes for the trace. What is buffered is bounded.
//!
//! Home of RFC 9260 §6.5 (the sender's half) and §11.1.5 (Send).

use super::fragment;
use super::scheduler::Scheduler;
use crate::config::SchedulerKind;
use crate::endpoint::Message;
use crate::error::SendError;
use crate::streams::Streams;

/// A message.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) payload: Vec<u8>,
    pub(crate) stream: u16,
    pub(crate) ssn: u16,
    pub(crate) ppid: u32,
    pub(crate) unordered: bool,
    pub(crate) immediate: bool,
    /// Where it begins in what was ever sent on its stream.
    pub(crate) begins: u64,
    /// Bytes that have been cut into chunks.
    cut: u32,
    /// Bytes that have been acknowledged for good.
    released: u32,
}

/// The next chunk of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cut {
    pub(crate) message: u32,
    pub(crate) offset: u32,
    pub(crate) length: u32,
}

#[derive(Debug, Default)]
struct Stream {
    next_ssn: u16,
    bytes: u64,
}

/// The send buffer.
#[derive(Debug)]
pub(crate) struct Queue {
    messages: Vec<Stored>,
    free: Vec<u32>,
    scheduler: Scheduler,
    streams: Streams<Stream>,
    limit: u64,
    buffered: u64,
    unsent: u64,
    /// Somebody was turned away with a message of this size.
    wanted: Option<u64>,
}

impl Queue {
    pub(crate) fn new(limit: u64, kind: SchedulerKind) -> Self {
        Self {
            messages: Vec::new(),
            free: Vec::new(),
            scheduler: Scheduler::new(kind),
            streams: Streams::new(),
            limit,
            buffered: 0,
            unsent: 0,
            wanted: None,
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

    /// Room for more.
    pub(crate) fn writable_bytes(&self) -> u64 {
        self.limit.saturating_sub(self.buffered)
    }

    pub(crate) fn push(&mut self, message: Message, payload: &[u8]) -> Result<(), SendError> {
        let length = payload.len() as u64;
        if length == 0 {
            return Err(SendError::Empty);
        }
        if length > self.limit || length > u64::from(u32::MAX) {
            return Err(SendError::TooLarge);
        }
        if length > self.writable_bytes() {
            self.wanted = Some(self.wanted.map_or(length, |wanted| wanted.min(length)));
            return Err(SendError::Full);
        }
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.messages.push(Stored::empty());
                (self.messages.len() - 1) as u32
            }
        };
        let stored = &mut self.messages[index as usize];
        stored.payload.extend_from_slice(payload);
        stored.stream = message.stream;
        stored.ppid = message.ppid;
        stored.unordered = message.unordered;
        stored.immediate = message.immediate;
        stored.cut = 0;
        stored.released = 0;
        self.scheduler.push(message.stream, index);
        self.buffered += length;
        self.unsent += length;
        Ok(())
    }

    /// Gives a message its number before its first chunk is written: as late as
    /// that, so that one which is dropped before leaves no gap.
    #[inline]
    pub(crate) fn number(&mut self, cut: Cut) {
        if cut.offset > 0 {
            return;
        }
        let stored = &mut self.messages[cut.message as usize];
        let slot = self.streams.slot(stored.stream, Stream::default);
        let stream = self.streams.at(slot);
        stored.ssn = stream.next_ssn;
        if !stored.unordered {
            // RFC 9260 §6.5: one number to each ordered message, none to others.
            stream.next_ssn = stored.ssn.wrapping_add(1);
        }
        stored.begins = stream.bytes;
        stream.bytes += stored.payload.len() as u64;
    }

    #[inline]
    pub(crate) fn message(&self, index: u32) -> &Stored {
        &self.messages[index as usize]
    }

    /// The next chunk, if one of at most `largest` user bytes goes into `room` bytes.
    #[inline]
    pub(crate) fn next_cut(&self, largest: u32, room: usize) -> Option<Cut> {
        let message = self.scheduler.head()?;
        let stored = &self.messages[message as usize];
        let length = fragment::cut(stored.payload.len() as u32, stored.cut, largest, room)?;
        Some(Cut { message, offset: stored.cut, length })
    }

    /// The chunk has been sent.
    #[inline]
    pub(crate) fn commit(&mut self, cut: Cut) {
        let stored = &mut self.messages[cut.message as usize];
        assert!(stored.cut == cut.offset, "a chunk was cut twice");
        stored.cut += cut.length;
        self.unsent -= u64::from(cut.length);
        if stored.cut as usize == stored.payload.len() {
            self.scheduler.pop();
        }
    }

    /// `length` bytes of a message are acknowledged for good.
    #[inline]
    pub(crate) fn release(&mut self, message: u32, length: u32) {
        /// Larger buffers are not kept for the next message.
        const KEPT: usize = 1 << 16;
        let stored = &mut self.messages[message as usize];
        stored.released += length;
        self.buffered -= u64::from(length);
        if stored.released as usize == stored.payload.len() {
            if stored.payload.capacity() > KEPT || self.free.len() > 1024 {
                stored.payload = Vec::new();
            } else {
                stored.payload.clear();
            }
            self.free.push(message);
        }
    }

    /// True once when there is room again for somebody who was turned away, and
    /// enough of it that one call to the application serves several
    /// acknowledgements; not so much that the buffer runs low meanwhile.
    #[inline]
    pub(crate) fn take_writable(&mut self) -> bool {
        match self.wanted {
            Some(wanted) if self.writable_bytes() >= wanted.max((self.limit / 8).min(1 << 16)) => {
                self.wanted = None;
                true
            }
            _ => false,
        }
    }

    /// RFC 9260 §5.1.1: the peer takes only `granted` streams: messages on others
    /// that were given before that was known are dropped.
    pub(crate) fn drop_beyond(&mut self, granted: u16) {
        let order: Vec<u32> = std::iter::from_fn(|| {
            let head = self.scheduler.head()?;
            self.scheduler.pop();
            Some(head)
        })
        .collect();
        for message in order {
            let stored = &self.messages[message as usize];
            let (stream, length) = (stored.stream, stored.payload.len() as u32);
            if stream < granted || stored.cut > 0 {
                self.scheduler.push(stream, message);
            } else {
                self.unsent -= u64::from(length);
                self.release(message, length);
            }
        }
    }

    /// Somebody was turned away and must be told although everything is gone.
    pub(crate) fn inherit_wanted(&mut self, before: &Self) {
        self.wanted = before.wanted;
    }
}

impl Stored {
    const fn empty() -> Self {
        Self {
            payload: Vec::new(),
            stream: 0,
            ssn: 0,
            ppid: 0,
            unordered: false,
            immediate: false,
            begins: 0,
            cut: 0,
            released: 0,
        }
    }
}
