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
    /// What it takes now, and at most.
    limit: u64,
    most: u64,
    /// It takes no more than this, whatever its size: what the network takes next, and a little.
    cap: u64,
    /// The buffer grows with the window, so that the window never waits for the application.
    grows: bool,
    /// The last write did not fit: the application waits for room.
    starved: bool,
}

impl SendBuffer {
    pub(crate) fn new(limit: u64, most: u64) -> Self {
        let limit = limit.min(most);
        Self {
            ring: Ring::default(),
            start: 0,
            end: 0,
            limit,
            most,
            cap: u64::MAX,
            grows: limit < most,
            starved: false,
        }
    }

    /// The window has grown: there is use for a buffer of this size.
    #[inline]
    pub(crate) fn grow_to(&mut self, limit: u64) {
        if limit > self.limit {
            self.limit = limit.min(self.most);
        }
    }

    /// Takes no more than `cap` bytes that are not acknowledged.
    pub(crate) fn set_cap(&mut self, cap: u64) {
        self.cap = cap;
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
        self.limit.min(self.cap).saturating_sub(self.end - self.start)
    }

    /// Bytes that are not acknowledged, or not sent yet.
    pub(crate) fn held(&self) -> u64 {
        self.end - self.start
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
        // A third of the buffer, as Linux has it: one wake-up for many acknowledgements. A buffer that does not grow
        // may itself be what bounds the flight: there the application is woken early, as BSD has it (SO_SNDLOWAT).
        let third = self.limit.div_ceil(3);
        let enough = if self.grows && self.cap == u64::MAX { third } else { third.min(LOW_WATER) };
        if self.starved && self.room() >= enough {
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
        self.ring.append_to(range, out);
    }

    /// Forgets everything: the connection is over.
    pub(crate) fn discard(&mut self) {
        self.ring.release();
        self.starved = false;
    }
}

/// FreeBSD 4.x sb_lowat of a sending socket.
const LOW_WATER: u64 = 2048;
