//! What has been sent and not been acknowledged for good.
//!
//! A ring indexed by TSN offset (0 is the first TSN of the association): one
//! small entry a chunk, the bytes stay with their message. What gap blocks
//! have acknowledged is also kept as runs, so that the next SACK is compared
//! run by run, not chunk by chunk.

use super::effort;
use anabranch_base::Instant;
use anabranch_base::trace::SendCause;
use std::collections::VecDeque;
use std::ops::Range;

/// Most chunks outstanding at a time. Gap blocks reach 65,535 TSNs, and stream
/// sequence numbers are told apart within half their space (RFC 9260 §6.1).
pub(crate) const MOST: usize = 32_000;

/// Where a chunk stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ChunkState {
    /// On its way, as far as known.
    InFlight,
    /// Acknowledged by a gap block, which may be taken back.
    Acked,
    /// To be sent again, for this cause.
    Lost(SendCause),
    /// Given up (RFC 3758): never sent again. On its way all the same unless `fast` is set.
    Abandoned,
}

/// One chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) sent_at: Instant,
    pub(crate) message: u32,
    pub(crate) offset: u32,
    pub(crate) length: u32,
    /// The fragment's number in its message (RFC 8260 §2.1).
    pub(crate) fsn: u32,
    /// Bytes in front of the user data: of DATA or I-DATA.
    pub(crate) header: u8,
    pub(crate) state: ChunkState,
    /// The path it was last sent to.
    pub(crate) path: u8,
    pub(crate) misses: u8,
    /// It has been fast-retransmitted: never again (RFC 9260 §7.2.4). Of what was given up: it is
    /// known to have arrived or to be lost.
    pub(crate) fast: bool,
    /// It has been sent more than once.
    pub(crate) again: bool,
    /// How many times it has been sent again.
    pub(crate) repeats: u32,
}

impl Entry {
    /// Size of the chunk with header and padding: what counts as flight.
    #[inline]
    pub(crate) fn size(&self) -> u64 {
        u64::from(self.header) + ((u64::from(self.length) + 3) & !3)
    }
}

/// The lowest chunk in flight on a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Earliest {
    /// It is this one, or the end when there is none.
    At(u64),
    /// It is not below this one: there was too much to look at.
    NotBelow(u64),
}

/// The ring.
#[derive(Debug)]
pub(crate) struct Outstanding {
    initial: u32,
    /// Offset of the first entry: one past what is cumulatively acknowledged.
    base: u64,
    entries: VecDeque<Entry>,
    /// What gap blocks acknowledge, ascending, beyond `base`.
    pub(super) runs: Vec<Range<u64>>,
    pub(super) spare_runs: Vec<Range<u64>>,
    /// Below this no chunk can be marked by miss indications any more.
    pub(super) miss_floor: u64,
    /// Below this no chunk is marked as lost.
    lost_floor: u64,
    lost: usize,
    /// User bytes in flight.
    in_flight: u64,
    /// Offsets sent again of late, to know needless ones by duplicate reports.
    pub(super) repeated: VecDeque<u64>,
    /// Chunks that are marked as lost are noted down, as some of them may be given up.
    pub(super) noting: bool,
    pub(super) noted: Vec<u64>,
}

impl Outstanding {
    pub(crate) fn new(initial: u32) -> Self {
        Self {
            initial,
            base: 0,
            entries: VecDeque::new(),
            runs: Vec::new(),
            spare_runs: Vec::new(),
            miss_floor: 0,
            lost_floor: 0,
            lost: 0,
            in_flight: 0,
            repeated: VecDeque::new(),
            noting: false,
            noted: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() >= MOST
    }

    /// Offset of the lowest outstanding chunk.
    #[inline]
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// Offset of the next new chunk.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.base + self.entries.len() as u64
    }

    #[inline]
    pub(crate) fn tsn(&self, offset: u64) -> u32 {
        self.initial.wrapping_add(offset as u32)
    }

    /// The offset of `tsn` relative to the base: how far ahead of the last
    /// cumulatively acknowledged TSN it lies, negative when behind.
    #[inline]
    pub(crate) fn ahead(&self, tsn: u32) -> i32 {
        tsn.wrapping_sub(self.tsn(self.base).wrapping_sub(1)) as i32
    }

    #[inline]
    pub(crate) fn at(&mut self, offset: u64) -> Option<&mut Entry> {
        self.entries.get_mut(offset.checked_sub(self.base)? as usize)
    }

    #[inline]
    pub(crate) fn get(&self, offset: u64) -> Option<&Entry> {
        self.entries.get(offset.checked_sub(self.base)? as usize)
    }

    /// RFC 6525 §5.2.7 H5: the next chunk has this TSN. Nothing is outstanding.
    pub(crate) fn renumber(&mut self, next: u32) {
        assert!(self.is_empty(), "TSNs are renumbered over what is outstanding");
        self.initial = next.wrapping_sub(self.base as u32);
    }

    /// User bytes in flight on all paths.
    #[inline]
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// A chunk has been sent for the first time.
    #[inline]
    pub(crate) fn push(&mut self, entry: Entry) {
        assert!(!self.is_full(), "more chunks outstanding than can be told apart");
        self.in_flight += u64::from(entry.length);
        self.entries.push_back(entry);
    }

