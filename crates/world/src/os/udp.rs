//! UDP sockets: one for each address that was given, or one for each IP
//! version where all addresses are meant.
//!
//! `quinn-udp` makes one call carry up to 64 KB of equal segments either way
//! (GSO, GRO), with ECN marks and local addresses. Packets are sent whole, with
//! Don't Fragment set, against the interface's MTU and not the kernel's guess
//! at the path's: path MTUs are the engine's business.
//!
//! Home of RFC 6951 §5.2 and §5.3 as far as sockets go.

use super::LARGEST_PACKET;
use super::addresses::Addresses;
use super::reports::{self, Report};
use anabranch_base::{Batch, Ecn, IcmpKind};
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use rustix::net::sockopt::{Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
use socket2::{Domain, Protocol, Socket, Type};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// A UDP port on the addresses of a world.
#[derive(Debug)]
pub struct Udp {
    port: u16,
    addresses: Rc<Addresses>,
    sockets: Vec<Bound>,
    /// Who is asked first next time.
    turn: Cell<usize>,
    received: RefCell<Received>,
    reports: RefCell<VecDeque<(usize, Report)>>,
    /// Bytes of the batch under way that have been sent already.
    sent: Cell<usize>,
}

/// One socket.
struct Bound {
    /// Its address; unspecified where it stands for all of an IP version.
    ip: IpAddr,
    socket: Rc<UdpSocket>,
    state: RefCell<UdpSocketState>,
    /// Ready when something is in the error queue.
    trouble: RefCell<Pin<Box<dyn Future<Output = ()>>>>,
}

impl std::fmt::Debug for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bound").field("ip", &self.ip).field("state", &self.state).finish_non_exhaustive()
    }
}

/// What one call has brought and nobody has taken yet.
#[derive(Debug)]
struct Received {
    storage: Vec<u8>,
    metas: [RecvMeta; BUFFERS],
    socket: usize,
    next: usize,
    count: usize,
}

