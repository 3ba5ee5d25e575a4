//! The congestion window as a state machine, which SCTP and TCP share.
//!
//! A transport reports to its controller which data was sent, acknowledged and lost. The controller returns a window in
//! bytes. The transport decides which packets to retransmit, and when a recovery begins and ends. The transport calls
//! [`Controller::on_loss`] once for each window of data in which data was lost.

use crate::AckReport;
use anabranch_base::time::Duration;
use anabranch_base::{BitRate, Instant};

/// The effect of a single acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Acked {
    /// The number of bytes newly acknowledged. In SCTP, only bytes sent on this path count, including those that gap
    /// ack blocks acknowledge.
    pub bytes: u64,
    /// The number of bytes in flight before the acknowledgement.
    pub flight_before: u64,
    /// Whether the cumulative acknowledgement advanced. RFC 2960 and RFC 4960 §7.2.1 allow growth of the window only
    /// with this advance; RFC 9260 does not require it. In TCP the value is always true.
    pub cumulative: bool,
    /// Whether the sender is repairing a loss, during which the window must not grow by the usual rules.
    pub in_recovery: bool,
    /// Whether the sender used its whole window before the acknowledgement (RFC 9260 §7.2.1, RFC 7661).
    pub window_limited: bool,
    /// Whether slow start continues at a quarter of its usual rate (RFC 9406 §4.2).
    pub conservative: bool,
    /// The smoothed round-trip time, once measured.
    pub rtt: Option<Duration>,
}

/// The congestion controller of a path. Windows and amounts of data are in bytes.
pub trait Controller: std::fmt::Debug {
    /// Records that a packet with `bytes` bytes of new or retransmitted data is sent. A controller that models the path
    /// (BBR) counts the bytes in flight with this call. Other controllers need not implement it.
    #[inline]
    fn on_sent(&mut self, now: Instant, bytes: u64) {
        let _ = (now, bytes);
    }

    /// Processes an acknowledgement.
    fn on_acked(&mut self, now: Instant, acked: Acked);

    /// Reports what an acknowledgement, or the timer of RFC 8985, has shown about the path. Called only if the
    /// controller [`wants_reports`](Self::wants_reports), and after [`on_acked`](Self::on_acked) and
    /// [`on_loss`](Self::on_loss) for the same event.
    fn on_report(&mut self, now: Instant, report: &AckReport) {
        let _ = (now, report);
    }

    /// Returns whether the controller models the path and needs a report for each acknowledgement.
    #[inline]
    fn wants_reports(&self) -> bool {
        false
    }

    /// Called when the transport could have sent data, but had nothing to retransmit and no new data from the
    /// application. Called only for controllers that [want reports](Self::wants_reports).
    fn on_application_limited(&mut self) {}

    /// Processes a loss that acknowledgements revealed, or an ECN mark if `ecn` is set. Called once per window of data.
    /// `flight` is the number of bytes that were outstanding.
    fn on_loss(&mut self, now: Instant, flight: u64, ecn: bool);

    /// Processes an expiry of the retransmission timer, with `flight` bytes outstanding.
    fn on_timeout(&mut self, now: Instant, flight: u64);

    /// Processes an expiry of the retransmission timer during a recovery that has already reduced the window.
    fn on_failed_recovery(&mut self, now: Instant, flight: u64) {
        self.on_timeout(now, flight);
    }

    /// Called after a timeout. `pipe` is the number of bytes in flight that are not considered lost and may still
    /// arrive.
    fn on_remaining(&mut self, pipe: u64) {
        let _ = pipe;
    }

    /// Called before data is sent again after a pause of the duration `idle`. `rto` is the current retransmission
    /// timeout.
    fn on_idle(&mut self, idle: Duration, rto: Duration);

    /// Undoes the last reduction by [`on_timeout`](Self::on_timeout) or [`on_loss`](Self::on_loss), because the loss
    /// was spurious.
    fn on_spurious(&mut self, now: Instant) {
        let _ = now;
    }

    /// Ends slow start without a loss (RFC 9406 §4.2), by setting the threshold to the current window.
    fn leave_slow_start(&mut self);

    /// Lowers the window to `window` bytes if it is larger. Called only by transports that moderate the window as Linux
    /// 2.6 does (tcp_moderate_cwnd, tcp_complete_cwr, sctp_packet_append_data).
    fn limit_window(&mut self, window: u64) {
        let _ = window;
    }

    /// Sets the unit of the congestion window in bytes, which is the largest payload of a packet or the path MTU (see
    /// [`InitialParams::mss`](crate::InitialParams::mss)).
    fn set_mss(&mut self, mss: u64);

    /// Returns the congestion window in bytes.
    fn window(&self) -> u64;

    /// Returns the rate at which packets must be sent. A controller returns a rate either always or never. Without a
    /// rate, a transport whose pacing is turned on paces by window and round-trip time. A transport without pacing
    /// sends as soon as the window allows.
    #[inline]
    fn pacing_rate(&self) -> Option<BitRate> {
        None
    }

    /// Returns the slow-start threshold in bytes.
    fn ssthresh(&self) -> u64;

    /// Returns the controller's name as it is spelled on the command line.
    fn name(&self) -> &'static str;
}
