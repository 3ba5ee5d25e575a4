//! Losses found by time, chunk by chunk.
//!
//! Of what was sent once, chunks stand in the order of their sending, so that
//! one mark a path suffices: below it everything has been judged. What was
//! sent again is remembered in the order of that. So every chunk is looked at
//! once or twice, however long the window is.
//!
//! Home of RFC 8985 §6.2 step 5 and §7.3, as far as chunks are concerned.

use super::SendHalf;
use super::outstanding::{ChunkState, Entry};
use crate::path::control::Control;
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_base::trace::SendCause;
use anabranch_congestion::Verdict;

/// What was found lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Lost {
    /// Bytes that left the flight.
    pub(crate) flight: u64,
    /// User bytes that are no longer outstanding at the peer.
    pub(crate) user: u64,
}

/// It is on its way, as far as known. RFC 3758 §3.5 F5: the loss of what was given up on its way says
/// what any loss says.
fn is_open(entry: &Entry) -> bool {
    match entry.state {
        ChunkState::InFlight => true,
        ChunkState::Abandoned => !entry.fast,
        ChunkState::Acked | ChunkState::Lost(_) => false,
    }
}

impl SendHalf {
    /// Marks what is lost on `path` by now, and notes when the next may be.
    pub(crate) fn lose_by_time(
        &mut self,
        now: Instant,
        path: u8,
        control: &mut Control,
        smoothed: Option<Duration>,
    ) -> Lost {
        let mut lost = Lost::default();
        let Some(rack) = &control.rack else { return lost };
        let sure = self.recovery.exit.is_some() || self.recovery.timeout_exit.is_some() || self.counts_loss();
        let window = rack.window(smoothed, sure);
        let mut until: Option<Instant> = None;
        let mut wait = |at: Instant| until = Some(until.map_or(at, |earlier| earlier.min(at)));
        while let Some(&(offset, at)) = control.repairs.front() {
            let out = self
                .outstanding
                .get(offset)
                .is_some_and(|entry| entry.path == path && entry.sent_at == at && is_open(entry));
            if out {
                match rack.judge(now, at, offset + 1, window) {
                    Verdict::Lost => self.lose(offset, &mut lost),
                    Verdict::Until(at) => {
                        wait(at);
                        break;
                    }
                    Verdict::Unknown => break,
                }
            }
            control.repairs.pop_front();
        }
        let mut offset = control.edge.max(self.outstanding.base());
        while let Some(entry) = self.outstanding.get(offset) {
            if is_open(entry) && !entry.again && entry.path == path {
                match rack.judge(now, entry.sent_at, offset + 1, window) {
                    Verdict::Lost => self.lose(offset, &mut lost),
                    Verdict::Until(at) => {
                        wait(at);
                        break;
                    }
                    Verdict::Unknown => break,
                }
            }
            offset += 1;
        }
        control.edge = offset;
        control.reorder_at = until;
        lost
    }

    /// As many chunks as mean a loss by counting (RFC 9260 §7.2.4) have arrived beyond a hole.
    fn counts_loss(&self) -> bool {
        let mut left = u64::from(self.dupthresh);
        self.outstanding.runs.iter().any(|run| {
            left = left.saturating_sub(run.end - run.start);
            left == 0
        })
    }

    fn lose(&mut self, offset: u64, lost: &mut Lost) {
        let Some(entry) = self.outstanding.at(offset) else { return };
        lost.flight += entry.size();
        if entry.state == ChunkState::Abandoned {
            entry.fast = true;
            return;
        }
        lost.user += u64::from(entry.length);
        self.outstanding.set(offset, ChunkState::Lost(SendCause::Fast));
    }

    /// RFC 8985 §7.3: the last chunk on its way to `path` is to be sent again, as a probe.
    pub(crate) fn take_tail(&mut self, path: u8) -> Option<Lost> {
        let entries = self.outstanding.base()..self.outstanding.end();
        let offset = entries.rev().find(|&offset| {
            let entry = self.outstanding.get(offset);
            entry.is_some_and(|entry| entry.path == path && entry.state == ChunkState::InFlight)
        })?;
        let mut lost = Lost::default();
        self.lose(offset, &mut lost);
        Some(lost)
    }
}