impl Udp {
    pub(super) fn bind(addresses: Rc<Addresses>, port: u16) -> io::Result<Self> {
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        // A free port of one address may be taken on another.
        for _ in 0..if port == 0 { 16 } else { 1 } {
            match Self::try_bind(&addresses, port) {
                Ok(bound) => return Ok(bound),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    fn try_bind(addresses: &Rc<Addresses>, mut port: u16) -> io::Result<Self> {
        let mut sockets: Vec<Bound> = Vec::new();
        let all = [IpAddr::from(Ipv4Addr::UNSPECIFIED), Ipv6Addr::UNSPECIFIED.into()];
        let (wanted, optional) =
            if addresses.fixed().is_empty() { (&all[..], true) } else { (addresses.fixed(), false) };
        for &ip in wanted {
            match Bound::new(SocketAddr::new(ip, port)) {
                Ok(bound) => {
                    port = bound.socket.local_addr()?.port();
                    sockets.push(bound);
                }
                // A host without IPv6, or without IPv4.
                Err(error) if optional && !sockets.is_empty() && lacks_family(&error) => {}
                Err(error) if optional && ip.is_ipv4() && lacks_family(&error) => {}
                Err(error) => return Err(error),
            }
        }
        if sockets.is_empty() {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        let received = Received {
            storage: vec![0; BUFFERS * BUFFER_BYTES],
            metas: [RecvMeta::default(); BUFFERS],
            socket: 0,
            next: 0,
            count: 0,
        };
        Ok(Self {
            port,
            addresses: addresses.clone(),
            sockets,
            turn: Cell::new(0),
            received: RefCell::new(received),
            reports: RefCell::default(),
            sent: Cell::new(0),
        })
    }

    pub(super) fn local(&self) -> Vec<SocketAddr> {
        self.addresses.list().into_iter().map(|ip| SocketAddr::new(ip, self.port)).collect()
    }

    pub(super) fn mtu(&self, source: IpAddr) -> u32 {
        self.addresses.mtu(source)
    }

    pub(super) fn max_segments(&self) -> usize {
        self.sockets.iter().map(|bound| bound.state.borrow().max_gso_segments()).min().unwrap_or(1)
    }

    pub(super) fn poll_send(&self, cx: &mut Context<'_>, batch: &mut Batch) -> Poll<io::Result<()>> {
        let sent = self.send(cx, batch);
        if sent.is_ready() {
            self.sent.set(0);
        }
        // It is told what could not go.
        if matches!(sent, Poll::Ready(Ok(()))) {
            batch.clear();
        }
        sent
    }

    fn send(&self, cx: &mut Context<'_>, batch: &Batch) -> Poll<io::Result<()>> {
        let (source, target) = (batch.source.ip(), batch.target);
        if batch.is_empty() {
            return Poll::Ready(Ok(()));
        }
        if !source.is_unspecified() && source.is_ipv4() != target.is_ipv4() {
            let text = "source and target of different families";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidInput, text)));
        }
        let Some((number, bound)) = self.from(source, target.ip()) else {
            let text = format!("{source} is no address of this host");
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::AddrNotAvailable, text)));
        };
        let src_ip = Some(source).filter(|source| bound.ip.is_unspecified() && !source.is_unspecified());
        let largest = self.mtu(source) as usize;
        let bytes = batch.bytes();
        let mut refusals = 0;
        while self.sent.get() < bytes.len() {
            let at = self.sent.get();
            let headers = if target.is_ipv4() { 28 } else { 48 };
            // The kernel cuts nothing that it could not send; and a piece is one IP packet to it.
            let most = if batch.may_fragment || batch.stride() + headers > largest {
                1
            } else {
                let segments = bound.state.borrow().max_gso_segments();
                segments.min(LARGEST_PIECE / batch.stride()).max(1)
            };
            let end = bytes.len().min(at + most * batch.stride());
            let transmit = Transmit {
                destination: target,
                ecn: EcnCodepoint::from_bits(batch.ecn as u8),
                contents: &bytes[at..end],
                segment_size: (end - at > batch.stride()).then_some(batch.stride()),
                src_ip,
            };
            match bound.send(cx, &transmit, batch.may_fragment) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) => self.sent.set(end),
                Poll::Ready(Err(error)) => match Refusal::of(&error) {
                    // Of a report that waited, not of this packet.
                    Refusal::Earlier if refusals < MOST_REFUSALS => refusals += 1,
                    Refusal::TooLarge => {
                        let quoted = bytes[at..end.min(at + 64)].to_vec();
                        // The way there may lead through another interface than that of the source.
                        let takes = self.drain(number).unwrap_or_else(|| self.mtu(source));
                        let report = Report { kind: IcmpKind::TooBig(takes), target, quoted };
                        self.report(number, report);
                        // We hear of it the next time we look.
                        cx.waker().wake_by_ref();
                        self.sent.set(end);
                    }
                    Refusal::Invalid => {
                        self.addresses.refresh();
                        // That the source is gone must not cost the socket its offloads.
                        if !self.addresses.has(source) {
                            *bound.state.borrow_mut() = state_of(&bound.socket)?;
                            return Poll::Ready(Err(io::ErrorKind::AddrNotAvailable.into()));
                        }
                        // Many at once may be what is refused; then they go singly from here on.
                        if refusals >= MOST_REFUSALS || transmit.segment_size.is_none() {
                            self.sent.set(end);
                        }
                        refusals += 1;
                    }
                    // What lies before it is known by now to be of this packet.
                    Refusal::Earlier if is_unreachable(&error) => return Poll::Ready(Err(error)),
                    Refusal::NoWay => return Poll::Ready(Err(error)),
                    // The network does not want it.
                    Refusal::Earlier | Refusal::Lost => self.sent.set(end),
                },
            }
        }
        Poll::Ready(Ok(()))
    }

    /// The socket that sends from `source`.
    fn from(&self, source: IpAddr, target: IpAddr) -> Option<(usize, &Bound)> {
        let like = if source.is_unspecified() { target } else { source };
        let found = self.sockets.iter().enumerate().find(|(_, bound)| {
            bound.ip == source
                || (bound.ip.is_ipv4() == like.is_ipv4()
                    && (source.is_unspecified() || bound.ip.is_unspecified()))
        })?;
        let known = source.is_unspecified() || found.1.ip == source || self.addresses.has(source);
        known.then_some(found)
    }

    fn report(&self, socket: usize, report: Report) {
        let mut reports = self.reports.borrow_mut();
        if reports.len() < MOST_REPORTS {
            reports.push_back((socket, report));
        }
    }

    pub(super) fn poll_recv(&self, cx: &mut Context<'_>, batch: &mut Batch) -> Poll<io::Result<()>> {
        loop {
            if self.take_report(batch) || self.take_received(batch) {
                return Poll::Ready(Ok(()));
            }
            let mut news = false;
            for turn in 0..self.sockets.len() {
                let number = (self.turn.get() + turn) % self.sockets.len();
                news |= self.look_for_trouble(cx, number) || self.receive(cx, number)?;
                if news {
                    self.turn.set(number + 1);
                    break;
                }
            }
            if !news {
                return Poll::Pending;
            }
        }
    }

    /// Takes what waits in a socket; false when nothing does, and then its coming wakes us.
    fn receive(&self, cx: &mut Context<'_>, number: usize) -> io::Result<bool> {
        let bound = &self.sockets[number];
        let mut received = self.received.borrow_mut();
        let Received { storage, metas, socket, next, count } = &mut *received;
        loop {
            match bound.socket.poll_recv_ready(cx) {
                Poll::Pending => return Ok(false),
                Poll::Ready(ready) => ready?,
            }
            let mut buffers = storage.chunks_mut(BUFFER_BYTES).map(IoSliceMut::new);
            let mut buffers: [IoSliceMut<'_>; BUFFERS] =
                std::array::from_fn(|_| buffers.next().unwrap_or_else(|| IoSliceMut::new(&mut [])));
            let state = bound.state.borrow();
            let got = bound
                .socket
                .try_io(Interest::READABLE, || state.recv((&*bound.socket).into(), &mut buffers, metas));
            match got {
                Ok(0) => {}
                Ok(got) => {
                    (*socket, *next, *count) = (number, 0, got);
                    return Ok(true);
                }
                Err(error) => match Refusal::of(&error) {
                    Refusal::Invalid | Refusal::TooLarge if error.kind() != io::ErrorKind::WouldBlock => {
                        return Err(error);
                    }
                    // Not yet; or a report, which stands in the error queue too.
                    _ => {}
                },
            }
        }
    }

    /// Takes what stands in the error queue of a socket.
    fn look_for_trouble(&self, cx: &mut Context<'_>, number: usize) -> bool {
        let bound = &self.sockets[number];
        if bound.trouble.borrow_mut().as_mut().poll(cx).is_pending() {
            return false;
        }
        *bound.trouble.borrow_mut() = trouble(bound.socket.clone());
        self.drain(number);
        // Looked at anew at once: the new future must have our waker.
        true
    }

    /// Takes all reports of a socket; what the way of a packet takes that was too large for it.
    fn drain(&self, number: usize) -> Option<u32> {
        let mut found = VecDeque::new();
        let takes = reports::drain(self.sockets[number].socket.as_fd(), &mut found);
        for report in found {
            self.report(number, report);
        }
        takes
    }

    fn take_report(&self, batch: &mut Batch) -> bool {
        let Some((number, report)) = self.reports.borrow_mut().pop_front() else { return false };
        let ip = self.sockets[number].ip;
        // The kernel does not say from which of our addresses the packet left.
        let source = if ip.is_unspecified() { self.addresses.first_like(ip).unwrap_or(ip) } else { ip };
        batch.clear();
        batch.put_segments(&report.quoted, report.quoted.len());
        batch.icmp = Some(report.icmp(source));
        // As if the peer had sent it: that is whom it is about.
        (batch.source, batch.target) = (report.target, SocketAddr::new(source, self.port));
        true
    }

    fn take_received(&self, batch: &mut Batch) -> bool {
        let mut received = self.received.borrow_mut();
        let Received { storage, metas, socket, next, count } = &mut *received;
        while *next < *count {
            let number = *next;
            *next += 1;
            let meta = &metas[number];
            // An empty datagram says nothing to anyone.
            if meta.len == 0 || meta.stride == 0 {
                continue;
            }
            let begin = number * BUFFER_BYTES;
            batch.clear();
            batch.put_segments(&storage[begin..begin + meta.len.min(BUFFER_BYTES)], meta.stride);
            let target = meta.dst_ip.unwrap_or(self.sockets[*socket].ip);
            batch.source = meta.addr;
            batch.target = SocketAddr::new(target, self.port);
            batch.ecn = meta.ecn.map_or(Ecn::NotEct, |ecn| Ecn::from_bits(ecn as u8));
            return true;
        }
        false
    }
}

