//! The set of tasks that wait for one event.

use std::task::{Context, Waker};

/// The wakers of the tasks that wait for one event. Each task is stored only once.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// The first waiting task, stored without an allocation, because most events have only one waiting task.
    first: Option<Waker>,
    others: Option<Box<Others>>,
}

#[derive(Debug, Default)]
struct Others(Vec<Waker>);

impl Waiters {
    /// Adds the task that `cx` belongs to.
    pub(crate) fn add(&mut self, cx: &Context<'_>) {
        let mut all = self.first.iter().chain(self.others.iter().flat_map(|others| &others.0));
        if all.any(|waker| waker.will_wake(cx.waker())) {
            return;
        }
        match &self.first {
            None => self.first = Some(cx.waker().clone()),
            Some(_) => self.others.get_or_insert_default().0.push(cx.waker().clone()),
        }
    }

    /// Wakes all waiting tasks and removes them.
    pub(crate) fn wake(&mut self) {
        if let Some(waker) = self.first.take() {
            waker.wake();
        }
        for waker in self.others.take().into_iter().flat_map(|others| others.0) {
            waker.wake();
        }
    }
}
