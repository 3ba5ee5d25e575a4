//! What streams hold between requests.
//!
//! hyper has two buffers of 8 KiB for as long as a connection is open: with ten thousand clients of a hundred streams, that
//! once had a request each, 16 GB. Where many streams are open, one that waits for its next request gives them back.

use std::cell::Cell;
use std::rc::Rc;

/// As many streams keep their buffers when they wait: to make them anew takes less than a microsecond, but for each request.
const KEPT: usize = 512;

/// How many streams have buffers.
#[derive(Clone, Debug)]
pub(super) struct Buffers {
    count: Rc<Cell<usize>>,
    kept: usize,
}

impl Buffers {
    /// Of which so many stay with streams that wait.
    pub(super) fn new(kept: Option<usize>) -> Self {
        Self { count: Rc::default(), kept: kept.unwrap_or(KEPT) }
    }

    /// One more has.
    pub(super) fn take(&self) -> Held {
        self.count.set(self.count.get() + 1);
        Held(self.count.clone())
    }

    /// Who needs none now should have none.
    pub(super) fn are_many(&self) -> bool {
        self.count.get() > self.kept
    }
}

/// A stream has buffers as long as this lives.
#[derive(Debug)]
pub(super) struct Held(Rc<Cell<usize>>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_many_beyond_those_that_are_kept() {
        let buffers = Buffers::new(Some(2));
        let held = [buffers.take(), buffers.take()];
        assert!(!buffers.are_many());
        let third = buffers.take();
        assert!(buffers.are_many());
        drop((held, third));
        assert_eq!(buffers.count.get(), 0);
    }
}
