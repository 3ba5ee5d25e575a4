//! Raw sockets, which send and receive IP packets of one protocol where the host permits it.
//!
//! There is one socket for each IP version. The kernel writes the IP headers, with Don't Fragment set. An IPv4 packet
//! is received with its IP header, and an IPv6 packet is received without its IP header. Every raw socket of a protocol
//! receives every packet of that protocol, so the module `ports` records which program owns which port. If several
//! threads of one program share a protocol (module `shards`), a filter on each socket passes only the packets of its
//! thread.

use super::LARGEST_PACKET;
use super::addresses::Addresses;
use super::ports::SharedPorts;
use super::reports::{self, Report};
use super::{bind, outbox, steer};
use crate::PortRegistry;
use anabranch_base::{Ecn, IcmpKind, RecvBatch, SendBatch};
use nix::libc;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, MultiHeaders, SockaddrStorage};
use nix::sys::socket::{recvmmsg, setsockopt, sockopt};
use rustix::net::sockopt::{Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
use socket2::{Domain, Protocol, Socket, Type};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A socket for all packets of an IP protocol at the addresses of an `OsWorld`.
#[derive(Debug)]
pub struct Raw {
    addresses: Rc<Addresses>,
    sockets: Vec<VersionSocket>,
    reports: RefCell<VecDeque<Report>>,
    arrived: RefCell<Arrived>,
    /// The number of packets of the current batch that have been sent.
    sent: Cell<usize>,
    protocol: u8,
}

/// The socket of one IP version.
struct VersionSocket {
    v4: bool,
    socket: Rc<AsyncFd<OwnedFd>>,
    /// A future that completes when the socket's error queue is not empty.
    error_queue_ready: RefCell<Pin<Box<dyn Future<Output = ()>>>>,
}

impl std::fmt::Debug for VersionSocket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VersionSocket")
            .field("v4", &self.v4)
            .field("socket", &self.socket)
            .finish_non_exhaustive()
    }
}

impl Raw {
    pub(super) fn bind(addresses: Rc<Addresses>, protocol: u8, mark: Option<u32>) -> io::Result<Self> {
        let opened = versions(&addresses).map(|v4| open(v4, protocol).map(|socket| (v4, socket)));
        let opened = opened.collect::<io::Result<_>>()?;
        Self::over(addresses, protocol, mark, opened)
    }

