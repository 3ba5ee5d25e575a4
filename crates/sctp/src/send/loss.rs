//! What miss indications mean: fast retransmit and fast recovery.
//!
//! Owns the exit point of a recovery and the permission to send one packet of
//! retransmissions beyond the congestion window.
//!
//! Home of RFC 9260 §7.2.4, §6.7 (what is missing) and §6.2.1 D iv.

use super::SendHalf;
use super::outstanding::{ChunkState, Outstanding};
use super::sack_outcome::PathAck;
use super::sack_work_limit;
use anabranch_base::Instant;
use anabranch_base::trace::SendCause;

/// The state of recovery.
#[derive(Debug, Default)]
pub(super) struct Recovery {
    /// In fast recovery until everything below this offset is acknowledged.
    pub(super) exit: Option<u64>,
    /// One packet of retransmissions may go regardless of the window.
    free_packet: bool,
    /// After a timeout, until everything below this offset is acknowledged.
    pub(super) timeout_exit: Option<u64>,
    /// What would show that the last reduction was needless.
    doubt: Option<Doubt>,
}

/// Repairs since a reduction, and how many of them the peer had no need of.
#[derive(Clone, Copy, Debug)]
struct Doubt {
    path: u8,
    sent: u32,
    needless: u32,
}

impl Recovery {
    /// A chunk was retransmitted.
    pub(super) fn on_repaired(&mut self) {
        if let Some(doubt) = &mut self.doubt {
            doubt.sent = doubt.sent.saturating_add(1);
        }
    }

    /// Nothing is being recovered.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.exit.is_none() && self.timeout_exit.is_none()
    }

    /// The cumulative acknowledgement has reached `base`.
    #[inline]
    pub(super) fn on_cumulative(&mut self, base: u64) {
        if self.exit.is_some_and(|exit| base >= exit) {
            self.exit = None;
            self.free_packet = false;
        }
        if self.timeout_exit.is_some_and(|exit| base >= exit) {
            self.timeout_exit = None;
        }
    }
}

impl SendHalf {
    /// In fast recovery.
    #[inline]
    pub(crate) fn is_recovering(&self) -> bool {
        self.recovery.exit.is_some()
    }

    /// Until what is acknowledged fast recovery lasts.
    pub(crate) fn recovers_until(&self) -> Option<u64> {
        self.recovery.exit
    }

    /// What a timeout has marked is being repaired.
    pub(crate) fn repairs_timeout(&self) -> bool {
        self.recovery.timeout_exit.is_some()
    }

    /// Neither is.
    pub(crate) fn is_recovered(&self) -> bool {
        self.recovery.is_over()
    }

    /// Nothing speaks of a loss.
    pub(crate) fn is_quiet(&self) -> bool {
        self.recovery.is_over()
            && self.probing.is_none()
            && !self.outstanding.has_lost()
            && !self.outstanding.has_gaps()
    }

    /// Fast recovery begins, with a packet that may go at once.
    pub(crate) fn enter_recovery(&mut self) {
        self.recovery.exit = Some(self.outstanding.end());
        self.recovery.free_packet = true;
    }

    /// RFC 3758 §3.5 F5: the same for what was skipped: nothing is to be repaired, and nothing that is acknowledged already
    /// could be of the same loss.
    pub(crate) fn enter_recovery_of_skipped(&mut self) {
        let (base, end) = (self.outstanding.base(), self.outstanding.end());
        self.recovery.exit = Some(end).filter(|&end| end > base);
        self.recovery.free_packet = false;
    }

    /// Fast recovery is over.
    pub(crate) fn end_recovery(&mut self) {
        self.recovery.exit = None;
        self.recovery.free_packet = false;
    }

    /// All that was sent until now is repaired for a timeout.
    pub(crate) fn begin_timeout_repair(&mut self) {
        self.recovery.timeout_exit = Some(self.outstanding.end());
    }

    /// One packet of retransmissions may go regardless of the window.
    pub(crate) fn has_free_packet(&self) -> bool {
        self.recovery.free_packet
    }

    /// One may, as no acknowledgement would come that lets it go.
    pub(crate) fn allow_free_packet(&mut self) {
        self.recovery.free_packet = true;
    }

