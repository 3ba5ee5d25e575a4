//! The chunks that were sent and are not cumulatively acknowledged.
//!
//! A ring, indexed by TSN offset, holds one small entry for each chunk. Offset 0 is the first TSN of the association.
//! The bytes of the chunks stay in the send queue. Chunks acknowledged by gap blocks are also kept as runs, so that a
//! SACK is compared run by run, not chunk by chunk.

use super::sack_work_limit;
use anabranch_base::Instant;
use anabranch_base::trace::SendCause;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// The largest number of chunks that can be outstanding. It is below two limits. Gap blocks reach only 65,535 TSNs.
/// Stream sequence numbers can be compared only if they are less than half their range apart, that is 32,768 (RFC 9260
/// §6.1).
pub(crate) const MAX_OUTSTANDING: usize = 32_000;

/// The progress of a chunk after its first transmission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ChunkState {
    /// The chunk is in flight, as far as known.
    InFlight,
    /// A gap block has acknowledged the chunk. The peer is still allowed to drop the chunk.
    Acked,
    /// An NR gap block has acknowledged the chunk. The peer must not drop the chunk any more, so this side has freed
    /// its bytes.
    Freed,
    /// The chunk is marked for retransmission, for this cause.
    Lost(SendCause),
    /// The chunk was abandoned (RFC 3758) and is never retransmitted. It counts as in flight until it is known to be
    /// acknowledged or lost; then `fast` is set.
    Abandoned,
}

/// An outstanding chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) sent_at: Instant,
    pub(crate) message: u32,
    pub(crate) offset: u32,
    /// The number of user bytes in the chunk.
    pub(crate) length: u16,
    /// The number of this fragment in its message (RFC 8260 §2.1).
    pub(crate) fsn: u32,
    /// The size of the DATA or I-DATA header in bytes.
    pub(crate) header: u8,
    pub(crate) state: ChunkState,
    /// The path that the chunk was last sent to.
    pub(crate) path: u8,
    pub(crate) miss_indications: u8,
    /// Whether the chunk was fast-retransmitted and will not be fast-retransmitted again (RFC 9260 §7.2.4). For an
    /// abandoned chunk: whether the chunk is known to be acknowledged or lost.
    pub(crate) fast: bool,
    /// Whether the chunk was sent more than once.
    pub(crate) was_retransmitted: bool,
    /// The number of retransmissions of the chunk.
    pub(crate) retransmissions: u16,
}

impl Entry {
    /// Returns the size of the chunk in bytes, header and padding included. This size counts in the flight size of a
    /// path.
    #[inline]
    pub(crate) fn size(&self) -> u64 {
        u64::from(self.header) + ((u64::from(self.length) + 3) & !3)
    }
}

/// The result of a search for the lowest chunk in flight on a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Earliest {
    /// The chunk has this TSN offset. If no chunk was found, this is the offset of the next new chunk.
    At(u64),
    /// The search was cut short at this TSN offset. The lowest chunk in flight has this offset or a higher one.
    NotBelow(u64),
}

/// The outstanding chunks, in a ring indexed by TSN offset.
#[derive(Debug)]
pub(crate) struct Outstanding {
    initial: u32,
    /// Offset of the lowest outstanding chunk: one past the cumulatively acknowledged chunks.
    base: u64,
    entries: VecDeque<Entry>,
    /// Chunks acknowledged by gap blocks, as ascending ranges of TSN offsets. No offset is below `base`.
    pub(super) runs: Vec<Range<u64>>,
    /// Chunks acknowledged by NR gap blocks, as ascending ranges of TSN offsets. No offset is below `base`. `None`
    /// until the first NR-SACK.
    pub(super) nr_acked: Option<Box<NrAckedRuns>>,
    /// The TSN offset below which miss indications can mark no more chunks.
    pub(super) miss_floor: u64,
    /// The TSN offset below which no chunk is marked as lost.
    lost_floor: u64,
    lost: usize,
    /// The number of user bytes in flight.
    in_flight: u64,
    /// The number of user bytes that gap blocks have acknowledged.
    gap_acked: u64,
    /// Offsets of recent retransmissions. Reports of duplicates are compared with these offsets to detect spurious
    /// retransmissions.
    retransmitted: Option<Box<RetransmittedOffsets>>,
    /// Offsets of chunks that were marked as lost. Their messages may have reached the limit of retransmissions, and
    /// are checked later.
    marked_lost: Option<Box<LostOffsets>>,
}

/// Ranges of chunks acknowledged by NR gap blocks, see [`Outstanding::nr_acked`]. Most associations have none.
#[derive(Debug, Default)]
pub(super) struct NrAckedRuns(pub(super) Vec<Range<u64>>);

