//! Tests of the load generator and of bulk transfers, in virtual networks.

mod bulk;
mod load;
#[path = "../../http/tests/rig/mod.rs"]
mod rig;
mod throughput;
