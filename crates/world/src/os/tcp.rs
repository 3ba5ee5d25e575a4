//! The kernel's TCP, MPTCP and SCTP sockets. All of them are used like TCP sockets.
//!
//! A one-to-one style SCTP socket (RFC 6458 §4) is used like a TCP socket. All data goes on stream 0, and message
//! boundaries are ignored.

use super::OsWorld;
use crate::kernel::{Connection, Counters, KernelOptions, KernelProtocol, KernelTcp, ListeningSocket};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::task::{Context, Poll};
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream};

/// A listening socket of the kernel.
#[derive(Debug)]
pub struct OsListener {
    listener: TcpListener,
    local: SocketAddr,
    protocol: KernelProtocol,
}

/// A connection of the kernel.
#[derive(Debug)]
pub struct OsConnection {
    stream: TcpStream,
    local: SocketAddr,
    remote: SocketAddr,
    protocol: KernelProtocol,
}

impl KernelOptions {
    /// Checks whether the kernel provides a socket with these options for the IP version of `at`, in the network
    /// namespace of the calling thread.
    ///
    /// # Errors
    /// A one-line text that says which kind of socket the kernel does not provide, and why.
    pub fn check_supported(&self, at: SocketAddr) -> Result<(), String> {
        socket(at, self).map(drop).map_err(|why| {
            let set = self.congestion.as_ref().map_or_else(String::new, |name| format!(" (cc={name})"));
            format!("the kernel gives no {} socket{set}: {why}", self.protocol)
        })
    }
}

fn socket(at: SocketAddr, options: &KernelOptions) -> io::Result<Socket> {
    let protocol = match options.protocol {
        KernelProtocol::Tcp => Protocol::TCP,
        KernelProtocol::Mptcp => Protocol::from(nix::libc::IPPROTO_MPTCP),
        KernelProtocol::Sctp => Protocol::from(nix::libc::IPPROTO_SCTP),
    };
    let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(protocol))?;
    if at.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    if let Some(bytes) = options.sndbuf {
        socket.set_send_buffer_size(bytes)?;
    }
    if let Some(bytes) = options.rcvbuf {
        socket.set_recv_buffer_size(bytes)?;
    }
    if let Some(bytes) = options.unsent {
        socket.set_tcp_notsent_lowat(bytes)?;
    }
    // SCTP_NODELAY has the effect of TCP_NODELAY: no Nagle algorithm. Accepted connections inherit the option from the
    // listening socket.
    if options.protocol == KernelProtocol::Sctp {
        super::descriptor::disable_nagle(&socket)?;
    }
    if let Some(name) = &options.congestion {
        rustix::net::sockopt::set_tcp_congestion(&socket, name)?;
    }
    Ok(socket)
}

/// Returns whether the kernel's SCTP module is loaded. The kernel loads it when any program opens the first SCTP
/// socket. From then on the kernel handles all packets of protocol 132, and sends an ABORT in response to a packet that
/// matches no kernel socket (RFC 9260 §8.4).
#[must_use]
pub fn kernel_has_sctp() -> bool {
    let protocols = std::fs::read_to_string("/proc/net/protocols").unwrap_or_default();
    protocols.lines().any(|line| line.split_whitespace().next() == Some("SCTP"))
}

/// Listens at `at` and returns the socket, for [`OsWorld::take_listener`]. Several threads may each take a clone of the
/// socket and accept connections.
///
/// # Errors
/// The errors of [`KernelTcp::listen_tcp`].
pub fn listen_tcp(
    at: SocketAddr,
    backlog: u32,
    options: &KernelOptions,
) -> io::Result<std::net::TcpListener> {
    let socket = socket(at, options)?;
    // `SO_REUSEADDR` allows the bind while connections of an earlier process are in TIME-WAIT.
    socket.set_reuse_address(true)?;
    socket.bind(&at.into())?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    Ok(socket.into())
}

impl OsWorld {
    /// Makes this `OsWorld` accept connections from the socket `listening`.
    ///
    /// # Errors
    /// The event loop cannot watch the socket.
    pub fn take_listener(&self, listening: std::net::TcpListener) -> io::Result<OsListener> {
        let listener = TcpListener::from_std(listening)?;
        let local = listener.local_addr()?;
        Ok(OsListener { listener, local, protocol: self.kernel_options().protocol })
    }
}

impl KernelTcp for OsWorld {
    type Listening = OsListener;
    type Connection = OsConnection;

    fn listen_tcp(&self, at: SocketAddr, backlog: u32) -> io::Result<OsListener> {
        self.take_listener(listen_tcp(at, backlog, self.kernel_options())?)
    }

