//! Stores the few fields of each chunk that a cumulative acknowledgement needs.
//!
//! A summary takes four bytes. Summaries are in a ring indexed by offset, next to the entries. A SACK for tens of
//! thousands of chunks reads the summaries, which fit into a cache, and only a few of the entries. Nothing is removed
//! from the ring: newer summaries overwrite older ones.
//!
//! Home of no rule.

use super::{ChunkState, Entry};

/// The summary of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::send) struct ChunkSummary {
    length: u16,
    /// The path, with the chunk's state in the upper bits.
    likeness: u16,
}

impl ChunkSummary {
    const AGAIN: u16 = 1 << 11;

    pub(super) fn of(entry: &Entry) -> Self {
        let state = match entry.state {
            ChunkState::InFlight => 0,
            ChunkState::Acked => 1 << 8,
            ChunkState::Lost(_) => 2 << 8,
            ChunkState::Abandoned => 3 << 8,
            ChunkState::Freed => 4 << 8,
        };
        let again = if entry.again { Self::AGAIN } else { 0 };
        Self { length: entry.length, likeness: u16::from(entry.path) | again | state }
    }

    /// Whether `self` and `other` have the same path and state, and both or neither were retransmitted.
    #[inline]
    pub(in crate::send) fn is_like(self, other: Self) -> bool {
        self.likeness == other.likeness
    }

    /// Returns the number of user bytes without and with padding.
    #[inline]
    pub(in crate::send) fn bytes(self) -> (u64, u64) {
        let length = u64::from(self.length);
        (length, (length + 3) & !3)
    }
}

/// The summaries, in a ring indexed by offset. The size of the ring is zero or a power of two.
#[derive(Debug, Default)]
pub(super) struct SummaryRing(Box<[ChunkSummary]>);

impl SummaryRing {
    #[inline]
    fn place(&self, offset: u64) -> usize {
        offset as usize & self.0.len().wrapping_sub(1)
    }

    /// Whether one more chunk fits into the ring if it already holds `outstanding` chunks.
    #[inline]
    pub(super) fn has_room(&self, outstanding: usize) -> bool {
        outstanding < self.0.len()
    }

    /// Doubles the size of the ring. `all` are the outstanding chunks, the first of them at offset `base`.
    #[cold]
    pub(super) fn grow<'a>(&mut self, base: u64, all: impl Iterator<Item = &'a Entry>) {
        const MIN_CAPACITY: usize = 4;
        self.0 = vec![ChunkSummary::default(); (2 * self.0.len()).max(MIN_CAPACITY)].into();
        for (entry, offset) in all.zip(base..) {
            self.put(offset, entry);
        }
    }

    #[inline]
    pub(super) fn put(&mut self, offset: u64, entry: &Entry) {
        let place = self.place(offset);
        if let Some(summary) = self.0.get_mut(place) {
            *summary = ChunkSummary::of(entry);
        }
    }

    /// Returns the summaries at offsets `from..to`, as far as they are contiguous in memory.
    pub(super) fn piece(&self, from: u64, to: u64) -> &[ChunkSummary] {
        let place = self.place(from);
        let end = (place + (to - from) as usize).min(self.0.len());
        self.0.get(place..end).unwrap_or(&[])
    }
}
