//! A [`World`] of the operating system whose packets pass through a path emulator. The emulator can lose, delay,
//! reorder and capture packets, and can cut off addresses.
//!
//! The emulator is between our engine and the socket. It therefore affects both directions, as a network does, and
//! works with every layer below SCTP. It does not change the host's packet filters, so it needs no privilege. Packets
//! pass the emulator one by one.

use super::tun::TunSocket;
use crate::peer::Seen;
use anabranch_base::time::Duration;
use anabranch_base::{Ecn, Instant, Packet, PeerState, RecvBatch, Rng, SendBatch};
use anabranch_wire::ip::{v4, v6};
use anabranch_wire::pcap;
use anabranch_world::os::{OsSocket, OsTask, OsTimer, OsWorld};
use anabranch_world::{DatagramSocket, Local, Timer, World};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::future::Future;
use std::io::{self, BufWriter};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A path emulator: the impairments of packets, and statistics of them.
#[derive(Debug)]
pub struct PathEmulator {
    rng: RefCell<Rng>,
    /// The share of lost packets, per million.
    pub loss_ppm: Cell<u64>,
    /// The share of packets that are overtaken by later packets, per million.
    pub reorder_ppm: Cell<u64>,
    /// The additional delay of overtaken packets.
    pub reorder_delay: Cell<Duration>,
    /// The one-way delay of every packet.
    pub delay: Cell<Duration>,
    /// Addresses that are cut off: packets from and to them are lost.
    pub cut: RefCell<BTreeSet<IpAddr>>,
    /// The packets that our endpoint has sent, including those that the emulator drops.
    pub from_us: RefCell<Seen>,
    /// The packets that the foreign endpoint has sent, including those that the emulator drops.
    pub from_them: RefCell<Seen>,
    capture: RefCell<Option<pcap::Writer<BufWriter<File>>>>,
    dropped: Cell<u64>,
}

impl PathEmulator {
    /// Creates an emulator without impairments.
    #[must_use]
    pub fn new(seed: u64) -> Rc<Self> {
        Rc::new(Self {
            rng: RefCell::new(Rng::new(seed)),
            loss_ppm: Cell::new(0),
            reorder_ppm: Cell::new(0),
            reorder_delay: Cell::new(Duration::from_millis(5)),
            delay: Cell::new(Duration::ZERO),
            cut: RefCell::default(),
            from_us: RefCell::default(),
            from_them: RefCell::default(),
            capture: RefCell::new(None),
            dropped: Cell::new(0),
        })
    }

    /// Starts to capture packets in a file. Only the first bytes of each packet are kept.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn capture(&self, file: &Path) -> io::Result<()> {
        let mut writer = pcap::Writer::new(BufWriter::new(File::create(file)?), "anabranch-interop")?;
        writer.interface("road", SNAP as u32)?;
        *self.capture.borrow_mut() = Some(writer);
        Ok(())
    }

    /// Completes and closes the capture file.
    pub fn end_capture(&self) {
        if let Some(writer) = self.capture.borrow_mut().take() {
            let _ = writer.finish();
        }
    }

    /// Returns the number of lost packets.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.get()
    }

    /// Returns when a packet that is sent now arrives; `None` if it is lost.
    fn arrival(&self, now: Instant, packet: &DelayedPacket) -> Option<Instant> {
        self.note(now, packet);
        let cut = self.cut.borrow();
        let mut rng = self.rng.borrow_mut();
        let lost = cut.contains(&packet.source.ip())
            || cut.contains(&packet.target.ip())
            || (self.loss_ppm.get() > 0 && rng.below(1_000_000) < self.loss_ppm.get());
        if lost {
            self.dropped.set(self.dropped.get() + 1);
            return None;
        }
        let late = self.reorder_ppm.get() > 0 && rng.below(1_000_000) < self.reorder_ppm.get();
        Some(now + self.delay.get() + if late { self.reorder_delay.get() } else { Duration::ZERO })
    }

    fn see(&self, outward: bool, packet: &[u8]) {
        let seen = if outward { &self.from_us } else { &self.from_them };
        seen.borrow_mut().note(packet);
    }

    fn note(&self, now: Instant, packet: &DelayedPacket) {
        if packet.protocol == SCTP {
            self.see(packet.outward, &packet.bytes);
        }
        let mut capture = self.capture.borrow_mut();
        let Some(writer) = capture.as_mut() else { return };
        let encapsulated = packet.source.port() != 0 && packet.protocol != TCP;
        let (protocol, header) = if encapsulated { (17, 8) } else { (packet.protocol, 0) };
        let length = packet.bytes.len() + header;
        let mut whole = match (packet.source.ip(), packet.target.ip()) {
            (IpAddr::V4(source), IpAddr::V4(target)) => {
                let mut head = vec![0; v4::HEADER_LEN];
                v4::Header::new(source, target, protocol, length as u16).emit(&mut head);
                head
            }
            (IpAddr::V6(source), IpAddr::V6(target)) => {
                let mut head = vec![0; v6::HEADER_LEN];
                v6::Header::new(source, target, protocol, length as u16).emit(&mut head);
                head
            }
            _ => return,
        };
        if encapsulated {
            for field in [packet.source.port(), packet.target.port(), length as u16, 0] {
                whole.extend_from_slice(&field.to_be_bytes());
            }
        }
        whole.extend_from_slice(&packet.bytes);
        let original = whole.len();
        whole.truncate(SNAP);
        let direction = if packet.outward { pcap::Direction::Outbound } else { pcap::Direction::Inbound };
        let _ = writer.truncated_packet(0, now.as_nanos(), &whole, original, Some(direction), None);
    }
}

