//! Buffers in which messages are put together, kept for the next ones.
//!
//! Home of no rule.

/// Buffers to use again; none where memory is shared with others.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    buffers: Vec<Vec<u8>>,
    /// Bytes of memory in them.
    kept: usize,
    shared: bool,
}

impl Pool {
    pub(crate) fn new(shared: bool) -> Self {
        Self { shared, ..Self::default() }
    }

    pub(crate) fn take(&mut self) -> Vec<u8> {
        let buffer = self.buffers.pop().unwrap_or_default();
        self.kept -= buffer.capacity();
        buffer
    }

    pub(crate) fn put(&mut self, mut buffer: Vec<u8>) {
        /// A single byte may lie in a large one next: all together are no more than this.
        const KEPT: usize = 256 << 10;
        if !self.shared && self.kept + buffer.capacity() <= KEPT {
            buffer.clear();
            self.kept += buffer.capacity();
            self.buffers.push(buffer);
        }
    }
}
