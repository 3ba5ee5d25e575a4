//! What miss indications mean: fast retransmit and fast recovery.
//!
//! Owns the exit point of a recovery and the permission to send one packet of
//! retransmissions beyond the congestion window.
//!
//! Home of RFC 9260 §7.2.4, §6.7 (what is missing) and §6.2.1 D iv.

use super::outstanding::{ChunkState, Outstanding};
use super::sack_outcome::PathAck;
use super::sack_work_limit;
use anabranch_base::Instant;
use anabranch_base::trace::SendCause;

/// The state of recovery.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    /// In fast recovery until everything below this offset is acknowledged.
    pub(crate) exit: Option<u64>,
    /// One packet of retransmissions may go regardless of the window.
    pub(crate) free_packet: bool,
    /// After a timeout, until everything below this offset is acknowledged.
    pub(crate) timeout_exit: Option<u64>,
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
    /// The window of a path has been reduced.
    pub(crate) fn doubt(&mut self, path: usize) {
        self.doubt = Some(Doubt { path: path as u8, sent: 0, needless: 0 });
    }

    /// A chunk was retransmitted.
    pub(crate) fn on_repaired(&mut self) {
        if let Some(doubt) = &mut self.doubt {
            doubt.sent = doubt.sent.saturating_add(1);
        }
    }

    /// The peer reports `count` duplicates of what was retransmitted. The path whose reduction was
    /// needless, once all of them were (RFC 3708 §2).
    pub(crate) fn on_needless(&mut self, count: u64) -> Option<usize> {
        let doubt = self.doubt.as_mut()?;
        doubt.needless = doubt.needless.saturating_add(count.min(u64::from(u32::MAX)) as u32);
        let path = (doubt.sent > 0 && doubt.needless >= doubt.sent).then_some(usize::from(doubt.path))?;
        self.doubt = None;
        Some(path)
    }

    /// T3-rtx has run out: its reduction is another.
    pub(crate) fn settle(&mut self) {
        self.doubt = None;
    }

    /// Nothing is being recovered.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.exit.is_none() && self.timeout_exit.is_none()
    }

    /// The cumulative acknowledgement has reached `base`.
    #[inline]
    pub(crate) fn on_cumulative(&mut self, base: u64) {
        if self.exit.is_some_and(|exit| base >= exit) {
            self.exit = None;
            self.free_packet = false;
        }
        if self.timeout_exit.is_some_and(|exit| base >= exit) {
            self.timeout_exit = None;
        }
    }
}

/// Counts one miss for each missing chunk below `limit` and marks those that
/// have reached `threshold`. `evidence` is when the newest chunk that this
/// SACK acknowledges was sent; `looked_at` counts chunks over the SACKs of a packet. Returns user bytes marked.
pub(crate) fn count_misses(
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
