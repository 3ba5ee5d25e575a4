//! The world of programs on one virtual host.
//!
//! Implements the seam of `anabranch-world`: what a program asks for goes
//! straight into the network's state, which is borrowed only while a call
//! lasts and never while a task runs.

use crate::events::Owner;
use crate::executor::Task;
use crate::host::{Arrived, Socket, TimerState, Waiter};
use crate::network::{Shared, State};
use crate::parcel::Parcel;
use anabranch_base::engine::HEADROOM;
use anabranch_base::{Batch, Instant, Rng};
use anabranch_wire::ip::{self, protocol, v4, v6};
use anabranch_wire::udp;
use anabranch_world::{Datagrams, Local, Timer, Work, World};
use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::{Context, Poll};

/// The world as programs on one host see it.
pub struct SimWorld {
    shared: Rc<Shared>,
    node: u32,
    /// Changes of addresses this handle has told of.
    seen: Cell<u64>,
}

impl SimWorld {
    pub(crate) fn new(shared: Rc<Shared>, node: u32) -> Self {
        let seen = Cell::new(shared.state.borrow().nodes[node as usize].address_changes);
        Self { shared, node, seen }
    }

    /// The host's name.
    #[must_use]
    pub fn name(&self) -> String {
        self.shared.state.borrow().nodes[self.node as usize].name.clone()
    }
}

impl Clone for SimWorld {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), node: self.node, seen: self.seen.clone() }
    }
}

impl fmt::Debug for SimWorld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimWorld").field("node", &self.node).finish_non_exhaustive()
    }
}

impl World for SimWorld {
    type Socket = SimSocket;
    type Timer = SimTimer;
    type Task<T: 'static> = Task<T>;

    #[inline]
    fn now(&self) -> Instant {
        self.shared.now.get()
    }

    fn timer(&self) -> SimTimer {
        let mut state = self.shared.state.borrow_mut();
        let state = &mut *state;
        let slot = state.events.open(Owner::Timer(state.timers.next_place()));
        let index = state.timers.insert(TimerState { slot, waiter: Waiter::default() });
        SimTimer { shared: self.shared.clone(), index, at: None }
    }

    fn spawn<T: 'static>(&self, name: &'static str, task: impl Future<Output = T> + 'static) -> Task<T> {
        Task::start(&self.shared.executor, self.node, name, task)
    }

    fn rng(&self, label: &str) -> Rng {
        self.shared.rng.fork(&format!("host/{}", self.name())).fork(label)
    }

    fn addresses(&self) -> Vec<IpAddr> {
        let state = self.shared.state.borrow();
        state.nodes[self.node as usize].addresses.iter().map(|(address, _)| *address).collect()
    }

    fn poll_address_change(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.shared.state.borrow_mut();
        let node = &mut state.nodes[self.node as usize];
        if node.address_changes != self.seen.replace(node.address_changes) {
            return Poll::Ready(());
        }
        if !node.address_wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            node.address_wakers.push(cx.waker().clone());
        }
        Poll::Pending
    }

    fn charge(&self, work: Work) {
        match work {
            Work::Connection => self.shared.state.borrow_mut().charge_connection(self.node),
        }
    }

    async fn bind(&self, at: Local) -> io::Result<SimSocket> {
        let index = self.shared.state.borrow_mut().bind(self.node, at)?;
        Ok(SimSocket { shared: self.shared.clone(), index })
    }
}

/// A timer of a virtual host.
pub struct SimTimer {
    shared: Rc<Shared>,
    index: u32,
    at: Option<Instant>,
}

impl Timer for SimTimer {
    #[inline]
    fn set(&mut self, at: Option<Instant>) {
        if self.at == at {
            return;
        }
        self.at = at;
        let mut state = self.shared.state.borrow_mut();
        let State { timers, events, now, .. } = &mut *state;
        if let Some(timer) = timers.at(self.index) {
            // What is due already needs no event: the next poll sees it.
            events.set(timer.slot, at.filter(|at| at > now));
            if at.is_some_and(|at| at <= *now) {
                timer.waiter.wake();
            }
        }
    }

