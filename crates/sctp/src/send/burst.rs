//! How many packets may leave at one instant.
//!
//! Home of RFC 9260 §6.1 D (Max.Burst).

use anabranch_base::Instant;

/// The packets of DATA that may still be sent at one instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BurstLimit {
    left: u32,
    /// The instant that `left` is of.
    at: Instant,
}

impl BurstLimit {
    pub(crate) fn new() -> Self {
        Self { left: 0, at: Instant::MAX }
    }

    /// RFC 9260 §6.1 D: whether one more packet may go, of `most` at one instant. A clock may stand still while a
    /// burst is acknowledged: with nothing outstanding nothing would come that allows another.
    #[inline]
    pub(crate) fn allows(&mut self, most: u32, now: Instant, nothing_outstanding: bool) -> bool {
        if self.at != now || nothing_outstanding {
            *self = Self { left: most, at: now };
        }
        self.left > 0
    }

    /// One packet leaves.
    #[inline]
    pub(crate) fn count(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    /// All that was outstanding is acknowledged: the next burst begins.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.at = Instant::MAX;
    }
}
