//! Which controller a path gets, when, and with which first window.
//!
//! Windows and flights count DATA chunks with their headers, as PMDCS does
//! (RFC 9260 §7.2.1); with its 1468 bytes on a 1500-byte path the first window
//! of 4404 bytes is three full packets. The older RFCs count in path MTUs.

use super::Path;
use super::loss_control::LossControl;
use crate::config::{Algorithm as Choice, Config, InitialWindow};
use anabranch_congestion as congestion;
use congestion::sctp::Variant;
use congestion::{Algorithm, Controller, Kind, Params, cubic, sctp};
use std::sync::Arc;

/// The congestion control of a path. Most second paths never carry data: they have none until they do.
#[derive(Debug)]
pub(super) enum Congestion {
    /// Nothing had to be decided yet: by these settings it will begin, with chunks of so many bytes.
    Initial { config: Arc<Config>, chunk: u32 },
    /// It runs, with loss recovery beyond RFC 9260 §7.2 where there is any.
    Running { controller: Algorithm, loss_control: Option<Box<LossControl>> },
}

impl Congestion {
    /// `controller` decides from here on, at its own pace if it gives one.
    pub(super) fn running(config: &Config, controller: Algorithm) -> Self {
        let paced = config.pacing || controller.pacing_rate().is_some();
        Self::Running { controller, loss_control: LossControl::new(config, paced) }
    }
}

impl Path {
    /// What decides, from now on at the latest.
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
        let Congestion::Initial { config, chunk } = &self.congestion else { return };
        let controller = begin(config, (*chunk).into(), self.address.is_ipv6(), self.seed);
        self.congestion = Congestion::running(config, controller);
    }

    /// What decides, if anything was sent.
    #[inline]
    pub(super) fn begun(&mut self) -> Option<(&mut Algorithm, Option<&mut LossControl>)> {
        match &mut self.congestion {
            Congestion::Running { controller, loss_control } => {
                Some((controller, loss_control.as_deref_mut()))
            }
            Congestion::Initial { .. } => None,
        }
    }

    /// Loss recovery beyond RFC 9260 §7.2, if anything was sent.
    #[inline(always)]
    pub(super) fn loss_control(&self) -> Option<&LossControl> {
        match &self.congestion {
            Congestion::Running { loss_control, .. } => loss_control.as_deref(),
            Congestion::Initial { .. } => None,
        }
    }

    /// The same, to be changed.
    #[inline(always)]
    pub(super) fn loss_control_mut(&mut self) -> Option<&mut LossControl> {
        self.begun()?.1
    }

    /// The congestion window.
    #[inline(always)]
    pub(crate) fn window(&self) -> u64 {
        match &self.congestion {
            Congestion::Running { controller, .. } => controller.window(),
            Congestion::Initial { config, chunk } => self.first(config, *chunk).initial_window,
        }
    }

    #[cold]
    #[inline(never)]
    fn first(&self, config: &Config, chunk: u32) -> Params {
        params(config, chunk.into(), self.address.is_ipv6(), self.seed)
    }

    /// The slow-start threshold.
    #[inline]
    pub(super) fn threshold(&self) -> u64 {
        match &self.congestion {
            Congestion::Running { controller, .. } => controller.ssthresh(),
            Congestion::Initial { config, chunk } => self.first(config, *chunk).initial_ssthresh,
        }
    }

    /// More than RFC 9260 §7.2 has a say.
    pub(crate) fn is_controlled(&self) -> bool {
        match &self.congestion {
            Congestion::Running { loss_control, .. } => loss_control.is_some(),
            Congestion::Initial { config, .. } => {
                LossControl::is_wanted(config, config.pacing || config.cc == Choice::Bbr)
            }
        }
    }

    /// Its controller wants to know what each event shows.
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

/// A new controller for packets whose chunks take `chunk` bytes at most; `seed`: its chances.
fn begin(config: &Config, chunk: u64, v6: bool, seed: u64) -> Algorithm {
    let variant = |variant| Kind::Sctp(sctp::Config { variant, ..sctp::Config::default() });
    let kind = match config.cc {
        Choice::Rfc2960 => variant(Variant::Rfc2960),
        Choice::Rfc4960 => variant(Variant::Rfc4960),
        Choice::Rfc9260 => variant(Variant::Rfc9260),
        // RFC 9260 §7.2.3: the threshold is a share of cwnd; and of Linux's CUBIC what does not count segments.
        Choice::Cubic => Kind::Cubic(cubic::Config {
            threshold_of_window: true,
            alpha_rises: false,
            ..cubic::Config::default()
        }),
        Choice::Bbr => Kind::Bbr,
    };
    Algorithm::new(kind, params(config, chunk, v6, seed))
}

fn params(config: &Config, chunk: u64, v6: bool, seed: u64) -> Params {
    let initial = match config.iw {
        InitialWindow::Packets(n) => congestion::InitialWindow::Packets(n),
        InitialWindow::Rfc4960 => congestion::InitialWindow::Rfc4960,
        InitialWindow::Rfc9260 if v6 => congestion::InitialWindow::Rfc9260V6,
        InitialWindow::Rfc9260 => congestion::InitialWindow::Rfc9260V4,
    };
    Params::new(chunk, initial).seeded(seed)
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

    /// It costs nothing before, and says what it will begin with.
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

    /// What a change before the first data does to the window is not forgotten.
    #[test]
    fn it_begins_where_what_it_would_begin_with_is_no_longer_true() {
        let mut path = fresh(|config| config.iw = InitialWindow::Packets(10));
        let before = path.window();
        path.on_too_big(1200);
        assert!(has_begun(&path));
        assert_eq!(path.window(), before);
        // Data on its way is waited for from a new local address, too.
        let mut path = fresh(|_| ());
        path.on_chunk_sent(Instant::ZERO, 0, 1000, false);
        let config = Arc::new(Config::default());
        path.leave_from(&config, SocketAddr::from(([192, 0, 2, 3], 0)), 1500);
        assert!(has_begun(&path) && path.flight() == 1000);
    }

    /// Servers have many of them. Whoever needs more room than this looks first for what most never need.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn an_association_and_its_paths_stay_small() {
        let sizes = (size_of::<crate::association::Association>(), size_of::<Path>());
        assert!(sizes.0 <= 1520 && sizes.1 <= 376, "{sizes:?}");
    }
}
