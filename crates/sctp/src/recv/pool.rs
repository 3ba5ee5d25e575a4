//! Keeps buffers of reassembly for reuse.
//!
//! This module implements no RFC rule.

/// Buffers for reuse. None are kept if memory is shared with other associations.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    buffers: Vec<Vec<u8>>,
    /// The memory of all kept buffers in bytes.
    kept_bytes: usize,
    shared: bool,
}

impl Pool {
    pub(crate) fn new(shared: bool) -> Self {
        Self { shared, ..Self::default() }
    }

    pub(crate) fn take(&mut self) -> Vec<u8> {
        let buffer = self.buffers.pop().unwrap_or_default();
        self.kept_bytes -= buffer.capacity();
        buffer
    }

    pub(crate) fn put(&mut self, mut buffer: Vec<u8>) {
        /// The largest total capacity in bytes of the free buffers in the pool. Without this limit, many large buffers
        /// could stay allocated for messages of a single byte each.
        const KEPT: usize = 256 << 10;
        if !self.shared && self.kept_bytes + buffer.capacity() <= KEPT {
            buffer.clear();
            self.kept_bytes += buffer.capacity();
            self.buffers.push(buffer);
        }
    }
}
