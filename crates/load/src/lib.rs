//! Load on a transport, and what came of it.
//!
//! | module | owns |
//! |---|---|
//! | [`generator`] | the load generator: many objects of HTTP at a rate, or as fast as they come |
//! | [`bulk`] | a transfer of many bytes without HTTP |
//! | [`throughput`] | as much as goes through, between two real ends: iperf's work |
//! | [`messages`] | messages at a fixed rate, each with its own delay |
//!
//! Laboratory and command line run the same code. In an open loop, latency counts from the planned instant, whatever the instant of sending.

pub mod bulk;
pub mod generator;
mod idle_timer;
mod join;
pub mod messages;
pub mod throughput;
