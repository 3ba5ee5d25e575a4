//! The loop that drives any engine over any world.
//!
//! Each turn hands arrived packets and the current time to the engine, then takes
//! packets and events from it. Then the loop sets the timer to the engine's
//! deadline and waits. Applications issue commands between two polls of the loop
//! and wake it. Nothing here allocates per packet: two batches are reused. The
//! timer is only moved when the deadline becomes earlier than its setting; a
//! deadline that has moved later is noticed when the timer fires.

use anabranch_base::time::Instant;
use anabranch_base::{Engine, Icmp, RecvBatch, SendBatch};
use anabranch_world::{Datagrams, Timer, World};
use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// An engine together with the tasks that wait for it.
pub trait EngineOwner: 'static {
    /// The engine.
    type Engine: Engine;

    /// The number of waiting bytes that are received before anything is sent: acknowledgements must not wait for a whole
    /// window.
    const AT_ONCE: usize = 16 * 1024;

    /// The engine to drive.
    fn engine(&mut self) -> &mut Self::Engine;

    /// Handles one event of the engine and wakes the tasks it concerns.
    fn handle_event(&mut self, now: Instant, event: <Self::Engine as Engine>::Event);

    /// Handles a permanent failure of the socket: nothing more will arrive.
    fn handle_failure(&mut self, error: &io::Error);

    /// The waker with which commands wake the loop.
    fn notify(&mut self) -> &mut Notify;
}

/// Lets a command tell the loop that there may be packets to send.
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

    /// The waker that [`notify`](Self::notify) uses, for callers that notify later.
    #[must_use]
    pub fn waker(&self) -> Option<Waker> {
        self.waker.clone()
    }

    /// Makes [`notify`](Self::notify) wake the polling task. Returns true when that is a different task than before.
    #[inline]
    fn register(&mut self, cx: &Context<'_>) -> bool {
        if self.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            return false;
        }
        self.replace(cx);
        true
    }

    #[cold]
    fn replace(&mut self, cx: &Context<'_>) {
        self.waker = Some(cx.waker().clone());
    }
}

/// Drives the engine of `owner` over `socket` until the socket fails. The socket is a world's own, or a layer around one.
pub fn drive<W: World, S: Datagrams, O: EngineOwner>(
    world: W,
    socket: S,
    owner: Rc<RefCell<O>>,
) -> impl Future<Output = ()> {
    let mut driver = Driver::new(world, socket);
    poll_fn(move |cx| driver.poll(cx, &mut *owner.borrow_mut()))
}

/// The loop of [`drive`], for callers that do not keep the engine in an `Rc`. It needs the engine only while it is
/// polled.
#[derive(Debug)]
pub struct Driver<W: World, S> {
    world: W,
    socket: S,
    timer: W::Timer,
    /// The time the timer is set to; never later than the engine's deadline.
    armed: Option<Instant>,
    /// Whether the timer, as it is set now, will wake this task.
    listening: bool,
    input: RecvBatch,
    /// Packets that the socket has not taken yet, or empty.
    output: SendBatch,
    /// Packets that the socket had accepted and could not send.
    unsent: SendBatch,
}

impl<W: World, S: Datagrams> Driver<W, S> {
    /// Creates a loop over `socket`, to be polled by one task.
    pub fn new(world: W, socket: S) -> Self {
        let segments = socket.max_segments();
        let timer = world.timer();
        let (input, output) = (RecvBatch::new(segments), SendBatch::new(segments));
        let unsent = SendBatch::new(1);
        Self { world, socket, timer, armed: None, listening: false, input, output, unsent }
    }

    /// Receives what has arrived and sends what is due; ready once the socket has failed. Wakes the task when there is
    /// more to do, as [`Notify::notify`] does.
    #[inline(always)]
    pub fn poll<O: EngineOwner>(&mut self, cx: &mut Context<'_>, owner: &mut O) -> Poll<()> {
        if owner.notify().register(cx) {
            // The timer has no waker, or an outdated one.
            self.listening = false;
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
            // A real clock advances during the loop: answers to packets that this round sends must not appear to arrive
            // at the same time.
            let now = self.world.now();
            let mut more = self.receive(cx, now, owner.engine())?;
            // Packets that arrived together are answered together, up to AT_ONCE bytes.
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
            // Also when nothing arrived: commands may have been issued.
            self.transmit(cx, now, owner.engine())?;
            while let Some(event) = owner.engine().poll_event() {
                owner.handle_event(now, event);
            }
            // The socket will wake us, and the engine's deadline lies ahead (the engine's second promise).
            if !more {
                self.rearm(cx, now, owner.engine().poll_timeout());
                return Ok(());
            }
            // Let the readers run while the data is still in the caches.
            if taken >= BYTES_PER_POLL {
                break;
            }
        }
        // Let others run before the rest.
        cx.waker().wake_by_ref();
        Ok(())
    }

