//! Counts miss indications, and starts and ends fast retransmit and fast recovery.
//!
//! Owns two values: the exit point of fast recovery, and the permission to send one packet of retransmissions beyond
//! the congestion window.
//!
//! Implements RFC 9260 §7.2.4, §6.7 (which chunks count as missing) and §6.2.1 D iv.

use super::SendHalf;
use super::outstanding::{ChunkState, Outstanding};
use super::sack_outcome::PathAck;
use super::sack_work_limit;
use anabranch_base::Instant;
use anabranch_base::trace::SendCause;

/// The state of loss recovery.
#[derive(Debug, Default)]
pub(super) struct Recovery {
    /// The exit point of fast recovery: fast recovery lasts until all chunks below this TSN offset are acknowledged.
    /// `None` outside fast recovery.
    pub(super) exit: Option<u64>,
    /// Whether one packet of retransmissions may be sent regardless of the congestion window.
    free_packet: bool,
    /// The exit point of the recovery after a timeout: that recovery lasts until all chunks below this TSN offset are
    /// acknowledged.
    pub(super) timeout_exit: Option<u64>,
    /// State for detecting that the last window reduction was spurious.
    spurious_detection: Option<SpuriousRetransmissions>,
}

/// Counts the retransmissions since a window reduction, and how many of these were unnecessary.
#[derive(Clone, Copy, Debug)]
struct SpuriousRetransmissions {
    path: u8,
    sent: u32,
    spurious: u32,
}

impl Recovery {
    /// Counts a retransmission of a chunk.
    pub(super) fn on_retransmitted(&mut self) {
        if let Some(detection) = &mut self.spurious_detection {
            detection.sent = detection.sent.saturating_add(1);
        }
    }

    /// Returns whether no recovery is in progress.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.exit.is_none() && self.timeout_exit.is_none()
    }

    /// Ends recoveries whose exit point is reached. The cumulative TSN ack point has advanced to `base`.
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
    /// Returns whether fast recovery is in progress.
    #[inline]
    pub(crate) fn is_recovering(&self) -> bool {
        self.recovery.exit.is_some()
    }

    /// Returns the exit point of fast recovery: fast recovery ends when all chunks below this TSN offset are
    /// acknowledged.
    pub(crate) fn recovers_until(&self) -> Option<u64> {
        self.recovery.exit
    }

    /// Returns whether the recovery after a timeout is in progress.
    pub(crate) fn repairs_timeout(&self) -> bool {
        self.recovery.timeout_exit.is_some()
    }

    /// Returns whether no recovery is in progress.
    pub(crate) fn is_recovered(&self) -> bool {
        self.recovery.is_over()
    }

    /// Returns whether no chunk is lost or missing, no recovery is in progress and no closed window is being probed.
    pub(crate) fn is_quiet(&self) -> bool {
        self.recovery.is_over()
            && self.probing.is_none()
            && !self.outstanding.has_lost()
            && !self.outstanding.has_gaps()
    }

    /// Enters fast recovery. One packet may be sent at once, regardless of the congestion window.
    pub(crate) fn enter_recovery(&mut self) {
        self.recovery.exit = Some(self.outstanding.end());
        self.recovery.free_packet = true;
    }

    /// RFC 3758 §3.5 F5: enters fast recovery because of a skipped chunk. The skipped chunk is not retransmitted. If no
    /// other chunk is outstanding, fast recovery is not entered, because there is no data left to recover.
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

    /// Starts the recovery after a timeout. The recovery lasts until all data sent so far is acknowledged.
    pub(crate) fn begin_timeout_repair(&mut self) {
        self.recovery.timeout_exit = Some(self.outstanding.end());
    }

    /// Returns whether one packet of retransmissions may be sent regardless of the congestion window.
    pub(crate) fn has_free_packet(&self) -> bool {
        self.recovery.free_packet
    }

    /// Allows one packet of retransmissions regardless of the congestion window. Without this packet, no
    /// acknowledgement might arrive, and the window might never open.
    pub(crate) fn allow_free_packet(&mut self) {
        self.recovery.free_packet = true;
    }

    /// Records that one packet of retransmissions was sent regardless of the congestion window.
    pub(crate) fn take_free_packet(&mut self) {
        self.recovery.free_packet = false;
    }

    /// Starts to count retransmissions after the window of `path` was reduced. If all of these retransmissions turn out
    /// to be unnecessary, the reduction was spurious.
    pub(crate) fn begin_spurious_detection(&mut self, path: usize) {
        self.recovery.spurious_detection =
            Some(SpuriousRetransmissions { path: path as u8, sent: 0, spurious: 0 });
    }

    /// Counts `count` duplicates of retransmitted chunks that the peer reports. If all retransmissions since the last
    /// window reduction were unnecessary, that reduction was spurious (RFC 3708 §2). In this case returns the path of
    /// the reduction.
    pub(crate) fn on_spurious(&mut self, count: u64) -> Option<usize> {
        let detection = self.recovery.spurious_detection.as_mut()?;
        detection.spurious = detection.spurious.saturating_add(count.min(u64::from(u32::MAX)) as u32);
        let path = (detection.sent > 0 && detection.spurious >= detection.sent)
            .then_some(usize::from(detection.path))?;
        self.recovery.spurious_detection = None;
        Some(path)
    }

    /// RFC 9260 §6.3.3 E3: marks all chunks in flight on a path as lost. The window reduction by T3-rtx replaces an
    /// earlier reduction, and fast recovery ends.
    pub(crate) fn lose_flight(&mut self, path: usize, cause: SendCause) {
        self.recovery.spurious_detection = None;
        self.lose_path(path, cause);
        self.schedule_forward_tsn_retransmit();
        self.end_recovery();
    }
}

