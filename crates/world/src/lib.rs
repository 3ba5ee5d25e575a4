//! The World interface: everything that a program may request from its environment.
//!
//! The same client, server and experiment code runs in virtual time (`sim::SimWorld`) and on the operating system's
//! network. A world is one thread: nothing here is `Send`, and parallelism means several worlds. This interface
//! deliberately has no files, no name resolution and no process environment.
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

/// A single-threaded environment in which programs run. Cheap to clone.
pub trait World: Clone + 'static {
    /// A bound socket.
    type Socket: Datagrams;
    /// A re-armable timer.
    type Timer: Timer;
    /// A running task; dropping it cancels the task.
    type Task<T: 'static>: Future<Output = T> + Detach + 'static;

    /// Returns the current time.
    fn now(&self) -> Instant;

    /// Returns a timer that is not set.
    fn timer(&self) -> Self::Timer;

    /// Waits until `at`.
    async fn sleep_until(&self, at: Instant) {
        let mut timer = self.timer();
        timer.set(Some(at));
        poll_fn(|cx| timer.poll(cx)).await;
    }

    /// Returns the result of `wait`, or `None` if it takes longer than `span`. Without a `span` there is no limit.
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
            // Most futures are ready at once and need no timer.
            let timer = timer.get_or_insert_with(|| {
                let mut timer = self.timer();
                timer.set(Some(self.now() + span));
                timer
            });
            timer.poll(cx).map(|()| None)
        })
        .await
    }

    /// Starts a task. The name appears in reports of what each task waits for.
    fn spawn<T: 'static>(&self, name: &'static str, task: impl Future<Output = T> + 'static)
    -> Self::Task<T>;

    /// Returns a generator that depends only on the world's seed, this host and the label.
    fn rng(&self, label: &str) -> Rng;

    /// Returns this host's addresses, in the order of its interfaces.
    fn addresses(&self) -> Vec<IpAddr>;

    /// Ready once after each change of [`addresses`](Self::addresses). If the world can tell, also after a change of
    /// routes: an unreachable address may have become reachable.
    fn poll_address_change(&self, cx: &mut Context<'_>) -> Poll<()>;

    /// Charges the host's processor for work that is not a packet. This has an effect only on a virtual host for which
    /// that work has a cost.
    fn charge(&self, work: Work) {
        let _ = work;
    }

    /// Opens a socket on all of this host's addresses.
    ///
    /// # Errors
    /// `AddrInUse` if the protocol or port is in use, `PermissionDenied` if the host forbids it, `Unsupported` if the
    /// host does not support it.
    async fn bind(&self, at: Local) -> io::Result<Self::Socket>;
}

/// Lets a task continue without its handle.
pub trait Detach {
    /// Lets the task continue after the handle is gone.
    fn detach(self);
}

/// A deadline that can be moved without allocation.
pub trait Timer: 'static {
    /// Sets, moves or clears the deadline.
    fn set(&mut self, at: Option<Instant>);

    /// Ready when the deadline has passed, which also clears it. Pending before that, or if no deadline is set.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()>;
}

/// Work for which a program may charge its host's processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Work {
    /// A connection or association was accepted.
    Connection,
    /// Processing of a request was started.
    Request,
}

/// The protocol or port that a socket is bound to.
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

/// A socket that sends and receives batches of packets, with the header fields that a transport needs.
pub trait Datagrams: 'static {
    /// Sends all packets of `batch` and empties it. A packet that the network does not accept is lost; that is not an
    /// error.
    ///
    /// # Errors
    /// `AddrNotAvailable`, `NetworkUnreachable`, `HostUnreachable`: this host does not have the source address, or has
    /// no route to the target at present. The batch is then unchanged; its packets are lost unless it is sent again.
    /// After any other error the socket is unusable.
    fn poll_send(&self, cx: &mut Context<'_>, batch: &mut SendBatch) -> Poll<io::Result<()>>;

    /// Takes the content of `batch`, to send it with other packets at the next [`poll_flush`](Self::poll_flush).
    /// Returns false if the batch was not taken; it must then be sent separately after a flush.
    #[inline]
    fn queue(&self, batch: &mut SendBatch) -> bool {
        let _ = batch;
        false
    }

    /// Sends the queued packets.
    ///
    /// # Errors
    /// As [`poll_send`](Self::poll_send). The packets that could not be sent are put into `unsent`, which must be
    /// empty; others may still be queued.
    #[inline]
    fn poll_flush(&self, cx: &mut Context<'_>, unsent: &mut SendBatch) -> Poll<io::Result<()>> {
        let _ = (cx, unsent);
        Poll::Ready(Ok(()))
    }

    /// Returns whether more packets have already been received, so that [`poll_recv`](Self::poll_recv) returns them
    /// without a system call.
    #[inline]
    fn has_more(&self) -> bool {
        false
    }

    /// Receives packets, or one ICMP report (`batch.icmp`), into `batch`.
    ///
    /// # Errors
    /// The socket is unusable.
    fn poll_recv(&self, cx: &mut Context<'_>, batch: &mut RecvBatch) -> Poll<io::Result<()>>;

    /// Returns the local addresses; a multi-homed stack has several.
    fn local(&self) -> Vec<SocketAddr>;

    /// Returns the MTU of the interface of `source` in bytes, minus the overhead of layers.
    fn mtu(&self, source: IpAddr) -> u32;

    /// Returns the number of bytes that a layer such as DTLS adds to each packet; 0 if there is no such layer.
    fn overhead(&self) -> u32 {
        0
    }

    /// Returns the number of packets that one call should carry, for [`SendBatch::new`] and [`RecvBatch::new`].
    fn max_segments(&self) -> usize;

    /// Returns the next state change of a peer, in a layer with its own handshake. Call it each time after receiving.
    /// Until a peer is ready, sending to it fails with `HostUnreachable`.
    #[inline]
    fn take_peer(&self) -> Option<(SocketAddr, PeerState)> {
        None
    }

    /// Returns the ports of the protocol, if other programs of this host receive the same packets; otherwise `None`.
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

/// The owners of the ports of an IP protocol. The owners are programs of one host whose [`Local::Ip`] sockets all
/// receive the same packets.
pub trait Ports: Send + Sync + fmt::Debug {
    /// Claims a port at the addresses of the socket, or returns an existing claim of this program.
    ///
    /// # Errors
    /// `AddrInUse`: another program has the port at one of the addresses.
    fn listen(&self, port: u16) -> io::Result<PortClaim>;

    /// Claims a port to connect from. Returns `None` if the claim fails; other programs then do not know of the use.
    fn connect(&self, port: u16) -> Option<PortClaim>;

    /// Returns whether another program has the port, at `address` or, if that is `None`, at any address of this socket.
    fn are_anothers(&self, address: Option<IpAddr>, port: u16) -> bool;
}

/// A claim of a port, which lasts while this or a clone of it lives.
pub type PortClaim = Arc<dyn fmt::Debug + Send + Sync>;
