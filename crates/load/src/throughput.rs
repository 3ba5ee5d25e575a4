//! Throughput tests: a client and a server that send as fast as they can, in one direction or both.
//!
//! They do what iperf does, over any transport, with messages of a given size on
//! a given number of streams in turn. One session carries the data and the
//! reports of both ends, so that a test needs one port and no second connection.
//! The receiving end counts, and reports twice a second; both report their
//! processor time.
//!
//! - `frame`: what is on the wire
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

/// What a test does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Whether the client sends.
    pub up: bool,
    /// Whether the server sends.
    pub down: bool,
    /// Bytes of a message.
    pub message: u32,
    /// Streams that are used in turn; a transport may have fewer.
    pub streams: u16,
    /// Whether messages are unordered.
    pub unordered: bool,
    /// Sessions at the same time.
    pub sessions: u16,
    /// How long to send, unless [`bytes`](Self::bytes) are given.
    pub span: Duration,
    /// Bytes to send in each direction over all sessions, in whole messages.
    pub bytes: Option<u64>,
    /// Time between two lines.
    pub interval: Duration,
    /// A test without progress for so long has failed.
    pub timeout: Duration,
}

/// The smallest message.
pub const MIN_MESSAGE: u32 = frame::HEADER as u32;
/// The largest message.
pub const MAX_MESSAGE: u32 = frame::MAX_FRAME as u32;

/// Returns the processor time of this process, in user mode and in the kernel; a world does not know it.
pub type Processor = fn() -> (Duration, Duration);
