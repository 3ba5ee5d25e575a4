//! The world of the operating system, on Linux (feature `os`).
//!
//! A world is a current-thread runtime with a `LocalSet`: nothing is `Send`,
//! tasks take turns first in first out. Time is the monotonic clock since the
//! world began, timers are exact to what a timerfd gives. It needs no
//! privilege, unless raw sockets are asked for.
//!
//! - `timers`: one timerfd for all timers of the world
//! - `busy_poll`: looking for packets once more before sleep
//! - `addresses`: the host's addresses, and how they change
//! - `udp`, `raw`: sockets; `bind`: how UDP's come to a port; `outbox`: packets that leave together
//! - `ports`: whose the ports of raw sockets are
//! - `shards`: several worlds behind one UDP port or IP protocol; `steer`: what the kernel is told of them
//! - `descriptor`: what the event loop watches
//! - `reports`: ICMP, by way of the sockets' error queues
//! - `tcp`: the host's own TCP
//! - `names`: the resolver
//! - `signals`: being asked to end, or to read settings again; `usage`: processor time, open files
//! - `tun`, `packet`: whole packets of a device that is ours, where permitted

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
/// The addresses of this host, in the order of its interfaces, those of the loopback interface last.
///
/// # Errors
/// The host does not tell.
pub fn addresses() -> std::io::Result<Vec<std::net::IpAddr>> {
    Ok(addresses::Addresses::new(Vec::new())?.list())
}

pub use shards::{Group, Seat, share_raw, share_udp, share_udp_by_address};
pub use signals::{Hangups, Signals, watch_end};
pub use tcp::{OsConnection, OsListening, kernel_has_sctp, listen_tcp};
pub use timers::{OsClock, OsTimer};
pub use tun::{Tun, open_tun};
pub use usage::{processor_time, raise_open_files};

use crate::{Datagrams, Detach, Local, Ports, World};
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

/// What a world is made with.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// The addresses to use; empty: all of the host, as they come and go, but
    /// those of a single link.
    pub addresses: Vec<IpAddr>,
    /// The seed of all randomness; `None`: from the operating system.
    pub seed: Option<u64>,
    /// Sleep as soon as there is nothing to do. Else a world to which small
    /// packets come one by one, each within 100 us of the last, looks for the
    /// next one for as long: that saves being woken, and takes a processor for
    /// as long as it goes on.
    pub sleep_at_once: bool,
}

/// The operating system as programs see it. Lives inside [`run`].
#[derive(Clone, Debug)]
pub struct OsWorld {
    inner: Rc<Inner>,
}

#[derive(Debug)]
struct Inner {
    timers: Rc<Timers>,
    rng: Rng,
    /// Generators given out, where no seed asks for the same ones again.
    drawn: Option<Cell<u64>>,
    addresses: Rc<Addresses>,
    busy_poll: Arc<BusyPoll>,
    single_packets: bool,
    mark: Option<u32>,
    kernel: KernelOptions,
}

/// Runs `program` in a new world until it ends; what it has spawned ends with it.
///
/// # Errors
/// The operating system gives no event queue, no timer, or no such address.
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
    // Tasks are dropped while the runtime is there: they deregister their sockets.
    let inside = runtime.enter();
    drop(tasks);
    drop(inside);
    // A resolver that still waits for an answer keeps nobody.
    runtime.shutdown_background();
    ended
}

impl OsWorld {
    fn begin(options: Options, busy_poll: Arc<BusyPoll>) -> io::Result<Self> {
        let (rng, drawn) = match options.seed {
            Some(seed) => (Rng::new(seed), None),
            // Verification tags, cookie keys and nonces are drawn from it: all that keeps a stranger who sees none of our
            // packets from meddling (RFC 9260 §12.2.4.2).
            None => (Rng::from_os()?, Some(Cell::new(0))),
        };
        let timers = Timers::begin()?;
        let addresses = Rc::new(Addresses::new(options.addresses)?);
        let (single_packets, mark, kernel) = (false, None, KernelOptions::default());
        let inner = Inner { timers, rng, drawn, addresses, busy_poll, single_packets, mark, kernel };
        Ok(Self { inner: Rc::new(inner) })
    }

