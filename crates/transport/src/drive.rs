//! The loop that drives any engine over any `World`.
//!
//! In each turn, the loop passes received packets and the current time to the engine, and takes packets and events from
//! the engine. The loop then sets the timer to the engine's deadline and waits. Between two polls of the loop, an
//! application may issue commands to the engine and then wake the loop.
//!
//! The loop allocates no memory per packet, because it reuses two batches. The loop moves the timer only if the
//! deadline becomes earlier than the timer's setting. If the deadline has moved to a later time, the loop notices this
//! when the timer fires.

use anabranch_base::time::Instant;
use anabranch_base::{Engine, Icmp, RecvBatch, SendBatch};
use anabranch_world::{DatagramSocket, Timer, World};
use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// An engine, together with the tasks that wait for events of the engine.
pub trait EngineOwner: 'static {
    /// The type of the protocol engine that the loop drives.
    type Engine: Engine;

    /// The number of received bytes after which the loop sends packets before it receives more packets. With a much
    /// larger value, acknowledgements would be sent only after a whole window of data.
    const AT_ONCE: usize = 16 * 1024;

    /// Returns the engine that the loop drives.
    fn engine(&mut self) -> &mut Self::Engine;

    /// Handles one event of the engine, and wakes the tasks that wait for the event.
    fn handle_event(&mut self, now: Instant, event: <Self::Engine as Engine>::Event);

    /// Handles a permanent failure of the socket. No further packets will arrive.
    fn handle_failure(&mut self, error: &io::Error);

    /// Returns the object with which commands wake the loop.
    fn notify(&mut self) -> &mut Notify;
}

/// The object with which a command notifies the loop that the engine may have packets to send.
#[derive(Debug, Default)]
pub struct Notify {
    waker: Option<Waker>,
}

impl Notify {
    /// Wakes the loop, so that it polls the engine again.
    #[inline]
    pub fn notify(&self) {
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }

    /// Returns the waker that [`notify`](Self::notify) uses, for callers that wake the loop at a later time.
    #[must_use]
    pub fn waker(&self) -> Option<Waker> {
        self.waker.clone()
    }

    /// Makes [`notify`](Self::notify) wake the task that `cx` belongs to. Returns true if that task was not registered
    /// already.
    #[inline]
    fn register(&mut self, cx: &Context<'_>) -> bool {
        if self.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            return false;
        }
        self.store_waker(cx);
        true
    }

    #[cold]
    fn store_waker(&mut self, cx: &Context<'_>) {
        self.waker = Some(cx.waker().clone());
    }
}

/// Drives the engine of `owner` over `socket` until the socket fails. `socket` is a socket of a `World`, or a layer
/// around one.
pub fn drive<W: World, S: DatagramSocket, O: EngineOwner>(
    world: W,
    socket: S,
    owner: Rc<RefCell<O>>,
) -> impl Future<Output = ()> {
    let mut driver = Driver::new(world, socket);
    poll_fn(move |cx| driver.poll(cx, &mut *owner.borrow_mut()))
}

/// The loop of [`drive`], for callers that do not keep the engine in an `Rc`. The caller passes the engine to each call
/// of `poll`.
#[derive(Debug)]
pub struct Driver<W: World, S> {
    world: W,
    socket: S,
    timer: W::Timer,
    /// The time to which the timer is set; never later than the engine's deadline.
    armed: Option<Instant>,
    /// Whether the timer, with its current setting, will wake this task.
    is_timer_registered: bool,
    input: RecvBatch,
    /// Packets of the engine that the socket has not accepted yet.
    output: SendBatch,
    /// Packets that the socket accepted into its queue and later could not send.
    unsent: SendBatch,
}

impl<W: World, S: DatagramSocket> Driver<W, S> {
    /// Creates a loop that drives `socket`. A single task must poll the loop.
    pub fn new(world: W, socket: S) -> Self {
        let segments = socket.max_segments();
        let timer = world.timer();
        let (input, output) = (RecvBatch::new(segments), SendBatch::new(segments));
        let unsent = SendBatch::new(1);
        Self { world, socket, timer, armed: None, is_timer_registered: false, input, output, unsent }
    }

