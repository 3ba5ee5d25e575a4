//! The ground every other crate stands on: time, seeded randomness, units,
//! serial numbers, memory budgets, the [`Engine`] seam and the trace an engine can keep.
//!
//! Nothing here reads a clock, opens a socket, or draws ambient randomness:
//! time and randomness are values that the caller passes in. (With the feature `os-random`
//! there is one call by which the caller gets a key from the operating system, `Rng::from_os`.)

pub mod batch;
pub mod budget;
pub mod cache;
pub mod engine;
pub mod knobs;
pub mod rng;
pub mod serial;
pub mod spelling;
#[cfg(feature = "testing")]
pub mod testing;
pub mod time;
pub mod trace;
pub mod units;

pub use batch::{PacketBytes, RecvBatch, SendBatch};
pub use budget::{Account, Budget};
pub use engine::{Ecn, Engine, Icmp, IcmpKind, Packet, PeerState};
pub use rng::Rng;
pub use time::Instant;
pub use units::{BitRate, Bytes, Ratio};
