//! Stores the readable data of one lane of a stream: bytes and message boundaries. A lane holds the ordered or the
//! unordered messages of the stream.
//!
//! An empty queue keeps its memory for the next messages, up to a limit. Memory beyond the limit is freed once a
//! backlog has been read.
//!
//! Implements RFC 9260 §11.1.7 (Receive), as far as it concerns one lane.

use super::Delivery;
use super::last_packet::LastPacket;
use crate::message::Received;
use std::collections::VecDeque;

/// The end of a complete message in a read queue. No buffer has 4 GiB, so 32 bits are enough for lengths.
#[derive(Debug)]
pub(super) struct Boundary {
    pub(super) left: u32,
    pub(super) ppid: u32,
    pub(super) tsn: u32,
    pub(super) ssn: u16,
    /// Whether parts of the message were delivered, and the rest will not arrive.
    pub(super) incomplete: bool,
}

/// An unfinished message whose received bytes are at the end of a read queue.
#[derive(Debug)]
pub(super) struct Tail {
    pub(super) received: u32,
    pub(super) ssn: u16,
    pub(super) ppid: u32,
    pub(super) tsn: u32,
    /// Whether the message is delivered in parts.
    pub(super) in_parts: bool,
}

impl Boundary {
    #[inline]
    pub(super) fn of(to: Delivery, length: usize) -> Self {
        let Delivery { ssn, ppid, tsn, .. } = to;
        Self { left: length as u32, ppid, tsn, ssn, incomplete: false }
    }
}

impl Tail {
    /// Ends this message, and returns its boundary in the read queue. `incomplete` says that the rest of the message
    /// will not arrive.
    pub(super) fn end(self, incomplete: bool) -> Boundary {
        let Self { received, ssn, ppid, tsn, .. } = self;
        Boundary { left: if incomplete { 0 } else { received }, ppid, tsn, ssn, incomplete }
    }
}

#[derive(Debug, Default)]
pub(super) struct ReadQueue {
    pub(super) bytes: VecDeque<u8>,
    /// Number of bytes at the start of `bytes` that were already read.
    pub(super) taken: usize,
    pub(super) messages: VecDeque<Boundary>,
    pub(super) tail: Option<Tail>,
}

impl ReadQueue {
    pub(super) fn push(&mut self, payload: &[u8], to: Delivery) {
        assert!(self.tail.is_none(), "a message inside another");
        self.bytes.extend(payload);
        self.end_message(Boundary::of(to, payload.len()));
    }

    /// Adds a message whose bytes are in the [`LastPacket`].
    #[inline]
    pub(super) fn push_kept(&mut self, length: usize, to: Delivery) {
        self.end_message(Boundary::of(to, length));
    }

    #[inline]
    pub(super) fn end_message(&mut self, message: Boundary) {
        if self.messages.capacity() == 0 {
            // Reserve room for only one message. An application that reads each message immediately needs no more.
            self.messages.reserve_exact(1);
        }
        self.messages.push_back(message);
    }

    pub(super) fn readable(&self) -> bool {
        !self.messages.is_empty() || self.tail.as_ref().is_some_and(|tail| tail.in_parts && tail.received > 0)
    }

    /// Returns the number of bytes that one read can return.
    pub(super) fn first(&self) -> usize {
        match (self.messages.front(), &self.tail) {
            (Some(message), _) => message.left as usize,
            (None, Some(tail)) if tail.in_parts => tail.received as usize,
            _ => 0,
        }
    }

    /// Reads the next bytes of the lane into `out`.
    #[inline]
    pub(super) fn copy(&mut self, out: &mut [u8]) {
        /// Read bytes are removed from the queue once there are this many of them. One removal then serves many small
        /// messages.
        const AT_ONCE: usize = 4096;
        let (front, back) = self.bytes.as_slices();
        let end = self.taken + out.len();
        if end <= front.len() {
            out.copy_from_slice(&front[self.taken..end]);
        } else if self.taken >= front.len() {
            out.copy_from_slice(&back[self.taken - front.len()..end - front.len()]);
        } else {
            let (head, tail) = out.split_at_mut(front.len() - self.taken);
            head.copy_from_slice(&front[self.taken..]);
            tail.copy_from_slice(&back[..end - front.len()]);
        }
        self.taken = end;
        if end == self.bytes.len() {
            // The application has read everything, so new bytes can start at the beginning of the queue's memory.
            self.bytes.clear();
            self.taken = 0;
        } else if end >= AT_ONCE {
            self.bytes.drain(..end);
            self.taken = 0;
        }
    }

