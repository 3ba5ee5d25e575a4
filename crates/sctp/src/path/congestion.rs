//! Which controller a path gets, and with which first window.
//!
//! Windows and flights count DATA chunks with their headers, as PMDCS does
//! (RFC 9260 §7.2.1); with its 1468 bytes on a 1500-byte path the first window
//! of 4404 bytes is three full packets. The older RFCs count in path MTUs.

use crate::config::{Algorithm as Choice, Config, InitialWindow};
use anabranch_congestion as congestion;
use congestion::sctp::Variant;
use congestion::{Algorithm, Kind, Params, cubic, sctp};

/// A new controller for packets whose chunks take `chunk` bytes at most; `seed`: its chances.
pub(super) fn begin(config: &Config, chunk: u64, v6: bool, seed: u64) -> Algorithm {
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
    let initial = match config.iw {
        InitialWindow::Packets(n) => congestion::InitialWindow::Packets(n),
        InitialWindow::Rfc4960 => congestion::InitialWindow::Rfc4960,
        InitialWindow::Rfc9260 if v6 => congestion::InitialWindow::Rfc9260V6,
        InitialWindow::Rfc9260 => congestion::InitialWindow::Rfc9260V4,
    };
    Algorithm::new(kind, Params::new(chunk, initial).seeded(seed))
}
