//! Several threads ("shards") behind one UDP port or one IP protocol. This module opens their sockets, and passes
//! packets from one shard to another.
//!
//! Each shard has its own `OsWorld` and socket. The kernel delivers each packet to the socket of the shard that owns
//! the packet's association or connection (module `steer`). A shard that receives a packet of another shard passes it
//! on. There are three such cases:
//! - packets of several associations that were joined into one train (GRO)
//! - packets whose owner is found by address (see [`Steering`])
//! - ICMP reports, which the kernel delivers to any socket of a UDP port
//!
//! For raw sockets, the kernel delivers each ICMP report to all shards. Each shard handles the reports about its own
//! associations and connections, and ignores the others.

use super::addresses::Addresses;
use super::ports::SharedPorts;
use super::raw::{self, Raw};
use super::udp::Udp;
use super::{OsSocket, OsWorld, bind, steer};
use crate::steering::{Steering, SteeringField};
use crate::{DatagramSocket, PortRegistry};
use anabranch_base::{Ecn, Icmp, RecvBatch};
use nix::sys::socket::{setsockopt, sockopt};
use socket2::Socket;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The sockets of one shard, which are to be moved to the shard's thread. Several shards share the UDP port or the IP
/// protocol of these sockets.
#[derive(Debug)]
pub struct ReusePortSocket {
    index: usize,
    sockets: Sockets,
    group: Arc<Group>,
}

/// The sockets of a shard, by type.
#[derive(Debug)]
enum Sockets {
    /// A UDP port, with one socket for each address.
    Udp { port: u16, bound: Vec<(IpAddr, Socket)> },
    /// An IP protocol, with one socket for each IP version. The `bool` is true for the IPv4 socket.
    Raw { protocol: u8, opened: Vec<(bool, Socket)> },
}

/// The state that all shards behind one port or protocol share.
#[derive(Debug)]
pub struct Group {
    steering: Arc<dyn Steering>,
    inboxes: Vec<Inbox>,
    /// One registry of claimed ports for all shards. With separate registries, a port that one shard has claimed would
    /// look to the others as if another program used it.
    ports: Option<Arc<dyn PortRegistry>>,
    forwarded: AtomicU64,
    lost: AtomicU64,
}

impl Group {
    fn new(count: usize, steering: Arc<dyn Steering>, ports: Option<Arc<dyn PortRegistry>>) -> Arc<Self> {
        let inboxes = std::iter::repeat_with(Inbox::default).take(count).collect();
        Arc::new(Self { steering, inboxes, ports, forwarded: AtomicU64::new(0), lost: AtomicU64::new(0) })
    }

    /// Returns the number of packets and ICMP reports that were passed from one shard to another.
    #[must_use]
    pub fn forwarded(&self) -> u64 {
        self.forwarded.load(Ordering::Relaxed)
    }

    /// Returns the number of packets and ICMP reports that were dropped because the inbox of another shard was full.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// Binds a UDP port for `count` shards, at `addresses` or, if the list is empty, at all addresses of the host. The
/// result has one entry per shard, in order. For port 0, the host chooses a free port.
///
/// # Errors
/// The errors of [`World::bind`](crate::World::bind). `AddrInUse` is also returned if another program uses the port
/// with `SO_REUSEPORT`.
pub fn share_udp(
    addresses: &[IpAddr],
    port: u16,
    count: usize,
    steering: Arc<dyn Steering>,
) -> io::Result<Vec<ReusePortSocket>> {
    let (port, each) = open_udp(addresses, port, count, Some(steering.field()))?;
    let group = Group::new(count, steering, None);
    Ok(reuse_port_sockets(each.into_iter().map(|bound| Sockets::Udp { port, bound }), &group))
}

/// Like [`share_udp`], for packets whose content does not identify their shard. The kernel delivers all packets from
/// one remote address and port to the same socket.
///
/// # Errors
/// The errors of [`share_udp`].
pub fn share_udp_by_address(
    addresses: &[IpAddr],
    port: u16,
    count: usize,
) -> io::Result<Vec<ReusePortSocket>> {
    let (port, each) = open_udp(addresses, port, count, None)?;
    let group = Group::new(count, Arc::new(NoSteering), None);
    Ok(reuse_port_sockets(each.into_iter().map(|bound| Sockets::Udp { port, bound }), &group))
}

/// No steering: a packet is handled by the shard whose socket received it.
#[derive(Debug)]
struct NoSteering;

impl Steering for NoSteering {
    fn owner(&self, _: IpAddr, _: &[u8]) -> Option<u32> {
        None
    }

