//! The layer around a socket: packets of an engine in, datagrams out, and back. What lies between is [`Peers`].
//!
//! A batch of packets is sealed into one batch of datagrams. Datagrams that come are opened where they lie, one after the other, and
//! given on as packets while these fit together; what of a batch is not opened yet waits for the next look.

use crate::ends::Ends;
use crate::peers::{Peers, Sent, Shared};
use anabranch_base::{IcmpKind, Instant, PeerState, RecvBatch, SendBatch};
use anabranch_transport::CloseReason;
use anabranch_transport::protocol::Layer;
use anabranch_world::{Datagrams, Timer, World};
use std::cell::RefCell;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::{Context, Poll};

/// DTLS of a host. It is a layer for one transport.
pub struct DtlsLayer<W> {
    world: W,
    ends: Rc<Ends>,
    shared: Rc<RefCell<Shared>>,
}

impl<W> fmt::Debug for DtlsLayer<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DtlsLayer").field("ends", &self.ends).finish_non_exhaustive()
    }
}

impl<W: World> DtlsLayer<W> {
    /// Of a host with these ends. `name`: what every server that it goes to has a certificate for.
    pub fn new(world: W, ends: Ends, name: Option<&str>) -> Self {
        let shared = Shared { name: name.map(str::to_owned), ..Shared::default() };
        Self { world, ends: Rc::new(ends), shared: Rc::new(RefCell::new(shared)) }
    }

    /// The server at this address (with its UDP port) is to have a certificate for this name.
    pub fn expect(&self, server: SocketAddr, name: &str) {
        self.shared.borrow_mut().names.insert(server, name.to_owned());
    }
}

impl<W: World> Layer for DtlsLayer<W> {
    fn over(&self, below: Box<dyn Datagrams>) -> Box<dyn Datagrams> {
        let segments = below.max_segments();
        let port = below.local().first().map_or(0, SocketAddr::port);
        let peers = Peers::new(self.ends.clone(), port, self.shared.clone(), segments);
        Box::new(Socket {
            world: self.world.clone(),
            ends: self.ends.clone(),
            below,
            peers: RefCell::new(peers),
            came: RefCell::new((RecvBatch::new(segments), 0)),
            timer: RefCell::new((self.world.timer(), None)),
        })
    }

    fn fault(&self, peer: SocketAddr) -> Option<CloseReason> {
        self.shared.borrow().faults.get(&peer).cloned()
    }
}

/// A socket with DTLS on it.
struct Socket<W: World> {
    world: W,
    ends: Rc<Ends>,
    below: Box<dyn Datagrams>,
    peers: RefCell<Peers>,
    /// Datagrams that have come, and which of them is to be opened next.
    came: RefCell<(RecvBatch, usize)>,
    /// And what it is set to.
    timer: RefCell<(W::Timer, Option<Instant>)>,
}

impl<W: World> Socket<W> {
    /// The largest datagram of a handshake from this address: what its interface takes in one piece, and no more than usual
    /// interfaces do. The library fills its hello up to that, and programs that take 64 KiB of a loopback interface are few.
    fn datagram(&self, source: IpAddr) -> usize {
        let headers = if source.is_ipv4() { 20 + 8 } else { 40 + 8 };
        self.below.mtu(source).min(USUAL_MTU).saturating_sub(headers).max(MIN_DATAGRAM) as usize
    }

    /// Has the timer wake us when something is due; true when it already is.
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

impl<W: World> Datagrams for Socket<W> {
    fn poll_send(&self, cx: &mut Context<'_>, batch: &mut SendBatch) -> Poll<io::Result<()>> {
        if batch.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let peers = &mut *self.peers.borrow_mut();
        // An error is that of datagrams which are there from before, and are lost.
        if peers.outbox.poll_flush(cx, &*self.below).is_pending() {
            return Poll::Pending;
        }
        let (source, target) = (batch.source, batch.target);
        let sent = peers.send(self.world.now(), batch, self.datagram(source.ip()));
        let flushed = peers.outbox.poll_flush(cx, &*self.below);
        match (sent, flushed) {
            (Sent::Waits, _) => return Poll::Ready(Err(io::ErrorKind::HostUnreachable.into())),
            (Sent::Sealed, Poll::Ready(Err(error))) => {
                // The engine is told of packets that cannot go at all.
                (batch.source, batch.target) = (source, target);
                return Poll::Ready(Err(error));
            }
            // What waits below goes at the next look.
            _ => {}
        }
        batch.clear();
        Poll::Ready(Ok(()))
    }

    fn poll_recv(&self, cx: &mut Context<'_>, batch: &mut RecvBatch) -> Poll<io::Result<()>> {
        let (came, next) = &mut *self.came.borrow_mut();
        batch.clear();
        loop {
            let mut peers = self.peers.borrow_mut();
            let now = self.world.now();
            peers.expire(now);
            if !peers.deliver(batch) {
                let mtu = self.datagram(came.target.ip());
                peers.take_in(now, (came, next), batch, mtu);
            }
            // An error is that of one datagram, which is lost.
            let _ = peers.outbox.poll_flush(cx, &*self.below);
            if !batch.is_empty() {
                return Poll::Ready(Ok(()));
            }
            if *next < came.len() || peers.has_more() {
                continue;
            }
            came.clear();
            *next = 0;
            match self.below.poll_recv(cx, came) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    if self.watch(cx, peers.due()) {
                        continue;
                    }
                    return Poll::Pending;
                }
            }
            if let Some(icmp) = came.icmp {
                if matches!(icmp.kind, IcmpKind::Unreachable(_)) {
                    peers.unreachable((icmp.source, icmp.target), came.bytes());
                }
                came.clear();
            }
        }
    }

    fn poll_flush(&self, cx: &mut Context<'_>, unsent: &mut SendBatch) -> Poll<io::Result<()>> {
        if self.peers.borrow_mut().outbox.poll_flush(cx, &*self.below).is_pending() {
            return Poll::Pending;
        }
        self.below.poll_flush(cx, unsent)
    }

    fn has_more(&self) -> bool {
        let (came, next) = &*self.came.borrow();
        *next < came.len() || self.peers.borrow().has_more() || self.below.has_more()
    }

    fn take_peer(&self) -> Option<(SocketAddr, PeerState)> {
        self.peers.borrow_mut().take_change()
    }

    fn local(&self) -> Vec<SocketAddr> {
        self.below.local()
    }

    fn mtu(&self, source: IpAddr) -> u32 {
        // RFC 8446 §5.1, RFC 5246 §6.2.1: a record holds 2^14 bytes.
        self.below.mtu(source).saturating_sub(self.ends.version.overhead()).min(1 << 14)
    }

    fn overhead(&self) -> u32 {
        self.ends.version.overhead()
    }

    fn max_segments(&self) -> usize {
        self.below.max_segments()
    }
}

/// What most interfaces take.
const USUAL_MTU: u32 = 1_500;
/// A datagram of a handshake may be so small, whatever the interface says.
const MIN_DATAGRAM: u32 = 256;