/// A world of the operating system whose packets pass through a path emulator.
#[derive(Clone, Debug)]
pub struct EmulatedWorld {
    os: OsWorld,
    /// The path emulator.
    pub path: Rc<PathEmulator>,
    /// The TUN device for TCP packets. Other packets go to a socket of the operating system.
    tun: Rc<RefCell<Option<TunSocket>>>,
    /// Whether UDP carries DTLS records, whose content the emulator cannot read.
    secure: bool,
}

impl EmulatedWorld {
    /// Creates a world of the operating system whose packets pass through `path`.
    #[must_use]
    pub fn new(os: OsWorld, path: Rc<PathEmulator>) -> Self {
        Self { os, path, tun: Rc::default(), secure: false }
    }

    /// Returns this world. If `secure` is set, the datagrams of its UDP sockets carry DTLS records.
    #[must_use]
    pub fn secured(self, secure: bool) -> Self {
        Self { secure, ..self }
    }

    /// Makes `tun` the socket that the next call to bind returns.
    pub fn put_tun(&self, tun: TunSocket) {
        *self.tun.borrow_mut() = Some(tun);
    }
}

impl World for EmulatedWorld {
    type Socket = EmulatedSocket;
    type Timer = OsTimer;
    type Task<T: 'static> = OsTask<T>;

    fn now(&self) -> Instant {
        self.os.now()
    }

    fn timer(&self) -> OsTimer {
        self.os.timer()
    }

    fn spawn<T: 'static>(&self, name: &'static str, task: impl Future<Output = T> + 'static) -> OsTask<T> {
        self.os.spawn(name, task)
    }

    fn rng(&self, label: &str) -> Rng {
        self.os.rng(label)
    }

    fn addresses(&self) -> Vec<IpAddr> {
        self.os.addresses()
    }

    fn poll_address_change(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.os.poll_address_change(cx)
    }

    async fn bind(&self, at: Local) -> io::Result<EmulatedSocket> {
        let tun = self.tun.borrow_mut().take();
        let (inner, protocol) = match (tun, at) {
            (Some(tun), _) => (InnerSocket::Tun(tun), TCP),
            (None, Local::Ip { protocol }) => (InnerSocket::Os(self.os.bind(at).await?), protocol),
            (None, Local::Udp { .. }) if self.secure => (InnerSocket::Os(self.os.bind(at).await?), UDP),
            (None, Local::Udp { .. }) => (InnerSocket::Os(self.os.bind(at).await?), SCTP),
        };
        Ok(EmulatedSocket {
            world: self.clone(),
            inner,
            protocol,
            timer: RefCell::new(self.os.timer()),
            delayed: RefCell::default(),
            count: Cell::new(0),
            input: RefCell::new(RecvBatch::new(1)),
            output: RefCell::new(SendBatch::new(1)),
        })
    }
}

