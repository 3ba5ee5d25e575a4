//! The course of a run: congestion windows, losses and queueing delays over time. They are collected when a run is
//! repeated in order to capture its packets.

use serde::{Deserialize, Serialize};

/// Measurements over the time of one run, taken in the network and at the sender of the data. A packet capture does not
/// contain them.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Course {
    /// The changes of congestion windows: the time, the connection, and the new window in bytes.
    pub windows: Vec<(u64, u64, u64)>,
    /// Packets that the network lost.
    pub lost: Vec<Loss>,
    /// The queueing delay of each packet: its arrival time, its path (counted from 0), and its extra delay. The extra
    /// delay is in nanoseconds and relative to the fastest packet of the same size.
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
