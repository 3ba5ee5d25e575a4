//! Detects lost chunks by time.
//!
//! Chunks that were sent once are examined in the order of their send times, which is the order of their TSNs. One TSN
//! offset per path says where the examination continues. Retransmitted chunks are listed in the order of
//! retransmission. So each chunk is examined only once or twice, however large the window is.
//!
//! Implements RFC 8985 §6.2 step 5 and §7.3, as far as they concern chunks.

use super::SendHalf;
use super::outstanding::{ChunkState, Entry};
use crate::path::loss_control::LossByTime;
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_base::trace::SendCause;
use anabranch_congestion::Verdict;

/// Returns whether the chunk is in flight, as far as known. This includes a chunk abandoned in flight. RFC 3758 §3.5
/// F5: the loss of such a chunk indicates congestion like any other loss.
fn is_open(entry: &Entry) -> bool {
    match entry.state {
        ChunkState::InFlight => true,
        ChunkState::Abandoned => !entry.fast,
        ChunkState::Acked | ChunkState::Freed | ChunkState::Lost(_) => false,
    }
}

/// The range of TSNs about which the last SACK gives complete information. Above this range, arrived chunks may be
/// missing from the SACK.
///
/// RFC 9260 §6.7: a SACK reports as many of the lowest Gap Ack Blocks as fit into it, and some stacks report at most 16
/// or 20 blocks. So chunks beyond the last block may have arrived as well.
#[derive(Debug)]
pub(crate) struct Horizon {
    /// The largest number of gap blocks in a SACK of this peer so far.
    max_blocks: usize,
    /// The TSN offset from which on the last SACK gives no information about chunks; `u64::MAX` if it reports all
    /// arrived chunks.
    end: u64,
}

impl Horizon {
    pub(crate) const fn new() -> Self {
        Self { max_blocks: FEW, end: u64::MAX }
    }

    /// Records a SACK. `blocks` is the number of its gap blocks, and `highest` is the TSN offset at which the last
    /// block ends. A SACK with [`FEW`] or more blocks may be incomplete, because some peers limit the number of blocks.
    /// If an earlier SACK of the peer had more blocks, this SACK is complete.
    pub(crate) fn record(&mut self, blocks: usize, highest: u64) {
        self.end = if blocks >= self.max_blocks { highest } else { u64::MAX };
        self.max_blocks = self.max_blocks.max(blocks);
    }

    /// Records a SACK without gap blocks.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.end = u64::MAX;
    }
}

/// A SACK with fewer gap blocks than this number is assumed to report all arrived chunks. Stacks limit the number of
/// gap blocks in a SACK, but no known stack has a limit below this number.
const FEW: usize = 16;

impl SendHalf {
    /// Marks the chunks on `path` that are lost by now. Records when the next chunk will count as lost if it is not
    /// acknowledged before. Returns the number of bytes that leave the flight.
    pub(crate) fn lose_by_time(
        &mut self,
        now: Instant,
        path: usize,
        by_time: &mut LossByTime,
        smoothed: Option<Duration>,
    ) -> u64 {
        let mut lost = 0;
        let sure = self.recovery.exit.is_some() || self.recovery.timeout_exit.is_some() || self.counts_loss();
        let window = by_time.window(smoothed, sure);
        let mut until: Option<Instant> = None;
        let mut wait = |at: Instant| until = Some(until.map_or(at, |earlier| earlier.min(at)));
        while let Some((offset, at)) = by_time.oldest_retransmission() {
            if offset >= self.horizon.end {
                break;
            }
            let out = self.outstanding.get(offset).is_some_and(|entry| {
                usize::from(entry.path) == path && entry.sent_at == at && is_open(entry)
            });
            if out {
                match by_time.judge(now, at, offset + 1, window) {
                    Verdict::Lost => {
                        let bytes = self.lose(offset);
                        by_time.record_lost(at, bytes);
                        lost += bytes;
                    }
                    Verdict::Until(at) => {
                        wait(at);
                        break;
                    }
                    Verdict::Unknown => break,
                }
            }
            by_time.drop_retransmission();
        }
        let mut offset = by_time.edge().max(self.outstanding.base());
        while let Some(entry) = self.outstanding.get(offset).filter(|_| offset < self.horizon.end) {
            if is_open(entry) && !entry.was_retransmitted && usize::from(entry.path) == path {
                match by_time.judge(now, entry.sent_at, offset + 1, window) {
                    Verdict::Lost => {
                        let at = entry.sent_at;
                        let bytes = self.lose(offset);
                        by_time.record_lost(at, bytes);
                        lost += bytes;
                    }
                    Verdict::Until(at) => {
                        wait(at);
                        break;
                    }
                    Verdict::Unknown => break,
                }
            }
            offset += 1;
        }
        by_time.judged(offset, until);
        lost
    }

    /// Returns whether enough chunks beyond a gap have arrived to mark a chunk as lost by miss indications (RFC 9260
    /// §7.2.4).
    fn counts_loss(&self) -> bool {
        let mut left = u64::from(self.dupthresh);
        self.outstanding.runs.iter().any(|run| {
            left = left.saturating_sub(run.end - run.start);
            left == 0
        })
    }

    /// Marks the chunk at `offset` as lost. Returns the number of bytes that leave the flight.
    fn lose(&mut self, offset: u64) -> u64 {
        let Some(entry) = self.outstanding.at(offset) else { return 0 };
        let size = entry.size();
        if entry.state == ChunkState::Abandoned {
            entry.fast = true;
            return size;
        }
        // RFC 9260 §6.2.1 C: a lost chunk no longer counts as outstanding at the peer.
        self.peer_window += u64::from(entry.length);
        self.outstanding.set(offset, ChunkState::Lost(SendCause::Fast));
        size
    }

    /// RFC 8985 §7.3: marks the last chunk in flight on `path` for retransmission, as a tail loss probe that may be
    /// sent at once. Returns the number of bytes that leave the flight.
    pub(crate) fn take_tail(&mut self, path: usize) -> Option<u64> {
        let entries = self.outstanding.base()..self.outstanding.end();
        let offset = entries.rev().find(|&offset| {
            let entry = self.outstanding.get(offset);
            entry.is_some_and(|entry| usize::from(entry.path) == path && entry.state == ChunkState::InFlight)
        })?;
        self.allow_free_packet();
        Some(self.lose(offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9260 §6.7: a SACK counts as incomplete only if it has at least 16 gap blocks and no earlier SACK had more.
    /// Then the sender assumes that gap blocks were left out.
    #[test]
    fn the_horizon_is_where_a_full_sack_ends() {
        let mut horizon = Horizon::new();
        horizon.record(15, 90);
        assert_eq!(horizon.end, u64::MAX, "a few");
        horizon.record(16, 100);
        assert_eq!(horizon.end, 100, "as many as some stacks ever report");
        horizon.record(20, 120);
        assert_eq!(horizon.end, 120);
        horizon.record(19, 120);
        assert_eq!(horizon.end, u64::MAX, "one more would have fitted");
        horizon.record(20, 130);
        horizon.clear();
        assert_eq!(horizon.end, u64::MAX, "no hole at all");
    }
}
