//! Traits for the TCP, Multipath TCP and SCTP sockets of a host's kernel.
//!
//! A virtual host has no kernel: its TCP is the engine of `anabranch-tcp`. On a real host, programs that must
//! interoperate with all peers use the kernel's TCP. `transport::kernel` builds its sessions on these traits, which
//! have only the operations that the sessions need.

use crate::World;
use anabranch_base::time::Duration;
use std::fmt;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::task::{Context, Poll};

/// A `World` whose host has a kernel with connection-oriented sockets.
pub trait KernelTcp: World {
    /// A listening socket.
    type Listening: ListeningSocket<Connection = Self::Connection>;
    /// A connection that is established or being opened.
    type Connection: Connection;

    /// Listens at the local address `at`. Up to `backlog` connections may wait to be accepted.
    ///
    /// # Errors
    /// `AddrInUse`, `PermissionDenied` or `AddrNotAvailable`, as reported by the host.
    fn listen_tcp(&self, at: SocketAddr, backlog: u32) -> io::Result<Self::Listening>;

    /// Starts to open a connection to `to`.
    ///
    /// # Errors
    /// No local port is free, or the host has no address with the IP version of `to`.
    fn connect_tcp(&self, to: SocketAddr) -> io::Result<Self::Connection>;

    /// Returns a clone of this `World` that applies `options` to the kernel sockets that it opens.
    #[must_use]
    fn with_kernel(&self, options: KernelOptions) -> Self;
}

/// The protocol and the settings of kernel sockets.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KernelOptions {
    /// The protocol.
    pub protocol: KernelProtocol,
    /// The size of the send buffer in bytes. The kernel limits this size to the host's maximum, and then doubles it to
    /// make room for its own data structures.
    pub sndbuf: Option<usize>,
    /// The size of the receive buffer in bytes.
    pub rcvbuf: Option<usize>,
    /// The largest number of unsent bytes that the kernel buffers for a TCP connection (`TCP_NOTSENT_LOWAT`). By
    /// default, unsent bytes may fill the send buffer, even while the peer accepts no data.
    pub unsent: Option<u32>,
    /// The kernel's name of the congestion control to use, for example `cubic`.
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
    /// Returns whether sockets of this protocol accept a congestion control by name.
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
pub trait ListeningSocket: 'static {
    /// The type of the accepted connections.
    type Connection: Connection;

    /// Accepts the next connection.
    ///
    /// # Errors
    /// The host reported an error. The socket may still be usable, for example after the process ran out of file
    /// descriptors.
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Self::Connection>>;

    /// Returns the address on which the socket listens.
    fn local(&self) -> SocketAddr;
}

/// Counters that the host's kernel keeps for one connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Segments retransmitted so far.
    pub retransmitted: u64,
    /// The congestion window in bytes.
    pub cwnd: u64,
    /// Smoothed round-trip time.
    pub srtt: Duration,
}

/// A connection of the host's kernel. Dropping the connection closes it gracefully if the program has read all received
/// data.
pub trait Connection: 'static {
    /// Ready once the connection is established or has failed.
    ///
    /// # Errors
    /// The reason why the connection failed.
    fn poll_connected(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Reads received data into `into` and returns the number of bytes read; 0 means the end of the stream.
    ///
    /// # Errors
    /// The connection is broken.
    fn poll_read(&self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>>;

    /// Writes some of the bytes of `from` and returns the number of bytes written.
    ///
    /// # Errors
    /// The connection is broken.
    fn poll_write(&self, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>>;

    /// Writes some of the bytes of the slices `from`, one slice after the other, and returns the number of bytes
    /// written.
    ///
    /// # Errors
    /// The connection is broken.
    fn poll_write_vectored(&self, cx: &mut Context<'_>, from: &[IoSlice<'_>]) -> Poll<io::Result<usize>>;

    /// Returns the number of bytes that were written and that the peer has not acknowledged; `None` if the host does
    /// not report it.
    fn unacknowledged(&self) -> Option<u64>;

    /// Returns whether the connection uses Multipath TCP (RFC 8684). The result is false if Multipath TCP was requested
    /// and the peer does not support it. Returns `None` if Multipath TCP was not requested or the host does not report
    /// it.
    fn is_multipath(&self) -> Option<bool>;

    /// Returns the counters that the host keeps for this connection; `None` if the host does not report them.
    fn counters(&self) -> Option<Counters>;

    /// Returns the name of the congestion control in use; `None` if the host does not report it.
    fn congestion(&self) -> Option<String>;

    /// Closes the sending direction of the connection.
    fn finish(&self);

    /// Changes what happens when the connection is dropped: it is reset instead of closed gracefully.
    fn abort(&self);

    /// Returns the local address.
    fn local(&self) -> SocketAddr;

    /// Returns the remote address.
    fn remote(&self) -> SocketAddr;
}
