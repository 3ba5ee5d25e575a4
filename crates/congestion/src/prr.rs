//! Proportional rate reduction: what leaves in a recovery follows what arrives.
//!
//! Without it, a window in which much was lost is sent again in bursts as soon
//! as the losses are known (RFC 6675 sends whatever fits under the window),
//! and the queue that overflowed does so once more.
//!
//! Home of RFC 6937 §3, with the slow-start reduction bound.

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
}

impl Prr {
    /// A recovery begins with `flight` bytes outstanding.
    #[must_use]
    pub fn new(flight: u64) -> Self {
        Self { at_entry: flight.max(1), delivered: 0, out: 0, allowance: 0 }
    }

    /// What may leave until the next acknowledgement; negative when too much has.
    #[must_use]
    pub fn allowance(&self) -> i64 {
        self.allowance
    }

    /// An acknowledgement brought `bytes` more to the receiver; `safe`: it moved on and told of no new loss.
    pub fn on_delivered(&mut self, bytes: u64, safe: bool, ssthresh: u64, pipe: u64, mss: u64) {
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
