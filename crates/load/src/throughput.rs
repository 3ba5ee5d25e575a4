//! Throughput tests: a client and a server that send as fast as they can, in one direction or in both.
//!
//! The tests work like iperf, but over any transport, with messages of a given size on several streams in turn. A
//! session carries the data and the reports of both ends, so a test needs one port and no control connection. The
//! receiving end counts the data, and sends a report twice per second. Both ends report their CPU time.
//!
//! - `frame`: the frames that both ends send
//! - `session`: one end of a session, for client and server
//! - `client`, `server`: the two roles
//! - `paths`: the server's report on its network paths
//! - `report`: the result as lines in the style of iperf, as JSON, or as CSV

mod client;
mod frame;
pub mod paths;
pub mod report;
mod server;
mod session;

pub use client::{Failure, Interval, Outcome, Test};
pub use frame::{Received, SenderReport, Settings};
pub use server::{Event, serve};

use anabranch_base::time::Duration;

/// The parameters of a throughput test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Whether the client sends data.
    pub up: bool,
    /// Whether the server sends data.
    pub down: bool,
    /// The size of a message in bytes.
    pub message: u32,
    /// The number of streams that are used in turn; a transport may have fewer.
    pub streams: u16,
    /// Whether messages are unordered.
    pub unordered: bool,
    /// The number of concurrent sessions.
    pub sessions: u16,
    /// The time for which data is sent, unless [`bytes`](Self::bytes) is given.
    pub span: Duration,
    /// The number of bytes to send in each direction over all sessions together, rounded up to whole messages. With
    /// `None`, data is sent for the time `span`.
    pub bytes: Option<u64>,
    /// How long the test waits, after the time `span`, for the send buffer to drain. If data is still being
    /// acknowledged after this wait, the test ends nevertheless. The field has no effect if `bytes` is given.
    pub drain: Duration,
    /// The length of the intervals that are reported.
    pub interval: Duration,
    /// The time without progress after which a test has failed.
    pub timeout: Duration,
}

/// The minimum size of a message in bytes.
pub const MIN_MESSAGE: u32 = frame::HEADER as u32;
/// The maximum size of a message in bytes.
pub const MAX_MESSAGE: u32 = frame::MAX_FRAME as u32;

/// A function that returns the CPU time of this process, in user mode and in the kernel. A `World` cannot provide it.
pub type CpuClock = fn() -> (Duration, Duration);