    /// Creates a `Raw` from open sockets of `protocol`. Each socket comes with a flag, which is true for IPv4.
    pub(super) fn over(
        addresses: Rc<Addresses>,
        protocol: u8,
        mark: Option<u32>,
        opened: Vec<(bool, Socket)>,
    ) -> io::Result<Self> {
        if opened.is_empty() {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        let mut sockets = Vec::new();
        for (v4, socket) in opened {
            if let Some(mark) = mark {
                setsockopt(&socket, sockopt::Mark, &mark)?;
            }
            sockets.push(VersionSocket::over(v4, socket)?);
        }
        Ok(Self {
            addresses,
            sockets,
            reports: RefCell::default(),
            arrived: RefCell::default(),
            sent: Cell::new(0),
            protocol,
        })
    }

    pub(super) fn local(&self) -> Vec<SocketAddr> {
        self.addresses.list().into_iter().map(|ip| SocketAddr::new(ip, 0)).collect()
    }

    pub(super) fn mtu(&self, source: IpAddr) -> u32 {
        self.addresses.mtu(source)
    }

    /// Returns a registry of the protocol's ports; `None` if the host provides no Unix sockets.
    pub(super) fn ports(&self) -> Option<Arc<dyn PortRegistry>> {
        let ports = SharedPorts::new(&self.addresses, self.protocol).ok()?;
        Some(Arc::new(ports))
    }

    pub(super) fn poll_send(&self, cx: &mut Context<'_>, batch: &mut SendBatch) -> Poll<io::Result<()>> {
        let sent = self.send(cx, batch);
        if sent.is_ready() {
            self.sent.set(0);
        }
        // On an error the batch stays unchanged, so that the caller knows which packets could not be sent.
        if matches!(sent, Poll::Ready(Ok(()))) {
            batch.clear();
        }
        sent
    }

    fn send(&self, cx: &mut Context<'_>, batch: &SendBatch) -> Poll<io::Result<()>> {
        let source = batch.source.ip();
        let is_v4 = batch.target.is_ipv4();
        let found = self.sockets.iter().find(|version| version.v4 == is_v4);
        let ours = source.is_unspecified() || (source.is_ipv4() == is_v4 && self.addresses.has(source));
        let Some(version) = found.filter(|_| ours) else {
            let text =
                format!("{source} is no address of this host, or none that reaches {}", batch.target.ip());
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::AddrNotAvailable, text)));
        };
        let segments: Vec<&[u8]> = batch.segments().collect();
        while let [first, ..] = segments[self.sent.get()..] {
            match version.send(cx, batch, &segments[self.sent.get()..]) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(sent)) => self.sent.set(self.sent.get() + sent.max(1)),
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Poll::Ready(Err(error)) if error.raw_os_error() == Some(libc::ENETUNREACH) => {
                    return Poll::Ready(Err(error));
                }
                // The error concerns the first packet of the call, because a call that has sent at least one packet
                // returns no error.
                Poll::Ready(Err(error)) => {
                    if error.raw_os_error() == Some(libc::EMSGSIZE) {
                        let mut reports = self.reports.borrow_mut();
                        // The kernel's report gives the MTU of the route. Without a report, the MTU of the interface
                        // with the source address is used, although the route may lead through a different interface.
                        let route_mtu = reports::drain(version.socket.as_fd(), &mut reports);
                        let kind = IcmpKind::TooBig(route_mtu.unwrap_or_else(|| self.mtu(source)));
                        let quoted = first[..first.len().min(64)].to_vec();
                        reports.push_back(Report { kind, target: batch.target, quoted });
                        cx.waker().wake_by_ref();
                    }
                    // If the kernel refuses the packet for any reason that was not handled above, the packet counts as
                    // lost in the network.
                    self.sent.set(self.sent.get() + 1);
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    pub(super) fn poll_recv(&self, cx: &mut Context<'_>, batch: &mut RecvBatch) -> Poll<io::Result<()>> {
        let mut arrived = self.arrived.borrow_mut();
        loop {
            if self.take_report(batch) || arrived.take(&self.addresses, batch) {
                return Poll::Ready(Ok(()));
            }
            let mut progress = false;
            for version in &self.sockets {
                match version.receive(cx, &mut arrived)? {
                    ReadOutcome::Nothing => continue,
                    ReadOutcome::ErrorQueue => {
                        let _ = reports::drain(version.socket.as_fd(), &mut self.reports.borrow_mut());
                    }
                    ReadOutcome::Packets => {}
                }
                progress = true;
                break;
            }
            if !progress {
                return Poll::Pending;
            }
        }
    }

    pub(super) fn has_more(&self) -> bool {
        !self.arrived.borrow().waiting.is_empty()
    }

    fn take_report(&self, batch: &mut RecvBatch) -> bool {
        let Some(report) = self.reports.borrow_mut().pop_front() else { return false };
        // The kernel does not report the source address of the quoted packet. The first local address that suits the
        // target (same address family) is used.
        let Some(source) = self.addresses.first_for(report.target.ip()) else { return false };
        batch.clear();
        batch.put_segments(&report.quoted, report.quoted.len());
        batch.icmp = Some(report.icmp(source));
        (batch.source, batch.target) = (SocketAddr::new(report.target.ip(), 0), SocketAddr::new(source, 0));
        true
    }
}

/// The result of a call that reads from a raw socket.
enum ReadOutcome {
    Nothing,
    /// The error queue may contain a report.
    ErrorQueue,
    Packets,
}

/// Packets that one call has read and that the receiver has not taken yet.
#[derive(Debug, Default)]
struct Arrived {
    buffers: Vec<Vec<u8>>,
    waiting: VecDeque<Waiting>,
}

