//! Stages: parts of the set-up of a script that the script language cannot express.
//!
//! `table` lists the stage of each script. `peer` answers for the additional addresses of the peer while the script
//! runs.

mod peer;
mod table;

pub(crate) use peer::{Peer, Turn};
pub use table::{Stage, Stages};
