//! What a SACK means: to each path, and to the association.
//!
//! The sending half fills it in, the association applies it to paths, timers and counters.
//!
//! Home of no rule: `sack` and `loss` have them.

use super::outstanding::Entry;
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_congestion::Delivered;
use std::ops::Range;

/// What a SACK means to one path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PathAck {
    /// Bytes newly acknowledged, chunk headers included.
    pub(crate) acked: u64,
    /// Bytes that left the flight by acknowledgement.
    pub(crate) landed: u64,
    /// Bytes that left the flight because they are marked for retransmission.
    pub(crate) lost: u64,
    /// Bytes that a former SACK had acknowledged and this one does not.
    pub(crate) reneged: u64,
    /// The earliest chunk in flight there was acknowledged.
    pub(crate) earliest: bool,
    /// The chunk by which the round trip is measured was acknowledged: the next may be.
    pub(crate) timed: bool,
    /// A round trip was measured.
    pub(crate) sample: Option<Duration>,
}

/// What the sender of the SACK must be told it cannot mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SackError {
    /// It is older than what has been processed.
    Old,
    /// It acknowledges what was never sent.
    NeverSent,
}

/// What a SACK means to the association.
#[derive(Clone, Debug, Default)]
pub(crate) struct SackOutcome {
    /// By path index.
    pub(crate) paths: Vec<PathAck>,
    /// What arrived, by path index; empty where nobody wants to know.
    pub(crate) fresh: Vec<Delivered>,
    /// The cumulative acknowledgement moved.
    pub(crate) cumulative: bool,
    /// It moved over something that was given up.
    pub(crate) skipped: bool,
    /// Chunks were marked for fast retransmit.
    pub(crate) marked: bool,
    /// Duplicates it reports of chunks that were retransmitted.
    pub(crate) spurious: u64,
    /// What was given up on its way and is acknowledged for good now: it has arrived, or was skipped.
    pub(crate) skips: Vec<Skip>,
    /// Memory for the next list of runs.
    pub(super) spare_runs: Vec<Range<u64>>,
}

impl SackOutcome {
    /// For so many paths; whether somebody wants to know what arrived.
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

    /// RFC 3758 §3.5 A2: what was given up earns nothing if it arrives; but it is no longer on its way.
    #[cold]
    pub(super) fn land(&mut self, entry: &Entry) {
        if !entry.fast
            && let Some(ack) = self.paths.get_mut(usize::from(entry.path))
        {
            ack.landed += entry.size();
        }
    }

    /// The same of what is acknowledged for good: whether it was lost the association finds out.
    #[cold]
    pub(super) fn land_skipped(&mut self, offset: u64, entry: &Entry) {
        self.land(entry);
        if !entry.fast {
            let Entry { path, sent_at, misses, .. } = *entry;
            self.skips.push(Skip { offset, path, size: entry.size(), sent_at, missed: misses > 0 });
        }
    }
}

/// A chunk that was given up on its way and of which nothing was heard before it was acknowledged for good.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Skip {
    pub(crate) offset: u64,
    pub(crate) path: u8,
    pub(crate) size: u64,
    pub(crate) sent_at: Instant,
    /// Later chunks were reported as arrived before it.
    pub(crate) missed: bool,
}

/// What one path is waiting for, in order to recognise it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) earliest: u64,
    pub(crate) timed: Option<(u64, Instant)>,
}

/// The highest newly acknowledged TSN, and when the newest was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Newest {
    pub(super) end: u64,
    pub(super) sent_at: Instant,
}

impl Newest {
    /// Something was acknowledged that ends there and was sent at that time at the latest.
    #[inline]
    pub(super) fn record(&mut self, end: u64, sent_at: Instant) {
        self.end = self.end.max(end);
        self.sent_at = self.sent_at.max(sent_at);
    }
}
