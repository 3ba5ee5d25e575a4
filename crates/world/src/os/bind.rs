//! Binds UDP sockets: one for each address that the caller gives or, without addresses, one for each IP version. Sets
//! the options that UDP and raw sockets share.

use nix::sys::socket::{setsockopt, sockopt};
use rustix::net::sockopt::{Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;

/// Binds a UDP socket to `port` at each of `addresses`. If `addresses` is empty, binds one socket for each IP version.
/// Returns the port and the sockets.
pub(super) fn all(addresses: &[IpAddr], port: u16) -> io::Result<(u16, Vec<(IpAddr, Socket)>)> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    // If `port` is 0, the kernel chooses a port at the first address. That port may be in use at another address, so
    // the bind is tried several times.
    for _ in 0..if port == 0 { 16 } else { 1 } {
        match try_all(addresses, port) {
            Ok(bound) => return Ok(bound),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

fn try_all(addresses: &[IpAddr], mut port: u16) -> io::Result<(u16, Vec<(IpAddr, Socket)>)> {
    let mut sockets = Vec::new();
    let every = [IpAddr::from(Ipv4Addr::UNSPECIFIED), Ipv6Addr::UNSPECIFIED.into()];
    let (addresses, optional) = if addresses.is_empty() { (&every[..], true) } else { (addresses, false) };
    for &ip in addresses {
        match bind_one(SocketAddr::new(ip, port), false) {
            Ok(socket) => {
                port = socket.local_addr()?.as_socket().map_or(port, |local| local.port());
                sockets.push((ip, socket));
            }
            // If the caller gave no address, both IP versions are tried, and a version that the host lacks is skipped.
            Err(error) if optional && !sockets.is_empty() && lacks_family(&error) => {}
            Err(error) if optional && ip.is_ipv4() && lacks_family(&error) => {}
            Err(error) => return Err(error),
        }
    }
    if sockets.is_empty() { Err(io::ErrorKind::AddrNotAvailable.into()) } else { Ok((port, sockets)) }
}

/// Binds one UDP socket. If `shared`, other sockets may be bound to the same address and port.
pub(super) fn bind_one(at: SocketAddr, shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(at), Type::DGRAM, Some(Protocol::UDP))?;
    if at.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    if shared {
        setsockopt(&socket, sockopt::ReusePort, &true)?;
    }
    socket.set_nonblocking(true)?;
    // The kernel reduces these sizes to the host's maximum.
    let _ = socket.set_recv_buffer_size(SOCKET_BUFFER);
    let _ = socket.set_send_buffer_size(SOCKET_BUFFER);
    socket.bind(&at.into())?;
    Ok(socket)
}

/// Sets whether the next packet of a UDP or raw socket may be fragmented. If the host refuses the setting, packets are
/// still sent with Don't Fragment set.
#[cold]
pub(super) fn allow_fragments(socket: impl AsFd, v4: bool, allow: bool) {
    if v4 {
        let how = if allow { Ipv4PathMtuDiscovery::DONT } else { Ipv4PathMtuDiscovery::PROBE };
        let _ = rustix::net::sockopt::set_ip_mtu_discover(socket, how);
    } else {
        let how = if allow { Ipv6PathMtuDiscovery::DONT } else { Ipv6PathMtuDiscovery::PROBE };
        let _ = rustix::net::sockopt::set_ipv6_mtu_discover(&socket, how);
        let _ = setsockopt(&socket, sockopt::Ipv6DontFrag, &!allow);
    }
}

fn lacks_family(error: &io::Error) -> bool {
    use nix::errno::Errno;
    let missing = [Errno::EAFNOSUPPORT, Errno::EADDRNOTAVAIL, Errno::EPROTONOSUPPORT];
    error.raw_os_error().is_some_and(|code| missing.contains(&Errno::from_raw(code)))
}

/// The size in bytes of a socket's buffers: large enough for a burst of a large congestion window.
const SOCKET_BUFFER: usize = 4 << 20;
