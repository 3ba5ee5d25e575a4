//! UDP sockets: one for each configured address, or one for each IP version if all addresses are used.
//!
//! With `quinn-udp`, one call carries up to 64 KB of equally sized packets in either direction (GSO, GRO), with ECN
//! marks and local addresses. Packets have Don't Fragment set. The interface's MTU limits their size. The kernel's
//! estimate of the path MTU is ignored, because the engine does its own path MTU discovery.
//!
//! Implements the parts of RFC 6951 §5.2 and §5.3 that concern sockets.

use super::addresses::Addresses;
use super::bind;
use super::busy_poll::BusyPoll;
use super::outbox::{Outbox, Train};
use super::reports::{self, Report};
use super::udp_socket::{IoFailure, UdpSocket};
use super::{Inner, LARGEST_PACKET, OsWorld};
use anabranch_base::batch::HEADROOM;
use anabranch_base::{Ecn, IcmpKind, RecvBatch, SendBatch};
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit};
use socket2::Socket;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::Interest;

/// A UDP port on the addresses of an `OsWorld`.
#[derive(Debug)]
pub struct Udp {
    port: u16,
    addresses: Rc<Addresses>,
    busy_poll: Arc<BusyPoll>,
    sockets: Vec<UdpSocket>,
    /// The index of the socket that the next receive reads first.
    turn: Cell<usize>,
    received: RefCell<Received>,
    reports: RefCell<VecDeque<(usize, Report)>>,
    /// Packets that are sent at the next flush.
    outbox: RefCell<Outbox>,
    /// The number of bytes already sent of the batch that is being sent or, if `outbox` is being sent, of its first
    /// waiting train. A train has packets of one size with the same source and target.
    sent: Cell<usize>,
}

/// Packets to send, with the same source, target, ECN mark and size. The last packet may be shorter.
#[derive(Clone, Copy)]
struct Packets<'a> {
    source: IpAddr,
    target: SocketAddr,
    ecn: Ecn,
    may_fragment: bool,
    stride: usize,
    bytes: &'a [u8],
}

/// Datagrams that one call has read and that the receiver has not taken yet.
#[derive(Debug)]
struct Received {
    /// Memory for many small datagrams, which are copied from it to the receiver's batch.
    storage: Vec<u8>,
    /// Each buffer holds one train: packets that the kernel has joined (GRO). A filled buffer is swapped with the
    /// buffer of the receiver's batch, so that the train is not copied. Each train starts at the offset `HEADROOM`, as
    /// in a batch.
    trains: [Vec<u8>; TRAINS],
    /// Whether the datagrams were received into the buffers of `trains`, and not into `storage`.
    long: bool,
    metas: [RecvMeta; BUFFERS],
    socket: usize,
    next: usize,
    count: usize,
}

impl Udp {
    pub(super) fn bind(world: &OsWorld, port: u16) -> io::Result<Self> {
        let (port, sockets) = bind::all(world.inner.addresses.fixed(), port)?;
        Self::over(world, port, sockets)
    }

