//! A message that will not be delivered, as the application hears of it.
//!
//! Home of no rule: who says so has it.

use super::Stored;

/// A message that is not acknowledged in full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Undelivered {
    pub(crate) stream: u16,
    pub(crate) ppid: u32,
    pub(crate) context: u32,
    /// Its length.
    pub(crate) bytes: u32,
    pub(crate) unordered: bool,
    /// At least a part of it was sent.
    pub(crate) sent: bool,
}

impl Stored {
    /// The message, of which something was `sent` or nothing.
    pub(in crate::send) fn undelivered(&self, sent: bool) -> Undelivered {
        let &Self { stream, ppid, context, length: bytes, unordered, .. } = self;
        Undelivered { stream, ppid, context, bytes, unordered, sent }
    }
}