    /// A packet of retransmissions has left.
    pub(crate) fn take_free_packet(&mut self) {
        self.recovery.free_packet = false;
    }

    /// The window of a path has been reduced; the repairs may show that to be needless.
    pub(crate) fn doubt_reduction(&mut self, path: usize) {
        self.recovery.doubt = Some(Doubt { path: path as u8, sent: 0, needless: 0 });
    }

    /// The peer reports `count` duplicates of what was retransmitted. The path whose reduction was
    /// needless, once all of them were (RFC 3708 §2).
    pub(crate) fn on_needless(&mut self, count: u64) -> Option<usize> {
        let doubt = self.recovery.doubt.as_mut()?;
        doubt.needless = doubt.needless.saturating_add(count.min(u64::from(u32::MAX)) as u32);
        let path = (doubt.sent > 0 && doubt.needless >= doubt.sent).then_some(usize::from(doubt.path))?;
        self.recovery.doubt = None;
        Some(path)
    }

    /// RFC 9260 §6.3.3 E3: all that is on its way to a path is lost. T3-rtx's reduction is another, and its repair begins
    /// anew.
    pub(crate) fn lose_flight(&mut self, path: usize, cause: SendCause) {
        self.recovery.doubt = None;
        self.lose_path(path, cause);
        self.announce_again();
        self.end_recovery();
    }
}

/// Counts one miss for each missing chunk below `limit` and marks those that
/// have reached `threshold`. `evidence` is when the newest chunk that this
/// SACK acknowledges was sent; `looked_at` counts chunks over the SACKs of a packet. Returns user bytes marked.
pub(super) fn count_misses(
    outstanding: &mut Outstanding,
    limit: u64,
    evidence: Instant,
    threshold: u8,
    looked_at: &mut u64,
    paths: &mut [PathAck],
) -> u64 {
    let mut marked = 0;
    let mut offset = outstanding.miss_floor.max(outstanding.base());
    let mut run = outstanding.runs.partition_point(|run| run.end <= offset);
    let mut floor_holds = true;
    // The lowest are retransmitted first; those beyond are counted when these are settled.
    while offset < limit && *looked_at < sack_work_limit::CHUNKS {
        *looked_at += 1;
        if let Some(acked) = outstanding.runs.get(run)
            && acked.start <= offset
        {
            offset = acked.end;
            run += 1;
            continue;
        }
        let Some(entry) = outstanding.at(offset) else {
            break;
        };
        // A chunk that was retransmitted counts only what was sent after it.
        let eligible = !entry.fast && (!entry.again || evidence > entry.sent_at);
        let state = entry.state;
        if eligible && state == ChunkState::InFlight {
            entry.misses = entry.misses.saturating_add(1);
            if entry.misses >= threshold {
                // RFC 9260 §7.2.4: marked, and never again for fast retransmit.
                entry.fast = true;
                let (length, size, path) = (entry.length, entry.size(), usize::from(entry.path));
                outstanding.set(offset, ChunkState::Lost(SendCause::Fast));
                marked += u64::from(length);
                if let Some(path) = paths.get_mut(path) {
                    path.lost += size;
                }
            }
        }
        if eligible && state == ChunkState::Abandoned {
            missed_anyway(outstanding, offset, threshold, paths);
        }
        let settled = outstanding.get(offset).is_some_and(|entry| entry.fast);
        floor_holds &= settled;
        if floor_holds {
            outstanding.miss_floor = offset + 1;
        }
        offset += 1;
    }
    marked
}

/// RFC 3758 §3.5 F5: what was given up on its way is not retransmitted, but its
/// loss says what any loss says.
#[cold]
fn missed_anyway(outstanding: &mut Outstanding, offset: u64, threshold: u8, paths: &mut [PathAck]) {
    let Some(entry) = outstanding.at(offset) else {
        return;
    };
    entry.misses = entry.misses.saturating_add(1);
    if entry.misses >= threshold {
        entry.fast = true;
        let (size, path) = (entry.size(), usize::from(entry.path));
        if let Some(path) = paths.get_mut(path) {
            path.lost += size;
        }
    }
}