    /// Receives the packets that have arrived, and sends the packets that are due. Ready once the socket has failed. If
    /// more work is left than one poll may do, the task is woken again immediately.
    #[inline(always)]
    pub fn poll<O: EngineOwner>(&mut self, cx: &mut Context<'_>, owner: &mut O) -> Poll<()> {
        if owner.notify().register(cx) {
            // The previous poll came from another task, or this is the first poll. The timer therefore would not wake
            // this task.
            self.is_timer_registered = false;
            let offloads = self.socket.offloads_checksums() && owner.engine().offloads_checksums();
            self.input.accept_offloaded(offloads);
            self.output.set_checksum_offload(offloads);
        }
        match self.turn(cx, owner) {
            Ok(()) => Poll::Pending,
            Err(error) => {
                owner.handle_failure(&error);
                Poll::Ready(())
            }
        }
    }

    #[inline(always)]
    fn turn<O: EngineOwner>(&mut self, cx: &mut Context<'_>, owner: &mut O) -> io::Result<()> {
        let mut taken = 0;
        for _ in 0..ROUNDS_PER_POLL {
            // The time is read in each round, because a real clock advances between rounds. Otherwise the answer to a
            // packet sent in this round could appear to arrive at the instant at which the packet was sent.
            let now = self.world.now();
            let mut more = self.receive(cx, now, owner.engine())?;
            // The engine gets all packets that arrived together, up to AT_ONCE bytes, before it answers them.
            let mut bytes = self.input.bytes().len();
            while more && bytes < O::AT_ONCE && self.socket.has_more() {
                more = self.receive(cx, now, owner.engine())?;
                bytes += self.input.bytes().len().max(1);
            }
            taken += bytes;
            while let Some((peer, state)) = self.socket.take_peer() {
                owner.engine().handle_peer(now, peer, state);
            }
            if owner.engine().poll_timeout().is_some_and(|at| at <= now) {
                owner.engine().handle_timeout(now);
            }
            // Send even if no packet arrived, because applications may have issued commands.
            self.transmit(cx, now, owner.engine())?;
            while let Some(event) = owner.engine().poll_event() {
                owner.handle_event(now, event);
            }
            // If `more` is false, no work is left. The socket wakes this task when a packet arrives. The engine's
            // deadline is in the future: [`Engine`] guarantees this once `poll_transmit` and `poll_event` have no more
            // output.
            if !more {
                self.rearm(cx, now, owner.engine().poll_timeout());
                return Ok(());
            }
            // The loop stops here, so that the tasks that read the data run while the data is still in the CPU caches.
            if taken >= BYTES_PER_POLL {
                break;
            }
        }
        // More packets may be waiting. This task asks to be polled again later, so that other tasks run first.
        cx.waker().wake_by_ref();
        Ok(())
    }

    /// Receives one batch of packets. Returns true if more packets may be waiting at the socket.
    #[inline(always)]
    fn receive<E: Engine>(&mut self, cx: &mut Context<'_>, now: Instant, engine: &mut E) -> io::Result<bool> {
        // Most batches are empty here; clearing only non-empty batches saves time.
        if !self.input.is_empty() {
            self.input.clear();
        }
        match self.socket.poll_recv(cx, &mut self.input) {
            Poll::Pending => Ok(false),
            Poll::Ready(Err(error)) => Err(error),
            Poll::Ready(Ok(())) => {
                // The flag `drained` is read before the engine gets the batch, because the engine may empty the batch.
                let drained = self.input.drained;
                if let Some(icmp) = self.input.icmp {
                    self.deliver_icmp(now, engine, &icmp);
                } else {
                    engine.handle_batch(now, &mut self.input);
                }
                Ok(!drained)
            }
        }
    }

    #[cold]
    fn deliver_icmp<E: Engine>(&self, now: Instant, engine: &mut E, icmp: &Icmp) {
        engine.handle_icmp(now, icmp, self.input.segments().next().unwrap_or_default());
    }

