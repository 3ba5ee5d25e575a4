//! Computes the advertised receiver window.
//!
//! Stores how many bytes are buffered and which window was advertised last. Every accepted byte, in order or not,
//! reduces the window until the application reads the byte. If bookkeeping takes much memory besides the data, the
//! module `memory` also reduces the window. Otherwise single-byte messages or very many streams would take many times
//! the size of the buffer.
//!
//! Implements RFC 9260 §6.2 (a_rwnd), and the receiver's half of silly-window avoidance (RFC 1122 §4.2.3.3).

/// The receive window.
#[derive(Debug)]
pub(crate) struct Window {
    capacity: u64,
    /// The part of `capacity` that may be used now.
    ceiling: u64,
    /// The number of bytes that were in use when the ceiling was lowered and have not been read since.
    used_before: u64,
    used: u64,
    /// The free space as the peer sees it: the last a_rwnd minus the data that has arrived since that SACK.
    peer_view: u64,
    /// The number of free bytes below which the window is not opened, to avoid the silly window syndrome.
    sws_threshold: u64,
    /// Whether the last advertised a_rwnd was 0.
    shut: bool,
}

impl Window {
    pub(crate) fn new(capacity: u64, segment: u64) -> Self {
        Self {
            capacity,
            ceiling: capacity,
            used_before: 0,
            used: 0,
            peer_view: capacity,
            sws_threshold: segment.min(capacity / 2),
            shut: false,
        }
    }

    #[inline]
    pub(crate) fn charge(&mut self, bytes: u64) {
        self.used += bytes;
        self.peer_view = self.peer_view.saturating_sub(bytes);
    }

    #[inline]
    pub(crate) fn credit(&mut self, bytes: u64) {
        assert!(bytes <= self.used, "more bytes leave the receive buffer than it holds");
        self.used -= bytes;
    }

    /// Sets the number of buffered bytes, whatever was charged before.
    pub(crate) fn set_used(&mut self, bytes: u64) {
        self.used = bytes;
    }

    /// RFC 9260 §6.2: returns whether chunks are refused, because the buffer is full. After a window of 0 was
    /// advertised, chunks are also refused while the free space is too small to be advertised. Once the free space is
    /// large enough, chunks are accepted, even if the new window was not advertised yet.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.used >= self.ceiling || self.shut && self.free() == 0
    }

    /// Returns whether the receive buffer holds at least `slack` bytes more than the largest advertised window allows.
    pub(crate) fn is_overrun(&self, slack: u64) -> bool {
        self.used >= self.ceiling.max(self.used_before) + slack
    }

    /// Returns whether more than half of the window is in use, so that unfinished messages must be delivered in parts.
    #[inline]
    pub(crate) fn is_pressed(&self) -> bool {
        self.used > self.ceiling / 2
    }

    /// Returns whether no bytes are buffered.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Returns the number of buffered message bytes.
    #[inline]
    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    #[inline]
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns whether less than the full capacity may be used now.
    #[inline]
    pub(crate) fn is_lowered(&self) -> bool {
        self.ceiling < self.capacity
    }

    /// Sets the number of bytes of the capacity that may be used now.
    #[inline]
    pub(crate) fn set_ceiling(&mut self, bytes: u64) {
        if self.ceiling >= self.used {
            self.used_before = self.used;
        }
        self.used_before = self.used_before.min(self.used);
        self.ceiling = bytes.min(self.capacity);
    }

    /// Returns the number of free bytes that may be advertised.
    #[inline]
    fn free(&self) -> u64 {
        let free = self.ceiling.saturating_sub(self.used);
        // RFC 9260 §6.2: a small window is advertised as 0, because it would invite the peer to send small chunks.
        if free < self.min_advertised() { 0 } else { free }
    }

    /// Returns whether the free space is zero, or too small to be advertised as a window.
    pub(crate) fn is_closed(&self) -> bool {
        self.free() == 0
    }

    /// Returns the smallest number of free bytes that is advertised.
    #[inline]
    fn min_advertised(&self) -> u64 {
        self.sws_threshold.min(self.ceiling / 2)
    }

    /// Returns the a_rwnd of a SACK that is sent now.
    #[inline]
    pub(crate) fn advertise(&mut self) -> u32 {
        let free = self.ceiling.saturating_sub(self.used);
        // RFC 1122 §4.2.3.3: a window that was advertised is not withdrawn, however small it is. Data that the peer
        // sent into this window may be in flight, and would have to be dropped if the window became 0 (RFC 9260 §6.2).
        self.peer_view = if free < self.min_advertised() { free.min(self.peer_view) } else { free };
        self.shut = self.peer_view == 0;
        self.peer_view.min(u64::from(u32::MAX)) as u32
    }

    /// RFC 9260 §6.2: returns whether to send a SACK only to advertise the window. This is so if the free space exceeds
    /// the last advertised window by at least a quarter of the usable buffer.
    #[inline]
    pub(crate) fn wants_update(&self) -> bool {
        self.free() >= self.peer_view + (self.ceiling / 4).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_openings_are_not_advertised() {
        let mut window = Window::new(10_000, 1_452);
        window.charge(9_000);
        assert_eq!(window.advertise(), 1_000, "it was offered before");
        window.charge(1_000);
        assert_eq!(window.advertise(), 0);
        window.credit(1_000);
        assert_eq!(window.advertise(), 0, "less than a segment is silly");
        assert!(window.is_full(), "what the peer was told");
        window.credit(1_000);
        assert!(!window.is_full(), "what there is");
        assert!(!window.wants_update(), "2000 is less than a quarter");
        assert_eq!(window.advertise(), 2_000);
        window.credit(3_000);
        assert!(window.wants_update());
        assert_eq!(window.advertise(), 5_000);
        assert!(!window.wants_update());
        window.charge(5_000);
        assert!(window.is_full());
    }
}