    fn connect_tcp(&self, to: SocketAddr) -> io::Result<OsConnection> {
        let socket = socket(to, self.kernel_options())?;
        let under_way = Some(nix::libc::EINPROGRESS);
        match socket.connect(&to.into()) {
            Err(error) if error.raw_os_error() != under_way => return Err(error),
            _ => {}
        }
        OsConnection::new(TcpStream::from_std(socket.into())?, to, self.kernel_options().protocol)
    }

    fn with_kernel(&self, options: KernelOptions) -> Self {
        Self::with_kernel(self, options)
    }
}

impl OsConnection {
    fn new(stream: TcpStream, remote: SocketAddr, protocol: KernelProtocol) -> io::Result<Self> {
        // Requests and responses are written as a whole. Without TCP_NODELAY, a small request or response would wait
        // until earlier data is acknowledged.
        let _ = stream.set_nodelay(true);
        let local = stream.local_addr()?;
        Ok(Self { stream, local, remote, protocol })
    }
}

impl OsConnection {
    fn write(
        &self,
        cx: &mut Context<'_>,
        write: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            match self.stream.poll_write_ready(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(ready) => ready?,
            }
            match write(&self.stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }
}

impl ListeningSocket for OsListener {
    type Connection = OsConnection;

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<OsConnection>> {
        self.listener.poll_accept(cx).map(|accepted| {
            let (stream, remote) = accepted?;
            OsConnection::new(stream, remote, self.protocol)
        })
    }

    fn local(&self) -> SocketAddr {
        self.local
    }
}

impl Connection for OsConnection {
    fn poll_connected(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.stream.poll_write_ready(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) => Poll::Ready(match self.stream.take_error() {
                Ok(None) => Ok(()),
                Ok(Some(error)) | Err(error) => Err(error),
            }),
        }
    }

    fn poll_read(&self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            match self.stream.poll_read_ready(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(ready) => ready?,
            }
            match self.stream.try_read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => {
                    // A read that fills only a part of `into` has drained the socket. Clearing the readiness avoids a
                    // further read that would return nothing. New data or the end of the stream sets the readiness
                    // again. An SCTP socket returns one message per read, so a partial read does not mean that it is
                    // drained.
                    let drains = self.protocol != KernelProtocol::Sctp;
                    if drains && read.as_ref().is_ok_and(|&read| 0 < read && read < into.len()) {
                        let nothing = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
                        let _ = self.stream.try_io(Interest::READABLE, nothing);
                    }
                    return Poll::Ready(read);
                }
            }
        }
    }

    fn poll_write(&self, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        self.write(cx, |stream| stream.try_write(from))
    }

    fn poll_write_vectored(&self, cx: &mut Context<'_>, from: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.write(cx, |stream| stream.try_write_vectored(from))
    }

    fn unacknowledged(&self) -> Option<u64> {
        super::descriptor::unacknowledged(&self.stream).ok()
    }

    fn is_multipath(&self) -> Option<bool> {
        if self.protocol != KernelProtocol::Mptcp {
            return None;
        }
        if let Ok(has_fallen_back_to_tcp) = super::descriptor::has_fallen_back_to_tcp(&self.stream) {
            return Some(!has_fallen_back_to_tcp);
        }
        // The query fails on a connection that fell back to TCP, and on every connection of an old kernel. To tell the
        // two cases apart, a new MPTCP socket is queried. This query fails only on an old kernel.
        let options = KernelOptions { protocol: KernelProtocol::Mptcp, ..KernelOptions::default() };
        let new = socket(self.remote, &options).ok()?;
        super::descriptor::has_fallen_back_to_tcp(&new).ok().map(|_| false)
    }

    fn counters(&self) -> Option<Counters> {
        // For MPTCP, the kernel reports the counters of one subflow, not of the connection.
        let is_tcp = self.protocol == KernelProtocol::Tcp;
        is_tcp.then(|| super::descriptor::tcp_counters(&self.stream).ok()).flatten()
    }

    fn congestion(&self) -> Option<String> {
        let has_names = self.protocol != KernelProtocol::Sctp;
        has_names.then(|| rustix::net::sockopt::tcp_congestion(&self.stream).ok()).flatten()
    }

    fn finish(&self) {
        // The call fails only if the connection has already ended, and then no shutdown is needed.
        let _ = SockRef::from(&self.stream).shutdown(std::net::Shutdown::Write);
    }

    fn abort(&self) {
        // With a linger time of zero, dropping the socket discards unsent data and sends a RST.
        let _ = SockRef::from(&self.stream).set_linger(Some(std::time::Duration::ZERO));
    }

    fn local(&self) -> SocketAddr {
        self.local
    }

    fn remote(&self) -> SocketAddr {
        self.remote
    }
}
