//! Proportional rate reduction: what leaves in a recovery follows what arrives.
//!
//! Without it, a window in which much was lost is retransmitted in bursts as soon
//! as the losses are known (RFC 6675 sends whatever fits under the window),
//! and the queue that overflowed does so once more.
//!
//! Home of RFC 6937 §3, with the slow-start reduction bound; [`Prr::linux`] is what Linux made of it.

/// One recovery's account, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Prr {
    /// RecoverFS: what was outstanding when the recovery began.
    at_entry: u64,
    /// prr_delivered and prr_out.
    delivered: u64,
    out: u64,
    /// What may leave until the next acknowledgement.
    allowance: i64,
    /// As Linux: what may be on its way.
    window: Option<u64>,
}

impl Prr {
    /// A recovery begins with `flight` bytes outstanding.
    #[must_use]
    pub fn new(flight: u64) -> Self {
        Self { at_entry: flight.max(1), delivered: 0, out: 0, allowance: 0, window: None }
    }

    /// The same as Linux has it (tcp_cwnd_reduction): in proportion to the window that was, and what may leave is a
    /// window: what is found to be lost later makes room for as much.
    #[must_use]
    pub fn linux(window: u64) -> Self {
        Self { window: Some(0), ..Self::new(window) }
    }

    /// What may leave until the next acknowledgement; negative when too much has.
    #[must_use]
    pub fn allowance(&self) -> i64 {
        self.allowance
    }

    /// The same, while `pipe` bytes are on their way.
    #[must_use]
    pub fn room(&self, pipe: u64) -> i64 {
        match self.window {
            Some(window) => window as i64 - pipe as i64,
            None => self.allowance,
        }
    }

    /// An acknowledgement brought `bytes` more to the receiver; `safe`: it moved on and told of no new loss.
    pub fn on_delivered(&mut self, bytes: u64, safe: bool, ssthresh: u64, pipe: u64, mss: u64) {
        if self.window.is_some() && bytes == 0 {
            return;
        }
        self.delivered += bytes;
        self.allowance = if pipe > ssthresh {
            // In proportion, until the window is as small as it should be.
            let share =
                (u128::from(self.delivered) * u128::from(ssthresh)).div_ceil(u128::from(self.at_entry));
            i64::try_from(share).unwrap_or(i64::MAX) - self.out as i64
        } else {
            // Below it: one for one, and one more when all goes well.
            let limit = self.delivered.saturating_sub(self.out).max(bytes) + if safe { mss } else { 0 };
            (ssthresh - pipe).min(limit) as i64
        };
        if let Some(window) = &mut self.window {
            // The retransmission that began it leaves in any case.
            let least = if self.out == 0 { mss as i64 } else { 0 };
            *window = pipe.saturating_add_signed(self.allowance.max(least));
        }
    }

    /// `bytes` left.
    pub fn on_sent(&mut self, bytes: u64) {
        self.out += bytes;
        self.allowance -= bytes as i64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6937 §4, the first figure: 20 segments, one lost: 9 or 10 leave for 19 that arrive.
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

    /// As Linux: an acknowledgement that brings nothing changes nothing, what is lost meanwhile makes room, and the
    /// first retransmission leaves at once.
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

    /// The same §4, a burst of losses: never more than arrive, however far the window is above the pipe.
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