    /// Creates a `Udp` from sockets that are bound to `port` at the given addresses.
    pub(super) fn over(world: &OsWorld, port: u16, sockets: Vec<(IpAddr, Socket)>) -> io::Result<Self> {
        let Inner { addresses, busy_poll, single_packets, .. } = &*world.inner;
        let single_packets = *single_packets;
        let bound = |(ip, socket)| UdpSocket::new(ip, socket, single_packets);
        let received = Received {
            storage: vec![0; BUFFERS * BUFFER_BYTES],
            trains: Default::default(),
            long: false,
            metas: [RecvMeta::default(); BUFFERS],
            socket: 0,
            next: 0,
            count: 0,
        };
        Ok(Self {
            port,
            addresses: addresses.clone(),
            busy_poll: busy_poll.clone(),
            sockets: sockets.into_iter().map(bound).collect::<io::Result<_>>()?,
            turn: Cell::new(0),
            received: RefCell::new(received),
            reports: RefCell::default(),
            outbox: RefCell::default(),
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
        let segments = self.sockets.iter().map(|bound| match bound.segments() {
            // Without GSO, a batch of this size takes many system calls. The large batch still saves iterations of the
            // engine's loop.
            1 => MAX_MESSAGES,
            segments => segments,
        });
        segments.min().unwrap_or(1)
    }

    pub(super) fn poll_send(&self, cx: &mut Context<'_>, batch: &mut SendBatch) -> Poll<io::Result<()>> {
        let sent = self.send(cx, Packets::of(batch));
        if sent.is_ready() {
            self.sent.set(0);
        }
        // On an error the batch stays unchanged, so that the caller knows which packets could not be sent.
        if matches!(sent, Poll::Ready(Ok(()))) {
            batch.clear();
        }
        sent
    }

    pub(super) fn queue(&self, batch: &mut SendBatch) -> bool {
        let mut outbox = self.outbox.borrow_mut();
        // A batch of which `poll_send` has already sent a part cannot be queued.
        let under_way = self.sent.get() > 0 && outbox.waiting().is_empty();
        if under_way || outbox.is_full() || !Outbox::is_worth_queuing(batch) {
            return false;
        }
        outbox.put(batch, self.max_segments());
        batch.clear();
        true
    }

    pub(super) fn poll_flush(&self, cx: &mut Context<'_>, unsent: &mut SendBatch) -> Poll<io::Result<()>> {
        let mut outbox = self.outbox.borrow_mut();
        while let [train, ..] = outbox.waiting() {
            let alone = |train: &Train| train.bytes.len() == train.stride;
            let like = |other: &Train| {
                alone(other)
                    && (other.source, other.ecn) == (train.source, train.ecn)
                    && other.target.is_ipv4() == train.target.is_ipv4()
            };
            let run = outbox.waiting().iter().take(MAX_MESSAGES).take_while(|other| like(other)).count();
            if run > 1
                && self.sent.get() == 0
                && let Some((_, bound)) = self.socket_for(train.source, train.target.ip())
            {
                let packets: Vec<_> =
                    outbox.waiting()[..run].iter().map(|train| (&train.bytes[..], train.target)).collect();
                if let Ok(gone @ 1..) =
                    ready!(bound.send_many(cx, self.source(bound, train.source), train.ecn, &packets))
                {
                    self.busy_poll.sent(packets[..gone].iter().map(|(packet, _)| packet.len()).sum());
                    outbox.leave(gone);
                    continue;
                }
            }
            let sent = ready!(self.send(cx, Packets::in_train(train)));
            self.sent.set(0);
            if let Err(error) = sent {
                unsent.put_segments(&train.bytes, train.stride);
                unsent.source = SocketAddr::new(train.source, self.port);
                unsent.target = train.target;
                outbox.leave(1);
                return Poll::Ready(Err(error));
            }
            outbox.leave(1);
        }
        Poll::Ready(Ok(()))
    }

    /// Returns the source address that must be passed to the kernel; `None` if it is the socket's own address.
    fn source(&self, bound: &UdpSocket, source: IpAddr) -> Option<IpAddr> {
        Some(source).filter(|source| bound.ip.is_unspecified() && !source.is_unspecified())
    }

    fn send(&self, cx: &mut Context<'_>, packets: Packets<'_>) -> Poll<io::Result<()>> {
        let Packets { source, target, ecn, may_fragment, stride, bytes } = packets;
        if bytes.is_empty() {
            return Poll::Ready(Ok(()));
        }
        if !source.is_unspecified() && source.is_ipv4() != target.is_ipv4() {
            let text = "source and target of different families";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidInput, text)));
        }
        let Some((number, bound)) = self.socket_for(source, target.ip()) else {
            let text = format!("{source} is no address of this host");
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::AddrNotAvailable, text)));
        };
        let src_ip = self.source(bound, source);
        let largest = self.mtu(source) as usize;
        let mut refusals = 0;
        while self.sent.get() < bytes.len() {
            let at = self.sent.get();
            let headers = if target.is_ipv4() { 28 } else { 48 };
            // `bytes` is a train of packets, which the kernel can split (GSO). The kernel returns an error if the
            // packets of the train exceed the MTU. Packets that exceed the MTU, or that may be fragmented, are
            // therefore sent one by one.
            let one_by_one = may_fragment || stride + headers > largest;
            let most = if one_by_one { 1 } else { bound.segments().min(LARGEST_PIECE / stride).max(1) };
            if most == 1 && !one_by_one && bytes.len() - at > stride && refusals == 0 {
                let packets: Vec<_> =
                    bytes[at..].chunks(stride).take(MAX_MESSAGES).map(|packet| (packet, target)).collect();
                if let Ok(gone @ 1..) = ready!(bound.send_many(cx, src_ip, ecn, &packets)) {
                    self.sent.set(bytes.len().min(at + gone * stride));
                    self.busy_poll.sent(gone * stride);
                    continue;
                }
                // The call sent no packet. In the next iteration, only the first packet is sent, to find out whether
                // the error concerns that packet.
            }
            let end = bytes.len().min(at + most * stride);
            let transmit = Transmit {
                destination: target,
                ecn: EcnCodepoint::from_bits(ecn as u8),
                contents: &bytes[at..end],
                segment_size: (end - at > stride).then_some(stride),
                src_ip,
            };
            match bound.send(cx, &transmit, may_fragment) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) => {
                    self.sent.set(end);
                    self.busy_poll.sent(end - at);
                }
                Poll::Ready(Err(error)) => match IoFailure::of(&error) {
                    // The error comes from a queued report about an earlier packet, so this packet is sent again.
                    IoFailure::Earlier if refusals < MAX_REFUSALS => refusals += 1,
                    IoFailure::TooLarge => {
                        let quoted = bytes[at..end.min(at + 64)].to_vec();
                        // The kernel may have reported the MTU of the route. Otherwise the MTU of the interface with
                        // the source address is used, although the route may lead through another interface.
                        let mtu = self.drain(number).unwrap_or_else(|| self.mtu(source));
                        let report = Report { kind: IcmpKind::TooBig(mtu), target, quoted };
                        self.report(number, report);
                        // Wakes this task, because its next receive returns the report of the packet that was too
                        // large.
                        cx.waker().wake_by_ref();
                        self.sent.set(end);
                    }
                    IoFailure::Invalid => {
                        self.addresses.refresh();
                        // If the host does not have the source address, the missing address caused the error, and the
                        // offloads did not. So the offloads that `quinn-udp` has disabled are enabled again.
                        if !self.addresses.has(source) {
                            bound.reset_offloads()?;
                            return Poll::Ready(Err(io::ErrorKind::AddrNotAvailable.into()));
                        }
                        // The kernel may have refused to split a train. `quinn-udp` then stops sending trains, so a
                        // further attempt with the same packets can succeed.
                        if refusals >= MAX_REFUSALS || transmit.segment_size.is_none() {
                            self.sent.set(end);
                        }
                        refusals += 1;
                    }
                    // All retries failed, so this packet caused the error, and not an earlier packet.
                    IoFailure::Earlier if error.kind() == io::ErrorKind::HostUnreachable => {
                        return Poll::Ready(Err(error));
                    }
                    IoFailure::NoRoute => return Poll::Ready(Err(error)),
                    // The host does not accept the packet, so the packet counts as lost.
                    IoFailure::Earlier | IoFailure::Lost => self.sent.set(end),
                },
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Returns the index of the socket that sends from `source` to `target`, and the socket.
    fn socket_for(&self, source: IpAddr, target: IpAddr) -> Option<(usize, &UdpSocket)> {
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
        if reports.len() < MAX_REPORTS {
            reports.push_back((socket, report));
        }
    }

    pub(super) fn has_more(&self) -> bool {
        let received = self.received.borrow();
        received.next < received.count
    }

    pub(super) fn poll_recv(&self, cx: &mut Context<'_>, batch: &mut RecvBatch) -> Poll<io::Result<()>> {
        loop {
            if self.take_report(batch) || self.take_received(batch) {
                return Poll::Ready(Ok(()));
            }
            let mut progress = false;
            for turn in 0..self.sockets.len() {
                let number = (self.turn.get() + turn) % self.sockets.len();
                progress |= self.read_error_queue(cx, number) || self.receive(cx, number)?;
                if progress {
                    self.turn.set(number + 1);
                    break;
                }
            }
            if !progress {
                return Poll::Pending;
            }
        }
    }

    /// Reads the datagrams that wait in a socket. Returns false if no datagram waits; in that case the next datagram
    /// wakes the task.
    fn receive(&self, cx: &mut Context<'_>, number: usize) -> io::Result<bool> {
        let bound = &self.sockets[number];
        let mut received = self.received.borrow_mut();
        let Received { storage, trains, long, metas, socket, next, count } = &mut *received;
        loop {
            match bound.socket.poll_recv_ready(cx) {
                Poll::Pending => return Ok(false),
                Poll::Ready(ready) => ready?,
            }
            let most = if *long { TRAINS } else { BUFFERS };
            let mut pieces = storage.chunks_mut(BUFFER_BYTES);
            let mut whole = trains.iter_mut();
            let mut buffers: [IoSliceMut<'_>; BUFFERS] = std::array::from_fn(|_| {
                let buffer = if *long { whole.next().map(Received::whole) } else { pieces.next() };
                IoSliceMut::new(buffer.unwrap_or_default())
            });
            let state = bound.state.borrow();
            let call = || state.recv((&*bound.socket).into(), &mut buffers[..most], &mut metas[..most]);
            let got = bound.socket.try_io(Interest::READABLE, call);
            match got {
                Ok(0) => {}
                Ok(got) => {
                    (*socket, *next, *count) = (number, 0, got);
                    self.busy_poll.received(metas[..got].iter().map(|meta| meta.len).sum());
                    if got < most {
                        // The call returned fewer datagrams than it could, so the socket is empty. Its readiness may be
                        // cleared, because the next datagram to arrive causes a new event.
                        let nothing = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
                        let _ = bound.socket.try_io(Interest::READABLE, nothing);
                    }
                    return Ok(true);
                }
                Err(error) => match IoFailure::of(&error) {
                    IoFailure::Invalid | IoFailure::TooLarge if error.kind() != io::ErrorKind::WouldBlock => {
                        return Err(error);
                    }
                    // No datagram has arrived, or the error is an ICMP report, which is also in the error queue.
                    _ => {}
                },
            }
        }
    }

    /// Reads the error queue of a socket if it may contain a report. Returns whether the queue was read.
    fn read_error_queue(&self, cx: &mut Context<'_>, number: usize) -> bool {
        let bound = &self.sockets[number];
        if bound.poll_error_queue(cx).is_pending() {
            return false;
        }
        self.drain(number);
        // The result is true even if the queue was empty, because it makes the caller poll again. That poll gives the
        // new readiness future a waker.
        true
    }

    /// Reads all ICMP reports of a socket. Returns the MTU if a packet was too large to be sent.
    fn drain(&self, number: usize) -> Option<u32> {
        let mut found = VecDeque::new();
        let mtu = reports::drain(self.sockets[number].socket.as_fd(), &mut found);
        for report in found {
            self.report(number, report);
        }
        mtu
    }

    fn take_report(&self, batch: &mut RecvBatch) -> bool {
        let Some((number, report)) = self.reports.borrow_mut().pop_front() else { return false };
        let ip = self.sockets[number].ip;
        // The kernel does not report the source address of the quoted packet. If the socket is not bound to an address,
        // the first address that fits the target is used.
        let source =
            if ip.is_unspecified() { self.addresses.first_for(report.target.ip()).unwrap_or(ip) } else { ip };
        batch.clear();
        batch.put_segments(&report.quoted, report.quoted.len());
        batch.icmp = Some(report.icmp(source));
        // `report` does not contain the sender of the ICMP message. The source of the batch is the peer to which the
        // quoted packet was sent.
        (batch.source, batch.target) = (report.target, SocketAddr::new(source, self.port));
        true
    }

    fn take_received(&self, batch: &mut RecvBatch) -> bool {
        let mut received = self.received.borrow_mut();
        let Received { storage, trains, long, metas, socket, next, count } = &mut *received;
        while *next < *count {
            let number = *next;
            *next += 1;
            let meta = &metas[number];
            if meta.len == 0 || meta.stride == 0 {
                continue;
            }
            let length = meta.len.min(BUFFER_BYTES);
            batch.clear();
            if *long {
                trains[number].truncate(HEADROOM + length);
                batch.put_train(&mut trains[number], HEADROOM, meta.stride);
            } else {
                let begin = number * BUFFER_BYTES;
                batch.put_segments(&storage[begin..begin + length], meta.stride);
            }
            if *next == *count {
                *long = metas[..*count].iter().any(|meta| meta.len >= LONG);
            }
            let target = meta.dst_ip.unwrap_or(self.sockets[*socket].ip);
            batch.source = meta.addr;
            batch.target = SocketAddr::new(target, self.port);
            batch.ecn = meta.ecn.map_or(Ecn::NotEct, |ecn| Ecn::from_bits(ecn as u8));
            return true;
        }
        false
    }
}