/// A received packet: its position in the buffers, and the fields of its IP header.
#[derive(Debug)]
struct Waiting {
    source: IpAddr,
    target: IpAddr,
    ecn: Ecn,
    buffer: usize,
    payload: Range<usize>,
}

impl Arrived {
    /// Fills `batch` with the next packet for this host. The following packets are added as long as they have the same
    /// addresses, ECN mark and size.
    fn take(&mut self, addresses: &Addresses, batch: &mut RecvBatch) -> bool {
        while self.waiting.front().is_some_and(|first| !addresses.has(first.target)) {
            self.waiting.pop_front();
        }
        let Some(first) = self.waiting.pop_front() else { return false };
        let size = first.payload.len();
        batch.clear();
        (batch.source, batch.target) = (SocketAddr::new(first.source, 0), SocketAddr::new(first.target, 0));
        batch.ecn = first.ecn;
        batch.push(&self.buffers[first.buffer][first.payload.clone()]);
        let fits = |next: &Waiting| {
            (next.source, next.target, next.ecn) == (first.source, first.target, first.ecn)
                && next.payload.len() <= size
        };
        while batch.has_room() && self.waiting.front().is_some_and(fits) {
            let Some(next) = self.waiting.pop_front() else { break };
            batch.push(&self.buffers[next.buffer][next.payload]);
        }
        true
    }
}

/// Returns the IP versions of `addresses`: true for IPv4, false for IPv6.
fn versions(addresses: &Addresses) -> impl Iterator<Item = bool> + use<> {
    let list = addresses.list();
    [true, false].into_iter().filter(move |v4| list.iter().any(|ip| ip.is_ipv4() == *v4))
}

fn open(v4: bool, protocol: u8) -> io::Result<Socket> {
    let domain = if v4 { Domain::IPV4 } else { Domain::IPV6 };
    let socket = Socket::new(domain, Type::RAW, Some(Protocol::from(i32::from(protocol))))?;
    socket.set_nonblocking(true)?;
    // If a raw socket's buffer is full, the kernel answers a packet with ICMP Protocol Unreachable. So the buffer is
    // larger than the host's limit if this process has the privilege to exceed the limit.
    if setsockopt(&socket, sockopt::RcvBufForce, &SOCKET_BUFFER).is_err() {
        let _ = socket.set_recv_buffer_size(SOCKET_BUFFER);
    }
    let _ = socket.set_send_buffer_size(SOCKET_BUFFER);
    if v4 {
        rustix::net::sockopt::set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::PROBE)?;
        setsockopt(&socket, sockopt::Ipv4RecvErr, &true)?;
    } else {
        rustix::net::sockopt::set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::PROBE)?;
        setsockopt(&socket, sockopt::Ipv6DontFrag, &true)?;
        setsockopt(&socket, sockopt::Ipv6RecvErr, &true)?;
        setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?;
        setsockopt(&socket, sockopt::Ipv6RecvTClass, &true)?;
    }
    Ok(socket)
}

/// Opens the raw sockets of `count` threads at `addresses`. The sockets of a thread receive only that thread's share of
/// the packets.
pub(super) fn share(
    addresses: &Addresses,
    protocol: u8,
    count: usize,
) -> io::Result<Vec<Vec<(bool, Socket)>>> {
    let mut each = Vec::new();
    for _ in 0..count {
        let mut sockets = Vec::new();
        for v4 in versions(addresses) {
            let socket = open(v4, protocol)?;
            // An open raw socket receives all packets of its protocol, including those for other threads. All packets
            // are rejected until the filter for this thread's share is set.
            steer::reject_all(&socket)?;
            sockets.push((v4, socket));
        }
        each.push(sockets);
    }
    for (sockets, index) in each.iter().zip(0..) {
        for (v4, socket) in sockets {
            take_share(socket, *v4, index, count as u32)?;
        }
    }
    Ok(each)
}

