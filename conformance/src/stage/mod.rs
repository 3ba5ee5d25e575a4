//! Stages: the set-up of a script that its language cannot express.
//!
//! `table` lists the stage of each script. `peer` answers for the stage's addresses while the script runs.

mod peer;
mod table;

pub(crate) use peer::{Peer, Turn};
pub use table::{Stage, Stages};
