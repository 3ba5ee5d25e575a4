//! Whether a window of segments is used, as Linux tells.
//!
//! Owns what was seen of the window that runs: whether it was full, else how much was out at most. A window that was
//! full grows with every acknowledgement until all that was out by then is acknowledged; in slow start it grows to
//! twice what was out.
//!
//! Home of no RFC: tcp_cwnd_validate and tcp_is_cwnd_limited of Linux 6, which stand for RFC 2861 and RFC 7661.

use super::SendHalf;
use anabranch_congestion::Controller;

/// What was seen of the window.
#[derive(Debug, Default)]
pub(super) struct Usage {
    full: bool,
    /// Bytes out at most, every segment counted whole.
    most: u64,
    /// Until this position is acknowledged.
    until: u64,
}

impl Usage {
    /// With `load` bytes out, up to `next`, the window is full or not.
    #[inline]
    pub(super) fn note(&mut self, full: bool, load: u64, una: u64, next: u64) {
        if una >= self.until || full || (!self.full && load > self.most) {
            (self.full, self.most, self.until) = (full, load, next);
        }
    }

    /// The window may grow: it was used.
    #[inline]
    pub(super) fn allows_growth(&self, window: u64, ssthresh: u64) -> bool {
        self.full || (window < ssthresh && window < 2 * self.most)
    }
}

impl SendHalf {
    /// All has left that may: the window is full, or it is not.
    #[inline]
    pub(super) fn record_usage(&mut self, blocked: bool) {
        if let Some(usage) = &mut self.usage {
            let full = blocked || self.board.pipe() >= self.controller.window();
            usage.note(full, self.board.load(), self.board.una(), self.board.next());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_once_full_counts_until_it_is_acknowledged() {
        let mut usage = Usage::default();
        usage.note(true, 10, 0, 10);
        usage.note(false, 4, 6, 10);
        assert!(usage.allows_growth(10, 5), "all that was out then is not acknowledged");
        usage.note(false, 3, 10, 13);
        assert!(!usage.allows_growth(10, 5));
        // In slow start up to twice what was out.
        assert!(usage.allows_growth(5, 100) && !usage.allows_growth(6, 100));
        usage.note(false, 4, 11, 14);
        assert!(usage.allows_growth(7, 100), "more was out since");
    }
}
