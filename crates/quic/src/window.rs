//! Adapts anabranch's congestion controllers to quinn's interface, and reports the input of every controller to the
//! `Watch`.
//!
//! The congestion window follows the same algorithms as in anabranch's TCP and SCTP. quinn does the loss detection (RFC
//! 9002 §6) and the pacing, and decides whether the application limits the sender. A window reduction for a spurious
//! loss is not undone.
//!
//! Implements the rules of RFC 9002 §7 for the congestion window.

use crate::watch::Watch;
use anabranch_base::Instant;
use anabranch_base::time::nanos;
use anabranch_congestion::{
    AckReport, Acked, Algorithm, AlgorithmConfig, Controller as _, HyStartLinux, InitialParams, InitialWindow,
};
use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics, CubicConfig};
use std::any::Any;
use std::sync::Arc;

/// Creates the congestion controllers of one connection.
#[derive(Clone)]
pub(crate) struct ConnectionControllers {
    /// The algorithm of anabranch's controller; `None` for quinn's CUBIC.
    pub(crate) kind: Option<AlgorithmConfig>,
    /// The initial window in packets.
    pub(crate) packets: u32,
    /// Whether growing round-trip times end anabranch's slow start.
    pub(crate) hystart: bool,
    pub(crate) epoch: std::time::Instant,
    pub(crate) watch: Arc<Watch>,
}

impl ControllerFactory for ConnectionControllers {
    fn build(self: Arc<Self>, now: std::time::Instant, mtu: u16) -> Box<dyn Controller> {
        let inner: Box<dyn Controller> = match self.kind {
            Some(kind) => Box::new(ControllerAdapter::new((*self).clone(), kind, u64::from(mtu))),
            None => {
                let mut cubic = CubicConfig::default();
                cubic.initial_window(InitialWindow::Packets(self.packets).bytes(u64::from(mtu)));
                Arc::new(cubic).build(now, mtu)
            }
        };
        let watched = WatchedController { inner, watch: self.watch.clone() };
        watched.watch.window(watched.window());
        Box::new(watched)
    }
}

/// Wraps a congestion controller and reports its input to the connection's `Watch`.
struct WatchedController {
    inner: Box<dyn Controller>,
    watch: Arc<Watch>,
}

impl Controller for WatchedController {
    fn on_sent(&mut self, now: std::time::Instant, bytes: u64, last_packet_number: u64) {
        self.inner.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(
        &mut self,
        now: std::time::Instant,
        sent: std::time::Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.watch.on_packet_acked(sent);
        self.watch.log_round_trip(rtt.get(), rtt.min());
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(
        &mut self,
        now: std::time::Instant,
        in_flight: u64,
        app_limited: bool,
        largest: Option<u64>,
    ) {
        self.inner.on_end_acks(now, in_flight, app_limited, largest);
        self.watch.window(self.window());
    }

    fn on_congestion_event(
        &mut self,
        now: std::time::Instant,
        sent: std::time::Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        self.watch.lost(now, sent, lost_bytes);
        self.inner.on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
        self.watch.window(self.window());
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.inner.on_mtu_update(mtu);
        self.watch.window(self.window());
    }

    fn window(&self) -> u64 {
        self.inner.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self { inner: self.inner.clone_box(), watch: self.watch.clone() })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self.inner.into_any()
    }
}

/// An anabranch congestion controller behind quinn's interface.
struct ControllerAdapter {
    factory: ConnectionControllers,
    kind: AlgorithmConfig,
    mtu: u64,
    algorithm: Algorithm,
    /// HyStart, which can end slow start before a loss.
    hystart: Option<HyStartLinux>,
    /// The number of the last packet sent. HyStart uses it to find the end of a round.
    last_sent: u64,
    /// The start of the current recovery. Losses of packets sent before that time belong to the same congestion event
    /// (RFC 9002 §7.3.2).
    recovery_from: Option<std::time::Instant>,
    acked: u64,
    limited: bool,
    rtt: Option<std::time::Duration>,
    /// The bytes that one received packet has acknowledged, and the time when the newest of these bytes were sent. Only
    /// a controller that models the path (BBR) uses these values.
    delivered: u64,
    newest: Option<std::time::Instant>,
}

impl ControllerAdapter {
    fn new(factory: ConnectionControllers, kind: AlgorithmConfig, mtu: u64) -> Self {
        let params =
            InitialParams::new(mtu, InitialWindow::Packets(factory.packets)).seeded(factory.watch.key());
        let algorithm = Algorithm::new(kind, params);
        factory.watch.set_rate(algorithm.pacing_rate());
        let hystart = factory.hystart.then(HyStartLinux::without_trains);
        Self {
            factory,
            kind,
            mtu,
            algorithm,
            hystart,
            last_sent: 0,
            recovery_from: None,
            acked: 0,
            limited: false,
            rtt: None,
            delivered: 0,
            newest: None,
        }
    }

    /// Reports delivered and lost bytes to a controller that models the path (BBR), and takes over its new pacing rate.
    fn report(&mut self, now: Instant, report: AckReport) {
        if self.algorithm.wants_reports() {
            let recovering = self.factory.watch.is_recovering();
            self.algorithm.on_report(now, &AckReport { recovering, ..report });
            self.factory.watch.set_rate(self.algorithm.pacing_rate());
        }
    }

    /// Ends slow start if a round-trip time shows that a queue is filling. `rtt` is the round-trip time of the newest
    /// acknowledged packet, including the peer's acknowledgement delay. `largest` is that packet's number.
    fn watch_slow_start(&mut self, now: Instant, largest: u64, rtt: std::time::Duration) {
        let Some(hystart) = &mut self.hystart else { return };
        hystart.on_round_trip(rtt);
        let window = self.algorithm.window();
        if window < self.algorithm.ssthresh()
            && hystart.on_ack(now, (largest, self.last_sent), rtt, (window, self.mtu))
        {
            self.algorithm.leave_slow_start();
        }
    }

