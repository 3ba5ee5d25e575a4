//! Congestion control that SCTP and TCP share.
//!
//! [`rtt`] estimates the round-trip time and the retransmission timeout. [`Controller`] is the congestion window as a
//! state machine, in bytes. SCTP and TCP call it in the same way, so that a comparison shows only differences between
//! the two protocols. [`Algorithm`] is an enum of the controllers:
//!
//! ```
//! use anabranch_congestion::{Algorithm, Controller, InitialWindow, AlgorithmConfig, InitialParams, cubic};
//!
//! let mss = 1_460;
//! let params = InitialParams::new(mss, InitialWindow::Rfc6928);
//! let window = Algorithm::new(AlgorithmConfig::Cubic(cubic::Config::default()), params);
//! assert_eq!((window.name(), window.window()), ("cubic", 10 * mss));
//! ```
//!
//! [`delivery_rate`] measures how fast a path delivers data, for [`bbr`].
//!
//! [`rack`] and [`tlp`] detect losses by time. [`prr`] and [`rate_halving`] limit the sending rate in a recovery.
//! [`hystart`] and [`hystart_linux`] end slow start before the queue overflows. [`pacer`] spreads packets over the
//! round-trip time. Each of these modules holds the state of one path. Both SCTP and TCP can use these modules.
//!
//! # How an engine drives a controller
//!
//! The engine reports each packet with data when it sends the packet (`on_sent`). If the controller sets a pacing rate
//! (`pacing_rate`), the engine's pacer obeys it. A controller that models the path (BBR, draft-ietf-ccwg-bbr) gets an
//! `AckReport` with each acknowledgement. The report has the numbers of delivered and of lost bytes, each with the send
//! time of the newest packet. `delivery_rate` computes rates from these reports and from its own record of sent
//! packets, so that the engines store no controller data with their packets.

pub mod bbr;
pub mod bic;
pub mod controller;
pub mod cubic;
pub mod delivery_rate;
pub mod hystart;
pub mod hystart_linux;
pub mod initial;
pub mod linux;
pub mod pacer;
pub mod prr;
pub mod rack;
pub mod rate_halving;
pub mod reno;
pub mod rtt;
pub mod sctp;
pub mod tlp;

mod algorithm;
mod slow_start;

pub use algorithm::{Algorithm, AlgorithmConfig, InitialParams};
pub use bbr::Bbr;
pub use bic::Bic;
pub use controller::{Acked, Controller};
pub use cubic::Cubic;
pub use delivery_rate::{AckReport, NewlyLost, RateSampler};
pub use hystart::{HyStart, SlowStart};
pub use hystart_linux::HyStartLinux;
pub use initial::InitialWindow;
pub use linux::Linux;
pub use pacer::Pacer;
pub use prr::Prr;
pub use rack::{Delivered, Rack, Verdict};
pub use rate_halving::RateHalving;
pub use reno::Reno;
pub use rtt::{RttConfig, RttEstimator};
pub use sctp::Sctp;
pub use slow_start::{Progress, SlowStartExit, SlowStartExitState};
pub use tlp::LossProbe;
