//! Which segments end a burst, and are pushed for that.
//!
//! Linux hands segments that leave together to the interface as one, which is cut there (TSO, or GSO where the
//! interface cannot), and marks the last of more than one with PSH: a receiver passes on at once what it has put
//! together, and acknowledges it (`ack_push`). Nothing else changes: the segments are the same.
//!
//! Home of no RFC: tcp_tso_autosize, tcp_cwnd_test and tcp_transmit_skb of Linux 6 (net/ipv4/tcp_output.c).

use super::SendHalf;
use anabranch_congestion::Controller;

/// The burst that runs.
#[derive(Debug, Default)]
pub(super) struct Bursts {
    /// Segments left in it; the last one of more than one is pushed.
    left: u64,
    /// Segments in a burst at most, which counts until this position is acknowledged.
    most: u64,
    known_until: u64,
}

impl Bursts {
    /// What leaves in answer to another event is another burst.
    #[inline]
    pub(super) fn begin(&mut self) {
        self.left = 0;
    }
}

impl SendHalf {
    /// The segment of new data that is to leave now is the last of a burst of more than one.
    #[inline]
    pub(crate) fn ends_burst(&mut self) -> bool {
        let Some(bursts) = &mut self.bursts else { return false };
        if bursts.left == 0 {
            return self.begin_burst_of_new();
        }
        bursts.left -= 1;
        bursts.left == 0
    }

    fn begin_burst_of_new(&mut self) -> bool {
        let mss = self.mss;
        let window = self.controller.window();
        // No more than half the window, what it leaves, what the peer takes and what there is.
        let room = u64::try_from(self.room()).unwrap_or(0);
        let next = self.board.next();
        let peers = self.edge.saturating_sub(next);
        let data = self.buffer.end().saturating_sub(next);
        let allowed = room.min(window / 2).min(peers);
        // The last segment of what there is may be short.
        let quota = if data < allowed { (allowed / mss).min(data.div_ceil(mss)) } else { allowed / mss };
        let Some(bursts) = &mut self.bursts else { return false };
        if bursts.most == 0 || self.board.una() >= bursts.known_until {
            bursts.known_until = next + 1;
            // A thousandth (1/1024) of what leaves in a second: twice the window a round trip, or 1.2 times it
            // near and above the threshold.
            let srtt = self.rtt.smoothed_nanos().unwrap_or(0).max(1);
            let (times, over) = if window < self.controller.ssthresh() / 2 { (2, 1) } else { (6, 5) };
            let rate = u128::from(window * times / over) * 1_000_000_000 / u128::from(srtt);
            // Near peers get more: 64 KiB, half of it for every 512 us of the round trip.
            let near = LARGEST.checked_shr(u32::try_from(srtt / 512_000).unwrap_or(u32::MAX)).unwrap_or(0);
            let bytes = (rate >> 10).saturating_add(u128::from(near)).min(u128::from(LARGEST)) as u64;
            bursts.most = (bytes / mss).max(MIN);
        }
        bursts.left = quota.min(bursts.most).saturating_sub(1);
        false
    }
}

/// Bytes of one such unit at most (GSO_MAX_SIZE), and segments at least (tcp_min_tso_segs).
const LARGEST: u64 = 65_536;
const MIN: u64 = 2;
