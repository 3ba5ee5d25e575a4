//! Buffers of streams that wait for a request.
//!
//! hyper has two buffers of 8 KiB for as long as a connection is open: with ten thousand clients of a hundred streams, that
//! once had a request each, 16 GB. Where many streams are open, one that waits for its next request gives them back.

use std::cell::Cell;
use std::rc::Rc;

/// Streams that keep their buffers while they wait: new ones cost less than a microsecond, but for each request.
const KEPT: usize = 512;

/// Counts the streams that have buffers. Clones share one count.
#[derive(Clone, Debug)]
pub(super) struct IdleBuffers {
    count: Rc<Cell<usize>>,
    kept: usize,
}

impl IdleBuffers {
    /// A count of which `kept` streams may keep their buffers while they wait.
    pub(super) fn new(kept: Option<usize>) -> Self {
        Self { count: Rc::default(), kept: kept.unwrap_or(KEPT) }
    }

    /// Counts one more stream with buffers.
    pub(super) fn take(&self) -> BufferUse {
        self.count.set(self.count.get() + 1);
        BufferUse(self.count.clone())
    }

    /// Whether a stream that waits for a request should give its buffers back.
    pub(super) fn are_many(&self) -> bool {
        self.count.get() > self.kept
    }
}

/// A stream that has buffers, counted until this is dropped.
#[derive(Debug)]
pub(super) struct BufferUse(Rc<Cell<usize>>);

impl Drop for BufferUse {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_many_beyond_those_that_are_kept() {
        let buffers = IdleBuffers::new(Some(2));
        let held = [buffers.take(), buffers.take()];
        assert!(!buffers.are_many());
        let third = buffers.take();
        assert!(buffers.are_many());
        drop((held, third));
        assert_eq!(buffers.count.get(), 0);
    }
}
