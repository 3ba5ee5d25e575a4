//! Accounts for two kinds of memory: what the receive buffer uses in addition to the message bytes, and memory that
//! several associations share.
//!
//! Bookkeeping is the memory of fragment entries, message boundaries and stream states. While there is little
//! bookkeeping, the window counts only message bytes. Bookkeeping beyond 512 KiB (or a quarter of the buffer, if that
//! is more) reduces the window as message bytes do. Otherwise a peer that sends single bytes, or uses very many
//! streams, could take more of this host's memory than other peers.
//!
//! If associations share memory, the window also depends on the memory that this association may still use
//! (`base::Budget`). All peers are offered the same free memory, and the first to send takes it. Data that arrives when
//! the memory is used up is refused, and the peer retransmits it.
//!
//! Implements RFC 9260 §6.2 (a receiver without room may drop data that it has not acknowledged).

use super::RecvHalf;
use crate::config::Config;
use anabranch_base::{Account, Budget};

/// Creates the account of the receive buffer of one association.
pub(super) fn account(budget: &Budget) -> Box<Account> {
    Box::new(Account::new(budget, PART))
}

/// Returns the a_rwnd to send in an INIT or INIT ACK.
pub(crate) fn first_window(config: &Config) -> u32 {
    // RFC 9260 §3.3.2: the a_rwnd is never below 1500.
    let shared = |budget: &Budget| (account(budget).limit() / TIMES).max(1500);
    let window = config.memory.as_ref().map_or(u64::MAX, shared).min(config.rcvbuf);
    window.min(u64::from(u32::MAX)) as u32
}

impl RecvHalf {
    /// Returns the number of bytes of bookkeeping.
    #[inline]
    fn bookkeeping(&self) -> u64 {
        let mut pieces = self.order.out_of_order_messages();
        if let Some(reassembly) = &self.reassembly {
            pieces += reassembly.pieces() as u64;
        }
        if let Some(interleaved) = &self.interleaved {
            pieces += interleaved.pieces() as u64;
        }
        let mut bytes = pieces * PIECE + self.order.unread() * MESSAGE;
        let (streams, granted) = (self.order.streams_in_use(), usize::from(self.uncharged_streams));
        if streams > granted {
            bytes += (streams - granted) as u64 * STREAM;
        }
        bytes
    }

    /// Returns the number of bytes that bookkeeping may take before it reduces the advertised window.
    #[inline]
    fn allowance(&self) -> u64 {
        (self.window.capacity() / 4).max(LITTLE)
    }

    /// Returns whether bookkeeping takes more memory than its allowance. The excess reduces the advertised window.
    #[inline]
    pub(super) fn is_crowded(&self) -> bool {
        self.bookkeeping() > self.allowance()
    }

    /// RFC 9260 §6.2: returns whether the chunk at `offset` is accepted while the window is closed. Chunks beyond the
    /// highest received TSN are refused. Chunks that fill a gap are accepted until the buffer exceeds the window by
    /// `SLACK` bytes. An honest sender has sent these chunks within an earlier, open window.
    ///
    /// If associations share memory, the gaps may need more bytes than the window now allows. Then only the lowest
    /// missing chunk is accepted, because the application can continue to read after this chunk.
    pub(super) fn takes_beyond(&self, offset: u64) -> bool {
        let Some(account) = &self.account else {
            return offset < self.tracker.end() && !self.window.is_overrun(SLACK);
        };
        let fills = offset < self.tracker.end() && offset == self.tracker.next();
        // With shared memory, an empty buffer accepts one chunk, unless the bookkeeping alone takes all memory of the
        // account.
        let alone = self.window.is_empty() && account.limit() > self.bookkeeping();
        alone || fills && !self.window.is_overrun(1)
    }

    /// Updates the window after the application has read data.
    #[inline]
    pub(super) fn record_read(&mut self) {
        let charged = self.account.as_ref().is_some_and(|account| account.is_charged());
        if self.window.is_lowered() || charged && self.window.is_empty() {
            self.lower_ceiling();
        }
    }

    /// Recomputes the upper limit of the window from the memory that bookkeeping and other associations use now.
    #[inline]
    pub(super) fn size_window(&mut self) {
        if self.account.is_some() || self.window.is_lowered() || self.is_crowded() {
            self.lower_ceiling();
        }
    }

    /// Lowers the receive window by the bytes of bookkeeping that exceed `allowance`. If memory is shared, the window
    /// is also limited to this association's part of the shared memory.
    pub(super) fn lower_ceiling(&mut self) {
        let (bookkeeping, used) = (self.bookkeeping(), self.window.used());
        let mut ceiling = self.window.capacity().saturating_sub(bookkeeping.saturating_sub(self.allowance()));
        if let Some(account) = &mut self.account {
            let total = TIMES * used + bookkeeping;
            account.set_usage(total);
            let most = account.limit().saturating_sub(bookkeeping) / TIMES;
            ceiling = ceiling.min(most);
        }
        self.window.set_ceiling(ceiling);
    }
}

/// The receive buffer gets 1/`PART` of the guaranteed minimum memory of an association.
const PART: u64 = 4;
/// Bytes of memory for each message byte held. Buffers have spare capacity, and empty buffers are kept for reuse.
const TIMES: u64 = 3;
/// The memory in bytes for the bookkeeping of one waiting fragment or message.
const PIECE: u64 = 256;
/// The memory in bytes for the bookkeeping of one message boundary.
const MESSAGE: u64 = 32;
/// The memory in bytes for the bookkeeping of one stream in use, in the receiving half and in the layers above.
const STREAM: u64 = 768;
/// The number of bytes by which chunks that fill gaps between received TSNs may exceed the advertised window.
const SLACK: u64 = 1 << 16;
/// The amount of bookkeeping in bytes that never reduces the advertised window, however small the receive buffer is.
const LITTLE: u64 = 512 << 10;
