//! One UDP socket of the kernel: its offloads, its send calls, its error queue, and the meaning of its errors.

use super::{bind, outbox};
use anabranch_base::Ecn;
use quinn_udp::{Transmit, UdpSocketState};
use socket2::Socket;
use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::Interest;
use tokio::net;

/// One socket of a [`Udp`](super::udp::Udp).
pub(super) struct UdpSocket {
    /// The local address; unspecified if the socket stands for all addresses of an IP version.
    pub(super) ip: IpAddr,
    pub(super) socket: Rc<net::UdpSocket>,
    pub(super) state: RefCell<UdpSocketState>,
    /// Whether the kernel neither splits nor joins packets on this socket (no GSO, no GRO).
    single_packets: bool,
    /// A future that completes when the socket's error queue is not empty.
    error_queue_ready: RefCell<Pin<Box<dyn Future<Output = ()>>>>,
}

impl std::fmt::Debug for UdpSocket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UdpSocket").field("ip", &self.ip).field("state", &self.state).finish_non_exhaustive()
    }
}

impl UdpSocket {
    pub(super) fn new(ip: IpAddr, socket: Socket, single_packets: bool) -> io::Result<Self> {
        let socket = Rc::new(net::UdpSocket::from_std(socket.into())?);
        let state = RefCell::new(state_of(&socket, single_packets)?);
        let error_queue_ready = RefCell::new(error_queue_ready(socket.clone()));
        Ok(Self { ip, socket, state, single_packets, error_queue_ready })
    }

    /// Makes the kernel's offloads available again. `quinn-udp` disables them after a failed call, even if the
    /// offloads did not cause the failure.
    pub(super) fn reset_offloads(&self) -> io::Result<()> {
        *self.state.borrow_mut() = state_of(&self.socket, self.single_packets)?;
        Ok(())
    }

    /// Ready when the error queue should be read. Later calls wait for the next report.
    pub(super) fn poll_error_queue(&self, cx: &mut Context<'_>) -> Poll<()> {
        ready!(self.error_queue_ready.borrow_mut().as_mut().poll(cx));
        *self.error_queue_ready.borrow_mut() = error_queue_ready(self.socket.clone());
        Poll::Ready(())
    }

    /// Returns the maximum number of packets that the kernel sends in one call with GSO; 1 without GSO.
    pub(super) fn segments(&self) -> usize {
        if self.single_packets { 1 } else { self.state.borrow().max_gso_segments() }
    }

    /// Sends some of `packets` and returns the number of packets sent.
    pub(super) fn send_many(
        &self,
        cx: &mut Context<'_>,
        source: Option<IpAddr>,
        ecn: Ecn,
        packets: &[(&[u8], SocketAddr)],
    ) -> Poll<io::Result<usize>> {
        loop {
            match self.socket.poll_send_ready(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(ready) => ready?,
            }
            let call = || outbox::send_many(self.socket.as_fd(), source, ecn, packets);
            match self.socket.try_io(Interest::WRITABLE, call) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => return Poll::Ready(sent),
            }
        }
    }

    pub(super) fn send(
        &self,
        cx: &mut Context<'_>,
        transmit: &Transmit<'_>,
        may_fragment: bool,
    ) -> Poll<io::Result<()>> {
        loop {
            match self.socket.poll_send_ready(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(ready) => ready?,
            }
            if may_fragment {
                bind::allow_fragments(&*self.socket, self.ip.is_ipv4(), true);
            }
            let state = self.state.borrow();
            let sent =
                self.socket.try_io(Interest::WRITABLE, || state.try_send((&*self.socket).into(), transmit));
            drop(state);
            if may_fragment {
                bind::allow_fragments(&*self.socket, self.ip.is_ipv4(), false);
            }
            match sent {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => return Poll::Ready(sent),
            }
        }
    }
}

/// Prepares a socket for use with `quinn-udp`.
fn state_of(socket: &net::UdpSocket, single_packets: bool) -> io::Result<UdpSocketState> {
    let state = UdpSocketState::new(socket.into())?;
    if single_packets {
        nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::UdpGroSegment, &false)?;
    }
    // quinn-udp 0.6 requests arrival times. They are turned off here, because with arrival times the control data has
    // no room for the ECN mark of packets that GRO has joined.
    nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::ReceiveTimestampns, &false)?;
    // If the kernel refuses to report ICMP errors, the refusal is ignored: timeouts give the same information, only
    // later.
    let _ = state.enable_transport_errors(socket.into());
    Ok(state)
}

/// Returns a future that is ready when the error queue of `socket` should be read.
fn error_queue_ready(socket: Rc<net::UdpSocket>) -> Pin<Box<dyn Future<Output = ()>>> {
    Box::pin(async move {
        if socket.ready(Interest::ERROR).await.is_err() {
            return std::future::pending().await;
        }
        // The readiness is cleared. The next report sets it again.
        let _ = socket.try_io(Interest::ERROR, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
    })
}

/// The reason why the kernel did not send or receive a packet.
pub(super) enum IoFailure {
    /// The error is a report about an earlier packet, not about the packet of this call.
    Earlier,
    /// The packet exceeds the MTU of the interface.
    TooLarge,
    /// The call is invalid: the host no longer has the source address, or does not support an offload.
    Invalid,
    /// The host has no route to the target at present.
    NoRoute,
    /// The host has no buffer space for the packet, or does not permit sending it. The packet is lost.
    Lost,
}

impl IoFailure {
    pub(super) fn of(error: &io::Error) -> Self {
        use nix::errno::Errno;
        match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::EMSGSIZE) => Self::TooLarge,
            Some(Errno::EINVAL | Errno::EIO | Errno::EBADF | Errno::ENOTSOCK | Errno::EFAULT) => {
                Self::Invalid
            }
            Some(Errno::ECONNREFUSED | Errno::EHOSTUNREACH | Errno::ENOPROTOOPT | Errno::EPROTO) => {
                Self::Earlier
            }
            Some(Errno::ENETUNREACH | Errno::EADDRNOTAVAIL) => Self::NoRoute,
            _ => Self::Lost,
        }
    }
}
