//! The course of a run: congestion windows, losses and queueing delays over time. They are collected only if packets
//! are captured: the run is then repeated to collect them and to capture its packets.

use serde::{Deserialize, Serialize};

/// Measurements over the time of one run, taken in the network and at the sender of the data. A packet capture does not
/// contain them.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Course {
    /// For each change of a congestion window: the time in nanoseconds on the run's clock, the connection, and the new
    /// window in bytes. The connection has the same number as in traces, for example the port of the side that opened
    /// it.
    pub windows: Vec<(u64, u64, u64)>,
    /// Packets that the network lost.
    pub lost: Vec<Loss>,
    /// For each packet: its arrival time in nanoseconds on the run's clock, its path (counted from 0), and its queueing
    /// delay in nanoseconds. The queueing delay is relative to the fastest packet of the same size.
    pub waits: Vec<(u64, usize, u64)>,
}

/// A packet that the network lost.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Loss {
    /// The time of the loss, in nanoseconds of the run's clock.
    pub at_ns: u64,
    /// The path, counted from 0.
    pub path: usize,
    /// Whether a queue dropped the packet: either the queue was full, or active queue management dropped the packet.
    pub by_queue: bool,
}
