//! Foundation of all other crates: time, seeded randomness, units, serial numbers, memory budgets, the [`Engine`]
//! interface, and the traces that engines record.
//!
//! Nothing here reads a clock, opens a socket or draws ambient randomness: the caller passes in time and randomness as
//! values. The one exception is `Rng::from_os` (feature `os-random`), which gets a key from the operating system.

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
