//! A message that will not be delivered, as the application hears of it.
//!
//! Home of no rule: who says so has it.

use super::{Queue, Stored};

/// A message that is not acknowledged in full.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Undelivered {
    pub(crate) stream: u16,
    pub(crate) ppid: u32,
    pub(crate) context: u32,
    /// Its length.
    pub(crate) bytes: u32,
    pub(crate) unordered: bool,
    /// At least a part of it was sent.
    pub(crate) sent: bool,
    /// All of its bytes, where they are wanted and nothing of them was acknowledged.
    pub(crate) payload: Option<Vec<u8>>,
}

impl Stored {
    /// The message, of which something was `sent` or nothing.
    pub(in crate::send) fn undelivered(&self, sent: bool) -> Undelivered {
        let &Self { stream, ppid, context, length: bytes, unordered, .. } = self;
        Undelivered { stream, ppid, context, bytes, unordered, sent, payload: None }
    }
}

impl Queue {
    /// All bytes of a message, if none of them was acknowledged.
    pub(in crate::send) fn whole(&self, message: u32) -> Option<Vec<u8>> {
        let stored = self.message(message);
        let (first, second) = (stored.released == 0).then(|| self.payload(stored, 0, stored.length))?;
        Some([first, second].concat())
    }
}
