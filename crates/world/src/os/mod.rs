//! `OsWorld`: the `World` of the operating system, on Linux (feature `os`).
//!
//! An `OsWorld` is a current-thread runtime with a `LocalSet`: nothing is `Send`, and tasks run in FIFO order. Its time
//! is the monotonic clock since its start; timers have the precision of a timerfd. Only raw sockets need a privilege.
//!
//! - `timers`: one timerfd for all timers of the thread
//! - `busy_poll`: polls for packets before the thread sleeps
//! - `addresses`: the host's addresses and their changes
//! - `udp`, `raw`: sockets; `bind`: binds UDP sockets; `outbox`: queues packets to send them together
//! - `ports`: ownership of the ports of raw sockets
//! - `shards`: several threads behind one UDP port or IP protocol; `steer`: kernel filters that choose the thread for a
//!   packet
//! - `descriptor`: file descriptors in the event loop
//! - `reports`: ICMP reports from the sockets' error queues
//! - `tcp`: the TCP of the host's kernel
//! - `names`: the host's resolver
//! - `signals`: signals that ask the program to end or to reload its settings; `usage`: processor time, open files
//! - `tun`, `packet`: whole packets of a TUN device or of an interface, where the host permits it

mod addresses;
mod bind;
mod busy_poll;
mod descriptor;
mod memory_trimmer;
mod names;
mod outbox;
mod packet;
mod ports;
mod raw;
mod reports;
mod shards;
mod signals;
mod steer;
mod tcp;
mod timers;
mod tun;
mod udp;
mod udp_socket;
mod usage;

pub use crate::kernel::{KernelOptions, KernelProtocol};
pub use memory_trimmer::MemoryTrimmer;
pub use packet::PacketSocket;
/// Returns the addresses of this host, in the order of its interfaces, loopback addresses last.
///
/// # Errors
/// The operating system cannot list the addresses.
pub fn addresses() -> std::io::Result<Vec<std::net::IpAddr>> {
    Ok(addresses::Addresses::new(Vec::new())?.list())
}

pub use shards::{Group, ReusePortSocket, share_raw, share_udp, share_udp_by_address};
pub use signals::{END_MARGIN, Hangups, Signals, watch_end};
pub use tcp::{OsConnection, OsListener, kernel_has_sctp, listen_tcp};
pub use timers::{OsClock, OsTimer};
pub use tun::{Tun, open_tun};
pub use usage::{processor_time, raise_open_files_limit};

use crate::{DatagramSocket, Detach, Local, PortRegistry, World};
use addresses::Addresses;
use anabranch_base::{Instant, RecvBatch, Rng, SendBatch};
use busy_poll::BusyPoll;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use timers::Timers;
use tokio::task::{JoinHandle, LocalSet};

/// The settings of an [`OsWorld`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// The addresses to use. Empty means all current addresses of the host except link-local addresses.
    pub addresses: Vec<IpAddr>,
    /// The seed of all randomness; `None` means randomness from the operating system.
    pub seed: Option<u64>,
    /// Whether the thread sleeps as soon as no task can run. Otherwise, a thread that receives small packets at
    /// intervals of up to 100 us polls up to 100 us for the next packet. Polling avoids wake-ups, but occupies a
    /// processor.
    pub sleep_at_once: bool,
}

/// A program's handle to the operating system. It exists only inside [`run`].
#[derive(Clone, Debug)]
pub struct OsWorld {
    inner: Rc<Inner>,
}

#[derive(Debug)]
struct Inner {
    timers: Rc<Timers>,
    rng: Rng,
    /// If no seed is set, the number of random number generators created so far. This number makes each generator
    /// different.
    drawn: Option<Cell<u64>>,
    addresses: Rc<Addresses>,
    busy_poll: Arc<BusyPoll>,
    single_packets: bool,
    mark: Option<u32>,
    kernel: KernelOptions,
}

/// Runs `program` with a new [`OsWorld`]. When `program` ends, the tasks that it has spawned are cancelled.
///
/// # Errors
/// The operating system provides no event queue or no timer, or cannot list the addresses.
pub fn run<T>(options: Options, program: impl AsyncFnOnce(OsWorld) -> T) -> io::Result<T> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_io().max_blocking_threads(RESOLVERS);
    let (busy_poll, sleep_at_once) = (BusyPoll::new(), options.sleep_at_once);
    if !sleep_at_once {
        let busy_poll = busy_poll.clone();
        builder.on_thread_park(move || busy_poll.about_to_sleep());
    }
    let runtime = builder.build()?;
    let tasks = LocalSet::new();
    let ended = tasks.block_on(&runtime, async {
        if !sleep_at_once {
            let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
            busy_poll.begin(waker);
        }
        let world = OsWorld::begin(options, busy_poll)?;
        Ok(program(world).await)
    });
    // The tasks are dropped while the runtime exists, because they deregister their sockets from it.
    let inside = runtime.enter();
    drop(tasks);
    drop(inside);
    // `shutdown_background` does not wait for a pending name lookup.
    runtime.shutdown_background();
    ended
}

