//! [`SimWorld`]: the `World` of the programs on one virtual host.
//!
//! Implements the traits of `anabranch-world`. When a program calls a function of these traits, the call changes the
//! state of the network directly. The call borrows the network's state. No other borrow exists at that time, because
//! the executor holds none while it polls a task.

use crate::events::Owner;
use crate::executor::Task;
use crate::host::{Flow, Socket, TimerState};
use crate::packet_buf::PacketBuf;
use crate::state::{Shared, State};
use crate::topology::Node;
use anabranch_base::batch::HEADROOM;
use anabranch_base::{Ecn, Instant, RecvBatch, Rng, SendBatch};
use anabranch_wire::ip::fragment::Fragmenter;
use anabranch_wire::ip::{self, protocol, v4, v6};
use anabranch_wire::udp;
use anabranch_world::{DatagramSocket, Local, Timer, Waiter, Work, World};
use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::{Context, Poll};

/// The handle of a virtual host, through which the host's programs use the network.
pub struct SimWorld {
    shared: Rc<Shared>,
    node: u32,
    /// The number of address changes that this handle has reported to its program.
    reported_changes: Cell<u64>,
}

impl SimWorld {
    pub(crate) fn new(shared: Rc<Shared>, node: u32) -> Self {
        let reported_changes = Cell::new(shared.state.borrow().nodes[node as usize].address_changes);
        Self { shared, node, reported_changes }
    }

    /// Returns the name of the host.
    #[must_use]
    pub fn name(&self) -> String {
        self.shared.state.borrow().nodes[self.node as usize].name.clone()
    }
}

impl Clone for SimWorld {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), node: self.node, reported_changes: self.reported_changes.clone() }
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
        if node.address_changes != self.reported_changes.replace(node.address_changes) {
            return Poll::Ready(());
        }
        if !node.address_wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            node.address_wakers.push(cx.waker().clone());
        }
        Poll::Pending
    }

    fn charge(&self, work: Work) {
        self.shared.state.borrow_mut().charge(self.node, work);
    }

    async fn bind(&self, at: Local) -> io::Result<SimSocket> {
        let index = self.shared.state.borrow_mut().bind(self.node, at)?;
        Ok(SimSocket { shared: self.shared.clone(), index })
    }
}

/// Implements [`World`] for a type with a field `world`, which is a [`SimWorld`]. Tests use this macro for host types
/// that also simulate a kernel's sockets or a name resolver.
#[macro_export]
macro_rules! world_of_field {
    ($host:ty) => {
        impl ::anabranch_world::World for $host {
            type Socket = <$crate::SimWorld as ::anabranch_world::World>::Socket;
            type Timer = <$crate::SimWorld as ::anabranch_world::World>::Timer;
            type Task<T: 'static> = <$crate::SimWorld as ::anabranch_world::World>::Task<T>;

            fn now(&self) -> ::anabranch_base::Instant {
                self.world.now()
            }

            fn timer(&self) -> Self::Timer {
                self.world.timer()
            }

            fn spawn<T: 'static>(
                &self,
                name: &'static str,
                task: impl Future<Output = T> + 'static,
            ) -> Self::Task<T> {
                self.world.spawn(name, task)
            }

            fn rng(&self, label: &str) -> ::anabranch_base::Rng {
                self.world.rng(label)
            }

            fn addresses(&self) -> Vec<::std::net::IpAddr> {
                self.world.addresses()
            }

            fn poll_address_change(&self, cx: &mut ::std::task::Context<'_>) -> ::std::task::Poll<()> {
                self.world.poll_address_change(cx)
            }

            async fn bind(&self, at: ::anabranch_world::Local) -> ::std::io::Result<Self::Socket> {
                self.world.bind(at).await
            }
        }
    };
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
            // A timer that is already due needs no event, because the task is woken and its next poll finds the timer
            // due.
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

