//! Probing a window that the peer has closed.
//!
//! Owns what is known of the probes: whether one may go, how many went, whether the peer has said anything since. When
//! the next may go is a timer of the association's.
//!
//! Home of RFC 9260 §6.1 A.

use super::SendHalf;
use super::outstanding::ChunkState;
use anabranch_base::trace::SendCause;

/// The state of probing a closed window (RFC 9260 §6.1 A).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Probing {
    /// The timer has run out: one chunk may go although the window is closed.
    pub(super) allowed: bool,
    /// A SACK has come since the last probe: the peer is alive.
    answered: bool,
    /// Probes sent so far.
    sent: u16,
    /// User bytes of probes that were acknowledged. The window has not opened since.
    acked: u32,
}

/// What an expired T3-rtx speaks of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Expired {
    /// A probe of a closed window: it says nothing of congestion.
    pub(crate) probe: bool,
    /// The peer has said nothing that would excuse it: it counts as an error.
    pub(crate) silent: bool,
}

impl SendHalf {
    /// A closed window is being probed.
    #[inline]
    pub(crate) fn is_probing(&self) -> bool {
        self.probing.is_some()
    }

    /// Whether the window is closed for the new data that waits, where nothing is outstanding. None: no data waits.
    pub(crate) fn is_shut_out(&self) -> Option<bool> {
        let cut = self.next_cut(usize::MAX)?;
        Some(self.outstanding.awaits_nothing() && u64::from(cut.length) > self.peer_window)
    }

    /// The window is shut: it is probed from now on. How many probes went before the one that has to wait, if one has.
    pub(crate) fn begin_probing(&mut self) -> Option<u32> {
        let probing = self.probing.get_or_insert_default();
        (!probing.allowed).then_some(probing.sent.into())
    }

    /// The window is not shut. True when it was probed.
    pub(crate) fn end_probing(&mut self) -> bool {
        self.probing.take().is_some()
    }

    /// The timer of the probe has run out.
    pub(crate) fn allow_probe(&mut self) {
        if let Some(probing) = &mut self.probing {
            probing.allowed = true;
        }
    }

    #[cold]
    pub(super) fn may_probe(&self) -> bool {
        self.probing.is_some_and(|probing| probing.allowed) && self.outstanding.awaits_nothing()
    }

    /// A probe of a closed window goes out.
    #[cold]
    pub(super) fn record_probe(&mut self) {
        if let Some(probing) = &mut self.probing {
            (probing.allowed, probing.answered, probing.sent) =
                (false, false, probing.sent.saturating_add(1));
        }
    }

    /// The peer has acknowledged, and says whether its window is `shut`.
    pub(super) fn on_answered(&mut self, shut: bool) {
        if let Some(probing) = &mut self.probing {
            probing.answered = true;
        }
        self.turned_away = shut;
    }

    /// Bytes have left the send buffer because the peer has acknowledged them. While a closed window is probed these are
    /// probes: nothing else is outstanding.
    #[inline]
    pub(super) fn count_acked_probe(&mut self, bytes: u64) {
        if let Some(probing) = &mut self.probing {
            probing.acked = probing.acked.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
        }
    }

    /// User bytes that the peer has acknowledged as probes of a window that is closed still. A peer that never reads can
    /// acknowledge probes for ever.
    pub(crate) fn probed_bytes(&self) -> u64 {
        self.probing.map_or(0, |probing| probing.acked.into())
    }

    /// T3-rtx has run out.
    pub(crate) fn on_t3(&mut self) -> Expired {
        let single = self.outstanding.end() - self.outstanding.base() == 1;
        let probing = self.probing.filter(|_| self.peer_window == 0 || single);
        let silent = match probing {
            // RFC 9260 §6.1 A: a probe does not count while the peer answers, nor for the window.
            Some(probing) => !probing.answered,
            // Nor does what arrived at a window that was shut meanwhile, as long as SACKs say so.
            None => !std::mem::take(&mut self.turned_away),
        };
        if let Some(probing) = &mut self.probing {
            probing.answered = false;
        }
        Expired { probe: probing.is_some(), silent }
    }

    /// A probe was refused and the window is open now: it need not wait for its timer. The path that it was on its way to,
    /// and its size.
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
