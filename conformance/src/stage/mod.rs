//! Stages: the parts of a test's set-up that the packetdrill script language cannot express.
//!
//! `table` reads the list of stages. While a script runs, `peer` answers packets to those addresses of the peer that
//! the script does not name.

mod peer;
mod table;

pub(crate) use peer::{Peer, StageError};
pub use table::{Stage, Stages};