/// The number of misses after which a chunk is lost, and whether a chunk may be lost more than once in this way.
#[derive(Clone, Copy, Debug)]
pub(super) struct MissRule {
    pub(super) threshold: u8,
    pub(super) again: bool,
}

/// Counts one miss for each missing chunk whose TSN offset is below `limit`. Marks chunks with `threshold` misses as
/// lost. `evidence` is the latest send time of the chunks that this SACK newly acknowledges. `looked_at` is the number
/// of chunks examined so far for the SACKs of one packet. Returns the number of user bytes marked.
pub(super) fn count_misses(
    outstanding: &mut Outstanding,
    limit: u64,
    evidence: Instant,
    MissRule { threshold, again }: MissRule,
    looked_at: &mut u64,
    paths: &mut [PathAck],
) -> u64 {
    let mut marked = 0;
    let mut offset = outstanding.miss_floor.max(outstanding.base());
    let mut run = outstanding.runs.partition_point(|run| run.end <= offset);
    let mut floor_holds = true;
    // The number of examined chunks is limited. This SACK examines the lowest chunks, which are retransmitted first.
    // Later SACKs count the misses of higher chunks.
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
        // A retransmitted chunk counts as missing only if the SACK acknowledges a chunk that was sent after the
        // retransmission. Linux 2.6.11 (sctp_mark_missing, net/sctp/outqueue.c) ignores when the acknowledged chunk was
        // sent.
        let eligible = !entry.fast && (again || !entry.was_retransmitted || evidence > entry.sent_at);
        let state = entry.state;
        if eligible && state == ChunkState::InFlight {
            entry.miss_indications = entry.miss_indications.saturating_add(1);
            if entry.miss_indications >= threshold {
                // RFC 9260 §7.2.4: a chunk is marked for fast retransmit at most once. In Linux 2.6.11
                // (sctp_outq_flush_rtx) a retransmitted chunk counts misses again.
                entry.fast = !again;
                if again {
                    entry.miss_indications = 0;
                }
                let (length, size, path) = (entry.length, entry.size(), usize::from(entry.path));
                outstanding.set(offset, ChunkState::Lost(SendCause::Fast));
                marked += u64::from(length);
                if let Some(path) = paths.get_mut(path) {
                    path.lost += size;
                }
            }
        }
        if eligible && state == ChunkState::Abandoned {
            count_miss_on_abandoned(outstanding, offset, threshold, paths);
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

/// Counts a miss of an abandoned chunk. RFC 3758 §3.5 F5: a chunk abandoned in flight is not retransmitted, but its
/// loss indicates congestion like any other loss.
#[cold]
fn count_miss_on_abandoned(outstanding: &mut Outstanding, offset: u64, threshold: u8, paths: &mut [PathAck]) {
    let Some(entry) = outstanding.at(offset) else {
        return;
    };
    entry.miss_indications = entry.miss_indications.saturating_add(1);
    if entry.miss_indications >= threshold {
        entry.fast = true;
        let (size, path) = (entry.size(), usize::from(entry.path));
        if let Some(path) = paths.get_mut(path) {
            path.lost += size;
        }
    }
}