/// The socket behind the path emulator: a socket of the operating system, or for TCP a TUN device.
#[derive(Debug)]
enum InnerSocket {
    Os(OsSocket),
    Tun(TunSocket),
}

impl InnerSocket {
    fn poll_send(&self, cx: &mut Context<'_>, batch: &mut SendBatch) -> Poll<io::Result<()>> {
        match self {
            Self::Os(socket) => socket.poll_send(cx, batch),
            Self::Tun(socket) => socket.poll_send(cx, batch),
        }
    }

    fn poll_recv(&self, cx: &mut Context<'_>, batch: &mut RecvBatch) -> Poll<io::Result<()>> {
        match self {
            Self::Os(socket) => socket.poll_recv(cx, batch),
            Self::Tun(socket) => socket.poll_recv(cx, batch),
        }
    }
}

/// A packet whose emulated delay is not over yet.
#[derive(Debug)]
struct DelayedPacket {
    outward: bool,
    protocol: u8,
    source: SocketAddr,
    target: SocketAddr,
    ecn: Ecn,
    may_fragment: bool,
    bytes: Vec<u8>,
}

/// A socket whose packets pass through the path emulator.
#[derive(Debug)]
pub struct EmulatedSocket {
    world: EmulatedWorld,
    inner: InnerSocket,
    protocol: u8,
    timer: RefCell<OsTimer>,
    delayed: RefCell<BTreeMap<(Instant, u64), DelayedPacket>>,
    count: Cell<u64>,
    input: RefCell<RecvBatch>,
    /// The packet that the socket has not accepted yet. The batch is empty if there is none.
    output: RefCell<SendBatch>,
}

impl EmulatedSocket {
    /// Passes a packet to the emulator. `outward` is set for packets that our engine sends. For received packets
    /// `may_fragment` is false, because the socket does not report it.
    fn set_out(&self, packet: Packet<'_>, outward: bool, may_fragment: bool) {
        let now = self.world.now();
        let Packet { source, target, ecn, payload, .. } = packet;
        let protocol = self.protocol;
        let bytes = payload.to_vec();
        let packet = DelayedPacket { outward, protocol, source, target, ecn, may_fragment, bytes };
        if let Some(at) = self.world.path.arrival(now, &packet)
            && self.delayed.borrow().len() < MOST_HELD
        {
            self.count.set(self.count.get() + 1);
            self.delayed.borrow_mut().insert((at, self.count.get()), packet);
        }
    }

    /// Removes and returns the first packet of one direction that has arrived.
    fn arrived(&self, outward: bool) -> Option<DelayedPacket> {
        let now = self.world.now();
        let mut delayed = self.delayed.borrow_mut();
        let key =
            delayed.iter().take_while(|(key, _)| key.0 <= now).find(|(_, packet)| packet.outward == outward);
        let key = *key?.0;
        delayed.remove(&key)
    }

    /// Returns whether the emulated delay of the next packet is over. If not, the timer wakes this task when the delay
    /// is over.
    fn is_time(&self, cx: &mut Context<'_>) -> bool {
        // While a packet waits for the socket, the timer is not needed.
        let stuck = !self.output.borrow().is_empty();
        let delayed = self.delayed.borrow();
        let next = delayed.iter().find(|(_, packet)| !(stuck && packet.outward)).map(|(key, _)| key.0);
        let mut timer = self.timer.borrow_mut();
        timer.set(next);
        next.is_some() && timer.poll(cx).is_ready()
    }

    /// Passes outgoing packets to the socket when their emulated delay is over.
    fn forward(&self, cx: &mut Context<'_>) -> io::Result<()> {
        let mut batch = self.output.borrow_mut();
        loop {
            if batch.is_empty() {
                let Some(packet) = self.arrived(true) else { return Ok(()) };
                batch.clear();
                batch.push(&packet.bytes);
                (batch.source, batch.target) = (packet.source, packet.target);
                (batch.ecn, batch.may_fragment) = (packet.ecn, packet.may_fragment);
            }
            match self.inner.poll_send(cx, &mut batch) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::AddrNotAvailable => batch.clear(),
                Poll::Ready(Err(error)) => return Err(error),
            }
        }
    }
}

