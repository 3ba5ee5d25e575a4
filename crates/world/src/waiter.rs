//! The waker of one task that waits for an event.

use std::task::{Context, Waker};

/// One task that waits for an event. The waker is kept after use. A task that waits again is then only compared with
/// the kept waker, and the waker need not be cloned for every packet.
#[derive(Debug, Default)]
pub struct Waiter {
    waker: Option<Waker>,
    waiting: bool,
}

impl Waiter {
    /// Makes the next [`wake`](Self::wake) wake the task that `cx` belongs to.
    #[inline]
    pub fn wait(&mut self, cx: &Context<'_>) {
        self.waiting = true;
        if !self.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            self.keep(cx);
        }
    }

    #[cold]
    fn keep(&mut self, cx: &Context<'_>) {
        self.waker = Some(cx.waker().clone());
    }

    /// Wakes the task if it waits.
    #[inline]
    pub fn wake(&mut self) {
        if std::mem::take(&mut self.waiting)
            && let Some(waker) = &self.waker
        {
            waker.wake_by_ref();
        }
    }

    /// Drops the waker, so that the task no longer waits.
    pub fn forget(&mut self) {
        *self = Self::default();
    }
}
