//! The World seam: everything a program may ask of its surroundings.
//!
//! The same client, server and experiment code runs in virtual time
//! (`sim::SimWorld`) and on the operating system's network. A world is one
//! thread: nothing here is `Send`, and parallelism means many worlds. There
//! are no files, no names, no environment behind this seam, on purpose.
//!
//! # The world of the operating system
//!
//! `os` (feature `os`, Linux) has one runtime thread and one timerfd for all timers. It sends and receives UDP with GSO and GRO, and uses raw
//! sockets where permitted. It reads ICMP from the sockets' error queues, and follows addresses by netlink. It opens the kernel's TCP, MPTCP
//! and SCTP where the kernel has them, and TUN devices. `unsafe` is in one file, `os/descriptor.rs`.
//!
//! - Several worlds may share a UDP port, or IP protocol 132 (`os/shards.rs`).
//! - Raw sockets have no ports. Programs of one host tell each other which SCTP ports they use, by names of abstract Unix sockets
//!   (`os/ports.rs`; `transport/sctp/ports.rs` asks).
//! - In an exchange of small packets, a world looks once more for packets before it sleeps (`os/busy_poll.rs`).
//! - Programs that run for long give free memory back to the host (`os/memory_trimmer.rs`). Otherwise an allocator keeps everything below
//!   the last block in use.

#![expect(async_fn_in_trait, reason = "worlds are single-threaded: no bound on the futures is wanted")]

pub mod kernel;
pub mod names;
#[cfg(all(feature = "os", target_os = "linux"))]
pub mod os;
pub mod steering;
pub mod suite;
mod tasks;
mod waiter;

pub use tasks::Tasks;
pub use waiter::Waiter;

use anabranch_base::time::Duration;
use anabranch_base::{Instant, PeerState, RecvBatch, Rng, SendBatch};
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A single-threaded place where programs run. Cheap to clone.
pub trait World: Clone + 'static {
    /// A bound socket.
    type Socket: Datagrams;
    /// A re-armable timer.
    type Timer: Timer;
    /// A running task; dropping it cancels the task.
    type Task<T: 'static>: Future<Output = T> + Detach + 'static;

    /// The time.
    fn now(&self) -> Instant;

    /// A timer, not yet set.
    fn timer(&self) -> Self::Timer;

    /// Waits until `at`.
    async fn sleep_until(&self, at: Instant) {
        let mut timer = self.timer();
        timer.set(Some(at));
        poll_fn(|cx| timer.poll(cx)).await;
    }

    /// What `wait` comes to; `None` when that takes longer than `span`, if there is one.
    async fn timeout<T>(
        &self,
        span: impl Into<Option<Duration>>,
        wait: impl Future<Output = T>,
    ) -> Option<T> {
        let (mut wait, span) = (pin!(wait), span.into());
        let mut timer = None;
        poll_fn(|cx| {
            if let Poll::Ready(result) = wait.as_mut().poll(cx) {
                return Poll::Ready(Some(result));
            }
            let Some(span) = span else { return Poll::Pending };
            // Most of what is waited for is there at once, and needs no timer.
            let timer = timer.get_or_insert_with(|| {
                let mut timer = self.timer();
                timer.set(Some(self.now() + span));
                timer
            });
            timer.poll(cx).map(|()| None)
        })
        .await
    }

    /// Starts a task. The name appears in reports of who waits for what.
    fn spawn<T: 'static>(&self, name: &'static str, task: impl Future<Output = T> + 'static)
    -> Self::Task<T>;

    /// Randomness that is a fixed function of the world's seed, this host and the label.
    fn rng(&self, label: &str) -> Rng;

    /// This host's addresses, in the order of its interfaces.
    fn addresses(&self) -> Vec<IpAddr>;

    /// Ready once after each change of [`addresses`](Self::addresses), and,
    /// where the world can tell, of routes: what was unreachable may be no more.
    fn poll_address_change(&self, cx: &mut Context<'_>) -> Poll<()>;

    /// Takes the host's processor for a piece of work that is not a packet.
    /// Only a virtual host whose work was given a cost takes notice; a real
    /// one is busy anyway.
    fn charge(&self, work: Work) {
        let _ = work;
    }

    /// Opens a socket on all of this host's addresses.
    ///
    /// # Errors
    /// `AddrInUse` when the protocol or port is taken, `PermissionDenied` when
    /// the host does not let us, `Unsupported` when it cannot.
    async fn bind(&self, at: Local) -> io::Result<Self::Socket>;
}

/// A task may go on after its handle is gone.
pub trait Detach {
    /// Lets the task run on by itself.
    fn detach(self);
}

/// A deadline that can be moved without allocation.
pub trait Timer: 'static {
    /// Sets, moves or clears the deadline.
    fn set(&mut self, at: Option<Instant>);

    /// Ready when the deadline has come (then it is cleared); pending while it
    /// has not, or when none is set.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()>;
}

/// Work that a program may charge its host's processor for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Work {
    /// A connection or association was accepted.
    Connection,
    /// A request was taken up.
    Request,
}

/// What a socket is bound to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Local {
    /// Every packet of this IP protocol (6 TCP, 132 SCTP); ports in socket addresses are 0.
    Ip {
        /// The protocol number of the IP header.
        protocol: u8,
    },
    /// A UDP port; 0 lets the world choose a free one.
    Udp {
        /// The port.
        port: u16,
    },
}

