//! What the send buffer holds of the memory that associations share, and how large it may be.
//!
//! Twice what can be under way at a time keeps the network busy: one for what is, and one for what the application gives
//! meanwhile (so does Linux for TCP, `tcp_sndbuf_expand`). A window that the peer keeps shut makes that little. What can be
//! under way is not taken for less in a recovery: what was lost is buffered as long as that lasts.

use super::{Queue, Stored};
use anabranch_base::{Account, Budget};

/// A share in the memory of all.
#[derive(Debug)]
pub(super) struct Purse {
    account: Account,
    /// Bytes that can be under way at a time, as far as it has been seen.
    reach: u64,
}

impl Queue {
    /// Memory is shared from here on.
    pub(crate) fn share(&mut self, budget: &Budget) {
        let account = Account::new(budget, PART);
        self.limit = account.floor().min(self.most);
        self.purse = Some(Box::new(Purse { account, reach: 0 }));
    }

    #[inline]
    pub(crate) fn is_shared(&self) -> bool {
        self.purse.is_some()
    }

    /// Somebody was turned away.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.is_some()
    }

    /// The limit becomes what it should be now: `congestion` bytes may be under way for the network, `peer` for the peer.
    pub(crate) fn follow(&mut self, congestion: u64, peer: u64) {
        let held = self.footprint();
        let beside = held - self.stored;
        let Some(purse) = &mut self.purse else { return };
        purse.reach = purse.reach.max(congestion).min(peer);
        let wanted = purse.account.floor() + 2 * purse.reach;
        // A ring may have a quarter more than it holds.
        let share = purse.account.limit().saturating_sub(beside) / 5 * 4;
        self.limit = wanted.min(share).min(self.most);
        purse.account.holds(held);
    }

    /// Memory has been given back.
    pub(super) fn settle(&mut self) {
        let held = self.footprint();
        if let Some(purse) = &mut self.purse {
            purse.account.holds(held);
        }
    }

    /// Streams have clearly more memory than may be buffered now.
    #[inline]
    pub(super) fn holds_much(&self) -> bool {
        self.purse.is_some() && self.stored > self.limit + self.limit / 2 + MARGIN
    }

    /// A stream has more memory than it should.
    #[cold]
    pub(super) fn trim(&mut self, slot: usize) {
        let bytes = &mut self.streams.at(slot).bytes;
        let before = bytes.capacity();
        bytes.trim();
        self.stored -= before - bytes.capacity();
        if before > bytes.capacity() {
            self.settle();
        }
    }

    /// What streams with nothing to send may keep.
    #[inline]
    pub(super) fn most_resting(&self) -> u64 {
        // Many sessions may be idle, and each has something to answer soon.
        self.purse.as_ref().map_or(self.limit, |purse| (purse.account.limit() / 64).min(self.limit))
    }

    /// Bytes of memory held.
    pub(crate) fn footprint(&self) -> u64 {
        self.stored + (self.messages.capacity() * size_of::<Stored>()) as u64
    }
}

/// What is given back only when there is nothing to send.
const MARGIN: u64 = 64 << 10;
/// One part of a session's floor is the send buffer's.
const PART: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SchedulerKind;
    use crate::message::Message;

    /// A limit that has fallen takes memory along as soon as something is acknowledged, not when all is.
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
