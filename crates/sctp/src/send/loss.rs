//! Miss indications: fast retransmit and fast recovery.
//!
//! Owns the exit point of a recovery and the permission to send one packet of retransmissions beyond the congestion
//! window.
//!
//! Home of RFC 9260 §7.2.4, §6.7 (what is missing) and §6.2.1 D iv.

use super::SendHalf;
use super::outstanding::{ChunkState, Outstanding};
use super::sack_outcome::PathAck;
use super::sack_work_limit;
use anabranch_base::Instant;
use anabranch_base::trace::SendCause;

/// The state of loss recovery.
#[derive(Debug, Default)]
pub(super) struct Recovery {
    /// Set during fast recovery, until everything below this offset is acknowledged.
    pub(super) exit: Option<u64>,
    /// One packet of retransmissions may be sent regardless of the window.
    free_packet: bool,
    /// Set after a timeout, until everything below this offset is acknowledged.
    pub(super) timeout_exit: Option<u64>,
    /// State for detecting that the last reduction was spurious.
    doubt: Option<Doubt>,
}

/// Retransmissions since a reduction, and how many of them were unnecessary.
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

    /// Whether no recovery is in progress.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.exit.is_none() && self.timeout_exit.is_none()
    }

    /// The cumulative TSN ack point has reached `base`.
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
    /// Whether fast recovery is in progress.
    #[inline]
    pub(crate) fn is_recovering(&self) -> bool {
        self.recovery.exit.is_some()
    }

    /// Returns the offset up to which fast recovery lasts.
    pub(crate) fn recovers_until(&self) -> Option<u64> {
        self.recovery.exit
    }

    /// Whether chunks marked by a timeout are still being retransmitted.
    pub(crate) fn repairs_timeout(&self) -> bool {
        self.recovery.timeout_exit.is_some()
    }

    /// Whether no recovery is in progress.
    pub(crate) fn is_recovered(&self) -> bool {
        self.recovery.is_over()
    }

    /// Whether there is no sign of a loss.
    pub(crate) fn is_quiet(&self) -> bool {
        self.recovery.is_over()
            && self.probing.is_none()
            && !self.outstanding.has_lost()
            && !self.outstanding.has_gaps()
    }

    /// Enters fast recovery; one packet may be sent at once.
    pub(crate) fn enter_recovery(&mut self) {
        self.recovery.exit = Some(self.outstanding.end());
        self.recovery.free_packet = true;
    }

    /// RFC 3758 §3.5 F5: enters fast recovery for a skipped chunk. There is nothing to retransmit, and only
    /// outstanding chunks could be part of the same loss.
    pub(crate) fn enter_recovery_of_skipped(&mut self) {
        let (base, end) = (self.outstanding.base(), self.outstanding.end());
        self.recovery.exit = Some(end).filter(|&end| end > base);
        self.recovery.free_packet = false;
    }

    /// Ends fast recovery.
    pub(crate) fn end_recovery(&mut self) {
        self.recovery.exit = None;
        self.recovery.free_packet = false;
    }

    /// Starts the recovery after a timeout, for all data sent until now.
    pub(crate) fn begin_timeout_repair(&mut self) {
        self.recovery.timeout_exit = Some(self.outstanding.end());
    }

    /// Whether one packet of retransmissions may be sent regardless of the window.
    pub(crate) fn has_free_packet(&self) -> bool {
        self.recovery.free_packet
    }

    /// Allows one such packet, because no acknowledgement would come to allow it.
    pub(crate) fn allow_free_packet(&mut self) {
        self.recovery.free_packet = true;
    }

    /// A packet of retransmissions was sent.
    pub(crate) fn take_free_packet(&mut self) {
        self.recovery.free_packet = false;
    }

    /// The window of a path was reduced; retransmissions may show that this was unnecessary.
    pub(crate) fn doubt_reduction(&mut self, path: usize) {
        self.recovery.doubt = Some(Doubt { path: path as u8, sent: 0, needless: 0 });
    }

    /// The peer reports `count` duplicates of retransmitted chunks. Once all of them were unnecessary, returns the
    /// path whose reduction was spurious (RFC 3708 §2).
    pub(crate) fn on_needless(&mut self, count: u64) -> Option<usize> {
        let doubt = self.recovery.doubt.as_mut()?;
        doubt.needless = doubt.needless.saturating_add(count.min(u64::from(u32::MAX)) as u32);
        let path = (doubt.sent > 0 && doubt.needless >= doubt.sent).then_some(usize::from(doubt.path))?;
        self.recovery.doubt = None;
        Some(path)
    }

    /// RFC 9260 §6.3.3 E3: everything in flight on a path is lost. The reduction by T3-rtx replaces the earlier one,
    /// and its recovery starts from the beginning.
    pub(crate) fn lose_flight(&mut self, path: usize, cause: SendCause) {
        self.recovery.doubt = None;
        self.lose_path(path, cause);
        self.announce_again();
        self.end_recovery();
    }
}

/// Counts one miss for each missing chunk below `limit` and marks chunks with `threshold` misses. `evidence` is the
/// send time of the latest chunk that this SACK acknowledges. `looked_at` counts examined chunks over the SACKs of a
/// packet. Returns the user bytes marked.
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
    // The lowest chunks are retransmitted first; those beyond are counted when these are settled.
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
        // For a retransmitted chunk only chunks sent after it count.
        let eligible = !entry.fast && (!entry.again || evidence > entry.sent_at);
        let state = entry.state;
        if eligible && state == ChunkState::InFlight {
            entry.misses = entry.misses.saturating_add(1);
            if entry.misses >= threshold {
                // RFC 9260 §7.2.4: marked once, and never again for fast retransmit.
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

/// RFC 3758 §3.5 F5: a chunk abandoned in flight is not retransmitted, but its loss indicates congestion like any
/// other loss.
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
