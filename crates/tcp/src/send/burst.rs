//! Decides which segments end a burst and therefore carry PSH.
//!
//! Linux passes several segments to the interface as one large packet, and the interface splits this packet into
//! segments (TSO). If the interface cannot split packets, the kernel splits them (GSO). If the large packet has several
//! segments, Linux sets PSH on the last one. At the receiver, the kernel merges the segments, and PSH makes it deliver
//! and acknowledge them immediately (`ack_push`). Apart from PSH, the segments are unchanged.
//!
//! No RFC specifies this behaviour. The models are tcp_tso_autosize, tcp_cwnd_test and tcp_transmit_skb of Linux 6
//! (net/ipv4/tcp_output.c).

use super::SendHalf;
use anabranch_congestion::Controller;

/// The state of the current burst.
#[derive(Debug, Default)]
pub(super) struct Bursts {
    /// The number of segments that the current burst still has to send. If a burst has more than one segment, the last
    /// segment has PSH set.
    left: u64,
    /// `max_segments` is the largest number of segments in a burst. It is computed again when all data below the stream
    /// position `known_until` is acknowledged.
    max_segments: u64,
    known_until: u64,
}

impl Bursts {
    /// Ends the current burst. Called once for each event, for example an arriving segment or an expired timer.
    #[inline]
    pub(super) fn end_current(&mut self) {
        self.left = 0;
    }
}

impl SendHalf {
    /// Returns whether the new data segment about to be sent is the last of a burst of more than one segment.
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
        // A burst is at most half the congestion window, and fits into the unused parts of the congestion window and of
        // the peer's window.
        let room = u64::try_from(self.room()).unwrap_or(0);
        let next = self.scoreboard.next();
        let peer_window = self.edge.saturating_sub(next);
        let data = self.buffer.end().saturating_sub(next);
        let allowed = room.min(window / 2).min(peer_window);
        // If the unsent data is less than `allowed`, the quota includes the last segment, which may be shorter than the
        // MSS.
        let quota = if data < allowed { (allowed / mss).min(data.div_ceil(mss)) } else { allowed / mss };
        let Some(bursts) = &mut self.bursts else { return false };
        if bursts.max_segments == 0 || self.scoreboard.una() >= bursts.known_until {
            bursts.known_until = next + 1;
            // A burst holds at most the data of 1/1024 s at the sending rate. The rate is estimated as two windows per
            // round trip while the window is below half of `ssthresh`, otherwise as 1.2 windows.
            let srtt = self.rtt.smoothed_nanos().unwrap_or(0).max(1);
            let (times, over) = if window < self.controller.ssthresh() / 2 { (2, 1) } else { (6, 5) };
            let rate = u128::from(window * times / over) * 1_000_000_000 / u128::from(srtt);
            // On a path with a short round-trip time, a burst may be larger. The additional size is 64 KiB, halved for
            // each 512 us of the round-trip time.
            let rtt_allowance =
                LARGEST.checked_shr(u32::try_from(srtt / 512_000).unwrap_or(u32::MAX)).unwrap_or(0);
            let bytes =
                (rate >> 10).saturating_add(u128::from(rtt_allowance)).min(u128::from(LARGEST)) as u64;
            bursts.max_segments = (bytes / mss).max(MIN);
        }
        bursts.left = quota.min(bursts.max_segments).saturating_sub(1);
        false
    }
}

/// `LARGEST` is the maximum size of a burst in bytes (GSO_MAX_SIZE). `MIN` is the minimum size of a burst in segments
/// (tcp_min_tso_segs).
const LARGEST: u64 = 65_536;
const MIN: u64 = 2;
