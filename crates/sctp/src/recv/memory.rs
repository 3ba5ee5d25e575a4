//! What the receive buffer holds beside the bytes of messages, and of the memory that associations share.
//!
//! What is kept beside the bytes (a fragment's place, a message's end, a stream's state) is not the peer's affair while it is
//! little: the window then counts bytes of messages and nothing else. What is more than a quarter of the buffer lowers the
//! window as bytes do, so that whoever sends single bytes, or on streams without end, has no more of this host than others.
//!
//! Where associations share memory the window is also what this one may still take of it (`base::Budget`). It is offered to
//! all of them, and taken by who sends: what comes when the others have taken it is refused, and retransmitted.
//!
//! Home of RFC 9260 §6.2 (a receiver's right to drop what it has no room for, and has not acknowledged).

use super::RecvHalf;
use crate::config::Config;
use anabranch_base::{Account, Budget};

/// A share for the receive buffer of one association.
pub(super) fn account(budget: &Budget) -> Box<Account> {
    Box::new(Account::new(budget, PART))
}

/// The a_rwnd of an INIT or INIT ACK.
pub(crate) fn first_window(config: &Config) -> u32 {
    // RFC 9260 §3.3.2: never below 1500.
    let shared = |budget: &Budget| (account(budget).limit() / TIMES).max(1500);
    let window = config.memory.as_ref().map_or(u64::MAX, shared).min(config.rcvbuf);
    window.min(u64::from(u32::MAX)) as u32
}

impl RecvHalf {
    /// Bytes of bookkeeping.
    #[inline]
    fn bookkeeping(&self) -> u64 {
        let mut pieces = self.order.aside();
        if let Some(reassembly) = &self.reassembly {
            pieces += reassembly.pieces() as u64;
        }
        if let Some(interleaved) = &self.interleaved {
            pieces += interleaved.pieces() as u64;
        }
        let mut bytes = pieces * PIECE + self.order.unread() * MESSAGE;
        let (streams, granted) = (self.order.streams_in_use(), usize::from(self.granted));
        if streams > granted {
            bytes += (streams - granted) as u64 * STREAM;
        }
        bytes
    }

    /// Bookkeeping that is not counted.
    #[inline]
    fn allowance(&self) -> u64 {
        (self.window.capacity() / 4).max(LITTLE)
    }

    /// There is so much of it that it counts.
    #[inline]
    pub(super) fn is_crowded(&self) -> bool {
        self.bookkeeping() > self.allowance()
    }

    /// RFC 9260 §6.2: with the window closed nothing beyond the highest TSN is taken. What fills a hole is: an honest
    /// sender has counted it before what came after it, so only a bounded excess is possible, and beyond that bound it is
    /// refused. A window that was lowered makes holes larger than that: then only the lowest that is missing is taken,
    /// which makes room, or would if it was read.
    pub(super) fn takes_beyond(&self, offset: u64) -> bool {
        let Some(account) = &self.account else {
            return offset < self.tracker.end() && !self.window.is_overrun(SLACK);
        };
        let fills = offset < self.tracker.end() && offset == self.tracker.next();
        // One chunk is taken alone, however little may be used.
        let alone = self.window.is_empty() && account.limit() > self.bookkeeping();
        alone || fills && !self.window.is_overrun(1)
    }

    /// The application has read something.
    #[inline]
    pub(super) fn record_read(&mut self) {
        let charged = self.account.as_ref().is_some_and(|account| account.is_charged());
        if self.window.is_lowered() || charged && self.window.is_empty() {
            self.lower_ceiling();
        }
    }

    /// The window is what it should be now.
    #[inline]
    pub(super) fn size_window(&mut self) {
        if self.account.is_some() || self.window.is_lowered() || self.is_crowded() {
            self.lower_ceiling();
        }
    }

    /// Neither bookkeeping nor what the others hold leaves more than this.
    pub(super) fn lower_ceiling(&mut self) {
        let (bookkeeping, used) = (self.bookkeeping(), self.window.used());
        let mut ceiling = self.window.capacity().saturating_sub(bookkeeping.saturating_sub(self.allowance()));
        if let Some(account) = &mut self.account {
            let held = TIMES * used + bookkeeping;
            account.holds(held);
            let most = account.limit().saturating_sub(bookkeeping) / TIMES;
            ceiling = ceiling.min(most);
        }
        self.window.set_ceiling(ceiling);
    }
}

/// One part of a session's floor is the receive buffer's.
const PART: u64 = 4;
/// Buffers have room to grow, and are used again.
const TIMES: u64 = 3;
/// What a fragment or message takes that waits for another, beside its bytes.
const PIECE: u64 = 256;
/// What the end of a message takes.
const MESSAGE: u64 = 32;
/// What a stream takes that is in use, here and above.
const STREAM: u64 = 768;
/// What fills holes may come to so much beyond what was advertised.
const SLACK: u64 = 1 << 16;
/// Bookkeeping of no more is little however small the buffer.
const LITTLE: u64 = 512 << 10;
