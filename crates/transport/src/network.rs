//! Types for transports on real networks: what a program requires of a transport, how threads share a port, and where
//! connection logs are written.

use anabranch_base::time::Duration;
use anabranch_world::steering::Steering;
use std::any::Any;
use std::fmt;
use std::io::Write;
use std::net::IpAddr;
use std::sync::Arc;

/// What a program requires of a transport, which adapts its settings ([`Settings::suit`](crate::Settings::suit)). By
/// default, a program requires nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Needs {
    /// The number of streams that a session should have; `None` if the program works with any number.
    pub streams: Option<StreamNeed>,
    /// Whether the program cancels single exchanges while their session continues.
    pub cancels: bool,
    /// Whether the program must notice the death of its peer even while the program only receives data.
    pub detects_dead_peers: bool,
    /// Whether the data of several users of one session must be sent in turns.
    pub fair: bool,
    /// The number of unsent bytes that a kernel may buffer for a session; `None` for the kernel's default.
    pub unsent: Option<u32>,
}

/// The number of streams that a program needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamNeed {
    /// A server grants this number of streams to each session, and no more.
    Grant(u16),
    /// A client uses this number of streams at the same time, so each session needs at least this number.
    AtLeast(u16),
}

/// How several threads share a port or an IP protocol: which thread gets a packet, and the identity of each thread.
#[derive(Debug)]
pub struct Sharing {
    /// Assigns packets to threads.
    pub steering: Arc<dyn Steering>,
    /// One entry for each thread, in the order of the threads.
    pub members: Vec<Member>,
}

/// The identity of one of the threads that share a port. The transport chooses the type of the content; other code does
/// not know it.
#[derive(Clone)]
pub struct Member(pub Arc<dyn Any + Send + Sync>);

impl Member {
    /// Returns what the transport stored for this thread, if it has type `T`.
    #[must_use]
    pub fn content<T: Clone + 'static>(&self) -> Option<T> {
        self.0.downcast_ref::<T>().cloned()
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Member").finish_non_exhaustive()
    }
}

/// Supplies the outputs for the logs of connections.
pub trait Logs: Send + Sync {
    /// Opens the output for the log of a connection. `name` is the file name. Returns `None` if no log is wanted or the
    /// output cannot be created.
    fn begin(&self, name: &str) -> Option<Box<dyn Write + Send>>;
}

/// The state of a session's loss recovery and congestion control.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Figures {
    /// The number of segments, chunks or packets that were retransmitted so far.
    pub retransmitted: u64,
    /// The congestion window in bytes, on the path in use.
    pub cwnd: u64,
    /// The smoothed round-trip time of the path in use; 0 before the first measurement.
    pub srtt: Duration,
    /// Bytes that the transport counts as unacknowledged, although the peer has reported them as received out of order.
    /// The peer may still drop them.
    pub gap_acknowledged: u64,
    /// All paths that the session has had, including removed paths. Empty if the transport does not distinguish paths.
    pub paths: Vec<PathFigures>,
}

/// The state of one path of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathFigures {
    /// The destination address.
    pub address: IpAddr,
    /// The path's state, as the results name it: `active`, `potentially-failed`, `failed` or `unconfirmed`.
    pub state: &'static str,
    /// Whether new data is sent on this path.
    pub current: bool,
    /// The congestion window in bytes.
    pub cwnd: u64,
    /// The number of bytes that the peer has acknowledged on this path.
    pub acknowledged: u64,
    /// The number of bytes of user data that have arrived on this path.
    pub received: u64,
    /// Whether the path was removed.
    pub removed: bool,
}
