//! Two endpoints over an in-memory network, and the ladder of what they said
//! (feature `testing`).
//!
//! [`Pair`] is what every scenario of this crate is written against: it delays,
//! loses, repeats, reorders and damages packets as a script or a seed says,
//! moves bytes for the application, and draws what happens. [`storm`] runs it
//! by seed; [`flow`] is one long transfer without any of that; [`sent`] and [`packets`] are for tests that
//! move packets themselves.

mod flow;
mod pair;
mod storm;

pub use anabranch_base::testing::{Sent, packets, sent};
pub use flow::{Flow, Link, flow};
pub use pair::{Check, Fate, Judge, LEFT, Pair, RIGHT, Side};
pub use storm::{Storm, storm};
