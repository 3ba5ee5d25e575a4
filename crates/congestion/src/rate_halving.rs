//! Rate halving: during a recovery the window falls by one segment for every second acknowledgement.
//!
//! The sender therefore sends one segment for every second acknowledgement, instead of being silent for half of a round
//! trip. Linux 3.2 replaced rate halving by proportional rate reduction ([`Prr`](crate::Prr)). All amounts are in
//! bytes, and are multiples of the segment size.
//!
//! No RFC specifies the algorithm. It is tcp_cwnd_down of net/ipv4/tcp_input.c in Linux 2.6.12-rc2. The idea is that of
//! "The Rate-Halving Algorithm for TCP Congestion Control" (Mathis, Semke, Mahdavi, 1999).

/// The window of one recovery.
#[derive(Clone, Copy, Debug)]
pub struct RateHalving {
    window: u64,
    /// Whether the next acknowledgement lowers the window.
    lowers: bool,
}

impl RateHalving {
    /// Creates the state for a recovery that begins with a congestion window of `window` bytes.
    #[must_use]
    pub const fn new(window: u64) -> Self {
        Self { window, lowers: false }
    }

    /// Processes an acknowledgement. Every second acknowledgement lowers the window by a segment of `mss` bytes, until
    /// the window is at most half of `ssthresh`. The window never exceeds the `pipe` bytes in flight by more than a
    /// segment.
    pub fn on_ack(&mut self, ssthresh: u64, pipe: u64, mss: u64) {
        if self.lowers && self.window > ssthresh / 2 {
            self.window -= mss.min(self.window);
        }
        self.lowers = !self.lowers;
        self.window = self.window.min(pipe + mss);
    }

    /// Returns the window in bytes.
    #[must_use]
    pub const fn window(&self) -> u64 {
        self.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of ten segments is lost. Each acknowledgement of another segment lowers the number in flight by one, and the
    /// window by half a segment on average. Eight acknowledgements therefore let four segments be sent.
    #[test]
    fn every_second_acknowledgement_lowers_the_window() {
        let (mut halving, mut pipe, mut sent) = (RateHalving::new(10_000), 7_000, 0);
        for _ in 0..8 {
            halving.on_ack(5_000, pipe, 1_000);
            while pipe < halving.window() {
                (pipe, sent) = (pipe + 1_000, sent + 1);
            }
            pipe -= 1_000;
        }
        assert_eq!((halving.window(), sent), (4_000, 4));
    }
}
