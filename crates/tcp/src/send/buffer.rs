//! What the application has written and the peer has not acknowledged.
//!
//! Home of the buffering side of RFC 9293 §3.9.1.2 (SEND).

use crate::ring::Ring;
use std::ops::Range;

/// Bytes by stream position: acknowledged ones are gone, the rest may be (re)sent.
#[derive(Debug)]
pub(crate) struct SendBuffer {
    ring: Ring,
    /// First position that is not acknowledged.
    start: u64,
    /// The position after the last byte written.
    end: u64,
    limit: u64,
    /// The last write did not fit: the application waits for room.
    starved: bool,
}

impl SendBuffer {
    pub(crate) fn new(limit: u64) -> Self {
        Self { ring: Ring::default(), start: 0, end: 0, limit, starved: false }
    }

    /// Takes what fits.
    pub(crate) fn write(&mut self, data: &[u8]) -> usize {
        let taken = (self.room() as usize).min(data.len());
        self.starved = taken < data.len();
        let alive = self.start..self.end;
        // Grow in steps, so that a slow trickle does not copy often.
        self.ring.reserve(alive, self.end - self.start + taken as u64);
        self.ring.write(self.end, &data[..taken]);
        self.end += taken as u64;
        taken
    }

    /// Bytes that would fit now.
    pub(crate) fn room(&self) -> u64 {
        self.limit - (self.end - self.start)
    }

    /// The position after the last byte written.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Everything before `position` is acknowledged. True when the application
    /// waits for room and there is enough to be worth its while.
    #[inline]
    pub(crate) fn release(&mut self, position: u64) -> bool {
        assert!(position >= self.start && position <= self.end, "acknowledged what was not written");
        self.start = position;
        // A third of the buffer, as Linux has it: one wake-up for many acknowledgements.
        if self.starved && self.room() >= self.limit.div_ceil(3) {
            self.starved = false;
            return true;
        }
        false
    }

    /// Appends the bytes at these positions to `out`.
    #[inline]
    pub(crate) fn append_to(&self, range: Range<u64>, out: &mut Vec<u8>) {
        if range.is_empty() {
            return;
        }
        assert!(range.start >= self.start && range.end <= self.end, "sending what is not in the buffer");
        let (first, second) = self.ring.slices(range);
        out.extend_from_slice(first);
        out.extend_from_slice(second);
    }

    /// Forgets everything: the connection is over.
    pub(crate) fn discard(&mut self) {
        self.ring.release();
        self.starved = false;
    }
}
