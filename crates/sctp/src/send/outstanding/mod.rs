//! What has been sent and not been acknowledged for good.
//!
//! A ring indexed by TSN offset (0 is the first TSN of the association): one
//! small entry a chunk, the bytes stay with their message. What gap blocks
//! have acknowledged is also kept as runs, so that the next SACK is compared
//! run by run, not chunk by chunk.

mod chunk_summary;

use super::sack_work_limit;
use anabranch_base::Instant;
use anabranch_base::trace::SendCause;
pub(super) use chunk_summary::ChunkSummary;
use chunk_summary::SummaryRing;
use std::collections::VecDeque;
use std::ops::Range;

/// Most chunks outstanding at a time. Gap blocks reach 65,535 TSNs, and stream
/// sequence numbers are told apart within half their space (RFC 9260 §6.1).
pub(crate) const MAX_OUTSTANDING: usize = 32_000;

/// Where a chunk stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ChunkState {
    /// On its way, as far as known.
    InFlight,
    /// Acknowledged by a gap block, which may be taken back.
    Acked,
    /// Acknowledged by an NR gap block, which is not taken back: its bytes are gone.
    Freed,
    /// To be retransmitted, for this cause.
    Lost(SendCause),
    /// Given up (RFC 3758): never retransmitted. On its way all the same unless `fast` is set.
    Abandoned,
}

/// One chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) sent_at: Instant,
    pub(crate) message: u32,
    pub(crate) offset: u32,
    /// User bytes.
    pub(crate) length: u16,
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
    /// How many times it has been retransmitted.
    pub(crate) repeats: u16,
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
    /// Entries in front of that, whose memory is still to be given back.
    retired: usize,
    summaries: SummaryRing,
    /// What gap blocks acknowledge, ascending, beyond `base`.
    pub(super) runs: Vec<Range<u64>>,
    /// What NR gap blocks have acknowledged, ascending, beyond `base`, once there was an NR-SACK.
    pub(super) freed: Option<Box<FreedRuns>>,
    /// Below this no chunk can be marked by miss indications any more.
    pub(super) miss_floor: u64,
    /// Below this no chunk is marked as lost.
    lost_floor: u64,
    lost: usize,
    /// User bytes in flight.
    in_flight: u64,
    /// Offsets retransmitted of late, to know needless ones by duplicate reports.
    repeated: Option<Box<Repeated>>,
    /// Chunks that are marked as lost are noted down, as some of them may be given up.
    noted: Option<Box<Noted>>,
}

/// See [`Outstanding`]; most associations have none.
#[derive(Debug, Default)]
pub(super) struct FreedRuns(pub(super) Vec<Range<u64>>);

/// See [`Outstanding`]; most associations have none.
#[derive(Debug, Default)]
struct Repeated(VecDeque<u64>);

/// See [`Outstanding`]; most associations have none.
#[derive(Debug, Default)]
struct Noted(Vec<u64>);

impl Outstanding {
    pub(crate) fn new(initial: u32) -> Self {
        Self {
            initial,
            base: 0,
            // Many associations send one chunk at a time.
            entries: VecDeque::with_capacity(1),
            retired: 0,
            summaries: SummaryRing::default(),
            runs: Vec::new(),
            freed: None,
            miss_floor: 0,
            lost_floor: 0,
            lost: 0,
            in_flight: 0,
            repeated: None,
            noted: None,
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.len() == self.retired
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() - self.retired >= MAX_OUTSTANDING
    }

    /// Offset of the lowest outstanding chunk.
    #[inline]
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// Offset of the next new chunk.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.base + (self.entries.len() - self.retired) as u64
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
        self.entries.get_mut(offset.checked_sub(self.base)? as usize + self.retired)
    }

    #[inline]
    pub(crate) fn get(&self, offset: u64) -> Option<&Entry> {
        self.entries.get(offset.checked_sub(self.base)? as usize + self.retired)
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
        self.append(entry);
    }

    #[inline]
    fn append(&mut self, entry: Entry) {
        let count = self.entries.len() - self.retired;
        if !self.summaries.has_room(count) {
            self.summaries.grow(self.base, self.entries.iter().skip(self.retired));
        }
        self.summaries.put(self.base + count as u64, &entry);
        self.entries.push_back(entry);
    }

    /// There is a TSN to spare for what is given up.
    pub(super) fn has_spare(&self) -> bool {
        self.entries.len() - self.retired < MAX_OUTSTANDING + 1024
    }