    #[inline]
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.at.is_some_and(|at| at <= self.shared.now.get()) {
            self.at = None;
            return Poll::Ready(());
        }
        if let Some(timer) = self.shared.state.borrow_mut().timers.at(self.index) {
            timer.waiter.wait(cx);
        }
        Poll::Pending
    }
}

impl Drop for SimTimer {
    fn drop(&mut self) {
        let removed = {
            let mut state = self.shared.state.borrow_mut();
            let removed = state.timers.remove(self.index);
            if let Some(timer) = &removed {
                state.events.close(timer.slot);
            }
            removed
        };
        drop(removed);
    }
}

impl fmt::Debug for SimTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimTimer").field("at", &self.at).finish_non_exhaustive()
    }
}

/// A socket of a virtual host.
pub struct SimSocket {
    shared: Rc<Shared>,
    index: u32,
}

impl Datagrams for SimSocket {
    #[inline]
    fn poll_send(&self, _cx: &mut Context<'_>, batch: &mut Batch) -> Poll<io::Result<()>> {
        if batch.is_empty() {
            return Poll::Ready(Ok(()));
        }
        Poll::Ready(self.shared.state.borrow_mut().send(self.index, batch))
    }

    #[inline]
    fn poll_recv(&self, cx: &mut Context<'_>, batch: &mut Batch) -> Poll<io::Result<()>> {
        let mut state = self.shared.state.borrow_mut();
        let State { sockets, pool, .. } = &mut *state;
        let Some(socket) = sockets.at(self.index) else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        let Some(arrived) = socket.queue.pop_front() else {
            socket.waiter.wait(cx);
            return Poll::Pending;
        };
        socket.queued_bytes -= arrived.parcel.buffer.len();
        pool.give(hand_over(arrived, socket.local, batch));
        Poll::Ready(Ok(()))
    }

    fn local(&self) -> Vec<SocketAddr> {
        let mut state = self.shared.state.borrow_mut();
        let State { sockets, nodes, .. } = &mut *state;
        let Some(socket) = sockets.at(self.index) else { return Vec::new() };
        let port = port_of(socket.local);
        let addresses = &nodes[socket.node as usize].addresses;
        addresses.iter().map(|(address, _)| SocketAddr::new(*address, port)).collect()
    }

    fn mtu(&self, source: IpAddr) -> u32 {
        let mut state = self.shared.state.borrow_mut();
        let State { sockets, nodes, directions, .. } = &mut *state;
        let node = sockets.at(self.index).map(|socket| &nodes[socket.node as usize]);
        let out = node.and_then(|node| {
            let interface = node.interface_of(source).unwrap_or(0);
            node.interfaces.get(interface as usize)?.out
        });
        out.map_or(DEFAULT_MTU, |out| directions[out as usize].mtu)
    }

    fn max_segments(&self) -> usize {
        1
    }
}

impl Drop for SimSocket {
    fn drop(&mut self) {
        let closed = self.shared.state.borrow_mut().close(self.index);
        drop(closed);
    }
}

impl fmt::Debug for SimSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimSocket").field("index", &self.index).finish_non_exhaustive()
    }
}

/// Moves what arrived into `batch`; returns the buffer the batch held.
#[inline]
fn hand_over(arrived: Arrived, local: Local, batch: &mut Batch) -> Vec<u8> {
    let Arrived { parcel, payload, report } = arrived;
    let addresses = ip::addresses(parcel.bytes());
    let mut ecn = ip::ecn::read(parcel.bytes());
    let (tag, payload_at) = (parcel.tag, payload as usize);
    let (mut source_port, mut target_port) = (0, 0);
    if let (Local::Udp { port }, None) = (local, &report) {
        // The UDP header stands right before the payload.
        let header = &parcel.buffer[payload_at - udp::HEADER_LEN..];
        source_port = u16::from_be_bytes([header[0], header[1]]);
        target_port = port;
    }
    // Only whole, verified packets get here.
    let Some((mut source, mut target)) = addresses else {
        return batch.put_buffer(parcel.buffer, payload_at);
    };
    batch.icmp = report.as_deref().map(|report| {
        // As if the peer had sent it: that is whom it is about.
        (source, source_port) = (report.icmp.target, report.target_port);
        (target, target_port) = (report.icmp.source, report.source_port);
        ecn = anabranch_base::Ecn::NotEct;
        report.icmp
    });
    batch.source = SocketAddr::new(source, source_port);
    batch.target = SocketAddr::new(target, target_port);
    batch.ecn = ecn;
    batch.first_tag = tag;
    batch.put_buffer(parcel.buffer, payload_at)
}

