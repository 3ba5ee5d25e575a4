//! The `World` trait: everything that a program may request from its environment.
//!
//! Through this trait, the same client, server and experiment code runs in virtual time (`sim::SimWorld`) and on the
//! operating system's network (`os::OsWorld`). A `World` is confined to one thread: nothing here is `Send`, and a
//! program with several threads creates one `World` in each. The trait deliberately has no files, no name resolution
//! and no process environment.
//!
//! # `OsWorld`: the operating system's network
//!
//! The module `os` (feature `os`, Linux) has one runtime thread and one timerfd for all timers. It sends and receives
//! UDP with GSO and GRO, and uses raw sockets where the host permits them. It reads ICMP errors from the sockets' error
//! queues, and learns of address changes over netlink. It opens TUN devices and the kernel's TCP sockets, and also MPTCP
//! and SCTP sockets where the kernel has these protocols. All `unsafe` code is in one file, `os/descriptor.rs`.
//!
//! - Several threads, each with its own `OsWorld`, may share a UDP port, or IP protocol 132 (`os/shards.rs`).
//! - The kernel does not track SCTP ports for raw sockets. Programs on one host therefore announce which SCTP ports
//!   they use, by binding abstract Unix sockets (`os/ports.rs`). `transport/sctp/ports.rs` checks these sockets.
//! - During an exchange of small packets, a thread polls for the next packet for a short time before it sleeps
//!   (`os/busy_poll.rs`).
//! - Long-running programs return free memory to the host (`os/memory_trimmer.rs`). Otherwise the allocator keeps all
//!   free memory below the last block in use.

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

/// A single-threaded environment in which programs run. A clone is another handle of the same environment.
pub trait World: Clone + 'static {
    /// A bound socket.
    type Socket: DatagramSocket;
    /// A re-armable timer.
    type Timer: Timer;
    /// A running task; dropping this handle cancels the task.
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

    /// Returns the result of `wait`, or `None` if `wait` takes longer than `span`. If `span` is `None`, the time is not
    /// limited.
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
            // Most futures are ready when first polled, so the timer is created only if the first poll is pending.
            let timer = timer.get_or_insert_with(|| {
                let mut timer = self.timer();
                timer.set(Some(self.now() + span));
                timer
            });
            timer.poll(cx).map(|()| None)
        })
        .await
    }

    /// Starts a task. `name` appears in reports that list what each task waits for.
    fn spawn<T: 'static>(&self, name: &'static str, task: impl Future<Output = T> + 'static)
    -> Self::Task<T>;

    /// Returns a random number generator that depends only on the seed of the run, this host, and `label`.
    fn rng(&self, label: &str) -> Rng;

    /// Returns the addresses of this host, in the order of its interfaces.
    fn addresses(&self) -> Vec<IpAddr>;

    /// Ready once after each change of [`addresses`](Self::addresses). Also ready once after each change of routes that
    /// the host reports, because an unreachable address may have become reachable.
    fn poll_address_change(&self, cx: &mut Context<'_>) -> Poll<()>;

    /// Charges the host's processor for work other than the processing of packets. The charge has an effect only on a
    /// virtual host whose settings give this work a cost.
    fn charge(&self, work: Work) {
        let _ = work;
    }

    /// Opens a socket that receives at all addresses of this host.
    ///
    /// # Errors
    /// `AddrInUse` if the protocol or port is in use, `PermissionDenied` if the host forbids the bind, `Unsupported` if
    /// the host does not support this kind of socket.
    async fn bind(&self, at: Local) -> io::Result<Self::Socket>;
}

/// A task handle that can be dropped without cancelling the task.
pub trait Detach {
    /// Drops the handle without cancelling the task.
    fn detach(self);
}

/// A timer whose deadline can be moved without allocation.
pub trait Timer: 'static {
    /// Sets or moves the deadline, or clears it if `at` is `None`.
    fn set(&mut self, at: Option<Instant>);

    /// Ready when the deadline has passed; the deadline is then cleared. Pending before the deadline, or if no deadline
    /// is set.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()>;
}

/// Work for which a program may charge its host's processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Work {
    /// The program accepted a connection or association.
    Connection,
    /// The program has begun to process a request.
    Request,
}

/// The protocol or port that a socket is bound to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Local {
    /// All packets of this IP protocol, for example 6 for TCP or 132 for SCTP. Ports in socket addresses are 0.
    Ip {
        /// The protocol number of the IP header.
        protocol: u8,
    },
    /// A UDP port. If the port is 0, the host chooses a free port.
    Udp {
        /// The port.
        port: u16,
    },
}