    fn owner_of_report(&self, _: &Icmp, _: &[u8]) -> Option<u32> {
        None
    }
}

/// The UDP sockets of one shard. All are bound to the same UDP port, each to its own address.
type Bound = Vec<(IpAddr, Socket)>;

/// Opens the sockets of `count` shards behind a UDP port, and returns them with the port. The kernel chooses the shard
/// of a packet by the packet field `steering_field`. If `steering_field` is `None`, the kernel chooses by the packet's
/// addresses.
fn open_udp(
    addresses: &[IpAddr],
    port: u16,
    count: usize,
    steering_field: Option<SteeringField>,
) -> io::Result<(u16, Vec<Bound>)> {
    // The first sockets are bound without `SO_REUSEPORT`, so that the bind fails if the port is in use.
    let (port, first) = bind::all(addresses, port)?;
    let mut each: Vec<Vec<_>> = std::iter::repeat_with(Vec::new).take(count).collect();
    for (ip, socket) in first {
        setsockopt(&socket, sockopt::ReusePort, &true)?;
        let others = (1..count).map(|_| bind::bind_one(SocketAddr::new(ip, port), true));
        let others = others.collect::<io::Result<Vec<_>>>()?;
        if count > 1
            && let Some(steering_field) = steering_field
        {
            match steering_field {
                SteeringField::VerificationTag => steer::by_tag(&socket, count as u32)?,
                SteeringField::ConnectionId => steer::by_connection_id(&socket, count as u32)?,
            }
        }
        for (sockets, socket) in each.iter_mut().zip(std::iter::once(socket).chain(others)) {
            sockets.push((ip, socket));
        }
    }
    Ok((port, each))
}

/// Opens raw sockets of an IP protocol for `count` shards, and returns one entry per shard, in order. The packets must
/// start with SCTP's common header. The sockets receive at `addresses` or, if the list is empty, at all addresses of
/// the host. Each shard gets its share of the packets.
///
/// # Errors
/// The errors of [`World::bind`](crate::World::bind).
pub fn share_raw(
    addresses: &[IpAddr],
    protocol: u8,
    count: usize,
    steering: Arc<dyn Steering>,
) -> io::Result<Vec<ReusePortSocket>> {
    let addresses = Addresses::new(addresses.to_vec())?;
    let each = raw::share(&addresses, protocol, count)?;
    let ports = SharedPorts::new(&addresses, protocol).ok();
    let group = Group::new(count, steering, ports.map(|ports| Arc::new(ports) as Arc<dyn PortRegistry>));
    Ok(reuse_port_sockets(each.into_iter().map(|opened| Sockets::Raw { protocol, opened }), &group))
}

fn reuse_port_sockets(each: impl Iterator<Item = Sockets>, group: &Arc<Group>) -> Vec<ReusePortSocket> {
    let shard_socket = |(index, sockets)| ReusePortSocket { index, sockets, group: group.clone() };
    each.enumerate().map(shard_socket).collect()
}

impl ReusePortSocket {
    /// Returns the port; 0 for an IP protocol, which has none.
    #[must_use]
    pub fn port(&self) -> u16 {
        match self.sockets {
            Sockets::Udp { port, .. } => port,
            Sockets::Raw { .. } => 0,
        }
    }

