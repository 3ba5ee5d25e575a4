//! Cancels the messages of one stream in the send buffer.

use super::limited::ReliabilityPolicy;
use super::{Queue, Stream};

impl Queue {
    /// Returns the messages on `stream` that are neither fully acknowledged nor abandoned. Partly sent messages are
    /// included only if the peer can be asked to skip them (`skips`).
    pub(crate) fn cancellable(&self, stream: u16, skips: bool) -> Vec<u32> {
        self.held(|stored| stored.stream == stream && (skips || stored.cut == 0))
    }

    /// Returns the messages that are neither fully acknowledged nor abandoned.
    pub(crate) fn undelivered(&self) -> Vec<u32> {
        self.held(|_| true)
    }

    /// Returns the messages for which `wanted` returns true, except fully acknowledged and abandoned messages.
    fn held(&self, wanted: impl Fn(&super::QueuedMessage) -> bool) -> Vec<u32> {
        let mut free = vec![false; self.messages.len()];
        for message in self.free.iter(&self.messages).chain(self.completed_limited.iter(&self.messages)) {
            free[message as usize] = true;
        }
        let all = self.messages.iter().zip(free).enumerate();
        all.filter(|(_, (stored, free))| !free && wanted(stored))
            .filter(|(_, (stored, _))| !matches!(stored.policy, ReliabilityPolicy::Abandoned(_)))
            .map(|(message, _)| message as u32)
            .collect()
    }

    /// Removes `messages` from the scheduler, all in one pass. The caller abandons these messages next.
    pub(crate) fn take_off(&mut self, messages: &[u32]) {
        self.cancelling = messages.into();
        self.cancelling.sort_unstable();
        let cancelling = &self.cancelling;
        let mut waited = vec![];
        self.scheduler.retain(|message| {
            let off = cancelling.binary_search(&message).is_ok();
            if off {
                waited.push(message);
            }
            !off
        });
        if let Some(hold) = &mut self.hold {
            hold.drop_all_kept(cancelling);
            for message in waited {
                hold.done(self.messages[message as usize].stream);
            }
        }
    }

    /// Returns whether `message` is already removed from the scheduler.
    pub(super) fn is_taken_off(&self, message: u32) -> bool {
        self.cancelling.binary_search(&message).is_ok()
    }

    /// Forgets the messages that a cancellation has removed from the scheduler, because all of them are abandoned now.
    pub(crate) fn taken_off_done(&mut self) {
        self.cancelling = Box::default();
    }

    /// Turns a reliable message into a message that may be abandoned. Frees the buffered bytes of the message, except
    /// the bytes that are still needed. `held` lists the outstanding chunks of the message, each by its offset in the
    /// message and its length.
    pub(crate) fn loosen(&mut self, message: u32, held: impl Iterator<Item = (u32, u16)>) {
        self.release_now();
        let stored = &mut self.messages[message as usize];
        if stored.policy != ReliabilityPolicy::Full {
            return;
        }
        stored.policy = ReliabilityPolicy::Limited;
        let (slot, offset) = (stored.slot as usize, stored.buffer_offset);
        let (released, cut, length) = (stored.released, stored.cut, stored.length);
        let released_out_of_order = stored.released_out_of_order;
        let bytes = &mut self.streams.at(slot).bytes;
        let mut free = |from: u32, to: u32| {
            if from < to {
                bytes.free(offset + u64::from(from), u64::from(to - from));
            }
        };
        if released_out_of_order {
            held.for_each(|(offset, length)| free(offset, offset + u32::from(length)));
            free(cut, length);
        } else {
            free(released, length);
        }
        if bytes.is_empty() {
            self.on_stream_idle(slot);
        }
    }

    /// Returns whether one of `streams` has data that was not yet cut into chunks. An empty list stands for any stream.
    pub(crate) fn is_waiting(&self, streams: &[u16]) -> bool {
        let waiting = |message: &&super::QueuedMessage| message.cut < message.length;
        let mut all = self.messages.iter().filter(waiting);
        all.any(|message| streams.is_empty() || streams.binary_search(&message.stream).is_ok())
    }
}

impl Stream {
    /// After a reset of the stream, continues the count of its queued bytes at the next multiple of 2^32. So sender and
    /// receiver have the same count, even if earlier messages were never sent.
    pub(super) fn begin_new_life(&mut self) {
        self.queued_bytes = crate::position_after_reset(self.queued_bytes);
    }
}