impl DatagramSocket for EmulatedSocket {
    fn poll_send(&self, cx: &mut Context<'_>, batch: &mut SendBatch) -> Poll<io::Result<()>> {
        batch.packets().for_each(|packet| self.set_out(packet, true, batch.may_fragment));
        batch.clear();
        self.forward(cx)?;
        // If a packet is due for delivery, wakes the task. A task that only sends would otherwise not be polled again.
        if self.is_time(cx) {
            cx.waker().wake_by_ref();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_recv(&self, cx: &mut Context<'_>, batch: &mut RecvBatch) -> Poll<io::Result<()>> {
        loop {
            self.forward(cx)?;
            if let Some(packet) = self.arrived(false) {
                batch.clear();
                batch.push(&packet.bytes);
                (batch.source, batch.target, batch.ecn) = (packet.source, packet.target, packet.ecn);
                return Poll::Ready(Ok(()));
            }
            let mut input = self.input.borrow_mut();
            input.clear();
            match self.inner.poll_recv(cx, &mut input) {
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) if input.icmp.is_some() => {
                    std::mem::swap(batch, &mut *input);
                    return Poll::Ready(Ok(()));
                }
                Poll::Ready(Ok(())) => {
                    input.packets().for_each(|packet| self.set_out(packet, false, false));
                    continue;
                }
                Poll::Pending => {}
            }
            if !self.is_time(cx) {
                return Poll::Pending;
            }
        }
    }

    fn local(&self) -> Vec<SocketAddr> {
        match &self.inner {
            InnerSocket::Os(socket) => socket.local(),
            InnerSocket::Tun(socket) => socket.local(),
        }
    }

    fn mtu(&self, source: IpAddr) -> u32 {
        match &self.inner {
            InnerSocket::Os(socket) => socket.mtu(source),
            InnerSocket::Tun(socket) => socket.mtu(source),
        }
    }

    fn max_segments(&self) -> usize {
        1
    }
}

/// A socket above DTLS. It observes the packets that the emulator sees only encrypted.
pub struct Watched {
    /// The DTLS layer below this socket.
    pub inner: Box<dyn DatagramSocket>,
    /// The emulator that carries the datagrams of the DTLS layer.
    pub path: Rc<PathEmulator>,
}

impl DatagramSocket for Watched {
    fn poll_send(&self, cx: &mut Context<'_>, batch: &mut SendBatch) -> Poll<io::Result<()>> {
        batch.packets().for_each(|packet| self.path.see(true, packet.payload));
        self.inner.poll_send(cx, batch)
    }

    fn poll_recv(&self, cx: &mut Context<'_>, batch: &mut RecvBatch) -> Poll<io::Result<()>> {
        let received = self.inner.poll_recv(cx, batch);
        if matches!(received, Poll::Ready(Ok(()))) && batch.icmp.is_none() {
            batch.packets().for_each(|packet| self.path.see(false, packet.payload));
        }
        received
    }

    fn poll_flush(&self, cx: &mut Context<'_>, unsent: &mut SendBatch) -> Poll<io::Result<()>> {
        self.inner.poll_flush(cx, unsent)
    }

    fn has_more(&self) -> bool {
        self.inner.has_more()
    }

    fn take_peer(&self) -> Option<(SocketAddr, PeerState)> {
        self.inner.take_peer()
    }

    fn local(&self) -> Vec<SocketAddr> {
        self.inner.local()
    }

    fn mtu(&self, source: IpAddr) -> u32 {
        self.inner.mtu(source)
    }

    fn max_segments(&self) -> usize {
        self.inner.max_segments()
    }
}

const SCTP: u8 = 132;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// The number of bytes of a packet that a capture keeps.
const SNAP: usize = 300;
/// The maximum number of packets that the emulator delays at the same time.
const MOST_HELD: usize = 100_000;