    /// Frees unused memory of the stream in `slot`. A stream that waited for a lost packet may have a large buffer, and
    /// a stream that is used only once must not keep its buffer. The stream in slot 0 may keep a larger buffer, because
    /// a bulk transfer fills it between two reads. If that buffer were freed, the allocator would have to provide and
    /// clear pages for each message.
    #[inline]
    pub(super) fn free_unused(&mut self, slot: usize, shared: bool) {
        let most = match slot {
            _ if shared => return self.free_unused_shared(),
            0 => 512 << 10,
            1..16 => 128 << 10,
            16..256 => 16 << 10,
            _ => 0,
        };
        if self.bytes.is_empty() && self.bytes.capacity() > most {
            self.bytes = VecDeque::new();
        }
        if self.messages.is_empty() && self.messages.capacity() * size_of::<Boundary>() > most {
            self.messages = VecDeque::new();
        }
    }

    /// Like [`free_unused`](Self::free_unused), for memory shared with other associations. Frees unused memory
    /// if the queue has more than twice the memory that its content needs, plus a small constant.
    #[inline]
    pub(super) fn free_unused_shared(&mut self) {
        const LITTLE: usize = 2048;
        let length = self.bytes.len();
        if self.bytes.capacity() > 2 * length + LITTLE {
            self.drop_read();
            self.bytes.shrink_to(self.bytes.len() + self.bytes.len() / 4);
        }
        let count = self.messages.len();
        if self.messages.capacity() > 2 * count + LITTLE / size_of::<Boundary>() {
            self.messages.shrink_to(count + count / 4);
        }
    }

    /// Removes from the buffer the bytes that the application has already read.
    pub(super) fn drop_read(&mut self) {
        self.bytes.drain(..std::mem::take(&mut self.taken));
    }

    /// RFC 9260 §11.1.7: reads at most the rest of one message. `last` is the [`LastPacket`] if it holds the bytes of
    /// the queue's first message. `None` if the queue itself holds these bytes.
    #[inline]
    pub(super) fn read(
        &mut self,
        out: &mut [u8],
        unordered: bool,
        last: Option<&mut LastPacket>,
    ) -> Option<Received> {
        let mut incomplete = false;
        let (left, ppid, tsn, ssn, whole) = match (self.messages.front_mut(), &mut self.tail) {
            (Some(message), _) => {
                incomplete = message.incomplete;
                (&mut message.left, message.ppid, message.tsn, message.ssn, true)
            }
            (None, Some(tail)) if tail.in_parts && tail.received > 0 => {
                (&mut tail.received, tail.ppid, tail.tsn, tail.ssn, false)
            }
            _ => return None,
        };
        let bytes = out.len().min(*left as usize);
        *left -= bytes as u32;
        let end_of_message = whole && *left == 0;
        match last {
            Some(last) => last.copy(&mut out[..bytes]),
            None => self.copy(&mut out[..bytes]),
        }
        if end_of_message {
            self.messages.pop_front();
        }
        Some(Received { bytes, ppid, tsn, ssn, end_of_message, incomplete, unordered })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Once all data is read, a stream keeps its buffer if the buffer is small enough. The size limit is higher for
    /// stream 0 than for other streams.
    #[test]
    fn the_first_stream_keeps_its_buffer() {
        for (slot, filled, keeps) in
            [(0, 300 << 10, true), (0, 600 << 10, false), (1, 100 << 10, true), (1, 300 << 10, false)]
        {
            let mut lane = ReadQueue::default();
            lane.bytes.reserve_exact(filled);
            let to = Delivery { stream: 0, ssn: 0, ppid: 0, tsn: 1, unordered: false };
            lane.push(&vec![1; filled], to);
            let capacity = lane.bytes.capacity();
            assert!(lane.read(&mut vec![0; filled], false, None).is_some_and(|read| read.bytes == filled));
            lane.free_unused(slot, false);
            assert_eq!(lane.bytes.capacity(), if keeps { capacity } else { 0 }, "{slot}: {filled}");
        }
    }

    /// Messages that queued up behind a lost packet are read after it has arrived. The stream then frees most of the
    /// memory, because such a backlog is rare.
    #[test]
    fn a_stream_keeps_little_of_what_a_backlog_took() {
        for (slot, most) in [(0, 512 << 10), (1, 128 << 10), (16, 16 << 10), (256, 0)] {
            let mut lane = ReadQueue::default();
            let to = Delivery { stream: 0, ssn: 0, ppid: 0, tsn: 1, unordered: false };
            for _ in 0..100_000 {
                lane.push(&[1; 100], to);
            }
            let mut out = [0; 100];
            while lane.read(&mut out, false, None).is_some() {
                lane.free_unused(slot, false);
            }
            let kept = (lane.bytes.capacity(), lane.messages.capacity() * size_of::<Boundary>());
            assert!(kept.0 <= most && kept.1 <= most, "{slot}: {kept:?}");
        }
    }
}