/// Batches of packets in, batches out, with the header fields a transport cares about.
pub trait Datagrams: 'static {
    /// Sends all packets of `batch` and leaves it empty. A packet that the
    /// network does not want is lost, not an error.
    ///
    /// # Errors
    /// `AddrNotAvailable`, `NetworkUnreachable`, `HostUnreachable`: this host
    /// has no such source address, or knows no way there at present; then the
    /// batch is as it was, and what it holds is lost if it is not given once more.
    /// Anything else: the socket is of no more use.
    fn poll_send(&self, cx: &mut Context<'_>, batch: &mut SendBatch) -> Poll<io::Result<()>>;

    /// Takes `batch`, and leaves it empty, to send it with others at the next
    /// [`poll_flush`](Self::poll_flush); false where it is to go by itself,
    /// after a flush.
    #[inline]
    fn queue(&self, batch: &mut SendBatch) -> bool {
        let _ = batch;
        false
    }

    /// Sends what waits.
    ///
    /// # Errors
    /// As [`poll_send`](Self::poll_send), with the packets that could not go in
    /// `unsent`, which was empty; others may wait still.
    #[inline]
    fn poll_flush(&self, cx: &mut Context<'_>, unsent: &mut SendBatch) -> Poll<io::Result<()>> {
        let _ = (cx, unsent);
        Poll::Ready(Ok(()))
    }

    /// More packets have been received already, and
    /// [`poll_recv`](Self::poll_recv) will give them without another look at the network.
    #[inline]
    fn has_more(&self) -> bool {
        false
    }

    /// Receives packets, or one ICMP report (`batch.icmp`), into `batch`.
    ///
    /// # Errors
    /// The socket is of no more use.
    fn poll_recv(&self, cx: &mut Context<'_>, batch: &mut RecvBatch) -> Poll<io::Result<()>>;

    /// The local addresses: a multi-homed stack has several.
    fn local(&self) -> Vec<SocketAddr>;

    /// The largest IP packet the interface of `source` takes, in bytes; less what layers add.
    fn mtu(&self, source: IpAddr) -> u32;

    /// Bytes that a layer with a peer at the other end, such as DTLS, adds to each packet. 0: there is none.
    fn overhead(&self) -> u32 {
        0
    }

    /// How many packets one call should carry: what to give [`SendBatch::new`] and [`RecvBatch::new`].
    fn max_segments(&self) -> usize;

    /// Word of a peer of a layer that has handshakes of its own, once for each change; asked after each look at what was
    /// received. Until a peer is ready, packets to it end in `HostUnreachable`.
    #[inline]
    fn take_peer(&self) -> Option<(SocketAddr, PeerState)> {
        None
    }

    /// The ports of the protocol, where other programs of this host hear the
    /// same packets; `None` where nobody else does.
    fn ports(&self) -> Option<Arc<dyn Ports>> {
        None
    }
}

impl Datagrams for Box<dyn Datagrams> {
    fn poll_send(&self, cx: &mut Context<'_>, batch: &mut SendBatch) -> Poll<io::Result<()>> {
        (**self).poll_send(cx, batch)
    }

    fn queue(&self, batch: &mut SendBatch) -> bool {
        (**self).queue(batch)
    }

    fn poll_flush(&self, cx: &mut Context<'_>, unsent: &mut SendBatch) -> Poll<io::Result<()>> {
        (**self).poll_flush(cx, unsent)
    }

    fn has_more(&self) -> bool {
        (**self).has_more()
    }

    fn poll_recv(&self, cx: &mut Context<'_>, batch: &mut RecvBatch) -> Poll<io::Result<()>> {
        (**self).poll_recv(cx, batch)
    }

    fn local(&self) -> Vec<SocketAddr> {
        (**self).local()
    }

    fn mtu(&self, source: IpAddr) -> u32 {
        (**self).mtu(source)
    }

    fn overhead(&self) -> u32 {
        (**self).overhead()
    }

    fn max_segments(&self) -> usize {
        (**self).max_segments()
    }

    fn take_peer(&self) -> Option<(SocketAddr, PeerState)> {
        (**self).take_peer()
    }

    fn ports(&self) -> Option<Arc<dyn Ports>> {
        (**self).ports()
    }
}

/// Who has which port of an IP protocol, among the programs of a host whose
/// sockets of [`Local::Ip`] hear the same packets.
pub trait Ports: Send + Sync + fmt::Debug {
    /// Takes a port at the addresses of the socket, or goes on with one that is taken here.
    ///
    /// # Errors
    /// `AddrInUse`: another program has it at one of them.
    fn listen(&self, port: u16) -> io::Result<PortClaim>;

    /// Takes a port to connect from; `None` where that cannot be had, and others will not know.
    fn connect(&self, port: u16) -> Option<PortClaim>;

    /// Another program has the port, and not this socket: at an address, or at any of this socket's.
    fn are_anothers(&self, address: Option<IpAddr>, port: u16) -> bool;
}

/// A port is ours as long as this, or a clone of it, lives.
pub type PortClaim = Arc<dyn fmt::Debug + Send + Sync>;
