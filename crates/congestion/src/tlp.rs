//! Tail loss probe: if acknowledgements stop arriving, one segment is sent as a probe, so that the receiver reports the
//! data that it has. The probe is sent long before the retransmission timer expires. An expiry of that timer would mark
//! all data as lost.
//!
//! Owns the pending probe and computes the timeout. The transport owns the timer and chooses the segment to send.
//!
//! Implements RFC 8985 §7.

use anabranch_base::time::{Duration, nanos};

/// The state of the tail loss probe for one path.
#[derive(Clone, Copy, Debug, Default)]
pub struct LossProbe {
    /// TLP.end_seq and TLP.is_retrans: the end of the data sent with the probe, and whether the probe carried old data.
    /// Set while the outcome of a probe is unknown. `None` at other times.
    pending: Option<(u64, bool)>,
}

impl LossProbe {
    /// RFC 8985 §7.2, TLP_calc_PTO: returns how long to wait for an acknowledgement before a probe is sent. `alone`
    /// says that only one segment is outstanding. The receiver may delay the acknowledgement of a single segment by
    /// `ack_delay`.
    #[must_use]
    pub fn timeout(smoothed: Option<Duration>, alone: bool, ack_delay: Duration) -> Duration {
        let wait = if alone { nanos(ack_delay) } else { 0 };
        Duration::from_nanos(Self::timeout_nanos(smoothed.map(nanos), wait))
    }

    /// Returns the probe timeout in nanoseconds. `smoothed` is the smoothed round-trip time in nanoseconds. If a single
    /// segment is outstanding, `ack_delay` is how long the receiver may delay its acknowledgement, in nanoseconds.
    /// Otherwise `ack_delay` is 0.
    #[must_use]
    #[inline]
    pub const fn timeout_nanos(smoothed: Option<u64>, ack_delay: u64) -> u64 {
        match smoothed {
            None => nanos(UNMEASURED),
            Some(0) if ack_delay == 0 => 1,
            Some(smoothed) => smoothed.saturating_mul(2).saturating_add(ack_delay),
        }
    }

    /// Returns whether the outcome of a probe is unknown. In that case no second probe is sent (RFC 8985 §7.2).
    #[inline]
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Records that a probe was sent. `next` is the end of all data sent so far, including the probe. `retransmitted`
    /// says that the probe carries old data.
    pub fn on_sent(&mut self, next: u64, retransmitted: bool) {
        self.pending = Some((next, retransmitted));
    }

    /// RFC 8985 §7.4, TLP_process_ack: processes an acknowledgement up to position `acked`. `duplicate` says that the
    /// acknowledgement reports the probe's data as a duplicate. `idle` says that the acknowledgement did not advance
    /// and reports no gaps. Returns true if the probe has repaired a loss that no other acknowledgement has shown. Such
    /// a loss must be reported to the controller.
    pub fn on_ack(&mut self, acked: u64, duplicate: bool, idle: bool) -> bool {
        let Some((end, retransmitted)) = self.pending.filter(|(end, _)| acked >= *end) else { return false };
        if !retransmitted || duplicate || idle {
            self.pending = None;
            return false;
        }
        if acked > end {
            self.pending = None;
            return true;
        }
        false
    }

    /// Forgets the pending probe, because a recovery has begun. The recovery reduces the window, so a loss that the
    /// probe has repaired need not be reported.
    pub fn forget(&mut self) {
        self.pending = None;
    }
}

/// RFC 8985 §7.2: the probe timeout before a round-trip time is known.
const UNMEASURED: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn two_round_trips_and_the_delay_of_a_lone_acknowledgement() {
        assert_eq!(LossProbe::timeout(None, false, MS(40)), Duration::from_secs(1));
        assert_eq!(LossProbe::timeout(Some(MS(50)), false, MS(40)), MS(100));
        assert_eq!(LossProbe::timeout(Some(MS(50)), true, MS(40)), MS(140));
    }

    #[test]
    fn only_a_repeated_probe_that_no_duplicate_explains_repaired_a_loss() {
        let mut probe = LossProbe::default();
        probe.on_sent(10, false);
        assert!(!probe.on_ack(9, false, false) && probe.is_pending());
        assert!(!probe.on_ack(10, false, false) && !probe.is_pending(), "new data");
        probe.on_sent(10, true);
        assert!(!probe.on_ack(10, false, false) && probe.is_pending(), "which copy was it?");
        assert!(!probe.on_ack(10, true, false) && !probe.is_pending(), "both came");
        probe.on_sent(10, true);
        assert!(!probe.on_ack(10, false, false) && probe.on_ack(12, false, false), "one of them was lost");
        assert!(!probe.is_pending());
    }
}