    /// The same world and clock, seen from other addresses of the host (see [`Options::addresses`]).
    ///
    /// # Errors
    /// The host's addresses cannot be read.
    pub fn at(&self, addresses: Vec<IpAddr>) -> io::Result<Self> {
        let inner = self.new_view();
        Ok(Self { inner: Rc::new(Inner { addresses: Rc::new(Addresses::new(addresses)?), ..inner }) })
    }

    /// The clock of this world, which other threads may read.
    #[must_use]
    pub fn clock(&self) -> OsClock {
        self.inner.timers.clock()
    }

    /// The same world, whose UDP goes packet by packet: neither cut (GSO) nor
    /// joined (GRO) by the kernel, as on a host without these offloads.
    #[must_use]
    pub fn packet_by_packet(&self) -> Self {
        Self { inner: Rc::new(Inner { single_packets: true, ..self.new_view() }) }
    }

    /// The same world, whose packets of raw sockets carry a mark (`SO_MARK`) by which the host's rules of routing know
    /// them. Takes the right to administer the network namespace.
    #[must_use]
    pub fn marked(&self, mark: u32) -> Self {
        Self { inner: Rc::new(Inner { mark: Some(mark), ..self.new_view() }) }
    }

    /// The same world, with the kernel's connections made in this way.
    #[must_use]
    pub fn with_kernel(&self, options: KernelOptions) -> Self {
        Self { inner: Rc::new(Inner { kernel: options, ..self.new_view() }) }
    }

    /// What another view of this world begins with: the same clock, randomness of its own.
    fn new_view(&self) -> Inner {
        let inner = &*self.inner;
        Inner {
            timers: inner.timers.clone(),
            // The other's endpoints must not draw what this one's do.
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
        // Without the type of the task, tokio is compiled once for each type of result.
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

/// A socket of the operating system, or several that act as one.
#[derive(Debug)]
pub enum OsSocket {
    /// UDP.
    Udp(Box<udp::Udp>),
    /// IP, of one protocol.
    Raw(Box<raw::Raw>),
    /// Either, of one of several worlds.
    Shared(Box<shards::Shared>),
}

impl Datagrams for OsSocket {
    fn poll_send(&self, cx: &mut Context<'_>, batch: &mut SendBatch) -> Poll<io::Result<()>> {
        match self {
            Self::Udp(socket) => socket.poll_send(cx, batch),
            Self::Shared(socket) => socket.own.poll_send(cx, batch),
            Self::Raw(socket) => socket.poll_send(cx, batch),
        }
    }

    fn queue(&self, batch: &mut SendBatch) -> bool {
        match self {
            Self::Udp(socket) => socket.queue(batch),
            Self::Shared(socket) => socket.own.queue(batch),
            Self::Raw(_) => false,
        }
    }

    fn poll_flush(&self, cx: &mut Context<'_>, unsent: &mut SendBatch) -> Poll<io::Result<()>> {
        match self {
            Self::Udp(socket) => socket.poll_flush(cx, unsent),
            Self::Shared(socket) => socket.own.poll_flush(cx, unsent),
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
            Self::Shared(socket) => socket.own.local(),
            Self::Raw(socket) => socket.local(),
        }
    }

    fn mtu(&self, source: IpAddr) -> u32 {
        match self {
            Self::Udp(socket) => socket.mtu(source),
            Self::Shared(socket) => socket.own.mtu(source),
            Self::Raw(socket) => socket.mtu(source),
        }
    }

    fn max_segments(&self) -> usize {
        match self {
            Self::Udp(socket) => socket.max_segments(),
            Self::Shared(socket) => socket.own.max_segments(),
            Self::Raw(_) => raw::MAX_SEGMENTS,
        }
    }

    fn ports(&self) -> Option<Arc<dyn Ports>> {
        match self {
            Self::Raw(socket) => socket.ports(),
            Self::Shared(socket) => socket.ports(),
            Self::Udp(_) => None,
        }
    }
}

/// A running task; dropping it cancels it.
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
            // The world is one program: a task that panics takes it down.
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

/// Names that are looked up at a time.
const RESOLVERS: usize = 16;
/// What an IP packet can have at most, whatever its interface takes.
const LARGEST_PACKET: u32 = 65_535;