impl OsWorld {
    fn begin(options: Options, busy_poll: Arc<BusyPoll>) -> io::Result<Self> {
        let (rng, drawn) = match options.seed {
            Some(seed) => (Rng::new(seed), None),
            // Verification tags, cookie keys and nonces are drawn from this generator. They are the only protection
            // against an off-path attacker (RFC 9260 §12.2.4.2).
            None => (Rng::from_os()?, Some(Cell::new(0))),
        };
        let timers = Timers::begin()?;
        let addresses = Rc::new(Addresses::new(options.addresses)?);
        let (single_packets, mark, kernel) = (false, None, KernelOptions::default());
        let inner = Inner { timers, rng, drawn, addresses, busy_poll, single_packets, mark, kernel };
        Ok(Self { inner: Rc::new(inner) })
    }

    /// Returns a handle of the operating system that has the same clock as this one and uses only these addresses of
    /// the host (see [`Options::addresses`]).
    ///
    /// # Errors
    /// The operating system cannot list the addresses.
    pub fn at(&self, addresses: Vec<IpAddr>) -> io::Result<Self> {
        let inner = self.new_view();
        Ok(Self { inner: Rc::new(Inner { addresses: Rc::new(Addresses::new(addresses)?), ..inner }) })
    }

    /// Returns this handle's clock, which other threads can read.
    #[must_use]
    pub fn clock(&self) -> OsClock {
        self.inner.timers.clock()
    }

    /// Returns a handle whose UDP packets are sent and received one by one. The kernel neither splits packets (GSO) nor
    /// joins them (GRO), as on a host without these offloads.
    #[must_use]
    pub fn packet_by_packet(&self) -> Self {
        Self { inner: Rc::new(Inner { single_packets: true, ..self.new_view() }) }
    }

    /// Returns a handle whose raw packets carry the mark `mark` (`SO_MARK`), which the host's routing rules can match.
    /// Sending them needs CAP_NET_ADMIN.
    #[must_use]
    pub fn marked(&self, mark: u32) -> Self {
        Self { inner: Rc::new(Inner { mark: Some(mark), ..self.new_view() }) }
    }

    /// Returns a handle that applies `options` to the kernel connections that it opens.
    #[must_use]
    pub fn with_kernel(&self, options: KernelOptions) -> Self {
        Self { inner: Rc::new(Inner { kernel: options, ..self.new_view() }) }
    }

    /// Returns the state for another `OsWorld` handle that has the same clock as this one. Without a seed, the new
    /// handle has a random number generator of its own. With a seed, its generator is a copy of the generator of this
    /// handle.
    fn new_view(&self) -> Inner {
        let inner = &*self.inner;
        Inner {
            timers: inner.timers.clone(),
            // `drawn` is set if there is no seed. The new handle then gets its own generator. With a copy of this
            // handle's generator, endpoints of both handles would draw the same random numbers.
            rng: if inner.drawn.is_some() { self.rng("world") } else { inner.rng.clone() },
            drawn: inner.drawn.clone(),
            addresses: inner.addresses.clone(),
            busy_poll: inner.busy_poll.clone(),
            single_packets: inner.single_packets,
            mark: inner.mark,
            kernel: inner.kernel.clone(),
        }
    }

    fn kernel_options(&self) -> &KernelOptions {
        &self.inner.kernel
    }
}

impl World for OsWorld {
    type Socket = OsSocket;
    type Timer = OsTimer;
    type Task<T: 'static> = OsTask<T>;

    fn now(&self) -> Instant {
        self.inner.timers.now()
    }

    fn timer(&self) -> OsTimer {
        OsTimer::new(self.inner.timers.clone())
    }