    fn at(&self, now: std::time::Instant) -> Instant {
        Instant::from_nanos(nanos(now.saturating_duration_since(self.factory.epoch)))
    }
}

impl Controller for ControllerAdapter {
    fn on_sent(&mut self, now: std::time::Instant, _: u64, last_packet_number: u64) {
        self.last_sent = last_packet_number;
        // The byte count comes from `factory.watch`, because quinn's count includes packets that contain only
        // acknowledgements.
        let bytes = self.factory.watch.take_sent_bytes();
        if bytes > 0 {
            self.algorithm.on_sent(self.at(now), bytes);
        }
    }

    fn on_ack(
        &mut self,
        _: std::time::Instant,
        sent: std::time::Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        // RFC 9002 §7.3.2: acknowledgements of packets sent before the recovery began do not increase the window.
        if self.recovery_from.is_none_or(|from| sent > from) {
            self.acked += bytes;
        }
        self.limited |= app_limited;
        self.rtt = Some(rtt.get());
        self.delivered += bytes;
        self.newest = self.newest.max(Some(sent));
    }

    fn on_end_acks(
        &mut self,
        now: std::time::Instant,
        in_flight: u64,
        app_limited: bool,
        largest: Option<u64>,
    ) {
        let bytes = std::mem::take(&mut self.acked);
        let limited = std::mem::take(&mut self.limited) || app_limited;
        let at = self.at(now);
        if bytes > 0 {
            self.algorithm.on_acked(
                at,
                Acked {
                    bytes,
                    flight_before: in_flight + bytes,
                    cumulative: true,
                    in_recovery: false,
                    window_limited: !limited,
                    conservative: false,
                    rtt: self.rtt,
                },
            );
        }
        let delivered = std::mem::take(&mut self.delivered);
        if let Some(newest) = self.newest.take() {
            let rtt = now.saturating_duration_since(newest);
            if let Some(largest) = largest {
                self.watch_slow_start(at, largest, rtt);
            }
            let newest = Some(self.at(newest));
            self.report(
                at,
                AckReport { delivered, newest, rtt: Some(rtt), in_flight, ..AckReport::default() },
            );
        }
        if app_limited {
            self.algorithm.on_application_limited();
        }
    }

    fn on_congestion_event(
        &mut self,
        now: std::time::Instant,
        sent: std::time::Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        let at = self.at(now);
        // RFC 9002 §7.3.2: the slow start threshold is a share of the congestion window, not of the bytes in flight.
        let flight = self.window();
        if is_persistent_congestion {
            // RFC 9002 §7.6.2: the window is reduced as after a timeout.
            self.recovery_from = None;
            self.algorithm.on_timeout(at, flight);
        } else if self.recovery_from.is_none_or(|from| sent > from) {
            self.recovery_from = Some(now);
            self.algorithm.on_loss(at, flight, lost_bytes == 0);
        }
        let (newest_lost, in_flight) = (Some(self.at(sent)), self.factory.watch.in_flight());
        self.report(at, AckReport { lost: lost_bytes, newest_lost, in_flight, ..AckReport::default() });
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.mtu = u64::from(mtu);
        self.algorithm.set_mss(self.mtu);
    }

    fn window(&self) -> u64 {
        // RFC 9002 §7.2: the minimum congestion window is two packets.
        self.algorithm.window().max(2 * self.mtu)
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        // quinn clones a controller for a new path, so the clone starts with new state.
        Box::new(Self::new(self.factory.clone(), self.kind, self.mtu))
    }

    fn initial_window(&self) -> u64 {
        InitialWindow::Packets(self.factory.packets).bytes(self.mtu)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Trace;
    use crate::watch::Level;
    use std::time::Duration;

    /// Returns BBR's pacing rate in bits per second after 20 round trips of 50 ms. The simulated path delivers 6,000
    /// bytes in each round trip.
    fn pace(app_limited: bool) -> u64 {
        #[expect(clippy::disallowed_methods, reason = "quinn's clock is std's; any instant will do")]
        let epoch = std::time::Instant::now();
        let watch = Watch::new(Arc::default(), 1, Trace::default());
        let factory = ConnectionControllers {
            kind: Some(AlgorithmConfig::Bbr),
            packets: 10,
            hystart: false,
            epoch,
            watch: watch.clone(),
        };
        let mut adapter = ControllerAdapter::new(factory, AlgorithmConfig::Bbr, 1_200);
        for round in 1..=20 {
            let sent = epoch + Duration::from_millis(50 * round);
            watch.on_packet_sent(Level::Data, round, &[0x01], 6_000);
            adapter.on_sent(sent, 6_000, round);
            adapter.delivered += 6_000;
            adapter.newest = Some(sent);
            adapter.on_end_acks(sent + Duration::from_millis(50), 0, app_limited, None);
        }
        watch.rate().expect("a pace").bits_per_second()
    }

    /// On a slow path, two flows are compared. If the application does not limit the sender, the delivery rate shows
    /// the slow path, and BBR must leave Startup. If the application limits the sender, BBR must not leave Startup.
    #[test]
    fn bbr_is_told_when_the_application_limits_the_sender() {
        // The path delivers 6,000 bytes in 50 ms, which is 960 kbit/s. BBR's initial window is 12,000 bytes. In
        // Startup, BBR first sends 2.77 times this window in each round trip of 50 ms, which is more than 5 Mbit/s.
        let [limited, unlimited] = [true, false].map(pace);
        assert!(limited > 5_000_000 && unlimited <= 1_200_000, "{limited} {unlimited}");
    }
}
