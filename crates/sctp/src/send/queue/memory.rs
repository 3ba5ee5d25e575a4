//! Sizes the send buffer and, if associations share memory, accounts for its memory.
//!
//! A buffer of twice the data that can be in flight keeps the network busy. One half is in flight while the application
//! fills the other half. Linux sizes TCP buffers in the same way (`tcp_sndbuf_expand`). If the peer keeps its window
//! closed, the buffer stays small. The size is not reduced when the congestion window shrinks, because lost data stays
//! buffered until it is acknowledged.

use super::{Queue, QueuedMessage};
use anabranch_base::{Account, Budget};

/// This association's share of the memory of all associations.
#[derive(Debug)]
pub(super) struct MemoryAccount {
    account: Account,
    /// The largest congestion window so far, limited to the number of bytes that the peer's window allows in flight.
    max_in_flight: u64,
}

impl Queue {
    /// Makes the queue use memory that associations share.
    pub(crate) fn share(&mut self, budget: &Budget) {
        let account = Account::new(budget, PART);
        self.limit = account.floor().min(self.configured_limit);
        self.memory = Some(Box::new(MemoryAccount { account, max_in_flight: 0 }));
    }

    #[inline]
    pub(crate) fn is_shared(&self) -> bool {
        self.memory.is_some()
    }

    /// Returns whether a `send` was rejected for lack of room in the buffer.
    #[inline]
    pub(crate) fn has_rejected(&self) -> bool {
        self.smallest_rejected.is_some()
    }

    /// Adjusts the limit of the send buffer to the data that may be in flight. Congestion control allows `congestion`
    /// bytes, and the peer allows `peer` bytes.
    pub(crate) fn follow(&mut self, congestion: u64, peer: u64) {
        let total = self.footprint();
        let message_table = total - self.payload_memory;
        let Some(memory) = &mut self.memory else { return };
        memory.max_in_flight = memory.max_in_flight.max(congestion).min(peer);
        let target = memory.account.floor() + 2 * memory.max_in_flight;
        // The ring buffer may be a quarter larger than the bytes in it, so the bytes are limited to four fifths of the
        // account's limit.
        let share = memory.account.limit().saturating_sub(message_table) / 5 * 4;
        self.limit = target.min(share).min(self.configured_limit);
        memory.account.set_usage(total);
    }

    /// Updates the memory account after memory was freed.
    pub(super) fn settle(&mut self) {
        let total = self.footprint();
        if let Some(memory) = &mut self.memory {
            memory.account.set_usage(total);
        }
    }

    /// Returns whether the buffers of the streams take more memory than 1.5 times the present limit of the send buffer
    /// plus [`MARGIN`].
    #[inline]
    pub(super) fn holds_much(&self) -> bool {
        self.memory.is_some() && self.payload_memory > self.limit + self.limit / 2 + MARGIN
    }

    /// Frees unused memory of the stream in `slot`.
    #[cold]
    pub(super) fn trim(&mut self, slot: usize) {
        let bytes = &mut self.streams.at(slot).bytes;
        let before = bytes.capacity();
        bytes.trim();
        self.payload_memory -= before - bytes.capacity();
        if before > bytes.capacity() {
            self.settle();
        }
    }

    /// Returns how many bytes of memory all streams with nothing to send may keep together.
    #[inline]
    pub(super) fn most_resting(&self) -> u64 {
        // Many associations may be idle, so each queue keeps only a small part of its limit. It keeps that part because
        // the application may soon send again.
        self.memory.as_ref().map_or(self.limit, |memory| (memory.account.limit() / 64).min(self.limit))
    }

    /// Returns the number of bytes of memory that the queue holds.
    pub(crate) fn footprint(&self) -> u64 {
        self.payload_memory + (self.messages.capacity() * size_of::<QueuedMessage>()) as u64
    }
}

/// A margin in bytes: the memory of streams that have data to send may exceed 1.5 times the limit of the send buffer by
/// this amount.
const MARGIN: u64 = 64 << 10;
/// The send buffer gets 1/`PART` of the guaranteed minimum memory of an association.
const PART: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SchedulerKind;
    use crate::message::Message;

    /// When the size limit of the send buffer falls, unused memory must be freed as soon as some of the data is
    /// acknowledged, not only when all data is acknowledged.
    #[test]
    fn a_ring_follows_a_limit_that_falls() {
        let mut queue = Queue::new(4 << 20, SchedulerKind::Fcfs);
        queue.share(&Budget::new(64 << 20, 1));
        queue.follow(2 << 20, 2 << 20);
        for _ in 0..3 {
            queue.push(Message::default(), &vec![7; 1_000_000]).expect("room");
        }
        while let Some(cut) = queue.next_cut(1_000, 1_400) {
            queue.number(cut);
            queue.commit(cut);
        }
        queue.follow(0, 0);
        assert!(queue.footprint() > 3_000_000, "{}", queue.footprint());
        (0..2).for_each(|message| queue.release(message, 1_000_000));
        assert!(queue.footprint() < 1_300_000, "{}", queue.footprint());
        let (front, back) = queue.payload(queue.message(2), 0, 1_000_000);
        assert_eq!([front, back].concat(), vec![7; 1_000_000]);
    }
}
