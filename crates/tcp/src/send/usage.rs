//! Decides whether a window counted in segments is fully used, as Linux does.
//!
//! Records whether the current window was full, and if not, the largest amount of data that was outstanding. After the
//! window was full, it may grow with every acknowledgement until all data that was then outstanding is acknowledged. In
//! slow start, a window that was not full may grow to twice the largest amount of data outstanding.
//!
//! No RFC specifies these rules. They are those of tcp_cwnd_validate and tcp_is_cwnd_limited of Linux 6, which
//! correspond to RFC 2861 and RFC 7661.

use super::SendHalf;
use anabranch_congestion::Controller;

/// How much of the current congestion window the sender has used.
#[derive(Debug, Default)]
pub(super) struct Usage {
    full: bool,
    /// The largest number of bytes outstanding. Every segment is counted as a full segment.
    max_outstanding: u64,
    /// The stream position whose acknowledgement makes the values above outdated.
    until: u64,
}

impl Usage {
    /// Records the data sent and not cumulatively acknowledged, from stream position `una` to `next`. `load` is its
    /// size in bytes, with every segment counted as a full segment. `full` says whether the window is full.
    #[inline]
    pub(super) fn note(&mut self, full: bool, load: u64, una: u64, next: u64) {
        if una >= self.until || full || (!self.full && load > self.max_outstanding) {
            (self.full, self.max_outstanding, self.until) = (full, load, next);
        }
    }

    /// Returns whether enough of the window was used for it to grow.
    #[inline]
    pub(super) fn allows_growth(&self, window: u64, ssthresh: u64) -> bool {
        self.full || (window < ssthresh && window < 2 * self.max_outstanding)
    }
}

impl SendHalf {
    /// Records whether the congestion window is full. Called when no more data can be sent now; `blocked` says whether
    /// the congestion window is the reason.
    #[inline]
    pub(super) fn record_usage(&mut self, blocked: bool) {
        if let Some(usage) = &mut self.usage {
            let full = blocked || self.scoreboard.pipe() >= self.controller.window();
            usage.note(full, self.scoreboard.load(), self.scoreboard.una(), self.scoreboard.next());
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
        // In slow start, the window may grow up to twice the number of segments outstanding.
        assert!(usage.allows_growth(5, 100) && !usage.allows_growth(6, 100));
        usage.note(false, 4, 11, 14);
        assert!(usage.allows_growth(7, 100), "more was out since");
    }
}
