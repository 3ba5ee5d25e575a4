//! The host's own TCP, for worlds that have one.
//!
//! A virtual host has no kernel: its TCP is the engine of `anabranch-tcp` over
//! packets. A real one has, and programs that should interoperate with
//! everybody use it. What is here is what a session needs and no more; it is
//! bound to sessions in `transport::kernel`.

use crate::World;
use anabranch_base::time::Duration;
use std::fmt;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::task::{Context, Poll};

/// A world whose host has a TCP of its own.
pub trait KernelTcp: World {
    /// A listening socket.
    type Listening: Listening<Connection = Self::Connection>;
    /// A connection, perhaps not yet established.
    type Connection: Connection;

    /// Listens at `at`; `backlog` connections may wait to be taken.
    ///
    /// # Errors
    /// `AddrInUse`, `PermissionDenied`, `AddrNotAvailable`, as the host says.
    fn listen_tcp(&self, at: SocketAddr, backlog: u32) -> io::Result<Self::Listening>;

    /// Begins a connection.
    ///
    /// # Errors
    /// Nothing could be begun: no port, no address of that family.
    fn connect_tcp(&self, to: SocketAddr) -> io::Result<Self::Connection>;

    /// The same world with other sockets of the kernel's from now on.
    #[must_use]
    fn with_kernel(&self, options: KernelOptions) -> Self;
}

/// Which of the kernel's protocols, and how its sockets are set.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KernelOptions {
    /// The protocol.
    pub protocol: KernelProtocol,
    /// Send buffer, bytes; the kernel doubles it for its own needs, and has a limit.
    pub sndbuf: Option<usize>,
    /// Receive buffer, bytes.
    pub rcvbuf: Option<usize>,
    /// Bytes that the kernel takes of TCP beyond those that are on their way (`TCP_NOTSENT_LOWAT`): else as many as its send
    /// buffer, which a peer that takes nothing leaves full.
    pub unsent: Option<u32>,
    /// Congestion control, by the kernel's name.
    pub congestion: Option<String>,
}

/// A protocol of connections that the kernel may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum KernelProtocol {
    /// TCP.
    #[default]
    Tcp,
    /// Multipath TCP (RFC 8684).
    Mptcp,
    /// SCTP.
    Sctp,
}

impl KernelProtocol {
    /// Whether its sockets take a congestion control by its name.
    #[must_use]
    pub const fn has_congestion_names(self) -> bool {
        !matches!(self, Self::Sctp)
    }
}

impl fmt::Display for KernelProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "TCP",
            Self::Mptcp => "MPTCP",
            Self::Sctp => "SCTP",
        })
    }
}

/// A listening socket of the host.
pub trait Listening: 'static {
    /// What it takes in.
    type Connection: Connection;

    /// The next connection.
    ///
    /// # Errors
    /// What the host says; the socket may still be of use (out of file descriptors).
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Self::Connection>>;

    /// Where it listens.
    fn local(&self) -> SocketAddr;
}

/// What a host counts of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Segments retransmitted so far.
    pub retransmitted: u64,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Smoothed round-trip time.
    pub srtt: Duration,
}

/// A connection of the host. Dropping it closes it in good order where all that came was read.
pub trait Connection: 'static {
    /// Ready once the connection is established, or has failed.
    ///
    /// # Errors
    /// Why it failed.
    fn poll_connected(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Reads what has arrived; 0 is the end.
    ///
    /// # Errors
    /// The connection is broken.
    fn poll_read(&self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>>;

    /// Writes some of `from`.
    ///
    /// # Errors
    /// The connection is broken.
    fn poll_write(&self, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>>;

    /// Writes some of the slices, one after the other.
    ///
    /// # Errors
    /// The connection is broken.
    fn poll_write_vectored(&self, cx: &mut Context<'_>, from: &[IoSlice<'_>]) -> Poll<io::Result<usize>>;

    /// Bytes that were written and that the peer has not acknowledged; `None` where the host does not tell.
    fn unacknowledged(&self) -> Option<u64>;

    /// Whether it is Multipath TCP's (RFC 8684): where that was asked for and the peer has none, it is TCP's. `None` where
    /// it was not asked for, or the host does not tell.
    fn is_multipath(&self) -> Option<bool>;

    /// What the host counts of it; `None` where it does not tell.
    fn counters(&self) -> Option<Counters>;

    /// Its congestion control, by the host's name; `None` where it does not tell.
    fn congestion(&self) -> Option<String>;

    /// Nothing more will be written.
    fn finish(&self);

    /// Has a drop of the connection reset it.
    fn abort(&self);

    /// Our end.
    fn local(&self) -> SocketAddr;

    /// The other end.
    fn remote(&self) -> SocketAddr;
}