/// Offsets of recent retransmissions, see [`Outstanding::retransmitted`]. Most associations have none.
#[derive(Debug, Default)]
struct RetransmittedOffsets(VecDeque<u64>);

/// Offsets of chunks that were marked as lost, see [`Outstanding::marked_lost`]. Most associations have none.
#[derive(Debug, Default)]
struct LostOffsets(Vec<u64>);

impl Outstanding {
    pub(crate) fn new(initial: u32) -> Self {
        Self {
            initial,
            base: 0,
            // Reserve room for only one entry, because many associations send one chunk at a time.
            entries: VecDeque::with_capacity(1),
            runs: Vec::new(),
            nr_acked: None,
            miss_floor: 0,
            lost_floor: 0,
            lost: 0,
            in_flight: 0,
            gap_acked: 0,
            retransmitted: None,
            marked_lost: None,
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() >= MAX_OUTSTANDING
    }

    /// Returns the TSN offset of the lowest outstanding chunk.
    #[inline]
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// Returns the TSN offset that the next new chunk will have.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.base + self.entries.len() as u64
    }

    #[inline]
    pub(crate) fn tsn(&self, offset: u64) -> u32 {
        self.initial.wrapping_add(offset as u32)
    }

    /// Returns how far `tsn` is ahead of the last cumulatively acknowledged TSN; negative if it is behind.
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

    /// RFC 6525 §5.2.7 H5: sets the TSN of the next chunk. No chunk may be outstanding.
    pub(crate) fn renumber(&mut self, next: u32) {
        assert!(self.is_empty(), "TSNs are renumbered over what is outstanding");
        self.initial = next.wrapping_sub(self.base as u32);
    }

    /// Returns the number of user bytes in flight on all paths.
    #[inline]
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Returns the number of user bytes that gap blocks have acknowledged and that the peer may still drop.
    pub(crate) fn gap_acked(&self) -> u64 {
        self.gap_acked
    }

    /// Adds a chunk that was sent for the first time.
    #[inline]
    pub(crate) fn push(&mut self, entry: Entry) {
        assert!(!self.is_full(), "more chunks outstanding than can be told apart");
        self.in_flight += u64::from(entry.length);
        self.entries.push_back(entry);
    }

    /// Returns whether one more TSN may be assigned to stand for the unsent rest of an abandoned message.
    pub(super) fn has_spare(&self) -> bool {
        self.entries.len() < MAX_OUTSTANDING + 1024
    }