impl DatagramSocket for SimSocket {
    #[inline(always)]
    fn poll_send(&self, _cx: &mut Context<'_>, batch: &mut SendBatch) -> Poll<io::Result<()>> {
        if batch.is_empty() {
            return Poll::Ready(Ok(()));
        }
        Poll::Ready(self.shared.state.borrow_mut().send(self.index, batch))
    }

    #[inline(always)]
    fn poll_recv(&self, cx: &mut Context<'_>, batch: &mut RecvBatch) -> Poll<io::Result<()>> {
        if self.shared.executor.programs.is_enabled() {
            self.shared.executor.mark_stack();
        }
        let mut state = self.shared.state.borrow_mut();
        let State { sockets, pool, .. } = &mut *state;
        let Some(socket) = sockets.at(self.index) else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        let Some(mut packet_buf) = socket.queue.pop_front() else {
            socket.waiter.wait(cx);
            return Poll::Pending;
        };
        socket.queued_bytes -= packet_buf.buffer.len() + packet_buf.shared.len();
        batch.drained = socket.queue.is_empty();
        if batch.drained {
            socket.waiter.wait(cx);
        }
        if packet_buf.missing_checksum.is_some() && !batch.accepts_offloaded() {
            packet_buf.whole_bytes();
        }
        move_to_batch(&mut packet_buf, socket.local, batch);
        pool.give(packet_buf);
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

    /// A packet of an IP protocol gets its checksum only if a capture, a digest, corruption, fragmentation or a program
    /// that verifies checksums reads it.
    fn offloads_checksums(&self) -> bool {
        let mut state = self.shared.state.borrow_mut();
        let State { sockets, nodes, .. } = &mut *state;
        sockets.at(self.index).is_some_and(|socket| {
            matches!(socket.local, Local::Ip { .. }) && nodes[socket.node as usize].offloads_checksums
        })
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

/// Moves a received packet into `batch`. The packet gets the buffer that `batch` had before.
#[inline(always)]
fn move_to_batch(packet_buf: &mut PacketBuf, local: Local, batch: &mut RecvBatch) {
    let payload_at = packet_buf.payload as usize;
    if packet_buf.report.is_some() {
        return move_report_to_batch(packet_buf, batch);
    }
    let (mut source_port, mut target_port) = (0, 0);
    if let Local::Udp { port } = local {
        // In the buffer, the UDP header is directly in front of the payload.
        let header = &packet_buf.buffer[payload_at - udp::HEADER_LEN..];
        source_port = u16::from_be_bytes([header[0], header[1]]);
        target_port = port;
    }
    match packet_buf.bytes().first_chunk::<{ v4::HEADER_LEN }>() {
        Some(&[first, second, .., s0, s1, s2, s3, t0, t1, t2, t3]) if first >> 4 == 4 => {
            batch.source = SocketAddr::new(IpAddr::from([s0, s1, s2, s3]), source_port);
            batch.target = SocketAddr::new(IpAddr::from([t0, t1, t2, t3]), target_port);
            batch.ecn = Ecn::from_bits(second);
        }
        // The queue of a socket holds only complete, verified packets. So a packet that is not IPv4 is IPv6.
        _ => {
            if let Some((source, target)) = ip::addresses(packet_buf.bytes()) {
                batch.source = SocketAddr::new(source, source_port);
                batch.target = SocketAddr::new(target, target_port);
                batch.ecn = ip::ecn::read(packet_buf.bytes());
            }
        }
    }
    batch.icmp = None;
    // A UDP header has a checksum of its own, and says nothing about checksums in its payload.
    batch.intact = packet_buf.intact && batch.accepts_offloaded() && matches!(local, Local::Ip { .. });
    batch.first_tag = packet_buf.tag;
    batch.put_buffer(&mut packet_buf.buffer, payload_at);
    if !packet_buf.shared.is_empty() {
        batch.set_shared(std::mem::take(&mut packet_buf.shared));
    }
}

/// Moves an ICMP report into `batch`, as if it came from the peer to which the quoted packet was sent.
#[cold]
fn move_report_to_batch(packet_buf: &mut PacketBuf, batch: &mut RecvBatch) {
    let Some(report) = packet_buf.report.take() else { return };
    let payload_at = packet_buf.payload as usize;
    batch.icmp = Some(report.icmp);
    batch.source = SocketAddr::new(report.icmp.target, report.target_port);
    batch.target = SocketAddr::new(report.icmp.source, report.source_port);
    batch.ecn = Ecn::NotEct;
    batch.intact = false;
    batch.first_tag = packet_buf.tag;
    batch.put_buffer(&mut packet_buf.buffer, payload_at);
}

impl State {
    /// Binds a socket that receives at all addresses of the host `node`.
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
        let queue = VecDeque::new();
        Ok(self.sockets.insert(Socket { node, local, queue, queued_bytes: 0, waiter, flow: None }))
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
        while let Some(mut packet_buf) = socket.queue.pop_front() {
            packet_buf.report = None;
            self.discard(packet_buf);
        }
        Some(socket)
    }

    /// Sends every packet of `batch` and clears the batch.
    #[inline(always)]
    fn send(&mut self, index: u32, batch: &mut SendBatch) -> io::Result<()> {
        let State { sockets, nodes, .. } = self;
        let Some(socket) = sockets.at(index) else { return Err(io::ErrorKind::NotConnected.into()) };
        let node = socket.node;
        let host = &mut nodes[node as usize];
        if !socket.flow.as_ref().is_some_and(|flow| {
            same(&flow.ends.1, &batch.target)
                && same(&flow.ends.0, &batch.source)
                && flow.address_changes == host.address_changes
        }) {
            socket.flow = match find_flow(host, socket.local, batch) {
                Ok(flow) => flow,
                Err(error) => {
                    batch.clear();
                    return Err(error);
                }
            };
        }
        if !nodes[node as usize].output_rules.is_empty() && self.is_filtered(index, node, batch) {
            return self.refuse(index, batch);
        }
        if batch.may_fragment {
            batch.write_checksums();
            self.send_fragmentable(index, node, batch);
            return Ok(());
        }
        let State { pool, .. } = self;
        let (ecn, first_tag) = (batch.ecn, batch.first_tag);
        if batch.len() == 1 {
            let mut packet_buf = pool.take();
            packet_buf.set_missing_checksum(batch.missing_checksum);
            if let Some(shared) = batch.take_shared() {
                packet_buf.shared = shared;
            }
            packet_buf.start = batch.take_buffer(&mut packet_buf.buffer) as u32;
            packet_buf.tag = first_tag;
            self.send_one(index, node, ecn, packet_buf);
            return Ok(());
        }
        self.send_each(index, node, batch);
        Ok(())
    }

    /// Sends a batch that has several packets or none.
    #[cold]
    fn send_each(&mut self, index: u32, node: u32, batch: &mut SendBatch) {
        batch.write_checksums();
        let (ecn, first_tag) = (batch.ecn, batch.first_tag);
        for (number, segment) in (0..).zip(batch.segments()) {
            let mut packet_buf = self.pool.take_empty();
            packet_buf.buffer.extend_from_slice(segment);
            packet_buf.tag = if first_tag == 0 { 0 } else { first_tag + number };
            self.send_one(index, node, ecn, packet_buf);
        }
        batch.clear();
    }

    /// Sends packets that hosts and routers may fragment.
    #[cold]
    fn send_fragmentable(&mut self, socket: u32, node: u32, batch: &mut SendBatch) {
        for packet in batch.packets() {
            let State { sockets, nodes, directions, .. } = self;
            let host = &mut nodes[node as usize];
            let Some(flow) = sockets.at(socket).and_then(|socket| socket.flow.as_ref()) else {
                host.counters.no_route += 1;
                continue;
            };
            let (interface, loops_back) = (flow.interface, flow.loops_back);
            let mut buffer = vec![0; HEADROOM];
            buffer.extend_from_slice(packet.payload);
            let mut packet_buf = PacketBuf::new(buffer, HEADROOM, packet.tag);
            if !prepend_headers(flow, host, packet.ecn, &mut packet_buf) {
                continue;
            }
            packet_buf.whole_bytes();
            host.fragment_identification = host.fragment_identification.wrapping_add(1);
            let identification = host.fragment_identification;
            let mtu = host.interfaces[interface as usize]
                .out
                .map_or(DEFAULT_MTU, |out| directions[out as usize].mtu);
            let v4 = flow.template.is_some();
            if v4 {
                v4::allow_fragments(packet_buf.bytes_mut(), identification as u16);
            }
            if loops_back {
                host.counters.sent += 1;
                self.take_in(node, interface, packet_buf);
                continue;
            }
            // RFC 8200 §4.5, §5: only the sender fragments IPv6 packets. The sender does not know the path MTU, so it
            // fragments to the size that every link carries. IPv4 packets are fragmented by each router whose next link
            // cannot carry them.
            let limit = mtu.min(SMALLEST_V6_MTU) as usize;
            let pieces = if v4 || packet_buf.bytes().len() <= limit {
                None
            } else {
                Fragmenter::of(packet_buf.bytes(), limit, identification)
            };
            let Some(mut pieces) = pieces else {
                self.originate(node, interface, packet_buf);
                continue;
            };
            self.nodes[node as usize].counters.fragmented += 1;
            while let Some(piece) = self.next_fragment(&mut pieces, packet_buf.tag) {
                self.originate(node, interface, piece);
            }
            self.discard(packet_buf);
        }
        batch.clear();
    }

    /// Prepends the headers of the socket's flow to the packet and sends the packet.
    #[inline(always)]
    fn send_one(&mut self, socket: u32, node: u32, ecn: Ecn, mut packet_buf: PacketBuf) {
        let State { sockets, nodes, pool, .. } = self;
        let host = &mut nodes[node as usize];
        let Some(flow) = sockets.at(socket).and_then(|socket| socket.flow.as_ref()) else {
            // The host has no route to the target, so the packet is lost.
            host.counters.no_route += 1;
            return pool.give(packet_buf);
        };
        let (interface, loops_back) = (flow.interface, flow.loops_back);
        if !prepend_headers(flow, host, ecn, &mut packet_buf) {
            return pool.give(packet_buf);
        }
        if loops_back {
            // A packet for the host itself needs neither a link nor processor time.
            host.counters.sent += 1;
            return self.take_in(node, interface, packet_buf);
        }
        self.originate(node, interface, packet_buf);
    }
}

/// Compares two socket addresses, with a fast path for IPv4.
#[inline(always)]
fn same(one: &SocketAddr, other: &SocketAddr) -> bool {
    match (one, other) {
        (SocketAddr::V4(one), SocketAddr::V4(other)) => {
            one.ip().to_bits() == other.ip().to_bits() && one.port() == other.port()
        }
        _ => one == other,
    }
}

/// Determines the source address, interface and headers of packets from the source of `batch` to its target. Returns
/// `None` if the host has no route.
#[cold]
fn find_flow(host: &mut Node, local: Local, batch: &SendBatch) -> io::Result<Option<Flow>> {
    let (mut source, target) = (batch.source.ip(), batch.target.ip());
    let interface = if source.is_unspecified() {
        // RFC 1122 §3.3.4.3: without a source address from the sender, the host chooses an address of the outgoing
        // interface.
        let interface = match host.interface_of(target) {
            Some(own) => Some(own),
            None => host.route(target),
        };
        let Some(interface) = interface else { return Ok(None) };
        let Some(address) = host.source_address_for(target, interface) else { return Ok(None) };
        source = address;
        interface
    } else if source.is_ipv4() != target.is_ipv4() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "source and target of different families"));
    } else {
        host.interface_of(source).ok_or_else(|| {
            let text = format!("{source} is no address of '{}'", host.name);
            io::Error::new(io::ErrorKind::AddrNotAvailable, text)
        })?
    };
    let protocol = match local {
        Local::Udp { .. } => protocol::UDP,
        Local::Ip { protocol } => protocol,
    };
    let template = match (source, target) {
        (IpAddr::V4(source), IpAddr::V4(target)) => Some(v4::Template::new(source, target, protocol)),
        _ => None,
    };
    Ok(Some(Flow {
        ends: (batch.source, batch.target),
        source: SocketAddr::new(source, port_of(local)),
        protocol,
        interface,
        loops_back: host.interface_of(target).is_some(),
        // If the socket is not bound to an address, the host chooses the source address. A change of routes can change
        // this choice even if no address changes. `u64::MAX` never equals the host's count of address changes, so the
        // host chooses again for each batch.
        address_changes: if batch.source.ip().is_unspecified() { u64::MAX } else { host.address_changes },
        template,
    }))
}

