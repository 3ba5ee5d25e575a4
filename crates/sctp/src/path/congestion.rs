//! Creates the congestion controller of a path when data is first sent, and computes the initial window.
//!
//! Windows and bytes in flight count DATA chunks with their headers, as PMDCS does (RFC 9260 §7.2.1). For example,
//! with PMDCS = 1468 bytes on a 1500-byte path, the initial window of 4404 bytes is three full packets. The older
//! RFCs count in path MTUs.

use super::Path;
use super::loss_control::LossControl;
use crate::config::{Algorithm as Choice, Config, InitialWindow};
use anabranch_congestion as congestion;
use congestion::sctp::Variant;
use congestion::{Algorithm, AlgorithmConfig, Controller, InitialParams, cubic, sctp};
use std::sync::Arc;

/// The congestion control of a path. The controller is created with the first data, because most secondary paths never
/// carry data.
#[derive(Debug)]
pub(super) enum Congestion {
    /// No data was sent yet. Congestion control will start with this configuration and with DATA chunks of at most
    /// `max_chunk_size` bytes.
    Initial { config: Arc<Config>, max_chunk_size: u32 },
    /// Data was sent. `loss_control` is the state of the loss recovery methods that RFC 9260 §7.2 does not define;
    /// `None` if none of them is configured.
    Running { controller: Algorithm, loss_control: Option<Box<LossControl>> },
}

impl Congestion {
    /// Starts congestion control with `controller`. Packets are paced if the configuration asks for pacing or the
    /// controller gives a rate.
    pub(super) fn running(config: &Config, controller: Algorithm) -> Self {
        let paced = config.pacing || controller.pacing_rate().is_some();
        Self::Running { controller, loss_control: LossControl::new(config, paced) }
    }
}

impl Path {
    /// Returns the controller and the loss recovery state. Creates them if no data was sent yet.
    #[inline(always)]
    pub(super) fn congestion(&mut self) -> (&mut Algorithm, Option<&mut LossControl>) {
        if let Congestion::Initial { .. } = self.congestion {
            self.begin_congestion_control();
        }
        match &mut self.congestion {
            Congestion::Running { controller, loss_control } => (controller, loss_control.as_deref_mut()),
            Congestion::Initial { .. } => unreachable!("it has begun"),
        }
    }

    #[cold]
    #[inline(never)]
    fn begin_congestion_control(&mut self) {
        let Congestion::Initial { config, max_chunk_size } = &self.congestion else { return };
        let controller = begin(config, (*max_chunk_size).into(), self.address.is_ipv6(), self.seed);
        self.congestion = Congestion::running(config, controller);
    }

    /// Returns the controller and the loss recovery state, or `None` if no data was sent yet.
    #[inline]
    pub(super) fn begun(&mut self) -> Option<(&mut Algorithm, Option<&mut LossControl>)> {
        match &mut self.congestion {
            Congestion::Running { controller, loss_control } => {
                Some((controller, loss_control.as_deref_mut()))
            }
            Congestion::Initial { .. } => None,
        }
    }

    /// Returns the state of the loss recovery methods that RFC 9260 §7.2 does not define. Returns `None` if none is
    /// configured, or before data is sent.
    #[inline(always)]
    pub(super) fn loss_control(&self) -> Option<&LossControl> {
        match &self.congestion {
            Congestion::Running { loss_control, .. } => loss_control.as_deref(),
            Congestion::Initial { .. } => None,
        }
    }

    /// Like [`loss_control`](Self::loss_control), but returns a mutable reference.
    #[inline(always)]
    pub(super) fn loss_control_mut(&mut self) -> Option<&mut LossControl> {
        self.begun()?.1
    }

