//! Graceful shutdown of servers.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Tells servers to complete exchanges in flight and to accept no more requests. Clones control the same servers.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    inner: Rc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    stopped: Cell<bool>,
    /// The wakers of the waiting sessions, by slot. Thousands of sessions may be waiting.
    waiting: RefCell<Vec<Option<Waker>>>,
    /// The indices of the free slots in `waiting`.
    free: RefCell<Vec<u32>>,
}

impl Stop {
    /// Returns a handle to stop servers later.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells the servers to stop.
    pub fn stop(&self) {
        self.inner.stopped.set(true);
        let woken: Vec<Waker> = self.inner.waiting.borrow_mut().iter_mut().filter_map(Option::take).collect();
        woken.into_iter().for_each(Waker::wake);
    }

    /// Returns a [`StopWaiter`], which completes when the servers are told to stop.
    pub fn wait(&self) -> StopWaiter {
        let inner = self.inner.clone();
        let free = inner.free.borrow_mut().pop();
        let index = free.unwrap_or_else(|| {
            let mut waiting = inner.waiting.borrow_mut();
            waiting.push(None);
            (waiting.len() - 1) as u32
        });
        StopWaiter { inner, slot: index }
    }
}

/// Waits until the servers are told to stop.
#[derive(Debug)]
pub struct StopWaiter {
    inner: Rc<Inner>,
    slot: u32,
}

impl StopWaiter {
    /// Completes when the servers are told to stop. Until then, the waker of `cx` is registered.
    pub fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        if self.inner.stopped.get() {
            return Poll::Ready(());
        }
        match &mut self.inner.waiting.borrow_mut()[self.slot as usize] {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for StopWaiter {
    fn drop(&mut self) {
        self.inner.waiting.borrow_mut()[self.slot as usize] = None;
        self.inner.free.borrow_mut().push(self.slot);
    }
}
