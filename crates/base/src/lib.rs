//! Foundation of all other crates: time, seeded randomness, units, serial numbers, memory budgets, the [`Engine`]
//! interface, and the traces that engines record.
//!
//! Nothing here reads a clock, opens a socket or draws ambient randomness: the caller passes in time and randomness as
//! values. The one exception is `Rng::from_os` (feature `os-random`), which gets a key from the operating system.
//!
//! # Parts
//!
//! - Batches carry packets: `SendBatch` out of an engine, `RecvBatch` into one. The buffer of a received packet is handed down with it
//!   (`PacketBytes`). An engine on its fast path keeps the buffer until the payload is read, and gives its last one in exchange.
//! - `knobs!` turns the settings of an engine into knobs, one row each: field, type, default with its source, text form, help.
//!   A profile states only its differences from its parent.
//! - The feature `testing` adds `testing::sent`, which takes out all that an engine sends, for tests that move packets themselves.
//! - The feature `os-random` adds `Rng::from_os`, for programs that meet real peers. It asks the operating system for one key, and makes
//!   all numbers from it by HMAC-SHA-256 in counter mode.

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
