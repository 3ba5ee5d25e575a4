//! Generates load on a transport and measures the results.
//!
//! | module | content |
//! |---|---|
//! | [`generator`] | the load generator: many HTTP objects at a rate, or as fast as they are
//! answered |
//! | [`bulk`] | a transfer of many bytes without HTTP |
//! | [`throughput`] | maximum throughput between two real ends, like iperf |
//! | [`messages`] | messages at a fixed rate, with the delay of each |

pub mod bulk;
pub mod generator;
mod idle_timer;
mod join;
pub mod messages;
pub mod throughput;
