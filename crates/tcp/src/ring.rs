//! Bytes of a stream at their stream positions, in a ring that grows.
//!
//! Positions are 64-bit offsets that never wrap; a byte lies at its position,
//! counted from a base, modulo the ring's length, a power of two. Moving the
//! base while the ring is empty keeps a stream that is read as it comes in the
//! same few cache lines. Owned by the send buffer and the
//! receive buffer, which say which positions are alive.

use std::ops::Range;

#[derive(Debug, Default)]
pub(crate) struct Ring {
    bytes: Vec<u8>,
    base: u64,
}

impl Ring {
    /// Makes room for all positions of `wanted` at once, keeping the bytes of `alive`.
    pub(crate) fn reserve(&mut self, alive: Range<u64>, wanted: u64) {
        if wanted <= self.bytes.len() as u64 {
            return;
        }
        let length = wanted.max(SMALLEST).next_power_of_two() as usize;
        let old = std::mem::replace(self, Self { bytes: vec![0; length], base: self.base });
        // What is alive may already count the positions that room is made for.
        let held = alive.start..alive.end.min(alive.start + old.bytes.len() as u64);
        if held.start < held.end {
            let (first, second) = old.slices(held);
            self.write(alive.start, first);
            self.write(alive.start + first.len() as u64, second);
        }
    }

    /// Puts `data` at positions from `at` on.
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
        // Mostly it does not wrap, and to copy nothing costs as much as to copy a line.
        if !second.is_empty() {
            self.bytes[..second.len()].copy_from_slice(second);
        }
    }

    /// Copies the bytes from `start` on into all of `into`.
    #[inline]
    pub(crate) fn copy_to(&self, start: u64, into: &mut [u8]) {
        let (first, second) = self.slices(start..start + into.len() as u64);
        into[..first.len()].copy_from_slice(first);
        if !second.is_empty() {
            into[first.len()..].copy_from_slice(second);
        }
    }

    /// Appends the bytes at these positions to `out`.
    #[inline]
    pub(crate) fn append_to(&self, range: Range<u64>, out: &mut Vec<u8>) {
        let (first, second) = self.slices(range);
        out.extend_from_slice(first);
        if !second.is_empty() {
            out.extend_from_slice(second);
        }
    }

    /// The bytes at these positions, in two pieces where the ring wraps.
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

    /// Nothing is alive, and what comes next begins at `position`.
    #[inline]
    pub(crate) fn rebase(&mut self, position: u64) {
        self.base = position;
    }

    /// Gives the memory back.
    pub(crate) fn release(&mut self) {
        self.bytes = Vec::new();
    }

    #[inline]
    fn index(&self, position: u64) -> usize {
        (position.wrapping_sub(self.base) & (self.bytes.len() as u64 - 1)) as usize
    }
}

/// Less is not worth growing through.
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
