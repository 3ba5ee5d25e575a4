//! The effects of a SACK on each path and on the association.
//!
//! The sending half fills in a [`SackOutcome`]. The association applies the outcome to paths, timers and counters.
//!
//! Implements no RFC rule: the rules are in `sack` and `loss`.

use super::outstanding::Entry;
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_congestion::Delivered;
use std::ops::Range;

/// The effects of a SACK on one path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PathAck {
    /// Number of newly acknowledged bytes, chunk headers included.
    pub(crate) acked: u64,
    /// Bytes that left the flight because they were acknowledged.
    pub(crate) acked_in_flight: u64,
    /// Bytes that left the flight because they are marked for retransmission.
    pub(crate) lost: u64,
    /// Bytes that an earlier SACK had acknowledged and this SACK no longer reports (reneging).
    pub(crate) reneged: u64,
    /// Whether the earliest chunk in flight on the path was acknowledged.
    pub(crate) earliest: bool,
    /// Whether the chunk used to measure the round trip was acknowledged. If so, another chunk can be measured.
    pub(crate) timed: bool,
    /// The round-trip time measured with this SACK, if there is one.
    pub(crate) sample: Option<Duration>,
}

/// Why a SACK is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SackError {
    /// The SACK is older than another SACK that was already processed.
    Old,
    /// The SACK acknowledges a TSN that was never sent.
    NeverSent,
}

/// The effects of a SACK on the association.
#[derive(Clone, Debug, Default)]
pub(crate) struct SackOutcome {
    /// The effects on each path, by path index.
    pub(crate) paths: Vec<PathAck>,
    /// For each path, the chunks that the SACK newly reports as arrived. Empty if arrived chunks are not recorded.
    pub(crate) arrived: Vec<Delivered>,
    /// Whether the cumulative TSN ack point advanced.
    pub(crate) cumulative: bool,
    /// Whether the cumulative TSN ack point advanced over abandoned chunks.
    pub(crate) skipped: bool,
    /// Whether chunks were marked for fast retransmit.
    pub(crate) marked: bool,
    /// The number of duplicates of retransmitted chunks that the SACK reports.
    pub(crate) spurious: u64,
    /// Chunks that were abandoned in flight and are now cumulatively acknowledged: they have arrived or were skipped.
    pub(crate) skips: Vec<Skip>,
    /// Memory that is reused for the next list of runs.
    pub(super) spare_runs: Vec<Range<u64>>,
}

impl SackOutcome {
    /// Resizes the outcome to one entry for each of `paths` paths. `records_arrivals` says whether the outcome also
    /// needs a list of arrived chunks for each path.
    #[inline]
    pub(crate) fn fit(&mut self, paths: usize, records_arrivals: bool) {
        if self.paths.len() != paths {
            self.paths.reserve_exact(paths.saturating_sub(self.paths.len()));
            self.paths.resize(paths, PathAck::default());
        }
        if records_arrivals && self.arrived.len() != paths {
            self.arrived.resize(paths, Delivered::default());
        }
    }

    /// Removes an abandoned chunk from the flight, because it has arrived. RFC 3758 §3.5 A2: the chunk does not grow
    /// the congestion window.
    #[cold]
    pub(super) fn on_abandoned_arrived(&mut self, entry: &Entry) {
        if !entry.fast
            && let Some(ack) = self.paths.get_mut(usize::from(entry.path))
        {
            ack.acked_in_flight += entry.size();
        }
    }

    /// Like [`on_abandoned_arrived`](Self::on_abandoned_arrived), for an abandoned chunk that the cumulative TSN ack
    /// covers. The ack does not show whether the chunk arrived or the peer skipped it. The association decides later,
    /// from the list `skips`, whether the chunk was lost.
    #[cold]
    pub(super) fn on_abandoned_skipped(&mut self, offset: u64, entry: &Entry) {
        self.on_abandoned_arrived(entry);
        if !entry.fast {
            let Entry { path, sent_at, miss_indications, .. } = *entry;
            self.skips.push(Skip { offset, path, size: entry.size(), sent_at, missed: miss_indications > 0 });
        }
    }
}

/// An abandoned chunk that was in flight until it was cumulatively acknowledged. No gap block had reported it before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Skip {
    pub(crate) offset: u64,
    pub(crate) path: u8,
    pub(crate) size: u64,
    pub(crate) sent_at: Instant,
    /// Whether a SACK reported later chunks as arrived while this chunk was missing.
    pub(crate) missed: bool,
}

/// The chunks whose acknowledgement a path waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) earliest: u64,
    pub(crate) timed: Option<(u64, Instant)>,
}

/// The newly acknowledged chunks: the highest of their TSN offsets plus one (`end`), and the latest of their send
/// times.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Newest {
    pub(super) end: u64,
    pub(super) sent_at: Instant,
}

impl Newest {
    /// Records acknowledged chunks below TSN offset `end` that were sent at `sent_at` or earlier.
    #[inline]
    pub(super) fn record(&mut self, end: u64, sent_at: Instant) {
        self.end = self.end.max(end);
        self.sent_at = self.sent_at.max(sent_at);
    }
}
