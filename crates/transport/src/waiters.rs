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
            // Mostly it is one, of each of very many things.
            self.wakers.reserve_exact(1);
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

/// One task that waits for something. Its waker is kept after use: a task that
/// waits again costs a comparison, where a clone would count references, twice
/// for every packet.
#[derive(Debug, Default)]
pub(crate) struct Waiter {
    waker: Option<Waker>,
    waiting: bool,
}

impl Waiter {
    /// The polling task waits from here on.
    #[inline]
    pub(crate) fn wait(&mut self, cx: &Context<'_>) {
        self.waiting = true;
        if !self.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            self.keep(cx);
        }
    }

    #[cold]
    fn keep(&mut self, cx: &Context<'_>) {
        self.waker = Some(cx.waker().clone());
    }

    /// What it waits for has come.
    #[inline]
    pub(crate) fn wake(&mut self) {
        if std::mem::take(&mut self.waiting)
            && let Some(waker) = &self.waker
        {
            waker.wake_by_ref();
        }
    }

    /// Nobody waits any more.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}
