//! Tasks that wait for the same thing.

use std::task::{Context, Waker};

/// Wakers of tasks that all wait for one thing; each is kept once.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    wakers: Vec<Waker>,
}

impl Waiters {
    /// The polling task waits from here on.
    pub(crate) fn add(&mut self, cx: &Context<'_>) {
        if !self.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            self.wakers.push(cx.waker().clone());
        }
    }

    /// What they wait for has come.
    pub(crate) fn wake(&mut self) {
        for waker in self.wakers.drain(..) {
            waker.wake();
        }
    }
}

/// Has `slot` wake the polling task, without a new waker when it is the same as before.
pub(crate) fn wait(slot: &mut Option<Waker>, cx: &Context<'_>) {
    match slot {
        Some(waker) => waker.clone_from(cx.waker()),
        None => *slot = Some(cx.waker().clone()),
    }
}

/// Wakes the one that waits, if any.
pub(crate) fn wake(slot: &mut Option<Waker>) {
    if let Some(waker) = slot.take() {
        waker.wake();
    }
}
