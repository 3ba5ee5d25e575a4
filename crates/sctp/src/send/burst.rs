//! The limit on the number of packets sent at one instant.
//!
//! Implements RFC 9260 §6.1 D (Max.Burst).

use anabranch_base::Instant;

/// Counts the DATA packets that may still be sent at one instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BurstLimit {
    left: u32,
    /// The instant to which `left` applies. At any later instant, a new burst starts.
    at: Instant,
}

impl BurstLimit {
    pub(crate) fn new() -> Self {
        Self { left: 0, at: Instant::MAX }
    }

    /// RFC 9260 §6.1 D: returns whether one more packet may be sent. `most` is the number of packets allowed at one
    /// instant. If no chunk is outstanding, a new burst starts even if the clock has not advanced, because no
    /// acknowledgement will come that could start one.
    #[inline]
    pub(crate) fn allows(&mut self, most: u32, now: Instant, nothing_outstanding: bool) -> bool {
        if self.at != now || nothing_outstanding {
            *self = Self { left: most, at: now };
        }
        self.left > 0
    }

    /// Counts a sent packet against the limit.
    #[inline]
    pub(crate) fn count(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    /// Starts the next burst, because all outstanding chunks are acknowledged.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.at = Instant::MAX;
    }
}
