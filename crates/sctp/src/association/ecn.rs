//! Explicit congestion notification. The receiver echoes ECN marks to the peer, and the sender answers the peer's
//! echoes.
//!
//! Implements RFC 4960 Appendix A, except for the window reduction (`acknowledge`).

use anabranch_wire::sctp::{Cwr, Ecne, Tsn};

#[derive(Debug, Default)]
pub(crate) struct EcnState {
    /// Whether both sides support ECN.
    on: bool,
    /// Receiver: the TSN in the ECN Echo, which is sent until a CWR answers it.
    echo: Option<u32>,
    /// Sender: the TSN for the next CWR; `None` if no CWR has to be sent.
    reduced: Option<u32>,
    /// Sender: ECN marks on chunks below this TSN offset cause no further reduction of the congestion window.
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

    /// Records that a packet with an ECN mark arrived. `tsn` is the TSN of its first DATA chunk. The ECN Echo carries
    /// the `tsn` of the latest such packet.
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

    /// Records that this side must send a CWR in answer to an ECN Echo with `tsn`. Only the highest TSN is kept,
    /// because a CWR answers all echoes up to its own TSN.
    pub(super) fn ask_cwr(&mut self, tsn: u32) {
        let waits = self.reduced.filter(|before| before.wrapping_sub(tsn) < 1 << 31);
        self.reduced = waits.or(Some(tsn));
    }

    /// Returns whether an ECN mark on the chunk at `offset` reduces the congestion window. If so, marks on chunks below
    /// `end` cause no further reduction.
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

    /// Returns the size in bytes of the ECN chunks that accompany the next SACK.
    #[inline]
    pub(super) fn size(&self) -> usize {
        8 * (usize::from(self.echo.is_some()) + usize::from(self.reduced.is_some()))
    }

    /// Appends the ECN Echo, which is repeated until the peer answers it with a CWR. Also appends a CWR if one is
    /// pending.
    pub(super) fn write(&mut self, buffer: &mut Vec<u8>) {
        if let Some(tsn) = self.echo {
            Ecne { tsn: Tsn(tsn) }.emit(buffer);
        }
        if let Some(tsn) = self.reduced.take() {
            Cwr { tsn: Tsn(tsn) }.emit(buffer);
        }
    }
}