/// A socket that sends and receives batches of packets, together with the IP header fields that a transport needs.
pub trait DatagramSocket: 'static {
    /// Sends all packets of `batch` and empties it. A packet that the network does not accept counts as lost and causes
    /// no error.
    ///
    /// # Errors
    /// `AddrNotAvailable`: this host does not have the source address. `NetworkUnreachable`, `HostUnreachable`: at
    /// present this host has no route to the target. After one of these errors the batch is unchanged, and its packets
    /// are lost unless the caller sends the batch again. `PermissionDenied`: the host's own packet filter has dropped
    /// the packets; the batch is unchanged. After any other error the socket is unusable.
    fn poll_send(&self, cx: &mut Context<'_>, batch: &mut SendBatch) -> Poll<io::Result<()>>;

    /// Queues the packets of `batch`. The next [`poll_flush`](Self::poll_flush) sends them together with other batches.
    /// Returns false if the packets were not queued. In that case the caller must flush, and send the batch with
    /// [`poll_send`](Self::poll_send).
    #[inline]
    fn queue(&self, batch: &mut SendBatch) -> bool {
        let _ = batch;
        false
    }

    /// Sends the packets that [`queue`](Self::queue) has queued.
    ///
    /// # Errors
    /// The errors of [`poll_send`](Self::poll_send). The packets that could not be sent are moved to `unsent`, which
    /// must be empty before the call. Packets that were queued after the moved packets can still be in the queue.
    #[inline]
    fn poll_flush(&self, cx: &mut Context<'_>, unsent: &mut SendBatch) -> Poll<io::Result<()>> {
        let _ = (cx, unsent);
        Poll::Ready(Ok(()))
    }

    /// Returns whether the socket has already read further packets from the kernel. [`poll_recv`](Self::poll_recv)
    /// returns these packets without a system call.
    #[inline]
    fn has_more(&self) -> bool {
        false
    }

    /// Receives packets, or one ICMP report, into `batch`. For a report, `batch.icmp` is set.
    ///
    /// # Errors
    /// The socket is unusable.
    fn poll_recv(&self, cx: &mut Context<'_>, batch: &mut RecvBatch) -> Poll<io::Result<()>>;

    /// Returns the local addresses of the socket; a multi-homed host has several.
    fn local(&self) -> Vec<SocketAddr>;

    /// Returns the MTU in bytes of the interface that has the address `source`, minus the overhead of layers such as
    /// DTLS.
    fn mtu(&self, source: IpAddr) -> u32;

    /// Returns the number of bytes that a layer such as DTLS adds to each packet; 0 without such a layer.
    fn overhead(&self) -> u32 {
        0
    }

    /// Returns the number of packets that one call should carry. Callers pass it to [`SendBatch::new`] and
    /// [`RecvBatch::new`].
    fn max_segments(&self) -> usize;

    /// Returns whether the socket writes checksums that an engine has left out ([`SendBatch::missing_checksum`]). It
    /// then also reports received packets that are known to be intact ([`RecvBatch::intact`]), and accepts a packet in two
    /// parts ([`SendBatch::set_shared`]).
    fn offloads_checksums(&self) -> bool {
        false
    }

    /// Returns the next change in the state of a peer's handshake. Only a socket that contains a layer with a
    /// handshake, such as DTLS, reports changes. Call this function after each receive. Until the handshake with a peer
    /// is complete, sending to the peer fails with `HostUnreachable`.
    #[inline]
    fn take_peer(&self) -> Option<(SocketAddr, PeerState)> {
        None
    }

    /// Returns the registry in which programs claim ports of this socket's IP protocol. Returns `None` if no other
    /// program on this host receives the same packets.
    fn ports(&self) -> Option<Arc<dyn PortRegistry>> {
        None
    }
}

impl DatagramSocket for Box<dyn DatagramSocket> {
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

    fn offloads_checksums(&self) -> bool {
        (**self).offloads_checksums()
    }

    fn take_peer(&self) -> Option<(SocketAddr, PeerState)> {
        (**self).take_peer()
    }

    fn ports(&self) -> Option<Arc<dyn PortRegistry>> {
        (**self).ports()
    }
}

/// Records which program owns each port of an IP protocol. All programs of one host that have a [`Local::Ip`] socket of
/// the protocol receive the same packets and share the registry.
pub trait PortRegistry: Send + Sync + fmt::Debug {
    /// Claims `port` at the addresses of the socket, or returns this program's existing claim of `port`.
    ///
    /// # Errors
    /// `AddrInUse`: another program owns `port` at one of the addresses.
    fn listen(&self, port: u16) -> io::Result<PortClaim>;

    /// Claims the local `port` for outgoing connections. Returns `None` if the claim fails. The program may still use
    /// the port, but other programs do not know that it is in use.
    fn connect(&self, port: u16) -> Option<PortClaim>;

    /// Returns whether another program owns `port` at `address` or, if `address` is `None`, at any address of this
    /// socket.
    fn is_owned_by_other(&self, address: Option<IpAddr>, port: u16) -> bool;
}

/// A program's claim of a port. The claim ends when the last clone of this value is dropped.
pub type PortClaim = Arc<dyn fmt::Debug + Send + Sync>;
