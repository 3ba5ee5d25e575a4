//! The messages in the send buffer that may be abandoned (partial reliability, RFC 3758).
//!
//! A message that may be abandoned has its own buffer instead of space in its stream's ring, so its bytes can be freed
//! at once. Its outstanding chunks keep their entries until the peer has acknowledged or skipped their TSNs.

use super::{Cut, Queue};
use crate::error::SendError;
use crate::message::Message;
use crate::reliability::Reliability;

/// Whether a message may be abandoned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReliabilityPolicy {
    /// The message is delivered in full.
    Full,
    /// The message may be abandoned.
    Limited,
    /// The message was abandoned. Contains the number of its chunks that are still outstanding.
    Abandoned(u32),
}

impl ReliabilityPolicy {
    pub(super) const fn of(message: &Message) -> Self {
        match message.reliability {
            Reliability::Full => Self::Full,
            _ => Self::Limited,
        }
    }
}

impl Queue {
    /// Queues a message if there is room, and returns its index.
    pub(crate) fn push_limited(&mut self, message: Message, payload: &[u8]) -> Result<u32, SendError> {
        self.push(message, payload)?;
        Ok(self.latest)
    }

    /// Returns the number of bytes that must be freed to make room for `wanted` bytes. `None` if there is room, or if
    /// the buffer is smaller than `wanted` bytes.
    pub(crate) fn missing(&self, wanted: u64) -> Option<u64> {
        let missing = wanted.saturating_sub(self.writable_bytes());
        (missing > 0 && wanted <= self.limit).then_some(missing)
    }

    /// Returns the number of bytes that the message occupies in the buffer.
    pub(crate) fn held_by(&self, message: u32) -> u64 {
        let stored = &self.messages[message as usize];
        u64::from(stored.length - stored.released)
    }

    /// Returns the number of bytes of the message that are in chunks and not cumulatively acknowledged.
    pub(crate) fn outstanding_of(&self, message: u32) -> u32 {
        let stored = &self.messages[message as usize];
        stored.cut - stored.released
    }

    /// Returns two values: whether a part of the message has been sent, and whether the whole message has been sent.
    pub(crate) fn progress(&self, message: u32) -> (bool, bool) {
        let stored = &self.messages[message as usize];
        (stored.cut > 0, stored.cut == stored.length)
    }

    /// Releases a chunk that was acknowledged or skipped. The chunk belongs to a message with limited reliability,
    /// abandoned or not. Afterwards the bytes of the chunk do not count as buffered by the stream.
    #[cold]
    pub(super) fn release_limited(&mut self, message: u32, length: u32) {
        let stored = &mut self.messages[message as usize];
        let done = if let ReliabilityPolicy::Abandoned(left) = &mut stored.policy {
            *left -= 1;
            *left == 0
        } else {
            stored.released += length;
            let (slot, done) = (stored.slot, stored.released == stored.length);
            self.count_off(slot, length.into());
            done
        };
        if done {
            self.forget(message);
        }
    }

    fn forget(&mut self, message: u32) {
        let stored = &mut self.messages[message as usize];
        stored.policy = ReliabilityPolicy::Full;
        // A completed message no longer needs its key.
        stored.key = None;
        self.completed_limited.push(&mut self.messages, message);
    }

    /// Abandons a message. `left` is the number of its chunks that stay outstanding.
    pub(crate) fn abandon(&mut self, message: u32, left: u32) {
        let stored = &mut self.messages[message as usize];
        assert!(
            stored.policy == ReliabilityPolicy::Limited,
            "a message is given up that must not be, or twice"
        );
        let rest = stored.length - stored.cut;
        let held = u64::from(stored.length - stored.released);
        let slot = stored.slot;
        self.buffered -= held;
        self.unsent -= u64::from(rest);
        self.payload_memory -= stored.own_buffer.take().map_or(0, |own| own.len() as u64);
        stored.policy = ReliabilityPolicy::Abandoned(left);
        // From now on, no part of the message waits to be sent.
        stored.cut = stored.length;
        let stream = stored.stream;
        self.count_off(slot, held);
        let kept = |hold: &mut Box<super::hold::HeldStreams>| hold.drop_kept(message);
        if rest > 0 && !self.is_taken_off(message) && !self.hold.as_mut().is_some_and(kept) {
            self.scheduler.remove(stream, message);
            if let Some(hold) = &mut self.hold {
                hold.done(stream);
            }
        }
        if left == 0 {
            self.forget(message);
        }
    }