/// Discards packets that arrived before the socket had a filter. Then replaces the filter that rejects all packets by a
/// filter that accepts only the packets of socket `index` out of `count` sockets.
fn take_share(socket: &Socket, v4: bool, index: u32, count: u32) -> io::Result<()> {
    for _ in 0..MAX_FORGOTTEN {
        // An error other than EAGAIN is an ICMP report, and further packets may follow it.
        let taken = rustix::net::recv(socket, &mut [0_u8; 1], rustix::net::RecvFlags::DONTWAIT);
        if taken.is_err_and(|error| error == rustix::io::Errno::AGAIN) {
            break;
        }
    }
    steer::by_share(socket, v4, index, count)
}

impl VersionSocket {
    fn over(v4: bool, socket: Socket) -> io::Result<Self> {
        let socket = Rc::new(super::descriptor::watch(socket.into())?);
        let error_queue_ready = RefCell::new(error_queue_ready(socket.clone()));
        Ok(Self { v4, socket, error_queue_ready })
    }

    /// Sends some of `packets` and returns the number of packets sent.
    fn send(&self, cx: &mut Context<'_>, batch: &SendBatch, packets: &[&[u8]]) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = match self.socket.poll_write_ready(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(ready) => ready?,
            };
            if batch.may_fragment {
                bind::allow_fragments(self.socket.get_ref(), self.v4, true);
            }
            let sent = ready.try_io(|socket| self.send_now(socket.get_ref(), batch, packets));
            if batch.may_fragment {
                bind::allow_fragments(self.socket.get_ref(), self.v4, false);
            }
            if let Ok(sent) = sent {
                return Poll::Ready(sent);
            }
        }
    }

    fn send_now(&self, socket: &OwnedFd, batch: &SendBatch, packets: &[&[u8]]) -> io::Result<usize> {
        // The port in the target address of a raw IPv6 socket must be 0.
        let target = SocketAddr::new(batch.target.ip(), 0);
        let packets: Vec<_> = packets.iter().take(MAX_SEGMENTS).map(|packet| (*packet, target)).collect();
        outbox::send_many(socket.as_fd(), Some(batch.source.ip()), batch.ecn, &packets)
    }

    /// Returns whether the error queue may contain a report. If the result is false, the next report wakes the task.
    fn may_have_reports(&self, cx: &mut Context<'_>) -> bool {
        let mut error_queue_future = self.error_queue_ready.borrow_mut();
        if error_queue_future.as_mut().poll(cx).is_pending() {
            return false;
        }
        *error_queue_future = error_queue_ready(self.socket.clone());
        true
    }

    fn receive(&self, cx: &mut Context<'_>, arrived: &mut Arrived) -> io::Result<ReadOutcome> {
        if self.may_have_reports(cx) {
            return Ok(ReadOutcome::ErrorQueue);
        }
        loop {
            let mut ready = match self.socket.poll_read_ready(cx) {
                Poll::Pending => return Ok(ReadOutcome::Nothing),
                Poll::Ready(ready) => ready?,
            };
            match ready.try_io(|socket| self.receive_now(socket.get_ref(), arrived)) {
                Err(_) => {}
                Ok(Ok(())) => return Ok(ReadOutcome::Packets),
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                // The kernel first returns an ICMP report as an error of the next call on the socket.
                Ok(Err(_)) => return Ok(ReadOutcome::ErrorQueue),
            }
        }
    }

    fn receive_now(&self, socket: &OwnedFd, arrived: &mut Arrived) -> io::Result<()> {
        let Arrived { buffers, waiting } = arrived;
        buffers.resize_with(MAX_SEGMENTS, || vec![0; LARGEST_PACKET as usize]);
        let mut into: Vec<_> = buffers.iter_mut().map(|buffer| [IoSliceMut::new(buffer)]).collect();
        let room = nix::cmsg_space!([u8; 128]);
        let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(MAX_SEGMENTS, Some(room));
        let flags = MsgFlags::MSG_DONTWAIT;
        let messages = recvmmsg(socket.as_raw_fd(), &mut headers, &mut into, flags, None)?;
        let mut found = Vec::with_capacity(MAX_SEGMENTS);
        for message in messages {
            let (mut target, mut class) = (None, 0);
            for control in message.cmsgs().into_iter().flatten() {
                match control {
                    ControlMessageOwned::Ipv6PacketInfo(info) => {
                        target = Some(IpAddr::from(info.ipi6_addr.s6_addr));
                    }
                    ControlMessageOwned::Ipv6TClass(bits) => class = bits as u8,
                    _ => {}
                }
            }
            let source = message.address.as_ref().and_then(reports::address);
            found.push((message.bytes, source.map(|source| source.ip()), target, class));
        }
        for (buffer, (length, source, target, class)) in found.into_iter().enumerate() {
            let packet = &buffers[buffer][..length.min(LARGEST_PACKET as usize)];
            let next = if self.v4 {
                from_header(packet)
            } else {
                source.zip(target).map(|(source, target)| (source, target, class, 0))
            };
            let Some((source, target, bits, start)) = next else { continue };
            if start < packet.len() {
                let (ecn, payload) = (Ecn::from_bits(bits), start..packet.len());
                waiting.push_back(Waiting { source, target, ecn, buffer, payload });
            }
        }
        Ok(())
    }
}