    /// Returns the index of the shard that uses these sockets, counted from 0.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the state that all shards share.
    #[must_use]
    pub fn group(&self) -> Arc<Group> {
        self.group.clone()
    }
}

impl OsWorld {
    /// Creates this thread's socket from the sockets that were opened for it. The addresses of this `OsWorld` must be
    /// the addresses for which the sockets were opened.
    ///
    /// # Errors
    /// The host provides no UDP offloads or no event queue.
    pub fn take_shared_socket(&self, shard_socket: ReusePortSocket) -> io::Result<OsSocket> {
        let ReusePortSocket { index, sockets, group } = shard_socket;
        let socket = match sockets {
            Sockets::Udp { port, bound } => OsSocket::Udp(Box::new(Udp::over(self, port, bound)?)),
            Sockets::Raw { protocol, opened } => {
                let (addresses, mark) = (self.inner.addresses.clone(), self.inner.mark);
                OsSocket::Raw(Box::new(Raw::over(addresses, protocol, mark, opened)?))
            }
        };
        let sorted = RefCell::new(vec![Vec::new(); group.inboxes.len()]);
        Ok(OsSocket::Shared(Box::new(ShardSocket {
            socket,
            index,
            group,
            from_others: Cell::new(false),
            sorted,
        })))
    }
}

/// The socket of one shard. The sockets of all shards have the same UDP port or, if they are raw, the same IP protocol.
#[derive(Debug)]
pub struct ShardSocket {
    /// The socket from which this shard reads.
    pub(super) socket: OsSocket,
    index: usize,
    group: Arc<Group>,
    /// Whether the last batch was passed on by another shard.
    from_others: Cell<bool>,
    /// A buffer for each shard, used to divide the packets of one receive among their shards.
    sorted: RefCell<Vec<Vec<u8>>>,
}

impl ShardSocket {
    pub(super) fn poll_recv(&self, cx: &mut Context<'_>, batch: &mut RecvBatch) -> Poll<io::Result<()>> {
        let inbox = &self.group.inboxes[self.index];
        loop {
            // The inbox and the socket are read alternately, so that neither delays the other for ever.
            if !self.from_others.replace(false) && inbox.take(batch) {
                self.from_others.set(true);
                return Poll::Ready(Ok(()));
            }
            match self.socket.poll_recv(cx, batch) {
                Poll::Ready(Ok(())) => {
                    self.forward_to_owners(batch);
                    if !batch.is_empty() {
                        return Poll::Ready(Ok(()));
                    }
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending if inbox.wait(cx) => return Poll::Pending,
                Poll::Pending => {}
            }
        }
    }

    pub(super) fn has_more(&self) -> bool {
        self.group.inboxes[self.index].filled.load(Ordering::Acquire) || self.socket.has_more()
    }

    pub(super) fn ports(&self) -> Option<Arc<dyn PortRegistry>> {
        self.group.ports.clone()
    }

    /// Leaves only this shard's packets in `batch`, and passes the other packets to their shards.
    fn forward_to_owners(&self, batch: &mut RecvBatch) {
        let Group { steering, inboxes, .. } = &*self.group;
        let within = |owner: Option<u32>| {
            owner.map_or(self.index, |owner| owner as usize).min(inboxes.len().saturating_sub(1))
        };
        let source = batch.source.ip();
        if let Some(icmp) = batch.icmp {
            let owner = steering.owner_of_report(&icmp, batch.segments().next().unwrap_or_default());
            // With raw sockets, every shard receives every ICMP report. If no shard owns a report, the first shard
            // handles it.
            let gets_every_packet = matches!(self.socket, OsSocket::Raw(_));
            let owner = within(if gets_every_packet { owner.or(Some(0)) } else { owner });
            if owner != self.index {
                if !gets_every_packet {
                    self.give(owner, batch, batch.bytes().to_vec(), 1);
                }
                batch.clear();
            }
            return;
        }
        let ours = |packet: &[u8]| within(steering.owner(source, packet)) == self.index;
        if batch.segments().all(ours) {
            return;
        }
        let mut sorted = self.sorted.borrow_mut();
        let stride = batch.stride();
        for packet in batch.segments() {
            let owner = within(steering.owner(source, packet));
            sorted[owner].extend_from_slice(packet);
        }
        for (owner, bytes) in sorted.iter_mut().enumerate() {
            if owner != self.index && !bytes.is_empty() {
                let count = bytes.len().div_ceil(stride);
                *bytes = self.give(owner, batch, std::mem::take(bytes), count);
            }
        }
        let (source, target, ecn) = (batch.source, batch.target, batch.ecn);
        batch.clear();
        let own_packets = &mut sorted[self.index];
        if !own_packets.is_empty() {
            batch.put_segments(own_packets, stride);
            (batch.source, batch.target, batch.ecn) = (source, target, ecn);
            own_packets.clear();
        }
    }

    /// Passes `count` packets, or one ICMP report, to the shard `owner`. They are lost if the shard's inbox is full.
    /// Returns an empty buffer to collect further packets.
    fn give(&self, owner: usize, like: &RecvBatch, bytes: Vec<u8>, count: usize) -> Vec<u8> {
        let RecvBatch { source, target, ecn, icmp, .. } = *like;
        let packets = PacketGroup { source, target, ecn, icmp, stride: like.stride(), bytes };
        match self.group.inboxes[owner].put(packets) {
            Ok(spare) => {
                self.group.forwarded.fetch_add(count as u64, Ordering::Relaxed);
                spare
            }
            Err(mut bytes) => {
                self.group.lost.fetch_add(count as u64, Ordering::Relaxed);
                bytes.clear();
                bytes
            }
        }
    }
}

/// The packets and ICMP reports that other shards have passed to one shard.
#[derive(Debug, Default)]
struct Inbox {
    /// Whether the inbox has packets or reports. This flag is read without taking the lock.
    filled: AtomicBool,
    contents: Mutex<InboxContents>,
}

#[derive(Debug, Default)]
struct InboxContents {
    groups: VecDeque<PacketGroup>,
    bytes: usize,
    /// Empty buffers, kept for further packets.
    spare: Vec<Vec<u8>>,
    waiting: Option<Waker>,
}

/// Packets with the same source, target and ECN mark; or one ICMP report.
#[derive(Debug)]
struct PacketGroup {
    source: SocketAddr,
    target: SocketAddr,
    ecn: Ecn,
    icmp: Option<Icmp>,
    stride: usize,
    bytes: Vec<u8>,
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, InboxContents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds `packets` to the inbox and wakes the receiving shard. Returns an empty buffer, or the bytes of `packets` if
    /// the inbox has no room.
    fn put(&self, packets: PacketGroup) -> Result<Vec<u8>, Vec<u8>> {
        let mut contents = self.lock();
        if contents.bytes + packets.bytes.len() > MAX_BYTES || contents.groups.len() >= MAX_GROUPS {
            return Err(packets.bytes);
        }
        contents.bytes += packets.bytes.len();
        contents.groups.push_back(packets);
        self.filled.store(true, Ordering::Release);
        let (waiting, spare) = (contents.waiting.take(), contents.spare.pop().unwrap_or_default());
        drop(contents);
        if let Some(waiting) = waiting {
            waiting.wake();
        }
        Ok(spare)
    }