/// Prepends the headers of `flow` to the packet. Returns false if the packet would be too large for IP.
#[inline(always)]
fn prepend_headers(flow: &Flow, host: &mut Node, ecn: Ecn, packet_buf: &mut PacketBuf) -> bool {
    let mut start = packet_buf.start as usize;
    let is_udp = flow.protocol == protocol::UDP;
    if is_udp {
        packet_buf.set_missing_checksum(host.offloads_checksums.then_some(udp::write_checksum));
    }
    if is_udp || flow.template.is_none() {
        packet_buf.join();
    }
    let content = packet_buf.content();
    let buffer = &mut content.buffer;
    if start < HEADROOM {
        make_room(buffer, start);
        start = HEADROOM;
    }
    if is_udp {
        start -= udp::HEADER_LEN;
    }
    // The length field of an IP header has 16 bits.
    let length = buffer.len() - start + content.shared.len();
    if length > LARGEST_PAYLOAD {
        host.counters.too_big += 1;
        return false;
    }
    if is_udp {
        let datagram = &mut buffer[start..];
        if host.offloads_checksums {
            udp::emit_without_checksum(datagram, flow.source.port(), flow.ends.1.port());
        } else {
            udp::emit_in_place(datagram, flow.source, flow.ends.1);
        }
    }
    let length = length as u16;
    if let Some(template) = &flow.template {
        start -= v4::HEADER_LEN;
        host.identification = host.identification.wrapping_add(1);
        if let Some(header) = buffer[start..].first_chunk_mut() {
            template.emit(header, length, host.identification, ecn);
        }
        content.start = start as u32;
        return true;
    }
    match (flow.source.ip(), flow.ends.1.ip()) {
        (IpAddr::V6(source), IpAddr::V6(target)) => {
            start -= v6::HEADER_LEN;
            let mut ip = v6::Header::new(source, target, flow.protocol, length);
            ip.ecn = ecn;
            ip.emit(&mut buffer[start..]);
            content.start = start as u32;
            true
        }
        // `find_flow` has checked that both addresses have the same IP version.
        _ => false,
    }
}

/// Extends the headroom before `buffer[start..]` to `HEADROOM` bytes.
#[cold]
fn make_room(buffer: &mut Vec<u8>, start: usize) {
    buffer.splice(0..0, std::iter::repeat_n(0, HEADROOM - start));
}

fn port_of(local: Local) -> u16 {
    match local {
        Local::Ip { .. } => 0,
        Local::Udp { port } => port,
    }
}

/// RFC 8200 §5: the minimum MTU of links that carry IPv6.
const SMALLEST_V6_MTU: u32 = 1280;
/// The MTU in bytes of an interface without a link.
const DEFAULT_MTU: u32 = 1500;
/// RFC 6335 §6: the first dynamic port.
const FIRST_EPHEMERAL: u16 = 49_152;
/// The maximum number of bytes after the IP header. The limit of IPv4 is also used for IPv6.
const LARGEST_PAYLOAD: usize = 65_535 - v4::HEADER_LEN;
