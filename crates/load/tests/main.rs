//! Tests of the load generator and the bulk transfer, over both engines in virtual networks.

mod bulk;
mod load;
#[path = "../../http/tests/rig/mod.rs"]
mod rig;
mod throughput;
