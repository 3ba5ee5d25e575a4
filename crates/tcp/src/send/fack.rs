//! Loss detection by forward acknowledgement (FACK): finds the retransmissions that are lost, given the highest SACKed
//! segment.
//!
//! Owns the order in which segments were retransmitted. A retransmission is lost if SACK reports data that was first
//! sent after this retransmission. The scoreboard (`find_lost_by_fack`) marks lost segments that were sent only once.
//!
//! No RFC specifies this algorithm. It is that of tcp_sacktag_write_queue and tcp_update_scoreboard of
//! net/ipv4/tcp_input.c in Linux 2.6.12-rc2, after "Forward Acknowledgment: Refining TCP Congestion Control" (Mathis,
//! Mahdavi, SIGCOMM 1996). Linux turns FACK off if it sees reordering; this is not modelled.

use super::{Ack, Phase, SendHalf};
use anabranch_base::Instant;
use std::collections::VecDeque;

/// The retransmissions of the current recovery.
#[derive(Debug, Default)]
pub(super) struct Fack {
    /// For each retransmission, oldest first: the start of the segment, when it was sent, and the position after the
    /// highest byte sent before it.
    retransmissions: VecDeque<(u64, Instant, u64)>,
}

impl SendHalf {
    /// Records that the segment at position `start` was retransmitted.
    pub(super) fn record_for_fack(&mut self, start: u64, now: Instant) {
        let next = self.scoreboard.next();
        if let Some(fack) = &mut self.fack {
            fack.retransmissions.push_back((start, now, next));
        }
    }

    /// Marks retransmissions as lost if the SACK blocks of `ack` report data that was first sent after them.
    pub(super) fn find_lost_retransmissions(&mut self, ack: &Ack<'_>) {
        let Some(fack) = &mut self.fack else { return };
        if self.recovery.phase() != Phase::Fast {
            fack.retransmissions.clear();
            return;
        }
        let highest = ack.sacks.iter().map(|&(_, end)| end).max().unwrap_or(0);
        while let Some(&(start, at, next)) = fack.retransmissions.front() {
            if highest <= next {
                break;
            }
            if self.scoreboard.outstanding_retransmission_end(start, at).is_some() {
                self.scoreboard.lose_retransmission(start);
            }
            fack.retransmissions.pop_front();
        }
    }
}
