//! Proportional rate reduction: the sending rate in a recovery follows the rate at which data is delivered.
//!
//! Without this algorithm, a sender retransmits lost data in bursts as soon as the losses are known. RFC 6675, for
//! example, sends as much as fits the window. The queue that has just overflowed would then overflow again.
//!
//! Implements RFC 6937 §3 with the slow-start reduction bound. [`Prr::linux`] is the Linux variant.

/// The state of proportional rate reduction in one recovery. All amounts are in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Prr {
    /// RecoverFS: the amount of data outstanding when the recovery began.
    recover_fs: u64,
    /// prr_delivered and prr_out: the numbers of bytes delivered and sent in this recovery.
    delivered: u64,
    sent: u64,
    /// The number of bytes that may be sent until the next acknowledgement.
    allowance: i64,
    /// In the Linux variant, the number of bytes that may be in flight; otherwise `None`.
    window: Option<u64>,
}

impl Prr {
    /// Creates the state for a recovery that begins with `flight` bytes outstanding.
    #[must_use]
    pub fn new(flight: u64) -> Self {
        Self { recover_fs: flight.max(1), delivered: 0, sent: 0, allowance: 0, window: None }
    }

    /// Creates the Linux variant (tcp_cwnd_reduction). `window` is the window before the loss, in bytes. While more
    /// than `ssthresh` bytes are in flight, `ssthresh` / `window` bytes are sent for each delivered byte. The variant
    /// also sets a congestion window for the recovery. A byte that is declared lost is no longer in flight, so another
    /// byte may be sent in its place.
    #[must_use]
    pub fn linux(window: u64) -> Self {
        Self { window: Some(0), ..Self::new(window) }
    }

    /// Returns the number of bytes that may be sent until the next acknowledgement. The number is negative if too much
    /// was sent.
    #[must_use]
    pub fn allowance(&self) -> i64 {
        self.allowance
    }

    /// Returns the number of bytes that may be sent while `pipe` bytes are in flight. The number is negative if too
    /// much was sent.
    #[must_use]
    pub fn room(&self, pipe: u64) -> i64 {
        match self.window {
            Some(window) => window as i64 - pipe as i64,
            None => self.allowance,
        }
    }

    /// Processes an acknowledgement that delivered `bytes` more bytes. `safe` says that the cumulative acknowledgement
    /// advanced and no new loss was reported.
    pub fn on_delivered(&mut self, bytes: u64, safe: bool, ssthresh: u64, pipe: u64, mss: u64) {
        if self.window.is_some() && bytes == 0 {
            return;
        }
        self.delivered += bytes;
        self.allowance = if pipe > ssthresh {
            // If more than `ssthresh` bytes are in flight, sending is proportional to deliveries, so that the flight
            // shrinks to `ssthresh`.
            let share =
                (u128::from(self.delivered) * u128::from(ssthresh)).div_ceil(u128::from(self.recover_fs));
            i64::try_from(share).unwrap_or(i64::MAX) - self.sent as i64
        } else {
            // If at most `ssthresh` is in flight, as many bytes may be sent as were delivered, plus one segment if no
            // new loss was reported.
            let limit = self.delivered.saturating_sub(self.sent).max(bytes) + if safe { mss } else { 0 };
            (ssthresh - pipe).min(limit) as i64
        };
        if let Some(window) = &mut self.window {
            // The retransmission that begins the recovery may be sent in any case.
            let least = if self.sent == 0 { mss as i64 } else { 0 };
            *window = pipe.saturating_add_signed(self.allowance.max(least));
        }
    }

    /// Records that `bytes` bytes were sent.
    pub fn on_sent(&mut self, bytes: u64) {
        self.sent += bytes;
        self.allowance -= bytes as i64;
    }

    /// Takes back the sending of `bytes` bytes, because the host could not send them.
    pub fn on_unsent(&mut self, bytes: u64) {
        self.sent = self.sent.saturating_sub(bytes);
        self.allowance += bytes as i64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6937 §4, the first figure: one of 20 segments is lost. While the acknowledgements of the other 19 segments
    /// arrive, 9 or 10 segments are sent.
    #[test]
    fn half_as_many_leave_as_arrive() {
        let (mut prr, mut pipe, mut sent) = (Prr::new(20), 19, 0);
        for _ in 0..19 {
            pipe -= 1;
            prr.on_delivered(1, false, 10, pipe, 1);
            while prr.allowance() >= 1 {
                prr.on_sent(1);
                (pipe, sent) = (pipe + 1, sent + 1);
            }
        }
        assert_eq!((sent, pipe), (10, 10));
    }

    /// tcp_cwnd_reduction of Linux: the first retransmission is sent at once. Each further loss allows one more segment
    /// to be sent. An acknowledgement that delivers nothing does not change the window.
    #[test]
    fn linux_keeps_a_window_until_the_next_delivery() {
        let mut prr = Prr::linux(20);
        prr.on_delivered(1, false, 10, 18, 1);
        assert_eq!(prr.room(18), 1, "half a segment, and the first retransmission is due");
        prr.on_sent(1);
        assert_eq!(prr.room(19), 0);
        prr.on_delivered(1, false, 10, 18, 1);
        assert_eq!(prr.room(18), 0, "one of two");
        prr.on_delivered(0, false, 10, 15, 1);
        assert_eq!(prr.room(15), 3, "three more are lost");
    }

    /// RFC 6937 §4, a burst of losses: no more segments are sent than arrive, however far the window exceeds the pipe.
    #[test]
    fn after_many_losses_one_leaves_for_one_that_arrives() {
        let mut prr = Prr::new(20);
        for _ in 0..4 {
            prr.on_delivered(1, false, 10, 3, 1);
            assert_eq!(prr.allowance(), 1);
            prr.on_sent(1);
        }
        prr.on_delivered(1, true, 10, 3, 1);
        assert_eq!(prr.allowance(), 2, "an acknowledgement that moves on allows one more");
    }
}