    /// Sends packets until the engine has no more, or until the socket accepts no more. If the socket accepts no more,
    /// the socket wakes this task later.
    #[inline(always)]
    fn transmit<E: Engine>(&mut self, cx: &mut Context<'_>, now: Instant, engine: &mut E) -> io::Result<()> {
        loop {
            // The engine fills the batch only if the previous batch was accepted.
            if self.output.is_empty() && !engine.poll_transmit(now, &mut self.output) {
                match self.flush(cx, now, engine)? {
                    // `flush` has told the engine which packets were not sent. The engine may now send them on another
                    // path.
                    Poll::Ready(true) => continue,
                    _ => return Ok(()),
                }
            }
            if self.socket.queue(&mut self.output) {
                continue;
            }
            // Packets that were queued earlier must be sent first.
            if self.flush(cx, now, engine)?.is_pending() {
                return Ok(());
            }
            match self.socket.poll_send(cx, &mut self.output) {
                // The host has no route to the destination, or no longer has the source address. The packets of the
                // batch are lost.
                Poll::Ready(Err(error)) if is_unroutable(&error) => {
                    self.output.write_checksums();
                    if let Some(packet) = self.output.packets().next() {
                        engine.handle_unsent(now, packet);
                    }
                    self.output.clear();
                }
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
                    self.drop_locally(now, engine);
                }
                Poll::Ready(sent) => sent?,
                Poll::Pending => return Ok(()),
            }
        }
    }

    /// Tells the engine that the host's packet filter has dropped the packets of the batch, and empties the batch.
    #[cold]
    fn drop_locally<E: Engine>(&mut self, now: Instant, engine: &mut E) {
        self.output.write_checksums();
        for packet in self.output.packets() {
            engine.handle_local_drop(now, packet);
        }
        self.output.clear();
    }

    /// Sends the packets that the socket has queued. If the socket accepts no more, the socket wakes this task later.
    /// Returns true if the engine was notified of packets that could not be sent.
    #[inline]
    fn flush<E: Engine>(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        engine: &mut E,
    ) -> io::Result<Poll<bool>> {
        let mut sent_any = false;
        loop {
            match self.socket.poll_flush(cx, &mut self.unsent) {
                Poll::Pending => return Ok(Poll::Pending),
                Poll::Ready(Err(error)) if is_unroutable(&error) => {
                    sent_any = true;
                    // The unsent packets may belong to several associations, and the engine must learn of each packet.
                    for packet in self.unsent.packets() {
                        engine.handle_unsent(now, packet);
                    }
                    self.unsent.clear();
                }
                Poll::Ready(sent) => return sent.map(|()| Poll::Ready(sent_any)),
            }
        }
    }

    #[inline(always)]
    fn rearm(&mut self, cx: &mut Context<'_>, now: Instant, deadline: Option<Instant>) {
        // A timer whose time has passed no longer counts as set, whether or not the timer has fired.
        if self.armed.is_some_and(|at| at <= now) {
            self.armed = None;
        }
        if let Some(at) = deadline
            && self.armed.is_none_or(|armed| at < armed)
        {
            self.timer.set(Some(at));
            self.armed = Some(at);
            self.is_timer_registered = false;
        }
        if self.armed.is_some() && !self.is_timer_registered {
            self.register_timer(cx);
        }
    }

    /// Registers this task with the timer, so that the timer wakes it.
    #[inline(never)]
    fn register_timer(&mut self, cx: &mut Context<'_>) {
        self.is_timer_registered = true;
        if self.timer.poll(cx).is_ready() {
            // With a real clock, the deadline may have passed since the loop read `now`. Waking this task runs the loop
            // again.
            self.armed = None;
            cx.waker().wake_by_ref();
        }
    }
}

/// Returns whether the error means that this host cannot send to the target address at present.
fn is_unroutable(error: &io::Error) -> bool {
    use io::ErrorKind::{AddrNotAvailable, HostUnreachable, NetworkUnreachable};
    matches!(error.kind(), AddrNotAvailable | HostUnreachable | NetworkUnreachable)
}

/// The number of batches that one poll receives before other tasks get their turn.
const ROUNDS_PER_POLL: usize = 256;
/// The number of bytes that one poll receives before other tasks get their turn. The limit lets readers process the
/// data while it is in the CPU caches.
const BYTES_PER_POLL: usize = 128 * 1024;
