//! What SCTP and TCP share when they decide how fast to send.
//!
//! [`rtt`] estimates the round trip and the retransmission timeout;
//! [`Controller`] is the congestion window as a state machine, in bytes, driven
//! by the same verbs from both transports, so that a comparison of the two
//! compares what differs between them and nothing else. [`Algorithm`] is the
//! closed set of controllers, for a transport that wants one without a box:
//!
//! ```
//! use anabranch_congestion::{Algorithm, Controller, InitialWindow, Kind, Params, cubic};
//!
//! let mss = 1_460;
//! let params = Params::new(mss, InitialWindow::Rfc6928);
//! let window = Algorithm::new(Kind::Cubic(cubic::Config::default()), params);
//! assert_eq!((window.name(), window.window()), ("cubic", 10 * mss));
//! ```
//!
//! [`delivery_rate`] measures how fast a path delivers, for [`bbr`].
//!
//! [`rack`] and [`tlp`] find losses by time, [`prr`] meters what leaves in a
//! recovery, [`hystart`] and [`hystart_linux`] end slow start before the queue overflows, [`pacer`]
//! spreads packets over the round trip: each is one path's state, driven by
//! whichever transport has it.
//!
//! # How an engine drives a controller
//!
//! A controller sees each packet of data as it leaves (`on_sent`), and may set a rate of its own (`pacing_rate`), which the engines' pacer
//! obeys. A controller that models the path (BBR, draft-ietf-ccwg-bbr) gets a `Report` with each acknowledgement. It says what arrived,
//! what was lost, and when the newest packet of each left. `delivery_rate` makes rates of that from its own record of sent packets. So the engines
//! keep nothing with their packets for it, and other controllers cost nothing.

pub mod bbr;
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
pub mod reno;
pub mod rtt;
pub mod sctp;
pub mod tlp;

mod algorithm;
mod slow_start;

pub use algorithm::{Algorithm, Kind, Params};
pub use bbr::Bbr;
pub use controller::{Acked, Controller};
pub use cubic::Cubic;
pub use delivery_rate::{Lost, RateSampler, Report};
pub use hystart::{HyStart, SlowStart};
pub use hystart_linux::HyStartLinux;
pub use initial::InitialWindow;
pub use linux::Linux;
pub use pacer::Pacer;
pub use prr::Prr;
pub use rack::{Delivered, Rack, Verdict};
pub use reno::Reno;
pub use rtt::{RttConfig, RttEstimator};
pub use sctp::Sctp;
pub use slow_start::{Progress, SlowStartEnd, SlowStartExit};
pub use tlp::LossProbe;
