//! Generates load on a transport, and measures the results.
//!
//! | module | content |
//! |---|---|
//! | [`generator`] | the load generator: many HTTP objects at a rate, or as fast as possible |
//! | [`bulk`] | a transfer of many bytes without HTTP |
//! | [`throughput`] | maximum throughput between two real hosts, like iperf |
//! | [`messages`] | messages at a fixed rate, with the delay of each |
//!
//! In an open loop, latency is measured from the planned send time, even if the actual send time is later.

pub mod bulk;
pub mod generator;
mod idle_timer;
mod join;
pub mod messages;
mod server;
pub mod throughput;
