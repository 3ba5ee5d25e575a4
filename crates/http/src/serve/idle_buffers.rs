//! Releases the buffers of streams that wait for a request.
//!
//! hyper keeps two buffers of 8 KiB as long as a connection is open. Ten thousand clients with a hundred streams each,
//! all used once, would need 16 GB. Therefore, if many streams are open, a stream that waits for its next request
//! releases its buffers.

use std::cell::Cell;
use std::rc::Rc;

/// The maximum number of streams that keep their buffers while they wait for a request. Further streams release their
/// buffers and allocate new ones for each request, which takes less than a microsecond.
const MAX_IDLE: usize = 512;

/// The number of streams that have buffers. Clones share one count.
#[derive(Clone, Debug)]
pub(super) struct IdleBuffers {
    count: Rc<Cell<usize>>,
    max_idle: usize,
}

impl IdleBuffers {
    /// Creates the counter. At most `max_idle` streams may keep their buffers while they wait for a request.
    pub(super) fn new(max_idle: Option<usize>) -> Self {
        Self { count: Rc::default(), max_idle: max_idle.unwrap_or(MAX_IDLE) }
    }

    /// Counts another stream that has buffers.
    pub(super) fn take(&self) -> BufferUse {
        self.count.set(self.count.get() + 1);
        BufferUse(self.count.clone())
    }

    /// Returns whether a stream that waits for a request should release its buffers.
    pub(super) fn exceed_limit(&self) -> bool {
        self.count.get() > self.max_idle
    }
}

/// Counts a stream as one that has buffers until this value is dropped.
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
    fn buffers_count_as_many_above_the_limit() {
        let buffers = IdleBuffers::new(Some(2));
        let uses = [buffers.take(), buffers.take()];
        assert!(!buffers.exceed_limit());
        let third = buffers.take();
        assert!(buffers.exceed_limit());
        drop((uses, third));
        assert_eq!(buffers.count.get(), 0);
    }
}
