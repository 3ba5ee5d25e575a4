//! The congestion window as a state machine, shared by SCTP and TCP.
//!
//! A transport tells its controller what was sent, acknowledged and lost. The controller returns a window in bytes. The
//! transport decides which packets to retransmit, and when a recovery begins and ends. It calls [`Controller::on_loss`]
//! once for each window with lost data.

use crate::Report;
use anabranch_base::time::Duration;
use anabranch_base::{BitRate, Instant};

/// The effect of one acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Acked {
    /// The number of bytes newly acknowledged. SCTP: on this path, including gap ack blocks.
    pub bytes: u64,
    /// The number of bytes in flight before this acknowledgement.
    pub flight_before: u64,
    /// The cumulative acknowledgement advanced (RFC 9260 §7.2.1 requires it; for TCP it is always true).
    pub cumulative: bool,
    /// The sender is repairing a loss, so the window must not grow by the usual rules.
    pub in_recovery: bool,
    /// The sender used its whole window before this acknowledgement (RFC 9260 §7.2.1, RFC 7661).
    pub window_limited: bool,
    /// Slow start continues at a quarter of its rate (RFC 9406 §4.2).
    pub conservative: bool,
    /// The smoothed round-trip time, once measured.
    pub rtt: Option<Duration>,
}

/// A congestion controller of one path, in bytes.
pub trait Controller: std::fmt::Debug {
    /// `bytes` of data are sent in one packet, for the first time or retransmitted. A controller that models the path
    /// (BBR) tracks the bytes in flight with it; others need not implement it.
    #[inline]
    fn on_sent(&mut self, now: Instant, bytes: u64) {
        let _ = (now, bytes);
    }

    /// An acknowledgement arrived.
    fn on_acked(&mut self, now: Instant, acked: Acked);

    /// Reports what an acknowledgement, or the timer of RFC 8985, has shown of the path. It is called after
    /// [`on_acked`](Self::on_acked) and [`on_loss`](Self::on_loss) for the same event, if the controller
    /// [`wants_reports`](Self::wants_reports).
    fn on_report(&mut self, now: Instant, report: &Report) {
        let _ = (now, report);
    }

    /// Returns whether the controller models the path and needs a report for each acknowledgement.
    #[inline]
    fn wants_reports(&self) -> bool {
        false
    }

    /// The transport could have sent, but had no data to retransmit and the application no new data. Called only for
    /// controllers that [want reports](Self::wants_reports).
    fn on_application_limited(&mut self) {}

    /// A loss was detected by acknowledgements, or by ECN if `ecn` is set. Called once per window of data. `flight` is
    /// the number of bytes that were outstanding.
    fn on_loss(&mut self, now: Instant, flight: u64, ecn: bool);

    /// The retransmission timer expired with `flight` bytes outstanding.
    fn on_timeout(&mut self, now: Instant, flight: u64);

    /// The retransmission timer expired during the recovery of the same window.
    fn on_failed_recovery(&mut self, now: Instant, flight: u64) {
        self.on_timeout(now, flight);
    }

    /// Called after a timeout: `pipe` bytes are not considered lost and may still arrive.
    fn on_remaining(&mut self, pipe: u64) {
        let _ = pipe;
    }

    /// Nothing was sent for `idle`; the RTO is `rto`.
    fn on_idle(&mut self, idle: Duration, rto: Duration);

    /// The last loss reported by [`on_timeout`](Self::on_timeout) or [`on_loss`](Self::on_loss) was spurious: undo it.
    fn on_spurious(&mut self, now: Instant) {
        let _ = now;
    }

    /// Ends slow start without a loss (RFC 9406 §4.2), by setting the threshold to the current window.
    fn leave_slow_start(&mut self);

    /// The largest payload of a packet has changed.
    fn set_mss(&mut self, mss: u64);

    /// Returns the congestion window in bytes.
    fn window(&self) -> u64;

    /// Returns the rate at which to send packets. A controller returns a rate from its start on, or never. With `None`,
    /// the transport either paces by window and round-trip time, or sends as soon as the window allows.
    #[inline]
    fn pacing_rate(&self) -> Option<BitRate> {
        None
    }

    /// Returns the slow-start threshold in bytes.
    fn ssthresh(&self) -> u64;

    /// Returns the controller's name as spelled on the command line.
    fn name(&self) -> &'static str;
}
