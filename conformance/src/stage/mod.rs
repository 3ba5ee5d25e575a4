//! Stages: what is set up around a script because its language has no word for it.
//!
//! `table` says which script has which, `peer` is what a stage does while the
//! script runs.

mod peer;
mod table;

pub(crate) use peer::{Peer, Turn};
pub use table::{Stage, Stages};
