//! The send buffer: data that the application has written and the peer has not acknowledged.
//!
//! Buffers the data of the SEND call (RFC 9293 §3.9.1.2). The bytes are either all in a ring, or all in memory that is
//! shared with the application.

use crate::ring::Ring;
use anabranch_base::{MIN_SHARED, SharedBytes, SharedPieces};
use bytes::{Buf, Bytes};
use std::ops::Range;

/// The bytes that are not acknowledged, sent or unsent, by stream position. Acknowledged bytes are removed.
#[derive(Debug)]
pub(crate) struct SendBuffer {
    ring: Ring,
    /// The bytes, if the application shares their memory. The ring then has no bytes.
    shared: Option<Box<SharedPieces>>,
    /// The first unacknowledged position.
    start: u64,
    /// The position after the last byte written.
    end: u64,
    /// `limit` is the number of bytes that the buffer may hold at present. It can grow up to `max_limit` bytes.
    limit: u64,
    max_limit: u64,
    /// A second limit on the bytes in the buffer: the congestion window plus the number of unsent bytes that the
    /// application allows.
    window_cap: u64,
    /// Whether the buffer grows with the congestion window, so that the window is never left unused for lack of data.
    grows: bool,
    /// Whether the last write did not fit, so that the application waits for room.
    starved: bool,
}

impl SendBuffer {
    pub(crate) fn new(limit: u64, most: u64) -> Self {
        let limit = limit.min(most);
        Self {
            ring: Ring::default(),
            shared: None,
            start: 0,
            end: 0,
            limit,
            max_limit: most,
            window_cap: u64::MAX,
            grows: limit < most,
            starved: false,
        }
    }

    /// Raises the capacity of the buffer to `limit` bytes, because the congestion window has grown.
    #[inline]
    pub(crate) fn grow_to(&mut self, limit: u64) {
        if limit > self.limit {
            self.limit = limit.min(self.max_limit);
        }
    }

    /// Limits the data in the buffer, unsent or unacknowledged, to `window_cap` bytes.
    pub(crate) fn set_cap(&mut self, window_cap: u64) {
        self.window_cap = window_cap;
    }

    /// Copies as much of `data` as fits, and returns the number of bytes copied.
    pub(crate) fn write(&mut self, data: &[u8]) -> usize {
        let taken = self.admit(data.len());
        if self.shared.is_some() {
            self.unshare();
        }
        let alive = self.start..self.end;
        // The ring grows in large steps, so that many small writes do not copy its bytes often.
        self.ring.reserve(alive, self.end - self.start + taken as u64);
        self.ring.write(self.end, &data[..taken]);
        self.end += taken as u64;
        taken
    }

    /// Like [`write`](Self::write), but shares the memory of `data`, and removes the bytes taken from `data`. Copies
    /// them if the buffer has bytes in its ring, or if `data` is short.
    pub(crate) fn write_shared(&mut self, data: &mut Bytes) -> usize {
        let is_empty = self.start == self.end;
        let shares = is_empty && data.len() >= MIN_SHARED
            || self.shared.as_ref().is_some_and(|shared| !shared.is_full());
        if !shares {
            let taken = self.write(data);
            data.advance(taken);
            return taken;
        }
        let taken = self.admit(data.len());
        if taken > 0 {
            self.shared.get_or_insert_default().push(self.end, data.split_to(taken));
            self.end += taken as u64;
        }
        taken
    }

    /// Returns how many of `wanted` bytes fit.
    fn admit(&mut self, wanted: usize) -> usize {
        let taken = (self.room() as usize).min(wanted);
        self.starved = taken < wanted;
        taken
    }

    /// Copies the shared bytes into the ring.
    #[cold]
    fn unshare(&mut self) {
        let Some(shared) = self.shared.take() else { return };
        self.ring.reserve(self.start..self.start, self.end - self.start);
        for (at, bytes) in shared.parts(self.start..self.end) {
            self.ring.write(at, bytes);
        }
    }

    /// Returns the bytes at the positions `range` without a copy, if one piece of shared memory holds them.
    #[inline]
    pub(crate) fn share(&mut self, range: &Range<u64>) -> Option<SharedBytes> {
        self.shared.as_mut()?.share(range)
    }

    /// Returns the number of bytes for which there is room now.
    pub(crate) fn room(&self) -> u64 {
        self.limit.min(self.window_cap).saturating_sub(self.end - self.start)
    }

    /// Returns the number of bytes that are unsent or unacknowledged.
    pub(crate) fn held(&self) -> u64 {
        self.end - self.start
    }

    /// Returns the position after the last byte written.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Releases all bytes before `position`, which are acknowledged. Returns true if the application waits for room and
    /// enough room is free to wake it.
    #[inline]
    pub(crate) fn release(&mut self, position: u64) -> bool {
        assert!(position >= self.start && position <= self.end, "acknowledged what was not written");
        self.start = position;
        if let Some(shared) = &mut self.shared {
            shared.release(position);
            if position == self.end {
                self.shared = None;
            }
        }
        // As in Linux, a third of the buffer must be free, so that the application wakes once for many
        // acknowledgements. A buffer that does not grow may itself limit the data in flight, so the application is
        // woken earlier, as in BSD (SO_SNDLOWAT).
        let third = self.limit.div_ceil(3);
        let enough = if self.grows && self.window_cap == u64::MAX { third } else { third.min(LOW_WATER) };
        if self.starved && self.room() >= enough {
            self.starved = false;
            return true;
        }
        false
    }

    /// Appends the bytes at the positions `range` to `out`.
    #[inline]
    pub(crate) fn append_to(&self, range: Range<u64>, out: &mut Vec<u8>) {
        if range.is_empty() {
            return;
        }
        assert!(range.start >= self.start && range.end <= self.end, "sending what is not in the buffer");
        match &self.shared {
            None => self.ring.append_to(range, out),
            Some(shared) => shared.parts(range).for_each(|(_, bytes)| out.extend_from_slice(bytes)),
        }
    }

    /// Frees the memory, because the connection has ended.
    pub(crate) fn discard(&mut self) {
        self.ring.release();
        self.shared = None;
        self.starved = false;
    }
}

/// The number of free bytes at which a waiting application is woken: sb_lowat of a sending socket in FreeBSD 4.x.
const LOW_WATER: u64 = 2048;
