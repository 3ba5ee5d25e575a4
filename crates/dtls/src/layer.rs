//! The DTLS layer between an engine and a UDP socket. The layer wraps the socket, and [`Peers`] converts packets to
//! datagrams and back.
//!
//! A batch of packets becomes one batch of encrypted datagrams. Received datagrams are decrypted in place, one after
//! the other. Their packets are delivered together as long as they fit into one batch. The remaining datagrams are
//! decrypted at the next poll.

use crate::host_config::HostConfig;
use crate::peers::{Peers, SendOutcome, Shared};
use anabranch_base::{IcmpKind, Instant, PeerState, RecvBatch, SendBatch};
use anabranch_transport::CloseReason;
use anabranch_transport::protocol::Layer;
use anabranch_world::{DatagramSocket, Timer, World};
use std::cell::RefCell;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::{Context, Poll};

/// The DTLS layer of a host, which serves one transport.
pub struct DtlsLayer<W> {
    world: W,
    host: Rc<HostConfig>,
    shared: Rc<RefCell<Shared>>,
}

impl<W> fmt::Debug for DtlsLayer<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DtlsLayer").field("host", &self.host).finish_non_exhaustive()
    }
}

impl<W: World> DtlsLayer<W> {
    /// Creates the layer of a host with these settings. `name` is the name that the certificate of every server must
    /// have, unless [`expect`](Self::expect) sets another name. If `name` is `None`, the certificate must have the
    /// server's IP address.
    pub fn new(world: W, host: HostConfig, name: Option<&str>) -> Self {
        let shared = Shared { name: name.map(str::to_owned), ..Shared::default() };
        Self { world, host: Rc::new(host), shared: Rc::new(RefCell::new(shared)) }
    }

    /// Sets the name that the certificate of the server at this address and UDP port must have.
    pub fn expect(&self, server: SocketAddr, name: &str) {
        self.shared.borrow_mut().names.insert(server, name.to_owned());
    }
}

impl<W: World> Layer for DtlsLayer<W> {
    fn over(&self, inner: Box<dyn DatagramSocket>) -> Box<dyn DatagramSocket> {
        let segments = inner.max_segments();
        let port = inner.local().first().map_or(0, SocketAddr::port);
        let peers = Peers::new(self.host.clone(), port, self.shared.clone(), segments);
        Box::new(Socket {
            world: self.world.clone(),
            host: self.host.clone(),
            inner,
            peers: RefCell::new(peers),
            received: RefCell::new((RecvBatch::new(segments), 0)),
            timer: RefCell::new((self.world.timer(), None)),
        })
    }

    fn loss_reason(&self, peer: SocketAddr) -> Option<CloseReason> {
        self.shared.borrow().loss_reasons.get(&peer).cloned()
    }
}

/// A socket whose datagrams are encrypted with DTLS.
struct Socket<W: World> {
    world: W,
    host: Rc<HostConfig>,
    inner: Box<dyn DatagramSocket>,
    peers: RefCell<Peers>,
    /// The received datagrams, and the index of the next datagram to decrypt.
    received: RefCell<(RecvBatch, usize)>,
    /// The timer, and the time for which it is set.
    timer: RefCell<(W::Timer, Option<Instant>)>,
}

impl<W: World> Socket<W> {
    /// Returns the maximum size of handshake datagrams from this local address. dimpl divides a flight into datagrams
    /// only once, so it repeats a lost datagram at the same size. The path must therefore deliver every datagram: the
    /// IP packet is at most BASE_PLPMTU, the path MTU that is assumed before any probe (RFC 9147 §4.4, RFC 8261 §4).
    fn max_handshake_datagram(&self, source: IpAddr) -> usize {
        let (first, headers) =
            if source.is_ipv4() { (BASE_PLPMTU_V4, 20 + 8) } else { (BASE_PLPMTU_V6, 40 + 8) };
        self.inner.mtu(source).min(first).saturating_sub(headers).max(MIN_DATAGRAM) as usize
    }

    /// Sets the timer to wake the task at `due`. Returns true if `due` has already passed.
    fn watch(&self, cx: &mut Context<'_>, due: Option<Instant>) -> bool {
        let (timer, set) = &mut *self.timer.borrow_mut();
        if *set != due {
            timer.set(due);
            *set = due;
        }
        let fired = due.is_some() && timer.poll(cx).is_ready();
        if fired {
            *set = None;
        }
        fired
    }
}

