//! Does a destination still answer?
//!
//! Owns the rules of the error counter of a path.
//!
//! Home of RFC 9260 §8.2 and of RFC 7829 §3; the association's own counter
//! (RFC 9260 §8.1) is `error_counter`.

use super::Path;
use anabranch_base::Instant;

/// What an error has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Health {
    /// Nothing.
    Same,
    /// The path may have failed.
    PotentiallyFailed,
    /// The path has just failed.
    Down,
}

impl Path {
    /// T3-rtx ran out, or a HEARTBEAT was not answered within the RTO.
    pub(crate) fn on_error(&mut self, now: Instant, most: u32) -> Health {
        self.heartbeat.count_silence();
        if !self.active {
            // RFC 9260 §8.3: a failed path is probed on, but no longer counted; RFC 7829 §4.1 (3)
            // tells failed paths apart by their errors, up to ten times as many.
            if self.pf_max.is_some() && self.errors < 10 * (most + 1) {
                self.errors += 1;
            }
            return Health::Same;
        }
        self.errors += 1;
        if self.errors > most {
            self.active = false;
            self.potentially_failed = false;
            self.stats.seldom().failures += 1;
            self.stats.seldom().last_down = Some(now);
            return Health::Down;
        }
        // RFC 7829 §3 (2): more errors than PFMR.
        if !self.potentially_failed
            && self.confirmed
            && self.pf_max.is_some_and(|pf_max| self.errors > pf_max)
        {
            self.potentially_failed = true;
            return Health::PotentiallyFailed;
        }
        Health::Same
    }

    /// Consecutive errors.
    pub(crate) fn errors(&self) -> u32 {
        self.errors
    }

    /// RFC 9260 §8.2: it answers.
    pub(crate) fn is_active(&self) -> bool {
        self.active
    }

    /// RFC 7829 §3: it may have failed: data goes elsewhere while something else is active.
    pub(crate) fn is_potentially_failed(&self) -> bool {
        self.potentially_failed
    }

    /// RFC 7829 §3 (PFMR): failures are foreseen.
    pub(crate) fn foresees_failure(&self) -> bool {
        self.pf_max.is_some()
    }

    /// The host knew no way there when something was last to be sent.
    pub(crate) fn on_unsent(&mut self) {
        self.unsent = true;
    }

    /// What was last to be sent has not left the host.
    pub(crate) fn is_unsent(&self) -> bool {
        self.unsent
    }

    /// The host's routes have changed. Whether it knew no way there.
    pub(crate) fn take_unsent(&mut self) -> bool {
        std::mem::take(&mut self.unsent)
    }

    /// RFC 7829 §3 (2): it may have failed, whatever its errors say.
    pub(crate) fn suspect(&mut self) {
        self.potentially_failed = true;
    }

    /// Something sent there was acknowledged. True when the path is back.
    #[inline]
    pub(crate) fn on_answer(&mut self, now: Instant) -> bool {
        self.errors = 0;
        if self.active {
            return std::mem::take(&mut self.potentially_failed);
        }
        if self.removed {
            // RFC 5061 §5.3 F13: what was sent there arrived, and that is all.
            return false;
        }
        self.active = true;
        self.stats.seldom().last_up = Some(now);
        true
    }

    /// An acknowledgement up to `base` shows that this path works, and not that another does.
    #[inline]
    pub(super) fn is_shown_by(&self, base: u64) -> bool {
        // RFC 7829 §3 (9): what was sent to several addresses may have arrived by any of them.
        let in_doubt = self.potentially_failed || !self.active && self.pf_max.is_some();
        !in_doubt || base > self.moved
    }
}
