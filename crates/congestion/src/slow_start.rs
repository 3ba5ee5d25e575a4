//! The algorithms that can end slow start before a loss occurs (HyStart++ and HyStart).
//!
//! Selects between [`HyStart`] (RFC 9406) and [`HyStartLinux`], so that TCP and SCTP call both in the same way.

use crate::{HyStart, HyStartLinux, SlowStart};
use anabranch_base::Instant;
use anabranch_base::time::Duration;

/// An algorithm that can end slow start before a loss occurs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum SlowStartExit {
    /// HyStart++ (RFC 9406).
    PlusPlus,
    /// HyStart of 2008, as in Linux's CUBIC.
    Linux,
}

/// The state of a [`SlowStartExit`] rule for one path.
#[derive(Clone, Copy, Debug)]
pub enum SlowStartExitState {
    /// HyStart++ (RFC 9406).
    PlusPlus(HyStart),
    /// HyStart of 2008.
    Linux(HyStartLinux),
}

/// The state of the connection after an acknowledgement, with the values that the rules for slow start need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The position up to which all data is acknowledged.
    pub acked: u64,
    /// The position up to which all data has been sent.
    pub next: u64,
    /// The round-trip time of the newest delivered data, if that data was sent only once.
    pub rtt: Option<Duration>,
    /// The congestion window in bytes.
    pub window: u64,
    /// The largest payload of a packet in bytes.
    pub mss: u64,
    /// Whether the window is below the slow-start threshold.
    pub slow_start: bool,
}

impl SlowStartExitState {
    /// Creates the state of the algorithm `exit` for a path on which no data has been sent.
    #[must_use]
    pub fn new(exit: SlowStartExit) -> Self {
        match exit {
            SlowStartExit::PlusPlus => Self::PlusPlus(HyStart::default()),
            SlowStartExit::Linux => Self::Linux(HyStartLinux::default()),
        }
    }

    /// Returns how slow start continues after an acknowledgement. Must be called for each acknowledgement of new data.
    pub fn on_ack(&mut self, now: Instant, progress: &Progress) -> SlowStart {
        match self {
            Self::PlusPlus(hystart) => {
                if hystart.is_over() || !progress.slow_start {
                    return SlowStart::Full;
                }
                hystart.on_ack(progress.acked, progress.next, progress.rtt)
            }
            Self::Linux(hystart) => {
                let Some(rtt) = progress.rtt else { return SlowStart::Full };
                hystart.on_round_trip(rtt);
                let sent = (progress.acked, progress.next);
                if progress.slow_start && hystart.on_ack(now, sent, rtt, (progress.window, progress.mss)) {
                    return SlowStart::Leave;
                }
                SlowStart::Full
            }
        }
    }

    /// Returns the minimum round-trip time. `None` before the first measurement, and always with HyStart++, which does
    /// not record it.
    #[inline]
    #[must_use]
    pub fn min_rtt(&self) -> Option<Duration> {
        match self {
            Self::PlusPlus(_) => None,
            Self::Linux(hystart) => hystart.min_rtt(),
        }
    }

    /// Updates the algorithm's state after a loss or an ECN mark has reduced the window.
    pub fn on_reduced(&mut self) {
        match self {
            Self::PlusPlus(hystart) => hystart.end(),
            // Linux's HyStart stays active, because it may also end a later slow start, below the new threshold.
            Self::Linux(_) => {}
        }
    }

    /// Updates the algorithm's state after the retransmission timer has expired.
    pub fn on_timeout(&mut self) {
        match self {
            Self::PlusPlus(hystart) => hystart.end(),
            Self::Linux(hystart) => hystart.on_timeout(),
        }
    }
}
