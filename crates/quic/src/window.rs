//! A congestion controller of ours in the place of quinn's.
//!
//! The window follows the law that TCP and SCTP follow here. What stays quinn's: which packets are lost (RFC 9002 §6), the
//! pacer, that a loss found spurious is not undone, and when a sender counts as limited by its application.
//!
//! Home of RFC 9002 §7 as far as windows are concerned.

use anabranch_base::Instant;
use anabranch_base::time::nanos;
use anabranch_congestion::{Acked, Algorithm, Controller as _, InitialWindow, Kind, Params};
use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory};
use std::any::Any;
use std::sync::Arc;

/// Makes controllers of a kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    pub(crate) kind: Kind,
    pub(crate) packets: u32,
    pub(crate) epoch: std::time::Instant,
}

impl ControllerFactory for Windows {
    fn build(self: Arc<Self>, _: std::time::Instant, mtu: u16) -> Box<dyn Controller> {
        Box::new(Window::new(*self, u64::from(mtu)))
    }
}

struct Window {
    made: Windows,
    mtu: u64,
    algorithm: Algorithm,
    in_flight: u64,
    /// Losses of what left before this are of the same window (RFC 9002 §7.3.2).
    recovery_from: Option<std::time::Instant>,
    acked: u64,
    limited: bool,
    rtt: Option<std::time::Duration>,
}

impl Window {
    fn new(made: Windows, mtu: u64) -> Self {
        let params = Params::new(mtu, InitialWindow::Packets(made.packets));
        Self {
            made,
            mtu,
            algorithm: Algorithm::new(made.kind, params),
            in_flight: 0,
            recovery_from: None,
            acked: 0,
            limited: false,
            rtt: None,
        }
    }

    fn at(&self, now: std::time::Instant) -> Instant {
        Instant::from_nanos(nanos(now.saturating_duration_since(self.made.epoch)))
    }
}

impl Controller for Window {
    fn on_sent(&mut self, _: std::time::Instant, bytes: u64, _: u64) {
        self.in_flight += bytes;
    }

    fn on_ack(
        &mut self,
        _: std::time::Instant,
        sent: std::time::Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        // RFC 9002 §7.3.2: what left before the recovery began does not let the window grow.
        if self.recovery_from.is_none_or(|from| sent > from) {
            self.acked += bytes;
        }
        self.limited |= app_limited;
        self.rtt = Some(rtt.get());
    }

    fn on_end_acks(&mut self, now: std::time::Instant, in_flight: u64, app_limited: bool, _: Option<u64>) {
        let bytes = std::mem::take(&mut self.acked);
        let limited = std::mem::take(&mut self.limited) || app_limited;
        let flight_before = in_flight + bytes;
        self.in_flight = in_flight;
        if bytes == 0 {
            return;
        }
        let now = self.at(now);
        self.algorithm.on_acked(
            now,
            Acked {
                bytes,
                flight_before,
                cumulative: true,
                in_recovery: false,
                window_limited: !limited,
                conservative: false,
                rtt: self.rtt,
            },
        );
    }

    fn on_congestion_event(
        &mut self,
        now: std::time::Instant,
        sent: std::time::Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        let at = self.at(now);
        if is_persistent_congestion {
            // RFC 9002 §7.6.2: as after a timeout.
            self.recovery_from = None;
            self.algorithm.on_timeout(at, self.in_flight);
        } else if self.recovery_from.is_none_or(|from| sent > from) {
            self.recovery_from = Some(now);
            self.algorithm.on_loss(at, self.in_flight, lost_bytes == 0);
        }
        self.in_flight = self.in_flight.saturating_sub(lost_bytes);
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.mtu = u64::from(mtu);
        self.algorithm.set_mss(self.mtu);
    }

    fn window(&self) -> u64 {
        // RFC 9002 §7.2: no less than two packets.
        self.algorithm.window().max(2 * self.mtu)
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        // Another path: what is known of this one says nothing of it.
        Box::new(Self::new(self.made, self.mtu))
    }

    fn initial_window(&self) -> u64 {
        InitialWindow::Packets(self.made.packets).bytes(self.mtu)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