    /// A TSN that is never sent, for the rest of a message that was given up.
    pub(super) fn push_abandoned(&mut self, message: u32) {
        self.append(Entry {
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
        assert!(self.retired == 0, "an entry is taken off behind others that are still there");
        let entry = self.entries.pop_front()?;
        self.base += 1;
        match entry.state {
            ChunkState::InFlight => self.in_flight -= u64::from(entry.length),
            ChunkState::Lost(_) => self.lost -= 1,
            ChunkState::Acked | ChunkState::Freed | ChunkState::Abandoned => {}
        }
        Some(entry)
    }

    /// The lowest entries, at most `most`, as far as they lie in one piece;
    /// empty only when there are none.
    #[inline]
    pub(super) fn lowest(&self, most: usize) -> &[Entry] {
        assert!(self.retired == 0, "entries that are acknowledged stand in front");
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

    /// Summaries of the chunks from `from` on and before `to`, as far as they lie in one piece.
    pub(super) fn summaries(&self, from: u64, to: u64) -> &[ChunkSummary] {
        self.summaries.piece(from, to)
    }

    /// The lowest `count` are acknowledged for good, and taken off later: `in_flight` user bytes of
    /// them were in flight, `lost` of them marked.
    pub(super) fn retire(&mut self, count: usize, in_flight: u64, lost: usize) {
        self.base += count as u64;
        self.retired += count;
        self.in_flight -= in_flight;
        self.lost -= lost;
    }

    /// Some have been acknowledged for good and are still to be taken off.
    #[inline]
    pub(super) fn has_retired(&self) -> bool {
        self.retired > 0
    }

    /// Takes off at most `most` of those.
    pub(super) fn take_retired(&mut self, most: usize) -> impl Iterator<Item = Entry> {
        let count = self.retired.min(most);
        self.retired -= count;
        self.entries.drain(..count)
    }

    /// Changes the state of an entry, keeping the counts.
    pub(crate) fn set(&mut self, offset: u64, state: ChunkState) {
        let Some(entry) = self.entries.get_mut((offset - self.base) as usize + self.retired) else {
            return;
        };
        match entry.state {
            ChunkState::InFlight => self.in_flight -= u64::from(entry.length),
            ChunkState::Lost(_) => self.lost -= 1,
            ChunkState::Acked | ChunkState::Freed | ChunkState::Abandoned => {}
        }
        match state {
            ChunkState::InFlight => self.in_flight += u64::from(entry.length),
            ChunkState::Lost(_) => {
                self.lost_floor = if self.lost == 0 { offset } else { self.lost_floor.min(offset) };
                self.lost += 1;
                if let Some(noted) = &mut self.noted {
                    noted.0.push(offset);
                }
            }
            ChunkState::Acked | ChunkState::Freed | ChunkState::Abandoned => {}
        }
        entry.state = state;
        self.summaries.put(offset, entry);
    }

    /// A chunk that is marked as lost is retransmitted.
    pub(crate) fn send_again(&mut self, offset: u64, now: Instant, path: u8) {
        if let Some(entry) = self.at(offset) {
            entry.sent_at = now;
            entry.path = path;
            entry.again = true;
            entry.repeats = entry.repeats.saturating_add(1);
        }
        self.set(offset, ChunkState::InFlight);
    }

    /// Gap blocks have acknowledged something.
    #[inline]
    pub(crate) fn has_gaps(&self) -> bool {
        !self.runs.is_empty()
    }

    /// Nothing is on its way or to be retransmitted: what there is, is acknowledged by a gap block or given up, which
    /// counts as acknowledged (RFC 3758 §3.5 A2).
    #[inline]
    pub(crate) fn awaits_nothing(&self) -> bool {
        self.in_flight == 0 && self.lost == 0
    }

    /// All there is, is in flight (or given up).
    #[inline]
    pub(crate) fn is_smooth(&self) -> bool {
        self.runs.is_empty() && self.lost == 0 && self.retired == 0
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
        let skip = (from - self.base) as usize + self.retired;
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

    /// Remembers that a chunk was retransmitted.
    pub(crate) fn record_repeated(&mut self, offset: u64) {
        const KEPT: usize = 256;
        let Repeated(repeated) = &mut **self.repeated.get_or_insert_default();
        if repeated.len() == KEPT {
            repeated.pop_front();
        }
        repeated.push_back(offset);
    }

    /// Whether that is remembered; then it is forgotten.
    pub(super) fn take_repeated(&mut self, tsn: u32) -> bool {
        let initial = self.initial;
        let Some(Repeated(repeated)) = self.repeated.as_deref_mut() else {
            return false;
        };
        let found = repeated.iter().position(|&offset| initial.wrapping_add(offset as u32) == tsn);
        found.and_then(|at| repeated.remove(at)).is_some()
    }

    /// From now on chunks that are marked as lost are noted down.
    pub(super) fn begin_noting(&mut self) {
        self.noted.get_or_insert_default();
    }

    /// Those that have been, since the last call.
    pub(super) fn take_noted(&mut self) -> Vec<u64> {
        self.noted.as_deref_mut().map(|Noted(noted)| std::mem::take(noted)).unwrap_or_default()
    }

    /// What they were put in, empty, to be used again.
    pub(super) fn give_noted(&mut self, list: Vec<u64>) {
        if let Some(Noted(noted)) = self.noted.as_deref_mut() {
            *noted = list;
        }
    }
}
