//! Tasks that wait for the same thing.

use std::task::{Context, Waker};

/// Wakers of tasks that all wait for one thing; each is kept once.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// Mostly it is one, of each of very many things.
    first: Option<Waker>,
    others: Option<Box<Others>>,
}

#[derive(Debug, Default)]
struct Others(Vec<Waker>);

impl Waiters {
    /// The polling task waits from here on.
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

    /// What they wait for has come.
    pub(crate) fn wake(&mut self) {
        if let Some(waker) = self.first.take() {
            waker.wake();
        }
        for waker in self.others.take().into_iter().flat_map(|others| others.0) {
            waker.wake();
        }
    }
}
