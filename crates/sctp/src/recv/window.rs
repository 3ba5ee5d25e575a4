//! The advertised receiver window.
//!
//! Owns how many bytes are buffered and what the peer was last told. Every
//! byte that is kept, in order or not, is charged; it is credited when the
//! application takes it. What is kept beside the bytes of messages is charged where it is much (`recv/memory.rs`
//! lowers the ceiling): single bytes, and streams without end, would else take many times the buffer.
//!
//! Home of RFC 9260 §6.2 (a_rwnd) and of the receiver's half of silly-window
//! avoidance (RFC 1122 §4.2.3.3).

/// The receive window.
#[derive(Debug)]
pub(crate) struct Window {
    capacity: u64,
    /// What may be used of it now.
    ceiling: u64,
    /// What was used of it when it was lowered, as far as it is still used.
    before: u64,
    used: u64,
    /// What the peer believes is free: the last a_rwnd less what has arrived since.
    peer_view: u64,
    /// A window is not opened by less than this.
    silly: u64,
    /// The last a_rwnd was 0.
    shut: bool,
}

impl Window {
    pub(crate) fn new(capacity: u64, segment: u64) -> Self {
        Self {
            capacity,
            ceiling: capacity,
            before: 0,
            used: 0,
            peer_view: capacity,
            silly: segment.min(capacity / 2),
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

    /// So many bytes are held, whatever was charged before.
    pub(crate) fn hold(&mut self, bytes: u64) {
        self.used = bytes;
    }

    /// RFC 9260 §6.2: the peer was told that there is no room, or there is none. Where room has come about since, what
    /// comes is taken all the same.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.used >= self.ceiling || self.shut && self.free() == 0
    }

    /// Filled so far beyond what was ever advertised.
    pub(crate) fn is_overrun(&self, slack: u64) -> bool {
        self.used >= self.ceiling.max(self.before) + slack
    }

    /// More than half is in use: unfinished messages must be handed out.
    #[inline]
    pub(crate) fn is_pressed(&self) -> bool {
        self.used > self.ceiling / 2
    }

    /// Nothing is kept.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Bytes of messages that are kept.
    #[inline]
    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    #[inline]
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Less than all of it may be used.
    #[inline]
    pub(crate) fn is_lowered(&self) -> bool {
        self.ceiling < self.capacity
    }

    /// So much of it may be used from here on.
    #[inline]
    pub(crate) fn set_ceiling(&mut self, bytes: u64) {
        if self.ceiling >= self.used {
            self.before = self.used;
        }
        self.before = self.before.min(self.used);
        self.ceiling = bytes.min(self.capacity);
    }

    /// What may be offered anew.
    #[inline]
    fn free(&self) -> u64 {
        let free = self.ceiling.saturating_sub(self.used);
        // RFC 9260 §6.2: do not invite the peer to send in dribs.
        if free < self.least() { 0 } else { free }
    }

    /// Less than this is not offered anew.
    #[inline]
    fn least(&self) -> u64 {
        self.silly.min(self.ceiling / 2)
    }

    /// The a_rwnd of a SACK that goes out now.
    #[inline]
    pub(crate) fn advertise(&mut self) -> u32 {
        let free = self.ceiling.saturating_sub(self.used);
        // RFC 1122 §4.2.3.3: what was offered stays so, were it little: it may be on its way, and would have to be
        // dropped behind a window of 0 (RFC 9260 §6.2).
        self.peer_view = if free < self.least() { free.min(self.peer_view) } else { free };
        self.shut = self.peer_view == 0;
        self.peer_view.min(u64::from(u32::MAX)) as u32
    }

    /// RFC 9260 §6.2: the peer should be told when a quarter of the buffer has become free.
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
