//! How much goes through: a client and a server that send as fast as they can, one way or both.
//!
//! iperf's work, over any transport, with messages of a given size on as many
//! streams as are asked for, in turn. One session carries data and what both
//! ends say of it, so that a test needs one port and no second connection.
//! The end that receives counts, and tells the other every second; both tell
//! their processor time.
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

pub use client::{Failure, Interval, Outcome, Probe, Test};
pub use frame::{Received, Sent, Settings};
pub use server::{Event, serve};

use anabranch_base::time::Duration;

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The client sends.
    pub up: bool,
    /// The server sends.
    pub down: bool,
    /// Bytes of a message.
    pub message: u32,
    /// Streams that are used in turn; a transport may have fewer.
    pub streams: u16,
    /// Messages need not be delivered in order.
    pub unordered: bool,
    /// Sessions side by side.
    pub sessions: u16,
    /// Send for so long, unless [`bytes`](Self::bytes) are given.
    pub span: Duration,
    /// Send so much each way over all sessions, in whole messages.
    pub bytes: Option<u64>,
    /// Between two lines.
    pub interval: Duration,
    /// Where nothing moves for so long the test has failed.
    pub timeout: Duration,
}

/// The smallest message.
pub const MIN_MESSAGE: u32 = frame::HEADER as u32;
/// The largest message.
pub const MAX_MESSAGE: u32 = frame::MAX_FRAME as u32;

/// Tells the processor time of this process, in user mode and in the kernel: worlds have none.
pub type Processor = fn() -> (Duration, Duration);
