//! Two endpoints connected by an in-memory network, and a ladder diagram of their packets (feature `testing`).
//!
//! All scenarios of this crate use [`Pair`]. It delays, loses, duplicates, reorders and corrupts packets as a script or
//! a seed says. It also moves bytes for the application and draws the packets. [`storm`] runs it with random trouble
//! from a seed; [`flow`] is one long transfer without trouble. [`sent`] and [`packets`] are for tests that move packets
//! themselves.

mod flow;
mod pair;
mod storm;

pub use anabranch_base::testing::{Sent, packets, sent};
pub use flow::{Flow, Link, flow};
pub use pair::{Check, Fate, Judge, LEFT, Pair, RIGHT, Side};
pub use storm::{Storm, storm};