impl State {
    /// Binds a socket on all of a host's addresses.
    fn bind(&mut self, node: u32, at: Local) -> io::Result<u32> {
        let host = &mut self.nodes[node as usize];
        let index = self.sockets.next_place();
        let local = match at {
            Local::Ip { protocol: protocol::ICMP | protocol::ICMPV6 | protocol::UDP } => {
                return Err(io::Error::new(
                    io::ErrorKind::Unsupported,
                    "the host itself speaks this protocol",
                ));
            }
            Local::Ip { protocol } => {
                if host.protocols.iter().any(|(taken, _)| *taken == protocol) {
                    return Err(io::ErrorKind::AddrInUse.into());
                }
                host.protocols.push((protocol, index));
                at
            }
            Local::Udp { port } => {
                let port = match port {
                    0 => (FIRST_EPHEMERAL..=u16::MAX).find(|port| !host.ports.contains_key(port)),
                    port => Some(port).filter(|port| !host.ports.contains_key(port)),
                };
                let Some(port) = port else { return Err(io::ErrorKind::AddrInUse.into()) };
                host.ports.insert(port, index);
                Local::Udp { port }
            }
        };
        let waiter = Waiter::default();
        Ok(self.sockets.insert(Socket { node, local, queue: VecDeque::new(), queued_bytes: 0, waiter }))
    }

    fn close(&mut self, index: u32) -> Option<Socket> {
        let mut socket = self.sockets.remove(index)?;
        let host = &mut self.nodes[socket.node as usize];
        match socket.local {
            Local::Ip { protocol } => host.protocols.retain(|(bound, _)| *bound != protocol),
            Local::Udp { port } => {
                host.ports.remove(&port);
            }
        }
        while let Some(arrived) = socket.queue.pop_front() {
            self.discard(arrived.parcel);
        }
        Some(socket)
    }

    /// Sends every packet of `batch`.
    #[inline]
    fn send(&mut self, socket: u32, batch: &mut Batch) -> io::Result<()> {
        let Some(socket) = self.sockets.at(socket) else { return Err(io::ErrorKind::NotConnected.into()) };
        let (node, local) = (socket.node, socket.local);
        let (source, interface) = match self.source(node, batch) {
            Ok(found) => found,
            Err(error) => {
                batch.clear();
                return Err(error);
            }
        };
        let Some(interface) = interface else {
            // No way there: the network loses it.
            self.nodes[node as usize].counters.no_route += batch.len() as u64;
            batch.clear();
            return Ok(());
        };
        let (target, ecn, first_tag) = (batch.target, batch.ecn, batch.first_tag);
        let source = SocketAddr::new(source, port_of(local));
        let loops_back = self.nodes[node as usize].interface_of(target.ip()).is_some();
        let header = Header { source, target, ecn, local, loops_back };
        if batch.len() == 1 {
            let (buffer, start) = batch.take_buffer(self.pool.take());
            self.send_one(node, interface, header, buffer, start, first_tag);
            return Ok(());
        }
        for (index, segment) in (0..).zip(batch.segments()) {
            let mut buffer = self.pool.take();
            buffer.clear();
            buffer.resize(HEADROOM, 0);
            buffer.extend_from_slice(segment);
            let tag = if first_tag == 0 { 0 } else { first_tag + index };
            self.send_one(node, interface, header, buffer, HEADROOM, tag);
        }
        batch.clear();
        Ok(())
    }