impl Bound {
    fn new(at: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(at), Type::DGRAM, Some(Protocol::UDP))?;
        if at.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.set_nonblocking(true)?;
        // As much as the host lets us have.
        let _ = socket.set_recv_buffer_size(SOCKET_BUFFER);
        let _ = socket.set_send_buffer_size(SOCKET_BUFFER);
        socket.bind(&at.into())?;
        let socket = Rc::new(UdpSocket::from_std(socket.into())?);
        let state = state_of(&socket)?;
        let trouble = RefCell::new(trouble(socket.clone()));
        Ok(Self { ip: at.ip(), socket, state: RefCell::new(state), trouble })
    }

    fn send(
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
                self.allow_fragments(true);
            }
            let state = self.state.borrow();
            let sent =
                self.socket.try_io(Interest::WRITABLE, || state.try_send((&*self.socket).into(), transmit));
            drop(state);
            if may_fragment {
                self.allow_fragments(false);
            }
            match sent {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => return Poll::Ready(sent),
            }
        }
    }

    /// For the next packet. A host that refuses sends it whole or not at all.
    #[cold]
    fn allow_fragments(&self, allow: bool) {
        let socket = &*self.socket;
        if self.ip.is_ipv4() {
            let how = if allow { Ipv4PathMtuDiscovery::DONT } else { Ipv4PathMtuDiscovery::PROBE };
            let _ = rustix::net::sockopt::set_ip_mtu_discover(socket, how);
        } else {
            let how = if allow { Ipv6PathMtuDiscovery::DONT } else { Ipv6PathMtuDiscovery::PROBE };
            let _ = rustix::net::sockopt::set_ipv6_mtu_discover(socket, how);
            let _ = nix::sys::socket::setsockopt(socket, nix::sys::socket::sockopt::Ipv6DontFrag, &!allow);
        }
    }
}

