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
