//! Does a destination still answer?
//!
//! Owns the rules of the error counter of a path.
//!
//! Home of RFC 9260 §8.2; the association's own counter (§8.1) is in
//! `association`.

use super::Path;
use anabranch_base::Instant;

/// What an error has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Health {
    /// Nothing.
    Same,
    /// The path has just failed.
    Down,
}

impl Path {
    /// T3-rtx ran out, or a HEARTBEAT was not answered within the RTO.
    pub(crate) fn on_error(&mut self, now: Instant, most: u32) -> Health {
        if !self.active {
            // RFC 9260 §8.3: a failed path is probed on, but no longer counted.
            return Health::Same;
        }
        self.errors += 1;
        if self.errors <= most {
            return Health::Same;
        }
        self.active = false;
        self.stats.failures += 1;
        self.stats.last_down = Some(now);
        Health::Down
    }

    /// Something sent there was acknowledged. True when the path is back.
    #[inline]
    pub(crate) fn on_answer(&mut self, now: Instant) -> bool {
        self.errors = 0;
        if self.active {
            return false;
        }
        self.active = true;
        self.stats.last_up = Some(now);
        true
    }
}
