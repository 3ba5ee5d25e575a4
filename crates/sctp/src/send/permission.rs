//! Decides whether the limits of the sending half permit new DATA. These limits are the peer's window, Nagle's
//! algorithm and the burst limit.
//!
//! Congestion windows belong to the paths. `association::outbound` checks the congestion windows and the limits of this
//! module.
//!
//! Implements RFC 9260 §6.1 A (the peer's window) and D (Max.Burst). The window probes of rule A are in the module
//! `probing`.

use super::SendHalf;
use super::queue::Cut;
use crate::config::Config;
use anabranch_base::Instant;

impl SendHalf {
    /// Returns the maximum number of user bytes in a chunk.
    #[inline]
    pub(crate) fn largest(&self) -> u32 {
        self.largest
    }

    /// Sets the maximum number of user bytes in a chunk.
    pub(crate) fn set_largest(&mut self, largest: u32) {
        self.largest = largest;
    }

    /// Returns the next new chunk, if one fits into `room` bytes.
    #[inline(always)]
    pub(crate) fn next_cut(&self, room: usize) -> Option<Cut> {
        self.queue.next_cut(self.largest, room)
    }

    /// Returns whether the peer's window, Nagle's algorithm and the burst limit allow new DATA.
    #[inline(always)]
    pub(crate) fn new_allowed(&mut self, config: &Config, established: bool, now: Instant) -> bool {
        if self.outstanding.is_full() {
            return false;
        }
        let Some(cut) = self.next_cut(usize::MAX) else {
            return false;
        };
        self.window_takes(cut.length)
            && !self.is_held_back(config, established)
            && self.burst_allows(config, now)
    }

    /// RFC 9260 §6.1 A: returns whether the peer has room for `length` bytes, or the chunk may be sent as a window
    /// probe.
    #[inline]
    pub(crate) fn window_takes(&self, length: u32) -> bool {
        u64::from(length) <= self.peer_window || self.may_probe()
    }

    /// Nagle's algorithm: returns whether new data must wait for an acknowledgement, because it does not fill a packet.
    #[inline]
    fn is_held_back(&self, config: &Config, established: bool) -> bool {
        config.nagle
            && established
            && !self.outstanding.awaits_nothing()
            && self.queue.unsent_bytes() < u64::from(self.largest)
    }

    /// RFC 9260 §6.1 D: returns whether the burst limit allows a packet. The limit is Max.Burst packets at one instant.
    /// Another burst may follow at the same instant if no chunk is outstanding.
    #[inline]
    fn burst_allows(&mut self, config: &Config, now: Instant) -> bool {
        let Some(most) = config.max_burst.filter(|_| !config.burst_window) else {
            return true;
        };
        self.burst.allows(most, now, self.outstanding.is_empty())
    }

    /// Returns whether the next new chunk fits into `room` bytes and into the peer's window.
    pub(crate) fn next_new_fits(&self, room: usize) -> bool {
        self.next_cut(room).is_some_and(|cut| self.window_takes(cut.length))
    }

    /// Records that a packet with new DATA was written.
    #[inline]
    pub(crate) fn packet_done(&mut self) {
        self.queue.packet_done();
        self.burst.count();
    }

    /// RFC 9260 §6.1 D: starts a new burst if no chunk is outstanding, even if the clock has not advanced, because no
    /// acknowledgement will come that could start one.
    #[inline]
    pub(crate) fn renew_burst(&mut self) {
        if self.outstanding.is_empty() {
            self.burst.begin();
        }
    }
}
