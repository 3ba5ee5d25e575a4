//! Ending a server in good order.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Tells servers to finish what is in flight and take in nothing more. A clone
/// tells the same ones.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    inner: Rc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    stopped: Cell<bool>,
    waiting: RefCell<BTreeMap<u64, Waker>>,
    next: Cell<u64>,
}

impl Stop {
    /// Not stopped yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops.
    pub fn stop(&self) {
        self.inner.stopped.set(true);
        for waker in std::mem::take(&mut *self.inner.waiting.borrow_mut()).into_values() {
            waker.wake();
        }
    }

    /// A place to wait in.
    pub(crate) fn wait(&self) -> Waiting {
        let inner = self.inner.clone();
        let place = inner.next.replace(inner.next.get() + 1);
        Waiting { inner, place }
    }
}

/// Waits for the stop.
#[derive(Debug)]
pub(crate) struct Waiting {
    inner: Rc<Inner>,
    place: u64,
}

impl Waiting {
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        if self.inner.stopped.get() {
            return Poll::Ready(());
        }
        let mut waiting = self.inner.waiting.borrow_mut();
        match waiting.get_mut(&self.place) {
            Some(waker) => waker.clone_from(cx.waker()),
            None => {
                waiting.insert(self.place, cx.waker().clone());
            }
        }
        Poll::Pending
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.inner.waiting.borrow_mut().remove(&self.place);
    }
}
