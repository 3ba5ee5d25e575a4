//! Decides which segments end a burst and therefore carry PSH.
//!
//! Linux passes segments that are sent together to the interface as one unit, which is split there (TSO; GSO if the
//! interface cannot). It sets PSH on the last segment of a unit of more than one. A receiver then delivers what it has
//! merged at once, and acknowledges it (`ack_push`). The segments are otherwise unchanged.
//!
//! Home of no RFC: tcp_tso_autosize, tcp_cwnd_test and tcp_transmit_skb of Linux 6 (net/ipv4/tcp_output.c).

use super::SendHalf;
use anabranch_congestion::Controller;

/// The state of the current burst.
#[derive(Debug, Default)]
pub(super) struct Bursts {
    /// The number of segments left in the burst. The last segment of a burst of more than one has PSH set.
    left: u64,
    /// The largest number of segments in a burst. It is computed again once this position is acknowledged.
    most: u64,
    known_until: u64,
}

impl Bursts {
    /// Starts a new burst; called for each event.
    #[inline]
    pub(super) fn begin(&mut self) {
        self.left = 0;
    }
}

impl SendHalf {
    /// Returns whether the segment of new data to be sent now is the last of a burst of more than one.
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
        // At most half the congestion window, its unused part, the peer's window, and the data available.
        let room = u64::try_from(self.room()).unwrap_or(0);
        let next = self.board.next();
        let peers = self.edge.saturating_sub(next);
        let data = self.buffer.end().saturating_sub(next);
        let allowed = room.min(window / 2).min(peers);
        // The last segment of the available data may be short.
        let quota = if data < allowed { (allowed / mss).min(data.div_ceil(mss)) } else { allowed / mss };
        let Some(bursts) = &mut self.bursts else { return false };
        if bursts.most == 0 || self.board.una() >= bursts.known_until {
            bursts.known_until = next + 1;
            // 1/1024 of the bytes sent in a second. The rate is twice the window per round trip, or 1.2 times it near
            // and above the threshold.
            let srtt = self.rtt.smoothed_nanos().unwrap_or(0).max(1);
            let (times, over) = if window < self.controller.ssthresh() / 2 { (2, 1) } else { (6, 5) };
            let rate = u128::from(window * times / over) * 1_000_000_000 / u128::from(srtt);
            // A short round trip allows larger bursts: 64 KiB more, halved for every 512 us of the round-trip time.
            let near = LARGEST.checked_shr(u32::try_from(srtt / 512_000).unwrap_or(u32::MAX)).unwrap_or(0);
            let bytes = (rate >> 10).saturating_add(u128::from(near)).min(u128::from(LARGEST)) as u64;
            bursts.most = (bytes / mss).max(MIN);
        }
        bursts.left = quota.min(bursts.most).saturating_sub(1);
        false
    }
}

/// The largest size of a unit in bytes (GSO_MAX_SIZE), and its smallest number of segments (tcp_min_tso_segs).
const LARGEST: u64 = 65_536;
const MIN: u64 = 2;
