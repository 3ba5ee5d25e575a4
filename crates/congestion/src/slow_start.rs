//! The rule that ends slow start before a loss does, as an enum.
//!
//! Selects between [`HyStart`] (RFC 9406) and [`HyStartLinux`], so that TCP and SCTP drive both with the same calls.

use crate::{HyStart, HyStartLinux, SlowStart};
use anabranch_base::Instant;
use anabranch_base::time::Duration;

/// A rule that ends slow start early.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum SlowStartExit {
    /// HyStart++ (RFC 9406).
    PlusPlus,
    /// HyStart of 2008, as in Linux's CUBIC.
    Linux,
}

/// The state of a [`SlowStartExit`] rule for one path.
#[derive(Clone, Copy, Debug)]
pub enum SlowStartEnd {
    /// HyStart++ (RFC 9406).
    PlusPlus(HyStart),
    /// HyStart of 2008.
    Linux(HyStartLinux),
}

/// What an acknowledgement shows about slow start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The position up to which everything is acknowledged.
    pub acked: u64,
    /// The position up to which everything has been sent.
    pub next: u64,
    /// The round-trip time of the latest delivery, if that data was sent only once.
    pub rtt: Option<Duration>,
    /// The congestion window in bytes.
    pub window: u64,
    /// The largest payload of a packet in bytes.
    pub mss: u64,
    /// Whether the window is below the threshold.
    pub slow_start: bool,
}

impl SlowStartEnd {
    /// Creates the state before anything is sent.
    #[must_use]
    pub fn new(exit: SlowStartExit) -> Self {
        match exit {
            SlowStartExit::PlusPlus => Self::PlusPlus(HyStart::default()),
            SlowStartExit::Linux => Self::Linux(HyStartLinux::default()),
        }
    }

    /// Returns how slow start continues after an acknowledgement of new data. Call it for each of them.
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

    /// Returns the minimum round-trip time, if the rule records it.
    #[inline]
    #[must_use]
    pub fn least_rtt(&self) -> Option<Duration> {
        match self {
            Self::PlusPlus(_) => None,
            Self::Linux(hystart) => hystart.least_rtt(),
        }
    }

    /// The window was reduced because of a loss or an ECN mark.
    pub fn on_reduced(&mut self) {
        match self {
            Self::PlusPlus(hystart) => hystart.end(),
            // The threshold is set now; slow start below it is observed like the first.
            Self::Linux(_) => {}
        }
    }

    /// The retransmission timer expired.
    pub fn on_timeout(&mut self) {
        match self {
            Self::PlusPlus(hystart) => hystart.end(),
            Self::Linux(hystart) => hystart.on_timeout(),
        }
    }
}
