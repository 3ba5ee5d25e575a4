//! Buffers for reassembly, kept for reuse.
//!
//! Home of no rule.

/// Buffers for reuse; none are kept if memory is shared with other associations.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    buffers: Vec<Vec<u8>>,
    /// Bytes of memory in the buffers.
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
        /// The most memory kept. The next message may put a single byte into a large buffer.
        const KEPT: usize = 256 << 10;
        if !self.shared && self.kept + buffer.capacity() <= KEPT {
            buffer.clear();
            self.kept += buffer.capacity();
            self.buffers.push(buffer);
        }
    }
}
