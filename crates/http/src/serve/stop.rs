//! Graceful shutdown of a server.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Tells servers to finish exchanges in flight and accept no more. Clones control the same servers.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    inner: Rc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    stopped: Cell<bool>,
    /// Wakers by slot. Thousands of sessions may be waiting.
    waiting: RefCell<Vec<Option<Waker>>>,
    /// Free slots in `waiting`.
    free: RefCell<Vec<u32>>,
}

impl Stop {
    /// Returns a handle that is not stopped yet.
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

    /// Returns a waiter for the stop.
    pub fn wait(&self) -> Waiting {
        let inner = self.inner.clone();
        let free = inner.free.borrow_mut().pop();
        let place = free.unwrap_or_else(|| {
            let mut waiting = inner.waiting.borrow_mut();
            waiting.push(None);
            (waiting.len() - 1) as u32
        });
        Waiting { inner, place }
    }
}

/// Waits for the stop.
#[derive(Debug)]
pub struct Waiting {
    inner: Rc<Inner>,
    place: u32,
}

impl Waiting {
    /// Ready once stopped; otherwise the caller's waker is registered.
    pub fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        if self.inner.stopped.get() {
            return Poll::Ready(());
        }
        match &mut self.inner.waiting.borrow_mut()[self.place as usize] {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.inner.waiting.borrow_mut()[self.place as usize] = None;
        self.inner.free.borrow_mut().push(self.place);
    }
}
