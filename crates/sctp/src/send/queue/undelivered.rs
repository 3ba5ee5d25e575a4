//! Describes undelivered messages for the application.
//!
//! Implements no RFC rule: the callers implement the rules.

use super::{Queue, QueuedMessage};

/// A message that was not fully acknowledged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Undelivered {
    pub(crate) stream: u16,
    pub(crate) ppid: u32,
    pub(crate) context: u32,
    /// The length of the message in bytes.
    pub(crate) bytes: u32,
    pub(crate) unordered: bool,
    /// Whether at least a part of the message was sent.
    pub(crate) sent: bool,
    /// The contents of the message, if the caller requested contents and no byte was acknowledged.
    pub(crate) payload: Option<Vec<u8>>,
}

impl QueuedMessage {
    /// Describes the message. `sent` says whether a part of it was sent.
    pub(in crate::send) fn undelivered(&self, sent: bool) -> Undelivered {
        let &Self { stream, ppid, context, length: bytes, unordered, .. } = self;
        Undelivered { stream, ppid, context, bytes, unordered, sent, payload: None }
    }
}

impl Queue {
    /// Returns all bytes of a message, or `None` if one of the bytes was acknowledged.
    pub(in crate::send) fn whole(&self, message: u32) -> Option<Vec<u8>> {
        let stored = self.message(message);
        let (first, second) = (stored.released == 0).then(|| self.payload(stored, 0, stored.length))?;
        Some([first, second].concat())
    }
}
