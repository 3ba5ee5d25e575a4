//! Collects the messages that were neither delivered nor abandoned when their association ended.
//!
//! Implements RFC 9260 §11.2.2 (Send Failure), as far as it concerns messages.

use super::SendHalf;
use super::queue::Undelivered;

impl SendHalf {
    /// Returns all messages that are neither fully acknowledged nor abandoned. `payloads` says whether their contents
    /// are included. Sent messages come first, in the order of their TSNs. Unsent messages follow, stream by stream,
    /// in the order of queuing.
    #[cold]
    pub(crate) fn undelivered(&mut self, payloads: bool) -> Vec<Undelivered> {
        if self.queue.buffered_bytes() == 0 {
            return Vec::new();
        }
        let mut messages = self.queue.undelivered();
        let firsts = self.outstanding.first_offsets();
        let place = |message: u32| {
            let stored = self.queue.message(message);
            (firsts.get(&message).copied().unwrap_or(u64::MAX), stored.stream, stored.stream_offset)
        };
        messages.sort_by_key(|&message| place(message));
        let describe = |message: u32| {
            let (sent, _) = self.queue.progress(message);
            let payload = if payloads { self.queue.whole(message) } else { None };
            Undelivered { payload, ..self.queue.message(message).undelivered(sent) }
        };
        messages.into_iter().map(describe).collect()
    }
}