    fn spawn<T: 'static>(&self, _name: &'static str, task: impl Future<Output = T> + 'static) -> OsTask<T> {
        // The task is boxed as a trait object, so that tokio's code is compiled once per result type and not once per
        // task.
        let task: Pin<Box<dyn Future<Output = T>>> = Box::pin(task);
        OsTask { handle: Some(tokio::task::spawn_local(task)) }
    }

    fn rng(&self, label: &str) -> Rng {
        match &self.inner.drawn {
            None => self.inner.rng.fork(label),
            Some(drawn) => {
                drawn.set(drawn.get() + 1);
                self.inner.rng.fork(&format!("{label}/{}", drawn.get()))
            }
        }
    }

    fn addresses(&self) -> Vec<IpAddr> {
        self.inner.addresses.list()
    }

    fn poll_address_change(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.inner.addresses.poll_change(cx)
    }

    async fn bind(&self, at: Local) -> io::Result<OsSocket> {
        let addresses = self.inner.addresses.clone();
        Ok(match at {
            Local::Udp { port } => OsSocket::Udp(Box::new(udp::Udp::bind(self, port)?)),
            Local::Ip { protocol } => {
                OsSocket::Raw(Box::new(raw::Raw::bind(addresses, protocol, self.inner.mark)?))
            }
        })
    }
}

/// A socket of the operating system, or several kernel sockets that a program uses as one.
#[derive(Debug)]
pub enum OsSocket {
    /// UDP.
    Udp(Box<udp::Udp>),
    /// Raw IP sockets of one protocol.
    Raw(Box<raw::Raw>),
    /// A UDP or raw socket that shares its port or protocol with the sockets of other threads.
    Shared(Box<shards::ShardSocket>),
}

impl DatagramSocket for OsSocket {
    fn poll_send(&self, cx: &mut Context<'_>, batch: &mut SendBatch) -> Poll<io::Result<()>> {
        match self {
            Self::Udp(socket) => socket.poll_send(cx, batch),
            Self::Shared(socket) => socket.socket.poll_send(cx, batch),
            Self::Raw(socket) => socket.poll_send(cx, batch),
        }
    }

    fn queue(&self, batch: &mut SendBatch) -> bool {
        match self {
            Self::Udp(socket) => socket.queue(batch),
            Self::Shared(socket) => socket.socket.queue(batch),
            Self::Raw(_) => false,
        }
    }

    fn poll_flush(&self, cx: &mut Context<'_>, unsent: &mut SendBatch) -> Poll<io::Result<()>> {
        match self {
            Self::Udp(socket) => socket.poll_flush(cx, unsent),
            Self::Shared(socket) => socket.socket.poll_flush(cx, unsent),
            Self::Raw(_) => Poll::Ready(Ok(())),
        }
    }

    fn has_more(&self) -> bool {
        match self {
            Self::Udp(socket) => socket.has_more(),
            Self::Shared(socket) => socket.has_more(),
            Self::Raw(socket) => socket.has_more(),
        }
    }

    fn poll_recv(&self, cx: &mut Context<'_>, batch: &mut RecvBatch) -> Poll<io::Result<()>> {
        match self {
            Self::Udp(socket) => socket.poll_recv(cx, batch),
            Self::Shared(socket) => socket.poll_recv(cx, batch),
            Self::Raw(socket) => socket.poll_recv(cx, batch),
        }
    }

    fn local(&self) -> Vec<SocketAddr> {
        match self {
            Self::Udp(socket) => socket.local(),
            Self::Shared(socket) => socket.socket.local(),
            Self::Raw(socket) => socket.local(),
        }
    }

    fn mtu(&self, source: IpAddr) -> u32 {
        match self {
            Self::Udp(socket) => socket.mtu(source),
            Self::Shared(socket) => socket.socket.mtu(source),
            Self::Raw(socket) => socket.mtu(source),
        }
    }

    fn max_segments(&self) -> usize {
        match self {
            Self::Udp(socket) => socket.max_segments(),
            Self::Shared(socket) => socket.socket.max_segments(),
            Self::Raw(_) => raw::MAX_SEGMENTS,
        }
    }

    fn ports(&self) -> Option<Arc<dyn PortRegistry>> {
        match self {
            Self::Raw(socket) => socket.ports(),
            Self::Shared(socket) => socket.ports(),
            Self::Udp(_) => None,
        }
    }
}

/// A running task; dropping this handle cancels the task.
#[derive(Debug)]
pub struct OsTask<T> {
    handle: Option<JoinHandle<T>>,
}

impl<T> Future for OsTask<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Some(handle) = &mut self.handle else { return Poll::Pending };
        match Pin::new(handle).poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(result)) => Poll::Ready(result),
            // A panic in a task ends the whole program.
            Poll::Ready(Err(error)) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Poll::Pending,
            },
        }
    }
}

impl<T> Detach for OsTask<T> {
    fn detach(mut self) {
        self.handle = None;
    }
}

impl<T> Drop for OsTask<T> {
    fn drop(&mut self) {
        if let Some(handle) = &self.handle {
            handle.abort();
        }
    }
}

/// The maximum number of names that are resolved at the same time.
const RESOLVERS: usize = 16;
/// The size in bytes of the largest possible IP packet, whatever the MTU of its interface.
const LARGEST_PACKET: u32 = 65_535;