    /// There is a TSN to spare for what is given up.
    pub(super) fn has_spare(&self) -> bool {
        self.entries.len() < MOST + 1024
    }

    /// A TSN that is never sent, for the rest of a message that was given up.
    pub(super) fn push_abandoned(&mut self, message: u32) {
        self.entries.push_back(Entry {
            sent_at: Instant::ZERO,
            message,
            offset: 0,
            length: 0,
            fsn: 0,
            header: 0,
            state: ChunkState::Abandoned,
            path: 0,
            misses: 0,
            // Nobody will miss it.
            fast: true,
            again: false,
            repeats: 0,
        });
    }

    /// Takes the lowest entry off: it is acknowledged for good.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        self.base += 1;
        match entry.state {
            ChunkState::InFlight => self.in_flight -= u64::from(entry.length),
            ChunkState::Lost(_) => self.lost -= 1,
            ChunkState::Acked | ChunkState::Abandoned => {}
        }
        Some(entry)
    }

    /// The lowest entries, at most `most`, as far as they lie in one piece;
    /// empty only when there are none.
    #[inline]
    pub(super) fn lowest(&self, most: usize) -> &[Entry] {
        let (front, back) = self.entries.as_slices();
        let piece = if front.is_empty() { back } else { front };
        &piece[..piece.len().min(most)]
    }

    /// Takes the lowest `count` entries off, all of them in flight and with
    /// `bytes` user bytes together.
    #[inline]
    pub(super) fn drop_lowest(&mut self, count: usize, bytes: u64) {
        self.base += count as u64;
        self.in_flight -= bytes;
        self.entries.drain(..count);
    }

    /// Changes the state of an entry, keeping the counts.
    pub(crate) fn set(&mut self, offset: u64, state: ChunkState) {
        let Some(entry) = self.entries.get_mut((offset - self.base) as usize) else {
            return;
        };
        match entry.state {
            ChunkState::InFlight => self.in_flight -= u64::from(entry.length),
            ChunkState::Lost(_) => self.lost -= 1,
            ChunkState::Acked | ChunkState::Abandoned => {}
        }
        match state {
            ChunkState::InFlight => self.in_flight += u64::from(entry.length),
            ChunkState::Lost(_) => {
                self.lost_floor = if self.lost == 0 { offset } else { self.lost_floor.min(offset) };
                self.lost += 1;
                if self.noting {
                    self.noted.push(offset);
                }
            }
            ChunkState::Acked | ChunkState::Abandoned => {}
        }
        entry.state = state;
    }

    /// Gap blocks have acknowledged something.
    #[inline]
    pub(crate) fn has_gaps(&self) -> bool {
        !self.runs.is_empty()
    }

    /// All there is, is in flight (or given up).
    #[inline]
    pub(crate) fn is_smooth(&self) -> bool {
        self.runs.is_empty() && self.lost == 0
    }

    /// Something is marked for retransmission.
    #[inline]
    pub(crate) fn has_lost(&self) -> bool {
        self.lost > 0
    }

    /// The lowest chunk marked for retransmission.
    #[inline]
    pub(crate) fn next_lost(&mut self) -> Option<u64> {
        if self.lost == 0 {
            return None;
        }
        let mut offset = self.lost_floor.max(self.base);
        while !matches!(self.get(offset)?.state, ChunkState::Lost(_)) {
            offset += 1;
        }
        self.lost_floor = offset;
        Some(offset)
    }

    /// The lowest chunk in flight on `path` at or after `from`.
    pub(crate) fn earliest_on(&self, path: u8, from: u64) -> Option<u64> {
        let from = from.max(self.base);
        let skip = (from - self.base) as usize;
        let found = self
            .entries
            .iter()
            .skip(skip)
            .position(|entry| entry.path == path && entry.state == ChunkState::InFlight)?;
        Some(from + found as u64)
    }

    /// As [`earliest_on`](Self::earliest_on), looking at a bounded number of chunks.
    #[inline]
    pub(crate) fn earliest_within(&self, path: u8, from: u64) -> Earliest {
        // Mostly it is the very first.
        if self.runs.is_empty()
            && let Some(entry) = self.get(from.max(self.base))
            && entry.path == path
            && entry.state == ChunkState::InFlight
        {
            return Earliest::At(from.max(self.base));
        }
        self.search_earliest(path, from)
    }

    #[inline(never)]
    fn search_earliest(&self, path: u8, from: u64) -> Earliest {
        let mut offset = from.max(self.base);
        let mut run = self.runs.partition_point(|run| run.end <= offset);
        for _ in 0..effort::CHUNKS {
            match self.runs.get(run) {
                Some(acked) if acked.start <= offset => {
                    offset = acked.end;
                    run += 1;
                    continue;
                }
                _ => {}
            }
            match self.get(offset) {
                Some(entry) if entry.path == path && entry.state == ChunkState::InFlight => {
                    return Earliest::At(offset);
                }
                Some(_) => offset += 1,
                None => return Earliest::At(self.end()),
            }
        }
        Earliest::NotBelow(offset)
    }

    /// Remembers that a chunk was sent again.
    pub(crate) fn note_repeated(&mut self, offset: u64) {
        const KEPT: usize = 256;
        if self.repeated.len() == KEPT {
            self.repeated.pop_front();
        }
        self.repeated.push_back(offset);
    }
}