    /// The source address and the interface of what `batch` holds; no
    /// interface when there is no way.
    #[inline]
    fn source(&mut self, node: u32, batch: &Batch) -> io::Result<(IpAddr, Option<u32>)> {
        let (source, target) = (batch.source.ip(), batch.target.ip());
        let host = &mut self.nodes[node as usize];
        if source.is_unspecified() {
            // RFC 1122 §3.3.4.3: the host chooses an address of the interface it sends from.
            let interface = match host.interface_of(target) {
                Some(own) => Some(own),
                None => host.route(target),
            };
            let address = interface.and_then(|interface| host.address_like(target, interface));
            return Ok(address.map_or((source, None), |address| (address, interface)));
        }
        if source.is_ipv4() != target.is_ipv4() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "source and target of different families",
            ));
        }
        match host.interface_of(source) {
            Some(interface) => Ok((source, Some(interface))),
            None => Err(io::Error::new(
                io::ErrorKind::AddrNotAvailable,
                format!("{source} is no address of '{}'", host.name),
            )),
        }
    }

    /// Puts the headers in front of `buffer[start..]` and lets the packet leave.
    #[inline]
    fn send_one(
        &mut self,
        node: u32,
        interface: u32,
        header: Header,
        mut buffer: Vec<u8>,
        mut start: usize,
        tag: u64,
    ) {
        if start < HEADROOM {
            // A received packet sent on: not enough room in front.
            let missing = HEADROOM - start;
            buffer.splice(0..0, std::iter::repeat_n(0, missing));
            start = HEADROOM;
        }
        if let Local::Udp { .. } = header.local {
            start -= udp::HEADER_LEN;
        }
        // 16-bit lengths: nothing larger can be an IP packet.
        if buffer.len() - start > LARGEST_PAYLOAD {
            self.nodes[node as usize].counters.too_big += 1;
            return self.pool.give(buffer);
        }
        let protocol = match header.local {
            Local::Udp { .. } => {
                udp::emit_in_place(&mut buffer[start..], header.source, header.target);
                protocol::UDP
            }
            Local::Ip { protocol } => protocol,
        };
        let length = (buffer.len() - start) as u16;
        match (header.source.ip(), header.target.ip()) {
            (IpAddr::V4(source), IpAddr::V4(target)) => {
                start -= v4::HEADER_LEN;
                let host = &mut self.nodes[node as usize];
                host.identification = host.identification.wrapping_add(1);
                let mut ip = v4::Header::new(source, target, protocol, length);
                ip.identification = host.identification;
                ip.ecn = header.ecn;
                ip.emit(&mut buffer[start..]);
            }
            (IpAddr::V6(source), IpAddr::V6(target)) => {
                start -= v6::HEADER_LEN;
                let mut ip = v6::Header::new(source, target, protocol, length);
                ip.ecn = header.ecn;
                ip.emit(&mut buffer[start..]);
            }
            // `source` has seen to it that the families agree.
            _ => return self.pool.give(buffer),
        }
        let parcel = Parcel { buffer, start: start as u32, tag };
        if header.loops_back {
            // To itself: neither a link nor the processor has to do with it.
            self.nodes[node as usize].counters.sent += 1;
            return self.receive(node, interface, parcel);
        }
        self.originate(node, interface, parcel);
    }
}

/// What the headers of a packet need to know.
#[derive(Clone, Copy)]
struct Header {
    source: SocketAddr,
    target: SocketAddr,
    ecn: anabranch_base::Ecn,
    local: Local,
    /// The target is one of the host's own addresses.
    loops_back: bool,
}

fn port_of(local: Local) -> u16 {
    match local {
        Local::Ip { .. } => 0,
        Local::Udp { port } => port,
    }
}

/// What an interface without a link takes.
const DEFAULT_MTU: u32 = 1500;
/// RFC 6335 §6: the dynamic ports begin here.
const FIRST_EPHEMERAL: u16 = 49_152;
/// Bytes after the IP header at most, in either version.
const LARGEST_PAYLOAD: usize = 65_535 - v4::HEADER_LEN;
