//! A ring buffer that grows, and stores the bytes of a stream by position.
//!
//! Positions are 64-bit offsets that never wrap. A byte is stored at the index (position - base), modulo the length of
//! the ring, which is a power of two. While the ring is empty, the base is set to the position of the next byte. A
//! stream that is read promptly therefore stays in a few cache lines at the start of the ring. The owner of the ring, a
//! send or receive buffer, knows which positions are in use.

use std::ops::Range;

#[derive(Debug, Default)]
pub(crate) struct Ring {
    bytes: Vec<u8>,
    base: u64,
}

impl Ring {
    /// Ensures room for `needed` positions. The bytes at the positions `alive` keep their values.
    pub(crate) fn reserve(&mut self, alive: Range<u64>, needed: u64) {
        if needed <= self.bytes.len() as u64 {
            return;
        }
        let length = needed.max(SMALLEST).next_power_of_two() as usize;
        let old = std::mem::replace(self, Self { bytes: vec![0; length], base: self.base });
        // `alive` may end beyond the positions that the old ring has room for, so the range is limited to the length of
        // the old ring.
        let held = alive.start..alive.end.min(alive.start + old.bytes.len() as u64);
        if held.start < held.end {
            let (first, second) = old.slices(held);
            self.write(alive.start, first);
            self.write(alive.start + first.len() as u64, second);
        }
    }

    /// Writes `data` to the ring, beginning at the position `at`.
    #[inline]
    pub(crate) fn write(&mut self, at: u64, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        assert!(data.len() <= self.bytes.len(), "more data than the ring holds");
        let start = self.index(at);
        let before_end = (self.bytes.len() - start).min(data.len());
        let (first, second) = data.split_at(before_end);
        self.bytes[start..start + before_end].copy_from_slice(first);
        // Usually the data does not wrap, so `second` is empty. The check avoids a call that copies zero bytes. Such a
        // call costs as much as copying a cache line.
        if !second.is_empty() {
            self.bytes[..second.len()].copy_from_slice(second);
        }
    }

    /// Copies bytes, beginning at the position `start`, until the slice `into` is full.
    #[inline]
    pub(crate) fn copy_to(&self, start: u64, into: &mut [u8]) {
        let (first, second) = self.slices(start..start + into.len() as u64);
        into[..first.len()].copy_from_slice(first);
        if !second.is_empty() {
            into[first.len()..].copy_from_slice(second);
        }
    }

    /// Appends the bytes at the positions `range` to `out`.
    #[inline]
    pub(crate) fn append_to(&self, range: Range<u64>, out: &mut Vec<u8>) {
        let (first, second) = self.slices(range);
        out.extend_from_slice(first);
        if !second.is_empty() {
            out.extend_from_slice(second);
        }
    }

    /// Returns the bytes at the positions `range`, in two slices if the range wraps at the end of the ring.
    #[inline]
    pub(crate) fn slices(&self, range: Range<u64>) -> (&[u8], &[u8]) {
        let length = range.end.saturating_sub(range.start) as usize;
        if length == 0 {
            return (&[], &[]);
        }
        assert!(length <= self.bytes.len(), "more positions than the ring holds");
        let start = self.index(range.start);
        let before_end = (self.bytes.len() - start).min(length);
        (&self.bytes[start..start + before_end], &self.bytes[..length - before_end])
    }

    /// Sets the base to `position`, so that the byte at `position` has the index 0. The ring must hold no data.
    #[inline]
    pub(crate) fn rebase(&mut self, position: u64) {
        self.base = position;
    }

    /// Frees the memory.
    pub(crate) fn release(&mut self) {
        self.bytes = Vec::new();
    }

    #[inline]
    fn index(&self, position: u64) -> usize {
        (position.wrapping_sub(self.base) & (self.bytes.len() as u64 - 1)) as usize
    }
}

/// The smallest length of a ring in bytes. A smaller ring would soon have to grow.
const SMALLEST: u64 = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stay_at_their_positions_while_the_ring_wraps_and_grows() {
        let mut ring = Ring::default();
        let data: Vec<u8> = (0..7000_u32).map(|n| (n % 251) as u8).collect();
        ring.reserve(0..0, 2000);
        ring.write(1_000_000, &data[..2000]);
        ring.reserve(1_000_000..1_002_000, 7000);
        ring.write(1_002_000, &data[2000..]);
        let (first, second) = ring.slices(1_000_000..1_007_000);
        assert_eq!([first, second].concat(), data);
    }
}
