//! Throughput tests: a client and a server that send as fast as they can, in one direction or both.
//!
//! They work like iperf, over any transport, with messages of a given size on a given
//! number of streams in turn. One session carries the data and the reports of both ends,
//! so a test needs one port and no second connection. The receiving end counts, and
//! reports twice per second; both ends report their CPU time.
//!
//! - `frame`: the frames on the wire
//! - `session`: either end of a session
//! - `client`, `server`: the roles
//! - `report`: lines like iperf's, JSON, CSV

mod client;
mod frame;
pub mod report;
mod server;
mod session;

pub use client::{Failure, Interval, Outcome, PathProbe, Probe, Test};
pub use frame::{Received, Sent, Settings};
pub use server::{Event, serve};

use anabranch_base::time::Duration;

/// The parameters of a test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Whether the client sends.
    pub up: bool,
    /// Whether the server sends.
    pub down: bool,
    /// The size of a message in bytes.
    pub message: u32,
    /// The number of streams that are used in turn; a transport may have fewer.
    pub streams: u16,
    /// Whether messages are unordered.
    pub unordered: bool,
    /// The number of concurrent sessions.
    pub sessions: u16,
    /// How long to send, unless [`bytes`](Self::bytes) are given.
    pub span: Duration,
    /// Bytes to send in each direction over all sessions, in whole messages.
    pub bytes: Option<u64>,
    /// The time between two lines.
    pub interval: Duration,
    /// A test without progress for this time has failed.
    pub timeout: Duration,
}

/// The minimum size of a message in bytes.
pub const MIN_MESSAGE: u32 = frame::HEADER as u32;
/// The maximum size of a message in bytes.
pub const MAX_MESSAGE: u32 = frame::MAX_FRAME as u32;

/// Returns the CPU time of this process, in user mode and in the kernel; a world does not know it.
pub type Processor = fn() -> (Duration, Duration);