    /// Receives one batch. Returns false when there was none, or when no further one waits.
    #[inline(always)]
    fn receive<E: Engine>(&mut self, cx: &mut Context<'_>, now: Instant, engine: &mut E) -> io::Result<bool> {
        // An empty batch needs no clearing.
        if !self.input.is_empty() {
            self.input.clear();
        }
        match self.socket.poll_recv(cx, &mut self.input) {
            Poll::Pending => Ok(false),
            Poll::Ready(Err(error)) => Err(error),
            Poll::Ready(Ok(())) => {
                // Read this first: the engine may empty the batch.
                let drained = self.input.drained;
                if let Some(icmp) = self.input.icmp {
                    self.report(now, engine, &icmp);
                } else {
                    engine.handle_batch(now, &mut self.input);
                }
                Ok(!drained)
            }
        }
    }

    #[cold]
    fn report<E: Engine>(&self, now: Instant, engine: &mut E, icmp: &Icmp) {
        engine.handle_icmp(now, icmp, self.input.segments().next().unwrap_or_default());
    }

    /// Sends until the engine has nothing more or the socket takes no more
    /// (then the socket wakes us).
    #[inline(always)]
    fn transmit<E: Engine>(&mut self, cx: &mut Context<'_>, now: Instant, engine: &mut E) -> io::Result<()> {
        loop {
            // An empty batch needs no clearing.
            if self.output.is_empty() && !engine.poll_transmit(now, &mut self.output) {
                match self.flush(cx, now, engine)? {
                    // The engine may know another path.
                    Poll::Ready(true) => continue,
                    _ => return Ok(()),
                }
            }
            if self.socket.queue(&mut self.output) {
                continue;
            }
            // Packets that were queued earlier go first.
            if self.flush(cx, now, engine)?.is_pending() {
                return Ok(());
            }
            match self.socket.poll_send(cx, &mut self.output) {
                // There is no route, or our address has gone: the packets are lost.
                Poll::Ready(Err(error)) if has_no_way(&error) => {
                    if let Some(packet) = self.output.packets().next() {
                        engine.handle_unsent(now, packet);
                    }
                    self.output.clear();
                }
                Poll::Ready(sent) => sent?,
                Poll::Pending => return Ok(()),
            }
        }
    }

    /// Sends the packets that wait in the socket, unless it takes no more (then it wakes us). Returns true if the engine
    /// was notified of packets that could not be sent.
    #[inline]
    fn flush<E: Engine>(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        engine: &mut E,
    ) -> io::Result<Poll<bool>> {
        let mut told = false;
        loop {
            match self.socket.poll_flush(cx, &mut self.unsent) {
                Poll::Pending => return Ok(Poll::Pending),
                Poll::Ready(Err(error)) if has_no_way(&error) => {
                    told = true;
                    // These packets may belong to several associations.
                    for packet in self.unsent.packets() {
                        engine.handle_unsent(now, packet);
                    }
                    self.unsent.clear();
                }
                Poll::Ready(sent) => return sent.map(|()| Poll::Ready(told)),
            }
        }
    }

    #[inline(always)]
    fn rearm(&mut self, cx: &mut Context<'_>, now: Instant, deadline: Option<Instant>) {
        // A time in the past is no longer set, whether or not the timer has fired.
        if self.armed.is_some_and(|at| at <= now) {
            self.armed = None;
        }
        if let Some(at) = deadline
            && self.armed.is_none_or(|armed| at < armed)
        {
            self.timer.set(Some(at));
            self.armed = Some(at);
            self.listening = false;
        }
        if self.armed.is_some() && !self.listening {
            self.listen(cx);
        }
    }

    /// Registers this task with the timer.
    #[inline(never)]
    fn listen(&mut self, cx: &mut Context<'_>) {
        self.listening = true;
        if self.timer.poll(cx).is_ready() {
            // The deadline came between `now` and here (a real clock): look again.
            self.armed = None;
            cx.waker().wake_by_ref();
        }
    }
}

/// Whether the error says that this host cannot send to that address at present.
fn has_no_way(error: &io::Error) -> bool {
    use io::ErrorKind::{AddrNotAvailable, HostUnreachable, NetworkUnreachable};
    matches!(error.kind(), AddrNotAvailable | HostUnreachable | NetworkUnreachable)
}

/// The number of batches that are received before other tasks get their turn.
const ROUNDS_PER_POLL: usize = 256;
/// The number of bytes that are received before other tasks get their turn, so that large data is read while it is in the
/// caches.
const BYTES_PER_POLL: usize = 128 * 1024;
