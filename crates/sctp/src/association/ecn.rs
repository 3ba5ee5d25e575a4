//! Explicit congestion notification: what is echoed to the peer, and what is answered.
//!
//! Home of RFC 4960 Appendix A, but for the reduction itself (`acknowledge`).

use anabranch_wire::sctp::{Cwr, Ecne, Tsn};

/// ECN of one association.
#[derive(Debug, Default)]
pub(crate) struct EcnState {
    /// Both sides want it.
    on: bool,
    /// As a receiver: the TSN to echo until a CWR answers it.
    echo: Option<u32>,
    /// As a sender: the CWR to send.
    reduced: Option<u32>,
    /// As a sender: no second reduction for what was sent below this offset.
    reduced_until: u64,
}

impl EcnState {
    pub(super) fn set_on(&mut self, on: bool) {
        self.on = on;
    }

    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.on
    }

    /// A packet was marked on its way here: the lowest TSN in it is echoed.
    #[inline]
    pub(super) fn record_mark(&mut self, tsn: u32) {
        if self.on {
            self.echo = Some(tsn);
        }
    }

    /// The peer has reduced its window.
    pub(super) fn on_cwr(&mut self, tsn: u32) {
        self.echo = self.echo.filter(|echo| tsn.wrapping_sub(*echo) >= 1 << 31);
    }

    /// The peer has echoed a mark: a CWR answers. Of several that wait the highest: a CWR answers all up to its TSN.
    pub(super) fn ask_cwr(&mut self, tsn: u32) {
        let waits = self.reduced.filter(|before| before.wrapping_sub(tsn) < 1 << 31);
        self.reduced = waits.or(Some(tsn));
    }

    /// Whether a mark on the chunk at `offset` reduces the window: once for all up to `end`.
    pub(super) fn may_reduce(&mut self, offset: i64, end: u64) -> bool {
        let again = offset < self.reduced_until as i64;
        if !again {
            self.reduced_until = end;
        }
        !again
    }

    /// A CWR is to be sent.
    #[inline]
    pub(super) fn wants_cwr(&self) -> bool {
        self.reduced.is_some()
    }

    /// Bytes of what is to be sent with the next SACK.
    #[inline]
    pub(super) fn size(&self) -> usize {
        8 * (usize::from(self.echo.is_some()) + usize::from(self.reduced.is_some()))
    }

    /// Appends the echo, until it is answered, and the answer.
    pub(super) fn write(&mut self, buffer: &mut Vec<u8>) {
        if let Some(tsn) = self.echo {
            Ecne { tsn: Tsn(tsn) }.emit(buffer);
        }
        if let Some(tsn) = self.reduced.take() {
            Cwr { tsn: Tsn(tsn) }.emit(buffer);
        }
    }
}