impl Received {
    /// Resizes the buffer `train` to the largest size of a train. Returns the part of the buffer after the headroom.
    /// Bytes of the previous train are not cleared.
    fn whole(train: &mut Vec<u8>) -> &mut [u8] {
        train.resize(HEADROOM + BUFFER_BYTES, 0);
        &mut train[HEADROOM..]
    }
}

impl<'a> Packets<'a> {
    fn of(batch: &'a SendBatch) -> Self {
        Self {
            source: batch.source.ip(),
            target: batch.target,
            ecn: batch.ecn,
            may_fragment: batch.may_fragment,
            stride: batch.stride(),
            bytes: batch.bytes(),
        }
    }

    fn in_train(train: &'a Train) -> Self {
        let Train { source, target, ecn, stride, bytes } = train;
        Self { source: *source, target: *target, ecn: *ecn, may_fragment: false, stride: *stride, bytes }
    }
}

/// The maximum number of buffers per receive call; the maximum of `quinn-udp`. A buffer holds one datagram or one
/// train.
const BUFFERS: usize = 32;
/// The maximum number of trains (packets that the kernel has joined) per receive call. The number is small, so that the
/// trains and the data made from them fit into the inner CPU caches.
const TRAINS: usize = 4;
/// A read of at least this many bytes counts as a train of joined packets. The receiver takes the train's buffer
/// without a copy, so a new buffer must be cleared for the next read. For fewer bytes, copying is faster.
const LONG: usize = 32 * 1024;
/// The maximum number of packets in one call of `sendmmsg`. Each packet has a buffer of its own, and GSO is not used.
const MAX_MESSAGES: usize = 64;
/// The size in bytes of a receive buffer. The packets that GRO joins are together no longer than the largest UDP
/// payload.
const BUFFER_BYTES: usize = 65_536;
/// The maximum number of bytes per send call. They fit in one UDP packet over both IPv4 and IPv6.
const LARGEST_PIECE: usize = LARGEST_PACKET as usize - 48;
/// The maximum number of ICMP reports that wait for the receiver.
const MAX_REPORTS: usize = 64;
/// The maximum number of times that sending a packet is tried again.
const MAX_REFUSALS: usize = 3;
