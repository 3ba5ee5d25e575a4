//! Bytes of a stream whose memory an application shares with its transport.

use bytes::Bytes;
use std::collections::VecDeque;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// A part of shared memory. A clone refers to the same memory.
///
/// This type is half as large as [`Bytes`], and a clone costs no indirect call, because packets need millions of clones.
#[derive(Clone, Debug, Default)]
pub struct SharedBytes {
    memory: Option<Arc<Bytes>>,
    start: u32,
    length: u32,
}

impl SharedBytes {
    /// Returns the length in bytes.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.length as usize
    }

    /// Returns whether there are no bytes.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns a part of the bytes, in the same memory.
    ///
    /// # Panics
    /// `range` ends behind the last byte.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len(), "a part of these bytes");
        Self {
            memory: self.memory.clone(),
            start: self.start + range.start as u32,
            length: range.len() as u32,
        }
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let bytes = self.memory.as_deref().map_or(&[][..], |memory| memory);
        &bytes[self.start as usize..][..self.length as usize]
    }
}

impl From<Vec<u8>> for SharedBytes {
    /// Takes the memory of `bytes`.
    ///
    /// # Panics
    /// There are 4 GiB or more.
    fn from(bytes: Vec<u8>) -> Self {
        let length = u32::try_from(bytes.len()).expect("less than 4 GiB");
        let memory = (length > 0).then(|| Arc::new(bytes.into()));
        Self { memory, start: 0, length }
    }
}

/// Pieces of shared memory that follow each other in a stream, without gaps.
#[derive(Debug, Default)]
pub struct SharedPieces {
    pieces: VecDeque<Piece>,
    /// The index of the piece from which [`share`](Self::share) has last taken bytes. The next bytes usually come from
    /// the same piece.
    last_shared: usize,
}

#[derive(Debug)]
struct Piece {
    /// The stream position of the first byte.
    start: u64,
    /// The bytes, at least one.
    memory: Arc<Bytes>,
}

impl Piece {
    #[inline]
    fn end(&self) -> u64 {
        self.start + self.memory.len() as u64
    }
}

impl SharedPieces {
    /// Adds bytes directly behind the last piece. The first of them is at the position `start`. Usually they are one
    /// piece, but a piece has less than 4 GiB.
    pub fn push(&mut self, mut start: u64, mut bytes: Bytes) {
        while !bytes.is_empty() {
            let memory = Arc::new(bytes.split_to(bytes.len().min(u32::MAX as usize)));
            let piece = Piece { start, memory };
            start = piece.end();
            self.pieces.push_back(piece);
        }
    }

    /// Returns whether the list has its maximum length. The pieces should then be copied into one buffer.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.pieces.len() >= MAX_PIECES
    }

    /// Returns the position after the last byte; 0 if there are no pieces.
    #[must_use]
    #[inline]
    pub fn end(&self) -> u64 {
        self.pieces.back().map_or(0, Piece::end)
    }

    /// Drops the pieces that end at `position` or before it.
    #[inline]
    pub fn release(&mut self, position: u64) {
        while self.pieces.front().is_some_and(|piece| piece.end() <= position) {
            self.pieces.pop_front();
            self.last_shared = self.last_shared.saturating_sub(1);
        }
    }

    /// Returns the bytes at the positions `range` without a copy. Returns `None` if they are in several pieces, or if the
    /// range is empty.
    #[inline]
    pub fn share(&mut self, range: &Range<u64>) -> Option<SharedBytes> {
        let holds = |piece: &Piece| piece.start <= range.start && range.end <= piece.end();
        let mut piece = self.pieces.get(self.last_shared);
        if !piece.is_some_and(holds) {
            self.last_shared = self.index_of(range.start)?;
            piece = self.pieces.get(self.last_shared);
        }
        let Piece { start, memory } = piece.filter(|piece| holds(piece) && !range.is_empty())?;
        let length = (range.end - range.start) as u32;
        Some(SharedBytes { memory: Some(memory.clone()), start: (range.start - start) as u32, length })
    }

    /// Returns the bytes at the positions `range`, in slices with the positions of their first bytes.
    pub fn parts(&self, range: Range<u64>) -> impl Iterator<Item = (u64, &[u8])> {
        let first = self.index_of(range.start).unwrap_or(0);
        self.pieces.range(first..).map_while(move |piece| {
            let (from, to) = (range.start.max(piece.start), range.end.min(piece.end()));
            (from < to)
                .then(|| (from, &piece.memory[(from - piece.start) as usize..(to - piece.start) as usize]))
        })
    }

    /// Returns the index of the last piece that begins at `position` or before it.
    fn index_of(&self, position: u64) -> Option<usize> {
        self.pieces.partition_point(|piece| piece.start <= position).checked_sub(1)
    }
}

/// The minimum length in bytes of the first piece. Shorter data is copied faster than it is shared.
pub const MIN_SHARED: usize = 4096;
/// The maximum number of pieces. It limits the memory that the list takes if the application writes short pieces.
const MAX_PIECES: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    /// Any range of the pieces has the bytes that were pushed, whether it is shared or in parts.
    #[test]
    fn pieces_hold_the_bytes_that_were_pushed() {
        let byte = |position: u64| (position % 251) as u8;
        let (mut shared, mut parts) = (0, 0);
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            let (mut pieces, mut start, mut end) = (SharedPieces::default(), 0, 0);
            for _ in 0..200 {
                if rng.below(2) == 0 {
                    let length = 1 + rng.below(300);
                    pieces.push(end, (end..end + length).map(byte).collect());
                    end += length;
                } else {
                    start += rng.below(end - start + 1);
                    pieces.release(start);
                }
                let from = start + rng.below(end - start + 1);
                let range = from..from + rng.below(end - from + 1);
                let joined: Vec<u8> =
                    pieces.parts(range.clone()).flat_map(|(_, part)| part).copied().collect();
                assert!(joined.iter().copied().eq(range.clone().map(byte)), "seed {seed}");
                match pieces.share(&range) {
                    Some(bytes) => {
                        assert_eq!(&*bytes, joined, "seed {seed}");
                        shared += 1;
                    }
                    None => parts += 1,
                }
                assert!(start == end || pieces.end() == end, "seed {seed}");
            }
        }
        assert!(shared > 1000 && parts > 1000, "{shared} and {parts}");
    }
}
