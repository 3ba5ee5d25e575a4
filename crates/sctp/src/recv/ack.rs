//! Decides when to send a SACK.
//!
//! Stores the number of packets not yet acknowledged, the reasons to acknowledge at once, and the permitted size of a
//! SACK. The delay itself is a deadline in the association's timer table.
//!
//! Implements RFC 9260 §6.2 (delayed acknowledgements) and RFC 7053 §5.2.

/// How soon a packet with DATA must be acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AckTiming {
    /// A SACK is sent with the next call of `poll_transmit`.
    Now,
    /// A SACK may be delayed.
    Later,
}

/// The size in bytes of the largest SACK, whatever the path MTU: it fits into an IP packet of 1,500 bytes. It reports
/// some 360 gaps.
pub(crate) const MAX_SACK: usize = 1_468;

/// The state of delayed acknowledgements.
#[derive(Debug)]
pub(crate) struct Ack {
    every: u32,
    delayed: bool,
    packets: u32,
    acknowledged_once: bool,
    /// Whether TSNs were missing after the last packet was processed.
    gaps: bool,
    /// Whether data was refused since the last SACK.
    refused: bool,
    /// Whether new data has arrived since the last SACK.
    has_new_data: bool,
    /// Whether a packet without new data has arrived since the last SACK.
    has_repeated_packet: bool,
    /// The total size in bytes that remains for SACKs in answer to packets without new data. The limit prevents
    /// amplification.
    allowance: usize,
    /// Properties of the chunks of the current packet, which decide when a SACK is due.
    in_packet: InPacket,
    due: bool,
}

#[derive(Clone, Copy, Default, Debug)]
struct InPacket {
    data: bool,
    new: bool,
    duplicate: bool,
    immediate: bool,
    refused: bool,
}

impl Ack {
    pub(crate) fn new(every: u32, delayed: bool) -> Self {
        Self {
            every,
            delayed,
            packets: 0,
            acknowledged_once: false,
            gaps: false,
            refused: false,
            has_new_data: false,
            has_repeated_packet: false,
            allowance: MAX_SACK,
            in_packet: InPacket::default(),
            due: false,
        }
    }

    /// Adds the size in bytes of a received packet with DATA to the allowance for SACKs that report no new data.
    pub(crate) fn count_bytes(&mut self, bytes: usize) {
        self.allowance = (self.allowance + bytes).min(MAX_SACK);
    }

    /// Returns the largest permitted size in bytes of a SACK sent now. The packet header of `header` bytes is not part
    /// of this size.
    pub(crate) fn most_bytes(&self, header: usize) -> usize {
        // RFC 9260 §6.2: a packet of duplicates is answered by an immediate SACK. If there are gaps, this SACK may be
        // forty times as large as the packet. To prevent amplification, SACKs in answer to duplicates have, in total,
        // at most as many bytes as the received packets with DATA.
        if self.is_only_repeated() { self.allowance.saturating_sub(header).min(MAX_SACK) } else { MAX_SACK }
    }

    /// Returns whether only duplicates or refused data have arrived since the last SACK.
    fn is_only_repeated(&self) -> bool {
        self.has_repeated_packet && !self.has_new_data
    }

    /// Applies changed configuration values.
    pub(crate) fn tune(&mut self, every: u32, delayed: bool) {
        self.every = every;
        self.delayed = delayed;
    }

    #[inline]
    pub(crate) fn on_new(&mut self, immediate: bool) {
        self.in_packet.data = true;
        self.in_packet.new = true;
        self.in_packet.immediate |= immediate;
    }

    pub(crate) fn on_duplicate(&mut self) {
        self.in_packet.data = true;
        self.in_packet.duplicate = true;
    }

    pub(crate) fn on_refused(&mut self) {
        self.in_packet.data = true;
        self.in_packet.refused = true;
    }

    /// Returns whether the packet contains a chunk that must be acknowledged.
    #[inline]
    pub(crate) fn packet_counts(&self) -> bool {
        self.in_packet.data
    }

    /// Ends a packet, after all of its chunks were processed. Returns when a SACK is due, or `None` if there was no
    /// DATA.
    #[inline]
    pub(crate) fn packet_done(&mut self, gaps: bool) -> Option<AckTiming> {
        let seen = std::mem::take(&mut self.in_packet);
        if !seen.data {
            return None;
        }
        self.packets += 1;
        let filled = std::mem::replace(&mut self.gaps, gaps) && !gaps;
        self.refused |= seen.refused;
        self.has_new_data |= seen.new;
        self.has_repeated_packet |= !seen.new;
        // A SACK is due at once for every second packet, for duplicates and for refused data (RFC 9260 §6.2). While
        // there is a gap, a SACK is due for every packet (§7.2.4). A SACK is also due at once for the very first DATA
        // (§5.1), and if the sender sets the I bit (RFC 7053 §5.2). A packet that fills a gap is also acknowledged at
        // once (RFC 5681 §4.2; RFC 9260 §6.2 adopts these guidelines).
        let now = !self.delayed
            || self.packets >= self.every
            || gaps
            || filled
            || seen.duplicate
            || seen.refused
            || seen.immediate
            || !self.acknowledged_once;
        if now {
            self.due = true;
            return Some(AckTiming::Now);
        }
        Some(AckTiming::Later)
    }

    /// Makes a SACK due, because the delay has expired or the receive window has opened.
    pub(crate) fn make_due(&mut self) {
        self.due = true;
    }

    /// Returns whether data was refused since the last SACK. Only a SACK can report this refusal to the peer.
    pub(crate) fn has_refused(&self) -> bool {
        self.refused
    }

    /// Returns whether a SACK must be sent.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.due
    }

    /// Returns whether a SACK may be bundled with other chunks, because some data is not acknowledged yet.
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        self.due || self.packets > 0
    }

    /// Records that a SACK was sent or is no longer needed. `bytes` is the size of the sent SACK, packet header
    /// included; 0 if no SACK was sent.
    #[inline]
    pub(crate) fn sent(&mut self, bytes: usize) {
        if self.is_only_repeated() {
            self.allowance = self.allowance.saturating_sub(bytes);
        }
        self.has_new_data = false;
        self.has_repeated_packet = false;
        self.due = false;
        self.refused = false;
        self.packets = 0;
        self.acknowledged_once = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9260 §5.1 and §6.2: the first DATA is acknowledged at once, then every second packet.
    #[test]
    fn every_second_packet_after_the_first() {
        let mut ack = Ack::new(2, true);
        ack.on_new(false);
        assert_eq!(ack.packet_done(false), Some(AckTiming::Now));
        ack.sent(28);
        ack.on_new(false);
        ack.on_new(false);
        assert_eq!(ack.packet_done(false), Some(AckTiming::Later));
        assert_eq!(ack.packet_done(false), None, "a packet without DATA");
        ack.on_new(false);
        assert_eq!(ack.packet_done(false), Some(AckTiming::Now));
        ack.sent(28);
        for event in [Ack::on_duplicate, Ack::on_refused, |ack: &mut Ack| ack.on_new(true)] {
            event(&mut ack);
            assert_eq!(ack.packet_done(false), Some(AckTiming::Now));
            ack.sent(28);
        }
        ack.on_new(false);
        assert_eq!(ack.packet_done(true), Some(AckTiming::Now), "a gap");
        ack.sent(28);
        ack.on_new(false);
        assert_eq!(ack.packet_done(false), Some(AckTiming::Now), "the gap is filled");
        ack.sent(28);
        ack.on_new(false);
        assert_eq!(ack.packet_done(false), Some(AckTiming::Later), "no gap any more");
    }
}