    /// Returns whether the chunk `cut` is the first one of a message that may be abandoned.
    #[inline]
    pub(crate) fn begins_limited(&self, cut: Cut) -> bool {
        cut.offset == 0 && self.messages[cut.message as usize].policy != ReliabilityPolicy::Full
    }

    /// Returns the next completed message: all of its chunks have been acknowledged or skipped. The index of the
    /// message may be reused from now on.
    pub(crate) fn take_completed_limited(&mut self) -> Option<u32> {
        let message = self.completed_limited.pop(&self.messages)?;
        self.payload_memory -=
            self.messages[message as usize].own_buffer.take().map_or(0, |own| own.len() as u64);
        self.free.push(&mut self.messages, message);
        Some(message)
    }

    /// Returns whether the message can still be abandoned: its reliability is limited, and the message is neither fully
    /// acknowledged nor abandoned yet.
    pub(crate) fn is_limited(&self, message: u32) -> bool {
        self.messages[message as usize].policy == ReliabilityPolicy::Limited
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SchedulerKind;

    fn give(queue: &mut Queue, reliability: Reliability, bytes: usize) -> u32 {
        let message = Message { reliability, ..Message::default() };
        queue.push_limited(message, &vec![0; bytes]).expect("room")
    }

    /// Sends the next message as a whole. Returns the position of its first byte among the bytes of its stream.
    fn send(queue: &mut Queue) -> u64 {
        let cut = queue.next_cut(1_000, 1_400).expect("a message");
        queue.number(cut);
        queue.commit(cut);
        queue.message(cut.message).stream_offset
    }

    /// Messages are abandoned before they are sent. Their bytes still count in the stream positions of later messages,
    /// because traces count all bytes that the application has written.
    #[test]
    fn unsent_abandoned_messages_keep_their_stream_position() {
        let mut queue = Queue::new(100_000, SchedulerKind::Fcfs);
        give(&mut queue, Reliability::Full, 100);
        let first = give(&mut queue, Reliability::Retransmissions(0), 20);
        give(&mut queue, Reliability::Full, 300);
        let second = give(&mut queue, Reliability::Retransmissions(0), 7);
        queue.abandon(first, 0);
        assert_eq!(send(&mut queue), 0);
        assert_eq!(send(&mut queue), 120);
        queue.abandon(second, 0);
        give(&mut queue, Reliability::Full, 1);
        assert_eq!(send(&mut queue), 427);
        assert_eq!(queue.message(first).mid, 0, "but takes no number");
    }

    /// The memory and the index of a completed message are reused. Otherwise the send buffer would grow with every
    /// message that may be abandoned.
    #[test]
    fn memory_and_numbers_of_messages_that_are_gone_are_used_again() {
        let mut queue = Queue::new(100_000, SchedulerKind::Fcfs);
        let [delivered, abandoned] =
            [100, 50].map(|bytes| give(&mut queue, Reliability::Retransmissions(0), bytes));
        send(&mut queue);
        send(&mut queue);
        queue.release(delivered, 100);
        queue.abandon(abandoned, 1);
        assert_eq!([queue.take_completed_limited(), queue.take_completed_limited()], [Some(delivered), None]);
        queue.release(abandoned, 50);
        assert_eq!([queue.take_completed_limited(), queue.take_completed_limited()], [Some(abandoned), None]);
        assert_eq!((queue.payload_memory, queue.buffered), (0, 0));
        for _ in 0..2 {
            give(&mut queue, Reliability::Retransmissions(0), 10);
        }
        assert_eq!(queue.messages.len(), 2);
    }

    /// RFC 6525 §5.1.2: messages held back are sent after the reset. If the reset succeeds, their byte positions start
    /// at the next multiple of 2^32 (here 2^32). If the reset fails, the byte count of the stream continues.
    #[test]
    fn what_is_kept_back_is_counted_from_the_reset() {
        let mut queue = Queue::new(100_000, SchedulerKind::Fcfs);
        give(&mut queue, Reliability::Full, 100);
        send(&mut queue);
        for anew in [true, false] {
            queue.hold(1, &[0]);
            give(&mut queue, Reliability::Full, 10);
            give(&mut queue, Reliability::Full, 10);
            assert_eq!(queue.next_cut(1_000, 1_400), None);
            queue.resume(1, anew);
            give(&mut queue, Reliability::Full, 10);
            let begin = (1 << 32) + if anew { 0 } else { 30 };
            let stream_offsets: Vec<u64> = (0..3).map(|_| send(&mut queue)).collect();
            assert_eq!(stream_offsets, [begin, begin + 10, begin + 20], "{anew}");
        }
    }
}