impl<W: World> DatagramSocket for Socket<W> {
    fn poll_send(&self, cx: &mut Context<'_>, batch: &mut SendBatch) -> Poll<io::Result<()>> {
        if batch.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let peers = &mut *self.peers.borrow_mut();
        // An error of `poll_flush` is ignored. It concerns datagrams of earlier calls, which are lost.
        if peers.outbox.poll_flush(cx, &*self.inner).is_pending() {
            return Poll::Pending;
        }
        let (source, target) = (batch.source, batch.target);
        let sent = peers.send(self.world.now(), batch, self.max_handshake_datagram(source.ip()));
        let flushed = peers.outbox.poll_flush(cx, &*self.inner);
        match (sent, flushed) {
            (SendOutcome::Waits, _) => return Poll::Ready(Err(io::ErrorKind::HostUnreachable.into())),
            (SendOutcome::Sealed, Poll::Ready(Err(error))) => {
                // Reports the error to the engine, for example that no route exists. The batch still contains the
                // addresses of the failed packets.
                (batch.source, batch.target) = (source, target);
                return Poll::Ready(Err(error));
            }
            // The batch counts as sent. Its datagrams wait in the outbox until the next poll.
            _ => {}
        }
        batch.clear();
        Poll::Ready(Ok(()))
    }

    fn poll_recv(&self, cx: &mut Context<'_>, batch: &mut RecvBatch) -> Poll<io::Result<()>> {
        let (received, next) = &mut *self.received.borrow_mut();
        batch.clear();
        loop {
            let mut peers = self.peers.borrow_mut();
            let now = self.world.now();
            peers.expire(now);
            if !peers.deliver(batch) {
                let mtu = self.max_handshake_datagram(received.target.ip());
                peers.take_in(now, (received, next), batch, mtu);
            }
            // An error of `poll_flush` is ignored. It concerns queued datagrams, which are lost.
            let _ = peers.outbox.poll_flush(cx, &*self.inner);
            if !batch.is_empty() {
                return Poll::Ready(Ok(()));
            }
            if *next < received.len() || peers.has_more() {
                continue;
            }
            received.clear();
            *next = 0;
            match self.inner.poll_recv(cx, received) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    if self.watch(cx, peers.due()) {
                        continue;
                    }
                    return Poll::Pending;
                }
            }
            if let Some(icmp) = received.icmp {
                if matches!(icmp.kind, IcmpKind::Unreachable(_)) {
                    peers.unreachable((icmp.source, icmp.target), received.bytes());
                }
                received.clear();
            }
        }
    }

    fn poll_flush(&self, cx: &mut Context<'_>, unsent: &mut SendBatch) -> Poll<io::Result<()>> {
        if self.peers.borrow_mut().outbox.poll_flush(cx, &*self.inner).is_pending() {
            return Poll::Pending;
        }
        self.inner.poll_flush(cx, unsent)
    }

    fn has_more(&self) -> bool {
        let (received, next) = &*self.received.borrow();
        *next < received.len() || self.peers.borrow().has_more() || self.inner.has_more()
    }

    fn take_peer(&self) -> Option<(SocketAddr, PeerState)> {
        self.peers.borrow_mut().take_change()
    }

    fn local(&self) -> Vec<SocketAddr> {
        self.inner.local()
    }

    fn mtu(&self, source: IpAddr) -> u32 {
        // RFC 8446 §5.1, RFC 5246 §6.2.1: a record contains at most 2^14 bytes.
        self.inner.mtu(source).saturating_sub(self.host.version.overhead()).min(1 << 14)
    }

    fn overhead(&self) -> u32 {
        self.host.version.overhead()
    }

    fn max_segments(&self) -> usize {
        self.inner.max_segments()
    }
}

/// The largest IP packet in bytes that a handshake sends over IPv4 and over IPv6. These are the values of BASE_PLPMTU
/// with which SCTP begins over DTLS.
const BASE_PLPMTU_V4: u32 = 1_200;
const BASE_PLPMTU_V6: u32 = 1_280;
/// The minimum of the size limit for handshake datagrams, in bytes. The limit is never lower, even if the interface has
/// a smaller MTU.
const MIN_DATAGRAM: u32 = 256;
