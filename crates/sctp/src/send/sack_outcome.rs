//! The effects of a SACK on each path and on the association.
//!
//! The sending half fills it in; the association applies it to paths, timers and counters.
//!
//! Home of no rule: `sack` and `loss` have them.

use super::outstanding::Entry;
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_congestion::Delivered;
use std::ops::Range;

/// The effects of a SACK on one path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PathAck {
    /// Bytes newly acknowledged, chunk headers included.
    pub(crate) acked: u64,
    /// Bytes that left the flight because they were acknowledged.
    pub(crate) landed: u64,
    /// Bytes that left the flight because they are marked for retransmission.
    pub(crate) lost: u64,
    /// Bytes that an earlier SACK had acknowledged and this one does not (reneging).
    pub(crate) reneged: u64,
    /// The earliest chunk in flight on the path was acknowledged.
    pub(crate) earliest: bool,
    /// The chunk used to measure the round trip was acknowledged; another one can be measured.
    pub(crate) timed: bool,
    /// The round-trip sample, if one was taken.
    pub(crate) sample: Option<Duration>,
}

/// Why a SACK is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SackError {
    /// It is older than one that was already processed.
    Old,
    /// It acknowledges a TSN that was never sent.
    NeverSent,
}

/// The effects of a SACK on the association.
#[derive(Clone, Debug, Default)]
pub(crate) struct SackOutcome {
    /// By path index.
    pub(crate) paths: Vec<PathAck>,
    /// The newly arrived chunks by path index; empty if they are not recorded.
    pub(crate) fresh: Vec<Delivered>,
    /// The cumulative TSN ack point advanced.
    pub(crate) cumulative: bool,
    /// It advanced over abandoned chunks.
    pub(crate) skipped: bool,
    /// Chunks were marked for fast retransmit.
    pub(crate) marked: bool,
    /// The number of duplicates that it reports of retransmitted chunks.
    pub(crate) spurious: u64,
    /// Chunks that were abandoned in flight and are now cumulatively acknowledged: they have arrived or were skipped.
    pub(crate) skips: Vec<Skip>,
    /// Memory for the next list of runs.
    pub(super) spare_runs: Vec<Range<u64>>,
}

impl SackOutcome {
    /// Sizes the outcome for this number of paths. `fresh`: arrived chunks are recorded.
    #[inline]
    pub(crate) fn fit(&mut self, paths: usize, fresh: bool) {
        if self.paths.len() != paths {
            self.paths.reserve_exact(paths.saturating_sub(self.paths.len()));
            self.paths.resize(paths, PathAck::default());
        }
        if fresh && self.fresh.len() != paths {
            self.fresh.resize(paths, Delivered::default());
        }
    }

    /// RFC 3758 §3.5 A2: an abandoned chunk that arrives does not grow the window, but it leaves the flight.
    #[cold]
    pub(super) fn land(&mut self, entry: &Entry) {
        if !entry.fast
            && let Some(ack) = self.paths.get_mut(usize::from(entry.path))
        {
            ack.landed += entry.size();
        }
    }

    /// As [`land`](Self::land), for a cumulatively acknowledged chunk. The association decides whether it was lost.
    #[cold]
    pub(super) fn land_skipped(&mut self, offset: u64, entry: &Entry) {
        self.land(entry);
        if !entry.fast {
            let Entry { path, sent_at, misses, .. } = *entry;
            self.skips.push(Skip { offset, path, size: entry.size(), sent_at, missed: misses > 0 });
        }
    }
}

/// A chunk that was abandoned in flight and not reported before it was cumulatively acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Skip {
    pub(crate) offset: u64,
    pub(crate) path: u8,
    pub(crate) size: u64,
    pub(crate) sent_at: Instant,
    /// Later chunks were reported as arrived before it.
    pub(crate) missed: bool,
}

/// The chunks that a path waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) earliest: u64,
    pub(crate) timed: Option<(u64, Instant)>,
}

/// One past the highest newly acknowledged chunk, and when the latest of these chunks was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Newest {
    pub(super) end: u64,
    pub(super) sent_at: Instant,
}

impl Newest {
    /// Records an acknowledged chunk that ends at `end` and was sent at `sent_at` or earlier.
    #[inline]
    pub(super) fn record(&mut self, end: u64, sent_at: Instant) {
        self.end = self.end.max(end);
        self.sent_at = self.sent_at.max(sent_at);
    }
}
