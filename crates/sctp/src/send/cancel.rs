//! Cancels all messages on one stream at the application's request.
//!
//! Unsent messages are dropped. Sent messages are abandoned if the peer can be asked to skip them (RFC 3758 §3.5 A2,
//! A3). Otherwise the transmission of sent messages is completed, because half a message cannot be withdrawn.

use super::SendHalf;
use super::abandon::Limits;
use super::outstanding::ChunkState;

impl SendHalf {
    /// Cancels the messages queued on `stream`, as far as possible. `skips` says whether the peer can be asked to
    /// skip sent chunks.
    pub(crate) fn cancel(&mut self, stream: u16, skips: bool) {
        // A partly sent message can be abandoned only if a spare TSN is left, which stands for the unsent rest.
        // Otherwise the message is completed.
        let skips = skips && self.outstanding.has_spare();
        let messages = self.queue.cancellable(stream, skips);
        if messages.is_empty() {
            return;
        }
        let firsts = self.outstanding.first_offsets();
        let base = self.outstanding.base();
        self.limits.get_or_insert_with(|| Box::new(Limits::beginning_at(base)));
        self.queue.take_off(&messages);
        for message in messages {
            let all = firsts.get(&message).copied().unwrap_or(self.outstanding.end())..self.outstanding.end();
            let entries = all.filter_map(|offset| self.outstanding.get(offset));
            let unacknowledged =
                entries.filter(|entry| entry.message == message && entry.state != ChunkState::Freed);
            self.queue.loosen(message, unacknowledged.map(|entry| (entry.offset, entry.length)));
            let context = self.queue.message(message).context;
            if let Some(limits) = &mut self.limits {
                limits.cancel(message, context, firsts.get(&message).copied());
            }
            self.abandon(message);
        }
        self.queue.taken_off_done();
    }
}
