//! Handles an expired T3-rtx: all chunks in flight on the timer's path are marked as lost.
//!
//! Implements RFC 9260 §6.3.3: rule E3, and the note after E3 about chunks that are marked for retransmission.

use super::SendHalf;
use super::outstanding::{ChunkState, Outstanding};
use anabranch_base::trace::SendCause;

impl SendHalf {
    /// Marks every chunk in flight on `path` for retransmission.
    pub(crate) fn lose_path(&mut self, path: usize, cause: SendCause) {
        // RFC 9260 §6.2.1 C: chunks that are marked for retransmission no longer use the peer's window.
        self.peer_window += mark_path(&mut self.outstanding, path as u8, cause);
    }

    /// Marks for retransmission all chunks in flight on `path` that have more than `largest` user bytes. Such chunks no
    /// longer fit into the reduced path MTU. Returns the number of bytes that leave the flight.
    pub(crate) fn lose_larger(&mut self, path: usize, largest: u32) -> u64 {
        let (marked, flight) = mark_larger(&mut self.outstanding, path as u8, largest, SendCause::Fast);
        self.peer_window += marked;
        flight
    }
}

/// Marks every chunk in flight on `path` for retransmission. Returns the number of user bytes marked.
fn mark_path(outstanding: &mut Outstanding, path: u8, cause: SendCause) -> u64 {
    let mut marked = 0;
    for offset in outstanding.base()..outstanding.end() {
        let Some(entry) = outstanding.at(offset) else {
            break;
        };
        if entry.path == path && entry.state == ChunkState::InFlight {
            entry.miss_indications = 0;
            let length = entry.length;
            outstanding.set(offset, ChunkState::Lost(cause));
            marked += u64::from(length);
        } else if entry.path == path && entry.state == ChunkState::Abandoned {
            // An abandoned chunk is not retransmitted. It only stops counting as in flight (RFC 3758 §3.5 F5).
            entry.fast = true;
        }
    }
    marked
}

/// Marks as lost each chunk that is in flight on `path` and has more than `largest` user bytes. Returns the number of
/// user bytes marked, and the number of bytes by which the flight shrinks.
fn mark_larger(outstanding: &mut Outstanding, path: u8, largest: u32, cause: SendCause) -> (u64, u64) {
    let (mut marked, mut flight) = (0, 0);
    for offset in outstanding.base()..outstanding.end() {
        let Some(entry) = outstanding.get(offset) else {
            break;
        };
        if entry.path == path && entry.state == ChunkState::InFlight && u32::from(entry.length) > largest {
            let (length, size) = (entry.length, entry.size());
            outstanding.set(offset, ChunkState::Lost(cause));
            marked += u64::from(length);
            flight += size;
        }
    }
    (marked, flight)
}
