//! Explicit congestion notification: the echo of marks to the peer, and the answer to its echoes.
//!
//! Home of RFC 4960 Appendix A, except for the window reduction (`acknowledge`).

use anabranch_wire::sctp::{Cwr, Ecne, Tsn};

/// The ECN state of one association.
#[derive(Debug, Default)]
pub(crate) struct EcnState {
    /// Whether both sides use ECN.
    on: bool,
    /// Receiver: the TSN to echo until a CWR answers it.
    echo: Option<u32>,
    /// Sender: the TSN of the CWR to send.
    reduced: Option<u32>,
    /// Sender: marks on chunks below this offset cause no further reduction.
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

    /// Records that a packet with an ECN mark contained `tsn`. The ECN Echo carries the lowest such TSN.
    #[inline]
    pub(super) fn record_mark(&mut self, tsn: u32) {
        if self.on {
            self.echo = Some(tsn);
        }
    }

    /// Handles a CWR: the peer has reduced its congestion window.
    pub(super) fn on_cwr(&mut self, tsn: u32) {
        self.echo = self.echo.filter(|echo| tsn.wrapping_sub(*echo) >= 1 << 31);
    }

    /// Requests a CWR for a mark that the peer echoed. Only the highest TSN is kept, because a CWR answers all echoes up to
    /// its TSN.
    pub(super) fn ask_cwr(&mut self, tsn: u32) {
        let waits = self.reduced.filter(|before| before.wrapping_sub(tsn) < 1 << 31);
        self.reduced = waits.or(Some(tsn));
    }

    /// Returns whether a mark on the chunk at `offset` reduces the window. It is reduced once for all chunks up to `end`.
    pub(super) fn may_reduce(&mut self, offset: i64, end: u64) -> bool {
        let again = offset < self.reduced_until as i64;
        if !again {
            self.reduced_until = end;
        }
        !again
    }

    /// Returns whether a CWR has to be sent.
    #[inline]
    pub(super) fn wants_cwr(&self) -> bool {
        self.reduced.is_some()
    }

    /// Returns the size of the ECN chunks that accompany the next SACK, bytes.
    #[inline]
    pub(super) fn size(&self) -> usize {
        8 * (usize::from(self.echo.is_some()) + usize::from(self.reduced.is_some()))
    }

    /// Appends the ECN Echo, until it is answered, and a pending CWR.
    pub(super) fn write(&mut self, buffer: &mut Vec<u8>) {
        if let Some(tsn) = self.echo {
            Ecne { tsn: Tsn(tsn) }.emit(buffer);
        }
        if let Some(tsn) = self.reduced.take() {
            Cwr { tsn: Tsn(tsn) }.emit(buffer);
        }
    }
}
