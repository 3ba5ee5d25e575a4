//! The foundation of all other crates: time, seeded random numbers, units, serial numbers, memory budgets, histograms,
//! the [`Engine`] interface, and the traces that engines record.
//!
//! This crate does not read a clock, open a socket or draw random numbers from the environment: the caller passes in
//! time and randomness as values. The only exception is `Rng::from_os` (feature `os-random`), which gets a key from the
//! operating system.
//!
//! # Parts
//!
//! - Batches carry packets: `SendBatch` out of an engine, `RecvBatch` into an engine. The buffer of a received packet
//!   is passed on with the packet (`PacketBytes`). On its fast path, an engine keeps the buffer until the payload is
//!   read. In exchange, the batch gets a buffer that the engine no longer needs.
//! - `knobs!` declares the settings of an engine as knobs. Each row has a field, its type, its default, the source of
//!   the default, its text form and its help. A profile is a named set of values. It is derived from a parent profile,
//!   and lists only the values that differ from the parent's.
//! - The feature `testing` adds `testing::transmit_all`, which collects all packets that an engine sends. The function
//!   is for tests that deliver packets themselves.
//! - The feature `os-random` adds `Rng::from_os`, for programs that communicate with real peers. `from_os` gets one key
//!   from the operating system. All numbers are computed from that key by HMAC-SHA-256 in counter mode.

pub mod batch;
pub mod budget;
pub mod cache;
mod counters;
pub mod engine;
pub mod histogram;
pub mod knobs;
mod packet;
mod pieces;
pub mod rng;
pub mod serial;
pub mod spelling;
#[cfg(feature = "testing")]
pub mod testing;
pub mod time;
pub mod trace;
pub mod units;

pub use batch::{PacketBytes, RecvBatch, SendBatch, WriteChecksum};
pub use budget::{Account, Budget};
pub use engine::Engine;
pub use histogram::Histogram;
pub use packet::{Ecn, Icmp, IcmpKind, Packet, PeerState};
pub use pieces::{MIN_SHARED, SharedBytes, SharedPieces};
pub use rng::Rng;
pub use time::Instant;
pub use units::{BitRate, Bytes, Ratio};
