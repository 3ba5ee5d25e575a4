//! Two endpoints connected by an in-memory network, and a ladder diagram of their packets (feature `testing`).
//!
//! All scenarios of this crate use [`Pair`]. A pair delays, loses, duplicates, reorders and corrupts packets as a
//! script or a seed demands. It also writes and reads data for the applications, and prints the packets as a ladder
//! diagram. [`storm`] runs a pair with random impairments from a seed; [`flow`] is one long transfer without
//! impairments. [`transmit_all`] and [`transmit_all_bytes`] are for tests that deliver packets themselves.

mod flow;
mod pair;
mod storm;

pub use anabranch_base::testing::{TransmittedPacket, transmit_all, transmit_all_bytes};
pub use flow::{Flow, Link, flow};
pub use pair::{Check, Fate, Judge, LEFT, Pair, RIGHT, Side};
pub use storm::{Storm, storm};
