//! The congestion window as a state machine, shared by SCTP and TCP.
//!
//! A transport tells its controller what was sent, acknowledged and lost; the
//! controller answers with a window in bytes. Which packets to retransmit, and
//! when a recovery begins and ends, is the transport's affair: it calls
//! [`Controller::on_loss`] once for each window of lost data.

use crate::Report;
use anabranch_base::time::Duration;
use anabranch_base::{BitRate, Instant};

/// What one acknowledgement brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Acked {
    /// Bytes newly acknowledged (SCTP: on this path, by gap blocks too).
    pub bytes: u64,
    /// Bytes in flight before this acknowledgement was taken in.
    pub flight_before: u64,
    /// The cumulative acknowledgement moved (RFC 9260 §7.2.1 asks for it; for TCP it always has).
    pub cumulative: bool,
    /// The sender is repairing a loss: the window must not grow by the usual rules.
    pub in_recovery: bool,
    /// The sender used its whole window before this acknowledgement (RFC 9260 §7.2.1, RFC 7661).
    pub window_limited: bool,
    /// Slow start goes on at a quarter of its pace (RFC 9406 §4.2).
    pub conservative: bool,
    /// Smoothed round-trip time, once measured.
    pub rtt: Option<Duration>,
}

/// A congestion controller of one path, in bytes.
pub trait Controller: std::fmt::Debug {
    /// `bytes` of data leave in one packet, for the first time or retransmitted. A controller that models the path (BBR)
    /// counts what it has in flight by them; one that only answers acknowledgements has no need to know.
    #[inline]
    fn on_sent(&mut self, now: Instant, bytes: u64) {
        let _ = (now, bytes);
    }

    /// An acknowledgement arrived.
    fn on_acked(&mut self, now: Instant, acked: Acked);

    /// What an acknowledgement, or the timer of RFC 8985, has shown of the path: after
    /// [`on_acked`](Self::on_acked) and [`on_loss`](Self::on_loss) of the same event, if it
    /// [`wants_reports`](Self::wants_reports).
    fn on_report(&mut self, now: Instant, report: &Report) {
        let _ = (now, report);
    }

    /// The controller models the path and has to be told what each acknowledgement showed.
    #[inline]
    fn wants_reports(&self) -> bool {
        false
    }

    /// The transport had a chance to send, nothing to repair, and the application nothing new. Told to those that
    /// [want reports](Self::wants_reports).
    fn on_application_limited(&mut self) {}

    /// A loss was noticed by acknowledgements (or by ECN, with `ecn`): once per
    /// window of data. `flight` is what was outstanding.
    fn on_loss(&mut self, now: Instant, flight: u64, ecn: bool);

    /// The retransmission timer ran out with `flight` bytes outstanding.
    fn on_timeout(&mut self, now: Instant, flight: u64);

    /// The retransmission timer ran out during the recovery of the same window.
    fn on_failed_recovery(&mut self, now: Instant, flight: u64) {
        self.on_timeout(now, flight);
    }

    /// After a timeout: `pipe` bytes are not taken for lost and may still arrive.
    fn on_remaining(&mut self, pipe: u64) {
        let _ = pipe;
    }

    /// Nothing was sent for `idle`, while the RTO is `rto`.
    fn on_idle(&mut self, idle: Duration, rto: Duration);

    /// The loss that [`on_timeout`](Self::on_timeout) or [`on_loss`](Self::on_loss) reported last turned out spurious: undo.
    fn on_spurious(&mut self, now: Instant) {
        let _ = now;
    }

    /// Slow start is over although nothing was lost (RFC 9406 §4.2): the threshold is here.
    fn leave_slow_start(&mut self);

    /// The largest payload of a packet changed.
    fn set_mss(&mut self, mss: u64);

    /// The congestion window, in bytes.
    fn window(&self) -> u64;

    /// The rate at which packets are to leave. A controller gives one from its beginning on, or never: `None` leaves the
    /// pace to the transport, which has it by the window and the round trip, or lets packets go as the window does.
    #[inline]
    fn pacing_rate(&self) -> Option<BitRate> {
        None
    }

    /// The slow-start threshold, in bytes.
    fn ssthresh(&self) -> u64;

    /// The controller's name as the command line spells it.
    fn name(&self) -> &'static str;
}