/// Sets a socket up for what `quinn-udp` does.
fn state_of(socket: &UdpSocket) -> io::Result<UdpSocketState> {
    let state = UdpSocketState::new(socket.into())?;
    // quinn-udp 0.6 asks for arrival times, and then has no room left for the ECN mark of packets joined by GRO.
    nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::ReceiveTimestampns, &false)?;
    // Without reports, timeouts tell the same, later.
    let _ = state.enable_transport_errors(socket.into());
    Ok(state)
}

/// Ready when the error queue of `socket` should be looked at.
fn trouble(socket: Rc<UdpSocket>) -> Pin<Box<dyn Future<Output = ()>>> {
    Box::pin(async move {
        if socket.ready(Interest::ERROR).await.is_err() {
            return std::future::pending().await;
        }
        // The readiness is used up; what comes later sets it anew.
        let _ = socket.try_io(Interest::ERROR, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
    })
}

/// Why the kernel did not take or give a packet.
enum Refusal {
    /// It tells of an earlier packet.
    Earlier,
    /// No interface takes a packet of that size.
    TooLarge,
    /// The call makes no sense to it: a source that is gone, an offload it does not have.
    Invalid,
    /// There is no way for now.
    NoWay,
    /// There is no room or no permission: the packet is lost.
    Lost,
}

impl Refusal {
    fn of(error: &io::Error) -> Self {
        use nix::errno::Errno;
        match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::EMSGSIZE) => Self::TooLarge,
            Some(Errno::EINVAL | Errno::EIO | Errno::EBADF | Errno::ENOTSOCK | Errno::EFAULT) => {
                Self::Invalid
            }
            Some(Errno::ECONNREFUSED | Errno::EHOSTUNREACH | Errno::ENOPROTOOPT | Errno::EPROTO) => {
                Self::Earlier
            }
            Some(Errno::ENETUNREACH | Errno::EADDRNOTAVAIL) => Self::NoWay,
            _ => Self::Lost,
        }
    }
}

fn is_unreachable(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::HostUnreachable
}

fn lacks_family(error: &io::Error) -> bool {
    use nix::errno::Errno;
    let missing = [Errno::EAFNOSUPPORT, Errno::EADDRNOTAVAIL, Errno::EPROTONOSUPPORT];
    error.raw_os_error().is_some_and(|code| missing.contains(&Errno::from_raw(code)))
}

/// Datagrams, or trains of them, that one call may bring.
const BUFFERS: usize = 8;
/// What GRO joins at most is one UDP payload.
const BUFFER_BYTES: usize = 65_536;
/// Bytes that one call may send: the payload of the largest UDP packet of IPv6 and of IPv4.
const LARGEST_PIECE: usize = LARGEST_PACKET as usize - 48;
/// What a burst of a large window needs.
const SOCKET_BUFFER: usize = 4 << 20;
/// Reports that may wait.
const MOST_REPORTS: usize = 64;
/// How often one packet is tried again.
const MOST_REFUSALS: usize = 3;