    /// Adds a TSN that is never sent and stands for the unsent rest of an abandoned message.
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
            miss_indications: 0,
            // No chunk is sent with this TSN, so none can be lost. In an abandoned entry, `fast` turns loss detection
            // off.
            fast: true,
            was_retransmitted: false,
            retransmissions: 0,
        });
    }

    /// Removes and returns the lowest entry, whose chunk is cumulatively acknowledged.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        self.base += 1;
        match entry.state {
            ChunkState::InFlight => self.in_flight -= u64::from(entry.length),
            ChunkState::Lost(_) => self.lost -= 1,
            ChunkState::Acked => self.gap_acked -= u64::from(entry.length),
            ChunkState::Freed | ChunkState::Abandoned => {}
        }
        Some(entry)
    }

    /// Returns the lowest entries that are contiguous in memory, at most `most` of them. The result is empty only if
    /// there are no entries.
    #[inline]
    pub(super) fn lowest(&self, most: usize) -> &[Entry] {
        let (front, back) = self.entries.as_slices();
        let piece = if front.is_empty() { back } else { front };
        &piece[..piece.len().min(most)]
    }

    /// Removes the lowest `count` entries. Their chunks are all in flight and have `bytes` user bytes in total.
    #[inline]
    pub(super) fn drop_lowest(&mut self, count: usize, bytes: u64) {
        self.base += count as u64;
        self.in_flight -= bytes;
        self.entries.drain(..count);
    }

    /// Sets the state of an entry and updates the counters.
    pub(crate) fn set(&mut self, offset: u64, state: ChunkState) {
        let Some(entry) = self.entries.get_mut((offset - self.base) as usize) else {
            return;
        };
        match entry.state {
            ChunkState::InFlight => self.in_flight -= u64::from(entry.length),
            ChunkState::Lost(_) => self.lost -= 1,
            ChunkState::Acked => self.gap_acked -= u64::from(entry.length),
            ChunkState::Freed | ChunkState::Abandoned => {}
        }
        match state {
            ChunkState::InFlight => self.in_flight += u64::from(entry.length),
            ChunkState::Lost(_) => {
                self.lost_floor = if self.lost == 0 { offset } else { self.lost_floor.min(offset) };
                self.lost += 1;
                if let Some(offsets) = &mut self.marked_lost {
                    offsets.0.push(offset);
                }
            }
            ChunkState::Acked => self.gap_acked += u64::from(entry.length),
            ChunkState::Freed | ChunkState::Abandoned => {}
        }
        entry.state = state;
    }

    /// Records that a chunk marked as lost was retransmitted at `now` on `path`.
    pub(crate) fn send_again(&mut self, offset: u64, now: Instant, path: u8) {
        if let Some(entry) = self.at(offset) {
            entry.sent_at = now;
            entry.path = path;
            entry.was_retransmitted = true;
            entry.retransmissions = entry.retransmissions.saturating_add(1);
        }
        self.set(offset, ChunkState::InFlight);
    }

    /// Returns whether gap blocks have acknowledged a chunk beyond the cumulative TSN ack point.
    #[inline]
    pub(crate) fn has_gaps(&self) -> bool {
        !self.runs.is_empty()
    }

    /// Returns true if no chunk is in flight and no chunk is marked for retransmission. Then each outstanding chunk was
    /// abandoned, or acknowledged by a gap block. An abandoned chunk counts as acknowledged (RFC 3758 §3.5 A2).
    #[inline]
    pub(crate) fn awaits_nothing(&self) -> bool {
        self.in_flight == 0 && self.lost == 0
    }

    /// Returns whether the peer reports no gaps, and this side has marked no chunk as lost. If so, all outstanding
    /// chunks are in flight or abandoned.
    #[inline]
    pub(crate) fn has_no_gaps_or_losses(&self) -> bool {
        self.runs.is_empty() && self.lost == 0
    }

    /// Returns whether a chunk is marked for retransmission.
    #[inline]
    pub(crate) fn has_lost(&self) -> bool {
        self.lost > 0
    }

    /// Returns the TSN offset of the lowest chunk that is marked for retransmission.
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

    /// Returns the first chunk in flight on `path` whose TSN offset is `from` or higher.
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

    /// Like [`earliest_on`](Self::earliest_on), but examines a bounded number of chunks.
    #[inline]
    pub(crate) fn earliest_within(&self, path: u8, from: u64) -> Earliest {
        // This fast check suffices in the usual case, in which the chunk at `from` is in flight on this path.
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
        for _ in 0..sack_work_limit::CHUNKS {
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

    /// Returns the TSN offset of the first outstanding chunk of each message.
    pub(super) fn first_offsets(&self) -> BTreeMap<u32, u64> {
        let mut firsts = BTreeMap::new();
        // A message index may be used again after all chunks of the message are freed. So a freed entry may belong to
        // an earlier message, and is ignored.
        for (entry, offset) in self.entries.iter().zip(self.base..) {
            if entry.state != ChunkState::Freed {
                firsts.entry(entry.message).or_insert(offset);
            }
        }
        firsts
    }

    /// Records that the chunk at `offset` was retransmitted.
    pub(crate) fn record_retransmitted(&mut self, offset: u64) {
        const KEPT: usize = 256;
        let RetransmittedOffsets(offsets) = &mut **self.retransmitted.get_or_insert_default();
        if offsets.len() == KEPT {
            offsets.pop_front();
        }
        offsets.push_back(offset);
    }

    /// Returns whether the chunk with this TSN is in the list of the latest 256 retransmissions, and removes it from
    /// the list.
    pub(super) fn take_retransmitted(&mut self, tsn: u32) -> bool {
        let initial = self.initial;
        let Some(RetransmittedOffsets(offsets)) = self.retransmitted.as_deref_mut() else {
            return false;
        };
        let found = offsets.iter().position(|&offset| initial.wrapping_add(offset as u32) == tsn);
        found.and_then(|at| offsets.remove(at)).is_some()
    }

    /// Starts to list the chunks that are marked as lost.
    pub(super) fn begin_recording_lost(&mut self) {
        self.marked_lost.get_or_insert_default();
    }

    /// Returns the TSN offsets of chunks that were marked as lost since the last call.
    pub(super) fn take_marked_lost(&mut self) -> Vec<u64> {
        self.marked_lost
            .as_deref_mut()
            .map(|LostOffsets(offsets)| std::mem::take(offsets))
            .unwrap_or_default()
    }

    /// Takes back an emptied list so that its memory is reused.
    pub(super) fn restore_marked_lost(&mut self, list: Vec<u64>) {
        if let Some(LostOffsets(offsets)) = self.marked_lost.as_deref_mut() {
            *offsets = list;
        }
    }
}