    /// Returns the congestion window in bytes.
    #[inline(always)]
    pub(crate) fn window(&self) -> u64 {
        match &self.congestion {
            Congestion::Running { controller, .. } => controller.window(),
            Congestion::Initial { config, max_chunk_size } => {
                self.initial_params(config, *max_chunk_size).initial_window
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn initial_params(&self, config: &Config, max_chunk_size: u32) -> InitialParams {
        params(config, max_chunk_size.into(), self.address.is_ipv6(), self.seed)
    }

    /// Returns the slow-start threshold in bytes.
    #[inline]
    pub(super) fn threshold(&self) -> u64 {
        match &self.congestion {
            Congestion::Running { controller, .. } => controller.ssthresh(),
            Congestion::Initial { config, max_chunk_size } => {
                self.initial_params(config, *max_chunk_size).initial_ssthresh
            }
        }
    }

    /// Returns whether the path uses loss recovery beyond RFC 9260 §7.2, or will use it after the first data is sent.
    pub(crate) fn is_controlled(&self) -> bool {
        match &self.congestion {
            Congestion::Running { loss_control, .. } => loss_control.is_some(),
            Congestion::Initial { config, .. } => {
                LossControl::is_wanted(config, config.pacing || config.cc == Choice::Bbr)
            }
        }
    }

    /// Returns whether the controller needs a report of each SACK and of each loss found by the loss timer (BBR does).
    #[inline]
    pub(crate) fn wants_reports(&self) -> bool {
        match &self.congestion {
            Congestion::Running { controller, loss_control } => {
                loss_control.is_some() && controller.wants_reports()
            }
            Congestion::Initial { config, .. } => config.cc == Choice::Bbr,
        }
    }
}

/// Creates the controller. `max_chunk_size` is the size of the largest DATA chunk in bytes. `seed` seeds the
/// controller's random numbers.
fn begin(config: &Config, max_chunk_size: u64, v6: bool, seed: u64) -> Algorithm {
    let variant = |variant| AlgorithmConfig::Sctp(sctp::Config { variant, ..sctp::Config::default() });
    let kind = match config.cc {
        Choice::Rfc2960 => variant(Variant::Rfc2960),
        Choice::Rfc4960 => variant(Variant::Rfc4960),
        Choice::Rfc9260 => variant(Variant::Rfc9260),
        // RFC 9260 §7.2.3: after a loss, ssthresh is computed from cwnd, not from the bytes in flight. The other
        // settings are those of Linux's CUBIC, except for its mechanisms that count segments, which are off.
        Choice::Cubic => AlgorithmConfig::Cubic(cubic::Config {
            threshold_of_window: true,
            alpha_rises: false,
            ..cubic::Config::default()
        }),
        Choice::Bbr => AlgorithmConfig::Bbr,
    };
    Algorithm::new(kind, params(config, max_chunk_size, v6, seed))
}

fn params(config: &Config, max_chunk_size: u64, v6: bool, seed: u64) -> InitialParams {
    let initial = match config.iw {
        InitialWindow::Packets(n) => congestion::InitialWindow::Packets(n),
        InitialWindow::Rfc4960 => congestion::InitialWindow::Rfc4960,
        InitialWindow::Rfc9260 if v6 => congestion::InitialWindow::Rfc9260V6,
        InitialWindow::Rfc9260 => congestion::InitialWindow::Rfc9260V4,
    };
    InitialParams::new(max_chunk_size, initial).seeded(seed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::Instant;
    use std::mem::size_of;
    use std::net::SocketAddr;

    fn fresh(set: impl FnOnce(&mut Config)) -> Path {
        let mut config = Config::default();
        config.rack = true;
        set(&mut config);
        let at = |host| SocketAddr::from(([192, 0, 2, host], 0));
        Path::new(&Arc::new(config), at(1), at(2), 1500, Instant::ZERO)
    }

    fn has_begun(path: &Path) -> bool {
        matches!(path.congestion, Congestion::Running { .. })
    }

    /// A path has no controller before the first data, but reports the window that it will start with.
    #[test]
    fn congestion_control_begins_when_data_leaves() {
        let mut path = fresh(|_| ());
        let before = path.info((true, true));
        assert!(!has_begun(&path) && path.is_controlled() && path.loss_control().is_none());
        path.on_chunk_sent(Instant::ZERO, 0, 1000, false);
        assert!(has_begun(&path) && path.is_controlled() && path.loss_control().is_some());
        let after = path.info((true, true));
        assert_eq!((before.cwnd, before.ssthresh), (after.cwnd, after.ssthresh));
    }

    /// A change of the MTU before the first data does not change the window.
    #[test]
    fn an_mtu_change_before_the_first_data_keeps_the_window() {
        let mut path = fresh(|config| config.iw = InitialWindow::Packets(10));
        let before = path.window();
        path.on_too_big(1200);
        assert!(has_begun(&path));
        assert_eq!(path.window(), before);
        // Data is in flight when the local address changes, and stays in flight.
        let mut path = fresh(|_| ());
        path.on_chunk_sent(Instant::ZERO, 0, 1000, false);
        let config = Arc::new(Config::default());
        path.set_source(&config, SocketAddr::from(([192, 0, 2, 3], 0)), 1500);
        assert!(has_begun(&path) && path.flight() == 1000);
    }

    /// The size of the state of an association, and of a path, must stay below a limit, because servers have many
    /// associations. Before you raise the limit, move rarely used state into a `Box`.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn an_association_and_its_paths_stay_small() {
        let sizes = (size_of::<crate::association::Association>(), size_of::<Path>());
        assert!(sizes.0 <= 1520 && sizes.1 <= 376, "{sizes:?}");
    }
}
