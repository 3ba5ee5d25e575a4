//! Probes a window that the peer has closed.
//!
//! Stores whether a window probe may be sent, how many probes were sent, and whether the peer has answered since the
//! last probe. The association owns the timer of the next probe.
//!
//! Implements the window probes of RFC 9260 §6.1 A.

use super::SendHalf;
use super::outstanding::ChunkState;
use anabranch_base::trace::SendCause;

/// The state of probing a closed window (RFC 9260 §6.1 A).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Probing {
    /// Whether the probe timer has expired, so that one chunk may be sent although the window is closed.
    pub(super) allowed: bool,
    /// Whether a SACK has arrived since the last probe. If so, the peer is reachable.
    answered: bool,
    /// Number of probes sent so far.
    sent: u16,
    /// User bytes of probes that were acknowledged since the window was closed.
    acked: u32,
}

/// The consequences of an expired T3-rtx.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Expired {
    /// Whether T3-rtx expired for a probe of a closed window. Such an expiry does not indicate congestion.
    pub(crate) probe: bool,
    /// Whether the peer counts as silent, so that the expiry of T3-rtx increments the error counters. During probing,
    /// the peer is silent if no SACK has arrived since the last probe. Otherwise the peer is silent unless the newest
    /// SACK arrived after the previous expiry and reported a closed window.
    pub(crate) silent: bool,
}

impl SendHalf {
    /// Returns whether a closed window is being probed.
    #[inline]
    pub(crate) fn is_probing(&self) -> bool {
        self.probing.is_some()
    }

    /// Returns whether the peer's window is too small for the next new data, and no chunk is in flight or marked for
    /// retransmission. Returns `None` if no new data waits.
    pub(crate) fn is_shut_out(&self) -> Option<bool> {
        let cut = self.next_cut(usize::MAX)?;
        Some(self.outstanding.awaits_nothing() && u64::from(cut.length) > self.peer_window)
    }

    /// Starts to probe the closed window. Returns the number of probes sent so far if the next probe must wait for the
    /// timer, otherwise `None`.
    pub(crate) fn begin_probing(&mut self) -> Option<u32> {
        let probing = self.probing.get_or_insert_default();
        (!probing.allowed).then_some(probing.sent.into())
    }

    /// Ends probing, because the window is open. Returns true if the window was being probed.
    pub(crate) fn end_probing(&mut self) -> bool {
        self.probing.take().is_some()
    }

    /// Allows one probe, because the probe timer has expired.
    pub(crate) fn allow_probe(&mut self) {
        if let Some(probing) = &mut self.probing {
            probing.allowed = true;
        }
    }

    #[cold]
    pub(super) fn may_probe(&self) -> bool {
        self.probing.is_some_and(|probing| probing.allowed) && self.outstanding.awaits_nothing()
    }

    /// Records that a probe of the closed window was sent.
    #[cold]
    pub(super) fn record_probe(&mut self) {
        if let Some(probing) = &mut self.probing {
            (probing.allowed, probing.answered, probing.sent) =
                (false, false, probing.sent.saturating_add(1));
        }
    }

    /// Records that the peer has sent an acknowledgement. `shut` says whether the peer's window is closed.
    pub(super) fn on_answered(&mut self, shut: bool) {
        if let Some(probing) = &mut self.probing {
            probing.answered = true;
        }
        self.saw_closed_window = shut;
    }

    /// Counts acknowledged bytes as bytes of probes. While a closed window is probed, only probes are outstanding.
    #[inline]
    pub(super) fn count_acked_probe(&mut self, bytes: u64) {
        if let Some(probing) = &mut self.probing {
            probing.acked = probing.acked.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
        }
    }

    /// Returns the number of acknowledged user bytes of probes since the window was closed. These bytes are no evidence
    /// that the peer reads, because a peer that never reads could acknowledge probes forever.
    pub(crate) fn probed_bytes(&self) -> u64 {
        self.probing.map_or(0, |probing| probing.acked.into())
    }

    /// Returns the consequences of an expired T3-rtx, and records the expiry.
    pub(crate) fn on_t3(&mut self) -> Expired {
        let single = self.outstanding.end() - self.outstanding.base() == 1;
        let probing = self.probing.filter(|_| self.peer_window == 0 || single);
        let silent = match probing {
            // RFC 9260 §6.1 A: while the peer answers probes, the expiry of T3-rtx for a probe is not an error. It does
            // not reduce the congestion window either.
            Some(probing) => !probing.answered,
            // A peer with a closed window may drop data deliberately. So the expiry of T3-rtx is not an error if the
            // last SACK reported a closed window.
            None => !std::mem::take(&mut self.saw_closed_window),
        };
        if let Some(probing) = &mut self.probing {
            probing.answered = false;
        }
        Expired { probe: probing.is_some(), silent }
    }

    /// Marks a window probe for retransmission without waiting for the timer, if the window is now open and the peer
    /// has dropped the probe. Returns the path that the probe was sent to, and its size in bytes.
    pub(crate) fn take_refused_probe(&mut self) -> Option<(usize, u64)> {
        if self.probing.is_none() || self.peer_window == 0 {
            return None;
        }
        let base = self.outstanding.base();
        let entry = *self.outstanding.get(base)?;
        if entry.state != ChunkState::InFlight || self.outstanding.end() != base + 1 {
            return None;
        }
        self.outstanding.set(base, ChunkState::Lost(SendCause::Probe));
        self.peer_window += u64::from(entry.length);
        self.probing = None;
        Some((usize::from(entry.path), entry.size()))
    }
}
