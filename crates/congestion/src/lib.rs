//! What SCTP and TCP share when they decide how fast to send.
//!
//! [`rtt`] estimates the round trip and the retransmission timeout;
//! [`Controller`] is the congestion window as a state machine, in bytes, driven
//! by the same verbs from both transports, so that a comparison of the two
//! compares what differs between them and nothing else.

pub mod controller;
pub mod rtt;

pub use controller::{Acked, Controller};
pub use rtt::{RttConfig, RttEstimator};