/// Returns the source, target, traffic class and header length of an IPv4 packet. The kernel has verified the header,
/// so this function checks only the packet's length.
fn from_header(packet: &[u8]) -> Option<(IpAddr, IpAddr, u8, usize)> {
    let header = packet.first_chunk::<20>()?;
    let address =
        |at: usize| IpAddr::from(Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]));
    Some((address(12), address(16), header[1], usize::from(header[0] & 0x0f) * 4))
}

/// Returns a future that is ready when the error queue of `socket` should be read.
fn error_queue_ready(socket: Rc<AsyncFd<OwnedFd>>) -> Pin<Box<dyn Future<Output = ()>>> {
    Box::pin(async move {
        match socket.ready(Interest::ERROR).await {
            Ok(mut ready) => ready.clear_ready(),
            Err(_) => std::future::pending().await,
        }
    })
}

/// The maximum number of packets in one call of `sendmmsg` or `recvmmsg`.
pub(super) const MAX_SEGMENTS: usize = 16;
const SOCKET_BUFFER: usize = 4 << 20;
/// The maximum number of packets that are discarded because they arrived before the filter was set. A socket's buffer
/// cannot hold more packets.
const MAX_FORGOTTEN: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// A raw socket receives packets as soon as it is open, before its filter can be set. These packets are discarded.
    #[test]
    fn packets_that_arrived_before_the_filter_are_discarded() {
        let (socket, sender) = match (open(true, 247), open(true, 247)) {
            (Ok(socket), Ok(sender)) => (socket, sender),
            (one, _) => {
                assert_eq!(one.map_err(|why| why.kind()).err(), Some(io::ErrorKind::PermissionDenied));
                return;
            }
        };
        let send = |tag: u8| {
            let here = SocketAddr::from(([127, 0, 0, 1], 0));
            sender.send_to(&[0, 0, 0, 0, 0, 0, 0, tag, 0, 0, 0, 0], &here.into()).expect("sent");
        };
        [1, 2, 3].into_iter().for_each(send);
        steer::reject_all(&socket).expect("told");
        [4, 5, 6].into_iter().for_each(send);
        take_share(&socket, true, 1, 3).expect("told");
        [7, 8, 9].into_iter().for_each(send);
        let (mut tags, mut bytes) = (Vec::new(), [0_u8; 100]);
        while let Ok((_, length)) = rustix::net::recv(&socket, &mut bytes, rustix::net::RecvFlags::DONTWAIT) {
            assert_eq!(length, 20 + 12);
            tags.push(bytes[20 + 7]);
        }
        assert_eq!(tags, [7]);
    }
}
