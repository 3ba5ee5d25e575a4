//! Whether new DATA may be sent, as far as the sending half knows: the peer's window, Nagle's rule and bursts.
//!
//! Windows of congestion are the paths'; both meet in `association::outbound`.
//!
//! Home of RFC 9260 §6.1 A (the window; its probes are `probing`) and D (Max.Burst).

use super::SendHalf;
use super::queue::Cut;
use crate::config::Config;
use anabranch_base::Instant;

impl SendHalf {
    /// Most user bytes in a chunk.
    #[inline]
    pub(crate) fn largest(&self) -> u32 {
        self.largest
    }

    /// Chunks are cut for this many user bytes from now on.
    pub(crate) fn set_largest(&mut self, largest: u32) {
        self.largest = largest;
    }

    /// The next new chunk, if one goes into `room` bytes.
    #[inline(always)]
    pub(crate) fn next_cut(&self, room: usize) -> Option<Cut> {
        self.queue.next_cut(self.largest, room)
    }

    /// New DATA may go, as far as the peer's window, Nagle and bursts are concerned.
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

    /// RFC 9260 §6.1 A: the peer has room, or this is a probe.
    #[inline]
    pub(crate) fn window_takes(&self, length: u32) -> bool {
        u64::from(length) <= self.peer_window || self.may_probe()
    }

    /// Nagle's rule: a packet that is not full waits while anything is unacknowledged.
    #[inline]
    fn is_held_back(&self, config: &Config, established: bool) -> bool {
        config.nagle
            && established
            && !self.outstanding.awaits_nothing()
            && self.queue.unsent_bytes() < u64::from(self.largest)
    }

    /// RFC 9260 §6.1 D: Max.Burst packets at one instant, and again when all of them are acknowledged.
    #[inline]
    fn burst_allows(&mut self, config: &Config, now: Instant) -> bool {
        let Some(most) = config.max_burst else {
            return true;
        };
        self.burst.allows(most, now, self.outstanding.is_empty())
    }

    /// The next new chunk fits into `room` bytes, and the peer has room for it.
    pub(crate) fn next_new_fits(&self, room: usize) -> bool {
        self.next_cut(room).is_some_and(|cut| self.window_takes(cut.length))
    }

    /// A packet with new DATA has been written.
    #[inline]
    pub(crate) fn packet_done(&mut self) {
        self.queue.packet_done();
        self.burst.count();
    }

    /// RFC 9260 §6.1 D: the next burst waits for an acknowledgement. With nothing on its way none
    /// would come, though this may be the same reading of the clock as at the burst before.
    #[inline]
    pub(crate) fn renew_burst(&mut self) {
        if self.outstanding.is_empty() {
            self.burst.begin();
        }
    }
}
