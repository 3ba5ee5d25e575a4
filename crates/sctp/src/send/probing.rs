//! Probes of a window that the peer has closed.
//!
//! Keeps whether a probe may be sent, how many were sent, and whether the peer has answered since. The association
//! owns the timer of the next probe.
//!
//! Home of RFC 9260 §6.1 A.

use super::SendHalf;
use super::outstanding::ChunkState;
use anabranch_base::trace::SendCause;

/// The state of probing a closed window (RFC 9260 §6.1 A).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Probing {
    /// The timer has expired: one chunk may be sent although the window is closed.
    pub(super) allowed: bool,
    /// A SACK has arrived since the last probe, so the peer is alive.
    answered: bool,
    /// Probes sent so far.
    sent: u16,
    /// User bytes of acknowledged probes since the window was closed.
    acked: u32,
}

/// What an expired T3-rtx means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Expired {
    /// It was for a probe of a closed window, so it does not indicate congestion.
    pub(crate) probe: bool,
    /// Nothing from the peer excuses it: it counts as an error.
    pub(crate) silent: bool,
}

impl SendHalf {
    /// Whether a closed window is being probed.
    #[inline]
    pub(crate) fn is_probing(&self) -> bool {
        self.probing.is_some()
    }

    /// Whether the window is closed for waiting new data while nothing is outstanding. `None` if no data waits.
    pub(crate) fn is_shut_out(&self) -> Option<bool> {
        let cut = self.next_cut(usize::MAX)?;
        Some(self.outstanding.awaits_nothing() && u64::from(cut.length) > self.peer_window)
    }

    /// The window is closed: starts to probe it. If the next probe has to wait, returns the number of probes sent
    /// before.
    pub(crate) fn begin_probing(&mut self) -> Option<u32> {
        let probing = self.probing.get_or_insert_default();
        (!probing.allowed).then_some(probing.sent.into())
    }

    /// The window is open. Returns true if it was being probed.
    pub(crate) fn end_probing(&mut self) -> bool {
        self.probing.take().is_some()
    }

    /// The probe timer has expired.
    pub(crate) fn allow_probe(&mut self) {
        if let Some(probing) = &mut self.probing {
            probing.allowed = true;
        }
    }

    #[cold]
    pub(super) fn may_probe(&self) -> bool {
        self.probing.is_some_and(|probing| probing.allowed) && self.outstanding.awaits_nothing()
    }

    /// A probe of a closed window is sent.
    #[cold]
    pub(super) fn record_probe(&mut self) {
        if let Some(probing) = &mut self.probing {
            (probing.allowed, probing.answered, probing.sent) =
                (false, false, probing.sent.saturating_add(1));
        }
    }

    /// The peer has sent an acknowledgement; `shut` says that its window is closed.
    pub(super) fn on_answered(&mut self, shut: bool) {
        if let Some(probing) = &mut self.probing {
            probing.answered = true;
        }
        self.turned_away = shut;
    }

    /// Counts acknowledged bytes as probes. While a closed window is probed, nothing else is outstanding.
    #[inline]
    pub(super) fn count_acked_probe(&mut self, bytes: u64) {
        if let Some(probing) = &mut self.probing {
            probing.acked = probing.acked.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
        }
    }

    /// Returns the acknowledged user bytes of probes since the window was closed. A peer that never reads could
    /// acknowledge probes forever.
    pub(crate) fn probed_bytes(&self) -> u64 {
        self.probing.map_or(0, |probing| probing.acked.into())
    }

    /// T3-rtx expired.
    pub(crate) fn on_t3(&mut self) -> Expired {
        let single = self.outstanding.end() - self.outstanding.base() == 1;
        let probing = self.probing.filter(|_| self.peer_window == 0 || single);
        let silent = match probing {
            // RFC 9260 §6.1 A: the expiry for a probe neither counts as an error while the peer answers, nor reduces
            // the window.
            Some(probing) => !probing.answered,
            // The same holds for data that arrived at a closed window, as long as SACKs report it closed.
            None => !std::mem::take(&mut self.turned_away),
        };
        if let Some(probing) = &mut self.probing {
            probing.answered = false;
        }
        Expired { probe: probing.is_some(), silent }
    }

    /// A probe was dropped by the peer and the window is now open, so it is retransmitted without waiting for the
    /// timer. Returns the path that it was sent to, and its size.
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
