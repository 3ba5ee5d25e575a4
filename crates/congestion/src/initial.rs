//! The congestion window at the start of a connection.
//!
//! Implements RFC 5681 §3.1 eq. 1, RFC 6928 §2, and the initial cwnd of RFC 2960, 4960 and 9260 §7.2.1.

/// A rule that determines the initial window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum InitialWindow {
    /// A number of full-sized packets.
    Packets(u32),
    /// A number of bytes.
    Bytes(u64),
    /// RFC 5681 §3.1: two to four segments, depending on the segment size.
    Rfc5681,
    /// RFC 6928 §2: min(10·MSS, max(2·MSS, 14,600)).
    Rfc6928,
    /// RFC 2960 §7.2.1: two path MTUs.
    Rfc2960,
    /// RFC 4960 §7.2.1: min(4·MTU, max(2·MTU, 4380)).
    Rfc4960,
    /// RFC 9260 §7.2.1 for IPv4: min(4·PMDCS, max(2·PMDCS, 4404)).
    Rfc9260V4,
    /// RFC 9260 §7.2.1 for IPv6: min(4·PMDCS, max(2·PMDCS, 4344)).
    Rfc9260V6,
}

impl InitialWindow {
    /// Returns the initial window in bytes for packets with a payload of `mss` bytes. The window is at least one
    /// packet.
    #[must_use]
    pub fn bytes(self, mss: u64) -> u64 {
        let within = |most: u64, floor: u64| (most * mss).min(floor.max(2 * mss));
        let bytes = match self {
            Self::Packets(n) => u64::from(n) * mss,
            Self::Bytes(n) => n,
            // RFC 5681 §3.1 eq. 1: the larger the segments are, the fewer segments the initial window has.
            Self::Rfc5681 if mss > 2_190 => 2 * mss,
            Self::Rfc5681 if mss > 1_095 => 3 * mss,
            Self::Rfc5681 => 4 * mss,
            Self::Rfc6928 => within(10, 14_600),
            Self::Rfc2960 => 2 * mss,
            Self::Rfc4960 => within(4, 4_380),
            Self::Rfc9260V4 => within(4, 4_404),
            Self::Rfc9260V6 => within(4, 4_344),
        };
        bytes.max(mss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_at_ethernet_size_and_beyond() {
        assert_eq!(InitialWindow::Rfc5681.bytes(1_460), 4_380);
        assert_eq!(InitialWindow::Rfc5681.bytes(536), 2_144);
        assert_eq!(InitialWindow::Rfc5681.bytes(8_960), 17_920);
        assert_eq!(InitialWindow::Rfc6928.bytes(1_460), 14_600);
        assert_eq!(InitialWindow::Rfc6928.bytes(536), 5_360);
        assert_eq!(InitialWindow::Rfc6928.bytes(8_960), 17_920);
        assert_eq!(InitialWindow::Rfc2960.bytes(1_500), 3_000);
        assert_eq!(InitialWindow::Rfc4960.bytes(1_500), 4_380);
        assert_eq!(InitialWindow::Rfc9260V4.bytes(1_468), 4_404);
        assert_eq!(InitialWindow::Rfc9260V6.bytes(1_448), 4_344);
        assert_eq!(InitialWindow::Rfc9260V4.bytes(536), 2_144);
        assert_eq!(InitialWindow::Packets(10).bytes(1_000), 10_000);
        assert_eq!(InitialWindow::Bytes(1).bytes(1_000), 1_000, "one packet always goes");
    }
}
