//! Timers of an `OsWorld`: an ordered list, and one timerfd that is set to the first deadline.
//!
//! The runtime's own timers have a resolution of 1 ms, which is too coarse for retransmission and pacing. Timers with
//! the same deadline fire in the order in which they were set.

use crate::Timer;
use anabranch_base::Instant;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use rustix::time::{timerfd_create, timerfd_settime};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::unix::AsyncFd;

/// The key of a timer in the list: its deadline, and a number that increases with each timer that is set.
type TimerKey = (Instant, u64);

/// All timers of an `OsWorld`, and the timerfd that wakes it for the first of them.
#[derive(Debug)]
pub(super) struct Timers {
    origin: std::time::Instant,
    waiting: RefCell<BTreeMap<TimerKey, Waker>>,
    next: Cell<u64>,
    /// The deadline to which the timerfd is set.
    armed: Cell<Option<Instant>>,
    descriptor: AsyncFd<OwnedFd>,
}

/// A clock that returns the time of an `OsWorld` and that other threads can read.
#[derive(Clone, Copy, Debug)]
pub struct OsClock {
    origin: std::time::Instant,
}

impl OsClock {
    /// Returns the time since the `OsWorld` was created.
    #[must_use]
    pub fn now(&self) -> Instant {
        Instant::from_nanos(anabranch_base::time::nanos(self.origin.elapsed()))
    }
}

impl Timers {
    /// Creates an empty list of timers. The clock of the `OsWorld` starts at this call.
    pub(super) fn begin() -> io::Result<Rc<Self>> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let descriptor = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        #[expect(clippy::disallowed_methods, reason = "this is where the world's time comes from")]
        let origin = std::time::Instant::now();
        let timers = Rc::new(Self {
            origin,
            waiting: RefCell::default(),
            next: Cell::new(0),
            armed: Cell::new(None),
            descriptor: super::descriptor::watch(descriptor)?,
        });
        drop(tokio::task::spawn_local(watch(Rc::downgrade(&timers))));
        Ok(timers)
    }

    /// Returns the time since the `OsWorld` was created.
    pub(super) fn now(&self) -> Instant {
        self.clock().now()
    }

    /// Returns the clock of the `OsWorld`.
    pub(super) fn clock(&self) -> OsClock {
        OsClock { origin: self.origin }
    }

    /// Wakes the tasks whose timers are due.
    fn fire(&self) {
        let now = self.now();
        loop {
            let mut waiting = self.waiting.borrow_mut();
            match waiting.first_entry() {
                Some(first) if first.key().0 <= now => {
                    let waker = first.remove();
                    drop(waiting);
                    waker.wake();
                }
                first => {
                    let next = first.map(|first| first.key().0);
                    drop(waiting);
                    self.armed.set(None);
                    if let Some(at) = next {
                        self.arm(at);
                    }
                    return;
                }
            }
        }
    }

    /// Makes the timerfd fire at `at`, unless it already fires earlier.
    fn arm(&self, at: Instant) {
        if self.armed.get().is_some_and(|armed| armed <= at) {
            return;
        }
        let span = at.since(self.now()).max(SHORTEST);
        let it_value = Timespec { tv_sec: span.as_secs() as i64, tv_nsec: i64::from(span.subsec_nanos()) };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
        // The call fails only for values out of range. A time in nanoseconds that fits a u64 is never out of range.
        let set = timerfd_settime(&self.descriptor, TimerfdTimerFlags::empty(), &once);
        assert!(set.is_ok(), "a timerfd refused {span:?}");
        self.armed.set(Some(at));
    }
}

/// Fires the timers of an `OsWorld` whenever the timerfd fires, until the timers are dropped.
async fn watch(timers: Weak<Timers>) {
    loop {
        let fired = std::future::poll_fn(|cx| {
            let Some(timers) = timers.upgrade() else { return Poll::Ready(false) };
            match timers.descriptor.poll_read_ready(cx) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Err(_)) => Poll::Ready(false),
                Poll::Ready(Ok(mut ready)) => {
                    let mut count = [0; 8];
                    // The read fails if the timerfd was set again after it fired, which is harmless.
                    let _ = rustix::io::read(&timers.descriptor, &mut count);
                    ready.clear_ready();
                    Poll::Ready(true)
                }
            }
        })
        .await;
        let Some(timers) = timers.upgrade().filter(|_| fired) else { return };
        timers.fire();
    }
}

/// A timer of an [`OsWorld`](super::OsWorld).
#[derive(Debug)]
pub struct OsTimer {
    timers: Rc<Timers>,
    key: Option<TimerKey>,
    is_waiting: bool,
}

impl OsTimer {
    pub(super) fn new(timers: Rc<Timers>) -> Self {
        Self { timers, key: None, is_waiting: false }
    }

    fn unlist(&mut self) {
        if let Some(key) = self.key.filter(|_| std::mem::take(&mut self.is_waiting)) {
            self.timers.waiting.borrow_mut().remove(&key);
        }
    }
}

impl Timer for OsTimer {
    fn set(&mut self, at: Option<Instant>) {
        self.unlist();
        self.key = at.map(|at| (at, self.timers.next.replace(self.timers.next.get() + 1)));
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(key) = self.key else { return Poll::Pending };
        if key.0 <= self.timers.now() {
            let first = self.timers.waiting.borrow().keys().next().copied();
            if first.is_none_or(|first| first >= key) {
                self.unlist();
                self.key = None;
                return Poll::Ready(());
            }
            // Other timers that are due are fired first, so that their tasks are woken in the order of the deadlines.
            self.timers.fire();
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let mut waiting = self.timers.waiting.borrow_mut();
        match waiting.get_mut(&key) {
            Some(waker) => waker.clone_from(cx.waker()),
            None => {
                waiting.insert(key, cx.waker().clone());
                drop(waiting);
                self.is_waiting = true;
                self.timers.arm(key.0);
            }
        }
        Poll::Pending
    }
}

impl Drop for OsTimer {
    fn drop(&mut self) {
        self.unlist();
    }
}

/// The shortest time to which the timerfd is set, because zero would disarm it.
const SHORTEST: Duration = Duration::from_nanos(1);
