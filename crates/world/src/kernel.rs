//! The TCP of the host's kernel, for worlds that have one.
//!
//! A virtual host has no kernel: its TCP is the engine of `anabranch-tcp`. A real host has one, and programs that must
//! interoperate with all peers use it. This module has only what a session needs; `transport::kernel` connects it to
//! sessions.

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
    /// A connection, which may not be established yet.
    type Connection: Connection;

    /// Listens at `at`. Up to `backlog` connections may wait to be accepted.
    ///
    /// # Errors
    /// `AddrInUse`, `PermissionDenied`, `AddrNotAvailable`, as reported by the host.
    fn listen_tcp(&self, at: SocketAddr, backlog: u32) -> io::Result<Self::Listening>;

    /// Starts to open a connection.
    ///
    /// # Errors
    /// The attempt could not start: no free port, or no address of that family.
    fn connect_tcp(&self, to: SocketAddr) -> io::Result<Self::Connection>;

    /// Returns the same world, with `options` for kernel sockets opened from now on.
    #[must_use]
    fn with_kernel(&self, options: KernelOptions) -> Self;
}

/// The protocol and the settings of kernel sockets.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KernelOptions {
    /// The protocol.
    pub protocol: KernelProtocol,
    /// The size of the send buffer in bytes. The kernel doubles it for its own needs and limits it.
    pub sndbuf: Option<usize>,
    /// The size of the receive buffer in bytes.
    pub rcvbuf: Option<usize>,
    /// The number of unsent bytes that the kernel buffers for TCP (`TCP_NOTSENT_LOWAT`). By default that is the whole
    /// send buffer, which stays full while the peer accepts nothing.
    pub unsent: Option<u32>,
    /// The kernel's name of the congestion control.
    pub congestion: Option<String>,
}

/// A connection-oriented protocol that the kernel may support.
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
    /// Returns whether the protocol's sockets accept a congestion control by name.
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
    /// The connections that it accepts.
    type Connection: Connection;

    /// Accepts the next connection.
    ///
    /// # Errors
    /// The error of the host. The socket may still be usable, for example after running out of file descriptors.
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Self::Connection>>;

    /// Returns the address that it listens on.
    fn local(&self) -> SocketAddr;
}

/// The counters that the host keeps for a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Segments retransmitted so far.
    pub retransmitted: u64,
    /// The congestion window in bytes.
    pub cwnd: u64,
    /// Smoothed round-trip time.
    pub srtt: Duration,
}

/// A connection of the host. Dropping it closes it gracefully if all received data was read.
pub trait Connection: 'static {
    /// Ready once the connection is established, or has failed.
    ///
    /// # Errors
    /// The reason why it failed.
    fn poll_connected(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Reads received data; 0 means the end of the stream.
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

    /// Returns the number of bytes written and not acknowledged by the peer; `None` if the host does not report it.
    fn unacknowledged(&self) -> Option<u64>;

    /// Returns whether the connection uses Multipath TCP (RFC 8684). It is plain TCP if Multipath TCP was requested and
    /// the peer does not support it. `None` if Multipath TCP was not requested or the host does not report it.
    fn is_multipath(&self) -> Option<bool>;

    /// Returns the host's counters of the connection; `None` if the host does not report them.
    fn counters(&self) -> Option<Counters>;

    /// Returns the host's name of the congestion control; `None` if the host does not report it.
    fn congestion(&self) -> Option<String>;

    /// Closes the sending direction.
    fn finish(&self);

    /// Makes a drop of the connection reset it.
    fn abort(&self);

    /// Returns the local address.
    fn local(&self) -> SocketAddr;

    /// Returns the remote address.
    fn remote(&self) -> SocketAddr;
}
