//! The one loop that drives any engine over any world.
//!
//! Packets that arrived go in, time goes in, packets and events come out; then
//! the timer is set to the engine's deadline and the loop waits. Applications
//! issue commands between two polls of the loop and wake it. Nothing here
//! allocates per packet: two batches are reused for ever, and the timer is only
//! moved when the deadline comes earlier than what it is set to (a deadline
//! that moved later is found out when the timer fires).

use anabranch_base::time::Instant;
use anabranch_base::{Engine, Icmp, RecvBatch, SendBatch};
use anabranch_world::{Datagrams, Timer, World};
use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// An engine together with what waits for it.
pub trait EngineOwner: 'static {
    /// The engine.
    type Engine: Engine;

    /// Bytes that wait in the socket and are taken in before anything goes out: acknowledgements must not wait for a whole
    /// window.
    const AT_ONCE: usize = 16 * 1024;

    /// The engine, to be driven.
    fn engine(&mut self) -> &mut Self::Engine;

    /// Takes one event of the engine: wakes whom it concerns.
    fn handle_event(&mut self, now: Instant, event: <Self::Engine as Engine>::Event);

    /// The socket failed for good: nothing will ever come again.
    fn handle_failure(&mut self, error: &io::Error);

    /// Where commands leave word for the loop.
    fn notify(&mut self) -> &mut Notify;
}

/// How a command tells the loop that there may be something to send.
#[derive(Debug, Default)]
pub struct Notify {
    waker: Option<Waker>,
}

impl Notify {
    /// Has the loop look at the engine again.
    #[inline]
    pub fn notify(&self) {
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }

    /// What [`notify`](Self::notify) wakes, for who notifies later.
    #[must_use]
    pub fn waker(&self) -> Option<Waker> {
        self.waker.clone()
    }

    /// Has [`notify`](Self::notify) wake the polling task; true when that is another than before.
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

/// Drives the engine of `owner` over `socket` until the socket fails. The socket is a world's own, or a layer around it.
pub fn drive<W: World, S: Datagrams, O: EngineOwner>(
    world: W,
    socket: S,
    owner: Rc<RefCell<O>>,
) -> impl Future<Output = ()> {
    let mut driver = Driver::new(world, socket);
    poll_fn(move |cx| driver.poll(cx, &mut *owner.borrow_mut()))
}

/// The loop itself, for who keeps its engine in another way than [`drive`] does: between two polls it needs none.
#[derive(Debug)]
pub struct Driver<W: World, S> {
    world: W,
    socket: S,
    timer: W::Timer,
    /// What the timer is set to; never later than the engine's deadline.
    armed: Option<Instant>,
    /// The timer, as it is set now, will wake us.
    listening: bool,
    input: RecvBatch,
    /// Filled and not yet taken by the socket, or empty.
    output: SendBatch,
    /// What the socket had kept and could not send.
    unsent: SendBatch,
}

impl<W: World, S: Datagrams> Driver<W, S> {
    /// A loop over `socket`, to be polled by one task.
    pub fn new(world: W, socket: S) -> Self {
        let segments = socket.max_segments();
        let timer = world.timer();
        let (input, output) = (RecvBatch::new(segments), SendBatch::new(segments));
        let unsent = SendBatch::new(1);
        Self { world, socket, timer, armed: None, listening: false, input, output, unsent }
    }

    /// Takes in what has come, sends what there is to send; ready once the socket has failed. It wakes the task when there is
    /// more to do, as [`Notify::notify`] does.
    #[inline(always)]
    pub fn poll<O: EngineOwner>(&mut self, cx: &mut Context<'_>, owner: &mut O) -> Poll<()> {
        if owner.notify().register(cx) {
            // The timer knows another waker, or none.
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
            // A real clock goes on: an engine that has sent what one instant allows must see the answer come later.
            let now = self.world.now();
            let mut more = self.receive(cx, now, owner.engine())?;
            // What came together is answered together, unless it is much.
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
            // Even when nothing came: commands may have been issued.
            self.transmit(cx, now, owner.engine())?;
            while let Some(event) = owner.engine().poll_event() {
                owner.handle_event(now, event);
            }
            // The socket will wake us, and the engine's deadline lies ahead (its second promise).
            if !more {
                self.rearm(cx, now, owner.engine().poll_timeout());
                return Ok(());
            }
            // Whoever reads finds it in the caches.
            if taken >= BYTES_PER_POLL {
                break;
            }
        }
        // Let others run before the rest.
        cx.waker().wake_by_ref();
        Ok(())
    }

    /// Takes in one batch; false when there is none, or none behind it.
    #[inline(always)]
    fn receive<E: Engine>(&mut self, cx: &mut Context<'_>, now: Instant, engine: &mut E) -> io::Result<bool> {
        // A batch that is empty has been cleared.
        if !self.input.is_empty() {
            self.input.clear();
        }
        match self.socket.poll_recv(cx, &mut self.input) {
            Poll::Pending => Ok(false),
            Poll::Ready(Err(error)) => Err(error),
            Poll::Ready(Ok(())) => {
                // The engine may empty the batch.
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
            // A batch that is empty has been cleared.
            if self.output.is_empty() && !engine.poll_transmit(now, &mut self.output) {
                match self.flush(cx, now, engine)? {
                    // The engine may know another way.
                    Poll::Ready(true) => continue,
                    _ => return Ok(()),
                }
            }
            if self.socket.queue(&mut self.output) {
                continue;
            }
            // What came before goes before.
            if self.flush(cx, now, engine)?.is_pending() {
                return Ok(());
            }
            match self.socket.poll_send(cx, &mut self.output) {
                // The way there, or the address here, is no more: the packets are lost with it.
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

    /// Sends what waits in the socket, unless it takes no more (then it wakes us);
    /// true when the engine was told that some of it could not go.
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
                    // These packets may be of many associations.
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
        // Fired or not, what lies in the past is no longer set.
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

    /// Has the timer wake us.
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

/// This host cannot send there from there at present.
fn has_no_way(error: &io::Error) -> bool {
    use io::ErrorKind::{AddrNotAvailable, HostUnreachable, NetworkUnreachable};
    matches!(error.kind(), AddrNotAvailable | HostUnreachable | NetworkUnreachable)
}

/// Batches taken in before other tasks get their turn.
const ROUNDS_PER_POLL: usize = 256;
/// Bytes taken in before they do: what is large does not lie until it has left the caches.
const BYTES_PER_POLL: usize = 128 * 1024;