    /// Replaces the content of `batch` with the oldest group of packets in the inbox. Returns false if the inbox is
    /// empty.
    fn take(&self, batch: &mut RecvBatch) -> bool {
        if !self.filled.load(Ordering::Acquire) {
            return false;
        }
        let mut contents = self.lock();
        let Some(PacketGroup { source, target, ecn, icmp, stride, mut bytes }) = contents.groups.pop_front()
        else {
            return false;
        };
        self.filled.store(!contents.groups.is_empty(), Ordering::Release);
        contents.bytes -= bytes.len();
        batch.clear();
        batch.put_segments(&bytes, stride);
        (batch.source, batch.target, batch.ecn, batch.icmp) = (source, target, ecn, icmp);
        if contents.spare.len() < MAX_SPARE {
            bytes.clear();
            contents.spare.push(bytes);
        }
        true
    }

    /// Registers the task to be woken when the inbox is filled. Returns false if the inbox is not empty.
    fn wait(&self, cx: &Context<'_>) -> bool {
        let mut contents = self.lock();
        let empty = contents.groups.is_empty();
        if empty && !contents.waiting.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            contents.waiting = Some(cx.waker().clone());
        }
        empty
    }
}

/// The maximum number of bytes that wait in the inbox of a shard, the same as in the buffer of a socket.
const MAX_BYTES: usize = 4 << 20;
const MAX_GROUPS: usize = 16_384;
const MAX_SPARE: usize = 64;
