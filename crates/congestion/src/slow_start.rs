//! Which rule ends slow start before a loss does, as one closed set.
//!
//! Owns nothing but the choice between [`HyStart`] (RFC 9406) and [`HyStartLinux`], so that TCP and SCTP drive both
//! by the same calls.

use crate::{HyStart, HyStartLinux, SlowStart};
use anabranch_base::Instant;
use anabranch_base::time::Duration;

/// A rule that ends slow start early.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum SlowStartExit {
    /// HyStart++ (RFC 9406).
    PlusPlus,
    /// HyStart of 2008, as Linux's CUBIC has it.
    Linux,
}

/// The state of that rule for one path.
#[derive(Clone, Copy, Debug)]
pub enum SlowStartEnd {
    /// HyStart++ (RFC 9406).
    PlusPlus(HyStart),
    /// HyStart of 2008.
    Linux(HyStartLinux),
}

/// What an acknowledgement says of slow start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Everything up to here is acknowledged.
    pub acked: u64,
    /// Everything up to here has been sent.
    pub next: u64,
    /// The round trip of what was delivered last, of data sent only once.
    pub rtt: Option<Duration>,
    /// The congestion window and the largest payload of a packet, in bytes.
    pub window: u64,
    /// See `window`.
    pub mss: u64,
    /// The window is below the threshold.
    pub slow_start: bool,
}

impl SlowStartEnd {
    /// The state of a rule before anything was sent.
    #[must_use]
    pub fn new(exit: SlowStartExit) -> Self {
        match exit {
            SlowStartExit::PlusPlus => Self::PlusPlus(HyStart::default()),
            SlowStartExit::Linux => Self::Linux(HyStartLinux::default()),
        }
    }

    /// How slow start goes on after an acknowledgement of new data. Call it for each of them.
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

    /// The least round trip, where it is kept.
    #[inline]
    #[must_use]
    pub fn least_rtt(&self) -> Option<Duration> {
        match self {
            Self::PlusPlus(_) => None,
            Self::Linux(hystart) => hystart.least_rtt(),
        }
    }

    /// The window was reduced for a loss or a mark.
    pub fn on_reduced(&mut self) {
        match self {
            Self::PlusPlus(hystart) => hystart.end(),
            // The threshold is there now; slow start below it is watched like the first.
            Self::Linux(_) => {}
        }
    }

    /// The retransmission timer has run out.
    pub fn on_timeout(&mut self) {
        match self {
            Self::PlusPlus(hystart) => hystart.end(),
            Self::Linux(hystart) => hystart.on_timeout(),
        }
    }
}
